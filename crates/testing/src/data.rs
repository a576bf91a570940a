//! The recorded data beside the project, `../shared/data`.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file or folder of the recorded data. If it is missing the test is skipped visibly; with `CI=true` it fails.
pub fn path(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is missing", path.display());
    eprintln!("skipped: {} is missing", path.display());
    None
}

/// The text of a recorded file.
pub fn text(name: &str) -> Option<String> {
    let path = path(name)?;
    Some(std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// A recorded file as JSON.
pub fn json(name: &str) -> Option<Value> {
    Some(serde_json::from_str(&text(name)?).unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// A recorded file with one JSON document per line.
pub fn json_lines(name: &str) -> Option<Vec<Value>> {
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}"));
    Some(text(name)?.lines().map(line).collect())
}
