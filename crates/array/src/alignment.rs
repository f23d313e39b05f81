//! [`Alignment`]: whether an address is a multiple of something.

/// Whether the address of the first element is a multiple of something, if that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    multiple: u32,
    aligned: bool,
}

impl Alignment {
    /// How an address is aligned; a multiple of 0 does not count.
    #[must_use]
    pub fn of(data: *const u8, multiple: u32) -> Self {
        Self { multiple, aligned: multiple != 0 && (data as usize).is_multiple_of(multiple as usize) }
    }

    /// Whether another address is aligned alike.
    #[inline]
    #[must_use]
    pub fn holds(self, data: *const u8) -> bool {
        self.multiple == 0 || Self::of(data, self.multiple) == self
    }

    /// Whether the address was a multiple.
    #[must_use]
    pub fn is_aligned(self) -> bool {
        self.aligned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignment_counts_only_if_asked_for() {
        let at = |address: usize| std::ptr::without_provenance::<u8>(address);
        let aligned = Alignment::of(at(64), 16);
        assert!(aligned.is_aligned() && aligned.holds(at(128)) && !aligned.holds(at(65)));
        let odd = Alignment::of(at(65), 16);
        assert!(!odd.is_aligned() && odd.holds(at(66)) && !odd.holds(at(64)));
        assert!(Alignment::of(at(65), 0).holds(at(64)));
    }
}
