//! The loop: it observes, writes what is planned, and reports.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, GroupVersionKind};
use mainstay_apply::{EventKind, WriteError, Writer};
use mainstay_objects::ObjectRef;
use mainstay_runtime::{Cluster, Env, KindError, Kinds, Optional, Outcome, Queue};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::migrations::Facts;
use super::plan::{Part, Snapshot, Write, plan};
use crate::Error;
use crate::follow::follow;
use crate::reported::{Reported, manifest};

/// The name of the ClusterOperator.
pub const OPERATOR: &str = "config-operator";
/// The account, and the field manager of what it writes.
pub const ACCOUNT: &str = "config-operator";

const GROUP: &str = "config.openshift.io";
/// The time after which a problem that no change may end is looked at again.
const AGAIN: Duration = Duration::from_secs(30);

/// Returns account, role and binding.
pub fn manifests() -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let read = ["get", "list", "watch"];
    let mut install_config = rule("", &["configmaps"], &["get"]);
    install_config["resourceNames"] = json!(["cluster-config-v1"]);
    let rules = [
        rule(GROUP, &["clusteroperators"], &["get", "list", "watch", "patch"]),
        rule(GROUP, &["featuregates"], &["get", "list", "watch", "update"]),
        rule(GROUP, &["clusteroperators/status", "featuregates/status", "infrastructures/status"], &["update"]),
        rule(GROUP, &["clusterversions", "infrastructures"], &read),
        install_config,
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &read),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    crate::manifests::account(ACCOUNT, &rules)
}

/// Runs until `stop` is cancelled. `release` is what the release that is being applied says of its operators.
///
/// # Errors
/// No client of the cluster can be made.
pub async fn run(cluster: Cluster, env: Env, release: watch::Receiver<Arc<[Value]>>, stop: CancellationToken) -> Result<(), Error> {
    let client = cluster.client()?;
    let queue: Queue<Work> = Queue::default();
    let kinds = [
        ("ClusterOperator", "clusteroperators"),
        ("FeatureGate", "featuregates"),
        ("ClusterVersion", "clusterversions"),
        ("Infrastructure", "infrastructures"),
    ];
    let watched = kinds.map(|(kind, plural)| {
        let woken = queue.clone();
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", kind), plural);
        Optional::start(&client, resource, &stop, move || woken.add(Work)).shown(env.metrics())
    });
    let writer = Writer::new(client.clone(), Kinds::new(client), ACCOUNT);
    let operator = Arc::new(Operator {
        reported: Reported::new(OPERATOR, writer.clone(), env.clone(), ACCOUNT),
        writer,
        watched,
        release: release.clone(),
    });
    queue.add(Work);
    let followed = follow(release, stop.clone(), {
        let queue = queue.clone();
        move || queue.add(Work)
    });
    let reconcile = move |_: Work| {
        let operator = operator.clone();
        async move { operator.reconcile().await }
    };
    let work = mainstay_runtime::run(ACCOUNT, queue, 1, env, stop, reconcile);
    tokio::join!(work, followed);
    Ok(())
}

/// The only item of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Work;

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ClusterOperator {OPERATOR}")
    }
}

struct Operator {
    reported: Reported,
    writer: Writer,
    watched: [Optional; 4],
    release: watch::Receiver<Arc<[Value]>>,
}

impl Operator {
    async fn reconcile(&self) -> Result<Outcome, Error> {
        // Each is asked: the question starts the copy of a kind that has come since.
        if self.watched.iter().filter(|kind| !kind.is_known()).count() > 0 {
            return Ok(Outcome::Done);
        }
        let release = self.release.borrow().clone();
        let Some(expected) = manifest(&release, OPERATOR) else { return Ok(Outcome::Done) };
        if self.watched[0].named(OPERATOR).is_none() {
            return Ok(Outcome::Done);
        }
        let Some(live) = self.reported.live().await? else { return Ok(Outcome::Done) };
        let cluster_version = self.get("ClusterVersion", "version").await?;
        let feature_gate = self.get("FeatureGate", "cluster").await?;
        let infrastructure = self.get("Infrastructure", "cluster").await?;
        let install_config = self.writer.get(&place("v1", "ConfigMap", "kube-system", "cluster-config-v1")).await?;
        let facts =
            Facts { feature_gate: feature_gate.as_ref(), infrastructure: infrastructure.as_ref(), install_config: install_config.as_ref() };
        let found = plan(&Snapshot { release: &release, expected, live: &live, cluster_version: cluster_version.as_ref(), facts });
        let (has_problem, arrives) = (found.told.report.degraded.is_some(), found.told.report.progressing.is_none());
        let wait = self.reported.write(live, found.told).await?;
        for write in &found.writes {
            self.write(write).await?;
        }
        if !found.writes.is_empty() || !(arrives || has_problem) {
            return Ok(Outcome::After(Duration::ZERO));
        }
        Ok(if has_problem { Outcome::After(wait.unwrap_or(AGAIN).min(AGAIN)) } else { Outcome::Done })
    }

    /// An object of the configuration; `None` also while its kind is not served.
    async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, WriteError> {
        match self.writer.get(&place("config.openshift.io/v1", kind, "", name)).await {
            Err(WriteError::Kind { source: KindError::NotServed { .. }, .. }) => Ok(None),
            found => found,
        }
    }

    async fn write(&self, write: &Write) -> Result<(), WriteError> {
        match write.part {
            Part::Whole => {
                self.writer.replace(&write.object).await?;
            }
            Part::Status => {
                let mut before = write.object.clone();
                before["status"] = Value::Null;
                self.writer.update_status(&before, &write.object["status"]).await?;
            }
        }
        if write.object["kind"] == "FeatureGate" && write.part == Part::Status {
            self.reported.record(&write.object, EventKind::Normal, "FeatureGateUpdate", &note(&write.object));
        }
        Ok(())
    }
}

fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

/// The text of the event about new features, in upstream's words.
fn note(gate: &Value) -> String {
    let entry = gate.pointer("/status/featureGates/0").unwrap_or(&Value::Null);
    let names = |list: &str| {
        let all = entry[list].as_array().into_iter().flatten().filter_map(|each| each["name"].as_str());
        all.collect::<Vec<_>>().join(",")
    };
    let set = gate.pointer("/spec/featureSet").and_then(Value::as_str).unwrap_or_default();
    let version = entry["version"].as_str().unwrap_or_default();
    format!("FeatureSet={set:?}, Version={version:?}, Enabled={:?}, Disabled={:?}", names("enabled"), names("disabled"))
}
