//! ClusterOperators `machine-api`, `machine-approver` and `control-plane-machine-set` (MACH-CPMS-04), where the kind is served.

use std::sync::Arc;

use mainstay_api::cluster_operator::{self, AS_EXPECTED, Problem, Related, Report, Version};
use mainstay_machine_core::control_plane::object::NAME;
use mainstay_machine_core::event::EventKind;
use mainstay_objects::{ObjectRef, condition, is_condition_true};
use mainstay_runtime::{Key, Optional, Outcome, Queue};
use serde_json::Value;
use tokio::sync::watch;

use crate::Error;
use crate::kinds::{CLUSTER_OPERATOR, CONTROL_PLANE, NAMESPACE};
use crate::manifests::OPERATORS;
use crate::shared::{Shared, Teller, settled};

/// The version of this program, where no release tells one.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const APPROVER_NAMESPACE: &str = "openshift-cluster-machine-approver";
const MACHINES: &str = "machine.openshift.io";

/// The operators as a release names them.
pub(crate) type Release = watch::Receiver<Arc<[Value]>>;

/// Runs the reports.
pub(crate) async fn run(shared: Shared, release: Option<Release>) {
    let queue: Queue<Key> = Queue::default();
    let all = || OPERATORS.map(|name| Key::new("", name));
    let woken = queue.clone();
    let wake = move || OPERATORS.iter().for_each(|name| woken.add(Key::new("", *name)));
    let operators = Optional::start(shared.writer.client(), CLUSTER_OPERATOR.resource(), &shared.stop, wake).shown(shared.env.metrics());
    let woken = queue.clone();
    shared.control_planes.on_change(move |_| woken.add(Key::new("", OPERATORS[2])));
    for key in all() {
        queue.add(key);
    }
    let (woken, until, followed) = (queue.clone(), shared.stop.clone(), release.clone());
    let followed = async move {
        let Some(mut followed) = followed else { return };
        while let Some(Ok(())) = until.run_until_cancelled(followed.changed()).await {
            for key in all() {
                woken.add(key);
            }
        }
    };
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let events = shared.recorder("machine-api-operator");
    let reporter = Arc::new(Reporter { shared, events, operators, release });
    let reports = mainstay_runtime::run("machine-api-reports", queue, 1, env, stop, move |key| {
        let reporter = reporter.clone();
        async move { settled(reporter.report(&key.name).await) }
    });
    tokio::join!(reports, followed);
}

struct Reporter {
    shared: Shared,
    events: Teller,
    operators: Optional,
    release: Option<Release>,
}

impl Reporter {
    async fn report(&self, name: &str) -> Result<Outcome, Error> {
        if !self.operators.is_known() || self.operators.objects().is_none() {
            return Ok(Outcome::Done);
        }
        let expected = self.release.as_ref().and_then(|release| {
            let release = release.borrow();
            let is_it = |manifest: &&Value| manifest["kind"] == "ClusterOperator" && manifest["metadata"]["name"] == name;
            release.iter().find(is_it).map(versions)
        });
        let own = cluster_operator::object(name);
        let live = match self.shared.writer.get(&ObjectRef::of(&own)?).await? {
            Some(live) => live,
            // That of a release is made by who applies it.
            None if self.release.is_some() => return Ok(Outcome::Done),
            None => self.shared.writer.create(&own).await?,
        };
        let is_control_plane = name == OPERATORS[2];
        let control_plane = if is_control_plane { self.shared.get(CONTROL_PLANE, &Key::new(NAMESPACE, NAME)).await? } else { None };
        let now = self.shared.env.now_seconds();
        let told = told(name, &live, expected.as_deref(), control_plane.as_ref());
        let mut status = match &expected {
            Some(versions) => {
                let reached = told.arrives.then_some(versions.as_slice());
                cluster_operator::status_of_release(&live, &told.report, reached, now)
            }
            None => cluster_operator::status(&live, &told.report, now),
        };
        for (kind, reason, message) in &told.words {
            cluster_operator::say(&mut status, kind, reason, message);
        }
        if self.shared.writer.update_status(&live, &status).await?.is_some()
            && let Some(note) = cluster_operator::transitions(&live, &status)
        {
            self.events.tell(&live, EventKind::Normal, "OperatorStatusChanged", "Report", note);
        }
        Ok(Outcome::Done)
    }
}

