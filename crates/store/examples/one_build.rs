//! Many threads miss at once: one builds, the others wait and find it; so does the next process.
//!
//! `cargo run -p keyprint-store --example one_build`

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use keyprint_fingerprint::fingerprint;
use keyprint_key::{Component, KeyBuilder, Tool};
use keyprint_store::{Artifact, Config, Request, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let mut key = KeyBuilder::new("lower", Tool::new("mylang", "1.2"), None);
    key.add(Component::new("source", fingerprint("y = x + 1")))?;
    let manifest = key.finish();
    let builds = AtomicU32::new(0);
    let compile = || {
        builds.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(50));
        Ok::<_, std::io::Error>(Artifact::single(b"object code".to_vec()))
    };

    let store = Store::open(Config::at(directory.path()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let found = store.get_or_build(&Request::new(&manifest), compile).expect("compiling works");
                assert_eq!(found.entry.part("data"), Some(&b"object code"[..]));
            });
        }
    });
    println!("8 threads, {} build", builds.load(Ordering::Relaxed));
    assert_eq!(builds.load(Ordering::Relaxed), 1);

    // As another process would: a hit is proved by a build that cannot succeed.
    let store = Store::open(Config::at(directory.path()));
    let never = || Err(std::io::Error::other("never called"));
    let found = store.get_or_build(&Request::new(&manifest), never)?;
    println!("found again: {} bytes, verified", found.entry.part("data").map_or(0, <[u8]>::len));
    Ok(())
}
