//! A Subscription's `spec.config` on a Deployment (OLM0-API-16, OLM0-CSV-13, OLM0-ADMIN-16).

use mainstay_bundle::go::{Mismatch, conform};
use serde_json::{Map, Value};

/// The configuration, with the fields as Go's structs hold them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SubscriptionConfig {
    /// `env`.
    pub env: Vec<Value>,
    /// `envFrom`.
    pub env_from: Vec<Value>,
    /// `volumes`.
    pub volumes: Vec<Value>,
    /// `volumeMounts`.
    pub volume_mounts: Vec<Value>,
    /// `tolerations`.
    pub tolerations: Vec<Value>,
    /// `resources`, if it is set.
    pub resources: Option<Value>,
    /// `nodeSelector`, if it is set.
    pub node_selector: Option<Value>,
    /// `affinity`, if it is set.
    pub affinity: Option<Affinity>,
    /// `annotations`, if they are set.
    pub annotations: Option<Map<String, Value>>,
}

/// The parts of an affinity.
const PARTS: [&str; 3] = ["nodeAffinity", "podAffinity", "podAntiAffinity"];

/// The affinity of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Affinity {
    /// The parts as Go's struct holds them.
    value: Value,
    /// The parts of which nothing is set; each clears the Deployment's. A part with an empty list is none of them.
    cleared: Vec<&'static str>,
}

impl Affinity {
    fn read(affinity: &Value) -> Result<Self, Mismatch> {
        const LISTS: [&str; 2] = ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"];
        let nothing = |part: &&&str| match affinity.get(**part).filter(|part| !part.is_null()) {
            Some(part) => LISTS.iter().all(|list| part.get(list).is_none_or(Value::is_null)),
            None => false,
        };
        Ok(Self { value: conform("Affinity", affinity)?, cleared: PARTS.iter().filter(nothing).copied().collect() })
    }
}

impl SubscriptionConfig {
    /// Reads `spec.config`.
    pub fn read(config: &Value) -> Result<Self, Mismatch> {
        let list = |field: &str, kind: &str| match config.get(field).and_then(Value::as_array) {
            Some(items) => items.iter().map(|item| conform(kind, item)).collect(),
            None => Ok(Vec::new()),
        };
        let set = |field: &str| config.get(field).filter(|value| !value.is_null());
        let one = |field: &str, kind: &str| set(field).map(|value| conform(kind, value)).transpose();
        Ok(Self {
            env: list("env", "EnvVar")?,
            env_from: list("envFrom", "EnvFromSource")?,
            volumes: list("volumes", "Volume")?,
            volume_mounts: list("volumeMounts", "VolumeMount")?,
            tolerations: list("tolerations", "Toleration")?,
            resources: one("resources", "ResourceRequirements")?,
            node_selector: set("nodeSelector").cloned(),
            affinity: set("affinity").map(Affinity::read).transpose()?,
            annotations: set("annotations").and_then(Value::as_object).cloned(),
        })
    }
}

/// The names by which a configuration of its own keeps the cluster's proxy away (OLM0-ADMIN-16).
const PROXY: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// Applies a configuration, and the variables of the cluster's proxy, to a Deployment as Go's struct holds it.
pub fn apply(deployment: &mut Value, config: &SubscriptionConfig, proxy: &[Value]) {
    let own_proxy = config.env.iter().any(|one| PROXY.iter().any(|name| one["name"].as_str() == Some(name)));
    let mut env = config.env.clone();
    if !own_proxy {
        env.extend(proxy.iter().filter(|one| one["value"].as_str().is_some_and(|value| !value.is_empty())).cloned());
    }
    let pod = &mut deployment["spec"]["template"]["spec"];
    for container in containers(pod) {
        set_list(container, "env", |list| merge_env(&list, &env));
        set_list(container, "envFrom", |list| append_missing(list, &config.env_from));
        set_list(container, "volumeMounts", |list| merge_named(list, &config.volume_mounts));
        if let Some(resources) = &config.resources {
            container["resources"] = resources.clone();
        }
    }
    set_list(pod, "volumes", |list| merge_named(list, &config.volumes));
    set_list(pod, "tolerations", |list| append_missing(list, &config.tolerations));
    if let Some(selector) = &config.node_selector {
        set(pod, "nodeSelector", selector.clone());
    }
    if let Some(affinity) = &config.affinity {
        let merged = merge_affinity(pod.get("affinity"), affinity);
        set(pod, "affinity", merged.unwrap_or_default());
    }
    if let Some(annotations) = &config.annotations {
        for metadata in ["/metadata", "/spec/template/metadata"] {
            let Some(metadata) = deployment.pointer_mut(metadata) else { continue };
            let mut merged = annotations.clone();
            merged.extend(metadata["annotations"].as_object().cloned().unwrap_or_default());
            set(metadata, "annotations", Value::Object(merged));
        }
    }
}

/// Adds variables to every container; init containers are left alone.
pub fn add_env(deployment: &mut Value, env: &[Value]) {
    for container in containers(&mut deployment["spec"]["template"]["spec"]) {
        set_list(container, "env", |list| merge_env(&list, env));
    }
}

