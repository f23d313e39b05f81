//! Branches: what a condition chooses, and which variables its branches leave defined.

use rustc_hash::{FxHashMap, FxHashSet};

use keyprint_source::ast::visitor::{self, Visitor};
use keyprint_source::ast::{self, Stmt};

use super::expr::known_truth;
use super::operation::common;
use super::statement::assigned_names;
use super::value::Value;
use super::{Binding, Lower, Lowerer};
use crate::ir::{Block, Expr, Kind, LocalId, Statement};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

pub(super) type Names = FxHashMap<String, Binding>;

/// What branches that are not taken would make of variables: shapes and types.
type Seen = FxHashMap<String, (Option<Shape>, Scalar)>;

impl Lowerer<'_> {
    pub(super) fn branch(&mut self, stmt: &ast::StmtIf) -> Lower<()> {
        let mut rest: Vec<(Option<&ast::Expr>, &[Stmt])> = vec![(Some(&stmt.test), &stmt.body)];
        for clause in &stmt.elif_else_clauses {
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
            let mut types = Seen::default();
            let returned = if has_return { this.returned_types()? } else { Vec::new() };
            if this.current().is_left {
                return Ok((types, returned));
            }
            for name in names {
                let (id, shape) = match this.current().names.get(&name) {
                    Some(Binding::Scalar { id, is_set: true }) => (*id, None),
                    Some(Binding::Tensor { id, shape, is_set: true }) => (*id, Some(*shape)),
                    _ => continue,
                };
                types.insert(name, (shape, this.kernel.locals[id as usize].scalar));
            }
            Ok((types, returned))
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
        let mut types = Vec::new();
        let mut pending: Vec<Value> = exit.result.iter().cloned().collect();
        while let Some(value) = pending.pop() {
            match value {
                Value::Tuple(items) => pending.extend(items.into_iter().rev()),
                Value::Struct(..) => {}
                value => types.push(match self.as_tensor(&value)? {
                    Some((_, scalar, _)) => scalar,
                    None => self.scalar(value)?.1,
                }),
            }
        }
        Ok(types)
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
            let target = self.variable(&name, to, given.map_or(0, Shape::len));
            for kind in retyped(id, from, target, to, given) {
                self.emit(kind)?;
            }
            let binding = match given {
                None => Binding::Scalar { id: target, is_set: true },
                Some(shape) => Binding::Tensor { id: target, shape, is_set: true },
            };
            self.current().names.insert(name, binding);
        }
        Ok(())
    }

    /// What two branches leave behind: a variable that both set has the common type of both.
    fn join(&mut self, left: (Names, &mut Block), right: (Names, &mut Block)) -> Names {
        let ((left, then), (right, otherwise)) = (left, right);
        let mut both: Vec<String> = left.keys().filter(|name| right.contains_key(*name)).cloned().collect();
        both.sort_unstable();
        let mut names = Names::default();
        for name in both {
            let (a, b) = (&left[&name], &right[&name]);
            if let Some(joined) = self.joined(&name, (a, then), (b, otherwise)) {
                names.insert(name, joined);
            }
        }
        for (name, binding) in merged(left, right) {
            names.entry(name).or_insert(binding);
        }
        names
    }

    /// A variable that two branches have set; nothing if they have not, or if it is the same one.
    fn joined(
        &mut self,
        name: &str,
        (left, then): (&Binding, &mut Block),
        (right, otherwise): (&Binding, &mut Block),
    ) -> Option<Binding> {
        match (left, right) {
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
                if !same(left, right)
                    && kind.as_ref().map(|kind| &kind.name) == also.as_ref().map(|kind| &kind.name)
                    && members.len() == others.len()
                    && members.iter().zip(others).all(|(a, b)| a.0 == b.0) =>
            {
                let mut bindings = Vec::new();
                for ((member, a), (_, b)) in members.iter().zip(others) {
                    let name = format!("{name}_{member}");
                    let joined = self.joined(&name, (a, then), (b, otherwise));
                    bindings.push((member.clone(), joined.or_else(|| same(a, b).then(|| a.clone()))?));
                }
                Some(Binding::Struct { members: bindings, kind: kind.clone() })
            }
            _ => None,
        }
    }

    fn joined_variable(
        &mut self,
        name: &str,
        (left, then): (LocalId, &mut Block),
        (right, otherwise): (LocalId, &mut Block),
        shape: Option<Shape>,
    ) -> LocalId {
        let [from, second] = [left, right].map(|id| self.kernel.locals[id as usize].scalar);
        let to = common(from, second);
        let target = if to == from { left } else { self.variable(name, to, shape.map_or(0, Shape::len)) };
        let line = self.line();
        for (id, from, block) in [(left, from, then), (right, second, otherwise)] {
            if id != target {
                let sets = retyped(id, from, target, to, shape);
                block.statements.extend(sets.map(|kind| Statement { line, kind }));
            }
        }
        target
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

    /// Takes note of what statements would return that are not reached because of what is known.
    pub(super) fn unseen_rest(&mut self, rest: &[Stmt]) {
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
}

/// Whether statements return something, wherever.
fn has_return(body: &[Stmt]) -> bool {
    struct Found(bool);
    impl<'a> Visitor<'a> for Found {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            self.0 |= matches!(stmt, Stmt::Return(returned) if returned.value.is_some());
            visitor::walk_stmt(self, stmt);
        }
    }
    let mut finder = Found(false);
    finder.visit_body(body);
    finder.0
}

