//! One build however many ask: threads, processes, hosts.

mod support;

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use keyprint_key::Key;
use keyprint_store::{Artifact, Config, How, Lease, Leased, Outcome, Request, Store, Tier, TierError};
use support::{Said, artifact, check, config, hit, key, manifest, store};

const SIZE: usize = 20_000;

fn note(path: &Path, what: &str) -> usize {
    let file = path.join("builds");
    let mut open = fs::File::options().create(true).append(true).open(&file).unwrap();
    writeln!(open, "{what}").unwrap();
    fs::read_to_string(&file).unwrap().lines().count()
}

fn builds(path: &Path) -> usize {
    fs::read_to_string(path.join("builds")).map_or(0, |text| text.lines().count())
}

#[test]
fn sixty_four_processes_build_once() {
    if let Some((role, path)) = support::role() {
        let store = store(&path);
        // Everybody starts when all are there.
        while !path.join("go").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let outcome = store.get_or_build(&Request::new(&manifest(1)), || {
            let first = note(&path, "build") == 1;
            std::thread::sleep(Duration::from_millis(200));
            if first && role == "first dies" {
                support::die();
            }
            Ok::<_, Infallible>(artifact(1, SIZE))
        });
        check(&outcome.unwrap_or_else(|never| match never {}), 1, SIZE);
        return;
    }
    for (role, expected, survivors) in [("all live", 1, 64), ("first dies", 2, 63)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let children: Vec<_> =
            (0..64).map(|_| support::child("sixty_four_processes_build_once", role, path)).collect();
        std::thread::sleep(Duration::from_millis(300));
        fs::write(path.join("go"), "").unwrap();
        let done: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        let succeeded = done.iter().filter(|output| output.status.success()).count();
        assert_eq!(succeeded, survivors, "{role}: {}", String::from_utf8_lossy(&done[0].stderr));
        assert_eq!(builds(path), expected, "{role}");
        let counters = store(path).usage().counters;
        assert_eq!((counters.builds, counters.private_builds), (1, 0), "{role}");
    }
}

/// Runs as many threads at once, and says how each fared.
fn threads<T: Send>(count: u32, run: impl Fn(u32) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(count as usize);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..count)
            .map(|i| {
                let (run, barrier) = (&run, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    run(i)
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}

#[test]
fn threads_build_once() {
    let directory = tempfile::tempdir().unwrap();
    for config in [config(directory.path()), Config { path: Some("".into()), ..config(directory.path()) }] {
        let store = Store::open(config);
        let built = AtomicU32::new(0);
        let outcomes = threads(16, |_| {
            let outcome = store.get_or_build(&Request::new(&manifest(1)), || {
                built.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(100));
                Ok::<_, Infallible>(artifact(1, SIZE))
            });
            outcome.unwrap_or_else(|never| match never {})
        });
        outcomes.iter().for_each(|outcome| check(outcome, 1, SIZE));
        assert_eq!(built.load(Ordering::SeqCst), 1);
        assert_eq!(outcomes.iter().filter(|outcome| outcome.how == How::Built).count(), 1);
    }
}

#[test]
fn threads_build_once_without_a_disk_too() {
    // Short builds, so that some threads look before and come after.
    for round in 0..200 {
        let store = Store::open(Config { path: Some("".into()), ..Config::at("") });
        let built = AtomicU32::new(0);
        threads(4, |i| {
            std::thread::sleep(Duration::from_micros(u64::from(i) * round % 7));
            let outcome = store.get_or_build(&Request::new(&manifest(1)), || {
                built.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>(artifact(1, 10))
            });
            check(&outcome.unwrap_or_else(|never| match never {}), 1, 10);
        });
        assert_eq!(built.load(Ordering::SeqCst), 1, "round {round}");
    }
}

#[test]
fn when_the_builder_fails_each_waiter_tries_once_itself() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let tried = AtomicU32::new(0);
    let outcomes = threads(8, |i| {
        store
            .get_or_build(&Request::new(&manifest(1)), || {
                std::thread::sleep(Duration::from_millis(20));
                tried.fetch_add(1, Ordering::SeqCst);
                Err::<Artifact, _>(i)
            })
            .unwrap_err()
    });
    assert_eq!(tried.load(Ordering::SeqCst), 8);
    assert_eq!(outcomes, (0..8).collect::<Vec<_>>(), "everybody gets the failure of their own attempt");
    // A failure is not remembered.
    check(&support::build(&store, 1, SIZE), 1, SIZE);
    let counters = store.usage().counters;
    assert_eq!((counters.failed_builds, counters.builds), (8, 1));
}

