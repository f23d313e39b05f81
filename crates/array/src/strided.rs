//! [`Strided`]: elements in logical order, whatever their layout in memory.
//!
//! Contiguous native elements are hashed where they are; others are gathered through a small buffer.

use keyprint_fingerprint::{ItemHasher, Stream, tag};

use crate::element::{Descriptor, Element};

/// Bytes hashed between two looks at whatever else there is to do.
const CHUNK: usize = 16 << 20;

/// Bytes gathered before they are hashed.
const GATHER: usize = 64 << 10;

/// A view of an array's memory.
#[derive(Debug)]
pub struct Strided {
    data: *const u8,
    shape: Vec<usize>,
    strides: Vec<isize>,
    element: Element,
}

impl Strided {
    /// Elements from `data` on; strides are in bytes, and those of a dense array if there are none.
    #[must_use]
    pub fn new(data: *const u8, shape: Vec<usize>, strides: Option<Vec<isize>>, element: Element) -> Self {
        let strides = strides
            .filter(|strides| strides.len() == shape.len())
            .unwrap_or_else(|| row_major(&shape, element.size()));
        Self { data, shape, strides, element }
    }

    /// What an element is.
    #[must_use]
    pub fn element(&self) -> &Element {
        &self.element
    }

    fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the strides are these, where they mean something.
    fn has_strides(&self, dense: impl Iterator<Item = isize>) -> bool {
        let dimensions = self.shape.iter().zip(&self.strides).zip(dense);
        dimensions.into_iter().all(|((length, stride), dense)| *length == 1 || *stride == dense)
    }

    /// Whether the elements lie one after the other, in logical order.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.count() == 0 || self.has_strides(row_major(&self.shape, self.element.size()).into_iter())
    }

    /// `C`, `F` or `strided`.
    #[must_use]
    pub fn order(&self) -> &'static str {
        if self.is_contiguous() {
            return "C";
        }
        let reversed: Vec<usize> = self.shape.iter().rev().copied().collect();
        let dense = row_major(&reversed, self.element.size()).into_iter().rev();
        if self.has_strides(dense) { "F" } else { "strided" }
    }

    /// Writes the array by content. `pause` is called now and then; an error of it ends the writing.
    ///
    /// # Errors
    ///
    /// What `pause` returns.
    ///
    /// # Safety
    ///
    /// Every place that shape and strides reach has a readable element.
    pub unsafe fn write<E>(
        &self,
        stream: &mut Stream,
        mut pause: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let mark = stream.begin(tag::ARRAY);
        self.element.descriptor().write(stream);
        stream.length(self.shape.len());
        for length in &self.shape {
            stream.length(*length);
        }
        let bytes = self.count() * self.element.packed_size();
        stream.length(bytes);
        if stream.mark() - mark + bytes <= tag::INLINE_LIMIT {
            // SAFETY: as the caller promises.
            return unsafe {
                self.each_run(&mut |run| {
                    stream.replay(run);
                    Ok(())
                })
            };
        }
        let mut hasher = ItemHasher::new();
        hasher.update(&stream.bytes()[mark..]);
        // SAFETY: as the caller promises.
        unsafe {
            self.each_run(&mut |run| {
                for chunk in run.chunks(CHUNK) {
                    hasher.update(chunk);
                    if run.len() > CHUNK {
                        pause()?;
                    }
                }
                if run.len() <= CHUNK { pause() } else { Ok(()) }
            })?;
        }
        stream.replace(mark, hasher.finish());
        Ok(())
    }

    /// Writes the array by specification.
    pub fn write_spec(&self, stream: &mut Stream) {
        write_spec(stream, self.element.descriptor(), self.shape.len(), self.order(), &[], None);
    }

    /// All bytes that count, in the canonical form.
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write).
    #[must_use]
    pub unsafe fn packed(&self) -> Vec<u8> {
        let mut packed = Vec::new();
        // SAFETY: as the caller promises.
        let done: Result<(), std::convert::Infallible> = unsafe {
            self.each_run(&mut |run| {
                packed.extend_from_slice(run);
                Ok(())
            })
        };
        match done {
            Ok(()) => packed,
            Err(never) => match never {},
        }
    }

    /// Hands out the elements' bytes in logical order, in runs.
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write).
    unsafe fn each_run<E>(&self, take: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let count = self.count();
        if count == 0 || self.element.packed_size() == 0 {
            return Ok(());
        }
        if self.element.is_plain() && self.is_contiguous() {
            // SAFETY: the array has `count` elements, one after the other, from `data` on.
            return take(unsafe { std::slice::from_raw_parts(self.data, count * self.element.size()) });
        }
        // Rows of the last axis are gathered element by element; the other axes are counted through.
        let (row, stride) = match (self.shape.last(), self.strides.last()) {
            (Some(row), Some(stride)) => (*row, *stride),
            _ => (1, 0),
        };
        let outer = self.shape.len().saturating_sub(1);
        let batch = (GATHER / self.element.packed_size().max(1)).max(1);
        let mut gathered = Vec::with_capacity(GATHER + self.element.packed_size());
        let mut index = vec![0usize; outer];
        let mut start = self.data;
        for _ in 0..count / row {
            let mut at = 0;
            while at < row {
                let many = batch.min(row - at);
                // SAFETY: the elements `at..at + many` of the row at `index`, which is in range.
                unsafe {
                    self.element.pack_many(start.offset(at as isize * stride), stride, many, &mut gathered)
                };
                at += many;
                if gathered.len() >= GATHER {
                    take(&gathered)?;
                    gathered.clear();
                }
            }
            for axis in (0..outer).rev() {
                index[axis] += 1;
                // The pointer may pass the end for a moment; it is only followed when in range.
                start = start.wrapping_offset(self.strides[axis]);
                if index[axis] < self.shape[axis] {
                    break;
                }
                start = start.wrapping_offset(-self.strides[axis] * self.shape[axis] as isize);
                index[axis] = 0;
            }
        }
        take(&gathered)
    }
}

