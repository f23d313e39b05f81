//! What the Python half tells kernels, and asks of them.

use std::cell::{RefCell, UnsafeCell};
use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::argument_guard::ArgumentGuard;
use super::bind::Parameters;
use super::fast_path::FastPath;
use super::kernel::{Call, Context, Entry, KernelObject, MOST_CONTEXTS, MOST_ENTRIES, State, kernel};
use super::kernel_type::{TYPE, vectorcall};
use super::pack::{NativeCall, Start};
use super::spec::{CallSpec, GuardSpec};
use crate::guard::Guards;

/// Makes a kernel, for a function with these parameters, keyword-only ones last. `target` is asked at each
/// call, if there is one.
#[pyfunction]
#[pyo3(signature = (dispatcher, names, by_position, positional, target, /))]
pub(crate) fn _make_kernel<'py>(
    dispatcher: &Bound<'py, PyAny>,
    names: Vec<String>,
    by_position: usize,
    positional: usize,
    target: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dispatcher.py();
    let class = TYPE.get(py).ok_or_else(|| PyTypeError::new_err("the type of kernels is not made yet"))?;
    if by_position > positional || positional > names.len() {
        return Err(PyTypeError::new_err("more parameters by position than there are"));
    }
    let keywords = (positional < names.len())
        .then(|| PyTuple::new(py, names[positional..].iter().map(|name| PyString::intern(py, name))))
        .transpose()?;
    let names = names.iter().map(|name| PyString::intern(py, name).unbind()).collect();
    let state = State {
        dispatcher: dispatcher.clone().unbind(),
        parameters: Rc::new(Parameters { names, by_position, positional }),
        keywords: keywords.map(Bound::unbind),
        target,
        binder: None,
        contexts: Vec::new(),
        busy: Vec::new(),
        launches: 0,
        hits: 0,
        last: None,
    };
    // SAFETY: the generic allocator zeroes the object, which is a valid kernel without a state until the
    // fields are set.
    unsafe {
        let object = ffi::PyType_GenericAlloc(class.as_ptr().cast(), 0);
        let owned = Bound::from_owned_ptr_or_err(py, object)?;
        let object = object.cast::<KernelObject>();
        (*object).state = Box::into_raw(Box::new(UnsafeCell::new(state)));
        (*object).vectorcall = Some(vectorcall);
        Ok(owned)
    }
}

/// Tells a kernel what it depends on now. `token` is what [`_add_entry`] and the dispatcher know it by;
/// `target` and `defaults` are tuples, empty where there is none.
#[pyfunction]
#[pyo3(signature = (object, token, guards, target, defaults, /))]
pub(crate) fn _add_context(
    object: &Bound<'_, PyAny>,
    token: Py<PyAny>,
    guards: Vec<Py<Guards>>,
    target: &Bound<'_, PyTuple>,
    defaults: Vec<Bound<'_, PyTuple>>,
) -> PyResult<()> {
    let kernel = kernel(object)?;
    if defaults.len() != kernel.with(|state| state.parameters.names.len()) {
        return Err(PyTypeError::new_err("a default, or none, for each parameter"));
    }
    if guards.is_empty() {
        return Err(PyTypeError::new_err("a context without guards would hold for ever"));
    }
    let target = target.get_item(0).ok().map(Bound::unbind);
    let defaults = defaults.iter().map(|default| default.get_item(0).ok().map(Bound::unbind)).collect();
    let dropped = kernel.with(|state| {
        // The same context, looked at anew: what was loaded for it is good.
        let at = state.contexts.iter().position(|context| context.token.is(&token));
        let known = at.map(|at| state.contexts.remove(at));
        let entries = known.as_ref().map_or_else(Vec::new, |known| known.entries.borrow().clone());
        let entries = RefCell::new(entries);
        let words = RefCell::default();
        state.contexts.insert(0, Rc::new(Context { token, guards, words, target, defaults, entries }));
        (known, (state.contexts.len() > MOST_CONTEXTS).then(|| state.contexts.pop()), state.last.take())
    });
    drop(dropped);
    Ok(())
}

/// Adds an executable to a context, for calls whose arguments pass guards that are made here from these
/// arguments. `executable` is a callable, or a description of a native call.
#[pyfunction]
#[pyo3(signature = (object, token, arguments, argument_guards, guards, executable, /))]
pub(crate) fn _add_entry(
    object: &Bound<'_, PyAny>,
    token: &Bound<'_, PyAny>,
    arguments: &Bound<'_, PyTuple>,
    argument_guards: Vec<Py<GuardSpec>>,
    guards: Vec<Py<Guards>>,
    executable: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let kernel = kernel(object)?;
    let mut values = Vec::new();
    let argument_guards: Vec<ArgumentGuard> = argument_guards
        .iter()
        .map(|spec| ArgumentGuard::new(object.py(), spec.get(), arguments, &mut values))
        .collect::<PyResult<_>>()?;
    let call = match executable.cast::<CallSpec>() {
        Ok(native) => Call::Native(NativeCall::new(object.py(), native.get(), &argument_guards)?),
        Err(_) => Call::Python(executable.clone().unbind()),
    };
    // What is borrowed from members could be gone by then; arguments are the caller's.
    let has_members = argument_guards.iter().any(|guard| !guard.is_argument());
    let may_run = |guard: &ArgumentGuard| guard.runs_python && (has_members || !guard.calls_tensors());
    let guards_run = argument_guards.iter().any(may_run);
    let runs_python = guards_run || !guards.is_empty();
    let fast_path = match &call {
        Call::Native(call) if !guards_run => FastPath::of(arguments.len(), &argument_guards, call),
        _ => None,
    };
    let words = RefCell::default();
    let entry = Rc::new(Entry { argument_guards, guards, words, runs_python, call, fast_path });
    let dropped = kernel.with(|state| {
        let last = state.last.take();
        // A context that was dropped meanwhile is not needed any more, or will come back.
        let mut all = state.contexts.iter().chain(&state.busy);
        let Some(context) = all.find(|context| context.token.is(token)) else { return (last, None) };
        let mut entries = context.entries.borrow_mut();
        entries.insert(0, entry);
        (last, if entries.len() > MOST_ENTRIES { entries.pop() } else { None })
    });
    drop(dropped);
    Ok(())
}

