//! Arrays, scalars and element types.

use keyprint_array::{Descriptor, make_nans_alike, write_spec};

use super::*;

impl<'a, 'py> Walk<'a, 'py> {
    pub(super) fn open_numpy(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        standing: Standing,
    ) -> Walked<()> {
        if self.config.arrays == Arrays::Identity {
            return self.write_identity(&value);
        }
        let dtype = value.getattr(intern!(self.py, "dtype"))?;
        let plain = layout.kind == "array";
        if plain {
            return match element::of_dtype(&dtype)? {
                Some(element) => self.write_elements(&Elements::of_numpy(&value, element)?),
                None => self.open_object_array(value, standing),
            };
        }
        // A subclass: the array inside it, and its state.
        let base = classify::loaded(self.py, "numpy", "ndarray").expect("an instance exists");
        let content = value.call_method1(intern!(self.py, "view"), (base,))?;
        let items = vec![Item::Value(content), self.attributes(self.state(&known.plan, &value, &[])?)];
        self.open_record(value, known, layout, items, &["", ""], standing)
    }

    pub(super) fn write_elements(&mut self, elements: &Elements<'py>) -> Walked<()> {
        match self.config.arrays {
            Arrays::Spec => {
                elements.write_spec(&mut self.stream);
                Ok(())
            }
            _ => elements.write(&mut self.stream),
        }
    }

    pub(super) fn open_object_array(&mut self, value: Bound<'py, PyAny>, standing: Standing) -> Walked<()> {
        let shape: Vec<usize> = value.getattr(intern!(self.py, "shape"))?.extract()?;
        let dtype = value.getattr(intern!(self.py, "dtype"))?;
        let kind: String = dtype.getattr(intern!(self.py, "kind"))?.extract()?;
        if self.config.arrays == Arrays::Spec {
            write_spec(&mut self.stream, &Descriptor::Plain(kind), shape.len(), "C", &[], None);
            return Ok(());
        }
        let flat = value.call_method1(intern!(self.py, "reshape"), (-1,))?;
        let values: Vec<Bound<'py, PyAny>> = flat.call_method0(intern!(self.py, "tolist"))?.extract()?;
        let mark = self.stream.begin(tag::OBJECT_ARRAY);
        self.stream.str(&kind);
        self.stream.length(shape.len());
        for length in &shape {
            self.stream.length(*length);
        }
        let opening = Opening::new(values.len(), mark, standing);
        self.push(Source::Values(values), value, opening)
    }

    /// A NumPy scalar: its element type and its bytes, every NaN one value.
    pub(super) fn write_numpy_scalar(&mut self, value: &Bound<'py, PyAny>) -> Walked<()> {
        let numpy = self.py.import(intern!(self.py, "numpy"))?;
        let array = numpy.call_method1(intern!(self.py, "asarray"), (value,))?;
        let Some(element) = element::of_dtype(&array.getattr(intern!(self.py, "dtype"))?)? else {
            return Err(Failure::refuse("array-format", "a NumPy scalar of objects is not read"));
        };
        let elements = Elements::of_numpy(&array, element)?;
        match elements.descriptor() {
            Descriptor::Plain(code) => {
                let mut bytes = elements.packed();
                make_nans_alike(code, &mut bytes);
                self.stream.scalar(code, &bytes);
            }
            _ => {
                let mark = self.stream.open_record(&shape("scalar", "numpy", "void", &["content"]));
                elements.write(&mut self.stream)?;
                self.stream.close(mark);
            }
        }
        Ok(())
    }

    pub(super) fn open_dtype(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        standing: Standing,
    ) -> Walked<()> {
        let Reduction::Parts(items) = reduce::reduce(&value, &known.plan)? else {
            return Err(Failure::refuse("malformed-reduction", "a dtype reduced to a name"));
        };
        let mark = self.stream.open_record(&layout.digest);
        self.push_items(value, items, REDUCE, mark, standing)
    }

