//! Lowering: a function's syntax, for arguments of one specification, to IR.
//!
//! Names are resolved, types inferred, calls inlined and what is known computed in one go, statement by
//! statement, as Python would run them. Vectors, structs, tuples and objects are taken apart here: what
//! comes out knows numbers and arrays.
//!
//! | module | what it lowers |
//! | --- | --- |
//! | `statement` | statements, and the names that they assign |
//! | `branch` | branches, and the types of what they leave behind |
//! | `returns` | what functions give back |
//! | `assign` | assignments and what can be assigned to |
//! | `change` | changes in place, and atomic ones |
//! | `loops` | `for` and `while` |
//! | `graph` | loops, checkpoints and sections of graphs |
//! | `expr` | expressions: names, members, literals, what is known |
//! | `index` | members and elements of arrays |
//! | `condition` | comparisons, `and`, `or`, one of two values |
//! | `operation` | operators, on numbers and vectors |
//! | `constants` | operators, on what is known |
//! | `conversion` | casts, truth values, rounding |
//! | `builtins` | the names of what the language defines |
//! | `call` | calls of what the language defines |
//! | `inline` | calls of the program's functions and struct types |
//! | `text` | printing |
//! | `tensor` | what vectors and matrices can do |
//! | `value` | what expressions are meanwhile |

mod assign;
mod branch;
pub mod builtins;
mod call;
mod change;
mod condition;
mod constants;
mod conversion;
mod expr;
mod graph;
mod index;
mod inline;
mod loops;
mod operation;
mod returns;
mod statement;
mod tensor;
mod text;
mod value;

use rustc_hash::{FxHashMap, FxHashSet};

use keyprint_source::ast;
use keyprint_source::position::{Ranged, TextRange};
use keyprint_source::{SourceError, with_function};

use self::value::Value;
use crate::error::{Code, Frame, LangError};
use crate::host::{Annotation, ArraySpec, Constant, FunctionSource, Handle, Host, NumberSpec};
use crate::ir::{
    Array, ArrayId, Block, Expr, Kernel, Kind, Layout, Local, LocalId, Number, Origin, ScopeId, Site,
    Statement,
};
use crate::types::{Scalar, Shape};

/// Expressions and blocks inside each other, deeper than this, are refused.
const MOST_LEVELS: u32 = 700;

/// All levels of all functions that are being inlined into each other.
const MOST_LEVELS_IN_ALL: u32 = 1500;

/// A kernel that grows beyond this many statements is refused: something is unrolled that should not be.
const MOST_STATEMENTS: usize = 200_000;

/// How a program is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The type of whole numbers that say nothing else.
    pub default_int: Scalar,
    /// The type of floats that say nothing else.
    pub default_float: Scalar,
    /// Whether to check what can go wrong when it runs.
    pub debug: bool,
    /// Whether the kernel is a graph of tasks.
    pub graph: bool,
    /// Whether the graph can be left and entered at checkpoints.
    pub checkpoints: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            default_int: Scalar::I32,
            default_float: Scalar::F32,
            debug: false,
            graph: false,
            checkpoints: false,
        }
    }
}

/// Something that may not be meant, with the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What.
    pub message: String,
    /// Where.
    pub frame: Frame,
}

/// What lowering gives.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The kernel.
    pub kernel: Kernel,
    /// What it returns, if anything.
    pub result: Returned,
    /// What may not be meant.
    pub warnings: Vec<Warning>,
    /// Members of enums that checkpoints are labelled with, for each label.
    pub members: Vec<Option<Member>>,
}

/// A member of an enum that a label is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// What the host knows it by.
    pub handle: Handle,
    /// Whether the name of the label means it in the kernel itself.
    pub is_named: bool,
}

/// What a kernel returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Returned {
    /// Nothing.
    Nothing,
    /// A number.
    Scalar(Scalar),
    /// A vector or matrix.
    Tensor(Shape, Scalar),
    /// Several things.
    Tuple(Vec<Returned>),
}