#[test]
fn a_builder_that_panics_lets_the_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let tried = AtomicU32::new(0);
    let outcomes = threads(4, |_| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            store.get_or_build(&Request::new(&manifest(1)), || {
                std::thread::sleep(Duration::from_millis(50));
                assert_ne!(tried.fetch_add(1, Ordering::SeqCst), 0, "the first one panics");
                Ok::<_, Infallible>(artifact(1, SIZE))
            })
        }))
        .is_ok()
    });
    assert_eq!(outcomes.iter().filter(|ok| !**ok).count(), 1);
    assert_eq!(tried.load(Ordering::SeqCst), 2);
}

#[test]
fn a_stuck_holder_is_waited_for_a_bounded_time() {
    if let Some((_, path)) = support::role() {
        let store = store(&path);
        let _ = store.get_or_build(&Request::new(&manifest(1)), || -> Result<Artifact, Infallible> {
            note(&path, "stuck");
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        });
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut stuck = support::child("a_stuck_holder_is_waited_for_a_bounded_time", "", path);
    while builds(path) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let said = Said::default();
    let store = Store::open(said.listen(Config { wait: Duration::from_millis(50), ..config(path) }));
    let mut waited_for = Vec::new();
    let manifest = manifest(1);
    let outcome = store.get_or_build_watched(
        &Request::new(&manifest),
        || Ok::<_, Infallible>(artifact(1, SIZE)),
        &mut |waiting| {
            waited_for.push((waiting.name.to_owned(), waiting.process));
            Ok(())
        },
    );
    check(&outcome.unwrap_or_else(|never| match never {}), 1, SIZE);
    assert_eq!(waited_for[0], ("kernel".to_owned(), Some(stuck.id())));
    assert_eq!(said.all().len(), 1);
    assert!(said.all()[0].contains(&format!("process {} did not finish building `kernel`", stuck.id())));
    assert_eq!(store.usage().counters.private_builds, 1);
    hit(&store, 1, SIZE);
    stuck.kill().unwrap();
    stuck.wait().unwrap();
    // Its lock went with it.
    store.remove(&key(1)).unwrap();
    assert_eq!(support::build(&store, 1, SIZE).how, How::Built);
    assert_eq!(store.usage().counters.private_builds, 1);
}

#[test]
fn a_child_that_outlives_the_holder_does_not_block_for_ever() {
    if let Some((role, path)) = support::role() {
        let store = store(&path);
        let _ = store.get_or_build(&Request::new(&manifest(1)), || -> Result<Artifact, Infallible> {
            assert_eq!(role, "dies");
            // As a fork without exec would: somebody else has the lock's file open from now on.
            let locks = support::files(&path.join("v1/locks"));
            note(&path, &format!("{}", std::process::id()));
            while !path.join("inherited").exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(locks.len(), 1);
            support::die()
        });
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut holder = support::child("a_child_that_outlives_the_holder_does_not_block_for_ever", "dies", path);
    while builds(path) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The lock belongs to the open file, whoever has it: a duplicate of the descriptor keeps it held.
    let lock = support::files(&path.join("v1/locks")).remove(0);
    let mut fds = fs::read_dir(format!("/proc/{}/fd", holder.id())).unwrap().flatten();
    let fd = fds.find(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == lock)).unwrap();
    let number: i32 = fd.file_name().to_str().unwrap().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(holder.id() as i32).unwrap();
    let inherited =
        rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).and_then(|pidfd| {
            rustix::process::pidfd_getfd(pidfd, number, rustix::process::PidfdGetfdFlags::empty())
        });
    fs::write(path.join("inherited"), "").unwrap();
    holder.wait().unwrap();
    let Ok(_inherited) = inherited else {
        eprintln!("skipped: descriptors of other processes cannot be had here");
        return;
    };
    // Everybody finds out that nobody will release the lock, and one of them builds.
    let built = AtomicU32::new(0);
    threads(4, |_| {
        let store = store(path);
        let outcome = store.get_or_build(&Request::new(&manifest(1)), || {
            built.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(100));
            Ok::<_, Infallible>(artifact(1, SIZE))
        });
        check(&outcome.unwrap_or_else(|never| match never {}), 1, SIZE);
    });
    assert_eq!(built.load(Ordering::SeqCst), 1);
}

