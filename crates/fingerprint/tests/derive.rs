//! `#[derive(Fingerprint)]`: what counts, what does not, and what is refused.

use std::collections::HashSet;
use std::marker::PhantomData;

use keyprint_fingerprint::{Fingerprint, Slot, Written, fingerprint};

#[derive(Fingerprint)]
struct Plain {
    a: i32,
    b: String,
}

#[derive(Fingerprint)]
struct Swapped {
    b: String,
    a: i32,
}

#[derive(Fingerprint)]
struct Pair(i32, i32);

#[derive(Fingerprint)]
struct Unit;

#[derive(Fingerprint)]
struct Generic<'a, T, const N: usize>
where
    T: Clone,
{
    values: [T; N],
    text: &'a str,
    marker: PhantomData<u8>,
}

#[derive(Fingerprint)]
enum Expr {
    Zero,
    Literal(f64),
    Call {
        name: String,
        arguments: Vec<Expr>,
        #[fingerprint(skip)]
        _line: u32,
    },
    #[fingerprint(rename = "Literal32")]
    Narrow(#[fingerprint(with = rounded)] f64),
}

fn rounded<'a>(value: &'a f64, slot: Slot<'_, 'a>) -> Written {
    slot.int(value.round() as i64)
}

#[test]
fn fields_and_class_count() {
    let all = [
        fingerprint(&Plain { a: 1, b: "x".into() }),
        fingerprint(&Plain { a: 2, b: "x".into() }),
        fingerprint(&Plain { a: 1, b: "y".into() }),
        fingerprint(&Swapped { a: 1, b: "x".into() }),
        fingerprint(&Pair(1, 2)),
        fingerprint(&Pair(2, 1)),
        fingerprint(&Unit),
        fingerprint(&(1, 2)),
    ];
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    assert_eq!(all[0], fingerprint(&Plain { a: 1, b: "x".into() }));
}

#[test]
fn variants_count_and_skipped_fields_do_not() {
    let call =
        |line| Expr::Call { name: "f".into(), arguments: vec![Expr::Zero, Expr::Literal(1.0)], _line: line };
    assert_eq!(fingerprint(&call(1)), fingerprint(&call(2)));
    let all = [
        fingerprint(&Expr::Zero),
        fingerprint(&Expr::Literal(1.0)),
        fingerprint(&Expr::Narrow(1.0)),
        fingerprint(&call(1)),
        fingerprint(&1.0),
    ];
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    assert_eq!(fingerprint(&Expr::Narrow(1.1)), fingerprint(&Expr::Narrow(0.9)));
}

#[test]
fn generics_work() {
    let value = |text| Generic { values: [1u8, 2, 3], text, marker: PhantomData };
    assert_eq!(fingerprint(&value("a")), fingerprint(&value("a")));
    assert_ne!(fingerprint(&value("a")), fingerprint(&value("b")));
}

#[test]
fn mistakes_are_refused_with_a_reason() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
