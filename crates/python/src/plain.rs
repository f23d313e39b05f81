//! Plain data that is JSON as it stands, read without Python code.
//!
//! `keyprint.store.plain` writes JSON, with tags for what JSON has not. Most metadata needs none of them; reading
//! it here saves a warm process the modules that the rest takes.

use std::fmt;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// What JSON has, in the order in which it is written; floats and tags aside.
enum Plain {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<Plain>),
    Dict(Vec<(String, Plain)>),
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Plain;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("plain data without tags and floats")
    }

    fn visit_unit<E: Error>(self) -> Result<Plain, E> {
        Ok(Plain::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Plain, E> {
        Ok(Plain::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Plain, E> {
        Ok(Plain::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Plain, E> {
        i64::try_from(value).map(Plain::Int).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Plain, E> {
        Ok(Plain::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Plain, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Plain::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Plain, A::Error> {
        let mut pairs = Vec::new();
        while let Some((key, item)) = items.next_entry::<String, Plain>()? {
            if key.starts_with('$') {
                return Err(A::Error::custom("a tag"));
            }
            pairs.push((key, item));
        }
        Ok(Plain::Dict(pairs))
    }
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

impl Plain {
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Self::Null => py.None().into_bound(py),
            Self::Bool(value) => pyo3::types::PyBool::new(py, *value).to_owned().into_any(),
            Self::Int(value) => value.into_pyobject(py)?.into_any(),
            Self::Text(text) => text.into_pyobject(py)?.into_any(),
            Self::List(items) => {
                let items = items.iter().map(|item| item.object(py)).collect::<PyResult<Vec<_>>>()?;
                PyList::new(py, items)?.into_any()
            }
            Self::Dict(items) => {
                let dict = PyDict::new(py);
                for (key, item) in items {
                    dict.set_item(key, item.object(py)?)?;
                }
                dict.into_any()
            }
        })
    }
}

/// What plain data is, if it is JSON as it stands.
pub(crate) fn read<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Ok(Plain::Dict(whole)) = serde_json::from_slice::<Plain>(data) else { return Ok(None) };
    match &whole[..] {
        [(version, Plain::Int(1)), (value, content)] if version == "plain" && value == "value" => {
            content.object(py).map(Some)
        }
        _ => Ok(None),
    }
}
