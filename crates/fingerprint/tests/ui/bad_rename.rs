use keyprint_fingerprint::Fingerprint;

#[derive(Fingerprint)]
#[fingerprint(rename = "Point")]
struct Point {
    x: i32,
}

fn main() {}
