//! The objects by which a CatalogSource is served on a cluster: ServiceAccount, Service, NetworkPolicies and pod, as OLM v0.42 makes them
//! (OLM0-CAT-06 to OLM0-CAT-17).
//!
//! ```text
//!   CatalogSource ── objects ──► ServiceAccount, Service, NetworkPolicies, (ConfigMap sources: Role, RoleBinding)
//!       │ with the account ── pod ──► Pod, with the hash of its spec
//!       └ with what exists ── plan ──► steps, and the pod that serves
//! ```

mod network;
mod objects;
mod plan;
mod pod;
mod polling;

use serde_json::{Map, Value, json};

pub(crate) use objects::secrets;
pub use objects::{account_name, fixed, service};
pub use plan::{Facts, Plan, Serving, leftovers, plan};
pub use pod::{PodError, pod};
pub use polling::is_due;

/// The field manager of what the catalog operator writes.
pub const FIELD_MANAGER: &str = "catalog";
/// The label with the name of the CatalogSource that a pod serves.
pub const SOURCE: &str = "olm.catalogSource";
/// The label of a pod that was made by a poll.
pub const UPDATE: &str = "catalogsource.operators.coreos.com/update";
/// The label by which OLM finds what it made.
pub const MANAGED: &str = "olm.managed";
/// The label with the hash of a pod's spec.
pub const POD_HASH: &str = "olm.pod-spec-hash";
/// The label with the hash of a Service's spec.
pub const SERVICE_HASH: &str = "olm.service-spec-hash";
/// The annotation of a CatalogSource that sets the priority class of its pod (OLM0-CAT-08).
pub const PRIORITY_CLASS: &str = "operatorframework.io/priorityclass";
/// The label of a namespace that says which pods may run there.
pub const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// The container that serves a catalog image.
pub const SERVER: &str = "registry-server";
/// The container that serves a catalog in a ConfigMap.
pub const CONFIG_MAP_SERVER: &str = "configmap-registry-server";
/// The init container that copies the content of a catalog image (`extractContent`).
pub const EXTRACT: &str = "extract-content";
const CONFIG_MAP_VERSION: &str = "olm.configMapResourceVersion";

/// The images and the user of pods that serve catalogs and unpack bundles (OLM0-CAT-33).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// `--opmImage`.
    pub opm: String,
    /// `--util-image`.
    pub util: String,
    /// `--configmapServerImage`.
    pub config_map_server: String,
    /// The user of restricted pods; none if the platform sets one (`--set-workload-user-id`).
    pub user: Option<i64>,
}

impl Default for Tools {
    fn default() -> Self {
        Self {
            opm: "quay.io/operator-framework/opm:latest".to_owned(),
            util: "quay.io/operator-framework/olm:latest".to_owned(),
            config_map_server: "quay.io/operator-framework/configmap-operator-registry:latest".to_owned(),
            user: Some(1001),
        }
    }
}

/// The pull policy that fits a reference: content by digest is pulled once (OLM0-CAT-09).
pub fn pull_policy(image: &str) -> &'static str {
    if image.contains('@') { "IfNotPresent" } else { "Always" }
}

/// Returns true if a namespace lets in only restricted pods (OLM0-CAT-11, OLM0-CAT-12).
pub fn enforces_restricted(namespace: &Value) -> bool {
    namespace["metadata"]["labels"][ENFORCE] == "restricted"
}

/// Returns true if a container of a pod has the image of a catalog, whose content its source is served from.
pub fn has_catalog(pod: &Value, container: &str) -> bool {
    let labels = &pod["metadata"]["labels"];
    let of_source = [SOURCE, UPDATE].iter().any(|label| labels[*label].as_str().is_some_and(|name| !name.is_empty()));
    let extracts = pod["spec"]["initContainers"].as_array().into_iter().flatten().any(|init| init["name"] == EXTRACT);
    labels[MANAGED] == "true" && of_source && container == if extracts { EXTRACT } else { SERVER }
}

fn is_config_map(source: &Value) -> bool {
    matches!(source["spec"]["sourceType"].as_str(), Some("internal" | "configmap"))
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The reference to a source that owns an object.
fn owner(source: &Value, controller: bool, blocks: bool) -> Value {
    json!([{
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": text(source, "name"), "uid": text(source, "uid"),
        "controller": controller, "blockOwnerDeletion": blocks,
    }])
}

/// The labels of the pods of a source.
fn pod_labels(source: &Value) -> Map<String, Value> {
    let mut labels = Map::new();
    labels.insert(SOURCE.to_owned(), json!(text(source, "name")));
    labels.insert(MANAGED.to_owned(), json!("true"));
    if is_config_map(source) {
        let version = source["status"]["configMapReference"]["resourceVersion"].as_str().unwrap_or_default();
        labels.insert(CONFIG_MAP_VERSION.to_owned(), json!(version));
    }
    labels
}
