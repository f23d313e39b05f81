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
    state: Mutex<Open<K, V>>,
}

/// Who works on what, and who waits for what.
struct Open<K, V> {
    flights: HashMap<K, Arc<Flight<V>>>,
    waiting: HashMap<ThreadId, K>,
}

/// How often others may take over from a leader that takes too long; then everybody works alone.
const MOST_TAKEOVERS: u32 = 2;

/// After so many failures it is not the leader's fault: everybody tries alone, all at once.
const MOST_FAILURES: u32 = 2;

struct Flight<V> {
    state: Mutex<State<V>>,
    changed: Condvar,
}

struct State<V> {
    /// Who works on it.
    leader: ThreadId,
    /// How many took over from a leader that took too long, or failed.
    takeovers: u32,
    /// How many failed.
    failures: u32,
    /// How many wait.
    waiting: u32,
    outcome: Outcome<V>,
}

impl<V> State<V> {
    /// Who works on it, if anybody does.
    fn leader(&self) -> Option<ThreadId> {
        matches!(self.outcome, Outcome::Flying).then_some(self.leader)
    }
}

enum Outcome<V> {
    Flying,
    /// The leader failed, and one of those who wait is to take over.
    Vacant,
    Landed(V),
    Failed,
}

/// What a thread is to do.
pub enum Role<'a, K: Hash + Eq, V> {
    /// Do the work, and tell the others.
    Lead(Leading<'a, K, V>),
    /// Use what another thread made.
    Use(V),
    /// Work alone: the other thread failed, waiting took too long, or would never end.
    Alone,
}

/// The duty to tell the others; dropped without a result, it tells them to try themselves.
pub struct Leading<'a, K: Hash + Eq, V> {
    flights: &'a Flights<K, V>,
    key: K,
    flight: Arc<Flight<V>>,
    /// How many had taken over when this one began.
    takeovers: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self { state: Mutex::new(Open { flights: HashMap::new(), waiting: HashMap::new() }) }
    }
}

impl<K, V> Flights<K, V> {
    /// How many are worked on.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.state).flights.len()
    }

    /// Whether nobody works on anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Hash + Eq, V> Open<K, V> {
    /// Removes a flight, unless there is another one by now.
    fn remove(&mut self, key: &K, flight: &Arc<Flight<V>>) {
        if self.flights.get(key).is_some_and(|open| Arc::ptr_eq(open, flight)) {
            self.flights.remove(key);
        }
    }

    /// Whether the leader of a flight waits, in the end, for this thread.
    fn waits_for_this_thread(&self, flight: &Flight<V>) -> bool {
        let this = thread::current().id();
        let Some(mut leader) = lock(&flight.state).leader() else { return false };
        // Each thread waits for one thing at most, so more steps than threads would be a circle without this one.
        for _ in 0..=self.waiting.len() {
            if leader == this {
                return true;
            }
            let next = self.waiting.get(&leader).and_then(|key| self.flights.get(key));
            match next.and_then(|next| lock(&next.state).leader()) {
                Some(next) => leader = next,
                None => return false,
            }
        }
        false
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Flights<K, V> {
    /// Joins whoever works on a key, or becomes the one who does. `tick` runs now and then while waiting.
    ///
    /// Nobody waits for work that waits for it in turn. When the one who works fails, or at the deadline, one of those
    /// who wait takes over and the others wait for that one, as long again; when that one fails too, or after a few
    /// times, everybody works alone.
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
        let this = thread::current().id();
        let flight = {
            let mut open = lock(&self.state);
            match open.flights.get(key).map(Arc::clone) {
                // Work that asks for itself would wait for itself.
                Some(flight) if open.waits_for_this_thread(&flight) => return Ok(Role::Alone),
                Some(flight) => {
                    open.waiting.insert(this, key.clone());
                    flight
                }
                None => {
                    let state = State {
                        leader: this,
                        takeovers: 0,
                        failures: 0,
                        waiting: 0,
                        outcome: Outcome::Flying,
                    };
                    let flight = Arc::new(Flight { state: Mutex::new(state), changed: Condvar::new() });
                    open.flights.insert(key.clone(), Arc::clone(&flight));
                    return Ok(self.lead(key, flight, 0));
                }
            }
        };
        let _waiting = Waiting { flights: self, key, flight: Arc::clone(&flight) };
        match wait(&flight, deadline, tick)? {
            Waited::Landed(value) => Ok(Role::Use(value)),
            Waited::InVain => Ok(Role::Alone),
            Waited::TookOver(takeovers) => Ok(self.lead(key, flight, takeovers)),
        }
    }

    fn lead(&self, key: &K, flight: Arc<Flight<V>>, takeovers: u32) -> Role<'_, K, V> {
        Role::Lead(Leading { flights: self, key: key.clone(), flight, takeovers })
    }
}

