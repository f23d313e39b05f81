//! [`Plan`]: how to read the instances of one type.
//!
//! A plan is made once per type and fingerprinter (see [`classify`](super::classify)) and holds for
//! as long as the type does not change, which CPython's type version tag tells. Plans hold no
//! reference to the type, so that classes can still be collected.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use keyprint_fingerprint::Fingerprint;
use keyprint_fingerprint::stream::shape;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use rustc_hash::FxHashMap;

use super::builtin::Builtin;
use super::reduce::PARTS;
use crate::failure::Walked;
use crate::interned::intern;
use crate::layout::{self, Attributes};

/// The name that a class goes by.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) module: String,
    pub(crate) qualname: String,
}

impl Class {
    pub(crate) fn of(class: &Bound<'_, PyType>) -> PyResult<Self> {
        let py = class.py();
        let module = class.getattr_opt(intern!(py, "__module__"))?;
        Ok(Self {
            // Some builtin types have a descriptor there.
            module: module.and_then(|module| module.extract().ok()).unwrap_or_default(),
            qualname: class.qualname()?.to_string_lossy().into_owned(),
        })
    }
}

/// What the values of a record mean.
pub(crate) struct Layout {
    pub(crate) kind: &'static str,
    pub(crate) names: Vec<String>,
    pub(crate) digest: Fingerprint,
}

impl Layout {
    pub(crate) fn new(kind: &'static str, class: &Class, names: Vec<String>) -> Self {
        let digest = {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            shape(kind, &class.module, &class.qualname, &names)
        };
        Self { kind, names, digest }
    }

    /// What the parts of a reduction mean.
    pub(crate) fn of_reduction(class: &Class) -> Self {
        Self::new("reduce", class, PARTS.iter().map(|name| (*name).to_owned()).collect())
    }
}

/// Where a field's value is.
pub(crate) enum Place {
    /// In a slot.
    Slot(isize),
    /// Among the instance's attributes.
    Attribute,
    /// At a position of the tuple that the instance is.
    Item(usize),
    /// Wherever Python code finds it.
    Computed,
}

pub(crate) struct Field {
    pub(crate) name: Py<PyString>,
    pub(crate) place: Place,
    /// The position among the inline values of the class, if it has one.
    pub(crate) inline: Option<usize>,
}

impl Field {
    /// Whether `getattr` may find what is not in the field's place: a class default, a property.
    pub(crate) fn may_be_computed(&self) -> bool {
        matches!(self.place, Place::Attribute | Place::Computed)
    }
}

/// How an instance is read. What each contributes is described in `docs/encoding.md`.
pub(crate) enum Rule {
    None,
    Bool,
    Builtin(Builtin),
    /// A module attribute that stands for itself: `Ellipsis`, `NotImplemented`.
    Constant(&'static str),
    Fingerprint,
    Type,
    Function,
    BuiltinFunction,
    Module,
    /// A member; `base` is the kind of enum.
    Enum {
        layout: Layout,
        base: String,
    },
    /// A function bound to an object.
    Method(Layout),
    /// Declared fields; `extras` if attributes beyond them count too.
    Fields {
        layout: Layout,
        fields: Vec<Field>,
        extras: bool,
    },
    /// A builtin with a class of its own, and the state that goes with it.
    /// Where it has declared fields, `extras` says whether attributes beyond them count.
    Subclass {
        base: Builtin,
        layout: Layout,
        fields: Option<Vec<Field>>,
        extras: bool,
    },
    OrderedDict(Layout),
    DefaultDict(Layout),
    MappingProxy(Layout),
    /// An object whose attributes are all there is to it.
    Object(Layout),
    Namespace(Layout),
    Ndarray(Layout),
    NumpyScalar,
    NumpyDtype(Layout),
    /// An array of another library.
    ForeignArray(Layout),
    Buffer(Layout),
    Code(Layout),
    Cell(Layout),
    Property(Layout),
    /// `staticmethod` and `classmethod`.
    WrappedFunction(Layout),
    Reduce(Layout),
    /// A test double: whatever it says about itself is made up.
    Mock,
    /// A rule of the user: a description, or a callable that makes one.
    Described(Py<PyAny>),
}

pub(crate) struct Plan {
    pub(crate) class: Class,
    pub(crate) rule: Rule,
    /// Slots of the whole hierarchy, for types whose state counts.
    pub(crate) slots: Vec<(Py<PyString>, isize)>,
    /// Attributes that do not count: skipped by name, or memoised by `cached_property`.
    pub(crate) hidden: Vec<Py<PyString>>,
    /// How many items an instance has, if it is a named tuple.
    pub(crate) items: usize,
    /// Whether instances have parts, whatever they hold.
    pub(crate) composite: bool,
    /// Whether instances have neither attributes nor slots.
    pub(crate) bare: bool,
    /// The class's table of inline attribute names, when the plan was made.
    pub(crate) inline_table: *const c_void,
    /// The type's version when the plan was made; 0 if it cannot be told.
    version: u32,
    /// The class's name, the very object: assigning `__qualname__` does not change the version.
    qualname: Option<Py<PyAny>>,
}

// SAFETY: the pointer is only compared, never followed.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

impl Plan {
    pub(crate) fn new(class: &Bound<'_, PyType>, rule: Rule) -> PyResult<Self> {
        let composite = match &rule {
            Rule::Builtin(kind) => !kind.is_leaf(),
            rule => matches!(rule, Rule::Fields { .. } | Rule::Object(_) | Rule::Enum { .. }),
        };
        Ok(Self {
            class: Class::of(class)?,
            rule,
            items: 0,
            composite,
            slots: Vec::new(),
            hidden: Vec::new(),
            bare: false,
            inline_table: std::ptr::null(),
            version: type_version(class),
            qualname: qualname_object(class).map(Bound::unbind),
        })
    }

