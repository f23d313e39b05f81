//! Operators, on constants, numbers and vectors.

use keyprint_source::ast::{CmpOp, Operator, UnaryOp};

use super::constants::{compare_constants, constants, ordered};
use super::expr::{known_truth, made, truth_of, unwrap_static};
use super::value::Value;
use super::{Lower, Lowerer};
use crate::error::{Code, LangError};
use crate::host::Constant;
use crate::ir::{Binary, Expr, Kind, Math, Unary};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

/// Two operands, number by number, each of its own type.
pub(super) struct Paired {
    pub(super) shape: Option<Shape>,
    pub(super) left: Vec<Expr>,
    pub(super) right: Vec<Expr>,
    /// The type of the first.
    pub(super) from: Scalar,
    /// The type of the second.
    pub(super) other: Scalar,
}

/// The type of what holds one number or another: truth values stay what they are among themselves.
pub(super) fn common(scalar: Scalar, other: Scalar) -> Scalar {
    if scalar == other { scalar } else { scalar.promote(other) }
}

impl Lowerer<'_> {
    /// A binary operator.
    pub(super) fn operate(&mut self, op: Operator, left: Value, right: Value) -> Lower<Value> {
        let (left, right) = (unwrap_static(left), unwrap_static(right));
        if let (Value::Constant(a), Value::Constant(b)) = (&left, &right)
            && let Some(constant) = constants(op, a, b)?
        {
            return Ok(Value::Constant(constant));
        }
        if let (
            Operator::Add,
            Value::Tuple(_) | Value::Constant(Constant::Tuple(_)),
            Value::Tuple(_) | Value::Constant(Constant::Tuple(_)),
        ) = (op, &left, &right)
        {
            let mut items = self.elements(left)?;
            items.extend(self.elements(right)?);
            return Ok(Value::Tuple(items));
        }
        if op == Operator::MatMult {
            return self.matmul(left, right);
        }
        let (left, right) = (self.listed(left)?, self.listed(right)?);
        // A power by a small whole number is a product.
        let exponent = match (&op, &right) {
            (Operator::Pow, Value::Constant(Constant::Int(n @ 0..=4))) => Some(*n),
            _ => None,
        };
        let described = (left.describe(), right.describe());
        let is_number = |this: &mut Self, value: &Value| -> Lower<bool> {
            Ok(this.as_tensor(value)?.is_some() || this.scalar(value.clone()).is_ok())
        };
        if !is_number(self, &left)? || !is_number(self, &right)? {
            return Err(LangError::new(
                Code::Operand,
                format!("`{}` is not defined for {} and {}", op.as_str(), described.0, described.1),
            ));
        }
        self.warn_of_digits(&left, &right)?;
        let Paired { shape, left, right, from, other } = self.paired(left, right)?;
        if matches!(op, Operator::LShift | Operator::RShift) {
            return self.shift(op, Paired { shape, left, right, from, other });
        }
        // Each operand becomes a float by itself: mixing signs first would change what it is.
        let scalar = match common(from, other) {
            scalar if op == Operator::Div && !scalar.is_float() => self.options.default_float,
            scalar => scalar,
        };
        let mut items = Vec::new();
        let mut result = scalar;
        for (first, second) in left.into_iter().zip(right) {
            let (first, second) = (fold::cast(from, scalar, first), fold::cast(other, scalar, second));
            let (item, scalar) = match exponent {
                Some(n) if scalar.is_float() => self.product(first, scalar, n)?,
                _ => self.arithmetic(op, first, second, scalar)?,
            };
            result = scalar;
            items.push(item);
        }
        Ok(made(shape, result, items))
    }

    /// A shift: the result has the type of what is shifted, whatever the type of the count.
    fn shift(&mut self, op: Operator, given: Paired) -> Lower<Value> {
        let Paired { shape, left, right, from, other } = given;
        if let Some(float) = [from, other].into_iter().find(|scalar| scalar.is_float()) {
            return Err(LangError::new(
                Code::Operand,
                format!("`{}` is not defined for `{float}`", op.as_str()),
            )
            .hint("convert to an int first, or use `bit_cast`"));
        }
        let plain = |scalar| if scalar == Scalar::Bool { Scalar::I32 } else { scalar };
        let (to, count_type) = (plain(from), plain(other));
        let op = if op == Operator::LShift { Binary::Shl } else { Binary::Shr };
        let mut items = Vec::new();
        for (number, count) in left.into_iter().zip(right) {
            let number = fold::cast(from, to, number);
            let count = fold::cast(other, count_type, count);
            let (number, count) = if self.options.debug {
                self.check_count(number, to, count, count_type)?
            } else {
                (number, count)
            };
            let count = if count_type.bits() <= to.bits() {
                // What is too large stays too large, or becomes negative: both leave copies of the sign.
                fold::cast(count_type, to, count)
            } else {
                let count = self.once(count, count_type)?;
                let bits = Expr::Const(count_type, u64::from(to.bits()));
                let low = fold::binary(Binary::Le, Expr::Const(count_type, 0), count.clone());
                let inside = fold::binary(Binary::And, low, fold::binary(Binary::Lt, count.clone(), bits));
                let most = Expr::Const(to, u64::from(to.bits()));
                fold::select(inside, fold::cast(count_type, to, count), most)
            };
            items.push(fold::binary(op, number, count));
        }
        Ok(made(shape, to, items))
    }

    /// In debug mode, shifting too far is an error.
    fn check_count(
        &mut self,
        number: Expr,
        scalar: Scalar,
        count: Expr,
        count_type: Scalar,
    ) -> Lower<(Expr, Expr)> {
        let number = self.once(number, scalar)?;
        let count = self.once(count, count_type)?;
        let low = fold::binary(Binary::Le, Expr::Const(count_type, 0), count.clone());
        let bits = Expr::Const(count_type, u64::from(scalar.bits()));
        let high = fold::binary(Binary::Lt, count.clone(), bits);
        let condition = fold::binary(Binary::And, low, high);
        if condition != Expr::Const(Scalar::Bool, 1) {
            let site = self.site("shift".to_owned());
            self.emit(Kind::Check { condition, site, values: vec![count.clone()] })?;
        }
        Ok((number, count))
    }

    /// Says so where digits of a number that is written out get lost: it is of the default type, and meets a wider one.
    fn warn_of_digits(&mut self, left: &Value, right: &Value) -> Lower<()> {
        for (literal, other) in [(left, right), (right, left)] {
            let Value::Constant(Constant::Float(value)) = literal else { continue };
            let default = self.options.default_float;
            let bits = fold::float_bits(default, *value);
            if fold::float(default, bits) == *value || !value.is_finite() {
                continue;
            }
            let wider = match self.as_tensor(other)? {
                Some((_, scalar, _)) => scalar,
                None => self.scalar(other.clone())?.1,
            };
            if wider.is_float() && wider.bits() > default.bits() {
                self.warn(format!(
                    "`{value:?}` is a `{default}`, and what it meets a `{wider}`: digits are lost; write \
                     `kp.{wider}({value:?})`, or `kp.init(default_fp=kp.{wider})`"
                ));
            }
        }
        Ok(())
    }

    /// A tuple or list of numbers as a vector, or of such as a matrix; anything else as it is.
    pub(super) fn listed(&mut self, value: Value) -> Lower<Value> {
        match value {
            Value::Tuple(_) | Value::Constant(Constant::Tuple(_)) => self.tensor_of(value, None),
            other => Ok(other),
        }
    }

    fn product(&mut self, factor: Expr, scalar: Scalar, n: i128) -> Lower<(Expr, Scalar)> {
        let wide = scalar.computed();
        let base = fold::cast(scalar, wide, factor);
        let base = self.once(base, wide)?;
        let times = |a: Expr, b: Expr| fold::binary(Binary::Mul, a, b);
        let power = match n {
            0 => Expr::Const(wide, fold::float_bits(wide, 1.0)),
            1 => base,
            2 => times(base.clone(), base),
            3 => times(times(base.clone(), base.clone()), base),
            _ => {
                let square = self.once(times(base.clone(), base), wide)?;
                times(square.clone(), square)
            }
        };
        Ok((fold::cast(wide, scalar, power), scalar))
    }

    /// An operator on two numbers of one type.
    pub(super) fn arithmetic(
        &mut self,
        op: Operator,
        left: Expr,
        right: Expr,
        scalar: Scalar,
    ) -> Lower<(Expr, Scalar)> {
        let is_bits = matches!(op, Operator::BitAnd | Operator::BitOr | Operator::BitXor);
        let is_shift = matches!(op, Operator::LShift | Operator::RShift);
        if (is_shift || is_bits) && scalar.is_float() {
            return Err(LangError::new(
                Code::Operand,
                format!("`{}` is not defined for `{scalar}`", op.as_str()),
            )
            .hint("convert to an int first, or use `bit_cast`"));
        }
        // Arithmetic on truth values is that of ints; halves are computed in single precision.
        let wide = match scalar {
            Scalar::Bool if !is_bits => Scalar::I32,
            other => other.computed(),
        };
        let (left, right) = (fold::cast(scalar, wide, left), fold::cast(scalar, wide, right));
        let op = match op {
            Operator::Add => Binary::Add,
            Operator::Sub => Binary::Sub,
            Operator::Mult => Binary::Mul,
            Operator::Div => {
                let float = if wide.is_float() { wide } else { self.options.default_float };
                let float = float.computed();
                let quotient =
                    fold::binary(Binary::Div, fold::cast(wide, float, left), fold::cast(wide, float, right));
                let result = if scalar.is_half() { scalar } else { float };
                return Ok((fold::cast(float, result, quotient), result));
            }
            Operator::FloorDiv => Binary::FloorDiv,
            Operator::Mod => Binary::Mod,
            Operator::Pow => Binary::Pow,
            Operator::BitAnd => Binary::BitAnd,
            Operator::BitOr => Binary::BitOr,
            Operator::BitXor => Binary::BitXor,
            Operator::LShift => Binary::Shl,
            Operator::RShift => Binary::Shr,
            Operator::MatMult => unreachable!("lowered as a product of matrices"),
        };
        let (left, right) =
            if self.options.debug { self.check_operands(op, left, right, wide)? } else { (left, right) };
        let value = fold::binary(op, left, right);
        if scalar.is_half() {
            return Ok((fold::cast(wide, scalar, value), scalar));
        }
        Ok((value, wide))
    }

    /// In debug mode, dividing by zero is an error.
    fn check_operands(&mut self, op: Binary, left: Expr, right: Expr, scalar: Scalar) -> Lower<(Expr, Expr)> {
        if !scalar.is_int() || matches!(right, Expr::Const(..)) {
            return Ok((left, right));
        }
        let zero = Expr::Const(scalar, 0);
        if !matches!(op, Binary::FloorDiv | Binary::Mod | Binary::TruncDiv | Binary::TruncMod) {
            return Ok((left, right));
        }
        let left = self.once(left, scalar)?;
        let right = self.once(right, scalar)?;
        let site = self.site("division".to_owned());
        let condition = fold::binary(Binary::Ne, right.clone(), zero);
        self.emit(Kind::Check { condition, site, values: vec![right.clone()] })?;
        Ok((left, right))
    }

    /// `<` and the like, number by number.
    pub(super) fn order(&mut self, op: CmpOp, left: Value, right: Value) -> Lower<Value> {
        if let (Value::Constant(a), Value::Constant(b)) = (&left, &right)
            && let Some(holds) = compare_constants(op, a, b)
        {
            return Ok(Value::Constant(Constant::Bool(holds)));
        }
        let described = (left.describe(), right.describe());
        let cannot = || {
            LangError::new(
                Code::Comparison,
                format!("`{}` is not defined for {} and {}", op.as_str(), described.0, described.1),
            )
        };
        let (left, right) = (self.listed(left)?, self.listed(right)?);
        if let Some(known) = self.beyond(op, &left, &right)? {
            // Not a constant: what a comparison is does not depend on what its numbers turn out to be.
            return Ok(Value::Scalar(Expr::Const(Scalar::Bool, u64::from(known)), Scalar::Bool));
        }
        let Paired { shape, left, right, from, other } =
            self.paired(left, right).map_err(|error| match error.code {
                Code::Type => cannot(),
                _ => error,
            })?;
        let mut items = Vec::new();
        for (first, second) in left.into_iter().zip(right) {
            items.push(self.compare_numbers(op, (first, from), (second, other))?);
        }
        Ok(made(shape, Scalar::Bool, items))
    }

    /// What a comparison of a whole number with a constant is that has more than 64 bits.
    fn beyond(&mut self, op: CmpOp, left: &Value, right: &Value) -> Lower<Option<bool>> {
        let (constant, other, flipped) = match (left, right) {
            (Value::Constant(Constant::Int(constant)), other) => (*constant, other, true),
            (other, Value::Constant(Constant::Int(constant))) => (*constant, other, false),
            _ => return Ok(None),
        };
        let Ok((_, scalar)) = self.scalar(other.clone()) else { return Ok(None) };
        let fits = (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&constant);
        if scalar.is_float() || fits {
            return Ok(None);
        }
        let order = if constant > 0 { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
        Ok(Some(ordered(op, if flipped { order.reverse() } else { order })))
    }

    /// A comparison of two numbers: whole numbers are compared as they are, whatever their types.
    pub(super) fn compare_numbers(
        &mut self,
        op: CmpOp,
        (first, from): (Expr, Scalar),
        (second, other): (Expr, Scalar),
    ) -> Lower<Expr> {
        let is_mixed = from.is_int() && other.is_int() && from.is_signed() != other.is_signed();
        if is_mixed && from.bits().max(other.bits()) == 64 {
            return self.compare_signs(op, (first, from), (second, other));
        }
        let scalar = if is_mixed { Scalar::I64 } else { common(from, other) };
        // Halves are ordered as they are in single precision.
        let wide = scalar.computed();
        let converted = |item, from| fold::cast(scalar, wide, fold::cast(from, scalar, item));
        let (first, second) = (converted(first, from), converted(second, other));
        Ok(match op {
            CmpOp::Eq => fold::binary(Binary::Eq, first, second),
            CmpOp::NotEq => fold::binary(Binary::Ne, first, second),
            CmpOp::Lt => fold::binary(Binary::Lt, first, second),
            CmpOp::LtE => fold::binary(Binary::Le, first, second),
            // The order of the two does not show: neither has effects.
            CmpOp::Gt => fold::binary(Binary::Lt, second, first),
            _ => fold::binary(Binary::Le, second, first),
        })
    }

    /// A comparison of a signed and an unsigned number of which nothing holds both.
    fn compare_signs(
        &mut self,
        op: CmpOp,
        (a, from): (Expr, Scalar),
        (b, other): (Expr, Scalar),
    ) -> Lower<Expr> {
        // The signed one first.
        let (signed, unsigned, op) = if from.is_signed() {
            (fold::cast(from, Scalar::I64, a), fold::cast(other, Scalar::U64, b), op)
        } else {
            let flipped = match op {
                CmpOp::Lt => CmpOp::Gt,
                CmpOp::LtE => CmpOp::GtE,
                CmpOp::Gt => CmpOp::Lt,
                CmpOp::GtE => CmpOp::LtE,
                other => other,
            };
            (fold::cast(other, Scalar::I64, b), fold::cast(from, Scalar::U64, a), flipped)
        };
        let signed = self.once(signed, Scalar::I64)?;
        let negative = fold::binary(Binary::Lt, signed.clone(), Expr::index(0));
        let wide = fold::cast(Scalar::I64, Scalar::U64, signed);
        let below = |strict| {
            let op = if strict { Binary::Lt } else { Binary::Le };
            fold::binary(Binary::Or, negative.clone(), fold::binary(op, wide.clone(), unsigned.clone()))
        };
        let not = |truth| fold::unary(Unary::Not, truth);
        let equal = || {
            let same = fold::binary(Binary::Eq, wide.clone(), unsigned.clone());
            fold::binary(Binary::And, not(negative.clone()), same)
        };
        Ok(match op {
            CmpOp::Lt => below(true),
            CmpOp::LtE => below(false),
            CmpOp::Gt => not(below(false)),
            CmpOp::GtE => not(below(true)),
            CmpOp::Eq => equal(),
            _ => not(equal()),
        })
    }

    /// A unary operator.
    pub(super) fn unary(&mut self, op: UnaryOp, operand: Value) -> Lower<Value> {
        let operand = unwrap_static(operand);
        if op == UnaryOp::Not {
            if let Some(known) = known_truth(&operand) {
                return Ok(Value::Constant(Constant::Bool(!known)));
            }
            if let Some((shape, scalar, items)) = self.as_tensor(&operand)? {
                let items = items.into_iter().map(|item| fold::unary(Unary::Not, truth_of(item, scalar)));
                return Ok(Value::Tensor(shape, Scalar::Bool, items.collect()));
            }
            let truth = self.truth(operand)?;
            return Ok(Value::Scalar(fold::unary(Unary::Not, truth), Scalar::Bool));
        }
        if let Value::Constant(constant) = &operand {
            let folded = match (op, constant) {
                (UnaryOp::USub, Constant::Int(value)) => Some(Constant::Int(-value)),
                (UnaryOp::USub, Constant::Float(value)) => Some(Constant::Float(-value)),
                (UnaryOp::USub, Constant::Bool(value)) => Some(Constant::Int(-i128::from(*value))),
                (UnaryOp::UAdd, Constant::Int(_) | Constant::Float(_)) => Some(constant.clone()),
                (UnaryOp::UAdd, Constant::Bool(value)) => Some(Constant::Int(i128::from(*value))),
                (UnaryOp::Invert, Constant::Int(value)) => Some(Constant::Int(!value)),
                _ => None,
            };
            if let Some(folded) = folded {
                return Ok(Value::Constant(folded));
            }
        }
        let operand = self.listed(operand)?;
        let (shape, scalar, items) = match self.as_tensor(&operand)? {
            Some((shape, scalar, items)) => (Some(shape), scalar, items),
            None => {
                let (number, scalar) = self.scalar(operand)?;
                (None, scalar, vec![number])
            }
        };
        let mut result = scalar;
        let mut outputs = Vec::new();
        for number in items {
            let (item, scalar) = self.negate(op, number, scalar)?;
            result = scalar;
            outputs.push(item);
        }
        Ok(made(shape, result, outputs))
    }

    pub(super) fn negate(&mut self, op: UnaryOp, number: Expr, scalar: Scalar) -> Lower<(Expr, Scalar)> {
        match op {
            UnaryOp::UAdd if scalar == Scalar::Bool => {
                Ok((fold::cast(scalar, Scalar::I32, number), Scalar::I32))
            }
            UnaryOp::UAdd => Ok((number, scalar)),
            UnaryOp::Invert if scalar == Scalar::Bool => Ok((fold::unary(Unary::Not, number), scalar)),
            UnaryOp::Invert if scalar.is_int() => Ok((fold::unary(Unary::BitNot, number), scalar)),
            UnaryOp::Invert => {
                Err(LangError::new(Code::Operand, format!("`~` is not defined for `{scalar}`")))
            }
            _ => match scalar {
                Scalar::Bool => {
                    Ok((fold::unary(Unary::Neg, fold::cast(scalar, Scalar::I32, number)), Scalar::I32))
                }
                _ if scalar.is_half() => {
                    let wide = fold::unary(Unary::Neg, fold::cast(scalar, Scalar::F32, number));
                    Ok((fold::cast(Scalar::F32, scalar, wide), scalar))
                }
                _ => Ok((fold::unary(Unary::Neg, number), scalar)),
            },
        }
    }

    /// A function of floats, on numbers and vectors: whole numbers become floats.
    pub(super) fn math(&mut self, math: Math, arguments: Vec<Value>) -> Lower<Value> {
        let mut shape: Option<Shape> = None;
        let mut scalar: Option<Scalar> = None;
        let mut all = Vec::new();
        for value in arguments {
            let value = self.listed(value)?;
            let (one_shape, from, items) = match self.as_tensor(&value)? {
                Some((shape, scalar, items)) => (Some(shape), scalar, items),
                None => {
                    let (number, scalar) = self.scalar(value)?;
                    let number = self.once(number, scalar)?;
                    (None, scalar, vec![number])
                }
            };
            if let (Some(known), Some(given)) = (shape, one_shape)
                && known != given
            {
                return Err(LangError::new(
                    Code::Shape,
                    format!("`{}` of vectors of other sizes", math.name()),
                ));
            }
            shape = shape.or(one_shape);
            scalar = Some(scalar.map_or(from, |known: Scalar| known.promote(from)));
            all.push((from, items));
        }
        let scalar = scalar.expect("there is an argument");
        let float = if scalar.is_float() { scalar } else { self.options.default_float };
        let wide = float.computed();
        let many = shape.map_or(1, Shape::len) as usize;
        let items = (0..many).map(|at| {
            let argument = |(from, items): &(Scalar, Vec<Expr>)| {
                let item = if items.len() == 1 { &items[0] } else { &items[at] };
                fold::cast(float, wide, fold::cast(*from, float, item.clone()))
            };
            let call = Expr::Call(math, all.iter().map(argument).collect());
            fold::cast(wide, float, call)
        });
        let items = items.collect();
        Ok(made(shape, float, items))
    }

    /// The smaller or larger of several.
    pub(super) fn extreme(&mut self, op: Binary, values: Vec<Value>) -> Lower<Value> {
        let mut values = values.into_iter();
        let mut result = values.next().ok_or_else(|| LangError::new(Code::ArgumentCount, "of nothing"))?;
        for value in values {
            if let (Value::Constant(a), Value::Constant(b)) = (&result, &value)
                && let Some(less) = compare_constants(CmpOp::Lt, b, a)
            {
                let second =
                    if op == Binary::Min { less } else { compare_constants(CmpOp::Lt, a, b) == Some(true) };
                result = if second { value } else { result };
                continue;
            }
            let (result_value, value) = (self.listed(result)?, self.listed(value)?);
            self.warn_of_digits(&result_value, &value)?;
            let Paired { shape, left, right, from, other } = self.paired(result_value, value)?;
            let scalar = common(from, other);
            let is_mixed = from.is_int() && other.is_int() && from.is_signed() != other.is_signed();
            if is_mixed && !scalar.is_signed() {
                result = self.extreme_of_signs(op, scalar, Paired { shape, left, right, from, other })?;
                continue;
            }
            let wide = match scalar {
                Scalar::Bool => Scalar::I32,
                other => other.computed(),
            };
            let back = if scalar.is_half() { scalar } else { wide };
            let mut items = Vec::new();
            for (first, second) in left.into_iter().zip(right) {
                let first = fold::cast(scalar, wide, fold::cast(from, scalar, first));
                let second = fold::cast(scalar, wide, fold::cast(other, scalar, second));
                items.push(fold::cast(wide, back, fold::binary(op, first, second)));
            }
            result = made(shape, back, items);
        }
        Ok(result)
    }

    /// The smaller or larger of a signed and an unsigned number that is at least as wide. The smaller one fits into
    /// the signed type of that size, the larger one into the unsigned type.
    fn extreme_of_signs(&mut self, op: Binary, unsigned: Scalar, given: Paired) -> Lower<Value> {
        let Paired { shape, left, right, from, other } = given;
        let to = if op == Binary::Min { unsigned.signed() } else { unsigned };
        let mut items = Vec::new();
        for (first, second) in left.into_iter().zip(right) {
            let (first, second) = (self.once(first, from)?, self.once(second, other)?);
            // As Python: the first unless the second is beyond it.
            let beyond = if op == Binary::Min { CmpOp::Lt } else { CmpOp::Gt };
            let is_second = self.compare_numbers(beyond, (second.clone(), other), (first.clone(), from))?;
            items.push(fold::select(is_second, fold::cast(other, to, second), fold::cast(from, to, first)));
        }
        Ok(made(shape, to, items))
    }

    pub(super) fn absolute(&mut self, value: Value) -> Lower<Value> {
        match &value {
            Value::Constant(Constant::Int(value)) => return Ok(Value::int(value.abs())),
            Value::Constant(Constant::Bool(value)) => return Ok(Value::int(i128::from(*value))),
            Value::Constant(Constant::Float(value)) => {
                return Ok(Value::Constant(Constant::Float(value.abs())));
            }
            _ => {}
        }
        let value = self.listed(value)?;
        self.each(value, |_, number, scalar| {
            let wide = match scalar {
                Scalar::Bool => Scalar::I32,
                other => other.computed(),
            };
            let back = if scalar.is_half() { scalar } else { wide };
            let number = fold::cast(scalar, wide, number);
            let magnitude = if wide.is_signed() { fold::unary(Unary::Abs, number) } else { number };
            Ok((fold::cast(wide, back, magnitude), back))
        })
    }

    /// Does something to a number, or to each number of a vector.
    pub(super) fn each(
        &mut self,
        value: Value,
        mut work: impl FnMut(&mut Self, Expr, Scalar) -> Lower<(Expr, Scalar)>,
    ) -> Lower<Value> {
        let (shape, scalar, items) = match self.as_tensor(&value)? {
            Some((shape, scalar, items)) => (Some(shape), scalar, items),
            None => {
                let (number, scalar) = self.scalar(value)?;
                (None, scalar, vec![number])
            }
        };
        let mut result = scalar;
        let mut outputs = Vec::new();
        for number in items {
            let (item, scalar) = work(self, number, scalar)?;
            result = scalar;
            outputs.push(item);
        }
        Ok(made(shape, result, outputs))
    }
}
