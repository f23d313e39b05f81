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
    /// The launch that runs on this thread.
    static LAUNCH: Cell<Launch> = const { Cell::new(Launch::NONE) };
}

/// A launch, on its own thread: those that help it have none.
#[derive(Clone, Copy)]
struct Launch {
    /// Whether it holds the lock. Only this tells: the interpreter itself stops to know once there were several of it.
    has_lock: bool,
    /// What it works on: which of the values, and all of them.
    noted: Noted,
    /// What letting go of the lock gave, as long as it is not held.
    token: *mut c_void,
    /// Whether it was let go of in the middle of something: it is taken back when the launch is over.
    is_owed: bool,
}

impl Launch {
    const NONE: Self = Self { has_lock: false, noted: None, token: std::ptr::null_mut(), is_owed: false };
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
    let noted = if held.is_empty() { None } else { Some((std::ptr::from_ref(held), values.as_ptr())) };
    let before = LAUNCH.replace(Launch { has_lock: true, noted, ..Launch::NONE });
    let done = run();
    let launch = LAUNCH.get();
    if launch.is_owed {
        take(launch.token);
    }
    LAUNCH.set(before);
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

/// Runs Python code in the middle of a launch, with the lock held: it may launch something else.
fn aside<T>(work: impl FnOnce(Noted) -> T) -> T {
    let launch = LAUNCH.replace(Launch::NONE);
    let done = work(launch.noted);
    LAUNCH.set(Launch { has_lock: true, noted: launch.noted, ..Launch::NONE });
    done
}

/// Lets other threads run Python; nothing if this thread has no lock to let go of.
pub(crate) fn release() -> *mut c_void {
    let launch = LAUNCH.get();
    if !launch.has_lock {
        return std::ptr::null_mut();
    }
    // SAFETY: the lock is held.
    let token = unsafe {
        each(launch.noted, ffi::Py_INCREF);
        ffi::PyEval_SaveThread().cast()
    };
    LAUNCH.set(Launch { has_lock: false, token, ..launch });
    token
}

/// Takes the lock back.
pub(crate) fn take(token: *mut c_void) {
    // SAFETY: what `release` returned on this thread.
    unsafe { ffi::PyEval_RestoreThread(token.cast()) };
    // What stops the launch may have been raised meanwhile.
    aside(release_held);
}

/// Whether this is the thread on which Python runs handlers of signals.
pub(crate) fn is_main_thread() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: always possible.
    return unsafe { libc::gettid() == libc::getpid() };
    #[cfg(not(target_os = "linux"))]
    true
}

/// Runs handlers of signals, in a launch that holds the lock.
fn handle_signals() -> bool {
    // SAFETY: the lock is held. Nothing that the launch works on is owned yet, so it is while handlers run.
    aside(|noted| unsafe {
        each(noted, ffi::Py_INCREF);
        let stops = ffi::PyErr_CheckSignals() != 0;
        release_held(noted);
        stops
    })
}

/// Whether a launch runs on this thread.
pub(crate) fn is_running() -> bool {
    let launch = LAUNCH.get();
    launch.has_lock || !launch.token.is_null()
}

/// Finds out whether a signal came that raises, wherever a launch is; what was raised is there when the launch is over. A
/// launch that held the lock lets go of it from then on, and owes taking it back. Threads that help know of no launch: theirs is on another one.
pub(crate) fn is_interrupted() -> bool {
    let launch = LAUNCH.get();
    if !launch.has_lock && (launch.token.is_null() || !is_main_thread()) {
        return false;
    }
    if launch.has_lock {
        let stops = handle_signals();
        if !stops {
            // It takes long, wherever it is: others can run Python meanwhile.
            release();
            LAUNCH.set(Launch { is_owed: true, ..LAUNCH.get() });
        }
        return stops;
    }
    // SAFETY: what letting go gave on this thread. The arrays stay owned: handlers may drop whatever held them.
    unsafe { ffi::PyEval_RestoreThread(launch.token.cast()) };
    LAUNCH.set(Launch::NONE);
    // SAFETY: the lock is held.
    let stops = unsafe { ffi::PyErr_CheckSignals() } != 0;
    LAUNCH.set(launch);
    // SAFETY: the lock is held; it is the same state of the same thread.
    unsafe { ffi::PyEval_SaveThread() };
    stops
}

/// How often a kernel that goes on and on lets Python look at signals.
const PATIENCE: Duration = Duration::from_millis(20);

/// Finds out now and then whether a signal came that raises: then the lock is held. Otherwise, if the launch takes long,
/// other threads can run Python.
pub(crate) fn should_stop(token: &mut *mut c_void, is_long: bool) -> bool {
    thread_local! {
        static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    if token.is_null() {
        if !LAUNCH.get().has_lock {
            return is_interrupted();
        }
        let stops = handle_signals();
        if !stops && is_long {
            *token = release();
            LOOKED.set(Some(Instant::now()));
        }
        return stops;
    }
    if LOOKED.get().is_some_and(|at| at.elapsed() < PATIENCE) {
        return false;
    }
    // SAFETY: what `release` returned on this thread. The arrays stay owned: handlers may drop whatever held them.
    unsafe { ffi::PyEval_RestoreThread(token.cast()) };
    let stops = aside(|noted| {
        // SAFETY: the lock is held.
        let stops = unsafe { ffi::PyErr_CheckSignals() } != 0;
        if stops {
            release_held(noted);
        }
        stops
    });
    LOOKED.set(Some(Instant::now()));
    if stops {
        *token = std::ptr::null_mut();
    } else {
        let launch = LAUNCH.get();
        // SAFETY: the lock is held.
        *token = unsafe { ffi::PyEval_SaveThread() }.cast();
        LAUNCH.set(Launch { has_lock: false, token: *token, ..launch });
    }
    stops
}

/// Owns arrays no longer. That may run Python code, which must not see what was raised.
fn release_held(noted: Noted) {
    // SAFETY: whoever calls this holds the lock.
    let py = unsafe { Python::assume_attached() };
    let raised = PyErr::take(py);
    each(noted, ffi::Py_DECREF);
    if let Some(raised) = raised {
        raised.restore(py);
    }
}
