//! The type of kernels, and what a call does.

use std::cell::{RefCell, UnsafeCell};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use super::bind::{INLINE, Parameters};
use super::check::{Step, Verdict, equal, pass, pass_quietly};
use super::pack::{NativeCall, Start};
use crate::guard::Guards;
use crate::interned::intern;

/// Steps of an entry that are found without a look at the heap.
const INLINE_STEPS: usize = 64;

/// Entries beyond this are found by the brain, by key.
const MOST_ENTRIES: usize = 64;

/// A kernel whose compiler changes what the kernel reads is compiled this often.
const COMPILES: usize = 4;

/// Worlds beyond this are made again when they come back.
const MOST_WORLDS: usize = 8;

/// An entry that does not fit the arguments it was made for is made again this often.
const ATTEMPTS: usize = 64;

/// A kernel as Python sees it.
#[repr(C)]
struct KernelObject {
    base: ffi::PyObject,
    vectorcall: Option<ffi::vectorcallfunc>,
    weak_references: *mut ffi::PyObject,
    attributes: *mut ffi::PyObject,
    state: *mut UnsafeCell<State>,
}

/// What a kernel knows. Touched only with the interpreter's lock held, and never across Python code.
struct State {
    /// The Python object that does everything but launching.
    brain: Py<PyAny>,
    parameters: Rc<Parameters>,
    /// Names of the keyword-only parameters.
    keywords: Option<Py<PyTuple>>,
    /// Asked at each call what to compile for.
    target: Option<Py<PyAny>>,
    /// Makes what an instance has of a kernel that is a method, if that is more than a method.
    binder: Option<Py<PyAny>>,
    /// Most recently used first.
    worlds: Vec<Rc<World>>,
    /// Those that calls are waiting for something new in, which may not be among the others any more.
    busy: Vec<Rc<World>>,
    launches: u64,
    /// Calls that found their entry since the brain was last asked.
    hits: u64,
}

/// Everything that a kernel depended on at some moment, arguments aside, and what was loaded for it.
///
/// A call uses one world from beginning to end, so that threads that see different targets do not get
/// each other's executables.
struct World {
    /// What the brain knows it by.
    context: Py<PyAny>,
    /// Whether everything is what it was then.
    guards: Vec<Py<Guards>>,
    /// What the target was.
    target: Option<Py<PyAny>>,
    /// The defaults were part of it.
    defaults: Vec<Option<Py<PyAny>>>,
    /// Most recently used first.
    entries: RefCell<Vec<Rc<Entry>>>,
}

/// An executable and what it is for.
struct Entry {
    steps: Vec<Step>,
    /// What methods depend on that arguments bring along.
    guards: Vec<Py<Guards>>,
    /// Whether finding out may run Python code.
    runs_python: bool,
    call: Call,
}

enum Call {
    Python(Py<PyAny>),
    Native(NativeCall),
}

impl Entry {
    /// Adds the objects that the entry owns.
    fn owned(&self, all: &mut Vec<*mut ffi::PyObject>) {
        all.extend(self.guards.iter().map(Py::as_ptr));
        self.steps.iter().for_each(|step| all.extend(step.owned()));
        match &self.call {
            Call::Python(callable) => all.push(callable.as_ptr()),
            Call::Native(call) => call.owned(all),
        }
    }

    /// What the loader made.
    fn executable(&self, py: Python<'_>) -> Py<PyAny> {
        match &self.call {
            Call::Python(callable) => callable.clone_ref(py),
            Call::Native(call) => call.made(py),
        }
    }
}

impl World {
    /// Whether everything is what it was.
    #[inline]
    fn is_now(&self, py: Python<'_>, target: Option<&Py<PyAny>>) -> PyResult<bool> {
        let same_target = match (&self.target, target) {
            (Some(known), Some(found)) => equal(known.as_ptr(), found.as_ptr()),
            (None, None) => true,
            _ => false,
        };
        if same_target { self.holds(py) } else { Ok(false) }
    }

