//! `widgets`: a small operator of our own, in any version.

use serde_json::{Value, json};

/// The differences between the bundles of a test.
#[derive(Clone, Default)]
pub struct Content {
    /// Supported install modes; `AllNamespaces` if empty.
    pub modes: Vec<&'static str>,
    /// Further manifests.
    pub more: Vec<Value>,
    /// Leaves the CRD out.
    pub without_crd: bool,
    /// Further fields of the CRD's `spec`; null removes one.
    pub fields: Vec<(&'static str, Value)>,
    /// Required fields of the CRD's `spec`.
    pub required: Vec<&'static str>,
    /// Adds a validating webhook.
    pub webhook: bool,
    /// Adds an owned APIService.
    pub api_service: bool,
}

/// The files of `widgets.v<version>`.
pub fn files(version: &str, content: &Content) -> Vec<(String, String)> {
    let mut spec = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    for (name, schema) in &content.fields {
        spec["properties"][name] = schema.clone();
    }
    spec["properties"].as_object_mut().expect("fields").retain(|_, schema| !schema.is_null());
    if !content.required.is_empty() {
        spec["required"] = json!(content.required);
    }
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced", "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}
        ]},
    });
    let modes = if content.modes.is_empty() { vec!["AllNamespaces"] } else { content.modes.clone() };
    let owned = if content.without_crd { json!([]) } else { json!([{"name": "widgets.example.com", "kind": "Widget", "version": "v1"}]) };
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": format!("widgets.v{version}")},
        "spec": {
            "displayName": "Widgets", "version": version,
            "installModes": modes.iter().map(|mode| json!({"type": mode, "supported": true})).collect::<Vec<_>>(),
            "customresourcedefinitions": {"owned": owned},
            "install": {"strategy": "deployment", "spec": {
                "clusterPermissions": [{"serviceAccountName": "widgets", "rules": [
                    {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list", "watch"]}
                ]}],
                "deployments": [{"name": "widgets", "spec": {
                    "replicas": 1, "selector": {"matchLabels": {"app": "widgets"}},
                    "template": {"metadata": {"labels": {"app": "widgets"}}, "spec": {"serviceAccountName": "widgets", "containers": [
                        {"name": "manager", "image": format!("example.com/widgets:{version}")}
                    ]}},
                }}],
            }},
        },
    });
    if content.webhook {
        csv["spec"]["webhookdefinitions"] = json!([{"type": "ValidatingAdmissionWebhook", "generateName": "check.example.com",
            "deploymentName": "widgets", "admissionReviewVersions": ["v1"], "sideEffects": "None", "containerPort": 443, "targetPort": 9443,
            "webhookPath": "/check", "failurePolicy": "Fail",
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}]}]);
    }
    if content.api_service {
        csv["spec"]["apiservicedefinitions"] =
            json!({"owned": [{"name": "v1.api.example.com", "group": "api.example.com", "version": "v1", "kind": "Thing"}]});
    }
    let mut files = vec![
        ("manifests/csv.yaml".to_owned(), csv.to_string()),
        (
            "metadata/annotations.yaml".to_owned(),
            json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": "widgets"}}).to_string(),
        ),
    ];
    if !content.without_crd {
        files.push(("manifests/crd.yaml".to_owned(), crd.to_string()));
    }
    files.extend(content.more.iter().enumerate().map(|(index, object)| (format!("manifests/more-{index}.yaml"), object.to_string())));
    files
}
