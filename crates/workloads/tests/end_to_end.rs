//! Controllers, scheduler and simulated nodes against the embedded API, in process.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use jiff::Timestamp;
use mainstay_runtime::{Env, ManualClock};
use mainstay_workloads::{Options, Script};
use serde_json::{Value, json};

use crate::up::{CA, Up, within};

fn deployment(name: &str, image: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}], "initContainers": [{"name": "first", "image": "init:1"}]},
            },
        },
    })
}

fn available(count: u32) -> impl Fn(&Value) -> bool {
    move |deployment| {
        let status = &deployment["status"];
        status["availableReplicas"] == count
            && status["updatedReplicas"] == count
            && status["replicas"] == count
            && status["observedGeneration"] == deployment["metadata"]["generation"]
    }
}

const APPS: &str = "/apis/apps/v1/namespaces/default";
const CORE: &str = "/api/v1/namespaces/default";

/// KAPI-WL-01, KAPI-WL-02, KAPI-WL-03: a Deployment becomes available through ReplicaSet, scheduler and kubelets, is rolled out, rolled
/// back, scaled, and goes with all that it made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_lives() {
    let up = Up::start(Options::default()).await;
    up.until("/api/v1/nodes/worker-2", |node| node["status"]["allocatable"].is_object()).await;
    up.post(&format!("{APPS}/deployments"), deployment("d", "app:1", 2)).await;
    let path = format!("{APPS}/deployments/d");
    let first = up.until(&path, available(2)).await;
    assert_eq!(first["metadata"]["generation"], 1);
    assert_eq!(first["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let pods = up.get(&format!("{CORE}/pods")).await.unwrap();
    for pod in pods["items"].as_array().unwrap() {
        assert_ne!(pod["spec"]["nodeName"], "control-plane", "it is tainted");
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    }
    assert_ne!(pods["items"][0]["status"]["podIP"], pods["items"][1]["status"]["podIP"]);

    let image = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
    up.merge(&path, image("app:2")).await;
    let second = up.until(&path, available(2)).await;
    assert_eq!(second["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    up.merge(&path, image("app:1")).await;
    let third = up.until(&path, available(2)).await;
    assert_eq!(third["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    let sets = up.get(&format!("{APPS}/replicasets")).await.unwrap();
    assert_eq!(sets["items"].as_array().unwrap().len(), 2, "the first one came back");

    up.merge(&path, json!({"spec": {"replicas": 5}})).await;
    up.until(&path, available(5)).await;
    up.merge(&path, json!({"spec": {"replicas": 1}})).await;
    up.until(&path, available(1)).await;

    up.delete(&path, "Foreground").await;
    up.until_gone(&path).await;
    // Whoever waited for the foreground deletion finds nothing left that blocked it.
    let sets = up.get(&format!("{APPS}/replicasets")).await.unwrap();
    assert_eq!(sets["items"], json!([]));
    up.until(&format!("{CORE}/pods"), |pods| pods["items"] == json!([])).await;
    up.down().await;
}

/// KAPI-WL-01: background and orphaning deletion, custom owners of built-in dependents, cluster-wide owners.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_follow_their_owners() {
    let up = Up::start(Options { scheduler: false, nodes: false, ..Options::default() }).await;
    up.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        }),
    )
    .await;
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    let established = |crd: &Value| {
        let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Established" && one["status"] == "True"))
    };
    up.until(crd, established).await;
    up.until("/apis/example.com/v1/widgets", |_| true).await;
    let owner = |object: &Value| json!([{"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"], "uid": object["metadata"]["uid"]}]);
    let map = |name: &str, owners: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}});
    let maps = format!("{CORE}/configmaps");
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let widget = up.post("/apis/example.com/v1/widgets", widget).await;
    up.post(&maps, map("of-widget", &owner(&widget))).await;
    up.delete("/apis/example.com/v1/widgets/w", "Background").await;
    up.until_gone(&format!("{maps}/of-widget")).await;

    // An owner that never was.
    let mut nobody = widget.clone();
    nobody["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    up.post(&maps, map("of-nobody", &owner(&nobody))).await;
    up.until_gone(&format!("{maps}/of-nobody")).await;

    let kept = up.post(&maps, map("owner", &json!([]))).await;
    up.post(&maps, map("kept", &owner(&kept))).await;
    up.delete(&format!("{maps}/owner"), "Orphan").await;
    up.until_gone(&format!("{maps}/owner")).await;
    let kept = up.get(&format!("{maps}/kept")).await.unwrap();
    assert_eq!(kept["metadata"].get("ownerReferences"), None);
    up.down().await;
}

