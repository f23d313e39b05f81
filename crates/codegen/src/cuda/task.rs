//! Tasks as functions of a device: grids, and single threads.

use std::collections::BTreeSet;
use std::fmt::Write;

use keyprint_lang::ir::{
    ArrayId, AtomicTarget, Binary, Block, Expr, Kernel, Kind, Layout, LocalId, Origin, Parallel, Part,
    ScopeId, Statement,
};
use keyprint_lang::passes::fold;
use keyprint_lang::types::Scalar;

use super::bins::Bins;
use super::plan::{Check, Count, Extent, LaunchPlan, Op, Place, PrintPart, Step, TaskPlan};
use super::split::{Action, Draws, Split, Task, Work};
use crate::abi::Slots;
use crate::statement::{Writer, cost, kind_of, needs_random};
use crate::task::identity;

/// How a task gets at its slots, and which threads it is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A kernel that takes slots by value.
    Kernel,
    /// A kernel of a graph: slots are in the memory of the device.
    Node,
    /// A function that all threads of one kernel call, which runs the whole graph.
    Part,
}

/// How the iterations of a loop are spread over threads.
#[derive(Clone, Copy)]
struct Shape {
    /// Each has a thread of its own.
    is_covered: bool,
    /// Threads go on to other rows.
    goes_on: bool,
    /// They are numbered through, whatever dimensions there are.
    is_flat: bool,
}

/// What keys of random numbers are told apart by: tasks, turns of loops, sections.
const BY_TASK: &str = "0x9e3779b97f4a7c15ULL";
const BY_TURN: &str = "0xd1342543de82ef95ULL";
const BY_SECTION: &str = "0x94d049bb133111ebULL";

