//! Machines on the embedded cluster, as an administrator works with them: kubectl alone.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use mainstay_e2e::{Cluster, eventually, need_embedded, need_kubectl};
use serde_json::{Value, json};

const NAMESPACE: &str = "openshift-machine-api";
/// The script of a simulated node.
const FAULT: &str = "mainstay.dev/fault";
const SET: &str = "machine.openshift.io/cluster-api-machineset";

struct Walk {
    cluster: Cluster,
}

impl Walk {
    fn start(replicas: u32) -> Self {
        let components = "controllers,scheduler,nodes,machine-api";
        let walk = Self { cluster: Cluster::up(&["--components", components, "--nodes", "1"]) };
        walk.cluster.apply(&set(replicas).to_string());
        walk.until_ready(replicas);
        walk
    }

    fn kubectl(&self, words: &[&str]) -> mainstay_e2e::Output {
        self.cluster.kubectl(&[words, &["-n", NAMESPACE]].concat())
    }

    fn until_ready(&self, replicas: u32) {
        self.cluster.until("the machines are ready", &["machineset", "workers", "-n", NAMESPACE], |set| {
            let status = &set["status"];
            status["replicas"] == replicas && (replicas == 0 || status["readyReplicas"] == replicas)
        });
    }

    /// The machines that are not being deleted.
    fn machines(&self) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", "machines.machine.openshift.io", "-o", "json"]).ok()).unwrap();
        let all = list["items"].as_array().unwrap().iter().filter(|machine| machine["metadata"]["deletionTimestamp"].is_null());
        all.cloned().collect()
    }

    fn until(&self, what: &str, machine: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.cluster.until(what, &["machines.machine.openshift.io", machine, "-n", NAMESPACE], wanted)
    }

    fn until_gone(&self, kind: &str, name: &str) {
        eventually(&format!("{kind} {name} is gone"), Duration::from_secs(60), || match self.cluster.get(&[kind, name, "-n", NAMESPACE]) {
            None => Ok(()),
            Some(object) => Err(format!("{object:#}")),
        });
    }

    fn patch(&self, kind: &str, name: &str, patch: &Value) -> mainstay_e2e::Output {
        self.kubectl(&["patch", kind, name, "--type", "merge", "-p", &patch.to_string()])
    }

    fn delete(&self, machine: &str) {
        self.kubectl(&["delete", "machines.machine.openshift.io", machine, "--wait=false"]).ok();
    }
}

fn set(replicas: u32) -> Value {
    let labels = json!({SET: "workers", "machine.openshift.io/cluster-api-machine-role": "worker"});
    let provider = json!({
        "apiVersion": "sim.mainstay.dev/v1alpha1", "kind": "SimProviderConfig", "instanceType": "small", "region": "here", "zone": "a",
        "cpu": "4", "memory": "8Gi", "bootDelay": "100ms", "joinDelay": "100ms", "deleteDelay": "100ms",
    });
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": {"name": "workers", "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {SET: "workers"}},
            "template": {"metadata": {"labels": labels}, "spec": {"metadata": {"labels": {"fleet": "workers"}}, "providerSpec": {"value": provider}}},
        },
    })
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn node_of(machine: &Value) -> String {
    machine["status"]["nodeRef"]["name"].as_str().expect("it has a node").to_owned()
}

fn condition<'v>(object: &'v Value, kind: &str) -> &'v Value {
    object["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind).unwrap_or(&Value::Null)
}

