//! Bins: arrays that the iterations of a loop only add to, at places that their data say. Few places are changed by many
//! threads at once, which take turns at it; so a block of threads has bins of its own, in its fast memory, and adds them
//! to the array in the end.
//!
//! Whether it does is decided when a task runs: if there are few enough bins for their size, many more iterations, and
//! nothing else that the loop uses overlaps the array.

use std::collections::BTreeSet;

use keyprint_lang::ir::{
    ArrayId, AtomicOp, AtomicTarget, Expr, Kernel, Kind, Layout, Origin, Parallel, Place,
};
use keyprint_lang::types::Scalar;

use crate::statement::Writer;
use crate::task::identity;

/// How many bins a block has, at most: as many blocks run at a time as without.
const MOST: u32 = 4096;

/// An array that a loop adds to in bins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bins {
    pub(crate) array: ArrayId,
    op: AtomicOp,
    /// The other arrays that the loop uses.
    others: BTreeSet<ArrayId>,
}

impl Bins {
    /// The bins of a loop, if it has any.
    pub(crate) fn of(kernel: &Kernel, loop_stmt: &Parallel) -> Option<Self> {
        let mut changed: Vec<(ArrayId, AtomicOp)> = Vec::new();
        let mut used = BTreeSet::new();
        loop_stmt.body.each(&mut |statement| match &statement.kind {
            Kind::Atomic(atomic) => match &atomic.target {
                AtomicTarget::Place(place)
                    if atomic.old.is_none()
                        && is_scattered(place, loop_stmt)
                        && atomic.value.scalar(kernel) == kernel.arrays[place.array as usize].scalar =>
                {
                    changed.push((place.array, atomic.op));
                }
                target => used.extend(array_of(target)),
            },
            Kind::Store(place, _) => drop(used.insert(place.array)),
            _ => {}
        });
        used.extend(loop_stmt.reductions.iter().filter_map(|reduction| array_of(&reduction.target)));
        let mut loads = |expr: &Expr| {
            expr.any(&mut |inner| {
                if let Expr::Load(place) = inner {
                    used.insert(place.array);
                }
                false
            });
        };
        loop_stmt.body.each_expr(&mut loads);
        loop_stmt.from.iter().chain(&loop_stmt.to).for_each(&mut loads);
        let (array, op) = *changed.iter().find(|(array, op)| {
            let described = &kernel.arrays[*array as usize];
            let is_alone = changed.iter().all(|(other, other_op)| other != array || other_op == op);
            let has_instruction =
                *op != AtomicOp::Mul && matches!(described.scalar, Scalar::I32 | Scalar::U32);
            !used.contains(array) && is_alone && has_instruction && described.layout == Layout::C
        })?;
        used.extend(changed.iter().map(|(other, _)| *other).filter(|other| *other != array));
        let are_plain = used.iter().all(|other| kernel.arrays[*other as usize].layout == Layout::C);
        are_plain.then_some(Self { array, op, others: used })
    }

    /// The arrays whose sizes count.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = ArrayId> + '_ {
        self.others.iter().copied().chain([self.array])
    }

    /// Whether a change is one of these.
    pub(crate) fn takes(&self, target: &AtomicTarget) -> bool {
        array_of(target) == Some(self.array)
    }
}

impl Writer<'_> {
    /// Makes the bins of a block, if it is to have some.
    pub(crate) fn begin_bins(&mut self, bins: &Bins, dimensions: usize) {
        let scalar = self.kernel.arrays[bins.array as usize].scalar;
        let (t, start) = (self.functions.type_of(scalar), self.constant(scalar, identity(bins.op, scalar)));
        let name = self.array_name(bins.array);
        let count = self.numbers_in(bins.array);
        self.push(&format!("__shared__ {t} kp_bins[{MOST}];"));
        self.push(&format!("const i64 kp_bin_count = {count};"));
        let iterations: Vec<String> = (0..dimensions).map(|at| format!("kp_count{at}")).collect();
        let iterations = iterations.join(" * ");
        self.push(&format!(
            "bool kp_private = kp_bin_count <= {MOST} && {iterations} >= 2 * kp_bin_count * gridDim.x * gridDim.y * gridDim.z;"
        ));
        for other in &bins.others {
            let (first, count) = (self.array_name(*other), self.numbers_in(*other));
            self.push(&format!(
                "kp_private &= (char *){first} >= (char *)({name} + kp_bin_count) || (char *)({first} + {count}) <= (char *){name};"
            ));
        }
        self.push("const u32 kp_thread = threadIdx.y * blockDim.x + threadIdx.x, kp_threads = blockDim.x * blockDim.y;");
        self.push("if (kp_private) {");
        self.push(&format!(
            "  for (u32 at = kp_thread; at < (u32)kp_bin_count; at += kp_threads) kp_bins[at] = {start};"
        ));
        self.push("  __syncthreads();");
        self.push("}");
    }

    /// A change of a bin, or of the array.
    pub(crate) fn change_bin(&mut self, place: &Place, helper: &str, value: &str) {
        let t = self.functions.type_of(self.kernel.arrays[place.array as usize].scalar);
        let (name, offset) = (self.array_name(place.array), self.offset(place));
        self.push(&format!("{{ const i64 kp_to = {offset}; const {t} kp_by = {value};"));
        self.push(&format!(
            "  if (kp_private) {helper}(&kp_bins[kp_to], kp_by); else {helper}(&{name}[kp_to], kp_by); }}"
        ));
    }

    /// Adds the bins of a block to the array.
    pub(crate) fn end_bins(&mut self, bins: &Bins) {
        let scalar = self.kernel.arrays[bins.array as usize].scalar;
        let helper = self.functions.atomic(bins.op, scalar, scalar);
        let start = self.constant(scalar, identity(bins.op, scalar));
        let name = self.array_name(bins.array);
        self.push("if (kp_private) {");
        self.push("  __syncthreads();");
        self.push("  for (u32 at = kp_thread; at < (u32)kp_bin_count; at += kp_threads) {");
        self.push(&format!("    if (kp_bins[at] != {start}) {helper}(&{name}[at], kp_bins[at]);"));
        self.push("  }");
        self.push("}");
    }

    /// How many numbers an array has.
    fn numbers_in(&self, id: ArrayId) -> String {
        let array = &self.kernel.arrays[id as usize];
        let all = array.ndim + array.lane_dims;
        let mut factors: Vec<String> = (0..all).map(|at| self.size(id, at)).collect();
        if array.lane_dims == 0 && array.lanes > 1 {
            factors.push(array.lanes.to_string());
        }
        if factors.is_empty() { "1".to_owned() } else { factors.join(" * ") }
    }
}

