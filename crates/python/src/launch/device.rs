//! Launches on a device: which stream they go to, and what they take along of the host.

use std::sync::Arc;

use keyprint_codegen::Status;
use keyprint_cuda::CudaError;
use keyprint_cuda::program::{Outcome, Program};
use keyprint_cuda::stage::{HostArray, Stage};
use keyprint_cuda::stream::Stream;
use keyprint_runtime::failure;
use pyo3::ffi;
use pyo3::prelude::*;

use super::argument_guard::{ArgumentGuard, own};
use super::array::ExchangeSpec;
use super::lock::{release, take, with_arrays};
use super::pack::ArrayKind;
use crate::cuda::{DeviceProgram, device_error};
use crate::interned::intern;
use crate::ndarray::{self, WRITEABLE};

/// The streams that arrays of a launch are used on: it goes to the first, in order with the others.
struct Streams {
    first: Option<Stream>,
    others: Vec<Stream>,
    /// Whether a library says nothing of streams: it may take memory back at any time.
    is_unordered: bool,
}

impl Streams {
    #[inline]
    fn add(&mut self, stream: Stream) {
        match self.first {
            None => self.first = Some(stream),
            Some(first) if first != stream && !self.others.contains(&stream) => self.others.push(stream),
            Some(_) => {}
        }
    }
}

/// How a program is launched, for the arguments of an entry.
pub(super) struct DeviceCall {
    /// Whether a launch does nothing but launch: on one stream, which one library says, or none.
    pub(super) is_plain: bool,
    /// The guard of an array of that library.
    library: Option<usize>,
    program: Arc<Program>,
    /// The guards of arrays of other libraries, which say which streams they are used on.
    tensors: Vec<usize>,
    /// Whether some of them say that themselves, rather than their library.
    asks_arrays: bool,
    /// Whether arrays of our own are among the arguments, or in the code.
    has_own: bool,
    /// Arrays of the host: slot, guard, and whose they are.
    staged: Vec<(usize, usize, ArrayKind)>,
}

