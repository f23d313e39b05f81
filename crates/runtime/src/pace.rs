//! Loops that may go on for ever: when to ask whether to stop.
//!
//! Asking costs more than a turn of a small loop does. So the turns of a graph's loop in between double as long as they
//! take next to no time, and a loop whose turns take long asks after each. All other loops come here every few
//! milliseconds, as far as whoever wrote them could tell.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use crate::table;

/// How far a loop is; as the generated code declares it.
#[repr(C)]
pub struct Pace {
    turns: u64,
    /// The turn after which to ask.
    next: u64,
    /// How many turns that is from the last time.
    step: u64,
    /// When it first asked, and when it did last, in nanoseconds; 0 before that.
    begun: u64,
    looked: u64,
}

/// Loops that take less than this, in nanoseconds, let nobody else run.
const SHORT: u64 = 20_000;

/// How often to ask, about.
const OFTEN: u64 = 2_000_000;

/// Nanoseconds since the first time that this was asked; never 0.
fn now() -> u64 {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    FIRST.elapsed().as_nanos() as u64 + 1
}

impl Pace {
    /// Takes note of the time; returns whether the loop takes long.
    fn look(&mut self, now: u64) -> bool {
        if self.begun == 0 {
            // How long the first turn took is not known.
            (self.begun, self.looked) = (now, now);
        } else {
            let spent = now - self.looked;
            self.step = if spent < OFTEN { self.step * 2 } else { (self.step * OFTEN / spent).max(1) };
            self.looked = now;
        }
        self.next = self.turns + self.step;
        now - self.begun > SHORT
    }
}

/// Decides after how many turns to come again, and whether to stop now.
///
/// # Safety
///
/// `token` points to what `unlock` returned, or to nothing; `pace` to what the kernel counts.
pub(crate) unsafe extern "C" fn poll(token: *mut *mut c_void, pace: *mut Pace) -> i32 {
    // SAFETY: as the caller promises.
    let (token, pace) = unsafe { (&mut *token, &mut *pace) };
    let is_long = pace.look(now());
    i32::from(table::should_stop(token, is_long))
}

/// How often the interpreter is asked, at most.
const PATIENCE: Duration = Duration::from_millis(20);

/// Finds out whether a launch is to stop, and says so to all that work on it.
///
/// # Safety
///
/// `stop` points to the number of the launch that says so.
pub(crate) unsafe extern "C" fn tick(stop: *mut i32) -> i32 {
    thread_local! {
        static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    // SAFETY: as the caller promises; all use it this way.
    let stop = unsafe { AtomicI32::from_ptr(stop) };
    if stop.load(Ordering::Relaxed) != 0 {
        return 1;
    }
    let now = Instant::now();
    if LOOKED.get().is_some_and(|at| now.duration_since(at) < PATIENCE) {
        return 0;
    }
    LOOKED.set(Some(now));
    if table::is_interrupted() {
        stop.store(1, Ordering::Relaxed);
        return 1;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The turns at which a loop asks whose turns take some nanoseconds each.
    fn asked(each: u64, turns: u64) -> Vec<u64> {
        let mut pace = Pace { turns: 0, next: 1, step: 1, begun: 0, looked: 0 };
        let mut looks = Vec::new();
        for turn in 1..=turns {
            pace.turns = turn;
            if pace.turns == pace.next {
                pace.look(1 + turn * each);
                looks.push(turn);
            }
        }
        looks
    }

    #[test]
    fn short_turns_are_asked_about_rarely_and_long_ones_always() {
        assert_eq!(asked(10, 1000), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(asked(50_000_000, 6), [1, 2, 3, 4, 5, 6]);
        // About as often as it should be.
        let gaps: Vec<u64> = asked(1000, 100_000).windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[12..].iter().all(|gap| (1000..=4096).contains(gap)), "{gaps:?}");
    }
}
