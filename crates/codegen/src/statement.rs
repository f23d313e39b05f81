//! Statements and loops.

use std::collections::BTreeSet;
use std::fmt::Write;

use keyprint_lang::ir::{
    ArrayId, Atomic, AtomicTarget, Block, Expr, Kernel, Kind, LocalId, Origin, Part, ScopeId, Statement,
};
use keyprint_lang::types::Scalar;

use crate::abi::{Slots, Status};
use crate::c_functions::CFunctions;
use crate::cuda::{Bins, MailPlan, PrintPart};
use crate::tick::{can_stop, straight_cost};

/// A kind of function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The entry point.
    Entry,
    /// A section of a graph.
    Section,
    /// A piece of a parallel loop.
    Task,
    /// A task on a device.
    Device,
}

/// Writes C.
pub(crate) struct Writer<'k> {
    pub(crate) kernel: &'k Kernel,
    pub(crate) slots: &'k Slots,
    pub(crate) functions: &'k mut CFunctions,
    /// Functions that are done.
    pub(crate) done: String,
    pub(crate) out: String,
    pub(crate) level: usize,
    /// Locals that are reached through a pointer, here.
    pub(crate) by_pointer: BTreeSet<LocalId>,
    /// What kind of function is being written.
    pub(crate) role: Role,
    pub(crate) tasks: u32,
    pub(crate) line: u32,
    /// Locals that are declared where they are first set.
    open: BTreeSet<LocalId>,
    /// Locals that tasks on a device hand on to each other.
    pub(crate) in_frame: BTreeSet<LocalId>,
    /// The variables of the grid that is being written.
    pub(crate) grid_variables: Vec<LocalId>,
    /// Scopes that are left in one task on a device, with others of the scope behind it.
    pub(crate) left_scopes: BTreeSet<ScopeId>,
    /// Whether a kernel may end before its last task on a device.
    pub(crate) ends_early: bool,
    /// Whether what is being written is part of a graph on a device.
    pub(crate) in_device_graph: bool,
    /// What is printed on a device, in the order of the text.
    pub(crate) prints: Vec<Vec<PrintPart>>,
    /// Where things are in what a device writes for the host.
    pub(crate) mail: MailPlan,
    /// The bins of the loop that is being written for a device.
    pub(crate) bins: Option<Bins>,
    /// Locals that never change, but are declared before they are set.
    pub(crate) hoisted: BTreeSet<LocalId>,
    /// Locals that a launch that begins at a checkpoint makes again.
    pub(crate) rematerialised: BTreeSet<LocalId>,
    /// How many loops of a graph this is in.
    pub(crate) graph_loops: u32,
    /// The level of statements that are right in the graph, or in the kernel.
    pub(crate) graph_level: usize,
}

impl<'k> Writer<'k> {
    pub(crate) fn new(kernel: &'k Kernel, slots: &'k Slots, functions: &'k mut CFunctions) -> Self {
        Self {
            kernel,
            slots,
            functions,
            done: String::new(),
            out: String::new(),
            level: 0,
            by_pointer: BTreeSet::new(),
            role: Role::Entry,
            tasks: 0,
            line: 0,
            open: BTreeSet::new(),
            in_frame: BTreeSet::new(),
            grid_variables: Vec::new(),
            bins: None,
            left_scopes: BTreeSet::new(),
            ends_early: false,
            in_device_graph: false,
            prints: Vec::new(),
            mail: MailPlan::default(),
            hoisted: BTreeSet::new(),
            rematerialised: BTreeSet::new(),
            graph_loops: 0,
            graph_level: 1,
        }
    }

    pub(crate) fn finish(self) -> String {
        self.done
    }

    pub(crate) fn push(&mut self, text: &str) {
        let _ = writeln!(self.out, "{}{text}", "  ".repeat(self.level));
    }

