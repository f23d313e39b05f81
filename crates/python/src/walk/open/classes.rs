//! Namespaces, enums and classes: what counts by content although it has a name.

use super::*;

impl<'a, 'py> Walk<'a, 'py> {
    /// A namespace by content; a class without a name contributes its own data instead.
    pub(super) fn open_namespace(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        standing: Standing,
    ) -> Walked<()> {
        let state = self.attributes(self.state(&known.plan, &value, &[])?);
        if known.importable {
            let mark = self.stream.open_record(&layout.digest);
            return self.push_items(value, vec![state], &[""], mark, standing);
        }
        let mut pairs = Vec::new();
        for base in known.class.mro() {
            let Ok(base) = base.cast_into::<PyType>() else { continue };
            if reference::class_is_named(&base, &Class::of(&base)?)? {
                break;
            }
            pairs.extend(structure::namespace_class(&base)?);
        }
        let class = &known.plan.class;
        let mark = self.stream.open_record(&shape(
            "local namespace",
            &class.module,
            &class.qualname,
            &["data", "state"],
        ));
        self.push_items(value, vec![self.attributes(pairs), state], &["", ""], mark, standing)
    }

    pub(super) fn open_enum(
        &mut self,
        member: Bound<'py, PyAny>,
        layout: &Layout,
        base: &str,
        standing: Standing,
    ) -> Walked<()> {
        let py = self.py;
        let name = member.getattr(intern!(py, "_name_"))?;
        let members = member.get_type().getattr(intern!(py, "__members__"))?;
        // A combination of flags has a made-up name, or none, depending on the interpreter's version.
        let name = if !name.is_none() && members.contains(&name)? { Item::Value(name) } else { Item::None };
        let value = member_value(&member)?.map_or(Item::None, Item::Value);
        let mark = self.stream.open_record(&layout.digest);
        let base = Item::Bytes(base.as_bytes().to_vec());
        self.push_items(member, vec![base, name, value], &["", "name", "value"], mark, standing)
    }

    pub(super) fn open_class(&mut self, value: Bound<'py, PyAny>, standing: Standing) -> Walked<()> {
        let class = value.cast::<PyType>().map_err(PyErr::from)?;
        if !is_enum_class(class)? {
            let items = structure::class(class)?;
            return self.open_structure(value, "type", structure::TYPE, items, standing);
        }
        let Class { module, qualname } = Class::of(class)?;
        let mut pairs = Vec::new();
        for pair in class.getattr("__members__")?.call_method0("items")?.try_iter()? {
            let (name, member): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair?.extract()?;
            pairs.push((name, member_value(&member)?.unwrap_or_else(|| self.py.None().into_bound(self.py))));
        }
        let base = Item::Bytes(classify::enum_base(class)?.into_bytes());
        let mark = self.stream.open_record(&shape("enum class", &module, &qualname, &["base", "members"]));
        let members = Item::Pairs { tag: tag::ITEMS, pairs, attributes: true };
        self.push_items(value, vec![base, members], &["", ""], mark, standing)
    }
}

/// The value of a member of an enum; nothing for a plain `object()`, in whose place the name stands.
fn member_value<'py>(member: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let value = member.getattr(intern!(member.py(), "_value_"))?;
    Ok((value.get_type_ptr() != &raw mut ffi::PyBaseObject_Type).then_some(value))
}
