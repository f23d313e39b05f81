//! Arrays of our own, handed out by DLPack.

use std::ffi::c_void;

use keyprint_lang::types::Scalar;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::own_array::NdArray;
use keyprint_array::dlpack::{DlTensor, Versioned};

/// DLPack's `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// What a tensor that was handed out keeps: the array, and strides in elements.
struct Handed {
    array: Py<NdArray>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

const CAPSULE: &std::ffi::CStr = c"dltensor";
const VERSIONED: &std::ffi::CStr = c"dltensor_versioned";

pub(crate) fn managed<'py>(
    array: &Bound<'py, NdArray>,
    is_versioned: bool,
) -> PyResult<Bound<'py, PyCapsule>> {
    let py = array.py();
    let inner = array.get();
    let code = match inner.scalar {
        Scalar::Bool => 6,
        Scalar::BF16 => 4,
        scalar if scalar.is_float() => 2,
        scalar if scalar.is_signed() => 0,
        _ => 1,
    };
    let size = inner.scalar.bytes() as isize;
    let handed = Box::into_raw(Box::new(Handed {
        array: array.clone().unbind(),
        shape: inner.shape.iter().map(|extent| *extent as i64).collect(),
        strides: inner.strides.iter().map(|stride| (*stride / size) as i64).collect(),
    }));
    // SAFETY: just made.
    let (shape, strides) = unsafe { ((*handed).shape.as_ptr(), (*handed).strides.as_ptr()) };
    let tensor = DlTensor {
        data: inner.data,
        device_type: if inner.device.is_some() { 2 } else { 1 },
        device_id: inner.device.map_or(0, |device| device.ordinal as i32),
        ndim: inner.shape.len() as i32,
        code,
        bits: inner.scalar.bits() as u8,
        lanes: 1,
        shape,
        strides,
        byte_offset: 0,
    };
    let context = handed.cast();
    // SAFETY: the capsule owns the tensor until a consumer renames it and calls the deleter itself.
    unsafe {
        let capsule = if is_versioned {
            let deleter: unsafe extern "C" fn(*mut Versioned) = delete_versioned;
            let versioned =
                Versioned { major: 1, minor: 0, context, deleter: Some(deleter), flags: 0, tensor };
            let versioned = Box::into_raw(Box::new(versioned));
            ffi::PyCapsule_New(versioned.cast(), VERSIONED.as_ptr(), Some(drop_capsule))
        } else {
            let deleter: unsafe extern "C" fn(*mut Managed) = delete;
            let managed = Box::into_raw(Box::new(Managed { tensor, context, deleter: Some(deleter) }));
            ffi::PyCapsule_New(managed.cast(), CAPSULE.as_ptr(), Some(drop_capsule))
        };
        Ok(Bound::from_owned_ptr_or_err(py, capsule)?.cast_into_unchecked())
    }
}

/// # Safety
///
/// `context` is that of a tensor of [`managed`], which is not used any more.
unsafe fn release_held(context: *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe {
        let handed = Box::from_raw(context.cast::<Handed>());
        let array = std::mem::ManuallyDrop::new(handed.array);
        // An interpreter that is about to end takes nothing back: then it stays.
        let _ = Python::try_attach(|py| std::mem::ManuallyDrop::into_inner(array).drop_ref(py));
    }
}

/// # Safety
///
/// `tensor` was made by [`managed`], and is not used any more. Any thread may call this.
unsafe extern "C" fn delete(tensor: *mut Managed) {
    // SAFETY: as the caller promises.
    unsafe { release_held(Box::from_raw(tensor).context) };
}

/// # Safety
///
/// As for [`delete`].
unsafe extern "C" fn delete_versioned(tensor: *mut Versioned) {
    // SAFETY: as the caller promises.
    unsafe { release_held(Box::from_raw(tensor).context) };
}

/// # Safety
///
/// `capsule` is one of [`managed`].
unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that was consumed has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, CAPSULE.as_ptr()) != 0 {
            delete(ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}