    /// Writes the entry point, and whatever it needs before it.
    pub(crate) fn entry(&mut self) {
        let kernel = self.kernel;
        self.push("__attribute__((visibility(\"default\"))) i32 kp_kernel(u64 *w) {");
        self.level += 1;
        let arrays: Vec<ArrayId> = (0..kernel.arrays.len() as ArrayId).collect();
        let numbers: Vec<u32> = (0..kernel.numbers.len() as u32).collect();
        self.arguments(&arrays, &numbers);
        self.checks();
        if needs_random(&kernel.body) {
            self.push("const u64 kp_key = kp->launch(); u64 kp_at = ~0ULL >> 21; u32 kp_n = 0;");
        }
        if needs_failure(&kernel.body) {
            self.push("struct kp_failure kp_failure; kp_failure.is_set = 0;");
        }
        self.push("void *kp_token = 0;");
        if can_stop(&kernel.body) {
            self.push("i32 kp_stop = 0;");
        }
        self.begin_ticks(&kernel.body);
        self.graph_body(&kernel.body);
        self.push("if (kp_token) kp->lock(kp_token);");
        self.push("return 0;");
        self.level -= 1;
        self.push("}");
        let entry = std::mem::take(&mut self.out);
        self.done.push_str(&entry);
    }

    /// Declares what comes with a call, from the slots in `w`.
    pub(crate) fn arguments(&mut self, arrays: &[ArrayId], numbers: &[u32]) {
        for id in arrays {
            let array = &self.kernel.arrays[*id as usize];
            let t = self.functions.type_of(array.scalar);
            let name = self.array_name(*id);
            match &array.origin {
                Origin::Fixed { address, .. } => {
                    self.push(&format!("{t} *const {name} = ({t} *){address}ULL;"))
                }
                Origin::Argument => {
                    let Some(place) = self.slots.address(*id) else { continue };
                    self.push(&format!(
                        "{t} *const {name} = ({t} *)w[{place}]; /* {} */",
                        comment(&array.name)
                    ));
                    let sizes: Vec<_> = self.slots.sizes(*id).collect();
                    // That devices multiply numbers of 32 bits is said: sizes were checked to be such.
                    let narrow = if self.role == Role::Device { "(i32)" } else { "" };
                    for (at, place) in sizes {
                        self.push(&format!("const i64 {name}_s{at} = (i64){narrow}w[{place}];"));
                    }
                    let strides: Vec<_> = self.slots.strides(*id).collect();
                    for (at, place) in strides {
                        self.push(&format!("const i64 {name}_t{at} = (i64)w[{place}];"));
                    }
                }
            }
        }
        for id in numbers {
            if !self.slots.has_number(*id) {
                continue;
            }
            let scalar = self.kernel.numbers[*id as usize].scalar;
            let (t, name, place) =
                (self.functions.type_of(scalar), self.number_name(*id), self.slots.number(*id));
            let library = self.functions.dialect.library();
            self.push(&if scalar.is_float() {
                format!("{t} {name}; {library}memcpy(&{name}, &w[{place}], sizeof {name});")
            } else {
                format!("const {t} {name} = ({t})w[{place}];")
            });
        }
    }

    /// What must hold of arguments before anything is done with them.
    fn checks(&mut self) {
        for (id, array) in self.kernel.arrays.iter().enumerate() {
            let (id, name) = (id as ArrayId, self.array_name(id as ArrayId));
            let sizes: Vec<_> = self.slots.sizes(id).collect();
            for (at, _) in sizes {
                let wanted = match (array.lane_dims, at.checked_sub(array.ndim)) {
                    (1, Some(0)) => Some(array.lanes),
                    (2, Some(0)) => Some(array.lanes / array.columns),
                    (2, Some(1)) => Some(array.columns),
                    _ => None,
                };
                let (condition, status) = match wanted {
                    Some(wanted) => (format!("{name}_s{at} != {wanted}"), Status::Element),
                    None => (format!("(u64){name}_s{at} > 0x7fffffff"), Status::TooLong),
                };
                self.push(&format!("if ({condition}) return {};", status as u32 | id << 8));
            }
        }
        for (first, second) in &self.kernel.noalias {
            if first == second {
                self.check_itself(*first);
                continue;
            }
            let [(low, high), (other_low, other_high)] = [first, second].map(|id| self.bounds_of(*id));
            let same = self.same_elements(*first, *second);
            self.push(&format!("if (!({same}) && {low} < {other_high} && {other_low} < {high}) {{"));
            self.check_between(*first, *second);
            self.push("}");
        }
    }

