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
    /// Which kind of mistake.
    pub code: Code,
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
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, trace: Vec::new(), needs: Vec::new() }
    }

    /// The same, with something to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

macro_rules! codes {
    ($($code:ident = $name:literal: $meaning:literal,)*) => {
        /// What a program can do wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $meaning] $code,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$code),*];

            /// What programs know it as.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$code => $name,)* }
            }

            /// What it means.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$code => $meaning,)* }
            }
        }
    };
}

codes! {
    Annotation = "annotation": "a parameter without an annotation, or with one that is none",
    ArgumentCount = "argument-count": "a function is called with other arguments than it takes",
    Arithmetic = "arithmetic": "a computation on constants that has no result",
    Assignment = "assignment": "something is assigned to that cannot be changed",
    Attribute = "attribute": "something has no such member",
    Call = "call": "something is called that cannot be",
    Comparison = "comparison": "two things that cannot be compared",
    ConstantNeeded = "constant-needed": "a value must be known when the kernel is compiled, and is not",
    Checkpoint = "checkpoint": "a checkpoint that cannot be, or be entered",
    Devices = "devices": "arrays of one launch that are on different devices",
    Graph = "graph": "a piece of a graph where none can be, or that depends on something that cannot be asked",
    Index = "index": "an index of another number or type than the array has dimensions",
    Iteration = "iteration": "a loop over something that has no elements",
    LoopControl = "loop-control": "`break` or `continue` where it cannot be",
    Name = "name": "a name that means nothing",
    Nesting = "nesting": "code that is nested too deeply",
    Operand = "operand": "an operation on something that it is not defined for",
    Overflow = "overflow": "a constant that does not fit into its type",
    Recursion = "recursion": "a function that calls itself",
    Return = "return": "a `return` where it cannot be, or of something that cannot be returned",
    Shape = "shape": "vectors, matrices or arrays of other sizes than needed",
    Source = "source": "a function whose source is not known, or is not Python",
    Syntax = "syntax": "Python that the kernel language does not have",
    Type = "type": "a value of another type than needed",
    Undefined = "undefined": "a variable that may not have been assigned yet",
    Unpacking = "unpacking": "another number of values than of targets",
}

impl Code {
    /// The code of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}
