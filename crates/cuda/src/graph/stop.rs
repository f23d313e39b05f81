//! How loops of graphs are called off that may never end: devices look, now and then, at the number of the last launch
//! that nobody waits for any more.
//!
//! Whoever interrupts a thread calls off all that was launched on the device until then. Other threads are told where they
//! wait for a launch of theirs: what it computed is not what they asked for.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::Device;
use crate::error::CudaError;
use crate::stream::Stream;

/// The numbers of launches, and which were called off.
#[derive(Default)]
pub(crate) struct Stops {
    /// How many graphs with loops were launched.
    launched: AtomicU64,
    /// The address of the number of the last of them that was called off, in memory of the host that devices read.
    last: OnceLock<usize>,
}

/// A launch with loops that the calling thread has not waited for.
struct Unwaited {
    device: u32,
    stream: Stream,
    number: u64,
}

thread_local! {
    /// The last of each stream.
    static UNWAITED: RefCell<Vec<Unwaited>> = const { RefCell::new(Vec::new()) };
}

impl Stops {
    fn last(&self) -> u64 {
        // SAFETY: allocated in `next_launch`, and never given back.
        self.last.get().map_or(0, |word| unsafe { (*word as *const u64).read_volatile() })
    }
}

impl Device {
    /// The number of the next launch of a graph with loops on a stream, and the address of that of the last one that was called off.
    pub(crate) fn next_launch(&self, stream: Stream) -> Result<(u64, u64), CudaError> {
        let (stops, last) = (&self.stops, self.last_called_off()?);
        let number = stops.launched.fetch_add(1, Ordering::Relaxed) + 1;
        UNWAITED.with_borrow_mut(|all| {
            match all.iter_mut().find(|one| one.device == self.ordinal && one.stream == stream) {
                Some(one) => one.number = number,
                None => all.push(Unwaited { device: self.ordinal, stream, number }),
            }
        });
        Ok((number, last))
    }

    /// The address of the number of the last launch that was called off.
    pub(crate) fn last_called_off(&self) -> Result<u64, CudaError> {
        let last = match self.stops.last.get() {
            Some(last) => *last,
            None => {
                let word = crate::mail::allocate(self, 1)?;
                // SAFETY: it was just allocated, and lives as long as the process.
                unsafe { word.write_volatile(0) };
                *self.stops.last.get_or_init(|| word as usize)
            }
        };
        Ok(last as u64)
    }

    /// Has loops of graphs that were launched end after their turn. The calling thread knows.
    pub(crate) fn call_off(&self) {
        if let Some(last) = self.stops.last.get() {
            // SAFETY: allocated above, and never given back; devices only read it.
            unsafe { (*last as *mut u64).write_volatile(self.stops.launched.load(Ordering::Relaxed)) };
        }
        UNWAITED.with_borrow_mut(|all| all.retain(|one| one.device != self.ordinal));
    }

    /// Whether a launch was called off.
    pub(crate) fn is_called_off(&self, number: u64) -> bool {
        number <= self.stops.last()
    }

    /// Says whether a launch of the calling thread was called off by another; it has been waited for. `stream` is the
    /// one that was waited for, nothing if all were.
    pub(crate) fn check_called_off(&self, stream: Option<Stream>) -> Result<(), CudaError> {
        let is_over = UNWAITED.with_borrow_mut(|all| {
            let mut is_over = false;
            all.retain(|one| {
                let is_waited =
                    one.device == self.ordinal && stream.is_none_or(|stream| one.stream == stream);
                is_over |= is_waited && self.is_called_off(one.number);
                !is_waited
            });
            is_over
        });
        if is_over { Err(CudaError::CalledOff) } else { Ok(()) }
    }
}
