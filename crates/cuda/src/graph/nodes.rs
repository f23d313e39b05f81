//! CUDA graphs, which are built once, and launched with other arguments each time: those of a graph's tasks, for grids of
//! the same sizes, and that of the one kernel which does all of them, since a graph of one kernel is launched in less time
//! than a kernel.
//!
//! The first node is given the slots by value, anew for each launch; of several, it stores them where all others read them:
//! so launches that are under way keep theirs.

use std::ffi::{c_uint, c_void};

use cudarc::driver::sys::{CUfunction, CUgraph, CUgraphExec, CUgraphNode};
use keyprint_codegen::cuda::PiecePlan;

use super::driver::{ConditionalNode, GraphDriver, KernelNode};
use super::{Conditions, Graph};
use crate::device::Device;
use crate::driver::if_open;
use crate::error::CudaError;
use crate::memory::DeviceMemory;
use crate::program::{Grid, Program};
use crate::stream::{Event, Stream};

/// A condition begins each launch of the graph with the value that it was made with.
const ASSIGN_DEFAULT: c_uint = 1;

/// The grid of the kernel that stores.
pub(super) const STORING_GRID: Grid = Grid { blocks: (1, 1, 1), threads: (256, 1) };

/// A CUDA graph, and what is launched of it.
struct Built {
    device: &'static Device,
    driver: &'static GraphDriver,
    graph: CUgraph,
    exec: CUgraphExec,
    /// The node that is given arguments at each launch.
    first: CUgraphNode,
}

/// The CUDA graph of a graph's tasks.
pub(super) struct Nodes {
    built: Built,
    /// The grids that its tasks have.
    pub(super) grids: Vec<Grid>,
    control: DeviceMemory,
    /// When it can be launched on other streams than our own; nothing if it can be.
    ready: Option<Event>,
}

/// The CUDA graph of one kernel.
pub(super) struct Single(Built);

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Built {}

impl Single {
    /// Builds the graph of a kernel that takes the slots.
    pub(super) fn new(
        device: &'static Device,
        driver: &'static GraphDriver,
        function: CUfunction,
        grid: Grid,
        slots: &mut [u64],
    ) -> Result<Self, CudaError> {
        let mut built = Built::new(device, driver)?;
        let mut parameters = [slots.as_mut_ptr().cast::<c_void>()];
        built.first = built.kernel(built.graph, &[], function, grid, &mut parameters)?;
        built.instantiate()?;
        Ok(Self(built))
    }

    /// Launches the kernel on a stream.
    ///
    /// # Safety
    ///
    /// The slots are those of the kernel.
    pub(super) unsafe fn launch(
        &self,
        function: CUfunction,
        grid: Grid,
        slots: &mut [u64],
        stream: Stream,
    ) -> Result<(), CudaError> {
        let mut parameters = [slots.as_mut_ptr().cast::<c_void>()];
        // SAFETY: as the caller promises.
        unsafe { self.0.launch(function, grid, &mut parameters, stream) }
    }
}

impl Nodes {
    /// Builds the graph of a program.
    pub(super) fn new(program: &Program, graph: &Graph, grids: Vec<Grid>) -> Result<Self, CudaError> {
        let device = program.device;
        let driver = device.driver.graphs.as_ref().expect("graphs are only built where there are some");
        let control = DeviceMemory::zeroed(device, graph.plan.control, Stream::OWN)?;
        let mut nodes = Self { built: Built::new(device, driver)?, grids, control, ready: None };
        let mut slots = vec![0u64; program.plan.all_slots()];
        let mut control = nodes.control.address();
        let mut parameters = [slots.as_mut_ptr().cast::<c_void>(), (&raw mut control).cast()];
        let handle = nodes.built.graph;
        nodes.built.first = nodes.built.kernel(handle, &[], graph.store, STORING_GRID, &mut parameters)?;
        let first = vec![nodes.built.first];
        nodes.pieces(program, graph, handle, &graph.plan.pieces, first, 0)?;
        nodes.built.instantiate()?;
        nodes.ready = Some(Event::on(device, Stream::OWN)?);
        Ok(nodes)
    }

