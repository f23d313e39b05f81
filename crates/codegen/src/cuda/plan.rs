//! What the host does to launch a kernel on a device: which tasks, how many threads, what must hold before.

use serde::{Deserialize, Serialize};

/// How a kernel is launched: its tasks in order, and what they share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// How many slots come with a call; those that the host adds follow.
    pub slots: usize,
    /// The tasks, in order.
    pub tasks: Vec<TaskPlan>,
    /// How many bytes tasks hand on to each other through memory of the device; they begin as zeros.
    pub frame: usize,
    /// What a device writes for the host.
    pub mail: MailPlan,
    /// Whether numbers are drawn.
    pub random: bool,
    /// The slots that have addresses of arrays that are written.
    pub written: Vec<usize>,
    /// Whether it uses arrays that are part of the program.
    pub has_fixed: bool,
    /// What must hold before anything is launched.
    pub checks: Vec<Check>,
    /// What each `print` of the text shows.
    pub prints: Vec<Vec<PrintPart>>,
    /// How tasks follow each other, if they are those of a graph; otherwise one after the other.
    pub graph: Option<GraphPlan>,
}

/// A graph of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphPlan {
    /// What is done, in order.
    pub pieces: Vec<PiecePlan>,
    /// How many bytes tasks share in the memory of the device: slots, variables, where the launch is.
    pub control: usize,
    /// Whether there are loops.
    pub has_loops: bool,
    /// Whether tasks look at what they share even if one kernel does them all: variables, whether the launch is over.
    pub is_shared: bool,
}

impl GraphPlan {
    /// Threads of a block of the kernel for all tasks, at most.
    pub const FUSED_THREADS: u32 = 1024;
}

/// A piece of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PiecePlan {
    /// A task, by its number.
    Task(usize),
    /// What is done, and again while a number is not zero.
    Loop {
        /// The slot that has the address of the number.
        counter: usize,
        /// The number of the first label inside, and how many there are: a launch may begin there.
        labels: (u32, u32),
        /// What is done.
        body: Vec<PiecePlan>,
    },
    /// Pieces that do not depend on each other.
    Sections(Vec<Vec<PiecePlan>>),
}

impl LaunchPlan {
    /// Where the address of the frame is among the slots (for graphs, of all that tasks share), and those of what
    /// follows: the mail, and the key of random numbers.
    #[must_use]
    pub fn frame_slot(&self) -> usize {
        self.slots
    }

    /// Where the address of the mail is.
    #[must_use]
    pub fn mail_slot(&self) -> usize {
        self.slots + 1
    }

    /// Where the key of random numbers is.
    #[must_use]
    pub fn key_slot(&self) -> usize {
        self.slots + 2
    }

    /// Where it is said at which checkpoint a launch begins, for graphs.
    #[must_use]
    pub fn from_slot(&self) -> usize {
        self.slots + 3
    }

    /// Where the number of the launch is, for graphs.
    #[must_use]
    pub fn number_slot(&self) -> usize {
        self.slots + 4
    }

    /// Where the address is of the number of the last launch that was called off, for graphs.
    #[must_use]
    pub fn stop_slot(&self) -> usize {
        self.slots + 5
    }

    /// How many slots tasks look at.
    #[must_use]
    pub fn slots_of_tasks(&self) -> usize {
        self.slots + 3
    }

    /// How many slots a launch is given.
    #[must_use]
    pub fn all_slots(&self) -> usize {
        self.slots + if self.graph.is_some() { 6 } else { 3 }
    }
}

/// A task: a grid of threads, or one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPlan {
    /// The name of its function.
    pub name: String,
    /// How many iterations, in each dimension, the last one fastest; none for a task of one thread.
    pub counts: Vec<Count>,
    /// Whether each iteration has a thread of its own: the host knows how many there are. Otherwise threads go on until
    /// all are done.
    pub is_covered: bool,
    /// Whether threads go on to other rows, of two dimensions: a few each cost less than one each, if there are many.
    pub goes_on: bool,
    /// About how long an iteration takes, or all of it if one thread does it: nanoseconds on a CPU.
    pub cost: u64,
}

