//! Walks over statements and expressions, to read them and to change them: each is written once, for both.

use super::{AtomicTarget, Block, Expr, Kind, LocalId, Part, Place, Statement};

impl Place {
    /// Its indices, and its lane.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.index.iter().chain(&self.lane)
    }

    /// The same, to change them.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.index.iter_mut().chain(&mut self.lane)
    }
}

/// Defines a walk that reads and one that changes: they differ in what is borrowed and how.
macro_rules! walks {
    ($children:ident, $parts:ident, $iter:ident, $expressions:ident, [$($borrow:tt)*]) => {
        impl Expr {
            /// Calls something with each expression right inside this one.
            pub fn $children<'e>(self: &'e $($borrow)* Self, mut each: impl FnMut(&'e $($borrow)* Self)) {
                match self {
                    Self::Const(..) | Self::Local(_) | Self::Number(_) | Self::Size(..) => {}
                    Self::Lane(_, child) | Self::Unary(_, child) | Self::Cast(_, child) | Self::Bits(_, child) => each(child),
                    Self::Load(place) => place.$expressions().for_each(each),
                    Self::Binary(_, left, right) => {
                        each(left);
                        each(right);
                    }
                    Self::Select(parts) => parts.$iter().for_each(each),
                    Self::Call(_, arguments) => arguments.$iter().for_each(each),
                }
            }
        }

        impl Kind {
            /// Calls something with each expression of the statement itself, and each block inside.
            pub fn $parts<'k>(
                self: &'k $($borrow)* Self,
                expr: &mut impl FnMut(&'k $($borrow)* Expr),
                block: &mut impl FnMut(&'k $($borrow)* Block),
            ) {
                match self {
                    Self::Let(_, value) | Self::Set(_, value) => expr(value),
                    Self::SetLane(_, at, value) => {
                        expr(at);
                        expr(value);
                    }
                    Self::Store(place, value) => {
                        place.$expressions().for_each(&mut *expr);
                        expr(value);
                    }
                    Self::Atomic(atomic) => {
                        atomic.target.$expressions().for_each(&mut *expr);
                        expr(&$($borrow)* atomic.value);
                    }
                    Self::If(condition, then, otherwise) => {
                        expr(condition);
                        block(then);
                        block(otherwise);
                    }
                    Self::For(loop_stmt) => {
                        expr(&$($borrow)* loop_stmt.from);
                        expr(&$($borrow)* loop_stmt.to);
                        block(&$($borrow)* loop_stmt.body);
                    }
                    Self::Parallel(node) => {
                        node.from.$iter().chain(&$($borrow)* node.to).for_each(&mut *expr);
                        let targets = node.reductions.$iter().flat_map(|reduction| reduction.target.$expressions());
                        targets.for_each(&mut *expr);
                        block(&$($borrow)* node.body);
                    }
                    Self::Loop(body) | Self::Scope(_, body) => block(body),
                    Self::DoWhile(do_while) => block(&$($borrow)* do_while.body),
                    Self::Checkpoint(checkpoint) => block(&$($borrow)* checkpoint.body),
                    Self::Sections(sections) => sections.$iter().for_each(block),
                    Self::Break | Self::Continue | Self::Leave(_) | Self::Random(_) | Self::At(_) => {}
                    Self::Return(values) => values.$iter().for_each(expr),
                    Self::Check { condition, values, .. } => {
                        expr(condition);
                        values.$iter().for_each(expr);
                    }
                    Self::Print(parts) => {
                        for part in parts {
                            if let Part::Value(value) = part {
                                expr(value);
                            }
                        }
                    }
                }
            }
        }
    };
}

walks!(children, parts, iter, expressions, []);
walks!(children_mut, parts_mut, iter_mut, expressions_mut, [mut]);

impl AtomicTarget {
    /// The expressions in it.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let (place, lane) = match self {
            Self::Place(place) => (Some(place), None),
            Self::Lane(_, at) => (None, Some(at)),
            Self::Local(_) => (None, None),
        };
        place.into_iter().flat_map(Place::expressions).chain(lane)
    }

    /// The same, to change them.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let (place, lane) = match self {
            Self::Place(place) => (Some(place), None),
            Self::Lane(_, at) => (None, Some(at)),
            Self::Local(_) => (None, None),
        };
        place.into_iter().flat_map(Place::expressions_mut).chain(lane)
    }

    /// The variable, if it is one.
    #[must_use]
    pub fn local(&self) -> Option<LocalId> {
        match self {
            Self::Local(id) | Self::Lane(id, _) => Some(*id),
            Self::Place(_) => None,
        }
    }
}

impl Block {
    /// Whether it leaves the loop that it is the body of.
    #[must_use]
    pub fn leaves_loop(&self) -> bool {
        self.statements.iter().any(|statement| match &statement.kind {
            Kind::Break => true,
            Kind::If(_, then, otherwise) => then.leaves_loop() || otherwise.leaves_loop(),
            Kind::Scope(_, body) => body.leaves_loop(),
            _ => false,
        })
    }

    /// Calls something with every statement, those inside others included.
    pub fn each<'b>(&'b self, visit: &mut impl FnMut(&'b Statement)) {
        for statement in &self.statements {
            visit(statement);
            statement.kind.parts(&mut |_| {}, &mut |inner| inner.each(visit));
        }
    }

    /// The same, to change them.
    pub fn each_mut(&mut self, visit: &mut dyn FnMut(&mut Statement)) {
        for statement in &mut self.statements {
            visit(statement);
            statement.kind.parts_mut(&mut |_| {}, &mut |inner| inner.each_mut(visit));
        }
    }

    /// Calls something with every expression, but not those inside others.
    pub fn each_expr<'b>(&'b self, visit: &mut impl FnMut(&'b Expr)) {
        self.each(&mut |statement| statement.kind.parts(&mut *visit, &mut |_| {}));
    }

    /// Calls something with every expression, to change it.
    pub fn each_expr_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        for statement in &mut self.statements {
            // Both closures need `visit`: blocks are done after expressions.
            statement.kind.parts_mut(&mut |expr| visit(expr), &mut |_| {});
            statement.kind.parts_mut(&mut |_| {}, &mut |inner| inner.each_expr_mut(visit));
        }
    }
}
