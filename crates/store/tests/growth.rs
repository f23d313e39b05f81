//! A store that grows: what a lookup costs, what is bounded, and what one odd file breaks.

mod support;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keyprint_store::io::{Fault, Io, Op, Verdict};
use keyprint_store::{Artifact, Config, Request, SharedDir, Store};
use support::{
    Clock, Said, build, check, config, entry_file, files, hit, key, manifest, right_or_nothing, store,
};

const SIZE: usize = 5000;

/// Counts system calls.
#[derive(Default)]
struct Calls(AtomicU64);

impl Fault for Calls {
    fn before(&self, _op: Op, _path: &Path) -> Verdict {
        self.0.fetch_add(1, Ordering::SeqCst);
        Verdict::Proceed
    }
}

/// How many system calls something takes in a store of so many entries.
fn calls(entries: u64, run: impl Fn(&Store)) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let filled = store(directory.path());
    for number in 0..entries {
        build(&filled, number, 10);
    }
    drop(filled);
    let calls = Arc::new(Calls::default());
    let io = Io::with_fault(Arc::clone(&calls) as Arc<dyn Fault>);
    let store = Store::open(Config { io, ..config(directory.path()) });
    run(&store);
    calls.0.load(Ordering::SeqCst)
}

type Case = (&'static str, fn(&Store));

#[test]
fn what_a_lookup_costs_does_not_grow_with_the_store() {
    let all: [Case; 4] = [
        ("a hit", |store| assert_eq!(hit(store, 7, 10), keyprint_store::How::Disk)),
        ("a miss", |store| drop(build(store, 1_000_000, 10))),
        ("another name's reasons", |store| drop(store.why(&support::named("other", 1), u64::MAX))),
        ("reading the index", |store| drop(store.indexed(&mut |_, _| ()))),
    ];
    for (what, run) in all {
        assert_eq!(calls(20, run), calls(400, run), "{what}");
    }
    let reasons: fn(&Store) = |store| drop(store.why(&manifest(1_000_000), u64::MAX));
    assert_eq!(
        calls(200, reasons),
        calls(800, reasons),
        "the latest entries of a name are looked at, no more"
    );
}

#[test]
fn entries_are_found_by_name_although_the_index_was_lost() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    for number in 0..30 {
        build(&store, number, 10);
    }
    let keys = |store: &Store| -> HashSet<_> {
        store.indexed(&mut |_, _| ()).unwrap().iter().map(|record| record.key).collect()
    };
    let expected: HashSet<_> = (0..30).map(key).collect();
    assert_eq!(keys(&store), expected);
    fs::remove_dir_all(directory.path().join("v1/index")).unwrap();
    let mut shown = 0;
    let again = store.indexed(&mut |_, _| shown += 1).unwrap();
    assert_eq!((again.len(), shown), (30, 30), "made anew, with progress");
    assert_eq!(keys(&store), expected);
    // Nonsense in it is passed over, and set right when room is made.
    for file in files(&directory.path().join("v1/index")) {
        fs::write(file, b"nonsense KPI1 and more").unwrap();
    }
    support::gc(&store, None).unwrap().unwrap();
    assert_eq!(keys(&store), expected);
    // What is gone is gone from the index, sooner or later.
    store.clear(None, |_| ()).unwrap();
    support::gc(&store, None).unwrap().unwrap();
    support::gc(&store, None).unwrap().unwrap();
    assert_eq!(keys(&store), HashSet::new());
}

#[test]
fn what_memory_answers_is_not_the_first_to_go() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::at(1_000_000);
    let store = Store::open(Config { memory: 1 << 20, clock: clock.function(), ..config(directory.path()) });
    for number in 0..10 {
        build(&store, number, SIZE);
        clock.advance(100);
    }
    for _ in 0..3 {
        hit(&store, 0, SIZE);
        clock.advance(100);
    }
    support::gc(&store, Some(30_000)).unwrap().unwrap();
    assert!(entry_file(directory.path(), 0).exists(), "the hottest entry stays");
    assert!(!entry_file(directory.path(), 1).exists());
}

fn total(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let all = files(&path.join("v1"));
    // A file that is renamed meanwhile is listed twice.
    let unique: std::collections::HashMap<u64, u64> =
        all.iter().filter_map(|file| file.metadata().ok()).map(|file| (file.ino(), file.len())).collect();
    unique.values().sum()
}

