//! Declared fields: which a class has, which of them count, and where their values are.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use super::classify::{OwnNamespace, class_attribute};
use super::plan::{Class, Field, Layout, Place, Rule};
use crate::config::Config;
use crate::failure::Walked;
use crate::interned::intern;
use crate::layout;

/// The declared fields of a class that has such, and whether attributes beyond them count.
pub(super) struct Declared {
    pub(super) fields: Vec<Field>,
    pub(super) extras: bool,
}

pub(super) fn named_tuple_fields(class: &Bound<'_, PyType>) -> PyResult<Option<Vec<String>>> {
    let Some(names) = class_attribute(class, "_fields")? else { return Ok(None) };
    if class_attribute(class, "_make")?.is_none_or(|make| make.is_none()) || names.cast::<PyTuple>().is_err()
    {
        return Ok(None);
    }
    Ok(names.extract().ok())
}

pub(super) fn fields_rule(
    config: &Config,
    class: &Bound<'_, PyType>,
    skip: &[String],
) -> Walked<Option<Rule>> {
    match declared_fields(config, class, skip)? {
        Some(Declared { fields, extras }) => Ok(Some(record_of_fields(class, fields, extras)?)),
        None => Ok(None),
    }
}

pub(super) fn record_of_fields(
    class: &Bound<'_, PyType>,
    fields: Vec<Field>,
    extras: bool,
) -> PyResult<Rule> {
    let py = class.py();
    let mut names: Vec<String> =
        fields.iter().map(|field| field.name.bind(py).to_string_lossy().into_owned()).collect();
    if extras {
        names.push("*".to_owned());
    }
    let layout = Layout::new("fields", &Class::of(class)?, names);
    Ok(Rule::Fields { layout, fields, extras })
}

pub(super) fn declared_fields(
    config: &Config,
    class: &Bound<'_, PyType>,
    skip: &[String],
) -> Walked<Option<Declared>> {
    let py = class.py();
    let counts = |name: &str, metadata: Option<Bound<'_, PyAny>>| -> PyResult<bool> {
        Ok(!skip.iter().any(|skipped| skipped == name) && !opted_out(config, metadata)?)
    };
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: String, metadata: Option<Bound<'_, PyAny>>| -> PyResult<()> {
        if !names.contains(&name) && counts(&name, metadata)? {
            names.push(name);
        }
        Ok(())
    };
    // A class may be made by one library on top of one made by another.
    let attributes = class_attribute(class, "__attrs_attrs__")?;
    let table = class_attribute(class, "__dataclass_fields__")?;
    // A program can observe attributes that are no fields.
    let mut extras = config.observable;
    if let Some(attributes) = &attributes {
        for attribute in attributes.try_iter()? {
            let attribute = attribute?;
            let name = attribute.getattr(intern!(py, "name"))?.extract()?;
            add(name, attribute.getattr_opt(intern!(py, "metadata"))?)?;
        }
    }
    if let Some(table) = &table {
        for field in py.import("dataclasses")?.getattr("fields")?.call1((class,))?.try_iter()? {
            let field = field?;
            let name = field.getattr(intern!(py, "name"))?.extract()?;
            add(name, field.getattr_opt(intern!(py, "metadata"))?)?;
        }
        // What `__post_init__` makes of an init-only variable is not a field, but it is state.
        for field in table.call_method0("values")?.try_iter()? {
            extras |= field?.getattr("_field_type")?.getattr("name")?.eq("_FIELD_INITVAR")?;
        }
    }
    if attributes.is_some() || table.is_some() {
        extras |= !class.dict_contains("__dataclass_fields__")? && !class.dict_contains("__attrs_attrs__")?;
    } else if let Some(fields) = class_attribute(class, "__pydantic_fields__")? {
        for (name, field) in fields.cast::<PyDict>().map_err(PyErr::from)? {
            add(name.extract()?, Some(pydantic_metadata(&field)?))?;
        }
        for name in ["__pydantic_extra__", "__pydantic_private__"] {
            if class_attribute(class, name)?.is_some() {
                add(name.to_owned(), None)?;
            }
        }
    } else {
        return Ok(None);
    }
    let fields = names.into_iter().map(|name| field(class, &name)).collect::<PyResult<_>>()?;
    Ok(Some(Declared { fields, extras }))
}

