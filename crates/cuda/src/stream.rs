//! Streams: where work is put in order.
//!
//! Arrays of our own are made, used and dropped in the order of one stream, the device's default one. A launch on
//! another stream, because a library's arrays are on it, is put between: that stream waits for ours, ours for it.

use cudarc::driver::sys::{CUevent, CUstream};

use crate::device::Device;
use crate::driver::if_open;
use crate::error::CudaError;

/// A stream, as the driver knows it; the default one is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(pub u64);

/// How libraries write the default stream, besides 0.
const LEGACY: u64 = 1;

impl Stream {
    /// The device's default stream: that of arrays of our own.
    pub const OWN: Self = Self(0);

    /// The stream of a number that a library gave.
    #[must_use]
    pub fn of(number: u64) -> Self {
        if number == LEGACY { Self::OWN } else { Self(number) }
    }

    pub(crate) fn handle(self) -> CUstream {
        self.0 as CUstream
    }
}

/// Something that a stream gets to.
pub(crate) struct Event {
    device: &'static Device,
    handle: CUevent,
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Event {}

/// Nothing but the order counts.
const WITHOUT_TIME: u32 = 2;

impl Event {
    fn record(device: &'static Device, stream: Stream, flags: u32) -> Result<Self, CudaError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the driver sets the handle; whoever made the stream keeps it.
        unsafe {
            let code = (device.driver.create_event)(&raw mut handle, flags);
            device.check("ordering streams", code)?;
            let event = Self { device, handle };
            device.check("ordering streams", (device.driver.record_event)(handle, stream.handle()))?;
            Ok(event)
        }
    }

    /// One that can be waited for.
    pub(crate) fn on(device: &'static Device, stream: Stream) -> Result<Self, CudaError> {
        Self::record(device, stream, WITHOUT_TIME)
    }

    pub(crate) fn handle(&self) -> CUevent {
        self.handle
    }

    /// Whether its stream has got to it; nobody waits.
    pub(crate) fn has_happened(&self) -> bool {
        // SAFETY: the event exists.
        unsafe { (self.device.driver.query_event)(self.handle) == 0 }
    }

    /// Has a stream wait for it.
    pub(crate) fn is_before(&self, later: Stream) -> Result<(), CudaError> {
        // SAFETY: both exist.
        let code = unsafe { (self.device.driver.wait_for_event)(later.handle(), self.handle, 0) };
        self.device.check("ordering streams", code)
    }

    /// One that says when the stream got to it.
    pub(crate) fn timed(device: &'static Device, stream: Stream) -> Result<Self, CudaError> {
        Self::record(device, stream, 0)
    }

    /// How many milliseconds were between two; waits for them.
    pub(crate) fn since(&self, earlier: &Self) -> Result<f32, CudaError> {
        let _entered = self.device.enter()?;
        let mut milliseconds = 0.0;
        // SAFETY: both exist; the driver sets the number.
        unsafe {
            self.device.check("timing a launch", (self.device.driver.wait_until)(self.handle))?;
            let code = (self.device.driver.elapsed)(&raw mut milliseconds, earlier.handle, self.handle);
            self.device.check("timing a launch", code)?;
        }
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if if_open().is_some() {
            // SAFETY: the driver keeps what streams still wait for.
            unsafe { (self.device.driver.destroy_event)(self.handle) };
        }
    }
}

impl Device {
    /// Has one stream wait for what was put on another.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn order(&'static self, later: Stream, earlier: Stream) -> Result<(), CudaError> {
        if later == earlier {
            return Ok(());
        }
        Event::on(self, earlier)?.is_before(later)?;
        self.note_order(later, earlier);
        Ok(())
    }

    /// Whether what is put on a stream is recorded rather than run.
    #[must_use]
    pub fn is_capturing(&self, stream: Stream) -> bool {
        let mut status = 0;
        // SAFETY: the driver sets the number.
        let code = unsafe { (self.driver.is_capturing)(stream.handle(), &raw mut status) };
        code == 0 && status != 0
    }
}
