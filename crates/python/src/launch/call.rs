//! What a call of a kernel does.

use std::mem::MaybeUninit;
use std::rc::Rc;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::argument_guard::{Verdict, pass, pass_quietly};
use super::bind::{INLINE, Parameters};
use super::kernel::{Call, Context, Entry, Kernel};
use super::pack::Start;
use crate::interned::intern;

/// Objects of an entry that are found without a look at the heap.
const INLINE_GUARDS: usize = 64;

/// A kernel whose compiler changes what the kernel reads is compiled this often.
const COMPILES: usize = 4;

/// An entry that does not fit the arguments it was made for is made again this often.
const ATTEMPTS: usize = 64;

/// What a call asks for.
struct Request<'a, 'py> {
    /// One object for each parameter.
    arguments: &'a [*mut ffi::PyObject],
    parameters: &'a Parameters,
    start: Start<'a, 'py>,
}

impl<'py> Kernel<'py> {
    /// The context as it is now: one that was seen before, or a new one.
    #[inline]
    fn context(&self) -> PyResult<Rc<Context>> {
        let py = self.py;
        for _ in 0..ATTEMPTS {
            let ask = self.with(|state| state.target.as_ref().map(|ask| ask.clone_ref(py)));
            let target = match ask {
                None => None,
                Some(ask) => Some(ask.call0(py)?),
            };
            let mut at = 0;
            while let Some(context) = self.with(|state| state.contexts.get(at).map(Rc::clone)) {
                if context.is_now(py, target.as_ref())? {
                    if at > 0 {
                        self.forget_last();
                        self.with(|state| {
                            // Another call may have moved it meanwhile.
                            if state.contexts.get(at).is_some_and(|known| Rc::ptr_eq(known, &context)) {
                                state.contexts[..=at].rotate_right(1);
                            }
                        });
                    }
                    return Ok(context);
                }
                at += 1;
            }
            self.with(|state| state.hits = 0);
            let token =
                self.dispatcher().call_method1(intern!(py, "refresh"), (PyTuple::new(py, target)?,))?;
            // The dispatcher has looked at the target, in ways that only Python code can.
            let context = self
                .with(|state| state.contexts.iter().find(|context| context.token.is(&token)).map(Rc::clone));
            if let Some(context) = context
                && context.holds(py)?
            {
                return Ok(context);
            }
        }
        Err(PyRuntimeError::new_err("what the kernel depends on keeps changing while it is looked at"))
    }

    /// Calls the kernel, whatever it takes.
    ///
    /// # Safety
    ///
    /// The arguments are those of a vectorcall.
    #[inline(never)]
    pub(super) unsafe fn call(
        &self,
        arguments: *const *mut ffi::PyObject,
        count: usize,
        keywords: *mut ffi::PyObject,
        start: Start<'_, 'py>,
    ) -> PyResult<*mut ffi::PyObject> {
        let parameters = self.with(|state| {
            state.launches += u64::from(!matches!(start, Start::Nowhere));
            Rc::clone(&state.parameters)
        });
        for _ in 0..COMPILES {
            let context = self.context()?;
            // SAFETY: as the caller promises.
            let outcome = unsafe { self.call_in(&context, &parameters, arguments, count, keywords, start)? };
            if let Some(result) = outcome {
                return Ok(result);
            }
        }
        Err(PyRuntimeError::new_err("what the kernel depends on changes whenever it is compiled"))
    }

    /// Calls what was called last, if it is for these arguments and nothing has changed.
    ///
    /// # Safety
    ///
    /// The arguments are those of a vectorcall without keywords.
    #[inline]
    pub(super) unsafe fn call_again(
        &self,
        arguments: *const *mut ffi::PyObject,
        count: usize,
    ) -> PyResult<Option<*mut ffi::PyObject>> {
        let Some((context, entry)) = self.with(|state| state.last.clone()) else { return Ok(None) };
        let (Some(path), Call::Native(call)) = (&entry.fast_path, &entry.call) else { return Ok(None) };
        if count != path.arguments || !context.is_unchanged() || !entry.is_unchanged() {
            return Ok(None);
        }
        // SAFETY: there are as many arguments, and the caller owns them for the call.
        let result = unsafe {
            let arguments = std::slice::from_raw_parts(arguments, count);
            call.call_fast(self.py, &entry.argument_guards, path, arguments)
        };
        if !matches!(result, Ok(None)) {
            self.with(|state| {
                state.launches += 1;
                state.hits += 1;
            });
        }
        result
    }

