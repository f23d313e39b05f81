//! Trust: whether anybody else could have written what is about to be loaded.
//!
//! A directory is as safe as everything above it: who can write an ancestor can put another directory
//! in its place. So each component of the path, links resolved, must belong to this user or root and
//! be writable by nobody else. A sticky directory such as `/tmp` is excepted as an ancestor: in it,
//! names can be replaced only by the owners of what they name.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;

use crate::io::Stat;

const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;

/// Why nothing may be loaded from a place.
#[derive(Debug, Error)]
pub enum TrustError {
    /// Others can write it.
    #[error(
        "`{}` (mode {mode:04o}) can be written by other users, so nothing is loaded from `{}`\n\
         hint: chmod go-w '{}'",
        path.display(), store.display(), path.display()
    )]
    Writable {
        /// What others can write.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// What was to be loaded from.
        store: PathBuf,
    },
    /// It belongs to somebody else.
    #[error(
        "`{}` (mode {mode:04o}) belongs to user {owner}, not to this user or root, so nothing is loaded from `{}`\n\
         hint: chown {user} '{}', or set `KEYPRINT_CACHE_DIR` to a directory of your own",
        path.display(), store.display(), path.display()
    )]
    Foreign {
        /// What belongs to somebody else.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// Whom it belongs to.
        owner: u32,
        /// Who this is.
        user: u32,
        /// What was to be loaded from.
        store: PathBuf,
    },
    /// It cannot be looked at.
    #[error("cannot look at `{}`: {cause}", path.display())]
    Unreadable {
        /// What cannot be looked at.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Too many links.
    #[error("`{}` leads through too many links", .0.display())]
    Links(PathBuf),
}

/// Whether nobody but this user or root can write a file.
pub(crate) fn is_private(stat: &Stat) -> bool {
    (stat.owner == 0 || stat.owner == user()) && stat.mode & OTHERS_WRITE == 0
}

pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Checks a store: `inside` is what the store itself made below `root`, and is not excepted for being sticky.
///
/// # Errors
///
/// If anybody but this user or root can write any of it, or any directory above it.
pub(crate) fn check(root: &Path, inside: &[PathBuf]) -> Result<(), TrustError> {
    check_ancestors(root)?;
    for path in inside {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            // What is not there holds nothing to load.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(cause) => return Err(TrustError::Unreadable { path: path.clone(), cause }),
        };
        judge(path, &metadata, false, root)?;
        if metadata.is_symlink() {
            // Where a link leads lies elsewhere, and is as safe as everything above it there.
            check_ancestors(path)?;
            match fs::metadata(path) {
                Ok(target) => judge(path, &target, false, root)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(cause) => return Err(TrustError::Unreadable { path: path.clone(), cause }),
            }
        }
    }
    Ok(())
}

fn check_ancestors(root: &Path) -> Result<(), TrustError> {
    let mut ahead: Vec<OsString> = components(root);
    let mut path = PathBuf::from("/");
    let mut links = 0;
    loop {
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(cause) => return Err(TrustError::Unreadable { path, cause }),
        };
        judge(&path, &metadata, true, root)?;
        if metadata.is_symlink() {
            links += 1;
            if links > 40 {
                return Err(TrustError::Links(root.to_owned()));
            }
            let target = match fs::read_link(&path) {
                Ok(target) => target,
                Err(cause) => return Err(TrustError::Unreadable { path, cause }),
            };
            path.pop();
            if target.is_absolute() {
                path = PathBuf::from("/");
            }
            ahead.extend(components(&target));
        }
        loop {
            match ahead.pop() {
                None => return Ok(()),
                Some(up) if up == ".." => {
                    path.pop();
                }
                Some(next) => {
                    path.push(next);
                    break;
                }
            }
        }
    }
}

/// The names that a path goes through, the first one last.
fn components(path: &Path) -> Vec<OsString> {
    let named = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    });
    let mut names: Vec<_> = named.collect();
    names.reverse();
    names
}

