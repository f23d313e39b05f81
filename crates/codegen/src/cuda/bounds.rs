//! Bounds of parallel loops that the loop itself may change.
//!
//! Each thread of a grid computes the bounds of its loop when it begins, and others may be done by then. What they may
//! have changed is read before all of them, by one thread.

use std::collections::BTreeSet;

use keyprint_lang::ir::{
    Array, ArrayId, AtomicTarget, Block, Expr, Kernel, Kind, Layout, Local, LocalId, Origin, Parallel,
    Statement,
};

use super::split::has_grid;

/// Puts bounds into variables where it makes a difference; nothing if it does so nowhere.
pub(crate) fn settled(kernel: &Kernel) -> Option<Kernel> {
    let mut settled = kernel.clone();
    let mut body = std::mem::take(&mut settled.body);
    block(&mut settled, &mut body);
    settled.body = body;
    (settled.locals.len() > kernel.locals.len()).then_some(settled)
}

fn block(kernel: &mut Kernel, within: &mut Block) {
    let mut statements = Vec::with_capacity(within.statements.len());
    for mut statement in std::mem::take(&mut within.statements) {
        match &mut statement.kind {
            Kind::Parallel(loop_stmt) => {
                let changed = Changed::by(loop_stmt);
                for bound in loop_stmt.from.iter_mut().chain(&mut loop_stmt.to) {
                    if !changed.concerns(kernel, bound) {
                        continue;
                    }
                    let local = kernel.locals.len() as LocalId;
                    let scalar = bound.scalar(kernel);
                    kernel.locals.push(Local { name: String::new(), scalar, lanes: 0 });
                    within.locals.push(local);
                    let value = std::mem::replace(bound, Expr::Local(local));
                    statements.push(Statement { line: statement.line, kind: Kind::Set(local, value) });
                }
            }
            Kind::Scope(_, body) if has_grid(body) => block(kernel, body),
            Kind::DoWhile(do_while) => block(kernel, &mut do_while.body),
            Kind::Checkpoint(checkpoint) => block(kernel, &mut checkpoint.body),
            Kind::Sections(sections) => sections.iter_mut().for_each(|section| block(kernel, section)),
            _ => {}
        }
        statements.push(statement);
    }
    within.statements = statements;
}

/// What a loop changes of what is around it.
struct Changed {
    arrays: BTreeSet<ArrayId>,
    locals: BTreeSet<LocalId>,
}

impl Changed {
    fn by(loop_stmt: &Parallel) -> Self {
        let mut changed = Self { arrays: BTreeSet::new(), locals: BTreeSet::new() };
        loop_stmt.body.each(&mut |statement| {
            match &statement.kind {
                Kind::Store(place, _) => drop(changed.arrays.insert(place.array)),
                Kind::Atomic(atomic) => changed.target(&atomic.target),
                _ => {}
            }
            changed.locals.extend(statement.kind.sets());
        });
        loop_stmt.reductions.iter().for_each(|reduction| changed.target(&reduction.target));
        changed
    }

    fn target(&mut self, target: &AtomicTarget) {
        match target {
            AtomicTarget::Place(place) => drop(self.arrays.insert(place.array)),
            AtomicTarget::Local(id) | AtomicTarget::Lane(id, _) => drop(self.locals.insert(*id)),
        }
    }

    fn concerns(&self, kernel: &Kernel, bound: &Expr) -> bool {
        let array = |id: ArrayId| &kernel.arrays[id as usize];
        bound.any(&mut |expr| match expr {
            Expr::Local(id) | Expr::Lane(id, _) => self.locals.contains(id),
            Expr::Load(place) => {
                self.arrays.iter().any(|changed| may_overlap(array(*changed), array(place.array)))
            }
            _ => false,
        })
    }
}

/// Whether two arrays may share memory. Those of the program stay where they are.
fn may_overlap(first: &Array, second: &Array) -> bool {
    match (bytes(first), bytes(second)) {
        (Some((from, to)), Some((other_from, other_to))) => from < other_to && other_from < to,
        _ => true,
    }
}

/// Where the elements of an array are, if that is known.
fn bytes(array: &Array) -> Option<(u64, u64)> {
    let Origin::Fixed { address, shape } = &array.origin else { return None };
    if array.layout != Layout::C {
        return None;
    }
    let elements = shape.iter().try_fold(1u64, |all, size| all.checked_mul(u64::try_from(*size).ok()?))?;
    let size = u64::from(array.lanes) * u64::from(array.scalar.bits().max(8) / 8);
    Some((*address, address.checked_add(elements.checked_mul(size)?)?))
}

#[cfg(test)]
mod tests {
    use keyprint_lang::ir::{parse, verify};

    use super::settled;

    /// Whether a bound is read before the loop.
    fn is_settled(bound: &str, body: &str) -> bool {
        let kernel = parse(&format!(
            r#"(kernel "f" (array "n" i32 1 1 0 0 c argument) (array "x" i32 1 1 0 0 c argument)
               (array "a" i32 1 1 0 0 c (fixed 4096 4)) (array "b" i32 1 1 0 0 c (fixed 4112 4))
               (local "i" i32 0) (local "m" i32 0) (results) (body (var 1) (@1 set 1 (i32 3))
               (@2 parallel ((0 (i32 0) {bound})) _ () (do {body}))))"#
        ))
        .unwrap();
        verify(&kernel).unwrap();
        let Some(settled) = settled(&kernel) else { return false };
        verify(&settled).unwrap();
        assert_eq!(super::settled(&settled), None);
        true
    }

    #[test]
    fn what_a_loop_may_change_is_read_before_it() {
        let (n, a) = ("(load (at 0 _ (i64 0)))", "(load (at 2 _ (i64 0)))");
        let store = |array: u32| format!("(@3 store (at {array} _ (cast i64 %0)) (i32 1))");
        assert!(is_settled(n, &store(0)));
        // Arguments may be one array by two names.
        assert!(is_settled(n, &store(1)));
        assert!(is_settled(a, &store(2)));
        assert!(is_settled(a, &store(1)));
        assert!(is_settled(n, "(@3 atomic add (at 1 _ (i64 0)) (i32 1) _)"));
        assert!(is_settled("%1", "(@3 atomic add %1 (i32 1) _)"));
        // Nothing, another variable, sizes, an array of the program beside.
        assert!(!is_settled(n, ""));
        assert!(!is_settled("%1", &store(0)));
        assert!(!is_settled("(cast i32 (size 0 0))", &store(0)));
        assert!(!is_settled(a, &store(3)));
    }
}
