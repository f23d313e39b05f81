//! [`Guards`]: whether what a compiled artifact depends on is still what it was.
//!
//! Whoever resolves a function reads every name, cell, member and container through a guard, which
//! remembers what it handed out. [`Guards::hold`] then tells, without running Python code and in a
//! few nanoseconds each, whether all of it is still there. Where CPython keeps a version of a dict or
//! a type, an unchanged version is answer enough; otherwise pointers are compared.
//!
//! # Invariants
//!
//! - A guard that holds proves that reading again would find the very same objects. Equal but other
//!   objects do not hold: whoever asked looks again, and finds out whether that matters.
//! - An object that a guard compares by address cannot have been replaced by another at the same
//!   address: it is owned, or a weak reference to it is alive.
//! - Arrays, instances and functions are not kept alive: guards own plain values, containers and classes,
//!   and refer to everything else weakly.
//! - Checking never raises: what cannot be told does not hold.

mod held;
mod version;
mod watch;
mod words;

use std::cell::{Cell, RefCell};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

pub(crate) use self::held::Held;
pub(crate) use self::version::dict_version;
pub(crate) use self::words::Words;
use crate::member::Member;
use crate::ndarray::{self, ArrayHead};
use crate::walk::builtin::{dict_get, dict_len, dict_next};
use crate::walk::plan::{assigned_version, type_version};

/// Something to compare.
pub(crate) enum Check {
    /// Names in the dict of a module, or builtins.
    Names { dict: Py<PyDict>, version: u64, entries: Vec<(Py<PyAny>, Option<Held>)> },
    /// What a function is made of.
    Function(FunctionState),
    /// What a closure cell of a function holds.
    Cell { function: Held, at: usize, content: Option<Held> },
    /// What a class and its bases define.
    Type { class: Py<PyType>, version: u32 },
    /// The items of a list.
    List { list: Py<PyAny>, items: Vec<Held> },
    /// The items of a dict, in order.
    Dict { dict: Py<PyAny>, version: u64, items: Vec<(Held, Held)> },
    /// The elements of a set, in its order.
    Set { set: Py<PyAny>, items: Vec<Held> },
    /// A read-only array.
    Array(ArrayState),
    /// Members that are stored in an instance.
    Members {
        object: Held,
        class: *mut ffi::PyTypeObject,
        members: Vec<(Member, Option<Held>)>,
        count: Option<usize>,
    },
}

/// The objects that decide what a function does. Its closure cells are its own for good.
pub(crate) struct FunctionState {
    function: Held,
    /// Code, defaults, keyword defaults.
    parts: [Option<Held>; 3],
    /// Annotations and attributes: nothing if there are none, whether or not there is a dict for them.
    dicts: [Option<Held>; 2],
}

/// Whether there is nothing in what may be a dict.
///
/// # Safety
///
/// `dict` is null or a live object.
#[inline(always)]
unsafe fn is_empty(dict: *mut ffi::PyObject) -> bool {
    // SAFETY: as the caller promises; the size of an exact dict is read.
    unsafe { dict.is_null() || ffi::PyDict_CheckExact(dict) != 0 && ffi::PyDict_Size(dict) == 0 }
}

impl FunctionState {
    fn new(function: &Bound<'_, PyAny>) -> Self {
        let py = function.py();
        // SAFETY: the caller checked that this is a function; its parts are null or live objects.
        let own = |part| unsafe { Bound::from_borrowed_ptr_or_opt(py, part) }.map(|part| Held::strong(&part));
        // SAFETY: as above.
        let dict = |dict| if unsafe { is_empty(dict) } { None } else { own(dict) };
        // SAFETY: as above.
        let (parts, dicts) = unsafe { Self::read(function.as_ptr()) };
        Self { function: Held::of(function), parts: parts.map(own), dicts: dicts.map(dict) }
    }

    /// Whether the function has attributes of its own.
    fn has_attributes(&self) -> bool {
        self.dicts[1].is_some()
    }

