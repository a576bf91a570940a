//! The errors of the loop.

use std::path::PathBuf;

use mainstay_apply::WriteError;
use mainstay_runtime::ConnectError;

use crate::proxy::ProxyError;
use crate::trust::InvalidBundle;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made.
    #[error("network-extras has no client")]
    Connect(#[from] ConnectError),
    /// The cluster refused a request or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The Proxy cannot have a status.
    #[error("{0}")]
    Proxy(#[from] ProxyError),
    /// The ConfigMap that the Proxy names is missing.
    #[error(
        "The configuration is invalid for proxy 'cluster' (failed to get trustedCA configmap for proxy cluster: configmaps {name:?} not found \
         in namespace {namespace}). Use 'oc edit proxy.config.openshift.io cluster' to fix."
    )]
    NoBundle {
        /// Its namespace.
        namespace: &'static str,
        /// Its name.
        name: String,
    },
    /// A bundle of the user has a flaw.
    #[error("Failed to validate additional trust bundle configmap '{0}'")]
    Bundle(#[from] InvalidBundle),
    /// The system's certificates cannot be read.
    #[error("the system's certificates in {path} cannot be read")]
    System {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// An object cannot be written as JSON.
    #[error("an object cannot be read")]
    Form(#[from] serde_json::Error),
}

impl Error {
    /// The reason of the condition.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Proxy(error) => error.reason(),
            Self::NoBundle { .. } => "InvalidProxyConfig",
            Self::Bundle(_) => "TrustBundleValidationFailure",
            Self::System { .. } => "GenerateConfigMapFailure",
            _ => "TrustBundleSyncFailure",
        }
    }

    /// Returns true if only a change of an object mends it, which wakes the loop.
    pub(crate) const fn waits_for_a_change(&self) -> bool {
        matches!(self, Self::Proxy(_) | Self::NoBundle { .. } | Self::Bundle(_))
    }
}
