//! Expressions.

use keyprint_lang::ir::{Binary, Expr, Layout, Local, LocalId, Math, Origin, Place, Unary};
use keyprint_lang::passes::fold;
use keyprint_lang::types::Scalar;

use crate::c_functions::{Dialect, suffix};
use crate::statement::Writer;

impl Writer<'_> {
    /// An expression as C; whole, so that it can stand anywhere.
    pub(crate) fn expr(&mut self, expr: &Expr) -> String {
        match expr {
            Expr::Const(scalar, bits) => self.constant(*scalar, *bits),
            Expr::Local(id) => self.local(*id),
            Expr::Lane(id, at) => {
                let at = self.bare(at);
                format!("{}[{at}]", self.local(*id))
            }
            Expr::Number(id) => self.number(*id),
            Expr::Size(id, at) => self.size(*id, *at),
            Expr::Load(place) => self.place(place),
            Expr::Unary(op, operand) => self.unary(*op, operand),
            Expr::Binary(op, left, right) => self.binary(*op, left, right),
            Expr::Cast(to, value) => self.cast(*to, value),
            Expr::Bits(to, value) => {
                let from = value.scalar(self.kernel);
                let helper = self.functions.bits(from, *to);
                format!("{helper}({})", self.bare(value))
            }
            Expr::Select(parts) => {
                let [condition, then, otherwise] = &**parts;
                format!("({} ? {} : {})", self.expr(condition), self.expr(then), self.expr(otherwise))
            }
            Expr::Call(math, arguments) => self.call(*math, arguments),
        }
    }

    /// The same, without parentheses around it.
    pub(crate) fn bare(&mut self, expr: &Expr) -> String {
        unwrapped(&self.expr(expr)).to_owned()
    }

    pub(crate) fn constant(&mut self, scalar: Scalar, bits: u64) -> String {
        if scalar == Scalar::BF16 {
            self.functions.type_of(scalar);
            return format!("kp_bf16_of_bits({bits:#x})");
        }
        if scalar.is_float() {
            let value = fold::float(scalar, bits);
            let s = if scalar == Scalar::F64 { "" } else { "f" };
            let sign = if value < 0.0 { "-" } else { "" };
            let is_cuda = self.functions.dialect == Dialect::Cuda;
            let text = if value.is_nan() && is_cuda {
                format!("nan{s}(\"\")")
            } else if value.is_nan() {
                format!("__builtin_nan{s}(\"\")")
            } else if value.is_infinite() && is_cuda {
                format!("{sign}{}", if s == "f" { "KP_INF_F32" } else { "KP_INF_F64" })
            } else if value.is_infinite() {
                format!("{sign}__builtin_inf{s}()")
            } else if scalar == Scalar::F64 {
                format!("{value:?}")
            } else {
                format!("{:?}f", value as f32)
            };
            self.functions.type_of(scalar);
            return match (scalar, text.starts_with('-')) {
                (Scalar::F16, _) => format!("((f16){text})"),
                (_, true) => format!("({text})"),
                _ => text,
            };
        }
        match scalar {
            Scalar::U64 => format!("{bits}ULL"),
            Scalar::U32 => format!("{bits}U"),
            Scalar::I64 if bits == 1 << 63 => "(-9223372036854775807LL - 1)".to_owned(),
            Scalar::I32 if bits as i64 == i64::from(i32::MIN) => "(-2147483647 - 1)".to_owned(),
            Scalar::I64 if (bits as i64) < 0 => format!("({}LL)", bits as i64),
            Scalar::I64 => format!("{bits}LL"),
            Scalar::I32 if (bits as i64) < 0 => format!("({})", bits as i64),
            Scalar::I32 | Scalar::Bool => format!("{}", bits as i64),
            other => format!("(({}){})", other.name(), bits as i64),
        }
    }

    pub(crate) fn local_name(&self, id: LocalId) -> String {
        let Local { name, .. } = &self.kernel.locals[id as usize];
        if name.is_empty() { format!("t{id}") } else { format!("{}_{id}", plain(name)) }
    }

    /// A local where it is used: some are reached through a pointer.
    pub(crate) fn local(&self, id: LocalId) -> String {
        let name = self.local_name(id);
        if self.in_frame.contains(&id) {
            return format!("kp_f->{name}");
        }
        if self.by_pointer.contains(&id) { format!("(*{name})") } else { name }
    }

    fn number(&self, id: u32) -> String {
        format!("{}_n{id}", plain(&self.kernel.numbers[id as usize].name))
    }

    pub(crate) fn number_name(&self, id: u32) -> String {
        self.number(id)
    }

    pub(crate) fn array_name(&self, id: u32) -> String {
        format!("{}_a{id}", plain(&self.kernel.arrays[id as usize].name))
    }

    pub(crate) fn size(&self, id: u32, at: u8) -> String {
        match &self.kernel.arrays[id as usize].origin {
            Origin::Fixed { shape, .. } => format!("{}LL", shape[usize::from(at)]),
            Origin::Argument => format!("{}_s{at}", self.array_name(id)),
        }
    }

    /// An element: something that can be read and written.
    pub(crate) fn place(&mut self, place: &Place) -> String {
        let array = &self.kernel.arrays[place.array as usize];
        let name = self.array_name(place.array);
        let t = self.functions.type_of(array.scalar);
        if array.layout == Layout::Strided {
            let mut offset = Vec::new();
            for (at, index) in place.index.iter().enumerate() {
                offset.push(format!("{} * {name}_t{at}", self.expr(index)));
            }
            if let Some(lane) = &place.lane {
                let lane = self.expr(lane);
                let at = array.ndim;
                offset.push(match array.lane_dims {
                    0 => format!("{lane} * {}", array.scalar.bytes()),
                    1 => format!("{lane} * {name}_t{at}"),
                    _ => {
                        let (columns, next) = (array.columns, at + 1);
                        format!("{lane} / {columns} * {name}_t{at} + {lane} % {columns} * {name}_t{next}")
                    }
                });
            }
            let offset = if offset.is_empty() { "0".to_owned() } else { offset.join(" + ") };
            return format!("(*({t} *)((char *){name} + ({offset})))");
        }
        format!("{name}[{}]", self.offset(place))
    }

    /// Where an element is among those of an array that are laid out the usual way.
    pub(crate) fn offset(&mut self, place: &Place) -> String {
        let array = &self.kernel.arrays[place.array as usize];
        let mut offset: Option<String> = None;
        for (at, index) in place.index.iter().enumerate() {
            let index = self.expr(index);
            offset = Some(match offset {
                None => index,
                Some(before) => {
                    let size = self.size(place.array, at as u8);
                    let is_narrow = match &array.origin {
                        Origin::Fixed { shape, .. } => i32::try_from(shape[at]).is_ok(),
                        Origin::Argument => true,
                    };
                    let rows = match &place.index[..at] {
                        [row] if is_narrow => self.row_start(row, &size),
                        _ => None,
                    };
                    match rows {
                        Some(rows) => format!("({rows} + {index})"),
                        None => format!("({before} * {size} + {index})"),
                    }
                }
            });
        }
        let mut offset = offset.unwrap_or_else(|| "0".to_owned());
        if let Some(lane) = &place.lane {
            let lane = self.expr(lane);
            offset = if offset == "0" { lane } else { format!("{offset} * {} + {lane}", array.lanes) };
        }
        unwrapped(&offset).to_owned()
    }

    /// Where a row begins, if a variable of a grid says which one it is, or one beside that: a product of 32 bits. In
    /// loops inside of an iteration compilers do better.
    fn row_start(&self, index: &Expr, size: &str) -> Option<String> {
        let (variable, beside) = match index {
            Expr::Binary(op @ (Binary::Add | Binary::Sub), left, right) => match &**right {
                Expr::Const(Scalar::I64, bits) if i32::try_from(*bits as i64).is_ok() => {
                    (&**left, Some((*op, *bits as i64)))
                }
                _ => return None,
            },
            _ => (index, None),
        };
        let Expr::Cast(Scalar::I64, variable) = variable else { return None };
        let Expr::Local(id) = **variable else { return None };
        let is_signed = self.kernel.locals[id as usize].scalar == Scalar::I32;
        if !is_signed || !self.grid_variables.contains(&id) {
            return None;
        }
        let product = format!("kp_product({}, (i32){size})", self.local_name(id));
        Some(match beside {
            None => product,
            Some((op, by)) => {
                let sign = if op == Binary::Add { "+" } else { "-" };
                let by = if by == 1 { String::new() } else { format!("{by}LL * ") };
                format!("{product} {sign} {by}{size}")
            }
        })
    }

    fn unary(&mut self, op: Unary, operand: &Expr) -> String {
        let scalar = operand.scalar(self.kernel);
        let value = self.expr(operand);
        let t = self.functions.type_of(scalar);
        match op {
            Unary::Not => format!("(!{value})"),
            Unary::BitNot => format!("(({t})~{value})"),
            Unary::Neg if scalar.is_float() => format!("(-{value})"),
            Unary::Neg => wrapping(self.functions.dialect, scalar, "0", "-", &value),
            Unary::Abs if scalar.is_float() => {
                format!("{}fabs{}({value})", self.functions.dialect.library(), suffix(scalar))
            }
            Unary::Abs => {
                let helper = self.functions.absolute(scalar);
                format!("{helper}({value})")
            }
        }
    }

    fn binary(&mut self, op: Binary, left: &Expr, right: &Expr) -> String {
        let scalar = left.scalar(self.kernel);
        if op == Binary::Pow && scalar.is_float() {
            let (library, s) = (self.functions.dialect.library(), suffix(scalar));
            return format!("{library}pow{s}({}, {})", self.bare(left), self.bare(right));
        }
        // Some compilers make a negation of zero less something that is no negative zero, if they see both: and so a
        // negative zero of zero. They do not look into functions.
        let is_seen = matches!(
            right,
            Expr::Cast(..) | Expr::Select(_) | Expr::Call(..) | Expr::Const(..) | Expr::Unary(Unary::Abs, _)
        );
        let is_c = self.functions.dialect == Dialect::C;
        if op == Binary::Sub && scalar.is_float() && is_seen {
            let helper = self.functions.difference(scalar);
            return format!("{helper}({}, {})", self.bare(left), self.bare(right));
        }
        if let Some(helper) = self.functions.binary(op, scalar) {
            return format!("{helper}({}, {})", self.bare(left), self.bare(right));
        }
        let sign = match op {
            Binary::Add => "+",
            Binary::Sub => "-",
            Binary::Mul => "*",
            Binary::Div => "/",
            Binary::BitAnd => "&",
            Binary::BitOr => "|",
            Binary::BitXor => "^",
            Binary::Eq => "==",
            Binary::Ne => "!=",
            Binary::Lt => "<",
            Binary::Le => "<=",
            Binary::And => "&&",
            Binary::Or => "||",
            _ => unreachable!("helpers have the others"),
        };
        if scalar.is_int() && matches!(op, Binary::Add | Binary::Sub | Binary::Mul) {
            let (left, right) = (self.expr(left), self.expr(right));
            return if is_c {
                let text = format!("({left} {sign} {right})");
                // C computes with at least 32 bits.
                if scalar.bits() < 32 { format!("(({}){text})", scalar.name()) } else { text }
            } else {
                wrapping(Dialect::Cuda, scalar, &left, sign, &right)
            };
        }
        let text = format!("({} {sign} {})", self.expr(left), self.expr(right));
        // C computes with at least 32 bits.
        let is_small = scalar.is_int() && scalar.bits() < 32 && !op.is_comparison();
        if is_small { format!("(({}){text})", scalar.name()) } else { text }
    }

    fn cast(&mut self, to: Scalar, value: &Expr) -> String {
        let from = value.scalar(self.kernel);
        let text = self.expr(value);
        self.converted(from, to, &text)
    }

    /// A number of one type as another.
    pub(crate) fn converted(&mut self, from: Scalar, to: Scalar, text: &str) -> String {
        if from == Scalar::BF16 {
            return self.converted(Scalar::F32, to, &format!("kp_f32_of_bf16({})", unwrapped(text)));
        }
        if from == to {
            return text.to_owned();
        }
        if to == Scalar::Bool {
            return format!("({text} != 0)");
        }
        if from.is_float() && to.is_int() {
            if from == Scalar::F16 {
                let helper = self.functions.whole(Scalar::F32, to);
                return format!("{helper}((f32){text})");
            }
            let helper = self.functions.whole(from, to);
            return format!("{helper}({})", unwrapped(text));
        }
        if from.is_float() && to.bits() < from.bits() {
            self.functions.narrows();
        }
        let t = self.functions.type_of(to);
        if to == Scalar::BF16 {
            let by = match from {
                Scalar::F64 => "f64",
                Scalar::I64 | Scalar::I32 => "i64",
                Scalar::U64 | Scalar::U32 => "u64",
                // Single precision holds all of the others.
                _ => "f32",
            };
            return format!("kp_bf16_of_{by}({})", unwrapped(text));
        }
        if to == Scalar::F16 && !from.is_float() {
            // Some compilers forget that a whole number may be too large. By way of single precision it is the same.
            self.functions.narrows();
            return format!("((f16)(f32){text})");
        }
        format!("(({t}){text})")
    }

    fn call(&mut self, math: Math, arguments: &[Expr]) -> String {
        let scalar = arguments[0].scalar(self.kernel);
        let s = suffix(scalar);
        let inside: Vec<String> = arguments.iter().map(|argument| self.bare(argument)).collect();
        let inside = inside.join(", ");
        let library = self.functions.dialect.library();
        let name = match math {
            Math::Rsqrt => {
                return format!("(1{} / {library}sqrt{s}({inside}))", if s == "f" { ".0f" } else { ".0" });
            }
            // Half to even, as Python does.
            Math::Round => "rint",
            Math::Atan2 => "atan2",
            Math::Gamma => "tgamma",
            other => other.name(),
        };
        format!("{library}{name}{s}({inside})")
    }
}

