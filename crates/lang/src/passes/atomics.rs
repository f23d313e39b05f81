//! Atomic changes that need not be atomic.
//!
//! In a parallel loop every `+=` on an element is atomic, because another iteration may change the same
//! one. Often none can: the element is named by the very variables of the loop. Or all of them change
//! one variable that none reads: then each thread keeps a share of its own, and the shares are put
//! together at the end.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{
    ArrayId, Atomic, AtomicOp, AtomicTarget, Binary, Block, Expr, Kernel, Kind, Layout, Local, LocalId,
    Origin, Parallel, Place, Reduction, Statement,
};
use crate::passes::fold;
use crate::types::Scalar;

/// Makes plain changes and reductions of atomics, where that is the same.
pub fn relax_atomics(kernel: &mut Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    outermost(kernel, &mut body);
    kernel.body = body;
}

fn outermost(kernel: &mut Kernel, block: &mut Block) {
    for statement in &mut block.statements {
        match &mut statement.kind {
            Kind::Parallel(loop_stmt) => {
                // Old values tell the order of changes: a reduction has none.
                crate::passes::dead::forget_unread(&mut loop_stmt.body);
                own_elements(kernel, loop_stmt);
                reductions(kernel, loop_stmt);
            }
            kind => kind.parts_mut(&mut |_| {}, &mut |inner| outermost(kernel, inner)),
        }
    }
}

/// Everything that is written in a block: by plain stores and by atomics.
fn written(block: &Block) -> Vec<&Place> {
    let mut places = Vec::new();
    block.each(&mut |statement| match &statement.kind {
        Kind::Store(place, _) => places.push(place),
        Kind::Atomic(Atomic { target: AtomicTarget::Place(place), .. }) => places.push(place),
        _ => {}
    });
    places
}

/// Makes plain changes of atomics if every element that is written is one that belongs to its iteration.
fn own_elements(kernel: &mut Kernel, loop_stmt: &mut Parallel) {
    let variables = loop_stmt.variables.clone();
    let owned = |place: &Place| is_own(place, &variables);
    // What all iterations change is for reductions, if it is apart from what each has for itself.
    let inside = locals_of(&loop_stmt.body, &variables);
    let stored = stored(&loop_stmt.body);
    let (own, common): (Vec<&Place>, Vec<&Place>) = written(&loop_stmt.body)
        .into_iter()
        .partition(|place| stored.contains(&place.array) || !is_invariant(place, &inside));
    let Some(first) = own.first() else { return };
    // By the same indices, so that one array by two names is no trouble.
    if !own.iter().all(|place| owned(place) && place.index == first.index) {
        return;
    }
    let places = own;
    let is_apart = |one: ArrayId, other: ArrayId| one != other && !may_be_same(kernel, one, other);
    if !common.iter().all(|place| places.iter().all(|own| is_apart(place.array, own.array))) {
        return;
    }
    let common: Vec<ArrayId> = common.iter().map(|place| place.array).collect();
    // What would become plain: arrays are not kept apart for nothing.
    let mut has_own = false;
    loop_stmt.body.each(&mut |statement| {
        has_own |= matches!(
            &statement.kind,
            Kind::Atomic(Atomic { target: AtomicTarget::Place(place), old: None, .. })
                if places.iter().any(|own| own.array == place.array)
        );
    });
    if !has_own {
        return;
    }
    // Another iteration must not look at an element while it changes, either: it would have seen it
    // before or after, and now could see neither. Reads of other elements of such arrays keep the atomics.
    let arrays: FxHashSet<ArrayId> = places.iter().map(|place| place.array).collect();
    let mut reads_others = false;
    loop_stmt.body.each_expr(&mut |expr| {
        expr.any(&mut |inner| {
            if let Expr::Load(place) = inner {
                reads_others |= arrays.contains(&place.array) && !owned(place);
            }
            false
        });
    });
    if reads_others {
        return;
    }
    let mut arrays: Vec<ArrayId> = arrays.into_iter().collect();
    arrays.sort_unstable();
    for (at, array) in arrays.iter().enumerate() {
        // With itself: an array of any strides may hold an element twice.
        let is_strided = kernel.arrays[*array as usize].layout == Layout::Strided;
        for other in &arrays[if is_strided { at } else { at + 1 }..] {
            keep_apart(kernel, *array, *other);
        }
        common.iter().for_each(|other| keep_apart(kernel, (*array).min(*other), (*array).max(*other)));
    }
    relax(kernel, &mut loop_stmt.body, &arrays);
}

/// Has a launch be refused if two arrays overlap.
fn keep_apart(kernel: &mut Kernel, first: ArrayId, second: ArrayId) {
    if !kernel.noalias.contains(&(first, second)) {
        kernel.noalias.push((first, second));
    }
}

/// Arrays that are written by plain stores.
fn stored(block: &Block) -> FxHashSet<ArrayId> {
    let mut arrays = FxHashSet::default();
    block.each(&mut |statement| {
        if let Kind::Store(place, _) = &statement.kind {
            arrays.insert(place.array);
        }
    });
    arrays
}

