//! Kinds and objects that the operator reads and writes.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use mainstay_objects::ObjectRef;
use serde_json::{Value, json};

use crate::NAMESPACE;

/// Group of nodes' configuration.
pub(crate) const GROUP: &str = "machineconfiguration.openshift.io";
/// Group and version of nodes' configuration.
pub(crate) const V1: &str = "machineconfiguration.openshift.io/v1";
/// Group of the cluster's configuration.
pub(crate) const CONFIG: &str = "config.openshift.io";
/// Name of the one ControllerConfig.
pub(crate) const CONTROLLER_CONFIG: &str = "machine-config-controller";
/// Name of the ConfigMap that keeps changes of registries from draining nodes (MACH-DISR-07).
pub(crate) const REGISTRY_OVERRIDE: &str = "image-registry-override-drain";
/// Name of the ConfigMap of a release with the image of the operating system.
pub(crate) const OS_IMAGE: &str = "machine-config-osimageurl";
/// Name of the ConfigMap with the cluster's authority, which every namespace has.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";

/// The resource of a kind.
pub(crate) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// An object of this group.
pub(crate) fn of_group(kind: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: V1.to_owned(), kind: kind.to_owned(), namespace: String::new(), name: name.to_owned() }
}

/// A ConfigMap of the operator's namespace.
pub(crate) fn config_map(name: &str) -> ObjectRef {
    ObjectRef { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned(), namespace: NAMESPACE.to_owned(), name: name.to_owned() }
}

/// A node.
pub(crate) fn node(name: &str) -> ObjectRef {
    ObjectRef { api_version: "v1".to_owned(), kind: "Node".to_owned(), namespace: String::new(), name: name.to_owned() }
}

/// A copy's object as a value that says what it is, which items of lists do not.
pub(crate) fn value(object: &DynamicObject, api_version: &str, kind: &str) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(object)?;
    value["apiVersion"] = json!(api_version);
    value["kind"] = json!(kind);
    Ok(value)
}

/// A name of an object.
pub(crate) fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// An owner reference to a controller.
pub(crate) fn controlled_by(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }])
}
