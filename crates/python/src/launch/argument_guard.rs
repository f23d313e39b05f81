//! [`ArgumentGuard`]: one look at the arguments of a call. An entry is for a call if every guard passes.

use std::cell::Cell;
use std::ffi::c_void;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::array::{ExchangeSpec, NumpySpec};
use super::cuda_interface::CudaSpec;
use super::equality::equal;
use super::spec::{CheckKind, GuardSpec, SourceKind};
use crate::guard::{Held, dict_version};
use crate::layout::{self, Attributes};
use crate::member::{self, Member};
use crate::ndarray::ndarray_type;
use crate::own_array::NdArray;
use crate::walk::plan::{assigned_version, type_version};

/// Where the object to look at comes from.
enum Source {
    /// An argument, by parameter.
    Argument(usize),
    /// A member of what an earlier guard looked at.
    Member { of: u32, is_slot: bool, member: Box<Member> },
    /// An item of a tuple that an earlier guard looked at.
    Item(u32, u32),
}

/// What it must be.
enum Check {
    /// An instance of this very class.
    Exact(Py<PyType>),
    /// An int of this class: 1 itself, another multiple, or neither.
    Divides(i64, Divisibility),
    /// Equal to a value of a builtin type.
    Equal(Py<PyAny>),
    /// The very object.
    Same(Held),
    /// A NumPy array.
    Numpy(NumpySpec),
    /// An array of our own, by its word.
    Own(*mut ffi::PyTypeObject, u64),
    /// A number that a scalar of a type can be made of: an int, a bool, and for floats a float.
    Number { float: bool },
    /// A tensor whose type offers a table of functions.
    Exchange(Box<(Py<PyType>, ExchangeSpec)>),
    /// An array on a CUDA device that describes itself.
    Cuda(Box<(Py<PyType>, CudaSpec)>),
    /// An instance of this very class, which is still defined as it was.
    Object(Py<PyType>, u32),
    /// The same, with this many attributes, slots aside: all of them were read.
    Whole(Py<PyType>, u32, usize),
    /// A tuple of this many items.
    Tuple(isize),
    /// The same, by another name.
    NamedTuple(Py<PyType>, isize),
    /// Not there.
    Absent,
    /// Whatever Python code says about it is what it said before.
    Signature { of: Py<PyAny>, expected: Py<PyAny> },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Divisibility {
    One,
    Multiple,
    Neither,
}

/// Small: a launch reads many of them, after a driver that has left nothing of them in the processor's caches.
pub(super) struct ArgumentGuard {
    source: Source,
    check: Check,
    /// Whether passing the guard may run Python code, after which nothing that was found is certain.
    pub(super) runs_python: bool,
    /// What a member was when it was last looked for in the dict of its owner.
    last: Cell<*mut ffi::PyObject>,
    /// When members of the object were looked for.
    seen: Box<Seen>,
}

/// When the members of an object were looked for.
struct Seen {
    /// Its dict, at the version at which all of them were last looked for.
    dict: Cell<DictState>,
    /// The same, while they are being looked for.
    next: Cell<DictState>,
}

/// A dict at one moment: its address and version.
type DictState = (*mut ffi::PyObject, u64);

const NO_DICT: DictState = (std::ptr::null_mut(), 0);

/// Whether a guard passes. An error is left where Python looks for it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Verdict {
    Pass,
    Fail,
    Raise,
}

impl From<bool> for Verdict {
    #[inline]
    fn from(passes: bool) -> Self {
        if passes { Self::Pass } else { Self::Fail }
    }
}

impl Verdict {
    #[cold]
    fn of(py: Python<'_>, outcome: PyResult<bool>) -> Self {
        match outcome {
            Ok(passes) => passes.into(),
            Err(error) => {
                error.restore(py);
                Self::Raise
            }
        }
    }
}

/// The divisibility of an int; nothing for one that does not fit into 64 bits.
fn divisibility(value: *mut ffi::PyObject, by: i64) -> Option<Divisibility> {
    let mut overflow = 0;
    // SAFETY: an int; nothing is raised for one.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(value, &raw mut overflow) };
    (overflow == 0).then_some(match value {
        1 => Divisibility::One,
        value if value % by == 0 => Divisibility::Multiple,
        _ => Divisibility::Neither,
    })
}

