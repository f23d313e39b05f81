//! What a device writes for the host: results, what went wrong, what is printed. It lies in memory of the host that
//! devices write to.

use std::any::Any;
use std::sync::PoisonError;

use keyprint_codegen::cuda::{LaunchPlan, MailPlan};
use keyprint_runtime::failure::{self, Number};
use keyprint_runtime::output::{self, Piece};

use crate::device::Device;
use crate::error::CudaError;

/// Mailboxes without room for prints have this many words.
const SMALL: usize = 64;

/// Memory that all contexts know, by the same address.
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

/// Allocates words of the host that devices read and write, by the same address.
pub(crate) fn allocate(device: &Device, count: usize) -> Result<*mut u64, CudaError> {
    let _entered = device.enter()?;
    let mut words = std::ptr::null_mut();
    // SAFETY: the driver sets the address.
    let code = unsafe { (device.driver.allocate_host)(&raw mut words, count * 8, PORTABLE_AND_MAPPED) };
    device.check("allocating memory of the host", code)?;
    Ok(words.cast())
}

/// Words of the host that a device writes to.
pub struct Mailbox {
    device: &'static Device,
    words: *mut u64,
    count: usize,
}

// SAFETY: it belongs to whoever has it; the device writes while nobody reads.
unsafe impl Send for Mailbox {}

impl Mailbox {
    /// A mailbox for a launch: empty.
    pub(crate) fn of(device: &'static Device, plan: MailPlan) -> Result<Self, CudaError> {
        let needed = plan.words().max(SMALL);
        let kept = {
            let mut free = device.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
            free.iter().position(|mailbox| mailbox.count == needed).map(|at| free.swap_remove(at))
        };
        let mailbox = match kept {
            Some(mailbox) => mailbox,
            None => Self::allocated(device, needed)?,
        };
        let heads = [(plan.fails, plan.failure()), (plan.prints, plan.printed())];
        for at in 0..plan.results {
            // SAFETY: inside of the words; no device knows of them.
            unsafe { *mailbox.words.add(at) = 0 };
        }
        for (_, at) in heads.into_iter().filter(|(is_there, _)| *is_there) {
            // SAFETY: inside of the words; no device knows of them.
            unsafe { *mailbox.words.add(at) = 0 };
        }
        Ok(mailbox)
    }

    fn allocated(device: &'static Device, count: usize) -> Result<Self, CudaError> {
        Ok(Self { device, words: allocate(device, count)?, count })
    }

    /// Where a device finds it.
    pub(crate) fn address(&self) -> u64 {
        self.words as u64
    }

    fn word(&self, at: usize) -> u64 {
        assert!(at < self.count);
        // SAFETY: inside of the words; a device may have written them.
        unsafe { self.words.add(at).read_volatile() }
    }

    /// The results; the launch is done.
    pub(crate) fn results(&self, into: &mut [u64]) {
        for (at, result) in into.iter_mut().enumerate() {
            *result = self.word(at);
        }
    }

    /// What went wrong; the launch is done.
    pub(crate) fn failure(&self, plan: MailPlan) -> Option<failure::Failed> {
        if !plan.fails {
            return None;
        }
        let first = plan.failure();
        let head = self.word(first);
        if head as u32 == 0 {
            return None;
        }
        let count = (self.word(first + 1) as u32).min(16) as usize;
        let kinds = [self.word(first + 2), self.word(first + 3)].map(u64::to_le_bytes).concat();
        let number = |at: usize| Number::of(kinds[at], self.word(first + 4 + at));
        Some(failure::Failed { site: (head >> 32) as u32, values: (0..count).map(number).collect() })
    }

    /// Hands on what was printed; the launch is done.
    pub(crate) fn show(&self, plan: &LaunchPlan) {
        if !plan.mail.prints {
            return;
        }
        let first = plan.mail.printed();
        let head = self.word(first);
        let used = (head as u32 as usize).min(MailPlan::PRINTED);
        let mut at = 0;
        while at < used {
            let Some(parts) = plan.prints.get(self.word(first + 1 + at) as usize) else { break };
            let mut value = at + 1;
            let pieces: Vec<Piece<'_>> = parts
                .iter()
                .map(|part| match part {
                    keyprint_codegen::cuda::PrintPart::Text(text) => Piece::Text(text),
                    keyprint_codegen::cuda::PrintPart::Value(kind) => {
                        let bits = if value < used { self.word(first + 1 + value) } else { 0 };
                        value += 1;
                        Piece::Value(*kind as u8, bits)
                    }
                })
                .collect();
            if value > used {
                break;
            }
            output::line(&pieces);
            at = value;
        }
        let lost = head >> 32;
        if lost > 0 {
            output::line(&[Piece::Text(&format!(
                "... {lost} more lines were printed than there is room for\n"
            ))]);
        }
    }

    /// Keeps it for another launch.
    pub(crate) fn put_back(self) {
        let device = self.device;
        device.mailboxes.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let (device, words) = (self.device, self.words as usize);
        device.retire(move || {
            // SAFETY: allocated when this was made. Nothing that may write to it is left.
            unsafe { (device.driver.free_host)(words as *mut std::ffi::c_void) };
        });
    }
}

/// A launch that may have failed.
pub(crate) struct Pending {
    pub(crate) mailbox: Mailbox,
    pub(crate) plan: MailPlan,
    /// How to show what it printed, if nobody has waited for that.
    pub(crate) printed: Option<Box<LaunchPlan>>,
    /// Whoever can say what a site means.
    pub(crate) owner: Box<dyn Any + Send>,
}

impl Pending {
    pub(crate) fn failed(self) -> Option<Failed> {
        let failure = self.mailbox.failure(self.plan);
        if let Some(plan) = &self.printed {
            self.mailbox.show(plan);
        }
        self.mailbox.put_back();
        failure.map(|failure| Failed { failure, owner: self.owner })
    }
}

/// A check that failed on a device.
pub struct Failed {
    /// Where, and the numbers that were looked at.
    pub failure: failure::Failed,
    /// What came with the launch.
    pub owner: Box<dyn Any + Send>,
}
