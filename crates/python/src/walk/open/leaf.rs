//! Values without parts.

use super::*;

impl<'a, 'py> Walk<'a, 'py> {
    /// Writes a value that has no parts; false if it has some.
    pub(in crate::walk) fn write_leaf(
        &mut self,
        value: &Bound<'py, PyAny>,
        known: &Known<'py>,
    ) -> Walked<bool> {
        match &known.plan.rule {
            Rule::None => self.stream.none(),
            Rule::Bool => self.stream.bool(value.is_truthy()?),
            Rule::Builtin(Builtin::ByteArray) => {
                let mark = self.stream.open_record(bytearray_shape());
                self.write_builtin(value, Builtin::ByteArray)?;
                self.stream.close(mark);
            }
            Rule::Builtin(kind) if kind.is_leaf() => self.write_builtin(value, *kind)?,
            Rule::Constant(name) => self.stream.reference(Referent::Object, "builtins", name),
            Rule::Fingerprint => self.write_fingerprint(value)?,
            Rule::Subclass { base, layout, fields: None, .. } if base.is_leaf() && known.importable => {
                if !known.plan.bare && !self.state(&known.plan, value, &[])?.is_empty() {
                    return Ok(false);
                }
                let mark = self.stream.open_record(&layout.digest);
                self.write_builtin(value, *base)?;
                self.stream.open(if self.config.observable { tag::ITEMS } else { tag::DICT }, 0);
                self.stream.close(mark);
            }
            Rule::Type => return self.write_class(value.cast().map_err(PyErr::from)?),
            Rule::Function => return self.write_named(value, Referent::Function),
            Rule::BuiltinFunction => {
                let owner = value.getattr(intern!(self.py, "__self__"))?;
                if !owner.is_none() && !owner.is_instance_of::<pyo3::types::PyModule>() {
                    return Ok(false);
                }
                return self.write_named(value, Referent::Function);
            }
            Rule::Module => self.write_module(value)?,
            Rule::NumpyScalar => self.write_numpy_scalar(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn write_builtin(&mut self, value: &Bound<'py, PyAny>, kind: Builtin) -> Walked<()> {
        builtin::write_leaf(&mut self.stream, &mut self.scratch, kind, value.as_borrowed())
    }

    pub(super) fn write_fingerprint(&mut self, value: &Bound<'py, PyAny>) -> Walked<()> {
        let fingerprint = value.cast::<PyFingerprint>().map_err(PyErr::from)?.get();
        if !fingerprint.durable {
            if self.config.mode == Mode::Strict {
                return Err(Failure::refuse("not-durable", "a fingerprint inside the value is not durable")
                    .hint("make it in strict mode, or use mode=\"lenient\" here too"));
            }
            self.durable = false;
        }
        self.stream.fingerprint(&fingerprint.digest);
        Ok(())
    }

    /// Writes a class by name; false if only its structure can stand for it.
    pub(super) fn write_class(&mut self, class: &Bound<'py, PyType>) -> Walked<bool> {
        if is_enum_class(class)? {
            return Ok(false);
        }
        let name = Class::of(class)?;
        if reference::class_is_named(class, &name)? {
            self.stream.reference(Referent::Class, &name.module, &name.qualname);
            return Ok(true);
        }
        self.write_named(class.as_any(), Referent::Class)
    }

    /// Writes something by its name; false if there is none and structure may stand for it.
    pub(super) fn write_named(&mut self, value: &Bound<'py, PyAny>, referent: Referent) -> Walked<bool> {
        let (module, qualname) = reference::name_of(value)?;
        if reference::resolves(value, &module, &qualname)? {
            self.stream.reference(referent, &module, &qualname);
            return Ok(true);
        }
        if self.config.mode == Mode::Strict {
            return Err(reference::not_importable(referent, &module, &qualname));
        }
        if value.get_type_ptr() == &raw mut ffi::PyCFunction_Type {
            // Native code has no structure to look at; its name is all there is.
            self.durable = false;
            self.stream.reference(referent, &module, &qualname);
            return Ok(true);
        }
        Ok(false)
    }

    pub(super) fn write_module(&mut self, module: &Bound<'py, PyAny>) -> Walked<()> {
        let (name, _) = reference::name_of(module)?;
        if !reference::is_loaded_module(module, &name)? {
            if self.config.mode == Mode::Strict {
                return Err(reference::not_importable(Referent::Module, &name, ""));
            }
            // Two modules of one name would be taken for one: the very object stands for itself.
            self.durable = false;
            let token = identity::token(module)?;
            self.stream.identity(&token);
            return Ok(());
        }
        self.stream.reference(Referent::Module, &name, "");
        Ok(())
    }
}

fn bytearray_shape() -> &'static Fingerprint {
    static SHAPE: OnceLock<Fingerprint> = OnceLock::new();
    SHAPE.get_or_init(|| shape("builtin", "builtins", "bytearray", &["content"]))
}
