//! The typed IR: what a kernel does, for arguments of one specification.
//!
//! A [`Kernel`] has arrays and numbers, which come with a call, locals, and a body of structured
//! statements over expression trees. Every expression has one scalar type; vectors and matrices are gone
//! but for locals with several lanes. [`print()`] writes a kernel as text, [`parse`] reads it back, and
//! [`verify`] says whether it makes sense.
//!
//! Integers wrap. Division by zero gives zero, as does the remainder of it; the smallest number divided by
//! -1 is itself. Shifts by the width or more, or by less than nothing, leave only copies of the sign. A
//! float becomes the nearest whole number towards zero, the nearest there is beyond the ends, and zero for
//! NaN.

mod operation;
mod parse;
mod print;
mod verify;
mod walk;

pub use self::operation::{AtomicOp, Binary, Math, Unary};
pub use self::parse::{ParseError, parse};
pub use self::print::print;
pub use self::verify::{Invalid, verify};

use crate::types::Scalar;

/// Which array.
pub type ArrayId = u32;
/// Which number among the arguments.
pub type NumberId = u32;
/// Which local variable.
pub type LocalId = u32;
/// Which scope can be left.
pub type ScopeId = u32;

/// A kernel, for arguments of one specification.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Kernel {
    /// What the function is called.
    pub name: String,
    /// Arrays that are used.
    pub arrays: Vec<Array>,
    /// Numbers that are used.
    pub numbers: Vec<Number>,
    /// Local variables.
    pub locals: Vec<Local>,
    /// The types of what is returned.
    pub results: Vec<Scalar>,
    /// Places in the program that something can be reported from.
    pub sites: Vec<Site>,
    /// Pairs of arrays that must not overlap, unless they are the same: elements of both belong to iterations.
    pub noalias: Vec<(ArrayId, ArrayId)>,
    /// Whether the body is a graph of tasks.
    pub is_graph: bool,
    /// Labels of the checkpoints, in the order of the program; nothing if the graph always runs to its end.
    pub labels: Option<Vec<Label>>,
    /// What is done.
    pub body: Block,
}

/// What a program calls a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// As it is written: `Stage.SOLVE`, `3`.
    pub name: String,
    /// The number that it is.
    pub value: i64,
}

/// An array that a kernel uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// How the program gets at it: `x`, `self.grid.x`.
    pub name: String,
    /// The type of the numbers in it.
    pub scalar: Scalar,
    /// How many dimensions it has, lanes aside.
    pub ndim: u8,
    /// How many numbers an element consists of, if it is a vector or a matrix; otherwise 1.
    pub lanes: u32,
    /// How many dimensions of the memory hold the lanes: an array of another library has them as its last.
    pub lane_dims: u8,
    /// How many columns an element has, if it is a matrix; otherwise 0.
    pub columns: u32,
    /// Where the elements are.
    pub layout: Layout,
    /// Where the array comes from.
    pub origin: Origin,
}

impl Array {
    /// Whether elements of both lie in memory in the same way, sizes aside: only then can they be one array by two
    /// names.
    #[must_use]
    pub fn is_laid_out_as(&self, other: &Self) -> bool {
        let layout = |array: &Self| (array.scalar, array.ndim, array.lane_dims, array.lanes, array.layout);
        layout(self) == layout(other)
    }
}

/// How elements follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The last dimension varies fastest.
    C,
    /// Each dimension has a stride, in bytes.
    Strided,
}

/// Where an array comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is an argument, or a member of one.
    Argument,
    /// It is part of the program, and stays where it is.
    Fixed {
        /// Where the first element is.
        address: u64,
        /// Its sizes.
        shape: Vec<i64>,
    },
}

/// A number among the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// How the program gets at it.
    pub name: String,
    /// Its type.
    pub scalar: Scalar,
}

/// A local variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// What the program calls it; made up for intermediate results.
    pub name: String,
    /// Its type.
    pub scalar: Scalar,
    /// How many numbers it holds; 0 for one that is no vector.
    pub lanes: u32,
}

