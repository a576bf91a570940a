//! The ClusterServiceVersion of a bundle, with the parts that decisions rest on.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::go::{Mismatch, conform};

/// A ClusterServiceVersion. Built from the object as Go's struct holds it, so that nothing here can have the wrong type.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Csv {
    /// `metadata.name`, which is the bundle's name.
    pub name: String,
    /// `metadata.annotations`, with the properties of `metadata/properties.yaml` joined into `olm.properties`.
    pub annotations: BTreeMap<String, String>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.version` as written.
    pub version: String,
    /// `spec.release`, which orders two bundles of one version; mostly empty.
    pub release: String,
    /// `spec.replaces`.
    pub replaces: String,
    /// `spec.skips`.
    pub skips: Vec<String>,
    /// `spec.minKubeVersion`.
    pub min_kube_version: String,
    /// `spec.displayName`.
    pub display_name: String,
    /// `spec.installModes`, in order.
    pub install_modes: Vec<InstallMode>,
    /// `spec.install.spec.deployments`.
    pub deployments: Vec<Deployment>,
    /// `spec.install.spec.permissions`: permissions in the target namespaces.
    pub permissions: Vec<Permissions>,
    /// `spec.install.spec.clusterPermissions`.
    pub cluster_permissions: Vec<Permissions>,
    /// `spec.customresourcedefinitions.owned`.
    pub owned_crds: Vec<CrdDescription>,
    /// `spec.customresourcedefinitions.required`.
    pub required_crds: Vec<CrdDescription>,
    /// `spec.apiservicedefinitions.owned`.
    pub owned_api_services: Vec<ApiService>,
    /// `spec.apiservicedefinitions.required`.
    pub required_api_services: Vec<ApiService>,
    /// `spec.webhookdefinitions`.
    pub webhooks: Vec<WebhookDefinition>,
    /// `spec.relatedImages`.
    pub related_images: Vec<RelatedImage>,
    /// The whole object as Go's struct holds it, without status.
    pub object: Value,
}

/// One entry of `spec.installModes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallMode {
    /// `AllNamespaces`, `OwnNamespace`, `SingleNamespace`, `MultiNamespace`; authors misspell it, so it is text.
    pub mode: String,
    /// True if the operator supports it.
    pub supported: bool,
}

/// A deployment of the install strategy.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// Its name.
    pub name: String,
    /// Labels of the Deployment object.
    pub labels: BTreeMap<String, String>,
    /// The DeploymentSpec as Go's struct holds it.
    pub spec: Value,
}

/// The permissions of one service account.
#[derive(Debug, Clone, PartialEq)]
pub struct Permissions {
    /// The account; empty means the namespace's `default`.
    pub service_account: String,
    /// The entry as Go's struct holds it: `serviceAccountName`, `rules`.
    pub entry: Value,
}

/// A custom resource definition that the CSV names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrdDescription {
    /// The CRD's name, `<plural>.<group>`.
    pub name: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// An aggregated API that the CSV names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiService {
    /// The plural name.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// The three kinds of webhook.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WebhookKind {
    /// `ValidatingAdmissionWebhook`
    Validating,
    /// `MutatingAdmissionWebhook`
    Mutating,
    /// `ConversionWebhook`
    Conversion,
    /// A type that Kubernetes does not know.
    Other(String),
}

