//! Calls of the program's functions, which are inlined, and of its struct types.

use keyprint_source::ast;
use rustc_hash::{FxHashMap, FxHashSet};

use super::call::Arguments;
use super::expr::unwrap_static;
use super::operation::common;
use super::value::{Value, describe};
use super::{Binding, Exit, Lower, Lowerer, Open};
use crate::error::{Code, LangError};
use crate::host::{Annotation, Constant, Handle, StructType};
use crate::ir::{Block, Expr, Kind, LocalId};
use crate::passes::fold;
use crate::types::Scalar;

/// Where an argument is, if it can be assigned to, and the member of an enum that it is.
type Place = (Option<Value>, Option<Handle>);

impl Lowerer<'_> {
    /// Inlines a function. A method of a struct can change it: `self` is passed as it is.
    pub(super) fn inline(&mut self, handle: Handle, arguments: Arguments, is_method: bool) -> Lower<Value> {
        let source = self.host.function(handle)?;
        if let Some(known) = self.functions.iter().find(|function| function.handle == handle) {
            return Err(LangError::new(Code::Recursion, format!("`{}` calls itself", known.source.name))
                .hint("functions are inlined: write a loop instead"));
        }
        let mut given: Vec<Option<(Value, Place)>> = vec![None; source.parameters.len()];
        if arguments.values.len() > given.len() {
            return Err(LangError::new(
                Code::ArgumentCount,
                format!(
                    "`{}` takes {} arguments, found {}",
                    source.name,
                    given.len(),
                    arguments.values.len()
                ),
            ));
        }
        let mut places = arguments.places.into_iter().zip(arguments.members);
        for ((at, value), place) in arguments.values.into_iter().enumerate().zip(places.by_ref()) {
            given[at] = Some((value, place));
        }
        for ((name, value), place) in arguments.keywords.into_iter().zip(places) {
            let Some(at) = source.parameters.iter().position(|parameter| parameter.name == name) else {
                return Err(LangError::new(
                    Code::ArgumentCount,
                    format!("`{}` has no parameter `{name}`", source.name),
                ));
            };
            if given[at].is_some() {
                return Err(LangError::new(
                    Code::ArgumentCount,
                    format!("`{}` is given `{name}` twice", source.name),
                ));
            }
            given[at] = Some((value, place));
        }
        let (mut names, mut members) = (FxHashMap::default(), FxHashMap::default());
        for (at, (parameter, value)) in source.parameters.iter().zip(given).enumerate() {
            let (value, (place, member)) = match (value, &parameter.default) {
                (Some(given), _) => given,
                (None, Some(default)) => (self.load_constant(default.clone())?, (None, None)),
                (None, None) => {
                    return Err(LangError::new(
                        Code::ArgumentCount,
                        format!("`{}` is not given `{}`", source.name, parameter.name),
                    ));
                }
            };
            let by_reference = is_method && at == 0;
            let annotation = if by_reference { &Annotation::Template } else { &parameter.annotation };
            let value = if *annotation == Annotation::Template { place.unwrap_or(value) } else { value };
            let binding = self.bind_argument(&parameter.name, annotation, value)?;
            names.insert(parameter.name.clone(), binding);
            members.extend(member.map(|member| (parameter.name.clone(), member)));
        }
        let scope = self.new_scope();
        let is_outermost = self.open.last().is_some_and(|open| open.is_outermost);
        let depth = self.open.len() + 1;
        let exit = Exit {
            scope,
            is_used: false,
            result: None,
            retyped: FxHashSet::default(),
            unseen: Vec::new(),
            returns: 0,
            depth,
        };
        self.open.push(Open { block: Block::default(), is_home: true, is_outermost });
        let name = source.name.clone();
        let lowered = self.deeper(|this| this.function(handle, source, (names, members), Some(exit)));
        let open = self.open.pop().expect("pushed above");
        let function = lowered?;
        let mut exit = function.exit.expect("set above");
        if exit.result.is_some() && !function.is_left {
            return Err(LangError::new(
                Code::Return,
                format!("`{name}` does not return a value on every way through it"),
            )
            .hint("add a `return` at its end"));
        }
        if exit.is_used && open.block.statements.iter().any(|statement| statement.kind.is_graph()) {
            return Err(LangError::new(
                Code::Graph,
                format!("`{name}` holds pieces of a graph, and returns early"),
            )
            .hint("return at the end of the function only"));
        }
        if !exit.unseen.is_empty()
            && let Some(result) = exit.result.take()
        {
            let mut unseen = exit.unseen.clone().into_iter();
            exit.result = Some(self.typed_result(result, exit.is_used, &mut unseen, &mut exit.retyped)?);
        }
        if exit.is_used {
            // What is returned outlives the scope.
            let mut block = open.block;
            if !exit.retyped.is_empty() {
                self.settle_returns(&mut block, &exit.retyped);
            }
            let mut kept = Vec::new();
            if let Some(result) = &exit.result {
                collect_locals(result, &mut kept);
            }
            block.locals.retain(|id| !kept.contains(id));
            let locals = &mut self.block().locals;
            for id in kept {
                if !locals.contains(&id) {
                    locals.push(id);
                }
            }
            self.emit(Kind::Scope(scope, block))?;
        } else {
            self.splice(open.block);
        }
        Ok(exit.result.unwrap_or(Value::Constant(Constant::None)))
    }

    /// A result with the type that it has in common with what branches return that are not taken.
    fn typed_result(
        &mut self,
        result: Value,
        is_variable: bool,
        unseen: &mut impl Iterator<Item = Scalar>,
        retyped: &mut FxHashSet<LocalId>,
    ) -> Lower<Value> {
        if let Value::Tuple(items) = result {
            let items = items.into_iter().map(|item| self.typed_result(item, is_variable, unseen, retyped));
            return Ok(Value::Tuple(items.collect::<Lower<_>>()?));
        }
        let (shape, from) = match self.as_tensor(&result)? {
            Some((shape, from, _)) => (Some(shape), from),
            None => match self.scalar(result.clone()) {
                Ok((_, from)) => (None, from),
                Err(_) => return Ok(result),
            },
        };
        let Some(other) = unseen.next() else { return Ok(result) };
        let to = common(from, other);
        if to == from {
            return Ok(result);
        }
        match result {
            Value::Scalar(Expr::Local(id), _) | Value::Variable(id, _) if is_variable => {
                self.kernel.locals[id as usize].scalar = to;
                retyped.insert(id);
                Ok(match shape {
                    None => Value::Scalar(Expr::Local(id), to),
                    Some(shape) => Value::Variable(id, shape),
                })
            }
            other => match self.as_tensor(&other)? {
                Some((shape, _, items)) => {
                    let items = items.into_iter().map(|item| fold::cast(from, to, item)).collect();
                    Ok(Value::Tensor(shape, to, items))
                }
                None => {
                    let (expr, _) = self.scalar(other)?;
                    Ok(Value::Scalar(fold::cast(from, to, expr), to))
                }
            },
        }
    }

    /// Converts what earlier `return`s gave to the type that the result has now.
    fn settle_returns(&mut self, block: &mut Block, retyped: &FxHashSet<LocalId>) {
        let kernel = &self.kernel;
        block.each_mut(&mut |statement| {
            if let Kind::Set(id, value) | Kind::SetLane(id, _, value) = &mut statement.kind
                && retyped.contains(id)
            {
                let returned = std::mem::replace(value, Expr::index(0));
                *value = fold::cast(returned.scalar(kernel), kernel.locals[*id as usize].scalar, returned);
            }
        });
    }

    fn bind_argument(&mut self, name: &str, annotation: &Annotation, value: Value) -> Lower<Binding> {
        let wrong = |this: &mut Self, expected: &str, value: &Value| {
            let _ = this;
            LangError::new(Code::Type, format!("`{name}` takes {expected}, found {}", value.describe()))
        };
        Ok(match annotation {
            // What is passed as it is can be changed by the function.
            Annotation::Template => match value {
                Value::Scalar(Expr::Local(id), _) if !self.constant.contains(&id) => {
                    Binding::Scalar { id, is_set: true }
                }
                Value::Variable(id, shape) => Binding::Tensor { id, shape, is_set: true },
                mut place if is_place(&place) => {
                    let end = self.block().statements.len();
                    self.stabilise_place(&mut place, end)?;
                    Binding::Place(place)
                }
                other => Binding::Value(self.keep(other)?),
            },
            Annotation::Scalar(scalar) => {
                let value = unwrap_static(value);
                if self.as_tensor(&value)?.is_some() || self.scalar(value.clone()).is_err() {
                    return Err(wrong(self, &format!("a `{scalar}`"), &value));
                }
                let expr = self.scalar_as(value, *scalar)?;
                Binding::Value(self.keep(Value::Scalar(expr, *scalar))?)
            }
            Annotation::Tensor(shape, scalar) => {
                let value = self.listed(unwrap_static(value))?;
                match self.as_tensor(&value)? {
                    Some((given, from, items)) if given == *shape => {
                        let items = items.into_iter().map(|item| fold::cast(from, *scalar, item)).collect();
                        Binding::Value(self.keep(Value::Tensor(*shape, *scalar, items))?)
                    }
                    _ => {
                        let expected = super::value::tensor_text(*shape, Some(*scalar));
                        return Err(wrong(self, &expected, &value));
                    }
                }
            }
            Annotation::Array
                if !matches!(value, Value::Constant(Constant::Array(_)) | Value::Struct(..)) =>
            {
                return Err(wrong(self, "an array", &value));
            }
            _ => Binding::Value(self.keep(value)?),
        })
    }

    pub(super) fn build_struct(
        &mut self,
        kind: std::rc::Rc<StructType>,
        call: &ast::ExprCall,
    ) -> Lower<Value> {
        let Arguments { values, keywords, .. } = self.arguments(call, &["*"])?;
        if values.len() > kind.members.len() {
            return Err(LangError::new(
                Code::ArgumentCount,
                format!("`{}` has {} members, found {}", kind.name, kind.members.len(), values.len()),
            ));
        }
        for (name, _) in &keywords {
            if !kind.members.iter().any(|(known, _)| known == name) {
                return Err(LangError::new(
                    Code::Attribute,
                    format!("`{}` has no member `{name}`", kind.name),
                ));
            }
        }
        let mut values = values.into_iter();
        let mut members = Vec::new();
        for (name, member) in &kind.members {
            let given = values
                .next()
                .or_else(|| keywords.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()));
            let value = match (given, member) {
                (Some(value), member) => self.struct_member(member, value)?,
                (None, member) => self.zero_of(member)?,
            };
            members.push((name.clone(), value));
        }
        Ok(Value::Struct(members, Some(kind)))
    }

    fn struct_member(&mut self, member: &Constant, value: Value) -> Lower<Value> {
        if let Constant::StructType(_) = member {
            return match value {
                Value::Struct(..) => Ok(value),
                other => {
                    Err(LangError::new(Code::Type, format!("expected a struct, found {}", other.describe())))
                }
            };
        }
        self.converted(Value::Constant(member.clone()), value)
    }

    fn zero_of(&mut self, member: &Constant) -> Lower<Value> {
        Ok(match member {
            Constant::Scalar(scalar) => Value::Scalar(Expr::Const(*scalar, 0), *scalar),
            Constant::TensorType(shape, scalar) => self.filled(*shape, *scalar, 0.0),
            Constant::StructType(kind) => {
                let mut members = Vec::new();
                for (name, member) in &kind.members {
                    members.push((name.clone(), self.zero_of(member)?));
                }
                Value::Struct(members, Some(kind.clone()))
            }
            other => {
                return Err(LangError::new(
                    Code::Type,
                    format!("{} is no type of a member", describe(other)),
                ));
            }
        })
    }
}

/// Whether a value is something that can be assigned to, wherever it is.
pub(super) fn is_place(value: &Value) -> bool {
    match value {
        Value::Scalar(Expr::Load(_) | Expr::Lane(..), _) | Value::Element(..) => true,
        Value::Scalar(Expr::Local(_), _) | Value::Variable(..) => true,
        Value::Struct(members, _) => members.iter().all(|(_, member)| is_place(member)),
        _ => false,
    }
}

/// The locals that a value is made of.
fn collect_locals(value: &Value, into: &mut Vec<crate::ir::LocalId>) {
    match value {
        Value::Variable(id, _) => into.push(*id),
        Value::Tuple(items) => items.iter().for_each(|item| collect_locals(item, into)),
        Value::Struct(members, _) => members.iter().for_each(|(_, member)| collect_locals(member, into)),
        _ => {}
    }
    let mut value = value.clone();
    value.expressions_mut(&mut |expr| {
        expr.any(&mut |part| {
            if let Expr::Local(id) | Expr::Lane(id, _) = part {
                into.push(*id);
            }
            false
        });
    });
}
