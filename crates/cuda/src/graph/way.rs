//! In which way a graph is launched: chosen from how much there is to do, by what each way costs on the device.

use keyprint_codegen::cuda::{LaunchPlan, PiecePlan};

/// A way to launch a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One kernel for all tasks.
    Fused,
    /// A CUDA graph, with a node for each.
    Nodes,
    /// A launch for each, and loops on the host.
    Host,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fused, Self::Nodes, Self::Host];

    /// What programs call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fused => "fused",
            Self::Nodes => "nodes",
            Self::Host => "host",
        }
    }

    /// The way of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }
}

/// What a way costs, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// A launch of nothing.
    pub launch: f64,
    /// A task of nothing.
    pub task: f64,
    /// A nanosecond of a thread of a CPU, of work that is spread over all threads.
    pub work: f64,
}

impl Cost {
    fn of(&self, load: &Load) -> f64 {
        self.launch + self.task * load.tasks + self.work * load.work
    }
}

/// What the ways cost on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// One kernel, of one block.
    pub block: Cost,
    /// One kernel, of as many blocks as run at a time.
    pub blocks: Cost,
    /// A CUDA graph.
    pub nodes: Cost,
}

impl Default for Costs {
    /// What was measured on an H200: better than nothing, where nobody has measured.
    fn default() -> Self {
        Self {
            block: Cost { launch: 9000.0, task: 110.0, work: 0.032 },
            blocks: Cost { launch: 11_000.0, task: 1400.0, work: 0.0002 },
            nodes: Cost { launch: 11_000.0, task: 2100.0, work: 0.0002 },
        }
    }
}

/// A loop inside of another is taken to be run this often.
const TURNS: f64 = 16.0;
const DEEPEST: i32 = 4;

/// What the work of a task is, if the host cannot tell how many iterations it has.
const USUAL: i64 = 16_384;

/// How much a launch has to do: a turn of its loops, about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// Tasks, those in loops more than once.
    tasks: f64,
    /// Nanoseconds of a CPU.
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
    /// Blocks of one kernel that can wait for each other.
    pub(crate) blocks: bool,
    pub(crate) nodes: bool,
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
    /// What ways are expected to take, in nanoseconds: one kernel of one block, of several, nodes.
    pub expected: [Option<f64>; 3],
}

/// Why a way was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is expected to take the least time.
    Expected,
    /// Somebody said so.
    Asked,
    /// The stream records what is put on it.
    Captured,
    /// It was asked for nodes, and the driver has none, or none for loops.
    OldDriver,
}

impl Why {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Expected => "expected to take the least time",
            Self::Asked => "asked for",
            Self::Captured => "the stream is being captured, and a graph cannot be part of another",
            Self::OldDriver => "the driver has no graphs of this kind: loops need one of CUDA 12.4",
        }
    }
}

/// Chooses between one kernel and a graph; blocks are 1 if one block is best.
pub(crate) fn choose(costs: &Costs, load: &Load, open: Open) -> (Way, bool, [Option<f64>; 3]) {
    let block = costs.block.of(load);
    let blocks = open.blocks.then(|| costs.blocks.of(load));
    let nodes = open.nodes.then(|| costs.nodes.of(load));
    let expected = [Some(block), blocks, nodes];
    let mut best = (Way::Fused, false, block);
    if let Some(blocks) = blocks.filter(|blocks| *blocks < best.2) {
        best = (Way::Fused, true, blocks);
    }
    if let Some(nodes) = nodes.filter(|nodes| *nodes < best.2) {
        best = (Way::Nodes, false, nodes);
    }
    (best.0, best.1, expected)
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

    #[test]
    fn small_graphs_are_one_block_and_large_ones_are_not() {
        let all = Open { blocks: true, nodes: true };
        let costs = Costs::default();
        for count in [0, 16, 1024, 4096] {
            assert_eq!(choose(&costs, &load(count), all).0, Way::Fused);
            assert!(!choose(&costs, &load(count), all).1, "{count}");
        }
        assert!(choose(&costs, &load(1 << 20), all).1);
        let nodes = Open { blocks: false, nodes: true };
        assert_eq!(choose(&costs, &load(1 << 20), nodes).0, Way::Nodes);
        let none = Open { blocks: false, nodes: false };
        assert_eq!(choose(&costs, &load(1 << 20), none).0, Way::Fused);
        assert_eq!(load(5).largest, 5);
        assert!(load(5).is_known);
    }

    #[test]
    fn ways_have_names() {
        for way in Way::ALL {
            assert_eq!(Way::of_name(way.name()), Some(way));
        }
        assert_eq!(Way::of_name("else"), None);
    }
}
