//! Starting an object: from its plan to bytes, or to a frame with its parts.

mod arrays;
mod classes;
mod described;
mod leaf;
mod reduced;

use std::sync::{Arc, OnceLock};

use keyprint_fingerprint::Fingerprint;
use keyprint_fingerprint::stream::shape;
use keyprint_fingerprint::tag::{self, Referent};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::config::{Arrays, Mode};
use crate::describe::{Description, Form};
use crate::failure::{Failure, Walked};
use crate::fingerprint::PyFingerprint;
use crate::interned::intern;
use crate::layout::{self, Attributes};
use crate::walk::array::Elements;
use crate::walk::builtin::{self, Builtin};
use crate::walk::element;
use crate::walk::frame::{Item, Items, Opening, Source, Standing};
use crate::walk::plan::{Class, Field, Layout, Place, Plan, Rule};
use crate::walk::reduce::{self, PARTS as REDUCE, Reduction};
use crate::walk::{Known, Walk, array, classify, identity, reference, short_repr, structure};

/// Reductions of objects made by reductions nest no deeper than this.
const MOST_ENDLESS: usize = 250_000;

/// Reads a field from the instance's own attributes.
#[inline]
fn attribute<'a, 'py>(
    object: &Bound<'py, PyAny>,
    plan: &Plan,
    field: &Field,
) -> Walked<Option<Borrowed<'a, 'py, PyAny>>> {
    let py = object.py();
    Ok(match layout::attributes(object) {
        Attributes::Inline(inline) => match field.inline {
            Some(at) if inline.table() == plan.inline_table => inline.value(py, at),
            _ => (0..inline.len())
                .find(|at| inline.name(py, *at).is_some_and(|name| name.is(field.name.bind(py))))
                .and_then(|at| inline.value(py, at)),
        },
        Attributes::Dict(dict) => builtin::dict_get(dict, field.name.bind(py).as_any())?,
        Attributes::Empty | Attributes::Unknown => None,
    })
}

/// The inline values of an object, if they are laid out as when the plan was made.
#[inline]
fn inline_values(object: &Bound<'_, PyAny>, plan: &Plan) -> Option<layout::InlineValues> {
    match layout::attributes(object) {
        Attributes::Inline(inline) if inline.table() == plan.inline_table => Some(inline),
        _ => None,
    }
}

/// Reads a field from its place; `None` if it is not there.
#[inline]
pub(crate) fn field<'a, 'py>(
    object: &Bound<'py, PyAny>,
    plan: &Plan,
    field: &Field,
) -> Walked<Option<Borrowed<'a, 'py, PyAny>>> {
    Ok(match &field.place {
        Place::Attribute => attribute(object, plan, field)?,
        Place::Slot(offset) => layout::slot(object, *offset),
        Place::Item(at) if *at < builtin::tuple_len(object) => Some(builtin::tuple_item(object, *at)),
        Place::Item(_) | Place::Computed => None,
    })
}

impl<'a, 'py> Walk<'a, 'py> {
    /// Opens a value that has parts, the commonest kinds without a detour.
    #[inline]
    pub(in crate::walk) fn open_common(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &'a Known<'py>,
        standing: Standing,
    ) -> Walked<()> {
        match &known.plan.rule {
            Rule::Fields { layout, fields, extras } if known.importable => {
                self.open_fields(value, known, layout, fields, *extras, standing)
            }
            Rule::Builtin(kind) => self.open_builtin(value, *kind, standing, false),
            _ => self.open(value, known, standing),
        }
    }

