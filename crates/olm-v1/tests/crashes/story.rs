//! What people do with extensions beside installing and removing one: changes wait for an approval, two that need each other are upgraded
//! together with a CRD that has objects, an unhealthy upgrade is rolled back, and what others need is removed; the catalog is polled meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainstay_lifecycle::health_gate::{HEALTHY_WITHIN, ON_UNHEALTHY};
use mainstay_lifecycle::revision::{History, State};
use mainstay_objects::Patch;
use mainstay_oci::{ClientConfig, ImageBuilder};
use mainstay_olm_v1_core::extension::record::{self, EXTENSION_LABEL};
use mainstay_testing::widgets::{Content, files};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::process::{Clocks, Process, chain, env};
use super::wire::{Fault, Wire};
use super::world::{PATIENCE, place_of};
use crate::support::bench::cluster_extension;
use crate::support::{Api, SYSTEM, catalog, catalog_image, condition, extension, place, registry, setup};

/// The chapters, in order.
pub const CHAPTERS: [&str; 6] = ["asked", "approved", "upgraded together", "rolled back", "needed one removed", "all removed"];

/// What goes wrong in each chapter.
#[derive(Clone, Copy, Debug)]
pub struct Tale {
    pub seed: u64,
    pub faults: [Fault; CHAPTERS.len()],
    pub clocks: [Clocks; 2],
}

/// A cluster in which the story is told again and again.
pub struct Stage {
    api: Api,
    registry: String,
    stop: CancellationToken,
    started: AtomicU64,
}

const KINDS: [(&str, &str, &str); 5] = [
    ("/apis/apps/v1/deployments", "apps/v1", "Deployment"),
    ("/api/v1/configmaps", "v1", "ConfigMap"),
    ("/api/v1/serviceaccounts", "v1", "ServiceAccount"),
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];
const PLANS: &str = "/apis/lifecycle.mainstay.dev/v1alpha1/changeplans";

impl Stage {
    pub async fn start() -> Self {
        let api = Api::start().await;
        let stop = CancellationToken::new();
        let (_, registry) = registry(mainstay_oci::registry::Options::default(), &stop).await;
        api.installer().await;
        Self { api, registry, stop, started: AtomicU64::default() }
    }

    pub async fn end(self) {
        self.stop.cancel();
        self.api.close().await;
    }

