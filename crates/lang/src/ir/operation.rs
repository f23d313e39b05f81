//! Operations: what expressions compute, and their names in the text form.

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
                Self::ALL.iter().copied().find(|variant| variant.name() == name)
            }
        }
    };
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