impl DeviceCall {
    /// How many slots a launch adds, at most.
    pub(super) const ADDED: usize = 6;

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
        let tensors: Vec<usize> =
            arrays.iter().map(|(_, guard, _)| *guard).filter(|guard| is_tensor(*guard)).collect();
        let asks_arrays = tensors.iter().any(|guard| guards[*guard].cuda().is_some());
        let library = tensors.first().copied();
        let table = |guard: usize| guards[guard].exchange().map(ExchangeSpec::table);
        let is_one = library.is_none_or(|first| tensors.iter().all(|guard| table(*guard) == table(first)));
        let has_own = program.plan.has_fixed || arrays.iter().any(|(_, guard, _)| is_own(*guard));
        let staged: Vec<_> =
            arrays.into_iter().filter(|(_, guard, _)| !is_tensor(*guard) && !is_own(*guard)).collect();
        let is_plain = staged.is_empty() && !asks_arrays && is_one && program.is_plain();
        Self { is_plain, library, program, tensors, asks_arrays, has_own, staged }
    }

    /// Whether a launch looks at nothing but slots and guards.
    pub(super) fn is_direct(&self) -> bool {
        self.staged.is_empty() && !self.asks_arrays
    }

    /// The stream of a launch that is plain; nothing if it is not.
    #[inline]
    pub(super) fn plain_stream(&self, py: Python<'_>, guards: &[ArgumentGuard]) -> PyResult<Option<Stream>> {
        if !self.is_plain {
            return Ok(None);
        }
        let Some(spec) = self.library.and_then(|guard| guards[guard].exchange()) else {
            return Ok(Some(Stream::OWN));
        };
        let stream = Stream::of(spec.stream(py)?);
        Ok((stream == Stream::OWN || !self.has_own).then_some(stream))
    }

    /// Launches the program on such a stream; nothing is done, and that is said, if it takes more than that.
    ///
    /// # Safety
    ///
    /// The slots are those of the program, and there is room for those that a launch adds.
    #[inline]
    pub(super) unsafe fn launch_plain(
        &self,
        py: Python<'_>,
        slots: *mut u64,
        stream: Stream,
    ) -> PyResult<bool> {
        // SAFETY: as the caller promises.
        unsafe { self.program.launch_plain(slots, stream) }.map_err(|error| device_error(py, &error))
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
        let mut streams = Streams { first: None, others: Vec::new(), is_unordered: false };
        let mut last_table = None;
        for guard in &self.tensors {
            match (guards[*guard].exchange(), guards[*guard].cuda()) {
                (Some(spec), _) => {
                    // All tensors of a library are used on one stream: it is asked once.
                    if last_table.replace(spec.table()) != Some(spec.table()) {
                        streams.add(Stream::of(spec.stream(py)?));
                    }
                }
                (None, Some(spec)) => match spec.described(values[*guard]).and_then(|array| array.stream) {
                    Some(stream) => streams.add(Stream::of(stream)),
                    None => {
                        streams.is_unordered = true;
                        streams.add(Stream::OWN);
                    }
                },
                (None, None) => {}
            }
        }
        let stream = streams.first.unwrap_or(Stream::OWN);
        let is_unordered = streams.is_unordered;
        if self.has_own {
            streams.add(Stream::OWN);
        }
        let is_quick = self.staged.is_empty() && !self.program.waits() && !is_unordered;
        if is_quick && streams.others.is_empty() {
            let keep = || -> Box<dyn std::any::Any + Send> { Box::new(owner.clone_ref(py)) };
            // SAFETY: as the caller promises.
            let outcome = unsafe { self.program.launch(slots, &mut [], stream, keep) };
            return self.status(py, outcome);
        }
        // SAFETY: as the caller promises.
        let status = unsafe { self.launch_slowly(py, slots, held, values, &streams, owner)? };
        let has_waited = self.program.waits() || !self.staged.is_empty();
        if status == 0 && (is_unordered || has_waited && self.program.device.may_have_failed()) {
            // What failed before is raised where somebody waits.
            crate::cuda::wait_for_device(py, self.program.device)?;
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
        streams: &Streams,
        owner: &Py<PyAny>,
    ) -> PyResult<i32> {
        let stream = streams.first.unwrap_or(Stream::OWN);
        let ranges = self
            .staged
            .iter()
            // SAFETY: as the caller promises.
            .map(|(slot, guard, kind)| unsafe { self.host_array(py, *slot, *kind, values[*guard]) })
            .collect::<PyResult<Vec<_>>>()?;
        let keep = owner.clone_ref(py);
        let mut results = vec![0u64; self.program.plan.mail.results];
        let device = self.program.device;
        let run = || -> Result<Outcome, CudaError> {
            let _entered = device.enter()?;
            // What is recorded must not depend on what is not.
            let others = if device.is_capturing(stream) { &[][..] } else { &streams.others };
            for other in others {
                device.order(stream, *other)?;
            }
            // SAFETY: the arrays are owned meanwhile, and the ranges are theirs.
            let stage = if ranges.is_empty() {
                None
            } else {
                // SAFETY: the arrays are owned meanwhile, and the ranges are theirs.
                Some(unsafe { Stage::new(device, &ranges, slots)? })
            };
            // SAFETY: as the caller promises.
            let launched = unsafe { self.program.launch(slots, &mut results, stream, || Box::new(keep)) };
            // Whatever came of it, it may be on its way: what follows elsewhere, if only memory that is given back,
            // follows it.
            let ordered = others.iter().try_for_each(|other| device.order(*other, stream));
            let outcome = launched?;
            ordered?;
            if let Some(stage) = stage {
                // SAFETY: the arrays are owned meanwhile, and the ranges are theirs.
                unsafe { stage.finish()? };
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

    /// What a launch takes along of an array of the host.
    ///
    /// # Safety
    ///
    /// `array` is a live array of this kind.
    unsafe fn host_array(
        &self,
        py: Python<'_>,
        slot: usize,
        kind: ArrayKind,
        array: *mut ffi::PyObject,
    ) -> PyResult<HostArray> {
        // SAFETY: as the caller promises.
        let object = unsafe { Bound::from_borrowed_ptr(py, array) };
        let (first, sizes, strides, item, writable): (usize, Vec<i64>, Vec<i64>, usize, bool) = match kind {
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
                (own.data as usize, list(&own.shape), list(&own.strides), own.scalar.bytes() as usize, true)
            }
            ArrayKind::Tensor | ArrayKind::Cuda => {
                let item: usize = object.call_method0(intern!(py, "element_size"))?.extract()?;
                let strides: Vec<i64> = object.call_method0(intern!(py, "stride"))?.extract()?;
                (
                    object.call_method0(intern!(py, "data_ptr"))?.extract()?,
                    object.getattr(intern!(py, "shape"))?.extract()?,
                    strides.into_iter().map(|stride| stride * item as i64).collect(),
                    item,
                    true,
                )
            }
        };
        let is_written = writable && self.program.plan.written.contains(&slot);
        Ok(HostArray { slot, first, item, sizes, strides, is_written })
    }
}
