//! `keyprint._native.NdArray`: arrays of our own.
//!
//! Elements are numbers, vectors or matrices, one behind the other, the last dimension fastest. An array
//! never changes where its memory is or what it is of, so that a launch has one word to compare. NumPy
//! and others see the memory through the buffer protocol and DLPack, without copies.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_int, c_void};

use keyprint_cuda::device::Device;
use keyprint_cuda::memory::DeviceMemory;
use keyprint_cuda::stream::Stream;
use keyprint_lang::passes::fold;
use keyprint_lang::types::Scalar;
use pyo3::exceptions::{
    PyAttributeError, PyBufferError, PyIndexError, PyMemoryError, PyOverflowError, PyTypeError, PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCapsule, PyDict, PyFloat, PyInt, PyTuple};

use crate::cuda::{device_error, open_device};
use crate::own_array_memory::{Buffer, Memory, order_for};
use crate::{hooks, own_array_dlpack};

/// More dimensions are refused, those of the elements aside.
const MOST_DIMENSIONS: usize = 8;

/// Where the first element lies: at a multiple of this.
const ALIGNMENT: usize = 64;

/// Where the number of the device is in the word of an array: one more than that, 0 for the host.
const DEVICE_BITS: u32 = 48;

/// An array of numbers, vectors or matrices.
/// What a launch reads comes first, beside the head of the object.
#[repr(C)]
#[pyclass(frozen, weakref, name = "NdArray", module = "keyprint._native")]
pub(crate) struct NdArray {
    /// What counts of it, in one word.
    pub(crate) spec: u64,
    pub(crate) data: *mut u8,
    /// Sizes of the array, then those of an element.
    pub(crate) shape: Vec<isize>,
    /// In bytes.
    pub(crate) strides: Vec<isize>,
    pub(crate) ndim: usize,
    pub(crate) scalar: Scalar,
    /// What Python calls the type of its elements.
    dtype: Py<PyAny>,
    memory: Memory,
    /// The device that it is on; nothing for the host.
    pub(crate) device: Option<&'static Device>,
    needs_grad: bool,
}

// SAFETY: the memory belongs to the array; who writes it at the same time as others is the program's
// business, as with all arrays, and the interpreter's lock guards access from Python.
unsafe impl Send for NdArray {}
// SAFETY: as above.
unsafe impl Sync for NdArray {}

impl Drop for NdArray {
    fn drop(&mut self) {
        if let Memory::Host(layout) = self.memory {
            // SAFETY: allocated with this layout when the array was made.
            unsafe { dealloc(self.data, layout) };
        }
    }
}

impl NdArray {
    /// An array of what is known of it.
    #[allow(clippy::too_many_arguments, reason = "called twice, right below")]
    fn made(
        scalar: Scalar,
        ndim: usize,
        shape: Vec<isize>,
        strides: Vec<isize>,
        data: *mut u8,
        memory: Memory,
        device: Option<&'static Device>,
        dtype: Py<PyAny>,
        needs_grad: bool,
    ) -> Self {
        let code = Scalar::ALL.iter().position(|known| *known == scalar).expect("all are there") as u64;
        let element = &shape[ndim..];
        let lane = |at: usize| element.get(at).map_or(0, |size| *size as u64);
        let spec = code
            | (ndim as u64) << 4
            | (element.len() as u64) << 8
            | u64::from(needs_grad) << 10
            | lane(0) << 16
            | lane(1) << 32
            | device.map_or(0, |device| u64::from(device.ordinal) + 1) << DEVICE_BITS;
        Self { spec, data, shape, strides, ndim, scalar, dtype, memory, device, needs_grad }
    }

    /// Whether a word is that of an array on a device.
    pub(crate) fn is_on_device(spec: u64) -> bool {
        spec >> DEVICE_BITS != 0
    }

    /// A size of the array or, behind those, of an element.
    #[inline]
    pub(crate) fn size(&self, at: usize) -> Option<isize> {
        self.shape.get(at).copied()
    }

