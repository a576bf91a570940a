//! A small world for the pure plan: an extension, catalogs from a line of text, bundles, records, live objects and permissions; and its answer
//! as text.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_bundle::Bundle;
use mainstay_catalog::{Catalog, Limits, MemorySource};
use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::Instances;
use mainstay_lifecycle::Live;
use mainstay_lifecycle::change::{Action, Operation};
use mainstay_lifecycle::revision::{History, Notes, Revision, State};
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::extension::dependencies::ApiFact;
use mainstay_olm_v1_core::extension::facts::{
    Answer, CatalogContent, CatalogFact, Fact, Known, Lifecycle, PullFailure, Snapshot, UnreadableHistory,
};
use mainstay_olm_v1_core::extension::plan::{FINALIZERS, Plan, Verdict, plan};
use mainstay_olm_v1_core::extension::status::status;
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use mainstay_rbac::PolicyIndex;
use mainstay_resolver::ModelSource;
use mainstay_testing::widgets;
use serde_json::{Value, json};

pub use mainstay_testing::widgets::{Content, files};

pub fn bundle(version: &str, content: &Content) -> Arc<Bundle> {
    Arc::new(Bundle::read(widgets::files(version, content).into_iter().map(|(path, text)| (path, text.into_bytes()))).unwrap())
}

pub fn image(version: &str) -> String {
    format!("example.com/widgets:v{version}")
}

/// A catalog from lines of this form, in any order:
///
/// ```text
///   channel stable: 1.0.0 1.1.0<1.0.0 2.0.0        bundles; `<` stands before what is replaced
///   range 2.0.0 >=1.1.0 <2.0.0                      a skipRange
///   needs 1.1.0 olm.package.required                a property of a bundle
///   deprecated bundle widgets.v1.0.0: use another   (or package, or channel NAME)
/// ```
pub fn catalog(name: &str, text: &str) -> CatalogFact {
    let mut blobs = String::from("{\"schema\":\"olm.package\",\"name\":\"widgets\",\"defaultChannel\":\"stable\"}\n");
    let (mut versions, mut needs, mut deprecated) = (Vec::new(), HashMap::new(), Vec::new());
    let ranges: HashMap<&str, &str> = text.lines().filter_map(|line| line.trim().strip_prefix("range ")?.split_once(' ')).collect();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap();
        match word {
            "channel" => {
                let (channel, entries) = rest.split_once(':').unwrap();
                let entry = |text: &str| {
                    let (version, replaced) = text.split_once('<').map_or((text, None), |(version, replaced)| (version, Some(replaced)));
                    if !versions.contains(&version.to_owned()) {
                        versions.push(version.to_owned());
                    }
                    let mut entry = json!({"name": format!("widgets.v{version}")});
                    if let Some(range) = ranges.get(version) {
                        entry["skipRange"] = json!(range);
                    }
                    if let Some(replaced) = replaced {
                        entry["replaces"] = json!(format!("widgets.v{replaced}"));
                    }
                    entry
                };
                let entries: Vec<Value> = entries.split_whitespace().map(entry).collect();
                let _ = writeln!(blobs, "{}", json!({"schema": "olm.channel", "package": "widgets", "name": channel, "entries": entries}));
            }
            "range" => {}
            "needs" => {
                let (version, kind) = rest.split_once(' ').unwrap();
                needs.insert(version.to_owned(), kind.to_owned());
            }
            "deprecated" => {
                let (what, message) = rest.split_once(": ").unwrap();
                let (kind, name) = what.split_once(' ').unwrap_or((what, ""));
                let mut reference = json!({"schema": format!("olm.{kind}")});
                if !name.is_empty() {
                    reference["name"] = json!(name);
                }
                deprecated.push(json!({"reference": reference, "message": message}));
            }
            other => panic!("{other}"),
        }
    }
    for version in versions {
        let mut properties = vec![json!({"type": "olm.package", "value": {"packageName": "widgets", "version": version}})];
        if let Some(kind) = needs.get(&version) {
            let value = match kind.as_str() {
                "olm.package.required" => json!({"packageName": "gadgets", "versionRange": ">=1.0.0"}),
                "olm.gvk.required" => json!({"group": "example.org", "kind": "Gadget", "version": "v1"}),
                _ => json!({"failureMessage": "none", "cel": {"rule": "true"}}),
            };
            properties.push(json!({"type": kind, "value": value}));
        }
        let blob = json!({"schema": "olm.bundle", "package": "widgets", "name": format!("widgets.v{version}"), "image": image(&version), "properties": properties});
        let _ = writeln!(blobs, "{blob}");
    }
    if !deprecated.is_empty() {
        let _ = writeln!(blobs, "{}", json!({"schema": "olm.deprecations", "package": "widgets", "entries": deprecated}));
    }
    loaded(name, blobs)
}

