//! The driver, opened when it is first asked for.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{CUcontext, CUdevice, CUevent, CUfunction, CUmemoryPool, CUmodule, CUstream};
use libloading::Library;

use crate::error::{CudaError, of_loader};
use crate::graph::driver::GraphDriver;

/// The address of something in the memory of a device.
pub type DevicePointer = u64;

/// The oldest driver that has everything below, as the driver counts: 11.2.
const OLDEST: c_int = 11_020;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The functions of the driver that are used. Each returns a number, 0 if all is well: an enumeration would
        /// make codes of newer drivers undefined.
        #[allow(missing_docs, reason = "they are what the driver calls them")]
        pub struct Driver {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> u32,)*
            /// What it knows of graphs.
            pub(crate) graphs: Option<GraphDriver>,
            /// The version that it says it is.
            pub version: c_int,
        }

        fn open_functions(library: &Library, version: c_int) -> Result<Driver, CudaError> {
            Ok(Driver {
                // SAFETY: the driver's functions of these names have these types.
                $($name: unsafe { symbol(library, $symbol, version)? },)*
                graphs: GraphDriver::open(library, version),
                version,
            })
        }
    };
}

functions! {
    count_devices = "cuDeviceGetCount" (*mut c_int);
    get_device = "cuDeviceGet" (*mut CUdevice, c_int);
    device_name = "cuDeviceGetName" (*mut c_char, c_int, CUdevice);
    device_attribute = "cuDeviceGetAttribute" (*mut c_int, c_int, CUdevice);
    device_memory = "cuDeviceTotalMem_v2" (*mut usize, CUdevice);
    retain_primary = "cuDevicePrimaryCtxRetain" (*mut CUcontext, CUdevice);
    default_pool = "cuDeviceGetDefaultMemPool" (*mut CUmemoryPool, CUdevice);
    set_pool = "cuMemPoolSetAttribute" (CUmemoryPool, c_int, *mut c_void);
    trim_pool = "cuMemPoolTrimTo" (CUmemoryPool, usize);
    current_context = "cuCtxGetCurrent" (*mut CUcontext);
    set_context = "cuCtxSetCurrent" (CUcontext);
    synchronize = "cuCtxSynchronize" ();
    free_memory = "cuMemGetInfo_v2" (*mut usize, *mut usize);
    load_module = "cuModuleLoadData" (*mut CUmodule, *const c_void);
    unload_module = "cuModuleUnload" (CUmodule);
    get_function = "cuModuleGetFunction" (*mut CUfunction, CUmodule, *const c_char);
    active_blocks = "cuOccupancyMaxActiveBlocksPerMultiprocessor" (*mut c_int, CUfunction, c_int, usize);
    launch = "cuLaunchKernel"
        (CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void);
    launch_cooperative = "cuLaunchCooperativeKernel"
        (CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void);
    wait_for_stream = "cuStreamSynchronize" (CUstream);
    query_stream = "cuStreamQuery" (CUstream);
    wait_for_event = "cuStreamWaitEvent" (CUstream, CUevent, c_uint);
    is_capturing = "cuStreamIsCapturing" (CUstream, *mut c_int);
    exchange_capture_mode = "cuThreadExchangeStreamCaptureMode" (*mut c_uint);
    create_event = "cuEventCreate" (*mut CUevent, c_uint);
    record_event = "cuEventRecord" (CUevent, CUstream);
    query_event = "cuEventQuery" (CUevent);
    wait_until = "cuEventSynchronize" (CUevent);
    elapsed = "cuEventElapsedTime" (*mut f32, CUevent, CUevent);
    destroy_event = "cuEventDestroy_v2" (CUevent);
    allocate = "cuMemAllocAsync" (*mut DevicePointer, usize, CUstream);
    free = "cuMemFreeAsync" (DevicePointer, CUstream);
    allocate_host = "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    free_host = "cuMemFreeHost" (*mut c_void);
    copy_to_device = "cuMemcpyHtoDAsync_v2" (DevicePointer, *const c_void, usize, CUstream);
    copy_to_host = "cuMemcpyDtoHAsync_v2" (*mut c_void, DevicePointer, usize, CUstream);
    copy_on_device = "cuMemcpyDtoDAsync_v2" (DevicePointer, DevicePointer, usize, CUstream);
    fill_bytes = "cuMemsetD8Async" (DevicePointer, u8, usize, CUstream);
    pointer_attribute = "cuPointerGetAttribute" (*mut c_void, c_int, DevicePointer);
    error_name = "cuGetErrorName" (u32, *mut *const c_char);
    error_text = "cuGetErrorString" (u32, *mut *const c_char);
}

/// # Safety
///
/// The library has a function of this name and type, or none of this name.
unsafe fn symbol<T: Copy>(library: &Library, name: &str, version: c_int) -> Result<T, CudaError> {
    // SAFETY: as the caller promises.
    match unsafe { library.get::<T>(name.as_bytes()) } {
        Ok(symbol) => Ok(*symbol),
        Err(_) => Err(CudaError::OldDriver { version }),
    }
}

/// Whether this is the child of a process that had opened the driver.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_fork() {
    IS_FORKED.store(true, Ordering::Relaxed);
}

/// Whether this process is a child of one that had opened the driver: nothing of CUDA works in it.
#[inline]
#[must_use]
pub fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Relaxed)
}

static DRIVER: OnceLock<Result<Driver, CudaError>> = OnceLock::new();

/// The driver, if it is open.
pub(crate) fn if_open() -> Option<&'static Driver> {
    if is_forked() {
        return None;
    }
    DRIVER.get().and_then(|driver| driver.as_ref().ok())
}

/// The driver. `KEYPRINT_CUDA_DRIVER` is the path of another library than the system's.
///
/// # Errors
///
/// If there is none, it is too old, it has no device, or the process was forked from one that had opened it.
pub fn driver() -> Result<&'static Driver, CudaError> {
    if is_forked() {
        return Err(CudaError::Forked);
    }
    DRIVER.get_or_init(open).as_ref().map_err(Clone::clone)
}

fn open() -> Result<Driver, CudaError> {
    let named = std::env::var("KEYPRINT_CUDA_DRIVER").ok().filter(|path| !path.is_empty());
    let path = named.unwrap_or_else(|| "libcuda.so.1".to_owned());
    // SAFETY: loading the driver runs its initialisers, which is what everybody does with it.
    let library = unsafe { Library::new(&path) }
        .map_err(|error| CudaError::NoDriver { path: path.clone(), reason: of_loader(&error) })?;
    let mut version = 0;
    // SAFETY: functions of the driver by these names have these types.
    unsafe {
        let get_version: unsafe extern "C" fn(*mut c_int) -> u32 = symbol(&library, "cuDriverGetVersion", 0)?;
        let code = get_version(&raw mut version);
        if code != 0 || version < OLDEST {
            return Err(CudaError::OldDriver { version });
        }
        let init: unsafe extern "C" fn(c_uint) -> u32 = symbol(&library, "cuInit", version)?;
        let functions = open_functions(&library, version)?;
        let code = init(0);
        if code == crate::error::NO_DEVICE {
            return Err(CudaError::NoDevice);
        }
        if code != 0 {
            return Err(CudaError::of(&functions, "starting the driver", code));
        }
        libc::pthread_atfork(None, None, Some(note_fork));
        // The driver is never closed: its threads and ours may be in it until the process ends.
        std::mem::forget(library);
        Ok(functions)
    }
}
