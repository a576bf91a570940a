//! Facts of a live cluster for the checks of readiness. Each is read for itself: one that cannot be read takes only its own checks away.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use kube::api::GroupVersionKind;
use mainstay_alerts::samples_of;
use mainstay_apply::WriteError;
use mainstay_cluster_version_core::inject::Settings;
use mainstay_cluster_version_core::readiness::{CertificateFacts, DeprecatedRequests, OperatorLimit, PodFacts, Read};
use mainstay_cluster_version_core::upgradeable::{ADMIN_ACKS, ADMIN_GATES, ConfigMap};
use mainstay_diagnostics::{Failure, SharedError, chain};
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::cluster_operator::compat::{ANNOTATION, max_version};
use mainstay_promql::Sample;
use mainstay_schema::quantity::Quantity;
use serde_json::Value;

use super::catalogs::Sources;
use super::certificates;
use crate::failure::not_written;
use crate::session::Session;

/// The most objects of a kind that are read.
const MOST: usize = 200_000;
/// The time for all objects of a kind.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most users of an API that are named.
const USERS: usize = 3;
/// The metric that tells which deprecated versions were requested.
const DEPRECATED: &str = "apiserver_requested_deprecated_apis";
const REQUESTS: &str = "apiserver_request_total";

/// The facts.
pub(super) struct ClusterFacts {
    pub operators: Read<Vec<Value>>,
    pub pools: Read<Vec<Value>>,
    pub nodes: Read<Vec<Value>>,
    pub pods: Read<Vec<PodFacts>>,
    pub budgets: Read<Vec<Value>>,
    pub gates: ConfigMap,
    pub acks: ConfigMap,
    pub operator_limits: Read<Vec<OperatorLimit>>,
    pub deprecated_requests: Read<Vec<DeprecatedRequests>>,
    pub webhooks: Read<Vec<Value>>,
    pub ready_services: Read<BTreeSet<(String, String)>>,
    pub failing_health: Read<Vec<String>>,
    pub certificates: Read<Vec<CertificateFacts>>,
    pub sources: Sources,
    pub mirrors: Vec<Value>,
}

