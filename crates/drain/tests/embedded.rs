//! Drains against the embedded API; the test plays the kubelet and the disruption controller.

use std::time::Duration;

use jiff::Timestamp;
use mainstay_drain::{Drain, DrainError, Method, Options, PodRef, Progress, Settings, Why, cordon, sentence, told};
use mainstay_objects::{ObjectRef, Patch};
use mainstay_testing_cluster::EmbeddedCluster;
use serde_json::{Value, json};

const NODE: &str = "worker-1";

fn at(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    let text = str::to_owned;
    ObjectRef { api_version: text(api_version), kind: text(kind), namespace: text(namespace), name: text(name) }
}

async fn prepared() -> EmbeddedCluster {
    let cluster = EmbeddedCluster::start().await;
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}),
    ] {
        cluster.admin.create(&object).await.unwrap();
    }
    cluster
}

/// A running pod of the node; `owner` is the kind and name of its controller.
async fn pod(cluster: &EmbeddedCluster, name: &str, owner: Option<(&str, &str)>, annotations: Value) -> PodRef {
    let owners: Vec<Value> = owner
        .map(|(kind, name)| json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "0f1e", "controller": true}))
        .into_iter()
        .collect();
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": name}, "annotations": annotations, "ownerReferences": owners},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "example.com/ledger"}]},
    });
    let made = cluster.admin.create(&object).await.unwrap();
    let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.admin.patch(&at("v1", "Pod", "shop", name), "status", &Patch::Merge(running)).await.unwrap();
    let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
    PodRef { namespace: "shop".to_owned(), name: name.to_owned(), uid }
}

/// The last step of a kubelet.
async fn gone(cluster: &EmbeddedCluster, name: &str) {
    let options = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
    let resource = kube::api::ApiResource::from_gvk_with_plural(&kube::api::GroupVersionKind::gvk("", "v1", "Pod"), "pods");
    let api: kube::Api<kube::api::DynamicObject> = kube::Api::namespaced_with(cluster.admin.client().clone(), "shop", &resource);
    api.delete(name, &options).await.unwrap();
}

async fn budget(cluster: &EmbeddedCluster, app: &str, allowed: i64) {
    let place = at("policy/v1", "PodDisruptionBudget", "shop", app);
    if cluster.admin.get(&place).await.unwrap().is_none() {
        let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": app}}});
        let object = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": app, "namespace": "shop"}, "spec": spec});
        cluster.admin.create(&object).await.unwrap();
    }
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1 + allowed,
        "desiredHealthy": 1, "expectedPods": 2}});
    cluster.admin.patch(&place, "status", &Patch::Merge(status)).await.unwrap();
}

fn drain(cluster: &EmbeddedCluster, options: Options) -> Drain {
    Drain::new(cluster.admin.client().clone(), NODE, options)
}

async fn remaining(drain: &Drain) -> Vec<(PodRef, Why)> {
    match drain.pass(Timestamp::now()).await.unwrap() {
        Progress::Done => Vec::new(),
        Progress::Waiting { remaining } => remaining,
    }
}

/// MACH-DRAIN-01, MACH-DRAIN-06: a cordon is made once, and taken back only by a request.
#[tokio::test]
async fn cordons() {
    let cluster = prepared().await;
    let client = cluster.admin.client();
    assert!(cordon(client, NODE, true).await.unwrap());
    assert!(!cordon(client, NODE, true).await.unwrap());
    let place = at("v1", "Node", "", NODE);
    assert_eq!(cluster.admin.get(&place).await.unwrap().unwrap()["spec"]["unschedulable"], true);
    assert_eq!(drain(&cluster, Options::default()).pass(Timestamp::now()).await.unwrap(), Progress::Done);
    assert_eq!(cluster.admin.get(&place).await.unwrap().unwrap()["spec"]["unschedulable"], true);
    assert!(cordon(client, NODE, false).await.unwrap());
    assert!(cluster.admin.get(&place).await.unwrap().unwrap()["spec"].get("unschedulable").is_none());
    assert!(cordon(client, "worker-9", true).await.unwrap_err().is_not_found());
}

