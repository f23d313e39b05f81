//! Graphs on a device, in two forms of one text: each task as a kernel of its own, to be a node of a CUDA graph; and all
//! of them as one kernel, whose threads meet between tasks, for tasks that are so small that a launch of each would take
//! longer than the task.
//!
//! Tasks that are nodes find slots and variables in a block of memory of the device, `kp_control`, which `kp_store` fills
//! from what it is given by value: whatever the arguments are, the nodes stay the same. What decides about loops is not
//! part of the text of a kernel: it is the same for all ([`CONDITIONS`]), and drivers that know no loops never see it.

use std::fmt::Write;

use keyprint_lang::ir::ArrayId;

use super::plan::{GraphPlan, LaunchPlan, PiecePlan};
use super::split::{Piece, Split, Work};
use crate::statement::Writer;

/// What threads have done since they met.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    Nothing,
    /// The first of them did something.
    ByOne,
    ByAll,
}

impl Writer<'_> {
    /// Writes what makes a graph of tasks that are written: what fills the block, and the kernel for all of them.
    pub(crate) fn device_graph(&mut self, split: &Split<'_>, plan: &LaunchPlan) -> GraphPlan {
        self.store(plan);
        let graph = GraphPlan {
            pieces: self.pieces(&split.pieces),
            control: CONTROL + plan.slots_of_tasks() * 8 + plan.frame,
            has_loops: split.has_loops,
            is_shared: is_shared(split, plan),
        };
        self.fused(split, plan);
        graph
    }

    fn pieces(&self, pieces: &[Piece]) -> Vec<PiecePlan> {
        let plan = |piece: &Piece| match piece {
            Piece::Task(at) => PiecePlan::Task(*at),
            Piece::Loop { counter, labels, body } => PiecePlan::Loop {
                counter: self.slot_of(*counter),
                labels: numbers(*labels),
                body: self.pieces(body),
            },
            Piece::Sections(sections) => {
                PiecePlan::Sections(sections.iter().map(|section| self.pieces(section)).collect())
            }
        };
        pieces.iter().map(plan).collect()
    }

    /// The slot of an array that decides something: it is always an argument.
    fn slot_of(&self, array: ArrayId) -> usize {
        self.slots.address(array).expect("a graph depends on arguments")
    }

    fn store(&mut self, plan: &LaunchPlan) {
        self.push("extern \"C\" __global__ void __launch_bounds__(256) kp_store(const kp_slots kp_s, kp_control *const kp_g) {");
        self.level += 1;
        self.push(&format!(
            "for (u32 i = threadIdx.x; i < {}; i += blockDim.x) kp_g->w[i] = kp_s.w[i];",
            plan.slots_of_tasks()
        ));
        self.reset(plan, "kp_s.w");
        self.level -= 1;
        self.push("}\n");
    }

    /// Sets the block to what a launch begins with.
    fn reset(&mut self, plan: &LaunchPlan, slots: &str) {
        if plan.frame > 0 {
            self.push(&format!(
                "for (u32 i = threadIdx.x; i < {}; i += blockDim.x) ((u32 *)&kp_g->frame)[i] = 0;",
                plan.frame / 4
            ));
        }
        self.push("if (threadIdx.x == 0) {");
        self.level += 1;
        let (from, number, stop) = (plan.from_slot(), plan.number_slot(), plan.stop_slot());
        self.push(&format!(
            "kp_g->from = (u32){slots}[{from}]; kp_g->skip = {slots}[{from}] != 0; kp_g->ended = 0;"
        ));
        self.push(&format!(
            "kp_g->looked = 0; kp_g->number = {slots}[{number}]; kp_g->stop = (volatile u64 *){slots}[{stop}];"
        ));
        self.level -= 1;
        self.push("}");
    }

    /// The kernel for all tasks.
    fn fused(&mut self, split: &Split<'_>, plan: &LaunchPlan) {
        let threads = GraphPlan::FUSED_THREADS;
        self.push(&format!(
            "extern \"C\" __global__ void __launch_bounds__({threads}) kp_fused(const kp_slots kp_s) {{"
        ));
        self.level += 1;
        self.push("const u64 *const w = kp_s.w;");
        self.push(&format!("kp_control *const kp_g = (kp_control *)w[{}];", plan.frame_slot()));
        self.push("const bool kp_leads = blockIdx.x == 0 && threadIdx.x == 0;");
        self.push("u32 kp_met = 0;");
        // Or they would be computed anew in each task.
        self.push("const u32 kp_first = (u32)kp_opaque((i32)(blockIdx.x * blockDim.x + threadIdx.x));");
        self.push("const u32 kp_step = (u32)kp_opaque((i32)(gridDim.x * blockDim.x));");
        if split.has_loops {
            self.push("kp_patience kp_p = {clock64(), clock64(), 1};");
            self.push("i32 kp_said = 0, kp_off = 0;");
        }
        if is_shared(split, plan) {
            self.push("if (blockIdx.x == 0) {");
            self.level += 1;
            self.reset(plan, "w");
            self.level -= 1;
            self.push("}");
            self.meet();
        }
        self.run(&split.pieces, split, plan, Done::Nothing);
        self.level -= 1;
        self.push("}\n");
    }

    /// All threads wait for each other.
    fn meet(&mut self) {
        self.push("kp_meet(&kp_g->meeting, kp_met);");
    }

    /// Runs pieces one after the other; returns what was done since threads met.
    fn run(&mut self, pieces: &[Piece], split: &Split<'_>, plan: &LaunchPlan, mut done: Done) -> Done {
        for piece in pieces {
            match piece {
                Piece::Task(at) => {
                    let is_grid = matches!(split.tasks[*at].work, Work::Grid(..));
                    // One thread goes on with what it did itself.
                    if done == Done::ByAll || is_grid && done == Done::ByOne {
                        self.meet();
                    }
                    let who = if is_grid { "" } else { "if (kp_leads) " };
                    self.push(&format!("{who}kp_part{at}(w, kp_g, kp_first, kp_step);"));
                    done = if is_grid { Done::ByAll } else { Done::ByOne };
                }
                Piece::Loop { counter, labels, body } => {
                    done = self.repeat(self.slot_of(*counter), numbers(*labels), body, split, plan, done);
                }
                Piece::Sections(sections) => {
                    if done != Done::Nothing {
                        self.meet();
                    }
                    // They have nothing to do with each other: nobody waits between them.
                    done = sections
                        .iter()
                        .map(|section| self.run(section, split, plan, Done::Nothing))
                        .max()
                        .unwrap_or(Done::Nothing);
                }
            }
        }
        done
    }

    fn repeat(
        &mut self,
        counter: usize,
        labels: Labels,
        body: &[Piece],
        split: &Split<'_>,
        plan: &LaunchPlan,
        done: Done,
    ) -> Done {
        let can_end = split.can_end(plan);
        if done == Done::ByAll {
            self.meet();
        }
        if split.has_labels || can_end {
            let (first, count) = labels;
            self.push(&format!(
                "if (kp_ask(&kp_g->meeting, kp_met, kp_leads && kp_enters(kp_g, {first}, {count}), kp_off)) do {{"
            ));
        } else {
            if done == Done::ByOne {
                self.meet();
            }
            self.push("do {");
        }
        self.level += 1;
        let inside = self.run(body, split, plan, Done::Nothing);
        if inside == Done::ByAll {
            self.meet();
        }
        let is_over = if can_end { "kp_g->ended" } else { "0" };
        let (number, stop) = (plan.number_slot(), plan.stop_slot());
        self.push(&format!("kp_said = kp_leads ? kp_goes_on(w, {counter}, {is_over}) : 0;"));
        self.push(&format!(
            "if (--kp_p.left == 0) kp_said = kp_look(w, {number}, {stop}, kp_leads, kp_said, kp_p);"
        ));
        self.level -= 1;
        self.push("} while (kp_ask(&kp_g->meeting, kp_met, kp_said, kp_off));");
        // Somebody called it off.
        self.push("if (__syncthreads_or(kp_off)) return;");
        Done::Nothing
    }
}

