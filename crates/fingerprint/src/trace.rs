//! [`Trace`]: a value as a labelled tree of fingerprints, to show it and to find where two values part.

use std::fmt::{self, Write};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::Fingerprint;

/// One object in an explanation.
pub struct Node {
    /// How a path reaches it from its parent: `.name`, `[3]`, `['key']`.
    pub label: String,
    /// A short text for the object.
    pub text: String,
    /// Its fingerprint, as it counts there.
    pub digest: Fingerprint,
    /// Its parts.
    pub children: Vec<usize>,
    /// The node that shows the parts of this same object.
    pub same: Option<usize>,
}

/// The tree of one walk, in the order in which objects were met.
#[derive(Default)]
pub struct Trace {
    /// All of them, the whole first.
    pub nodes: Vec<Node>,
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
    pub fn leaf(&mut self, label: String, text: String, digest: Fingerprint, shared: Option<usize>) {
        let same = shared.and_then(|address| self.by_address.get(&address).copied());
        self.add(label, text, digest, same);
    }

    /// An object with parts.
    pub fn open(&mut self, label: String, text: String, address: usize) {
        let id = self.add(label, text, Fingerprint::from_bytes([0; 32]), None);
        self.open.push((id, address));
    }

    /// A part of the open object that is no object itself: what is in it belongs to the object.
    pub fn open_part(&mut self) {
        let (id, _) = *self.open.last().expect("a part belongs to an open object");
        self.open.push((id, 0));
    }

    /// Closes what was opened last; a part has no digest of its own.
    pub fn close(&mut self, digest: Option<Fingerprint>) {
        let (id, address) = self.open.pop().expect("closed after it was opened");
        if let Some(digest) = digest {
            self.nodes[id].digest = digest;
            self.by_address.insert(address, id);
        }
    }

    /// The leaf that was just added is a key: its value's label shows it.
    pub fn key_is_leaf(&mut self, digest: Fingerprint) {
        if let Some((parent, _)) = self.open.last()
            && let Some(&last) = self.nodes[*parent].children.last()
            && self.nodes[last].digest == digest
            && self.nodes[last].children.is_empty()
        {
            self.nodes[*parent].children.pop();
        }
    }

    /// The node that shows the parts of an object.
    #[must_use]
    pub fn resolved(&self, id: usize) -> usize {
        self.nodes[id].same.unwrap_or(id)
    }

    /// The tree below a node as text, down to `depth` levels and `lines` lines. `path` stands for the node itself.
    #[must_use]
    pub fn render(&self, root: usize, path: &str, depth: usize, lines: usize) -> String {
        let mut text = String::new();
        let mut pending = vec![(root, 0)];
        let mut written = 0;
        while let Some((id, level)) = pending.pop() {
            if written == lines {
                let _ = writeln!(text, "… and {} more", pending.len() + 1);
                break;
            }
            written += 1;
            let node = &self.nodes[id];
            let label = if id == root { path } else { &node.label };
            let shared = if node.same.is_some() { "  (shared)" } else { "" };
            let _ = writeln!(
                text,
                "{}  {:indent$}{label}  {}{shared}",
                node.digest.short(),
                "",
                node.text,
                indent = 2 * level
            );
            if node.same.is_some() {
                continue;
            }
            if level == depth && !node.children.is_empty() {
                let _ = writeln!(text, "{:14}{:indent$}…", "", "", indent = 2 * (level + 1));
                continue;
            }
            pending.extend(node.children.iter().rev().map(|&child| (child, level + 1)));
        }
        text
    }
}

/// One place where two values differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path to the place.
    pub path: String,
    /// What is there on the left; `None` for nothing.
    pub left: Option<String>,
    /// What is there on the right; `None` for nothing.
    pub right: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match (&self.left, &self.right) {
            (Some(left), Some(right)) if left == right => {
                write!(f, "{path}: {left} on both sides, but of different content")
            }
            (Some(left), Some(right)) => write!(f, "{path}: {left} != {right}"),
            (Some(left), None) => write!(f, "{path}: {left} only on the left"),
            (None, Some(right)) => write!(f, "{path}: {right} only on the right"),
            (None, None) => f.write_str(path),
        }
    }
}

/// The first places, at most `limit`, where two traced values differ.
#[must_use]
pub fn differences(left: &Trace, right: &Trace, limit: usize) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut compared = FxHashSet::default();
    let mut pending = vec![(0, 0, "$".to_owned())];
    while let Some((a, b, path)) = pending.pop() {
        if differences.len() == limit {
            break;
        }
        let (left_node, right_node) = (&left.nodes[a], &right.nodes[b]);
        if left_node.digest == right_node.digest {
            continue;
        }
        let (a, b) = (left.resolved(a), right.resolved(b));
        // A place that was compared before, by another way, would only repeat itself.
        if !compared.insert((a, b)) && !left.nodes[a].children.is_empty() {
            continue;
        }
        let before = (pending.len(), differences.len());
        compare_parts(left, right, (a, b), &path, &mut pending, &mut differences);
        if (pending.len(), differences.len()) == before {
            differences.push(Difference {
                path,
                left: Some(left_node.text.clone()),
                right: Some(right_node.text.clone()),
            });
        }
    }
    differences.truncate(limit);
    differences
}

