//! Graphs on the CPU: loops, gates and sections as plain C.
//!
//! A launch of a kernel with checkpoints may begin at one of them: until then `kp_skip` is set, and whatever has
//! an effect is behind a look at it. Variables that only depend on the arguments are made all the same.

use std::collections::BTreeSet;

use keyprint_lang::graph::rematerialised;
use keyprint_lang::ir::{ArrayId, Block, Checkpoint, DoWhile, Expr, Kernel, Kind, LocalId, Place, Statement};

use crate::abi::Status;
use crate::statement::{Role, Writer, needs_failure, needs_random};

impl Writer<'_> {
    /// Writes the body of the kernel.
    pub(crate) fn graph_body(&mut self, body: &Block) {
        if has_loops(body) {
            self.push("struct kp_pace kp_pace = {0, 1, 1, 0, 0};");
            if needs_random(body) {
                self.push("u64 kp_draws = 0;");
            }
        }
        if self.kernel.labels.is_none() {
            return self.block_inside(body);
        }
        let place = self.slots.list.len();
        self.push(&format!("const u64 kp_from = w[{place}];"));
        self.push(&format!("w[{place}] = 0;"));
        self.push("i32 kp_skip = kp_from != 0;");
        self.rematerialised = rematerialised(self.kernel).into_iter().collect();
        self.gated(body);
        self.push("kp_yield:;");
    }

    /// Statements right in the graph of a kernel with checkpoints.
    fn gated(&mut self, block: &Block) {
        let mut locals: BTreeSet<LocalId> = block.locals.iter().copied().collect();
        for statement in &block.statements {
            let declared = match &statement.kind {
                Kind::Let(id, _) | Kind::Random(id) => Some(*id),
                Kind::Atomic(atomic) => atomic.old,
                _ => None,
            };
            locals.extend(declared);
            self.hoisted.extend(declared);
        }
        for id in locals {
            self.declare(id);
        }
        let mut row: Vec<&Statement> = Vec::new();
        for statement in &block.statements {
            if is_open(&statement.kind, &self.rematerialised) {
                // What is wrong with something that is made again is wrong then, too: its checks are before it.
                let is_own = |earlier: &&Statement| is_own_check(self.kernel, earlier, &self.rematerialised);
                let many = row.iter().rev().take_while(|earlier| is_own(earlier)).count();
                let checks = row.split_off(row.len() - many);
                self.row(&std::mem::take(&mut row));
                for check in checks {
                    self.statement(check);
                }
                self.statement(statement);
            } else {
                row.push(statement);
            }
        }
        self.row(&row);
    }

    /// Statements that are skipped together.
    fn row(&mut self, statements: &[&Statement]) {
        if statements.iter().all(|statement| matches!(statement.kind, Kind::At(_))) {
            return;
        }
        self.push("if (!kp_skip) {");
        self.level += 1;
        let outer = std::mem::replace(&mut self.graph_level, self.level);
        for statement in statements {
            self.statement(statement);
        }
        self.graph_level = outer;
        self.level -= 1;
        self.push("}");
    }

    pub(crate) fn do_while(&mut self, do_while: &DoWhile) {
        let labels = labels_in(&do_while.body);
        let gate = match (labels.first(), labels.last()) {
            // The launch may begin inside.
            (Some(first), Some(last)) => {
                format!("if (!kp_skip || kp_from - {} <= {}) ", first + 1, last - first)
            }
            _ => String::new(),
        };
        self.push(&format!("{gate}do {{"));
        self.level += 1;
        self.graph_loops += 1;
        let outer = std::mem::replace(&mut self.graph_level, self.level);
        if labels.is_empty() {
            self.block_inside(&do_while.body);
        } else {
            self.gated(&do_while.body);
        }
        let stopped = Status::Stopped as u32;
        self.push(&format!(
            "if (++kp_pace.turns == kp_pace.next && kp->poll(&kp_token, &kp_pace)) return {stopped};"
        ));
        self.graph_level = outer;
        self.graph_loops -= 1;
        self.level -= 1;
        let counter = self.number_in(do_while.counter);
        self.push(&format!("}} while ({counter} != 0);"));
        self.lock();
    }

    pub(crate) fn checkpoint(&mut self, checkpoint: &Checkpoint) {
        let (number, place) = (checkpoint.label + 1, self.slots.list.len());
        self.push(&format!("if (kp_from == {number}) kp_skip = 0;"));
        self.gated(&checkpoint.body);
        if let Some(flag) = checkpoint.flag {
            let flag = self.number_in(flag);
            self.push(&format!("if (!kp_skip && {flag} != 0) {{ w[{place}] = {number}; goto kp_yield; }}"));
        }
    }

    /// The number in an array without dimensions.
    pub(crate) fn number_in(&mut self, array: ArrayId) -> String {
        self.place(&Place { array, index: Vec::new(), lane: None })
    }

    pub(crate) fn sections(&mut self, sections: &[Block]) {
        if sections.is_empty() {
            return;
        }
        let task = self.tasks;
        self.tasks += 1;
        let whole = Statement { line: 0, kind: Kind::Sections(sections.to_vec()) };
        let whole = Block { locals: Vec::new(), statements: vec![whole] };
        let captured = self.captured_by(&whole, BTreeSet::new(), &[]);
        let (random, failure) = (needs_random(&whole), needs_failure(&whole));
        let outer = self.begin_functions(Role::Section);
        self.begin_context(task, random, failure);
        self.end_context(&captured);
        for (at, section) in sections.iter().enumerate() {
            // Tasks of the section come before it.
            let before = std::mem::take(&mut self.by_pointer);
            self.push(&format!("static void kp_section{task}_{at}(void *kp_context) {{"));
            self.level += 1;
            self.open_context(task, &captured);
            if random {
                self.push(&format!("const u64 kp_key = c->kp_key + {at} * 0x94d049bb133111ebULL;"));
                self.push("u64 kp_at = ~0ULL >> 21; u32 kp_n = 0;");
            }
            self.push("void *kp_token = 0;");
            self.begin_ticks(section);
            self.block_inside(section);
            self.level -= 1;
            self.push("}\n");
            self.by_pointer = before;
        }
        self.push(&format!("static void kp_sections{task}(void *kp_context, i64 kp_begin, i64 kp_end) {{"));
        self.push("  for (i64 kp_at = kp_begin; kp_at < kp_end; ++kp_at) switch (kp_at) {");
        for at in 0..sections.len() {
            self.push(&format!("    case {at}: kp_section{task}_{at}(kp_context); break;"));
        }
        self.push("  }\n}\n");
        self.end_functions(outer);
        self.push("{");
        self.level += 1;
        let name = self.make_context(task, &captured, random, failure);
        self.push("static i64 kp_state;");
        self.push(&format!("kp->sections(kp_sections{task}, &{name}, {}, &kp_state);", sections.len()));
        self.end_if_stopped();
        if failure {
            self.end_if_failed();
        }
        self.level -= 1;
        self.push("}");
    }
}

