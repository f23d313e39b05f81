//! Tokens for objects that count as themselves, in this process.
//!
//! An address is not enough: it is used again when the object is gone. A token is given once and
//! never again; weak references tell whether the object at an address is still the one that got it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use rustc_hash::FxHashMap;

use crate::failure::{Failure, Walked};

struct Tokens {
    process: u64,
    next: u64,
    by_address: FxHashMap<usize, (Py<PyWeakrefReference>, u64)>,
    sweep_at: usize,
}

fn tokens() -> &'static Mutex<Tokens> {
    static TOKENS: OnceLock<Mutex<Tokens>> = OnceLock::new();
    TOKENS.get_or_init(|| {
        // Random per process, so that tokens of two processes never agree by accident.
        let process = RandomState::new().build_hasher().finish();
        Mutex::new(Tokens { process, next: 0, by_address: FxHashMap::default(), sweep_at: 1024 })
    })
}

/// The token of an object.
pub(crate) fn token(object: &Bound<'_, PyAny>) -> Walked<[u8; 16]> {
    let py = object.py();
    let address = object.as_ptr() as usize;
    // Weak references are made and dropped outside the lock: both can run Python code.
    let reference = PyWeakrefReference::new(object).map_err(|error| {
        Failure::refuse("no-identity", "an object without weak references cannot count by identity")
            .hint("describe it by content instead")
            .because(py, error)
    })?;
    let mut dropped = Vec::new();
    let mut tokens = tokens().lock().unwrap_or_else(PoisonError::into_inner);
    let known = tokens
        .by_address
        .get(&address)
        .filter(|(reference, _)| reference.bind(py).upgrade().is_some_and(|referent| referent.is(object)))
        .map(|(_, number)| *number);
    let number = known.unwrap_or_else(|| {
        tokens.next += 1;
        let number = tokens.next;
        dropped.extend(tokens.by_address.insert(address, (reference.unbind(), number)));
        number
    });
    if tokens.by_address.len() > tokens.sweep_at {
        let dead: Vec<usize> = tokens
            .by_address
            .iter()
            .filter(|(_, (reference, _))| reference.bind(py).upgrade().is_none())
            .map(|(address, _)| *address)
            .collect();
        dropped.extend(dead.iter().filter_map(|address| tokens.by_address.remove(address)));
        tokens.sweep_at = 2 * tokens.by_address.len().max(512);
    }
    let mut token = [0; 16];
    token[..8].copy_from_slice(&tokens.process.to_le_bytes());
    token[8..].copy_from_slice(&number.to_le_bytes());
    drop(tokens);
    drop(dropped);
    Ok(token)
}
