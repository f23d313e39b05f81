//! What a function reads: names from outside, members of those and of its parameters.
//!
//! An expression such as `sim.grid.dx` is an *access path*: a root and the members that follow it. An access path
//! that ends in a plain use is a [`Use`]; one that is handed to another function is a [`ArgumentFlow`], whose
//! meaning is up to that function.

use std::cell::Cell;

use keyprint_fingerprint::Fingerprint;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    Arguments, CmpOp, Comprehension, Decorator, Expr, ExprCall, ExprCompare, ExprContext, ExprSubscript,
    Operator, Parameters, Stmt, StmtAugAssign, TypeParams,
};
use ruff_text_size::{Ranged, TextRange};
use serde::{Deserialize, Serialize};

use crate::bindings::{Binding, Bindings};
use crate::lines::Lines;
use crate::parse::with_expression;

/// Longer access paths count as a use of what their beginning leads to.
const LONGEST_PATH: usize = 24;

/// Where names for names are longer, or names stand for more things than this, what is assigned
/// counts whole.
const MOST_ALIASES: usize = 16;

/// Attributes through which a function can read anything, or where it stands in a file.
pub const DYNAMIC: &[&str] = &[
    // Names of modules and functions.
    "__globals__",
    "__builtins__",
    "f_globals",
    "f_locals",
    "f_builtins",
    // Code and frames, which know their text and their place.
    "__code__",
    "__firstlineno__",
    "co_code",
    "co_filename",
    "co_firstlineno",
    "co_lines",
    "co_linetable",
    "co_lnotab",
    "co_positions",
    "f_back",
    "f_code",
    "f_lineno",
    "gi_code",
    "gi_frame",
    "cr_code",
    "cr_frame",
    "ag_code",
    "ag_frame",
    "__traceback__",
    "tb_frame",
    "tb_lasti",
    "tb_lineno",
    "tb_next",
    // Classes that nothing here names.
    "__subclasses__",
];

/// The attribute that holds documentation, which counts only where it is read.
const DOCUMENTATION: &str = "__doc__";

/// The attribute that holds members in their order.
const MEMBERS: &str = "__dict__";

/// Attributes that hold the types that annotations name.
const ANNOTATIONS: &[&str] =
    &["__annotations__", "__attrs_attrs__", "__dataclass_fields__", "__signature__", "model_fields"];

/// Attributes that hold what things are called.
const NAMES: &[&str] = &["__module__", "__name__", "__qualname__"];

/// Methods of containers that add to them, or change their order, whatever is in them.
const MUTATORS: &[&str] = &[
    "add",
    "append",
    "appendleft",
    "clear",
    "discard",
    "extend",
    "extendleft",
    "insert",
    "reverse",
    "setdefault",
    "update",
];

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
    let mut found = read(true).or_else(|| read(false)).expect("nothing is too long without aliases");
    dedup(&mut found.uses, |one| (one.root.clone(), one.path.clone(), one.how));
    dedup(&mut found.argument_flows, |one| {
        (
            (one.root.clone(), one.path.clone()),
            (one.callee.clone(), one.callee_path.clone()),
            (one.slot.clone(), one.call),
        )
    });
    found
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
        found: Found::default(),
    };
    reader.annotations(subject.parameters, subject.returns, subject.type_parameters);
    match subject.body {
        Body::Statements(body) => reader.visit_body(body),
        Body::Expression(expr) => reader.visit_expr(expr),
    }
    (!reader.overflow.get()).then_some(reader.found)
}

/// Whether something is only compared with `None`, by identity.
fn is_test_for_none(compare: &ExprCompare) -> bool {
    compare.ops.iter().all(|op| matches!(op, CmpOp::Is | CmpOp::IsNot))
        && compare.comparators.iter().all(Expr::is_none_literal_expr)
}

