//! From a key to something executable: what is loaded already, what a store has, and otherwise what a
//! compiler makes, once however many ask.
//!
//! A dispatcher knows what a call depends on, and makes a key of it. [`Jit`] does the rest: it looks among
//! the executables that are loaded, lets one thread lead and the others wait, asks the store, compiles,
//! publishes, loads and remembers. What compiling and loading are is up to the caller ([`Work`]), so that
//! the same code serves a compiler that is written in Python and one that is not.
//!
//! ```
//! use std::sync::Arc;
//! use keyprint_fingerprint::fingerprint;
//! use keyprint_jit::{Jit, Place, Work};
//! use keyprint_key::{Component, KeyBuilder, Tool};
//! use keyprint_store::{Artifact, Config, Entry, Request, Store, Waiting};
//!
//! struct Doubling;
//!
//! impl Work for Doubling {
//!     type Executable = Arc<dyn Fn(u32) -> u32 + Send + Sync>;
//!     type Error = String;
//!
//!     fn compile(&mut self) -> Result<Artifact, String> {
//!         Ok(Artifact::single(vec![2]))
//!     }
//!
//!     fn load(&mut self, entry: Arc<Entry>, _: keyprint_store::How) -> Result<Self::Executable, String> {
//!         let factor = u32::from(entry.part("data").ok_or("no data")?[0]);
//!         Ok(Arc::new(move |x| factor * x))
//!     }
//!
//!     fn make(&mut self) -> Result<Self::Executable, String> {
//!         Ok(Arc::new(|x| 2 * x))
//!     }
//!
//!     fn wait(&mut self, _: &Waiting<'_>) -> Result<(), String> {
//!         Ok(())
//!     }
//! }
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path();
//! let store = Store::open(Config::at(path));
//! let mut key = KeyBuilder::new("double", Tool::new("mylang", "1.2"), None);
//! key.add(Component::new("source", fingerprint("2 * x"))).unwrap();
//! let manifest = key.finish();
//!
//! let jit = Jit::new(1024);
//! let place = Place { key: manifest.key(), device: 0 };
//! let double = jit.get(place, "double", Some((&store, &Request::new(&manifest))), &mut Doubling)?;
//! assert_eq!((double.executable)(21), 42);
//! # Ok::<(), String>(())
//! ```
//!
//! # Map
//!
//! | module | what it holds |
//! | --- | --- |
//! | `get` | [`Jit`]: lookup, flight, compile and publish, load |
//! | `executables` | what is loaded, the least recently used first to go |
//! | `nesting` | whether this thread is inside of a compiler |
//!
//! # Invariants
//!
//! - No lock is held while somebody else's code runs: compilers, loaders, destructors of executables.
//! - Nobody waits without a bound, nor for a compile that waits for them: inside of a compiler nobody waits.
//! - A forked child waits for none of its parent's threads. What was loaded stays loaded in it.
//! - What failed is not remembered: whoever waited tries again.

#![forbid(unsafe_code)]

mod executables;
mod get;
mod nesting;

pub use get::{Found, Jit, LONGEST_WAIT, Origin, Place, Work};
