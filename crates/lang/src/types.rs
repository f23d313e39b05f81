//! Scalar types, what mixing them gives, and the sizes of what is made of them.

use std::fmt;

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scalar {
    /// True or false; a byte in memory.
    Bool,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Half precision.
    F16,
    /// The upper half of single precision.
    BF16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Scalar {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
    ];

    /// The name by which programs know it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// The type of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scalar| scalar.name() == name)
    }

    /// How many bits a number has.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 8,
            Self::I16 | Self::U16 | Self::F16 | Self::BF16 => 16,
            Self::I32 | Self::U32 | Self::F32 => 32,
            Self::I64 | Self::U64 | Self::F64 => 64,
        }
    }

    /// How many bytes an element of an array takes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.bits() / 8
    }

    /// Whether it has a fraction.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// Whether it is a float for storing, of 16 bits.
    #[must_use]
    pub const fn is_half(self) -> bool {
        matches!(self, Self::F16 | Self::BF16)
    }

    /// The type that numbers of it are computed in: halves are computed in single precision.
    #[must_use]
    pub const fn computed(self) -> Self {
        if self.is_half() { Self::F32 } else { self }
    }

    /// Whether it is a whole number, truth values aside.
    #[must_use]
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, Self::Bool)
    }

    /// Whether it has a sign.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        self.is_float() || matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// The type of what arithmetic on two numbers gives.
    ///
    /// A float and anything else give that float, the wider of two, and single precision of the two kinds of halves; of two whole numbers the wider one, or
    /// the unsigned one of two that are equally wide. Truth values count as `i32` among themselves.
    #[must_use]
    pub fn promote(self, other: Self) -> Self {
        match (self, other) {
            (Self::Bool, Self::Bool) => Self::I32,
            (Self::Bool, scalar) | (scalar, Self::Bool) => scalar,
            (a, b) if a == b => a,
            (a, b) if a.is_half() && b.is_half() => Self::F32,
            (a, b) if a.is_float() && b.is_float() => {
                if a.bits() >= b.bits() {
                    a
                } else {
                    b
                }
            }
            (a, _) if a.is_float() => a,
            (_, b) if b.is_float() => b,
            (a, b) if a.bits() != b.bits() => {
                if a.bits() > b.bits() {
                    a
                } else {
                    b
                }
            }
            (a, b) => {
                if a.is_signed() {
                    b
                } else {
                    a
                }
            }
        }
    }

    /// The type of whole numbers with a sign that has as many bits.
    #[must_use]
    pub const fn signed(self) -> Self {
        match self {
            Self::U8 => Self::I8,
            Self::U16 => Self::I16,
            Self::U32 => Self::I32,
            Self::U64 => Self::I64,
            other => other,
        }
    }

    /// Whether every number of another type keeps its value in this one, near enough.
    #[must_use]
    pub fn holds(self, other: Self) -> bool {
        match (self, other) {
            (a, b) if a == b => true,
            (_, Self::Bool) => true,
            (Self::Bool, _) => false,
            (a, b) if a.is_float() => !b.is_float() || a.bits() > b.bits(),
            (a, b) if b.is_float() => a.is_float(),
            (a, b) if a.is_signed() == b.is_signed() => a.bits() >= b.bits(),
            (a, b) => a.is_signed() && a.bits() > b.bits(),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The shape of a small vector or matrix, whose size is part of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// This many numbers.
    Vector(u32),
    /// Rows and columns.
    Matrix(u32, u32),
}

impl Shape {
    /// How many numbers there are.
    #[must_use]
    pub const fn len(self) -> u32 {
        match self {
            Self::Vector(n) => n,
            Self::Matrix(rows, columns) => rows * columns,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vector(n) => write!(f, "{n}"),
            Self::Matrix(rows, columns) => write!(f, "{rows}x{columns}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_is_commutative_and_never_narrows() {
        for a in Scalar::ALL {
            for b in Scalar::ALL {
                let promoted = a.promote(b);
                assert_eq!(promoted, b.promote(a), "{a} {b}");
                assert!(promoted.bits() >= a.bits() || promoted.is_float() && !a.is_float(), "{a} {b}");
            }
        }
        assert_eq!(Scalar::I32.promote(Scalar::U32), Scalar::U32);
        assert_eq!(Scalar::I64.promote(Scalar::F32), Scalar::F32);
        assert_eq!(Scalar::U8.promote(Scalar::I32), Scalar::I32);
    }

    #[test]
    fn names_lead_back() {
        for scalar in Scalar::ALL {
            assert_eq!(Scalar::of_name(scalar.name()), Some(scalar));
        }
        assert_eq!(Scalar::of_name("f8"), None);
    }
}
