//! The status of a ControlPlaneMachineSet (MACH-CPMS-04).

use jiff::Timestamp;
use mainstay_objects::{Condition, set_condition};
use serde_json::{Value, json};

use super::health::Degradation;
use super::members::Indexes;
use super::object::ControlPlane;

/// Equal errors in a row after which condition Error says so.
pub const MOST_ERRORS: u32 = 15;
const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const DEGRADED: &str = "Degraded";
const ERROR: &str = "Error";
const AS_EXPECTED: &str = "AsExpected";

/// Numbers of machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub replicas: usize,
    /// Those that serve.
    pub ready: usize,
    /// Those that serve and are as the template wants them.
    pub updated: usize,
    /// Indexes in which none serves.
    pub unavailable: usize,
}

impl Counts {
    /// Counts machines.
    pub fn of(indexes: &Indexes) -> Self {
        let all = || indexes.values().flatten();
        Self {
            replicas: all().count(),
            ready: all().filter(|member| member.ready).count(),
            updated: all().filter(|member| member.is_updated()).count(),
            unavailable: indexes.values().filter(|members| !members.iter().any(|member| member.ready)).count(),
        }
    }
}

/// An error that comes again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// The error.
    pub message: String,
    /// When it came first.
    pub since: Timestamp,
    /// The number of times in a row.
    pub count: u32,
}

impl Repeated {
    /// Counts an error that follows `before`.
    #[must_use]
    pub fn after(before: Option<Self>, message: String, now: Timestamp) -> Self {
        match before {
            Some(known) if known.message == message => Self { count: known.count.saturating_add(1), ..known },
            _ => Self { message, since: now, count: 1 },
        }
    }
}

/// Everything that a status tells besides errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The numbers.
    pub counts: Counts,
    /// Why nothing is done.
    pub degraded: Option<Degradation>,
}

/// Returns the status of an object. Without an observation the numbers and conditions stay, and only the error is told.
pub fn status(live: &Value, observed: Option<(&ControlPlane, &Observed)>, error: Option<&Repeated>, now: Timestamp) -> Value {
    let generation = live.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    let now = format!("{now:.0}");
    let mut object = json!({"status": live.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}))});
    let mut set = |kind: &str, status: bool, reason: &str, message: &str| {
        set_condition(&mut object, &Condition { kind, status, reason, message }, &now);
    };
    if let Some((control_plane, Observed { counts, degraded })) = observed {
        match counts.unavailable {
            0 => set(AVAILABLE, true, "AllReplicasAvailable", ""),
            missing => set(AVAILABLE, false, "UnavailableReplicas", &format!("Missing {missing} available replica(s)")),
        }
        match degraded {
            None => set(DEGRADED, false, AS_EXPECTED, ""),
            Some(degraded) => set(DEGRADED, true, degraded.reason(), &degraded.to_string()),
        }
        let (status, reason, message) = progress(control_plane, counts, degraded.as_ref());
        set(PROGRESSING, status, reason, &message);
    }
    match error.filter(|error| error.count >= MOST_ERRORS) {
        None => set(ERROR, false, AS_EXPECTED, ""),
        Some(Repeated { message, since, .. }) => {
            let told = format!(
                "The control plane machine set has experienced the following error more than {MOST_ERRORS} consecutive times since {since:.0}: \
                 {message}"
            );
            set(ERROR, true, "ContinuousErrors", &told);
        }
    }
    for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
        let is_ours = [AVAILABLE, DEGRADED, PROGRESSING, ERROR].iter().any(|kind| condition["type"] == *kind);
        if is_ours && (observed.is_some() || condition["type"] == ERROR) {
            condition["observedGeneration"] = json!(generation);
        }
    }
    if let Some((_, Observed { counts, .. })) = observed {
        let status = &mut object["status"];
        status["observedGeneration"] = json!(generation);
        status["replicas"] = json!(counts.replicas);
        status["readyReplicas"] = json!(counts.ready);
        status["updatedReplicas"] = json!(counts.updated);
        status["unavailableReplicas"] = json!(counts.unavailable);
    }
    object["status"].take()
}

fn progress(set: &ControlPlane, counts: &Counts, degraded: Option<&Degradation>) -> (bool, &'static str, String) {
    if degraded.is_some_and(Degradation::stops_progress) {
        return (false, "OperatorDegraded", String::new());
    }
    let wanted = usize::try_from(set.replicas).unwrap_or_default();
    if wanted > counts.updated {
        return (true, "NeedsUpdateReplicas", format!("Observed {} replica(s) in need of update", wanted - counts.updated));
    }
    if wanted < counts.ready {
        return (true, "ExcessReplicas", format!("Waiting for {} old replica(s) to be removed", counts.ready - counts.updated));
    }
    (false, "AllReplicasUpdated", String::new())
}
