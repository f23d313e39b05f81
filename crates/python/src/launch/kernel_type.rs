//! The type of kernels, as CPython has it.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

use super::kernel::{Context, Entry, Kernel, KernelObject};
use super::pack::Start;

pub(super) unsafe extern "C" fn vectorcall(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls with the lock held; the count has a flag in its highest bit.
    let (py, count) = unsafe { (Python::assume_attached(), ffi::PyVectorcall_NARGS(count) as usize) };
    let kernel = Kernel { py, object: object.cast() };
    // SAFETY: Python passes what a vectorcall is.
    let result = catch_unwind(AssertUnwindSafe(|| unsafe {
        if keywords.is_null()
            && let Some(result) = kernel.call_again(arguments, count)?
        {
            return Ok(result);
        }
        kernel.call(arguments, count, keywords, Start::First)
    }));
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
            all.push(state.dispatcher.as_ptr());
            all.extend(state.target.iter().chain(&state.binder).map(Py::as_ptr));
            // What a call is using has more owners than the kernel: it is left alone.
            let last =
                |context: &Rc<Context>| state.last.as_ref().is_some_and(|last| Rc::ptr_eq(&last.0, context));
            let is_mine =
                |context: &&Rc<Context>| Rc::strong_count(context) == 1 + usize::from(last(context));
            for context in state.contexts.iter().filter(is_mine) {
                all.push(context.token.as_ptr());
                all.extend(context.guards.iter().map(Py::as_ptr));
                all.extend(context.target.iter().map(Py::as_ptr));
                all.extend(context.defaults.iter().flatten().map(Py::as_ptr));
                let Ok(entries) = context.entries.try_borrow() else { continue };
                let last =
                    |entry: &Rc<Entry>| state.last.as_ref().is_some_and(|last| Rc::ptr_eq(&last.1, entry));
                let is_mine = |entry: &&Rc<Entry>| Rc::strong_count(entry) == 1 + usize::from(last(entry));
                for entry in entries.iter().filter(is_mine) {
                    entry.owned(&mut all);
                }
            }
        }
        for reference in all {
            if !reference.is_null() {
                let status = visit(reference, argument);
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
                let dispatcher = std::mem::replace(&mut state.dispatcher, py.None());
                let contexts = (std::mem::take(&mut state.contexts), state.last.take());
                (contexts, state.target.take(), state.binder.take(), dispatcher)
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

pub(super) static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

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
    if let Some(kernel_type) = TYPE.get(py) {
        return Ok(kernel_type.bind(py).clone());
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
