//! The memory tier: entries that were used lately, up to a number of bytes.

use std::sync::{Arc, Mutex, PoisonError};

use keyprint_key::Key;
use lru::LruCache;

use crate::entry::Entry;

/// Entries in memory, the least recently used first to go.
pub(crate) struct Memory {
    limit: u64,
    held: Mutex<Held>,
}

struct Held {
    entries: LruCache<Key, Arc<Entry>>,
    bytes: u64,
}

impl Memory {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, held: Mutex::new(Held { entries: LruCache::unbounded(), bytes: 0 }) }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.entries.get(key).cloned()
    }

    /// Keeps an entry, unless it is larger than the whole tier.
    pub(crate) fn put(&self, entry: &Arc<Entry>) {
        if entry.len() > self.limit {
            return;
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.bytes += entry.len();
        if let Some(old) = held.entries.put(*entry.key(), Arc::clone(entry)) {
            held.bytes -= old.len();
        }
        while held.bytes > self.limit {
            let Some((_, old)) = held.entries.pop_lru() else { break };
            held.bytes -= old.len();
        }
    }

    pub(crate) fn remove(&self, key: &Key) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match held.entries.pop(key) {
            Some(old) => {
                held.bytes -= old.len();
                true
            }
            None => false,
        }
    }

    pub(crate) fn clear(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.entries.clear();
        held.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Artifact, Info};
    use keyprint_key::{Component, KeyBuilder, Tool};
    use std::time::{Duration, SystemTime};

    fn entry(value: u32, bytes: usize) -> Arc<Entry> {
        let mut key = KeyBuilder::new("e", Tool::keyprint(), None);
        key.add(Component::new("v", keyprint_fingerprint::fingerprint(&value))).unwrap();
        let info = Info::new(SystemTime::UNIX_EPOCH, Duration::ZERO);
        Arc::new(Entry::built(&key.finish(), Artifact::single(vec![0; bytes]), info))
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let [a, b, c] = [1, 2, 3].map(|value| entry(value, 10_000));
        let memory = Memory::new(2 * a.len());
        memory.put(&a);
        memory.put(&b);
        assert!(memory.get(a.key()).is_some());
        memory.put(&c);
        assert!(
            memory.get(b.key()).is_none() && memory.get(a.key()).is_some() && memory.get(c.key()).is_some()
        );
        memory.put(&c);
        assert!(memory.get(a.key()).is_some(), "putting one twice counts once");
        memory.put(&entry(4, 50_000));
        assert!(memory.get(a.key()).is_some(), "one that is too large displaces nothing");
        assert!(memory.remove(a.key()) && !memory.remove(a.key()));
    }
}
