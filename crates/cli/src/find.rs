//! From what a person types to entries.

use keyprint_key::Key;
use keyprint_store::{Listed, Notes, Store};
use thiserror::Error;

use crate::Failure;
use crate::humanize::matches;

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
    #[error("{} keys begin with `{text}`: {}\nhint: type more of it", .matching.len(), shown(.matching))]
    Several { text: String, matching: Vec<Key> },
    #[error("the entry {} is damaged: {damage}\nhint: `keyprint verify` puts damaged entries aside", .key.short())]
    Damaged { key: Key, damage: keyprint_store::Damage },
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
    let entries = store.scan().map_err(Failure::io("cannot read the store"))?.entries;
    let mut matching: Vec<Listed> =
        entries.iter().filter(|listed| listed.key.hex().starts_with(&text)).cloned().collect();
    matching.sort_unstable_by_key(|listed| listed.key);
    match matching.len() {
        0 => {
            // Whoever mistypes a key mostly gets its beginning right.
            let near = (3..text.len()).rev().find_map(|len| {
                let near: Vec<Key> = entries
                    .iter()
                    .map(|listed| listed.key)
                    .filter(|key| key.hex().starts_with(&text[..len]))
                    .collect();
                (!near.is_empty()).then_some(near)
            });
            Err(FindError::Nothing { text, near: near.unwrap_or_default() }.into())
        }
        1 => with_notes(store, matching.remove(0)),
        _ => {
            Err(FindError::Several { text, matching: matching.iter().map(|listed| listed.key).collect() }
                .into())
        }
    }
}

fn with_notes(store: &Store, listed: Listed) -> Result<Found, Failure> {
    let key = listed.key;
    match store.notes(&key).map_err(Failure::io("cannot read the entry"))? {
        Some(Ok(notes)) => Ok(Found { listed, notes }),
        Some(Err(damage)) => Err(FindError::Damaged { key, damage }.into()),
        None => Err(FindError::Nothing { text: key.hex(), near: Vec::new() }.into()),
    }
}

/// All entries of such a name; damaged ones have no name and are left out unless all are asked for.
pub(crate) fn entries(store: &Store, pattern: Option<&str>) -> Result<(Vec<Found>, Vec<Listed>), Failure> {
    let mut entries = Vec::new();
    let mut damaged = Vec::new();
    for listed in store.scan().map_err(Failure::io("cannot read the store"))?.entries {
        match store.notes(&listed.key) {
            Ok(Some(Ok(notes))) if pattern.is_none_or(|pattern| matches(pattern, notes.manifest.name())) => {
                entries.push(Found { listed, notes });
            }
            Ok(Some(Ok(_)) | None) => {}
            Ok(Some(Err(_))) | Err(_) => damaged.push(listed),
        }
    }
    Ok((entries, damaged))
}
