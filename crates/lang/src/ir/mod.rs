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

mod parse;
mod print;
mod verify;

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

impl AtomicTarget {
    /// The expressions in it.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let (place, lane) = match self {
            Self::Place(place) => (Some(place), None),
            Self::Lane(_, at) => (None, Some(at)),
            Self::Local(_) => (None, None),
        };
        place.into_iter().flat_map(Place::expressions).chain(lane)
    }

    /// The same, to change them.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let (place, lane) = match self {
            Self::Place(place) => (Some(place), None),
            Self::Lane(_, at) => (None, Some(at)),
            Self::Local(_) => (None, None),
        };
        place.into_iter().flat_map(Place::expressions_mut).chain(lane)
    }

    /// The variable, if it is one.
    #[must_use]
    pub fn local(&self) -> Option<LocalId> {
        match self {
            Self::Local(id) | Self::Lane(id, _) => Some(*id),
            Self::Place(_) => None,
        }
    }
}

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Adds.
    Add,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Bits that both have.
    And,
    /// Bits that either has.
    Or,
    /// Bits that one has.
    Xor,
    /// Multiplies.
    Mul,
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

/// An operation on one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// The negative.
    Neg,
    /// Bitwise not.
    BitNot,
    /// Whether it is false.
    Not,
    /// Without its sign.
    Abs,
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient of floats.
    Div,
    /// Quotient, rounded down.
    FloorDiv,
    /// What that leaves: it has the sign of the divisor.
    Mod,
    /// Quotient of whole numbers, towards zero.
    TruncDiv,
    /// What that leaves: it has the sign of the dividend.
    TruncMod,
    /// Power.
    Pow,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Bits that both have.
    BitAnd,
    /// Bits that either has.
    BitOr,
    /// Bits that one has.
    BitXor,
    /// Bits moved up.
    Shl,
    /// Bits moved down, with copies of the sign.
    Shr,
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Both hold; the second is only looked at if the first does.
    And,
    /// One holds; the second is only looked at if the first does not.
    Or,
}

impl Binary {
    /// Whether it asks a question.
    #[must_use]
    pub const fn is_comparison(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Lt | Self::Le)
    }

    /// Whether it takes truth values only.
    #[must_use]
    pub const fn is_logical(self) -> bool {
        matches!(self, Self::And | Self::Or)
    }
}

