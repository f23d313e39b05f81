//! What the runtime and the generated code know of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use keyprint_lang::ir::{Array, ArrayId, Expr, Kernel, Kind, Layout, Origin, Place};
use keyprint_lang::types::Scalar;

use crate::c_functions::{CFunctions, Dialect};
use crate::statement::Writer;

/// Raised whenever generated code and runtime would not understand each other any more.
pub const ABI_VERSION: u32 = 4;

/// What a kernel is called with, in order; its results follow. A kernel with checkpoints has no results, but a
/// slot in their place: the checkpoint that it begins at, and then the one that it ended at. 0 is none, and the
/// first one is 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// The address of the first element of an array.
    Address(String),
    /// A size of one.
    Size(String, u8),
    /// A stride of one, in bytes.
    Stride(String, u8),
    /// A number.
    Number(String, Scalar),
}

impl Slot {
    /// As dispatchers write it: `x`, `x.shape[0]`, `n:f32`.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Address(name) => name.clone(),
            Self::Size(name, at) => format!("{name}.shape[{at}]"),
            Self::Stride(name, at) => format!("{name}.strides[{at}]"),
            Self::Number(name, scalar) => format!("{name}:{scalar}"),
        }
    }
}

/// What a kernel returns besides its results; in the low byte, with the number of an array above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// All is well.
    Done = 0,
    /// A check failed; the runtime knows which.
    Failed = 1,
    /// An array is longer than indices can count.
    TooLong = 2,
    /// Arrays overlap that must not.
    Overlap = 3,
    /// The last dimensions of an array are not those of its elements.
    Element = 4,
    /// The runtime was asked to stop.
    Stopped = 5,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Done, Self::Failed, Self::TooLong, Self::Overlap, Self::Element, Self::Stopped];

    /// What a kernel returned: the status, and the number of the array that it is about.
    #[must_use]
    pub fn of_returned(returned: i32) -> Option<(Self, u32)> {
        let bits = returned.cast_unsigned();
        let status = Self::ALL.into_iter().find(|status| *status as u32 == bits & 0xff)?;
        Some((status, bits >> 8))
    }

    /// What a kernel returns for an array.
    #[must_use]
    pub fn of_array(self, array: u32) -> u32 {
        self as u32 | array << 8
    }

    /// What programs know it as.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::TooLong => "too-long",
            Self::Overlap => "overlap",
            Self::Element => "element-shape",
            Self::Stopped => "stopped",
        }
    }
}

/// A kernel as C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The text.
    pub text: String,
    /// What it is called with.
    pub slots: Vec<Slot>,
    /// The types of its results.
    pub results: Vec<Scalar>,
}

/// Where things are among the slots.
pub(crate) struct Slots {
    pub(crate) list: Vec<Slot>,
    addresses: BTreeMap<ArrayId, usize>,
    sizes: BTreeMap<(ArrayId, u8), usize>,
    strides: BTreeMap<(ArrayId, u8), usize>,
    numbers: BTreeMap<u32, usize>,
}

impl Slots {
    pub(crate) fn of(kernel: &Kernel) -> Self {
        Self::with_sizes(kernel, Vec::new())
    }

    /// The same with more sizes than the program mentions.
    pub(crate) fn with_sizes(kernel: &Kernel, sizes: Vec<(ArrayId, u8)>) -> Self {
        let mut used = Used::default();
        used.block(kernel);
        used.sizes.extend(sizes);
        for (first, second) in &kernel.noalias {
            for id in [first, second] {
                used.arrays.insert(*id);
                let array = &kernel.arrays[*id as usize];
                used.sizes.extend((0..array.ndim + array.lane_dims).map(|at| (*id, at)));
            }
        }
        let mut slots = Self {
            list: Vec::new(),
            addresses: BTreeMap::new(),
            sizes: BTreeMap::new(),
            strides: BTreeMap::new(),
            numbers: BTreeMap::new(),
        };
        for id in &used.arrays {
            let array = &kernel.arrays[*id as usize];
            if array.origin != Origin::Argument {
                continue;
            }
            slots.addresses.insert(*id, slots.list.len());
            slots.list.push(Slot::Address(array.name.clone()));
            let all = array.ndim + array.lane_dims;
            for at in 0..all {
                if used.sizes.contains(&(*id, at)) || at >= array.ndim {
                    slots.sizes.insert((*id, at), slots.list.len());
                    slots.list.push(Slot::Size(array.name.clone(), at));
                }
            }
            if array.layout == Layout::Strided {
                for at in 0..all {
                    slots.strides.insert((*id, at), slots.list.len());
                    slots.list.push(Slot::Stride(array.name.clone(), at));
                }
            }
        }
        for id in &used.numbers {
            let number = &kernel.numbers[*id as usize];
            slots.numbers.insert(*id, slots.list.len());
            slots.list.push(Slot::Number(number.name.clone(), number.scalar));
        }
        slots
    }

