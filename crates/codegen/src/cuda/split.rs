//! A kernel's body as tasks: what runs as a grid, what by one thread, and what they hand on to each other.
//!
//! A parallel loop is a grid. What stands between loops is a task of one thread, except for variables that only
//! depend on the arguments: whoever needs one makes it again. Other variables that more than one task mentions live
//! in a frame in the memory of the device.
//!
//! The tasks of a graph are the leaves of a tree: loops repeat pieces of it, sections stand beside each other. What
//! happens at checkpoints is done by tasks of one thread, between statements.

use std::collections::{BTreeMap, BTreeSet};

use keyprint_lang::graph::rematerialised;
use keyprint_lang::ir::{
    ArrayId, AtomicTarget, Block, Expr, Kernel, Kind, LocalId, Parallel, ScopeId, Statement,
};

use super::plan::LaunchPlan;
use crate::graph::{belongs_to_next, labels_in};
use crate::statement::{first_sets, needs_random};
use crate::task::declared;

/// A task.
pub(crate) struct Task<'k> {
    pub(crate) work: Work<'k>,
    /// Scopes around it, which may have been left before.
    pub(crate) inside: Vec<ScopeId>,
    /// Locals that it mentions and does not declare.
    pub(crate) mentioned: BTreeSet<LocalId>,
    /// Where numbers are drawn from.
    pub(crate) draws: Draws,
    /// The loop around it; 0 for none.
    home: u32,
}

/// Where a task draws random numbers: those of the kernel, or of a section; other ones in each turn of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Draws {
    /// The number of the sections among the tasks of the program, and which of them.
    pub(crate) section: Option<(u32, u32)>,
    pub(crate) is_in_loop: bool,
}

