//! The plan of the samples operator: steps, and its report of itself (COP-13).

use jiff::Timestamp;
use mainstay_api::cluster_operator::{Problem, Related, Report};
use mainstay_cluster_version_core::stand_in::SIMULATED;
use serde_json::{Value, json};

use super::status::{State, status};
use super::streams::{MANAGED, NAMESPACE, VERSION, streams};
use crate::player::NO_OPERAND;
use crate::reported::{Stage, Told, stage, version, versions};

/// The finalizer of `Config/cluster`.
pub const FINALIZER: &str = "samples.operator.openshift.io/finalizer";
/// The architectures that samples can be for.
const ARCHITECTURES: [&str; 5] = ["x86_64", "amd64", "arm64", "ppc64le", "s390x"];

/// The facts that the operator decides on.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The manifest of the operator's ClusterOperator.
    pub expected: &'a Value,
    /// The ClusterOperator.
    pub live: &'a Value,
    /// `Config/cluster`.
    pub config: Option<&'a Value>,
    /// The ImageStreams of namespace `openshift`.
    pub streams: &'a [Value],
    /// True if the pull secret of the cluster exists.
    pub has_credentials: bool,
    /// The time.
    pub now: Timestamp,
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create an object.
    Create(Value),
    /// Replace an object by this one, which has the version that it was made from.
    Replace(Value),
    /// Delete an ImageStream.
    Delete(Value),
    /// Take the finalizer from `Config/cluster`.
    Release,
}

/// The plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The status of `Config/cluster`; `None` if the object is not there, or is not ready for one.
    pub status: Option<Value>,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// The report of the operator.
    pub told: Told,
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn texts<'a>(object: &'a Value, pointer: &str) -> Vec<&'a str> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn member<'a>(object: &'a Value, part: &str, key: &str) -> &'a str {
    object["metadata"][part].get(key).and_then(Value::as_str).unwrap_or_default()
}

fn is_being_deleted(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// The configuration that is made where there is none.
fn usual() -> Value {
    json!({
        "apiVersion": "samples.operator.openshift.io/v1", "kind": "Config",
        "metadata": {"name": "cluster", "finalizers": [FINALIZER], "annotations": {SIMULATED: "true"}},
        "spec": {"managementState": "Managed", "architectures": ["x86_64"]},
    })
}

/// Returns what is to be done.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let target = version(snapshot.expected).unwrap_or_default();
    let Some(config) = snapshot.config else {
        let told = told(snapshot, &target, &State::default(), true);
        return Plan { status: None, steps: vec![Step::Create(usual())], told };
    };
    let state = |management: &str| State {
        management: management.to_owned(),
        has_credentials: snapshot.has_credentials,
        exist: condition_holds(config, "SamplesExist"),
        ..State::default()
    };
    let management = match text(config, "/spec/managementState") {
        "" => "Managed",
        management => management,
    };
    if !is_being_deleted(config) && !texts(config, "/metadata/finalizers").contains(&FINALIZER) {
        let told = told(snapshot, &target, &state(management), true);
        return Plan { status: None, steps: vec![Step::Replace(with_finalizer(config))], told };
    }
    let (steps, state) = if is_being_deleted(config) {
        let mut steps = removals(snapshot.streams);
        if steps.is_empty() && !snapshot.streams.iter().any(is_managed) {
            steps.push(Step::Release);
        }
        (steps, State { is_removing: true, ..state(management) })
    } else if management == "Removed" {
        let is_removing = snapshot.streams.iter().any(is_managed);
        let version = (!is_removing).then(|| target.clone());
        (removals(snapshot.streams), State { is_removing, exist: is_removing, version, ..state(management) })
    } else if management == "Unmanaged" {
        (Vec::new(), State { version: Some(target.clone()), ..state(management) })
    } else {
        managed(snapshot, config, &target, state(management))
    };
    let is_busy = state.is_writing || state.is_removing || state.invalid.is_some();
    Plan { status: Some(status(config, &state, snapshot.now)), steps, told: told(snapshot, &target, &state, is_busy) }
}

/// The samples of the release, written where a version, the registry or the list of skipped ones asks for it.
fn managed(snapshot: &Snapshot<'_>, config: &Value, target: &str, state: State) -> (Vec<Step>, State) {
    if let Some(why) = problem(config) {
        return (Vec::new(), State { invalid: Some(why), ..state });
    }
    let skipped = texts(config, "/spec/skippedImagestreams");
    let was_skipped = texts(config, "/status/skippedImagestreams");
    let registry = text(config, "/spec/samplesRegistry");
    let has_moved = condition_holds(config, "SamplesExist") && registry != text(config, "/status/samplesRegistry");
    let mut steps = Vec::new();
    let mut exist = true;
    for wanted in streams(registry, target) {
        let name = text(&wanted, "/metadata/name");
        let live = snapshot.streams.iter().find(|live| text(live, "/metadata/name") == name);
        if skipped.contains(&name) {
            if let Some(live) = live.filter(|live| is_managed(live)) {
                let mut left = live.clone();
                left["metadata"]["labels"][MANAGED] = "false".into();
                steps.push(Step::Replace(left));
            }
            continue;
        }
        let Some(live) = live else {
            exist = false;
            steps.push(Step::Create(wanted));
            continue;
        };
        let is_asked_for = has_moved || was_skipped.contains(&name) || member(live, "annotations", VERSION) != target;
        let renewed = renewed(live, &wanted);
        if is_asked_for && !is_being_deleted(live) && renewed != *live {
            steps.push(Step::Replace(renewed));
        }
    }
    let before = text(config, "/status/version");
    let is_writing = !steps.is_empty();
    let is_migrating = is_writing && !before.is_empty() && before != target;
    let version = (!is_writing).then(|| target.to_owned());
    let exist = exist || state.exist;
    (steps, State { version, exist, is_processed: !is_writing, is_writing, is_migrating, ..state })
}

/// The live sample with the content of the release; labels and annotations of others stay.
fn renewed(live: &Value, wanted: &Value) -> Value {
    let mut renewed = live.clone();
    for part in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][part].as_object().into_iter().flatten() {
            renewed["metadata"][part][key] = value.clone();
        }
    }
    renewed["spec"] = wanted["spec"].clone();
    renewed
}

