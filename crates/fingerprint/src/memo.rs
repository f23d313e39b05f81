//! [`Memo`]: which results of shared and cyclic values may be reused, and where.
//!
//! A walk over an object graph meets three kinds of nodes again:
//!
//! - one that is still *open* (it encloses the place where it is met): a cycle. It becomes a back
//!   reference by relative depth.
//! - one that is closed and reaches no cycle: its result is the same everywhere.
//! - one that is closed and whose result contains back references. What such a result would be
//!   *here* depends on which nodes are open here. It may be reused only where a fresh walk would
//!   give the same: every open node it refers to is still open at the same distance, and none of
//!   the nodes that were walked inside it is open now (a fresh walk would stop at that one).
//!
//! Reusing results of the third kind whenever that is safe keeps graphs such as a binary DAG whose
//! leaves point back at its root polynomial. Densely cyclic graphs have exponentially many
//! different contexts; [`Memo::repeats`] counts how often nodes were walked again, so that a
//! caller can give up.
//!
//! Nodes are named by a key (an address, an index); depth counts every open node, also those that
//! the caller does not track because nothing else can refer to them.

use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};

/// The back references in a result, as absolute depths of open nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ties {
    /// The outermost open node referred to; `u32::MAX` if none.
    low: u32,
    /// A bound for the innermost open node referred to, apart from the result's own.
    high: u32,
    /// Whether there is any back reference inside, also one that ends inside.
    cyclic: bool,
}

impl Ties {
    /// No back reference.
    pub const NONE: Self = Self { low: u32::MAX, high: 0, cyclic: false };

    /// A back reference to the open node at `depth`.
    ///
    /// # Panics
    ///
    /// When more than four billion nodes are open.
    #[must_use]
    pub fn to(depth: usize) -> Self {
        let depth = u32::try_from(depth).expect("fewer than four billion open nodes");
        Self { low: depth, high: depth, cyclic: true }
    }

    /// Adds the ties of a child.
    #[inline]
    pub fn merge(&mut self, child: Self) {
        if child.cyclic {
            self.cyclic = true;
            if child.low != u32::MAX {
                self.high = if self.low == u32::MAX { child.high } else { self.high.max(child.high) };
                self.low = self.low.min(child.low);
            }
        }
    }

    /// The ties of a node at `depth` that closes with these: references to itself end there.
    #[inline]
    #[must_use]
    pub fn closed_at(self, depth: usize) -> Self {
        if self.low as usize >= depth {
            Self { low: u32::MAX, high: 0, cyclic: self.cyclic }
        } else {
            // Which node below `depth` is the innermost is not known once the own one is dropped;
            // the parent is the safe answer.
            Self { high: self.high.min(depth as u32 - 1), ..self }
        }
    }

    fn is_free(self) -> bool {
        self.low == u32::MAX
    }
}

/// What is known about a node that a walk arrives at.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen<R> {
    /// Nothing that can be used here: walk it.
    New,
    /// It encloses this place, at this depth.
    Open(usize),
    /// Its result, and the back references in it.
    Done(R, Ties),
}

#[derive(Clone)]
struct Entry<K, R> {
    key: K,
    result: R,
    ties: Ties,
    depth: usize,
    /// The opening time of the tracked node at `ties.high`: the same node must still be open.
    high_opened: u64,
    closed: u64,
    /// Cyclic entries that this one contains.
    children: Vec<u32>,
}

struct Node<R> {
    open: Option<usize>,
    /// When it was first opened; 0 for never.
    first_opened: u64,
    free: Option<R>,
    /// The latest entries with back references, by index. Where there are more, older ones are
    /// forgotten: in a graph that has that many, looking through them would cost more than walking.
    tied: Vec<u32>,
}

/// How many entries with back references a node keeps.
const MOST_TIED: usize = 64;

/// Looking for a node inside this many entries counts as walking one node.
const SEARCHES_PER_REPEAT: usize = 16;

struct Open<K> {
    key: K,
    depth: usize,
    opened: u64,
    first_opened: u64,
    children: Vec<u32>,
}

/// The memory of one walk. See the [module documentation](self).
pub struct Memo<K, R> {
    nodes: FxHashMap<K, Node<R>>,
    open: Vec<Open<K>>,
    /// Positions in `open` of nodes that had been opened before.
    reopened: Vec<usize>,
    entries: Vec<Entry<K, R>>,
    absent: FxHashSet<(u32, K)>,
    clock: u64,
    repeats: usize,
    searches: usize,
    forgetful: bool,
}

