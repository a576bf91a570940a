//! Machines that fail and machines that are deleted, on the embedded cluster.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use mainstay_e2e::{Cluster, eventually, need_embedded, need_kubectl};
use serde_json::{Value, json};

const NAMESPACE: &str = "openshift-machine-api";
const MACHINES: &str = "machines.machine.openshift.io";
const SET: &str = "machine.openshift.io/cluster-api-machineset";
const CLUSTER: &str = "machine.openshift.io/cluster-api-cluster";

struct Walk(Cluster);

impl Walk {
    fn start() -> Self {
        Self(Cluster::up(&["--components", "controllers,scheduler,nodes,machine-api", "--nodes", "1"]))
    }

    fn machine(&self, name: &str, provider: &Value) {
        let machine = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"providerSpec": {"value": provider}},
        });
        self.0.apply(&machine.to_string());
    }

    fn until(&self, what: &str, machine: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.0.until(what, &[MACHINES, machine, "-n", NAMESPACE], wanted)
    }

    fn until_phase(&self, machine: &str, phase: &str) -> Value {
        self.until(&format!("{machine} is in phase {phase}"), machine, |machine| machine["status"]["phase"] == phase)
    }

    fn delete(&self, machine: &str) {
        self.0.kubectl(&["delete", MACHINES, machine, "-n", NAMESPACE, "--wait=false"]).ok();
    }

    fn until_gone(&self, machine: &str) {
        self.0.until_gone(&[MACHINES, machine, "-n", NAMESPACE]);
    }

    /// Reasons and messages of the events about a machine.
    fn events(&self, machine: &str) -> Vec<(String, String, String)> {
        let selector = format!("involvedObject.name={machine}");
        let list = self.0.kubectl(&["get", "events", "-n", NAMESPACE, "--field-selector", &selector, "-o", "json"]).ok();
        let list: Value = serde_json::from_str(&list).unwrap();
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        list["items"].as_array().unwrap().iter().map(|event| (text(event, "type"), text(event, "reason"), text(event, "message"))).collect()
    }

    fn until_event(&self, machine: &str, reason: &str, message: &str) {
        eventually(&format!("event {reason} of {machine}"), Duration::from_secs(60), || {
            let events = self.events(machine);
            let found = events.iter().any(|(_, its, said)| its == reason && said.contains(message));
            if found { Ok(()) } else { Err(format!("{events:#?}")) }
        });
    }

    fn metrics(&self) -> String {
        self.0.kubectl(&["get", "--raw", "/mainstay/metrics"]).ok()
    }
}

fn provider(more: &Value) -> Value {
    let mut provider = json!({
        "apiVersion": "sim.mainstay.dev/v1alpha1", "kind": "SimProviderConfig", "instanceType": "small",
        "bootDelay": "50ms", "joinDelay": "50ms", "deleteDelay": "50ms",
    });
    provider.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    provider
}

fn condition<'v>(object: &'v Value, kind: &str) -> &'v Value {
    object["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind).unwrap_or(&Value::Null)
}

