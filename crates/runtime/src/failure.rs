//! What went wrong in a kernel, kept until somebody asks.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI32, Ordering};

/// The most numbers that come with a failure.
const MOST_VALUES: usize = 16;

/// Room for a failure, in the kernel's own frame; as the generated code declares it.
#[repr(C)]
pub struct Failure {
    is_set: AtomicI32,
    site: u32,
    count: u32,
    kinds: [u8; MOST_VALUES],
    values: [u64; MOST_VALUES],
}

/// A number that comes with a failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// With a sign.
    Signed(i64),
    /// Without one.
    Unsigned(u64),
    /// With a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
}

impl Number {
    /// A number of a kind, of its 64 bits.
    #[must_use]
    pub fn of(kind: u8, bits: u64) -> Self {
        match kind {
            b'i' => Self::Signed(bits as i64),
            b'f' => Self::Float(f64::from_bits(bits)),
            b'b' => Self::Bool(bits != 0),
            _ => Self::Unsigned(bits),
        }
    }
}

/// A check that failed: where, and the numbers that were looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// Which of the kernel's sites.
    pub site: u32,
    /// Numbers.
    pub values: Vec<Number>,
}

thread_local! {
    static LAST: RefCell<Option<Failed>> = const { RefCell::new(None) };
}

/// What the last kernel that failed on this thread reported.
#[must_use]
pub fn take() -> Option<Failed> {
    LAST.take()
}

/// Keeps a failure for whoever asks, on this thread.
pub fn keep(failed: Failed) {
    LAST.set(Some(failed));
}

/// Takes note of a failure; the first one stays.
///
/// # Safety
///
/// `failure` is what a kernel made, and `kinds` and `values` have `count` items.
pub(crate) unsafe extern "C" fn fail(
    failure: *mut Failure,
    site: u32,
    count: u32,
    kinds: *const u8,
    values: *const u64,
) {
    // SAFETY: as the caller promises; whoever is first alone writes the rest, and it is read after the
    // loop has ended.
    unsafe {
        if (*failure).is_set.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        let count = (count as usize).min(MOST_VALUES);
        (*failure).site = site;
        (*failure).count = count as u32;
        std::ptr::copy_nonoverlapping(kinds, (&raw mut (*failure).kinds).cast(), count);
        std::ptr::copy_nonoverlapping(values, (&raw mut (*failure).values).cast(), count);
    }
}

/// Keeps a failure for whoever asks.
///
/// # Safety
///
/// `failure` is set.
pub(crate) unsafe extern "C" fn report(failure: *const Failure) {
    // SAFETY: as the caller promises.
    let failure = unsafe { &*failure };
    let number = |at: usize| Number::of(failure.kinds[at], failure.values[at]);
    let values = (0..failure.count as usize).map(number).collect();
    keep(Failed { site: failure.site, values });
}
