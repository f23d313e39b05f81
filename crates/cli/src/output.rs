//! Results: tables and text for people, JSON for programs.

use std::fmt::Write as _;
use std::io::{self, Write};

use clap::ValueEnum;
use keyprint_store::Skipped;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::humanize::{clean, shown};

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How a piece of text is to look.
#[derive(Clone, Copy)]
pub(crate) enum Look {
    Heading,
    Key,
    Good,
    Bad,
    Faint,
}

/// What is collected before it is passed on.
const AT_ONCE: usize = 64 << 10;

/// Collects what a command has to say, and passes it on now and then.
pub(crate) struct Output<'a> {
    to: &'a mut dyn Write,
    text: Vec<u8>,
    failed: Option<io::Error>,
    json: bool,
    colour: bool,
}

impl<'a> Output<'a> {
    pub(crate) fn new(to: &'a mut dyn Write, is_terminal: bool, json: bool, color: Color) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = match color {
            Color::Auto => is_terminal && !plain,
            Color::Always => true,
            Color::Never => false,
        };
        Self { to, text: Vec::new(), failed: None, json, colour: colour && !json }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Text as it is to look here.
    pub(crate) fn look(&self, look: Look, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match look {
            Look::Heading => "1",
            Look::Key => "36",
            Look::Good => "32",
            Look::Bad => "31",
            Look::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.raw(text.as_ref().trim_end().as_bytes());
        self.raw(b"\n");
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        if self.text.len() >= AT_ONCE {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        if self.failed.is_none() {
            self.failed = self.to.write_all(&self.text).err();
        }
        self.text.clear();
    }

    /// Whether nobody takes any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.failed.is_some()
    }

    /// One item of a JSON array after the other, without keeping them.
    pub(crate) fn item(&mut self, at: usize, value: &impl Serialize) {
        let text = serde_json::to_string_pretty(value).expect("results can be written as JSON");
        self.raw(if at == 0 { b"[\n" } else { b",\n" });
        for (number, line) in text.lines().enumerate() {
            self.raw(if number == 0 { b"  " } else { b"\n  " });
            self.raw(line.as_bytes());
        }
    }

    /// Ends an array of so many items.
    pub(crate) fn end_items(&mut self, count: usize) {
        self.raw(if count == 0 { b"[]\n" } else { b"\n]\n" });
    }

    /// Says what was passed over, and why.
    pub(crate) fn skipped(&mut self, skipped: &Skipped) {
        for (path, why) in &skipped.first {
            let text = self.look(Look::Bad, &format!("passed over: {} ({})", shown(path), clean(why)));
            self.line(text);
        }
        let rest = skipped.count - skipped.first.len() as u64;
        if rest > 0 {
            let text = self.look(Look::Bad, &format!("passed over: {rest} more"));
            self.line(text);
        }
    }

    pub(crate) fn value(&mut self, value: &impl Serialize) {
        serde_json::to_writer_pretty(&mut self.text, value).expect("results can be written as JSON");
        self.text.push(b'\n');
    }

    /// Writes everything.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.pass_on();
        match self.failed {
            Some(error) => Err(error),
            None => self.to.flush(),
        }
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.raw(bytes);
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A table with aligned columns, as many rows at a time as one likes. Columns grow and never shrink.
pub(crate) struct Table {
    headings: Vec<&'static str>,
    /// Columns that are aligned to the right.
    right: &'static [usize],
    widths: Vec<usize>,
    has_begun: bool,
}

impl Table {
    pub(crate) fn new(headings: &[&'static str], right: &'static [usize]) -> Self {
        let widths = headings.iter().map(|heading| heading.width()).collect();
        Self { headings: headings.to_vec(), right, widths, has_begun: false }
    }

    pub(crate) fn rows(&mut self, rows: &[Vec<String>], output: &mut Output<'_>) {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            let headings: Vec<String> = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
            let head = output.look(Look::Heading, &self.format(&headings));
            output.line(head);
        }
        for row in rows {
            output.line(self.format(row));
        }
    }

    fn format(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let padded = if self.right.contains(&column) {
                format!("{}{cell}", padding(cell, *width))
            } else {
                format!("{cell}{}", padding(cell, *width))
            };
            let _ = write!(line, "{gap}{padded}");
        }
        line.trim_end().to_owned()
    }
}

/// What makes a text as wide as a column: some characters take two places, some none.
pub(crate) fn padding(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(text.width()))
}
