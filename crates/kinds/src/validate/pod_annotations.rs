//! Annotations of pods and pod templates that represent fields, or once did.

use mainstay_golang::value::json_type;
use mainstay_schema::field::{Error, Path};
use serde_json::{Map, Value, json};

use super::pod_spec::every_container;
use super::{Errors, map, scheduling, text, volumes};
use mainstay_golang::json_reader;

pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

fn of(holder: &Value) -> impl Iterator<Item = (&String, &str)> {
    let all = holder.get("metadata").and_then(|metadata| map(metadata, "annotations"));
    all.into_iter().flatten().map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

/// Findings about the annotations of a pod or template, each for itself.
pub(super) fn annotations(holder: &Value, path: &Path) -> Errors {
    let null = Value::Null;
    let spec = holder.get("spec").unwrap_or(&null);
    let value = |name: &str| of(holder).find(|(key, _)| *key == name).map(|(_, value)| value);
    let mut errors = Vec::new();
    if let Some(hash) = value(MIRROR).filter(|_| text(spec, "nodeName").is_empty()) {
        errors.push(Error::invalid(&path.key(MIRROR), hash, "must set spec.nodeName if mirror pod annotation is set"));
    }
    if let Some(given) = value(TOLERATIONS).filter(|given| !given.is_empty()) {
        errors.extend(tolerations(given, path));
    }
    if let Some(cost) = value(DELETION_COST).filter(|cost| !is_cost(cost)) {
        errors.push(Error::invalid(&path.key(DELETION_COST), cost, "must be a 32bit integer"));
    }
    if let Some(profile) = value(SECCOMP_POD) {
        errors.extend(seccomp(profile, &path.child(SECCOMP_POD)));
    }
    for (key, profile) in of(holder).filter(|(key, _)| key.starts_with(SECCOMP_CONTAINER)) {
        errors.extend(seccomp(profile, &path.child(key)));
    }
    for (key, profile) in of(holder) {
        let Some(name) = key.strip_prefix(APP_ARMOR) else { continue };
        if !every_container(spec, &Path::root()).any(|(container, _)| text(container, "name") == name) {
            errors.push(Error::invalid(&path.key(key), name, "container not found"));
        }
        if !["", "runtime/default", "unconfined"].contains(&profile) && !profile.starts_with("localhost/") {
            errors.push(Error::invalid(&path.key(key), profile, format!("invalid AppArmor profile name: {profile:?}")));
        }
    }
    errors
}

fn tolerations(given: &str, path: &Path) -> Errors {
    let problem = match json_reader::parse(given.as_bytes()) {
        Ok(Value::Null) => return Vec::new(),
        Ok(list @ Value::Array(_)) => return scheduling::tolerations(&json!({"tolerations": list}), &path.child(TOLERATIONS)),
        Ok(other) => format!("json: cannot unmarshal {} into Go value of type []core.Toleration", json_type(&other)),
        Err(problem) => problem.to_string(),
    };
    vec![Error::invalid(path, TOLERATIONS, problem)]
}

/// Signs in front and leading zeros are not taken, but for the minus.
fn is_cost(text: &str) -> bool {
    (text.starts_with('-') || text == "0" || text.starts_with(|first: char| ('1'..='9').contains(&first))) && text.parse::<i32>().is_ok()
}

fn seccomp(profile: &str, path: &Path) -> Errors {
    match profile.strip_prefix("localhost/") {
        _ if ["runtime/default", "docker/default", "unconfined"].contains(&profile) => Vec::new(),
        Some(file) => volumes::descending_path(file, path),
        None => vec![Error::invalid(path, profile, "must be a valid seccomp profile")],
    }
}

/// Annotations and fields that say the same thing must say the same.
pub(super) fn match_fields(holder: &Value, path: &Path) -> Errors {
    let null = Value::Null;
    let spec = holder.get("spec").unwrap_or(&null);
    let value = |name: &str| of(holder).find(|(key, _)| *key == name).map(|(_, value)| value);
    let profile = |holder: &Value, field: &str| holder.get("securityContext").and_then(|context| context.get(field)).cloned();
    let mut errors = Vec::new();
    if let (Some(annotation), Some(given)) = (value(SECCOMP_POD), profile(spec, "seccompProfile")) {
        errors.extend(same(
            annotation,
            &given,
            &["runtime/default", "docker/default"],
            "seccomp",
            &path.children(&["securityContext", "seccompProfile"]),
        ));
    }
    for (container, path) in every_container(spec, path) {
        let key = format!("{SECCOMP_CONTAINER}{}", text(container, "name"));
        if let (Some(annotation), Some(given)) = (value(&key), profile(container, "seccompProfile")) {
            let path = path.children(&["securityContext", "seccompProfile"]);
            errors.extend(same(annotation, &given, &["runtime/default", "docker/default"], "seccomp", &path));
        }
    }
    if spec.pointer("/os/name") == Some(&json!("windows")) {
        return errors;
    }
    for (container, path) in every_container(spec, path) {
        let given = profile(container, "appArmorProfile").or_else(|| profile(spec, "appArmorProfile"));
        let key = format!("{APP_ARMOR}{}", text(container, "name"));
        if let (Some(annotation), Some(given)) = (value(&key), given) {
            let path = path.children(&["securityContext", "appArmorProfile"]);
            errors.extend(same(annotation, &given, &["runtime/default"], "apparmor", &path));
        }
    }
    errors
}

fn same(annotation: &str, profile: &Value, defaults: &[&str], what: &str, path: &Path) -> Option<Error> {
    let other = || Some(Error::forbidden(&path.child("type"), format!("{what} type in annotation and field must match")));
    match text(profile, "type") {
        "Unconfined" if annotation != "unconfined" => other(),
        "RuntimeDefault" if !defaults.contains(&annotation) => other(),
        "Localhost" => match annotation.strip_prefix("localhost/") {
            None => other(),
            Some(file) if profile.get("localhostProfile").and_then(Value::as_str) != Some(file) => {
                let words = format!("{what} profile in annotation and field must match");
                Some(Error::forbidden(&path.child("localhostProfile"), words))
            }
            Some(_) => None,
        },
        _ => None,
    }
}

/// Findings about annotations that represent something a running pod cannot change.
pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let empty = Map::new();
    let all = |pod: &Value| pod.get("metadata").and_then(|metadata| map(metadata, "annotations")).cloned().unwrap_or_else(|| empty.clone());
    let (now, before) = (all(new), all(old));
    let path = Path::new("metadata").child("annotations");
    let mut errors = Vec::new();
    let mut tell = |key: &str, verb: &str| {
        if key.starts_with(APP_ARMOR) {
            errors.push(Error::forbidden(&path.key(key), format!("may not {verb} AppArmor annotations")));
        }
        if key == MIRROR {
            errors.push(Error::forbidden(&path.key(key), format!("may not {verb} mirror pod annotation")));
        }
    };
    for (key, value) in &before {
        if now.get(key) != Some(value) {
            tell(key, "remove or update");
        }
    }
    now.keys().filter(|key| !before.contains_key(*key)).for_each(|key| tell(key, "add"));
    errors.extend(annotations(new, &path));
    errors
}

