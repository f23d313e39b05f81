//! Statements, loops around them, and the names that they assign.

use rustc_hash::FxHashSet;

use keyprint_source::ast::visitor::{self, Visitor};
use keyprint_source::ast::{self, Stmt};
use keyprint_source::position::Ranged;

use super::branch::{Names, is_alias, same};
use super::expr::unsupported;
use super::value::Value;
use super::{Binding, LoopKind, Lower, Lowerer};
use crate::error::{Code, LangError};
use crate::host::Constant;
use crate::ir::{Expr, Kind};
use crate::types::Scalar;

impl Lowerer<'_> {
    /// Lowers statements.
    pub(super) fn body(&mut self, body: &[Stmt]) -> Lower<()> {
        for (at, statement) in body.iter().enumerate() {
            if self.current().is_left {
                // Never reached; it is counted all the same, and what it returns if that is only known here.
                if std::mem::take(&mut self.current().is_decided) {
                    self.unseen_rest(&body[at..]);
                }
                self.skip(&body[at..]);
                break;
            }
            self.current().is_decided = false;
            self.statement(statement)?;
        }
        Ok(())
    }

    /// Lowers the statements of a loop, which are numbered behind it.
    pub(super) fn nested_body(&mut self, body: &[Stmt]) -> Lower<()> {
        let first = self.current().statement;
        self.current().statement = first + 1;
        self.body(body)?;
        self.current().statement = first + count(body);
        Ok(())
    }

    pub(super) fn skip(&mut self, body: &[Stmt]) {
        self.current().statement += count(body);
    }

    fn statement(&mut self, statement: &Stmt) -> Lower<()> {
        self.current().at = statement.range();
        self.mark();
        self.deeper(|this| this.statement_at(statement))?;
        self.current().statement += 1;
        Ok(())
    }

    fn statement_at(&mut self, statement: &Stmt) -> Lower<()> {
        match statement {
            Stmt::Assign(stmt) => self.assign(&stmt.targets, &stmt.value),
            Stmt::AugAssign(stmt) => self.augment(&stmt.target, stmt.op, &stmt.value),
            Stmt::AnnAssign(stmt) => self.annotated(stmt),
            Stmt::Expr(stmt) => self.expression(&stmt.value),
            Stmt::If(stmt) => self.branch(stmt),
            Stmt::For(stmt) => self.for_loop(stmt),
            Stmt::While(stmt) => self.while_loop(stmt),
            Stmt::Break(_) => self.break_loop(),
            Stmt::Continue(_) => self.continue_loop(),
            Stmt::Return(stmt) => self.lower_return(stmt),
            Stmt::Pass(_) => Ok(()),
            Stmt::Assert(stmt) => self.assertion(stmt),
            Stmt::With(stmt) => self.with(stmt),
            Stmt::Try(_) | Stmt::Raise(_) => Err(unsupported(
                "raising and catching exceptions",
                "use `assert` in debug mode, or return a status",
            )),
            Stmt::FunctionDef(_) => {
                Err(unsupported("a function inside a kernel", "define it outside, with `@func`"))
            }
            Stmt::ClassDef(_) => Err(unsupported("a class inside a kernel", "define it outside")),
            Stmt::Import(_) | Stmt::ImportFrom(_) => {
                Err(unsupported("`import`", "import at the top of the file"))
            }
            Stmt::Global(_) | Stmt::Nonlocal(_) => {
                Err(unsupported("assigning to globals", "pass an array of one element and write to it"))
            }
            Stmt::Delete(_) => Err(unsupported("`del`", "variables end with their block")),
            Stmt::Match(_) => Err(unsupported("`match`", "use `if` and `elif`")),
            _ => Err(unsupported("this statement", "write it in simpler terms")),
        }
    }

    fn annotated(&mut self, stmt: &ast::StmtAnnAssign) -> Lower<()> {
        let Some(value) = &stmt.value else {
            return Err(unsupported("declaring a variable without a value", "assign one"));
        };
        let annotation = self.expr(&stmt.annotation)?;
        let value = self.expr(value)?;
        let value = self.converted(annotation, value)?;
        self.assign_to(&stmt.target, value)
    }

    /// A value as something that was named in an annotation.
    pub(super) fn converted(&mut self, annotation: Value, value: Value) -> Lower<Value> {
        match annotation {
            Value::Constant(Constant::Scalar(scalar)) => {
                Ok(Value::Scalar(self.scalar_as(value, scalar)?, scalar))
            }
            Value::Constant(Constant::TensorType(shape, scalar)) => {
                self.tensor_type(shape, scalar, vec![value])
            }
            Value::Constant(Constant::Builtin("int")) => {
                let scalar = self.options.default_int;
                Ok(Value::Scalar(self.scalar_as(value, scalar)?, scalar))
            }
            Value::Constant(Constant::Builtin("float")) => {
                let scalar = self.options.default_float;
                Ok(Value::Scalar(self.scalar_as(value, scalar)?, scalar))
            }
            Value::Constant(Constant::Builtin("bool")) => Ok(Value::Scalar(self.truth(value)?, Scalar::Bool)),
            other => Err(LangError::new(
                Code::Annotation,
                format!("{} is no type of a variable", other.describe()),
            )),
        }
    }

    fn expression(&mut self, value: &ast::Expr) -> Lower<()> {
        // A text that stands for itself is a comment.
        if matches!(value, ast::Expr::StringLiteral(_) | ast::Expr::EllipsisLiteral(_)) {
            return Ok(());
        }
        self.expr(value).map(|_| ())
    }

    /// Makes variables of names that are about to be assigned on some ways only, and stand for numbers so far.
    /// What else a loop assigns stands for another thing in each iteration: it cannot be read there before.
    pub(super) fn settle(&mut self, assigned: &FxHashSet<String>, is_loop: bool) -> Lower<()> {
        let mut names: Vec<String> = assigned.iter().cloned().collect();
        names.sort_unstable();
        for name in names {
            let Some(Binding::Value(value)) = self.current().names.get(&name).cloned() else { continue };
            let is_number = matches!(
                &value,
                Value::Constant(
                    Constant::Int(_)
                        | Constant::Float(_)
                        | Constant::Bool(_)
                        | Constant::Number(_)
                        | Constant::Numbers(..)
                        | Constant::Tensor(..),
                ) | Value::Scalar(..)
                    | Value::Tensor(..)
            );
            if is_number {
                self.current().names.remove(&name);
                self.assign_name(&name, value)?;
            } else if is_loop {
                self.current().names.insert(name, Binding::Rebound);
            }
        }
        Ok(())
    }

    /// Runs a body of a loop: what it defines is not known after it.
    pub(super) fn loop_body(&mut self, work: impl FnOnce(&mut Self) -> Lower<()>) -> Lower<()> {
        let before = self.current().names.clone();
        work(self)?;
        self.current().is_left = false;
        let after = std::mem::take(&mut self.current().names);
        let mut names = Names::default();
        for (name, binding) in after {
            match before.get(&name) {
                Some(known) if same(known, &binding) => {
                    names.insert(name, known.clone());
                }
                // A variable that may not have been set before may be set in the loop, or not.
                Some(known) => {
                    let kept =
                        if is_alias(known) || is_alias(&binding) { Binding::Unclear } else { known.clone() };
                    names.insert(name, kept);
                }
                None => {}
            }
        }
        self.current().names = names;
        Ok(())
    }

    // -- Leaving ---------------------------------------------------------------------------------

    fn break_loop(&mut self) -> Lower<()> {
        self.current().is_left = true;
        match self.current().loops.last() {
            Some(LoopKind::Serial) => self.emit(Kind::Break),
            Some(LoopKind::Scoped { all, .. }) => {
                let scope = *all;
                self.emit(Kind::Leave(scope))
            }
            Some(LoopKind::Parallel) => {
                Err(LangError::new(Code::LoopControl, "a parallel loop cannot be left with `break`").hint(
                    "write `loop_config(serialize=True)` before the loop, or put the loop into another",
                ))
            }
            Some(LoopKind::Graph) => Err(graph_control("break")),
            None => Err(LangError::new(Code::LoopControl, "`break` outside of a loop")),
        }
    }

    fn continue_loop(&mut self) -> Lower<()> {
        self.current().is_left = true;
        match self.current().loops.last() {
            Some(LoopKind::Serial | LoopKind::Parallel | LoopKind::Scoped { iteration: None, .. }) => {
                self.emit(Kind::Continue)
            }
            Some(LoopKind::Scoped { iteration: Some(scope), .. }) => {
                let scope = *scope;
                self.emit(Kind::Leave(scope))
            }
            Some(LoopKind::Graph) => Err(graph_control("continue")),
            None => Err(LangError::new(Code::LoopControl, "`continue` outside of a loop")),
        }
    }

    fn assertion(&mut self, stmt: &ast::StmtAssert) -> Lower<()> {
        if !self.options.debug {
            return Ok(());
        }
        let value = self.expr(&stmt.test)?;
        let condition = self.truth(value)?;
        let (text, values) = match stmt.msg.as_deref() {
            None => (String::new(), Vec::new()),
            Some(message) => self.message(message)?,
        };
        let site = self.site(format!("assert:{text}"));
        self.emit(Kind::Check { condition, site, values })
    }

    /// The message of an assertion: a text with `{}` for numbers, and the numbers.
    fn message(&mut self, message: &ast::Expr) -> Lower<(String, Vec<Expr>)> {
        let parts = self.text_parts(message)?;
        let (mut text, mut values) = (String::new(), Vec::new());
        for part in parts {
            match part {
                crate::ir::Part::Text(literal) => {
                    text.push_str(&literal.replace('{', "{{").replace('}', "}}"))
                }
                crate::ir::Part::Value(value) => {
                    text.push_str("{}");
                    values.push(value);
                }
            }
        }
        Ok((text, values))
    }
}