    /// Whether everything but the target is what it was.
    #[inline]
    fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        for guard in &self.guards {
            if !guard.get().hold(py)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[inline]
    fn entry(&self, at: usize) -> Option<Rc<Entry>> {
        self.entries.borrow().get(at).map(Rc::clone)
    }

    /// Moves an entry to the front.
    #[cold]
    fn use_first(&self, at: usize, entry: &Rc<Entry>) {
        let mut entries = self.entries.borrow_mut();
        // Another call may have moved it meanwhile.
        if entries.get(at).is_some_and(|found| Rc::ptr_eq(found, entry)) {
            entries[..=at].rotate_right(1);
        }
    }
}

/// What a call asks for.
struct Request<'a, 'py> {
    /// One object for each parameter.
    arguments: &'a [*mut ffi::PyObject],
    parameters: &'a Parameters,
    start: Start<'a, 'py>,
}

/// Borrowed access to a kernel's state.
struct Kernel<'py> {
    py: Python<'py>,
    object: *mut KernelObject,
}

impl<'py> Kernel<'py> {
    /// Runs something on the state that runs no Python code.
    #[inline]
    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        // SAFETY: the object is alive for the call, and the interpreter's lock is held; `work` runs no
        // Python code, so nothing else gets here meanwhile.
        unsafe { work(&mut *(*(*self.object).state).get()) }
    }

    fn brain(&self) -> Bound<'py, PyAny> {
        self.with(|state| state.brain.clone_ref(self.py)).into_bound(self.py)
    }

    /// The world as it is now: one that was seen before, or a new one.
    #[inline]
    fn world(&self) -> PyResult<Rc<World>> {
        let py = self.py;
        for _ in 0..ATTEMPTS {
            let ask = self.with(|state| state.target.as_ref().map(|ask| ask.clone_ref(py)));
            let target = match ask {
                None => None,
                Some(ask) => Some(ask.call0(py)?),
            };
            let mut at = 0;
            while let Some(world) = self.with(|state| state.worlds.get(at).map(Rc::clone)) {
                if world.is_now(py, target.as_ref())? {
                    if at > 0 {
                        self.with(|state| {
                            // Another call may have moved it meanwhile.
                            if state.worlds.get(at).is_some_and(|found| Rc::ptr_eq(found, &world)) {
                                state.worlds[..=at].rotate_right(1);
                            }
                        });
                    }
                    return Ok(world);
                }
                at += 1;
            }
            self.with(|state| state.hits = 0);
            let context = self.brain().call_method1(intern!(py, "refresh"), (PyTuple::new(py, target)?,))?;
            // The brain has looked at the target, in ways that only Python code can.
            let world = self
                .with(|state| state.worlds.iter().find(|world| world.context.is(&context)).map(Rc::clone));
            if let Some(world) = world
                && world.holds(py)?
            {
                return Ok(world);
            }
        }
        Err(PyRuntimeError::new_err("what the kernel depends on keeps changing while it is looked at"))
    }

    /// Calls the kernel.
    ///
    /// # Safety
    ///
    /// The arguments are those of a vectorcall.
    unsafe fn call(
        &self,
        arguments: *const *mut ffi::PyObject,
        count: usize,
        keywords: *mut ffi::PyObject,
        start: Start<'_, 'py>,
    ) -> PyResult<*mut ffi::PyObject> {
        let parameters = self.with(|state| {
            state.launches += u64::from(!matches!(start, Start::Nowhere));
            Rc::clone(&state.parameters)
        });
        for _ in 0..COMPILES {
            let world = self.world()?;
            // SAFETY: as the caller promises.
            let found = unsafe { self.call_in(&world, &parameters, arguments, count, keywords, start)? };
            if let Some(result) = found {
                return Ok(result);
            }
        }
        Err(PyRuntimeError::new_err("what the kernel depends on changes whenever it is compiled"))
    }

    /// Calls the kernel in a world; nothing if the world turned into another meanwhile.
    ///
    /// # Safety
    ///
    /// The arguments are those of a vectorcall.
    #[inline]
    unsafe fn call_in(
        &self,
        world: &Rc<World>,
        parameters: &Parameters,
        arguments: *const *mut ffi::PyObject,
        count: usize,
        keywords: *mut ffi::PyObject,
        start: Start<'_, 'py>,
    ) -> PyResult<Option<*mut ffi::PyObject>> {
        let total = parameters.names.len();
        if keywords.is_null() && count == total && parameters.positional == total {
            // SAFETY: there are as many arguments as parameters, and the caller owns them for the call.
            let arguments = unsafe { std::slice::from_raw_parts(arguments, count) };
            // SAFETY: as above.
            return unsafe { self.launch(world, &Request { arguments, parameters, start }) };
        }
        let mut inline = [std::ptr::null_mut(); INLINE];
        let mut heap = Vec::new();
        let slots: &mut [*mut ffi::PyObject] = if total <= INLINE {
            &mut inline[..total]
        } else {
            heap.resize(total, std::ptr::null_mut());
            &mut heap
        };
        // SAFETY: as the caller promises.
        match unsafe { parameters.bind(arguments, count, keywords, &world.defaults, slots) } {
            // SAFETY: the caller owns what it passed, and the world the defaults.
            Ok(()) => unsafe { self.launch(world, &Request { arguments: slots, parameters, start }) },
            // SAFETY: as the caller promises.
            Err(_) => Err(unsafe { self.mismatch(arguments, count, keywords) }),
        }
    }

    /// Finds the entry for bound arguments and calls it.
    ///
    /// # Safety
    ///
    /// The arguments are live objects, one for each parameter.
    unsafe fn launch(
        &self,
        world: &Rc<World>,
        request: &Request<'_, 'py>,
    ) -> PyResult<Option<*mut ffi::PyObject>> {
        for attempt in 0..ATTEMPTS {
            let mut at = 0;
            while let Some(entry) = world.entry(at) {
                // SAFETY: as the caller promises.
                let found = unsafe { self.try_entry(world, &entry, at, request, attempt == 0)? };
                if found.is_some() {
                    return Ok(found);
                }
                at += 1;
            }
            // SAFETY: as the caller promises.
            let bound = PyTuple::new(
                self.py,
                request.arguments.iter().map(|one| unsafe { Bound::from_borrowed_ptr(self.py, *one) }),
            )?;
            self.with(|state| {
                state.hits = 0;
                state.busy.push(Rc::clone(world));
            });
            let made = self.brain().call_method1(intern!(self.py, "miss"), (&world.context, bound));
            self.with(|state| {
                if let Some(at) = state.busy.iter().rposition(|busy| Rc::ptr_eq(busy, world)) {
                    state.busy.swap_remove(at);
                }
            });
            if !made?.is_truthy()? {
                return Ok(None);
            }
        }
        Err(PyRuntimeError::new_err("the arguments of the kernel keep changing while they are looked at"))
    }

    /// Calls an entry if it is for these arguments.
    ///
    /// # Safety
    ///
    /// As for [`launch`](Self::launch).
    #[inline]
    unsafe fn try_entry(
        &self,
        world: &Rc<World>,
        entry: &Rc<Entry>,
        at: usize,
        request: &Request<'_, 'py>,
        is_hit: bool,
    ) -> PyResult<Option<*mut ffi::PyObject>> {
        let Request { arguments, parameters, start } = *request;
        let py = self.py;
        let steps = &entry.steps;
        let mut inline = [const { MaybeUninit::<*mut ffi::PyObject>::uninit() }; INLINE_STEPS];
        let mut heap = Vec::new();
        let values: &mut [MaybeUninit<*mut ffi::PyObject>] = if steps.len() <= INLINE_STEPS {
            &mut inline[..steps.len()]
        } else {
            heap.resize(steps.len(), MaybeUninit::uninit());
            &mut heap
        };
        // SAFETY: each step writes its own place before any other reads it.
        let values = unsafe { &mut *(std::ptr::from_mut(values) as *mut [*mut ffi::PyObject]) };
        let mut kept = Vec::new();
        let keep = entry.runs_python.then_some(&mut kept);
        // SAFETY: as the caller promises.
        match unsafe { pass(py, steps, arguments, values, keep) } {
            Verdict::Pass => {}
            Verdict::Fail => return Ok(None),
            Verdict::Raise => return Err(PyErr::fetch(py)),
        }
        for guard in &entry.guards {
            if !guard.get().hold(py)? {
                return Ok(None);
            }
        }
        if matches!(start, Start::Nowhere) {
            return Ok(Some(entry.executable(py).into_ptr()));
        }
        if is_hit {
            self.with(|state| state.hits += 1);
        }
        if at > 0 {
            world.use_first(at, entry);
        }
        match &entry.call {
            Call::Native(call) => {
                let start = match start {
                    Start::At(start) => {
                        let start = call.start(py, start)?;
                        // Finding out where to begin may have run Python code: what was found is looked for again.
                        // SAFETY: as the caller promises.
                        if !unsafe { pass_quietly(py, steps, arguments, values) } {
                            return Ok(None);
                        }
                        Some(start)
                    }
                    _ => None,
                };
                // SAFETY: as the caller promises.
                unsafe { call.call(py, steps, arguments, values, entry.runs_python, start) }
            }
            Call::Python(_) if matches!(start, Start::At(_)) => {
                Err(PyTypeError::new_err("the kernel is no native code: it always begins at the beginning"))
            }
            Call::Python(callable) => {
                let keywords = self.with(|state| state.keywords.as_ref().map(|names| names.clone_ref(py)));
                let names = keywords.as_ref().map_or(std::ptr::null_mut(), |names| names.as_ptr());
                // SAFETY: the keyword-only arguments are last, and `names` has their names.
                unsafe {
                    let result = ffi::PyObject_Vectorcall(
                        callable.as_ptr(),
                        arguments.as_ptr(),
                        parameters.positional,
                        names,
                    );
                    if result.is_null() { Err(PyErr::fetch(py)) } else { Ok(Some(result)) }
                }
            }
        }
    }

    /// The exception that Python raises for arguments that do not fit.
    ///
    /// # Safety
    ///
    /// The arguments are those of a vectorcall.
    unsafe fn mismatch(
        &self,
        arguments: *const *mut ffi::PyObject,
        count: usize,
        keywords: *mut ffi::PyObject,
    ) -> PyErr {
        let py = self.py;
        let raise = || -> PyResult<()> {
            // SAFETY: as the caller promises.
            let argument = |at: usize| unsafe { Bound::from_borrowed_ptr(py, *arguments.add(at)) };
            let positional = PyTuple::new(py, (0..count).map(argument))?;
            let named = PyDict::new(py);
            if !keywords.is_null() {
                // SAFETY: a tuple of names.
                let names =
                    unsafe { Bound::from_borrowed_ptr(py, keywords).cast_into_unchecked::<PyTuple>() };
                for (at, name) in names.iter().enumerate() {
                    named.set_item(name, argument(count + at))?;
                }
            }
            self.brain().call_method1(intern!(py, "mismatch"), (positional, named))?;
            Err(PyTypeError::new_err("the arguments do not fit the parameters"))
        };
        raise().err().unwrap_or_else(|| PyTypeError::new_err("the arguments do not fit the parameters"))
    }
}

