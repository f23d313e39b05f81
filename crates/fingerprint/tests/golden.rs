//! The golden vectors: the encoding is what `docs/encoding.md` says, and stays so.

use std::collections::BTreeMap;
use std::path::PathBuf;

use keyprint_fingerprint::tag::{self, Referent};
use keyprint_fingerprint::{
    Bytes, ENCODING_VERSION, Encode, Fingerprint, Slot, Stream, Written, fingerprint,
};
use serde_json::Value as Json;

/// The digest of each version's vectors. A version's vectors never change: what would change them
/// is a new version.
const PINNED: &[(u32, &str)] = &[(2, "d2d6d1a547f669205622a34338a119a5275ee8bdd1fb82baf935773fcaf5c810")];

fn vectors() -> (String, Json) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../tests/vectors/encoding-v{ENCODING_VERSION}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("no vectors for encoding version {ENCODING_VERSION}: {error}"));
    let json = serde_json::from_str(&text).expect("valid JSON");
    (text, json)
}

fn text(points: &Json) -> Vec<u8> {
    let mut utf8 = Vec::new();
    for point in points.as_array().expect("code points") {
        let point = point.as_u64().expect("a code point") as u32;
        match char::from_u32(point) {
            Some(char) => utf8.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None => utf8.extend_from_slice(&[
                0xe0 | (point >> 12) as u8,
                0x80 | (point >> 6 & 63) as u8,
                0x80 | (point & 63) as u8,
            ]),
        }
    }
    utf8
}

fn bits(text: &Json) -> u64 {
    u64::from_str_radix(text.as_str().expect("bits"), 16).expect("hexadecimal")
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}

/// Sign and little-endian magnitude of `v`, or of `-1 - v`, from decimal digits.
fn magnitude(decimal: &str) -> (bool, Vec<u8>) {
    let (negative, digits) = decimal.strip_prefix('-').map_or((false, decimal), |digits| (true, digits));
    let mut bytes: Vec<u8> = Vec::new();
    for digit in digits.bytes() {
        let mut carry = u32::from(digit - b'0');
        for byte in &mut bytes {
            carry += u32::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            bytes.push(carry as u8);
        }
    }
    if negative {
        let lowest = bytes.iter().position(|byte| *byte != 0).expect("not zero");
        bytes[..lowest].fill(255);
        bytes[lowest] -= 1;
    }
    (negative, bytes)
}

/// Writes a described value through the low-level stream.
fn write(stream: &mut Stream, described: &Json) {
    let object = match described {
        Json::Null => return stream.none(),
        Json::Bool(value) => return stream.bool(*value),
        described => described.as_object().expect("a described value"),
    };
    let (kind, body) = object.iter().next().expect("one kind");
    let ordered = |stream: &mut Stream, tag: u8| {
        let items = body.as_array().expect("items");
        let mark = stream.open(tag, items.len());
        items.iter().for_each(|item| write(stream, item));
        stream.close(mark);
    };
    let unordered = |stream: &mut Stream, tag: u8, pairs: bool| {
        let items = body.as_array().expect("items");
        let mark = stream.open(tag, items.len());
        let mut marks = Vec::new();
        for item in items {
            marks.push(stream.mark());
            if pairs {
                item.as_array().expect("a pair").iter().for_each(|half| write(stream, half));
            } else {
                write(stream, item);
            }
        }
        stream.close_unordered(mark, &marks);
    };
    match kind.as_str() {
        "int" => {
            let (negative, bytes) = magnitude(body.as_str().expect("decimal"));
            stream.big_int(negative, &bytes);
        }
        "float" => stream.float(f64::from_bits(bits(body))),
        "complex" => stream.complex(f64::from_bits(bits(&body[0])), f64::from_bits(bits(&body[1]))),
        "f32" => stream.scalar("f4", &(bits(body) as u32).to_le_bytes()),
        "str" => stream.wide_str(&text(body)),
        "repeat" => {
            stream.str(&body[0].as_str().expect("text").repeat(body[1].as_u64().expect("a count") as usize))
        }
        "bytes" => stream.blob_bytes(&unhex(body.as_str().expect("hexadecimal"))),
        "list" => ordered(stream, tag::LIST),
        "tuple" => ordered(stream, tag::TUPLE),
        "set" => unordered(stream, tag::SET, false),
        "frozenset" => unordered(stream, tag::FROZENSET, false),
        "dict" => unordered(stream, tag::DICT, true),
        "record" => {
            let (module, qualname) =
                body[0].as_str().expect("a class").split_once(':').expect("module:class");
            let fields = body[1].as_array().expect("fields");
            let names: Vec<&str> = fields.iter().map(|field| field[0].as_str().expect("a name")).collect();
            let shape = keyprint_fingerprint::shape("fields", module, qualname, &names);
            let mark = stream.open_record(&shape);
            fields.iter().for_each(|field| write(stream, &field[1]));
            stream.close(mark);
        }
        "reference" => {
            let referent = match body[0].as_u64() {
                Some(1) => Referent::Class,
                Some(2) => Referent::Function,
                Some(3) => Referent::Module,
                _ => Referent::Object,
            };
            stream.reference(
                referent,
                body[1].as_str().expect("a module"),
                body[2].as_str().expect("a name"),
            );
        }
        other => panic!("unknown kind {other}"),
    }
}

