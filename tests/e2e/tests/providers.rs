//! Providers of machines as an administrator meets them: clouds in a rehearsal, who may be where, and Cluster API with its real controllers.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mainstay_e2e::{Cluster, eventually, mainstay, need_embedded, need_kubectl, skip, terminate};
use serde_json::{Value, json};

const NAMESPACE: &str = "openshift-machine-api";
const MACHINES: &str = "machines.machine.openshift.io";
/// The folder of `scripts/cluster-api`.
const CLUSTER_API: &str = "MAINSTAY_CLUSTER_API";

fn machine(name: &str, provider_spec: &Value) -> Value {
    let labels = json!({"machine.openshift.io/cluster-api-machine-role": "worker"});
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"providerSpec": {"value": provider_spec}},
    })
}

fn until(cluster: &Cluster, what: &str, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    cluster.until(what, &[MACHINES, name, "-n", NAMESPACE], wanted)
}

fn failed(cluster: &Cluster, name: &str) -> String {
    let live = until(cluster, "the machine fails", name, |live| live["status"]["phase"] == "Failed");
    assert_eq!(live["status"]["errorReason"], "InvalidConfiguration");
    live["status"]["errorMessage"].as_str().unwrap().to_owned()
}

fn aws() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig", "instanceType": "m6i.xlarge",
        "placement": {"region": "eu-west-1", "availabilityZone": "eu-west-1b"}, "ami": {"id": "ami-1"}, "subnet": {"id": "subnet-1"},
        "userDataSecret": {"name": "worker-user-data"}, "credentialsSecret": {"name": "aws-cloud-credentials"},
    })
}

/// MACH-PROV-10, MACH-PROV-03, MACH-REAL-02: with --simulate-cloud the machines of clouds get instances with names, size and place as there, and say
/// that they are simulated; without it they fail, unless another controller has them.
#[test]
fn clouds_are_rehearsed() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let components = ["--components", "controllers,nodes,machine-api", "--nodes", "0"];
    let cluster = Cluster::up(&[&components[..], &["--simulate-cloud"]].concat());
    let vsphere = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "VSphereMachineProviderSpec", "numCPUs": 6, "memoryMiB": 12288,
        "workspace": {"server": "vc.example", "datacenter": "dc", "resourcePool": "/dc/host/rack-1/Resources"},
        "userDataSecret": {"name": "worker-user-data"}, "credentialsSecret": {"name": "vsphere-cloud-credentials"},
    });
    let mut bare = aws();
    bare.as_object_mut().unwrap().retain(|field, _| field == "apiVersion" || field == "kind");
    for (name, spec) in [("cloud-aws", aws()), ("cloud-vsphere", vsphere.clone()), ("cloud-bare", bare)] {
        cluster.apply(&machine(name, &spec).to_string());
    }
    let running = |name: &str| until(&cluster, "the instance runs", name, |live| live["status"]["phase"] == "Running");
    let live = running("cloud-aws");
    assert_eq!(live["spec"]["providerSpec"]["value"], aws(), "kept as it is");
    let id = live["spec"]["providerID"].as_str().unwrap();
    assert!(id.starts_with("aws:///eu-west-1b/i-") && id.len() == "aws:///eu-west-1b/i-".len() + 17, "{id}");
    let labels = &live["metadata"]["labels"];
    let shown =
        ["machine.openshift.io/instance-type", "machine.openshift.io/region", "machine.openshift.io/zone", "mainstay.dev/simulated"];
    assert_eq!(shown.map(|label| labels[label].as_str().unwrap()), ["m6i.xlarge", "eu-west-1", "eu-west-1b", "true"]);
    assert_eq!(live["metadata"]["annotations"]["mainstay.dev/simulated"], "true");
    let node = cluster.get(&["node", live["status"]["nodeRef"]["name"].as_str().unwrap()]).unwrap();
    assert_eq!(node["spec"]["providerID"], id);
    assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "eu-west-1b");
    for marks in ["labels", "annotations"] {
        assert_eq!(node["metadata"][marks]["mainstay.dev/simulated"], "true");
    }
    let live = running("cloud-vsphere");
    assert_eq!(live["spec"]["providerID"], format!("vsphere://{}", live["metadata"]["uid"].as_str().unwrap()));
    let node = cluster.get(&["node", live["status"]["nodeRef"]["name"].as_str().unwrap()]).unwrap();
    assert_eq!((&node["status"]["capacity"]["cpu"], &node["status"]["capacity"]["memory"]), (&json!("6"), &json!("12Gi")));
    assert!(
        failed(&cluster, "cloud-bare")
            .starts_with("spec.providerSpec.value.instanceType: must be set; spec.providerSpec.value.placement.region")
    );
    drop(cluster);

    let cluster = Cluster::up(&components);
    let mut held = machine("held", &aws());
    held["metadata"]["finalizers"] = json!(["machine.other.example/instance"]);
    for object in [held, machine("alone", &aws())] {
        cluster.apply(&object.to_string());
    }
    let said = failed(&cluster, "alone");
    assert!(said.starts_with("no provider serves AWSMachineProviderConfig of machine.openshift.io; this program serves "), "{said}");
    assert!(said.contains("SimProviderConfig of sim.mainstay.dev") && !said.contains("GCPMachineProviderSpec"), "{said}");
    let left = cluster.get(&[MACHINES, "held", "-n", NAMESPACE]).unwrap();
    assert!(left["status"].is_null() && left["metadata"]["finalizers"] == json!(["machine.other.example/instance"]), "{left:#}");
    cluster.kubectl(&["delete", MACHINES, "alone", "-n", NAMESPACE]).ok();
}

