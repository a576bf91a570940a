//! Lifecycle hooks with their owners in a process of their own: what hooks are for, on the embedded cluster (MACH-HOOK-08).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mainstay_e2e::{Cluster, Output, eventually, kubectl, need_embedded, need_kubectl, run};
use mainstay_machine_api::hook_owner::{self, HookOwner, OwnerError, Progress};
use mainstay_machine_core::hook_owner::OwnedHook;
use mainstay_machine_core::hooks::{LifecycleHook, Stage};
use mainstay_runtime::Env;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "openshift-machine-api";
const SET: &str = "machine.openshift.io/cluster-api-machineset";
const MACHINES: &str = "machines.machine.openshift.io";
const OWNER: &str = "test-owner";

struct Walk(Cluster);

/// kubectl for an owner, which is not the test.
#[derive(Clone)]
struct Kubectl(std::path::PathBuf);

impl Kubectl {
    fn run(&self, words: &[&str]) -> Output {
        let mut command = std::process::Command::new(kubectl().unwrap());
        run(command.arg("--kubeconfig").arg(&self.0).args(words), "")
    }

    fn list(&self, words: &[&str]) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.run(&[&["get", "-o", "json"], words].concat()).ok()).unwrap();
        list["items"].as_array().unwrap().clone()
    }
}

type Work = Box<dyn Fn(&Kubectl, &Value) -> Progress + Send + Sync>;

struct Owner {
    stage: Stage,
    kubectl: Kubectl,
    work: Work,
}

impl HookOwner for Owner {
    fn hook(&self) -> OwnedHook {
        OwnedHook { stage: self.stage, hook: LifecycleHook { name: "hold".to_owned(), owner: OWNER.to_owned() } }
    }

    fn on_delete<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<Progress, OwnerError>> {
        async move { Ok((self.work)(&self.kubectl, machine)) }.boxed()
    }
}

/// An owner at work; it stops with this value.
struct Working {
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Walk {
    fn start(hooks: &Value) -> Self {
        let walk = Self(Cluster::up(&["--components", "controllers,scheduler,nodes,machine-api", "--nodes", "1"]));
        let provider = json!({
            "apiVersion": "sim.mainstay.dev/v1alpha1", "kind": "SimProviderConfig", "instanceType": "small",
            "bootDelay": "100ms", "joinDelay": "100ms", "deleteDelay": "100ms",
        });
        let spec = json!({"metadata": {"labels": {"fleet": "workers"}}, "lifecycleHooks": hooks, "providerSpec": {"value": provider}});
        let set = json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": {"name": "workers", "namespace": NAMESPACE},
            "spec": {
                "replicas": 1, "deletePolicy": "Oldest", "selector": {"matchLabels": {SET: "workers"}},
                "template": {"metadata": {"labels": {SET: "workers"}}, "spec": spec},
            },
        });
        walk.0.apply(&set.to_string());
        walk.until_ready(1);
        walk
    }

    fn kubectl(&self) -> Kubectl {
        Kubectl(self.0.kubeconfig().to_owned())
    }

    fn own(&self, stage: Stage, work: impl Fn(&Kubectl, &Value) -> Progress + Send + Sync + 'static) -> Working {
        let owner = Arc::new(Owner { stage, kubectl: self.kubectl(), work: Box::new(work) });
        let (stop, kubeconfig) = (CancellationToken::new(), self.0.kubeconfig().to_owned());
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let cluster = mainstay_runtime::Cluster::from_kubeconfig(Some(&kubeconfig), None, None).await.unwrap();
                hook_owner::run(cluster, Env::system(), owner, until).await.unwrap();
            });
        });
        Working { stop, thread: Some(thread) }
    }

    fn until_ready(&self, replicas: u32) {
        self.0.until("the machines are ready", &["machineset", "workers", "-n", NAMESPACE], |set| {
            set["status"]["replicas"] == replicas && set["status"]["readyReplicas"] == replicas
        });
    }

    fn machines(&self) -> Vec<Value> {
        let mut all = self.kubectl().list(&[MACHINES, "-n", NAMESPACE]);
        all.sort_by_key(|machine| machine["metadata"]["creationTimestamp"].as_str().map(str::to_owned));
        all
    }

    fn until(&self, what: &str, machine: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.0.until(what, &[MACHINES, machine, "-n", NAMESPACE], wanted)
    }

    fn until_gone(&self, machine: &str) {
        eventually(&format!("{machine} is gone"), Duration::from_secs(60), || {
            self.0.get(&[MACHINES, machine, "-n", NAMESPACE]).map_or(Ok(()), |machine| Err(format!("{machine:#}")))
        });
    }

    fn delete(&self, machine: &str) {
        self.0.kubectl(&["delete", MACHINES, machine, "-n", NAMESPACE, "--wait=false"]).ok();
    }

    /// Pods that stay on the nodes of the set.
    fn pods(&self, count: u32) {
        let labels = json!({"app": "web"});
        let template = json!({"metadata": {"labels": labels}, "spec": {
            "nodeSelector": {"fleet": "workers"}, "containers": [{"name": "web", "image": "registry.example/web"}]}});
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": count, "serviceName": "web", "selector": {"matchLabels": labels}, "template": template}});
        self.0.apply(&set.to_string());
        self.0.until("they run", &["statefulset", "web"], |web| web["status"]["readyReplicas"] == count);
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn node_of(machine: &Value) -> String {
    machine["status"]["nodeRef"]["name"].as_str().unwrap().to_owned()
}

fn condition<'v>(object: &'v Value, kind: &str) -> &'v Value {
    object["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind).unwrap_or(&Value::Null)
}

