//! [`Trace`]: the labelled tree that `explain` shows and `diff` compares.

use keyprint_fingerprint::Fingerprint;
use rustc_hash::FxHashMap;

/// One object in an explanation.
pub(crate) struct Node {
    /// How a path reaches it from its parent: `.name`, `[3]`, `['key']`.
    pub(crate) label: String,
    /// A short text for the object.
    pub(crate) text: String,
    pub(crate) digest: Fingerprint,
    pub(crate) children: Vec<usize>,
    /// The node that shows the parts of this same object.
    pub(crate) same: Option<usize>,
}

/// The tree of one walk, in the order in which objects were met.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) nodes: Vec<Node>,
    open: Vec<(usize, usize)>,
    by_address: FxHashMap<usize, usize>,
}

impl Trace {
    fn add(&mut self, label: String, text: String, digest: Fingerprint, same: Option<usize>) -> usize {
        let id = self.nodes.len();
        self.nodes.push(Node { label, text, digest, children: Vec::new(), same });
        if let Some((parent, _)) = self.open.last() {
            self.nodes[*parent].children.push(id);
        }
        id
    }

    /// An object without parts, or one that was read before, at `shared`.
    pub(crate) fn leaf(&mut self, label: String, text: String, digest: Fingerprint, shared: Option<usize>) {
        let same = shared.and_then(|address| self.by_address.get(&address).copied());
        self.add(label, text, digest, same);
    }

    /// An object with parts.
    pub(crate) fn open(&mut self, label: String, text: String, address: usize) {
        let id = self.add(label, text, Fingerprint::from_bytes([0; 32]), None);
        self.open.push((id, address));
    }

    /// A part of the open object that is no object itself: what is in it belongs to the object.
    pub(crate) fn open_part(&mut self) {
        let (id, _) = *self.open.last().expect("a part belongs to an open object");
        self.open.push((id, 0));
    }

    /// Closes what was opened last; a part has no digest of its own.
    pub(crate) fn close(&mut self, digest: Option<Fingerprint>) {
        let (id, address) = self.open.pop().expect("closed after it was opened");
        if let Some(digest) = digest {
            self.nodes[id].digest = digest;
            self.by_address.insert(address, id);
        }
    }

    /// The leaf that was just added is a key: its value's label shows it.
    pub(crate) fn key_is_leaf(&mut self, digest: Fingerprint) {
        if let Some((parent, _)) = self.open.last()
            && let Some(&last) = self.nodes[*parent].children.last()
            && self.nodes[last].digest == digest
            && self.nodes[last].children.is_empty()
        {
            self.nodes[*parent].children.pop();
        }
    }
}
