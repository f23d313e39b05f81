//! Argument slots: what native code is called with.

use std::mem::MaybeUninit;

use keyprint_lang::types::Scalar;
use keyprint_runtime::output;
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};

use super::argument_guard::{ArgumentGuard, own, pass_quietly};
use super::device::DeviceCall;
use super::fast_path::FastPath;
use super::lock::with_arrays;
use super::spec::{CallSpec, OutputKind, Property, ResultKind, SlotKind, SlotSpec};
use crate::interned::intern;
use crate::language::show_output;
use crate::ndarray;
use crate::own_array::number_bits;
use keyprint_array::dlpack::DlTensor;

/// More slots than this are packed on the heap.
pub(super) const INLINE: usize = 64;

/// One argument slot: what it is made of.
pub(super) enum Slot {
    /// Of an array that is read in a way of its own.
    Array(ArrayKind, Property),
    /// A signed integer.
    Int,
    /// A double.
    Double,
    /// A single, in the lower half.
    Single,
    /// A number of another type; whole ones must fit.
    Scalar(Scalar),
}

/// Whose an array is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrayKind {
    Numpy,
    /// Of a library whose types have a table of functions.
    Tensor,
    /// On a CUDA device, by the array interface.
    Cuda,
    Own,
}

/// What a call is to do with the executable that it finds.
#[derive(Clone, Copy)]
pub(super) enum Start<'a, 'py> {
    /// Run it.
    First,
    /// Run it from somewhere else.
    At(&'a Bound<'py, PyAny>),
    /// Return it.
    Nowhere,
}

impl ResultKind {
    fn read(self, py: Python<'_>, bits: u64) -> *mut ffi::PyObject {
        match self {
            Self::Int => PyInt::new(py, bits.cast_signed()).into_ptr(),
            Self::Unsigned => PyInt::new(py, bits).into_ptr(),
            Self::Double => PyFloat::new(py, f64::from_bits(bits)).into_ptr(),
            Self::Bool => PyBool::new(py, bits != 0).to_owned().into_ptr(),
        }
    }
}

/// A native function and how to call it.
pub(super) struct NativeCall {
    code: Code,
    /// What each slot is made of: which guard looks at it, and how it is read.
    pub(super) slots: Vec<(usize, Slot)>,
    output: OutputKind,
    /// Whether making the slots may run Python code.
    runs_python: bool,
    /// Guards that found arrays in members, if other threads may run Python meanwhile: they are owned then. The
    /// arguments themselves are the caller's.
    held: Vec<usize>,
    /// What keeps the code in memory.
    keep: Py<PyAny>,
}

/// What is called.
enum Code {
    Host(Function),
    Device(Box<DeviceCall>),
}

/// Takes slots, and room for a result behind them; returns 0, or a status that is raised.
type Function = unsafe extern "C" fn(*mut u64) -> i32;

impl Slot {
    fn new(spec: &SlotSpec, guards: &[ArgumentGuard]) -> PyResult<Self> {
        let Some(guard) = guards.get(spec.guard) else {
            return Err(PyValueError::new_err("a slot is made of a guard that is not there"));
        };
        Ok(match spec.kind {
            SlotKind::Array(property) if guard.is_numpy() => Self::Array(ArrayKind::Numpy, property),
            SlotKind::Array(property) if guard.is_own() => Self::Array(ArrayKind::Own, property),
            SlotKind::Array(property) if guard.exchange().is_some() => {
                Self::Array(ArrayKind::Tensor, property)
            }
            SlotKind::Array(property) if guard.cuda().is_some() => Self::Array(ArrayKind::Cuda, property),
            SlotKind::Array(_) => {
                return Err(PyTypeError::new_err(
                    "native code can be given the arrays of NumPy and of libraries whose types have \
                     DLPack's table of functions, and this is another\nhint: share its memory by `keyprint.asarray`",
                ));
            }
            SlotKind::Number(Scalar::I64) => Self::Int,
            SlotKind::Number(Scalar::F64) => Self::Double,
            SlotKind::Number(Scalar::F32) => Self::Single,
            SlotKind::Number(scalar) => Self::Scalar(scalar),
        })
    }
}