impl<K: Copy + Eq + Hash, R: Clone> Default for Memo<K, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Copy + Eq + Hash, R: Clone> Memo<K, R> {
    /// An empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self {
            nodes: FxHashMap::default(),
            open: Vec::new(),
            reopened: Vec::new(),
            entries: Vec::new(),
            absent: FxHashSet::default(),
            clock: 0,
            repeats: 0,
            searches: 0,
            forgetful: false,
        }
    }

    /// A memory that knows only what is open: cycles, but no results.
    #[must_use]
    pub fn forgetful() -> Self {
        Self { forgetful: true, ..Self::new() }
    }

    /// How much work cycles have caused so far, in nodes that were opened more than once.
    #[must_use]
    pub fn repeats(&self) -> usize {
        self.repeats + self.searches / SEARCHES_PER_REPEAT
    }

    /// Arrives at a node at `depth`. After [`Seen::New`] call [`open`](Self::open) if it has children.
    #[inline]
    pub fn arrive(&mut self, key: K, depth: usize) -> Seen<R> {
        let Some(node) = self.nodes.get(&key) else { return Seen::New };
        if let Some(result) = &node.free {
            return Seen::Done(result.clone(), Ties::NONE);
        }
        if let Some(depth) = node.open {
            return Seen::Open(depth);
        }
        self.arrive_tied(key, depth)
    }

    /// Arrives at a node where results with cycles must not be used.
    pub fn arrive_acyclic(&mut self, key: K) -> Seen<R> {
        match self.nodes.get(&key) {
            Some(Node { free: Some(result), .. }) => Seen::Done(result.clone(), Ties::NONE),
            Some(Node { open: Some(depth), .. }) => Seen::Open(*depth),
            _ => Seen::New,
        }
    }

    #[cold]
    fn arrive_tied(&mut self, key: K, depth: usize) -> Seen<R> {
        for at in (0..self.nodes[&key].tied.len()).rev() {
            let id = self.nodes[&key].tied[at];
            if self.holds_here(id, depth) {
                let entry = &self.entries[id as usize];
                let (result, ties) = (entry.result.clone(), entry.ties);
                if let Some(parent) = self.open.last_mut() {
                    parent.children.push(id);
                }
                return Seen::Done(result, ties);
            }
        }
        Seen::New
    }

    fn holds_here(&mut self, id: u32, depth: usize) -> bool {
        let entry = &self.entries[id as usize];
        if !entry.ties.is_free() {
            let target = self.open.binary_search_by_key(&(entry.ties.high as usize), |open| open.depth);
            let same = |at: usize| self.open[at].opened == entry.high_opened;
            if entry.depth != depth || !target.is_ok_and(same) {
                return false;
            }
        }
        let closed = entry.closed;
        for at in (0..self.reopened.len()).rev() {
            let open = &self.open[self.reopened[at]];
            if open.opened < closed {
                break;
            }
            if open.first_opened <= closed && self.contains(id, open.key) {
                return false;
            }
        }
        true
    }

    /// Whether the node `key` was walked inside the entry.
    fn contains(&mut self, id: u32, key: K) -> bool {
        let mut visited = Vec::new();
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            if !self.absent.insert((id, key)) {
                continue;
            }
            visited.push(id);
            self.searches += 1;
            let entry = &self.entries[id as usize];
            if entry.key == key {
                // Only a whole search without a find proves absence.
                for id in visited {
                    self.absent.remove(&(id, key));
                }
                return true;
            }
            pending.extend_from_slice(&entry.children);
        }
        false
    }

    /// Remembers a node that has no children.
    pub fn leaf(&mut self, key: K, result: R) {
        if self.forgetful {
            return;
        }
        let node = Node { open: None, first_opened: 0, free: Some(result), tied: Vec::new() };
        self.nodes.insert(key, node);
    }

    /// Opens a node at `depth`.
    #[inline]
    pub fn open(&mut self, key: K, depth: usize) {
        self.clock += 1;
        let opened = self.clock;
        let node = self.nodes.entry(key).or_insert(Node {
            open: None,
            first_opened: 0,
            free: None,
            tied: Vec::new(),
        });
        node.open = Some(depth);
        if node.first_opened == 0 {
            node.first_opened = opened;
        } else {
            self.repeats += 1;
            self.reopened.push(self.open.len());
        }
        let first_opened = node.first_opened;
        self.open.push(Open { key, depth, opened, first_opened, children: Vec::new() });
    }

    /// Closes the node opened last, with the ties of everything in it; returns the ties it leaves for its parent.
    ///
    /// # Panics
    ///
    /// When no node is open.
    #[inline]
    pub fn close(&mut self, ties: Ties, result: R) -> Ties {
        let Open { key, depth, children, .. } = self.open.pop().expect("a node to close");
        if self.reopened.last() == Some(&self.open.len()) {
            self.reopened.pop();
        }
        let ties = ties.closed_at(depth);
        let node = self.nodes.get_mut(&key).expect("an open node is known");
        node.open = None;
        if self.forgetful {
            self.nodes.remove(&key);
            return ties;
        }
        if !ties.cyclic {
            node.free = Some(result);
            return ties;
        }
        self.close_tied(key, depth, ties, result, children);
        ties
    }

    #[cold]
    fn close_tied(&mut self, key: K, depth: usize, ties: Ties, result: R, children: Vec<u32>) {
        self.clock += 1;
        let high_opened = self
            .open
            .binary_search_by_key(&(ties.high as usize), |open| open.depth)
            .map_or(0, |at| self.open[at].opened);
        let id = u32::try_from(self.entries.len()).expect("fewer than four billion cyclic nodes");
        self.entries.push(Entry { key, result, ties, depth, high_opened, closed: self.clock, children });
        let tied = &mut self.nodes.get_mut(&key).expect("an open node is known").tied;
        if tied.len() == MOST_TIED {
            tied.remove(0);
        }
        tied.push(id);
        if let Some(parent) = self.open.last_mut() {
            parent.children.push(id);
        }
    }
}
