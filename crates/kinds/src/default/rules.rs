//! Defaults that look at more than one field.

use std::sync::LazyLock;

use base64::Engine as _;
use regex::Regex;
use serde_json::{Map, Value, json};

use crate::Gvk;
use crate::quantity;

type Object = Map<String, Value>;

/// Defaults that a kind gives its whole object, before those of its parts.
pub(super) fn object(gvk: &Gvk, map: &mut Object) {
    match gvk.group_kind() {
        ("", "Pod") => {
            if let Some(Value::Object(spec)) = map.get_mut("spec") {
                pod_only(spec);
            }
        }
        ("", "Namespace") => {
            if let Some(name) = text_at(map, &["metadata", "name"]) {
                entry(entry(map, "metadata"), "labels").insert("kubernetes.io/metadata.name".into(), json!(name));
            }
        }
        ("", "Secret") => string_data(map),
        ("apps", "DaemonSet") => {
            // A counter of the oldest API, which later ones carry as an annotation; the strategy counts.
            let annotations = entry(entry(map, "metadata"), "annotations");
            annotations.entry("deprecated.daemonset.template.generation").or_insert(json!("0"));
        }
        ("", "ReplicationController") => labels_from_template(map, true),
        ("batch", "Job") => {
            labels_from_template(map, false);
            if let Some(Value::Object(spec)) = map.get_mut("spec") {
                job(spec);
            }
        }
        ("", "PersistentVolume" | "PersistentVolumeClaim") => {
            if gvk.kind == "PersistentVolume"
                && let Some(Value::Object(spec)) = map.get_mut("spec")
            {
                // Not of its spec: attachments have one, too.
                spec.entry("persistentVolumeReclaimPolicy").or_insert(json!("Retain"));
                spec.entry("volumeMode").or_insert(json!("Filesystem"));
            }
            // The phase is a default of the status, which an absent status would not be asked for.
            entry(map, "status");
        }
        _ => {}
    }
}

/// Defaults of a type before its rows.
pub(super) fn before(name: &str, map: &mut Object) {
    match name {
        "core.v1.Volume" if map.keys().all(|key| key == "name") => {
            map.insert("emptyDir".into(), json!({}));
        }
        "core.v1.ServiceSpec" if map.get("sessionAffinity").is_none_or(|value| value == "None") => {
            map.remove("sessionAffinityConfig");
        }
        "core.v1.NodeSpec" => first_of_many(map, "podCIDR", "podCIDRs", |single| single),
        "core.v1.PodStatus" => first_of_many(map, "podIP", "podIPs", |single| json!({"ip": single})),
        "core.v1.PodSpec" => {
            // The deprecated name says what the current one says, on both sides.
            let current = map.get("serviceAccountName").or(map.get("serviceAccount")).cloned();
            if let Some(current) = current {
                map.insert("serviceAccountName".into(), current.clone());
                map.insert("serviceAccount".into(), current);
            }
        }
        _ => {}
    }
}

/// A field that became a list, whose items are made by `item`: if the two disagree, the single one says what is meant.
fn first_of_many(map: &mut Object, one: &str, many: &str, item: fn(Value) -> Value) {
    let single = map.get(one).filter(|single| single.as_str().is_some_and(|text| !text.is_empty())).cloned().map(item);
    let first = map.get(many).and_then(|list| list.get(0)).cloned();
    match (single, first) {
        (Some(single), first) if first.as_ref() != Some(&single) => {
            map.insert(many.into(), json!([single]));
        }
        (None, Some(first)) => {
            let text = first.get("ip").cloned().unwrap_or(first);
            map.insert(one.into(), text);
        }
        _ => {}
    }
}

/// `stringData` is a convenience for writers: it is never stored.
fn string_data(map: &mut Object) {
    if let Some(Value::Object(texts)) = map.remove("stringData") {
        let data = entry(map, "data");
        for (key, text) in texts {
            if let Some(text) = text.as_str() {
                data.insert(key, json!(base64::engine::general_purpose::STANDARD.encode(text)));
            }
        }
    }
}