/// Whether a comparison asks which objects are the same, and not only whether one is a constant.
fn tells_apart(compare: &ExprCompare) -> bool {
    let is_constant = |expr: &Expr| {
        matches!(expr, Expr::NoneLiteral(_) | Expr::BooleanLiteral(_) | Expr::EllipsisLiteral(_))
    };
    let mut left = &*compare.left;
    for (op, right) in compare.ops.iter().zip(&compare.comparators) {
        if matches!(op, CmpOp::Is | CmpOp::IsNot) && !is_constant(left) && !is_constant(right) {
            return true;
        }
        left = right;
    }
    false
}

/// Whether an assignment adds a constant to its target, or takes one away: that fails for no number.
fn adds_a_constant(assign: &StmtAugAssign) -> bool {
    matches!(assign.op, Operator::Add | Operator::Sub)
        && (assign.value.is_literal_expr() || assign.value.is_list_expr() || assign.value.is_f_string_expr())
}

/// Keeps the first of those that say the same.
fn dedup<T, K: std::hash::Hash + Eq>(items: &mut Vec<T>, key: impl Fn(&T) -> K) {
    let mut seen = std::collections::HashSet::new();
    items.retain(|item| seen.insert(key(item)));
}

struct Scope<'a> {
    bindings: Bindings<'a>,
    is_class: bool,
}

#[derive(Clone, Debug)]
struct AccessPath {
    root: Root,
    path: Vec<String>,
}

struct Reader<'a, 'l> {
    /// Innermost last; the first is that of the function itself.
    scopes: Vec<Scope<'a>>,
    enclosing: &'l [Bindings<'a>],
    /// Innermost last.
    classes: Vec<&'a str>,
    lines: &'l Lines,
    annotation: bool,
    calls: u32,
    /// Whether a name was met that stands for something of itself.
    cut: Cell<bool>,
    /// Whether names stood for names too often.
    overflow: Cell<bool>,
    /// Whether a name stands for what it was assigned; otherwise that is read when it is assigned.
    with_aliases: bool,
    found: Found,
}

