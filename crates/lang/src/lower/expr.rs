//! Expressions: names, members, literals, and what is known of values.

use keyprint_source::ast::{self, Number};
use keyprint_source::position::Ranged;

use super::value::{self, Value, describe};
use super::{Binding, Lower, Lowerer};
use crate::error::{Code, LangError};
use crate::host::Constant;
use crate::ir::{Binary, Expr, Kind, Place};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

impl Lowerer<'_> {
    /// Lowers an expression.
    pub(super) fn expr(&mut self, expr: &ast::Expr) -> Lower<Value> {
        self.deeper(|this| {
            let outer = std::mem::replace(&mut this.current().at, expr.range());
            let value = this.expr_at(expr)?;
            this.current().at = outer;
            Ok(value)
        })
    }

    fn expr_at(&mut self, expr: &ast::Expr) -> Lower<Value> {
        match expr {
            ast::Expr::Name(name) => self.name(name.id.as_str()),
            ast::Expr::NumberLiteral(literal) => self.literal(&literal.value),
            ast::Expr::BooleanLiteral(literal) => Ok(Value::Constant(Constant::Bool(literal.value))),
            ast::Expr::NoneLiteral(_) => Ok(Value::Constant(Constant::None)),
            ast::Expr::StringLiteral(literal) => {
                Ok(Value::Constant(Constant::Text(literal.value.to_str().to_owned())))
            }
            ast::Expr::Attribute(attribute) => {
                let of = self.expr(&attribute.value)?;
                self.member(of, attribute.attr.as_str())
            }
            ast::Expr::Subscript(subscript) => {
                let of = self.expr(&subscript.value)?;
                self.subscript(of, &subscript.slice)
            }
            ast::Expr::BinOp(node) => {
                let operands = self.operands(&[&node.left, &node.right])?;
                let [left, right] = two(operands);
                self.operate(node.op, left, right)
            }
            ast::Expr::UnaryOp(node) => {
                let operand = self.expr(&node.operand)?;
                self.unary(node.op, operand)
            }
            ast::Expr::BoolOp(node) => self.logical(node),
            ast::Expr::Compare(node) => self.compare(node),
            ast::Expr::If(node) => self.conditional(node),
            ast::Expr::Call(call) => self.call(call),
            ast::Expr::Tuple(tuple) => self.items(&tuple.elts).map(Value::Tuple),
            ast::Expr::List(list) => self.items(&list.elts).map(Value::Tuple),
            ast::Expr::ListComp(node) => self.comprehension(&node.elt, &node.generators),
            ast::Expr::Generator(node) => self.comprehension(&node.elt, &node.generators),
            ast::Expr::Named(node) => {
                let value = self.expr(&node.value)?;
                let ast::Expr::Name(name) = &*node.target else {
                    return Err(unsupported("this assignment", "assign in a statement of its own"));
                };
                self.assign_name(name.id.as_str(), value)?;
                self.name(name.id.as_str())
            }
            ast::Expr::FString(_) => {
                Err(unsupported("a formatted text", "use it in `print` or as the message of an `assert`"))
            }
            ast::Expr::Lambda(_) => Err(unsupported("a `lambda`", "write a function with `@func`")),
            ast::Expr::Dict(_) | ast::Expr::DictComp(_) => {
                Err(unsupported("a dict", "use a struct, or separate variables"))
            }
            ast::Expr::Set(_) | ast::Expr::SetComp(_) => Err(unsupported("a set", "use a tuple")),
            ast::Expr::Await(_) | ast::Expr::Yield(_) | ast::Expr::YieldFrom(_) => {
                Err(unsupported("a coroutine", "write to an array instead"))
            }
            ast::Expr::BytesLiteral(_) => Err(unsupported("bytes", "pass an array of `u8`")),
            ast::Expr::Slice(_) => Err(unsupported("a slice", "loop over the indices")),
            ast::Expr::Starred(_) => Err(unsupported("`*` here", "write the items out")),
            _ => Err(unsupported("this expression", "write it in simpler terms")),
        }
    }

    fn literal(&mut self, number: &Number) -> Lower<Value> {
        Ok(Value::Constant(match number {
            Number::Int(int) => match int.as_u64() {
                Some(value) => Constant::Int(i128::from(value)),
                None => {
                    let text = int.to_string();
                    return Err(LangError::new(
                        Code::Overflow,
                        format!("`{text}` does not fit into 64 bits"),
                    ));
                }
            },
            Number::Float(value) => Constant::Float(*value),
            Number::Complex { .. } => {
                return Err(unsupported("a complex number", "use a vector of two numbers"));
            }
        }))
    }

    /// Lowers items of a tuple, list or call; `*` takes apart what is known to be one.
    pub(super) fn items(&mut self, items: &[ast::Expr]) -> Lower<Vec<Value>> {
        let inner: Vec<&ast::Expr> = items
            .iter()
            .map(|item| if let ast::Expr::Starred(starred) = item { &*starred.value } else { item })
            .collect();
        let values = self.operands(&inner)?;
        let mut elements = Vec::new();
        for (item, value) in items.iter().zip(values) {
            if matches!(item, ast::Expr::Starred(_)) {
                self.current().at = item.range();
                elements.extend(self.elements(value)?);
            } else {
                elements.push(value);
            }
        }
        Ok(elements)
    }

    /// The items of something that is taken apart.
    pub(super) fn elements(&mut self, value: Value) -> Lower<Vec<Value>> {
        match value {
            Value::Tuple(items) => Ok(items),
            Value::Constant(Constant::Tuple(items)) => {
                items.into_iter().map(|item| self.load_constant(item)).collect()
            }
            Value::Static(inner) => self.elements(*inner),
            other => match self.as_tensor(&other)? {
                Some((Shape::Vector(_), scalar, items)) => {
                    Ok(items.into_iter().map(|item| Value::Scalar(item, scalar)).collect())
                }
                Some((Shape::Matrix(_, columns), scalar, items)) => Ok(items
                    .chunks(columns as usize)
                    .map(|row| Value::Tensor(Shape::Vector(columns), scalar, row.to_vec()))
                    .collect()),
                None => Err(LangError::new(
                    Code::Unpacking,
                    format!("{} cannot be taken apart", other.describe()),
                )),
            },
        }
    }

    /// Lowers several expressions, in order: what an earlier one found does not change by a later one.
    pub(super) fn operands(&mut self, exprs: &[&ast::Expr]) -> Lower<Vec<Value>> {
        Ok(self.operands_and_places(exprs)?.into_iter().map(|(value, _)| value).collect())
    }

    /// The same, with the place of each that has one: what it is of may change, but not where it is.
    pub(super) fn operands_and_places(&mut self, exprs: &[&ast::Expr]) -> Lower<Vec<(Value, Option<Value>)>> {
        let mut values = Vec::new();
        let mut ends = Vec::new();
        for expr in exprs {
            values.push(self.expr(expr)?);
            ends.push(self.block().statements.len());
        }
        let mut operands = Vec::new();
        for (at, mut value) in values.into_iter().enumerate().rev() {
            let mut place = super::inline::is_place(&value).then(|| value.clone());
            if self.has_effects(ends[at]) {
                self.stabilise(&mut value, ends[at])?;
                if let Some(place) = &mut place {
                    self.stabilise_place(place, ends[at])?;
                }
            }
            operands.push((value, place));
        }
        operands.reverse();
        Ok(operands)
    }

    /// Whether statements from one on may change something.
    pub(super) fn has_effects(&mut self, from: usize) -> bool {
        let pure =
            |kind: &Kind| matches!(kind, Kind::Let(..) | Kind::Check { .. } | Kind::Random(_) | Kind::At(_));
        self.block().statements[from..].iter().any(|statement| !pure(&statement.kind))
    }

    /// Keeps what a value is now, at an earlier point of the open block.
    pub(super) fn stabilise(&mut self, value: &mut Value, at: usize) -> Lower<()> {
        *value = self.taken_apart(value.clone())?;
        let mut pending = Vec::new();
        value.expressions_mut(&mut |expr| pending.push(expr.clone()));
        let rest = self.block().statements.split_off(at);
        let mut kept = Vec::new();
        for expr in pending {
            let scalar = expr.scalar(&self.kernel);
            kept.push(self.once(expr, scalar)?);
        }
        self.block().statements.extend(rest);
        let mut kept = kept.into_iter();
        value.expressions_mut(&mut |expr| *expr = kept.next().expect("as many as before"));
        Ok(())
    }

    /// Vectors and matrices number by number, wherever they are in a value.
    fn taken_apart(&mut self, value: Value) -> Lower<Value> {
        Ok(match value {
            Value::Variable(..) | Value::Element(..) => match self.as_tensor(&value)? {
                Some((shape, scalar, items)) => Value::Tensor(shape, scalar, items),
                None => value,
            },
            Value::Tuple(items) => {
                Value::Tuple(items.into_iter().map(|item| self.taken_apart(item)).collect::<Lower<_>>()?)
            }
            Value::Struct(members, kind) => {
                let apart = |(name, member): (String, Value)| Ok((name, self.taken_apart(member)?));
                Value::Struct(members.into_iter().map(apart).collect::<Lower<_>>()?, kind)
            }
            Value::Static(inner) => Value::Static(Box::new(self.taken_apart(*inner)?)),
            Value::Method(of, name) => Value::Method(Box::new(self.taken_apart(*of)?), name),
            other => other,
        })
    }

    /// Keeps what a value is now.
    pub(super) fn keep(&mut self, mut value: Value) -> Lower<Value> {
        let end = self.block().statements.len();
        self.stabilise(&mut value, end)?;
        Ok(value)
    }

    // -- Names and members -----------------------------------------------------------------------

    pub(super) fn name(&mut self, name: &str) -> Lower<Value> {
        let function = self.current();
        if let Some(binding) = function.names.get(name).cloned() {
            return self.read(name, binding);
        }
        if function.assigned.contains(name) {
            return Err(LangError::new(Code::Undefined, format!("`{name}` is used before it is assigned"))
                .hint(format!("assign `{name}` first; a variable of a loop is gone after it")));
        }
        let handle = function.handle;
        match self.host.name(handle, name)? {
            Some(constant) => self.load_constant(constant),
            None => Err(LangError::new(Code::Name, format!("`{name}` is not defined"))),
        }
    }

    fn read(&mut self, name: &str, binding: Binding) -> Lower<Value> {
        match binding {
            Binding::Scalar { is_set: false, .. }
            | Binding::Tensor { is_set: false, .. }
            | Binding::Unclear => {
                Err(LangError::new(Code::Undefined, format!("`{name}` may not have been assigned here"))
                    .hint(format!("assign `{name}` before the `if` or the loop")))
            }
            Binding::Rebound => Err(LangError::new(
                Code::Undefined,
                format!("`{name}` stands for another thing in each iteration of the loop"),
            )
            .hint("only numbers can change in a loop: unroll it with `static`, or exchange arrays outside of the kernel")),
            Binding::Place(value) => Ok(value),
            Binding::Scalar { id, .. } => {
                Ok(Value::Scalar(Expr::Local(id), self.kernel.locals[id as usize].scalar))
            }
            Binding::Tensor { id, shape, .. } => Ok(Value::Variable(id, shape)),
            Binding::Struct { members, kind } => {
                let read = |(member, binding): (String, Binding)| {
                    let value = self.read(&format!("{name}.{member}"), binding)?;
                    Ok((member, value))
                };
                let members = members.into_iter().map(read).collect::<Lower<_>>()?;
                Ok(Value::Struct(members, kind))
            }
            Binding::Value(value) => match value {
                Value::Constant(constant) => self.load_constant(constant),
                other => Ok(other),
            },
        }
    }

    /// A constant as a value: numbers that come with a call are read.
    pub(super) fn load_constant(&mut self, constant: Constant) -> Lower<Value> {
        Ok(match constant {
            Constant::Struct(members, kind) => {
                let load = |(name, member): (String, Constant)| Ok((name, self.load_constant(member)?));
                Value::Struct(members.into_iter().map(load).collect::<Lower<_>>()?, kind)
            }
            Constant::Enum(_, value, _) => Value::Constant(Constant::Int(value)),
            other => Value::Constant(other),
        })
    }

    pub(super) fn member(&mut self, of: Value, name: &str) -> Lower<Value> {
        match of {
            Value::Constant(Constant::Object(handle, what)) => match self.host.member(handle, name)? {
                Some(constant) => self.load_constant(constant),
                None => Err(LangError::new(Code::Attribute, format!("{what} has no member `{name}`"))),
            },
            Value::Constant(Constant::Array(spec)) => self.array_member(&spec, name),
            Value::Constant(Constant::Builtin(of @ ("Vector" | "Matrix"))) => {
                let builtin = super::builtins::builtin(&format!("{of}.{name}"));
                let builtin = builtin.or_else(|| super::builtins::builtin(&format!("Matrix.{name}")));
                match builtin {
                    Some(builtin) => Ok(Value::Constant(Constant::Builtin(builtin))),
                    None => Err(LangError::new(Code::Attribute, format!("`{of}` has no member `{name}`"))),
                }
            }
            Value::Constant(Constant::StructType(ref kind)) => {
                let method = kind.methods.iter().find(|(known, _)| known == name);
                match method {
                    Some((_, function)) => Ok(Value::Constant(function.clone())),
                    None => Err(no_member(&of, name)),
                }
            }
            Value::Struct(ref members, ref kind) => {
                if let Some((_, value)) = members.iter().find(|(known, _)| known == name) {
                    return Ok(value.clone());
                }
                let method =
                    kind.as_ref().and_then(|kind| kind.methods.iter().find(|(known, _)| known == name));
                match method {
                    Some((_, Constant::Function(..))) => Ok(Value::Method(Box::new(of), name.to_owned())),
                    _ => Err(no_member(&of, name)),
                }
            }
            Value::Static(inner) => self.member(*inner, name),
            other => self.tensor_member(other, name),
        }
    }

    // -- Subscripts ------------------------------------------------------------------------------

    /// An index in 64 bits. Sums, differences and products of signed numbers are exact there.
    pub(super) fn widen(&self, expr: Expr, scalar: Scalar) -> Expr {
        match expr {
            Expr::Binary(op @ (Binary::Add | Binary::Sub | Binary::Mul), left, right)
                if scalar.is_signed() && scalar.bits() <= 32 =>
            {
                fold::binary(op, self.widen(*left, scalar), self.widen(*right, scalar))
            }
            Expr::Cast(to, inner)
                if to == scalar && scalar == self.options.default_int && matches!(*inner, Expr::Size(..)) =>
            {
                *inner
            }
            expr => fold::cast(scalar, Scalar::I64, expr),
        }
    }

    // -- What is known ---------------------------------------------------------------------------

    /// A value that must be known when the kernel is compiled.
    pub(super) fn known(&mut self, value: Value, what: &str) -> Lower<Constant> {
        match value {
            Value::Constant(Constant::Number(spec)) => {
                let mut error = LangError::new(
                    Code::ConstantNeeded,
                    format!(
                        "{what} must be known when the kernel is compiled, and `{}` comes with each call",
                        spec.name
                    ),
                )
                .hint(format!("annotate `{}` with `template()`", spec.name));
                if spec.can_be_constant {
                    error.needs.push(spec.name);
                }
                Err(error)
            }
            Value::Constant(constant) => Ok(constant),
            Value::Static(inner) => self.known(*inner, what),
            Value::Tuple(items) => {
                let items = items.into_iter().map(|item| self.known(item, what)).collect::<Lower<_>>()?;
                Ok(Constant::Tuple(items))
            }
            other => Err(LangError::new(
                Code::ConstantNeeded,
                format!("{what} must be known when the kernel is compiled, found {}", other.describe()),
            )
            .hint("use a number, a global, or a parameter annotated with `template()`")),
        }
    }

    pub(super) fn known_int(&mut self, value: &Value, what: &str) -> Lower<i128> {
        match self.known(value.clone(), what)? {
            Constant::Int(value) => Ok(value),
            Constant::Bool(value) => Ok(i128::from(value)),
            other => Err(LangError::new(Code::Type, format!("{what} is an int, found {}", describe(&other)))),
        }
    }

    /// A value as a number.
    pub(super) fn scalar(&mut self, value: Value) -> Lower<(Expr, Scalar)> {
        match value {
            Value::Scalar(expr, scalar) => Ok((expr, scalar)),
            Value::Constant(Constant::Number(spec)) => Ok((self.number(&spec), spec.scalar)),
            Value::Constant(ref constant) => {
                let number = value::number(constant, self.options.default_int, self.options.default_float)?;
                number.ok_or_else(|| not_a_number(&value))
            }
            Value::Static(inner) => self.scalar(*inner),
            other => Err(not_a_number(&other)),
        }
    }

    /// A value as a number of a type.
    pub(super) fn scalar_as(&mut self, value: Value, to: Scalar) -> Lower<Expr> {
        // What is written as a number has as many digits as the type.
        if let Value::Constant(constant) = &value {
            match constant {
                Constant::Float(float) if to.is_float() => {
                    return Ok(Expr::Const(to, fold::float_bits(to, *float)));
                }
                Constant::Int(int) if to.is_float() => {
                    let (expr, scalar) = (Expr::Const(Scalar::I64, *int as u64), Scalar::I64);
                    return Ok(if i64::try_from(*int).is_ok() {
                        fold::cast(scalar, to, expr)
                    } else {
                        Expr::Const(to, fold::float_bits(to, *int as f64))
                    });
                }
                Constant::Int(int) if to.is_int() => return Ok(Expr::Const(to, fold::wrap(to, *int))),
                _ => {}
            }
        }
        let (expr, scalar) = self.scalar(value)?;
        Ok(fold::cast(scalar, to, expr))
    }

    /// A value as a vector or matrix, number by number; nothing if it is none.
    pub(super) fn as_tensor(&mut self, value: &Value) -> Lower<Option<(Shape, Scalar, Vec<Expr>)>> {
        Ok(Some(match value {
            Value::Tensor(shape, scalar, items) => (*shape, *scalar, items.clone()),
            Value::Variable(id, shape) => {
                let lanes = (0..shape.len()).map(|at| Expr::Lane(*id, Box::new(Expr::index(at.into()))));
                (*shape, self.kernel.locals[*id as usize].scalar, lanes.collect())
            }
            Value::Element(place, shape, scalar) => {
                let lane = |at: u32| {
                    let lane = Some(Expr::index(at.into()));
                    Expr::Load(Box::new(Place { lane, ..place.clone() }))
                };
                (*shape, *scalar, (0..shape.len()).map(lane).collect())
            }
            Value::Constant(Constant::Tensor(shape, scalar, items)) => {
                let items = items.iter().map(|item| self.scalar_as(Value::Constant(item.clone()), *scalar));
                (*shape, *scalar, items.collect::<Lower<_>>()?)
            }
            Value::Constant(Constant::Numbers(shape, specs)) => {
                let scalar = specs.first().map_or(Scalar::F32, |spec| spec.scalar);
                (*shape, scalar, specs.iter().map(|spec| self.number(spec)).collect())
            }
            Value::Static(inner) => return self.as_tensor(inner),
            _ => return Ok(None),
        }))
    }

    fn comprehension(&mut self, element: &ast::Expr, generators: &[ast::Comprehension]) -> Lower<Value> {
        let [generator] = generators else {
            return Err(unsupported("a comprehension with several loops", "write loops"));
        };
        let over = self.expr(&generator.iter)?;
        let mut items = Vec::new();
        let outer = self.current().names.clone();
        for item in self.unrolled(over, &generator.iter)? {
            self.bind_target(&generator.target, item)?;
            let mut holds = true;
            for test in &generator.ifs {
                let test = self.expr(test)?;
                let test = self.known(test, "the condition of a comprehension")?;
                holds = holds && known_truth(&Value::Constant(test)).unwrap_or(false);
            }
            if holds {
                let value = self.expr(element)?;
                items.push(self.keep(value)?);
            }
        }
        self.current().names = outer;
        Ok(Value::Tuple(items))
    }
}

