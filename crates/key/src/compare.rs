//! [`Comparison`]: what changed from one manifest to another, in words.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use crate::builder::is_always;
use crate::component::{Component, Part};
use crate::manifest::Manifest;

/// At most this many changes inside one component are told.
const MOST_TOLD: usize = 8;

/// One difference. `Display` says it in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The component, and the path inside its value where that is known: `input.tiles['x']`.
    pub place: String,
    /// What was there before; nothing if it is new.
    pub before: Option<String>,
    /// What is there now; nothing if it is gone.
    pub after: Option<String>,
    /// Whether the value must not be shown.
    pub secret: bool,
}

/// What changed from one manifest to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// How many components differ, are new, or are gone.
    pub components: usize,
    /// What changed.
    pub changes: Vec<Change>,
    /// How many changes inside components are not told.
    pub untold: usize,
}

impl Comparison {
    pub(crate) fn between(before: &Manifest, after: &Manifest) -> Self {
        let known: HashMap<&str, &Component> = by_name(before);
        let now: HashMap<&str, &Component> = by_name(after);
        let mut compared = Self { components: 0, changes: Vec::new(), untold: 0 };
        for new in after.components() {
            match known.get(new.name()) {
                Some(old) if old.digest() == new.digest() => {}
                Some(old) => compared.changed(old, new),
                None => compared.one_sided(None, Some(new)),
            }
        }
        for old in before.components() {
            if !now.contains_key(old.name()) {
                compared.one_sided(Some(old), None);
            }
        }
        compared
    }

    /// Whether nothing that counts changed: the keys are equal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.components == 0
    }

    fn changed(&mut self, old: &Component, new: &Component) {
        self.components += 1;
        let secret = old.is_secret() || new.is_secret();
        let mut inside = if secret { Vec::new() } else { inside(old, new) };
        self.untold += inside.len().saturating_sub(MOST_TOLD);
        inside.truncate(MOST_TOLD);
        if inside.is_empty() {
            let (before, after) = (Some(old.shown()), Some(new.shown()));
            self.changes.push(Change { place: new.name().to_owned(), before, after, secret });
        }
        self.changes.extend(inside);
    }

    fn one_sided(&mut self, old: Option<&Component>, new: Option<&Component>) {
        self.components += 1;
        let component = old.or(new).expect("one of them is there");
        self.changes.push(Change {
            place: component.name().to_owned(),
            before: old.map(Component::shown),
            after: new.map(Component::shown),
            secret: component.is_secret(),
        });
    }
}

fn by_name(manifest: &Manifest) -> HashMap<&str, &Component> {
    manifest.components().iter().map(|component| (component.name(), component)).collect()
}

