//! Graphs of tasks on a device: launched as one kernel, as a CUDA graph, or task by task, with loops on the host.
//!
//! [`way`] chooses, from how much there is to do and from what each way costs on the device, which [`measure`] finds out;
//! `nodes` builds CUDA graphs; `stop` ends loops that nobody waits for any more; `driver` has what the driver knows of
//! graphs. All ways give the same results. What is built depends on the driver and the device, and on nothing that is kept
//! with the code.

pub(crate) mod driver;
pub mod measure;
mod nodes;
pub(crate) mod stop;
pub mod way;

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUfunction, CUmodule};
use keyprint_codegen::cuda::{Check, Count, GraphPlan, LaunchPlan, MailPlan, PiecePlan};

use crate::device::Device;
use crate::error::CudaError;
use crate::mail::Mailbox;
use crate::memory::DeviceMemory;
use crate::program::{Grid, Program};
use crate::stream::Stream;
use crate::wait::Patience;
use nodes::{Nodes, STORING_GRID, Single};
use way::{Asked, Choice, Load, Open, Way, Why};

/// Graphs that are kept for grids of other sizes, at most.
const MOST_GRAPHS: usize = 16;

/// Threads of a block of one kernel for all tasks, if there are several blocks.
const THREADS: u32 = 512;

/// Threads that run together.
const WARP: u32 = 32;

/// What a graph is launched with besides its tasks.
pub(crate) struct Graph {
    plan: GraphPlan,
    store: CUfunction,
    fused: CUfunction,
    ask_again: CUfunction,
    ask_enter: CUfunction,
    /// Nothing if there are no loops, or the driver has none.
    conditions: Option<Conditions>,
    /// Blocks of the kernel for all tasks that run at a time; nothing if they cannot wait for each other.
    resident: u32,
    /// Whether loops may be passed over.
    may_pass: bool,
    has_nodes: bool,
    weights: Vec<f64>,
    asked: Option<Asked>,
    /// The slots that decide how it is launched: sizes and numbers.
    deciding: Vec<usize>,
    state: Mutex<State>,
}

/// What decides about loops of CUDA graphs.
struct Conditions {
    module: CUmodule,
    enter: CUfunction,
    again: CUfunction,
}

#[derive(Default)]
struct State {
    /// The one that was launched last comes last.
    graphs: Vec<Nodes>,
    /// What tasks of one kernel share, on our own stream.
    control: Option<DeviceMemory>,
    /// The CUDA graph of that kernel.
    single: Option<Single>,
    last: Option<Choice>,
    /// Whether that launch was one on our own stream which can be done again, what decided about it, by slot.
    can_repeat: bool,
    decided: Vec<(usize, u64)>,
}

impl State {
    /// Takes note of a launch, and of what decided about it.
    fn note(&mut self, choice: Choice, deciding: &[usize], slots: &[u64], stream: Stream) {
        self.last = Some(choice);
        self.can_repeat = stream == Stream::OWN && choice.way != Way::Host;
        self.decided.clear();
        if self.can_repeat {
            self.decided.extend(deciding.iter().map(|at| (*at, slots[*at])));
        }
    }
}

fn function(device: &Device, module: CUmodule, name: &CStr) -> Result<CUfunction, CudaError> {
    let mut function = std::ptr::null_mut();
    // SAFETY: the module is loaded; the driver sets the function.
    let code = unsafe { (device.driver.get_function)(&raw mut function, module, name.as_ptr()) };
    device.check("loading a graph", code)?;
    Ok(function)
}

