//! The columns of a custom resource's table.

use serde_json::Value;

use super::{Column, list, text};

/// The description of the age in Kubernetes.
const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The columns of a version: its own, or the age.
pub(super) fn columns(version: &Value) -> Vec<Column> {
    let given = list(version, "additionalPrinterColumns");
    if given.is_empty() {
        return vec![Column {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            json_path: ".metadata.creationTimestamp".to_owned(),
            description: CREATED.to_owned(),
            ..Column::default()
        }];
    }
    given
        .iter()
        .map(|column| Column {
            name: text(column, "name"),
            kind: text(column, "type"),
            format: text(column, "format"),
            description: text(column, "description"),
            priority: column["priority"].as_i64().unwrap_or(0),
            json_path: text(column, "jsonPath"),
        })
        .collect()
}