/// Whether a statement is looked at wherever a launch begins: one may begin in it, or it is made again.
fn is_open(kind: &Kind, rematerialised: &BTreeSet<LocalId>) -> bool {
    match kind {
        Kind::Checkpoint(_) => true,
        Kind::DoWhile(do_while) => !labels_in(&do_while.body).is_empty(),
        kind => kind.sets().is_some_and(|id| rematerialised.contains(&id)),
    }
}

/// Whether a statement is a check that is the same wherever a launch begins, and none of the program's own.
fn is_own_check(kernel: &Kernel, statement: &Statement, rematerialised: &BTreeSet<LocalId>) -> bool {
    match &statement.kind {
        Kind::Check { condition, site, .. } => {
            is_known(condition, rematerialised) && !kernel.sites[*site as usize].text.starts_with("assert")
        }
        _ => false,
    }
}

/// Whether the first of these statements is such a check, of something right behind it.
pub(crate) fn belongs_to_next(
    kernel: &Kernel,
    statements: &[Statement],
    rematerialised: &BTreeSet<LocalId>,
) -> bool {
    let is_own = |statement: &&Statement| is_own_check(kernel, statement, rematerialised);
    let many = statements.iter().take_while(is_own).count();
    many > 0 && statements.get(many).is_some_and(|next| is_open(&next.kind, rematerialised))
}

/// Whether an expression is the same wherever a launch begins.
fn is_known(expr: &Expr, rematerialised: &BTreeSet<LocalId>) -> bool {
    !expr.any(&mut |inner| match inner {
        Expr::Load(_) => true,
        Expr::Local(id) | Expr::Lane(id, _) => !rematerialised.contains(id),
        _ => false,
    })
}

fn has_loops(body: &Block) -> bool {
    let mut has_loop = false;
    body.each(&mut |statement| has_loop |= matches!(statement.kind, Kind::DoWhile(_)));
    has_loop
}

/// The labels in a piece of a graph, in order.
pub(crate) fn labels_in(body: &Block) -> Vec<u32> {
    let mut labels = Vec::new();
    body.each(&mut |statement| {
        if let Kind::Checkpoint(checkpoint) = &statement.kind {
            labels.push(checkpoint.label);
        }
    });
    labels
}
