//! The progress of the loading of a wanted release: condition ReleaseAccepted, and the events of its steps (CVO-COND-06, CVO-COND-07).

use std::fmt;

use mainstay_api::condition::Status;
use mainstay_golang::quote;

use crate::conditions::Said;
use crate::wanted::Wanted;

/// The condition's type.
pub const RELEASE_ACCEPTED: &str = "ReleaseAccepted";
/// The step of preconditions.
pub const PRECONDITION_CHECKS: &str = "PreconditionChecks";

/// The loading of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The release.
    pub wanted: Wanted,
    /// Its progress; nothing before the first attempt.
    pub step: Option<Step>,
    /// The risks that are accepted with it.
    pub accepted_risks: String,
    /// True if its signature was verified.
    pub verified: bool,
    /// True if it is the operator's own payload.
    pub local: bool,
}

/// The progress of the loading of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is being retrieved and verified.
    Retrieving,
    /// It was not retrieved or verified.
    NotRetrieved {
        /// The cause.
        cause: String,
    },
    /// Its content is being read.
    Loading,
    /// Its content cannot be read.
    NotLoaded {
        /// The cause.
        cause: String,
    },
    /// Its version is another than the update service said.
    OtherVersion {
        /// The version in the content.
        found: String,
    },
    /// Preconditions block it.
    Blocked {
        /// Their words.
        summary: String,
    },
    /// Preconditions warn, and do not block.
    Warned {
        /// Their words.
        summary: String,
    },
    /// It could not be verified and is taken all the same, as the update was forced.
    Unverified {
        /// The accepted risks.
        risk: String,
    },
    /// No precondition blocks it.
    Passed,
    /// It is in use; its architecture is said when it was loaded just now.
    Loaded {
        /// The architecture of its payload.
        architecture: Option<String>,
    },
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the two types of events")]
pub enum EventType {
    Normal,
    Warning,
}

/// An event of a ClusterVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its type.
    pub kind: EventType,
    /// Why, for programs.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

struct Subject<'a>(&'a Wanted);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "version={} image={}", quote(&self.0.version), quote(&self.0.image))
    }
}

impl Load {
    /// The condition; nothing before the first attempt, and nothing for steps of which only an event tells.
    pub fn condition(&self) -> Option<Said> {
        let subject = Subject(&self.wanted);
        let (status, reason, message) = match self.step.as_ref()? {
            Step::Retrieving => (Status::Unknown, "RetrievePayload", format!("Retrieving and verifying payload {subject}")),
            Step::NotRetrieved { cause } => {
                (Status::False, "RetrievePayload", format!("Retrieving payload failed {subject} failure={cause}"))
            }
            Step::NotLoaded { cause } => (Status::False, "LoadPayload", format!("Loading payload failed {subject} failure={cause}")),
            Step::OtherVersion { found } => (Status::False, "VerifyPayloadVersion", self.other_version(found)),
            Step::Blocked { summary } => {
                (Status::False, PRECONDITION_CHECKS, format!("Preconditions failed for payload loaded {subject}: {summary}"))
            }
            Step::Loaded { .. } => (Status::True, "PayloadLoaded", self.loaded()?),
            Step::Loading | Step::Warned { .. } | Step::Unverified { .. } | Step::Passed => return None,
        };
        Some(Said::new(RELEASE_ACCEPTED, status).because(reason).saying(message))
    }

    /// The event of the step that was reached.
    pub fn event(&self) -> Option<Event> {
        let subject = Subject(&self.wanted);
        let (kind, reason, message) = match self.step.as_ref()? {
            Step::Retrieving => (EventType::Normal, "RetrievePayload", format!("Retrieving and verifying payload {subject}")),
            Step::NotRetrieved { cause } => {
                let cause = cause.replace('\n', " // ");
                (EventType::Warning, "RetrievePayloadFailed", format!("Retrieving payload failed {subject} failure={cause}"))
            }
            Step::Unverified { risk } => (EventType::Warning, "RetrievePayload", risk.clone()),
            Step::Loading => (EventType::Normal, "LoadPayload", format!("Loading payload {subject}")),
            Step::NotLoaded { cause } => {
                (EventType::Warning, "LoadPayloadFailed", format!("Loading payload failed {subject} failure={cause}"))
            }
            Step::OtherVersion { found } => (EventType::Warning, "VerifyPayloadVersionFailed", self.other_version(found)),
            Step::Blocked { summary } => {
                let message = format!("Preconditions failed for payload loaded {subject}: {summary}");
                (EventType::Warning, "PreconditionBlock", message)
            }
            Step::Warned { summary } => {
                (EventType::Warning, "PreconditionWarn", format!("precondition warning for payload loaded {subject}: {summary}"))
            }
            Step::Passed => (EventType::Normal, "PreconditionsPassed", format!("preconditions passed for payload loaded {subject}")),
            Step::Loaded { .. } => (EventType::Normal, "PayloadLoaded", self.loaded()?),
        };
        Some(Event { kind, reason, message })
    }

    /// Returns whether the attempt ended without the release.
    pub fn has_failed(&self) -> bool {
        matches!(self.step, Some(Step::NotRetrieved { .. } | Step::NotLoaded { .. } | Step::OtherVersion { .. } | Step::Blocked { .. }))
    }

    /// Adds what preconditions say to the risks that are accepted (CVO-PRE-02).
    pub fn accept(&mut self, risk: &str) {
        if !self.accepted_risks.is_empty() {
            self.accepted_risks.push('\n');
        }
        self.accepted_risks.push_str(risk);
    }

    fn other_version(&self, found: &str) -> String {
        let Wanted { version, .. } = &self.wanted;
        format!(
            "Verifying payload failed {} failure=release image version {found} does not match the expected upstream version {version}",
            Subject(&self.wanted)
        )
    }

    fn loaded(&self) -> Option<String> {
        let Some(Step::Loaded { architecture }) = &self.step else { return None };
        let architecture = architecture.as_ref().map(|architecture| format!(" architecture={}", quote(architecture)));
        Some(format!("Payload loaded {}{}", Subject(&self.wanted), architecture.unwrap_or_default()))
    }
}
