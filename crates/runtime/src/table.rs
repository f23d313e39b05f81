//! The functions that kernels are given.

use std::ffi::c_void;
use std::sync::OnceLock;

use crate::failure::{self, Failure};
use crate::output::{self, Part};
use crate::pace::{self, Pace};
use crate::pool::{self, Task};
use crate::random;
use crate::sections;

/// What generated code calls, in the order in which it declares it.
#[repr(C)]
pub struct Table {
    run: unsafe extern "C" fn(Task, *mut c_void, i64, i64, *mut i32),
    fail: unsafe extern "C" fn(*mut Failure, u32, u32, *const u8, *const u64),
    report: unsafe extern "C" fn(*const Failure),
    print: unsafe extern "C" fn(*const Part, u64),
    launch: extern "C" fn() -> u64,
    unlock: extern "C" fn() -> *mut c_void,
    lock: extern "C" fn(*mut c_void),
    sections: unsafe extern "C" fn(Task, *mut c_void, i64, *mut i64),
    poll: unsafe extern "C" fn(*mut *mut c_void, *mut Pace) -> i32,
    tick: unsafe extern "C" fn(*mut i32) -> i32,
}

static TABLE: Table = Table {
    run: pool::run,
    fail: failure::fail,
    report: failure::report,
    print: output::print,
    launch: random::launch,
    unlock,
    lock,
    sections: sections::run,
    poll: pace::poll,
    tick: pace::tick,
};

/// How to let others run while a kernel does, and how to take that back.
#[derive(Clone, Copy)]
pub struct Lock {
    /// Lets go; what it returns is handed to `take`. Nothing if there is nothing to let go of.
    pub release: fn() -> *mut c_void,
    /// Takes it back.
    pub take: fn(*mut c_void),
    /// Finds out whether a kernel that may go on for ever is to stop: then it has been taken back. If the kernel takes
    /// long, others can run afterwards, and what `release` returned is where it is pointed to.
    pub should_stop: fn(&mut *mut c_void, bool) -> bool,
    /// Finds out whether the launch on this thread, if there is one, is to stop, whether or not others can run.
    pub is_interrupted: fn() -> bool,
}

static LOCK: OnceLock<Lock> = OnceLock::new();

/// Says how to let others run while a kernel does. Only the first call counts.
pub fn set_lock(lock: Lock) {
    let _ = LOCK.set(lock);
}

pub(crate) extern "C" fn unlock() -> *mut c_void {
    LOCK.get().map_or(std::ptr::null_mut(), |lock| (lock.release)())
}

pub(crate) extern "C" fn lock(token: *mut c_void) {
    if let (false, Some(lock)) = (token.is_null(), LOCK.get()) {
        (lock.take)(token);
    }
}

/// Whether a kernel is to stop: see [`Lock::should_stop`].
pub(crate) fn should_stop(token: &mut *mut c_void, is_long: bool) -> bool {
    LOCK.get().is_some_and(|lock| (lock.should_stop)(token, is_long))
}

/// Whether the launch on this thread is to stop: see [`Lock::is_interrupted`].
pub(crate) fn is_interrupted() -> bool {
    LOCK.get().is_some_and(|lock| (lock.is_interrupted)())
}

/// The table to bind a kernel to.
#[must_use]
pub fn table() -> *const Table {
    &raw const TABLE
}
