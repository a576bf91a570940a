//! `metadata.managedFields`: who wrote what (KAPI-SSA-01), by the `merge` crate's rules.

use http::StatusCode;
use mainstay_merge::fieldset::{FieldSet, Path};
use mainstay_merge::managed::{self, ApplyError, Write};
use mainstay_schema::Schema;
use serde_json::Value;

use crate::clock;
use crate::error::{ApiError, Cause, Details, Result};
use crate::object::metadata_mut;
use crate::served::Served;
use crate::strategy;

/// Writes of the API server's own tasks.
const SERVER: &str = "kube-apiserver";

/// Records a create, update or patch in the new object.
pub fn written(served: &Served, live: Option<&Value>, new: &mut Value, manager: &str, sub: Option<&str>) {
    record(served, live, new, manager, sub);
}

/// Records a write of the server itself.
pub fn by_server(served: &Served, live: &Value, new: &mut Value, sub: Option<&str>) {
    record(served, Some(live), new, SERVER, sub);
}

fn record(served: &Served, live: Option<&Value>, new: &mut Value, manager: &str, sub: Option<&str>) {
    let unknown = Schema::default();
    let schema = strategy::schema(served);
    let (api_version, reset, now) = (served.api_version(), reset(served, sub), clock::now());
    let write = Write {
        manager,
        api_version: &api_version,
        subresource: sub.unwrap_or_default(),
        schema: schema.as_deref().unwrap_or(&unknown),
        reset: &reset,
        now: &now,
    };
    // An empty list asks for no tracking.
    if is_untracked(new) {
        metadata_mut(new).remove("managedFields");
        return;
    }
    let empty = live.is_none().then(|| strategy::empty(served));
    *new = managed::update(live.or(empty.as_ref()).unwrap_or(&Value::Null), new, &write);
}

/// Fields that a write cannot change, whatever it says.
fn reset(served: &Served, sub: Option<&str>) -> FieldSet {
    let has_status = served.subresource("status").is_some();
    match sub {
        // What a request asks for is fixed with it; nobody owns it.
        None if served.is("certificates.k8s.io", "certificatesigningrequests") => {
            [Path::fields(["spec"]), Path::fields(["status"])].into_iter().collect()
        }
        None if has_status => [Path::fields(["status"])].into_iter().collect(),
        Some("status") => strategy::reset_by_status(served).into_iter().collect(),
        _ => FieldSet::new(),
    }
}

/// The outcome of a server-side apply: the object with its managed fields.
pub fn applied(served: &Served, live: Option<&Value>, wanted: &Value, manager: &str, sub: Option<&str>, force: bool) -> Result<Value> {
    let schema = strategy::schema(served).ok_or_else(|| ApiError::internal(format!("no schema of {}", served.facts.kind)))?;
    let (api_version, reset, now) = (served.api_version(), reset(served, sub), clock::now());
    let write =
        Write { manager, api_version: &api_version, subresource: sub.unwrap_or_default(), schema: &schema, reset: &reset, now: &now };
    let applied = managed::apply(live.unwrap_or(&Value::Null), wanted, &write, force).map_err(|error| refused(&error))?;
    let mut object = applied.object;
    // Applying leaves null where the last part of a map or list went; ObjectMeta has no place for it.
    metadata_mut(&mut object).retain(|_, member| !member.is_null());
    if let Some(live) = live {
        // Nothing but time stamps may have moved: then nothing has.
        managed::keep_times(live, &mut object);
    }
    strategy::default(served, &mut object);
    Ok(object)
}

/// The Status of a refused apply.
pub fn refused(error: &ApplyError) -> ApiError {
    match error {
        ApplyError::BadRequest(text) => ApiError::bad_request(text.clone()),
        ApplyError::Typed(text) => ApiError::untyped(text.clone()),
        ApplyError::Managed(_) => ApiError::untyped(error.to_string()),
        ApplyError::NotConverted(_) | ApplyError::Pending(_) => ApiError::internal(error.to_string()),
        ApplyError::Conflict(conflicts) => {
            let causes =
                conflicts.causes().into_iter().map(|(message, field)| Cause::new("FieldManagerConflict", message, field)).collect();
            ApiError {
                details: Some(Details { causes, ..Details::default() }),
                ..ApiError::new(StatusCode::CONFLICT, "Conflict", conflicts.to_string())
            }
        }
    }
}

/// Keeps the time stamps of entries whose fields did not change.
pub fn keep_times(new: &mut Value, live: &Value) {
    managed::keep_times(live, new);
}

/// Whether a writer asked that nobody's ownership be kept: with an empty list, or one of an empty entry.
pub fn is_untracked(object: &Value) -> bool {
    let entries = object.get("metadata").and_then(|metadata| metadata.get("managedFields")).and_then(Value::as_array);
    entries.is_some_and(|entries| entries.iter().all(|entry| entry.as_object().is_some_and(serde_json::Map::is_empty)))
}
