//! Two arbitrary values have the same fingerprint exactly if they are the same value, and an
//! unordered container has the same one whatever the order of its entries.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use keyprint_fingerprint::{Fingerprint, fingerprint};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Clone, Debug, Fingerprint, PartialEq)]
enum Value {
    None,
    Bool(bool),
    Int(i128),
    Bits(u64),
    Text(String),
    List(Vec<Value>),
    Pair(Box<(Value, Value)>),
    Map(BTreeMap<String, Value>),
    Named { name: String, value: Option<Box<Value>> },
}

fuzz_target!(|pair: (Value, Value)| {
    let (value, other) = pair;
    assert_eq!(value == other, fingerprint(&value) == fingerprint(&other));
    if let Value::Map(map) = &value {
        let hashed: std::collections::HashMap<_, _> = map.iter().collect();
        assert_eq!(fingerprint(map), fingerprint(&hashed));
    }
    let (deep, deeper) = (Value::List(vec![value.clone()]), Value::List(vec![Value::List(vec![value])]));
    assert_ne!(fingerprint(&deep), fingerprint(&deeper));
});
