//! Passes over the IR, a few that pay.

mod atomics;
mod dead;
pub mod fold;

pub(crate) use self::atomics::combined;
pub use self::atomics::relax_atomics;
pub use self::dead::remove_dead;

use crate::ir::Kernel;

/// Runs all passes.
pub fn optimise(kernel: &mut Kernel) {
    fold::fold(kernel);
    relax_atomics(kernel);
    remove_dead(kernel);
}
