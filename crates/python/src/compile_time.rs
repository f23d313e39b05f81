//! Compile-time values: what the Python half answers when the compiler asks about objects.
//!
//! Answers are made by constructors with names. `None`, bools, ints, floats and texts stand for themselves.

use std::rc::Rc;

use keyprint_lang::host::{
    Annotation, ArraySpec, Constant, FunctionSource, Handle, NumberSpec, Parameter, StructType,
};
use keyprint_lang::lower::builtins::builtin;
use keyprint_lang::types::{Scalar, Shape};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};

/// Gives numbers to objects that only Python knows.
pub(crate) trait Handles<'py> {
    fn handle(&mut self, object: Bound<'py, PyAny>) -> Handle;
}

/// Something that is known when a kernel is compiled.
#[pyclass(frozen, name = "CompileTimeValue", module = "keyprint._native")]
pub(crate) struct CompileTimeValue(Value);

enum Value {
    Scalar(Scalar),
    TensorType(Shape, Scalar),
    StructType(StructTypeValue),
    Enum { member: Py<PyAny>, value: i128, is_int: bool },
    Builtin(&'static str),
    Function { function: Py<PyAny>, bound: Option<Py<PyAny>> },
    Tuple(Vec<Py<PyAny>>),
    Tensor { shape: Shape, scalar: Scalar, items: Vec<Py<PyAny>> },
    Array(ArraySpec),
    Number(NumberSpec),
    Numbers(Shape, Vec<NumberSpec>),
    Struct { members: Vec<(String, Py<PyAny>)>, kind: Option<Py<CompileTimeValue>> },
    Object { object: Py<PyAny>, label: String },
}

struct StructTypeValue {
    name: String,
    members: Vec<(String, Py<PyAny>)>,
    methods: Vec<(String, Py<PyAny>)>,
}

fn scalar_of(name: &str) -> PyResult<Scalar> {
    Scalar::of_name(name).ok_or_else(|| PyValueError::new_err(format!("no such type: `{name}`")))
}

fn shape_of(sizes: &[u32]) -> PyResult<Shape> {
    match *sizes {
        [n] => Ok(Shape::Vector(n)),
        [rows, columns] => Ok(Shape::Matrix(rows, columns)),
        _ => Err(PyValueError::new_err("a vector has one size, a matrix two")),
    }
}

#[pymethods]
impl CompileTimeValue {
    /// A type of numbers.
    #[staticmethod]
    #[pyo3(signature = (name, /))]
    fn scalar(name: &str) -> PyResult<Self> {
        Ok(Self(Value::Scalar(scalar_of(name)?)))
    }

    /// A type of vectors or matrices.
    #[staticmethod]
    #[pyo3(signature = (shape, scalar, /))]
    fn tensor_type(shape: Vec<u32>, scalar: &str) -> PyResult<Self> {
        Ok(Self(Value::TensorType(shape_of(&shape)?, scalar_of(scalar)?)))
    }

    /// A type of structs: types of its members, and functions that it has, by name.
    #[staticmethod]
    #[pyo3(signature = (name, members, methods, /))]
    fn struct_type(
        name: String,
        members: Vec<(String, Py<PyAny>)>,
        methods: Vec<(String, Py<PyAny>)>,
    ) -> Self {
        Self(Value::StructType(StructTypeValue { name, members, methods }))
    }

    /// A whole number that is a member of an enum, or the value of one.
    #[staticmethod]
    #[pyo3(signature = (member, value, *, is_int))]
    fn enumerated(member: Py<PyAny>, value: i128, is_int: bool) -> Self {
        Self(Value::Enum { member, value, is_int })
    }

    /// Something that the language defines.
    #[staticmethod]
    #[pyo3(signature = (name, /))]
    fn builtin(name: &str) -> PyResult<Self> {
        let known = builtin(name);
        Ok(Self(Value::Builtin(known.ok_or_else(|| PyValueError::new_err(format!("no builtin `{name}`")))?)))
    }

