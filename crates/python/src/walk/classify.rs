//! Making a [`Plan`]: looking at a type once, in Python's terms, to decide how its instances are read.
//!
//! The order of the questions is the order of precedence: the caller's rules, the class's own rule,
//! then what the type is.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use super::builtin::Builtin;
use super::fields::{
    Declared, declared_fields, fields_rule, named_tuple_fields, opted_out_fields, record_of_fields,
};
use super::plan::{Class, Field, Layout, Place, Plan, Rule};
use crate::config::{Config, Mode};
use crate::describe::{Description, Form};
use crate::failure::{Failure, Walked};
use crate::fingerprint::PyFingerprint;
use crate::hooks;
use crate::interned::intern;
use crate::layout;

/// Makes the plan for the type of `object`.
pub(crate) fn plan<'py>(config: &Config, object: &Bound<'py, PyAny>) -> Walked<Plan> {
    let class = object.get_type();
    let mut skip = config.skip_fields.clone();
    let rule = match user_rule(config, &class)? {
        Some(rule) => match static_form(&rule) {
            // Constant rules about fields are settled here, so that the walk runs no Python code for them.
            Some(Form::Fields { skip: more }) => {
                skip.extend(more.iter().cloned());
                own_rule(config, object, &class, &skip)?
            }
            Some(Form::Namespace) => Rule::Namespace(layout_of("namespace", &class, &["state"])?),
            _ => Rule::Described(rule.unbind()),
        },
        None => own_rule(config, object, &class, &skip)?,
    };
    finish(config, object, &class, rule, &skip)
}

/// Makes the plan that reads the type's own structure, past any rule of the user.
pub(crate) fn structural_plan<'py>(
    config: &Config,
    object: &Bound<'py, PyAny>,
    skip: &[String],
    namespace: bool,
) -> Walked<Plan> {
    let class = object.get_type();
    let mut names = config.skip_fields.clone();
    names.extend(skip.iter().cloned());
    let rule = if namespace {
        Rule::Namespace(layout_of("namespace", &class, &["state"])?)
    } else {
        own_rule(config, object, &class, &names)?
    };
    finish(config, object, &class, rule, &names)
}

fn finish<'py>(
    config: &Config,
    object: &Bound<'py, PyAny>,
    class: &Bound<'py, PyType>,
    rule: Rule,
    skip: &[String],
) -> Walked<Plan> {
    let py = object.py();
    let mut plan = Plan::new(class, rule)?;
    let stateful = match &plan.rule {
        Rule::Subclass { .. }
        | Rule::OrderedDict(_)
        | Rule::DefaultDict(_)
        | Rule::Object(_)
        | Rule::Namespace(_)
        | Rule::Reduce(_)
        | Rule::Buffer(_)
        | Rule::ForeignArray(_)
        | Rule::Ndarray(_) => true,
        Rule::Fields { extras, .. } => *extras,
        _ => false,
    };
    if stateful {
        plan.slots = slots(class)?;
        plan.hidden = cached_properties(class)?;
        // SAFETY: a live type. Managed dicts have an offset too.
        plan.bare = plan.slots.is_empty() && unsafe { (*class.as_type_ptr()).tp_dictoffset == 0 };
        plan.hidden.extend(skip.iter().map(|name| PyString::intern(py, name).unbind()));
        let opted_out = opted_out_fields(config, class)?;
        plan.hidden.extend(opted_out.iter().map(|name| PyString::intern(py, name).unbind()));
    }
    if matches!(plan.rule, Rule::Fields { .. })
        && let Some(names) = named_tuple_fields(class)?
    {
        plan.items = names.len();
    }
    plan.locate_inline(object);
    Ok(plan)
}

fn layout_of(kind: &'static str, class: &Bound<'_, PyType>, names: &[&str]) -> PyResult<Layout> {
    Ok(Layout::new(kind, &Class::of(class)?, names.iter().map(|name| (*name).to_owned()).collect()))
}