impl WebhookKind {
    /// The type as the CSV writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Validating => "ValidatingAdmissionWebhook",
            Self::Mutating => "MutatingAdmissionWebhook",
            Self::Conversion => "ConversionWebhook",
            Self::Other(name) => name,
        }
    }

    fn parse(name: &str) -> Self {
        match name {
            "ValidatingAdmissionWebhook" => Self::Validating,
            "MutatingAdmissionWebhook" => Self::Mutating,
            "ConversionWebhook" => Self::Conversion,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// One entry of `spec.webhookdefinitions`.
#[derive(Debug, Clone, PartialEq)]
pub struct WebhookDefinition {
    /// `generateName`.
    pub name: String,
    /// `type`.
    pub kind: WebhookKind,
    /// The deployment that answers.
    pub deployment: String,
    /// The service's port; `None` or 0 means 443.
    pub container_port: Option<i64>,
    /// The pod's port, a number or a name.
    pub target_port: Option<Value>,
    /// The path of the endpoint.
    pub path: Option<String>,
    /// The CRDs it converts.
    pub conversion_crds: Vec<String>,
    /// The whole entry as Go's struct holds it.
    pub entry: Value,
}

impl WebhookDefinition {
    /// The service's port.
    pub fn port(&self) -> i64 {
        self.container_port.filter(|port| *port > 0).unwrap_or(443)
    }

    /// The port at which the API server calls. If the bundle names none, upstream gives 0, which no API server accepts.
    pub fn client_port(&self) -> i64 {
        self.container_port.filter(|port| *port != 0).unwrap_or(443)
    }
}

/// An image that the operator uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelatedImage {
    /// The author's name for it.
    pub name: String,
    /// The reference.
    pub image: String,
}

impl Csv {
    /// Reads the manifest of a CSV. A status, which some authors leave in, must have the type of a status and is then dropped.
    pub fn parse(manifest: &Value) -> Result<Self, Mismatch> {
        let mut object = conform("operators.ClusterServiceVersion", manifest)?;
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if manifest["spec"]["version"].is_null()
            && let Some(spec) = object["spec"].as_object_mut()
        {
            // Go's zero, 0.0.0, is not what the author wrote.
            spec.remove("version");
        }
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        let strategy = &spec["install"]["spec"];
        Ok(Self {
            name: text(&metadata["name"]),
            annotations: map(&metadata["annotations"]),
            labels: map(&metadata["labels"]),
            version: text(&spec["version"]),
            release: match &manifest["spec"]["release"] {
                Value::Number(number) => number.to_string(),
                other => text(other),
            },
            replaces: text(&spec["replaces"]),
            skips: texts(&spec["skips"]),
            min_kube_version: text(&spec["minKubeVersion"]),
            display_name: text(&spec["displayName"]),
            install_modes: list(&spec["installModes"], |mode| InstallMode {
                mode: text(&mode["type"]),
                supported: mode["supported"].as_bool().unwrap_or_default(),
            }),
            deployments: list(&strategy["deployments"], |deployment| Deployment {
                name: text(&deployment["name"]),
                labels: map(&deployment["label"]),
                spec: deployment["spec"].clone(),
            }),
            permissions: list(&strategy["permissions"], permissions),
            cluster_permissions: list(&strategy["clusterPermissions"], permissions),
            owned_crds: list(&spec["customresourcedefinitions"]["owned"], crd),
            required_crds: list(&spec["customresourcedefinitions"]["required"], crd),
            owned_api_services: list(&spec["apiservicedefinitions"]["owned"], api_service),
            required_api_services: list(&spec["apiservicedefinitions"]["required"], api_service),
            webhooks: list(&spec["webhookdefinitions"], webhook),
            related_images: list(&spec["relatedImages"], |image| RelatedImage { name: text(&image["name"]), image: text(&image["image"]) }),
            object,
        })
    }

    /// Its apiVersion, as written.
    pub fn api_version(&self) -> &str {
        self.object["apiVersion"].as_str().unwrap_or_default()
    }

    /// The supported install modes, sorted.
    pub fn supported_modes(&self) -> Vec<&str> {
        let mut modes: Vec<_> = self.install_modes.iter().filter(|mode| mode.supported).map(|mode| mode.mode.as_str()).collect();
        modes.sort_unstable();
        modes.dedup();
        modes
    }

    /// Returns whether the install mode is supported.
    pub fn supports(&self, mode: &str) -> bool {
        self.install_modes.iter().any(|entry| entry.supported && entry.mode == mode)
    }

    /// The images of the operator's containers, sorted. Of any install strategy but `deployment`, upstream knows none.
    pub fn operator_images(&self) -> Vec<String> {
        let mut images = Vec::new();
        if self.object["spec"]["install"]["strategy"] != "deployment" {
            return images;
        }
        for deployment in &self.deployments {
            let pod = &deployment.spec["template"]["spec"];
            for list in ["containers", "initContainers"] {
                let containers = pod[list].as_array().map(Vec::as_slice).unwrap_or_default();
                images.extend(containers.iter().map(|container| text(&container["image"])));
            }
        }
        images.sort_unstable();
        images.dedup();
        images
    }
}

fn permissions(entry: &Value) -> Permissions {
    Permissions { service_account: text(&entry["serviceAccountName"]), entry: entry.clone() }
}

fn crd(entry: &Value) -> CrdDescription {
    CrdDescription { name: text(&entry["name"]), version: text(&entry["version"]), kind: text(&entry["kind"]) }
}

fn api_service(entry: &Value) -> ApiService {
    ApiService { name: text(&entry["name"]), group: text(&entry["group"]), version: text(&entry["version"]), kind: text(&entry["kind"]) }
}

fn webhook(entry: &Value) -> WebhookDefinition {
    WebhookDefinition {
        name: text(&entry["generateName"]),
        kind: WebhookKind::parse(entry["type"].as_str().unwrap_or_default()),
        deployment: text(&entry["deploymentName"]),
        container_port: entry["containerPort"].as_i64(),
        target_port: entry.get("targetPort").cloned(),
        path: entry["webhookPath"].as_str().map(str::to_owned),
        conversion_crds: texts(&entry["conversionCRDs"]),
        entry: entry.clone(),
    }
}

fn list<T>(value: &Value, item: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(item).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    list(value, text)
}

fn map(value: &Value) -> BTreeMap<String, String> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
}
