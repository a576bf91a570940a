//! The Cluster Version Operator as a process of its own, on a cluster that was not made by it.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mainstay_e2e::{Cluster, Registry, eventually, mainstay, need_embedded, need_kubectl, terminate};
use mainstay_oci::{Client, ClientConfig, Credentials, Reference};
use mainstay_release_samples::{Published, SigningKey, Target, publish};
use serde_json::{Value, json};

use crate::run::world::{LONG, TIMES};

pub const VERSION: [&str; 2] = ["clusterversion", "version"];
const DEPLOYMENT: [&str; 4] = ["deployment", "-n", "openshift-cluster-version", "cluster-version-operator"];
pub const LEASE: [&str; 4] = ["lease", "-n", "openshift-cluster-version", "version"];

/// The sample releases in a registry, signed by a key; the secret key is in the folder.
pub fn releases(registry: &Registry, credentials: Credentials, folder: &Path) -> Vec<Published> {
    let client = Client::new(ClientConfig { insecure: true, credentials, ..ClientConfig::default() }).unwrap();
    let at = |repository: &str| Reference::parse(&format!("{}/sample/{repository}", registry.address())).unwrap();
    let (releases, components) = (at("release"), at("components"));
    let key = SigningKey::generate().unwrap();
    std::fs::write(folder.join("secret.asc"), key.secret().unwrap()).unwrap();
    let signatures = folder.join("signatures");
    let store = format!("file://{}", signatures.display());
    let target = Target::Registry { client: &client, releases, components };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    runtime.block_on(publish(&target, &key, &store, &folder.join("payloads"), &signatures, now)).unwrap()
}

/// A process of `mainstay run cluster-version`.
struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        terminate(&mut self.0);
    }
}

fn operator(cluster: &Cluster, name: &str) -> Operator {
    let log = File::create(cluster.folder().join(format!("{name}.log"))).unwrap();
    let mut command = cluster.command(mainstay());
    command.args(["run", "cluster-version", "--accelerate", "20", "--kubeconfig"]).arg(cluster.kubeconfig()).args(TIMES);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Operator(command.spawn().unwrap())
}

fn holder(cluster: &Cluster) -> String {
    let lease = cluster.get(&LEASE);
    lease.and_then(|lease| lease["spec"]["holderIdentity"].as_str().map(str::to_owned)).unwrap_or_default()
}

/// The operators of the platform: they report what the release wants.
pub struct Operators(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Operators {
    pub fn start(cluster: &Arc<Cluster>) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let (cluster, until) = (cluster.clone(), end.clone());
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                report(&cluster);
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        Self(end, Some(thread))
    }
}

impl Drop for Operators {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(JoinHandle::join);
    }
}

fn report(cluster: &Cluster) {
    let Some(version) = cluster.get(&VERSION) else { return };
    let Some(wanted) = version["status"]["desired"]["version"].as_str() else { return };
    let operators = cluster.get(&["clusteroperators"]).unwrap_or_default();
    for operator in operators["items"].as_array().into_iter().flatten() {
        if operator["status"]["versions"][0]["version"] == wanted && operator["status"]["conditions"].is_array() {
            continue;
        }
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "AsExpected", "message": "by the test"});
        let status = json!({"status": {
            "conditions": [condition("Available", "True"), condition("Progressing", "False"), condition("Degraded", "False")],
            "versions": [{"name": "operator", "version": wanted}],
        }});
        let name = operator["metadata"]["name"].as_str().unwrap();
        cluster.kubectl(&["patch", "clusteroperator", name, "--subresource=status", "--type=merge", "-p", &status.to_string()]);
    }
}

pub fn is_at(version: &str) -> impl Fn(&Value) -> bool {
    move |object| object["status"]["history"][0]["version"] == version && object["status"]["history"][0]["state"] == "Completed"
}

