//! The configuration of nodes on the embedded cluster, as an administrator works with it: kubectl, and the commands of this program.

use mainstay_e2e::{Cluster, need_embedded, need_kubectl};
use mainstay_release_samples::{platform_files, platform_releases, write_files};
use serde_json::{Value, json};

const NAMESPACE: &str = "openshift-machine-config-operator";
const PREFIX: &str = "machineconfiguration.openshift.io";

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    object["status"]["conditions"].as_array().into_iter().flatten().find(|each| each["type"] == kind).unwrap_or(&Value::Null)
}

/// A MachineConfig of the workers with one file.
fn file(name: &str, role: &str, path: &str, text: &str) -> Value {
    let file = json!({"path": path, "mode": 420, "contents": {"source": format!("data:,{text}")}});
    let config = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [file]}});
    machine_config(name, role, &config)
}

fn machine_config(name: &str, role: &str, config: &Value) -> Value {
    json!({
        "apiVersion": format!("{PREFIX}/v1"), "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {format!("{PREFIX}/role"): role}}, "spec": {"config": config},
    })
}

/// The walk's cluster.
struct Walk {
    cluster: Cluster,
}

impl Walk {
    fn start() -> Self {
        let components = "controllers,scheduler,nodes,machine-config";
        Self { cluster: Cluster::up(&["--components", components, "--nodes", "3", "--reboot-delay", "300ms"]) }
    }

    fn pool(&self, name: &str) -> Value {
        self.cluster.get(&["machineconfigpool", name]).unwrap()
    }

    fn node(&self, name: &str) -> Value {
        self.cluster.get(&["node", name]).unwrap()
    }

    fn boot_id(&self, node: &str) -> String {
        self.node(node)["status"]["nodeInfo"]["bootID"].as_str().unwrap().to_owned()
    }

    /// Waits until a pool asks for another configuration than before, and all its nodes have it.
    fn until_rolled_out(&self, pool: &str, before: &str) -> Value {
        self.cluster.until(&format!("pool {pool} rolls out"), &["machineconfigpool", pool], |pool| {
            let name = &pool["spec"]["configuration"]["name"];
            name != before && pool["status"]["configuration"]["name"] == *name && condition(pool, "Updated")["status"] == "True"
        })
    }

    /// Waits until a pool has so many nodes, and all of them its configuration: a pool without nodes counts as updated.
    fn until_joined(&self, pool: &str, machines: u64) {
        self.cluster.until(&format!("the nodes of pool {pool} join"), &["machineconfigpool", pool], |pool| {
            let count = |field: &str| pool["status"][field] == machines;
            count("machineCount") && count("readyMachineCount") && condition(pool, "Updated")["status"] == "True"
        });
    }

    fn config_of(&self, pool: &str) -> String {
        self.pool(pool)["spec"]["configuration"]["name"].as_str().unwrap_or_default().to_owned()
    }

    /// Applies a MachineConfig of the workers, and waits until they have it.
    fn roll_out(&self, object: &Value) {
        let before = self.config_of("worker");
        self.cluster.apply(&object.to_string());
        self.until_rolled_out("worker", &before);
    }

    /// Waits until an event about a node with this reason says this: events are written after the work.
    fn until_told(&self, node: &str, reason: &str, says: &str) {
        mainstay_e2e::eventually(&format!("{node}: {reason}: {says}"), std::time::Duration::from_secs(30), || {
            let told = self.told(node, reason);
            if told.iter().any(|told| told.contains(says)) { Ok(()) } else { Err(format!("{told:?}")) }
        });
    }

