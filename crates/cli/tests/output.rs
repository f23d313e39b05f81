//! What the command line really prints.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use insta::assert_snapshot;
use keyprint_cli::{Context, run};
use keyprint_fingerprint::fingerprint;
use keyprint_key::{Component, KeyBuilder, Manifest, Part, Tool};
use keyprint_store::{Artifact, Config, Request, Store};

/// A Sunday.
const NOW: u64 = 1_800_000_000;

fn at(seconds_ago: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW - seconds_ago)
}

fn manifest(name: &str, tile: u32, flags: &str) -> Manifest {
    let mut key = KeyBuilder::new(name, Tool::new("lang", "1.2"), None);
    let part = |path: &str, value: u32| Part {
        path: path.into(),
        digest: fingerprint(&value),
        summary: value.to_string(),
    };
    let config = Component::new("config", fingerprint(&tile)).summary("Config");
    key.add(config.parts([part(".tile", tile), part(".order", 3)])).unwrap();
    key.add(Component::new("flags", fingerprint(flags)).summary(flags)).unwrap();
    key.add(Component::secret("env TOKEN", fingerprint("hunter2"))).unwrap();
    key.finish()
}

/// A small store with a history.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        let entries = [
            (900_000, "lower", 64, "-O2", 1_500, 2_000),
            (7_200, "lower", 64, "-O3", 2_500, 3_000_000),
            (600, "lower", 128, "-O3", 2_000, 500),
            (30, "sim.stencil[f64]", 8, "-O3", 45_000, 70_000),
        ];
        for (ago, name, tile, flags, build_ms, bytes) in entries {
            let manifest = manifest(name, tile, flags);
            let store = fixture.store(ago);
            let mut artifact = Artifact::new();
            artifact.add("kernel.so", vec![7; bytes]).unwrap();
            artifact.add("kernel.c", b"int main;".to_vec()).unwrap();
            // What is on record is a build; what is stored has a known build time.
            let _ = store.get_or_build(&Request::new(&manifest), || Ok::<_, ()>(Artifact::new()));
            store.put(&manifest, artifact.with_metadata(vec![1; 10]), Duration::from_millis(build_ms));
        }
        fixture
    }

    fn empty() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn store(&self, ago: u64) -> Store {
        let clock = Arc::new(move || at(ago));
        Store::open(Config { clock, sync: false, ..Config::at(self.path()) })
    }

    /// Runs a command line and shows what it printed, with what differs between runs replaced.
    fn run(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.output(arguments);
        let mut shown = format!("$ keyprint {}\n{out}", arguments.join(" "));
        if !err.is_empty() {
            shown.push_str(&format!("--- stderr\n{err}"));
        }
        if code != 0 {
            shown.push_str(&format!("--- exit code {code}\n"));
        }
        shown
            .replace(&self.path().display().to_string(), "[store]")
            .replace(concat!("keyprint ", env!("CARGO_PKG_VERSION")), "keyprint [version]")
    }

    fn output(&self, arguments: &[&str]) -> (i32, String, String) {
        let (code, out, err) = self.pipe(arguments, &[]);
        (code, String::from_utf8(out).unwrap(), err)
    }

    /// Runs a command line with something at its standard input.
    fn pipe(&self, arguments: &[&str], mut input: &[u8]) -> (i32, Vec<u8>, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let dir = [OsString::from("keyprint"), "--dir".into(), self.path().into()];
        let arguments = dir.into_iter().chain(arguments.iter().map(OsString::from));
        let context = Context {
            out: &mut out,
            err: &mut err,
            input: &mut input,
            out_is_terminal: false,
            err_is_terminal: false,
            modules: &[],
            now: at(0),
        };
        let code = run(arguments, context);
        (code, out, String::from_utf8(err).unwrap())
    }

    fn first_file(&self) -> std::path::PathBuf {
        let (_, out, _) = self.output(&["ls", "--json", "--sort", "age", "--reverse"]);
        let listed: serde_json::Value = serde_json::from_str(&out).unwrap();
        let hex = listed[0]["key"].as_str().unwrap();
        self.path().join(format!("v1/entries/{}/{}.kpe", &hex[..2], &hex[2..]))
    }
}

#[test]
fn ls() {
    let fixture = Fixture::new();
    assert_snapshot!(fixture.run(&["ls"]));
    assert_snapshot!("ls_by_size", fixture.run(&["ls", "--sort", "size", "--limit", "2"]));
    assert_snapshot!("ls_by_name", fixture.run(&["ls", "low*", "--sort", "name", "--reverse"]));
    assert_snapshot!("ls_of_nothing", fixture.run(&["ls", "nothing like it"]));
    assert_snapshot!("ls_in_an_empty_store", Fixture::empty().run(&["ls"]));
    std::fs::remove_file(fixture.first_file()).unwrap();
    assert_snapshot!("ls_with_one_gone", fixture.run(&["ls", "--limit", "2"]));
    assert_snapshot!("ls_as_json", fixture.run(&["ls", "--json", "--sort", "age", "--limit", "1"]));
}