/// Whether two arrays may be one by two names. Others that overlap are refused.
fn may_be_same(kernel: &Kernel, one: ArrayId, other: ArrayId) -> bool {
    let (a, b) = (&kernel.arrays[one as usize], &kernel.arrays[other as usize]);
    if let (Origin::Fixed { address: a, .. }, Origin::Fixed { address: b, .. }) = (&a.origin, &b.origin) {
        return a == b;
    }
    a.is_laid_out_as(b)
}

/// Whether an element is named by all variables of the loop, each in a dimension of its own.
fn is_own(place: &Place, variables: &[LocalId]) -> bool {
    variables.iter().all(|variable| {
        place.index.iter().any(|index| match index {
            Expr::Local(id) => id == variable,
            Expr::Cast(Scalar::I64, inner) => matches!(&**inner, Expr::Local(id) if id == variable),
            _ => false,
        })
    })
}

fn relax(kernel: &Kernel, block: &mut Block, arrays: &[ArrayId]) {
    for statement in &mut block.statements {
        statement.kind.parts_mut(&mut |_| {}, &mut |inner| relax(kernel, inner, arrays));
        let Kind::Atomic(Atomic { op, target: AtomicTarget::Place(place), value, old: None }) =
            &statement.kind
        else {
            continue;
        };
        if !arrays.contains(&place.array) {
            continue;
        }
        let before = Expr::Load(Box::new(place.clone()));
        let scalar = kernel.arrays[place.array as usize].scalar;
        let from = value.scalar(kernel);
        statement.kind = Kind::Store(place.clone(), combined(*op, (before, scalar), (value.clone(), from)));
    }
}

/// What a change makes of a number: it is done in the type of what it is changed with.
pub(crate) fn combined(
    op: AtomicOp,
    (before, scalar): (Expr, Scalar),
    (value, from): (Expr, Scalar),
) -> Expr {
    let (op, is_bits) = match op {
        AtomicOp::Add => (Binary::Add, false),
        AtomicOp::Mul => (Binary::Mul, false),
        AtomicOp::Min => (Binary::Min, false),
        AtomicOp::Max => (Binary::Max, false),
        AtomicOp::And => (Binary::BitAnd, true),
        AtomicOp::Or => (Binary::BitOr, true),
        AtomicOp::Xor => (Binary::BitXor, true),
    };
    let wide = match from {
        Scalar::Bool if !is_bits => Scalar::I32,
        other => other.computed(),
    };
    let after = fold::binary(op, fold::cast(scalar, wide, before), fold::cast(from, wide, value));
    fold::cast(wide, scalar, after)
}