impl Returned {
    /// Gives its numbers other types, in order.
    fn retype(&mut self, types: &mut impl Iterator<Item = Scalar>) {
        match self {
            Self::Nothing => {}
            Self::Scalar(scalar) => *scalar = types.next().unwrap_or(*scalar),
            Self::Tensor(shape, scalar) => {
                for _ in 0..shape.len() {
                    *scalar = types.next().unwrap_or(*scalar);
                }
            }
            Self::Tuple(all) => all.iter_mut().for_each(|item| item.retype(types)),
        }
    }
}

/// Lowers a function for arguments: one constant for each parameter.
///
/// # Errors
///
/// If the program is wrong; the error says where.
pub fn lower(
    host: &mut dyn Host,
    function: Handle,
    arguments: Vec<Constant>,
    options: Options,
) -> Result<Lowered, LangError> {
    let mut lowerer = Lowerer::new(host, options);
    let result = lowerer.kernel(function, arguments)?;
    let Lowerer { kernel, warnings, pieces, .. } = lowerer;
    Ok(Lowered { kernel, result, warnings, members: pieces.members })
}

type Lower<T> = Result<T, LangError>;

/// What a name stands for.
#[derive(Clone, Debug)]
enum Binding {
    /// A number that can change.
    Scalar { id: LocalId, is_set: bool },
    /// A vector or matrix that can change.
    Tensor { id: LocalId, shape: Shape, is_set: bool },
    /// Members that can change.
    Struct { members: Vec<(String, Binding)>, kind: Option<std::rc::Rc<crate::host::StructType>> },
    /// Something that the name is another name of.
    Value(Value),
    /// Something that can be assigned to, wherever it is.
    Place(Value),
    /// Different things, depending on the way here.
    Unclear,
    /// Something that a loop gives another meaning in each iteration.
    Rebound,
}

/// A function that is being lowered.
struct Function {
    handle: Handle,
    source: FunctionSource,
    names: FxHashMap<String, Binding>,
    /// Parameters that were given members of enums.
    members: FxHashMap<String, Handle>,
    /// Names that it assigns: these are never looked for outside.
    assigned: FxHashSet<String>,
    /// Names of things of which it assigns parts.
    changed: FxHashSet<String>,
    /// Where its result goes, and the scope that returning leaves; nothing for the kernel itself.
    exit: Option<Exit>,
    /// Where it is called.
    called_at: Option<TextRange>,
    /// What is being looked at.
    at: TextRange,
    /// The number of the statement that is being looked at.
    statement: u32,
    /// Whether what follows is never reached.
    is_left: bool,
    /// Whether that is so because of a condition that is known.
    is_decided: bool,
    /// How deep in loops of its own that are there when the kernel runs.
    loops: Vec<LoopKind>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopKind {
    /// One loop.
    Serial,
    /// One whose iterations have no order.
    Parallel,
    /// Several loops, or none: a scope that leaving leaves, and one that going on leaves.
    Scoped { all: ScopeId, iteration: Option<ScopeId> },
    /// One of a graph, or a section or checkpoint of it.
    Graph,
}

#[derive(Clone)]
struct Exit {
    scope: ScopeId,
    is_used: bool,
    result: Option<Value>,
    /// Variables of the result whose type has changed since they were first set.
    retyped: FxHashSet<LocalId>,
    /// The types of what branches return that are known not to be taken.
    unseen: Vec<Scalar>,
    /// How many `return`s there were.
    returns: u32,
    /// How many blocks are open in the function itself.
    depth: usize,
}

/// A block that is being filled.
struct Open {
    block: Block,
    /// Whether variables that are first set inside live here: loop bodies and functions.
    is_home: bool,
    /// Whether a loop here is one of the kernel's outermost.
    is_outermost: bool,
}

struct Lowerer<'h> {
    host: &'h mut dyn Host,
    options: Options,
    kernel: Kernel,
    arrays: FxHashMap<String, ArrayId>,
    numbers: FxHashMap<String, u32>,
    open: Vec<Open>,
    functions: Vec<Function>,
    /// Locals that never change.
    constant: FxHashSet<LocalId>,
    /// Locals that iterations of a parallel loop have for themselves.
    private: Option<FxHashSet<LocalId>>,
    warnings: Vec<Warning>,
    scopes: ScopeId,
    levels: u32,
    statements: usize,
    /// What the next loop is to be like.
    next_loop: LoopConfig,
    result: Option<Returned>,
    /// The types of what branches of the kernel return that are known not to be taken.
    unseen: Vec<Scalar>,
    /// What is known of the graph, if the kernel is one.
    pieces: graph::Pieces,
}