    /// Opens a value that has parts, of the less common kinds.
    fn open(&mut self, value: Bound<'py, PyAny>, known: &'a Known<'py>, standing: Standing) -> Walked<()> {
        let plan = &known.plan;
        match &plan.rule {
            Rule::Fields { layout, fields, extras } => {
                let items = self.field_items(&value, plan, fields, *extras)?;
                self.open_record(value, known, layout, items, &[], standing)?;
                // The class, put in front, then the fields: paths show them by name.
                if let Source::Items(items) = &mut self.top().source {
                    items.names.push("__class__".to_owned());
                    items.names.extend(layout.names.iter().take(fields.len()).cloned());
                }
                Ok(())
            }
            Rule::Subclass { base, layout, fields, extras } => {
                let state = match fields {
                    None => self.state(plan, &value, &[])?,
                    Some(fields) => {
                        self.watch_open();
                        let mut pairs = field_pairs(&value, fields)?;
                        if *extras {
                            pairs.extend(self.state(plan, &value, fields)?);
                        }
                        pairs
                    }
                };
                let items = vec![Item::Content(value.clone(), *base), self.attributes(state)];
                self.open_record(value, known, layout, items, &["", ""], standing)
            }
            Rule::OrderedDict(layout) => {
                // The class's own order may differ from the dict's; only its `items` knows it.
                let ordered = classify::loaded(self.py, "collections", "OrderedDict");
                let pairs = ordered.expect("an instance exists").getattr("items")?.call1((&value,))?;
                let items = vec![ordered_pairs(&pairs)?, self.attributes(self.state(plan, &value, &[])?)];
                self.open_record(value, known, layout, items, &["", ""], standing)
            }
            Rule::DefaultDict(layout) => {
                let factory = value.getattr(intern!(self.py, "default_factory"))?;
                let state = self.attributes(self.state(plan, &value, &[])?);
                let items = vec![Item::Value(factory), Item::Content(value.clone(), Builtin::Dict), state];
                self.open_record(value, known, layout, items, &["default_factory", "", ""], standing)
            }
            Rule::MappingProxy(layout) => {
                self.watch_open();
                let depth = self.frames.len();
                let copy = value.call_method0(intern!(self.py, "copy"))?;
                self.open_record(value.clone(), known, layout, vec![Item::Value(copy)], &[""], standing)?;
                self.count_endless(depth, &value)
            }
            Rule::Method(layout) => {
                let items = structure::attributes(&value, &["__func__", "__self__"])?;
                self.open_record(value, known, layout, items, &["__func__", "__self__"], standing)
            }
            Rule::Object(layout) if !known.reducer => {
                if self.config.mode == Mode::Strict && value.get_type_ptr() == &raw mut ffi::PyBaseObject_Type
                {
                    return Err(no_value());
                }
                let items = vec![self.attributes(self.state(plan, &value, &[])?)];
                self.open_record(value, known, layout, items, &[""], standing)
            }
            Rule::Reduce(layout) => self.open_reduced(value, known, layout, standing),
            Rule::Object(_) | Rule::BuiltinFunction => {
                self.open_reduced(value, known, &Layout::of_reduction(&plan.class), standing)
            }
            Rule::Namespace(layout) => self.open_namespace(value, known, layout, standing),
            Rule::Enum { layout, base } => self.open_enum(value, layout, base, standing),
            Rule::Type => self.open_class(value, standing),
            Rule::Function => {
                let items = structure::function(&value)?;
                self.open_structure(value, "function", structure::FUNCTION, items, standing)
            }
            Rule::Code(layout) => {
                let items = structure::attributes(&value, structure::CODE)?;
                self.open_record(value, known, layout, items, structure::CODE, standing)
            }
            Rule::Property(layout) => {
                let items = structure::attributes(&value, structure::PROPERTY)?;
                self.open_record(value, known, layout, items, structure::PROPERTY, standing)
            }
            Rule::WrappedFunction(layout) => {
                let items = structure::attributes(&value, &["__func__"])?;
                self.open_record(value, known, layout, items, &["__func__"], standing)
            }
            Rule::Cell(layout) => {
                let items = structure::cell(&value);
                self.open_record(value, known, layout, items, &["cell_contents"], standing)
            }
            Rule::Ndarray(layout) => self.open_numpy(value, known, layout, standing),
            Rule::NumpyDtype(layout) => self.open_dtype(value, known, layout, standing),
            Rule::ForeignArray(layout) => self.open_foreign(value, known, layout, standing),
            Rule::Buffer(layout) => self.open_buffer(value, known, layout, standing),
            Rule::Mock if self.config.mode == Mode::Lenient => self.write_identity(&value),
            Rule::Mock => Err(reduce::not_reducible(plan)),
            Rule::Described(rule) => self.open_described(value, known, rule.bind(self.py).clone(), standing),
            Rule::Builtin(_) => unreachable!("builtins are common"),
            Rule::None
            | Rule::Bool
            | Rule::Constant(_)
            | Rule::Fingerprint
            | Rule::Module
            | Rule::NumpyScalar => unreachable!("leaves are written before anything is opened"),
        }
    }