#[test]
fn waiting_can_be_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let builder = scope.spawn(|| {
            let build = || {
                barrier.wait();
                barrier.wait();
                Ok::<_, &str>(artifact(1, SIZE))
            };
            store.get_or_build(&Request::new(&manifest(1)), build).unwrap()
        });
        barrier.wait();
        let manifest = manifest(1);
        let interrupted = store.get_or_build_watched(
            &Request::new(&manifest),
            || panic!("somebody else builds"),
            &mut |_| Err("interrupted"),
        );
        assert_eq!(interrupted.unwrap_err(), "interrupted");
        barrier.wait();
        check(&builder.join().unwrap(), 1, SIZE);
    });
}

#[test]
fn a_build_that_asks_for_itself_does_not_wait_for_itself() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let outcome = store.get_or_build(&Request::new(&manifest(1)), || {
        check(&support::build(&store, 1, SIZE), 1, SIZE);
        Ok::<_, Infallible>(artifact(1, SIZE))
    });
    check(&outcome.unwrap_or_else(|never| match never {}), 1, SIZE);
}

#[test]
fn builds_nest() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let outcome = store.get_or_build(&Request::new(&manifest(1)), || {
        check(&support::build(&store, 2, SIZE), 2, SIZE);
        Ok::<_, Infallible>(artifact(1, SIZE))
    });
    check(&outcome.unwrap_or_else(|never| match never {}), 1, SIZE);
    assert_eq!(store.usage().counters.private_builds, 0);
}

#[test]
fn a_stopped_holder_is_replaced_by_one() {
    if let Some((_, path)) = support::role() {
        let store = store(&path);
        let outcome = store.get_or_build(&Request::new(&manifest(1)), || {
            note(&path, &format!("{}", std::process::id()));
            let this = rustix::process::getpid();
            rustix::process::kill_process(this, rustix::process::Signal::STOP).unwrap();
            Ok::<_, Infallible>(artifact(1, SIZE))
        });
        check(&outcome.unwrap_or_else(|never| match never {}), 1, SIZE);
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let stopped = support::child("a_stopped_holder_is_replaced_by_one", "", path);
    while builds(path) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Each has a store of its own, as in a process of its own.
    let built = AtomicU32::new(0);
    threads(4, |_| {
        let outcome = store(path).get_or_build(&Request::new(&manifest(1)), || {
            built.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(200));
            Ok::<_, Infallible>(artifact(1, SIZE))
        });
        check(&outcome.unwrap_or_else(|never| match never {}), 1, SIZE);
    });
    assert_eq!(built.load(Ordering::SeqCst), 1);
    // When it goes on, it does no harm.
    rustix::process::kill_process(rustix::process::Pid::from_child(&stopped), rustix::process::Signal::CONT)
        .unwrap();
    assert!(stopped.wait_with_output().unwrap().status.success());
    hit(&store(path), 1, SIZE);
}

