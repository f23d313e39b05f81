//! The environment variables of the project. `docs/operating.md` lists them; a test compares.

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

/// Where stages of kernels are kept.
pub const DUMP: Variable = Variable {
    name: "KEYPRINT_DUMP",
    does: "a directory that keeps the IR and the C of every kernel that is compiled",
};

/// How many threads work on a loop.
pub const THREADS: Variable = Variable {
    name: "KEYPRINT_THREADS",
    does: "how many threads work on a parallel loop of a kernel; one for each core unless set",
};

/// All of them.
pub const ALL: &[Variable] =
    &[CACHE_DIR, CACHE_SIZE, CACHE_VERSION, CACHE_WAIT, CC, DUMP, EXPLAIN, LOG, THREADS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_lists_every_variable() {
        let guide = include_str!("../../../docs/operating.md");
        for Variable { name, does } in ALL {
            assert!(name.starts_with("KEYPRINT_"), "{name}");
            assert!(guide.contains(&format!("| `{name}` | {does} |")), "{name}");
        }
    }
}
