//! Objects that only their reduction describes, and the limit on what reductions may make.

use super::*;

impl<'a, 'py> Walk<'a, 'py> {
    pub(super) fn open_reduced(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        standing: Standing,
    ) -> Walked<()> {
        self.watch_open();
        match reduce::reduce(&value, &known.plan)? {
            Reduction::Name(module, name) => self.open_reduced_name(value, known, &module, &name, standing),
            Reduction::Parts(items) => {
                let depth = self.frames.len();
                self.open_record(value.clone(), known, layout, items, REDUCE, standing)?;
                self.count_endless(depth, &value)
            }
        }
    }

    /// An object that reduces to a name: by that name or, leniently, by what it wraps.
    pub(super) fn open_reduced_name(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        module: &str,
        name: &str,
        standing: Standing,
    ) -> Walked<()> {
        if reference::resolves(&value, module, name)? {
            self.stream.reference(Referent::Object, module, name);
            return Ok(());
        }
        if self.config.mode == Mode::Strict {
            return Err(reference::not_importable(Referent::Object, module, name));
        }
        self.durable = false;
        let mut items = vec![Item::Bytes(module.as_bytes().to_vec()), Item::Bytes(name.as_bytes().to_vec())];
        items.extend(structure::attributes(&value, structure::NAMED)?);
        let class = &known.plan.class;
        let mark = self.stream.open_record(&shape("named", &class.module, &class.qualname, &NAMED));
        self.push_items(value, items, &NAMED, mark, standing)
    }

    /// Notes that the frame at `depth` shows what Python code made of an object. An object that was
    /// itself made that way, out of one that was, and so on, is taken to have no end.
    pub(in crate::walk) fn count_endless(&mut self, depth: usize, value: &Bound<'py, PyAny>) -> Walked<()> {
        let Some(frame) = self.frames.get_mut(depth) else { return Ok(()) };
        self.handed += usize::from(!frame.handed);
        frame.handed = true;
        self.endless += usize::from(frame.place.fresh && !frame.endless);
        frame.endless |= frame.place.fresh;
        // What is in it counts as made during this walk, unless others refer to it too.
        frame.place.fresh = true;
        if self.endless <= MOST_ENDLESS {
            return Ok(());
        }
        let class = Class::of(&value.get_type())?;
        Err(Failure::refuse(
            "endless-reduction",
            format!("describing a `{}.{}` makes new objects without end", class.module, class.qualname),
        )
        .hint("register a rule for the class that describes it by values it already has"))
    }
}
