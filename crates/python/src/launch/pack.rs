//! Arguments as words: what native code is called with.

use std::mem::MaybeUninit;

use keyprint_lang::types::Scalar;
use keyprint_runtime::output;
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyTuple};

use super::check::{Step, own, pass_quietly};
use super::lock::with_arrays;
use crate::dlpack::DlTensor;
use crate::interned::intern;
use crate::language::show_output;
use crate::ndarray;
use crate::own_array::number_bits;

/// More words than this are packed on the heap.
const INLINE: usize = 64;

/// One word.
enum Word {
    /// The address of the first element of a NumPy array.
    Address,
    /// The size of a dimension of one.
    Size(usize),
    /// The stride of a dimension of one, in bytes.
    Stride(usize),
    /// The address of the first element of a tensor.
    TensorAddress,
    /// The size of a dimension of one.
    TensorSize(usize),
    /// The stride of a dimension of one, in bytes.
    TensorStride(usize),
    /// The address of the first element of an array of our own.
    OwnAddress,
    /// The size of a dimension of one.
    OwnSize(usize),
    /// The stride of a dimension of one, in bytes.
    OwnStride(usize),
    /// A signed integer.
    Int,
    /// A double.
    Double,
    /// A single, in the lower half.
    Single,
    /// A number of another type; whole ones must fit.
    Scalar(Scalar),
}

/// What a native function returns besides its status.
enum Output {
    Nothing,
    One(Result),
    /// Several, put together by Python code.
    Many(Vec<Result>, Py<PyAny>),
    /// Which of these it is.
    Choice(Vec<Py<PyAny>>),
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

/// A word as a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Result {
    Int,
    Unsigned,
    Double,
    Bool,
}

impl Result {
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
    function: Function,
    words: Vec<(usize, Word)>,
    output: Output,
    /// Whether making the words may run Python code.
    runs_python: bool,
    /// Steps that found arrays in members, if other threads may run Python meanwhile: they are owned then. The
    /// arguments themselves are the caller's.
    held: Vec<usize>,
    /// What keeps the code in memory.
    keep: Py<PyAny>,
}

/// Takes words, and room for a result behind them; returns 0, or a status that is raised.
type Function = unsafe extern "C" fn(*mut u64) -> i32;

impl NativeCall {
    /// `words` are `(step, kind, dimension)`.
    pub(super) fn new(
        address: usize,
        words: &Bound<'_, PyAny>,
        output: &Bound<'_, PyAny>,
        keep: Py<PyAny>,
        unlocks: Option<Vec<usize>>,
        steps: &[Step],
    ) -> PyResult<Self> {
        if address == 0 {
            return Err(PyValueError::new_err("the address of a native function is not zero"));
        }
        let output = if output.is_none() {
            Output::Nothing
        } else if let Ok(kind) = output.extract::<String>() {
            Output::One(Result::of(&kind)?)
        } else if let Ok(all) = output.cast::<PyList>() {
            Output::Choice(all.iter().map(Bound::unbind).collect())
        } else {
            let (kinds, build): (Vec<String>, Py<PyAny>) = output.extract()?;
            Output::Many(kinds.iter().map(|kind| Result::of(kind)).collect::<PyResult<_>>()?, build)
        };
        let mut found = Vec::new();
        for word in words.try_iter()? {
            let (step, kind, at): (usize, String, usize) = word?.cast_into::<PyTuple>()?.extract()?;
            let is_numpy = steps.get(step).is_some_and(Step::is_numpy);
            let is_own = steps.get(step).is_some_and(Step::is_own);
            let is_tensor = steps.get(step).is_some_and(|step| step.exchange().is_some());
            let word = match &*kind {
                "address" if is_numpy => Word::Address,
                "size" if is_numpy => Word::Size(at),
                "stride" if is_numpy => Word::Stride(at),
                "address" if is_own => Word::OwnAddress,
                "size" if is_own => Word::OwnSize(at),
                "stride" if is_own => Word::OwnStride(at),
                "address" if is_tensor => Word::TensorAddress,
                "size" if is_tensor => Word::TensorSize(at),
                "stride" if is_tensor => Word::TensorStride(at),
                "address" | "size" | "stride" => {
                    return Err(PyTypeError::new_err(
                        "native code can be given the arrays of NumPy and of libraries whose types have \
                         DLPack's table of functions, and this is another\nhint: share its memory by `keyprint.asarray`",
                    ));
                }
                "i64" => Word::Int,
                "f64" => Word::Double,
                "f32" => Word::Single,
                kind => match Scalar::of_name(kind) {
                    Some(scalar) => Word::Scalar(scalar),
                    None => return Err(PyValueError::new_err(format!("no such word: `{kind}`"))),
                },
            };
            if step >= steps.len() {
                return Err(PyValueError::new_err("a word is made of a step that is not there"));
            }
            found.push((step, word));
        }
        // SAFETY: the caller says that a function of this type is at the address; whoever made it keeps
        // it there for as long as `keep` lives.
        let function = unsafe { std::mem::transmute::<usize, Function>(address) };
        let plain = |(step, word): &(usize, Word)| !word.is_number() || steps[*step].is_plain_number();
        let runs_python = !found.iter().all(plain);
        let is_address = |word: &Word| matches!(word, Word::Address | Word::OwnAddress | Word::TensorAddress);
        let in_members = found.iter().filter(|(step, word)| is_address(word) && !steps[*step].is_argument());
        let held = match unlocks {
            // What is used without being among the words, and what members hold.
            Some(others) if others.iter().all(|step| *step < steps.len()) => {
                others.into_iter().chain(in_members.map(|(step, _)| *step)).collect()
            }
            Some(_) => return Err(PyValueError::new_err("a step is held that is not there")),
            None => Vec::new(),
        };
        Ok(Self { function, words: found, output, runs_python, held, keep })
    }

