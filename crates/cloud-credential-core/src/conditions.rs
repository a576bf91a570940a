//! The conditions of a request, in upstream's words and with its rules for their times (COP-CRED-01, COP-CRED-04).

use jiff::Timestamp;
use serde_json::{Value, json};

/// A type of condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the API")]
pub enum Condition {
    InsufficientCloudCreds,
    MissingTargetNamespace,
    CredentialsProvisionFailure,
    CredentialsDeprovisionFailure,
    Ignored,
    StaleCredentials,
    OrphanedCloudResource,
}

impl Condition {
    /// The conditions that count as failures.
    pub const FAILURES: [Self; 4] = [
        Self::InsufficientCloudCreds,
        Self::MissingTargetNamespace,
        Self::CredentialsProvisionFailure,
        Self::CredentialsDeprovisionFailure,
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InsufficientCloudCreds => "InsufficientCloudCreds",
            Self::MissingTargetNamespace => "MissingTargetNamespace",
            Self::CredentialsProvisionFailure => "CredentialsProvisionFailure",
            Self::CredentialsDeprovisionFailure => "CredentialsDeprovisionFailure",
            Self::Ignored => "Ignored",
            Self::StaleCredentials => "StaleCredentials",
            Self::OrphanedCloudResource => "OrphanedCloudResource",
        }
    }

    /// The condition of a status.
    pub fn find(self, status: &Value) -> Option<&Value> {
        let all = status.get("conditions").and_then(Value::as_array)?;
        all.iter().find(|condition| condition["type"] == self.name())
    }

    /// Returns true if the condition is true in a status.
    pub fn is_true(self, status: &Value) -> bool {
        self.find(status).is_some_and(|condition| condition["status"] == "True")
    }

    /// The time since which the condition is true.
    pub fn true_since(self, status: &Value) -> Option<Timestamp> {
        let condition = self.find(status).filter(|condition| condition["status"] == "True")?;
        condition["lastTransitionTime"].as_str()?.parse().ok()
    }
}

/// Sets a condition of a status. A condition that was never true is not written as false; a false one keeps its first words.
pub fn set(status: &mut Value, condition: Condition, holds: bool, reason: &str, message: &str, now: Timestamp) {
    let written = json!(if holds { "True" } else { "False" });
    let found = condition.find(status).cloned();
    let always = holds || reason == MISMATCH;
    let new = match found {
        None if !holds => return,
        None => json!({
            "type": condition.name(), "status": written, "reason": reason, "message": message,
            "lastTransitionTime": now.to_string(), "lastProbeTime": now.to_string(),
        }),
        Some(mut old) => {
            let moved = old["status"] != written;
            let said = old["reason"] == reason && old["message"] == message;
            if !moved && (said || !always) {
                return;
            }
            if moved {
                old["lastTransitionTime"] = json!(now.to_string());
            }
            old["status"] = written;
            old["reason"] = json!(reason);
            old["message"] = json!(message);
            old["lastProbeTime"] = json!(now.to_string());
            old
        }
    };
    let all = &mut status["conditions"];
    if !all.is_array() {
        *all = json!([]);
    }
    if let Some(all) = all.as_array_mut() {
        match all.iter_mut().find(|held| held["type"] == condition.name()) {
            Some(held) => *held = new,
            None => all.push(new),
        }
    }
}

const MISMATCH: &str = "InfrastructureMismatch";

/// Marks a request of another platform, and clears its failures.
pub fn ignored(status: &mut Value, platform: &str, now: Timestamp) {
    let message = format!("CredentialsRequest is not for platform {platform}");
    set(status, Condition::Ignored, true, MISMATCH, &message, now);
    for failure in Condition::FAILURES {
        set(status, failure, false, MISMATCH, &message, now);
    }
}

/// Says that a request is no longer one of another platform.
pub fn not_ignored(status: &mut Value, platform: &str, now: Timestamp) {
    set(status, Condition::Ignored, false, "InfrastructureMatch", &format!("CredentialsRequest is for platform {platform}"), now);
}

/// Says if the target namespace is missing.
pub fn namespace(status: &mut Value, namespace: &str, missing: bool, now: Timestamp) {
    let (reason, found) = if missing { ("NamespaceMissing", "not found") } else { ("NamespaceExists", "found") };
    set(status, Condition::MissingTargetNamespace, missing, reason, &format!("target namespace {namespace} {found}"), now);
}

/// Outcome of an attempt to provision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provisioned {
    /// It succeeded.
    Done,
    /// It failed.
    Failed(String),
    /// The root credentials do not suffice.
    Insufficient,
    /// It succeeded, but left something in the cloud.
    Orphaned(String),
}

/// Says what came of an attempt to provision.
pub fn provisioned(status: &mut Value, outcome: &Provisioned, now: Timestamp) {
    let (failed, message) = match outcome {
        Provisioned::Failed(problem) => (true, format!("failed to grant creds: {problem}")),
        _ => (false, "successfully granted credentials request".to_owned()),
    };
    let reason = if failed { "CredentialsProvisionFailure" } else { "CredentialsProvisionSuccess" };
    set(status, Condition::CredentialsProvisionFailure, failed, reason, &message, now);
    let insufficient = *outcome == Provisioned::Insufficient;
    let (reason, message) = if insufficient {
        ("CloudCredsInsufficient", "cloud creds are insufficient to satisfy CredentialsRequest")
    } else {
        ("CloudCredsSufficient", "cloud credentials sufficient for minting or passthrough")
    };
    set(status, Condition::InsufficientCloudCreds, insufficient, reason, message, now);
    match outcome {
        Provisioned::Orphaned(problem) => {
            let message = format!("unable to clean up previously created cloud resource: {problem}");
            set(status, Condition::OrphanedCloudResource, true, "CloudResourceOrphaned", &message, now);
        }
        _ => set(status, Condition::OrphanedCloudResource, false, "CloudResourceCleaned", "cleaned up cloud resources", now),
    }
}

/// Says what came of an attempt to deprovision.
pub fn deprovisioned(status: &mut Value, problem: Option<&str>, now: Timestamp) {
    let (reason, message) = match problem {
        Some(problem) => ("CloudCredDeprovisionFailure", format!("failed to deprovision resource: {problem}")),
        None => ("CloudCredDeprovisionSuccess", "deprovisioned cloud credential resource(s)".to_owned()),
    };
    set(status, Condition::CredentialsDeprovisionFailure, problem.is_some(), reason, &message, now);
}
