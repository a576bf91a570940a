//! Upstream's Cluster Version Operator beside ours: the same two releases on two clusters, and every object afterwards.
//!
//! ```text
//!   ours      mainstay up --release A --release B
//!   upstream  mainstay up, the kinds and stand-ins of ours, cluster-version-operator, operators that report at once
//! ```
//!
//! The Go module proxy has no release branch of the program: the person who compares builds branch `release-4.19` of
//! `github.com/openshift/cluster-version-operator` and names the program in `MAINSTAY_CVO`. It finds the second release where its retrieval pod
//! would have put it, which takes the permission to write below `/etc/cvo`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mainstay_e2e::{Cluster, terminate};
use serde_json::{Value, json};

use crate::difference::{self, Difference};

const VERSIONS: [&str; 2] = ["4.18.54", "4.19.44"];
const VERSION: [&str; 2] = ["clusterversion", "version"];
const NAMESPACE: &str = "openshift-cluster-version";
/// Where the program looks for releases that its pods retrieved.
const RETRIEVED: &str = "/etc/cvo/updatepayloads";
const PROFILE: &str = "include.release.openshift.io/self-managed-high-availability";
const PATIENCE: Duration = Duration::from_secs(600);
/// Kinds that follow from others, with names and addresses by chance, or that the two programs coordinate themselves by.
const DERIVED: [&str; 9] =
    ["APIService", "ComponentStatus", "ControllerRevision", "EndpointSlice", "Endpoints", "Event", "Job", "Lease", "Pod"];
/// Fields that count, or note times.
const NOISE: [&str; 13] = [
    "clusterIP",
    "clusterIPs",
    "completionTime",
    "creationTimestamp",
    "generation",
    "lastTransitionTime",
    "lastUpdateTime",
    "managedFields",
    "observedGeneration",
    "resourceVersion",
    "startedTime",
    "targetPort",
    "uid",
];

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_at(version: &str) -> impl Fn(&Value) -> bool {
    move |object| {
        let entry = &object["status"]["history"][0];
        entry["version"] == version && entry["state"] == "Completed"
    }
}

/// The recorded releases as the program's image has them: its own manifests in a folder of their own.
fn payloads(folder: &Path) -> Option<()> {
    for (path, content) in mainstay_testing::data::archive("payload.tar.gz")? {
        let path = path.strip_prefix("payload/").unwrap_or(&path);
        let own = path.contains("cluster-version-operator");
        let path = folder.join(if own { path.replace("release-manifests", "manifests") } else { path.to_owned() });
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    Some(())
}

/// The objects of a release, without what is no YAML before it is filled in.
fn manifests(release: &Path) -> Vec<Value> {
    let mut all = Vec::new();
    for folder in ["manifests", "release-manifests"] {
        for file in fs::read_dir(release.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|end| end == "yaml") {
                let content = fs::read_to_string(&path).unwrap();
                all.extend(mainstay_yaml::stream(&content).filter_map(|document| Some(document.ok()?.value)).filter(Value::is_object));
            }
        }
    }
    all
}