impl<'a> Reader<'a, '_> {
    fn annotations(
        &mut self,
        parameters: Option<&'a Parameters>,
        returns: Option<&'a Expr>,
        type_parameters: Option<&'a TypeParams>,
    ) {
        for parameter in parameters.into_iter().flat_map(|parameters| parameters.iter()) {
            if let Some(annotation) = parameter.annotation() {
                self.visit_annotation(annotation);
            }
        }
        if let Some(returns) = returns {
            self.visit_annotation(returns);
        }
        if let Some(type_parameters) = type_parameters {
            let before = std::mem::replace(&mut self.annotation, true);
            visitor::walk_type_params(self, type_parameters);
            self.annotation = before;
        }
    }

    /// A private name, as the class around it makes it.
    fn mangled(&self, name: &str) -> String {
        match self.classes.last().map(|class| class.trim_start_matches('_')) {
            Some(class)
                if name.starts_with("__")
                    && !name.ends_with("__")
                    && !name.contains('.')
                    && !class.is_empty() =>
            {
                format!("_{class}{name}")
            }
            _ => name.to_owned(),
        }
    }

    /// What a name leads to, seen from the first `visible` scopes; nothing if it holds no more than the
    /// function's own work. `through` are the names that were looked at on the way.
    fn resolve(&self, name: &str, visible: usize, through: &mut Vec<String>) -> Option<Vec<AccessPath>> {
        let root = |root| Some(vec![AccessPath { root, path: Vec::new() }]);
        for (at, scope) in self.scopes[..visible].iter().enumerate().rev() {
            // The names of a class are seen in its body only.
            if scope.is_class && at + 1 != visible {
                continue;
            }
            if scope.bindings.globals.contains(name) {
                return root(Root::Global(self.mangled(name)));
            }
            let Some(bindings) = scope.bindings.names.get(name) else { continue };
            if through.len() > MOST_ALIASES {
                self.overflow.set(true);
                return None;
            }
            let step = format!("{at} {name}");
            if through.contains(&step) {
                // It stands for something of itself: whoever assigns it reads that whole.
                self.cut.set(true);
                return None;
            }
            through.push(step);
            let mut found = Vec::new();
            for binding in bindings {
                match binding {
                    Binding::Parameter(at) => found.extend(root(Root::Parameter(*at))?),
                    // What it stood for when it was assigned: seen from there.
                    Binding::Assigned(_) if !self.with_aliases => {}
                    Binding::Assigned(value) => {
                        found.extend(self.access_paths(value, at + 1, through).unwrap_or_default());
                    }
                    Binding::Import { module, level, name } => {
                        let (module, name) = (module.clone(), name.clone());
                        found.extend(root(Root::Import { module, level: *level, name })?);
                    }
                    Binding::Local => {}
                }
            }
            if found.len() > MOST_ALIASES && self.with_aliases {
                self.overflow.set(true);
            }
            through.pop();
            if scope.is_class {
                // As long as the class does not have it, the name means the module's.
                found.extend(root(Root::Global(self.mangled(name)))?);
            }
            return (!found.is_empty()).then_some(found);
        }
        if name == "__class__" && !self.classes.is_empty() {
            return root(Root::Free(name.to_owned()));
        }
        for bindings in self.enclosing.iter().rev() {
            if bindings.globals.contains(name) {
                break;
            }
            if bindings.names.contains_key(name) {
                return root(Root::Free(self.mangled(name)));
            }
        }
        root(Root::Global(self.mangled(name)))
    }

    /// The access paths that an expression may be, if it is one: several if a name in it is bound several times.
    fn access_paths(
        &self,
        expr: &'a Expr,
        visible: usize,
        through: &mut Vec<String>,
    ) -> Option<Vec<AccessPath>> {
        // From the last member inwards to the root.
        let mut members: Vec<String> = Vec::new();
        let mut expr = expr;
        loop {
            match expr {
                Expr::Name(name) => {
                    let mut found = self.resolve(name.id.as_str(), visible, through)?;
                    for access_path in &mut found {
                        access_path.path.extend(members.iter().rev().cloned());
                    }
                    return Some(found);
                }
                Expr::Attribute(attribute) => {
                    members.push(self.mangled(&attribute.attr));
                    expr = &attribute.value;
                }
                Expr::Call(call) => {
                    let (owner, member) = self.as_getattr(call)?;
                    members.push(member);
                    expr = owner;
                }
                _ => return None,
            }
        }
    }

    /// The access paths that an expression may be here.
    fn here(&self, expr: &'a Expr) -> Option<Vec<AccessPath>> {
        self.access_paths(expr, self.scopes.len(), &mut Vec::new())
    }

    /// Whether an expression is the name of a builtin, as far as the text tells.
    fn is_builtin(&self, expr: &'a Expr, name: &str) -> bool {
        matches!(expr, Expr::Name(found) if found.id.as_str() == name)
            && matches!(self.here(expr).as_deref(), Some([AccessPath { root: Root::Global(_), .. }]))
    }

    /// `getattr(owner, "member")` is `owner.member`.
    fn as_getattr(&self, call: &'a ExprCall) -> Option<(&'a Expr, String)> {
        let Arguments { args, keywords, .. } = &call.arguments;
        match &**args {
            [owner, Expr::StringLiteral(member)]
                if keywords.is_empty() && self.is_builtin(&call.func, "getattr") =>
            {
                Some((owner, member.value.to_str().to_owned()))
            }
            _ => None,
        }
    }

    /// `hasattr(owner, "member")` and `getattr(owner, "member", default)` ask for what may be missing.
    fn as_question(&self, call: &'a ExprCall) -> Option<(&'static str, &'a Expr, String)> {
        let Arguments { args, keywords, .. } = &call.arguments;
        let (name, owner, member) = match &**args {
            [owner, Expr::StringLiteral(member)] => ("hasattr", owner, member),
            [owner, Expr::StringLiteral(member), _] => ("getattr", owner, member),
            _ => return None,
        };
        let fits = keywords.is_empty() && self.is_builtin(&call.func, name) && self.here(owner).is_some();
        fits.then(|| (name, owner, member.value.to_str().to_owned()))
    }

    /// `Literal["a"]` and the metadata of `Annotated` hold values, not types.
    fn annotated(&mut self, subscript: &'a ExprSubscript) {
        self.visit_expr(&subscript.value);
        let name = match &*subscript.value {
            Expr::Name(name) => name.id.as_str(),
            Expr::Attribute(attribute) => attribute.attr.as_str(),
            _ => "",
        };
        let items = match &*subscript.slice {
            Expr::Tuple(tuple) => tuple.elts.as_slice(),
            one => std::slice::from_ref(one),
        };
        for (at, item) in items.iter().enumerate() {
            let is_type = !(name == "Literal" || name == "Annotated" && at > 0);
            let before = std::mem::replace(&mut self.annotation, is_type);
            self.visit_expr(item);
            self.annotation = before;
        }
    }

    /// The call and the member of `super().member` or `super(C, self).member`.
    fn as_super(&self, expr: &'a Expr) -> Option<(&'a ExprCall, String)> {
        let Expr::Attribute(attribute) = expr else { return None };
        let Expr::Call(call) = &*attribute.value else { return None };
        self.is_builtin(&call.func, "super").then(|| (call, self.mangled(&attribute.attr)))
    }

    /// Takes note of what `super` is asked for; nothing if it is kept for later.
    fn behind(&mut self, call: &'a ExprCall, member: Option<String>) {
        self.builtin("super", call.range());
        let mut owners = vec![AccessPath { root: Root::Parameter(0), path: Vec::new() }];
        if let [class, object] = &*call.arguments.args {
            self.visit_expr(class);
            match self.here(object) {
                Some(found) => owners = found,
                None => return self.visit_expr(object),
            }
        }
        for mut owner in owners {
            owner.path.extend(member.clone());
            self.used(owner, How::Super, call.range());
        }
    }

    /// Takes note that a name is taken for a builtin, which the program may have replaced.
    fn builtin(&mut self, name: &str, range: TextRange) {
        let access_path = AccessPath { root: Root::Global(name.to_owned()), path: Vec::new() };
        self.used(access_path, How::Builtin, range);
    }

    /// Takes note of the builtins that an access path goes through.
    fn builtins(&mut self, expr: &'a Expr) {
        let mut expr = expr;
        loop {
            expr = match expr {
                Expr::Attribute(attribute) => &attribute.value,
                Expr::Call(call) => match self.as_getattr(call) {
                    Some((owner, _)) => {
                        self.builtin("getattr", call.range());
                        owner
                    }
                    None => return,
                },
                _ => return,
            };
        }
    }

    fn line(&self, range: TextRange) -> u32 {
        self.lines.at(range.start())
    }

    /// Takes note of something that is no access path.
    fn note(&mut self, what: &str, how: How, range: TextRange) {
        let line = self.line(range);
        self.found.uses.push(Use { root: Root::Global(what.to_owned()), path: Vec::new(), how, line });
    }

    /// Takes note of members through which more is read than they name.
    fn notable<T: AsRef<str>>(&mut self, members: &[T], range: TextRange) {
        for member in members.iter().map(AsRef::as_ref) {
            if DYNAMIC.contains(&member) {
                self.note(member, How::Dynamic, range);
            } else if member == DOCUMENTATION {
                self.note(member, How::Documentation, range);
            } else if member == MEMBERS {
                self.note(member, How::Order, range);
            } else if ANNOTATIONS.contains(&member) {
                self.note(member, How::Annotations, range);
            } else if NAMES.contains(&member) {
                self.note(member, How::Names, range);
            }
        }
    }

    fn used(&mut self, access_path: AccessPath, how: How, range: TextRange) {
        self.notable(&access_path.path, range);
        let AccessPath { root, mut path } = access_path;
        let long = path.len() > LONGEST_PATH;
        path.truncate(LONGEST_PATH);
        let how = match how {
            _ if long => How::Whole,
            How::Whole | How::Called if self.annotation => How::Annotation,
            how => how,
        };
        self.found.uses.push(Use { root, path, how, line: self.line(range) });
    }

    fn call(&mut self, call: &'a ExprCall) {
        if let Some((behind, member)) = self.as_super(&call.func) {
            self.behind(behind, Some(member));
            self.visit_arguments(&call.arguments);
            return;
        }
        if self.is_builtin(&call.func, "super") {
            // Kept for later: anything may be asked of it.
            return self.behind(call, None);
        }
        self.calls += 1;
        let number = self.calls;
        let callees = self.here(&call.func).unwrap_or_default();
        if callees.is_empty() {
            self.visit_expr(&call.func);
        }
        self.builtins(&call.func);
        for callee in &callees {
            if call.arguments.is_empty()
                && callee.path.is_empty()
                && callee.root == Root::Global("vars".to_owned())
            {
                // Without an argument it gives all names that there are.
                self.note("vars()", How::Dynamic, call.range());
            }
            self.used(callee.clone(), How::Called, call.func.range());
        }
        self.arguments(call, &callees, number);
    }

    /// The call and the owner of `owner.append(...)`, if that is what an expression is.
    fn as_mutation(&self, expr: &'a Expr) -> Option<(&'a ExprCall, &'a Expr)> {
        let Expr::Call(call) = expr else { return None };
        let Expr::Attribute(attribute) = &*call.func else { return None };
        let is_one = MUTATORS.contains(&attribute.attr.as_str()) && self.here(&attribute.value).is_some();
        is_one.then_some((call, &*attribute.value))
    }

    /// Takes note of an item that is written.
    fn stored(&mut self, subscript: &'a ExprSubscript, how: How) {
        match self.here(&subscript.value) {
            Some(access_paths) => {
                self.builtins(&subscript.value);
                for access_path in access_paths {
                    self.used(access_path, how, subscript.range());
                }
            }
            None => self.visit_expr(&subscript.value),
        }
        self.visit_expr(&subscript.slice);
    }

    /// Takes note of what a call hands on.
    fn arguments(&mut self, call: &'a ExprCall, callees: &[AccessPath], number: u32) {
        let mut positions = Some(0u16);
        for argument in &call.arguments.args {
            if let Expr::Starred(_) = argument {
                // How many arguments that makes is not known here.
                positions = None;
            }
            let slot = positions.map(Slot::Position);
            positions = positions.and_then(|at| at.checked_add(1));
            self.argument(argument, callees, slot, number);
        }
        for keyword in &call.arguments.keywords {
            let slot = keyword.arg.as_ref().map(|name| Slot::Keyword(name.to_string()));
            self.argument(&keyword.value, callees, slot, number);
        }
    }

    fn argument(&mut self, argument: &'a Expr, callees: &[AccessPath], slot: Option<Slot>, call: u32) {
        let (Some(access_paths), Some(slot), false) = (self.here(argument), slot, callees.is_empty()) else {
            return self.visit_expr(argument);
        };
        let long = |access_path: &AccessPath| access_path.path.len() > LONGEST_PATH;
        if access_paths.iter().any(long) || callees.iter().any(long) {
            return self.visit_expr(argument);
        }
        self.builtins(argument);
        let line = self.line(argument.range());
        for access_path in &access_paths {
            self.notable(&access_path.path, argument.range());
            for callee in callees {
                self.found.argument_flows.push(ArgumentFlow {
                    root: access_path.root.clone(),
                    path: access_path.path.clone(),
                    callee: callee.root.clone(),
                    callee_path: callee.path.clone(),
                    slot: slot.clone(),
                    line,
                    call,
                });
            }
        }
    }

    fn comprehension(&mut self, parts: &[&'a Expr], generators: &'a [Comprehension]) {
        let Some((first, rest)) = generators.split_first() else { return };
        self.visit_expr(&first.iter);
        let mut own = Bindings::default();
        for generator in generators {
            own.names.extend(Bindings::of_target(&generator.target).names);
        }
        self.scopes.push(Scope { bindings: own, is_class: false });
        self.visit_expr(&first.target);
        first.ifs.iter().for_each(|condition| self.visit_expr(condition));
        for generator in rest {
            self.visit_expr(&generator.iter);
            self.visit_expr(&generator.target);
            generator.ifs.iter().for_each(|condition| self.visit_expr(condition));
        }
        parts.iter().for_each(|part| self.visit_expr(part));
        self.scopes.pop();
    }

    /// A function inside the one that is looked at.
    fn nested(&mut self, parameters: Option<&'a Parameters>, mut own: Bindings<'a>, body: Body<'a>) {
        if let Some(parameters) = parameters {
            own.add_parameters(parameters, false);
        }
        self.scopes.push(Scope { bindings: own, is_class: false });
        match body {
            Body::Statements(body) => self.visit_body(body),
            Body::Expression(expr) => self.visit_expr(expr),
        }
        self.scopes.pop();
    }

    fn defaults(&mut self, parameters: Option<&'a Parameters>) {
        for parameter in parameters.into_iter().flat_map(Parameters::iter_non_variadic_params) {
            if let Some(default) = parameter.default() {
                self.visit_expr(default);
            }
        }
    }
}