    /// Launches it on a stream.
    ///
    /// # Safety
    ///
    /// The slots are those of the program.
    pub(super) unsafe fn launch(
        &mut self,
        graph: &Graph,
        slots: &mut [u64],
        stream: Stream,
    ) -> Result<(), CudaError> {
        if stream != Stream::OWN
            && let Some(ready) = &self.ready
        {
            if ready.has_happened() {
                self.ready = None;
            } else {
                ready.is_before(stream)?;
            }
        }
        let mut control = self.control.address();
        let mut parameters = [slots.as_mut_ptr().cast::<c_void>(), (&raw mut control).cast()];
        // SAFETY: as the caller promises.
        unsafe { self.built.launch(graph.store, STORING_GRID, &mut parameters, stream) }
    }

    /// Adds pieces behind others; returns what comes last.
    fn pieces(
        &self,
        program: &Program,
        own: &Graph,
        graph: CUgraph,
        pieces: &[PiecePlan],
        mut after: Vec<CUgraphNode>,
        depth: u32,
    ) -> Result<Vec<CUgraphNode>, CudaError> {
        for piece in pieces {
            after = match piece {
                PiecePlan::Task(at) => {
                    let mut control = self.control.address();
                    let mut parameters = [(&raw mut control).cast()];
                    let function = program.tasks[*at].function;
                    vec![self.built.kernel(graph, &after, function, self.grids[*at], &mut parameters)?]
                }
                PiecePlan::Sections(sections) => {
                    let mut ends = Vec::new();
                    for section in sections {
                        ends.extend(self.pieces(program, own, graph, section, after.clone(), depth)?);
                    }
                    ends.sort_unstable();
                    ends.dedup();
                    ends
                }
                PiecePlan::Loop { counter, labels, body } => {
                    let conditions =
                        own.conditions.as_ref().expect("loops are only built where there are some");
                    self.repeat(program, own, conditions, graph, (*counter, *labels, body), &after, depth)?
                }
            };
        }
        Ok(after)
    }

    #[allow(clippy::too_many_arguments, reason = "it is one step of a walk")]
    fn repeat(
        &self,
        program: &Program,
        own: &Graph,
        conditions: &Conditions,
        graph: CUgraph,
        (counter, labels, body): (usize, (u32, u32), &[PiecePlan]),
        after: &[CUgraphNode],
        depth: u32,
    ) -> Result<Vec<CUgraphNode>, CudaError> {
        let Built { device, driver, .. } = &self.built;
        let driver = driver.loops.as_ref().expect("loops are only built where there are some");
        // A loop inside of another begins anew in each turn; one that may be passed over is asked.
        let is_asked = depth > 0 || own.may_pass;
        let (value, flags) = if is_asked { (0, 0) } else { (1, ASSIGN_DEFAULT) };
        let context = device.context;
        let mut handle = 0u64;
        // SAFETY: the driver sets the handle.
        let code = unsafe { (driver.create_condition)(&raw mut handle, graph, context, value, flags) };
        device.check("making a loop of a graph", code)?;
        let one = Grid { blocks: (1, 1, 1), threads: (1, 1) };
        let mut control = self.control.address();
        let mut after = after.to_vec();
        if is_asked {
            let (mut first, mut count) = labels;
            let mut parameters = [
                (&raw mut control).cast(),
                (&raw mut handle).cast(),
                (&raw mut first).cast(),
                (&raw mut count).cast(),
            ];
            after = vec![self.built.kernel(graph, &after, conditions.enter, one, &mut parameters)?];
        }
        let mut node = std::ptr::null_mut();
        let mut parameters = ConditionalNode::repeating(handle, context);
        // SAFETY: a node of this kind is described as the driver has it; it sets the graph of the body.
        let code = unsafe {
            let data = std::ptr::null();
            (driver.add_node)(&raw mut node, graph, after.as_ptr(), data, after.len(), &raw mut parameters)
        };
        device.check("adding a loop to a graph", code)?;
        let inner = parameters
            .body()
            .ok_or_else(|| CudaError::Other("the driver made a loop without a body".to_owned()))?;
        let last = self.pieces(program, own, inner, body, Vec::new(), depth + 1)?;
        let mut slot = counter as u32;
        let mut parameters = [(&raw mut control).cast(), (&raw mut handle).cast(), (&raw mut slot).cast()];
        self.built.kernel(inner, &last, conditions.again, one, &mut parameters)?;
        Ok(vec![node])
    }
}

