//! What is given back once nothing that was launched can use it any more, without anybody waiting for that: a launch
//! that is under way may never end.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::device::Device;
use crate::driver::is_forked;
use crate::stream::{Event, Stream};

/// What may be left to give back. Beyond that, whoever adds to it waits: some programs never do.
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
        let Ok(after) = Event::on(self, Stream::OWN) else { return };
        let elsewhere = self.elsewhere.load(Ordering::Acquire);
        let count = {
            let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            retired.push(Retired { after, elsewhere, give_back: Box::new(give_back) });
            retired.len()
        };
        if count > MOST_RETIRED {
            let launched = self.elsewhere.load(Ordering::Acquire);
            // SAFETY: no arguments.
            if unsafe { (self.driver.synchronize)() } == 0 {
                self.waited_elsewhere.fetch_max(launched, Ordering::AcqRel);
            }
        }
        self.give_back_retired();
    }

    /// Gives back what nothing uses any more.
    pub(crate) fn give_back_retired(&'static self) {
        let ready: Vec<Retired> = {
            let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            if retired.is_empty() {
                return;
            }
            let waited = self.waited_elsewhere.load(Ordering::Acquire);
            let (ready, left) = std::mem::take(&mut *retired)
                .into_iter()
                .partition(|one| one.elsewhere <= waited && one.after.has_happened());
            *retired = left;
            ready
        };
        let Ok(_entered) = self.enter() else { return };
        for one in ready {
            (one.give_back)();
        }
    }
}
