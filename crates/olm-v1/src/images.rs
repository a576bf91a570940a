//! Images of catalogs and bundles, read after an [`ImageSource`] has pulled and unpacked them.
//!
//! ```text
//!   ClusterCatalog's image ── pull ──► folder that its label names ──► CatalogStore, by digest
//!   bundle's image ── unpacked for its extension, kept ──► Bundle; the last few stay parsed in memory
//! ```
//!
//! Stored images are used again without a pull, but not without the signature policy: it must admit each use, under each name, as it is at that time
//! (OLM1-GEN-12).

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use mainstay_bundle::Bundle;
use mainstay_catalog::Limits;
use mainstay_catalog_store::{CatalogStore, DirectorySource, Links, StoredCatalog, bundle_files};
use mainstay_diagnostics::{SharedError, chain};
use mainstay_image_source::registries::RegistrySettings;
use mainstay_image_source::{ImageError, ImageSource, UnpackedImage};
use mainstay_oci::{Credentials, Digest, Error, ErrorKind, Reference, UnpackOptions};
use mainstay_olm_v1_core::extension::facts::{BundleImage, CertificateProblem, PullFailure, PullProblem};

use crate::catalog::controller::CatalogImages;
use crate::catalog_secrets::{CatalogSecretError, CatalogSecrets};
use crate::extension::observe::BundleSource;

/// The label that names the directory of a catalog image's content (OLM1-CAT-06).
const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
/// Parsed bundles that are kept in memory.
const PARSED: usize = 4;

/// The source of images for both controllers, which pulls and stores them.
pub struct Images {
    source: Arc<ImageSource>,
    catalogs: Arc<CatalogStore>,
    secrets: Option<Arc<CatalogSecrets>>,
    parsed: Mutex<VecDeque<(Digest, Arc<Bundle>)>>,
}

/// Why a catalog's pull secret cannot be used.
#[derive(Debug, thiserror::Error)]
enum CredentialsError {
    #[error(transparent)]
    Secret(#[from] CatalogSecretError),
    #[error("secret {0}: pull secrets of catalogs are not read here")]
    NotReadHere(String),
}

impl Images {
    /// Opens the cache below `root` and checks it. Complete entries are used again without a pull; the rest is removed, with a log line for each.
    pub fn open(root: &Path, catalogs: Arc<CatalogStore>, settings: RegistrySettings) -> Result<Self, ImageError> {
        let source = ImageSource::open(root, settings, |removed| {
            tracing::info!(path = %removed.path.display(), reason = removed.reason, "removed from the cache of unpacked bundles");
        })?;
        Ok(Self { source: Arc::new(source), catalogs, secrets: None, parsed: Mutex::default() })
    }

    /// Returns the same source with the pull secrets of catalogs.
    #[must_use]
    pub fn with_secrets(self, secrets: Arc<CatalogSecrets>) -> Self {
        Self { secrets: Some(secrets), ..self }
    }

    /// Returns the underlying source of images.
    pub fn source(&self) -> &Arc<ImageSource> {
        &self.source
    }

    /// Returns the credentials of a catalog's pull secret.
    async fn credentials(&self, secret: Option<&str>) -> Result<Option<Credentials>, CredentialsError> {
        match (secret, &self.secrets) {
            (None, _) => Ok(None),
            (Some(name), Some(secrets)) => Ok(Some(secrets.credentials(name).await?)),
            (Some(name), None) => Err(CredentialsError::NotReadHere(name.to_owned())),
        }
    }

    async fn catalog(&self, reference: &Reference, own: Option<&Credentials>) -> Result<(String, StoredCatalog), PullFailure> {
        let resolved = self.source.resolve(reference, own).await.map_err(|error| catalog_failure(error.cause()))?;
        let storing = |problem: String| PullFailure::other(format!("error storing fbc: {problem}"));
        let digest = resolved.digest.as_str().parse().map_err(|error| storing(chain(&error)))?;
        if let Some(stored) = self.catalogs.get(&digest).map_err(|error| storing(chain(&error)))?
            && self.source.may_reuse(reference, &resolved.digest, own).await.map_err(|error| catalog_failure(error.cause()))?
        {
            return Ok((resolved.reference.to_string(), stored));
        }
        // The request keeps the name as given: a mirror that is for tags alone is not asked by digest (OLM1-DISC-01).
        let pulled = self.source.pull(reference, own).await.map_err(|error| catalog_failure(error.cause()))?;
        // The tag may have moved meanwhile.
        let resolved = reference.at(pulled.image.digest.clone());
        let digest = pulled.image.digest.as_str().parse().map_err(|error| storing(chain(&error)))?;
        let Some(content) = pulled.image.config.config.labels.get(CONFIGS_LABEL).cloned() else {
            // The image of a digest never gains the label; a tag may move to an image that has it.
            let message = format!("source catalog content: catalog image is missing the required label {CONFIGS_LABEL:?}");
            return Err(PullFailure { terminal: reference.digest().is_some(), ..PullFailure::other(message) });
        };
        let catalogs = self.catalogs.clone();
        let lock = self.source.lock_content(&pulled.image.digest).await;
        let stored = blocking(move || {
            let _lock = lock;
            let inside = content.trim_matches('/').to_owned();
            let keep = if inside.is_empty() { Vec::new() } else { vec![inside.clone()] };
            let options = UnpackOptions { keep, ..UnpackOptions::default() };
            let root = pulled.unpack(&options).map_err(|error| catalog_failure(error.cause()))?.join(&inside);
            if !root.is_dir() {
                let message =
                    format!("source catalog content: the image has no directory {content:?}, which its label {CONFIGS_LABEL:?} names");
                return Err(PullFailure::other(message));
            }
            let storing = |error: &dyn std::error::Error| PullFailure::other(format!("error storing fbc: {}", chain(error)));
            let content = DirectorySource::of_image(&root).map_err(|error| storing(&error))?;
            catalogs.put(&digest, &content, &Limits::default()).map_err(|error| storing(&error))
        })
        .await?;
        Ok((resolved.to_string(), stored))
    }