/// What waiting came to.
enum Waited<V> {
    Landed(V),
    /// Whoever worked on it failed, or took too long.
    InVain,
    /// This thread is the one who works on it now.
    TookOver(u32),
}

fn wait<V: Clone, E>(
    flight: &Flight<V>,
    mut deadline: Instant,
    tick: &mut dyn FnMut() -> Result<(), E>,
) -> Result<Waited<V>, E> {
    const TICK: Duration = Duration::from_millis(50);
    let patience = deadline.saturating_duration_since(Instant::now());
    let _counted = Counted::begin(flight);
    let mut takeovers = lock(&flight.state).takeovers;
    loop {
        let pause = TICK.min(deadline.saturating_duration_since(Instant::now()));
        let state = lock(&flight.state);
        let (mut state, _) = flight
            .changed
            .wait_timeout_while(state, pause, |state| matches!(state.outcome, Outcome::Flying))
            .unwrap_or_else(PoisonError::into_inner);
        match &state.outcome {
            Outcome::Landed(value) => return Ok(Waited::Landed(value.clone())),
            Outcome::Failed => return Ok(Waited::InVain),
            Outcome::Flying if Instant::now() < deadline => {}
            Outcome::Flying if state.takeovers != takeovers => {
                // Somebody else took over, and gets as long.
                takeovers = state.takeovers;
                deadline = Instant::now() + patience;
            }
            Outcome::Flying if patience.is_zero() || takeovers == MOST_TAKEOVERS => {
                return Ok(Waited::InVain);
            }
            Outcome::Flying | Outcome::Vacant => {
                state.takeovers += 1;
                state.leader = thread::current().id();
                state.outcome = Outcome::Flying;
                return Ok(Waited::TookOver(state.takeovers));
            }
        }
        drop(state);
        tick()?;
    }
}

/// Counts a thread that waits for a flight, until it is dropped.
struct Counted<'a, V>(&'a Flight<V>);

impl<'a, V> Counted<'a, V> {
    fn begin(flight: &'a Flight<V>) -> Self {
        lock(&flight.state).waiting += 1;
        Self(flight)
    }
}

impl<V> Drop for Counted<'_, V> {
    fn drop(&mut self) {
        lock(&self.0.state).waiting -= 1;
    }
}

/// Says that this thread waits, until it is dropped.
struct Waiting<'a, K: Hash + Eq, V> {
    flights: &'a Flights<K, V>,
    key: &'a K,
    flight: Arc<Flight<V>>,
}

impl<K: Hash + Eq, V> Drop for Waiting<'_, K, V> {
    fn drop(&mut self) {
        let mut open = lock(&self.flights.state);
        open.waiting.remove(&thread::current().id());
        // What nobody works on, and nobody waits for any more, is over.
        let mut state = lock(&self.flight.state);
        if state.waiting == 0 && matches!(state.outcome, Outcome::Vacant) {
            state.outcome = Outcome::Failed;
            open.remove(self.key, &self.flight);
        }
    }
}

impl<K: Hash + Eq, V: Clone> Leading<'_, K, V> {
    /// Tells the others the result.
    pub fn land(self, value: &V) {
        lock(&self.flight.state).outcome = Outcome::Landed(value.clone());
    }
}

