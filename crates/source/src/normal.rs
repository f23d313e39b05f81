//! The normal form: what counts of a syntax tree, as bytes.
//!
//! Every node is written as its kind, what it says itself (names, operators, literals, and how many
//! children of each sort it has), its children in source order, and an end. Positions, parentheses,
//! quotes, comments and docstrings are not in the tree or are left out.

use keyprint_fingerprint::{Bytes, Fingerprint, fingerprint};
use ruff_python_ast::visitor::source_order::{SourceOrderVisitor, TraversalSignal};
use ruff_python_ast::{AnyNodeRef, Identifier, Number, Stmt};
use ruff_text_size::{Ranged, TextRange};

/// The version of the normal form. Raised whenever the same text would get another digest.
pub const NORMAL_FORM_VERSION: u32 = 1;

/// The digest of a function or of a decorator. What has a range in `without` is left out.
pub(crate) fn digest(text: &str, node: AnyNodeRef<'_>, without: &[TextRange]) -> Fingerprint {
    let mut form = Form { text, bytes: Vec::new(), without: without.to_vec() };
    walk(&mut form, node);
    fingerprint(&("keyprint normal form", NORMAL_FORM_VERSION, Bytes(&form.bytes)))
}

/// The docstring of a body, which says nothing to a compiler.
pub(crate) fn docstring(body: &[Stmt]) -> Option<TextRange> {
    match body.first()? {
        Stmt::Expr(first) if first.value.is_string_literal_expr() => Some(first.range()),
        _ => None,
    }
}

struct Form<'t> {
    text: &'t str,
    bytes: Vec<u8>,
    without: Vec<TextRange>,
}

const END: u8 = 0;