/// Sets a variable to another one, of another type.
fn retyped(
    id: LocalId,
    from: Scalar,
    target: LocalId,
    to: Scalar,
    shape: Option<Shape>,
) -> impl Iterator<Item = Kind> {
    (0..shape.map_or(1, Shape::len)).map(move |lane| {
        let at = Expr::index(lane.into());
        match shape {
            None => Kind::Set(target, fold::cast(from, to, Expr::Local(id))),
            Some(_) => {
                let value = fold::cast(from, to, Expr::Lane(id, Box::new(at.clone())));
                Kind::SetLane(target, at, value)
            }
        }
    })
}

/// What several ways leave behind.
pub(super) fn merged(left: Names, right: Names) -> Names {
    let mut names = Names::default();
    for (name, binding) in &left {
        let merged = match (binding, right.get(name)) {
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
        names.insert(name.clone(), merged);
    }
    for (name, binding) in right {
        names.entry(name).or_insert_with(|| unset(&binding));
    }
    names
}

fn unset(binding: &Binding) -> Binding {
    match binding {
        Binding::Scalar { id, .. } => Binding::Scalar { id: *id, is_set: false },
        Binding::Tensor { id, shape, .. } => Binding::Tensor { id: *id, shape: *shape, is_set: false },
        _ => Binding::Unclear,
    }
}

pub(super) fn is_alias(binding: &Binding) -> bool {
    matches!(binding, Binding::Value(_) | Binding::Place(_) | Binding::Unclear | Binding::Rebound)
}

/// Whether two names stand for the same.
pub(super) fn same(left: &Binding, right: &Binding) -> bool {
    match (left, right) {
        (Binding::Scalar { id, is_set }, Binding::Scalar { id: same, is_set: also })
        | (Binding::Tensor { id, is_set, .. }, Binding::Tensor { id: same, is_set: also, .. }) => {
            id == same && is_set == also
        }
        (Binding::Struct { members, .. }, Binding::Struct { members: others, .. }) => {
            members.len() == others.len()
                && members.iter().zip(others).all(|(a, b)| a.0 == b.0 && same(&a.1, &b.1))
        }
        (Binding::Value(left), Binding::Value(right)) | (Binding::Place(left), Binding::Place(right)) => {
            format!("{left:?}") == format!("{right:?}")
        }
        _ => false,
    }
}