fn array_of(target: &AtomicTarget) -> Option<ArrayId> {
    match target {
        AtomicTarget::Place(place) => Some(place.array),
        AtomicTarget::Local(_) | AtomicTarget::Lane(..) => None,
    }
}

/// Whether data say where a place is: more than the numbers of iterations.
fn is_scattered(place: &Place, loop_stmt: &Parallel) -> bool {
    place.index.iter().any(|index| {
        index.any(&mut |expr| match expr {
            Expr::Local(id) => !loop_stmt.variables.contains(id),
            Expr::Load(_) | Expr::Lane(..) => true,
            _ => false,
        })
    })
}

/// The sizes that bins need beside those that the program mentions.
pub(crate) fn sizes(kernel: &Kernel) -> Vec<(ArrayId, u8)> {
    let mut all = Vec::new();
    kernel.body.each(&mut |statement| {
        let Kind::Parallel(loop_stmt) = &statement.kind else { return };
        let Some(bins) = Bins::of(kernel, loop_stmt) else { return };
        for id in bins.arrays() {
            let array = &kernel.arrays[id as usize];
            if array.origin == Origin::Argument {
                all.extend((0..array.ndim + array.lane_dims).map(|at| (id, at)));
            }
        }
    });
    all
}

#[cfg(test)]
mod tests {
    use keyprint_lang::ir::{parse, verify};

    fn text(atomic: &str, more: &str) -> String {
        let kernel = parse(&format!(
            r#"(kernel "f" (array "x" i32 1 1 0 0 c argument) (array "h" i32 1 1 0 0 c argument)
               (array "y" f32 1 1 0 0 c argument) (array "z" i32 1 1 0 0 strided argument) (local "i" i32 0)
               (local "" i32 0) (results) (body (@1 parallel ((0 (i32 0) (cast i32 (size 0 0)))) _ ()
               (do (@2 atomic {atomic}) {more}))))"#
        ))
        .unwrap();
        verify(&kernel).unwrap();
        crate::cuda::generate_cuda(&kernel).text
    }

    #[test]
    fn places_that_data_say_have_bins() {
        let at = "(at 1 _ (cast i64 (load (at 0 _ (cast i64 %0)))))";
        let has = |atomic: &str, more: &str| text(atomic, more).contains("kp_bins[kp_to]");
        assert!(has(&format!("add {at} (i32 1) _"), ""));
        assert!(has(&format!("min {at} %0 _"), "(@3 store (at 2 _ (cast i64 %0)) (f32 0x0))"));
        // Each iteration has a place of its own.
        assert!(!has("add (at 1 _ (cast i64 %0)) (i32 1) _", ""));
        // What was there is asked for, or read, or changed otherwise, and what devices cannot do.
        assert!(!has(&format!("add {at} (i32 1) 1"), ""));
        assert!(!has(&format!("add {at} (i32 1) _"), "(@3 store (at 0 _ (i64 0)) (load (at 1 _ (i64 0))))"));
        assert!(!has(&format!("add {at} (i32 1) _"), &format!("(@3 atomic max {at} (i32 1) _)")));
        assert!(!has(&format!("mul {at} (i32 2) _"), ""));
        assert!(!has("add (at 2 _ (cast i64 (load (at 0 _ (cast i64 %0))))) (f32 0x0) _", ""));
        // Where the elements of another array are is not known.
        assert!(!has(&format!("add {at} (i32 1) _"), "(@3 store (at 3 _ (i64 0)) (i32 1))"));
    }
}