fn versions(object: &Value) -> Vec<Version> {
    let all = object.pointer("/status/versions").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|each| Some(Version::new(each["name"].as_str()?, each["version"].as_str()?))).collect()
}

/// The report, and the words of each condition.
struct Told {
    report: Report,
    words: Vec<(&'static str, String, String)>,
    /// True if the versions of the release are reached.
    arrives: bool,
}

/// Returns what an operator says of itself. One that a release brings says first that it is on its way (CVO-CO-04).
fn told(name: &str, live: &Value, expected: Option<&[Version]>, control_plane: Option<&Value>) -> Told {
    let reported = versions(live);
    let is_there = expected.is_none_or(|versions| versions.iter().all(|version| reported.contains(version)));
    let arrives = is_there || is_condition_true(live, "Progressing");
    let own = [Version::new("operator", VERSION)];
    let shown: Vec<String> = expected.unwrap_or(&own).iter().map(|version| format!("{}: {}", version.name, version.version)).collect();
    let (shown, version) = (shown.join(", "), expected.unwrap_or(&own).iter().find(|version| version.name == "operator"));
    let version = version.map_or(VERSION, |version| &version.version);
    let mut words = match name {
        "machine-api" => well(&format!("Cluster Machine API Operator is available at {shown}"), ""),
        "machine-approver" => well(&format!("Cluster Machine Approver is available at {version}"), ""),
        _ => mirrored(control_plane),
    };
    if !arrives {
        let on_its_way = Said {
            kind: "Progressing",
            status: true,
            reason: "SyncingResources".to_owned(),
            message: format!("Progressing towards {shown}"),
        };
        words.retain(|said| said.kind != "Progressing");
        words.push(on_its_way);
    }
    let problem = |kind: &str, with: bool| {
        let said = words.iter().find(|said| said.kind == kind && said.status == with)?;
        Some(Problem::new(&*said.reason, &*said.message))
    };
    let report = Report {
        unavailable: problem("Available", false),
        progressing: problem("Progressing", true),
        degraded: problem("Degraded", true),
        not_upgradeable: problem("Upgradeable", false),
        version: expected.is_none().then(|| VERSION.to_owned()),
        related: related(name),
    };
    Told { report, words: words.into_iter().map(|said| (said.kind, said.reason, said.message)).collect(), arrives }
}

/// A condition in its operator's words.
struct Said {
    kind: &'static str,
    status: bool,
    reason: String,
    message: String,
}

/// The conditions of an operator that has nothing to complain about.
fn well(available: &str, upgradeable: &str) -> Vec<Said> {
    let said = |kind, status, message: &str| Said { kind, status, reason: AS_EXPECTED.to_owned(), message: message.to_owned() };
    vec![
        said("Available", true, available),
        said("Progressing", false, ""),
        said("Degraded", false, ""),
        said("Upgradeable", true, upgradeable),
    ]
}

/// The conditions of an active control plane as the operator's own; any other says nothing about the cluster.
fn mirrored(control_plane: Option<&Value>) -> Vec<Said> {
    let Some(active) = control_plane.filter(|object| object["spec"]["state"] == "Active") else {
        return well("cluster operator is available", "cluster operator is upgradable");
    };
    let mut all: Vec<Said> = ["Available", "Progressing", "Degraded"]
        .into_iter()
        .filter_map(|kind| {
            let known = condition(active, kind)?;
            let text = |field: &str| known[field].as_str().unwrap_or_default().to_owned();
            let reason = Some(text("reason")).filter(|reason| !reason.is_empty()).unwrap_or_else(|| AS_EXPECTED.to_owned());
            Some(Said { kind, status: known["status"] == "True", reason, message: text("message") })
        })
        .collect();
    let is_available = is_condition_true(active, "Available");
    let message = if is_available { "cluster operator is upgradable" } else { "cluster operator is not upgradable" };
    all.push(Said { kind: "Upgradeable", status: is_available, reason: AS_EXPECTED.to_owned(), message: message.to_owned() });
    all
}

fn related(name: &str) -> Vec<Related> {
    match name {
        "machine-api" => vec![
            Related::new("", "namespaces", "", NAMESPACE),
            Related::new(MACHINES, "machines", NAMESPACE, ""),
            Related::new(MACHINES, "machinesets", NAMESPACE, ""),
            Related::new(MACHINES, "machinehealthchecks", NAMESPACE, ""),
            Related::new("rbac.authorization.k8s.io", "roles", NAMESPACE, ""),
            Related::new("rbac.authorization.k8s.io", "clusterroles", "", "machine-api-operator"),
            Related::new("rbac.authorization.k8s.io", "clusterroles", "", "machine-api-controllers"),
            Related::new("metal3.io", "baremetalhosts", NAMESPACE, ""),
        ],
        "machine-approver" => vec![
            Related::new("", "namespaces", "", APPROVER_NAMESPACE),
            Related::new("certificates.k8s.io", "certificatesigningrequests", "", ""),
        ],
        _ => vec![
            Related::new("", "namespaces", "", NAMESPACE),
            Related::new(MACHINES, "controlplanemachinesets", "", ""),
            Related::new(MACHINES, "machines", "", ""),
        ],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// MACH-CPMS-04: conditions are those of an active control plane; without one, or while it is inactive, nothing is wrong.
    #[test]
    fn conditions_of_the_control_plane() {
        let said = |control_plane: Option<&Value>| told(OPERATORS[2], &json!({}), None, control_plane);
        let conditions = json!([
            {"type": "Available", "status": "False", "reason": "UnavailableReplicas", "message": "Missing 1 available replica(s)"},
            {"type": "Progressing", "status": "True", "reason": "NeedsUpdateReplicas", "message": "Observed 1 replica(s) in need of update"},
            {"type": "Degraded", "status": "False", "reason": "AsExpected", "message": ""},
        ]);
        let mut object = json!({"spec": {"state": "Active"}, "status": {"conditions": conditions}});
        let active = said(Some(&object)).report;
        assert_eq!(active.unavailable, Some(Problem::new("UnavailableReplicas", "Missing 1 available replica(s)")));
        assert_eq!(active.not_upgradeable.unwrap().message, "cluster operator is not upgradable");
        assert!(active.progressing.is_some() && active.degraded.is_none());
        object["spec"]["state"] = json!("Inactive");
        let idle = said(Some(&object));
        assert!(idle.report.unavailable.is_none() && idle.report.not_upgradeable.is_none());
        assert!(idle.words.contains(&("Available", "AsExpected".to_owned(), "cluster operator is available".to_owned())));
    }

    /// CVO-CO-04: a version of a release is reported once the operator has said that it is on its way.
    #[test]
    fn versions_of_a_release() {
        let expected = [Version::new("operator", "4.19.44")];
        let first = told("machine-api", &json!({}), Some(&expected), None);
        assert!(!first.arrives && first.report.progressing.unwrap().message == "Progressing towards operator: 4.19.44");
        let live = json!({"status": {"conditions": [{"type": "Progressing", "status": "True"}]}});
        let second = told("machine-api", &live, Some(&expected), None);
        assert!(second.arrives && second.report.progressing.is_none());
        assert_eq!(second.words[0].2, "Cluster Machine API Operator is available at operator: 4.19.44");
        let alone = told("machine-approver", &json!({}), None, None);
        assert_eq!(
            (alone.report.version.as_deref(), alone.words[0].2.as_str()),
            (Some(VERSION), &*format!("Cluster Machine Approver is available at {VERSION}"))
        );
    }
}