/// Makes reductions of variables, and of elements that are the same for all iterations, that are only
/// changed in one way.
fn reductions(kernel: &mut Kernel, loop_stmt: &mut Parallel) {
    // Variables, and lanes of them that are known: what is done to each.
    let mut ways: FxHashMap<(LocalId, Option<u64>), Option<AtomicOp>> = FxHashMap::default();
    let mut unknown = FxHashSet::default();
    let mut places: Vec<(Place, Option<AtomicOp>)> = Vec::new();
    let inside = locals_of(&loop_stmt.body, &loop_stmt.variables);
    let certain = certain_statements(&loop_stmt.body);
    // Shares are put together in the type of the target: what is done in another one would show.
    let is_plain = |op: AtomicOp, value: &Expr, scalar: Scalar| {
        value.scalar(kernel) == scalar || scalar.is_float() && matches!(op, AtomicOp::Add | AtomicOp::Mul)
    };
    loop_stmt.body.each(&mut |statement| match &statement.kind {
        Kind::Atomic(Atomic {
            op,
            target: target @ (AtomicTarget::Local(id) | AtomicTarget::Lane(id, _)),
            value,
            old,
        }) => {
            let lane = match target {
                AtomicTarget::Lane(_, Expr::Const(_, at)) => Some(*at),
                AtomicTarget::Lane(..) => {
                    unknown.insert(*id);
                    return;
                }
                _ => None,
            };
            let way = ways.entry((*id, lane)).or_insert(Some(*op));
            if old.is_some() || *way != Some(*op) || !is_plain(*op, value, kernel.locals[*id as usize].scalar)
            {
                *way = None;
            }
        }
        Kind::Atomic(Atomic { op, target: AtomicTarget::Place(place), value, old }) => {
            // What is not always changed must not be touched: it may not even be there.
            let is_certain = certain.iter().any(|kind| std::ptr::eq(*kind, &raw const statement.kind));
            let is_plain = is_plain(*op, value, kernel.arrays[place.array as usize].scalar);
            let fits = old.is_none() && is_certain && is_plain && is_invariant(place, &inside);
            match places.iter_mut().find(|(known, _)| known.array == place.array) {
                None => places.push((place.clone(), fits.then_some(*op))),
                Some((known, way)) => {
                    if !fits || known != place || *way != Some(*op) {
                        *way = None;
                    }
                }
            }
        }
        _ => {}
    });
    let (mut read, mut touched) = (FxHashSet::default(), FxHashSet::default());
    loop_stmt.body.each_expr(&mut |expr| {
        expr.any(&mut |inner| {
            match inner {
                Expr::Local(id) | Expr::Lane(id, _) => drop(read.insert(*id)),
                Expr::Load(place) => drop(touched.insert(place.array)),
                _ => {}
            }
            false
        });
    });
    loop_stmt.body.each(&mut |statement| match &statement.kind {
        Kind::Set(id, _) | Kind::SetLane(id, ..) => drop(read.insert(*id)),
        Kind::Store(place, _) => drop(touched.insert(place.array)),
        _ => {}
    });
    // One element by two names, if two arrays are one: that is all the same if both are changed in one way.
    let way_of = |(place, way): &(Place, Option<AtomicOp>)| {
        way.map(|op| (op, kernel.arrays[place.array as usize].scalar))
    };
    let is_one_way = places.len() == 1
        || places.iter().all(|place| way_of(place).is_some() && way_of(place) == way_of(&places[0]));
    let mut targets = Vec::new();
    for ((id, lane), way) in ways {
        if let Some(op) = way
            && !read.contains(&id)
            && !unknown.contains(&id)
        {
            let target = match lane {
                Some(at) => AtomicTarget::Lane(id, Expr::Const(Scalar::I64, at)),
                None => AtomicTarget::Local(id),
            };
            targets.push((target, op, kernel.locals[id as usize].scalar));
        }
    }
    for (place, way) in places {
        if let Some(op) = way
            && !touched.contains(&place.array)
            && is_one_way
        {
            let scalar = kernel.arrays[place.array as usize].scalar;
            targets.push((AtomicTarget::Place(place), op, scalar));
        }
    }
    // In the order of the program, whatever order the map has.
    targets.sort_by_key(|(target, ..)| match target {
        AtomicTarget::Local(id) => (0, *id, 0),
        AtomicTarget::Lane(id, Expr::Const(_, at)) => (0, *id, *at),
        AtomicTarget::Lane(id, _) => (0, *id, u64::MAX),
        AtomicTarget::Place(place) => (1, place.array, 0),
    });
    for (target, op, scalar) in targets {
        if scalar.is_half() || scalar == Scalar::Bool {
            continue;
        }
        let local = kernel.locals.len() as LocalId;
        kernel.locals.push(Local { name: "share".to_owned(), scalar, lanes: 0 });
        fold_into(kernel, &mut loop_stmt.body, &target, op, local, scalar);
        loop_stmt.reductions.push(Reduction { op, local, target });
    }
}

/// Statements that every iteration runs.
fn certain_statements(body: &Block) -> Vec<*const Kind> {
    let leaves = |kind: &Kind| {
        let single =
            Block { locals: Vec::new(), statements: vec![Statement { line: 0, kind: kind.clone() }] };
        let mut can_leave = false;
        single.each(&mut |inner| {
            can_leave |= matches!(inner.kind, Kind::Continue | Kind::Leave(_) | Kind::Check { .. })
        });
        can_leave
    };
    body.statements
        .iter()
        .map(|statement| &statement.kind)
        .take_while(|kind| !leaves(kind))
        .map(std::ptr::from_ref)
        .collect()
}

/// Locals that iterations have for themselves.
fn locals_of(body: &Block, variables: &[LocalId]) -> FxHashSet<LocalId> {
    let mut locals: FxHashSet<LocalId> = variables.iter().copied().collect();
    fn collect(block: &Block, locals: &mut FxHashSet<LocalId>) {
        locals.extend(&block.locals);
        for statement in &block.statements {
            locals.extend(statement.kind.sets());
            if let Kind::For(loop_stmt) = &statement.kind {
                locals.insert(loop_stmt.variable);
            }
            if let Kind::Atomic(Atomic { old: Some(id), .. }) = &statement.kind {
                locals.insert(*id);
            }
            statement.kind.parts(&mut |_| {}, &mut |inner| collect(inner, locals));
        }
    }
    collect(body, &mut locals);
    locals
}

fn is_invariant(place: &Place, inside: &FxHashSet<LocalId>) -> bool {
    place.expressions().all(|expr| {
        !expr.any(&mut |inner| match inner {
            Expr::Local(id) | Expr::Lane(id, _) => inside.contains(id),
            Expr::Load(_) => true,
            _ => false,
        })
    })
}

fn fold_into(
    kernel: &Kernel,
    block: &mut Block,
    target: &AtomicTarget,
    op: AtomicOp,
    local: LocalId,
    scalar: Scalar,
) {
    for statement in &mut block.statements {
        statement
            .kind
            .parts_mut(&mut |_| {}, &mut |inner| fold_into(kernel, inner, target, op, local, scalar));
        if let Kind::Atomic(atomic) = &statement.kind
            && atomic.target == *target
        {
            let value = (atomic.value.clone(), atomic.value.scalar(kernel));
            statement.kind = Kind::Set(local, combined(op, (Expr::Local(local), scalar), value));
        }
    }
}