/// Whether tasks look at the block even if one kernel does them all.
fn is_shared(split: &Split<'_>, plan: &LaunchPlan) -> bool {
    plan.frame > 0 || split.has_labels || split.can_end(plan)
}

/// The number of the first label inside of something, and how many there are.
type Labels = (u32, u32);

fn numbers(labels: Option<(u32, u32)>) -> Labels {
    labels.map_or((0, 0), |(first, last)| (first + 1, last - first + 1))
}

/// How many bytes of the block come before the slots.
pub(crate) const CONTROL: usize = 64;

/// The struct that a graph has in the memory of the device.
pub(crate) fn control(plan: &LaunchPlan) -> String {
    let mut text = String::from(HEAD);
    let frame = if plan.frame > 0 { " kp_frame frame;" } else { "" };
    let slots = plan.slots_of_tasks();
    let _ = writeln!(
        text,
        "struct kp_control {{ u32 from, skip, ended, unused; u64 looked, number; volatile u64 *stop; kp_meeting meeting; u64 reserved; u64 w[{slots}];{frame} }};"
    );
    text.push_str(GRAPH);
    text
}

/// In how many places devices say which launches they ended because they were called off, behind the number up to which
/// they were.
pub const CALLED_OFF: usize = 1024;

const HEAD: &str = r"
struct kp_meeting { u32 arrived, unused; i32 said[2]; };
";

