//! The C compiler: where it is, what it is, and what it makes of a text.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What can go wrong with a compiler.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// It cannot be started.
    #[error("cannot run the C compiler `{program}`: {source}")]
    Start {
        /// The compiler.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// It does not take what it is given.
    #[error("the C compiler `{program}` failed: {output}")]
    Failed {
        /// The compiler.
        program: String,
        /// What it said.
        output: String,
    },
    /// There is no room for what it reads and writes.
    #[error("cannot keep files for the C compiler: {0}")]
    Files(#[from] std::io::Error),
}

/// A compiler that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The program.
    pub path: PathBuf,
    /// Arguments that come first: `CC="ccache gcc"`.
    pub arguments: Vec<String>,
}

/// What a compiler is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The first line of what it says of itself.
    pub version: String,
    /// The machine that it compiles for.
    pub machine: String,
}

/// Finds the compiler: `KEYPRINT_CC`, `CC`, then `cc`, `clang`, `gcc`, in the directories of `path`.
/// `variable` says what an environment variable is.
#[must_use]
pub fn find(variable: &dyn Fn(&str) -> Option<String>, path: &str) -> Option<Compiler> {
    for name in ["KEYPRINT_CC", "CC"] {
        let Some(given) = variable(name).filter(|given| !given.trim().is_empty()) else { continue };
        let mut words = given.split_whitespace();
        let program = words.next().expect("not empty");
        // What was asked for is taken, or nothing: another compiler would be a surprise.
        return locate(program, path)
            .map(|path| Compiler { path, arguments: words.map(ToOwned::to_owned).collect() });
    }
    ["cc", "clang", "gcc"]
        .iter()
        .find_map(|name| locate(name, path))
        .map(|path| Compiler { path, arguments: Vec::new() })
}

fn locate(program: &str, path: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).is_file().then(|| PathBuf::from(program));
    }
    std::env::split_paths(path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// Asks a compiler what it is.
///
/// # Errors
///
/// If it cannot be started, or says nothing.
pub fn identify(compiler: &Compiler) -> Result<Identity, ToolchainError> {
    let ask = |argument: &str| {
        let output = command(compiler)
            .arg(argument)
            .stdin(Stdio::null())
            .output()
            .map_err(|source| start_error(compiler, source))?;
        let text = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or("").trim().to_owned();
        if !output.status.success() || text.is_empty() {
            return Err(failed(compiler, &output));
        }
        Ok(text)
    };
    Ok(Identity { version: ask("--version")?, machine: ask("-dumpmachine")? })
}

/// Compiles a text to a shared object.
///
/// # Errors
///
/// If the compiler cannot be started, or does not like the text.
pub fn compile(compiler: &Compiler, flags: &[String], text: &str) -> Result<Vec<u8>, ToolchainError> {
    let directory = tempfile::Builder::new().prefix("keyprint-").tempdir()?;
    let (source, object) = (directory.path().join("kernel.c"), directory.path().join("kernel.so"));
    std::fs::write(&source, text)?;
    let output = command(compiler)
        .args(flags)
        .arg("-o")
        .arg(&object)
        .arg(&source)
        .args(["-lm", "-lgcc"])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| start_error(compiler, source))?;
    if !output.status.success() {
        return Err(failed(compiler, &output));
    }
    Ok(std::fs::read(&object)?)
}

fn command(compiler: &Compiler) -> Command {
    let mut command = Command::new(&compiler.path);
    command.args(&compiler.arguments).env("LC_ALL", "C");
    command
}

fn start_error(compiler: &Compiler, source: std::io::Error) -> ToolchainError {
    ToolchainError::Start { program: compiler.path.display().to_string(), source }
}

fn failed(compiler: &Compiler, output: &std::process::Output) -> ToolchainError {
    let text = String::from_utf8_lossy(&output.stderr);
    let short: String = text.lines().take(20).collect::<Vec<_>>().join("\n");
    let output = if short.trim().is_empty() { output.status.to_string() } else { short };
    ToolchainError::Failed { program: compiler.path.display().to_string(), output }
}

/// What the processor at hand can do, as far as compilers care: its model and features.
#[must_use]
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines().take_while(|line| !line.trim().is_empty()) {
        let Some((name, value)) = line.split_once(':') else { continue };
        let name = name.trim();
        if matches!(
            name,
            "vendor_id" | "cpu family" | "model" | "flags" | "Features" | "CPU implementer" | "CPU part"
        ) {
            found.push(format!("{name}={}", value.trim()));
        }
    }
    if found.is_empty() { std::env::consts::ARCH.to_owned() } else { found.join(";") }
}
