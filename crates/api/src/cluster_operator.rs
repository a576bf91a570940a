//! ClusterOperator: how an operator of the cluster itself says how it is (COP-G-08). The kind is OpenShift's; whoever reports looks
//! first whether it is served.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use crate::condition::{self, Condition, Status, set};

/// The group and version of the kind.
pub const API_VERSION: &str = "config.openshift.io/v1";
/// How long a problem lasts before the operator counts as degraded.
pub const INERTIA: Duration = Duration::from_secs(120);
/// The reason where nothing is to be said.
pub const AS_EXPECTED: &str = "AsExpected";

/// Why something is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// In CamelCase, for programs.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Problem {
    /// A problem; where nothing is said of it, its reason says it.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        let (reason, message) = (reason.into(), message.into());
        Self { message: if message.is_empty() { reason.clone() } else { message }, reason }
    }
}

/// What an operator says of itself. An operator that is not available always says why, so the three conditions are never all false
/// without a word.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Why its operands do not work.
    pub unavailable: Option<Problem>,
    /// What it is at.
    pub progressing: Option<Problem>,
    /// What has been wrong for longer than [`INERTIA`]; see [`Inertia`].
    pub degraded: Option<Problem>,
    /// Why the cluster must not go to its next minor version.
    pub not_upgradeable: Option<Problem>,
    /// The version that all operands run; as long as one runs another, `None` leaves what was reported before.
    pub version: Option<String>,
    /// Group, resource, namespace and name of what belongs to it.
    pub related: Vec<Related>,
}

/// An object that belongs to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the object reference")]
pub struct Related {
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

impl Related {
    /// An object reference; the namespace is empty for cluster-wide kinds.
    pub fn new(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self { group: group.into(), resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }

    fn value(&self) -> Value {
        let mut value = json!({"group": self.group, "resource": self.resource, "name": self.name});
        if !self.namespace.is_empty() {
            value["namespace"] = json!(self.namespace);
        }
        value
    }
}

/// The version of an operand, or of the operator itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The name; `operator` is the operator itself.
    pub name: String,
    /// The version.
    pub version: String,
}

impl Version {
    /// The version of this name.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into() }
    }
}

/// The ClusterOperator of a name, without status.
pub fn object(name: &str) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "ClusterOperator", "metadata": {"name": name}, "spec": {}})
}

/// What an event says of a status that has changed, in the words of OpenShift's operators; nothing where no condition changed its state.
///
/// `live` is the object before, `status` its status after.
pub fn transitions(live: &Value, status: &Value) -> Option<String> {
    let of = |status: &Value| status.as_object().map(conditions).unwrap_or_default();
    let (before, now) = (of(&live["status"]), of(status));
    let changed = now.iter().filter_map(|Condition { kind, status, message, .. }| match condition::get(&before, kind) {
        Some(old) if old.status == *status => None,
        Some(old) => Some(format!("{kind} changed from {:?} to {status:?} ({message:?})", old.status)),
        None => Some(format!("{kind} set to {status:?} ({message:?})")),
    });
    let changed: Vec<String> = changed.collect();
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    (!changed.is_empty()).then(|| format!("Status for clusteroperator/{name} changed: {}", changed.join(",")))
}

