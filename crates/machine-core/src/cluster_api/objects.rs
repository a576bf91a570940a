//! The objects that are made for a machine: its bootstrap Secret, a clone of the infrastructure's template, and its Machine of Cluster API.

use mainstay_objects::{ObjectRef, meta};
use serde_json::{Map, Value, json};

use super::{Config, EXCLUDE_DRAINING, SKIP_REMEDIATION, UID_LABEL, Version};

const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// The type of Secrets of Cluster API.
const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// A template that cannot be cloned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloneError {
    /// It has no content.
    #[error("{kind} {name}: spec.template: must be an object")]
    Empty {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
}

/// Returns the place of a machine's Machine of Cluster API: it has the same namespace and name.
pub fn machine_place(machine: &Value, version: Version) -> ObjectRef {
    place(machine, version.api_version(), "Machine", "")
}

/// Returns the place of a machine's bootstrap Secret.
pub fn secret_place(machine: &Value) -> ObjectRef {
    place(machine, "v1", "Secret", "-bootstrap-data")
}

/// Returns the place of a machine's clone of the template.
pub fn clone_place(machine: &Value, config: &Config) -> ObjectRef {
    place(machine, &config.template.api_version, config.template.cloned_kind(), "")
}

/// Returns the place of the template that a machine names.
pub fn template_place(machine: &Value, config: &Config) -> ObjectRef {
    let name = config.template.name.clone();
    ObjectRef { name, ..place(machine, &config.template.api_version, &config.template.kind, "") }
}

/// Returns the place of the infrastructure object that a Machine of Cluster API names. The reference of `v1beta2` has no version: it is that of
/// the machine's template.
pub fn named_clone(machine: &Value, config: &Config, made: &Value) -> Option<ObjectRef> {
    let text = |field: &str| made.pointer(&format!("/spec/infrastructureRef/{field}")).and_then(Value::as_str);
    let (kind, name) = (text("kind")?, text("name")?);
    let api_version = text("apiVersion").unwrap_or(&config.template.api_version);
    Some(ObjectRef { name: name.to_owned(), ..place(machine, api_version, kind, "") })
}

fn place(machine: &Value, api_version: &str, kind: &str, suffix: &str) -> ObjectRef {
    ObjectRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: meta(machine, "namespace").unwrap_or_default(),
        name: meta(machine, "name").unwrap_or_default() + suffix,
    }
}

/// Returns the bootstrap Secret. `user_data` is in base64, as Secrets hold it; `is_ignition` says what it is.
pub fn secret(machine: &Value, config: &Config, user_data: &str, is_ignition: bool) -> Value {
    let ObjectRef { api_version, kind, namespace, name } = secret_place(machine);
    let format = if is_ignition { "ignition" } else { "cloud-config" };
    json!({
        "apiVersion": api_version, "kind": kind, "type": SECRET_TYPE,
        "metadata": {"name": name, "namespace": namespace, "labels": labels(machine, config)},
        "data": {"value": user_data},
        "stringData": {"format": format},
    })
}

/// Returns whether user data is an Ignition config; anything else is told to be cloud-config.
pub fn is_ignition(user_data: &[u8]) -> bool {
    let config: Option<Value> = serde_json::from_slice(user_data).ok();
    config.is_some_and(|config| config.pointer("/ignition/version").is_some_and(Value::is_string))
}

/// Returns a clone of a template.
///
/// # Errors
/// The template has no content.
pub fn clone(machine: &Value, config: &Config, template: &Value) -> Result<Value, CloneError> {
    let content = template.pointer("/spec/template").and_then(Value::as_object);
    let content = content.ok_or_else(|| CloneError::Empty { kind: config.template.kind.clone(), name: config.template.name.clone() })?;
    let texts = |field: &str| {
        let texts = content.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
        texts.cloned().unwrap_or_default()
    };
    let (mut all_labels, mut annotations) = (texts("labels"), texts("annotations"));
    all_labels.extend(labels(machine, config));
    let (group, _) = config.template.api_version.split_once('/').unwrap_or_default();
    annotations.insert("cluster.x-k8s.io/cloned-from-name".to_owned(), json!(config.template.name));
    annotations.insert("cluster.x-k8s.io/cloned-from-groupkind".to_owned(), json!(format!("{}.{group}", config.template.kind)));
    let ObjectRef { api_version, kind, namespace, name } = clone_place(machine, config);
    Ok(json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": all_labels, "annotations": annotations},
        "spec": content.get("spec").cloned().unwrap_or_else(|| json!({})),
    }))
}

/// Returns the Machine of Cluster API.
pub fn machine(machine: &Value, config: &Config, version: Version) -> Value {
    let clone = clone_place(machine, config);
    let (group, _) = clone.api_version.split_once('/').unwrap_or_default();
    let infrastructure = match version {
        Version::V1Beta2 => json!({"apiGroup": group, "kind": clone.kind, "name": clone.name}),
        Version::V1Beta1 => {
            json!({"apiVersion": clone.api_version, "kind": clone.kind, "name": clone.name, "namespace": clone.namespace})
        }
    };
    let mut spec = json!({
        "clusterName": config.cluster,
        "bootstrap": {"dataSecretName": secret_place(machine).name},
        "infrastructureRef": infrastructure,
    });
    for (field, value) in [("version", &config.version), ("failureDomain", &config.failure_domain)] {
        if let Some(value) = value {
            spec[field] = json!(value);
        }
    }
    let ObjectRef { api_version, kind, namespace, name } = machine_place(machine, version);
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels(machine, config), "annotations": own_annotations()},
        "spec": spec,
    })
}

