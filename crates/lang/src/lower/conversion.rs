//! Conversions: casts, truth values and whole numbers, bits, rounding.

use keyprint_source::ast;

use super::expr::{unsupported, unwrap_static};
use super::value::Value;
use super::{Lower, Lowerer};
use crate::error::{Code, LangError};
use crate::host::Constant;
use crate::ir::{Binary, Expr, Kind, Math};
use crate::passes::fold;
use crate::types::Scalar;

impl Lowerer<'_> {
    pub(super) fn known_scalar_type(&mut self, value: Value) -> Lower<Scalar> {
        match unwrap_static(value) {
            Value::Constant(Constant::Scalar(scalar)) => Ok(scalar),
            Value::Constant(Constant::Builtin("int")) => Ok(self.options.default_int),
            Value::Constant(Constant::Builtin("float")) => Ok(self.options.default_float),
            Value::Constant(Constant::Builtin("bool")) => Ok(Scalar::Bool),
            other => Err(LangError::new(
                Code::Type,
                format!("expected a type such as `f32`, found {}", other.describe()),
            )),
        }
    }

    pub(super) fn cast_to(&mut self, to: Scalar, value: Value) -> Lower<Value> {
        let value = self.listed(unwrap_static(value))?;
        if self.as_tensor(&value)?.is_none() {
            if self.options.debug {
                self.check_cast(to, &value)?;
            }
            return Ok(Value::Scalar(self.scalar_as(value, to)?, to));
        }
        self.each(value, |_, item, scalar| Ok((fold::cast(scalar, to, item), to)))
    }

    /// In debug mode, converting a float that does not fit is an error.
    pub(super) fn check_cast(&mut self, to: Scalar, value: &Value) -> Lower<()> {
        let Value::Scalar(expr, scalar) = value else { return Ok(()) };
        if !scalar.is_float() || !to.is_int() {
            return Ok(());
        }
        let wide = self.once(fold::cast(*scalar, Scalar::F64, expr.clone()), Scalar::F64)?;
        let bits = if to.is_signed() { to.bits() - 1 } else { to.bits() };
        let end = 2f64.powi(bits as i32);
        let low = if to.is_signed() { -end - 1.0 } else { -1.0 };
        // At 64 bits, one less is the same float.
        let low = if to == Scalar::I64 { (-end).next_down() } else { low };
        let constant = |value: f64| Expr::Const(Scalar::F64, value.to_bits());
        let above = fold::binary(Binary::Lt, constant(low), wide.clone());
        let below = fold::binary(Binary::Lt, wide.clone(), constant(end));
        let site = self.site(format!("cast:{to}"));
        self.emit(Kind::Check {
            condition: fold::binary(Binary::And, above, below),
            site,
            values: vec![wide],
        })
    }

    pub(super) fn convert(&mut self, name: &str, value: Value) -> Lower<Value> {
        let value = unwrap_static(value);
        match (name, &value) {
            ("int", Value::Constant(Constant::Int(_))) | ("float", Value::Constant(Constant::Float(_))) => {
                Ok(value)
            }
            ("int", Value::Constant(Constant::Float(float))) if float.is_finite() => {
                Ok(Value::int(*float as i128))
            }
            ("int", Value::Constant(Constant::Bool(truth))) => Ok(Value::int(i128::from(*truth))),
            ("float", Value::Constant(Constant::Int(int))) => {
                Ok(Value::Constant(Constant::Float(*int as f64)))
            }
            ("bool", _) => Ok(Value::Scalar(self.truth(value)?, Scalar::Bool)),
            _ => {
                let (_, scalar) = match self.as_tensor(&value)? {
                    Some((_, scalar, _)) => ((), scalar),
                    None => ((), self.scalar(value.clone())?.1),
                };
                let to = match name {
                    // What is wide stays wide.
                    "int" if scalar.is_int() => scalar,
                    "int" => self.options.default_int,
                    _ if scalar.is_float() => scalar,
                    _ => self.options.default_float,
                };
                self.cast_to(to, value)
            }
        }
    }

    pub(super) fn bit_cast(&mut self, to: Scalar, value: Value) -> Lower<Value> {
        self.each(unwrap_static(value), |_, item, scalar| {
            if scalar.bits() != to.bits() || scalar == Scalar::Bool || to == Scalar::Bool {
                return Err(LangError::new(Code::Type, format!("the bits of a `{scalar}` are no `{to}`"))
                    .hint("both types must have the same size"));
            }
            Ok((if scalar == to { item } else { Expr::Bits(to, Box::new(item)) }, to))
        })
    }

    pub(super) fn rounded(&mut self, name: &str, call: &ast::ExprCall) -> Lower<Value> {
        let mut values = self.counted(call, name, 1..=2)?;
        let to = match values.len() {
            2 => {
                let second = unwrap_static(values.remove(1));
                if name == "round" && matches!(second, Value::Constant(Constant::Int(_))) {
                    return Err(unsupported("`round` to digits", "multiply, round, and divide"));
                }
                Some(self.known_scalar_type(second)?)
            }
            _ => None,
        };
        let value = values.remove(0);
        let value = self.listed(unwrap_static(value))?;
        let is_float = match self.as_tensor(&value)? {
            Some((_, scalar, _)) => scalar.is_float(),
            None => self.scalar(value.clone())?.1.is_float(),
        };
        let math = Math::of_name(name).expect("one of four");
        let rounded = if is_float { self.math(math, vec![value])? } else { value };
        match to {
            Some(to) => self.cast_to(to, rounded),
            None => Ok(rounded),
        }
    }
}
