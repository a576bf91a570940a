//! The sample pair with all operators of the platform, made from the data file of crate `release` (CVO-SIM-02, COP-G-12).

use std::collections::{BTreeMap, BTreeSet};

use mainstay_release::{PlatformOperator, platform_operators};
use serde_json::{Value, json};

use crate::component::{annotated, namespace};
use crate::payload::{Images, Release, pretty};

/// The component whose image is the operator of the release itself.
const OPERATOR: &str = "cluster-version-operator";

/// Returns two consecutive minor versions, the older first. The older one asks the administrator before the newer one.
pub fn platform_releases() -> [Release; 2] {
    [Release::sample("4.18.9", &[], "1.31.4", true), Release::sample("4.19.0", &["4.18.9"], "1.32.1", false)]
}

/// Returns the release to which an update to the newer one of the pair can be redirected while it is under way.
pub fn platform_retarget() -> Release {
    Release::sample("4.19.1", &["4.18.9", "4.19.0"], "1.32.2", false)
}

/// The query of the risk of the update from the older release of the pair to the newer one.
pub const PLATFORM_QUERY: &str = "max(sample_paused_pools) > bool 0";

/// Returns the graph-data of the pair and of the release beside it, by path below the folder.
///
/// ```text
///   4.18.9 ─► 4.19.0   PausedPools       PromQL
///   4.18.9 ─► 4.19.1   SlowNodeRestarts  Always
///   4.19.0 ─► 4.19.1                     recommended
/// ```
pub fn platform_graph_data() -> BTreeMap<String, Vec<u8>> {
    let page = |name: &str| format!("https://risks.example/mainstay-sample/{name}");
    let versions: Vec<&str> = platform_releases().iter().chain([&platform_retarget()]).map(|release| release.version).collect();
    let paused = json!({
        "to": "4.19.0", "from": "^4[.]18[.].*$", "url": page("PausedPools"), "name": "PausedPools",
        "message": "Nodes of paused pools stay at the older release.",
        "matchingRules": [{"type": "PromQL", "promql": {"promql": PLATFORM_QUERY}}],
    });
    let slow = json!({
        "to": "4.19.1", "from": "^4[.]18[.].*$", "url": page("SlowNodeRestarts"), "name": "SlowNodeRestarts",
        "message": "Nodes restart one after the other, which takes long.", "matchingRules": [{"type": "Always"}],
    });
    let mut files = BTreeMap::from([("version".to_owned(), b"1.2.0\n".to_vec())]);
    for channel in ["stable-4.18", "stable-4.19"] {
        let content = json!({"name": channel, "versions": versions});
        files.insert(format!("channels/{channel}.yaml"), mainstay_yaml::to_string(&content).into_bytes());
    }
    for (name, edge) in [("4.19.0-paused-pools", paused), ("4.19.1-slow-node-restarts", slow)] {
        files.insert(format!("blocked-edges/{name}.yaml"), mainstay_yaml::to_string(&edge).into_bytes());
    }
    files
}

/// Returns the files of a payload with a namespace and a ClusterOperator for each operator of the platform, at its runlevel and with its
/// capability; no operator has a workload.
///
/// `image` is the pull spec of the Cluster Version Operator.
pub fn platform_files(release: &Release, image: &str) -> BTreeMap<String, Vec<u8>> {
    let images = Images::from([(OPERATOR.to_owned(), image.to_owned())]);
    let rows = platform_operators().iter().flat_map(|row| manifests(row, release.version));
    let mut files: BTreeMap<String, Vec<u8>> =
        release.operator().into_iter().chain(rows).map(|(file, object)| (file, mainstay_yaml::to_string(&object).into_bytes())).collect();
    for (set, enabled, disabled) in FEATURE_SETS {
        let name = if set.is_empty() { "Default" } else { set };
        let file = format!("release-manifests/0000_50_cluster-config-api_featureGate-SelfManagedHA-{name}.yaml");
        files.insert(file, mainstay_yaml::to_string(&feature_gate(set, enabled, disabled)).into_bytes());
    }
    files.insert("release-manifests/release-metadata".to_owned(), pretty(&release.metadata()));
    files.insert("release-manifests/image-references".to_owned(), pretty(&release.references(&images)));
    files
}

/// The feature sets of the sample releases, with the features that are on and off in each.
const FEATURE_SETS: [(&str, &[&str], &[&str]); 3] = [
    ("", &["SampleDrain", "SampleQuotas"], &["SampleHibernation", "SamplePreview"]),
    ("TechPreviewNoUpgrade", &["SampleDrain", "SamplePreview", "SampleQuotas"], &["SampleHibernation"]),
    ("DevPreviewNoUpgrade", &["SampleDrain", "SampleHibernation", "SamplePreview", "SampleQuotas"], &[]),
];

/// The features of a set, which the Cluster Config Operator alone reads (COP-07).
fn feature_gate(set: &str, enabled: &[&str], disabled: &[&str]) -> Value {
    let named = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    let spec = if set.is_empty() { json!({}) } else { json!({"featureSet": set}) };
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate",
        "metadata": {
            "name": "cluster",
            "annotations": {"include.release.openshift.io/self-managed-high-availability": "false-except-for-the-config-operator"},
        },
        "spec": spec,
        "status": {"featureGates": [{"version": "", "enabled": named(enabled), "disabled": named(disabled)}]},
    })
}

/// The namespaces that several operators have.
fn shared() -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    let all = platform_operators().iter().flat_map(|row| &row.namespaces);
    all.map(String::as_str).filter(|name| !seen.insert(*name)).collect()
}

fn manifests(row: &PlatformOperator, version: &str) -> Vec<(String, Value)> {
    if row.cluster_operators.is_empty() {
        return Vec::new();
    }
    let shared = shared();
    // A row may have several projects; a file name has one component.
    let component = row.project.split(',').next().unwrap_or_default();
    let file = |order: u8, what: &str| format!("release-manifests/0000_{:02}_{component}_{order:02}_{what}.yaml", row.runlevel);
    let optional = |mut object: Value| {
        if !row.capabilities.is_empty() {
            object["metadata"]["annotations"]["capability.openshift.io/name"] = row.capabilities.join("+").into();
        }
        object
    };
    let is_first = |name: &str| {
        let first = platform_operators().iter().find(|other| other.namespaces.iter().any(|one| one == name));
        first.is_some_and(|first| first.id == row.id)
    };
    let mut all = Vec::new();
    for name in row.namespaces.iter().map(String::as_str).filter(|name| is_first(name)) {
        let object = annotated(namespace(name));
        // A shared namespace stays when the capability of one of its operators is off.
        let object = if shared.contains(name) { object } else { optional(object) };
        all.push((file(0, &format!("{name}-namespace")), object));
    }
    let related: Vec<Value> = row.namespaces.iter().map(|name| json!({"group": "", "resource": "namespaces", "name": name})).collect();
    for name in &row.cluster_operators {
        let object = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name}, "spec": {},
            "status": {"versions": [{"name": "operator", "version": version}], "relatedObjects": related},
        });
        all.push((file(10, &format!("{name}-clusteroperator")), optional(annotated(object))));
    }
    all
}
