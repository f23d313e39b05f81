//! Constant folding: expressions are folded as they are built, and once more after other passes.
//!
//! What is computed here is what the generated code would compute: whole numbers wrap, floats have the
//! precision of their type. Functions of the C library are left to it.

use crate::ir::{Binary, Block, Expr, Kernel, Kind, Unary};
use crate::types::Scalar;

/// A whole number as the bits of a constant.
#[must_use]
pub fn wrap(scalar: Scalar, value: i128) -> u64 {
    match scalar {
        Scalar::Bool => u64::from(value != 0),
        Scalar::I8 => i64::from(value as i8) as u64,
        Scalar::I16 => i64::from(value as i16) as u64,
        Scalar::I32 => i64::from(value as i32) as u64,
        Scalar::U8 => u64::from(value as u8),
        Scalar::U16 => u64::from(value as u16),
        Scalar::U32 => u64::from(value as u32),
        _ => value as u64,
    }
}

/// The bits of a constant as a whole number.
#[must_use]
pub fn whole(scalar: Scalar, bits: u64) -> i128 {
    if scalar.is_signed() { i128::from(bits as i64) } else { i128::from(bits) }
}

/// A float as the bits of a constant.
#[must_use]
pub fn float_bits(scalar: Scalar, value: f64) -> u64 {
    match scalar {
        Scalar::F16 => u64::from(half_bits(value)),
        Scalar::BF16 => u64::from(upper_half_bits(value)),
        Scalar::F32 => u64::from((value as f32).to_bits()),
        _ => value.to_bits(),
    }
}

/// The bits of a constant as a float.
#[must_use]
pub fn float(scalar: Scalar, bits: u64) -> f64 {
    match scalar {
        Scalar::F16 => half(bits as u16),
        Scalar::BF16 => f64::from(f32::from_bits((bits as u32) << 16)),
        Scalar::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    }
}

/// The nearest number of half precision, ties to even.
fn half_bits(value: f64) -> u16 {
    let sign = ((value.to_bits() >> 48) & 0x8000) as u16;
    let size = value.abs();
    if size.is_nan() {
        return sign | 0x7e00;
    }
    // Halfway between the largest number and what would be next.
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // All numbers are multiples of this; below 2^-14 they all have the same distance.
    let exponent = if size < 2f64.powi(-14) { -14 } else { (size.to_bits() >> 52) as i32 - 1023 };
    let steps = (size / 2f64.powi(exponent - 10)).round_ties_even() as u32;
    // A mantissa that overflows makes the exponent one larger, which is what is meant.
    let biased = if steps < 1024 { 0 } else { (exponent + 15) as u32 };
    sign | (if biased == 0 { steps } else { (biased << 10) + (steps - 1024) }) as u16
}

fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    match exponent {
        0 => sign * mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
    }
}

/// The nearest number that is the upper half of one of single precision, ties to even.
fn upper_half_bits(value: f64) -> u16 {
    // Cut to fewer bits, of which the last says whether anything was cut off: so it is rounded once. There are few
    // enough of them for the smallest numbers of single precision.
    const CUT: u64 = (1 << 37) - 1;
    let bits = value.to_bits();
    let sticky = if bits & CUT == 0 { 0 } else { CUT + 1 };
    let single = (f64::from_bits(bits & !CUT | sticky) as f32).to_bits();
    if value.is_nan() {
        return (single >> 16) as u16 | 0x40;
    }
    ((single + 0x7fff + (single >> 16 & 1)) >> 16) as u16
}

/// A whole number as a double, whose last bit says whether others were lost.
fn sticky_double(value: i128) -> f64 {
    let size = value.unsigned_abs();
    let kept = if size >> 53 == 0 { size } else { size >> 11 << 11 | u128::from(size & 2047 != 0) << 11 };
    if value < 0 { -(kept as f64) } else { kept as f64 }
}

