//! Text to a kernel.

use super::{
    Array, Atomic, AtomicOp, AtomicTarget, Binary, Block, Checkpoint, DoWhile, Expr, For, Kernel, Kind,
    Label, Layout, Local, Math, Number, Origin, Parallel, Part, Place, Reduction, Scalar, Site, Statement,
    Unary,
};

/// Text that is no kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: expected {expected}")]
pub struct ParseError {
    /// Where, in bytes.
    pub at: usize,
    /// What should be there.
    pub expected: String,
}

/// Deeper lists are refused.
const MOST_LEVELS: usize = 500;

/// Reads what [`print`](super::print) writes.
///
/// # Errors
///
/// If it is something else. What is read may make no sense all the same: ask [`verify`](super::verify).
pub fn parse(text: &str) -> Result<Kernel, ParseError> {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    let tree = reader.tree(0)?;
    reader.space();
    if reader.at != text.len() {
        return Err(reader.error("the end"));
    }
    kernel(&tree)
}

enum Tree {
    Word(usize, String),
    Text(String),
    List(usize, Vec<Tree>),
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn error(&self, expected: &str) -> ParseError {
        ParseError { at: self.at, expected: expected.to_owned() }
    }

    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn tree(&mut self, level: usize) -> Result<Tree, ParseError> {
        self.space();
        let start = self.at;
        match self.text.get(self.at) {
            None => Err(self.error("something")),
            Some(b')') => Err(self.error("something before `)`")),
            Some(b'(') if level >= MOST_LEVELS => Err(self.error("fewer levels")),
            Some(b'(') => {
                self.at += 1;
                let mut items = Vec::new();
                loop {
                    self.space();
                    match self.text.get(self.at) {
                        None => return Err(self.error("`)`")),
                        Some(b')') => break,
                        Some(_) => items.push(self.tree(level + 1)?),
                    }
                }
                self.at += 1;
                Ok(Tree::List(start, items))
            }
            Some(b'"') => self.quoted(),
            Some(_) => {
                while self
                    .text
                    .get(self.at)
                    .is_some_and(|byte| !byte.is_ascii_whitespace() && !b"()\"".contains(byte))
                {
                    self.at += 1;
                }
                Ok(Tree::Word(start, String::from_utf8_lossy(&self.text[start..self.at]).into_owned()))
            }
        }
    }

    fn quoted(&mut self) -> Result<Tree, ParseError> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.text.get(self.at) {
                None => return Err(self.error("`\"`")),
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    match self.text.get(self.at) {
                        Some(b'n') => bytes.push(b'\n'),
                        Some(byte) => bytes.push(*byte),
                        None => return Err(self.error("something after `\\`")),
                    }
                }
                Some(byte) => bytes.push(*byte),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(Tree::Text(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

type Parsed<T> = Result<T, ParseError>;

/// The items of a list, taken one after the other.
struct Items<'t> {
    at: usize,
    items: std::slice::Iter<'t, Tree>,
}

impl<'t> Items<'t> {
    fn fail<T>(&self, expected: &str) -> Parsed<T> {
        Err(ParseError { at: self.at, expected: expected.to_owned() })
    }

    fn any(&mut self) -> Parsed<&'t Tree> {
        let item = self.items.next();
        item.map_or_else(|| self.fail("more"), Ok)
    }

    fn word(&mut self) -> Parsed<&'t str> {
        match self.any()? {
            Tree::Word(_, word) => Ok(word),
            _ => self.fail("a word"),
        }
    }

    fn text(&mut self) -> Parsed<String> {
        match self.any()? {
            Tree::Text(text) => Ok(text.clone()),
            _ => self.fail("a text"),
        }
    }

    fn list(&mut self) -> Parsed<Items<'t>> {
        list(self.any()?, self.at)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Parsed<T> {
        let word = self.word()?;
        word.parse().or_else(|_| self.fail("a number"))
    }

    fn optional(&mut self) -> Parsed<Option<u32>> {
        let word = self.word()?;
        if word == "_" { Ok(None) } else { word.parse().map(Some).or_else(|_| self.fail("a number or `_`")) }
    }

    fn scalar(&mut self) -> Parsed<Scalar> {
        let word = self.word()?;
        Scalar::of_name(word).map_or_else(|| self.fail("a scalar type"), Ok)
    }

    fn expr(&mut self) -> Parsed<Expr> {
        expr(self.any()?, self.at)
    }

    fn exprs(&mut self) -> Parsed<Vec<Expr>> {
        let at = self.at;
        self.items.by_ref().map(|item| expr(item, at)).collect()
    }

    fn head(&mut self, expected: &str) -> Parsed<()> {
        if self.word()? == expected { Ok(()) } else { self.fail(&format!("`{expected}`")) }
    }

