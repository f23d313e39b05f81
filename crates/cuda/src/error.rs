//! What goes wrong with CUDA, as people are told.

use std::ffi::CStr;

use crate::driver::Driver;

/// The driver's code for a machine without a device.
pub(crate) const NO_DEVICE: u32 = 100;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
const DEINITIALIZED: u32 = 4;

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// There is no driver.
    #[error("the CUDA driver cannot be opened: {reason}")]
    NoDriver {
        /// The library that was tried.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// The driver lacks something.
    #[error("the CUDA driver is too old: it is of CUDA {}.{}, and 11.2 is needed", version / 1000, version % 1000 / 10)]
    OldDriver {
        /// The version that it says it is.
        version: i32,
    },
    /// The driver finds no device.
    #[error("the CUDA driver finds no device")]
    NoDevice,
    /// There is no device of this number.
    #[error("there is no device `cuda:{ordinal}`: the driver finds {count}")]
    NoSuchDevice {
        /// The number that was asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// A device has no room.
    #[error(
        "the device `cuda:{device}` is out of memory: {} were asked for, {} of {} are free",
        shown(*asked), shown(*free), shown(*total)
    )]
    OutOfMemory {
        /// Which device.
        device: u32,
        /// How many bytes were asked for.
        asked: u64,
        /// How many are free.
        free: u64,
        /// How many there are.
        total: u64,
    },
    /// The driver refuses something.
    #[error("{what}: the driver says {name} ({code}), {text}")]
    Driver {
        /// What was being done.
        what: String,
        /// The code.
        code: u32,
        /// Its name.
        name: String,
        /// What it means.
        text: String,
    },
    /// A kernel did something after which nothing on the device works.
    #[error(
        "the context of `cuda:{device}` is lost: an earlier kernel ended with {name} ({code}), {text}; nothing on this \
         device works in this process any more"
    )]
    Lost {
        /// Which device.
        device: u32,
        /// The code.
        code: u32,
        /// Its name.
        name: String,
        /// What it means.
        text: String,
    },
    /// The process was forked after the driver was opened.
    #[error("this process was forked from one that had used CUDA, which does not work in the child")]
    Forked,
    /// NVRTC cannot be opened.
    #[error("NVRTC cannot be opened: {0}")]
    NoNvrtc(String),
    /// NVRTC refuses a text.
    #[error("NVRTC failed: {0}")]
    Compiler(String),
    /// Somebody called it off while a device was waited for, which goes on.
    #[error("waiting for the device was interrupted")]
    Interrupted,
    /// A loop of a graph ended because somebody called it off in another thread.
    #[error("a loop of a graph was ended before it was done: another thread was interrupted")]
    CalledOff,
    /// Something else.
    #[error("{0}")]
    Other(String),
}

impl CudaError {
    /// What a code means, for something that was being done.
    pub(crate) fn of(driver: &Driver, what: &str, code: u32) -> Self {
        let (name, text) = words(driver, code);
        Self::Driver { what: what.to_owned(), code, name, text }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoDriver { .. } => "install the NVIDIA driver, or run on the CPU: `kp.init(arch=kp.cpu)`",
            Self::OldDriver { .. } => "install a newer driver",
            Self::NoDevice => {
                "look at `nvidia-smi`, and at `CUDA_VISIBLE_DEVICES`, which may hide the devices"
            }
            Self::NoSuchDevice { .. } => "devices count from 0; `CUDA_VISIBLE_DEVICES` says which are seen",
            Self::OutOfMemory { .. } => {
                "drop arrays that are not needed any more; other libraries keep what they freed: `torch.cuda.empty_cache()`"
            }
            Self::Lost { .. } => {
                "start the process anew; `kp.init(debug=True)` checks indices, and `compute-sanitizer` finds what is wrong"
            }
            Self::Forked => {
                "start processes by `multiprocessing.get_context(\"spawn\")`, or fork before CUDA is used"
            }
            Self::CalledOff => "what it computed is not complete: launch it again",
            Self::NoNvrtc(_) => {
                "install it: `pip install nvidia-cuda-nvrtc`, or set `KEYPRINT_NVRTC` to the path of `libnvrtc.so`"
            }
            _ => "",
        }
    }
}

/// Name and meaning of a code.
pub(crate) fn words(driver: &Driver, code: u32) -> (String, String) {
    let text = |function: unsafe extern "C" fn(u32, *mut *const std::ffi::c_char) -> u32| {
        let mut text = std::ptr::null();
        // SAFETY: the driver sets the pointer to a text of its own, or says that it does not know the code.
        unsafe {
            if function(code, &raw mut text) == 0 && !text.is_null() {
                return CStr::from_ptr(text).to_string_lossy().into_owned();
            }
        }
        "an unknown error".to_owned()
    };
    (text(driver.error_name), text(driver.error_text))
}

/// What the system says about a library that cannot be opened.
pub(crate) fn of_loader(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Whether nothing on the device works any more after a code.
pub(crate) fn is_fatal(code: u32) -> bool {
    matches!(code, DEINITIALIZED | 700 | 702 | 709 | 710 | 714..=719 | 721)
}

fn shown(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "bytes");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") }
}