    /// A function of the program, and what its first parameter is bound to.
    #[staticmethod]
    #[pyo3(signature = (function, bound=None, /))]
    fn function(function: Py<PyAny>, bound: Option<Py<PyAny>>) -> Self {
        Self(Value::Function { function, bound })
    }

    /// A tuple or list.
    #[staticmethod]
    #[pyo3(signature = (items, /))]
    fn tuple(items: Vec<Py<PyAny>>) -> Self {
        Self(Value::Tuple(items))
    }

    /// A vector or matrix whose numbers are known.
    #[staticmethod]
    #[pyo3(signature = (shape, scalar, items, /))]
    fn tensor(shape: Vec<u32>, scalar: &str, items: Vec<Py<PyAny>>) -> PyResult<Self> {
        Ok(Self(Value::Tensor { shape: shape_of(&shape)?, scalar: scalar_of(scalar)?, items }))
    }

    /// An array: `read_only` says why it cannot be written and what to do, `fixed` where it is if it is part of
    /// the program.
    #[staticmethod]
    #[pyo3(signature = (name, scalar, ndim, *, element, lanes_in_shape, contiguous, read_only, fixed))]
    #[allow(clippy::too_many_arguments, reason = "each has a name in Python")]
    fn array(
        name: String,
        scalar: &str,
        ndim: u8,
        element: Option<Vec<u32>>,
        lanes_in_shape: bool,
        contiguous: bool,
        read_only: Option<(String, String)>,
        fixed: Option<(u64, Vec<i64>)>,
    ) -> PyResult<Self> {
        let element = element.map(|sizes| shape_of(&sizes)).transpose()?;
        let scalar = scalar_of(scalar)?;
        Ok(Self(Value::Array(ArraySpec {
            name,
            scalar,
            ndim,
            element,
            lanes_in_shape,
            contiguous,
            read_only,
            fixed,
        })))
    }

    /// A number that comes with each call.
    #[staticmethod]
    #[pyo3(signature = (name, scalar, *, can_be_constant))]
    fn number(name: String, scalar: &str, can_be_constant: bool) -> PyResult<Self> {
        Ok(Self(Value::Number(NumberSpec { name, scalar: scalar_of(scalar)?, can_be_constant })))
    }

    /// A vector or matrix that comes with each call: the names of its numbers.
    #[staticmethod]
    #[pyo3(signature = (shape, scalar, names, /))]
    fn numbers(shape: Vec<u32>, scalar: &str, names: Vec<String>) -> PyResult<Self> {
        let scalar = scalar_of(scalar)?;
        let numbers = names.into_iter().map(|name| NumberSpec { name, scalar, can_be_constant: false });
        Ok(Self(Value::Numbers(shape_of(&shape)?, numbers.collect())))
    }

    /// A struct whose members are these, and its type.
    #[staticmethod]
    #[pyo3(name = "struct", signature = (members, kind, /))]
    fn of_members(members: Vec<(String, Py<PyAny>)>, kind: Option<Py<Self>>) -> Self {
        Self(Value::Struct { members, kind })
    }

    /// A module, an instance: anything that has members. `label` is what messages call it.
    #[staticmethod]
    #[pyo3(signature = (object, label, /))]
    fn object(object: Py<PyAny>, label: String) -> Self {
        Self(Value::Object { object, label })
    }

    /// What messages call an object; nothing for anything else.
    #[getter]
    fn label(&self) -> Option<&str> {
        match &self.0 {
            Value::Object { label, .. } => Some(label),
            _ => None,
        }
    }

    /// Whether it is a function.
    #[getter]
    fn is_function(&self) -> bool {
        matches!(self.0, Value::Function { .. })
    }

    /// Type of numbers, number of dimensions and sizes of an element of an array; nothing for anything else.
    #[getter]
    fn array_of(&self) -> Option<(&'static str, u8, Option<Vec<u32>>)> {
        let Value::Array(array) = &self.0 else { return None };
        let element = array.element.map(|shape| match shape {
            Shape::Vector(n) => vec![n],
            Shape::Matrix(rows, columns) => vec![rows, columns],
        });
        Some((array.scalar.name(), array.ndim, element))
    }