    /// Tells the story with these faults.
    pub async fn tell(&self, tale: &Tale) {
        self.publish(&["1.0.0"]).await;
        self.api
            .apply(json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "test"},
            "spec": {"source": {"type": "Image", "image": {"ref": self.reference(), "pollIntervalMinutes": 1}}}}))
            .await;
        self.policy("Always").await;
        self.api.apply(cluster_extension("widgets", "widgets", Some("1.0.0"))).await;
        self.chapter(tale, 0, || async { self.asked().await.is_some() }).await;

        // What `mainstay approve` does: make what is missing, then approve.
        let plan = self.asked().await.unwrap();
        let mut gadgets = cluster_extension("gadgets", "gadgets", Some("1.0.0"));
        gadgets["metadata"]["annotations"] = json!({"lifecycle.mainstay.dev/change-plan": plan});
        let made = self.api.apply(gadgets).await;
        let target = place("lifecycle.mainstay.dev/v1alpha1", "ChangePlan", "", &plan);
        let digest = self.api.get(&target).await.unwrap()["spec"]["digest"].clone();
        let along = json!([{"name": "gadgets", "uid": made["metadata"]["uid"], "package": "gadgets",
            "namespace": made["spec"]["namespace"], "serviceAccount": made["spec"]["serviceAccount"]["name"]}]);
        let approval = json!({"spec": {"approvedDigest": digest, "approvedAlong": along}});
        self.api.admin.patch(&target, "", &Patch::Merge(approval)).await.unwrap();
        let applied =
            || async { self.both("1.0.0").await && self.api.get(&target).await.is_some_and(|plan| plan["status"]["phase"] == "Applied") };
        self.chapter(tale, 1, applied).await;
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one", "namespace": "work"},
            "spec": {"size": 1}});
        self.api.apply(widget).await;

        self.policy("Automatic").await;
        self.publish(&["1.0.0", "2.0.0"]).await;
        // A change of the catalog has its tag looked at again.
        self.api.admin.patch(&catalog("test"), "", &Patch::Merge(json!({"spec": {"priority": 1}}))).await.unwrap();
        for name in ["widgets", "gadgets"] {
            self.api.apply(cluster_extension(name, name, Some("<3.0.0"))).await;
        }
        self.chapter(tale, 2, || self.both("2.0.0")).await;

        self.publish(&["1.0.0", "2.0.0", "3.0.0"]).await;
        self.api.admin.patch(&catalog("test"), "", &Patch::Merge(json!({"spec": {"priority": 2}}))).await.unwrap();
        let mut newer = cluster_extension("widgets", "widgets", Some(">=2.0.0"));
        newer["metadata"]["annotations"] = json!({ON_UNHEALTHY: "RollBack", HEALTHY_WITHIN: "1s"});
        self.api.make_available(&place("apps/v1", "Deployment", "work", "widgets")).await;
        self.api.apply(newer).await;
        self.chapter(tale, 3, || self.rolled_back()).await;

        self.api.delete(&extension("gadgets")).await;
        self.chapter(tale, 4, || self.gone("gadgets")).await;
        self.api.delete(&extension("widgets")).await;
        self.api.delete(&catalog("test")).await;
        let all_gone = || async { self.gone("widgets").await && self.api.get(&catalog("test")).await.is_none() };
        self.chapter(tale, 5, all_gone).await;
        self.collected().await;
    }

    async fn chapter(&self, tale: &Tale, number: usize, goal: impl AsyncFn() -> bool) {
        let name = CHAPTERS[number];
        let start = |wire: Option<&Wire>, process: usize| self.process(tale, wire, process);
        chain(tale.faults[number], start, || self.until(name, &goal)).await;
        // The next reconcile, by whom nothing disturbs.
        let last = self.process(tale, None, 2);
        for extension_name in ["widgets", "gadgets"] {
            let looked = json!({"metadata": {"annotations": {"example.com/look": format!("{} {number}", tale.seed)}}});
            match self.api.admin.patch(&extension(extension_name), "", &Patch::Merge(looked)).await {
                Ok(_) => {}
                Err(error) => assert!(error.is_not_found(), "{error}"),
            }
        }
        let settled = async || goal().await && self.whole().await;
        self.until(name, &settled).await;
        last.end().await;
    }

    async fn until(&self, name: &str, goal: &impl AsyncFn() -> bool) {
        for _ in 0..15_000 {
            if goal().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{name}: it did not become so\n{:#}", self.left().await);
    }

    fn process(&self, tale: &Tale, wire: Option<&Wire>, number: usize) -> Process {
        let router = self.api.server.router();
        let process = self.started.fetch_add(1, Ordering::SeqCst);
        let clocks = tale.clocks.get(number).copied().unwrap_or(Clocks::RIGHT);
        Process::start(|| {
            let mut settings = setup(&self.api, wire.map_or_else(|| router.clone(), |wire| wire.over(router.clone())));
            settings.operator_controller = settings.operator_controller.answering_within(PATIENCE);
            if let (Some(wire), mainstay_runtime::Cluster::Embedded { router, .. }) = (wire, &mut settings.catalogd) {
                *router = wire.over(router.clone());
            }
            settings.catalogd = settings.catalogd.answering_within(PATIENCE);
            settings.gc_interval = Duration::from_secs(1);
            settings.env = env(clocks, (tale.seed << 32) | process);
            settings
        })
    }

    fn reference(&self) -> String {
        format!("{}/test/all:latest", self.registry)
    }

    async fn policy(&self, approval: &str) {
        self.api
            .apply(json!({"apiVersion": "lifecycle.mainstay.dev/v1alpha1", "kind": "LifecyclePolicy", "metadata": {"name": "together"},
                "spec": {"resolveDependencies": "Plan", "approval": approval}}))
            .await;
    }

    /// The catalog with these versions: from 2.0.0 on both packages need each other's, and from 2.0.0 on the CRD has a further field.
    async fn publish(&self, versions: &[&str]) {
        let mut blobs = Vec::new();
        for (package, other) in [("widgets", "gadgets"), ("gadgets", "widgets")] {
            let versions: Vec<&&str> = versions.iter().filter(|version| package == "widgets" || **version != "3.0.0").collect();
            let entry = |(index, version): (usize, &&&str)| match index.checked_sub(1) {
                Some(before) => json!({"name": format!("{package}.v{version}"), "replaces": format!("{package}.v{}", versions[before])}),
                None => json!({"name": format!("{package}.v{version}")}),
            };
            let entries: Vec<Value> = versions.iter().enumerate().map(entry).collect();
            blobs.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
            blobs.push(json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}));
            for version in &versions {
                let needs = match (package, **version) {
                    ("gadgets", "1.0.0") => None,
                    ("widgets", "1.0.0") => Some(">=1.0.0"),
                    _ => Some(">=2.0.0"),
                };
                let image = self.bundle(package, version).await;
                let mut properties = vec![json!({"type": "olm.package", "value": {"packageName": package, "version": version}})];
                properties.extend(
                    needs.map(|range| json!({"type": "olm.package.required", "value": {"packageName": other, "versionRange": range}})),
                );
                blobs.push(json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"), "image": image,
                    "properties": properties}));
            }
        }
        let text = blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        self.api.push(ClientConfig::default(), &self.reference(), catalog_image(&text)).await;
    }

    async fn bundle(&self, package: &str, version: &str) -> String {
        let fields = if version == "1.0.0" { Vec::new() } else { vec![("colour", json!({"type": "string"}))] };
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{package}-{version}")}});
        let content = Content { fields, more: vec![config], ..Content::default() };
        // The other package is the same under another name.
        let renamed = |text: String| match package {
            "gadgets" => text.replace("widget", "gadget").replace("Widget", "Gadget"),
            _ => text,
        };
        let files = files(version, &content).into_iter().map(|(path, text)| (path, renamed(text).into_bytes()));
        let target = format!("{}/test/{package}:v{version}", self.registry);
        let image = self.api.push(ClientConfig::default(), &target, ImageBuilder::new().files(files)).await;
        format!("{}/test/{package}@{}", self.registry, image.digest.as_str())
    }

    /// The plan that widgets wait for, once it can be approved.
    async fn asked(&self) -> Option<String> {
        let found = self.api.get(&extension("widgets")).await?;
        let progressing = condition(&found, "Progressing");
        let text = progressing["message"].as_str().filter(|_| progressing["reason"] == "Blocked")?;
        let name = text.strip_prefix("waits for approval of change plan ")?.split(':').next()?.to_owned();
        let plan = self.api.get(&place("lifecycle.mainstay.dev/v1alpha1", "ChangePlan", "", &name)).await?;
        (plan["status"]["phase"] == "Pending").then_some(name)
    }

    async fn both(&self, version: &str) -> bool {
        for name in ["widgets", "gadgets"] {
            let found = self.api.get(&extension(name)).await.unwrap_or_default();
            let progressing = condition(&found, "Progressing");
            if found["status"]["install"]["bundle"]["version"] != version
                || progressing["reason"] != "Succeeded"
                || progressing["observedGeneration"] != found["metadata"]["generation"]
            {
                return false;
            }
        }
        true
    }

    async fn rolled_back(&self) -> bool {
        let found = self.api.get(&extension("widgets")).await.unwrap_or_default();
        let progressing = condition(&found, "Progressing");
        progressing["reason"] == "Blocked"
            && progressing["observedGeneration"] == found["metadata"]["generation"]
            && progressing["message"].as_str().is_some_and(|text| text.contains("; rolled back to widgets.v2.0.0"))
            && found["status"]["install"]["bundle"]["version"] == "2.0.0"
    }

    async fn gone(&self, name: &str) -> bool {
        self.api.get(&extension(name)).await.is_none()
    }

    /// Whether of each extension one revision counts, after which there is no other one, and its objects are there and no others.
    async fn whole(&self) -> bool {
        for name in ["widgets", "gadgets"] {
            let Some(found) = self.api.get(&extension(name)).await else { continue };
            let history = self.history(found["metadata"]["uid"].as_str().unwrap()).await;
            let Some(latest) = history.latest() else { continue };
            if latest.state != State::Deployed || history.revisions.iter().any(|one| one.state == State::Pending) {
                return false;
            }
            let sorted = |mut all: Vec<String>| {
                all.sort();
                all
            };
            let kept = |object: &Value| KINDS.iter().any(|(_, _, kind)| object["kind"] == *kind);
            let wanted = latest.record.objects.iter().filter(|object| kept(object)).map(|object| place_of(object).to_string()).collect();
            let live = self.owned(name).await.iter().map(|object| place_of(object).to_string()).collect();
            if sorted(wanted) != sorted(live) {
                return false;
            }
        }
        true
    }

    async fn list(&self, path: &str, selector: &str) -> Vec<Value> {
        let request = axum::http::Request::get(format!("{path}?labelSelector={selector}")).body(Vec::new()).unwrap();
        let list: Value = self.api.admin.client().request(request).await.unwrap();
        list["items"].as_array().unwrap().clone()
    }

    async fn owned(&self, name: &str) -> Vec<Value> {
        let mut found = Vec::new();
        for (path, api_version, kind) in KINDS {
            for mut object in self.list(path, &format!("olm.operatorframework.io%2Fowner-name%3D{name}")).await {
                object["apiVersion"] = json!(api_version);
                object["kind"] = json!(kind);
                found.push(object);
            }
        }
        found
    }

    async fn history(&self, uid: &str) -> History {
        let selector = format!("{}%3D{uid}", EXTENSION_LABEL.replace('/', "%2F"));
        let secrets = self.list(&format!("/api/v1/namespaces/{SYSTEM}/secrets"), &selector).await;
        record::read(&secrets.into_iter().map(|secret| serde_json::from_value(secret).unwrap()).collect::<Vec<_>>()).unwrap()
    }

    /// What there is, for whoever reads why a chapter did not end.
    async fn left(&self) -> Value {
        let mut left = json!({});
        for name in ["widgets", "gadgets"] {
            let Some(found) = self.api.get(&extension(name)).await else { continue };
            let history = self.history(found["metadata"]["uid"].as_str().unwrap()).await;
            let records: Vec<String> =
                history.revisions.iter().map(|one| format!("{} {} {}", one.number, one.record.bundle.name, one.state.as_str())).collect();
            let live: Vec<String> = self.owned(name).await.iter().map(|object| place_of(object).to_string()).collect();
            left[name] = json!({"status": found["status"], "records": records, "live": live});
        }
        left["plans"] = json!(self.list(PLANS, "").await.iter().map(|plan| plan["status"].clone()).collect::<Vec<_>>());
        left
    }

    /// Does what the garbage collector would do, and takes away what the story is begun anew without.
    async fn collected(&self) {
        for name in ["widgets", "gadgets"] {
            for object in self.owned(name).await {
                let target = place_of(&object);
                self.api.delete(&target).await;
                self.api.gone(&target).await;
            }
        }
        for record in self.list(&format!("/api/v1/namespaces/{SYSTEM}/secrets"), "owner%3Doperator-controller").await {
            self.api.delete(&place("v1", "Secret", SYSTEM, record["metadata"]["name"].as_str().unwrap())).await;
        }
        for plan in self.list(PLANS, "").await {
            let target = place("lifecycle.mainstay.dev/v1alpha1", "ChangePlan", "", plan["metadata"]["name"].as_str().unwrap());
            self.api.delete(&target).await;
        }
        for (kind, name) in [("ClusterRole", "clusterroles"), ("ClusterRoleBinding", "clusterrolebindings")] {
            let path = format!("/apis/rbac.authorization.k8s.io/v1/{name}");
            for object in self.list(&path, "olm.operatorframework.io%2Fowner-kind%3DClusterExtension").await {
                self.api.delete(&place("rbac.authorization.k8s.io/v1", kind, "", object["metadata"]["name"].as_str().unwrap())).await;
            }
        }
    }
}
