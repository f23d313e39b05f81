//! Graphs: loops that depend on an array, checkpoints, and sections that run beside each other.
//!
//! They are found where a loop of the kernel would be one of its outermost. What they depend on are arrays
//! without dimensions among the arguments, by whatever names a program gets at them.

use keyprint_source::ast::{self, Stmt};
use keyprint_source::position::{Ranged, TextRange};
use rustc_hash::FxHashMap;

use super::branch::same;
use super::expr::{known_truth, unsupported};
use super::statement::{assigned_names, count};
use super::value::{Value, describe};
use super::{Binding, LoopKind, Lower, Lowerer, Member, Open};
use crate::error::{Code, Frame, LangError};
use crate::graph::not_live_at_resume;
use crate::host::{Constant, Handle};
use crate::ir::{ArrayId, Block, Checkpoint, DoWhile, Expr, Kind, Label, Statement};
use crate::types::Scalar;

/// What is known of a graph while it is lowered.
#[derive(Clone, Default)]
pub(super) struct Pieces {
    /// Members of enums that labels are.
    pub(super) members: Vec<Option<Member>>,
    /// Where the sites of the graph are, for errors.
    traces: FxHashMap<u32, Vec<Frame>>,
    in_checkpoint: bool,
    in_section: bool,
    /// Sections that are being lowered.
    sections: Option<Vec<Block>>,
}

