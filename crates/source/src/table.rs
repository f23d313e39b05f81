//! [`Table`]: the functions of a file.

use keyprint_fingerprint::Fingerprint;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    AnyNodeRef, AnyParameterRef, Comprehension, Expr, ModModule, Parameters, Stmt, StmtFunctionDef,
    TypeParams,
};
use ruff_text_size::{Ranged, TextRange};
use serde::{Deserialize, Serialize};

use crate::bindings::Bindings;
use crate::lines::Lines;
use crate::normal;
use crate::parse::{SourceError, with_tree};
use crate::uses::{self, ArgumentFlow, Body, Found, Subject, Use, decorator_path};

/// The version of tables as bytes, and of what is found in a file.
pub const TABLE_VERSION: u32 = 7;

/// The functions of a file, in source order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    version: u32,
    /// All of them: methods, nested functions, and lambdas too.
    pub functions: Vec<Function>,
}

/// What is known of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its own name; `<lambda>` for a lambda.
    pub name: String,
    /// The name with those around it, as Python writes it.
    pub qualname: String,
    /// Where Python says that it begins: at its first decorator, if it has any.
    pub line: u32,
    /// Where its text begins, in bytes.
    pub start: u32,
    /// Where its text ends.
    pub end: u32,
    /// What it means, decorators aside.
    #[serde(with = "digest_bytes")]
    pub digest: Fingerprint,
    /// What decorates it, the outermost first.
    pub decorators: Vec<Decorator>,
    /// Its parameters, in the order of [`Root::Parameter`](crate::Root::Parameter).
    pub parameters: Vec<Parameter>,
    /// What it reads.
    pub uses: Vec<Use>,
    /// What it hands to others.
    pub argument_flows: Vec<ArgumentFlow>,
    /// The lines of its statements: the place in this list is the number of the statement.
    pub statements: Vec<u32>,
    /// Digests of its compiled code, one for each way to compile it; whoever compiles adds them.
    pub codes: Vec<[u8; 32]>,
}

/// A decorator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decorator {
    /// The names that lead to what decorates, called or not; empty if it is another expression.
    pub path: Vec<String>,
    /// What it means.
    #[serde(with = "digest_bytes")]
    pub digest: Fingerprint,
    /// Where it is.
    pub line: u32,
}

/// How a parameter takes its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParameterKind {
    /// By position only.
    PositionalOnly,
    /// By position or name.
    Ordinary,
    /// All other positions.
    Variadic,
    /// By name only.
    KeywordOnly,
    /// All other names.
    Keywords,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// How it takes its argument.
    pub kind: ParameterKind,
}

impl Table {
    /// The table of a file's text.
    ///
    /// # Errors
    ///
    /// If it is not Python, or nested too deeply.
    pub fn of(text: &str) -> Result<Self, SourceError> {
        // As Python does, a mark of the byte order is not looked at.
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        with_tree(text, |module| Self::of_tree(text, module))
    }

    fn of_tree(text: &str, module: &ModModule) -> Self {
        let lines = Lines::of(text);
        let mut finder = Finder {
            text,
            lines: &lines,
            names: Vec::new(),
            enclosing: Vec::new(),
            classes: Vec::new(),
            functions: Vec::new(),
        };
        finder.visit_body(&module.body);
        Self { version: TABLE_VERSION, functions: finder.functions }
    }

    /// As bytes, to be kept.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a table has nothing that cannot be written")
    }

    /// What [`to_bytes`](Self::to_bytes) wrote; nothing if it is of another version or no table.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // The version comes first, and what follows may be anything if it is another one.
        let (version, _) = postcard::take_from_bytes::<u32>(bytes).ok()?;
        if version != TABLE_VERSION {
            return None;
        }
        let (table, rest) = postcard::take_from_bytes(bytes).ok()?;
        rest.is_empty().then_some(table)
    }
}