/// The program and what reports for the operators of its cluster; both end with the value.
struct Upstream {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

impl Upstream {
    fn start(program: PathBuf, cluster: &Arc<Cluster>, image: &str, payload: PathBuf, versions: BTreeMap<(String, String), Value>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (until, of, image) = (stop.clone(), cluster.clone(), image.to_owned());
        // As a Deployment does, it is started again whenever it ends.
        let keeping = std::thread::spawn(move || {
            let log = File::create(of.folder().join("cvo.log")).unwrap();
            let start = || -> Child {
                let (out, err) = (log.try_clone().unwrap(), log.try_clone().unwrap());
                let mut command = Command::new(&program);
                command
                    .args(["start", "--listen", "", "--node-name", "node", "--release-image", &image, "--kubeconfig"])
                    .arg(of.kubeconfig());
                command.env("PAYLOAD_OVERRIDE", &payload).stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap()
            };
            let mut child = start();
            while !until.load(Ordering::Relaxed) {
                if child.try_wait().unwrap().is_some() {
                    child = start();
                }
                std::thread::sleep(Duration::from_millis(500));
            }
            terminate(&mut child);
        });
        let (until, of) = (stop.clone(), cluster.clone());
        let reporting = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                report(&of, &versions);
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        Self { stop, threads: vec![keeping, reporting] }
    }
}

/// Says of every ClusterOperator that it runs at the versions of the wished release.
fn report(cluster: &Cluster, versions: &BTreeMap<(String, String), Value>) {
    let wished = cluster.get(&VERSION).map(|object| text(&object["status"]["desired"]["version"])).unwrap_or_default();
    let all = cluster.get(&["clusteroperators"]).unwrap_or_default();
    for operator in all["items"].as_array().into_iter().flatten() {
        let name = text(&operator["metadata"]["name"]);
        let Some(wanted) = versions.get(&(wished.clone(), name.clone())) else { continue };
        if operator["status"]["versions"] == *wanted {
            continue;
        }
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "AsExpected", "message": "simulated", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let conditions = [("Available", "True"), ("Progressing", "False"), ("Degraded", "False"), ("Upgradeable", "True")]
            .map(|(kind, status)| condition(kind, status));
        let patch = json!({"status": {"versions": wanted, "conditions": conditions}}).to_string();
        // What did not succeed is repeated.
        cluster.kubectl(&["patch", "clusteroperator", &name, "--subresource", "status", "--type", "merge", "-p", &patch]);
    }
}

/// Gives upstream's cluster the kinds, namespaces and settings that an installer makes, and what stands in for operators on ours.
fn prepare(ours: &Cluster, upstream: &Cluster, release: &Path) {
    let stands_in =
        |object: &&Value| !object["metadata"]["annotations"]["mainstay.dev/simulated"].is_null() && object["kind"] != "ClusterOperator";
    let mut objects: Vec<Value> = everything(ours).values().filter(stands_in).cloned().collect();
    objects.extend(manifests(release).into_iter().filter(|manifest| {
        let annotations = &manifest["metadata"]["annotations"];
        let set = &annotations["release.openshift.io/feature-set"];
        manifest["kind"] == "CustomResourceDefinition"
            && annotations[PROFILE] == "true"
            && (set.is_null() || set.as_str().is_some_and(|sets| sets.split(',').any(|set| set == "Default")))
    }));
    for namespace in [NAMESPACE, "openshift-config", "openshift-config-managed"] {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
    }
    for object in &mut objects {
        let kept = ["name", "namespace", "labels", "annotations"];
        object["metadata"].as_object_mut().unwrap().retain(|field, _| kept.contains(&field.as_str()));
        object.as_object_mut().unwrap().remove("status");
    }
    for kind in ["Namespace", "CustomResourceDefinition"] {
        let some: Vec<&Value> = objects.iter().filter(|object| object["kind"] == kind).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": some}).to_string();
        // What the cluster makes itself is there already.
        upstream.kubectl_with(&["create", "--validate=false", "-f", "-"], &list);
    }
    upstream.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).ok();
    let spec = &ours.get(&VERSION).unwrap()["spec"];
    let spec = json!({"clusterID": spec["clusterID"], "channel": spec["channel"]});
    // Without a FeatureGate upstream's program ends again and again.
    let gate = json!({"apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"}, "spec": {}});
    let version = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": spec});
    for object in [gate, version] {
        upstream.kubectl_with(&["create", "--validate=false", "-f", "-"], &object.to_string()).ok();
    }
    let gates = VERSIONS.map(|version| json!({"version": version, "enabled": [], "disabled": []}));
    let status = json!({"status": {"featureGates": gates}}).to_string();
    upstream.kubectl(&["patch", "featuregate", "cluster", "--subresource", "status", "--type", "merge", "-p", &status]).ok();
}