/// The attributes of the object whose members were read last: most objects have several.
struct Owner<'py> {
    at: usize,
    attributes: Attributes<'py, 'py>,
    /// Whether its dict is what it was when all members were looked for: then they are what they were.
    unchanged: bool,
}

impl<'py> Owner<'py> {
    const NOBODY: Self = Self { at: usize::MAX, attributes: Attributes::Empty, unchanged: false };

    fn new(at: usize, object: &Bound<'py, PyAny>, guard: &ArgumentGuard) -> Self {
        let attributes = layout::attributes(object);
        let now = match &attributes {
            Attributes::Dict(dict) => {
                // SAFETY: attributes are kept in a dict.
                let dict = unsafe { dict.cast_unchecked::<PyDict>() };
                dict_version(&dict).map_or(NO_DICT, |version| (dict.as_ptr(), version))
            }
            _ => NO_DICT,
        };
        let unchanged = now != NO_DICT && guard.seen.dict.get() == now;
        if !unchanged {
            guard.seen.dict.set(NO_DICT);
            guard.seen.next.set(now);
        }
        Self { at, attributes, unchanged }
    }
}

#[inline(always)]
fn is(known: &Py<PyType>, class: *mut ffi::PyTypeObject) -> bool {
    known.as_ptr().cast::<ffi::PyTypeObject>() == class
}

impl Source {
    /// Makes a source of its description, and returns what is there.
    fn new<'py>(
        py: Python<'py>,
        spec: &SourceKind,
        arguments: &Bound<'py, PyTuple>,
        values: &[Option<Bound<'py, PyAny>>],
    ) -> PyResult<(Self, Option<Bound<'py, PyAny>>)> {
        let earlier = |of: usize| -> PyResult<Bound<'py, PyAny>> {
            let value = values.get(of).cloned().flatten();
            value.ok_or_else(|| PyValueError::new_err("a guard looks at what is not there"))
        };
        Ok(match spec {
            SourceKind::Argument { at } => (Self::Argument(*at), Some(arguments.get_item(*at)?)),
            SourceKind::Item { of, at } => {
                (Self::Item(*of as u32, *at as u32), Some(earlier(*of)?.cast::<PyTuple>()?.get_item(*at)?))
            }
            SourceKind::Member { of, name } => {
                let owner = earlier(*of)?;
                let member = Member::new(&owner.get_type(), name.bind(py));
                let Ok(value) = member.read(&owner) else {
                    return Err(PyValueError::new_err("nobody knows where the member is"));
                };
                let value = value.map(|value| value.to_owned());
                let (of, is_slot) = (*of as u32, member.is_slot());
                (Self::Member { of, is_slot, member: Box::new(member) }, value)
            }
        })
    }
}

