//! What belongs to one process: a forked child has none of the threads that its parent's locks and waits
//! belong to, and gets its own.

use std::sync::OnceLock;

/// A value for each process that a program forks into.
///
/// Nothing is locked to find it, so that a process can be forked at any moment.
///
/// ```
/// use keyprint_store::PerProcess;
///
/// let values = PerProcess::new(vec![1]);
/// assert_eq!(values.get(|| unreachable!("this process has one")), &[1]);
/// ```
pub struct PerProcess<T> {
    first: Node<T>,
}

/// The value of a process, and what children of it have.
struct Node<T> {
    process: u32,
    /// There until the end.
    value: Option<T>,
    child: OnceLock<Box<Node<T>>>,
}

impl<T> Node<T> {
    fn new(value: T) -> Self {
        Self { process: std::process::id(), value: Some(value), child: OnceLock::new() }
    }

    fn value(&self) -> &T {
        self.value.as_ref().expect("there until the end")
    }
}

impl<T> PerProcess<T> {
    /// Begins with the value of this process.
    pub fn new(value: T) -> Self {
        Self { first: Node::new(value) }
    }

    /// The value of this process; one that has none yet makes it.
    pub fn get(&self, make: impl FnOnce() -> T) -> &T {
        self.get_with(|_| make())
    }

    /// The value of this process; one that has none yet makes it, and may look at that of its parent.
    pub fn get_with(&self, make: impl FnOnce(&T) -> T) -> &T {
        let process = std::process::id();
        let mut node = &self.first;
        let mut make = Some(make);
        while node.process != process {
            node = node.child.get_or_init(|| {
                let make = make.take().expect("only the last of the line has no child");
                Box::new(Node::new(make(node.value())))
            });
        }
        node.value()
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let process = std::process::id();
        let mut node = Some(&mut self.first);
        while let Some(current) = node {
            if current.process != process {
                // What is the parent's is left as it was: a lock in it may never be released.
                std::mem::forget(current.value.take());
            }
            node = current.child.get_mut().map(|child| &mut **child);
        }
    }
}