    pub(crate) fn address(&self, id: ArrayId) -> Option<usize> {
        self.addresses.get(&id).copied()
    }

    pub(crate) fn sizes(&self, id: ArrayId) -> impl Iterator<Item = (u8, usize)> + '_ {
        self.sizes.range((id, 0)..=(id, u8::MAX)).map(|((_, at), place)| (*at, *place))
    }

    pub(crate) fn strides(&self, id: ArrayId) -> impl Iterator<Item = (u8, usize)> + '_ {
        self.strides.range((id, 0)..=(id, u8::MAX)).map(|((_, at), place)| (*at, *place))
    }

    pub(crate) fn has_number(&self, id: u32) -> bool {
        self.numbers.contains_key(&id)
    }

    pub(crate) fn number(&self, id: u32) -> usize {
        self.numbers[&id]
    }
}

/// Which arrays, sizes and numbers are used.
#[derive(Default)]
struct Used {
    arrays: BTreeSet<ArrayId>,
    sizes: BTreeSet<(ArrayId, u8)>,
    numbers: BTreeSet<u32>,
}

impl Used {
    fn block(&mut self, kernel: &Kernel) {
        kernel.body.each(&mut |statement| {
            let place = match &statement.kind {
                Kind::Store(place, _) => Some(place),
                Kind::Atomic(atomic) => match &atomic.target {
                    keyprint_lang::ir::AtomicTarget::Place(place) => Some(place),
                    _ => None,
                },
                Kind::DoWhile(do_while) => {
                    self.arrays.insert(do_while.counter);
                    None
                }
                Kind::Checkpoint(checkpoint) => {
                    self.arrays.extend(checkpoint.flag);
                    None
                }
                Kind::Parallel(loop_stmt) => {
                    for reduction in &loop_stmt.reductions {
                        if let keyprint_lang::ir::AtomicTarget::Place(place) = &reduction.target {
                            self.place(kernel, place);
                        }
                    }
                    None
                }
                _ => None,
            };
            if let Some(place) = place {
                self.place(kernel, place);
            }
        });
        kernel.body.each_expr(&mut |expr| {
            expr.any(&mut |inner| {
                match inner {
                    Expr::Load(place) => self.place(kernel, place),
                    Expr::Size(id, at) => {
                        self.arrays.insert(*id);
                        self.sizes.insert((*id, *at));
                    }
                    Expr::Number(id) => drop(self.numbers.insert(*id)),
                    _ => {}
                }
                false
            });
        });
    }

    fn place(&mut self, kernel: &Kernel, place: &Place) {
        self.arrays.insert(place.array);
        let array: &Array = &kernel.arrays[place.array as usize];
        if array.layout == Layout::C {
            // All but the first tell where an element is.
            self.sizes.extend((1..array.ndim).map(|at| (place.array, at)));
        }
    }
}

/// Writes a kernel as C.
#[must_use]
pub fn generate(kernel: &Kernel) -> Code {
    let slots = Slots::of(kernel);
    let mut functions = CFunctions::new(Dialect::C);
    let mut writer = Writer::new(kernel, &slots, &mut functions);
    writer.entry();
    let body = writer.finish();
    let mut text = String::new();
    let _ = writeln!(text, "/* {} */", kernel.name.replace("*/", "* /"));
    text.push_str(PRELUDE);
    text.push_str(&functions.text());
    text.push_str(&body);
    Code { text, slots: slots.list, results: kernel.results.clone() }
}

const PRELUDE: &str = r#"
typedef __INT8_TYPE__ i8;
typedef __INT16_TYPE__ i16;
typedef __INT32_TYPE__ i32;
typedef __INT64_TYPE__ i64;
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef float f32;
typedef double f64;

#if defined(__clang__)
#define KP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define KP_INDEPENDENT _Pragma("GCC ivdep")
#endif

struct kp_failure { i32 is_set; u32 site; u32 count; char kinds[16]; u64 values[16]; };
struct kp_pace { u64 turns; u64 next; u64 step; u64 begun; u64 looked; };
struct kp_part { const char *text; u64 length; u64 bits; u64 kind; };

/* What the runtime offers. */
struct kp_runtime {
  void (*run)(void (*task)(void *, i64, i64), void *context, i64 count, i64 grain, i32 *stop);
  void (*fail)(struct kp_failure *, u32 site, u32 count, const char *kinds, const u64 *values);
  void (*report)(const struct kp_failure *);
  void (*print)(const struct kp_part *, u64 count);
  u64 (*launch)(void);
  void *(*unlock)(void);
  void (*lock)(void *);
  void (*sections)(void (*sections)(void *, i64, i64), void *context, i64 count, i64 *state);
  i32 (*poll)(void **token, struct kp_pace *);
  i32 (*tick)(i32 *stop);
};

static const struct kp_runtime *kp;

__attribute__((visibility("default"))) void kp_bind(const struct kp_runtime *runtime) { kp = runtime; }
"#;
