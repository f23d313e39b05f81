//! A kernel as a graph of tasks: what runs, in which loops, behind which gates.
//!
//! [`graph_of`] reads it off the IR. A *task* is a parallel loop, or statements in a row that are none; a *loop*
//! goes on while a number among the arguments is not zero; a *gate* is where a launch can begin, and may end:
//! each checkpoint is one, and so is each parallel loop outside of them, which has no label. Whatever runs graphs
//! on a device finds here what to make nodes of.
//!
//! A launch that begins at a checkpoint does not run what is before it. Variables that only depend on the
//! arguments are made again ([`rematerialised`]); [`not_live_at_resume`] finds those of which nothing would be known.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{ArrayId, AtomicTarget, Block, Expr, Kernel, Kind, LocalId, Statement};

/// A graph of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// What runs, in order.
    pub nodes: Vec<Node>,
    /// All loops, the outer one before those inside.
    pub loops: Vec<Loop>,
    /// All gates, in the order of the program; none if the graph always runs to its end.
    pub gates: Vec<Gate>,
}

/// A piece of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Something that is done.
    Task(Task),
    /// A loop: which one, where it is, and what it repeats.
    Loop(u32, Option<u32>, Vec<Node>),
    /// A checkpoint: which gate it is, where it is, and what belongs to it.
    Checkpoint(u32, Option<u32>, Vec<Node>),
    /// Sections that do not depend on each other, and where they are.
    Sections(Option<u32>, Vec<Vec<Node>>),
}

/// Something that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its number in the order of the program.
    pub id: u32,
    /// Whether it is a parallel loop.
    pub is_parallel: bool,
    /// The site that it comes from.
    pub site: Option<u32>,
    /// The gate that it is behind.
    pub gate: Option<u32>,
    /// Arrays that it reads.
    pub reads: Vec<ArrayId>,
    /// Arrays that it writes.
    pub writes: Vec<ArrayId>,
}

/// A loop of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// What it depends on.
    pub counter: ArrayId,
    /// The loop around it.
    pub parent: Option<u32>,
}

/// Where a launch can begin, and may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Which of the kernel's labels it has; nothing for a loop outside of checkpoints.
    pub label: Option<u32>,
    /// What decides whether the launch ends there.
    pub flag: Option<ArrayId>,
    /// The loop around it.
    pub parent: Option<u32>,
}

/// The graph of a kernel.
#[must_use]
pub fn graph_of(kernel: &Kernel) -> Graph {
    let mut reader = Reader {
        has_gates: kernel.labels.is_some(),
        rematerialised: rematerialised(kernel),
        ..Reader::default()
    };
    let nodes = reader.block(&kernel.body);
    Graph { nodes, ..reader.graph }
}

#[derive(Default)]
struct Reader {
    has_gates: bool,
    rematerialised: FxHashSet<LocalId>,
    /// What is read for values that have no task of their own.
    reads: FxHashMap<LocalId, FxHashSet<ArrayId>>,
    graph: Graph,
    tasks: u32,
    parent: Option<u32>,
    /// The checkpoint that is being read.
    gate: Option<u32>,
}

