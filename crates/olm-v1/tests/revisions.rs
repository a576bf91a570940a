//! Revisions with the real controllers on the embedded API: the gate between phases, the way back, and how many are kept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use k8s_openapi::api::core::v1::Secret;
use kube::api::GroupVersionKind;
use mainstay_lifecycle::health_gate::{HEALTHY_WITHIN, ON_UNHEALTHY};
use mainstay_lifecycle::revision::KEPT;
use mainstay_lifecycle::revision::{History, State};
use mainstay_objects::{ObjectRef, Patch};
use mainstay_oci::{ClientConfig, ImageBuilder};
use mainstay_olm_v1_core::extension::record::{self, EXTENSION_LABEL};
use mainstay_testing::widgets::{Content, files};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Api, SYSTEM, catalog, catalog_image, catalog_object, catalog_text, condition, extension, extension_object, place, registry, setup,
};

/// What controllers write, and where they are killed.
#[derive(Default)]
struct Wire {
    /// Method and address of each write, in order.
    writes: Mutex<Vec<String>>,
    /// The process ends before this write, counted from the next record that is made.
    kill_at: Mutex<Option<usize>>,
    counted: AtomicUsize,
    dead: Notify,
}

impl Wire {
    fn arm(&self, at: usize) {
        self.counted.store(0, Ordering::SeqCst);
        *self.kill_at.lock().unwrap() = Some(at);
    }

    fn disarm(&self) {
        *self.kill_at.lock().unwrap() = None;
    }

    /// Whether this write is not to come any more.
    fn ends(&self, write: &str) -> bool {
        let Some(at) = *self.kill_at.lock().unwrap() else { return false };
        if self.counted.load(Ordering::SeqCst) == 0 && !(write.starts_with("POST") && write.contains("/secrets")) {
            return false;
        }
        self.counted.fetch_add(1, Ordering::SeqCst) >= at
    }
}

async fn remember(Shared(wire): Shared<Arc<Wire>>, request: Request, next: Next) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let write = format!("{} {}", request.method(), request.uri());
        if wire.ends(&write) {
            wire.dead.notify_one();
            return std::future::pending().await;
        }
        wire.writes.lock().unwrap().push(write);
    }
    next.run(request).await
}

/// An embedded cluster with both controllers, a catalog of these bundles, and an account that may do everything.
struct World {
    api: Api,
    wire: Arc<Wire>,
    registry: CancellationToken,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

/// Both controllers on the wire.
fn controllers(api: &Api, wire: &Arc<Wire>) -> (CancellationToken, JoinHandle<()>) {
    let router: Router = api.server.router().layer(from_fn_with_state(wire.clone(), remember));
    let stop = CancellationToken::new();
    (stop.clone(), tokio::spawn(setup(api, router).open().unwrap().run(stop)))
}

impl World {
    async fn start(bundles: &[(&str, Content)]) -> Self {
        let api = Api::start().await;
        let held = CancellationToken::new();
        let (_, address) = registry(mainstay_oci::registry::Options::default(), &held).await;
        let mut images = Vec::new();
        for (version, content) in bundles {
            let files = files(version, content).into_iter().map(|(path, text)| (path, text.into_bytes()));
            let target = format!("{address}/test/widgets:v{version}");
            let image = api.push(ClientConfig::default(), &target, ImageBuilder::new().files(files)).await;
            images.push((*version, format!("{address}/test/widgets@{}", image.digest.as_str())));
        }
        let images: Vec<(&str, &str)> = images.iter().map(|(version, image)| (*version, image.as_str())).collect();
        let reference = format!("{address}/test/catalog:latest");
        api.push(ClientConfig::default(), &reference, catalog_image(&catalog_text("widgets", &images))).await;
        let wire = Arc::new(Wire::default());
        let (stop, running) = controllers(&api, &wire);
        api.apply(catalog_object("test", &reference)).await;
        api.until(&catalog("test"), |catalog| condition(catalog, "Serving")["status"] == "True").await;
        api.installer().await;
        Self { api, wire, registry: held, stop, running }
    }

