//! How far long work is, on a terminal.

use std::io::Write;
use std::time::{Duration, Instant};

/// A line on the standard error stream, if that is a terminal; gone when the work is done.
pub(crate) struct Progress<'a> {
    err: &'a mut dyn Write,
    is_terminal: bool,
    shown: Option<Instant>,
}

impl<'a> Progress<'a> {
    const EVERY: Duration = Duration::from_millis(100);

    pub(crate) fn new(err: &'a mut dyn Write, is_terminal: bool) -> Self {
        Self { err, is_terminal, shown: None }
    }

    /// Shows how far it is, now and then: `verifying 64 of 1000`; without an end, `removing 64`.
    pub(crate) fn show(&mut self, what: &str, at: u64, of: Option<u64>) {
        if !self.is_terminal || self.shown.is_some_and(|then| then.elapsed() < Self::EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        let of = of.map_or_else(String::new, |of| format!(" of {of}"));
        let _ = write!(self.err, "\r{what} {at}{of}\x1b[K");
        let _ = self.err.flush();
    }

    /// For work that says how far it is and how far it goes.
    pub(crate) fn showing(&mut self, what: &str) -> impl FnMut(usize, usize) {
        move |at, of| self.show(what, at as u64, Some(of as u64))
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(self.err, "\r\x1b[K");
        }
    }
}
