//! The cluster autoscaler on the embedded cluster, as an administrator works with it: kubectl and mainstay explain.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use mainstay_e2e::{Cluster, eventually, need_embedded, need_kubectl};
use serde_json::{Value, json};

const NAMESPACE: &str = "openshift-machine-api";
const SET: &str = "machine.openshift.io/cluster-api-machineset";
const MACHINES: &str = "machines.machine.openshift.io";
const MIN: &str = "machine.openshift.io/cluster-api-autoscaler-node-group-min-size";
const MAX: &str = "machine.openshift.io/cluster-api-autoscaler-node-group-max-size";

struct Walk(Cluster);

impl Walk {
    fn start() -> Self {
        Self(Cluster::up(&["--components", "controllers,scheduler,nodes,machine-api", "--nodes", "1"]))
    }

    fn kubectl(&self, words: &[&str]) -> mainstay_e2e::Output {
        self.0.kubectl(&[words, &["-n", NAMESPACE]].concat())
    }

    fn refused(&self, object: &Value) -> String {
        self.0.kubectl_with(&["apply", "-f", "-"], &object.to_string()).refused()
    }

    fn until_size(&self, set: &str, size: u32) -> Value {
        self.0.until(&format!("{set} has {size} machines"), &["machineset", set, "-n", NAMESPACE], |set| {
            let ready = set["status"]["readyReplicas"].as_u64().unwrap_or_default();
            set["spec"]["replicas"] == size && set["status"]["replicas"] == size && ready == u64::from(size)
        })
    }

    /// Waits for an event about an object; returns its message.
    fn until_event(&self, namespace: &str, reason: &str, about: &str, says: &str) -> String {
        eventually(&format!("event {reason} about {about}"), Duration::from_secs(60), || {
            let list: Value = serde_json::from_str(&self.0.kubectl(&["get", "events", "-n", namespace, "-o", "json"]).ok()).unwrap();
            let events = list["items"].as_array().unwrap();
            let own = events.iter().filter(|event| event["reason"] == reason);
            let mut own = own.filter(|event| event["involvedObject"]["name"].as_str().is_some_and(|name| name.starts_with(about)));
            own.find_map(|event| event["message"].as_str().filter(|message| message.contains(says)).map(str::to_owned))
                .ok_or_else(|| format!("{events:#?}"))
        })
    }

    fn explained(&self, set: &str) -> Value {
        serde_json::from_str(&self.0.mainstay(&["explain", "machineset", set, "-o", "json"]).ok()).unwrap()
    }
}

fn set(name: &str, replicas: u32, cpu: &str) -> Value {
    let labels = json!({SET: name, "machine.openshift.io/cluster-api-machine-role": "worker"});
    let provider = json!({
        "apiVersion": "sim.mainstay.dev/v1alpha1", "kind": "SimProviderConfig", "instanceType": "small", "region": "here", "zone": "a",
        "cpu": cpu, "memory": "8Gi", "bootDelay": "100ms", "joinDelay": "100ms", "deleteDelay": "100ms",
    });
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {SET: name}},
            "template": {"metadata": {"labels": labels}, "spec": {"metadata": {"labels": {"fleet": name}}, "providerSpec": {"value": provider}}},
        },
    })
}

fn machine_autoscaler(name: &str, target: &Value, min: u32, max: u32) -> Value {
    json!({
        "apiVersion": "autoscaling.openshift.io/v1beta1", "kind": "MachineAutoscaler", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minReplicas": min, "maxReplicas": max, "scaleTargetRef": target},
    })
}

fn target(set: &str) -> Value {
    json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": set})
}

fn cluster_autoscaler(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "autoscaling.openshift.io/v1", "kind": "ClusterAutoscaler", "metadata": {"name": name}, "spec": spec})
}

fn deployment(replicas: u32, fleet: &str) -> Value {
    let labels = json!({"app": "web"});
    let container = json!({"name": "web", "image": "registry.example/web", "resources": {"requests": {"cpu": "3"}}});
    let template = json!({"metadata": {"labels": labels}, "spec": {"nodeSelector": {"fleet": fleet}, "containers": [container]}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}})
}