/// How threads of several blocks meet: each block adds one, the first of them what is missing to turn the highest bit
/// over; so that the next time needs no reset. What the first thread says is told to all: 1 if a loop goes on, 2 if it
/// was called off. Two places take turns: whoever is late reads the one while the other is written. Whether a launch was
/// called off is looked at every some milliseconds, and the clock every 16 turns, if those do not take long: by all threads
/// of a block, since a branch that one thread takes makes others wait.
const GRAPH: &str = r#"
#ifndef KP_SPIN
#define KP_SPIN
#endif
static __device__ __noinline__ i32 kp_meet_blocks(kp_meeting *m, u32 at, i32 value) {
  __syncthreads();
  if (threadIdx.x != 0) return 0;
  if (blockIdx.x == 0) *(volatile i32 *)&m->said[at] = value;
  __threadfence();
  const u32 before = atomicAdd(&m->arrived, blockIdx.x == 0 ? 0x80000000U - (gridDim.x - 1) : 1U);
  while (((before ^ *(volatile u32 *)&m->arrived) & 0x80000000U) == 0) { KP_SPIN; }
  __threadfence();
  return *(volatile i32 *)&m->said[at];
}
static __device__ __forceinline__ i32 kp_ask(kp_meeting *m, u32 &met, i32 value, i32 &off) {
  if (gridDim.x > 1) value = kp_meet_blocks(m, met++ & 1, value);
  if (value == 2) off = 1;
  return __syncthreads_or(value == 1);
}
static __device__ __forceinline__ void kp_meet(kp_meeting *m, u32 &met) {
  if (gridDim.x > 1) kp_meet_blocks(m, met++ & 1, 0);
  __syncthreads();
}
static __device__ __forceinline__ i32 kp_enters(const kp_control *c, u32 first, u32 count) {
  return !c->ended && (!c->skip || c->from - first < count);
}
static __device__ __forceinline__ i32 kp_goes_on(const u64 *w, u32 slot, i32 is_over) {
  return !is_over && *(const i32 *)w[slot] != 0;
}
static __device__ __forceinline__ bool kp_called_off(volatile u64 *stop, u64 number) {
  if (stop[0] < number) return false;
  stop[1 + number % 1024] = number;
  __threadfence_system();
  return true;
}
struct kp_patience { i64 looked, last; u32 left; };
static __device__ __forceinline__ i32 kp_look(const u64 *w, u32 number, u32 stop, bool leads, i32 value, kp_patience &p) {
  const i64 now = clock64();
  p.left = __syncthreads_or(leads && now - p.last > 1LL << 22) ? 1 : 16;
  p.last = now;
  if (value == 0 || now - p.looked < 1LL << 25) return value;
  p.looked = now;
  return kp_called_off((volatile u64 *)w[stop], w[number]) ? 2 : 1;
}
extern "C" __global__ void __launch_bounds__(1) kp_ask_again(kp_control *const c, u32 slot, volatile u32 *said) {
  *said = *(const i32 *)c->w[slot] != 0 && !c->ended;
}
extern "C" __global__ void __launch_bounds__(1) kp_ask_enter(kp_control *const c, u32 first, u32 count, volatile u32 *said) {
  *said = kp_enters(c, first, count);
}
"#;

