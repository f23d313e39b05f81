//! How loops of graphs are called off that may never end: devices look, now and then, at the number of the last launch
//! that nobody waits for any more, and say so if they ended a launch for that.
//!
//! Whoever interrupts a thread calls off all that was launched on the device until then. Other threads are told where they
//! wait for a launch of theirs that was ended: what it computed is not what they asked for.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use keyprint_codegen::cuda::CALLED_OFF;

use crate::device::Device;
use crate::error::CudaError;
use crate::stream::Stream;

/// The numbers of launches, and which were called off.
#[derive(Default)]
pub(crate) struct Stops {
    /// How many graphs with loops were launched.
    launched: AtomicU64,
    /// The address of words of the host that devices know: the number of the last launch that was called off, and those
    /// of the launches that were ended for that, each in one of so many places.
    words: OnceLock<usize>,
}

/// Launches with loops that the calling thread has not waited for: from numbers, up to numbers.
struct Unwaited {
    device: u32,
    /// Nothing if there were too many streams.
    stream: Option<Stream>,
    numbers: Vec<(u64, u64)>,
}

/// How many streams a thread remembers, and how many rows of numbers of each.
const MOST_STREAMS: usize = 32;
const MOST_ROWS: usize = 64;

thread_local! {
    static UNWAITED: RefCell<Vec<Unwaited>> = const { RefCell::new(Vec::new()) };
}

impl Unwaited {
    fn add(&mut self, number: u64) {
        match self.numbers.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => self.numbers.push((number, number)),
        }
        self.shorten();
    }

    /// Adds rows of others.
    fn add_all(&mut self, rows: &[(u64, u64)]) {
        self.numbers
            .extend(rows.iter().filter(|row| !self.numbers.contains(row)).copied().collect::<Vec<_>>());
        self.numbers.sort_unstable();
        self.shorten();
    }

    /// Has no more rows than are remembered.
    fn shorten(&mut self) {
        let beyond = self.numbers.len().saturating_sub(MOST_ROWS);
        if beyond > 0 {
            // They come in order; the last of them may end before one before it.
            let last = self.numbers[..=beyond].iter().map(|row| row.1).max();
            self.numbers[beyond] = (self.numbers[0].0, last.unwrap_or(0));
            self.numbers.drain(..beyond);
        }
    }
}

impl Stops {
    fn word(&self, at: usize) -> u64 {
        // SAFETY: allocated in `stop_words`, with so many words, and never given back.
        self.words.get().map_or(0, |words| unsafe { (*words as *const u64).add(at).read_volatile() })
    }

    /// The last launch that was called off.
    fn last(&self) -> u64 {
        self.word(0)
    }

    /// Whether a device has ended one of these launches, as far as no other that it ended has taken its place.
    fn has_ended_one_of(&self, (first, last): (u64, u64)) -> bool {
        first <= self.last() && (1..=CALLED_OFF).any(|at| (first..=last).contains(&self.word(at)))
    }
}

/// Remembers no more streams than can be remembered: the oldest as one of any.
fn bound(all: &mut Vec<Unwaited>) {
    if all.len() <= MOST_STREAMS {
        return;
    }
    let Some(at) = all.iter().position(|one| one.stream.is_some()) else { return };
    let oldest = all.remove(at);
    match all.iter_mut().find(|one| one.device == oldest.device && one.stream.is_none()) {
        Some(rest) => rest.add_all(&oldest.numbers),
        None => all.push(Unwaited { stream: None, ..oldest }),
    }
}

/// Does something of which the calling thread's launches know nothing.
pub(super) fn unnoticed<T>(work: impl FnOnce() -> Result<T, CudaError>) -> Result<T, CudaError> {
    let before = UNWAITED.take();
    let done = work();
    if !matches!(done, Err(CudaError::Interrupted)) {
        UNWAITED.set(before);
    }
    done
}

impl Device {
    /// The number of the next launch of a graph with loops on a stream, and the address of what says whether it was called
    /// off.
    pub(crate) fn next_launch(&self, stream: Stream) -> Result<(u64, u64), CudaError> {
        let words = self.stop_words()?;
        let number = self.stops.launched.fetch_add(1, Ordering::Relaxed) + 1;
        UNWAITED.with_borrow_mut(|all| {
            let mut own = all.iter_mut().filter(|one| one.device == self.ordinal);
            if let Some(one) = own.find(|one| one.stream == Some(stream)) {
                return one.add(number);
            }
            all.push(Unwaited {
                device: self.ordinal,
                stream: Some(stream),
                numbers: vec![(number, number)],
            });
            bound(all);
        });
        Ok((number, words))
    }

    /// Takes note that what was put on one stream comes before what is put on another from now on: whoever waits for
    /// that has waited for both.
    pub(crate) fn note_order(&self, later: Stream, earlier: Stream) {
        UNWAITED.with_borrow_mut(|all| {
            let of =
                |stream| move |one: &&mut Unwaited| one.device == self.ordinal && one.stream == Some(stream);
            let Some(rows) = all.iter_mut().find(of(earlier)).map(|one| one.numbers.clone()) else { return };
            match all.iter_mut().find(of(later)) {
                Some(one) => one.add_all(&rows),
                None => {
                    all.push(Unwaited { device: self.ordinal, stream: Some(later), numbers: rows });
                    bound(all);
                }
            }
        });
    }

    /// The address of what says which launches were called off.
    pub(crate) fn stop_words(&self) -> Result<u64, CudaError> {
        let words = match self.stops.words.get() {
            Some(words) => *words,
            None => {
                let words = crate::mail::allocate(self, 1 + CALLED_OFF)?;
                for at in 0..=CALLED_OFF {
                    // SAFETY: they were just allocated, and live as long as the process.
                    unsafe { words.add(at).write_volatile(0) };
                }
                *self.stops.words.get_or_init(|| words as usize)
            }
        };
        Ok(words as u64)
    }

    /// Has loops of graphs that were launched end after their turn. The calling thread knows.
    pub(crate) fn call_off(&self) {
        if let Some(words) = self.stops.words.get() {
            // SAFETY: allocated above, and never given back; devices only read this one.
            unsafe { (*words as *mut u64).write_volatile(self.stops.launched.load(Ordering::Relaxed)) };
        }
        UNWAITED.with_borrow_mut(|all| all.retain(|one| one.device != self.ordinal));
    }

    /// Whether a launch was called off.
    pub(crate) fn is_called_off(&self, number: u64) -> bool {
        number <= self.stops.last()
    }

    /// Says whether a launch of the calling thread was ended because another was interrupted; it has been waited for.
    /// `stream` is the one that was waited for, nothing if all were.
    pub(crate) fn check_called_off(&self, stream: Option<Stream>) -> Result<(), CudaError> {
        let is_over = UNWAITED.with_borrow_mut(|all| {
            let mut is_over = false;
            all.retain(|one| {
                let is_waited = one.device == self.ordinal && (stream.is_none() || one.stream == stream);
                is_over |= is_waited && one.numbers.iter().any(|row| self.stops.has_ended_one_of(*row));
                !is_waited
            });
            if is_over {
                // It is told once, by whatever streams it is known.
                let last = self.stops.last();
                for one in all.iter_mut().filter(|one| one.device == self.ordinal) {
                    one.numbers.retain_mut(|row| {
                        row.0 = row.0.max(last + 1);
                        row.0 <= row.1
                    });
                }
            }
            is_over
        });
        if is_over { Err(CudaError::CalledOff) } else { Ok(()) }
    }
}
