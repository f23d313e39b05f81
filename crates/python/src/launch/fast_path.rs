//! [`FastPath`]: a call in short.
//!
//! A launch that finds its entry where the last one did needs a look at each argument or member, and a word or two of it. What it
//! needs for that lies side by side here, in the order in which it is read: with what the driver leaves of the
//! processor's caches, a launch costs as many nanoseconds as it touches lines. Whatever is not as it must be takes the
//! way that all calls can take, which also knows how to say so.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;

use super::argument_guard::{ArgumentGuard, Verdict, own};
use super::pack::NativeCall;
use crate::layout::{self, Attributes};

/// What is done for a call, one after the other.
pub(super) struct FastPath {
    /// How many arguments there are.
    pub(super) arguments: usize,
    /// The class of arrays of our own.
    own_class: *mut ffi::PyTypeObject,
    looks: Vec<Look>,
}

/// What is looked at: an argument by its number, or, with this bit, a member of the last object: by its place among
/// inline values, or by its guard, which knows it as long as the dict of the object is what it was.
type From = u16;
const MEMBER: From = 1 << 15;

enum Look {
    /// It is an array of our own, with this word, and the address of its first element goes into a slot.
    Own { from: From, guard: u16, slot: u16, spec: u64 },
    /// It is a tensor whose library describes it, and the address of its first element goes into a slot.
    Tensor { from: From, guard: u16, slot: u16 },
    /// It passes a guard.
    Guard { from: From, guard: u16 },
    /// A slot is made of it.
    Slot { from: From, guard: u16, slot: u16 },
    /// An argument is an object that passes a guard, and has members by this table of names; null: in a dict.
    Object { argument: u16, guard: u16, table: *const c_void },
}

impl FastPath {
    /// The fast path of an entry for so many arguments; nothing if it takes more than looks at them and their members.
    pub(super) fn of(arguments: usize, guards: &[ArgumentGuard], call: &NativeCall) -> Option<Self> {
        if !call.is_direct(guards) || guards.len().max(arguments) >= usize::from(MEMBER) {
            return None;
        }
        let mut looks = Vec::new();
        let mut own_class = std::ptr::null_mut();
        let mut last_object = None;
        for (at, guard) in guards.iter().enumerate() {
            let number = at as u16;
            let mut slots = call.slots.iter().enumerate().filter(|(_, (of, _))| *of == at).peekable();
            let from = match (guard.argument(), guard.member()?) {
                (Some(argument), _) => argument as u16,
                (None, Some((owner, _))) if last_object != Some(owner) => return None,
                (None, Some((_, Some((_, place))))) => {
                    u16::try_from(place).ok().filter(|at| *at < MEMBER)? | MEMBER
                }
                (None, _) => number | MEMBER,
            };
            let mut tables = guards.iter().filter_map(|member| match member.member().flatten() {
                Some((owner, place)) if owner == at => Some(place.map_or(std::ptr::null(), |place| place.0)),
                _ => None,
            });
            if let Some(table) = tables.next() {
                if guard.argument().is_none() || tables.any(|other| other != table) {
                    return None;
                }
                looks.push(Look::Object { argument: from, guard: number, table });
                last_object = Some(at);
            } else {
                let first = slots.next_if(|(_, (_, slot))| slot.is_address());
                match (guard.own_spec(), guard.exchange(), first) {
                    (Some((class, spec)), _, Some((slot, _))) => {
                        own_class = class;
                        looks.push(Look::Own { from, guard: number, slot: slot as u16, spec });
                    }
                    (None, Some(_), Some((slot, _))) => {
                        looks.push(Look::Tensor { from, guard: number, slot: slot as u16 });
                    }
                    (.., first) => {
                        looks.push(Look::Guard { from, guard: number });
                        let slot = |(slot, _)| Look::Slot { from, guard: number, slot: slot as u16 };
                        looks.extend(first.map(slot));
                    }
                }
            }
            looks.extend(slots.map(|(slot, _)| Look::Slot { from, guard: number, slot: slot as u16 }));
        }
        Some(Self { arguments, own_class, looks })
    }

