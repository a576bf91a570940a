//! Tables (KAPI-REST-06): the columns and cells that `kubectl get` shows of each built-in kind.
//!
//! Columns stand in `table/columns.txt`; descriptions that clients can see are those of the recorded answers (`facts/descriptions.json`).
//! Cells are functions a kind.

mod cells;
mod format;
mod pod;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

pub use format::human_duration;

use crate::Gvk;

/// One column, as `columnDefinitions` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields are those of the Kubernetes API")]
pub struct Column {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i32,
}

const DESCRIPTIONS: &str = include_str!("../facts/descriptions.json");

/// Descriptions by kind (`Deployment.apps`) and column; under the empty kind those that any kind may have.
static KNOWN: LazyLock<BTreeMap<String, BTreeMap<String, String>>> = LazyLock::new(|| {
    // Generated and checked in; a test compares it with the recorded answers.
    serde_json::from_str(DESCRIPTIONS).unwrap_or_default()
});

static COLUMNS: LazyLock<HashMap<&'static str, Vec<Column>>> = LazyLock::new(|| {
    include_str!("table/columns.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "))
        .map(|(kind, columns)| (kind, columns.split(", ").map(|text| column(kind, text)).collect()))
        .collect()
});

static DEFAULT: LazyLock<Vec<Column>> = LazyLock::new(|| ["Name", "Created At:date"].iter().map(|text| column("", text)).collect());

fn column(kind: &str, text: &str) -> Column {
    let (text, priority) = text.strip_suffix('!').map_or((text, 0), |text| (text, 1));
    let (name, value_type) = text.split_once(':').unwrap_or((text, "string"));
    let of = |kind: &str| KNOWN.get(kind).and_then(|columns| columns.get(name));
    Column {
        name: name.to_owned(),
        kind: value_type.to_owned(),
        // A name whose type is spelled out has no format: so it is with Scale.
        format: if text == "Name" { "name".into() } else { String::new() },
        description: of(kind).or_else(|| of("")).map(String::as_str).or_else(|| unrecorded(kind, name)).unwrap_or_default().to_owned(),
        priority,
    }
}

/// Descriptions of kinds whose tables no transcript shows.
fn unrecorded(kind: &str, column: &str) -> Option<&'static str> {
    match (kind, column) {
        ("Scale.autoscaling", "Desired") => Some("replicas is the desired number of instances for the scaled object."),
        ("Scale.autoscaling", "Available") => Some("replicas is the actual number of observed instances of the scaled object."),
        _ => None,
    }
}

fn key(gvk: &Gvk) -> String {
    if gvk.group.is_empty() { gvk.kind.clone() } else { format!("{}.{}", gvk.kind, gvk.group) }
}

/// The columns of a built-in kind.
pub fn table(gvk: &Gvk) -> &'static [Column] {
    COLUMNS.get(key(gvk).as_str()).unwrap_or(&DEFAULT)
}

/// The cells of one object, in the order of [`table`]'s columns.
pub fn row(gvk: &Gvk, object: &Value, now: Timestamp) -> Vec<Value> {
    if COLUMNS.contains_key(key(gvk).as_str()) {
        return cells::cells(gvk, object, now);
    }
    let metadata = |field: &str| object.get("metadata").and_then(|metadata| metadata.get(field)).cloned().unwrap_or(json!(""));
    vec![metadata("name"), metadata("creationTimestamp")]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::registry;

    /// KAPI-REST-06: every kind has as many cells as columns, whatever an object lacks.
    #[test]
    fn rows_fit_their_columns() {
        for resource in registry().resources() {
            let gvk = resource.gvk();
            let cells = row(&gvk, &json!({"metadata": {"name": "a"}}), Timestamp::UNIX_EPOCH);
            assert_eq!(cells.len(), table(&gvk).len(), "{gvk}");
            assert!(table(&gvk).iter().any(|column| column.name == "Name" && column.format == "name"), "{gvk}");
        }
        let of = |resource: &crate::Resource| {
            let subresources = resource.subresources.iter().map(|sub| sub.gvk(resource));
            std::iter::once(resource.gvk()).chain(subresources).map(|gvk| key(&gvk)).collect::<Vec<_>>()
        };
        let kinds: Vec<String> = registry().resources().iter().flat_map(of).collect();
        for kind in COLUMNS.keys() {
            assert!(kinds.iter().any(|known| known == kind), "{kind} is no kind");
        }
    }

    /// KAPI-REST-06: a scale shows what is wanted and what there is, in the columns that Kubernetes prints for it.
    #[test]
    fn scales_have_columns() {
        let scale = Gvk::new("autoscaling", "v1", "Scale");
        let columns: Vec<_> =
            table(&scale).iter().map(|column| (column.name.as_str(), column.kind.as_str(), column.format.as_str())).collect();
        assert_eq!(columns, [("Name", "string", ""), ("Desired", "integer", ""), ("Available", "integer", ""), ("Age", "string", "")]);
        assert!(table(&scale).iter().all(|column| !column.description.is_empty()));
        let object = json!({"metadata": {"name": "web", "creationTimestamp": "1970-01-01T00:00:00Z"}, "spec": {"replicas": 3}, "status": {"replicas": 2}});
        assert_eq!(row(&scale, &object, Timestamp::from_second(90).unwrap()), [json!("web"), json!(3), json!(2), json!("90s")]);
        assert_eq!(row(&scale, &json!({"metadata": {"name": "web"}}), Timestamp::UNIX_EPOCH)[1..3], [json!(0), json!(0)]);
    }
}
