//! Launches on a device: which stream they go to, and what they take along of the host.

use std::sync::Arc;

use keyprint_codegen::Status;
use keyprint_cuda::CudaError;
use keyprint_cuda::program::{Outcome, Program};
use keyprint_cuda::stage::{HostRange, Stage};
use keyprint_cuda::stream::Stream;
use keyprint_runtime::failure;
use pyo3::ffi;
use pyo3::prelude::*;

use super::argument_guard::{ArgumentGuard, own};
use super::lock::{release, take, with_arrays};
use super::pack::ArrayKind;
use crate::cuda::{DeviceProgram, device_error};
use crate::interned::intern;
use crate::ndarray::{self, WRITEABLE};

/// How a program is launched, for the arguments of an entry.
pub(super) struct DeviceCall {
    program: Arc<Program>,
    /// The guard of a tensor whose library says which stream to use.
    stream: Option<usize>,
    /// Whether arrays of our own are among the arguments, or in the code.
    has_own: bool,
    /// Arrays of the host: slot, guard, and whose they are.
    staged: Vec<(usize, usize, ArrayKind)>,
}

impl DeviceCall {
    /// How many slots a launch adds.
    pub(super) const ADDED: usize = 3;

    /// `arrays` are the slots that have addresses, the guards that look at the arrays, and whose they are.
    pub(super) fn new(
        program: &DeviceProgram,
        arrays: Vec<(usize, usize, ArrayKind)>,
        guards: &[ArgumentGuard],
    ) -> Self {
        let program = Arc::clone(&program.program);
        let is_tensor = |guard: usize| {
            guards[guard].exchange().is_some_and(|spec| spec.is_on_cuda()) || guards[guard].cuda().is_some()
        };
        let is_own = |guard: usize| guards[guard].is_own_on_device();
        let stream = arrays.iter().map(|(_, guard, _)| *guard).find(|guard| is_tensor(*guard));
        let has_own = program.plan.has_fixed || arrays.iter().any(|(_, guard, _)| is_own(*guard));
        let staged =
            arrays.into_iter().filter(|(_, guard, _)| !is_tensor(*guard) && !is_own(*guard)).collect();
        Self { program, stream, has_own, staged }
    }

    /// Launches the program; returns the status of the launch.
    ///
    /// # Safety
    ///
    /// The slots are those of the program, made of what the guards found: `values`. `held` are places among them.
    #[inline]
    pub(super) unsafe fn launch(
        &self,
        py: Python<'_>,
        slots: &mut [u64],
        guards: &[ArgumentGuard],
        held: &[usize],
        values: &[*mut ffi::PyObject],
        owner: &Py<PyAny>,
    ) -> PyResult<i32> {
        // Whether a library whose arrays say nothing of streams may take their memory back at any time.
        let mut is_unordered = false;
        let stream = match self.stream {
            None => Stream::OWN,
            Some(guard) => match (guards[guard].exchange(), guards[guard].cuda()) {
                (Some(spec), _) => Stream::of(spec.stream(py)?),
                (None, Some(spec)) => {
                    let stream = spec.described(values[guard]).and_then(|array| array.stream);
                    is_unordered = stream.is_none();
                    Stream::of(stream.unwrap_or(0))
                }
                (None, None) => Stream::OWN,
            },
        };
        let is_quick = self.staged.is_empty() && !self.program.waits() && !is_unordered;
        if is_quick && (stream == Stream::OWN || !self.has_own) {
            let keep = || -> Box<dyn std::any::Any + Send> { Box::new(owner.clone_ref(py)) };
            // SAFETY: as the caller promises.
            let outcome = unsafe { self.program.launch(slots, &mut [], stream, keep) };
            return self.status(py, outcome);
        }
        // SAFETY: as the caller promises.
        let status = unsafe { self.launch_slowly(py, slots, held, values, stream, owner)? };
        if is_unordered {
            crate::cuda::wait(py, self.program.device)?;
        }
        Ok(status)
    }