#[derive(Clone, Copy, Default)]
struct LoopConfig {
    serialize: bool,
    grain: Option<u32>,
}

impl<'h> Lowerer<'h> {
    fn new(host: &'h mut dyn Host, options: Options) -> Self {
        Self {
            host,
            options,
            kernel: Kernel::default(),
            arrays: FxHashMap::default(),
            numbers: FxHashMap::default(),
            open: Vec::new(),
            functions: Vec::new(),
            constant: FxHashSet::default(),
            private: None,
            warnings: Vec::new(),
            scopes: 0,
            levels: 0,
            statements: 0,
            next_loop: LoopConfig::default(),
            result: None,
            unseen: Vec::new(),
            pieces: graph::Pieces::default(),
        }
    }

    fn kernel(&mut self, handle: Handle, arguments: Vec<Constant>) -> Lower<Returned> {
        let source = self.host.function(handle)?;
        self.kernel.name.clone_from(&source.name);
        let mut names = FxHashMap::default();
        self.kernel.is_graph = self.options.graph;
        self.kernel.labels = self.options.checkpoints.then(Vec::new);
        let mut members = FxHashMap::default();
        for (parameter, mut argument) in source.parameters.iter().zip(arguments) {
            if let Constant::Enum(member, value, is_int) = argument {
                if is_int {
                    members.insert(parameter.name.clone(), member);
                }
                argument = Constant::Int(value);
            }
            names.insert(parameter.name.clone(), Binding::Value(Value::Constant(argument)));
        }
        self.open.push(Open { block: Block::default(), is_home: true, is_outermost: true });
        self.function(handle, source, (names, members), None)?;
        let open = self.open.pop().expect("opened above");
        self.kernel.body = open.block;
        self.settle_results();
        Ok(self.result.take().unwrap_or(Returned::Nothing))
    }

    /// Lowers the body of a function; the one that was lowered is returned.
    fn function(
        &mut self,
        handle: Handle,
        source: FunctionSource,
        (names, members): (FxHashMap<String, Binding>, FxHashMap<String, Handle>),
        exit: Option<Exit>,
    ) -> Lower<Function> {
        let called_at = self.functions.last().map(|caller| caller.at);
        let text = source.text.clone();
        self.functions.push(Function {
            handle,
            source,
            names,
            members,
            assigned: FxHashSet::default(),
            changed: FxHashSet::default(),
            exit,
            called_at,
            at: TextRange::default(),
            statement: 0,
            is_left: false,
            is_decided: false,
            loops: Vec::new(),
        });
        let lowered = with_function(&text, MOST_LEVELS, |tree| {
            self.parameters(tree)?;
            self.current().assigned = statement::assigned_names(&tree.body, true);
            self.current().changed = statement::changed_names(&tree.body);
            self.own_parameters()?;
            let body = statement::without_docstring(&tree.body);
            self.body(body)?;
            if self.functions.len() == 1 {
                self.check_checkpoints()?;
            }
            let wants = self.current().source.returns != Annotation::Missing;
            let is_kernel = self.functions.len() == 1;
            if is_kernel && !self.kernel.results.is_empty() && !self.current().is_left {
                self.current().at = tree.name.range();
                return Err(LangError::new(
                    Code::Return,
                    "the kernel does not return a value on every way through it",
                )
                .hint("add a `return` at its end"));
            }
            if wants && is_kernel && self.result.is_none() {
                self.current().at = tree.name.range();
                return Err(LangError::new(
                    Code::Return,
                    "the kernel says that it returns something, and does not",
                )
                .hint("add a `return`, or take `->` away"));
            }
            Ok(())
        });
        let lowered = match lowered {
            Ok(lowered) => lowered,
            Err(SourceError::Depth) => Err(LangError::new(
                Code::Nesting,
                format!("code is nested more than {MOST_LEVELS} levels deep"),
            )
            .hint("take parts of it into functions of their own")),
            Err(error) => Err(LangError::new(Code::Source, format!("the source cannot be parsed: {error}"))),
        };
        if let Err(error) = lowered {
            return Err(self.located(error));
        }
        Ok(self.functions.pop().expect("pushed above"))
    }