impl Reader {
    fn block(&mut self, block: &Block) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut site = None;
        // Statements in a row, and where the first of them is.
        let mut row: (Vec<&Statement>, Option<u32>) = (Vec::new(), None);
        for statement in &block.statements {
            match &statement.kind {
                Kind::At(at) => site = Some(*at),
                Kind::Parallel(_) => {
                    self.end_row(&mut row, &mut nodes);
                    let own = self.has_gates && self.gate.is_none();
                    let gate = if own { Some(self.new_gate(None, None)) } else { self.gate };
                    let task = self.task(true, site, gate, &[statement]);
                    nodes.push(task);
                }
                Kind::DoWhile(do_while) => {
                    self.end_row(&mut row, &mut nodes);
                    let id = self.graph.loops.len() as u32;
                    self.graph.loops.push(Loop { counter: do_while.counter, parent: self.parent });
                    let outer = self.parent.replace(id);
                    let body = self.block(&do_while.body);
                    self.parent = outer;
                    nodes.push(Node::Loop(id, site, body));
                }
                Kind::Checkpoint(checkpoint) => {
                    self.end_row(&mut row, &mut nodes);
                    let gate = self.new_gate(Some(checkpoint.label), checkpoint.flag);
                    let outer = self.gate.replace(gate);
                    let body = self.block(&checkpoint.body);
                    self.gate = outer;
                    nodes.push(Node::Checkpoint(gate, site, body));
                }
                Kind::Sections(sections) => {
                    self.end_row(&mut row, &mut nodes);
                    let sections = sections.iter().map(|section| self.block(section)).collect();
                    nodes.push(Node::Sections(site, sections));
                }
                // Part of whatever uses it.
                Kind::Let(id, _) => {
                    let (reads, _) = self.touched(statement);
                    self.reads.insert(*id, reads);
                }
                kind if kind.sets().is_some_and(|id| self.rematerialised.contains(&id)) => {}
                _ => {
                    if row.0.is_empty() {
                        row.1 = site;
                    }
                    row.0.push(statement);
                }
            }
        }
        self.end_row(&mut row, &mut nodes);
        nodes
    }

    fn end_row(&mut self, row: &mut (Vec<&Statement>, Option<u32>), nodes: &mut Vec<Node>) {
        if !row.0.is_empty() {
            let (statements, site) = std::mem::take(row);
            nodes.push(self.task(false, site, self.gate, &statements));
        }
    }

    fn new_gate(&mut self, label: Option<u32>, flag: Option<ArrayId>) -> u32 {
        self.graph.gates.push(Gate { label, flag, parent: self.parent });
        self.graph.gates.len() as u32 - 1
    }

    fn task(
        &mut self,
        is_parallel: bool,
        site: Option<u32>,
        gate: Option<u32>,
        statements: &[&Statement],
    ) -> Node {
        let (mut reads, mut writes) = (FxHashSet::default(), FxHashSet::default());
        for statement in statements {
            let (more, others) = self.touched(statement);
            reads.extend(more);
            writes.extend(others);
        }
        let sorted = |all: FxHashSet<ArrayId>| {
            let mut all: Vec<ArrayId> = all.into_iter().collect();
            all.sort_unstable();
            all
        };
        let id = self.tasks;
        self.tasks += 1;
        Node::Task(Task { id, is_parallel, site, gate, reads: sorted(reads), writes: sorted(writes) })
    }

    /// The arrays that a statement reads, and those that it writes.
    fn touched(&self, statement: &Statement) -> (FxHashSet<ArrayId>, FxHashSet<ArrayId>) {
        let (mut reads, mut writes) = (FxHashSet::default(), FxHashSet::default());
        let block = Block { locals: Vec::new(), statements: vec![statement.clone()] };
        block.each_expr(&mut |expr| {
            expr.any(&mut |inner| {
                match inner {
                    Expr::Load(place) => drop(reads.insert(place.array)),
                    Expr::Local(id) => reads.extend(self.reads.get(id).into_iter().flatten()),
                    _ => {}
                }
                false
            });
        });
        block.each(&mut |statement| {
            let mut changes = |target: &AtomicTarget| {
                if let AtomicTarget::Place(place) = target {
                    reads.insert(place.array);
                    writes.insert(place.array);
                }
            };
            match &statement.kind {
                Kind::Atomic(atomic) => changes(&atomic.target),
                Kind::Parallel(node) => {
                    node.reductions.iter().for_each(|reduction| changes(&reduction.target))
                }
                Kind::Store(place, _) => drop(writes.insert(place.array)),
                _ => {}
            }
        });
        (reads, writes)
    }
}

// -- What is known at a checkpoint -----------------------------------------------------------------

/// Variables that are set once, right in the graph, to something that only depends on the arguments: a launch
/// that begins at a checkpoint makes them again.
#[must_use]
pub fn rematerialised(kernel: &Kernel) -> FxHashSet<LocalId> {
    // How often each number of a variable is set, wherever that is.
    let mut sets: FxHashMap<(LocalId, u64), u32> = FxHashMap::default();
    let mut unclear = FxHashSet::default();
    kernel.body.each(&mut |statement| match &statement.kind {
        Kind::Let(id, _) | Kind::Set(id, _) => *sets.entry((*id, 0)).or_default() += 1,
        Kind::SetLane(id, Expr::Const(_, at), _) => *sets.entry((*id, *at)).or_default() += 1,
        Kind::Parallel(node) => {
            unclear.extend(node.reductions.iter().filter_map(|reduction| reduction.target.local()))
        }
        kind => unclear.extend(kind.sets()),
    });
    // A vector is known if all that is set of it is, and what depends on one that is not is not known either.
    loop {
        let mut once = Once { sets: &sets, unclear: &unclear, fixed: FxHashSet::default() };
        once.block(&kernel.body);
        let fixed = once.fixed;
        let partly: Vec<LocalId> =
            sets.keys().filter(|place| !fixed.contains(place)).map(|(id, _)| *id).collect();
        let before = unclear.len();
        unclear.extend(partly);
        if unclear.len() == before {
            return fixed.into_iter().map(|(id, _)| id).filter(|id| !unclear.contains(id)).collect();
        }
    }
}

struct Once<'k> {
    sets: &'k FxHashMap<(LocalId, u64), u32>,
    unclear: &'k FxHashSet<LocalId>,
    fixed: FxHashSet<(LocalId, u64)>,
}

