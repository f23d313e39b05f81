//! The command line of Keyprint, as a library: the Python package runs the same code as the binary.
//!
//! [`run`], on the standard streams [`run_standard`], parses arguments, does what they say against a store, and returns the exit code: 0 for
//! success, 1 if something was found wrong or could not be done, 2 for arguments that make no sense.
//!
//! `args` says what can be asked for; `commands` has one file per command; `output` knows terminals
//! and JSON; `progress` shows how far long work is; `humanize` turns sizes and times into text; `find` turns
//! prefixes into keys.

mod args;
mod commands;
mod find;
mod humanize;
mod output;
mod progress;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{CommandFactory, FromArgMatches};
use keyprint_store::env::expand_home;
use keyprint_store::{Config, ConfigError, Store};
use thiserror::Error;

use args::{Args, Command};
use humanize::shown;
use output::Output;
use progress::Progress;

/// What a run is told about the world.
pub struct Context<'a> {
    /// Where results go.
    pub out: &'a mut dyn Write,
    /// Where an export may come from.
    pub input: &'a mut dyn Read,
    /// Where errors and progress go.
    pub err: &'a mut dyn Write,
    /// Whether results go to a terminal.
    pub out_is_terminal: bool,
    /// Whether errors go to a terminal.
    pub err_is_terminal: bool,
    /// The time of day.
    pub now: SystemTime,
    /// Where modules of Python are found, if Python runs this: packages there may have compilers.
    pub modules: &'a [PathBuf],
}

/// Why a command could not be done.
#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Find(#[from] find::FindError),
    #[error(transparent)]
    Transfer(#[from] keyprint_store::transfer::TransferError),
    #[error("{what}: {cause}")]
    Io { what: String, cause: io::Error },
    #[error("{0}")]
    Said(String),
}

impl Failure {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |cause| Self::Io { what, cause }
    }
}

/// How a command ended, if it could be done.
type Done = Result<i32, Failure>;

/// Runs the command line on the standard streams. `args` begins with the program's name.
pub fn run_standard(args: impl IntoIterator<Item = OsString>, modules: &[PathBuf]) -> i32 {
    let (mut out, mut err, mut input) = (io::stdout(), io::stderr(), io::stdin());
    let (out_is_terminal, err_is_terminal) = (out.is_terminal(), err.is_terminal());
    let context = Context {
        out: &mut out,
        err: &mut err,
        input: &mut input,
        out_is_terminal,
        err_is_terminal,
        now: SystemTime::now(),
        modules,
    };
    run(args, context)
}

/// Runs the command line. `args` begins with the program's name.
pub fn run(args: impl IntoIterator<Item = OsString>, context: Context<'_>) -> i32 {
    let matches = match Args::command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => {
            let text = error.render();
            let wants_colour =
                if error.use_stderr() { context.err_is_terminal } else { context.out_is_terminal };
            let text = if wants_colour { text.ansi().to_string() } else { text.to_string() };
            let to = if error.use_stderr() { context.err } else { context.out };
            let _ = to.write_all(text.as_bytes());
            return error.exit_code();
        }
    };
    let args = Args::from_arg_matches(&matches).expect("what was parsed is what was declared");
    let mut output = Output::new(context.out, context.out_is_terminal, args.json, args.color);
    let done = {
        let mut progress = Progress::new(context.err, context.err_is_terminal);
        dispatch(&args, context.input, &mut output, &mut progress, (context.now, context.modules))
    };
    let failure = match done {
        Ok(code) => match output.finish() {
            Ok(()) => return code,
            // Whoever read the output has enough of it.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return code,
            Err(cause) => Failure::Io { what: "cannot write the result".to_owned(), cause },
        },
        Err(failure) => failure,
    };
    let mut cause = std::error::Error::source(&failure);
    let mut text = failure.to_string();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    let _ = writeln!(context.err, "error: {text}");
    1
}

fn dispatch(
    args: &Args,
    input: &mut dyn Read,
    output: &mut Output<'_>,
    progress: &mut Progress<'_>,
    (now, modules): (SystemTime, &[PathBuf]),
) -> Done {
    if let Command::Completions { shell } = &args.command {
        let mut script = Vec::new();
        clap_complete::generate(*shell, &mut Args::command(), "keyprint", &mut script);
        output.raw(&script);
        return Ok(0);
    }
    let mut config = Config::from_env()?;
    // Who looks after a store wants that store, whatever programs are told to do without.
    (config.disabled, config.recache) = (false, false);
    if let Some(path) = &args.dir {
        config.path = Some(expand_home(path));
    }
    config.clock = std::sync::Arc::new(move || now);
    let path = config.path.clone();
    if needs_store(&args.command)
        && let Some(path) = path.as_deref().filter(|path| !path.exists())
    {
        return no_store(path, args.dir.is_some(), output);
    }
    let store = Store::open(config);
    match &args.command {
        Command::Stats { zero } => commands::stats::run(&store, *zero, output),
        Command::Ls(what) => commands::ls::run(&store, what, output, progress, now),
        Command::Show { key } => commands::show::run(&store, key, output, now),
        Command::Why(what) => commands::why::run(&store, what, output, now),
        Command::Verify { keep } => commands::verify::run(&store, *keep, output, progress),
        Command::Gc(what) => commands::gc::run(&store, what, output, progress),
        Command::Rm { key } => commands::clear::remove(&store, key, output),
        Command::Extract { key, part, output: to } => {
            commands::extract::run(&store, key, part, to.as_deref(), output)
        }
        Command::Clear { pattern, dry_run } => {
            commands::clear::run(&store, pattern.as_deref(), *dry_run, output, progress)
        }
        Command::Export { file, pattern } => {
            commands::transfer::export(&store, file, pattern.as_deref(), output, progress)
        }
        Command::Import { file, trust } => {
            commands::transfer::import(&store, file, *trust, input, output, progress)
        }
        Command::Path => commands::path::run(path.as_deref(), output),
        Command::Doctor => commands::doctor::run(&store, modules, output),
        Command::Completions { .. } => unreachable!("needs no store"),
    }
}

/// Whether a command is about what is in a store: it does not make one.
fn needs_store(command: &Command) -> bool {
    !matches!(command, Command::Import { .. } | Command::Path | Command::Doctor | Command::Completions { .. })
}

/// Says that there is no store: wrong if somebody named it, and nothing special otherwise.
fn no_store(path: &Path, was_named: bool, output: &mut Output<'_>) -> Done {
    let text = format!("there is no store in `{}`", shown(path));
    if was_named {
        return Err(Failure::Said(format!("{text}\nhint: is `--dir` the directory that was meant?")));
    }
    if output.is_json() {
        output.value(&serde_json::json!({"path": path, "exists": false}));
    } else {
        output.line(format!("{text} yet"));
    }
    Ok(0)
}
