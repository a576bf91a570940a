//! Releases that pods retrieve. The kubelet is played: it does what the containers say, in a folder of the test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use kube::api::GroupVersionKind;
use mainstay_apply::Writer;
use mainstay_cluster_version::{Genuine, Images, NAMESPACE, PodSettings, Pods, Proof, Releases, RetrieveError};
use mainstay_cluster_version_core::payload_pod::{LABEL, folder_name};
use mainstay_cluster_version_core::wanted::Wanted;
use mainstay_objects::{Expect, ObjectRef, Propagation};
use mainstay_release::Files;
use mainstay_release_source::ReadError;
use mainstay_runtime::{Cluster, Env, Kinds};
use mainstay_testing_cluster::administrator;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cluster::{Stock, World, condition, place, version};
use crate::releases::{completed, image, release, wish, world};

/// The fate of a pod.
#[derive(Clone, Debug)]
enum Fate {
    /// Every container does its work.
    Runs,
    /// That many containers do, and the status becomes this.
    Stops(usize, Value),
    /// It is deleted after that many containers.
    Vanishes(usize),
    /// Nothing happens.
    Hangs,
}

/// Pods that retrieve releases; they are verified as those of the stock are.
struct Shop {
    pods: Pods,
    stock: Arc<Stock>,
}

impl Releases for Shop {
    fn files<'a>(&'a self, wanted: &'a Wanted, deadline: Instant) -> BoxFuture<'a, Result<Files, RetrieveError>> {
        self.pods.files(wanted, deadline)
    }

    fn verify<'a>(&'a self, question: Genuine<'a>) -> BoxFuture<'a, Result<Proof, RetrieveError>> {
        self.stock.verify(question)
    }

    fn verified(&self) -> Option<Value> {
        None
    }
}

fn no_registry() -> Result<mainstay_oci::Client, ReadError> {
    Err(ReadError::NoFile("no registry is asked".into()))
}

struct Node {
    world: World,
    folder: tempfile::TempDir,
    fate: Arc<Mutex<Fate>>,
    /// The pods that were seen.
    seen: Arc<Mutex<Vec<Value>>>,
    _kubelet: DropGuard,
}

impl Node {
    async fn new(releases: &[(&str, Files)]) -> Self {
        let world = world(releases).await;
        // What an OpenShift cluster has.
        for object in [
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}),
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "openshift-user-critical"}, "value": 1_000_000_000}),
        ] {
            world.admin.apply(&object, true, &Expect::default()).await.unwrap();
        }
        let (folder, fate, seen, stop) =
            (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(Fate::Runs)), Arc::default(), CancellationToken::new());
        let kubelet = Kubelet {
            admin: world.admin.clone(),
            stock: world.stock.clone(),
            fate: fate.clone(),
            seen: Arc::clone(&seen),
            images: tempfile::tempdir().unwrap(),
        };
        let until = stop.clone();
        tokio::spawn(async move { until.run_until_cancelled(kubelet.run()).await });
        Self { world, folder, fate, seen, _kubelet: stop.drop_guard() }
    }

    fn retriever(&self) -> Arc<Shop> {
        let client = Cluster::Embedded { router: self.world.server.router(), identity: administrator }.client().unwrap();
        let writer = Writer::new(client.clone(), Kinds::new(client), "test");
        let images = Images::new(Arc::new(no_registry), BTreeMap::new());
        let settings = PodSettings { namespace: NAMESPACE.to_owned(), node: "master-0".to_owned(), folder: self.folder.path().to_owned() };
        Arc::new(Shop { pods: Pods::new(images, writer, Env::system(), settings), stock: self.world.stock.clone() })
    }

    fn fate(&self, fate: Fate) {
        *self.fate.lock().unwrap() = fate;
    }

    fn seen(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// Retrieves within this time; the number of files, or the error with the random end of the pod's name taken out.
    async fn retrieve(&self, number: &str, within: Duration) -> Result<usize, String> {
        let wanted = Wanted { version: number.to_owned(), image: image(number), force: false };
        let found = self.retriever().files(&wanted, Instant::now() + within).await;
        let name = self.seen.lock().unwrap().last().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        found.map(|files| files.ordered().count()).map_err(|error| {
            let text = error.to_string().replace(self.folder.path().to_str().unwrap(), "FOLDER");
            name.map_or(text.clone(), |name| text.replace(&name, "POD"))
        })
    }

    fn content(&self, number: &str) -> PathBuf {
        self.folder.path().join(folder_name(&image(number)))
    }

    async fn pods(&self) -> Vec<Value> {
        self.world.admin.list(&GroupVersionKind::gvk("", "v1", "Pod"), 100).await.unwrap()
    }
}