/// MACH-API-05, MACH-API-07, MACH-API-08, MACH-DEL-05, MACH-DEL-06, MACH-DEL-08, MACH-PROV-03, MACH-RUN-04, MACH-CSR-01: the phases of a life; what makes
/// a machine fail for good, with its reason and message; a machine that was never made goes all the same, and an error of the provider is tried again.
#[test]
fn failures() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start();

    let bare = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": "bare", "namespace": NAMESPACE}, "spec": {},
    });
    walk.0.apply(&bare.to_string());
    walk.until_event("bare", "FailedValidate", "bare: machine validation failed: spec.spec.providerspec: Invalid value");
    let refused = walk.0.get(&[MACHINES, "bare", "-n", NAMESPACE]).unwrap();
    assert_eq!((&refused["status"]["phase"], &refused["metadata"]["finalizers"]), (&Value::Null, &Value::Null), "no progress");
    assert!(refused["metadata"]["labels"][CLUSTER].is_string(), "{refused:#}");
    assert!(walk.events("bare").iter().any(|(kind, reason, _)| kind == "Warning" && reason == "FailedValidate"));

    walk.machine("foreign", &json!({"apiVersion": "clouds.example/v1", "kind": "CloudProviderSpec"}));
    let foreign = walk.until_phase("foreign", "Failed");
    assert_eq!(foreign["status"]["errorReason"], "InvalidConfiguration");
    let message = foreign["status"]["errorMessage"].as_str().unwrap();
    assert!(
        message.starts_with("no provider serves CloudProviderSpec of clouds.example; this program serves")
            && message.contains("SimProviderConfig")
    );
    assert_eq!(foreign["metadata"]["finalizers"], Value::Null, "nothing will be made, so that nothing is to be removed");
    let own = walk.0.mainstay(&["explain", "machine", "foreign", "-o", "json"]).ok();
    assert_eq!(serde_json::from_str::<Value>(&own).unwrap()["situation"], "failed");
    walk.delete("foreign");
    walk.until_gone("foreign");

    walk.machine("unmade", &provider(&json!({"failures": [{"operation": "create", "times": 1, "reason": "InvalidConfiguration"}]})));
    let unmade = walk.until_phase("unmade", "Failed");
    assert_eq!(condition(&unmade, "MachineCreation")["reason"], "MachineCreationFailed");
    assert_eq!(condition(&unmade, "InstanceExists")["reason"], "InstanceNotCreated");
    walk.delete("unmade");
    walk.until_gone("unmade");

    walk.machine(
        "slow",
        &provider(&json!({"failures": [{"operation": "create", "times": 9, "reason": "OutOfCapacity"}], "neverJoin": true})),
    );
    let slow = walk
        .until("its creation is tried again", "slow", |machine| condition(machine, "MachineCreation")["reason"] == "MachineCreationFailed");
    assert_eq!(slow["status"]["phase"], "Provisioning");
    assert!(condition(&slow, "MachineCreation")["message"].as_str().unwrap().contains("OutOfCapacity"));
    walk.until_phase("slow", "Provisioned");
    walk.delete("slow");
    walk.until_gone("slow");

    walk.machine("sticky", &provider(&json!({"failures": [{"operation": "delete", "times": 2, "reason": "Busy"}]})));
    let sticky = walk.until_phase("sticky", "Running");
    let node = sticky["status"]["nodeRef"]["name"].as_str().unwrap().to_owned();
    let requests: Value = serde_json::from_str(&walk.0.kubectl(&["get", "csr", "-o", "json"]).ok()).unwrap();
    let own = requests["items"].as_array().unwrap().iter().filter(|request| {
        request["spec"]["signerName"] == "kubernetes.io/kubelet-serving" && request["spec"]["username"] == format!("system:node:{node}")
    });
    let approved: Vec<&Value> = own.filter(|request| condition(request, "Approved")["status"] == "True").collect();
    assert!(!approved.is_empty() && approved.iter().all(|request| condition(request, "Denied").is_null()), "{requests:#}");
    let page = walk.metrics();
    for sample in [
        "mapi_machine_items 2",
        "mapi_machineset_items 0",
        "mapi_mao_collector_up{kind=\"Machine\"} 1",
        "mapi_machine_phase_transition_seconds_count{phase=\"Running\"}",
        &format!("mapi_instance_create_failed{{name=\"unmade\",namespace=\"{NAMESPACE}\",reason=\"InvalidConfiguration\"}} 1"),
        &format!("mapi_instance_create_failed{{name=\"slow\",namespace=\"{NAMESPACE}\",reason=\"Retryable\"}} 9"),
    ] {
        assert!(page.lines().any(|line| line.starts_with(sample)), "{sample}:\n{page}");
    }
    let created = page.lines().find(|line| line.starts_with("mapi_machine_created_timestamp_seconds{") && line.contains("name=\"sticky\""));
    let created = created.unwrap_or_else(|| panic!("{page}"));
    for label in [
        format!("node=\"{node}\""),
        "phase=\"Running\"".to_owned(),
        format!("namespace=\"{NAMESPACE}\""),
        "spec_provider_id=\"sim:///".to_owned(),
    ] {
        assert!(created.contains(&label), "{label}: {created}");
    }
    walk.delete("sticky");
    walk.until_gone("sticky");
    assert!(walk.0.get(&["node", &node]).is_none());
    let failed = format!("mapi_instance_delete_failed{{name=\"sticky\",namespace=\"{NAMESPACE}\",reason=\"Retryable\"}} 2");
    assert!(walk.metrics().lines().any(|line| line.starts_with(&failed)), "{}", walk.metrics());
    walk.delete("bare");
    walk.until_gone("bare");
}

