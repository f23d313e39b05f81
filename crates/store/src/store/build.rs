//! Building under single flight: among the threads of a process, among processes, among hosts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use keyprint_key::{Key, Manifest};

use crate::disk::{Attempt, Disk, Holder, KeyLock, MOST_LOCKS, Presence, is_full};
use crate::entry::{Artifact, Entry, Info};
use crate::flight::Role;
use crate::notice::Notice;
use crate::progress::{TerminalProgress, Waiting};
use crate::store::waits::{Building, WaitingFor, is_circular};
use crate::store::{Store, signed};
use crate::tier::{Lease, Leased};

/// What is asked for.
pub struct Request<'a> {
    key: Key,
    name: &'a str,
    manifest: Source<'a>,
}

enum Source<'a> {
    AtHand(&'a Manifest),
    Made(&'a dyn Fn() -> Manifest),
}

impl<'a> Request<'a> {
    /// What a manifest describes.
    #[must_use]
    pub fn new(manifest: &'a Manifest) -> Self {
        Self { key: manifest.key(), name: manifest.name(), manifest: Source::AtHand(manifest) }
    }

    /// What a key stands for, with a manifest that is only made if it is needed: on a miss.
    #[must_use]
    pub fn lazy(key: Key, name: &'a str, manifest: &'a dyn Fn() -> Manifest) -> Self {
        Self { key, name, manifest: Source::Made(manifest) }
    }

    fn manifest(&self) -> Manifest {
        match self.manifest {
            Source::AtHand(manifest) => manifest.clone(),
            Source::Made(make) => make(),
        }
    }
}

/// An entry and where it came from.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The entry.
    pub entry: Arc<Entry>,
    /// How it was got.
    pub how: How,
}

/// How an entry was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// From memory.
    Memory,
    /// From the local disk.
    Disk,
    /// From another tier.
    Tier,
    /// By waiting for another thread, process or host to build it.
    Waited,
    /// By building it.
    Built,
}

impl How {
    /// What people know it as.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Tier => "tier",
            Self::Waited => "waited",
            Self::Built => "built",
        }
    }
}

/// A holder that is gone or stopped for this long is not waited for any more. Whoever gets a lock after it says so in
/// its file well within this time.
const ABSENCE: Duration = Duration::from_secs(2);

