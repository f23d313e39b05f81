//! Derive-encoded trees: `cargo bench -p keyprint-fingerprint`.
//!
//! Each value is timed beside hashing a flat copy of about as many bytes, which is the floor.

use divan::{Bencher, black_box};
use keyprint_fingerprint::{Fingerprint, fingerprint};

fn main() {
    divan::main();
}

#[derive(Fingerprint)]
struct Small {
    a: i64,
    b: f64,
    c: String,
}

#[derive(Fingerprint)]
enum Expr {
    Literal(f64),
    Name(String),
    Call { function: Box<Expr>, arguments: Vec<Expr> },
}

fn tree(depth: usize) -> Expr {
    if depth == 0 {
        return Expr::Name("x".into());
    }
    let arguments = vec![tree(depth - 1), tree(depth - 1), Expr::Literal(depth as f64)];
    Expr::Call { function: Box::new(Expr::Name("plus".into())), arguments }
}

#[divan::bench]
fn small_structs_2400(bencher: Bencher<'_, '_>) {
    let values: Vec<Small> =
        (0..2400).map(|i| Small { a: i, b: i as f64 * 0.5, c: format!("name{i}") }).collect();
    bencher.bench(|| fingerprint(black_box(&values)));
}

#[divan::bench]
fn tree_of_2558_nodes(bencher: Bencher<'_, '_>) {
    let value = tree(9);
    bencher.bench(|| fingerprint(black_box(&value)));
}

#[divan::bench]
fn flat_bytes_140k(bencher: Bencher<'_, '_>) {
    let bytes = vec![7u8; 140_000];
    bencher.bench(|| fingerprint(black_box(&keyprint_fingerprint::Bytes(&bytes))));
}
