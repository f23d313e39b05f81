//! Sorting the children of an unordered composite by their encodings.
//!
//! Children are byte strings of any length that often begin alike (same tag, same class). Each is
//! sorted by the sixteen bytes after the prefix that all of them share, held as one integer; only
//! ties look at the bytes in the buffer.

use std::cmp::Ordering;

/// Scratch memory for sorting, reused from one composite to the next.
#[derive(Default)]
pub(crate) struct Sorter {
    entries: Vec<Entry>,
    sorted: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Entry {
    head: u128,
    start: usize,
    end: usize,
}

impl Sorter {
    /// Sorts the children of `bytes` that begin at `starts` and reach to its end.
    pub(crate) fn sort(&mut self, bytes: &mut [u8], first: usize, starts: &[usize]) {
        self.entries.clear();
        let ends = starts[1..].iter().copied().chain([bytes.len()]);
        self.entries.extend(starts.iter().zip(ends).map(|(&start, end)| Entry { head: 0, start, end }));
        let shared = shared_prefix(bytes, &self.entries);
        let mut in_order = true;
        let mut previous = 0;
        for entry in &mut self.entries {
            entry.head = head(&bytes[entry.start + shared..entry.end]);
            // Equal heads say nothing about the order of what follows them.
            in_order &= entry.head > previous || entry.start == first;
            previous = entry.head;
        }
        if in_order {
            return;
        }
        let source: &[u8] = bytes;
        self.entries.sort_unstable_by(|a, b| match a.head.cmp(&b.head) {
            Ordering::Equal => source[a.start..a.end].cmp(&source[b.start..b.end]),
            unequal => unequal,
        });
        self.sorted.clear();
        self.sorted.reserve(source.len() - first);
        for entry in &self.entries {
            self.sorted.extend_from_slice(&source[entry.start..entry.end]);
        }
        bytes[first..].copy_from_slice(&self.sorted);
    }
}

fn shared_prefix(bytes: &[u8], entries: &[Entry]) -> usize {
    let model = &bytes[entries[0].start..entries[0].end];
    let mut shared = model.len();
    for entry in &entries[1..] {
        let other = &bytes[entry.start..entry.end];
        shared = model[..shared].iter().zip(other).take_while(|(a, b)| a == b).count();
    }
    shared
}

/// The first sixteen bytes as a big-endian integer, so that integers order like the bytes.
///
/// A shorter child is padded with zeros; it can only tie with a longer one, never pass it, and
/// ties compare in full.
fn head(bytes: &[u8]) -> u128 {
    match bytes.first_chunk::<16>() {
        Some(chunk) => u128::from_be_bytes(*chunk),
        None => {
            let mut padded = [0u8; 16];
            padded[..bytes.len()].copy_from_slice(bytes);
            u128::from_be_bytes(padded)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_sorting_slices(mut children in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(0u8..3, 0..4),
                prop::collection::vec(any::<u8>(), 0..40),
                prop::collection::vec(0u8..2, 17..20),
            ], 2..40)
        ) {
            let mut bytes = vec![9, 9];
            let mut starts = Vec::new();
            for child in &children {
                starts.push(bytes.len());
                bytes.extend_from_slice(child);
            }
            Sorter::default().sort(&mut bytes, 2, &starts);
            children.sort();
            prop_assert_eq!(&bytes[2..], &children.concat()[..]);
        }
    }
}
