//! [`Reader`]: what names lead to, from where they stand.

use std::cell::Cell;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Arguments, Expr, ExprCall, ExprSubscript, Parameters, TypeParams};

use super::{Found, MOST_ALIASES, Root};
use crate::bindings::{Binding, Bindings};
use crate::lines::Lines;

pub(super) struct Scope<'a> {
    pub(super) bindings: Bindings<'a>,
    pub(super) is_class: bool,
}

#[derive(Clone, Debug)]
pub(super) struct AccessPath {
    pub(super) root: Root,
    pub(super) path: Vec<String>,
}

pub(super) struct Reader<'a, 'l> {
    /// Innermost last; the first is that of the function itself.
    pub(super) scopes: Vec<Scope<'a>>,
    pub(super) enclosing: &'l [Bindings<'a>],
    /// Innermost last.
    pub(super) classes: Vec<&'a str>,
    pub(super) lines: &'l Lines,
    pub(super) annotation: bool,
    pub(super) calls: u32,
    /// Whether a name was met that stands for something of itself.
    pub(super) cut: Cell<bool>,
    /// Whether names stood for names too often.
    pub(super) overflow: Cell<bool>,
    /// Whether a name stands for what it was assigned; otherwise that is read when it is assigned.
    pub(super) with_aliases: bool,
    pub(super) findings: Found,
}

impl<'a> Reader<'a, '_> {
    pub(super) fn annotations(
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
    pub(super) fn mangled(&self, name: &str) -> String {
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
    pub(super) fn resolve(
        &self,
        name: &str,
        visible: usize,
        through: &mut Vec<String>,
    ) -> Option<Vec<AccessPath>> {
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
            let mut paths = Vec::new();
            for binding in bindings {
                match binding {
                    Binding::Parameter(at) => paths.extend(root(Root::Parameter(*at))?),
                    // What it stood for when it was assigned: seen from there.
                    Binding::Assigned(_) if !self.with_aliases => {}
                    Binding::Assigned(value) => {
                        paths.extend(self.access_paths(value, at + 1, through).unwrap_or_default());
                    }
                    Binding::Import { module, level, name } => {
                        let (module, name) = (module.clone(), name.clone());
                        paths.extend(root(Root::Import { module, level: *level, name })?);
                    }
                    Binding::Local => {}
                }
            }
            if paths.len() > MOST_ALIASES && self.with_aliases {
                self.overflow.set(true);
            }
            through.pop();
            if scope.is_class {
                // As long as the class does not have it, the name means the module's.
                paths.extend(root(Root::Global(self.mangled(name)))?);
            }
            return (!paths.is_empty()).then_some(paths);
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
    pub(super) fn access_paths(
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
                    let mut paths = self.resolve(name.id.as_str(), visible, through)?;
                    for access_path in &mut paths {
                        access_path.path.extend(members.iter().rev().cloned());
                    }
                    return Some(paths);
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
    pub(super) fn here(&self, expr: &'a Expr) -> Option<Vec<AccessPath>> {
        self.access_paths(expr, self.scopes.len(), &mut Vec::new())
    }

    /// Whether an expression is the name of a builtin, as far as the text tells.
    pub(super) fn is_builtin(&self, expr: &'a Expr, name: &str) -> bool {
        matches!(expr, Expr::Name(node) if node.id.as_str() == name)
            && matches!(self.here(expr).as_deref(), Some([AccessPath { root: Root::Global(_), .. }]))
    }

    /// `getattr(owner, "member")` is `owner.member`.
    pub(super) fn as_getattr(&self, call: &'a ExprCall) -> Option<(&'a Expr, String)> {
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
    pub(super) fn as_question(&self, call: &'a ExprCall) -> Option<(&'static str, &'a Expr, String)> {
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
    pub(super) fn annotated(&mut self, subscript: &'a ExprSubscript) {
        self.visit_expr(&subscript.value);
        let name = match &*subscript.value {
            Expr::Name(name) => name.id.as_str(),
            Expr::Attribute(attribute) => attribute.attr.as_str(),
            _ => "",
        };
        let items = match &*subscript.slice {
            Expr::Tuple(tuple) => tuple.elts.as_slice(),
            item => std::slice::from_ref(item),
        };
        for (at, item) in items.iter().enumerate() {
            let is_type = !(name == "Literal" || name == "Annotated" && at > 0);
            let before = std::mem::replace(&mut self.annotation, is_type);
            self.visit_expr(item);
            self.annotation = before;
        }
    }

    /// The call and the member of `super().member` or `super(C, self).member`.
    pub(super) fn as_super(&self, expr: &'a Expr) -> Option<(&'a ExprCall, String)> {
        let Expr::Attribute(attribute) = expr else { return None };
        let Expr::Call(call) = &*attribute.value else { return None };
        self.is_builtin(&call.func, "super").then(|| (call, self.mangled(&attribute.attr)))
    }
}
