//! The walk over a Python value: an explicit stack, no recursion.
//!
//! [`Walk`] turns a value into canonical items (`docs/encoding.md`). It is one loop over a stack of
//! [`Frame`]s: take the next child of the top frame; write it if it is a leaf; otherwise look it up
//! in the memo, and open a frame for it if it is new.
//!
//! | module | what it knows |
//! | --- | --- |
//! | [`builtin`] | reading builtin values without running Python code |
//! | [`layout`](crate::layout) | where instances keep their attributes |
//! | [`classify`], [`fields`], [`plan`] | how the instances of a type are read, found out once |
//! | [`open`] | starting an object: from plan to frame |
//! | [`advance`] | going on with it: the next child, by where it comes from |
//! | [`reference`], [`structure`] | names, and what stands in where there is none |
//! | [`reduce`] | objects that only `__reduce_ex__` describes |
//! | [`array`], [`element`] | arrays |
//! | [`identity`] | objects that count as themselves |
//!
//! # Invariants
//!
//! - Any Python code may run while a child is read (reductions, rules, properties, signal handlers).
//!   No borrowed pointer lives across that: frames own what they read, and containers are checked
//!   for change at every step.
//! - An object is remembered if anything but its container may refer to it, which its reference
//!   count tells. Objects that Python code hands out may refer to anything, so from the first such
//!   one on, every open object is findable.

mod advance;
pub(crate) mod array;
pub(crate) mod builtin;
pub(crate) mod classify;
mod element;
mod fields;
mod frame;
mod identity;
pub(crate) mod level;
mod open;
pub(crate) mod plan;
mod reduce;
mod reference;
mod structure;

use std::sync::Arc;

use keyprint_fingerprint::memo::{Memo, Seen, Ties};
use keyprint_fingerprint::tag;
use keyprint_fingerprint::trace::Trace;
use keyprint_fingerprint::{Fingerprint, Mark, Stream};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use rustc_hash::FxHashMap;
use typed_arena::Arena;

pub(crate) use self::frame::short_repr;
use self::frame::{Frame, Item, Opening, Source, Standing};
use self::level::{Event, Level};
use self::plan::{Class, Plan, Plans, Rule};
use crate::config::Config;
use crate::failure::{Failure, Walked};
use crate::interned::intern;

/// Steps between two looks at pending signals.
const STEPS_PER_CHECK: u32 = 8192;

/// A value whose cycles make the walk repeat itself more often than this is refused.
const MOST_REPEATS: usize = 250_000;

/// Bytes of one open item that are kept before they are hashed.
const MOST_BUFFERED: usize = 4 << 20;

/// Types that are found again without a look at the table. A power of two.
const RECENT: usize = 32;

/// A type as this walk has found it.
pub(crate) struct Known<'py> {
    pub(crate) plan: Arc<Plan>,
    /// Keeps the type, and so its address, from being used again.
    pub(crate) class: Bound<'py, PyType>,
    /// Whether the class can be found under its name.
    pub(crate) importable: bool,
    /// Whether the program has registered a reducer for it since the plan was made.
    pub(crate) reducer: bool,
}

impl Known<'_> {
    /// What to say about a class that cannot be found under its name.
    fn unnamed(&self) -> Failure {
        let Class { module, qualname } = &self.plan.class;
        reference::not_importable(tag::Referent::Class, module, qualname)
    }

    /// Fails unless the class can be found under its name.
    fn require_name(&self) -> Walked<()> {
        if self.importable { Ok(()) } else { Err(self.unnamed()) }
    }
}

/// An object, what is known of its type, and how many references to it are not the walk's own.
type Pending<'a, 'py> = (Bound<'py, PyAny>, &'a Known<'py>, isize);

/// A remembered item: where its bytes are.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
}

/// What a walk found.
pub(crate) struct Outcome {
    pub(crate) digest: Fingerprint,
    pub(crate) durable: bool,
    /// Composite objects that were read.
    pub(crate) opened: usize,
    /// Composite objects that were met again and not read again.
    pub(crate) reused: usize,
    pub(crate) trace: Option<Trace>,
    /// The classes of the objects that were read, the commonest builtins aside; if asked for.
    pub(crate) classes: Vec<Py<PyType>>,
    /// Objects with parts to which there are several references, each as often as it was met, by address; and
    /// whether a program tells them apart by comparing them. If classes were asked for.
    pub(crate) met: Vec<(usize, bool)>,
}

