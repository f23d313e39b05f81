//! What the tests of the store share.
#![allow(dead_code)]

use std::convert::Infallible;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use keyprint_fingerprint::fingerprint;
use keyprint_key::{Component, Key, KeyBuilder, Manifest, Tool};
use keyprint_store::{Artifact, Config, How, Outcome, Request, Store};

/// What is stored under a number: a few parts whose bytes follow from it.
pub fn artifact(number: u64, size: usize) -> Artifact {
    let mut artifact = Artifact::new();
    artifact.add("kernel.so", bytes(number, size)).unwrap();
    artifact.add("lib/notes.txt", format!("number {number}").into_bytes()).unwrap();
    artifact.with_metadata(number.to_le_bytes().to_vec())
}

pub fn bytes(number: u64, size: usize) -> Vec<u8> {
    (0..size as u64).map(|at| (at.wrapping_mul(31) ^ number) as u8).collect()
}

pub fn manifest(number: u64) -> Manifest {
    named("kernel", number)
}

pub fn named(name: &str, number: u64) -> Manifest {
    let mut key = KeyBuilder::new(name, Tool::new("test", "1"), None);
    key.add(Component::new("number", fingerprint(&number)).summary(number.to_string())).unwrap();
    key.finish()
}

pub fn key(number: u64) -> Key {
    manifest(number).key()
}

/// A store without memory tier, so that every hit comes from the disk; notices are collected.
pub fn config(path: &Path) -> Config {
    let private = Some(path.with_extension("private"));
    Config { memory: 0, sync: false, private, notify: Arc::new(|_| ()), ..Config::at(path) }
}

pub fn store(path: &Path) -> Store {
    Store::open(config(path))
}

pub fn build(store: &Store, number: u64, size: usize) -> Outcome {
    let build = || Ok::<_, Infallible>(artifact(number, size));
    store.get_or_build(&Request::new(&manifest(number)), build).unwrap_or_else(|never| match never {})
}

/// A hit, proved by a build that panics.
#[track_caller]
pub fn hit(store: &Store, number: u64, size: usize) -> How {
    let build = || -> Result<Artifact, Infallible> { panic!("{number} was built again") };
    let outcome = store.get_or_build(&Request::new(&manifest(number)), build);
    let outcome = outcome.unwrap_or_else(|never| match never {});
    check(&outcome, number, size);
    outcome.how
}

/// What the store handed out is what was put in, whole.
#[track_caller]
pub fn check(outcome: &Outcome, number: u64, size: usize) {
    let entry = &outcome.entry;
    assert_eq!(entry.key(), &key(number));
    assert!(entry.part("kernel.so") == Some(&bytes(number, size)[..]), "a wrong artifact");
    assert_eq!(entry.part("lib/notes.txt"), Some(format!("number {number}").as_bytes()));
    assert_eq!(entry.metadata(), number.to_le_bytes());
    assert_eq!(entry.names().count(), 2);
}

/// Either there is nothing, or the right thing.
#[track_caller]
pub fn right_or_nothing(store: &Store, number: u64, size: usize) -> bool {
    match store.get(&key(number)) {
        None => false,
        Some(entry) => {
            check(&Outcome { entry, how: How::Disk }, number, size);
            true
        }
    }
}

/// A clock that tests set.
#[derive(Clone)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    pub fn at(seconds: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seconds)))
    }

    pub fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::SeqCst);
    }

    pub fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    pub fn function(&self) -> Arc<dyn Fn() -> SystemTime + Send + Sync> {
        let seconds = Arc::clone(&self.0);
        Arc::new(move || SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.load(Ordering::SeqCst)))
    }
}

/// Collects what the store has to say.
#[derive(Clone, Default)]
pub struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    pub fn listen(&self, config: Config) -> Config {
        let said = Arc::clone(&self.0);
        Config { notify: Arc::new(move |notice| said.lock().unwrap().push(notice.to_string())), ..config }
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Runs a test of the same binary in another process, with something to do.
pub fn child(test: &str, role: &str, path: &Path) -> Child {
    let exe = std::env::current_exe().unwrap();
    Command::new(exe)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("STORE_TEST_ROLE", role)
        .env("STORE_TEST_PATH", path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The same, as another user; nothing if that one cannot run this program.
pub fn child_as(user: u32, test: &str, role: &str, path: &Path) -> Option<Child> {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    // A copy: where this program lies may be nobody else's business.
    let copy = tempfile::tempdir().unwrap();
    std::fs::set_permissions(copy.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let exe = copy.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    let spawned = Command::new(&exe)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("STORE_TEST_ROLE", role)
        .env("STORE_TEST_PATH", path)
        .current_dir("/")
        .uid(user)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    // It is loaded by now, or never will be.
    spawned.ok()
}

/// What this process is to do, if it is such a child.
pub fn role() -> Option<(String, std::path::PathBuf)> {
    Some((std::env::var("STORE_TEST_ROLE").ok()?, std::env::var_os("STORE_TEST_PATH")?.into()))
}

pub fn die() -> ! {
    let this = rustix::process::getpid();
    rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
    unreachable!("killed")
}

/// All files below a directory.
pub fn files(path: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![path.to_owned()];
    while let Some(directory) = pending.pop() {
        let Ok(names) = std::fs::read_dir(directory) else { continue };
        for name in names.flatten() {
            let path = name.path();
            if path.is_dir() && !path.is_symlink() { pending.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// The file of an entry.
pub fn entry_file(path: &Path, number: u64) -> std::path::PathBuf {
    let hex = key(number).hex();
    path.join(format!("v1/entries/{}/{}.kpe", &hex[..2], &hex[2..]))
}

/// Sweeps and makes room.
pub fn gc(store: &Store, limit: Option<u64>) -> std::io::Result<Option<keyprint_store::Freed>> {
    store.gc(limit, None, false, &mut |_, _| ())
}