/// Lines the parts of two values up by label.
fn compare_parts(
    left: &Trace,
    right: &Trace,
    (a, b): (usize, usize),
    path: &str,
    pending: &mut Vec<(usize, usize, String)>,
    differences: &mut Vec<Difference>,
) {
    let (left_node, right_node) = (&left.nodes[a], &right.nodes[b]);
    // Values of different kinds are not compared part by part.
    let kind = |node: &Node| node.text.split(" of ").next().map(str::to_owned);
    if left_node.children.is_empty() || right_node.children.is_empty() || kind(left_node) != kind(right_node)
    {
        return;
    }
    let mut there: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for &child in right_node.children.iter().rev() {
        there.entry(&right.nodes[child].label).or_default().push(child);
    }
    let mut pairs = Vec::new();
    for &child in &left_node.children {
        let node = &left.nodes[child];
        let path = format!("{path}{}", node.label);
        match there.get_mut(node.label.as_str()).and_then(Vec::pop) {
            Some(partner) => pairs.push((child, partner, path)),
            None => differences.push(Difference { path, left: Some(node.text.clone()), right: None }),
        }
    }
    let mut left_over: Vec<usize> = there.into_values().flatten().collect();
    left_over.sort_unstable();
    for child in left_over {
        let node = &right.nodes[child];
        differences.push(Difference {
            path: format!("{path}{}", node.label),
            left: None,
            right: Some(node.text.clone()),
        });
    }
    let differing = pairs.into_iter().filter(|(a, b, _)| left.nodes[*a].digest != right.nodes[*b].digest);
    let mut differing: Vec<_> = differing.collect();
    differing.reverse();
    pending.extend(differing);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint;

    /// A trace from lines of label, text and whether it has parts; `)` closes.
    fn trace(lines: &[(&str, &str)]) -> Trace {
        let mut trace = Trace::default();
        let mut digests = Vec::new();
        for (label, text) in lines {
            match *label {
                ")" => {
                    let parts: Vec<String> = digests.pop().unwrap();
                    let digest = fingerprint(&parts);
                    trace.close(Some(digest));
                    if let Some(outer) = digests.last_mut() {
                        outer.push(digest.hex());
                    }
                }
                _ if text.contains(" of ") => {
                    trace.open((*label).to_owned(), (*text).to_owned(), 1000 + trace.nodes.len());
                    digests.push(vec![(*label).to_owned()]);
                }
                _ => {
                    let digest = fingerprint(text);
                    trace.leaf((*label).to_owned(), (*text).to_owned(), digest, None);
                    digests.last_mut().unwrap().extend([(*label).to_owned(), digest.hex()]);
                }
            }
        }
        trace
    }

    fn told(left: &Trace, right: &Trace, limit: usize) -> Vec<String> {
        differences(left, right, limit).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn differences_are_told_by_path() {
        let left = trace(&[
            ("$", "dict of 2"),
            (".a", "1"),
            (".b", "list of 2"),
            ("[0]", "2"),
            ("[1]", "3"),
            (")", ""),
            (")", ""),
        ]);
        let right = trace(&[
            ("$", "dict of 2"),
            (".a", "1"),
            (".b", "list of 2"),
            ("[0]", "2"),
            ("[1]", "4"),
            (")", ""),
            (")", ""),
        ]);
        assert_eq!(told(&left, &right, 10), ["$.b[1]: 3 != 4"]);
        assert_eq!(told(&left, &left, 10), [] as [&str; 0]);
        let other = trace(&[("$", "dict of 2"), (".a", "1"), (".c", "5"), (")", "")]);
        assert_eq!(told(&left, &other, 10), ["$.b: list of 2 only on the left", "$.c: 5 only on the right"]);
        assert_eq!(told(&left, &other, 1).len(), 1);
    }

    #[test]
    fn values_of_other_kinds_are_not_compared_part_by_part() {
        let list = trace(&[("$", "list of 1"), ("[0]", "1"), (")", "")]);
        let tuple = trace(&[("$", "tuple of 1"), ("[0]", "2"), (")", "")]);
        assert_eq!(told(&list, &tuple, 10), ["$: list of 1 != tuple of 1"]);
    }

    #[test]
    fn texts_that_say_too_little_are_told_apart() {
        let make = |content: u32| {
            let mut trace = Trace::default();
            trace.leaf("$".to_owned(), "array".to_owned(), fingerprint(&content), None);
            trace
        };
        assert_eq!(told(&make(1), &make(2), 10), ["$: array on both sides, but of different content"]);
    }

    #[test]
    fn what_was_met_before_is_shown_once() {
        let mut shared = Trace::default();
        shared.open("$".to_owned(), "list of 2".to_owned(), 1);
        shared.open("[0]".to_owned(), "list of 1".to_owned(), 2);
        shared.leaf("[0]".to_owned(), "7".to_owned(), fingerprint(&7), None);
        shared.close(Some(fingerprint("inner")));
        shared.leaf("[1]".to_owned(), "list of 1".to_owned(), fingerprint("inner"), Some(2));
        shared.close(Some(fingerprint("outer")));
        let text = shared.render(0, "$", 8, 200);
        assert_eq!(text.matches("(shared)").count(), 1);
        assert_eq!(text.matches("  7").count(), 1, "{text}");
        assert_eq!(shared.resolved(3), 1);
        assert!(shared.render(0, "$", 0, 200).contains('…'));
        assert!(shared.render(0, "$", 8, 2).ends_with("… and 2 more\n"));
    }
}