/// How many iterations there are, as far as the host can tell: it is what the device computes, or unknown. Tasks know
/// their bounds themselves, so that there may be more threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count(pub Vec<Step>);

/// A step of a computation on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Pushes a number.
    Number(i64),
    /// Pushes a slot.
    Slot(usize),
    /// Replaces two numbers by what is computed of them.
    Compute(Op),
    /// Keeps the lower 32 bits, with their sign.
    Wrap,
}

/// What is computed of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "they are what they are called")]
pub enum Op {
    Add,
    Sub,
    Mul,
    FloorDiv,
    Mod,
    Min,
    Max,
}

/// Numbers on the stack, at most.
const DEEPEST: usize = 16;

impl Count {
    /// A computation; nothing that the host can tell if it needs too much room.
    #[must_use]
    pub fn new(steps: Vec<Step>) -> Self {
        let (mut depth, mut deepest) = (0usize, 0);
        for step in &steps {
            match step {
                Step::Number(_) | Step::Slot(_) => depth += 1,
                Step::Compute(_) => depth = depth.saturating_sub(1),
                Step::Wrap => {}
            }
            deepest = deepest.max(depth);
        }
        if depth == 1 && deepest <= DEEPEST { Self(steps) } else { Self::default() }
    }

    /// The slots that it depends on.
    pub fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().filter_map(|step| match step {
            Step::Slot(at) => Some(*at),
            _ => None,
        })
    }

    /// What it comes to; nothing if the host cannot tell.
    #[must_use]
    pub fn of(&self, slots: &[u64]) -> Option<i64> {
        // The commonest: a size.
        match *self.0.as_slice() {
            [Step::Slot(at)] => return Some(slots[at] as i64),
            [Step::Number(number)] => return Some(number),
            _ => {}
        }
        let mut stack = [0i64; DEEPEST];
        let mut top = 0;
        for step in &self.0 {
            match *step {
                Step::Number(number) => {
                    *stack.get_mut(top)? = number;
                    top += 1;
                }
                Step::Slot(at) => {
                    *stack.get_mut(top)? = *slots.get(at)? as i64;
                    top += 1;
                }
                Step::Compute(op) => {
                    let (a, b) = (*stack.get(top.checked_sub(2)?)?, stack[top - 1]);
                    top -= 1;
                    stack[top - 1] = match op {
                        Op::Add => a.wrapping_add(b),
                        Op::Sub => a.wrapping_sub(b),
                        Op::Mul => a.wrapping_mul(b),
                        // As devices have it: nothing divided by zero is anything.
                        Op::FloorDiv if b == 0 => 0,
                        Op::FloorDiv => {
                            a.wrapping_div(b) - i64::from(a.wrapping_rem(b) != 0 && (a < 0) != (b < 0))
                        }
                        Op::Mod if b == 0 => 0,
                        Op::Mod => {
                            let rest = a.wrapping_rem(b);
                            if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
                        }
                        Op::Min => a.min(b),
                        Op::Max => a.max(b),
                    };
                }
                Step::Wrap => {
                    let last = stack.get_mut(top.checked_sub(1)?)?;
                    *last = i64::from(*last as i32);
                }
            }
        }
        (top == 1).then(|| stack[0])
    }
}

/// What a device writes for the host: results, what went wrong, what is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailPlan {
    /// How many results there are.
    pub results: usize,
    /// Whether something can go wrong.
    pub fails: bool,
    /// Whether something is printed.
    pub prints: bool,
}

impl MailPlan {
    /// How many 64-bit words what went wrong takes: whether something did, where, how many numbers, their kinds, the
    /// numbers.
    pub const FAILURE: usize = 2 + 2 + 16;

    /// How many words are printed at most: the rest is dropped, and said to be.
    pub const PRINTED: usize = 1 << 17;

