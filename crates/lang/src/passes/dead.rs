//! Dead code: locals that nothing reads, and what only computes them.

use rustc_hash::FxHashSet;

use crate::ir::{Block, Expr, Kernel, Kind, LocalId};

/// Removes locals that nothing reads, until there are none.
pub fn remove_dead(kernel: &mut Kernel) {
    loop {
        let mut read = FxHashSet::default();
        kernel.body.each_expr(&mut |expr| {
            expr.any(&mut |inner| {
                if let Expr::Local(id) | Expr::Lane(id, _) = inner {
                    read.insert(*id);
                }
                false
            });
        });
        kernel.body.each(&mut |statement| match &statement.kind {
            Kind::Atomic(atomic) => {
                read.extend(atomic.target.local());
            }
            Kind::Parallel(loop_stmt) => {
                for reduction in &loop_stmt.reductions {
                    read.insert(reduction.local);
                    read.extend(reduction.target.local());
                }
            }
            _ => {}
        });
        if !sweep(&mut kernel.body, &read) {
            return;
        }
    }
}

fn sweep(block: &mut Block, read: &FxHashSet<LocalId>) -> bool {
    let before = block.statements.len() + block.locals.len();
    block.statements.retain(|statement| match &statement.kind {
        // Numbers that are drawn are counted: the next one is another.
        Kind::Let(id, _) | Kind::Set(id, _) | Kind::SetLane(id, ..) => read.contains(id),
        Kind::If(_, then, otherwise) => !(then.statements.is_empty() && otherwise.statements.is_empty()),
        _ => true,
    });
    block.locals.retain(|id| read.contains(id));
    let mut changed = before != block.statements.len() + block.locals.len();
    for statement in &mut block.statements {
        if let Kind::Atomic(atomic) = &mut statement.kind
            && atomic.old.is_some_and(|id| !read.contains(&id))
        {
            atomic.old = None;
            changed = true;
        }
        statement.kind.parts_mut(&mut |_| {}, &mut |inner| changed |= sweep(inner, read));
    }
    changed
}

/// Forgets what elements were before they changed, where nothing reads it.
pub(super) fn forget_unread(block: &mut Block) {
    let mut read = FxHashSet::default();
    block.each_expr(&mut |expr| {
        expr.any(&mut |inner| {
            if let Expr::Local(id) = inner {
                read.insert(*id);
            }
            false
        });
    });
    fn forget(block: &mut Block, read: &FxHashSet<LocalId>) {
        for statement in &mut block.statements {
            if let Kind::Atomic(atomic) = &mut statement.kind
                && atomic.old.is_some_and(|id| !read.contains(&id))
            {
                atomic.old = None;
            }
            statement.kind.parts_mut(&mut |_| {}, &mut |inner| forget(inner, read));
        }
    }
    forget(block, &read);
}
