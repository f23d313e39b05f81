//! Publishing an entry: to memory, the local disk, and the tiers beyond.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::entry::Entry;
use crate::notice::Notice;
use crate::store::Store;

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
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.readonly()) else { return };
        if entry.len() > self.limit {
            self.notices.say(&Notice::TooLarge { bytes: entry.len(), limit: self.limit });
            return;
        }
        match disk.publish(entry) {
            Ok(published) => self.settle(disk, entry.key(), published),
            Err(error) => self.notices.say(&Notice::Write(disk.entry_path(entry.key()), error)),
        }
    }
}
