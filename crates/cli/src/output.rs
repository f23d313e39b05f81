//! Results: tables and text for people, JSON for programs.

use std::fmt::Write as _;
use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

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

/// Collects what a command has to say.
pub(crate) struct Output<'a> {
    to: &'a mut dyn Write,
    text: Vec<u8>,
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
        Self { to, text: Vec::new(), json, colour: colour && !json }
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
        self.text.extend_from_slice(text.as_ref().trim_end().as_bytes());
        self.text.push(b'\n');
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    pub(crate) fn value(&mut self, value: &impl Serialize) {
        serde_json::to_writer_pretty(&mut self.text, value).expect("results can be written as JSON");
        self.text.push(b'\n');
    }

    /// A table with aligned columns; those in `right` are aligned to the right.
    pub(crate) fn table(&mut self, headings: &[&str], right: &[usize], rows: &[Vec<String>]) {
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([headings[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..headings.len()).map(width).collect();
        let format = |cells: &[String]| {
            let mut line = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                let width = widths[column];
                let _ = if right.contains(&column) {
                    write!(line, "{gap}{cell:>width$}")
                } else {
                    write!(line, "{gap}{cell:<width$}")
                };
            }
            line.trim_end().to_owned()
        };
        let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
        let head = self.look(Look::Heading, &format(&headings));
        self.line(head);
        for row in rows {
            self.line(format(row));
        }
    }

    /// Writes everything.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.to.write_all(&self.text)?;
        self.to.flush()
    }
}
