//! Loops that can be interrupted: how often they ask whether to stop.
//!
//! Whatever is between two questions is straight code, whose cost is known well enough. So a function counts down
//! what its loops have cost, about, and asks when that is used up. An innermost loop that nothing leaves runs in
//! strips, so that compilers see a plain loop; any other asks in each turn, which is a subtraction.

use keyprint_lang::ir::{Block, Expr, For, Kind};
use keyprint_lang::passes::fold;
use keyprint_lang::types::Scalar;

use crate::statement::{Role, Writer, cost_of_statement};

/// About how many nanoseconds go by between two questions, if what code costs is guessed right.
const PATIENCE: u64 = 2_000_000;

/// Loops of a known length that take less than this many nanoseconds ask nothing.
const SHORT: u64 = 20_000;

/// When a loop asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ticks {
    /// Never: it is short.
    Never,
    /// After so many iterations.
    Strips(u64),
    /// In every iteration.
    Turns,
}

impl Ticks {
    pub(crate) fn of(loop_stmt: &For) -> Self {
        Self::decide(loop_stmt, Look::at(&loop_stmt.body))
    }

    fn decide(loop_stmt: &For, body: Look) -> Self {
        if body.ticks || loop_stmt.body.leaves_loop() {
            return Self::Turns;
        }
        let each = body.cost();
        match trips(loop_stmt) {
            Some(trips) if trips.saturating_mul(each) < SHORT => Self::Never,
            _ => Self::Strips((PATIENCE / each).max(1)),
        }
    }
}

/// What a block does between two questions.
#[derive(Clone, Copy, Default)]
struct Look {
    /// Whether loops in it ask; those of functions of their own aside.
    ticks: bool,
    /// About how many tenths of nanoseconds it takes, loops aside that count for themselves.
    tenths: u64,
}

impl Look {
    fn at(block: &Block) -> Self {
        let mut look = Self { ticks: false, tenths: 2 };
        for statement in &block.statements {
            let own = cost_of_statement(&statement.kind);
            look.tenths += own;
            match &statement.kind {
                Kind::For(loop_stmt) => {
                    let body = Self::at(&loop_stmt.body);
                    match (Ticks::decide(loop_stmt, body), trips(loop_stmt)) {
                        (Ticks::Never, Some(trips)) => {
                            look.tenths += body.tenths.saturating_mul(trips);
                        }
                        _ => look.ticks = true,
                    }
                }
                Kind::Loop(_) => look.ticks = true,
                Kind::Parallel(_) | Kind::Sections(_) => {}
                kind => kind.parts(&mut |_| {}, &mut |inner| {
                    let inner = Self::at(inner);
                    look.ticks |= inner.ticks;
                    look.tenths += inner.tenths;
                }),
            }
            look.tenths = look.tenths.min(1 << 40);
        }
        look
    }

    fn cost(self) -> u64 {
        self.tenths.div_ceil(10)
    }
}

/// How often a loop runs, if that is known.
fn trips(loop_stmt: &For) -> Option<u64> {
    match (&loop_stmt.from, &loop_stmt.to) {
        (Expr::Const(scalar, from), Expr::Const(_, to)) => {
            let (from, to) = (fold::whole(*scalar, *from), fold::whole(*scalar, *to));
            u64::try_from((to - from).max(0)).ok()
        }
        _ => None,
    }
}

/// Whether loops in a block ask whether to stop; those of functions of their own aside.
pub(crate) fn has_ticks(block: &Block) -> bool {
    Look::at(block).ticks
}

/// Whether a block runs something that may have been stopped.
pub(crate) fn can_stop(block: &Block) -> bool {
    let mut stops = has_ticks(block);
    block.each(&mut |statement| stops |= matches!(statement.kind, Kind::Parallel(_) | Kind::Sections(_)));
    stops
}

/// About how many nanoseconds a block takes, loops aside that count for themselves.
pub(crate) fn straight_cost(block: &Block) -> u64 {
    Look::at(block).cost()
}

impl Writer<'_> {
    /// Declares what counts down, in a function that needs it.
    pub(crate) fn begin_ticks(&mut self, body: &Block) {
        if has_ticks(body) {
            self.push(&format!("i64 kp_left = {PATIENCE};"));
        }
    }

    /// Where it is said that a launch is to stop.
    pub(crate) fn stop(&self) -> &'static str {
        if self.role == Role::Entry { "&kp_stop" } else { "c->kp_stop" }
    }

    /// Counts what was done, and asks now and then.
    pub(crate) fn tick(&mut self, done: &str) {
        let stop = self.stop();
        self.push(&format!("if (__builtin_expect((kp_left -= {done}) < 0, 0)) {{"));
        self.level += 1;
        self.push(&format!("kp_left = {PATIENCE};"));
        self.push(&format!("if (kp->tick({stop})) {{"));
        self.level += 1;
        self.end_stopped();
        self.level -= 1;
        self.push("}");
        self.level -= 1;
        self.push("}");
    }

    /// Ends if something that was run has been stopped.
    pub(crate) fn end_if_stopped(&mut self) {
        let stop = self.stop();
        self.push(&format!("if (__builtin_expect(__atomic_load_n({stop}, __ATOMIC_RELAXED), 0)) {{"));
        self.level += 1;
        self.end_stopped();
        self.level -= 1;
        self.push("}");
    }

    /// A loop in order.
    pub(crate) fn for_loop(&mut self, loop_stmt: &For) {
        let (from, to) = (self.bare(&loop_stmt.from), self.bare(&loop_stmt.to));
        let (t, name) = (self.type_of(loop_stmt.variable), self.local_name(loop_stmt.variable));
        let end = format!("{name}_end");
        let ticks = if self.role == Role::Device { Ticks::Never } else { Ticks::of(loop_stmt) };
        let Ticks::Strips(strip) = ticks else {
            self.push(&format!("for ({t} {name} = {from}, {end} = {to}; {name} < {end}; ++{name}) {{"));
            self.level += 1;
            if ticks == Ticks::Turns {
                self.tick(&straight_cost(&loop_stmt.body).to_string());
            }
            self.block_inside(&loop_stmt.body);
            self.level -= 1;
            self.push("}");
            return;
        };
        // A strip never reaches beyond what the type of the variable can hold.
        let most = match self.kernel.locals[loop_stmt.variable as usize].scalar {
            Scalar::I64 | Scalar::U64 => u64::MAX >> 1,
            scalar => u64::MAX >> (65 - scalar.bits()),
        };
        let strip = strip.min(most);
        self.push(&format!("for ({t} {name}_at = {from}, {end} = {to}; {name}_at < {end};) {{"));
        self.level += 1;
        self.push(&format!(
            "const {t} {name}_stop = (u64){end} - (u64){name}_at > {strip}ULL ? ({t})({name}_at + ({t}){strip}) : {end};"
        ));
        self.push(&format!("for ({t} {name} = {name}_at; {name} < {name}_stop; ++{name}) {{"));
        self.level += 1;
        self.block_inside(&loop_stmt.body);
        self.level -= 1;
        self.push("}");
        self.tick(&format!("(i64)((u64){name}_stop - (u64){name}_at) * {}", straight_cost(&loop_stmt.body)));
        self.push(&format!("{name}_at = {name}_stop;"));
        self.level -= 1;
        self.push("}");
    }
}