    /// Looks up where the class keeps its fields, by an instance.
    pub(crate) fn locate_inline(&mut self, object: &Bound<'_, PyAny>) {
        let Attributes::Inline(inline) = layout::attributes(object) else { return };
        let Rule::Fields { fields, .. } = &mut self.rule else {
            return;
        };
        let py = object.py();
        self.inline_table = inline.table();
        for at in 0..inline.len() {
            let Some(name) = inline.name(py, at) else { continue };
            for field in fields.iter_mut().filter(|field| field.name.bind(py).is(name)) {
                field.inline = Some(at);
            }
        }
    }

    fn holds_for(&self, class: &Bound<'_, PyType>) -> bool {
        let same_name = match (&self.qualname, qualname_object(class)) {
            (Some(known), Some(current)) => known.bind(class.py()).is(&current),
            (None, None) => true,
            _ => false,
        };
        self.version != 0 && self.version == type_version(class) && same_name
    }

    /// The attributes and slots of an instance, as name and value, without those that do not count;
    /// `ordered` if in the order in which they were set.
    pub(crate) fn state<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        except: &[Field],
        ordered: bool,
    ) -> Walked<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let py = object.py();
        let counts = |name: &Bound<'py, PyAny>| -> bool {
            let is = |other: &Py<PyString>| {
                let other = other.bind(py);
                name.is(other) || name.is_exact_instance_of::<PyString>() && name.eq(other).unwrap_or(false)
            };
            !self.hidden.iter().any(is) && !except.iter().any(|field| is(&field.name))
        };
        let mut pairs = Vec::new();
        match layout::attributes(object) {
            Attributes::Empty => {}
            // The table of names has its own order, that of the class.
            Attributes::Inline(inline) if !ordered => {
                for at in 0..inline.len() {
                    if let (Some(name), Some(value)) = (inline.name(py, at), inline.value(py, at)) {
                        let name = name.to_owned();
                        if counts(&name) {
                            pairs.push((name, value.to_owned()));
                        }
                    }
                }
            }
            Attributes::Dict(dict) => dict_pairs(&dict.to_owned(), counts, &mut pairs),
            Attributes::Inline(_) | Attributes::Unknown => {
                // SAFETY: the generic getter takes any object and returns a new reference or an error.
                let dict = unsafe {
                    Bound::from_owned_ptr_or_err(
                        py,
                        ffi::PyObject_GenericGetDict(object.as_ptr(), std::ptr::null_mut()),
                    )?
                };
                dict_pairs(&dict, counts, &mut pairs);
            }
        }
        for (name, offset) in &self.slots {
            let name = name.bind(py).as_any();
            if let Some(value) = layout::slot(object, *offset)
                && counts(name)
            {
                pairs.push((name.clone(), value.to_owned()));
            }
        }
        Ok(pairs)
    }
}

fn dict_pairs<'py>(
    dict: &Bound<'py, PyAny>,
    counts: impl Fn(&Bound<'py, PyAny>) -> bool,
    pairs: &mut Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
) {
    let mut position = 0;
    while let Some((name, value)) = super::builtin::dict_next(dict, &mut position) {
        let (name, value) = (name.to_owned(), value.to_owned());
        if counts(&name) {
            pairs.push((name, value));
        }
    }
}

