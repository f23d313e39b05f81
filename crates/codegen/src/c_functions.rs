//! Functions for operations that C has not, or leaves undefined: written once for each type that needs
//! them.

use keyprint_lang::ir::{AtomicOp, Binary};
use keyprint_lang::types::Scalar;

use crate::expr::wrapping;

/// What is written: C for the CPU, or CUDA C++. Most of both is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Dialect {
    #[default]
    C,
    Cuda,
}

impl Dialect {
    /// What begins a function that others call.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::C => "static inline",
            Self::Cuda => "static __device__ __forceinline__",
        }
    }

    /// What a function of the C library is called where it is called without a header.
    pub(crate) fn library(self) -> &'static str {
        match self {
            Self::C => "__builtin_",
            Self::Cuda => "",
        }
    }
}

/// Functions that were asked for: name and text, those that others need before them.
#[derive(Default)]
pub(crate) struct CFunctions {
    pub(crate) dialect: Dialect,
    functions: Vec<(String, String)>,
    has_halves: bool,
    has_upper_halves: bool,
    has_whole: bool,
    has_narrowed: bool,
}

/// Instructions on halves are newer than what compilers and assemblers make of them: GCC 13 drops conversions that are
/// beyond the range of a half. All that is needed is converting them.
const HALVES: &str = r#"
#if defined(__AVX512FP16__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("no-avx512fp16")
#endif
typedef _Float16 f16;
"#;

/// Some compilers forget that a float was rounded to a narrower type and made wide again, where they put two of them
/// into one register: GCC 12 does so in straight code.
const NARROWED: &str = r#"
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize")
#endif
"#;

/// A float that is made whole and a float again must not become a negative zero: some compilers round it instead.
const WHOLE: &str = r#"
#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define KP_WHOLE(x) __builtin_assoc_barrier(x)
#endif
#endif
#ifndef KP_WHOLE
#define KP_WHOLE(x) (x)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("trapping-math")
#endif
#endif
"#;

/// Upper halves of single precision, for storing. A number is cut to fewer bits before it is rounded, of which the last
/// says whether anything was cut off, so that it is rounded once; few enough for the smallest numbers.
fn upper_halves(dialect: Dialect) -> String {
    let (begin, library) = (dialect.function(), dialect.library());
    format!(
        r#"
typedef struct {{ u16 bits; }} bf16;
{begin} bf16 kp_bf16_of_bits(u32 bits) {{ bf16 y; y.bits = (u16)bits; return y; }}
{begin} f32 kp_f32_of_bf16(bf16 x) {{ const u32 b = (u32)x.bits << 16; f32 y; {library}memcpy(&y, &b, sizeof y); return y; }}
{begin} bf16 kp_bf16_of_f32(f32 x) {{
  u32 b; {library}memcpy(&b, &x, sizeof b);
  return kp_bf16_of_bits((b & 0x7fffffff) > 0x7f800000 ? b >> 16 | 0x40 : (b + 0x7fff + (b >> 16 & 1)) >> 16);
}}
{begin} bf16 kp_bf16_of_f64(f64 x) {{
  u64 b; {library}memcpy(&b, &x, sizeof b);
  b = (b & ~0x1fffffffffULL) | (u64)((b & 0x1fffffffffULL) != 0) << 37;
  {library}memcpy(&x, &b, sizeof b);
  return kp_bf16_of_f32((f32)x);
}}
{begin} bf16 kp_bf16_of_u64(u64 x) {{
  if (x >> 53) x = (x >> 11 | ((x & 2047) != 0)) << 11;
  return kp_bf16_of_f64((f64)x);
}}
{begin} bf16 kp_bf16_of_i64(i64 x) {{
  const bf16 y = kp_bf16_of_u64(x < 0 ? 0 - (u64)x : (u64)x);
  return kp_bf16_of_bits(x < 0 ? y.bits | 0x8000U : y.bits);
}}
"#
    )
}