impl Built {
    /// An empty graph.
    fn new(device: &'static Device, driver: &'static GraphDriver) -> Result<Self, CudaError> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the driver sets the handle.
        device.check("making a graph", unsafe { (driver.create)(&raw mut graph, 0) })?;
        Ok(Self { device, driver, graph, exec: std::ptr::null_mut(), first: std::ptr::null_mut() })
    }

    fn kernel(
        &self,
        graph: CUgraph,
        after: &[CUgraphNode],
        function: CUfunction,
        grid: Grid,
        parameters: &mut [*mut c_void],
    ) -> Result<CUgraphNode, CudaError> {
        let kernel = described(self.device, function, grid, parameters);
        let mut node = std::ptr::null_mut();
        // SAFETY: the parameters are those of the function, and are copied.
        let code = unsafe {
            (self.driver.add_kernel)(&raw mut node, graph, after.as_ptr(), after.len(), &raw const kernel)
        };
        self.device.check("adding a kernel to a graph", code)?;
        Ok(node)
    }

    /// Makes what is launched, and loads it on our own stream.
    fn instantiate(&mut self) -> Result<(), CudaError> {
        // SAFETY: the driver sets the handle of what is made of the graph.
        unsafe {
            let code = (self.driver.instantiate)(&raw mut self.exec, self.graph, 0);
            self.device.check("making a graph", code)?;
            self.device.check("loading a graph", (self.driver.upload)(self.exec, Stream::OWN.handle()))
        }
    }

    /// Gives the first node other arguments, and launches the graph.
    ///
    /// # Safety
    ///
    /// The parameters are those of the function of that node.
    #[inline]
    unsafe fn launch(
        &self,
        function: CUfunction,
        grid: Grid,
        parameters: &mut [*mut c_void],
        stream: Stream,
    ) -> Result<(), CudaError> {
        let kernel = described(self.device, function, grid, parameters);
        // SAFETY: the node is one of the graph, and the parameters are copied; as the caller promises.
        unsafe {
            let code = (self.driver.set_kernel)(self.exec, self.first, &raw const kernel);
            self.device.check("setting the arguments of a graph", code)?;
            self.device.check("launching a graph", (self.driver.launch)(self.exec, stream.handle()))
        }
    }
}

fn described(
    device: &Device,
    function: CUfunction,
    grid: Grid,
    parameters: &mut [*mut c_void],
) -> KernelNode {
    KernelNode {
        function,
        blocks: [grid.blocks.0, grid.blocks.1, grid.blocks.2],
        threads: [grid.threads.0, grid.threads.1, 1],
        shared: 0,
        parameters: parameters.as_mut_ptr(),
        extra: std::ptr::null_mut(),
        kernel: std::ptr::null_mut(),
        context: device.context,
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        if if_open().is_none() {
            return;
        }
        let Ok(_entered) = self.device.enter() else { return };
        // SAFETY: made when this was.
        unsafe {
            if !self.exec.is_null() {
                (self.driver.destroy_exec)(self.exec);
            }
            (self.driver.destroy)(self.graph);
        }
    }
}