#[test]
fn a_stuck_holder_is_replaced_by_one_of_those_who_wait() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let open = || Store::open(Config { wait: Duration::from_millis(300), ..config(path) });
    let (release, started, built) = (Barrier::new(2), Barrier::new(2), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let (release, built, started) = (&release, &built, &started);
        scope.spawn(move || {
            let build = || {
                started.wait();
                release.wait();
                Ok::<_, Infallible>(artifact(1, SIZE))
            };
            let _ = open().get_or_build(&Request::new(&manifest(1)), build);
        });
        started.wait();
        threads(4, |_| {
            let outcome = open().get_or_build(&Request::new(&manifest(1)), || {
                built.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>(artifact(1, SIZE))
            });
            check(&outcome.unwrap_or_else(|never| match never {}), 1, SIZE);
        });
        release.wait();
    });
    assert_eq!(built.load(Ordering::SeqCst), 1);
}

#[test]
fn a_build_that_fails_is_not_tried_in_a_row() {
    const WAITERS: u32 = 5;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let waiting = AtomicU32::new(0);
    let at_once = Barrier::new(WAITERS as usize);
    std::thread::scope(|scope| {
        let (waiting, at_once) = (&waiting, &at_once);
        let first = scope.spawn(move || {
            let build = || {
                // Until all others wait for this one.
                while waiting.load(Ordering::SeqCst) < WAITERS {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err::<Artifact, _>("the first")
            };
            store(path).get_or_build(&Request::new(&manifest(1)), build).unwrap_err()
        });
        while support::files(&path.join("v1/locks")).is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        threads(WAITERS, |_| {
            let mut counted = false;
            let build = || {
                // All of them meet inside of their builds: none waits for another.
                at_once.wait();
                Err::<Artifact, _>("another")
            };
            let manifest = manifest(1);
            let failed = store(path).get_or_build_watched(&Request::new(&manifest), build, &mut |_| {
                if !std::mem::replace(&mut counted, true) {
                    waiting.fetch_add(1, Ordering::SeqCst);
                }
                Ok(())
            });
            assert_eq!(failed.unwrap_err(), "another");
        });
        assert_eq!(first.join().unwrap(), "the first");
    });
    assert_eq!(support::files(&path.join("v1/locks")).len(), 0);
}

#[test]
fn processes_that_need_each_others_results_go_on() {
    if let Some((role, path)) = support::role() {
        let (own, other) = if role == "first" { (1, 2) } else { (2, 1) };
        let store = store(&path);
        let outcome = store.get_or_build(&Request::new(&manifest(own)), || {
            note(&path, &role);
            while builds(&path) < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            check(&support::build(&store, other, SIZE), other, SIZE);
            Ok::<_, Infallible>(artifact(own, SIZE))
        });
        check(&outcome.unwrap_or_else(|never| match never {}), own, SIZE);
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let test = "processes_that_need_each_others_results_go_on";
    for child in ["first", "second"].map(|role| support::child(test, role, path)) {
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let later = store(path);
    hit(&later, 1, SIZE);
    hit(&later, 2, SIZE);
}

#[test]
fn threads_that_need_each_others_results_go_on() {
    for with_disk in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let path = if with_disk { directory.path().to_owned() } else { "".into() };
        let store = Store::open(Config { path: Some(path), ..config(directory.path()) });
        let both = Barrier::new(2);
        threads(2, |i| {
            let (own, other) = (1 + u64::from(i), 2 - u64::from(i));
            let outcome = store.get_or_build(&Request::new(&manifest(own)), || {
                both.wait();
                check(&support::build(&store, other, SIZE), other, SIZE);
                Ok::<_, Infallible>(artifact(own, SIZE))
            });
            check(&outcome.unwrap_or_else(|never| match never {}), own, SIZE);
        });
    }
}

#[test]
fn at_the_deadline_one_of_all_builds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::create_dir_all(path.join("v1/locks")).unwrap();
    let stuck = fs::File::create(path.join(format!("v1/locks/{}.lock", key(1).hex()))).unwrap();
    stuck.lock().unwrap();
    // As three processes of two threads.
    let open = || Store::open(Config { wait: Duration::from_secs(1), ..config(path) });
    let (stores, built) = ([open(), open(), open()], AtomicU32::new(0));
    threads(6, |i| {
        let outcome = stores[i as usize / 2].get_or_build(&Request::new(&manifest(1)), || {
            built.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(500));
            Ok::<_, Infallible>(artifact(1, SIZE))
        });
        check(&outcome.unwrap_or_else(|never| match never {}), 1, SIZE);
    });
    assert_eq!(built.load(Ordering::SeqCst), 1);
}

