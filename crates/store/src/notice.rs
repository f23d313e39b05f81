//! [`Notice`]: what a store has to say when it cannot do its work. Each kind is said once.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::container::Damage;

/// Something went wrong, and the store goes on without it.
#[derive(Debug)]
pub enum Notice {
    /// There is no directory to store in.
    NoDirectory,
    /// Something could not be written.
    Write(PathBuf, io::Error),
    /// Something could not be read.
    Read(PathBuf, io::Error),
    /// An entry was not what it should be; it was put aside and will be built again.
    Damaged(PathBuf, Damage),
    /// Locks do not work here: several processes may build the same thing.
    Lock(PathBuf, io::Error),
    /// An artifact is larger than the whole store may be.
    TooLarge {
        /// The size of the artifact.
        bytes: u64,
        /// The limit of the store.
        limit: u64,
    },
    /// Waiting for somebody else's build took too long.
    Waited {
        /// What was waited for.
        name: String,
        /// Who was building it, if that is known.
        process: Option<u32>,
    },
    /// A tier failed, or cannot be trusted, and is left out from now on.
    Tier(String, String),
    /// An entry of a tier cannot be used; the others can.
    TierEntry(String, String),
    /// The store is on a file system that cannot be written: it is read, and nothing more.
    Unwritable(PathBuf),
}

impl Notice {
    /// Notices of one kind are said once.
    fn kind(&self) -> String {
        match self {
            Self::NoDirectory => "directory".to_owned(),
            Self::Write(..) => "write".to_owned(),
            Self::Read(..) => "read".to_owned(),
            Self::Damaged(..) => "damaged".to_owned(),
            Self::Lock(..) => "lock".to_owned(),
            Self::TooLarge { .. } => "large".to_owned(),
            Self::Waited { .. } => "waited".to_owned(),
            Self::Tier(name, _) => format!("tier {name}"),
            Self::TierEntry(name, _) => format!("entry in {name}"),
            Self::Unwritable(_) => "unwritable".to_owned(),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDirectory => f.write_str(
                "there is no home directory to keep a store in; nothing outlives this process\n\
                 hint: set `KEYPRINT_CACHE_DIR`",
            ),
            Self::Write(path, error) => write!(
                f,
                "cannot write `{}`: {error}; going on without storing\nhint: `keyprint doctor` looks for the cause",
                path.display()
            ),
            Self::Read(path, error) => write!(
                f,
                "cannot read `{}`: {error}; building instead\nhint: `keyprint doctor` looks for the cause",
                path.display()
            ),
            Self::Damaged(path, damage) => write!(
                f,
                "the entry `{}` was damaged ({damage}); it was put aside and is built again\n\
                 hint: `keyprint verify` looks for others",
                path.display()
            ),
            Self::Lock(path, error) => write!(
                f,
                "cannot lock `{}`: {error}; several processes may build the same thing",
                path.display()
            ),
            Self::TooLarge { bytes, limit } => write!(
                f,
                "an artifact of {bytes} bytes is larger than the store may be ({limit} bytes) and is not stored\n\
                 hint: set `KEYPRINT_CACHE_SIZE`"
            ),
            Self::Waited { name, process } => {
                let who = process.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"));
                write!(f, "{who} did not finish building `{name}` in time; building it here too")
            }
            Self::Tier(name, why) => write!(f, "the tier {name} is left out: {why}"),
            Self::TierEntry(name, why) => {
                write!(f, "an entry in the tier {name} is passed over, and so are others like it: {why}")
            }
            Self::Unwritable(path) => write!(
                f,
                "the store `{}` cannot be written; it is read, and nothing is added (`KEYPRINT_READONLY=1` for silence)",
                path.display()
            ),
        }
    }
}

/// Writes a notice to the standard error stream.
pub(crate) fn print(notice: &Notice) {
    eprintln!("keyprint: {notice}");
}

/// Passes notices on, one of each kind.
pub(crate) struct Notices {
    said: Mutex<HashSet<String>>,
    notify: Arc<dyn Fn(&Notice) + Send + Sync>,
}

impl Notices {
    pub(crate) fn new(notify: Arc<dyn Fn(&Notice) + Send + Sync>) -> Self {
        Self { said: Mutex::default(), notify }
    }

    pub(crate) fn say(&self, notice: &Notice) {
        if self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(notice.kind()) {
            (self.notify)(notice);
        }
    }
}