/// The rule that the caller gave for a class, if it is the most specific one.
pub(crate) fn given_rule<'py>(
    config: &Config,
    class: &Bound<'py, PyType>,
) -> Walked<Option<Bound<'py, PyAny>>> {
    let py = class.py();
    if !config.overrides.is_empty() {
        let is_enum = is_instance_of(class, "enum", "EnumMeta")?;
        for base in class.mro() {
            // What an enum is mixed with does not say what its members are.
            if is_enum && !is_instance_of(&base, "enum", "EnumMeta")? {
                continue;
            }
            if let Some(given) = config.overrides.iter().find(|given| given.class.bind(py).is(&base)) {
                return Ok(Some(given.rule.bind(py).clone()));
            }
            // The most specific rule wins, and those that are built in are rules, too.
            if is_enum || has_own_rule(base.cast().map_err(PyErr::from)?)? {
                break;
            }
        }
        return virtual_rule(config, class);
    }
    Ok(None)
}

/// The rule that the caller gave for a class, or the class for itself.
fn user_rule<'py>(config: &Config, class: &Bound<'py, PyType>) -> Walked<Option<Bound<'py, PyAny>>> {
    let py = class.py();
    if let Some(rule) = given_rule(config, class)? {
        return Ok(Some(rule));
    }
    let Some(attribute) = class_attribute(class, "__fingerprint__")?.filter(|rule| !rule.is_none()) else {
        return Ok(None);
    };
    // A static or class method is found through the class; anything else is taken as it is.
    let rule = if attribute.is_callable() || attribute.cast::<Description>().is_ok() {
        attribute
    } else {
        class.getattr(intern!(py, "__fingerprint__"))?
    };
    if !rule.is_callable() && rule.cast::<Description>().is_err() {
        let message = format!("`{}.__fingerprint__` is neither a description nor a method", class.name()?);
        return Err(Failure::refuse("bad-rule", message).hint("make it with `keyprint.rule`"));
    }
    Ok(Some(rule))
}

/// Whether a class is one for whose instances a rule is built in.
fn has_own_rule(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let pointer = class.as_type_ptr();
    if Builtin::ALL.into_iter().any(|kind| kind.type_object() == pointer) {
        return Ok(true);
    }
    let types = [
        &raw mut ffi::PyBool_Type,
        &raw mut ffi::PyType_Type,
        &raw mut ffi::PyFunction_Type,
        &raw mut super::builtin::PyMethod_Type,
        &raw mut ffi::PyCFunction_Type,
        &raw mut ffi::PyModule_Type,
        &raw mut ffi::PyDictProxy_Type,
    ];
    if types.contains(&pointer) || class.is(class.py().None().bind(class.py()).get_type()) {
        return Ok(true);
    }
    const LIBRARY: &[(&str, &str)] = &[
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("types", "SimpleNamespace"),
        ("enum", "EnumMeta"),
        ("numpy", "generic"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
    ];
    Ok(LIBRARY
        .iter()
        .any(|(module, name)| loaded(class.py(), module, name).is_some_and(|known| known.is(class))))
}

fn is_instance_of(object: &Bound<'_, PyAny>, module: &str, name: &str) -> PyResult<bool> {
    loaded(object.py(), module, name).map_or(Ok(false), |class| object.is_instance(&class))
}

/// The rule of an abstract class that this one is registered with.
fn virtual_rule<'py>(config: &Config, class: &Bound<'py, PyType>) -> Walked<Option<Bound<'py, PyAny>>> {
    let py = class.py();
    let mut best: Option<(&Bound<'py, PyType>, &Py<PyAny>)> = None;
    for given in &config.overrides {
        let abstract_class = given.class.bind(py);
        // What it really derives from was looked at already.
        if class.mro().iter().any(|base| base.is(abstract_class)) || !class.is_subclass(abstract_class)? {
            continue;
        }
        match best {
            Some((other, _)) if other.is_subclass(abstract_class)? => {}
            Some((other, _)) if !abstract_class.is_subclass(other)? => {
                return Err(Failure::refuse(
                    "ambiguous-rule",
                    format!(
                        "`{}` matches the rules for both `{}` and `{}`",
                        class.name()?,
                        other.name()?,
                        abstract_class.name()?
                    ),
                )
                .hint(format!("give a rule for `{}` itself", class.name()?)));
            }
            _ => best = Some((abstract_class, &given.rule)),
        }
    }
    Ok(best.map(|(_, rule)| rule.bind(py).clone()))
}