    fn is_done(&self) -> bool {
        self.items.as_slice().is_empty()
    }

    fn end(&self) -> Parsed<()> {
        if self.is_done() { Ok(()) } else { self.fail("`)`") }
    }
}

fn list(tree: &Tree, at: usize) -> Parsed<Items<'_>> {
    match tree {
        Tree::List(at, items) => Ok(Items { at: *at, items: items.iter() }),
        _ => Err(ParseError { at, expected: "a list".to_owned() }),
    }
}

fn kernel(tree: &Tree) -> Parsed<Kernel> {
    let mut items = list(tree, 0)?;
    items.head("kernel")?;
    let mut kernel = Kernel { name: items.text()?, ..Kernel::default() };
    while !items.is_done() {
        let mut part = items.list()?;
        match part.word()? {
            "array" => kernel.arrays.push(array(&mut part)?),
            "number" => kernel.numbers.push(Number { name: part.text()?, scalar: part.scalar()? }),
            "local" => kernel.locals.push(Local {
                name: part.text()?,
                scalar: part.scalar()?,
                lanes: part.number()?,
            }),
            "site" => kernel.sites.push(Site {
                function: part.text()?,
                statement: part.number()?,
                text: part.text()?,
            }),
            "results" => {
                while !part.is_done() {
                    kernel.results.push(part.scalar()?);
                }
            }
            "noalias" => kernel.noalias.push((part.number()?, part.number()?)),
            "graph" => kernel.is_graph = true,
            "checkpoints" => {
                let labels = kernel.labels.insert(Vec::new());
                while !part.is_done() {
                    let mut label = part.list()?;
                    labels.push(Label { name: label.text()?, value: label.number()? });
                    label.end()?;
                }
            }
            "body" => kernel.body = block(&mut part)?,
            _ => return part.fail("a part of a kernel"),
        }
        part.end()?;
    }
    Ok(kernel)
}

fn array(items: &mut Items<'_>) -> Parsed<Array> {
    Ok(Array {
        name: items.text()?,
        scalar: items.scalar()?,
        ndim: items.number()?,
        lanes: items.number()?,
        lane_dims: items.number()?,
        columns: items.number()?,
        layout: match items.word()? {
            "c" => Layout::C,
            "strided" => Layout::Strided,
            _ => return items.fail("a layout"),
        },
        origin: match items.any()? {
            Tree::Word(_, word) if word == "argument" => Origin::Argument,
            tree => {
                let mut fixed = list(tree, items.at)?;
                fixed.head("fixed")?;
                let address = fixed.number()?;
                let mut shape = Vec::new();
                while !fixed.is_done() {
                    shape.push(fixed.number()?);
                }
                Origin::Fixed { address, shape }
            }
        },
    })
}

fn block(items: &mut Items<'_>) -> Parsed<Block> {
    let mut block = Block::default();
    while !items.is_done() {
        let mut item = items.list()?;
        let word = item.word()?;
        if word == "var" {
            block.locals.push(item.number()?);
        } else {
            let line = word.strip_prefix('@').and_then(|line| line.parse().ok());
            let Some(line) = line else { return item.fail("a line") };
            block.statements.push(Statement { line, kind: statement(&mut item)? });
        }
        item.end()?;
    }
    Ok(block)
}

fn named_block(items: &mut Items<'_>, name: &str) -> Parsed<Block> {
    let mut inner = items.list()?;
    inner.head(name)?;
    block(&mut inner)
}

fn statement(items: &mut Items<'_>) -> Parsed<Kind> {
    Ok(match items.word()? {
        "let" => Kind::Let(items.number()?, items.expr()?),
        "set" => Kind::Set(items.number()?, items.expr()?),
        "setlane" => Kind::SetLane(items.number()?, items.expr()?, items.expr()?),
        "store" => Kind::Store(place(&mut items.list()?)?, items.expr()?),
        "atomic" => Kind::Atomic(Atomic {
            op: op(items)?,
            target: target(items)?,
            value: items.expr()?,
            old: items.optional()?,
        }),
        "if" => Kind::If(items.expr()?, named_block(items, "then")?, named_block(items, "else")?),
        "for" => Kind::For(Box::new(For {
            variable: items.number()?,
            from: items.expr()?,
            to: items.expr()?,
            body: named_block(items, "do")?,
        })),
        "parallel" => Kind::Parallel(Box::new(parallel(items)?)),
        "loop" => Kind::Loop(named_block(items, "do")?),
        "scope" => Kind::Scope(items.number()?, named_block(items, "do")?),
        "break" => Kind::Break,
        "continue" => Kind::Continue,
        "leave" => Kind::Leave(items.number()?),
        "return" => Kind::Return(items.exprs()?),
        "check" => Kind::Check { site: items.number()?, condition: items.expr()?, values: items.exprs()? },
        "print" => {
            let mut parts = Vec::new();
            while !items.is_done() {
                parts.push(match items.any()? {
                    Tree::Text(text) => Part::Text(text.clone()),
                    tree => Part::Value(expr(tree, items.at)?),
                });
            }
            Kind::Print(parts)
        }
        "random" => Kind::Random(items.number()?),
        "dowhile" => {
            Kind::DoWhile(Box::new(DoWhile { counter: items.number()?, body: named_block(items, "do")? }))
        }
        "checkpoint" => Kind::Checkpoint(Box::new(Checkpoint {
            label: items.number()?,
            flag: items.optional()?,
            body: named_block(items, "do")?,
        })),
        "sections" => {
            let mut sections = Vec::new();
            while !items.is_done() {
                sections.push(named_block(items, "section")?);
            }
            Kind::Sections(sections)
        }
        "at" => Kind::At(items.number()?),
        _ => return items.fail("a statement"),
    })
}

