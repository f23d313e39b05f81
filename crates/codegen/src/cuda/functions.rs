//! Functions that devices have, or need, otherwise than the CPU.

use keyprint_lang::ir::AtomicOp;
use keyprint_lang::types::Scalar;

use crate::c_functions::{CFunctions, changed, combined};

impl CFunctions {
    /// A change in one step, on a device; it returns what was there.
    pub(crate) fn device_atomic(&mut self, op: AtomicOp, scalar: Scalar, wide: Scalar) -> String {
        let (t, w, begin) = (self.type_of(scalar), self.type_of(wide), self.dialect.function());
        let by = if scalar == wide { String::new() } else { format!("_by_{}", wide.name()) };
        let name = format!("kp_atomic_{}_{}{by}", op.name(), scalar.name());
        if scalar == wide
            && let Some((function, as_type)) = instruction(op, scalar)
        {
            return self.add(name, |name| {
                format!(
                    "{begin} {t} {name}({t} *p, {t} v) {{ return ({t}){function}(({as_type} *)p, ({as_type})v); }}\n"
                )
            });
        }
        let new = changed(self.dialect, op, scalar, wide, t, w);
        // What changes nothing is not written.
        let is_plain = scalar == wide && scalar != Scalar::BF16;
        let keeps = match op {
            AtomicOp::Min if is_plain => "if (!(v < f)) return f; ",
            AtomicOp::Max if is_plain => "if (!(v > f)) return f; ",
            _ => "",
        };
        let bits = scalar.bits();
        if bits >= 32 {
            return self.add(name, |name| {
                format!(
                    "{begin} {t} {name}({t} *p, {w} v) {{\n  u{bits} *q = (u{bits} *)p, old = *(volatile u{bits} *)q, seen, next;\n  \
                     {t} f, g;\n  do {{\n    seen = old; memcpy(&f, &seen, sizeof f); {keeps}g = {new}; \
                     memcpy(&next, &g, sizeof g);\n    old = atomicCAS(q, seen, next);\n  }} while (old != seen);\n  return f;\n}}\n"
                )
            });
        }
        // Devices change words of 32 bits.
        let mask = (1u32 << bits) - 1;
        self.add(name, |name| {
            format!(
                "{begin} {t} {name}({t} *p, {w} v) {{\n  u32 *q = (u32 *)((u64)p & ~3ULL), old = *(volatile u32 *)q, seen;\n  \
                 const u32 shift = (u32)((u64)p & 3) * 8;\n  {t} f, g;\n  do {{\n    seen = old; u{bits} part = (u{bits})(seen >> shift); \
                 memcpy(&f, &part, sizeof f); {keeps}g = {new}; memcpy(&part, &g, sizeof g);\n    \
                 old = atomicCAS(q, seen, (seen & ~({mask}U << shift)) | (u32)part << shift);\n  }} while (old != seen);\n  return f;\n}}\n"
            )
        })
    }

    /// The same for a variable that only one thread knows.
    pub(crate) fn plain_change(&mut self, op: AtomicOp, scalar: Scalar, wide: Scalar) -> String {
        let (t, w, begin) = (self.type_of(scalar), self.type_of(wide), self.dialect.function());
        let new = changed(self.dialect, op, scalar, wide, t, w);
        self.add(format!("kp_change_{}_{}_by_{}", op.name(), scalar.name(), wide.name()), |name| {
            format!("{begin} {t} {name}({t} *p, {w} v) {{ {t} f = *p; *p = {new}; return f; }}\n")
        })
    }

    /// Puts the shares of all threads of a block together; the first thread has the result.
    pub(crate) fn block_reduction(&mut self, op: AtomicOp, scalar: Scalar) -> String {
        let (t, begin) = (self.type_of(scalar), self.dialect.function());
        // Narrow numbers travel as wider ones.
        let (to, back) = if scalar.bits() < 32 { ("(i32)", format!("({t})")) } else { ("", String::new()) };
        let fold = combined(self.dialect, op, scalar, "v", "o");
        self.add(format!("kp_block_{}_{}", op.name(), scalar.name()), |name| {
            format!(
                "{begin} {t} {name}({t} v) {{\n  __shared__ {t} shares[32];\n  \
                 const u32 thread = threadIdx.y * blockDim.x + threadIdx.x, warps = blockDim.x * blockDim.y / 32;\n  \
                 for (i32 step = 16; step > 0; step /= 2) {{ const {t} o = {back}__shfl_down_sync(0xffffffffU, {to}v, step); v = {fold}; }}\n  \
                 __syncthreads();\n  if (thread % 32 == 0) shares[thread / 32] = v;\n  __syncthreads();\n  \
                 if (thread == 0) for (u32 at = 1; at < warps; ++at) {{ const {t} o = shares[at]; v = {fold}; }}\n  \
                 return v;\n}}\n"
            )
        })
    }
}

/// What a device has for a change, and the type that it takes.
fn instruction(op: AtomicOp, scalar: Scalar) -> Option<(&'static str, &'static str)> {
    let bits = match scalar {
        Scalar::I32 | Scalar::U32 => "u32",
        Scalar::I64 | Scalar::U64 => "u64",
        _ => "",
    };
    let own = match scalar {
        Scalar::I32 => "i32",
        Scalar::U32 => "u32",
        Scalar::I64 => "i64",
        Scalar::U64 => "u64",
        _ => "",
    };
    let (function, as_type) = match op {
        AtomicOp::Add => match scalar {
            Scalar::F32 => ("atomicAdd", "f32"),
            Scalar::F64 => ("atomicAdd", "f64"),
            _ => ("atomicAdd", bits),
        },
        AtomicOp::Min => ("atomicMin", own),
        AtomicOp::Max => ("atomicMax", own),
        AtomicOp::And => ("atomicAnd", bits),
        AtomicOp::Or => ("atomicOr", bits),
        AtomicOp::Xor => ("atomicXor", bits),
        AtomicOp::Mul => return None,
    };
    (!as_type.is_empty()).then_some((function, as_type))
}