/// CVO-RUN-02, CVO-RUN-03, CVO-RUN-04, CVO-RUN-06, CVO-RUN-07, CVO-RET-06, CVO-FLOW-06, CVO-SIG-12: on a cluster that it did not make, the operator
/// leaves another one alone, waits for a ClusterVersion, installs the release that `adm release install` asks for, and updates it by signatures that
/// lie in the cluster alone. A kill in the middle of the update costs the time of the Lease; a clean stop costs nothing.
#[test]
fn an_operator_on_a_foreign_cluster() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let Some(cluster) = Cluster::without_olm() else { return };
    let cluster = Arc::new(cluster);
    let registry = Registry::ours();
    let folder = tempfile::tempdir().unwrap();
    let releases = releases(&registry, Credentials::default(), folder.path());
    let (first, second, third) = (&releases[0], &releases[1], &releases[2]);

    // Another operator.
    cluster.kubectl(&["create", "namespace", "openshift-cluster-version"]).ok();
    cluster
        .kubectl(&["create", "deployment", "-n", "openshift-cluster-version", "cluster-version-operator", "--image=example.com/release:1"])
        .ok();
    let refused = cluster.mainstay(&["run", "cluster-version"]).exits(1);
    assert!(refused.contains("another Cluster Version Operator runs here: image example.com/release:1"), "{refused}");
    assert!(refused.contains("--take-over cluster-version"), "{refused}");
    assert!(cluster.get(&["crd", "clusterversions.config.openshift.io"]).is_none(), "nothing was made");
    cluster.kubectl(&[&["delete"], &DEPLOYMENT[..]].concat()).ok();

    // No ClusterVersion: the operator makes the kinds, and no ClusterVersion.
    let one = operator(&cluster, "one");
    cluster.until("the kinds are made", &["crd", "infrastructures.config.openshift.io"], |_| true);
    eventually("it leads", LONG, || if holder(&cluster).is_empty() { Err("no process holds the Lease".to_owned()) } else { Ok(()) });
    assert!(cluster.get(&VERSION).is_none());

    let _operators = Operators::start(&cluster);
    let key = folder.path().join("secret.asc");
    let key = key.to_str().unwrap();
    let tagged = format!("{}/sample/release:4.18.1-x86_64", registry.address());
    let install = ["adm", "release", "install", "--image", &tagged, "--update-service", "http://127.0.0.1:9/graph", "--signing-key", key];
    let said = cluster.mainstay(&install).ok();
    assert!(said.contains(&format!("release 4.18.1, {}", first.image)), "{said}");
    let again = cluster.mainstay(&install).refused();
    assert!(again.contains("exists already, at"), "{again}");
    let installed = cluster.until("the first release is installed", &VERSION, is_at("4.18.1"));
    assert_eq!(installed["status"]["desired"]["image"], first.image);
    let signature = ["configmap", "-n", "openshift-config-managed", &first.digest.as_str().replace(':', "-")];
    assert!(cluster.get(&signature).is_some(), "the signature is kept");

    // Killed in the middle of an update: the other process goes on when the Lease has run out.
    let two = operator(&cluster, "two");
    let ask = |release: &Published| {
        cluster.mainstay(&["adm", "upgrade", "--to-image", &release.image, "--allow-explicit-upgrade"]).ok();
        let version = release.version;
        cluster.until("the update begins", &VERSION, move |object| object["status"]["history"][0]["version"] == version)
    };
    ask(second);
    let before = holder(&cluster);
    let mut one = one;
    one.0.kill().unwrap();
    one.0.wait().unwrap();
    let updated = cluster.until("the second release is there", &VERSION, is_at("4.18.2"));
    assert!(updated["status"]["history"][0]["verified"] == true, "{:#}", updated["status"]["history"]);
    assert_ne!(holder(&cluster), before, "the other process works");

    // Without the store: the signature is in the cluster alone.
    let file = folder.path().join("signatures").join(third.digest.as_str().replace(':', "=")).join("signature-1");
    let mirrored = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "mirrored", "namespace": "openshift-config-managed", "labels": {"release.openshift.io/verification-signatures": ""}},
        "binaryData": {format!("{}-1", third.digest.as_str().replace(':', "-")): base64(&std::fs::read(&file).unwrap())},
    });
    std::fs::remove_dir_all(folder.path().join("signatures")).unwrap();
    cluster.apply(&mirrored.to_string());
    ask(third);
    let updated = cluster.until("the third release is there", &VERSION, is_at("4.18.3"));
    assert!(updated["status"]["history"][0]["verified"] == true, "{:#}", updated["status"]["history"]);

    // A clean stop releases the Lease at once.
    let mut two = two;
    assert_eq!(terminate(&mut two.0), Some(0));
    assert_eq!(holder(&cluster), "");
}

pub fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
