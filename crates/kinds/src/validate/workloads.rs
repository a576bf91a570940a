//! Workloads: a selector, a template that it selects, and how the one becomes the other.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Value, json};

use super::{
    Errors, all_invalid, has, int, internal, labels, list, map, meta, names, not_negative, one_of_if_set, pod_annotations, pod_spec,
    storage, text,
};

const MISMATCH: &str = "`selector` does not match template `labels`";

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

fn template(spec: &Value) -> &Value {
    spec.get("template").unwrap_or(&Value::Null)
}

/// A pod template, whatever holds it.
pub(super) fn pod_template_spec(template: &Value, path: &Path) -> Errors {
    let mut errors = template_metadata(template, path);
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let path = path.child("spec");
    errors.extend(pod_spec::pod_spec(spec, None, &path));
    errors.extend(pod_annotations::match_fields(template, &path));
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.push(Error::forbidden(&path.child("ephemeralContainers"), "ephemeral containers not allowed in pod template"));
    }
    errors
}

fn template_metadata(template: &Value, path: &Path) -> Errors {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    let mut errors = labels::labels(map(metadata, "labels"), &path.child("labels"));
    errors.extend(meta::annotations(map(metadata, "annotations"), &path.child("annotations")));
    errors.extend(pod_annotations::annotations(template, &path.child("annotations")));
    errors
}

pub(super) fn pod_template(object: &Value) -> Errors {
    pod_template_spec(object.get("template").unwrap_or(&Value::Null), &Path::new("template"))
}

/// Findings about templates of pods that always run.
fn runs_always(template: &Value, path: &Path, kind: &str) -> Errors {
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let path = path.child("spec");
    let mut errors = Vec::new();
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        errors.push(Error::not_supported(&path.child("restartPolicy"), policy, &["Always"]));
    }
    if has(spec, "activeDeadlineSeconds") {
        errors.push(Error::forbidden(&path.child("activeDeadlineSeconds"), format!("activeDeadlineSeconds in {kind} is not Supported")));
    }
    errors
}

fn selects_template(selector: Option<&Value>, template: &Value, path: &Path) -> Errors {
    // A selector that selects everything is refused as such; it is not told twice.
    if selector.is_some_and(|selector| !selector.is_null() && labels::is_empty(selector)) {
        return Vec::new();
    }
    // One that cannot be read is told as such, too.
    if selector.is_some_and(|selector| !selector.is_null() && !labels::is_valid(selector)) {
        return Vec::new();
    }
    if labels::matches(selector, template.pointer("/metadata/labels").and_then(Value::as_object)) {
        return Vec::new();
    }
    vec![Error::invalid(&path.children(&["metadata", "labels"]), labels::shown(template), MISMATCH)]
}

fn selector_of(spec: &Value) -> Option<&Value> {
    spec.get("selector").filter(|selector| !selector.is_null())
}

fn required_selector(spec: &Value, path: &Path, kind: &str) -> Errors {
    let path = path.child("selector");
    let Some(selector) = selector_of(spec) else { return vec![Error::required(&path, "")] };
    let mut errors = labels::selector(Some(selector), &path);
    if labels::is_empty(selector) {
        errors.push(Error::invalid(&path, internal::shown("meta", selector), format!("empty selector is invalid for {kind}")));
    }
    errors
}

