//! `keyprint doctor`: what could keep the store from doing its work, with advice.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use keyprint_cuda::nvrtc::{self, Nvrtc};
use keyprint_cuda::{CudaError, device, driver};
use keyprint_store::{Store, env};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::Done;
use crate::humanize::{clean, duration, shown, size};
use crate::output::{Look, Output};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Grade {
    Good,
    Poor,
    Bad,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    grade: Grade,
    found: String,
    advice: Option<String>,
}

fn good(check: &'static str, found: impl Into<String>) -> Finding {
    Finding { check, grade: Grade::Good, found: found.into(), advice: None }
}

fn poor(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { check, grade: Grade::Poor, found: found.into(), advice: Some(advice.into()) }
}

fn bad(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { check, grade: Grade::Bad, found: found.into(), advice: Some(advice.into()) }
}

pub(crate) fn run(store: &Store, modules: &[PathBuf], output: &mut Output<'_>) -> Done {
    let mut findings = Vec::new();
    match store.path() {
        None => findings.push(bad("directory", "there is none", "set KEYPRINT_CACHE_DIR")),
        Some(path) => {
            let (finding, is_writable) = directory(path);
            findings.push(finding);
            findings.push(trust(store));
            findings.extend(file_system(&nearest(path), store.limit(), is_writable));
            if is_writable {
                findings.push(locks(&nearest(path)));
            }
            findings.push(contents(store));
        }
    }
    findings.push(loading());
    findings.push(descriptors());
    findings.push(compiler());
    findings.extend(devices(modules));
    findings.push(variables());
    let worst = findings.iter().map(|finding| finding.grade).max().unwrap_or(Grade::Good);
    if output.is_json() {
        output.value(&findings);
    } else {
        for finding in &findings {
            let mark = match finding.grade {
                Grade::Good => output.look(Look::Good, "ok  "),
                Grade::Poor => output.look(Look::Heading, "note"),
                Grade::Bad => output.look(Look::Bad, "BAD "),
            };
            output.line(format!("{mark}  {:<12}{}", finding.check, finding.found));
            if let Some(advice) = &finding.advice {
                output.line(format!("{:18}{advice}", ""));
            }
        }
    }
    Ok(i32::from(worst == Grade::Bad))
}

/// The directory, or the nearest one above it that is there.
fn nearest(path: &Path) -> PathBuf {
    path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

/// Makes a file that goes away again.
fn probe(directory: &Path) -> io::Result<(fs::File, PathBuf)> {
    let path = directory.join(format!(".keyprint-doctor-{}", std::process::id()));
    Ok((fs::File::create_new(&path)?, path))
}

/// The directory, and whether it is to be written.
fn directory(path: &Path) -> (Finding, bool) {
    let place = nearest(path);
    let is_store = path.join("v1").is_dir();
    if is_store && env::READONLY.is_set() {
        return (good("directory", format!("{} (read-only, as KEYPRINT_READONLY says)", shown(path))), false);
    }
    match probe(&place) {
        Ok((_, probe)) => {
            let _ = fs::remove_file(probe);
            let state = if place == path { "" } else { " (not there yet; it can be made)" };
            (good("directory", format!("{}{state}", shown(path))), true)
        }
        // A store in an image is meant to be like that.
        Err(error) if is_store && is_refused(&error) => (
            good("directory", format!("{} (read-only: it is used, and nothing is added)", shown(path))),
            false,
        ),
        Err(error) => {
            let advice = "mend its permissions, or set KEYPRINT_CACHE_DIR to a directory of your own";
            (bad("directory", format!("`{}` cannot be written: {error}", shown(&place)), advice), false)
        }
    }
}

fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

fn trust(store: &Store) -> Finding {
    match store.check_directory() {
        Ok(()) => good("trust", "only you and root can write it"),
        Err(error) => {
            let text = error.to_string();
            let (problem, advice) = text.split_once("\nhint: ").unwrap_or((&text, "set KEYPRINT_CACHE_DIR"));
            bad("trust", problem, advice)
        }
    }
}

fn file_system(place: &Path, limit: u64, is_writable: bool) -> Vec<Finding> {
    let (Ok(kind), Ok(space)) = (rustix::fs::statfs(place), rustix::fs::statvfs(place)) else {
        return vec![poor("file system", "cannot be looked at", "is the directory there?")];
    };
    let name = match kind.f_type as u32 {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "zfs",
        0x794c_7630 => "overlay",
        0x0102_1994 => "tmpfs",
        0x6969 => "nfs",
        0xff53_4d42 | 0xfe53_4d42 => "smb",
        0x6573_5546 => "fuse",
        0x0bd0_0bd0 => "lustre",
        _ => "of another kind",
    };
    let kind = match name {
        "tmpfs" => {
            poor("file system", "tmpfs: nothing survives a restart", "set KEYPRINT_CACHE_DIR to a disk")
        }
        "nfs" | "smb" | "fuse" | "lustre" => poor(
            "file system",
            format!("{name}: slow, and locks may not reach other hosts"),
            "set KEYPRINT_CACHE_DIR to a local disk; give a warm directory to others as a shared tier",
        ),
        name => good("file system", name),
    };
    if !is_writable {
        return vec![kind];
    }
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let room = if free < limit / 10 {
        poor(
            "space",
            format!("{} free, and the store may grow to {}", size(free), size(limit)),
            "set KEYPRINT_CACHE_SIZE to less than what is free",
        )
    } else {
        good("space", format!("{} free, the store may grow to {}", size(free), size(limit)))
    };
    vec![kind, room]
}

fn locks(place: &Path) -> Finding {
    let outcome = probe(place).and_then(|(file, path)| {
        let locked = file.try_lock().map_err(io::Error::other).and_then(|()| {
            // A second opening of the same file must not get the lock.
            Ok(fs::File::open(&path)?.try_lock().is_err())
        });
        let _ = fs::remove_file(path);
        locked
    });
    match outcome {
        Ok(true) => good("locks", "work"),
        Ok(false) => poor("locks", "do not exclude each other", "several processes may build the same thing"),
        Err(error) => {
            poor("locks", format!("do not work: {error}"), "several processes may build the same thing")
        }
    }
}

fn contents(store: &Store) -> Finding {
    let scan = store.scan();
    if let Some((path, why)) = scan.skipped.first.first() {
        let count = scan.skipped.count;
        return poor(
            "contents",
            format!("{count} files or directories are passed over: {} ({})", shown(path), clean(why)),
            "files of others are left alone; `keyprint verify` names the first ones",
        );
    }
    let counters = store.usage().counters;
    let summary = format!("{} entries, {}", scan.entries.len(), size(scan.bytes));
    if counters.damaged > 0 {
        let summary = format!("{summary}; {} were found damaged so far", counters.damaged);
        return poor(
            "contents",
            summary,
            "damaged entries are built again; if there are more and more, look at the disk",
        );
    }
    good("contents", summary)
}

fn loading() -> Finding {
    let works = rustix::fs::memfd_create("keyprint-doctor", rustix::fs::MemfdFlags::CLOEXEC).is_ok();
    if works && Path::new("/proc/self/fd").is_dir() {
        return good("loading", "from anonymous files");
    }
    poor(
        "loading",
        "there are no anonymous files, or no /proc",
        "native code is loaded from private files in the store: its file system must not be mounted noexec",
    )
}

fn descriptors() -> Finding {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < 256 => poor(
            "open files",
            format!("at most {limit}"),
            "each loaded artifact keeps a file open: raise the limit (ulimit -n)",
        ),
        Some(limit) => good("open files", format!("at most {limit}")),
        None => good("open files", "no limit"),
    }
}

