//! The strategy of each kind, in one place: built-in kinds by `mainstay-kinds`, custom ones by their CRD.

use jiff::Timestamp;
use mainstay_kinds as kinds;
use mainstay_rbac::UserInfo;
use mainstay_schema::field::Error as FieldError;
use mainstay_schema::{SchemaRef, crd};
use serde_json::{Map, Value};

use crate::decode;
use crate::error::{ApiError, Result};
use crate::object::{self, meta, metadata_mut};
use crate::request::negotiate::Decoded;
use crate::request::options::FieldValidation;
use crate::request::{ApiRequest, RequestInfo};
use crate::served::Served;

/// The most unknown and repeated fields that are named.
const PROBLEMS: usize = 100;

/// Reads a body as an object of the kind: names, types, unknown and duplicate fields (KAPI-REST-03).
pub fn decode(request: &ApiRequest, served: &Served, gvk: &kinds::Gvk, decoded: Decoded, validation: FieldValidation) -> Result<Value> {
    let Decoded { mut value, problems: mut said, duplicates, text } = decoded;
    let unknown = match &served.custom {
        Some(custom) => custom.decode(gvk, &mut value)?,
        None => decode::built_in(gvk, &mut value)?,
    };
    if validation != FieldValidation::Ignore {
        let mut problems: Vec<(&str, &str)> = duplicates.iter().map(|path| (path.as_str(), "duplicate")).collect();
        problems.extend(unknown.iter().map(|path| (path.as_str(), "unknown")));
        // Custom resources are pruned after they were read, built-in kinds while reading: then the order is that of the text.
        if served.custom.is_none() && problems.len() > 1 {
            let order = crate::strict::order(&text, problems.iter().map(|(path, _)| *path));
            problems.sort_by_key(|(path, _)| order.get(path));
        }
        // Go's decoder stops counting there, too.
        problems.truncate(PROBLEMS);
        said.extend(problems.into_iter().map(|(path, what)| format!("{what} field {path:?}")));
        let problems = said;
        if !problems.is_empty() && validation == FieldValidation::Strict {
            let why = format!("strict decoding error: {}", problems.join(", "));
            return Err(decode::refused(gvk, &why));
        }
        for problem in problems {
            request.warn(problem);
        }
    }
    Ok(value)
}

/// The first part of a request's namespace checks: an object may not name another one than the path.
pub fn place(info: &RequestInfo, served: &Served, object: &mut Value) -> Result<()> {
    let metadata = metadata_mut(object);
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
    if served.facts.namespaced {
        if given.is_empty() {
            metadata.insert("namespace".into(), info.namespace.clone().into());
        } else if given != info.namespace {
            return Err(ApiError::bad_request("the namespace of the provided object does not match the namespace sent on the request"));
        }
    } else {
        // As Kubernetes does: what belongs to the whole cluster has no namespace, whatever it says.
        metadata.remove("namespace");
    }
    Ok(())
}

/// Fills in defaults.
pub fn default(served: &Served, value: &mut Value) {
    let untracked = object::is_untracked(value);
    fill(served, value);
    if untracked {
        // Go's form has no empty lists, but this one says that nobody's ownership shall be kept.
        metadata_mut(value).insert("managedFields".into(), Value::Array(Vec::new()));
    }
}

fn fill(served: &Served, value: &mut Value) {
    if let Some(custom) = &served.custom {
        custom.default(value);
    } else {
        kinds::default(&served.gvk(), value);
        kinds::settle(&served.gvk(), value);
        if is_crd(served) {
            crd::fill(value);
        }
    }
}

/// An object of a built-in kind in the form in which its rules are kept.
fn in_hub(served: &Served, value: &Value) -> Option<(kinds::Gvk, Value)> {
    let hub = kinds::hub(&served.gvk())?;
    let mut value = value.clone();
    kinds::convert(&mut value, &hub);
    Some((hub, value))
}

