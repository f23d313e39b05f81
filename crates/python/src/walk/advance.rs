//! Taking the next children of the top frame, by where they come from.

use super::*;

impl<'a, 'py> Walk<'a, 'py> {
    /// Takes children of the top frame until one of them opens a frame, or none is left.
    #[inline]
    pub(super) fn advance(&mut self) -> Walked<()> {
        match self.top().source {
            Source::List => self.advance_list(),
            Source::Tuple => self.advance_tuple(),
            Source::Dict { .. } => self.advance_dict(),
            Source::Fields(_) => self.advance_fields(),
            Source::Values(_) => self.advance_values(),
            Source::Pairs { .. } => self.advance_pairs(),
            Source::Items(_) => self.advance_items(),
        }
    }

    pub(super) fn advance_list(&mut self) -> Walked<()> {
        let depth = self.frames.len();
        loop {
            let direct = self.direct;
            let frame = self.top();
            if builtin::list_len(&frame.owner) != frame.len {
                return Err(changed("list"));
            }
            if frame.at == frame.len {
                return self.close();
            }
            let child = builtin::list_item(&frame.owner, frame.at);
            frame.at += 1;
            if direct && self.write_direct(child) {
                if self.tick() {
                    continue;
                }
                return Ok(());
            }
            self.visit_other(child, 0)?;
            if self.frames.len() != depth {
                return Ok(());
            }
        }
    }

    pub(super) fn advance_tuple(&mut self) -> Walked<()> {
        let depth = self.frames.len();
        loop {
            let frame = self.top();
            if frame.at == frame.len {
                return self.close();
            }
            let child = builtin::tuple_item(&frame.owner, frame.at);
            frame.at += 1;
            self.visit(child, 0)?;
            if self.frames.len() != depth || !self.tick() {
                return Ok(());
            }
        }
    }

    pub(super) fn advance_dict(&mut self) -> Walked<()> {
        let depth = self.frames.len();
        loop {
            let mark = self.stream.mark();
            let direct = self.direct;
            let frame = self.frames.last_mut().expect("the walk is not over");
            let Source::Dict { position, key, pending } = &mut frame.source else { unreachable!() };
            if let Some(value) = pending.take() {
                // The key was composite and is closed now.
                self.visit(value.as_borrowed(), 1)?;
                if self.frames.len() != depth {
                    return Ok(());
                }
                continue;
            }
            if key.is_some() {
                *key = None;
            }
            if builtin::dict_len(&frame.owner) != frame.len {
                return Err(changed("dict"));
            }
            let Some((name, value)) = builtin::dict_next(&frame.owner, position) else {
                if frame.at != frame.len {
                    return Err(changed("dict"));
                }
                return self.close();
            };
            frame.at += 1;
            self.entries.push(mark);
            if direct && self.write_direct(name) {
                if self.write_direct(value) {
                    if self.tick() {
                        continue;
                    }
                    return Ok(());
                }
                let value = value.to_owned();
                let name = name.to_owned();
                self.set_dict(Some(name), None);
                self.visit_other(value.as_borrowed(), 1)?;
            } else {
                let (name, value) = (name.to_owned(), value.to_owned());
                self.set_dict(Some(name.clone()), Some(value));
                self.visit_key(&name)?;
            }
            if self.frames.len() != depth {
                return Ok(());
            }
        }
    }

    pub(super) fn set_dict(&mut self, name: Option<Bound<'py, PyAny>>, value: Option<Bound<'py, PyAny>>) {
        if let Source::Dict { key, pending, .. } = &mut self.top().source {
            *key = name;
            *pending = value;
        }
    }

