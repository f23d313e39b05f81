//! Hands the interpreter's version to `#[cfg(Py_3_12)]` and the like, and a digest of the kernel language's
//! compiler to the compiler itself: what another version of it made is never taken for its own.

use std::path::{Path, PathBuf};

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    let mut files = Vec::new();
    for part in ["source", "lang", "codegen"] {
        collect(&Path::new("..").join(part).join("src"), &mut files);
    }
    // What is between the compiler and the Python half: it shapes what is compiled and kept.
    files.extend(
        ["compile_time", "graph_record", "language"]
            .map(|part| Path::new("src").join(part).with_extension("rs")),
    );
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for file in &files {
        let content = std::fs::read(file).expect("the file was just listed");
        hasher.update(file.to_string_lossy().as_bytes());
        hasher.update(&(content.len() as u64).to_le_bytes());
        hasher.update(&content);
        println!("cargo::rerun-if-changed={}", file.display());
    }
    println!("cargo::rustc-env=KEYPRINT_LANGUAGE_DIGEST={}", &hasher.finalize().to_hex()[..16]);
}

fn collect(directory: &Path, into: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", directory.display());
    let entries = std::fs::read_dir(directory).expect("the compiler's source is part of the workspace");
    for entry in entries {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            collect(&path, into);
        } else {
            into.push(path);
        }
    }
}