/// What is wanted besides the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Digest,
    Trace,
    Classes,
}

pub(crate) struct Walk<'a, 'py> {
    py: Python<'py>,
    config: &'a Config,
    plans: &'a Plans,
    /// What `known` refers to.
    arena: &'a Arena<Known<'py>>,
    stream: Stream,
    /// Where the children of open unordered items begin.
    entries: Vec<Mark>,
    frames: Vec<Frame<'a, 'py>>,
    memo: Memo<usize, Span>,
    /// The bytes of remembered items.
    remembered: Vec<u8>,
    /// Remembered objects, kept so that their addresses are not used again.
    kept: Vec<Bound<'py, PyAny>>,
    known: FxHashMap<usize, &'a Known<'py>>,
    /// The types met most recently, by a few bits of their addresses.
    recent: [Option<&'a Known<'py>>; RECENT],
    /// The first child of the top frame that has parts, found while the frame was opened. It waits
    /// here for the loop: opening it at once would recurse.
    pending: Option<Pending<'a, 'py>>,
    /// Depths of open objects that are not tracked, once Python code may refer to them.
    shadow: Option<FxHashMap<usize, usize>>,
    scratch: Vec<u8>,
    durable: bool,
    opened: usize,
    reused: usize,
    endless: usize,
    /// Open objects that Python code handed out. One of them may have been walked before, inside a
    /// result with cycles, without being tracked: such results are not reused meanwhile.
    handed: usize,
    steps: u32,
    trace: Option<Trace>,
    /// Whether exact builtin leaves can be written without a plan.
    direct: bool,
    /// Objects that were met, if that is asked for.
    met: Option<Vec<(usize, bool)>>,
    /// Where the walk stops at the children of the value: what happens to them.
    level: Option<Level<'py>>,
}

/// Whether `==` asks instances of a class for their identity.
fn compares_by_identity(class: &Bound<'_, PyType>) -> PyResult<bool> {
    // SAFETY: the flags of a live type.
    if unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) } & ffi::Py_TPFLAGS_HEAPTYPE == 0 {
        return Ok(false);
    }
    let name = intern!(class.py(), "__eq__");
    let plain = class.py().get_type::<PyAny>().getattr(name)?;
    Ok(class.getattr_opt(name)?.is_some_and(|method| method.is(&plain)))
}

/// Walks a value.
pub(crate) fn walk<'py>(
    config: &Config,
    plans: &Plans,
    value: &Bound<'py, PyAny>,
    want: Want,
) -> PyResult<Outcome> {
    walk_with(config, plans, value, want, None).map(|(outcome, _, _)| outcome)
}

/// Walks a value, or one level of it; also returns that, and the item that was written.
fn walk_with<'py>(
    config: &Config,
    plans: &Plans,
    value: &Bound<'py, PyAny>,
    want: Want,
    level: Option<Level<'py>>,
) -> PyResult<(Outcome, Option<Level<'py>>, Vec<u8>)> {
    let trace = want == Want::Trace;
    let arena = Arena::new();
    let mut walk = Walk {
        py: value.py(),
        config,
        plans,
        arena: &arena,
        stream: Stream::new(),
        entries: Vec::new(),
        frames: Vec::new(),
        memo: Memo::new(),
        remembered: Vec::new(),
        kept: Vec::new(),
        known: FxHashMap::default(),
        recent: [const { None }; RECENT],
        pending: None,
        shadow: None,
        scratch: Vec::new(),
        durable: true,
        opened: 0,
        reused: 0,
        endless: 0,
        handed: 0,
        steps: STEPS_PER_CHECK,
        trace: trace.then(Trace::default),
        met: (want == Want::Classes).then(Vec::new),
        direct: !config.overrides_builtins && !trace && level.is_none(),
        level,
    };
    match walk.run(value) {
        Ok(()) => {
            let item = if walk.level.is_some() { walk.stream.bytes().to_vec() } else { Vec::new() };
            let outcome = Outcome {
                digest: walk.stream.finish(),
                durable: walk.durable,
                opened: walk.opened,
                reused: walk.reused,
                trace: walk.trace,
                classes: match want {
                    Want::Classes => walk.known.values().map(|known| known.class.clone().unbind()).collect(),
                    _ => Vec::new(),
                },
                met: walk.met.unwrap_or_default(),
            };
            Ok((outcome, walk.level, item))
        }
        Err(failure) => {
            let path = walk.path();
            Err(failure.into_exception(value.py(), &path))
        }
    }
}