    /// Code, defaults, keyword defaults; annotations, attributes: borrowed, or null.
    ///
    /// # Safety
    ///
    /// `function` is a live function.
    #[inline(always)]
    unsafe fn read(function: *mut ffi::PyObject) -> ([*mut ffi::PyObject; 3], [*mut ffi::PyObject; 2]) {
        // SAFETY: as the caller promises.
        let head = unsafe { &*function.cast::<ffi::PyFunctionObject>() };
        ([head.func_code, head.func_defaults, head.func_kwdefaults], [head.func_annotations, head.func_dict])
    }

    #[inline]
    fn holds(&self) -> bool {
        let Some(function) = self.function.pointer() else { return false };
        // SAFETY: the very function that the state was made of.
        let (parts, dicts) = unsafe { Self::read(function) };
        let known = |held: &Option<Held>| held.as_ref().map_or(std::ptr::null_mut(), Held::owned);
        self.parts.iter().zip(parts).all(|(held, part)| known(held) == part)
            && self.dicts.iter().zip(dicts).all(|(held, dict)| match held {
                Some(held) => held.owned() == dict,
                // SAFETY: what a live function has is null or a live object.
                None => unsafe { is_empty(dict) },
            })
    }
}

/// What a closure cell of a function holds; nothing if there is no such cell, or it is empty.
fn cell_content<'py>(function: &Bound<'py, PyAny>, at: usize) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the caller checked that this is a function; its closure is null or a tuple of cells, whose
    // content is a new reference or null.
    unsafe {
        let closure = (*function.as_ptr().cast::<ffi::PyFunctionObject>()).func_closure;
        if closure.is_null() || at as isize >= ffi::PyTuple_GET_SIZE(closure) {
            return None;
        }
        let cell = ffi::PyTuple_GET_ITEM(closure, at as isize);
        Bound::from_owned_ptr_or_opt(function.py(), ffi::PyCell_Get(cell))
    }
}

/// Whether what was found is what was held.
#[inline]
fn same(known: Option<&Held>, current: Option<*mut ffi::PyObject>) -> bool {
    match (known, current) {
        (Some(known), Some(current)) => known.is(current),
        (None, None) => true,
        _ => false,
    }
}

/// A NumPy array that nobody may write, as long as nobody allows it.
pub(crate) struct ArrayState {
    array: Held,
    data: *mut u8,
    flags: i32,
    shape: Vec<isize>,
    strides: Vec<isize>,
    /// Owned, so that no other can take its place.
    dtype: Held,
}

impl ArrayState {
    fn new(array: &Bound<'_, PyAny>) -> Self {
        // SAFETY: the caller checked the type.
        let head = unsafe { ndarray::head(array.as_ptr()) };
        let (shape, strides) = Self::extent(head);
        // SAFETY: an array has a data type.
        let dtype = unsafe { Borrowed::from_ptr(array.py(), head.dtype) };
        Self {
            array: Held::of(array),
            data: head.data,
            flags: head.flags,
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            dtype: Held::strong(&dtype),
        }
    }

    fn extent(head: &ArrayHead) -> (&[isize], &[isize]) {
        if head.ndim == 0 {
            return (&[], &[]);
        }
        // SAFETY: an array has this many sizes and strides.
        unsafe {
            let ndim = head.ndim as usize;
            (std::slice::from_raw_parts(head.shape, ndim), std::slice::from_raw_parts(head.strides, ndim))
        }
    }

    fn holds(&self, py: Python<'_>) -> bool {
        let Some(array) = self.array.get(py) else { return false };
        // SAFETY: the very array that the state was made of.
        let head = unsafe { ndarray::head(array.as_ptr()) };
        let (shape, strides) = Self::extent(head);
        (head.data, head.flags) == (self.data, self.flags)
            && self.dtype.is(head.dtype)
            && shape == self.shape
            && strides == self.strides
            && head.flags & ndarray::WRITEABLE == 0
    }
}

