//! Pods as objects: creation, the few changes that are allowed (images, deadlines, tolerations, gates; resources and debugging containers
//! through their subresources), status.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Map, Value, json};

use super::{Errors, has, int, internal, list, map, pod_annotations, pod_spec, scheduling, text, unified};
use crate::prepare::qos_class;

fn spec(pod: &Value) -> &Value {
    pod.get("spec").unwrap_or(&Value::Null)
}

pub(super) fn create(pod: &Value) -> Errors {
    let (spec, path) = (spec(pod), Path::new("spec"));
    let mut errors = whole(pod);
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.push(Error::forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        errors.push(Error::forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared"));
    }
    errors.extend(pod_annotations::match_fields(pod, &path));
    errors
}

/// Annotations and specification, as of a new pod.
fn whole(pod: &Value) -> Errors {
    let path = Path::new("spec");
    let mut errors = pod_annotations::annotations(pod, &Path::new("metadata").child("annotations"));
    errors.extend(pod_spec::pod_spec(spec(pod), Some(pod), &path));
    errors.extend(pod_spec::only_in_pods(spec(pod), &path));
    errors
}

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let path = Path::new("spec");
    let (now, before) = (spec(new), spec(old));
    let mut errors = whole(new);
    errors.extend(pod_annotations::update(new, old));
    for field in ["containers", "initContainers"] {
        let (given, known) = (list(now, field), list(before, field));
        let path = path.child(field);
        if given.len() != known.len() {
            errors.push(Error::forbidden(&path, "pod updates may not add or remove containers"));
            return errors;
        }
        for (index, container) in given.iter().enumerate() {
            let (image, path) = (text(container, "image"), path.index(index).child("image"));
            if image.is_empty() {
                errors.push(Error::required(&path, ""));
            }
            if image.trim() != image {
                errors.push(Error::invalid(&path, image, "must not have leading or trailing whitespace"));
            }
        }
    }
    let own = path.child("activeDeadlineSeconds");
    match (int(now, "activeDeadlineSeconds"), int(before, "activeDeadlineSeconds")) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            errors.push(Error::invalid(&own, seconds, "must be between 0 and 2147483647, inclusive"));
            return errors;
        }
        (Some(seconds), Some(known)) if known < seconds => {
            errors.push(Error::invalid(&own, seconds, "must be less than or equal to previous value"));
            return errors;
        }
        (None, Some(_)) => errors.push(Error::invalid(&own, Value::Null, "must not update from a positive integer to nil value")),
        _ => {}
    }
    errors.extend(added_tolerations(now, before, &path));
    errors.extend(fewer_gates(now, before, &path.child("schedulingGates")));
    if now == before {
        return errors;
    }
    let (masked, more) = without_changeable(now, before, &path);
    errors.extend(more);
    if masked != *before {
        let diff = unified::unified(&internal::lines("PodSpec", before), &internal::lines("PodSpec", &masked));
        errors.push(Error::forbidden(&path, format!("{CHANGEABLE}\n{diff}")));
    }
    errors
}