impl Check {
    /// Makes a check of its description, from an object that passes it.
    fn new(py: Python<'_>, spec: &CheckKind, value: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let value = match (spec, value) {
            (CheckKind::Absent, _) => return Ok(Self::Absent),
            (_, Some(value)) => value,
            (_, None) => return Err(PyValueError::new_err("a member is gone")),
        };
        Ok(match spec {
            CheckKind::Absent => Self::Absent,
            CheckKind::Exact => Self::Exact(value.get_type().unbind()),
            CheckKind::Divides { by } => {
                let known = divisibility(value.as_ptr(), *by);
                Self::Divides(*by, known.ok_or_else(|| PyValueError::new_err("an int too large"))?)
            }
            CheckKind::Equal => Self::Equal(value.clone().unbind()),
            CheckKind::Same => Self::Same(Held::of(value)),
            CheckKind::Tuple => {
                let tuple = value.cast::<PyTuple>()?;
                let length = tuple.len() as isize;
                match tuple.is_exact_instance_of::<PyTuple>() {
                    true => Self::Tuple(length),
                    false => Self::NamedTuple(tuple.get_type().unbind(), length),
                }
            }
            CheckKind::Numpy { multiple } => {
                if Some(value.get_type_ptr()) != ndarray_type(py) {
                    return Err(PyValueError::new_err("not a NumPy array any more"));
                }
                // SAFETY: the type was just checked.
                Self::Numpy(unsafe { NumpySpec::of(py, value.as_ptr(), *multiple) })
            }
            CheckKind::Own => {
                let array = value.cast::<NdArray>()?;
                Self::Own(array.get_type_ptr(), array.get().spec)
            }
            CheckKind::Number { is_float } => Self::Number { float: *is_float },
            CheckKind::Exchange { multiple } => {
                let spec = ExchangeSpec::of(value, *multiple)?;
                let spec = spec.ok_or_else(|| PyValueError::new_err("the type offers no table"))?;
                Self::Exchange(Box::new((value.get_type().unbind(), spec)))
            }
            CheckKind::Cuda => {
                let spec = CudaSpec::of(value)?;
                let spec = spec.ok_or_else(|| PyValueError::new_err("an array that is on no device"))?;
                Self::Cuda(Box::new((value.get_type().unbind(), spec)))
            }
            CheckKind::Object | CheckKind::Whole => {
                let class = value.get_type();
                match (assigned_version(&class), member::count(value), spec) {
                    (0, ..) => return Err(PyValueError::new_err("the class has no version")),
                    (version, _, CheckKind::Object) => Self::Object(class.unbind(), version),
                    (version, Some(count), _) => Self::Whole(class.unbind(), version, count),
                    (_, None, _) => return Err(PyValueError::new_err("nobody knows the attributes")),
                }
            }
            CheckKind::Signature { of, expected } => {
                Self::Signature { of: of.clone_ref(py), expected: expected.clone_ref(py) }
            }
        })
    }

    /// Whether an object of a class is what it must be: the less common checks.
    ///
    /// # Safety
    ///
    /// `found` is a live object.
    #[inline(never)]
    unsafe fn passes(
        &self,
        py: Python<'_>,
        class: *mut ffi::PyTypeObject,
        value: *mut ffi::PyObject,
    ) -> Verdict {
        match self {
            Self::Absent | Self::Exact(_) | Self::Numpy(_) | Self::Own(..) => Verdict::Fail,
            Self::Number { float } => {
                // Static types are compared.
                let is_int = class == &raw mut ffi::PyLong_Type || class == &raw mut ffi::PyBool_Type;
                (is_int || *float && class == &raw mut ffi::PyFloat_Type).into()
            }
            Self::Object(known, version) => {
                (is(known, class) && type_version(known.bind(py)) == *version).into()
            }
            Self::Whole(known, version, count) => {
                // SAFETY: a live object.
                let value = unsafe { Borrowed::from_ptr(py, value) };
                (is(known, class)
                    && type_version(known.bind(py)) == *version
                    && member::count(&value) == Some(*count))
                .into()
            }
            Self::Equal(known) => equal(known.as_ptr(), value).into(),
            Self::Same(known) => known.is(value).into(),
            Self::Tuple(length) => {
                // SAFETY: a static type is compared, and the length of an exact tuple is read.
                unsafe { class == &raw mut ffi::PyTuple_Type && ffi::PyTuple_GET_SIZE(value) == *length }
                    .into()
            }
            Self::NamedTuple(known, length) => {
                // SAFETY: the class is one of tuples.
                unsafe { is(known, class) && ffi::PyTuple_GET_SIZE(value) == *length }.into()
            }
            Self::Divides(by, known) => {
                (class == &raw mut ffi::PyLong_Type && divisibility(value, *by) == Some(*known)).into()
            }
            Self::Exchange(tensor) => {
                let (known, spec) = &**tensor;
                // SAFETY: a live object.
                let value = unsafe { Borrowed::from_ptr(py, value) };
                if !is(known, class) {
                    return Verdict::Fail;
                }
                Verdict::of(py, spec.fits(&value))
            }
            Self::Cuda(array) => {
                let (known, spec) = &**array;
                if !is(known, class) {
                    return Verdict::Fail;
                }
                // SAFETY: a live object; it is owned while Python code runs.
                let value = unsafe { Bound::from_borrowed_ptr(py, value) };
                Verdict::of(py, spec.fits(&value))
            }
            Self::Signature { of, expected } => {
                // SAFETY: a live object; it is owned while Python code runs.
                let value = unsafe { Bound::from_borrowed_ptr(py, value) };
                let same = of.bind(py).call1((value,)).and_then(|answer| answer.eq(expected));
                Verdict::of(py, same)
            }
        }
    }
}