    /// Notes of the events about a node with this reason.
    fn told(&self, node: &str, reason: &str) -> Vec<String> {
        let selector = format!("reason={reason},involvedObject.name={node}");
        let events = self.cluster.get(&["events", "-A", "--field-selector", &selector]).unwrap();
        let items = events["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// MACH-MC-01, MACH-MC-03, MACH-MC-07, MACH-MCP-02, MACH-MCP-03, MACH-MCP-08, MACH-NODE-01, MACH-NODE-02, MACH-NODE-05, MACH-NODE-06,
/// MACH-NODE-07, MACH-DISR-01, MACH-DISR-04, MACH-DISR-05, MACH-DISR-06, MACH-DISR-08, MACH-REAL-02, OLM0-ADMIN-25: nodes join; a
/// change reboots, another one restarts a service, a third one does nothing.
#[test]
fn what_a_change_does_to_nodes() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start();
    let cluster = &walk.cluster;
    for (pool, machines) in [("master", 1), ("worker", 2)] {
        walk.until_joined(pool, machines);
    }
    let table = cluster.kubectl(&["get", "mcp"]).ok();
    let titles = "NAME CONFIG UPDATED UPDATING DEGRADED MACHINECOUNT READYMACHINECOUNT UPDATEDMACHINECOUNT DEGRADEDMACHINECOUNT AGE";
    assert_eq!(table.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" "), titles);
    let configs = cluster.kubectl(&["get", "mc"]).ok();
    for name in ["00-worker", "01-worker-container-runtime", "01-worker-kubelet", "99-worker-ssh", "99-worker-generated-registries"] {
        assert!(configs.contains(name), "{name}: {configs}");
    }
    let joined = walk.node("worker-1");
    let annotations = &joined["metadata"]["annotations"];
    assert_eq!(annotations[format!("{PREFIX}/state")], "Done");
    assert_eq!(annotations[format!("{PREFIX}/currentConfig")], annotations[format!("{PREFIX}/desiredConfig")]);
    assert!(cluster.kubectl(&["get", "nodes"]).ok().contains("control-plane,master"));

    // Before it is applied: what would change, and in which order nodes would go.
    let motd = file("50-motd", "worker", "/etc/motd.d/hello", "hello");
    let path = cluster.folder().join("50-motd.json");
    std::fs::write(&path, motd.to_string()).unwrap();
    let planned = cluster.mainstay(&["machine-config", "plan", "-f", path.to_str().unwrap()]).ok();
    assert!(planned.contains("pool master: nothing changes") && planned.contains("drain and reboot"), "{planned}");
    assert!(planned.contains("worker-1") && planned.contains("worker-2"), "{planned}");

    let boots = [walk.boot_id("worker-1"), walk.boot_id("worker-2")];
    let master = walk.boot_id("control-plane");
    walk.roll_out(&motd);
    for (node, before) in ["worker-1", "worker-2"].into_iter().zip(&boots) {
        assert_ne!(&walk.boot_id(node), before, "{node} did not reboot");
        let config = walk.config_of("worker");
        walk.until_told(node, "Reboot", &format!("Node will reboot into config {config} (simulated)"));
        for (reason, says) in [("Cordon", "Cordoned node to apply update"), ("Drain", "Draining node to update config.")] {
            walk.until_told(node, reason, says);
        }
        let progress = cluster.get(&["machineconfignode", node]).unwrap();
        assert_eq!(
            (&progress["status"]["configVersion"]["current"], &progress["spec"]["pool"]["name"]),
            (&json!(config), &json!("worker"))
        );
        assert_eq!(condition(&progress, "Updated")["status"], "True", "{progress:#}");
        let node = walk.node(node);
        assert!(node["spec"]["unschedulable"].is_null() && node["spec"]["taints"].is_null(), "{:#}", node["spec"]);
    }
    assert_eq!(walk.boot_id("control-plane"), master, "the other pool is left alone");

    // A policy of the user: a restart instead of a reboot.
    let policy = json!({"spec": {"nodeDisruptionPolicy": {"files": [
        {"path": "/etc/chrony.conf", "actions": [{"type": "Restart", "restart": {"serviceName": "chronyd.service"}}]}]}}});
    cluster.kubectl(&["patch", "machineconfiguration", "cluster", "--type=merge", "-p", &policy.to_string()]).ok();
    cluster.until("the policy counts", &["machineconfiguration", "cluster"], |object| {
        let files = &object["status"]["nodeDisruptionPolicyStatus"]["clusterPolicies"]["files"];
        files.as_array().is_some_and(|files| files.iter().any(|file| file["path"] == "/etc/chrony.conf"))
    });
    let alone =
        json!({"spec": {"nodeDisruptionPolicy": {"files": [{"path": "/etc/a", "actions": [{"type": "None"}, {"type": "Drain"}]}]}}});
    let refused = cluster.kubectl(&["patch", "machineconfiguration", "cluster", "--type=merge", "-p", &alone.to_string()]).refused();
    assert!(refused.contains("None action can only be specified standalone"), "{refused}");
    let boots = [walk.boot_id("worker-1"), walk.boot_id("worker-2")];
    walk.roll_out(&file("51-chrony", "worker", "/etc/chrony.conf", "pool%20time.example.com"));
    let restarted = "Config changes do not require reboot. Service chronyd.service was restarted. (simulated)";
    walk.until_told("worker-1", "ServiceRestart", restarted);

    // SSH keys: nothing at all.
    let users = json!({"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA"]}]});
    walk.roll_out(&machine_config("52-key", "worker", &json!({"ignition": {"version": "3.4.0"}, "passwd": users})));
    walk.until_told("worker-2", "SkipReboot", "Config changes do not require reboot.");

    // A mirror by digest: CRI-O reads its registries again, without a drain.
    let before = walk.config_of("worker");
    let mirrors = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "team"},
        "spec": {"imageDigestMirrors": [{"source": "registry.example/team", "mirrors": ["mirror.example/team"]}]},
    });
    cluster.apply(&mirrors.to_string());
    walk.until_rolled_out("worker", &before);
    walk.until_told("worker-1", "ServiceReload", "Service crio was reloaded.");
    assert_eq!([walk.boot_id("worker-1"), walk.boot_id("worker-2")], boots, "none of the three reboots");
    assert_eq!(walk.told("worker-1", "Drain").len(), 1, "and none drains");

    // A mirror by tag: the nodes drain, and go on without a reboot.
    let before = walk.config_of("worker");
    let mirrors = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ImageTagMirrorSet", "metadata": {"name": "team"},
        "spec": {"imageTagMirrors": [{"source": "registry.example/tags", "mirrors": ["mirror.example/tags"]}]},
    });
    cluster.apply(&mirrors.to_string());
    walk.until_rolled_out("worker", &before);
    mainstay_e2e::eventually("the drain is told", std::time::Duration::from_secs(30), || {
        let told = walk.told("worker-1", "Drain");
        if told.len() == 2 { Ok(()) } else { Err(format!("{told:?}")) }
    });
    assert_eq!([walk.boot_id("worker-1"), walk.boot_id("worker-2")], boots, "nor does this one reboot");
    assert!(walk.node("worker-1")["spec"]["unschedulable"].is_null(), "it is uncordoned");

    // The cluster's pull secret: neither.
    let before = walk.config_of("worker");
    cluster.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-config"}}).to_string());
    let credentials = json!({"auths": {"registry.example": {"auth": "YTpi"}}}).to_string();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull-secret", "namespace": "openshift-config"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": credentials}});
    cluster.apply(&secret.to_string());
    walk.until_rolled_out("worker", &before);
    assert_eq!([walk.boot_id("worker-1"), walk.boot_id("worker-2")], boots, "the pull secret reboots nothing");
    assert_eq!(walk.told("worker-1", "Drain").len(), 2, "and drains nothing");

    // A change on a node's disk by hand, and its repair (MACH-NODE-13).
    let disk = cluster.get(&["configmap", "simulated-disk-worker-1", "-n", NAMESPACE]).unwrap();
    let content = disk["data"]["disk.json"].as_str().unwrap();
    let mut edited: Value = serde_json::from_str(content).unwrap();
    edited["files"]["/etc/motd.d/hello"]["digest"] = json!("sha256:00");
    let patch = |text: &str| {
        let patch = json!({"data": {"disk.json": text}}).to_string();
        cluster.kubectl(&["patch", "configmap", "simulated-disk-worker-1", "-n", NAMESPACE, "--type=merge", "-p", &patch]).ok();
    };
    patch(&edited.to_string());
    let state = |wanted: &'static str| move |node: &Value| node["metadata"]["annotations"][format!("{PREFIX}/state")] == wanted;
    cluster.until("the drift is found", &["node", "worker-1"], state("Degraded"));
    let told = cluster.mainstay(&["explain", "node", "worker-1"]).ok();
    assert!(told.contains("content mismatch for file \"/etc/motd.d/hello\"") && told.contains("machine-config-daemon-force"), "{told}");
    patch(content);
    cluster.until("the drift is gone", &["node", "worker-1"], state("Done"));
}

