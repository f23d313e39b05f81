//! Calls, and what the language defines to be called.

use keyprint_source::ast;
use keyprint_source::position::Ranged;

use super::change::Change;
use super::expr::{made, unsupported, unwrap_static};
use super::inline::is_place;
use super::value::{Value, describe};
use super::{Lower, Lowerer};
use crate::error::{Code, LangError};
use crate::host::{Constant, Handle};
use crate::ir::{AtomicOp, Binary, Expr, Kind, Math};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

pub(super) struct Arguments {
    pub(super) values: Vec<Value>,
    pub(super) keywords: Vec<(String, Value)>,
    /// Where values are that can be assigned to: those by position, then those by name.
    pub(super) places: Vec<Option<Value>>,
    /// Members of enums that they are, in the same order, if that may matter.
    pub(super) members: Vec<Option<Handle>>,
}

impl Lowerer<'_> {
    pub(super) fn call(&mut self, call: &ast::ExprCall) -> Lower<Value> {
        let outer = self.current().at;
        let callee = unwrap_static(self.expr(&call.func)?);
        self.current().at = outer;
        match callee {
            Value::Constant(Constant::Builtin(name)) => self.builtin_call(name, call),
            Value::Constant(Constant::Scalar(scalar)) => {
                let value = self.only(call, scalar.name())?;
                self.cast_to(scalar, value)
            }
            Value::Constant(Constant::TensorType(shape, scalar)) => {
                let Arguments { values, .. } = self.arguments(call, &[])?;
                self.tensor_type(shape, scalar, values)
            }
            Value::Constant(Constant::StructType(kind)) => self.build_struct(kind, call),
            Value::Constant(Constant::Function(handle, bound)) => {
                let mut arguments = self.arguments(call, &["*"])?;
                if let Some(bound) = bound {
                    arguments.values.insert(0, Value::Constant(*bound));
                    arguments.places.insert(0, None);
                    arguments.members.insert(0, None);
                }
                self.inline(handle, arguments, false)
            }
            Value::Method(of, name) => {
                let mut arguments = self.arguments(call, &["*"])?;
                if let Value::Struct(_, Some(kind)) = &*of {
                    let method = kind.methods.iter().find(|(known, _)| *known == name);
                    let Some((_, Constant::Function(handle, _))) = method else {
                        unreachable!("found before")
                    };
                    let handle = *handle;
                    arguments.places.insert(0, is_place(&of).then(|| (*of).clone()));
                    arguments.members.insert(0, None);
                    arguments.values.insert(0, *of);
                    return self.inline(handle, arguments, true);
                }
                let named = arguments.keywords.into_iter().map(|(_, value)| value);
                let values = arguments.values.into_iter().chain(named).collect();
                self.tensor_method(*of, &name, values)
            }
            Value::Constant(Constant::Object(_, what)) => Err(LangError::new(
                Code::Call,
                format!("{what} cannot be called in a kernel"),
            )
            .hint(
                "call functions of the kernel language, or functions with source; compute the rest outside",
            )),
            other => Err(LangError::new(Code::Call, format!("{} cannot be called", other.describe()))),
        }
    }

    /// Lowers the arguments of a call; `keywords` are those that it may have, `*` any.
    pub(super) fn arguments(&mut self, call: &ast::ExprCall, keywords: &[&str]) -> Lower<Arguments> {
        let mut exprs: Vec<ast::Expr> = call.arguments.args.to_vec();
        let positional = exprs.len();
        let mut names = Vec::new();
        for keyword in &call.arguments.keywords {
            let Some(name) = &keyword.arg else {
                return Err(unsupported("`**` in a call", "write the arguments out"));
            };
            if keywords != ["*"] && !keywords.contains(&name.as_str()) {
                self.current().at = keyword.range();
                return Err(LangError::new(Code::ArgumentCount, format!("there is no parameter `{name}`")));
            }
            names.push(name.to_string());
            exprs.push(keyword.value.clone());
        }
        let starred = exprs[..positional].iter().any(|expr| matches!(expr, ast::Expr::Starred(_)));
        if starred {
            let values = self.items(&exprs[..positional])?;
            let rest: Vec<&ast::Expr> = exprs[positional..].iter().collect();
            let named = self.operands(&rest)?;
            let many = values.len() + named.len();
            let keywords = names.into_iter().zip(named).collect();
            return Ok(Arguments { values, keywords, places: vec![None; many], members: vec![None; many] });
        }
        let mut members = vec![None; exprs.len()];
        if self.options.checkpoints {
            for (member, expr) in members.iter_mut().zip(&exprs) {
                *member = self.member_of_enum(expr, false)?;
            }
        }
        let operands = self.operands_and_places(&exprs.iter().collect::<Vec<_>>())?;
        let (mut values, places): (Vec<Value>, Vec<Option<Value>>) = operands.into_iter().unzip();
        let named = values.split_off(positional);
        Ok(Arguments { values, keywords: names.into_iter().zip(named).collect(), places, members })
    }

    pub(super) fn counted(
        &mut self,
        call: &ast::ExprCall,
        name: &str,
        counts: std::ops::RangeInclusive<usize>,
    ) -> Lower<Vec<Value>> {
        let Arguments { values, .. } = self.arguments(call, &[])?;
        if counts.contains(&values.len()) {
            return Ok(values);
        }
        let expected = match (counts.start(), counts.end()) {
            (a, b) if a == b => a.to_string(),
            (a, &usize::MAX) => format!("at least {a}"),
            (a, b) => format!("{a} to {b}"),
        };
        let plural = if expected == "1" { "" } else { "s" };
        Err(LangError::new(
            Code::ArgumentCount,
            format!("`{name}` takes {expected} argument{plural}, found {}", values.len()),
        ))
    }

    fn only(&mut self, call: &ast::ExprCall, name: &str) -> Lower<Value> {
        Ok(self.counted(call, name, 1..=1)?.remove(0))
    }

    // -- What the language defines ---------------------------------------------------------------

    fn builtin_call(&mut self, name: &'static str, call: &ast::ExprCall) -> Lower<Value> {
        if let Some(math) = Math::of_name(name)
            && !matches!(name, "floor" | "ceil" | "round" | "trunc")
        {
            let values = self.counted(call, name, math.arity()..=math.arity())?;
            return self.math(math, values);
        }
        match name {
            "static" => {
                let value = self.only(call, name)?;
                self.static_value(value)
            }
            "range" => Ok(Value::Range(self.counted(call, name, 1..=3)?)),
            "ndrange" => self.ndrange(call),
            "grouped" => Ok(Value::Grouped(Box::new(unwrap_static(self.only(call, name)?)))),
            "zip" | "enumerate" | "reversed" | "tuple" | "list" => self.sequence(name, call),
            "len" => {
                let value = self.only(call, name)?;
                if let Value::Constant(Constant::Array(spec)) = &value
                    && spec.ndim > 0
                {
                    let scalar = self.options.default_int;
                    let size = self.size(spec, 0);
                    return Ok(Value::Scalar(fold::cast(Scalar::I64, scalar, size), scalar));
                }
                let many = self.elements(value)?.len();
                Ok(Value::int(many as i128))
            }
            "graph.do_while" | "graph.parallel" | "graph.parallel_context" | "checkpoint" => {
                Err(super::graph::misplaced(name))
            }
            "print" => self.print(call),
            "loop_config" => self.loop_config(call),
            "assume" => self.arguments(call, &["*"]).map(|_| Value::Constant(Constant::None)),
            "static_print" => self.arguments(call, &["*"]).map(|_| Value::Constant(Constant::None)),
            "static_assert" => self.static_assert(call),
            "Vector" | "Matrix" => self.build_tensor(call),
            name if name.starts_with("atomic_") => self.atomic(name, call),
            name if name.contains('.') => self.tensor_constructor(name, call),
            _ => self.number_call(name, call),
        }
    }

    fn number_call(&mut self, name: &'static str, call: &ast::ExprCall) -> Lower<Value> {
        match name {
            "min" | "max" => {
                let op = if name == "min" { Binary::Min } else { Binary::Max };
                let mut values = self.counted(call, name, 1..=usize::MAX)?;
                if values.len() == 1 {
                    values = self.elements(values.remove(0))?;
                }
                self.extreme(op, values)
            }
            "clamp" => {
                let [value, low, high] = self.exactly(call, name)?;
                let value = self.extreme(Binary::Max, vec![value, low])?;
                self.extreme(Binary::Min, vec![value, high])
            }
            "abs" => {
                let value = self.only(call, name)?;
                self.absolute(value)
            }
            "sum" | "any" | "all" => {
                let value = self.only(call, name)?;
                let value = self.tensor_of(value, None)?;
                self.tensor_method(value, name, Vec::new())
            }
            "floor" | "ceil" | "round" | "trunc" => self.rounded(name, call),
            "int" | "float" | "bool" => {
                let value = self.only(call, name)?;
                self.convert(name, value)
            }
            "cast" | "bit_cast" => {
                let [value, to] = self.exactly(call, name)?;
                let to = self.known_scalar_type(to)?;
                if name == "cast" { self.cast_to(to, value) } else { self.bit_cast(to, value) }
            }
            "select" => {
                let [condition, then, otherwise] = self.exactly(call, name)?;
                self.select(condition, then, otherwise)
            }
            "pow" => {
                let [base, exponent] = self.exactly(call, name)?;
                self.operate(ast::Operator::Pow, base, exponent)
            }
            "raw_div" | "raw_mod" => {
                let [left, right] = self.exactly(call, name)?;
                let (shape, scalar, left, right) = self.alike(left, right)?;
                if scalar.is_float() && name == "raw_div" {
                    let values = (made(shape, scalar, left), made(shape, scalar, right));
                    return self.operate(ast::Operator::Div, values.0, values.1);
                }
                if !scalar.is_int() {
                    return Err(LangError::new(
                        Code::Operand,
                        format!("`{name}` is not defined for `{scalar}`"),
                    ));
                }
                let op = if name == "raw_div" { Binary::TruncDiv } else { Binary::TruncMod };
                let items = left.into_iter().zip(right).map(|(a, b)| fold::binary(op, a, b));
                Ok(made(shape, scalar, items.collect()))
            }
            "isnan" | "isinf" => {
                let value = self.only(call, name)?;
                self.each(value, |this, item, scalar| {
                    let item = this.once(item, scalar)?;
                    let truth = if !scalar.is_float() {
                        Expr::Const(Scalar::Bool, 0)
                    } else if name == "isnan" {
                        {
                            let item = fold::cast(scalar, scalar.computed(), item);
                            fold::binary(Binary::Ne, item.clone(), item)
                        }
                    } else {
                        let wide = scalar.computed();
                        let size = fold::unary(crate::ir::Unary::Abs, fold::cast(scalar, wide, item));
                        let infinite = Expr::Const(wide, fold::float_bits(wide, f64::INFINITY));
                        fold::binary(Binary::Eq, size, infinite)
                    };
                    Ok((truth, Scalar::Bool))
                })
            }
            "dot" | "cross" => {
                let [left, right] = self.exactly(call, name)?;
                let left = self.listed(left)?;
                self.tensor_method(left, name, vec![right])
            }
            "norm" | "normalize" => {
                let value = self.only(call, name)?;
                let value = self.listed(value)?;
                let method = if name == "norm" { "norm" } else { "normalized" };
                self.tensor_method(value, method, Vec::new())
            }
            "random" | "randn" => self.random(name, call),
            _ => Err(LangError::new(Code::Call, format!("`{name}` cannot be called here"))),
        }
    }

    fn exactly<const N: usize>(&mut self, call: &ast::ExprCall, name: &str) -> Lower<[Value; N]> {
        let values = self.counted(call, name, N..=N)?;
        Ok(values.try_into().expect("counted above"))
    }

    fn static_value(&mut self, value: Value) -> Lower<Value> {
        let value = unwrap_static(value);
        match &value {
            // Known in themselves, or looked at when they are unrolled.
            Value::Range(_) | Value::Ndrange(_) | Value::Grouped(_) | Value::Tuple(_) | Value::Struct(..) => {
            }
            Value::Constant(Constant::Number(_)) | Value::Scalar(..) => {
                self.known(value.clone(), "the argument of `static`")?;
            }
            _ => {}
        }
        Ok(Value::Static(Box::new(value)))
    }

    fn ndrange(&mut self, call: &ast::ExprCall) -> Lower<Value> {
        let values = self.counted(call, "ndrange", 1..=8)?;
        let mut bounds = Vec::new();
        for value in values {
            bounds.push(match unwrap_static(value) {
                pair @ (Value::Tuple(_) | Value::Constant(Constant::Tuple(_))) => {
                    let items = self.elements(pair)?;
                    let Ok([from, to]) = <[Value; 2]>::try_from(items) else {
                        return Err(LangError::new(
                            Code::ArgumentCount,
                            "a range of `ndrange` is a number, or two",
                        ));
                    };
                    (from, to)
                }
                to => (Value::int(0), to),
            });
        }
        Ok(Value::Ndrange(bounds))
    }

    fn sequence(&mut self, name: &str, call: &ast::ExprCall) -> Lower<Value> {
        let values = self.counted(call, name, 1..=usize::MAX)?;
        let mut lists = Vec::new();
        for value in values {
            lists.push(self.unrolled(value, &call.func)?);
        }
        let items = match name {
            "zip" => {
                let many = lists.iter().map(Vec::len).min().unwrap_or(0);
                let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
                (0..many)
                    .map(|_| {
                        Value::Tuple(lists.iter_mut().map(|list| list.next().expect("counted")).collect())
                    })
                    .collect()
            }
            "enumerate" => {
                let number = |(at, value)| Value::Tuple(vec![Value::int(at as i128), value]);
                lists.remove(0).into_iter().enumerate().map(number).collect()
            }
            "reversed" => lists.remove(0).into_iter().rev().collect(),
            _ => lists.remove(0),
        };
        Ok(Value::Tuple(items))
    }

    fn loop_config(&mut self, call: &ast::ExprCall) -> Lower<Value> {
        let Arguments { keywords, .. } = self.arguments(
            call,
            &["serialize", "grain_size", "block_dim", "parallelize", "block_dim_adaptive", "bit_vectorize"],
        )?;
        for (name, value) in keywords {
            let value = self.known(value, "an argument of `loop_config`")?;
            match (name.as_str(), value) {
                ("serialize", Constant::Bool(serialize)) => self.next_loop.serialize = serialize,
                ("parallelize", Constant::Int(threads)) => self.next_loop.serialize |= threads == 1,
                ("grain_size", Constant::Int(grain @ 1..)) => {
                    self.next_loop.grain = Some(u32::try_from(grain).unwrap_or(u32::MAX));
                }
                // What a device would be told.
                ("block_dim" | "block_dim_adaptive" | "bit_vectorize", _) => {}
                (name, value) => {
                    return Err(LangError::new(
                        Code::Type,
                        format!("`{name}` cannot be {}", describe(&value)),
                    )
                    .hint("`serialize` is a bool, `grain_size` a positive int"));
                }
            }
        }
        Ok(Value::Constant(Constant::None))
    }

    fn static_assert(&mut self, call: &ast::ExprCall) -> Lower<Value> {
        let values = self.counted(call, "static_assert", 1..=2)?;
        let mut values = values.into_iter();
        let condition = values.next().expect("counted above");
        let condition = self.known(condition, "the condition of `static_assert`")?;
        if super::expr::known_truth(&Value::Constant(condition)) == Some(true) {
            return Ok(Value::Constant(Constant::None));
        }
        let text = match values.next() {
            Some(Value::Constant(Constant::Text(text))) => format!(": {text}"),
            _ => String::new(),
        };
        Err(LangError::new(Code::Arithmetic, format!("a static assertion does not hold{text}")))
    }

    // -- Numbers ---------------------------------------------------------------------------------

    fn select(&mut self, condition: Value, then: Value, otherwise: Value) -> Lower<Value> {
        let (then, otherwise) = (self.listed(then)?, self.listed(otherwise)?);
        let (shape, scalar, then, otherwise) = self.alike(then, otherwise)?;
        if let Some((condition_shape, from, conditions)) = self.as_tensor(&condition)? {
            let many = conditions.len();
            if shape.is_some_and(|shape| shape != condition_shape) {
                return Err(LangError::new(Code::Shape, "`select` of vectors of other sizes"));
            }
            let wide = |mut items: Vec<Expr>, this: &mut Self| -> Lower<Vec<Expr>> {
                if items.len() == 1 && many > 1 {
                    let item = this.once(items.remove(0), scalar)?;
                    items = vec![item; many];
                }
                Ok(items)
            };
            let (then, otherwise) = (wide(then, self)?, wide(otherwise, self)?);
            let items = conditions.into_iter().zip(then.into_iter().zip(otherwise));
            let items =
                items.map(|(condition, (a, b))| fold::select(super::expr::truth_of(condition, from), a, b));
            return Ok(Value::Tensor(condition_shape, scalar, items.collect()));
        }
        let condition = self.truth(condition)?;
        let condition = self.once(condition, Scalar::Bool)?;
        let items = then.into_iter().zip(otherwise);
        let items = items.map(|(a, b)| fold::select(condition.clone(), a, b)).collect();
        Ok(made(shape, scalar, items))
    }

    fn random(&mut self, name: &str, call: &ast::ExprCall) -> Lower<Value> {
        let Arguments { mut values, keywords, .. } = self.arguments(call, &["dtype"])?;
        values.extend(keywords.into_iter().map(|(_, value)| value));
        let scalar = match values.pop() {
            Some(value) => self.known_scalar_type(value)?,
            None => self.options.default_float,
        };
        if name == "random" {
            return Ok(Value::Scalar(self.draw(scalar)?, scalar));
        }
        if !scalar.is_float() {
            return Err(LangError::new(Code::Type, "`randn` draws floats"));
        }
        // Box and Muller: two uniform numbers make a normal one.
        let number = |value: f64| Value::Scalar(Expr::Const(scalar, fold::float_bits(scalar, value)), scalar);
        let (first, second) = (self.draw(scalar)?, self.draw(scalar)?);
        let open = self.operate(ast::Operator::Sub, number(1.0), Value::Scalar(first, scalar))?;
        let log = self.math(Math::Log, vec![open])?;
        let square = self.operate(ast::Operator::Mult, number(-2.0), log)?;
        let radius = self.math(Math::Sqrt, vec![square])?;
        let angle =
            self.operate(ast::Operator::Mult, number(std::f64::consts::TAU), Value::Scalar(second, scalar))?;
        let cosine = self.math(Math::Cos, vec![angle])?;
        self.operate(ast::Operator::Mult, radius, cosine)
    }

    fn draw(&mut self, scalar: Scalar) -> Lower<Expr> {
        let id = self.local("", scalar, 0);
        self.constant.insert(id);
        self.emit(Kind::Random(id))?;
        Ok(Expr::Local(id))
    }

    fn atomic(&mut self, name: &str, call: &ast::ExprCall) -> Lower<Value> {
        let [target, value] = &call.arguments.args[..] else {
            return Err(LangError::new(Code::ArgumentCount, format!("`{name}` takes 2 arguments"))
                .hint(format!("write `{name}(x[i], value)`")));
        };
        let op = match name {
            "atomic_add" | "atomic_sub" => AtomicOp::Add,
            "atomic_mul" => AtomicOp::Mul,
            "atomic_min" => AtomicOp::Min,
            "atomic_max" => AtomicOp::Max,
            "atomic_and" => AtomicOp::And,
            "atomic_or" => AtomicOp::Or,
            _ => AtomicOp::Xor,
        };
        let value = self.expr(value)?;
        let value = self.keep(value)?;
        self.atomic_call(Change { op, negates: name == "atomic_sub" }, target, value)
    }

    // -- Vectors and matrices --------------------------------------------------------------------

    fn build_tensor(&mut self, call: &ast::ExprCall) -> Lower<Value> {
        let Arguments { mut values, keywords, .. } = self.arguments(call, &["dt", "dtype"])?;
        let mut wanted = None;
        for (_, value) in keywords {
            wanted = Some(self.known_scalar_type(value)?);
        }
        if values.len() == 2 {
            let value = values.pop().expect("there are two");
            wanted = Some(self.known_scalar_type(value)?);
        }
        match <[Value; 1]>::try_from(values) {
            Ok([value]) => self.tensor_of(unwrap_static(value), wanted),
            Err(_) => Err(LangError::new(Code::ArgumentCount, "a vector is made of one list")
                .hint("write `Vector([x, y, z])`, `Matrix([[a, b], [c, d]])`")),
        }
    }

    fn tensor_constructor(&mut self, name: &str, call: &ast::ExprCall) -> Lower<Value> {
        let mut values = self.counted(call, name, 1..=3)?;
        if matches!(name, "Matrix.rows" | "Matrix.cols" | "Matrix.diag") {
            if name == "Matrix.diag" {
                return self.diagonal(values);
            }
            let matrix = self.tensor_of(values.remove(0), None)?;
            return if name == "Matrix.rows" {
                Ok(matrix)
            } else {
                self.tensor_method(matrix, "transpose", Vec::new())
            };
        }
        // `Vector.unit(n, i)` names the type last, if at all; the others name it first.
        let scalar = match (name, values.len()) {
            ("Vector.unit", 3) => {
                let last = values.pop().expect("there are three");
                self.known_scalar_type(last)?
            }
            ("Vector.unit", _) => self.options.default_int,
            _ => self.known_scalar_type(values.remove(0))?,
        };
        let what = "the size of a vector or matrix";
        let mut sizes = Vec::new();
        let fill = (name == "Vector.filled").then(|| values.pop()).flatten();
        for value in &values {
            let size = self.known_int(value, what)?;
            if !(0..=1024).contains(&size) {
                return Err(LangError::new(
                    Code::Shape,
                    format!("{what} is between 1 and 1024, found {size}"),
                ));
            }
            sizes.push(size as u32);
        }
        let shape = match (name, &sizes[..]) {
            ("Vector.unit", [n, _]) | ("Vector.zero" | "Vector.one" | "Vector.filled", [n]) => {
                Shape::Vector(*n)
            }
            ("Matrix.identity", [n]) => Shape::Matrix(*n, *n),
            ("Matrix.zero" | "Matrix.one", [n]) => Shape::Vector(*n),
            ("Matrix.zero" | "Matrix.one", [n, m]) => Shape::Matrix(*n, *m),
            _ => {
                return Err(LangError::new(Code::ArgumentCount, format!("`{name}` takes a type and sizes")));
            }
        };
        if shape.is_empty() || shape.len() > 1024 {
            return Err(LangError::new(
                Code::Shape,
                format!("a vector or matrix of {} numbers", shape.len()),
            ));
        }
        if let Some(fill) = fill {
            let item = self.scalar_as(fill, scalar)?;
            let item = self.once(item, scalar)?;
            return Ok(Value::Tensor(shape, scalar, vec![item; shape.len() as usize]));
        }
        let is_one = |at: u32| match (name, shape) {
            ("Vector.one" | "Matrix.one", _) => true,
            ("Vector.unit", _) => at == sizes[1],
            ("Matrix.identity", Shape::Matrix(n, _)) => at / n == at % n,
            _ => false,
        };
        let number = |at: u32| {
            let value = if is_one(at) { 1.0 } else { 0.0 };
            let bits = if scalar.is_float() { fold::float_bits(scalar, value) } else { value as u64 };
            Expr::Const(scalar, bits)
        };
        Ok(Value::Tensor(shape, scalar, (0..shape.len()).map(number).collect()))
    }

    fn diagonal(&mut self, mut values: Vec<Value>) -> Lower<Value> {
        if values.len() != 2 {
            return Err(LangError::new(Code::ArgumentCount, "`Matrix.diag` takes a size and a number"));
        }
        let value = values.pop().expect("there are two");
        let n = self.known_int(&values[0], "the size of a matrix")?;
        if !(1..=32).contains(&n) {
            return Err(LangError::new(Code::Shape, format!("a {n}x{n} matrix")));
        }
        let (item, scalar) = self.scalar(value)?;
        let item = self.once(item, scalar)?;
        let n = n as u32;
        let number = |at: u32| if at / n == at % n { item.clone() } else { Expr::Const(scalar, 0) };
        Ok(Value::Tensor(Shape::Matrix(n, n), scalar, (0..n * n).map(number).collect()))
    }
}
