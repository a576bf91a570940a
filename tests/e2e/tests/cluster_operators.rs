//! The operators of the platform on the embedded cluster: the commands of their reference, and a whole update with all of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::time::{Duration, Instant};

use mainstay_e2e::{Cluster, eventually, need_embedded, need_kubectl};
use mainstay_release::{Class, platform_operators};
use mainstay_release_samples::metrics::Endpoint;
use mainstay_release_samples::{PLATFORM_QUERY, platform_files, platform_graph_data, platform_releases, platform_retarget, write_files};
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

/// COP-G-02, COP-G-03, COP-G-06, COP-G-07, COP-G-10, COP-G-12, COP-G-14, COP-G-15, COP-NET-03, COP-03, COP-07, COP-12, COP-13, COP-14, COP-19, COP-22,
/// COP-31: the commands of the reference, with their answers.
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
    // COP-G-06: every object of the cluster's configuration.
    let kinds = "apiservers authentications builds consoles dnses featuregates images infrastructures ingresses networks nodes oauths operatorhubs \
                 projects proxies schedulers";
    for kind in kinds.split_whitespace() {
        get(&[&format!("{kind}.config.openshift.io"), "cluster"]);
    }
    let mirrors = |source: &str| {
        json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "sample"},
            "spec": {"imageDigestMirrors": [{"source": source, "mirrors": ["mirror.example/team"]}]},
        })
    };
    cluster.apply(&mirrors("registry.example/team").to_string());
    let refused = cluster.kubectl_with(&["apply", "-f", "-"], &mirrors("https://registry.example").to_string()).refused();
    assert!(refused.contains("spec.imageDigestMirrors[0].source"), "{refused}");
    let refused = kubectl(&["patch", "scheduler", "cluster", "--type=merge", "-p", r#"{"spec":{"profile":"Random"}}"#]).refused();
    assert!(refused.contains("spec.profile"), "{refused}");

    // COP-07: the features of the release, and what a feature set holds back.
    let features = get(&["featuregate", "cluster"]);
    assert_eq!(features["status"]["featureGates"][0]["version"], "4.18.9");
    assert!(features["status"]["featureGates"][0]["enabled"].as_array().is_some_and(|all| !all.is_empty()), "{features:#}");
    let config = get(&["co", "config-operator"]);
    assert_eq!(config["metadata"]["annotations"].get("mainstay.dev/simulated"), None, "its work is done here");
    assert_eq!(condition(&config, "Upgradeable")["status"], "True");
    kubectl(&["patch", "featuregate", "cluster", "--type=merge", "-p", r#"{"spec":{"featureSet":"TechPreviewNoUpgrade"}}"#]).ok();
    cluster.until("the feature set holds back", &["co", "config-operator"], |object| {
        condition(object, "Upgradeable")["reason"] == "FeatureGates_RestrictedFeatureGates_TechPreviewNoUpgrade"
    });

    // COP-13: samples, one of which is skipped; the deleted configuration returns, and the samples with it.
    let stream = ["imagestream", "sample-hello", "-n", "openshift"];
    let sample = cluster.until("the samples are there", &stream, |object| object["metadata"].is_object());
    assert_eq!(sample["metadata"]["annotations"]["samples.operator.openshift.io/version"], "4.18.9");
    let skip = r#"{"spec":{"skippedImagestreams":["sample-hello"]}}"#;
    let samples = "config.samples.operator.openshift.io";
    kubectl(&["patch", samples, "cluster", "--type=merge", "-p", skip]).ok();
    let managed = "samples.operator.openshift.io/managed";
    cluster.until("it is skipped", &stream, |object| object["metadata"]["labels"][managed] == "false");
    let before = get(&[samples, "cluster"])["metadata"]["uid"].clone();
    kubectl(&["delete", samples, "cluster", "--wait=false"]).ok();
    cluster.until("the configuration returns", &[samples, "cluster"], |object| {
        object["metadata"]["uid"] != before && condition(object, "SamplesExist")["status"] == "True"
    });

    // COP-G-15: what is played carries the mark, and what is done here does not.
    for row in platform_operators().iter().filter(|row| !row.classes.contains(&Class::B)) {
        for name in &row.cluster_operators {
            assert_eq!(get(&["co", name])["metadata"]["annotations"]["mainstay.dev/simulated"], "true", "{name}");
        }
    }

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
/// The endpoint that decides the risk of the sample pair, on a thread of its own.
fn metrics() -> (Endpoint, String) {
    let endpoint = Endpoint::new([PLATFORM_QUERY], true, jiff::Timestamp::now);
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = endpoint.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime
            .block_on(async { served.serve(tokio::net::TcpListener::from_std(listener).unwrap(), std::future::pending()).await.unwrap() });
    });
    (endpoint, url)
}

/// One operator is slow, one is degraded meanwhile.
const SCRIPT: &str = "\
operators:
  machine-config: {duration: 30m}
  dns: {duration: 20m, degradedFor: 15m}
";

/// CVO-SIM-02, COP-G-09, COP-G-12: all operators of the platform are updated in less than a minute: a risk that metrics decide goes, the cluster is not
/// upgradeable until the administrator acknowledges, one operator is degraded meanwhile, one is slow, and another release is asked for while the update
/// is under way.
#[test]
fn a_whole_update() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (folder, [first, second]) = samples();
    let path = |name: &str| folder.path().join(name);
    let third = path("4.19.1").display().to_string();
    write_files(&path("4.19.1"), &platform_files(&platform_retarget(), IMAGE)).unwrap();
    write_files(&path("graph-data"), &platform_graph_data()).unwrap();
    std::fs::write(path("script.yaml"), SCRIPT).unwrap();
    let (graph_data, script) = (path("graph-data").display().to_string(), path("script.yaml").display().to_string());
    let (endpoint, metrics) = metrics();
    // It may have to be built, which is no part of the update.
    mainstay_e2e::mainstay();
    let begun = Instant::now();
    let releases = ["--release", &first, "--release", &second, "--release", &third, "--graph-data", &graph_data, "--metrics-url", &metrics];
    let pace = ["--components", "controllers,cluster-version", "--nodes", "0", "--accelerate", "200", "--script", &script];
    let cluster = Cluster::up(&[&releases[..], &pace[..]].concat());
    cluster.until("the first release is installed", &VERSION, is_at("4.18.9"));
    cluster.until("the gate shows", &VERSION, |object| condition(object, "Upgradeable")["reason"] == "AdminAckRequired");
    // Both updates are there with their risks; the one that metrics decide goes.
    let recommended = |object: &Value, version: &str| {
        let all = object["status"]["conditionalUpdates"].as_array().cloned().unwrap_or_default();
        let update = all.into_iter().find(|update| update["release"]["version"] == version).unwrap_or_default();
        let conditions = update["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().find(|each| each["type"] == "Recommended").map(|each| (each["status"].clone(), each["reason"].clone()))
    };
    cluster.until("both risks apply", &VERSION, |object| {
        let is = |version: &str, risk: &str| recommended(object, version) == Some((json!("False"), json!(risk)));
        is("4.19.0", "PausedPools") && is("4.19.1", "SlowNodeRestarts")
    });
    let refused = cluster.mainstay(&["adm", "upgrade", "--to", "4.19.0"]).refused();
    assert!(refused.contains("PausedPools") || refused.contains("not recommended"), "{refused}");
    endpoint.switch(false);
    cluster.until("one is recommended", &VERSION, |object| object["status"]["availableUpdates"][0]["version"] == "4.19.0");
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
    // Another release is asked for before the first one is there.
    cluster.until("the other is offered", &VERSION, |object| object["status"]["availableUpdates"][0]["version"] == "4.19.1");
    cluster.mainstay(&["adm", "upgrade", "--to", "4.19.1", "--allow-upgrade-with-warnings"]).ok();
    let done = cluster.until("the third release is there", &VERSION, is_at("4.19.1"));
    let told: Vec<(&Value, &Value)> =
        done["status"]["history"].as_array().unwrap().iter().map(|entry| (&entry["version"], &entry["state"])).collect();
    let expected =
        [("4.19.1", "Completed"), ("4.19.0", "Partial"), ("4.18.9", "Completed")].map(|(version, state)| (json!(version), json!(state)));
    assert_eq!(told, expected.iter().map(|(version, state)| (version, state)).collect::<Vec<_>>());
    assert_eq!(cluster.get(&["co", "config-operator"]).unwrap()["status"]["versions"][0]["version"], "4.19.1");
    assert!(begun.elapsed() < Duration::from_secs(180), "{:?}", begun.elapsed());
}