fn hook(stage: &str) -> Value {
    json!({stage: [{"name": "hold", "owner": OWNER}]})
}

/// MACH-HOOK-01, MACH-HOOK-05, MACH-HOOK-07, MACH-HOOK-08, MACH-HOOK-09: a hook in the template of a set is on every machine from its creation, and holds
/// up the drain for as long as nobody lets go; the replacement is not delayed, and the owner lets go once it runs.
#[test]
fn replaced_first() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start(&hook("preDrain"));
    walk.0.kubectl(&["scale", "machineset", "workers", "-n", NAMESPACE, "--replicas", "2"]).ok();
    walk.until_ready(2);
    assert!(walk.machines().iter().all(|machine| machine["spec"]["lifecycleHooks"] == hook("preDrain")));
    let first = walk.machines()[0].clone();
    walk.0.kubectl(&["scale", "machineset", "workers", "-n", NAMESPACE, "--replicas", "1"]).ok();
    let is_held = |machine: &Value| machine["status"]["phase"] == "Deleting" && condition(machine, "Drainable")["status"] == "False";
    let held = walk.until("it waits", &name(&first), is_held);
    assert_eq!(condition(&held, "Drainable")["message"], format!("Drain operation currently blocked by: [{{Name:hold Owner:{OWNER}}}]"));
    walk.until_ready(1);

    // Nobody owns the hook: it holds, whatever else happens, and shows whose it is.
    let second = walk.machines().iter().find(|machine| name(machine) != name(&first)).cloned().unwrap();
    walk.delete(&name(&second));
    walk.until("it waits, too", &name(&second), is_held);
    walk.until_ready(1);
    assert!(is_held(&walk.until("it still waits", &name(&first), |_| true)));
    assert_eq!(walk.0.get(&["node", &node_of(&first)]).unwrap()["spec"]["unschedulable"], Value::Null, "nothing is drained");
    let blockers = walk.0.mainstay(&["explain", "machine", &name(&first), "-o", "json"]).ok();
    let blockers: Value = serde_json::from_str(&blockers).unwrap();
    assert_eq!((&blockers["blockers"][0]["owner"], &blockers["blockers"][0]["now"]), (&json!(OWNER), &json!(true)));

    let _owner = walk.own(Stage::PreDrain, |kubectl, machine| {
        let all = kubectl.list(&[MACHINES, "-n", NAMESPACE]);
        let runs = |other: &&Value| other["status"]["phase"] == "Running" && other["metadata"]["uid"] != machine["metadata"]["uid"];
        if all.iter().any(|other| runs(&other)) { Progress::Done } else { Progress::After(Duration::from_millis(200)) }
    });
    walk.until_gone(&name(&first));
    walk.until_gone(&name(&second));
    assert_eq!(walk.machines()[0]["spec"]["lifecycleHooks"], hook("preDrain"), "the template keeps it");
}

