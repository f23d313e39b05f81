//! Publishing: a file is written aside, under a lock of its own, and renamed into place when whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::disk::{Disk, is_absent, unique};
use crate::entry::Entry;
use crate::io::Locked;
use keyprint_key::Key;

/// Younger files are left alone by the sweep: their writers may not have locked them yet.
const YOUNG: Duration = Duration::from_secs(60);

/// Damaged entries are kept this long, for whoever wants to look.
const KEEP_ASIDE: Duration = Duration::from_secs(24 * 60 * 60);

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
    /// Publishes an entry: a reader sees all of it, or what was there before.
    pub(crate) fn publish(&self, entry: &Entry) -> io::Result<Published> {
        let (mut head, contents) = entry.seal();
        let total = head.len() + contents.iter().map(|content| content.len()).sum::<usize>();
        if total <= ONE_PIECE {
            contents.iter().for_each(|content| head.extend_from_slice(content));
            self.publish_pieces(entry.key(), &[&head])
        } else {
            let pieces: Vec<&[u8]> = std::iter::once(&*head).chain(contents).collect();
            self.publish_pieces(entry.key(), &pieces)
        }
    }

    fn publish_pieces(&self, key: &Key, pieces: &[&[u8]]) -> io::Result<Published> {
        if self.readonly {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let path = self.entry_path(key);
        let (staged, file) = self.stage()?;
        // Whatever fails from here on, nothing of it may stay behind.
        self.fill(&staged, &file, pieces).and_then(|()| self.place(&staged, &path)).inspect_err(|_| {
            let _ = self.io.unlink(&staged);
        })
    }

    /// A new file in `staging`, locked as long as it is open.
    fn stage(&self) -> io::Result<(PathBuf, File)> {
        let directory = self.bucket.join("staging");
        let path = directory.join(unique());
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

    fn place(&self, staged: &Path, path: &Path) -> io::Result<Published> {
        let bytes = self.io.stat(staged)?.len;
        let shard = path.parent().expect("an entry lies in a directory");
        let replaced = self.io.stat(path).ok().filter(|stat| stat.is_file).map(|stat| stat.len);
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
        Ok(Published { bytes, replaced })
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

    /// Removes what dead writers left behind, and damaged entries that nobody looked at. Returns how many.
    pub(crate) fn sweep(&self) -> io::Result<u64> {
        let mut swept = 0;
        for (directory, age) in [("staging", YOUNG), ("loads", YOUNG), ("quarantine", KEEP_ASIDE)] {
            let directory = self.bucket.join(directory);
            for name in self.io.list(&directory)? {
                let path = directory.join(name);
                let Ok(stat) = self.io.stat(&path) else { continue };
                // A file from the future was written under another clock: its age says nothing.
                let old = self.now().duration_since(stat.modified).is_ok_and(|since| since >= age);
                // What has no lock (a directory, a link that was put aside) has no owner either.
                let abandoned = !stat.is_file || self.abandoned(&path);
                if old && abandoned && self.io.remove_any(&path).is_ok() {
                    swept += 1;
                }
            }
        }
        Ok(swept)
    }

    /// Whether nobody holds the lock of a file.
    fn abandoned(&self, path: &Path) -> bool {
        self.io
            .open(path)
            .and_then(|file| self.io.try_lock(&file, path))
            .is_ok_and(|locked| matches!(locked, Locked::Yes))
    }
}