/// What two whole numbers are together, as C whose compiler believes that nothing overflows: signs are put aside.
pub(crate) fn wrapping(dialect: Dialect, scalar: Scalar, left: &str, sign: &str, right: &str) -> String {
    let t = scalar.name();
    let bits = scalar.bits().max(32);
    let text = format!("(u{bits}){left} {sign} (u{bits}){right}");
    // NVRTC forgets that the negative of the smallest number of 16 bits is itself, if it sees a negative.
    let is_hidden = dialect == Dialect::Cuda && scalar.is_signed() && scalar.bits() < 32 && sign != "+";
    if is_hidden { format!("(({t})kp_opaque((i32)({text})))") } else { format!("(({t})({text}))") }
}

/// A name that C takes, from whatever the program calls something.
pub(crate) fn plain(name: &str) -> String {
    let cleaned: String = name
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '_' })
        .collect();
    if cleaned.starts_with(|character: char| character.is_ascii_digit()) {
        format!("v{cleaned}")
    } else {
        cleaned
    }
}

fn unwrapped(text: &str) -> &str {
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    match inner {
        Some(inner) => {
            let mut level = 0i32;
            let is_whole = inner.chars().all(|character| {
                level += i32::from(character == '(') - i32::from(character == ')');
                level >= 0
            });
            if is_whole { inner } else { text }
        }
        None => text,
    }
}