impl Check {
    /// Whether everything is what it was. Remembers a newer version that means the same.
    fn holds(&mut self, py: Python<'_>) -> bool {
        match self {
            Self::Names { dict, version, entries } => {
                let dict = dict.bind(py);
                let now = dict_version(dict);
                if now == Some(*version) {
                    return true;
                }
                let all = entries.iter().all(|(name, known)| {
                    match dict_get(dict.as_any().as_borrowed(), name.bind(py)) {
                        Ok(value) => same(known.as_ref(), value.map(|value| value.as_ptr())),
                        Err(_) => false,
                    }
                });
                // Looking up a name may have run code of a key that is no string.
                if all && now == dict_version(dict) {
                    *version = now.unwrap_or(0);
                }
                all
            }
            Self::Function(state) => state.holds(),
            Self::Cell { function, at, content } => {
                let Some(function) = function.get(py) else { return false };
                same(content.as_ref(), cell_content(&function, *at).as_ref().map(Bound::as_ptr))
            }
            Self::Type { class, version } => type_version(class.bind(py)) == *version,
            Self::List { list, items } => {
                let list = list.as_ptr();
                // SAFETY: an exact list; the places below its size hold live objects, and nothing
                // that is done here can change it.
                unsafe {
                    ffi::PyList_GET_SIZE(list) == items.len() as isize
                        && items
                            .iter()
                            .enumerate()
                            .all(|(at, known)| known.is(ffi::PyList_GET_ITEM(list, at as isize)))
                }
            }
            Self::Dict { dict, version, items } => {
                let dict = dict.bind(py);
                // SAFETY: an exact dict.
                let now = dict_version(unsafe { dict.cast_unchecked::<PyDict>() });
                if now == Some(*version) {
                    return true;
                }
                let mut position = 0;
                let all = dict_len(dict) == items.len()
                    && items.iter().all(|(key, value)| {
                        dict_next(dict, &mut position).is_some_and(|(current, item)| {
                            key.is(current.as_ptr()) && value.is(item.as_ptr())
                        })
                    });
                if all {
                    *version = now.unwrap_or(0);
                }
                all
            }
            Self::Set { set, items } => {
                let Ok(elements) = set.bind(py).try_iter() else { return false };
                let mut known = items.iter();
                for element in elements {
                    let Ok(element) = element else { return false };
                    if !known.next().is_some_and(|known| known.is(element.as_ptr())) {
                        return false;
                    }
                }
                known.next().is_none()
            }
            Self::Array(state) => state.holds(py),
            Self::Members { object, class, members, count } => {
                let Some(object) = object.get(py) else { return false };
                object.get_type_ptr() == *class
                    && members.iter().all(|(member, known)| match member.read(&object) {
                        Ok(value) => same(known.as_ref(), value.map(|value| value.as_ptr())),
                        Err(_) => false,
                    })
                    && count.is_none_or(|count| crate::member::count(&object) == Some(count))
            }
        }
    }
}

/// A list of things to compare.
#[pyclass(frozen, module = "keyprint._native")]
pub(crate) struct Guards {
    watched: UnderLock<Watched>,
    /// How often the list has changed: what was made of it before does not speak for it any more.
    edition: Edition,
}

/// A number that the interpreter's lock protects.
#[derive(Default)]
struct Edition(Cell<u64>);

// SAFETY: read and written with the interpreter's lock held, as `UnderLock` is.
unsafe impl Sync for Edition {}

#[derive(Default)]
struct Watched {
    checks: Vec<Check>,
    /// Python code that looks at what nothing else tells of.
    recheck: Option<Py<PyAny>>,
}

/// A value that the interpreter's lock protects.
pub(crate) struct UnderLock<T>(RefCell<T>);

// SAFETY: this module needs the interpreter's lock, also on free-threaded builds, and every access is
// made with it held; the cell catches accesses that are nested in others.
unsafe impl<T> Sync for UnderLock<T> {}
// SAFETY: as above.
unsafe impl<T> Send for UnderLock<T> {}

impl<T> UnderLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    #[inline]
    pub(crate) fn with<R>(&self, _: Python<'_>, otherwise: R, work: impl FnOnce(&mut T) -> R) -> R {
        match self.0.try_borrow_mut() {
            Ok(mut value) => work(&mut value),
            // Somebody up the stack is at work on it: only objects with strange keys lead here.
            Err(_) => otherwise,
        }
    }
}

