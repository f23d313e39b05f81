//! The environment variables of the project. `docs/operating.md` lists them; a test compares.

use std::path::{Path, PathBuf};

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name, always with the prefix `KEYPRINT_`.
    pub name: &'static str,
    /// What it does.
    pub does: &'static str,
}

impl Variable {
    /// Its value; an empty one is none.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        std::env::var_os(self.name)
            .map(|value| value.to_string_lossy().into_owned())
            .filter(|value| !value.is_empty())
    }

    /// Its value as a path, `~` for the home directory.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        let value = std::env::var_os(self.name).filter(|value| !value.is_empty())?;
        Some(expand_home(Path::new(&value)))
    }

    /// Whether it is set to anything but `0`.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.get().is_some_and(|value| value != "0")
    }
}

/// A path whose first component `~` stands for the home directory.
#[must_use]
pub fn expand_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// The directory `keyprint` below one that the platform has for a purpose: what a variable says, or a place in the
/// home directory.
pub(crate) fn platform_directory(variable: &str, in_home: &str, on_macos: &str) -> Option<PathBuf> {
    // A relative one is to be ignored, says the specification.
    let base = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().filter(|home| home.is_absolute());
    let in_home = if cfg!(target_os = "macos") { on_macos } else { in_home };
    Some(base.or_else(|| home().map(|home| home.join(in_home)))?.join("keyprint"))
}

/// Where the store is.
pub const CACHE_DIR: Variable = Variable {
    name: "KEYPRINT_CACHE_DIR",
    does: "the directory of the store, instead of `keyprint` in the platform's cache directory",
};

/// How large the store may grow.
pub const CACHE_SIZE: Variable = Variable {
    name: "KEYPRINT_CACHE_SIZE",
    does: "the size limit of the store, such as `2 GiB`; 10 GiB unless set",
};

/// An extra salt of every key.
pub const CACHE_VERSION: Variable = Variable {
    name: "KEYPRINT_CACHE_VERSION",
    does: "a salt that enters every key: changing it makes every lookup miss",
};

/// How long to wait for somebody else's build.
pub const CACHE_WAIT: Variable = Variable {
    name: "KEYPRINT_CACHE_WAIT",
    does: "seconds to wait for another process's build before building privately; 300 unless set",
};

/// Where private things are.
pub const CONFIG_DIR: Variable = Variable {
    name: "KEYPRINT_CONFIG_DIR",
    does: "the directory of what must stay private, instead of `keyprint` in the platform's configuration directory",
};

/// Whether there is no store.
pub const DISABLE: Variable = Variable {
    name: "KEYPRINT_DISABLE",
    does: "anything but `0`: nothing is looked up or stored, on disk or in other tiers",
};

/// Whether the store is not written.
pub const READONLY: Variable = Variable {
    name: "KEYPRINT_READONLY",
    does: "anything but `0`: the store is read and never written, without a word about it",
};

/// Whether everything is built anew.
pub const RECACHE: Variable = Variable {
    name: "KEYPRINT_RECACHE",
    does: "anything but `0`: everything is built once more in each process, and stored in place of what was",
};

/// Whether misses are explained.
pub const EXPLAIN: Variable = Variable {
    name: "KEYPRINT_EXPLAIN",
    does: "anything but `0` prints a line for each kernel that is compiled, with the reason",
};

/// What is logged.
pub const LOG: Variable = Variable {
    name: "KEYPRINT_LOG",
    does: "`debug`, `info` or `warning`: writes the log of kernels to the standard error stream",
};

/// Which C compiler makes kernels.
pub const CC: Variable = Variable {
    name: "KEYPRINT_CC",
    does: "the C compiler of the kernel language, with arguments if need be; otherwise `CC`, `cc`, `clang`, `gcc`",
};

/// The driver of CUDA devices.
pub const CUDA_DRIVER: Variable = Variable {
    name: "KEYPRINT_CUDA_DRIVER",
    does: "the library of the CUDA driver, if it is another than `libcuda.so.1`",
};

/// Which NVRTC makes kernels for CUDA devices.
pub const NVRTC: Variable = Variable {
    name: "KEYPRINT_NVRTC",
    does: "NVRTC, or its directory; otherwise a toolkit's (`CUDA_HOME`, `CUDA_PATH`, `/usr/local/cuda`), the one of the \
           packages `nvidia-cuda-nvrtc` or `nvidia-cuda-nvrtc-cu12`, or torch's",
};

/// Where stages of kernels are kept.
pub const DUMP: Variable = Variable {
    name: "KEYPRINT_DUMP",
    does: "a directory that keeps the IR and the C of every kernel that is compiled; for a device, the CUDA C++, the \
           PTX, the code, and its instructions (`.sass`) if there is an `nvdisasm`",
};

/// How graphs are launched on a device.
pub const GRAPH: Variable = Variable {
    name: "KEYPRINT_GRAPH",
    does: "how graphs are launched on a device, unless the kernel says so: `fused`, `block`, `grid`, `nodes` or `host`; \
           otherwise in the way that is expected to take the least time",
};

/// How many threads work on a loop.
pub const THREADS: Variable = Variable {
    name: "KEYPRINT_THREADS",
    does: "how many threads work on a parallel loop of a kernel; one for each core unless set",
};

/// All of them.
pub const ALL: &[Variable] = &[
    CACHE_DIR,
    CACHE_SIZE,
    CACHE_VERSION,
    CACHE_WAIT,
    CC,
    CONFIG_DIR,
    CUDA_DRIVER,
    DISABLE,
    DUMP,
    EXPLAIN,
    GRAPH,
    LOG,
    NVRTC,
    READONLY,
    RECACHE,
    THREADS,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_first_component_stands_for_the_home_directory() {
        let home = std::env::home_dir().unwrap();
        assert_eq!(expand_home(Path::new("~")), home);
        assert_eq!(expand_home(Path::new("~/a/~")), home.join("a/~"));
        for path in ["~user/a", "a/~", "/~", "./~", ""] {
            assert_eq!(expand_home(Path::new(path)), Path::new(path));
        }
    }

    #[test]
    fn the_guide_lists_every_variable() {
        let guide = include_str!("../../../docs/operating.md");
        for Variable { name, does } in ALL {
            assert!(name.starts_with("KEYPRINT_"), "{name}");
            assert!(guide.contains(&format!("| `{name}` | {does} |")), "{name}");
        }
    }
}
