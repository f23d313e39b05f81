use keyprint_fingerprint::Fingerprint;

#[derive(Fingerprint)]
#[fingerprint(skip)]
struct Point {
    x: i32,
}

#[derive(Fingerprint)]
struct Other {
    #[fingerprint(ignore)]
    x: i32,
}

#[derive(Fingerprint)]
struct Twice {
    #[fingerprint(rename = "y")]
    x: i32,
    y: i32,
}

fn main() {}
