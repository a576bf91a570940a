//! The plan for the objects that receive the CA bundle (COP-SCA-03).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_objects::ObjectRef;
use mainstay_runtime::Key;
use serde_json::{Value, json};

use crate::annotations::{INJECT, read};

/// The key of a ConfigMap that receives the bundle.
const KEY: &str = "service-ca.crt";

/// A kind whose objects may request the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Taker {
    /// A ConfigMap: it holds the bundle as text, and nothing else.
    ConfigMap,
    /// An APIService: the server of an API.
    ApiService,
    /// Webhooks that mutate objects.
    MutatingWebhook,
    /// Webhooks that validate objects.
    ValidatingWebhook,
    /// The conversion webhook of a custom kind.
    CustomResource,
}

impl Taker {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::ConfigMap, Self::ApiService, Self::MutatingWebhook, Self::ValidatingWebhook, Self::CustomResource];

    /// Returns the kind and its plural.
    pub fn resource(self) -> ApiResource {
        let (group, kind, plural) = match self {
            Self::ConfigMap => ("", "ConfigMap", "configmaps"),
            Self::ApiService => ("apiregistration.k8s.io", "APIService", "apiservices"),
            Self::MutatingWebhook => ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
            Self::ValidatingWebhook => {
                ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
            }
            Self::CustomResource => ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural)
    }

    /// Returns the reference to an object of the kind.
    pub fn place(self, key: &Key) -> ObjectRef {
        let ApiResource { api_version, kind, .. } = self.resource();
        ObjectRef { api_version, kind, namespace: key.namespace.clone(), name: key.name.clone() }
    }
}

/// Returns true if an object requests the bundle.
pub fn wants(object: &Value) -> bool {
    read(object, INJECT) == Some("true") && object.pointer("/metadata/deletionTimestamp").is_none()
}

/// Returns the JSON patch that gives an object the bundle; `None` if it does not request it, already has it, or has no place for it.
pub fn plan(taker: Taker, object: &Value, bundle: &str) -> Option<Value> {
    if !wants(object) {
        return None;
    }
    let encoded = json!(STANDARD.encode(bundle));
    let put = |holder: &str| {
        let live = object.pointer(holder).filter(|holder| holder.is_object())?;
        (live.get("caBundle") != Some(&encoded)).then(|| json!({"op": "add", "path": format!("{holder}/caBundle"), "value": encoded}))
    };
    let mut operations: Vec<Value> = match taker {
        Taker::ConfigMap => {
            let wanted = json!({KEY: bundle});
            (object.get("data") != Some(&wanted)).then(|| json!({"op": "add", "path": "/data", "value": wanted})).into_iter().collect()
        }
        // The API server itself serves an API without a Service, and an API that must not be verified must not have a bundle.
        Taker::ApiService if object.pointer("/spec/service").is_none_or(Value::is_null) => Vec::new(),
        Taker::ApiService if object.pointer("/spec/insecureSkipTLSVerify") == Some(&json!(true)) => Vec::new(),
        Taker::ApiService => put("/spec").into_iter().collect(),
        Taker::MutatingWebhook | Taker::ValidatingWebhook => {
            let webhooks = object.get("webhooks").and_then(Value::as_array).map_or(0, Vec::len);
            (0..webhooks).filter_map(|index| put(&format!("/webhooks/{index}/clientConfig"))).collect()
        }
        Taker::CustomResource => put("/spec/conversion/webhook/clientConfig").into_iter().collect(),
    };
    if operations.is_empty() {
        return None;
    }
    // Paths address webhooks by index, so the object must be the version that was read.
    let version = &object["metadata"]["resourceVersion"];
    operations.insert(0, json!({"op": "add", "path": "/metadata/resourceVersion", "value": version}));
    Some(Value::Array(operations))
}