    /// Kills the controllers, and starts them anew.
    async fn restart(&mut self) {
        self.running.abort();
        assert!((&mut self.running).await.is_err(), "they were killed");
        self.stop.cancel();
        self.wire.disarm();
        (self.stop, self.running) = controllers(&self.api, &self.wire);
    }

    async fn request(&self, version: Option<&str>, annotations: &Value) {
        let mut object = extension_object("widgets", "widgets", "work");
        object["metadata"]["annotations"] = annotations.clone();
        if let Some(version) = version {
            object["spec"]["source"]["catalog"]["version"] = json!(version);
        }
        self.api.apply(object).await;
    }

    async fn installed(&self, version: &str) -> Value {
        let reached = |object: &Value| {
            object["status"]["install"]["bundle"]["version"] == version && condition(object, "Progressing")["reason"] == "Succeeded"
        };
        self.api.until(&extension("widgets"), reached).await
    }

    async fn said(&self, reason: &str) -> String {
        let said = |object: &Value| {
            let progressing = condition(object, "Progressing");
            progressing["reason"] == reason && progressing["observedGeneration"] == object["metadata"]["generation"]
        };
        let found = self.api.until(&extension("widgets"), said).await;
        condition(&found, "Progressing")["message"].as_str().unwrap().to_owned()
    }

    async fn history(&self) -> History {
        let uid = self.api.get(&extension("widgets")).await.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        let selector = format!("{}%3D{uid}", EXTENSION_LABEL.replace('/', "%2F"));
        let request =
            axum::http::Request::get(format!("/api/v1/namespaces/{SYSTEM}/secrets?labelSelector={selector}")).body(Vec::new()).unwrap();
        let list: Value = self.api.admin.client().request(request).await.unwrap();
        let secrets: Vec<Secret> = serde_json::from_value(list["items"].clone()).unwrap();
        record::read(&secrets).unwrap()
    }

    fn position(&self, part: &str) -> Option<usize> {
        self.wire.writes.lock().unwrap().iter().position(|write| write.contains(part))
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
        self.registry.cancel();
        self.api.close().await;
    }
}

fn deployment() -> ObjectRef {
    place("apps/v1", "Deployment", "work", "widgets")
}

/// MS-RB-01, OLM1-CTRL-03, OLM1-CTRL-08, OLM1-INST-17: the webhook is registered only when its Deployment is available; until then the condition says
/// what is waited for and the record stays pending; the Deployment's change goes on with it. A controller that starts anew goes on, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_waits_for_its_deployment() {
    let mut world = World::start(&[("1.0.0", Content { webhook: true, ..Content::default() })]).await;
    world.request(None, &json!({})).await;
    world.api.until(&deployment(), |live| !live.is_null()).await;
    let said = world.said("Retrying").await;
    assert!(said.starts_with("Deployment work/widgets is not healthy yet: "), "{said}");
    assert!(said.contains("; ValidatingWebhookConfiguration check.example.com"), "{said}");
    assert!(said.ends_with("comes after it for resolved bundle \"widgets.v1.0.0\" with version \"1.0.0\""), "{said}");
    assert_eq!(world.position("validatingwebhookconfigurations"), None);
    let history = world.history().await;
    assert_eq!((history.revisions.len(), history.revisions[0].state), (1, State::Pending));
    assert_eq!(history.revisions[0].notes.waits_before.as_deref(), Some("admission"));
    let waiting = world.api.get(&extension("widgets")).await.unwrap();
    assert_eq!(condition(&waiting, "Installed")["status"], "False");

    world.restart().await;
    world.api.make_available(&deployment()).await;
    world.installed("1.0.0").await;
    let order = [
        "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions?",
        "POST /api/v1/namespaces/work/serviceaccounts?",
        "PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/",
        "POST /api/v1/namespaces/work/services?",
        "POST /apis/apps/v1/namespaces/work/deployments?",
        "POST /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?",
    ];
    let places: Vec<usize> = order.iter().map(|part| world.position(part).unwrap_or_else(|| panic!("{part}"))).collect();
    assert!(places.is_sorted(), "{order:?}: {places:?}");
    let history = world.history().await;
    assert_eq!((history.revisions.len(), history.revisions[0].state), (1, State::Deployed));
    assert_eq!(history.revisions[0].notes.waits_before, None);
    let events = world.api.admin.list(&GroupVersionKind::gvk("events.k8s.io", "v1", "Event"), 500).await.unwrap();
    let resolved: Vec<&Value> = events.iter().filter(|event| event["reason"] == "Resolved").collect();
    assert!(resolved.len() == 1 && resolved[0]["series"].is_null(), "told once, however often it was looked at: {resolved:#?}");
    world.end().await;
}

