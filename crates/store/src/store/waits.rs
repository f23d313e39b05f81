//! Who waits for whom, across processes: builds that need each other's results would wait for ever.
//!
//! A thread that builds something holds its lock. If its build needs something else that is being built elsewhere, the
//! thread says in the files of the locks it holds which key it waits for. Whoever waits follows these notes from the key
//! it wants: if they lead back to a key that the same thread holds, nobody of them would ever be done.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use keyprint_key::Key;

use crate::disk::{Disk, KeyLock};

/// Notes are followed no further than this.
const MOST_STEPS: usize = 32;

thread_local! {
    /// The locks of what this thread builds.
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

struct Held {
    bucket: PathBuf,
    key: Key,
    lock: Rc<KeyLock>,
}

/// Holds a lock while this thread builds, until it is dropped.
pub(super) struct Building {
    lock: Rc<KeyLock>,
}

impl Building {
    pub(super) fn begin(disk: &Disk, key: &Key, lock: KeyLock) -> Self {
        let lock = Rc::new(lock);
        let held = Held { bucket: disk.bucket().to_owned(), key: *key, lock: Rc::clone(&lock) };
        HELD.with_borrow_mut(|all| all.push(held));
        Self { lock }
    }

    /// Tells those who wait that the build failed.
    pub(super) fn note_failure(&self) {
        self.lock.note_failure();
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|all| all.retain(|held| !Rc::ptr_eq(&held.lock, &self.lock)));
    }
}

/// Says that this thread waits for a key, until it is dropped.
pub(super) struct WaitingFor(());

impl WaitingFor {
    pub(super) fn begin(key: &Key) -> Self {
        HELD.with_borrow(|all| all.iter().for_each(|held| held.lock.note(Some(key))));
        Self(())
    }
}

impl Drop for WaitingFor {
    fn drop(&mut self) {
        HELD.with_borrow(|all| all.iter().for_each(|held| held.lock.note(None)));
    }
}

fn is_held(bucket: &Path, key: &Key) -> bool {
    HELD.with_borrow(|all| all.iter().any(|held| held.key == *key && held.bucket == bucket))
}

/// Whether those who build a key wait, in the end, for something that this thread builds.
pub(super) fn is_circular(disk: &Disk, wanted: &Key) -> bool {
    if HELD.with_borrow(Vec::is_empty) {
        return false;
    }
    let mut ahead = vec![*wanted];
    let mut seen = Vec::new();
    while let Some(key) = ahead.pop() {
        if seen.contains(&key) || seen.len() == MOST_STEPS {
            continue;
        }
        for next in disk.builders_wait_for(&key) {
            if is_held(disk.bucket(), &next) {
                return true;
            }
            ahead.push(next);
        }
        seen.push(key);
    }
    false
}