macro_rules! names {
    ($type:ident { $($variant:ident => $name:literal),* $(,)? }) => {
        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in the text form.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// What has a name.
            #[must_use]
            pub fn of_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}

/// A function of floats; they all have one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are what they are called")]
pub enum Math {
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Atan2,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Exp,
    Exp2,
    Expm1,
    Log,
    Log2,
    Log10,
    Log1p,
    Floor,
    Ceil,
    Trunc,
    Round,
    Cbrt,
    Hypot,
    Erf,
    Erfc,
    Gamma,
    Lgamma,
    Fmod,
    Copysign,
    Fma,
}

names!(Math {
    Sqrt => "sqrt", Rsqrt => "rsqrt", Sin => "sin", Cos => "cos", Tan => "tan", Asin => "asin", Acos => "acos",
    Atan => "atan", Atan2 => "atan2", Sinh => "sinh", Cosh => "cosh", Tanh => "tanh", Asinh => "asinh",
    Acosh => "acosh", Atanh => "atanh", Exp => "exp", Exp2 => "exp2", Expm1 => "expm1", Log => "log",
    Log2 => "log2", Log10 => "log10", Log1p => "log1p", Floor => "floor", Ceil => "ceil", Trunc => "trunc",
    Round => "round", Cbrt => "cbrt", Hypot => "hypot", Erf => "erf", Erfc => "erfc", Gamma => "gamma",
    Lgamma => "lgamma", Fmod => "fmod", Copysign => "copysign", Fma => "fma",
});

names!(Unary { Neg => "neg", BitNot => "bitnot", Not => "not", Abs => "abs" });

names!(Binary {
    Add => "add", Sub => "sub", Mul => "mul", Div => "div", FloorDiv => "floordiv", Mod => "mod",
    TruncDiv => "truncdiv", TruncMod => "truncmod", Pow => "pow", Min => "min", Max => "max", BitAnd => "bitand",
    BitOr => "bitor", BitXor => "bitxor", Shl => "shl", Shr => "shr", Eq => "eq", Ne => "ne", Lt => "lt", Le => "le",
    And => "and", Or => "or",
});

names!(AtomicOp {
    Add => "add", Min => "min", Max => "max", And => "and", Or => "or", Xor => "xor", Mul => "mul",
});

impl Math {
    /// How many arguments it takes.
    #[must_use]
    pub const fn arity(self) -> usize {
        match self {
            Self::Atan2 | Self::Hypot | Self::Fmod | Self::Copysign => 2,
            Self::Fma => 3,
            _ => 1,
        }
    }
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
            Self::Unary(_, one) => one.scalar(kernel),
            Self::Binary(op, ..) if op.is_comparison() || op.is_logical() => Scalar::Bool,
            Self::Binary(_, one, _) => one.scalar(kernel),
            Self::Select(parts) => parts[1].scalar(kernel),
            Self::Call(_, arguments) => arguments[0].scalar(kernel),
        }
    }

    /// Calls something with each expression right inside this one.
    pub fn children<'e>(&'e self, mut each: impl FnMut(&'e Self)) {
        match self {
            Self::Const(..) | Self::Local(_) | Self::Number(_) | Self::Size(..) => {}
            Self::Lane(_, one) | Self::Unary(_, one) | Self::Cast(_, one) | Self::Bits(_, one) => each(one),
            Self::Load(place) => place.expressions().for_each(each),
            Self::Binary(_, one, other) => {
                each(one);
                each(other);
            }
            Self::Select(parts) => parts.iter().for_each(each),
            Self::Call(_, arguments) => arguments.iter().for_each(each),
        }
    }

    /// The same, to change them.
    pub fn children_mut(&mut self, mut each: impl FnMut(&mut Self)) {
        match self {
            Self::Const(..) | Self::Local(_) | Self::Number(_) | Self::Size(..) => {}
            Self::Lane(_, one) | Self::Unary(_, one) | Self::Cast(_, one) | Self::Bits(_, one) => each(one),
            Self::Load(place) => place.expressions_mut().for_each(each),
            Self::Binary(_, one, other) => {
                each(one);
                each(other);
            }
            Self::Select(parts) => parts.iter_mut().for_each(each),
            Self::Call(_, arguments) => arguments.iter_mut().for_each(each),
        }
    }

    /// Whether something holds for this or any expression inside.
    pub fn any(&self, holds: &mut impl FnMut(&Self) -> bool) -> bool {
        if holds(self) {
            return true;
        }
        let mut found = false;
        self.children(|child| found = found || child.any(holds));
        found
    }
}

impl Place {
    /// Its indices, and its lane.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.index.iter().chain(&self.lane)
    }

    /// The same, to change them.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.index.iter_mut().chain(&mut self.lane)
    }
}

impl Kind {
    /// Whether it belongs to the structure of a graph.
    #[must_use]
    pub const fn is_graph(&self) -> bool {
        matches!(self, Self::DoWhile(_) | Self::Checkpoint(_) | Self::Sections(_))
    }