/// Writes an array by specification.
pub fn write_spec(
    stream: &mut Stream,
    descriptor: &Descriptor,
    dims: usize,
    order: &str,
    element_shape: &[usize],
    needs_grad: Option<bool>,
) {
    let mark = stream.begin(tag::ARRAY_SPEC);
    descriptor.write(stream);
    stream.length(dims);
    stream.name(order);
    stream.length(element_shape.len());
    for length in element_shape {
        stream.length(*length);
    }
    match needs_grad {
        None => stream.none(),
        Some(answer) => stream.bool(answer),
    }
    stream.close(mark);
}

/// The strides of a dense array whose last dimension varies fastest.
#[must_use]
pub fn row_major(shape: &[usize], size: usize) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = size as isize;
    for (stride, length) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step = step.wrapping_mul(*length as isize);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn element(size: usize) -> Element {
        Element::of_kind('u', size, '=', "").unwrap().unwrap()
    }

    /// Every index of a shape, in logical order.
    fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
        shape.iter().fold(vec![Vec::new()], |all, length| {
            all.iter().flat_map(|index| (0..*length).map(|at| [&index[..], &[at]].concat())).collect()
        })
    }

    proptest! {
        /// The oracle: each element by its own index.
        #[test]
        fn elements_come_in_logical_order(
            shape in proptest::collection::vec(0usize..5, 0..4),
            strides in proptest::collection::vec(-12isize..13, 4),
            size in prop::sample::select(vec![1usize, 2, 3, 4, 8]),
        ) {
            let memory: Vec<u8> = (0..1024u32).map(|at| (at * 7 + at / 256) as u8).collect();
            let strides = strides[..shape.len()].to_vec();
            let element = if size == 3 { Element::of_kind('S', 3, '|', "").unwrap().unwrap() } else { element(size) };
            let view = Strided::new(memory[512..].as_ptr(), shape.clone(), Some(strides.clone()), element);
            let expected: Vec<u8> = indices(&shape)
                .iter()
                .flat_map(|index| {
                    let shift: isize = index.iter().zip(&strides).map(|(at, stride)| *at as isize * stride).sum();
                    let start = 512usize.checked_add_signed(shift).unwrap();
                    memory[start..start + size].to_vec()
                })
                .collect();
            // SAFETY: no index leads further than 3 * 4 * 12 bytes from the middle.
            prop_assert_eq!(unsafe { view.packed() }, expected);
        }
    }

    #[test]
    fn orders() {
        let memory = [0u8; 64];
        let order = |shape: &[usize], strides: &[isize]| {
            Strided::new(memory.as_ptr(), shape.to_vec(), Some(strides.to_vec()), element(4)).order()
        };
        assert_eq!(order(&[2, 3], &[12, 4]), "C");
        assert_eq!(order(&[2, 3], &[4, 8]), "F");
        assert_eq!(order(&[2, 3], &[24, 8]), "strided");
        assert_eq!(order(&[1, 3], &[999, 4]), "C");
        assert_eq!(order(&[0, 3], &[1, 1]), "C");
        assert_eq!(order(&[], &[]), "C");
    }

    #[test]
    fn one_content_has_one_fingerprint_whatever_the_layout() {
        let write = |view: &Strided| {
            let mut stream = Stream::new();
            // SAFETY: the views are of memory that is alive.
            let done: Result<(), ()> = unsafe { view.write(&mut stream, || Ok(())) };
            done.unwrap();
            stream.bytes().to_vec()
        };
        for side in [3usize, 300] {
            let rows: Vec<u32> = (0..(side * side) as u32).collect();
            let columns: Vec<u32> = (0..side * side).map(|at| rows[at % side * side + at / side]).collect();
            let step = 4 * side as isize;
            let dense = Strided::new(rows.as_ptr().cast(), vec![side, side], None, element(4));
            let turned =
                Strided::new(columns.as_ptr().cast(), vec![side, side], Some(vec![4, step]), element(4));
            let wrong = Strided::new(columns.as_ptr().cast(), vec![side, side], None, element(4));
            assert_eq!(write(&dense), write(&turned), "{side}");
            assert_ne!(write(&dense), write(&wrong), "{side}");
        }
    }

    #[test]
    fn writing_can_be_interrupted() {
        let numbers = vec![0u32; 1 << 20];
        let view = Strided::new(numbers.as_ptr().cast(), vec![1 << 19], Some(vec![8]), element(4));
        let mut stream = Stream::new();
        let mut pauses = 0;
        // SAFETY: every second of the numbers.
        let done = unsafe {
            view.write(&mut stream, || {
                pauses += 1;
                if pauses == 3 { Err("enough") } else { Ok(()) }
            })
        };
        assert_eq!((done, pauses), (Err("enough"), 3));
    }
}
