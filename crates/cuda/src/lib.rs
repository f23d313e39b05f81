//! Where compiled kernels run: CUDA devices.
//!
//! Nothing here is linked against CUDA: [`driver`] opens the driver when it is first asked for, [`nvrtc`] the compiler.
//! A [`device`] has its primary context, which it shares with every other library of the process; [`memory`] is
//! allocated in stream order; a [`program`] is a kernel that was loaded, and launches its tasks, those of a [`graph`] in
//! several ways; [`mail`] is what a device writes for the host; [`wait`] waits for it, and `retire` gives back what is
//! not used any more; [`stage`] takes arrays of the host along; [`profile`] times launches, and [`cubin`] reads what code
//! says of itself.
//!
//! # Invariants
//!
//! - Nothing here knows Python.
//! - What the driver returns is a number, whatever number it is: errors are made of it in one place ([`error`]).
//! - Work of our own is ordered by one stream per device, the default one; work on another stream waits for it, and it
//!   waits for that ([`stream`]).
//! - After a fork the child is told so; nothing of its parent's is touched, not even to release it.

pub mod cubin;
pub mod device;
pub mod driver;
pub mod error;
pub mod graph;
pub mod mail;
pub mod memory;
pub mod nvrtc;
pub mod profile;
pub mod program;
mod retire;
pub mod stage;
pub mod stream;
pub mod wait;

pub use error::CudaError;