/// MACH-DRAIN-01, MACH-DRAIN-02, MACH-DRAIN-07, MACH-TRB-03: pods of DaemonSets and static pods stay, the others are evicted at once but for
/// those that a budget protects; a drain is done when they are gone, and a pod of the same name is another pod.
#[tokio::test]
async fn a_budget_holds_a_pod_until_it_allows_a_disruption() {
    let cluster = prepared().await;
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "shop"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "main", "image": "example.com/agent"}]}},
    }});
    cluster.admin.create(&set).await.unwrap();
    pod(&cluster, "agent", Some(("DaemonSet", "agent")), json!({})).await;
    pod(&cluster, "static", Some(("Node", NODE)), json!({"kubernetes.io/config.mirror": "1f"})).await;
    let lost = pod(&cluster, "lost", Some(("DaemonSet", "deleted-set")), json!({})).await;
    let web = pod(&cluster, "web", Some(("ReplicaSet", "web")), json!({})).await;
    let ledger = pod(&cluster, "ledger", None, json!({})).await;
    budget(&cluster, "ledger", 0).await;

    let drain = drain(&cluster, Options::default());
    let look = drain.look(Timestamp::now()).await.unwrap();
    assert_eq!(look.leaving.iter().map(|found| &found.pod).collect::<Vec<_>>(), [&ledger, &lost, &web]);
    let warned = "ignoring DaemonSet-managed Pods: shop/agent; deleting Pods that declare no controller: shop/ledger";
    assert_eq!(look.warnings, warned);

    let first = remaining(&drain).await;
    assert_eq!(first.iter().map(|(pod, _)| pod).collect::<Vec<_>>(), [&ledger, &lost, &web]);
    let Why::Budget { budgets, message } = &first[0].1 else { panic!("{:?}", first[0]) };
    assert_eq!(budgets[0].to_string(), "ledger (currentHealthy 1, desiredHealthy 1, disruptionsAllowed 0)");
    assert!(message.starts_with("Cannot evict pod as it would violate the pod's disruption budget."), "{message}");
    assert!(first[1..].iter().all(|(_, why)| *why == Why::Ending { since: None }), "{first:?}");
    let second = remaining(&drain).await;
    assert!(matches!(second[2].1, Why::Ending { since: Some(_) }), "{second:?}");

    // What is told: the budget at once, a pod that only ends after its time.
    let now = Timestamp::now();
    let text = told(&second, now, Duration::from_secs(20)).unwrap();
    let sentence_of_budget = sentence(&ledger, &second[0].1, Duration::from_secs(20));
    assert_eq!(text, sentence_of_budget);
    assert!(text.starts_with("error when evicting pods/\"ledger\" -n \"shop\": blocked by PodDisruptionBudget ledger ("), "{text}");
    let later = now + jiff::SignedDuration::from_secs(21);
    let text = told(&second, later, Duration::from_secs(20)).unwrap();
    let ending = "error when waiting for pod \"web\" in namespace \"shop\" to terminate: global timeout reached: 20s";
    assert!(text.starts_with('[') && text.contains(ending), "{text}");

    gone(&cluster, "lost").await;
    gone(&cluster, "web").await;
    budget(&cluster, "ledger", 1).await;
    assert_eq!(remaining(&drain).await, [(ledger, Why::Ending { since: None })]);
    gone(&cluster, "ledger").await;
    assert_eq!(drain.pass(Timestamp::now()).await.unwrap(), Progress::Done);
}

/// MACH-DRAIN-01, MACH-DRAIN-08: what a person did not permit stops the drain before anything is evicted, and a dry run changes nothing.
#[tokio::test]
async fn a_refused_drain_evicts_nothing() {
    let cluster = prepared().await;
    pod(&cluster, "ledger", None, json!({})).await;
    pod(&cluster, "web", Some(("ReplicaSet", "web")), json!({})).await;
    let plain = drain(&cluster, Options { settings: Settings::PLAIN, ..Options::default() });
    let Err(DrainError::Refused(texts)) = plain.pass(Timestamp::now()).await else { panic!("not refused") };
    assert_eq!(texts, ["cannot delete cannot delete Pods that declare no controller (use --force to override): shop/ledger"]);
    let dry = drain(&cluster, Options { dry_run: true, ..Options::default() });
    assert_eq!(remaining(&dry).await.len(), 2);
    for name in ["ledger", "web"] {
        let pod = cluster.admin.get(&at("v1", "Pod", "shop", name)).await.unwrap().unwrap();
        assert!(pod["metadata"].get("deletionTimestamp").is_none(), "{pod}");
    }
    let chosen = drain(&cluster, Options { pod_selector: Some("app=web".to_owned()), ..Options::default() });
    assert_eq!(remaining(&chosen).await.len(), 1);
}

/// MACH-DRAIN-04: of a node that is not heard of, pods have one second; one that is ending longer is not waited for, but budgets count.
#[tokio::test]
async fn an_unreachable_node() {
    let cluster = prepared().await;
    let web = pod(&cluster, "web", Some(("ReplicaSet", "web")), json!({})).await;
    let place = at("v1", "Pod", "shop", "web");
    let usual = drain(&cluster, Options::default());
    assert_eq!(remaining(&usual).await.len(), 1);
    let grace = |pod: &Value| pod["metadata"]["deletionGracePeriodSeconds"].clone();
    assert_eq!(grace(&cluster.admin.get(&place).await.unwrap().unwrap()), 30);
    let options = Options { settings: Settings::UNREACHABLE, grace_period: Some(1), ..Options::default() };
    let lost = drain(&cluster, options.clone());
    assert_eq!(remaining(&lost).await.len(), 1, "{web}");
    assert_eq!(grace(&cluster.admin.get(&place).await.unwrap().unwrap()), 1);
    let later = Timestamp::now() + jiff::SignedDuration::from_secs(5);
    assert_eq!(lost.pass(later).await.unwrap(), Progress::Done);
    pod(&cluster, "ledger", None, json!({})).await;
    budget(&cluster, "ledger", 0).await;
    let Progress::Waiting { remaining } = lost.pass(later).await.unwrap() else { panic!("done") };
    assert!(matches!(remaining[..], [(_, Why::Budget { .. })]), "{remaining:?}");
    let deletes = Drain::new(cluster.admin.client().clone(), NODE, Options { method: Method::Delete, ..options });
    let Progress::Waiting { remaining } = deletes.pass(later).await.unwrap() else { panic!("done") };
    assert!(matches!(remaining[..], [(_, Why::Ending { .. })]), "{remaining:?}");
}
