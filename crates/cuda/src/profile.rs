//! How long kernels take on a device, by events around their launches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::device::Device;
use crate::error::CudaError;
use crate::stream::{Event, Stream};

static IS_ACTIVE: AtomicBool = AtomicBool::new(false);
static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());

struct Record {
    name: String,
    first: Event,
    last: Event,
}

/// A launch of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// The kernel.
    pub name: String,
    /// How long it took on the device, in milliseconds.
    pub milliseconds: f32,
}

/// Whether launches are timed.
#[inline]
pub(crate) fn is_active() -> bool {
    IS_ACTIVE.load(Ordering::Relaxed)
}

/// Begins to time launches.
pub fn begin() {
    RECORDS.lock().unwrap_or_else(PoisonError::into_inner).clear();
    IS_ACTIVE.store(true, Ordering::Relaxed);
}

/// Ends it, waits for what was launched, and says how long each took.
///
/// # Errors
///
/// If a device failed.
pub fn end() -> Result<Vec<Timed>, CudaError> {
    IS_ACTIVE.store(false, Ordering::Relaxed);
    let records = std::mem::take(&mut *RECORDS.lock().unwrap_or_else(PoisonError::into_inner));
    let timed = records.iter().map(|record| {
        let milliseconds = record.last.since(&record.first)?;
        Ok(Timed { name: record.name.clone(), milliseconds })
    });
    timed.collect()
}

/// Times what is put on a stream.
pub(crate) fn timed<T>(
    device: &'static Device,
    stream: Stream,
    name: &str,
    work: impl FnOnce() -> Result<T, CudaError>,
) -> Result<T, CudaError> {
    let first = Event::timed(device, stream)?;
    let outcome = work()?;
    let last = Event::timed(device, stream)?;
    let record = Record { name: name.to_owned(), first, last };
    RECORDS.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    Ok(outcome)
}
