//! Positions as people count them.

use ruff_text_size::TextSize;

/// Where the lines of a text begin.
pub(crate) struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    /// Lines end as Python says: with `\n`, `\r\n` or `\r`.
    pub(crate) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(at, byte)| match byte {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        });
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at as u32 + 1));
        Self { starts: starts.collect() }
    }

    /// The number of the line that holds a position; the first is 1.
    pub(crate) fn at(&self, position: TextSize) -> u32 {
        self.starts.partition_point(|start| *start <= position.to_u32()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_line_counts_once() {
        let lines = Lines::of("a\nb\r\nc\rd");
        let numbers: Vec<u32> = [0, 1, 2, 3, 5, 7].map(|at| lines.at(TextSize::new(at))).to_vec();
        assert_eq!(numbers, [1, 1, 2, 2, 3, 4]);
    }
}
