//! Arrays in memory, whoever owns them: what an element is, how elements are laid out, which bytes count.
//!
//! Nothing here knows Python: whoever does fills in an [`Element`] and a [`Strided`] from NumPy's array interface,
//! a buffer or a DLPack tensor, and writes it into the stream of a fingerprint.
//!
//! ```
//! use keyprint_array::{Element, Strided};
//!
//! let numbers: [i32; 4] = [1, 2, 3, 4];
//! let element = Element::of_dlpack(0, 32, 1)?;
//! // The transpose of a matrix of two rows: the same memory, other strides.
//! let transposed = Strided::new(numbers.as_ptr().cast(), vec![2, 2], Some(vec![4, 8]), element);
//! assert_eq!(transposed.order(), "F");
//! // SAFETY: the array is alive, and four elements are all that is reached.
//! let bytes = unsafe { transposed.packed() };
//! assert_eq!(bytes, [1, 3, 2, 4].map(i32::to_le_bytes).concat());
//! # Ok::<(), keyprint_array::ElementError>(())
//! ```
//!
//! # Map
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`Element`], [`Descriptor`] | the type of an element, and which of its bytes count |
//! | [`Strided`] | elements in logical order, whatever their layout |
//! | [`dlpack`] | DLPack's structs, and what counts of a tensor |
//! | [`Alignment`] | whether an address is a multiple of something |

mod alignment;
pub mod dlpack;
mod element;
mod nan;
mod strided;

pub use alignment::Alignment;
pub use element::{Descriptor, Element, ElementError, MOST_NESTING};
pub use nan::make_nans_alike;
pub use strided::{Strided, row_major, write_spec};