pub(crate) enum Work<'k> {
    /// A parallel loop, and its number among the tasks of the program.
    Grid(&'k Parallel, u32),
    Thread(Vec<Action<'k>>),
}

/// What one thread does.
#[derive(Clone, Copy)]
pub(crate) enum Action<'k> {
    /// A statement, unless the launch begins behind it.
    Statement(&'k Statement),
    /// A check of something that is made again: wherever the launch begins.
    Check(&'k Statement),
    /// Begins a checkpoint: the launch may begin here.
    Begin(u32),
    /// Ends one: the launch ends here, if the array says so.
    End(u32, ArrayId),
    /// Enters a scope that may have been left in an earlier turn.
    Enter(ScopeId),
    /// Sets a variable to zero, as it is when a turn begins.
    Zero(LocalId),
    /// Has what follows in a loop draw other numbers.
    DrawAnew,
    /// Begins a section, which draws numbers of its own.
    Section(u32, u32),
}

/// A piece of a graph.
pub(crate) enum Piece {
    /// A task, by its place.
    Task(usize),
    /// What is done, and again while a number is not zero. A launch may begin at these labels inside.
    Loop { counter: ArrayId, labels: Option<(u32, u32)>, body: Vec<Piece> },
    /// Pieces that do not depend on each other.
    Sections(Vec<Vec<Piece>>),
}

/// A kernel as tasks.
pub(crate) struct Split<'k> {
    pub(crate) tasks: Vec<Task<'k>>,
    /// How they follow each other.
    pub(crate) pieces: Vec<Piece>,
    /// Variables that tasks hand on to each other.
    pub(crate) frame: BTreeSet<LocalId>,
    /// What makes the variables that are made again, in order.
    pub(crate) made_again: Vec<&'k Statement>,
    pub(crate) is_made_again: BTreeSet<LocalId>,
    /// Scopes that are left in one task, with others of the scope behind it.
    pub(crate) left: BTreeSet<ScopeId>,
    /// Whether the kernel may end before its last task.
    pub(crate) ends_early: bool,
    /// Locals of the kernel's own block, and of scopes and pieces that were taken apart.
    pub(crate) locals: BTreeSet<LocalId>,
    /// Whether a launch may begin at checkpoints.
    pub(crate) has_labels: bool,
    pub(crate) has_loops: bool,
    kernel: &'k Kernel,
    /// The loop in which a local is declared.
    homes: BTreeMap<LocalId, u32>,
    /// Tasks of the program so far, and loops.
    numbers: u32,
    loops: u32,
    /// Where the next statement is.
    home: u32,
    inside: Vec<ScopeId>,
    draws: Draws,
}

impl<'k> Split<'k> {
    pub(crate) fn of(kernel: &'k Kernel) -> Self {
        let is_made_again: BTreeSet<LocalId> = rematerialised(kernel).into_iter().collect();
        let mut split = Self {
            tasks: Vec::new(),
            pieces: Vec::new(),
            frame: BTreeSet::new(),
            made_again: Vec::new(),
            is_made_again,
            left: BTreeSet::new(),
            ends_early: false,
            locals: BTreeSet::new(),
            has_labels: kernel.labels.is_some(),
            has_loops: false,
            kernel,
            homes: BTreeMap::new(),
            numbers: 0,
            loops: 0,
            home: 0,
            inside: Vec::new(),
            draws: Draws::default(),
        };
        let mut pieces = Vec::new();
        split.block(&kernel.body, &mut pieces);
        split.pieces = pieces;
        split.finish();
        split
    }

    fn block(&mut self, block: &'k Block, pieces: &mut Vec<Piece>) {
        self.locals.extend(&block.locals);
        self.homes.extend(block.locals.iter().map(|id| (*id, self.home)));
        if self.home > 0 {
            // Each turn finds them as the first one did.
            let set = first_sets(block);
            for id in &block.locals {
                if !set.contains(id) && !self.is_made_again.contains(id) {
                    self.frame.insert(*id);
                    self.act(Action::Zero(*id), BTreeSet::new(), pieces);
                }
            }
        }
        for (at, statement) in block.statements.iter().enumerate() {
            match &statement.kind {
                Kind::Parallel(loop_stmt) => self.grid(loop_stmt, pieces),
                Kind::Scope(id, body) if has_grid(body) => {
                    if self.home > 0 {
                        self.act(Action::Enter(*id), BTreeSet::new(), pieces);
                    }
                    self.inside.push(*id);
                    self.block(body, pieces);
                    self.inside.pop();
                }
                Kind::DoWhile(do_while) => {
                    self.has_loops = true;
                    self.loops += 1;
                    let outer = (std::mem::replace(&mut self.home, self.loops), self.draws);
                    self.draws.is_in_loop = true;
                    let mut body = Vec::new();
                    self.block(&do_while.body, &mut body);
                    (self.home, self.draws) = outer;
                    let labels = labels_in(&do_while.body);
                    let labels = labels.first().copied().zip(labels.last().copied());
                    pieces.push(Piece::Loop { counter: do_while.counter, labels, body });
                }
                Kind::Checkpoint(checkpoint) => {
                    let number = checkpoint.label + 1;
                    self.act(Action::Begin(number), BTreeSet::new(), pieces);
                    self.block(&checkpoint.body, pieces);
                    if let Some(flag) = checkpoint.flag {
                        self.act(Action::End(number, flag), BTreeSet::new(), pieces);
                    }
                }
                Kind::Sections(sections) => self.sections(sections, pieces),
                kind if kind.sets().is_some_and(|id| self.is_made_again.contains(&id)) => {
                    self.made_again.push(statement);
                }
                Kind::At(_) => {}
                _ => {
                    let is_own = self.has_labels
                        && self.draws.section.is_none()
                        && belongs_to_next(self.kernel, &block.statements[at..], &self.is_made_again);
                    self.serial(statement, is_own, pieces);
                }
            }
        }
    }

    fn sections(&mut self, sections: &'k [Block], pieces: &mut Vec<Piece>) {
        if sections.is_empty() {
            return;
        }
        let number = self.numbers;
        self.numbers += 1;
        let mut draw = false;
        sections.iter().for_each(|section| draw |= needs_random(section));
        if draw && self.draws.is_in_loop {
            self.act(Action::DrawAnew, BTreeSet::new(), pieces);
        }
        let outer = self.draws;
        let sections = sections.iter().enumerate().map(|(at, section)| {
            let mut inner = Vec::new();
            self.draws.section = Some((number, at as u32));
            if draw && outer.is_in_loop {
                self.act(Action::Section(number, at as u32), BTreeSet::new(), &mut inner);
            }
            self.block(section, &mut inner);
            self.draws = outer;
            inner
        });
        let sections = sections.collect();
        pieces.push(Piece::Sections(sections));
    }

    fn grid(&mut self, loop_stmt: &'k Parallel, pieces: &mut Vec<Piece>) {
        if self.draws.is_in_loop && self.draws.section.is_none() && needs_random(&loop_stmt.body) {
            self.act(Action::DrawAnew, BTreeSet::new(), pieces);
        }
        let number = self.numbers;
        self.numbers += 1;
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
        self.task(Work::Grid(loop_stmt, number), mentioned, pieces);
    }

    fn serial(&mut self, statement: &'k Statement, is_own_check: bool, pieces: &mut Vec<Piece>) {
        let block = Block { locals: Vec::new(), statements: vec![statement.clone()] };
        let mut mentioned = mentions(&block);
        block.each(&mut |inner| {
            mentioned.extend(inner.kind.sets());
            if let Kind::Atomic(atomic) = &inner.kind {
                mentioned.extend(atomic.old);
            }
        });
        let here = match &statement.kind {
            Kind::Let(id, _) | Kind::Random(id) => Some(*id),
            Kind::Atomic(atomic) => atomic.old,
            _ => None,
        };
        self.homes.extend(here.map(|id| (id, self.home)));
        if self.has_labels {
            // It is declared before what may be skipped.
            self.locals.extend(here);
        }
        let mut own = BTreeSet::new();
        // What is right here may be mentioned by the next task; what is deeper is not.
        statement.kind.parts(&mut |_| {}, &mut |inner| declared(inner, &mut own));
        if let Kind::For(loop_stmt) = &statement.kind {
            own.insert(loop_stmt.variable);
        }
        mentioned.retain(|id| !own.contains(id));
        let action = if is_own_check { Action::Check(statement) } else { Action::Statement(statement) };
        self.act(action, mentioned, pieces);
    }

    /// Has one thread do something: that of the task before, if it can.
    fn act(&mut self, action: Action<'k>, mentioned: BTreeSet<LocalId>, pieces: &mut Vec<Piece>) {
        if let Some(Piece::Task(last)) = pieces.last()
            && let Task { work: Work::Thread(actions), inside, mentioned: all, .. } = &mut self.tasks[*last]
            && *inside == self.inside
        {
            actions.push(action);
            all.extend(mentioned);
            return;
        }
        self.task(Work::Thread(vec![action]), mentioned, pieces);
    }

    fn task(&mut self, work: Work<'k>, mentioned: BTreeSet<LocalId>, pieces: &mut Vec<Piece>) {
        let (inside, draws, home) = (self.inside.clone(), self.draws, self.home);
        pieces.push(Piece::Task(self.tasks.len()));
        self.tasks.push(Task { work, inside, mentioned, draws, home });
    }

    fn finish(&mut self) {
        let mut tasks_of: BTreeMap<LocalId, u32> = BTreeMap::new();
        for task in &self.tasks {
            for id in &task.mentioned {
                *tasks_of.entry(*id).or_default() += 1;
            }
            // What lives outside of a loop goes from one turn to the next.
            let is_elsewhere = |id: &&LocalId| self.homes.get(id).is_some_and(|home| *home != task.home);
            self.frame.extend(task.mentioned.iter().filter(is_elsewhere));
        }
        self.frame.extend(tasks_of.iter().filter(|(_, tasks)| **tasks > 1).map(|(id, _)| *id));
        self.frame.retain(|id| !self.is_made_again.contains(id));
        for (at, task) in self.tasks.iter().enumerate() {
            for statement in task.work.statements() {
                let block = Block { locals: Vec::new(), statements: vec![statement.clone()] };
                block.each(&mut |inner| match &inner.kind {
                    Kind::Leave(id) if task.inside.contains(id) => drop(self.left.insert(*id)),
                    Kind::Return(_) => {
                        self.ends_early |= at + 1 < self.tasks.len() || task.home > 0 || self.has_labels;
                    }
                    _ => {}
                });
            }
        }
    }

    /// Whether it is launched as a graph: a single task is not worth it.
    pub(crate) fn is_graph(&self) -> bool {
        self.kernel.is_graph && (self.has_labels || self.has_loops || self.tasks.len() > 1)
    }

    /// Whether tasks of a graph may find that the launch is over.
    pub(crate) fn can_end(&self, plan: &LaunchPlan) -> bool {
        let yields = |task: &Task<'_>| match &task.work {
            Work::Thread(actions) => actions.iter().any(|action| matches!(action, Action::End(..))),
            Work::Grid(..) => false,
        };
        self.ends_early || plan.mail.fails || self.tasks.iter().any(yields)
    }

    /// Whether turns of loops draw other numbers.
    pub(crate) fn draws_anew(&self) -> bool {
        self.tasks.iter().any(|task| match &task.work {
            Work::Thread(actions) => actions.iter().any(|action| matches!(action, Action::DrawAnew)),
            Work::Grid(..) => false,
        })
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

impl<'k> Work<'k> {
    /// The statements that one thread runs.
    pub(crate) fn statements(&self) -> impl Iterator<Item = &'k Statement> {
        let actions: &[Action<'k>] = match self {
            Self::Thread(actions) => actions,
            Self::Grid(..) => &[],
        };
        actions.iter().filter_map(|action| match action {
            Action::Statement(statement) | Action::Check(statement) => Some(*statement),
            _ => None,
        })
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
