//! Whether a kernel makes sense: every stage that makes or changes one is followed by this in tests and
//! in builds with assertions.

use rustc_hash::FxHashSet;

use super::{
    ArrayId, AtomicOp, AtomicTarget, Binary, Block, Expr, Kernel, Kind, Layout, LocalId, Origin, Part, Place,
    Scalar, ScopeId, Unary,
};

/// What is wrong with a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

type Checked<T> = Result<T, Invalid>;

/// Checks a kernel.
///
/// # Errors
///
/// If something is used that is not there, or is not of the type that it must be.
pub fn verify(kernel: &Kernel) -> Checked<()> {
    for array in &kernel.arrays {
        if array.ndim > 8 || array.lanes == 0 {
            return fail(format!(
                "array `{}` has {} dimensions, {} lanes",
                array.name, array.ndim, array.lanes
            ));
        }
        if let Origin::Fixed { shape, .. } = &array.origin
            && (shape.len() != usize::from(array.ndim) || array.layout != Layout::C)
        {
            return fail(format!("array `{}` is fixed with another shape", array.name));
        }
    }
    let count = kernel.arrays.len();
    if kernel.noalias.iter().any(|(first, second)| *first as usize >= count || *second as usize >= count) {
        return fail("arrays that must not alias are not there".to_owned());
    }
    let mut check = Verifier {
        kernel,
        visible: FxHashSet::default(),
        scopes: Vec::new(),
        loops: 0,
        parallel: false,
        place: if kernel.is_graph { Where::Graph } else { Where::Inside },
        in_section: false,
        labels: 0,
    };
    check.block(&kernel.body)?;
    let labels = kernel.labels.as_deref().unwrap_or_default();
    if check.labels as usize != labels.len() || (kernel.labels.is_some() && !kernel.is_graph) {
        return fail("labels without checkpoints".to_owned());
    }
    if !labels.is_empty()
        && let Some(lost) = crate::graph::not_live_at_resume(kernel)
    {
        return fail(format!("local {} is not known after checkpoint {}", lost.local, lost.label));
    }
    for (at, label) in labels.iter().enumerate() {
        if labels[..at].iter().any(|earlier| earlier.value == label.value) {
            return fail(format!("two checkpoints are {}", label.value));
        }
    }
    Ok(())
}

/// Where statements are in a graph.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Right in it, or in a loop of it.
    Graph,
    /// In a checkpoint of it.
    Checkpoint,
    /// In a section that runs beside others.
    Section,
    /// In a task, or in no graph at all.
    Inside,
}

struct Verifier<'k> {
    kernel: &'k Kernel,
    visible: FxHashSet<LocalId>,
    scopes: Vec<ScopeId>,
    loops: u32,
    parallel: bool,
    place: Where,
    /// Whether this is a section, which is a function of its own.
    in_section: bool,
    /// Checkpoints so far: they are numbered in the order of the program.
    labels: u32,
}

fn fail<T>(text: String) -> Checked<T> {
    Err(Invalid(text))
}

