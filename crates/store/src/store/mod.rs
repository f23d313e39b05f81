//! [`Store`]: the way in.

mod build;
mod lookup;
mod publish;
mod upkeep;
mod waits;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use keyprint_key::{Key, Manifest};
use thiserror::Error;

use crate::config::{Config, absolute};
use crate::disk::Disk;
use crate::entry::{Artifact, Entry, Info, Origin, PartError, check_part_name, millis};
use crate::flight::Flights;
use crate::history::History;
use crate::ledger::Ledger;
use crate::load::Loads;
use crate::memory::Memory;
use crate::notice::{Notice, Notices};
use crate::shared::SharedTier;
use crate::tier::Tier;
use crate::trust;
use crate::trust::TrustError;

pub use build::{How, Outcome, Request};
pub use upkeep::{Cleared, Usage, Verified};

/// Artifacts under keys. See the [crate's documentation](crate).
///
/// Shared between threads by reference. It does not survive a `fork`: open it again in the child.
pub struct Store {
    disk: Option<Disk>,
    /// Whether the disk turned out not to be writable at all.
    unwritable: AtomicBool,
    /// Only what was built since then is used, in milliseconds since 1970, if everything is built once more.
    built_since: Option<u64>,
    /// Where the user's secret is.
    private: Option<PathBuf>,
    memory: Memory,
    tiers: Vec<Outer>,
    flights: Flights<Key, Arc<Entry>>,
    loads: Loads,
    ledger: Option<Ledger>,
    history: Option<History>,
    notices: Notices,
    room: Mutex<upkeep::Room>,
    limit: u64,
    wait: Duration,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

/// A tier beyond the local disk, and whether it is left out by now.
struct Outer {
    tier: Arc<dyn Tier>,
    left_out: AtomicBool,
}

/// Why an artifact cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// There is no such part.
    #[error("there is no part `{wanted}`\nhint: the parts are {}", known.join(", "))]
    Part {
        /// What was asked for.
        wanted: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Others could have written it.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The file that it was read from could be written by others.
    #[error(
        "the entry `{}` can be written by other users, so nothing is loaded from it\nhint: chmod go-w '{}'",
        .0.display(), .0.display()
    )]
    Entry(PathBuf),
    /// A part cannot become a file.
    #[error(transparent)]
    Name(#[from] PartError),
    /// The system does not let us.
    #[error("cannot make a file to load from: {0}")]
    Io(#[from] io::Error),
}

impl Store {
    /// Opens a store. Nothing is read or written yet, so nothing can fail.
    #[must_use]
    pub fn open(config: Config) -> Self {
        let notices = Notices::new(Arc::clone(&config.notify));
        let config = if config.disabled {
            Config { path: Some(PathBuf::new()), shared: Vec::new(), tiers: Vec::new(), ..config }
        } else {
            config
        };
        let Config { io, clock, .. } = &config;
        let disk = config.path.as_deref().filter(|path| !path.as_os_str().is_empty()).map(|path| {
            Disk::new(absolute(path), io.clone(), Arc::clone(clock), config.readonly, config.sync)
        });
        if disk.is_none() && config.path.is_none() && config.tiers.is_empty() && config.shared.is_empty() {
            notices.say(&Notice::NoDirectory);
        }
        let shared = config.shared.iter().map(|shared| -> Arc<dyn Tier> {
            Arc::new(SharedTier::new(shared, io.clone(), Arc::clone(clock)))
        });
        let tiers = shared.chain(config.tiers.iter().cloned());
        let written = disk.as_ref().filter(|disk| !disk.readonly());
        Self {
            ledger: disk.as_ref().map(|disk| Ledger::new(disk.bucket().join("ledger"), io.clone())),
            history: written.map(|disk| History::new(disk.bucket().join("misses.jsonl"), io.clone())),
            memory: Memory::new(config.memory),
            tiers: tiers.map(|tier| Outer { tier, left_out: AtomicBool::new(false) }).collect(),
            flights: Flights::default(),
            loads: Loads::default(),
            notices,
            unwritable: AtomicBool::new(false),
            built_since: config.recache.then(|| millis(clock())),
            private: config.private.clone(),
            room: Mutex::default(),
            limit: config.size,
            wait: config.wait,
            clock: Arc::clone(clock),
            disk,
        }
    }

    /// Where the local disk tier is, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.disk.as_ref().map(Disk::root)
    }

    /// The most bytes that the local disk tier may hold.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How long somebody else's build is waited for before another one builds.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// The entry of a key, from the first tier that has it.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.find(key).map(|outcome| outcome.entry)
    }

    /// The entry of a key, and which tier had it.
    #[must_use]
    pub fn find(&self, key: &Key) -> Option<Outcome> {
        let outcome = self.lookup(key);
        if outcome.is_none() {
            self.count(|counters| counters.misses += 1);
        }
        outcome
    }

    /// The entry of a key, if memory has it; nothing else is asked.
    #[must_use]
    pub fn find_in_memory(&self, key: &Key) -> Option<Outcome> {
        self.lookup_memory(key, Instant::now())
    }

    /// Whether a tier says that it has the entry of a key. It may still turn out to be damaged.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        self.memory.get(key).is_some()
            || self.disk.as_ref().is_some_and(|disk| disk.contains(key))
            || self.tiers.iter().any(|outer| self.ask(outer, |tier| tier.contains(key)) == Some(true))
    }

    /// Stores an artifact that was built elsewhere. Trouble is said once and does no harm.
    pub fn put(&self, manifest: &Manifest, artifact: Artifact, build: Duration) -> Arc<Entry> {
        let info = Info::new((self.clock)(), build);
        let entry = Arc::new(Entry::built(manifest, artifact, info));
        self.publish(&entry);
        entry
    }

    /// Removes the entry of a key from memory and the local disk. Says whether there was one.
    ///
    /// # Errors
    ///
    /// If it is there and cannot be removed.
    pub fn remove(&self, key: &Key) -> io::Result<bool> {
        let remembered = self.memory.remove(key);
        let Some(disk) = &self.disk else { return Ok(remembered) };
        if disk.readonly() {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let removed = disk.remove(key)?;
        if let Some(bytes) = removed {
            self.count_size(-1, -signed(bytes));
        }
        Ok(remembered || removed.is_some())
    }

    /// A path under which a part can be loaded as native code. It holds the verified bytes for as
    /// long as this process lives, and no other part ever gets the same path.
    ///
    /// # Errors
    ///
    /// If others could have written the store that the entry came from.
    pub fn load(&self, entry: &Entry, part: &str) -> Result<PathBuf, LoadError> {
        let bytes = entry.part(part).ok_or_else(|| LoadError::Part {
            wanted: part.to_owned(),
            known: entry.names().map(|name| format!("`{name}`")).collect(),
        })?;
        self.check_trust(entry)?;
        let private = self.disk.as_ref().map(|disk| disk.bucket().join("loads"));
        Ok(self.loads.path_of(entry.key().as_bytes(), part, bytes, private.as_deref(), &self.io())?)
    }

    /// Writes the parts of an entry as files below a directory, for whoever needs real paths.
    ///
    /// # Errors
    ///
    /// If others could have written the store that the entry came from, or can write the directory,
    /// or a file cannot be made.
    pub fn materialise(&self, entry: &Entry, directory: &Path) -> Result<Vec<PathBuf>, LoadError> {
        self.check_trust(entry)?;
        let (io, directory) = (self.io(), &absolute(directory));
        io.mkdir(directory)?;
        // Who can write the directory can replace the files, or lead them elsewhere by a link.
        trust::check(directory, &[])?;
        let mut paths = Vec::new();
        for (name, bytes) in entry.parts() {
            check_part_name(name)?;
            let path = directory.join(name);
            io.mkdir(path.parent().expect("it lies in the directory"))?;
            // Written aside and renamed, so that whoever has the old file open keeps it whole.
            let aside = path.with_file_name(format!(".{}", crate::disk::unique()));
            let file = io.create(&aside)?;
            let written = io.write(&file, &aside, bytes).and_then(|()| io.rename(&aside, &path));
            written.inspect_err(|_| {
                let _ = io.unlink(&aside);
            })?;
            paths.push(path);
        }
        Ok(paths)
    }

    /// Whether native code of an entry may be loaded: nobody else could have put it there.
    ///
    /// # Errors
    ///
    /// If somebody else could.
    pub fn check_trust(&self, entry: &Entry) -> Result<(), LoadError> {
        let Some(disk) = self.disk.as_ref().filter(|_| entry.origin() == Origin::Disk) else { return Ok(()) };
        let path = disk.entry_path(entry.key());
        let entries = disk.bucket().join("entries");
        let shard = path.parent().expect("an entry lies in a directory").to_owned();
        trust::check(disk.root(), &[disk.bucket().to_owned(), entries, shard])?;
        if entry.private { Ok(()) } else { Err(LoadError::Entry(path)) }
    }

    /// Whether native code may be loaded from the local disk at all.
    ///
    /// # Errors
    ///
    /// If somebody else could put something there.
    pub fn check_directory(&self) -> Result<(), TrustError> {
        match &self.disk {
            Some(disk) => {
                trust::check(disk.root(), &[disk.bucket().to_owned(), disk.bucket().join("entries")])
            }
            None => Ok(()),
        }
    }

    pub(crate) fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// The local disk, if it is to be written.
    pub(crate) fn writable(&self) -> Option<&Disk> {
        self.disk.as_ref().filter(|disk| !disk.readonly() && !self.unwritable.load(Ordering::Relaxed))
    }

    /// Says that the disk could not be written: once and quietly if that is how it is, as in an image.
    pub(crate) fn cannot_write(&self, disk: &Disk, notice: Notice) {
        let (Notice::Write(_, error) | Notice::Lock(_, error)) = &notice else {
            return self.notices.say(&notice);
        };
        if disk.is_unwritable(error) {
            self.unwritable.store(true, Ordering::Relaxed);
            self.notices.say(&Notice::Unwritable(disk.root().to_owned()));
        } else {
            self.notices.say(&notice);
        }
    }

    /// Where the user's secret is.
    pub(crate) fn private(&self) -> Option<&Path> {
        self.private.as_deref()
    }

    fn io(&self) -> crate::io::Io {
        self.disk.as_ref().map(|disk| disk.io().clone()).unwrap_or_default()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Sizes of files fit.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