    /// Opens an object by fields. Leading fields without parts are written at once; an object that
    /// has no others never becomes a frame.
    fn open_fields(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &'a Known<'py>,
        layout: &Layout,
        fields: &[Field],
        extras: bool,
        standing: Standing,
    ) -> Walked<()> {
        if let Some(Field { place: Place::Item(_), .. }) = fields.first()
            && builtin::tuple_len(&value) != known.plan.items
        {
            let count = builtin::tuple_len(&value);
            let message = format!("a named tuple of {} fields has {count} items", known.plan.items);
            return Err(Failure::refuse("malformed-reduction", message));
        }
        let mark = self.stream.open_record(&layout.digest);
        let opening = Opening::new(fields.len() + usize::from(extras), mark, standing);
        if !self.direct {
            return self.push(Source::Fields(known), value, opening);
        }
        let mut inline = inline_values(&value, &known.plan);
        for (at, place) in fields.iter().enumerate() {
            let child = match (&inline, place.inline, &place.place) {
                (Some(inline), Some(at), Place::Attribute) => inline.value(self.py, at),
                _ => field(&value, &known.plan, place)?,
            };
            if let Some(child) = child {
                if self.write_direct(child) {
                    continue;
                }
                let others = builtin::references(child);
                // Owned, because what is not known about its type yet is found out in Python, which
                // may also move the attributes.
                let child = child.to_owned();
                let child_known = self.known(&child)?;
                if !child_known.plan.composite && self.write_leaf(&child, child_known)? {
                    inline = inline_values(&value, &known.plan);
                    continue;
                }
                self.push(Source::Fields(known), value, Opening { at: at + 1, ..opening })?;
                self.pending = Some((child, child_known, others));
                return Ok(());
            }
            return self.push(Source::Fields(known), value, Opening { at, ..opening });
        }
        if extras {
            return self.push(Source::Fields(known), value, Opening { at: fields.len(), ..opening });
        }
        self.stream.close(mark);
        self.remember_leaf(value, mark, standing);
        Ok(())
    }

    /// Remembers an object that turned out to have no parts that could lead back to it.
    fn remember_leaf(&mut self, value: Bound<'py, PyAny>, mark: usize, standing: Standing) {
        if standing.tracked {
            let span = self.store(mark);
            self.memo.leaf(value.as_ptr() as usize, span);
            self.kept.push(value);
        }
    }

    /// Opens what an object holds as an instance of a builtin.
    pub(in crate::walk) fn open_builtin(
        &mut self,
        value: Bound<'py, PyAny>,
        kind: Builtin,
        standing: Standing,
        part: bool,
    ) -> Walked<()> {
        match kind {
            Builtin::List => self.open_sequence(value, Source::List, tag::LIST, standing, part),
            Builtin::Tuple => self.open_sequence(value, Source::Tuple, tag::TUPLE, standing, part),
            Builtin::Dict if self.config.observable => {
                let mut pairs = Vec::with_capacity(builtin::dict_len(&value));
                let mut position = 0;
                while let Some((key, item)) = builtin::dict_next(&value, &mut position) {
                    pairs.push((key.to_owned(), item.to_owned()));
                }
                let mark = self.stream.open(tag::ITEMS, pairs.len());
                let opening = Opening { part, ..Opening::new(2 * pairs.len(), mark, standing) };
                self.push(Source::Pairs { pairs, attributes: false }, value, opening)
            }
            Builtin::Dict => {
                let len = builtin::dict_len(&value);
                let mark = self.stream.open(tag::DICT, len);
                let source = Source::Dict { position: 0, key: None, pending: None };
                let opening = Opening { ordered: false, part, ..Opening::new(len, mark, standing) };
                self.push(source, value, opening)
            }
            Builtin::Set | Builtin::FrozenSet => {
                let values = builtin::set_elements(kind, &value)?;
                let tag = if kind == Builtin::Set { tag::SET } else { tag::FROZENSET };
                let mark = self.stream.open(tag, values.len());
                let opening = Opening { ordered: false, part, ..Opening::new(values.len(), mark, standing) };
                self.push(Source::Values(values), value, opening)
            }
            leaf => self.write_builtin(&value, leaf),
        }
    }

