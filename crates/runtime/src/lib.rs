//! Where compiled kernels run: the CPU.
//!
//! A kernel is a shared object made by the system's C compiler ([`toolchain`]). Once it is loaded ([`library`]), it is
//! given a [`table`] of functions: to run the pieces of a parallel loop ([`pool`]) and independent sections
//! ([`sections`]), to find out whether to stop ([`pace`]), to say what went wrong ([`failure`]), to print
//! ([`output`]), to draw random numbers ([`random`]), and to let others run Python meanwhile.
//!
//! ```
//! let compiler = keyprint_runtime::toolchain::find(&|_| None, &std::env::var("PATH").unwrap_or_default());
//! if let Some(compiler) = compiler {
//!     let identity = keyprint_runtime::toolchain::identify(&compiler).unwrap();
//!     assert!(!identity.version.is_empty());
//! }
//! ```
//!
//! # Invariants
//!
//! - Nothing here knows Python: whoever does says how to let go of its lock ([`table::set_lock`]).
//! - A loop that takes less than the pool needs to wake up runs where it is.
//! - After a fork, the child has a pool of its own when it needs one.

pub mod failure;
pub mod library;
pub mod output;
pub mod pace;
pub mod pool;
pub mod random;
pub mod sections;
pub mod table;
pub mod toolchain;