unsafe extern "C" fn vectorcall(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls with the lock held; the count has a flag in its highest bit.
    let (py, count) = unsafe { (Python::assume_attached(), ffi::PyVectorcall_NARGS(count) as usize) };
    let kernel = Kernel { py, object: object.cast() };
    // SAFETY: Python passes what a vectorcall is.
    let result =
        catch_unwind(AssertUnwindSafe(|| unsafe { kernel.call(arguments, count, keywords, Start::First) }));
    match result {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => {
            error.restore(py);
            std::ptr::null_mut()
        }
        Err(_) => {
            PyRuntimeError::new_err("a launch failed in a way that it should not; this is a bug of Keyprint")
                .restore(py);
            std::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn descr_get(
    object: *mut ffi::PyObject,
    instance: *mut ffi::PyObject,
    _owner: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python passes live objects, or null for no instance.
    unsafe {
        if instance.is_null() || instance == ffi::Py_None() {
            ffi::Py_INCREF(object);
            return object;
        }
        let kernel = Kernel { py: Python::assume_attached(), object: object.cast() };
        let binder = kernel.with(|state| state.binder.as_ref().map(|binder| binder.clone_ref(kernel.py)));
        match binder {
            None => PyMethod_New(object, instance),
            Some(binder) => ffi::PyObject_CallFunctionObjArgs(
                binder.as_ptr(),
                object,
                instance,
                std::ptr::null_mut::<ffi::PyObject>(),
            ),
        }
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    let mut all: Vec<*mut ffi::PyObject> = Vec::new();
    // SAFETY: the collector passes a live kernel; nothing runs meanwhile.
    unsafe {
        let kernel = object.cast::<KernelObject>();
        all.push(ffi::Py_TYPE(object).cast());
        all.push((*kernel).attributes);
        if let Some(state) = (*kernel).state.as_ref() {
            let state = &*state.get();
            all.push(state.brain.as_ptr());
            all.extend(state.target.iter().chain(&state.binder).map(Py::as_ptr));
            // What a call is using has more owners than the kernel: it is left alone.
            for world in state.worlds.iter().filter(|world| Rc::strong_count(world) == 1) {
                all.push(world.context.as_ptr());
                all.extend(world.guards.iter().map(Py::as_ptr));
                all.extend(world.target.iter().map(Py::as_ptr));
                all.extend(world.defaults.iter().flatten().map(Py::as_ptr));
                let Ok(entries) = world.entries.try_borrow() else { continue };
                for entry in entries.iter().filter(|entry| Rc::strong_count(entry) == 1) {
                    entry.owned(&mut all);
                }
            }
        }
        for one in all {
            if !one.is_null() {
                let status = visit(one, argument);
                if status != 0 {
                    return status;
                }
            }
        }
    }
    0
}

unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the collector passes a live kernel that nothing refers to from outside. What is dropped
    // may run Python code, so it is dropped after the state has let go of it.
    unsafe {
        let kernel = object.cast::<KernelObject>();
        let attributes = std::mem::replace(&mut (*kernel).attributes, std::ptr::null_mut());
        ffi::Py_XDECREF(attributes);
        if let Some(state) = (*kernel).state.as_ref() {
            let py = Python::assume_attached();
            let dropped = {
                let state = &mut *state.get();
                let brain = std::mem::replace(&mut state.brain, py.None());
                (std::mem::take(&mut state.worlds), state.target.take(), state.binder.take(), brain)
            };
            drop(dropped);
        }
    }
    0
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: Python calls this once, when nothing refers to the kernel any more.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let kernel = object.cast::<KernelObject>();
        if !(*kernel).weak_references.is_null() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        clear(object);
        let state = std::mem::replace(&mut (*kernel).state, std::ptr::null_mut());
        if !state.is_null() {
            drop(Box::from_raw(state));
        }
        let class = ffi::Py_TYPE(object);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

unsafe extern "C" {
    fn PyMethod_New(function: *mut ffi::PyObject, instance: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyVectorcall_Call(
        callable: *mut ffi::PyObject,
        arguments: *mut ffi::PyObject,
        keywords: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

/// Makes the type of kernels, once, on top of a class that has the methods for people.
#[pyfunction]
#[pyo3(signature = (base, /))]
pub(crate) fn _kernel_type<'py>(base: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyType>> {
    const HAVE_VECTORCALL: c_uint = 1 << 11;
    const METHOD_DESCRIPTOR: c_uint = 1 << 17;
    const DISALLOW_INSTANTIATION: c_uint = 1 << 7;
    const READONLY: c_int = 1;
    const T_PYSSIZET: c_int = 19;

    let py = base.py();
    if let Some(found) = TYPE.get(py) {
        return Ok(found.bind(py).clone());
    }
    let member = |name: *const c_char, offset: usize| ffi::PyMemberDef {
        name,
        type_code: T_PYSSIZET,
        offset: offset as isize,
        flags: READONLY,
        doc: std::ptr::null(),
    };
    // The type refers to these for as long as it lives, which is for good.
    let members = Box::leak(Box::new([
        member(c"__vectorcalloffset__".as_ptr(), std::mem::offset_of!(KernelObject, vectorcall)),
        member(c"__weaklistoffset__".as_ptr(), std::mem::offset_of!(KernelObject, weak_references)),
        member(c"__dictoffset__".as_ptr(), std::mem::offset_of!(KernelObject, attributes)),
        ffi::PyMemberDef { name: std::ptr::null(), type_code: 0, offset: 0, flags: 0, doc: std::ptr::null() },
    ]));
    let attributes = ffi::PyGetSetDef {
        name: c"__dict__".as_ptr(),
        get: Some(ffi::PyObject_GenericGetDict),
        set: Some(ffi::PyObject_GenericSetDict),
        ..ffi::PyGetSetDef::default()
    };
    let computed = Box::leak(Box::new([attributes, ffi::PyGetSetDef::default()]));
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_clear, clear as *mut c_void),
        slot(ffi::Py_tp_call, PyVectorcall_Call as *mut c_void),
        slot(ffi::Py_tp_descr_get, descr_get as *mut c_void),
        slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getset, computed.as_mut_ptr().cast()),
        slot(0, std::ptr::null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"keyprint.Kernel".as_ptr(),
        basicsize: std::mem::size_of::<KernelObject>() as c_int,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as c_uint
            | ffi::Py_TPFLAGS_HAVE_GC as c_uint
            | HAVE_VECTORCALL
            | METHOD_DESCRIPTOR
            | DISALLOW_INSTANTIATION,
        slots: slots.as_mut_ptr(),
    };
    let bases = PyTuple::new(py, [base])?;
    // SAFETY: the spec describes the struct above; the base adds nothing to it.
    let class = unsafe {
        Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpecWithBases(&raw mut spec, bases.as_ptr()))?
            .cast_into::<PyType>()?
    };
    let _ = TYPE.set(py, class.unbind());
    Ok(TYPE.get(py).expect("just set").bind(py).clone())
}

/// The state of something that must be a kernel.
fn kernel<'py>(object: &Bound<'py, PyAny>) -> PyResult<Kernel<'py>> {
    let py = object.py();
    match TYPE.get(py) {
        Some(class) if object.get_type().is(class) => Ok(Kernel { py, object: object.as_ptr().cast() }),
        _ => Err(PyTypeError::new_err("expected a kernel")),
    }
}

/// Makes a kernel, for a function with these parameters, keyword-only ones last. `target` is asked at each
/// call, if there is one.
#[pyfunction]
#[pyo3(signature = (brain, names, by_position, positional, target, /))]
pub(crate) fn _make_kernel<'py>(
    brain: &Bound<'py, PyAny>,
    names: Vec<String>,
    by_position: usize,
    positional: usize,
    target: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = brain.py();
    let class = TYPE.get(py).ok_or_else(|| PyTypeError::new_err("the type of kernels is not made yet"))?;
    if by_position > positional || positional > names.len() {
        return Err(PyTypeError::new_err("more parameters by position than there are"));
    }
    let keywords = (positional < names.len())
        .then(|| PyTuple::new(py, names[positional..].iter().map(|name| PyString::intern(py, name))))
        .transpose()?;
    let names = names.iter().map(|name| PyString::intern(py, name).unbind()).collect();
    let state = State {
        brain: brain.clone().unbind(),
        parameters: Rc::new(Parameters { names, by_position, positional }),
        keywords: keywords.map(Bound::unbind),
        target,
        binder: None,
        worlds: Vec::new(),
        busy: Vec::new(),
        launches: 0,
        hits: 0,
    };
    // SAFETY: the generic allocator zeroes the object, which is a valid kernel without a state until the
    // fields are set.
    unsafe {
        let object = ffi::PyType_GenericAlloc(class.as_ptr().cast(), 0);
        let owned = Bound::from_owned_ptr_or_err(py, object)?;
        let object = object.cast::<KernelObject>();
        (*object).state = Box::into_raw(Box::new(UnsafeCell::new(state)));
        (*object).vectorcall = Some(vectorcall);
        Ok(owned)
    }
}