/// A place in the program.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Site {
    /// The function.
    pub function: String,
    /// The number of the statement in it.
    pub statement: u32,
    /// What to say.
    pub text: String,
}

/// Statements, and the variables that live as long as they run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Block {
    /// Variables; zero before they are set.
    pub locals: Vec<LocalId>,
    /// What is done, in order.
    pub statements: Vec<Statement>,
}

/// A statement and the line it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// A line of the user's file, for people who read what is generated; 0 if there is none.
    pub line: u32,
    /// What is done.
    pub kind: Kind,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Makes a local that never changes.
    Let(LocalId, Expr),
    /// Sets a local.
    Set(LocalId, Expr),
    /// Sets a lane of a local.
    SetLane(LocalId, Expr, Expr),
    /// Sets an element.
    Store(Place, Expr),
    /// Changes something in one step, whoever else does so, and may keep what it was.
    Atomic(Atomic),
    /// Does one thing or another.
    If(Expr, Block, Block),
    /// Runs a variable from one number up to, and not including, another.
    For(Box<For>),
    /// Runs over a box of indices, in any order and at the same time.
    Parallel(Box<Parallel>),
    /// Goes on until it is left.
    Loop(Block),
    /// Leaves the innermost loop.
    Break,
    /// Goes on with the innermost loop.
    Continue,
    /// A block that can be left.
    Scope(ScopeId, Block),
    /// Leaves a scope.
    Leave(ScopeId),
    /// Ends the kernel.
    Return(Vec<Expr>),
    /// Fails at a site if something does not hold; what is shown with it may be anything.
    Check {
        /// What must hold.
        condition: Expr,
        /// Where, and what is said.
        site: u32,
        /// Numbers to show.
        values: Vec<Expr>,
    },
    /// Prints a line.
    Print(Vec<Part>),
    /// Draws a number: uniform in [0, 1) for floats, all bits for whole numbers.
    Random(LocalId),
    /// Runs a piece of a graph once, and again as long as a number is not zero afterwards.
    DoWhile(Box<DoWhile>),
    /// A piece of a graph at which it can be entered, and after which it may be left.
    Checkpoint(Box<Checkpoint>),
    /// Pieces of a graph that do not depend on each other.
    Sections(Vec<Block>),
    /// What follows in this block comes from a site; only in graphs.
    At(u32),
}

/// A loop of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct DoWhile {
    /// An array without dimensions that holds the number.
    pub counter: ArrayId,
    /// What is done.
    pub body: Block,
}

/// A checkpoint of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Which of the kernel's labels it has.
    pub label: u32,
    /// An array without dimensions: if it is not zero when the body is done, the kernel ends there.
    pub flag: Option<ArrayId>,
    /// What is done.
    pub body: Block,
}

/// A change in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Atomic {
    /// What is done.
    pub op: AtomicOp,
    /// To what.
    pub target: AtomicTarget,
    /// With what. It is done in the type of this, and what comes of it converted to that of the target.
    pub value: Expr,
    /// Where what it was is kept.
    pub old: Option<LocalId>,
}

/// What an atomic change changes.
#[derive(Clone, Debug, PartialEq)]
pub enum AtomicTarget {
    /// An element.
    Place(Place),
    /// A variable that iterations share.
    Local(LocalId),
    /// A lane of one, by an `i64`.
    Lane(LocalId, Expr),
}

/// A loop in order.
#[derive(Clone, Debug, PartialEq)]
pub struct For {
    /// The variable; it does not change in the body.
    pub variable: LocalId,
    /// The first number.
    pub from: Expr,
    /// Behind the last one.
    pub to: Expr,
    /// What is done.
    pub body: Block,
}

