//! The size limit: who goes, who stays, and that nobody is disturbed.

mod support;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use keyprint_store::io::{Fault, Op, Verdict};
use keyprint_store::{Config, Store};
use support::{Clock, Said, build, check, config, entry_file, files, hit, key, right_or_nothing};

const SIZE: usize = 10_000;

fn limited(path: &std::path::Path, entries: u64, clock: &Clock) -> Store {
    Store::open(Config { size: entries * 11_200, clock: clock.function(), ..config(path) })
}

fn there(path: &std::path::Path, numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers.filter(|number| entry_file(path, *number).exists()).collect()
}

#[test]
fn the_least_recently_used_go_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let clock = Clock::at(1_000_000);
    let store = limited(path, 10, &clock);
    for number in 0..10 {
        build(&store, number, SIZE);
        clock.advance(100);
    }
    assert_eq!(there(path, 0..10).len(), 10);
    // 1 is used again; 9 too, too shortly after for it to be noted.
    hit(&store, 9, SIZE);
    hit(&store, 1, SIZE);
    clock.advance(100);
    build(&store, 10, SIZE);
    assert_eq!(there(path, 0..11), [1, 3, 4, 5, 6, 7, 8, 9, 10], "down to nine tenths");
    let counters = store.usage().counters;
    assert_eq!((counters.entries, counters.evicted), (9, 2));
}

#[test]
fn a_limit_holds_over_many_processes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let clock = Clock::at(1_000_000);
    for number in 0..60 {
        // A store of its own each time, as in a process of its own.
        build(&limited(path, 10, &clock), number, SIZE);
        clock.advance(10);
        assert!(there(path, 0..60).len() <= 10, "after {number}");
    }
    assert!(there(path, 50..60).len() >= 8);
}

#[test]
fn a_limit_holds_when_processes_end_without_a_word() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let clock = Clock::at(1_000_000);
    for number in 0..60 {
        let store = limited(path, 10, &clock);
        store.put(&support::manifest(number), support::artifact(number, SIZE), std::time::Duration::ZERO);
        // Neither a destructor nor anything at exit runs.
        std::mem::forget(store);
        clock.advance(10);
        assert!(there(path, 0..60).len() <= 10, "after {number}");
    }
}

#[test]
fn what_was_just_built_stays_whatever_the_clock_says() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let clock = Clock::at(1_000_000);
    let store = limited(path, 1, &clock);
    for number in 0..5 {
        check(&build(&store, number, SIZE), number, SIZE);
        // A little back, so that the next one looks older than this.
        clock.set(1_000_000 - 10 * (number + 1));
        assert_eq!(there(path, 0..5), [number]);
    }
}

#[test]
fn an_entry_that_is_used_while_room_is_made_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let clock = Clock::at(1_000_000);
    let store = limited(&path, 100, &clock);
    for number in 0..10 {
        build(&store, number, SIZE);
        clock.advance(100);
    }
    // Somebody uses the oldest entry between its being listed and its being removed.
    let oldest = entry_file(&path, 0);
    let touch = UsedMeanwhile { path: oldest.clone(), looks: AtomicU32::new(0) };
    let io = keyprint_store::io::Io::with_fault(Arc::new(touch));
    let store = Store::open(Config { io, clock: clock.function(), ..config(&path) });
    support::gc(&store, Some(60_000)).unwrap().unwrap();
    assert!(oldest.exists());
    assert_eq!(there(&path, 0..4), [0]);
}

struct UsedMeanwhile {
    path: std::path::PathBuf,
    looks: AtomicU32,
}

impl Fault for UsedMeanwhile {
    fn before(&self, op: Op, path: &std::path::Path) -> Verdict {
        // The first look lists it, the second is the last one before it would go.
        if op == Op::Stat && path == self.path && self.looks.fetch_add(1, Ordering::SeqCst) == 1 {
            let file = fs::File::options().append(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::now()).unwrap();
        }
        Verdict::Proceed
    }
}

#[test]
fn only_what_nobody_writes_any_more_is_swept() {
    let directory = tempfile::tempdir().unwrap();
    let staging = directory.path().join("v1/staging");
    build(&Store::open(config(directory.path())), 1, SIZE);
    let make = |name: &str, age: u64| {
        let file = fs::File::create(staging.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        file
    };
    let writing = make("old, and being written", 100_000);
    writing.lock().unwrap();
    make("young", 1);
    make("old", 100_000);
    support::gc(&Store::open(config(directory.path())), None).unwrap().unwrap();
    let left: Vec<_> = files(&staging).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(left, ["old, and being written", "young"]);
}

#[test]
fn locks_are_gone_when_they_are_released() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..5 {
        build(&Store::open(config(directory.path())), number, SIZE);
    }
    assert_eq!(files(&directory.path().join("v1/locks")), [] as [std::path::PathBuf; 0]);
    // Those of dead holders, and of earlier versions, go with the next sweep; one that is held stays.
    let locks = directory.path().join("v1/locks");
    fs::create_dir_all(locks.join("ab")).unwrap();
    for name in ["00.lock", "01.1.lock", "held.lock", "theirs.txt", "ab/00.lock", "ab/02.1.lock"] {
        fs::write(locks.join(name), "12 34 somewhere else\n").unwrap();
    }
    let held = fs::File::open(locks.join("held.lock")).unwrap();
    held.lock().unwrap();
    support::gc(&Store::open(config(directory.path())), None).unwrap().unwrap();
    assert_eq!(files(&locks), [locks.join("held.lock"), locks.join("theirs.txt")]);
    assert!(!locks.join("ab").exists());
}

