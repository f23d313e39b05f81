//! Parallel loops: a function that does a piece of one, and what it needs to know.

use std::collections::BTreeSet;

use keyprint_lang::ir::{ArrayId, AtomicOp, AtomicTarget, Block, Expr, Kind, LocalId, Parallel, Reduction};
use keyprint_lang::passes::fold;
use keyprint_lang::types::Scalar;

use crate::statement::{Role, Writer, cost, needs_failure, needs_random};
use crate::tick::{has_ticks, straight_cost};

/// Loops that take less than this many nanoseconds are not worth a look at the clock.
const TINY: u64 = 2000;

/// What a function leaves for another one to be written first.
pub(crate) struct Outside {
    out: String,
    level: usize,
    by_pointer: BTreeSet<LocalId>,
    role: Role,
    graph_level: usize,
    graph_loops: u32,
}

/// What a loop captures of what is around it.
pub(crate) struct Captured {
    arrays: Vec<ArrayId>,
    numbers: Vec<u32>,
    /// Locals that are only read, and have one number.
    copied: Vec<LocalId>,
    /// All others.
    shared: Vec<LocalId>,
}

impl Captured {
    /// The arrays and numbers among it.
    pub(crate) fn arguments(self) -> (Vec<ArrayId>, Vec<u32>) {
        (self.arrays, self.numbers)
    }
}

