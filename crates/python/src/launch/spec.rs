//! How the Python half describes an entry: what recognises its arguments, and what native code is given.
//!
//! Descriptions are made by constructors with names, and hold plain values. What they stand for is made of them
//! when an entry is added, with the arguments at hand: [`ArgumentGuard`](super::argument_guard::ArgumentGuard)s and
//! a [`NativeCall`](super::pack::NativeCall).

use keyprint_lang::types::Scalar;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::cuda::DeviceProgram;

/// Where an object comes from that a guard looks at.
#[pyclass(frozen, name = "Source", module = "keyprint._native")]
pub(crate) struct SourceSpec(pub(super) SourceKind);

/// The ways to an object. Guards are named by their number among those of the entry.
pub(super) enum SourceKind {
    Argument { at: usize },
    Member { of: usize, name: Py<PyString> },
    Item { of: usize, at: usize },
}

#[pymethods]
impl SourceSpec {
    /// An argument, by the position of its parameter.
    #[staticmethod]
    #[pyo3(signature = (at, /))]
    fn argument(at: usize) -> Self {
        Self(SourceKind::Argument { at })
    }

    /// A member of what an earlier guard looked at.
    #[staticmethod]
    #[pyo3(signature = (of, name, /))]
    fn member(of: usize, name: Py<PyString>) -> Self {
        Self(SourceKind::Member { of, name })
    }

    /// An item of a tuple that an earlier guard looked at.
    #[staticmethod]
    #[pyo3(signature = (of, at, /))]
    fn item(of: usize, at: usize) -> Self {
        Self(SourceKind::Item { of, at })
    }
}

/// What an object must be. What it is compared with is taken from the arguments at hand.
#[pyclass(frozen, name = "Check", module = "keyprint._native")]
pub(crate) struct CheckSpec(pub(super) CheckKind);

pub(super) enum CheckKind {
    Absent,
    Exact,
    Divides { by: i64 },
    Equal,
    Same,
    Tuple,
    Numpy { multiple: u32 },
    Own,
    Number { is_float: bool },
    Exchange { multiple: u32 },
    Cuda,
    Object,
    Whole,
    Signature { of: Py<PyAny>, expected: Py<PyAny> },
}

#[pymethods]
impl CheckSpec {
    /// Not there.
    #[staticmethod]
    fn absent() -> Self {
        Self(CheckKind::Absent)
    }

    /// An instance of this very class.
    #[staticmethod]
    fn exact() -> Self {
        Self(CheckKind::Exact)
    }

    /// An int that is 1, another multiple of a number, or neither, as this one is.
    #[staticmethod]
    #[pyo3(signature = (by, /))]
    fn divides(by: i64) -> PyResult<Self> {
        if by < 1 {
            return Err(PyValueError::new_err("nothing is a multiple of what is not positive"));
        }
        Ok(Self(CheckKind::Divides { by }))
    }

    /// Equal to this value of a builtin type.
    #[staticmethod]
    fn equal() -> Self {
        Self(CheckKind::Equal)
    }

    /// The very object.
    #[staticmethod]
    fn same() -> Self {
        Self(CheckKind::Same)
    }

    /// A tuple of as many items, by the same name.
    #[staticmethod]
    fn tuple() -> Self {
        Self(CheckKind::Tuple)
    }

    /// A NumPy array like this one; with a multiple, one that lies at a multiple, or does not, as it does.
    #[staticmethod]
    #[pyo3(signature = (multiple, /))]
    fn numpy(multiple: u32) -> Self {
        Self(CheckKind::Numpy { multiple })
    }

    /// An array of our own like this one.
    #[staticmethod]
    fn own() -> Self {
        Self(CheckKind::Own)
    }

    /// A Python number that a scalar can be made of.
    #[staticmethod]
    #[pyo3(signature = (*, is_float))]
    fn number(is_float: bool) -> Self {
        Self(CheckKind::Number { is_float })
    }

    /// A tensor like this one, read through the table of functions that its type offers.
    #[staticmethod]
    #[pyo3(signature = (multiple, /))]
    fn exchange(multiple: u32) -> Self {
        Self(CheckKind::Exchange { multiple })
    }

    /// An array on a CUDA device like this one, which describes itself by the array interface.
    #[staticmethod]
    fn cuda() -> Self {
        Self(CheckKind::Cuda)
    }

    /// An instance of this very class, which is still defined as it was.
    #[staticmethod]
    fn object() -> Self {
        Self(CheckKind::Object)
    }

    /// The same, with as many attributes: all of them were read.
    #[staticmethod]
    fn whole() -> Self {
        Self(CheckKind::Whole)
    }

    /// Something of which a function says what it said of this.
    #[staticmethod]
    #[pyo3(signature = (of, expected, /))]
    fn signature(of: Py<PyAny>, expected: Py<PyAny>) -> Self {
        Self(CheckKind::Signature { of, expected })
    }
}

/// One look at the arguments of a call: where to, and what must be there.
#[pyclass(frozen, name = "ArgumentGuard", module = "keyprint._native")]
pub(crate) struct GuardSpec {
    pub(super) source: Py<SourceSpec>,
    pub(super) check: Py<CheckSpec>,
}

