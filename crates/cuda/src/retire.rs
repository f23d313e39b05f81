//! What is given back once nothing that was launched can use it any more, without anybody waiting for that: a launch
//! that is under way may never end.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::device::Device;
use crate::driver::is_forked;
use crate::stream::{Event, Stream};

/// What may be left that streams of others may use, before a thread of its own waits for them: some programs never do.
const MOST_RETIRED: usize = 64;

/// Something to give back.
pub(crate) struct Retired {
    /// What was put on our own stream before is done when this has happened.
    after: Event,
    /// How many launches had been made on streams of others.
    elsewhere: u64,
    give_back: Box<dyn FnOnce() + Send>,
}

impl Device {
    /// Has something given back when everything is done that was launched until now. If nothing works any more, it is
    /// only dropped.
    pub(crate) fn retire(&'static self, give_back: impl FnOnce() + Send + 'static) {
        if is_forked() {
            return;
        }
        let Ok(_entered) = self.enter() else { return };
        let after = {
            let _relaxed = Relaxed::begin(self);
            Event::on(self, Stream::OWN)
        };
        let Ok(after) = after else { return };
        let elsewhere = self.elsewhere.load(Ordering::Acquire);
        let retired = Retired { after, elsewhere, give_back: Box::new(give_back) };
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(retired);
        if self.give_back_retired() > MOST_RETIRED && !self.is_retiring.swap(true, Ordering::AcqRel) {
            let wait = || {
                // Whatever came of it.
                let _ = self.wait_for_others();
                self.is_retiring.store(false, Ordering::Release);
                self.give_back_retired();
            };
            if std::thread::Builder::new().spawn(wait).is_err() {
                self.is_retiring.store(false, Ordering::Release);
            }
        }
    }

    /// Gives back what nothing uses any more; returns how much is left that others may use.
    pub(crate) fn give_back_retired(&'static self) -> usize {
        if self.retired.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return 0;
        }
        let Ok(_entered) = self.enter() else { return 0 };
        let _relaxed = Relaxed::begin(self);
        let (ready, left): (Vec<Retired>, usize) = {
            let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.waited_elsewhere.load(Ordering::Acquire);
            let (ready, left) = std::mem::take(&mut *retired)
                .into_iter()
                .partition(|one| one.elsewhere <= waited && one.after.has_happened());
            *retired = left;
            (ready, retired.iter().filter(|one| one.elsewhere > waited).count())
        };
        for one in ready {
            (one.give_back)();
        }
        left
    }
}

/// Lets a thread do what has nothing to do with a stream that a library records, while it does that.
struct Relaxed {
    device: &'static Device,
    before: u32,
}

/// How the driver calls that.
const RELAXED: u32 = 2;

impl Relaxed {
    fn begin(device: &'static Device) -> Self {
        let mut before = RELAXED;
        // SAFETY: the driver exchanges the number.
        unsafe { (device.driver.exchange_capture_mode)(&raw mut before) };
        Self { device, before }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { (self.device.driver.exchange_capture_mode)(&raw mut self.before) };
    }
}