/// MACH-SET-06, COP-04, COP-CAS-01, COP-CAS-02: the kinds with their columns and rules; bounds and owner go to the set, and are taken away with the
/// MachineAutoscaler, or when it names another set; a target that is missing, of another kind or of another owner is told.
#[test]
fn bounds_of_sets() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start();
    walk.0.apply(&set("one", 0, "4").to_string());
    walk.0.apply(&set("two", 0, "4").to_string());

    let refused = walk.refused(&machine_autoscaler("one", &target("one"), 3, 2));
    assert!(refused.contains("max replicas must be greater than or equal to min"), "{refused}");
    for (spec, says) in [
        (json!({"scaleDown": {"enabled": true, "unneededTime": "-10m"}}), "ScaleDown.UnneededTime: cannot use a negative time"),
        (json!({"scaleDown": {"enabled": true, "delayAfterAdd": "5 days"}}), "ScaleDown.DelayAfterAdd: time: invalid duration \"5 days\""),
        (
            json!({"scaleDown": {"enabled": true, "utilizationThreshold": "0.0"}}),
            "ScaleDown.UtilizationThreshold must be a value between 0 and 1.",
        ),
        (json!({"resourceLimits": {"cores": {"min": 9, "max": 8}}}), "ResourceLimits.Cores: Max must be greater than or equal to Min"),
        (
            json!({"resourceLimits": {"gpus": [{"type": "t4", "min": 9, "max": 8}]}}),
            "ResourceLimits.GPUS.t4: Max must be greater than or equal to Min",
        ),
        (json!({"expanders": ["Cheapest"]}), "Unsupported value"),
    ] {
        let refused = walk.refused(&cluster_autoscaler("default", &spec));
        assert!(refused.contains(says), "{spec}: {refused}");
    }
    let refused = walk.refused(&cluster_autoscaler("other", &json!({})));
    assert!(refused.contains("Name \"other\" is invalid, only \"default\" is allowed"), "{refused}");

    walk.0.apply(&machine_autoscaler("first", &target("one"), 0, 4).to_string());
    let place = ["machineset", "one", "-n", NAMESPACE];
    let claimed = walk.0.until("the bounds are there", &place, |set| set["metadata"]["annotations"][MAX] == "4");
    let annotations = &claimed["metadata"]["annotations"];
    assert_eq!(
        (&annotations[MIN], &annotations["autoscaling.openshift.io/machineautoscaler"]),
        (&json!("0"), &json!(format!("{NAMESPACE}/first")))
    );
    let table = walk.kubectl(&["get", "ma"]).ok();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "REF", "KIND", "REF", "NAME", "MIN", "MAX", "AGE"]);
    assert_eq!(lines[1][..5], ["first", "MachineSet", "one", "0", "4"]);
    assert_eq!(walk.explained("one")["situation"], "no-clusterautoscaler");

    walk.0.apply(&machine_autoscaler("second", &target("one"), 1, 9).to_string());
    walk.until_event(NAMESPACE, "FailedSetOwner", "second", "already owned by another MachineAutoscaler");
    walk.0.apply(&machine_autoscaler("second", &target("missing"), 1, 9).to_string());
    walk.until_event(NAMESPACE, "FailedGetTarget", "second", "\"missing\" not found");
    let other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "one"});
    walk.0.apply(&machine_autoscaler("second", &other, 1, 9).to_string());
    walk.until_event(NAMESPACE, "FailedGetTarget", "second", "unsupported MachineAutoscaler target");
    assert_eq!(walk.0.get(&place).unwrap()["metadata"]["annotations"][MAX], "4");

    walk.0.apply(&machine_autoscaler("first", &target("two"), 1, 5).to_string());
    walk.0
        .until("the new target has the bounds", &["machineset", "two", "-n", NAMESPACE], |set| set["metadata"]["annotations"][MAX] == "5");
    walk.0.until("the former is released", &place, |set| set["metadata"]["annotations"].get(MAX).is_none());
    walk.until_event(NAMESPACE, "SuccessfulUpdate", "first", &format!("Updated MachineAutoscaler target: {NAMESPACE}/two"));
    walk.kubectl(&["delete", "machineautoscaler", "first"]).ok();
    let released = walk.0.get(&["machineset", "two", "-n", NAMESPACE]).unwrap();
    assert!([MIN, MAX].iter().all(|key| released["metadata"]["annotations"].get(*key).is_none()), "{released:#}");
}

