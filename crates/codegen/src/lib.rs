//! The kernel language's IR as C11 for the CPU, and as CUDA C++ for devices ([`cuda`]): pure text.
//!
//! [`generate`] writes a kernel as a C file without any header: an entry point, which runs what is in
//! order, and a function for each parallel loop, which the runtime calls with pieces of it. The names are
//! those of the user's program, and comments say which line a statement comes from.
//!
//! ```
//! let kernel = keyprint_lang::ir::parse(r#"(kernel "one" (results i32) (body (@3 return (i32 1))))"#).unwrap();
//! let code = keyprint_codegen::generate(&kernel);
//! assert!(code.text.contains("/* line 3 */"));
//! ```
//!
//! # Map
//!
//! | module | what it writes |
//! | --- | --- |
//! | `abi` | what the runtime and the code know of each other |
//! | `expr` | expressions |
//! | `c_functions` | functions for operations that C has not, or leaves undefined |
//! | `statement` | statements and loops |
//! | `tick` | loops in order, and how they can be interrupted |
//! | `task` | parallel loops: what they capture, how they are split |
//! | `graph` | loops, gates and sections of graphs |
//! | [`cuda`] | kernels for devices |
//!
//! # Invariants
//!
//! - Nothing that C leaves undefined is left to it: overflow wraps by a flag of the compiler, the rest by
//!   helpers.
//! - The text depends on the kernel alone.

#![forbid(unsafe_code)]

mod abi;
mod c_functions;
pub mod cuda;
mod expr;
mod graph;
mod statement;
mod task;
#[cfg(test)]
mod tests;
mod tick;

pub use abi::{ABI_VERSION, Code, Slot, Status, generate};