    pub(crate) fn stride(&self, at: usize) -> Option<isize> {
        self.strides.get(at).copied()
    }

    /// How many numbers an element has.
    fn lanes(&self) -> usize {
        self.shape[self.ndim..].iter().product::<isize>() as usize
    }

    fn count(&self) -> usize {
        self.shape.iter().product::<isize>() as usize
    }

    fn bytes(&self) -> usize {
        self.count() * self.scalar.bytes() as usize
    }

    /// The first number of an element, and how many follow.
    fn find(&self, index: &Bound<'_, PyAny>) -> PyResult<usize> {
        let items: Vec<Bound<'_, PyAny>> = match index.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) if index.is_none() && self.ndim == 0 => Vec::new(),
            Err(_) => vec![index.clone()],
        };
        if items.len() != self.ndim {
            return Err(PyIndexError::new_err(format!(
                "an array of {} dimensions has that many indices, found {}",
                self.ndim,
                items.len()
            )));
        }
        let mut place = 0usize;
        for (at, item) in items.iter().enumerate() {
            let size = self.shape[at];
            let given: isize = item.extract().map_err(|_| {
                PyTypeError::new_err(format!("an index is an int, found `{}`", type_name(item)))
            })?;
            let position = if given < 0 { given + size } else { given };
            if !(0..size).contains(&position) {
                return Err(PyIndexError::new_err(format!("index {given} is out of range for size {size}")));
            }
            place = place * size as usize + position as usize;
        }
        Ok(place * self.lanes())
    }

    /// A number as Python knows it.
    fn get<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        let bits = self.read(py, at)?;
        Ok(match self.scalar {
            Scalar::Bool => PyBool::new(py, bits != 0).to_owned().into_any(),
            scalar if scalar.is_float() => PyFloat::new(py, fold::float(scalar, bits)).into_any(),
            Scalar::U64 => PyInt::new(py, bits).into_any(),
            _ => PyInt::new(py, bits as i64).into_any(),
        })
    }

    /// The bits of a number, as constants of the language have them.
    fn read(&self, py: Python<'_>, at: usize) -> PyResult<u64> {
        assert!(at < self.count());
        let size = self.scalar.bytes() as usize;
        let mut bytes = [0u8; 8];
        // SAFETY: inside of the memory, as just checked.
        unsafe { self.copy_out(py, at * size, bytes.as_mut_ptr(), size)? };
        let bits = u64::from_le_bytes(bytes);
        Ok(if self.scalar.is_float() { bits } else { fold::wrap(self.scalar, i128::from(bits)) })
    }

    fn write(&self, py: Python<'_>, at: usize, bits: u64) -> PyResult<()> {
        assert!(at < self.count());
        let size = self.scalar.bytes() as usize;
        // SAFETY: inside of the memory, as just checked.
        unsafe { self.copy_in(py, at * size, bits.to_le_bytes().as_ptr(), size) }
    }

    /// What a Python number is as a number of this array.
    fn bits_of(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        number_bits(self.scalar, value)
    }

    /// The numbers that an element is set to.
    fn lanes_of(&self, value: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        let many = self.lanes();
        if self.shape.len() == self.ndim {
            return Ok(vec![self.bits_of(value)?]);
        }
        let mut numbers = Vec::new();
        self.flatten(value, &mut numbers, 0)?;
        if numbers.len() == 1 && !value.hasattr("__len__")? {
            return Ok(vec![numbers[0]; many]);
        }
        if numbers.len() != many {
            return Err(PyValueError::new_err(format!(
                "an element has {many} numbers, found {}",
                numbers.len()
            )));
        }
        Ok(numbers)
    }

    fn flatten(&self, value: &Bound<'_, PyAny>, into: &mut Vec<u64>, level: u32) -> PyResult<()> {
        if into.len() > self.lanes() {
            return Ok(());
        }
        if level > 2 {
            return Err(PyValueError::new_err("an element is made of numbers, or of rows of numbers"));
        }
        if value.hasattr("__len__")? && !value.is_instance_of::<pyo3::types::PyString>() {
            for item in value.try_iter()? {
                self.flatten(&item?, into, level + 1)?;
            }
            return Ok(());
        }
        into.push(self.bits_of(value)?);
        Ok(())
    }
}