    /// Elements of arrays that reach into each other must lie between each other.
    fn check_between(&mut self, first: ArrayId, second: ArrayId) {
        let ((mut sizes, mut strides), (more_sizes, more_strides)) =
            (self.steps_of(first), self.steps_of(second));
        sizes.extend(more_sizes);
        strides.extend(more_strides);
        let helper = self.functions.interleaved();
        let behind = format!("(i64){} - (i64){}", self.array_name(second), self.array_name(first));
        let [bytes, other] = [first, second].map(|id| self.bytes_of(id));
        self.push(&format!(
            "  const i64 sizes[] = {{{}}}, strides[] = {{{}}}; if (!{helper}({}, sizes, strides, {behind}, {bytes}, {other})) return {};",
            sizes.join(", "),
            strides.join(", "),
            sizes.len(),
            Status::Overlap.of_array(first)
        ));
    }

    /// Bytes of an element, with lanes that are no dimensions.
    fn bytes_of(&self, id: ArrayId) -> u32 {
        let array = &self.kernel.arrays[id as usize];
        array.scalar.bytes() * if array.lane_dims == 0 { array.lanes } else { 1 }
    }

    /// Sizes, and bytes from one element to the next: of all dimensions, or of them as one.
    fn steps_of(&self, id: ArrayId) -> (Vec<String>, Vec<String>) {
        let array = &self.kernel.arrays[id as usize];
        let (name, all) = (self.array_name(id), array.ndim + array.lane_dims);
        if self.slots.strides(id).next().is_some() {
            return (0..all).map(|at| (format!("{name}_s{at}"), format!("{name}_t{at}"))).unzip();
        }
        let sizes: Vec<String> = (0..all).map(|at| self.size(id, at)).collect();
        let product = if sizes.is_empty() { "1".to_owned() } else { sizes.join(" * ") };
        (vec![product], vec![self.bytes_of(id).to_string()])
    }

    /// Whether two arrays are one by two names.
    fn same_elements(&self, first: ArrayId, second: ArrayId) -> String {
        let (a, b) = (&self.kernel.arrays[first as usize], &self.kernel.arrays[second as usize]);
        if !a.is_laid_out_as(b) {
            return "0".to_owned();
        }
        let mut terms = vec![format!("{} == {}", self.array_name(first), self.array_name(second))];
        for at in 0..a.ndim + a.lane_dims {
            terms.push(format!("{} == {}", self.size(first, at), self.size(second, at)));
            if a.layout == keyprint_lang::ir::Layout::Strided {
                terms.push(format!("{}_t{at} == {}_t{at}", self.array_name(first), self.array_name(second)));
            }
        }
        terms.join(" && ")
    }

    /// An array of any strides must not hold an element twice.
    fn check_itself(&mut self, id: ArrayId) {
        let array = &self.kernel.arrays[id as usize];
        let (name, all) = (self.array_name(id), array.ndim + array.lane_dims);
        let list =
            |kind: char| (0..all).map(|at| format!("{name}_{kind}{at}")).collect::<Vec<_>>().join(", ");
        let (sizes, strides) = (list('s'), list('t'));
        let helper = self.functions.holds_twice();
        let bytes = array.scalar.bytes();
        let status = Status::Overlap.of_array(id);
        self.push(&format!(
            "{{ const i64 sizes[] = {{{sizes}}}, strides[] = {{{strides}}}; if ({helper}({all}, sizes, strides, {bytes})) return {status}; }}"
        ));
    }

    /// The first byte of an array, and behind the last.
    fn bounds_of(&self, id: ArrayId) -> (String, String) {
        let array = &self.kernel.arrays[id as usize];
        let name = self.array_name(id);
        let bytes = array.scalar.bytes();
        let all = array.ndim + array.lane_dims;
        if self.slots.strides(id).next().is_some() {
            // Strides may go either way.
            let far = |sign: &str| -> String {
                let term = |at| format!(" + ({name}_t{at} {sign} 0 ? ({name}_s{at} - 1) * {name}_t{at} : 0)");
                (0..all).map(term).collect()
            };
            return (format!("(i64){name}{}", far("<")), format!("(i64){name}{} + {bytes}", far(">")));
        }
        let (sizes, strides) = self.steps_of(id);
        (format!("(i64){name}"), format!("(i64){name} + {} * {}", sizes[0], strides[0]))
    }

