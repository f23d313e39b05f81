//! Arrays of other libraries on CUDA devices that describe themselves by `__cuda_array_interface__`: those of CuPy,
//! Numba, JAX.

use std::cell::Cell;

use keyprint_cuda::device;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::interned::intern;

/// More dimensions are refused.
const MOST_DIMENSIONS: usize = 16;

/// What an array says of itself.
#[derive(Clone, Copy)]
pub(super) struct CudaArray {
    /// The object; only compared.
    object: *mut ffi::PyObject,
    pub(super) address: u64,
    ndim: usize,
    sizes: [i64; MOST_DIMENSIONS],
    /// In bytes.
    strides: [i64; MOST_DIMENSIONS],
    is_read_only: bool,
    /// The stream that it is used on; nothing if there is nothing to wait for.
    pub(super) stream: Option<u64>,
    item: i64,
}

/// What counts of such an array.
pub(super) struct CudaSpec {
    typestr: String,
    ndim: usize,
    layout: char,
    is_read_only: bool,
    /// Nothing for an array without elements, which is nowhere.
    device_id: Option<u32>,
    is_aligned: bool,
    /// What was looked at last.
    last: Cell<Option<CudaArray>>,
}

impl CudaArray {
    /// What an array says of itself; nothing if it says nothing. `typestr` is compared with, if it is given.
    fn of<'py>(array: &Bound<'py, PyAny>, typestr: Option<&str>) -> PyResult<Option<(Self, Option<String>)>> {
        let py = array.py();
        let Some(interface) = array.getattr_opt(intern!(py, "__cuda_array_interface__"))? else {
            return Ok(None);
        };
        let Ok(interface) = interface.cast_into::<PyDict>() else { return Ok(None) };
        let item = |name: &Bound<'py, PyString>| -> PyResult<Option<Bound<'py, PyAny>>> {
            Ok(interface.get_item(name)?.filter(|value| !value.is_none()))
        };
        let needed = |value: Option<Bound<'py, PyAny>>, what: &str| {
            value.ok_or_else(|| {
                PyValueError::new_err(format!("`__cuda_array_interface__` does not say `{what}`"))
            })
        };
        if item(intern!(py, "mask"))?.is_some() {
            return Err(PyTypeError::new_err("an array with a mask: kernels would not see it"));
        }
        let text = needed(item(intern!(py, "typestr"))?, "typestr")?.cast_into::<PyString>()?;
        let text = text.to_str()?;
        if typestr.is_some_and(|known| known != text) {
            return Ok(None);
        }
        let width: i64 = text.get(2..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let data = needed(item(intern!(py, "data"))?, "data")?.cast_into::<PyTuple>()?;
        let shape = needed(item(intern!(py, "shape"))?, "shape")?.cast_into::<PyTuple>()?;
        let ndim = shape.len();
        if ndim > MOST_DIMENSIONS {
            return Err(PyValueError::new_err("an array of more dimensions than kernels know"));
        }
        let mut described = Self {
            object: array.as_ptr(),
            address: data.get_item(0)?.extract()?,
            ndim,
            sizes: [0; MOST_DIMENSIONS],
            strides: [0; MOST_DIMENSIONS],
            is_read_only: data.get_item(1)?.is_truthy()?,
            stream: item(intern!(py, "stream"))?.map(|stream| stream.extract()).transpose()?,
            item: width,
        };
        for (at, size) in shape.iter().enumerate() {
            described.sizes[at] = size.extract()?;
        }
        match item(intern!(py, "strides"))? {
            Some(strides) => {
                for (at, stride) in strides.cast_into::<PyTuple>()?.iter().enumerate().take(ndim) {
                    described.strides[at] = stride.extract()?;
                }
            }
            None => {
                let mut stride = width;
                for at in (0..ndim).rev() {
                    described.strides[at] = stride;
                    stride *= described.sizes[at].max(1);
                }
            }
        }
        Ok(Some((described, typestr.is_none().then(|| text.to_owned()))))
    }

    pub(super) fn size(&self, at: usize) -> Option<i64> {
        (at < self.ndim).then(|| self.sizes[at])
    }

    pub(super) fn stride(&self, at: usize) -> Option<i64> {
        (at < self.ndim).then(|| self.strides[at])
    }

    /// `C`, `F`, or `S` for any other strides.
    fn layout(&self) -> char {
        let fits = |at_step: &dyn Fn(usize) -> usize| {
            let mut expected = self.item;
            (0..self.ndim).map(at_step).all(|at| {
                let fits = self.sizes[at] == 1 || self.strides[at] == expected;
                expected *= self.sizes[at];
                fits
            })
        };
        if self.sizes[..self.ndim].contains(&0) || fits(&|step| self.ndim - 1 - step) {
            'C'
        } else if fits(&|step| step) {
            'F'
        } else {
            'S'
        }
    }

    /// Whether elements lie at multiples of their size.
    fn is_aligned(&self) -> bool {
        let is_multiple = |number: i64| self.item == 0 || number % self.item == 0;
        is_multiple(self.address as i64)
            && (0..self.ndim).all(|at| self.sizes[at] < 2 || is_multiple(self.strides[at]))
    }

    /// The device that it is on: nothing if it has no memory, and an error if the driver does not know.
    fn device(&self) -> Result<Option<u32>, keyprint_cuda::CudaError> {
        if self.address == 0 { Ok(None) } else { device::of_address(self.address).map(Some) }
    }
}