/// Reads all of them at once.
pub(super) async fn read(session: &Session) -> ClusterFacts {
    let config = |kind| list(session, "config.openshift.io", "v1", kind);
    let olm = |version, kind| list(session, "operators.coreos.com", version, kind);
    let hooks = |kind| list(session, "admissionregistration.k8s.io", "v1", kind);
    let (operators, pools, nodes, pods, budgets, gates, acks, counts, slices, failing_health) = tokio::join!(
        config("ClusterOperator"),
        list(session, "machineconfiguration.openshift.io", "v1", "MachineConfigPool"),
        list(session, "", "v1", "Node"),
        list(session, "", "v1", "Pod"),
        list(session, "policy", "v1", "PodDisruptionBudget"),
        config_map(session, "openshift-config-managed", ADMIN_GATES),
        config_map(session, "openshift-config", ADMIN_ACKS),
        deprecated_requests(session),
        list(session, "discovery.k8s.io", "v1", "EndpointSlice"),
        failing_health(session),
    );
    let (csvs, subscriptions, classic_catalogs, extensions, cluster_catalogs) = tokio::join!(
        olm("v1alpha1", "ClusterServiceVersion"),
        olm("v1alpha1", "Subscription"),
        olm("v1alpha1", "CatalogSource"),
        list(session, "olm.operatorframework.io", "v1", "ClusterExtension"),
        list(session, "olm.operatorframework.io", "v1", "ClusterCatalog"),
    );
    let (validating, mutating, services, definitions, secrets, digest_mirrors, tag_mirrors) = tokio::join!(
        hooks("ValidatingWebhookConfiguration"),
        hooks("MutatingWebhookConfiguration"),
        list(session, "apiregistration.k8s.io", "v1", "APIService"),
        list(session, "apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        certificates::of_secrets(session),
        config("ImageDigestMirrorSet"),
        config("ImageTagMirrorSet"),
    );
    let webhooks = validating.and_then(|mut all| {
        all.extend(mutating?);
        Ok(all)
    });
    let trusting = [&webhooks, &services, &definitions].map(Clone::clone);
    let bundles = trusting.into_iter().collect::<Read<Vec<_>>>().map(|objects| certificates::of_bundles(&objects.concat()));
    ClusterFacts {
        operators,
        pools,
        nodes,
        pods: pods.map(|pods| pods.iter().map(pod).collect()),
        budgets,
        gates,
        acks,
        operator_limits: csvs.as_ref().map(|csvs| csvs.iter().filter_map(operator_limit).collect()).map_err(Clone::clone),
        deprecated_requests: counts,
        webhooks,
        ready_services: slices.map(|slices| slices.iter().filter(|slice| is_ready(slice)).map(service).collect()),
        failing_health,
        certificates: secrets.and_then(|mut all| {
            all.extend(bundles?);
            Ok(all)
        }),
        sources: Sources { subscriptions, csvs, classic_catalogs, extensions, cluster_catalogs },
        mirrors: [digest_mirrors, tag_mirrors].into_iter().flatten().flatten().collect(),
    }
}

/// The feature set of the cluster; empty for the default one.
pub(super) async fn feature_set(session: &Session) -> Result<String, Failure> {
    let gate = setting(session, "FeatureGate").await?;
    Ok(gate.map(|gate| text(&gate, "/spec/featureSet").to_owned()).unwrap_or_default())
}

/// The settings of the cluster that manifests get.
pub(super) async fn settings(session: &Session) -> Result<Settings, Failure> {
    let (proxy, infrastructure) = tokio::try_join!(setting(session, "Proxy"), setting(session, "Infrastructure"))?;
    Ok(Settings::of(proxy.as_ref(), infrastructure.as_ref()))
}

/// The object `cluster` of a kind of settings; none if the cluster does not have it.
async fn setting(session: &Session, kind: &str) -> Result<Option<Value>, Failure> {
    let place = ObjectRef {
        api_version: "config.openshift.io/v1".to_owned(),
        kind: kind.to_owned(),
        namespace: String::new(),
        name: "cluster".to_owned(),
    };
    match session.writer.get(&place).await {
        Err(WriteError::Kind { .. }) => Ok(None),
        found => found.map_err(|error| not_written(&error)),
    }
}

/// Lists a kind; nothing if the cluster does not have it.
async fn list(session: &Session, group: &str, version: &str, kind: &str) -> Read<Vec<Value>> {
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let listed = tokio::time::timeout(PATIENCE, session.writer.list(&gvk, MOST)).await;
    match listed {
        Err(_) => Err(SharedError::from(format!("list {kind}: no end within {} s", PATIENCE.as_secs()))),
        Ok(Err(WriteError::Kind { .. })) => Ok(Vec::new()),
        Ok(Err(error)) => Err(SharedError::new(error)),
        Ok(Ok(all)) if all.len() >= MOST => Err(SharedError::from(format!("list {kind}: there are more than {MOST}"))),
        Ok(Ok(all)) => Ok(all),
    }
}

async fn config_map(session: &Session, namespace: &str, name: &str) -> ConfigMap {
    let place =
        ObjectRef { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned(), namespace: namespace.to_owned(), name: name.to_owned() };
    match session.writer.get(&place).await {
        Ok(Some(object)) => {
            let data = object["data"].as_object().into_iter().flatten();
            ConfigMap::Data(data.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect())
        }
        Ok(None) => ConfigMap::NotFound,
        Err(error) => ConfigMap::Unreadable(chain(&error)),
    }
}

/// The global pull secret of the cluster; none if there is none, or if this user may not read it.
pub(super) async fn pull_secret(session: &Session) -> Option<String> {
    let place = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: "openshift-config".to_owned(),
        name: "pull-secret".to_owned(),
    };
    let secret = session.writer.get(&place).await.ok()??;
    String::from_utf8(STANDARD.decode(text(&secret, "/data/.dockerconfigjson")).ok()?).ok()
}

