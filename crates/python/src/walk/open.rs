//! Starting an object: from its plan to bytes, or to a frame with its parts.

use std::sync::{Arc, OnceLock};

use keyprint_fingerprint::Fingerprint;
use keyprint_fingerprint::stream::shape;
use keyprint_fingerprint::tag::{self, Referent};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};

use super::array::Elements;
use super::builtin::{self, Builtin};
use super::element::{Descriptor, Element};
use super::frame::{Item, Items, Opening, Source, Standing};
use super::layout::{self, Attributes};
use super::plan::{Class, Field, Layout, Place, Plan, Rule};
use super::reduce::{self, Reduction};
use super::{Known, Walk, array, classify, identity, reference, short_repr, structure};
use crate::config::{Arrays, Mode};
use crate::describe::{Description, Form};
use crate::failure::{Failure, Walked};
use crate::fingerprint::PyFingerprint;

/// Reductions of objects made by reductions nest no deeper than this.
const MOST_ENDLESS: usize = 10_000;

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
    /// Writes a value that has no parts; false if it has some.
    pub(super) fn write_leaf(&mut self, value: &Bound<'py, PyAny>, known: &Known<'py>) -> Walked<bool> {
        match &known.plan.rule {
            Rule::None => self.stream.none(),
            Rule::Bool => self.stream.bool(value.is_truthy()?),
            Rule::Builtin(Builtin::ByteArray) => {
                let mark = self.stream.open_record(bytearray_shape());
                self.write_builtin(value, Builtin::ByteArray)?;
                self.stream.close(mark);
            }
            Rule::Builtin(kind) if kind.is_leaf() => self.write_builtin(value, *kind)?,
            Rule::Constant(name) => self.stream.reference(Referent::Object, "builtins", name),
            Rule::Fingerprint => self.write_fingerprint(value)?,
            Rule::Subclass { base, layout, fields: None, .. } if base.is_leaf() && known.importable => {
                if !known.plan.bare && !known.plan.state(value, &[])?.is_empty() {
                    return Ok(false);
                }
                let mark = self.stream.open_record(&layout.digest);
                self.write_builtin(value, *base)?;
                self.stream.open(tag::DICT, 0);
                self.stream.close(mark);
            }
            Rule::Type => return self.write_class(value.cast().map_err(PyErr::from)?),
            Rule::Function => return self.write_named(value, Referent::Function),
            Rule::BuiltinFunction => {
                let owner = value.getattr(intern!(self.py, "__self__"))?;
                if !owner.is_none() && !owner.is_instance_of::<pyo3::types::PyModule>() {
                    return Ok(false);
                }
                return self.write_named(value, Referent::Function);
            }
            Rule::Module => self.write_module(value)?,
            Rule::NumpyScalar => self.write_numpy_scalar(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn write_builtin(&mut self, value: &Bound<'py, PyAny>, kind: Builtin) -> Walked<()> {
        builtin::write_leaf(&mut self.stream, &mut self.scratch, kind, value.as_borrowed())
    }

    fn write_fingerprint(&mut self, value: &Bound<'py, PyAny>) -> Walked<()> {
        let fingerprint = value.cast::<PyFingerprint>().map_err(PyErr::from)?.get();
        if !fingerprint.durable {
            if self.config.mode == Mode::Strict {
                return Err(Failure::refuse("not-durable", "a fingerprint inside the value is not durable")
                    .hint("make it in strict mode, or use mode=\"lenient\" here too"));
            }
            self.durable = false;
        }
        self.stream.fingerprint(&fingerprint.digest);
        Ok(())
    }

    /// Writes a class by name; false if only its structure can stand for it.
    fn write_class(&mut self, class: &Bound<'py, PyType>) -> Walked<bool> {
        if is_enum_class(class)? {
            return Ok(false);
        }
        let name = Class::of(class)?;
        if reference::class_is_named(class, &name)? {
            self.stream.reference(Referent::Class, &name.module, &name.qualname);
            return Ok(true);
        }
        self.write_named(class.as_any(), Referent::Class)
    }

    /// Writes something by its name; false if there is none and structure may stand for it.
    fn write_named(&mut self, value: &Bound<'py, PyAny>, referent: Referent) -> Walked<bool> {
        let (module, qualname) = reference::name_of(value)?;
        if reference::resolves(value, &module, &qualname)? {
            self.stream.reference(referent, &module, &qualname);
            return Ok(true);
        }
        if self.config.mode == Mode::Strict {
            return Err(reference::not_importable(referent, &module, &qualname));
        }
        if value.get_type_ptr() == &raw mut ffi::PyCFunction_Type {
            // Native code has no structure to look at; its name is all there is.
            self.durable = false;
            self.stream.reference(referent, &module, &qualname);
            return Ok(true);
        }
        Ok(false)
    }

    fn write_module(&mut self, module: &Bound<'py, PyAny>) -> Walked<()> {
        let (name, _) = reference::name_of(module)?;
        if !reference::is_loaded_module(module, &name)? {
            if self.config.mode == Mode::Strict {
                return Err(reference::not_importable(Referent::Module, &name, ""));
            }
            // Two modules of one name would be taken for one: the very object stands for itself.
            self.durable = false;
            let token = identity::token(module)?;
            self.stream.identity(&token);
            return Ok(());
        }
        self.stream.reference(Referent::Module, &name, "");
        Ok(())
    }

    /// Opens a value that has parts, the commonest kinds without a detour.
    #[inline]
    pub(super) fn open_common(
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

    /// Opens a value that has parts.
    fn open(&mut self, value: Bound<'py, PyAny>, known: &'a Known<'py>, standing: Standing) -> Walked<()> {
        let plan = &known.plan;
        match &plan.rule {
            Rule::Builtin(kind) => self.open_builtin(value, *kind, standing, false),
            Rule::Fields { layout, fields, extras } => {
                if known.importable {
                    return self.open_fields(value, known, layout, fields, *extras, standing);
                }
                let items = self.field_items(&value, plan, fields, *extras)?;
                self.open_record(value, known, layout, items, &[], standing)
            }
            Rule::Subclass { base, layout, fields, extras } => {
                let state = match fields {
                    None => plan.state(&value, &[])?,
                    Some(fields) => {
                        self.watch_open();
                        let mut pairs = field_pairs(&value, fields)?;
                        if *extras {
                            pairs.extend(plan.state(&value, fields)?);
                        }
                        pairs
                    }
                };
                let items = vec![Item::Content(value.clone(), *base), attributes(state)];
                self.open_record(value, known, layout, items, &["", ""], standing)
            }
            Rule::OrderedDict(layout) => {
                // The class's own order may differ from the dict's; only its `items` knows it.
                let ordered = classify::loaded(self.py, "collections", "OrderedDict");
                let pairs = ordered.expect("an instance exists").getattr("items")?.call1((&value,))?;
                let items = vec![ordered_pairs(&pairs)?, attributes(plan.state(&value, &[])?)];
                self.open_record(value, known, layout, items, &["", ""], standing)
            }
            Rule::DefaultDict(layout) => {
                let factory = value.getattr(intern!(self.py, "default_factory"))?;
                let state = attributes(plan.state(&value, &[])?);
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
                let items = vec![attributes(plan.state(&value, &[])?)];
                self.open_record(value, known, layout, items, &[""], standing)
            }
            Rule::Object(layout) | Rule::Reduce(layout) => self.open_reduced(value, known, layout, standing),
            Rule::BuiltinFunction => {
                let reduce = Layout::new(
                    "reduce",
                    &plan.class,
                    REDUCE.iter().map(|name| (*name).to_owned()).collect(),
                );
                self.open_reduced(value, known, &reduce, standing)
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
            let found = builtin::tuple_len(&value);
            let message = format!("a named tuple of {} fields has {found} items", known.plan.items);
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
    pub(super) fn open_builtin(
        &mut self,
        value: Bound<'py, PyAny>,
        kind: Builtin,
        standing: Standing,
        part: bool,
    ) -> Walked<()> {
        match kind {
            Builtin::List => self.open_sequence(value, Source::List, tag::LIST, standing, part),
            Builtin::Tuple => self.open_sequence(value, Source::Tuple, tag::TUPLE, standing, part),
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

    pub(super) fn open_values(
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

    pub(super) fn open_pairs(
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
            let class = &known.plan.class;
            return Err(reference::not_importable(Referent::Class, &class.module, &class.qualname));
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
        let source = Source::Items(Box::new(Items { items, labels }));
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
            items.push(attributes(plan.state(value, fields)?));
        }
        self.watch_open();
        Ok(items)
    }

    fn open_reduced(
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
                if layout.kind == "reduce" {
                    self.open_record(value.clone(), known, layout, items, REDUCE, standing)?;
                } else {
                    let names = REDUCE.iter().map(|name| (*name).to_owned()).collect();
                    let layout = Layout::new("reduce", &known.plan.class, names);
                    self.open_record(value.clone(), known, &layout, items, REDUCE, standing)?;
                }
                self.count_endless(depth, &value)
            }
        }
    }

    /// An object that reduces to a name: by that name or, leniently, by what it wraps.
    fn open_reduced_name(
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
    pub(super) fn count_endless(&mut self, depth: usize, value: &Bound<'py, PyAny>) -> Walked<()> {
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

    /// A namespace by content; a class without a name contributes its own data instead.
    fn open_namespace(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        standing: Standing,
    ) -> Walked<()> {
        let state = attributes(known.plan.state(&value, &[])?);
        if known.importable {
            let mark = self.stream.open_record(&layout.digest);
            return self.push_items(value, vec![state], &[""], mark, standing);
        }
        let mut pairs = Vec::new();
        for base in known.class.mro() {
            let Ok(base) = base.cast_into::<PyType>() else { continue };
            if reference::class_is_named(&base, &Class::of(&base)?)? {
                break;
            }
            pairs.extend(structure::namespace_class(&base)?);
        }
        let class = &known.plan.class;
        let mark = self.stream.open_record(&shape(
            "local namespace",
            &class.module,
            &class.qualname,
            &["data", "state"],
        ));
        self.push_items(value, vec![attributes(pairs), state], &["", ""], mark, standing)
    }

    fn open_enum(
        &mut self,
        member: Bound<'py, PyAny>,
        layout: &Layout,
        base: &str,
        standing: Standing,
    ) -> Walked<()> {
        let py = self.py;
        let name = member.getattr(intern!(py, "_name_"))?;
        let members = member.get_type().getattr(intern!(py, "__members__"))?;
        // A combination of flags has a made-up name, or none, depending on the interpreter's version.
        let name = if !name.is_none() && members.contains(&name)? { Item::Value(name) } else { Item::None };
        let value = Item::Value(member.getattr(intern!(py, "_value_"))?);
        let mark = self.stream.open_record(&layout.digest);
        let base = Item::Bytes(base.as_bytes().to_vec());
        self.push_items(member, vec![base, name, value], &["", "name", "value"], mark, standing)
    }

    fn open_class(&mut self, value: Bound<'py, PyAny>, standing: Standing) -> Walked<()> {
        let class = value.cast::<PyType>().map_err(PyErr::from)?;
        if !is_enum_class(class)? {
            let items = structure::class(class)?;
            return self.open_structure(value, "type", structure::TYPE, items, standing);
        }
        let Class { module, qualname } = Class::of(class)?;
        let mut pairs = Vec::new();
        for pair in class.getattr("__members__")?.call_method0("items")?.try_iter()? {
            let (name, member): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair?.extract()?;
            pairs.push((name, member.getattr("_value_")?));
        }
        let mark = self.stream.open_record(&shape("enum class", &module, &qualname, &["members"]));
        let members = Item::Pairs { tag: tag::ITEMS, pairs, attributes: true };
        self.push_items(value, vec![members], &[""], mark, standing)
    }

    fn open_numpy(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        standing: Standing,
    ) -> Walked<()> {
        if self.config.arrays == Arrays::Identity {
            return self.write_identity(&value);
        }
        let dtype = value.getattr(intern!(self.py, "dtype"))?;
        let plain = layout.kind == "array";
        if plain {
            return match Element::of_dtype(&dtype, 0)? {
                Some(element) => self.write_elements(&Elements::of_numpy(&value, element)?),
                None => self.open_object_array(value, standing),
            };
        }
        // A subclass: the array inside it, and its state.
        let base = classify::loaded(self.py, "numpy", "ndarray").expect("an instance exists");
        let content = value.call_method1(intern!(self.py, "view"), (base,))?;
        let items = vec![Item::Value(content), attributes(known.plan.state(&value, &[])?)];
        self.open_record(value, known, layout, items, &["", ""], standing)
    }

    fn write_elements(&mut self, elements: &Elements<'py>) -> Walked<()> {
        match self.config.arrays {
            Arrays::Spec => {
                elements.write_spec(&mut self.stream);
                Ok(())
            }
            _ => elements.write(&mut self.stream),
        }
    }

    fn open_object_array(&mut self, value: Bound<'py, PyAny>, standing: Standing) -> Walked<()> {
        let shape: Vec<usize> = value.getattr(intern!(self.py, "shape"))?.extract()?;
        if self.config.arrays == Arrays::Spec {
            let object = Descriptor::Plain("O".to_owned());
            array::write_spec(&mut self.stream, &object, shape.len(), "C", &[], None);
            return Ok(());
        }
        let flat = value.call_method1(intern!(self.py, "reshape"), (-1,))?;
        let values: Vec<Bound<'py, PyAny>> = flat.call_method0(intern!(self.py, "tolist"))?.extract()?;
        let dtype = value.getattr(intern!(self.py, "dtype"))?;
        let kind: String = dtype.getattr(intern!(self.py, "kind"))?.extract()?;
        let mark = self.stream.begin(tag::OBJECT_ARRAY);
        self.stream.str(&kind);
        self.stream.length(shape.len());
        for length in &shape {
            self.stream.length(*length);
        }
        let opening = Opening::new(values.len(), mark, standing);
        self.push(Source::Values(values), value, opening)
    }

    /// A NumPy scalar: its element type and its bytes, every NaN one value.
    fn write_numpy_scalar(&mut self, value: &Bound<'py, PyAny>) -> Walked<()> {
        let numpy = self.py.import(intern!(self.py, "numpy"))?;
        let array = numpy.call_method1(intern!(self.py, "asarray"), (value,))?;
        let Some(element) = Element::of_dtype(&array.getattr(intern!(self.py, "dtype"))?, 0)? else {
            return Err(Failure::refuse("array-format", "a NumPy scalar of objects is not read"));
        };
        let elements = Elements::of_numpy(&array, element)?;
        match elements.descriptor() {
            Descriptor::Plain(code) => {
                let mut bytes = elements.packed()?;
                canonical_nan(code, &mut bytes);
                self.stream.scalar(code, &bytes);
            }
            _ => {
                let mark = self.stream.open_record(&shape("scalar", "numpy", "void", &["content"]));
                elements.write(&mut self.stream)?;
                self.stream.close(mark);
            }
        }
        Ok(())
    }

    fn open_dtype(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        standing: Standing,
    ) -> Walked<()> {
        let Reduction::Parts(items) = reduce::reduce(&value, &known.plan)? else {
            return Err(Failure::refuse("malformed-reduction", "a dtype reduced to a name"));
        };
        let mark = self.stream.open_record(&layout.digest);
        self.push_items(value, items, REDUCE, mark, standing)
    }

    fn open_foreign(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        standing: Standing,
    ) -> Walked<()> {
        if self.config.arrays == Arrays::Identity {
            return self.write_identity(&value);
        }
        if !known.importable {
            let class = &known.plan.class;
            return Err(reference::not_importable(Referent::Class, &class.module, &class.qualname));
        }
        self.watch_open();
        let mark = self.stream.open_record(&layout.digest);
        let state = if self.config.arrays == Arrays::Spec {
            self.write_foreign_spec(&value)?;
            Vec::new()
        } else {
            Elements::of_foreign(&value)?.write(&mut self.stream)?;
            known.plan.state(&value, &[])?
        };
        self.push_items(value, vec![attributes(state)], &[""], mark, standing)
    }

    /// The specification of an array of another library, from its attributes: nothing is copied.
    fn write_foreign_spec(&mut self, value: &Bound<'py, PyAny>) -> Walked<()> {
        let missing = |error: PyErr| {
            Failure::refuse("array-format", "the array does not tell its dtype and shape")
                .because(self.py, error)
        };
        let element =
            value.getattr(intern!(self.py, "dtype")).and_then(|dtype| dtype.str()).map_err(missing)?;
        let element = Descriptor::Plain(element.to_string_lossy().into_owned());
        let shape: Vec<usize> =
            value.getattr(intern!(self.py, "shape")).and_then(|shape| shape.extract()).map_err(missing)?;
        let element_shape: Vec<usize> = match value.getattr_opt(intern!(self.py, "element_shape"))? {
            Some(shape) => shape.extract()?,
            None => Vec::new(),
        };
        let mut needs_grad = None;
        for name in ["needs_grad", "requires_grad"] {
            if let Some(answer) = value.getattr_opt(name)? {
                needs_grad = Some(answer.is_truthy()?);
            }
        }
        let order = match value.getattr_opt(intern!(self.py, "is_contiguous"))? {
            Some(is_contiguous) if is_contiguous.is_callable() => {
                if is_contiguous.call0()?.is_truthy()? {
                    "C"
                } else {
                    "strided"
                }
            }
            _ => match value.getattr_opt(intern!(self.py, "flags"))? {
                Some(flags)
                    if flags
                        .getattr_opt("c_contiguous")?
                        .is_some_and(|flag| flag.is_truthy().unwrap_or(false)) =>
                {
                    "C"
                }
                Some(flags)
                    if flags
                        .getattr_opt("f_contiguous")?
                        .is_some_and(|flag| flag.is_truthy().unwrap_or(false)) =>
                {
                    "F"
                }
                Some(_) => "strided",
                None => "unknown",
            },
        };
        array::write_spec(&mut self.stream, &element, shape.len(), order, &element_shape, needs_grad);
        Ok(())
    }

    fn open_buffer(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        standing: Standing,
    ) -> Walked<()> {
        if self.config.arrays == Arrays::Identity {
            return self.write_identity(&value);
        }
        if !known.importable && layout.kind == "buffer" {
            let class = &known.plan.class;
            return Err(reference::not_importable(Referent::Class, &class.module, &class.qualname));
        }
        let mark = self.stream.open_record(&layout.digest);
        self.write_elements(&Elements::of_buffer(&value)?)?;
        let items = vec![attributes(known.plan.state(&value, &[])?)];
        self.push_items(value, items, &[""], mark, standing)
    }

    fn write_identity(&mut self, value: &Bound<'py, PyAny>) -> Walked<()> {
        let token = identity::token(value)?;
        self.durable = false;
        self.stream.identity(&token);
        Ok(())
    }

    /// An object that a rule of the user describes.
    fn open_described(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &'a Known<'py>,
        rule: Bound<'py, PyAny>,
        standing: Standing,
    ) -> Walked<()> {
        self.watch_open();
        let described = match rule.cast::<Description>() {
            Ok(_) => rule,
            Err(_) => rule.call1((&value,)).map_err(|error| {
                let class = &known.plan.class;
                let message = format!("the rule for `{}.{}` raised", class.module, class.qualname);
                Failure::refuse("rule-failed", message).because(self.py, error)
            })?,
        };
        if described.is(self.py.NotImplemented()) {
            return self.open_undescribed(value, known, &[], false, standing);
        }
        let Ok(description) = described.cast::<Description>() else {
            return Err(Failure::refuse(
                "bad-rule",
                format!(
                    "the rule for `{}.{}` returned {}, not a description",
                    known.plan.class.module,
                    known.plan.class.qualname,
                    short_repr(&described)
                ),
            )
            .hint("return what a function of `keyprint.rule` makes, or NotImplemented for the default"));
        };
        let Description { form, tag } = description.get();
        let tag = tag.as_ref().map(|tag| tag.bind(self.py).clone());
        match form {
            Form::Leaf(leaf) => {
                let leaf = leaf.bind(self.py);
                let Some(item) = scalar(leaf)? else {
                    let found = short_repr(leaf);
                    return Err(Failure::refuse(
                        "bad-rule",
                        format!("rule.leaf takes a scalar, text or bytes, found {found}"),
                    )
                    .hint("use rule.ordered(...) for a value with parts"));
                };
                self.open_tagged(value, known, tag, item, standing)
            }
            Form::Ordered(parts) => {
                let parts = parts.bind(self.py).iter().collect();
                self.open_tagged(value, known, tag, Item::Sequence(tag::LIST, parts), standing)
            }
            Form::Unordered(parts) => {
                let parts = parts.bind(self.py).iter().collect();
                self.open_tagged(value, known, tag, Item::Sequence(tag::MULTISET, parts), standing)
            }
            Form::OrderedItems => {
                let pairs = value.call_method0(intern!(self.py, "items")).map_err(|error| {
                    Failure::refuse("bad-rule", "rule.ordered_items() is for mappings, and `items()` failed")
                        .because(self.py, error)
                })?;
                let pairs = ordered_pairs(&pairs)?;
                self.open_tagged(value, known, tag, pairs, standing)
            }
            Form::Reference => {
                let (module, qualname) = reference::name_of(&value)?;
                if !reference::resolves(&value, &module, &qualname)? {
                    return Err(reference::not_importable(Referent::Object, &module, &qualname));
                }
                self.stream.reference(Referent::Object, &module, &qualname);
                Ok(())
            }
            Form::Fields { skip } => self.open_undescribed(value, known, skip, false, standing),
            Form::Namespace => self.open_undescribed(value, known, &[], true, standing),
            Form::Identity => self.write_identity(&value),
        }
    }

    /// An object whose rule leaves it to its own structure.
    fn open_undescribed(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        skip: &[String],
        namespace: bool,
        standing: Standing,
    ) -> Walked<()> {
        let plan = Arc::new(classify::structural_plan(self.config, &value, skip, namespace)?);
        let known = Known {
            reducer: matches!(plan.rule, Rule::Object(_)) && reduce::registered(&value)?.is_some(),
            plan,
            class: known.class.clone(),
            importable: known.importable,
        };
        if self.write_leaf(&value, &known)? {
            return Ok(());
        }
        let known = self.arena.alloc(known);
        self.open(value, known, standing)
    }

    /// A described value under its class, or under the tag that the description gives instead.
    fn open_tagged(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        tag: Option<Bound<'py, PyBytes>>,
        item: Item<'py>,
        standing: Standing,
    ) -> Walked<()> {
        let class = &known.plan.class;
        let (digest, items, labels): (Fingerprint, _, &'static [&'static str]) = match tag {
            None => (shape("described", &class.module, &class.qualname, &["value"]), vec![item], &[""]),
            Some(tag) => {
                let tag = Item::Bytes(tag.as_bytes().to_vec());
                (shape("tagged", "", "", &["tag", "value"]), vec![tag, item], &["", ""])
            }
        };
        let depth = self.frames.len();
        let mark = self.stream.open_record(&digest);
        self.push_items(value.clone(), items, labels, mark, standing)?;
        self.count_endless(depth, &value)
    }
}

/// The parts of something that goes by a name which does not lead to it.
const NAMED: [&str; 5] = ["module", "name", "__wrapped__", "__bound__", "__constraints__"];

/// The parts of a reduction.
pub(super) const REDUCE: &[&str] = &["function", "arguments", "state", "items", "pairs", "setter"];

/// Labels for the same parts after the class has been put in front of them.
fn with_class(labels: &'static [&'static str]) -> &'static [&'static str] {
    match labels {
        REDUCE => &["__class__", "function", "arguments", "state", "items", "pairs", "setter"],
        _ => &["__class__", "", "", ""],
    }
}

fn attributes<'py>(pairs: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>) -> Item<'py> {
    Item::Pairs { tag: tag::DICT, pairs, attributes: true }
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

fn bytearray_shape() -> &'static Fingerprint {
    static SHAPE: OnceLock<Fingerprint> = OnceLock::new();
    SHAPE.get_or_init(|| shape("builtin", "builtins", "bytearray", &["content"]))
}

fn is_enum_class(class: &Bound<'_, PyType>) -> PyResult<bool> {
    match classify::loaded(class.py(), "enum", "EnumMeta") {
        Some(meta) => class.is_instance(&meta),
        None => Ok(false),
    }
}

/// A value without parts, past any rule for its class.
fn scalar<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Item<'py>>> {
    let class = value.get_type_ptr();
    if value.is_none() {
        return Ok(Some(Item::None));
    }
    if class == &raw mut ffi::PyBool_Type {
        return Ok(Some(Item::Bool(value.is_truthy()?)));
    }
    let mut leaves = Builtin::ALL.into_iter().filter(|kind| kind.is_leaf() && *kind != Builtin::ByteArray);
    Ok(leaves.find(|kind| kind.type_object() == class).map(|kind| Item::Content(value.clone(), kind)))
}

/// Makes every NaN of a float or complex scalar the same.
fn canonical_nan(code: &str, bytes: &mut [u8]) {
    let (kind, _) = code.split_at(1);
    let width = match kind {
        "f" => bytes.len(),
        "c" => bytes.len() / 2,
        _ => return,
    };
    for part in bytes.chunks_exact_mut(width) {
        let (exponent, mantissa, canonical): (u64, u64, u64) = match width {
            2 => (0x7c00, 0x03ff, 0x7e00),
            4 => (0x7f80_0000, 0x007f_ffff, 0x7fc0_0000),
            8 => (0x7ff0 << 48, (1 << 52) - 1, 0x7ff8 << 48),
            10 => {
                // Sign and exponent are the last two bytes; the mantissa has an explicit leading bit.
                let exponent = u16::from_le_bytes([part[8], part[9]]) & 0x7fff;
                let mantissa = u64::from_le_bytes(*part.first_chunk().expect("ten bytes")) << 1;
                if exponent == 0x7fff && mantissa != 0 {
                    part.copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x7f]);
                }
                continue;
            }
            _ => continue,
        };
        let mut bits = [0u8; 8];
        bits[..width].copy_from_slice(part);
        let bits = u64::from_le_bytes(bits);
        if bits & exponent == exponent && bits & mantissa != 0 {
            part.copy_from_slice(&canonical.to_le_bytes()[..width]);
        }
    }
}
