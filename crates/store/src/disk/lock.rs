//! Locks: who builds which key, across processes.
//!
//! A lock is an advisory lock (`flock`) on a file. The kernel releases it when its holder dies, however it dies.
//! The file is unlinked by its holder, before the lock is let go of; whoever gets a lock looks whether the file
//! still is the one that its name leads to, and otherwise begins anew. So nobody ever holds a lock that others do
//! not see, and no file stays behind but that of a dead holder, until the next sweep.
//!
//! The file says who holds it, for people, to notice that a holder died while a child that it forked still has the
//! file open, and which key the holder waits for in turn, so that nobody waits in a circle. A holder whose build
//! failed says so as its last word, so that those who waited know that it did not die.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use keyprint_key::Key;

use crate::disk::holder::{Holder, Presence};
use crate::disk::{Disk, is_absent};
use crate::io::{Io, Locked};

/// What a holder says when its build failed.
const FAILED: &str = "failed\n";

/// There are so many locks of a key: the later ones are for when nobody can wait for an earlier one any more.
pub(crate) const MOST_LOCKS: u32 = 3;

/// A held lock; dropping it releases it.
pub(crate) struct KeyLock {
    file: File,
    path: PathBuf,
    io: Io,
    /// Who locked it. A forked child has the file too, and must not release it.
    process: u32,
    /// There is one for each key that is being built, so it goes when it is released.
    of_key: bool,
}

/// What trying to lock came to.
pub(crate) enum Attempt {
    Held(KeyLock),
    Busy(Note),
    /// Whoever held it failed to build.
    Failed,
}

/// What a lock's file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) holder: Option<Holder>,
    /// What the holder waits for.
    pub(crate) waits_for: Option<Key>,
}

/// A lock that is tried for, as often as need be.
pub(crate) struct Attempts<'a> {
    disk: &'a Disk,
    path: PathBuf,
    of_key: bool,
    /// The file that was busy when it was last tried.
    file: Option<File>,
}

impl Disk {
    /// Tries for a lock of a key, of [`MOST_LOCKS`].
    pub(crate) fn lock_of(&self, key: &Key, which: u32) -> Attempts<'_> {
        Attempts { disk: self, path: self.lock_path(key, which), of_key: true, file: None }
    }

    fn lock_path(&self, key: &Key, which: u32) -> PathBuf {
        let suffix = if which == 0 { "lock".to_owned() } else { format!("{which}.lock") };
        self.bucket.join("locks").join(format!("{}.{suffix}", key.hex()))
    }

    /// Tries to get the lock of whoever makes room; a second one, if whoever has the first was stopped, or died and a
    /// child has it.
    pub(crate) fn try_lock_gc(&self) -> io::Result<Option<KeyLock>> {
        for name in ["gc.lock", "gc.1.lock"] {
            let path = self.bucket.join(name);
            match (Attempts { disk: self, path, of_key: false, file: None }).attempt()? {
                Attempt::Held(lock) => return Ok(Some(lock)),
                Attempt::Busy(Note { holder: Some(holder), .. }) if holder.presence() != Presence::There => {}
                Attempt::Busy(_) | Attempt::Failed => break,
            }
        }
        Ok(None)
    }

    /// What those who build a key wait for themselves.
    pub(crate) fn builders_wait_for(&self, key: &Key) -> Vec<Key> {
        let notes = (0..MOST_LOCKS).filter_map(|which| {
            let path = self.lock_path(key, which);
            Some(Note::read(&self.io.open(&path).ok()?))
        });
        // What somebody who is gone waited for, nobody waits for.
        let is_there =
            |note: &Note| note.holder.as_ref().is_none_or(|holder| holder.presence() != Presence::Gone);
        notes.filter(is_there).filter_map(|note| note.waits_for).collect()
    }

    /// Which of the later locks of a key somebody holds who is there: he builds it in place of another.
    pub(crate) fn held_later(&self, key: &Key, which: u32) -> Option<u32> {
        (which + 1..MOST_LOCKS).find(|later| {
            let Ok(file) = self.io.open(&self.lock_path(key, *later)) else { return false };
            let is_free = matches!(self.io.try_lock(&file, &self.lock_path(key, *later)), Ok(Locked::Yes));
            if is_free {
                let _ = file.unlock();
            }
            let is_there = || {
                let holder = Note::read(&file).holder;
                holder.is_none_or(|holder| holder.presence() == Presence::There)
            };
            !is_free && is_there()
        })
    }

    /// Removes the files of locks that nobody holds. Returns how many.
    pub(crate) fn sweep_locks(&self) -> u64 {
        let locks = self.bucket.join("locks");
        let mut swept = 0;
        for name in self.io.list(&locks).unwrap_or_default() {
            let path = locks.join(name);
            if self.io.stat(&path).is_ok_and(|stat| stat.is_dir) {
                // Earlier versions kept them in directories.
                for name in self.io.list(&path).unwrap_or_default() {
                    swept += u64::from(self.sweep_lock(path.join(name)));
                }
                let _ = self.io.rmdir(&path);
            } else {
                swept += u64::from(self.sweep_lock(path));
            }
        }
        swept
    }

    /// Removes the file of a lock, unless it is held, or is no lock.
    fn sweep_lock(&self, path: PathBuf) -> bool {
        path.extension().is_some_and(|suffix| suffix == "lock")
            && self.io.stat(&path).is_ok_and(|stat| stat.is_file)
            && matches!(
                Attempts { disk: self, path, of_key: true, file: None }.attempt(),
                // It goes with the lock.
                Ok(Attempt::Held(_))
            )
    }
}