fn judge(
    path: &Path,
    metadata: &fs::Metadata,
    sticky_excepted: bool,
    store: &Path,
) -> Result<(), TrustError> {
    let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
    let (path, store) = (path.to_owned(), store.to_owned());
    if owner != 0 && owner != user() {
        return Err(TrustError::Foreign { path, mode, owner, user: user(), store });
    }
    // Everybody may "write" a link; whether it can be replaced is up to its directory.
    let excepted = metadata.is_symlink() || sticky_excepted && mode & STICKY != 0;
    if mode & OTHERS_WRITE != 0 && !excepted {
        return Err(TrustError::Writable { path, mode, store });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A private directory: the tests' own may lie anywhere.
    fn private() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        (directory, path)
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn private_directories_are_trusted() {
        let (_keep, root) = private();
        fs::create_dir_all(root.join("a/v1")).unwrap();
        mode(&root.join("a"), 0o755);
        mode(&root.join("a/v1"), 0o700);
        check(&root.join("a"), &[root.join("a/v1")]).unwrap();
        check(&root.join("not there"), &[]).unwrap();
    }

    #[test]
    fn what_others_can_write_is_refused() {
        let (_keep, root) = private();
        let deep = root.join("a/b/c");
        fs::create_dir_all(deep.join("v1")).unwrap();
        for (culprit, bits) in [("a", 0o775), ("a/b", 0o757), ("a/b/c", 0o770), ("a/b/c/v1", 0o772)] {
            let culprit = root.join(culprit);
            mode(&culprit, bits);
            match check(&deep, &[deep.join("v1")]) {
                Err(error @ TrustError::Writable { .. }) => {
                    let text = error.to_string();
                    assert!(text.contains(&format!("`{}` (mode {bits:04o})", culprit.display())), "{text}");
                    assert!(text.contains(&format!("hint: chmod go-w '{}'", culprit.display())), "{text}");
                }
                other => panic!("{other:?}"),
            }
            mode(&culprit, 0o700);
        }
        check(&deep, &[deep.join("v1")]).unwrap();
    }

    #[test]
    fn sticky_directories_are_excepted_above_and_not_inside() {
        let (_keep, root) = private();
        let store = root.join("tmp/store");
        fs::create_dir_all(store.join("v1")).unwrap();
        mode(&root.join("tmp"), 0o1777);
        check(&store, &[store.join("v1")]).unwrap();
        mode(&store.join("v1"), 0o1777);
        assert!(matches!(check(&store, &[store.join("v1")]), Err(TrustError::Writable { .. })));
    }

    #[test]
    fn links_inside_are_followed_too() {
        let (_keep, root) = private();
        let store = root.join("store");
        fs::create_dir_all(root.join("elsewhere/deep/v1")).unwrap();
        fs::create_dir_all(&store).unwrap();
        symlink("../elsewhere/deep/v1", store.join("v1")).unwrap();
        let inside = [store.join("v1")];
        check(&store, &inside).unwrap();
        for culprit in ["elsewhere", "elsewhere/deep", "elsewhere/deep/v1"] {
            mode(&root.join(culprit), 0o777);
            assert!(matches!(check(&store, &inside), Err(TrustError::Writable { .. })), "{culprit}");
            // Sticky is good enough for what is above, and not for what entries lie in.
            mode(&root.join(culprit), 0o1777);
            assert_eq!(check(&store, &inside).is_ok(), !culprit.ends_with("v1"), "{culprit}");
            mode(&root.join(culprit), 0o755);
        }
        fs::remove_dir(root.join("elsewhere/deep/v1")).unwrap();
        check(&store, &inside).unwrap();
    }

    #[test]
    fn links_are_followed_and_what_they_lie_in_counts() {
        let (_keep, root) = private();
        fs::create_dir_all(root.join("real/store")).unwrap();
        fs::create_dir_all(root.join("open")).unwrap();
        symlink("../real", root.join("open/link")).unwrap();
        check(&root.join("open/link/store"), &[]).unwrap();
        mode(&root.join("open"), 0o777);
        assert!(check(&root.join("open/link/store"), &[]).is_err(), "the link can be replaced");
        mode(&root.join("open"), 0o755);
        mode(&root.join("real"), 0o777);
        assert!(check(&root.join("open/link/store"), &[]).is_err(), "where it leads can be replaced");
        mode(&root.join("real"), 0o755);
        symlink("loop", root.join("loop")).unwrap();
        assert!(matches!(check(&root.join("loop/x"), &[]), Err(TrustError::Links(_))));
    }
}