#[test]
fn leavings_of_killed_writers_count_and_go() {
    const LARGE: usize = 1 << 20;
    if let Some((_, path)) = support::role() {
        struct DieWhilePlacing;
        impl Fault for DieWhilePlacing {
            fn before(&self, op: Op, path: &Path) -> Verdict {
                if op == Op::Rename && path.parent().is_some_and(|parent| parent.ends_with("staging")) {
                    support::die();
                }
                Verdict::Proceed
            }
        }
        let io = Io::with_fault(Arc::new(DieWhilePlacing));
        let store = Store::open(Config { size: 4 * LARGE as u64, io, ..config(&path) });
        build(&store, u64::from(std::process::id()), LARGE);
        unreachable!("killed");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for _ in 0..20 {
        let child = support::child("leavings_of_killed_writers_count_and_go", "", path);
        assert!(!child.wait_with_output().unwrap().status.success());
        assert!(total(path) <= 5 * LARGE as u64, "{}", total(path));
    }
    // They go without waiting for them to be old.
    build(&Store::open(Config { size: 4 * LARGE as u64, ..config(path) }), 1, LARGE);
    support::gc(&store(path), None).unwrap().unwrap();
    assert_eq!(files(&path.join("v1/staging")).len(), 0);
}

#[test]
fn several_writers_do_not_fill_the_store_twice() {
    const WRITERS: u64 = 6;
    const EACH: usize = 100_000;
    let limit = 10 * (EACH as u64 + 2000);
    if let Some((role, path)) = support::role() {
        let store = Store::open(Config { size: limit, ..config(&path) });
        let base: u64 = role.parse().unwrap();
        for number in 0..40 {
            check(&build(&store, base * 1000 + number, EACH), base * 1000 + number, EACH);
        }
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut children: Vec<_> = (0..WRITERS)
        .map(|writer| {
            support::child("several_writers_do_not_fill_the_store_twice", &writer.to_string(), path)
        })
        .collect();
    let mut most = 0;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        most = most.max(total(path));
    }
    // Beside what may be there, each is about to write something; and listing takes time, in which some go and some come.
    let bound = 2 * limit - limit / 10;
    assert!(most <= bound && most > limit / 2, "{most} of {bound}");
}

#[test]
fn damaged_entries_do_not_pile_up() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    for number in 0..100 {
        build(&store, number, 100);
        fs::write(entry_file(directory.path(), number), "damaged").unwrap();
        assert!(!right_or_nothing(&store, number, 100));
    }
    assert_eq!(files(&directory.path().join("v1/quarantine")).len(), 32);
}

/// Refuses to look at some places, as files of another user do.
struct Refuse(fn(Op, &Path) -> bool);

impl Fault for Refuse {
    fn before(&self, op: Op, path: &Path) -> Verdict {
        if self.0(op, path) {
            Verdict::Fail(io::ErrorKind::PermissionDenied.into())
        } else {
            Verdict::Proceed
        }
    }
}

#[test]
fn one_place_that_cannot_be_read_stops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let filled = store(directory.path());
    for number in 0..20 {
        build(&filled, number, SIZE);
    }
    // A directory that is not ours; one that cannot be listed, or entries that cannot be looked at.
    fs::create_dir(directory.path().join("v1/entries/zz")).unwrap();
    for refuse in
        [(|op, path| op == Op::List && path.ends_with("00")) as fn(Op, &Path) -> bool, |op, path| {
            matches!(op, Op::Stat | Op::Open | Op::Unlink) && odd(path)
        }]
    {
        let _ = fs::create_dir(directory.path().join("v1/entries/00"));
        let io = Io::with_fault(Arc::new(Refuse(refuse)));
        let store = Store::open(Config { io, ..config(directory.path()) });
        let scan = store.scan();
        assert!(scan.skipped.count >= 2 && scan.entries.len() < 20 + 1, "{:?}", scan.skipped);
        assert_eq!(scan.skipped.first.len() as u64, scan.skipped.count);
        let mut export = Vec::new();
        let exported = store.export(&mut export, &|_| true, |_, _| ()).unwrap();
        assert_eq!(exported.entries, scan.entries.len() as u64);
        assert!(exported.skipped.count >= 2);
        let freed = support::gc(&store, Some(60_000)).unwrap().unwrap();
        assert!(freed.left_bytes <= 60_000 && freed.skipped.count >= 2, "{freed:?}");
        let cleared = store.clear(None, |_| ()).unwrap();
        assert!(cleared.skipped.count >= 2);
        for number in 0..20 {
            build(&filled, number, SIZE);
        }
    }
}

/// Some entries, by their keys.
fn odd(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "kpe") && path.to_string_lossy().contains("7.kpe")
}

