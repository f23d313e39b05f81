//! What checks come to while nothing changes: a few words of memory, compared with what they were.
//!
//! A launch looks at everything that its kernel depends on. Checks lie all over the heap, next to what they need when
//! something did change; the words that tell whether it did lie together, so that a look takes as many cache lines as
//! there are objects to look at. Whoever finds a word changed asks the checks.
//!
//! # Invariants
//!
//! - Words that are what they were prove that the checks they were made of hold. A word that differs proves nothing.
//! - Words are read in order, and the first that differs ends it: where one is only there as long as another is what it
//!   was, it comes later. The first of a list says that its checks are still those that the words were made of.

use pyo3::ffi;
use pyo3::prelude::*;

use super::held::Held;
use super::version::version_word;
use super::{Check, FunctionState, Guards};
use crate::walk::plan::{flags_word, version_tag};

/// Where something is in memory, and what it was: 64 bits, or 32 if the address has its lowest bit set.
#[derive(Clone, Copy)]
pub(super) struct Word {
    at: usize,
    known: u64,
}

/// What tells words of 32 bits.
const HALF: usize = 1;

impl Word {
    /// A word of 64 bits.
    pub(super) fn whole(at: *const u64, known: u64) -> Self {
        Self { at: at as usize, known }
    }

    /// A word of 32 bits.
    fn half(at: *const u32, known: u32) -> Self {
        Self { at: at as usize | HALF, known: known.into() }
    }

    /// A pointer of Python's, and what it was.
    pub(super) fn pointer(at: *const *mut ffi::PyObject, known: *mut ffi::PyObject) -> Self {
        Self::whole(at.cast(), known as u64)
    }

    /// # Safety
    ///
    /// There is a word there.
    #[inline(always)]
    unsafe fn is_same(self) -> bool {
        // SAFETY: as the caller promises.
        unsafe {
            if self.at & HALF == 0 {
                (self.at as *const u64).read() == self.known
            } else {
                u64::from(((self.at & !HALF) as *const u32).read()) == self.known
            }
        }
    }
}

/// The words of several lists of checks, which whoever has this keeps alive.
#[derive(Default)]
pub(crate) struct Words {
    words: Vec<Word>,
    /// Where the words of each list end.
    ends: Vec<usize>,
    /// Lists that have no words, or none that stay the same: they are asked.
    asked: Vec<usize>,
    /// How often the words of each list changed without meaning anything.
    misses: Vec<u8>,
    /// How often something was asked since words were made.
    asks: u32,
}

/// A list whose words changed this often for nothing is asked.
const MOST_MISSES: u8 = 4;

/// After this many questions, words are tried once more.
const MOST_ASKS: u32 = 4096;

/// Longer lists of Python are asked: they have a word for each item.
const LONGEST: usize = 64;

impl Words {
    /// Whether words alone prove that all checks hold.
    #[inline]
    pub(crate) fn are_same(&self) -> bool {
        // SAFETY: a word lies in an object that is alive if the words before it are the same.
        self.asked.is_empty()
            && !self.ends.is_empty()
            && self.words.iter().all(|word| unsafe { word.is_same() })
    }

    /// Whether all checks of the lists that this was made for hold.
    #[inline]
    pub(crate) fn hold(&mut self, py: Python<'_>, lists: &[Py<Guards>]) -> PyResult<bool> {
        // SAFETY: a word lies in an object that is alive if the words before it are the same.
        if self.ends.is_empty() || !self.words.iter().all(|word| unsafe { word.is_same() }) {
            return self.renew(py, lists);
        }
        if self.asked.is_empty() {
            return Ok(true);
        }
        self.ask(py, lists)
    }

    /// Asks the lists that words do not speak for.
    fn ask(&mut self, py: Python<'_>, lists: &[Py<Guards>]) -> PyResult<bool> {
        for at in &self.asked {
            if !lists[*at].get().hold(py)? {
                return Ok(false);
            }
        }
        self.asks += 1;
        if self.asks >= MOST_ASKS && self.misses.contains(&MOST_MISSES) {
            self.misses.iter_mut().for_each(|misses| *misses = (*misses).min(MOST_MISSES - 1));
            self.make(py, lists);
        }
        Ok(true)
    }

    /// Asks all lists, and makes words of those that hold.
    #[cold]
    fn renew(&mut self, py: Python<'_>, lists: &[Py<Guards>]) -> PyResult<bool> {
        self.misses.resize(lists.len(), 0);
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        // Words behind one that has changed may be gone.
        let changed = begins.zip(&self.ends).position(|(begin, end)| {
            // SAFETY: as above.
            !self.words[begin..*end].iter().all(|word| unsafe { word.is_same() })
        });
        for list in lists {
            if !list.get().hold(py)? {
                return Ok(false);
            }
        }
        if let Some(at) = changed {
            self.misses[at] = (self.misses[at] + 1).min(MOST_MISSES);
        }
        self.make(py, lists);
        Ok(true)
    }

