//! Single flight among the threads of a process: one builds, the others wait for its result.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use keyprint_key::Key;

use crate::entry::Entry;

/// Who builds what.
#[derive(Default)]
pub(crate) struct Flights {
    open: Mutex<HashMap<Key, Arc<Flight>>>,
}

struct Flight {
    leader: ThreadId,
    state: Mutex<State>,
    landed: Condvar,
}

enum State {
    Flying,
    Landed(Arc<Entry>),
    Failed,
}

/// What a thread is to do.
pub(crate) enum Role<'a> {
    /// Build, and tell the others.
    Lead(Leading<'a>),
    /// Use what another thread built.
    Use(Arc<Entry>),
    /// The other thread failed: try again.
    Again,
    /// Build alone: waiting took too long, or would never end.
    Alone,
}

/// The duty to tell the others; dropped without an entry, it tells them to try themselves.
pub(crate) struct Leading<'a> {
    flights: &'a Flights,
    key: Key,
    flight: Arc<Flight>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flights {
    /// Joins whoever builds a key, or becomes the one who does. `tick` runs now and then while waiting.
    pub(crate) fn join<E>(
        &self,
        key: &Key,
        deadline: Instant,
        tick: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<Role<'_>, E> {
        const TICK: Duration = Duration::from_millis(50);
        let flight = {
            let mut open = lock(&self.open);
            match open.get(key) {
                Some(flight) => Arc::clone(flight),
                None => {
                    let leader = thread::current().id();
                    let flight =
                        Arc::new(Flight { leader, state: Mutex::new(State::Flying), landed: Condvar::new() });
                    open.insert(*key, Arc::clone(&flight));
                    return Ok(Role::Lead(Leading { flights: self, key: *key, flight }));
                }
            }
        };
        // A build that asks for itself would wait for itself.
        if flight.leader == thread::current().id() {
            return Ok(Role::Alone);
        }
        loop {
            let state = lock(&flight.state);
            let (state, _) = flight
                .landed
                .wait_timeout_while(state, TICK, |state| matches!(state, State::Flying))
                .unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Landed(entry) => return Ok(Role::Use(Arc::clone(entry))),
                State::Failed => return Ok(Role::Again),
                State::Flying if Instant::now() >= deadline => return Ok(Role::Alone),
                State::Flying => {}
            }
            drop(state);
            tick()?;
        }
    }
}

impl Leading<'_> {
    pub(crate) fn land(self, entry: &Arc<Entry>) {
        *lock(&self.flight.state) = State::Landed(Arc::clone(entry));
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        lock(&self.flights.open).remove(&self.key);
        let mut state = lock(&self.flight.state);
        if let State::Flying = *state {
            *state = State::Failed;
        }
        drop(state);
        self.flight.landed.notify_all();
    }
}
