//! A ClusterOperator that a loop of this crate reports (COP-G-08): one that a release brought. Where a release has none, nothing is written.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mainstay_api::cluster_operator::{self, Inertia, Report, Version};
use mainstay_apply::{EventKind, Recorder, WriteError, Writer};
use mainstay_objects::{ObjectRef, Patch};
use mainstay_runtime::Env;
use serde_json::{Value, json};

use crate::player::{SIMULATED, has_versions, is_marked};

/// The report of an operator on itself, and the versions that its operands run.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The conditions. `degraded` is what is wrong now: it counts once it has lasted.
    pub report: Report,
    /// The versions, once all operands run them.
    pub versions: Option<Vec<Version>>,
    /// Reason and message of conditions that have more to say than that all is well, by type.
    pub words: Vec<(&'static str, String, String)>,
    /// True if what it reports is played.
    pub is_played: bool,
}

/// The progress of an operator on its way to the versions of its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is at the versions.
    There,
    /// It has work to do, or has not yet said that it is on its way (CVO-CO-04).
    Working,
    /// Everything is done, and the versions can be told.
    Arrives,
}

/// Returns the stage of an operator; `is_busy` if something is still to be done.
pub fn stage(live: &Value, expected: &Value, is_busy: bool) -> Stage {
    let conditions = live.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let has_begun = conditions.into_iter().any(|each| each["type"] == "Progressing" && each["status"] == "True");
    if has_versions(live, expected) {
        Stage::There
    } else if has_begun && !is_busy {
        Stage::Arrives
    } else {
        Stage::Working
    }
}

/// Returns the versions of a ClusterOperator's manifest.
pub fn versions(expected: &Value) -> Vec<Version> {
    let all = expected.pointer("/status/versions").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|each| Some(Version::new(each["name"].as_str()?, each["version"].as_str()?))).collect()
}

/// Returns the version of the operator itself in a ClusterOperator's manifest.
pub fn version(expected: &Value) -> Option<String> {
    versions(expected).into_iter().find(|each| each.name == "operator").map(|each| each.version)
}

/// Returns the manifest of a ClusterOperator among what a release says of its operators.
pub fn manifest<'a>(told: &'a [Value], name: &str) -> Option<&'a Value> {
    told.iter().find(|manifest| manifest["kind"] == "ClusterOperator" && manifest["metadata"]["name"] == name)
}

/// Writes one ClusterOperator.
pub(crate) struct Reported {
    name: &'static str,
    writer: Writer,
    recorder: Recorder,
    env: Env,
    inertia: Mutex<Inertia>,
}

impl Reported {
    pub(crate) fn new(name: &'static str, writer: Writer, env: Env, account: &str) -> Self {
        let recorder = Recorder::new(writer.clone(), env.clone(), account, "mainstay");
        Self { name, writer, recorder, env, inertia: Mutex::default() }
    }

    /// Returns the object; `None` if no release brought it.
    pub(crate) async fn live(&self) -> Result<Option<Value>, WriteError> {
        self.writer.get(&ObjectRef::of(&cluster_operator::object(self.name))?).await
    }

    /// Writes what the operator says, and returns the time after which a problem counts.
    pub(crate) async fn write(&self, mut live: Value, mut told: Told) -> Result<Option<Duration>, WriteError> {
        let now = self.env.now_seconds();
        // The value is whole between statements.
        let lasting = self.inertia.lock().unwrap_or_else(PoisonError::into_inner).judge(told.report.degraded.take(), now);
        let (degraded, wait) = lasting.split();
        told.report.degraded = degraded;
        if told.is_played != is_marked(&live) {
            let mark = if told.is_played { json!("true") } else { Value::Null };
            let patch = Patch::Merge(json!({"metadata": {"annotations": {SIMULATED: mark}}}));
            live = self.writer.patch(&ObjectRef::of(&live)?, "", &patch).await?;
        }
        let mut status = cluster_operator::status_of_release(&live, &told.report, told.versions.as_deref(), now);
        for (kind, reason, message) in &told.words {
            cluster_operator::say(&mut status, kind, reason, message);
        }
        if self.writer.update_status(&live, &status).await?.is_some()
            && let Some(note) = cluster_operator::transitions(&live, &status)
        {
            self.record(&live, EventKind::Normal, "OperatorStatusChanged", &note);
        }
        Ok(wait)
    }

    /// Reports an event; one that cannot be reported is no reason to fail the work.
    pub(crate) fn record(&self, about: &Value, kind: EventKind, reason: &str, note: &str) {
        if let Err(error) = self.recorder.record(about, kind, reason, "Reconciling", note) {
            tracing::warn!(%error, name = self.name, "an event could not be reported");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// COP-G-08, CVO-CO-04: the versions are told only after the operator has said that it is on its way, and has nothing left to do.
    #[test]
    fn stages() {
        let expected = json!({"status": {"versions": [{"name": "operator", "version": "2"}]}});
        let live = |progressing: &str, version: &str| {
            json!({"status": {
                "conditions": [{"type": "Progressing", "status": progressing}], "versions": [{"name": "operator", "version": version}],
            }})
        };
        for (live, is_busy, stage_then) in [
            (json!({}), false, Stage::Working),
            (live("False", "1"), false, Stage::Working),
            (live("True", "1"), true, Stage::Working),
            (live("True", "1"), false, Stage::Arrives),
            (live("False", "2"), true, Stage::There),
        ] {
            assert_eq!(stage(&live, &expected, is_busy), stage_then, "{live}");
        }
        assert_eq!(version(&expected).as_deref(), Some("2"));
        let told = [
            json!({"kind": "FeatureGate", "metadata": {"name": "etcd"}}),
            json!({"kind": "ClusterOperator", "metadata": {"name": "etcd"}}),
        ];
        assert_eq!(manifest(&told, "etcd"), Some(&told[1]));
        assert_eq!(manifest(&told, "dns"), None);
    }
}