/// MACH-MC-04, MACH-MC-06, MACH-MCP-03, MACH-MCP-10, MACH-MCP-12, MACH-PAUSE-01, MACH-PAUSE-02, MACH-PAUSE-03, MACH-PAUSE-05, MACH-NODE-05,
/// MACH-TRB-03, MACH-TRB-05, MACH-TRB-06, MACH-TRB-07, OLM0-ADMIN-24: what holds pools up, and how it is repaired; pauses; generated configurations; a pool of
/// one's own.
#[test]
fn what_holds_pools_up() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start();
    let cluster = &walk.cluster;
    for (pool, machines) in [("master", 1), ("worker", 2)] {
        walk.until_joined(pool, machines);
    }

    // A budget that allows no eviction.
    let labels = json!({"app": "ledger"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example.com/ledger"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ledger", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "ledger", "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": labels}}});
    cluster.apply(&deployment.to_string());
    cluster.apply(&budget.to_string());
    cluster.until("the pods run", &["deployment", "ledger"], |object| object["status"]["readyReplicas"] == 2);
    let before = walk.config_of("worker");
    cluster.apply(&file("50-blocked", "worker", "/etc/blocked", "1").to_string());
    cluster.until("a node is cordoned", &["nodes"], |nodes| {
        nodes["items"].as_array().into_iter().flatten().any(|node| node["spec"]["unschedulable"] == true)
    });
    let told = mainstay_e2e::eventually("the pool is explained", std::time::Duration::from_secs(60), || {
        let told = cluster.mainstay(&["explain", "machineconfigpool", "worker"]).ok();
        if told.contains("PodDisruptionBudget default/ledger") { Ok(told) } else { Err(told) }
    });
    assert!(told.contains("of replicaset ledger-") && told.contains("is drained"), "{told}");
    let names: Vec<String> = cluster.get(&["nodes"]).unwrap()["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|node| node["spec"]["unschedulable"] == true)
        .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 1, "never more than maxUnavailable: {names:?}");
    let progress = cluster.until("the drain is reported", &["machineconfignode", &names[0]], |node| {
        condition(node, "Drained")["message"].as_str().unwrap_or_default().contains("Cannot evict pod as it would violate")
            || condition(node, "Drained")["message"].as_str().unwrap_or_default().contains("PodDisruptionBudget")
    });
    assert_eq!(condition(&progress, "Drained")["status"], "Unknown");
    cluster.kubectl(&["delete", "pdb", "ledger"]).ok();
    walk.until_rolled_out("worker", &before);

    // An Ignition config that breaks the rules: nodes keep what they have.
    let before = walk.config_of("worker");
    let broken = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "relative", "contents": {"source": "data:,a"}}]}});
    let broken = machine_config("60-broken", "worker", &broken);
    let path = cluster.folder().join("60-broken.json");
    std::fs::write(&path, broken.to_string()).unwrap();
    let planned = cluster.mainstay(&["machine-config", "plan", "-f", path.to_str().unwrap()]).exits(4);
    assert!(planned.contains("would be RenderDegraded"), "{planned}");
    cluster.apply(&broken.to_string());
    let degraded = |status: &'static str| move |pool: &Value| condition(pool, "RenderDegraded")["status"] == status;
    let pool = cluster.until("the pool says why", &["mcp", "worker"], degraded("True"));
    let message = condition(&pool, "RenderDegraded")["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("Failed to render configuration for pool worker: could not generate rendered MachineConfig: "),
        "{message}"
    );
    assert_eq!((condition(&pool, "Updated")["status"].as_str(), walk.config_of("worker")), (Some("True"), before.clone()));
    cluster.kubectl(&["delete", "mc", "60-broken"]).ok();
    cluster.until("it is repaired", &["mcp", "worker"], |pool| {
        condition(pool, "RenderDegraded")["status"] == "False" && condition(pool, "Degraded")["status"] == "False"
    });
    // One that no running node can take names the MachineConfig that is to blame.
    let links = json!({"ignition": {"version": "3.4.0"}, "storage": {"links": [{"path": "/etc/a", "target": "/etc/b"}]}});
    cluster.apply(&machine_config("61-link", "worker", &links).to_string());
    let pool = cluster.until("the pool says why", &["mcp", "worker"], degraded("True"));
    let message = condition(&pool, "RenderDegraded")["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("and base config \"61-link\": ignition links section contains changes"), "{message}");
    cluster.kubectl(&["delete", "mc", "61-link"]).ok();
    cluster.until("it is repaired", &["mcp", "worker"], degraded("False"));

    // A pause: changes gather, and go out in one step.
    let patch = |paused: bool| json!({"spec": {"paused": paused}}).to_string();
    let columns = || {
        let table = cluster.kubectl(&["get", "machineconfigpool/worker", "--no-headers"]).ok();
        table.split_whitespace().skip(2).take(2).collect::<Vec<_>>().join("/")
    };
    assert_eq!(columns(), "True/False", "nothing is pending");
    cluster.kubectl(&["patch", "--type=merge", &format!("--patch={}", patch(true)), "machineconfigpool/worker"]).ok();
    assert_eq!(cluster.kubectl(&["get", "machineconfigpool/worker", "--template={{.spec.paused}}"]).ok(), "true");
    cluster.kubectl(&["patch", "--type=merge", &format!("--patch={}", patch(false)), "machineconfigpool/worker"]).ok();
    assert_eq!(cluster.mainstay(&["pool", "pause", "worker"]).ok(), "machineconfigpool worker paused\n");
    assert_eq!(cluster.mainstay(&["pool", "pause", "worker"]).ok(), "machineconfigpool worker already paused\n");
    assert_eq!(cluster.kubectl(&["get", "machineconfigpool/worker", "--template={{.spec.paused}}"]).ok(), "true");
    let before = walk.config_of("worker");
    for (name, path) in [("70-one", "/etc/one"), ("71-two", "/etc/two")] {
        let known = walk.config_of("worker");
        cluster.apply(&file(name, "worker", path, "x").to_string());
        cluster.until("it is rendered", &["mcp", "worker"], |pool| pool["spec"]["configuration"]["name"] != known.as_str());
    }
    let newest = walk.config_of("worker");
    let held = cluster.until("it is held", &["mcp", "worker"], |pool| {
        (condition(pool, "Updated")["status"] == "False") && condition(pool, "Updating")["status"] == "False"
    });
    assert_eq!(condition(&held, "Updating")["message"], format!("Pool is paused; will not update to MachineConfig {newest}"));
    assert_eq!(columns(), "False/False", "changes are pending");
    let listed = cluster.mainstay(&["pool", "list"]).ok();
    assert!(listed.contains("worker") && listed.contains("PAUSED"), "{listed}");
    let told = cluster.mainstay(&["explain", "mcp/worker"]).ok();
    assert!(told.contains("is paused, and changes wait") && told.contains("mainstay pool resume worker"), "{told}");
    for node in ["worker-1", "worker-2"] {
        assert_eq!(walk.node(node)["metadata"]["annotations"][format!("{PREFIX}/currentConfig")], before);
    }
    let boots = ["worker-1", "worker-2"].map(|node| walk.told(node, "Reboot").len());
    cluster.mainstay(&["pool", "resume", "worker"]).ok();
    cluster.until("the pool goes on", &["mcp", "worker"], |pool| {
        pool["status"]["configuration"]["name"] == newest.as_str() && condition(pool, "Updated")["status"] == "True"
    });
    assert_eq!(["worker-1", "worker-2"].map(|node| walk.told(node, "Reboot").len()), boots.map(|boots| boots + 1), "one reboot for both");

    // KubeletConfig: a MachineConfig with a finalizer, an outcome, and no trace after its deletion.
    let kubelet = |value: Value| {
        json!({"apiVersion": format!("{PREFIX}/v1"), "kind": "KubeletConfig", "metadata": {"name": "pods"}, "spec": {
            "machineConfigPoolSelector": {"matchLabels": {format!("pools.operator.{PREFIX}/worker"): ""}}, "kubeletConfig": value}})
    };
    cluster.apply(&kubelet(json!({"clusterDNS": ["10.0.0.1"]})).to_string());
    let refused = cluster.until("it is refused", &["kubeletconfig", "pods"], |object| object["status"]["conditions"].is_array());
    let said = refused["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(said.starts_with("Error: KubeletConfiguration: clusterDNS is not allowed to be set"), "{said}");
    let before = walk.config_of("worker");
    cluster.apply(&kubelet(json!({"maxPods": 321})).to_string());
    walk.until_rolled_out("worker", &before);
    let accepted = cluster.get(&["kubeletconfig", "pods"]).unwrap();
    assert_eq!(accepted["status"]["conditions"].as_array().unwrap().last().unwrap()["type"], "Success");
    assert_eq!(accepted["metadata"]["finalizers"], json!(["99-worker-generated-kubelet"]));
    let before = walk.config_of("worker");
    cluster.kubectl(&["delete", "kubeletconfig", "pods"]).ok();
    walk.until_rolled_out("worker", &before);
    cluster.until_gone(&["mc", "99-worker-generated-kubelet"]);

    // A pool of one's own takes a node, and gives it back.
    let infra = json!({"apiVersion": format!("{PREFIX}/v1"), "kind": "MachineConfigPool", "metadata": {"name": "infra"}, "spec": {
        "machineConfigSelector": {"matchExpressions": [{"key": format!("{PREFIX}/role"), "operator": "In", "values": ["worker", "infra"]}]},
        "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/infra": ""}}, "maxUnavailable": "50%"}});
    cluster.apply(&infra.to_string());
    cluster.apply(&file("80-infra", "infra", "/etc/infra", "1").to_string());
    cluster.kubectl(&["label", "node", "worker-2", "node-role.kubernetes.io/infra="]).ok();
    let is_in = |pool: &'static str| {
        move |node: &Value| {
            let annotations = &node["metadata"]["annotations"];
            let current = annotations[format!("{PREFIX}/currentConfig")].as_str().unwrap_or_default();
            current.starts_with(&format!("rendered-{pool}-")) && annotations[format!("{PREFIX}/state")] == "Done"
        }
    };
    cluster.until("the node is in its pool", &["node", "worker-2"], is_in("infra"));
    cluster.until("the pools count it", &["mcp", "infra"], |pool| pool["status"]["machineCount"] == 1);
    cluster.kubectl(&["delete", "mcp", "infra"]).ok();
    cluster.until("the node is back", &["node", "worker-2"], is_in("worker"));
    cluster.until("the pools count it", &["mcp", "worker"], |pool| {
        pool["status"]["machineCount"] == 2 && condition(pool, "Updated")["status"] == "True"
    });
}

