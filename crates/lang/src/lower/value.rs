//! What expressions are while a kernel is lowered: constants, numbers, vectors, and things that only
//! exist until then.

use crate::error::{Code, LangError};
use crate::host::{Constant, StructType};
use crate::ir::{Expr, LocalId, Place};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

/// The value of an expression.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Known already.
    Constant(Constant),
    /// A number.
    Scalar(Expr, Scalar),
    /// A vector or matrix, number by number.
    Tensor(Shape, Scalar, Vec<Expr>),
    /// A variable that is one.
    Variable(LocalId, Shape),
    /// An element of an array that is one; the place has no lane yet.
    Element(Place, Shape, Scalar),
    /// A struct, member by member.
    Struct(Vec<(String, Value)>, Option<std::rc::Rc<StructType>>),
    /// A tuple, or what stands for one until it is taken apart.
    Tuple(Vec<Value>),
    /// A range of numbers.
    Range(Vec<Value>),
    /// A box of indices: bounds for each dimension.
    Ndrange(Vec<(Value, Value)>),
    /// Indices as vectors.
    Grouped(Box<Value>),
    /// Known when compiled, and to be unrolled or decided then.
    Static(Box<Value>),
    /// Something that a value can do.
    Method(Box<Value>, String),
}

impl Value {
    pub(super) fn int(value: i128) -> Self {
        Self::Constant(Constant::Int(value))
    }

    /// What it is, for people.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Constant(constant) => describe(constant),
            Self::Scalar(_, scalar) => format!("a `{scalar}`"),
            Self::Tensor(shape, scalar, _) | Self::Element(_, shape, scalar) => {
                tensor_text(*shape, Some(*scalar))
            }
            Self::Variable(_, shape) => tensor_text(*shape, None),
            Self::Struct(_, Some(kind)) => format!("a struct `{}`", kind.name),
            Self::Struct(_, None) => "a struct".to_owned(),
            Self::Tuple(items) => format!("a tuple of {}", items.len()),
            Self::Range(_) => "a `range`".to_owned(),
            Self::Ndrange(_) => "an `ndrange`".to_owned(),
            Self::Grouped(_) => "`grouped` indices".to_owned(),
            Self::Static(inner) => inner.describe(),
            Self::Method(of, name) => format!("the method `{name}` of {}", of.describe()),
        }
    }

    /// Every expression in it.
    pub(super) fn expressions_mut(&mut self, each: &mut dyn FnMut(&mut Expr)) {
        match self {
            Self::Constant(_) | Self::Variable(..) => {}
            Self::Scalar(expr, _) => each(expr),
            Self::Tensor(_, _, items) => items.iter_mut().for_each(each),
            Self::Element(place, ..) => place.expressions_mut().for_each(each),
            Self::Struct(members, _) => {
                members.iter_mut().for_each(|(_, member)| member.expressions_mut(each))
            }
            Self::Tuple(items) | Self::Range(items) => {
                items.iter_mut().for_each(|item| item.expressions_mut(each));
            }
            Self::Ndrange(bounds) => bounds.iter_mut().for_each(|(from, to)| {
                from.expressions_mut(each);
                to.expressions_mut(each);
            }),
            Self::Grouped(inner) | Self::Static(inner) | Self::Method(inner, _) => {
                inner.expressions_mut(each)
            }
        }
    }
}

pub(super) fn tensor_text(shape: Shape, scalar: Option<Scalar>) -> String {
    let of = scalar.map_or_else(String::new, |scalar| format!(" of `{scalar}`"));
    match shape {
        Shape::Vector(n) => format!("a vector of {n}{of}").replace(" of `", " `"),
        Shape::Matrix(rows, columns) => format!("a {rows}x{columns} matrix{of}"),
    }
}

/// What a constant is, for people.
pub(super) fn describe(constant: &Constant) -> String {
    match constant {
        Constant::None => "`None`".to_owned(),
        Constant::Bool(true) => "`True`".to_owned(),
        Constant::Bool(false) => "`False`".to_owned(),
        Constant::Int(value) | Constant::Enum(_, value, _) => format!("the int `{value}`"),
        Constant::Float(value) => format!("the float `{value:?}`"),
        Constant::Text(_) => "a text".to_owned(),
        Constant::Scalar(scalar) => format!("the type `{scalar}`"),
        Constant::TensorType(shape, scalar) => format!("the type {}", tensor_text(*shape, Some(*scalar))),
        Constant::StructType(kind) => format!("the struct type `{}`", kind.name),
        Constant::Builtin(name) => format!("`{name}`"),
        Constant::Function(..) => "a function".to_owned(),
        Constant::Tuple(items) => format!("a tuple of {}", items.len()),
        Constant::Tensor(shape, scalar, _) => tensor_text(*shape, Some(*scalar)),
        Constant::Array(spec) => array_text(spec.scalar, spec.ndim, spec.element),
        Constant::Number(spec) => format!("a `{}`", spec.scalar),
        Constant::Numbers(shape, _) => tensor_text(*shape, None),
        Constant::Struct(..) => "a struct".to_owned(),
        Constant::Object(_, what) => what.clone(),
    }
}

fn array_text(scalar: Scalar, ndim: u8, element: Option<Shape>) -> String {
    let element = element.map_or_else(|| format!("`{scalar}`"), |shape| tensor_text(shape, Some(scalar)));
    format!("an array of {ndim} dimension{} of {element}", if ndim == 1 { "" } else { "s" })
}

/// A number that is known, with the type that it has in a kernel.
pub(super) fn number(
    constant: &Constant,
    default_int: Scalar,
    default_float: Scalar,
) -> Result<Option<(Expr, Scalar)>, LangError> {
    Ok(match constant {
        Constant::Bool(value) => Some((Expr::Const(Scalar::Bool, u64::from(*value)), Scalar::Bool)),
        Constant::Int(value) => {
            let fits = |scalar: Scalar| fold::whole(scalar, fold::wrap(scalar, *value)) == *value;
            let scalar =
                [default_int, Scalar::I64, Scalar::U64].into_iter().find(|candidate| fits(*candidate));
            let Some(scalar) = scalar else {
                return Err(LangError::new(Code::Overflow, format!("`{value}` does not fit into 64 bits")));
            };
            Some((Expr::Const(scalar, fold::wrap(scalar, *value)), scalar))
        }
        Constant::Float(value) => {
            Some((Expr::Const(default_float, fold::float_bits(default_float, *value)), default_float))
        }
        _ => None,
    })
}