/// Returns true if a pod represents one that its node has without being asked.
pub(super) fn is_mirror(pod: &Value) -> bool {
    of(pod).any(|(key, _)| key == MIRROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(holder: &Value) -> Vec<String> {
        annotations(holder, &Path::new("annotations")).iter().map(Error::to_string).collect()
    }

    /// KAPI-REST-08: annotations of pods are looked at, each for itself and beside the fields that say the same.
    #[test]
    fn what_is_wrong_with_annotations() {
        let pod = json!({"metadata": {"annotations": {DELETION_COST: "+1", format!("{APP_ARMOR}x"): "odd", TOLERATIONS: "{}"}},
            "spec": {"containers": [{"name": "c"}]}});
        assert_eq!(
            told(&pod),
            [
                "annotations: Invalid value: \"scheduler.alpha.kubernetes.io/tolerations\": \
                    json: cannot unmarshal object into Go value of type []core.Toleration",
                "annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"+1\": must be a 32bit integer",
                "annotations[container.apparmor.security.beta.kubernetes.io/x]: Invalid value: \"x\": container not found",
                "annotations[container.apparmor.security.beta.kubernetes.io/x]: Invalid value: \"odd\": invalid AppArmor profile name: \"odd\"",
            ]
        );
        let pod = json!({"metadata": {"annotations": {format!("{APP_ARMOR}c"): "localhost/a", SECCOMP_POD: "unconfined"}},
            "spec": {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Localhost", "localhostProfile": "b"}},
                "containers": [{"name": "c"}]}});
        assert_eq!(told(&pod), Vec::<String>::new());
        let fields: Vec<String> = match_fields(&pod, &Path::new("spec")).iter().map(|error| error.field.to_string()).collect();
        assert_eq!(
            fields,
            ["spec.securityContext.seccompProfile.type", "spec.containers[0].securityContext.appArmorProfile.localhostProfile"]
        );
    }
}
