//! Errors of the Machine API's controllers.

use mainstay_apply::WriteError;
use mainstay_drain::DrainError;
use mainstay_machine_core::control_plane::members::MemberError;
use mainstay_machine_core::control_plane::object::ControlPlaneError;
use mainstay_machine_core::control_plane::provider_spec::SpecError;
use mainstay_machine_core::health_check::check::CheckError;
use mainstay_machine_core::health_check::external::TemplateError;
use mainstay_machine_core::health_check::plan::Refusal;
use mainstay_machine_core::node_link::Ambiguous;
use mainstay_machine_core::set::plan::SetError;
use mainstay_objects::ObjectError;
use mainstay_runtime::ConnectError;

use crate::provider::ProviderError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made.
    #[error("the Machine API has no client")]
    Connect(#[from] ConnectError),
    /// Another Machine API manages the machines of the cluster.
    #[error("deployment {namespace}/{name} manages the machines of this cluster: nothing is done beside it")]
    Other {
        /// Its namespace.
        namespace: &'static str,
        /// Its name.
        name: &'static str,
    },
    /// The cluster refused a request or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A list cannot be read.
    #[error("{what} cannot be listed")]
    List {
        /// The kind.
        what: &'static str,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// A namespace has more objects than are worked on.
    #[error("namespace {namespace} has more than {most} {what}")]
    TooMany {
        /// The kind.
        what: &'static str,
        /// The namespace.
        namespace: String,
        /// The limit.
        most: usize,
    },
    /// A provider failed.
    #[error("machine {machine}: {source}")]
    Provider {
        /// The machine.
        machine: String,
        /// The cause.
        source: ProviderError,
    },
    /// A node could not be drained.
    #[error("machine {machine}: {source}")]
    Drain {
        /// The machine.
        machine: String,
        /// The cause.
        source: DrainError,
    },
    /// Several machines fit a node.
    #[error(transparent)]
    Ambiguous(#[from] Ambiguous),
    /// A MachineSet cannot be worked on.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A MachineHealthCheck cannot be read.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A MachineHealthCheck remediates nothing.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A ControlPlaneMachineSet cannot be worked on.
    #[error(transparent)]
    ControlPlane(#[from] ControlPlaneError),
    /// The machines of a control plane cannot be looked at.
    #[error(transparent)]
    Members(#[from] MemberError),
    /// The machines of a control plane cannot be described.
    #[error("unable to generate control plane machine set: {0}")]
    Generate(#[from] SpecError),
    /// The server refuses the template of a control plane.
    #[error("cannot ensure that the provider config is valid: could not dry-run create the machine")]
    DryRun(#[source] WriteError),
    /// The answer of the server to the template of a control plane cannot be read.
    #[error("cannot ensure that the provider config is valid: could not get provider config for machine: {0}")]
    Defaulted(SpecError),
    /// A remediation template cannot be used.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A remediation template does not exist.
    #[error("remediation template {0} is not found")]
    NoTemplate(String),
    /// An object has no name or kind.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An object cannot be written as JSON.
    #[error("an object cannot be read")]
    Form(#[from] serde_json::Error),
    /// A certificate request cannot be made.
    #[error("a certificate request for {node} cannot be made")]
    Certificate {
        /// The node.
        node: String,
        /// The cause.
        #[source]
        source: rcgen::Error,
    },
    /// A request cannot be formed.
    #[error("a request cannot be made")]
    Request(#[from] http::Error),
    /// A request was refused.
    #[error("{what} was refused")]
    Api {
        /// The request.
        what: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// A checked-in definition is no YAML.
    #[error("the definitions of the Machine API cannot be read")]
    Definitions(#[from] mainstay_yaml::Error),
}

impl Error {
    /// Returns whether an object changed since it was read: it is looked at again at once, and nothing is wrong.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_conflict())
    }
}