    /// The same where the launch waits, takes arrays along, or is put between streams.
    ///
    /// # Safety
    ///
    /// As for [`Self::launch`].
    unsafe fn launch_slowly(
        &self,
        py: Python<'_>,
        slots: &mut [u64],
        held: &[usize],
        values: &[*mut ffi::PyObject],
        stream: Stream,
        owner: &Py<PyAny>,
    ) -> PyResult<i32> {
        let ranges = self
            .staged
            .iter()
            // SAFETY: as the caller promises.
            .map(|(slot, guard, kind)| unsafe { host_range(py, *slot, *kind, values[*guard]) })
            .collect::<PyResult<Vec<_>>>()?;
        let keep = owner.clone_ref(py);
        let mut results = vec![0u64; self.program.plan.mail.results];
        let device = self.program.device;
        let run = || -> Result<Outcome, CudaError> {
            let is_ordered = self.has_own && stream != Stream::OWN && !device.is_capturing(stream);
            if is_ordered {
                device.enter()?;
                device.order(stream, Stream::OWN)?;
            }
            // SAFETY: the arrays are owned meanwhile, and the ranges are theirs.
            let outcome = unsafe {
                let stage = if ranges.is_empty() { None } else { Some(Stage::new(device, &ranges, slots)?) };
                let outcome = self.program.launch(slots, &mut results, stream, || Box::new(keep))?;
                if let Some(stage) = stage {
                    stage.finish()?;
                }
                outcome
            };
            if is_ordered {
                device.order(Stream::OWN, stream)?;
            }
            Ok(outcome)
        };
        // SAFETY: as the caller promises.
        let outcome = unsafe {
            with_arrays(held, values, || {
                let token = release();
                let outcome = run();
                if !token.is_null() {
                    take(token);
                }
                outcome
            })
        };
        let status = self.status(py, outcome)?;
        let first = self.program.plan.slots;
        slots[first..first + results.len()].copy_from_slice(&results);
        if !self.staged.is_empty() && status == 0 {
            // Everything is done: what failed is raised here.
            crate::cuda::wait(py, device)?;
        }
        Ok(status)
    }

    #[inline]
    fn status(&self, py: Python<'_>, outcome: Result<Outcome, CudaError>) -> PyResult<i32> {
        match outcome {
            Ok(Outcome::Done) => Ok(0),
            Ok(Outcome::Refused(status, array)) => Ok(status.of_array(array) as i32),
            Ok(Outcome::Failed(failed)) => {
                failure::keep(failed);
                Ok(Status::Failed as i32)
            }
            Err(error) => Err(device_error(py, &error)),
        }
    }
}

/// The bytes of an array of the host.
///
/// # Safety
///
/// `array` is a live array of this kind.
unsafe fn host_range(
    py: Python<'_>,
    slot: usize,
    kind: ArrayKind,
    array: *mut ffi::PyObject,
) -> PyResult<HostRange> {
    // SAFETY: as the caller promises.
    let object = unsafe { Bound::from_borrowed_ptr(py, array) };
    let (first, sizes, strides, item, writable): (usize, Vec<i64>, Vec<i64>, i64, bool) = match kind {
        ArrayKind::Numpy => {
            let item = object.getattr(intern!(py, "itemsize"))?.extract()?;
            // SAFETY: as the caller promises; an array has as many sizes and strides as dimensions.
            unsafe {
                let head = ndarray::head(array);
                let list = |items: *const isize| {
                    (0..head.ndim as usize).map(|at| *items.add(at) as i64).collect::<Vec<_>>()
                };
                let writable = head.flags & WRITEABLE != 0;
                (head.data as usize, list(head.shape), list(head.strides), item, writable)
            }
        }
        ArrayKind::Own => {
            // SAFETY: as the caller promises.
            let own = unsafe { own(py, array) };
            let list = |items: &[isize]| items.iter().map(|item| *item as i64).collect::<Vec<_>>();
            (own.data as usize, list(&own.shape), list(&own.strides), i64::from(own.scalar.bytes()), true)
        }
        ArrayKind::Tensor | ArrayKind::Cuda => {
            let item: i64 = object.call_method0(intern!(py, "element_size"))?.extract()?;
            let strides: Vec<i64> = object.call_method0(intern!(py, "stride"))?.extract()?;
            (
                object.call_method0(intern!(py, "data_ptr"))?.extract()?,
                object.getattr(intern!(py, "shape"))?.extract()?,
                strides.into_iter().map(|stride| stride * item).collect(),
                item,
                true,
            )
        }
    };
    if sizes.contains(&0) {
        return Ok(HostRange { slot, low: first, high: first, writable: false });
    }
    let (mut low, mut high) = (first as i64, first as i64 + item);
    for (size, stride) in sizes.iter().zip(&strides) {
        let reach = (size - 1) * stride;
        if reach < 0 {
            low += reach;
        } else {
            high += reach;
        }
    }
    Ok(HostRange { slot, low: low as usize, high: high as usize, writable })
}