impl Guards {
    /// Whether everything is what it was.
    #[inline]
    pub(crate) fn hold(&self, py: Python<'_>) -> PyResult<bool> {
        let (unchanged, more) = self.watched.with(py, (false, false), |watched| {
            (watched.checks.iter_mut().all(|check| check.holds(py)), watched.recheck.is_some())
        });
        if unchanged && more { self.recheck(py) } else { Ok(unchanged) }
    }

    /// Asks Python code about what nothing else tells of.
    #[cold]
    fn recheck(&self, py: Python<'_>) -> PyResult<bool> {
        let ask =
            self.watched.with(py, None, |watched| watched.recheck.as_ref().map(|ask| ask.clone_ref(py)));
        let same = ask.map_or(Ok(true), |ask| ask.call0(py)?.is_truthy(py))?;
        // What that ran may have changed anything.
        Ok(same
            && self.watched.with(py, false, |watched| watched.checks.iter_mut().all(|check| check.holds(py))))
    }

    fn add(&self, py: Python<'_>, check: Check) {
        self.edit(py, (), |watched| watched.checks.push(check));
    }

    /// Changes the list.
    fn edit<R>(&self, py: Python<'_>, otherwise: R, work: impl FnOnce(&mut Watched) -> R) -> R {
        self.edition.0.set(self.edition.0.get() + 1);
        self.watched.with(py, otherwise, work)
    }

    /// Adds words that prove that everything is what it was; false if there are none.
    fn words(&self, py: Python<'_>, words: &mut Vec<words::Word>) -> bool {
        words.push(words::Word::whole(self.edition.0.as_ptr(), self.edition.0.get()));
        self.watched.with(py, false, |watched| {
            watched.recheck.is_none() && watched.checks.iter().all(|check| check.add_words(words))
        })
    }
}

#[pymethods]
impl Guards {
    #[new]
    fn new() -> Self {
        Self { watched: UnderLock::new(Watched::default()), edition: Edition::default() }
    }

    /// Has a function called at each check, to look at what cannot be watched.
    #[pyo3(signature = (recheck, /))]
    fn set_recheck(&self, py: Python<'_>, recheck: Py<PyAny>) {
        let dropped = self.edit(py, None, |watched| watched.recheck.replace(recheck));
        drop(dropped);
    }