    /// Whether there is anything to write.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The word at which what went wrong begins.
    #[must_use]
    pub fn failure(self) -> usize {
        self.results
    }

    /// The word at which what is printed begins: how many words were, how many lines were dropped.
    #[must_use]
    pub fn printed(self) -> usize {
        self.results + if self.fails { Self::FAILURE } else { 0 }
    }

    /// How many words it takes.
    #[must_use]
    pub fn words(self) -> usize {
        self.printed() + if self.prints { 1 + Self::PRINTED } else { 0 }
    }
}

/// A piece of what is printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrintPart {
    /// As it is.
    Text(String),
    /// A number, of a kind that the runtime knows.
    Value(char),
}

/// What must hold of arguments before anything is done with them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Check {
    /// A size can be counted by 32 bits.
    Countable {
        /// The array.
        array: u32,
        /// Which slot has the size.
        size: usize,
    },
    /// A size is that of the elements.
    Element {
        /// The array.
        array: u32,
        /// Which slot has the size.
        size: usize,
        /// What it must be.
        expected: u32,
    },
    /// Two arrays do not overlap, unless they are the same; or one holds no element twice.
    Apart {
        /// The first array.
        first: Extent,
        /// The other one; nothing for the first itself.
        second: Option<Extent>,
        /// Whether they can be the same array at all.
        may_be_same: bool,
    },
}

/// Where the elements of an array are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The array.
    pub array: u32,
    /// Where the first element is.
    pub address: Place,
    /// Sizes.
    pub sizes: Vec<Place>,
    /// Strides in bytes; none if the last dimension varies fastest.
    pub strides: Vec<Place>,
    /// How many bytes an element has, lanes that are no dimensions included.
    pub bytes: u32,
}

/// A number that the host knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// A slot.
    Slot(usize),
    /// The number itself.
    Fixed(u64),
}

impl Place {
    fn of(self, slots: &[u64]) -> i64 {
        match self {
            Self::Slot(at) => slots[at] as i64,
            Self::Fixed(number) => number as i64,
        }
    }
}

impl Extent {
    fn sizes(&self, slots: &[u64]) -> Vec<i64> {
        self.sizes.iter().map(|size| size.of(slots)).collect()
    }

    fn strides(&self, slots: &[u64]) -> Vec<i64> {
        self.strides.iter().map(|stride| stride.of(slots)).collect()
    }

    /// The first byte, and behind the last.
    #[must_use]
    pub fn bounds(&self, slots: &[u64]) -> (i64, i64) {
        let (mut low, bytes) = (self.address.of(slots), i64::from(self.bytes));
        let sizes = self.sizes(slots);
        if sizes.contains(&0) {
            return (low, low);
        }
        if self.strides.is_empty() {
            return (low, low + sizes.iter().product::<i64>() * bytes);
        }
        let mut high = low + bytes;
        for (size, stride) in sizes.iter().zip(self.strides(slots)) {
            // Strides may go either way.
            let reach = (size - 1) * stride;
            if reach < 0 {
                low += reach;
            } else {
                high += reach;
            }
        }
        (low, high)
    }

    /// Whether an element may be there twice: unless each stride, from the smallest on, goes beyond all that the
    /// smaller ones reach.
    fn holds_twice(&self, slots: &[u64]) -> bool {
        let mut steps: Vec<(i64, i64)> =
            self.strides(slots).iter().map(|stride| stride.abs()).zip(self.sizes(slots)).collect();
        if steps.iter().any(|(_, size)| *size == 0) {
            return false;
        }
        steps.sort_unstable();
        let mut reach = i64::from(self.bytes);
        for (stride, size) in steps.into_iter().filter(|(_, size)| *size > 1) {
            if stride < reach {
                return true;
            }
            reach += (size - 1) * stride;
        }
        false
    }

