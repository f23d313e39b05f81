//! NVRTC: from CUDA C++ to code for a device.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;

use crate::error::{CudaError, of_loader};

type Handle = *mut c_void;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;

/// Room for texts that are nested as deeply as is allowed.
const STACK: usize = 64 << 20;

/// NVRTC, open.
pub struct Nvrtc {
    library: Library,
    /// Its version: 12.9 is `(12, 9)`.
    pub version: (i32, i32),
}

/// What NVRTC makes of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Code for one compute capability.
    pub cubin: Vec<u8>,
    /// What it was made of, for people to read.
    pub ptx: Vec<u8>,
}

/// The libraries of NVRTC in a directory, the newest first.
#[must_use]
pub fn libraries_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut all: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            // Others give their copies names of their own: `libnvrtc-b51b459d.so.12`.
            let (stem, version) = name.split_once(".so")?;
            let is_nvrtc =
                stem.starts_with("libnvrtc") && !stem.contains("builtins") && !stem.contains("alt");
            let numbers = version.split('.').filter_map(|number| number.parse().ok()).collect();
            is_nvrtc.then(|| (numbers, entry.path()))
        })
        .collect();
    all.sort();
    all.into_iter().rev().map(|(_, path)| path).collect()
}

/// Where packages of Python keep NVRTC, below the directories that modules are found in.
const PACKAGES: [&str; 4] = ["nvidia/cuda_nvrtc/lib", "nvidia/cu13/lib", "nvidia/cu12/lib", "torch/lib"];

/// Where toolkits keep it.
const TOOLKIT: [&str; 4] = ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"];

/// Finds NVRTC: what `KEYPRINT_NVRTC` names and nothing else, if it is set; otherwise in a toolkit, or among packages in
/// directories that modules of Python are found in.
#[must_use]
pub fn find(variable: &dyn Fn(&str) -> Option<String>, modules: &[PathBuf]) -> Option<PathBuf> {
    if let Some(given) = variable("KEYPRINT_NVRTC").filter(|given| !given.is_empty()) {
        let path = PathBuf::from(given);
        return if path.is_dir() {
            libraries_in(&path).into_iter().next()
        } else {
            path.exists().then_some(path)
        };
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable).filter(|home| !home.is_empty());
    let homes = homes.chain(["/usr/local/cuda".to_owned()]);
    let toolkits = homes.flat_map(|home| TOOLKIT.map(|part| Path::new(&home).join(part)));
    let packages = PACKAGES.iter().flat_map(|package| modules.iter().map(move |module| module.join(package)));
    toolkits.chain(packages).find_map(|directory| libraries_in(&directory).into_iter().next())
}

impl Nvrtc {
    /// Opens a library.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is no NVRTC.
    pub fn open(path: &Path) -> Result<Self, CudaError> {
        let failed = |error: libloading::Error| {
            CudaError::NoNvrtc(format!("{}: {}", path.display(), of_loader(&error)))
        };
        // It opens what it needs by a bare name, which the loader only finds if it is open already.
        if let Some(directory) = path.parent() {
            let beside = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
            for entry in beside {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("libnvrtc-builtins") && !name.contains("alt") {
                    // SAFETY: a library of data and functions that NVRTC would open itself.
                    if let Ok(builtins) = unsafe { Library::new(entry.path()) } {
                        std::mem::forget(builtins);
                    }
                }
            }
        }
        // SAFETY: NVRTC's initialisers do nothing that matters to others.
        let library = unsafe { Library::new(path) }.map_err(failed)?;
        let mut version = (0, 0);
        // SAFETY: NVRTC's function of this name has this type.
        unsafe {
            let ask = library
                .get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(b"nvrtcVersion")
                .map_err(failed)?;
            ask(&raw mut version.0, &raw mut version.1);
        }
        Ok(Self { library, version })
    }

    /// Compiles a text.
    ///
    /// # Errors
    ///
    /// If NVRTC refuses it: what it says.
    pub fn compile(&self, text: &str, options: &[String]) -> Result<Compiled, CudaError> {
        // It goes as deep as the text does, whatever stack the caller has.
        std::thread::scope(|scope| {
            let compile = || self.compile_here(text, options);
            let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, compile);
            let thread = thread.map_err(|error| CudaError::Compiler(error.to_string()))?;
            thread.join().unwrap_or_else(|_| Err(CudaError::Compiler("it panicked".to_owned())))
        })
    }

    fn compile_here(&self, text: &str, options: &[String]) -> Result<Compiled, CudaError> {
        let source = CString::new(text).map_err(|_| CudaError::Compiler("a text with a zero".to_owned()))?;
        let options: Vec<CString> = options
            .iter()
            .map(|option| CString::new(option.as_str()))
            .collect::<Result<_, _>>()
            .map_err(|_| CudaError::Compiler("an option with a zero".to_owned()))?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program: Handle = std::ptr::null_mut();
        // SAFETY: NVRTC's functions of these names have these types; what they are given lives until they return, and
        // the program until the end of this.
        unsafe {
            let create: unsafe extern "C" fn(
                *mut Handle,
                *const c_char,
                *const c_char,
                c_int,
                *const Handle,
                *const Handle,
            ) -> c_int = self.function(b"nvrtcCreateProgram")?;
            let code = create(
                &raw mut program,
                source.as_ptr(),
                c"kernel.cu".as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            );
            if code != 0 {
                return Err(CudaError::Compiler(format!("it cannot make a program ({code})")));
            }
            let compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int =
                self.function(b"nvrtcCompileProgram")?;
            let code = compile(program, pointers.len() as c_int, pointers.as_ptr());
            let output = if code == 0 {
                let cubin = self.output(program, b"nvrtcGetCUBINSize", b"nvrtcGetCUBIN");
                cubin.map(|cubin| Compiled {
                    cubin,
                    ptx: self.output(program, b"nvrtcGetPTXSize", b"nvrtcGetPTX").unwrap_or_default(),
                })
            } else {
                let log = self.output(program, b"nvrtcGetProgramLogSize", b"nvrtcGetProgramLog");
                let log = log.map(|log| String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned());
                Err(CudaError::Compiler(log.unwrap_or_else(|_| format!("code {code}"))))
            };
            let destroy: unsafe extern "C" fn(*mut Handle) -> c_int =
                self.function(b"nvrtcDestroyProgram")?;
            destroy(&raw mut program);
            output
        }
    }

    /// # Safety
    ///
    /// The function of this name has this type.
    unsafe fn function<T: Copy>(&self, name: &[u8]) -> Result<T, CudaError> {
        // SAFETY: as the caller promises.
        match unsafe { self.library.get::<T>(name) } {
            Ok(function) => Ok(*function),
            Err(error) => Err(CudaError::NoNvrtc(error.to_string())),
        }
    }

    /// # Safety
    ///
    /// The program is one of NVRTC's, and the names are of functions that ask for a size, and for that many bytes.
    unsafe fn output(&self, program: Handle, size: &[u8], get: &[u8]) -> Result<Vec<u8>, CudaError> {
        // SAFETY: as the caller promises.
        unsafe {
            let (size, get): (Size, Get) = (self.function(size)?, self.function(get)?);
            let mut bytes = 0;
            let code = size(program, &raw mut bytes);
            if code != 0 {
                return Err(CudaError::Compiler(format!("it has no output ({code})")));
            }
            let mut output = vec![0u8; bytes];
            match get(program, output.as_mut_ptr().cast()) {
                0 => Ok(output),
                code => Err(CudaError::Compiler(format!("it has no output ({code})"))),
            }
        }
    }
}
