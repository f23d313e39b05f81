//! Attributes and methods that mean something by their names.

/// Attributes through which a function can read anything, or where it stands in a file.
pub const DYNAMIC: &[&str] = &[
    // Names of modules and functions.
    "__globals__",
    "__builtins__",
    "f_globals",
    "f_locals",
    "f_builtins",
    // Code and frames, which know their text and their place.
    "__code__",
    "__firstlineno__",
    "co_code",
    "co_filename",
    "co_firstlineno",
    "co_lines",
    "co_linetable",
    "co_lnotab",
    "co_positions",
    "f_back",
    "f_code",
    "f_lineno",
    "gi_code",
    "gi_frame",
    "cr_code",
    "cr_frame",
    "ag_code",
    "ag_frame",
    "__traceback__",
    "tb_frame",
    "tb_lasti",
    "tb_lineno",
    "tb_next",
    // Classes that nothing here names.
    "__subclasses__",
];

/// The attribute that holds documentation, which counts only where it is read.
pub(super) const DOCUMENTATION: &str = "__doc__";

/// The attribute that holds members in their order.
pub(super) const MEMBERS: &str = "__dict__";

/// Attributes that hold the types that annotations name.
pub(super) const ANNOTATIONS: &[&str] =
    &["__annotations__", "__attrs_attrs__", "__dataclass_fields__", "__signature__", "model_fields"];

/// Attributes that hold what things are called.
pub(super) const NAMES: &[&str] = &["__module__", "__name__", "__qualname__"];

/// Methods of containers that add to them, or change their order, whatever is in them.
pub(super) const MUTATORS: &[&str] = &[
    "add",
    "append",
    "appendleft",
    "clear",
    "discard",
    "extend",
    "extendleft",
    "insert",
    "reverse",
    "setdefault",
    "update",
];