fn is_crd(served: &Served) -> bool {
    served.is("apiextensions.k8s.io", "customresourcedefinitions")
}

/// An object of the kind with nothing in it, as Go writes it: what a new object is compared with.
pub fn empty(served: &Served) -> Value {
    let mut value = serde_json::json!({"apiVersion": served.api_version(), "kind": served.facts.kind, "metadata": {}});
    if served.custom.is_none() {
        kinds::go_form(&served.gvk(), &mut value);
    }
    value
}

/// The schema of whole objects; `None` where nothing is known of their content.
pub fn schema(served: &Served) -> Option<SchemaRef> {
    match &served.custom {
        Some(custom) => custom.schema.clone(),
        None => kinds::registry().schema(&served.gvk()),
    }
}

fn moment(user: &UserInfo) -> kinds::Context {
    let extra = user.extra.iter().map(|(key, values)| (key.clone(), Value::from(values.clone()))).collect::<Map<_, _>>();
    kinds::Context {
        now: Timestamp::now(),
        requester: kinds::Requester { username: user.name.clone(), uid: user.uid.clone(), groups: user.groups.clone(), extra },
    }
}

/// Sets what the server decides on creation, before validation.
pub fn prepare_create(request: &ApiRequest, served: &Served, value: &mut Value) {
    if let Some(custom) = &served.custom {
        custom.prepare_create(value);
    } else {
        for warning in kinds::warnings_of_given(&served.gvk(), value) {
            request.warn(warning);
        }
        match in_hub(served, value) {
            Some((hub, mut inner)) => {
                kinds::prepare_create(&hub, &mut inner, &moment(&request.user));
                kinds::convert(&mut inner, &served.gvk());
                *value = inner;
            }
            None => kinds::prepare_create(&served.gvk(), value, &moment(&request.user)),
        }
        if is_crd(served) {
            crd::prepare_create(value);
        }
    }
}

/// Keeps what a change may not touch, counts the generation.
pub fn prepare_update(user: &UserInfo, served: &Served, new: &mut Value, old: &Value, sub: Option<&str>) {
    if let Some(custom) = &served.custom {
        custom.prepare_update(new, old, sub);
    } else {
        match (in_hub(served, new), in_hub(served, old)) {
            (Some((hub, mut inner)), Some((_, old))) => {
                kinds::prepare_update(&hub, &mut inner, &old, sub, &moment(user));
                kinds::convert(&mut inner, &served.gvk());
                *new = inner;
            }
            _ => kinds::prepare_update(&served.gvk(), new, old, sub, &moment(user)),
        }
        if is_crd(served) && sub.is_none() {
            crd::prepare_update(new, old);
        }
    }
}

/// The object of a request as it came, if it has empty lists or maps and is of a kind whose findings show them.
pub fn given(served: &Served, value: &Value) -> Option<Value> {
    (served.custom.is_none() && !is_crd(served) && kinds::has_empty(value)).then(|| value.clone())
}

/// Errors of a new object that came as `given`.
pub fn validate_new(served: &Served, value: &Value, given: Option<&Value>) -> Vec<FieldError> {
    kinds::as_given(value, given, |value| validate_create(served, value))
}

/// Errors of a changed object that came as `given`.
pub fn validate_changed(served: &Served, new: &Value, old: &Value, sub: Option<&str>, given: Option<&Value>) -> Vec<FieldError> {
    kinds::as_given(new, given, |new| validate_update(served, new, old, sub))
}

/// Errors of a new object.
pub fn validate_create(served: &Served, value: &Value) -> Vec<FieldError> {
    match &served.custom {
        Some(custom) => custom.validate_create(value),
        None if is_crd(served) => crd::validate(value, &crate::rules::problems),
        None => match in_hub(served, value) {
            Some((hub, value)) => kinds::validate_create(&hub, &value),
            None => kinds::validate_create(&served.gvk(), value),
        },
    }
}

