//! The interpreter's lock, while native code runs.
//!
//! Code that takes long lets go of the lock, through the runtime. Then members of objects may be rebound by other
//! threads, so the arrays in them that the code works on are owned meanwhile. Most launches never get there, and
//! pay for a note of where those arrays are.

use std::cell::Cell;
use std::ffi::c_void;

use pyo3::ffi;

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

/// Takes the lock back.
pub(crate) fn take(token: *mut c_void) {
    // SAFETY: what `release` returned on this thread.
    unsafe { ffi::PyEval_RestoreThread(token.cast()) };
    // Letting go of the last reference may run Python code, which may launch something else.
    let noted = WORKED_ON.take();
    each(noted, ffi::Py_DECREF);
    WORKED_ON.set(noted);
}