impl Verifier<'_> {
    fn declare(&mut self, id: LocalId) -> Checked<()> {
        if id as usize >= self.kernel.locals.len() {
            return fail(format!("there is no local {id}"));
        }
        if !self.visible.insert(id) {
            return fail(format!("local {id} is made twice"));
        }
        Ok(())
    }

    fn local(&self, id: LocalId) -> Checked<&super::Local> {
        if !self.visible.contains(&id) {
            return fail(format!("local {id} is not there"));
        }
        Ok(&self.kernel.locals[id as usize])
    }

    fn block(&mut self, block: &Block) -> Checked<()> {
        let outer = self.visible.clone();
        for id in &block.locals {
            self.declare(*id)?;
        }
        let place = self.place;
        for statement in &block.statements {
            if !statement.kind.is_graph() {
                self.place = Where::Inside;
            }
            self.statement(&statement.kind)?;
            self.place = place;
        }
        self.visible = outer;
        Ok(())
    }

    /// A piece of a graph.
    fn piece(&mut self, body: &Block, place: Where) -> Checked<()> {
        let outer = std::mem::replace(&mut self.place, place);
        let (scopes, loops) = (std::mem::take(&mut self.scopes), std::mem::replace(&mut self.loops, 0));
        self.block(body)?;
        (self.place, self.scopes, self.loops) = (outer, scopes, loops);
        Ok(())
    }

    /// An array that decides how a graph goes on.
    fn decides(&self, id: ArrayId) -> Checked<()> {
        match self.kernel.arrays.get(id as usize) {
            Some(array)
                if (array.scalar, array.ndim, array.lanes, &array.origin)
                    == (Scalar::I32, 0, 1, &Origin::Argument) =>
            {
                Ok(())
            }
            _ => fail(format!("array {id} is not one `i32` among the arguments")),
        }
    }

    fn is(&self, expr: &Expr, expected: Scalar) -> Checked<()> {
        let found = self.expr(expr)?;
        if found == expected { Ok(()) } else { fail(format!("expected {expected}, found {found}")) }
    }

    fn statement(&mut self, kind: &Kind) -> Checked<()> {
        match kind {
            Kind::Let(id, value) => {
                let scalar = self.expr(value)?;
                self.declare(*id)?;
                let local = self.local(*id)?;
                if local.scalar != scalar || local.lanes != 0 {
                    return fail(format!("local {id} is {}, and set to {scalar}", local.scalar));
                }
                Ok(())
            }
            Kind::Set(id, value) => {
                let local = self.local(*id)?;
                if local.lanes != 0 {
                    return fail(format!("local {id} has lanes"));
                }
                self.is(value, local.scalar)
            }
            Kind::SetLane(id, at, value) => {
                let local = self.local(*id)?;
                self.lane(at, local.lanes)?;
                self.is(value, local.scalar)
            }
            Kind::Store(place, value) => {
                let scalar = self.place(place)?;
                self.is(value, scalar)
            }
            Kind::Atomic(atomic) => {
                let scalar = self.target(&atomic.target, atomic.op)?;
                let wide = self.expr(&atomic.value)?;
                if wide.is_float() && !scalar.is_float() || wide == Scalar::Bool && scalar != Scalar::Bool {
                    return fail(format!("a `{scalar}` is changed in the type `{wide}`"));
                }
                match atomic.old {
                    Some(id) => self.declare(id),
                    None => Ok(()),
                }
            }
            Kind::If(condition, then, otherwise) => {
                self.is(condition, Scalar::Bool)?;
                self.block(then)?;
                self.block(otherwise)
            }
            Kind::For(loop_stmt) => {
                let outer = self.visible.clone();
                let scalar = self.expr(&loop_stmt.from)?;
                self.is(&loop_stmt.to, scalar)?;
                self.declare(loop_stmt.variable)?;
                if self.local(loop_stmt.variable)?.scalar != scalar || !scalar.is_int() {
                    return fail("a loop over another type than its variable".to_owned());
                }
                self.inside(&loop_stmt.body)?;
                self.visible = outer;
                Ok(())
            }
            Kind::Parallel(loop_stmt) => self.parallel(loop_stmt),
            Kind::Loop(body) => self.inside(body),
            Kind::Break | Kind::Continue if self.loops == 0 => fail("no loop to leave".to_owned()),
            Kind::Break | Kind::Continue => Ok(()),
            Kind::Scope(id, body) => {
                self.scopes.push(*id);
                self.block(body)?;
                self.scopes.pop();
                Ok(())
            }
            Kind::Leave(id) if self.scopes.contains(id) => Ok(()),
            Kind::Leave(id) => fail(format!("no scope {id} to leave")),
            Kind::Return(_) if self.parallel => fail("a parallel loop that returns".to_owned()),
            Kind::Return(_) if self.in_section => fail("a section that returns".to_owned()),
            Kind::Return(values) => {
                if values.len() != self.kernel.results.len() {
                    return fail("another number of results".to_owned());
                }
                values
                    .iter()
                    .zip(&self.kernel.results)
                    .try_for_each(|(value, scalar)| self.is(value, *scalar))
            }
            Kind::Check { condition, site, values } => {
                if *site as usize >= self.kernel.sites.len() {
                    return fail(format!("there is no site {site}"));
                }
                values.iter().try_for_each(|value| self.expr(value).map(|_| ()))?;
                self.is(condition, Scalar::Bool)
            }
            Kind::Print(parts) => parts.iter().try_for_each(|part| match part {
                Part::Text(_) => Ok(()),
                Part::Value(value) => self.expr(value).map(|_| ()),
            }),
            Kind::Random(id) => self.declare(*id),
            Kind::DoWhile(do_while) => {
                if !matches!(self.place, Where::Graph | Where::Checkpoint) || !self.scopes.is_empty() {
                    return fail("a loop of a graph inside a task".to_owned());
                }
                self.decides(do_while.counter)?;
                self.piece(&do_while.body, self.place)
            }
            Kind::Checkpoint(checkpoint) => {
                if self.place != Where::Graph || !self.scopes.is_empty() || checkpoint.label != self.labels {
                    return fail("a checkpoint inside a task or another, or out of order".to_owned());
                }
                self.labels += 1;
                checkpoint.flag.map_or(Ok(()), |flag| self.decides(flag))?;
                self.piece(&checkpoint.body, Where::Checkpoint)
            }
            Kind::Sections(sections) => {
                if !matches!(self.place, Where::Graph | Where::Checkpoint) || !self.scopes.is_empty() {
                    return fail("sections inside a task or each other".to_owned());
                }
                self.in_section = true;
                sections.iter().try_for_each(|section| self.piece(section, Where::Section))?;
                self.in_section = false;
                Ok(())
            }
            Kind::At(site) if (*site as usize) < self.kernel.sites.len() => Ok(()),
            Kind::At(site) => fail(format!("there is no site {site}")),
        }
    }

    fn parallel(&mut self, loop_stmt: &super::Parallel) -> Checked<()> {
        if self.parallel || loop_stmt.variables.is_empty() {
            return fail("a parallel loop inside another, or over nothing".to_owned());
        }
        if loop_stmt.from.len() != loop_stmt.variables.len()
            || loop_stmt.to.len() != loop_stmt.variables.len()
        {
            return fail("a parallel loop with other bounds than variables".to_owned());
        }
        let (outer, scopes, loops) = (self.visible.clone(), std::mem::take(&mut self.scopes), self.loops);
        for reduction in &loop_stmt.reductions {
            self.target(&reduction.target, reduction.op)?;
        }
        let mut scalars = Vec::new();
        for (from, to) in loop_stmt.from.iter().zip(&loop_stmt.to) {
            scalars.push(self.expr(from)?);
            self.is(to, scalars[scalars.len() - 1])?;
        }
        for (id, scalar) in loop_stmt.variables.iter().zip(scalars) {
            self.declare(*id)?;
            if self.local(*id)?.scalar != scalar || !scalar.is_int() {
                return fail("a loop over another type than its variable".to_owned());
            }
        }
        for reduction in &loop_stmt.reductions {
            self.declare(reduction.local)?;
        }
        // Going on with the next is fine; leaving the loop is not.
        (self.loops, self.parallel) = (0, true);
        if loop_stmt.body.leaves_loop() {
            return fail("a parallel loop that is left".to_owned());
        }
        self.loops = 1;
        self.block(&loop_stmt.body)?;
        (self.visible, self.scopes, self.loops, self.parallel) = (outer, scopes, loops, false);
        Ok(())
    }

    fn inside(&mut self, body: &Block) -> Checked<()> {
        self.loops += 1;
        self.block(body)?;
        self.loops -= 1;
        Ok(())
    }

    fn target(&self, target: &AtomicTarget, op: AtomicOp) -> Checked<Scalar> {
        let scalar = match target {
            AtomicTarget::Place(place) => self.place(place)?,
            AtomicTarget::Local(id) if self.local(*id)?.lanes > 0 => {
                return fail(format!("local {id} has lanes"));
            }
            AtomicTarget::Local(id) => self.local(*id)?.scalar,
            AtomicTarget::Lane(id, at) => {
                let local = self.local(*id)?;
                self.lane(at, local.lanes)?;
                local.scalar
            }
        };
        let bits = matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
        if bits && scalar.is_float() { fail(format!("{} of floats", op.name())) } else { Ok(scalar) }
    }

    fn lane(&self, at: &Expr, lanes: u32) -> Checked<()> {
        if let Expr::Const(_, at) = at
            && *at >= u64::from(lanes)
        {
            return fail(format!("lane {at} of {lanes}"));
        }
        self.is(at, Scalar::I64)
    }

    fn place(&self, place: &Place) -> Checked<Scalar> {
        let Some(array) = self.kernel.arrays.get(place.array as usize) else {
            return fail(format!("there is no array {}", place.array));
        };
        if place.index.len() != usize::from(array.ndim) {
            return fail(format!("array `{}` has {} dimensions", array.name, array.ndim));
        }
        place.index.iter().try_for_each(|index| self.is(index, Scalar::I64))?;
        match &place.lane {
            Some(lane) => self.lane(lane, array.lanes)?,
            None if array.lanes != 1 => return fail(format!("array `{}` has lanes", array.name)),
            None => {}
        }
        Ok(array.scalar)
    }

    fn expr(&self, expr: &Expr) -> Checked<Scalar> {
        match expr {
            Expr::Const(Scalar::Bool, 2..) => fail("neither true nor false".to_owned()),
            Expr::Const(scalar, _) => Ok(*scalar),
            Expr::Local(id) => {
                let local = self.local(*id)?;
                if local.lanes == 0 { Ok(local.scalar) } else { fail(format!("local {id} has lanes")) }
            }
            Expr::Lane(id, at) => {
                let local = self.local(*id)?;
                self.lane(at, local.lanes)?;
                Ok(local.scalar)
            }
            Expr::Number(id) => match self.kernel.numbers.get(*id as usize) {
                Some(number) => Ok(number.scalar),
                None => fail(format!("there is no number {id}")),
            },
            Expr::Size(id, at) => match self.kernel.arrays.get(*id as usize) {
                Some(array) if *at < array.ndim => Ok(Scalar::I64),
                _ => fail(format!("there is no dimension {at} of array {id}")),
            },
            Expr::Load(place) => self.place(place),
            Expr::Unary(op, operand) => self.unary(*op, operand),
            Expr::Binary(op, left, right) => self.binary(*op, left, right),
            Expr::Cast(scalar, value) => self.expr(value).map(|_| *scalar),
            Expr::Bits(scalar, value) => {
                let source = self.expr(value)?;
                if source.bits() == scalar.bits() {
                    Ok(*scalar)
                } else {
                    fail("bits of another size".to_owned())
                }
            }
            Expr::Select(parts) => {
                self.is(&parts[0], Scalar::Bool)?;
                let scalar = self.expr(&parts[1])?;
                self.is(&parts[2], scalar)?;
                Ok(scalar)
            }
            Expr::Call(math, arguments) => {
                if arguments.len() != math.arity() {
                    return fail(format!("`{}` with {} arguments", math.name(), arguments.len()));
                }
                let scalar = self.expr(&arguments[0])?;
                arguments.iter().try_for_each(|argument| self.is(argument, scalar))?;
                if matches!(scalar, Scalar::F32 | Scalar::F64) {
                    Ok(scalar)
                } else {
                    fail(format!("`{}` of {scalar}", math.name()))
                }
            }
        }
    }

    fn unary(&self, op: Unary, operand: &Expr) -> Checked<Scalar> {
        let scalar = self.expr(operand)?;
        let fits = match op {
            Unary::Not => scalar == Scalar::Bool,
            Unary::BitNot => scalar.is_int(),
            Unary::Neg | Unary::Abs => scalar != Scalar::Bool && !scalar.is_half(),
        };
        if fits { Ok(scalar) } else { fail(format!("`{}` of {scalar}", op.name())) }
    }

    fn binary(&self, op: Binary, left: &Expr, right: &Expr) -> Checked<Scalar> {
        let scalar = self.expr(left)?;
        self.is(right, scalar)?;
        let fits = match op {
            Binary::And | Binary::Or => scalar == Scalar::Bool,
            Binary::BitAnd | Binary::BitOr | Binary::BitXor => !scalar.is_float(),
            Binary::Shl | Binary::Shr | Binary::TruncDiv | Binary::TruncMod => scalar.is_int(),
            Binary::Div => matches!(scalar, Scalar::F32 | Scalar::F64),
            Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le => !scalar.is_half(),
            _ => scalar != Scalar::Bool && !scalar.is_half(),
        };
        if !fits {
            return fail(format!("`{}` of {scalar}", op.name()));
        }
        Ok(if op.is_comparison() { Scalar::Bool } else { scalar })
    }
}
