//! A kernel as text.

use std::fmt::Write;

use super::{
    Array, Atomic, AtomicTarget, Block, Expr, Kernel, Kind, Layout, LocalId, Origin, Part, Place, Scalar,
};

/// Writes a kernel as text, which [`parse`](super::parse) reads back.
#[must_use]
pub fn print(kernel: &Kernel) -> String {
    let mut out = Printer { kernel, text: String::new(), level: 0 };
    out.kernel();
    out.text
}

struct Printer<'k> {
    kernel: &'k Kernel,
    text: String,
    level: usize,
}

impl Printer<'_> {
    fn kernel(&mut self) {
        let kernel = self.kernel;
        self.line(&format!("(kernel {}", quoted(&kernel.name)));
        self.level += 1;
        for array in &kernel.arrays {
            let text = array_text(array);
            self.line(&text);
        }
        for number in &kernel.numbers {
            self.line(&format!("(number {} {})", quoted(&number.name), number.scalar));
        }
        for local in &kernel.locals {
            self.line(&format!("(local {} {} {})", quoted(&local.name), local.scalar, local.lanes));
        }
        for site in &kernel.sites {
            let (function, text) = (quoted(&site.function), quoted(&site.text));
            self.line(&format!("(site {function} {} {text})", site.statement));
        }
        let results: Vec<_> = kernel.results.iter().map(|scalar| scalar.name()).collect();
        self.line(&format!("(results {})", results.join(" ")));
        for (first, second) in &kernel.noalias {
            self.line(&format!("(noalias {first} {second})"));
        }
        if kernel.is_graph {
            self.line("(graph)");
        }
        if let Some(labels) = &kernel.labels {
            let labels: Vec<_> =
                labels.iter().map(|label| format!(" ({} {})", quoted(&label.name), label.value)).collect();
            self.line(&format!("(checkpoints{})", labels.concat()));
        }
        self.block("body", &kernel.body);
        self.level -= 1;
        self.line(")");
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}{text}", "  ".repeat(self.level));
    }

    fn block(&mut self, head: &str, block: &Block) {
        self.line(&format!("({head}"));
        self.level += 1;
        for id in &block.locals {
            self.line(&format!("(var {id})"));
        }
        for statement in &block.statements {
            self.statement(statement.line, &statement.kind);
        }
        self.level -= 1;
        self.line(")");
    }

    fn statement(&mut self, line: u32, kind: &Kind) {
        let text = match kind {
            Kind::Let(id, value) => format!("let {id} {}", self.expr(value)),
            Kind::Set(id, value) => format!("set {id} {}", self.expr(value)),
            Kind::SetLane(id, at, value) => {
                format!("setlane {id} {} {}", self.expr(at), self.expr(value))
            }
            Kind::Store(place, value) => format!("store {} {}", self.place(place), self.expr(value)),
            Kind::Atomic(Atomic { op, target, value, old }) => {
                let old = old.map_or_else(|| "_".to_owned(), |id| id.to_string());
                format!("atomic {} {} {} {old}", op.name(), self.target(target), self.expr(value))
            }
            Kind::If(condition, then, otherwise) => {
                let head = format!("@{line} if {}", self.expr(condition));
                return self.blocks(&head, &[("then", then), ("else", otherwise)]);
            }
            Kind::For(loop_stmt) => {
                let (from, to) = (self.expr(&loop_stmt.from), self.expr(&loop_stmt.to));
                let head = format!("@{line} for {} {from} {to}", loop_stmt.variable);
                return self.blocks(&head, &[("do", &loop_stmt.body)]);
            }
            Kind::Parallel(node) => {
                let mut head = format!("@{line} parallel (");
                for (at, id) in node.variables.iter().enumerate() {
                    let (from, to) = (self.expr(&node.from[at]), self.expr(&node.to[at]));
                    let _ = write!(head, "({id} {from} {to})");
                }
                let grain = node.grain.map_or_else(|| "_".to_owned(), |grain| grain.to_string());
                let _ = write!(head, ") {grain} (");
                for reduction in &node.reductions {
                    let _ = write!(
                        head,
                        "({} {} {})",
                        reduction.op.name(),
                        reduction.local,
                        self.target(&reduction.target)
                    );
                }
                head.push(')');
                return self.blocks(&head, &[("do", &node.body)]);
            }
            Kind::Loop(body) => return self.blocks(&format!("@{line} loop"), &[("do", body)]),
            Kind::Scope(id, body) => return self.blocks(&format!("@{line} scope {id}"), &[("do", body)]),
            Kind::Break => "break".to_owned(),
            Kind::Continue => "continue".to_owned(),
            Kind::Leave(id) => format!("leave {id}"),
            Kind::Return(values) => self.all("return", values),
            Kind::Check { condition, site, values } => {
                self.all(&format!("check {site} {}", self.expr(condition)), values)
            }
            Kind::Print(parts) => {
                let mut text = "print".to_owned();
                for part in parts {
                    text.push(' ');
                    text.push_str(&match part {
                        Part::Text(literal) => quoted(literal),
                        Part::Value(value) => self.expr(value),
                    });
                }
                text
            }
            Kind::Random(id) => format!("random {id}"),
            Kind::DoWhile(do_while) => {
                return self
                    .blocks(&format!("@{line} dowhile {}", do_while.counter), &[("do", &do_while.body)]);
            }
            Kind::Checkpoint(checkpoint) => {
                let flag = checkpoint.flag.map_or_else(|| "_".to_owned(), |id| id.to_string());
                let head = format!("@{line} checkpoint {} {flag}", checkpoint.label);
                return self.blocks(&head, &[("do", &checkpoint.body)]);
            }
            Kind::Sections(sections) => {
                let sections: Vec<_> = sections.iter().map(|section| ("section", section)).collect();
                return self.blocks(&format!("@{line} sections"), &sections);
            }
            Kind::At(site) => format!("at {site}"),
        };
        self.line(&format!("(@{line} {text})"));
    }

    fn blocks(&mut self, head: &str, blocks: &[(&str, &Block)]) {
        self.line(&format!("({head}"));
        self.level += 1;
        for (name, block) in blocks {
            self.block(name, block);
        }
        self.level -= 1;
        self.line(")");
    }

    fn all(&self, head: &str, values: &[Expr]) -> String {
        values.iter().fold(head.to_owned(), |text, value| text + " " + &self.expr(value))
    }

    fn target(&self, target: &AtomicTarget) -> String {
        match target {
            AtomicTarget::Place(place) => self.place(place),
            AtomicTarget::Local(id) => local(*id),
            AtomicTarget::Lane(id, at) => format!("(lane {id} {})", self.expr(at)),
        }
    }

    fn place(&self, place: &Place) -> String {
        let lane = place.lane.as_ref().map_or_else(|| "_".to_owned(), |lane| self.expr(lane));
        self.all(&format!("(at {} {lane}", place.array), &place.index) + ")"
    }

    fn expr(&self, expr: &Expr) -> String {
        match expr {
            Expr::Const(scalar, bits) => format!("({scalar} {})", number(*scalar, *bits)),
            Expr::Local(id) => local(*id),
            Expr::Lane(id, at) => format!("(lane {id} {})", self.expr(at)),
            Expr::Number(id) => format!("(number {id})"),
            Expr::Size(id, at) => format!("(size {id} {at})"),
            Expr::Load(place) => format!("(load {})", self.place(place)),
            Expr::Unary(op, operand) => format!("({} {})", op.name(), self.expr(operand)),
            Expr::Binary(op, left, right) => {
                format!("({} {} {})", op.name(), self.expr(left), self.expr(right))
            }
            Expr::Cast(scalar, value) => format!("(cast {scalar} {})", self.expr(value)),
            Expr::Bits(scalar, value) => format!("(bits {scalar} {})", self.expr(value)),
            Expr::Select(parts) => self.all("(select", &parts[..]) + ")",
            Expr::Call(math, arguments) => self.all(&format!("(call {}", math.name()), arguments) + ")",
        }
    }
}

fn array_text(array: &Array) -> String {
    let layout = match array.layout {
        Layout::C => "c",
        Layout::Strided => "strided",
    };
    let origin = match &array.origin {
        Origin::Argument => "argument".to_owned(),
        Origin::Fixed { address, shape } => {
            let shape: Vec<_> = shape.iter().map(ToString::to_string).collect();
            format!("(fixed {address} {})", shape.join(" "))
        }
    };
    let name = quoted(&array.name);
    let Array { scalar, ndim, lanes, lane_dims, columns, .. } = array;
    format!("(array {name} {scalar} {ndim} {lanes} {lane_dims} {columns} {layout} {origin})")
}

fn local(id: LocalId) -> String {
    format!("%{id}")
}

/// Whole numbers as they are, floats by their bits.
fn number(scalar: Scalar, bits: u64) -> String {
    match scalar {
        scalar if scalar.is_float() => format!("0x{bits:x}"),
        Scalar::U64 => bits.to_string(),
        _ => (bits as i64).to_string(),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            character => out.push(character),
        }
    }
    out.push('"');
    out
}