/// The declared fields that do not count.
pub(super) fn opted_out_fields(config: &Config, class: &Bound<'_, PyType>) -> Walked<Vec<String>> {
    let py = class.py();
    let mut names = Vec::new();
    let mut declared: Vec<Bound<'_, PyAny>> = Vec::new();
    if let Some(attributes) = class_attribute(class, "__attrs_attrs__")? {
        declared.extend(attributes.try_iter()?.collect::<PyResult<Vec<_>>>()?);
    }
    if let Some(table) = class_attribute(class, "__dataclass_fields__")? {
        declared.extend(table.call_method0("values")?.try_iter()?.collect::<PyResult<Vec<_>>>()?);
    }
    for field in declared {
        if opted_out(config, field.getattr_opt(intern!(py, "metadata"))?)? {
            names.push(field.getattr(intern!(py, "name"))?.extract()?);
        }
    }
    if let Some(fields) = class_attribute(class, "__pydantic_fields__")?
        && let Ok(fields) = fields.cast::<PyDict>()
    {
        for (name, field) in fields {
            if opted_out(config, Some(pydantic_metadata(&field)?))? {
                names.push(name.extract()?);
            }
        }
    }
    Ok(names)
}

/// All metadata of a pydantic field as one mapping: `Annotated[...]` extras and `json_schema_extra`.
pub(super) fn pydantic_metadata<'py>(field: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = field.py();
    let merged = PyDict::new(py);
    let mut sources: Vec<Bound<'py, PyAny>> = Vec::new();
    if let Some(extras) = field.getattr_opt(intern!(py, "metadata"))? {
        sources.extend(extras.try_iter()?.collect::<PyResult<Vec<_>>>()?);
    }
    sources.extend(field.getattr_opt(intern!(py, "json_schema_extra"))?);
    for source in sources {
        if let Ok(source) = source.cast::<PyDict>() {
            merged.update(source.as_mapping())?;
        }
    }
    Ok(merged.into_any())
}

/// Whether metadata says `{namespace: {"fingerprint": False}}`.
pub(super) fn opted_out(config: &Config, metadata: Option<Bound<'_, PyAny>>) -> PyResult<bool> {
    let Some(metadata) = metadata.filter(|metadata| !metadata.is_none()) else { return Ok(false) };
    for namespace in &config.namespaces {
        let Ok(options) = metadata.get_item(namespace) else { continue };
        if let Ok(answer) = options.get_item("fingerprint")
            && !answer.is_truthy()?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where a field of a class is found.
pub(super) fn field(class: &Bound<'_, PyType>, name: &str) -> PyResult<Field> {
    let py = class.py();
    let interned = PyString::intern(py, name);
    let descriptor = class_attribute(class, name)?;
    let place = match &descriptor {
        Some(descriptor) => match layout::slot_offset(descriptor, class.as_type_ptr()) {
            Some(offset) => Place::Slot(offset),
            // A data descriptor on the class comes before the instance's own attributes.
            None if descriptor.get_type().hasattr(intern!(py, "__set__"))? => Place::Computed,
            None => Place::Attribute,
        },
        None => Place::Attribute,
    };
    let place = match place {
        Place::Attribute | Place::Slot(_) if !has_plain_lookup(class)? => Place::Computed,
        place => place,
    };
    Ok(Field { name: interned.unbind(), place, inline: None })
}

pub(super) fn has_plain_lookup(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = class.py();
    let lookup = intern!(py, "__getattribute__");
    let object = py.get_type::<PyAny>();
    Ok(class.getattr(lookup)?.is(&object.getattr(lookup)?))
}