    fn parameters(&mut self, tree: &ast::StmtFunctionDef) -> Lower<()> {
        if tree.is_async {
            return Err(LangError::new(Code::Syntax, "kernels cannot be `async`").hint("take `async` away"));
        }
        let parameters = &tree.parameters;
        let extra = parameters.vararg.as_ref().or(parameters.kwarg.as_ref());
        if let Some(extra) = extra {
            self.current().at = extra.range();
            return Err(LangError::new(Code::Syntax, "`*` and `**` parameters are not supported")
                .hint("name the parameters, or take a tuple by a `template()` parameter"));
        }
        // A kernel has to say what it takes; functions take what they get.
        if self.functions.len() == 1 {
            let missing = self.functions[0]
                .source
                .parameters
                .iter()
                .enumerate()
                .find(|(at, parameter)| {
                    parameter.annotation == Annotation::Missing && !(*at == 0 && parameter.name == "self")
                })
                .map(|(_, parameter)| parameter.name.clone());
            if let Some(name) = missing {
                let place = parameters.iter().find(|parameter| parameter.name().as_str() == name);
                self.current().at = place.map_or(tree.name.range(), |parameter| parameter.range());
                return Err(LangError::new(Code::Annotation, format!("the parameter `{name}` has no annotation"))
                    .hint(format!(
                        "write `{name}: kp.f32`, `{name}: kp.types.NDArray[kp.f32, 1]`, or `{name}: kp.template()`"
                    )));
            }
        }
        Ok(())
    }

    /// Makes variables of parameters that the function assigns to: what was passed does not change.
    fn own_parameters(&mut self) -> Lower<()> {
        let function = self.current();
        let names: Vec<String> =
            function.source.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        for name in names {
            let function = self.current();
            if !function.assigned.contains(&name) && !function.changed.contains(&name) {
                continue;
            }
            let Some(Binding::Value(value)) = function.names.get(&name).cloned() else { continue };
            self.current().names.remove(&name);
            self.assign_name(&name, value)?;
        }
        Ok(())
    }

    fn current(&mut self) -> &mut Function {
        self.functions.last_mut().expect("a function is being lowered")
    }

    /// Adds where it happened to an error: once, in the innermost function.
    fn located(&mut self, mut error: LangError) -> LangError {
        if error.trace.is_empty() {
            error.trace = self.trace();
        }
        error
    }

    /// Where this is: the kernel first.
    fn trace(&self) -> Vec<Frame> {
        let mut trace = Vec::new();
        let mut inner: Option<TextRange> = None;
        for function in self.functions.iter().rev() {
            trace.push(frame(&function.source, inner.unwrap_or(function.at)));
            inner = function.called_at;
        }
        trace.reverse();
        trace
    }

    fn warn(&mut self, message: String) {
        let function = self.functions.last().expect("a function is being lowered");
        let frame = frame(&function.source, function.at);
        let warning = Warning { message, frame };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Runs something one level deeper.
    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Lower<T>) -> Lower<T> {
        if self.levels >= MOST_LEVELS_IN_ALL {
            return Err(LangError::new(Code::Nesting, "functions are inlined too deeply into each other")
                .hint("call fewer functions from functions"));
        }
        self.levels += 1;
        let done = work(self);
        self.levels -= 1;
        done
    }

