//! The metrics of the Cluster Version Operator, as functions of what it sees (CVO-MET-02). Names, labels and meaning are upstream's.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_api::condition::Status;
use mainstay_api::config_v1::{ClusterOperator, ClusterVersion, Release, StatusCondition, UpdateHistory, UpdateState};

use crate::conditions;

/// A metric: its name without the suffix of counters, its help, and its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The help.
    pub help: &'static str,
    /// The labels.
    pub labels: &'static [&'static str],
    /// True for a number that only grows.
    pub is_counter: bool,
}

const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { name, help, labels, is_counter: false }
}

const VERSION: Metric = gauge(
    "cluster_version",
    "The version of the cluster by type: initial, cluster, current, completed, desired, failure or updating. The value is a time in seconds",
    &["type", "version", "image", "from_version"],
);
const AVAILABLE_UPDATES: Metric = gauge("cluster_version_available_updates", "The number of recommended updates", &["upstream", "channel"]);
const CAPABILITY: Metric = gauge("cluster_version_capability", "1 for an enabled capability, 0 for a known one that is not", &["name"]);
const OPERATOR_UP: Metric = gauge("cluster_operator_up", "1 if the cluster operator is available", &["name", "version", "reason"]);
const OPERATOR_CONDITIONS: Metric =
    gauge("cluster_operator_conditions", "1 if the condition is true, 0 if it is false", &["name", "condition", "reason"]);
const TRANSITIONS: Metric = gauge("cluster_operator_condition_transitions", "The changes of a condition's status", &["name", "condition"]);
const INSTALLER: Metric = gauge("cluster_installer", "How the cluster was installed", &["type", "version", "invoker"]);
const RETRIEVED: Metric =
    gauge("cluster_version_operator_update_retrieval_timestamp_seconds", "The time of the last successful retrieval of updates", &["name"]);
const RECOMMENDED: Metric = gauge(
    "cluster_version_conditional_update_condition_seconds",
    "The time of the last transition of a conditional update's condition",
    &["version", "condition", "status", "reason"],
);
const PAYLOAD: Metric = gauge("cluster_version_payload", "The manifests of the release, applied and pending", &["version", "type"]);
const PAYLOAD_ERRORS: Metric =
    Metric { name: "cluster_operator_payload_errors", help: "The failed attempts at manifests", labels: &["version"], is_counter: true };

/// Every metric, in the order of a page.
pub const ALL: [Metric; 11] = [
    VERSION,
    AVAILABLE_UPDATES,
    CAPABILITY,
    OPERATOR_UP,
    OPERATOR_CONDITIONS,
    TRANSITIONS,
    INSTALLER,
    RETRIEVED,
    RECOMMENDED,
    PAYLOAD,
    PAYLOAD_ERRORS,
];

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The metric.
    pub metric: Metric,
    /// The values of its labels.
    pub labels: Vec<String>,
    /// The value.
    pub value: f64,
}