fn parallel(items: &mut Items<'_>) -> Parsed<Parallel> {
    let (mut variables, mut from, mut to) = (Vec::new(), Vec::new(), Vec::new());
    let mut ranges = items.list()?;
    while !ranges.is_done() {
        let mut range = ranges.list()?;
        variables.push(range.number()?);
        from.push(range.expr()?);
        to.push(range.expr()?);
    }
    let grain = items.optional()?;
    let mut reductions = Vec::new();
    let mut all = items.list()?;
    while !all.is_done() {
        let mut reduction = all.list()?;
        reductions.push(Reduction {
            op: op(&mut reduction)?,
            local: reduction.number()?,
            target: target(&mut reduction)?,
        });
    }
    Ok(Parallel { variables, from, to, grain, reductions, body: named_block(items, "do")? })
}

fn op(items: &mut Items<'_>) -> Parsed<AtomicOp> {
    let word = items.word()?;
    AtomicOp::of_name(word).map_or_else(|| items.fail("an atomic operation"), Ok)
}

fn target(items: &mut Items<'_>) -> Parsed<AtomicTarget> {
    let tree = items.any()?;
    match expr(tree, items.at) {
        Ok(Expr::Local(id)) => Ok(AtomicTarget::Local(id)),
        Ok(Expr::Lane(id, at)) => Ok(AtomicTarget::Lane(id, *at)),
        _ => Ok(AtomicTarget::Place(place(&mut list(tree, items.at)?)?)),
    }
}

fn place(items: &mut Items<'_>) -> Parsed<Place> {
    items.head("at")?;
    let array = items.number()?;
    let lane = match items.any()? {
        Tree::Word(_, word) if word == "_" => None,
        tree => Some(expr(tree, items.at)?),
    };
    Ok(Place { array, lane, index: items.exprs()? })
}

fn expr(tree: &Tree, at: usize) -> Parsed<Expr> {
    if let Tree::Word(at, word) = tree {
        let id = word.strip_prefix('%').and_then(|id| id.parse().ok());
        return id
            .map(Expr::Local)
            .ok_or_else(|| ParseError { at: *at, expected: "`%` and a number".to_owned() });
    }
    let mut items = list(tree, at)?;
    let head = items.word()?;
    let expr = match head {
        "lane" => Expr::Lane(items.number()?, Box::new(items.expr()?)),
        "number" => Expr::Number(items.number()?),
        "size" => Expr::Size(items.number()?, items.number()?),
        "load" => Expr::Load(Box::new(place(&mut items.list()?)?)),
        "cast" => Expr::Cast(items.scalar()?, Box::new(items.expr()?)),
        "bits" => Expr::Bits(items.scalar()?, Box::new(items.expr()?)),
        "select" => Expr::Select(Box::new([items.expr()?, items.expr()?, items.expr()?])),
        "call" => {
            let word = items.word()?;
            let Some(math) = Math::of_name(word) else { return items.fail("a function") };
            Expr::Call(math, items.exprs()?)
        }
        word => {
            if let Some(scalar) = Scalar::of_name(word) {
                let word = items.word()?;
                let bits = match word.strip_prefix("0x") {
                    Some(bits) => u64::from_str_radix(bits, 16).ok(),
                    None => word.parse::<i64>().map(|value| value as u64).or_else(|_| word.parse()).ok(),
                };
                let Some(bits) = bits else { return items.fail("a number") };
                Expr::Const(scalar, bits)
            } else if let Some(op) = Unary::of_name(word) {
                Expr::Unary(op, Box::new(items.expr()?))
            } else if let Some(op) = Binary::of_name(word) {
                Expr::Binary(op, Box::new(items.expr()?), Box::new(items.expr()?))
            } else {
                return items.fail("an expression");
            }
        }
    };
    items.end()?;
    Ok(expr)
}