    /// Whether another is the same, to the type and the last bit. Objects are the same if they are one.
    #[pyo3(signature = (other, /))]
    fn is_same(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        self.0.is_same(py, &other.0)
    }
}

/// Whether two answers are the same: plain values by type and bits, others as they say.
fn same(py: Python<'_>, a: &Py<PyAny>, b: &Py<PyAny>) -> PyResult<bool> {
    let (a, b) = (a.bind(py), b.bind(py));
    if a.is(b) {
        return Ok(true);
    }
    if !a.get_type().is(b.get_type()) {
        return Ok(false);
    }
    if let (Ok(a), Ok(b)) = (a.cast::<CompileTimeValue>(), b.cast::<CompileTimeValue>()) {
        return a.get().is_same(py, b.get());
    }
    if let (Ok(a), Ok(b)) = (a.cast_exact::<PyFloat>(), b.cast_exact::<PyFloat>()) {
        return Ok(a.extract::<f64>()?.to_bits() == b.extract::<f64>()?.to_bits());
    }
    let is_plain = a.is_exact_instance_of::<PyInt>() || a.is_exact_instance_of::<PyString>();
    Ok(is_plain && a.eq(b)?)
}

fn all_same(py: Python<'_>, a: &[Py<PyAny>], b: &[Py<PyAny>]) -> PyResult<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    a.iter().zip(b).try_fold(true, |so_far, (a, b)| Ok(so_far && same(py, a, b)?))
}

fn members_same(py: Python<'_>, a: &[(String, Py<PyAny>)], b: &[(String, Py<PyAny>)]) -> PyResult<bool> {
    if a.len() != b.len() || a.iter().zip(b).any(|(a, b)| a.0 != b.0) {
        return Ok(false);
    }
    a.iter().zip(b).try_fold(true, |so_far, (a, b)| Ok(so_far && same(py, &a.1, &b.1)?))
}

impl Value {
    fn is_same(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        Ok(match (self, other) {
            (Self::Scalar(a), Self::Scalar(b)) => a == b,
            (Self::TensorType(shape, a), Self::TensorType(other, b)) => (shape, a) == (other, b),
            (Self::StructType(a), Self::StructType(b)) => {
                a.name == b.name
                    && members_same(py, &a.members, &b.members)?
                    && members_same(py, &a.methods, &b.methods)?
            }
            (Self::Enum { member: a, .. }, Self::Enum { member: b, .. }) => a.is(b),
            (Self::Builtin(a), Self::Builtin(b)) => a == b,
            (Self::Function { function: a, bound: x }, Self::Function { function: b, bound: y }) => {
                a.is(b)
                    && match (x, y) {
                        (Some(x), Some(y)) => same(py, x, y)?,
                        (None, None) => true,
                        _ => false,
                    }
            }
            (Self::Tuple(a), Self::Tuple(b)) => all_same(py, a, b)?,
            (
                Self::Tensor { shape, scalar, items },
                Self::Tensor { shape: other, scalar: kind, items: numbers },
            ) => (shape, scalar) == (other, kind) && all_same(py, items, numbers)?,
            (Self::Array(a), Self::Array(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::Numbers(shape, a), Self::Numbers(other, b)) => (shape, a) == (other, b),
            (Self::Struct { members: a, kind: x }, Self::Struct { members: b, kind: y }) => {
                members_same(py, a, b)?
                    && match (x, y) {
                        (Some(x), Some(y)) => x.get().is_same(py, y.get())?,
                        (None, None) => true,
                        _ => false,
                    }
            }
            (Self::Object { object: a, .. }, Self::Object { object: b, .. }) => a.is(b),
            _ => false,
        })
    }
}

/// What an answer means to the compiler.
pub(crate) fn constant<'py>(
    answer: &Bound<'py, PyAny>,
    handles: &mut impl Handles<'py>,
) -> PyResult<Constant> {
    if answer.is_none() {
        return Ok(Constant::None);
    }
    if answer.is_exact_instance_of::<PyBool>() {
        return Ok(Constant::Bool(answer.extract()?));
    }
    if answer.is_exact_instance_of::<PyInt>() {
        return Ok(Constant::Int(answer.extract().map_err(|_| PyValueError::new_err("an int too large"))?));
    }
    if answer.is_exact_instance_of::<PyFloat>() {
        return Ok(Constant::Float(answer.extract()?));
    }
    if answer.is_exact_instance_of::<PyString>() {
        return Ok(Constant::Text(answer.extract()?));
    }
    let py = answer.py();
    let object = |object: &Py<PyAny>| object.bind(py).clone();
    Ok(match &answer.cast::<CompileTimeValue>()?.get().0 {
        Value::Scalar(scalar) => Constant::Scalar(*scalar),
        Value::TensorType(shape, scalar) => Constant::TensorType(*shape, *scalar),
        Value::StructType(kind) => Constant::StructType(struct_type(py, kind, handles)?),
        Value::Enum { member, value, is_int } => {
            Constant::Enum(handles.handle(object(member)), *value, *is_int)
        }
        Value::Builtin(name) => Constant::Builtin(name),
        Value::Function { function, bound } => {
            let handle = handles.handle(object(function));
            let bound = bound.as_ref().map(|bound| constant(bound.bind(py), handles)).transpose()?;
            Constant::Function(handle, bound.map(Box::new))
        }
        Value::Tuple(items) => Constant::Tuple(constants(py, items, handles)?),
        Value::Tensor { shape, scalar, items } => {
            Constant::Tensor(*shape, *scalar, constants(py, items, handles)?)
        }
        Value::Array(array) => Constant::Array(array.clone()),
        Value::Number(number) => Constant::Number(number.clone()),
        Value::Numbers(shape, numbers) => Constant::Numbers(*shape, numbers.clone()),
        Value::Struct { members, kind } => {
            let kind = match kind.as_ref().map(|kind| &kind.get().0) {
                Some(Value::StructType(kind)) => Some(struct_type(py, kind, handles)?),
                Some(_) => return Err(PyValueError::new_err("the type of a struct is one of structs")),
                None => None,
            };
            Constant::Struct(named(py, members, handles)?, kind)
        }
        Value::Object { object: held, label } => {
            Constant::Object(handles.handle(object(held)), label.clone())
        }
    })
}

fn constants<'py>(
    py: Python<'py>,
    items: &[Py<PyAny>],
    handles: &mut impl Handles<'py>,
) -> PyResult<Vec<Constant>> {
    items.iter().map(|item| constant(item.bind(py), handles).map(number)).collect()
}