impl Form<'_> {
    fn count(&mut self, number: usize) {
        self.bytes.extend_from_slice(&(number as u64).to_le_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.bytes.push(u8::from(flag));
    }

    fn word(&mut self, word: &str) {
        self.count(word.len());
        self.bytes.extend_from_slice(word.as_bytes());
    }

    fn name(&mut self, name: Option<&Identifier>) {
        self.flag(name.is_some());
        if let Some(name) = name {
            self.word(name.as_str());
        }
    }

    /// A text. One with characters that no `str` can hold (lone surrogates) counts as it is written.
    fn literal(&mut self, value: &str, range: TextRange) {
        self.word(value);
        if value.contains('\u{FFFD}') {
            self.word(&self.text[range]);
        }
    }

    fn is_left_out(&self, node: AnyNodeRef<'_>) -> bool {
        (node.is_statement() || matches!(node, AnyNodeRef::Decorator(_)))
            && self.without.contains(&node.range())
    }

    /// What a node says itself. Nodes that are not named here have children of sorts that cannot be
    /// confused, and nothing else to say.
    #[allow(clippy::too_many_lines)]
    fn payload(&mut self, node: AnyNodeRef<'_>) {
        match node {
            AnyNodeRef::StmtFunctionDef(def) => {
                self.word(&def.name);
                self.flag(def.is_async);
                self.flag(def.returns.is_some());
                self.without.extend(docstring(&def.body));
            }
            AnyNodeRef::StmtClassDef(def) => {
                self.word(&def.name);
                self.without.extend(docstring(&def.body));
            }
            AnyNodeRef::StmtAssign(assign) => self.count(assign.targets.len()),
            AnyNodeRef::StmtAnnAssign(assign) => {
                self.flag(assign.simple);
                self.flag(assign.value.is_some());
            }
            AnyNodeRef::StmtAugAssign(assign) => self.word(assign.op.as_str()),
            AnyNodeRef::StmtFor(stmt) => {
                self.flag(stmt.is_async);
                self.count(stmt.body.len());
                self.count(stmt.orelse.len());
            }
            AnyNodeRef::StmtWhile(stmt) => {
                self.count(stmt.body.len());
                self.count(stmt.orelse.len());
            }
            AnyNodeRef::StmtIf(stmt) => self.count(stmt.body.len()),
            AnyNodeRef::ElifElseClause(clause) => self.flag(clause.test.is_some()),
            AnyNodeRef::StmtWith(stmt) => {
                self.flag(stmt.is_async);
                self.count(stmt.items.len());
            }
            AnyNodeRef::WithItem(item) => self.flag(item.optional_vars.is_some()),
            AnyNodeRef::StmtRaise(stmt) => {
                self.flag(stmt.exc.is_some());
                self.flag(stmt.cause.is_some());
            }
            AnyNodeRef::StmtTry(stmt) => {
                self.flag(stmt.is_star);
                self.count(stmt.body.len());
                self.count(stmt.handlers.len());
                self.count(stmt.orelse.len());
                self.count(stmt.finalbody.len());
            }
            AnyNodeRef::ExceptHandlerExceptHandler(handler) => {
                self.flag(handler.type_.is_some());
                self.name(handler.name.as_ref());
            }
            AnyNodeRef::StmtImport(stmt) => self.flag(stmt.is_lazy),
            AnyNodeRef::StmtImportFrom(stmt) => {
                self.flag(stmt.is_lazy);
                self.name(stmt.module.as_ref());
                self.count(stmt.level as usize);
            }
            AnyNodeRef::Alias(alias) => {
                self.word(&alias.name);
                self.name(alias.asname.as_ref());
            }
            AnyNodeRef::StmtGlobal(stmt) => stmt.names.iter().for_each(|name| self.name(Some(name))),
            AnyNodeRef::StmtNonlocal(stmt) => stmt.names.iter().for_each(|name| self.name(Some(name))),
            AnyNodeRef::MatchCase(case) => self.flag(case.guard.is_some()),
            AnyNodeRef::ExprBoolOp(expr) => self.word(expr.op.as_str()),
            AnyNodeRef::ExprBinOp(expr) => self.word(expr.op.as_str()),
            AnyNodeRef::ExprUnaryOp(expr) => self.word(expr.op.as_str()),
            AnyNodeRef::ExprCompare(expr) => expr.ops.iter().for_each(|op| self.word(op.as_str())),
            AnyNodeRef::ExprLambda(expr) => self.flag(expr.parameters.is_some()),
            AnyNodeRef::ExprDict(expr) => expr.items.iter().for_each(|item| self.flag(item.key.is_some())),
            AnyNodeRef::ExprDictComp(expr) => self.flag(expr.key.is_some()),
            AnyNodeRef::ExprYield(expr) => self.flag(expr.value.is_some()),
            AnyNodeRef::Comprehension(part) => self.flag(part.is_async),
            AnyNodeRef::Arguments(arguments) => {
                self.count(arguments.args.len());
                self.count(arguments.keywords.len());
            }
            AnyNodeRef::Keyword(keyword) => self.name(keyword.arg.as_ref()),
            AnyNodeRef::ExprStringLiteral(expr) => {
                self.literal(expr.value.to_str(), expr.range);
            }
            AnyNodeRef::ExprBytesLiteral(expr) => {
                let bytes: Vec<u8> = expr.value.bytes().collect();
                self.count(bytes.len());
                self.bytes.extend(bytes);
            }
            AnyNodeRef::ExprNumberLiteral(expr) => match &expr.value {
                Number::Int(value) => {
                    self.bytes.push(b'i');
                    self.word(&value.to_string());
                }
                Number::Float(value) => {
                    self.bytes.push(b'f');
                    self.count(value.to_bits() as usize);
                }
                Number::Complex { real, imag } => {
                    self.bytes.push(b'c');
                    self.count(real.to_bits() as usize);
                    self.count(imag.to_bits() as usize);
                }
            },
            AnyNodeRef::ExprBooleanLiteral(expr) => self.flag(expr.value),
            AnyNodeRef::InterpolatedElement(element) => {
                self.bytes.push(element.conversion.to_byte().unwrap_or(0));
                self.flag(element.format_spec.is_some());
                self.flag(element.debug_text.is_some());
                if element.debug_text.is_some() {
                    self.word(&self.text[element.range]);
                }
            }
            AnyNodeRef::InterpolatedStringLiteralElement(element) => {
                self.literal(&element.value, element.range);
            }
            // A piece between those of an f-string.
            AnyNodeRef::StringLiteral(piece) => self.literal(&piece.value, piece.range),
            AnyNodeRef::ExprAttribute(expr) => self.word(&expr.attr),
            AnyNodeRef::ExprName(expr) => self.word(&expr.id),
            AnyNodeRef::ExprSlice(expr) => {
                self.flag(expr.lower.is_some());
                self.flag(expr.upper.is_some());
                self.flag(expr.step.is_some());
            }
            AnyNodeRef::ExprIpyEscapeCommand(expr) => self.word(&expr.value),
            AnyNodeRef::StmtIpyEscapeCommand(stmt) => self.word(&stmt.value),
            AnyNodeRef::PatternMatchSingleton(pattern) => self.word(match pattern.value {
                ruff_python_ast::Singleton::None => "None",
                ruff_python_ast::Singleton::True => "True",
                ruff_python_ast::Singleton::False => "False",
            }),
            AnyNodeRef::PatternMatchMapping(pattern) => {
                self.count(pattern.keys.len());
                self.name(pattern.rest.as_ref());
            }
            AnyNodeRef::PatternArguments(arguments) => {
                self.count(arguments.patterns.len());
                self.count(arguments.keywords.len());
            }
            AnyNodeRef::PatternKeyword(keyword) => self.word(&keyword.attr),
            AnyNodeRef::PatternMatchStar(pattern) => self.name(pattern.name.as_ref()),
            AnyNodeRef::PatternMatchAs(pattern) => {
                self.flag(pattern.pattern.is_some());
                self.name(pattern.name.as_ref());
            }
            AnyNodeRef::Parameters(parameters) => {
                self.count(parameters.posonlyargs.len());
                self.count(parameters.args.len());
                self.flag(parameters.vararg.is_some());
                self.count(parameters.kwonlyargs.len());
                self.flag(parameters.kwarg.is_some());
            }
            AnyNodeRef::ParameterWithDefault(parameter) => self.flag(parameter.default.is_some()),
            AnyNodeRef::Parameter(parameter) => {
                self.word(&parameter.name);
                self.flag(parameter.annotation.is_some());
            }
            AnyNodeRef::TypeParamTypeVar(parameter) => {
                self.word(&parameter.name);
                self.flag(parameter.bound.is_some());
                self.flag(parameter.default.is_some());
            }
            AnyNodeRef::TypeParamTypeVarTuple(parameter) => self.word(&parameter.name),
            AnyNodeRef::TypeParamParamSpec(parameter) => self.word(&parameter.name),
            _ => {}
        }
    }
}

impl<'a> SourceOrderVisitor<'a> for Form<'_> {
    fn enter_node(&mut self, node: AnyNodeRef<'a>) -> TraversalSignal {
        if self.is_left_out(node) {
            return TraversalSignal::Skip;
        }
        let kind = format!("{:?}", node.kind());
        self.bytes.push(kind.len() as u8);
        self.bytes.extend_from_slice(kind.as_bytes());
        self.payload(node);
        match node {
            // The whole was written; how many pieces it is written in does not count.
            AnyNodeRef::ExprStringLiteral(_) | AnyNodeRef::ExprBytesLiteral(_) => TraversalSignal::Skip,
            _ => TraversalSignal::Traverse,
        }
    }

    fn leave_node(&mut self, node: AnyNodeRef<'a>) {
        if !self.is_left_out(node) {
            self.bytes.push(END);
        }
    }
}

fn walk<'a>(form: &mut Form<'_>, node: AnyNodeRef<'a>) {
    if form.enter_node(node).is_traverse() {
        node.visit_source_order(form);
    }
    form.leave_node(node);
}