struct Finder<'a, 'l> {
    text: &'a str,
    lines: &'l Lines,
    /// Of what is around the place that is looked at.
    names: Vec<String>,
    /// What the functions around it bind.
    enclosing: Vec<Bindings<'a>>,
    /// The classes around it.
    classes: Vec<&'a str>,
    functions: Vec<Function>,
}

impl<'a> Finder<'a, '_> {
    fn qualname(&self, name: &str) -> String {
        self.names.iter().map(String::as_str).chain([name]).collect()
    }

    fn found(&self, subject: &Subject<'a>) -> Found {
        uses::of(subject, &self.enclosing, self.classes.last().copied(), self.lines)
    }

    fn function(&mut self, def: &'a StmtFunctionDef) {
        let subject = Subject {
            parameters: Some(&def.parameters),
            type_parameters: def.type_params.as_deref(),
            returns: def.returns.as_deref(),
            body: Body::Statements(&def.body),
        };
        let Found { uses, argument_flows } = self.found(&subject);
        let decorators: Vec<TextRange> = def.decorator_list.iter().map(Ranged::range).collect();
        let to_decorator = |decorator: &'a ruff_python_ast::Decorator| Decorator {
            path: decorator_path(&decorator.expression),
            digest: normal::digest(self.text, AnyNodeRef::from(&decorator.expression), &[]),
            line: self.lines.at(decorator.start()),
        };
        let mut statements = Statements { lines: self.lines, numbers: Vec::new() };
        let skip = usize::from(normal::docstring(&def.body).is_some());
        statements.visit_body(&def.body[skip..]);
        self.functions.push(Function {
            name: def.name.to_string(),
            qualname: self.qualname(&def.name),
            line: self.lines.at(def.start()),
            start: def.start().to_u32(),
            end: def.end().to_u32(),
            digest: normal::digest(self.text, AnyNodeRef::from(def), &decorators),
            decorators: def.decorator_list.iter().map(to_decorator).collect(),
            parameters: parameters(Some(&def.parameters)),
            uses,
            argument_flows,
            statements: statements.numbers,
            codes: Vec::new(),
        });
    }

    /// Goes on inside a function.
    fn inside(
        &mut self,
        name: &str,
        (list, types): (Option<&'a Parameters>, Option<&'a TypeParams>),
        body: Body<'a>,
    ) {
        let mut own = match body {
            Body::Statements(body) => Bindings::of_body(body),
            Body::Expression(expr) => Bindings::of_expr(expr),
        };
        if let Some(list) = list {
            own.add_parameters(list, false);
        }
        own.add_type_parameters(types);
        self.names.push(format!("{name}.<locals>."));
        self.enclosing.push(own);
        match body {
            Body::Statements(body) => self.visit_body(body),
            Body::Expression(expr) => self.visit_expr(expr),
        }
        self.enclosing.pop();
        self.names.pop();
    }

    /// Goes on inside a comprehension, whose names what is inside may hold on to.
    fn comprehension(&mut self, parts: &[&'a Expr], generators: &'a [Comprehension]) {
        let Some((first, rest)) = generators.split_first() else { return };
        self.visit_expr(&first.iter);
        let mut own = Bindings::default();
        for generator in generators {
            own.names.extend(Bindings::of_target(&generator.target).names);
        }
        self.enclosing.push(own);
        first.ifs.iter().for_each(|condition| self.visit_expr(condition));
        for generator in rest {
            self.visit_expr(&generator.iter);
            generator.ifs.iter().for_each(|condition| self.visit_expr(condition));
        }
        parts.iter().for_each(|part| self.visit_expr(part));
        self.enclosing.pop();
    }

    fn defaults(&mut self, list: Option<&'a Parameters>) {
        for parameter in list.into_iter().flat_map(Parameters::iter_non_variadic_params) {
            if let Some(default) = parameter.default() {
                self.visit_expr(default);
            }
        }
    }
}

