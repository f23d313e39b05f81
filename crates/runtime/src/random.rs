//! Keys for random numbers: one for each launch, from a seed and a count.
//!
//! Kernels draw numbers by counting: which launch, which iteration, which draw. So what is drawn does not
//! depend on threads.

use std::sync::atomic::{AtomicU64, Ordering};

static SEED: AtomicU64 = AtomicU64::new(0);
static LAUNCHES: AtomicU64 = AtomicU64::new(0);

/// Begins anew: what is drawn from here on depends on the seed alone.
pub fn seed(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
    LAUNCHES.store(0, Ordering::Relaxed);
}

/// The key of the next launch: odd, and without a pattern.
pub extern "C" fn launch() -> u64 {
    let number = LAUNCHES.fetch_add(1, Ordering::Relaxed);
    mix(SEED.load(Ordering::Relaxed) ^ mix(number)) | 1
}

/// SplitMix64's last step.
fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