/// MACH-HOOK-06, MACH-HOOK-08: an owner empties the node in an order of its own; the drain that follows finds nothing left. A hook of another owner on the
/// machine is not touched.
#[test]
fn drained_in_an_own_order() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let hooks = json!({"preDrain": [{"name": "hold", "owner": OWNER}], "preTerminate": [{"name": "other", "owner": "another-owner"}]});
    let walk = Walk::start(&hooks);
    walk.pods(3);
    let machine = walk.machines()[0].clone();
    let node = node_of(&machine);
    let gone: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let noted = gone.clone();
    let _owner = walk.own(Stage::PreDrain, move |kubectl, machine| {
        let node = node_of(machine);
        kubectl.run(&["cordon", &node]).ok();
        let on_it = kubectl.list(&["pods", "-l", "app=web", "--field-selector", &format!("spec.nodeName={node}")]);
        let Some(next) = on_it.iter().map(name).max() else { return Progress::Done };
        let is_ending = on_it.iter().any(|pod| pod["metadata"]["deletionTimestamp"].is_string());
        if !is_ending {
            kubectl.run(&["delete", "pod", &next, "--wait=false"]).ok();
            noted.lock().unwrap().push(next);
        }
        Progress::After(Duration::from_millis(100))
    });
    walk.delete(&name(&machine));
    let drained = walk.until("it is drained", &name(&machine), |machine| condition(machine, "Drained")["status"] == "True");
    assert_eq!(*gone.lock().unwrap(), ["web-2", "web-1", "web-0"]);
    assert_eq!(drained["spec"]["lifecycleHooks"]["preTerminate"], hooks["preTerminate"]);
    assert!(drained["spec"]["lifecycleHooks"]["preDrain"].as_array().is_none_or(Vec::is_empty));
    let events = walk.kubectl().list(&["events", "-n", "default"]);
    let evicted = events.iter().filter(|event| {
        event["reason"] == "Evicted" && event["involvedObject"]["name"].as_str().is_some_and(|name| name.starts_with("web-"))
    });
    assert_eq!(evicted.count(), 0, "the drain found nothing left");
    let none = json!({"spec": {"lifecycleHooks": {"preTerminate": []}}}).to_string();
    walk.0.kubectl(&["patch", MACHINES, &name(&machine), "-n", NAMESPACE, "--type", "merge", "-p", &none]).ok();
    walk.until_gone(&name(&machine));
    assert!(walk.0.get(&["node", &node]).is_none());
}

/// MACH-HOOK-08: after the drain the instance stays until the storage of its node is detached, and then for as long as logs take.
#[test]
fn detached_first() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let walk = Walk::start(&hook("preTerminate"));
    let machine = walk.machines()[0].clone();
    let node = node_of(&machine);
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "ledger"},
        "spec": {"attacher": "csi.example", "nodeName": node, "source": {"persistentVolumeName": "ledger"}},
    });
    walk.0.apply(&attachment.to_string());
    let since: Arc<std::sync::Mutex<Option<std::time::Instant>>> = Arc::default();
    let wait = Duration::from_secs(2);
    let started = since.clone();
    let _owner = walk.own(Stage::PreTerminate, move |kubectl, machine| {
        let node = node_of(machine);
        if kubectl.list(&["volumeattachments"]).iter().any(|attachment| attachment["spec"]["nodeName"] == *node) {
            return Progress::After(Duration::from_millis(200));
        }
        // Logs have their time once nothing runs there any more.
        let begun = *started.lock().unwrap().get_or_insert_with(std::time::Instant::now);
        if begun.elapsed() < wait { Progress::After(Duration::from_millis(200)) } else { Progress::Done }
    });
    walk.delete(&name(&machine));
    let waits = walk.until("it is drained and waits", &name(&machine), |machine| condition(machine, "Drained")["status"] == "True");
    assert_eq!(condition(&waits, "Terminable")["status"], "False");
    std::thread::sleep(Duration::from_secs(1));
    assert!(since.lock().unwrap().is_none() && walk.0.get(&["node", &node]).is_some(), "the instance stays");
    walk.0.kubectl(&["delete", "volumeattachment", "ledger"]).ok();
    walk.until_gone(&name(&machine));
    assert!(since.lock().unwrap().unwrap().elapsed() >= wait, "the logs had their time");
    assert!(walk.0.get(&["node", &node]).is_none());
}