    // -- Blocks ----------------------------------------------------------------------------------

    fn braced(&mut self, head: &str, block: &Block) {
        self.push(&format!("{head} {{"));
        self.level += 1;
        self.block_inside(block);
        self.level -= 1;
        self.push("}");
    }

    pub(crate) fn block_inside(&mut self, block: &Block) {
        let first_sets = first_sets(block);
        for id in &block.locals {
            if first_sets.contains(id) && !self.in_frame.contains(id) {
                self.open.insert(*id);
            } else {
                self.declare(*id);
            }
        }
        for statement in &block.statements {
            self.statement(statement);
        }
    }

    /// Declares a local, with zeros in it.
    pub(crate) fn declare(&mut self, id: LocalId) {
        if self.in_frame.contains(&id) {
            return;
        }
        let (t, name, lanes) = (self.type_of(id), self.local_name(id), self.kernel.locals[id as usize].lanes);
        self.push(&if lanes > 0 {
            format!("{t} {name}[{lanes}] = {{0}};")
        } else {
            // Some types are structs.
            let zero = if self.kernel.locals[id as usize].scalar == Scalar::BF16 { "{0}" } else { "0" };
            format!("{t} {name} = {zero};")
        });
    }

    pub(crate) fn statement(&mut self, statement: &Statement) {
        if statement.line != 0 && statement.line != self.line {
            self.line = statement.line;
            self.push(&format!("/* line {} */", statement.line));
        }
        match &statement.kind {
            Kind::Let(id, value) => {
                let text = format!("{} = {};", self.made(*id), self.bare(value));
                self.push(&text);
            }
            Kind::Set(id, value) => {
                let value = self.bare(value);
                let declared =
                    if self.open.remove(id) { format!("{} ", self.type_of(*id)) } else { String::new() };
                let text = format!("{declared}{} = {value};", self.local(*id));
                self.push(&text);
            }
            Kind::SetLane(id, at, value) => {
                let text = format!("{}[{}] = {};", self.local(*id), self.bare(at), self.bare(value));
                self.push(&text);
            }
            Kind::Store(place, value) => {
                let text = format!("{} = {};", self.place(place), self.bare(value));
                self.push(&text);
            }
            Kind::Atomic(atomic) => self.atomic(atomic),
            Kind::If(condition, then, otherwise) => self.branch(condition, then, otherwise),
            Kind::For(loop_stmt) => {
                let is_long = self.is_long();
                if is_long {
                    let (from, to) = (self.bare(&loop_stmt.from), self.bare(&loop_stmt.to));
                    self.unlock(Some((&from, &to)), cost(&loop_stmt.body));
                }
                self.for_loop(loop_stmt);
                if is_long {
                    self.lock();
                }
            }
            Kind::Parallel(loop_stmt) => self.parallel(loop_stmt),
            Kind::Loop(body) => {
                let is_long = self.is_long();
                if is_long {
                    self.unlock(None, 0);
                }
                self.push("for (;;) {");
                self.level += 1;
                if self.role != Role::Device {
                    self.tick(&straight_cost(body).to_string());
                }
                self.block_inside(body);
                self.level -= 1;
                self.push("}");
                if is_long {
                    self.lock();
                }
            }
            Kind::Break => self.push("break;"),
            Kind::Continue => self.push("continue;"),
            Kind::Scope(id, body) => {
                // Jumping over declarations of variables is fine: none is read behind.
                self.braced("", body);
                self.push(&format!("kp_end_{id}:;"));
            }
            Kind::Leave(id) if self.role == Role::Device => self.leave_on_device(*id),
            Kind::Leave(id) => self.push(&format!("goto kp_end_{id};")),
            Kind::Return(values) if self.role == Role::Device => self.return_on_device(values),
            Kind::Return(values) => self.write_return(values),
            Kind::Check { condition, site, values } => self.check(condition, *site, values),
            Kind::Print(parts) if self.role == Role::Device => self.print_on_device(parts),
            Kind::Print(parts) => self.print(parts),
            Kind::Random(id) => {
                let scalar = self.kernel.locals[*id as usize].scalar;
                let helper = self.functions.random(scalar);
                let text = format!("{} = {helper}(kp_key, kp_at, kp_n++);", self.made(*id));
                self.push(&text);
            }
            Kind::DoWhile(do_while) => self.do_while(do_while),
            Kind::Checkpoint(checkpoint) => self.checkpoint(checkpoint),
            Kind::Sections(sections) => self.sections(sections),
            Kind::At(_) => {}
        }
    }