    pub(super) fn open_foreign(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        standing: Standing,
    ) -> Walked<()> {
        if self.config.arrays == Arrays::Identity {
            return self.write_identity(&value);
        }
        known.require_name()?;
        self.watch_open();
        if self.config.arrays == Arrays::Spec {
            if let Some(refusal) = array::without_elements(&value, false)? {
                return Err(refusal);
            }
            let mark = self.stream.open_record(&layout.digest);
            self.write_foreign_spec(&value)?;
            return self.push_items(value, vec![self.attributes(Vec::new())], &[""], mark, standing);
        }
        let elements = match Elements::of_foreign(&value)? {
            Ok(elements) => elements,
            // A column of texts, say: then it is what it reduces to.
            Err(cause) => {
                let layout = Layout::of_reduction(&known.plan.class);
                return self
                    .open_reduced(value, known, &layout, standing)
                    .map_err(|failure| failure.because(self.py, cause));
            }
        };
        let mark = self.stream.open_record(&layout.digest);
        elements.write(&mut self.stream)?;
        let mut state = array::marks(&value)?;
        state.extend(self.state(&known.plan, &value, &[])?);
        self.push_items(value, vec![self.attributes(state)], &[""], mark, standing)
    }

    /// The specification of an array of another library, from its attributes: nothing is copied.
    pub(super) fn write_foreign_spec(&mut self, value: &Bound<'py, PyAny>) -> Walked<()> {
        let missing = |error: PyErr| {
            Failure::refuse("array-format", "the array does not tell its dtype and shape")
                .because(self.py, error)
        };
        let element =
            value.getattr(intern!(self.py, "dtype")).and_then(|dtype| dtype.str()).map_err(missing)?;
        let element = element.to_string_lossy().into_owned();
        let shape: Vec<usize> =
            value.getattr(intern!(self.py, "shape")).and_then(|shape| shape.extract()).map_err(missing)?;
        let element_shape: Vec<usize> = match value.getattr_opt(intern!(self.py, "element_shape"))? {
            Some(shape) => shape.extract()?,
            None => Vec::new(),
        };
        let is_weak = array::marks(value)?.iter().any(|(name, _)| name.eq("weak_type").unwrap_or(false));
        let element = Descriptor::Plain(format!("{}{element}", if is_weak { "weak " } else { "" }));
        let mut needs_grad = None;
        for name in ["needs_grad", "requires_grad"] {
            needs_grad = truth(value, name)?.or(needs_grad);
        }
        let order = told_order(value)?;
        write_spec(&mut self.stream, &element, shape.len(), order, &element_shape, needs_grad);
        Ok(())
    }

    pub(super) fn open_buffer(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &Known<'py>,
        layout: &Layout,
        standing: Standing,
    ) -> Walked<()> {
        if self.config.arrays == Arrays::Identity {
            return self.write_identity(&value);
        }
        if layout.kind == "buffer" {
            known.require_name()?;
        }
        let mark = self.stream.open_record(&layout.digest);
        let elements = Elements::of_buffer(&value)?;
        self.write_elements(&elements)?;
        // A program can tell types of one size apart by it: `l` and `q`.
        let format = Item::Bytes(elements.format().as_bytes().to_vec());
        drop(elements);
        let items = vec![format, self.attributes(self.state(&known.plan, &value, &[])?)];
        self.push_items(value, items, &["", ""], mark, standing)
    }
}

/// What an object answers to a question; nothing if it has no such attribute.
fn truth(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<bool>> {
    value.getattr_opt(name)?.map(|answer| answer.is_truthy()).transpose()
}

/// How an array says that it is laid out: `C`, `F` or `strided`.
fn told_order(value: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    if let Some(is_contiguous) = value.getattr_opt(intern!(value.py(), "is_contiguous"))?
        && is_contiguous.is_callable()
    {
        return Ok(if is_contiguous.call0()?.is_truthy()? { "C" } else { "strided" });
    }
    let Some(flags) = value.getattr_opt(intern!(value.py(), "flags"))? else { return Ok("unknown") };
    for (name, order) in [("c_contiguous", "C"), ("f_contiguous", "F")] {
        if truth(&flags, name)? == Some(true) {
            return Ok(order);
        }
    }
    Ok("strided")
}
