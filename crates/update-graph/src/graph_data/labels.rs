//! `raw/metadata.json` (CVO-GD-05).

use std::collections::BTreeMap;

use mainstay_versions::Version;
use serde_json::Value;

use super::{GraphDataError, GraphDataProblem, VersionLabels};
use crate::release::without_build;

const MAX_VERSIONS: usize = 50_000;

/// Reads the file. A version's build part does not count.
pub(super) fn read(path: &str, bytes: &[u8]) -> Result<VersionLabels, GraphDataError> {
    let fail = |problem| GraphDataError::new(path, problem);
    let wrong = |field: &str, expected| fail(GraphDataProblem::Field { field: field.to_owned(), expected });
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| GraphDataError::new(path, GraphDataProblem::Json(error.to_string())).at(Some(error.line())))?;
    let Value::Object(versions) = value else { return Err(wrong("the file", "labels by version")) };
    if versions.len() > MAX_VERSIONS {
        return Err(fail(GraphDataProblem::TooLarge { what: "versions", limit: MAX_VERSIONS }));
    }
    let mut all = VersionLabels::new();
    for (text, labels) in versions {
        let version =
            Version::parse(&text).map_err(|source| fail(GraphDataProblem::Version { field: "version", text: text.clone(), source }))?;
        let Value::Object(labels) = labels else { return Err(wrong(&text, "labels by name")) };
        let of_version = all.entry(without_build(&version)).or_default();
        for (key, value) in labels {
            let Value::String(value) = value else { return Err(wrong(&format!("{text}[{key}]"), "text")) };
            append(of_version, &key, &value);
        }
    }
    Ok(all)
}

/// Sets a label, or appends to it.
pub(crate) fn append(labels: &mut BTreeMap<String, String>, key: &str, value: &str) {
    match labels.get_mut(key) {
        Some(known) => {
            known.push(',');
            known.push_str(value);
        }
        None => {
            labels.insert(key.to_owned(), value.to_owned());
        }
    }
}
