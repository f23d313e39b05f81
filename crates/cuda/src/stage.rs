//! Arrays of the host that a launch takes along: copied to the device before it, and back after it.
//!
//! Arrays may overlap, and what is one array on the host must be one on the device. So it is ranges of bytes that are
//! copied, and those that overlap are one.

use crate::device::Device;
use crate::error::CudaError;
use crate::memory::DeviceMemory;
use crate::stream::Stream;

/// What a launch uses of the memory of the host.
#[derive(Clone, Copy, Debug)]
pub struct HostRange {
    /// The slot that has the address of the first element.
    pub slot: usize,
    /// The first byte.
    pub low: usize,
    /// Behind the last one.
    pub high: usize,
    /// Whether it may be changed.
    pub writable: bool,
}

/// Ranges of the host that are on the device for a while.
pub struct Stage {
    device: &'static Device,
    parts: Vec<Part>,
}

struct Part {
    low: usize,
    high: usize,
    writable: bool,
    memory: DeviceMemory,
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
        ranges: &[HostRange],
        slots: &mut [u64],
    ) -> Result<Self, CudaError> {
        let mut stage = Self { device, parts: Vec::new() };
        for (low, high, writable) in merged(ranges) {
            let memory = DeviceMemory::new(device, high - low + ALIGNMENT, Stream::OWN)?;
            let part = Part { low, high, writable, memory };
            // SAFETY: as the caller promises, and there is room.
            unsafe { device.write(part.address(), low as *const u8, high - low)? };
            stage.parts.push(part);
        }
        for range in ranges {
            let part = stage.parts.iter().find(|part| part.low <= range.low && range.high <= part.high);
            let part = part.expect("every range is part of one");
            slots[range.slot] = slots[range.slot].wrapping_sub(part.low as u64).wrapping_add(part.address());
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
        for part in self.parts.iter().filter(|part| part.writable) {
            // SAFETY: as the caller promises.
            unsafe { self.device.read(part.low as *mut u8, part.address(), part.high - part.low)? };
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

/// Ranges that do not overlap, in order.
fn merged(ranges: &[HostRange]) -> Vec<(usize, usize, bool)> {
    let mut sorted: Vec<_> =
        ranges.iter().map(|range| (range.low, range.high.max(range.low), range.writable)).collect();
    sorted.sort_unstable();
    let mut all: Vec<(usize, usize, bool)> = Vec::new();
    for (low, high, writable) in sorted {
        match all.last_mut() {
            Some(last) if low < last.1 || (low, high) == (last.0, last.1) => {
                last.1 = last.1.max(high);
                last.2 |= writable;
            }
            _ => all.push((low, high, writable)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_is_one() {
        let range = |low, high, writable| HostRange { slot: 0, low, high, writable };
        let ranges = [
            range(100, 200, false),
            range(150, 250, true),
            range(250, 260, false),
            range(0, 10, false),
            range(5, 7, false),
            range(300, 300, true),
            range(300, 300, false),
        ];
        assert_eq!(merged(&ranges), [(0, 10, false), (100, 250, true), (250, 260, false), (300, 300, true)]);
    }
}
