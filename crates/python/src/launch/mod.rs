//! The dispatcher: from a call to the executable that was compiled for it.
//!
//! A kernel is an instance of a heap type that is called without a Python frame. A call binds its
//! arguments ([`bind`]), asks the guards whether everything that the kernel depends on is still what it
//! was, and looks for an entry whose checks ([`check`]) the arguments pass. Anything else is left to
//! the kernel's *brain*, the Python object that resolves, keys, compiles and loads.
//!
//! | module | what it knows |
//! | --- | --- |
//! | [`kernel`] | the type and the call |
//! | [`bind`] | arguments to parameters, as Python does |
//! | [`check`] | whether arguments are what an entry was made for |
//! | [`array`] | what counts of an array |
//! | [`pack`] | arguments as words, for native code |
//! | [`lock`] | the interpreter's lock, while native code runs |
//!
//! # Invariants
//!
//! - A call that hits allocates nothing, imports nothing, and runs no Python code but what the user asked
//!   for: a target function, a signature method.
//! - Entries refer to nothing of the user's but classes, functions and plain values.
//! - No borrow of the kernel's state lives across Python code.

mod array;
mod bind;
mod check;
mod kernel;
mod lock;
mod pack;

pub(crate) use self::array::{_array_spec, _dlpack_spec};
pub(crate) use self::check::_set_target_type;
pub(crate) use self::kernel::{
    _add_entry, _add_world, _find_executable, _forget_worlds, _has_world, _kernel_stats, _kernel_type,
    _last_executable, _make_kernel, _resume, _set_binder,
};
pub(crate) use self::lock::{is_interrupted, release, should_stop, take};