/// KAPI-WL-01, KAPI-AUTH-03: namespaces get their account and certificate, tokens in Secrets, and go with their content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_are_filled_and_emptied() {
    let up = Up::start(Options { scheduler: false, nodes: false, ..Options::default() }).await;
    up.post("/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})).await;
    up.until("/api/v1/namespaces/n/serviceaccounts/default", |_| true).await;
    let map = up.until("/api/v1/namespaces/n/configmaps/kube-root-ca.crt", |_| true).await;
    assert_eq!(map["data"]["ca.crt"], CA);
    up.delete("/api/v1/namespaces/n/configmaps/kube-root-ca.crt", "Background").await;
    up.until("/api/v1/namespaces/n/configmaps/kube-root-ca.crt", |_| true).await;

    let annotations = json!({"kubernetes.io/service-account.name": "default"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "token", "annotations": annotations}});
    up.post("/api/v1/namespaces/n/secrets", secret).await;
    let filled = up.until("/api/v1/namespaces/n/secrets/token", |secret| secret["data"]["token"].is_string()).await;
    assert!(filled["data"]["ca.crt"].is_string() && filled["data"]["namespace"] == "bg==");

    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    up.post("/api/v1/namespaces/n/configmaps", held).await;
    up.delete("/api/v1/namespaces/n", "Background").await;
    let remaining = |namespace: &Value| {
        let conditions = namespace.pointer("/status/conditions").and_then(Value::as_array);
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "NamespaceFinalizersRemaining" && one["status"] == "True"))
    };
    let namespace = up.until("/api/v1/namespaces/n", remaining).await;
    assert_eq!(namespace["status"]["conditions"][3]["message"], "Some resources are remaining: configmaps. has 1 resource instances");
    up.merge("/api/v1/namespaces/n/configmaps/held", json!({"metadata": {"finalizers": null}})).await;
    up.until_gone("/api/v1/namespaces/n").await;
    up.down().await;
}

/// KAPI-WL-01: aggregated roles are filled, and follow what they aggregate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregated_roles_are_filled() {
    let up = Up::start(Options { scheduler: false, nodes: false, ..Options::default() }).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let has = |resource: &'static str| {
        move |role: &Value| {
            role["rules"].as_array().into_iter().flatten().any(|rule| rule["resources"].as_array().unwrap().contains(&json!(resource)))
        }
    };
    up.until(&format!("{roles}/view"), has("pods")).await;
    let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let rules = json!([{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "w", "labels": labels}, "rules": rules});
    up.post(roles, role).await;
    up.until(&format!("{roles}/view"), has("widgets")).await;
    up.until(&format!("{roles}/admin"), has("widgets")).await;
    // A label that goes takes the rules with it.
    let key = "rbac.authorization.k8s.io/aggregate-to-view";
    up.merge(&format!("{roles}/w"), json!({"metadata": {"labels": {key: null}}})).await;
    up.until(&format!("{roles}/admin"), |role| !has("widgets")(role)).await;
    up.merge(&format!("{roles}/w"), json!({"metadata": {"labels": {key: "true"}}})).await;
    up.until(&format!("{roles}/admin"), has("widgets")).await;
    up.delete(&format!("{roles}/w"), "Background").await;
    up.until(&format!("{roles}/admin"), |role| !has("widgets")(role)).await;
    up.down().await;
}