fn static_form<'a>(rule: &'a Bound<'_, PyAny>) -> Option<&'a Form> {
    rule.cast::<Description>().ok().map(|description| &description.get().form)
}

/// What a type is by itself.
fn own_rule<'py>(
    config: &Config,
    object: &Bound<'py, PyAny>,
    class: &Bound<'py, PyType>,
    skip: &[String],
) -> Walked<Rule> {
    let py = object.py();
    if let Some(rule) = exact_rule(object, class)? {
        return Ok(rule);
    }
    if let Some(meta) = loaded(py, "enum", "EnumMeta")
        && class.is_instance(&meta)?
    {
        let base = enum_base(class)?;
        return Ok(Rule::Enum { layout: layout_of("enum", class, &["base", "name", "value"])?, base });
    }
    if object.cast::<PyType>().is_ok() {
        return Ok(Rule::Type);
    }
    if is_subclass_of(class, "unittest.mock", "NonCallableMock")? {
        return Ok(Rule::Mock);
    }
    if let Some(rule) = numpy_rule(object, class)? {
        return Ok(rule);
    }
    if is_subclass_of(class, "types", "SimpleNamespace")? {
        return Ok(Rule::Namespace(layout_of("namespace", class, &["state"])?));
    }
    if is_subclass_of(class, "collections", "OrderedDict")? {
        return Ok(Rule::OrderedDict(layout_of("ordered dict", class, &["items", "state"])?));
    }
    if is_subclass_of(class, "collections", "defaultdict")? {
        return Ok(Rule::DefaultDict(layout_of("default dict", class, &["factory", "items", "state"])?));
    }
    if class_attribute(class, "n_sequence_fields")?.is_some() {
        // A struct sequence has fields beyond those that it shows as a tuple.
        return Ok(reduce_rule(class)?);
    }
    if let Some(base) = builtin_base(class) {
        return subclass_rule(config, class, base, skip);
    }
    if let Some(rule) = fields_rule(config, class, skip)? {
        return Ok(rule);
    }
    if let Some(rule) = library_rule(class)? {
        return Ok(Rule::Described(rule));
    }
    if is_foreign_array(class)? {
        return Ok(Rule::ForeignArray(layout_of("array", class, &["content", "state"])?));
    }
    if let Some(rule) = buffer_rule(class)? {
        return Ok(rule);
    }
    if config.mode == Mode::Lenient
        && let Some(rule) = lenient_rule(class)?
    {
        return Ok(rule);
    }
    if is_plain(class)? {
        return Ok(Rule::Object(layout_of("object", class, &["state"])?));
    }
    Ok(reduce_rule(class)?)
}

fn reduce_rule(class: &Bound<'_, PyType>) -> PyResult<Rule> {
    Ok(Rule::Reduce(Layout::of_reduction(&Class::of(class)?)))
}

/// Types whose memory is all there is to them, besides attributes.
fn buffer_rule(class: &Bound<'_, PyType>) -> PyResult<Option<Rule>> {
    // SAFETY: a live type; the table of buffer functions, where there is one, lives as long.
    let has_buffer = unsafe {
        (*class.as_type_ptr()).tp_as_buffer.as_ref().is_some_and(|table| table.bf_getbuffer.is_some())
    };
    if !has_buffer {
        return Ok(None);
    }
    if is_subclass_of(class, "_ctypes", "Array")? {
        // Made for each element type and length, under a name that says so but leads nowhere.
        let class = Class { module: "_ctypes".to_owned(), qualname: class.name()?.to_string() };
        let names = ["content", "format", "state"].map(str::to_owned).to_vec();
        return Ok(Some(Rule::Buffer(Layout::new("ctypes array", &class, names))));
    }
    let known = class.as_type_ptr() == &raw mut ffi::PyMemoryView_Type
        || is_subclass_of(class, "array", "array")?
        || is_subclass_of(class, "mmap", "mmap")?;
    // Another type that says how it is reduced may hold more than its memory shows.
    if !known && !has_default_reduction(class)? {
        return Ok(None);
    }
    Ok(Some(Rule::Buffer(layout_of("buffer", class, &["content", "format", "state"])?)))
}