/// Defaults of a type after its rows.
pub(super) fn after(name: &str, map: &mut Object) {
    match name {
        "core.v1.Container" | "core.v1.EphemeralContainer" if !map.contains_key("imagePullPolicy") => {
            let image = map.get("image").and_then(Value::as_str).unwrap_or_default();
            let policy = if tag_is_latest(image) { "Always" } else { "IfNotPresent" };
            map.insert("imagePullPolicy".into(), json!(policy));
        }
        "core.v1.ServiceSpec" if map.get("type") == Some(&json!("ClusterIP")) && map.contains_key("externalIPs") => {
            map.entry("externalTrafficPolicy").or_insert(json!("Cluster"));
        }
        "core.v1.ServicePort" => {
            let unset = map.get("targetPort").is_none_or(|value| *value == json!(0) || *value == json!(""));
            if unset && let Some(port) = map.get("port").cloned() {
                map.insert("targetPort".into(), port);
            }
        }
        "core.v1.LimitRangeItem" => limit_range_item(map),
        "core.v1.NodeStatus" => {
            if let Some(Value::Object(capacity)) = map.get("capacity").cloned() {
                let allocatable = entry(map, "allocatable");
                if allocatable.is_empty() {
                    *allocatable = capacity;
                }
            }
        }
        "apps.v1.StatefulSetSpec" => {
            if let Some(Value::Array(claims)) = map.get_mut("volumeClaimTemplates") {
                for claim in claims.iter_mut().filter_map(Value::as_object_mut) {
                    claim.entry("kind").or_insert(json!("PersistentVolumeClaim"));
                    claim.entry("apiVersion").or_insert(json!("v1"));
                }
            }
        }
        "autoscaling.v2.HorizontalPodAutoscalerBehavior" => {
            scaling_rules(
                entry(map, "scaleUp"),
                Some(0),
                &json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]),
            );
            scaling_rules(entry(map, "scaleDown"), None, &json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
        }
        "networking.v1.NetworkPolicySpec" if !map.contains_key("policyTypes") => {
            let types = if map.contains_key("egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            map.insert("policyTypes".into(), types);
        }
        "apiextensions.v1.CustomResourceDefinitionNames" => {
            if let Some(kind) = map.get("kind").and_then(Value::as_str).filter(|kind| !kind.is_empty()).map(str::to_owned) {
                map.entry("singular").or_insert(json!(kind.to_lowercase()));
                map.entry("listKind").or_insert(json!(format!("{kind}List")));
            }
        }
        "flowcontrol.v1.PriorityLevelConfigurationSpec" if map.get("type") == Some(&json!("Exempt")) => {
            entry(map, "exempt");
        }
        _ => {}
    }
}

/// Amounts of resources are kept in thousandths, rounded up.
pub(super) fn resource_list(map: &mut Object) {
    for value in map.values_mut() {
        if let Some(written) = value.as_str().and_then(|text| quantity::written_in_milli(text).ok()) {
            *value = json!(written);
        }
    }
}

/// Returns true if no tag, or the tag `latest`, is named: such images are pulled every time. A digest names content, so it alone does not, and
/// what cannot be read as an image names nothing.
fn tag_is_latest(image: &str) -> bool {
    // Docker's short forms: a first part without dot, colon or capital is no host.
    let (host, rest) = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first => (first, rest),
        _ => ("docker.io", image),
    };
    let full = format!("{host}/{rest}");
    let Some(parts) = IMAGE.captures(&full).filter(|_| !IDENTIFIER.is_match(image)) else { return false };
    if parts.name("path").is_some_and(|path| path.len() + usize::from(path.as_str().find('/').is_none()) * "library/".len() > 255) {
        return false;
    }
    match (parts.name("tag"), parts.name("digest")) {
        (Some(tag), _) => tag.as_str() == "latest",
        (None, digest) => digest.is_none(),
    }
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| {
            #[allow(clippy::expect_used, reason = "a constant pattern, exercised by the tests")]
            Regex::new($text).expect("a valid pattern")
        });
    };
}

