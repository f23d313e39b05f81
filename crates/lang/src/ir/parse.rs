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
                    .is_some_and(|one| !one.is_ascii_whitespace() && !b"()\"".contains(one))
                {
                    self.at += 1;
                }
                Ok(Tree::Word(start, String::from_utf8_lossy(&self.text[start..self.at]).into_owned()))
            }
        }
    }

    fn quoted(&mut self) -> Result<Tree, ParseError> {
        self.at += 1;
        let mut found = Vec::new();
        loop {
            match self.text.get(self.at) {
                None => return Err(self.error("`\"`")),
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    match self.text.get(self.at) {
                        Some(b'n') => found.push(b'\n'),
                        Some(one) => found.push(*one),
                        None => return Err(self.error("something after `\\`")),
                    }
                }
                Some(one) => found.push(*one),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(Tree::Text(String::from_utf8_lossy(&found).into_owned()))
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
        let found = self.items.next();
        found.map_or_else(|| self.fail("more"), Ok)
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
        self.items.by_ref().map(|one| expr(one, at)).collect()
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
        let mut one = items.list()?;
        match one.word()? {
            "array" => kernel.arrays.push(array(&mut one)?),
            "number" => kernel.numbers.push(Number { name: one.text()?, scalar: one.scalar()? }),
            "local" => {
                kernel.locals.push(Local { name: one.text()?, scalar: one.scalar()?, lanes: one.number()? })
            }
            "site" => {
                kernel.sites.push(Site { function: one.text()?, statement: one.number()?, text: one.text()? })
            }
            "results" => {
                while !one.is_done() {
                    kernel.results.push(one.scalar()?);
                }
            }
            "noalias" => kernel.noalias.push((one.number()?, one.number()?)),
            "graph" => kernel.is_graph = true,
            "checkpoints" => {
                let labels = kernel.labels.insert(Vec::new());
                while !one.is_done() {
                    let mut label = one.list()?;
                    labels.push(Label { name: label.text()?, value: label.number()? });
                    label.end()?;
                }
            }
            "body" => kernel.body = block(&mut one)?,
            _ => return one.fail("a part of a kernel"),
        }
        one.end()?;
    }
    Ok(kernel)
}