impl NativeCall {
    /// Makes a call of its description, for an entry with these guards.
    pub(super) fn new(py: Python<'_>, spec: &CallSpec, guards: &[ArgumentGuard]) -> PyResult<Self> {
        let slots = spec
            .slots
            .iter()
            .map(|slot| Ok((slot.get().guard, Slot::new(slot.get(), guards)?)))
            .collect::<PyResult<Vec<_>>>()?;
        let output = match &spec.output.get().0 {
            OutputKind::Nothing => OutputKind::Nothing,
            OutputKind::One(kind) => OutputKind::One(*kind),
            OutputKind::Many(kinds, build) => OutputKind::Many(kinds.clone(), build.clone_ref(py)),
            OutputKind::Choice(all) => {
                OutputKind::Choice(all.iter().map(|choice| choice.clone_ref(py)).collect())
            }
        };
        let code = match &spec.program {
            Some(program) => {
                let arrays = slots.iter().enumerate().filter_map(|(place, (guard, slot))| match slot {
                    Slot::Array(kind, Property::Address) => Some((place, *guard, *kind)),
                    _ => None,
                });
                let mut device = DeviceCall::new(program.get(), arrays.collect(), guards);
                device.is_plain &= matches!(output, OutputKind::Nothing);
                Code::Device(Box::new(device))
            }
            // SAFETY: the caller says that a function of this type is at the address; whoever made it keeps
            // it there for as long as `keep` lives.
            None => Code::Host(unsafe { std::mem::transmute::<usize, Function>(spec.address) }),
        };
        let plain = |(guard, slot): &(usize, Slot)| !slot.is_number() || guards[*guard].is_plain_number();
        let runs_python = !slots.iter().all(plain);
        let in_members =
            slots.iter().filter(|(guard, slot)| slot.is_address() && !guards[*guard].is_argument());
        let held = match &spec.held {
            // What is used without being among the slots, and what members hold.
            Some(others) if others.iter().all(|guard| *guard < guards.len()) => {
                others.iter().copied().chain(in_members.map(|(guard, _)| *guard)).collect()
            }
            Some(_) => return Err(PyValueError::new_err("a guard is held that is not there")),
            None => Vec::new(),
        };
        Ok(Self { code, slots, output, runs_python, held, keep: spec.keep.clone_ref(py) })
    }

    /// Packs what the guards found and calls the function; nothing if that is not so any more.
    ///
    /// # Safety
    ///
    /// `values` are what the entry's guards found in this call. If Python code may have run since, or may
    /// run while numbers are made of what is no plain number, `careful` is true.
    pub(super) unsafe fn call(
        &self,
        py: Python<'_>,
        guards: &[ArgumentGuard],
        arguments: &[*mut ffi::PyObject],
        values: &mut [*mut ffi::PyObject],
        careful: bool,
        start: Option<u64>,
    ) -> PyResult<Option<*mut ffi::PyObject>> {
        let mut inline = [const { MaybeUninit::<u64>::uninit() }; INLINE];
        let mut heap = Vec::new();
        let room = self.room();
        let block: &mut [MaybeUninit<u64>] = if room <= INLINE {
            &mut inline
        } else {
            heap.resize(room, MaybeUninit::uninit());
            &mut heap
        };
        let mut kept = Vec::new();
        if careful || self.runs_python {
            // SAFETY: as the caller promises: what members hold is owned from the last look at them on.
            unsafe {
                let own = |pointer: &*mut ffi::PyObject| Bound::from_borrowed_ptr_or_opt(py, *pointer);
                let before: Vec<_> = values.iter().map(own).collect();
                for (place, (guard, slot)) in
                    self.slots.iter().enumerate().filter(|(_, slot)| slot.1.is_number())
                {
                    block[place].write(slot.pack(py, &guards[*guard], values[*guard])?);
                }
                if !pass_quietly(py, guards, arguments, values) {
                    return Ok(None);
                }
                // Arrays that are asked what they are may be others by now.
                for (guard, slot) in &self.slots {
                    if slot.is_address() && !guards[*guard].looks_again(py, values[*guard])? {
                        return Ok(None);
                    }
                }
                kept.extend(values.iter().map(own));
                drop(before);
            }
        }
        for (place, (guard, slot)) in self.slots.iter().enumerate() {
            block[place].write(match slot {
                // The commonest. SAFETY: as the caller promises, and the guard says that it is an array.
                Slot::Array(ArrayKind::Numpy, Property::Address) => unsafe {
                    ndarray::head(values[*guard]).data as u64
                },
                // SAFETY: as above, of our own.
                Slot::Array(ArrayKind::Own, Property::Address) => unsafe {
                    own(py, values[*guard]).data as u64
                },
                slot if !kept.is_empty() && slot.is_number() => continue,
                // SAFETY: as the caller promises.
                slot => unsafe { slot.pack(py, &guards[*guard], values[*guard])? },
            });
        }
        block[self.slots.len()..room].fill(MaybeUninit::new(0));
        if let Some(start) = start {
            block[self.slots.len()].write(start);
        }
        // While others run Python, members of objects may be rebound: what they held stays.
        let held: &[usize] = if kept.is_empty() { &self.held } else { &[] };
        // SAFETY: all slots were written; the values are what the guards found.
        unsafe { self.run(py, &mut block[..room], guards, held, values).map(Some) }
    }

