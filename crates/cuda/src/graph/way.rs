//! In which way a graph is launched: chosen from how much there is to do, by what each way costs on the device.

use keyprint_codegen::cuda::{LaunchPlan, PiecePlan};

/// A way to launch a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One kernel for all tasks, of one block of threads.
    Block,
    /// One kernel for all tasks, of as many blocks as run at a time.
    Grid,
    /// A CUDA graph, with a node for each task.
    Nodes,
    /// A launch for each task, and loops on the host.
    Host,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Block, Self::Grid, Self::Nodes, Self::Host];

    /// What programs call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Grid => "grid",
            Self::Nodes => "nodes",
            Self::Host => "host",
        }
    }

    fn is_fused(self) -> bool {
        matches!(self, Self::Block | Self::Grid)
    }
}

/// What a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// One kernel, of one block or of several.
    Fused,
    /// This way and no other.
    Only(Way),
}

impl Asked {
    /// What a name asks for.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "fused" => Some(Self::Fused),
            _ => Way::ALL.into_iter().find(|way| way.name() == name).map(Self::Only),
        }
    }

    fn allows(self, way: Way) -> bool {
        match self {
            Self::Fused => way.is_fused(),
            Self::Only(only) => way == only,
        }
    }
}

/// What a way costs, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// A launch of nothing.
    pub launch: f64,
    /// A task of nothing.
    pub task: f64,
    /// What takes a thread of a CPU a nanosecond, spread over all threads.
    pub work: f64,
}

impl Cost {
    fn of(&self, load: &Load) -> f64 {
        self.launch + self.task * load.tasks + self.work * load.work
    }
}

/// What each way costs on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs(pub [Cost; 4]);

impl Default for Costs {
    /// What was measured on an H200: better than nothing, where nobody has measured.
    fn default() -> Self {
        Self([
            Cost { launch: 9000.0, task: 110.0, work: 0.032 },
            Cost { launch: 11_000.0, task: 1400.0, work: 0.0002 },
            Cost { launch: 11_000.0, task: 2100.0, work: 0.0002 },
            Cost { launch: 11_000.0, task: 6000.0, work: 0.0002 },
        ])
    }
}

/// How often a loop inside of another is taken to run, and how deep that counts.
const TURNS: f64 = 16.0;
const DEEPEST: i32 = 4;

/// How many iterations a task is taken to have, if the host cannot tell.
const USUAL: i64 = 16_384;

/// How much a launch has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// Tasks, those in loops as often as they are taken to run.
    tasks: f64,
    /// Nanoseconds of a thread of a CPU.
    work: f64,
    /// The most iterations that a task has.
    pub(crate) largest: u64,
    /// Whether all is known.
    pub(crate) is_known: bool,
}

/// How often tasks run, by their place.
pub(crate) fn weights(plan: &LaunchPlan, pieces: &[PiecePlan]) -> Vec<f64> {
    let mut weights = vec![1.0; plan.tasks.len()];
    weigh(pieces, 0, &mut weights);
    weights
}

fn weigh(pieces: &[PiecePlan], depth: i32, weights: &mut [f64]) {
    for piece in pieces {
        match piece {
            PiecePlan::Task(at) => weights[*at] = TURNS.powi(depth.min(DEEPEST)),
            PiecePlan::Loop { body, .. } => weigh(body, depth + 1, weights),
            PiecePlan::Sections(sections) => {
                sections.iter().for_each(|section| weigh(section, depth, weights));
            }
        }
    }
}

impl Load {
    pub(crate) fn of(plan: &LaunchPlan, weights: &[f64], slots: &[u64]) -> Self {
        let mut load = Self { is_known: true, ..Self::default() };
        for (task, weight) in plan.tasks.iter().zip(weights) {
            load.tasks += weight;
            if task.counts.is_empty() {
                continue;
            }
            let mut iterations = Some(1i64);
            for count in &task.counts {
                iterations =
                    iterations.zip(count.of(slots)).map(|(all, count)| all.saturating_mul(count.max(0)));
            }
            load.is_known &= iterations.is_some();
            let iterations = iterations.unwrap_or(USUAL).max(0);
            load.work += weight * iterations as f64 * task.cost as f64;
            load.largest = load.largest.max(iterations as u64);
        }
        load
    }
}

/// Which ways there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    /// Blocks of one kernel can wait for each other.
    pub(crate) grid: bool,
    /// The driver has all that the graph is made of.
    pub(crate) nodes: bool,
    /// The stream records what is put on it.
    pub(crate) is_captured: bool,
}

impl Open {
    fn has(self, way: Way) -> bool {
        match way {
            Way::Block => true,
            Way::Grid => self.grid,
            Way::Nodes => self.nodes && !self.is_captured,
            Way::Host => !self.is_captured,
        }
    }
}

/// What was chosen for a launch, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The way.
    pub way: Way,
    /// Blocks and threads of a block of the kernel, if it is one for all.
    pub grid: (u32, u32),
    /// Why it is this one.
    pub why: Why,
    /// What each way is expected to take, in nanoseconds, where there is such a way.
    pub expected: [Option<f64>; 4],
}

