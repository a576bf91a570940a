//! An operator in Go, built with controller-runtime, as a process against the embedded cluster.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use mainstay_e2e::{Cluster, eventually, here, need_embedded, need_kubectl, program, terminate};
use serde_json::{Value, json};

/// One instance of the operator. It ends with its value.
struct Operator {
    child: Child,
    log: PathBuf,
}

impl Operator {
    #[track_caller]
    fn start(cluster: &Cluster, program: &Path, name: &str, more: &[&str]) -> Self {
        let log = cluster.folder().join(format!("operator-{name}.log"));
        let mut command = cluster.command(program);
        command.args(["--name", name]).args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Self { child: command.spawn().unwrap(), log }
    }

    /// What it logged: one object a line.
    fn said(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    #[track_caller]
    fn until_said(&self, message: &str) {
        eventually(message, Duration::from_secs(120), || {
            let said = self.said();
            if said.iter().any(|line| line["msg"] == message) { Ok(()) } else { Err(format!("{said:#?}")) }
        });
    }

    /// The forms in which requests to a resource and their answers went.
    fn exchanged(&self, verb: &str, resource: &str) -> Vec<(String, String)> {
        let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let said = self.said();
        let lines = said.iter().filter(|line| line["msg"] == "exchanged" && line["verb"] == verb && line["resource"] == resource);
        lines.map(|line| (text(line, "sent"), text(line, "got"))).collect()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        terminate(&mut self.child);
        if std::thread::panicking() {
            eprintln!("the operator's words:\n{}", std::fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

fn site(name: &str, spec: &Value) -> String {
    json!({"apiVersion": "sites.example.com/v1", "kind": "Site", "metadata": {"name": name}, "spec": spec}).to_string()
}

/// A cluster with the operator's kind.
fn cluster() -> Cluster {
    let cluster = Cluster::up(&["--components", "controllers,scheduler,nodes"]);
    cluster.apply(&std::fs::read_to_string(here("go/site-operator/crd.yaml")).unwrap());
    cluster.kubectl(&["wait", "--for=condition=Established", "crd/sites.sites.example.com", "--timeout=60s"]).ok();
    cluster
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// KAPI-CLIENT-02, KAPI-SRV-07, KAPI-WATCH-01, KAPI-REST-06: two instances elect a leader, which makes and heals Deployments, writes conditions,
/// and cleans up behind a finalizer; built-in kinds go as protobuf; the other one takes over; caches go on after the server was killed.
#[test]
fn the_life_of_an_operator() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let Some(program) = program("site-operator") else { return };
    let mut cluster = cluster();
    let kubectl = |cluster: &Cluster, arguments: &[&str]| cluster.kubectl(arguments).ok();
    let first = Operator::start(&cluster, &program, "first", &[]);
    first.until_said("Successfully acquired lease");
    let second = Operator::start(&cluster, &program, "second", &[]);
    second.until_said("Attempting to acquire leader lease...");

    cluster.apply(&site("shop", &json!({"image": "example.com/shop:1", "replicas": 2})));
    kubectl(&cluster, &["wait", "--for=condition=Available", "site/shop", "--timeout=60s"]);
    let live = cluster.get(&["site", "shop"]).unwrap();
    assert_eq!((&live["status"]["readyReplicas"], &live["status"]["reconciledBy"]), (&json!(2), &json!("first")));
    assert_eq!(live["status"]["conditions"][0]["observedGeneration"], live["metadata"]["generation"]);
    assert_eq!(live["metadata"]["finalizers"], json!(["sites.example.com/farewell"]));
    let owned = cluster.get(&["deployment", "shop"]).unwrap();
    assert_eq!(owned["metadata"]["ownerReferences"][0]["uid"], live["metadata"]["uid"]);

    // controller-runtime sends and asks for protobuf where it can; custom kinds have none.
    assert_eq!(first.exchanged("POST", "deployments"), [(PROTOBUF.to_owned(), PROTOBUF.to_owned())]);
    assert_eq!(first.exchanged("WATCH", "deployments"), [(String::new(), format!("{PROTOBUF};stream=watch"))]);
    assert!(first.exchanged("PUT", "leases").contains(&(PROTOBUF.to_owned(), PROTOBUF.to_owned())));
    assert_eq!(first.exchanged("PUT", "sites"), [("application/json".to_owned(), "application/json".to_owned())]);

    // What somebody deletes or changes comes back.
    let uid = owned["metadata"]["uid"].clone();
    kubectl(&cluster, &["delete", "deployment", "shop", "--wait=false"]);
    cluster.until("the Deployment is made again", &["deployment", "shop"], |deployment| deployment["metadata"]["uid"] != uid);
    kubectl(&cluster, &["scale", "deployment", "shop", "--replicas=7"]);
    cluster.until("the replicas are two again", &["deployment", "shop"], |deployment| {
        deployment["spec"]["replicas"] == 2 && deployment["status"]["readyReplicas"] == 2
    });

    // A killed server: watches break, both come back to the same revisions.
    cluster.kill();
    cluster.come_back();
    cluster.apply(&site("shop", &json!({"image": "example.com/shop:2", "replicas": 3})));
    cluster.apply(&site("cafe", &json!({"image": "example.com/cafe:1"})));
    kubectl(&cluster, &["wait", "--for=jsonpath={.status.readyReplicas}=3", "site/shop", "--timeout=90s"]);
    kubectl(&cluster, &["wait", "--for=condition=Available", "site/cafe", "--timeout=60s"]);
    let image = cluster.get(&["deployment", "shop"]).unwrap()["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    assert_eq!(image, "example.com/shop:2");

    // The leader goes, and the one that waited takes over. After the kill either may lead.
    let (mut leader, other) = match cluster.get(&["site", "cafe"]).unwrap()["status"]["reconciledBy"].as_str() {
        Some("first") => ((first, "first"), (second, "second")),
        _ => ((second, "second"), (first, "first")),
    };
    let holder = cluster.get(&["lease", "site-operator"]).unwrap()["spec"]["holderIdentity"].clone();
    assert_eq!(terminate(&mut leader.0.child), Some(0), "{} gives up its lease and ends", leader.1);
    cluster.apply(&site("pub", &json!({"image": "example.com/pub:1"})));
    kubectl(&cluster, &["wait", "--for=condition=Available", "site/pub", "--timeout=60s"]);
    assert_eq!(cluster.get(&["site", "pub"]).unwrap()["status"]["reconciledBy"], other.1);
    other.0.until_said("Successfully acquired lease");
    assert_ne!(cluster.get(&["lease", "site-operator"]).unwrap()["spec"]["holderIdentity"], holder);

    // Its finalizer holds the object until the farewell is written; the Deployment goes with its owner.
    kubectl(&cluster, &["delete", "site", "shop", "--timeout=60s"]);
    let farewell = cluster.get(&["configmap", "farewell-shop"]).unwrap();
    assert_eq!(farewell["data"], json!({"image": "example.com/shop:2", "by": other.1}));
    cluster.until_gone(&["deployment", "shop"]);
}

/// KAPI-CLIENT-02, KAPI-ADM-01, KAPI-CRD-03: the operator's own webhooks, with certificates of its own authority: they default, refuse, warn and
/// convert; and when the operator is gone, writes fail closed.
#[test]
fn webhooks_of_an_operator() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let Some(program) = program("site-operator") else { return };
    let cluster = cluster();
    let mut operator = Operator::start(&cluster, &program, "only", &["--webhooks"]);
    operator.until_said("webhooks are registered");
    let apply = |site: &str| cluster.kubectl_with(&["apply", "-f", "-"], site);
    // The configurations are read by the API server a moment after they are written.
    eventually("the webhooks are asked", Duration::from_secs(120), || {
        let output = cluster.kubectl_with(&["create", "-f", "-"], &site("untagged", &json!({"image": "example.com/untagged"})));
        let refused = "admission webhook \"check.sites.example.com\" denied the request: image \"example.com/untagged\" has no tag";
        if output.stderr.contains(refused) {
            return Ok(());
        }
        cluster.kubectl(&["delete", "site", "untagged", "--ignore-not-found"]);
        Err(output.to_string())
    });

    apply(&site("shop", &json!({"image": "example.com/shop:1"}))).ok();
    assert_eq!(cluster.get(&["site", "shop"]).unwrap()["spec"]["replicas"], 2, "the mutating webhook's default");
    let warned = apply(&site("shop", &json!({"image": "example.com/shop:latest"})));
    assert!(warned.stderr.contains("Warning: the tag latest moves"), "{warned}");
    warned.ok();
    cluster.kubectl(&["wait", "--for=condition=Available", "site/shop", "--timeout=60s"]).ok();

    // Both versions, in both directions, and through a list.
    let old = cluster.get(&["sites.v1alpha1.sites.example.com", "shop"]).unwrap();
    assert_eq!(
        (&old["apiVersion"], &old["spec"]),
        (&json!("sites.example.com/v1alpha1"), &json!({"image": "example.com/shop:latest", "size": "medium"}))
    );
    let small = site("cafe", &json!({"image": "example.com/cafe:1", "size": "large"})).replace("/v1\"", "/v1alpha1\"");
    apply(&small).ok();
    assert_eq!(cluster.get(&["sites.v1.sites.example.com", "cafe"]).unwrap()["spec"]["replicas"], 3);
    let listed = cluster.get(&["sites.v1alpha1.sites.example.com"]).unwrap();
    let sizes: Vec<&str> = listed["items"].as_array().unwrap().iter().map(|item| item["spec"]["size"].as_str().unwrap()).collect();
    assert_eq!(sizes, ["large", "medium"]);

    // Nobody answers any more: a write is refused, a read that needs no conversion is not.
    terminate(&mut operator.child);
    let refused = apply(&site("late", &json!({"image": "example.com/late:1"}))).refused();
    assert!(refused.contains("failed calling webhook \"default.sites.example.com\""), "{refused}");
    assert!(cluster.get(&["sites.v1.sites.example.com", "shop"]).is_some());
    let refused = cluster.kubectl(&["get", "sites.v1alpha1.sites.example.com", "shop"]).refused();
    assert!(refused.contains("conversion webhook"), "{refused}");
}