/// MACH-MCS-03: simulated instances boot from the config server: their nodes join with the configuration of its pool, and the disk has it.
#[test]
fn instances_boot_from_the_config_server() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let components = ["--components", "controllers,scheduler,nodes,machine-api,machine-config", "--nodes", "1"];
    let cluster = Cluster::up(&components);
    let sim = json!({"apiVersion": "sim.mainstay.dev/v1alpha1", "kind": "SimProviderConfig", "bootDelay": "50ms", "joinDelay": "50ms", "deleteDelay": "50ms"});
    cluster.apply(&machine("booted", &sim).to_string());
    let live = until(&cluster, "the machine runs", "booted", |live| live["status"]["phase"] == "Running");
    let node = cluster.get(&["node", live["status"]["nodeRef"]["name"].as_str().unwrap()]).unwrap();
    let of = |key: &str| {
        node["metadata"]["annotations"][format!("machineconfiguration.openshift.io/{key}")].as_str().unwrap_or_default().to_owned()
    };
    let config = of("currentConfig");
    assert!(config.starts_with("rendered-worker-") && of("desiredConfig") == config && of("state") == "Done", "{node:#}");
    cluster.until("its pool names it", &["machineconfigpool", "worker"], |pool| pool["spec"]["configuration"]["name"] == config);
    let booted = events(&cluster, "Booted");
    assert!(booted.contains(&format!("booted with {config} of pool worker")), "{booted:?}");
    cluster.until("its disk has it", &["configmap", "simulated-disk-booted", "-n", "openshift-machine-config-operator"], |disk| {
        disk["data"]["currentconfig"] == config
    });
}

/// The notes of all events on instances with a reason.
fn events(cluster: &Cluster, reason: &str) -> Vec<String> {
    let all = cluster
        .kubectl(&["get", "events.events.k8s.io", "-n", NAMESPACE, "--field-selector", &format!("reason={reason}"), "-o", "json"])
        .ok();
    let all: Value = serde_json::from_str(&all).unwrap();
    let of_instances = all["items"].as_array().unwrap().iter().filter(|event| event["regarding"]["kind"] == "SimInstance");
    of_instances.map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = terminate(&mut self.0);
    }
}

fn spawn(command: &mut Command, log: &Path) -> Process {
    let (out, errors) = (File::create(log).unwrap(), File::options().append(true).open(log).unwrap());
    Process(command.stdin(Stdio::null()).stdout(out).stderr(errors).spawn().unwrap())
}