/// Every object of a cluster by kind, namespace and name.
fn everything(cluster: &Cluster) -> BTreeMap<String, Value> {
    let kinds = cluster.kubectl(&["api-resources", "--verbs=list", "-o", "name"]).ok();
    let mut all = BTreeMap::new();
    for kind in kinds.lines().filter(|kind| !kind.starts_with("events")) {
        let list = cluster.get(&[kind, "-A"]).unwrap_or_default();
        for object in list["items"].as_array().into_iter().flatten() {
            let metadata = &object["metadata"];
            let key = format!("{} {}/{}", text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]));
            all.insert(key, object.clone());
        }
    }
    all
}

/// The objects of a release and what follows from them, without counts, times, and what says that it is simulated.
fn comparable(cluster: &Cluster) -> BTreeMap<String, Value> {
    let mut all = everything(cluster);
    all.retain(|key, object| {
        let kind = object["kind"].as_str().unwrap_or_default();
        !DERIVED.contains(&kind)
            && !key.contains("mainstay")
            && !key.ends_with("kube-root-ca.crt")
            && !key.contains("extension-apiserver-authentication")
    });
    for object in all.values_mut() {
        if let Some("ClusterOperator" | "ClusterVersion" | "FeatureGate") = object["kind"].as_str() {
            let object = object.as_object_mut().unwrap();
            object.remove("status");
            // On ours the release makes the FeatureGate, on the other one the test did.
            object.get_mut("metadata").and_then(Value::as_object_mut).unwrap().retain(|field, _| field == "name" || field == "labels");
        }
        quiet(object);
    }
    all
}

fn quiet(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|field, value| !NOISE.contains(&field.as_str()) && !value.is_null());
            map.values_mut().for_each(quiet);
        }
        Value::Array(items) => items.iter_mut().for_each(quiet),
        _ => {}
    }
}

/// Differences without those that only Go's empty fields make.
fn differences(ours: &Cluster, upstream: &Cluster) -> (usize, Vec<Difference>) {
    let (ours, upstream) = (comparable(ours), comparable(upstream));
    let is_empty = |value: &Option<Value>| match value {
        None => true,
        Some(value) => value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty),
    };
    let mut found = difference::of(&ours, &upstream);
    found.retain(|difference| !(is_empty(&difference.ours) && is_empty(&difference.upstream)));
    // What is wished is said to each program in its own way.
    found.retain(|difference| !(difference.object.starts_with("ClusterVersion ") && difference.field.starts_with("/spec/desiredUpdate")));
    let names: BTreeSet<&String> = ours.keys().chain(upstream.keys()).collect();
    (names.len(), found)
}

