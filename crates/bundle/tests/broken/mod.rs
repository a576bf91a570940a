//! The example bundle, and how it is broken (`upstream/README.md`).
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use serde_json::Value;

use crate::common::Files;

/// A golden file of `upstream`.
pub fn golden(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/upstream").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The example bundle, whole.
pub fn example() -> Files {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/bundles/beacon/1.0.0");
    let mut files = Files::new();
    for folder in ["manifests", "metadata"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            files.insert(format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap()), std::fs::read(&path).unwrap());
        }
    }
    files
}

/// Breaks it.
pub fn edit(files: &mut Files, edit: &Value) {
    let file = edit["file"].as_str().unwrap();
    if let Some(find) = edit["find"].as_str() {
        let text = String::from_utf8(files[file].clone()).unwrap();
        assert!(text.contains(find), "{file}: {find}");
        files.insert(file.to_owned(), text.replacen(find, edit["replace"].as_str().unwrap(), 1).into_bytes());
    } else if let Some(content) = edit["content"].as_str() {
        files.insert(file.to_owned(), content.as_bytes().to_vec());
    } else {
        files.remove(file);
    }
}