impl Attempts<'_> {
    /// Tries to get the lock, without waiting.
    pub(crate) fn attempt(&mut self) -> io::Result<Attempt> {
        let Self { disk: Disk { io, .. }, path, .. } = self;
        for _ in 0..8 {
            let (file, was_busy) = match self.file.take() {
                Some(file) => (file, true),
                None => (open(io, path)?, false),
            };
            if let Locked::Busy = io.try_lock(&file, path)? {
                let note = Note::read(&file);
                self.file = Some(file);
                return Ok(Attempt::Busy(note));
            }
            // Who gets the file after having waited for it reads the last word of whoever had it.
            let failed = was_busy && read(&file).as_deref() == Some(FAILED);
            let is_ours = io.stat_file(&file, path).and_then(|ours| {
                io.stat(path).map(|seen| seen.identity == ours.identity).or_else(absent_is_false)
            });
            match is_ours {
                Ok(true) if !failed => {
                    let (path, io) = (path.clone(), io.clone());
                    let process = std::process::id();
                    let lock = KeyLock { file, path, io, process, of_key: self.of_key };
                    lock.note(None);
                    return Ok(Attempt::Held(lock));
                }
                Ok(_) => {}
                Err(error) => {
                    let _ = file.unlock();
                    return Err(error);
                }
            }
            // A child that was forked meanwhile has the file open too: closing it would not be enough.
            let _ = file.unlock();
            if failed {
                return Ok(Attempt::Failed);
            }
        }
        // Others come and go quickly: it is their turn.
        Ok(Attempt::Busy(Note::default()))
    }
}

fn open(io: &Io, path: &Path) -> io::Result<File> {
    match io.open_or_create(path, false) {
        Err(error) if is_absent(&error) => {
            io.mkdir(path.parent().expect("a lock lies in a directory"))?;
            io.open_or_create(path, false)
        }
        other => other,
    }
}

fn absent_is_false(error: io::Error) -> io::Result<bool> {
    if is_absent(&error) { Ok(false) } else { Err(error) }
}

fn read(file: &File) -> Option<String> {
    let mut bytes = [0; 512];
    let len = file.read_at(&mut bytes, 0).ok()?;
    Some(std::str::from_utf8(&bytes[..len]).ok()?.to_owned())
}

impl Note {
    fn read(file: &File) -> Self {
        let text = read(file).unwrap_or_default();
        // A line that is not whole is still being written.
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let holder = lines.next().and_then(Holder::parse);
        let waits_for = lines.next().and_then(|line| line.strip_prefix("waits for ")?.parse().ok());
        Self { holder, waits_for }
    }
}

impl KeyLock {
    /// Says who holds it and what it waits for. Only for others to notice something, so failing is no harm.
    pub(crate) fn note(&self, waits_for: Option<&Key>) {
        // A forked child has the file too, and nothing to say in it.
        if self.process != std::process::id() {
            return;
        }
        let holder = Holder::this().map_or_else(String::new, |holder| holder.to_string());
        let mut text = format!("{holder}\n");
        if let Some(key) = waits_for {
            text.push_str(&format!("waits for {}\n", key.hex()));
        }
        let _ = self.io.overwrite(&self.file, &self.path, text.as_bytes());
    }

    /// Tells those who wait that the build failed.
    pub(crate) fn note_failure(&self) {
        if self.process != std::process::id() {
            return;
        }
        let _ = self.io.overwrite(&self.file, &self.path, FAILED.as_bytes());
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        if self.of_key {
            // The name leads to this file as long as it is locked, unless somebody removed the whole store.
            let ours = self.io.stat_file(&self.file, &self.path).map(|stat| stat.identity);
            let seen = self.io.stat(&self.path).map(|stat| stat.identity);
            if matches!((ours, seen), (Ok(ours), Ok(seen)) if ours == seen) {
                let _ = self.io.unlink(&self.path);
            }
        }
        let _ = self.file.unlock();
    }
}
