//! What a kernel knows: contexts, and the entries that were made in them.

use std::cell::{RefCell, UnsafeCell};
use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::argument_guard::ArgumentGuard;
use super::bind::Parameters;
use super::equality::equal;
use super::fast_path::FastPath;
use super::kernel_type::TYPE;
use super::pack::NativeCall;
use crate::guard::{Guards, Words};

/// Entries beyond this are found by the dispatcher, by key.
pub(super) const MOST_ENTRIES: usize = 64;

/// Contexts beyond this are made again when they come back.
pub(super) const MOST_CONTEXTS: usize = 8;

/// A kernel as Python sees it.
#[repr(C)]
pub(super) struct KernelObject {
    pub(super) base: ffi::PyObject,
    pub(super) vectorcall: Option<ffi::vectorcallfunc>,
    pub(super) weak_references: *mut ffi::PyObject,
    pub(super) attributes: *mut ffi::PyObject,
    pub(super) state: *mut UnsafeCell<State>,
}

/// What a kernel knows. Touched only with the interpreter's lock held, and never across Python code.
pub(super) struct State {
    /// The Python object that does everything but launching.
    pub(super) dispatcher: Py<PyAny>,
    pub(super) parameters: Rc<Parameters>,
    /// Names of the keyword-only parameters.
    pub(super) keywords: Option<Py<PyTuple>>,
    /// Asked at each call what to compile for.
    pub(super) target: Option<Py<PyAny>>,
    /// Makes what an instance has of a kernel that is a method, if that is more than a method.
    pub(super) binder: Option<Py<PyAny>>,
    /// Most recently used first.
    pub(super) contexts: Vec<Rc<Context>>,
    /// Those that calls are waiting for something new in, which may not be among the others any more.
    pub(super) busy: Vec<Rc<Context>>,
    pub(super) launches: u64,
    /// Calls that found their entry since the dispatcher was last asked.
    pub(super) hits: u64,
    /// The context and the entry of the last call, if they are the first ones, and calls can be made of them in short.
    pub(super) last: Option<Last>,
}

/// A context, and an entry that has a [fast path](Entry::fast_path).
pub(super) type Last = (Rc<Context>, Rc<Entry>);

/// Everything that a kernel depended on at some moment, arguments aside, and what was loaded for it.
///
/// A call uses one context from beginning to end, so that threads that see different targets do not get
/// each other's executables.
pub(super) struct Context {
    /// What the dispatcher knows it by.
    pub(super) token: Py<PyAny>,
    /// Whether everything is what it was then.
    pub(super) guards: Vec<Py<Guards>>,
    /// The same in short.
    pub(super) words: RefCell<Words>,
    /// What the target was.
    pub(super) target: Option<Py<PyAny>>,
    /// The defaults were part of it.
    pub(super) defaults: Vec<Option<Py<PyAny>>>,
    /// Most recently used first.
    pub(super) entries: RefCell<Vec<Rc<Entry>>>,
}

/// An executable and what it is for.
pub(super) struct Entry {
    /// Whether the arguments of a call are those that it is for.
    pub(super) argument_guards: Vec<ArgumentGuard>,
    /// What methods depend on that arguments bring along.
    pub(super) guards: Vec<Py<Guards>>,
    /// The same in short.
    pub(super) words: RefCell<Words>,
    /// Whether finding out may run Python code.
    pub(super) runs_python: bool,
    pub(super) call: Call,
    /// What a call comes to, if all it takes is a look at each argument.
    pub(super) fast_path: Option<FastPath>,
}

pub(super) enum Call {
    Python(Py<PyAny>),
    Native(NativeCall),
}

/// Whether guards hold; words speak for them where they can.
fn hold(py: Python<'_>, guards: &[Py<Guards>], words: &RefCell<Words>) -> PyResult<bool> {
    if let Ok(mut words) = words.try_borrow_mut() {
        return words.hold(py, guards);
    }
    // Somebody up the stack is at it: guards may run Python code.
    for guard in guards {
        if !guard.get().hold(py)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Entry {
    /// Whether what methods depend on is what it was.
    #[inline]
    pub(super) fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        if self.guards.is_empty() { Ok(true) } else { hold(py, &self.guards, &self.words) }
    }

    /// The same, as far as a few words of memory prove it.
    #[inline]
    pub(super) fn is_unchanged(&self) -> bool {
        self.guards.is_empty() || self.words.try_borrow().is_ok_and(|words| words.are_same())
    }

    /// Adds the objects that the entry owns.
    pub(super) fn owned(&self, all: &mut Vec<*mut ffi::PyObject>) {
        all.extend(self.guards.iter().map(Py::as_ptr));
        self.argument_guards.iter().for_each(|guard| all.extend(guard.owned()));
        match &self.call {
            Call::Python(callable) => all.push(callable.as_ptr()),
            Call::Native(call) => call.owned(all),
        }
    }

    /// What the loader made.
    pub(super) fn executable(&self, py: Python<'_>) -> Py<PyAny> {
        match &self.call {
            Call::Python(callable) => callable.clone_ref(py),
            Call::Native(call) => call.made(py),
        }
    }
}

impl Context {
    /// Whether everything is what it was.
    #[inline]
    pub(super) fn is_now(&self, py: Python<'_>, target: Option<&Py<PyAny>>) -> PyResult<bool> {
        let same_target = match (&self.target, target) {
            (Some(known), Some(current)) => equal(known.as_ptr(), current.as_ptr()),
            (None, None) => true,
            _ => false,
        };
        if same_target { self.holds(py) } else { Ok(false) }
    }

    /// Whether everything but the target is what it was.
    #[inline]
    pub(super) fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        hold(py, &self.guards, &self.words)
    }

    /// Whether a few words of memory prove that everything but the target is what it was.
    #[inline]
    pub(super) fn is_unchanged(&self) -> bool {
        self.words.try_borrow().is_ok_and(|words| words.are_same())
    }

    #[inline]
    pub(super) fn entry(&self, at: usize) -> Option<Rc<Entry>> {
        self.entries.borrow().get(at).map(Rc::clone)
    }

    /// Moves an entry to the front.
    #[cold]
    pub(super) fn use_first(&self, at: usize, entry: &Rc<Entry>) {
        let mut entries = self.entries.borrow_mut();
        // Another call may have moved it meanwhile.
        if entries.get(at).is_some_and(|known| Rc::ptr_eq(known, entry)) {
            entries[..=at].rotate_right(1);
        }
    }
}

/// Borrowed access to a kernel's state.
pub(super) struct Kernel<'py> {
    pub(super) py: Python<'py>,
    pub(super) object: *mut KernelObject,
}

impl<'py> Kernel<'py> {
    /// Runs something on the state that runs no Python code.
    #[inline]
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        // SAFETY: the object is alive for the call, and the interpreter's lock is held; `work` runs no
        // Python code, so nothing else gets here meanwhile.
        unsafe { work(&mut *(*(*self.object).state).get()) }
    }

    pub(super) fn dispatcher(&self) -> Bound<'py, PyAny> {
        self.with(|state| state.dispatcher.clone_ref(self.py)).into_bound(self.py)
    }
}

/// The state of something that must be a kernel.
pub(super) fn kernel<'py>(object: &Bound<'py, PyAny>) -> PyResult<Kernel<'py>> {
    let py = object.py();
    match TYPE.get(py) {
        Some(class) if object.get_type().is(class) => Ok(Kernel { py, object: object.as_ptr().cast() }),
        _ => Err(PyTypeError::new_err("expected a kernel")),
    }
}