/// Returns the change by which a Machine of Cluster API leaves drains and health checks to the Machine API again; `None` if it does.
pub fn repair(made: &Value) -> Option<Value> {
    let present = made.pointer("/metadata/annotations");
    let missing: Map<String, Value> =
        own_annotations().into_iter().filter(|(key, _)| present.is_none_or(|present| present.get(key).is_none())).collect();
    (!missing.is_empty()).then(|| json!({"metadata": {"uid": made["metadata"]["uid"], "annotations": missing}}))
}

fn own_annotations() -> Map<String, Value> {
    [EXCLUDE_DRAINING, SKIP_REMEDIATION].into_iter().map(|key| (key.to_owned(), json!(""))).collect()
}

fn labels(machine: &Value, config: &Config) -> Map<String, Value> {
    let uid = meta(machine, "uid").unwrap_or_default();
    let mut labels = Map::from_iter([(UID_LABEL.to_owned(), json!(uid))]);
    // A label has at most 63 characters; Cluster API gives a longer name of a cluster its own form and finds it by the spec.
    if config.cluster.len() <= 63 {
        labels.insert(CLUSTER_LABEL.to_owned(), json!(config.cluster));
    }
    labels
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::belongs;
    use super::*;

    fn ours() -> (Value, Config) {
        let template = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate", "name": "small"});
        let value = json!({
            "clusterName": "demo", "infrastructureRef": template, "version": "v1.34.1", "failureDomain": "eu-1a",
            "userDataSecret": {"name": "worker-user-data"},
        });
        let machine = json!({
            "metadata": {"name": "workers-abc", "namespace": "openshift-machine-api", "uid": "u-1"}, "spec": {"providerSpec": {"value": value}},
        });
        let config = Config::of(&machine).unwrap();
        (machine, config)
    }

    /// MACH-PROV-11: a clone has the template's content, its labels and annotations, where it is from, and whose it is.
    #[test]
    fn clones() {
        let (machine, config) = ours();
        let metadata = json!({"labels": {"team": "a"}, "annotations": {"note": "b"}, "name": "ignored", "finalizers": ["ignored"]});
        let template = json!({"spec": {"template": {"metadata": metadata, "spec": {"instanceType": "m5.large"}}}});
        let wanted = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine",
            "metadata": {
                "name": "workers-abc", "namespace": "openshift-machine-api",
                "labels": {"team": "a", "cluster.x-k8s.io/cluster-name": "demo", "capi.mainstay.dev/machine-uid": "u-1"},
                "annotations": {
                    "note": "b", "cluster.x-k8s.io/cloned-from-name": "small",
                    "cluster.x-k8s.io/cloned-from-groupkind": "AWSMachineTemplate.infrastructure.cluster.x-k8s.io",
                },
            },
            "spec": {"instanceType": "m5.large"},
        });
        assert_eq!(clone(&machine, &config, &template).unwrap(), wanted);
        let empty = clone(&machine, &config, &json!({"spec": {}})).unwrap_err();
        assert_eq!(empty.to_string(), "AWSMachineTemplate small: spec.template: must be an object");
    }

    /// MACH-PROV-11: the Machine of Cluster API refers to Secret and clone in the form of its version, and leaves drains to us.
    #[test]
    fn machines_of_both_versions() {
        let (ours, config) = ours();
        let newer = machine(&ours, &config, Version::V1Beta2);
        let spec = json!({
            "clusterName": "demo", "bootstrap": {"dataSecretName": "workers-abc-bootstrap-data"}, "version": "v1.34.1", "failureDomain": "eu-1a",
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachine", "name": "workers-abc"},
        });
        assert_eq!((&newer["apiVersion"], &newer["spec"]), (&json!("cluster.x-k8s.io/v1beta2"), &spec));
        assert!(belongs(&newer, "u-1") && !belongs(&newer, "u-2") && !belongs(&json!({}), ""));
        assert_eq!(repair(&newer), None);
        let older = machine(&ours, &config, Version::V1Beta1);
        let reference = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine", "name": "workers-abc", "namespace": "openshift-machine-api"});
        assert_eq!((&older["apiVersion"], &older["spec"]["infrastructureRef"]), (&json!("cluster.x-k8s.io/v1beta1"), &reference));
        for made in [&newer, &older] {
            assert_eq!(named_clone(&ours, &config, made), Some(clone_place(&ours, &config)));
        }
        let mut undone = newer;
        undone["metadata"]["annotations"] = json!({SKIP_REMEDIATION: "false"});
        undone["metadata"]["uid"] = json!("c-1");
        assert_eq!(repair(&undone).unwrap(), json!({"metadata": {"uid": "c-1", "annotations": {EXCLUDE_DRAINING: ""}}}));
    }

    /// MACH-PROV-11: user data goes on as it is, with the name of its format.
    #[test]
    fn secrets() {
        let (machine, config) = ours();
        let made = secret(&machine, &config, "e30=", true);
        assert_eq!((&made["type"], &made["data"]["value"]), (&json!("cluster.x-k8s.io/secret"), &json!("e30=")));
        assert_eq!(made["stringData"]["format"], "ignition");
        assert!(is_ignition(br#"{"ignition": {"version": "3.2.0"}}"#));
        for other in [&b"#cloud-config\n"[..], b"{}", br#"{"ignition": {"version": 3}}"#, b"\xff"] {
            assert!(!is_ignition(other));
        }
    }
}
