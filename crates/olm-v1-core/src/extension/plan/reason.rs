//! The reasons for which a plan does not reach the desired state: values that carry their subject, so that no caller has to parse a sentence.
//!
//! `Display` is the text of the condition, in upstream's words if upstream has words for it, to the character.

use mainstay_diagnostics::SharedError;
use mainstay_lifecycle as lifecycle;
use mainstay_resolver::joint::{Conflict, FactKind};
use mainstay_resolver::{Refusal, Resolution};

use super::super::dependencies::Unsolved;
use super::super::facts::PullFailure;
use super::ContentError;

/// The reason why a plan does not reach the desired state.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Reason {
    /// A reason that any installer may have.
    #[error(transparent)]
    Lifecycle(#[from] lifecycle::Reason),
    /// The extension has no catalog source.
    #[error("spec.source.catalog is missing")]
    NoSource,
    /// An annotation of the extension has an invalid value.
    #[error(transparent)]
    Annotation(#[from] InvalidAnnotation),
    /// The catalogs have no bundle for it (OLM1-SEL-09).
    #[error("{0}")]
    Unresolved(Box<Refusal>),
    /// Extensions that are resolved together have no answer with a bundle for this one (MS-EXPL-05).
    #[error("{0}")]
    Unsolved(Unsolved),
    /// The APIs that the cluster serves are unknown, and the joint resolution needs them.
    #[error("the APIs of the cluster cannot be told: {0}")]
    UnknownApis(SharedError),
    /// No bundle was resolved.
    #[error("nothing was resolved")]
    NothingResolved,
    /// The bundle's image cannot be pulled.
    #[error("{}", .failure.message)]
    Pull {
        /// The image.
        image: String,
        /// The cause.
        failure: PullFailure,
    },
    /// The bundle's content cannot be installed as requested.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The account cannot be looked up.
    #[error("{0}")]
    UnknownAccount(SharedError),
    /// The extension's namespace is not usable.
    #[error(transparent)]
    Namespace(#[from] NamespaceProblem),
    /// Other bundles have to be installed first (OLM1-INST-04).
    #[error(transparent)]
    Waits(#[from] Waits),
    /// A rollback is blocked.
    #[error("rolling back to {bundle}: {reason}")]
    RollingBack {
        /// The bundle to roll back to.
        bundle: String,
        /// The obstacle.
        reason: Box<Self>,
    },
    /// Objects that are to stay after a deletion could not be released.
    #[error("what is to stay ({ON_DELETE}) could not be released, and nothing is deleted before: {0}", ON_DELETE = mainstay_api::lifecycle::ON_DELETE)]
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
    /// A problem, and besides it the installed revision could not be kept as it is.
    #[error("{reason}\nwhat is installed could not be kept as it is: {problem}")]
    Unheld {
        /// The problem at hand.
        reason: Box<Self>,
        /// The cause for which the installed revision could not be kept.
        problem: SharedError,
    },
}

impl Reason {
    /// The reason with the chosen bundle, if one was chosen (OLM1-CTRL-04).
    #[must_use]
    pub fn of_bundle(self, resolution: Option<&Resolution>) -> Self {
        match resolution {
            None => self,
            Some(Resolution { choice, .. }) => {
                Self::OfBundle { reason: Box::new(self), bundle: choice.bundle.clone(), version: choice.version.clone() }
            }
        }
    }

    /// The innermost reason: without the bundle, and without a further problem.
    pub fn root(&self) -> &Self {
        match self {
            Self::OfBundle { reason, .. } | Self::Unheld { reason, .. } => reason.root(),
            other => other,
        }
    }

    /// Returns true if another extension that is resolved together with this one requests its package.
    pub fn wants_taken_package(&self) -> bool {
        match self {
            Self::Unsolved(Unsolved::Conflict(conflict)) => conflict.facts.iter().any(|fact| fact.kind == FactKind::OnePackage),
            _ => false,
        }
    }

    /// The conflict between extensions that are resolved together, if that is the reason.
    pub fn conflict(&self) -> Option<&Conflict> {
        match self {
            Self::Unsolved(Unsolved::Conflict(conflict)) => Some(conflict),
            _ => None,
        }
    }
}

/// An annotation with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}: expected {expected}, found {found:?}{}", after(.consequence.as_ref()))]
pub struct InvalidAnnotation {
    /// Its key.
    pub annotation: &'static str,
    /// The values that it takes.
    pub expected: &'static str,
    /// Its value.
    pub found: String,
    /// A further consequence; the value itself is ignored.
    pub consequence: Option<&'static str>,
}

fn after(text: Option<&&'static str>) -> String {
    text.map(|text| format!("; {text}")).unwrap_or_default()
}

/// Causes for which the extension's namespace cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message says it")]
pub enum NamespaceProblem {
    #[error("namespace {0:?} is being deleted")]
    Terminating(String),
    #[error(
        "whether namespace {name:?} exists cannot be told: {problem}; mainstay deploy --create-namespaces lets operator-controller look at namespaces and make them"
    )]
    Unknown { name: String, problem: SharedError },
    #[error("the server serves no namespaces")]
    NotServed,
    #[error("namespace {name:?} could not be made: {problem}")]
    NotMade { name: String, problem: SharedError },
}

/// Bundles that have to be installed first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Waits {
    /// Bundles that no extension installs yet.
    #[error("waits for {}, which no extension installs yet{}", .bundles.join(", "), makes(.plan.as_deref()))]
    Missing {
        /// Their names.
        bundles: Vec<String>,
        /// The ChangePlan whose approval creates their extensions.
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