    /// Packs what the steps found and calls the function; nothing if that is not so any more.
    ///
    /// # Safety
    ///
    /// `values` are what the entry's steps found in this call. If Python code may have run since, or may
    /// run while numbers are made of what is no plain number, `careful` is true.
    pub(super) unsafe fn call(
        &self,
        py: Python<'_>,
        steps: &[Step],
        arguments: &[*mut ffi::PyObject],
        values: &mut [*mut ffi::PyObject],
        careful: bool,
        start: Option<u64>,
    ) -> PyResult<Option<*mut ffi::PyObject>> {
        let mut inline = [const { MaybeUninit::<u64>::uninit() }; INLINE];
        let mut heap = Vec::new();
        let results = match &self.output {
            Output::Many(kinds, _) => kinds.len(),
            _ => 1,
        };
        let block: &mut [MaybeUninit<u64>] = if self.words.len() + results <= INLINE {
            &mut inline
        } else {
            heap.resize(self.words.len() + results, MaybeUninit::uninit());
            &mut heap
        };
        let mut kept = Vec::new();
        if careful || self.runs_python {
            // SAFETY: as the caller promises: what members hold is owned from the last look at them on.
            unsafe {
                let own = |one: &*mut ffi::PyObject| Bound::from_borrowed_ptr_or_opt(py, *one);
                let before: Vec<_> = values.iter().map(own).collect();
                for (place, (step, word)) in
                    self.words.iter().enumerate().filter(|(_, word)| word.1.is_number())
                {
                    block[place].write(word.pack(py, &steps[*step], values[*step])?);
                }
                if !pass_quietly(py, steps, arguments, values) {
                    return Ok(None);
                }
                kept.extend(values.iter().map(own));
                drop(before);
            }
        }
        for (place, (step, word)) in self.words.iter().enumerate() {
            block[place].write(match word {
                // The commonest. SAFETY: as the caller promises, and the step says that it is an array.
                Word::Address => unsafe { ndarray::head(values[*step]).data as u64 },
                // SAFETY: as above, of our own.
                Word::OwnAddress => unsafe { own(py, values[*step]).data as u64 },
                word if !kept.is_empty() && word.is_number() => continue,
                // SAFETY: as the caller promises.
                word => unsafe { word.pack(py, &steps[*step], values[*step])? },
            });
        }
        for at in 0..results {
            block[self.words.len() + at].write(0);
        }
        if let Some(start) = start {
            block[self.words.len()].write(start);
        }
        // While others run Python, members of objects may be rebound: what they held stays.
        let held: &[usize] = if kept.is_empty() { &self.held } else { &[] };
        let words = block.as_mut_ptr().cast();
        // SAFETY: the function takes this many words, as whoever made it said; the values are what the steps found.
        let status = unsafe { with_arrays(held, values, || (self.function)(words)) };
        // What stopped it comes before what it has printed.
        let error = (status != 0).then(|| self.error(py, status));
        if output::is_pending() {
            show_output(py)?;
        }
        if let Some(error) = error {
            return Err(error);
        }
        // SAFETY: written above, whatever the function did with it since.
        let result = |at: usize| unsafe { block[self.words.len() + at].assume_init() };
        Ok(Some(match &self.output {
            Output::Nothing => py.None().into_ptr(),
            Output::One(kind) => kind.read(py, result(0)),
            Output::Choice(all) => match usize::try_from(result(0)).ok().and_then(|at| all.get(at)) {
                Some(found) => found.clone_ref(py).into_ptr(),
                None => return Err(PyRuntimeError::new_err("the kernel chose what is not there")),
            },
            Output::Many(kinds, build) => {
                // SAFETY: each is a new reference.
                let own = |(at, kind): (usize, &Result)| unsafe {
                    Bound::from_owned_ptr(py, kind.read(py, result(at)))
                };
                let items: Vec<Bound<'_, PyAny>> = kinds.iter().enumerate().map(own).collect();
                build.call1(py, (PyTuple::new(py, items)?,))?.into_ptr()
            }
        }))
    }

