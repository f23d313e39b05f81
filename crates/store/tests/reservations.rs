//! What counts towards the limit while several write, when a device is full, and when nobody may write.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use keyprint_store::io::{Fault, Io, Op, Verdict};
use keyprint_store::{Config, Store};
use support::{Said, artifact, build, config, entry_file, files, gc, key, manifest, right_or_nothing, store};

/// The ledger knows what is there.
#[track_caller]
fn agree(store: &Store) {
    let (scan, counters) = (store.scan(), store.usage().counters);
    assert_eq!((counters.entries, counters.bytes), (scan.entries.len() as i64, scan.total_bytes() as i64));
}

/// Does something once, before the first write to a file that is being staged.
struct BeforeWriting<F>(AtomicU32, F);

impl<F: Fn() + Send + Sync> Fault for BeforeWriting<F> {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        let is_staged = path.parent().is_some_and(|parent| parent.ends_with("staging"));
        // The first one gives a large file its length.
        if op == Op::Write && is_staged && self.0.fetch_add(1, Ordering::SeqCst) == 1 {
            (self.1)();
        }
        Verdict::Proceed
    }
}

#[test]
fn what_is_being_written_counts_whoever_makes_room() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    const LIMIT: u64 = 10_000_000;
    let limited = |path: &PathBuf| Config { size: LIMIT, ..config(path) };
    build(&Store::open(limited(&path)), 50, 10);
    let other = path.clone();
    let hook =
        BeforeWriting(AtomicU32::new(0), move || drop(build(&Store::open(limited(&other)), 2, 6_000_000)));
    let first = Store::open(Config { io: Io::with_fault(Arc::new(hook)), ..limited(&path) });
    build(&first, 1, 6_000_000);
    drop(first);
    let later = Store::open(limited(&path));
    build(&later, 3, 3_000_000);
    assert!(later.scan().total_bytes() <= LIMIT, "{}", later.scan().total_bytes());
    agree(&later);
}

/// The next write to a staged file finds no room.
struct Full(AtomicU32);

impl Fault for Full {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        let is_staged = path.parent().is_some_and(|parent| parent.ends_with("staging"));
        let left = self.0.load(Ordering::SeqCst);
        if op == Op::Write && is_staged && left > 0 {
            self.0.store(left - 1, Ordering::SeqCst);
            return Verdict::Short(10);
        }
        Verdict::Proceed
    }
}

#[test]
fn a_full_device_is_counted_right() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..20 {
        build(&store(directory.path()), number, 10_000);
    }
    let full = Arc::new(Full(AtomicU32::new(0)));
    let io = Io::with_fault(Arc::clone(&full) as Arc<dyn Fault>);
    let store = Store::open(Config { io, ..config(directory.path()) });
    for number in 100..104 {
        full.0.store(1, Ordering::SeqCst);
        build(&store, number, 50_000);
        assert!(right_or_nothing(&store, number, 50_000));
        agree(&store);
    }
}

#[test]
fn room_that_somebody_else_made_is_used() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..20 {
        build(&store(directory.path()), number, 10_000);
    }
    // Whoever makes room right now keeps this one from doing it.
    let making = fs::File::open(directory.path().join("v1/gc.lock")).unwrap();
    making.lock().unwrap();
    let said = Said::default();
    let io = Io::with_fault(Arc::new(Full(AtomicU32::new(1))));
    let store = Store::open(said.listen(Config { io, ..config(directory.path()) }));
    build(&store, 99, 10_000);
    assert!(right_or_nothing(&store, 99, 10_000));
    assert_eq!(said.all(), [] as [String; 0]);
}