/// Errors of a changed object.
pub fn validate_update(served: &Served, new: &Value, old: &Value, sub: Option<&str>) -> Vec<FieldError> {
    match &served.custom {
        Some(custom) => custom.validate_update(new, old, sub),
        None if is_crd(served) && sub == Some("status") => crd::validate_status_update(new),
        None if is_crd(served) => crd::validate_update(new, old, &crate::rules::problems),
        None => match (in_hub(served, new), in_hub(served, old)) {
            (Some((hub, new)), Some((_, old))) => kinds::validate_update(&hub, &new, &old, sub),
            _ => kinds::validate_update(&served.gvk(), new, old, sub),
        },
    }
}

/// Warnings about an accepted object.
pub fn warnings(served: &Served, new: &Value, old: Option<&Value>, sub: Option<&str>) -> Vec<String> {
    match &served.custom {
        Some(_) => Vec::new(),
        None if is_crd(served) => crd::warnings(new, old),
        None => kinds::warnings(&served.gvk(), new, old, sub),
    }
}

/// Brings an object into the form in which storage gives it back.
pub fn stored_form(served: &Served, value: &mut Value) {
    if served.custom.is_none() {
        kinds::stored_form(&served.gvk(), value);
    }
}

/// Refuses the deletion of what Kubernetes itself made and needs.
pub fn check_delete(served: &Served, name: &str) -> Result<()> {
    let kept = served.is("scheduling.k8s.io", "priorityclasses") && matches!(name, "system-node-critical" | "system-cluster-critical");
    if !kept {
        return Ok(());
    }
    let facts = &served.facts;
    Err(ApiError::forbidden(&facts.group, &facts.plural, name, "this is a system priority class and cannot be deleted"))
}

/// Returns whether objects hold addresses or ports of the cluster.
pub fn allocates(served: &Served) -> bool {
    served.is("", "services")
}

/// Before a deletion: what the kind shows of it.
pub fn prepare_delete(served: &Served, value: &mut Value) {
    if served.is("", "namespaces") && held(served, value) {
        value["status"]["phase"] = "Terminating".into();
    }
    if is_crd(served) {
        crate::crd::mark_deleted(value);
    }
}

