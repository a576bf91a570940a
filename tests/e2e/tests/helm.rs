//! helm against the embedded cluster, with a chart that has what charts of operators have.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::{Cluster, Output, here, need_embedded, need_kubectl, program, run};
use serde_json::{Value, json};

/// A cluster and helm on it.
struct Helm {
    cluster: Cluster,
    program: std::path::PathBuf,
    chart: String,
}

impl Helm {
    /// None, with a visible skip, where helm is not to be had.
    fn new() -> Option<Self> {
        need_kubectl()?;
        let program = program("helm")?;
        let cluster = Cluster::up(&["--components", "controllers,scheduler,nodes"]);
        Some(Self { cluster, program, chart: here("chart").to_string_lossy().into_owned() })
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Output {
        run(self.cluster.command(&self.program).args(arguments), "")
    }

    /// The revisions' states, oldest first.
    #[track_caller]
    fn history(&self) -> Vec<String> {
        let history: Value = serde_json::from_str(&self.run(&["history", "port", "-o", "json"]).ok()).unwrap();
        history.as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap().to_owned()).collect()
    }

    #[track_caller]
    fn image(&self) -> Value {
        self.cluster.get(&["deployment", "port"]).unwrap()["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    }
}

/// KAPI-CLIENT-02: install with CRDs and hooks, upgrade, a broken upgrade that rolls itself back, rollback, test, uninstall.
#[test]
fn the_life_of_a_release() {
    let Some(()) = need_embedded() else { return };
    let Some(helm) = Helm::new() else { return };
    let chart = helm.chart.as_str();
    let cluster = &helm.cluster;
    helm.run(&["lint", "--strict", chart]).ok();

    let installed = helm.run(&["install", "port", chart, "--wait", "--timeout", "120s"]).ok();
    assert!(installed.contains("port runs 2 replicas of example.com/harbour:1."), "{installed}");
    let deployment = cluster.get(&["deployment", "port"]).unwrap();
    assert_eq!(deployment["status"]["readyReplicas"], 2, "helm waited");
    let prepare = cluster.get(&["job", "port-prepare"]).unwrap();
    assert_eq!(prepare["status"]["succeeded"], 1, "the hook ran");
    assert!(
        prepare["status"]["completionTime"].as_str() <= deployment["metadata"]["creationTimestamp"].as_str(),
        "the hook ended before the Deployment was made"
    );
    let berth = cluster.get(&["berth", "port"]).unwrap();
    assert_eq!(berth["spec"], json!({"length": 10, "ropes": 4}), "the CRD was there first, and defaults");
    assert_eq!(cluster.kubectl(&["auth", "can-i", "list", "berths", "--as", "system:serviceaccount:default:port"]).ok().trim(), "yes");
    assert_eq!(cluster.get(&["endpoints", "port"]).unwrap()["subsets"][0]["addresses"].as_array().unwrap().len(), 2);

    helm.run(&["upgrade", "port", chart, "--set", "image=example.com/harbour:2", "--wait", "--timeout", "120s"]).ok();
    assert_eq!(helm.image(), "example.com/harbour:2");
    assert!(cluster.get(&["job", "port-migrate-2"]).is_none(), "deleted when it had succeeded");
    assert_eq!(helm.history(), ["superseded", "deployed"]);

    // Pods that fit no node never get ready; helm takes the upgrade back.
    let broken = ["upgrade", "port", chart, "--set", "image=example.com/harbour:3", "--set-string", "nodeSelector.nowhere=yes"];
    let refused = helm.run(&[&broken[..], &["--rollback-on-failure", "--wait", "--timeout", "5s"]].concat()).refused();
    assert!(refused.contains("has been rolled back"), "{refused}");
    assert_eq!(helm.history(), ["superseded", "superseded", "failed", "deployed"]);
    assert_eq!(helm.image(), "example.com/harbour:2");
    cluster.until("the old pods serve", &["deployment", "port"], |deployment| {
        deployment["status"]["readyReplicas"] == 2 && deployment["status"]["updatedReplicas"] == 2
    });

    // What the API refuses, helm says.
    let refused = helm.run(&["upgrade", "port", chart, "--set", "berth.length=0"]).refused();
    assert!(refused.contains("spec.length: Invalid value: 0: spec.length in body should be greater than or equal to 1"), "{refused}");

    helm.run(&["rollback", "port", "1", "--wait", "--timeout", "120s"]).ok();
    assert_eq!(helm.image(), "example.com/harbour:1");
    let manifest = helm.run(&["get", "manifest", "port"]).ok();
    assert!(manifest.contains("kind: Berth") && manifest.contains("image: example.com/harbour:1"), "{manifest}");
    assert!(helm.run(&["test", "port", "--timeout", "120s"]).ok().contains("Succeeded"));
    assert!(helm.run(&["status", "port"]).ok().contains("STATUS: deployed"));
    assert!(helm.run(&["list", "-o", "json"]).ok().contains(r#""name":"port""#));

    helm.run(&["uninstall", "port", "--wait", "--timeout", "120s"]).ok();
    for kind in ["deployment", "service", "serviceaccount", "role", "rolebinding", "berth"] {
        assert!(cluster.get(&[kind, "port"]).is_none(), "{kind} remains");
    }
    assert!(cluster.get(&["secrets", "-l", "owner=helm"]).unwrap()["items"].as_array().unwrap().is_empty());
    assert!(cluster.get(&["crd", "berths.harbour.example.com"]).is_some(), "helm never deletes what is in crds/");
}

/// KAPI-CLIENT-02, KAPI-PATCH-01: the same chart by client-side three-way patches, as helm 3 sends them, and then taken over by server-side apply.
#[test]
fn client_side_patches() {
    let Some(()) = need_embedded() else { return };
    let Some(helm) = Helm::new() else { return };
    let chart = helm.chart.as_str();
    let cluster = &helm.cluster;
    helm.run(&["install", "port", chart, "--server-side=false", "--wait", "--timeout", "120s"]).ok();
    // What others added stays, what the chart says comes back.
    cluster.kubectl(&["label", "deployment", "port", "team=a"]).ok();
    cluster.kubectl(&["scale", "deployment", "port", "--replicas=5"]).ok();
    let upgrade = ["upgrade", "port", chart, "--server-side=false", "--set", "image=example.com/harbour:2", "--set", "replicas=3"];
    helm.run(&[&upgrade[..], &["--wait", "--timeout", "120s"]].concat()).ok();
    let deployment = cluster.get(&["deployment", "port"]).unwrap();
    assert_eq!(deployment["metadata"]["labels"]["team"], "a");
    assert_eq!(deployment["status"]["readyReplicas"], 3);
    assert_eq!(helm.image(), "example.com/harbour:2");
    let upgrade = ["upgrade", "port", chart, "--reset-values", "--server-side=true", "--force-conflicts", "--wait", "--timeout", "120s"];
    helm.run(&upgrade).ok();
    assert_eq!(helm.image(), "example.com/harbour:1");
    let managers = cluster.get(&["deployment", "port", "--show-managed-fields"]).unwrap()["metadata"]["managedFields"].clone();
    assert!(managers.as_array().unwrap().iter().any(|one| one["manager"] == "helm" && one["operation"] == "Apply"), "{managers:#}");
    helm.run(&["uninstall", "port", "--wait", "--timeout", "120s"]).ok();
    cluster.until_gone(&["deployment", "port"]);
}
