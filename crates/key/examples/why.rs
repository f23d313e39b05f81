//! A key over everything that an artifact depends on, and why another one is another.
//!
//! `cargo run -p keyprint-key --example why`

use keyprint_fingerprint::fingerprint;
use keyprint_key::{Component, KeyBuilder, KeyError, Manifest, Tool};

fn key(source: &str, tile: u32, token: &str) -> Result<Manifest, KeyError> {
    let mut key = KeyBuilder::new("lower", Tool::new("mylang", "1.2"), None);
    key.add(Component::new("source", fingerprint(source)).summary(source))?;
    key.add(Component::new("tile", fingerprint(&tile)).summary(tile.to_string()))?;
    // What must not be read by people who read manifests leaves its digest and nothing else.
    key.add(Component::secret("token", fingerprint(token)))?;
    Ok(key.finish())
}

fn main() -> Result<(), KeyError> {
    let first = key("y = x + 1", 64, "abc")?;
    let later = key("y = x + 1", 128, "abd")?;
    println!("{} {}", first.name(), first.key().short());
    println!("{} {}", later.name(), later.key().short());
    println!("what changed:\n{}", first.compare(&later));
    assert_eq!(first.key(), key("y = x + 1", 64, "abc")?.key());
    // A manifest is kept with the artifact, and read back by whoever asks why.
    let kept = Manifest::from_bytes(&first.to_bytes()).expect("what was just written");
    assert_eq!(kept.key(), first.key());
    Ok(())
}