    pub(super) fn advance_fields(&mut self) -> Walked<()> {
        let depth = self.frames.len();
        let known = match &self.top().source {
            Source::Fields(known) => *known,
            _ => unreachable!("the caller looked"),
        };
        let Rule::Fields { fields, extras, .. } = &known.plan.rule else {
            unreachable!("only types with fields are read by fields")
        };
        loop {
            let frame = self.top();
            let at = frame.at;
            if at == frame.len {
                return self.close();
            }
            frame.at += 1;
            let Some(field) = fields.get(at) else {
                debug_assert!(*extras);
                let owner = frame.owner.clone();
                let pairs = known.plan.state(&owner, fields, self.config.observable)?;
                let tag = if self.config.observable { tag::ITEMS } else { tag::DICT };
                return self.open_pairs(&owner, tag, pairs, true);
            };
            let value = open::field(&frame.owner, &known.plan, field)?;
            match value {
                Some(value) => self.visit(value, 0)?,
                None if !field.may_be_computed() => self.absent(),
                None => self.visit_computed(field)?,
            }
            if self.frames.len() != depth {
                return Ok(());
            }
        }
    }

    /// A field that only `getattr` finds: a class default, a property, a descriptor.
    pub(super) fn visit_computed(&mut self, field: &plan::Field) -> Walked<()> {
        let owner = self.top().owner.clone();
        match reduce::optional(&owner, field.name.bind(self.py))? {
            None => {
                self.absent();
                Ok(())
            }
            Some(value) => {
                self.watch_open();
                let depth = self.frames.len();
                self.visit(value.as_borrowed(), 1)?;
                self.count_endless(depth, &value)
            }
        }
    }

    pub(super) fn advance_values(&mut self) -> Walked<()> {
        let depth = self.frames.len();
        loop {
            let mark = self.stream.mark();
            let frame = self.top();
            if frame.at == frame.len {
                return self.close();
            }
            let Source::Values(values) = &frame.source else { unreachable!() };
            let value = values[frame.at].clone();
            frame.at += 1;
            if frame.entries.is_some() {
                self.entries.push(mark);
            }
            // Held twice: among the values, and here.
            self.visit(value.as_borrowed(), 2)?;
            if self.frames.len() != depth || !self.tick() {
                return Ok(());
            }
        }
    }

    pub(super) fn advance_pairs(&mut self) -> Walked<()> {
        let depth = self.frames.len();
        loop {
            let mark = self.stream.mark();
            let frame = self.top();
            if frame.at == frame.len {
                return self.close();
            }
            let Source::Pairs { pairs, .. } = &frame.source else { unreachable!() };
            let (name, value) = &pairs[frame.at / 2];
            let is_key = frame.at.is_multiple_of(2);
            let child = if is_key { name.clone() } else { value.clone() };
            frame.at += 1;
            if is_key {
                if frame.entries.is_some() {
                    self.entries.push(mark);
                }
                self.visit_key(&child)?;
            } else {
                self.visit(child.as_borrowed(), 2)?;
            }
            if self.frames.len() != depth {
                return Ok(());
            }
        }
    }

    pub(super) fn advance_items(&mut self) -> Walked<()> {
        let depth = self.frames.len();
        loop {
            let frame = self.top();
            if frame.at == frame.len {
                return self.close();
            }
            let owner = frame.owner.clone();
            let Source::Items(items) = &mut frame.source else { unreachable!() };
            let item = std::mem::replace(&mut items.items[frame.at], Item::Absent);
            frame.at += 1;
            match item {
                Item::None => self.stream.none(),
                Item::Bool(value) => self.stream.bool(value),
                Item::Absent => self.absent(),
                Item::Bytes(bytes) => self.stream.blob_bytes(&bytes),
                Item::Value(value) => self.visit(value.as_borrowed(), 1)?,
                Item::Content(object, kind) => {
                    self.open_builtin(object, kind, Standing { tracked: false, fresh: false }, true)?;
                }
                Item::Sequence(tag, values) => self.open_values(&owner, tag, values)?,
                Item::Pairs { tag, pairs, attributes } => self.open_pairs(&owner, tag, pairs, attributes)?,
            }
            if self.frames.len() != depth {
                return Ok(());
            }
        }
    }

    /// Counts a step inside a long run of leaves; false when it is time to look at signals.
    #[inline]
    pub(super) fn tick(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps != 0
    }
}

pub(super) fn changed(what: &str) -> Failure {
    Failure::refuse("changed", format!("the {what} changed while it was read"))
        .hint("do not modify a value from a rule, a reduction or another thread while it is fingerprinted")
}