/// Types that are compared by identity.
fn exact_rule(object: &Bound<'_, PyAny>, class: &Bound<'_, PyType>) -> PyResult<Option<Rule>> {
    let py = object.py();
    let pointer = class.as_type_ptr();
    if let Some(kind) = Builtin::ALL.into_iter().find(|kind| kind.type_object() == pointer) {
        return Ok(Some(Rule::Builtin(kind)));
    }
    let rule = if object.is_none() {
        Rule::None
    } else if pointer == &raw mut ffi::PyBool_Type {
        Rule::Bool
    } else if object.is(py.Ellipsis()) {
        Rule::Constant("Ellipsis")
    } else if object.is(py.NotImplemented()) {
        Rule::Constant("NotImplemented")
    } else if pointer == &raw mut ffi::PyFunction_Type {
        Rule::Function
    } else if pointer == &raw mut super::builtin::PyMethod_Type {
        Rule::Method(layout_of("method", class, &["function", "owner"])?)
    } else if pointer == &raw mut ffi::PyCFunction_Type {
        Rule::BuiltinFunction
    } else if class.is_subclass_of::<pyo3::types::PyModule>()? {
        Rule::Module
    } else if pointer == &raw mut ffi::PyDictProxy_Type {
        Rule::MappingProxy(layout_of("mapping proxy", class, &["items"])?)
    } else if class.is_subclass_of::<PyFingerprint>()? {
        Rule::Fingerprint
    } else {
        return Ok(None);
    };
    Ok(Some(rule))
}

/// The nearest base of an enum class that has a name: what kind of enum it is.
pub(super) fn enum_base(class: &Bound<'_, PyType>) -> Walked<String> {
    for base in class.mro().iter().skip(1) {
        let Ok(base) = base.cast_into::<PyType>() else { continue };
        let name = Class::of(&base)?;
        if super::reference::class_is_named(&base, &name)? {
            return Ok(format!("{}.{}", name.module, name.qualname));
        }
    }
    Ok(String::new())
}

/// Things that only have a structure to go by; strict mode leaves them to be refused.
fn lenient_rule(class: &Bound<'_, PyType>) -> PyResult<Option<Rule>> {
    let pointer = class.as_type_ptr();
    Ok(if pointer == &raw mut ffi::PyCode_Type {
        Some(Rule::Code(layout_of("code", class, super::structure::CODE)?))
    } else if pointer == &raw mut ffi::PyCell_Type {
        Some(Rule::Cell(layout_of("cell", class, &["content"])?))
    } else if pointer == &raw mut ffi::PyProperty_Type {
        Some(Rule::Property(layout_of("property", class, super::structure::PROPERTY)?))
    } else if pointer == &raw mut ffi::PyStaticMethod_Type || pointer == &raw mut ffi::PyClassMethod_Type {
        Some(Rule::WrappedFunction(layout_of("wrapped function", class, &["function"])?))
    } else {
        None
    })
}

fn builtin_base(class: &Bound<'_, PyType>) -> Option<Builtin> {
    // SAFETY: live types.
    Builtin::ALL
        .into_iter()
        .find(|kind| unsafe { ffi::PyType_IsSubtype(class.as_type_ptr(), kind.type_object()) != 0 })
}

fn subclass_rule(config: &Config, class: &Bound<'_, PyType>, base: Builtin, skip: &[String]) -> Walked<Rule> {
    if base == Builtin::Tuple
        && let Some(names) = named_tuple_fields(class)?
    {
        let fields = names
            .into_iter()
            .enumerate()
            .filter(|(_, name)| !skip.contains(name))
            .map(|(at, name)| Field {
                name: PyString::intern(class.py(), &name).unbind(),
                place: Place::Item(at),
                inline: None,
            })
            .collect();
        let extras = !class.dict_contains("_fields")?;
        return Ok(record_of_fields(class, fields, extras)?);
    }
    let (fields, extras) = match declared_fields(config, class, skip)? {
        Some(Declared { fields, extras }) => (Some(fields), extras),
        None => (None, true),
    };
    let layout = layout_of("subclass", class, &["content", "state"])?;
    Ok(Rule::Subclass { base, layout, fields, extras })
}