/// The numbers of an array as NumPy's of single precision, which hold them.
fn widened<'py>(array: &Bound<'py, NdArray>) -> PyResult<Bound<'py, PyAny>> {
    let (py, this) = (array.py(), array.get());
    let mut halves = vec![0u16; this.count()];
    // SAFETY: as many bytes as the array has.
    unsafe { this.copy_out(py, 0, halves.as_mut_ptr().cast::<u8>(), this.bytes())? };
    let numpy = py.import("numpy")?;
    let copy = numpy.call_method1("empty", (PyTuple::new(py, &this.shape)?, numpy_name(this.scalar)))?;
    let view = Buffer::of(&copy, ffi::PyBUF_C_CONTIGUOUS | ffi::PyBUF_WRITABLE)?;
    for (at, half) in halves.into_iter().enumerate() {
        let number = fold::float(this.scalar, u64::from(half)) as f32;
        // SAFETY: NumPy has just made room for as many, which nobody else knows of.
        unsafe { view.data().cast::<f32>().add(at).write_unaligned(number) };
    }
    drop(view);
    Ok(copy)
}

/// Scalar, dimensions, sizes, strides and bytes of an array that is described so.
type Described = (Scalar, usize, Vec<isize>, Vec<isize>, isize);

fn described(scalar: &str, shape: Vec<isize>, element: Vec<isize>) -> PyResult<Described> {
    let scalar = scalar_named(scalar)?;
    if shape.len() > MOST_DIMENSIONS {
        return Err(PyValueError::new_err(format!(
            "an array has at most {MOST_DIMENSIONS} dimensions, found {}",
            shape.len()
        )));
    }
    if element.len() > 2 || element.iter().any(|size| !(1..=1024).contains(size)) {
        return Err(PyValueError::new_err("an element is a number, a vector or a matrix"));
    }
    if let Some(size) = shape.iter().find(|size| **size < 0) {
        return Err(PyValueError::new_err(format!("a size is not negative, found {size}")));
    }
    let ndim = shape.len();
    let shape: Vec<isize> = shape.into_iter().chain(element).collect();
    let mut bytes = scalar.bytes() as isize;
    for size in &shape {
        bytes = bytes.checked_mul(*size).ok_or_else(too_large)?;
    }
    let mut strides = vec![scalar.bytes() as isize; shape.len()];
    for at in (0..shape.len().saturating_sub(1)).rev() {
        strides[at] = strides[at + 1] * shape[at + 1].max(1);
    }
    Ok((scalar, ndim, shape, strides, bytes))
}

fn too_large() -> PyErr {
    PyMemoryError::new_err("the array is too large")
}

