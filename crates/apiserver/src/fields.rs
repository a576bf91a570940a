//! `metadata.managedFields`: who wrote what (KAPI-SSA-01), by the `merge` crate's rules.

mod versions;

use http::StatusCode;
use mainstay_kinds as kinds;
use mainstay_merge::fieldset::{FieldSet, Path};
use mainstay_merge::managed::{self, Applied, ApplyError, Write};
use mainstay_schema::Schema;
use serde_json::Value;

use crate::clock;
use crate::error::{ApiError, Cause, Details, Result};
use crate::object::{self, metadata_mut};
use crate::served::Served;
use crate::strategy;

use versions::Forms;

/// Writes of the API server's own tasks.
const SERVER: &str = "kube-apiserver";

/// The owners of a kind's objects, for as long as one request: what has been converted for it once is not converted again.
pub struct Owners<'a> {
    served: &'a Served,
    forms: Forms<'a>,
    manager: &'a str,
    sub: Option<&'a str>,
}

impl<'a> Owners<'a> {
    /// For the writes of a manager, to the object or a subresource.
    pub fn new(served: &'a Served, manager: &'a str, sub: Option<&'a str>) -> Self {
        Self { served, forms: Forms::of(served, sub), manager, sub }
    }

    /// Records a create, update or patch in the new object.
    pub async fn written(&self, live: Option<&Value>, new: &mut Value) {
        while self.record(live, new).is_err() && self.forms.fetch().await {}
    }

    /// The outcome of a server-side apply: the object with its managed fields.
    pub async fn applied(&self, live: Option<&Value>, wanted: &Value, force: bool) -> Result<Value> {
        let Applied { mut object, .. } = loop {
            match self.apply(live, wanted, force)? {
                Err(ApplyError::Pending(_)) if self.forms.fetch().await => {}
                other => break other.map_err(|error| refused(&error))?,
            }
        };
        // Applying leaves null where the last part of a map or list went; ObjectMeta has no place for it.
        metadata_mut(&mut object).retain(|_, member| !member.is_null());
        if let Some(live) = live {
            // Nothing but time stamps may have moved: then nothing has.
            managed::keep_times(live, &mut object);
        }
        strategy::default(self.served, &mut object);
        Ok(object)
    }

    /// As far as it gets with the conversions at hand.
    fn record(&self, live: Option<&Value>, new: &mut Value) -> Result<(), managed::Pending> {
        // An empty list asks for no tracking.
        if object::is_untracked(new) {
            metadata_mut(new).remove("managedFields");
            return Ok(());
        }
        let schema = strategy::schema(self.served);
        let empty = live.is_none().then(|| strategy::empty(self.served));
        let live = live.or(empty.as_ref()).unwrap_or(&Value::Null);
        let unknown = Schema::default();
        *new = self.with_write(schema.as_deref().unwrap_or(&unknown), |write| managed::update_across(live, new, write, &self.forms))?;
        Ok(())
    }

    fn apply(&self, live: Option<&Value>, wanted: &Value, force: bool) -> Result<Result<Applied, ApplyError>> {
        let served = self.served;
        check_type(served, wanted)?;
        let schema = strategy::schema(served).ok_or_else(|| ApiError::internal(format!("no schema of {}", served.facts.kind)))?;
        let live = live.unwrap_or(&Value::Null);
        Ok(self.with_write(&schema, |write| managed::apply_across(live, wanted, write, force, &self.forms)))
    }

    fn with_write<T>(&self, schema: &Schema, act: impl FnOnce(&Write<'_>) -> T) -> T {
        let (api_version, reset, now) = (self.served.api_version(), reset(self.served, self.sub), clock::now());
        act(&Write {
            manager: self.manager,
            api_version: &api_version,
            subresource: self.sub.unwrap_or_default(),
            schema,
            reset: &reset,
            now: &now,
        })
    }
}

/// Records who posted an object of another kind than the resource's, as the request for a token is.
pub fn posted(gvk: &kinds::Gvk, object: &mut Value, manager: &str, sub: &str) {
    let Some(schema) = kinds::registry().schema(gvk) else { return };
    let mut empty = serde_json::json!({"apiVersion": gvk.api_version(), "kind": gvk.kind, "metadata": {}});
    kinds::go_form(gvk, &mut empty);
    let (reset, now) = (FieldSet::new(), clock::now());
    let write = Write { manager, api_version: &gvk.api_version(), subresource: sub, schema: &schema, reset: &reset, now: &now };
    *object = managed::update(&empty, object, &write);
}

/// Refuses to apply what says that it is something else: unlike other patches, an apply states its type.
fn check_type(served: &Served, wanted: &Value) -> Result<()> {
    let text = |name: &str| wanted.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let gvk = served.gvk();
    if api_version == gvk.api_version() && kind == gvk.kind {
        return Ok(());
    }
    let (group, version, kind) = match api_version.matches('/').count() {
        0 => ("", api_version, kind),
        1 => api_version.split_once('/').map_or(("", "", ""), |(group, version)| (group, version, kind)),
        // What is no version makes the whole type unknown.
        _ => ("", "", ""),
    };
    Err(ApiError::bad_request(format!("invalid object type: {group}/{version}, Kind={kind}")))
}

/// Records a create, update or patch by a manager in the new object.
pub async fn written(served: &Served, live: Option<&Value>, new: &mut Value, manager: &str, sub: Option<&str>) {
    Owners::new(served, manager, sub).written(live, new).await;
}

/// Records a write of the server itself. It writes built-in kinds, which no webhook converts.
pub fn by_server(served: &Served, live: &Value, new: &mut Value, sub: Option<&str>) {
    if Owners::new(served, SERVER, sub).record(Some(live), new).is_err() {
        tracing::error!(kind = served.facts.kind, "the server itself wrote an object that a webhook converts");
    }
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
        Some("approval") => [Path::fields(["spec"]), Path::fields(["status", "certificate"])].into_iter().collect(),
        Some("finalize") => [Path::fields(["status"])].into_iter().collect(),
        _ => FieldSet::new(),
    }
}

/// The Status of a refused apply.
pub fn refused(error: &ApplyError) -> ApiError {
    match error {
        ApplyError::BadRequest(text) => ApiError::bad_request(text.clone()),
        ApplyError::Typed(text) => ApiError::untyped(text.clone()),
        ApplyError::Managed(_) | ApplyError::NotConverted(_) | ApplyError::Pending(_) => ApiError::untyped(error.to_string()),
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