/// What the class hierarchy holds under a name, without asking descriptors or the metaclass.
pub(super) fn class_attribute<'py>(
    class: &Bound<'py, PyType>,
    name: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    for base in class.mro() {
        let namespace = base.getattr(intern!(class.py(), "__dict__"))?;
        if let Ok(value) = namespace.get_item(name) {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// The slots of a class and its bases.
fn slots(class: &Bound<'_, PyType>) -> PyResult<Vec<(Py<PyString>, isize)>> {
    let mut slots: Vec<(Py<PyString>, isize)> = Vec::new();
    for base in class.mro() {
        // Built-in types describe internals this way; their state is read by other means.
        // SAFETY: a live type.
        let flags = unsafe { ffi::PyType_GetFlags(base.as_ptr().cast()) };
        if flags & ffi::Py_TPFLAGS_HEAPTYPE == 0 {
            continue;
        }
        let namespace = base.getattr(intern!(class.py(), "__dict__"))?;
        for pair in namespace.call_method0(intern!(class.py(), "items"))?.try_iter()? {
            let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            if let (Ok(name), Some(offset)) =
                (name.cast_into::<PyString>(), layout::slot_offset(&value, class.as_type_ptr()))
                && !slots.iter().any(|(_, known)| *known == offset)
            {
                slots.push((name.unbind(), offset));
            }
        }
    }
    Ok(slots)
}

/// The names under which `functools.cached_property` keeps what it computed.
fn cached_properties(class: &Bound<'_, PyType>) -> PyResult<Vec<Py<PyString>>> {
    let py = class.py();
    let mut names = Vec::new();
    let Some(cached_property) = loaded(py, "functools", "cached_property") else { return Ok(names) };
    for base in class.mro() {
        let namespace = base.getattr(intern!(py, "__dict__"))?;
        for value in namespace.call_method0(intern!(py, "values"))?.try_iter()? {
            let value = value?;
            if !value.is_instance(&cached_property)? {
                continue;
            }
            // A subclass may have put something else under the name.
            if let Ok(name) = value.getattr(intern!(py, "attrname"))?.cast_into::<PyString>()
                && class_attribute(class, &name.to_string_lossy())?
                    .is_some_and(|attribute| attribute.is(&value))
            {
                names.push(name.unbind());
            }
        }
    }
    Ok(names)
}

/// Whether attributes and slots are all there is to an instance: nothing customises how it is
/// reduced, and there is no native state, which `object` would refuse to reduce.
///
/// Asks the type alone: an instance may be in any state, or stand for another object.
fn is_plain(class: &Bound<'_, PyType>) -> PyResult<bool> {
    if !has_default_reduction(class)? {
        return Ok(false);
    }
    let slots = slots(class)?.len();
    // SAFETY: live types.
    unsafe {
        let class = &*class.as_type_ptr();
        let word = size_of::<*const ()>() as isize;
        let flags = class.tp_flags;
        #[cfg(Py_3_11)]
        let managed_dict = flags & ffi::Py_TPFLAGS_MANAGED_DICT != 0;
        #[cfg(not(Py_3_11))]
        let managed_dict = false;
        /// Weak references are kept before the object, from 3.12 on.
        const MANAGED_WEAKREF: std::ffi::c_ulong = 1 << 3;
        let managed_weakref = cfg!(Py_3_12) && flags & MANAGED_WEAKREF != 0;
        let mut expected = ffi::PyBaseObject_Type.tp_basicsize + slots as isize * word;
        expected += word * isize::from(class.tp_dictoffset != 0 && !managed_dict);
        expected += word * isize::from(class.tp_weaklistoffset != 0 && !managed_weakref);
        Ok(class.tp_itemsize == 0 && class.tp_basicsize <= expected)
    }
}

/// Whether a class leaves its reduction to `object`.
fn has_default_reduction(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = class.py();
    let root = py.get_type::<PyAny>();
    for name in ["__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs__", "__getnewargs_ex__"] {
        let inherited = root.getattr_opt(name)?;
        let own = class.getattr_opt(name)?;
        let same = match (&own, &inherited) {
            (Some(own), Some(inherited)) => own.is(inherited),
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn numpy_rule(object: &Bound<'_, PyAny>, class: &Bound<'_, PyType>) -> PyResult<Option<Rule>> {
    let py = object.py();
    let Some(ndarray) = loaded(py, "numpy", "ndarray") else { return Ok(None) };
    if class.is_subclass(&ndarray)? {
        let plain =
            class.is(&ndarray) || loaded(py, "numpy", "memmap").is_some_and(|memmap| class.is(&memmap));
        let reduce = intern!(py, "__reduce__");
        if !plain && !class.getattr(reduce)?.is(&ndarray.getattr(reduce)?) {
            // It says itself what there is beyond the elements: a mask, for one.
            return Ok(Some(reduce_rule(class)?));
        }
        let kind = if plain { "array" } else { "subclass" };
        return Ok(Some(Rule::Ndarray(layout_of(kind, class, &["content", "state"])?)));
    }
    // SAFETY: a live type. NumPy's own scalar types are static; a subclass of one is something else.
    let is_static = unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) & ffi::Py_TPFLAGS_HEAPTYPE == 0 };
    if is_static && is_subclass_of(class, "numpy", "generic")? {
        return Ok(Some(Rule::NumpyScalar));
    }
    if is_subclass_of(class, "numpy", "dtype")? {
        let class = loaded(py, "numpy", "dtype").expect("just found");
        return Ok(Some(Rule::NumpyDtype(layout_of("dtype", class.cast()?, &["dtype"])?)));
    }
    Ok(None)
}

/// How tables and columns of other libraries are described: by what they hold, whatever blocks it is kept in.
fn library_rule(class: &Bound<'_, PyType>) -> PyResult<Option<Py<PyAny>>> {
    const LIBRARIES: &[&str] = &["pandas", "pyarrow", "polars"];
    let mut modules = class
        .mro()
        .iter()
        .filter_map(|base| base.getattr(intern!(class.py(), "__module__")).ok()?.extract::<String>().ok());
    if !modules.any(|module| LIBRARIES.contains(&module.split('.').next().unwrap_or_default())) {
        return Ok(None);
    }
    let rule = hooks::RULE_FOR_LIBRARY.get(class.py())?.call1((class,))?;
    Ok((!rule.is_none()).then(|| rule.unbind()))
}

fn is_foreign_array(class: &Bound<'_, PyType>) -> PyResult<bool> {
    Ok(class_attribute(class, "__dlpack_device__")?.is_some()
        || class_attribute(class, "__cuda_array_interface__")?.is_some())
}

/// An attribute of a module that the program has loaded already; nothing is imported.
pub(crate) fn loaded<'py>(py: Python<'py>, module: &str, name: &str) -> Option<Bound<'py, PyAny>> {
    let modules = py.import(intern!(py, "sys")).ok()?.getattr(intern!(py, "modules")).ok()?;
    modules.get_item(module).ok()?.getattr(name).ok()
}

fn is_subclass_of(class: &Bound<'_, PyType>, module: &str, name: &str) -> PyResult<bool> {
    match loaded(class.py(), module, name) {
        // A real subclass, not one that an abstract class merely accepts.
        Some(base) => Ok(class.mro().iter().any(|ancestor| ancestor.is(&base))),
        None => Ok(false),
    }
}

/// What a class defines itself.
pub(super) trait OwnNamespace {
    fn dict_contains(&self, name: &str) -> PyResult<bool>;
}

impl OwnNamespace for Bound<'_, PyType> {
    /// Whether the class itself, not a base, defines a name.
    fn dict_contains(&self, name: &str) -> PyResult<bool> {
        self.getattr(intern!(self.py(), "__dict__"))?.contains(name)
    }
}
