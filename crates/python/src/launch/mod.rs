//! The launcher: from a call to the executable that was compiled for it.
//!
//! A kernel is an instance of a heap type that is called without a Python frame. A call binds its
//! arguments ([`bind`]), asks the guards whether everything that the kernel depends on is still what it
//! was, and looks for an entry whose guards ([`argument_guard`]) the arguments pass. Anything else is left
//! to the kernel's *dispatcher*, the Python object that resolves, keys, compiles and loads.
//!
//! | module | what it knows |
//! | --- | --- |
//! | [`kernel`] | what a kernel knows: contexts and entries |
//! | [`call`] | what a call does |
//! | [`fast_path`] | a call in short |
//! | [`kernel_type`] | the type, as CPython has it |
//! | [`interface`] | what the Python half tells kernels, and asks of them |
//! | [`spec`] | how the Python half describes entries |
//! | [`bind`] | arguments to parameters, as Python does |
//! | [`argument_guard`] | whether arguments are what an entry was made for |
//! | [`equality`] | whether values are equal, as far as that counts |
//! | [`array`] | what counts of an array |
//! | [`torch_layout`] | where torch tensors keep what their methods say |
//! | [`cuda_interface`] | arrays on CUDA devices that describe themselves |
//! | [`pack`] | argument slots, for native code |
//! | [`device`] | launches on a device: the stream, arrays of the host |
//! | [`lock`] | the interpreter's lock, while native code runs |
//!
//! # Invariants
//!
//! - A call that hits allocates nothing, imports nothing, and runs no Python code but what the user asked
//!   for: a target function, a signature method.
//! - Entries refer to nothing of the user's but classes, functions and plain values.
//! - No borrow of the kernel's state lives across Python code.

mod argument_guard;
mod array;
mod bind;
mod call;
mod cuda_interface;
mod device;
mod equality;
mod fast_path;
mod interface;
mod kernel;
mod kernel_type;
mod lock;
mod pack;
mod spec;
mod torch_layout;

pub(crate) use self::array::{_array_spec, _dlpack_spec};
pub(crate) use self::cuda_interface::_cuda_array_spec;
pub(crate) use self::equality::_set_target_type;
pub(crate) use self::interface::{
    _add_context, _add_entry, _find_executable, _forget_contexts, _has_context, _kernel_stats,
    _last_executable, _make_kernel, _resume, _set_binder,
};
pub(crate) use self::kernel_type::_kernel_type;
pub(crate) use self::lock::{is_interrupted, is_main_thread, is_running, release, should_stop, take};
pub(crate) use self::spec::{CallSpec, CheckSpec, GuardSpec, OutputSpec, SlotSpec, SourceSpec};