/// A catalog with these blobs.
pub fn loaded(name: &str, blobs: String) -> CatalogFact {
    let content = Catalog::load(&MemorySource::of("catalog.json", blobs), &Limits::default()).unwrap();
    CatalogFact {
        name: name.to_owned(),
        labels: [("olm.operatorframework.io/metadata.name".to_owned(), name.to_owned())].into(),
        priority: 0,
        pull_secret: None,
        content: CatalogContent::Served(Arc::new(ModelSource::new(content))),
    }
}

/// Everything that a plan may ask for.
#[derive(Clone)]
pub struct Scene {
    pub extension: Value,
    pub gates: FeatureGates,
    pub ignore_service_account: bool,
    pub catalogs: Vec<CatalogFact>,
    pub history: Result<History, UnreadableHistory>,
    pub account: Result<bool, SharedError>,
    pub namespace: Live,
    pub bundles: HashMap<String, Result<Arc<Bundle>, PullFailure>>,
    pub policy: PolicyIndex,
    pub live: HashMap<ObjectRef, Live>,
    pub instances: HashMap<String, Instances>,
    pub now: Option<Timestamp>,
    pub lifecycle: Lifecycle,
    pub apis: Result<Vec<ApiFact>, SharedError>,
}

/// A role with everything for the account `installer`.
pub fn everything() -> PolicyIndex {
    permissions(&json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]))
}

pub fn permissions(rules: &Value) -> PolicyIndex {
    let mut policy = PolicyIndex::default();
    policy.apply(&json!({"kind": "ClusterRole", "metadata": {"name": "installer"}, "rules": rules})).unwrap();
    let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "installer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "installer"},
        "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "work"}]});
    policy.apply(&binding).unwrap();
    policy
}

pub const STABLE: &str = "channel stable: 1.0.0 1.1.0<1.0.0 2.0.0<1.1.0";