/// MACH-PROV-12: beside a machine-api-operator nothing is deployed and nothing starts, but machines can be read; on another cluster the providers
/// of the embedded one are refused, with the reason.
#[test]
fn who_may_be_where() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::up(&["--components", "controllers", "--nodes", "0"]);
    let deploy = ["deploy", "--image", "example.com/mainstay:1", "--components", "machine-api"];
    cluster.mainstay(&deploy).ok();
    let labels = json!({"app": "machine-api-operator"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "operator", "image": "example.com/operator"}]}});
    let rival = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "machine-api-operator", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    });
    cluster.apply(&rival.to_string());
    let refused = cluster.mainstay(&deploy).exits(4);
    assert!(
        refused.contains("deployment openshift-machine-api/machine-api-operator: it manages the machines of this cluster already"),
        "{refused}"
    );
    let run = ["run", "machine-api", "--health-probe-bind-address", "0", "--metrics-bind-address", "0"];
    let refused = cluster.mainstay(&run).exits(1);
    let wanted = "deployment openshift-machine-api/machine-api-operator manages the machines of this cluster: nothing is done beside it";
    assert!(refused.contains(wanted), "{refused}");
    let sim = json!({"apiVersion": "sim.mainstay.dev/v1alpha1", "kind": "SimProviderConfig"});
    let local = json!({"apiVersion": "local.mainstay.dev/v1alpha1", "kind": "LocalProviderConfig"});
    cluster.apply(&machine("sim", &sim).to_string());
    assert!(cluster.mainstay(&["machine", "list"]).ok().contains("sim"));
    cluster.mainstay(&["explain", "machine", "sim"]).ok();

    cluster.kubectl(&["delete", "deployment", "machine-api-operator", "-n", NAMESPACE]).ok();
    cluster.apply(&machine("local", &local).to_string());
    let _running = spawn(cluster.command(mainstay()).args(run), &cluster.folder().join("machine-api.log"));
    for (name, kind) in [("sim", "SimProviderConfig of sim.mainstay.dev"), ("local", "LocalProviderConfig of local.mainstay.dev")] {
        let said = failed(&cluster, name);
        let wanted = format!(
            "{kind} makes nothing that a real cluster could use, and is served on the embedded cluster alone (mainstay up); here are "
        );
        assert!(said.starts_with(&wanted) && said.contains("ClusterAPIProviderConfig of capi.mainstay.dev"), "{said}");
        cluster.kubectl(&["delete", MACHINES, name, "-n", NAMESPACE]).ok();
    }
}

/// The folder with Cluster API's programs and definitions; none, with a visible skip, unless it is asked for.
fn cluster_api() -> Option<PathBuf> {
    let Some(folder) = std::env::var_os(CLUSTER_API) else {
        skip(&format!("Cluster API's controllers are run if {CLUSTER_API} names the folder that scripts/cluster-api made"));
        return None;
    };
    Some(folder.into())
}

