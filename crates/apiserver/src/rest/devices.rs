//! Claims that ask for the access of an administrator to devices in use: their namespaces must allow it (KAPI-REST-07).

use mainstay_kinds as kinds;
use mainstay_schema::field::Error;
use serde_json::Value;

use crate::admission::Request;
use crate::error::Result;

/// The finding about such a claim in a namespace without the label.
pub(super) async fn admin_access(request: &Request<'_>, new: &Value, old: Option<&Value>, sub: Option<&str>) -> Result<Option<Error>> {
    let Some(field) = kinds::admin_access(&request.served.gvk(), new, old, sub) else { return Ok(None) };
    let lookup = request.lookup;
    let namespaces = lookup.built_in("", "namespaces")?;
    let namespace = match lookup.cached(&namespaces, "", &request.namespace) {
        Some(entry) => Some(entry.value()),
        // The cache may lag behind a namespace that was made a moment ago.
        None => lookup.load(&namespaces, "", &request.namespace).await?.map(|loaded| loaded.value),
    };
    Ok(kinds::refuse_admin_access(&field, namespace.as_ref()))
}