fn compiler() -> Finding {
    for name in ["cc", "gcc", "clang"] {
        if let Ok(done) = Command::new(name).arg("--version").output()
            && done.status.success()
        {
            let text = String::from_utf8_lossy(&done.stdout);
            return good("compiler", format!("{name}: {}", text.lines().next().unwrap_or_default()));
        }
    }
    poor("compiler", "none of cc, gcc, clang", "only needed to compile kernels; a warm store works without")
}

/// The CUDA driver, its devices, and what compiles for them.
fn devices(modules: &[PathBuf]) -> Vec<Finding> {
    let driver = match driver::driver() {
        Ok(driver) => driver,
        Err(error @ CudaError::OldDriver { .. }) => {
            return vec![poor("cuda", error.to_string(), error.hint())];
        }
        Err(error) => return vec![good("cuda", format!("not used: {error}"))],
    };
    let (major, minor) = (driver.version / 1000, driver.version % 1000 / 10);
    let count = device::count().unwrap_or(0);
    let mut findings = vec![good("cuda", format!("a driver of CUDA {major}.{minor}, {count} devices"))];
    for ordinal in 0..count {
        let begun = Instant::now();
        let found = device::describe(ordinal).and_then(|(name, bytes)| {
            let device = device::device(ordinal)?;
            Ok((name, bytes, device.capability))
        });
        findings.push(match found {
            Ok((name, bytes, (major, minor))) => good(
                "device",
                format!(
                    "cuda:{ordinal}, {name}, compute capability {major}.{minor}, {}; its context took {}",
                    size(bytes),
                    duration(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)),
                ),
            ),
            Err(error) => bad("device", format!("cuda:{ordinal}: {error}"), error.hint()),
        });
    }
    let path = nvrtc::find(&|name| std::env::var(name).ok(), modules);
    findings.push(match path.map(|path| (Nvrtc::open(&path), path)) {
        Some((Ok(nvrtc), path)) => {
            good("nvrtc", format!("{}.{}: {}", nvrtc.version.0, nvrtc.version.1, shown(&path)))
        }
        Some((Err(error), _)) => bad("nvrtc", error.to_string(), error.hint()),
        None => poor(
            "nvrtc",
            "there is none",
            "only needed to compile kernels for devices (`pip install nvidia-cuda-nvrtc`); a warm store works without",
        ),
    });
    findings
}

fn variables() -> Finding {
    let is_known = |name: &str| env::ALL.iter().any(|variable| variable.name == name);
    let set: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("KEYPRINT_"))
        .collect();
    let mut unknown: Vec<&String> = set.iter().filter(|name| !is_known(name)).collect();
    unknown.sort();
    if let Some(name) = unknown.first() {
        let known: Vec<&str> = env::ALL.iter().map(|variable| variable.name).collect();
        return poor(
            "environment",
            format!("`{name}` means nothing"),
            format!("known are {}", known.join(", ")),
        );
    }
    let mut set = set;
    set.sort();
    good(
        "environment",
        if set.is_empty() { "nothing is set".to_owned() } else { format!("{} set", set.join(", ")) },
    )
}
