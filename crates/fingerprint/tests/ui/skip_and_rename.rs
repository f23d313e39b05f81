use keyprint_fingerprint::Fingerprint;

#[derive(Fingerprint)]
struct Point {
    #[fingerprint(skip, rename = "y")]
    x: i32,
}

fn main() {}