impl CudaSpec {
    /// Nothing if the array is not of this kind, or not on a device that the driver knows.
    pub(super) fn of(array: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some((described, Some(typestr))) = CudaArray::of(array, None)? else { return Ok(None) };
        let Ok(device_id) = described.device() else { return Ok(None) };
        Ok(Some(Self {
            typestr,
            ndim: described.ndim,
            layout: described.layout(),
            is_read_only: described.is_read_only,
            device_id,
            is_aligned: described.is_aligned(),
            last: Cell::new(Some(described)),
        }))
    }

    /// Whether an array is described by this.
    pub(super) fn fits(&self, array: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Some((described, _)) = CudaArray::of(array, Some(&self.typestr))? else { return Ok(false) };
        let fits = described.ndim == self.ndim
            && described.layout() == self.layout
            && described.is_read_only == self.is_read_only
            && described.is_aligned() == self.is_aligned
            && described.device().is_ok_and(|device| device == self.device_id);
        self.last.set(fits.then_some(described));
        Ok(fits)
    }

    /// What an array said of itself when it was looked at last.
    pub(super) fn described(&self, array: *mut ffi::PyObject) -> Option<CudaArray> {
        self.last.get().filter(|described| described.object == array)
    }

    /// The type of its elements by name, such as `float32`; as it is, if it has none.
    fn dtype(&self) -> String {
        let mut letters = self.typestr.chars();
        let (order, kind) = (letters.next(), letters.next());
        let bits: u32 = letters.as_str().parse::<u32>().unwrap_or(0) * 8;
        match (order, kind) {
            (Some('<' | '|' | '='), Some('f')) => format!("float{bits}"),
            (Some('<' | '|' | '='), Some('i')) => format!("int{bits}"),
            (Some('<' | '|' | '='), Some('u')) => format!("uint{bits}"),
            (_, Some('b')) => "bool".to_owned(),
            _ => self.typestr.clone(),
        }
    }
}

/// Data type, dimensions, layout, whether it may be written, the device, whether its elements are aligned.
type InterfaceText = (String, usize, char, bool, Option<u32>, bool);

/// Returns what an array on a CUDA device says of itself by the array interface; nothing if it says nothing, or if the
/// driver does not know where it is.
#[pyfunction]
#[pyo3(signature = (array, /))]
pub(crate) fn _cuda_array_spec(array: &Bound<'_, PyAny>) -> PyResult<Option<InterfaceText>> {
    Ok(CudaSpec::of(array)?.map(|spec| {
        (spec.dtype(), spec.ndim, spec.layout, !spec.is_read_only, spec.device_id, spec.is_aligned)
    }))
}