/// Returns true if a release brought the object: the ClusterVersion owns it.
pub fn is_of_release(live: &Value) -> bool {
    let owners = live["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| owner["kind"] == "ClusterVersion")
}

/// The status that `live` is to have. Conditions and versions of others stay.
pub fn status(live: &Value, report: &Report, now: Timestamp) -> Value {
    let mut status = live.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut conditions = conditions(&status);
    let wanted = [
        ("Available", report.unavailable.as_ref(), Status::False, Status::True),
        ("Progressing", report.progressing.as_ref(), Status::True, Status::False),
        ("Degraded", report.degraded.as_ref(), Status::True, Status::False),
        ("Upgradeable", report.not_upgradeable.as_ref(), Status::False, Status::True),
    ];
    for (kind, problem, with, without) in wanted {
        set(
            &mut conditions,
            Condition {
                kind: kind.to_owned(),
                status: if problem.is_some() { with } else { without },
                reason: problem.map_or(AS_EXPECTED, |problem| problem.reason.as_str()).to_owned(),
                message: problem.map_or("All is well", |problem| problem.message.as_str()).to_owned(),
                last_transition_time: Time(now),
                observed_generation: None,
            },
        );
    }
    status.insert("conditions".into(), json!(conditions));
    // An operator that a release brought is at the release's version, which the applier of the release tells.
    let is_told = is_of_release(live) && status.get("versions").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    if let Some(version) = report.version.as_ref().filter(|_| !is_told) {
        let own = json!({"name": "operator", "version": version});
        let mut versions = status.get("versions").and_then(Value::as_array).cloned().unwrap_or_default();
        match versions.iter_mut().find(|each| each["name"] == "operator") {
            Some(found) => *found = own,
            None => versions.push(own),
        }
        status.insert("versions".into(), Value::Array(versions));
    }
    status.insert("relatedObjects".into(), report.related.iter().map(Related::value).collect());
    Value::Object(status)
}

/// The status of an operator that a release brought, with these versions if all operands run them: the operator itself tells its versions, and
/// no other part does.
pub fn status_of_release(live: &Value, report: &Report, versions: Option<&[Version]>, now: Timestamp) -> Value {
    let mut status = status(live, &Report { version: None, ..report.clone() }, now);
    let mut known = live.pointer("/status/versions").and_then(Value::as_array).cloned().unwrap_or_default();
    for Version { name, version } in versions.unwrap_or_default() {
        let own = json!({"name": name, "version": version});
        match known.iter_mut().find(|each| each["name"] == name.as_str()) {
            Some(found) => *found = own,
            None => known.push(own),
        }
    }
    if !known.is_empty() {
        status["versions"] = Value::Array(known);
    }
    status
}

/// Sets reason and message of a condition, for an operator that has more to say than that all is well. State and time stay.
pub fn say(status: &mut Value, kind: &str, reason: &str, message: &str) {
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions.filter(|condition| condition["type"] == kind) {
        condition["reason"] = reason.into();
        condition["message"] = message.into();
    }
}

/// The conditions that are there; what is no condition is dropped, as the next write would be refused with it.
fn conditions(status: &Map<String, Value>) -> Vec<Condition> {
    let all = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|each| serde_json::from_value(each.clone()).ok()).collect()
}

/// Since when something has been wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inertia {
    since: Option<Timestamp>,
}

/// What inertia makes of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// Nothing is wrong.
    Well,
    /// It counts after this long.
    Soon(Duration),
    /// It counts.
    Degraded(Problem),
}

impl Lasting {
    /// The problem that counts, and the time after which to judge again.
    pub fn split(self) -> (Option<Problem>, Option<Duration>) {
        match self {
            Self::Well => (None, None),
            Self::Soon(wait) => (None, Some(wait)),
            Self::Degraded(problem) => (Some(problem), None),
        }
    }
}

