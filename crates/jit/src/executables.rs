//! Executables that are loaded, the least recently used first to go.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::get::Place;

/// What is loaded, up to a number of executables.
pub(crate) struct Executables<T> {
    loaded: Mutex<LruCache<Place, T>>,
}

impl<T: Clone> Executables<T> {
    pub(crate) fn new(most: NonZeroUsize) -> Self {
        Self { loaded: Mutex::new(LruCache::new(most)) }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<Place, T>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, place: &Place) -> Option<T> {
        self.lock().get(place).cloned()
    }

    /// Keeps an executable. Whatever goes for it is dropped outside of the lock: that may run anything.
    pub(crate) fn keep(&self, place: Place, executable: T) {
        let replaced = self.lock().push(place, executable);
        drop(replaced);
    }

    pub(crate) fn clear(&self) {
        let mut loaded = self.lock();
        let most = loaded.cap();
        let dropped = std::mem::replace(&mut *loaded, LruCache::new(most));
        drop(loaded);
        drop(dropped);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Looks at all of them, unless somebody is changing them right now: says whether it did.
    pub(crate) fn try_for_each(&self, look: &mut dyn FnMut(&T)) -> bool {
        let Ok(loaded) = self.loaded.try_lock() else { return false };
        loaded.iter().for_each(|(_, executable)| look(executable));
        true
    }

    /// Everything that is loaded, for another table; nothing if somebody is changing it right now.
    pub(crate) fn try_copy(&self) -> Option<Self> {
        let loaded = self.loaded.try_lock().ok()?;
        Some(Self { loaded: Mutex::new(loaded.clone()) })
    }
}
