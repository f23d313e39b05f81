//! Arrays of the host that a launch takes along: copied to the device before it, and back after it.
//!
//! Arrays may overlap, and what is one array on the host must be one on the device. So it is ranges of bytes that are
//! copied, and those that overlap are one.

use crate::device::Device;
use crate::error::CudaError;
use crate::memory::DeviceMemory;
use crate::stream::Stream;

/// An array of the host that a launch uses.
#[derive(Clone, Debug)]
pub struct HostArray {
    /// The slot that has the address of the first element.
    pub slot: usize,
    /// Where the first element is.
    pub first: usize,
    /// How many bytes an element has.
    pub item: usize,
    /// Sizes.
    pub sizes: Vec<i64>,
    /// Strides in bytes.
    pub strides: Vec<i64>,
    /// Whether the launch changes it.
    pub is_written: bool,
}

impl HostArray {
    /// The first byte, and behind the last.
    fn bounds(&self) -> (usize, usize) {
        if self.sizes.contains(&0) {
            return (self.first, self.first);
        }
        let (mut low, mut high) = (self.first as i64, self.first as i64 + self.item as i64);
        for (size, stride) in self.sizes.iter().zip(&self.strides) {
            // Strides may go either way.
            let reach = (size - 1) * stride;
            if reach < 0 {
                low += reach;
            } else {
                high += reach;
            }
        }
        (low as usize, high as usize)
    }

    /// Calls something with where pieces of it are, and how long they are: nothing between elements is touched.
    fn pieces(&self, visit: &mut impl FnMut(usize, usize)) {
        if self.sizes.contains(&0) {
            return;
        }
        // Dimensions that follow each other without a gap are one piece.
        let (mut piece, mut outer) = (self.item, self.sizes.len());
        while outer > 0 && (self.sizes[outer - 1] == 1 || self.strides[outer - 1] == piece as i64) {
            piece *= self.sizes[outer - 1] as usize;
            outer -= 1;
        }
        let count: i64 = self.sizes[..outer].iter().product();
        for number in 0..count {
            let (mut rest, mut at) = (number, self.first as i64);
            for (size, stride) in self.sizes[..outer].iter().zip(&self.strides).rev() {
                at += rest % size * stride;
                rest /= size;
            }
            visit(at as usize, piece);
        }
    }
}

/// Ranges of the host that are on the device for a while.
pub struct Stage {
    device: &'static Device,
    parts: Vec<Part>,
}

struct Part {
    low: usize,
    high: usize,
    memory: DeviceMemory,
    /// Arrays in it that the launch changes.
    written: Vec<HostArray>,
}

/// What lies at a multiple of this on the host does so on the device.
const ALIGNMENT: usize = 256;

impl Stage {
    /// Copies ranges to the device, and has the slots say where they are there.
    ///
    /// # Safety
    ///
    /// The ranges are memory of this process that nobody changes meanwhile.
    ///
    /// # Errors
    ///
    /// If there is no room on the device.
    pub unsafe fn new(
        device: &'static Device,
        arrays: &[HostArray],
        slots: &mut [u64],
    ) -> Result<Self, CudaError> {
        let mut stage = Self { device, parts: Vec::new() };
        for (low, high) in merged(arrays) {
            let memory = DeviceMemory::new(device, high - low + ALIGNMENT, Stream::OWN)?;
            let part = Part { low, high, memory, written: Vec::new() };
            // SAFETY: as the caller promises, and there is room.
            unsafe { device.write(part.address(), low as *const u8, high - low)? };
            stage.parts.push(part);
        }
        for array in arrays {
            let (low, high) = array.bounds();
            let part = stage.parts.iter_mut().find(|part| part.low <= low && high <= part.high);
            let part = part.expect("every array is part of one");
            slots[array.slot] = slots[array.slot].wrapping_sub(part.low as u64).wrapping_add(part.address());
            if array.is_written {
                part.written.push(array.clone());
            }
        }
        Ok(stage)
    }

    /// Waits for the launch, and copies back what may have changed.
    ///
    /// # Safety
    ///
    /// The ranges are still what they were.
    ///
    /// # Errors
    ///
    /// If the device failed.
    pub unsafe fn finish(self) -> Result<(), CudaError> {
        for part in self.parts.iter().filter(|part| !part.written.is_empty()) {
            let mut bytes = vec![0u8; part.high - part.low];
            // SAFETY: as many bytes were allocated; of those of the host, only elements of arrays are written.
            unsafe {
                self.device.read(bytes.as_mut_ptr(), part.address(), bytes.len())?;
                for array in &part.written {
                    array.pieces(&mut |at, length| {
                        std::ptr::copy_nonoverlapping(
                            bytes.as_ptr().add(at - part.low),
                            at as *mut u8,
                            length,
                        );
                    });
                }
            }
        }
        self.device.wait_for(Stream::OWN)
    }
}

impl Part {
    /// Where the first byte is on the device.
    fn address(&self) -> u64 {
        self.memory.address() + (self.low % ALIGNMENT) as u64
    }
}

/// Ranges of bytes that do not overlap, in order.
fn merged(arrays: &[HostArray]) -> Vec<(usize, usize)> {
    let mut sorted: Vec<_> = arrays.iter().map(HostArray::bounds).collect();
    sorted.sort_unstable();
    let mut all: Vec<(usize, usize)> = Vec::new();
    for (low, high) in sorted {
        match all.last_mut() {
            Some(last) if low < last.1 || (low, high) == *last => last.1 = last.1.max(high),
            _ => all.push((low, high)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(first: usize, sizes: &[i64], strides: &[i64]) -> HostArray {
        let (sizes, strides) = (sizes.to_vec(), strides.to_vec());
        HostArray { slot: 0, first, item: 4, sizes, strides, is_written: true }
    }

    #[test]
    fn what_overlaps_is_one() {
        let arrays = [
            array(100, &[25], &[4]),
            array(150, &[25], &[4]),
            array(250, &[2], &[4]),
            array(40, &[11], &[-4]),
            array(4, &[1], &[4]),
            array(300, &[0], &[4]),
            array(300, &[0], &[4]),
        ];
        assert_eq!(merged(&arrays), [(0, 44), (100, 250), (250, 258), (300, 300)]);
    }

    #[test]
    fn pieces_are_elements_and_nothing_else() {
        let all = |array: &HostArray| {
            let mut found = Vec::new();
            array.pieces(&mut |at, length| found.push((at, length)));
            found
        };
        assert_eq!(all(&array(8, &[2, 3], &[12, 4])), [(8, 24)]);
        assert_eq!(all(&array(8, &[2, 3], &[20, 4])), [(8, 12), (28, 12)]);
        assert_eq!(all(&array(8, &[2, 2], &[4, 8])), [(8, 4), (16, 4), (12, 4), (20, 4)]);
        assert_eq!(all(&array(8, &[2], &[-4])), [(8, 4), (4, 4)]);
        assert_eq!(all(&array(8, &[], &[])), [(8, 4)]);
        assert_eq!(all(&array(8, &[0, 3], &[12, 4])), []);
    }
}