/// An operation on one number.
#[must_use]
pub fn unary(op: Unary, operand: Expr) -> Expr {
    if let Expr::Const(scalar, bits) = operand {
        let folded = match op {
            Unary::Not => Some(u64::from(bits == 0)),
            Unary::Neg | Unary::Abs if scalar.is_float() => {
                let value = float(scalar, bits);
                Some(float_bits(scalar, if op == Unary::Neg { -value } else { value.abs() }))
            }
            Unary::Neg => Some(wrap(scalar, -whole(scalar, bits))),
            Unary::Abs => Some(wrap(scalar, whole(scalar, bits).abs())),
            Unary::BitNot => Some(wrap(scalar, !whole(scalar, bits))),
        };
        if let Some(bits) = folded {
            return Expr::Const(scalar, bits);
        }
    }
    match (op, operand) {
        (Unary::Not, Expr::Unary(Unary::Not, inner)) => *inner,
        (op, operand) => Expr::Unary(op, Box::new(operand)),
    }
}

/// An operation on two numbers of one type.
#[must_use]
pub fn binary(op: Binary, left: Expr, right: Expr) -> Expr {
    if let (Expr::Const(scalar, a), Expr::Const(_, b)) = (&left, &right)
        && let Some(folded) = constant(op, *scalar, *a, *b)
    {
        return folded;
    }
    match (op, &left, &right) {
        // Only of whole numbers: floats have a negative zero, and NaN.
        (
            Binary::Add | Binary::Sub | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr,
            _,
            Expr::Const(scalar, 0),
        ) if !scalar.is_float() => left,
        (Binary::Add | Binary::BitOr | Binary::BitXor, Expr::Const(scalar, 0), _) if !scalar.is_float() => {
            right
        }
        (Binary::Mul | Binary::FloorDiv | Binary::TruncDiv, _, Expr::Const(scalar, 1)) if scalar.is_int() => {
            left
        }
        (Binary::Mul, Expr::Const(scalar, 1), _) if scalar.is_int() => right,
        // The numbers before them have no effects.
        (Binary::And, Expr::Const(_, 1), _) | (Binary::Or, Expr::Const(_, 0), _) => right,
        (Binary::And, Expr::Const(_, 0), _) | (Binary::Or, Expr::Const(_, 1), _) => left,
        (Binary::And, _, Expr::Const(_, 1)) | (Binary::Or, _, Expr::Const(_, 0)) => left,
        _ => Expr::Binary(op, Box::new(left), Box::new(right)),
    }
}

fn constant(op: Binary, scalar: Scalar, a: u64, b: u64) -> Option<Expr> {
    let truth = |holds: bool| Some(Expr::Const(Scalar::Bool, u64::from(holds)));
    if scalar.is_float() {
        let (x, y) = (float(scalar, a), float(scalar, b));
        // Operations on two singles in double precision, rounded once, are what single precision gives.
        let result = match op {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Mul => x * y,
            Binary::Div => x / y,
            Binary::Eq => return truth(x == y),
            Binary::Ne => return truth(x != y),
            Binary::Lt => return truth(x < y),
            Binary::Le => return truth(x <= y),
            _ => return None,
        };
        return (!result.is_nan()).then(|| Expr::Const(scalar, float_bits(scalar, result)));
    }
    let (x, y) = (whole(scalar, a), whole(scalar, b));
    let bits = i128::from(scalar.bits());
    let result = match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x.wrapping_mul(y),
        Binary::FloorDiv | Binary::Mod | Binary::TruncDiv | Binary::TruncMod if y == 0 => 0,
        Binary::FloorDiv => x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0),
        Binary::Mod => {
            let rest = x % y;
            if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }
        }
        Binary::TruncDiv => x / y,
        Binary::TruncMod => x % y,
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::BitAnd => x & y,
        Binary::BitOr => x | y,
        Binary::BitXor => x ^ y,
        Binary::Shl => {
            if (0..bits).contains(&y) {
                x << y
            } else {
                0
            }
        }
        Binary::Shr => {
            if (0..bits).contains(&y) {
                x >> y
            } else {
                -i128::from(x < 0)
            }
        }
        Binary::Eq => return truth(x == y),
        Binary::Ne => return truth(x != y),
        Binary::Lt => return truth(x < y),
        Binary::Le => return truth(x <= y),
        Binary::And => return truth(a != 0 && b != 0),
        Binary::Or => return truth(a != 0 || b != 0),
        Binary::Pow | Binary::Div => return None,
    };
    Some(Expr::Const(scalar, wrap(scalar, result)))
}