#[test]
fn somebody_who_makes_room_and_is_stopped_keeps_nobody() {
    if let Some((_, path)) = support::role() {
        struct StopWhileSweeping;
        impl Fault for StopWhileSweeping {
            fn before(&self, op: Op, path: &Path) -> Verdict {
                if op == Op::List && path.ends_with("entries") {
                    let this = rustix::process::getpid();
                    rustix::process::kill_process(this, rustix::process::Signal::STOP).unwrap();
                }
                Verdict::Proceed
            }
        }
        let _ = gc(
            &Store::open(Config { io: Io::with_fault(Arc::new(StopWhileSweeping)), ..config(&path) }),
            None,
        );
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    build(&store(path), 0, 10_000);
    let mut child = support::child("somebody_who_makes_room_and_is_stopped_keeps_nobody", "", path);
    let stat = format!("/proc/{}/stat", child.id());
    while !fs::read_to_string(&stat).unwrap().contains(") T ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    let limited = Store::open(Config { size: 50_000, ..config(path) });
    for number in 1..10 {
        build(&limited, number, 10_000);
    }
    assert!(limited.scan().total_bytes() <= 50_000);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_is_larger_than_the_store_displaces_nothing_when_imported() {
    let directory = tempfile::tempdir().unwrap();
    let from = store(&directory.path().join("from"));
    build(&from, 100, 300_000);
    build(&from, 101, 1000);
    let mut export = Vec::new();
    from.export(&mut export, &|_| true, |_, _| ()).unwrap();
    let to = Store::open(Config { size: 200_000, ..config(&directory.path().join("to")) });
    for number in 0..10 {
        build(&to, number, 10_000);
    }
    let done = to.import_from(&export[..], true, |_| ()).unwrap();
    assert_eq!((done.entries, done.skipped.count, to.len()), (1, 1, 11));
    assert!(done.skipped.first[0].1.contains("larger"), "{:?}", done.skipped);
}

#[test]
fn a_readonly_store_takes_nothing_in_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let from = store(&directory.path().join("from"));
    build(&from, 100, 1000);
    let mut export = Vec::new();
    from.export(&mut export, &|_| true, |_, _| ()).unwrap();
    let path = directory.path().join("to");
    for number in 0..10 {
        build(&store(&path), number, 10_000);
    }
    let before = files(&path);
    let readonly = Store::open(Config { readonly: true, size: 50_000, ..config(&path) });
    let refused = readonly.import_from(&export[..], true, |_| ()).unwrap_err();
    assert!(refused.to_string().contains("is read-only"), "{refused}");
    let would = readonly.gc(None, None, true, &mut |_, _| ()).unwrap().unwrap();
    assert!(would.entries > 0);
    drop(readonly);
    assert_eq!(files(&path), before);
}

#[test]
fn only_counting_counts_as_counting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for number in 0..10 {
        build(&store(path), number, 10_000);
    }
    fs::remove_file(path.join("v1/ledger")).unwrap();
    // Whoever only looks, or sets the index right, has not counted.
    store(path).gc(None, None, true, &mut |_, _| ()).unwrap();
    assert_eq!(store(path).indexed(&mut |_, _| ()).map(|records| records.len()), Some(10));
    let limited = Store::open(Config { size: 60_000, ..config(path) });
    build(&limited, 99, 10);
    assert!(limited.scan().total_bytes() <= 60_000);
    agree(&limited);
}

#[test]
fn looking_at_statistics_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..4 {
        build(&store(directory.path()), number, 1000);
    }
    fs::remove_file(entry_file(directory.path(), 0)).unwrap();
    let before = fs::read(directory.path().join("v1/ledger")).unwrap();
    let looking = store(directory.path());
    assert_eq!(looking.usage_of(&looking.scan()).counters.entries, 3);
    drop(looking);
    assert_eq!(fs::read(directory.path().join("v1/ledger")).unwrap(), before);
}

#[test]
fn what_others_can_write_is_not_sealed_as_ones_own() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let private = Some(root.join("private"));
    let open = |name: &str| Store::open(Config { private: private.clone(), ..config(&root.join(name)) });
    let theirs = open("theirs");
    for number in 0..3 {
        build(&theirs, number, 100);
    }
    let export = || {
        let mut export = Vec::new();
        let done = theirs.export(&mut export, &|_| true, |_, _| ()).unwrap();
        (export, done)
    };
    let (export_of_own, _) = export();
    assert_eq!(open("first").import_from(&export_of_own[..], false, |_| ()).unwrap().entries, 3);
    // One entry that others can write is left out.
    mode(&entry_file(&root.join("theirs"), 1), 0o666);
    let (export_of_rest, done) = export();
    assert_eq!((done.entries, done.skipped.count), (2, 1), "{:?}", done.skipped);
    assert_eq!(open("second").import_from(&export_of_rest[..], false, |_| ()).unwrap().entries, 2);
    // And a store that others can write is not one's own.
    mode(&root.join("theirs"), 0o777);
    let (export_of_theirs, _) = export();
    assert!(open("third").import_from(&export_of_theirs[..], false, |_| ()).is_err());
    assert_eq!(open("third").import_from(&export_of_theirs[..], true, |_| ()).unwrap().entries, 3);
}

#[test]
fn the_index_does_not_grow_with_what_is_replaced_or_gone() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let size = || -> u64 {
        files(&directory.path().join("v1/index")).iter().map(|file| file.metadata().unwrap().len()).sum()
    };
    store.put(&manifest(1), artifact(1, 10), Duration::ZERO);
    let before = size();
    for _ in 0..100 {
        store.put(&manifest(1), artifact(1, 10), Duration::ZERO);
    }
    assert_eq!(size(), before);
    // An entry whose record cannot be written is found all the same, later.
    struct NoIndex;
    impl Fault for NoIndex {
        fn before(&self, op: Op, path: &Path) -> Verdict {
            let is_index = path.parent().is_some_and(|parent| parent.ends_with("index"));
            if op == Op::Write && is_index { Verdict::Short(0) } else { Verdict::Proceed }
        }
    }
    build(&Store::open(Config { io: Io::with_fault(Arc::new(NoIndex)), ..config(directory.path()) }), 2, 10);
    let keys: Vec<_> = store.indexed(&mut |_, _| ()).unwrap().iter().map(|record| record.key).collect();
    assert!(keys.contains(&key(1)) && keys.contains(&key(2)));
}