    /// Whether a loop here is worth a thought about how long it takes.
    fn is_long(&self) -> bool {
        !matches!(self.role, Role::Task | Role::Device) && self.level == self.graph_level
    }

    /// A local that never changes, where it is set.
    fn made(&mut self, id: LocalId) -> String {
        if self.in_frame.contains(&id) {
            return self.local(id);
        }
        let name = self.local_name(id);
        if self.hoisted.contains(&id) { name } else { format!("const {} {name}", self.type_of(id)) }
    }

    pub(crate) fn type_of(&mut self, id: LocalId) -> &'static str {
        self.functions.type_of(self.kernel.locals[id as usize].scalar)
    }

    /// Lets others run Python meanwhile, if a loop takes long.
    fn unlock(&mut self, range: Option<(&str, &str)>, cost: u64) {
        let condition = match range {
            Some((from, to)) => format!("(i64)({to}) - (i64)({from}) > {}", 4000 / cost.max(1)),
            None => "1".to_owned(),
        };
        // A loop of a graph around it may have done so.
        self.push(&format!("if (!kp_token && {condition}) kp_token = kp->unlock();"));
    }

    pub(crate) fn lock(&mut self) {
        if self.graph_loops > 0 {
            return;
        }
        self.push("if (kp_token) { kp->lock(kp_token); kp_token = 0; }");
    }

    fn branch(&mut self, condition: &Expr, then: &Block, otherwise: &Block) {
        let condition = self.bare(condition);
        if then.statements.is_empty() {
            return self.braced(&format!("if (!({condition}))"), otherwise);
        }
        self.braced(&format!("if ({condition})"), then);
        if !otherwise.statements.is_empty() {
            self.braced("else", otherwise);
        }
    }

    fn atomic(&mut self, atomic: &Atomic) {
        let scalar = match &atomic.target {
            AtomicTarget::Place(place) => self.kernel.arrays[place.array as usize].scalar,
            AtomicTarget::Local(id) | AtomicTarget::Lane(id, _) => self.kernel.locals[*id as usize].scalar,
        };
        let wide = atomic.value.scalar(self.kernel);
        // What a thread of a device has for itself has no address that others know.
        let is_own = self.role == Role::Device
            && atomic.target.local().is_some_and(|local| !self.in_frame.contains(&local));
        let helper = if is_own {
            self.functions.plain_change(atomic.op, scalar, wide)
        } else {
            self.functions.atomic(atomic.op, scalar, wide)
        };
        if let AtomicTarget::Place(place) = &atomic.target
            && self.bins.as_ref().is_some_and(|bins| bins.takes(&atomic.target))
        {
            let value = self.bare(&atomic.value);
            return self.change_bin(place, &helper, &value);
        }
        let target = self.target(&atomic.target);
        let old = match atomic.old {
            Some(id) => format!("{} = ", self.made(id)),
            None => String::new(),
        };
        let text = format!("{old}{helper}(&{target}, {});", self.bare(&atomic.value));
        self.push(&text);
    }

    /// What an atomic change changes.
    pub(crate) fn target(&mut self, target: &AtomicTarget) -> String {
        match target {
            AtomicTarget::Place(place) => self.place(place),
            AtomicTarget::Local(id) => self.local(*id),
            AtomicTarget::Lane(id, at) => format!("{}[{}]", self.local(*id), self.bare(at)),
        }
    }

    fn write_return(&mut self, values: &[Expr]) {
        let first = self.slots.list.len();
        for (at, value) in values.iter().enumerate() {
            let scalar = value.scalar(self.kernel);
            let text = self.bare(value);
            let place = first + at;
            // Floats as doubles, whole numbers in 64 bits.
            let line = if scalar.is_float() {
                let text = self.converted(scalar, Scalar::F64, &format!("({text})"));
                format!("{{ const f64 r = {text}; __builtin_memcpy(&w[{place}], &r, sizeof r); }}")
            } else if scalar.is_signed() {
                format!("w[{place}] = (u64)(i64)({text});")
            } else {
                format!("w[{place}] = (u64)({text});")
            };
            self.push(&line);
        }
        self.push("if (kp_token) kp->lock(kp_token);");
        self.push("return 0;");
    }

    fn check(&mut self, condition: &Expr, site: u32, values: &[Expr]) {
        let condition = self.bare(condition);
        self.push(&format!("if (!({condition})) {{"));
        self.level += 1;
        let (mut kinds, mut items) = (String::new(), Vec::new());
        for value in values.iter().take(16) {
            let scalar = value.scalar(self.kernel);
            let text = self.bare(value);
            kinds.push(kind_of(scalar));
            items.push(self.as_bits(scalar, &text));
        }
        let count = items.len();
        let items = if items.is_empty() { "0".to_owned() } else { items.join(", ") };
        self.push(&format!("const u64 kp_values[] = {{{items}}};"));
        if self.role == Role::Device {
            self.push(&format!("kp_fail(kp_failure, {site}, {count}, \"{kinds}\", kp_values);"));
            if self.in_device_graph {
                self.push("kp_g->ended = 1;");
            }
            self.push("goto kp_over;");
            self.level -= 1;
            return self.push("}");
        }
        let failure = self.failure();
        self.push(&format!("kp->fail({failure}, {site}, {count}, \"{kinds}\", kp_values);"));
        self.end_failed();
        self.level -= 1;
        self.push("}");
    }

    /// Where failures are kept, here.
    pub(crate) fn failure(&self) -> &'static str {
        if self.role == Role::Entry { "&kp_failure" } else { "c->kp_failure" }
    }

    /// Ends whatever this is after a failure.
    fn end_failed(&mut self) {
        if self.role != Role::Task {
            self.push("if (kp_token) kp->lock(kp_token);");
        }
        match self.role {
            Role::Entry => {
                self.push("kp->report(&kp_failure);");
                self.push(&format!("return {};", Status::Failed as u32));
            }
            _ => self.push("return;"),
        }
    }

    /// Ends whatever this is because it is to stop.
    pub(crate) fn end_stopped(&mut self) {
        if self.role != Role::Task {
            self.push("if (kp_token) kp->lock(kp_token);");
        }
        match self.role {
            Role::Entry => self.push(&format!("return {};", Status::Stopped as u32)),
            _ => self.push("return;"),
        }
    }

    /// Ends after a loop of which a piece failed.
    pub(crate) fn end_if_failed(&mut self) {
        let failure = self.failure();
        // Other sections may be at work.
        self.push(&format!("if (__atomic_load_n(&({failure})->is_set, __ATOMIC_ACQUIRE)) {{"));
        self.level += 1;
        self.end_failed();
        self.level -= 1;
        self.push("}");
    }

    /// A number as 64 bits, for the runtime.
    pub(crate) fn as_bits(&mut self, scalar: Scalar, text: &str) -> String {
        if scalar.is_float() {
            let helper = self.functions.bits(Scalar::F64, Scalar::U64);
            format!("{helper}({})", self.converted(scalar, Scalar::F64, &format!("({text})")))
        } else if scalar.is_signed() {
            format!("(u64)(i64)({text})")
        } else {
            format!("(u64)({text})")
        }
    }

    fn print(&mut self, parts: &[Part]) {
        let mut items = Vec::new();
        for part in parts {
            items.push(match part {
                Part::Text(text) => format!("{{{}, {}, 0, 't'}}", literal(text), text.len()),
                Part::Value(value) => {
                    let scalar = value.scalar(self.kernel);
                    let text = self.bare(value);
                    // Single precision has fewer digits to show.
                    let kind = if scalar == Scalar::F32 { 's' } else { kind_of(scalar) };
                    format!("{{0, 0, {}, '{kind}'}}", self.as_bits(scalar, &text))
                }
            });
        }
        let count = items.len();
        self.push(&format!(
            "{{ const struct kp_part parts[] = {{{}}}; kp->print(parts, {count}); }}",
            items.join(", ")
        ));
    }
}

