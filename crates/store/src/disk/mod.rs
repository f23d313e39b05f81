//! The local disk: one directory, one immutable file per entry.
//!
//! ```text
//! <path>/v1/entries/ab/cdef….kpe   entries, by key
//! <path>/v1/staging/               files that are being written; renamed into place when whole
//! <path>/v1/locks/abcdef….lock     who builds which key; gone when it is built
//! <path>/v1/quarantine/            damaged entries, put aside
//! <path>/v1/index/a                which entries there are of a name
//! <path>/v1/loads/                 copies that were made for loading by path
//! <path>/v1/ledger                 sizes and statistics
//! <path>/v1/misses.jsonl           the last misses, for `why`
//! <path>/v1/gc.lock                who makes room
//! <path>/v1/counted                when everything was last counted
//! ```
//!
//! Whatever else lies in these directories is not ours and is left alone. Another format lives in a
//! directory of its own beside `v1`.

mod evict;
mod holder;
mod index;
mod lock;
mod scan;
mod stage;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keyprint_key::Key;

use crate::container::{CONTAINER_VERSION, Damage};
use crate::entry::{Entry, Origin};
use crate::io::{Io, Stat};
use crate::trust;

pub use evict::{Eviction, Freed};
pub(crate) use holder::{Holder, Presence};
pub use index::Indexed;
pub(crate) use lock::{Attempt, KeyLock, MOST_LOCKS};
pub use scan::{Listed, Notes, Scan, Skipped};
pub(crate) use stage::{Published, owned_name};

/// How entries' names end.
const SUFFIX: &str = "kpe";

/// The time of last use is noted to about this precision: noting it at every hit would wear the disk.
const TOUCH_EVERY: Duration = Duration::from_secs(60);

/// Tells the time of day.
pub(crate) type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// One directory of entries.
#[derive(Clone)]
pub(crate) struct Disk {
    /// What the user named.
    root: PathBuf,
    /// Ours, below it.
    bucket: PathBuf,
    io: Io,
    clock: Clock,
    readonly: bool,
    sync: bool,
}

/// What reading an entry came to.
pub(crate) enum Found {
    Entry(Box<Entry>),
    Nothing,
    /// Something is there, and it is not the entry. Says which file it was.
    Damaged(Damage, (u64, u64)),
}

impl Disk {
    pub(crate) fn new(root: PathBuf, io: Io, clock: Clock, readonly: bool, sync: bool) -> Self {
        let bucket = root.join(format!("v{CONTAINER_VERSION}"));
        Self { root, bucket, io, clock, readonly, sync }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn bucket(&self) -> &Path {
        &self.bucket
    }

    pub(crate) fn io(&self) -> &Io {
        &self.io
    }

    pub(crate) fn readonly(&self) -> bool {
        self.readonly
    }

    /// Whether an error means that nothing here can be written, now or later: a store in an image, or of somebody
    /// else. One odd file in it does not.
    pub(crate) fn is_unwritable(&self, error: &io::Error) -> bool {
        use rustix::fs::{Access, access};
        match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => true,
            io::ErrorKind::PermissionDenied => {
                let place = [&self.bucket, &self.root].into_iter().find(|path| path.exists());
                place.is_some_and(|path| access(path, Access::WRITE_OK).is_err())
            }
            _ => false,
        }
    }

    pub(crate) fn now(&self) -> SystemTime {
        (self.clock)()
    }

    /// Where the entry of a key is.
    pub(crate) fn entry_path(&self, key: &Key) -> PathBuf {
        self.sharded("entries", key, SUFFIX)
    }

    fn sharded(&self, kind: &str, key: &Key, suffix: &str) -> PathBuf {
        let hex = key.hex();
        let mut path = self.bucket.join(kind);
        path.push(&hex[..2]);
        path.push(format!("{}.{suffix}", &hex[2..]));
        path
    }

    /// Reads and verifies the entry of a key, and notes that it was used.
    pub(crate) fn read(&self, key: &Key) -> io::Result<Found> {
        self.read_with(key, |file, path, noted| self.note_use(file, path, noted))
    }

    /// Reads and verifies the entry of a key; that counts as no use of it.
    pub(crate) fn read_quietly(&self, key: &Key) -> io::Result<Found> {
        self.read_with(key, |_, _, _| ())
    }

    fn read_with(&self, key: &Key, used: impl Fn(&File, &Path, SystemTime)) -> io::Result<Found> {
        match self.read_once(key, &used)? {
            // A read can go wrong while the file is fine: only what is damaged twice is damaged.
            Found::Damaged(..) => self.read_once(key, &used),
            read => Ok(read),
        }
    }

    fn read_once(&self, key: &Key, used: &impl Fn(&File, &Path, SystemTime)) -> io::Result<Found> {
        let path = self.entry_path(key);
        let file = match self.io.open(&path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(Found::Nothing),
            Err(error) if is_no_file(&error) => {
                return Ok(Found::Damaged(Damage::Foreign, self.io.stat(&path)?.identity));
            }
            Err(error) => return Err(error),
        };
        let stat = self.io.stat_file(&file, &path)?;
        match self.read_open(key, &path, &file, stat)? {
            Ok(mut entry) => {
                entry.private = trust::is_private(&stat);
                used(&file, &path, stat.modified);
                Ok(Found::Entry(Box::new(entry)))
            }
            Err(damage) => Ok(Found::Damaged(damage, stat.identity)),
        }
    }