/// CVO-FLOW-07, MACH-OPER-02, MACH-OPER-04: the update of a cluster ends with the roll-out of the pools: ClusterOperator machine-config tells the new
/// version once the nodes of the control plane have the configuration of the release.
#[test]
fn an_update_rolls_out() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = "registry.example/sample@sha256:0000000000000000000000000000000000000000000000000000000000000000";
    let paths = platform_releases().map(|release| {
        let path = folder.path().join(release.version);
        write_files(&path, &platform_files(&release, image)).unwrap();
        path.display().to_string()
    });
    let components = "controllers,nodes,cluster-version,machine-config";
    let cluster = Cluster::up(&[
        "--components",
        components,
        "--nodes",
        "2",
        "--reboot-delay",
        "300ms",
        "--accelerate",
        "200",
        "--release",
        &paths[0],
        "--release",
        &paths[1],
    ]);
    let version = ["clusterversion", "version"];
    let is_at = |version: &'static str| {
        move |object: &Value| {
            let entry = &object["status"]["history"][0];
            entry["version"] == version && entry["state"] == "Completed"
        }
    };
    cluster.until("the first release is installed", &version, is_at("4.18.9"));
    let operator = cluster.until("the operator is there", &["co", "machine-config"], |object| {
        // The pool of the workers does not hold the version back.
        let worker = object["status"]["extension"]["worker"].as_str().unwrap_or_default();
        object["status"]["versions"][0]["version"] == "4.18.9"
            && condition(object, "Progressing")["status"] == "False"
            && worker.starts_with("all 1 nodes are at latest configuration")
    });
    assert_eq!(operator["metadata"]["annotations"].get("mainstay.dev/simulated"), None, "its work is done here");
    assert!(
        operator["status"]["extension"]["worker"].as_str().unwrap().starts_with("all 1 nodes are at latest configuration"),
        "{operator:#}"
    );
    let boot_id = |cluster: &Cluster| cluster.get(&["node", "control-plane"]).unwrap()["status"]["nodeInfo"]["bootID"].clone();
    let before = boot_id(&cluster);
    let gates = cluster.get(&["configmap", "admin-gates", "-n", "openshift-config-managed"]).unwrap();
    let acknowledged: Value = gates["data"].as_object().unwrap().keys().map(|gate| (gate.clone(), json!("true"))).collect();
    let patch = json!({"data": acknowledged}).to_string();
    cluster.kubectl(&["patch", "configmap", "admin-acks", "-n", "openshift-config", "--type", "merge", "-p", &patch]).ok();
    cluster.until("the update is offered", &version, |object| object["status"]["availableUpdates"][0]["version"] == "4.19.0");
    cluster.mainstay(&["adm", "upgrade", "--to", "4.19.0", "--allow-upgrade-with-warnings"]).ok();
    cluster.until("the second release is installed", &version, is_at("4.19.0"));
    let operator = cluster.get(&["co", "machine-config"]).unwrap();
    assert_eq!(operator["status"]["versions"][0]["version"], "4.19.0");
    let rendered = cluster.get(&["mcp", "master"]).unwrap()["status"]["configuration"]["name"].as_str().unwrap().to_owned();
    let rendered = cluster.get(&["mc", &rendered]).unwrap();
    assert_eq!(rendered["metadata"]["annotations"][format!("{PREFIX}/release-image-version")], "4.19.0");
    assert_ne!(boot_id(&cluster), before, "the node of the control plane has rebooted into the new system");
}
