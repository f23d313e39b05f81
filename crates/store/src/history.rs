//! The last misses, so that a later process can say why they were misses.

use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use keyprint_key::{Key, Manifest};
use serde::{Deserialize, Serialize};

use crate::entry::millis;
use crate::io::Io;

/// A longer file is put aside, and the one put aside before goes.
const MOST_BYTES: u64 = 1 << 20;
/// A longer line is not written.
const MOST_IN_LINE: usize = 128 << 10;

/// One miss.
#[derive(Clone, Debug)]
pub struct Miss {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What was asked for.
    pub manifest: Manifest,
    /// The key of that.
    pub key: Key,
}

#[derive(Serialize, Deserialize)]
struct Line {
    at_ms: u64,
    manifest: Manifest,
}

/// The file of misses.
pub(crate) struct History {
    path: PathBuf,
    io: Io,
}

impl History {
    pub(crate) fn new(path: PathBuf, io: Io) -> Self {
        Self { path, io }
    }

    fn older(&self) -> PathBuf {
        self.path.with_extension("old.jsonl")
    }

    pub(crate) fn add(&self, at: SystemTime, manifest: &Manifest) -> io::Result<()> {
        let line = Line { at_ms: millis(at), manifest: manifest.clone() };
        let mut text = serde_json::to_vec(&line).map_err(io::Error::other)?;
        text.push(b'\n');
        if text.len() > MOST_IN_LINE {
            return Ok(());
        }
        let file = self.io.open_or_create(&self.path, true)?;
        // One write to a file that is open for appending: lines of several processes do not mix.
        self.io.write(&file, &self.path, &text)?;
        if self.io.stat_file(&file, &self.path)?.len > MOST_BYTES {
            self.io.rename(&self.path, &self.older())?;
        }
        Ok(())
    }

    /// The misses that are still known, the latest last. Lines that were torn are skipped.
    pub(crate) fn read(&self) -> Vec<Miss> {
        let mut misses = Vec::new();
        for path in [self.older(), self.path.clone()] {
            let bytes = self.io.open(&path).and_then(|file| {
                let len = self.io.stat_file(&file, &path)?.len.min(4 * MOST_BYTES);
                self.io.read(&file, &path, usize::try_from(len).unwrap_or(0))
            });
            for line in bytes.unwrap_or_default().split(|byte| *byte == b'\n') {
                if let Ok(Line { at_ms, manifest }) = serde_json::from_slice(line) {
                    misses.push(Miss { at_ms, key: manifest.key(), manifest });
                }
            }
        }
        misses
    }
}