impl<'a> Visitor<'a> for Reader<'a, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => {
                def.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                self.defaults(Some(&def.parameters));
                let mut own = Bindings::of_body(&def.body);
                own.add_type_parameters(def.type_params.as_deref());
                // Type parameters are seen by the annotations; the rest of the scope is not in their way.
                let mut types = Bindings::default();
                types.add_type_parameters(def.type_params.as_deref());
                self.scopes.push(Scope { bindings: types, is_class: false });
                self.annotations(Some(&def.parameters), def.returns.as_deref(), def.type_params.as_deref());
                self.scopes.pop();
                self.nested(Some(&def.parameters), own, Body::Statements(&def.body));
            }
            Stmt::ClassDef(def) => {
                def.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                let mut types = Bindings::default();
                types.add_type_parameters(def.type_params.as_deref());
                self.scopes.push(Scope { bindings: types, is_class: false });
                if let Some(arguments) = &def.arguments {
                    self.visit_arguments(arguments);
                }
                self.scopes.push(Scope { bindings: Bindings::of_body(&def.body), is_class: true });
                self.classes.push(def.name.as_str());
                self.visit_body(&def.body);
                self.classes.pop();
                self.scopes.pop();
                self.scopes.pop();
            }
            Stmt::Assign(assign) => {
                // A name for an access path stands for it wherever it is used.
                let is_alias = matches!(&*assign.targets, [Expr::Name(name)] if self.is_alias(name.id.as_str(), &assign.value));
                if !is_alias {
                    self.visit_expr(&assign.value);
                    assign.targets.iter().for_each(|target| self.visit_expr(target));
                }
            }
            Stmt::AnnAssign(assign) => {
                self.visit_annotation(&assign.annotation);
                let is_alias = match (&*assign.target, &assign.value) {
                    (Expr::Name(name), Some(value)) => self.is_alias(name.id.as_str(), value),
                    _ => false,
                };
                if !is_alias {
                    if let Some(value) = &assign.value {
                        self.visit_expr(value);
                    }
                    self.visit_expr(&assign.target);
                }
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.imported(alias.name.as_str(), 0, None, stmt.range());
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                self.imported(module, import.level, None, stmt.range());
                for alias in import.names.iter().filter(|alias| alias.name.as_str() != "*") {
                    // It may be missing, which is seen even if it is not used.
                    self.imported(module, import.level, Some(alias.name.to_string()), stmt.range());
                }
            }
            Stmt::AugAssign(assign) => {
                // The target is read as well, whatever its context says, but what is read goes nowhere else.
                let is_class = self.scopes.last().is_some_and(|scope| scope.is_class);
                // The body of a class may read a name from outside and bind one of its own; other operators
                // and operands may fail, or look at what they are given.
                let is_safe = !is_class && adds_a_constant(assign);
                let how = if is_safe { How::Written } else { How::Whole };
                for access_path in self.here(&assign.target).unwrap_or_default() {
                    self.used(access_path, how, assign.target.range());
                }
                match &*assign.target {
                    Expr::Subscript(subscript) => {
                        self.stored(subscript, if is_safe { How::Updated } else { How::Whole });
                    }
                    target => self.visit_expr(target),
                }
                self.visit_expr(&assign.value);
            }
            Stmt::Expr(statement) if self.as_mutation(&statement.value).is_some() => {
                let (call, owner) = self.as_mutation(&statement.value).expect("just asked");
                self.calls += 1;
                let number = self.calls;
                self.builtins(owner);
                let callees = self.here(&call.func).unwrap_or_default();
                for callee in &callees {
                    self.used(callee.clone(), How::Mutated, call.func.range());
                }
                self.arguments(call, &callees, number);
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Some((call, member)) = self.as_super(expr) {
            return self.behind(call, Some(member));
        }
        match expr {
            Expr::Attribute(attribute) => self.notable(&[attribute.attr.as_str()], expr.range()),
            // What spells such a member can be used to read it: by `operator.attrgetter`, say.
            Expr::StringLiteral(text) if !self.annotation => {
                let parts: Vec<&str> = text.value.to_str().split('.').collect();
                self.notable(&parts, expr.range());
            }
            Expr::Compare(compare) if tells_apart(compare) => self.note("is", How::Identity, expr.range()),
            _ => {}
        }
        match expr {
            // Unbinding a name fails if there is none.
            Expr::Name(name) if matches!(name.ctx, ExprContext::Del) => {
                for access_path in self.here(expr).unwrap_or_default() {
                    self.used(access_path, How::Assigned, expr.range());
                }
            }
            // Binding a name reads nothing.
            Expr::Name(name) if !matches!(name.ctx, ExprContext::Load) => {}
            Expr::Attribute(attribute) if !matches!(attribute.ctx, ExprContext::Load) => {
                match self.here(expr) {
                    Some(access_paths) => {
                        for access_path in access_paths {
                            self.used(access_path, How::Assigned, expr.range());
                        }
                    }
                    None => visitor::walk_expr(self, expr),
                }
            }
            Expr::Compare(compare) if is_test_for_none(compare) && self.here(&compare.left).is_some() => {
                self.builtins(&compare.left);
                for access_path in self.here(&compare.left).unwrap_or_default() {
                    self.used(access_path, How::Type, expr.range());
                }
            }
            Expr::Call(call) if self.as_question(call).is_some() => {
                let (name, owner, member) = self.as_question(call).expect("just asked");
                self.builtin(name, call.range());
                call.arguments.args[2..].iter().for_each(|default| self.visit_expr(default));
                for mut access_path in self.here(owner).unwrap_or_default() {
                    access_path.path.push(member.clone());
                    if name == "getattr" {
                        // What is found is handed out, for anything to be done with it.
                        self.used(access_path.clone(), How::Whole, call.range());
                    }
                    self.used(access_path, How::Optional, call.range());
                }
            }
            Expr::Subscript(subscript) if matches!(subscript.ctx, ExprContext::Store) => {
                self.stored(subscript, How::Stored);
            }
            Expr::Subscript(subscript) if self.annotation => self.annotated(subscript),
            Expr::Name(_) | Expr::Attribute(_) | Expr::Call(_) => match (self.here(expr), expr) {
                (Some(access_paths), _) => {
                    self.builtins(expr);
                    for access_path in access_paths {
                        self.used(access_path, How::Whole, expr.range());
                    }
                }
                (None, Expr::Call(call)) => self.call(call),
                (None, _) => visitor::walk_expr(self, expr),
            },
            Expr::StringLiteral(text) if self.annotation => {
                self.quoted(text.value.to_str(), expr.range());
            }
            Expr::Lambda(lambda) => {
                self.defaults(lambda.parameters.as_deref());
                let own = Bindings::of_expr(&lambda.body);
                self.nested(lambda.parameters.as_deref(), own, Body::Expression(&lambda.body));
            }
            Expr::ListComp(comp) => self.comprehension(&[&comp.elt], &comp.generators),
            Expr::SetComp(comp) => self.comprehension(&[&comp.elt], &comp.generators),
            Expr::Generator(comp) => self.comprehension(&[&comp.elt], &comp.generators),
            Expr::DictComp(comp) => {
                let key = comp.key.as_deref();
                let parts: Vec<&'a Expr> = key.into_iter().chain([&*comp.value]).collect();
                self.comprehension(&parts, &comp.generators);
            }
            _ => visitor::walk_expr(self, expr),
        }
    }

    fn visit_annotation(&mut self, annotation: &'a Expr) {
        let before = std::mem::replace(&mut self.annotation, true);
        self.visit_expr(annotation);
        self.annotation = before;
    }

    fn visit_decorator(&mut self, decorator: &'a Decorator) {
        self.visit_expr(&decorator.expression);
    }
}

