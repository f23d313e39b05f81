//! A kernel that was loaded: its tasks, and how they are launched.

use std::any::Any;
use std::ffi::{CString, c_int, c_void};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{CUfunction, CUmodule};
use keyprint_codegen::Status;
use keyprint_codegen::cuda::{LaunchPlan, Step, TaskPlan};
use keyprint_runtime::{failure, random};

use crate::device::Device;
use crate::error::CudaError;
use crate::graph::Graph;
use crate::graph::way::{Asked, Choice, Way, Why};
use crate::mail::{Mailbox, Pending};
use crate::memory::DeviceMemory;
use crate::profile;
use crate::stream::{Event, Stream};

/// Threads of a block.
const BLOCK: u32 = 256;

/// Threads of a row of a block, in loops of several dimensions.
const WIDTH: u32 = 64;

/// Rows of a thread that goes on, at most; and how often a device is filled with blocks before threads do.
const MOST_ROWS: u64 = 8;
const WAVES: u64 = 4;

/// Blocks of a grid, at most: in its first dimension, and in each of the others.
const MOST_ACROSS: u32 = i32::MAX as u32;
const MOST_DOWN: u32 = 65_535;

/// Iterations, at most, in all dimensions but the last: threads number them with 32 bits, and a few go beyond the end.
const MOST_ITERATIONS: u64 = 0xff00_0000;

/// Launches that may have failed, at most, before somebody is made to wait.
const MOST_PENDING: usize = 4096;

/// Bytes of arguments that a kernel takes, at most: of drivers from CUDA 12.1 on, and of older ones.
const LARGE_SINCE: c_int = 12_010;
const LARGE: usize = 32_764;
const SMALL: usize = 4096;

/// A kernel on a device.
pub struct Program {
    /// The device that it is loaded on.
    pub device: &'static Device,
    /// What people know it as.
    pub name: String,
    /// How it is launched.
    pub plan: LaunchPlan,
    module: CUmodule,
    pub(crate) tasks: Vec<Ready>,
    /// How its tasks are launched, if it is a graph.
    graph: Option<Graph>,
    is_plain: bool,
    /// Whether it was launched on a stream of others.
    was_elsewhere: AtomicBool,
}

/// A task that can be launched.
pub(crate) struct Ready {
    pub(crate) function: CUfunction,
    /// How many blocks the device runs at a time.
    resident: u32,
    extent: Extent,
}

/// What the grid of a task depends on: what is known when it is loaded need not be computed at each launch.
enum Extent {
    /// Nothing.
    Fixed(Grid),
    /// The number in one slot: so many iterations, each with a thread of its own.
    Slot(usize),
    /// More than that.
    Planned,
}

impl Extent {
    fn of(plan: &TaskPlan, resident: u32) -> Self {
        let is_fixed = plan.counts.iter().all(|count| matches!(count.0.as_slice(), [Step::Number(_)]));
        let fixed = if is_fixed { Grid::of(plan, resident, &[]) } else { None };
        match (plan.counts.as_slice(), fixed) {
            (_, Some(grid)) => Self::Fixed(grid),
            ([count], None) if plan.is_covered => match count.0.as_slice() {
                [Step::Slot(at)] => Self::Slot(*at),
                _ => Self::Planned,
            },
            _ => Self::Planned,
        }
    }
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

/// What came of a launch.
pub enum Outcome {
    /// It is on its way, or done if it has results.
    Done,
    /// The arguments are not what they must be: which array, and why.
    Refused(Status, u32),
    /// A check failed.
    Failed(failure::Failed),
}

/// A grid of blocks of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) blocks: (u32, u32, u32),
    pub(crate) threads: (u32, u32),
}

