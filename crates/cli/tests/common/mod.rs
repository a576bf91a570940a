//! Running the binary, and the recorded archives.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// What a run of the program gave.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// The program, with nothing of this user's surroundings.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(workspace());
    command
}

/// Runs the program in the workspace.
pub fn mainstay<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    run(command().args(args))
}

pub fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Run { code: status.code().unwrap_or(-1), stdout: String::from_utf8(stdout).unwrap(), stderr: String::from_utf8(stderr).unwrap() }
}

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A recorded archive, unpacked.
pub fn unpacked(name: &str) -> Option<tempfile::TempDir> {
    let path = mainstay_testing::data::path(name)?;
    let directory = tempfile::tempdir().unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())).unpack(directory.path()).unwrap();
    Some(directory)
}

pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