impl Inertia {
    /// What this problem, or none, comes to now.
    pub fn judge(&mut self, problem: Option<Problem>, now: Timestamp) -> Lasting {
        let Some(problem) = problem else {
            self.since = None;
            return Lasting::Well;
        };
        let lasted = now.duration_since(*self.since.get_or_insert(now));
        match SignedDuration::try_from(INERTIA).map(|inertia| inertia - lasted) {
            Ok(left) if left.is_positive() => Lasting::Soon(left.unsigned_abs()),
            _ => Lasting::Degraded(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn well() -> Report {
        Report { unavailable: None, progressing: None, degraded: None, not_upgradeable: None, version: None, related: Vec::new() }
    }

    fn get<'a>(status: &'a Value, kind: &str) -> &'a Value {
        status["conditions"].as_array().unwrap().iter().find(|each| each["type"] == kind).unwrap()
    }

    /// COP-G-08: four conditions with reasons; times move with the status alone; versions only when all operands run the new one.
    #[test]
    fn a_report_becomes_a_status() {
        let (one, two) = (Timestamp::UNIX_EPOCH, "2026-01-01T00:00:00Z".parse().unwrap());
        let related = vec![Related::new("", "namespaces", "", "here")];
        let mut live = object("some");
        live["status"] = status(&live, &Report { version: Some("1".into()), related, ..well() }, one);
        assert_eq!(get(&live["status"], "Available")["status"], "True");
        assert_eq!(get(&live["status"], "Degraded")["reason"], "AsExpected");
        assert_eq!(live["status"]["relatedObjects"], json!([{"group": "", "resource": "namespaces", "name": "here"}]));

        let ill = Report { unavailable: Some(Problem::new("NoKey", "")), ..well() };
        let later = status(&live, &ill, two);
        let available = get(&later, "Available");
        assert_eq!((&available["status"], &available["message"]), (&json!("False"), &json!("NoKey")), "never without a word");
        assert_eq!(available["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(get(&later, "Progressing")["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(
            transitions(&live, &later).as_deref(),
            Some("Status for clusteroperator/some changed: Available changed from True to False (\"NoKey\")"),
            "MS-OPS-01"
        );
        assert_eq!(transitions(&live, &live["status"]), None);
        assert_eq!(later["versions"], json!([{"name": "operator", "version": "1"}]));
        // What a release brought keeps the version that it was told.
        let told = json!([{"name": "operator", "version": "4.19.1"}]);
        let of_release = json!({"metadata": {"ownerReferences": [{"kind": "ClusterVersion"}]}, "status": {"versions": told}});
        assert_eq!(status(&of_release, &well(), Timestamp::UNIX_EPOCH)["versions"], told);
    }

    /// COP-G-08: an operator of a release tells its versions itself, by name, and only when all operands run them; what it says of itself moves no
    /// time.
    #[test]
    fn versions_of_a_release() {
        let (one, two) = (Timestamp::UNIX_EPOCH, "2026-01-01T00:00:00Z".parse().unwrap());
        let versions = |version: &str| vec![Version::new("operator", version), Version::new("feature-gates", version)];
        let mut live = object("some");
        live["metadata"]["ownerReferences"] = json!([{"kind": "ClusterVersion"}]);
        live["status"] = json!({"versions": [{"name": "other", "version": "1"}]});
        live["status"] = status_of_release(&live, &well(), None, one);
        assert_eq!(live["status"]["versions"], json!([{"name": "other", "version": "1"}]));
        live["status"] = status_of_release(&live, &well(), Some(&versions("4.18.9")), one);
        let mut later = status_of_release(&live, &well(), Some(&versions("4.19.0")), two);
        let told: Vec<&Value> = later["versions"].as_array().unwrap().iter().map(|each| &each["version"]).collect();
        assert_eq!(told, ["1", "4.19.0", "4.19.0"]);
        say(&mut later, "Available", "Removed", "it is removed");
        let available = get(&later, "Available");
        assert_eq!((&available["reason"], &available["message"]), (&json!("Removed"), &json!("it is removed")));
        assert_eq!((&available["status"], &available["lastTransitionTime"]), (&json!("True"), &json!("1970-01-01T00:00:00Z")));
        assert_eq!(get(&later, "Degraded")["message"], "All is well");
    }

    /// COP-G-08: a problem counts once it has lasted, and is forgotten when it ends.
    #[test]
    fn a_problem_counts_once_it_has_lasted() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let problem = || Some(Problem::new("Ill", "it is ill"));
        let mut inertia = Inertia::default();
        assert_eq!(inertia.judge(problem(), at(0)), Lasting::Soon(INERTIA));
        assert_eq!(inertia.judge(problem(), at(119)), Lasting::Soon(Duration::from_secs(1)));
        assert_eq!(inertia.judge(problem(), at(120)), Lasting::Degraded(problem().unwrap()));
        assert_eq!(inertia.judge(None, at(121)), Lasting::Well);
        assert_eq!(inertia.judge(problem(), at(122)), Lasting::Soon(INERTIA));
    }
}