/// MACH-RUN-01, MACH-RUN-02, MACH-RUN-03, MACH-SET-01, MACH-SET-05, MACH-PROV-04, MACH-PROV-06, MACH-HOOK-02, MACH-DEL-02: a set of machines grows and
/// shrinks; machines become nodes with their labels; a hook holds a deletion up, no hook is added to a machine that is being deleted.
#[test]
fn scaled_and_held_by_a_hook() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start(2);
    let table = walk.kubectl(&["get", "machines.machine.openshift.io"]).ok();
    let mut lines = table.lines();
    assert_eq!(lines.next().unwrap().split_whitespace().collect::<Vec<_>>(), ["NAME", "PHASE", "TYPE", "REGION", "ZONE", "AGE"]);
    assert!(lines.all(|line| line.contains("Running   small") && line.contains("here") && line.contains(" a ")), "{table}");
    let node = walk.cluster.get(&["node", &node_of(&walk.machines()[0])]).unwrap();
    assert_eq!((&node["metadata"]["labels"]["fleet"], &node["status"]["capacity"]["cpu"]), (&json!("workers"), &json!("4")));
    walk.kubectl(&["scale", "machineset", "workers", "--replicas", "3"]).ok();
    walk.until_ready(3);

    let held = name(&walk.machines()[0]);
    let hook = |owner: &str| json!({"spec": {"lifecycleHooks": {"preDrain": [{"name": "hold", "owner": owner}]}}});
    walk.patch("machines.machine.openshift.io", &held, &hook("storage-operator")).ok();
    walk.delete(&held);
    let waits = walk.until("the hook holds it up", &held, |machine| {
        machine["status"]["phase"] == "Deleting" && condition(machine, "Drainable")["status"] == "False"
    });
    assert_eq!(condition(&waits, "Drainable")["reason"], "HookPresent");
    let more = json!({"spec": {"lifecycleHooks": {"preTerminate": [{"name": "late", "owner": "storage-operator"}]}}});
    let refused = walk.patch("machines.machine.openshift.io", &held, &more).refused();
    assert!(refused.contains("lifecycleHooks"), "{refused}");
    let node = node_of(&waits);
    walk.patch("machines.machine.openshift.io", &held, &json!({"spec": {"lifecycleHooks": null}})).ok();
    walk.until_gone("machines.machine.openshift.io", &held);
    walk.until_gone("node", &node);
    walk.until_ready(3);
    walk.kubectl(&["scale", "machineset", "workers", "--replicas", "0"]).ok();
    walk.until_ready(0);
    let left: Value = serde_json::from_str(&walk.cluster.kubectl(&["get", "nodes", "-o", "json"]).ok()).unwrap();
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left:#}");
}

/// MACH-DRAIN-03, MACH-DRAIN-05, MACH-MHC-02, MACH-MHC-03, MACH-MHC-04, MACH-DEL-09, MACH-TRB-03, MS-READY-02: a disruption budget holds a drain up
/// until it allows the eviction, which the plan says before, and one table of machine and node meanwhile; an unhealthy machine is replaced, but not
/// while too many are unhealthy.
#[test]
fn drained_and_replaced() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start(2);
    let guarded = walk.machines()[0].clone();
    let labels = json!({"app": "web"});
    let selector = json!({"matchLabels": labels});
    let template = json!({"metadata": {"labels": labels}, "spec": {
        "nodeSelector": {"kubernetes.io/hostname": node_of(&guarded)}, "containers": [{"name": "web", "image": "registry.example/web"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": selector, "template": template}});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": selector}});
    walk.cluster.apply(&deployment.to_string());
    walk.cluster.apply(&budget.to_string());
    walk.cluster.until("it runs", &["deployment", "web"], |web| web["status"]["availableReplicas"] == 1);
    let guarded_name = name(&guarded);
    let read = |words: &[&str]| -> Value { serde_json::from_str(&walk.cluster.mainstay(words).ok()).unwrap() };
    let plan = read(&["machine", "delete", &guarded_name, "--plan", "-o", "json"]);
    let drain = plan["steps"].as_array().unwrap().iter().find(|step| step["step"] == "drain").unwrap();
    let pod = &drain["pods"][0];
    assert!(
        pod["pod"].as_str().unwrap().starts_with("default/web-") && pod["owner"].as_str().unwrap().starts_with("replicaset web-"),
        "{plan:#}"
    );
    assert!(pod["blocked"].as_str().unwrap().starts_with("blocked by PodDisruptionBudget default/web"), "{plan:#}");
    assert!(plan["afterwards"].as_str().unwrap().starts_with("MachineSet workers makes another machine"), "{plan:#}");
    assert_eq!(walk.machines().len(), 2, "a plan changes nothing");
    walk.cluster.mainstay(&["machine", "delete", &guarded_name]).ok();
    let waits = walk.until("the budget holds the drain up", &guarded_name, |machine| condition(machine, "Drained")["status"] == "False");
    assert_eq!(walk.cluster.get(&["node", &node_of(&waits)]).unwrap()["spec"]["unschedulable"], true);
    let of_machine = read(&["explain", "machine", &guarded_name, "-o", "json"]);
    assert_eq!((&of_machine["situation"], &of_machine["blockers"][0]["kind"]), (&json!("drain-blocked"), &json!("pod")), "{of_machine:#}");
    let of_node = read(&["explain", "node", &node_of(&waits), "-o", "json"]);
    assert_eq!(of_node["blockers"], of_machine["blockers"], "one table for both");
    walk.cluster.kubectl(&["delete", "poddisruptionbudget", "web"]).ok();
    walk.until_gone("machines.machine.openshift.io", &guarded_name);
    walk.until_ready(2);

    let check = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", "metadata": {"name": "workers", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {SET: "workers"}}, "maxUnhealthy": 0, "nodeStartupTimeout": "10m",
                 "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "1s"}]},
    });
    walk.cluster.apply(&check.to_string());
    let ill = walk.machines()[0].clone();
    let fault = format!("{FAULT}=not-ready");
    walk.cluster.kubectl(&["annotate", "node", &node_of(&ill), &fault]).ok();
    let stopped = walk.cluster.until("too many are unhealthy", &["machinehealthcheck", "workers", "-n", NAMESPACE], |check| {
        condition(check, "RemediationAllowed")["status"] == "False"
    });
    assert_eq!(condition(&stopped, "RemediationAllowed")["reason"], "TooManyUnhealthy");
    assert!(walk.machines().iter().any(|machine| name(machine) == name(&ill)));
    walk.patch("machinehealthcheck", "workers", &json!({"spec": {"maxUnhealthy": "50%"}})).ok();
    walk.until_gone("machines.machine.openshift.io", &name(&ill));
    walk.until_ready(2);
}