/// COP-CAS-03, COP-CAS-04, COP-CAS-05: pods without a node make a set grow, as far as its greatest size; a hook holds a removal up; idle nodes go.
/// Each decision is told alike by events, ConfigMap, metrics and explanation.
#[test]
fn grows_and_shrinks() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start();
    walk.0.apply(&set("workers", 1, "4").to_string());
    walk.until_size("workers", 1);
    walk.0.apply(&machine_autoscaler("workers", &target("workers"), 1, 3).to_string());
    let down = json!({"enabled": true, "delayAfterAdd": "1s", "delayAfterDelete": "1s", "unneededTime": "5s"});
    walk.0.apply(&cluster_autoscaler("default", &json!({"scaleDown": down})).to_string());
    walk.0.apply(&deployment(5, "workers").to_string());

    walk.until_size("workers", 3);
    let said = walk.until_event("default", "TriggeredScaleUp", "web-", "pod triggered scale-up");
    assert!(said.contains(&format!("[{{MachineSet/{NAMESPACE}/workers 1->3 (max: 3)}}]")), "{said}");
    walk.until_event(NAMESPACE, "ScaledUpGroup", "workers", "size set to 3 instead of 1 (max: 3)");
    walk.0.until("three run", &["deployment", "web"], |web| web["status"]["availableReplicas"] == 3);
    walk.until_event("default", "NotTriggerScaleUp", "web-", "pod didn't trigger scale-up: 1 max node group size reached");
    let explained = walk.explained("workers");
    assert_eq!(
        (&explained["situation"], &explained["why"][0]),
        (&json!("max-size-reached"), &json!("2 pods without a node: max node group size reached"))
    );
    let config_map = walk.0.get(&["configmap", "cluster-autoscaler-status", "-n", NAMESPACE]).unwrap();
    let status = config_map["data"]["status"].as_str().unwrap();
    assert!(
        status.contains("reason: MaxNodeGroupSizeReached") && status.contains("2 pods without a node: max node group size reached"),
        "{status}"
    );
    let raise = explained["next"]["commands"][0].as_str().unwrap();
    assert!(raise.contains("\"maxReplicas\":4"), "{raise}");
    walk.kubectl(&["patch", "machineautoscaler", "workers", "--type", "merge", "-p", "{\"spec\":{\"maxReplicas\":4}}"]).ok();
    walk.until_size("workers", 4);
    let metrics = walk.0.kubectl(&["get", "--raw", "/mainstay/metrics"]).ok();
    for sample in [
        "cluster_autoscaler_scaled_up_nodes_total 3",
        "cluster_autoscaler_unschedulable_pods_count{type=\"unschedulable\"}",
        "cluster_autoscaler_nodes_count{state=\"ready\"}",
    ] {
        assert!(metrics.lines().any(|line| line.starts_with(sample)), "{sample}: {metrics}");
    }

    let hook = json!({"spec": {"lifecycleHooks": {"preTerminate": [{"name": "hold", "owner": "storage-operator"}]}}}).to_string();
    let list: Value = serde_json::from_str(&walk.kubectl(&["get", MACHINES, "-o", "json"]).ok()).unwrap();
    let names: Vec<String> =
        list["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    for name in &names {
        walk.kubectl(&["patch", MACHINES, name, "--type", "merge", "-p", &hook]).ok();
    }
    walk.0.kubectl(&["scale", "deployment", "web", "--replicas", "1"]).ok();
    let held = eventually("a machine is held up", Duration::from_secs(90), || {
        let list: Value = serde_json::from_str(&walk.kubectl(&["get", MACHINES, "-o", "json"]).ok()).unwrap();
        let held = list["items"].as_array().unwrap().iter().filter(|machine| machine["metadata"]["deletionTimestamp"].is_string());
        let held: Vec<Value> = held.cloned().collect();
        if held.is_empty() { Err("none goes".to_owned()) } else { Ok(held) }
    });
    assert_eq!(held[0]["metadata"]["annotations"]["machine.openshift.io/delete-machine"], "cluster-autoscaler");
    let node = held[0]["status"]["nodeRef"]["name"].as_str().unwrap();
    assert!(walk.0.get(&["node", node]).is_some(), "the hook keeps it");
    walk.until_event(NAMESPACE, "ScaleDownEmpty", "workers", "Scale-down: removing empty node");
    for name in &names {
        walk.kubectl(&["patch", MACHINES, name, "--type", "merge", "-p", "{\"spec\":{\"lifecycleHooks\":null}}"]).ok();
    }
    walk.until_size("workers", 1);
    walk.0.until("one still runs", &["deployment", "web"], |web| web["status"]["availableReplicas"] == 1);
    let quiet = eventually("nothing more is needed", Duration::from_secs(30), || {
        let explained = walk.explained("workers");
        if explained["situation"] == "not-needed" { Ok(explained) } else { Err(format!("{explained:#}")) }
    });
    assert!(
        quiet["evidence"].as_array().unwrap().iter().any(|one| one["says"].as_str().unwrap().starts_with("NotUnderutilized")),
        "{quiet:#}"
    );
    walk.0.kubectl(&["delete", "clusterautoscaler", "default"]).ok();
    assert_eq!(walk.explained("workers")["situation"], "no-clusterautoscaler");
}