    /// Reads a name from a dict: a tuple of its value, or an empty one.
    #[pyo3(signature = (dict, name, /))]
    fn name<'py>(
        &self,
        dict: &Bound<'py, PyDict>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = dict.py();
        let version = dict_version(dict).unwrap_or(0);
        let value = dict_get(dict.as_any().as_borrowed(), name)?.map(|value| value.to_owned());
        let held = value.as_ref().map(Held::of);
        let added = self.edit(py, false, |Watched { checks, .. }| {
            let known = checks.iter_mut().find_map(|check| match check {
                Check::Names { dict: known, version, entries } if known.is(dict) => Some((version, entries)),
                _ => None,
            });
            match known {
                Some((known, entries)) => {
                    // The names that are known were read at another version.
                    if *known != version {
                        *known = 0;
                    }
                    entries.push((name.clone().unbind(), held));
                }
                None => checks.push(Check::Names {
                    dict: dict.clone().unbind(),
                    version,
                    entries: vec![(name.clone().unbind(), held)],
                }),
            }
            true
        });
        debug_assert!(added);
        PyTuple::new(py, value)
    }

    /// Reads a closure cell of a function: a tuple of its content, or an empty one.
    #[pyo3(signature = (function, at, /))]
    fn cell<'py>(&self, function: &Bound<'py, PyAny>, at: usize) -> PyResult<Bound<'py, PyTuple>> {
        let py = function.py();
        if function.get_type_ptr() != &raw mut ffi::PyFunction_Type {
            return Err(PyTypeError::new_err("expected a function"));
        }
        let value = cell_content(function, at);
        let content = value.as_ref().map(Held::of);
        self.add(py, Check::Cell { function: Held::of(function), at, content });
        PyTuple::new(py, value)
    }

    /// Watches what a function is made of; returns whether it has attributes of its own.
    #[pyo3(signature = (function, /))]
    fn function(&self, function: &Bound<'_, PyAny>) -> PyResult<bool> {
        if function.get_type_ptr() != &raw mut ffi::PyFunction_Type {
            return Err(PyTypeError::new_err("expected a function"));
        }
        let state = FunctionState::new(function);
        let has_attributes = state.has_attributes();
        self.add(function.py(), Check::Function(state));
        Ok(has_attributes)
    }

    /// Watches what a class and its bases define; false if that cannot be told.
    #[pyo3(signature = (class, /), name = "type")]
    fn class(&self, class: &Bound<'_, PyType>) -> bool {
        let version = assigned_version(class);
        if version != 0 {
            let known = self.watched.with(class.py(), false, |watched| {
                watched.checks.iter().any(|check| matches!(check, Check::Type { class: known, version: seen } if known.is(class) && *seen == version))
            });
            if !known {
                self.add(class.py(), Check::Type { class: class.clone().unbind(), version });
            }
        }
        version != 0
    }

    /// Reads a member that is stored in an instance: a tuple of its value, an empty one, or nothing if
    /// nobody knows where the members of the instance are.
    #[pyo3(signature = (object, name, /))]
    fn member<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let py = object.py();
        let member = Member::new(&object.get_type(), name);
        let Ok(value) = member.read(object) else { return Ok(None) };
        let value = value.map(|value| value.to_owned());
        let members = vec![(member, value.as_ref().map(Held::of))];
        let (held, class) = (Held::of(object), object.get_type_ptr());
        self.add(py, Check::Members { object: held, class, members, count: None });
        PyTuple::new(py, value).map(Some)
    }

    /// Watches a value and everything in it; false if some of that cannot be watched.
    #[pyo3(signature = (value, /))]
    fn value(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        watch::value(self, value)
    }

    /// Whether everything is what it was.
    fn check(&self, py: Python<'_>) -> PyResult<bool> {
        self.hold(py)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.watched.with(py, 0, |watched| watched.checks.len() + usize::from(watched.recheck.is_some()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: garbage is collected with the interpreter's lock held.
        let py = unsafe { Python::assume_attached() };
        self.watched.with(py, Ok(()), |watched| {
            watched.recheck.iter().try_for_each(|recheck| visit.call(recheck))?;
            watched.checks.iter().try_for_each(|check| check.traverse(&visit))
        })
    }

    fn __clear__(&self, py: Python<'_>) {
        let dropped = self.edit(py, Watched::default(), std::mem::take);
        drop(dropped);
    }
}

impl Check {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Names { dict, entries, .. } => {
                visit.call(dict)?;
                entries.iter().filter_map(|(_, held)| held.as_ref()).try_for_each(|held| held.traverse(visit))
            }
            Self::Function(state) => {
                state.function.traverse(visit)?;
                state.parts.iter().chain(&state.dicts).flatten().try_for_each(|held| held.traverse(visit))
            }
            Self::Cell { function, content, .. } => {
                function.traverse(visit)?;
                content.iter().try_for_each(|held| held.traverse(visit))
            }
            Self::Type { class, .. } => visit.call(class),
            Self::List { list: owner, items } | Self::Set { set: owner, items } => {
                visit.call(owner)?;
                items.iter().try_for_each(|held| held.traverse(visit))
            }
            Self::Dict { dict, items, .. } => {
                visit.call(dict)?;
                items.iter().try_for_each(|(key, value)| {
                    key.traverse(visit)?;
                    value.traverse(visit)
                })
            }
            Self::Array(state) => {
                state.array.traverse(visit)?;
                state.dtype.traverse(visit)
            }
            Self::Members { object, members, .. } => {
                object.traverse(visit)?;
                members.iter().filter_map(|(_, held)| held.as_ref()).try_for_each(|held| held.traverse(visit))
            }
        }
    }
}
