//! OperatorHub and the default catalogs (OLM0-HUB-01 to OLM0-HUB-07, OLM0-HUB-11).
//!
//! ```text
//!   release ── definitions ──┐
//!   OperatorHub ── settings ─┴─ plan ──> creates, restores, deletes of CatalogSources     status
//! ```

use std::collections::BTreeMap;

use mainstay_objects::{Expect, ObjectError, ObjectRef, Patch, Propagation, Step};
use mainstay_versions::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The name of the only OperatorHub that counts.
pub const NAME: &str = "cluster";
/// The API version of OperatorHub.
pub const API_VERSION: &str = "config.openshift.io/v1";
/// The namespace of the default catalogs.
pub const NAMESPACE: &str = "openshift-marketplace";
/// The annotation that marks a default catalog; a catalog without it is a user's own.
pub const MANAGED_BY: (&str, &str) = ("operatorframework.io/managed-by", "marketplace-operator");

/// The annotation for clusters that set processors aside for the cluster itself.
const MANAGEMENT: (&str, &str) = ("target.workload.openshift.io/management", r#"{"effect": "PreferredDuringScheduling"}"#);
/// The label, and the taint, of nodes of the control plane.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/master";

/// A default catalog, without the version of its image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefaultCatalog {
    /// The name of its CatalogSource.
    pub name: String,
    /// The repository of its image; the tag is the release's `v<major>.<minor>`.
    pub repository: String,
    /// Its name for people.
    pub display_name: String,
    /// Its publisher.
    pub publisher: String,
    /// Catalogs of a higher priority are preferred.
    pub priority: i32,
    /// The last release that has it, as major and minor version; all have it if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_release: Option<(u64, u64)>,
}

/// A release whose catalogs are not known.
#[derive(Debug, thiserror::Error)]
#[error("release {release:?} is no version, so that the images of the default catalogs are not known")]
pub struct ReleaseError {
    release: String,
    #[source]
    source: mainstay_versions::Error,
}

/// Returns the default catalogs of OpenShift (OLM0-HUB-03).
pub fn default_catalogs() -> Vec<DefaultCatalog> {
    let catalog = |name: &str, index: &str, display_name: &str, priority, last_release| DefaultCatalog {
        name: name.to_owned(),
        repository: format!("registry.redhat.io/redhat/{index}"),
        display_name: display_name.to_owned(),
        publisher: "Red Hat".to_owned(),
        priority,
        last_release,
    };
    vec![
        catalog("redhat-operators", "redhat-operator-index", "Red Hat Operators", -100, None),
        catalog("certified-operators", "certified-operator-index", "Certified Operators", -200, None),
        catalog("redhat-marketplace", "redhat-marketplace-index", "Red Hat Marketplace", -300, Some((4, 10))),
        catalog("community-operators", "community-operator-index", "Community Operators", -400, None),
    ]
}

/// Returns the CatalogSources of a release (OLM0-HUB-04, OLM0-HUB-11).
///
/// # Errors
/// The release is no version.
pub fn definitions(catalogs: &[DefaultCatalog], release: &str) -> Result<Vec<Value>, ReleaseError> {
    let version = Version::parse_tolerant(release).map_err(|source| ReleaseError { release: release.to_owned(), source })?;
    let release = (version.major(), version.minor());
    let part_of = |catalog: &&DefaultCatalog| catalog.last_release.is_none_or(|last| release <= last);
    Ok(catalogs.iter().filter(part_of).map(|catalog| definition(catalog, release)).collect())
}

fn definition(catalog: &DefaultCatalog, (major, minor): (u64, u64)) -> Value {
    let evicted = |taint: &str| json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 120});
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "CatalogSource",
        "metadata": {
            "name": catalog.name,
            "namespace": NAMESPACE,
            "annotations": {MANAGED_BY.0: MANAGED_BY.1, MANAGEMENT.0: MANAGEMENT.1},
        },
        "spec": {
            "sourceType": "grpc",
            "image": format!("{}:v{major}.{minor}", catalog.repository),
            "displayName": catalog.display_name,
            "publisher": catalog.publisher,
            "priority": catalog.priority,
            "updateStrategy": {"registryPoll": {"interval": "240m"}},
            "grpcPodConfig": {
                "securityContextConfig": "restricted",
                "nodeSelector": {CONTROL_PLANE: "", "kubernetes.io/os": "linux"},
                "priorityClassName": "system-cluster-critical",
                "tolerations": [
                    {"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"},
                    evicted("node.kubernetes.io/unreachable"),
                    evicted("node.kubernetes.io/not-ready"),
                ],
                "memoryTarget": "30Mi",
                "extractContent": {"cacheDir": "/tmp/cache", "catalogDir": "/configs"},
            },
        },
    })
}

