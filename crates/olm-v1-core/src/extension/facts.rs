//! The facts that a plan rests on.

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

/// A fact that a plan may need.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// The existence of the installer's account.
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
    /// Every API that the server serves, and the extension that its CRD belongs to.
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

/// A bundle image, and the pull secret for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BundleImage {
    /// The reference.
    pub reference: String,
    /// The pull secret of the catalog that the bundle was chosen from, if that catalog has one of its own.
    pub pull_secret: Option<String>,
}

/// A plan, or what is needed to make one.
#[derive(Debug)]
pub enum Answer<P> {
    /// Decided.
    Ready(P),
    /// The facts that are missing; the caller asks again with them.
    Need(Vec<Fact>),
}

/// Install records that cannot be read, so that the installed version is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct UnreadableHistory {
    /// The first Secret of the record at fault; none if the records could not be listed.
    pub secret: Option<String>,
    /// The cause.
    pub problem: SharedError,
}

impl From<RecordError> for UnreadableHistory {
    fn from(error: RecordError) -> Self {
        Self { secret: error.secret().map(str::to_owned), problem: SharedError::new(error) }
    }
}

/// A bundle image that is unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullFailure {
    /// The problem, classified by remedy.
    pub problem: PullProblem,
    /// The message for people.
    pub message: String,
    /// True if a retry cannot help.
    pub terminal: bool,
}

impl PullFailure {
    /// A failure without a known remedy; a retry may succeed.
    pub fn other(message: impl Into<String>) -> Self {
        Self { problem: PullProblem::Other, message: message.into(), terminal: false }
    }
}

/// A problem of pulling an image, classified by remedy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullProblem {
    /// The registry requires credentials, or other ones.
    Credentials,
    /// The image was not found in the registry.
    Missing,
    /// The registry's certificate is not accepted.
    Certificate(CertificateProblem),
    /// The reference is invalid.
    Reference,
    /// Something else; the message says what.
    #[default]
    Other,
}

/// Causes for which a certificate is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateProblem {
    /// It has expired.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It is for another name.
    OtherName,
    /// No trusted authority has signed it.
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
    /// The catalog's own pull secret, for its image and those of its bundles.
    pub pull_secret: Option<String>,
    /// Its content.
    pub content: CatalogContent,
}

/// A catalog's content, or the reason for its absence.
#[derive(Clone)]
pub enum CatalogContent {
    /// Disabled by the user.
    Unavailable,
    /// Not serving.
    NotServing,
    /// Serving, but the content could not be fetched; the cause.
    Failed(String),
    /// Not serving, and its conditions report a failure.
    Broken {
        /// The reason why it is unavailable, in upstream's words.
        reason: String,
        /// Its content when it last served, if known; none if it never served.
        last: Option<Arc<dyn PackageSource + Send + Sync>>,
    },
    /// The content.
    Served(Arc<dyn PackageSource + Send + Sync>),
}

/// The facts that every plan begins with.
#[derive(Clone)]
pub struct Snapshot {
    /// The extension.
    pub extension: Arc<ClusterExtension>,
    /// The feature gates.
    pub gates: FeatureGates,
    /// True if the controller installs with its own identity (OLM1-API-07).
    pub ignore_service_account: bool,
    /// The catalogs, by name.
    pub catalogs: Vec<CatalogFact>,
    /// The install records, or the reason why they cannot be read.
    pub history: Result<History, UnreadableHistory>,
    /// The facts that earlier answers asked for.
    pub known: Known,
}

/// Facts fetched because a plan needed them.
#[derive(Clone, Default)]
pub struct Known {
    /// See [`Fact::Account`]: true if it exists, or the reason why that is unknown.
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
    /// The present time; none if a plan is only shown.
    pub now: Option<Timestamp>,
    /// See [`Fact::Apis`]; or the reason why they are unknown.
    pub apis: Option<Result<Vec<ApiFact>, SharedError>>,
    /// The decisions of the cluster's owners; empty if they were not read.
    pub lifecycle: Lifecycle,
}

/// Decisions of the cluster's owners about changes, changes kept for their approval, and the other extensions.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    /// Every LifecyclePolicy.
    pub policies: Vec<PolicyFact>,
    /// The reason why the policies cannot be read; then nothing is changed, since they may require an approval.
    pub problem: Option<SharedError>,
    /// Every ChangePlan.
    pub plans: Vec<Arc<ChangePlan>>,
    /// Every ClusterExtension, this one too; only if a policy has dependencies planned.
    pub peers: Vec<Arc<ClusterExtension>>,
}