#[test]
fn show() {
    let fixture = Fixture::new();
    let key = manifest("lower", 64, "-O2").key().hex();
    assert_snapshot!(fixture.run(&["show", &key[..8]]));
    assert_snapshot!("show_as_json", fixture.run(&["show", &key.to_uppercase(), "--json"]));
}

#[test]
fn keys_that_are_mistyped() {
    let fixture = Fixture::new();
    let key = manifest("lower", 64, "-O2").key().hex();
    let close = format!("{}{}", &key[..6], if &key[6..7] == "0" { "1" } else { "0" });
    assert_snapshot!("not_a_key", fixture.run(&["show", "lower"]));
    assert_snapshot!("nearly_a_key", fixture.run(&["show", &close]));
    assert_snapshot!("an_ambiguous_key", fixture.run(&["show", ""]));
    assert_snapshot!("too_long_a_key", fixture.run(&["show", &"0".repeat(65)]));
    assert_snapshot!("a_key_of_nothing", Fixture::empty().run(&["show", "abcd"]));
}

#[test]
fn why() {
    let fixture = Fixture::new();
    let keys = [("-O2", 64), ("-O3", 128)].map(|(flags, tile)| manifest("lower", tile, flags).key().hex());
    assert_snapshot!(fixture.run(&["why", "--last"]));
    assert_snapshot!("why_of_a_key", fixture.run(&["why", &keys[1][..10]]));
    assert_snapshot!("why_of_two_keys", fixture.run(&["why", &keys[0][..10], &keys[1][..10]]));
    assert_snapshot!("why_as_json", fixture.run(&["why", "--last", "1", "--json"]));
    assert_snapshot!("why_of_the_same", fixture.run(&["why", &keys[0], &keys[0]]));
    assert_snapshot!("why_without_misses", Fixture::empty().run(&["why", "--last"]));
    assert_snapshot!("why_of_nothing", fixture.run(&["why"]));
}

#[test]
fn stats() {
    assert_snapshot!(Fixture::empty().run(&["stats"]));
    let fixture = Fixture::new();
    let (code, out, _) = fixture.output(&["stats"]);
    assert_eq!(code, 0);
    for line in ["Entries           4", "Misses            4", "  on disk         0"] {
        assert!(out.contains(line), "{out}");
    }
}

#[test]
fn verify() {
    let fixture = Fixture::new();
    assert_snapshot!(fixture.run(&["verify"]));
    let path = fixture.first_file();
    let mut damaged = std::fs::read(&path).unwrap();
    let at = damaged.len() - 20;
    damaged[at] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    assert_snapshot!("verify_finds_damage", fixture.run(&["verify", "--keep"]));
    assert_snapshot!("verify_puts_aside", fixture.run(&["verify"]));
    assert_snapshot!("verify_afterwards", fixture.run(&["verify"]));
}

#[test]
fn gc_and_clear() {
    let fixture = Fixture::new();
    assert_snapshot!("gc", fixture.run(&["gc", "--size", "100 KiB"]));
    assert_snapshot!("gc_with_a_bad_size", fixture.run(&["gc", "--size", "ten"]));
    assert_snapshot!("clear_dry_run", fixture.run(&["clear", "--dry-run"]));
    assert_snapshot!("clear_some", fixture.run(&["clear", "sim*"]));
    assert_snapshot!("clear_all", fixture.run(&["clear"]));
}

#[test]
fn transfer() {
    let fixture = Fixture::new();
    let file = fixture.path().join("warm.kpx");
    let file = file.to_str().unwrap();
    assert_snapshot!("export", fixture.run(&["export", file, "low*"]));
    assert_snapshot!("import_what_is_there", fixture.run(&["import", file]));
    let other = Fixture::empty();
    let shown = |text: String| text.replace(file, "warm.kpx");
    // Sealed with another secret.
    let mut foreign = std::fs::read(file).unwrap();
    let seal = foreign.len() - 32;
    foreign[seal..].fill(7);
    std::fs::write(file, &foreign).unwrap();
    assert_snapshot!("import_of_somebody_elses", shown(other.run(&["import", file])));
    assert_snapshot!("import_trusted", shown(other.run(&["import", file, "--trust"])));
    let mut damaged = std::fs::read(file).unwrap();
    damaged[200] ^= 1;
    std::fs::write(file, damaged).unwrap();
    assert_snapshot!("import_damaged", shown(other.run(&["import", file, "--trust"])));
    assert_snapshot!("import_of_nothing", other.run(&["import", "no such file"]));
    std::fs::write(file, "something else").unwrap();
    assert_snapshot!("import_of_something_else", shown(other.run(&["import", file])));
    assert_snapshot!("export_to_nowhere", other.run(&["export", "/nowhere/at/all"]));
}