#[test]
fn the_stream_writes_the_golden_bytes() {
    let (_, json) = vectors();
    let vectors = json["vectors"].as_array().expect("vectors");
    assert!(vectors.len() > 80);
    for vector in vectors {
        let mut stream = Stream::new();
        write(&mut stream, &vector["value"]);
        let item: String = stream.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(item, vector["item"].as_str().expect("an item"), "item of {}", vector["name"]);
        let expected: Fingerprint =
            vector["fingerprint"].as_str().expect("a fingerprint").parse().expect("valid");
        assert_eq!(stream.finish(), expected, "fingerprint of {}", vector["name"]);
    }
}

#[test]
fn the_vectors_of_a_version_never_change() {
    let (text, json) = vectors();
    assert_eq!(json["version"], ENCODING_VERSION);
    assert_eq!(json["domain"], tag::DOMAIN);
    let pinned = PINNED.iter().find(|(version, _)| *version == ENCODING_VERSION);
    let (_, pinned) = pinned.expect("a new version of the encoding needs its vectors pinned here");
    let hash = blake3::hash(text.as_bytes()).to_hex();
    assert_eq!(hash.as_str(), *pinned, "the encoding changed: raise ENCODING_VERSION and add new vectors");
}

/// A plain value with an encoding of its own, for what the standard types do not cover in one type.
enum Plain {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    F32(f32),
    Str(String),
    Bytes(Vec<u8>),
    List(Vec<Plain>),
    Dict(Vec<(Plain, Plain)>),
    Set(Vec<Plain>),
}

impl Encode for Plain {
    fn encode<'a>(&'a self, slot: Slot<'_, 'a>) -> Written {
        match self {
            Self::None => slot.none(),
            Self::Bool(value) => value.encode(slot),
            Self::Int(value) => value.encode(slot),
            Self::Float(value) => value.encode(slot),
            Self::F32(value) => value.encode(slot),
            Self::Str(value) => value.encode(slot),
            Self::Bytes(value) => slot.bytes(value),
            Self::List(values) => values.encode(slot),
            Self::Dict(pairs) => slot
                .dict(pairs.len(), |entries| pairs.iter().for_each(|(key, value)| entries.pair(key, value))),
            Self::Set(values) => {
                slot.set(values.len(), |entries| values.iter().for_each(|value| entries.element(value)))
            }
        }
    }
}

fn plain(described: &Json) -> Option<Plain> {
    let object = match described {
        Json::Null => return Some(Plain::None),
        Json::Bool(value) => return Some(Plain::Bool(*value)),
        described => described.as_object()?,
    };
    let (kind, body) = object.iter().next()?;
    let all = || body.as_array()?.iter().map(plain).collect::<Option<Vec<_>>>();
    Some(match kind.as_str() {
        "int" => Plain::Int(body.as_str()?.parse().ok()?),
        "float" => Plain::Float(f64::from_bits(bits(body))),
        "f32" => Plain::F32(f32::from_bits(bits(body) as u32)),
        "str" => Plain::Str(String::from_utf8(text(body)).ok()?),
        "repeat" => Plain::Str(body[0].as_str()?.repeat(body[1].as_u64()? as usize)),
        "bytes" => Plain::Bytes(unhex(body.as_str()?)),
        "list" => Plain::List(all()?),
        "set" => Plain::Set(all()?),
        "dict" => Plain::Dict(
            body.as_array()?
                .iter()
                .map(|pair| Some((plain(&pair[0])?, plain(&pair[1])?)))
                .collect::<Option<_>>()?,
        ),
        _ => return None,
    })
}

#[test]
fn rust_values_have_the_golden_fingerprints() {
    let (_, json) = vectors();
    let mut checked = 0;
    for vector in json["vectors"].as_array().expect("vectors") {
        let Some(value) = plain(&vector["value"]) else { continue };
        let expected = vector["fingerprint"].as_str().expect("a fingerprint");
        assert_eq!(fingerprint(&value).hex(), expected, "{}", vector["name"]);
        checked += 1;
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn rust_types_that_equal_python_types() {
    let (_, json) = vectors();
    let by_name: BTreeMap<&str, &str> = json["vectors"]
        .as_array()
        .expect("vectors")
        .iter()
        .map(|vector| {
            (vector["name"].as_str().expect("a name"), vector["fingerprint"].as_str().expect("hex"))
        })
        .collect();
    #[derive(keyprint_fingerprint::Fingerprint)]
    #[fingerprint(rename = "shapes.plane:Point")]
    struct Point {
        x: i32,
        #[fingerprint(rename = "y")]
        height: f64,
        #[fingerprint(skip)]
        _cached: Option<String>,
    }
    #[derive(keyprint_fingerprint::Fingerprint)]
    #[fingerprint(rename = "shapes.plane:Empty")]
    struct Empty;
    let checks: [(&str, Fingerprint); 9] = [
        ("record", fingerprint(&Point { x: 1, height: 2.0, _cached: None })),
        ("record without fields", fingerprint(&Empty)),
        ("tuple", fingerprint(&(1u8, 2i64))),
        ("list", fingerprint(&vec![1, 2])),
        ("list", fingerprint(&[1, 2])),
        ("empty tuple", fingerprint(&())),
        ("bytes", fingerprint(&Bytes([0, 255, 16]))),
        ("none", fingerprint(&None::<u8>)),
        ("astral", fingerprint(&'🦀')),
    ];
    for (name, digest) in checks {
        assert_eq!(digest.hex(), by_name[name], "{name}");
    }
}