impl CFunctions {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self { dialect, ..Self::default() }
    }

    pub(crate) fn text(&self) -> String {
        let upper = if self.has_upper_halves { upper_halves(self.dialect) } else { String::new() };
        if self.dialect == Dialect::Cuda {
            let all: String = self.functions.iter().map(|(_, text)| text.as_str()).collect();
            let halves = if self.has_halves { crate::cuda::HALVES } else { "" };
            return format!("{halves}{upper}\n{all}");
        }
        let halves = if self.has_halves { HALVES } else { "" };
        let whole = if self.has_whole { WHOLE } else { "" };
        let narrowed = if self.has_narrowed { NARROWED } else { "" };
        let all: String = self.functions.iter().map(|(_, text)| text.as_str()).collect();
        format!("{halves}{whole}{narrowed}{upper}\n{all}")
    }

    /// The C type of numbers.
    pub(crate) fn type_of(&mut self, scalar: Scalar) -> &'static str {
        self.has_halves |= scalar == Scalar::F16;
        self.has_upper_halves |= scalar == Scalar::BF16;
        if scalar == Scalar::Bool { "u8" } else { scalar.name() }
    }

    /// Takes note that a float is rounded to a narrower type.
    pub(crate) fn narrows(&mut self) {
        self.has_narrowed = true;
    }

    pub(crate) fn add(&mut self, name: String, text: impl FnOnce(&str) -> String) -> String {
        if !self.functions.iter().any(|(known, _)| *known == name) {
            let text = text(&name);
            self.functions.push((name.clone(), text));
        }
        name
    }

    /// A function of two numbers.
    pub(crate) fn binary(&mut self, op: Binary, scalar: Scalar) -> Option<String> {
        let t = self.type_of(scalar);
        let bits = scalar.bits();
        let (begin, library) = (self.dialect.function(), self.dialect.library());
        let body = match (op, scalar.is_float(), scalar.is_signed()) {
            (Binary::FloorDiv, true, _) => floor_div(scalar, library),
            (Binary::Mod, true, _) => float_mod(scalar, library),
            (Binary::FloorDiv, _, true) => format!(
                "if (b == 0) return 0; if (b == -1) return {}; {t} q = ({t})(a / b); \
                 return ({t})(q - ((a % b != 0) & ((a < 0) != (b < 0))));",
                wrapping(self.dialect, scalar, "0", "-", "a")
            ),
            (Binary::Mod, _, true) => format!(
                "if (b == 0 || b == -1) return 0; {t} r = ({t})(a % b); \
                 return ({t})((r != 0) & ((r < 0) != (b < 0)) ? r + b : r);"
            ),
            (Binary::TruncDiv, _, true) => {
                let negative = wrapping(self.dialect, scalar, "0", "-", "a");
                format!("if (b == 0) return 0; if (b == -1) return {negative}; return ({t})(a / b);")
            }
            (Binary::TruncMod, _, true) => format!("return b == 0 || b == -1 ? 0 : ({t})(a % b);"),
            (Binary::FloorDiv | Binary::TruncDiv, ..) => format!("return b == 0 ? 0 : ({t})(a / b);"),
            (Binary::Mod | Binary::TruncMod, ..) => format!("return b == 0 ? 0 : ({t})(a % b);"),
            (Binary::Shl, ..) => {
                format!("return (u64)b < {bits} ? ({t})((u{bits})a << b) : 0;")
            }
            (Binary::Shr, _, true) => format!("return (u64)b < {bits} ? ({t})(a >> b) : ({t})-(a < 0);"),
            (Binary::Shr, ..) => format!("return (u64)b < {bits} ? ({t})(a >> b) : 0;"),
            (Binary::Pow, false, _) => {
                let negative = if scalar.is_signed() {
                    "if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0; "
                } else {
                    ""
                };
                let (product, square) = (
                    wrapping(self.dialect, scalar, "r", "*", "a"),
                    wrapping(self.dialect, scalar, "a", "*", "a"),
                );
                format!(
                    "{negative}{t} r = 1; while (b) {{ if (b & 1) r = {product}; a = {square}; b >>= 1; }} return r;"
                )
            }
            // As Python: the first unless the second is beyond it.
            (Binary::Min, ..) => "return b < a ? b : a;".to_owned(),
            (Binary::Max, ..) => "return b > a ? b : a;".to_owned(),
            _ => return None,
        };
        let name = format!("kp_{}_{}", op.name(), scalar.name());
        Some(self.add(name, |name| format!("{begin} {t} {name}({t} a, {t} b) {{ {body} }}\n")))
    }

    /// A float as a whole number, the nearest there is.
    pub(crate) fn whole(&mut self, from: Scalar, to: Scalar) -> String {
        let (f, t) = (self.type_of(from), self.type_of(to));
        let bits = if to.is_signed() { to.bits() - 1 } else { to.bits() };
        let end = format!("0x1p{bits}{}", if from == Scalar::F64 { "" } else { "f" });
        let top = match to {
            Scalar::U64 => "0xffffffffffffffffULL".to_owned(),
            Scalar::I64 => "0x7fffffffffffffffLL".to_owned(),
            _ => format!("{}", (1u64 << bits) - 1),
        };
        let (low, bottom) = match to {
            Scalar::I64 => (format!("-{end}"), "(-0x7fffffffffffffffLL - 1)".to_owned()),
            to if to.is_signed() => (format!("-{end}"), format!("(-{top} - 1)")),
            _ => ("0".to_owned(), "0".to_owned()),
        };
        let name = format!("kp_{}_to_{}", from.name(), to.name());
        self.has_whole = true;
        let begin = self.dialect.function();
        let whole = if self.dialect == Dialect::C { "KP_WHOLE" } else { "" };
        self.add(name, |name| {
            format!(
                "{begin} {t} {name}({f} x) {{ return {whole}(x >= {end} ? ({t}){top} : x > {low} ? ({t})x : \
                 x <= {low} ? ({t}){bottom} : ({t})0); }}\n"
            )
        })
    }

    /// Whether an array of any strides may hold an element twice: unless each stride, from the smallest on, goes
    /// beyond all that the smaller ones reach.
    pub(crate) fn holds_twice(&mut self) -> String {
        self.add("kp_holds_twice".to_owned(), |name| {
            format!(
                "static i32 {name}(i32 n, const i64 *sizes, const i64 *strides, i64 reach) {{\n  \
                 u32 done = 0;\n  for (i32 k = 0; k < n; ++k) {{\n    i32 best = -1;\n    \
                 for (i32 i = 0; i < n; ++i) {{\n      if (sizes[i] == 0) return 0;\n      \
                 if (!(done >> i & 1) && (best < 0 || __builtin_llabs(strides[i]) < __builtin_llabs(strides[best]))) best = i;\n    }}\n    \
                 done |= 1u << best;\n    if (sizes[best] == 1) continue;\n    if (__builtin_llabs(strides[best]) < reach) return 1;\n    \
                 reach += (sizes[best] - 1) * __builtin_llabs(strides[best]);\n  }}\n  return 0;\n}}\n"
            )
        })
    }

    /// Whether the elements of two arrays lie between each other: the second of them begins so many bytes behind the
    /// first, and all strides of both are multiples of one that has room for an element of each.
    pub(crate) fn interleaved(&mut self) -> String {
        self.add("kp_interleaved".to_owned(), |name| {
            format!(
                "static i32 {name}(i32 n, const i64 *sizes, const i64 *strides, i64 behind, i64 bytes, i64 other) {{\n  \
                 i64 step = 0;\n  for (i32 k = 0; k < n; ++k) {{\n    if (sizes[k] < 2) continue;\n    \
                 for (i64 next = strides[k]; next != 0;) {{ const i64 rest = step % next; step = next; next = rest; }}\n  }}\n  \
                 step = __builtin_llabs(step);\n  if (step == 0) return 0;\n  \
                 behind = (behind % step + step) % step;\n  return behind >= bytes && behind + other <= step;\n}}\n"
            )
        })
    }

    /// One float less another.
    pub(crate) fn difference(&mut self, scalar: Scalar) -> String {
        let (t, begin) = (self.type_of(scalar), self.dialect.function());
        self.add(format!("kp_sub_{}", scalar.name()), |name| {
            format!("{begin} {t} {name}({t} a, {t} b) {{ return a - b; }}\n")
        })
    }

    /// A whole number without its sign; the smallest is itself. By its bits: compilers that see an absolute value believe
    /// that it is not negative, and GCC 12 does so where it is compared with a float.
    pub(crate) fn absolute(&mut self, scalar: Scalar) -> String {
        let (t, bits, begin) = (self.type_of(scalar), scalar.bits(), self.dialect.function());
        if self.dialect == Dialect::Cuda && bits < 32 {
            // NVRTC forgets that the smallest of 16 bits stays negative.
            return self.add(format!("kp_abs_{}", scalar.name()), |name| {
                format!(
                    "{begin} {t} {name}({t} a) {{ const i32 w = a; return ({t})kp_opaque(w < 0 ? 0 - w : w); }}\n"
                )
            });
        }
        self.add(format!("kp_abs_{}", scalar.name()), |name| {
            format!(
                "{begin} {t} {name}({t} a) {{ u{bits} m = a < 0 ? (u{bits})-1 : (u{bits})0; \
                 return ({t})(u{bits})(((u{bits})a ^ m) - m); }}\n"
            )
        })
    }

    /// The same bits as another type.
    pub(crate) fn bits(&mut self, from: Scalar, to: Scalar) -> String {
        let (f, t) = (self.type_of(from), self.type_of(to));
        let name = format!("kp_bits_{}_{}", from.name(), to.name());
        let (begin, library) = (self.dialect.function(), self.dialect.library());
        self.add(name, |name| {
            format!("{begin} {t} {name}({f} x) {{ {t} y; {library}memcpy(&y, &x, sizeof y); return y; }}\n")
        })
    }

    /// A change in one step; it returns what was there. It is done in the type of what it is changed with.
    pub(crate) fn atomic(&mut self, op: AtomicOp, scalar: Scalar, wide: Scalar) -> String {
        let (t, w) = (self.type_of(scalar), self.type_of(wide));
        if self.dialect == Dialect::Cuda {
            return self.device_atomic(op, scalar, wide);
        }
        let direct = match op {
            _ if scalar != wide => None,
            AtomicOp::Add if scalar.is_int() => Some("add"),
            AtomicOp::And if !scalar.is_float() => Some("and"),
            AtomicOp::Or if !scalar.is_float() => Some("or"),
            AtomicOp::Xor if !scalar.is_float() => Some("xor"),
            _ => None,
        };
        let by = if scalar == wide { String::new() } else { format!("_by_{}", wide.name()) };
        let name = format!("kp_atomic_{}_{}{by}", op.name(), scalar.name());
        if let Some(direct) = direct {
            return self.add(name, |name| {
                format!(
                    "static inline {t} {name}({t} *p, {t} v) {{ return __atomic_fetch_{direct}(p, v, __ATOMIC_RELAXED); }}\n"
                )
            });
        }
        let new = changed(self.dialect, op, scalar, wide, t, w);
        let bits = scalar.bits();
        self.add(name, |name| {
            format!(
                "static inline {t} {name}({t} *p, {w} v) {{\n  u{bits} *q = (u{bits} *)p, old = __atomic_load_n(q, __ATOMIC_RELAXED), new;\n  \
                 {t} f, g;\n  do {{\n    __builtin_memcpy(&f, &old, sizeof f);\n    g = {new};\n    \
                 __builtin_memcpy(&new, &g, sizeof g);\n  }} while (!__atomic_compare_exchange_n(q, &old, new, 1, \
                 __ATOMIC_RELAXED, __ATOMIC_RELAXED));\n  return f;\n}}\n"
            )
        })
    }

    /// A number drawn by counting: `key` says which launch, `at` which iteration, `n` which draw.
    pub(crate) fn random(&mut self, scalar: Scalar) -> String {
        // "Squares: A Fast Counter-Based RNG" (Widynski): rounds of squaring, with a key that has no pattern.
        let begin = self.dialect.function();
        self.add("kp_squares".to_owned(), |name| {
            format!(
                "{begin} u64 {name}(u64 counter, u64 key) {{\n  u64 x = counter * key, y = x, z = y + key, t;\n  \
                 x = x * x + y; x = (x >> 32) | (x << 32);\n  x = x * x + z; x = (x >> 32) | (x << 32);\n  \
                 x = x * x + y; x = (x >> 32) | (x << 32);\n  t = x = x * x + z; x = (x >> 32) | (x << 32);\n  \
                 return t ^ ((x * x + y) >> 32);\n}}\n"
            )
        });
        let t = self.type_of(scalar);
        let drawn = match scalar {
            Scalar::F64 => "(f64)(r >> 11) * 0x1p-53",
            Scalar::F32 => "(f32)(r >> 40) * 0x1p-24f",
            Scalar::F16 => "(f16)((f32)(r >> 53) * 0x1p-11f)",
            Scalar::BF16 => "kp_bf16_of_f32((f32)(r >> 56) * 0x1p-8f)",
            Scalar::Bool => "(u8)(r >> 63)",
            _ => "(TYPE)(r >> SHIFT)",
        };
        let drawn = drawn.replace("TYPE", t).replace("SHIFT", &(64 - scalar.bits()).to_string());
        self.add(format!("kp_random_{}", scalar.name()), |name| {
            format!(
                "{begin} {t} {name}(u64 key, u64 at, u32 n) {{ u64 r = kp_squares((at << 20) + n, key); return {drawn}; }}\n"
            )
        })
    }
}