/// Tells a kernel what it depends on now. `context` is what [`_add_entry`] and the brain know it by;
/// `target` and `defaults` are tuples, empty where there is none.
#[pyfunction]
#[pyo3(signature = (object, context, guards, target, defaults, /))]
pub(crate) fn _add_world(
    object: &Bound<'_, PyAny>,
    context: Py<PyAny>,
    guards: Vec<Py<Guards>>,
    target: &Bound<'_, PyTuple>,
    defaults: Vec<Bound<'_, PyTuple>>,
) -> PyResult<()> {
    let kernel = kernel(object)?;
    if defaults.len() != kernel.with(|state| state.parameters.names.len()) {
        return Err(PyTypeError::new_err("a default, or none, for each parameter"));
    }
    if guards.is_empty() {
        return Err(PyTypeError::new_err("a world without guards would hold for ever"));
    }
    let target = target.get_item(0).ok().map(Bound::unbind);
    let defaults = defaults.iter().map(|one| one.get_item(0).ok().map(Bound::unbind)).collect();
    let dropped = kernel.with(|state| {
        // The same world, looked at anew: what was loaded for it is good.
        let at = state.worlds.iter().position(|world| world.context.is(&context));
        let known = at.map(|at| state.worlds.remove(at));
        let entries = known.as_ref().map_or_else(Vec::new, |known| known.entries.borrow().clone());
        let entries = RefCell::new(entries);
        state.worlds.insert(0, Rc::new(World { context, guards, target, defaults, entries }));
        (known, (state.worlds.len() > MOST_WORLDS).then(|| state.worlds.pop()))
    });
    drop(dropped);
    Ok(())
}

