//! Every system call of the store fails, is cut short, or is the last one: for each scenario, at each
//! position. Never a wrong artifact, never a lost neighbour, nothing left behind for good.

mod support;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keyprint_store::io::{Fault, Io, Op, Verdict};
use keyprint_store::{Config, Store};
use support::{Clock, bytes, check, config, entry_file, files, hit, key, right_or_nothing, store};

const SIZE: usize = 3000;
const NEIGHBOURS: std::ops::Range<u64> = 100..104;

/// What happens at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Fail(io::ErrorKind),
    /// This one and all that follow.
    FailFromHere(io::ErrorKind),
    Short(usize),
    Die,
}

struct At {
    n: u64,
    how: How,
    count: AtomicU64,
}

impl At {
    fn new(n: u64, how: How) -> Arc<Self> {
        Arc::new(Self { n, how, count: AtomicU64::new(0) })
    }

    fn reached(&self) -> bool {
        self.count.load(Ordering::SeqCst) > self.n
    }
}

impl Fault for At {
    fn before(&self, _op: Op, _path: &Path) -> Verdict {
        let now = self.count.fetch_add(1, Ordering::SeqCst);
        match self.how {
            How::Fail(kind) if now == self.n => Verdict::Fail(kind.into()),
            How::FailFromHere(kind) if now >= self.n => Verdict::Fail(kind.into()),
            How::Short(bytes) if now == self.n => Verdict::Short(bytes),
            How::Die if now == self.n => support::die(),
            _ => Verdict::Proceed,
        }
    }
}

/// What is done under faults. Each works on the entry 1 and must leave the neighbours alone.
#[derive(Clone, Copy, Debug)]
enum Scenario {
    Publish,
    Read,
    Heal,
    Evict,
    Remove,
    Verify,
    Clear,
    Export,
    Import,
    Sweep,
    Reindex,
}

const ALL: [Scenario; 11] = [
    Scenario::Publish,
    Scenario::Read,
    Scenario::Heal,
    Scenario::Evict,
    Scenario::Remove,
    Scenario::Verify,
    Scenario::Clear,
    Scenario::Export,
    Scenario::Import,
    Scenario::Sweep,
    Scenario::Reindex,
];

impl Scenario {
    fn from_name(name: &str) -> Self {
        *ALL.iter().find(|scenario| format!("{scenario:?}") == name).unwrap()
    }

    /// The store before: neighbours, and whatever the scenario works on.
    fn prepare(self, path: &Path) {
        let store = store(path);
        for number in NEIGHBOURS {
            support::build(&store, number, SIZE);
        }
        match self {
            Self::Publish => {}
            Self::Read | Self::Evict | Self::Remove | Self::Clear | Self::Export => {
                support::build(&store, 1, SIZE);
            }
            Self::Heal | Self::Verify => {
                support::build(&store, 1, SIZE);
                drop(store);
                let mut damaged = std::fs::read(entry_file(path, 1)).unwrap();
                damaged[500] ^= 4;
                std::fs::write(entry_file(path, 1), damaged).unwrap();
            }
            Self::Sweep => {
                support::build(&store, 1, SIZE);
                // What a writer and a builder left behind that died, and what was put aside.
                for place in ["staging/left", "locks/left.lock", "locks/ab/left.lock", "quarantine/left"] {
                    let place = path.join("v1").join(place);
                    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
                    std::fs::write(&place, "left").unwrap();
                    let file = std::fs::File::options().append(true).open(&place).unwrap();
                    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
                }
                // Records of entries that are gone, and of one that was torn.
                for number in 200..220 {
                    support::build(&store, number, 10);
                    store.remove(&key(number)).unwrap();
                }
            }
            Self::Reindex => {
                support::build(&store, 1, SIZE);
                std::fs::remove_dir_all(path.join("v1/index")).unwrap();
            }
            Self::Import => {
                support::build(&store, 1, SIZE);
                let file = std::fs::File::create(path.join("export")).unwrap();
                store.export(file, &|exported| *exported == key(1), |_, _| ()).unwrap();
                store.remove(&key(1)).unwrap();
            }
        }
    }

    /// What is done. Builds succeed and return the right artifact whatever the store does.
    fn run(self, path: &Path, io: Io) {
        let sync = matches!(self, Self::Publish);
        let mut config = Config { io, sync, ..config(path) };
        if let Self::Evict = self {
            // Room for five and a half entries: of six, the entry 1, used long ago, has to go.
            let entries = files(&path.join("v1/entries"));
            let total: u64 = entries.iter().map(|file| file.metadata().unwrap().len()).sum();
            config.size = total + total / entries.len() as u64 * 6 / 10;
            let old = std::time::SystemTime::UNIX_EPOCH;
            let file = std::fs::File::options().append(true).open(entry_file(path, 1)).unwrap();
            file.set_modified(old).unwrap();
        }
        let store = Store::open(config);
        match self {
            Self::Publish | Self::Read | Self::Heal => check(&support::build(&store, 1, SIZE), 1, SIZE),
            Self::Evict => check(&support::build(&store, 2, SIZE), 2, SIZE),
            Self::Remove => drop(store.remove(&key(1))),
            Self::Verify => drop(store.verify(false, |_, _| ())),
            Self::Clear => drop(store.clear(Some(&|cleared| *cleared == key(1)), |_| ())),
            Self::Export => drop(store.export(io::sink(), &|_| true, |_, _| ())),
            Self::Sweep => drop(support::gc(&store, None)),
            Self::Reindex => drop(store.indexed(&mut |_, _| ())),
            Self::Import => drop(store.import(&path.join("export"), false, |_| ())),
        }
    }

