//! The C compiler: where it is, what it is, and what it makes of a text.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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
        let output = run(compiler, command(compiler).arg(argument))?;
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
    let mut command = command(compiler);
    command.args(flags).arg("-o").arg(&object).arg(&source).args(["-lm", "-lgcc"]);
    let output = run(compiler, &mut command)?;
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

/// Runs a command to its end, and returns what it said.
///
/// Its output goes to files, not to pipes: a process that is forked from this one meanwhile, or that the
/// command leaves behind, keeps the writing end of a pipe open, and whoever reads to the end of it would
/// wait for that process.
fn run(compiler: &Compiler, command: &mut Command) -> Result<Output, ToolchainError> {
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let status =
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?).status().map_err(
            |source| ToolchainError::Start { program: compiler.path.display().to_string(), source },
        )?;
    Ok(Output { status, stdout: contents(&mut out)?, stderr: contents(&mut err)? })
}

fn contents(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn failed(compiler: &Compiler, output: &Output) -> ToolchainError {
    let text = String::from_utf8_lossy(&output.stderr);
    let short: String = text.lines().take(20).collect::<Vec<_>>().join("\n");
    let output = if short.trim().is_empty() { output.status.to_string() } else { short };
    ToolchainError::Failed { program: compiler.path.display().to_string(), output }
}

/// What the processor at hand can do, as far as compilers care: its model and features.
#[must_use]
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut fields = Vec::new();
    for line in text.lines().take_while(|line| !line.trim().is_empty()) {
        let Some((name, value)) = line.split_once(':') else { continue };
        let name = name.trim();
        if matches!(
            name,
            "vendor_id" | "cpu family" | "model" | "flags" | "Features" | "CPU implementer" | "CPU part"
        ) {
            fields.push(format!("{name}={}", value.trim()));
        }
    }
    if fields.is_empty() { std::env::consts::ARCH.to_owned() } else { fields.join(";") }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A compiler that is a script, in a directory that goes with it.
    fn script(text: &str) -> (tempfile::TempDir, Compiler) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cc");
        std::fs::write(&path, format!("cd '{}'\n{text}", directory.path().display())).unwrap();
        let arguments = vec![path.display().to_string()];
        (directory, Compiler { path: "/bin/sh".into(), arguments })
    }

    #[test]
    fn nothing_waits_for_a_process_that_keeps_the_output_open() {
        // It stays until it is told to go; if it has to go by itself, somebody waited for it.
        let (directory, compiler) = script(
            "(n=0; while [ ! -e go ]; do n=$((n + 1)); [ $n -lt 200 ] || { touch late; exit; }; sleep 0.1; done) &\n\
             echo 'mycc 1.0'; echo warning >&2\n",
        );
        let identity = identify(&compiler).unwrap();
        std::fs::write(directory.path().join("go"), "").unwrap();
        assert_eq!((identity.version.as_str(), identity.machine.as_str()), ("mycc 1.0", "mycc 1.0"));
        assert!(!directory.path().join("late").exists());
    }

    #[test]
    fn what_a_compiler_says_is_told() {
        let (_directory, compiler) = script("echo 'no such option' >&2\nexit 3\n");
        let error = compile(&compiler, &["--strange".to_owned()], "").unwrap_err().to_string();
        assert!(error.contains("failed: no such option"), "{error}");
        let (_directory, compiler) = script("exit 3\n");
        let error = compile(&compiler, &[], "").unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        let nowhere = Compiler { path: "/nowhere/cc".into(), arguments: Vec::new() };
        assert!(matches!(identify(&nowhere), Err(ToolchainError::Start { .. })));
    }
}