impl Once<'_> {
    fn block(&mut self, block: &Block) {
        for statement in &block.statements {
            match &statement.kind {
                Kind::Let(id, value) | Kind::Set(id, value) => self.set((*id, 0), value),
                Kind::SetLane(id, Expr::Const(_, at), value) => self.set((*id, *at), value),
                Kind::DoWhile(do_while) => self.block(&do_while.body),
                Kind::Checkpoint(checkpoint) => self.block(&checkpoint.body),
                // Sections are functions of their own.
                _ => {}
            }
        }
    }

    fn set(&mut self, place: (LocalId, u64), value: &Expr) {
        let is_fixed = !value.any(&mut |inner| match inner {
            Expr::Load(_) => true,
            Expr::Local(id) => self.unclear.contains(id) || !self.fixed.contains(&(*id, 0)),
            Expr::Lane(id, at) => match &**at {
                Expr::Const(_, at) => self.unclear.contains(id) || !self.fixed.contains(&(*id, *at)),
                _ => true,
            },
            _ => false,
        });
        if is_fixed && self.sets.get(&place) == Some(&1) {
            self.fixed.insert(place);
        }
    }
}

/// A variable that a launch from a checkpoint would not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLive {
    /// The variable.
    pub local: LocalId,
    /// Which label.
    pub label: u32,
    /// Where it is mentioned first after that.
    pub site: Option<u32>,
}

/// Finds a variable that is set before a checkpoint, used in it or after it, and not made again.
#[must_use]
pub fn not_live_at_resume(kernel: &Kernel) -> Option<NotLive> {
    let known = rematerialised(kernel);
    let mut scan = Scan::default();
    scan.block(&kernel.body);
    let mut all: Vec<(&LocalId, &Mentions)> =
        scan.mentions.iter().filter(|(id, _)| !known.contains(id)).collect();
    all.sort_unstable_by_key(|(id, _)| **id);
    for (local, mentions) in all {
        let (mut first, mut last) = (mentions.first, mentions.last);
        for (begin, end) in &scan.loops {
            // What lives outside of a loop goes from one iteration to the next.
            let is_inside = mentions.places.iter().any(|(at, _)| begin <= at && at < end);
            let is_outer = mentions.declared.unwrap_or(mentions.first) < *begin;
            if is_inside && is_outer {
                (first, last) = (first.min(*begin), last.max(end - 1));
            }
        }
        if let Some((place, label)) = scan.labels.iter().find(|(at, _)| first < *at && *at <= last) {
            let after = mentions.places.iter().find(|(at, _)| place < at).or(mentions.places.last());
            return Some(NotLive { local: *local, label: *label, site: after.and_then(|(_, site)| *site) });
        }
    }
    None
}

/// Where a variable is mentioned, by the order of the program.
struct Mentions {
    first: u32,
    last: u32,
    /// All of them, and their sites.
    places: Vec<(u32, Option<u32>)>,
    declared: Option<u32>,
}

#[derive(Default)]
struct Scan {
    at: u32,
    site: Option<u32>,
    mentions: FxHashMap<LocalId, Mentions>,
    /// Where loops begin and end.
    loops: Vec<(u32, u32)>,
    /// Where checkpoints begin.
    labels: Vec<(u32, u32)>,
}

impl Scan {
    fn block(&mut self, block: &Block) {
        for id in &block.locals {
            self.declare(*id);
        }
        for statement in &block.statements {
            self.at += 1;
            match &statement.kind {
                Kind::At(site) => self.site = Some(*site),
                Kind::DoWhile(do_while) => {
                    let begin = self.at;
                    self.at += 1;
                    self.block(&do_while.body);
                    self.at += 1;
                    self.loops.push((begin, self.at));
                }
                Kind::Checkpoint(checkpoint) => {
                    self.labels.push((self.at, checkpoint.label));
                    self.block(&checkpoint.body);
                }
                kind => {
                    if let Kind::Let(id, _) = kind {
                        self.declare(*id);
                    }
                    let single = Block { locals: Vec::new(), statements: vec![statement.clone()] };
                    single.each_expr(&mut |expr| {
                        expr.any(&mut |inner| {
                            if let Expr::Local(id) | Expr::Lane(id, _) = inner {
                                self.mention(*id);
                            }
                            false
                        });
                    });
                    single.each(&mut |inner| {
                        inner.kind.sets().into_iter().for_each(|id| self.mention(id));
                        match &inner.kind {
                            Kind::Atomic(atomic) => atomic.old.into_iter().for_each(|id| self.mention(id)),
                            Kind::Parallel(node) => {
                                let targets =
                                    node.reductions.iter().filter_map(|reduction| reduction.target.local());
                                targets.for_each(|id| self.mention(id));
                            }
                            _ => {}
                        }
                    });
                }
            }
        }
    }

    fn declare(&mut self, id: LocalId) {
        let at = self.at;
        let none = || Mentions { first: u32::MAX, last: 0, places: Vec::new(), declared: None };
        self.mentions.entry(id).or_insert_with(none).declared = Some(at);
    }

    fn mention(&mut self, id: LocalId) {
        let (at, site) = (self.at, self.site);
        let none = || Mentions { first: at, last: at, places: Vec::new(), declared: None };
        let mentions = self.mentions.entry(id).or_insert_with(none);
        (mentions.first, mentions.last) = (mentions.first.min(at), mentions.last.max(at));
        if mentions.places.last() != Some(&(at, site)) {
            mentions.places.push((at, site));
        }
    }
}