    /// Opens a list or tuple. Leading items without parts are written at once; one that has no
    /// others never becomes a frame.
    fn open_sequence(
        &mut self,
        value: Bound<'py, PyAny>,
        source: Source<'a, 'py>,
        tag: u8,
        standing: Standing,
        part: bool,
    ) -> Walked<()> {
        /// Longer ones are left to the loop, which looks at signals.
        const MOST_AT_ONCE: usize = 1024;
        let is_list = tag == tag::LIST;
        let len = if is_list { builtin::list_len(&value) } else { builtin::tuple_len(&value) };
        let mark = self.stream.open(tag, len);
        let mut at = 0;
        if self.direct {
            while at < len.min(MOST_AT_ONCE) {
                let child =
                    if is_list { builtin::list_item(&value, at) } else { builtin::tuple_item(&value, at) };
                if !self.write_direct(child) {
                    break;
                }
                at += 1;
            }
            if at == len {
                self.stream.close(mark);
                self.remember_leaf(value, mark, standing);
                return Ok(());
            }
        }
        self.push(source, value, Opening { at, part, ..Opening::new(len, mark, standing) })
    }

    pub(in crate::walk) fn open_values(
        &mut self,
        owner: &Bound<'py, PyAny>,
        tag: u8,
        values: Vec<Bound<'py, PyAny>>,
    ) -> Walked<()> {
        let mark = self.stream.open(tag, values.len());
        let opening = Opening::new(values.len(), mark, self.part_standing());
        let opening = Opening { ordered: tag != tag::MULTISET, part: true, ..opening };
        self.push(Source::Values(values), owner.clone(), opening)
    }

    pub(in crate::walk) fn open_pairs(
        &mut self,
        owner: &Bound<'py, PyAny>,
        tag: u8,
        pairs: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
        attributes: bool,
    ) -> Walked<()> {
        let mark = self.stream.open(tag, pairs.len());
        let opening = Opening::new(2 * pairs.len(), mark, self.part_standing());
        let opening = Opening { ordered: tag != tag::DICT, part: true, ..opening };
        self.push(Source::Pairs { pairs, attributes }, owner.clone(), opening)
    }

    fn part_standing(&self) -> Standing {
        let fresh = self.frames.last().is_some_and(|frame| frame.place.fresh);
        Standing { tracked: false, fresh }
    }

