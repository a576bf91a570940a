//! Reasons why a change does not reach the wanted state: typed values, so that no caller has to parse a sentence.
//!
//! `Display` gives the condition's message, identical to upstream's to the character if upstream has one.

use std::fmt;

use mainstay_diagnostics::SharedError;
use mainstay_objects::{NotOurs, ObjectRef};
use mainstay_schema::upgrade::{self, UpgradeFinding};

use crate::approval::Gate;
use crate::preflight::Report;
use crate::revision::RolledBack;
use crate::rollback::Class;

/// A reason why a change does not reach the wanted state, the same for all installers.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Reason {
    /// The account lacks permissions (OLM1-PERM-12).
    #[error("{}", .0.text())]
    Permissions(Report),
    /// An object is managed by another owner (OLM1-OWN-03).
    #[error(transparent)]
    Owned(#[from] NotOurs),
    /// The cluster does not serve the object's kind.
    #[error(
        "resource mapping not found for name: {:?} namespace: {:?} from \"\": no matches for kind {:?} in version {:?}\nensure CRDs are installed first",
        .0.name, .0.namespace, .0.kind, .0.api_version
    )]
    NotServed(ObjectRef),
    /// An object cannot be read.
    #[error("{problem}")]
    Unreadable {
        /// The object.
        object: ObjectRef,
        /// The error of the read.
        problem: SharedError,
    },
    /// CRDs would change in ways that may break stored objects (OLM1-CRD-02).
    #[error("{}", lines(.0))]
    UnsafeCrds(Vec<UnsafeCrd>),
    /// The policies cannot be read, and one of them may require an approval.
    #[error("whether the change needs an approval cannot be told: {0}")]
    UnknownPolicies(SharedError),
    /// The name of this change's plan belongs to a plan of another change.
    #[error("change plan {0} is there and is of another change; it has to be deleted, since this change is kept under its name")]
    PlanNameTaken(String),
    /// The change waits for an approval (MS-POL-01).
    #[error("{}", .0.message())]
    Approval(Box<Gate>),
    /// The ChangePlan could not be written.
    #[error("change plan {name} could not be kept for approval: {problem}")]
    PlanNotKept {
        /// The ChangePlan's name.
        name: String,
        /// The error of the write.
        problem: SharedError,
    },
    /// The newest revision did not become healthy, and nothing was rolled back (MS-RB-01).
    #[error(transparent)]
    Unhealthy(#[from] Unhealthy),
    /// The newest revision did not become healthy, and was rolled back.
    #[error("{}", .0.message)]
    RolledBack(Box<RolledBack>),
    /// The earlier revision that a rollback needs is missing.
    #[error("{}; there is no earlier revision", .0.message)]
    NoEarlierRevision(Box<RolledBack>),
    /// The change was tried and failed.
    #[error(transparent)]
    Failed(#[from] SharedError),
}

/// A CRD whose change is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsafeCrd {
    /// Its name.
    pub name: String,
    /// Findings of the check.
    pub findings: Vec<UpgradeFinding>,
    /// True if the extension accepts the findings, and the API server refuses the change itself.
    pub accepted: bool,
}

impl fmt::Display for UnsafeCrd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&upgrade::message(&self.name, &self.findings))?;
        if self.accepted {
            let annotation = mainstay_api::lifecycle::CRD_UPGRADE_SAFETY;
            write!(out, "\nannotation {annotation} does not help: the API server refuses a change of scope or of stored versions")?;
        }
        Ok(())
    }
}

fn lines(crds: &[UnsafeCrd]) -> String {
    crds.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A revision that did not become healthy in time and is not rolled back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{failed}; {}", stays(.earlier.as_ref()))]
pub struct Unhealthy {
    /// The bundle, its time limit, and the Deployments that were not available.
    pub failed: String,
    /// The revision to go back to, and the reason for not doing so; none if there is no such revision.
    pub earlier: Option<UnsafeRollback>,
}

/// A rollback that is not safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsafeRollback {
    /// The bundle to go back to.
    pub bundle: String,
    /// Its verdict.
    pub class: Class,
    /// The reasons for the verdict.
    pub why: String,
}

fn stays(earlier: Option<&UnsafeRollback>) -> String {
    match earlier {
        None => "there is no earlier revision to go back to".to_owned(),
        Some(UnsafeRollback { bundle, class, why }) => format!("it is not rolled back to {bundle}, which is {class}: {why}"),
    }
}