    /// The store afterwards, seen by a process without faults.
    fn verify(self, path: &Path, how: How) {
        let later = Clock::at(0);
        later.set(
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 100_000,
        );
        let store = Store::open(Config { clock: later.function(), ..config(path) });
        let kept = NEIGHBOURS.filter(|number| right_or_nothing(&store, *number, SIZE)).count();
        // When the oldest entry cannot be looked at or removed, the next one makes room; on a full disk, some do.
        let is_full = matches!(
            how,
            How::Fail(io::ErrorKind::StorageFull)
                | How::FailFromHere(io::ErrorKind::StorageFull)
                | How::Short(_)
        );
        let least = if is_full { 2 } else { 4 - usize::from(matches!(self, Self::Evict)) };
        assert!(kept >= least, "{self:?} lost neighbours: {kept} are left");
        right_or_nothing(&store, 1, SIZE);
        right_or_nothing(&store, 2, SIZE);
        check(&support::build(&store, 1, SIZE), 1, SIZE);
        hit(&store, 1, SIZE);
        support::gc(&store, None).unwrap().expect("no lock is left held");
        for directory in ["staging", "quarantine", "locks"] {
            assert_eq!(files(&path.join("v1").join(directory)), [] as [std::path::PathBuf; 0], "left behind");
        }
        let scan = store.scan();
        // Whatever happened to the index, it knows every entry again.
        let records = store.indexed(&mut |_, _| ()).unwrap();
        assert!(
            scan.entries.iter().all(|entry| records.iter().any(|record| record.key == entry.key)),
            "{self:?}"
        );
        let counted = store.usage().counters;
        assert_eq!((counted.entries, counted.bytes), (scan.entries.len() as i64, scan.total_bytes() as i64));
        assert_eq!(store.verify(true, |_, _| ()).damaged.len(), 0);
    }
}

#[test]
fn failing_operations() {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    let kinds = [
        How::Fail(StorageFull),
        How::Fail(io::ErrorKind::Other),
        How::FailFromHere(StorageFull),
        How::FailFromHere(PermissionDenied),
        How::FailFromHere(ReadOnlyFilesystem),
        How::Short(0),
        How::Short(1),
        How::Short(100),
    ];
    let mut tried = 0;
    for scenario in ALL {
        for how in kinds {
            for n in 0.. {
                let directory = tempfile::tempdir().unwrap();
                scenario.prepare(directory.path());
                let fault = At::new(n, how);
                scenario.run(directory.path(), Io::with_fault(fault.clone()));
                scenario.verify(directory.path(), how);
                if !fault.reached() {
                    assert!(n > 3, "{scenario:?} does too little to be true");
                    break;
                }
                tried += 1;
            }
        }
    }
    println!("{tried} faults");
}

#[test]
fn dying_operations() {
    if let Some((role, path)) = support::role() {
        let (scenario, n) = role.split_once(' ').unwrap();
        let fault = At::new(n.parse().unwrap(), How::Die);
        Scenario::from_name(scenario).run(&path, Io::with_fault(fault));
        return;
    }
    for scenario in ALL {
        for n in 0.. {
            let directory = tempfile::tempdir().unwrap();
            scenario.prepare(directory.path());
            let child = support::child("dying_operations", &format!("{scenario:?} {n}"), directory.path());
            let done = child.wait_with_output().unwrap();
            scenario.verify(directory.path(), How::Die);
            if done.status.success() {
                assert!(n > 3, "{scenario:?} does too little to be true");
                break;
            }
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(done.status.signal(), Some(9), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }
}

#[test]
fn a_flipped_bit_in_every_byte() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    support::build(&store, 1, 300);
    support::build(&store, 2, 300);
    let path = entry_file(directory.path(), 1);
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, damaged).unwrap();
        assert!(!right_or_nothing(&store, 1, 300), "byte {at} does not count");
        assert!(!path.exists(), "byte {at}: it was not put aside");
    }
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        assert!(!right_or_nothing(&store, 1, 300), "cut to {len} bytes");
    }
    hit(&store, 2, 300);
    assert_eq!(support::build(&store, 1, 300).how, keyprint_store::How::Built);
    hit(&store, 1, 300);
    assert_eq!(store.usage().counters.damaged, 2 * whole.len() as i64);
}

#[test]
fn moved_and_foreign_entries() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = store(path);
    support::build(&store, 1, 300);
    support::build(&store, 2, 300);
    let place = |from: &[u8]| std::fs::write(entry_file(path, 1), from).unwrap();
    let other = std::fs::read(entry_file(path, 2)).unwrap();
    let mut newer = other.clone();
    newer[8] = 2;
    for foreign in [&other[..], &newer, b"", b"#!/bin/sh\n", &bytes(3, 100_000), &other[..96]] {
        place(foreign);
        assert!(!right_or_nothing(&store, 1, 300));
        assert_eq!(support::build(&store, 1, 300).how, keyprint_store::How::Built);
        hit(&store, 1, 300);
        hit(&store, 2, 300);
    }
}
