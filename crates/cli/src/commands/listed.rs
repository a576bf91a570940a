//! Objects of a cluster in lists and tables.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_terminal::errors::Failure;
use serde::Serialize;
use serde_json::{Value, json};

/// The age, as kubectl writes it.
pub fn age(time: Option<&Time>) -> String {
    let Some(time) = time else { return String::new() };
    let seconds = jiff::Timestamp::now().as_second().saturating_sub(time.0.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Removes the bookkeeping of field managers, which kubectl does not show either.
pub fn without_managed_fields(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
}

/// Typed objects as a `List`, each with its kind, which lists of the API leave out.
pub fn with_kind<T: Serialize>(objects: &[T], api_version: &str, kind: &str) -> Result<Value, Failure> {
    let mut items = serde_json::to_value(objects).map_err(|error| Failure::failed(kind.to_lowercase(), &error))?;
    for item in items.as_array_mut().into_iter().flatten() {
        item["apiVersion"] = api_version.into();
        item["kind"] = kind.into();
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
}