/// The slots that grids depend on, and checks of sizes.
fn deciding(plan: &LaunchPlan) -> Vec<usize> {
    let counts = plan.tasks.iter().flat_map(|task| &task.counts).flat_map(Count::slots);
    let mut slots: Vec<usize> = counts.chain(plan.checks.iter().filter_map(Check::size)).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

impl Graph {
    /// What a loaded program needs to be launched as a graph. `conditions` is code that decides about loops, `asked` the
    /// only way that is to be taken.
    pub(crate) fn load(
        device: &'static Device,
        module: CUmodule,
        plan: &LaunchPlan,
        graph: &GraphPlan,
        conditions: Option<&[u8]>,
        asked: Option<Asked>,
    ) -> Result<Self, CudaError> {
        let fused = function(device, module, c"kp_fused")?;
        let mut blocks = 0;
        if device.has_cooperation() {
            // SAFETY: the driver sets the number.
            let code = unsafe { (device.driver.active_blocks)(&raw mut blocks, fused, THREADS as c_int, 0) };
            device.check("loading a graph", code)?;
        }
        if graph.has_loops {
            // It is not allocated while a stream records.
            device.stop_words()?;
        }
        // All that may fail, before something is loaded besides.
        let store = function(device, module, c"kp_store")?;
        let ask_again = function(device, module, c"kp_ask_again")?;
        let ask_enter = function(device, module, c"kp_ask_enter")?;
        let drives = device.driver.graphs.as_ref();
        let conditions =
            match (graph.has_loops && drives.is_some_and(|driver| driver.loops.is_some()), conditions) {
                (true, Some(code)) => Some(Conditions::load(device, code)?),
                _ => None,
            };
        Ok(Self {
            store,
            fused,
            ask_again,
            ask_enter,
            has_nodes: drives.is_some() && (!graph.has_loops || conditions.is_some()),
            conditions,
            resident: blocks.max(0) as u32 * device.multiprocessors,
            may_pass: graph.is_shared,
            weights: way::weights(plan, &graph.pieces),
            deciding: deciding(plan),
            plan: graph.clone(),
            asked,
            state: Mutex::default(),
        })
    }

    /// Whether a launch may wait for turns of loops on the host.
    pub(crate) fn waits(&self) -> bool {
        let nodes = !self.has_nodes && self.asked.is_none_or(|asked| asked == Asked::Only(Way::Nodes));
        self.plan.has_loops && (nodes || self.asked == Some(Asked::Only(Way::Host)))
    }

    /// The ways that there are not, and why.
    pub(crate) fn missing_ways(&self) -> Vec<(Way, Why)> {
        let ways = [
            (self.resident > 1, Way::Grid, Why::NoCooperation),
            (self.has_nodes, Way::Nodes, Why::OldDriver),
        ];
        ways.into_iter().filter(|(is_there, ..)| !is_there).map(|(_, way, why)| (way, why)).collect()
    }

    /// What was chosen for the last launch.
    pub(crate) fn last_choice(&self) -> Option<Choice> {
        self.state().last
    }

    fn choose(&self, program: &Program, slots: &[u64], is_captured: bool) -> Choice {
        let load = Load::of(&program.plan, &self.weights, slots);
        let open = Open { grid: self.resident > 1, nodes: self.has_nodes, is_captured };
        let mut choice = way::choose(&program.device.costs(), &load, open, self.asked);
        choice.grid = self.grid(&load, choice.way);
        choice
    }

    /// Blocks and threads of the kernel for all tasks.
    fn grid(&self, load: &Load, way: Way) -> (u32, u32) {
        let largest = if load.is_known { load.largest } else { u64::MAX };
        if way == Way::Grid {
            let blocks = largest.div_ceil(u64::from(THREADS)).clamp(2, u64::from(self.resident)) as u32;
            return (blocks, THREADS);
        }
        let threads = largest.min(u64::from(GraphPlan::FUSED_THREADS)) as u32;
        (1, threads.max(1).next_multiple_of(WARP))
    }

    /// Launches the graph on a stream; `slots` are complete, but for those that graphs have for themselves.
    ///
    /// # Safety
    ///
    /// As for a launch of the program.
    pub(crate) unsafe fn launch(
        &self,
        program: &Program,
        slots: &mut [u64],
        stream: Stream,
    ) -> Result<(), CudaError> {
        let is_captured = stream != Stream::OWN && program.device.is_capturing(stream);
        let choice = self.choose(program, slots, is_captured);
        self.number(program, slots, stream, is_captured)?;
        let (mut evicted, mut failed) = (None, Ok(()));
        // SAFETY: as the caller promises.
        unsafe {
            match choice.way {
                Way::Host => {
                    self.launch_on_host(program, slots, stream)?;
                    self.state().note(choice, &self.deciding, slots, stream);
                }
                Way::Nodes => {
                    let mut state = self.state();
                    let launched = self.launch_nodes(program, slots, stream, &mut state, &mut evicted);
                    if stream != Stream::OWN {
                        // Whoever evicts this graph waits for it.
                        program.device.elsewhere.fetch_add(1, Ordering::AcqRel);
                    }
                    match launched {
                        Ok(()) => state.note(choice, &self.deciding, slots, stream),
                        Err(_) => failed = launched,
                    }
                }
                Way::Block | Way::Grid if stream == Stream::OWN => {
                    let mut state = self.state();
                    self.launch_fused_here(program, slots, choice.grid, &mut state)?;
                    state.note(choice, &self.deciding, slots, stream);
                }
                Way::Block | Way::Grid => {
                    self.launch_fused(program, slots, stream, choice.grid)?;
                    self.state().note(choice, &self.deciding, slots, stream);
                }
            }
        }
        if let Some(evicted) = evicted {
            program.device.retire(move || drop(evicted));
        }
        failed
    }

    /// Launches the graph on our own stream as the last time, and looks at nothing but what decided about that; says
    /// whether it could. What must hold of sizes holds of those.
    ///
    /// # Safety
    ///
    /// As for a launch of the program.
    #[inline]
    pub(crate) unsafe fn launch_again(
        &self,
        program: &Program,
        slots: &mut [u64],
    ) -> Result<bool, CudaError> {
        let mut state = self.state();
        let State { last: Some(choice), can_repeat: true, decided, .. } = &*state else {
            return Ok(false);
        };
        if decided.iter().any(|(at, value)| slots[*at] != *value) {
            return Ok(false);
        }
        let choice = *choice;
        slots[program.plan.from_slot()] = 0;
        self.number(program, slots, Stream::OWN, false)?;
        if choice.way == Way::Nodes {
            let nodes = state.graphs.last_mut().expect("the graph of that launch");
            // SAFETY: as the caller promises.
            unsafe { nodes.launch(self, slots, Stream::OWN)? };
        } else {
            // SAFETY: as the caller promises.
            unsafe { self.launch_fused_here(program, slots, choice.grid, &mut state)? };
        }
        Ok(true)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers a launch, so that it can be called off; one that is recorded cannot: whoever did that launches it, and
    /// maybe often.
    fn number(
        &self,
        program: &Program,
        slots: &mut [u64],
        stream: Stream,
        is_captured: bool,
    ) -> Result<(), CudaError> {
        let device = program.device;
        let (number, stop) = match (self.plan.has_loops, is_captured) {
            (false, _) => (0, 0),
            (true, false) => device.next_launch(stream)?,
            (true, true) => (u64::MAX, device.stop_words()?),
        };
        slots[program.plan.number_slot()] = number;
        slots[program.plan.stop_slot()] = stop;
        Ok(())
    }

    /// Launches the kernel for all tasks on a stream of others.
    ///
    /// # Safety
    ///
    /// As for [`Self::launch`].
    unsafe fn launch_fused(
        &self,
        program: &Program,
        slots: &mut [u64],
        stream: Stream,
        grid: (u32, u32),
    ) -> Result<(), CudaError> {
        // What launches on other streams follow is not known.
        let mut own = None;
        let control = if grid.0 > 1 || self.plan.is_shared {
            own.insert(DeviceMemory::zeroed(program.device, self.plan.control, stream)?).address()
        } else {
            0
        };
        // SAFETY: as the caller promises.
        unsafe { self.submit_fused(program, slots, stream, grid, control) }
    }

    /// The same on our own stream, where launches follow each other: they share what tasks share.
    ///
    /// # Safety
    ///
    /// As for [`Self::launch`].
    #[inline]
    unsafe fn launch_fused_here(
        &self,
        program: &Program,
        slots: &mut [u64],
        grid: (u32, u32),
        state: &mut State,
    ) -> Result<(), CudaError> {
        let device = program.device;
        let mut control = 0;
        if grid.0 > 1 || self.plan.is_shared {
            if state.control.is_none() {
                state.control = Some(DeviceMemory::zeroed(device, self.plan.control, Stream::OWN)?);
            }
            control = state.control.as_ref().map_or(0, DeviceMemory::address);
        }
        let Some(driver) = device.driver.graphs.as_ref().filter(|_| grid.0 == 1) else {
            // SAFETY: as the caller promises.
            return unsafe { self.submit_fused(program, slots, Stream::OWN, grid, control) };
        };
        slots[program.plan.frame_slot()] = control;
        let grid = Grid { blocks: (1, 1, 1), threads: (grid.1, 1) };
        if state.single.is_none() {
            state.single = Some(Single::new(device, driver, self.fused, grid, slots)?);
        }
        let Some(single) = &state.single else { return Ok(()) };
        // SAFETY: as the caller promises.
        unsafe { single.launch(self.fused, grid, slots, Stream::OWN) }
    }

    /// # Safety
    ///
    /// As for [`Self::launch`]; at `control` is what tasks share, if there is anything.
    unsafe fn submit_fused(
        &self,
        program: &Program,
        slots: &mut [u64],
        stream: Stream,
        (blocks, threads): (u32, u32),
        control: u64,
    ) -> Result<(), CudaError> {
        let device = program.device;
        slots[program.plan.frame_slot()] = control;
        let mut parameters = [slots.as_mut_ptr().cast::<c_void>()];
        let grid = Grid { blocks: (blocks, 1, 1), threads: (threads, 1) };
        if blocks == 1 {
            return device.launch_function(self.fused, grid, stream, &mut parameters);
        }
        // SAFETY: the function takes the slots, by value; whoever made the stream keeps it.
        let code = unsafe {
            (device.driver.launch_cooperative)(
                self.fused,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream.handle(),
                parameters.as_mut_ptr(),
            )
        };
        device.check("launching a graph", code)
    }

    /// Launches the CUDA graph of grids, which is the last one then; `evicted` is one that is not kept any more.
    ///
    /// # Safety
    ///
    /// As for [`Self::launch`].
    unsafe fn launch_nodes(
        &self,
        program: &Program,
        slots: &mut [u64],
        stream: Stream,
        state: &mut State,
        evicted: &mut Option<Nodes>,
    ) -> Result<(), CudaError> {
        let grids = program.grids(slots)?.into_iter().map(Grid::rounded).collect::<Vec<_>>();
        state.can_repeat = false;
        let nodes = match state.graphs.iter().position(|nodes| nodes.grids == grids) {
            Some(at) => state.graphs.remove(at),
            None => Nodes::new(program, self, grids)?,
        };
        if state.graphs.len() == MOST_GRAPHS {
            *evicted = Some(state.graphs.remove(0));
        }
        state.graphs.push(nodes);
        let nodes = state.graphs.last_mut().expect("it was just added");
        // SAFETY: as the caller promises.
        unsafe { nodes.launch(self, slots, stream) }
    }

    /// # Safety
    ///
    /// As for [`Self::launch`].
    unsafe fn launch_on_host(
        &self,
        program: &Program,
        slots: &mut [u64],
        stream: Stream,
    ) -> Result<(), CudaError> {
        let device = program.device;
        let memory = DeviceMemory::zeroed(device, self.plan.control, stream)?;
        let mut control = memory.address();
        let grids = program.grids(slots)?;
        let mut parameters = [slots.as_mut_ptr().cast::<c_void>(), (&raw mut control).cast()];
        device.launch_function(self.store, STORING_GRID, stream, &mut parameters)?;
        let answer = Mailbox::of(device, MailPlan { results: 1, ..MailPlan::default() })?;
        let number = slots[program.plan.number_slot()];
        let patience = Patience::new();
        let mut walk = HostWalk {
            graph: self,
            program,
            grids: &grids,
            control,
            stream,
            number,
            answer: &answer,
            patience,
        };
        walk.pieces(&self.plan.pieces)?;
        answer.put_back();
        Ok(())
    }
}

/// A launch whose loops are on the host.
struct HostWalk<'g> {
    graph: &'g Graph,
    program: &'g Program,
    grids: &'g [Grid],
    control: u64,
    stream: Stream,
    number: u64,
    answer: &'g Mailbox,
    patience: Patience,
}

impl HostWalk<'_> {
    fn pieces(&mut self, pieces: &[PiecePlan]) -> Result<(), CudaError> {
        for piece in pieces {
            match piece {
                PiecePlan::Task(at) => {
                    let mut control = self.control;
                    let mut parameters = [(&raw mut control).cast()];
                    let function = self.program.tasks[*at].function;
                    self.program.device.launch_function(
                        function,
                        self.grids[*at],
                        self.stream,
                        &mut parameters,
                    )?;
                }
                PiecePlan::Sections(sections) => {
                    sections.iter().try_for_each(|section| self.pieces(section))?;
                }
                PiecePlan::Loop { counter, labels, body } => {
                    let (mut first, mut count) = *labels;
                    let labels = [(&raw mut first).cast(), (&raw mut count).cast()];
                    if self.graph.may_pass && !self.asks(self.graph.ask_enter, &labels)? {
                        continue;
                    }
                    loop {
                        self.pieces(body)?;
                        let mut slot = *counter as u32;
                        if !self.asks(self.graph.ask_again, &[(&raw mut slot).cast()])? {
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Asks the device, and waits for the answer.
    fn asks(&mut self, function: CUfunction, given: &[*mut c_void]) -> Result<bool, CudaError> {
        let device = self.program.device;
        let (mut control, mut answer) = (self.control, self.answer.address());
        let mut parameters = vec![(&raw mut control).cast()];
        parameters.extend_from_slice(given);
        parameters.push((&raw mut answer).cast());
        let one = Grid { blocks: (1, 1, 1), threads: (1, 1) };
        device.launch_function(function, one, self.stream, &mut parameters)?;
        device.wait_for(self.stream)?;
        // Turns may be too short for anybody to ask who waits for them.
        self.patience.check(device)?;
        if device.is_called_off(self.number) {
            return Err(CudaError::CalledOff);
        }
        let mut word = [0];
        self.answer.results(&mut word);
        Ok(word[0] as u32 != 0)
    }
}

impl Conditions {
    fn load(device: &Device, code: &[u8]) -> Result<Self, CudaError> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the code is whole, as whoever has verified it says.
        let status = unsafe { (device.driver.load_module)(&raw mut module, code.as_ptr().cast()) };
        device.check("loading the loops of a graph", status)?;
        let found = function(device, module, c"kp_enter")
            .and_then(|enter| Ok(Self { module, enter, again: function(device, module, c"kp_again")? }));
        if found.is_err() {
            // SAFETY: it was just loaded, and nothing runs it.
            unsafe { (device.driver.unload_module)(module) };
        }
        found
    }
}

impl Graph {
    /// Unloads what is not part of the program; nothing runs it any more.
    pub(crate) fn unload(self, device: &Device) {
        drop(self.state);
        if let Some(conditions) = &self.conditions {
            // SAFETY: loaded when this was made.
            unsafe { (device.driver.unload_module)(conditions.module) };
        }
    }
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Graph {}
// SAFETY: as above; what changes is behind a lock.
unsafe impl Sync for Graph {}
