//! Locks: who builds which key, across processes.
//!
//! A lock is an advisory lock (`flock`) on a file that is made once per key and never deleted:
//! deleting one that somebody waits for would let two in. The kernel releases it when its holder
//! dies, however it dies. The file says who holds it, for people and to notice that a holder died
//! while a child that it forked still has the file open.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use keyprint_key::Key;

use crate::disk::{Disk, is_absent};
use crate::io::{Io, Locked};

/// A held lock; dropping it releases it.
pub(crate) struct KeyLock {
    file: File,
    /// Who locked it. A forked child has the file too, and must not release it.
    process: u32,
    /// There is one for each key that was ever built, so it should take up no space.
    of_key: bool,
}

/// What trying to lock came to.
pub(crate) enum Attempt {
    Held(KeyLock),
    Busy(Option<Holder>),
}

/// A process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) process: u32,
    /// When the process started, in the kernel's ticks: ids are reused.
    started: u64,
    /// What its id means something in: host and namespace of processes.
    namespace: String,
}

impl Disk {
    /// Tries to get a lock of a key, without waiting. The first is the lock; the others are for when
    /// one before cannot be released by anybody any more.
    pub(crate) fn try_lock(&self, key: &Key, which: u32) -> io::Result<Attempt> {
        let suffix = if which == 0 { "lock".to_owned() } else { format!("{which}.lock") };
        let path = self.sharded("locks", key, &suffix);
        self.try_lock_path(&path, true)
    }

    /// Tries to get the lock of whoever makes room.
    pub(crate) fn try_lock_gc(&self) -> io::Result<Attempt> {
        self.try_lock_path(&self.gc_path(), false)
    }

    pub(crate) fn gc_path(&self) -> PathBuf {
        self.bucket.join("gc.lock")
    }

    fn try_lock_path(&self, path: &Path, of_key: bool) -> io::Result<Attempt> {
        // Somebody may delete the whole store between opening and locking: then the lock that was
        // got is not the lock that others see.
        for _ in 0..8 {
            let file = match self.io.open_or_create(path, false) {
                Err(error) if is_absent(&error) => {
                    self.io.mkdir(path.parent().expect("a lock lies in a directory"))?;
                    self.io.open_or_create(path, false)?
                }
                other => other?,
            };
            if let Locked::Busy = self.io.try_lock(&file, path)? {
                return Ok(Attempt::Busy(Holder::read(&file)));
            }
            let ours = self.io.stat_file(&file, path)?.identity;
            let lock = KeyLock { file, process: std::process::id(), of_key };
            if self.io.stat(path).is_ok_and(|seen| seen.identity == ours) {
                lock.sign(&self.io, path);
                return Ok(Attempt::Held(lock));
            }
        }
        Err(io::Error::other("the lock file keeps disappearing"))
    }
}

impl KeyLock {
    /// Notes a time on the file.
    pub(crate) fn touch(&self, io: &Io, path: &Path, when: SystemTime) -> io::Result<()> {
        io.touch(&self.file, path, when)
    }

    /// Says who holds it. Only for people and for noticing a dead holder, so failing is no harm.
    fn sign(&self, io: &Io, path: &Path) {
        if let Some(holder) = Holder::this() {
            let text = format!("{} {} {}\n", holder.process, holder.started, holder.namespace);
            let _ = io.overwrite(&self.file, path, text.as_bytes());
        }
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            if self.of_key {
                let _ = self.file.set_len(0);
            }
            let _ = self.file.unlock();
        }
    }
}

impl Holder {
    fn this() -> Option<Self> {
        let process = std::process::id();
        Some(Self { process, started: started(process)?, namespace: namespace() })
    }

    fn read(file: &File) -> Option<Self> {
        let mut bytes = [0; 256];
        let len = file.read_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(&bytes[..len]).ok()?.strip_suffix('\n')?;
        let mut words = text.splitn(3, ' ');
        let process = words.next()?.parse().ok()?;
        let started = words.next()?.parse().ok()?;
        Some(Self { process, started, namespace: words.next()?.to_owned() })
    }

    /// Whether the process is known to be gone: it is of this host and namespace, and not there.
    pub(crate) fn is_dead(&self) -> bool {
        self.namespace == namespace() && started(self.process) != Some(self.started)
    }
}

/// When a process started, in the kernel's ticks; `None` if it is not there.
fn started(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program stands in brackets and may hold anything.
    let mut words = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    // A zombie has let go of its files; whoever still holds the lock is a child of it.
    if words.next()? == "Z" {
        return None;
    }
    words.nth(18)?.parse().ok()
}

/// Where process ids mean something: the host, since it started, and the namespace.
fn namespace() -> String {
    static NAMESPACE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let text = || {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        format!("{} {}", boot.trim(), space.display())
    };
    NAMESPACE.get_or_init(text).clone()
}