pub(super) fn two(values: Vec<Value>) -> [Value; 2] {
    values.try_into().expect("two were lowered")
}

pub(super) fn made(shape: Option<Shape>, scalar: Scalar, mut items: Vec<Expr>) -> Value {
    match shape {
        Some(shape) => Value::Tensor(shape, scalar, items),
        None => Value::Scalar(items.remove(0), scalar),
    }
}

pub(super) fn truth_of(expr: Expr, scalar: Scalar) -> Expr {
    if scalar == Scalar::Bool {
        return expr;
    }
    let wide = scalar.computed();
    fold::binary(Binary::Ne, fold::cast(scalar, wide, expr), Expr::Const(wide, 0))
}

/// The truth of something that is known.
pub(super) fn known_truth(value: &Value) -> Option<bool> {
    match value {
        Value::Constant(Constant::None) => Some(false),
        Value::Constant(Constant::Bool(value)) => Some(*value),
        Value::Constant(Constant::Int(value)) => Some(*value != 0),
        Value::Constant(Constant::Float(value)) => Some(*value != 0.0),
        Value::Constant(Constant::Text(text)) => Some(!text.is_empty()),
        Value::Constant(Constant::Tuple(items)) => Some(!items.is_empty()),
        Value::Tuple(items) => Some(!items.is_empty()),
        Value::Static(inner) => known_truth(inner),
        _ => None,
    }
}

pub(super) fn unwrap_static(value: Value) -> Value {
    match value {
        Value::Static(inner) => unwrap_static(*inner),
        other => other,
    }
}

pub(super) fn not_a_number(value: &Value) -> LangError {
    LangError::new(Code::Type, format!("expected a number, found {}", value.describe()))
}

pub(super) fn no_member(of: &Value, name: &str) -> LangError {
    LangError::new(Code::Attribute, format!("{} has no member `{name}`", of.describe()))
}

pub(super) fn unsupported(what: &str, instead: &str) -> LangError {
    LangError::new(Code::Syntax, format!("{what} is not supported in kernels")).hint(instead)
}