/// A loop in no order.
#[derive(Clone, Debug, PartialEq)]
pub struct Parallel {
    /// The variables, the last one varies fastest.
    pub variables: Vec<LocalId>,
    /// The first numbers.
    pub from: Vec<Expr>,
    /// Behind the last ones.
    pub to: Vec<Expr>,
    /// At least as many iterations at a time, if the program says so.
    pub grain: Option<u32>,
    /// Variables of the kernel that are folded: each thread has its own until it is done.
    pub reductions: Vec<Reduction>,
    /// What is done.
    pub body: Block,
}

/// Something that all iterations add to, or the like, and none reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    /// What is done.
    pub op: AtomicOp,
    /// The share of one thread.
    pub local: LocalId,
    /// Where the shares go.
    pub target: AtomicTarget,
}

/// A piece of what is printed.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// As it is.
    Text(String),
    /// A number.
    Value(Expr),
}

/// An element of an array, or a number in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The array.
    pub array: ArrayId,
    /// An `i64` for each dimension.
    pub index: Vec<Expr>,
    /// Which number of the element, an `i64`; nothing if it has only one.
    pub lane: Option<Expr>,
}

/// Something that has a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number: whole ones as the 64 bits of their value, floats as the bits of their own type.
    Const(Scalar, u64),
    /// A local.
    Local(LocalId),
    /// A lane of one, by an `i64`.
    Lane(LocalId, Box<Expr>),
    /// A number among the arguments.
    Number(NumberId),
    /// The size of a dimension of an array, an `i64`.
    Size(ArrayId, u8),
    /// An element.
    Load(Box<Place>),
    /// An operation on one number.
    Unary(Unary, Box<Expr>),
    /// An operation on two numbers of one type.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// A number of another type.
    Cast(Scalar, Box<Expr>),
    /// The same bits as another type.
    Bits(Scalar, Box<Expr>),
    /// The second if the first holds, otherwise the third.
    Select(Box<[Expr; 3]>),
    /// A function of floats.
    Call(Math, Vec<Expr>),
}

impl Expr {
    /// A whole number of 64 bits: indices and sizes.
    #[must_use]
    pub const fn index(value: i64) -> Self {
        Self::Const(Scalar::I64, value as u64)
    }

    /// The type of its value.
    #[must_use]
    pub fn scalar(&self, kernel: &Kernel) -> Scalar {
        match self {
            Self::Const(scalar, _) | Self::Cast(scalar, _) | Self::Bits(scalar, _) => *scalar,
            Self::Local(id) | Self::Lane(id, _) => kernel.locals[*id as usize].scalar,
            Self::Number(id) => kernel.numbers[*id as usize].scalar,
            Self::Size(..) => Scalar::I64,
            Self::Load(place) => kernel.arrays[place.array as usize].scalar,
            Self::Unary(Unary::Not, _) => Scalar::Bool,
            Self::Unary(_, operand) => operand.scalar(kernel),
            Self::Binary(op, ..) if op.is_comparison() || op.is_logical() => Scalar::Bool,
            Self::Binary(_, left, _) => left.scalar(kernel),
            Self::Select(parts) => parts[1].scalar(kernel),
            Self::Call(_, arguments) => arguments[0].scalar(kernel),
        }
    }

    /// Whether something holds for this or any expression inside.
    pub fn any(&self, holds: &mut impl FnMut(&Self) -> bool) -> bool {
        if holds(self) {
            return true;
        }
        let mut holds_inside = false;
        self.children(|child| holds_inside = holds_inside || child.any(holds));
        holds_inside
    }
}

impl Kind {
    /// Whether it belongs to the structure of a graph.
    #[must_use]
    pub const fn is_graph(&self) -> bool {
        matches!(self, Self::DoWhile(_) | Self::Checkpoint(_) | Self::Sections(_))
    }

    /// The local that it sets, if it sets one.
    #[must_use]
    pub fn sets(&self) -> Option<LocalId> {
        match self {
            Self::Let(id, _) | Self::Set(id, _) | Self::SetLane(id, ..) | Self::Random(id) => Some(*id),
            Self::Atomic(atomic) => atomic.target.local(),
            _ => None,
        }
    }
}
