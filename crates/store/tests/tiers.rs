//! Memory, disk and shared directories; statistics; what may be loaded.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use keyprint_store::{Artifact, Config, How, LoadError, Origin, SharedDir, Store};
use support::{
    Said, artifact, build, check, config, entry_file, hit, key, manifest, right_or_nothing, store,
};

const SIZE: usize = 5000;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_entry_survives_its_process_and_comes_back_whole() {
    let directory = tempfile::tempdir().unwrap();
    let first = store(directory.path());
    assert!(first.get(&key(1)).is_none() && !first.contains(&key(1)));
    assert_eq!(build(&first, 1, SIZE).how, How::Built);
    drop(first);
    let second = store(directory.path());
    assert!(second.contains(&key(1)));
    assert_eq!(hit(&second, 1, SIZE), How::Disk);
    let entry = second.get(&key(1)).unwrap();
    assert_eq!(entry.manifest().unwrap(), manifest(1));
    assert!(entry.info().writer.starts_with("keyprint "));
    assert!(second.remove(&key(1)).unwrap() && !second.remove(&key(1)).unwrap());
    assert!(!right_or_nothing(&second, 1, SIZE));
}

#[test]
fn memory_answers_first() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Config { memory: 1 << 20, ..config(directory.path()) });
    build(&store, 1, SIZE);
    assert_eq!(hit(&store, 1, SIZE), How::Memory);
    fs::remove_dir_all(directory.path()).unwrap();
    assert_eq!(hit(&store, 1, SIZE), How::Memory);
    let other = Store::open(config(directory.path()));
    assert_eq!(build(&other, 1, SIZE).how, How::Built);
}

#[test]
fn nothing_is_as_good_as_something() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let entry = store.put(&manifest(1), Artifact::new(), std::time::Duration::ZERO);
    assert!(entry.is_empty());
    store.put(&manifest(2), Artifact::single(Vec::new()), std::time::Duration::ZERO);
    let read = Store::open(config(directory.path()));
    let entry = read.get(&key(1)).unwrap();
    assert!(entry.is_empty() && entry.metadata().is_empty());
    assert_eq!(read.get(&key(2)).unwrap().part("data"), Some(&b""[..]));
}

#[test]
fn putting_again_replaces_whole() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    store.put(&manifest(1), Artifact::single(vec![1; 100_000]), std::time::Duration::ZERO);
    store.put(&manifest(1), artifact(1, SIZE), std::time::Duration::ZERO);
    assert!(right_or_nothing(&store, 1, SIZE));
    let usage = store.usage().counters;
    assert_eq!(usage.entries, 1);
    assert_eq!(usage.bytes as u64, fs::metadata(entry_file(directory.path(), 1)).unwrap().len());
}

#[test]
fn statistics_add_up_across_processes() {
    let directory = tempfile::tempdir().unwrap();
    {
        let store = Store::open(Config { memory: 1 << 20, ..config(directory.path()) });
        build(&store, 1, SIZE);
        hit(&store, 1, SIZE);
        assert!(store.get(&key(9)).is_none());
    }
    let second = store(directory.path());
    hit(&second, 1, SIZE);
    let counters = second.usage().counters;
    assert_eq!((counters.memory_hits, counters.disk_hits, counters.misses, counters.builds), (1, 1, 2, 1));
    assert_eq!((counters.entries, counters.damaged, counters.evicted), (1, 0, 0));
    assert!(
        counters.build_ns > 0 && counters.read_bytes > SIZE as i64 && counters.written_bytes > SIZE as i64
    );
}

#[test]
fn a_shared_directory_is_read_and_never_written() {
    let shared = tempfile::tempdir().unwrap();
    build(&store(shared.path()), 1, SIZE);
    let before = support::files(shared.path());
    let local = tempfile::tempdir().unwrap();
    let said = Said::default();
    let dirs = vec![SharedDir { path: shared.path().to_owned(), trusted: false }];
    let store = Store::open(said.listen(Config { shared: dirs, ..config(local.path()) }));
    assert_eq!(hit(&store, 1, SIZE), How::Tier);
    assert_eq!(hit(&store, 1, SIZE), How::Disk, "it is on the local disk by now");
    build(&store, 2, SIZE);
    assert_eq!(support::files(shared.path()), before);
    assert_eq!(said.all(), [] as [String; 0]);
}

#[test]
fn a_shared_directory_that_others_can_write_is_used_only_if_trusted() {
    let shared = tempfile::tempdir().unwrap();
    build(&store(shared.path()), 1, SIZE);
    mode(&shared.path().join("v1"), 0o777);
    for (trusted, expected) in [(false, How::Built), (true, How::Tier)] {
        let local = tempfile::tempdir().unwrap();
        let said = Said::default();
        let dirs = vec![SharedDir { path: shared.path().to_owned(), trusted }];
        let store = Store::open(said.listen(Config { shared: dirs, ..config(local.path()) }));
        assert_eq!(build(&store, 1, SIZE).how, expected);
        assert_eq!(said.all().len(), usize::from(!trusted));
        assert!(trusted || said.all()[0].contains("mode 0777") && said.all()[0].contains("trusted"));
    }
}

