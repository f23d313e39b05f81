//! A kernel language embedded in Python: from a function's text to a small typed IR.
//!
//! [`lower()`] takes a function and what is known of its arguments, asks a [`Host`] for whatever the text
//! does not say, and returns an [`ir::Kernel`]; [`passes::optimise`] improves it. Nothing here knows
//! Python objects, C or files.
//!
//! ```
//! use keyprint_lang::ir;
//!
//! let text = r#"(kernel "one" (results i32) (body (@3 return (i32 1))))"#;
//! let kernel = ir::parse(text).unwrap();
//! ir::verify(&kernel).unwrap();
//! assert_eq!(ir::parse(&ir::print(&kernel)).unwrap(), kernel);
//! ```
//!
//! # Map
//!
//! | module | what it knows |
//! | --- | --- |
//! | [`types`] | scalar types, what mixing them gives |
//! | [`host`] | what is asked of the world outside |
//! | [`mod@lower`] | syntax to IR |
//! | [`graph`] | kernels as graphs of tasks, and what is known at a checkpoint |
//! | [`ir`] | the IR: its text, and whether it makes sense |
//! | [`passes`] | constants, dead code, atomics |
//! | [`error`] | what can be wrong, by code |
//!
//! # Invariants
//!
//! - Every operation has a result: see [`ir`].
//! - What depends on the world outside is asked of the host, and of nothing else.
//! - Every error has a code of [`error::Code`] and the line that it is about.

#![forbid(unsafe_code)]

pub mod error;
pub mod graph;
pub mod host;
pub mod ir;
pub mod lower;
pub mod passes;
pub mod types;

pub use error::LangError;
pub use host::Host;
pub use lower::{Lowered, Member, Options, Returned, lower};
