//! Recorded objects of a cluster in a folder, in place of the cluster (`--from-files`).

use std::path::{Path, PathBuf};

use mainstay_terminal::errors::{Exit, Failure};
use serde_json::Value;

/// The longest file that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// The name that a file has beside that of the ClusterVersion: `NAME-alerts.json` beside `NAME-cv.yaml`.
pub(super) fn beside(folder: &Path, name: &str) -> String {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.file_name());
    let own = entries.find_map(|entry| entry.to_str()?.split_once("-cv.").map(|(name, _)| name.to_owned()));
    own.map_or_else(|| name.to_owned(), |own| format!("{own}-{name}"))
}

/// The items of a list, or the object itself.
pub(super) fn list(object: Value) -> Vec<Value> {
    match object {
        Value::Object(mut object) if object.contains_key("items") => match object.remove("items") {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        Value::Array(items) => items,
        other => vec![other],
    }
}

/// Reads the file of a folder with one of these names, or with one of them behind a hyphen; none if there is no such file, or it says null.
pub(super) fn object(folder: &Path, names: &[&str]) -> Result<Option<Value>, Failure> {
    let subject = format!("folder {}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::failed(&subject, &error))?;
    let mut found: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    found.retain(|path| {
        let is_kind = path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml" || kind == "json");
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_lowercase();
        is_kind && names.iter().any(|name| stem == *name || stem.ends_with(&format!("-{name}")))
    });
    found.sort();
    let Some(path) = found.first() else { return Ok(None) };
    let subject = format!("file {}", path.display());
    let size = std::fs::metadata(path).map_err(|error| Failure::failed(&subject, &error))?.len();
    if size > MAX_FILE {
        return Err(Failure::new(Exit::Failed, subject, format!("{size} bytes, more than {MAX_FILE}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| Failure::failed(&subject, &error))?;
    let value = mainstay_yaml::parse(&text).map_err(|error| Failure::failed(&subject, &error))?;
    // A ClusterVersion may stand in a list of one.
    let value = match value {
        Value::Object(object) if names.contains(&"cv") && object.contains_key("items") => {
            object["items"].get(0).cloned().unwrap_or_default()
        }
        value => value,
    };
    Ok(Some(value).filter(|value| !value.is_null()))
}
