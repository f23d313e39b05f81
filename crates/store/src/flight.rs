//! Single flight among the threads of a process: one works, the others wait for its result.
//!
//! The only one there is: the store builds entries under it, `keyprint-jit` loads executables under it, and
//! cached steps keep results in memory under it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Who works on what. It does not survive a `fork`: see [`PerProcess`](crate::PerProcess).
///
/// ```
/// use std::time::{Duration, Instant};
/// use keyprint_store::{Flights, Role};
///
/// let flights = Flights::default();
/// let soon = Instant::now() + Duration::from_secs(1);
/// match flights.join(&"key", soon, &mut || Ok::<(), ()>(())).unwrap() {
///     Role::Lead(leading) => leading.land(&42),
///     _ => unreachable!("nobody else is here"),
/// }
/// ```
pub struct Flights<K, V> {
    open: Mutex<HashMap<K, Arc<Flight<V>>>>,
}

struct Flight<V> {
    leader: ThreadId,
    state: Mutex<State<V>>,
    landed: Condvar,
}

enum State<V> {
    Flying,
    Landed(V),
    Failed,
}

/// What a thread is to do.
pub enum Role<'a, K: Hash + Eq, V> {
    /// Do the work, and tell the others.
    Lead(Leading<'a, K, V>),
    /// Use what another thread made.
    Use(V),
    /// The other thread failed: try again.
    Again,
    /// Work alone: waiting took too long, or would never end.
    Alone,
}

/// The duty to tell the others; dropped without a result, it tells them to try themselves.
pub struct Leading<'a, K: Hash + Eq, V> {
    flights: &'a Flights<K, V>,
    key: K,
    flight: Arc<Flight<V>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self { open: Mutex::default() }
    }
}

impl<K, V> Flights<K, V> {
    /// How many are worked on.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.open).len()
    }

    /// Whether nobody works on anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Flights<K, V> {
    /// Joins whoever works on a key, or becomes the one who does. `tick` runs now and then while waiting;
    /// nobody waits beyond the deadline.
    ///
    /// # Errors
    ///
    /// What `tick` returns.
    pub fn join<E>(
        &self,
        key: &K,
        deadline: Instant,
        tick: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<Role<'_, K, V>, E> {
        const TICK: Duration = Duration::from_millis(50);
        let flight = {
            let mut open = lock(&self.open);
            match open.get(key) {
                Some(flight) => Arc::clone(flight),
                None => {
                    let leader = thread::current().id();
                    let flight =
                        Arc::new(Flight { leader, state: Mutex::new(State::Flying), landed: Condvar::new() });
                    open.insert(key.clone(), Arc::clone(&flight));
                    return Ok(Role::Lead(Leading { flights: self, key: key.clone(), flight }));
                }
            }
        };
        // Work that asks for itself would wait for itself.
        if flight.leader == thread::current().id() {
            return Ok(Role::Alone);
        }
        loop {
            let pause = TICK.min(deadline.saturating_duration_since(Instant::now()));
            let state = lock(&flight.state);
            let (state, _) = flight
                .landed
                .wait_timeout_while(state, pause, |state| matches!(state, State::Flying))
                .unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Landed(value) => return Ok(Role::Use(value.clone())),
                State::Failed => return Ok(Role::Again),
                State::Flying if Instant::now() >= deadline => return Ok(Role::Alone),
                State::Flying => {}
            }
            drop(state);
            tick()?;
        }
    }
}

impl<K: Hash + Eq, V: Clone> Leading<'_, K, V> {
    /// Tells the others the result.
    pub fn land(self, value: &V) {
        *lock(&self.flight.state) = State::Landed(value.clone());
    }
}

impl<K: Hash + Eq, V> Drop for Leading<'_, K, V> {
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