fn added_tolerations(now: &Value, before: &Value, path: &Path) -> Errors {
    let bare = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Value::Object(map) = &mut toleration {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    let given: Vec<Value> = list(now, "tolerations").iter().map(bare).collect();
    if !list(before, "tolerations").iter().all(|toleration| given.contains(&bare(toleration))) {
        let words = "existing toleration can not be modified except its tolerationSeconds";
        return vec![Error::forbidden(&path.child("tolerations"), words)];
    }
    scheduling::tolerations(now, &path.child("tolerations"))
}

fn fewer_gates(now: &Value, before: &Value, path: &Path) -> Errors {
    let known: Vec<&str> = list(before, "schedulingGates").iter().map(|gate| text(gate, "name")).collect();
    let mut errors = Vec::new();
    for (index, gate) in list(now, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !known.contains(&name) {
            let words = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(Error::forbidden(&path.index(index).child("name"), words));
        }
    }
    errors
}

/// The new specification with everything that may change as it was before, and findings about such changes.
fn without_changeable(now: &Value, before: &Value, path: &Path) -> (Value, Errors) {
    let mut errors = Vec::new();
    let mut masked = now.clone();
    for field in ["containers", "initContainers"] {
        for (index, container) in masked.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
            keep(container, &list(before, field)[index], "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep(&mut masked, before, field);
    }
    if int(before, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        && int(now, "terminationGracePeriodSeconds") == Some(1)
    {
        keep(&mut masked, before, "terminationGracePeriodSeconds");
    }
    if list(before, "schedulingGates").is_empty() {
        return (masked, errors);
    }
    // A pod that waits may still be told which nodes to avoid.
    if now.get("nodeSelector") != before.get("nodeSelector") {
        let kept = map(before, "nodeSelector")
            .into_iter()
            .flatten()
            .all(|(key, value)| map(now, "nodeSelector").and_then(|map| map.get(key)) == Some(value));
        if !kept {
            let words = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.push(Error::invalid(&path.child("nodeSelector"), now.get("nodeSelector"), words));
        }
        keep(&mut masked, before, "nodeSelector");
    }
    let affinity = |spec: &Value| spec.pointer("/affinity/nodeAffinity").cloned();
    if affinity(now) != affinity(before) {
        errors.extend(narrower(now, before, &path.child("affinity").child("nodeAffinity")));
        match (masked.get_mut("affinity"), before.get("affinity"), affinity(before)) {
            (None, _, Some(known)) => masked["affinity"] = json!({"nodeAffinity": known}),
            (Some(given), None, _) if !has(given, "podAffinity") && !has(given, "podAntiAffinity") => {
                if let Value::Object(masked) = &mut masked {
                    masked.remove("affinity");
                }
            }
            (Some(given), before, _) => keep(given, before.unwrap_or(&Value::Null), "nodeAffinity"),
            (None, _, None) => {}
        }
    }
    (masked, errors)
}

/// Puts a member back as it was.
fn keep(masked: &mut Value, before: &Value, field: &str) {
    let Value::Object(masked) = masked else { return };
    match before.get(field) {
        Some(value) => masked.insert(field.into(), value.clone()),
        None => masked.remove(field),
    };
}

/// Required node affinity may only be narrowed.
fn narrower(now: &Value, before: &Value, path: &Path) -> Errors {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |spec: &Value| {
        spec.pointer(&format!("/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms")).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (given, known) = (terms(now), terms(before));
    let path = path.child(REQUIRED).child("nodeSelectorTerms");
    let shown = |term: &Value| internal::shown("NodeSelectorTerm", term);
    if !known.is_empty() && known.len() != given.len() {
        let all: Vec<String> = given.iter().map(|term| if let BadValue::Json(text) = shown(term) { text } else { String::new() }).collect();
        let all = BadValue::Json(if all.is_empty() { "null".to_owned() } else { format!("[{}]", all.join(",")) });
        return vec![Error::invalid(&path, all, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")];
    }
    let added = |new: &Value, old: &Value| {
        let members = ["matchExpressions", "matchFields"];
        if members.iter().all(|member| list(old, member).is_empty()) {
            return members.iter().all(|member| list(new, member).is_empty());
        }
        members.iter().all(|member| list(new, member).starts_with(list(old, member)))
    };
    let pairs = known.iter().zip(&given).enumerate();
    pairs
        .filter(|(_, (old, new))| !added(new, old))
        .map(|(index, (_, new))| Error::invalid(&path.index(index), shown(new), "only additions are allowed (no mutations or deletions)"))
        .collect()
}

/// Changes through `pods/ephemeralcontainers`: more of them, never fewer or others.
pub(super) fn ephemeral_containers(new: &Value, old: &Value) -> Errors {
    let mut errors = whole(new);
    errors.extend(pod_annotations::update(new, old));
    if pod_annotations::is_mirror(old) {
        return vec![Error::forbidden(&Path::root(), "static pods do not support ephemeral containers")];
    }
    let path = Path::new("spec").child("ephemeralContainers");
    let given = list(spec(new), "ephemeralContainers");
    for known in list(spec(old), "ephemeralContainers") {
        let name = text(known, "name");
        match given.iter().rfind(|container| text(container, "name") == name) {
            None => errors.push(Error::forbidden(&path, format!("existing ephemeral containers {name:?} may not be removed\n"))),
            Some(container) if container != known => {
                let diff =
                    unified::unified(&internal::lines("EphemeralContainer", known), &internal::lines("EphemeralContainer", container));
                errors.push(Error::forbidden(&path, format!("existing ephemeral containers {name:?} may not be changed\n{diff}")));
            }
            Some(_) => {}
        }
    }
    errors
}

/// The path of nothing, as Go shows it.
fn no_field() -> Path {
    Path::new("[]")
}

/// Changes through `pods/resize`: CPU and memory of containers, and how they are to be changed.
pub(super) fn resize(new: &Value, old: &Value) -> Errors {
    let (now, before, path) = (spec(new), spec(old), Path::new("spec"));
    let mut errors = whole(new);
    let as_a_whole = |spec: &Value| {
        spec.get("resources")
            .is_some_and(|own| ["requests", "limits"].iter().any(|list| map(own, list).is_some_and(|list| !list.is_empty())))
    };
    if pod_annotations::is_mirror(old) {
        return vec![Error::forbidden(&no_field(), "static pods cannot be resized")];
    }
    if before.pointer("/os/name") == Some(&json!("windows")) {
        return vec![Error::forbidden(&no_field(), "windows pods cannot be resized")];
    }
    let class = |pod: &Value| {
        pod.pointer("/status/qosClass").and_then(Value::as_str).map_or_else(|| qos_class(spec(pod)).to_owned(), str::to_owned)
    };
    if class(old) != qos_class(now) {
        errors.push(Error::invalid(&path, class(new), "Pod QOS Class may not change as a result of resizing"));
    }
    let running = old.pointer("/status/containerStatuses").and_then(Value::as_array).into_iter().flatten();
    if running.into_iter().find(|status| status.pointer("/state/running").is_some()).is_some_and(|status| !has(status, "resources")) {
        errors.push(Error::forbidden(&path, "Pod running on node without support for resize"));
    }
    if as_a_whole(before) || as_a_whole(now) {
        let gate = "InPlacePodLevelResourcesVerticalScalingEnabled";
        let words = format!("resize of pods with pod-level resources is forbidden when {gate} feature gate is disabled");
        errors.push(Error::forbidden(&no_field(), words));
        return errors;
    }
    let order = same_containers(now, before, &path);
    if !order.is_empty() {
        errors.extend(order);
        return errors;
    }
    for field in ["initContainers", "containers"] {
        for (index, (given, known)) in list(now, field).iter().zip(list(before, field)).enumerate() {
            if field == "containers" || is_sidecar(known) {
                errors.extend(nothing_removed(given, known, &path.child(field).index(index).child("resources")));
            }
        }
    }
    let mut masked = now.clone();
    for (field, sidecars) in [("containers", false), ("initContainers", true)] {
        for (index, container) in masked.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
            let known = &list(before, field)[index];
            let words = match (sidecars, is_sidecar(container)) {
                (false, _) => "only cpu and memory resources are mutable",
                (true, true) => "only cpu and memory resources for sidecar containers are mutable",
                (true, false) => "resources for non-sidecar init containers are immutable",
            };
            if !sidecars || is_sidecar(container) {
                keep_cpu_and_memory(container, known);
            }
            if container != known {
                errors.push(Error::forbidden(&path, words));
            }
        }
    }
    if errors.is_empty() && masked != *before {
        errors.push(Error::forbidden(&path, "only cpu and memory resources are mutable"));
    }
    errors
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

fn same_containers(now: &Value, before: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for field in ["containers", "initContainers"] {
        let (given, known, path) = (list(now, field), list(before, field), path.child(field));
        if given.len() != known.len() {
            errors.push(Error::forbidden(&path, format!("{field} may not be added or removed on resize")));
            continue;
        }
        for (index, (given, known)) in given.iter().zip(known).enumerate() {
            if text(given, "name") != text(known, "name") {
                errors
                    .push(Error::forbidden(&path.index(index).child("name"), format!("{field} may not be renamed or reordered on resize")));
            }
        }
    }
    errors
}

fn nothing_removed(given: &Value, known: &Value, path: &Path) -> Errors {
    let amounts = |container: &Value, list: &str| {
        container
            .get("resources")
            .and_then(|resources| map(resources, list))
            .map(|map| map.keys().cloned().collect::<Vec<_>>())
            .unwrap_or_default()
    };
    [("requests", "resource requests cannot be removed"), ("limits", "resource limits cannot be removed")]
        .into_iter()
        .filter(|(list, _)| {
            let given = amounts(given, list);
            amounts(known, list).iter().any(|name| !given.contains(name))
        })
        .map(|(list, words)| Error::forbidden(&path.child(list), words))
        .collect()
}

/// CPU and memory as before; other resources stay as they are asked for, if there were any at all.
fn keep_cpu_and_memory(container: &mut Value, known: &Value) {
    let mut resources = Map::new();
    for list in ["limits", "requests"] {
        let of = |container: &Value| container.get("resources").and_then(|resources| map(resources, list)).cloned();
        let Some(before) = of(known) else { continue };
        let mut amounts = of(container).unwrap_or_default();
        for name in ["cpu", "memory"] {
            match before.get(name) {
                Some(amount) => amounts.insert(name.into(), amount.clone()),
                None => amounts.remove(name),
            };
        }
        resources.insert(list.into(), amounts.into());
    }
    container["resources"] = resources.into();
}