#[test]
fn an_entry_that_cannot_be_removed_stays_alone() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..50 {
        build(&store(directory.path()), number, SIZE);
    }
    let stuck = files(&directory.path().join("v1/entries")).iter().filter(|path| odd(path)).count();
    assert!(stuck > 0, "the test tests nothing");
    let io = Io::with_fault(Arc::new(Refuse(|op, path| op == Op::Unlink && odd(path))));
    let store = Store::open(Config { io, ..config(directory.path()) });
    let freed = support::gc(&store, Some(0)).unwrap().unwrap();
    assert_eq!((freed.left_entries, freed.skipped.count), (stuck as u64, stuck as u64));
    assert!(freed.skipped.first[0].1.contains("permission"), "{:?}", freed.skipped);
}

#[test]
fn an_odd_entry_in_a_shared_directory_leaves_the_others() {
    use std::os::unix::fs::PermissionsExt;
    let shared = tempfile::tempdir().unwrap();
    for number in 0..4 {
        build(&store(shared.path()), number, SIZE);
    }
    fs::set_permissions(entry_file(shared.path(), 0), fs::Permissions::from_mode(0o666)).unwrap();
    fs::remove_file(entry_file(shared.path(), 1)).unwrap();
    fs::create_dir(entry_file(shared.path(), 1)).unwrap();
    let local = tempfile::tempdir().unwrap();
    let said = Said::default();
    let dirs = vec![SharedDir { path: shared.path().to_owned(), trusted: false }];
    let store = Store::open(said.listen(Config { shared: dirs, ..config(local.path()) }));
    for number in 0..2 {
        assert_eq!(build(&store, number, SIZE).how, keyprint_store::How::Built);
    }
    for number in 2..4 {
        assert_eq!(hit(&store, number, SIZE), keyprint_store::How::Tier);
    }
    assert_eq!(said.all().len(), 1, "{:?}", said.all());
    assert!(said.all()[0].contains("passed over") && said.all()[0].contains("0666"), "{:?}", said.all());
}

#[test]
fn who_can_read_a_store_cannot_make_its_exports() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = store(&path);
    build(&store, 1, SIZE);
    let mut export = Vec::new();
    store.export(&mut export, &|_| true, |_, _| ()).unwrap();
    let secret = fs::read(directory.path().join("store.private/seal.secret")).unwrap();
    for file in files(&path) {
        let bytes = fs::read(&file).unwrap();
        assert!(!bytes.windows(32).any(|window| window == secret), "{}", file.display());
    }
    // The secret of earlier versions, which may have been read by others, goes.
    fs::write(path.join("v1/secret"), "of an earlier version, 32 bytes.").unwrap();
    support::gc(&store, None).unwrap().unwrap();
    assert!(!path.join("v1/secret").exists());
    store.import_from(&export[..], false, |_| ()).unwrap();
    let seal = export.len() - 32;
    export[seal..].fill(7);
    let refused = store.import_from(&export[..], false, |_| ()).unwrap_err();
    assert!(refused.to_string().contains("--trust"), "{refused}");
}

