//! [`Encode`] for the standard types.
//!
//! `docs/encoding.md` has the table of which Rust type equals which Python type.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
use std::marker::PhantomData;
use std::num::NonZero;
use std::ops::{Range, RangeInclusive};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::{Encode, Shape, Slot, Written};

macro_rules! leaves {
    ($($type:ty => |$value:ident, $slot:ident| $write:expr;)*) => {$(
        impl Encode for $type {
            const LEAF: bool = true;
            fn encode<'a>(&'a self, $slot: Slot<'_, 'a>) -> Written {
                let $value = self;
                $write
            }
        }
    )*};
}

leaves! {
    bool => |value, slot| slot.bool(*value);
    char => |value, slot| slot.str(value.encode_utf8(&mut [0; 4]));
    str => |value, slot| slot.str(value);
    String => |value, slot| slot.str(value);
    f64 => |value, slot| slot.float(*value);
    f32 => |value, slot| {
        // Every NaN is one value, as for 64-bit floats.
        let bits = if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
        slot.scalar("f4", &bits.to_le_bytes())
    };
    i128 => |value, slot| slot.wide_int(*value);
    u128 => |value, slot| slot.wide_uint(*value);
    u64 => |value, slot| slot.wide_uint(u128::from(*value));
    usize => |value, slot| slot.wide_uint(*value as u128);
    isize => |value, slot| slot.int(*value as i64);
}

macro_rules! integers {
    ($($type:ty)*) => {$(leaves! { $type => |value, slot| slot.int(i64::from(*value)); })*};
}
integers!(i8 i16 i32 i64 u8 u16 u32);

macro_rules! delegates {
    ($([$($generics:tt)*] $type:ty => $target:ty;)*) => {$(
        impl<$($generics)*> Encode for $type {
            const LEAF: bool = <$target>::LEAF;
            fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
                (**self).encode(slot)
            }
        }
    )*};
}

delegates! {
    [T: Encode + ?Sized] &T => T;
    [T: Encode + ?Sized] &mut T => T;
    [T: Encode + ?Sized] Box<T> => T;
    [T: Encode + ?Sized] Rc<T> => T;
    [T: Encode + ?Sized] Arc<T> => T;
    [T: Encode + ToOwned + ?Sized] Cow<'_, T> => T;
}

macro_rules! non_zero {
    ($($type:ty)*) => {$(leaves! { NonZero<$type> => |value, slot| slot.wide_int(i128::from(value.get())); })*};
}
non_zero!(i8 i16 i32 i64 u8 u16 u32 u64);

/// `None` is nothing and `Some` is what it holds, as in Python; so `Some(None)` equals `None`.
impl<T: Encode> Encode for Option<T> {
    const LEAF: bool = T::LEAF;
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        match self {
            None => slot.none(),
            Some(value) => value.encode(slot),
        }
    }
}

impl<T: Encode, E: Encode> Encode for Result<T, E> {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        static OK: Shape = Shape::of_kind("variant", "core::result", "Result.Ok", &["0"]);
        static ERR: Shape = Shape::of_kind("variant", "core::result", "Result.Err", &["0"]);
        match self {
            Ok(value) => slot.record(&OK, |fields| fields.child(value)),
            Err(error) => slot.record(&ERR, |fields| fields.child(error)),
        }
    }
}

impl<T: Encode> Encode for [T] {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        slot.list(self.len(), |items| self.iter().for_each(|item| items.child(item)))
    }
}

impl<T: Encode, const N: usize> Encode for [T; N] {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        self.as_slice().encode(slot)
    }
}

macro_rules! sequences {
    ($($type:ident)*) => {$(
        impl<T: Encode> Encode for $type<T> {
            fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
                slot.list(self.len(), |items| self.iter().for_each(|item| items.child(item)))
            }
        }
    )*};
}
sequences!(Vec VecDeque LinkedList);

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        slot.dict(self.len(), |pairs| self.iter().for_each(|(key, value)| pairs.pair(key, value)))
    }
}

impl<K: Encode, V: Encode, S> Encode for HashMap<K, V, S> {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        slot.dict(self.len(), |pairs| self.iter().for_each(|(key, value)| pairs.pair(key, value)))
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        slot.set(self.len(), |items| self.iter().for_each(|item| items.element(item)))
    }
}