struct Kubelet {
    admin: Writer,
    stock: Arc<Stock>,
    fate: Arc<Mutex<Fate>>,
    seen: Arc<Mutex<Vec<Value>>>,
    images: tempfile::TempDir,
}

impl Kubelet {
    async fn run(self) {
        loop {
            let pods = self.admin.list(&GroupVersionKind::gvk("", "v1", "Pod"), 100).await.unwrap_or_default();
            for pod in pods {
                let is_new = !self.seen.lock().unwrap().iter().any(|seen| seen["metadata"]["uid"] == pod["metadata"]["uid"]);
                if pod["metadata"]["labels"][LABEL.0] == LABEL.1 && is_new {
                    self.seen.lock().unwrap().push(pod.clone());
                    self.play(&pod).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn play(&self, pod: &Value) {
        let place = ObjectRef::of(pod).unwrap();
        let fate = self.fate.lock().unwrap().clone();
        let status = match fate {
            Fate::Hangs => return,
            Fate::Runs => {
                self.containers(pod, usize::MAX);
                json!({"phase": "Succeeded"})
            }
            Fate::Stops(count, status) => {
                self.containers(pod, count);
                status
            }
            Fate::Vanishes(count) => {
                self.containers(pod, count);
                let now = Expect::default();
                self.admin.delete(&place, &now, Propagation::Background).await.unwrap();
                // The kubelet that would confirm it is gone.
                if let Some(live) = self.admin.get(&place).await.unwrap() {
                    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}).to_string();
                    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{}", place.name);
                    let request = axum::http::Request::delete(path).header("content-type", "application/json").body(options.into_bytes());
                    let _: Value = self.admin.client().request(request.unwrap()).await.unwrap();
                    assert!(live["metadata"]["deletionTimestamp"].is_string());
                }
                return;
            }
        };
        let live = self.admin.get(&place).await.unwrap();
        if let Some(live) = live {
            let _ = self.admin.update_status(&live, &status).await;
        }
    }

    /// Runs the commands of the first containers, with a fresh image each.
    fn containers(&self, pod: &Value, count: usize) {
        let spec = &pod["spec"];
        let all = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
        for container in all("initContainers").iter().chain(&all("containers")).take(count) {
            let root = self.image(container["image"].as_str().unwrap());
            let words: Vec<String> =
                container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect();
            let inside = |word: &String| match word.as_str() {
                "/manifests" | "/release-manifests" => format!("{}{word}", root.display()),
                _ => word.clone(),
            };
            let mut command = Command::new(&words[0]);
            command.args(words[1..].iter().map(inside));
            if let Some(folder) = container["workingDir"].as_str() {
                command.current_dir(folder);
            }
            assert!(command.status().unwrap().success(), "{words:?}");
        }
    }

    fn image(&self, image: &str) -> PathBuf {
        let root = self.images.path().join(folder_name(image));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("manifests")).unwrap();
        let files = self.stock.files.lock().unwrap().get(image).cloned().unwrap();
        for (folder, name, content) in files.ordered() {
            let path = root.join(folder.name()).join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        root
    }
}

const SOON: Duration = Duration::from_secs(60);

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// CVO-RET-02, CVO-RET-03, CVO-RET-04: a pod fills the folder of the image and nothing else, content that is there is taken as it is, what an earlier
/// retrieval left is deleted first, and a folder that is only half there is retrieved again.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_filled() {
    let node = Node::new(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[]))]).await;
    std::fs::create_dir(node.folder.path().join("stale-abcde")).unwrap();
    let count = release("1.0.1", &[]).ordered().count();
    assert_eq!(node.retrieve("1.0.1", SOON).await, Ok(count));
    assert_eq!(entries(node.folder.path()), [folder_name(&image("1.0.1"))]);
    let first = node.pods().await;
    assert_eq!(first.len(), 1);
    assert_eq!((&first[0]["spec"]["nodeName"], &first[0]["metadata"]["namespace"]), (&json!("master-0"), &json!(NAMESPACE)));

    // Other things of the namespace stay.
    let job = |name: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
    };
    for name in ["version-1.0.0-x", "must-gather"] {
        node.world.admin.create(&job(name)).await.unwrap();
    }
    assert_eq!(node.retrieve("1.0.1", SOON).await, Ok(count));
    assert_eq!(node.seen(), 1, "no pod: the content is there");
    let job = |name: &str| place("batch/v1", "Job", NAMESPACE, name);
    assert!(node.world.admin.get(&job("version-1.0.0-x")).await.unwrap().is_none());
    assert!(node.world.admin.get(&job("must-gather")).await.unwrap().is_some());
    assert!(node.pods().await.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_string()), "the first pod is deleted");

    // Half of it.
    std::fs::remove_file(node.content("1.0.1").join("release-manifests/release-metadata")).unwrap();
    assert_eq!(node.retrieve("1.0.1", SOON).await, Ok(count));
    assert_eq!(node.seen(), 2);
}