#[test]
fn another_user_reads_what_is_shown_to_all_and_nothing_else() {
    const NOBODY: u32 = 65534;
    if let Some((_, path)) = support::role() {
        assert_eq!(rustix::process::geteuid().as_raw(), NOBODY);
        assert!(
            fs::read(path.with_extension("private").join("seal.secret")).is_err(),
            "the secret stays secret"
        );
        // As the store itself, which is root's: it is read, and one word is said about writing.
        let said = Said::default();
        let theirs = Store::open(said.listen(config(&path)));
        hit(&theirs, 1, SIZE);
        theirs.load(&theirs.get(&key(1)).unwrap(), "kernel.so").unwrap();
        for number in 2..5 {
            assert_eq!(build(&theirs, number, SIZE).how, keyprint_store::How::Built);
        }
        assert_eq!(said.all().len(), 1, "{:?}", said.all());
        assert!(said.all()[0].contains("it is read, and nothing is added"), "{:?}", said.all());
        // And as a tier behind a store of one's own.
        let own = tempfile::tempdir().unwrap();
        let dirs = vec![SharedDir { path: path.clone(), trusted: false }];
        let store = Store::open(Config { shared: dirs, ..config(own.path()) });
        assert_eq!(hit(&store, 1, SIZE), keyprint_store::How::Tier);
        return;
    }
    if rustix::process::geteuid().as_raw() != 0 {
        eprintln!("skipped: only root can be somebody else");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    build(&store(&path), 1, SIZE);
    store(&path).export(io::sink(), &|_| true, |_, _| ()).unwrap();
    let readable = std::process::Command::new("chmod").args(["-R", "go+rX"]).arg(directory.path()).status();
    assert!(readable.unwrap().success());
    // Not even this lays the secret open: a secret that others can read is refused.
    assert!(
        store(&path)
            .export(io::sink(), &|_| true, |_, _| ())
            .unwrap_err()
            .to_string()
            .contains("not private")
    );
    fs::set_permissions(
        directory.path().join("store.private"),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    let name = "another_user_reads_what_is_shown_to_all_and_nothing_else";
    let Some(child) = support::child_as(NOBODY, name, "", &path) else {
        eprintln!("skipped: others cannot run this program");
        return;
    };
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(files(&path.join("v1/staging")).len(), 0);
}

#[test]
fn unused_entries_go_and_a_dry_run_says_which() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::at(1_000_000);
    let store = Store::open(Config { clock: clock.function(), ..config(directory.path()) });
    for number in 0..10 {
        build(&store, number, SIZE);
        clock.advance(1000);
    }
    let gc = |dry_run| {
        let age = Some(Duration::from_secs(4500));
        store.gc(None, age, dry_run, &mut |_, _| ()).unwrap().unwrap()
    };
    let would = gc(true);
    assert_eq!((would.entries, would.left_entries, store.len()), (6, 4, 10));
    let did = gc(false);
    assert_eq!((did.entries, did.left_entries, store.len()), (6, 4, 4));
    assert_eq!(would.bytes, did.bytes);
    assert!((6..10).all(|number| right_or_nothing(&store, number, SIZE)));
}

#[test]
fn counting_anew() {
    let directory = tempfile::tempdir().unwrap();
    let first = store(directory.path());
    build(&first, 1, SIZE);
    hit(&first, 1, SIZE);
    first.flush();
    store(directory.path()).zero();
    let counters = store(directory.path()).usage().counters;
    assert_eq!((counters.builds, counters.disk_hits, counters.entries), (0, 0, 1));
    assert_eq!(counters.bytes as u64, fs::metadata(entry_file(directory.path(), 1)).unwrap().len());
    // Whatever the ledger says, what is there is counted.
    fs::remove_file(directory.path().join("v1/ledger")).unwrap();
    let later = store(directory.path());
    assert_eq!(later.usage_of(&later.scan()).counters.entries, 1);
    build(&later, 2, SIZE);
    let counters = store(directory.path()).usage().counters;
    assert_eq!((counters.entries, counters.bytes as u64), (2, later.scan().total_bytes()), "and set right");
}

#[test]
fn switches() {
    let directory = tempfile::tempdir().unwrap();
    let plain = || config(directory.path());
    build(&Store::open(plain()), 1, SIZE);
    let before = files(directory.path());

    let disabled = Store::open(Config { disabled: true, memory: 1 << 20, ..plain() });
    assert_eq!(build(&disabled, 1, SIZE).how, keyprint_store::How::Built);
    assert_eq!(hit(&disabled, 1, SIZE), keyprint_store::How::Memory);
    drop(disabled);
    assert_eq!(files(directory.path()), before);

    let recache = Store::open(Config { recache: true, memory: 1 << 20, ..plain() });
    let other = || Ok::<_, ()>(Artifact::single(b"other".to_vec()));
    let outcome = recache.get_or_build(&Request::new(&manifest(1)), other).unwrap();
    assert_eq!(outcome.how, keyprint_store::How::Built);
    let again = recache.get_or_build(&Request::new(&manifest(1)), || Err(())).unwrap();
    assert_eq!(again.how, keyprint_store::How::Memory, "once in each process");
    let entry = store(directory.path()).get(&key(1)).unwrap();
    assert_eq!(entry.part("data"), Some(&b"other"[..]), "in place of what was");
}

#[test]
fn parts_are_not_copied() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Config { memory: 1 << 20, ..config(directory.path()) });
    let bytes = bytes::Bytes::from(vec![7u8; 10_000]);
    let place = bytes.as_ptr();
    let entry = store.put(&manifest(1), Artifact::single(bytes), Duration::ZERO);
    assert_eq!(entry.part("data").unwrap().as_ptr(), place);
    let read = support::store(directory.path()).get(&key(1)).unwrap();
    let shared = read.shared_part("data").unwrap();
    assert_eq!(shared.as_ptr(), read.part("data").unwrap().as_ptr());
    drop(read);
    assert_eq!(shared, vec![7u8; 10_000]);
}