/// MS-RB-01, OLM1-CTRL-11: an upgrade whose Deployment does not become available in its time is rolled back as the extension asks: the objects
/// are the old ones, the records tell it, the condition says it, and nobody tries again before the extension changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unhealthy_upgrade_is_rolled_back() {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": "b"}});
    let newer = Content { more: vec![config], fields: vec![("colour", json!({"type": "string"}))], ..Content::default() };
    let world = World::start(&[("1.0.0", Content::default()), ("1.1.0", newer)]).await;
    let asked = json!({ON_UNHEALTHY: "RollBack", HEALTHY_WITHIN: "1s"});
    world.request(Some("1.0.0"), &asked).await;
    world.installed("1.0.0").await;
    world.api.make_available(&deployment()).await;
    world.request(Some("1.1.0"), &asked).await;
    let said = world.said("Blocked").await;
    assert!(
        said.starts_with("widgets.v1.1.0 did not become healthy within 1s: Deployment work/widgets: generation 2 is not observed yet"),
        "{said}"
    );
    assert!(said.ends_with("rolled back to widgets.v1.0.0; change spec.source.catalog or the annotation to try again"), "{said}");
    let after = world.api.get(&extension("widgets")).await.unwrap();
    assert_eq!(after["status"]["install"]["bundle"]["version"], "1.0.0");
    assert_eq!(condition(&after, "Progressing")["status"], "False");
    assert_eq!(condition(&after, "Installed")["status"], "True");
    let live = world.api.get(&deployment()).await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/widgets:1.0.0");
    world.api.gone(&place("v1", "ConfigMap", "work", "new")).await;
    let history = world.history().await;
    let states: Vec<(u32, State, &str)> =
        history.revisions.iter().map(|one| (one.number, one.state, one.record.bundle.version.as_str())).collect();
    assert_eq!(states, [(1, State::Superseded, "1.0.0"), (2, State::Failed, "1.1.0"), (3, State::Deployed, "1.0.0")]);
    assert_eq!(history.revisions[1].notes.why.as_deref(), Some(said.as_str()));

    // Drift is repaired, the newer bundle stays away; then the request changes, and it is tried again.
    let drift = Patch::Merge(json!({"spec": {"replicas": 3}}));
    world.api.admin.patch(&deployment(), "", &drift).await.unwrap();
    world.api.until(&deployment(), |live| live["spec"]["replicas"] == 1).await;
    assert_eq!(world.history().await.revisions.len(), 3);
    world.request(Some(">=1.1.0"), &json!({})).await;
    world.installed("1.1.0").await;
    world.end().await;
}

/// MS-OPS-03, MS-RB-01: a controller that is killed at any write of a rollback is followed by one that ends it: the old objects and no others,
/// one deployed record, and the newer revision failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_that_is_killed_is_finished() {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": "b"}});
    let newer = Content { more: vec![config], ..Content::default() };
    let mut world = World::start(&[("1.0.0", Content::default()), ("1.1.0", newer)]).await;
    let asked = json!({ON_UNHEALTHY: "RollBack", HEALTHY_WITHIN: "1s"});
    let mut kills = 0;
    for at in [0, 1, 6, 9, 10, 11] {
        world.request(Some("1.0.0"), &json!({})).await;
        world.installed("1.0.0").await;
        world.api.make_available(&deployment()).await;
        world.request(Some("1.1.0"), &asked).await;
        world.api.until(&extension("widgets"), |object| object["status"]["install"]["bundle"]["version"] == "1.1.0").await;
        world.wire.arm(at);
        tokio::select! {
            () = world.wire.dead.notified() => kills += 1,
            _ = world.said("Blocked") => {}
        }
        world.restart().await;
        let said = world.said("Blocked").await;
        assert!(said.contains("rolled back to widgets.v1.0.0"), "{at}: {said}");
        let live = world.api.get(&deployment()).await.unwrap();
        assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/widgets:1.0.0", "{at}");
        world.api.gone(&place("v1", "ConfigMap", "work", "new")).await;
        let history = world.history().await;
        let [.., failed, deployed] = &history.revisions[..] else { panic!("{at}: {history:?}") };
        assert_eq!((failed.state, deployed.state), (State::Failed, State::Deployed), "{at}");
        assert_eq!(history.revisions.iter().filter(|revision| revision.state == State::Deployed).count(), 1, "{at}");
        assert_eq!(history.revisions.iter().filter(|revision| revision.state == State::Pending).count(), 0, "{at}");
    }
    assert!(kills >= 5, "{kills} kills");
    world.end().await;
}