    /// Lowers something of which only the types matter, and leaves nothing of it behind; nothing if it cannot be
    /// lowered.
    fn trial<T>(&mut self, work: impl FnOnce(&mut Self) -> Lower<T>) -> Option<T> {
        let kernel = &self.kernel;
        let (locals, arrays, numbers, sites) =
            (kernel.locals.len(), kernel.arrays.len(), kernel.numbers.len(), kernel.sites.len());
        // The variables of a result may get another type.
        let types: Vec<Scalar> = kernel.locals.iter().map(|local| local.scalar).collect();
        let (results, labels) = (kernel.results.clone(), kernel.labels.clone());
        let (result, pieces) = (self.result.clone(), self.pieces.clone());
        let (warnings, scopes, levels, statements) =
            (self.warnings.len(), self.scopes, self.levels, self.statements);
        let (next_loop, private) = (self.next_loop, self.private.clone());
        let filled: Vec<_> =
            self.open.iter().map(|open| (open.block.locals.len(), open.block.statements.len())).collect();
        let functions = self.functions.len();
        let function = self.current();
        let (names, exit, loops) = (function.names.clone(), function.exit.clone(), function.loops.clone());
        let (at, statement, is_left) = (function.at, function.statement, function.is_left);
        let is_decided = function.is_decided;
        self.host.begin_trial();
        let mut output = None;
        let done = self.in_block(true, |this| {
            output = Some(work(this)?);
            Ok(())
        });
        self.host.end_trial();
        self.functions.truncate(functions);
        let function = self.current();
        (function.names, function.exit, function.loops) = (names, exit, loops);
        (function.at, function.statement, function.is_left) = (at, statement, is_left);
        function.is_decided = is_decided;
        self.open.truncate(filled.len());
        for (open, (locals, statements)) in self.open.iter_mut().zip(filled) {
            open.block.locals.truncate(locals);
            open.block.statements.truncate(statements);
        }
        (self.next_loop, self.private) = (next_loop, private);
        (self.scopes, self.levels, self.statements) = (scopes, levels, statements);
        self.warnings.truncate(warnings);
        (self.result, self.pieces) = (result, pieces);
        self.constant.retain(|id| (*id as usize) < locals);
        self.arrays.retain(|_, id| (*id as usize) < arrays);
        self.numbers.retain(|_, id| (*id as usize) < numbers);
        let kernel = &mut self.kernel;
        kernel.locals.truncate(locals);
        kernel.locals.iter_mut().zip(types).for_each(|(local, scalar)| local.scalar = scalar);
        kernel.arrays.truncate(arrays);
        kernel.numbers.truncate(numbers);
        kernel.sites.truncate(sites);
        (kernel.results, kernel.labels) = (results, labels);
        done.ok().and(output)
    }

    // -- Building --------------------------------------------------------------------------------

    fn block(&mut self) -> &mut Block {
        &mut self.open.last_mut().expect("a block is open").block
    }

    fn emit(&mut self, kind: Kind) -> Lower<()> {
        self.statements += 1;
        if self.statements > MOST_STATEMENTS {
            return Err(LangError::new(
                Code::Nesting,
                format!("the kernel has more than {MOST_STATEMENTS} statements"),
            )
            .hint("loop at run time instead of unrolling with `static`"));
        }
        let line = self.line();
        self.block().statements.push(Statement { line, kind });
        Ok(())
    }

    fn line(&self) -> u32 {
        let function = self.functions.last().expect("a function is being lowered");
        line_of(&function.source, function.at)
    }

    fn local(&mut self, name: &str, scalar: Scalar, lanes: u32) -> LocalId {
        let id = self.kernel.locals.len() as LocalId;
        self.kernel.locals.push(Local { name: name.to_owned(), scalar, lanes });
        if let Some(private) = &mut self.private {
            private.insert(id);
        }
        id
    }

    /// Makes a variable that lives as long as the innermost loop body or function.
    fn variable(&mut self, name: &str, scalar: Scalar, lanes: u32) -> LocalId {
        let id = self.local(name, scalar, lanes);
        let home = self.open.iter_mut().rev().find(|open| open.is_home).expect("the kernel itself is one");
        home.block.locals.push(id);
        id
    }

