//! Publishing: a file is written aside, under a lock of its own, and renamed into place when whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::disk::holder::Holder;
use crate::disk::{Disk, Indexed, is_absent, unique};
use crate::entry::Entry;
use crate::io::Locked;

/// Younger files of processes that may be there are left alone by the sweep: they may not have locked them yet.
const YOUNG: Duration = Duration::from_secs(60);

/// Damaged entries are kept this long, for whoever wants to look.
const KEEP_ASIDE: Duration = Duration::from_secs(24 * 60 * 60);

/// No more of them are kept.
const MOST_ASIDE: usize = 32;

/// Containers up to this size are written in one piece.
const ONE_PIECE: usize = 1 << 20;

/// What publishing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    /// The size of the new entry.
    pub(crate) bytes: u64,
    /// The size of the entry it replaced.
    pub(crate) replaced: Option<u64>,
}

impl Disk {
    /// Publishes an entry: a reader sees all of it, or what was there before. The file has its full length before
    /// `announced` is called with that: whoever counts the directory from then on counts it.
    pub(crate) fn publish(&self, entry: &Entry, announced: impl FnOnce(u64)) -> io::Result<Published> {
        if self.readonly {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let (mut head, contents) = entry.seal();
        let total = head.len() + contents.iter().map(|content| content.len()).sum::<usize>();
        let pieces: Vec<&[u8]> = if total <= ONE_PIECE {
            contents.iter().for_each(|content| head.extend_from_slice(content));
            vec![&head]
        } else {
            std::iter::once(&*head).chain(contents).collect()
        };
        let path = self.entry_path(entry.key());
        let (staged, file) = self.stage()?;
        let fill = || {
            // What is large is announced before there is no room for it, what is small when it is there.
            if total > ONE_PIECE {
                self.io.set_len(&file, &staged, total as u64)?;
                announced(total as u64);
                self.fill(&staged, &file, &pieces)?;
            } else {
                self.fill(&staged, &file, &pieces)?;
                announced(total as u64);
            }
            let replaced = self.io.stat(&path).ok().filter(|stat| stat.is_file).map(|stat| stat.len);
            let record = Indexed::new(entry.key(), &entry.name(), entry.info().created_ms);
            let has_grown = replaced.is_none() && self.index_add(&record);
            self.place(&staged, &path)?;
            if has_grown {
                let _ = self.index_trim(&record.name);
            }
            Ok(Published { bytes: total as u64, replaced })
        };
        // Whatever fails, nothing of it may stay behind.
        fill().inspect_err(|_| {
            let _ = self.io.unlink(&staged);
        })
    }

    /// A new file in `staging`, locked as long as it is open.
    pub(crate) fn stage(&self) -> io::Result<(PathBuf, File)> {
        let directory = self.bucket.join("staging");
        let path = directory.join(owned_name());
        let file = match self.io.create(&path) {
            Err(error) if is_absent(&error) => {
                self.io.mkdir(&directory)?;
                self.tag_directory();
                self.io.create(&path)?
            }
            other => other?,
        };
        // Where files cannot be locked, age alone protects this one from the sweep.
        let _ = self.io.try_lock(&file, &path);
        Ok((path, file))
    }

    fn fill(&self, staged: &Path, file: &File, pieces: &[&[u8]]) -> io::Result<()> {
        for piece in pieces {
            self.io.write(file, staged, piece)?;
        }
        if self.sync {
            self.io.sync(file, staged)?;
        }
        // The clock may be stubbed, or the file system's may differ: the time of last use is ours.
        self.io.touch(file, staged, self.now())
    }

    fn place(&self, staged: &Path, path: &Path) -> io::Result<()> {
        let shard = path.parent().expect("an entry lies in a directory");
        match self.io.rename(staged, path) {
            Err(error) if is_absent(&error) => {
                self.io.mkdir(shard)?;
                self.io.rename(staged, path)?;
            }
            other => other?,
        }
        if self.sync {
            self.io.sync_dir(shard)?;
        }
        Ok(())
    }

    /// Tells backup programs that nothing here is worth keeping. Not being able to is no harm.
    fn tag_directory(&self) {
        const TAG: &[u8] =
            b"Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache of Keyprint.\n";
        let path = self.root.join("CACHEDIR.TAG");
        if let Ok(file) = self.io.create(&path) {
            let _ = self.io.write(&file, &path, TAG);
        }
    }

    /// Removes what dead writers left behind, locks that nobody holds, and damaged entries that nobody looked at;
    /// all of these, if room is needed. Returns how many. What cannot be looked at or removed stays.
    pub(crate) fn sweep(&self, needs_room: bool) -> u64 {
        let keep_aside = if needs_room { Duration::ZERO } else { KEEP_ASIDE };
        let mut swept = self.sweep_locks();
        for (directory, age) in [("staging", YOUNG), ("loads", YOUNG), ("quarantine", keep_aside)] {
            let directory = self.bucket.join(directory);
            for name in self.io.list(&directory).unwrap_or_default() {
                swept += u64::from(self.sweep_file(&directory.join(name), age));
            }
        }
        // Files of the ledger that somebody began to replace, and the secret of earlier versions: others may read it.
        for name in self.io.list(&self.bucket).unwrap_or_default() {
            let text = name.to_str().unwrap_or_default();
            if text.starts_with("ledger-") || text == "secret" || text.starts_with("secret-") {
                let age = if text == "secret" { Duration::ZERO } else { YOUNG };
                swept += u64::from(self.sweep_file(&self.bucket.join(name), age));
            }
        }
        swept
    }

    /// Removes a file that nobody needs any more.
    fn sweep_file(&self, path: &Path, age: Duration) -> bool {
        let Ok(stat) = self.io.stat(path) else { return false };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // A file from the future was written under another clock: its age says nothing.
        let old = age.is_zero() || self.now().duration_since(stat.modified).is_ok_and(|since| since >= age);
        // What has no lock (a directory, a link that was put aside) has no owner either.
        let abandoned = !stat.is_file || self.abandoned(path);
        (old || Holder::is_gone(name)) && abandoned && self.io.remove_any(path).is_ok()
    }

    /// Keeps no more damaged entries than there is a use for: the oldest go.
    pub(crate) fn bound_quarantine(&self) {
        let aside = self.bucket.join("quarantine");
        let names = self.io.list(&aside).unwrap_or_default();
        if names.len() <= MOST_ASIDE {
            return;
        }
        let mut files: Vec<_> = names
            .into_iter()
            .filter_map(|name| Some((self.io.stat(&aside.join(&name)).ok()?.modified, aside.join(name))))
            .collect();
        files.sort_unstable();
        let excess = files.len().saturating_sub(MOST_ASIDE);
        for (_, path) in &files[..excess] {
            let _ = self.io.remove_any(path);
        }
    }

    /// Whether nobody holds the lock of a file.
    fn abandoned(&self, path: &Path) -> bool {
        self.io
            .open(path)
            .and_then(|file| self.io.try_lock(&file, path))
            .is_ok_and(|locked| matches!(locked, Locked::Yes))
    }
}

/// A new name that tells which process it is of, where that can be told.
pub(crate) fn owned_name() -> String {
    Holder::this().map_or_else(unique, |holder| format!("{}-{}", holder.tag(), unique()))
}