fn graph_control(word: &str) -> LangError {
    LangError::new(Code::LoopControl, format!("`{word}` cannot leave a piece of a graph"))
        .hint("a loop of a graph goes on until what it depends on is zero: write that")
}

/// The names that a function assigns, in whatever way.
/// `targets` are the variables of loops, if they count too.
pub(super) fn assigned_names(body: &[Stmt], targets: bool) -> FxHashSet<String> {
    struct Names(FxHashSet<String>, bool);
    impl<'a> Visitor<'a> for Names {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            match stmt {
                Stmt::For(loop_stmt) if !self.1 => self.visit_body(&loop_stmt.body),
                _ => visitor::walk_stmt(self, stmt),
            }
        }

        fn visit_comprehension(&mut self, comprehension: &'a ast::Comprehension) {
            if self.1 {
                visitor::walk_comprehension(self, comprehension);
            }
        }

        fn visit_expr(&mut self, expr: &'a ast::Expr) {
            if let ast::Expr::Name(name) = expr
                && name.ctx.is_store()
            {
                self.0.insert(name.id.to_string());
            }
            visitor::walk_expr(self, expr);
        }
    }
    let mut names = Names(FxHashSet::default(), targets);
    names.visit_body(body);
    names.0
}

/// The names of things of which parts are assigned: `v` in `v.x = 1`, `v[0] += 1`.
pub(super) fn changed_names(body: &[Stmt]) -> FxHashSet<String> {
    struct Names(FxHashSet<String>);
    impl<'a> Visitor<'a> for Names {
        fn visit_expr(&mut self, expr: &'a ast::Expr) {
            let is_part = match expr {
                ast::Expr::Subscript(subscript) => subscript.ctx.is_store(),
                ast::Expr::Attribute(attribute) => attribute.ctx.is_store(),
                _ => false,
            };
            let mut inner = expr;
            while let ast::Expr::Subscript(ast::ExprSubscript { value, .. })
            | ast::Expr::Attribute(ast::ExprAttribute { value, .. }) = inner
            {
                inner = value;
            }
            if let (true, ast::Expr::Name(name)) = (is_part, inner) {
                self.0.insert(name.id.to_string());
            }
            visitor::walk_expr(self, expr);
        }
    }
    let mut names = Names(FxHashSet::default());
    names.visit_body(body);
    names.0
}

/// Statements, those inside others included.
pub(super) fn count(body: &[Stmt]) -> u32 {
    struct Counter(u32);
    impl<'a> Visitor<'a> for Counter {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            self.0 += 1;
            visitor::walk_stmt(self, stmt);
        }
    }
    let mut counter = Counter(0);
    counter.visit_body(body);
    counter.0
}

pub(super) fn without_docstring(body: &[Stmt]) -> &[Stmt] {
    match body.first() {
        Some(Stmt::Expr(first)) if matches!(&*first.value, ast::Expr::StringLiteral(_)) => &body[1..],
        _ => body,
    }
}
