//! Publishing an entry: to memory, the local disk, and the tiers beyond.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::disk::{Disk, Published, is_full};
use crate::entry::Entry;
use crate::notice::Notice;
use crate::store::{Store, signed};

impl Store {
    /// Gives a new entry to every tier.
    pub(super) fn publish(&self, entry: &Arc<Entry>) {
        self.publish_local(entry);
        if self.tiers.iter().any(|outer| !outer.left_out.load(Ordering::Relaxed)) {
            let container = entry.to_container();
            for outer in &self.tiers {
                self.ask(outer, |tier| tier.put(entry.key(), &container));
            }
        }
    }

    /// Keeps an entry in memory and on the local disk.
    pub(super) fn publish_local(&self, entry: &Arc<Entry>) {
        self.memory.put(entry);
        let Some(disk) = self.writable() else { return };
        if entry.len() > self.limit {
            self.notices.say(&Notice::TooLarge { bytes: entry.len(), limit: self.limit });
            return;
        }
        if let Err(error) = self.publish_on(disk, entry) {
            self.cannot_write(disk, Notice::Write(disk.entry_path(entry.key()), error));
        }
    }

    /// Publishes on the local disk, with room made before. When the device is full, what was used least goes.
    pub(crate) fn publish_on(&self, disk: &Disk, entry: &Entry) -> io::Result<()> {
        let expected = entry.len();
        self.reserve(disk, entry.key(), expected);
        let published = match disk.publish(entry) {
            Err(error) if is_full(&error) && self.free_device(disk, entry.key(), expected) => {
                disk.publish(entry)
            }
            other => other,
        };
        match published {
            Ok(Published { bytes, replaced }) => {
                self.count(|counters| counters.written_bytes += signed(bytes));
                // What was expected leaves out the head.
                self.count_size(
                    -i64::from(replaced.is_some()),
                    signed(bytes) - signed(expected) - signed(replaced.unwrap_or(0)),
                );
                // At once: a process may end without a word, and others must know how full the store is.
                self.flush();
                Ok(())
            }
            Err(error) => {
                self.count_size(-1, -signed(expected));
                self.flush();
                Err(error)
            }
        }
    }
}
