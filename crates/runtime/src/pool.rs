//! Parallel loops, in pieces, on as many threads as pay.
//!
//! A loop begins where it is. What the first pieces take tells whether waking others pays, and how large
//! pieces should be: a thread that sleeps needs tens of microseconds to wake up.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{pace, sections, table};

/// A piece of a loop: from one iteration to another.
pub type Task = unsafe extern "C" fn(*mut c_void, i64, i64);

/// How long the first pieces are looked at.
const LOOK: Duration = Duration::from_micros(8);

/// What is left must take longer than this to wake anybody.
pub(crate) const WAKE: f64 = 40e-6;

/// How long a piece should take, at least and at most.
const PIECE: [f64; 2] = [50e-6, 5e-3];

/// How long a piece should take of what takes so long.
fn piece_time(left: f64) -> f64 {
    (left / 512.0).clamp(PIECE[0], PIECE[1])
}

/// How many threads work on a loop; 0 as long as nobody said so.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Says how many threads work on a loop: 0 for one for each core.
pub fn set_threads(threads: usize) {
    if THREADS.swap(threads, Ordering::Relaxed) != threads {
        // One of another size is made when it is needed.
        POOL.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// How many threads work on a loop.
#[must_use]
pub fn threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    }
}

/// Threads besides the one that launches, of one process.
struct Helpers {
    process: u32,
    pool: rayon::ThreadPool,
}

/// Never freed: a thread may still be in it, and after a fork nobody may touch it.
static POOL: AtomicPtr<Helpers> = AtomicPtr::new(std::ptr::null_mut());

pub(crate) fn helpers() -> Option<&'static rayon::ThreadPool> {
    let process = std::process::id();
    let helpers = POOL.load(Ordering::Acquire);
    // SAFETY: what is stored there is never freed.
    if let Some(helpers) = unsafe { helpers.as_ref() }
        && helpers.process == process
    {
        return Some(&helpers.pool);
    }
    let threads = threads().saturating_sub(1);
    if threads == 0 {
        return None;
    }
    let name = |at| format!("keyprint-{at}");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build().ok()?;
    let helpers = Box::into_raw(Box::new(Helpers { process, pool }));
    // Another thread may have made one meanwhile: both work, and one is used from here on.
    POOL.store(helpers, Ordering::Release);
    // SAFETY: just made, and never freed.
    Some(unsafe { &(*helpers).pool })
}

/// What a loop is, for those who work on it.
#[derive(Clone, Copy)]
struct Work {
    task: Task,
    context: *mut c_void,
    piece: i64,
}

// SAFETY: a task may be run on any thread with the context that was made for it: generated code shares
// nothing between pieces that is not atomic.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

/// The part of a loop that one thread begins with. Each has a line of the cache to itself.
#[repr(align(128))]
struct Share {
    next: AtomicI64,
    end: i64,
}

impl Work {
    /// Takes pieces of one's own share, and then of those of others, as long as there are any: memory is read
    /// from one end to the other, and nobody waits for a thread that is late.
    fn take_pieces(self, shares: &[Share], own: usize, stop: &AtomicI32) {
        for at in 0..shares.len() {
            let share = &shares[(own + at) % shares.len()];
            loop {
                let begin = share.next.fetch_add(self.piece, Ordering::Relaxed);
                if begin >= share.end {
                    break;
                }
                // SAFETY: the number of this launch.
                if unsafe { pace::tick(stop.as_ptr()) } != 0 {
                    return;
                }
                let end = (begin + self.piece).min(share.end);
                // SAFETY: the task was made for this context, and the piece is inside the loop.
                unsafe { (self.task)(self.context, begin, end) };
            }
        }
    }
}

/// Runs a loop: all of it is done when this returns.
///
/// # Safety
///
/// `task` can be called with `context` and any piece of the loop, from any thread; `stop` is the number that says
/// whether the launch is to stop.
pub(crate) unsafe extern "C" fn run(
    task: Task,
    context: *mut c_void,
    count: i64,
    grain: i64,
    stop: *mut i32,
) {
    // SAFETY: as the caller promises; all use it this way.
    let stop = unsafe { AtomicI32::from_ptr(stop) };
    let least = grain.max(1);
    let mut done = 0i64;
    let mut piece = (count / 256).clamp(1, 1024).max(least);
    let start = Instant::now();
    let mut spent = Duration::ZERO;
    while done < count && spent < LOOK {
        let end = done.saturating_add(piece).min(count);
        // SAFETY: as the caller promises.
        unsafe { task(context, done, end) };
        done = end;
        piece = piece.saturating_mul(2);
        spent = start.elapsed();
    }
    if done == count || stop.load(Ordering::Relaxed) != 0 {
        return;
    }
    let each = spent.as_secs_f64() / done as f64;
    let left = (count - done) as f64 * each;
    if left < WAKE {
        // SAFETY: as the caller promises.
        unsafe { task(context, done, count) };
        return;
    }
    let alone = sections::keeps_to_itself();
    let token = if alone { std::ptr::null_mut() } else { table::unlock() };
    let work = |piece| Work { task, context, piece };
    match helpers().filter(|_| !alone) {
        None => {
            let piece = ((piece_time(left) / each) as i64).max(least).max(1);
            let all = [Share { next: AtomicI64::new(done), end: count }];
            work(piece).take_pieces(&all, 0, stop);
        }
        Some(pool) => {
            let threads = pool.current_num_threads() as i64 + 1;
            // As long as it should take, but enough pieces for everybody.
            let fair = (count - done) / (threads * 4);
            let piece = ((piece_time(left) / each) as i64).min(fair).max(least).max(1);
            let work = work(piece);
            let left = count - done;
            let edge = |at: i64| done + left / threads * at + (left % threads).min(at);
            let shares: Vec<Share> =
                (0..threads).map(|at| Share { next: AtomicI64::new(edge(at)), end: edge(at + 1) }).collect();
            let shares = &shares[..];
            pool.in_place_scope(|scope| {
                for own in 1..threads as usize {
                    scope.spawn(move |_| work.take_pieces(shares, own, stop));
                }
                work.take_pieces(shares, 0, stop);
            });
        }
    }
    table::lock(token);
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn add(context: *mut c_void, begin: i64, end: i64) {
        // SAFETY: the test passes this.
        let sum = unsafe { &*context.cast::<AtomicI64>() };
        let mut share = 0i64;
        for at in begin..end {
            share += std::hint::black_box(at);
        }
        sum.fetch_add(share, Ordering::Relaxed);
    }

    #[test]
    fn every_iteration_runs_once() {
        for count in [1i64, 2, 63, 1000, 1_000_000, 20_000_000] {
            for grain in [0, 1, 1000] {
                let (mut sum, mut stop) = (AtomicI64::new(0), 0);
                // SAFETY: the task takes this.
                unsafe { run(add, (&raw mut sum).cast(), count, grain, &raw mut stop) };
                assert_eq!(sum.into_inner(), count * (count - 1) / 2, "{count}");
            }
        }
    }
}