    /// Packs arguments as they are, and calls the function; nothing if that takes more than a look at each.
    ///
    /// # Safety
    ///
    /// The arguments are live objects, as many as the path is for.
    #[inline]
    pub(super) unsafe fn call_fast(
        &self,
        py: Python<'_>,
        guards: &[ArgumentGuard],
        path: &FastPath,
        arguments: &[*mut ffi::PyObject],
    ) -> PyResult<Option<*mut ffi::PyObject>> {
        let plain = match &self.code {
            Code::Device(device) => device.plain_stream(py, guards)?.map(|stream| (device, stream)),
            Code::Host(_) => None,
        };
        if plain.is_none() && !self.held.is_empty() {
            // SAFETY: as the caller promises.
            return unsafe { self.call_holding(py, guards, path, arguments) };
        }
        let mut block = [const { MaybeUninit::<u64>::uninit() }; INLINE];
        // SAFETY: as the caller promises.
        if !unsafe { path.pack(py, guards, self, arguments, &mut block, &mut [])? } {
            return Ok(None);
        }
        let room = self.room();
        block[self.slots.len()..room].fill(MaybeUninit::new(0));
        if let Some((device, stream)) = plain {
            // SAFETY: the path has written all slots. Nobody else runs Python before the launch is on its way.
            if unsafe { device.launch_plain(py, block.as_mut_ptr().cast(), stream)? } {
                return Ok(Some(py.None().into_ptr()));
            }
            if !self.held.is_empty() {
                // SAFETY: as the caller promises.
                return unsafe { self.call_holding(py, guards, path, arguments) };
            }
        }
        // SAFETY: the path has written all slots, and nothing is owned during the launch.
        unsafe { self.run(py, &mut block[..room], guards, &[], &[]).map(Some) }
    }

    /// The same, where members are owned if the launch lets others run Python.
    ///
    /// # Safety
    ///
    /// As above.
    #[inline(never)]
    unsafe fn call_holding(
        &self,
        py: Python<'_>,
        guards: &[ArgumentGuard],
        path: &FastPath,
        arguments: &[*mut ffi::PyObject],
    ) -> PyResult<Option<*mut ffi::PyObject>> {
        let mut block = [const { MaybeUninit::<u64>::uninit() }; INLINE];
        let mut values = [std::ptr::null_mut(); INLINE];
        // SAFETY: as the caller promises; there is a value for each guard.
        if !unsafe { path.pack(py, guards, self, arguments, &mut block, &mut values[..guards.len()])? } {
            return Ok(None);
        }
        let room = self.room();
        block[self.slots.len()..room].fill(MaybeUninit::new(0));
        // SAFETY: the path has written all slots, and what each guard looks at.
        unsafe { self.run(py, &mut block[..room], guards, &self.held, &values[..guards.len()]).map(Some) }
    }

    /// How many slots there are, with those for results, or those that a launch on a device adds.
    fn room(&self) -> usize {
        let results = match &self.output {
            OutputKind::Many(kinds, _) => kinds.len(),
            _ => 1,
        };
        self.slots.len() + results.max(DeviceCall::ADDED)
    }

