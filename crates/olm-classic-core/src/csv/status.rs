//! Phases, reasons and the status of a CSV (OLM0-CSV-01, OLM0-CSV-02, OLM0-API-10).

use std::fmt;

use jiff::Timestamp;
use serde_json::{Value, json};

/// The most entries of the history in `status.conditions`.
const MOST_CONDITIONS: usize = 20;

/// The names of an enumeration, as objects hold them.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($name:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "named as in objects")]
        pub enum $type { $($name,)* }

        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its text in objects.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Reads a text.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|each| each.as_str() == text)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(self.as_str())
            }
        }
    };
}

named! {
    /// The phase of a CSV.
    Phase {
        None = "",
        Pending = "Pending",
        InstallReady = "InstallReady",
        Installing = "Installing",
        Succeeded = "Succeeded",
        Failed = "Failed",
        Unknown = "Unknown",
        Replacing = "Replacing",
        Deleting = "Deleting",
    }
}

named! {
    /// The reason of a phase.
    Reason {
        RequirementsUnknown = "RequirementsUnknown",
        RequirementsNotMet = "RequirementsNotMet",
        AllRequirementsMet = "AllRequirementsMet",
        OwnerConflict = "OwnerConflict",
        InstallSucceeded = "InstallSucceeded",
        InstallWaiting = "InstallWaiting",
        InstallCheckFailed = "InstallCheckFailed",
        InstallComponentFailed = "InstallComponentFailed",
        InstallComponentFailedNoRetry = "InstallComponentFailedNoRetry",
        InvalidInstallStrategy = "InvalidInstallStrategy",
        ComponentUnhealthy = "ComponentUnhealthy",
        BeingReplaced = "BeingReplaced",
        Replaced = "Replaced",
        NeedsReinstall = "NeedsReinstall",
        NeedsCertRotation = "NeedsCertRotation",
        ApiServiceResourceIssue = "APIServiceResourceIssue",
        ApiServiceResourcesNeedReinstall = "APIServiceResourcesNeedReinstall",
        ApiServiceInstallFailed = "APIServiceInstallFailed",
        Copied = "Copied",
        InvalidInstallModes = "InvalidInstallModes",
        NoTargetNamespaces = "NoTargetNamespaces",
        UnsupportedOperatorGroup = "UnsupportedOperatorGroup",
        NoOperatorGroup = "NoOperatorGroup",
        TooManyOperatorGroups = "TooManyOperatorGroups",
        InterOperatorGroupOwnerConflict = "InterOperatorGroupOwnerConflict",
        CannotModifyStaticOperatorGroupProvidedApis = "CannotModifyStaticOperatorGroupProvidedAPIs",
        DetectedClusterChange = "DetectedClusterChange",
        InvalidWebhookDescription = "InvalidWebhookDescription",
        OperatorConditionNotUpgradeable = "OperatorConditionNotUpgradeable",
        WaitingOnCleanup = "WaitingOnCleanup",
    }
}

impl Reason {
    /// Returns whether a CSV with this reason is no member of its group, so that it is not copied (OLM0-OG-19).
    pub fn is_uncopiable(self) -> bool {
        matches!(
            self,
            Self::Copied
                | Self::InvalidInstallModes
                | Self::NoTargetNamespaces
                | Self::UnsupportedOperatorGroup
                | Self::NoOperatorGroup
                | Self::TooManyOperatorGroups
                | Self::InterOperatorGroupOwnerConflict
                | Self::CannotModifyStaticOperatorGroupProvidedApis
        )
    }
}

/// A phase with its reason and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The phase.
    pub phase: Phase,
    /// The reason.
    pub reason: Reason,
    /// The message.
    pub message: String,
}

impl Transition {
    /// Creates a transition.
    pub fn new(phase: Phase, reason: Reason, message: impl Into<String>) -> Self {
        Self { phase, reason, message: message.into() }
    }