/// Returns the OperatorHub with which a cluster starts.
pub fn operator_hub(disable_all: bool) -> Value {
    let spec = if disable_all { json!({"disableAllDefaultSources": true}) } else { json!({}) };
    json!({"apiVersion": API_VERSION, "kind": "OperatorHub", "metadata": {"name": NAME}, "spec": spec})
}

/// Returns whether each catalog is disabled, by name: the defaults and the others that the OperatorHub names (OLM0-HUB-02).
pub fn settings(hub: &Value, definitions: &[Value]) -> BTreeMap<String, bool> {
    let all = hub["spec"]["disableAllDefaultSources"] == true;
    let mut settings: BTreeMap<String, bool> = definitions.iter().filter_map(name_of).map(|name| (name.to_owned(), all)).collect();
    for source in hub["spec"]["sources"].as_array().into_iter().flatten() {
        let name = source["name"].as_str().unwrap_or_default();
        settings.insert(name.to_owned(), source["disabled"] == true);
    }
    settings
}

/// A change of a default catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The name of the catalog.
    pub catalog: String,
    /// The step.
    pub step: Step,
}

/// Plans the changes that make the default catalogs what the OperatorHub wants: `live` are the CatalogSources of these names that exist.
///
/// A default that is wanted is made, or restored to its definition; one that is not is deleted, unless it is a user's own (OLM0-HUB-05,
/// OLM0-HUB-06). Other CatalogSources are left alone.
///
/// # Errors
/// A live object without a kind or name.
pub fn plan(hub: &Value, definitions: &[Value], live: &[Value]) -> Result<Vec<Change>, ObjectError> {
    let settings = settings(hub, definitions);
    let mut changes = Vec::new();
    for definition in definitions {
        let Some(name) = name_of(definition) else { continue };
        let disabled = settings.get(name).copied().unwrap_or_default();
        let found = live.iter().find(|object| name_of(object) == Some(name));
        if let Some(step) = step(definition, found, disabled)? {
            changes.push(Change { catalog: name.to_owned(), step });
        }
    }
    Ok(changes)
}

fn step(definition: &Value, live: Option<&Value>, disabled: bool) -> Result<Option<Step>, ObjectError> {
    let Some(live) = live else { return Ok((!disabled).then(|| Step::Create(definition.clone()))) };
    if !live["metadata"]["deletionTimestamp"].is_null() {
        // Its end is the next occasion.
        return Ok(None);
    }
    let managed = live["metadata"]["annotations"][MANAGED_BY.0] == MANAGED_BY.1;
    let object = ObjectRef::of(live)?;
    if disabled {
        let delete = || Step::Delete { object, expect: Expect::as_seen(live), propagation: Propagation::Background };
        return Ok(managed.then(delete));
    }
    if managed && live["spec"] == definition["spec"] {
        return Ok(None);
    }
    let patch = Patch::Json(restore(definition, live));
    Ok(Some(Step::Patch { object, subresource: String::new(), patch }))
}

/// The JSON Patch that restores a definition, of the object that was seen.
fn restore(definition: &Value, live: &Value) -> Value {
    let mut operations = vec![json!({"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]})];
    let mut annotations: Map<String, Value> = live["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    annotations.extend(definition["metadata"]["annotations"].as_object().cloned().unwrap_or_default());
    operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": annotations}));
    operations.push(json!({"op": "add", "path": "/spec", "value": definition["spec"]}));
    Value::Array(operations)
}

/// Returns the status of the OperatorHub: each catalog with what came of it (OLM0-HUB-07). `failures` are the messages of changes that
/// failed, by catalog.
pub fn status(hub: &Value, definitions: &[Value], failures: &BTreeMap<String, String>) -> Value {
    let sources = settings(hub, definitions).into_iter().map(|(name, disabled)| {
        let is_default = definitions.iter().any(|definition| name_of(definition) == Some(&name));
        let problem = if is_default { failures.get(&name).map(String::as_str) } else { Some("Not present in the default definitions") };
        match problem {
            None => json!({"name": name, "disabled": disabled, "status": "Success"}),
            Some(message) => json!({"name": name, "disabled": disabled, "status": "Error", "message": message}),
        }
    });
    json!({"sources": sources.collect::<Vec<_>>()})
}

fn name_of(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()
}
