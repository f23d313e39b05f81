//! Waiting for a device, so that somebody can call it off.
//!
//! The driver's own calls that wait come back when the device is done and no sooner. So a stream is asked instead, in
//! turns, for a moment without a pause, since most launches take microseconds; then less and less often. Now and then
//! whoever uses this crate is asked whether to go on.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::device::Device;
use crate::error::CudaError;
use crate::stream::{Event, Stream};

/// The driver's code for a stream that has work.
const NOT_READY: u32 = 600;

/// Up to here a stream is asked without a pause; then after pauses that are a small part of the time so far.
const SPIN: Duration = Duration::from_millis(1);
const PART: u32 = 64;
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// How often to ask whether to go on.
const PATIENCE: Duration = Duration::from_millis(50);

static GO_ON: OnceLock<fn() -> bool> = OnceLock::new();

/// Says whom to ask whether a thread that waits is to go on. Only the first call counts.
pub fn set_go_on(ask: fn() -> bool) {
    let _ = GO_ON.set(ask);
}

/// Asks now and then whether to go on.
pub(crate) struct Patience(Instant);

impl Patience {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    /// Asks, if that was some time ago.
    pub(crate) fn check(&mut self, device: &Device) -> Result<(), CudaError> {
        let now = Instant::now();
        if now - self.0 < PATIENCE {
            return Ok(());
        }
        self.0 = now;
        device.go_on()
    }
}

impl Device {
    /// Asks whether to go on. Whoever does not want to wait any more does not want loops that may never end either.
    fn go_on(&self) -> Result<(), CudaError> {
        if GO_ON.get().is_none_or(|ask| ask()) {
            return Ok(());
        }
        self.call_off();
        Err(CudaError::Interrupted)
    }

    /// Waits for what was put on a stream; the device is in use.
    ///
    /// # Errors
    ///
    /// If the device failed, or waiting was called off: the device goes on then, but for loops of graphs.
    pub fn wait_for(&self, stream: Stream) -> Result<(), CudaError> {
        // SAFETY: whoever made the stream keeps it.
        self.ask_until_done(|| unsafe { (self.driver.query_stream)(stream.handle()) })?;
        self.check_called_off(Some(stream))
    }

    /// Waits for what was put on a stream before an event, whatever others put there since.
    pub(crate) fn wait_for_event(&self, event: &Event, stream: Stream) -> Result<(), CudaError> {
        // SAFETY: the event exists.
        self.ask_until_done(|| unsafe { (self.driver.query_event)(event.handle()) })?;
        self.check_called_off(Some(stream))
    }

    fn ask_until_done(&self, ask: impl Fn() -> u32) -> Result<(), CudaError> {
        let mut code = ask();
        if code == NOT_READY {
            let begun = Instant::now();
            let mut patience = Patience(begun);
            while code == NOT_READY {
                patience.check(self)?;
                let taken = begun.elapsed();
                if taken > SPIN {
                    std::thread::sleep((taken / PART).min(LONGEST_PAUSE));
                } else {
                    std::hint::spin_loop();
                }
                code = ask();
            }
        }
        self.check("waiting for a device", code)
    }

    /// Waits for what was put on any stream: on others than our own, which may be gone by now, it is waited for by a
    /// thread that nobody has to wait for.
    pub(crate) fn wait_for_all(&'static self) -> Result<(), CudaError> {
        let launched = self.elsewhere.load(Ordering::Acquire);
        if self.waited_elsewhere.load(Ordering::Acquire) >= launched {
            self.wait_for(Stream::OWN)?;
        } else {
            let (send, receive) = channel();
            let wait = move || drop(send.send(self.wait_for_others()));
            if std::thread::Builder::new().spawn(wait).is_err() {
                self.wait_for_others()?;
            } else {
                loop {
                    match receive.recv_timeout(PATIENCE) {
                        Ok(waited) => break waited?,
                        Err(RecvTimeoutError::Disconnected) => break self.wait_for_others()?,
                        Err(RecvTimeoutError::Timeout) => self.go_on()?,
                    }
                }
            }
        }
        self.give_back_retired();
        self.check_called_off(None)
    }

    /// Waits for everything that anybody has put anywhere, whatever it takes.
    fn wait_for_context(&self) -> Result<(), CudaError> {
        let _entered = self.enter()?;
        // SAFETY: no arguments.
        self.check("waiting for a device", unsafe { (self.driver.synchronize)() })
    }

    /// The same, and takes note that what was launched on streams of others is done.
    pub(crate) fn wait_for_others(&self) -> Result<(), CudaError> {
        let launched = self.elsewhere.load(Ordering::Acquire);
        self.wait_for_context()?;
        self.waited_elsewhere.fetch_max(launched, Ordering::AcqRel);
        Ok(())
    }

    /// Waits before elements of arrays of our own are read: for others, too, if they know where those are.
    pub(crate) fn wait_for_elements(&self) -> Result<(), CudaError> {
        self.wait_for(Stream::OWN)?;
        if self.is_shared.load(Ordering::Relaxed) { self.wait_for_context() } else { Ok(()) }
    }

    /// Waits for what was put on our own stream, whatever it takes: it has been waited for, but for the last copy.
    pub(crate) fn finish_copy(&self) -> Result<(), CudaError> {
        // SAFETY: the default stream is always there.
        self.check("waiting for a device", unsafe { (self.driver.wait_for_stream)(Stream::OWN.handle()) })
    }
}
