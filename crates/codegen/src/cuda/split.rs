//! A kernel's body as tasks: what runs as a grid, what by one thread, and what they hand on to each other.
//!
//! A parallel loop is a grid. What stands between loops is a task of one thread, except for variables that only
//! depend on the arguments: whoever needs one makes it again. Other variables that more than one task mentions live
//! in a frame in the memory of the device.

use std::collections::{BTreeMap, BTreeSet};

use keyprint_lang::graph::rematerialised;
use keyprint_lang::ir::{AtomicTarget, Block, Expr, Kernel, Kind, LocalId, Parallel, ScopeId, Statement};

use crate::task::declared;

/// A task.
pub(crate) struct Task<'k> {
    pub(crate) work: Work<'k>,
    /// Scopes around it, which may have been left before.
    pub(crate) inside: Vec<ScopeId>,
    /// Locals that it mentions and does not declare.
    pub(crate) mentioned: BTreeSet<LocalId>,
}

pub(crate) enum Work<'k> {
    Grid(&'k Parallel, u32),
    Thread(Vec<&'k Statement>),
}

/// A kernel as tasks.
pub(crate) struct Split<'k> {
    pub(crate) tasks: Vec<Task<'k>>,
    /// Variables that tasks hand on to each other.
    pub(crate) frame: BTreeSet<LocalId>,
    /// What makes the variables that are made again, in order.
    pub(crate) made_again: Vec<&'k Statement>,
    pub(crate) is_made_again: BTreeSet<LocalId>,
    /// Scopes that are left in one task, with others of the scope behind it.
    pub(crate) left: BTreeSet<ScopeId>,
    /// Whether the kernel may end before its last task.
    pub(crate) ends_early: bool,
    /// Locals of the kernel's own block, and of scopes that were taken apart.
    pub(crate) locals: BTreeSet<LocalId>,
}

impl<'k> Split<'k> {
    pub(crate) fn of(kernel: &'k Kernel) -> Self {
        let is_made_again: BTreeSet<LocalId> = rematerialised(kernel).into_iter().collect();
        let mut split = Self {
            tasks: Vec::new(),
            frame: BTreeSet::new(),
            made_again: Vec::new(),
            is_made_again,
            left: BTreeSet::new(),
            ends_early: false,
            locals: BTreeSet::new(),
        };
        split.block(&kernel.body, &mut Vec::new());
        split.finish();
        split
    }

    fn block(&mut self, block: &'k Block, inside: &mut Vec<ScopeId>) {
        self.locals.extend(&block.locals);
        for statement in &block.statements {
            match &statement.kind {
                Kind::Parallel(loop_stmt) => self.grid(loop_stmt, inside),
                Kind::Scope(id, body) if has_grid(body) => {
                    inside.push(*id);
                    self.block(body, inside);
                    inside.pop();
                }
                kind if kind.sets().is_some_and(|id| self.is_made_again.contains(&id)) => {
                    self.made_again.push(statement);
                }
                Kind::At(_) => {}
                _ => self.serial(statement, inside),
            }
        }
    }

    fn grid(&mut self, loop_stmt: &'k Parallel, inside: &[ScopeId]) {
        let number = self.tasks.iter().filter(|task| matches!(task.work, Work::Grid(..))).count() as u32;
        let mut own: BTreeSet<LocalId> = loop_stmt.variables.iter().copied().collect();
        own.extend(loop_stmt.reductions.iter().map(|reduction| reduction.local));
        declared(&loop_stmt.body, &mut own);
        let mut mentioned = mentions(&loop_stmt.body);
        for expr in loop_stmt.from.iter().chain(&loop_stmt.to) {
            mentions_of(expr, &mut mentioned);
        }
        let mut changed = BTreeSet::new();
        for reduction in &loop_stmt.reductions {
            changed.extend(reduction.target.local());
            reduction.target.expressions().for_each(|expr| mentions_of(expr, &mut mentioned));
        }
        loop_stmt.body.each(&mut |statement| changed.extend(statement.kind.sets()));
        // All iterations share what they change of what is around them.
        self.frame.extend(changed.difference(&own));
        mentioned.extend(changed);
        mentioned.retain(|id| !own.contains(id));
        let work = Work::Grid(loop_stmt, number);
        self.tasks.push(Task { work, inside: inside.to_vec(), mentioned });
    }

