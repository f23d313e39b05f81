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
        if let Err(error) = self.publish_on(disk, entry) {
            self.cannot_write(disk, Notice::Write(disk.entry_path(entry.key()), error));
        }
    }

    /// Publishes on the local disk, with room made before. When the device is full, what was used least goes. Says
    /// whether it was published: what is larger than the whole store is not.
    pub(crate) fn publish_on(&self, disk: &Disk, entry: &Entry) -> io::Result<bool> {
        if entry.len() > self.limit {
            self.notices.say(&Notice::TooLarge { bytes: entry.len(), limit: self.limit });
            return Ok(false);
        }
        match self.publish_once(disk, entry) {
            Err(error) if is_full(&error) => {
                // Somebody else may have made room meanwhile.
                self.free_device(disk, entry.key(), entry.len());
                self.publish_once(disk, entry)?;
            }
            done => done?,
        }
        Ok(true)
    }

    fn publish_once(&self, disk: &Disk, entry: &Entry) -> io::Result<()> {
        let mut announced = 0;
        let published = disk.publish(entry, |bytes| {
            announced = bytes;
            self.announce(disk, entry.key(), bytes);
        });
        match published {
            Ok(Published { bytes, replaced }) => {
                self.count(|counters| counters.written_bytes += signed(bytes));
                self.count_size(i64::from(replaced.is_none()), -signed(replaced.unwrap_or(0)));
            }
            Err(_) => self.count_size(0, -signed(announced)),
        }
        published.map(drop)
    }
}