/// Whether a kernel has a context that still is as it was, its target aside.
#[pyfunction]
#[pyo3(signature = (object, token, /))]
pub(crate) fn _has_context(object: &Bound<'_, PyAny>, token: &Bound<'_, PyAny>) -> PyResult<bool> {
    let find =
        |state: &mut State| state.contexts.iter().find(|context| context.token.is(token)).map(Rc::clone);
    kernel(object)?.with(find).map_or(Ok(false), |context| context.holds(object.py()))
}

/// Arguments as a vectorcall has them: the objects, how many are by position, and the names of the others.
fn as_vectorcall<'py>(
    arguments: &Bound<'py, PyTuple>,
    named: &Bound<'py, PyDict>,
) -> PyResult<(Vec<Bound<'py, PyAny>>, Bound<'py, PyTuple>)> {
    let mut all: Vec<_> = arguments.iter().collect();
    all.extend(named.values());
    Ok((all, PyTuple::new(arguments.py(), named.keys())?))
}

fn call_from<'py>(
    object: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
    named: &Bound<'py, PyDict>,
    start: Start<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let kernel = kernel(object)?;
    let (all, names) = as_vectorcall(arguments, named)?;
    let pointers: Vec<*mut ffi::PyObject> = all.iter().map(Bound::as_ptr).collect();
    let keywords = if names.is_empty() { std::ptr::null_mut() } else { names.as_ptr() };
    // SAFETY: the arguments are owned here for the call, and laid out as those of a vectorcall.
    unsafe {
        let result = kernel.call(pointers.as_ptr(), arguments.len(), keywords, start)?;
        Ok(Bound::from_owned_ptr(object.py(), result))
    }
}

/// Calls a kernel, beginning somewhere else: `start` is asked of what the loader made.
#[pyfunction]
#[pyo3(signature = (object, start, arguments, named, /))]
pub(crate) fn _resume<'py>(
    object: &Bound<'py, PyAny>,
    start: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
    named: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    call_from(object, arguments, named, Start::At(start))
}

/// What the loader made for arguments; it is compiled if it must be, and not run.
#[pyfunction]
#[pyo3(signature = (object, arguments, named, /))]
pub(crate) fn _find_executable<'py>(
    object: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
    named: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let kernel = kernel(object)?;
    let last =
        kernel.with(|state| state.contexts.first().map(|context| (Rc::clone(context), context.entry(0))));
    let executable = call_from(object, arguments, named, Start::Nowhere)?;
    // What was launched last stays the last one.
    if let Some((context, Some(entry))) = last {
        kernel.forget_last();
        kernel.with(|state| {
            if let Some(at) = state.contexts.iter().position(|known| Rc::ptr_eq(known, &context)) {
                state.contexts[..=at].rotate_right(1);
            }
        });
        let at = context.entries.borrow().iter().position(|known| Rc::ptr_eq(known, &entry));
        if let Some(at) = at {
            context.use_first(at, &entry);
        }
    }
    Ok(executable)
}

/// What the loader made for the last call; nothing if there was none.
#[pyfunction]
#[pyo3(signature = (object, /))]
pub(crate) fn _last_executable(object: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let entry = kernel(object)?.with(|state| {
        let context = if state.launches > 0 { state.contexts.first() } else { None };
        context.and_then(|context| context.entry(0))
    });
    Ok(entry.map(|entry| entry.executable(object.py())))
}

/// Says what instances have of a kernel that is a method: what `binder(kernel, instance)` returns.
#[pyfunction]
#[pyo3(signature = (object, binder, /))]
pub(crate) fn _set_binder(object: &Bound<'_, PyAny>, binder: Py<PyAny>) -> PyResult<()> {
    let before = kernel(object)?.with(|state| state.binder.replace(binder));
    drop(before);
    Ok(())
}

/// Forgets everything that a kernel was told.
#[pyfunction]
#[pyo3(signature = (object, /))]
pub(crate) fn _forget_contexts(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let dropped = kernel(object)?.with(|state| (std::mem::take(&mut state.contexts), state.last.take()));
    drop(dropped);
    Ok(())
}

/// Calls, calls that found their entry since the dispatcher was last asked, and entries.
#[pyfunction]
#[pyo3(signature = (object, /))]
pub(crate) fn _kernel_stats(object: &Bound<'_, PyAny>) -> PyResult<(u64, u64, usize)> {
    let entries = |state: &State| state.contexts.iter().map(|context| context.entries.borrow().len()).sum();
    Ok(kernel(object)?.with(|state| (state.launches, state.hits, entries(state))))
}