    /// Calls the function.
    ///
    /// # Safety
    ///
    /// All slots were written, of what the guards found: `values`. `held` are places among them.
    #[inline]
    unsafe fn run(
        &self,
        py: Python<'_>,
        block: &mut [MaybeUninit<u64>],
        guards: &[ArgumentGuard],
        held: &[usize],
        values: &[*mut ffi::PyObject],
    ) -> PyResult<*mut ffi::PyObject> {
        let status = match &self.code {
            Code::Host(function) => {
                let slots = block.as_mut_ptr().cast();
                // SAFETY: the function takes this many slots, as whoever made it said; the values are what the guards found.
                unsafe { with_arrays(held, values, || function(slots)) }
            }
            Code::Device(device) => {
                // SAFETY: as the caller promises.
                let block =
                    unsafe { std::slice::from_raw_parts_mut(block.as_mut_ptr().cast::<u64>(), block.len()) };
                // SAFETY: as above; the values are what the guards found.
                unsafe { device.launch(py, block, guards, held, values, &self.keep)? }
            }
        };
        // What stopped it comes before what it has printed.
        let error = (status != 0).then(|| self.error(py, status));
        if output::is_pending() {
            show_output(py)?;
        }
        if let Some(error) = error {
            return Err(error);
        }
        // SAFETY: written above, whatever the function did with it since.
        let result = |at: usize| unsafe { block[self.slots.len() + at].assume_init() };
        Ok(match &self.output {
            OutputKind::Nothing => py.None().into_ptr(),
            OutputKind::One(kind) => kind.read(py, result(0)),
            OutputKind::Choice(all) => match usize::try_from(result(0)).ok().and_then(|at| all.get(at)) {
                Some(choice) => choice.clone_ref(py).into_ptr(),
                None => return Err(PyRuntimeError::new_err("the kernel chose what is not there")),
            },
            OutputKind::Many(kinds, build) => {
                // SAFETY: each is a new reference.
                let own = |(at, kind): (usize, &ResultKind)| unsafe {
                    Bound::from_owned_ptr(py, kind.read(py, result(at)))
                };
                let items: Vec<Bound<'_, PyAny>> = kinds.iter().enumerate().map(own).collect();
                build.call1(py, (PyTuple::new(py, items)?,))?.into_ptr()
            }
        })
    }

    /// Whether arguments that are as they must be, and members of them, are all that a call takes.
    pub(super) fn is_direct(&self, guards: &[ArgumentGuard]) -> bool {
        let is_direct = match &self.code {
            Code::Host(_) => true,
            Code::Device(device) => device.is_direct(),
        };
        let has_room = self.held.is_empty() || guards.len() <= INLINE;
        is_direct && has_room && !self.runs_python && self.room() <= INLINE
    }

    /// Where to begin, as whoever made the code knows it.
    pub(super) fn start(&self, py: Python<'_>, start: &Bound<'_, PyAny>) -> PyResult<u64> {
        let index = self.keep.bind(py).call_method1(intern!(py, "start_of"), (start,))?.extract::<u64>()?;
        match &self.output {
            OutputKind::Choice(all) if (index as usize) < all.len() => Ok(index),
            _ => Err(PyRuntimeError::new_err("native code begins where it cannot")),
        }
    }

    /// What the loader made.
    pub(super) fn made(&self, py: Python<'_>) -> Py<PyAny> {
        self.keep.clone_ref(py)
    }

    /// Adds the objects that it owns.
    pub(super) fn owned(&self, all: &mut Vec<*mut ffi::PyObject>) {
        all.push(self.keep.as_ptr());
        match &self.output {
            OutputKind::Choice(choices) => all.extend(choices.iter().map(Py::as_ptr)),
            OutputKind::Many(_, build) => all.push(build.as_ptr()),
            OutputKind::Nothing | OutputKind::One(_) => {}
        }
    }

    /// What a status means: whoever made the code may say.
    #[cold]
    fn error(&self, py: Python<'_>, status: i32) -> PyErr {
        if let Some(raised) = PyErr::take(py) {
            return raised;
        }
        let plain = || PyRuntimeError::new_err(format!("the kernel returned the status {status}"));
        match self.keep.bind(py).call_method1(intern!(py, "error_of"), (status,)) {
            Ok(error) if error.is_none() => plain(),
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    }
}

impl Slot {
    /// Whether it is the address of the first element of an array.
    pub(super) fn is_address(&self) -> bool {
        matches!(self, Self::Array(_, Property::Address))
    }