    /// Where to begin, as whoever made the code knows it.
    pub(super) fn start(&self, py: Python<'_>, start: &Bound<'_, PyAny>) -> PyResult<u64> {
        let found = self.keep.bind(py).call_method1(intern!(py, "start_of"), (start,))?.extract::<u64>()?;
        match &self.output {
            Output::Choice(all) if (found as usize) < all.len() => Ok(found),
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
            Output::Choice(choices) => all.extend(choices.iter().map(Py::as_ptr)),
            Output::Many(_, build) => all.push(build.as_ptr()),
            Output::Nothing | Output::One(_) => {}
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

impl Word {
    /// Whether it is made of a number, which may run Python code.
    fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Double | Self::Single | Self::Scalar(_))
    }

    /// # Safety
    ///
    /// `value` is a live object that passed the step.
    unsafe fn pack(&self, py: Python<'_>, step: &Step, value: *mut ffi::PyObject) -> PyResult<u64> {
        match self {
            // SAFETY: the step says that this is an array.
            Self::Address | Self::Size(_) | Self::Stride(_) => unsafe {
                let head = ndarray::head(value);
                Ok(match self {
                    Self::Size(at) if *at < head.ndim as usize => *head.shape.add(*at) as u64,
                    Self::Stride(at) if *at < head.ndim as usize => *head.strides.add(*at) as u64,
                    Self::Address => head.data as u64,
                    _ => return Err(no_dimension()),
                })
            },
            Self::TensorAddress | Self::TensorSize(_) | Self::TensorStride(_) => {
                let spec = step.exchange().expect("checked when the call was made");
                // SAFETY: a live object.
                let value = unsafe { Borrowed::from_ptr(py, value) };
                let tensor = spec.fits(&value)?;
                let tensor: DlTensor = tensor.ok_or_else(|| PyRuntimeError::new_err("a tensor changed"))?;
                Ok(match self {
                    Self::TensorSize(at) => tensor.size(*at).ok_or_else(no_dimension)? as u64,
                    Self::TensorStride(at) => tensor.stride_in_bytes(*at).ok_or_else(no_dimension)? as u64,
                    _ => tensor.first() as u64,
                })
            }
            Self::OwnAddress | Self::OwnSize(_) | Self::OwnStride(_) => {
                // SAFETY: the step says that this is an array of our own.
                let array = unsafe { own(py, value) };
                Ok(match self {
                    Self::OwnSize(at) => array.size(*at).ok_or_else(no_dimension)? as u64,
                    Self::OwnStride(at) => array.stride(*at).ok_or_else(no_dimension)? as u64,
                    _ => array.data as u64,
                })
            }
            Self::Scalar(Scalar::F64) => double(py, value).map(f64::to_bits),
            Self::Scalar(Scalar::F32) => double(py, value).map(|found| u64::from((found as f32).to_bits())),
            Self::Scalar(scalar) => {
                // SAFETY: a live object.
                let value = unsafe { Borrowed::from_ptr(py, value) };
                number_bits(*scalar, &value)
            }
            Self::Int => {
                let mut overflow = 0;
                // SAFETY: an int or something that `__index__` turns into one; errors are looked at.
                let found = unsafe { ffi::PyLong_AsLongLongAndOverflow(value, &raw mut overflow) };
                if overflow != 0 {
                    return Err(PyOverflowError::new_err("an int does not fit into 64 bits"));
                }
                match PyErr::take(py) {
                    Some(error) if found == -1 => Err(error),
                    _ => Ok(found as u64),
                }
            }
            Self::Double => double(py, value).map(f64::to_bits),
            Self::Single => double(py, value).map(|found| u64::from((found as f32).to_bits())),
        }
    }
}

#[inline]
fn double(py: Python<'_>, value: *mut ffi::PyObject) -> PyResult<f64> {
    // SAFETY: a live object; errors are looked at.
    let found = unsafe { ffi::PyFloat_AsDouble(value) };
    if found == -1.0
        && let Some(error) = PyErr::take(py)
    {
        return Err(error);
    }
    Ok(found)
}

#[cold]
fn no_dimension() -> PyErr {
    PyValueError::new_err("an array has no such dimension")
}