fn named<'py>(
    py: Python<'py>,
    members: &[(String, Py<PyAny>)],
    handles: &mut impl Handles<'py>,
) -> PyResult<Vec<(String, Constant)>> {
    members
        .iter()
        .map(|(name, member)| Ok((name.clone(), number(constant(member.bind(py), handles)?))))
        .collect()
}

fn struct_type<'py>(
    py: Python<'py>,
    kind: &StructTypeValue,
    handles: &mut impl Handles<'py>,
) -> PyResult<Rc<StructType>> {
    Ok(Rc::new(StructType {
        name: kind.name.clone(),
        members: named(py, &kind.members, handles)?,
        methods: named(py, &kind.methods, handles)?,
    }))
}

/// A number, whatever enum it is a member of.
fn number(constant: Constant) -> Constant {
    if let Constant::Enum(_, value, _) = constant { Constant::Int(value) } else { constant }
}

/// What a parameter, or the result of a function, is annotated with.
#[pyclass(frozen, name = "AnnotationValue", module = "keyprint._native")]
pub(crate) struct AnnotationValue(AnnotationKind);

enum AnnotationKind {
    Missing,
    Template,
    Array,
    Object,
    Type(Py<CompileTimeValue>),
}

#[pymethods]
impl AnnotationValue {
    /// Nothing.
    #[staticmethod]
    fn missing() -> Self {
        Self(AnnotationKind::Missing)
    }

