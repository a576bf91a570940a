//! Pods of catalogs, compared with those of OLM v0.42: `registry/pods.jsonl` has CatalogSources of our own, and what
//! `reconciler.Pod(source, "registry-server", opm, util, image, account, labels, annotations, 5, 10, user, default)` returned for each.

use jiff::Timestamp;
use mainstay_objects::{Patch, Step};
use mainstay_olm_classic_core::catalog_source::registry::{Facts, Plan, Serving, Tools, leftovers, plan, pod};
use serde_json::{Value, json};

const RECORDED: &str = include_str!("registry/pods.jsonl");

/// OLM0-CAT-06, OLM0-CAT-07, OLM0-CAT-08, OLM0-CAT-09, OLM0-CAT-11, OLM0-CAT-14, OLM0-CAT-15, OLM0-CAT-17, OLM0-ADMIN-42: pods are those that
/// upstream's own code makes, with the hash of their specs.
#[test]
fn pods_as_upstream_makes_them() {
    let mut wrong = Vec::new();
    for (number, line) in RECORDED.lines().enumerate() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let (case, answer) = (&recorded["case"], &recorded["answer"]);
        let tools = Tools { user: case["user"].as_i64().filter(|user| *user > 0), ..Tools::default() };
        let made = pod(&case["source"], &tools, Some(&case["account"]), case["default"] == "restricted").unwrap();
        assert_eq!(made["metadata"]["ownerReferences"][0]["controller"], true);
        for part in ["/spec", "/metadata/labels", "/metadata/annotations", "/metadata/generateName", "/metadata/namespace"] {
            if made.pointer(part) != answer.pointer(part) {
                wrong.push(format!("{number}: {part}\n{}\n{}", made.pointer(part).unwrap(), answer.pointer(part).unwrap()));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ, the first: {}", wrong.len(), RECORDED.lines().count(), wrong[0]);
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn source() -> Value {
    json!({
        "metadata": {"name": "team", "namespace": "market", "uid": "u", "creationTimestamp": "2025-12-31T00:00:00Z"},
        "spec": {"sourceType": "grpc", "image": "r.test/c:v1", "secrets": ["login"], "updateStrategy": {"registryPoll": {"interval": "10m"}}},
        "status": {"latestImageRegistryPoll": "2025-12-31T23:55:00Z"},
    })
}

/// The objects of a source as a plan made them.
struct Scene {
    source: Value,
    objects: Vec<Value>,
    pods: Vec<Value>,
    restricted: bool,
}

impl Scene {
    fn new(source: Value) -> Self {
        Self { source, objects: Vec::new(), pods: Vec::new(), restricted: false }
    }

    fn plan(&self) -> Plan {
        let facts = Facts { objects: &self.objects, pods: &self.pods, restricted: self.restricted };
        plan(&self.source, &Tools::default(), &facts, now()).unwrap()
    }

    /// Does what a plan says, and returns what it was, in short.
    fn act(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        for step in self.plan().steps {
            match step {
                Step::Create(mut pod) => {
                    let name = format!("team-{}", self.pods.len());
                    done.push(format!("pod {name}"));
                    pod["metadata"]["name"] = json!(name);
                    pod["metadata"]["uid"] = json!(name);
                    self.pods.push(pod);
                }
                Step::CreateOnce(mut object) => {
                    done.push(format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap()));
                    object["metadata"]["uid"] = json!("1");
                    self.objects.push(object);
                }
                Step::Delete { object, .. } => {
                    done.push(format!("delete {} {}", object.kind, object.name));
                    let is = |one: &Value| one["kind"] == *object.kind && one["metadata"]["name"] == *object.name;
                    self.objects.retain(|one| !is(one));
                    self.pods.retain(|one| !is(one));
                }
                Step::Apply { object, .. } => {
                    let name = object["metadata"]["name"].as_str().unwrap();
                    done.push(format!("apply {} {name}", object["kind"].as_str().unwrap()));
                    let live =
                        self.objects.iter_mut().find(|one| one["kind"] == object["kind"] && one["metadata"]["name"] == *name).unwrap();
                    let applied = object["imagePullSecrets"].as_array().cloned().unwrap_or_default();
                    let others = live["imagePullSecrets"].as_array().unwrap().iter().filter(|secret| secret["name"] == "platform");
                    live["imagePullSecrets"] = others.cloned().chain(applied).collect();
                }
                Step::Patch { object, patch: Patch::Merge(patch), .. } => {
                    done.push(format!("patch {} {}", object.kind, object.name));
                    let all = self.objects.iter_mut().chain(&mut self.pods);
                    let live = all.into_iter().find(|one| one["kind"] == *object.kind && one["metadata"]["name"] == *object.name).unwrap();
                    for (label, value) in patch["metadata"]["labels"].as_object().into_iter().flatten() {
                        live["metadata"]["labels"][label] = value.clone();
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        done
    }

    fn ready(&mut self, pod: usize, id: &str) {
        self.pods[pod]["status"] = json!({
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "registry-server", "imageID": id}],
        });
    }
}

const MADE: [&str; 5] =
    ["NetworkPolicy team-grpc-server", "NetworkPolicy team-unpack-bundles", "ServiceAccount team", "Service team", "pod team-0"];

/// OLM0-CAT-10, OLM0-CAT-16, OLM0-CAT-17: what a source needs is made once and made again when it is missing; a change of the image, the
/// pod's configuration, the Secrets or the namespace's rule makes the pod again.
#[test]
fn objects_are_made_and_made_again() {
    let mut scene = Scene::new(source());
    assert_eq!(scene.act(), MADE);
    assert_eq!(scene.objects[2]["imagePullSecrets"], json!([{"name": "login"}]));
    assert_eq!(scene.pods[0]["spec"]["imagePullSecrets"], json!([{"name": "login"}]));
    assert_eq!(scene.plan().serving, Serving::Starting);
    scene.ready(0, "r.test/c@sha256:1");
    assert_eq!(scene.act(), [""; 0]);
    assert_eq!(scene.plan().serving, Serving::Ready { pod: "team-0".into(), image_id: "r.test/c@sha256:1".into() });
    for (missing, made) in MADE.iter().enumerate().take(4) {
        let taken = scene.objects.remove(missing);
        assert_eq!(scene.act(), [*made], "{taken}");
        let last = scene.objects.pop().unwrap();
        scene.objects.insert(missing, last);
    }
    scene.pods.clear();
    assert_eq!(scene.act(), ["pod team-0"]);
    let changes: [fn(&mut Scene); 5] = [
        |scene| scene.source["spec"]["image"] = json!("r.test/c:v2"),
        |scene| scene.source["spec"]["grpcPodConfig"] = json!({"priorityClassName": "system-node-critical"}),
        |scene| scene.source["metadata"]["annotations"] = json!({"operatorframework.io/priorityclass": "mine"}),
        |scene| scene.restricted = true,
        |scene| scene.pods[0]["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True"}]),
    ];
    for change in changes {
        change(&mut scene);
        assert_eq!(scene.act(), ["pod team-1", "delete Pod team-0"]);
        scene.pods[0]["metadata"]["name"] = json!("team-0");
    }
    // Another Secret, beside one of the platform; the one before goes.
    scene.source["spec"]["secrets"] = json!(["other"]);
    scene.objects[2]["imagePullSecrets"] = json!([{"name": "login"}, {"name": "platform"}]);
    scene.objects[2]["metadata"]["managedFields"] = json!([
        {"manager": "catalog", "fieldsV1": {"f:imagePullSecrets": {".": {}, "k:{\"name\":\"login\"}": {}}}},
        {"manager": "platform", "fieldsV1": {"f:imagePullSecrets": {"k:{\"name\":\"platform\"}": {}}}},
    ]);
    assert_eq!(scene.act(), ["apply ServiceAccount team", "pod team-1", "delete Pod team-0"]);
    assert_eq!(scene.objects[2]["imagePullSecrets"], json!([{"name": "platform"}, {"name": "other"}]));
    assert_eq!(scene.pods[0]["spec"]["imagePullSecrets"], json!([{"name": "platform"}, {"name": "other"}]));
    scene.pods[0]["metadata"]["name"] = json!("team-0");
    assert_eq!(scene.act(), [""; 0]);
    let left = leftovers(&scene.source, &scene.objects, &scene.pods);
    assert_eq!(left.len(), 5);
}

/// OLM0-ADMIN-22: what a pod waits for is told with its name.
#[test]
fn why_a_pod_does_not_serve() {
    let mut scene = Scene::new(source());
    scene.act();
    let waiting = json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image \"r.test/c:v1\""});
    scene.pods[0]["status"] =
        json!({"phase": "Pending", "containerStatuses": [{"name": "registry-server", "state": {"waiting": waiting}}]});
    let told = "pod market/team-0: container registry-server is waiting: ImagePullBackOff: Back-off pulling image \"r.test/c:v1\"";
    assert_eq!(scene.plan().serving, Serving::Failing(told.into()));
    scene.pods[0]["status"] =
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]});
    assert_eq!(scene.plan().serving, Serving::Failing("pod market/team-0 has no node: 0/3 nodes".into()));
}