impl<'a> Visitor<'a> for Finder<'a, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => {
                def.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                self.defaults(Some(&def.parameters));
                self.function(def);
                let lists = (Some(&*def.parameters), def.type_params.as_deref());
                self.inside(&def.name, lists, Body::Statements(&def.body));
            }
            Stmt::ClassDef(def) => {
                self.names.push(format!("{}.", def.name));
                self.classes.push(def.name.as_str());
                visitor::walk_stmt(self, stmt);
                self.classes.pop();
                self.names.pop();
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        let lambda = match expr {
            Expr::Lambda(lambda) => lambda,
            Expr::ListComp(comp) => return self.comprehension(&[&comp.elt], &comp.generators),
            Expr::SetComp(comp) => return self.comprehension(&[&comp.elt], &comp.generators),
            Expr::Generator(comp) => return self.comprehension(&[&comp.elt], &comp.generators),
            Expr::DictComp(comp) => {
                let parts: Vec<&'a Expr> = comp.key.as_deref().into_iter().chain([&*comp.value]).collect();
                return self.comprehension(&parts, &comp.generators);
            }
            _ => return visitor::walk_expr(self, expr),
        };
        self.defaults(lambda.parameters.as_deref());
        let subject = Subject {
            parameters: lambda.parameters.as_deref(),
            type_parameters: None,
            returns: None,
            body: Body::Expression(&lambda.body),
        };
        let Found { uses, argument_flows } = self.found(&subject);
        self.functions.push(Function {
            name: "<lambda>".to_owned(),
            qualname: self.qualname("<lambda>"),
            line: self.lines.at(lambda.start()),
            start: lambda.start().to_u32(),
            end: lambda.end().to_u32(),
            digest: normal::digest(self.text, AnyNodeRef::from(expr), &[]),
            decorators: Vec::new(),
            parameters: parameters(lambda.parameters.as_deref()),
            uses,
            argument_flows,
            statements: Vec::new(),
            codes: Vec::new(),
        });
        self.inside("<lambda>", (lambda.parameters.as_deref(), None), Body::Expression(&lambda.body));
    }

    // Annotations hold no functions that anybody calls.
    fn visit_annotation(&mut self, _: &'a Expr) {}
}

fn parameters(list: Option<&Parameters>) -> Vec<Parameter> {
    let Some(list) = list else { return Vec::new() };
    let by_position = list.posonlyargs.len();
    let ordinary = by_position + list.args.len();
    let kind = |at: usize, parameter: AnyParameterRef<'_>| match parameter {
        AnyParameterRef::NonVariadic(_) if at < by_position => ParameterKind::PositionalOnly,
        AnyParameterRef::NonVariadic(_) if at < ordinary => ParameterKind::Ordinary,
        AnyParameterRef::NonVariadic(_) => ParameterKind::KeywordOnly,
        AnyParameterRef::Variadic(_) if at == ordinary && list.vararg.is_some() => ParameterKind::Variadic,
        AnyParameterRef::Variadic(_) => ParameterKind::Keywords,
    };
    let to_parameter = |(at, parameter): (usize, AnyParameterRef<'_>)| Parameter {
        name: parameter.name().to_string(),
        kind: kind(at, parameter),
    };
    list.iter().enumerate().map(to_parameter).collect()
}

/// Numbers the statements of a function, what is nested included.
struct Statements<'l> {
    lines: &'l Lines,
    numbers: Vec<u32>,
}

impl<'a> Visitor<'a> for Statements<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        self.numbers.push(self.lines.at(stmt.start()));
        visitor::walk_stmt(self, stmt);
    }
}

/// Fingerprints as plain bytes.
mod digest_bytes {
    use keyprint_fingerprint::Fingerprint;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(digest: &Fingerprint, to: S) -> Result<S::Ok, S::Error> {
        digest.as_bytes().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Fingerprint, D::Error> {
        <[u8; Fingerprint::LEN]>::deserialize(from).map(Fingerprint::from_bytes)
    }
}
