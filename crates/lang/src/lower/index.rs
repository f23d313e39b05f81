//! Members and elements of arrays.

use keyprint_source::ast;
use keyprint_source::position::Ranged;

use super::expr::no_member;
use super::value::{Value, describe};
use super::{Lower, Lowerer};
use crate::error::{Code, LangError};
use crate::host::{ArraySpec, Constant};
use crate::ir::{Binary, Expr, Kind, Place};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

impl Lowerer<'_> {
    pub(super) fn array_member(&mut self, spec: &ArraySpec, name: &str) -> Lower<Value> {
        match name {
            "shape" => {
                let scalar = self.options.default_int;
                let sizes = (0..spec.ndim).map(|at| match &spec.fixed {
                    Some((_, shape)) => Value::int(i128::from(shape[usize::from(at)])),
                    None => Value::Scalar(fold::cast(Scalar::I64, scalar, self.size(spec, at)), scalar),
                });
                Ok(Value::Tuple(sizes.collect()))
            }
            "ndim" => Ok(Value::int(i128::from(spec.ndim))),
            "dtype" => Ok(Value::Constant(Constant::Scalar(spec.scalar))),
            "n" | "m" if spec.element.is_some() => Ok(Value::int(match (spec.element, name) {
                (Some(Shape::Vector(n)), "n") => i128::from(n),
                (Some(Shape::Matrix(rows, _)), "n") => i128::from(rows),
                (Some(Shape::Matrix(_, columns)), _) => i128::from(columns),
                _ => 1,
            })),
            "fill" | "to_numpy" | "from_numpy" | "copy_from" => {
                Err(LangError::new(Code::Attribute, format!("`{name}` cannot be called in a kernel"))
                    .hint("call it from Python, before or after the kernel; or write a loop"))
            }
            _ => Err(no_member(&Value::Constant(Constant::Array(spec.clone())), name)),
        }
    }

    pub(super) fn subscript(&mut self, of: Value, slice: &ast::Expr) -> Lower<Value> {
        match of {
            Value::Constant(Constant::Array(spec)) => {
                let index = self.array_index(&spec, slice)?;
                self.element(&spec, index)
            }
            Value::Tuple(_) | Value::Constant(Constant::Tuple(_)) => {
                let items = self.elements(of)?;
                let at = self.expr(slice)?;
                self.current().at = slice.range();
                let at = self.known_int(&at, "the index of a tuple")?;
                let length = items.len() as i128;
                let place = if at < 0 { at + length } else { at };
                match items.into_iter().nth(usize::try_from(place).unwrap_or(usize::MAX)) {
                    Some(item) => Ok(item),
                    None => Err(LangError::new(Code::Index, format!("index {at} of a tuple of {length}"))),
                }
            }
            Value::Constant(Constant::Object(handle, what)) => {
                let at = self.expr(slice)?;
                self.current().at = slice.range();
                let at = self.known(at, "the index of an object")?;
                match self.host.item(handle, &at)? {
                    Some(item) => self.load_constant(item),
                    None => {
                        Err(LangError::new(Code::Index, format!("{what} has nothing at {}", describe(&at))))
                    }
                }
            }
            Value::Struct(members, kind)
                if members.iter().all(|(_, member)| {
                    matches!(member, Value::Constant(Constant::Array(_)) | Value::Struct(..))
                }) =>
            {
                // A field of structs: an array for each member.
                let at = members.into_iter().map(|(name, member)| Ok((name, self.subscript(member, slice)?)));
                Ok(Value::Struct(at.collect::<Lower<_>>()?, kind))
            }
            Value::Static(inner) => self.subscript(*inner, slice),
            other => self.tensor_item(other, slice),
        }
    }

    /// The indices of an element of an array, one `i64` for each dimension.
    pub(super) fn array_index(&mut self, spec: &ArraySpec, slice: &ast::Expr) -> Lower<Vec<Expr>> {
        let outer = std::mem::replace(&mut self.current().at, slice.range());
        let values = match slice {
            ast::Expr::Tuple(tuple) => self.items(&tuple.elts)?,
            single => vec![self.expr(single)?],
        };
        self.current().at = slice.range();
        let mut index = Vec::new();
        for value in values {
            match value {
                Value::Constant(Constant::None) if spec.ndim == 0 => {}
                Value::Tuple(_) | Value::Constant(Constant::Tuple(_)) => {
                    for item in self.elements(value)? {
                        index.push(self.one_index(spec, item)?);
                    }
                }
                value => match self.as_tensor(&value)? {
                    Some((_, scalar, items)) => {
                        for item in items {
                            index.push(self.one_index(spec, Value::Scalar(item, scalar))?);
                        }
                    }
                    None => index.push(self.one_index(spec, value)?),
                },
            }
        }
        if index.len() != usize::from(spec.ndim) {
            let hint = match (spec.ndim, index.len()) {
                (0, _) => format!("write `{}[None]`", spec.name),
                (ndim, n) if n > usize::from(ndim) && spec.element.is_some() => {
                    format!("the element is {}: write `{}[...][...]`", "a vector or matrix", spec.name)
                }
                (ndim, _) => format!("give {ndim} index{}", if ndim == 1 { "" } else { "es" }),
            };
            return Err(LangError::new(
                Code::Index,
                format!(
                    "`{}` has {} dimension{}, found {} index{}",
                    spec.name,
                    spec.ndim,
                    plural(spec.ndim.into()),
                    index.len(),
                    if index.len() == 1 { "" } else { "es" }
                ),
            )
            .hint(hint));
        }
        if self.options.debug {
            self.check_bounds(spec, &mut index)?;
        }
        self.current().at = outer;
        Ok(index)
    }

    pub(super) fn one_index(&mut self, spec: &ArraySpec, value: Value) -> Lower<Expr> {
        if let Value::Constant(Constant::Int(at)) = &value
            && *at < 0
        {
            return Err(LangError::new(
                Code::Index,
                format!("the index {at} of `{}` is negative", spec.name),
            )
            .hint(format!("count from the end with `{}.shape[0] - {}`", spec.name, -at)));
        }
        let described = value.describe();
        let (expr, scalar) = self.scalar(value)?;
        if !scalar.is_int() {
            return Err(LangError::new(Code::Index, format!("an index is an int, found {described}"))
                .hint("convert it: `int(...)`"));
        }
        Ok(self.widen(expr, scalar))
    }

    pub(super) fn check_bounds(&mut self, spec: &ArraySpec, index: &mut [Expr]) -> Lower<()> {
        let mut inside = Expr::Const(Scalar::Bool, 1);
        let mut values = Vec::new();
        for (at, entry) in index.iter_mut().enumerate() {
            *entry = self.once(std::mem::replace(entry, Expr::index(0)), Scalar::I64)?;
            let size = self.size(spec, at as u8);
            let low = fold::binary(Binary::Le, Expr::index(0), entry.clone());
            let high = fold::binary(Binary::Lt, entry.clone(), size.clone());
            inside = fold::binary(Binary::And, inside, fold::binary(Binary::And, low, high));
            values.push(entry.clone());
            values.push(size);
        }
        if inside == Expr::Const(Scalar::Bool, 1) {
            return Ok(());
        }
        let site = self.site(format!("bounds:{}", spec.name));
        self.emit(Kind::Check { condition: inside, site, values })
    }

    pub(super) fn element(&mut self, spec: &ArraySpec, index: Vec<Expr>) -> Lower<Value> {
        let place = Place { array: self.array(spec), index, lane: None };
        Ok(match spec.element {
            None => Value::Scalar(Expr::Load(Box::new(place)), spec.scalar),
            Some(shape) => Value::Element(place, shape, spec.scalar),
        })
    }
}

pub(super) fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}