/// CVO-RET-05, CVO-RET-04: each way in which a pod fails, in upstream's words; what it left behind is never taken for a release.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_fail() {
    let node = Node::new(&[("1.0.1", release("1.0.1", &[]))]).await;
    let waiting = |reason: &str, message: &str| {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        json!({"phase": "Pending", "initContainerStatuses": [
            {"name": "cleanup", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}]})
    };
    let failed = json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"});
    let cases = [
        (
            Fate::Stops(0, waiting("ErrImagePull", "reading manifest: manifest unknown")),
            SOON,
            r#"fetching update payload: pod POD failed at pending with reason "" and message "" and status initcontainer cleanup is waiting with reason "ErrImagePull" and message "reading manifest: manifest unknown""#,
        ),
        (
            Fate::Stops(4, failed),
            SOON,
            r#"fetching update payload: pod POD failed with reason "DeadlineExceeded" and message "Pod was active on the node longer than the specified deadline" and status "#,
        ),
        (Fate::Vanishes(3), SOON, "fetching update payload: pod POD was deleted before it completed"),
        // A kubelet that says that it is done, and is not.
        (
            Fate::Stops(4, json!({"phase": "Succeeded"})),
            SOON,
            r#"confirming the presence of release-image content in "FOLDER/HASH": stat FOLDER/HASH/manifests: no such file or directory"#,
        ),
        (
            Fate::Stops(0, waiting("ErrImagePull", "no route to host")),
            Duration::from_millis(300),
            "fetching update payload: timed out waiting for the condition",
        ),
        (Fate::Hangs, Duration::from_millis(300), "fetching update payload: timed out waiting for the condition"),
    ];
    for (fate, within, expected) in cases {
        node.fate(fate.clone());
        let hash = folder_name(&image("1.0.1"));
        assert_eq!(node.retrieve("1.0.1", within).await.map_err(|text| text.replace(&hash, "HASH")), Err(expected.to_owned()), "{fate:?}");
        assert!(!node.content("1.0.1").exists(), "{fate:?}");
    }
    node.fate(Fate::Runs);
    assert!(node.retrieve("1.0.1", SOON).await.is_ok());
    assert_eq!(entries(node.folder.path()), [folder_name(&image("1.0.1"))], "what failed pods left is gone");

    // The API refuses the pod, and the pruning.
    std::fs::remove_dir_all(node.content("1.0.1")).unwrap();
    let class = place("scheduling.k8s.io/v1", "PriorityClass", "", "openshift-user-critical");
    node.world.admin.delete(&class, &Expect::default(), Propagation::Background).await.unwrap();
    let refused = node.retrieve("1.0.1", SOON).await.unwrap_err();
    assert!(refused.starts_with("fetching update payload: ") && refused.contains("openshift-user-critical"), "{refused}");
    // A file in the place of the folder.
    std::fs::write(node.content("1.0.1"), "").unwrap();
    let odd = node.retrieve("1.0.1", SOON).await.unwrap_err();
    assert!(odd.starts_with("checking to see if \"FOLDER/"), "{odd}");
}