impl<K: Hash + Eq, V> Drop for Leading<'_, K, V> {
    fn drop(&mut self) {
        {
            let mut state = lock(&self.flight.state);
            match state.outcome {
                // Somebody else took over, and goes on, or another one will.
                Outcome::Flying | Outcome::Vacant if state.takeovers != self.takeovers => return,
                Outcome::Flying => {
                    state.failures += 1;
                    if state.waiting > 0 && state.failures < MOST_FAILURES {
                        state.outcome = Outcome::Vacant;
                        drop(state);
                        return self.flight.changed.notify_all();
                    }
                    state.outcome = Outcome::Failed;
                }
                _ => {}
            }
        }
        lock(&self.flights.state).remove(&self.key, &self.flight);
        self.flight.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn never() -> Result<(), ()> {
        Ok(())
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(100)
    }

    #[test]
    fn threads_that_need_each_other_do_not_wait_for_each_other() {
        let flights: Flights<&str, u32> = Flights::default();
        let both_lead = Barrier::new(2);
        let alone = AtomicU32::new(0);
        thread::scope(|scope| {
            for (own, other) in [("a", "b"), ("b", "a")] {
                let (flights, both_lead, alone) = (&flights, &both_lead, &alone);
                scope.spawn(move || {
                    let Ok(Role::Lead(leading)) = flights.join(&own, soon(), &mut never) else { panic!() };
                    both_lead.wait();
                    match flights.join(&other, soon(), &mut never) {
                        Ok(Role::Alone) => drop(alone.fetch_add(1, Ordering::SeqCst)),
                        Ok(Role::Use(1)) => {}
                        _ => panic!("nobody is to lead a second time"),
                    }
                    leading.land(&1);
                });
            }
        });
        assert_eq!(alone.load(Ordering::SeqCst), 1, "the other can wait");
        assert!(flights.is_empty());
    }

    #[test]
    fn when_the_leader_fails_one_tries_and_then_all_at_once() {
        let flights: Flights<u32, u32> = Flights::default();
        let Ok(Role::Lead(leading)) = flights.join(&1, soon(), &mut never) else { panic!() };
        let alone = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| match flights.join(&1, soon(), &mut never) {
                    Ok(Role::Lead(second)) => {
                        while lock(&flights.state).waiting.len() < 4 {
                            thread::yield_now();
                        }
                        drop(second);
                    }
                    // All four meet inside of their work: none waits for another's.
                    Ok(Role::Alone) => drop(alone.wait()),
                    _ => panic!("nobody succeeded"),
                });
            }
            while lock(&flights.state).waiting.len() < 5 {
                thread::yield_now();
            }
            drop(leading);
        });
        assert!(flights.is_empty());
    }

    #[test]
    fn a_failure_whose_last_waiter_gave_up_is_forgotten() {
        let flights: Flights<u32, u32> = Flights::default();
        let Ok(Role::Lead(leading)) = flights.join(&1, soon(), &mut never) else { panic!() };
        let (inside, failed) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            let (flights, inside, failed) = (&flights, &inside, &failed);
            scope.spawn(move || {
                // The leader fails while this one is asked whether to go on, and it does not.
                let mut stop = || {
                    inside.wait();
                    failed.wait();
                    Err("stop")
                };
                assert!(matches!(flights.join(&1, soon(), &mut stop), Err("stop")));
            });
            inside.wait();
            drop(leading);
            failed.wait();
        });
        assert!(flights.is_empty());
        assert!(matches!(flights.join(&1, soon(), &mut never), Ok(Role::Lead(_))));
    }

    #[test]
    fn a_failure_that_nobody_waits_for_is_forgotten() {
        let flights: Flights<u32, u32> = Flights::default();
        for _ in 0..3 {
            let Ok(Role::Lead(leading)) = flights.join(&1, soon(), &mut never) else { panic!() };
            drop(leading);
            assert!(flights.is_empty());
        }
    }

    #[test]
    fn one_takes_over_from_a_leader_that_takes_too_long() {
        let flights: Flights<u32, u32> = Flights::default();
        let Ok(Role::Lead(stuck)) = flights.join(&1, soon(), &mut never) else { panic!() };
        let roles = [AtomicU32::new(0), AtomicU32::new(0)];
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let deadline = Instant::now() + Duration::from_millis(50);
                    match flights.join(&1, deadline, &mut never).unwrap() {
                        Role::Lead(leading) => {
                            roles[0].fetch_add(1, Ordering::SeqCst);
                            while lock(&flights.state).waiting.len() < 3 {
                                thread::yield_now();
                            }
                            leading.land(&7);
                        }
                        Role::Use(value) => drop(roles[1].fetch_add(value, Ordering::SeqCst)),
                        Role::Alone => panic!("nobody works alone"),
                    }
                });
            }
        });
        assert_eq!(roles.map(AtomicU32::into_inner), [1, 21]);
        // The one that was stuck has nothing to say any more, and takes nothing from others.
        let Ok(Role::Lead(next)) = flights.join(&1, soon(), &mut never) else { panic!() };
        drop(stuck);
        assert_eq!(flights.len(), 1);
        next.land(&8);
        assert!(flights.is_empty());
    }

    #[test]
    fn a_leader_that_was_given_up_still_lands_for_those_who_wait() {
        let flights: Flights<u32, u32> = Flights::default();
        let Ok(Role::Lead(slow)) = flights.join(&1, soon(), &mut never) else { panic!() };
        let both = Barrier::new(2);
        thread::scope(|scope| {
            let (flights, took_over) = (&flights, &both);
            scope.spawn(move || {
                let deadline = Instant::now() + Duration::from_millis(5);
                let Ok(Role::Lead(leading)) = flights.join(&1, deadline, &mut never) else { panic!() };
                took_over.wait();
                took_over.wait();
                drop(leading);
            });
            took_over.wait();
            let waiter = scope.spawn(|| match flights.join(&1, soon(), &mut never) {
                Ok(Role::Use(value)) => value,
                _ => panic!("it landed"),
            });
            while lock(&flights.state).waiting.is_empty() {
                thread::yield_now();
            }
            slow.land(&3);
            assert_eq!(waiter.join().unwrap(), 3);
            took_over.wait();
        });
        assert!(flights.is_empty());
    }
}