/// Returns whether something besides `metadata.finalizers` holds an object.
pub fn held(served: &Served, value: &Value) -> bool {
    served.is("", "namespaces") && value.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

/// Returns whether its deletions have a grace period of their own.
pub fn graceful(served: &Served) -> bool {
    served.is("", "pods")
}

/// Returns whether an object that waits for its end shows no `deletionGracePeriodSeconds`.
pub fn no_grace_field(served: &Served) -> bool {
    served.is("", "namespaces") || is_crd(served)
}

/// Returns whether dependents survive unless the request says otherwise.
pub fn orphans_by_default(served: &Served) -> bool {
    served.is("batch", "jobs") || served.is("", "replicationcontrollers")
}

/// Returns whether a deletion answers with the object.
pub fn returns_deleted(served: &Served) -> bool {
    matches!(
        (served.facts.group.as_str(), served.facts.plural.as_str()),
        ("", "pods" | "services" | "serviceaccounts" | "persistentvolumes" | "persistentvolumeclaims" | "podtemplates" | "resourcequotas")
            | ("resource.k8s.io", "deviceclasses" | "resourceclaims" | "resourceclaimtemplates" | "resourceslices")
            | ("storage.k8s.io", "storageclasses" | "volumeattachments" | "csinodes" | "csidrivers" | "volumeattributesclasses")
    )
}

/// Returns whether an update without a resourceVersion is taken.
pub fn unconditional_update(served: &Served) -> bool {
    served.custom.is_none()
        && !matches!(
            (served.facts.group.as_str(), served.facts.plural.as_str()),
            ("admissionregistration.k8s.io" | "apiextensions.k8s.io" | "apiregistration.k8s.io" | "coordination.k8s.io", _)
                | ("node.k8s.io", "runtimeclasses")
                | ("policy", "poddisruptionbudgets")
                | ("storage.k8s.io", "csidrivers" | "csinodes" | "csistoragecapacities" | "volumeattachments")
        )
}

/// Returns whether an update creates what is missing.
pub fn created_by_update(served: &Served) -> bool {
    matches!(
        (served.facts.group.as_str(), served.facts.plural.as_str()),
        ("", "endpoints" | "events" | "limitranges" | "services")
            | ("coordination.k8s.io", "leases")
            | ("events.k8s.io", "events")
            | ("node.k8s.io" | "rbac.authorization.k8s.io", _)
    )
}

/// The key of an object as Kubernetes shows it in conflicts.
pub fn shown_key(served: &Served, object: &Value) -> String {
    let group = if served.custom.is_some() { format!("{}/", served.facts.group) } else { String::new() };
    let resource = match served.facts.plural.as_str() {
        "services" => "services/specs",
        "endpoints" => "services/endpoints",
        "nodes" => "minions",
        "ingresses" => "ingress",
        "podsecuritypolicies" => "podsecuritypolicy",
        other => other,
    };
    format!("/registry/{group}{resource}/{}", served.key(meta(object, "namespace"), meta(object, "name")))
}

/// Refuses a field that selectors of the kind do not know.
pub fn check_field(served: &Served, field: &str) -> Result<()> {
    if field == "metadata.name" || field == "metadata.namespace" && served.facts.namespaced {
        return Ok(());
    }
    match &served.custom {
        Some(custom) if custom.selectable.iter().any(|known| known == field) => Ok(()),
        Some(_) => Err(ApiError::bad_request(format!("field label not supported: {field}"))),
        None if kinds::field_selectors(&served.gvk()).contains(&field) => Ok(()),
        None => Err(ApiError::bad_request(kinds::unsupported_field(&served.gvk(), field))),
    }
}

/// The value of a selectable field.
pub fn field_value(served: &Served, object: &Value, field: &str) -> String {
    if served.custom.is_none() {
        return kinds::field_value(&served.gvk(), object, field).unwrap_or_default();
    }
    let mut node = object;
    for part in field.split('.') {
        match node.get(part) {
            Some(next) => node = next,
            None => return String::new(),
        }
    }
    match node {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A label selector as text, as Scale shows it.
pub fn selector_text(selector: Option<&Value>) -> String {
    let Some(Value::Object(selector)) = selector else { return String::new() };
    let labels = match selector.get("matchLabels") {
        Some(Value::Object(labels)) => labels.clone(),
        None if !selector.contains_key("matchExpressions") => selector.clone(),
        _ => Map::new(),
    };
    let mut parts: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    parts.sort();
    parts.join(",")
}

/// The fields that a write of `status` cannot change, for managed fields.
pub fn reset_by_status(served: &Served) -> Vec<mainstay_merge::fieldset::Path> {
    use mainstay_merge::fieldset::Path;
    if served.custom.is_some() {
        return vec![Path::fields(["metadata"]), Path::fields(["spec"])];
    }
    match (served.facts.group.as_str(), served.facts.kind.as_str()) {
        ("", "Pod") => {
            vec![Path::fields(["spec"]), Path::fields(["metadata", "deletionTimestamp"]), Path::fields(["metadata", "ownerReferences"])]
        }
        ("apiregistration.k8s.io" | "flowcontrol.apiserver.k8s.io" | "admissionregistration.k8s.io", _)
        | ("networking.k8s.io", "ServiceCIDR")
        | ("resource.k8s.io", "ResourceClaim")
        | ("storage.k8s.io", "VolumeAttachment") => vec![Path::fields(["metadata"]), Path::fields(["spec"])],
        ("apps", "Deployment") => vec![Path::fields(["spec"]), Path::fields(["metadata", "labels"])],
        ("certificates.k8s.io", _) => vec![Path::fields(["spec"]), Path::fields(["status", "conditions"])],
        _ => vec![Path::fields(["spec"])],
    }
}
