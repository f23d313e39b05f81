//! DLPack's structs, as far as they are read and handed out, and what counts of a tensor.

use std::ffi::c_void;

/// DLPack's `DLManagedTensorVersioned`, which says whether the memory can be written.
#[repr(C)]
#[allow(missing_docs)]
pub struct Versioned {
    pub major: u32,
    pub minor: u32,
    pub context: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    pub flags: u64,
    pub tensor: DlTensor,
}

impl Versioned {
    /// The flag of what may not be written.
    pub const READ_ONLY: u64 = 1;
}

/// DLPack's `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct DlTensor {
    pub data: *mut u8,
    pub device_type: i32,
    pub device_id: i32,
    pub ndim: i32,
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
    pub shape: *const i64,
    pub strides: *const i64,
    pub byte_offset: u64,
}

/// What counts of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// The kind of the elements' type, in DLPack's numbers.
    pub code: u8,
    /// Its width.
    pub bits: u8,
    /// How many numbers an element has.
    pub lanes: u16,
    /// How many dimensions there are.
    pub ndim: i32,
    /// `C`, `F`, or `S` for any other strides.
    pub layout: char,
    /// The kind of device, in DLPack's numbers.
    pub device_type: i32,
}

impl TensorSpec {
    /// The type of the elements by name, such as `float32`.
    #[must_use]
    pub fn dtype(&self) -> String {
        let Self { code, bits, lanes, .. } = self;
        let mut dtype = match code {
            0 => format!("int{bits}"),
            1 => format!("uint{bits}"),
            2 => format!("float{bits}"),
            4 => format!("bfloat{bits}"),
            5 => format!("complex{bits}"),
            6 => "bool".to_owned(),
            _ => format!("dlpack{code}_{bits}"),
        };
        if *lanes != 1 {
            dtype.push_str(&format!("x{lanes}"));
        }
        dtype
    }
}

impl DlTensor {
    /// A tensor of nothing, to be filled in.
    pub const EMPTY: Self = Self {
        data: std::ptr::null_mut(),
        device_type: 0,
        device_id: 0,
        ndim: 0,
        code: 0,
        bits: 0,
        lanes: 0,
        shape: std::ptr::null(),
        strides: std::ptr::null(),
        byte_offset: 0,
    };

    /// Where the first element is.
    #[must_use]
    #[inline]
    pub fn first(&self) -> *mut u8 {
        self.data.wrapping_add(self.byte_offset as usize)
    }

    /// The sizes of the dimensions.
    #[must_use]
    #[inline]
    pub fn sizes(&self) -> &[i64] {
        if self.ndim <= 0 || self.shape.is_null() {
            return &[];
        }
        // SAFETY: a tensor has as many sizes as dimensions.
        unsafe { std::slice::from_raw_parts(self.shape, self.ndim as usize) }
    }

    /// The size of a dimension.
    #[must_use]
    #[inline]
    pub fn size(&self, at: usize) -> Option<i64> {
        self.sizes().get(at).copied()
    }

    /// The stride of a dimension, in elements; a tensor without strides is laid out the usual way.
    #[must_use]
    #[inline]
    pub fn stride(&self, at: usize) -> Option<i64> {
        let sizes = self.sizes();
        if at >= sizes.len() {
            return None;
        }
        if self.strides.is_null() {
            return Some(sizes[at + 1..].iter().product());
        }
        // SAFETY: a tensor has as many strides as dimensions, unless it has none at all.
        Some(unsafe { *self.strides.add(at) })
    }

    /// The same, in bytes.
    #[must_use]
    pub fn stride_in_bytes(&self, at: usize) -> Option<i64> {
        let bits = i64::from(self.bits) * i64::from(self.lanes.max(1));
        self.stride(at).map(|stride| stride * (bits / 8).max(1))
    }

    /// `C`, `F`, or `S` for any other strides.
    #[inline]
    fn layout(&self) -> char {
        let sizes = self.sizes();
        if self.strides.is_null() || sizes.contains(&0) {
            return 'C';
        }
        if self.is_contiguous(sizes, (0..sizes.len()).rev()) {
            'C'
        } else if self.is_contiguous(sizes, 0..sizes.len()) {
            'F'
        } else {
            'S'
        }
    }

    /// Whether the elements follow each other, the dimensions in this order varying from the fastest on.
    #[inline]
    fn is_contiguous(&self, sizes: &[i64], mut order: impl Iterator<Item = usize>) -> bool {
        let mut expected = 1;
        order.all(|at| {
            let fits = sizes[at] == 1 || self.stride(at) == Some(expected);
            expected *= sizes[at];
            fits
        })
    }

    /// What counts of it.
    #[must_use]
    #[inline]
    pub fn spec(&self) -> TensorSpec {
        TensorSpec {
            code: self.code,
            bits: self.bits,
            lanes: self.lanes,
            ndim: self.ndim,
            layout: self.layout(),
            device_type: self.device_type,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(shape: &[i64], strides: Option<&[i64]>) -> DlTensor {
        let ndim = i32::try_from(shape.len()).unwrap();
        let strides = strides.map_or(std::ptr::null(), <[i64]>::as_ptr);
        DlTensor { code: 2, bits: 32, lanes: 1, ndim, shape: shape.as_ptr(), strides, ..DlTensor::EMPTY }
    }

    #[test]
    fn layouts() {
        for (shape, strides, layout) in [
            (&[2, 3][..], None, 'C'),
            (&[2, 3], Some(&[3, 1][..]), 'C'),
            (&[2, 3], Some(&[1, 2]), 'F'),
            (&[2, 3], Some(&[6, 2]), 'S'),
            (&[2, 3], Some(&[-3, 1]), 'S'),
            (&[2, 3], Some(&[0, 1]), 'S'),
            // The stride of a dimension of one means nothing, and neither do those of no elements.
            (&[2, 1, 3], Some(&[3, 77, 1]), 'C'),
            (&[0, 3], Some(&[99, 98]), 'C'),
            (&[], Some(&[]), 'C'),
        ] {
            assert_eq!(tensor(shape, strides).spec().layout, layout, "{shape:?} {strides:?}");
        }
    }

    #[test]
    fn sizes_and_strides() {
        let dense = tensor(&[4, 3, 2], None);
        assert_eq!([0, 1, 2].map(|at| dense.stride_in_bytes(at)), [Some(24), Some(8), Some(4)]);
        assert_eq!((dense.stride(3), dense.size(3), dense.size(1)), (None, None, Some(3)));
        let scalar = tensor(&[], None);
        assert_eq!((scalar.sizes(), scalar.stride(0)), (&[][..], None));
    }

    #[test]
    fn names_of_types() {
        let name = |code, bits, lanes| TensorSpec { code, bits, lanes, ..tensor(&[], None).spec() }.dtype();
        assert_eq!(name(0, 8, 1), "int8");
        assert_eq!(name(1, 64, 1), "uint64");
        assert_eq!(name(4, 16, 1), "bfloat16");
        assert_eq!(name(6, 8, 1), "bool");
        assert_eq!(name(2, 32, 4), "float32x4");
        assert_eq!(name(10, 8, 1), "dlpack10_8");
    }
}