/// CPython's version tag of a type, which every change to it or its bases replaces.
pub(crate) fn type_version(class: &Bound<'_, PyType>) -> u32 {
    // SAFETY: a live type.
    unsafe {
        let class = class.as_type_ptr();
        if cfg!(not(Py_3_13)) && ffi::PyType_GetFlags(class) & ffi::Py_TPFLAGS_VALID_VERSION_TAG == 0 {
            return 0;
        }
        (*class).tp_version_tag
    }
}

/// The same, after having CPython give the type a version if it can.
pub(crate) fn assigned_version(class: &Bound<'_, PyType>) -> u32 {
    if type_version(class) == 0 {
        // Looking up a name that the metaclass does not have looks through the class, which needs one.
        let _ = class.getattr_opt(intern!(class.py(), "__keyprint_no_such_name__"));
    }
    type_version(class)
}

/// Where a type has its version.
pub(crate) fn version_tag(class: *mut ffi::PyTypeObject) -> *const u32 {
    // SAFETY: a live type.
    unsafe { &raw const (*class).tp_version_tag }
}

/// Where a type has the flags that say whether its version is one, and what they are if it is; nothing where none does.
pub(crate) fn flags_word(class: *mut ffi::PyTypeObject) -> Option<(*const u64, u64)> {
    // SAFETY: a live type, whose flags have as many bits as a pointer.
    let (at, flags) = unsafe { ((&raw const (*class).tp_flags).cast(), ffi::PyType_GetFlags(class)) };
    cfg!(not(Py_3_13)).then_some((at, flags | ffi::Py_TPFLAGS_VALID_VERSION_TAG))
}

/// The name object of a heap type.
fn qualname_object<'py>(class: &Bound<'py, PyType>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: a live type; the flag says that it is a heap type, whose name is an object or null.
    unsafe {
        let pointer = class.as_type_ptr();
        if ffi::PyType_GetFlags(pointer) & ffi::Py_TPFLAGS_HEAPTYPE == 0 {
            return None;
        }
        Bound::from_borrowed_ptr_or_opt(class.py(), (*pointer.cast::<ffi::PyHeapTypeObject>()).ht_qualname)
    }
}

/// The plans of one fingerprinter.
#[derive(Default)]
pub(crate) struct Plans {
    by_type: Mutex<FxHashMap<usize, Arc<Plan>>>,
    /// The state of all abstract classes when the plans were made.
    token: AtomicU64,
}

/// Types come and go (classes made in functions, in tests); beyond this many plans start afresh.
const MOST_PLANS: usize = 4096;

impl Plans {
    /// The plan of a type if it is known and still holds.
    pub(crate) fn get(&self, class: &Bound<'_, PyType>) -> Option<Arc<Plan>> {
        let plans = self.by_type.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        plans.get(&(class.as_ptr() as usize)).filter(|plan| plan.holds_for(class)).cloned()
    }

    /// Forgets everything if abstract classes have taken in other classes since: that changes which
    /// rules apply without changing the types.
    pub(crate) fn refresh(&self, token: u64) {
        if self.token.swap(token, Ordering::AcqRel) != token {
            let dropped =
                std::mem::take(&mut *self.by_type.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
            drop(dropped);
        }
    }

    /// Shows the garbage collector the rules that plans hold.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Whoever has the lock is at work, so all of it is alive.
        let Ok(plans) = self.by_type.try_lock() else { return Ok(()) };
        plans.values().try_for_each(|plan| match &plan.rule {
            // A walk that uses the plan keeps it alive, and with it the rule.
            Rule::Described(rule) if Arc::strong_count(plan) == 1 => visit.call(rule),
            _ => Ok(()),
        })
    }

    /// Remembers a plan.
    pub(crate) fn put(&self, class: &Bound<'_, PyType>, plan: &Arc<Plan>) {
        if plan.version == 0 {
            return;
        }
        let dropped;
        {
            let mut plans = self.by_type.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let all =
                if plans.len() >= MOST_PLANS { std::mem::take(&mut *plans) } else { FxHashMap::default() };
            let replaced = plans.insert(class.as_ptr() as usize, Arc::clone(plan));
            dropped = (all, replaced);
        }
        // Dropping plans drops references to Python objects, so it happens after the lock is free.
        drop(dropped);
    }
}