#[pymethods]
impl GuardSpec {
    #[new]
    #[pyo3(signature = (source, check, /))]
    fn new(source: Py<SourceSpec>, check: Py<CheckSpec>) -> Self {
        Self { source, check }
    }
}

/// One argument slot of native code: 64 bits that are made of what a guard looked at.
#[pyclass(frozen, name = "Slot", module = "keyprint._native")]
pub(crate) struct SlotSpec {
    pub(super) guard: usize,
    pub(super) kind: SlotKind,
}

#[derive(Clone, Copy)]
pub(super) enum SlotKind {
    Array(Property),
    Number(Scalar),
}

/// What native code is given of an array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    Address,
    Size(usize),
    Stride(usize),
}

#[pymethods]
impl SlotSpec {
    /// The address of the first element of an array.
    #[staticmethod]
    #[pyo3(signature = (guard, /))]
    fn address(guard: usize) -> Self {
        Self { guard, kind: SlotKind::Array(Property::Address) }
    }

    /// The size of a dimension of an array.
    #[staticmethod]
    #[pyo3(signature = (guard, dimension, /))]
    fn size(guard: usize, dimension: usize) -> Self {
        Self { guard, kind: SlotKind::Array(Property::Size(dimension)) }
    }

    /// The stride of a dimension of an array, in bytes.
    #[staticmethod]
    #[pyo3(signature = (guard, dimension, /))]
    fn stride(guard: usize, dimension: usize) -> Self {
        Self { guard, kind: SlotKind::Array(Property::Stride(dimension)) }
    }

    /// A number of a type.
    #[staticmethod]
    #[pyo3(signature = (guard, scalar, /))]
    fn number(guard: usize, scalar: &str) -> PyResult<Self> {
        match Scalar::of_name(scalar) {
            Some(scalar) => Ok(Self { guard, kind: SlotKind::Number(scalar) }),
            None => Err(PyValueError::new_err(format!("no such type of numbers: `{scalar}`"))),
        }
    }
}

/// What a native function returns besides its status.
#[pyclass(frozen, name = "Output", module = "keyprint._native")]
pub(crate) struct OutputSpec(pub(super) OutputKind);

pub(super) enum OutputKind {
    Nothing,
    One(ResultKind),
    /// Several, put together by Python code.
    Many(Vec<ResultKind>, Py<PyAny>),
    /// Which of these it is.
    Choice(Vec<Py<PyAny>>),
}

/// A slot as a result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultKind {
    Int,
    Unsigned,
    Double,
    Bool,
}

impl ResultKind {
    fn of(kind: &str) -> PyResult<Self> {
        Ok(match kind {
            "i64" => Self::Int,
            "u64" => Self::Unsigned,
            "f64" => Self::Double,
            "bool" => Self::Bool,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "a result is `i64`, `u64`, `f64` or `bool`, found `{kind}`"
                )));
            }
        })
    }
}

#[pymethods]
impl OutputSpec {
    /// Nothing.
    #[staticmethod]
    fn nothing() -> Self {
        Self(OutputKind::Nothing)
    }

    /// A number of a type.
    #[staticmethod]
    #[pyo3(signature = (kind, /))]
    fn one(kind: &str) -> PyResult<Self> {
        Ok(Self(OutputKind::One(ResultKind::of(kind)?)))
    }

    /// Several numbers, of which `build` makes what is returned.
    #[staticmethod]
    #[pyo3(signature = (kinds, build, /))]
    fn many(kinds: Vec<String>, build: Py<PyAny>) -> PyResult<Self> {
        let kinds = kinds.iter().map(|kind| ResultKind::of(kind)).collect::<PyResult<_>>()?;
        Ok(Self(OutputKind::Many(kinds, build)))
    }

    /// The one of these that the function says.
    #[staticmethod]
    #[pyo3(signature = (all, /))]
    fn choice(all: Vec<Py<PyAny>>) -> Self {
        Self(OutputKind::Choice(all))
    }
}

/// A native function, or a program of a device, and how it is called.
#[pyclass(frozen, name = "NativeCall", module = "keyprint._native")]
pub(crate) struct CallSpec {
    pub(super) address: usize,
    pub(super) program: Option<Py<DeviceProgram>>,
    pub(super) slots: Vec<Py<SlotSpec>>,
    pub(super) output: Py<OutputSpec>,
    pub(super) keep: Py<PyAny>,
    pub(super) held: Option<Vec<usize>>,
}

#[pymethods]
impl CallSpec {
    /// `keep` keeps the code in memory, and says what statuses mean. With `held`, other threads may run Python
    /// meanwhile: what these guards looked at is owned, as arrays in members are. With `program`, that is launched
    /// on its device, and there is no address.
    #[new]
    #[pyo3(signature = (address, slots, output, *, keep, held, program=None))]
    fn new(
        address: usize,
        slots: Vec<Py<SlotSpec>>,
        output: Py<OutputSpec>,
        keep: Py<PyAny>,
        held: Option<Vec<usize>>,
        program: Option<Py<DeviceProgram>>,
    ) -> PyResult<Self> {
        if address == 0 && program.is_none() {
            return Err(PyValueError::new_err("the address of a native function is not zero"));
        }
        Ok(Self { address, program, slots, output, keep, held })
    }
}
