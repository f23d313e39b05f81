//! [`Io`]: every operation on the store's files, in one place, so that tests can make each of them fail.
//!
//! Production code runs the calls as they are. A [`Fault`] stands before each and may let it through,
//! refuse it, cut a read or write short, or end the process there.

use std::fs::{self, File, FileTimes, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{AtFlags, OFlags, Timespec, Timestamps};

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Op {
    Open,
    Create,
    Stat,
    Read,
    Write,
    Sync,
    Rename,
    Link,
    Unlink,
    Mkdir,
    List,
    Touch,
    Lock,
}

/// What happens to an operation.
#[derive(Debug)]
pub enum Verdict {
    /// It is done.
    Proceed,
    /// It fails, having done nothing.
    Fail(io::Error),
    /// A read or write does at most so many bytes and then fails; anything else fails.
    Short(usize),
}

/// Stands before every operation.
pub trait Fault: Send + Sync {
    /// Decides about the next one. May end the process.
    fn before(&self, op: Op, path: &Path) -> Verdict;
}

/// The system calls of the store.
#[derive(Clone, Default)]
pub struct Io {
    fault: Option<Arc<dyn Fault>>,
}

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) len: u64,
    pub(crate) modified: SystemTime,
    pub(crate) is_file: bool,
    pub(crate) is_dir: bool,
    /// Device and inode: which file it is, among those that are there.
    pub(crate) identity: (u64, u64),
    /// When it was made, where that is known: numbers are used again.
    pub(crate) created: Option<SystemTime>,
    pub(crate) owner: u32,
    pub(crate) mode: u32,
}

impl Stat {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            is_file: metadata.is_file(),
            is_dir: metadata.is_dir(),
            identity: (metadata.dev(), metadata.ino()),
            created: metadata.created().ok(),
            owner: metadata.uid(),
            mode: metadata.mode(),
        }
    }
}

/// Locking a file, without waiting.
pub(crate) enum Locked {
    Yes,
    Busy,
}

impl Io {
    /// System calls with a fault before each: for tests.
    #[must_use]
    pub fn with_fault(fault: Arc<dyn Fault>) -> Self {
        Self { fault: Some(fault) }
    }

    fn before(&self, op: Op, path: &Path) -> io::Result<Option<usize>> {
        match &self.fault {
            None => Ok(None),
            Some(fault) => match fault.before(op, path) {
                Verdict::Proceed => Ok(None),
                Verdict::Fail(error) => Err(error),
                Verdict::Short(bytes) if matches!(op, Op::Read | Op::Write) => Ok(Some(bytes)),
                Verdict::Short(_) => Err(io::ErrorKind::Other.into()),
            },
        }
    }

