//! Sections that do not depend on each other, at the same time where that pays.
//!
//! A loop that takes long uses all threads by itself: sections of such loops run one after the other. Sections
//! whose loops are too small for that run beside each other, if what they take is worth waking somebody. Which it
//! is, earlier launches have shown: each group of sections keeps a number for that.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::pool::{self, Task, WAKE};
use crate::table;

/// What earlier launches have shown, in one number: 0 at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// Nothing, or that sections take next to no time: one after the other.
    Short,
    /// They are worth it, as far as one can tell: one after the other they took this many nanoseconds; and how often in
    /// a row it was not worth it after all.
    Beside(u64, u64),
    /// They take long, and are better off one after the other, at least for this many launches.
    Long(u64),
}

/// How many launches go by before it is tried again.
const LAUNCHES: u64 = 64;

/// How many launches that were not worth it are chance.
const CHANCES: u64 = 3;

impl Known {
    fn of(state: i64) -> Self {
        let (kind, rest) = (state & 3, state.cast_unsigned() >> 2);
        match kind {
            1 => Self::Beside(rest >> 2, rest & 3),
            2 => Self::Long(rest),
            _ => Self::Short,
        }
    }

    fn state(self) -> i64 {
        let (kind, rest) = match self {
            Self::Short => (0, 0),
            Self::Beside(before, misses) => (1, before << 2 | misses),
            Self::Long(rest) => (2, rest),
        };
        (rest << 2 | kind).cast_signed()
    }
}

thread_local! {
    /// Whether loops on this thread leave the others alone.
    static ALONE: Cell<bool> = const { Cell::new(false) };
    /// Whether one of them would not have.
    static WANTED_MORE: Cell<bool> = const { Cell::new(false) };
}

/// Whether a loop that takes long should run on this thread only; takes note that there is one.
pub(crate) fn keeps_to_itself() -> bool {
    WANTED_MORE.set(true);
    ALONE.get()
}

/// What runs beside each other.
#[derive(Clone, Copy)]
struct Sections<'s> {
    task: Task,
    context: *mut c_void,
    count: i64,
    next: &'s AtomicI64,
    wanted_more: &'s AtomicBool,
}

// SAFETY: sections may be run on any thread with the context that was made for them.
unsafe impl Send for Sections<'_> {}

impl Sections<'_> {
    /// Runs sections as long as there are any.
    fn take(self) {
        WANTED_MORE.set(false);
        let before = ALONE.replace(true);
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= self.count {
                break;
            }
            // SAFETY: the sections were made for this context, and this is one of them.
            unsafe { (self.task)(self.context, at, at + 1) };
        }
        ALONE.set(before);
        if WANTED_MORE.get() {
            self.wanted_more.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs sections: all of them are done when this returns.
///
/// # Safety
///
/// `sections` can be called with `context` and any of the sections, from any thread; `state` is a number that
/// belongs to them, zero at first.
pub(crate) unsafe extern "C" fn run(sections: Task, context: *mut c_void, count: i64, state: *mut i64) {
    // SAFETY: as the caller promises; launches on other threads use it the same way.
    let state = unsafe { AtomicI64::from_ptr(state) };
    let known = Known::of(state.load(Ordering::Relaxed));
    let token = if known == Known::Short { std::ptr::null_mut() } else { table::unlock() };
    let known = match (known, pool::helpers()) {
        // SAFETY: as the caller promises.
        (Known::Beside(before, misses), Some(pool)) => unsafe {
            beside(pool, sections, context, count, (before, misses))
        },
        // SAFETY: as the caller promises.
        (_, helpers) => unsafe { in_a_row(sections, context, count, known, helpers.is_some()) },
    };
    state.store(known.state(), Ordering::Relaxed);
    if !token.is_null() {
        table::lock(token);
    }
}

/// # Safety
///
/// As for [`run`].
unsafe fn beside(
    pool: &rayon::ThreadPool,
    task: Task,
    context: *mut c_void,
    count: i64,
    (before, misses): (u64, u64),
) -> Known {
    let start = Instant::now();
    let (next, wanted_more) = (AtomicI64::new(0), AtomicBool::new(false));
    let work = Sections { task, context, count, next: &next, wanted_more: &wanted_more };
    let others = (pool.current_num_threads() as i64).min(count - 1);
    pool.in_place_scope(|scope| {
        for _ in 0..others {
            scope.spawn(move |_| work.take());
        }
        work.take();
    });
    let spent = start.elapsed().as_nanos() as u64;
    // Whoever helps may have come too late.
    let is_late = spent > before - before / 8;
    if wanted_more.into_inner() || (is_late && misses + 1 == CHANCES) {
        Known::Long(LAUNCHES)
    } else {
        Known::Beside(before, if is_late { misses + 1 } else { 0 })
    }
}

/// # Safety
///
/// As for [`run`].
unsafe fn in_a_row(task: Task, context: *mut c_void, count: i64, known: Known, has_helpers: bool) -> Known {
    WANTED_MORE.set(false);
    let (mut before, mut longest, mut all) = (Instant::now(), Duration::ZERO, Duration::ZERO);
    for at in 0..count {
        // SAFETY: as the caller promises.
        unsafe { task(context, at, at + 1) };
        let now = Instant::now();
        let spent = now - before;
        (before, longest, all) = (now, longest.max(spent), all + spent);
    }
    let left = if let Known::Long(left) = known { left.saturating_sub(1) } else { 0 };
    // What others could do meanwhile must be worth waking them.
    let is_worth = (all - longest).as_secs_f64() > WAKE && has_helpers && !WANTED_MORE.get();
    match (is_worth, left) {
        (true, 0) => Known::Beside(all.as_nanos() as u64, 0),
        _ if all.as_secs_f64() > WAKE => Known::Long(left),
        _ => Known::Short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Seen {
        ran: [AtomicI64; 5],
        spin: u64,
    }

    unsafe extern "C" fn section(context: *mut c_void, begin: i64, end: i64) {
        // SAFETY: the test passes this.
        let seen = unsafe { &*context.cast::<Seen>() };
        for at in begin..end {
            let mut sum = 0u64;
            for turn in 0..seen.spin {
                sum = sum.wrapping_add(std::hint::black_box(turn));
            }
            std::hint::black_box(sum);
            seen.ran[at as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn every_section_runs_once() {
        let long = u64::MAX >> 5;
        for (spin, begin) in [
            (0, Known::Short),
            (0, Known::Beside(long, 0)),
            (0, Known::Long(1)),
            (400_000, Known::Short),
            (400_000, Known::Beside(0, 1)),
            (400_000, Known::Beside(long, 2)),
        ] {
            let mut state = begin.state();
            assert_eq!(Known::of(state), begin);
            let mut seen = Seen { ran: Default::default(), spin };
            for launch in 1..=4 {
                // SAFETY: the sections take this.
                unsafe { run(section, (&raw mut seen).cast(), 5, &raw mut state) };
                let ran = seen.ran.each_ref().map(|count| count.load(Ordering::Relaxed));
                assert_eq!(ran, [launch; 5], "{spin}");
            }
        }
    }
}