impl Lowerer<'_> {
    /// Whether this is a place for pieces of a graph.
    fn is_at_graph(&self) -> bool {
        self.options.graph && self.private.is_none() && self.open.last().is_some_and(|open| open.is_outermost)
    }

    /// Takes note of where what follows comes from.
    pub(super) fn mark(&mut self) {
        if !self.is_at_graph() {
            return;
        }
        let site = self.site(String::new());
        if !self.pieces.traces.contains_key(&site) {
            let trace = self.trace();
            self.pieces.traces.insert(site, trace);
        }
        let line = self.line();
        self.block().statements.push(Statement { line, kind: Kind::At(site) });
    }

    /// The call that an expression is, if it is one of a piece of a graph.
    pub(super) fn graph_call<'a>(
        &mut self,
        expr: &'a ast::Expr,
        wanted: &[&str],
    ) -> Option<(&'static str, &'a ast::ExprCall)> {
        let ast::Expr::Call(call) = expr else { return None };
        // Only chains of names that stand for something known: whatever else is called is lowered once.
        let root = chain_root(&call.func)?;
        if self.current().names.get(root).is_some_and(|binding| !is_constant(binding)) {
            return None;
        }
        let outer = self.current().at;
        let callee = self.expr(&call.func);
        self.current().at = outer;
        match callee {
            Ok(Value::Constant(Constant::Builtin(name))) if wanted.contains(&name) => Some((name, call)),
            _ => None,
        }
    }

    /// What every piece of a graph needs: a graph, and a place in it.
    fn check_place(&mut self, name: &str, at: TextRange) -> Lower<()> {
        self.current().at = at;
        if !self.options.graph {
            return Err(LangError::new(Code::Graph, format!("`{name}` needs a kernel that is a graph"))
                .hint("write `@kernel(graph=True)`"));
        }
        if self.pieces.in_section {
            return Err(LangError::new(
                Code::Graph,
                format!("`{name}` cannot be inside a section of `graph.parallel_context`"),
            )
            .hint("sections hold loops and statements only: put it before or after them"));
        }
        if !self.is_at_graph() {
            return Err(LangError::new(
                Code::Graph,
                format!("`{name}` is only possible at the top level of a kernel, or right inside another `graph.do_while`"),
            )
            .hint("take it out of the `if`, the loop or the function with early returns that it is in"));
        }
        Ok(())
    }

    // -- Loops -----------------------------------------------------------------------------------

    pub(super) fn do_while(
        &mut self,
        loop_stmt: &ast::StmtWhile,
        (name, call): (&'static str, &ast::ExprCall),
    ) -> Lower<()> {
        self.check_place(name, loop_stmt.test.range())?;
        let counter = self.only_argument(name, call, "condition")?;
        let counter = self.deciding_array(counter)?;
        self.settle(&assigned_names(&loop_stmt.body, false), true)?;
        let mut block = Block::default();
        self.loop_body(|this| {
            block = this.piece(true, |this| this.nested_body(&loop_stmt.body))?;
            Ok(())
        })?;
        self.current().at = loop_stmt.test.range();
        self.emit(Kind::DoWhile(Box::new(DoWhile { counter, body: block })))
    }

    /// Lowers a piece of a graph.
    fn piece(&mut self, is_home: bool, work: impl FnOnce(&mut Self) -> Lower<()>) -> Lower<Block> {
        self.current().loops.push(LoopKind::Graph);
        let block = self.in_open(Open { block: Block::default(), is_home, is_outermost: true }, work)?;
        self.current().loops.pop();
        Ok(block)
    }

    fn only_argument<'a>(
        &mut self,
        name: &str,
        call: &'a ast::ExprCall,
        keyword: &str,
    ) -> Lower<&'a ast::Expr> {
        let arguments = &call.arguments;
        let given = match (&arguments.args[..], &arguments.keywords[..]) {
            ([argument], []) => Some(argument),
            ([], [named]) if named.arg.as_ref().is_some_and(|arg| arg == keyword) => Some(&named.value),
            _ => None,
        };
        given.ok_or_else(|| {
            LangError::new(Code::Graph, format!("`{name}` takes one array"))
                .hint(format!("write `{name}(counter)`"))
        })
    }

    /// The array that something of a graph depends on.
    fn deciding_array(&mut self, expr: &ast::Expr) -> Lower<ArrayId> {
        self.current().at = expr.range();
        let text = self.text_of(expr.range());
        let refuse = |why: String| {
            LangError::new(
                Code::Graph,
                format!("`{text}` does not resolve to an ndarray kernel parameter: {why}"),
            )
            .hint("pass a 0-d `i32` ndarray, or a member of an argument that is one")
        };
        let mut inner = expr;
        while let ast::Expr::Attribute(ast::ExprAttribute { value, .. })
        | ast::Expr::Subscript(ast::ExprSubscript { value, .. }) = inner
        {
            inner = value;
        }
        if !matches!(inner, ast::Expr::Name(_)) {
            return Err(refuse("it is an expression".to_owned()));
        }
        let end = self.block().statements.len();
        let value = match self.expr(expr) {
            Ok(value) => value,
            Err(error)
                if matches!(error.code, Code::Attribute | Code::Name | Code::Undefined)
                    && error.trace.is_empty() =>
            {
                self.current().at = expr.range();
                return Err(refuse(error.message));
            }
            Err(error) => return Err(error),
        };
        self.current().at = expr.range();
        if self.block().statements.len() != end {
            return Err(refuse("it is an expression".to_owned()));
        }
        let Value::Constant(Constant::Array(spec)) = value else {
            return Err(refuse(format!("it is {}", value.describe())));
        };
        if spec.fixed.is_some() {
            return Err(refuse("it is a field".to_owned()));
        }
        if spec.scalar != Scalar::I32 || spec.ndim != 0 || spec.element.is_some() {
            return Err(LangError::new(
                Code::Graph,
                format!("`{text}` is not a 0-d `i32` ndarray: it is {}", describe(&Constant::Array(spec))),
            )
            .hint("make it by `kp.ndarray(kp.i32, ())`"));
        }
        Ok(self.array(&spec))
    }

    fn text_of(&mut self, at: TextRange) -> String {
        self.current()
            .source
            .text
            .get(usize::from(at.start())..usize::from(at.end()))
            .unwrap_or("?")
            .to_owned()
    }

    // -- `with` ----------------------------------------------------------------------------------

    pub(super) fn with(&mut self, stmt: &ast::StmtWith) -> Lower<()> {
        const WANTED: &[&str] = &["checkpoint", "graph.parallel_context", "graph.parallel"];
        let other = || {
            unsupported(
                "`with`",
                "kernels hold nothing open: only graphs have `checkpoint` and `graph.parallel`",
            )
        };
        let [item] = &stmt.items[..] else { return Err(other()) };
        let Some((name, call)) = self.graph_call(&item.context_expr, WANTED) else { return Err(other()) };
        if let Some(target) = &item.optional_vars {
            self.current().at = target.range();
            return Err(LangError::new(Code::Graph, format!("`{name}` gives nothing")).hint("take `as` away"));
        }
        match name {
            "checkpoint" => self.checkpoint(stmt, call),
            "graph.parallel_context" => self.sections(stmt, call),
            _ => {
                self.current().at = call.range();
                Err(misplaced("graph.parallel"))
            }
        }
    }

    fn checkpoint(&mut self, stmt: &ast::StmtWith, call: &ast::ExprCall) -> Lower<()> {
        self.check_place("checkpoint", call.range())?;
        if !self.options.checkpoints {
            return Err(LangError::new(Code::Checkpoint, "`checkpoint` needs a kernel that has checkpoints")
                .hint("write `@kernel(graph=True, checkpoints=True)`"));
        }
        if self.pieces.in_checkpoint {
            return Err(LangError::new(Code::Checkpoint, "a checkpoint cannot be inside another")
                .hint("end the first before the second begins"));
        }
        let (label, flag) = self.checkpoint_arguments(call)?;
        let label = self.label(label)?;
        let flag = match flag {
            None | Some(ast::Expr::NoneLiteral(_)) => None,
            Some(flag) => Some(self.deciding_array(flag)?),
        };
        self.check_bare(&stmt.body)?;
        self.current().at = stmt.range();
        self.pieces.in_checkpoint = true;
        let before = self.current().names.clone();
        let body = self.piece(false, |this| this.nested_body(&stmt.body))?;
        self.pieces.in_checkpoint = false;
        // What is computed inside is not there any more; variables are.
        for (name, binding) in &mut self.current().names {
            let is_new = before.get(name).is_none_or(|known| !same(known, binding));
            if is_new
                && matches!(binding, Binding::Value(value) | Binding::Place(value) if is_computed(value))
            {
                *binding = Binding::Unclear;
            }
        }
        self.current().at = call.range();
        self.emit(Kind::Checkpoint(Box::new(Checkpoint { label, flag, body })))
    }

    fn checkpoint_arguments<'a>(
        &mut self,
        call: &'a ast::ExprCall,
    ) -> Lower<(&'a ast::Expr, Option<&'a ast::Expr>)> {
        let mut label = call.arguments.args.first();
        let mut flag = call.arguments.args.get(1);
        if let Some(more) = call.arguments.args.get(2) {
            self.current().at = more.range();
            return Err(LangError::new(Code::Checkpoint, "`checkpoint` takes a label and `yield_on`"));
        }
        for keyword in &call.arguments.keywords {
            let place = match keyword.arg.as_ref().map(ast::Identifier::as_str) {
                Some("label" | "cp_id") => &mut label,
                Some("yield_on") => &mut flag,
                _ => {
                    self.current().at = keyword.range();
                    return Err(LangError::new(
                        Code::Checkpoint,
                        "`checkpoint` takes a label and `yield_on`",
                    ));
                }
            };
            if place.replace(&keyword.value).is_some() {
                self.current().at = keyword.range();
                return Err(LangError::new(Code::Checkpoint, "`checkpoint` is given the same thing twice"));
            }
        }
        match label {
            Some(label) => Ok((label, flag)),
            None => Err(LangError::new(Code::Checkpoint, "a checkpoint has a label")
                .hint("write `with checkpoint(1, yield_on=flag):`, with an int or a member of an `IntEnum`")),
        }
    }

    /// A new label: an int, or a member of an enum that is one.
    fn label(&mut self, expr: &ast::Expr) -> Lower<u32> {
        let member = self.member_of_enum(expr, true)?;
        let value = self.expr(expr)?;
        self.current().at = expr.range();
        let name = self.text_of(expr.range());
        let described = value.describe();
        let value = match super::expr::unwrap_static(value) {
            Value::Constant(Constant::Int(value)) => i64::try_from(value).ok(),
            number @ Value::Constant(Constant::Number(_)) => {
                i64::try_from(self.known_int(&number, "the label of a checkpoint")?).ok()
            }
            _ => None,
        };
        let Some(value) = value else {
            return Err(LangError::new(
                Code::Checkpoint,
                format!("the label `{name}` is no int that is known: it is {described}"),
            )
            .hint("label checkpoints with ints, or with members of an `IntEnum`"));
        };
        let labels = self.kernel.labels.get_or_insert_with(Vec::new);
        if let Some(known) = labels.iter().find(|known| known.value == value) {
            let same = if known.name == name { String::new() } else { format!(" (`{}`)", known.name) };
            return Err(LangError::new(
                Code::Checkpoint,
                format!("two checkpoints have the label `{name}`{same}: both are {value}"),
            )
            .hint("give each checkpoint of a kernel a label of its own"));
        }
        labels.push(Label { name, value });
        // What a function is given, or looks up for itself, the kernel may know by another name, or not at all.
        let function = &self.functions[self.functions.len() - 1];
        let is_parameter = chain_root(expr).is_some_and(|root| function.names.contains_key(root));
        let is_named = self.functions.len() == 1 && !is_parameter;
        self.pieces.members.push(member.map(|handle| Member { handle, is_named }));
        Ok(self.pieces.members.len() as u32 - 1)
    }

    /// The member of an enum that an expression names, if it names one.
    pub(super) fn member_of_enum(&mut self, expr: &ast::Expr, is_label: bool) -> Lower<Option<Handle>> {
        let constant = match expr {
            ast::Expr::Name(name) => {
                let name = name.id.as_str();
                let function = self.current();
                let handle = function.handle;
                match function.names.get(name) {
                    Some(Binding::Value(Value::Constant(Constant::Int(_))))
                        if !function.assigned.contains(name) =>
                    {
                        return Ok(function.members.get(name).copied());
                    }
                    Some(_) => None,
                    None if function.assigned.contains(name) => None,
                    None => self.host.name(handle, name)?,
                }
            }
            // Only chains of names: looking at them has no effects.
            ast::Expr::Attribute(attribute) if chain_root(expr).is_some() => {
                let outer = self.current().at;
                let of = self.expr(&attribute.value);
                self.current().at = outer;
                match of {
                    Ok(Value::Constant(Constant::Object(of, _))) => {
                        self.host.member(of, attribute.attr.as_str())?
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        match constant {
            Some(Constant::Enum(member, _, true)) => Ok(Some(member)),
            Some(Constant::Enum(_, _, false)) if is_label => {
                self.current().at = expr.range();
                let name = self.text_of(expr.range());
                Err(LangError::new(
                    Code::Checkpoint,
                    format!("the label `{name}` is no int: it is a member of an enum of other things"),
                )
                .hint("make the enum an `IntEnum`"))
            }
            _ => Ok(None),
        }
    }

    /// Statements in a checkpoint belong into loops: each of them would be a task of its own.
    fn check_bare(&mut self, body: &[Stmt]) -> Lower<()> {
        for statement in body {
            let is_bare = match statement {
                Stmt::Assign(_) | Stmt::AugAssign(_) | Stmt::AnnAssign(_) | Stmt::Assert(_) => true,
                Stmt::Expr(stmt) => {
                    !matches!(&*stmt.value, ast::Expr::EllipsisLiteral(_) | ast::Expr::StringLiteral(_))
                }
                _ => false,
            };
            if is_bare {
                self.current().at = statement.range();
                return Err(LangError::new(Code::Checkpoint, "a bare statement in a checkpoint")
                    .hint("wrap it in a loop: `for _ in range(1):`; statements in one loop are one task"));
            }
        }
        Ok(())
    }

    // -- Sections --------------------------------------------------------------------------------

    fn sections(&mut self, stmt: &ast::StmtWith, call: &ast::ExprCall) -> Lower<()> {
        if self.pieces.sections.is_some() {
            self.current().at = call.range();
            return Err(LangError::new(Code::Graph, "`graph.parallel_context` cannot be inside another")
                .hint("write sections of one context beside each other"));
        }
        self.check_place("graph.parallel_context", call.range())?;
        self.no_arguments("graph.parallel_context", call)?;
        self.current().at = stmt.range();
        self.pieces.sections = Some(Vec::new());
        let first = self.current().statement;
        self.current().statement = first + 1;
        self.context(&stmt.body)?;
        self.current().statement = first + count(&stmt.body);
        let sections = self.pieces.sections.take().expect("set above");
        self.current().at = call.range();
        self.emit(Kind::Sections(sections))
    }

    /// What is right inside a context: sections, and conditions that are known.
    fn context(&mut self, body: &[Stmt]) -> Lower<()> {
        for statement in body {
            self.current().at = statement.range();
            match statement {
                Stmt::Pass(_) => {}
                Stmt::Expr(stmt)
                    if matches!(
                        &*stmt.value,
                        ast::Expr::StringLiteral(_) | ast::Expr::EllipsisLiteral(_)
                    ) => {}
                Stmt::With(stmt) => self.section(stmt)?,
                Stmt::If(stmt) => self.known_section(stmt)?,
                _ => return Err(only_sections()),
            }
            self.current().statement += 1;
        }
        Ok(())
    }

    fn section(&mut self, stmt: &ast::StmtWith) -> Lower<()> {
        let [item] = &stmt.items[..] else { return Err(only_sections()) };
        let piece = self.graph_call(&item.context_expr, &["graph.parallel", "graph.parallel_context"]);
        let call = match piece {
            Some(("graph.parallel", call)) => call,
            Some((_, call)) => {
                self.current().at = call.range();
                return Err(LangError::new(Code::Graph, "`graph.parallel_context` cannot be inside another")
                    .hint("write sections of one context beside each other"));
            }
            None => return Err(only_sections()),
        };
        self.no_arguments("graph.parallel", call)?;
        self.settle(&assigned_names(&stmt.body, false), false)?;
        self.pieces.in_section = true;
        let mut block = Block::default();
        // What a section assigns first is its own.
        self.loop_body(|this| {
            block = this.piece(true, |this| this.nested_body(&stmt.body))?;
            Ok(())
        })?;
        self.pieces.in_section = false;
        self.pieces.sections.as_mut().expect("a context is open").push(block);
        Ok(())
    }

    fn known_section(&mut self, branch: &ast::StmtIf) -> Lower<()> {
        let first = self.current().statement;
        let clauses = std::iter::once((Some(&*branch.test), &branch.body[..]))
            .chain(branch.elif_else_clauses.iter().map(|clause| (clause.test.as_ref(), &clause.body[..])));
        let (mut before, mut is_done) = (first + 1, false);
        for (test, body) in clauses {
            if !is_done {
                let holds = match test {
                    None => true,
                    Some(test) => {
                        let value = self.expr(test)?;
                        self.current().at = test.range();
                        known_truth(&value).ok_or_else(|| {
                            LangError::new(Code::Graph, "whether there is a section must be known")
                                .hint("write `if static(...):`, or put the condition into the section")
                        })?
                    }
                };
                if holds {
                    self.current().statement = before;
                    self.context(body)?;
                    is_done = true;
                }
            }
            before += count(body);
        }
        self.current().statement = before - 1;
        Ok(())
    }

    fn no_arguments(&mut self, name: &str, call: &ast::ExprCall) -> Lower<()> {
        if call.arguments.args.is_empty() && call.arguments.keywords.is_empty() {
            return Ok(());
        }
        self.current().at = call.range();
        Err(LangError::new(Code::Graph, format!("`{name}` takes no arguments")))
    }

    // -- What is known at a checkpoint -----------------------------------------------------------

    /// Refuses variables that would be unknown to a launch that begins at a checkpoint.
    pub(super) fn check_checkpoints(&mut self) -> Lower<()> {
        if self.kernel.labels.as_ref().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        // Nothing else looks at the body before it is whole.
        let open = self.open.last_mut().expect("the kernel's own");
        self.kernel.body = std::mem::take(&mut open.block);
        let not_live = not_live_at_resume(&self.kernel);
        self.open.last_mut().expect("as above").block = std::mem::take(&mut self.kernel.body);
        let Some(not_live) = not_live else { return Ok(()) };
        let name = &self.kernel.locals[not_live.local as usize].name;
        let what = if name.is_empty() { "a value".to_owned() } else { format!("`{name}`") };
        let label = &self.kernel.labels.as_ref().expect("looked at above")[not_live.label as usize].name;
        let mut error = LangError::new(
            Code::Checkpoint,
            format!("{what} is set before the checkpoint `{label}` and used after it: a launch that resumes there would not know it"),
        )
        .hint("keep it in an array, compute it after the checkpoint, or set it once, by one expression of numbers and sizes among the arguments");
        error.trace =
            not_live.site.and_then(|site| self.pieces.traces.get(&site).cloned()).unwrap_or_default();
        Err(error)
    }
}

/// A piece of a graph where it means nothing.
pub(super) fn misplaced(name: &str) -> LangError {
    let (what, hint) = match name {
        "graph.do_while" => ("the whole condition of a `while`", "write `while graph.do_while(counter):`"),
        "graph.parallel" => (
            "a `with` right inside `with graph.parallel_context():`",
            "write `with graph.parallel_context():` around the sections",
        ),
        "graph.parallel_context" => ("a `with`", "write `with graph.parallel_context():`"),
        _ => ("a `with`", "write `with checkpoint(label, yield_on=flag):`"),
    };
    LangError::new(Code::Graph, format!("`{name}` is {what}, and nothing else")).hint(hint)
}

fn only_sections() -> LangError {
    LangError::new(Code::Graph, "`graph.parallel_context` holds sections only")
        .hint("put it into `with graph.parallel():`, or before or after the context")
}

/// The name that a chain of members begins with.
fn chain_root(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Name(name) => Some(name.id.as_str()),
        ast::Expr::Attribute(attribute) => chain_root(&attribute.value),
        _ => None,
    }
}

/// Whether a value is made of locals.
fn is_computed(value: &Value) -> bool {
    let mut computed = matches!(value, Value::Variable(..));
    value.clone().expressions_mut(&mut |expr| {
        computed |= expr.any(&mut |part| matches!(part, Expr::Local(_) | Expr::Lane(..)));
    });
    computed
}

fn is_constant(binding: &Binding) -> bool {
    matches!(binding, Binding::Value(Value::Constant(_)))
}