    /// Opens a file for reading. Never waits (a pipe in its place would), never follows a link.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        self.before(Op::Open, path)?;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
    }

    /// Opens a file for writing and, if it is not there, makes it: private, close-on-exec.
    pub(crate) fn open_or_create(&self, path: &Path, append: bool) -> io::Result<File> {
        self.before(Op::Create, path)?;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true).create(true).mode(0o600).custom_flags(flags.bits().cast_signed());
        if append {
            options.append(true)
        } else {
            options.write(true).truncate(false)
        };
        options.open(path)
    }

    /// Makes a new, private file; fails if there is anything of that name.
    pub(crate) fn create(&self, path: &Path) -> io::Result<File> {
        self.before(Op::Create, path)?;
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
    }

    pub(crate) fn stat_file(&self, file: &File, path: &Path) -> io::Result<Stat> {
        self.before(Op::Stat, path)?;
        Ok(Stat::of(&file.metadata()?))
    }

    /// What a name stands for; a link is a link.
    pub(crate) fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.before(Op::Stat, path)?;
        Ok(Stat::of(&fs::symlink_metadata(path)?))
    }

    /// Reads the next `len` bytes, or fewer if the file ends.
    pub(crate) fn read(&self, file: &File, path: &Path, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_on(file, path, &mut bytes, len)?;
        Ok(bytes)
    }

    /// Reads the next `len` bytes, or fewer if the file ends, to the end of those that were read before.
    pub(crate) fn read_on(
        &self,
        mut file: &File,
        path: &Path,
        bytes: &mut Vec<u8>,
        len: usize,
    ) -> io::Result<()> {
        let short = self.before(Op::Read, path)?;
        bytes.try_reserve_exact(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let len = short.map_or(len, |short| short.min(len));
        (&mut file).take(len as u64).read_to_end(bytes)?;
        Ok(())
    }

    pub(crate) fn write(&self, mut file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self.before(Op::Write, path)? {
            None => file.write_all(bytes),
            Some(short) => {
                file.write_all(&bytes[..short.min(bytes.len())])?;
                Err(io::ErrorKind::StorageFull.into())
            }
        }
    }

    /// Gives a file a length; what was not written is zero, and takes no room yet.
    pub(crate) fn set_len(&self, file: &File, path: &Path, len: u64) -> io::Result<()> {
        match self.before(Op::Write, path)? {
            None => file.set_len(len),
            Some(_) => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    /// Puts bytes in place of all that a file holds.
    pub(crate) fn overwrite(&self, file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self.before(Op::Write, path)? {
            None => file.write_all_at(bytes, 0).and_then(|()| file.set_len(bytes.len() as u64)),
            Some(_) => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    pub(crate) fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        self.before(Op::Sync, path)?;
        file.sync_all()
    }

    pub(crate) fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.before(Op::Sync, path)?;
        File::open(path)?.sync_all()
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.before(Op::Rename, from)?;
        fs::rename(from, to)
    }

    /// Gives a file a second name; fails if there is anything of that name.
    pub(crate) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.before(Op::Link, from)?;
        fs::hard_link(from, to)
    }

    pub(crate) fn unlink(&self, path: &Path) -> io::Result<()> {
        self.before(Op::Unlink, path)?;
        fs::remove_file(path)
    }

    /// Removes whatever has a name. A link goes, and what it leads to stays.
    pub(crate) fn remove_any(&self, path: &Path) -> io::Result<()> {
        self.before(Op::Unlink, path)?;
        if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
    }

    /// Removes a directory that is empty.
    pub(crate) fn rmdir(&self, path: &Path) -> io::Result<()> {
        self.before(Op::Unlink, path)?;
        fs::remove_dir(path)
    }

    /// Makes a private directory and those above it.
    pub(crate) fn mkdir(&self, path: &Path) -> io::Result<()> {
        self.before(Op::Mkdir, path)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    /// The names in a directory; none if it is not there.
    pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.before(Op::List, path)?;
        match fs::read_dir(path) {
            Ok(names) => names.map(|name| Ok(PathBuf::from(name?.file_name()))).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Says when a file was last used.
    pub(crate) fn touch(&self, file: &File, path: &Path, when: SystemTime) -> io::Result<()> {
        self.before(Op::Touch, path)?;
        file.set_times(FileTimes::new().set_modified(when))
    }

    /// Says when whatever has a name was last used.
    pub(crate) fn touch_path(&self, path: &Path, when: SystemTime) -> io::Result<()> {
        self.before(Op::Touch, path)?;
        let since = when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = Timespec {
            tv_sec: since.as_secs().try_into().unwrap_or(0),
            tv_nsec: since.subsec_nanos().into(),
        };
        let times = Timestamps { last_access: time, last_modification: time };
        Ok(rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    pub(crate) fn try_lock(&self, file: &File, path: &Path) -> io::Result<Locked> {
        self.before(Op::Lock, path)?;
        match file.try_lock() {
            Ok(()) => Ok(Locked::Yes),
            Err(TryLockError::WouldBlock) => Ok(Locked::Busy),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