type Watch<'a, E> = &'a mut dyn FnMut(&Waiting<'_>) -> Result<(), E>;

impl Store {
    /// The entry of a key: from a tier, by waiting for whoever builds it, or by building it.
    ///
    /// # Errors
    ///
    /// What `build` returns, and nothing else: trouble with the store is said once and does no harm.
    /// When another thread or process fails to build, this one tries itself.
    pub fn get_or_build<E>(
        &self,
        request: &Request<'_>,
        build: impl FnOnce() -> Result<Artifact, E>,
    ) -> Result<Outcome, E> {
        let mut progress = TerminalProgress::default();
        self.get_or_build_watched(request, build, &mut |waiting| {
            progress.show(waiting);
            Ok(())
        })
    }

    /// As [`get_or_build`](Self::get_or_build), with a callback that runs about every 50 ms while
    /// somebody else's build is being waited for. An error of it ends the waiting.
    ///
    /// # Errors
    ///
    /// What `build` or `watch` return.
    pub fn get_or_build_watched<E>(
        &self,
        request: &Request<'_>,
        build: impl FnOnce() -> Result<Artifact, E>,
        watch: Watch<'_, E>,
    ) -> Result<Outcome, E> {
        if let Some(outcome) = self.lookup(&request.key) {
            return Ok(outcome);
        }
        let start = Instant::now();
        let deadline =
            start.checked_add(self.wait).unwrap_or_else(|| start + Duration::from_secs(u32::MAX.into()));
        let process = Some(std::process::id());
        let role = {
            let mut waiting_for = None;
            let mut tick = || {
                // Those who build something may wait for it in another process.
                waiting_for.get_or_insert_with(|| WaitingFor::begin(&request.key));
                if self.disk.as_ref().is_some_and(|disk| is_circular(disk, &request.key)) {
                    return Err(None);
                }
                watch(&Waiting { name: request.name, process, since: start.elapsed() }).map_err(Some)
            };
            self.flights.join(&request.key, deadline, &mut tick)
        };
        match role {
            Ok(Role::Lead(leading)) => {
                // Whoever took over from a thread that takes too long does not wait for the lock of that one.
                let took_over = Instant::now() >= deadline && !self.wait.is_zero();
                let turn = if took_over { (1, Instant::now() + self.wait) } else { (0, deadline) };
                let outcome = self.lead(request, build, start, turn, watch)?;
                leading.land(&outcome.entry);
                Ok(outcome)
            }
            Ok(Role::Use(entry)) => {
                self.count(|counters| counters.waits += 1);
                Ok(Outcome { entry, how: How::Waited })
            }
            Ok(Role::Alone) | Err(None) => self.build_alone(request, build, start, process),
            Err(Some(error)) => Err(error),
        }
    }

    /// As [`get_or_build`](Self::get_or_build), without waiting for anybody: for builds inside of other
    /// builds, which those who wait may be waiting for.
    ///
    /// # Errors
    ///
    /// What `build` returns.
    pub fn get_or_build_alone<E>(
        &self,
        request: &Request<'_>,
        build: impl FnOnce() -> Result<Artifact, E>,
    ) -> Result<Outcome, E> {
        match self.lookup(&request.key) {
            Some(outcome) => Ok(outcome),
            None => {
                self.count(|counters| counters.private_builds += 1);
                self.build(request, build)
            }
        }
    }

    /// Builds for all threads of this process, unless another process does.
    fn lead<E>(
        &self,
        request: &Request<'_>,
        build: impl FnOnce() -> Result<Artifact, E>,
        start: Instant,
        (first, deadline): (u32, Instant),
        watch: Watch<'_, E>,
    ) -> Result<Outcome, E> {
        let building = match self.writable() {
            None => None,
            Some(disk) => match self.wait_for_lock(disk, request, start, (first, deadline), watch)? {
                Turn::Ours(lock) => lock.map(|lock| Building::begin(disk, &request.key, lock)),
                Turn::Theirs(outcome) => return Ok(outcome),
                Turn::Never(process) => return self.build_alone(request, build, start, process),
            },
        };
        // Somebody may have published between the look-up and the lock.
        if let Some(outcome) = self.lookup_again(&request.key, start) {
            return Ok(outcome);
        }
        let leases = match self.wait_for_leases(request, start, deadline, watch)? {
            Ok(leases) => leases,
            Err(outcome) => return Ok(outcome),
        };
        let built = self.build(request, build);
        drop(leases);
        if let (Err(_), Some(building)) = (&built, &building) {
            building.note_failure();
        }
        built
    }

    /// Waits until this process may build a key, or somebody else has.
    fn wait_for_lock<E>(
        &self,
        disk: &Disk,
        request: &Request<'_>,
        start: Instant,
        (mut which, deadline): (u32, Instant),
        watch: Watch<'_, E>,
    ) -> Result<Turn, E> {
        let patience = deadline.saturating_duration_since(Instant::now());
        let mut deadline = deadline;
        let mut pause = Pause::default();
        let mut absent: Option<(Holder, Instant)> = None;
        let (mut gave_up, mut has_freed) = (false, false);
        let mut attempts = disk.lock_of(&request.key, which);
        let mut waiting_for = None;
        loop {
            let note = match attempts.attempt() {
                Ok(Attempt::Held(lock)) => {
                    // Somebody may build it under a later lock, in place of a holder that is gone by now.
                    if let Some(later) = disk.held_later(&request.key, which) {
                        drop(lock);
                        which = later;
                        attempts = disk.lock_of(&request.key, which);
                        continue;
                    }
                    self.count(|counters| counters.private_builds += i64::from(gave_up));
                    return Ok(Turn::Ours(Some(lock)));
                }
                Ok(Attempt::Failed) => return Ok(Turn::Never(None)),
                Ok(Attempt::Busy(note)) => note,
                Err(error) if is_full(&error) && !has_freed => {
                    self.free_device(disk, &request.key, 0);
                    has_freed = true;
                    continue;
                }
                Err(error) => {
                    self.cannot_write(disk, Notice::Lock(disk.bucket().join("locks"), error));
                    return Ok(Turn::Ours(None));
                }
            };
            if disk.contains(&request.key)
                && let Some(outcome) = self.lookup_again(&request.key, start)
            {
                return Ok(Turn::Theirs(outcome));
            }
            let process = note.holder.as_ref().map(|holder| holder.process);
            waiting_for.get_or_insert_with(|| WaitingFor::begin(&request.key));
            if is_circular(disk, &request.key) {
                return Ok(Turn::Never(process));
            }
            // A dead holder's lock is free, unless a child of it has the file open. Whoever got the
            // lock after it may not have signed yet, so the name of the dead must stay for a while.
            absent =
                note.holder.filter(|holder| holder.presence() != Presence::There).map(|holder| match absent
                    .take()
                {
                    Some((same, since)) if same == holder => (same, since),
                    _ => (holder, Instant::now()),
                });
            let is_absent = absent.as_ref().is_some_and(|(_, since)| since.elapsed() >= ABSENCE);
            let is_late = Instant::now() >= deadline;
            if is_absent || is_late {
                if which + 1 == MOST_LOCKS || patience.is_zero() {
                    return Ok(Turn::Never(process));
                }
                if is_late {
                    self.notices.say(&Notice::Waited { name: request.name.to_owned(), process });
                }
                gave_up |= is_late;
                // All who wait go on to the next lock, so that one of them builds, and the others wait for that one.
                (which, absent, deadline) = (which + 1, None, Instant::now() + patience);
                attempts = disk.lock_of(&request.key, which);
                continue;
            }
            watch(&Waiting { name: request.name, process, since: start.elapsed() })?;
            pause.sleep(deadline);
        }
    }

    /// Asks the outer tiers for the right to build, so that other hosts wait; or gets what they built.
    fn wait_for_leases<E>(
        &self,
        request: &Request<'_>,
        start: Instant,
        deadline: Instant,
        watch: Watch<'_, E>,
    ) -> Result<Result<Vec<Box<dyn Lease>>, Outcome>, E> {
        let mut leases = Vec::new();
        for outer in &self.tiers {
            let mut pause = Pause::default();
            loop {
                match self.ask(outer, |tier| tier.lease(&request.key, self.wait)) {
                    Some(Leased::Yes(lease)) => leases.push(lease),
                    Some(Leased::Busy) if Instant::now() < deadline => {
                        watch(&Waiting { name: request.name, process: None, since: start.elapsed() })?;
                        pause.sleep(deadline);
                        if let Some(outcome) = self.lookup_tiers(&request.key, start) {
                            self.count(|counters| counters.waits += 1);
                            return Ok(Err(Outcome { how: How::Waited, ..outcome }));
                        }
                        continue;
                    }
                    _ => {}
                }
                break;
            }
        }
        Ok(Ok(leases))
    }

    /// Looks in memory and on the disk once more. What is there now was built by somebody else meanwhile.
    fn lookup_again(&self, key: &Key, start: Instant) -> Option<Outcome> {
        let outcome = self.lookup_memory(key, start).or_else(|| self.lookup_disk(key, start))?;
        self.count(|counters| {
            match outcome.how {
                How::Memory => counters.memory_hits -= 1,
                _ => counters.disk_hits -= 1,
            }
            counters.waits += 1;
        });
        Some(Outcome { how: How::Waited, ..outcome })
    }

    /// Builds what somebody else may be building too.
    fn build_alone<E>(
        &self,
        request: &Request<'_>,
        build: impl FnOnce() -> Result<Artifact, E>,
        start: Instant,
        process: Option<u32>,
    ) -> Result<Outcome, E> {
        // Whoever was waited for, or failed, may not have been the only one.
        if let Some(outcome) = self.lookup_again(&request.key, start) {
            return Ok(outcome);
        }
        if start.elapsed() >= self.wait {
            self.notices.say(&Notice::Waited { name: request.name.to_owned(), process });
        }
        self.count(|counters| counters.private_builds += 1);
        self.build(request, build)
    }

    fn build<E>(
        &self,
        request: &Request<'_>,
        build: impl FnOnce() -> Result<Artifact, E>,
    ) -> Result<Outcome, E> {
        let manifest = request.manifest();
        assert_eq!(manifest.key(), request.key, "a manifest belongs to the key it is asked for with");
        self.note_miss(&manifest);
        let start = Instant::now();
        let built = build();
        let took = start.elapsed();
        let entry = match built {
            Ok(artifact) => Arc::new(Entry::built(&manifest, artifact, Info::new((self.clock)(), took))),
            Err(error) => {
                self.count(|counters| counters.failed_builds += 1);
                self.flush();
                return Err(error);
            }
        };
        self.count(|counters| {
            counters.builds += 1;
            counters.build_ns += signed(entry.info().build_ns);
        });
        self.publish(&entry);
        self.flush();
        Ok(Outcome { entry, how: How::Built })
    }

    fn note_miss(&self, manifest: &Manifest) {
        self.count(|counters| counters.misses += 1);
        if let Some(history) = &self.history {
            // Not being able to say later why it missed is no reason to warn.
            let _ = history.add((self.clock)(), manifest);
        }
    }
}

/// Who builds.
enum Turn {
    /// This process; with the lock, if locks work here.
    Ours(Option<KeyLock>),
    /// Somebody else did.
    Theirs(Outcome),
    /// Nobody lets this process have its turn, or whoever had it failed: it builds by itself.
    Never(Option<u32>),
}

/// Pauses that grow, so that short builds are noticed at once and long ones do not cost.
struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(Duration::from_millis(1))
    }
}

impl Pause {
    fn sleep(&mut self, deadline: Instant) {
        std::thread::sleep(self.0.min(deadline.saturating_duration_since(Instant::now())));
        self.0 = (self.0 * 3 / 2).min(Duration::from_millis(50));
    }
}