impl ArgumentGuard {
    /// Makes a guard of its description, and takes from the arguments at hand what it compares with.
    /// `values` are what earlier guards looked at.
    pub(super) fn new<'py>(
        py: Python<'py>,
        spec: &GuardSpec,
        arguments: &Bound<'py, PyTuple>,
        values: &mut Vec<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<Self> {
        let (source, value) = Source::new(py, &spec.source.get().0, arguments, values)?;
        values.push(value.clone());
        let check = Check::new(py, &spec.check.get().0, value.as_ref())?;
        let runs_python = matches!(check, Check::Signature { .. } | Check::Exchange(..) | Check::Cuda(..));
        let seen = Box::new(Seen { dict: Cell::new(NO_DICT), next: Cell::new(NO_DICT) });
        Ok(Self { source, check, runs_python, last: Cell::new(std::ptr::null_mut()), seen })
    }

    /// The object to look at; null if it is not there.
    ///
    /// # Safety
    ///
    /// `arguments` are live objects, as many as parameters; `values` are what earlier guards found.
    #[inline(always)]
    unsafe fn find<'py>(
        &self,
        py: Python<'py>,
        arguments: &[*mut ffi::PyObject],
        values: &[*mut ffi::PyObject],
        guards: &[ArgumentGuard],
        owner: &mut Owner<'py>,
        searched: &mut bool,
    ) -> *mut ffi::PyObject {
        // Tests in the order of how common they are: faster than a table of jumps.
        if let Source::Argument(at) = &self.source {
            return arguments[*at];
        }
        if let Source::Member { of, is_slot, member } = &self.source {
            let at = *of as usize;
            if owner.at == at && owner.unchanged && !is_slot {
                return self.last.get();
            }
            // SAFETY: the owner passed a check that says it is an instance of the member's class, and no
            // Python code ran since it was looked at, or it is owned.
            unsafe {
                let object = Borrowed::from_ptr(py, values[at]);
                if owner.at != at {
                    *owner = Owner::new(at, &object, &guards[at]);
                    if owner.unchanged && !is_slot {
                        return self.last.get();
                    }
                }
                let value = match member.read_from(&object, &owner.attributes) {
                    Ok(Some(value)) => value.as_ptr(),
                    Ok(None) | Err(_) => std::ptr::null_mut(),
                };
                self.last.set(value);
                *searched = true;
                return value;
            }
        }
        match &self.source {
            // SAFETY: the owner passed a check that says it is a tuple with that many items.
            Source::Item(owner, at) => unsafe {
                ffi::PyTuple_GET_ITEM(values[*owner as usize], *at as isize)
            },
            Source::Argument(at) => values[*at],
            Source::Member { of, .. } => values[*of as usize],
        }
    }

    /// Whether the guard passes; `found` is what it looks at.
    ///
    /// # Safety
    ///
    /// `found` is null or a live object.
    #[inline(always)]
    pub(super) unsafe fn passes(&self, py: Python<'_>, value: *mut ffi::PyObject) -> Verdict {
        if value.is_null() {
            return matches!(self.check, Check::Absent).into();
        }
        // SAFETY: as the caller promises; the type is compared before an array is read.
        let class = unsafe { ffi::Py_TYPE(value) };
        if let Check::Numpy(spec) = &self.check {
            // SAFETY: as above.
            return unsafe { spec.fits(class, value) }.into();
        }
        if let Check::Own(known, spec) = &self.check {
            // SAFETY: as the caller promises; the type says what it is.
            return (class == *known && unsafe { own(py, value) }.spec == *spec).into();
        }
        if let Check::Exact(known) = &self.check {
            return is(known, class).into();
        }
        // SAFETY: as the caller promises.
        unsafe { self.check.passes(py, class, value) }
    }

    /// The objects that the guard owns, for the collector.
    pub(super) fn owned(&self) -> impl Iterator<Item = *mut ffi::PyObject> {
        let (first, second) = match &self.check {
            Check::Exact(class)
            | Check::Object(class, _)
            | Check::Whole(class, ..)
            | Check::NamedTuple(class, _) => (Some(class.as_ptr()), None),
            Check::Exchange(tensor) => (Some(tensor.0.as_ptr()), None),
            Check::Cuda(array) => (Some(array.0.as_ptr()), None),
            Check::Equal(value) => (Some(value.as_ptr()), None),
            Check::Same(held) => (Some(held.owned()), None),
            Check::Numpy(spec) => (Some(spec.held().as_ptr()), None),
            Check::Signature { of, expected } => (Some(of.as_ptr()), Some(expected.as_ptr())),
            Check::Divides(..) | Check::Tuple(_) | Check::Absent | Check::Own(..) | Check::Number { .. } => {
                (None, None)
            }
        };
        first.into_iter().chain(second)
    }

    /// Whether what passes is an exact int, bool or float, which turn into numbers without Python code.
    pub(super) fn is_plain_number(&self) -> bool {
        let class = match &self.check {
            Check::Exact(class) => class.as_ptr().cast::<ffi::PyTypeObject>(),
            // SAFETY: a live object.
            Check::Equal(value) => unsafe { ffi::Py_TYPE(value.as_ptr()) },
            Check::Divides(..) | Check::Number { .. } => &raw mut ffi::PyLong_Type,
            _ => return false,
        };
        class == &raw mut ffi::PyLong_Type
            || class == &raw mut ffi::PyBool_Type
            || class == &raw mut ffi::PyFloat_Type
    }

    /// The spec of a tensor that is read through its type's table.
    pub(super) fn exchange(&self) -> Option<&ExchangeSpec> {
        match &self.check {
            Check::Exchange(tensor) => Some(&tensor.1),
            _ => None,
        }
    }

    /// The spec of an array on a CUDA device that describes itself.
    pub(super) fn cuda(&self) -> Option<&CudaSpec> {
        match &self.check {
            Check::Cuda(array) => Some(&array.1),
            _ => None,
        }
    }

    /// Whether an array that is asked what it is still is what it was: others are what they are.
    ///
    /// # Safety
    ///
    /// `value` is a live object.
    pub(super) unsafe fn looks_again(&self, py: Python<'_>, value: *mut ffi::PyObject) -> PyResult<bool> {
        // SAFETY: as the caller promises; it is owned while it is asked.
        let value = unsafe { Bound::from_borrowed_ptr(py, value) };
        match &self.check {
            Check::Exchange(tensor) => tensor.1.fits(&value),
            Check::Cuda(array) => array.1.fits(&value),
            _ => Ok(true),
        }
    }

    /// Whether finding out calls methods of tensors, which only run Python code if a program has put it in their way.
    pub(super) fn calls_tensors(&self) -> bool {
        matches!(self.check, Check::Exchange(..))
    }

    /// Whether it looks at an argument itself.
    pub(super) fn is_argument(&self) -> bool {
        matches!(self.source, Source::Argument(_))
    }

    /// Which argument it looks at; nothing if it looks at what another guard found.
    pub(super) fn argument(&self) -> Option<usize> {
        match self.source {
            Source::Argument(at) => Some(at),
            _ => None,
        }
    }

    /// If it looks at a member that is not in a slot: the guard of the object, and in which table of names the member was
    /// found, in which place, if it lies among inline values. Nothing if it looks at something else than that or an
    /// argument.
    #[allow(clippy::type_complexity, reason = "read once, where fast paths are made")]
    pub(super) fn member(&self) -> Option<Option<(usize, Option<(*const c_void, usize)>)>> {
        match &self.source {
            Source::Argument(_) => Some(None),
            Source::Member { of, is_slot: false, member } => {
                Some(Some((*of as usize, member.inline_place())))
            }
            Source::Member { .. } | Source::Item(..) => None,
        }
    }

    /// What a member was when it was last looked for; null if it was not there.
    #[inline]
    pub(super) fn last(&self) -> *mut ffi::PyObject {
        self.last.get()
    }

    /// Whether all members of an object were looked for in this dict, as it is now.
    #[inline]
    pub(super) fn has_seen(&self, dict: Borrowed<'_, '_, PyAny>) -> bool {
        // SAFETY: attributes are kept in a dict.
        let dict = unsafe { dict.cast_unchecked::<PyDict>() };
        let version = dict_version(&dict);
        version.is_some_and(|version| self.seen.dict.get() == (dict.as_ptr(), version))
    }

    /// Where the first element of a tensor is, if it fits.
    ///
    /// # Safety
    ///
    /// `value` is null or a live object.
    #[inline]
    pub(super) unsafe fn tensor(&self, py: Python<'_>, value: *mut ffi::PyObject) -> PyResult<Option<u64>> {
        let Check::Exchange(tensor) = &self.check else { return Ok(None) };
        let (class, spec) = &**tensor;
        // SAFETY: as the caller promises; the class is the one that the table is of.
        unsafe {
            if value.is_null()
                || !is(class, ffi::Py_TYPE(value))
                || !spec.fits(&Borrowed::from_ptr(py, value))?
            {
                return Ok(None);
            }
        }
        Ok(spec.tensor(value).map(|tensor| tensor.first() as u64))
    }

    /// The class and the word of an array of our own.
    pub(super) fn own_spec(&self) -> Option<(*mut ffi::PyTypeObject, u64)> {
        match self.check {
            Check::Own(class, spec) => Some((class, spec)),
            _ => None,
        }
    }

    pub(super) fn is_own(&self) -> bool {
        matches!(self.check, Check::Own(..))
    }

    /// Whether it looks at an array of our own on a device.
    pub(super) fn is_own_on_device(&self) -> bool {
        matches!(self.check, Check::Own(_, spec) if NdArray::is_on_device(spec))
    }

    pub(super) fn is_numpy(&self) -> bool {
        matches!(self.check, Check::Numpy(_))
    }
}