impl Program {
    /// Loads a kernel. For a graph, `conditions` is code that decides about its loops, and `asked` how it is to be
    /// launched.
    ///
    /// # Errors
    ///
    /// If the code is not for this device, or the context is lost.
    pub fn load(
        device: &'static Device,
        name: &str,
        code: &[u8],
        conditions: Option<&[u8]>,
        plan: LaunchPlan,
        asked: Option<Asked>,
    ) -> Result<Self, CudaError> {
        let _entered = device.enter()?;
        let most = if device.driver.version >= LARGE_SINCE { LARGE } else { SMALL };
        if plan.all_slots() * 8 > most {
            return Err(CudaError::Other(format!(
                "a kernel takes {} bytes of addresses, sizes and numbers, and a device takes {most}",
                plan.all_slots() * 8
            )));
        }
        let mut module = std::ptr::null_mut();
        // SAFETY: the code is whole, as whoever has verified it says.
        let status = unsafe { (device.driver.load_module)(&raw mut module, code.as_ptr().cast()) };
        device.check("loading a kernel", status)?;
        let (name, tasks) = (name.to_owned(), Vec::new());
        let was_elsewhere = AtomicBool::new(false);
        let mut program =
            Self { device, name, plan, module, tasks, graph: None, is_plain: false, was_elsewhere };
        for task in &program.plan.tasks {
            let name = CString::new(task.name.as_str())
                .map_err(|_| CudaError::Other("a task without a name".into()))?;
            let (mut function, mut blocks) = (std::ptr::null_mut(), 0);
            let threads = if task.counts.is_empty() { 1 } else { BLOCK };
            // SAFETY: the module is loaded; the driver sets what is asked for.
            unsafe {
                let code = (device.driver.get_function)(&raw mut function, module, name.as_ptr());
                device.check("loading a kernel", code)?;
                let code = (device.driver.active_blocks)(&raw mut blocks, function, threads as c_int, 0);
                device.check("loading a kernel", code)?;
            }
            let resident = (blocks.max(1) as u32) * device.multiprocessors;
            let extent = Extent::of(task, resident);
            program.tasks.push(Ready { function, resident, extent });
        }
        if let Some(graph) = &program.plan.graph {
            program.graph = Some(Graph::load(device, module, &program.plan, graph, conditions, asked)?);
        }
        let LaunchPlan { checks, random, frame, mail, graph, .. } = &program.plan;
        let is_of_sizes = checks.iter().all(|check| check.size().is_some());
        program.is_plain = is_of_sizes && !random && (*frame == 0 || graph.is_some()) && mail.is_empty();
        Ok(program)
    }

    /// Whether a launch is nothing but a look at sizes and the launches of its tasks.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Launches a program that is plain; nothing is done, and that is said, if it takes more than that.
    ///
    /// # Safety
    ///
    /// As for [`launch`](Self::launch), and there is room for all slots.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    #[inline]
    pub unsafe fn launch_plain(&self, slots: *mut u64, stream: Stream) -> Result<bool, CudaError> {
        // SAFETY: as the caller promises.
        let slots = unsafe { std::slice::from_raw_parts_mut(slots, self.plan.all_slots()) };
        if !self.device.is_current() || profile::is_active() || stream != Stream::OWN {
            return self.launch_plain_elsewhere(slots, stream);
        }
        if let Some(graph) = &self.graph {
            // SAFETY: as the caller promises.
            return unsafe { graph.launch_again(self, slots) };
        }
        if !self.fits(slots) {
            return Ok(false);
        }
        self.submit_tasks(slots, stream)?;
        Ok(true)
    }

    /// The same, from a thread that does not use the device yet, while launches are timed, or on another stream.
    #[cold]
    fn launch_plain_elsewhere(&self, slots: &mut [u64], stream: Stream) -> Result<bool, CudaError> {
        if self.graph.is_some() || !self.fits(slots) {
            return Ok(false);
        }
        let _entered = self.device.enter()?;
        self.submit(slots, stream)?;
        Ok(true)
    }

    /// Whether arguments are what they must be.
    #[inline]
    fn fits(&self, slots: &[u64]) -> bool {
        self.plan.checks.iter().all(|check| check.violated(slots).is_none())
    }

