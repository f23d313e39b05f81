//! What a function reads: names from outside, members of those and of its parameters.
//!
//! An expression such as `sim.grid.dx` is an *access path*: a root and the members that follow it. An access path
//! that ends in a plain use is a [`Use`]; one that is handed to another function is a [`ArgumentFlow`], whose
//! meaning is up to that function.

use std::cell::Cell;

use ruff_python_ast::visitor::Visitor;
use ruff_python_ast::{Expr, Parameters, Stmt, TypeParams};
use serde::{Deserialize, Serialize};

use crate::bindings::Bindings;
use crate::lines::Lines;

mod reader;
mod record;
mod special_names;
mod visit;

use self::reader::{Reader, Scope};
pub use self::special_names::DYNAMIC;

/// Longer access paths count as a use of what their beginning leads to.
const LONGEST_PATH: usize = 24;

/// Where names for names are longer, or names stand for more things than this, what is assigned
/// counts whole.
const MOST_ALIASES: usize = 16;

/// Where an access path begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Root {
    /// A parameter, by position among all of them.
    Parameter(u16),
    /// A variable of an enclosing function.
    Free(String),
    /// A global of the module, or a builtin.
    Global(String),
    /// Something that the function itself imports.
    Import {
        /// The module, without the dots of a relative import.
        module: String,
        /// How many dots there are.
        level: u32,
        /// What is imported from it, if not itself.
        name: Option<String>,
    },
}

/// What is done with what an access path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum How {
    /// Anything: all of it counts.
    Whole,
    /// It is called.
    Called,
    /// It says what type something has.
    Annotation,
    /// It is looked up behind a class, by `super()`.
    Super,
    /// It is imported, whatever is done with it then.
    Imported,
    /// It is taken for the builtin of its name.
    Builtin,
    /// It may be missing: asked for by `hasattr`. Nothing else is read of it.
    Optional,
    /// It is about to be written, and may be missing: `a.n = 1`.
    Assigned,
    /// It goes into nothing but itself: `n += 1`.
    Written,
    /// An item of it is written, which must be there in a list: `d[k] = v`.
    Stored,
    /// An item of it goes into nothing but itself, and must be there: `d[k] += v`.
    Updated,
    /// A method that adds to a container is called, and what it returns is not looked at: `log.append(x)`. The
    /// path ends in the method.
    Mutated,
    /// Only its type is asked for: `is None`.
    Type,
    /// A dynamic access: anything may be read through it, such as `__globals__`.
    Dynamic,
    /// Documentation is read, of whatever it may be: that of everything that is reached counts.
    Documentation,
    /// Objects are told apart by identity: which of them are the same counts.
    Identity,
    /// Members are read in their order, of whatever it may be: that of every class that is reached counts.
    Order,
    /// Annotations are read, of whatever it may be: the classes that they name count.
    Annotations,
    /// Names are read, of whatever it may be: those of everything that is reached count.
    Names,
}

/// An access path that is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// Where it begins.
    pub root: Root,
    /// The members that follow.
    pub path: Vec<String>,
    /// What is done with it.
    pub how: How,
    /// Where it is read.
    pub line: u32,
}

/// Where an argument goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Slot {
    /// By position.
    Position(u16),
    /// By name.
    Keyword(String),
}

/// An access path that is handed to a function, which is an access path itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentFlow {
    /// Where the argument begins.
    pub root: Root,
    /// Its members.
    pub path: Vec<String>,
    /// Where the function begins.
    pub callee: Root,
    /// Its members.
    pub callee_path: Vec<String>,
    /// Which argument it is.
    pub slot: Slot,
    /// Where it is handed over.
    pub line: u32,
    /// The number of the call: arguments of one call have the same.
    pub call: u32,
}

/// What a function reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) uses: Vec<Use>,
    pub(crate) argument_flows: Vec<ArgumentFlow>,
}

/// A function to look at.
pub(crate) struct Subject<'a> {
    pub(crate) parameters: Option<&'a Parameters>,
    pub(crate) type_parameters: Option<&'a TypeParams>,
    pub(crate) returns: Option<&'a Expr>,
    pub(crate) body: Body<'a>,
}

/// What a function consists of.
#[derive(Clone, Copy)]
pub(crate) enum Body<'a> {
    Statements(&'a [Stmt]),
    Expression(&'a Expr),
}

/// Looks at a function inside `enclosing` scopes, of which only those of functions are given.
/// `class` is the innermost class around it, whose name private members carry.
pub(crate) fn of<'a>(
    subject: &Subject<'a>,
    enclosing: &[Bindings<'a>],
    class: Option<&'a str>,
    lines: &Lines,
) -> Found {
    let read = |with_aliases| read(subject, enclosing, class, lines, with_aliases);
    let mut findings = read(true).or_else(|| read(false)).expect("nothing is too long without aliases");
    dedup(&mut findings.uses, |usage| (usage.root.clone(), usage.path.clone(), usage.how));
    dedup(&mut findings.argument_flows, |flow| {
        (
            (flow.root.clone(), flow.path.clone()),
            (flow.callee.clone(), flow.callee_path.clone()),
            (flow.slot.clone(), flow.call),
        )
    });
    findings
}

/// The same; nothing if names stand for names too often to be followed.
fn read<'a>(
    subject: &Subject<'a>,
    enclosing: &[Bindings<'a>],
    class: Option<&'a str>,
    lines: &Lines,
    with_aliases: bool,
) -> Option<Found> {
    let mut own = match subject.body {
        Body::Statements(body) => Bindings::of_body(body),
        Body::Expression(expr) => Bindings::of_expr(expr),
    };
    if let Some(parameters) = subject.parameters {
        own.add_parameters(parameters, true);
    }
    own.add_type_parameters(subject.type_parameters);
    let mut reader = Reader {
        scopes: vec![Scope { bindings: own, is_class: false }],
        enclosing,
        classes: class.into_iter().collect(),
        lines,
        annotation: false,
        calls: 0,
        cut: Cell::new(false),
        overflow: Cell::new(false),
        with_aliases,
        findings: Found::default(),
    };
    reader.annotations(subject.parameters, subject.returns, subject.type_parameters);
    match subject.body {
        Body::Statements(body) => reader.visit_body(body),
        Body::Expression(expr) => reader.visit_expr(expr),
    }
    (!reader.overflow.get()).then_some(reader.findings)
}

/// Keeps the first of those that say the same.
fn dedup<T, K: std::hash::Hash + Eq>(items: &mut Vec<T>, key: impl Fn(&T) -> K) {
    let mut seen = std::collections::HashSet::new();
    items.retain(|item| seen.insert(key(item)));
}

/// The access path that a decorator's expression is, or calls: `@kernel`, `@lang.kernel(fast=True)`.
pub(crate) fn decorator_path(expr: &Expr) -> Vec<String> {
    let mut expr = match expr {
        Expr::Call(call) => &*call.func,
        other => other,
    };
    let mut members = Vec::new();
    loop {
        match expr {
            Expr::Name(name) => {
                members.push(name.id.to_string());
                members.reverse();
                return members;
            }
            Expr::Attribute(attribute) => {
                members.push(attribute.attr.to_string());
                expr = &attribute.value;
            }
            _ => return Vec::new(),
        }
    }
}
