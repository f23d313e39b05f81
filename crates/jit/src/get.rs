//! [`Jit`]: lookup, flight, compile and publish, load.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyprint_key::Key;
use keyprint_store::{Artifact, Entry, Flights, How, Outcome, PerProcess, Request, Role, Store, Waiting};

use crate::executables::Executables;
use crate::nesting::{Compiling, is_compiling};

/// How long a thread waits for another that makes the same executable, where no store says; then it makes one.
pub const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// What tells executables apart: the same artifact is loaded once for each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// What it was compiled for.
    pub key: Key,
    /// Where it is loaded, by a number that the caller gives out.
    pub device: u64,
}

/// What a [`Jit`] cannot do by itself.
pub trait Work {
    /// What a loader makes. Clones stand for the same executable.
    type Executable: Clone;
    /// What can go wrong.
    type Error;

    /// Compiles; what is returned is published.
    ///
    /// # Errors
    ///
    /// Whatever is wrong: it ends the request, and nothing is kept.
    fn compile(&mut self) -> Result<Artifact, Self::Error>;

    /// Makes an entry of the store executable.
    ///
    /// # Errors
    ///
    /// As for [`compile`](Self::compile).
    fn load(&mut self, entry: Arc<Entry>, how: How) -> Result<Self::Executable, Self::Error>;

    /// Compiles and loads, for this process alone.
    ///
    /// # Errors
    ///
    /// As for [`compile`](Self::compile).
    fn make(&mut self) -> Result<Self::Executable, Self::Error>;

    /// Called about every 50 ms while somebody else's work is waited for.
    ///
    /// # Errors
    ///
    /// An error ends the waiting.
    fn wait(&mut self, waiting: &Waiting<'_>) -> Result<(), Self::Error>;
}

/// An executable, and where it came from.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// The executable.
    pub executable: T,
    /// Where it came from.
    pub origin: Origin,
}

/// Where an executable came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was loaded already, by this thread or by one that was waited for.
    Loaded,
    /// It was loaded from the store, which got it so.
    Stored(How),
    /// It was made for this process alone.
    Made,
}

/// The executables of one dispatcher.
///
/// Shared between threads by reference. A forked child keeps what is loaded, and waits for nobody.
pub struct Jit<T> {
    most: NonZeroUsize,
    state: PerProcess<State<T>>,
}

struct State<T> {
    executables: Arc<Executables<T>>,
    flights: Flights<Place, T>,
}

impl<T: Clone> Jit<T> {
    /// Keeps up to so many executables loaded.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        let executables = Arc::new(Executables::new(most));
        Self { most, state: PerProcess::new(State { executables, flights: Flights::default() }) }
    }

    fn state(&self) -> &State<T> {
        self.state.get_with(|before| State {
            // What another thread was changing at that moment is loaded again.
            executables: Arc::new(
                before.executables.try_copy().unwrap_or_else(|| Executables::new(self.most)),
            ),
            flights: Flights::default(),
        })
    }

    /// The executable of a place: one that is loaded, one that another thread is about to load, one from the
    /// store, or a new one. Without a store it is made for this process alone.
    ///
    /// # Errors
    ///
    /// What the work returns, and nothing else.
    pub fn get<W: Work<Executable = T>>(
        &self,
        place: Place,
        name: &str,
        store: Option<(&Store, &Request<'_>)>,
        work: &mut W,
    ) -> Result<Found<T>, W::Error> {
        let state = self.state();
        let start = Instant::now();
        // Those who wait for a compile may be what it waits for.
        let is_nested = is_compiling();
        let wait = store.map_or(LONGEST_WAIT, |(store, _)| store.wait());
        let deadline =
            if is_nested { start } else { start.checked_add(wait).unwrap_or(start + LONGEST_WAIT) };
        if let Some(executable) = state.executables.get(&place) {
            return Ok(Found { executable, origin: Origin::Loaded });
        }
        let process = Some(std::process::id());
        let tick = &mut || work.wait(&Waiting { name, process, since: start.elapsed() });
        match state.flights.join(&place, deadline, tick)? {
            Role::Lead(leading) => {
                // Somebody may have landed since the look at what is loaded.
                let outcome = match state.executables.get(&place) {
                    Some(executable) => Found { executable, origin: Origin::Loaded },
                    None => make(store, work, is_nested)?,
                };
                state.executables.keep(place, outcome.executable.clone());
                leading.land(&outcome.executable);
                Ok(outcome)
            }
            Role::Use(executable) => Ok(Found { executable, origin: Origin::Loaded }),
            Role::Alone => {
                let outcome = make(store, work, true)?;
                state.executables.keep(place, outcome.executable.clone());
                Ok(outcome)
            }
        }
    }

    /// The executable of a place, if it is loaded.
    #[must_use]
    pub fn loaded(&self, place: &Place) -> Option<T> {
        self.state().executables.get(place)
    }

    /// Forgets what is loaded.
    pub fn clear(&self) {
        self.state().executables.clear();
    }

    /// How many executables are loaded.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().executables.len()
    }

    /// Whether nothing is loaded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks at everything that is loaded, for whoever collects garbage; says whether it could.
    pub fn try_for_each(&self, mut look: impl FnMut(&T)) -> bool {
        self.state().executables.try_for_each(&mut look)
    }
}

/// Gets an entry and loads it, or makes an executable for this process.
fn make<W: Work>(
    store: Option<(&Store, &Request<'_>)>,
    work: &mut W,
    is_alone: bool,
) -> Result<Found<W::Executable>, W::Error> {
    let Some((store, request)) = store else {
        let _compiling = Compiling::begin();
        let executable = work.make()?;
        return Ok(Found { executable, origin: Origin::Made });
    };
    let Outcome { entry, how } = if is_alone {
        store.get_or_build_alone(request, || compile(work))?
    } else {
        // Compiling and waiting take turns, and the compiler borrows what the waiting does.
        let work = std::cell::RefCell::new(&mut *work);
        store.get_or_build_watched(request, || compile(*work.borrow_mut()), &mut |waiting| {
            work.borrow_mut().wait(waiting)
        })?
    };
    let executable = work.load(entry, how)?;
    Ok(Found { executable, origin: Origin::Stored(how) })
}

fn compile<W: Work>(work: &mut W) -> Result<Artifact, W::Error> {
    let _compiling = Compiling::begin();
    work.compile()
}