    /// Whether a launch waits for the device.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.plan.mail.results > 0 || self.plan.mail.prints || self.graph.as_ref().is_some_and(Graph::waits)
    }

    /// In which way the last launch of a graph was launched, and why; nothing if there was none.
    #[must_use]
    pub fn last_choice(&self) -> Option<Choice> {
        self.graph.as_ref().and_then(Graph::last_choice)
    }

    /// The ways in which a graph cannot be launched here, and why.
    #[must_use]
    pub fn missing_ways(&self) -> Vec<(Way, Why)> {
        self.graph.as_ref().map_or_else(Vec::new, Graph::missing_ways)
    }

    /// Launches the tasks on a stream. `slots` has room for those that are added here; `owner` is asked for what comes
    /// with a launch that may fail later.
    ///
    /// # Safety
    ///
    /// The slots are those of the kernel: the addresses in them are of memory that the device can use until the launch
    /// is done.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    #[inline]
    pub unsafe fn launch(
        &self,
        slots: &mut [u64],
        results: &mut [u64],
        stream: Stream,
        owner: impl FnOnce() -> Box<dyn Any + Send>,
    ) -> Result<Outcome, CudaError> {
        assert!(slots.len() >= self.plan.all_slots());
        let _entered = self.device.enter()?;
        for check in &self.plan.checks {
            if let Some((status, array)) = check.violated(slots) {
                return Ok(Outcome::Refused(status, array));
            }
        }
        if self.plan.random {
            slots[self.plan.key_slot()] = random::launch();
        }
        if self.plan.graph.is_some() {
            // Whoever packs the slots has put it behind them.
            slots[self.plan.from_slot()] = slots[self.plan.slots];
        }
        if self.plan.mail.is_empty() && (self.plan.frame == 0 || self.graph.is_some()) {
            self.submit(slots, stream)?;
            return Ok(Outcome::Done);
        }
        self.launch_with_memory(slots, results, stream, owner)
    }

    #[cold]
    fn launch_with_memory(
        &self,
        slots: &mut [u64],
        results: &mut [u64],
        stream: Stream,
        owner: impl FnOnce() -> Box<dyn Any + Send>,
    ) -> Result<Outcome, CudaError> {
        let device = self.device;
        if !self.plan.mail.is_empty() && device.is_capturing(stream) {
            return Err(CudaError::Other(
                "a kernel that returns, prints or checks something cannot be captured into a graph"
                    .to_owned(),
            ));
        }
        let frame = match self.plan.frame {
            // Graphs have theirs elsewhere.
            0 => None,
            _ if self.graph.is_some() => None,
            bytes => Some(DeviceMemory::zeroed(device, bytes, stream)?),
        };
        slots[self.plan.frame_slot()] = frame.as_ref().map_or(0, DeviceMemory::address);
        if self.plan.mail.is_empty() {
            self.submit(slots, stream)?;
            return Ok(Outcome::Done);
        }
        let mailbox = Mailbox::of(device, self.plan.mail)?;
        slots[self.plan.mail_slot()] = mailbox.address();
        self.submit(slots, stream)?;
        drop(frame);
        if self.plan.mail.results == 0 && !self.plan.mail.prints {
            let too_many = {
                let mut pending = device.pending.lock().unwrap_or_else(PoisonError::into_inner);
                pending.push(Pending { mailbox, plan: self.plan.mail, printed: None, owner: owner() });
                pending.len() > MOST_PENDING
            };
            if too_many {
                device.settle()?;
            }
            return Ok(Outcome::Done);
        }
        // What others put on the stream meanwhile is not waited for.
        let waited = Event::on(device, stream).and_then(|event| device.wait_for_event(&event, stream));
        if let Err(error) = waited {
            // The device may write to it yet.
            let mut pending = device.pending.lock().unwrap_or_else(PoisonError::into_inner);
            let printed = self.plan.mail.prints.then(|| Box::new(self.plan.clone()));
            pending.push(Pending { mailbox, plan: self.plan.mail, printed, owner: owner() });
            return Err(error);
        }
        mailbox.results(&mut results[..self.plan.mail.results]);
        let failure = mailbox.failure(self.plan.mail);
        mailbox.show(&self.plan);
        mailbox.put_back();
        Ok(failure.map_or(Outcome::Done, Outcome::Failed))
    }

    #[inline]
    fn submit(&self, slots: &mut [u64], stream: Stream) -> Result<(), CudaError> {
        let submitted = if profile::is_active() {
            profile::timed(self.device, stream, &self.name, || self.submit_tasks(slots, stream))
        } else {
            self.submit_tasks(slots, stream)
        };
        if stream != Stream::OWN {
            self.was_elsewhere.store(true, Ordering::Relaxed);
            // Only now: whoever counts it waits for it.
            self.device.elsewhere.fetch_add(1, Ordering::AcqRel);
        }
        submitted
    }

    #[inline]
    fn submit_tasks(&self, slots: &mut [u64], stream: Stream) -> Result<(), CudaError> {
        if let Some(graph) = &self.graph {
            // SAFETY: whoever launches has said what the slots are.
            return unsafe { graph.launch(self, slots, stream) };
        }
        for at in 0..self.tasks.len() {
            let grid = self.grid(at, slots)?;
            let mut parameters: [*mut c_void; 1] = [slots.as_mut_ptr().cast()];
            self.device.launch_function(self.tasks[at].function, grid, stream, &mut parameters)?;
        }
        Ok(())
    }

    /// The grid of a task.
    #[inline]
    fn grid(&self, at: usize, slots: &[u64]) -> Result<Grid, CudaError> {
        let task = &self.tasks[at];
        let grid = match task.extent {
            Extent::Fixed(grid) => Some(grid),
            Extent::Slot(at) => Grid::row(slots[at] as i64),
            Extent::Planned => Grid::of(&self.plan.tasks[at], task.resident, slots),
        };
        grid.ok_or_else(too_many)
    }

    /// The grids of all tasks.
    pub(crate) fn grids(&self, slots: &[u64]) -> Result<Vec<Grid>, CudaError> {
        (0..self.tasks.len()).map(|at| self.grid(at, slots)).collect()
    }
}

