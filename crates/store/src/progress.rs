//! Showing on a terminal that somebody else's build is being waited for.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Somebody else builds what this thread needs.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// What is being built.
    pub name: &'a str,
    /// Who builds it, if that is known.
    pub process: Option<u32>,
    /// For how long it has been waited for.
    pub since: Duration,
}

/// A line on the standard error stream, if that is a terminal, from the first half second on.
#[derive(Debug, Default)]
pub struct TerminalProgress {
    /// The second that is shown.
    shown: Option<u64>,
}

impl TerminalProgress {
    /// Updates the line.
    pub fn show(&mut self, waiting: &Waiting<'_>) {
        let second = waiting.since.as_secs();
        if waiting.since < Duration::from_millis(500)
            || self.shown == Some(second)
            || !io::stderr().is_terminal()
        {
            return;
        }
        self.shown = Some(second);
        let who = match waiting.process {
            Some(process) if process == std::process::id() => "another thread".to_owned(),
            Some(process) => format!("process {process}"),
            None => "another process".to_owned(),
        };
        let name = waiting.name;
        // In one piece: others write to the terminal too.
        let line = format!("\rkeyprint: waiting for {who} to build `{name}` ({second} s)\x1b[K");
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

impl Drop for TerminalProgress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
