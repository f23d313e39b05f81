//! What vectors and matrices can do.

use keyprint_source::ast::{self, Operator};
use keyprint_source::position::Ranged;

use super::expr::{made, no_member, truth_of};
use super::value::Value;
use super::{Lower, Lowerer};
use crate::error::{Code, LangError};
use crate::host::Constant;
use crate::ir::{Binary, Expr, Kind, Math, Place};
use crate::passes::fold;
use crate::types::{Scalar, Shape};

/// Names of the numbers of a vector.
const NAMES: [&str; 3] = ["xyzw", "rgba", "stpq"];

/// Vectors and matrices with more numbers are refused: they are taken apart.
const MOST_LANES: u32 = 1024;

/// What a vector or matrix can do.
const METHODS: &[&str] = &[
    "all",
    "any",
    "cast",
    "cross",
    "determinant",
    "dot",
    "fill",
    "inverse",
    "max",
    "min",
    "norm",
    "norm_inv",
    "norm_sqr",
    "normalized",
    "outer_product",
    "sum",
    "trace",
    "transpose",
];

/// The lanes that a name such as `xzy` stands for; nothing if it is none.
pub(super) fn swizzle(name: &str, length: u32) -> Option<Vec<u32>> {
    for names in NAMES {
        let lanes: Option<Vec<u32>> =
            name.chars().map(|letter| names.find(letter).map(|at| at as u32)).collect();
        if let Some(lanes) = lanes
            && !lanes.is_empty()
            && lanes.len() <= 4
            && lanes.iter().all(|lane| *lane < length)
        {
            return Some(lanes);
        }
    }
    None
}

