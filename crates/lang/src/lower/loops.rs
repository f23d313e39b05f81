//! `for` and `while`.

use keyprint_source::ast;
use keyprint_source::position::Ranged;
use rustc_hash::FxHashSet;

use super::branch::merged;
use super::expr::{known_truth, unsupported, unwrap_static};
use super::statement::assigned_names;
use super::value::Value;
use super::{Binding, LoopConfig, LoopKind, Lower, Lowerer, Open};
use crate::error::{Code, LangError};
use crate::host::Constant;
use crate::ir::{Binary, Block, Expr, For, Kind, LocalId, Parallel, ScopeId, Statement};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

/// A loop that is unrolled more often than this is refused.
const MOST_UNROLLED: usize = 4096;

/// What a loop runs over: bounds of one type for each dimension.
struct Ranges {
    from: Vec<Expr>,
    to: Vec<Expr>,
    scalar: Scalar,
    /// Of a range with a step, the first number and the step in 64 bits, and the type: the loop counts from 0.
    stepped: Option<(Expr, Expr, Scalar)>,
    /// Whether the target is one vector of all indices.
    grouped: bool,
}

impl Lowerer<'_> {
    pub(super) fn for_loop(&mut self, loop_stmt: &ast::StmtFor) -> Lower<()> {
        if !loop_stmt.orelse.is_empty() {
            return Err(unsupported(
                "`else` of a loop",
                "set a variable in the loop and look at it afterwards",
            ));
        }
        let config = std::mem::take(&mut self.next_loop);
        let over = self.expr(&loop_stmt.iter)?;
        match over {
            Value::Static(inner) => {
                let items = self.unrolled(*inner, &loop_stmt.iter)?;
                self.unroll(loop_stmt, items)
            }
            Value::Tuple(_) | Value::Constant(Constant::Tuple(_)) => {
                let items = self.unrolled(over, &loop_stmt.iter)?;
                self.unroll(loop_stmt, items)
            }
            over => {
                self.current().at = loop_stmt.iter.range();
                let ranges = self.ranges(over)?;
                self.current().at = loop_stmt.range();
                self.ranged(loop_stmt, ranges, config)
            }
        }
    }

    /// What is known of a loop that is unrolled: its items.
    pub(super) fn unrolled(&mut self, over: Value, at: &ast::Expr) -> Lower<Vec<Value>> {
        let outer = std::mem::replace(&mut self.current().at, at.range());
        let what = "the range of an unrolled loop";
        let items = match unwrap_static(over) {
            Value::Range(arguments) => {
                let mut bounds = Vec::new();
                for argument in &arguments {
                    bounds.push(self.known_int(argument, what)?);
                }
                let (from, to, step) = match bounds[..] {
                    [to] => (0, to, 1),
                    [from, to] => (from, to, 1),
                    [from, to, step] => (from, to, step),
                    _ => unreachable!("counted when it was made"),
                };
                if step == 0 {
                    return Err(LangError::new(Code::Arithmetic, "the step of a range is not zero"));
                }
                let mut numbers = Vec::new();
                let mut at = from;
                while (step > 0 && at < to) || (step < 0 && at > to) {
                    numbers.push(Value::int(at));
                    if numbers.len() > MOST_UNROLLED {
                        break;
                    }
                    at += step;
                }
                numbers
            }
            Value::Ndrange(bounds) => {
                self.unrolled_box(bounds, what)?.into_iter().map(Value::Tuple).collect()
            }
            Value::Grouped(inner) => match *inner {
                Value::Ndrange(bounds) => {
                    let mut indices = Vec::new();
                    for index in self.unrolled_box(bounds, what)? {
                        indices.push(self.tensor_of(Value::Tuple(index), None)?);
                    }
                    indices
                }
                other => return Err(not_iterable(&other)),
            },
            Value::Constant(Constant::Array(_)) => {
                return Err(LangError::new(Code::ConstantNeeded, "a loop over an array cannot be unrolled")
                    .hint("loop over the array itself, without `static`"));
            }
            other => {
                let described = other.describe();
                self.elements(other).map_err(|_| {
                    LangError::new(Code::Iteration, format!("a loop over {described} cannot be unrolled"))
                })?
            }
        };
        if items.len() > MOST_UNROLLED {
            return Err(LangError::new(
                Code::Nesting,
                format!("a loop is unrolled more than {MOST_UNROLLED} times"),
            )
            .hint("loop at run time, without `static`"));
        }
        self.current().at = outer;
        Ok(items)
    }

    fn unrolled_box(&mut self, bounds: Vec<(Value, Value)>, what: &str) -> Lower<Vec<Vec<Value>>> {
        let mut indices = vec![Vec::new()];
        for (from, to) in bounds {
            let (from, to) = (self.known_int(&from, what)?, self.known_int(&to, what)?);
            let many = usize::try_from((to - from).max(0)).unwrap_or(usize::MAX);
            if indices.len().saturating_mul(many) > MOST_UNROLLED {
                return Err(LangError::new(
                    Code::Nesting,
                    format!("a loop is unrolled more than {MOST_UNROLLED} times"),
                )
                .hint("loop at run time, without `static`"));
            }
            let extend = |index: &Vec<Value>| {
                let index = index.clone();
                (from..to).map(move |at| index.iter().cloned().chain([Value::int(at)]).collect())
            };
            indices = indices.iter().flat_map(extend).collect();
        }
        Ok(indices)
    }

    fn unroll(&mut self, loop_stmt: &ast::StmtFor, items: Vec<Value>) -> Lower<()> {
        let first = self.current().statement;
        let has_control = has_control(&loop_stmt.body);
        if has_control {
            // Each iteration may be left before something is assigned.
            self.settle(&assigned_names(&loop_stmt.body, false), false)?;
        }
        let all = self.new_scope();
        let is_outermost = self.open.last().is_some_and(|open| open.is_outermost) && !has_control;
        let open = Open { block: Block::default(), is_home: false, is_outermost };
        let block = self.in_open(open, |this| {
            for item in items {
                if this.current().is_left {
                    break;
                }
                this.current().statement = first + 1;
                let before = this.current().names.clone();
                this.bind_target(&loop_stmt.target, item)?;
                if !has_control {
                    this.body(&loop_stmt.body)?;
                    continue;
                }
                let scope = this.new_scope();
                this.current().loops.push(LoopKind::Scoped { all, iteration: Some(scope) });
                let body = this.in_block(false, |this| this.body(&loop_stmt.body))?;
                this.current().loops.pop();
                this.current().is_left = false;
                // What was assigned may have been left before: only what is the same either way is known.
                let after = std::mem::take(&mut this.current().names);
                this.current().names = merged(after, before);
                this.emit(Kind::Scope(scope, body))?;
            }
            Ok(())
        })?;
        self.current().statement = first + super::statement::count(&loop_stmt.body);
        if has_control {
            return self.emit(Kind::Scope(all, block));
        }
        self.splice(block);
        Ok(())
    }

    pub(super) fn new_scope(&mut self) -> ScopeId {
        self.scopes += 1;
        self.scopes
    }

    /// Adds what a block holds to the one that is open.
    pub(super) fn splice(&mut self, block: Block) {
        let open = self.block();
        open.locals.extend(block.locals);
        open.statements.extend(block.statements);
    }

    // -- Loops that are there when the kernel runs -----------------------------------------------

    fn ranges(&mut self, over: Value) -> Lower<Ranges> {
        match over {
            Value::Range(arguments) => self.range(arguments),
            Value::Ndrange(bounds) => self.boxed(bounds, false),
            Value::Constant(Constant::Array(_)) | Value::Struct(..) => {
                let bounds = self.shape_of(&over)?;
                self.boxed(bounds, false)
            }
            Value::Grouped(inner) => match *inner {
                Value::Ndrange(bounds) => self.boxed(bounds, true),
                inner => {
                    let bounds = self.shape_of(&inner)?;
                    self.boxed(bounds, true)
                }
            },
            other => Err(not_iterable(&other)),
        }
    }

    fn shape_of(&mut self, value: &Value) -> Lower<Vec<(Value, Value)>> {
        match value {
            Value::Constant(Constant::Array(spec)) => {
                let scalar = self.options.default_int;
                let sizes = (0..spec.ndim).map(|at| {
                    let size = fold::cast(Scalar::I64, scalar, self.size(spec, at));
                    (Value::int(0), Value::Scalar(size, scalar))
                });
                Ok(sizes.collect())
            }
            // A field of structs: all its arrays have one shape.
            Value::Struct(members, _) if !members.is_empty() => self.shape_of(&members[0].1.clone()),
            other => Err(not_iterable(other)),
        }
    }

    fn range(&mut self, arguments: Vec<Value>) -> Lower<Ranges> {
        let mut bounds = Vec::new();
        // A negative number among unsigned ones: all of them as signed ones.
        let is_negative =
            |argument: &Value| matches!(unwrap_static(argument.clone()), Value::Constant(Constant::Int(..0)));
        let has_negative = arguments.iter().any(is_negative);
        for argument in arguments {
            let described = argument.describe();
            let (expr, scalar) = self.scalar(argument)?;
            if scalar.is_float() {
                return Err(LangError::new(
                    Code::Type,
                    format!("a range is made of ints, found {described}"),
                )
                .hint("convert it: `int(...)`"));
            }
            let scalar_int = if scalar == Scalar::Bool { Scalar::I32 } else { scalar };
            bounds.push((fold::cast(scalar, scalar_int, expr), scalar_int));
        }
        let scalar = bounds.iter().map(|bound| bound.1).reduce(Scalar::promote).expect("at least one");
        let is_mixed = bounds.iter().any(|bound| bound.1.is_signed()) && !scalar.is_signed();
        // Counting needs room beyond the last number.
        let scalar = match scalar {
            scalar if scalar.bits() < 32 => Scalar::I32,
            scalar if !scalar.is_signed() && (has_negative || is_mixed && bounds.len() > 1) => Scalar::I64,
            scalar => scalar,
        };
        let mut bounds = bounds.into_iter().map(|(bound, from)| fold::cast(from, scalar, bound));
        let zero = Expr::Const(scalar, 0);
        let ranges =
            |from, to| Ranges { from: vec![from], to: vec![to], scalar, stepped: None, grouped: false };
        match (bounds.next(), bounds.next(), bounds.next()) {
            (Some(to), None, _) => Ok(ranges(zero, to)),
            (Some(from), Some(to), None | Some(Expr::Const(_, 1))) => Ok(ranges(from, to)),
            (Some(from), Some(to), Some(step)) => {
                if matches!(step, Expr::Const(_, 0)) {
                    return Err(LangError::new(Code::Arithmetic, "the step of a range is not zero"));
                }
                // How many there are, in 64 bits: nothing overflows there.
                let wide = |this: &mut Self, expr: Expr| {
                    this.once(fold::cast(scalar, Scalar::I64, expr), Scalar::I64)
                };
                let (from, to) = (self.once(from, scalar)?, self.once(to, scalar)?);
                let step = self.once(step, scalar)?;
                let (a, b, s) = (wide(self, from)?, wide(self, to)?, wide(self, step)?);
                let up = fold::binary(Binary::Lt, Expr::index(0), s.clone());
                let minus = |a: Expr, b: Expr| fold::binary(Binary::Sub, a, b);
                let plus = |a: Expr, b: Expr| fold::binary(Binary::Add, a, b);
                // (to - from + step - 1) // step, and the like for steps down.
                let rounded = fold::select(
                    up,
                    minus(plus(minus(b.clone(), a.clone()), s.clone()), Expr::index(1)),
                    plus(plus(minus(b, a.clone()), s.clone()), Expr::index(1)),
                );
                let many = fold::binary(Binary::FloorDiv, rounded, s.clone());
                let many = fold::binary(Binary::Max, many, Expr::index(0));
                Ok(Ranges {
                    from: vec![Expr::index(0)],
                    to: vec![many],
                    scalar: Scalar::I64,
                    stepped: Some((a, s, scalar)),
                    grouped: false,
                })
            }
            _ => unreachable!("counted when it was made"),
        }
    }

    fn boxed(&mut self, bounds: Vec<(Value, Value)>, grouped: bool) -> Lower<Ranges> {
        let (mut from, mut to) = (Vec::new(), Vec::new());
        let mut scalar = self.options.default_int;
        let mut is_signed = false;
        for (low, high) in bounds {
            for value in [&low, &high] {
                let (_, value_type) = self.scalar(value.clone())?;
                is_signed |= match unwrap_static(value.clone()) {
                    Value::Constant(Constant::Int(value)) => value < 0,
                    _ => value_type.is_signed(),
                };
                if value_type.is_float() {
                    return Err(LangError::new(
                        Code::Type,
                        format!("a range is made of ints, found {}", value.describe()),
                    )
                    .hint("convert it: `int(...)`"));
                }
                scalar = scalar.promote(value_type);
            }
            from.push(low);
            to.push(high);
        }
        // Signed and unsigned ones, in a type that holds both.
        if is_signed && !scalar.is_signed() {
            scalar = Scalar::I64;
        }
        let from = from.into_iter().map(|low| self.scalar_as(low, scalar)).collect::<Lower<_>>()?;
        let to = to.into_iter().map(|high| self.scalar_as(high, scalar)).collect::<Lower<_>>()?;
        Ok(Ranges { from, to, scalar, stepped: None, grouped })
    }

    fn ranged(&mut self, loop_stmt: &ast::StmtFor, ranges: Ranges, config: LoopConfig) -> Lower<()> {
        let open = self.open.last().expect("a block is open");
        let is_parallel = open.is_outermost && self.private.is_none() && !config.serialize;
        if ranges.from.is_empty() {
            // An array without dimensions has one element.
            return self.once_around(loop_stmt, &ranges);
        }
        if is_parallel { self.parallel(loop_stmt, ranges, config) } else { self.serial(loop_stmt, ranges) }
    }

    fn once_around(&mut self, loop_stmt: &ast::StmtFor, ranges: &Ranges) -> Lower<()> {
        let ranges = Ranges {
            from: vec![Expr::Const(ranges.scalar, 0)],
            to: vec![Expr::Const(ranges.scalar, 1)],
            scalar: ranges.scalar,
            stepped: None,
            grouped: ranges.grouped,
        };
        let id = self.local("", ranges.scalar, 0);
        let body = self.loop_block(loop_stmt, &ranges, &[], LoopKind::Serial)?;
        let [from, to] = [ranges.from, ranges.to].map(|mut bounds| bounds.remove(0));
        self.emit(Kind::For(Box::new(For { variable: id, from, to, body })))
    }

    fn parallel(&mut self, loop_stmt: &ast::StmtFor, ranges: Ranges, config: LoopConfig) -> Lower<()> {
        self.private = Some(FxHashSet::default());
        let variables = self.loop_variables(loop_stmt, &ranges);
        let body = self.loop_block(loop_stmt, &ranges, &variables, LoopKind::Parallel)?;
        self.private = None;
        self.current().at = loop_stmt.range();
        let Ranges { from, to, .. } = ranges;
        let reductions = Vec::new();
        self.emit(Kind::Parallel(Box::new(Parallel {
            variables,
            from,
            to,
            grain: config.grain,
            reductions,
            body,
        })))
    }

    fn serial(&mut self, loop_stmt: &ast::StmtFor, ranges: Ranges) -> Lower<()> {
        let variables = self.loop_variables(loop_stmt, &ranges);
        let all = self.new_scope();
        let is_nest = variables.len() > 1;
        // Leaving a nest of loops leaves all of them.
        let kind = if is_nest { LoopKind::Scoped { all, iteration: None } } else { LoopKind::Serial };
        let mut body = self.loop_block(loop_stmt, &ranges, &variables, kind)?;
        self.current().at = loop_stmt.range();
        let line = self.line();
        let mut bounds = ranges.from.into_iter().zip(ranges.to).collect::<Vec<_>>();
        for bound in &mut bounds[1..] {
            // Bounds are computed once.
            bound.0 = self.once(bound.0.clone(), ranges.scalar)?;
            bound.1 = self.once(bound.1.clone(), ranges.scalar)?;
        }
        for (at, (variable, (from, to))) in variables.iter().zip(bounds).enumerate().rev() {
            let kind = Kind::For(Box::new(For { variable: *variable, from, to, body }));
            if at == 0 {
                let block = Block { locals: Vec::new(), statements: vec![Statement { line, kind }] };
                return if is_nest && uses_scope(&block, all) {
                    self.emit(Kind::Scope(all, block))
                } else {
                    self.splice(block);
                    Ok(())
                };
            }
            body = Block { locals: Vec::new(), statements: vec![Statement { line, kind }] };
        }
        Ok(())
    }

    fn loop_variables(&mut self, loop_stmt: &ast::StmtFor, ranges: &Ranges) -> Vec<LocalId> {
        let names: Vec<String> = match &*loop_stmt.target {
            ast::Expr::Tuple(tuple) if !ranges.grouped => tuple.elts.iter().map(target_name).collect(),
            target if ranges.from.len() == 1 && !ranges.grouped && ranges.stepped.is_none() => {
                vec![target_name(target)]
            }
            _ => Vec::new(),
        };
        (0..ranges.from.len())
            .map(|at| {
                let id = self.local(names.get(at).map_or("", |name| name), ranges.scalar, 0);
                self.constant.insert(id);
                id
            })
            .collect()
    }

    /// Lowers the body of a loop, with its target bound to the variables.
    fn loop_block(
        &mut self,
        loop_stmt: &ast::StmtFor,
        ranges: &Ranges,
        variables: &[LocalId],
        kind: LoopKind,
    ) -> Lower<Block> {
        let mut block = Block::default();
        self.settle(&assigned_names(&loop_stmt.body, false), true)?;
        self.loop_body(|this| {
            this.current().loops.push(kind);
            block = this.in_block(true, |this| {
                this.bind_variables(loop_stmt, ranges, variables)?;
                this.nested_body(&loop_stmt.body)
            })?;
            this.current().loops.pop();
            Ok(())
        })?;
        Ok(block)
    }

    fn bind_variables(
        &mut self,
        loop_stmt: &ast::StmtFor,
        ranges: &Ranges,
        variables: &[LocalId],
    ) -> Lower<()> {
        let scalar = ranges.scalar;
        let mut values: Vec<Value> =
            variables.iter().map(|id| Value::Scalar(Expr::Local(*id), scalar)).collect();
        if let Some((first, step, scalar)) = &ranges.stepped {
            let far = fold::binary(Binary::Mul, Expr::Local(variables[0]), step.clone());
            let at = fold::binary(Binary::Add, first.clone(), far);
            let at = self.once(fold::cast(Scalar::I64, *scalar, at), *scalar)?;
            values = vec![Value::Scalar(at, *scalar)];
        }
        let value = if ranges.grouped {
            let items = values.iter().map(|value| match value {
                Value::Scalar(expr, _) => expr.clone(),
                _ => unreachable!("made above"),
            });
            let items: Vec<Expr> = items.collect();
            Value::Tensor(Shape::Vector(items.len() as u32), scalar, items)
        } else if let ast::Expr::Tuple(tuple) = &*loop_stmt.target {
            self.current().at = loop_stmt.target.range();
            if tuple.elts.len() != values.len() {
                return Err(LangError::new(
                    Code::Unpacking,
                    format!(
                        "{} variables for {} dimension{}",
                        tuple.elts.len(),
                        values.len(),
                        if values.len() == 1 { "" } else { "s" }
                    ),
                )
                .hint("name one variable for each dimension, or use `grouped`"));
            }
            Value::Tuple(values)
        } else if values.len() == 1 {
            values.remove(0)
        } else if values.is_empty() {
            Value::Constant(Constant::None)
        } else {
            self.current().at = loop_stmt.target.range();
            return Err(LangError::new(
                Code::Unpacking,
                format!("one variable for {} dimensions", values.len()),
            )
            .hint("name one variable for each dimension, or use `grouped`"));
        };
        // A variable that the body assigns is one of its own.
        let assigned = assigned_names(&loop_stmt.body, true);
        if let ast::Expr::Name(name) = &*loop_stmt.target
            && assigned.contains(name.id.as_str())
        {
            self.current().names.remove(name.id.as_str());
            return self.assign_name(name.id.as_str(), value);
        }
        self.bind_target(&loop_stmt.target, value)?;
        if let ast::Expr::Tuple(tuple) = &*loop_stmt.target {
            for name in tuple.elts.iter().map(target_name).filter(|name| assigned.contains(name)) {
                if let Some(Binding::Value(value)) = self.current().names.remove(&name) {
                    self.assign_name(&name, value)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn while_loop(&mut self, loop_stmt: &ast::StmtWhile) -> Lower<()> {
        if !loop_stmt.orelse.is_empty() {
            return Err(unsupported(
                "`else` of a loop",
                "set a variable in the loop and look at it afterwards",
            ));
        }
        if let Some(call) = self.graph_call(&loop_stmt.test, &["graph.do_while"]) {
            return self.do_while(loop_stmt, call);
        }
        let mut block = Block::default();
        let mut is_endless = false;
        self.settle(&assigned_names(&loop_stmt.body, false), true)?;
        self.loop_body(|this| {
            this.current().loops.push(LoopKind::Serial);
            block = this.in_block(true, |this| {
                let test = this.expr(&loop_stmt.test)?;
                if known_truth(&test) == Some(false) {
                    this.current().statement += super::statement::count(&loop_stmt.body);
                    return this.emit(Kind::Break);
                }
                is_endless = known_truth(&test) == Some(true);
                let condition = this.truth(test)?;
                let stop = fold::unary(crate::ir::Unary::Not, condition);
                if stop != Expr::Const(Scalar::Bool, 0) {
                    let line = this.line();
                    let leave = vec![Statement { line, kind: Kind::Break }];
                    let leave = Block { locals: Vec::new(), statements: leave };
                    this.emit(Kind::If(stop, leave, Block::default()))?;
                }
                this.nested_body(&loop_stmt.body)
            })?;
            this.current().loops.pop();
            Ok(())
        })?;
        self.current().at = loop_stmt.range();
        // Only a `return` ends a loop that nothing leaves.
        self.current().is_left = is_endless && !block.leaves_loop();
        self.emit(Kind::Loop(block))
    }
}

fn target_name(target: &ast::Expr) -> String {
    match target {
        ast::Expr::Name(name) => name.id.to_string(),
        _ => String::new(),
    }
}

fn not_iterable(value: &Value) -> LangError {
    LangError::new(Code::Iteration, format!("cannot loop over {}", value.describe()))
        .hint("loop over `range(...)`, `ndrange(...)`, `grouped(...)`, an array, or `static(...)` of a tuple")
}

/// Whether a body leaves or goes on with the loop that it belongs to.
fn has_control(body: &[ast::Stmt]) -> bool {
    body.iter().any(|statement| match statement {
        ast::Stmt::Break(_) | ast::Stmt::Continue(_) => true,
        ast::Stmt::If(branch) => {
            has_control(&branch.body)
                || branch.elif_else_clauses.iter().any(|clause| has_control(&clause.body))
        }
        _ => false,
    })
}

fn uses_scope(block: &Block, scope: ScopeId) -> bool {
    let mut is_used = false;
    block.each(&mut |statement| is_used |= statement.kind == Kind::Leave(scope));
    is_used
}
