//! The names of what the language defines. No other list of them exists.

use crate::ir::Math;

/// What the language defines, besides operators: names that a host may hand out as
/// [`Constant::Builtin`](crate::host::Constant::Builtin).
pub const BUILTINS: &[&str] = &[
    "abs",
    "all",
    "any",
    "assume",
    "atomic_add",
    "atomic_and",
    "atomic_max",
    "atomic_min",
    "atomic_mul",
    "atomic_or",
    "atomic_sub",
    "atomic_xor",
    "bit_cast",
    "bool",
    "cast",
    "ceil",
    "checkpoint",
    "clamp",
    "dot",
    "cross",
    "enumerate",
    "float",
    "floor",
    "graph.do_while",
    "graph.parallel",
    "graph.parallel_context",
    "grouped",
    "int",
    "isinf",
    "isnan",
    "len",
    "loop_config",
    "max",
    "min",
    "ndrange",
    "norm",
    "normalize",
    "pow",
    "print",
    "random",
    "randn",
    "range",
    "raw_div",
    "raw_mod",
    "reversed",
    "round",
    "select",
    "static",
    "static_assert",
    "static_print",
    "sum",
    "trunc",
    "tuple",
    "list",
    "zip",
    "Vector",
    "Matrix",
    "Vector.zero",
    "Vector.one",
    "Vector.unit",
    "Vector.filled",
    "Matrix.zero",
    "Matrix.one",
    "Matrix.identity",
    "Matrix.rows",
    "Matrix.cols",
    "Matrix.diag",
];

/// The names of everything that the language defines: [`BUILTINS`], and functions of floats.
#[must_use]
pub fn builtin_names() -> Vec<&'static str> {
    BUILTINS.iter().copied().chain(Math::ALL.iter().map(|math| math.name())).collect()
}

/// The builtin of a name: one of [`BUILTINS`], or a function of floats.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static str> {
    let known = BUILTINS.iter().copied().find(|candidate| *candidate == name);
    known.or_else(|| Math::of_name(name).map(Math::name))
}
