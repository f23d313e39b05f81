//! Conditions: comparisons, `and`, `or`, and one of two values.

use keyprint_source::ast::{self, CmpOp};

use super::branch::merged;
use super::expr::{known_truth, made, truth_of, two, unwrap_static};
use super::operation::{Paired, common};
use super::value::Value;
use super::{Lower, Lowerer};
use crate::error::{Code, LangError};
use crate::host::Constant;
use crate::ir::{Binary, Block, Expr, Kind, Statement, Unary};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

impl Lowerer<'_> {
    /// A value as a truth value.
    pub(super) fn truth(&mut self, value: Value) -> Lower<Expr> {
        if let Some(known) = known_truth(&value) {
            return Ok(Expr::Const(Scalar::Bool, u64::from(known)));
        }
        let (expr, scalar) = self.scalar(value).map_err(no_condition)?;
        Ok(truth_of(expr, scalar))
    }

    /// `and`, `or`: one of the operands, as in Python. What is known decides at once; otherwise the result has the
    /// common type of all operands.
    pub(super) fn logical(&mut self, node: &ast::ExprBoolOp) -> Lower<Value> {
        let is_and = node.op == ast::BoolOp::And;
        let mut values = node.values.iter();
        let first = values.next().expect("there are at least two");
        let mut result = self.expr(first)?;
        for next in values {
            if let Some(known) = known_truth(&result) {
                if known == is_and {
                    result = self.expr(next)?;
                }
                continue;
            }
            let (left, from) = self.scalar(unwrap_static(result)).map_err(no_condition)?;
            let (right, block) = self.aside(|this| {
                let value = this.expr(next)?;
                this.scalar(unwrap_static(value)).map_err(no_condition)
            })?;
            result = self.either(is_and, (left, from), right, block)?;
        }
        Ok(result)
    }

    /// Lowers something into a block of its own: it may not be run.
    fn aside<T>(&mut self, work: impl FnOnce(&mut Self) -> Lower<T>) -> Lower<(T, Block)> {
        let mut output = None;
        let before = self.current().names.clone();
        let block = self.in_block(false, |this| {
            output = Some(work(this)?);
            Ok(())
        })?;
        let after = std::mem::take(&mut self.current().names);
        self.current().names = merged(after, before);
        Ok((output.expect("set above"), block))
    }

    /// The first operand if it decides, otherwise the second, which is only computed then.
    fn either(
        &mut self,
        is_and: bool,
        (left, from): (Expr, Scalar),
        (right, other): (Expr, Scalar),
        mut block: Block,
    ) -> Lower<Value> {
        let scalar = common(from, other);
        let right = fold::cast(other, scalar, right);
        let is_pure = block.statements.is_empty();
        if is_pure && scalar == Scalar::Bool {
            let op = if is_and { Binary::And } else { Binary::Or };
            return Ok(Value::Scalar(fold::binary(op, left, right), scalar));
        }
        let left = self.once(left, from)?;
        if is_pure {
            let truth = truth_of(left.clone(), from);
            let left = fold::cast(from, scalar, left);
            let (then, otherwise) = if is_and { (right, left) } else { (left, right) };
            return Ok(Value::Scalar(fold::select(truth, then, otherwise), scalar));
        }
        let id = self.variable("", scalar, 0);
        self.emit(Kind::Set(id, fold::cast(from, scalar, left.clone())))?;
        let line = self.line();
        block.statements.push(Statement { line, kind: Kind::Set(id, right) });
        let truth = truth_of(left, from);
        let condition = if is_and { truth } else { fold::unary(Unary::Not, truth) };
        self.emit(Kind::If(condition, block, Block::default()))?;
        Ok(Value::Scalar(Expr::Local(id), scalar))
    }

    pub(super) fn compare(&mut self, node: &ast::ExprCompare) -> Lower<Value> {
        if let ([op], [right]) = (&node.ops[..], &node.comparators[..]) {
            let [left, right] = two(self.operands(&[&node.left, right])?);
            return self.compare_two(*op, left, right);
        }
        let left = self.expr(&node.left)?;
        let left = self.keep(left)?;
        self.chain(left, &node.ops, &node.comparators)
    }

    /// `left < a < b`: what is further to the right is only computed if all before it holds.
    fn chain(&mut self, left: Value, ops: &[CmpOp], rest: &[ast::Expr]) -> Lower<Value> {
        let right = self.expr(&rest[0])?;
        let right = self.keep(right)?;
        let holds = self.compare_two(ops[0], left, right.clone())?;
        match known_truth(&holds) {
            _ if ops.len() == 1 => Ok(holds),
            Some(false) => Ok(holds),
            Some(true) => self.chain(right, &ops[1..], &rest[1..]),
            None => {
                let before = self.truth(holds)?;
                let (after, block) = self.aside(|this| {
                    let holds = this.chain(right, &ops[1..], &rest[1..])?;
                    this.truth(holds)
                })?;
                self.either(true, (before, Scalar::Bool), (after, Scalar::Bool), block)
            }
        }
    }

    fn compare_two(&mut self, op: CmpOp, left: Value, right: Value) -> Lower<Value> {
        let truth = |holds: bool| Ok(Value::Constant(Constant::Bool(holds)));
        let (left, right) = (unwrap_static(left), unwrap_static(right));
        match op {
            CmpOp::Is | CmpOp::IsNot => {
                let same = match (&left, &right) {
                    (Value::Constant(a), Value::Constant(b)) => a == b,
                    (Value::Constant(Constant::None), _) | (_, Value::Constant(Constant::None)) => false,
                    _ => {
                        return Err(LangError::new(
                            Code::Comparison,
                            "`is` compares with `None` or what is known",
                        )
                        .hint("compare numbers with `==`"));
                    }
                };
                truth(same == (op == CmpOp::Is))
            }
            CmpOp::In | CmpOp::NotIn => {
                let items = self.elements(right)?;
                let left = self.keep(left)?;
                let mut contained = Value::Constant(Constant::Bool(false));
                for item in items {
                    let equal = self.compare_two(CmpOp::Eq, left.clone(), item)?;
                    contained = match (known_truth(&contained), known_truth(&equal)) {
                        (Some(true), _) | (_, Some(false)) => contained,
                        (_, Some(true)) | (Some(false), _) => equal,
                        _ => {
                            let (contained, equal) = (self.truth(contained)?, self.truth(equal)?);
                            Value::Scalar(fold::binary(Binary::Or, contained, equal), Scalar::Bool)
                        }
                    };
                }
                if op == CmpOp::In { Ok(contained) } else { self.unary(ast::UnaryOp::Not, contained) }
            }
            _ => self.order(op, left, right),
        }
    }

    pub(super) fn conditional(&mut self, node: &ast::ExprIf) -> Lower<Value> {
        let test = self.expr(&node.test)?;
        if let Some(known) = known_truth(&test) {
            let (taken, other) = if known { (&node.body, &node.orelse) } else { (&node.orelse, &node.body) };
            let value = self.expr(taken)?;
            // Only `static` makes the other value go away: otherwise the type is that of both.
            return if matches!(test, Value::Static(_)) { Ok(value) } else { self.typed_with(value, other) };
        }
        let condition = self.truth(test)?;
        let (mut then, mut otherwise) = (None, None);
        let before = self.current().names.clone();
        let then_block = self.in_block(false, |this| {
            then = Some(this.expr(&node.body)?);
            Ok(())
        })?;
        let after_then = std::mem::replace(&mut self.current().names, before);
        let else_block = self.in_block(false, |this| {
            otherwise = Some(this.expr(&node.orelse)?);
            Ok(())
        })?;
        let after_else = std::mem::take(&mut self.current().names);
        self.current().names = merged(after_then, after_else);
        let (then, otherwise) = (then.expect("set above"), otherwise.expect("set above"));
        self.chosen(condition, (then, then_block), (otherwise, else_block))
    }

    /// A value that was chosen, with the type that it has in common with the one that was not.
    fn typed_with(&mut self, value: Value, other: &ast::Expr) -> Lower<Value> {
        let is_number = match &value {
            Value::Constant(constant) => {
                matches!(
                    constant,
                    Constant::Bool(_) | Constant::Int(_) | Constant::Float(_) | Constant::Number(_)
                ) || self.as_tensor(&value)?.is_some()
            }
            Value::Scalar(..) | Value::Tensor(..) | Value::Variable(..) | Value::Element(..) => true,
            _ => false,
        };
        if !is_number {
            return Ok(value);
        }
        let Some(other) = self.trial(|this| {
            let other_value = unwrap_static(this.expr(other)?);
            if let Value::Constant(constant @ (Constant::Bool(_) | Constant::Int(_) | Constant::Float(_))) =
                other_value
            {
                return Ok(Other::Constant(constant));
            }
            Ok(match this.as_tensor(&other_value)? {
                Some((shape, scalar, _)) => Other::Typed(Some(shape), scalar),
                None => Other::Typed(None, this.scalar(other_value)?.1),
            })
        }) else {
            return Ok(value);
        };
        Ok(match (value, other) {
            (Value::Constant(value), Other::Constant(other)) => Value::Constant(as_kind_of(value, &other)),
            (value, other) => {
                let (shape, other) = match other {
                    Other::Typed(shape, scalar) => (shape, scalar),
                    Other::Constant(constant) => (None, self.scalar(Value::Constant(constant))?.1),
                };
                match self.as_tensor(&value)? {
                    Some((given, from, items)) if shape.is_none() || shape == Some(given) => {
                        let to = common(from, other);
                        let items = items.into_iter().map(|item| fold::cast(from, to, item)).collect();
                        Value::Tensor(given, to, items)
                    }
                    None if shape.is_none() => {
                        let (expr, from) = self.scalar(value)?;
                        let to = common(from, other);
                        Value::Scalar(fold::cast(from, to, expr), to)
                    }
                    _ => value,
                }
            }
        })
    }

    /// One of two values, each with what has to be done for it.
    fn chosen(
        &mut self,
        condition: Expr,
        (then, then_block): (Value, Block),
        (otherwise, else_block): (Value, Block),
    ) -> Lower<Value> {
        let is_tuple = |value: &Value| matches!(value, Value::Tuple(_) | Value::Constant(Constant::Tuple(_)));
        let is_pure = then_block.statements.is_empty() && else_block.statements.is_empty();
        if is_tuple(&then) && is_tuple(&otherwise) && is_pure {
            let (first, second) = (self.elements(then)?, self.elements(otherwise)?);
            if first.len() == second.len() {
                let condition = self.once(condition, Scalar::Bool)?;
                let nothing = Block::default;
                let pairs = first.into_iter().zip(second);
                let items =
                    pairs.map(|(a, b)| self.chosen(condition.clone(), (a, nothing()), (b, nothing())));
                return Ok(Value::Tuple(items.collect::<Lower<_>>()?));
            }
            return Err(LangError::new(Code::Shape, "the two tuples of a choice have one length"));
        }
        let (shape, scalar, then, otherwise) = self.alike(then, otherwise)?;
        if is_pure {
            let condition = if shape.is_some() { self.once(condition, Scalar::Bool)? } else { condition };
            let items = then.into_iter().zip(otherwise);
            let items = items.map(|(then, other)| fold::select(condition.clone(), then, other)).collect();
            return Ok(made(shape, scalar, items));
        }
        let ids: Vec<_> = then.iter().map(|_| self.variable("", scalar, 0)).collect();
        let line = self.line();
        let fill = |mut block: Block, items: Vec<Expr>| {
            for (id, item) in ids.iter().zip(items) {
                block.statements.push(Statement { line, kind: Kind::Set(*id, item) });
            }
            block
        };
        let kind = Kind::If(condition, fill(then_block, then), fill(else_block, otherwise));
        self.emit(kind)?;
        Ok(made(shape, scalar, ids.into_iter().map(Expr::Local).collect()))
    }

    /// Two values as numbers, or vectors of one shape, of one type.
    #[allow(clippy::type_complexity, reason = "a shape, a type, and two lists")]
    pub(super) fn alike(
        &mut self,
        a: Value,
        b: Value,
    ) -> Lower<(Option<Shape>, Scalar, Vec<Expr>, Vec<Expr>)> {
        let Paired { shape, left, right, from, other } = self.paired(a, b)?;
        let scalar = common(from, other);
        let cast =
            |items: Vec<Expr>, from| items.into_iter().map(|item| fold::cast(from, scalar, item)).collect();
        Ok((shape, scalar, cast(left, from), cast(right, other)))
    }

    /// Two values as numbers, or vectors of one shape, each of its own type.
    pub(super) fn paired(&mut self, a: Value, b: Value) -> Lower<Paired> {
        let (left, right) = (self.as_tensor(&a)?, self.as_tensor(&b)?);
        let describe = (a.describe(), b.describe());
        Ok(match (left, right) {
            (None, None) => {
                let ((a, from), (b, other)) = (self.scalar(a)?, self.scalar(b)?);
                Paired { shape: None, left: vec![a], right: vec![b], from, other }
            }
            (Some((shape, from, items)), None) => {
                let (b, other) = self.scalar(b)?;
                let b = self.once(b, other)?;
                Paired { shape: Some(shape), right: vec![b; items.len()], left: items, from, other }
            }
            (None, Some((shape, other, items))) => {
                let (a, from) = self.scalar(a)?;
                let a = self.once(a, from)?;
                Paired { shape: Some(shape), left: vec![a; items.len()], right: items, from, other }
            }
            (Some((shape, from, left)), Some((other_shape, other, right))) => {
                if shape != other_shape {
                    return Err(LangError::new(
                        Code::Shape,
                        format!("{} and {} do not go together", describe.0, describe.1),
                    ));
                }
                Paired { shape: Some(shape), left, right, from, other }
            }
        })
    }
}

fn no_condition(error: LangError) -> LangError {
    match error.code {
        Code::Type => LangError::new(Code::Type, error.message.replace("a number", "a condition")),
        _ => error,
    }
}

/// What is known of a value that was not chosen.
enum Other {
    Constant(Constant),
    Typed(Option<Shape>, Scalar),
}

/// A constant as the kind of number that it and another one have in common.
fn as_kind_of(value: Constant, other: &Constant) -> Constant {
    match (value, other) {
        (Constant::Bool(value), Constant::Int(_)) => Constant::Int(i128::from(value)),
        (Constant::Bool(value), Constant::Float(_)) => Constant::Float(f64::from(u8::from(value))),
        (Constant::Int(value), Constant::Float(_)) => Constant::Float(value as f64),
        (value, _) => value,
    }
}