    /// Returns whether a status says the same.
    pub fn is_reached(&self, status: &Value) -> bool {
        let is = |field: &str, text: &str| status[field].as_str().unwrap_or_default() == text;
        is("phase", self.phase.as_str()) && is("reason", self.reason.as_str()) && is("message", &self.message)
    }

    /// Returns whether its event is a warning (OLM0-CSV-03).
    pub fn is_warning(&self) -> bool {
        self.phase == Phase::Failed
    }
}

/// The status after a transition: its times, and an entry of the history when phase or reason changed.
pub fn next_status(status: &Value, to: &Transition, now: Timestamp) -> Value {
    let now = json!(now.to_string());
    let mut next = if status.is_object() { status.clone() } else { json!({}) };
    next["lastUpdateTime"] = now.clone();
    if status["phase"].as_str().unwrap_or_default() != to.phase.as_str() || status["lastTransitionTime"].is_null() {
        next["lastTransitionTime"] = now;
    }
    next["phase"] = json!(to.phase.as_str());
    next["reason"] = json!(to.reason.as_str());
    next["message"] = json!(to.message);
    let entry = json!({
        "phase": next["phase"], "reason": next["reason"], "message": next["message"],
        "lastUpdateTime": next["lastUpdateTime"], "lastTransitionTime": next["lastTransitionTime"],
    });
    let mut history = status["conditions"].as_array().cloned().unwrap_or_default();
    if history.last().is_none_or(|last| last["phase"] != entry["phase"] || last["reason"] != entry["reason"]) {
        history.push(entry);
    }
    let surplus = history.len().saturating_sub(MOST_CONDITIONS);
    history.drain(..surplus);
    next["conditions"] = json!(history);
    next
}

/// The status of a CSV that is deleted while custom resources are left: the kinds with what is left of them (OLM0-CSV-22).
pub fn waits_for_cleanup(status: &Value, pending: &Value, now: Timestamp) -> Value {
    let phase = status["phase"].as_str().and_then(Phase::parse).unwrap_or(Phase::None);
    let to = Transition::new(phase, Reason::WaitingOnCleanup, "waiting for custom resources to be deleted");
    let mut next = if to.is_reached(status) { status.clone() } else { next_status(status, &to, now) };
    next["cleanup"] = json!({"pendingDeletion": pending});
    next
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// OLM0-API-10: the history grows when phase or reason change, and forgets its oldest entry after twenty.
    #[test]
    fn history() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let pending = Transition::new(Phase::Pending, Reason::RequirementsUnknown, "requirements not yet checked");
        let first = next_status(&Value::Null, &pending, at(1));
        assert_eq!((&first["phase"], &first["lastTransitionTime"]), (&json!("Pending"), &json!("1970-01-01T00:00:01Z")));
        let told = Transition { message: "again".to_owned(), ..pending.clone() };
        let second = next_status(&first, &told, at(2));
        assert_eq!(second["conditions"].as_array().unwrap().len(), 1, "the message alone makes no entry");
        assert_eq!(
            (&second["lastTransitionTime"], &second["lastUpdateTime"]),
            (&first["lastTransitionTime"], &json!("1970-01-01T00:00:02Z"))
        );
        let mut status = second;
        for turn in 0..30 {
            let phase = if turn % 2 == 0 { Phase::Failed } else { Phase::Pending };
            status = next_status(&status, &Transition::new(phase, Reason::RequirementsNotMet, turn.to_string()), at(10 + turn));
        }
        let history = status["conditions"].as_array().unwrap();
        assert_eq!((history.len(), &history[0]["message"], &history[19]["message"]), (20, &json!("10"), &json!("29")));
    }

    /// OLM0-CSV-02: every reason reads back.
    #[test]
    fn names() {
        assert_eq!(Reason::ALL.len(), 30);
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
        }
        assert_eq!(Phase::parse(""), Some(Phase::None));
    }
}
