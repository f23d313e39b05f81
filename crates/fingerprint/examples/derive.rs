//! The identity of a program's own types: what counts, what does not, and what equals a value of Python.
//!
//! `cargo run -p keyprint-fingerprint --example derive`

use std::collections::{BTreeSet, HashMap};

use keyprint_fingerprint::{Fingerprint, fingerprint};

#[derive(Clone, Fingerprint)]
enum Layout {
    Row,
    Tiled { width: u32, height: u32 },
}

#[derive(Clone, Fingerprint)]
struct Program {
    name: String,
    layout: Layout,
    tiles: HashMap<String, u32>,
    flags: BTreeSet<String>,
    #[fingerprint(skip)]
    last_run_seconds: f64,
}

fn main() {
    let program = Program {
        name: "laplacian".to_owned(),
        layout: Layout::Tiled { width: 64, height: 8 },
        tiles: [("x".to_owned(), 64), ("y".to_owned(), 8)].into(),
        flags: ["-O3", "-g"].map(str::to_owned).into(),
        last_run_seconds: 0.0,
    };
    println!("a program:          {}", fingerprint(&program));

    let later = Program { last_run_seconds: 1.5, ..program.clone() };
    assert_eq!(fingerprint(&program), fingerprint(&later), "what is skipped does not count");
    println!("after {} s:        {}", later.last_run_seconds, fingerprint(&later));

    let other = Program { layout: Layout::Row, ..program };
    assert_ne!(fingerprint(&other), fingerprint(&later));
    println!("with other layout:  {}", fingerprint(&other));

    // Plain values have the digest that Python's have: `keyprint.fingerprint({"x": 64, "y": 8})`.
    println!("{{'x': 64, 'y': 8}}: {}", fingerprint(&later.tiles));
}