impl<'a, 'py> Walk<'a, 'py> {
    fn run(&mut self, value: &Bound<'py, PyAny>) -> Walked<()> {
        if !self.config.overrides.is_empty() {
            let token =
                self.py.import(intern!(self.py, "abc"))?.call_method0(intern!(self.py, "get_cache_token"))?;
            self.plans.refresh(token.extract()?);
        }
        self.visit(value.as_borrowed(), 0)?;
        while !self.frames.is_empty() {
            if self.steps == 0 {
                self.py.check_signals()?;
                self.steps = STEPS_PER_CHECK;
            }
            self.steps -= 1;
            match self.pending.take() {
                Some((value, known, others)) => self.visit_composite(value, known, others)?,
                None => self.advance()?,
            }
        }
        Ok(())
    }

    /// Where the walk is inside the value.
    fn path(&self) -> String {
        const MOST: usize = 24;
        let labels: Vec<String> = if self.frames.len() <= 2 * MOST {
            self.frames.iter().map(Frame::child_label).collect()
        } else {
            let (head, tail) = (&self.frames[..MOST], &self.frames[self.frames.len() - MOST..]);
            let between = format!("…({} levels)…", self.frames.len() - 2 * MOST);
            let head = head.iter().map(Frame::child_label);
            head.chain([between]).chain(tail.iter().map(Frame::child_label)).collect()
        };
        format!("${}", labels.concat())
    }

    fn top(&mut self) -> &mut Frame<'a, 'py> {
        self.frames.last_mut().expect("the walk is not over")
    }

    fn absent(&mut self) {
        self.stream.absent();
        self.trace_leaf("absent");
    }

    /// Writes a value of the commonest exact types; false if it is anything else.
    #[inline(always)]
    fn write_direct(&mut self, value: Borrowed<'_, 'py, PyAny>) -> bool {
        // SAFETY: a live object has a type.
        let class = unsafe { ffi::Py_TYPE(value.as_ptr()) };
        if class == &raw mut ffi::PyUnicode_Type {
            builtin::write_str(&mut self.stream, &mut self.scratch, value);
        } else if class == &raw mut ffi::PyLong_Type {
            // A larger one is left to code that may run Python.
            return builtin::write_small_int(&mut self.stream, value).is_ok();
        } else if class == &raw mut ffi::PyFloat_Type {
            builtin::write_float(&mut self.stream, value);
        } else if value.is_none() {
            self.stream.none();
        } else if class == &raw mut ffi::PyBool_Type {
            // SAFETY: the address of a static object.
            self.stream.bool(value.as_ptr() == unsafe { ffi::Py_True() });
        } else {
            return false;
        }
        true
    }

    /// Takes a key of a mapping: like a value, but an explanation shows it in its value's label.
    fn visit_key(&mut self, key: &Bound<'py, PyAny>) -> Walked<()> {
        let (mark, depth) = (self.stream.mark(), self.frames.len());
        self.visit(key.as_borrowed(), 2)?;
        if let Some(trace) = &mut self.trace
            && self.frames.len() == depth
        {
            trace.key_is_leaf(self.stream.digest_from(mark));
        }
        Ok(())
    }

    /// Takes a value: writes it, or opens a frame for it. `held` references to it are the walk's own.
    #[inline]
    fn visit(&mut self, value: Borrowed<'_, 'py, PyAny>, held: isize) -> Walked<()> {
        if self.direct && self.write_direct(value) {
            return Ok(());
        }
        self.visit_other(value, held)
    }

    /// Takes a value that is not one of the commonest leaves.
    #[inline]
    fn visit_other(&mut self, value: Borrowed<'_, 'py, PyAny>, held: isize) -> Walked<()> {
        let others = builtin::references(value) - held;
        let value = value.to_owned();
        if self.level.is_some() && !self.frames.is_empty() {
            return self.stop_at(value);
        }
        if self.trace.is_none() {
            return self.visit_object(value, others);
        }
        let (mark, depth) = (self.stream.mark(), self.frames.len());
        let label = self.frames.last().map_or_else(String::new, Frame::child_label);
        let text = short_repr(&value);
        let address = value.as_ptr() as usize;
        let seen = self.reused;
        self.visit_object(value, others)?;
        let digest = (self.frames.len() == depth).then(|| self.stream.digest_from(mark));
        if let Some(trace) = &mut self.trace {
            match digest {
                Some(digest) => trace.leaf(label, text, digest, (self.reused != seen).then_some(address)),
                None => trace.open(label, text, address),
            }
        }
        Ok(())
    }

