//! The interpreter's lock, while native code runs.
//!
//! Code that takes long lets go of the lock, through the runtime. Then members of objects may be rebound by other
//! threads, so the arrays in them that the code works on are owned meanwhile. Most launches never get there, and
//! pay for a note of where those arrays are.

use std::cell::Cell;
use std::ffi::c_void;
use std::time::{Duration, Instant};

use pyo3::ffi;
use pyo3::prelude::*;

thread_local! {
    /// What the launch that runs on this thread works on: which of the values, and all of them.
    static WORKED_ON: Cell<Noted> = const { Cell::new(None) };
}

/// Runs native code that may let go of the lock.
///
/// # Safety
///
/// `held` are places among `values`, which are live objects as long as the lock is held.
#[inline]
pub(super) unsafe fn with_arrays<T>(
    held: &[usize],
    values: &[*mut ffi::PyObject],
    run: impl FnOnce() -> T,
) -> T {
    if held.is_empty() {
        return run();
    }
    let before = WORKED_ON.replace(Some((std::ptr::from_ref(held), values.as_ptr())));
    let done = run();
    WORKED_ON.set(before);
    done
}

/// Places among values.
type Noted = Option<(*const [usize], *const *mut ffi::PyObject)>;

fn each(noted: Noted, change: unsafe fn(*mut ffi::PyObject)) {
    if let Some((held, values)) = noted {
        // SAFETY: set by `with_arrays`, whose caller is still running on this thread; the lock is held.
        unsafe {
            for at in &*held {
                change(*values.add(*at));
            }
        }
    }
}

/// Lets other threads run Python; nothing if this thread has let go of the lock already.
pub(crate) fn release() -> *mut c_void {
    // SAFETY: kernels are launched with the lock held.
    unsafe {
        if ffi::PyGILState_Check() == 0 {
            return std::ptr::null_mut();
        }
        each(WORKED_ON.get(), ffi::Py_INCREF);
        ffi::PyEval_SaveThread().cast()
    }
}

/// How often a kernel that goes on and on lets Python look at signals.
const PATIENCE: Duration = Duration::from_millis(20);

/// Lets other threads run Python, and finds out now and then whether a signal came that raises: then the lock is held.
pub(crate) fn should_stop(token: &mut *mut c_void) -> bool {
    thread_local! {
        static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    if token.is_null() {
        *token = release();
        LOOKED.set(Some(Instant::now()));
        return false;
    }
    if LOOKED.get().is_some_and(|at| at.elapsed() < PATIENCE) {
        return false;
    }
    // SAFETY: what `release` returned on this thread. The arrays stay owned: handlers may drop whatever held them.
    unsafe {
        ffi::PyEval_RestoreThread(token.cast());
        let noted = WORKED_ON.take();
        let stops = ffi::PyErr_CheckSignals() != 0;
        if stops {
            *token = std::ptr::null_mut();
            // Letting go of arrays may run Python code, which must not see what was raised.
            let py = Python::assume_attached();
            let raised = PyErr::take(py);
            each(noted, ffi::Py_DECREF);
            if let Some(raised) = raised {
                raised.restore(py);
            }
        } else {
            *token = ffi::PyEval_SaveThread().cast();
        }
        WORKED_ON.set(noted);
        LOOKED.set(Some(Instant::now()));
        stops
    }
}

/// Takes the lock back.
pub(crate) fn take(token: *mut c_void) {
    // SAFETY: what `release` returned on this thread.
    unsafe { ffi::PyEval_RestoreThread(token.cast()) };
    // Letting go of the last reference may run Python code, which may launch something else.
    let noted = WORKED_ON.take();
    each(noted, ffi::Py_DECREF);
    WORKED_ON.set(noted);
}