    /// Opens a record of parts under the object's class, by name or, leniently, by structure.
    fn open_record(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        mut items: Vec<Item<'py>>,
        labels: &'static [&'static str],
        standing: Standing,
    ) -> Walked<()> {
        let mark = if known.importable {
            self.stream.open_record(&layout.digest)
        } else if self.config.mode == Mode::Strict {
            return Err(known.unnamed());
        } else {
            self.durable = false;
            items.insert(0, Item::Value(known.class.clone().into_any()));
            let mark = self.stream.begin(tag::LOCAL_RECORD);
            self.stream.name(layout.kind);
            self.stream.length(layout.names.len());
            for name in &layout.names {
                self.stream.name(name);
            }
            mark
        };
        let labels = if known.importable { labels } else { with_class(labels) };
        self.push_items(value, items, labels, mark, standing)
    }

    /// Opens a record that belongs to no class.
    fn open_structure(
        &mut self,
        value: Bound<'py, PyAny>,
        kind: &'static str,
        names: &'static [&'static str],
        items: Vec<Item<'py>>,
        standing: Standing,
    ) -> Walked<()> {
        self.durable = false;
        let mark = self.stream.open_record(&shape(kind, "", "", names));
        self.push_items(value, items, names, mark, standing)
    }

    fn push_items(
        &mut self,
        value: Bound<'py, PyAny>,
        items: Vec<Item<'py>>,
        labels: &'static [&'static str],
        mark: usize,
        standing: Standing,
    ) -> Walked<()> {
        let len = items.len();
        let source = Source::Items(Box::new(Items { items, labels, names: Vec::new() }));
        self.push(source, value, Opening::new(len, mark, standing))
    }

    fn field_items(
        &mut self,
        value: &Bound<'py, PyAny>,
        plan: &Plan,
        fields: &[Field],
        extras: bool,
    ) -> Walked<Vec<Item<'py>>> {
        let mut items = Vec::new();
        for field in fields {
            items.push(field_value(value, field)?.map_or(Item::Absent, Item::Value));
        }
        if extras {
            items.push(self.attributes(self.state(plan, value, fields)?));
        }
        self.watch_open();
        Ok(items)
    }

    /// The attributes and slots of an instance that count.
    fn state(
        &self,
        plan: &Plan,
        value: &Bound<'py, PyAny>,
        except: &[Field],
    ) -> Walked<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        plan.state(value, except, self.config.observable)
    }

    fn attributes(&self, pairs: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>) -> Item<'py> {
        let tag = if self.config.observable { tag::ITEMS } else { tag::DICT };
        Item::Pairs { tag, pairs, attributes: true }
    }

    fn write_identity(&mut self, value: &Bound<'py, PyAny>) -> Walked<()> {
        let token = identity::token(value)?;
        self.durable = false;
        self.stream.identity(&token);
        Ok(())
    }
}

/// The parts of something that goes by a name which does not lead to it.
const NAMED: [&str; 5] = ["module", "name", "__wrapped__", "__bound__", "__constraints__"];

/// Labels for the same parts after the class has been put in front of them.
fn with_class(labels: &'static [&'static str]) -> &'static [&'static str] {
    match labels {
        REDUCE => &["__class__", "function", "arguments", "state", "items", "pairs", "setter"],
        _ => &["__class__", "", "", ""],
    }
}

/// What has identity and nothing else.
fn no_value() -> Failure {
    Failure::refuse("no-value", "a plain `object()` has an identity and no value: all of them look the same")
        .hint("use a member of an enum, or an instance of a class that has a name")
}

fn ordered_pairs<'py>(pairs: &Bound<'py, PyAny>) -> Walked<Item<'py>> {
    let mut listed = Vec::new();
    for pair in pairs.try_iter()? {
        let pair = pair?.cast_into::<PyTuple>().map_err(PyErr::from)?;
        listed.push((pair.get_item(0)?, pair.get_item(1)?));
    }
    Ok(Item::Pairs { tag: tag::ITEMS, pairs: listed, attributes: false })
}

fn field_value<'py>(object: &Bound<'py, PyAny>, field: &Field) -> PyResult<Option<Bound<'py, PyAny>>> {
    reduce::optional(object, field.name.bind(object.py()))
}

fn field_pairs<'py>(
    object: &Bound<'py, PyAny>,
    fields: &[Field],
) -> Walked<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    let mut pairs = Vec::new();
    for field in fields {
        if let Some(value) = field_value(object, field)? {
            pairs.push((field.name.bind(object.py()).clone().into_any(), value));
        }
    }
    Ok(pairs)
}

fn is_enum_class(class: &Bound<'_, PyType>) -> PyResult<bool> {
    match classify::loaded(class.py(), "enum", "EnumMeta") {
        Some(meta) => class.is_instance(&meta),
        None => Ok(false),
    }
}
