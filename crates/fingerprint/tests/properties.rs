//! Properties of the encoding over a rich random grammar.

use std::collections::BTreeMap;

use keyprint_fingerprint::{Encode, Slot, Stream, Written, fingerprint, tag};
use proptest::prelude::*;

/// A plain value. Sets and dicts are kept sorted by the encodings of their entries, so that equal
/// values are equal here too.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    None,
    Bool(bool),
    Int(i128),
    /// By bits; NaNs are normalised when a value is made.
    Float(u64),
    Str(String),
    Bytes(Vec<u8>),
    Reference(String, String),
    Scalar(String, Vec<u8>),
    Back(usize),
    List(Vec<Value>),
    Tuple(Vec<Value>),
    Set(Vec<Value>),
    Dict(Vec<(Value, Value)>),
}

fn write(stream: &mut Stream, value: &Value) {
    match value {
        Value::None => stream.none(),
        Value::Bool(value) => stream.bool(*value),
        Value::Int(value) => {
            let magnitude = if *value < 0 { !value } else { *value };
            stream.big_int(*value < 0, &magnitude.to_le_bytes());
        }
        Value::Float(bits) => stream.float(f64::from_bits(*bits)),
        Value::Str(text) => stream.str(text),
        Value::Bytes(bytes) => stream.blob_bytes(bytes),
        Value::Reference(module, name) => stream.reference(tag::Referent::Class, module, name),
        Value::Scalar(element, bytes) => stream.scalar(element, bytes),
        Value::Back(distance) => stream.back(*distance),
        Value::List(items) => sequence(stream, tag::LIST, items),
        Value::Tuple(items) => sequence(stream, tag::TUPLE, items),
        Value::Set(items) => {
            let mark = stream.open(tag::SET, items.len());
            let mut marks = Vec::new();
            for item in items {
                marks.push(stream.mark());
                write(stream, item);
            }
            stream.close_unordered(mark, &marks);
        }
        Value::Dict(pairs) => {
            let mark = stream.open(tag::DICT, pairs.len());
            let mut marks = Vec::new();
            for (key, value) in pairs {
                marks.push(stream.mark());
                write(stream, key);
                write(stream, value);
            }
            stream.close_unordered(mark, &marks);
        }
    }
}

fn sequence(stream: &mut Stream, tag: u8, items: &[Value]) {
    let mark = stream.open(tag, items.len());
    items.iter().for_each(|item| write(stream, item));
    stream.close(mark);
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut stream = Stream::new();
    write(&mut stream, value);
    stream.bytes().to_vec()
}

/// Reads an item back; `None` where something was too long to stand inline.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().expect("more bytes");
        self.0 = rest;
        *first
    }

    fn length(&mut self) -> usize {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            value |= usize::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return value;
            }
        }
    }

    fn blob(&mut self) -> Vec<u8> {
        let length = self.length();
        let (head, rest) = self.0.split_at(length);
        self.0 = rest;
        head.to_vec()
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.blob()).expect("UTF-8")
    }

    fn many(&mut self) -> Option<Vec<Value>> {
        (0..self.length()).map(|_| self.item()).collect()
    }

    fn item(&mut self) -> Option<Value> {
        Some(match self.byte() {
            tag::DIGEST => return None,
            tag::NONE => Value::None,
            tag::FALSE => Value::Bool(false),
            tag::TRUE => Value::Bool(true),
            tag @ (tag::NATURAL | tag::NEGATIVE) => {
                let mut bytes = [0u8; 16];
                let blob = self.blob();
                bytes[..blob.len()].copy_from_slice(&blob);
                let magnitude = i128::from_le_bytes(bytes);
                Value::Int(if tag == tag::NEGATIVE { !magnitude } else { magnitude })
            }
            tag::FLOAT => Value::Float(u64::from_le_bytes(std::array::from_fn(|_| self.byte()))),
            tag::STR => Value::Str(self.text()),
            tag::BYTES => Value::Bytes(self.blob()),
            tag::REFERENCE => {
                assert_eq!(self.byte(), tag::Referent::Class as u8);
                Value::Reference(self.text(), self.text())
            }
            tag::SCALAR => Value::Scalar(self.text(), self.blob()),
            tag::BACK => Value::Back(self.length()),
            tag::LIST => Value::List(self.many()?),
            tag::TUPLE => Value::Tuple(self.many()?),
            tag::SET => Value::Set(self.many()?),
            tag::DICT => {
                let count = self.length();
                Value::Dict((0..count).map(|_| Some((self.item()?, self.item()?))).collect::<Option<_>>()?)
            }
            other => panic!("unknown tag {other:#x}"),
        })
    }
}

