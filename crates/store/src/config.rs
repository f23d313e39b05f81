//! [`Config`]: what a store is told, by its caller and by the environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thiserror::Error;

use crate::env;
use crate::io::Io;
use crate::notice::{self, Notice};
use crate::tier::Tier;

/// The size limit of the local disk unless told otherwise: 10 GiB.
pub const DEFAULT_SIZE: u64 = 10 << 30;

/// The size limit of the memory tier unless told otherwise: 256 MiB.
pub const DEFAULT_MEMORY: u64 = 256 << 20;

/// How long a waiter waits for somebody else's build unless told otherwise.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(300);

/// What a store is told.
#[derive(Clone)]
pub struct Config {
    /// The directory of the local disk tier; without one there is no such tier.
    pub path: Option<PathBuf>,
    /// The most bytes on the local disk.
    pub size: u64,
    /// The most bytes in memory; 0 switches the memory tier off.
    pub memory: u64,
    /// Never write below `path`.
    pub readonly: bool,
    /// Whether an entry is on the platter before it is published.
    pub sync: bool,
    /// How long to wait for somebody else's build before building privately.
    pub wait: Duration,
    /// Read-only directories of other stores, asked after the local disk.
    pub shared: Vec<SharedDir>,
    /// Further tiers, asked last.
    pub tiers: Vec<Arc<dyn Tier>>,
    /// Told about each kind of trouble once.
    pub notify: Arc<dyn Fn(&Notice) + Send + Sync>,
    /// Tells the time of day.
    pub clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// The system calls; tests put faults before them.
    pub io: Io,
}

/// A read-only, pre-warmed directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedDir {
    /// Where it is: what was the `path` of the store that filled it.
    pub path: PathBuf,
    /// Whether to use it although others can write it.
    pub trusted: bool,
}

/// Why a configuration is none.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Not a size.
    #[error("`{text}` is not a size{}\nhint: write `10 GiB`, `500 MB` or a number of bytes", origin(.from))]
    Size {
        /// What was found.
        text: String,
        /// The variable it was found in.
        from: Option<&'static str>,
    },
    /// Not a duration.
    #[error("`{text}` is not a number of seconds{}", origin(.from))]
    Seconds {
        /// What was found.
        text: String,
        /// The variable it was found in.
        from: Option<&'static str>,
    },
}

fn origin(variable: &Option<&'static str>) -> String {
    variable.map_or_else(String::new, |name| format!(" (from `{name}`)"))
}

impl Config {
    /// A store in a directory, told nothing else.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: Some(path.into()),
            size: DEFAULT_SIZE,
            memory: DEFAULT_MEMORY,
            readonly: false,
            sync: true,
            wait: DEFAULT_WAIT,
            shared: Vec::new(),
            tiers: Vec::new(),
            notify: Arc::new(notice::print),
            clock: Arc::new(SystemTime::now),
            io: Io::default(),
        }
    }

    /// What the environment says: `KEYPRINT_CACHE_DIR`, `KEYPRINT_CACHE_SIZE`, `KEYPRINT_CACHE_WAIT`.
    ///
    /// # Errors
    ///
    /// If a variable holds something that it cannot hold.
    pub fn from_env() -> Result<Self, ConfigError> {
        let mut config = Self { path: default_path(), ..Self::at("") };
        if let Some(text) = env::CACHE_SIZE.get() {
            config.size =
                parse_size(&text).ok_or(ConfigError::Size { text, from: Some(env::CACHE_SIZE.name) })?;
        }
        if let Some(text) = env::CACHE_WAIT.get() {
            config.wait = parse_seconds(&text)
                .ok_or(ConfigError::Seconds { text, from: Some(env::CACHE_WAIT.name) })?;
        }
        Ok(config)
    }
}

/// The directory of the store: `KEYPRINT_CACHE_DIR`, or the platform's cache directory.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    if let Some(path) = env::CACHE_DIR.get() {
        return Some(PathBuf::from(path));
    }
    // A relative one is to be ignored, says the specification.
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().filter(|home| home.is_absolute());
    let in_home = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
    Some(base.or_else(|| home().map(|home| home.join(in_home)))?.join("keyprint"))
}

/// A size in words: `10 GiB`, `500MB`, `1.5g`, `4096`.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let number: f64 = text[..digits].replace('_', "").parse().ok()?;
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    let bytes = number * unit as f64;
    (bytes.is_finite() && bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// A duration in seconds, also with a fraction.
#[must_use]
pub fn parse_seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A path that stays the same when the working directory changes.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_words() {
        for (text, bytes) in [
            ("10 GiB", 10 << 30),
            ("500MB", 500_000_000),
            ("1.5g", 3 << 29),
            ("4096", 4096),
            ("0", 0),
            (" 2 KiB ", 2048),
            ("1_000", 1000),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "GiB", "ten", "-1", "1 XB", "1e400", "99999999999 TiB", "nan", "."] {
            assert_eq!(parse_size(text), None, "{text}");
        }
        assert_eq!(parse_seconds("0.5"), Some(Duration::from_millis(500)));
        assert_eq!((parse_seconds("-1"), parse_seconds("nan"), parse_seconds("x")), (None, None, None));
    }
}