    /// Calls something with each expression of the statement itself, and each block inside.
    pub fn parts<'k>(&'k self, expr: &mut impl FnMut(&'k Expr), block: &mut impl FnMut(&'k Block)) {
        match self {
            Self::Let(_, one) | Self::Set(_, one) => expr(one),
            Self::SetLane(_, at, value) => {
                expr(at);
                expr(value);
            }
            Self::Store(place, value) => {
                place.expressions().for_each(&mut *expr);
                expr(value);
            }
            Self::Atomic(atomic) => {
                atomic.target.expressions().for_each(&mut *expr);
                expr(&atomic.value);
            }
            Self::If(condition, then, otherwise) => {
                expr(condition);
                block(then);
                block(otherwise);
            }
            Self::For(one) => {
                expr(&one.from);
                expr(&one.to);
                block(&one.body);
            }
            Self::Parallel(one) => {
                one.from.iter().chain(&one.to).for_each(&mut *expr);
                one.reductions.iter().flat_map(|one| one.target.expressions()).for_each(&mut *expr);
                block(&one.body);
            }
            Self::Loop(body) | Self::Scope(_, body) => block(body),
            Self::DoWhile(one) => block(&one.body),
            Self::Checkpoint(one) => block(&one.body),
            Self::Sections(sections) => sections.iter().for_each(block),
            Self::Break | Self::Continue | Self::Leave(_) | Self::Random(_) | Self::At(_) => {}
            Self::Return(values) => values.iter().for_each(expr),
            Self::Check { condition, values, .. } => {
                expr(condition);
                values.iter().for_each(expr);
            }
            Self::Print(parts) => {
                for part in parts {
                    if let Part::Value(value) = part {
                        expr(value);
                    }
                }
            }
        }
    }

    /// The same, to change them.
    pub fn parts_mut(&mut self, expr: &mut impl FnMut(&mut Expr), block: &mut impl FnMut(&mut Block)) {
        match self {
            Self::Let(_, one) | Self::Set(_, one) => expr(one),
            Self::SetLane(_, at, value) => {
                expr(at);
                expr(value);
            }
            Self::Store(place, value) => {
                place.expressions_mut().for_each(&mut *expr);
                expr(value);
            }
            Self::Atomic(atomic) => {
                atomic.target.expressions_mut().for_each(&mut *expr);
                expr(&mut atomic.value);
            }
            Self::If(condition, then, otherwise) => {
                expr(condition);
                block(then);
                block(otherwise);
            }
            Self::For(one) => {
                expr(&mut one.from);
                expr(&mut one.to);
                block(&mut one.body);
            }
            Self::Parallel(one) => {
                one.from.iter_mut().chain(&mut one.to).for_each(&mut *expr);
                one.reductions.iter_mut().flat_map(|one| one.target.expressions_mut()).for_each(&mut *expr);
                block(&mut one.body);
            }
            Self::Loop(body) | Self::Scope(_, body) => block(body),
            Self::DoWhile(one) => block(&mut one.body),
            Self::Checkpoint(one) => block(&mut one.body),
            Self::Sections(sections) => sections.iter_mut().for_each(block),
            Self::Break | Self::Continue | Self::Leave(_) | Self::Random(_) | Self::At(_) => {}
            Self::Return(values) => values.iter_mut().for_each(expr),
            Self::Check { condition, values, .. } => {
                expr(condition);
                values.iter_mut().for_each(expr);
            }
            Self::Print(parts) => {
                for part in parts {
                    if let Part::Value(value) = part {
                        expr(value);
                    }
                }
            }
        }
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

impl Block {
    /// Whether it leaves the loop that it is the body of.
    #[must_use]
    pub fn leaves_loop(&self) -> bool {
        self.statements.iter().any(|statement| match &statement.kind {
            Kind::Break => true,
            Kind::If(_, then, otherwise) => then.leaves_loop() || otherwise.leaves_loop(),
            Kind::Scope(_, body) => body.leaves_loop(),
            _ => false,
        })
    }

    /// Calls something with every statement, those inside others included.
    pub fn each<'b>(&'b self, visit: &mut impl FnMut(&'b Statement)) {
        for statement in &self.statements {
            visit(statement);
            statement.kind.parts(&mut |_| {}, &mut |inner| inner.each(visit));
        }
    }

    /// The same, to change them.
    pub fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Statement)) {
        for statement in &mut self.statements {
            visit(statement);
            statement.kind.parts_mut(&mut |_| {}, &mut |inner| inner.each_mut(visit));
        }
    }

    /// Calls something with every expression, but not those inside others.
    pub fn each_expr<'b>(&'b self, visit: &mut impl FnMut(&'b Expr)) {
        self.each(&mut |statement| statement.kind.parts(&mut *visit, &mut |_| {}));
    }

    /// Calls something with every expression, to change it.
    pub fn each_expr_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        for statement in &mut self.statements {
            // Both closures need `visit`: blocks are done after expressions.
            statement.kind.parts_mut(&mut |expr| visit(expr), &mut |_| {});
            statement.kind.parts_mut(&mut |_| {}, &mut |inner| inner.each_expr_mut(visit));
        }
    }
}
