//! The golden container is read, and written again byte for byte.

use keyprint_key::Key;
use keyprint_store::{Config, Origin, Store};

const GOLDEN: &[u8] = include_bytes!("../../../tests/vectors/container-v1.kpe");

#[test]
fn the_golden_container_is_read_and_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let key = Key::from_bytes(*GOLDEN[16..48].first_chunk().unwrap());
    let hex = key.hex();
    let shard = directory.path().join("v1/entries").join(&hex[..2]);
    std::fs::create_dir_all(&shard).unwrap();
    std::fs::write(shard.join(format!("{}.kpe", &hex[2..])), GOLDEN).unwrap();
    let store = Store::open(Config::at(directory.path()));
    let entry = store.get(&key).expect("a reader of version 1 reads what version 1 wrote");
    assert_eq!(entry.names().collect::<Vec<_>>(), ["kernel.so", "lib/notes.txt", "empty"]);
    assert_eq!(entry.manifest().unwrap().key(), key);
    assert_eq!((entry.info().build_ns, entry.origin()), (1_500_000_000, Origin::Disk));
    assert!(entry.to_container() == GOLDEN, "a writer of version 1 writes what it always wrote");
    assert_eq!(store.verify(true, |_, _| ()).whole, 1);
}
