//! Kernels for devices, as CUDA C++ without any header.
//!
//! Expressions and statements are those of the CPU; what differs is the task. `bounds` keeps loops from changing how
//! long they are, `split` takes a body apart into tasks, `task` writes each as a function of its own, with the `bins` of
//! blocks of threads, `graph` puts those of a graph together, `functions` has what devices do otherwise, and `plan` is
//! what the host must know to launch it all.
//!
//! A task takes all slots as one struct by value. Behind those of the call are three that the host adds: the address
//! of the frame, in which tasks hand variables on to each other; of the mail, in memory of the host, for results, for
//! what goes wrong and for what is printed; and the key of random numbers. For graphs, three more say where the launch
//! begins, and how it is called off.

mod bins;
mod bounds;
mod functions;
mod graph;
mod plan;
mod probe;
mod split;
mod task;

pub(crate) use bins::Bins;
pub use graph::{CALLED_OFF, CONDITIONS};
pub use plan::{
    Check, Count, Extent, GraphPlan, LaunchPlan, MailPlan, Op, PiecePlan, Place, PrintPart, Step, TaskPlan,
};
pub use probe::{PROBE_SLOTS, probe};

use std::fmt::Write;

use keyprint_lang::ir::{Kernel, Origin};
use keyprint_lang::types::Scalar;

use crate::abi::{Slot, Slots};
use crate::c_functions::{CFunctions, Dialect};
use crate::statement::{Role, Writer, needs_failure, needs_random};
use split::Split;
use task::Form;

/// A kernel as CUDA C++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaCode {
    /// The text.
    pub text: String,
    /// What it is called with.
    pub slots: Vec<Slot>,
    /// The types of its results.
    pub results: Vec<Scalar>,
    /// How it is launched.
    pub plan: LaunchPlan,
}

/// Writes a kernel as CUDA C++.
#[must_use]
pub fn generate_cuda(kernel: &Kernel) -> CudaCode {
    let settled = bounds::settled(kernel);
    let kernel = settled.as_ref().unwrap_or(kernel);
    let slots = Slots::with_sizes(kernel, bins::sizes(kernel));
    let split = Split::of(kernel);
    let mut functions = CFunctions::new(Dialect::Cuda);
    let mut prints = false;
    kernel.body.each(&mut |statement| prints |= matches!(statement.kind, keyprint_lang::ir::Kind::Print(_)));
    // Which checkpoint ended the launch.
    let results = kernel.results.len() + usize::from(kernel.labels.is_some());
    let mail = MailPlan { results, fails: needs_failure(&kernel.body), prints };
    let mut writer = Writer::new(kernel, &slots, &mut functions);
    writer.role = Role::Device;
    writer.mail = mail;
    writer.in_frame = split.frame.clone();
    writer.in_device_graph = split.is_graph();
    if split.has_labels {
        writer.hoisted.clone_from(&split.locals);
    }
    let mut plan = LaunchPlan {
        slots: slots.list.len(),
        mail,
        random: needs_random(&kernel.body),
        written: task::written(kernel).into_iter().filter_map(|array| slots.address(array)).collect(),
        has_fixed: kernel.arrays.iter().any(|array| array.origin != Origin::Argument),
        checks: task::checks(kernel, &slots),
        ..LaunchPlan::default()
    };
    let frame = writer.frame(&split, plan.random);
    let (frame_text, frame_bytes) = frame;
    plan.frame = frame_bytes;
    plan.graph = split.is_graph().then(GraphPlan::default);
    for number in 0..split.tasks.len() {
        let form = if split.is_graph() { Form::Node } else { Form::Kernel };
        let task = writer.device_task(&split, number, &plan, form);
        plan.tasks.push(task);
    }
    if split.is_graph() {
        // What is printed is numbered in the order of the text, which has each task twice.
        let prints = std::mem::take(&mut writer.prints);
        for number in 0..split.tasks.len() {
            writer.device_task(&split, number, &plan, Form::Part);
        }
        writer.prints = prints;
        plan.graph = Some(writer.device_graph(&split, &plan));
    }
    plan.prints = std::mem::take(&mut writer.prints);
    let body = std::mem::take(&mut writer.out);
    drop(writer);
    let mut text = String::new();
    let _ = writeln!(text, "/* {} */", kernel.name.replace("*/", "* /"));
    text.push_str(PRELUDE);
    if mail.fails {
        text.push_str(FAILURE);
    }
    if mail.prints {
        let _ = write!(text, "{}", PRINT.replace("PRINTED", &MailPlan::PRINTED.to_string()));
    }
    text.push_str(&functions.text());
    let _ = writeln!(text, "struct kp_slots {{ u64 w[{}]; }};\n", plan.all_slots());
    text.push_str(&frame_text);
    if split.is_graph() {
        text.push_str(&graph::control(&plan));
    }
    text.push_str(&body);
    CudaCode { text, slots: slots.list, results: kernel.results.clone(), plan }
}

