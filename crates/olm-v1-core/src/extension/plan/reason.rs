//! Why a plan does not reach what is wanted: values that carry what they are about, so that nothing has to look into a sentence.
//!
//! `Display` is what the condition says, in upstream's words where upstream says it, to the character.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use mainstay_diagnostics::chain;
use mainstay_objects::{NotOurs, ObjectRef};
use mainstay_resolver::joint::{Conflict, FactKind};
use mainstay_resolver::{Refusal, Resolution};
use mainstay_schema::upgrade::{self, UpgradeFinding};

use super::super::approval::Gate;
use super::super::dependencies::Unsolved;
use super::super::facts::PullFailure;
use super::super::permissions::Report;
use super::super::record::RolledBack;
use super::super::rollback::Class;
use super::ContentError;

/// Why a plan does not reach what is wanted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Reason {
    /// The extension has no catalog source.
    #[error("spec.source.catalog is missing")]
    NoSource,
    /// An annotation of the extension has a value that means nothing.
    #[error(transparent)]
    Annotation(#[from] InvalidAnnotation),
    /// The catalogs have no bundle for it (OLM1-SEL-09).
    #[error("{0}")]
    Unresolved(Box<Refusal>),
    /// Extensions that are resolved together have no answer with a bundle for this one (MS-EXPL-05).
    #[error("{0}")]
    Unsolved(Unsolved),
    /// Which APIs the cluster serves is unknown, and the joint resolution needs to know.
    #[error("the APIs of the cluster cannot be told: {0}")]
    UnknownApis(String),
    /// Nothing was resolved.
    #[error("nothing was resolved")]
    NothingResolved,
    /// The bundle's image cannot be pulled.
    #[error("{}", .failure.message)]
    Pull {
        /// The image.
        image: String,
        /// Why.
        failure: PullFailure,
    },
    /// The bundle's content cannot be installed as asked.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The account cannot be looked up.
    #[error("{0}")]
    UnknownAccount(String),
    /// The extension's namespace is not usable.
    #[error(transparent)]
    Namespace(#[from] NamespaceProblem),
    /// The account lacks permissions (OLM1-PERM-12).
    #[error("{}", .0.text())]
    Permissions(Report),
    /// An object is managed by another owner (OLM1-OWN-03).
    #[error(transparent)]
    Owned(#[from] NotOurs),
    /// The cluster serves no such kind.
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
        /// The server's words.
        problem: String,
    },
    /// CRDs would change in ways that may break stored objects (OLM1-CRD-02).
    #[error("{}", lines(.0))]
    UnsafeCrds(Vec<UnsafeCrd>),
    /// The policies cannot be read, and one may ask for an approval.
    #[error("whether the change needs an approval cannot be told: {0}")]
    UnknownPolicies(String),
    /// The name of this change's plan belongs to a plan of another change.
    #[error("change plan {0} is there and is of another change; it has to be deleted, since this change is kept under its name")]
    PlanNameTaken(String),
    /// The change waits for an approval (MS-POL-01).
    #[error("{}", .0.message())]
    Approval(Box<Gate>),
    /// The ChangePlan could not be written.
    #[error("change plan {name} could not be kept for approval: {problem}")]
    PlanNotKept {
        /// Its name.
        name: String,
        /// Why.
        problem: String,
    },
    /// Other bundles have to be installed first (OLM1-INST-04).
    #[error(transparent)]
    Waits(#[from] Waits),
    /// The newest revision did not become healthy, and nothing was rolled back (MS-RB-01).
    #[error(transparent)]
    Unhealthy(#[from] Unhealthy),
    /// The newest revision did not become healthy, and was rolled back.
    #[error("{}", .0.message)]
    RolledBack(Box<RolledBack>),
    /// The revision that is to be gone back to is missing.
    #[error("{}; there is no earlier revision", .0.message)]
    NoEarlierRevision(Box<RolledBack>),
    /// The way back is blocked.
    #[error("rolling back to {bundle}: {reason}")]
    RollingBack {
        /// The bundle to go back to.
        bundle: String,
        /// The obstacle.
        reason: Box<Self>,
    },
    /// Objects that are to stay after a deletion could not be released.
    #[error("what is to stay ({ON_DELETE}) could not be let go of, and nothing is deleted before: {0}", ON_DELETE = mainstay_api::lifecycle::ON_DELETE)]
    Unreleased(String),
    /// A problem after resolution, with the bundle (OLM1-CTRL-04).
    #[error("{reason} for resolved bundle {bundle:?} with version {version:?}")]
    OfBundle {
        /// The problem.
        reason: Box<Self>,
        /// The bundle's name.
        bundle: String,
        /// The bundle's version.
        version: String,
    },
    /// A problem besides which what is installed could not be kept as it is.
    #[error("{reason}\nwhat is installed could not be kept as it is: {problem}")]
    Unheld {
        /// The problem at hand.
        reason: Box<Self>,
        /// Why what is installed could not be kept.
        problem: String,
    },
    /// The plan was tried, and failed.
    #[error(transparent)]
    Failed(#[from] Attempt),
}

impl Reason {
    /// The reason with the chosen bundle, where one was chosen (OLM1-CTRL-04).
    #[must_use]
    pub fn of_bundle(self, resolution: Option<&Resolution>) -> Self {
        match resolution {
            None => self,
            Some(Resolution { choice, .. }) => {
                Self::OfBundle { reason: Box::new(self), bundle: choice.bundle.clone(), version: choice.version.clone() }
            }
        }
    }

    /// The reason without the bundle and the further problems that it was told with.
    pub fn root(&self) -> &Self {
        match self {
            Self::OfBundle { reason, .. } | Self::Unheld { reason, .. } => reason.root(),
            other => other,
        }
    }

    /// Says whether another extension that is resolved together with this one wants its package.
    pub fn wants_taken_package(&self) -> bool {
        match self {
            Self::Unsolved(Unsolved::Conflict(conflict)) => conflict.facts.iter().any(|fact| fact.kind == FactKind::OnePackage),
            _ => false,
        }
    }

    /// The conflict between extensions that are resolved together, where that is the reason.
    pub fn conflict(&self) -> Option<&Conflict> {
        match self {
            Self::Unsolved(Unsolved::Conflict(conflict)) => Some(conflict),
            _ => None,
        }
    }
}

/// An annotation whose value means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}: expected {expected}, found {found:?}{}", after(.consequence.as_ref()))]
pub struct InvalidAnnotation {
    /// Its key.
    pub annotation: &'static str,
    /// The values that it takes.
    pub expected: &'static str,
    /// Its value.
    pub found: String,
    /// The consequence, besides that the value does not count.
    pub consequence: Option<&'static str>,
}

fn after(text: Option<&&'static str>) -> String {
    text.map(|text| format!("; {text}")).unwrap_or_default()
}

/// Why the extension's namespace is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message says it")]
pub enum NamespaceProblem {
    #[error("namespace {0:?} is being deleted")]
    Terminating(String),
    #[error(
        "whether namespace {name:?} exists cannot be told: {problem}; mainstay deploy --create-namespaces lets operator-controller look at namespaces and make them"
    )]
    Unknown { name: String, problem: String },
    #[error("the server serves no namespaces")]
    NotServed,
    #[error("namespace {name:?} could not be made: {problem}")]
    NotMade { name: String, problem: String },
}

/// A CRD whose change is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsafeCrd {
    /// Its name.
    pub name: String,
    /// Findings of the check.
    pub findings: Vec<UpgradeFinding>,
    /// The extension accepts the findings, and the API server refuses the change itself.
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

/// Bundles that have to be installed first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Waits {
    /// Bundles that no extension installs yet.
    #[error("waits for {}, which no extension installs yet{}", .bundles.join(", "), makes(.plan.as_deref()))]
    Missing {
        /// Their names.
        bundles: Vec<String>,
        /// The ChangePlan whose approval makes their extensions.
        plan: Option<String>,
    },
    /// Bundles of other extensions: `gadgets.v2.0.0 of clusterextension gadgets`.
    #[error("waits for {}", .0.join(", "))]
    Others(Vec<String>),
}

impl Waits {
    /// The awaited bundles, in words.
    pub fn needs(&self) -> String {
        match self {
            Self::Missing { bundles, .. } => format!("{}, which no extension installs yet", bundles.join(", ")),
            Self::Others(bundles) => bundles.join(", "),
        }
    }
}

fn makes(plan: Option<&str>) -> String {
    plan.map(|name| format!("; mainstay approve {name} makes their extensions")).unwrap_or_default()
}

/// A revision that did not become healthy in its time, and that stays all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{failed}; {}", stays(.earlier.as_ref()))]
pub struct Unhealthy {
    /// The bundle, its time, and the Deployments that were not available.
    pub failed: String,
    /// The revision to go back to, and why that is not done; none where there is none.
    pub earlier: Option<UnsafeWayBack>,
}

/// A way back that is not safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsafeWayBack {
    /// The bundle to go back to.
    pub bundle: String,
    /// Its verdict.
    pub class: Class,
    /// Why.
    pub why: String,
}

fn stays(earlier: Option<&UnsafeWayBack>) -> String {
    match earlier {
        None => "there is no earlier revision to go back to".to_owned(),
        Some(UnsafeWayBack { bundle, class, why }) => format!("it is not rolled back to {bundle}, which is {class}: {why}"),
    }
}

/// An error of carrying a plan out, with its sources; two are equal when they say the same.
#[derive(Clone, Debug)]
pub struct Attempt(Arc<dyn Error + Send + Sync>);

impl Attempt {
    /// The attempt that ended with this error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl PartialEq for Attempt {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&chain(&*self.0))
    }
}

impl Error for Attempt {}
