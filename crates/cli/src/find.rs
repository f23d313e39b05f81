//! From what a person types to entries.

use std::collections::HashSet;

use keyprint_key::Key;
use keyprint_store::{Indexed, Listed, Notes, Store, is_internal};
use thiserror::Error;

use crate::Failure;
use crate::humanize::matches;
use crate::progress::Progress;

/// Why a key was not found.
#[derive(Debug, Error)]
pub(crate) enum FindError {
    #[error(
        "`{text}` is not a key: `{character}` is no hexadecimal digit\nhint: `keyprint ls` shows the keys"
    )]
    Digit { text: String, character: char },
    #[error("`{0}` is longer than a key: a key has 64 hexadecimal digits")]
    Long(String),
    #[error("no entry has a key that begins with `{text}`{}", close(.near))]
    Nothing { text: String, near: Vec<Key> },
    #[error("{} keys begin with `{text}`: {}\nhint: type more of it", several(.matching), shown(.matching))]
    Several { text: String, matching: Vec<Key> },
    #[error("the entry {} is damaged: {damage}\nhint: `keyprint verify` puts damaged entries aside", .key.short())]
    Damaged { key: Key, damage: keyprint_store::Damage },
}

fn several(keys: &[Key]) -> String {
    if keys.len() > 4 { "several".to_owned() } else { keys.len().to_string() }
}

fn shown(keys: &[Key]) -> String {
    let mut names: Vec<String> = keys.iter().take(4).map(Key::short).collect();
    if keys.len() > 4 {
        names.push("…".to_owned());
    }
    names.join(", ")
}

fn close(near: &[Key]) -> String {
    if near.is_empty() {
        "\nhint: `keyprint ls` shows the keys".to_owned()
    } else {
        format!("\nhint: did you mean {}?", shown(near))
    }
}

/// An entry on disk with its notes.
pub(crate) struct Found {
    pub(crate) listed: Listed,
    pub(crate) notes: Notes,
}

/// The entry whose key begins like this.
pub(crate) fn entry(store: &Store, prefix: &str) -> Result<Found, Failure> {
    let text = prefix.trim().to_ascii_lowercase();
    if let Some(character) = text.chars().find(|c| !c.is_ascii_hexdigit()) {
        return Err(FindError::Digit { text: prefix.to_owned(), character }.into());
    }
    if text.len() > 64 {
        return Err(FindError::Long(text).into());
    }
    let keys = store.keys_from(&text, 5);
    match keys[..] {
        [] => {
            // Whoever mistypes a key mostly gets its beginning right.
            let near = (3..text.len()).rev().map(|len| store.keys_from(&text[..len], 5));
            let near = near.into_iter().find(|near| !near.is_empty()).unwrap_or_default();
            Err(FindError::Nothing { text, near }.into())
        }
        [key] => with_notes(store, key),
        _ => Err(FindError::Several { text, matching: keys }.into()),
    }
}

fn with_notes(store: &Store, key: Key) -> Result<Found, Failure> {
    let nothing = || FindError::Nothing { text: key.hex(), near: Vec::new() };
    let listed = store.listed(&key).ok_or_else(nothing)?;
    match store.notes(&key).map_err(Failure::io("cannot read the entry"))? {
        Some(Ok(notes)) => Ok(Found { listed, notes }),
        Some(Err(damage)) => Err(FindError::Damaged { key, damage }.into()),
        None => Err(nothing().into()),
    }
}

/// What a person wants to see.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Only such names; `*` stands for anything.
    pub(crate) pattern: Option<&'a str>,
    /// What Keyprint keeps for itself, too.
    pub(crate) internal: bool,
}

impl Wanted<'_> {
    pub(crate) fn wants(&self, name: &str) -> bool {
        (self.internal || !is_internal(name)) && self.pattern.is_none_or(|pattern| matches(pattern, name))
    }
}

/// Reads what is noted in all entries, and hands out those that are wanted.
fn read(store: &Store, wanted: Wanted<'_>, progress: &mut Progress<'_>, mut each: impl FnMut(Key, &Notes)) {
    let mut seen = 0;
    store.visit(|listed| {
        seen += 1;
        progress.show("reading", seen, None);
        if let Ok(Some(Ok(notes))) = store.notes(&listed.key)
            && wanted.wants(notes.manifest.name())
        {
            each(listed.key, &notes);
        }
    });
}

/// The keys of all entries that are wanted, by what is in them: for whoever acts on it, and must not miss any.
pub(crate) fn keys(store: &Store, wanted: Wanted<'_>, progress: &mut Progress<'_>) -> HashSet<Key> {
    let mut keys = HashSet::new();
    read(store, wanted, progress, |key, _| {
        keys.insert(key);
    });
    keys
}

/// The entries that are wanted, the latest first: as the index knows them, or, where there is none and none can be
/// made, as they are. Some may be gone by now.
pub(crate) fn entries(store: &Store, wanted: Wanted<'_>, progress: &mut Progress<'_>) -> Vec<Indexed> {
    if let Some(mut records) = store.indexed(&mut progress.showing("indexing")) {
        records.retain(|record| wanted.wants(&record.name));
        return records;
    }
    let mut records = Vec::new();
    read(store, wanted, progress, |key, notes| {
        let (name, created_ms) = (notes.manifest.name().to_owned(), notes.info.created_ms);
        records.push(Indexed { key, name, created_ms });
    });
    records.sort_by_key(|record| (std::cmp::Reverse(record.created_ms), record.key));
    records
}