/// MACH-PROV-11: with the real controllers of Cluster API, and its infrastructure in memory: a set grows and shrinks, an instance that is taken
/// away is lost, and Cluster API leaves nothing behind.
#[test]
fn cluster_api_makes_instances() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let Some(folder) = cluster_api() else { return };
    let cluster = Cluster::up(&["--components", "controllers,machine-api", "--nodes", "0"]);
    for definitions in std::fs::read_dir(folder.join("definitions")).unwrap() {
        cluster.kubectl(&["apply", "--server-side", "-f", definitions.unwrap().path().to_str().unwrap()]).ok();
    }
    let controller = |name: &str, webhooks: u16| {
        let mut command = cluster.command(&folder.join(name));
        command.args(["--diagnostics-address=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--leader-elect=false"]);
        command.arg(format!("--webhook-port={webhooks}")).arg("--webhook-cert-dir").arg(folder.join("certificates"));
        command.env("POD_IP", "127.0.0.1").env("POD_NAMESPACE", "default").env("POD_NAME", name).env("POD_UID", "1");
        spawn(&mut command, &cluster.folder().join(format!("{name}.log")))
    };
    let _running = [controller("core", free_port()), controller("dev", free_port())];

    let infrastructure = "infrastructure.cluster.x-k8s.io/v1beta2";
    let metadata = |name: &str| json!({"name": name, "namespace": NAMESPACE});
    let (in_memory, reference) = (
        json!({"backend": {"inMemory": {}}}),
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "demo"}),
    );
    let objects = [
        json!({"apiVersion": infrastructure, "kind": "DevCluster", "metadata": metadata("demo"), "spec": in_memory}),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata("demo"), "spec": {"infrastructureRef": reference}}),
        json!({"apiVersion": infrastructure, "kind": "DevMachineTemplate", "metadata": metadata("small"), "spec": {"template": {"spec": in_memory}}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("worker-user-data"), "stringData": {"userData": "{\"ignition\":{\"version\":\"3.2.0\"}}"}}),
    ];
    for object in &objects {
        cluster.apply(&object.to_string());
    }
    let spec = json!({
        "apiVersion": "capi.mainstay.dev/v1alpha1", "kind": "ClusterAPIProviderConfig", "clusterName": "demo", "version": "v1.34.1",
        "infrastructureRef": {"apiVersion": infrastructure, "kind": "DevMachineTemplate", "name": "small"}, "userDataSecret": {"name": "worker-user-data"},
    });
    let labels = json!({"machine.openshift.io/cluster-api-machineset": "workers"});
    let set = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": metadata("workers"),
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"providerSpec": {"value": spec}}}},
    });
    cluster.apply(&set.to_string());
    let list = |kind: &str| -> Vec<Value> {
        let list: Value = serde_json::from_str(&cluster.kubectl(&["get", kind, "-n", NAMESPACE, "-o", "json"]).ok()).unwrap();
        list["items"].as_array().unwrap().clone()
    };
    let provisioned = |count: usize| {
        eventually("instances are there", Duration::from_secs(180), || {
            let all = list(MACHINES);
            let done = all.len() == count
                && all.iter().all(|live| ["Provisioned", "Running"].contains(&live["status"]["phase"].as_str().unwrap_or_default()));
            if done { Ok(all) } else { Err(format!("{all:#?}\n{:#?}", list("machines.cluster.x-k8s.io"))) }
        })
    };
    let machines = provisioned(2);
    for live in &machines {
        let name = live["metadata"]["name"].as_str().unwrap();
        let made = cluster.get(&["machines.cluster.x-k8s.io", name, "-n", NAMESPACE]).unwrap();
        assert_eq!(live["spec"]["providerID"], made["spec"]["providerID"]);
        assert!(live["spec"]["providerID"].as_str().unwrap().starts_with("in-memory://"), "{live:#}");
    }
    // A node of that name joins: the machine runs, and is drained by us when it goes.
    let first = &machines[0];
    let name = first["metadata"]["name"].as_str().unwrap().to_owned();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": first["spec"]["providerID"]}});
    cluster.apply(&node.to_string());
    until(&cluster, "its node joins", &name, |live| live["status"]["phase"] == "Running");
    cluster.kubectl(&["delete", MACHINES, &name, "-n", NAMESPACE, "--wait=false"]).ok();
    cluster.until_gone(&[MACHINES, &name, "-n", NAMESPACE]);
    cluster.until_gone(&["node", &name]);
    let machines = provisioned(2);
    // Cluster API loses one.
    let lost = machines.iter().map(|live| live["metadata"]["name"].as_str().unwrap()).find(|other| *other != name).unwrap();
    cluster.kubectl(&["delete", "machines.cluster.x-k8s.io", lost, "-n", NAMESPACE]).ok();
    let live = until(&cluster, "the loss is seen", lost, |live| live["status"]["phase"] == "Failed");
    assert_eq!(live["status"]["errorMessage"], "can't find created instance");
    cluster.kubectl(&["scale", "machinesets.machine.openshift.io", "workers", "--replicas", "0", "-n", NAMESPACE]).ok();
    eventually("nothing is left", Duration::from_secs(120), || {
        let left = [MACHINES, "machines.cluster.x-k8s.io", "devmachines"].map(list).concat();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
    });
    assert_eq!(
        list("secrets").iter().filter(|secret| secret["metadata"]["name"].as_str().unwrap().ends_with("-bootstrap-data")).count(),
        0
    );
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