fn pod(pod: &Value) -> PodFacts {
    let controller = array(pod, "/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
    let is_local = |volume: &Value| volume["emptyDir"].is_object() && volume["emptyDir"]["medium"] != "Memory";
    // Init containers run before the others, but for those that stay.
    let requests = |field: &str| -> i128 {
        let of = |container: &Value| {
            let asked = Quantity::parse(text(container, &format!("/resources/requests/{field}"))).ok();
            asked.map(|asked| if field == "cpu" { asked.to_milli() } else { i128::from(asked.to_int()) }).unwrap_or_default()
        };
        let stays = |container: &&Value| container["restartPolicy"] == "Always";
        let init = array(pod, "/spec/initContainers");
        let running: i128 = array(pod, "/spec/containers").iter().chain(init.iter().filter(stays)).map(of).sum();
        init.iter().filter(|container| !stays(container)).map(of).max().unwrap_or_default().max(running)
    };
    PodFacts {
        name: format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name")),
        node: text(pod, "/spec/nodeName").to_owned(),
        controller: controller.map(|owner| text(owner, "/kind").to_owned()),
        is_mirror: pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string(),
        is_finished: matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"),
        keeps_local_data: array(pod, "/spec/volumes").iter().any(is_local),
        cpu: requests("cpu"),
        memory: requests("memory"),
    }
}

/// The versions that an operator supports; none for a copied CSV and for one that says nothing.
fn operator_limit(csv: &Value) -> Option<OperatorLimit> {
    if csv["metadata"]["labels"]["olm.copiedFrom"].is_string() {
        return None;
    }
    let limit = match max_version(csv["metadata"]["annotations"][ANNOTATION].as_str()) {
        Ok(limit) => Ok(limit.map(|limit| (limit.major, limit.minor))?),
        Err(error) => Err(SharedError::new(error)),
    };
    Some(OperatorLimit { name: format!("{}/{}", text(csv, "/metadata/namespace"), text(csv, "/metadata/name")), limit })
}

fn is_ready(slice: &Value) -> bool {
    array(slice, "/endpoints").iter().any(|endpoint| endpoint["conditions"]["ready"] != false)
}

fn service(slice: &Value) -> (String, String) {
    let name = slice["metadata"]["labels"]["kubernetes.io/service-name"].as_str().unwrap_or_default();
    (text(slice, "/metadata/namespace").to_owned(), name.to_owned())
}

/// Requests to versions that go: as OpenShift counts them, else as the API server's metrics tell.
async fn deprecated_requests(session: &Session) -> Read<Vec<DeprecatedRequests>> {
    let counts = list(session, "apiserver.openshift.io", "v1", "APIRequestCount").await?;
    if !counts.is_empty() {
        return Ok(counts.iter().filter_map(counted).collect());
    }
    let page = get(session, "/metrics").await?;
    let samples = samples_of(&page, |name| name == DEPRECATED || name == REQUESTS).map_err(SharedError::new)?;
    Ok(by_metrics(&samples))
}

fn counted(count: &Value) -> Option<DeprecatedRequests> {
    let removed_in = text(count, "/status/removedInRelease");
    if removed_in.is_empty() {
        return None;
    }
    let mut users = BTreeMap::<&str, u64>::new();
    let hours = array(count, "/status/last24h").iter().chain(count.pointer("/status/currentHour"));
    for user in hours.flat_map(|hour| array(hour, "/byNode")).flat_map(|node| array(node, "/byUser")) {
        *users.entry(text(user, "/username")).or_default() += user["requestCount"].as_u64().unwrap_or_default();
    }
    let mut users: Vec<(&str, u64)> = users.into_iter().collect();
    users.sort_by_key(|(name, requests)| (std::cmp::Reverse(*requests), *name));
    Some(DeprecatedRequests {
        resource: text(count, "/metadata/name").to_owned(),
        removed_in: removed_in.to_owned(),
        requests: count["status"]["requestCount"].as_u64().unwrap_or_default(),
        users: users.into_iter().take(USERS).map(|(name, _)| name.to_owned()).collect(),
    })
}

fn by_metrics(samples: &[Sample]) -> Vec<DeprecatedRequests> {
    let named = |sample: &&Sample, name: &str| sample.labels.get("__name__").is_some_and(|found| found == name);
    let label = |sample: &Sample, name: &str| sample.labels.get(name).cloned().unwrap_or_default();
    let resource = |sample: &Sample| (label(sample, "resource"), label(sample, "version"), label(sample, "group"));
    let mut found = BTreeMap::<_, DeprecatedRequests>::new();
    for sample in samples.iter().filter(|sample| named(sample, DEPRECATED) && sample.value > 0.0) {
        let key = resource(sample);
        let removed_in = label(sample, "removed_release");
        if removed_in.is_empty() {
            continue;
        }
        let resource = format!("{}.{}.{}", key.0, key.1, key.2);
        found.insert(key, DeprecatedRequests { resource, removed_in, requests: 0, users: Vec::new() });
    }
    for sample in samples.iter().filter(|sample| named(sample, REQUESTS)) {
        if let Some(one) = found.get_mut(&resource(sample)) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter of requests")]
            let requests = sample.value.max(0.0) as u64;
            one.requests += requests;
        }
    }
    // The gauge alone says that there was one.
    found.into_values().map(|one| DeprecatedRequests { requests: one.requests.max(1), ..one }).collect()
}

