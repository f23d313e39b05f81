//! Why a lookup missed, and carrying a store elsewhere.

mod support;

use std::fs;

use keyprint_fingerprint::fingerprint;
use keyprint_key::{Component, KeyBuilder, Manifest, Tool};
use keyprint_store::transfer::TransferError;
use keyprint_store::{Artifact, Config, Request, Store};
use support::{Clock, build, config, entry_file, hit, key, right_or_nothing, store};

const SIZE: usize = 5000;

fn step(name: &str, tile: u32, flags: &str) -> Manifest {
    let mut key = KeyBuilder::new(name, Tool::new("lang", "1"), None);
    key.add(Component::new("tile", fingerprint(&tile)).summary(tile.to_string())).unwrap();
    key.add(Component::new("flags", fingerprint(flags)).summary(flags)).unwrap();
    key.finish()
}

fn ask(store: &Store, manifest: &Manifest) {
    let _ = store.get_or_build(&Request::new(manifest), || Ok::<_, ()>(Artifact::single(vec![1])));
}

fn words(store: &Store, limit: usize) -> Vec<(String, String)> {
    let told = store.why_last(limit).into_iter().map(|why| {
        let changed =
            why.nearest.map_or_else(|| "first".to_owned(), |(_, comparison)| comparison.to_string());
        (why.manifest.name().to_owned(), changed)
    });
    told.collect()
}

#[test]
fn the_last_misses_are_explained_by_a_later_process() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::at(1_000_000);
    let open = || Store::open(Config { clock: clock.function(), ..config(directory.path()) });
    for (name, tile, flags) in [
        ("lower", 64, "-O2"),
        ("lower", 64, "-O3"),
        ("other", 7, "-O3"),
        ("lower", 128, "-O3"),
        ("lower", 64, "-O3"),
    ] {
        ask(&open(), &step(name, tile, flags));
        clock.advance(1);
    }
    let told = words(&open(), 10);
    let expected = [
        ("lower", "`tile`: 64 -> 128\n"),
        ("other", "first"),
        ("lower", "`flags`: -O2 -> -O3\n"),
        ("lower", "first"),
    ];
    assert_eq!(told.iter().map(|(a, b)| (&**a, &**b)).collect::<Vec<_>>(), expected, "hits are no misses");
    assert_eq!(words(&open(), 1).len(), 1);
}

#[test]
fn misses_are_explained_after_their_neighbours_were_evicted() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::at(1_000_000);
    let store = Store::open(Config { clock: clock.function(), ..config(directory.path()) });
    ask(&store, &step("lower", 64, "-O2"));
    support::gc(&store, Some(0)).unwrap().unwrap();
    clock.advance(1);
    ask(&store, &step("lower", 32, "-O2"));
    assert_eq!(words(&store, 1)[0].1, "`tile`: 64 -> 32\n");
}

#[test]
fn the_history_is_bounded_and_survives_nonsense() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    for tile in 0..2600 {
        ask(&store, &step(&"long name ".repeat(15), tile, &"x".repeat(190)));
    }
    let path = directory.path().join("v1/misses.jsonl");
    assert!(fs::metadata(&path).unwrap().len() <= (1 << 20) + 1000);
    assert!(store.misses().len() > 800);
    fs::write(&path, b"{\"torn\": \nnonsense\n\xff\xff\n").unwrap();
    ask(&store, &step("after", 1, ""));
    assert_eq!(store.misses().last().unwrap().manifest.name(), "after");
}

