//! Everything that can be wrong with a program: a code for each, and where it is.

/// A function on the way to where something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the function is called.
    pub function: String,
    /// The file.
    pub file: String,
    /// The line in it.
    pub line: u32,
    /// Where in the line, from 0, in characters.
    pub column: u32,
    /// How many characters.
    pub width: u32,
    /// The line as it is.
    pub text: String,
}

/// Something is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LangError {
    /// Which of [`CODES`].
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// Where: the kernel first, then the functions that were inlined.
    pub trace: Vec<Frame>,
    /// Members of arguments whose values are needed, if that is all that is wrong.
    pub needs: Vec<String>,
}

impl LangError {
    /// An error without a place.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        debug_assert!(CODES.iter().any(|(known, _)| *known == code), "{code}");
        Self { code, message: message.into(), hint: None, trace: Vec::new(), needs: Vec::new() }
    }

    /// The same, with something to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What a program can do wrong: codes and what they mean.
pub const CODES: &[(&str, &str)] = &[
    ("annotation", "a parameter without an annotation, or with one that is none"),
    ("argument-count", "a function is called with other arguments than it takes"),
    ("arithmetic", "a computation on constants that has no result"),
    ("assignment", "something is assigned to that cannot be changed"),
    ("attribute", "something has no such member"),
    ("call", "something is called that cannot be"),
    ("comparison", "two things that cannot be compared"),
    ("constant-needed", "a value must be known when the kernel is compiled, and is not"),
    ("checkpoint", "a checkpoint that cannot be, or be entered"),
    ("graph", "a piece of a graph where none can be, or that depends on something that cannot be asked"),
    ("index", "an index of another number or type than the array has dimensions"),
    ("iteration", "a loop over something that has no elements"),
    ("loop-control", "`break` or `continue` where it cannot be"),
    ("name", "a name that means nothing"),
    ("nesting", "code that is nested too deeply"),
    ("operand", "an operation on something that it is not defined for"),
    ("overflow", "a constant that does not fit into its type"),
    ("recursion", "a function that calls itself"),
    ("return", "a `return` where it cannot be, or of something that cannot be returned"),
    ("shape", "vectors, matrices or arrays of other sizes than needed"),
    ("source", "a function whose source is not known, or is not Python"),
    ("syntax", "Python that the kernel language does not have"),
    ("type", "a value of another type than needed"),
    ("undefined", "a variable that may not have been assigned yet"),
    ("unpacking", "another number of values than of targets"),
];
