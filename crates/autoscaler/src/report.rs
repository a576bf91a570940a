//! ClusterOperator `cluster-autoscaler`, where the kind is served (COP-CAS-05).

use std::sync::Arc;

use mainstay_api::cluster_operator::{self, AS_EXPECTED, Problem, Related, Report, Version};
use mainstay_apply::EventKind;
use mainstay_objects::{ObjectRef, is_condition_true};
use mainstay_runtime::{Key, Optional, Outcome, Queue};
use serde_json::Value;
use tokio::sync::watch;

use crate::Error;
use crate::kinds::{CLUSTER_OPERATOR, NAMESPACE};
use crate::manifests::OPERATOR;
use crate::shared::{Shared, Teller, settled};

/// The version of this program, where no release tells one.
const VERSION: &str = env!("CARGO_PKG_VERSION");

type Release = watch::Receiver<Arc<[Value]>>;

/// Runs the report.
pub(crate) async fn run(shared: Shared, release: Option<Release>) {
    let queue: Queue<Key> = Queue::default();
    let key = Key::new("", OPERATOR);
    let (woken, own) = (queue.clone(), key.clone());
    let wake = move || woken.add(own.clone());
    let operators = Optional::start(shared.writer.client(), CLUSTER_OPERATOR.resource(), &shared.stop, wake).shown(shared.env.metrics());
    queue.add(key.clone());
    let (woken, until, followed) = (queue.clone(), shared.stop.clone(), release.clone());
    let followed = async move {
        let Some(mut followed) = followed else { return };
        while let Some(Ok(())) = until.run_until_cancelled(followed.changed()).await {
            woken.add(key.clone());
        }
    };
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let events = shared.recorder("cluster-autoscaler-operator");
    let reporter = Arc::new(Reporter { shared, events, operators, release });
    let reports = mainstay_runtime::run("cluster-autoscaler-report", queue, 1, env, stop, move |_| {
        let reporter = reporter.clone();
        async move { settled(reporter.report().await) }
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
    async fn report(&self) -> Result<Outcome, Error> {
        if !self.operators.is_known() || self.operators.objects().is_none() {
            return Ok(Outcome::Done);
        }
        let expected = self.release.as_ref().and_then(|release| {
            let release = release.borrow();
            let is_it = |manifest: &&Value| manifest["kind"] == "ClusterOperator" && manifest["metadata"]["name"] == OPERATOR;
            release.iter().find(is_it).map(versions)
        });
        let own = cluster_operator::object(OPERATOR);
        let live = match self.shared.writer.get(&ObjectRef::of(&own)?).await? {
            Some(live) => live,
            // That of a release is made by who applies it.
            None if self.release.is_some() => return Ok(Outcome::Done),
            None => self.shared.writer.create(&own).await?,
        };
        let status = status(&live, expected.as_deref(), self.shared.env.now_seconds());
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

/// Returns the status. An operator that a release brings says first that it is on its way (CVO-CO-04).
fn status(live: &Value, expected: Option<&[Version]>, now: jiff::Timestamp) -> Value {
    let reported = versions(live);
    let is_there = expected.is_none_or(|versions| versions.iter().all(|version| reported.contains(version)));
    let arrives = is_there || is_condition_true(live, "Progressing");
    let wanted = expected.and_then(|versions| versions.iter().find(|version| version.name == "operator"));
    let version = wanted.map_or(VERSION, |version| &version.version);
    let report = Report {
        unavailable: None,
        progressing: (!arrives).then(|| Problem::new("SyncingResources", format!("Syncing to version {version}"))),
        degraded: None,
        not_upgradeable: None,
        version: expected.is_none().then(|| VERSION.to_owned()),
        related: related(),
    };
    let mut status = match expected {
        Some(versions) => cluster_operator::status_of_release(live, &report, arrives.then_some(versions), now),
        None => cluster_operator::status(live, &report, now),
    };
    cluster_operator::say(&mut status, "Available", AS_EXPECTED, &format!("at version {version}"));
    status
}

fn related() -> Vec<Related> {
    let role = |resource: &str, name: &str| Related::new("rbac.authorization.k8s.io", resource, "", name);
    vec![
        Related::new("", "namespaces", "", NAMESPACE),
        Related::new("autoscaling.openshift.io", "machineautoscalers", NAMESPACE, ""),
        Related::new("autoscaling.openshift.io", "clusterautoscalers", "", ""),
        role("clusterroles", "cluster-autoscaler-operator"),
        role("clusterroles", "cluster-autoscaler"),
        role("clusterroles", "cluster-autoscaler-operator:cluster-reader"),
        role("clusterrolebindings", "cluster-autoscaler-operator"),
        role("clusterrolebindings", "cluster-autoscaler"),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mainstay_objects::condition;
    use serde_json::json;

    use super::*;

    /// COP-CAS-05: it is available at its version; that of a release comes after it was on its way there.
    #[test]
    fn available_at_a_version() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let alone = status(&json!({}), None, now);
        let of = |status: &Value, kind: &str| condition(&json!({"status": status}), kind).cloned().unwrap();
        assert_eq!(of(&alone, "Available")["message"], format!("at version {VERSION}"));
        let expected = [Version::new("operator", "4.19.44")];
        let first = status(&json!({}), Some(&expected), now);
        assert_eq!(
            (&of(&first, "Progressing")["status"], &of(&first, "Progressing")["reason"]),
            (&json!("True"), &json!("SyncingResources"))
        );
        let second = status(&json!({"status": first}), Some(&expected), now);
        assert_eq!(of(&second, "Available")["message"], "at version 4.19.44");
        assert_eq!((&of(&second, "Progressing")["status"], &second["versions"][0]["version"]), (&json!("False"), &json!("4.19.44")));
    }
}