pub(crate) fn kind_of(scalar: Scalar) -> char {
    match scalar {
        Scalar::Bool => 'b',
        scalar if scalar.is_float() => 'f',
        scalar if scalar.is_signed() => 'i',
        _ => 'u',
    }
}

fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            b' '..=b'~' if byte != b'?' => out.push(char::from(byte)),
            other => {
                let _ = write!(out, "\\{other:03o}");
            }
        }
    }
    out.push('"');
    out
}

fn comment(text: &str) -> String {
    text.replace("*/", "* /")
}

/// Locals of a block that are declared where they are set: right in the block, before anything else
/// mentions them.
pub(crate) fn first_sets(block: &Block) -> BTreeSet<LocalId> {
    // Scopes are jumped out of: what is declared behind a jump must be declared before it.
    if block.statements.iter().any(|statement| matches!(statement.kind, Kind::Scope(..) | Kind::Leave(_))) {
        return BTreeSet::new();
    }
    let mut declared = BTreeSet::new();
    let mut mentioned = BTreeSet::new();
    for statement in &block.statements {
        if let Kind::Set(id, value) = &statement.kind
            && block.locals.contains(id)
            && !mentioned.contains(id)
            && !mentions(value, *id)
        {
            declared.insert(*id);
        }
        let single = Block { locals: Vec::new(), statements: vec![statement.clone()] };
        single.each_expr(&mut |expr| {
            expr.any(&mut |inner| {
                if let Expr::Local(id) | Expr::Lane(id, _) = inner {
                    mentioned.insert(*id);
                }
                false
            });
        });
        single.each(&mut |inner| {
            mentioned.extend(inner.kind.sets());
            if let Kind::Parallel(loop_stmt) = &inner.kind {
                for reduction in &loop_stmt.reductions {
                    mentioned.extend(reduction.target.local());
                }
            }
        });
    }
    declared
}