    /// Reads the container of a key, not verified, without noting that it was used.
    pub(crate) fn read_container(&self, key: &Key) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let path = self.entry_path(key);
        let file = match self.io.open(&path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = self.io.stat_file(&file, &path)?;
        if !stat.is_file {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let container = self.io.read(&file, &path, usize_of(stat.len)?)?;
        Ok(Some((container, stat)))
    }

    fn read_open(
        &self,
        key: &Key,
        path: &Path,
        file: &File,
        stat: Stat,
    ) -> io::Result<Result<Entry, Damage>> {
        if !stat.is_file {
            return Ok(Err(Damage::Foreign));
        }
        // A huge file that is no container is not worth reading whole.
        const AT_ONCE: u64 = 16 << 20;
        let mut container = self.io.read(file, path, usize_of(stat.len.min(AT_ONCE))?)?;
        if stat.len > AT_ONCE {
            if let Err(damage) = crate::container::head_len(&container) {
                return Ok(Err(damage));
            }
            self.io.read_on(file, path, &mut container, usize_of(stat.len - AT_ONCE)?)?;
        }
        Ok(Entry::from_container(key, container, Origin::Disk))
    }

    /// Notes that a file was used, now and then. A clock that went back is set right at once.
    fn note_use(&self, file: &File, path: &Path, noted: SystemTime) {
        if self.readonly {
            return;
        }
        let now = self.now();
        if now.duration_since(noted).is_ok_and(|since| since < TOUCH_EVERY) {
            return;
        }
        // Not being able to say so costs at most an early eviction.
        let _ = self.io.touch(file, path, now);
    }

    /// Whether there is a file for a key, whatever is in it.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.io.stat(&self.entry_path(key)).is_ok_and(|stat| stat.is_file)
    }

    /// Removes the entry of a key. Returns its size.
    pub(crate) fn remove(&self, key: &Key) -> io::Result<Option<u64>> {
        let path = self.entry_path(key);
        let stat = match self.io.stat(&path) {
            Ok(stat) => stat,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match self.io.unlink(&path) {
            Ok(()) => Ok(Some(stat.len)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts a damaged entry aside, if it is still that very file. Returns its size.
    pub(crate) fn put_aside(&self, key: &Key, identity: (u64, u64)) -> io::Result<Option<u64>> {
        let path = self.entry_path(key);
        match self.io.stat(&path) {
            Ok(stat) if stat.identity == identity => {}
            _ => return Ok(None),
        }
        let aside = self.bucket.join("quarantine");
        self.io.mkdir(&aside)?;
        let aside = aside.join(format!("{}-{}", key.hex(), unique()));
        self.io.rename(&path, &aside)?;
        let moved = self.io.stat(&aside)?;
        if moved.identity != identity {
            // Between looking and moving, somebody published a good one: it goes back, unless
            // there is another by now.
            let _ = self.io.link(&aside, &path);
            self.io.unlink(&aside)?;
            return Ok(None);
        }
        self.bound_quarantine();
        Ok(Some(moved.len))
    }

    /// Notes that an entry was used that was answered from memory.
    pub(crate) fn note_use_of(&self, key: &Key) {
        if !self.readonly {
            let _ = self.io.touch_path(&self.entry_path(key), self.now());
        }
    }
}

/// A name that no other process, thread or call uses.
pub(crate) fn unique() -> String {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    // A forked child shares the counter's value but not the process id; ids are reused, so add chance.
    let chance = RandomState::new().hash_one((next, std::process::id()));
    format!("{}-{next}-{chance:016x}", std::process::id())
}

/// Whether an error means that there is nothing of that name.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether an error means that there is no room on the device, for bytes or for files.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an error means that there is something which is not a file: a link, a socket.
fn is_no_file(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    [Errno::LOOP, Errno::MLINK, Errno::NXIO].into_iter().any(|errno| code == Some(errno.raw_os_error()))
}

fn usize_of(len: u64) -> io::Result<usize> {
    usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Artifact, Info};
    use keyprint_key::{KeyBuilder, Tool};

    #[test]
    fn a_good_entry_that_took_the_place_of_a_damaged_one_is_not_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let clock: Clock = Arc::new(SystemTime::now);
        let disk = Disk::new(directory.path().to_owned(), Io::default(), clock, false, false);
        let manifest = KeyBuilder::new("k", Tool::keyprint(), None).finish();
        let info = Info::new(SystemTime::now(), Duration::ZERO);
        let entry = Entry::built(&manifest, Artifact::single(vec![1]), info);
        disk.publish(&entry, |_| ()).unwrap();
        let path = disk.entry_path(entry.key());
        let stale = disk.io.stat(&path).unwrap().identity;
        // The old file stays open, so that its number is not used again.
        let _old = std::fs::File::open(&path).unwrap();
        disk.publish(&entry, |_| ()).unwrap();
        assert_eq!(disk.put_aside(entry.key(), stale).unwrap(), None);
        assert!(matches!(disk.read(entry.key()), Ok(Found::Entry(_))));
        let now = disk.io.stat(&path).unwrap().identity;
        assert!(disk.put_aside(entry.key(), now).unwrap().is_some());
        assert!(matches!(disk.read(entry.key()), Ok(Found::Nothing)));
    }
}