    fn trace_leaf(&mut self, text: &str) {
        if self.trace.is_some() {
            let label = self.frames.last().map_or_else(String::new, Frame::child_label);
            if let Some(trace) = &mut self.trace {
                trace.leaf(label, text.to_owned(), keyprint_fingerprint::digest(text.as_bytes()), None);
            }
        }
    }

    fn visit_object(&mut self, value: Bound<'py, PyAny>, others: isize) -> Walked<()> {
        let known = self.known(&value)?;
        if !known.plan.composite && self.write_leaf(&value, known)? {
            return Ok(());
        }
        self.visit_composite(value, known, others)
    }

    /// Takes a value with parts, to which there are `others` references besides the walk's own.
    fn visit_composite(
        &mut self,
        value: Bound<'py, PyAny>,
        known: &'a Known<'py>,
        others: isize,
    ) -> Walked<()> {
        let depth = self.frames.len();
        let tracked = others > 1 || depth == 0;
        let parent_fresh = self.frames.last().is_some_and(|frame| frame.place.fresh);
        let fresh = others == 0 || parent_fresh && others == 1;
        if !tracked && self.shadow.is_none() {
            self.opened += 1;
            return self.open_common(value, known, Standing { tracked, fresh });
        }
        let address = value.as_ptr() as usize;
        // The order in which sets hand out their elements is not the same everywhere.
        if tracked && !fresh && self.met.is_some() && !self.frames.iter().any(|frame| frame.entries.is_some())
        {
            let is_told_apart = compares_by_identity(&known.class)?;
            self.met.get_or_insert_default().push((address, is_told_apart));
        }
        let seen = match tracked {
            true if self.handed == 0 => self.memo.arrive(address, depth),
            true => self.memo.arrive_acyclic(address),
            false => Seen::New,
        };
        let seen = match (seen, &self.shadow) {
            (Seen::New, Some(shadow)) => shadow.get(&address).map_or(Seen::New, |depth| Seen::Open(*depth)),
            (seen, _) => seen,
        };
        match seen {
            Seen::Done(span, ties) => {
                self.stream.replay(&self.remembered[span.start..span.end]);
                self.reused += 1;
                self.settle(ties);
                Ok(())
            }
            Seen::Open(at) => self.back(&value, at),
            Seen::New => {
                self.opened += 1;
                self.open_common(value, known, Standing { tracked, fresh })
            }
        }
    }

    /// Writes a reference to an object that encloses this place.
    fn back(&mut self, value: &Bound<'py, PyAny>, at: usize) -> Walked<()> {
        if !self.config.cycles {
            return Err(Failure::refuse("cycle", format!("{} contains itself", short_repr(value)))
                .hint("allow cycles with cycles=True, or skip the field that closes the cycle"));
        }
        let depth = self.frames.len();
        self.stream.back(depth - at);
        self.top().ties.merge(Ties::to(at));
        Ok(())
    }

    /// Makes every open object findable: what Python code hands out may be any of them.
    fn watch_open(&mut self) {
        if self.shadow.is_none() {
            let open =
                self.frames.iter().enumerate().filter(|(_, frame)| !frame.part && !frame.place.tracked);
            self.shadow = Some(open.map(|(depth, frame)| (frame.owner.as_ptr() as usize, depth)).collect());
        }
    }

    /// Opens a frame.
    // Inlined, so that the frame is built where it will stand and not copied there.
    #[inline(always)]
    fn push(&mut self, source: Source<'a, 'py>, owner: Bound<'py, PyAny>, opening: Opening) -> Walked<()> {
        let Opening { at, len, mark, ordered, place, part } = opening;
        if part {
            if let Some(trace) = &mut self.trace {
                trace.open_part();
            }
        } else if place.tracked || self.shadow.is_some() {
            self.register(&owner, place)?;
        }
        if let Some(Level::Collect(events)) = &mut self.level {
            let pairs = matches!(source, Source::Dict { .. } | Source::Pairs { .. });
            events.push(Event::Open { ordered, pairs });
        }
        let entries = (!ordered).then_some(self.entries.len());
        let ties = Ties::NONE;
        let (spilled, endless, handed) = (None, false, false);
        self.frames.push(Frame {
            source,
            owner,
            at,
            len,
            mark,
            entries,
            ties,
            place,
            spilled,
            part,
            endless,
            handed,
        });
        Ok(())
    }