#[test]
fn exports_go_through_pipes() {
    let (fixture, other) = (Fixture::new(), Fixture::empty());
    let (code, export, err) = fixture.pipe(&["export", "-"], &[]);
    assert_eq!((code, &*err), (0, ""));
    let (code, out, _) = other.pipe(&["import", "-", "--trust"], &export);
    assert_eq!((code, String::from_utf8(out).unwrap()), (0, "imported 4 entries (2.9 MiB)\n".to_owned()));
    let (code, out, err) = Fixture::empty().pipe(&["import", "-", "--trust"], &export[..1000]);
    assert!(code == 1 && out.is_empty() && err.contains("cut short"), "{err}");
}

#[test]
fn one_entry() {
    let fixture = Fixture::new();
    let key = manifest("lower", 64, "-O2").key().hex();
    assert_snapshot!("extract", fixture.run(&["extract", &key[..8], "kernel.c"]));
    assert_snapshot!("extract_no_such_part", fixture.run(&["extract", &key[..8], "kernel"]));
    let file = fixture.path().join("kernel.so");
    let (code, _, err) = fixture.output(&["extract", &key, "kernel.so", "-o", file.to_str().unwrap()]);
    assert_eq!((code, &*err, std::fs::read(&file).unwrap()), (0, "", vec![7; 2000]));
    assert_snapshot!("rm", fixture.run(&["rm", &key[..8]]));
    assert_snapshot!("rm_again", fixture.run(&["rm", &key]));
    assert_snapshot!("rm_nothing", fixture.run(&["rm", ""]));
}

#[test]
fn what_is_old() {
    let fixture = Fixture::new();
    assert_snapshot!("gc_dry_run", fixture.run(&["gc", "--older-than", "1 day", "--dry-run"]));
    assert_snapshot!("gc_older_than", fixture.run(&["gc", "--older-than", "1h"]));
    assert_snapshot!("gc_with_a_bad_time", fixture.run(&["gc", "--older-than", "1"]));
    let (_, out, _) = fixture.output(&["stats", "--zero"]);
    assert!(out.contains("Misses            0\n") && out.contains("Entries           2\n"), "{out}");
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let fixture = Fixture::empty();
    let nowhere = fixture.path().join("nowhere");
    for arguments in
        [&["ls"][..], &["stats"], &["gc"], &["clear"], &["verify"], &["why", "--last"], &["show", "ab"]]
    {
        let arguments = [&["--dir", nowhere.to_str().unwrap()], arguments].concat();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let context = Context {
            out: &mut out,
            err: &mut err,
            input: &mut std::io::empty(),
            out_is_terminal: false,
            err_is_terminal: false,
            modules: &[],
            now: at(0),
        };
        let words = std::iter::once("keyprint").chain(arguments.iter().copied()).map(OsString::from);
        assert_eq!(run(words, context), 1, "{arguments:?}");
        let err = String::from_utf8(err).unwrap();
        assert!(err.contains("there is no store in `") && err.contains("hint: is `--dir`"), "{err}");
        assert!(!nowhere.exists());
    }
}

#[test]
fn odd_names() {
    let fixture = Fixture::empty();
    let store = fixture.store(60);
    for name in ["漢字のカーネル", "plain", "line\nbreak\u{1b}[31m", ".kept for itself"] {
        store.put(&manifest(name, 1, ""), Artifact::single(vec![1]), Duration::from_millis(3));
    }
    assert_snapshot!("ls_odd_names", fixture.run(&["ls", "--sort", "name"]));
    assert_snapshot!("ls_all", fixture.run(&["ls", "--sort", "name", "--all"]));
    std::fs::write(fixture.path().join("v1/entries/odd\nname\u{1b}[31m"), "").unwrap();
    assert_snapshot!("verify_passes_over", fixture.run(&["verify"]));
    assert_snapshot!("clear_passes_over", fixture.run(&["clear"]));
}

#[test]
fn path_and_arguments() {
    let fixture = Fixture::empty();
    assert_snapshot!("path", fixture.run(&["path"]));
    assert_snapshot!("help", fixture.run(&["--help"]));
    assert_snapshot!("help_of_why", fixture.run(&["why", "--help"]));
    assert_snapshot!("no_command", fixture.run(&["shwo"]));
}

#[test]
fn doctor() {
    let fixture = Fixture::empty();
    let (code, out, err) = fixture.output(&["doctor"]);
    assert_eq!((code, &*err), (0, ""), "{out}");
    for check in [
        "directory",
        "trust",
        "file system",
        "space",
        "locks",
        "contents",
        "loading",
        "open files",
        "compiler",
    ] {
        assert!(out.contains(check), "{out}");
    }
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(fixture.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (code, out, _) = fixture.output(&["doctor"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("BAD   trust") && out.contains("chmod go-w"), "{out}");
}

#[test]
fn completions() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = Fixture::empty().output(&["completions", shell]);
        assert!(code == 0 && out.contains("export") && out.contains("doctor"), "{shell}");
    }
}

#[test]
fn colours_are_asked_for() {
    let fixture = Fixture::new();
    let (_, plain, _) = fixture.output(&["ls"]);
    let (_, coloured, _) = fixture.output(&["ls", "--color", "always"]);
    assert!(!plain.contains('\x1b') && coloured.contains("\x1b[1mKEY"));
}
