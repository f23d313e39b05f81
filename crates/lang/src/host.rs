//! What the compiler asks about what is outside of a function's text.
//!
//! The compiler knows nothing of Python objects. Whoever drives it answers: what a name means, what an
//! object has under a name, where the source of a function is. Answers are [`Constant`]s.

use crate::error::LangError;
use crate::types::{Scalar, Shape};

/// An object that only the host knows.
pub type Handle = usize;

/// Something that is known when a kernel is compiled.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A whole number that is a member of an enum, or the value of one: whether the member itself is an int.
    Enum(Handle, i128, bool),
    /// A float.
    Float(f64),
    /// A text.
    Text(String),
    /// A type of numbers; called, it converts.
    Scalar(Scalar),
    /// A type of vectors or matrices; called, it builds.
    TensorType(Shape, Scalar),
    /// A type of structs: names and types of its members, and functions that it has, by name.
    StructType(std::rc::Rc<StructType>),
    /// Something that the language defines.
    Builtin(&'static str),
    /// A function of the program, and what its first parameter is bound to.
    Function(Handle, Option<Box<Constant>>),
    /// A tuple or list.
    Tuple(Vec<Constant>),
    /// A vector or matrix whose numbers are known, and their type.
    Tensor(Shape, Scalar, Vec<Constant>),
    /// An array.
    Array(ArraySpec),
    /// A number that comes with each call.
    Number(NumberSpec),
    /// A vector or matrix that comes with each call: the numbers.
    Numbers(Shape, Vec<NumberSpec>),
    /// A struct whose members are these, and its type if it has one.
    Struct(Vec<(String, Constant)>, Option<std::rc::Rc<StructType>>),
    /// A module, an instance: anything that has members.
    Object(Handle, String),
}

/// A type of structs.
#[derive(Clone, Debug, PartialEq)]
pub struct StructType {
    /// What it is called.
    pub name: String,
    /// Its members: scalars, vectors, matrices, structs.
    pub members: Vec<(String, Constant)>,
    /// Functions that it has.
    pub methods: Vec<(String, Constant)>,
}

/// What is known of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct ArraySpec {
    /// How the program gets at it.
    pub name: String,
    /// The type of the numbers in it.
    pub scalar: Scalar,
    /// How many dimensions it has, lanes aside.
    pub ndim: u8,
    /// What an element is, if it is no number.
    pub element: Option<Shape>,
    /// Whether the last dimensions of the memory are the lanes of an element.
    pub lanes_in_shape: bool,
    /// Whether the elements follow each other.
    pub contiguous: bool,
    /// Why it cannot be written, and what to do, if it cannot.
    pub read_only: Option<(String, String)>,
    /// Where it is, if it is part of the program: address and sizes.
    pub fixed: Option<(u64, Vec<i64>)>,
}

/// What is known of a number that comes with each call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberSpec {
    /// How the program gets at it.
    pub name: String,
    /// Its type.
    pub scalar: Scalar,
    /// Whether its value may be asked for.
    pub can_be_constant: bool,
}

/// What a parameter is annotated with.
#[derive(Clone, Debug, PartialEq)]
pub enum Annotation {
    /// Nothing.
    Missing,
    /// Anything, passed on as it is.
    Template,
    /// A number of this type.
    Scalar(Scalar),
    /// A vector or matrix.
    Tensor(Shape, Scalar),
    /// An array.
    Array,
    /// A struct.
    Struct(std::rc::Rc<StructType>),
    /// An object with members.
    Object,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// What it is called.
    pub name: String,
    /// What it is annotated with.
    pub annotation: Annotation,
    /// What it is if nothing is given.
    pub default: Option<Constant>,
}

/// A function, as the host knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSource {
    /// What it is called.
    pub name: String,
    /// The file.
    pub file: String,
    /// The line of the file that the text begins with.
    pub line: u32,
    /// By how much the text was moved to the left, in characters.
    pub indent: u32,
    /// The text.
    pub text: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// What it returns, if it says so.
    pub returns: Annotation,
}

/// Answers what the text of a function does not say.
pub trait Host {
    /// What a name means in a function; nothing if it is not defined.
    ///
    /// # Errors
    ///
    /// If it means something that kernels cannot use.
    fn name(&mut self, function: Handle, name: &str) -> Result<Option<Constant>, LangError>;

    /// What an object has under a name; nothing if there is no such thing.
    ///
    /// # Errors
    ///
    /// If that is something that kernels cannot use.
    fn member(&mut self, object: Handle, name: &str) -> Result<Option<Constant>, LangError>;

    /// What an object, such as a dict, has at an index; nothing if there is no such thing.
    ///
    /// # Errors
    ///
    /// If that is something that kernels cannot use.
    fn item(&mut self, object: Handle, at: &Constant) -> Result<Option<Constant>, LangError>;

    /// What is asked from here on is only looked at: nothing of it becomes part of the kernel.
    fn begin_trial(&mut self) {}

    /// What is asked from here on counts again.
    fn end_trial(&mut self) {}

    /// A function.
    ///
    /// # Errors
    ///
    /// If it has no source.
    fn function(&mut self, function: Handle) -> Result<FunctionSource, LangError>;
}
