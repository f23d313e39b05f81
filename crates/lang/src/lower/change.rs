//! Changes in place: `x += v`, and atomic ones.

use keyprint_source::ast::{self, Operator};

use super::assign::{Target, Targets};
use super::operation::common;
use super::value::Value;
use super::{Binding, Lower, Lowerer};
use crate::error::{Code, LangError};
use crate::host::Constant;
use crate::ir::{Atomic, AtomicOp, AtomicTarget, Expr, Kind, LocalId};
use crate::passes::{combined, fold};
use crate::types::Scalar;

/// A change in one step.
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) op: AtomicOp,
    /// Whether it is done with the negative of what is given.
    pub(super) negates: bool,
}

impl Lowerer<'_> {
    /// Lowers `target op= value`.
    pub(super) fn augment(&mut self, target: &ast::Expr, op: Operator, value: &ast::Expr) -> Lower<()> {
        let outer = self.current().at;
        if let ast::Expr::Name(name) = target {
            let name = name.id.as_str();
            let is_place = matches!(
                self.current().names.get(name),
                Some(Binding::Scalar { .. } | Binding::Tensor { .. } | Binding::Place(_))
            );
            if !is_place {
                // A name for something else: it becomes a variable.
                let before = self.name(name)?;
                if let Value::Constant(Constant::Array(_)) = &before {
                    self.targets(&before)?;
                }
                let after = self.expr(value)?;
                let updated = self.operate(op, before, after)?;
                self.current().names.remove(name);
                return self.assign_name(name, updated);
            }
        }
        self.refuse_member(target)?;
        let mut place = self.place_of(target)?;
        let end = self.block().statements.len();
        let value = self.expr(value)?;
        if self.has_effects(end) {
            self.stabilise_place(&mut place, end)?;
        }
        self.current().at = outer;
        let targets = self.targets(&place)?;
        let atomic = match op {
            Operator::Add | Operator::Sub => Some(AtomicOp::Add),
            Operator::Mult => Some(AtomicOp::Mul),
            Operator::BitAnd => Some(AtomicOp::And),
            Operator::BitOr => Some(AtomicOp::Or),
            Operator::BitXor => Some(AtomicOp::Xor),
            _ => None,
        };
        let shared = targets.items.iter().all(|item| self.is_shared(item));
        // What is written out has the digits of a wider target.
        let is_wider = targets.scalar.is_float() && targets.scalar.bits() > self.options.default_float.bits();
        let value = match value {
            Value::Constant(Constant::Float(_)) if is_wider => {
                Value::Scalar(self.scalar_as(value, targets.scalar)?, targets.scalar)
            }
            other => other,
        };
        if let ast::Expr::Name(name) = target {
            self.warn_of_narrow(name.id.as_str(), targets.scalar, &value)?;
        }
        if let (Some(atomic), true) = (atomic, shared) {
            let change = Change { op: atomic, negates: op == Operator::Sub };
            return self.atomically(change, &targets, value).map(|_| ());
        }
        let updated = self.operate(op, place.clone(), value)?;
        let to = targets.scalar;
        if let (Value::Scalar(_, from), None) = (&updated, targets.shape)
            && from.is_float()
            && !to.is_float()
        {
            self.warn(format!(
                "what is assigned is a `{from}`, and the target a `{to}`: it may lose precision"
            ));
        }
        self.store_value(place, updated)
    }

    /// Keeps the indices of a place as they are now.
    pub(super) fn stabilise_place(&mut self, place: &mut Value, at: usize) -> Lower<()> {
        let rest = self.block().statements.split_off(at);
        match place {
            Value::Scalar(Expr::Load(inner), _) => {
                for index in inner.expressions_mut() {
                    *index = self.once(std::mem::replace(index, Expr::index(0)), Scalar::I64)?;
                }
            }
            Value::Element(inner, ..) => {
                for index in inner.expressions_mut() {
                    *index = self.once(std::mem::replace(index, Expr::index(0)), Scalar::I64)?;
                }
            }
            Value::Scalar(Expr::Lane(_, inner), _) => {
                **inner = self.once(std::mem::replace(&mut **inner, Expr::index(0)), Scalar::I64)?;
            }
            Value::Struct(members, _) => {
                for (_, member) in members {
                    let end = self.block().statements.len();
                    self.stabilise_place(member, end)?;
                }
            }
            _ => {}
        }
        self.block().statements.extend(rest);
        Ok(())
    }

    /// Whether other iterations may change it at the same time.
    pub(super) fn is_shared(&self, target: &Target) -> bool {
        let Some(private) = &self.private else { return false };
        match target {
            Target::Local(id) | Target::Lane(id, _) => !private.contains(id),
            Target::Place(..) => true,
        }
    }

    /// What a change changes targets with, in the type that it is done in: the common type of both. Where that is
    /// the same in the type of the targets, it is that one.
    pub(super) fn change(&mut self, op: Change, targets: &Targets, value: Value) -> Lower<Vec<Expr>> {
        let to = targets.scalar;
        let value = self.listed(value)?;
        let is_literal = matches!(value, Value::Constant(Constant::Int(_) | Constant::Float(_)));
        let from = match self.as_tensor(&value)? {
            Some((_, scalar, _)) => scalar,
            None => self.scalar(value.clone())?.1,
        };
        if from.is_float() && !to.is_float() {
            return Err(LangError::new(
                Code::Type,
                format!("a `{to}` cannot be changed atomically by a `{from}`"),
            )
            .hint(
                "convert what is added: `int(...)`; or assign what is computed: `x[i] = int(x[i] * 0.5)`",
            ));
        }
        let is_bits = matches!(op.op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
        if is_bits && to.is_float() {
            return Err(LangError::new(Code::Operand, format!("bits of a `{to}` cannot be changed")));
        }
        let is_order = matches!(op.op, AtomicOp::Min | AtomicOp::Max);
        let fits = match value {
            Value::Constant(Constant::Int(value)) => fold::whole(to, fold::wrap(to, value)) == value,
            _ => to.holds(from),
        };
        let wide = match to {
            Scalar::Bool if is_bits && from == Scalar::Bool => to,
            Scalar::Bool => to.promote(from),
            _ if to.is_float() && is_literal && to.bits() >= self.options.default_float.bits() => to,
            _ if to.is_float() => common(to, from),
            // Whole numbers wrap: it does not matter when.
            _ if !is_order || fits => to,
            _ if to.is_signed() == from.is_signed() => common(to, from),
            _ if to.bits().max(from.bits()) < 64 => Scalar::I64,
            _ => {
                return Err(LangError::new(
                    Code::Type,
                    format!("no type holds both a `{to}` and a `{from}`"),
                )
                .hint(format!("convert what is given: `kp.{to}(...)`")));
            }
        };
        let items = self.fitting(targets, value, wide)?;
        if !op.negates {
            return Ok(items);
        }
        // After the conversion: what is negative may not exist in the type that it had.
        items.into_iter().map(|item| Ok(self.negate(ast::UnaryOp::USub, item, wide)?.0)).collect()
    }

    /// Says so where a variable is changed by numbers that it cannot hold.
    pub(super) fn warn_of_narrow(&mut self, name: &str, to: Scalar, value: &Value) -> Lower<()> {
        if matches!(value, Value::Constant(_)) {
            return Ok(());
        }
        let from = match self.as_tensor(value)? {
            Some((_, scalar, _)) => scalar,
            None => match self.scalar(value.clone()) {
                Ok((_, scalar)) => scalar,
                Err(_) => return Ok(()),
            },
        };
        if from.is_float() == to.is_float() && from.bits() > to.bits() && to != Scalar::Bool {
            let what = if to.is_float() { "every result is rounded to it" } else { "results wrap" };
            self.warn(format!(
                "`{name}` is a `{to}`, and what changes it a `{from}`: {what}; begin with `{name} = kp.{from}(0)`"
            ));
        }
        Ok(())
    }

    /// Changes targets atomically; returns what they were.
    pub(super) fn atomically(&mut self, op: Change, targets: &Targets, value: Value) -> Lower<Vec<LocalId>> {
        let items = self.change(op, targets, value)?;
        let op = op.op;
        let mut olds = Vec::new();
        for (target, item) in targets.items.iter().zip(items) {
            let target = match target {
                Target::Local(id) => AtomicTarget::Local(*id),
                Target::Place(place) => AtomicTarget::Place(place.clone()),
                Target::Lane(id, at) => AtomicTarget::Lane(*id, at.clone()),
            };
            let old = self.local("", targets.scalar, 0);
            self.constant.insert(old);
            self.emit(Kind::Atomic(Atomic { op, target, value: item, old: Some(old) }))?;
            olds.push(old);
        }
        Ok(olds)
    }

    /// `atomic_add(x[i], value)` and the like: returns what was there.
    pub(super) fn atomic_call(&mut self, op: Change, target: &ast::Expr, value: Value) -> Lower<Value> {
        let place = self.place_of(target)?;
        let targets = self.targets(&place)?;
        let scalar = targets.scalar;
        let olds: Vec<Expr> = if targets.items.iter().all(|item| self.is_shared(item)) {
            self.atomically(op, &targets, value)?.into_iter().map(Expr::Local).collect()
        } else {
            let mut olds = Vec::new();
            let items = self.change(op, &targets, value)?;
            for (target, item) in targets.items.iter().zip(items) {
                let before = match target {
                    Target::Local(id) => Expr::Local(*id),
                    Target::Lane(id, at) => Expr::Lane(*id, Box::new(at.clone())),
                    Target::Place(place) => Expr::Load(Box::new(place.clone())),
                };
                let before = self.once(before, scalar)?;
                let from = item.scalar(&self.kernel);
                let after = combined(op.op, (before.clone(), scalar), (item, from));
                self.emit(match target.clone() {
                    Target::Local(id) => Kind::Set(id, after),
                    Target::Lane(id, at) => Kind::SetLane(id, at, after),
                    Target::Place(place) => Kind::Store(place, after),
                })?;
                olds.push(before);
            }
            olds
        };
        Ok(super::expr::made(targets.shape, scalar, olds))
    }
}
