//! Assignments, and what can be assigned to.

use std::rc::Rc;

use keyprint_source::ast::{self};
use keyprint_source::position::Ranged;

use super::expr::{unsupported, unwrap_static};
use super::tensor::{Lane, swizzle};
use super::value::Value;
use super::{Binding, Lower, Lowerer};
use crate::error::{Code, LangError};
use crate::host::{Constant, StructType};
use crate::ir::{Binary, Expr, Kind, LocalId, Place};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

/// Something that can be assigned to, numbers in it.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Local(LocalId),
    Lane(LocalId, Expr),
    Place(Place),
}

/// The numbers of something that can be assigned to, and their shape.
pub(super) struct Targets {
    pub(super) shape: Option<Shape>,
    pub(super) scalar: Scalar,
    pub(super) items: Vec<Target>,
}

impl Lowerer<'_> {
    /// Lowers `targets = value`.
    pub(super) fn assign(&mut self, targets: &[ast::Expr], value: &ast::Expr) -> Lower<()> {
        let is_static = matches!(value, ast::Expr::Call(_));
        let mut lowered = self.expr(value)?;
        if let (true, Value::Static(inner)) = (is_static, &lowered) {
            // Another name for something that is known.
            let inner = (**inner).clone();
            for target in targets {
                if let ast::Expr::Name(name) = target {
                    let name = name.id.to_string();
                    self.current().names.insert(name, Binding::Value(inner.clone()));
                } else {
                    self.bind_target(target, inner.clone())?;
                }
            }
            return Ok(());
        }
        if targets.len() > 1 {
            lowered = self.keep(lowered)?;
        }
        for target in targets {
            self.assign_to(target, lowered.clone())?;
        }
        Ok(())
    }

    /// Assigns a value to a target.
    pub(super) fn assign_to(&mut self, target: &ast::Expr, value: Value) -> Lower<()> {
        let outer = std::mem::replace(&mut self.current().at, target.range());
        match target {
            ast::Expr::Name(name) => {
                self.current().at = outer;
                self.assign_name(name.id.as_str(), value)?;
            }
            ast::Expr::Tuple(ast::ExprTuple { elts, .. }) | ast::Expr::List(ast::ExprList { elts, .. }) => {
                // All of it is computed before any of it is assigned.
                let value = self.keep(value)?;
                let items = self.elements(value)?;
                self.unpack(elts, items, Self::assign_to)?;
            }
            ast::Expr::Subscript(_) | ast::Expr::Attribute(_) => {
                let end = self.block().statements.len();
                let mut value = value;
                self.refuse_member(target)?;
                let place = self.place_of(target)?;
                if self.has_effects(end) {
                    self.stabilise(&mut value, end)?;
                }
                self.current().at = outer;
                self.store_value(place, value)?;
            }
            _ => return Err(unsupported("this target", "assign to a name, an element or a member")),
        }
        self.current().at = outer;
        Ok(())
    }

    fn unpack(
        &mut self,
        targets: &[ast::Expr],
        items: Vec<Value>,
        each: fn(&mut Self, &ast::Expr, Value) -> Lower<()>,
    ) -> Lower<()> {
        if targets.iter().any(|target| matches!(target, ast::Expr::Starred(_))) {
            return Err(unsupported("`*` in a target", "name every item"));
        }
        if targets.len() != items.len() {
            return Err(LangError::new(
                Code::Unpacking,
                format!("{} targets for {} values", targets.len(), items.len()),
            ));
        }
        targets.iter().zip(items).try_for_each(|(target, item)| each(self, target, item))
    }

    /// Gives names to a value that does not change: variables of unrolled loops.
    pub(super) fn bind_target(&mut self, target: &ast::Expr, value: Value) -> Lower<()> {
        match target {
            ast::Expr::Name(name) => {
                self.current().names.insert(name.id.to_string(), Binding::Value(value));
                Ok(())
            }
            ast::Expr::Tuple(ast::ExprTuple { elts, .. }) | ast::Expr::List(ast::ExprList { elts, .. }) => {
                let items = self.elements(value)?;
                self.unpack(elts, items, Self::bind_target)
            }
            _ => Err(unsupported("this target", "use names")),
        }
    }

    /// Assigns to a name: makes a variable of it, sets the one that is there, or gives another name to
    /// something that is no number.
    pub(super) fn assign_name(&mut self, name: &str, value: Value) -> Lower<()> {
        let value = unwrap_static(value);
        let known = self.current().names.get(name).cloned();
        let binding = match known {
            // Nothing can have been read from it: it is as good as new, of whatever type.
            Some(Binding::Scalar { id, is_set: false }) if !self.is_of(&value, id)? => {
                self.new_binding(name, value)?
            }
            Some(Binding::Tensor { is_set: false, id, shape })
                if !self.is_tensor_of(&value, id, shape)? =>
            {
                self.new_binding(name, value)?
            }
            Some(Binding::Scalar { id, .. }) => {
                let described = value.describe();
                let local = self.kernel.locals[id as usize].scalar;
                let value = self
                    .numeric(value)
                    .map_err(|error| changed_kind(name, &format!("a `{local}`"), &described, error))?;
                self.set_scalar(name, id, value)?;
                Binding::Scalar { id, is_set: true }
            }
            Some(Binding::Tensor { id, shape, .. }) => {
                let described = value.describe();
                let value = self.listed(value)?;
                let Some((given, scalar, items)) = self.as_tensor(&value)? else {
                    return Err(changed_kind(
                        name,
                        &super::value::tensor_text(shape, None),
                        &described,
                        LangError::new(Code::Type, ""),
                    ));
                };
                if given != shape {
                    return Err(changed_kind(
                        name,
                        &super::value::tensor_text(shape, None),
                        &described,
                        LangError::new(Code::Type, ""),
                    ));
                }
                self.set_tensor(id, scalar, items)?;
                Binding::Tensor { id, shape, is_set: true }
            }
            Some(Binding::Struct { members, kind }) => {
                let Value::Struct(values, _) = &value else {
                    return Err(changed_kind(
                        name,
                        "a struct",
                        &value.describe(),
                        LangError::new(Code::Type, ""),
                    ));
                };
                let values = values.clone();
                let target = Binding::Struct { members: members.clone(), kind: kind.clone() };
                let target = self.struct_value(name, &target)?;
                self.store_value(target, Value::Struct(values, kind.clone()))?;
                let mark = |(name, binding)| (name, as_set(binding));
                Binding::Struct { members: members.into_iter().map(mark).collect(), kind }
            }
            Some(Binding::Place(place)) => return self.store_value(place, value),
            _ => self.new_binding(name, value)?,
        };
        self.current().names.insert(name.to_owned(), binding);
        Ok(())
    }

    /// Whether a value is a number of the very type that a variable has.
    pub(super) fn is_of(&mut self, value: &Value, id: LocalId) -> Lower<bool> {
        let scalar = self.kernel.locals[id as usize].scalar;
        Ok(self.as_tensor(value)?.is_none()
            && self.scalar(value.clone()).is_ok_and(|(_, from)| from == scalar))
    }

    fn is_tensor_of(&mut self, value: &Value, id: LocalId, shape: Shape) -> Lower<bool> {
        let scalar = self.kernel.locals[id as usize].scalar;
        Ok(matches!(self.as_tensor(value)?, Some((given, from, _)) if given == shape && from == scalar))
    }

    fn struct_value(&mut self, name: &str, binding: &Binding) -> Lower<Value> {
        Ok(match binding {
            Binding::Scalar { id, .. } => {
                Value::Scalar(Expr::Local(*id), self.kernel.locals[*id as usize].scalar)
            }
            Binding::Tensor { id, shape, .. } => Value::Variable(*id, *shape),
            Binding::Struct { members, kind } => {
                let mut values = Vec::new();
                for (member, binding) in members {
                    values.push((member.clone(), self.struct_value(name, binding)?));
                }
                Value::Struct(values, kind.clone())
            }
            Binding::Value(value) | Binding::Place(value) => value.clone(),
            Binding::Unclear | Binding::Rebound => {
                return Err(LangError::new(Code::Undefined, format!("`{name}` may not be assigned")));
            }
        })
    }

    /// Makes a variable for a value.
    pub(super) fn new_binding(&mut self, name: &str, value: Value) -> Lower<Binding> {
        if let Some((shape, scalar, items)) = self.as_tensor(&value)? {
            let id = self.variable(name, scalar, shape.len());
            self.set_tensor(id, scalar, items)?;
            return Ok(Binding::Tensor { id, shape, is_set: true });
        }
        Ok(match value {
            Value::Scalar(..)
            | Value::Constant(
                Constant::Number(_) | Constant::Bool(_) | Constant::Int(_) | Constant::Float(_),
            ) => {
                let (expr, scalar) = self.scalar(value)?;
                let id = self.variable(name, scalar, 0);
                self.emit(Kind::Set(id, expr))?;
                Binding::Scalar { id, is_set: true }
            }
            Value::Struct(members, kind) => self.new_struct(name, members, kind)?,
            Value::Tuple(_) => Binding::Value(self.keep(value)?),
            other => Binding::Value(other),
        })
    }

    fn new_struct(
        &mut self,
        name: &str,
        members: Vec<(String, Value)>,
        kind: Option<Rc<StructType>>,
    ) -> Lower<Binding> {
        let mut bindings = Vec::new();
        for (member, value) in members {
            let binding = self.new_binding(&format!("{name}_{member}"), value)?;
            bindings.push((member, binding));
        }
        Ok(Binding::Struct { members: bindings, kind })
    }

    pub(super) fn numeric(&mut self, value: Value) -> Lower<(Value, Scalar)> {
        let (expr, scalar) = self.scalar(value.clone())?;
        // What is written as a number keeps its digits.
        let is_literal = matches!(value, Value::Constant(Constant::Int(_) | Constant::Float(_)));
        Ok((if is_literal { value } else { Value::Scalar(expr, scalar) }, scalar))
    }

    pub(super) fn set_scalar(
        &mut self,
        name: &str,
        id: LocalId,
        (value, from): (Value, Scalar),
    ) -> Lower<()> {
        let to = self.kernel.locals[id as usize].scalar;
        let is_literal = matches!(value, Value::Constant(Constant::Int(_)));
        if !to.holds(from) && !is_literal && (from.is_float() != to.is_float() || from.bits() > to.bits()) {
            self.warn(format!(
                "`{name}` is a `{to}`, and what is assigned to it is a `{from}`: it may lose precision"
            ));
        }
        let is_shared = self.private.as_ref().is_some_and(|private| !private.contains(&id));
        if is_shared {
            self.warn(format!("all iterations of a parallel loop set `{name}`, in any order"));
        }
        let value = self.scalar_as(value, to)?;
        self.emit(Kind::Set(id, value))
    }

    pub(super) fn set_tensor(&mut self, id: LocalId, from: Scalar, items: Vec<Expr>) -> Lower<()> {
        let to = self.kernel.locals[id as usize].scalar;
        let mut items: Vec<Expr> = items.into_iter().map(|item| fold::cast(from, to, item)).collect();
        let reads =
            |expr: &Expr| expr.any(&mut |inner| matches!(inner, Expr::Lane(other, _) if *other == id));
        if items.iter().any(reads) {
            items = items.into_iter().map(|item| self.once(item, to)).collect::<Lower<_>>()?;
        }
        for (at, item) in items.into_iter().enumerate() {
            self.emit(Kind::SetLane(id, Expr::index(at as i64), item))?;
        }
        Ok(())
    }

    // -- Places ----------------------------------------------------------------------------------

    /// What an expression that is assigned to stands for.
    pub(super) fn place_of(&mut self, target: &ast::Expr) -> Lower<Value> {
        match target {
            ast::Expr::Name(name) => self.name(name.id.as_str()),
            ast::Expr::Subscript(subscript) => {
                let of = self.place_of(&subscript.value)?;
                self.current().at = target.range();
                if let Value::Constant(Constant::Array(spec)) = &of
                    && let Some((why, hint)) = &spec.read_only
                {
                    return Err(LangError::new(Code::Assignment, format!("`{}` is {why}", spec.name))
                        .hint(hint.clone()));
                }
                let of = unwrap_static(of);
                if let (Value::Variable(..) | Value::Element(..), Some((shape, scalar, _))) =
                    (&of, self.as_tensor(&of)?)
                {
                    return match self.lane(shape, &subscript.slice)? {
                        Lane::One(at) => Ok(lane_value(&of, scalar, at)),
                        Lane::Row(row) => {
                            let Shape::Matrix(_, columns) = shape else {
                                unreachable!("vectors have no rows")
                            };
                            let first = fold::binary(Binary::Mul, row, Expr::index(columns.into()));
                            let lane = |column: u32| {
                                let at = fold::binary(Binary::Add, first.clone(), Expr::index(column.into()));
                                lane_value(&of, scalar, at)
                            };
                            Ok(Value::Tuple((0..columns).map(lane).collect()))
                        }
                    };
                }
                self.subscript(of, &subscript.slice)
            }
            ast::Expr::Attribute(attribute) => {
                let of = self.place_of(&attribute.value)?;
                self.current().at = target.range();
                let of = unwrap_static(of);
                if let (Value::Variable(..) | Value::Element(..), Some((Shape::Vector(length), scalar, _))) =
                    (&of, self.as_tensor(&of)?)
                {
                    let lanes = swizzle(attribute.attr.as_str(), length);
                    if let Some([lane]) = lanes.as_deref() {
                        return Ok(lane_value(&of, scalar, Expr::index((*lane).into())));
                    }
                    if let Some(lanes) = lanes {
                        let lane = |lane: &u32| lane_value(&of, scalar, Expr::index((*lane).into()));
                        return Ok(Value::Tuple(lanes.iter().map(lane).collect()));
                    }
                }
                self.member(of, attribute.attr.as_str())
            }
            other => self.expr(other),
        }
    }

    /// Refuses to set a member of an object: only elements of arrays can be set.
    pub(super) fn refuse_member(&mut self, target: &ast::Expr) -> Lower<()> {
        let ast::Expr::Attribute(attribute) = target else { return Ok(()) };
        // Objects are known: looking at one does nothing.
        if !matches!(&*attribute.value, ast::Expr::Name(_) | ast::Expr::Attribute(_)) {
            return Ok(());
        }
        if let Value::Constant(Constant::Object(_, what)) = self.place_of(&attribute.value)? {
            self.current().at = target.range();
            return Err(LangError::new(
                Code::Assignment,
                format!("members of {what} cannot be set in a kernel"),
            )
            .hint("write to an element of an array, or return the value"));
        }
        Ok(())
    }

    /// The numbers of a place.
    pub(super) fn targets(&mut self, place: &Value) -> Lower<Targets> {
        Ok(match place {
            Value::Scalar(Expr::Local(id), scalar) if !self.constant.contains(id) => {
                Targets { shape: None, scalar: *scalar, items: vec![Target::Local(*id)] }
            }
            Value::Scalar(Expr::Lane(id, at), scalar) => {
                Targets { shape: None, scalar: *scalar, items: vec![Target::Lane(*id, (**at).clone())] }
            }
            Value::Scalar(Expr::Load(place), scalar) => {
                Targets { shape: None, scalar: *scalar, items: vec![Target::Place((**place).clone())] }
            }
            Value::Variable(id, shape) => {
                let lane = |at: u32| Target::Lane(*id, Expr::index(at.into()));
                let scalar = self.kernel.locals[*id as usize].scalar;
                Targets { shape: Some(*shape), scalar, items: (0..shape.len()).map(lane).collect() }
            }
            Value::Element(place, shape, scalar) => {
                let lane =
                    |at: u32| Target::Place(Place { lane: Some(Expr::index(at.into())), ..place.clone() });
                Targets { shape: Some(*shape), scalar: *scalar, items: (0..shape.len()).map(lane).collect() }
            }
            Value::Tuple(items) if !items.is_empty() => {
                let mut all = Vec::new();
                let mut scalar = Scalar::F32;
                for item in items {
                    let part = self.targets(item)?;
                    scalar = part.scalar;
                    all.extend(part.items);
                }
                Targets { shape: Some(Shape::Vector(all.len() as u32)), scalar, items: all }
            }
            Value::Constant(Constant::Array(spec)) => {
                return Err(LangError::new(Code::Assignment, format!("`{}` is an array", spec.name))
                    .hint(format!("assign to an element: `{}[...]`", spec.name)));
            }
            other => {
                return Err(LangError::new(
                    Code::Assignment,
                    format!("{} cannot be assigned to", other.describe()),
                )
                .hint("assign to a variable or an element of an array"));
            }
        })
    }

    /// Stores a value in a place.
    pub(super) fn store_value(&mut self, place: Value, value: Value) -> Lower<()> {
        if let (Value::Tuple(places), Value::Tuple(_) | Value::Constant(Constant::Tuple(_))) =
            (&place, &value)
        {
            let value = self.keep(value)?;
            let items = self.elements(value)?;
            if items.len() != places.len() {
                return Err(LangError::new(
                    Code::Type,
                    format!("{} targets for {} values", places.len(), items.len()),
                ));
            }
            return places
                .iter()
                .zip(items)
                .try_for_each(|(place, item)| self.store_value(place.clone(), item));
        }
        if let Value::Struct(members, _) = &place {
            let Value::Struct(values, _) = value else {
                return Err(LangError::new(
                    Code::Type,
                    format!("expected a struct, found {}", value.describe()),
                ));
            };
            let mut kept = Vec::new();
            for (name, value) in values {
                kept.push((name, self.keep(value)?));
            }
            for (name, member) in members {
                let Some((_, value)) = kept.iter().find(|(known, _)| known == name) else {
                    return Err(LangError::new(Code::Type, format!("the struct has no member `{name}`")));
                };
                self.store_value(member.clone(), value.clone())?;
            }
            return Ok(());
        }
        let targets = self.targets(&place)?;
        let items = self.fitting(&targets, value, targets.scalar)?;
        for (target, item) in targets.items.into_iter().zip(items) {
            self.emit(match target {
                Target::Local(id) => Kind::Set(id, item),
                Target::Lane(id, at) => Kind::SetLane(id, at, item),
                Target::Place(place) => Kind::Store(place, item),
            })?;
        }
        Ok(())
    }

    /// The numbers of a value, as many as targets want, and of a type.
    pub(super) fn fitting(&mut self, targets: &Targets, value: Value, to: Scalar) -> Lower<Vec<Expr>> {
        if targets.shape.is_none() {
            let described = value.describe();
            if self.as_tensor(&value)?.is_some() || matches!(value, Value::Tuple(_) | Value::Struct(..)) {
                return Err(LangError::new(Code::Shape, format!("expected a number, found {described}")));
            }
            return Ok(vec![self.scalar_as(value, to)?]);
        }
        let value = self.listed(value)?;
        let described = value.describe();
        let many = targets.items.len();
        match self.as_tensor(&value)? {
            None => {
                let number = self.scalar_as(value, to)?;
                let number = self.once(number, to)?;
                Ok(vec![number; many])
            }
            Some((shape, scalar, items)) if Some(shape) == targets.shape => {
                // Elements may be read that are about to be written.
                items.into_iter().map(|item| self.once(fold::cast(scalar, to, item), to)).collect()
            }
            Some(_) => {
                let shape = targets.shape.expect("looked at above");
                let expected = super::value::tensor_text(shape, Some(to));
                Err(LangError::new(Code::Shape, format!("expected {expected}, found {described}")))
            }
        }
    }

    // -- Augmented assignments -------------------------------------------------------------------
}

/// A number of a variable or of an element.
fn lane_value(of: &Value, scalar: Scalar, at: Expr) -> Value {
    match of {
        Value::Variable(id, _) => Value::Scalar(Expr::Lane(*id, Box::new(at)), scalar),
        Value::Element(place, ..) => {
            Value::Scalar(Expr::Load(Box::new(Place { lane: Some(at), ..place.clone() })), scalar)
        }
        _ => unreachable!("asked for these only"),
    }
}

fn changed_kind(name: &str, was: &str, given: &str, error: LangError) -> LangError {
    if error.code != Code::Type {
        return error;
    }
    LangError::new(Code::Type, format!("`{name}` is {was}, and {given} is assigned to it"))
        .hint("a variable has one type: use another name")
}

fn as_set(binding: Binding) -> Binding {
    match binding {
        Binding::Scalar { id, .. } => Binding::Scalar { id, is_set: true },
        Binding::Tensor { id, shape, .. } => Binding::Tensor { id, shape, is_set: true },
        Binding::Struct { members, kind } => {
            let members = members.into_iter().map(|(name, member)| (name, as_set(member))).collect();
            Binding::Struct { members, kind }
        }
        other => other,
    }
}