fn is_managed(stream: &Value) -> bool {
    member(stream, "labels", MANAGED) == "true"
}

/// Deletes the samples that are managed; the others are the user's.
fn removals(streams: &[Value]) -> Vec<Step> {
    let left = |stream: &&Value| is_managed(stream) && !is_being_deleted(stream);
    streams.iter().filter(left).cloned().map(Step::Delete).collect()
}

/// The configuration with the finalizer.
fn with_finalizer(config: &Value) -> Value {
    let mut own = config.clone();
    own["metadata"]["finalizers"] = texts(config, "/metadata/finalizers").into_iter().chain([FINALIZER]).collect();
    own
}

fn condition_holds(config: &Value, kind: &str) -> bool {
    let conditions = config.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|each| each["type"] == kind && each["status"] == "True")
}

/// Why the configuration is not valid, in upstream's words.
fn problem(config: &Value) -> Option<String> {
    let (wanted, processed) = (texts(config, "/spec/architectures"), texts(config, "/status/architectures"));
    if let Some(unknown) = wanted.iter().find(|name| !ARCHITECTURES.contains(name)) {
        return Some(format!("architecture {unknown} unsupported; only support {}", ARCHITECTURES.join(",")));
    }
    let is_changed = condition_holds(config, "SamplesExist") && !processed.is_empty() && processed != wanted;
    is_changed.then(|| format!("cannot change architectures from {} to {}", processed.join(" "), wanted.join(" ")))
}

/// The report of the operator.
fn told(snapshot: &Snapshot<'_>, target: &str, state: &State, is_busy: bool) -> Told {
    let stage = stage(snapshot.live, snapshot.expected, is_busy);
    let at = snapshot.config.map(|config| text(config, "/status/version")).filter(|at| !at.is_empty()).unwrap_or(target);
    let progressing = if state.is_removing {
        Some(Problem::new("RemovePending", format!("simulated: Deleting samples at {target}")))
    } else {
        (stage == Stage::Working).then(|| Problem::new("Updating", format!("simulated: Samples processing to {target}")))
    };
    let is_off = ["Removed", "Unmanaged"].contains(&&*state.management);
    let has_none = !state.exist && !is_off && stage != Stage::There;
    let words = if is_off {
        let message = format!("{NO_OPERAND}; the samples operator is {} at {at}", state.management);
        vec![("Available", format!("Currently{}", state.management), message)]
    } else {
        vec![("Available", "AsExpected".to_owned(), format!("{NO_OPERAND}; Samples installation successful at {at}"))]
    };
    let degraded = state.invalid.as_ref().map(|why| {
        let message = format!("Samples installation in error at {target}: {why}");
        Problem::new("InvalidConfiguration", message)
    });
    let report = Report {
        unavailable: has_none.then(|| Problem::new("SampleUpsertsPending", format!("{NO_OPERAND}, and the samples are not written yet"))),
        progressing,
        degraded,
        not_upgradeable: None,
        version: None,
        related: vec![
            Related::new("samples.operator.openshift.io", "configs", "", "cluster"),
            Related::new("", "namespaces", "", "openshift-cluster-samples-operator"),
            Related::new("image.openshift.io", "imagestreams", NAMESPACE, ""),
        ],
    };
    let words = if has_none { Vec::new() } else { words };
    Told { report, versions: (stage != Stage::Working).then(|| versions(snapshot.expected)), words, is_played: true }
}
