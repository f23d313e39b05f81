//! [`Steps`]: a call in short.
//!
//! A launch that finds its entry where the last one did needs a look at each argument, and a word or two of it. What it
//! needs for that lies side by side here, in the order in which it is read: with what the driver leaves of the
//! processor's caches, a launch costs as many nanoseconds as it touches lines. Whatever is not as it must be takes the
//! way that all calls can take, which also knows how to say so.

use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;

use super::argument_guard::{ArgumentGuard, Verdict, own};
use super::pack::{ArrayKind, NativeCall, Slot};
use super::spec::Property;

/// What is done for a call, one after the other.
pub(super) struct Steps {
    /// How many arguments there are.
    pub(super) arguments: usize,
    /// The class of arrays of our own.
    own_class: *mut ffi::PyTypeObject,
    steps: Vec<Step>,
}

enum Step {
    /// An argument is an array of our own, with this word, and the address of its first element goes into a slot.
    Own { argument: u16, slot: u16, spec: u64 },
    /// An argument passes a guard.
    Guard { argument: u16, guard: u16 },
    /// A slot is made of an argument.
    Slot { argument: u16, guard: u16, slot: u16 },
}

impl Steps {
    /// The steps of an entry for so many arguments; nothing if it takes more than looks at them.
    pub(super) fn of(arguments: usize, guards: &[ArgumentGuard], call: &NativeCall) -> Option<Self> {
        if !call.is_direct() || guards.len() > usize::from(u16::MAX) {
            return None;
        }
        let mut steps = Vec::new();
        let mut own_class = std::ptr::null_mut();
        for (at, guard) in guards.iter().enumerate() {
            let argument = u16::try_from(guard.argument()?).ok()?;
            let mut slots = call.slots.iter().enumerate().filter(|(_, (of, _))| *of == at).peekable();
            let is_address = |slot: &Slot| matches!(slot, Slot::Array(ArrayKind::Own, Property::Address));
            match (guard.own_spec(), slots.next_if(|(_, (_, slot))| is_address(slot))) {
                (Some((class, spec)), Some((slot, _))) => {
                    own_class = class;
                    steps.push(Step::Own { argument, slot: slot as u16, spec });
                }
                (_, None) => steps.push(Step::Guard { argument, guard: at as u16 }),
                (None, Some(_)) => return None,
            }
            steps.extend(slots.map(|(slot, _)| Step::Slot { argument, guard: at as u16, slot: slot as u16 }));
        }
        Some(Self { arguments, own_class, steps })
    }

    /// Writes the slots of a call; false if they cannot be made of a look at each argument.
    ///
    /// # Safety
    ///
    /// The arguments are live objects, as many as there are to be; guards and call are those that the steps are of.
    #[inline(always)]
    pub(super) unsafe fn pack(
        &self,
        py: Python<'_>,
        guards: &[ArgumentGuard],
        call: &NativeCall,
        arguments: &[*mut ffi::PyObject],
        block: &mut [MaybeUninit<u64>],
    ) -> PyResult<bool> {
        for step in &self.steps {
            match *step {
                Step::Own { argument, slot, spec } => {
                    let value = arguments[usize::from(argument)];
                    // SAFETY: a live object; its class says what it is.
                    unsafe {
                        if ffi::Py_TYPE(value) != self.own_class {
                            return Ok(false);
                        }
                        let array = own(py, value);
                        if array.spec != spec {
                            return Ok(false);
                        }
                        block[usize::from(slot)].write(array.data as u64);
                    }
                }
                Step::Guard { argument, guard } => {
                    // SAFETY: a live object.
                    match unsafe { guards[usize::from(guard)].passes(py, arguments[usize::from(argument)]) } {
                        Verdict::Pass => {}
                        Verdict::Fail => return Ok(false),
                        Verdict::Raise => return Err(PyErr::fetch(py)),
                    }
                }
                Step::Slot { argument, guard, slot } => {
                    let (value, guard) = (arguments[usize::from(argument)], &guards[usize::from(guard)]);
                    // SAFETY: the guard has passed.
                    match unsafe { call.slots[usize::from(slot)].1.pack(py, guard, value) } {
                        Ok(bits) => drop(block[usize::from(slot)].write(bits)),
                        Err(_) => return Ok(false),
                    }
                }
            }
        }
        Ok(true)
    }
}