impl Writer<'_> {
    /// Declares the frame; returns its text, and how many bytes it has.
    pub(crate) fn frame(&mut self, split: &Split<'_>, random: bool) -> (String, usize) {
        let mut lines = Vec::new();
        let mut bytes = 0;
        let mut member = |line: String, size: usize, count: usize| {
            bytes = usize::next_multiple_of(bytes, size) + size * count;
            lines.push(line);
        };
        if split.ends_early && !split.is_graph() {
            member("i32 kp_done;".to_owned(), 4, 1);
        }
        for id in &split.left {
            member(format!("i32 kp_left_{id};"), 4, 1);
        }
        let draws_in_order = |task: &&Task<'_>| random && task.work.statements().any(draws);
        let names: BTreeSet<String> =
            split.tasks.iter().filter(draws_in_order).map(|task| drawn(task.draws)).collect();
        for name in names {
            member(format!("u32 {name};"), 4, 1);
        }
        if split.draws_anew() {
            member("u64 kp_draws;".to_owned(), 8, 1);
        }
        for id in &split.frame {
            let (t, name) = (self.type_of(*id), self.local_name(*id));
            let local = &self.kernel.locals[*id as usize];
            let size = local.scalar.bytes() as usize;
            if local.lanes > 0 {
                member(format!("{t} {name}[{}];", local.lanes), size, local.lanes as usize);
            } else {
                // Devices change words of 32 bits.
                let room = if size < 4 { 4 } else { size };
                member(format!("__align__({room}) {t} {name};"), room, 1);
            }
        }
        if lines.is_empty() {
            return (String::new(), 0);
        }
        let text: String = lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "  {line}");
            text
        });
        (format!("struct kp_frame {{\n{text}}};\n\n"), bytes.next_multiple_of(16))
    }

    /// Writes a task; returns how it is launched.
    pub(crate) fn device_task(
        &mut self,
        split: &Split<'_>,
        number: usize,
        plan: &LaunchPlan,
        form: Form,
    ) -> TaskPlan {
        let task = &split.tasks[number];
        let name = format!("kp_task{number}");
        let is_grid = matches!(task.work, Work::Grid(..));
        let bounds = format!("__launch_bounds__({}) ", if is_grid { 256 } else { 1 });
        self.line = 0;
        let (head, slots) = match form {
            Form::Kernel => {
                (format!("extern \"C\" __global__ void {bounds}{name}(const kp_slots kp_s)"), "kp_s.w")
            }
            Form::Node => {
                (format!("extern \"C\" __global__ void {bounds}{name}(kp_control *const kp_g)"), "kp_g->w")
            }
            Form::Part => {
                let parameters =
                    "const u64 *const w, kp_control *const kp_g, const u32 kp_first, const u32 kp_step";
                (format!("static __device__ __forceinline__ void kp_part{number}({parameters})"), "")
            }
        };
        self.push(&format!("{head} {{"));
        self.level += 1;
        if !slots.is_empty() {
            self.push(&format!("const u64 *const w = {slots};"));
        }
        if plan.frame > 0 {
            self.push(&match form {
                Form::Kernel => format!("kp_frame *const kp_f = (kp_frame *)w[{}];", plan.frame_slot()),
                _ => "kp_frame *const kp_f = &kp_g->frame;".to_owned(),
            });
        }
        if !plan.mail.is_empty() {
            self.push(&format!("u64 *const kp_mail = (u64 *)w[{}];", plan.mail_slot()));
        }
        if plan.mail.fails {
            let place = plan.mail.failure();
            self.push(&format!("kp_failed *const kp_failure = (kp_failed *)(kp_mail + {place});"));
        }
        for id in task.inside.iter().filter(|id| split.left.contains(id)) {
            self.push(&format!("if (kp_f->kp_left_{id}) return;"));
        }
        self.end_if_over(split, task, plan, form);
        let (arrays, numbers) = self.arguments_of(task, split);
        self.arguments(&arrays, &numbers);
        self.left_scopes = split.left.clone();
        self.ends_early = split.ends_early;
        let (statements, made) = split.needed(&task.mentioned);
        let is_bare = |id: &&LocalId| !split.frame.contains(id) && split.locals.contains(id);
        for id in task.mentioned.union(&made).filter(is_bare).copied().collect::<BTreeSet<_>>() {
            self.declare(id);
        }
        for statement in statements {
            self.statement(statement);
        }
        let key = self.key_of(task, plan);
        let task_plan = match &task.work {
            Work::Grid(loop_stmt, _) => {
                let bounds = loop_stmt.from.iter().zip(&loop_stmt.to);
                let counts: Vec<Count> = bounds.map(|(from, to)| self.count(from, to, split)).collect();
                let is_known = counts.iter().all(|count| !count.0.is_empty());
                if form != Form::Part {
                    self.bins = Bins::of(self.kernel, loop_stmt);
                }
                let is_covered =
                    is_known && form != Form::Part && loop_stmt.reductions.is_empty() && self.bins.is_none();
                // What takes long is better spread.
                let variables = &loop_stmt.variables;
                let goes_on = is_covered
                    && variables.len() == 2
                    && variables.iter().all(|variable| self.counts_in_32_bits(*variable))
                    && is_short(&loop_stmt.body);
                let shape = Shape { is_covered, goes_on, is_flat: form == Form::Part };
                self.grid(loop_stmt, &key, shape);
                self.bins = None;
                TaskPlan { name, counts, is_covered, goes_on, cost: cost(&loop_stmt.body) }
            }
            Work::Thread(actions) => {
                let mut cost_of_all = 0;
                if plan.random && task.work.statements().any(draws) {
                    self.push(&format!("const u64 kp_key = {key}, kp_at = ~0ULL >> 21;"));
                    self.push(&format!("u32 &kp_n = kp_f->{};", drawn(task.draws)));
                }
                self.push("{");
                self.level += 1;
                for statement in task.work.statements() {
                    let block = Block { locals: Vec::new(), statements: vec![statement.clone()] };
                    cost_of_all += cost(&block);
                }
                self.actions(actions, split, plan);
                self.level -= 1;
                self.push("}");
                self.push("kp_over:;");
                TaskPlan { name, counts: Vec::new(), is_covered: true, goes_on: false, cost: cost_of_all }
            }
        };
        self.level -= 1;
        self.push("}\n");
        task_plan
    }

    /// Has a task do nothing if the launch is over, or begins behind it.
    fn end_if_over(&mut self, split: &Split<'_>, task: &Task<'_>, plan: &LaunchPlan, form: Form) {
        let is_grid = matches!(task.work, Work::Grid(..));
        // All threads of a block go on, or none.
        let asked = |what: &str| {
            if is_grid && plan.mail.fails { format!("__syncthreads_or({what})") } else { what.to_owned() }
        };
        if form == Form::Kernel {
            if split.ends_early {
                self.push("if (kp_f->kp_done) return;");
            }
            if plan.mail.fails {
                let is_set = asked("*(volatile i32 *)&kp_failure->is_set");
                self.push(&format!("if ({is_set}) return;"));
            }
            return;
        }
        // Loops that are called off end, and so does what follows them; one kernel for all ends itself.
        let may_be_over = split.can_end(plan) || form == Form::Node && split.has_loops;
        let over = match (split.has_labels && is_grid, may_be_over) {
            (true, true) => "kp_g->skip | kp_g->ended",
            (true, false) => "kp_g->skip",
            (false, true) => "kp_g->ended",
            (false, false) => return,
        };
        self.push(&format!("if ({}) return;", asked(over)));
    }

    /// What one thread does, in order.
    fn actions(&mut self, actions: &[Action<'_>], split: &Split<'_>, plan: &LaunchPlan) {
        let can_end = split.can_end(plan);
        let live = if can_end { "!(kp_g->skip | kp_g->ended)" } else { "!kp_g->skip" };
        let mut gate = "";
        for action in actions {
            let wanted = match action {
                _ if !split.has_labels => "",
                Action::Check(_) if can_end => "!kp_g->ended",
                Action::Statement(_) | Action::Enter(_) | Action::DrawAnew | Action::Section(..) => live,
                Action::Check(_) | Action::Begin(_) | Action::End(..) | Action::Zero(_) => "",
            };
            if wanted != gate {
                self.end_gate(gate);
                if !wanted.is_empty() {
                    self.push(&format!("if ({wanted}) {{"));
                    self.level += 1;
                }
                gate = wanted;
            }
            match action {
                Action::Statement(statement) | Action::Check(statement) => self.statement(statement),
                Action::Begin(number) => {
                    self.push(&format!("if (kp_g->from == {number}) kp_g->skip = 0;"));
                }
                Action::End(number, flag) => {
                    let flag = self.number_in(*flag);
                    self.push(&format!(
                        "if ({live} && {flag} != 0) {{ kp_mail[0] = {number}; kp_g->ended = 1; }}"
                    ));
                }
                Action::Enter(id) if split.left.contains(id) => {
                    self.push(&format!("kp_f->kp_left_{id} = 0;"));
                }
                Action::Enter(_) => {}
                Action::Zero(id) => {
                    let (name, lanes) = (self.local(*id), self.kernel.locals[*id as usize].lanes);
                    self.push(&if lanes > 0 {
                        format!("memset({name}, 0, sizeof {name});")
                    } else {
                        format!("memset(&{name}, 0, sizeof {name});")
                    });
                }
                Action::DrawAnew => self.push("++kp_f->kp_draws;"),
                Action::Section(number, at) => {
                    let draws = Draws { section: Some((*number, *at)), is_in_loop: true };
                    let name = drawn(draws);
                    if split
                        .tasks
                        .iter()
                        .any(|task| task.draws == draws && task.work.statements().any(self::draws))
                    {
                        self.push(&format!("kp_f->{name} = 0;"));
                    }
                }
            }
        }
        self.end_gate(gate);
    }

    fn end_gate(&mut self, gate: &str) {
        if !gate.is_empty() {
            self.level -= 1;
            self.push("}");
        }
    }

    /// The key of the random numbers that a task draws.
    fn key_of(&self, task: &Task<'_>, plan: &LaunchPlan) -> String {
        let mut key = format!("w[{}]", plan.key_slot());
        let anew =
            if task.draws.is_in_loop { format!(" + kp_f->kp_draws * {BY_TURN}") } else { String::new() };
        if let Some((number, at)) = task.draws.section {
            let _ = write!(key, " + {number} * {BY_TASK}{anew} + {at} * {BY_SECTION}");
        }
        if let Work::Grid(_, number) = task.work {
            let anew = if task.draws.section.is_none() { anew.as_str() } else { "" };
            let _ = write!(key, " + {number} * {BY_TASK}{anew}");
        }
        key
    }

    /// The arrays and numbers that a task uses.
    fn arguments_of(&self, task: &Task<'_>, split: &Split<'_>) -> (Vec<ArrayId>, Vec<u32>) {
        let whole: Vec<Statement> = match &task.work {
            Work::Grid(loop_stmt, _) => {
                vec![Statement { line: 0, kind: Kind::Parallel(Box::new((*loop_stmt).clone())) }]
            }
            Work::Thread(_) => task.work.statements().cloned().collect(),
        };
        let (made, _) = split.needed(&task.mentioned);
        let statements = whole.into_iter().chain(made.into_iter().cloned()).collect();
        let captured = self.captured_by(&Block { locals: Vec::new(), statements }, BTreeSet::new(), &[]);
        let (mut arrays, numbers) = captured.arguments();
        if let Work::Thread(actions) = &task.work {
            let flags = actions.iter().filter_map(|action| match action {
                Action::End(_, flag) if !arrays.contains(flag) => Some(*flag),
                _ => None,
            });
            let flags: BTreeSet<ArrayId> = flags.collect();
            arrays.extend(flags);
        }
        (arrays, numbers)
    }

    /// A parallel loop: the last dimension along the threads of a row, the others along rows of threads; or all of it
    /// along all threads.
    fn grid(&mut self, loop_stmt: &Parallel, key: &str, shape: Shape) {
        let Shape { is_covered, goes_on, is_flat } = shape;
        let last = loop_stmt.variables.len() - 1;
        let random = needs_random(&loop_stmt.body);
        // Numbers of iterations of 32 bits, where they are not multiplied with each other; and where what comes behind the
        // last one still fits, for threads that go on.
        let is_from_zero = matches!(loop_stmt.from[0], Expr::Const(_, 0));
        let has_sign = self.kernel.locals[loop_stmt.variables[0] as usize].scalar.is_signed();
        let is_narrow_row = is_flat
            && last == 0
            && is_from_zero
            && has_sign
            && self.counts_in_32_bits(loop_stmt.variables[0]);
        let are_narrow = is_covered && last < 2 || is_narrow_row;
        for (at, (from, to)) in loop_stmt.from.iter().zip(&loop_stmt.to).enumerate() {
            let variable = loop_stmt.variables[at];
            let t = self.type_of(variable);
            let (from, to) = (self.bare(from), self.bare(to));
            self.push(&format!("const {t} kp_from{at} = {from};"));
            if are_narrow && self.counts_in_32_bits(variable) {
                self.push(&format!("const {t} kp_to{at} = {to};"));
                self.push(&format!(
                    "const u32 kp_count{at} = kp_to{at} > kp_from{at} ? (u32)kp_to{at} - (u32)kp_from{at} : 0;"
                ));
            } else {
                self.push(&format!("i64 kp_count{at} = (i64)({to}) - (i64)kp_from{at};"));
                self.push(&format!("if (kp_count{at} < 0) kp_count{at} = 0;"));
            }
        }
        self.grid_variables.clone_from(&loop_stmt.variables);
        if random {
            self.push(&format!("const u64 kp_key = {key};"));
        }
        for reduction in &loop_stmt.reductions {
            let scalar = self.kernel.locals[reduction.local as usize].scalar;
            let start = self.constant(scalar, identity(reduction.op, scalar));
            let (t, name) = (self.type_of(reduction.local), self.local_name(reduction.local));
            self.push(&format!("{t} {name} = {start};"));
        }
        if let Some(bins) = self.bins.clone() {
            self.begin_bins(&bins, last + 1);
        }
        if is_flat {
            self.all_iterations(loop_stmt, random, is_narrow_row);
        } else {
            self.rows_of_iterations(loop_stmt, random, (is_covered, goes_on));
        }
        self.grid_variables.clear();
        self.push("kp_over:;");
        if let Some(bins) = self.bins.clone() {
            self.end_bins(&bins);
        }
        // What no iteration changes is not touched: it may not be there.
        let counts: Vec<String> = (0..=last).map(|at| format!("kp_count{at} > 0")).collect();
        let any = counts.join(" && ");
        for reduction in &loop_stmt.reductions {
            let scalar = self.kernel.locals[reduction.local as usize].scalar;
            let together = self.functions.block_reduction(reduction.op, scalar);
            let helper = self.functions.atomic(reduction.op, scalar, scalar);
            let local = self.local_name(reduction.local);
            self.push(&format!("{local} = {together}({local});"));
            let target = self.target(&reduction.target);
            self.push(&format!(
                "if (threadIdx.x == 0 && threadIdx.y == 0 && {any}) {helper}(&{target}, {local});"
            ));
        }
    }

    /// The iterations of a loop, one after the other, along all threads.
    fn all_iterations(&mut self, loop_stmt: &Parallel, random: bool, is_narrow: bool) {
        let counts: Vec<String> = (0..loop_stmt.variables.len()).map(|at| format!("kp_count{at}")).collect();
        // Most threads have one iteration, and how often to unroll would take a division.
        if is_narrow {
            self.push("#pragma unroll 1");
            self.begin_stride(Stride::NarrowLoop, "kp_l", "kp_first", "kp_count0", "kp_step");
        } else {
            self.push(&format!("const i64 kp_all = {};", counts.join(" * ")));
            self.push("#pragma unroll 1");
            self.begin_stride(Stride::Loop, "kp_l", "kp_first", "kp_all", "kp_step");
        }
        self.variables_of(loop_stmt, loop_stmt.variables.len(), "kp_l");
        if random {
            self.push("const u64 kp_at = (u64)kp_l; u32 kp_n = 0;");
        }
        self.block_inside(&loop_stmt.body);
        self.level -= 1;
        self.push("}");
    }

    /// The iterations of a loop, the last dimension along rows of threads.
    fn rows_of_iterations(
        &mut self,
        loop_stmt: &Parallel,
        random: bool,
        (is_covered, goes_on): (bool, bool),
    ) {
        let last = loop_stmt.variables.len() - 1;
        if last > 0 {
            let rows: Vec<String> = (0..last).map(|at| format!("kp_count{at}")).collect();
            self.push(&format!("const i64 kp_rows = {};", rows.join(" * ")));
            let is_narrow = last == 1 && self.counts_in_32_bits(loop_stmt.variables[0]);
            if goes_on {
                let first = "blockIdx.y * blockDim.y + threadIdx.y";
                self.begin_stride(Stride::NarrowLoop, "kp_r", first, "kp_rows", "gridDim.y * blockDim.y");
            } else {
                let first = "(blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y";
                let counted = if is_covered && is_narrow { Stride::Narrow } else { Stride::of(is_covered) };
                self.begin_stride(counted, "kp_r", first, "kp_rows", "gridDim.z * gridDim.y * blockDim.y");
            }
            self.variables_of(loop_stmt, last, "kp_r");
        }
        let variable = loop_stmt.variables[last];
        let (t, name) = (self.type_of(variable), self.local_name(variable));
        let first = "blockIdx.x * blockDim.x + threadIdx.x";
        let is_narrow = self.counts_in_32_bits(variable);
        let counted = if is_covered && is_narrow { Stride::Narrow } else { Stride::of(is_covered) };
        self.begin_stride(counted, "kp_c", first, &format!("kp_count{last}"), "gridDim.x * blockDim.x");
        self.push(&format!("const {t} {name} = ({t})(kp_from{last} + kp_c);"));
        if random {
            let row = if last > 0 { format!("(u64)kp_r * (u64)kp_count{last} + ") } else { String::new() };
            self.push(&format!("const u64 kp_at = (u64)({row}kp_c); u32 kp_n = 0;"));
        }
        self.block_inside(&loop_stmt.body);
        for is_inner in [true, false].into_iter().take(1 + usize::from(last > 0)) {
            self.level -= 1;
            self.push(if is_covered && (is_inner || !goes_on) { "} while (0);" } else { "}" });
        }
    }

    /// Whether a loop over a variable has no more iterations than 32 bits count.
    fn counts_in_32_bits(&self, variable: LocalId) -> bool {
        self.kernel.locals[variable as usize].scalar.bits() <= 32
    }

    /// Begins what is done for one number, or for every so manieth until the end.
    fn begin_stride(&mut self, stride: Stride, name: &str, first: &str, end: &str, step: &str) {
        let wide = first.replacen("blockIdx", "(i64)blockIdx", 1);
        // `continue` leaves what is done once.
        self.push(&match stride {
            Stride::Narrow => format!("const u32 {name} = {first}; if ({name} < (u32){end}) do {{"),
            Stride::Wide => format!("const i64 {name} = {wide}; if ({name} < {end}) do {{"),
            Stride::NarrowLoop => {
                format!("for (u32 {name} = {first}; {name} < (u32){end}; {name} += {step}) {{")
            }
            Stride::Loop => {
                format!("for (i64 {name} = {wide}; {name} < {end}; {name} += (i64){step}) {{")
            }
        });
        self.level += 1;
    }

    /// The variables of the first dimensions, by the number of what they say.
    fn variables_of(&mut self, loop_stmt: &Parallel, dimensions: usize, number: &str) {
        if dimensions > 1 {
            self.push(&format!("i64 kp_rest = {number};"));
        }
        for at in (0..dimensions).rev() {
            let variable = loop_stmt.variables[at];
            let (t, name) = (self.type_of(variable), self.local_name(variable));
            if dimensions == 1 {
                self.push(&format!("const {t} {name} = ({t})(kp_from{at} + {number});"));
            } else if at == 0 {
                self.push(&format!("const {t} {name} = ({t})(kp_from{at} + kp_rest);"));
            } else {
                // Dividing 64 bits takes long.
                self.push(&format!(
                    "const i64 kp_q{at} = (u64)(kp_rest | kp_count{at}) >> 32 ? kp_rest / kp_count{at} : (i64)((u32)kp_rest / (u32)kp_count{at});"
                ));
                self.push(&format!(
                    "const {t} {name} = ({t})(kp_from{at} + (kp_rest - kp_q{at} * kp_count{at}));"
                ));
                self.push(&format!("kp_rest = kp_q{at};"));
            }
        }
    }

    /// How many iterations there are in a dimension, as far as the host can tell.
    fn count(&self, from: &Expr, to: &Expr, split: &Split<'_>) -> Count {
        let mut steps = Vec::new();
        if !self.steps(to, split, &mut steps) {
            return Count::default();
        }
        let before = steps.len();
        if !self.steps(from, split, &mut steps) {
            return Count::default();
        }
        if steps[before..] == [Step::Number(0)] {
            steps.truncate(before);
        } else {
            steps.push(Step::Compute(Op::Sub));
        }
        Count::new(steps)
    }

    /// What the host computes to know a number; whether it can.
    fn steps(&self, expr: &Expr, split: &Split<'_>, into: &mut Vec<Step>) -> bool {
        match expr {
            Expr::Const(scalar, bits) if !scalar.is_float() => {
                into.push(Step::Number(fold::whole(*scalar, *bits) as i64));
                true
            }
            Expr::Size(id, at) => match &self.kernel.arrays[*id as usize].origin {
                Origin::Fixed { shape, .. } => {
                    into.push(Step::Number(shape[usize::from(*at)]));
                    true
                }
                Origin::Argument => match self.slots.sizes(*id).find(|(known, _)| known == at) {
                    Some((_, slot)) => {
                        into.push(Step::Slot(slot));
                        true
                    }
                    None => false,
                },
            },
            Expr::Number(id) => {
                // Slots have numbers with a sign in 64 bits.
                into.push(Step::Slot(self.slots.number(*id)));
                is_counted(self.kernel.numbers[*id as usize].scalar)
            }
            Expr::Local(id) if split.is_made_again.contains(id) => {
                let made = split.made_again.iter().find_map(|statement| match &statement.kind {
                    Kind::Let(known, value) | Kind::Set(known, value) if known == id => Some(value),
                    _ => None,
                });
                // Texts that grow with every variable are not worth it.
                into.len() < 64 && made.is_some_and(|value| self.steps(value, split, into))
            }
            Expr::Cast(to, value) if is_counted(*to) => {
                let is_known = !value.scalar(self.kernel).is_float() && self.steps(value, split, into);
                if *to == Scalar::I32 {
                    into.push(Step::Wrap);
                }
                is_known
            }
            Expr::Binary(op, left, right) => {
                let op = match op {
                    Binary::Add => Op::Add,
                    Binary::Sub => Op::Sub,
                    Binary::Mul => Op::Mul,
                    Binary::FloorDiv => Op::FloorDiv,
                    Binary::Mod => Op::Mod,
                    Binary::Min => Op::Min,
                    Binary::Max => Op::Max,
                    _ => return false,
                };
                let scalar = left.scalar(self.kernel);
                let is_known = is_counted(scalar)
                    && self.steps(left, split, into)
                    && self.steps(right, split, into)
                    && into.len() < 64;
                into.push(Step::Compute(op));
                if scalar == Scalar::I32 {
                    into.push(Step::Wrap);
                }
                is_known
            }
            _ => false,
        }
    }

    // -- Statements that devices have otherwise ----------------------------------------------------

    /// Leaves a scope: within a task by a jump, beyond it by taking note.
    pub(crate) fn leave_on_device(&mut self, id: ScopeId) {
        if self.left_scopes.contains(&id) {
            self.push(&format!("kp_f->kp_left_{id} = 1;"));
            return self.push("goto kp_over;");
        }
        self.push(&format!("goto kp_end_{id};"));
    }

    pub(crate) fn return_on_device(&mut self, values: &[Expr]) {
        for (at, value) in values.iter().enumerate() {
            let scalar = value.scalar(self.kernel);
            let text = self.bare(value);
            // Floats as doubles, whole numbers in 64 bits.
            let bits = self.as_bits(scalar, &text);
            self.push(&format!("kp_mail[{at}] = {bits};"));
        }
        if self.ends_early {
            self.push(if self.in_device_graph { "kp_g->ended = 1;" } else { "kp_f->kp_done = 1;" });
        }
        self.push("goto kp_over;");
    }

    pub(crate) fn print_on_device(&mut self, parts: &[Part]) {
        let (mut items, mut shown) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Part::Text(text) => shown.push(PrintPart::Text(text.clone())),
                Part::Value(value) => {
                    let scalar = value.scalar(self.kernel);
                    let text = self.bare(value);
                    // Single precision has fewer digits to show.
                    shown.push(PrintPart::Value(if scalar == Scalar::F32 { 's' } else { kind_of(scalar) }));
                    items.push(self.as_bits(scalar, &text));
                }
            }
        }
        let (which, count) = (self.prints.len(), items.len());
        self.prints.push(shown);
        let items = if items.is_empty() { "0".to_owned() } else { items.join(", ") };
        let place = self.mail.printed();
        self.push(&format!(
            "{{ const u64 kp_values[] = {{{items}}}; kp_print(kp_mail + {place}, {which}, {count}, kp_values); }}"
        ));
    }
}

