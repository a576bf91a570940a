//! Puts the example bundles into the program, so that `mainstay demo` works anywhere.
#![allow(clippy::print_stdout, reason = "how build scripts speak to Cargo")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bundles");
    println!("cargo::rerun-if-changed={}", examples.display());
    let mut files = Vec::new();
    collect(&examples, &mut files)?;
    files.sort();
    let mut code = String::from("/// The example bundles, by path below `examples/bundles`.\npub const FILES: &[(&str, &[u8])] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&examples).map_err(io::Error::other)?;
        // Writing to a string does not fail.
        let _written =
            writeln!(code, "    ({:?}, include_bytes!({:?})),", name.display().to_string(), fs::canonicalize(file)?.display().to_string());
    }
    code.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("examples.rs"), code)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", directory.display());
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { collect(&entry.path(), files)? } else { files.push(entry.path()) }
    }
    Ok(())
}