    /// Makes an object findable while it is open.
    fn register(&mut self, owner: &Bound<'py, PyAny>, place: Standing) -> Walked<()> {
        let (address, depth) = (owner.as_ptr() as usize, self.frames.len());
        if !place.tracked {
            if let Some(shadow) = &mut self.shadow {
                shadow.insert(address, depth);
            }
            return Ok(());
        }
        self.memo.open(address, depth);
        if self.memo.repeats() <= MOST_REPEATS {
            return Ok(());
        }
        let what = short_repr(owner);
        Err(Failure::refuse(
            "entangled",
            format!("{what} is part of so many cycles that each way through them would count apart"),
        )
        .hint("give the class a rule that describes its links by name or index, or skip the fields that hold them"))
    }

    /// Closes the top frame.
    fn close(&mut self) -> Walked<()> {
        let frame = self.frames.pop().expect("the walk is not over");
        if let Some(Level::Collect(events)) = &mut self.level {
            events.push(Event::Close);
        }
        match frame.entries {
            None => match frame.spilled {
                None => self.stream.close(frame.mark),
                Some(mut hasher) => {
                    self.stream.spill(frame.mark, &mut hasher);
                    self.stream.replace(frame.mark, hasher.finish());
                }
            },
            Some(first) => {
                self.stream.close_unordered(frame.mark, &self.entries[first..]);
                self.entries.truncate(first);
            }
        }
        let depth = self.frames.len();
        self.endless -= usize::from(frame.endless);
        self.handed -= usize::from(frame.handed);
        let ties = if frame.part || !frame.place.tracked {
            if let Some(shadow) = &mut self.shadow
                && !frame.part
            {
                shadow.remove(&(frame.owner.as_ptr() as usize));
            }
            frame.ties.closed_at(depth)
        } else {
            let span = self.store(frame.mark);
            self.kept.push(frame.owner);
            self.memo.close(frame.ties, span)
        };
        if let Some(trace) = &mut self.trace {
            trace.close((!frame.part).then(|| self.stream.digest_from(frame.mark)));
        }
        self.settle(ties);
        Ok(())
    }

    /// Notes in the top frame that one of its children is written, with these ties.
    #[inline]
    fn settle(&mut self, ties: Ties) {
        let Some(parent) = self.frames.last_mut() else { return };
        parent.ties.merge(ties);
        // Many references to one object can make an item far longer than the value is in memory. A
        // trace, which is as long itself, goes on to look at what is written.
        let long = self.stream.mark() - parent.mark > MOST_BUFFERED;
        if long && parent.entries.is_none() && self.trace.is_none() {
            self.stream.spill(parent.mark, parent.spilled.get_or_insert_default());
        }
    }

    /// Keeps the bytes of the item that begins at `mark`.
    fn store(&mut self, mark: Mark) -> Span {
        let start = self.remembered.len();
        self.remembered.extend_from_slice(&self.stream.bytes()[mark..]);
        Span { start, end: self.remembered.len() }
    }

    /// The plan of a value's type, and what this walk knows about the type.
    #[inline]
    fn known(&mut self, value: &Bound<'py, PyAny>) -> Walked<&'a Known<'py>> {
        let class = value.get_type_ptr();
        let address = class as usize;
        // Type objects are more than 256 bytes apart.
        let place = (address >> 8 ^ address >> 13) % RECENT;
        if let Some(known) = self.recent[place]
            && known.class.as_type_ptr() == class
        {
            return Ok(known);
        }
        let known = match self.known.get(&address) {
            Some(known) => *known,
            None => {
                let known: &'a Known<'py> = self.arena.alloc(self.learn(value)?);
                self.known.insert(address, known);
                known
            }
        };
        self.recent[place] = Some(known);
        Ok(known)
    }

    #[cold]
    fn learn(&mut self, value: &Bound<'py, PyAny>) -> Walked<Known<'py>> {
        let class = value.get_type();
        let plan = match self.plans.get(&class) {
            Some(plan) => plan,
            None => {
                let plan = Arc::new(classify::plan(self.config, value)?);
                self.plans.put(&class, &plan);
                plan
            }
        };
        let importable = reference::class_is_named(&class, &plan.class)?;
        let reducer = matches!(plan.rule, Rule::Object(_)) && reduce::registered(value)?.is_some();
        Ok(Known { plan, class, importable, reducer })
    }
}