/// An array of our own.
///
/// # Safety
///
/// `array` is a live instance of it.
#[inline(always)]
pub(super) unsafe fn own<'a>(py: Python<'a>, array: *mut ffi::PyObject) -> &'a NdArray {
    // SAFETY: as the caller promises: frozen, so it can be looked at while it lives.
    unsafe {
        let array: Borrowed<'_, 'a, NdArray> = Borrowed::from_ptr(py, array).cast_unchecked();
        &*std::ptr::from_ref(array.get())
    }
}

/// The same, of the guards that run no Python code: after the others have run theirs, this says what is so.
///
/// # Safety
///
/// As for [`pass`].
pub(super) unsafe fn pass_quietly(
    py: Python<'_>,
    guards: &[ArgumentGuard],
    arguments: &[*mut ffi::PyObject],
    values: &mut [*mut ffi::PyObject],
) -> bool {
    let mut owner = Owner::NOBODY;
    let mut searched = false;
    for (at, guard) in guards.iter().enumerate() {
        // SAFETY: as the caller promises; the guards before this one have passed, now or before.
        unsafe {
            let value = guard.find(py, arguments, values, guards, &mut owner, &mut searched);
            values[at] = value;
            if !guard.runs_python && guard.passes(py, value) != Verdict::Pass {
                return false;
            }
            if value.is_null() && guard.runs_python {
                return false;
            }
        }
    }
    true
}