/// MACH-DEL-01, MACH-DEL-05: the annotation alone deletes nothing, and decides which machine goes at the next scale-down; a drain tells its steps; one
/// that is left out says so; a node that is gone already holds up nothing.
#[test]
fn deletions() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start();
    let set = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": {"name": "workers", "namespace": NAMESPACE},
        "spec": {
            "replicas": 3, "deletePolicy": "Oldest", "selector": {"matchLabels": {SET: "workers"}},
            "template": {"metadata": {"labels": {SET: "workers"}}, "spec": {"providerSpec": {"value": provider(&json!({}))}}},
        },
    });
    walk.0.apply(&set.to_string());
    let place = ["machineset", "workers", "-n", NAMESPACE];
    walk.0.until("all are ready", &place, |set| set["status"]["readyReplicas"] == 3);
    let names = || -> Vec<String> {
        let list: Value = serde_json::from_str(&walk.0.kubectl(&["get", MACHINES, "-n", NAMESPACE, "-o", "json"]).ok()).unwrap();
        list["items"].as_array().unwrap().iter().map(|machine| machine["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = names();
    let chosen = all.last().unwrap().clone();
    let annotate = |machine: &str, pair: &str| drop(walk.0.kubectl(&["annotate", MACHINES, machine, "-n", NAMESPACE, pair]).ok());
    annotate(&chosen, "machine.openshift.io/delete-machine=yes");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(names(), all, "the annotation alone deletes nothing");
    walk.0.kubectl(&["scale", "machineset", "workers", "-n", NAMESPACE, "--replicas", "2"]).ok();
    walk.until_gone(&chosen);
    assert_eq!(names(), all[..2], "the others stay");
    for (reason, message) in [("DrainProceeds", "Node drain proceeds"), ("DrainSucceeded", "Node drain succeeded"), ("Deleted", "drained")]
    {
        walk.until_event(&chosen, reason, message);
    }
    assert!(walk.events(&chosen).iter().filter(|(_, reason, _)| reason.starts_with("Drain")).all(|(kind, ..)| kind == "Normal"));

    let skipped = all[0].clone();
    annotate(&skipped, "machine.openshift.io/exclude-node-draining=");
    walk.delete(&skipped);
    walk.until_gone(&skipped);
    walk.until_event(&skipped, "DrainSkipped", "Node drain skipped");
    walk.0.until("it is replaced", &place, |set| set["status"]["readyReplicas"] == 2);

    let nodeless = all[1].clone();
    let node = walk.0.get(&[MACHINES, &nodeless, "-n", NAMESPACE]).unwrap()["status"]["nodeRef"]["name"].as_str().unwrap().to_owned();
    let hold = json!({"spec": {"lifecycleHooks": {"preDrain": [{"name": "hold", "owner": "nobody"}]}}}).to_string();
    walk.0.kubectl(&["patch", MACHINES, &nodeless, "-n", NAMESPACE, "--type", "merge", "-p", &hold]).ok();
    walk.delete(&nodeless);
    walk.until_event(&nodeless, "DrainBlocked", "Drain blocked by pre-drain hook");
    walk.0.kubectl(&["delete", "node", &node]).ok();
    walk.0.kubectl(&["patch", MACHINES, &nodeless, "-n", NAMESPACE, "--type", "merge", "-p", "{\"spec\":{\"lifecycleHooks\":null}}"]).ok();
    walk.until_gone(&nodeless);
}

/// MACH-TRB-09, MACH-MHC-04: a health check that does nothing says why: the numbers of those that are unhealthy, or that nothing would replace the machine.
#[test]
fn health_checks_that_do_nothing() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start();
    walk.machine("alone", &provider(&json!({})));
    let alone = walk.until_phase("alone", "Running");
    walk.0.kubectl(&["label", MACHINES, "alone", "-n", NAMESPACE, "checked=yes"]).ok();
    let check = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", "metadata": {"name": "checked", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"checked": "yes"}}, "maxUnhealthy": 0,
                 "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "1s"}]},
    });
    walk.0.apply(&check.to_string());
    let node = alone["status"]["nodeRef"]["name"].as_str().unwrap();
    walk.0.kubectl(&["annotate", "node", node, "mainstay.dev/fault=not-ready"]).ok();
    let stopped = walk.0.until("too many are unhealthy", &["machinehealthcheck", "checked", "-n", NAMESPACE], |check| {
        condition(check, "RemediationAllowed")["reason"] == "TooManyUnhealthy"
    });
    let message = condition(&stopped, "RemediationAllowed")["message"].as_str().unwrap();
    assert!(message.contains("total: 1") && message.contains("unhealthy: 1") && message.contains("maxUnhealthy: 0"), "{message}");
    let allowed = json!({"spec": {"maxUnhealthy": 1}}).to_string();
    walk.0.kubectl(&["patch", "machinehealthcheck", "checked", "-n", NAMESPACE, "--type", "merge", "-p", &allowed]).ok();
    walk.until_event("checked", "SkippedNoController", "has no controller owner, skipping remediation");
    assert!(walk.0.get(&[MACHINES, "alone", "-n", NAMESPACE]).unwrap()["metadata"]["deletionTimestamp"].is_null());
}