    /// Has the next call look for its entry.
    #[cold]
    pub(super) fn forget_last(&self) {
        let dropped = self.with(|state| state.last.take());
        drop(dropped);
    }

    /// Has the next call try this entry first, if it can be called in short.
    #[inline]
    fn remember(&self, context: &Rc<Context>, entry: &Rc<Entry>) {
        if entry.fast_path.is_none() {
            return;
        }
        let dropped = self.with(|state| {
            let is_first = state.contexts.first().is_some_and(|first| Rc::ptr_eq(first, context));
            let is_usual = is_first && state.target.is_none() && state.keywords.is_none();
            let last = is_usual.then(|| (Rc::clone(context), Rc::clone(entry)));
            std::mem::replace(&mut state.last, last)
        });
        drop(dropped);
    }

    /// Calls the kernel in a context; nothing if the context turned into another meanwhile.
    ///
    /// # Safety
    ///
    /// The arguments are those of a vectorcall.
    #[inline]
    unsafe fn call_in(
        &self,
        context: &Rc<Context>,
        parameters: &Parameters,
        arguments: *const *mut ffi::PyObject,
        count: usize,
        keywords: *mut ffi::PyObject,
        start: Start<'_, 'py>,
    ) -> PyResult<Option<*mut ffi::PyObject>> {
        let total = parameters.names.len();
        if keywords.is_null() && count == total && parameters.positional == total {
            // SAFETY: there are as many arguments as parameters, and the caller owns them for the call.
            let arguments = unsafe { std::slice::from_raw_parts(arguments, count) };
            // SAFETY: as above.
            return unsafe { self.launch(context, &Request { arguments, parameters, start }) };
        }
        let mut inline = [std::ptr::null_mut(); INLINE];
        let mut heap = Vec::new();
        let slots: &mut [*mut ffi::PyObject] = if total <= INLINE {
            &mut inline[..total]
        } else {
            heap.resize(total, std::ptr::null_mut());
            &mut heap
        };
        // SAFETY: as the caller promises.
        match unsafe { parameters.bind(arguments, count, keywords, &context.defaults, slots) } {
            // SAFETY: the caller owns what it passed, and the context the defaults.
            Ok(()) => unsafe { self.launch(context, &Request { arguments: slots, parameters, start }) },
            // SAFETY: as the caller promises.
            Err(_) => Err(unsafe { self.mismatch(arguments, count, keywords) }),
        }
    }

    /// Finds the entry for bound arguments and calls it.
    ///
    /// # Safety
    ///
    /// The arguments are live objects, one for each parameter.
    unsafe fn launch(
        &self,
        context: &Rc<Context>,
        request: &Request<'_, 'py>,
    ) -> PyResult<Option<*mut ffi::PyObject>> {
        for attempt in 0..ATTEMPTS {
            let mut at = 0;
            while let Some(entry) = context.entry(at) {
                // SAFETY: as the caller promises.
                let result = unsafe { self.try_entry(context, &entry, at, request, attempt == 0)? };
                if result.is_some() {
                    return Ok(result);
                }
                at += 1;
            }
            // SAFETY: as the caller promises.
            let bound = PyTuple::new(
                self.py,
                request
                    .arguments
                    .iter()
                    .map(|argument| unsafe { Bound::from_borrowed_ptr(self.py, *argument) }),
            )?;
            self.with(|state| {
                state.hits = 0;
                state.busy.push(Rc::clone(context));
            });
            let compiled = self.dispatcher().call_method1(intern!(self.py, "miss"), (&context.token, bound));
            self.with(|state| {
                if let Some(at) = state.busy.iter().rposition(|busy| Rc::ptr_eq(busy, context)) {
                    state.busy.swap_remove(at);
                }
            });
            if !compiled?.is_truthy()? {
                return Ok(None);
            }
        }
        Err(PyRuntimeError::new_err("the arguments of the kernel keep changing while they are looked at"))
    }