/// What a Python number is as a number of a type.
pub(crate) fn number_bits(scalar: Scalar, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    if scalar.is_float() {
        return Ok(fold::float_bits(scalar, value.extract::<f64>()?));
    }
    if scalar == Scalar::Bool {
        return Ok(u64::from(value.is_truthy()?));
    }
    // Floats are not cut off silently; truth values of NumPy are numbers, as those of Python are.
    let name = type_name(value);
    let value: i128 = match value.extract() {
        Ok(value) => value,
        Err(_) if name == "bool" || name == "bool_" => i128::from(value.is_truthy()?),
        Err(_) => {
            return Err(PyTypeError::new_err(format!("a `{scalar}` is a whole number, found `{name}`")));
        }
    };
    let bits = fold::wrap(scalar, value);
    if fold::whole(scalar, bits) != value {
        return Err(PyOverflowError::new_err(format!("{value} does not fit into a `{scalar}`")));
    }
    Ok(bits)
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

fn scalar_named(name: &str) -> PyResult<Scalar> {
    Scalar::of_name(name).ok_or_else(|| PyValueError::new_err(format!("no such type: `{name}`")))
}

#[pymethods]
impl NdArray {
    /// Makes an array of zeros. `scalar` is the name of the type of its numbers, `element` the sizes of an
    /// element, `dtype` what Python calls the type of the elements, `device` the number of a CUDA device.
    #[new]
    #[pyo3(signature = (scalar, shape, element, dtype, needs_grad, device=None, /))]
    fn new(
        py: Python<'_>,
        scalar: &str,
        shape: Vec<isize>,
        element: Vec<isize>,
        dtype: Py<PyAny>,
        needs_grad: bool,
        device: Option<u32>,
    ) -> PyResult<Self> {
        let (scalar, ndim, shape, strides, bytes) = described(scalar, shape, element)?;
        if let Some(ordinal) = device {
            let allocate = || {
                let device = open_device(ordinal)?;
                Ok((device, DeviceMemory::zeroed(device, bytes as usize, Stream::OWN)?))
            };
            let (device, memory) = py.detach(allocate).map_err(|error| device_error(py, &error))?;
            let data = memory.address() as *mut u8;
            let memory = Memory::Device(memory);
            return Ok(Self::made(
                scalar,
                ndim,
                shape,
                strides,
                data,
                memory,
                Some(device),
                dtype,
                needs_grad,
            ));
        }
        let layout = Layout::from_size_align((bytes as usize).max(1), ALIGNMENT).map_err(|_| too_large())?;
        // SAFETY: the layout has a size.
        let data = unsafe { alloc_zeroed(layout) };
        if data.is_null() {
            return Err(too_large());
        }
        Ok(Self::made(scalar, ndim, shape, strides, data, Memory::Host(layout), None, dtype, needs_grad))
    }

    /// Makes an array of memory that belongs to something else: at an address, laid out the usual way.
    #[staticmethod]
    #[pyo3(signature = (scalar, shape, element, dtype, address, owner, device=None, /))]
    #[allow(clippy::too_many_arguments, reason = "Python calls it")]
    fn view(
        py: Python<'_>,
        scalar: &str,
        shape: Vec<isize>,
        element: Vec<isize>,
        dtype: Py<PyAny>,
        address: usize,
        owner: Py<PyAny>,
        device: Option<u32>,
    ) -> PyResult<Self> {
        let (scalar, ndim, shape, strides, _) = described(scalar, shape, element)?;
        let data = address as *mut u8;
        if !address.is_multiple_of(scalar.bytes() as usize) || (data.is_null() && !shape.contains(&0)) {
            return Err(PyValueError::new_err("the memory is not aligned"));
        }
        let device = device.map(open_device).transpose().map_err(|error| device_error(py, &error))?;
        if let Some(device) = device {
            device.share();
        }
        Ok(Self::made(scalar, ndim, shape, strides, data, Memory::Foreign(owner), device, dtype, false))
    }

    /// The sizes of the array, those of its elements aside.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape[..self.ndim])
    }

    /// The sizes of an element: none for a number.
    #[getter]
    fn element_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape[self.ndim..])
    }

    /// The type of its elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.clone_ref(py)
    }

    /// The name of the type of its numbers.
    #[getter]
    fn scalar(&self) -> &'static str {
        self.scalar.name()
    }

    /// How many dimensions it has.
    #[getter]
    fn ndim(&self) -> usize {
        self.ndim
    }

    /// How many bytes it takes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes()
    }

    /// Whether gradients are wanted; kept for programs that say so.
    #[getter]
    fn needs_grad(&self) -> bool {
        self.needs_grad
    }

    /// The number of the CUDA device that it is on; nothing for the host.
    #[getter]
    fn device_id(&self) -> Option<u32> {
        self.device.map(|device| device.ordinal)
    }

    /// The device that it is on.
    #[getter]
    fn device(&self) -> String {
        self.device.map_or_else(|| "cpu".to_owned(), |device| format!("cuda:{}", device.ordinal))
    }

    /// The address of the first element.
    #[getter]
    fn address(&self) -> usize {
        if let Some(device) = self.device {
            device.share();
        }
        self.data as usize
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.ndim {
            0 => Err(PyTypeError::new_err("an array of 0 dimensions has no length")),
            _ => Ok(self.shape[0] as usize),
        }
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let element = this.get_element(py, index)?;
        if this.shape.len() == this.ndim {
            return Ok(element);
        }
        hooks::MAKE_ELEMENT.get(py)?.call1((slf, index, element))
    }

    fn __setitem__(&self, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set_element(index, value)
    }

    /// Takes numbers of double precision, one for each of this array's, rounded to what it holds.
    #[pyo3(signature = (doubles, /))]
    fn round_from(&self, py: Python<'_>, doubles: &Bound<'_, PyAny>) -> PyResult<()> {
        let view = Buffer::of(doubles, ffi::PyBUF_C_CONTIGUOUS)?;
        if !self.scalar.is_float() || view.length() != self.count() * 8 {
            return Err(PyValueError::new_err(format!(
                "expected {} numbers for floats, found {} bytes for `{}`",
                self.count(),
                view.length(),
                self.scalar
            )));
        }
        let size = self.scalar.bytes() as usize;
        let mut bytes = Vec::with_capacity(self.bytes());
        for at in 0..self.count() {
            // SAFETY: inside of the view, whose length was checked; NumPy's memory may be aligned to anything.
            let number = unsafe { view.data().cast::<f64>().add(at).read_unaligned() };
            bytes.extend_from_slice(&fold::float_bits(self.scalar, number).to_le_bytes()[..size]);
        }
        // SAFETY: as many bytes as the array has.
        unsafe { self.copy_in(py, 0, bytes.as_ptr(), bytes.len()) }
    }

    /// Returns a copy as a NumPy array; the sizes of an element come last. NumPy has no name for some numbers: they are
    /// made wider.
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let numpy = py.import("numpy")?;
        if this.scalar == Scalar::BF16 {
            return widened(slf);
        }
        if this.device.is_none() {
            return numpy.call_method1("array", (slf,));
        }
        let copy = numpy.call_method1("empty", (PyTuple::new(py, &this.shape)?, numpy_name(this.scalar)))?;
        let view = Buffer::of(&copy, ffi::PyBUF_C_CONTIGUOUS | ffi::PyBUF_WRITABLE)?;
        // SAFETY: NumPy has just made as much room, which nobody else knows of.
        unsafe { this.copy_out(py, 0, view.data(), this.bytes())? };
        drop(view);
        Ok(copy)
    }

    /// What NumPy makes of an array on a device: a copy.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) && slf.get().device.is_some() {
            return Err(PyValueError::new_err(
                "an array on a device cannot be shared with NumPy, only copied",
            ));
        }
        let array = Self::to_numpy(slf)?;
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    /// What other libraries are told of an array on a device.
    #[getter]
    fn __cuda_array_interface__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let (py, this) = (slf.py(), slf.get());
        let Some(device) = this.device else {
            return Err(PyAttributeError::new_err("the array is not on a CUDA device"));
        };
        device.share();
        let interface = PyDict::new(py);
        let kind = match this.scalar {
            Scalar::Bool => 'b',
            Scalar::BF16 => {
                return Err(PyAttributeError::new_err(
                    "the protocol has no name for `bf16`\nhint: DLPack has: `torch.from_dlpack(x)`",
                ));
            }
            scalar if scalar.is_float() => 'f',
            scalar if scalar.is_signed() => 'i',
            _ => 'u',
        };
        let order = if this.scalar.bytes() == 1 { '|' } else { '<' };
        interface.set_item("shape", PyTuple::new(py, &this.shape)?)?;
        interface.set_item("typestr", format!("{order}{kind}{}", this.scalar.bytes()))?;
        interface.set_item("data", (this.data as usize, false))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("version", 3)?;
        // The default stream, as this protocol writes it.
        interface.set_item("stream", 1)?;
        Ok(interface)
    }

    /// Copies a NumPy array, or anything that becomes one, into this array.
    #[pyo3(signature = (array, /))]
    fn from_numpy(slf: &Bound<'_, Self>, array: &Bound<'_, PyAny>) -> PyResult<()> {
        hooks::COPY_ELEMENTS.get(slf.py())?.call1((slf, array)).map(drop)
    }

    /// Copies another array of the same shape.
    #[pyo3(signature = (other, /))]
    fn copy_from(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::from_numpy(slf, other)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape = self.shape(py)?.repr()?;
        Ok(format!("<ndarray {} {shape}>", self.dtype.bind(py).str()?))
    }

    /// Returns the numbers of an element: one, or a flat tuple of a vector or matrix.
    #[pyo3(signature = (index, /))]
    fn get_element<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let first = self.find(index)?;
        if self.shape.len() == self.ndim {
            return self.get(py, first);
        }
        let items: Vec<_> =
            (first..first + self.lanes()).map(|at| self.get(py, at)).collect::<PyResult<_>>()?;
        Ok(PyTuple::new(py, items)?.into_any())
    }

    /// Sets an element.
    #[pyo3(signature = (index, value, /))]
    fn set_element(&self, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let first = self.find(index)?;
        for (at, bits) in self.lanes_of(value)?.into_iter().enumerate() {
            self.write(index.py(), first + at, bits)?;
        }
        Ok(())
    }

    /// Sets a number of an element.
    #[pyo3(signature = (index, lane, value, /))]
    fn set_lane(&self, index: &Bound<'_, PyAny>, lane: usize, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if lane >= self.lanes() {
            return Err(PyIndexError::new_err(format!("number {lane} of {}", self.lanes())));
        }
        self.write(index.py(), self.find(index)? + lane, self.bits_of(value)?)
    }

    /// Sets all elements.
    #[pyo3(signature = (value, /))]
    fn fill(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, lanes) = (value.py(), self.lanes_of(value)?);
        let count = self.count();
        if lanes.iter().all(|bits| *bits == 0) && self.device.is_none() {
            // SAFETY: this much memory belongs to the array.
            unsafe { std::ptr::write_bytes(self.data, 0, self.bytes()) };
            return Ok(());
        }
        if count == 0 {
            return Ok(());
        }
        for (at, bits) in lanes.iter().enumerate() {
            self.write(py, at, *bits)?;
        }
        // What is there already is copied behind itself, twice as much each time.
        let (all, mut done) = (self.bytes(), lanes.len() * self.scalar.bytes() as usize);
        while done < all {
            let more = done.min(all - done);
            // SAFETY: both parts are inside of the memory, one behind the other.
            unsafe { self.copy_within(py, 0, done, more)? };
            done += more;
        }
        Ok(())
    }

    /// Copies bytes that are laid out as these elements are: of a buffer, or of another array of ours.
    #[pyo3(signature = (buffer, /))]
    fn copy_bytes(&self, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = buffer.py();
        let expected =
            |found: usize| PyValueError::new_err(format!("expected {} bytes, found {found}", self.bytes()));
        if let Ok(other) = buffer.cast::<Self>()
            && let Some(from) = other.get().device
        {
            let other = other.get();
            if other.bytes() != self.bytes() {
                return Err(expected(other.bytes()));
            }
            if self.device.is_some_and(|device| std::ptr::eq(device, from)) {
                // SAFETY: both are as long as that.
                let outcome = unsafe { from.copy(self.data as u64, other.data as u64, self.bytes()) };
                return outcome.map_err(|error| device_error(py, &error));
            }
            let mut bytes = vec![0u8; self.bytes()];
            // SAFETY: all of them are as long as that.
            return unsafe {
                other.copy_out(py, 0, bytes.as_mut_ptr(), bytes.len())?;
                self.copy_in(py, 0, bytes.as_ptr(), bytes.len())
            };
        }
        let view = Buffer::of(buffer, ffi::PyBUF_C_CONTIGUOUS)?;
        if view.length() != self.bytes() {
            return Err(expected(view.length()));
        }
        // SAFETY: both are as long as that.
        unsafe { self.copy_in(py, 0, view.data(), self.bytes()) }
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let array = slf.get();
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        if array.device.is_some() {
            return Err(PyBufferError::new_err(
                "the elements are on a device\nhint: `to_numpy()` copies them to the host",
            ));
        }
        let wants = |flag: c_int| flags & flag == flag;
        if wants(ffi::PyBUF_F_CONTIGUOUS) && !wants(ffi::PyBUF_C_CONTIGUOUS) && array.shape.len() > 1 {
            return Err(PyBufferError::new_err("the elements are laid out with the last dimension fastest"));
        }
        let list = |flag: c_int, items: &[isize]| {
            if wants(flag) && !items.is_empty() { items.as_ptr().cast_mut() } else { std::ptr::null_mut() }
        };
        let (shape, strides) = (list(ffi::PyBUF_ND, &array.shape), list(ffi::PyBUF_STRIDES, &array.strides));
        // Who asks for no format wants the bytes.
        if array.scalar == Scalar::BF16 && flags & ffi::PyBUF_FORMAT != 0 {
            return Err(PyBufferError::new_err(
                "buffers have no name for `bf16`\nhint: `to_numpy()` copies the numbers as `float32`; `torch.from_dlpack(x)` \
                 shares them",
            ));
        }
        let format = format_of(array.scalar);
        // SAFETY: the view is filled as the protocol says; the array owns everything that it points to,
        // never changes it, and is owned by the view.
        unsafe {
            (*view).buf = array.data.cast::<c_void>();
            (*view).len = array.bytes() as isize;
            (*view).readonly = 0;
            (*view).itemsize = array.scalar.bytes() as isize;
            (*view).format = if flags & ffi::PyBUF_FORMAT == 0 {
                std::ptr::null_mut()
            } else {
                format.as_ptr().cast_mut()
            };
            (*view).ndim = array.shape.len() as c_int;
            (*view).shape = shape;
            (*view).strides = strides;
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }

    /// Returns a tensor that shares the memory, for libraries that speak DLPack.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = dl_device;
        if let Some(device) = slf.get().device {
            device.share();
            order_for(device, stream.as_ref())?;
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("a copy is made by the library that takes the tensor"));
        }
        own_array_dlpack::managed(slf, max_version.is_some_and(|(major, _)| major >= 1))
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        self.device.map_or((1, 0), |device| (2, device.ordinal as i32))
    }
}

/// What NumPy calls numbers of a type, or of one that holds them.
fn numpy_name(scalar: Scalar) -> String {
    let kind = match scalar {
        Scalar::Bool => return "bool".to_owned(),
        Scalar::BF16 => return "float32".to_owned(),
        scalar if scalar.is_float() => "float",
        scalar if scalar.is_signed() => "int",
        _ => "uint",
    };
    format!("{kind}{}", scalar.bits())
}

/// What the buffer protocol calls numbers of a type.
fn format_of(scalar: Scalar) -> &'static std::ffi::CStr {
    match scalar {
        Scalar::Bool => c"?",
        Scalar::I8 => c"b",
        Scalar::I16 => c"h",
        Scalar::I32 => c"i",
        Scalar::I64 => c"q",
        Scalar::U8 => c"B",
        Scalar::U16 => c"H",
        Scalar::U32 => c"I",
        Scalar::U64 => c"Q",
        Scalar::F16 => c"e",
        // Never asked for: see `__getbuffer__`.
        Scalar::BF16 => c"2x",
        Scalar::F32 => c"f",
        Scalar::F64 => c"d",
    }
}