/// Adds an executable to a world, for calls whose arguments pass the steps that are made here from these
/// arguments. `executable` is a callable, or `(address, words, output, keep, unlocks)`.
#[pyfunction]
#[pyo3(signature = (object, context, arguments, steps, guards, executable, /))]
pub(crate) fn _add_entry(
    object: &Bound<'_, PyAny>,
    context: &Bound<'_, PyAny>,
    arguments: &Bound<'_, PyTuple>,
    steps: Vec<Bound<'_, PyTuple>>,
    guards: Vec<Py<Guards>>,
    executable: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let kernel = kernel(object)?;
    let mut values = Vec::new();
    let steps: Vec<Step> =
        steps.iter().map(|step| Step::new(step, arguments, &mut values)).collect::<PyResult<_>>()?;
    let call = match executable.cast::<PyTuple>() {
        Ok(native) => {
            type Native<'py> = (usize, Bound<'py, PyAny>, Bound<'py, PyAny>, Py<PyAny>, Option<Vec<usize>>);
            let (address, words, output, keep, unlocks): Native<'_> = native.extract()?;
            Call::Native(NativeCall::new(address, &words, &output, keep, unlocks, &steps)?)
        }
        Err(_) => Call::Python(executable.clone().unbind()),
    };
    let runs_python = steps.iter().any(|step| step.runs_python) || !guards.is_empty();
    let entry = Rc::new(Entry { steps, guards, runs_python, call });
    let dropped = kernel.with(|state| {
        // A world that was dropped meanwhile is not needed any more, or will come back.
        let mut all = state.worlds.iter().chain(&state.busy);
        let world = all.find(|world| world.context.is(context))?;
        let mut entries = world.entries.borrow_mut();
        entries.insert(0, entry);
        if entries.len() > MOST_ENTRIES { entries.pop() } else { None }
    });
    drop(dropped);
    Ok(())
}