/// Whether all guards pass. `values` receives what each looked at.
///
/// # Safety
///
/// `arguments` are live objects, as many as parameters; there are as many values as guards. If any guard
/// runs Python code, `kept` is given: what was found is owned by it, so that later guards can look at it.
#[inline]
pub(super) unsafe fn pass<'py>(
    py: Python<'py>,
    guards: &[ArgumentGuard],
    arguments: &[*mut ffi::PyObject],
    values: &mut [*mut ffi::PyObject],
    mut kept: Option<&mut Vec<Option<Bound<'py, PyAny>>>>,
) -> Verdict {
    let mut owner = Owner::NOBODY;
    // Whether members were searched for, and Python code ran.
    let (mut searched, mut ran) = (false, false);
    for (at, guard) in guards.iter().enumerate() {
        // SAFETY: as the caller promises; the guards before this one have passed.
        unsafe {
            let value = guard.find(py, arguments, values, guards, &mut owner, &mut searched);
            values[at] = value;
            if let Some(kept) = &mut kept {
                kept.push(Bound::from_borrowed_ptr_or_opt(py, value));
            }
            match guard.passes(py, value) {
                Verdict::Pass => {}
                verdict => return verdict,
            }
            if guard.runs_python {
                // Attributes that were found before may be elsewhere now.
                owner = Owner::NOBODY;
                ran = true;
            }
        }
    }
    if searched && !ran {
        // All members of all objects were found while nothing could change.
        for guard in guards.iter().filter(|guard| guard.seen.next.get() != NO_DICT) {
            guard.seen.dict.set(guard.seen.next.replace(NO_DICT));
        }
    }
    Verdict::Pass
}