impl Lowerer<'_> {
    pub(super) fn tensor_member(&mut self, of: Value, name: &str) -> Lower<Value> {
        let Some((shape, scalar, items)) = self.as_tensor(&of)? else { return Err(no_member(&of, name)) };
        match (name, shape) {
            ("n", Shape::Vector(n) | Shape::Matrix(n, _)) => return Ok(Value::int(n.into())),
            ("m", Shape::Matrix(_, m)) => return Ok(Value::int(m.into())),
            ("m", Shape::Vector(_)) => return Ok(Value::int(1)),
            ("shape", Shape::Vector(n)) => return Ok(Value::Tuple(vec![Value::int(n.into())])),
            ("shape", Shape::Matrix(n, m)) => {
                return Ok(Value::Tuple(vec![Value::int(n.into()), Value::int(m.into())]));
            }
            _ => {}
        }
        if METHODS.contains(&name) {
            return Ok(Value::Method(Box::new(of), name.to_owned()));
        }
        if let Shape::Vector(length) = shape
            && let Some(lanes) = swizzle(name, length)
        {
            let mut numbers: Vec<Expr> = lanes.iter().map(|lane| items[*lane as usize].clone()).collect();
            return Ok(match numbers.len() {
                1 => Value::Scalar(numbers.remove(0), scalar),
                many => Value::Tensor(Shape::Vector(many as u32), scalar, numbers),
            });
        }
        Err(no_member(&of, name))
    }

    /// The lane of a vector or matrix that a subscript stands for: an `i64`. A row of a matrix comes with
    /// nothing instead.
    pub(super) fn lane(&mut self, shape: Shape, slice: &ast::Expr) -> Lower<Lane> {
        let outer = std::mem::replace(&mut self.current().at, slice.range());
        let mut values = match slice {
            ast::Expr::Tuple(tuple) => self.items(&tuple.elts)?,
            single => vec![self.expr(single)?],
        };
        if let [Value::Tuple(_) | Value::Constant(Constant::Tuple(_))] = values[..] {
            values = self.elements(values.remove(0))?;
        }
        self.current().at = slice.range();
        let sizes = match shape {
            Shape::Vector(n) => vec![n],
            Shape::Matrix(rows, columns) => vec![rows, columns],
        };
        let count = values.len();
        if count > sizes.len() || count == 0 {
            return Err(LangError::new(
                Code::Index,
                format!("{} index{}, found {count}", sizes.len(), if sizes.len() == 1 { "" } else { "es" }),
            ));
        }
        let mut indices = Vec::new();
        for (value, size) in values.into_iter().zip(&sizes) {
            indices.push(self.lane_index(value, *size)?);
        }
        self.current().at = outer;
        Ok(match (shape, &indices[..]) {
            (Shape::Vector(_), [at]) => Lane::One(at.clone()),
            (Shape::Matrix(_, columns), [row, column]) => {
                let first = fold::binary(Binary::Mul, row.clone(), Expr::index(columns.into()));
                Lane::One(fold::binary(Binary::Add, first, column.clone()))
            }
            (_, rows) => Lane::Row(rows[0].clone()),
        })
    }

    fn lane_index(&mut self, value: Value, size: u32) -> Lower<Expr> {
        if let Value::Constant(Constant::Int(at)) = &value {
            let place = if *at < 0 { at + i128::from(size) } else { *at };
            if !(0..i128::from(size)).contains(&place) {
                return Err(LangError::new(Code::Index, format!("index {at} of {size}")));
            }
            return Ok(Expr::index(place as i64));
        }
        let described = value.describe();
        let (expr, scalar) = self.scalar(value)?;
        if !scalar.is_int() {
            return Err(LangError::new(Code::Index, format!("an index is an int, found {described}"))
                .hint("convert it: `int(...)`"));
        }
        let mut index = self.widen(expr, scalar);
        if self.options.debug {
            index = self.once(index, Scalar::I64)?;
            let low = fold::binary(Binary::Le, Expr::index(0), index.clone());
            let high = fold::binary(Binary::Lt, index.clone(), Expr::index(size.into()));
            let site = self.site("bounds:a vector or matrix".to_owned());
            let values = vec![index.clone(), Expr::index(size.into())];
            self.emit(Kind::Check { condition: fold::binary(Binary::And, low, high), site, values })?;
        }
        Ok(index)
    }

    pub(super) fn tensor_item(&mut self, of: Value, slice: &ast::Expr) -> Lower<Value> {
        let Some((shape, scalar, items)) = self.as_tensor(&of)? else {
            return Err(LangError::new(Code::Index, format!("{} has no elements", of.describe())));
        };
        match self.lane(shape, slice)? {
            Lane::One(Expr::Const(_, at)) => Ok(Value::Scalar(items[at as usize].clone(), scalar)),
            Lane::One(at) => Ok(Value::Scalar(self.lane_of(of, shape, scalar, items, at)?, scalar)),
            Lane::Row(row) => {
                let Shape::Matrix(_, columns) = shape else { unreachable!("vectors have no rows") };
                let first = fold::binary(Binary::Mul, row, Expr::index(columns.into()));
                let first = self.once(first, Scalar::I64)?;
                let mut numbers = Vec::new();
                for column in 0..columns {
                    let at = fold::binary(Binary::Add, first.clone(), Expr::index(column.into()));
                    numbers.push(match at {
                        Expr::Const(_, at) => items[at as usize].clone(),
                        at => self.lane_of(of.clone(), shape, scalar, items.clone(), at)?,
                    });
                }
                Ok(Value::Tensor(Shape::Vector(columns), scalar, numbers))
            }
        }
    }

    /// A number of a vector whose place is only known when the kernel runs.
    fn lane_of(
        &mut self,
        of: Value,
        shape: Shape,
        scalar: Scalar,
        items: Vec<Expr>,
        at: Expr,
    ) -> Lower<Expr> {
        match of {
            Value::Variable(id, _) => Ok(Expr::Lane(id, Box::new(at))),
            Value::Element(place, ..) => Ok(Expr::Load(Box::new(Place { lane: Some(at), ..place }))),
            _ => {
                let id = self.variable("", scalar, shape.len());
                for (lane, item) in items.into_iter().enumerate() {
                    self.emit(Kind::SetLane(id, Expr::index(lane as i64), item))?;
                }
                Ok(Expr::Lane(id, Box::new(at)))
            }
        }
    }

    // -- Building --------------------------------------------------------------------------------

    /// A vector of a tuple of numbers, a matrix of a tuple of vectors.
    pub(super) fn tensor_of(&mut self, value: Value, wanted: Option<Scalar>) -> Lower<Value> {
        if let Some((shape, scalar, items)) = self.as_tensor(&value)? {
            let to = wanted.unwrap_or(scalar);
            return Ok(Value::Tensor(
                shape,
                to,
                items.into_iter().map(|item| fold::cast(scalar, to, item)).collect(),
            ));
        }
        let rows = self.elements(value)?;
        if rows.is_empty() || rows.len() > MOST_LANES as usize {
            return Err(LangError::new(Code::Shape, format!("a vector of {} numbers", rows.len()))
                .hint(format!("between 1 and {MOST_LANES}")));
        }
        let is_row = |value: &Value| {
            matches!(value, Value::Tuple(_) | Value::Constant(Constant::Tuple(_) | Constant::Tensor(..)))
                || matches!(value, Value::Tensor(..) | Value::Variable(..) | Value::Element(..))
                || matches!(value, Value::Constant(Constant::Numbers(..)))
        };
        if !is_row(&rows[0]) {
            let length = rows.len() as u32;
            let items = rows.into_iter().map(|item| self.scalar(item)).collect::<Lower<Vec<_>>>()?;
            return Ok(tensor(Shape::Vector(length), items, wanted));
        }
        let (count, mut columns, mut items) = (rows.len() as u32, None, Vec::new());
        for row in rows {
            let row = self.tensor_of(row, None)?;
            let Some((Shape::Vector(n), scalar, row)) = self.as_tensor(&row)? else {
                return Err(LangError::new(Code::Shape, "a row of a matrix is a vector"));
            };
            if columns.is_some_and(|known| known != n) {
                return Err(LangError::new(Code::Shape, "the rows of a matrix have one length"));
            }
            columns = Some(n);
            items.extend(row.into_iter().map(|item| (item, scalar)));
        }
        if items.len() > MOST_LANES as usize {
            return Err(LangError::new(Code::Shape, format!("a matrix of {} numbers", items.len()))
                .hint(format!("at most {MOST_LANES}")));
        }
        Ok(tensor(Shape::Matrix(count, columns.unwrap_or(0)), items, wanted))
    }

    /// A vector or matrix of a type: of numbers, of one number everywhere, or of parts.
    pub(super) fn tensor_type(
        &mut self,
        shape: Shape,
        scalar: Scalar,
        arguments: Vec<Value>,
    ) -> Lower<Value> {
        let many = shape.len() as usize;
        let mut items = Vec::new();
        let count = arguments.len();
        for argument in arguments {
            let argument = self.listed(argument)?;
            match self.as_tensor(&argument)? {
                Some((_, from, parts)) => {
                    items.extend(parts.into_iter().map(|part| fold::cast(from, scalar, part)))
                }
                None => items.push(self.scalar_as(argument, scalar)?),
            }
        }
        if count == 1 && items.len() == 1 {
            let number = self.once(items.remove(0), scalar)?;
            items = vec![number; many];
        }
        if items.len() != many {
            return Err(LangError::new(
                Code::Shape,
                format!("expected {many} numbers, found {}", items.len()),
            ));
        }
        Ok(Value::Tensor(shape, scalar, items))
    }

    /// The same number everywhere.
    pub(super) fn filled(&mut self, shape: Shape, scalar: Scalar, value: f64) -> Value {
        let number = if scalar.is_float() {
            Expr::Const(scalar, fold::float_bits(scalar, value))
        } else {
            Expr::Const(scalar, fold::wrap(scalar, value as i128))
        };
        Value::Tensor(shape, scalar, vec![number; shape.len() as usize])
    }

    // -- Products --------------------------------------------------------------------------------

    pub(super) fn matmul(&mut self, left: Value, right: Value) -> Lower<Value> {
        let (left, right) = (self.listed(left)?, self.listed(right)?);
        let described = (left.describe(), right.describe());
        let (a, b) = (self.as_tensor(&left)?, self.as_tensor(&right)?);
        let cannot = || {
            LangError::new(Code::Shape, format!("`@` is not defined for {} and {}", described.0, described.1))
        };
        let (Some((left_shape, from, a)), Some((right_shape, other, b))) = (a, b) else {
            return Err(LangError::new(
                Code::Operand,
                format!("`@` is not defined for {} and {}", described.0, described.1),
            )
            .hint("multiply numbers with `*`"));
        };
        let (rows, inner) = match left_shape {
            Shape::Matrix(rows, columns) => (rows, columns),
            Shape::Vector(n) => (1, n),
        };
        let (inner_right, columns) = match right_shape {
            Shape::Matrix(rows, columns) => (rows, columns),
            Shape::Vector(n) => (n, 1),
        };
        if inner != inner_right {
            return Err(cannot());
        }
        let scalar = from.promote(other);
        let a = self.all_once(a, from, scalar)?;
        let b = self.all_once(b, other, scalar)?;
        let mut items = Vec::new();
        let mut result = scalar;
        for row in 0..rows {
            for column in 0..columns {
                let pairs = (0..inner).map(|k| {
                    (a[(row * inner + k) as usize].clone(), b[(k * columns + column) as usize].clone())
                });
                let (sum, scalar) = self.sum_of_products(pairs.collect(), scalar)?;
                result = scalar;
                items.push(sum);
            }
        }
        Ok(match (left_shape, right_shape) {
            (Shape::Matrix(..), Shape::Matrix(..)) => {
                Value::Tensor(Shape::Matrix(rows, columns), result, items)
            }
            (Shape::Matrix(..), Shape::Vector(_)) => Value::Tensor(Shape::Vector(rows), result, items),
            (Shape::Vector(_), Shape::Matrix(..)) => Value::Tensor(Shape::Vector(columns), result, items),
            (Shape::Vector(_), Shape::Vector(_)) => Value::Scalar(items.remove(0), result),
        })
    }

    fn all_once(&mut self, items: Vec<Expr>, from: Scalar, to: Scalar) -> Lower<Vec<Expr>> {
        items.into_iter().map(|item| self.once(fold::cast(from, to, item), to)).collect()
    }

    fn sum_of_products(&mut self, pairs: Vec<(Expr, Expr)>, scalar: Scalar) -> Lower<(Expr, Scalar)> {
        let mut sum: Option<(Expr, Scalar)> = None;
        for (left, right) in pairs {
            let product = self.arithmetic(Operator::Mult, left, right, scalar)?;
            sum = Some(match sum {
                None => product,
                Some((before, scalar)) => self.arithmetic(Operator::Add, before, product.0, scalar)?,
            });
        }
        sum.ok_or_else(|| LangError::new(Code::Shape, "nothing to add up"))
    }

    // -- Methods ---------------------------------------------------------------------------------

    pub(super) fn tensor_method(&mut self, of: Value, name: &str, arguments: Vec<Value>) -> Lower<Value> {
        let Some((shape, scalar, items)) = self.as_tensor(&of)? else { return Err(no_member(&of, name)) };
        let wanted = match name {
            "dot" | "cross" | "outer_product" | "cast" | "fill" => 1,
            "norm" | "norm_inv" | "normalized" => arguments.len().min(1),
            _ => 0,
        };
        if arguments.len() != wanted {
            return Err(LangError::new(
                Code::ArgumentCount,
                format!(
                    "`{name}` takes {wanted} argument{}, found {}",
                    if wanted == 1 { "" } else { "s" },
                    arguments.len()
                ),
            ));
        }
        let float = if scalar.is_float() { scalar } else { self.options.default_float };
        match name {
            "dot" => {
                let [other] = <[Value; 1]>::try_from(arguments).expect("counted above");
                let described = (of.describe(), other.describe());
                let other = self.listed(other)?;
                match (shape, self.as_tensor(&other)?) {
                    (Shape::Vector(n), Some((Shape::Vector(m), ..))) if n == m => self.matmul(of, other),
                    _ => Err(LangError::new(
                        Code::Shape,
                        format!("`dot` is not defined for {} and {}", described.0, described.1),
                    )),
                }
            }
            "cross" => {
                let other = arguments.into_iter().next().expect("counted above");
                self.cross(of, other)
            }
            "outer_product" => {
                let other = arguments.into_iter().next().expect("counted above");
                let other = self.listed(other)?;
                let (Shape::Vector(rows), Some((Shape::Vector(columns), right_scalar, right))) =
                    (shape, self.as_tensor(&other)?)
                else {
                    return Err(LangError::new(Code::Shape, "`outer_product` is defined for two vectors"));
                };
                let to = scalar.promote(right_scalar);
                let left = self.all_once(items, scalar, to)?;
                let right = self.all_once(right, right_scalar, to)?;
                let mut products = Vec::new();
                for a in &left {
                    for b in &right {
                        products.push(self.arithmetic(Operator::Mult, a.clone(), b.clone(), to)?.0);
                    }
                }
                Ok(Value::Tensor(Shape::Matrix(rows, columns), to, products))
            }
            "norm_sqr" | "norm" | "norm_inv" | "normalized" => {
                let to = if name == "norm_sqr" { scalar } else { float };
                let items = self.all_once(items, scalar, to)?;
                let pairs = items.iter().map(|item| (item.clone(), item.clone())).collect();
                let (mut sum, mut sum_scalar) = self.sum_of_products(pairs, to)?;
                if let Some(eps) = arguments.into_iter().next() {
                    let eps = self.scalar_as(eps, sum_scalar)?;
                    (sum, sum_scalar) = if name == "normalized" {
                        (sum, sum_scalar)
                    } else {
                        self.arithmetic(Operator::Add, sum, eps, sum_scalar)?
                    };
                }
                if name == "norm_sqr" {
                    return Ok(Value::Scalar(sum, sum_scalar));
                }
                let norm = self.math(Math::Sqrt, vec![Value::Scalar(sum, sum_scalar)])?;
                let (norm, _) = self.scalar(norm)?;
                if name == "norm" {
                    return Ok(Value::Scalar(norm, to));
                }
                let norm = self.once(norm, to)?;
                let one = Expr::Const(to, fold::float_bits(to, 1.0));
                let (inverse, _) = self.arithmetic(Operator::Div, one, norm, to)?;
                if name == "norm_inv" {
                    return Ok(Value::Scalar(inverse, to));
                }
                let inverse = self.once(inverse, to)?;
                let mut scaled = Vec::new();
                for item in items {
                    scaled.push(self.arithmetic(Operator::Mult, item, inverse.clone(), to)?.0);
                }
                Ok(Value::Tensor(shape, to, scaled))
            }
            "sum" => {
                let mut sum: Option<(Expr, Scalar)> = None;
                for item in items {
                    sum = Some(match sum {
                        None => (item, scalar),
                        Some((before, known)) => {
                            let item = fold::cast(scalar, known, item);
                            self.arithmetic(Operator::Add, before, item, known)?
                        }
                    });
                }
                let (sum, scalar) = sum.expect("vectors have numbers");
                Ok(Value::Scalar(sum, scalar))
            }
            "min" | "max" => {
                let op = if name == "min" { Binary::Min } else { Binary::Max };
                self.extreme(op, items.into_iter().map(|item| Value::Scalar(item, scalar)).collect())
            }
            "any" | "all" => {
                let op = if name == "any" { Binary::Or } else { Binary::And };
                let truths = items.into_iter().map(|item| truth_of(item, scalar));
                let truth = truths.reduce(|a, b| fold::binary(op, a, b)).expect("vectors have numbers");
                Ok(Value::Scalar(truth, Scalar::Bool))
            }
            "cast" => {
                let to = arguments.into_iter().next().expect("counted above");
                let to = self.known_scalar_type(to)?;
                Ok(Value::Tensor(
                    shape,
                    to,
                    items.into_iter().map(|item| fold::cast(scalar, to, item)).collect(),
                ))
            }
            "fill" => {
                let value = arguments.into_iter().next().expect("counted above");
                let value = self.scalar_as(value, scalar)?;
                let value = self.once(value, scalar)?;
                let filled = Value::Tensor(shape, scalar, vec![value; items.len()]);
                self.store_value(of, filled)?;
                Ok(Value::Constant(Constant::None))
            }
            "transpose" => {
                let Shape::Matrix(rows, columns) = shape else {
                    return Ok(Value::Tensor(Shape::Matrix(1, shape.len()), scalar, items));
                };
                let at = |row: u32, column: u32| items[(row * columns + column) as usize].clone();
                let transposed = (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column)));
                let transposed = transposed.map(|(row, column)| at(row, column)).collect();
                Ok(Value::Tensor(Shape::Matrix(columns, rows), scalar, transposed))
            }
            "trace" | "determinant" | "inverse" => {
                let Shape::Matrix(n, m) = shape else {
                    return Err(LangError::new(Code::Shape, format!("`{name}` is defined for matrices")));
                };
                if n != m {
                    return Err(LangError::new(
                        Code::Shape,
                        format!("`{name}` is defined for square matrices, found {n}x{m}"),
                    ));
                }
                if name == "trace" {
                    let diagonal = (0..n).map(|k| Value::Scalar(items[(k * n + k) as usize].clone(), scalar));
                    let mut values = diagonal.collect::<Vec<_>>().into_iter();
                    let first = values.next().expect("matrices have numbers");
                    return values.try_fold(first, |sum, value| self.operate(Operator::Add, sum, value));
                }
                if n > 4 {
                    return Err(LangError::new(
                        Code::Shape,
                        format!("`{name}` is there up to 4x4, found {n}x{n}"),
                    ));
                }
                let to = if name == "inverse" { float } else { scalar };
                let items = self.all_once(items, scalar, to)?;
                if name == "determinant" {
                    let (determinant, scalar) = self.determinant(&items, n, to)?;
                    return Ok(Value::Scalar(determinant, scalar));
                }
                self.inverse(&items, n, to)
            }
            _ => Err(no_member(&of, name)),
        }
    }

    pub(super) fn cross(&mut self, left: Value, right: Value) -> Lower<Value> {
        let right = self.listed(right)?;
        let described = (left.describe(), right.describe());
        let (Some((a_shape, from, a)), Some((b_shape, other, b))) =
            (self.as_tensor(&left)?, self.as_tensor(&right)?)
        else {
            return Err(LangError::new(
                Code::Shape,
                format!("`cross` is not defined for {} and {}", described.0, described.1),
            ));
        };
        let scalar = from.promote(other);
        let a = self.all_once(a, from, scalar)?;
        let b = self.all_once(b, other, scalar)?;
        let mut minus = |i: usize, j: usize| -> Lower<(Expr, Scalar)> {
            let (left, _) = self.arithmetic(Operator::Mult, a[i].clone(), b[j].clone(), scalar)?;
            let (right, to) = self.arithmetic(Operator::Mult, a[j].clone(), b[i].clone(), scalar)?;
            self.arithmetic(Operator::Sub, left, right, to)
        };
        match (a_shape, b_shape) {
            (Shape::Vector(3), Shape::Vector(3)) => {
                let items = [minus(1, 2)?, minus(2, 0)?, minus(0, 1)?];
                let scalar = items[0].1;
                Ok(Value::Tensor(Shape::Vector(3), scalar, items.into_iter().map(|item| item.0).collect()))
            }
            (Shape::Vector(2), Shape::Vector(2)) => {
                let (product, scalar) = minus(0, 1)?;
                Ok(Value::Scalar(product, scalar))
            }
            _ => Err(LangError::new(
                Code::Shape,
                format!("`cross` is not defined for {} and {}", described.0, described.1),
            )),
        }
    }

    /// By minors, along the first row.
    fn determinant(&mut self, items: &[Expr], n: u32, scalar: Scalar) -> Lower<(Expr, Scalar)> {
        if n == 1 {
            return Ok((items[0].clone(), scalar));
        }
        let mut sum: Option<Expr> = None;
        for column in 0..n {
            let minor = self.minor(items, n, 0, column, scalar)?;
            let (term, _) = self.arithmetic(Operator::Mult, items[column as usize].clone(), minor, scalar)?;
            sum = Some(match sum {
                None => term,
                Some(sum) => {
                    let op = if column % 2 == 0 { Operator::Add } else { Operator::Sub };
                    self.arithmetic(op, sum, term, scalar)?.0
                }
            });
        }
        let sum = sum.expect("matrices have columns");
        Ok((self.once(sum, scalar)?, scalar))
    }

    fn minor(&mut self, items: &[Expr], n: u32, row: u32, column: u32, scalar: Scalar) -> Lower<Expr> {
        let kept = (0..n * n).filter(|at| at / n != row && at % n != column);
        let items: Vec<Expr> = kept.map(|at| items[at as usize].clone()).collect();
        let (determinant, _) = self.determinant(&items, n - 1, scalar)?;
        self.once(determinant, scalar)
    }

    fn inverse(&mut self, items: &[Expr], n: u32, scalar: Scalar) -> Lower<Value> {
        let (determinant, _) = self.determinant(items, n, scalar)?;
        let one = Expr::Const(scalar, fold::float_bits(scalar, 1.0));
        let (factor, _) = self.arithmetic(Operator::Div, one.clone(), determinant, scalar)?;
        let factor = self.once(factor, scalar)?;
        let mut numbers = Vec::new();
        for row in 0..n {
            for column in 0..n {
                // The transposed matrix of signed minors.
                let minor = if n == 1 { one.clone() } else { self.minor(items, n, column, row, scalar)? };
                let (value, _) = self.arithmetic(Operator::Mult, minor, factor.clone(), scalar)?;
                let value = if (row + column) % 2 == 0 {
                    value
                } else {
                    let zero = Expr::Const(scalar, 0);
                    self.arithmetic(Operator::Sub, zero, value, scalar)?.0
                };
                numbers.push(value);
            }
        }
        Ok(Value::Tensor(Shape::Matrix(n, n), scalar, numbers))
    }
}

/// A number of a vector, or a row of a matrix, by an `i64`.
pub(super) enum Lane {
    One(Expr),
    Row(Expr),
}

fn tensor(shape: Shape, items: Vec<(Expr, Scalar)>, wanted: Option<Scalar>) -> Value {
    let common = items.iter().map(|item| item.1).reduce(|a, b| if a == b { a } else { a.promote(b) });
    let scalar = wanted.or(common).expect("there is at least one");
    let items = items.into_iter().map(|(item, from)| fold::cast(from, scalar, item)).collect();
    made(Some(shape), scalar, items)
}
