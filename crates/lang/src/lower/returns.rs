//! Leaving functions: what they give back, with the type that all their `return`s have in common.

use keyprint_source::ast;

use super::operation::common;
use super::value::Value;
use super::{LoopKind, Lower, Lowerer, Returned};
use crate::error::{Code, LangError};
use crate::host::{Annotation, Constant};
use crate::ir::{Expr, Kind, LocalId};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

impl Lowerer<'_> {
    pub(super) fn lower_return(&mut self, stmt: &ast::StmtReturn) -> Lower<()> {
        let value = match &stmt.value {
            Some(value) => Some(self.expr(value)?),
            None => None,
        };
        let value = match value {
            Some(Value::Constant(Constant::None)) => None,
            other => other,
        };
        if self.current().loops.contains(&LoopKind::Graph) {
            return Err(LangError::new(Code::Graph, "a piece of a graph cannot return")
                .hint("set what the loop depends on to zero, or return after it"));
        }
        if self.current().exit.is_none() {
            return self.return_from_kernel(value);
        }
        if self.current().loops.contains(&LoopKind::Parallel) {
            return Err(parallel_return());
        }
        let value = match value {
            Some(value) => Some(self.as_returned(value)?),
            None => None,
        };
        let function = self.functions.last_mut().expect("a function is being lowered");
        let exit = function.exit.as_mut().expect("looked at above");
        exit.returns += 1;
        function.is_left = true;
        // The last statement of the function itself: nothing is skipped by it.
        let is_plain = exit.depth == self.open.len() && exit.returns == 1;
        if is_plain {
            let value = match value {
                Some(value) => Some(self.keep(value)?),
                None => None,
            };
            let exit = self.current().exit.as_mut().expect("looked at above");
            exit.result = value;
            return Ok(());
        }
        let (scope, known) = (exit.scope, exit.result.clone());
        exit.is_used = true;
        match (known, value) {
            (None, None) => {}
            (None, Some(value)) if exit.returns == 1 => {
                let home = exit.depth - 1;
                let result = self.result_variable(value, home)?;
                self.current().exit.as_mut().expect("looked at above").result = Some(result);
            }
            (Some(place), Some(value)) => {
                let described = value.describe();
                let result = self.return_into(&place, value).map_err(|error| match error.code {
                    Code::Type | Code::Shape | Code::Assignment => LangError::new(
                        Code::Return,
                        format!("another `return` gives {}, and this one {described}", place.describe()),
                    ),
                    _ => error,
                })?;
                self.current().exit.as_mut().expect("looked at above").result = Some(result);
            }
            _ => {
                return Err(LangError::new(Code::Return, "one `return` gives a value, and another does not")
                    .hint("return the same kind of thing everywhere"));
            }
        }
        self.emit(Kind::Leave(scope))
    }

    /// Returns a value where another `return` has returned one: the result has the common type of both.
    fn return_into(&mut self, place: &Value, value: Value) -> Lower<Value> {
        let listed = if matches!(place, Value::Tuple(_)) { value } else { self.listed(value)? };
        match (place, self.as_tensor(&listed)?) {
            (Value::Scalar(Expr::Local(id), to), None) => {
                let (expr, from) = self.scalar(listed)?;
                let to = self.retype(*id, *to, from);
                // As it is: it is converted when the type of the result is known.
                self.emit(Kind::Set(*id, expr))?;
                Ok(Value::Scalar(Expr::Local(*id), to))
            }
            (Value::Variable(id, shape), Some((given, from, items))) if given == *shape => {
                let to = self.kernel.locals[*id as usize].scalar;
                self.retype(*id, to, from);
                let items: Vec<Expr> =
                    items.into_iter().map(|item| self.once(item, from)).collect::<Lower<_>>()?;
                for (at, item) in items.into_iter().enumerate() {
                    self.emit(Kind::SetLane(*id, Expr::index(at as i64), item))?;
                }
                Ok(place.clone())
            }
            (Value::Tuple(places), _) => {
                let value = self.keep(listed)?;
                let items = self.elements(value)?;
                if items.len() != places.len() {
                    return Err(LangError::new(Code::Type, "another number of values"));
                }
                let pairs = places.iter().zip(items);
                let places =
                    pairs.map(|(place, item)| self.return_into(place, item)).collect::<Lower<_>>()?;
                Ok(Value::Tuple(places))
            }
            _ => {
                self.store_value(place.clone(), listed)?;
                Ok(place.clone())
            }
        }
    }

    /// Makes the variable of a result of a type that holds another number, too.
    fn retype(&mut self, id: LocalId, to: Scalar, from: Scalar) -> Scalar {
        let scalar = common(to, from);
        self.kernel.locals[id as usize].scalar = scalar;
        if to != from {
            self.current().exit.as_mut().expect("asked for returns only").retyped.insert(id);
        }
        scalar
    }

    /// What the kernel returns has the common type of all that its `return`s give.
    pub(super) fn settle_results(&mut self) {
        let mut body = std::mem::take(&mut self.kernel.body);
        for (known, other) in self.kernel.results.iter_mut().zip(std::mem::take(&mut self.unseen)) {
            *known = common(*known, other);
        }
        let results = self.kernel.results.clone();
        let kernel = &self.kernel;
        body.each_mut(&mut |statement| {
            if let Kind::Return(values) = &mut statement.kind {
                for (value, to) in values.iter_mut().zip(&results) {
                    let returned = std::mem::replace(value, Expr::index(0));
                    *value = fold::cast(returned.scalar(kernel), *to, returned);
                }
            }
        });
        self.kernel.body = body;
        if let Some(result) = &mut self.result {
            result.retype(&mut results.into_iter());
        }
    }

    /// What a function gives back, as its annotation says.
    fn as_returned(&mut self, value: Value) -> Lower<Value> {
        let annotation = self.current().source.returns.clone();
        Ok(match annotation {
            Annotation::Scalar(scalar) => {
                let described = value.describe();
                let expr = self.scalar_as(value, scalar).map_err(|error| match error.code {
                    Code::Type => LangError::new(
                        Code::Return,
                        format!("the function returns a `{scalar}`, found {described}"),
                    ),
                    _ => error,
                })?;
                Value::Scalar(expr, scalar)
            }
            Annotation::Tensor(shape, scalar) => {
                let described = value.describe();
                let value = self.listed(value)?;
                match self.as_tensor(&value)? {
                    Some((given, from, items)) if given == shape => {
                        let items = items.into_iter().map(|item| fold::cast(from, scalar, item)).collect();
                        Value::Tensor(shape, scalar, items)
                    }
                    _ => {
                        let expected = super::value::tensor_text(shape, Some(scalar));
                        return Err(LangError::new(
                            Code::Return,
                            format!("the function returns {expected}, found {described}"),
                        ));
                    }
                }
            }
            _ => value,
        })
    }

    /// Makes a variable for what is returned, where the call is.
    fn result_variable(&mut self, value: Value, home: usize) -> Lower<Value> {
        let binding = match value {
            Value::Constant(
                Constant::Int(_) | Constant::Float(_) | Constant::Bool(_) | Constant::Number(_),
            )
            | Value::Scalar(..) => {
                let (expr, scalar) = self.scalar(value)?;
                let id = self.local("", scalar, 0);
                self.open[home].block.locals.push(id);
                self.emit(Kind::Set(id, expr))?;
                return Ok(Value::Scalar(Expr::Local(id), scalar));
            }
            Value::Struct(members, kind) => {
                let mut variables = Vec::new();
                for (name, member) in members {
                    variables.push((name, self.result_variable(member, home)?));
                }
                return Ok(Value::Struct(variables, kind));
            }
            Value::Tuple(items) => {
                let items = items.into_iter().map(|item| self.result_variable(item, home));
                return Ok(Value::Tuple(items.collect::<Lower<_>>()?));
            }
            other => other,
        };
        if let Some((shape, scalar, items)) = self.as_tensor(&binding)? {
            let id = self.local("", scalar, shape.len());
            self.open[home].block.locals.push(id);
            for (at, item) in items.into_iter().enumerate() {
                self.emit(Kind::SetLane(id, Expr::index(at as i64), item))?;
            }
            return Ok(Value::Variable(id, shape));
        }
        Err(LangError::new(Code::Return, format!("{} cannot be returned from a branch", binding.describe()))
            .hint("return it at the end of the function"))
    }

    fn return_from_kernel(&mut self, value: Option<Value>) -> Lower<()> {
        if self.private.is_some() {
            return Err(parallel_return());
        }
        if self.options.graph {
            let is_end = self.open.last().is_some_and(|open| open.is_outermost);
            return match value {
                Some(_) => Err(LangError::new(Code::Graph, "a graph cannot return a value")
                    .hint("write it to an array, or take `graph=True` away")),
                None if !is_end => Err(LangError::new(
                    Code::Graph,
                    "a graph runs to its end: it cannot return from a branch",
                )
                .hint("take `graph=True` away, or put what follows behind a condition")),
                None => {
                    self.current().is_left = true;
                    Ok(())
                }
            };
        }
        self.current().is_left = true;
        let Some(value) = value else {
            if !self.kernel.results.is_empty() {
                return Err(LangError::new(Code::Return, "one `return` gives a value, and another does not"));
            }
            self.result.get_or_insert(Returned::Nothing);
            return self.emit(Kind::Return(Vec::new()));
        };
        let value = self.as_returned(value)?;
        let mut items = Vec::new();
        let result = self.returned(value, &mut items)?;
        match &self.result {
            None => {
                self.kernel.results = items.iter().map(|item| item.1).collect();
                self.result = Some(result);
            }
            Some(known) if shapes(known) != shapes(&result) => {
                return Err(LangError::new(Code::Return, "another `return` gives something else")
                    .hint("return the same kind of thing everywhere"));
            }
            Some(_) => {
                for (known, (_, from)) in self.kernel.results.iter_mut().zip(&items) {
                    *known = common(*known, *from);
                }
            }
        }
        // As they are: the type of the results is known when all are.
        self.emit(Kind::Return(items.into_iter().map(|item| item.0).collect()))
    }

    fn returned(&mut self, value: Value, items: &mut Vec<(Expr, Scalar)>) -> Lower<Returned> {
        if let Some((shape, scalar, all)) = self.as_tensor(&value)? {
            items.extend(all.into_iter().map(|item| (item, scalar)));
            return Ok(Returned::Tensor(shape, scalar));
        }
        match value {
            Value::Tuple(all) => {
                let all = all.into_iter().map(|item| self.returned(item, items)).collect::<Lower<_>>()?;
                Ok(Returned::Tuple(all))
            }
            Value::Constant(Constant::Tuple(all)) => {
                let all = all.into_iter().map(|item| self.returned(Value::Constant(item), items));
                Ok(Returned::Tuple(all.collect::<Lower<_>>()?))
            }
            other => {
                let described = other.describe();
                let (expr, scalar) = self.scalar(other).map_err(|error| match error.code {
                    Code::Type => LangError::new(Code::Return, format!("a kernel cannot return {described}"))
                        .hint("return numbers, vectors, matrices or tuples of them"),
                    _ => error,
                })?;
                items.push((expr, scalar));
                Ok(Returned::Scalar(scalar))
            }
        }
    }
}

fn parallel_return() -> LangError {
    LangError::new(Code::Return, "a parallel loop cannot return")
        .hint("return after the loop; or write `loop_config(serialize=True)` before it")
}

fn shapes(returned: &Returned) -> Vec<Option<Shape>> {
    match returned {
        Returned::Nothing => Vec::new(),
        Returned::Scalar(_) => vec![None],
        Returned::Tensor(shape, _) => vec![Some(*shape)],
        Returned::Tuple(all) => all.iter().flat_map(shapes).collect(),
    }
}
