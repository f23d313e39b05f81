//! What Python functions mean and read, found in their source.
//!
//! [`Table::of`] parses a file once and keeps, for every function in it: a digest of its syntax that is
//! blind to comments, formatting, position and docstrings; the names it reads from outside, with the
//! members it touches of each; and how it passes its parameters on to other functions.
//!
//! ```
//! use keyprint_source::{How, Root, Table};
//!
//! let table = Table::of("def step(sim, x):\n    return sim.grid.dx * TILE  # half a cell\n").unwrap();
//! let same = Table::of("\ndef step(sim, x):\n    return (sim.grid.dx\n        * TILE)\n").unwrap();
//! assert_eq!(table.functions[0].digest, same.functions[0].digest);
//!
//! let uses = &table.functions[0].uses;
//! assert_eq!((&uses[0].root, uses[0].path.join(".")), (&Root::Parameter(0), "grid.dx".to_owned()));
//! assert_eq!((&uses[1].root, uses[1].how), (&Root::Global("TILE".to_owned()), How::Whole));
//! ```
//!
//! # Map
//!
//! | module | what it knows |
//! | --- | --- |
//! | [`Table`] | the functions of a file, and how they are kept as bytes |
//! | `parse` | text to syntax tree, however deep it is |
//! | `normal` | the normal form: what counts of a syntax tree |
//! | `bindings` | which names a scope binds |
//! | `uses` | what a function reads |
//! | `lines` | positions as people count them |
//!
//! # Invariants
//!
//! - Nothing here runs, imports or looks up anything: a table is a function of the text alone.
//! - The digest of a function depends on its syntax tree and [`NORMAL_FORM_VERSION`], on nothing else.
//! - Whatever is not understood counts as read whole: never as not read.

#![forbid(unsafe_code)]

mod bindings;
mod lines;
mod normal;
mod parse;
mod table;
mod uses;

pub use normal::NORMAL_FORM_VERSION;
pub use parse::{SourceError, with_function};
/// The syntax trees that are handed out.
pub use ruff_python_ast as ast;
/// Positions in them.
pub use ruff_text_size as position;
pub use table::{Decorator, Function, Parameter, ParameterKind, TABLE_VERSION, Table};
pub use uses::{ArgumentFlow, DYNAMIC, How, Root, Slot, Use};