    /// Writes the slots of a call; false if they cannot be made of a look at each argument. `values` receives what each
    /// guard looks at, if there is room for it.
    ///
    /// # Safety
    ///
    /// The arguments are live objects, as many as there are to be; guards and call are those that the path is of.
    #[inline(always)]
    pub(super) unsafe fn pack(
        &self,
        py: Python<'_>,
        guards: &[ArgumentGuard],
        call: &NativeCall,
        arguments: &[*mut ffi::PyObject],
        block: &mut [MaybeUninit<u64>],
        values: &mut [*mut ffi::PyObject],
    ) -> PyResult<bool> {
        let mut keep = |guard: u16, value: *mut ffi::PyObject| {
            if let Some(place) = values.get_mut(usize::from(guard)) {
                *place = value;
            }
        };
        let mut members: *const *mut ffi::PyObject = std::ptr::null();
        let find = |from: From, members: *const *mut ffi::PyObject| {
            if from & MEMBER == 0 {
                arguments[usize::from(from)]
            } else if members.is_null() {
                // The dict of the object before is what it was when this was looked for.
                guards[usize::from(from & !MEMBER)].last()
            } else {
                // SAFETY: the object before has a place for each name of its table. Null if there is no such member.
                unsafe { *members.add(usize::from(from & !MEMBER)) }
            }
        };
        for look in &self.looks {
            match *look {
                Look::Own { from, guard, slot, spec } => {
                    let value = find(from, members);
                    keep(guard, value);
                    // SAFETY: a live object, or null; its class says what it is.
                    unsafe {
                        if value.is_null() || ffi::Py_TYPE(value) != self.own_class {
                            return Ok(false);
                        }
                        let array = own(py, value);
                        if array.spec != spec {
                            return Ok(false);
                        }
                        block[usize::from(slot)].write(array.data as u64);
                    }
                }
                Look::Tensor { from, guard, slot } => {
                    let value = find(from, members);
                    keep(guard, value);
                    // SAFETY: a live object, or null.
                    match unsafe { guards[usize::from(guard)].tensor(py, value)? } {
                        Some(address) => drop(block[usize::from(slot)].write(address)),
                        None => return Ok(false),
                    }
                }
                Look::Guard { from, guard } => {
                    let value = find(from, members);
                    keep(guard, value);
                    // SAFETY: a live object, or null.
                    match unsafe { guards[usize::from(guard)].passes(py, value) } {
                        Verdict::Pass => {}
                        Verdict::Fail => return Ok(false),
                        Verdict::Raise => return Err(PyErr::fetch(py)),
                    }
                }
                Look::Slot { from, guard, slot } => {
                    let (value, guard) = (find(from, members), &guards[usize::from(guard)]);
                    // SAFETY: the guard has passed.
                    match unsafe { call.slots[usize::from(slot)].1.pack(py, guard, value) } {
                        Ok(bits) => drop(block[usize::from(slot)].write(bits)),
                        Err(_) => return Ok(false),
                    }
                }
                Look::Object { argument, guard, table } => {
                    let value = arguments[usize::from(argument)];
                    keep(guard, value);
                    // SAFETY: a live object.
                    unsafe {
                        if guards[usize::from(guard)].passes(py, value) != Verdict::Pass {
                            return Ok(false);
                        }
                        match layout::attributes(&Borrowed::from_ptr(py, value)) {
                            Attributes::Inline(inline) if inline.table() == table => members = inline.first(),
                            Attributes::Dict(dict)
                                if table.is_null() && guards[usize::from(guard)].has_seen(dict) =>
                            {
                                members = std::ptr::null();
                            }
                            _ => return Ok(false),
                        }
                    }
                }
            }
        }
        Ok(true)
    }
}