/// The labels of machines of the control plane.
fn master_labels() -> Value {
    json!({
        "machine.openshift.io/cluster-api-cluster": "demo", "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master",
    })
}

const CONTROL_PLANE: &str = "controlplanemachineset";
const TEMPLATE: &str = "machines_v1beta1_machine_openshift_io";

impl Walk {
    /// Three machines of the control plane, and nothing else.
    fn control_plane() -> Self {
        let components = "controllers,scheduler,nodes,machine-api";
        let walk = Self { cluster: Cluster::up(&["--components", components, "--nodes", "0"]) };
        for (index, zone) in ["a", "b", "c"].iter().enumerate() {
            let provider = json!({
                "apiVersion": "sim.mainstay.dev/v1alpha1", "kind": "SimProviderConfig", "instanceType": "small", "region": "here", "zone": zone,
                "bootDelay": "50ms", "joinDelay": "50ms", "deleteDelay": "50ms",
            });
            let machine = json!({
                "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                "metadata": {"name": format!("demo-master-{index}"), "namespace": NAMESPACE, "labels": master_labels()},
                "spec": {"providerSpec": {"value": provider}},
            });
            walk.cluster.apply(&machine.to_string());
        }
        walk
    }

    fn until_control_plane(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.cluster.until(what, &[CONTROL_PLANE, "cluster", "-n", NAMESPACE], wanted)
    }

    /// Waits until etcd has so many voters and no learner.
    fn until_voters(&self, count: usize) {
        eventually("the members of etcd vote", Duration::from_secs(60), || {
            let list: Value =
                serde_json::from_str(&self.cluster.kubectl(&["get", "simetcdmembers", "-n", "openshift-etcd", "-o", "json"]).ok()).unwrap();
            let members = list["items"].as_array().unwrap();
            let votes = members.iter().all(|member| member["spec"]["learner"] == false);
            if members.len() == count && votes { Ok(()) } else { Err(format!("{list:#}")) }
        });
    }

    fn template(&self, size: &str) {
        let template = json!({"spec": {"providerSpec": {"value": {"instanceType": size}}}});
        let patch = json!({"spec": {"state": "Active", "template": {TEMPLATE: template}}});
        self.patch(CONTROL_PLANE, "cluster", &patch).ok();
    }

