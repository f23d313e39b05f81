//! Operations on what is known when a kernel is compiled.

use keyprint_source::ast::{CmpOp, Operator};

use super::Lower;
use crate::error::{Code, LangError};
use crate::host::Constant;

/// What Python computes, of constants; nothing if they are no numbers.
pub(super) fn constants(op: Operator, a: &Constant, b: &Constant) -> Lower<Option<Constant>> {
    let whole = |constant: &Constant| match constant {
        Constant::Int(value) => Some(*value),
        Constant::Bool(value) => Some(i128::from(*value)),
        _ => None,
    };
    let float = |constant: &Constant| match constant {
        Constant::Float(value) => Some(*value),
        other => whole(other).map(|value| value as f64),
    };
    let zero = || LangError::new(Code::Arithmetic, format!("`{}` by zero", op.as_str()));
    let overflow = || LangError::new(Code::Overflow, format!("the result of `{}` is too large", op.as_str()));
    if let (Some(x), Some(y)) = (whole(a), whole(b)) {
        let value = match op {
            Operator::Add => x.checked_add(y),
            Operator::Sub => x.checked_sub(y),
            Operator::Mult => x.checked_mul(y),
            Operator::Div | Operator::FloorDiv | Operator::Mod if y == 0 => return Err(zero()),
            Operator::Div => return Ok(Some(Constant::Float(x as f64 / y as f64))),
            Operator::FloorDiv => Some(x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0)),
            Operator::Mod => {
                let rest = x % y;
                Some(if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest })
            }
            Operator::Pow if y < 0 && x == 0 => return Err(zero()),
            Operator::Pow if y < 0 => return Ok(Some(Constant::Float((x as f64).powf(y as f64)))),
            Operator::Pow => u32::try_from(y).ok().and_then(|y| x.checked_pow(y)),
            Operator::LShift if y < 0 => {
                return Err(LangError::new(Code::Arithmetic, "a shift by less than nothing"));
            }
            Operator::RShift if y < 0 => {
                return Err(LangError::new(Code::Arithmetic, "a shift by less than nothing"));
            }
            Operator::LShift if x == 0 => Some(0),
            Operator::LShift => (y < 120).then(|| x.checked_mul(1 << y)).flatten(),
            Operator::RShift => Some(if y > 120 { -i128::from(x < 0) } else { x >> y }),
            Operator::BitAnd => Some(x & y),
            Operator::BitOr => Some(x | y),
            Operator::BitXor => Some(x ^ y),
            Operator::MatMult => return Ok(None),
        };
        let both_bool = matches!((a, b), (Constant::Bool(_), Constant::Bool(_)));
        let is_bits = matches!(op, Operator::BitAnd | Operator::BitOr | Operator::BitXor);
        let value = value.ok_or_else(overflow)?;
        return Ok(Some(if both_bool && is_bits {
            Constant::Bool(value != 0)
        } else {
            Constant::Int(value)
        }));
    }
    let (Some(x), Some(y)) = (float(a), float(b)) else { return Ok(None) };
    let value = match op {
        Operator::Add => x + y,
        Operator::Sub => x - y,
        Operator::Mult => x * y,
        Operator::Div | Operator::FloorDiv | Operator::Mod if y == 0.0 => return Err(zero()),
        Operator::Div => x / y,
        Operator::FloorDiv => {
            // What is left over decides: rounding a quotient could be off by one.
            let rest = x % y;
            let quotient = (x - rest) / y - f64::from(rest != 0.0 && (rest < 0.0) != (y < 0.0));
            let whole = quotient.floor();
            match quotient {
                0.0 => 0f64.copysign(x / y),
                _ if quotient - whole > 0.5 => whole + 1.0,
                _ => whole,
            }
        }
        Operator::Mod => match x % y {
            0.0 => 0f64.copysign(y),
            rest if (rest < 0.0) != (y < 0.0) => rest + y,
            rest => rest,
        },
        Operator::Pow => x.powf(y),
        _ => return Ok(None),
    };
    Ok(Some(Constant::Float(value)))
}

/// What Python says of two constants; nothing if they cannot be compared here.
pub(super) fn compare_constants(op: CmpOp, a: &Constant, b: &Constant) -> Option<bool> {
    let number = |constant: &Constant| match constant {
        Constant::Int(value) => Some(*value as f64),
        Constant::Bool(value) => Some(f64::from(u8::from(*value))),
        Constant::Float(value) => Some(*value),
        _ => None,
    };
    if let (Constant::Int(x), Constant::Int(y)) = (a, b) {
        return Some(ordered(op, x.cmp(y)));
    }
    if let (Some(x), Some(y)) = (number(a), number(b)) {
        return Some(x.partial_cmp(&y).map_or(op == CmpOp::NotEq, |order| ordered(op, order)));
    }
    let is_number = |constant: &Constant| number(constant).is_some();
    let is_open = |constant: &Constant| {
        matches!(
            constant,
            Constant::Number(_) | Constant::Numbers(..) | Constant::Tensor(..) | Constant::Tuple(_)
        )
    };
    if is_open(a) || is_open(b) {
        return None;
    }
    match op {
        CmpOp::Eq => Some(a == b && !is_number(a)),
        CmpOp::NotEq => Some(a != b || is_number(a)),
        _ => None,
    }
}

pub(super) fn ordered(op: CmpOp, order: std::cmp::Ordering) -> bool {
    match op {
        CmpOp::Eq => order.is_eq(),
        CmpOp::NotEq => order.is_ne(),
        CmpOp::Lt => order.is_lt(),
        CmpOp::LtE => order.is_le(),
        CmpOp::Gt => order.is_gt(),
        _ => order.is_ge(),
    }
}
