//! Which names a scope binds, and to what.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    ExceptHandler, Expr, ExprContext, Parameters, Pattern, Stmt, StmtImportFrom, TypeParam, TypeParams,
};

/// What a name stands for inside the scope that binds it.
#[derive(Clone, Debug)]
pub(crate) enum Binding<'a> {
    /// A parameter of the function that is looked at.
    Parameter(u16),
    /// Assigned, to this.
    Assigned(&'a Expr),
    /// Bound by an import statement.
    Import { module: String, level: u32, name: Option<String> },
    /// Anything else.
    Local,
}

/// The names that a scope binds, each as often as it is bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bindings<'a> {
    pub(crate) names: HashMap<&'a str, Vec<Binding<'a>>>,
    pub(crate) globals: HashSet<&'a str>,
    pub(crate) nonlocals: HashSet<&'a str>,
}

impl<'a> Bindings<'a> {
    /// What the body of a function or class binds. What is nested in it has scopes of its own.
    pub(crate) fn of_body(body: &'a [Stmt]) -> Self {
        let mut collector = Collector::default();
        collector.visit_body(body);
        let mut bindings = collector.bindings;
        for name in bindings.globals.iter().chain(&bindings.nonlocals) {
            bindings.names.remove(name);
        }
        bindings
    }

    /// What a lambda or comprehension binds inside expressions, by `:=`.
    pub(crate) fn of_expr(expr: &'a Expr) -> Self {
        let mut collector = Collector::default();
        collector.visit_expr(expr);
        collector.bindings
    }

    /// What assigning to a target binds.
    pub(crate) fn of_target(target: &'a Expr) -> Self {
        let mut collector = Collector::default();
        collector.visit_expr(target);
        collector.bindings
    }

    /// Adds parameters. `own` says whether they are those of the function that is looked at.
    pub(crate) fn add_parameters(&mut self, parameters: &'a Parameters, own: bool) {
        for (at, parameter) in parameters.iter().enumerate() {
            let name: &'a str = parameter.name().as_str();
            // A parameter that is assigned to as well still holds what was passed, at times.
            let binding = if own { Binding::Parameter(at as u16) } else { Binding::Local };
            if !self.globals.contains(name) {
                self.bind(name, binding);
            }
        }
    }

    /// Adds the type parameters of a definition.
    pub(crate) fn add_type_parameters(&mut self, parameters: Option<&'a TypeParams>) {
        for parameter in parameters.into_iter().flat_map(|parameters| parameters.iter()) {
            let name = match parameter {
                TypeParam::TypeVar(parameter) => &parameter.name,
                TypeParam::TypeVarTuple(parameter) => &parameter.name,
                TypeParam::ParamSpec(parameter) => &parameter.name,
            };
            self.bind(name.as_str(), Binding::Local);
        }
    }

    fn bind(&mut self, name: &'a str, binding: Binding<'a>) {
        self.names.entry(name).or_default().push(binding);
    }
}

#[derive(Default)]
struct Collector<'a> {
    bindings: Bindings<'a>,
}

impl<'a> Collector<'a> {
    fn import_from(&mut self, import: &'a StmtImportFrom) {
        let module = import.module.as_ref().map_or("", |module| module.as_str());
        for alias in &import.names {
            let binding = Binding::Import {
                module: module.to_owned(),
                level: import.level,
                name: Some(alias.name.to_string()),
            };
            self.bindings.bind(alias.asname.as_ref().unwrap_or(&alias.name).as_str(), binding);
        }
    }
}

impl<'a> Visitor<'a> for Collector<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => {
                self.bindings.bind(def.name.as_str(), Binding::Local);
                // Decorators and defaults are evaluated here, and may bind by `:=`.
                def.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                let defaults =
                    def.parameters.iter_non_variadic_params().filter_map(|parameter| parameter.default());
                defaults.for_each(|default| self.visit_expr(default));
            }
            Stmt::ClassDef(def) => {
                self.bindings.bind(def.name.as_str(), Binding::Local);
                def.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                if let Some(arguments) = &def.arguments {
                    self.visit_arguments(arguments);
                }
            }
            Stmt::Assign(assign) => {
                self.visit_expr(&assign.value);
                match &*assign.targets {
                    [Expr::Name(name)] => {
                        self.bindings.bind(name.id.as_str(), Binding::Assigned(&assign.value))
                    }
                    targets => targets.iter().for_each(|target| self.visit_expr(target)),
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.visit_expr(value);
                }
                match (&*assign.target, &assign.value) {
                    (Expr::Name(name), Some(value)) => {
                        self.bindings.bind(name.id.as_str(), Binding::Assigned(value));
                    }
                    // An annotation alone makes a name local too.
                    (target, _) => self.visit_expr(target),
                }
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    let whole = alias.name.as_str();
                    let (name, module) = match &alias.asname {
                        Some(asname) => (asname.as_str(), whole),
                        None => {
                            let top = whole.split('.').next().unwrap_or(whole);
                            (top, top)
                        }
                    };
                    let binding = Binding::Import { module: module.to_owned(), level: 0, name: None };
                    self.bindings.bind(name, binding);
                }
            }
            Stmt::ImportFrom(import) => self.import_from(import),
            Stmt::Global(global) => {
                self.bindings.globals.extend(global.names.iter().map(|name| name.as_str()));
            }
            Stmt::Nonlocal(nonlocal) => {
                self.bindings.nonlocals.extend(nonlocal.names.iter().map(|name| name.as_str()));
            }
            Stmt::TypeAlias(alias) => self.visit_expr(&alias.name),
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if !matches!(name.ctx, ExprContext::Load) => {
                self.bindings.bind(name.id.as_str(), Binding::Local);
            }
            Expr::Lambda(_) => {}
            // The targets are the comprehension's own; `:=` inside binds here.
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

    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(inner) = handler;
        if let Some(name) = &inner.name {
            self.bindings.bind(name.as_str(), Binding::Local);
        }
        visitor::walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchStar(pattern) => pattern.name.as_ref(),
            Pattern::MatchAs(pattern) => pattern.name.as_ref(),
            Pattern::MatchMapping(pattern) => pattern.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = name {
            self.bindings.bind(name.as_str(), Binding::Local);
        }
        visitor::walk_pattern(self, pattern);
    }
}

impl<'a> Collector<'a> {
    fn comprehension(&mut self, parts: &[&'a Expr], generators: &'a [ruff_python_ast::Comprehension]) {
        for part in parts {
            self.visit_expr(part);
        }
        for generator in generators {
            self.visit_expr(&generator.iter);
            generator.ifs.iter().for_each(|condition| self.visit_expr(condition));
        }
    }
}