/// What decides about loops of CUDA graphs, as CUDA C++: the same for all kernels. Older drivers do not know the
/// function that it calls, so it is code of its own. Somebody may have called a launch off: that is looked at every some
/// milliseconds.
pub const CONDITIONS: &str = r#"
typedef int i32;
typedef unsigned int u32;
typedef unsigned long long u64;
struct kp_control { u32 from, skip, ended, unused; u64 looked, number; volatile u64 *stop; u64 meeting[2]; u64 reserved; u64 w[1]; };
#ifdef __CUDACC_RTC__
extern "C" __device__ void cudaGraphSetConditional(u64 handle, u32 value);
static __device__ __forceinline__ u64 kp_now() { u64 now; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); return now; }
#else
static __device__ __forceinline__ u64 kp_now() { return (u64)clock64(); }
#endif
extern "C" __global__ void __launch_bounds__(1) kp_enter(kp_control *const c, u64 handle, u32 first, u32 count) {
  cudaGraphSetConditional(handle, !c->ended && (!c->skip || c->from - first < count));
}
extern "C" __global__ void __launch_bounds__(1) kp_again(kp_control *const c, u64 handle, u32 slot) {
  u32 goes_on = *(const i32 *)c->w[slot] != 0 && !c->ended;
  const u64 now = kp_now();
  if (goes_on && now - c->looked > 20000000) {
    c->looked = now;
    if (c->stop[0] >= c->number) {
      c->stop[1 + c->number % 1024] = c->number;
      __threadfence_system();
      c->ended = 1;
      goes_on = 0;
    }
  }
  cudaGraphSetConditional(handle, goes_on);
}
"#;

#[cfg(test)]
mod tests {
    use keyprint_lang::ir;

    /// The kernel of a graph of one block, with loops whose variable has a type.
    fn fused(scalar: &str) -> String {
        let text = format!(
            r#"(kernel "k"
              (number "n" {scalar})
              (array "x" f32 1 1 0 0 c argument)
              (local "i" {scalar} 0)
              (results )
              (graph)
              (body
                (@1 parallel ((0 ({scalar} 0) (number 0))) _ ()
                  (do (@2 store (at 0 _ (cast i64 %0)) (f32 0x3f800000))))
                (@3 store (at 0 _ (i64 0)) (f32 0x40000000))))"#
        );
        let kernel = ir::parse(&text).unwrap();
        ir::verify(&kernel).unwrap();
        let text = crate::cuda::generate_cuda(&kernel).text;
        text[text.find("void kp_part0").unwrap()..].to_owned()
    }

    #[test]
    fn devices_know_how_many_places_there_are() {
        for text in [super::GRAPH, super::CONDITIONS] {
            assert!(text.contains(&format!("number % {}] = ", super::CALLED_OFF)));
        }
    }

    #[test]
    fn numbers_of_iterations_do_not_wrap_around() {
        // What comes behind the last iteration fits into 32 bits if there is room for a sign.
        assert!(fused("i32").contains("for (u32 kp_l = kp_first; kp_l < (u32)kp_count0; kp_l += kp_step)"));
        for scalar in ["u32", "i64"] {
            assert!(fused(scalar).contains("for (i64 kp_l = kp_first; kp_l < kp_all; kp_l += (i64)kp_step)"));
        }
    }
}
