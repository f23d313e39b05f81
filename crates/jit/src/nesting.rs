//! Whether a thread is inside of a compiler: one that launches other kernels must not wait for those who
//! wait for it.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Says that this thread compiles, until it is dropped.
pub(crate) struct Compiling(());

impl Compiling {
    pub(crate) fn begin() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self(())
    }
}

impl Drop for Compiling {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Whether this thread compiles something.
pub(crate) fn is_compiling() -> bool {
    DEPTH.get() > 0
}