impl Writer<'_> {
    pub(crate) fn parallel(&mut self, loop_stmt: &Parallel) {
        let task = self.tasks;
        self.tasks += 1;
        let captured = self.captured(loop_stmt);
        let (random, failure) = (needs_random(&loop_stmt.body), needs_failure(&loop_stmt.body));
        self.write_task(task, loop_stmt, &captured, random, failure);
        // The call, where the loop is.
        self.push("{");
        self.level += 1;
        let name = self.make_context(task, &captured, random, failure);
        let mut count = Vec::new();
        for (at, (from, to)) in loop_stmt.from.iter().zip(&loop_stmt.to).enumerate() {
            let (from, to) = (self.bare(from), self.bare(to));
            self.push(&format!("{name}.from{at} = {from};"));
            self.push(&format!("{name}.count{at} = (i64)({to}) - (i64){name}.from{at};"));
            self.push(&format!("if ({name}.count{at} < 0) {name}.count{at} = 0;"));
            count.push(format!("{name}.count{at}"));
        }
        self.push(&format!("const i64 kp_count = {};", count.join(" * ")));
        let tiny = TINY / cost(&loop_stmt.body).max(1);
        let grain = loop_stmt.grain.unwrap_or(0);
        self.push(&format!(
            "if (kp_count <= {tiny}) {{ if (kp_count > 0) kp_task{task}(&{name}, 0, kp_count); }}"
        ));
        let stop = self.stop();
        self.push(&format!("else kp->run(kp_task{task}, &{name}, kp_count, {grain}, {stop});"));
        self.end_if_stopped();
        if failure {
            self.end_if_failed();
        }
        self.level -= 1;
        self.push("}");
    }

    /// Makes what a function is handed; returns its name.
    pub(crate) fn make_context(
        &mut self,
        task: u32,
        captured: &Captured,
        random: bool,
        failure: bool,
    ) -> String {
        let name = format!("c{task}");
        self.push(&format!("struct kp_context{task} {name};"));
        let stop = self.stop();
        self.push(&format!("{name}.w = w; {name}.kp_stop = {stop};"));
        if random {
            // In a loop of a graph it draws other numbers each time.
            let again = if self.graph_loops > 0 { " + ++kp_draws * 0xd1342543de82ef95ULL" } else { "" };
            self.push(&format!("{name}.kp_key = kp_key + {task} * 0x9e3779b97f4a7c15ULL{again};"));
        }
        if failure {
            let failure = self.failure();
            self.push(&format!("{name}.kp_failure = {failure};"));
        }
        for id in &captured.copied {
            let local = self.local_name(*id);
            let value = self.local(*id);
            self.push(&format!("{name}.{local} = {value};"));
        }
        for id in &captured.shared {
            let local = self.local_name(*id);
            let address = if self.is_array(*id) { self.local(*id) } else { format!("&{}", self.local(*id)) };
            self.push(&format!("{name}.{local} = {address};"));
        }
        name
    }

    fn is_array(&self, id: LocalId) -> bool {
        self.kernel.locals[id as usize].lanes > 0
    }

    fn captured(&self, loop_stmt: &Parallel) -> Captured {
        let mut inside: BTreeSet<LocalId> = loop_stmt.variables.iter().copied().collect();
        inside.extend(loop_stmt.reductions.iter().map(|reduction| reduction.local));
        self.captured_by(&loop_stmt.body, inside, &loop_stmt.reductions)
    }

    /// What statements capture that are put into a function of their own.
    pub(crate) fn captured_by(
        &self,
        body: &Block,
        mut inside: BTreeSet<LocalId>,
        reductions: &[Reduction],
    ) -> Captured {
        declared(body, &mut inside);
        let (mut arrays, mut numbers) = (BTreeSet::new(), BTreeSet::new());
        let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
        let mut visit = |expr: &Expr| {
            expr.any(&mut |inner| {
                match inner {
                    Expr::Local(id) | Expr::Lane(id, _) => drop(read.insert(*id)),
                    Expr::Load(place) => drop(arrays.insert(place.array)),
                    Expr::Size(id, _) => drop(arrays.insert(*id)),
                    Expr::Number(id) => drop(numbers.insert(*id)),
                    _ => {}
                }
                false
            });
        };
        body.each_expr(&mut visit);
        reductions.iter().flat_map(|reduction| reduction.target.expressions()).for_each(&mut visit);
        let mut target = |target: &AtomicTarget| match target {
            AtomicTarget::Place(place) => drop(arrays.insert(place.array)),
            AtomicTarget::Local(id) | AtomicTarget::Lane(id, _) => drop(written.insert(*id)),
        };
        reductions.iter().for_each(|reduction| target(&reduction.target));
        body.each(&mut |statement| match &statement.kind {
            Kind::Atomic(atomic) => target(&atomic.target),
            Kind::Parallel(node) => node.reductions.iter().for_each(|reduction| target(&reduction.target)),
            _ => {}
        });
        body.each(&mut |statement| match &statement.kind {
            Kind::Store(place, _) => drop(arrays.insert(place.array)),
            Kind::Set(id, _) | Kind::SetLane(id, ..) => drop(written.insert(*id)),
            _ => {}
        });
        let outside = |id: &&LocalId| !inside.contains(id);
        let is_copied = |id: &&LocalId| !written.contains(id) && !self.is_array(**id);
        let all: BTreeSet<LocalId> = read.union(&written).copied().collect();
        Captured {
            arrays: arrays.into_iter().collect(),
            numbers: numbers.into_iter().collect(),
            copied: all.iter().filter(outside).filter(is_copied).copied().collect(),
            shared: all.iter().filter(outside).filter(|id| !is_copied(id)).copied().collect(),
        }
    }

    fn write_task(
        &mut self,
        task: u32,
        loop_stmt: &Parallel,
        captured: &Captured,
        random: bool,
        failure: bool,
    ) {
        let outer = self.begin_functions(Role::Task);
        self.begin_context(task, random, failure);
        for (at, variable) in loop_stmt.variables.iter().enumerate() {
            let t = self.type_of(*variable);
            self.push(&format!("{t} from{at}; i64 count{at};"));
        }
        self.end_context(captured);
        self.push(&format!("static void kp_task{task}(void *kp_context, i64 kp_begin, i64 kp_end) {{"));
        self.level += 1;
        self.open_context(task, captured);
        self.begin_ticks(&loop_stmt.body);
        if random {
            self.push("const u64 kp_key = c->kp_key;");
        }
        for reduction in &loop_stmt.reductions {
            let scalar = self.kernel.locals[reduction.local as usize].scalar;
            let start = identity(reduction.op, scalar);
            let start = self.constant(scalar, start);
            let text =
                format!("{} {} = {start};", self.type_of(reduction.local), self.local_name(reduction.local));
            self.push(&text);
        }
        self.loops(loop_stmt, random);
        for reduction in &loop_stmt.reductions {
            let scalar = self.kernel.locals[reduction.local as usize].scalar;
            let helper = self.functions.atomic(reduction.op, scalar, scalar);
            let target = self.target(&reduction.target);
            let text = format!("{helper}(&{target}, {});", self.local_name(reduction.local));
            self.push(&text);
        }
        self.level -= 1;
        self.push("}\n");
        self.end_functions(outer);
    }

    /// Begins to write functions of their own.
    pub(crate) fn begin_functions(&mut self, role: Role) -> Outside {
        Outside {
            out: std::mem::take(&mut self.out),
            level: std::mem::replace(&mut self.level, 0),
            by_pointer: std::mem::take(&mut self.by_pointer),
            role: std::mem::replace(&mut self.role, role),
            graph_level: std::mem::replace(&mut self.graph_level, 1),
            graph_loops: std::mem::replace(&mut self.graph_loops, 0),
        }
    }

    /// Goes on where it was: what was written comes before it.
    pub(crate) fn end_functions(&mut self, outer: Outside) {
        let text = std::mem::replace(&mut self.out, outer.out);
        self.done.push_str(&text);
        (self.level, self.by_pointer, self.role) = (outer.level, outer.by_pointer, outer.role);
        (self.graph_level, self.graph_loops) = (outer.graph_level, outer.graph_loops);
    }

    /// Begins the struct of what a function is handed.
    pub(crate) fn begin_context(&mut self, task: u32, random: bool, failure: bool) {
        self.push(&format!("struct kp_context{task} {{"));
        self.level += 1;
        self.push("u64 *w; i32 *kp_stop;");
        if random {
            self.push("u64 kp_key;");
        }
        if failure {
            self.push("struct kp_failure *kp_failure;");
        }
    }

    pub(crate) fn end_context(&mut self, captured: &Captured) {
        for id in captured.copied.iter().chain(&captured.shared) {
            let star = if captured.shared.contains(id) { "*" } else { "" };
            let text = format!("{} {star}{};", self.type_of(*id), self.local_name(*id));
            self.push(&text);
        }
        self.level -= 1;
        self.push("};\n");
    }

    /// Declares, in a function, what it was handed.
    pub(crate) fn open_context(&mut self, task: u32, captured: &Captured) {
        self.push(&format!("const struct kp_context{task} *const c = kp_context;"));
        self.push("u64 *const w = c->w;");
        self.arguments(&captured.arrays, &captured.numbers);
        for id in &captured.copied {
            let (t, name) = (self.type_of(*id), self.local_name(*id));
            self.push(&format!("const {t} {name} = c->{name};"));
        }
        for id in &captured.shared {
            let (t, name) = (self.type_of(*id), self.local_name(*id));
            self.push(&format!("{t} *const {name} = c->{name};"));
            if !self.is_array(*id) {
                self.by_pointer.insert(*id);
            }
        }
    }

    /// The loops over a piece: rows of the last dimension, so that compilers see a plain loop.
    fn loops(&mut self, loop_stmt: &Parallel, random: bool) {
        let last = loop_stmt.variables.len() - 1;
        let (t, name) = (self.type_of(loop_stmt.variables[last]), self.local_name(loop_stmt.variables[last]));
        let (mut begin, mut end) = ("kp_begin".to_owned(), "kp_end".to_owned());
        if last > 0 {
            self.push(&format!("const i64 kp_row = c->count{last};"));
            self.push("for (i64 kp_r = kp_begin / kp_row; kp_r * kp_row < kp_end; ++kp_r) {");
            self.level += 1;
            self.push("i64 kp_rest = kp_r;");
            for at in (0..last).rev() {
                let (t, name) =
                    (self.type_of(loop_stmt.variables[at]), self.local_name(loop_stmt.variables[at]));
                if at == 0 {
                    self.push(&format!("const {t} {name} = ({t})(c->from{at} + kp_rest);"));
                } else {
                    self.push(&format!("const {t} {name} = ({t})(c->from{at} + kp_rest % c->count{at});"));
                    self.push(&format!("kp_rest /= c->count{at};"));
                }
            }
            self.push("const i64 kp_first = kp_begin - kp_r * kp_row, kp_last = kp_end - kp_r * kp_row;");
            begin = "(kp_first > 0 ? kp_first : 0)".to_owned();
            end = "(kp_last < kp_row ? kp_last : kp_row)".to_owned();
        }
        self.push(&format!(
            "const {t} kp_low = ({t})(c->from{last} + {begin}), kp_high = ({t})(c->from{last} + {end});"
        ));
        if is_simple(&loop_stmt.body) {
            self.push("KP_INDEPENDENT");
        }
        self.push(&format!("for ({t} {name} = kp_low; {name} < kp_high; ++{name}) {{"));
        self.level += 1;
        if random {
            let row = if last > 0 { "kp_r * kp_row + " } else { "" };
            self.push(&format!(
                "const u64 kp_at = (u64)({row}(i64){name} - (i64)c->from{last}); u32 kp_n = 0;"
            ));
        }
        if has_ticks(&loop_stmt.body) {
            self.tick(&straight_cost(&loop_stmt.body).to_string());
        }
        self.block_inside(&loop_stmt.body);
        self.level -= 1;
        self.push("}");
        if last > 0 {
            self.level -= 1;
            self.push("}");
        }
    }
}

