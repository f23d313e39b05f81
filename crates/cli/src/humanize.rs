//! Sizes and times as people say them.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `1.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// `1.5 s`, `12 min`.
pub(crate) fn duration(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    match seconds {
        _ if nanos < 1000 => format!("{nanos} ns"),
        _ if seconds < 1e-3 => format!("{:.0} us", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ if seconds < 120.0 => format!("{seconds:.1} s"),
        _ if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

/// `3 min ago`.
pub(crate) fn ago(when: SystemTime, now: SystemTime) -> String {
    let Ok(since) = now.duration_since(when) else { return "in the future".to_owned() };
    let seconds = since.as_secs();
    match seconds {
        0..60 => "just now".to_owned(),
        60..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

pub(crate) fn from_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}

pub(crate) fn to_millis(when: SystemTime) -> u64 {
    when.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Text from a file, which may have been forged: one line that does not steer the terminal.
pub(crate) fn clean(text: &str) -> String {
    keyprint_key::summary::shorten(text, 4 * keyprint_key::summary::MOST_CHARACTERS)
}

/// A path as it may be shown: names of files can hold anything, line ends and escapes among it.
pub(crate) fn shown(path: &Path) -> String {
    path.display()
        .to_string()
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

/// A time in words: `30 days`, `12h`, `45 min`.
pub(crate) fn parse_age(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "s" | "sec" | "seconds" => 1.0,
        "m" | "min" | "minutes" => 60.0,
        "h" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "week" | "weeks" => 7.0 * 86_400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * unit).ok()
}

/// `1 entry`, `5 entries`.
pub(crate) fn entries(count: u64) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

/// Whether a name is one that a pattern stands for; `*` is anything, and without one any part will do.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or("");
    let Some(last) = pieces.next_back() else { return name.contains(pattern) };
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(
            [0, 1023, 1024, 1_572_864, 10 << 30].map(size),
            ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "10.0 GiB"]
        );
        assert_eq!(
            [999, 45_000, 1_500_000, 90_000_000_000, 7_000_000_000_000].map(duration),
            ["999 ns", "45 us", "2 ms", "90.0 s", "117 min"]
        );
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(ago(at(0), at(59)), "just now");
        assert_eq!(ago(at(0), at(180)), "3 min ago");
        assert_eq!(ago(at(0), at(864_000)), "10 days ago");
        assert_eq!(ago(at(9), at(0)), "in the future");
    }

    #[test]
    fn ages_and_paths() {
        let days = |days: u64| Some(Duration::from_secs(days * 86_400));
        assert_eq!(
            (parse_age("30d"), parse_age("2 weeks"), parse_age(" 1 day ")),
            (days(30), days(14), days(1))
        );
        assert_eq!(parse_age("1.5h"), Some(Duration::from_secs(5400)));
        for text in ["", "30", "d", "-1d", "1 fortnight", "1e400d"] {
            assert_eq!(parse_age(text), None, "{text}");
        }
        assert_eq!(shown(Path::new("a\nb\u{1b}[31m/ä")), "a\\nb\\u{1b}[31m/ä");
    }

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("low", "my.lower", true),
            ("lower*", "my.lower", false),
            ("*lower", "my.lower", true),
            ("my.*er", "my.lower", true),
            ("a*b*c", "axxbxxc", true),
            ("a*b*c", "axxcxxb", false),
            ("ab*ba", "aba", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
