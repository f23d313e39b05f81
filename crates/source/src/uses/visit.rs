//! The walk over the text of a function.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{CmpOp, Decorator, Expr, ExprCompare, ExprContext, Operator, Stmt, StmtAugAssign};
use ruff_text_size::Ranged;

use super::reader::{Reader, Scope};
use super::{Body, How};
use crate::bindings::Bindings;

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