    fn make(&mut self, py: Python<'_>, lists: &[Py<Guards>]) {
        self.words.clear();
        self.ends.clear();
        self.asked.clear();
        self.asks = 0;
        for (at, list) in lists.iter().enumerate() {
            let begin = self.words.len();
            if self.misses[at] >= MOST_MISSES || !list.get().words(py, &mut self.words) {
                self.words.truncate(begin);
                self.asked.push(at);
            }
            self.ends.push(self.words.len());
        }
    }
}

impl Held {
    /// Adds the words that say that the object is still there.
    fn add_words(&self, words: &mut Vec<Word>) {
        if let Some((at, known)) = self.alive() {
            words.push(Word::pointer(at, known));
        }
    }

    /// Adds the words that say that what lies somewhere is the object; nothing: that nothing lies there.
    fn add_words_at(known: Option<&Self>, at: *const *mut ffi::PyObject, words: &mut Vec<Word>) {
        words.push(Word::pointer(at, known.map_or(std::ptr::null_mut(), Held::address)));
        if let Some(known) = known {
            known.add_words(words);
        }
    }
}

impl Check {
    /// Adds words that prove that this holds; false if there are none.
    pub(super) fn add_words(&self, words: &mut Vec<Word>) -> bool {
        match self {
            Self::Names { dict, version, .. } => add_version(dict.as_ptr(), *version, words),
            Self::Dict { dict, version, .. } => add_version(dict.as_ptr(), *version, words),
            Self::Function(state) => state.add_words(words),
            Self::Cell { function, at, content } => {
                function.add_words(words);
                let Some(function) = function.pointer() else { return false };
                // SAFETY: a live function, whose closure is null or a tuple of cells, for good.
                unsafe {
                    let closure = (*function.cast::<ffi::PyFunctionObject>()).func_closure;
                    if closure.is_null() || *at as isize >= ffi::PyTuple_GET_SIZE(closure) {
                        return false;
                    }
                    let cell = ffi::PyTuple_GET_ITEM(closure, *at as isize).cast::<ffi::PyCellObject>();
                    Held::add_words_at(content.as_ref(), &raw const (*cell).ob_ref, words);
                }
                true
            }
            Self::Type { class, version } => {
                let class = class.as_ptr().cast();
                // Before 3.13 a flag says whether the version is one.
                if let Some((at, flags)) = flags_word(class) {
                    words.push(Word::whole(at, flags));
                }
                words.push(Word::half(version_tag(class), *version));
                *version != 0
            }
            Self::List { list, items } => {
                if items.len() > LONGEST {
                    return false;
                }
                // SAFETY: an exact list, which is owned. Its items lie where it says, as long as it says so and has as
                // many.
                unsafe {
                    let list = list.as_ptr().cast::<ffi::PyListObject>();
                    if (*list).ob_base.ob_size != items.len() as isize {
                        return false;
                    }
                    let size = &raw const (*list).ob_base.ob_size;
                    words.push(Word::whole(size.cast(), items.len() as u64));
                    let first = (*list).ob_item;
                    words.push(Word::whole((&raw const (*list).ob_item).cast(), first as u64));
                    for (at, item) in items.iter().enumerate() {
                        Held::add_words_at(Some(item), first.add(at), words);
                    }
                }
                true
            }
            Self::Set { .. } | Self::Array(_) | Self::Members { .. } => false,
        }
    }
}

/// A dict is what it was while it has the same version.
fn add_version(dict: *mut ffi::PyObject, version: u64, words: &mut Vec<Word>) -> bool {
    match version_word(dict) {
        Some(at) if version != 0 => {
            words.push(Word::whole(at, version));
            true
        }
        _ => false,
    }
}

impl FunctionState {
    fn add_words(&self, words: &mut Vec<Word>) -> bool {
        self.function.add_words(words);
        let Some(function) = self.function.pointer() else { return false };
        // SAFETY: a live function; dicts that it has are exact, and alive while it has them.
        unsafe {
            let head = function.cast::<ffi::PyFunctionObject>();
            let parts = [
                &raw const (*head).func_code,
                &raw const (*head).func_defaults,
                &raw const (*head).func_kwdefaults,
            ];
            let own = |held: &Option<Held>| held.as_ref().map_or(std::ptr::null_mut(), Held::owned);
            for (held, at) in self.parts.iter().zip(parts) {
                words.push(Word::pointer(at, own(held)));
            }
            let dicts = [&raw const (*head).func_annotations, &raw const (*head).func_dict];
            for (held, at) in self.dicts.iter().zip(dicts) {
                let now = *at;
                words.push(Word::pointer(at, if held.is_some() { own(held) } else { now }));
                if held.is_none() && !now.is_null() {
                    // An empty one: whether it stays empty.
                    if ffi::PyDict_CheckExact(now) == 0 {
                        return false;
                    }
                    let class = &raw const (*now).ob_type;
                    words.push(Word::whole(class.cast(), (&raw const ffi::PyDict_Type) as u64));
                    words
                        .push(Word::whole((&raw const (*now.cast::<ffi::PyDictObject>()).ma_used).cast(), 0));
                }
            }
        }
        true
    }
}