    fn serial(&mut self, statement: &'k Statement, inside: &[ScopeId]) {
        let block = Block { locals: Vec::new(), statements: vec![statement.clone()] };
        let mut mentioned = mentions(&block);
        block.each(&mut |inner| {
            mentioned.extend(inner.kind.sets());
            if let Kind::Atomic(atomic) = &inner.kind {
                mentioned.extend(atomic.old);
            }
        });
        let mut own = BTreeSet::new();
        // What is right here may be mentioned by the next task; what is deeper is not.
        statement.kind.parts(&mut |_| {}, &mut |inner| declared(inner, &mut own));
        if let Kind::For(loop_stmt) = &statement.kind {
            own.insert(loop_stmt.variable);
        }
        mentioned.retain(|id| !own.contains(id));
        match self.tasks.last_mut() {
            Some(Task { work: Work::Thread(statements), inside: known, mentioned: all })
                if known == inside =>
            {
                statements.push(statement);
                all.extend(mentioned);
            }
            _ => {
                let work = Work::Thread(vec![statement]);
                self.tasks.push(Task { work, inside: inside.to_vec(), mentioned });
            }
        }
    }

    fn finish(&mut self) {
        let mut tasks_of: BTreeMap<LocalId, u32> = BTreeMap::new();
        for task in &self.tasks {
            for id in &task.mentioned {
                *tasks_of.entry(*id).or_default() += 1;
            }
        }
        self.frame.extend(tasks_of.iter().filter(|(_, tasks)| **tasks > 1).map(|(id, _)| *id));
        self.frame.retain(|id| !self.is_made_again.contains(id));
        for (at, task) in self.tasks.iter().enumerate() {
            let Work::Thread(statements) = &task.work else { continue };
            for statement in statements {
                let block = Block { locals: Vec::new(), statements: vec![(*statement).clone()] };
                block.each(&mut |inner| match &inner.kind {
                    Kind::Leave(id) if task.inside.contains(id) => drop(self.left.insert(*id)),
                    Kind::Return(_) => self.ends_early |= at + 1 < self.tasks.len(),
                    _ => {}
                });
            }
        }
    }

    /// What makes the variables again that a task mentions, in order.
    pub(crate) fn needed(&self, mentioned: &BTreeSet<LocalId>) -> (Vec<&'k Statement>, BTreeSet<LocalId>) {
        let mut needed: BTreeSet<LocalId> = mentioned.intersection(&self.is_made_again).copied().collect();
        let mut statements = Vec::new();
        for statement in self.made_again.iter().rev() {
            let Some(id) = statement.kind.sets() else { continue };
            if needed.contains(&id) {
                statement.kind.parts(&mut |expr| mentions_of(expr, &mut needed), &mut |_| {});
                statements.push(*statement);
            }
        }
        statements.reverse();
        (statements, needed)
    }
}

pub(crate) fn has_grid(block: &Block) -> bool {
    let mut has = false;
    block.each(&mut |statement| has |= matches!(statement.kind, Kind::Parallel(_)));
    has
}

fn mentions(block: &Block) -> BTreeSet<LocalId> {
    let mut all = BTreeSet::new();
    block.each_expr(&mut |expr| mentions_of(expr, &mut all));
    block.each(&mut |statement| {
        if let Kind::Atomic(atomic) = &statement.kind
            && let AtomicTarget::Local(id) | AtomicTarget::Lane(id, _) = &atomic.target
        {
            all.insert(*id);
        }
    });
    all
}

fn mentions_of(expr: &Expr, into: &mut BTreeSet<LocalId>) {
    expr.any(&mut |inner| {
        if let Expr::Local(id) | Expr::Lane(id, _) = inner {
            into.insert(*id);
        }
        false
    });
}