fn array(one: &mut Items<'_>) -> Parsed<Array> {
    Ok(Array {
        name: one.text()?,
        scalar: one.scalar()?,
        ndim: one.number()?,
        lanes: one.number()?,
        lane_dims: one.number()?,
        columns: one.number()?,
        layout: match one.word()? {
            "c" => Layout::C,
            "strided" => Layout::Strided,
            _ => return one.fail("a layout"),
        },
        origin: match one.any()? {
            Tree::Word(_, word) if word == "argument" => Origin::Argument,
            tree => {
                let mut fixed = list(tree, one.at)?;
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
    let mut found = Block::default();
    while !items.is_done() {
        let mut one = items.list()?;
        let word = one.word()?;
        if word == "var" {
            found.locals.push(one.number()?);
        } else {
            let line = word.strip_prefix('@').and_then(|line| line.parse().ok());
            let Some(line) = line else { return one.fail("a line") };
            found.statements.push(Statement { line, kind: statement(&mut one)? });
        }
        one.end()?;
    }
    Ok(found)
}

fn named_block(items: &mut Items<'_>, name: &str) -> Parsed<Block> {
    let mut one = items.list()?;
    one.head(name)?;
    block(&mut one)
}

fn statement(one: &mut Items<'_>) -> Parsed<Kind> {
    Ok(match one.word()? {
        "let" => Kind::Let(one.number()?, one.expr()?),
        "set" => Kind::Set(one.number()?, one.expr()?),
        "setlane" => Kind::SetLane(one.number()?, one.expr()?, one.expr()?),
        "store" => Kind::Store(place(&mut one.list()?)?, one.expr()?),
        "atomic" => Kind::Atomic(Atomic {
            op: op(one)?,
            target: target(one)?,
            value: one.expr()?,
            old: one.optional()?,
        }),
        "if" => Kind::If(one.expr()?, named_block(one, "then")?, named_block(one, "else")?),
        "for" => Kind::For(Box::new(For {
            variable: one.number()?,
            from: one.expr()?,
            to: one.expr()?,
            body: named_block(one, "do")?,
        })),
        "parallel" => Kind::Parallel(Box::new(parallel(one)?)),
        "loop" => Kind::Loop(named_block(one, "do")?),
        "scope" => Kind::Scope(one.number()?, named_block(one, "do")?),
        "break" => Kind::Break,
        "continue" => Kind::Continue,
        "leave" => Kind::Leave(one.number()?),
        "return" => Kind::Return(one.exprs()?),
        "check" => Kind::Check { site: one.number()?, condition: one.expr()?, values: one.exprs()? },
        "print" => {
            let mut parts = Vec::new();
            while !one.is_done() {
                parts.push(match one.any()? {
                    Tree::Text(text) => Part::Text(text.clone()),
                    tree => Part::Value(expr(tree, one.at)?),
                });
            }
            Kind::Print(parts)
        }
        "random" => Kind::Random(one.number()?),
        "dowhile" => {
            Kind::DoWhile(Box::new(DoWhile { counter: one.number()?, body: named_block(one, "do")? }))
        }
        "checkpoint" => Kind::Checkpoint(Box::new(Checkpoint {
            label: one.number()?,
            flag: one.optional()?,
            body: named_block(one, "do")?,
        })),
        "sections" => {
            let mut sections = Vec::new();
            while !one.is_done() {
                sections.push(named_block(one, "section")?);
            }
            Kind::Sections(sections)
        }
        "at" => Kind::At(one.number()?),
        _ => return one.fail("a statement"),
    })
}

fn parallel(one: &mut Items<'_>) -> Parsed<Parallel> {
    let (mut variables, mut from, mut to) = (Vec::new(), Vec::new(), Vec::new());
    let mut ranges = one.list()?;
    while !ranges.is_done() {
        let mut range = ranges.list()?;
        variables.push(range.number()?);
        from.push(range.expr()?);
        to.push(range.expr()?);
    }
    let grain = one.optional()?;
    let mut reductions = Vec::new();
    let mut all = one.list()?;
    while !all.is_done() {
        let mut one = all.list()?;
        reductions.push(Reduction { op: op(&mut one)?, local: one.number()?, target: target(&mut one)? });
    }
    Ok(Parallel { variables, from, to, grain, reductions, body: named_block(one, "do")? })
}

fn op(one: &mut Items<'_>) -> Parsed<AtomicOp> {
    let word = one.word()?;
    AtomicOp::of_name(word).map_or_else(|| one.fail("an atomic operation"), Ok)
}

fn target(one: &mut Items<'_>) -> Parsed<AtomicTarget> {
    let tree = one.any()?;
    match expr(tree, one.at) {
        Ok(Expr::Local(id)) => Ok(AtomicTarget::Local(id)),
        Ok(Expr::Lane(id, at)) => Ok(AtomicTarget::Lane(id, *at)),
        _ => Ok(AtomicTarget::Place(place(&mut list(tree, one.at)?)?)),
    }
}

fn place(one: &mut Items<'_>) -> Parsed<Place> {
    one.head("at")?;
    let array = one.number()?;
    let lane = match one.any()? {
        Tree::Word(_, word) if word == "_" => None,
        tree => Some(expr(tree, one.at)?),
    };
    Ok(Place { array, lane, index: one.exprs()? })
}

fn expr(tree: &Tree, at: usize) -> Parsed<Expr> {
    if let Tree::Word(at, word) = tree {
        let id = word.strip_prefix('%').and_then(|id| id.parse().ok());
        return id
            .map(Expr::Local)
            .ok_or_else(|| ParseError { at: *at, expected: "`%` and a number".to_owned() });
    }
    let mut one = list(tree, at)?;
    let head = one.word()?;
    let found = match head {
        "lane" => Expr::Lane(one.number()?, Box::new(one.expr()?)),
        "number" => Expr::Number(one.number()?),
        "size" => Expr::Size(one.number()?, one.number()?),
        "load" => Expr::Load(Box::new(place(&mut one.list()?)?)),
        "cast" => Expr::Cast(one.scalar()?, Box::new(one.expr()?)),
        "bits" => Expr::Bits(one.scalar()?, Box::new(one.expr()?)),
        "select" => Expr::Select(Box::new([one.expr()?, one.expr()?, one.expr()?])),
        "call" => {
            let word = one.word()?;
            let Some(math) = Math::of_name(word) else { return one.fail("a function") };
            Expr::Call(math, one.exprs()?)
        }
        word => {
            if let Some(scalar) = Scalar::of_name(word) {
                let word = one.word()?;
                let bits = match word.strip_prefix("0x") {
                    Some(bits) => u64::from_str_radix(bits, 16).ok(),
                    None => word.parse::<i64>().map(|value| value as u64).or_else(|_| word.parse()).ok(),
                };
                let Some(bits) = bits else { return one.fail("a number") };
                Expr::Const(scalar, bits)
            } else if let Some(op) = Unary::of_name(word) {
                Expr::Unary(op, Box::new(one.expr()?))
            } else if let Some(op) = Binary::of_name(word) {
                Expr::Binary(op, Box::new(one.expr()?), Box::new(one.expr()?))
            } else {
                return one.fail("an expression");
            }
        }
    };
    one.end()?;
    Ok(found)
}