#[test]
fn newcomers_wait_for_whoever_builds_in_place_of_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::create_dir_all(path.join("v1/locks")).unwrap();
    let first = path.join(format!("v1/locks/{}.lock", key(1).hex()));
    let stuck = fs::File::create(&first).unwrap();
    stuck.lock().unwrap();
    let open = || Store::open(Config { wait: Duration::from_millis(300), ..config(path) });
    let (built, inside, go_on) = (AtomicU32::new(0), Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        let (built, inside, go_on) = (&built, &inside, &go_on);
        scope.spawn(move || {
            let build = || {
                built.fetch_add(1, Ordering::SeqCst);
                inside.wait();
                go_on.wait();
                Ok::<_, Infallible>(artifact(1, SIZE))
            };
            let _ = open().get_or_build(&Request::new(&manifest(1)), build);
        });
        inside.wait();
        // The first lock is free again, while somebody builds under the second one.
        stuck.unlock().unwrap();
        fs::remove_file(&first).unwrap();
        let mut waited = false;
        let manifest = manifest(1);
        let outcome = store(path).get_or_build_watched(
            &Request::new(&manifest),
            || {
                built.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>(artifact(1, SIZE))
            },
            &mut |_| {
                if !std::mem::replace(&mut waited, true) {
                    go_on.wait();
                }
                Ok(())
            },
        );
        check(&outcome.unwrap_or_else(|never| match never {}), 1, SIZE);
    });
    assert_eq!(built.load(Ordering::SeqCst), 1);
}

#[test]
fn recaching_processes_share_what_they_build() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    support::build(&store(path), 1, SIZE);
    std::thread::sleep(Duration::from_millis(5));
    let built = AtomicU32::new(0);
    let stores: Vec<Store> = (0..4).map(|_| Store::open(Config { recache: true, ..config(path) })).collect();
    threads(4, |i| {
        for _ in 0..2 {
            // Without memory, what was built here is read from the disk.
            let outcome = stores[i as usize].get_or_build(&Request::new(&manifest(1)), || {
                built.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(100));
                Ok::<_, Infallible>(artifact(1, SIZE))
            });
            check(&outcome.unwrap_or_else(|never| match never {}), 1, SIZE);
        }
    });
    assert_eq!(built.load(Ordering::SeqCst), 1);
}

/// A service that several hosts use: bytes, leases, and the ways in which it can fail.
#[derive(Default)]
struct Service {
    held: Mutex<HashMap<Key, Vec<u8>>>,
    leased: Mutex<Vec<Key>>,
    fails: AtomicU32,
    asked: AtomicU32,
    rejected: AtomicU32,
}

struct Held(Arc<Service>, Key);

impl Lease for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.leased.lock().unwrap().retain(|leased| *leased != self.1);
    }
}

struct Remote(Arc<Service>);

impl Remote {
    fn ask(&self) -> Result<(), TierError> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        match self.0.fails.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ => Err(TierError::Failed("connection refused".into())),
        }
    }
}