/// KAPI-WL-02: a pod that fits nowhere says why, and is bound as soon as a node fits. KAPI-WL-03: nodes say what they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_fit_nowhere_say_why() {
    let up = Up::start(Options::default()).await;
    let ready = |node: &Value| {
        let tainted = |taint: &Value| taint["key"] == "node.kubernetes.io/not-ready";
        state(node, "Ready") == "True" && !node["spec"]["taints"].as_array().is_some_and(|taints| taints.iter().any(tainted))
    };
    for name in ["control-plane", "worker-1", "worker-2"] {
        let node = up.until(&format!("/api/v1/nodes/{name}"), ready).await;
        assert_eq!(node["metadata"]["annotations"]["mainstay.dev/simulated"], "true");
        assert!(node["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap().contains("simulated"));
        up.until(&format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"), |lease| {
            lease["spec"]["renewTime"].is_string()
        })
        .await;
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeSelector": {"disk": "fast"}, "containers": [{"name": "main", "image": "app:1"}]}});
    up.post(&format!("{CORE}/pods"), pod).await;
    let path = format!("{CORE}/pods/p");
    // The scheduler may learn late that a taint is gone, and then updates its message.
    let said = "0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, \
                2 node(s) didn't match Pod's node affinity/selector. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    up.until(&path, |pod| pod["status"]["conditions"][0]["message"] == said).await;
    up.merge("/api/v1/nodes/worker-2", json!({"metadata": {"labels": {"disk": "fast"}}})).await;
    let bound = up.until(&path, |pod| pod["status"]["phase"] == "Running").await;
    assert_eq!(bound["spec"]["nodeName"], "worker-2");
    let events = up
        .until(&format!("{CORE}/events?fieldSelector=involvedObject.name=p,reason=FailedScheduling"), |list| list["items"] != json!([]))
        .await;
    assert_eq!(events["items"][0]["type"], "Warning");
    up.delete(&path, "Background").await;
    up.until_gone(&path).await;
    up.down().await;
}

/// KAPI-WL-01, KAPI-WL-03: StatefulSets in order, DaemonSets on every node that fits, Jobs to their end, endpoints of Services.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_workloads_live() {
    let up = Up::start(Options::default()).await;
    up.until("/api/v1/nodes/worker-2", |node| node["status"]["allocatable"].is_object()).await;
    let template = |restart: &str| {
        let ports = json!([{"name": "web", "containerPort": 8080}]);
        json!({"metadata": {"labels": {"app": "w"}}, "spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": "a:1", "ports": ports}]}})
    };
    let make =
        |kind: &str, name: &str, spec: Value| json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let selector = json!({"matchLabels": {"app": "w"}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"selector": {"statefulset.kubernetes.io/pod-name": "s-1"}, "ports": [{"port": 80, "targetPort": "web"}]}});
    up.post(&format!("{CORE}/services"), service).await;
    let set = make("StatefulSet", "s", json!({"replicas": 2, "serviceName": "s", "selector": selector, "template": template("Always")}));
    up.post(&format!("{APPS}/statefulsets"), set).await;
    let sets = format!("{APPS}/statefulsets/s");
    up.until(&sets, |set| set["status"]["availableReplicas"] == 2).await;
    let endpoints = up.until(&format!("{CORE}/endpoints/s"), |all| all["subsets"][0]["addresses"].is_array()).await;
    assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], 8080);
    up.merge(&sets, json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}})).await;
    let rolled = |set: &Value| {
        let status = &set["status"];
        status["observedGeneration"] == 2 && status["currentRevision"] == status["updateRevision"] && status["readyReplicas"] == 2
    };
    up.until(&sets, rolled).await;
    up.merge(&sets, json!({"spec": {"replicas": 0}})).await;
    up.until_gone(&format!("{CORE}/pods/s-0")).await;

    up.post(&format!("{APPS}/daemonsets"), make("DaemonSet", "d", json!({"selector": selector, "template": template("Always")}))).await;
    let sets = format!("{APPS}/daemonsets/d");
    up.until(&sets, |set| set["status"]["numberAvailable"] == 2 && set["status"]["desiredNumberScheduled"] == 2).await;
    up.merge(&sets, json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}})).await;
    let rolled = |set: &Value| {
        set["status"]["observedGeneration"] == 2 && set["status"]["updatedNumberScheduled"] == 2 && set["status"]["numberAvailable"] == 2
    };
    up.until(&sets, rolled).await;
    up.delete(&sets, "Background").await;

    let spec = json!({"completions": 3, "parallelism": 2, "template": template("Never")});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec});
    up.post("/apis/batch/v1/namespaces/default/jobs", job).await;
    let complete = |job: &Value| job["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "Complete"));
    let job = up.until("/apis/batch/v1/namespaces/default/jobs/j", complete).await;
    assert_eq!((&job["status"]["succeeded"], &job["status"]["uncountedTerminatedPods"]), (&json!(3), &json!({})));
    up.delete("/apis/batch/v1/namespaces/default/jobs/j", "Background").await;
    up.until(&format!("{CORE}/pods"), |pods| pods["items"] == json!([])).await;
    up.down().await;
}

