//! The components of the platform: deployed, run with the accounts that they were deployed with, and removed.

use std::fs::File;
use std::process::Stdio;

use mainstay_e2e::bundles::write;
use mainstay_e2e::client::get;
use mainstay_e2e::{Cluster, eventually, mainstay, need_kubectl, terminate};
use serde_json::{Value, json};

use crate::run::world::{LONG, Replica, TIMES, free, kubeconfig};

const MIGRATOR: &str = "openshift-kube-storage-version-migrator";

/// A process of a component with the token of the account that was deployed for it.
fn run(cluster: &Cluster, component: &str, (namespace, account): (&str, &str), flags: &[&str]) -> Replica {
    let token = cluster.kubectl(&["create", "token", "-n", namespace, account]).ok();
    let own: Value = mainstay_yaml::parse(&std::fs::read_to_string(cluster.kubeconfig()).unwrap()).unwrap();
    let server =
        json!({"server": cluster.server(), "certificate-authority-data": own["clusters"][0]["cluster"]["certificate-authority-data"]});
    let (config, log) = (cluster.folder().join(format!("{component}.kubeconfig")), cluster.folder().join(format!("{component}.log")));
    write(&config, &kubeconfig(&server, &json!({"token": token.trim()})));
    let health = free();
    let mut command = cluster.command(mainstay());
    command.args(["run", component, "--kubeconfig"]).arg(&config).arg(format!("--health-probe-bind-address=127.0.0.1:{health}"));
    command.args(flags).args(TIMES).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let replica = Replica { child: command.spawn().unwrap(), log, health, metrics: 0, external: String::new() };
    eventually("it leads", LONG, || match get(health, "/readyz") {
        Ok(text) if text.contains("ok: leading") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    replica
}

/// A kind that is stored in this version.
fn widgets(storage: &str) -> String {
    let version = |name: &str| {
        json!({"name": name, "served": true, "storage": name == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.demo.io"},
        "spec": {
            "group": "demo.io", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [version("v1"), version("v1beta1")],
        },
    })
    .to_string()
}

/// COP-SVM-01, COP-SVM-03, COP-SVM-04, COP-SVM-05, COP-25, MS-CLI-04: the storage migrator with the permissions that it is deployed with: a kind
/// changes its storage version, every object is written again, and the old version is stored no longer; a clean stop
/// releases its Lease. Removal keeps the record.
#[test]
fn the_storage_migrator() {
    let Some(()) = need_kubectl() else { return };
    let Some(cluster) = Cluster::without_olm() else { return };
    let deploy = ["deploy", "--image", "example.com/mainstay:1", "--components", "storage-migrator"];
    let checked = cluster.mainstay(&[&deploy[..], &["--dry-run"]].concat()).exits(0);
    assert!(checked.contains("storageversionmigrations.migration.k8s.io created (dry run)"), "{checked}");
    cluster.mainstay(&deploy).ok();
    cluster.mainstay(&deploy).ok();
    let account = (MIGRATOR, "storage-version-migrator");
    let deployment = cluster.get(&["deployment", "-n", MIGRATOR, account.1]).unwrap();
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(arguments.contains("\"storage-migrator\"") && arguments.contains("--leader-elect"), "{arguments}");
    cluster.apply(&widgets("v1beta1"));
    cluster.kubectl(&["wait", "--for=condition=Established", "crd/widgets.demo.io"]).ok();
    let widget = json!({"apiVersion": "demo.io/v1beta1", "kind": "Widget", "metadata": {"name": "one", "namespace": "default"}, "spec": {"size": 1}});
    cluster.apply(&widget.to_string());

    let mut migrator = run(&cluster, "storage-migrator", account, &["--leader-elect", "--migration-writes-per-second=500"]);
    let state = ["storagestate", "widgets.demo.io"];
    let persisted = |live: &Value| live["status"]["persistedStorageVersionHashes"].as_array().map_or(0, Vec::len);
    cluster.until("the first record is complete", &state, |live| persisted(live) == 1);
    let before = cluster.get(&["widget", "one"]).unwrap();
    cluster.apply(&widgets("v1"));
    let stored = cluster.until("the old version goes", &["crd", "widgets.demo.io"], |crd| crd["status"]["storedVersions"] == json!(["v1"]));
    assert_eq!(stored["status"]["storedVersions"], json!(["v1"]));
    let after = cluster.get(&["widget", "one"]).unwrap();
    assert_ne!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    assert_eq!((&before["spec"], &before["metadata"]["uid"]), (&after["spec"], &after["metadata"]["uid"]));
    let failed = |migration: &&Value| {
        let all = migration["status"]["conditions"].as_array().into_iter().flatten();
        all.into_iter().any(|each| each["type"] == "Failed" && each["status"] == "True")
    };
    // Roles and all else that the account could not write are among them.
    let done = |all: &Value| {
        let over = |migration: &Value| {
            migration["status"]["conditions"].as_array().is_some_and(|all| {
                all.iter().any(|each| each["status"] == "True" && (each["type"] == "Succeeded" || each["type"] == "Failed"))
            })
        };
        all["items"].as_array().is_some_and(|items| items.len() > 20 && items.iter().all(over))
    };
    let migrations = cluster.until("every kind is migrated", &["storageversionmigrations"], done);
    let failures: Vec<&Value> = migrations["items"].as_array().unwrap().iter().filter(failed).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(terminate(&mut migrator.child), Some(0));
    let lease = cluster.get(&["lease", "-n", MIGRATOR, "storage-version-migrator-lock"]).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "");

    cluster.mainstay(&["deploy", "--uninstall", "--components", "storage-migrator"]).ok();
    cluster.until_gone(&["namespace", MIGRATOR]);
    assert!(cluster.get(&["clusterrole", "mainstay-storage-version-migrator"]).is_none());
    assert!(cluster.get(&state).is_some(), "the record stays with its kind");
}

/// CVO-RUN-03, CVO-RUN-07, MS-CLI-04: the Cluster Version Operator is deployed where no other is, runs with its account and makes the kinds that it works
/// on, and is removed; the namespace stays as long as there is a ClusterVersion.
#[test]
fn the_cluster_version_operator() {
    let Some(()) = need_kubectl() else { return };
    let Some(cluster) = Cluster::without_olm() else { return };
    let home = "openshift-cluster-version";
    cluster.kubectl(&["create", "namespace", home]).ok();
    let foreign = ["deployment", "-n", home, "cluster-version-operator"];
    cluster.kubectl(&[&["create"], &foreign[..], &["--image=example.com/release:1"]].concat()).ok();
    let deploy = ["deploy", "--image", "example.com/mainstay:1", "--components", "cluster-version"];
    let refused = cluster.mainstay(&deploy).exits(4);
    assert!(refused.contains("another Cluster Version Operator runs here: image example.com/release:1"), "{refused}");
    assert!(cluster.get(&["clusterrolebinding", "mainstay-cluster-version"]).is_none(), "nothing was made");
    cluster.kubectl(&[&["delete"], &foreign[..]].concat()).ok();

    let said = cluster.mainstay(&deploy).exits(0);
    assert!(said.contains("may do everything on this cluster"), "{said}");
    let own = ["deployment", "-n", home, "mainstay-cluster-version"];
    assert_eq!(cluster.get(&own).unwrap()["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 130);
    let mut operator = run(&cluster, "cluster-version", (home, "cluster-version-operator"), &[]);
    cluster.until("the kinds are made", &["crd", "infrastructures.config.openshift.io"], |_| true);
    assert_eq!(terminate(&mut operator.child), Some(0));

    let version = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11"}});
    cluster.apply(&version.to_string());
    let left = cluster.mainstay(&["deploy", "--uninstall", "--components", "cluster-version"]).exits(0);
    assert!(left.contains(&format!("namespace {home} stays: it holds the events of clusterversion version")), "{left}");
    assert!(cluster.get(&own).is_none() && cluster.get(&["clusterrolebinding", "mainstay-cluster-version"]).is_none());
    cluster.kubectl(&["delete", "clusterversion", "version"]).ok();
    cluster.mainstay(&["deploy", "--uninstall", "--components", "cluster-version"]).ok();
    cluster.until_gone(&["namespace", home]);
}