/// COP-CAS-03, COP-CAS-04: a set without machines grows from its provider's defaults, by the expander's choice; a pod that must not be moved keeps its
/// node, and a drain moves the others.
#[test]
fn chosen_from_zero_and_drained() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start();
    for (name, cpu) in [("large", "16"), ("small", "4")] {
        walk.0.apply(&set(name, 0, cpu).to_string());
        walk.0.apply(&machine_autoscaler(name, &target(name), 0, 3).to_string());
    }
    let down = json!({"enabled": true, "delayAfterAdd": "1s", "unneededTime": "1s", "utilizationThreshold": "0.8"});
    walk.0.apply(&cluster_autoscaler("default", &json!({"expanders": ["LeastWaste"], "scaleDown": down})).to_string());
    let mut web = deployment(2, "small");
    web["spec"]["template"]["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": "a"});
    walk.0.apply(&web.to_string());
    walk.until_size("small", 2);
    assert_eq!(walk.0.get(&["machineset", "large", "-n", NAMESPACE]).unwrap()["spec"]["replicas"], 0);
    walk.0.until("both run", &["deployment", "web"], |web| web["status"]["availableReplicas"] == 2);

    // Both pods would fit on one node now, but neither may be moved.
    let pods: Value = serde_json::from_str(&walk.0.kubectl(&["get", "pods", "-l", "app=web", "-o", "json"]).ok()).unwrap();
    for pod in pods["items"].as_array().unwrap() {
        let name = pod["metadata"]["name"].as_str().unwrap();
        walk.0.kubectl(&["annotate", "pod", name, "cluster-autoscaler.kubernetes.io/safe-to-evict=false"]).ok();
    }
    walk.0.apply(&set("spare", 1, "16").to_string());
    walk.until_size("spare", 1);
    eventually("the pods keep their nodes", Duration::from_secs(60), || {
        let explained = walk.explained("small");
        let evidence = explained["evidence"].as_array().cloned().unwrap_or_default();
        let kept = evidence.iter().filter(|one| one["says"].as_str().is_some_and(|says| says.starts_with("BlockedByPod")));
        if kept.count() == 2 { Ok(()) } else { Err(format!("{explained:#}")) }
    });
    for pod in pods["items"].as_array().unwrap() {
        let name = pod["metadata"]["name"].as_str().unwrap();
        walk.0.kubectl(&["annotate", "pod", name, "cluster-autoscaler.kubernetes.io/safe-to-evict-"]).ok();
    }
    walk.until_size("small", 0);
    walk.until_event(NAMESPACE, "ScaleDown", "small", "pods to reschedule: default/web-");
    walk.0.until("both run elsewhere", &["deployment", "web"], |web| web["status"]["availableReplicas"] == 2);
}