fn values() -> impl Strategy<Value = Value> {
    let name = prop_oneof!["[a-c.<>]{0,3}", "\\PC{0,12}"];
    let leaf = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        prop_oneof![-3i128..300, any::<i128>(), any::<i64>().prop_map(i128::from)].prop_map(Value::Int),
        any::<f64>().prop_map(|float| Value::Float(if float.is_nan() {
            f64::NAN.to_bits() & !(1 << 63)
        } else {
            float.to_bits()
        })),
        prop_oneof!["[ab]{0,3}", "\\PC{0,40}"].prop_map(Value::Str),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Value::Bytes),
        (name.clone(), name).prop_map(|(module, qualname)| Value::Reference(module, qualname)),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| Value::Scalar("f4".into(), bytes)),
        (1usize..300).prop_map(Value::Back),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        let many = prop::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            many.clone().prop_map(Value::List),
            many.clone().prop_map(Value::Tuple),
            many.prop_map(|mut items| {
                items.sort_by_key(encoded);
                Value::Set(items)
            }),
            prop::collection::vec((inner.clone(), inner), 0..6).prop_map(|mut pairs| {
                pairs.sort_by_key(|(key, value)| [encoded(key), encoded(value)].concat());
                Value::Dict(pairs)
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// What can be read back unchanged cannot be shared by two values.
    #[test]
    fn an_item_can_be_read_back(value in values()) {
        let bytes = encoded(&value);
        let mut reader = Reader(&bytes);
        if let Some(item) = reader.item() {
            prop_assert!(reader.0.is_empty());
            prop_assert_eq!(item, value);
        } else {
            prop_assert!(bytes.len() <= tag::INLINE_LIMIT);
        }
    }

    /// No item is the beginning of another, so items can follow each other without separators.
    #[test]
    fn items_are_prefix_free(value in values(), other in values()) {
        let (value_bytes, other_bytes) = (encoded(&value), encoded(&other));
        if value != other && value_bytes[0] != tag::DIGEST && other_bytes[0] != tag::DIGEST {
            prop_assert!(!value_bytes.starts_with(&other_bytes) && !other_bytes.starts_with(&value_bytes));
        }
    }

    #[test]
    fn different_values_differ_and_neighbours_do_not_leak(value in values(), other in values()) {
        let alone = |value: &Value| { let mut stream = Stream::new(); write(&mut stream, value); stream.finish() };
        prop_assert_eq!(value == other, alone(&value) == alone(&other));
        let joined = Value::List(vec![value.clone(), other.clone()]);
        let nested = Value::List(vec![Value::List(vec![value, other])]);
        prop_assert_ne!(alone(&joined), alone(&nested));
    }

    #[test]
    fn sets_and_dicts_have_no_order(pairs in prop::collection::vec((values(), values()), 2..20), turn in any::<prop::sample::Index>()) {
        let mut turned = pairs.clone();
        turned.rotate_left(turn.index(pairs.len()));
        prop_assert_eq!(encoded(&Value::Dict(pairs.clone())), encoded(&Value::Dict(turned.clone())));
        let keys = |pairs: &[(Value, Value)]| Value::Set(pairs.iter().map(|(key, _)| key.clone()).collect());
        prop_assert_eq!(encoded(&keys(&pairs)), encoded(&keys(&turned)));
    }
}

/// A tree that can be made deeper than recursion would allow.
enum Tree {
    Leaf(u64),
    Node(Vec<Tree>),
    Table(BTreeMap<u64, Tree>),
}

impl Drop for Tree {
    /// Without recursion: the compiler's own way would overflow the stack.
    fn drop(&mut self) {
        let mut pending = vec![std::mem::replace(self, Tree::Leaf(0))];
        while let Some(mut tree) = pending.pop() {
            match &mut tree {
                Tree::Leaf(_) => {}
                Tree::Node(children) => pending.append(children),
                Tree::Table(children) => pending.extend(std::mem::take(children).into_values()),
            }
            std::mem::forget(tree);
        }
    }
}

impl Encode for Tree {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        match self {
            Tree::Leaf(value) => value.encode(slot),
            Tree::Node(children) => children.encode(slot),
            Tree::Table(children) => children.encode(slot),
        }
    }
}

fn written(tree: &Tree, stream: &mut Stream) {
    match tree {
        Tree::Leaf(value) => stream.uint(*value),
        Tree::Node(children) => {
            let mark = stream.open(tag::LIST, children.len());
            children.iter().for_each(|child| written(child, stream));
            stream.close(mark);
        }
        Tree::Table(children) => {
            let mark = stream.open(tag::DICT, children.len());
            let mut marks = Vec::new();
            for (key, child) in children {
                marks.push(stream.mark());
                stream.uint(*key);
                written(child, stream);
            }
            stream.close_unordered(mark, &marks);
        }
    }
}

#[test]
fn the_work_list_writes_what_recursion_would() {
    // Around and past the depth where recursion gives way to the work list.
    for depth in [1, 94, 95, 96, 97, 98, 99, 200, 700] {
        let mut tree = Tree::Leaf(7);
        for level in 0..depth {
            tree = if level % 3 == 0 {
                Tree::Table([(level, tree), (3, Tree::Leaf(level)), (900, Tree::Node(vec![]))].into())
            } else {
                Tree::Node(vec![Tree::Leaf(1), tree, Tree::Leaf(level), Tree::Node(vec![Tree::Leaf(2)])])
            };
        }
        let mut stream = Stream::new();
        written(&tree, &mut stream);
        assert_eq!(fingerprint(&tree), stream.finish(), "depth {depth}");
    }
}

#[test]
fn a_million_levels_do_not_touch_the_stack() {
    let mut tree = Tree::Leaf(1);
    for _ in 0..1_000_000 {
        tree = Tree::Node(vec![tree]);
    }
    assert_ne!(fingerprint(&tree), fingerprint(&Tree::Node(vec![])));
}