/// KAPI-WL-01, KAPI-WL-03: what is scripted to go wrong shows on pods and nodes; CronJobs make Jobs; claims get volumes for their
/// first pod; autoscaled targets stay within bounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_wrong_shows() {
    let script = Script { faults: vec!["*/bad:*=image-pull".parse().unwrap(), "crash:*=crash-loop".parse().unwrap()], ..Script::default() };
    let up = Up::start(Options { script, ..Options::default() }).await;
    up.until("/api/v1/nodes/worker-2", |node| node["status"]["allocatable"].is_object()).await;
    let pod = |name: &str, image: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": image}]}});
    let waits = |reason: &'static str| {
        move |pod: &Value| pod.pointer("/status/containerStatuses/0/state/waiting/reason").is_some_and(|shown| shown == reason)
    };
    up.post(&format!("{CORE}/pods"), pod("no-image", "registry.example.com/bad:1")).await;
    up.until(&format!("{CORE}/pods/no-image"), waits("ImagePullBackOff")).await;
    up.post(&format!("{CORE}/pods"), pod("crashes", "crash:1")).await;
    up.until(&format!("{CORE}/pods/crashes"), waits("CrashLoopBackOff")).await;
    let mut unready = pod("unready", "fine:1");
    unready["metadata"]["annotations"] = json!({"mainstay.dev/fault": "never-ready"});
    up.post(&format!("{CORE}/pods"), unready).await;
    let shown = up.until(&format!("{CORE}/pods/unready"), |pod| pod["status"]["phase"] == "Running").await;
    assert_eq!(shown["status"]["containerStatuses"][0]["ready"], false);

    let node = "/api/v1/nodes/worker-2";
    up.merge(node, json!({"metadata": {"annotations": {"mainstay.dev/fault": "not-ready"}}})).await;
    let tainted = |node: &Value| {
        node.pointer("/spec/taints").and_then(Value::as_array).is_some_and(|taints| {
            taints.iter().any(|taint| taint["key"] == "node.kubernetes.io/not-ready" && taint["effect"] == "NoExecute")
        })
    };
    up.until(node, tainted).await;
    up.merge(node, json!({"metadata": {"annotations": {"mainstay.dev/fault": null}}})).await;
    up.until(node, |node| !tainted(node)).await;

    let template = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a:1"}]}}}});
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": {"schedule": "@every 1s", "jobTemplate": template}});
    up.post("/apis/batch/v1/namespaces/default/cronjobs", cron).await;
    up.until("/apis/batch/v1/namespaces/default/cronjobs/c", |cron| cron["status"]["lastSuccessfulTime"].is_string()).await;
    up.delete("/apis/batch/v1/namespaces/default/cronjobs/c", "Background").await;

    let storage = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    up.until("/apis/storage.k8s.io/v1/storageclasses/standard", |_| true).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": storage});
    up.post(&format!("{CORE}/persistentvolumeclaims"), claim).await;
    let mut user = pod("user", "fine:1");
    user["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    up.post(&format!("{CORE}/pods"), user).await;
    up.until(&format!("{CORE}/pods/user"), |pod| pod["status"]["phase"] == "Running").await;
    let bound = up.until(&format!("{CORE}/persistentvolumeclaims/data"), |claim| claim["status"]["phase"] == "Bound").await;
    let volume = format!("/api/v1/persistentvolumes/{}", bound["spec"]["volumeName"].as_str().unwrap());
    up.until(&volume, |volume| volume["status"]["phase"] == "Bound").await;
    // The claim stays as long as its pod, and the volume goes with the claim.
    up.delete(&format!("{CORE}/persistentvolumeclaims/data"), "Background").await;
    up.delete(&format!("{CORE}/pods/user"), "Background").await;
    up.until_gone(&format!("{CORE}/persistentvolumeclaims/data")).await;
    up.until_gone(&volume).await;
    up.down().await;
}