/// A number of one type as another.
#[must_use]
pub fn cast(from: Scalar, to: Scalar, value: Expr) -> Expr {
    if from == to {
        return value;
    }
    if let Expr::Const(_, bits) = value {
        let bits = match (from.is_float(), to.is_float()) {
            (true, true) => float_bits(to, float(from, bits)),
            (true, false) if to == Scalar::Bool => u64::from(float(from, bits) != 0.0),
            (true, false) => saturate(to, float(from, bits)),
            // Rounded once: through a double, a large number would be rounded twice.
            (false, true) if to == Scalar::F32 => u64::from((whole(from, bits) as f32).to_bits()),
            (false, true) if to.is_half() => float_bits(to, sticky_double(whole(from, bits))),
            (false, true) => float_bits(to, whole(from, bits) as f64),
            (false, false) => wrap(to, whole(from, bits)),
        };
        return Expr::Const(to, bits);
    }
    Expr::Cast(to, Box::new(value))
}

/// The nearest whole number towards zero; the last there is beyond the ends, and zero for NaN.
fn saturate(scalar: Scalar, value: f64) -> u64 {
    match scalar {
        Scalar::I8 => i64::from(value as i8) as u64,
        Scalar::I16 => i64::from(value as i16) as u64,
        Scalar::I32 => i64::from(value as i32) as u64,
        Scalar::I64 => (value as i64) as u64,
        Scalar::U8 => u64::from(value as u8),
        Scalar::U16 => u64::from(value as u16),
        Scalar::U32 => u64::from(value as u32),
        _ => value as u64,
    }
}

/// One of two values.
#[must_use]
pub fn select(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    match condition {
        Expr::Const(_, 0) => otherwise,
        Expr::Const(..) => then,
        condition => Expr::Select(Box::new([condition, then, otherwise])),
    }
}

/// Folds everything in a kernel.
pub fn fold(kernel: &mut Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    body.each_expr_mut(&mut |expr| fold_expr(kernel, expr));
    branches(&mut body);
    kernel.body = body;
}

fn fold_expr(kernel: &Kernel, expr: &mut Expr) {
    expr.children_mut(|child| fold_expr(kernel, child));
    let whole = std::mem::replace(expr, Expr::Const(Scalar::Bool, 0));
    *expr = match whole {
        Expr::Unary(op, operand) => unary(op, *operand),
        Expr::Binary(op, left, right) => binary(op, *left, *right),
        Expr::Cast(to, value) => cast(value.scalar(kernel), to, *value),
        Expr::Select(parts) => {
            let [condition, then, otherwise] = *parts;
            select(condition, then, otherwise)
        }
        other => other,
    };
}

