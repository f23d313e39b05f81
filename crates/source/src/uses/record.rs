//! What is read, taken note of.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Comprehension, Expr, ExprCall, ExprSubscript, Parameters};
use ruff_text_size::{Ranged, TextRange};

use super::reader::{AccessPath, Reader, Scope};
use super::special_names::{ANNOTATIONS, DOCUMENTATION, DYNAMIC, MEMBERS, MUTATORS, NAMES};
use super::{ArgumentFlow, Body, How, LONGEST_PATH, Root, Slot, Use, decorator_path};
use crate::bindings::Bindings;
use crate::parse::with_expression;

impl<'a> Reader<'a, '_> {
    /// Takes note of what `super` is asked for; nothing if it is kept for later.
    pub(super) fn behind(&mut self, call: &'a ExprCall, member: Option<String>) {
        self.builtin("super", call.range());
        let mut owners = vec![AccessPath { root: Root::Parameter(0), path: Vec::new() }];
        if let [class, object] = &*call.arguments.args {
            self.visit_expr(class);
            match self.here(object) {
                Some(paths) => owners = paths,
                None => return self.visit_expr(object),
            }
        }
        for mut owner in owners {
            owner.path.extend(member.clone());
            self.used(owner, How::Super, call.range());
        }
    }

    /// Takes note that a name is taken for a builtin, which the program may have replaced.
    pub(super) fn builtin(&mut self, name: &str, range: TextRange) {
        let access_path = AccessPath { root: Root::Global(name.to_owned()), path: Vec::new() };
        self.used(access_path, How::Builtin, range);
    }

    /// Takes note of the builtins that an access path goes through.
    pub(super) fn builtins(&mut self, expr: &'a Expr) {
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

    pub(super) fn line(&self, range: TextRange) -> u32 {
        self.lines.at(range.start())
    }

    /// Takes note of something that is no access path.
    pub(super) fn note(&mut self, what: &str, how: How, range: TextRange) {
        let line = self.line(range);
        self.findings.uses.push(Use { root: Root::Global(what.to_owned()), path: Vec::new(), how, line });
    }

    /// Takes note of members through which more is read than they name.
    pub(super) fn notable<T: AsRef<str>>(&mut self, members: &[T], range: TextRange) {
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

    pub(super) fn used(&mut self, access_path: AccessPath, how: How, range: TextRange) {
        self.notable(&access_path.path, range);
        let AccessPath { root, mut path } = access_path;
        let long = path.len() > LONGEST_PATH;
        path.truncate(LONGEST_PATH);
        let how = match how {
            _ if long => How::Whole,
            How::Whole | How::Called if self.annotation => How::Annotation,
            how => how,
        };
        self.findings.uses.push(Use { root, path, how, line: self.line(range) });
    }

    pub(super) fn call(&mut self, call: &'a ExprCall) {
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
    pub(super) fn as_mutation(&self, expr: &'a Expr) -> Option<(&'a ExprCall, &'a Expr)> {
        let Expr::Call(call) = expr else { return None };
        let Expr::Attribute(attribute) = &*call.func else { return None };
        let is_one = MUTATORS.contains(&attribute.attr.as_str()) && self.here(&attribute.value).is_some();
        is_one.then_some((call, &*attribute.value))
    }

    /// Takes note of an item that is written.
    pub(super) fn stored(&mut self, subscript: &'a ExprSubscript, how: How) {
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
    pub(super) fn arguments(&mut self, call: &'a ExprCall, callees: &[AccessPath], number: u32) {
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

    pub(super) fn argument(
        &mut self,
        argument: &'a Expr,
        callees: &[AccessPath],
        slot: Option<Slot>,
        call: u32,
    ) {
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
                self.findings.argument_flows.push(ArgumentFlow {
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

    pub(super) fn comprehension(&mut self, parts: &[&'a Expr], generators: &'a [Comprehension]) {
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
    pub(super) fn nested(
        &mut self,
        parameters: Option<&'a Parameters>,
        mut own: Bindings<'a>,
        body: Body<'a>,
    ) {
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

    pub(super) fn defaults(&mut self, parameters: Option<&'a Parameters>) {
        for parameter in parameters.into_iter().flat_map(Parameters::iter_non_variadic_params) {
            if let Some(default) = parameter.default() {
                self.visit_expr(default);
            }
        }
    }

    /// An annotation that is written as a string: the names in it are read all the same.
    pub(super) fn quoted(&mut self, text: &str, range: TextRange) {
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
    pub(super) fn is_alias(&self, name: &str, value: &'a Expr) -> bool {
        let scope = self.scopes.last().expect("the function's own scope is never left");
        self.with_aliases && !scope.is_class && scope.bindings.names.contains_key(name) && {
            // The name must lead to it from everywhere: otherwise the value is read here.
            self.cut.set(false);
            self.here(value).is_some()
                && self.resolve(name, self.scopes.len(), &mut Vec::new()).is_some()
                && !self.cut.get()
        }
    }

    pub(super) fn imported(&mut self, module: &str, level: u32, name: Option<String>, range: TextRange) {
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
