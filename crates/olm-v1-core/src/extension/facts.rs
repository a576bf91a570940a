//! What a plan rests on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use mainstay_api::lifecycle::ChangePlan;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_bundle::Bundle;
use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_lifecycle::revision::History;
use mainstay_lifecycle::{Instances, Live};
use mainstay_objects::ObjectRef;
use mainstay_rbac::PolicyIndex;
use mainstay_resolver::PackageSource;

use super::dependencies::ApiFact;
use super::record::RecordError;
use crate::gates::FeatureGates;

/// A fact that a plan may need on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// Whether the installer's account exists.
    Account,
    /// The extension's namespace, as the controller sees it.
    Namespace,
    /// The content of a bundle image.
    Bundle(BundleImage),
    /// The cluster's roles and bindings.
    Policy,
    /// A live object.
    Live(ObjectRef),
    /// All objects of a kind; the name is empty.
    Instances(ObjectRef),
    /// Every API that the server serves, and whose it is.
    Apis,
}

impl From<mainstay_lifecycle::Fact> for Fact {
    fn from(fact: mainstay_lifecycle::Fact) -> Self {
        match fact {
            mainstay_lifecycle::Fact::Live(target) => Self::Live(target),
            mainstay_lifecycle::Fact::Instances(kind) => Self::Instances(kind),
        }
    }
}

/// A bundle image, and how it is pulled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BundleImage {
    /// The reference.
    pub reference: String,
    /// The pull secret of the catalog that it was chosen from, where that has one of its own.
    pub pull_secret: Option<String>,
}

/// A plan, or what is needed to make one.
#[derive(Debug)]
pub enum Answer<P> {
    /// Decided.
    Ready(P),
    /// To be asked again with these facts.
    Need(Vec<Fact>),
}

/// Install records that cannot be read, so that what is installed is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct UnreadableHistory {
    /// The first Secret of the record that is at fault; none where they could not be asked for.
    pub secret: Option<String>,
    /// Why.
    pub problem: SharedError,
}

impl From<RecordError> for UnreadableHistory {
    fn from(error: RecordError) -> Self {
        Self { secret: error.secret().map(str::to_owned), problem: SharedError::new(error) }
    }
}

/// A bundle image that could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullFailure {
    /// The problem, by what helps.
    pub problem: PullProblem,
    /// What happened.
    pub message: String,
    /// Whether trying again cannot help.
    pub terminal: bool,
}

impl PullFailure {
    /// A failure against which nothing in particular helps, and that may be gone at the next try.
    pub fn other(message: impl Into<String>) -> Self {
        Self { problem: PullProblem::Other, message: message.into(), terminal: false }
    }
}

/// A problem of pulling an image, by what helps against it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullProblem {
    /// The registry wants credentials, or others.
    Credentials,
    /// The registry has no such image.
    Missing,
    /// The registry's certificate is not accepted.
    Certificate(CertificateProblem),
    /// The reference is none.
    Reference,
    /// Something else; the message says it.
    #[default]
    Other,
}

/// Why a certificate is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateProblem {
    /// Its time is over.
    Expired,
    /// Its time has not begun.
    NotYetValid,
    /// It is for another name.
    OtherName,
    /// Nothing vouches for it.
    Untrusted,
}

/// A catalog as the cluster shows it.
#[derive(Clone)]
pub struct CatalogFact {
    /// The ClusterCatalog's name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its priority.
    pub priority: i32,
    /// The pull secret of its own, for its image and those of its bundles.
    pub pull_secret: Option<String>,
    /// Its content.
    pub content: CatalogContent,
}

/// A catalog's content, or why there is none.
#[derive(Clone)]
pub enum CatalogContent {
    /// Switched off.
    Unavailable,
    /// Not serving.
    NotServing,
    /// Serving, but not fetched; why.
    Failed(String),
    /// Neither serving nor on its way to it: it reports a failure.
    Broken {
        /// Why it cannot be asked, in upstream's words.
        reason: String,
        /// What it held when it last served, where that is known; nothing where it never served.
        last: Option<Arc<dyn PackageSource + Send + Sync>>,
    },
    /// What it holds.
    Held(Arc<dyn PackageSource + Send + Sync>),
}

/// The facts that every plan begins with.
#[derive(Clone)]
pub struct Snapshot {
    /// The extension.
    pub extension: Arc<ClusterExtension>,
    /// The feature gates.
    pub gates: FeatureGates,
    /// Whether the controller's own identity installs (OLM1-API-07).
    pub ignore_service_account: bool,
    /// The catalogs, by name.
    pub catalogs: Vec<CatalogFact>,
    /// The install records, or why they cannot be read.
    pub history: Result<History, UnreadableHistory>,
    /// What was asked for on the way.
    pub known: Known,
}

/// Facts fetched because a plan needed them.
#[derive(Clone, Default)]
pub struct Known {
    /// See [`Fact::Account`]: there, not there, or why nobody can tell.
    pub account: Option<Result<bool, SharedError>>,
    /// See [`Fact::Namespace`].
    pub namespace: Option<Live>,
    /// See [`Fact::Bundle`].
    pub bundles: HashMap<String, Result<Arc<Bundle>, PullFailure>>,
    /// See [`Fact::Policy`].
    pub policy: Option<Arc<PolicyIndex>>,
    /// See [`Fact::Live`].
    pub live: HashMap<ObjectRef, Live>,
    /// See [`Fact::Instances`].
    pub instances: HashMap<ObjectRef, Instances>,
    /// The time; none where a plan is only shown.
    pub now: Option<Timestamp>,
    /// See [`Fact::Apis`]; or why nobody can tell.
    pub apis: Option<Result<Vec<ApiFact>, SharedError>>,
    /// What the cluster's owners say; nothing where nobody looked.
    pub lifecycle: Lifecycle,
}

/// What the cluster's owners decided about changes, what was kept for them to approve, and who else there is.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    /// Every LifecyclePolicy.
    pub policies: Vec<PolicyFact>,
    /// Why they cannot be told; then nothing is changed, since they may ask for an approval.
    pub problem: Option<SharedError>,
    /// Every ChangePlan.
    pub plans: Vec<Arc<ChangePlan>>,
    /// Every ClusterExtension, this one too; only where some policy has dependencies planned.
    pub peers: Vec<Arc<ClusterExtension>>,
}