/// OLM1-CTRL-11, OLM1-UPG-07, MS-RB-01: twelve upgrades leave the newest ten records, one of them deployed, the others superseded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twelve_upgrades_leave_ten_records() {
    let versions: Vec<String> = (0..13).map(|minor| format!("1.{minor}.0")).collect();
    let bundles: Vec<(&str, Content)> = versions.iter().map(|version| (version.as_str(), Content::default())).collect();
    let world = World::start(&bundles).await;
    world.request(Some("1.0.0"), &json!({})).await;
    world.installed("1.0.0").await;
    world.request(None, &json!({})).await;
    world.installed("1.12.0").await;
    let history = world.history().await;
    let numbers: Vec<u32> = history.revisions.iter().map(|revision| revision.number).collect();
    assert_eq!(numbers, (4..=13).collect::<Vec<u32>>());
    assert_eq!(numbers.len(), KEPT);
    let deployed = history.revisions.iter().filter(|revision| revision.state == State::Deployed).count();
    assert_eq!((deployed, history.installed().unwrap().number), (1, 13));
    assert!(history.revisions[..9].iter().all(|revision| revision.state == State::Superseded));
    world.end().await;
}

/// OLM1-CTRL-11, OLM1-OWN-01, MS-OPS-03: twelve attempts that do not come to their end, each with an object of its own, and controllers that are
/// killed after the eleventh: the one that ends at last clears what every one of them left, and ten records stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_old_attempts_left_is_cleared() {
    const TRIES: usize = 12;
    let content = |minor: usize| {
        let own = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("only-{minor}")}, "data": {"a": "b"}});
        // Its webhook waits for the Deployment, which nobody makes available.
        Content { webhook: true, more: vec![own], ..Content::default() }
    };
    let versions: Vec<String> = (0..TRIES).map(|minor| format!("1.{minor}.0")).collect();
    let bundles: Vec<(&str, Content)> = versions.iter().enumerate().map(|(minor, version)| (version.as_str(), content(minor))).collect();
    let mut world = World::start(&bundles).await;
    let own = |minor: usize| place("v1", "ConfigMap", "work", &format!("only-{minor}"));
    for (minor, version) in versions.iter().enumerate() {
        if minor == 11 {
            world.restart().await;
        }
        world.request(Some(version), &json!({})).await;
        let said = world.said("Retrying").await;
        assert!(said.contains("is not healthy yet") && said.ends_with(&format!("with version {version:?}")), "{said}");
        assert!(world.api.get(&own(minor)).await.is_some());
    }
    let history = world.history().await;
    assert!(history.revisions.iter().all(|revision| revision.state == State::Pending));
    assert_eq!(history.revisions.len(), TRIES, "each alone knows of an object");
    world.api.make_available(&deployment()).await;
    world.installed("1.11.0").await;
    for minor in 0..TRIES - 1 {
        world.api.gone(&own(minor)).await;
    }
    assert!(world.api.get(&own(TRIES - 1)).await.is_some());
    let history = world.history().await;
    assert_eq!((history.revisions.len(), history.installed().unwrap().number), (KEPT, 12));
    world.end().await;
}
