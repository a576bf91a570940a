//! Tables (KAPI-REST-06): the columns and cells that `kubectl get` shows of each built-in kind.
//!
//! Columns are those of upstream's printers (`facts/columns.json`; `scripts/table-columns` asks a real server for them). Cells are functions a
//! kind.

mod cells;
mod format;
mod pod;

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use format::human_duration;

use crate::Gvk;

/// One column, as `columnDefinitions` has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[allow(missing_docs, reason = "the fields are those of the Kubernetes API")]
pub struct Column {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i32,
}

static COLUMNS: LazyLock<HashMap<String, Vec<Column>>> = LazyLock::new(|| {
    // Generated and checked in; a test reads every kind of it.
    serde_json::from_str(include_str!("../facts/columns.json")).unwrap_or_default()
});

/// The columns of kinds that no printer of upstream's knows: a list of one such kind.
const PLAIN: &str = "LimitRange";

fn key(gvk: &Gvk) -> String {
    if gvk.group.is_empty() { gvk.kind.clone() } else { format!("{}.{}", gvk.kind, gvk.group) }
}

/// The columns of a built-in kind.
pub fn table(gvk: &Gvk) -> &'static [Column] {
    COLUMNS.get(key(gvk).as_str()).or_else(|| COLUMNS.get(PLAIN)).map_or(&[], Vec::as_slice)
}

/// The cells of one object, in the order of [`table`]'s columns.
pub fn row(gvk: &Gvk, object: &Value, now: Timestamp) -> Vec<Value> {
    if table(gvk).last().is_none_or(|column| column.name != "Created At") {
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
            // Upstream's printer of addresses has an age, and no column for it.
            let more = usize::from(gvk.kind == "IPAddress");
            assert_eq!(cells.len(), table(&gvk).len() + more, "{gvk}");
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