/// The health checks of the API server that fail.
async fn failing_health(session: &Session) -> Read<Vec<String>> {
    let request = Request::get("/readyz?verbose").body(Vec::new()).map_err(SharedError::new)?;
    let told = match session.client.request_text(request).await {
        Ok(text) => text,
        Err(kube::Error::Api(status)) if status.code == 500 => status.message.clone(),
        Err(error) => return Err(SharedError::new(error)),
    };
    let names = told.split("[-]").skip(1).filter_map(|rest| rest.split([' ', '\n', '\\']).next());
    Ok(names.map(str::to_owned).collect())
}

pub(super) async fn get(session: &Session, path: &str) -> Read<String> {
    let request = Request::get(path).body(Vec::new()).map_err(SharedError::new)?;
    let answered = tokio::time::timeout(PATIENCE, session.client.request_text(request)).await;
    let answered = answered.map_err(|_| SharedError::from(format!("{path}: no answer within {} s", PATIENCE.as_secs())))?;
    answered.map_err(|error| SharedError::from(format!("{path}: {}", chain(&error))))
}

pub(super) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn array<'v>(object: &'v Value, pointer: &str) -> &'v [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    /// MS-READY-03: requests to versions that go, as metrics tell, and as OpenShift counts them.
    #[test]
    fn deprecated() {
        let page = "apiserver_requested_deprecated_apis{group=\"batch\",resource=\"cronjobs\",removed_release=\"1.25\",subresource=\"\",version=\"v1beta1\"} 1\n\
                    apiserver_requested_deprecated_apis{group=\"\",resource=\"componentstatuses\",removed_release=\"\",version=\"v1\"} 1\n\
                    apiserver_request_total{group=\"batch\",resource=\"cronjobs\",verb=\"GET\",version=\"v1beta1\"} 7\n\
                    apiserver_request_total{group=\"batch\",resource=\"cronjobs\",verb=\"LIST\",version=\"v1beta1\"} 2\n\
                    apiserver_request_total{group=\"batch\",resource=\"cronjobs\",verb=\"LIST\",version=\"v1\"} 20\n";
        let found = by_metrics(&samples_of(page, |_| true).unwrap());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].resource.as_str(), found[0].removed_in.as_str(), found[0].requests), ("cronjobs.v1beta1.batch", "1.25", 9));
        let user = |name: &str, requests: u64| json!({"username": name, "requestCount": requests});
        let count = json!({"metadata": {"name": "cronjobs.v1beta1.batch"}, "status": {
            "removedInRelease": "1.25", "requestCount": 12,
            "currentHour": {"byNode": [{"byUser": [user("a", 1), user("b", 5)]}]},
            "last24h": [{"byNode": [{"byUser": [user("c", 2), user("d", 1), user("b", 3)]}]}]}});
        let found = counted(&count).unwrap();
        assert_eq!((found.requests, found.users), (12, vec!["b".to_owned(), "c".to_owned(), "a".to_owned()]));
        assert!(counted(&json!({"metadata": {"name": "pods.v1"}, "status": {}})).is_none());
    }

    /// MS-READY-03: a pod asks for what its containers ask for, or for more while it begins.
    #[test]
    fn pods() {
        let container = |cpu: &str, memory: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}});
        let mut side = container("50m", "10Mi");
        side["restartPolicy"] = json!("Always");
        let found = pod(&json!({
            "metadata": {"namespace": "n", "name": "p", "ownerReferences": [{"kind": "ReplicaSet", "controller": true}]},
            "spec": {"nodeName": "a", "initContainers": [container("1", "1Mi"), side], "volumes": [{"emptyDir": {}}],
                     "containers": [container("100m", "64Mi"), container("0.2", "64Mi")]},
        }));
        assert_eq!((found.cpu, found.memory), (1000, 138 << 20));
        assert_eq!((found.controller.as_deref(), found.keeps_local_data, found.is_mirror), (Some("ReplicaSet"), true, false));
        let bare = pod(&json!({"spec": {"volumes": [{"emptyDir": {"medium": "Memory"}}]}, "status": {"phase": "Failed"}}));
        assert_eq!((bare.controller, bare.keeps_local_data, bare.is_finished), (None, false, true));
    }
}
