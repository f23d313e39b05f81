//! [`Config`]: what a store is told, by its caller and by the environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thiserror::Error;

use crate::env;
use crate::io::Io;
use crate::notice::{self, Notice};
use crate::secret::default_config_path;
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
    /// Never write below `path`, and say nothing about not doing so.
    pub readonly: bool,
    /// Ask no tier and keep nothing beyond this process: as if there were no store.
    pub disabled: bool,
    /// Build everything once more, and store it in place of what was.
    pub recache: bool,
    /// The directory of the user's secret, which seals exports.
    pub private: Option<PathBuf>,
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
            disabled: false,
            recache: false,
            private: default_config_path(),
            sync: true,
            wait: DEFAULT_WAIT,
            shared: Vec::new(),
            tiers: Vec::new(),
            notify: Arc::new(notice::print),
            clock: Arc::new(SystemTime::now),
            io: Io::default(),
        }
    }

    /// What the environment says: `KEYPRINT_CACHE_DIR`, `_CACHE_SIZE`, `_CACHE_WAIT`, `_DISABLE`, `_READONLY` and
    /// `_RECACHE`.
    ///
    /// # Errors
    ///
    /// If a variable holds something that it cannot hold.
    pub fn from_env() -> Result<Self, ConfigError> {
        let mut config = Self { path: default_path(), ..Self::at("") };
        config.follow_switches();
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

impl Config {
    /// Lets the environment's switches have their say: `KEYPRINT_DISABLE`, `KEYPRINT_READONLY`, `KEYPRINT_RECACHE`.
    pub fn follow_switches(&mut self) {
        self.disabled |= env::DISABLE.is_set();
        self.readonly |= env::READONLY.is_set();
        self.recache |= env::RECACHE.is_set();
    }
}

/// The directory of the store: `KEYPRINT_CACHE_DIR`, or the platform's cache directory.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    env::CACHE_DIR.path().or_else(|| env::platform_directory("XDG_CACHE_HOME", ".cache", "Library/Caches"))
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

/// A path that stays the same when the working directory changes, `~` for the home directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let path = env::expand_home(path);
    std::path::absolute(&path).unwrap_or(path)
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