/// Which parts of a component changed. A part whose own parts are listed is left to them.
fn inside(old: &Component, new: &Component) -> Vec<Change> {
    let before: HashMap<&str, &Part> = old.parts.iter().map(|part| (&*part.path, part)).collect();
    let after: HashMap<&str, &Part> = new.parts.iter().map(|part| (&*part.path, part)).collect();
    // Where some parts are left out, one that is missing need not be gone.
    let partial = old.cut || new.cut;
    let mut changes = Vec::new();
    let mut tell = |path: &str, before: Option<&Part>, after: Option<&Part>| {
        let text = |part: Option<&Part>| part.map(|part| part.summary.clone());
        let place = format!("{}{path}", new.name());
        changes.push(Change { place, before: text(before), after: text(after), secret: false });
    };
    for part in &new.parts {
        match before.get(&*part.path) {
            Some(old) if old.digest == part.digest => {}
            Some(old) => tell(&part.path, Some(old), Some(part)),
            None if partial => {}
            None => tell(&part.path, None, Some(part)),
        }
    }
    for part in &old.parts {
        if !after.contains_key(&*part.path) && !partial {
            tell(&part.path, Some(part), None);
        }
    }
    // `input.tiles` changed because `input.tiles['x']` did: only the latter says something.
    let places: Vec<String> = changes.iter().map(|change| change.place.clone()).collect();
    changes.retain(|change| {
        !places.iter().any(|other| {
            other.len() > change.place.len()
                && other.starts_with(&change.place)
                && other[change.place.len()..].starts_with(['.', '['])
        })
    });
    changes
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        match (&self.before, &self.after) {
            (Some(_), Some(_)) if self.secret => write!(f, "`{place}`: changed (the value is not shown)"),
            (Some(before), Some(after)) if before == after => {
                write!(f, "`{place}`: changed ({after})")
            }
            (Some(before), Some(after)) if is_always(place) => {
                let text = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
                write!(f, "`{place}`: {} -> {}", text(before), text(after))
            }
            (Some(before), Some(after)) => write!(f, "`{place}`: {before} -> {after}"),
            (None, Some(after)) => write!(f, "`{place}`: new, {after}"),
            (Some(before), None) => write!(f, "`{place}`: gone, was {before}"),
            (None, None) => write!(f, "`{place}`"),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            writeln!(f, "{change}")?;
        }
        if self.untold > 0 {
            writeln!(f, "… and {} more", self.untold)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyBuilder, Tool};
    use keyprint_fingerprint::fingerprint;

    fn manifest(tool: &str, salt: &str, components: Vec<Component>) -> Manifest {
        let mut key = KeyBuilder::new("k", Tool::new("t", tool), Some(salt));
        for component in components {
            key.add(component).unwrap();
        }
        key.finish()
    }

    fn shown(name: &str, value: &str) -> Component {
        Component::new(name, fingerprint(value)).summary(value)
    }

    fn part(path: &str, value: &str) -> Part {
        Part { path: path.into(), digest: fingerprint(value), summary: value.into() }
    }

    #[track_caller]
    fn check(before: &Manifest, after: &Manifest, words: &str) {
        let compared = before.compare(after);
        assert_eq!(compared.to_string(), words);
        assert_eq!(compared.is_empty(), before.key() == after.key(), "words are about keys");
    }

    #[test]
    fn nothing_changed() {
        check(&manifest("1", "", vec![shown("a", "x")]), &manifest("1", "", vec![shown("a", "x")]), "");
    }

    #[test]
    fn values_appear_change_and_go() {
        check(
            &manifest("1", "", vec![shown("a", "x"), shown("gone", "g")]),
            &manifest("2", "s", vec![shown("a", "y"), shown("new", "n")]),
            "`salt`: none -> s\n`tool`: t 1 -> t 2\n`a`: x -> y\n`new`: new, n\n`gone`: gone, was g\n",
        );
    }

    #[test]
    fn secrets_and_long_values() {
        let secret = |value: &str| Component::secret("env TOKEN", fingerprint(value));
        check(
            &manifest("1", "", vec![secret("a")]),
            &manifest("1", "", vec![secret("b")]),
            "`env TOKEN`: changed (the value is not shown)\n",
        );
        let long = |end: &str| Component::new("text", fingerprint(end)).summary("abc …");
        check(
            &manifest("1", "", vec![long("x")]),
            &manifest("1", "", vec![long("y")]),
            "`text`: changed (abc …)\n",
        );
    }

    #[test]
    fn what_was_left_out_is_not_gone() {
        let whole = (0..64).map(|i| part(&format!("[{i}]"), &i.to_string()));
        let whole = Component::new("input", fingerprint(&64)).summary("list of 64").parts(whole);
        let cut = Component::new("input", fingerprint(&65)).summary("list of 65").cut();
        check(
            &manifest("1", "", vec![whole]),
            &manifest("1", "", vec![cut]),
            "`input`: list of 64 -> list of 65\n",
        );
        let most = (0..70).map(|i| part(&format!("[{i}]"), &i.to_string()));
        assert!(Component::new("input", fingerprint(&70)).parts(most).cut, "more than are kept");
    }

    #[test]
    fn many_changes_are_counted() {
        let many = |value: &str| {
            let parts = (0..20).map(|i| part(&format!("[{i}]"), &format!("{value}{i}")));
            Component::new("input", fingerprint(value)).summary("list").parts(parts)
        };
        let told =
            manifest("1", "", vec![many("a")]).compare(&manifest("1", "", vec![many("b")])).to_string();
        assert!(told.starts_with("`input[0]`: a0 -> b0\n") && told.ends_with("… and 12 more\n"), "{told}");
    }

    #[test]
    fn the_innermost_place_is_told() {
        let input = |tile: &str, extra: bool| {
            let whole = format!("tiles {tile}{extra}");
            let mut parts = vec![
                part(".tiles", &whole),
                part(".tiles['x']", tile),
                part(".tilesize", "1"),
                part(".y", "8"),
            ];
            if extra {
                parts.push(part(".flags[0]", "-g"));
            }
            Component::new("input", fingerprint(&whole)).summary("Program").parts(parts)
        };
        check(
            &manifest("1", "", vec![input("64", false)]),
            &manifest("1", "", vec![input("128", true)]),
            "`input.tiles['x']`: 64 -> 128\n`input.flags[0]`: new, -g\n",
        );
    }
}
