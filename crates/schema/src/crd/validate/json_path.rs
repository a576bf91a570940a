//! The simple JSON paths of a CRD: of columns, of the scale subresource, of selectable fields, of CEL rules.

use serde_json::Value;

use super::super::{list, text};
use crate::field::{Error, Path};

/// Why a path of a schema leads nowhere, in the words that Kubernetes reports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidJsonPath(String);

const MOST_SELECTABLE: u64 = 8;

/// A path in dot notation.
pub(super) fn simple(json_path: &str, path: &Path, errors: &mut Vec<Error>) {
    if !json_path.starts_with('.') {
        errors.push(Error::invalid(path, json_path, "must be a simple json path starting with ."));
    }
}

/// `subresources`.
pub(super) fn subresources(subresources: &Value, path: &Path, errors: &mut Vec<Error>) {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return;
    }
    for (key, roots, words) in [
        ("specReplicasPath", [".spec."].as_slice(), "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ] {
        let field = path.child("scale").child(key);
        let given = text(scale, key);
        if given.is_empty() {
            if key != "labelSelectorPath" {
                errors.push(Error::required(&field, ""));
            }
            continue;
        }
        let before = errors.len();
        simple(&given, &field, errors);
        if errors.len() == before && !roots.iter().any(|root| given.starts_with(root)) {
            errors.push(Error::invalid(&field, given, words));
        }
    }
}

/// `selectableFields`: paths to scalars of the schema, each once, at most eight.
pub(super) fn selectable_fields(fields: &Value, schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    let wrapped = serde_json::json!({"fields": fields});
    let mut seen: Vec<String> = Vec::new();
    for (index, field) in list(&wrapped, "fields").iter().enumerate() {
        let path = path.index(index).child("jsonPath");
        let given = text(field, "jsonPath");
        if given.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        match follow(&given, schema, false) {
            Err(problem) => errors.push(Error::invalid(&path, given, format!("is an invalid path: {problem}"))),
            Ok(target) => {
                if given == ".metadata" || given.starts_with(".metadata.") {
                    errors.push(Error::invalid(&path, &given, "must not point to fields in metadata"));
                }
                if !matches!(target["type"].as_str(), Some("string" | "boolean" | "integer")) {
                    let words = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
                    errors.push(Error::invalid(&path, &given, words));
                }
                if seen.contains(&given) {
                    errors.push(Error::duplicate(&path, given));
                } else {
                    seen.push(given);
                }
            }
        }
    }
    if seen.len() as u64 > MOST_SELECTABLE {
        errors.push(Error::too_many(path, seen.len() as u64, MOST_SELECTABLE));
    }
}

/// The schema that a path leads to: `.a.b`, and with `brackets` also `.a['b-c']`.
pub(super) fn follow<'a>(json_path: &str, schema: &'a Value, brackets: bool) -> Result<&'a Value, InvalidJsonPath> {
    let invalid = || InvalidJsonPath("does not refer to a valid field".to_owned());
    let mut schema = schema;
    let mut rest = json_path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return Err(InvalidJsonPath("unexpected end of JSON path".to_owned()));
            }
            schema = schema["properties"].get(&after[..end]).ok_or_else(invalid)?;
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err(InvalidJsonPath("array notation is not allowed".to_owned()));
            }
            let end = after.find(']').ok_or_else(|| InvalidJsonPath("unexpected end of JSON path".to_owned()))?;
            let name = after[..end].trim_matches(['\'', '"']);
            schema = match schema["properties"].get(name) {
                Some(property) => property,
                None if schema["additionalProperties"].is_object() => &schema["additionalProperties"],
                None => return Err(invalid()),
            };
            rest = &after[end + 1..];
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            return Err(InvalidJsonPath(format!("expected [ or . but got: {}", &rest[..end])));
        }
    }
    Ok(schema)
}
