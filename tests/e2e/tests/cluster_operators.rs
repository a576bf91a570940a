//! The operators of the platform on the embedded cluster: the commands of their reference, and a whole update with all of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::time::{Duration, Instant};

use mainstay_e2e::{Cluster, eventually, need_embedded, need_kubectl};
use mainstay_release_samples::{platform_files, platform_releases, write_files};
use serde_json::{Value, json};
use tempfile::TempDir;

const VERSION: [&str; 2] = ["clusterversion", "version"];
/// The pull spec of an image that nothing pulls.
const IMAGE: &str = "registry.example/sample@sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// The sample pair as folders, with their paths.
fn samples() -> (TempDir, [String; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let paths = platform_releases().map(|release| {
        let path = folder.path().join(release.version);
        write_files(&path, &platform_files(&release, IMAGE)).unwrap();
        path.display().to_string()
    });
    (folder, paths)
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    object["status"]["conditions"].as_array().unwrap().iter().find(|each| each["type"] == kind).unwrap_or(&Value::Null)
}

fn is_at(version: &str) -> impl Fn(&Value) -> bool {
    move |object| {
        let entry = &object["status"]["history"][0];
        entry["version"] == version && entry["state"] == "Completed"
    }
}

/// Runs `kubectl edit` with an editor that replaces a text.
fn edit(cluster: &Cluster, words: &[&str], from: &str, to: &str) -> mainstay_e2e::Output {
    let editor = format!("sed -i 's/{from}/{to}/'");
    let kubectl = mainstay_e2e::kubectl().unwrap();
    let mut command = cluster.command(Path::new(&kubectl));
    mainstay_e2e::run(command.env("KUBE_EDITOR", editor).arg("edit").args(words), "")
}

/// COP-G-02, COP-G-03, COP-G-06, COP-G-07, COP-G-10, COP-G-12, COP-G-14, COP-NET-03, COP-03, COP-12, COP-14, COP-19, COP-22, COP-31: the commands of the
/// reference, with their answers.
#[test]
fn the_commands_of_the_reference() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (_folder, [first, _]) = samples();
    let components = "controllers,network-extras,cluster-version";
    let cluster = Cluster::up(&["--components", components, "--nodes", "0", "--release", &first, "--accelerate", "200"]);
    let installed = cluster.until("the release is installed", &VERSION, is_at("4.18.9"));
    assert_eq!(condition(&installed, "Available")["status"], "True");
    let get = |words: &[&str]| cluster.get(words).unwrap();
    let kubectl = |words: &[&str]| cluster.kubectl(words);

    let table = kubectl(&["get", "clusteroperators"]).ok();
    assert_eq!(table.lines().count(), 36, "{table}");
    assert!(table.lines().skip(1).all(|line| line.contains("4.18.9    True        False         False")), "{table}");
    for name in ["authentication", "openshift-controller-manager"] {
        let yaml = kubectl(&["get", "clusteroperator", name, "-o", "yaml"]).ok();
        assert!(yaml.contains("mainstay.dev/simulated: \"true\"") && yaml.contains("simulated: no operand is running"), "{yaml}");
    }

    let settings = get(&["-n", "openshift-monitoring", "cm", "cluster-monitoring-config"]);
    assert_eq!(settings["data"], json!({"config.yaml": ""}));
    edit(&cluster, &["-n", "openshift-monitoring", "cm", "cluster-monitoring-config"], "config.yaml: \"\"", "config.yaml: \"a: 1\"").ok();

    edit(&cluster, &["etcd", "cluster"], "logLevel: Normal", "logLevel: Debug").ok();
    assert_eq!(get(&["etcds.operator.openshift.io", "cluster"])["spec"]["operatorLogLevel"], "Normal");
    let refused = kubectl(&["patch", "etcd", "cluster", "--type=merge", "-p", r#"{"spec":{"logLevel":"Loud"}}"#]).refused();
    assert!(refused.contains("spec.logLevel: Unsupported value: \"Loud\""), "{refused}");
    let refused =
        kubectl(&["patch", "kubeapiserver", "cluster", "--type=merge", "-p", r#"{"spec":{"managementState":"Removed"}}"#]).refused();
    assert!(refused.contains("spec.managementState") && refused.contains("^(Managed|Force)$"), "{refused}");
    kubectl(&["patch", "kubeapiserver", "cluster", "--type=merge", "-p", r#"{"spec":{"colour":"red","logLevel":"Trace"}}"#]).ok();
    let server = get(&["kubeapiserver", "cluster"]);
    assert_eq!((&server["spec"]["colour"], &server["spec"]["logLevel"]), (&Value::Null, &json!("Trace")), "unknown fields are pruned");

    let unknown =
        kubectl(&["get", "clusteringresses.ingress.openshift.io", "-n", "openshift-ingress-operator", "default", "-o", "yaml"]).refused();
    assert!(unknown.contains("the server doesn't have a resource type \"clusteringresses\""), "{unknown}");
    let ingress =
        kubectl(&["get", "ingresscontrollers.operator.openshift.io", "-n", "openshift-ingress-operator", "default", "-o", "yaml"]).ok();
    assert!(ingress.contains("kind: IngressController"), "{ingress}");
    let routers = kubectl(&["get", "deployment", "-n", "openshift-ingress"]);
    assert!(routers.stderr.contains("No resources found"), "{}", routers.stderr);
    get(&["namespace", "openshift-ingress"]);
    let told = cluster.mainstay(&["explain", "clusteroperator", "ingress"]).ok();
    assert!(told.contains("simulated") || told.contains("played"), "{told}");

    let networks = kubectl(&["get", "network/cluster", "-o", "jsonpath={.status.clusterNetwork[*]}"]).ok();
    assert_eq!(networks, r#"{"cidr":"10.128.0.0/14","hostPrefix":23}"#);
    let definition = get(&["crd", "openshiftcontrollermanagers.operator.openshift.io"]);
    assert_eq!(definition["spec"]["scope"], "Cluster");
    for kind in ["apiservers", "builds", "consoles", "dnses", "images", "ingresses", "nodes", "oauths", "projects", "schedulers"] {
        get(&[&format!("{kind}.config.openshift.io"), "cluster"]);
    }
    let refused = kubectl(&["patch", "scheduler", "cluster", "--type=merge", "-p", r#"{"spec":{"profile":"Random"}}"#]).refused();
    assert!(refused.contains("spec.profile"), "{refused}");

    // A default class can be made another's; a deleted one returns with the next pass over the release.
    let mark = "storageclass.kubernetes.io/is-default-class";
    kubectl(&["annotate", "storageclass", "simulated", "--overwrite", &format!("{mark}=false")]).ok();
    let edited = get(&["storageclass", "simulated"]);
    kubectl(&["delete", "project.config.openshift.io", "cluster"]).ok();
    eventually("the deleted settings return", Duration::from_secs(60), || {
        cluster.get(&["project.config.openshift.io", "cluster"]).map(|_| ()).ok_or_else(|| "not yet".to_owned())
    });
    assert_eq!(get(&["storageclass", "simulated"])["metadata"]["annotations"][mark], "false");
    assert_eq!(get(&["storageclass", "simulated"])["metadata"]["uid"], edited["metadata"]["uid"]);
    kubectl(&["delete", "storageclass", "simulated"]).ok();
    cluster.until("the class is made again", &["storageclass", "simulated"], |class| class["metadata"]["annotations"][mark] == "true");

    // What the user changed is theirs.
    let kept = get(&["-n", "openshift-monitoring", "cm", "cluster-monitoring-config"]);
    assert_eq!(kept["data"], json!({"config.yaml": "a: 1"}));
    assert_eq!(get(&["co", "monitoring"])["metadata"]["annotations"]["mainstay.dev/simulated"], "true");

    // COP-11, CVO-MET-03: rules of the cluster are evaluated over what the operator measures, without Prometheus.
    cluster.apply(ALERTS);
    let alerts = eventually("the alert fires", Duration::from_secs(90), || {
        let report: Value =
            serde_json::from_str(&kubectl(&["get", "--raw", "/mainstay/alerts"]).ok()).map_err(|error| error.to_string())?;
        let fires = |alert: &&Value| alert["labels"]["alertname"] == "MonitoringIsUp";
        report["alerts"]
            .as_array()
            .into_iter()
            .flatten()
            .find(fires)
            .cloned()
            .ok_or_else(|| report.to_string())
            .map(|alert| (alert, report))
    });
    let (alert, report) = alerts;
    assert_eq!((&alert["state"], &alert["labels"]["job"]), (&json!("firing"), &json!("cluster-version-operator")));
    assert_eq!(alert["annotations"]["summary"], "monitoring is up");
    let skipped: Vec<&Value> = report["notEvaluated"].as_array().unwrap().iter().filter(|rule| rule["alert"] == "NodeDown").collect();
    assert_eq!(skipped[0]["reason"], "metric kube_node_status_condition is not measured here");
}

const ALERTS: &str = "\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: mine, namespace: openshift-monitoring}
spec:
  groups:
  - name: mine
    rules:
    - alert: MonitoringIsUp
      expr: cluster_operator_up{name=\"monitoring\"} == 1
      labels: {severity: info}
      annotations: {summary: \"{{ $labels.name }} is up\"}
    - alert: NodeDown
      expr: kube_node_status_condition{condition=\"Ready\"} == 0
";

/// One operator is slow, one is degraded meanwhile.
const SCRIPT: &str = "\
operators:
  machine-config: {duration: 30m}
  dns: {duration: 20m, degradedFor: 15m}
";

/// COP-G-09, COP-G-12: all operators of the platform are updated in less than a minute: the cluster is not upgradeable until the administrator acknowledges,
/// one operator is degraded meanwhile, and one is slow.
#[test]
fn a_whole_update() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (folder, [first, second]) = samples();
    let script = folder.path().join("script.yaml");
    std::fs::write(&script, SCRIPT).unwrap();
    let begun = Instant::now();
    let cluster = Cluster::up(&[
        "--components",
        "controllers,cluster-version",
        "--nodes",
        "0",
        "--release",
        &first,
        "--release",
        &second,
        "--accelerate",
        "200",
        "--script",
        &script.display().to_string(),
    ]);
    cluster.until("the first release is installed", &VERSION, is_at("4.18.9"));
    cluster.until("the gate shows", &VERSION, |object| condition(object, "Upgradeable")["reason"] == "AdminAckRequired");
    cluster.until("the update is offered", &VERSION, |object| object["status"]["availableUpdates"][0]["version"] == "4.19.0");
    cluster.mainstay(&["adm", "upgrade", "--to", "4.19.0"]).ok();
    cluster.until("the gate holds", &VERSION, |object| condition(object, "ReleaseAccepted")["reason"] == "PreconditionChecks");
    let gates = cluster.get(&["configmap", "admin-gates", "-n", "openshift-config-managed"]).unwrap();
    let acknowledged: Value = gates["data"].as_object().unwrap().keys().map(|gate| (gate.clone(), json!("true"))).collect();
    let patch = json!({"data": acknowledged}).to_string();
    cluster.kubectl(&["patch", "configmap", "admin-acks", "-n", "openshift-config", "--type", "merge", "-p", &patch]).ok();
    cluster.until("the update begins", &VERSION, |object| object["status"]["history"][0]["version"] == "4.19.0");
    let slow = cluster
        .until("the slow one is waited for", &["co", "machine-config"], |object| condition(object, "Progressing")["status"] == "True");
    assert_eq!(slow["status"]["versions"][0]["version"], "4.18.9");
    cluster.until("one is degraded", &["co", "dns"], |object| condition(object, "Degraded")["status"] == "True");
    let done = cluster.until("the second release is there", &VERSION, is_at("4.19.0"));
    let told: Vec<&Value> = done["status"]["history"].as_array().unwrap().iter().map(|entry| &entry["version"]).collect();
    assert_eq!(told, ["4.19.0", "4.18.9"]);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