/// CVO-GRAPH-01, CVO-APPLY-01, CVO-FLOW-01, CVO-FLOW-05: two real releases leave the same objects as upstream's program does.
#[test]
fn a_release_and_the_next_one() {
    let Some(program) = std::env::var_os("MAINSTAY_CVO").map(PathBuf::from) else {
        eprintln!("skipped: MAINSTAY_CVO does not name upstream's cluster-version-operator");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = payloads(folder.path()) else { return };
    let place = |version: &str| folder.path().join(version);
    let release = |version: &str| place(version).display().to_string();
    let (first, second) = (release(VERSIONS[0]), release(VERSIONS[1]));
    let components = "controllers,cluster-version";
    let ours = Cluster::up(&["--components", components, "--nodes", "0", "--release", &first, "--release", &second, "--accelerate", "20"]);
    let version = ours.until("our first release", &VERSION, is_at(VERSIONS[0]));
    let image = text(&version["status"]["desired"]["image"]);
    let upstream = Arc::new(Cluster::up(&["--components", "controllers", "--nodes", "0"]));
    prepare(&ours, &upstream, &place(VERSIONS[0]));
    let mut versions = BTreeMap::new();
    for version in VERSIONS {
        for manifest in manifests(&place(version)).into_iter().filter(|manifest| manifest["kind"] == "ClusterOperator") {
            versions.insert((version.to_owned(), text(&manifest["metadata"]["name"])), manifest["status"]["versions"].clone());
        }
    }
    let begun = Instant::now();
    let _program = Upstream::start(program, &upstream, &image, place(VERSIONS[0]), versions);
    until(&upstream, VERSIONS[0]);
    eprintln!("upstream installed in {:?}", begun.elapsed());
    settled("install", &ours, &upstream);

    let offered =
        ours.until("the next release is offered", &VERSION, |object| object["status"]["availableUpdates"][0]["version"] == VERSIONS[1]);
    let image = text(&offered["status"]["availableUpdates"][0]["image"]);
    let retrieved = Path::new(RETRIEVED).join(URL_SAFE_NO_PAD.encode(md5(&image)));
    copy(&place(VERSIONS[1]), &retrieved);
    for cluster in [&ours, &*upstream] {
        let gates = cluster.get(&["configmap", "admin-gates", "-n", "openshift-config-managed"]).unwrap();
        let data: serde_json::Map<String, Value> =
            gates["data"].as_object().unwrap().keys().map(|gate| (gate.clone(), json!("true"))).collect();
        cluster.kubectl(&["create", "configmap", "admin-acks", "-n", "openshift-config"]);
        let patch = json!({"data": data}).to_string();
        cluster.kubectl(&["patch", "configmap", "admin-acks", "-n", "openshift-config", "--type", "merge", "-p", &patch]).ok();
        let wish = json!({"spec": {"desiredUpdate": {"image": image, "version": "", "force": true}}}).to_string();
        cluster.kubectl(&["patch", "clusterversion", "version", "--type", "merge", "-p", &wish]).ok();
    }
    let begun = Instant::now();
    until(&ours, VERSIONS[1]);
    eprintln!("ours updated in {:?}", begun.elapsed());
    until(&upstream, VERSIONS[1]);
    eprintln!("upstream updated in {:?}", begun.elapsed());
    settled("update", &ours, &upstream);
    fs::remove_dir_all(retrieved).unwrap();
}

/// Waits for a release, longer than a test of ours would.
fn until(cluster: &Cluster, version: &str) {
    let begun = Instant::now();
    loop {
        let object = cluster.get(&VERSION).unwrap_or_default();
        if is_at(version)(&object) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{version} is not there: {:#}", object["status"]["conditions"]);
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Compares until both are at rest.
fn settled(step: &str, ours: &Cluster, upstream: &Cluster) {
    let mut last = (0, Vec::new());
    for _ in 0..6 {
        last = differences(ours, upstream);
        if last.1.is_empty() {
            eprintln!("{step}: {} objects are equal", last.0);
            return;
        }
        std::thread::sleep(Duration::from_secs(5));
    }
    let shown: Vec<String> = last.1.iter().map(ToString::to_string).collect();
    panic!("{step}: {} differences in {} objects\n{}", shown.len(), last.0, shown.join("\n"));
}

/// MD5, by which the program names folders; it protects nothing.
fn md5(text: &str) -> Vec<u8> {
    let out = Command::new("openssl").args(["dgst", "-md5", "-binary"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = out.expect("openssl is there");
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), text.as_bytes()).unwrap();
    drop(child.stdin.take());
    child.wait_with_output().unwrap().stdout
}

fn copy(from: &Path, to: &Path) {
    for folder in ["manifests", "release-manifests"] {
        fs::create_dir_all(to.join(folder)).expect("the folder of retrieved releases can be written");
        for file in fs::read_dir(from.join(folder)).unwrap() {
            let path = file.unwrap().path();
            fs::copy(&path, to.join(folder).join(path.file_name().unwrap())).unwrap();
        }
    }
}
