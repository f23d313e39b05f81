//! Writers killed at random points, thousands of times, while others read.

mod support;

use std::time::Duration;

use support::{build, check, config, entry_file, files, hit, right_or_nothing};

const SIZE: usize = 50_000;
const KILLS: u64 = 2000;

#[test]
fn writers_are_killed_at_random_points() {
    if let Some((role, path)) = support::role() {
        // Publishes and replaces until it is killed.
        let store = support::store(&path);
        let base: u64 = role.parse().unwrap();
        for number in (0..).map(|i| base + i % 3) {
            check(&build(&store, number, SIZE), number, SIZE);
            let _ = store.remove(&support::key(number));
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = support::store(path);
    build(&store, 99, SIZE);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut seen = 0;
    for round in 0..KILLS / 4 {
        let mut children: Vec<_> = (0..4)
            .map(|i| support::child("writers_are_killed_at_random_points", &i.to_string(), path))
            .collect();
        for child in &mut children {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_micros((random >> 33) % 4000));
            child.kill().unwrap();
        }
        for child in children {
            let done = child.wait_with_output().unwrap();
            assert!(
                !done.status.success() && done.stderr.is_empty(),
                "{}",
                String::from_utf8_lossy(&done.stderr)
            );
        }
        seen += (0..6).filter(|number| right_or_nothing(&store, *number, SIZE)).count();
        hit(&store, 99, SIZE);
        if round % 50 == 0 {
            // Nobody holds a lock any more, and everything can be built.
            for number in 0..6 {
                check(&build(&store, number, SIZE), number, SIZE);
            }
        }
    }
    assert!(seen > 0, "no writer ever published: the test tests nothing");
    assert_eq!(store.verify(true, |_, _| ()).damaged.len(), 0, "no torn entry was ever published");
    assert!(entry_file(path, 99).exists());
    // What the dead left behind goes, once it is old enough.
    let later = support::Clock::at(0);
    later.set(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 1000);
    let store =
        keyprint_store::Store::open(keyprint_store::Config { clock: later.function(), ..config(path) });
    support::gc(&store, None).unwrap().unwrap();
    assert_eq!(files(&path.join("v1/staging")).len(), 0);
    hit(&store, 99, SIZE);
}