/// How a thread gets at its iterations.
#[derive(Clone, Copy)]
enum Stride {
    /// It has one, whose number has 32 bits.
    Narrow,
    /// It has one.
    Wide,
    /// It has every so manieth.
    Loop,
    /// The same, with numbers of 32 bits.
    NarrowLoop,
}

impl Stride {
    fn of(is_covered: bool) -> Self {
        if is_covered { Self::Wide } else { Self::Loop }
    }
}

/// Whether an iteration is short: nothing in it goes on, waits for others or ends early.
fn is_short(body: &Block) -> bool {
    let mut is_short = true;
    body.each(&mut |statement| {
        is_short &= matches!(
            statement.kind,
            Kind::Let(..) | Kind::Set(..) | Kind::SetLane(..) | Kind::Store(..) | Kind::If(..)
        );
    });
    is_short
}

/// Whether the host counts with numbers of a type as devices do.
fn is_counted(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::I32 | Scalar::I64)
}

/// Whether a statement draws numbers.
fn draws(statement: &Statement) -> bool {
    needs_random(&Block { locals: Vec::new(), statements: vec![statement.clone()] })
}

/// The member of the frame that counts the numbers which one thread draws in order.
fn drawn(draws: Draws) -> String {
    match draws.section {
        Some((number, at)) => format!("kp_n_{number}_{at}"),
        None => "kp_n".to_owned(),
    }
}