    /// Sizes, and bytes from one element to the next: of all dimensions, or of them as one.
    fn steps(&self, slots: &[u64]) -> Vec<(i64, i64)> {
        let sizes = self.sizes(slots);
        if self.strides.is_empty() {
            return vec![(sizes.iter().product(), i64::from(self.bytes))];
        }
        sizes.into_iter().zip(self.strides(slots)).collect()
    }

    /// Whether the elements of two arrays lie between each other: all strides of both are multiples of one that has room
    /// for an element of each.
    fn is_between(&self, other: &Self, slots: &[u64]) -> bool {
        let mut step = 0i64;
        for (size, stride) in self.steps(slots).into_iter().chain(other.steps(slots)) {
            let mut next = if size < 2 { 0 } else { stride };
            while next != 0 {
                (step, next) = (next, step.wrapping_rem(next));
            }
        }
        let behind = other.address.of(slots).wrapping_sub(self.address.of(slots));
        step != 0 && {
            let behind = behind.rem_euclid(step.abs());
            behind >= i64::from(self.bytes) && behind + i64::from(other.bytes) <= step.abs()
        }
    }

    fn is_same(&self, other: &Self, slots: &[u64]) -> bool {
        self.address.of(slots) == other.address.of(slots)
            && self.sizes(slots) == other.sizes(slots)
            && self.strides(slots) == other.strides(slots)
    }
}

