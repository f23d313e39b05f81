//! Directories that are not as one would wish.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use keyprint_store::{Config, How, Store};
use support::{Said, build, check, config, entry_file, files, hit, key, right_or_nothing, store};

const SIZE: usize = 5000;

#[test]
fn pipes_directories_and_links_in_the_place_of_entries() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let elsewhere = tempfile::tempdir().unwrap();
    build(&store(elsewhere.path()), 1, SIZE);
    let good = entry_file(elsewhere.path(), 1);
    let place = entry_file(path, 1);
    let odd: [(&str, &dyn Fn()); 5] = [
        ("a pipe", &|| assert!(Command::new("mkfifo").arg(&place).status().unwrap().success())),
        ("a directory", &|| fs::create_dir(&place).unwrap()),
        ("a link to a good entry", &|| symlink(&good, &place).unwrap()),
        ("a link to nowhere", &|| symlink("nowhere", &place).unwrap()),
        ("a link to itself", &|| symlink(&place, &place).unwrap()),
    ];
    for (what, make) in odd {
        let store = store(path);
        build(&store, 2, SIZE);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        make();
        check(&build(&store, 1, SIZE), 1, SIZE);
        hit(&store, 2, SIZE);
        assert!(right_or_nothing(&store, 1, SIZE), "{what} was not replaced");
        assert!(good.exists(), "{what}: nothing was removed through it");
        store.clear(None, |_| ()).unwrap();
    }
}

#[test]
fn links_in_the_place_of_directories_are_not_followed_when_removing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let elsewhere = tempfile::tempdir().unwrap();
    build(&store(elsewhere.path()), 1, SIZE);
    let theirs = entry_file(elsewhere.path(), 1).parent().unwrap().to_owned();
    fs::create_dir_all(path.join("v1/entries")).unwrap();
    symlink(&theirs, path.join("v1/entries").join(theirs.file_name().unwrap())).unwrap();
    let store = Store::open(Config { size: 6000, ..config(path) });
    for number in 2..6 {
        check(&build(&store, number, SIZE), number, SIZE);
    }
    store.clear(None, |_| ()).unwrap();
    assert!(entry_file(elsewhere.path(), 1).exists());
}

#[test]
fn the_directory_itself_may_be_a_link() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("real")).unwrap();
    symlink("real", directory.path().join("link")).unwrap();
    build(&store(&directory.path().join("link")), 1, SIZE);
    hit(&store(&directory.path().join("real")), 1, SIZE);
}

#[test]
fn a_file_where_the_directory_should_be() {
    for place in ["cache", "cache/v1", "cache/v1/entries", "cache/v1/staging", "cache/v1/locks"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache");
        fs::create_dir_all(directory.path().join(place).parent().unwrap()).unwrap();
        fs::write(directory.path().join(place), "in the way").unwrap();
        let said = Said::default();
        let store = Store::open(said.listen(config(&path)));
        for number in 0..3 {
            check(&build(&store, number, SIZE), number, SIZE);
        }
        assert!(!said.all().is_empty(), "{place}: one should hear of it");
        assert!(said.all().len() <= 3, "{place}: once of each kind: {:?}", said.all());
        assert_eq!(fs::read(directory.path().join(place)).unwrap(), b"in the way");
    }
}

#[test]
fn names_of_others_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = Store::open(Config { size: 12_000, ..config(path) });
    build(&store, 1, SIZE);
    let shard = entry_file(path, 1).parent().unwrap().to_owned();
    let hex = key(1).hex();
    let theirs = [
        path.join(".DS_Store"),
        path.join("v1/Thumbs.db"),
        path.join("v1/entries/.nfs000000000001"),
        path.join("v1/entries/AB"),
        shard.join("desktop.ini"),
        shard.join(format!("{}.KPE", &hex[2..])),
        shard.join(format!("{}.kpe", hex[2..].to_uppercase())),
        shard.join(format!("{}.kpe~", &hex[2..])),
        shard.join("ünïcode.kpe"),
        shard.join(odd_name()),
        path.join("v2/entries/ab/whatever"),
    ];
    for file in &theirs {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "theirs").unwrap();
    }
    for number in 2..8 {
        check(&build(&store, number, SIZE), number, SIZE);
    }
    support::gc(&store, Some(0)).unwrap().unwrap();
    store.verify(false, |_, _| ());
    store.clear(None, |_| ()).unwrap();
    for file in &theirs {
        assert_eq!(fs::read(file).unwrap(), b"theirs", "{}", file.display());
    }
    assert_eq!(store.scan().skipped.count, 8);
}

/// A name that is not text.
fn odd_name() -> std::ffi::OsString {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(b"\xff\xfe.kpe".to_vec())
}

