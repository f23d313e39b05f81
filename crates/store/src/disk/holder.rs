//! [`Holder`]: which process has something, and whether it still is there.

use std::cell::Cell;
use std::fmt;

/// A process, so that it is recognised although ids are used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) process: u32,
    /// When the process started, in the kernel's ticks.
    started: u64,
    /// What its id means something in: host and namespace of processes.
    namespace: String,
}

/// Whether a process is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It is, or nobody here can tell.
    There,
    /// It is, and does nothing: it was stopped.
    Stopped,
    /// It is gone.
    Gone,
}

impl Holder {
    /// This process, where processes can be looked at.
    pub(crate) fn this() -> Option<Self> {
        thread_local! {
            // A forked child has another id.
            static STARTED: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
        }
        let process = std::process::id();
        if STARTED.get().0 != process {
            STARTED.set((process, look_at(process)?.1));
        }
        Some(Self { process, started: STARTED.get().1, namespace: namespace() })
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let process = words.next()?.parse().ok()?;
        let started = words.next()?.parse().ok()?;
        Some(Self { process, started, namespace: words.next()?.to_owned() })
    }

    /// Whether the process is there, as far as this one can tell.
    pub(crate) fn presence(&self) -> Presence {
        if self.namespace == namespace() { presence(self.process, self.started) } else { Presence::There }
    }

    /// A short form, for names of files.
    pub(crate) fn tag(&self) -> String {
        format!("{}.{}.{}", self.process, self.started, short_namespace(&self.namespace))
    }

    /// Whether the process of a name that begins with a [`tag`](Self::tag) is known to be gone.
    pub(crate) fn is_gone(name: &str) -> bool {
        let mut words = name.split(['.', '-']);
        let mut number = || words.next()?.parse::<u64>().ok();
        let (Some(process), Some(started)) = (number(), number()) else { return false };
        let Ok(process) = u32::try_from(process) else { return false };
        words.next() == Some(&short_namespace(&namespace())) && presence(process, started) == Presence::Gone
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.process, self.started, self.namespace)
    }
}

fn presence(process: u32, started: u64) -> Presence {
    match look_at(process) {
        Some((state, since)) if since == started => match state {
            // A zombie has let go of its files; whoever still holds a lock of it is a child of it.
            'Z' => Presence::Gone,
            'T' | 't' => Presence::Stopped,
            _ => Presence::There,
        },
        _ => Presence::Gone,
    }
}

/// The state of a process and when it started; `None` if it is not there.
fn look_at(process: u32) -> Option<(char, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program stands in brackets and may hold anything.
    let mut words = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = words.next()?.chars().next()?;
    Some((state, words.nth(18)?.parse().ok()?))
}

/// Where process ids mean something: the host, since it started, and the namespace.
fn namespace() -> String {
    static NAMESPACE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let text = || {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        format!("{} {}", boot.trim(), space.display())
    };
    NAMESPACE.get_or_init(text).clone()
}

fn short_namespace(namespace: &str) -> String {
    blake3::hash(namespace.as_bytes()).to_hex()[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_recognised() {
        let this = Holder::this().unwrap();
        assert_eq!(Holder::parse(&this.to_string()), Some(this.clone()));
        assert_eq!(this.presence(), Presence::There);
        let earlier = Holder { started: this.started + 1, ..this.clone() };
        assert_eq!(earlier.presence(), Presence::Gone, "another process had that id");
        let elsewhere = Holder { namespace: "other".to_owned(), ..earlier.clone() };
        assert_eq!(elsewhere.presence(), Presence::There, "nobody here can tell");
        assert!(!Holder::is_gone(&format!("{}-7", this.tag())));
        assert!(Holder::is_gone(&format!("{}-7", earlier.tag())));
        for name in ["", "young", "1-2-3", "1.2.3", &elsewhere.tag()] {
            assert!(!Holder::is_gone(name), "{name}");
        }
    }

    #[test]
    fn stopped_and_dead_processes() {
        use rustix::process::{Pid, Signal, kill_process};
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (_, started) = look_at(child.id()).unwrap();
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).unwrap();
        while presence(child.id(), started) != Presence::Stopped {
            std::thread::yield_now();
        }
        kill_process(pid, Signal::KILL).unwrap();
        while presence(child.id(), started) != Presence::Gone {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(presence(child.id(), started), Presence::Gone);
    }
}