fn containers(pod: &mut Value) -> impl Iterator<Item = &mut Value> {
    pod["containers"].as_array_mut().into_iter().flatten()
}

/// Changes a list that Go leaves out if it is empty.
fn set_list(of: &mut Value, field: &str, change: impl FnOnce(Vec<Value>) -> Vec<Value>) {
    let list = match of.get_mut(field).map(Value::take) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    set(of, field, Value::Array(change(list)));
}

/// Sets a field that Go leaves out if it is nothing or empty.
fn set(of: &mut Value, field: &str, value: Value) {
    let Some(fields) = of.as_object_mut() else { return };
    let empty = match &value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    };
    if empty {
        fields.remove(field);
    } else {
        fields.insert(field.to_owned(), value);
    }
}

/// New variables replace those of the same name in place; others follow in their order. Of several with one name the last counts; upstream
/// leaves the second variable of one name in a container without name, and repeats new ones as often as they are given.
fn merge_env(list: &[Value], new: &[Value]) -> Vec<Value> {
    let mut merged: std::collections::BTreeMap<String, Value> = std::collections::BTreeMap::new();
    let name = |one: &Value| one["name"].as_str().unwrap_or_default().to_owned();
    for one in list.iter().chain(new) {
        merged.insert(name(one), one.clone());
    }
    let mut out = Vec::new();
    for one in list {
        out.push(merged.remove(&name(one)).unwrap_or_else(|| serde_json::json!({"name": ""})));
    }
    out.extend(new.iter().filter_map(|one| merged.get(&name(one)).cloned()));
    out
}

/// New entries follow unless an equal one was there before.
fn append_missing(list: Vec<Value>, new: &[Value]) -> Vec<Value> {
    let before = list.len();
    let mut out = list;
    for one in new {
        if !out[..before].contains(one) {
            out.push(one.clone());
        }
    }
    out
}

/// New entries replace the first of the same name that was there before; others follow. After the first that follows, upstream still replaces,
/// but in a list that is not read any more.
fn merge_named(list: Vec<Value>, new: &[Value]) -> Vec<Value> {
    let before = list.len();
    let mut out = list;
    for one in new {
        match out[..before].iter().position(|other| other["name"] == one["name"]) {
            Some(at) if out.len() == before => out[at] = one.clone(),
            Some(_) => {}
            None => out.push(one.clone()),
        }
    }
    out
}

/// Each part that is set replaces that part; a cleared part leaves, an empty affinity clears all of them. Upstream clears all for a cleared
/// `podAntiAffinity`, too.
fn merge_affinity(own: Option<&Value>, new: &Affinity) -> Option<Value> {
    let is_empty = |value: &Value| value.as_object().is_none_or(Map::is_empty);
    if is_empty(&new.value) {
        return None;
    }
    let Some(own) = own.filter(|own| !is_empty(own)) else { return Some(new.value.clone()) };
    let mut merged = own.clone();
    for part in PARTS {
        match new.value.get(part) {
            Some(_) if new.cleared.contains(&part) && part == "podAntiAffinity" => return None,
            Some(_) if new.cleared.contains(&part) => set(&mut merged, part, Value::Null),
            Some(value) => merged[part] = value.clone(),
            None => {}
        }
    }
    (!is_empty(&merged)).then_some(merged)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    /// OLM0-API-16: an empty part clears, a part with an empty list replaces, as upstream tells them apart.
    #[test]
    fn affinities() {
        let own = json!({"nodeAffinity": {}, "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}});
        let empty_list = json!({"requiredDuringSchedulingIgnoredDuringExecution": []});
        for (config, wanted) in [
            (json!({}), None),
            (json!({"podAffinity": {}}), Some(json!({"nodeAffinity": {}}))),
            (json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": null}}), Some(json!({"nodeAffinity": {}}))),
            (json!({"podAffinity": empty_list}), Some(json!({"nodeAffinity": {}, "podAffinity": {}}))),
            (json!({"nodeAffinity": {}, "podAffinity": {}}), None),
            (json!({"podAntiAffinity": {}}), None),
            (json!({"podAffinity": {}, "podAntiAffinity": empty_list}), Some(json!({"nodeAffinity": {}, "podAntiAffinity": {}}))),
        ] {
            let mut deployment = json!({"spec": {"template": {"spec": {"affinity": own}}}});
            apply(&mut deployment, &SubscriptionConfig::read(&json!({"affinity": config})).unwrap(), &[]);
            assert_eq!(deployment.pointer("/spec/template/spec/affinity").cloned(), wanted, "{config}");
        }
        let mut none = json!({"spec": {"template": {"spec": {}}}});
        apply(&mut none, &SubscriptionConfig::read(&json!({"affinity": {"podAffinity": {}}})).unwrap(), &[]);
        assert_eq!(none.pointer("/spec/template/spec/affinity"), Some(&json!({"podAffinity": {}})));
    }
}