    fn remembered(&self, digest: &Digest) -> Option<Arc<Bundle>> {
        let parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        parsed.iter().find(|(known, _)| known == digest).map(|(_, bundle)| bundle.clone())
    }

    fn remember(&self, digest: Digest, bundle: &Arc<Bundle>) {
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        parsed.retain(|(known, _)| *known != digest);
        parsed.push_back((digest, bundle.clone()));
        while parsed.len() > PARSED {
            parsed.pop_front();
        }
    }
}

#[async_trait]
impl CatalogImages for Images {
    async fn unpack(&self, _name: &str, reference: &str, secret: Option<&str>) -> Result<(String, StoredCatalog), PullFailure> {
        let reference = Reference::parse_familiar(reference).map_err(|error| catalog_failure(&error))?;
        let unusable = |error: CredentialsError| PullFailure::other(format!("source catalog content: {}", chain(&error)));
        let own = self.credentials(secret).await.map_err(unusable)?;
        self.catalog(&reference, own.as_ref()).await
    }

    async fn forget(&self, _name: &str) -> Result<(), SharedError> {
        // The store keeps catalogs' content by digest and collects its own garbage; pulled layers are never kept.
        Ok(())
    }
}

#[async_trait]
impl BundleSource for Images {
    async fn bundle(&self, extension: &str, image: &BundleImage) -> Result<Arc<Bundle>, PullFailure> {
        let reference = Reference::parse_familiar(&image.reference).map_err(|error| failure(&error))?;
        let own = match self.credentials(image.pull_secret.as_deref()).await {
            Ok(own) => own,
            // An image pulled earlier for this extension is used without its registry.
            Err(error) if self.source.has_unpacked(extension, &reference) => {
                tracing::debug!(extension, error = chain(&error), "the catalog's pull secret cannot be used, and is not needed");
                None
            }
            Err(error) => return Err(PullFailure::other(chain(&error))),
        };
        let own = own.as_ref();
        if let Some(digest) = reference.digest()
            && let Some(bundle) = self.remembered(digest)
            && self.source.may_reuse(&reference, digest, own).await.map_err(|error| failure(error.cause()))?
        {
            return Ok(bundle);
        }
        let UnpackedImage { digest, folder } =
            self.source.unpacked(extension, &reference, own).await.map_err(|error| failure(error.cause()))?;
        let lock = self.source.lock_content(&digest).await;
        let bundle = blocking(move || {
            let _lock = lock;
            read_bundle(&folder)
        })
        .await?;
        let bundle = Arc::new(bundle);
        self.remember(digest, &bundle);
        Ok(bundle)
    }

    async fn forget(&self, extension: &str) -> Result<(), SharedError> {
        let (source, extension) = (self.source.clone(), extension.to_owned());
        let forget = move || source.remove_unpacked(&extension).map_err(SharedError::new);
        tokio::task::spawn_blocking(forget).await.map_err(SharedError::new)?
    }
}

/// Reads a bundle from the folder of an unpacked image.
pub fn read_bundle(folder: &Path) -> Result<Bundle, PullFailure> {
    let files = bundle_files(folder, Links::Inside).map_err(|error| PullFailure::other(chain(&error)))?;
    Bundle::read(files).map_err(|error| PullFailure::other(chain(&error)))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, PullFailure> + Send + 'static) -> Result<T, PullFailure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| PullFailure::other(error.to_string()))?
}

/// Returns the failure of a pull for a condition: the event and its remedy. Only an invalid reference is terminal (OLM1-GEN-12).
fn failure(error: &Error) -> PullFailure {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    let problem = pull_problem(error);
    let terminal = problem == PullProblem::Reference;
    PullFailure { problem, message: format!("{}{hint}", chain(error)), terminal }
}

/// Returns the failure of a pull of a catalog's image, in upstream's words.
fn catalog_failure(error: &Error) -> PullFailure {
    let PullFailure { problem, message, terminal } = failure(error);
    let message = if terminal { message } else { format!("source catalog content: {message}") };
    PullFailure { problem, message, terminal }
}

/// Returns the problem of a pull, classified by its remedy.
pub fn pull_problem(error: &Error) -> PullProblem {
    match error.kind() {
        ErrorKind::Unauthorized | ErrorKind::Forbidden => PullProblem::Credentials,
        ErrorKind::NotFound => PullProblem::Missing,
        ErrorKind::Certificate(problem) => PullProblem::Certificate(match problem {
            mainstay_oci::CertificateProblem::Expired => CertificateProblem::Expired,
            mainstay_oci::CertificateProblem::NotYetValid => CertificateProblem::NotYetValid,
            mainstay_oci::CertificateProblem::OtherName => CertificateProblem::OtherName,
            mainstay_oci::CertificateProblem::Untrusted => CertificateProblem::Untrusted,
        }),
        ErrorKind::InvalidReference => PullProblem::Reference,
        _ => PullProblem::Other,
    }
}