/// The facts that the metrics depend on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The ClusterVersion; none if there is none.
    pub cluster_version: Option<&'a ClusterVersion>,
    /// The release in force, and when it was made.
    pub current: Option<(&'a Release, Option<Timestamp>)>,
    /// The update service of the flag.
    pub update_service: Option<&'a str>,
    /// The ClusterOperators.
    pub operators: &'a [ClusterOperator],
    /// The manifests that are done, and all of them.
    pub manifests: (usize, usize),
    /// The changes of conditions since the start, by name and type.
    pub transitions: &'a BTreeMap<(String, String), u64>,
    /// The failed attempts since the start, by version.
    pub payload_errors: &'a BTreeMap<String, u64>,
    /// The last successful retrieval of updates.
    pub retrieved: Option<Timestamp>,
    /// The data of the installer's ConfigMaps: `openshift-install`, then `openshift-install-manifests`.
    pub installers: [Option<&'a BTreeMap<String, String>>; 2],
}

/// Every sample.
pub fn samples(facts: &Facts<'_>) -> Vec<Sample> {
    let mut out = Samples(Vec::new());
    match facts.cluster_version {
        None => {
            out.add(OPERATOR_UP, ["version", "", "ClusterVersionNotFound"], 0.0);
            out.add(OPERATOR_CONDITIONS, ["version", "Available", "ClusterVersionNotFound"], 0.0);
        }
        Some(cluster_version) => cluster_version_samples(&mut out, cluster_version, facts),
    }
    if let Some((current, created)) = facts.current {
        let completed = facts.cluster_version.and_then(|version| completed(&version.status.history).next());
        let from = completed.map_or("", |entry| &entry.version);
        out.add(VERSION, ["current", &current.version, &current.image, from], created.map_or(0.0, seconds));
        let (done, total) = facts.manifests;
        out.add(PAYLOAD, [&current.version, "applied"], done as f64);
        out.add(PAYLOAD, [&current.version, "pending"], total.saturating_sub(done) as f64);
    }
    for operator in facts.operators {
        let name = operator.metadata.name.as_deref().unwrap_or_default();
        let version = operator.status.versions.iter().find(|version| version.name == "operator").map_or("", |version| &version.version);
        out.operator(name, version, &operator.status.conditions);
    }
    for ((name, condition), count) in facts.transitions {
        out.add(TRANSITIONS, [name, condition], *count as f64);
    }
    installer(&mut out, facts.installers);
    if let Some(at) = facts.retrieved {
        out.add(RETRIEVED, ["version"], seconds(at));
    }
    for (version, count) in facts.payload_errors {
        out.add(PAYLOAD_ERRORS, [version], *count as f64);
    }
    out.0
}

struct Samples(Vec<Sample>);

impl Samples {
    fn add<const N: usize>(&mut self, metric: Metric, labels: [&str; N], value: f64) {
        debug_assert_eq!(metric.labels.len(), N);
        self.0.push(Sample { metric, labels: labels.map(str::to_owned).to_vec(), value });
    }

    /// Adds whether an operator is up, and its conditions; those that are unknown have no sample.
    fn operator(&mut self, name: &str, version: &str, all: &[StatusCondition]) {
        let available = conditions::find(all, "Available");
        let reason = available.map_or("NoAvailableCondition", |condition| &condition.reason);
        let is_up = available.is_some_and(|condition| condition.status == Status::True);
        self.add(OPERATOR_UP, [name, version, reason], f64::from(u8::from(is_up)));
        self.conditions(name, all);
    }

    fn conditions(&mut self, name: &str, all: &[StatusCondition]) {
        for condition in all.iter().filter(|condition| condition.status != Status::Unknown) {
            let value = f64::from(u8::from(condition.status == Status::True));
            self.add(OPERATOR_CONDITIONS, [name, &condition.kind, &condition.reason], value);
        }
    }
}

fn seconds(time: Timestamp) -> f64 {
    time.as_second() as f64
}

fn at(time: Option<&Time>) -> f64 {
    time.map_or(0.0, |time| seconds(time.0))
}

fn completed(history: &[UpdateHistory]) -> impl Iterator<Item = &UpdateHistory> {
    history.iter().filter(|entry| entry.state == UpdateState::Completed)
}

fn cluster_version_samples(out: &mut Samples, cluster_version: &ClusterVersion, facts: &Facts<'_>) {
    let ClusterVersion { metadata, spec, status } = cluster_version;
    let history = &status.history;
    let none = Release::default();
    let current = facts.current.map_or(&none, |(current, _)| current);
    let mut done = completed(history);
    let (last, before) = (done.next(), done.next());
    let last_version = last.map_or("", |entry| &entry.version);
    let initial = history.last();
    if let Some(initial) = initial {
        out.add(VERSION, ["initial", &initial.version, &initial.image, ""], at(initial.started_time.as_ref()));
    }
    let created = metadata.creation_timestamp.as_ref();
    out.add(VERSION, ["cluster", &current.version, &current.image, initial.map_or("", |entry| &entry.version)], at(created));
    if let Some(last) = last {
        let from = before.map_or("", |entry| &entry.version);
        out.add(VERSION, ["completed", &last.version, &last.image, from], at(last.completion_time.as_ref()));
    }
    let wished = spec.desired_update.as_ref().filter(|update| !update.image.is_empty() && update.image != current.image);
    if let Some(update) = wished {
        let latest = status.conditions.iter().filter_map(|condition| condition.last_transition_time.as_ref()).max_by_key(|time| time.0);
        out.add(VERSION, ["desired", &update.version, &update.image, last_version], at(latest));
    }
    if let Some(failing) = conditions::find(&status.conditions, "Failing").filter(|condition| condition.status == Status::True) {
        let (version, image) = wished.map_or((&current.version, &current.image), |update| (&update.version, &update.image));
        out.add(VERSION, ["failure", version, image, last_version], at(failing.last_transition_time.as_ref()));
    }
    if let Some(updating) = history.first().filter(|entry| entry.state == UpdateState::Partial) {
        out.add(VERSION, ["updating", &updating.version, &updating.image, last_version], at(updating.started_time.as_ref()));
    }
    let updates = status.available_updates.iter().flatten().count();
    if !spec.upstream.is_empty() || updates > 0 || conditions::is(&status.conditions, "RetrievedUpdates", Status::True) {
        let own = Some(spec.upstream.as_str()).filter(|upstream| !upstream.is_empty());
        let upstream = facts.update_service.or(own).unwrap_or("<default>");
        out.add(AVAILABLE_UPDATES, [upstream, &spec.channel], updates as f64);
    }
    let capabilities = &status.capabilities;
    for capability in &capabilities.enabled_capabilities {
        out.add(CAPABILITY, [&capability.0], 1.0);
    }
    for capability in capabilities.known_capabilities.iter().filter(|known| !capabilities.enabled_capabilities.contains(known)) {
        out.add(CAPABILITY, [&capability.0], 0.0);
    }
    out.operator("version", &current.version, &status.conditions);
    for update in &status.conditional_updates {
        for condition in &update.conditions {
            let status = conditions::text(condition.status);
            let labels = [&update.release.version, &condition.kind, status, &condition.reason];
            out.add(RECOMMENDED, labels, seconds(condition.last_transition_time.0));
        }
    }
}

/// The kind of installation, from the ConfigMaps that an installer leaves.
fn installer(out: &mut Samples, [binary, manifests]: [Option<&BTreeMap<String, String>>; 2]) {
    let field = |data: &BTreeMap<String, String>, key: &str| data.get(key).cloned().unwrap_or_else(|| "<missing>".to_owned());
    if let Some(data) = binary {
        out.add(INSTALLER, ["openshift-install", &field(data, "version"), &field(data, "invoker")], 1.0);
    } else if let Some(data) = manifests {
        out.add(INSTALLER, ["other", &field(data, "version"), &field(data, "invoker")], 1.0);
    } else {
        out.add(INSTALLER, ["", "", ""], 1.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn shown(facts: &Facts<'_>) -> Vec<String> {
        let line = |sample: &Sample| {
            let labels = sample.metric.labels.iter().zip(&sample.labels).map(|(name, value)| format!("{name}={value}"));
            format!("{}{{{}}} {}", sample.metric.name, labels.collect::<Vec<_>>().join(","), sample.value)
        };
        samples(facts).iter().map(line).collect()
    }

    fn facts<'a>(transitions: &'a BTreeMap<(String, String), u64>, errors: &'a BTreeMap<String, u64>) -> Facts<'a> {
        Facts {
            cluster_version: None,
            current: None,
            update_service: None,
            operators: &[],
            manifests: (0, 0),
            transitions,
            payload_errors: errors,
            retrieved: None,
            installers: [None, None],
        }
    }

    /// CVO-MET-02, CVO-RUN-06: without a ClusterVersion the operator says so.
    #[test]
    fn no_cluster_version() {
        let (transitions, errors) = (BTreeMap::new(), BTreeMap::new());
        assert_eq!(
            shown(&facts(&transitions, &errors)),
            [
                "cluster_operator_up{name=version,version=,reason=ClusterVersionNotFound} 0",
                "cluster_operator_conditions{name=version,condition=Available,reason=ClusterVersionNotFound} 0",
                "cluster_installer{type=,version=,invoker=} 1",
            ]
        );
    }

    /// CVO-MET-02: an update under way, with a conditional update, capabilities and operators.
    #[test]
    fn an_update_under_way() {
        let at = |minute: u32| format!("2026-01-01T00:{minute:02}:00Z");
        let cluster_version: ClusterVersion = serde_json::from_value(json!({
            "metadata": {"name": "version", "creationTimestamp": at(0)},
            "spec": {"clusterID": "", "channel": "fast-1", "desiredUpdate": {"version": "1.0.2", "image": "r@sha256:b"}},
            "status": {
                "desired": {"version": "1.0.1", "image": "r@sha256:a"}, "observedGeneration": 1, "versionHash": "",
                "history": [
                    {"state": "Partial", "startedTime": at(5), "version": "1.0.2", "image": "r@sha256:b", "verified": true},
                    {"state": "Completed", "startedTime": at(1), "completionTime": at(2), "version": "1.0.1", "image": "r@sha256:a", "verified": false},
                ],
                "capabilities": {"enabledCapabilities": ["Console"], "knownCapabilities": ["Build", "Console"]},
                "conditions": [
                    {"type": "Available", "status": "True", "lastTransitionTime": at(2), "reason": "", "message": ""},
                    {"type": "Failing", "status": "True", "lastTransitionTime": at(6), "reason": "X", "message": ""},
                    {"type": "Odd", "status": "Unknown", "lastTransitionTime": at(3), "reason": "", "message": ""},
                ],
                "availableUpdates": [{"version": "1.0.2", "image": "r@sha256:b"}],
                "conditionalUpdates": [{"release": {"version": "1.0.3", "image": "r@sha256:c"}, "risks": [],
                    "conditions": [{"type": "Recommended", "status": "False", "reason": "Slow", "message": "", "lastTransitionTime": at(4)}]}],
            },
        }))
        .unwrap();
        let operator: ClusterOperator = serde_json::from_value(json!({
            "metadata": {"name": "dns"}, "spec": {},
            "status": {"versions": [{"name": "operator", "version": "1.0.1"}]},
        }))
        .unwrap();
        let transitions = BTreeMap::from([(("dns".to_owned(), "Degraded".to_owned()), 3)]);
        let errors = BTreeMap::from([("1.0.2".to_owned(), 7)]);
        let current = Release { version: "1.0.1".to_owned(), image: "r@sha256:a".to_owned(), ..Release::default() };
        let facts = Facts {
            cluster_version: Some(&cluster_version),
            current: Some((&current, None)),
            operators: std::slice::from_ref(&operator),
            manifests: (2, 5),
            ..facts(&transitions, &errors)
        };
        let start = 1_767_225_600_u64;
        assert_eq!(
            shown(&facts),
            [
                format!("cluster_version{{type=initial,version=1.0.1,image=r@sha256:a,from_version=}} {}", start + 60),
                format!("cluster_version{{type=cluster,version=1.0.1,image=r@sha256:a,from_version=1.0.1}} {start}"),
                format!("cluster_version{{type=completed,version=1.0.1,image=r@sha256:a,from_version=}} {}", start + 120),
                format!("cluster_version{{type=desired,version=1.0.2,image=r@sha256:b,from_version=1.0.1}} {}", start + 360),
                format!("cluster_version{{type=failure,version=1.0.2,image=r@sha256:b,from_version=1.0.1}} {}", start + 360),
                format!("cluster_version{{type=updating,version=1.0.2,image=r@sha256:b,from_version=1.0.1}} {}", start + 300),
                "cluster_version_available_updates{upstream=<default>,channel=fast-1} 1".to_owned(),
                "cluster_version_capability{name=Console} 1".to_owned(),
                "cluster_version_capability{name=Build} 0".to_owned(),
                "cluster_operator_up{name=version,version=1.0.1,reason=} 1".to_owned(),
                "cluster_operator_conditions{name=version,condition=Available,reason=} 1".to_owned(),
                "cluster_operator_conditions{name=version,condition=Failing,reason=X} 1".to_owned(),
                format!(
                    "cluster_version_conditional_update_condition_seconds{{version=1.0.3,condition=Recommended,status=False,reason=Slow}} {}",
                    start + 240
                ),
                "cluster_version{type=current,version=1.0.1,image=r@sha256:a,from_version=1.0.1} 0".to_owned(),
                "cluster_version_payload{version=1.0.1,type=applied} 2".to_owned(),
                "cluster_version_payload{version=1.0.1,type=pending} 3".to_owned(),
                "cluster_operator_up{name=dns,version=1.0.1,reason=NoAvailableCondition} 0".to_owned(),
                "cluster_operator_condition_transitions{name=dns,condition=Degraded} 3".to_owned(),
                "cluster_installer{type=,version=,invoker=} 1".to_owned(),
                "cluster_operator_payload_errors{version=1.0.2} 7".to_owned(),
            ]
        );
    }
}