    /// Anything, passed on as it is.
    #[staticmethod]
    fn template() -> Self {
        Self(AnnotationKind::Template)
    }

    /// An array.
    #[staticmethod]
    fn array() -> Self {
        Self(AnnotationKind::Array)
    }

    /// An object with members.
    #[staticmethod]
    fn object() -> Self {
        Self(AnnotationKind::Object)
    }

    /// A type of numbers, vectors, matrices or structs.
    #[staticmethod]
    #[pyo3(name = "type", signature = (value, /))]
    fn of_type(value: Py<CompileTimeValue>) -> Self {
        Self(AnnotationKind::Type(value))
    }
}

impl AnnotationValue {
    fn annotation<'py>(&self, py: Python<'py>, handles: &mut impl Handles<'py>) -> PyResult<Annotation> {
        Ok(match &self.0 {
            AnnotationKind::Missing => Annotation::Missing,
            AnnotationKind::Template => Annotation::Template,
            AnnotationKind::Array => Annotation::Array,
            AnnotationKind::Object => Annotation::Object,
            AnnotationKind::Type(value) => match constant(value.bind(py), handles)? {
                Constant::Scalar(scalar) => Annotation::Scalar(scalar),
                Constant::TensorType(shape, scalar) => Annotation::Tensor(shape, scalar),
                Constant::StructType(kind) => Annotation::Struct(kind),
                _ => Annotation::Missing,
            },
        })
    }
}

/// A parameter of a function that is inlined.
#[pyclass(frozen, name = "ParameterValue", module = "keyprint._native")]
pub(crate) struct ParameterValue {
    name: String,
    annotation: Py<AnnotationValue>,
    /// Nothing, or the one default.
    default: Vec<Py<PyAny>>,
}

#[pymethods]
impl ParameterValue {
    /// `default` holds one value, or none.
    #[new]
    #[pyo3(signature = (name, annotation, default, /))]
    fn new(name: String, annotation: Py<AnnotationValue>, default: Vec<Py<PyAny>>) -> Self {
        Self { name, annotation, default }
    }
}

/// The source of a function, and what it takes and returns.
#[pyclass(frozen, name = "FunctionSource", module = "keyprint._native")]
pub(crate) struct FunctionValue {
    name: String,
    file: String,
    line: u32,
    indent: u32,
    text: String,
    parameters: Vec<Py<ParameterValue>>,
    returns: Py<AnnotationValue>,
}

#[pymethods]
impl FunctionValue {
    /// `indent` says by how many characters the text was moved to the left.
    #[new]
    #[pyo3(signature = (name, file, *, line, indent, text, parameters, returns))]
    fn new(
        name: String,
        file: String,
        line: u32,
        indent: u32,
        text: String,
        parameters: Vec<Py<ParameterValue>>,
        returns: Py<AnnotationValue>,
    ) -> Self {
        Self { name, file, line, indent, text, parameters, returns }
    }
}

impl FunctionValue {
    /// What the compiler gets of it.
    pub(crate) fn source<'py>(
        &self,
        py: Python<'py>,
        handles: &mut impl Handles<'py>,
    ) -> PyResult<FunctionSource> {
        let mut parameters = Vec::new();
        for parameter in self.parameters.iter().map(Py::get) {
            parameters.push(Parameter {
                name: parameter.name.clone(),
                annotation: parameter.annotation.get().annotation(py, handles)?,
                default: match parameter.default.first() {
                    Some(default) => Some(constant(default.bind(py), handles)?),
                    None => None,
                },
            });
        }
        Ok(FunctionSource {
            name: self.name.clone(),
            file: self.file.clone(),
            line: self.line,
            indent: self.indent,
            text: self.text.clone(),
            parameters,
            returns: self.returns.get().annotation(py, handles)?,
        })
    }
}
