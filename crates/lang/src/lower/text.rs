//! Printing, and what values are as text.

use keyprint_source::ast;

use super::expr::{unsupported, unwrap_static};
use super::value::Value;
use super::{Lower, Lowerer};
use crate::error::{Code, LangError};
use crate::host::Constant;
use crate::ir::{Kind, Part};
use crate::passes::fold;
use crate::types::Shape;

impl Lowerer<'_> {
    pub(super) fn print(&mut self, call: &ast::ExprCall) -> Lower<Value> {
        let (mut separator, mut end) = (" ".to_owned(), "\n".to_owned());
        for keyword in &call.arguments.keywords {
            let value = self.expr(&keyword.value)?;
            let Constant::Text(text) = self.known(value, "how to print")? else {
                return Err(LangError::new(Code::Type, "`sep` and `end` are texts"));
            };
            match keyword.arg.as_ref().map(ast::Identifier::as_str) {
                Some("sep") => separator = text,
                Some("end") => end = text,
                _ => {
                    return Err(LangError::new(Code::ArgumentCount, "`print` takes values, `sep` and `end`"));
                }
            }
        }
        let mut parts = Vec::new();
        for (at, argument) in call.arguments.args.iter().enumerate() {
            if at > 0 {
                parts.push(Part::Text(separator.clone()));
            }
            parts.extend(self.text_parts(argument)?);
        }
        parts.push(Part::Text(end));
        self.emit(Kind::Print(joined(parts)))?;
        Ok(Value::Constant(Constant::None))
    }

    /// What an expression is as text: texts, and numbers that are known when the kernel runs.
    pub(super) fn text_parts(&mut self, expr: &ast::Expr) -> Lower<Vec<Part>> {
        let mut parts = Vec::new();
        if let ast::Expr::FString(text) = expr {
            for element in text.value.elements() {
                match element {
                    ast::InterpolatedStringElement::Literal(literal) => {
                        parts.push(Part::Text(literal.value.to_string()))
                    }
                    ast::InterpolatedStringElement::Interpolation(interpolation) => {
                        if interpolation.format_spec.is_some() {
                            return Err(unsupported("a format in a text", "print the number as it is"));
                        }
                        let value = self.expr(&interpolation.expression)?;
                        self.value_parts(value, &mut parts)?;
                    }
                }
            }
            return Ok(parts);
        }
        let value = self.expr(expr)?;
        self.value_parts(value, &mut parts)?;
        Ok(parts)
    }

    fn value_parts(&mut self, value: Value, parts: &mut Vec<Part>) -> Lower<()> {
        let value = unwrap_static(value);
        if let Some((shape, scalar, items)) = self.as_tensor(&value)? {
            let columns = match shape {
                Shape::Vector(n) | Shape::Matrix(_, n) => n as usize,
            };
            let is_matrix = matches!(shape, Shape::Matrix(..));
            parts.push(Part::Text(if is_matrix { "[[" } else { "[" }.to_owned()));
            for (at, item) in items.into_iter().enumerate() {
                if at > 0 {
                    parts.push(Part::Text(if at % columns == 0 { "], [" } else { ", " }.to_owned()));
                }
                parts.push(Part::Value(self.once(item, scalar)?));
            }
            parts.push(Part::Text(if is_matrix { "]]" } else { "]" }.to_owned()));
            return Ok(());
        }
        match value {
            Value::Constant(Constant::Text(text)) => parts.push(Part::Text(text)),
            Value::Constant(Constant::None) => parts.push(Part::Text("None".to_owned())),
            Value::Constant(Constant::Int(value)) => parts.push(Part::Text(value.to_string())),
            Value::Constant(Constant::Bool(value)) => {
                parts.push(Part::Text(if value { "True" } else { "False" }.to_owned()));
            }
            Value::Tuple(_) | Value::Constant(Constant::Tuple(_)) => {
                parts.push(Part::Text("(".to_owned()));
                for (at, item) in self.elements(value)?.into_iter().enumerate() {
                    if at > 0 {
                        parts.push(Part::Text(", ".to_owned()));
                    }
                    self.value_parts(item, parts)?;
                }
                parts.push(Part::Text(")".to_owned()));
            }
            other => {
                let (expr, scalar) = self.scalar(other)?;
                let wide = scalar.computed();
                parts.push(Part::Value(self.once(fold::cast(scalar, wide, expr), wide)?));
            }
        }
        Ok(())
    }
}

/// Texts that follow each other as one.
fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::new();
    for part in parts {
        match (merged.last_mut(), part) {
            (Some(Part::Text(before)), Part::Text(text)) => before.push_str(&text),
            (_, part) => merged.push(part),
        }
    }
    merged
}
