//! Conditions: comparisons, `and`, `or`, and one of two values.

use keyprint_source::ast::{self, CmpOp};

use super::expr::{known_truth, made, truth_of, two, unwrap_static};
use super::statement::merged;
use super::value::Value;
use super::{Lower, Lowerer};
use crate::error::LangError;
use crate::host::Constant;
use crate::ir::{Binary, Expr, Kind, Unary};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

impl Lowerer<'_> {
    /// A value as a truth value.
    pub(super) fn truth(&mut self, value: Value) -> Lower<Expr> {
        if let Some(known) = known_truth(&value) {
            return Ok(Expr::Const(Scalar::Bool, u64::from(known)));
        }
        let (expr, scalar) = self.scalar(value).map_err(|error| match error.code {
            "type" => LangError::new("type", error.message.replace("a number", "a condition")),
            _ => error,
        })?;
        Ok(truth_of(expr, scalar))
    }

    pub(super) fn logical(&mut self, one: &ast::ExprBoolOp) -> Lower<Value> {
        let is_and = one.op == ast::BoolOp::And;
        let mut values = one.values.iter();
        let first = values.next().expect("there are at least two");
        let mut result = self.expr(first)?;
        for next in values {
            // What is known decides now, as Python does.
            if let Some(known) = known_truth(&result) {
                if known == is_and {
                    result = self.expr(next)?;
                }
                continue;
            }
            let left = self.truth(result)?;
            let found = self.second(is_and, left, |this| {
                let value = this.expr(next)?;
                this.truth(value)
            })?;
            result = Value::Scalar(found, Scalar::Bool);
        }
        Ok(result)
    }

    /// `left and right`, or `left or right`: the second is only computed if the first does not decide.
    fn second(
        &mut self,
        is_and: bool,
        left: Expr,
        right: impl FnOnce(&mut Self) -> Lower<Expr>,
    ) -> Lower<Expr> {
        let mut found = None;
        let before = self.current().names.clone();
        let mut block = self.in_block(false, |this| {
            found = Some(right(this)?);
            Ok(())
        })?;
        let after = std::mem::take(&mut self.current().names);
        self.current().names = merged(after, before);
        let right = found.expect("set above");
        let op = if is_and { Binary::Both } else { Binary::Either };
        if block.statements.is_empty() {
            return Ok(fold::binary(op, left, right));
        }
        let id = self.variable("", Scalar::Bool, 0);
        self.emit(Kind::Set(id, left))?;
        let line = self.line();
        block.statements.push(crate::ir::Statement { line, kind: Kind::Set(id, right) });
        let condition = Expr::Local(id);
        let condition = if is_and { condition } else { fold::unary(Unary::Not, condition) };
        self.emit(Kind::If(condition, block, crate::ir::Block::default()))?;
        Ok(Expr::Local(id))
    }

    pub(super) fn compare(&mut self, one: &ast::ExprCompare) -> Lower<Value> {
        if let ([op], [right]) = (&one.ops[..], &one.comparators[..]) {
            let [left, right] = two(self.operands(&[&one.left, right])?);
            return self.compare_two(*op, left, right);
        }
        let left = self.expr(&one.left)?;
        let left = self.keep(left)?;
        self.chain(left, &one.ops, &one.comparators)
    }

    /// `left < a < b`: what is further to the right is only computed if all before it holds.
    fn chain(&mut self, left: Value, ops: &[CmpOp], rest: &[ast::Expr]) -> Lower<Value> {
        let right = self.expr(&rest[0])?;
        let right = self.keep(right)?;
        let found = self.compare_two(ops[0], left, right.clone())?;
        match known_truth(&found) {
            _ if ops.len() == 1 => Ok(found),
            Some(false) => Ok(found),
            Some(true) => self.chain(right, &ops[1..], &rest[1..]),
            None => {
                let before = self.truth(found)?;
                let found = self.second(true, before, |this| {
                    let found = this.chain(right, &ops[1..], &rest[1..])?;
                    this.truth(found)
                })?;
                Ok(Value::Scalar(found, Scalar::Bool))
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
                            "comparison",
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
                let mut found = Value::Constant(Constant::Bool(false));
                for item in items {
                    let equal = self.compare_two(CmpOp::Eq, left.clone(), item)?;
                    found = match (known_truth(&found), known_truth(&equal)) {
                        (Some(true), _) | (_, Some(false)) => found,
                        (_, Some(true)) | (Some(false), _) => equal,
                        _ => {
                            let (found, equal) = (self.truth(found)?, self.truth(equal)?);
                            Value::Scalar(fold::binary(Binary::Either, found, equal), Scalar::Bool)
                        }
                    };
                }
                if op == CmpOp::In { Ok(found) } else { self.unary(ast::UnaryOp::Not, found) }
            }
            _ => self.order(op, left, right),
        }
    }

    pub(super) fn conditional(&mut self, one: &ast::ExprIf) -> Lower<Value> {
        let test = self.expr(&one.test)?;
        if let Some(known) = known_truth(&test) {
            return self.expr(if known { &one.body } else { &one.orelse });
        }
        let condition = self.truth(test)?;
        let (mut then, mut otherwise) = (None, None);
        let before = self.current().names.clone();
        let then_block = self.in_block(false, |this| {
            then = Some(this.expr(&one.body)?);
            Ok(())
        })?;
        let after_then = std::mem::replace(&mut self.current().names, before);
        let else_block = self.in_block(false, |this| {
            otherwise = Some(this.expr(&one.orelse)?);
            Ok(())
        })?;
        let after_else = std::mem::take(&mut self.current().names);
        self.current().names = merged(after_then, after_else);
        let (then, otherwise) = (then.expect("set above"), otherwise.expect("set above"));
        self.chosen(condition, (then, then_block), (otherwise, else_block))
    }

    /// One of two values, each with what has to be done for it.
    fn chosen(
        &mut self,
        condition: Expr,
        (then, then_block): (Value, crate::ir::Block),
        (otherwise, else_block): (Value, crate::ir::Block),
    ) -> Lower<Value> {
        let is_tuple = |value: &Value| matches!(value, Value::Tuple(_) | Value::Constant(Constant::Tuple(_)));
        let is_pure = then_block.statements.is_empty() && else_block.statements.is_empty();
        if is_tuple(&then) && is_tuple(&otherwise) && is_pure {
            let (first, second) = (self.elements(then)?, self.elements(otherwise)?);
            if first.len() == second.len() {
                let condition = self.once(condition, Scalar::Bool)?;
                let nothing = crate::ir::Block::default;
                let pairs = first.into_iter().zip(second);
                let items =
                    pairs.map(|(a, b)| self.chosen(condition.clone(), (a, nothing()), (b, nothing())));
                return Ok(Value::Tuple(items.collect::<Lower<_>>()?));
            }
            return Err(LangError::new("shape", "the two tuples of a choice have one length"));
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
        let fill = |mut block: crate::ir::Block, items: Vec<Expr>| {
            for (id, item) in ids.iter().zip(items) {
                block.statements.push(crate::ir::Statement { line, kind: Kind::Set(*id, item) });
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
        let (left, right) = (self.as_tensor(&a)?, self.as_tensor(&b)?);
        let describe = (a.describe(), b.describe());
        let (shape, (left, from), (right, other)) = match (left, right) {
            (None, None) => {
                let ((a, from), (b, other)) = (self.scalar(a)?, self.scalar(b)?);
                (None, (vec![a], from), (vec![b], other))
            }
            (Some((shape, from, items)), None) => {
                let (b, other) = self.scalar(b)?;
                let b = self.once(b, other)?;
                let many = vec![b; items.len()];
                (Some(shape), (items, from), (many, other))
            }
            (None, Some((shape, other, items))) => {
                let (a, from) = self.scalar(a)?;
                let a = self.once(a, from)?;
                (Some(shape), (vec![a; items.len()], from), (items, other))
            }
            (Some((shape, from, left)), Some((other_shape, other, right))) => {
                if shape != other_shape {
                    return Err(LangError::new(
                        "shape",
                        format!("{} and {} do not go together", describe.0, describe.1),
                    ));
                }
                (Some(shape), (left, from), (right, other))
            }
        };
        let scalar = if from == other { from } else { from.promote(other) };
        let cast =
            |items: Vec<Expr>, from| items.into_iter().map(|one| fold::cast(from, scalar, one)).collect();
        Ok((shape, scalar, cast(left, from), cast(right, other)))
    }
}
