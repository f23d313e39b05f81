//! What an element of a NumPy array is, from its dtype.

use keyprint_array::{Element, ElementError, MOST_NESTING};
use pyo3::prelude::*;

use super::plan::Class;
use crate::failure::{Failure, Walked};
use crate::interned::intern;

/// The element that a NumPy dtype describes; `None` if its elements are Python objects.
pub(crate) fn of_dtype(dtype: &Bound<'_, PyAny>) -> Walked<Option<Element>> {
    nested(dtype, 0)
}

fn nested(dtype: &Bound<'_, PyAny>, depth: usize) -> Walked<Option<Element>> {
    let py = dtype.py();
    if depth > MOST_NESTING {
        return Err(ElementError::Nesting.into());
    }
    let size: usize = dtype.getattr(intern!(py, "itemsize"))?.extract()?;
    let sub = dtype.getattr(intern!(py, "subdtype"))?;
    if !sub.is_none() {
        let (base, shape): (Bound<'_, PyAny>, Vec<usize>) = sub.extract()?;
        let Some(base) = nested(&base, depth + 1)? else { return Err(mixed_objects()) };
        return Ok(Some(base.sub(shape, size)?));
    }
    let names = dtype.getattr(intern!(py, "names"))?;
    if !names.is_none() {
        let table = dtype.getattr(intern!(py, "fields"))?;
        let mut fields = Vec::new();
        for name in names.extract::<Vec<String>>()? {
            let entry = table.get_item(&name)?;
            let offset: usize = entry.get_item(1)?.extract()?;
            let Some(field) = nested(&entry.get_item(0)?, depth + 1)? else { return Err(mixed_objects()) };
            fields.push((name, field, offset));
        }
        return Ok(Some(Element::structure(fields, size)));
    }
    let kind: char = dtype.getattr(intern!(py, "kind"))?.extract()?;
    let order: char = dtype.getattr(intern!(py, "byteorder"))?.extract()?;
    let code: String = match kind {
        'M' | 'm' => dtype.getattr(intern!(py, "str"))?.extract()?,
        _ => String::new(),
    };
    // Behind order, kind and size: `<M8[ns]`.
    let unit = code.get(3..).unwrap_or_default();
    let Some(element) = Element::of_kind(kind, size, order, unit)? else { return Ok(None) };
    let class = dtype.getattr(intern!(py, "type"))?;
    let Class { module, qualname } = Class::of(class.cast().map_err(PyErr::from)?)?;
    Ok(Some(if module == "numpy" { element } else { element.named(&module, &qualname) }))
}

fn mixed_objects() -> Failure {
    Failure::refuse("array-format", "a structured array with Python objects in it is not read")
        .hint("split it into plain arrays and a list of objects, or register a rule for its class")
}
