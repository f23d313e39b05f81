//! Statements, and which variables they leave defined.

use rustc_hash::{FxHashMap, FxHashSet};

use keyprint_source::ast::visitor::{self, Visitor};
use keyprint_source::ast::{self, Stmt};
use keyprint_source::position::Ranged;

use super::expr::{known_truth, unsupported};
use super::operation::common;
use super::value::Value;
use super::{Binding, LoopKind, Lower, Lowerer, Returned};
use crate::error::LangError;
use crate::host::{Annotation, Constant};
use crate::ir::{Block, Expr, Kind, LocalId, Statement};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

pub(super) type Names = FxHashMap<String, Binding>;

/// What branches that are not taken would make of variables: shapes and types.
type Seen = FxHashMap<String, (Option<Shape>, Scalar)>;

impl Lowerer<'_> {
    /// Lowers statements.
    pub(super) fn body(&mut self, body: &[Stmt]) -> Lower<()> {
        for (at, statement) in body.iter().enumerate() {
            if self.current().is_left {
                // Never reached; it is counted all the same, and what it returns if that is only known here.
                if std::mem::take(&mut self.current().is_decided) {
                    self.unseen_rest(&body[at..]);
                }
                self.skip(&body[at..]);
                break;
            }
            self.current().is_decided = false;
            self.statement(statement)?;
        }
        Ok(())
    }

    /// Takes note of what statements would return that are not reached because of what is known.
    fn unseen_rest(&mut self, rest: &[Stmt]) {
        if !has_return(rest) {
            return;
        }
        let returned = self.trial(|this| {
            let function = this.current();
            function.is_left = false;
            if let Some(exit) = &mut function.exit {
                (exit.result, exit.returns) = (None, 0);
            }
            this.body(rest)?;
            this.returned_types()
        });
        self.note_unseen(returned.unwrap_or_default());
    }

    fn note_unseen(&mut self, returned: Vec<Scalar>) {
        let unseen = match self.functions.last_mut().and_then(|function| function.exit.as_mut()) {
            Some(exit) => &mut exit.unseen,
            None => &mut self.unseen,
        };
        if unseen.is_empty() {
            *unseen = returned;
        } else if unseen.len() == returned.len() {
            unseen.iter_mut().zip(returned).for_each(|(known, other)| *known = common(*known, other));
        }
    }

    /// Lowers the statements of a loop, which are numbered behind it.
    pub(super) fn nested_body(&mut self, body: &[Stmt]) -> Lower<()> {
        let first = self.current().statement;
        self.current().statement = first + 1;
        self.body(body)?;
        self.current().statement = first + count(body);
        Ok(())
    }

    fn skip(&mut self, body: &[Stmt]) {
        self.current().statement += count(body);
    }

    fn statement(&mut self, statement: &Stmt) -> Lower<()> {
        self.current().at = statement.range();
        self.mark();
        self.deeper(|this| this.statement_at(statement))?;
        self.current().statement += 1;
        Ok(())
    }

    fn statement_at(&mut self, statement: &Stmt) -> Lower<()> {
        match statement {
            Stmt::Assign(one) => self.assign(&one.targets, &one.value),
            Stmt::AugAssign(one) => self.augment(&one.target, one.op, &one.value),
            Stmt::AnnAssign(one) => self.annotated(one),
            Stmt::Expr(one) => self.expression(&one.value),
            Stmt::If(one) => self.branch(one),
            Stmt::For(one) => self.for_loop(one),
            Stmt::While(one) => self.while_loop(one),
            Stmt::Break(_) => self.break_loop(),
            Stmt::Continue(_) => self.continue_loop(),
            Stmt::Return(one) => self.give_back(one),
            Stmt::Pass(_) => Ok(()),
            Stmt::Assert(one) => self.assertion(one),
            Stmt::With(one) => self.with(one),
            Stmt::Try(_) | Stmt::Raise(_) => Err(unsupported(
                "raising and catching exceptions",
                "use `assert` in debug mode, or return a status",
            )),
            Stmt::FunctionDef(_) => {
                Err(unsupported("a function inside a kernel", "define it outside, with `@func`"))
            }
            Stmt::ClassDef(_) => Err(unsupported("a class inside a kernel", "define it outside")),
            Stmt::Import(_) | Stmt::ImportFrom(_) => {
                Err(unsupported("`import`", "import at the top of the file"))
            }
            Stmt::Global(_) | Stmt::Nonlocal(_) => {
                Err(unsupported("assigning to globals", "pass an array of one element and write to it"))
            }
            Stmt::Delete(_) => Err(unsupported("`del`", "variables end with their block")),
            Stmt::Match(_) => Err(unsupported("`match`", "use `if` and `elif`")),
            _ => Err(unsupported("this statement", "write it in simpler terms")),
        }
    }

    fn annotated(&mut self, one: &ast::StmtAnnAssign) -> Lower<()> {
        let Some(value) = &one.value else {
            return Err(unsupported("declaring a variable without a value", "assign one"));
        };
        let annotation = self.expr(&one.annotation)?;
        let value = self.expr(value)?;
        let value = self.converted(annotation, value)?;
        self.assign_to(&one.target, value)
    }

    /// A value as something that was named in an annotation.
    pub(super) fn converted(&mut self, annotation: Value, value: Value) -> Lower<Value> {
        match annotation {
            Value::Constant(Constant::Scalar(scalar)) => {
                Ok(Value::Scalar(self.scalar_as(value, scalar)?, scalar))
            }
            Value::Constant(Constant::TensorType(shape, scalar)) => {
                self.tensor_type(shape, scalar, vec![value])
            }
            Value::Constant(Constant::Builtin("int")) => {
                let scalar = self.options.default_int;
                Ok(Value::Scalar(self.scalar_as(value, scalar)?, scalar))
            }
            Value::Constant(Constant::Builtin("float")) => {
                let scalar = self.options.default_float;
                Ok(Value::Scalar(self.scalar_as(value, scalar)?, scalar))
            }
            Value::Constant(Constant::Builtin("bool")) => Ok(Value::Scalar(self.truth(value)?, Scalar::Bool)),
            other => {
                Err(LangError::new("annotation", format!("{} is no type of a variable", other.describe())))
            }
        }
    }

    fn expression(&mut self, value: &ast::Expr) -> Lower<()> {
        // A text that stands for itself is a comment.
        if matches!(value, ast::Expr::StringLiteral(_) | ast::Expr::EllipsisLiteral(_)) {
            return Ok(());
        }
        self.expr(value).map(|_| ())
    }

    // -- Branches --------------------------------------------------------------------------------

    fn branch(&mut self, one: &ast::StmtIf) -> Lower<()> {
        let mut rest: Vec<(Option<&ast::Expr>, &[Stmt])> = vec![(Some(&one.test), &one.body)];
        for clause in &one.elif_else_clauses {
            rest.push((clause.test.as_ref(), &clause.body));
        }
        self.clauses(&rest)
    }

    fn clauses(&mut self, clauses: &[(Option<&ast::Expr>, &[Stmt])]) -> Lower<()> {
        let Some((first, rest)) = clauses.split_first() else { return Ok(()) };
        let (Some(test), body) = first else {
            // The statement number of a clause's first statement is one further.
            self.current().statement += 1;
            self.body(first.1)?;
            self.current().statement -= 1;
            return Ok(());
        };
        let value = self.expr(test)?;
        if let Some(known) = known_truth(&value) {
            // Only `static` makes the other branches go away: otherwise variables have the type of all.
            let is_static = matches!(value, Value::Static(_));
            let seen = if is_static { Seen::default() } else { self.unseen(known, clauses) };
            self.current().statement += 1;
            if known {
                self.body(body)?;
                for (_, body) in rest {
                    self.skip(body);
                }
            } else {
                self.skip(body);
                self.current().statement -= 1;
                self.clauses(rest)?;
                self.current().statement += 1;
            }
            self.current().statement -= 1;
            self.current().is_decided = self.current().is_left && !is_static;
            return self.typed_as(seen);
        }
        let condition = self.truth(value)?;
        let at = self.current().at;
        for (_, body) in clauses {
            self.settle(&assigned_names(body, false), false)?;
        }
        let before = self.current().names.clone();
        self.current().statement += 1;
        let mut then = self.in_block(false, |this| this.body(body))?;
        let (after_then, then_left) = self.end_branch(&before);
        let mut otherwise = self.in_block(false, |this| {
            this.current().statement -= 1;
            this.clauses(rest)?;
            this.current().statement += 1;
            Ok(())
        })?;
        self.current().statement -= 1;
        let else_left = std::mem::replace(&mut self.current().is_left, false);
        let after_else = std::mem::take(&mut self.current().names);
        self.current().names = match (then_left, else_left) {
            (true, false) => after_else,
            (false, true) => after_then,
            _ => self.join((after_then, &mut then), (after_else, &mut otherwise)),
        };
        self.current().is_left = then_left && else_left;
        self.current().at = at;
        self.emit(Kind::If(condition, then, otherwise))
    }

    /// What branches that are known not to be taken would make of variables that the one that is taken sets, too.
    fn unseen(&mut self, is_first: bool, clauses: &[(Option<&ast::Expr>, &[Stmt])]) -> Seen {
        let (first, rest) = clauses.split_first().expect("there is a clause");
        let (taken, others) = if is_first { (&clauses[..1], rest) } else { (rest, &clauses[..1]) };
        let all = |clauses: &[(Option<&ast::Expr>, &[Stmt])]| -> FxHashSet<String> {
            clauses.iter().flat_map(|(_, body)| assigned_names(body, false)).collect()
        };
        let mut names: Vec<String> = all(taken).intersection(&all(others)).cloned().collect();
        // A variable that is there already has its type.
        names.retain(|name| match self.current().names.get(name) {
            None | Some(Binding::Unclear) => true,
            Some(Binding::Scalar { is_set, .. } | Binding::Tensor { is_set, .. }) => !is_set,
            Some(_) => false,
        });
        let has_return = others.iter().any(|(_, body)| has_return(body));
        if names.is_empty() && !has_return {
            return Seen::default();
        }
        names.sort_unstable();
        let seen = self.trial(|this| {
            if is_first {
                this.clauses(rest)?;
            } else {
                this.body(first.1)?;
            }
            let mut found = Seen::default();
            let returned = if has_return { this.returned_types()? } else { Vec::new() };
            if this.current().is_left {
                return Ok((found, returned));
            }
            for name in names {
                let (id, shape) = match this.current().names.get(&name) {
                    Some(Binding::Scalar { id, is_set: true }) => (*id, None),
                    Some(Binding::Tensor { id, shape, is_set: true }) => (*id, Some(*shape)),
                    _ => continue,
                };
                found.insert(name, (shape, this.kernel.locals[id as usize].scalar));
            }
            Ok((found, returned))
        });
        let Some((seen, returned)) = seen else { return Seen::default() };
        self.note_unseen(returned);
        seen
    }

    /// The types of the numbers that the function has returned so far.
    fn returned_types(&mut self) -> Lower<Vec<Scalar>> {
        let Some(exit) = &self.current().exit else {
            return Ok(self.kernel.results.clone());
        };
        let mut found = Vec::new();
        let mut pending: Vec<Value> = exit.result.iter().cloned().collect();
        while let Some(one) = pending.pop() {
            match one {
                Value::Tuple(items) => pending.extend(items.into_iter().rev()),
                Value::Struct(..) => {}
                one => found.push(match self.as_tensor(&one)? {
                    Some((_, scalar, _)) => scalar,
                    None => self.scalar(one)?.1,
                }),
            }
        }
        Ok(found)
    }

    /// Gives variables the type that they have in common with what another branch would have made of them.
    fn typed_as(&mut self, seen: Seen) -> Lower<()> {
        if self.current().is_left {
            return Ok(());
        }
        let mut seen: Vec<_> = seen.into_iter().collect();
        seen.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (name, (shape, other)) in seen {
            let (id, given) = match self.current().names.get(&name) {
                Some(Binding::Scalar { id, is_set: true }) => (*id, None),
                Some(Binding::Tensor { id, shape, is_set: true }) => (*id, Some(*shape)),
                _ => continue,
            };
            let from = self.kernel.locals[id as usize].scalar;
            let to = common(from, other);
            if shape != given || to == from {
                continue;
            }
            let made = self.variable(&name, to, given.map_or(0, Shape::len));
            for kind in retyped(id, from, made, to, given) {
                self.emit(kind)?;
            }
            let binding = match given {
                None => Binding::Scalar { id: made, is_set: true },
                Some(shape) => Binding::Tensor { id: made, shape, is_set: true },
            };
            self.current().names.insert(name, binding);
        }
        Ok(())
    }

    /// What two branches leave behind: a variable that both set has the common type of both.
    fn join(&mut self, one: (Names, &mut Block), other: (Names, &mut Block)) -> Names {
        let ((one, then), (other, otherwise)) = (one, other);
        let mut both: Vec<String> = one.keys().filter(|name| other.contains_key(*name)).cloned().collect();
        both.sort_unstable();
        let mut found = Names::default();
        for name in both {
            let (a, b) = (&one[&name], &other[&name]);
            if let Some(joined) = self.joined(&name, (a, then), (b, otherwise)) {
                found.insert(name, joined);
            }
        }
        for (name, binding) in merged(one, other) {
            found.entry(name).or_insert(binding);
        }
        found
    }

    /// A variable that two branches have set; nothing if they have not, or if it is the same one.
    fn joined(
        &mut self,
        name: &str,
        (one, then): (&Binding, &mut Block),
        (other, otherwise): (&Binding, &mut Block),
    ) -> Option<Binding> {
        match (one, other) {
            (Binding::Scalar { id, is_set: true }, Binding::Scalar { id: second, is_set: true })
                if id != second =>
            {
                let id = self.joined_variable(name, (*id, then), (*second, otherwise), None);
                Some(Binding::Scalar { id, is_set: true })
            }
            (
                Binding::Tensor { id, shape, is_set: true },
                Binding::Tensor { id: second, shape: also, is_set: true },
            ) if id != second && shape == also => {
                let id = self.joined_variable(name, (*id, then), (*second, otherwise), Some(*shape));
                Some(Binding::Tensor { id, shape: *shape, is_set: true })
            }
            (Binding::Struct { members, kind }, Binding::Struct { members: others, kind: also })
                if !same(one, other)
                    && kind.as_ref().map(|kind| &kind.name) == also.as_ref().map(|kind| &kind.name)
                    && members.len() == others.len()
                    && members.iter().zip(others).all(|(a, b)| a.0 == b.0) =>
            {
                let mut found = Vec::new();
                for ((member, a), (_, b)) in members.iter().zip(others) {
                    let name = format!("{name}_{member}");
                    let joined = self.joined(&name, (a, then), (b, otherwise));
                    found.push((member.clone(), joined.or_else(|| same(a, b).then(|| a.clone()))?));
                }
                Some(Binding::Struct { members: found, kind: kind.clone() })
            }
            _ => None,
        }
    }

    fn joined_variable(
        &mut self,
        name: &str,
        (one, then): (LocalId, &mut Block),
        (other, otherwise): (LocalId, &mut Block),
        shape: Option<Shape>,
    ) -> LocalId {
        let [from, second] = [one, other].map(|id| self.kernel.locals[id as usize].scalar);
        let to = common(from, second);
        let made = if to == from { one } else { self.variable(name, to, shape.map_or(0, Shape::len)) };
        let line = self.line();
        for (id, from, block) in [(one, from, then), (other, second, otherwise)] {
            if id != made {
                let sets = retyped(id, from, made, to, shape);
                block.statements.extend(sets.map(|kind| Statement { line, kind }));
            }
        }
        made
    }

    /// Ends a branch: what it has defined is known to the next one, but not set there.
    fn end_branch(&mut self, before: &Names) -> (Names, bool) {
        let function = self.current();
        let after = function.names.clone();
        let left = std::mem::replace(&mut function.is_left, false);
        let mut next = before.clone();
        for (name, binding) in &after {
            // What is another kind of thing than before is for each branch to decide.
            if let (None, Binding::Scalar { .. } | Binding::Tensor { .. }) = (before.get(name), binding) {
                next.insert(name.clone(), unset(binding));
            }
        }
        function.names = next;
        (after, left)
    }

    /// Makes variables of names that are about to be assigned on some ways only, and stand for numbers so far.
    /// What else a loop assigns stands for another thing in each iteration: it cannot be read there before.
    pub(super) fn settle(&mut self, assigned: &FxHashSet<String>, is_loop: bool) -> Lower<()> {
        let mut names: Vec<String> = assigned.iter().cloned().collect();
        names.sort_unstable();
        for name in names {
            let Some(Binding::Value(value)) = self.current().names.get(&name).cloned() else { continue };
            let is_number = matches!(
                &value,
                Value::Constant(
                    Constant::Int(_)
                        | Constant::Float(_)
                        | Constant::Bool(_)
                        | Constant::Number(_)
                        | Constant::Numbers(..)
                        | Constant::Tensor(..),
                ) | Value::Scalar(..)
                    | Value::Tensor(..)
            );
            if is_number {
                self.current().names.remove(&name);
                self.assign_name(&name, value)?;
            } else if is_loop {
                self.current().names.insert(name, Binding::Rebound);
            }
        }
        Ok(())
    }

    /// Runs a body of a loop: what it defines is not known after it.
    pub(super) fn loop_body(&mut self, work: impl FnOnce(&mut Self) -> Lower<()>) -> Lower<()> {
        let before = self.current().names.clone();
        work(self)?;
        self.current().is_left = false;
        let after = std::mem::take(&mut self.current().names);
        let mut names = Names::default();
        for (name, binding) in after {
            match before.get(&name) {
                Some(known) if same(known, &binding) => {
                    names.insert(name, known.clone());
                }
                // A variable that may not have been set before may be set in the loop, or not.
                Some(known) => {
                    let kept =
                        if is_alias(known) || is_alias(&binding) { Binding::Unclear } else { known.clone() };
                    names.insert(name, kept);
                }
                None => {}
            }
        }
        self.current().names = names;
        Ok(())
    }

    // -- Leaving ---------------------------------------------------------------------------------

    fn break_loop(&mut self) -> Lower<()> {
        self.current().is_left = true;
        match self.current().loops.last() {
            Some(LoopKind::Serial) => self.emit(Kind::Break),
            Some(LoopKind::Scoped { all, .. }) => {
                let scope = *all;
                self.emit(Kind::Leave(scope))
            }
            Some(LoopKind::Parallel) => {
                Err(LangError::new("loop-control", "a parallel loop cannot be left with `break`").hint(
                    "write `loop_config(serialize=True)` before the loop, or put the loop into another",
                ))
            }
            Some(LoopKind::Graph) => Err(graph_control("break")),
            None => Err(LangError::new("loop-control", "`break` outside of a loop")),
        }
    }

    fn continue_loop(&mut self) -> Lower<()> {
        self.current().is_left = true;
        match self.current().loops.last() {
            Some(LoopKind::Serial | LoopKind::Parallel | LoopKind::Scoped { one: None, .. }) => {
                self.emit(Kind::Continue)
            }
            Some(LoopKind::Scoped { one: Some(scope), .. }) => {
                let scope = *scope;
                self.emit(Kind::Leave(scope))
            }
            Some(LoopKind::Graph) => Err(graph_control("continue")),
            None => Err(LangError::new("loop-control", "`continue` outside of a loop")),
        }
    }

    fn give_back(&mut self, one: &ast::StmtReturn) -> Lower<()> {
        let value = match &one.value {
            Some(value) => Some(self.expr(value)?),
            None => None,
        };
        let value = match value {
            Some(Value::Constant(Constant::None)) => None,
            other => other,
        };
        if self.current().loops.contains(&LoopKind::Graph) {
            return Err(LangError::new("graph", "a piece of a graph cannot return")
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
                let found = value.describe();
                let result = self.return_into(&place, value).map_err(|error| match error.code {
                    "type" | "shape" | "assignment" => LangError::new(
                        "return",
                        format!("another `return` gives {}, and this one {found}", place.describe()),
                    ),
                    _ => error,
                })?;
                self.current().exit.as_mut().expect("looked at above").result = Some(result);
            }
            _ => {
                return Err(LangError::new("return", "one `return` gives a value, and another does not")
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
                    items.into_iter().map(|one| self.once(one, from)).collect::<Lower<_>>()?;
                for (at, item) in items.into_iter().enumerate() {
                    self.emit(Kind::SetLane(*id, Expr::index(at as i64), item))?;
                }
                Ok(place.clone())
            }
            (Value::Tuple(places), _) => {
                let value = self.keep(listed)?;
                let items = self.elements(value)?;
                if items.len() != places.len() {
                    return Err(LangError::new("type", "another number of values"));
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
        let found = common(to, from);
        self.kernel.locals[id as usize].scalar = found;
        if to != from {
            self.current().exit.as_mut().expect("asked for returns only").retyped.insert(id);
        }
        found
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
                    let one = std::mem::replace(value, Expr::index(0));
                    *value = fold::cast(one.scalar(kernel), *to, one);
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
                let found = value.describe();
                let expr = self.scalar_as(value, scalar).map_err(|error| match error.code {
                    "type" => {
                        LangError::new("return", format!("the function returns a `{scalar}`, found {found}"))
                    }
                    _ => error,
                })?;
                Value::Scalar(expr, scalar)
            }
            Annotation::Tensor(shape, scalar) => {
                let found = value.describe();
                let value = self.listed(value)?;
                match self.as_tensor(&value)? {
                    Some((given, from, items)) if given == shape => {
                        let items = items.into_iter().map(|one| fold::cast(from, scalar, one)).collect();
                        Value::Tensor(shape, scalar, items)
                    }
                    _ => {
                        let expected = super::value::tensor_text(shape, Some(scalar));
                        return Err(LangError::new(
                            "return",
                            format!("the function returns {expected}, found {found}"),
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
                let mut found = Vec::new();
                for (name, member) in members {
                    found.push((name, self.result_variable(member, home)?));
                }
                return Ok(Value::Struct(found, kind));
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
        Err(LangError::new("return", format!("{} cannot be returned from a branch", binding.describe()))
            .hint("return it at the end of the function"))
    }

    fn return_from_kernel(&mut self, value: Option<Value>) -> Lower<()> {
        if self.private.is_some() {
            return Err(parallel_return());
        }
        if self.options.graph {
            let is_end = self.open.last().is_some_and(|open| open.is_outermost);
            return match value {
                Some(_) => Err(LangError::new("graph", "a graph cannot return a value")
                    .hint("write it to an array, or take `graph=True` away")),
                None if !is_end => {
                    Err(LangError::new("graph", "a graph runs to its end: it cannot return from a branch")
                        .hint("take `graph=True` away, or put what follows behind a condition"))
                }
                None => {
                    self.current().is_left = true;
                    Ok(())
                }
            };
        }
        self.current().is_left = true;
        let Some(value) = value else {
            if !self.kernel.results.is_empty() {
                return Err(LangError::new("return", "one `return` gives a value, and another does not"));
            }
            self.result.get_or_insert(Returned::Nothing);
            return self.emit(Kind::Return(Vec::new()));
        };
        let value = self.as_returned(value)?;
        let mut items = Vec::new();
        let result = self.returned(value, &mut items)?;
        match &self.result {
            None => {
                self.kernel.results = items.iter().map(|one| one.1).collect();
                self.result = Some(result);
            }
            Some(known) if shapes(known) != shapes(&result) => {
                return Err(LangError::new("return", "another `return` gives something else")
                    .hint("return the same kind of thing everywhere"));
            }
            Some(_) => {
                for (known, (_, from)) in self.kernel.results.iter_mut().zip(&items) {
                    *known = common(*known, *from);
                }
            }
        }
        // As they are: the type of the results is known when all are.
        self.emit(Kind::Return(items.into_iter().map(|one| one.0).collect()))
    }

    fn returned(&mut self, value: Value, items: &mut Vec<(Expr, Scalar)>) -> Lower<Returned> {
        if let Some((shape, scalar, all)) = self.as_tensor(&value)? {
            items.extend(all.into_iter().map(|one| (one, scalar)));
            return Ok(Returned::Tensor(shape, scalar));
        }
        match value {
            Value::Tuple(all) => {
                let all = all.into_iter().map(|one| self.returned(one, items)).collect::<Lower<_>>()?;
                Ok(Returned::Tuple(all))
            }
            Value::Constant(Constant::Tuple(all)) => {
                let all = all.into_iter().map(|one| self.returned(Value::Constant(one), items));
                Ok(Returned::Tuple(all.collect::<Lower<_>>()?))
            }
            other => {
                let found = other.describe();
                let (expr, scalar) = self.scalar(other).map_err(|error| match error.code {
                    "type" => LangError::new("return", format!("a kernel cannot return {found}"))
                        .hint("return numbers, vectors, matrices or tuples of them"),
                    _ => error,
                })?;
                items.push((expr, scalar));
                Ok(Returned::Scalar(scalar))
            }
        }
    }

    fn assertion(&mut self, one: &ast::StmtAssert) -> Lower<()> {
        if !self.options.debug {
            return Ok(());
        }
        let value = self.expr(&one.test)?;
        let condition = self.truth(value)?;
        let (text, values) = match one.msg.as_deref() {
            None => (String::new(), Vec::new()),
            Some(message) => self.message(message)?,
        };
        let site = self.site(format!("assert:{text}"));
        self.emit(Kind::Check { condition, site, values })
    }

    /// The message of an assertion: a text with `{}` for numbers, and the numbers.
    fn message(&mut self, message: &ast::Expr) -> Lower<(String, Vec<Expr>)> {
        let parts = self.text_parts(message)?;
        let (mut text, mut values) = (String::new(), Vec::new());
        for part in parts {
            match part {
                crate::ir::Part::Text(one) => text.push_str(&one.replace('{', "{{").replace('}', "}}")),
                crate::ir::Part::Value(one) => {
                    text.push_str("{}");
                    values.push(one);
                }
            }
        }
        Ok((text, values))
    }
}

/// Whether statements return something, wherever.
fn has_return(body: &[Stmt]) -> bool {
    struct Found(bool);
    impl<'a> Visitor<'a> for Found {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            self.0 |= matches!(stmt, Stmt::Return(one) if one.value.is_some());
            visitor::walk_stmt(self, stmt);
        }
    }
    let mut found = Found(false);
    found.visit_body(body);
    found.0
}

/// Sets a variable to another one, of another type.
fn retyped(
    id: LocalId,
    from: Scalar,
    made: LocalId,
    to: Scalar,
    shape: Option<Shape>,
) -> impl Iterator<Item = Kind> {
    (0..shape.map_or(1, Shape::len)).map(move |lane| {
        let at = Expr::index(lane.into());
        match shape {
            None => Kind::Set(made, fold::cast(from, to, Expr::Local(id))),
            Some(_) => {
                let value = fold::cast(from, to, Expr::Lane(id, Box::new(at.clone())));
                Kind::SetLane(made, at, value)
            }
        }
    })
}

/// What several ways leave behind.
pub(super) fn merged(one: Names, other: Names) -> Names {
    let mut found = Names::default();
    for (name, binding) in &one {
        let merged = match (binding, other.get(name)) {
            (Binding::Scalar { id, is_set }, Some(Binding::Scalar { id: same, is_set: also }))
                if id == same =>
            {
                Binding::Scalar { id: *id, is_set: *is_set && *also }
            }
            (Binding::Tensor { id, shape, is_set }, Some(Binding::Tensor { id: same, is_set: also, .. }))
                if id == same =>
            {
                Binding::Tensor { id: *id, shape: *shape, is_set: *is_set && *also }
            }
            (binding, Some(known)) if same(binding, known) => binding.clone(),
            (binding, None) if !is_alias(binding) => unset(binding),
            _ => Binding::Unclear,
        };
        found.insert(name.clone(), merged);
    }
    for (name, binding) in other {
        found.entry(name).or_insert_with(|| unset(&binding));
    }
    found
}

fn unset(binding: &Binding) -> Binding {
    match binding {
        Binding::Scalar { id, .. } => Binding::Scalar { id: *id, is_set: false },
        Binding::Tensor { id, shape, .. } => Binding::Tensor { id: *id, shape: *shape, is_set: false },
        _ => Binding::Unclear,
    }
}

fn is_alias(binding: &Binding) -> bool {
    matches!(binding, Binding::Value(_) | Binding::Place(_) | Binding::Unclear | Binding::Rebound)
}

fn graph_control(word: &str) -> LangError {
    LangError::new("loop-control", format!("`{word}` cannot leave a piece of a graph"))
        .hint("a loop of a graph goes on until what it depends on is zero: write that")
}

fn parallel_return() -> LangError {
    LangError::new("return", "a parallel loop cannot return")
        .hint("return after the loop; or write `loop_config(serialize=True)` before it")
}

/// Whether two names stand for the same.
pub(super) fn same(one: &Binding, other: &Binding) -> bool {
    match (one, other) {
        (Binding::Scalar { id, is_set }, Binding::Scalar { id: same, is_set: also })
        | (Binding::Tensor { id, is_set, .. }, Binding::Tensor { id: same, is_set: also, .. }) => {
            id == same && is_set == also
        }
        (Binding::Struct { members, .. }, Binding::Struct { members: others, .. }) => {
            members.len() == others.len()
                && members.iter().zip(others).all(|(a, b)| a.0 == b.0 && same(&a.1, &b.1))
        }
        (Binding::Value(one), Binding::Value(other)) | (Binding::Place(one), Binding::Place(other)) => {
            format!("{one:?}") == format!("{other:?}")
        }
        _ => false,
    }
}

fn shapes(returned: &Returned) -> Vec<Option<Shape>> {
    match returned {
        Returned::Nothing => Vec::new(),
        Returned::Scalar(_) => vec![None],
        Returned::Tensor(shape, _) => vec![Some(*shape)],
        Returned::Tuple(all) => all.iter().flat_map(shapes).collect(),
    }
}

/// The names that a function assigns, in whatever way.
/// `targets` are the variables of loops, if they count too.
pub(super) fn assigned_names(body: &[Stmt], targets: bool) -> FxHashSet<String> {
    struct Names(FxHashSet<String>, bool);
    impl<'a> Visitor<'a> for Names {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            match stmt {
                Stmt::For(one) if !self.1 => self.visit_body(&one.body),
                _ => visitor::walk_stmt(self, stmt),
            }
        }

        fn visit_comprehension(&mut self, one: &'a ast::Comprehension) {
            if self.1 {
                visitor::walk_comprehension(self, one);
            }
        }

        fn visit_expr(&mut self, expr: &'a ast::Expr) {
            if let ast::Expr::Name(name) = expr
                && name.ctx.is_store()
            {
                self.0.insert(name.id.to_string());
            }
            visitor::walk_expr(self, expr);
        }
    }
    let mut names = Names(FxHashSet::default(), targets);
    names.visit_body(body);
    names.0
}

/// The names of things of which parts are assigned: `v` in `v.x = 1`, `v[0] += 1`.
pub(super) fn changed_names(body: &[Stmt]) -> FxHashSet<String> {
    struct Names(FxHashSet<String>);
    impl<'a> Visitor<'a> for Names {
        fn visit_expr(&mut self, expr: &'a ast::Expr) {
            let is_part = match expr {
                ast::Expr::Subscript(one) => one.ctx.is_store(),
                ast::Expr::Attribute(one) => one.ctx.is_store(),
                _ => false,
            };
            let mut inner = expr;
            while let ast::Expr::Subscript(ast::ExprSubscript { value, .. })
            | ast::Expr::Attribute(ast::ExprAttribute { value, .. }) = inner
            {
                inner = value;
            }
            if let (true, ast::Expr::Name(name)) = (is_part, inner) {
                self.0.insert(name.id.to_string());
            }
            visitor::walk_expr(self, expr);
        }
    }
    let mut names = Names(FxHashSet::default());
    names.visit_body(body);
    names.0
}

/// Statements, those inside others included.
pub(super) fn count(body: &[Stmt]) -> u32 {
    struct Counter(u32);
    impl<'a> Visitor<'a> for Counter {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            self.0 += 1;
            visitor::walk_stmt(self, stmt);
        }
    }
    let mut counter = Counter(0);
    counter.visit_body(body);
    counter.0
}

pub(super) fn without_docstring(body: &[Stmt]) -> &[Stmt] {
    match body.first() {
        Some(Stmt::Expr(first)) if matches!(&*first.value, ast::Expr::StringLiteral(_)) => &body[1..],
        _ => body,
    }
}
