//! The recorded data beside the project, `../shared/data`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file or folder of `../shared`. If it is missing the test is skipped visibly; with `CI=true` it fails.
#[track_caller]
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is missing", path.display());
    eprintln!("skipped: {} is missing", path.display());
    None
}

/// A file or folder of the recorded data; see [`shared`].
#[track_caller]
pub fn path(name: &str) -> Option<PathBuf> {
    shared(&format!("data/{name}"))
}

/// The content of a recorded file, uncompressed if its name ends in `.gz`.
#[track_caller]
pub fn bytes(name: &str) -> Option<Vec<u8>> {
    Some(read(&path(name)?))
}

/// The text of a recorded file, uncompressed if its name ends in `.gz`.
#[track_caller]
pub fn text(name: &str) -> Option<String> {
    Some(String::from_utf8(bytes(name)?).unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// A recorded file as JSON.
#[track_caller]
pub fn json(name: &str) -> Option<Value> {
    Some(parse(name, &bytes(name)?))
}

/// A recorded file with one JSON document per line.
#[track_caller]
pub fn json_lines(name: &str) -> Option<Vec<Value>> {
    Some(text(name)?.lines().map(|line| parse(name, line.as_bytes())).collect())
}

/// The regular files of a recorded `.tar.gz` by their path in it.
#[track_caller]
pub fn archive(name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
    let bytes = bytes(name)?;
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(bytes.as_slice()).entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        if entry.header().entry_type().is_file() {
            let path = entry.path().expect("a path").to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).expect("content");
            files.insert(path, content);
        }
    }
    Some(files)
}

/// The files with this extension in a recorded folder and the folders below it, sorted.
#[track_caller]
pub fn files(folder: &str, extension: &str) -> Option<Vec<PathBuf>> {
    let mut folders = vec![path(folder)?];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    Some(files)
}

/// A JSON file of a crate's own test data, uncompressed if its name ends in `.gz`.
pub fn own_json(path: impl AsRef<Path>) -> Value {
    let path = path.as_ref();
    parse(&path.to_string_lossy(), &read(path))
}

fn read(path: &Path) -> Vec<u8> {
    let stored = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_none_or(|extension| extension != "gz") {
        return stored;
    }
    let mut bytes = Vec::new();
    let read = flate2::read::GzDecoder::new(stored.as_slice()).read_to_end(&mut bytes);
    read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes
}

fn parse(name: &str, json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_else(|error| panic!("{name}: {error}"))
}