    /// Whether it is made of a number, which may run Python code.
    fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Double | Self::Single | Self::Scalar(_))
    }

    /// # Safety
    ///
    /// `value` is a live object that passed the guard.
    pub(super) unsafe fn pack(
        &self,
        py: Python<'_>,
        guard: &ArgumentGuard,
        value: *mut ffi::PyObject,
    ) -> PyResult<u64> {
        match self {
            Self::Array(ArrayKind::Numpy, property) => {
                // SAFETY: the guard says that this is an array.
                let head = unsafe { ndarray::head(value) };
                let is_there = |at: usize| at < head.ndim as usize;
                match *property {
                    Property::Address => Ok(head.data as u64),
                    // SAFETY: an array has as many sizes as dimensions.
                    Property::Size(at) if is_there(at) => Ok(unsafe { *head.shape.add(at) } as u64),
                    // SAFETY: an array has as many strides as dimensions.
                    Property::Stride(at) if is_there(at) => Ok(unsafe { *head.strides.add(at) } as u64),
                    Property::Size(_) | Property::Stride(_) => Err(no_dimension()),
                }
            }
            Self::Array(ArrayKind::Tensor, property) => {
                let spec = guard.exchange().expect("checked when the call was made");
                let tensor: DlTensor = spec.tensor(value).ok_or_else(changed)?;
                Ok(match *property {
                    Property::Address => tensor.first() as u64,
                    Property::Size(at) => tensor.size(at).ok_or_else(no_dimension)? as u64,
                    Property::Stride(at) => tensor.stride_in_bytes(at).ok_or_else(no_dimension)? as u64,
                })
            }
            Self::Array(ArrayKind::Cuda, property) => {
                let spec = guard.cuda().expect("checked when the call was made");
                let array = spec.described(value).ok_or_else(changed)?;
                Ok(match *property {
                    Property::Address => array.address,
                    Property::Size(at) => array.size(at).ok_or_else(no_dimension)? as u64,
                    Property::Stride(at) => array.stride(at).ok_or_else(no_dimension)? as u64,
                })
            }
            Self::Array(ArrayKind::Own, property) => {
                // SAFETY: the guard says that this is an array of our own.
                let array = unsafe { own(py, value) };
                Ok(match *property {
                    Property::Address => array.data as u64,
                    Property::Size(at) => array.size(at).ok_or_else(no_dimension)? as u64,
                    Property::Stride(at) => array.stride(at).ok_or_else(no_dimension)? as u64,
                })
            }
            Self::Scalar(Scalar::F64) => double(py, value).map(f64::to_bits),
            Self::Scalar(Scalar::F32) => double(py, value).map(|number| u64::from((number as f32).to_bits())),
            Self::Scalar(scalar) => {
                // SAFETY: a live object.
                let value = unsafe { Borrowed::from_ptr(py, value) };
                number_bits(*scalar, &value)
            }
            Self::Int => {
                let mut overflow = 0;
                // SAFETY: an int or something that `__index__` turns into one; errors are looked at.
                let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(value, &raw mut overflow) };
                if overflow != 0 {
                    return Err(PyOverflowError::new_err("an int does not fit into 64 bits"));
                }
                match PyErr::take(py) {
                    Some(error) if number == -1 => Err(error),
                    _ => Ok(number as u64),
                }
            }
            Self::Double => double(py, value).map(f64::to_bits),
            Self::Single => double(py, value).map(|number| u64::from((number as f32).to_bits())),
        }
    }
}

#[inline]
fn double(py: Python<'_>, value: *mut ffi::PyObject) -> PyResult<f64> {
    // SAFETY: a live object; errors are looked at.
    let number = unsafe { ffi::PyFloat_AsDouble(value) };
    if number == -1.0
        && let Some(error) = PyErr::take(py)
    {
        return Err(error);
    }
    Ok(number)
}

#[cold]
fn changed() -> PyErr {
    PyRuntimeError::new_err("an array changed while it was looked at")
}

#[cold]
fn no_dimension() -> PyErr {
    PyValueError::new_err("an array has no such dimension")
}
