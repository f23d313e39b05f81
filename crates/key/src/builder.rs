//! [`KeyBuilder`]: collecting the components of a key.

use keyprint_fingerprint::fingerprint;
use thiserror::Error;

use crate::component::Component;
use crate::key::{KEY_FORMAT_VERSION, Key};
use crate::manifest::Manifest;

/// The components that every key has.
const ALWAYS: [&str; 4] = ["format", "salt", "tool", "name"];

/// Names of components are no longer than this, in bytes.
const MOST_IN_NAME: usize = 1024;

/// Who asks for an artifact. A language built on Keyprint states its own name and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    name: String,
    version: String,
}

impl Tool {
    /// A tool by name and version.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into() }
    }

    /// Keyprint itself.
    #[must_use]
    pub fn keyprint() -> Self {
        Self::new("keyprint", env!("CARGO_PKG_VERSION"))
    }
}

/// Why a component cannot be added.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum KeyError {
    /// The name is taken.
    #[error("a key has one component of each name, found a second `{0}`")]
    Duplicate(String),
    /// The name is not one.
    #[error("the name of a component has 1 to {MOST_IN_NAME} bytes, found {0}")]
    Name(usize),
}

/// Collects components. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct KeyBuilder {
    name: String,
    components: Vec<Component>,
}

impl KeyBuilder {
    /// Starts a key for something that goes by a name: a step, a kernel. The name counts, so that two
    /// things that are made of the same input do not share an entry.
    ///
    /// `salt` is what the environment adds to every key (`KEYPRINT_CACHE_VERSION`); none and an
    /// empty one are the same.
    #[must_use]
    pub fn new(name: impl AsRef<str>, tool: Tool, salt: Option<&str>) -> Self {
        let salt = salt.unwrap_or_default();
        let name = name.as_ref();
        let components = vec![
            Component::new("format", fingerprint(&KEY_FORMAT_VERSION))
                .summary(KEY_FORMAT_VERSION.to_string()),
            Component::new("salt", fingerprint(salt)).summary(salt),
            Component::new("tool", fingerprint(&(&*tool.name, &*tool.version)))
                .summary(format!("{} {}", tool.name, tool.version)),
            Component::new("name", fingerprint(name)).summary(name),
        ];
        Self { name: crate::summary::shorten(name, crate::summary::MOST_CHARACTERS), components }
    }

    /// Adds a component.
    ///
    /// # Errors
    ///
    /// If the name is empty, too long, or taken; `format`, `salt`, `tool` and `name` are.
    pub fn add(&mut self, component: Component) -> Result<(), KeyError> {
        let name = component.name();
        if name.is_empty() || name.len() > MOST_IN_NAME {
            return Err(KeyError::Name(name.len()));
        }
        if self.components.iter().any(|known| known.name() == name) {
            return Err(KeyError::Duplicate(name.to_owned()));
        }
        self.components.push(component);
        Ok(())
    }

    /// The key of what was added so far.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::root(self.components.iter().map(|component| (component.name(), component.digest())))
    }

    /// The key and all that went into it.
    #[must_use]
    pub fn finish(self) -> Manifest {
        Manifest::new(self.name, self.components)
    }
}

/// Whether a component is one that every key has.
pub(crate) fn is_always(name: &str) -> bool {
    ALWAYS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tool: Tool, salt: Option<&str>, parts: &[(&str, &str)]) -> Key {
        let mut key = KeyBuilder::new("k", tool, salt);
        for (name, value) in parts {
            key.add(Component::new(*name, fingerprint(*value))).unwrap();
        }
        key.key()
    }

    #[test]
    fn every_input_counts() {
        let plain = key(Tool::new("t", "1"), None, &[("a", "x"), ("b", "y")]);
        assert_ne!(plain, key(Tool::new("t", "2"), None, &[("a", "x"), ("b", "y")]), "tool version");
        assert_ne!(plain, key(Tool::new("u", "1"), None, &[("a", "x"), ("b", "y")]), "tool name");
        assert_ne!(plain, key(Tool::new("t", "1"), Some("s"), &[("a", "x"), ("b", "y")]), "salt");
        assert_ne!(plain, key(Tool::new("t", "1"), None, &[("a", "z"), ("b", "y")]), "value");
        assert_ne!(plain, key(Tool::new("t", "1"), None, &[("c", "x"), ("b", "y")]), "name");
        assert_ne!(plain, key(Tool::new("t", "1"), None, &[("a", "y"), ("b", "x")]), "pairing");
        assert_ne!(plain, key(Tool::new("t", "1"), None, &[("a", "x")]), "number");
        let mut named = KeyBuilder::new("another name", Tool::new("t", "1"), None);
        named.add(Component::new("a", fingerprint("x"))).unwrap();
        named.add(Component::new("b", fingerprint("y"))).unwrap();
        assert_ne!(plain, named.key(), "the name of the key");
    }

    #[test]
    fn what_does_not_matter_does_not_count() {
        let plain = key(Tool::new("t", "1"), None, &[("a", "x"), ("b", "y")]);
        assert_eq!(plain, key(Tool::new("t", "1"), None, &[("b", "y"), ("a", "x")]), "order");
        assert_eq!(plain, key(Tool::new("t", "1"), Some(""), &[("a", "x"), ("b", "y")]), "an empty salt");
        let mut shown = KeyBuilder::new("k", Tool::new("t", "1"), None);
        shown.add(Component::new("a", fingerprint("x")).summary("shown")).unwrap();
        shown.add(Component::secret("b", fingerprint("y"))).unwrap();
        assert_eq!(plain, shown.key(), "summaries");
    }

    #[test]
    fn tools_do_not_run_into_each_other() {
        assert_ne!(key(Tool::new("a b", "1"), None, &[]), key(Tool::new("a", "b 1"), None, &[]));
    }

    #[test]
    fn a_key_is_no_fingerprint_of_its_components() {
        let digest = fingerprint("x");
        let key = Key::root([("a", &digest)].into_iter());
        assert_ne!(key.as_bytes(), fingerprint(&vec![("a", "x")]).as_bytes());
    }

    #[test]
    fn names_are_checked() {
        let mut key = KeyBuilder::new("k", Tool::keyprint(), None);
        assert_eq!(key.add(Component::new("", fingerprint("x"))), Err(KeyError::Name(0)));
        assert_eq!(key.add(Component::new("n".repeat(1025), fingerprint("x"))), Err(KeyError::Name(1025)));
        assert_eq!(
            key.add(Component::new("salt", fingerprint("x"))),
            Err(KeyError::Duplicate("salt".into()))
        );
    }
}
