//! Lookup, flight, compile and publish, load: what is done, and how often.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use keyprint_fingerprint::fingerprint;
use keyprint_jit::{Found, Jit, Origin, Place, Work};
use keyprint_key::{Component, KeyBuilder, Manifest, Tool};
use keyprint_store::{Artifact, Config, Entry, How, Request, Store, Waiting};

/// What was done, counted.
#[derive(Default)]
struct Counts {
    compiled: AtomicUsize,
    loaded: AtomicUsize,
    waited: AtomicUsize,
}

impl Counts {
    fn all(&self) -> (usize, usize) {
        (self.compiled.load(Ordering::SeqCst), self.loaded.load(Ordering::SeqCst))
    }
}

type Compile<'a> = &'a (dyn Fn() -> Result<u8, String> + Sync);

/// Compiles by a function, and loads a number.
struct Numbers<'a> {
    counts: &'a Counts,
    compile: Compile<'a>,
    /// Whether waiting is interrupted.
    is_interrupted: bool,
}

impl Work for Numbers<'_> {
    type Executable = Arc<u8>;
    type Error = String;

    fn compile(&mut self) -> Result<Artifact, String> {
        self.counts.compiled.fetch_add(1, Ordering::SeqCst);
        Ok(Artifact::single(vec![(self.compile)()?]))
    }

    fn load(&mut self, entry: Arc<Entry>, _: How) -> Result<Arc<u8>, String> {
        self.counts.loaded.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(entry.part("data").expect("what was compiled")[0]))
    }

    fn make(&mut self) -> Result<Arc<u8>, String> {
        self.counts.compiled.fetch_add(1, Ordering::SeqCst);
        (self.compile)().map(Arc::new)
    }

    fn wait(&mut self, _: &Waiting<'_>) -> Result<(), String> {
        self.counts.waited.fetch_add(1, Ordering::SeqCst);
        if self.is_interrupted { Err("interrupted".to_owned()) } else { Ok(()) }
    }
}

fn manifest(value: u32) -> Manifest {
    let mut key = KeyBuilder::new("number", Tool::keyprint(), None);
    key.add(Component::new("value", fingerprint(&value))).unwrap();
    key.finish()
}

struct Fixture {
    _directory: tempfile::TempDir,
    store: Store,
    counts: Counts,
    jit: Jit<Arc<u8>>,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Config::at(directory.path()));
        Self { _directory: directory, store, counts: Counts::default(), jit: Jit::new(8) }
    }

    fn get_on(&self, device: u64, value: u32, compile: Compile<'_>) -> Result<Found<Arc<u8>>, String> {
        let manifest = manifest(value);
        let place = Place { key: manifest.key(), device };
        let request = Request::new(&manifest);
        let mut work = Numbers { counts: &self.counts, compile, is_interrupted: false };
        self.jit.get(place, "number", Some((&self.store, &request)), &mut work)
    }

    fn get(&self, value: u32, compile: Compile<'_>) -> Result<Found<Arc<u8>>, String> {
        self.get_on(0, value, compile)
    }
}

const NEVER: Compile<'static> = &|| panic!("it is there");

#[test]
fn what_is_loaded_is_not_asked_for_again() {
    let fixture = Fixture::new();
    let first = fixture.get(1, &|| Ok(7)).unwrap();
    assert_eq!((*first.executable, first.origin), (7, Origin::Stored(How::Built)));
    let second = fixture.get(1, NEVER).unwrap();
    assert_eq!((*second.executable, second.origin), (7, Origin::Loaded));
    assert!(Arc::ptr_eq(&first.executable, &second.executable));
    assert_eq!(fixture.counts.all(), (1, 1));
}

#[test]
fn another_dispatcher_finds_what_was_published() {
    let mut fixture = Fixture::new();
    fixture.get(1, &|| Ok(7)).unwrap();
    fixture.jit = Jit::new(8);
    let outcome = fixture.get(1, NEVER).unwrap();
    assert_eq!((*outcome.executable, outcome.origin), (7, Origin::Stored(How::Memory)));
    fixture.jit.clear();
    assert!(fixture.jit.is_empty());
    assert_eq!(fixture.get(1, NEVER).unwrap().origin, Origin::Stored(How::Memory));
    assert_eq!(fixture.counts.all(), (1, 3));
}

#[test]
fn each_device_loads_what_was_compiled_once() {
    let fixture = Fixture::new();
    fixture.get_on(0, 1, &|| Ok(7)).unwrap();
    fixture.get_on(1, 1, NEVER).unwrap();
    assert_eq!((fixture.counts.all(), fixture.jit.len()), ((1, 2), 2));
}

#[test]
fn the_least_recently_used_are_loaded_again() {
    let mut fixture = Fixture::new();
    fixture.jit = Jit::new(2);
    for value in [1, 2, 1, 3] {
        fixture.get(value, &|| Ok(7)).unwrap();
    }
    assert_eq!((fixture.counts.all(), fixture.jit.len()), ((3, 3), 2));
    assert_eq!(fixture.get(1, NEVER).unwrap().origin, Origin::Loaded);
    assert_eq!(fixture.get(2, NEVER).unwrap().origin, Origin::Stored(How::Memory));
}