/// Whether a kernel has a world that still is as it was, its target aside.
#[pyfunction]
#[pyo3(signature = (object, context, /))]
pub(crate) fn _has_world(object: &Bound<'_, PyAny>, context: &Bound<'_, PyAny>) -> PyResult<bool> {
    let find = |state: &mut State| state.worlds.iter().find(|world| world.context.is(context)).map(Rc::clone);
    kernel(object)?.with(find).map_or(Ok(false), |world| world.holds(object.py()))
}

/// Arguments as a vectorcall has them: the objects, how many are by position, and the names of the others.
fn as_vectorcall<'py>(
    arguments: &Bound<'py, PyTuple>,
    named: &Bound<'py, PyDict>,
) -> PyResult<(Vec<Bound<'py, PyAny>>, Bound<'py, PyTuple>)> {
    let mut all: Vec<_> = arguments.iter().collect();
    all.extend(named.values());
    Ok((all, PyTuple::new(arguments.py(), named.keys())?))
}

fn call_from<'py>(
    object: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
    named: &Bound<'py, PyDict>,
    start: Start<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let kernel = kernel(object)?;
    let (all, names) = as_vectorcall(arguments, named)?;
    let pointers: Vec<*mut ffi::PyObject> = all.iter().map(Bound::as_ptr).collect();
    let keywords = if names.is_empty() { std::ptr::null_mut() } else { names.as_ptr() };
    // SAFETY: the arguments are owned here for the call, and laid out as those of a vectorcall.
    unsafe {
        let found = kernel.call(pointers.as_ptr(), arguments.len(), keywords, start)?;
        Ok(Bound::from_owned_ptr(object.py(), found))
    }
}