    /// All machines with their sizes, by name; those that are being deleted, too.
    fn sizes(&self) -> Vec<(String, String)> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", "machines.machine.openshift.io", "-o", "json"]).ok()).unwrap();
        let size = |machine: &Value| machine["spec"]["providerSpec"]["value"]["instanceType"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(|machine| (name(machine), size(machine))).collect()
    }
}

/// MACH-CPMS-01, MACH-CPMS-02, MACH-CPMS-03, MACH-CPMS-04, MACH-CPMS-05, MACH-CPMS-06, MACH-ETCD-01, MACH-ETCD-03, MACH-ETCD-04, MACH-ETCD-05,
/// MACH-TRB-04, MS-READY-02: the generated object describes the machines; a changed
/// template replaces them one by one in the order of their indexes, with four machines at most; a hook holds one up; a node without a machine stops
/// everything; with OnDelete the user decides; after its deletion the machines stay.
#[test]
fn control_plane_is_replaced_one_by_one() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::control_plane();
    let generated = walk.until_control_plane("it describes the machines", |object| {
        object["status"]["updatedReplicas"] == 3
            && object["spec"]["template"][TEMPLATE]["failureDomains"]["sim"].as_array().map(Vec::len) == Some(3)
    });
    assert_eq!(generated["spec"]["state"], "Inactive");
    walk.until_voters(3);
    walk.until("it has the hook of etcd", "demo-master-1", |machine| {
        machine["spec"]["lifecycleHooks"]["preDrain"] == json!([{"name": "EtcdQuorumOperator", "owner": "clusteroperator/etcd"}])
    });
    let hook = json!([{"op": "add", "path": "/spec/lifecycleHooks/preDrain/-", "value": {"name": "hold", "owner": "ledger-operator"}}]);
    walk.kubectl(&["patch", "machines.machine.openshift.io", "demo-master-1", "--type", "json", "-p", &hook.to_string()]).ok();

    walk.template("large");
    let refused = |patch: Value| walk.patch(CONTROL_PLANE, "cluster", &patch).refused();
    assert!(refused(json!({"spec": {"replicas": 5}})).contains("replicas is immutable"));
    assert!(refused(json!({"spec": {"state": "Inactive"}})).contains("state cannot be changed once Active"));
    let hooks = json!({"lifecycleHooks": {"preDrain": [{"name": "hold", "owner": "nobody"}]}});
    assert!(refused(json!({"spec": {"template": {TEMPLATE: {"spec": hooks}}}})).contains("lifecycleHooks"));

    let held = walk.until("the second machine waits for its hook", "demo-master-1", |machine| {
        let message = condition(machine, "Drainable")["message"].as_str().unwrap_or_default();
        machine["status"]["phase"] == "Deleting" && message.ends_with("blocked by: [{Name:hold Owner:ledger-operator}]")
    });
    assert_eq!(condition(&held, "Drainable")["reason"], "HookPresent", "the member was removed, the hook of etcd is gone");
    let sizes = walk.sizes();
    assert!(sizes.len() == 4 && !sizes.iter().any(|(name, _)| name == "demo-master-0"), "{sizes:?}");
    assert!(sizes.contains(&("demo-master-2".to_owned(), "small".to_owned())), "the third waits: {sizes:?}");
    walk.until_control_plane("two of three are updated", |object| {
        object["status"]["updatedReplicas"] == 2 && condition(object, "Progressing")["reason"] == "NeedsUpdateReplicas"
    });
    // The hook of etcd is gone: what is left is the user's.
    walk.patch("machines.machine.openshift.io", "demo-master-1", &json!({"spec": {"lifecycleHooks": null}})).ok();
    walk.until_gone("machines.machine.openshift.io", "demo-master-1");
    let done = walk.until_control_plane("all are replaced", |object| {
        object["status"]["updatedReplicas"] == 3 && condition(object, "Progressing")["reason"] == "AllReplicasUpdated"
    });
    assert_eq!((&condition(&done, "Available")["status"], &condition(&done, "Degraded")["reason"]), (&json!("True"), &json!("AsExpected")));
    let machines = walk.machines();
    let mut places: Vec<(String, String)> = machines
        .iter()
        .map(|machine| (name(machine), machine["spec"]["providerSpec"]["value"]["zone"].as_str().unwrap().to_owned()))
        .map(|(name, zone)| (name.rsplit('-').next().unwrap().to_owned(), zone))
        .collect();
    places.sort();
    let expected = [("0", "a"), ("1", "b"), ("2", "c")].map(|(index, zone)| (index.to_owned(), zone.to_owned()));
    assert_eq!(places, expected, "each index keeps its place");
    assert!(machines.iter().all(|machine| machine["metadata"]["ownerReferences"][0]["kind"] == "ControlPlaneMachineSet"));

    let stray =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "stray", "labels": {"node-role.kubernetes.io/master": ""}}});
    walk.cluster.apply(&stray.to_string());
    walk.until_control_plane("a node without a machine stops it", |object| condition(object, "Degraded")["reason"] == "UnmanagedNodes");
    walk.patch(CONTROL_PLANE, "cluster", &json!({"spec": {"strategy": {"type": "OnDelete"}}})).ok();
    walk.template("huge");
    let first = name(&machines[0]);
    walk.delete(&first);
    let quorum = walk.until("etcd needs a replacement first", &first, |machine| machine["status"]["phase"] == "Deleting");
    assert_eq!(
        (walk.sizes().len(), &condition(&quorum, "Drainable")["status"]),
        (3, &json!("False")),
        "nothing is made while it is degraded"
    );
    let explained = walk.cluster.mainstay(&["explain", "machine", &first, "-o", "json"]).ok();
    let explained: Value = serde_json::from_str(&explained).unwrap();
    assert_eq!((&explained["situation"], &explained["blockers"][0]["owner"]), (&json!("hook-present"), &json!("clusteroperator/etcd")));
    assert!(explained["why"].to_string().contains("a replacement must become a voter first"), "{explained:#}");
    walk.cluster.kubectl(&["delete", "node", "stray"]).ok();
    walk.until_gone("machines.machine.openshift.io", &first);
    walk.until_voters(3);
    walk.until_control_plane("what the user deleted is made again", |object| {
        object["status"]["updatedReplicas"] == 1 && object["status"]["replicas"] == 3
    });
    let sizes = walk.sizes();
    assert_eq!(sizes.iter().filter(|(_, size)| size == "huge").count(), 1, "{sizes:?}");

    walk.kubectl(&["delete", CONTROL_PLANE, "cluster"]).ok();
    walk.until_control_plane("another one describes the machines", |object| object["spec"]["state"] == "Inactive");
    assert_eq!(walk.machines().len(), 3);
    assert!(walk.machines().iter().all(|machine| machine["metadata"]["ownerReferences"].is_null()));
}