impl<T: Encode, S> Encode for HashSet<T, S> {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        slot.set(self.len(), |items| self.iter().for_each(|item| items.element(item)))
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*) $count:literal)*) => {$(
        impl<$($name: Encode),*> Encode for ($($name,)*) {
            fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
                slot.tuple($count, |_items| { $(_items.child(&self.$index);)* })
            }
        }
    )*};
}

tuples! {
    () 0
    (A 0) 1
    (A 0, B 1) 2
    (A 0, B 1, C 2) 3
    (A 0, B 1, C 2, D 3) 4
    (A 0, B 1, C 2, D 3, E 4) 5
    (A 0, B 1, C 2, D 3, E 4, F 5) 6
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6) 7
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7) 8
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8) 9
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9) 10
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10) 11
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11) 12
}

impl<T: ?Sized> Encode for PhantomData<T> {
    const LEAF: bool = true;
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        slot.none()
    }
}

impl<T: Encode> Encode for Range<T> {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        static SHAPE: Shape = Shape::fields("core::ops", "Range", &["start", "end"]);
        slot.record(&SHAPE, |fields| {
            fields.child(&self.start);
            fields.child(&self.end);
        })
    }
}

impl<T: Encode> Encode for RangeInclusive<T> {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        static SHAPE: Shape = Shape::fields("core::ops", "RangeInclusive", &["start", "end"]);
        slot.record(&SHAPE, |fields| {
            fields.child(self.start());
            fields.child(self.end());
        })
    }
}

impl Encode for Duration {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        static SHAPE: Shape = Shape::fields("core::time", "Duration", &["nanos"]);
        fn nanos<'a>(value: &'a Duration, slot: Slot<'_, 'a>) -> Written {
            slot.wide_uint(value.as_nanos())
        }
        slot.record(&SHAPE, |fields| fields.child_with(self, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, fingerprint};

    #[test]
    fn width_of_an_integer_does_not_count() {
        assert_eq!(fingerprint(&7u8), fingerprint(&7i128));
        assert_eq!(fingerprint(&u64::MAX), fingerprint(&u128::from(u64::MAX)));
        assert_ne!(fingerprint(&7u8), fingerprint(&-7i8));
        assert_eq!(fingerprint(&NonZero::new(7u16)), fingerprint(&7));
    }

    #[test]
    fn kinds_differ() {
        let all = [
            fingerprint(&1),
            fingerprint(&true),
            fingerprint(&1.0f64),
            fingerprint(&1.0f32),
            fingerprint("1"),
            fingerprint(&Bytes("1")),
            fingerprint(&None::<u8>),
            fingerprint(&()),
            fingerprint(&(1, 2)),
            fingerprint(&vec![1, 2]),
            fingerprint(&BTreeSet::from([1, 2])),
            fingerprint(&BTreeMap::from([(1, 2)])),
            fingerprint(&Ok::<i32, i32>(1)),
            fingerprint(&Err::<i32, i32>(1)),
        ];
        let distinct: HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn maps_and_sets_have_no_order() {
        let pairs: Vec<(String, usize)> = (0..500).map(|i| (format!("k{i}"), i)).collect();
        let forwards: HashMap<_, _> = pairs.iter().cloned().collect();
        let backwards: HashMap<_, _> = pairs.iter().rev().cloned().collect();
        let tree: BTreeMap<_, _> = pairs.iter().cloned().collect();
        assert_eq!(fingerprint(&forwards), fingerprint(&backwards));
        assert_eq!(fingerprint(&forwards), fingerprint(&tree));
    }

    #[test]
    fn wrappers_do_not_count() {
        let value = vec![1, 2, 3];
        assert_eq!(fingerprint(&Box::new(value.clone())), fingerprint(&value));
        assert_eq!(fingerprint(&Arc::new(&value)), fingerprint(&value));
        assert_eq!(fingerprint(&Some(value.clone())), fingerprint(&value));
        assert_eq!(fingerprint(&Cow::Borrowed(&value[..])), fingerprint(&[1, 2, 3]));
    }
}
