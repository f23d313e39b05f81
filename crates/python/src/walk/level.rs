//! One level of a value: what it is by itself, and its children; or its item, made of the items of its children.
//!
//! Both take the ordinary way through the walk, which stops at the children: it takes note of each, or writes what
//! stands for it. So there is one set of rules, for those who walk natively and for those who take values apart.

use pyo3::prelude::*;

use super::frame::Source;
use super::plan::{Plans, Rule};
use super::{Walk, Want, walk_with};
use crate::config::Config;
use crate::failure::{Failure, Walked};
use keyprint_fingerprint::Fingerprint;

/// What happens to the children of the value.
pub(crate) enum Level<'py> {
    /// They are collected, in the order in which they are met.
    Collect(Vec<Event<'py>>),
    /// They are written as these items.
    Given(std::vec::IntoIter<Vec<u8>>),
}

/// What is met in one level of a value.
pub(crate) enum Event<'py> {
    /// A group of children begins. `pairs` says that they are keys and values.
    Open { ordered: bool, pairs: bool },
    /// A child, with its name if it is a field.
    Child(Bound<'py, PyAny>, Option<String>),
    /// The group that was begun last ends.
    Close,
}

impl<'py> Walk<'_, 'py> {
    /// Takes note of a child, or writes what stands for it.
    pub(super) fn stop_at(&mut self, child: Bound<'py, PyAny>) -> Walked<()> {
        let name = self.frames.last().and_then(|frame| match &frame.source {
            Source::Fields(known) => match &known.plan.rule {
                // The place was counted on before the field was read.
                Rule::Fields { layout, .. } => layout.names.get(frame.at - 1).cloned(),
                _ => None,
            },
            _ => None,
        });
        match &mut self.level {
            Some(Level::Collect(events)) => {
                events.push(Event::Child(child, name));
                self.stream.absent();
            }
            Some(Level::Given(items)) => match items.next() {
                Some(item) => self.stream.replay(&item),
                None => {
                    return Err(Failure::refuse("changed", "the value has more parts than it had before"));
                }
            },
            None => unreachable!("asked only where levels are"),
        }
        Ok(())
    }
}

/// What a value is by itself, its children left out, and what is met in it.
pub(crate) fn level<'py>(
    config: &Config,
    plans: &Plans,
    value: &Bound<'py, PyAny>,
) -> PyResult<(Fingerprint, Vec<Event<'py>>)> {
    let (outcome, level, _) =
        walk_with(config, plans, value, Want::Digest, Some(Level::Collect(Vec::new())))?;
    let Some(Level::Collect(events)) = level else { unreachable!("given above") };
    Ok((outcome.digest, events))
}

/// The item of a value whose children have these items, as it stands in its parent; and its fingerprint.
pub(crate) fn assemble(
    config: &Config,
    plans: &Plans,
    value: &Bound<'_, PyAny>,
    items: Vec<Vec<u8>>,
) -> PyResult<(Vec<u8>, Fingerprint)> {
    let given = Some(Level::Given(items.into_iter()));
    let (outcome, _, item) = walk_with(config, plans, value, Want::Digest, given)?;
    Ok((item, outcome.digest))
}