impl<'a> Reader<'a, '_> {
    /// An annotation that is written as a string: the names in it are read all the same.
    fn quoted(&mut self, text: &str, range: TextRange) {
        let Ok(parsed) = with_expression(text, |expr| {
            let mut names = Names::default();
            names.visit_expr(expr);
            names.0
        }) else {
            return;
        };
        for mut members in parsed {
            let name = members.remove(0);
            for mut access_path in self.resolve(&name, self.scopes.len(), &mut Vec::new()).unwrap_or_default()
            {
                access_path.path.extend(members.iter().cloned());
                self.used(access_path, How::Annotation, range);
            }
        }
    }

    /// Whether what is assigned to a name of the innermost scope is an access path, which the name then stands for.
    fn is_alias(&self, name: &str, value: &'a Expr) -> bool {
        let scope = self.scopes.last().expect("the function's own scope is never left");
        self.with_aliases && !scope.is_class && scope.bindings.names.contains_key(name) && {
            // The name must lead to it from everywhere: otherwise the value is read here.
            self.cut.set(false);
            self.here(value).is_some()
                && self.resolve(name, self.scopes.len(), &mut Vec::new()).is_some()
                && !self.cut.get()
        }
    }

    fn imported(&mut self, module: &str, level: u32, name: Option<String>, range: TextRange) {
        let root = Root::Import { module: module.to_owned(), level, name };
        self.used(AccessPath { root, path: Vec::new() }, How::Imported, range);
    }
}

/// The access paths of an expression, by name alone.
#[derive(Default)]
struct Names(Vec<Vec<String>>);

impl<'a> Visitor<'a> for Names {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match decorator_path(expr) {
            members if !members.is_empty() && !expr.is_call_expr() => self.0.push(members),
            _ => visitor::walk_expr(self, expr),
        }
    }
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

/// Fingerprints as plain bytes.
pub(crate) mod digest_bytes {
    use super::{Deserialize, Fingerprint, Serialize};
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(digest: &Fingerprint, to: S) -> Result<S::Ok, S::Error> {
        digest.as_bytes().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Fingerprint, D::Error> {
        <[u8; Fingerprint::LEN]>::deserialize(from).map(Fingerprint::from_bytes)
    }
}
