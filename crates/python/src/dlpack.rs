//! DLPack's structs, as far as they are read and handed out here.

/// DLPack's `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DlTensor {
    pub(crate) data: *mut u8,
    pub(crate) device_type: i32,
    pub(crate) device_id: i32,
    pub(crate) ndim: i32,
    pub(crate) code: u8,
    pub(crate) bits: u8,
    pub(crate) lanes: u16,
    pub(crate) shape: *const i64,
    pub(crate) strides: *const i64,
    pub(crate) byte_offset: u64,
}