/// CVO-RET-02, CVO-RET-05, CVO-RET-08, CVO-COND-06: an update whose pod fails shows why and leaves the release in force; the operator is killed in the
/// middle of the next attempt, and the one that follows deletes its pod and completes the update from a whole folder.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_by_pods() {
    let node = Node::new(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[]))]).await;
    let world = &node.world;
    let _operators = world.operators(&[]);
    let operator = world.retrieving(node.retriever(), &image("1.0.1"), 200.0);
    world.until(&version(), 30, completed("1.0.1")).await;
    assert_eq!(node.seen(), 1, "its own release, too: this program is part of none");

    let refused = json!({"phase": "Pending", "initContainerStatuses": [{"name": "cleanup", "image": "i", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": {"reason": "SignatureValidationFailed", "message": "no signature exists"}}}]});
    node.fate(Fate::Stops(0, refused));
    wish(world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    let object = world.until(&version(), 30, |object| condition(object, "ReleaseAccepted").starts_with("False RetrievePayload")).await;
    let said = condition(&object, "ReleaseAccepted");
    let expected = format!(
        "False RetrievePayload: Retrieving payload failed version=\"1.0.2\" image=\"{}\" failure=Unable to download and prepare the update: \
         fetching update payload: pod version-1.0.2-",
        image("1.0.2")
    );
    assert!(said.starts_with(&expected), "{said}");
    let end = "is waiting with reason \"SignatureValidationFailed\" and message \"no signature exists\"";
    assert!(said.ends_with(end), "{said}");
    assert_eq!(object["status"]["desired"]["version"], "1.0.1");

    // Killed while a pod has done a part of its work.
    node.fate(Fate::Stops(3, json!({"phase": "Running"})));
    let before = node.seen();
    for _ in 0..600 {
        let running =
            node.pods().await.iter().any(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null());
        if node.seen() > before && running {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let half: Vec<String> = entries(node.folder.path());
    assert!(half.iter().any(|name| name.starts_with(&format!("{}-", folder_name(&image("1.0.2"))))), "{half:?}");
    drop(operator);
    let killed = node.pods().await.into_iter().find(|pod| pod["metadata"]["deletionTimestamp"].is_null()).unwrap();
    node.fate(Fate::Runs);
    let _operator = world.retrieving(node.retriever(), &image("1.0.1"), 200.0);
    let object = world.until(&version(), 30, completed("1.0.2")).await;
    assert!(object["status"]["history"][0]["verified"] == true, "{:#}", object["status"]["history"]);
    assert!(condition(&object, "ReleaseAccepted").starts_with("True PayloadLoaded"));
    let left = node.pods().await;
    let old = left.iter().find(|pod| pod["metadata"]["uid"] == killed["metadata"]["uid"]);
    assert!(old.is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string()), "{old:?}");
    assert_eq!(entries(node.folder.path()), [folder_name(&image("1.0.2"))]);
}