/// Calls a kernel, beginning somewhere else: `start` is asked of what the loader made.
#[pyfunction]
#[pyo3(signature = (object, start, arguments, named, /))]
pub(crate) fn _resume<'py>(
    object: &Bound<'py, PyAny>,
    start: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
    named: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    call_from(object, arguments, named, Start::At(start))
}

/// What the loader made for arguments; it is compiled if it must be, and not run.
#[pyfunction]
#[pyo3(signature = (object, arguments, named, /))]
pub(crate) fn _find_executable<'py>(
    object: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
    named: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let kernel = kernel(object)?;
    let last = kernel.with(|state| state.worlds.first().map(|world| (Rc::clone(world), world.entry(0))));
    let found = call_from(object, arguments, named, Start::Nowhere)?;
    // What was launched last stays the last one.
    if let Some((world, Some(entry))) = last {
        kernel.with(|state| {
            if let Some(at) = state.worlds.iter().position(|one| Rc::ptr_eq(one, &world)) {
                state.worlds[..=at].rotate_right(1);
            }
        });
        let at = world.entries.borrow().iter().position(|one| Rc::ptr_eq(one, &entry));
        if let Some(at) = at {
            world.use_first(at, &entry);
        }
    }
    Ok(found)
}

/// What the loader made for the last call; nothing if there was none.
#[pyfunction]
#[pyo3(signature = (object, /))]
pub(crate) fn _last_executable(object: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let found = kernel(object)?.with(|state| {
        let world = if state.launches > 0 { state.worlds.first() } else { None };
        world.and_then(|world| world.entry(0))
    });
    Ok(found.map(|entry| entry.executable(object.py())))
}

/// Says what instances have of a kernel that is a method: what `binder(kernel, instance)` returns.
#[pyfunction]
#[pyo3(signature = (object, binder, /))]
pub(crate) fn _set_binder(object: &Bound<'_, PyAny>, binder: Py<PyAny>) -> PyResult<()> {
    let before = kernel(object)?.with(|state| state.binder.replace(binder));
    drop(before);
    Ok(())
}

/// Forgets everything that a kernel was told.
#[pyfunction]
#[pyo3(signature = (object, /))]
pub(crate) fn _forget_worlds(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let dropped = kernel(object)?.with(|state| std::mem::take(&mut state.worlds));
    drop(dropped);
    Ok(())
}

/// Calls, calls that found their entry since the brain was last asked, and entries.
#[pyfunction]
#[pyo3(signature = (object, /))]
pub(crate) fn _kernel_stats(object: &Bound<'_, PyAny>) -> PyResult<(u64, u64, usize)> {
    let entries = |state: &State| state.worlds.iter().map(|world| world.entries.borrow().len()).sum();
    Ok(kernel(object)?.with(|state| (state.launches, state.hits, entries(state))))
}