impl Tier for Remote {
    fn name(&self) -> &str {
        "the service"
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, TierError> {
        self.ask()?;
        Ok(self.0.held.lock().unwrap().get(key).cloned())
    }

    fn contains(&self, key: &Key) -> Result<bool, TierError> {
        self.ask()?;
        Ok(self.0.held.lock().unwrap().contains_key(key))
    }

    fn put(&self, key: &Key, container: &[u8]) -> Result<(), TierError> {
        self.ask()?;
        self.0.held.lock().unwrap().insert(*key, container.to_vec());
        Ok(())
    }

    fn lease(&self, key: &Key, _for_at_most: Duration) -> Result<Leased, TierError> {
        self.ask()?;
        let mut leased = self.0.leased.lock().unwrap();
        if leased.contains(key) {
            return Ok(Leased::Busy);
        }
        leased.push(*key);
        Ok(Leased::Yes(Box::new(Held(Arc::clone(&self.0), *key))))
    }

    fn reject(&self, key: &Key) {
        self.0.rejected.fetch_add(1, Ordering::SeqCst);
        self.0.held.lock().unwrap().remove(key);
    }
}

fn host(service: &Arc<Service>, path: &Path, said: &Said) -> Store {
    let tiers: Vec<Arc<dyn Tier>> = vec![Arc::new(Remote(Arc::clone(service)))];
    Store::open(said.listen(Config { tiers, ..config(path) }))
}

#[test]
fn hosts_build_once_and_read_through() {
    let service = Arc::new(Service::default());
    let directories: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
    let said = Said::default();
    let hosts: Vec<_> = directories.iter().map(|directory| host(&service, directory.path(), &said)).collect();
    let built = AtomicU32::new(0);
    let outcomes = threads(4, |i| {
        let outcome = hosts[i as usize].get_or_build(&Request::new(&manifest(1)), || {
            built.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(100));
            Ok::<_, Infallible>(artifact(1, SIZE))
        });
        outcome.unwrap_or_else(|never| match never {})
    });
    outcomes.iter().for_each(|outcome| check(outcome, 1, SIZE));
    assert_eq!(built.load(Ordering::SeqCst), 1);
    assert!(service.leased.lock().unwrap().is_empty(), "leases are given back");
    // What came from the service is on every disk by now.
    for directory in &directories {
        assert_eq!(hit(&store(directory.path()), 1, SIZE), How::Disk);
    }
    assert_eq!(said.all(), [] as [String; 0]);
}

#[test]
fn a_service_that_fails_is_left_out_with_one_word() {
    let service = Arc::new(Service::default());
    let directory = tempfile::tempdir().unwrap();
    let said = Said::default();
    let store = host(&service, directory.path(), &said);
    service.fails.store(1, Ordering::SeqCst);
    for number in 0..5 {
        check(&support::build(&store, number, SIZE), number, SIZE);
    }
    assert_eq!(service.asked.load(Ordering::SeqCst), 1, "asked once, then left out");
    assert_eq!(said.all(), ["the tier the service is left out: connection refused"]);
}

#[test]
fn a_service_is_not_trusted() {
    let service = Arc::new(Service::default());
    let directory = tempfile::tempdir().unwrap();
    let said = Said::default();
    let donor = tempfile::tempdir().unwrap();
    let other = support::build(&store(donor.path()), 2, SIZE).entry.to_container();
    let store = host(&service, directory.path(), &said);
    let mut damaged = support::build(&support::store(donor.path()), 1, SIZE).entry.to_container();
    damaged[1000] ^= 1;
    for wrong in [other, damaged, Vec::new()] {
        service.held.lock().unwrap().insert(key(1), wrong);
        let Outcome { how, .. } = support::build(&store, 1, SIZE);
        assert_eq!(how, How::Built);
        store.remove(&key(1)).unwrap();
        service.held.lock().unwrap().clear();
    }
    assert_eq!(service.rejected.load(Ordering::SeqCst), 3);
}