/// Why a way was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is expected to take the least time.
    Expected,
    /// Somebody said so.
    Asked,
    /// Somebody said otherwise, but the stream records what is put on it.
    Captured,
    /// Somebody said otherwise, but the driver has no graphs, or none with loops.
    OldDriver,
    /// Somebody said otherwise, but blocks of threads cannot wait for each other.
    NoCooperation,
}

impl Why {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Expected => "expected to take the least time",
            Self::Asked => "asked for",
            Self::Captured => "the stream is being captured, which takes a graph as one kernel only",
            Self::OldDriver => "the driver has no graphs of this kind: loops need one of CUDA 12.4 or later",
            Self::NoCooperation => "the device cannot have blocks of threads wait for each other",
        }
    }
}

/// Chooses a way; the grid is left to whoever knows the kernel.
pub(crate) fn choose(costs: &Costs, load: &Load, open: Open, asked: Option<Asked>) -> Choice {
    let expected = |way: Way| open.has(way).then(|| costs.0[way as usize].of(load));
    let quickest = |allowed: &dyn Fn(Way) -> bool| {
        let ways = Way::ALL.into_iter().filter(|way| allowed(*way));
        let timed = ways.filter_map(|way| expected(way).map(|time| (way, time)));
        timed.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(way, _)| way)
    };
    // Loops on the host are for drivers that know no others.
    let usual = |way: Way| way != Way::Host || !open.nodes;
    let (way, why) = match asked {
        None => (quickest(&usual), Why::Expected),
        Some(asked) => match quickest(&|way| asked.allows(way)) {
            Some(way) => (Some(way), Why::Asked),
            None if open.is_captured => (quickest(&|way: Way| way.is_fused()), Why::Captured),
            None if asked == Asked::Only(Way::Grid) => (Some(Way::Block), Why::NoCooperation),
            None => (Some(Way::Host), Why::OldDriver),
        },
    };
    Choice { way: way.unwrap_or(Way::Block), grid: (0, 0), why, expected: Way::ALL.map(expected) }
}

#[cfg(test)]
mod tests {
    use keyprint_codegen::cuda::{Count, Step, TaskPlan};

    use super::*;

    fn load(count: i64) -> Load {
        let task = |counts: Vec<Count>| TaskPlan {
            name: String::new(),
            counts,
            is_covered: true,
            goes_on: false,
            cost: 2,
        };
        let count = Count(vec![Step::Number(count)]);
        let plan = LaunchPlan {
            tasks: vec![task(vec![count.clone()]), task(vec![count]), task(vec![])],
            ..LaunchPlan::default()
        };
        let pieces = [PiecePlan::Loop {
            counter: 0,
            labels: (0, 0),
            body: vec![
                PiecePlan::Task(0),
                PiecePlan::Sections(vec![vec![PiecePlan::Task(1)]]),
                PiecePlan::Task(2),
            ],
        }];
        let weights = weights(&plan, &pieces);
        assert_eq!(weights, [TURNS; 3]);
        Load::of(&plan, &weights, &[])
    }

    const ALL: Open = Open { grid: true, nodes: true, is_captured: false };

    fn chosen(count: i64, open: Open, asked: Option<Asked>) -> (Way, Why) {
        let choice = choose(&Costs::default(), &load(count), open, asked);
        (choice.way, choice.why)
    }

    #[test]
    fn small_graphs_are_one_block_and_large_ones_are_not() {
        for count in [0, 16, 1024, 4096] {
            assert_eq!(chosen(count, ALL, None), (Way::Block, Why::Expected));
        }
        assert_eq!(chosen(1 << 20, ALL, None), (Way::Grid, Why::Expected));
        assert_eq!(chosen(1 << 20, Open { grid: false, ..ALL }, None).0, Way::Nodes);
        let old = Open { grid: false, nodes: false, ..ALL };
        assert_eq!(chosen(1 << 20, old, None).0, Way::Host);
        assert_eq!(chosen(16, old, None).0, Way::Block);
        assert_eq!(load(5).largest, 5);
        assert!(load(5).is_known);
    }

    #[test]
    fn what_is_asked_for_is_done_where_it_can_be() {
        for way in Way::ALL {
            assert_eq!(Asked::of_name(way.name()), Some(Asked::Only(way)));
            assert_eq!(chosen(16, ALL, Some(Asked::Only(way))), (way, Why::Asked));
        }
        assert_eq!(chosen(1 << 20, ALL, Asked::of_name("fused")), (Way::Grid, Why::Asked));
        assert_eq!(Asked::of_name("else"), None);
        let old = Open { nodes: false, ..ALL };
        assert_eq!(chosen(16, old, Some(Asked::Only(Way::Nodes))), (Way::Host, Why::OldDriver));
        let captured = Open { is_captured: true, ..ALL };
        for way in [Way::Nodes, Way::Host] {
            assert_eq!(chosen(16, captured, Some(Asked::Only(way))), (Way::Block, Why::Captured));
        }
        assert_eq!(chosen(1 << 30, captured, None), (Way::Grid, Why::Expected));
        let alone = Open { grid: false, ..ALL };
        assert_eq!(chosen(16, alone, Some(Asked::Only(Way::Grid))), (Way::Block, Why::NoCooperation));
    }
}