/// The arrays that a kernel writes.
pub(crate) fn written(kernel: &Kernel) -> BTreeSet<ArrayId> {
    let mut arrays = BTreeSet::new();
    let mut target = |target: &AtomicTarget| {
        if let AtomicTarget::Place(place) = target {
            arrays.insert(place.array);
        }
    };
    kernel.body.each(&mut |statement| match &statement.kind {
        Kind::Atomic(atomic) => target(&atomic.target),
        Kind::Parallel(node) => node.reductions.iter().for_each(|reduction| target(&reduction.target)),
        _ => {}
    });
    kernel.body.each(&mut |statement| {
        if let Kind::Store(place, _) = &statement.kind {
            arrays.insert(place.array);
        }
    });
    arrays
}

/// What must hold of arguments before anything is done with them.
pub(crate) fn checks(kernel: &Kernel, slots: &Slots) -> Vec<Check> {
    let mut checks = Vec::new();
    for (id, array) in kernel.arrays.iter().enumerate() {
        let id = id as ArrayId;
        for (at, size) in slots.sizes(id) {
            checks.push(match (array.lane_dims, at.checked_sub(array.ndim)) {
                (1, Some(0)) => Check::Element { array: id, size, expected: array.lanes },
                (2, Some(0)) => Check::Element { array: id, size, expected: array.lanes / array.columns },
                (2, Some(1)) => Check::Element { array: id, size, expected: array.columns },
                _ => Check::Countable { array: id, size },
            });
        }
    }
    for (first, second) in &kernel.noalias {
        let (a, b) = (&kernel.arrays[*first as usize], &kernel.arrays[*second as usize]);
        checks.push(Check::Apart {
            first: extent(kernel, slots, *first),
            second: (first != second).then(|| extent(kernel, slots, *second)),
            may_be_same: a.is_laid_out_as(b),
        });
    }
    checks
}

fn extent(kernel: &Kernel, slots: &Slots, id: ArrayId) -> Extent {
    let array = &kernel.arrays[id as usize];
    let lanes = if array.lane_dims == 0 { array.lanes } else { 1 };
    let strides: Vec<Place> = if array.layout == Layout::Strided {
        slots.strides(id).map(|(_, slot)| Place::Slot(slot)).collect()
    } else {
        Vec::new()
    };
    let (address, sizes) = match &array.origin {
        Origin::Fixed { address, shape } => {
            (Place::Fixed(*address), shape.iter().map(|size| Place::Fixed(*size as u64)).collect())
        }
        Origin::Argument => {
            let address = slots.address(id).map_or(Place::Fixed(0), Place::Slot);
            (address, slots.sizes(id).map(|(_, slot)| Place::Slot(slot)).collect())
        }
    };
    Extent { array: id, address, sizes, strides, bytes: array.scalar.bytes() * lanes }
}