/// Replaces branches whose condition is known.
fn branches(block: &mut Block) {
    for statement in &mut block.statements {
        statement.kind.parts_mut(&mut |_| {}, &mut branches);
        if let Kind::If(Expr::Const(_, holds), then, otherwise) = &mut statement.kind {
            let taken = std::mem::take(if *holds != 0 { then } else { otherwise });
            statement.kind = Kind::If(Expr::Const(Scalar::Bool, 1), taken, Block::default());
        }
    }
    let mut at = 0;
    while at < block.statements.len() {
        if let Kind::If(Expr::Const(..), then, _) = &mut block.statements[at].kind {
            let taken = std::mem::take(then);
            block.locals.extend(taken.locals);
            let many = taken.statements.len();
            block.statements.splice(at..=at, taken.statements);
            at += many;
        } else {
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_as_they_should() {
        for bits in 0..=u16::MAX {
            let value = half(bits);
            if !value.is_nan() {
                assert_eq!(half_bits(value), bits, "{value}");
            }
        }
        assert_eq!(half_bits(65519.0), 0x7bff);
        assert_eq!(half_bits(65520.0), 0x7c00);
        assert_eq!(half_bits(1e-8), 0);
        assert_eq!(half_bits(1.0 + 1.0 / 2048.0), half_bits(1.0));
        assert_eq!(half_bits(1.0 + 3.0 / 2048.0), half_bits(1.0 + 2.0 / 1024.0));
    }

    #[test]
    fn upper_halves_round_as_they_should() {
        for bits in 0..=u16::MAX {
            let value = float(Scalar::BF16, u64::from(bits));
            if !value.is_nan() {
                assert_eq!(upper_half_bits(value), bits, "{value}");
            }
        }
        assert_eq!(upper_half_bits(f64::NAN) & 0x7fff, 0x7fc0);
        // Between two neighbours, the smallest ones included: exactly in the middle the even one, else the nearer one.
        for low in (0..0x7f7f_u16).step_by(7) {
            let (a, b) = (float(Scalar::BF16, u64::from(low)), float(Scalar::BF16, u64::from(low) + 1));
            let middle = a + (b - a) / 2.0;
            assert_eq!(upper_half_bits(middle), low + (low & 1), "{middle}");
            assert_eq!(upper_half_bits(middle.next_up()), low + 1, "{middle}");
            assert_eq!(upper_half_bits(-middle.next_down()), low | 0x8000, "{middle}");
        }
        assert_eq!(upper_half_bits(f64::MAX), 0x7f80);
        let rounded = |value: i128| float_bits(Scalar::BF16, sticky_double(value));
        assert_eq!(rounded((1 << 62) + (1 << 54)), 0x5e80);
        assert_eq!(rounded((1 << 62) + (1 << 54) + 1), 0x5e81);
        assert_eq!(rounded(-(1 << 62) - (1 << 54) - 1), 0xde81);
    }

    #[test]
    fn division_is_pythons() {
        let fold = |op, a: i32, b: i32| {
            let constant = |value: i32| Expr::Const(Scalar::I32, wrap(Scalar::I32, i128::from(value)));
            match binary(op, constant(a), constant(b)) {
                Expr::Const(_, bits) => bits as i64 as i32,
                other => panic!("{other:?}"),
            }
        };
        for (a, b, quotient, rest) in [
            (7, 2, 3, 1),
            (-7, 2, -4, 1),
            (7, -2, -4, -1),
            (-7, -2, 3, -1),
            (6, -2, -3, 0),
            (5, 0, 0, 0),
            (i32::MIN, -1, i32::MIN, 0),
        ] {
            assert_eq!(fold(Binary::FloorDiv, a, b), quotient, "{a} // {b}");
            assert_eq!(fold(Binary::Mod, a, b), rest, "{a} % {b}");
        }
        assert_eq!(fold(Binary::Shl, 1, 32), 0);
        assert_eq!(fold(Binary::Shr, -5, 40), -1);
        assert_eq!(fold(Binary::Shl, 1, -1), 0);
    }

    #[test]
    fn casts_saturate() {
        let cast = |to, value: f64| match cast(Scalar::F64, to, Expr::Const(Scalar::F64, value.to_bits())) {
            Expr::Const(_, bits) => whole(to, bits),
            other => panic!("{other:?}"),
        };
        assert_eq!(cast(Scalar::I8, 300.0), 127);
        assert_eq!(cast(Scalar::U8, -3.0), 0);
        assert_eq!(cast(Scalar::I32, f64::NAN), 0);
        assert_eq!(cast(Scalar::U64, 1e30), i128::from(u64::MAX));
        assert_eq!(cast(Scalar::Bool, 0.5), 1);
    }
}