/// MACH-PROV-08: the example keeps the rules of a provider; a program that makes an instance with each call, and forgets none, does not.
#[test]
fn providers_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let check = |program: &str, parameters: &str| {
        let arguments = ["provider", "check", program, "--parameters", parameters, "--timeout", "3s", "-o", "json"];
        mainstay_e2e::run(std::process::Command::new(mainstay_e2e::mainstay()).args(arguments), "")
    };
    let parameters = write("parameters.yaml", &format!("folder: {}\n", folder.path().join("instances").display()));
    if std::process::Command::new("python3").arg("--version").output().is_ok_and(|done| done.status.success()) {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/providers/folder.py");
        let tried: Vec<Value> = serde_json::from_str(&check(example, &parameters).ok()).unwrap();
        assert!(tried.len() == 12 && tried.iter().all(|one| one["broken"].is_null()), "{tried:?}");
        assert_eq!(std::fs::read_dir(folder.path().join("instances")).unwrap().count(), 0, "nothing is left");
    }
    let forgetful = write("forgetful", "#!/bin/sh\necho '{\"exists\": true, \"providerID\": \"'$$'\"}'\n");
    let refused = check(&forgetful, &parameters);
    let tried: Vec<Value> = serde_json::from_str(&refused.stdout).unwrap();
    let broken = |rule: &str| tried.iter().any(|one| one["rule"] == rule && one["broken"].is_string());
    assert_eq!(refused.code, Some(4), "{refused}");
    for rule in ["a second create makes no second instance", "after its deletion it does not exist", "another machine has no instance"] {
        assert!(broken(rule), "{rule}: {tried:?}");
    }
}