pub(super) fn deployment(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = not_negative(spec, "replicas", &path);
    errors.extend(required_selector(spec, &path, "deployment"));
    errors.extend(selected_template(spec, &path));
    errors.extend(deployment_strategy(spec.get("strategy").unwrap_or(&Value::Null), &path.child("strategy")));
    errors.extend(not_negative(spec, "minReadySeconds", &path));
    errors.extend(not_negative(spec, "revisionHistoryLimit", &path));
    errors.extend(not_negative(spec, "progressDeadlineSeconds", &path));
    if let Some(deadline) = int(spec, "progressDeadlineSeconds")
        && deadline <= int(spec, "minReadySeconds").unwrap_or(0)
    {
        errors.push(Error::invalid(&path.child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds"));
    }
    errors
}

/// The template, unless nothing can select it.
fn selected_template(spec: &Value, path: &Path) -> Errors {
    match selector_of(spec) {
        Some(selector) if !labels::is_valid(selector) => {
            vec![Error::invalid(&path.child("selector"), internal::shown("meta", selector), "invalid label selector")]
        }
        _ => replica_template(spec, path),
    }
}

fn replica_template(spec: &Value, path: &Path) -> Errors {
    let (template, path) = (template(spec), path.child("template"));
    let mut errors = selects_template(selector_of(spec), template, &path);
    errors.extend(pod_template_spec(template, &path));
    let runs = runs_always(template, &path, "ReplicaSet");
    // A template without a pod has one finding, not two.
    if text(template.get("spec").unwrap_or(&Value::Null), "restartPolicy").is_empty() {
        return errors;
    }
    errors.extend(runs);
    errors
}

fn deployment_strategy(strategy: &Value, path: &Path) -> Errors {
    match text(strategy, "type") {
        "Recreate" => {
            if has(strategy, "rollingUpdate") {
                let words = "may not be specified when strategy `type` is 'Recreate'";
                return vec![Error::forbidden(&path.child("rollingUpdate"), words)];
            }
            Vec::new()
        }
        "RollingUpdate" => {
            let Some(rolling) = strategy.get("rollingUpdate") else {
                return vec![Error::required(&path.child("rollingUpdate"), "this should be defaulted and never be nil")];
            };
            let path = path.child("rollingUpdate");
            let unavailable = rolling.get("maxUnavailable").unwrap_or(&Value::Null);
            let mut errors = int_or_percent(unavailable, &path.child("maxUnavailable"));
            let surge = rolling.get("maxSurge").unwrap_or(&Value::Null);
            errors.extend(int_or_percent(surge, &path.child("maxSurge")));
            if is_zero_share(unavailable) && is_zero_share(surge) {
                errors.push(Error::invalid(&path.child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"));
            }
            errors.extend(at_most_all(unavailable, &path.child("maxUnavailable")));
            errors
        }
        other => vec![Error::not_supported(path, go_strategy(strategy, other), &["Recreate", "RollingUpdate"])],
    }
}

/// A strategy as findings print it: Kubernetes' struct.
fn go_strategy(strategy: &Value, kind: &str) -> BadValue {
    let rolling = match strategy.get("rollingUpdate") {
        Some(rolling) if !rolling.is_null() => format!(
            "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
            rolling.get("maxUnavailable").unwrap_or(&Value::Null),
            rolling.get("maxSurge").unwrap_or(&Value::Null)
        ),
        _ => "null".to_owned(),
    };
    BadValue::Json(format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", json!(kind)))
}

/// A number that is not negative, or a share.
pub(super) fn int_or_percent(value: &Value, path: &Path) -> Errors {
    match value {
        Value::String(text) => all_invalid(path, text, names::percent(text)),
        Value::Number(_) if value.as_i64().is_some_and(|value| value < 0) => {
            vec![Error::invalid(path, value, "must be greater than or equal to 0")]
        }
        _ => Vec::new(),
    }
}

fn share(value: &Value) -> Option<i64> {
    let text = value.as_str().filter(|text| names::percent(text).is_empty())?;
    text.strip_suffix('%')?.parse().ok()
}

/// Text that is no share counts as the number it is, or as none.
fn is_zero_share(value: &Value) -> bool {
    let text = || value.as_str().and_then(|text| text.parse().ok());
    value.as_i64().or_else(|| share(value)).or_else(text).unwrap_or(0) == 0
}

/// A share of no more than everything.
pub(super) fn at_most_all(value: &Value, path: &Path) -> Errors {
    if share(value).is_some_and(|share| share > 100) {
        vec![Error::invalid(path, value, "must not be greater than 100%")]
    } else {
        Vec::new()
    }
}

pub(super) fn replica_set(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = not_negative(spec, "replicas", &path);
    errors.extend(not_negative(spec, "minReadySeconds", &path));
    errors.extend(required_selector(spec, &path, "deployment"));
    errors.extend(selected_template(spec, &path));
    errors
}

pub(super) fn replication_controller(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = not_negative(spec, "minReadySeconds", &path);
    let selector = map(spec, "selector").filter(|selector| !selector.is_empty());
    if selector.is_none() {
        errors.push(Error::required(&path.child("selector"), ""));
    }
    errors.extend(not_negative(spec, "replicas", &path));
    let path = path.child("template");
    match spec.get("template").filter(|template| !template.is_null()) {
        None => errors.push(Error::required(&path, "")),
        Some(template) => {
            // The selector is a plain set of labels: it need not be valid to select.
            let labels = template.pointer("/metadata/labels").and_then(Value::as_object);
            let selects = |(key, value): (&String, &Value)| labels.and_then(|labels| labels.get(key)) == Some(value);
            if selector.is_some_and(|selector| !selector.iter().all(selects)) {
                errors.push(Error::invalid(&path.children(&["metadata", "labels"]), labels::shown(template), MISMATCH));
            }
            errors.extend(pod_template_spec(template, &path));
            errors.extend(runs_always(template, &path, "ReplicationController"));
        }
    }
    errors
}

pub(super) fn daemon_set(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = labels::selector(selector_of(spec), &path.child("selector"));
    errors.extend(selects_template(selector_of(spec), template(spec), &path.child("template")));
    if let Some(selector) = selector_of(spec)
        && labels::is_empty(selector)
    {
        errors.push(Error::invalid(&path.child("selector"), internal::shown("meta", selector), "empty selector is invalid for daemonset"));
    }
    errors.extend(pod_template_spec(template(spec), &path.child("template")));
    errors.extend(runs_always(template(spec), &path.child("template"), "DaemonSet"));
    errors.extend(not_negative(spec, "minReadySeconds", &path));
    errors.extend(daemon_set_strategy(spec.get("updateStrategy").unwrap_or(&Value::Null), &path.child("updateStrategy")));
    errors.extend(not_negative(spec, "revisionHistoryLimit", &path));
    errors
}

fn daemon_set_strategy(strategy: &Value, path: &Path) -> Errors {
    match text(strategy, "type") {
        "OnDelete" => Vec::new(),
        "RollingUpdate" => {
            let Some(rolling) = strategy.get("rollingUpdate") else { return vec![Error::required(&path.child("rollingUpdate"), "")] };
            let path = path.child("rollingUpdate");
            let null = Value::Null;
            let (unavailable, surge) = (rolling.get("maxUnavailable").unwrap_or(&null), rolling.get("maxSurge").unwrap_or(&null));
            let mut errors = int_or_percent(unavailable, &path.child("maxUnavailable"));
            errors.extend(int_or_percent(surge, &path.child("maxSurge")));
            errors.extend(at_most_all(unavailable, &path.child("maxUnavailable")));
            errors.extend(at_most_all(surge, &path.child("maxSurge")));
            match (is_zero_share(unavailable), is_zero_share(surge)) {
                (false, false) => {
                    errors.push(Error::invalid(&path.child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero"));
                }
                (true, true) => errors.push(Error::required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0")),
                _ => {}
            }
            errors
        }
        other => vec![Error::not_supported(path, go_strategy(strategy, other), &["RollingUpdate", "OnDelete"])],
    }
}

pub(super) fn stateful_set(object: &Value) -> Errors {
    stateful_set_spec(spec(object), Looked::All, &Path::new("spec"))
}

/// The parts of a StatefulSet that are looked at.
#[derive(Clone, Copy, PartialEq)]
enum Looked {
    All,
    /// All but the parts that cannot change.
    Changeable,
    /// Nor the template.
    ChangeableWithoutTemplate,
}

/// The rules for a changed set: parts that cannot change may be as wrong as before, and the template as long as the set was wrong before.
pub(super) fn stateful_set_again(new: &Value, old: &Value) -> Errors {
    let path = Path::new("spec");
    let before = stateful_set_spec(spec(old), Looked::Changeable, &path);
    let looked = if before.is_empty() { Looked::Changeable } else { Looked::ChangeableWithoutTemplate };
    stateful_set_spec(spec(new), looked, &path)
}

fn stateful_set_spec(spec: &Value, looked: Looked, path: &Path) -> Errors {
    let mut errors = Vec::new();
    match text(spec, "podManagementPolicy") {
        "" => errors.push(Error::required(&path.child("podManagementPolicy"), "")),
        "OrderedReady" | "Parallel" => {}
        other => errors.push(Error::invalid(&path.child("podManagementPolicy"), other, "must be 'OrderedReady' or 'Parallel'")),
    }
    let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
    let own = path.child("updateStrategy");
    match text(strategy, "type") {
        "" => errors.push(Error::required(&own, "")),
        "OnDelete" => {
            if has(strategy, "rollingUpdate") {
                let words = "only allowed for updateStrategy 'RollingUpdate'";
                let rolling = strategy.get("rollingUpdate").unwrap_or(&Value::Null);
                let shown = internal::shown("RollingUpdateStatefulSetStrategy", rolling);
                errors.push(Error::invalid(&own.child("rollingUpdate"), shown, words));
            }
        }
        "RollingUpdate" => {
            if let Some(rolling) = strategy.get("rollingUpdate") {
                errors.extend(not_negative(rolling, "partition", &own.child("rollingUpdate")));
                if let Some(unavailable) = rolling.get("maxUnavailable") {
                    errors.extend(int_or_percent(unavailable, &own.children(&["rollingUpdate", "maxUnavailable"])));
                }
            }
        }
        _ => errors.push(Error::invalid(
            &own,
            internal::shown("StatefulSetUpdateStrategy", strategy),
            "must be 'RollingUpdate' or 'OnDelete'",
        )),
    }
    if let Some(retention) = spec.get("persistentVolumeClaimRetentionPolicy") {
        let path = path.child("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            errors.extend(one_of_if_set(retention, field, &path, &["Retain", "Delete"]));
        }
    }
    if looked == Looked::All {
        let path = path.child("volumeClaimTemplates");
        for (index, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
            errors.extend(storage::claim_spec(claim.get("spec").unwrap_or(&Value::Null), &path.index(index).child("spec")));
        }
    }
    errors.extend(not_negative(spec, "replicas", path));
    errors.extend(not_negative(spec, "minReadySeconds", path));
    if let Some(ordinals) = spec.get("ordinals") {
        errors.extend(not_negative(ordinals, "start", &path.child("ordinals")));
    }
    let service = text(spec, "serviceName");
    if looked == Looked::All && !service.is_empty() {
        errors.extend(all_invalid(&path.child("serviceName"), service, names::label(service)));
    }
    errors.extend(required_selector(spec, path, "statefulset"));
    if let Some(selector) = selector_of(spec).filter(|selector| !labels::is_valid(selector)) {
        errors.push(Error::invalid(&path.child("selector"), internal::shown("meta", selector), ""));
        errors.extend(runs_always(template(spec), &path.child("template"), "StatefulSet"));
        return errors;
    }
    errors.extend(selects_template(selector_of(spec), template(spec), &path.child("template")));
    let own = path.child("template");
    if looked != Looked::ChangeableWithoutTemplate {
        errors.extend(pod_template_spec(&as_started(spec), &own));
    }
    // Kubernetes looks at labels and annotations of this template twice.
    errors.extend(template_metadata(template(spec), &own));
    errors.extend(runs_always(template(spec), &own, "StatefulSet"));
    errors
}

/// The template as the set starts it: with its claims as volumes, and with names of its own.
fn as_started(spec: &Value) -> Value {
    let mut started = template(spec).clone();
    let mut claims: Vec<Value> = Vec::new();
    for claim in list(spec, "volumeClaimTemplates") {
        let name = claim.get("metadata").map_or("", |metadata| text(metadata, "name"));
        let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        if !claims.contains(&volume) {
            claims.push(volume);
        }
    }
    let Some(pod) = started.get_mut("spec").and_then(Value::as_object_mut) else { return started };
    pod.remove("hostname");
    pod.remove("subdomain");
    if claims.is_empty() {
        return started;
    }
    let taken: Vec<Option<Value>> = claims.iter().map(|claim| claim.get("name").cloned()).collect();
    if let Value::Array(volumes) = pod.entry("volumes").or_insert_with(|| json!([])) {
        volumes.retain(|volume| !taken.contains(&volume.get("name").cloned()));
        volumes.splice(0..0, claims);
    }
    started
}

pub(super) fn stateful_set_update(new: &Value, old: &Value) -> Errors {
    const FREE: &[&str] = &[
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |object: &Value| {
        let mut spec = spec(object).clone();
        if let Value::Object(spec) = &mut spec {
            spec.retain(|field, _| !FREE.contains(&field.as_str()));
        }
        // Kubernetes does not know the types of claims inside a set.
        for claim in spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(claim) = claim {
                claim.remove("kind");
                claim.remove("apiVersion");
            }
        }
        spec
    };
    if fixed(new) == fixed(old) {
        return Vec::new();
    }
    let words = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    vec![Error::forbidden(&Path::new("spec"), words)]
}

pub(super) fn selector_is_immutable(new: &Value, old: &Value) -> Errors {
    let (new, old) = (spec(new).get("selector"), spec(old).get("selector"));
    if new == old {
        return Vec::new();
    }
    let shown = internal::shown("*meta", new.unwrap_or(&Value::Null));
    vec![Error::invalid(&Path::new("spec").child("selector"), shown, "field is immutable")]
}
