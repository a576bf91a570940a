//! Pull secrets of single catalogs (OLM1-CAT-20): for a catalog's own image, and for the bundle images that it lists.
//!
//! ```text
//!   ClusterCatalog ── annotation pull-secret: NAME ──► Secret of the controllers' namespace ──► credentials of its registries
//!        ▲                                                    │
//!        └──────────────────── woken ◄──── changed ───────────┘
//! ```
//!
//! [`PullSecrets`] reads the Secret. Problems are reported with the annotation that names it.

use std::fmt;

use kube::Client;
use mainstay_api::lifecycle::PULL_SECRET;
use mainstay_api::olm_v1::ClusterCatalog;
use mainstay_diagnostics::chain;
use mainstay_image_source::pull_secrets::{PullSecretError, PullSecretProblem, PullSecrets};
use mainstay_oci::Credentials;

/// An unusable pull secret of a catalog. The text names all causes.
#[derive(Debug)]
pub struct CatalogSecretError(pub PullSecretError);

impl fmt::Display for CatalogSecretError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PullSecretError { namespace, name, problem } = &self.0;
        write!(out, "secret {namespace}/{name}, which annotation {PULL_SECRET} names, {}", chain(problem))?;
        match problem {
            PullSecretProblem::Forbidden { .. } => write!(out, "; mainstay deploy --catalog-pull-secret {name} lets catalogd read it"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for CatalogSecretError {}

/// The pull secrets of all catalogs.
pub struct CatalogSecrets(PullSecrets);

/// Returns the name of a catalog's pull secret.
pub fn pull_secret(catalog: &ClusterCatalog) -> Option<String> {
    catalog.metadata.annotations.as_ref()?.get(PULL_SECRET).filter(|name| !name.is_empty()).cloned()
}

impl CatalogSecrets {
    /// Creates the pull secrets of `namespace`, which `client` reads.
    pub fn new(client: Client, namespace: String) -> Self {
        Self(PullSecrets::new(client, namespace))
    }

    /// Sets the callback for the name of each Secret that was added, changed or deleted. Only the first call has an effect.
    pub fn wake_by(&self, wake: impl Fn(&str) + Send + Sync + 'static) {
        self.0.wake_by(wake);
    }

    /// Returns the credentials of a Secret. From then on the Secret is watched, if a callback is set.
    pub async fn credentials(&self, name: &str) -> Result<Credentials, CatalogSecretError> {
        self.0.credentials(name).await.map_err(CatalogSecretError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM1-CAT-20: what is wrong with a Secret is told with the annotation that names it, and with what would help.
    #[test]
    fn the_annotation_is_named() {
        let told = |problem| {
            let error = PullSecretError { namespace: "system".to_owned(), name: "pull".to_owned(), problem };
            chain(&CatalogSecretError(error))
        };
        let subject = format!("secret system/pull, which annotation {PULL_SECRET} names,");
        assert_eq!(told(PullSecretProblem::Missing), format!("{subject} does not exist"));
        let forbidden = PullSecretProblem::Forbidden { message: "no".to_owned() };
        let help = "mainstay deploy --catalog-pull-secret pull lets catalogd read it";
        assert_eq!(told(forbidden), format!("{subject} may not be read: no; {help}"));
        let cause = || mainstay_oci::Error::Io { path: "/x".into(), source: std::io::Error::other("odd") };
        assert_eq!(told(PullSecretProblem::Content(cause())), format!("{subject} cannot be used: {}", chain(&cause())));
    }
}