/// OLM0-CAT-22, OLM0-CAT-24: a poll starts a pod beside the one that serves; another image takes over, the same one goes, and a failing one.
#[test]
fn polls_by_pods() {
    let mut scene = Scene::new(source());
    scene.act();
    scene.ready(0, "r.test/c@sha256:1");
    assert_eq!((scene.plan().polled, scene.plan().again), (false, Some(std::time::Duration::from_secs(300))));
    scene.source["status"]["latestImageRegistryPoll"] = json!("2025-12-31T23:50:00Z");
    assert!(scene.plan().polled);
    assert_eq!(scene.act(), ["pod team-1"]);
    let labels = &scene.pods[1]["metadata"]["labels"];
    assert_eq!((&labels["olm.catalogSource"], &labels["catalogsource.operators.coreos.com/update"]), (&json!(""), &json!("team")));
    scene.source["status"]["latestImageRegistryPoll"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(scene.act(), [""; 0], "it is not ready yet");
    let begun = scene.pods[1].clone();
    scene.ready(1, "r.test/c@sha256:1");
    assert_eq!(scene.act(), ["delete Pod team-1"], "nothing is new");
    for waiting in [
        json!({"phase": "Failed"}),
        json!({"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
    ] {
        let mut failed = begun.clone();
        failed["status"] = waiting;
        scene.pods.push(failed);
        assert_eq!(scene.act(), ["delete Pod team-1"]);
        assert!(matches!(scene.plan().serving, Serving::Ready { .. }));
    }
    scene.pods.push(begun);
    scene.ready(1, "r.test/c@sha256:2");
    assert_eq!(scene.act(), ["patch Pod team-1", "delete Pod team-0"]);
    assert_eq!(scene.plan().serving, Serving::Ready { pod: "team-1".into(), image_id: "r.test/c@sha256:2".into() });
    assert_eq!(scene.act(), [""; 0]);
    scene.source["spec"].as_object_mut().unwrap().remove("updateStrategy");
    assert_eq!((scene.plan().polled, scene.plan().again), (false, None));
}

/// OLM0-CAT-03, OLM0-CAT-06: a catalog in a ConfigMap has a pod of its own kind, made again with each version of the ConfigMap.
#[test]
fn pods_of_config_maps() {
    let mut source = json!({
        "metadata": {"name": "inline", "namespace": "market", "uid": "u"}, "spec": {"sourceType": "internal", "configMap": "catalog"},
        "status": {"configMapReference": {"resourceVersion": "5"}},
    });
    let mut scene = Scene::new(source.clone());
    let made = scene.act();
    assert_eq!(
        made,
        [
            "NetworkPolicy inline-grpc-server",
            "NetworkPolicy inline-unpack-bundles",
            "ServiceAccount inline-configmap-server",
            "Role inline-configmap-reader",
            "RoleBinding inline-server-configmap-reader",
            "Service inline",
            "pod team-0",
        ]
    );
    let pod = &scene.pods[0];
    assert_eq!(pod["metadata"]["labels"]["olm.configMapResourceVersion"], "5");
    assert_eq!(pod["spec"]["serviceAccountName"], "inline-configmap-server");
    assert_eq!(pod["spec"]["containers"][0]["command"], json!(["configmap-server", "-c", "catalog", "-n", "market"]));
    assert_eq!(scene.act(), [""; 0]);
    source["status"]["configMapReference"]["resourceVersion"] = json!("6");
    scene.source = source;
    let policy = ["delete NetworkPolicy inline-grpc-server", "NetworkPolicy inline-grpc-server"];
    assert_eq!(scene.act(), [policy[0], policy[1], "pod team-1", "delete Pod team-0"]);
}