/// What a change in the type of what it is changed with makes of `f`, by `v`.
pub(crate) fn changed(
    dialect: Dialect,
    op: AtomicOp,
    scalar: Scalar,
    wide: Scalar,
    t: &str,
    w: &str,
) -> String {
    match (scalar == wide, scalar) {
        // Halves are computed in single precision.
        (true, Scalar::BF16) => {
            format!(
                "kp_bf16_of_f32({})",
                combined(dialect, op, Scalar::F32, "kp_f32_of_bf16(f)", "kp_f32_of_bf16(v)")
            )
        }
        (false, Scalar::BF16) => {
            format!(
                "kp_bf16_of_{w}({})",
                combined(dialect, op, wide, &format!("({w})kp_f32_of_bf16(f)"), "v")
            )
        }
        (true, _) => combined(dialect, op, scalar, "f", "v"),
        (false, Scalar::Bool) => format!("({} != 0)", combined(dialect, op, wide, &format!("({w})f"), "v")),
        (false, _) => format!("({t}){}", combined(dialect, op, wide, &format!("({w})f"), "v")),
    }
}

/// What an operation makes of two numbers, as C.
pub(crate) fn combined(dialect: Dialect, op: AtomicOp, scalar: Scalar, a: &str, b: &str) -> String {
    let t = if scalar == Scalar::Bool { "u8" } else { scalar.name() };
    let value = match op {
        AtomicOp::Add if scalar == Scalar::Bool => return format!("({a} | {b})"),
        AtomicOp::Add if scalar.is_int() => return wrapping(dialect, scalar, a, "+", b),
        AtomicOp::Mul if scalar.is_int() => return wrapping(dialect, scalar, a, "*", b),
        AtomicOp::Add => format!("{a} + {b}"),
        AtomicOp::Mul => format!("{a} * {b}"),
        AtomicOp::Min => format!("{b} < {a} ? {b} : {a}"),
        AtomicOp::Max => format!("{b} > {a} ? {b} : {a}"),
        AtomicOp::And => format!("{a} & {b}"),
        AtomicOp::Or => format!("{a} | {b}"),
        AtomicOp::Xor => format!("{a} ^ {b}"),
    };
    format!("({t})({value})")
}

/// As Python does it: what is left over decides, so that rounding a quotient cannot be off by one.
fn floor_div(scalar: Scalar, library: &str) -> String {
    let s = suffix(scalar);
    let t = scalar.name();
    format!(
        "{t} m = {library}fmod{s}(a, b), q, f; if (b == 0) return a / b; q = (a - m) / b; \
         if (m != 0 && (b < 0) != (m < 0)) q -= 1; if (q == 0) return {library}copysign{s}(({t})0, a / b); \
         f = {library}floor{s}(q); return q - f > ({t})0.5 ? f + 1 : f;"
    )
}

fn float_mod(scalar: Scalar, library: &str) -> String {
    let s = suffix(scalar);
    let t = scalar.name();
    format!(
        "{t} m = {library}fmod{s}(a, b); if (b == 0) return m; \
         if (m == 0) return {library}copysign{s}(({t})0, b); return (b < 0) != (m < 0) ? m + b : m;"
    )
}

/// What C's functions of single precision end in.
pub(crate) fn suffix(scalar: Scalar) -> &'static str {
    if scalar == Scalar::F32 { "f" } else { "" }
}