// `kp_product` is one instruction, which NVRTC does not find by itself once it knows that a number has no sign.
const PRELUDE: &str = r#"
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
#define KP_INF_F32 __int_as_float(0x7f800000)
#define KP_INF_F64 __longlong_as_double(0x7ff0000000000000LL)
static __device__ __forceinline__ i32 kp_opaque(i32 x) { asm("" : "+r"(x)); return x; }
#ifdef __CUDACC_RTC__
static __device__ __forceinline__ i64 kp_product(i32 x, i32 y) { i64 z; asm("mul.wide.s32 %0, %1, %2;" : "=l"(z) : "r"(x), "r"(y)); return z; }
#else
static __device__ __forceinline__ i64 kp_product(i32 x, i32 y) { return (i64)x * y; }
#endif
"#;

/// Halves are for storing: what is computed is computed with more bits. A double is made narrower in two steps, of
/// which the first leaves a trace of what it drops, so that it is rounded once.
pub(crate) const HALVES: &str = r#"
extern "C" __device__ float __nv_half2float(unsigned short);
extern "C" __device__ unsigned short __nv_float2half_rn(float);
static __device__ __forceinline__ float kp_narrowed(double x) {
  const float r = __double2float_rz(x);
  return (double)r == x ? r : __uint_as_float(__float_as_uint(r) | 1);
}
struct f16 {
  u16 bits;
  f16() = default;
  __device__ __forceinline__ f16(float x) : bits(__nv_float2half_rn(x)) {}
  __device__ __forceinline__ f16(double x) : bits(__nv_float2half_rn(kp_narrowed(x))) {}
  __device__ __forceinline__ f16(int x) : bits(__nv_float2half_rn((float)x)) {}
  __device__ __forceinline__ operator float() const { return __nv_half2float(bits); }
};
"#;

const FAILURE: &str = r"
struct kp_failed { i32 is_set; u32 site; u32 count; u32 unused; char kinds[16]; u64 values[16]; };
static __device__ __noinline__ void kp_fail(kp_failed *f, u32 site, u32 count, const char *kinds, const u64 *values) {
  if (atomicCAS(&f->is_set, 0, 1) != 0) return;
  f->site = site;
  f->count = count;
  for (u32 i = 0; i < count; ++i) { f->kinds[i] = kinds[i]; f->values[i] = values[i]; }
  __threadfence_system();
}
";

const PRINT: &str = r"
static __device__ __noinline__ void kp_print(u64 *mail, u64 which, u32 count, const u64 *values) {
  u32 *head = (u32 *)mail;
  u32 at = *(volatile u32 *)head;
  if (at <= PRINTED) at = atomicAdd(head, 1 + count);
  if (at + 1 + count > PRINTED) { atomicAdd(head + 1, 1); return; }
  mail[1 + at] = which;
  for (u32 i = 0; i < count; ++i) mail[2 + at + i] = values[i];
  __threadfence_system();
}
";