    /// Calls an entry if it is for these arguments.
    ///
    /// # Safety
    ///
    /// As for [`launch`](Self::launch).
    #[inline]
    unsafe fn try_entry(
        &self,
        context: &Rc<Context>,
        entry: &Rc<Entry>,
        at: usize,
        request: &Request<'_, 'py>,
        is_hit: bool,
    ) -> PyResult<Option<*mut ffi::PyObject>> {
        let Request { arguments, parameters, start } = *request;
        let py = self.py;
        let guards = &entry.argument_guards;
        let mut inline = [const { MaybeUninit::<*mut ffi::PyObject>::uninit() }; INLINE_GUARDS];
        let mut heap = Vec::new();
        let values: &mut [MaybeUninit<*mut ffi::PyObject>] = if guards.len() <= INLINE_GUARDS {
            &mut inline[..guards.len()]
        } else {
            heap.resize(guards.len(), MaybeUninit::uninit());
            &mut heap
        };
        // SAFETY: each guard writes its own place before any other reads it.
        let values = unsafe { &mut *(std::ptr::from_mut(values) as *mut [*mut ffi::PyObject]) };
        let mut kept = Vec::new();
        let keep = entry.runs_python.then_some(&mut kept);
        // SAFETY: as the caller promises.
        match unsafe { pass(py, guards, arguments, values, keep) } {
            Verdict::Pass => {}
            Verdict::Fail => return Ok(None),
            Verdict::Raise => return Err(PyErr::fetch(py)),
        }
        if !entry.holds(py)? {
            return Ok(None);
        }
        if matches!(start, Start::Nowhere) {
            return Ok(Some(entry.executable(py).into_ptr()));
        }
        if is_hit {
            self.with(|state| state.hits += 1);
        }
        if at > 0 {
            self.forget_last();
            context.use_first(at, entry);
        } else if matches!(start, Start::First) {
            self.remember(context, entry);
        }
        match &entry.call {
            Call::Native(call) => {
                let start = match start {
                    Start::At(start) => {
                        let start = call.start(py, start)?;
                        // Finding out where to begin may have run Python code: what was found is looked for again.
                        // SAFETY: as the caller promises.
                        if !unsafe { pass_quietly(py, guards, arguments, values) } {
                            return Ok(None);
                        }
                        Some(start)
                    }
                    _ => None,
                };
                // SAFETY: as the caller promises.
                unsafe { call.call(py, guards, arguments, values, entry.runs_python, start) }
            }
            Call::Python(_) if matches!(start, Start::At(_)) => {
                Err(PyTypeError::new_err("the kernel is no native code: it always begins at the beginning"))
            }
            Call::Python(callable) => {
                let keywords = self.with(|state| state.keywords.as_ref().map(|names| names.clone_ref(py)));
                let names = keywords.as_ref().map_or(std::ptr::null_mut(), |names| names.as_ptr());
                // SAFETY: the keyword-only arguments are last, and `names` has their names.
                unsafe {
                    let result = ffi::PyObject_Vectorcall(
                        callable.as_ptr(),
                        arguments.as_ptr(),
                        parameters.positional,
                        names,
                    );
                    if result.is_null() { Err(PyErr::fetch(py)) } else { Ok(Some(result)) }
                }
            }
        }
    }

    /// The exception that Python raises for arguments that do not fit.
    ///
    /// # Safety
    ///
    /// The arguments are those of a vectorcall.
    unsafe fn mismatch(
        &self,
        arguments: *const *mut ffi::PyObject,
        count: usize,
        keywords: *mut ffi::PyObject,
    ) -> PyErr {
        let py = self.py;
        let raise = || -> PyResult<()> {
            // SAFETY: as the caller promises.
            let argument = |at: usize| unsafe { Bound::from_borrowed_ptr(py, *arguments.add(at)) };
            let positional = PyTuple::new(py, (0..count).map(argument))?;
            let named = PyDict::new(py);
            if !keywords.is_null() {
                // SAFETY: a tuple of names.
                let names =
                    unsafe { Bound::from_borrowed_ptr(py, keywords).cast_into_unchecked::<PyTuple>() };
                for (at, name) in names.iter().enumerate() {
                    named.set_item(name, argument(count + at))?;
                }
            }
            self.dispatcher().call_method1(intern!(py, "mismatch"), (positional, named))?;
            Err(PyTypeError::new_err("the arguments do not fit the parameters"))
        };
        raise().err().unwrap_or_else(|| PyTypeError::new_err("the arguments do not fit the parameters"))
    }
}
