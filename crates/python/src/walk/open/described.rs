//! Objects that a rule of the user describes.

use super::*;

impl<'a, 'py> Walk<'a, 'py> {
    /// An object that a rule of the user describes.
    pub(super) fn open_described(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &'a Known<'py>,
        rule: Bound<'py, PyAny>,
        standing: Standing,
    ) -> Walked<()> {
        self.watch_open();
        let described = match rule.cast::<Description>() {
            Ok(_) => rule,
            Err(_) => rule.call1((&value,)).map_err(|error| {
                let class = &known.plan.class;
                let message = format!("the rule for `{}.{}` raised", class.module, class.qualname);
                Failure::refuse("rule-failed", message).because(self.py, error)
            })?,
        };
        if described.is(self.py.NotImplemented()) {
            return self.open_undescribed(value, known, &[], false, standing);
        }
        let Ok(description) = described.cast::<Description>() else {
            return Err(Failure::refuse(
                "bad-rule",
                format!(
                    "the rule for `{}.{}` returned {}, not a description",
                    known.plan.class.module,
                    known.plan.class.qualname,
                    short_repr(&described)
                ),
            )
            .hint("return what a function of `keyprint.rule` makes, or NotImplemented for the default"));
        };
        let Description { form, tag } = description.get();
        let tag = tag.as_ref().map(|tag| tag.bind(self.py).clone());
        match form {
            Form::Leaf(leaf) => {
                let leaf = leaf.bind(self.py);
                let Some(item) = scalar(leaf)? else {
                    let repr = short_repr(leaf);
                    return Err(Failure::refuse(
                        "bad-rule",
                        format!("rule.leaf takes a scalar, text or bytes, found {repr}"),
                    )
                    .hint("use rule.ordered(...) for a value with parts"));
                };
                self.open_tagged(value, known, tag, item, standing)
            }
            Form::Ordered(parts) => {
                let parts = parts.bind(self.py).iter().collect();
                self.open_tagged(value, known, tag, Item::Sequence(tag::LIST, parts), standing)
            }
            Form::Unordered(parts) => {
                let parts = parts.bind(self.py).iter().collect();
                self.open_tagged(value, known, tag, Item::Sequence(tag::MULTISET, parts), standing)
            }
            Form::OrderedItems => {
                let pairs = value.call_method0(intern!(self.py, "items")).map_err(|error| {
                    Failure::refuse("bad-rule", "rule.ordered_items() is for mappings, and `items()` failed")
                        .because(self.py, error)
                })?;
                let pairs = ordered_pairs(&pairs)?;
                self.open_tagged(value, known, tag, pairs, standing)
            }
            Form::Reference => {
                let (module, qualname) = reference::name_of(&value)?;
                if !reference::resolves(&value, &module, &qualname)? {
                    return Err(reference::not_importable(Referent::Object, &module, &qualname));
                }
                self.stream.reference(Referent::Object, &module, &qualname);
                Ok(())
            }
            Form::Fields { skip } => self.open_undescribed(value, known, skip, false, standing),
            Form::Namespace => self.open_undescribed(value, known, &[], true, standing),
            Form::Identity => self.write_identity(&value),
        }
    }

    /// An object whose rule leaves it to its own structure.
    pub(super) fn open_undescribed(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        skip: &[String],
        namespace: bool,
        standing: Standing,
    ) -> Walked<()> {
        let plan = Arc::new(classify::structural_plan(self.config, &value, skip, namespace)?);
        let known = Known {
            reducer: matches!(plan.rule, Rule::Object(_)) && reduce::registered(&value)?.is_some(),
            plan,
            class: known.class.clone(),
            importable: known.importable,
        };
        if self.write_leaf(&value, &known)? {
            return Ok(());
        }
        let known = self.arena.alloc(known);
        self.open_common(value, known, standing)
    }

    /// A described value under its class, or under the tag that the description gives instead.
    pub(super) fn open_tagged(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        tag: Option<Bound<'py, PyBytes>>,
        item: Item<'py>,
        standing: Standing,
    ) -> Walked<()> {
        let class = &known.plan.class;
        let (digest, items, labels): (Fingerprint, _, &'static [&'static str]) = match tag {
            None => (shape("described", &class.module, &class.qualname, &["value"]), vec![item], &[""]),
            Some(tag) => {
                let tag = Item::Bytes(tag.as_bytes().to_vec());
                (shape("tagged", "", "", &["tag", "value"]), vec![tag, item], &["", ""])
            }
        };
        let depth = self.frames.len();
        let mark = self.stream.open_record(&digest);
        self.push_items(value.clone(), items, labels, mark, standing)?;
        self.count_endless(depth, &value)
    }
}

/// A value without parts, past any rule for its class.
fn scalar<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Item<'py>>> {
    let class = value.get_type_ptr();
    if value.is_none() {
        return Ok(Some(Item::None));
    }
    if class == &raw mut ffi::PyBool_Type {
        return Ok(Some(Item::Bool(value.is_truthy()?)));
    }
    let mut leaves = Builtin::ALL.into_iter().filter(|kind| kind.is_leaf() && *kind != Builtin::ByteArray);
    Ok(leaves.find(|kind| kind.type_object() == class).map(|kind| Item::Content(value.clone(), kind)))
}
