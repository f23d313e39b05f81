//! A bottom-up fold over any tree-like input, with any result, without recursion.
//!
//! A [`Folder`] says how to take one node apart and how to put the results of its parts together;
//! [`fold`] does the walking: post-order, each shared node once, cycles as back references.
//!
//! ```
//! use keyprint_fingerprint::{Folder, fold};
//!
//! enum Json { Number(f64), Array(Vec<Json>) }
//!
//! /// The depth of a value.
//! struct Depth;
//!
//! impl<'j> Folder for &'j Depth {
//!     type Node = &'j Json;
//!     type State = ();
//!     type Output = usize;
//!     type Key = *const Json;
//!     type Error = std::convert::Infallible;
//!
//!     fn key(&self, node: &&'j Json) -> Option<*const Json> { Some(*node) }
//!     fn open(&mut self, node: &&'j Json) -> Result<((), Vec<&'j Json>), Self::Error> {
//!         Ok(((), match node { Json::Number(_) => vec![], Json::Array(items) => items.iter().collect() }))
//!     }
//!     fn close(&mut self, _: (), parts: Vec<usize>) -> Result<usize, Self::Error> {
//!         Ok(parts.into_iter().max().map_or(0, |depth| depth + 1))
//!     }
//!     fn back(&mut self, _: &&'j Json, _: usize) -> Result<usize, Self::Error> { Ok(0) }
//! }
//!
//! let value = Json::Array(vec![Json::Number(1.0), Json::Array(vec![])]);
//! assert_eq!(fold(&mut &Depth, &value), Ok(1));
//! ```

use std::hash::Hash;

use crate::memo::{Memo, Seen, Ties};

/// What is kept of a node while its parts are folded, and the parts.
pub type Opened<F> = (<F as Folder>::State, Vec<<F as Folder>::Node>);

/// How to take a node apart, and how to put results together.
pub trait Folder {
    /// A node of the input.
    type Node;
    /// What is kept of a node while its parts are folded.
    type State;
    /// The result for a node.
    type Output: Clone;
    /// Names a node, so that it is known when met again.
    type Key: Copy + Eq + Hash;
    /// What can go wrong.
    type Error;

    /// The name of a node; `None` if it must be folded anew each time and cannot be in a cycle.
    fn key(&self, node: &Self::Node) -> Option<Self::Key>;

    /// Whether the result of a node is reused when the node is met again.
    fn remember(&self) -> bool {
        true
    }

    /// Takes a node apart.
    ///
    /// # Errors
    ///
    /// Ends the fold.
    fn open(&mut self, node: &Self::Node) -> Result<Opened<Self>, Self::Error>;

    /// Puts the results of the parts together.
    ///
    /// # Errors
    ///
    /// Ends the fold.
    fn close(&mut self, state: Self::State, parts: Vec<Self::Output>) -> Result<Self::Output, Self::Error>;

    /// The result for a node met inside itself, `distance` levels below: 1 for a node that is its own part.
    ///
    /// # Errors
    ///
    /// Ends the fold: refuse cycles here.
    fn back(&mut self, node: &Self::Node, distance: usize) -> Result<Self::Output, Self::Error>;

    /// Called when nodes had to be folded again because cycles made their results depend on where they stand.
    ///
    /// # Errors
    ///
    /// Ends the fold: a densely cyclic input would take exponential time.
    fn repeated(&mut self, _node: &Self::Node, _times: usize) -> Result<(), Self::Error> {
        Ok(())
    }
}

struct Frame<F: Folder> {
    keyed: bool,
    state: F::State,
    parts: std::vec::IntoIter<F::Node>,
    results: Vec<F::Output>,
    ties: Ties,
}

/// Folds `root`. See the [module documentation](self).
///
/// # Errors
///
/// The first error of the folder.
pub fn fold<F: Folder>(folder: &mut F, root: F::Node) -> Result<F::Output, F::Error> {
    let mut memo = if folder.remember() { Memo::new() } else { Memo::forgetful() };
    let mut stack: Vec<Frame<F>> = Vec::new();
    let mut next = Some(root);
    loop {
        // Either walk into `next`, or finish the top frame; both yield a result or a deeper frame.
        let (result, ties) = match next.take() {
            Some(node) => {
                let depth = stack.len();
                let key = folder.key(&node);
                match key.map_or(Seen::New, |key| memo.arrive(key, depth)) {
                    Seen::Done(result, ties) => (result, ties),
                    Seen::Open(at) => (folder.back(&node, depth - at)?, Ties::to(at)),
                    Seen::New => {
                        let (state, parts) = folder.open(&node)?;
                        if parts.is_empty() {
                            let result = folder.close(state, Vec::new())?;
                            if let Some(key) = key {
                                memo.leaf(key, result.clone());
                            }
                            (result, Ties::NONE)
                        } else {
                            if let Some(key) = key {
                                let before = memo.repeats();
                                memo.open(key, depth);
                                if memo.repeats() > before {
                                    folder.repeated(&node, memo.repeats())?;
                                }
                            }
                            let results = Vec::with_capacity(parts.len());
                            let parts = parts.into_iter();
                            stack.push(Frame {
                                keyed: key.is_some(),
                                state,
                                parts,
                                results,
                                ties: Ties::NONE,
                            });
                            next = stack.last_mut().and_then(|frame| frame.parts.next());
                            continue;
                        }
                    }
                }
            }
            None => {
                let frame = stack.pop().expect("a frame to finish");
                let result = folder.close(frame.state, frame.results)?;
                let ties = if frame.keyed {
                    memo.close(frame.ties, result.clone())
                } else {
                    frame.ties.closed_at(stack.len())
                };
                (result, ties)
            }
        };
        let Some(parent) = stack.last_mut() else { return Ok(result) };
        parent.results.push(result);
        parent.ties.merge(ties);
        next = parent.parts.next();
    }
}