fn mentions(expr: &Expr, id: LocalId) -> bool {
    expr.any(&mut |inner| matches!(inner, Expr::Local(other) | Expr::Lane(other, _) if *other == id))
}

pub(crate) fn needs_random(block: &Block) -> bool {
    let mut needed = false;
    block.each(&mut |statement| needed |= matches!(statement.kind, Kind::Random(_)));
    needed
}

pub(crate) fn needs_failure(block: &Block) -> bool {
    let mut needed = false;
    block.each(&mut |statement| needed |= matches!(statement.kind, Kind::Check { .. }));
    needed
}

/// About how many nanoseconds a block takes: to tell what is tiny from what may not be.
pub(crate) fn cost(block: &Block) -> u64 {
    let mut tenths = 2u64;
    for statement in &block.statements {
        tenths += cost_of_statement(&statement.kind);
        let inner = |block: &Block| cost(block) * 10;
        tenths += match &statement.kind {
            Kind::For(loop_stmt) => inner(&loop_stmt.body) * 32,
            Kind::Loop(body) => inner(body) * 32,
            Kind::If(_, then, otherwise) => inner(then) + inner(otherwise),
            Kind::Scope(_, body) => inner(body),
            _ => 0,
        };
        tenths = tenths.min(1 << 40);
    }
    tenths.div_ceil(10)
}

/// About how many tenths of nanoseconds a statement takes, what is inside of it aside.
pub(crate) fn cost_of_statement(kind: &Kind) -> u64 {
    let mut tenths = match kind {
        Kind::Atomic(_) => 50,
        Kind::Print(_) => 5000,
        _ => 0,
    };
    kind.parts(
        &mut |expr| {
            expr.any(&mut |inner| {
                tenths += match inner {
                    Expr::Call(..) => 100,
                    Expr::Load(_) | Expr::Binary(..) => 5,
                    _ => 1,
                };
                false
            });
        },
        &mut |_| {},
    );
    tenths
}