pattern!(IDENTIFIER, "^[a-f0-9]{64}$");
pattern!(
    IMAGE,
    concat!(
        r"^(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?",
        r"/(?P<path>[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)",
        r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?",
        "(?:@(?P<digest>sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}))?$"
    )
);

/// Defaults that pods have and pod templates do not.
fn pod_only(spec: &mut Object) {
    spec.entry("enableServiceLinks").or_insert(json!(true));
    let host_network = spec.get("hostNetwork") == Some(&json!(true));
    for field in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = spec.get_mut(field) else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            requests_from_limits(container);
            if host_network && let Some(Value::Array(ports)) = container.get_mut("ports") {
                for port in ports.iter_mut().filter_map(Value::as_object_mut) {
                    if let Some(number) = port.get("containerPort").cloned() {
                        port.entry("hostPort").or_insert(number);
                    }
                }
            }
        }
    }
    if let Some(Value::Object(resources)) = spec.get_mut("resources") {
        limits_to_requests(resources);
    }
}

fn requests_from_limits(container: &mut Object) {
    if let Some(Value::Object(resources)) = container.get_mut("resources") {
        limits_to_requests(resources);
    }
}

fn limits_to_requests(resources: &mut Object) {
    if let Some(Value::Object(limits)) = resources.get("limits").cloned() {
        let requests = entry(resources, "requests");
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
}

fn labels_from_template(map: &mut Object, selector: bool) {
    let labels = map.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).and_then(Value::as_object).cloned();
    let Some(labels) = labels.filter(|labels| !labels.is_empty()) else { return };
    if selector && let Some(Value::Object(spec)) = map.get_mut("spec") {
        let selector = entry(spec, "selector");
        if selector.is_empty() {
            selector.clone_from(&labels);
        }
    }
    let own = entry(entry(map, "metadata"), "labels");
    if own.is_empty() {
        *own = labels;
    }
}

fn job(spec: &mut Object) {
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".into(), json!(1));
    }
    spec.entry("parallelism").or_insert(json!(1));
    if !spec.contains_key("backoffLimit") {
        let limit = if spec.contains_key("backoffLimitPerIndex") { i32::MAX } else { 6 };
        spec.insert("backoffLimit".into(), json!(limit));
    }
    spec.entry("completionMode").or_insert(json!("NonIndexed"));
    spec.entry("suspend").or_insert(json!(false));
    spec.entry("manualSelector").or_insert(json!(false));
    let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    spec.entry("podReplacementPolicy").or_insert(json!(replacement));
}

fn limit_range_item(map: &mut Object) {
    if map.get("type") != Some(&json!("Container")) {
        return;
    }
    let list = |map: &Object, field: &str| map.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
    let (max, min) = (list(map, "max"), list(map, "min"));
    let fill = |map: &mut Object, field: &str, from: &Object| {
        if from.is_empty() {
            return;
        }
        let target = entry(map, field);
        for (name, amount) in from {
            target.entry(name.clone()).or_insert(amount.clone());
        }
    };
    fill(map, "default", &max);
    let default = list(map, "default");
    fill(map, "defaultRequest", &default);
    fill(map, "defaultRequest", &min);
}

fn scaling_rules(rules: &mut Object, window: Option<i64>, policies: &Value) {
    rules.entry("selectPolicy").or_insert(json!("Max"));
    if let Some(window) = window {
        rules.entry("stabilizationWindowSeconds").or_insert(json!(window));
    }
    rules.entry("policies").or_insert_with(|| policies.clone());
}

fn text_at(map: &Object, path: &[&str]) -> Option<String> {
    let (first, rest) = path.split_first()?;
    let mut value = map.get(*first)?;
    for key in rest {
        value = value.get(key)?;
    }
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The object under a key, made if there is none.
pub(crate) fn entry<'a>(map: &'a mut Object, key: &str) -> &'a mut Object {
    let slot = map.entry(key).or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("an object was put there"),
    }
}
