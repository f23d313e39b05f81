use keyprint_fingerprint::Fingerprint;

#[derive(Fingerprint)]
union Either {
    a: u32,
    b: f32,
}

fn main() {}
