//! Arrays of our own: whose their memory is, on the host or on a device, and how it is copied.

use std::alloc::Layout;
use std::ffi::c_int;

use keyprint_cuda::device::Device;
use keyprint_cuda::memory::DeviceMemory;
use keyprint_cuda::stream::Stream;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::cuda::{device_error, wait_for_device};
use crate::own_array::NdArray;

/// Whose the memory of an array is.
pub(crate) enum Memory {
    /// Ours, and how it was allocated.
    Host(Layout),
    /// Ours, on a device.
    Device(#[allow(dead_code, reason = "it is given back with the array")] DeviceMemory),
    /// Of something else, which it keeps.
    Foreign(#[allow(dead_code, reason = "it keeps the memory")] Py<PyAny>),
}

impl NdArray {
    /// Copies bytes out of the array; waits for a device, and raises what went wrong on it.
    ///
    /// # Safety
    ///
    /// There are so many bytes from `at` on, and as much room.
    pub(crate) unsafe fn copy_out(
        &self,
        py: Python<'_>,
        at: usize,
        to: *mut u8,
        bytes: usize,
    ) -> PyResult<()> {
        let from = self.data.wrapping_add(at);
        let Some(device) = self.device else {
            // SAFETY: as the caller promises.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
            return Ok(());
        };
        wait_for_device(py, device)?;
        let (from, to) = (from as u64, to as usize);
        // SAFETY: as the caller promises.
        let outcome = py.detach(|| unsafe { device.read(to as *mut u8, from, bytes) });
        outcome.map_err(|error| device_error(py, &error))
    }

    /// Copies bytes into the array.
    ///
    /// # Safety
    ///
    /// There is as much room from `at` on.
    pub(crate) unsafe fn copy_in(
        &self,
        py: Python<'_>,
        at: usize,
        from: *const u8,
        bytes: usize,
    ) -> PyResult<()> {
        let to = self.data.wrapping_add(at);
        let Some(device) = self.device else {
            // SAFETY: as the caller promises. They may be the same.
            unsafe { std::ptr::copy(from, to, bytes) };
            return Ok(());
        };
        let (from, to) = (from as usize, to as u64);
        // SAFETY: as the caller promises.
        let outcome = py.detach(|| unsafe { device.write(to, from as *const u8, bytes) });
        outcome.map_err(|error| device_error(py, &error))
    }

    /// Copies bytes of the array to others of it.
    ///
    /// # Safety
    ///
    /// Both are inside of the memory, and do not overlap.
    pub(crate) unsafe fn copy_within(
        &self,
        py: Python<'_>,
        from: usize,
        to: usize,
        bytes: usize,
    ) -> PyResult<()> {
        let (from, to) = (self.data.wrapping_add(from), self.data.wrapping_add(to));
        match self.device {
            // SAFETY: as the caller promises.
            None => unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) },
            // SAFETY: as the caller promises.
            Some(device) => unsafe {
                device.copy(to as u64, from as u64, bytes).map_err(|error| device_error(py, &error))?;
            },
        }
        Ok(())
    }
}

/// Has the stream of a library wait for what is done to arrays of ours.
pub(crate) fn order_for(device: &'static Device, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let number: i64 = match stream {
        Some(stream) if !stream.is_none() => stream.extract()?,
        _ => 1,
    };
    // Whoever says -1 takes care of it.
    if number < 0 {
        return Ok(());
    }
    let order = || {
        let _entered = device.enter()?;
        device.order(Stream::of(number as u64), Stream::OWN)
    };
    order().map_err(|error| Python::attach(|py| device_error(py, &error)))
}

/// A buffer that is held for a while.
pub(crate) struct Buffer(ffi::Py_buffer);

impl Buffer {
    pub(crate) fn of(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = std::mem::MaybeUninit::<ffi::Py_buffer>::uninit();
        // SAFETY: filled by the call, if it succeeds.
        unsafe {
            if ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), flags) != 0 {
                return Err(PyErr::fetch(object.py()));
            }
            Ok(Self(view.assume_init()))
        }
    }

    pub(crate) fn data(&self) -> *mut u8 {
        self.0.buf.cast()
    }

    pub(crate) fn length(&self) -> usize {
        self.0.len as usize
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: filled when it was made, and the interpreter's lock is held where it is dropped.
        unsafe { ffi::PyBuffer_Release(&raw mut self.0) };
    }
}