#[test]
fn one_thread_works_and_all_get_the_same() {
    let fixture = Fixture::new();
    let barrier = Barrier::new(8);
    let executables: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    fixture.get(1, &|| Ok(7)).unwrap().executable
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(executables.iter().all(|executable| Arc::ptr_eq(executable, &executables[0])));
    assert_eq!(fixture.counts.all(), (1, 1));
}

#[test]
fn those_who_waited_for_a_failure_try_themselves() {
    let fixture = Fixture::new();
    let (begun, wait) = mpsc::channel();
    std::thread::scope(|scope| {
        let fixture = &fixture;
        let leader = scope.spawn(move || {
            let failing = || {
                begun.send(()).unwrap();
                // The other has joined once it was asked whether it goes on waiting.
                while fixture.counts.waited.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                Err("no memory".to_owned())
            };
            let failing = std::sync::Mutex::new(failing);
            fixture.get(1, &|| (failing.lock().unwrap())()).map(|outcome| *outcome.executable)
        });
        wait.recv().unwrap();
        assert_eq!(*fixture.get(1, &|| Ok(8)).unwrap().executable, 8);
        assert_eq!(leader.join().unwrap(), Err("no memory".to_owned()));
    });
    assert_eq!(fixture.counts.all(), (2, 1));
}

#[test]
fn waiting_ends_when_it_is_interrupted() {
    let fixture = Fixture::new();
    let (begun, wait) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let fixture = &fixture;
        let gone = std::sync::Mutex::new(gone);
        scope.spawn(move || {
            let slow = || {
                begun.send(()).unwrap();
                gone.lock().unwrap().recv().unwrap();
                Ok(7)
            };
            let slow = std::sync::Mutex::new(slow);
            fixture.get(1, &|| (slow.lock().unwrap())()).unwrap();
        });
        wait.recv().unwrap();
        let manifest = manifest(1);
        let place = Place { key: manifest.key(), device: 0 };
        let mut work = Numbers { counts: &fixture.counts, compile: NEVER, is_interrupted: true };
        let outcome =
            fixture.jit.get(place, "number", Some((&fixture.store, &Request::new(&manifest))), &mut work);
        assert_eq!(outcome.map(|outcome| *outcome.executable), Err("interrupted".to_owned()));
        go.send(()).unwrap();
    });
}

#[test]
fn compilers_that_need_each_other_do_not_wait_for_each_other() {
    // Each thread compiles one of two, and needs the other for it.
    let fixture = Fixture::new();
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for (own, other) in [(1, 2), (2, 1)] {
            let (fixture, barrier) = (&fixture, &barrier);
            scope.spawn(move || {
                let nested = || {
                    barrier.wait();
                    let needed = *fixture.get(other, &|| Ok(1)).unwrap().executable;
                    // Until both have what they need, neither has what the other asks for.
                    barrier.wait();
                    Ok(needed + 1)
                };
                fixture.get(own, &nested).unwrap();
            });
        }
    });
    assert_eq!(fixture.counts.all().0, 4);
}

#[test]
fn without_a_store_nothing_is_published() {
    let fixture = Fixture::new();
    let place = Place { key: manifest(1).key(), device: 0 };
    let mut work = Numbers { counts: &fixture.counts, compile: &|| Ok(7), is_interrupted: false };
    let outcome = fixture.jit.get(place, "number", None, &mut work).unwrap();
    assert_eq!((*outcome.executable, outcome.origin), (7, Origin::Made));
    assert!(!fixture.store.contains(&place.key));
    assert_eq!(fixture.jit.get(place, "number", None, &mut work).unwrap().origin, Origin::Loaded);
    assert_eq!(fixture.counts.all(), (1, 0));
}

#[test]
fn what_fails_to_load_is_not_remembered() {
    struct Failing;
    impl Work for Failing {
        type Executable = Arc<u8>;
        type Error = String;

        fn compile(&mut self) -> Result<Artifact, String> {
            Ok(Artifact::single(vec![1]))
        }

        fn load(&mut self, _: Arc<Entry>, _: How) -> Result<Arc<u8>, String> {
            Err("not for this machine".to_owned())
        }

        fn make(&mut self) -> Result<Arc<u8>, String> {
            unreachable!("there is a store")
        }

        fn wait(&mut self, _: &Waiting<'_>) -> Result<(), String> {
            Ok(())
        }
    }
    let fixture = Fixture::new();
    let manifest = manifest(1);
    let place = Place { key: manifest.key(), device: 0 };
    let request = Request::new(&manifest);
    let outcome = fixture.jit.get(place, "number", Some((&fixture.store, &request)), &mut Failing);
    assert_eq!(outcome.map(|outcome| *outcome.executable), Err("not for this machine".to_owned()));
    // The artifact is good, and another loader may take it.
    assert_eq!(*fixture.get(1, NEVER).unwrap().executable, 1);
}
