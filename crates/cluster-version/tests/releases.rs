//! Small releases of our own, and what tests do with them.

use mainstay_objects::{ObjectRef, Patch};
use mainstay_release::Files;
use serde_json::{Value, json};

use crate::cluster::{World, place, version};

pub fn image(version: &str) -> String {
    format!("registry.example/release@sha256:{:0>64}", version.replace('.', ""))
}

pub fn manifest(api_version: &str, kind: &str, namespace: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "annotations": {"include.release.openshift.io/self-managed-high-availability": "true"}},
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    for (field, value) in rest.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

/// A release with two operators on two runlevels, and more manifests.
pub fn release(version: &str, more: &[(&str, Value)]) -> Files {
    let operator = |name: &str| {
        let related = json!([{"group": "", "resource": "namespaces", "name": format!("{name}-operand")}]);
        manifest(
            "config.openshift.io/v1",
            "ClusterOperator",
            "",
            name,
            json!({"status": {"versions": [{"name": "operator", "version": version}], "relatedObjects": related}}),
        )
    };
    let mut files = Files::default();
    let own = [
        ("0000_10_alpha_00_namespace.yaml", manifest("v1", "Namespace", "", "alpha", json!({}))),
        ("0000_10_alpha_10_config.yaml", manifest("v1", "ConfigMap", "alpha", "alpha", json!({"data": {"release": version}}))),
        ("0000_10_alpha_20_clusteroperator.yaml", operator("alpha")),
        ("0000_20_beta_10_config.yaml", manifest("v1", "ConfigMap", "alpha", "beta", json!({"data": {"release": version}}))),
        ("0000_20_beta_20_clusteroperator.yaml", operator("beta")),
    ];
    for (name, manifest) in own.iter().chain(more) {
        files.add(&format!("release-manifests/{name}"), manifest.to_string().into_bytes()).unwrap();
    }
    let metadata = json!({"kind": "cincinnati-metadata-v0", "version": version, "previous": []});
    let references =
        json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": version}, "spec": {"tags": []}});
    files.add("release-manifests/release-metadata", metadata.to_string().into_bytes()).unwrap();
    files.add("release-manifests/image-references", references.to_string().into_bytes()).unwrap();
    files
}

pub fn config(name: &str) -> ObjectRef {
    place("v1", "ConfigMap", "alpha", name)
}

pub async fn world(releases: &[(&str, Files)]) -> World {
    let world = World::new(json!({"clusterID": "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11", "channel": "stable-1.0"})).await;
    for (version, files) in releases {
        world.stock.genuine.lock().unwrap().push(image(version));
        world.stock.files.lock().unwrap().insert(image(version), files.clone());
    }
    world
}

pub async fn wish(world: &World, wish: Value) {
    world.admin.patch(&version(), "", &Patch::Merge(json!({"spec": {"desiredUpdate": wish}}))).await.unwrap();
}

pub fn completed(version: &str) -> impl Fn(&Value) -> bool {
    move |object| {
        let entry = &object["status"]["history"][0];
        entry["version"] == version && entry["state"] == "Completed"
    }
}