impl Device {
    /// Launches a function of a loaded module, which takes these parameters.
    #[inline]
    pub(crate) fn launch_function(
        &self,
        function: CUfunction,
        grid: Grid,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Result<(), CudaError> {
        // SAFETY: the parameters are those of the function, as many as it has, and are copied; whoever made the stream
        // keeps it.
        let code = unsafe {
            (self.driver.launch)(
                function,
                grid.blocks.0,
                grid.blocks.1,
                grid.blocks.2,
                grid.threads.0,
                grid.threads.1,
                1,
                0,
                stream.handle(),
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        self.check("launching a kernel", code)
    }
}

#[cold]
fn too_many() -> CudaError {
    CudaError::Other("a loop has more iterations than a device has threads for".to_owned())
}

impl Drop for Program {
    fn drop(&mut self) {
        let (device, module, graph) = (self.device, self.module as usize, self.graph.take());
        if *self.was_elsewhere.get_mut() {
            // A library may have recorded it, and launch what it recorded.
            device.elsewhere.fetch_add(1, Ordering::AcqRel);
        }
        device.retire(move || {
            if let Some(graph) = graph {
                graph.unload(device);
            }
            // SAFETY: loaded when this was made, and nothing runs it any more.
            unsafe { (device.driver.unload_module)(module as CUmodule) };
        });
    }
}

impl Grid {
    /// A grid with a thread for each of a row of iterations; nothing if no grid is large enough.
    #[inline]
    fn row(count: i64) -> Option<Self> {
        let blocks = (count.max(1) as u64).div_ceil(u64::from(BLOCK));
        let across = u32::try_from(blocks).ok().filter(|across| *across <= MOST_ACROSS)?;
        Some(Self { blocks: (across, 1, 1), threads: (BLOCK, 1) })
    }

    /// The same with a few more blocks, so that graphs for almost the same sizes are the same: an eighth more at most.
    pub(crate) fn rounded(self) -> Self {
        let up = |count: u32, most: u32| match count.checked_ilog2() {
            Some(bits) if bits > 3 => count.next_multiple_of(1 << (bits - 3)).min(most.max(count)),
            _ => count,
        };
        let (x, y, z) = self.blocks;
        Self { blocks: (up(x, MOST_ACROSS), up(y, MOST_DOWN), up(z, MOST_DOWN)), threads: self.threads }
    }

    /// The grid for a task; nothing if no grid is large enough.
    fn of(plan: &TaskPlan, resident: u32, slots: &[u64]) -> Option<Self> {
        let Some((last, others)) = plan.counts.split_last() else {
            return Some(Self { blocks: (1, 1, 1), threads: (1, 1) });
        };
        if plan.is_covered && plan.counts.iter().any(|count| count.of(slots).is_none()) {
            return None;
        }
        let columns = last.of(slots).map(|count| count.max(1) as u64);
        if others.is_empty() {
            let blocks = columns.map_or(u64::from(resident), |count| count.div_ceil(u64::from(BLOCK)));
            let blocks = if plan.is_covered { blocks } else { blocks.min(u64::from(resident)) };
            let across = u32::try_from(blocks).ok().filter(|across| *across <= MOST_ACROSS)?;
            return Some(Self { blocks: (across, 1, 1), threads: (BLOCK, 1) });
        }
        let rows = others.iter().try_fold(1u64, |rows, count| {
            count.of(slots).map(|count| rows.saturating_mul(count.max(1) as u64))
        });
        // Neighbours in both directions share what they read; short rows make narrow ones.
        let width = columns.map_or(WIDTH, |count| count.min(u64::from(WIDTH)).next_power_of_two() as u32);
        let height = BLOCK / width;
        let across = columns.map_or(1, |count| count.div_ceil(u64::from(width)));
        let down = rows.map_or(u64::from(resident), |count| count.div_ceil(u64::from(height)));
        if !plan.is_covered {
            let across = across.min(u64::from(resident)) as u32;
            let down = down.min(u64::from((resident / across).clamp(1, MOST_DOWN))) as u32;
            return Some(Self { blocks: (across, down, 1), threads: (width, height) });
        }
        let across = u32::try_from(across).ok().filter(|across| *across <= MOST_ACROSS)?;
        if rows.is_some_and(|rows| rows > MOST_ITERATIONS) {
            return None;
        }
        if plan.goes_on {
            let enough = u64::from(resident) * WAVES;
            let each = (u64::from(across).saturating_mul(down) / enough).clamp(1, MOST_ROWS);
            let down = down.div_ceil(each).min(u64::from(MOST_DOWN)) as u32;
            return Some(Self { blocks: (across, down, 1), threads: (width, height) });
        }
        let deep =
            u32::try_from(down.div_ceil(u64::from(MOST_DOWN))).ok().filter(|deep| *deep <= MOST_DOWN)?;
        let down = down.min(u64::from(MOST_DOWN)) as u32;
        Some(Self { blocks: (across, down, deep), threads: (width, height) })
    }
}

#[cfg(test)]
mod tests {
    use keyprint_codegen::cuda::Count;

    use super::*;

    fn grid(counts: &[i64], is_covered: bool) -> Option<Grid> {
        let counts = counts.iter().map(|count| Count(vec![Step::Number(*count)])).collect();
        Grid::of(&TaskPlan { name: String::new(), counts, is_covered, goes_on: false, cost: 1 }, 1000, &[])
    }

    #[test]
    fn graphs_for_almost_the_same_sizes_are_the_same() {
        let rounded = |x: u32, y: u32| Grid { blocks: (x, y, 1), threads: (256, 1) }.rounded().blocks;
        assert_eq!(rounded(1, 15), (1, 15, 1));
        assert_eq!(rounded(16, 17), (16, 18, 1));
        assert_eq!(rounded(1000, 65_535), (1024, 65_535, 1));
        assert_eq!(rounded(MOST_ACROSS, 1), (MOST_ACROSS, 1, 1));
        for count in 1..5000 {
            let (up, ..) = rounded(count, 1);
            assert!(up >= count && up <= count + count / 8, "{count}: {up}");
        }
    }

    #[test]
    fn threads_go_on_to_other_rows_if_there_are_many() {
        let grid = |rows: i64, columns: i64| {
            let counts = [rows, columns].map(|count| Count(vec![Step::Number(count)])).to_vec();
            let plan = TaskPlan { name: String::new(), counts, is_covered: true, goes_on: true, cost: 1 };
            Grid::of(&plan, 1000, &[]).unwrap().blocks
        };
        assert_eq!(grid(64, 64), (1, 16, 1));
        assert_eq!(grid(1024, 1024), (16, 256, 1));
        assert_eq!(grid(4096, 1024), (16, 256, 1));
        assert_eq!(grid(8192, 8192), (128, 256, 1));
        assert_eq!(grid(1 << 30, 1), (1, 65_535, 1));
    }

    #[test]
    fn every_iteration_has_a_thread_and_every_grid_fits() {
        let all = [0, 1, 2, 31, 32, 33, 255, 256, 257, 5000, 1 << 24, 1 << 31];
        for first in all {
            for second in all {
                for counts in [vec![first], vec![first, second], vec![3, first, second]] {
                    let Grid { blocks, threads } = grid(&counts, false).unwrap();
                    assert_eq!(threads.0 * threads.1, BLOCK, "{counts:?}");
                    assert!(blocks.0 * blocks.1 * blocks.2 <= 1000, "{counts:?}");
                    let Some(Grid { blocks, threads }) = grid(&counts, true) else {
                        let rows: i64 = counts[..counts.len() - 1].iter().product();
                        assert!(rows as u64 > MOST_ITERATIONS, "{counts:?}");
                        continue;
                    };
                    let rows: i64 = counts[..counts.len() - 1].iter().map(|count| (*count).max(1)).product();
                    let columns = i64::from(blocks.0) * i64::from(threads.0);
                    assert!(columns >= *counts.last().unwrap(), "{counts:?}");
                    let down = i64::from(blocks.1) * i64::from(blocks.2) * i64::from(threads.1);
                    assert!(down >= rows, "{counts:?}");
                    assert!((1..=MOST_ACROSS).contains(&blocks.0), "{counts:?}");
                    assert!((1..=MOST_DOWN).contains(&blocks.1) && (1..=MOST_DOWN).contains(&blocks.2));
                }
            }
        }
        assert_eq!(grid(&[1000], true), Some(Grid { blocks: (4, 1, 1), threads: (256, 1) }));
        assert_eq!(grid(&[1000, 3], true), Some(Grid { blocks: (1, 16, 1), threads: (4, 64) }));
    }

    #[test]
    fn what_is_known_when_a_task_is_loaded_is_what_its_plan_says() {
        let plan = |steps: Vec<Vec<Step>>, is_covered| TaskPlan {
            name: String::new(),
            counts: steps.into_iter().map(Count).collect(),
            is_covered,
            goes_on: false,
            cost: 1,
        };
        let (row, fixed) = (vec![Step::Slot(1)], vec![Step::Number(700)]);
        for number in [-1, 0, 1, 256, 257, 1 << 33, i64::MAX] {
            let slots = [5, number as u64];
            let row = plan(vec![row.clone()], true);
            assert!(matches!(Extent::of(&row, 1000), Extent::Slot(1)));
            assert_eq!(Grid::row(number), Grid::of(&row, 1000, &slots), "{number}");
        }
        for known in
            [plan(vec![], true), plan(vec![fixed.clone()], false), plan(vec![fixed.clone(); 2], true)]
        {
            let Extent::Fixed(grid) = Extent::of(&known, 1000) else { panic!("{known:?}") };
            assert_eq!(Some(grid), Grid::of(&known, 1000, &[]));
        }
        for open in [plan(vec![row.clone()], false), plan(vec![fixed, row], true)] {
            assert!(matches!(Extent::of(&open, 1000), Extent::Planned), "{open:?}");
        }
    }

    #[test]
    fn what_the_host_cannot_tell_is_as_many_as_run_at_a_time() {
        let unknown = TaskPlan {
            name: String::new(),
            counts: vec![Count::default()],
            is_covered: false,
            goes_on: false,
            cost: 1,
        };
        let expected = Grid { blocks: (1000, 1, 1), threads: (256, 1) };
        assert_eq!(Grid::of(&unknown, 1000, &[]), Some(expected));
    }
}
