//! What drivers know of graphs. Older ones know none, or none with loops.

use std::ffi::{c_int, c_uint, c_void};

use cudarc::driver::sys::{CUcontext, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUstream};
use libloading::Library;

/// The first drivers that have graphs of kernels as they are made here, and loops in graphs.
const GRAPHS_SINCE: c_int = 12_000;
const LOOPS_SINCE: c_int = 12_040;

/// A kernel as a node.
#[repr(C)]
pub(super) struct KernelNode {
    pub(super) function: CUfunction,
    pub(super) blocks: [c_uint; 3],
    pub(super) threads: [c_uint; 3],
    pub(super) shared: c_uint,
    pub(super) parameters: *mut *mut c_void,
    pub(super) extra: *mut *mut c_void,
    pub(super) kernel: *mut c_void,
    pub(super) context: CUcontext,
}

/// A conditional node, as the driver describes nodes of any kind: 256 bytes.
#[repr(C)]
pub(super) struct ConditionalNode {
    kind: c_uint,
    reserved: [c_int; 3],
    handle: u64,
    condition: c_uint,
    size: c_uint,
    bodies: *mut CUgraph,
    context: CUcontext,
    unused: [u64; 26],
}

const _: () = assert!(size_of::<ConditionalNode>() == 256 && size_of::<KernelNode>() == 72);

/// How the driver numbers kinds of nodes, and of conditions.
const CONDITIONAL: c_uint = 13;
const WHILE: c_uint = 1;

impl ConditionalNode {
    /// What repeats a graph while a handle is not zero.
    pub(super) fn repeating(handle: u64, context: CUcontext) -> Self {
        Self {
            kind: CONDITIONAL,
            reserved: [0; 3],
            handle,
            condition: WHILE,
            size: 1,
            bodies: std::ptr::null_mut(),
            context,
            unused: [0; 26],
        }
    }

    /// The graph that is repeated; the driver has made the node.
    pub(super) fn body(&self) -> Option<CUgraph> {
        // SAFETY: the driver sets the pointer to as many graphs as were asked for: one.
        (!self.bodies.is_null()).then(|| unsafe { *self.bodies })
    }
}

type Condition = unsafe extern "C" fn(*mut u64, CUgraph, CUcontext, c_uint, c_uint) -> u32;
type AddNode = unsafe extern "C" fn(
    *mut CUgraphNode,
    CUgraph,
    *const CUgraphNode,
    *const c_void,
    usize,
    *mut ConditionalNode,
) -> u32;

/// The functions that make graphs.
pub(crate) struct GraphDriver {
    pub(super) create: unsafe extern "C" fn(*mut CUgraph, c_uint) -> u32,
    pub(super) destroy: unsafe extern "C" fn(CUgraph) -> u32,
    pub(super) add_kernel:
        unsafe extern "C" fn(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const KernelNode) -> u32,
    pub(super) instantiate: unsafe extern "C" fn(*mut CUgraphExec, CUgraph, u64) -> u32,
    pub(super) upload: unsafe extern "C" fn(CUgraphExec, CUstream) -> u32,
    pub(super) set_kernel: unsafe extern "C" fn(CUgraphExec, CUgraphNode, *const KernelNode) -> u32,
    pub(super) launch: unsafe extern "C" fn(CUgraphExec, CUstream) -> u32,
    pub(super) destroy_exec: unsafe extern "C" fn(CUgraphExec) -> u32,
    /// Loops.
    pub(super) loops: Option<LoopDriver>,
}

/// The functions that make loops in graphs.
pub(crate) struct LoopDriver {
    pub(super) create_condition: Condition,
    pub(super) add_node: AddNode,
}

impl GraphDriver {
    /// What a driver has; nothing if it is too old.
    pub(crate) fn open(library: &Library, version: c_int) -> Option<Self> {
        if version < GRAPHS_SINCE {
            return None;
        }
        // SAFETY: the driver's functions of these names have these types.
        unsafe {
            Some(Self {
                create: symbol(library, "cuGraphCreate")?,
                destroy: symbol(library, "cuGraphDestroy")?,
                add_kernel: symbol(library, "cuGraphAddKernelNode_v2")?,
                instantiate: symbol(library, "cuGraphInstantiateWithFlags")?,
                upload: symbol(library, "cuGraphUpload")?,
                set_kernel: symbol(library, "cuGraphExecKernelNodeSetParams_v2")?,
                launch: symbol(library, "cuGraphLaunch")?,
                destroy_exec: symbol(library, "cuGraphExecDestroy")?,
                loops: if version < LOOPS_SINCE { None } else { LoopDriver::open(library) },
            })
        }
    }
}

impl LoopDriver {
    unsafe fn open(library: &Library) -> Option<Self> {
        // SAFETY: the driver's functions of these names have these types.
        unsafe {
            Some(Self {
                create_condition: symbol(library, "cuGraphConditionalHandleCreate")?,
                add_node: symbol(library, "cuGraphAddNode_v2")?,
            })
        }
    }
}

/// # Safety
///
/// The library has a function of this name and type, or none of this name.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Option<T> {
    // SAFETY: as the caller promises.
    unsafe { library.get::<T>(name.as_bytes()) }.ok().map(|symbol| *symbol)
}