/// The state of a condition.
fn state<'a>(object: &'a Value, kind: &str) -> &'a str {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().find(|one| one["type"] == kind).and_then(|one| one["status"].as_str()).unwrap_or_default()
}

/// A pod that bears every taint.
fn faithful(name: &str, node: &str) -> Value {
    let spec = json!({"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [{"name": "main", "image": "a:1"}]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

/// Lets time pass until something shows that nobody hears of a node any more. What is heard of at first was on its way already.
async fn wait_for_silence(up: &Up, clock: &ManualClock, node: &str, shown: impl AsyncFn() -> Option<Value>) -> Value {
    let look = || async {
        clock.advance(Duration::from_secs(60));
        up.merge(node, json!({"metadata": {"labels": {"looked-at": clock_label(clock)}}})).await;
        shown().await
    };
    within(node, &mut None, look, Option::is_some).await.unwrap()
}

fn clock_label(clock: &ManualClock) -> String {
    Env::new(clock.clone(), 0).now().as_second().to_string()
}

/// KAPI-WL-03, KAPI-WL-01: the pods of a node that fell silent cease to be ready and stay so, those that are deleted stay Terminating,
/// and all goes on when it is heard of again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_node_keeps_its_pods() {
    let clock = ManualClock::new(Timestamp::now());
    let up = Up::start_at(Options { node_count: 1, ..Options::default() }, Env::new(clock.clone(), 1)).await;
    let node = "/api/v1/nodes/control-plane";
    up.until(node, |node| state(node, "Ready") == "True").await;
    for name in ["stays", "goes"] {
        up.post(&format!("{CORE}/pods"), faithful(name, "control-plane")).await;
        up.until(&format!("{CORE}/pods/{name}"), |pod| state(pod, "Ready") == "True").await;
    }
    let (stays, goes) = (format!("{CORE}/pods/stays"), format!("{CORE}/pods/goes"));
    up.merge(node, json!({"metadata": {"annotations": {"mainstay.dev/fault": "silent"}}})).await;
    wait_for_silence(&up, &clock, node, async || up.get(node).await.filter(|node| state(node, "Ready") == "Unknown")).await;
    let marked = up.until(&stays, |pod| state(pod, "Ready") == "False").await;
    up.until(&goes, |pod| state(pod, "Ready") == "False").await;
    up.delete(&goes, "Background").await;
    up.merge(&stays, json!({"metadata": {"labels": {"changed": "by-somebody"}}})).await;
    let late = format!("{CORE}/pods/late");
    up.post(&format!("{CORE}/pods"), faithful("late", "control-plane")).await;
    up.until(node, |node| {
        let taints = node.pointer("/spec/taints").and_then(Value::as_array);
        taints.is_some_and(|all| all.iter().any(|taint| taint["key"] == "node.kubernetes.io/unreachable" && taint["effect"] == "NoExecute"))
    })
    .await;
    assert!(up.get(&goes).await.unwrap()["metadata"]["deletionTimestamp"].is_string());
    assert_ne!(up.get(&late).await.unwrap()["status"]["phase"], "Running");

    // Whatever says that a pod is ready now says so of a later time.
    clock.advance(Duration::from_secs(10));
    let later = json!(Timestamp::from_second(Env::new(clock.clone(), 0).now().as_second()).unwrap().to_string());
    up.merge(node, json!({"metadata": {"annotations": {"mainstay.dev/fault": null}}})).await;
    up.until(node, |node| state(node, "Ready") == "True").await;
    up.until_gone(&goes).await;
    for path in [&stays, &late] {
        up.until(path, |pod| state(pod, "Ready") == "True").await;
    }
    let since = marked["metadata"]["resourceVersion"].as_str().unwrap();
    let history = up.history(&format!("{CORE}/pods?fieldSelector=metadata.name=stays"), since).await;
    let ready: Vec<&Value> = history
        .iter()
        .filter(|pod| state(pod, "Ready") == "True")
        .map(|pod| {
            let conditions = pod["status"]["conditions"].as_array().unwrap();
            &conditions.iter().find(|one| one["type"] == "Ready").unwrap()["lastTransitionTime"]
        })
        .collect();
    assert!(!ready.is_empty() && ready.iter().all(|since| **since == later), "{ready:?} is not {later}");
    up.down().await;
}

/// KAPI-WL-01: a node that was found lost before, by somebody who did not come to say so of its pods, is lost to them all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_left_half_done_is_finished() {
    let clock = ManualClock::new(Timestamp::now());
    let options = Options { nodes: false, scheduler: false, ..Options::default() };
    let up = Up::start_at(options, Env::new(clock.clone(), 1)).await;
    let node = "/api/v1/nodes/lost";
    up.post("/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "lost"}})).await;
    let condition = |state: &str| json!({"status": {"conditions": [{"type": "Ready", "status": state}]}});
    up.merge(&format!("{node}/status"), condition("Unknown")).await;
    up.post(&format!("{CORE}/pods"), faithful("p", "lost")).await;
    let path = format!("{CORE}/pods/p");
    up.merge(&format!("{path}/status"), condition("True")).await;
    wait_for_silence(&up, &clock, node, async || up.get(&path).await.filter(|pod| state(pod, "Ready") == "False")).await;
    up.down().await;
}

/// KAPI-WL-01: a quota on a kind that comes later counts it as soon as it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_wait_for_kinds() {
    let up = Up::start(Options { scheduler: false, nodes: false, ..Options::default() }).await;
    let hard = json!({"count/widgets.example.com": "1", "count/configmaps": "9"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    up.post(&format!("{CORE}/resourcequotas"), quota).await;
    let path = format!("{CORE}/resourcequotas/q");
    up.until(&path, |quota| quota["status"]["used"]["count/configmaps"].is_string()).await;
    up.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        }),
    )
    .await;
    up.until(&path, |quota| quota["status"]["used"]["count/widgets.example.com"] == "0").await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    up.post("/apis/example.com/v1/namespaces/default/widgets", widget).await;
    up.until(&path, |quota| quota["status"]["used"]["count/widgets.example.com"] == "1").await;
    up.down().await;
}

/// KAPI-WL-05: hundreds of pods of several Deployments come alive; `examples/scale.rs` measures thousands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pods_come_alive() {
    let up = Up::start(Options { node_count: 6, ..Options::default() }).await;
    let labels = |name: &str| json!({"app": name});
    for name in ["one", "two", "three"] {
        let template = json!({"metadata": {"labels": labels(name)}, "spec": {"containers": [{"name": "main", "image": "a:1"}]}});
        let spec = json!({"replicas": 100, "selector": {"matchLabels": labels(name)}, "template": template});
        up.post(
            &format!("{APPS}/deployments"),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}),
        )
        .await;
    }
    for name in ["one", "two", "three"] {
        up.until(&format!("{APPS}/deployments/{name}"), |set| set["status"]["availableReplicas"] == 100).await;
    }
    up.down().await;
}