    /// An expression that can be used any number of times.
    fn once(&mut self, expr: Expr, scalar: Scalar) -> Lower<Expr> {
        let is_simple = match &expr {
            Expr::Const(..) | Expr::Number(_) | Expr::Size(..) => true,
            Expr::Local(id) => self.constant.contains(id),
            _ => false,
        };
        if is_simple {
            return Ok(expr);
        }
        let id = self.local("", scalar, 0);
        self.constant.insert(id);
        self.emit(Kind::Let(id, expr))?;
        Ok(Expr::Local(id))
    }

    /// Runs something with a new block open, and returns it.
    fn in_block(&mut self, is_home: bool, work: impl FnOnce(&mut Self) -> Lower<()>) -> Lower<Block> {
        self.in_open(Open { block: Block::default(), is_home, is_outermost: false }, work)
    }

    fn in_open(&mut self, open: Open, work: impl FnOnce(&mut Self) -> Lower<()>) -> Lower<Block> {
        self.open.push(open);
        let done = work(self);
        let open = self.open.pop().expect("pushed above");
        done?;
        Ok(open.block)
    }

    /// A place from which something can be reported.
    fn site(&mut self, text: String) -> u32 {
        let function = self.functions.last().expect("a function is being lowered");
        let site = Site { function: function.source.name.clone(), statement: function.statement, text };
        let known = self.kernel.sites.iter().position(|other| *other == site);
        known.unwrap_or_else(|| {
            self.kernel.sites.push(site);
            self.kernel.sites.len() - 1
        }) as u32
    }

    // -- What comes with a call ------------------------------------------------------------------

    fn array(&mut self, spec: &ArraySpec) -> ArrayId {
        if let Some(id) = self.arrays.get(&spec.name) {
            return *id;
        }
        let id = self.kernel.arrays.len() as ArrayId;
        let lane_dims = match (spec.lanes_in_shape, spec.element) {
            (true, Some(Shape::Vector(_))) => 1,
            (true, Some(Shape::Matrix(..))) => 2,
            _ => 0,
        };
        self.kernel.arrays.push(Array {
            name: spec.name.clone(),
            scalar: spec.scalar,
            ndim: spec.ndim,
            lanes: spec.element.map_or(1, Shape::len),
            lane_dims,
            columns: if let Some(Shape::Matrix(_, columns)) = spec.element { columns } else { 0 },
            layout: if spec.contiguous { Layout::C } else { Layout::Strided },
            origin: match &spec.fixed {
                None => Origin::Argument,
                Some((address, shape)) => Origin::Fixed { address: *address, shape: shape.clone() },
            },
        });
        self.arrays.insert(spec.name.clone(), id);
        id
    }

    fn number(&mut self, spec: &NumberSpec) -> Expr {
        if let Some(id) = self.numbers.get(&spec.name) {
            return Expr::Number(*id);
        }
        let id = self.kernel.numbers.len() as u32;
        self.kernel.numbers.push(Number { name: spec.name.clone(), scalar: spec.scalar });
        self.numbers.insert(spec.name.clone(), id);
        Expr::Number(id)
    }

    fn size(&mut self, spec: &ArraySpec, at: u8) -> Expr {
        if let Some((_, shape)) = &spec.fixed {
            return Expr::index(shape[usize::from(at)]);
        }
        Expr::Size(self.array(spec), at)
    }
}

fn line_of(source: &FunctionSource, at: TextRange) -> u32 {
    let before = &source.text.as_bytes()[..usize::from(at.start()).min(source.text.len())];
    source.line + before.iter().filter(|byte| **byte == b'\n').count() as u32
}

/// Where a piece of a function's text is in the user's file.
fn frame(source: &FunctionSource, at: TextRange) -> Frame {
    let text = &source.text;
    let start = usize::from(at.start()).min(text.len());
    let begin = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let stop = usize::from(at.end()).clamp(start, end);
    Frame {
        function: source.name.clone(),
        file: source.file.clone(),
        line: line_of(source, at),
        column: source.indent + text[begin..start].chars().count() as u32,
        width: (text[start..stop].chars().count() as u32).max(1),
        text: format!("{}{}", " ".repeat(source.indent as usize), &text[begin..end]),
    }
}