impl Scene {
    /// An extension with its finalizers, one catalog with three versions, an account with every right, and nothing installed.
    pub fn new() -> Self {
        let mut scene = Self {
            extension: json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
                "metadata": {"name": "widgets", "uid": "uid-1", "generation": 3, "finalizers": FINALIZERS},
                "spec": {"namespace": "work", "serviceAccount": {"name": "installer"},
                    "source": {"sourceType": "Catalog", "catalog": {"packageName": "widgets"}}}}),
            gates: FeatureGates::defaults(Profile::Up),
            ignore_service_account: false,
            catalogs: vec![catalog("main", STABLE)],
            history: Ok(History::default()),
            account: Ok(true),
            namespace: Live::Absent,
            bundles: HashMap::new(),
            policy: everything(),
            live: HashMap::new(),
            instances: HashMap::new(),
            now: None,
            lifecycle: Lifecycle::default(),
            apis: Ok(Vec::new()),
        };
        for version in ["1.0.0", "1.1.0", "2.0.0"] {
            scene.offer(version, &Content::default());
        }
        scene
    }

    pub fn offer(&mut self, version: &str, content: &Content) {
        self.bundles.insert(image(version), Ok(bundle(version, content)));
    }

    /// Changes the extension's `spec.source.catalog`.
    pub fn request(&mut self, key: &str, value: Value) {
        self.extension["spec"]["source"]["catalog"][key] = value;
    }

    pub fn gate(&mut self, given: &str) {
        self.gates = FeatureGates::parse(Profile::Up, given).unwrap();
    }

    /// Runs a plan to its end.
    pub fn decide(&self) -> (Vec<String>, Plan, Snapshot) {
        let extension: ClusterExtension = serde_json::from_value(self.extension.clone()).unwrap();
        let mut snapshot = Snapshot {
            extension: Arc::new(extension),
            gates: self.gates.clone(),
            ignore_service_account: self.ignore_service_account,
            catalogs: self.catalogs.clone(),
            history: self.history.clone(),
            known: Known { now: self.now, lifecycle: self.lifecycle.clone(), ..Known::default() },
        };
        let (asked, plan) = self.settle(&mut snapshot);
        (asked, plan, snapshot)
    }

    /// Plans for a snapshot, with the facts of this scene.
    pub fn settle(&self, snapshot: &mut Snapshot) -> (Vec<String>, Plan) {
        let mut asked = Vec::new();
        loop {
            let facts = match plan(snapshot) {
                Answer::Ready(plan) => return (asked, plan),
                Answer::Need(facts) => facts,
            };
            assert!(asked.len() < 8, "{asked:?}");
            asked.push(match &facts[..] {
                [Fact::Live(_), ..] => format!("{} live objects", facts.len()),
                [Fact::Account] => "account".to_owned(),
                [Fact::Namespace] => "namespace".to_owned(),
                [Fact::Bundle(image)] => format!("bundle {}", image.reference),
                [Fact::Instances(kind)] => format!("all of {}", kind.kind),
                [Fact::Policy] => "roles and bindings".to_owned(),
                [Fact::Apis] => "APIs".to_owned(),
                other => format!("{other:?}"),
            });
            for fact in facts {
                match fact {
                    Fact::Account => snapshot.known.account = Some(self.account.clone()),
                    Fact::Namespace => snapshot.known.namespace = Some(self.namespace.clone()),
                    Fact::Apis => snapshot.known.apis = Some(self.apis.clone()),
                    Fact::Policy => snapshot.known.policy = Some(Arc::new(self.policy.clone())),
                    Fact::Bundle(image) => {
                        let bundle = self.bundles[&image.reference].clone();
                        snapshot.known.bundles.insert(image.reference, bundle);
                    }
                    Fact::Instances(kind) => {
                        let found = self.instances.get(&kind.kind).cloned().unwrap_or(Instances::Known(Vec::new()));
                        snapshot.known.instances.insert(kind, found);
                    }
                    Fact::Live(target) => {
                        let live = self.live.get(&target).cloned().unwrap_or(Live::Absent);
                        snapshot.known.live.insert(target, live);
                    }
                }
            }
        }
    }

    /// Carries out what is planned for a version: its record, in this state, and its objects. The request is as before afterwards.
    pub fn have(&mut self, version: &str, state: State) {
        let (before, policy) = (self.extension["spec"].clone(), self.extension["metadata"].clone());
        let (live, lifecycle) = (std::mem::take(&mut self.live), std::mem::take(&mut self.lifecycle));
        self.request("version", json!(version));
        self.request("upgradeConstraintPolicy", json!("SelfCertified"));
        let (_, plan, _) = self.decide();
        self.extension["spec"] = before;
        self.extension["metadata"] = policy;
        (self.live, self.lifecycle) = (live, lifecycle);
        let record = plan.record.unwrap_or_else(|| panic!("{:?}", plan.verdict));
        if matches!(state, State::Deployed | State::Pending) {
            for object in &record.objects {
                self.see(object.clone());
            }
        }
        let history = self.history.as_mut().unwrap();
        for revision in &mut history.revisions {
            if state == State::Deployed && revision.state == State::Deployed {
                revision.state = State::Superseded;
            }
        }
        let number = history.latest().map_or(1, |latest| latest.number + 1);
        history.revisions.push(Revision { number, state, record, notes: Notes::default() });
    }

    /// Puts an object into the cluster.
    pub fn see(&mut self, mut object: Value) {
        object["metadata"]["uid"] = json!(format!("uid of {}", object["metadata"]["name"]));
        self.live.insert(ObjectRef::of(&object).unwrap(), Live::Present(Arc::new(object)));
    }

    /// Changes a live object.
    pub fn touch(&mut self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let target = self.target(kind, name);
        let Some(Live::Present(object)) = self.live.get(&target) else { panic!("{target}") };
        let mut object = (**object).clone();
        change(&mut object);
        self.live.insert(target, Live::Present(Arc::new(object)));
    }

    pub fn target(&self, kind: &str, name: &str) -> ObjectRef {
        self.live.keys().find(|target| target.kind == kind && target.name.starts_with(name)).unwrap().clone()
    }

    /// The answer and what the conditions will say, as text.
    pub fn tell(&self) -> String {
        let (asked, plan, snapshot) = self.decide();
        let mut text = format!("asks for: {}\n", if asked.is_empty() { "nothing".to_owned() } else { asked.join(", ") });
        let _ = writeln!(text, "action: {:?}", plan.action);
        if let Some(namespace) = &plan.namespace {
            let _ = writeln!(text, "  the controller makes {namespace}");
        }
        for planned in &plan.steps {
            let line = match planned.operation {
                Operation::Wait => format!("wait for {}", planned.target),
                change => format!("{} {}", format!("{change:?}").to_lowercase(), planned.target),
            };
            let _ = writeln!(text, "  {line}");
        }
        for warning in &plan.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        if matches!(plan.action, Action::AddFinalizers(_) | Action::Finalize(_)) {
            return text;
        }
        let mut history = snapshot.history.clone();
        if let (Ok(history), Some(record), Verdict::Reached) = (&mut history, &plan.record, &plan.verdict)
            && plan.action != Action::Reassert
        {
            let number = history.latest().map_or(1, |latest| latest.number + 1);
            history.revisions.push(Revision { number, state: State::Deployed, record: record.clone(), notes: Notes::default() });
        }
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let status = status(&snapshot.extension, &plan, &plan.verdict, history.as_ref(), now);
        for condition in &status.conditions {
            let generation = condition.observed_generation.unwrap_or_default();
            let _ = writeln!(
                text,
                "{} {:?} {} (generation {generation}){}{}",
                condition.kind,
                condition.status,
                condition.reason,
                if condition.message.is_empty() { "" } else { ": " },
                condition.message
            );
        }
        if let Some(install) = &status.install {
            let _ = writeln!(text, "installed: {} {}", install.bundle.name, install.bundle.version);
        }
        text
    }

    /// Only the action and the words on `Progressing`, for tables.
    pub fn short(&self) -> String {
        let (_, plan, _) = self.decide();
        let chosen =
            plan.resolution.as_ref().map_or_else(String::new, |found| format!(" {} of {}", found.choice.version, found.choice.catalog));
        match &plan.verdict {
            Verdict::Reached => format!("{:?}{chosen}", plan.action),
            Verdict::Retrying(problem) => format!("Retrying: {problem}"),
            Verdict::Blocked(problem) => format!("Blocked: {problem}"),
            other => format!("{other:?}"),
        }
    }
}

/// Cases one after the other, each under its name.
pub fn table(cases: &[(&str, String)]) -> String {
    cases.iter().fold(String::new(), |mut text, (name, answer)| {
        let _ = write!(text, "== {name}\n{}\n\n", answer.trim_end());
        text
    })
}

/// Records that cannot be read; a text that begins with one names it.
pub fn unreadable(text: &str) -> UnreadableHistory {
    let secret = text.strip_prefix("install record ").and_then(|rest| rest.split([':', ' ']).next()).map(str::to_owned);
    UnreadableHistory { secret, problem: text.into() }
}