#[test]
fn another_version_lives_beside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = store(path);
    build(&store, 1, SIZE);
    drop(store);
    // What a later version may look like: its own bucket, its own format.
    let newer = path.join("v2/entries/00/11.kpe");
    fs::create_dir_all(newer.parent().unwrap()).unwrap();
    fs::write(&newer, "of a later version").unwrap();
    let store = Store::open(Config { size: 12_000, ..config(path) });
    hit(&store, 1, SIZE);
    for number in 2..6 {
        build(&store, number, SIZE);
    }
    store.clear(None, |_| ()).unwrap();
    assert_eq!(fs::read(&newer).unwrap(), b"of a later version");
}

#[test]
fn somebody_deletes_everything_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let said = Said::default();
    let store = Store::open(said.listen(config(&path)));
    for number in 0..20 {
        check(&build(&store, number, SIZE), number, SIZE);
        if number % 3 == 0 {
            fs::remove_dir_all(&path).unwrap();
        }
        assert!(!right_or_nothing(&store, 99, SIZE));
    }
    assert_eq!(said.all(), [] as [String; 0]);
}

#[test]
fn no_directory_at_all() {
    let said = Said::default();
    let store = Store::open(said.listen(Config { path: None, memory: 1 << 20, ..config(Path::new("")) }));
    check(&build(&store, 1, SIZE), 1, SIZE);
    assert_eq!(hit(&store, 1, SIZE), How::Memory);
    assert_eq!(said.all().len(), 1);
    assert!(said.all()[0].contains("hint: set `KEYPRINT_CACHE_DIR`"));
}

/// A small file system of its own; where that is not allowed, the test has nothing to say.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=0700"), "tmpfs"])
            .arg(directory.path())
            .output();
        let mounted = mount.is_ok_and(|done| done.status.success());
        if !mounted {
            eprintln!("skipped: file systems cannot be mounted here");
        }
        mounted.then_some(Self(directory))
    }

    fn remount(&self, options: &str) {
        let done =
            Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(self.0.path()).status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk() {
    let Some(mounted) = Mounted::new("200k") else { return };
    let path = mounted.0.path().join("cache");
    let said = Said::default();
    let store = Store::open(said.listen(config(&path)));
    for number in 0..40 {
        check(&build(&store, number, 20_000), number, 20_000);
    }
    assert_eq!(said.all(), [] as [String; 0]);
    let kept: Vec<u64> = (0..40).filter(|number| right_or_nothing(&store, *number, 20_000)).collect();
    assert!(
        (4..9).contains(&kept.len()) && kept.ends_with(&[37, 38, 39]),
        "what was used least went: {kept:?}"
    );
    assert_eq!(files(&path.join("v1/staging")).len(), 0, "nothing half-written takes up the space");
    assert_eq!(store.verify(true, |_, _| ()).damaged.len(), 0);
}

#[test]
fn a_disk_without_room_for_files() {
    let Some(mounted) = Mounted::new("10m,nr_inodes=400") else { return };
    let path = mounted.0.path().join("cache");
    let said = Said::default();
    let store = Store::open(said.listen(config(&path)));
    // Each in a directory of its own, as good as: entries, locks and the index need some hundred names.
    for number in 0..1000 {
        check(&build(&store, number, 100), number, 100);
    }
    assert_eq!(said.all(), [] as [String; 0]);
    assert!(right_or_nothing(&store, 999, 100));
    assert_eq!(files(&path.join("v1/locks")), [] as [std::path::PathBuf; 0]);
    assert_eq!(store.verify(true, |_, _| ()).damaged.len(), 0);
}

#[test]
fn a_file_system_that_becomes_read_only() {
    let Some(mounted) = Mounted::new("1m") else { return };
    let path = mounted.0.path().join("cache");
    build(&store(&path), 1, SIZE);
    mounted.remount("ro");
    let said = Said::default();
    let store = Store::open(said.listen(config(&path)));
    hit(&store, 1, SIZE);
    for number in 2..5 {
        check(&build(&store, number, SIZE), number, SIZE);
    }
    assert_eq!(said.all().len(), 1, "one quiet word: {:?}", said.all());
    assert!(said.all()[0].contains("cannot be written; it is read"), "{:?}", said.all());
    drop(store);
    mounted.remount("rw");
}

#[test]
fn two_gigabytes() {
    // Sparse enough to be quick, long enough not to fit 32 bits with a sign.
    let size = (2 << 30) + 1;
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let mut bytes = vec![0u8; size];
    bytes[size - 1] = 7;
    let artifact = keyprint_store::Artifact::single(bytes);
    store.put(&support::manifest(1), artifact, std::time::Duration::ZERO);
    let entry = store.get(&key(1)).expect("it is there");
    let part = entry.part("data").unwrap();
    assert_eq!((part.len(), part[size - 1]), (size, 7));
    drop(entry);
    let file = fs::File::options().write(true).open(entry_file(directory.path(), 1)).unwrap();
    file.set_len(1 << 30).unwrap();
    assert!(store.get(&key(1)).is_none(), "cut in half");
}
