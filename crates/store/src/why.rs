//! Why a lookup missed: what changed since the nearest earlier entry of the same name.

use std::collections::HashSet;

use keyprint_key::{Comparison, Key, Manifest};

use crate::entry::is_internal;
use crate::history::Miss;
use crate::store::Store;

/// What is known about something that was asked for earlier.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// When it was built or asked for, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its key.
    pub key: Key,
    /// What went into it.
    pub manifest: Manifest,
}

/// A key, and the earlier one that is nearest to it.
#[derive(Clone, Debug)]
pub struct Why {
    /// What was asked for.
    pub manifest: Manifest,
    /// The key of that.
    pub key: Key,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The nearest earlier one of the same name, and what changed since; none if it was the first.
    pub nearest: Option<(Earlier, Comparison)>,
}

/// The latest entries of a name are compared with, no more than this.
const MOST_COMPARED: usize = 64;

/// What the store knows of some names: the latest entries, and misses whose entries are gone.
#[must_use]
pub fn known(store: &Store, names: &HashSet<&str>) -> Vec<Earlier> {
    let mut known = Vec::new();
    let mut seen = HashSet::new();
    for record in names.iter().flat_map(|name| store.indexed_as(name, MOST_COMPARED)) {
        if let Ok(Some(Ok(notes))) = store.notes(&record.key)
            && names.contains(notes.manifest.name())
        {
            seen.insert(record.key);
            known.push(Earlier { at_ms: notes.info.created_ms, key: record.key, manifest: notes.manifest });
        }
    }
    for Miss { at_ms, manifest, key } in store.misses() {
        if names.contains(manifest.name()) && seen.insert(key) {
            known.push(Earlier { at_ms, key, manifest });
        }
    }
    known
}

/// Compares with the nearest of those that came before: the one with the fewest changes, the latest of these.
#[must_use]
pub fn explain(manifest: &Manifest, at_ms: u64, known: &[Earlier]) -> Why {
    let key = manifest.key();
    let earlier = known
        .iter()
        .filter(|other| other.key != key && other.at_ms <= at_ms && other.manifest.name() == manifest.name());
    let compared = earlier.map(|other| (other.clone(), other.manifest.compare(manifest)));
    let nearest = compared.min_by_key(|(other, comparison)| {
        (comparison.components, comparison.changes.len(), std::cmp::Reverse(other.at_ms))
    });
    Why { manifest: manifest.clone(), key, at_ms, nearest }
}

impl Store {
    /// Why a key was not there when it was asked for, in comparison with what was.
    #[must_use]
    pub fn why(&self, manifest: &Manifest, at_ms: u64) -> Why {
        explain(manifest, at_ms, &known(self, &HashSet::from([manifest.name()])))
    }

    /// Why the last misses were misses, at most `limit` of them, the latest first; without what is internal.
    #[must_use]
    pub fn why_last(&self, limit: usize) -> Vec<Why> {
        let misses = self.misses();
        let last = misses.iter().rev().filter(|miss| !is_internal(miss.manifest.name()));
        let last: Vec<_> = last.take(limit).collect();
        let known = known(self, &last.iter().map(|miss| miss.manifest.name()).collect());
        last.iter().map(|miss| explain(&miss.manifest, miss.at_ms, &known)).collect()
    }
}
