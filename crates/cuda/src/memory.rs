//! Memory of a device, allocated and given back in the order of a stream.

use std::ffi::c_void;

use crate::device::Device;
use crate::driver::{DevicePointer, if_open};
use crate::error::{CudaError, OUT_OF_MEMORY};
use crate::stream::Stream;

/// Memory has multiples of this many bytes: devices change words of 32 bits, and read 16 bytes at a time.
const GRAIN: usize = 16;

/// Memory that is given back when this is dropped, once everything that was launched before is done.
pub struct DeviceMemory {
    /// The device.
    pub device: &'static Device,
    address: DevicePointer,
    bytes: usize,
    stream: Stream,
}

impl DeviceMemory {
    /// Allocates memory in the order of a stream; what is in it is not known.
    ///
    /// # Errors
    ///
    /// If there is no room.
    pub fn new(device: &'static Device, bytes: usize, stream: Stream) -> Result<Self, CudaError> {
        let _entered = device.enter()?;
        let room = bytes.max(1).next_multiple_of(GRAIN);
        let mut address = 0;
        // SAFETY: the driver sets the address.
        let mut ask = || unsafe { (device.driver.allocate)(&raw mut address, room, stream.handle()) };
        let mut code = ask();
        if code == OUT_OF_MEMORY {
            device.trim();
            code = ask();
        }
        if code == OUT_OF_MEMORY {
            let (free, total) = device.free_memory()?;
            return Err(CudaError::OutOfMemory { device: device.ordinal, asked: bytes as u64, free, total });
        }
        device.check("allocating memory", code)?;
        Ok(Self { device, address, bytes, stream })
    }

    /// The same, with zeros in it.
    ///
    /// # Errors
    ///
    /// If there is no room.
    pub fn zeroed(device: &'static Device, bytes: usize, stream: Stream) -> Result<Self, CudaError> {
        // What is behind it, too: narrow elements are changed with their neighbours.
        let mut memory = Self::new(device, bytes.max(1).next_multiple_of(GRAIN), stream)?;
        memory.fill_bytes(0)?;
        memory.bytes = bytes;
        Ok(memory)
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> DevicePointer {
        self.address
    }

    /// Sets every byte.
    ///
    /// # Errors
    ///
    /// If the context is lost.
    pub fn fill_bytes(&self, byte: u8) -> Result<(), CudaError> {
        if self.bytes == 0 {
            return Ok(());
        }
        let _entered = self.device.enter()?;
        // SAFETY: this much memory was allocated.
        let code =
            unsafe { (self.device.driver.fill_bytes)(self.address, byte, self.bytes, self.stream.handle()) };
        self.device.check("filling memory", code)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if if_open().is_none() {
            return;
        }
        let Ok(_entered) = self.device.enter() else { return };
        // SAFETY: allocated when this was made; work that was launched before is done before.
        unsafe { (self.device.driver.free)(self.address, self.stream.handle()) };
    }
}

impl Device {
    /// Copies bytes of the host to the device; they may be changed at once.
    ///
    /// # Safety
    ///
    /// There are so many bytes at both.
    ///
    /// # Errors
    ///
    /// If the context is lost.
    pub unsafe fn write(&self, to: DevicePointer, from: *const u8, bytes: usize) -> Result<(), CudaError> {
        if bytes == 0 {
            return Ok(());
        }
        let _entered = self.enter()?;
        self.wait_for(Stream::OWN)?;
        // SAFETY: as the caller promises. Memory that is not pinned was read when the call returns.
        let code =
            unsafe { (self.driver.copy_to_device)(to, from.cast::<c_void>(), bytes, Stream::OWN.handle()) };
        self.check("copying to a device", code)?;
        self.finish_copy()
    }

    /// Copies bytes of the device to the host, and waits for them.
    ///
    /// # Safety
    ///
    /// There are so many bytes at both.
    ///
    /// # Errors
    ///
    /// If the context is lost.
    pub unsafe fn read(&self, to: *mut u8, from: DevicePointer, bytes: usize) -> Result<(), CudaError> {
        if bytes == 0 {
            return Ok(());
        }
        let _entered = self.enter()?;
        self.wait_for_elements()?;
        // SAFETY: as the caller promises.
        let code =
            unsafe { (self.driver.copy_to_host)(to.cast::<c_void>(), from, bytes, Stream::OWN.handle()) };
        self.check("copying from a device", code)?;
        self.finish_copy()
    }

    /// Copies bytes of the device to others of it.
    ///
    /// # Safety
    ///
    /// There are so many bytes at both.
    ///
    /// # Errors
    ///
    /// If the context is lost.
    pub unsafe fn copy(&self, to: DevicePointer, from: DevicePointer, bytes: usize) -> Result<(), CudaError> {
        if bytes == 0 || to == from {
            return Ok(());
        }
        let _entered = self.enter()?;
        // SAFETY: as the caller promises.
        let code = unsafe { (self.driver.copy_on_device)(to, from, bytes, Stream::OWN.handle()) };
        self.check("copying on a device", code)
    }
}