/// Whether iterations could be done several at a time: nothing in them has an order.
fn is_simple(body: &Block) -> bool {
    let mut simple = true;
    body.each(&mut |statement| {
        simple &=
            !matches!(statement.kind, Kind::Atomic(_) | Kind::Print(_) | Kind::Check { .. } | Kind::Loop(_));
    });
    simple
}

pub(crate) fn declared(block: &Block, into: &mut BTreeSet<LocalId>) {
    into.extend(&block.locals);
    for statement in &block.statements {
        match &statement.kind {
            Kind::Let(id, _) | Kind::Random(id) => drop(into.insert(*id)),
            Kind::Atomic(atomic) => into.extend(atomic.old),
            Kind::For(loop_stmt) => drop(into.insert(loop_stmt.variable)),
            Kind::Parallel(loop_stmt) => {
                into.extend(&loop_stmt.variables);
                into.extend(loop_stmt.reductions.iter().map(|reduction| reduction.local));
            }
            _ => {}
        }
        statement.kind.parts(&mut |_| {}, &mut |inner| declared(inner, into));
    }
}

/// What changes nothing.
pub(crate) fn identity(op: AtomicOp, scalar: Scalar) -> u64 {
    let float = |value: f64| fold::float_bits(scalar, value);
    let bits = i128::from(scalar.bits());
    let (low, high) = if scalar.is_signed() {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    match op {
        // A negative zero stays one.
        AtomicOp::Add if scalar.is_float() => float(-0.0),
        AtomicOp::Mul if scalar.is_float() => float(1.0),
        AtomicOp::Min if scalar.is_float() => float(f64::INFINITY),
        AtomicOp::Max if scalar.is_float() => float(f64::NEG_INFINITY),
        AtomicOp::Add | AtomicOp::Or | AtomicOp::Xor => 0,
        AtomicOp::Mul => 1,
        AtomicOp::Min => fold::wrap(scalar, high),
        AtomicOp::Max => fold::wrap(scalar, low),
        AtomicOp::And => fold::wrap(scalar, -1),
    }
}