#[test]
fn an_export_carries_everything() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (store(&directory.path().join("from")), store(&directory.path().join("to")));
    for number in 0..5 {
        build(&from, number, SIZE);
    }
    let path = directory.path().join("export");
    let done = from.export(fs::File::create(&path).unwrap(), &|_| true, |_, _| ()).unwrap();
    assert_eq!((done.entries, done.left_out), (5, 0));

    let refused = to.import(&path, false, |_| ()).unwrap_err();
    assert!(matches!(refused, TransferError::Untrusted) && refused.to_string().contains("--trust"));
    assert!(!right_or_nothing(&to, 1, SIZE));
    assert_eq!(to.import(&path, true, |_| ()).unwrap().entries, 5);
    for number in 0..5 {
        hit(&to, number, SIZE);
    }
    let again = to.import(&path, true, |_| ()).unwrap();
    assert_eq!((again.entries, again.left_out), (0, 5));
    let counted = to.usage().counters;
    assert_eq!((counted.entries, counted.bytes as u64), (5, to.scan().bytes));

    // The store that made it takes it back without being asked to trust.
    from.clear(None, |_| ()).unwrap();
    assert_eq!(from.import(&path, false, |_| ()).unwrap().entries, 5);
}

#[test]
fn pipes_are_read_and_directories_refused() {
    let directory = tempfile::tempdir().unwrap();
    let from = store(&directory.path().join("from"));
    build(&from, 1, SIZE);
    let mut export = Vec::new();
    from.export(&mut export, &|_| true, |_, _| ()).unwrap();

    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let to = store(&directory.path().join("to"));
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&pipe, &export).unwrap());
        assert_eq!(to.import(&pipe, true, |_| ()).unwrap().entries, 1);
    });
    hit(&to, 1, SIZE);
    let to = store(&directory.path().join("another"));
    assert!(matches!(to.import_from(&export[..export.len() - 1], true, |_| ()), Err(TransferError::Length)));
    assert!(!right_or_nothing(&to, 1, SIZE));
    assert_eq!(to.import_from(&export[..], true, |_| ()).unwrap().entries, 1);
    hit(&to, 1, SIZE);
    assert_eq!(support::files(&directory.path().join("another/v1/staging")).len(), 0);
    assert!(matches!(to.import(directory.path(), true, |_| ()), Err(TransferError::Foreign)));
    assert!(matches!(to.import(&directory.path().join("nothing"), true, |_| ()), Err(TransferError::Io(_))));
}

#[test]
fn damaged_entries_are_not_exported() {
    let directory = tempfile::tempdir().unwrap();
    let from = store(&directory.path().join("from"));
    build(&from, 1, SIZE);
    build(&from, 2, SIZE);
    let mut damaged = fs::read(entry_file(&directory.path().join("from"), 1)).unwrap();
    damaged[900] ^= 1;
    fs::write(entry_file(&directory.path().join("from"), 1), damaged).unwrap();
    let mut export = Vec::new();
    let done = from.export(&mut export, &|_| true, |_, _| ()).unwrap();
    assert_eq!((done.entries, done.left_out), (1, 1));
}

#[test]
fn a_damaged_export_is_refused_whole() {
    let directory = tempfile::tempdir().unwrap();
    let from = store(&directory.path().join("from"));
    build(&from, 1, 200);
    build(&from, 2, 200);
    let mut export = Vec::new();
    from.export(&mut export, &|_| true, |_, _| ()).unwrap();
    let path = directory.path().join("export");
    let to = store(&directory.path().join("to"));
    let mut refused = 0;
    for at in 0..export.len() {
        let mut damaged = export.clone();
        damaged[at] ^= 0x40;
        fs::write(&path, &damaged).unwrap();
        // A flipped bit of the seal alone makes it somebody else's export, which is whole.
        let seal = at >= export.len() - 32 || (12..16).contains(&at);
        match from.import(&path, false, |_| ()) {
            Err(TransferError::Untrusted) => assert!(seal, "byte {at}"),
            Err(_) => assert!(!seal, "byte {at}"),
            Ok(_) => panic!("byte {at} does not count"),
        }
        refused += usize::from(to.import(&path, true, |_| ()).is_err());
    }
    assert_eq!(refused, export.len() - 36);
    to.clear(None, |_| ()).unwrap();
    for len in 0..export.len() {
        fs::write(&path, &export[..len]).unwrap();
        assert!(to.import(&path, true, |_| ()).is_err(), "cut to {len} bytes");
    }
    assert!(to.get(&key(1)).is_none() && to.get(&key(2)).is_none(), "none of it was taken in");
}