#[test]
fn the_directory_is_counted_when_the_ledger_is_gone_or_old() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let clock = Clock::at(1_000_000);
    let ledger = path.join("v1/ledger");
    build(&limited(path, 100, &clock), 0, SIZE);
    let early = fs::read(&ledger).unwrap();
    for number in 1..20 {
        build(&limited(path, 100, &clock), number, SIZE);
    }
    // A ledger that knows too little is believed for a day.
    fs::write(&ledger, early).unwrap();
    build(&limited(path, 15, &clock), 20, SIZE);
    assert_eq!(there(path, 0..21).len(), 21);
    clock.advance(100_000);
    build(&limited(path, 15, &clock), 21, SIZE);
    assert!(there(path, 0..22).len() <= 15);
    // Without one, everything is counted at once.
    fs::remove_file(&ledger).unwrap();
    build(&limited(path, 10, &clock), 22, SIZE);
    assert!(there(path, 0..23).len() <= 10);
}

#[test]
fn clocks_that_jump_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let clock = Clock::at(10_000_000);
    let store = limited(path, 10, &clock);
    for number in 0..8 {
        build(&store, number, SIZE);
        clock.advance(100);
    }
    // Back by months: what was used "in the future" must not stay for ever.
    clock.set(1_000_000);
    hit(&store, 3, SIZE);
    for number in 8..40 {
        check(&build(&store, number, SIZE), number, SIZE);
        clock.advance(100);
        assert!(there(path, 0..40).len() <= 10);
        assert!(there(path, number..number + 1).len() == 1, "what was just built stays");
    }
    assert_eq!(there(path, 0..8), [] as [u64; 0]);
    // And forward by years.
    clock.set(2_000_000_000);
    for number in 40..60 {
        check(&build(&store, number, SIZE), number, SIZE);
        assert!(there(path, 0..60).len() <= 10);
    }
    assert_eq!(store.verify(true, |_, _| ()).damaged.len(), 0);
}

#[test]
fn what_is_larger_than_the_store_is_not_stored() {
    let directory = tempfile::tempdir().unwrap();
    let said = Said::default();
    let clock = Clock::at(1_000_000);
    let small = Config { size: 20_000, clock: clock.function(), ..config(directory.path()) };
    let store = Store::open(said.listen(small));
    build(&store, 1, SIZE);
    check(&build(&store, 2, 30_000), 2, 30_000);
    check(&build(&store, 3, 30_000), 3, 30_000);
    assert_eq!(there(directory.path(), 0..4), [1], "and displaces nothing");
    assert_eq!(said.all().len(), 1);
    assert!(said.all()[0].contains("KEYPRINT_CACHE_SIZE"));
}

#[test]
fn readers_are_not_disturbed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    if let Some((role, path)) = support::role() {
        let store = Store::open(Config { size: 10 * 11_200, ..config(&path) });
        let seed: u64 = role.parse().unwrap();
        for step in 0..300u64 {
            let number = (step * 7 + seed * 13) % 30;
            check(&build(&store, number, SIZE), number, SIZE);
            right_or_nothing(&store, (number * 11 + seed) % 30, SIZE);
        }
        assert_eq!(store.usage().counters.damaged, 0);
        return;
    }
    let children: Vec<_> =
        (0..6).map(|i| support::child("readers_are_not_disturbed", &i.to_string(), path)).collect();
    for child in children {
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let store = Store::open(Config { size: 10 * 11_200, ..config(path) });
    support::gc(&store, None).unwrap().unwrap();
    let scan = store.scan();
    assert!(scan.entries.len() <= 10);
    assert_eq!(store.usage().counters.bytes as u64, scan.total_bytes());
    assert!(store.usage().counters.evicted > 100, "there was something to disturb");
    assert_eq!(files(&path.join("v1/staging")).len(), 0);
}

#[test]
fn collecting_down_to_a_size_and_clearing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let clock = Clock::at(1_000_000);
    let store = limited(path, 100, &clock);
    for number in 0..10 {
        build(&store, number, SIZE);
        clock.advance(100);
    }
    let freed = support::gc(&store, Some(55_000)).unwrap().unwrap();
    assert_eq!((freed.entries, freed.left_entries), (6, 4));
    assert_eq!(there(path, 0..10), [6, 7, 8, 9]);
    let removed = store.clear(Some(&|cleared| *cleared == key(7)), |_| ()).unwrap();
    assert_eq!((removed.entries, there(path, 0..10)), (1, vec![6, 8, 9]));
    store.clear(None, |_| ()).unwrap();
    let counters = store.usage().counters;
    assert_eq!((there(path, 0..10), counters.entries, counters.bytes), (vec![], 0, 0));
}