#[test]
fn damage_in_a_shared_directory_is_a_miss_and_stays_where_it_is() {
    let shared = tempfile::tempdir().unwrap();
    build(&store(shared.path()), 1, SIZE);
    fs::write(entry_file(shared.path(), 1), "nonsense").unwrap();
    let local = tempfile::tempdir().unwrap();
    let dirs = vec![SharedDir { path: shared.path().to_owned(), trusted: false }];
    let store = Store::open(Config { shared: dirs, ..config(local.path()) });
    assert_eq!(build(&store, 1, SIZE).how, How::Built);
    assert_eq!(fs::read(entry_file(shared.path(), 1)).unwrap(), b"nonsense");
}

#[test]
fn what_others_can_write_is_not_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap().join("store");
    let store = store(&path);
    let built = build(&store, 1, SIZE).entry;
    let read = store.get(&key(1)).unwrap();
    assert_eq!((built.origin(), read.origin()), (Origin::Built, Origin::Disk));
    let loaded = store.load(&read, "kernel.so").unwrap();
    assert_eq!(fs::read(loaded).unwrap(), support::bytes(1, SIZE));

    let shard = entry_file(&path, 1).parent().unwrap().to_owned();
    for culprit in [path.clone(), path.join("v1"), path.join("v1/entries"), shard] {
        for bits in [0o770, 0o707] {
            mode(&culprit, bits);
            let refused = store.load(&read, "kernel.so").unwrap_err().to_string();
            assert!(refused.contains(&format!("`{}` (mode {bits:04o})", culprit.display())), "{refused}");
            assert!(refused.contains(&format!("hint: chmod go-w '{}'", culprit.display())), "{refused}");
            // What was built here was never in anybody else's hands, and bytes are only bytes.
            store.load(&built, "kernel.so").unwrap();
            assert!(right_or_nothing(&store, 1, SIZE));
            mode(&culprit, 0o700);
        }
    }
    mode(&entry_file(&path, 1), 0o666);
    let read = store.get(&key(1)).unwrap();
    assert!(matches!(store.load(&read, "kernel.so"), Err(LoadError::Entry(_))));
    assert!(matches!(store.materialise(&read, &path.join("out")), Err(LoadError::Entry(_))));
    let missing = store.load(&built, "kernel").unwrap_err().to_string();
    assert!(
        missing.contains("no part `kernel`") && missing.contains("`kernel.so`, `lib/notes.txt`"),
        "{missing}"
    );
}

#[test]
fn parts_become_files() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory.path().join("store"));
    build(&store, 1, SIZE);
    let out = directory.path().join("out");
    for _ in 0..2 {
        let paths = store.materialise(&store.get(&key(1)).unwrap(), &out).unwrap();
        assert_eq!(paths, [out.join("kernel.so"), out.join("lib/notes.txt")]);
        assert_eq!(fs::read(&paths[0]).unwrap(), support::bytes(1, SIZE));
        assert_eq!(fs::metadata(&paths[0]).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(support::files(&out).len(), 2);
}

#[test]
fn everything_that_is_made_is_private() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    let store = store(&path);
    build(&store, 1, SIZE);
    support::gc(&store, None).unwrap();
    for file in support::files(&path) {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0, "{}", file.display());
        let parent = file.parent().unwrap();
        assert_eq!(fs::metadata(parent).unwrap().permissions().mode() & 0o077, 0, "{}", parent.display());
    }
}

#[test]
fn a_readonly_store_reads_and_builds_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    build(&store(directory.path()), 1, SIZE);
    fs::write(entry_file(directory.path(), 1), "damaged").unwrap();
    build(&store(directory.path()), 2, SIZE);
    let before: Vec<_> =
        support::files(directory.path()).iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect();
    let said = Said::default();
    let store = Store::open(said.listen(Config { readonly: true, ..config(directory.path()) }));
    hit(&store, 2, SIZE);
    check(&build(&store, 1, SIZE), 1, SIZE);
    check(&build(&store, 3, SIZE), 3, SIZE);
    assert!(
        store.remove(&key(2)).is_err()
            && store.clear(None, |_| ()).is_err()
            && support::gc(&store, None).is_err()
    );
    drop(store);
    let after: Vec<_> =
        support::files(directory.path()).iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect();
    assert_eq!(before, after);
    assert_eq!(said.all().len(), 1, "only the damage is worth a word: {:?}", said.all());
}