impl Check {
    /// The slot that it is about, if it is one that has a size.
    #[must_use]
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::Countable { size, .. } | Self::Element { size, .. } => Some(*size),
            Self::Apart { .. } => None,
        }
    }

    /// The array that does not meet it, if there is one.
    #[must_use]
    pub fn violated(&self, slots: &[u64]) -> Option<(crate::Status, u32)> {
        match self {
            Self::Countable { array, size } => {
                (slots[*size] > 0x7fff_ffff).then_some((crate::Status::TooLong, *array))
            }
            Self::Element { array, size, expected } => {
                (slots[*size] != u64::from(*expected)).then_some((crate::Status::Element, *array))
            }
            Self::Apart { first, second: None, .. } => {
                first.holds_twice(slots).then_some((crate::Status::Overlap, first.array))
            }
            Self::Apart { first, second: Some(second), may_be_same } => {
                if *may_be_same && first.is_same(second, slots) {
                    return None;
                }
                let ((low, high), (other_low, other_high)) = (first.bounds(slots), second.bounds(slots));
                let reaches = low < other_high && other_low < high;
                (reaches && !first.is_between(second, slots)).then_some((crate::Status::Overlap, first.array))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(a: i64, b: i64, op: Op) -> i64 {
        Count::new(vec![Step::Number(a), Step::Slot(0), Step::Compute(op)]).of(&[b as u64]).unwrap()
    }

    #[test]
    fn the_host_counts_as_devices_do() {
        for (a, b) in [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3), (0, 5), (5, 0), (i64::MIN, -1)] {
            let (quotient, rest) = (computed(a, b, Op::FloorDiv), computed(a, b, Op::Mod));
            if b == 0 {
                assert_eq!((quotient, rest), (0, 0));
                continue;
            }
            assert_eq!(quotient.wrapping_mul(b).wrapping_add(rest), a, "{a} {b}");
            assert!(rest == 0 || (rest < 0) == (b < 0) && rest.unsigned_abs() < b.unsigned_abs(), "{a} {b}");
        }
        let wrapped = Count::new(vec![
            Step::Number(i64::from(i32::MAX)),
            Step::Number(1),
            Step::Compute(Op::Add),
            Step::Wrap,
        ]);
        assert_eq!(wrapped.of(&[]), Some(i64::from(i32::MIN)));
    }

    #[test]
    fn what_is_too_deep_or_unfinished_is_unknown() {
        let deep = |numbers: usize| {
            let mut steps = vec![Step::Number(1); numbers];
            steps.extend(vec![Step::Compute(Op::Add); numbers - 1]);
            Count::new(steps)
        };
        assert_eq!(deep(DEEPEST).of(&[]), Some(DEEPEST as i64));
        assert_eq!(deep(DEEPEST + 1), Count::default());
        assert_eq!(Count::default().of(&[]), None);
        assert_eq!(Count::new(vec![Step::Number(1), Step::Number(2)]), Count::default());
    }

    fn extent(array: u32, slot: usize, sizes: &[u64], strides: &[i64]) -> Extent {
        Extent {
            array,
            address: Place::Slot(slot),
            sizes: sizes.iter().map(|size| Place::Fixed(*size)).collect(),
            strides: strides.iter().map(|stride| Place::Fixed(*stride as u64)).collect(),
            bytes: 4,
        }
    }

    #[test]
    fn arrays_are_apart_or_the_same() {
        let apart = |first: Extent, second: Option<Extent>, slots: &[u64]| {
            Check::Apart { first, second, may_be_same: true }.violated(slots).is_none()
        };
        let plain = |slot| extent(slot as u32, slot, &[10], &[]);
        assert!(apart(plain(0), Some(plain(1)), &[1000, 1040]));
        assert!(apart(plain(0), Some(plain(1)), &[1000, 1000]));
        assert!(!apart(plain(0), Some(plain(1)), &[1000, 1036]));
        // Backwards: from 1036 down to 1000.
        assert!(!apart(extent(0, 0, &[10], &[-4]), Some(plain(1)), &[1036, 1000]));
        assert!(apart(extent(0, 0, &[10], &[-4]), Some(plain(1)), &[1036, 1040]));
        // Columns of a matrix, from either side, and one element between those of a column.
        let column = |slot: usize, stride| extent(slot as u32, slot, &[10], &[stride]);
        assert!(apart(column(0, 12), Some(column(1, 12)), &[1000, 1004]));
        assert!(apart(column(0, 12), Some(column(1, -24)), &[1000, 1112]));
        assert!(apart(column(0, 12), Some(extent(1, 1, &[1], &[])), &[1000, 1016]));
        assert!(apart(extent(1, 1, &[], &[]), Some(column(0, 12)), &[1000, 1016 - 4 * 12]));
        assert!(!apart(column(0, 12), Some(column(1, 12)), &[1000, 1012]));
        assert!(!apart(column(0, 12), Some(column(1, 12)), &[1000, 1002]));
        assert!(!apart(column(0, 12), Some(column(1, 12)), &[1000, 1010]));
        assert!(!apart(column(0, 12), Some(column(1, 8)), &[1000, 1004]));
        assert!(!apart(column(0, 12), Some(plain(1)), &[1000, 1004]));
        assert!(apart(extent(0, 0, &[2, 3], &[12, 4]), None, &[1000]));
        assert!(!apart(extent(0, 0, &[2, 3], &[4, 4]), None, &[1000]));
        assert!(!apart(extent(0, 0, &[5], &[0]), None, &[1000]));
        assert!(apart(extent(0, 0, &[0], &[0]), None, &[1000]));
    }

    #[test]
    fn plans_survive_being_kept() {
        let plan = LaunchPlan {
            slots: 2,
            tasks: vec![TaskPlan {
                name: "kp_task0".to_owned(),
                counts: vec![Count(vec![Step::Slot(1)])],
                is_covered: true,
                goes_on: false,
                cost: 3,
            }],
            mail: MailPlan { results: 1, fails: true, prints: false },
            prints: vec![vec![PrintPart::Text("x".to_owned()), PrintPart::Value('i')]],
            checks: vec![Check::Countable { array: 0, size: 1 }],
            graph: Some(GraphPlan {
                pieces: vec![PiecePlan::Loop {
                    counter: 0,
                    labels: (1, 2),
                    body: vec![PiecePlan::Sections(vec![vec![PiecePlan::Task(0)], vec![]])],
                }],
                control: 128,
                has_loops: true,
                is_shared: false,
            }),
            ..LaunchPlan::default()
        };
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<LaunchPlan>(&text).unwrap(), plan);
        assert_eq!(plan.mail.words(), 1 + MailPlan::FAILURE);
    }
}
