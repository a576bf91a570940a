//! Images of catalogs and bundles: pulled, unpacked and kept by digest, in this process.
//!
//! ```text
//!   <root>/unpack/<extension>/<digest>   bundles, checked at the start (OLM1-GEN-09)
//!   <root>/unpack/.pull/                 layers on their way, where no cache of blobs is set; empty between pulls
//!   <root>/admitted                      what the policy about signatures let in, and under which conditions
//! ```
//!
//! What is here already is used again without a pull, but not without the policy: each use, under each name, has to be let in by the policy as
//! it is then (OLM1-GEN-12).

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use mainstay_bundle::Bundle;
use mainstay_catalog::Limits;
use mainstay_catalog_store::{CatalogStore, DirectorySource, Links, StoredCatalog, bundle_files};
use mainstay_diagnostics::chain;
use mainstay_oci::{
    Cache, Client, Credentials, Digest, Error, ErrorKind, Image, Layer, Reference, Registries, UnpackOptions, Workspace, private, unpack,
};
use serde_json::Value;

use crate::admitted::Admitted;
use crate::catalog::controller::CatalogImages;
use crate::catalog_secrets::CatalogSecrets;
use crate::extension::observe::BundleSource;
use crate::registries::{Held, RegistrySettings};
use mainstay_olm_v1_core::extension::facts::{BundleImage, CertificateProblem, PullFailure, PullProblem};

/// The label that names the directory of a catalog image's content (OLM1-CAT-06).
const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
/// Parsed bundles that are kept in memory.
const PARSED: usize = 4;

/// Pulls and keeps images for both controllers.
pub struct Images {
    settings: RegistrySettings,
    used: Mutex<Used>,
    catalogs: Arc<CatalogStore>,
    bundles: Cache,
    pulls: PathBuf,
    admitted: Admitted,
    secrets: Option<Arc<CatalogSecrets>>,
    parsed: Mutex<VecDeque<(Digest, Arc<Bundle>)>>,
    reading: Mutex<HashMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
}

/// What the last pull was done with.
struct Used {
    /// Objects of the cluster with mirror rules.
    mirrors: Vec<Value>,
    held: Held,
}

impl Images {
    /// Opens the cache below `root` and checks it: what is whole is used again without a pull, the rest goes with a log line each.
    pub fn open(root: &Path, catalogs: Arc<CatalogStore>, settings: RegistrySettings) -> Result<Self, Error> {
        let bundles = Cache::open(root.join("unpack"))?;
        for removed in bundles.verify()? {
            tracing::info!(path = %removed.path.display(), reason = removed.reason, "removed from the cache of unpacked bundles");
        }
        // What a pull that was cut off left behind is gone with the check. No extension has such a name.
        let pulls = bundles.root().join(".pull");
        if !settings.has_policy() {
            tracing::info!("no policy about signatures was found; images are taken without one");
        }
        // A mistake in the settings is told at once, not at the first pull.
        let used = Used { mirrors: Vec::new(), held: Held::new(settings.read(&[])?)? };
        let admitted = Admitted::open(root.join("admitted"));
        Ok(Self {
            settings,
            used: Mutex::new(used),
            catalogs,
            bundles,
            pulls,
            admitted,
            secrets: None,
            parsed: Mutex::default(),
            reading: Mutex::default(),
        })
    }

    /// The same, with the pull secrets of catalogs.
    #[must_use]
    pub fn with_secrets(self, secrets: Arc<CatalogSecrets>) -> Self {
        Self { secrets: Some(secrets), ..self }
    }

    /// The credentials of a catalog's pull secret.
    async fn credentials(&self, secret: Option<&str>) -> Result<Option<Credentials>, String> {
        match (secret, &self.secrets) {
            (None, _) => Ok(None),
            (Some(name), Some(secrets)) => secrets.credentials(name).await.map(Some).map_err(|error| chain(&error)),
            (Some(name), None) => Err(format!("secret {name}: pull secrets of catalogs are not read here")),
        }
    }

    /// What `registries.conf` says right now.
    pub fn registries(&self) -> Result<Registries, Error> {
        self.settings.registries()
    }

    /// Takes the mirror rules of these objects from the next pull on (OLM1-DISC-02).
    pub fn mirror(&self, objects: Vec<Value>) {
        self.used().mirrors = objects;
    }

    /// A client as the settings say right now (OLM1-GEN-12). Another one is made only when they have changed, or with a catalog's own
    /// credentials, which no other pull gets to see.
    fn client(&self, own: Option<&Credentials>) -> Result<Client, Error> {
        let mut used = self.used();
        let mut config = self.settings.read(&used.mirrors)?;
        if let Some(own) = own {
            config.credentials.prefer(own.clone());
            return Client::new(config);
        }
        if let Some(client) = used.held.for_config(&config) {
            return Ok(client);
        }
        used.held = Held::new(config)?;
        Ok(used.held.client())
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        // Every change of it is a single assignment.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The image with its layers, in a workspace that goes with the value.
    async fn pull(&self, reference: &Reference, own: Option<&Credentials>) -> Result<Pulled, Error> {
        let client = self.client(own)?;
        let conditions = client.conditions(reference)?;
        let workspace = self.workspace(&client)?;
        let image = client.pull(reference, workspace.store()).await?;
        self.admit(&client, reference, conditions, &image.digest)?;
        Ok(Pulled { image, workspace })
    }

    fn workspace(&self, client: &Client) -> Result<Workspace, Error> {
        private::folder(&self.pulls).map_err(|source| Error::Io { path: self.pulls.clone(), source })?;
        client.workspace_in(&self.pulls)
    }

    /// Whether content that is here may be used under this name: it was let in under the same conditions, or is now. It is not where the tag
    /// stands for something else by now; what the policy refuses is an error.
    async fn may_reuse(&self, reference: &Reference, content: &Digest, own: Option<&Credentials>) -> Result<bool, Error> {
        let client = self.client(own)?;
        let Some(conditions) = client.conditions(reference)? else { return Ok(true) };
        if self.admitted.holds(&conditions, content) {
            return Ok(true);
        }
        let workspace = self.workspace(&client)?;
        let image = client.inspect(reference, workspace.store()).await?;
        self.admit(&client, reference, Some(conditions), &image.digest)?;
        Ok(image.digest == *content)
    }

    /// Notes what an image was just let in under, unless that changed meanwhile.
    fn admit(&self, client: &Client, reference: &Reference, before: Option<Digest>, content: &Digest) -> Result<(), Error> {
        match before {
            Some(before) if client.conditions(reference)?.as_ref() == Some(&before) => self.admitted.add(&before, content),
            _ => Ok(()),
        }
    }

    async fn catalog(&self, reference: &Reference, own: Option<&Credentials>) -> Result<(String, StoredCatalog), PullFailure> {
        let client = self.client(own).map_err(|error| source(&error))?;
        let resolved = client.resolve(reference).await.map_err(|error| source(&error))?;
        let storing = |problem: String| PullFailure::other(format!("error storing fbc: {problem}"));
        let digest = resolved.digest.as_str().parse().map_err(|error| storing(chain(&error)))?;
        if let Some(stored) = self.catalogs.get(&digest).map_err(|error| storing(chain(&error)))?
            && self.may_reuse(reference, &resolved.digest, own).await.map_err(|error| source(&error))?
        {
            return Ok((resolved.reference.to_string(), stored));
        }
        // Asked for as it was named: a mirror that is for tags alone is not asked by digest (OLM1-DISC-01).
        let pulled = self.pull(reference, own).await.map_err(|error| source(&error))?;
        // The tag may have been moved meanwhile.
        let resolved = reference.at(pulled.image.digest.clone());
        let digest = pulled.image.digest.as_str().parse().map_err(|error| storing(chain(&error)))?;
        let Some(content) = pulled.image.config.config.labels.get(CONFIGS_LABEL).cloned() else {
            // A digest never gets the label; a tag may be moved to an image that has it.
            let message = format!("source catalog content: catalog image is missing the required label {CONFIGS_LABEL:?}");
            return Err(PullFailure { terminal: reference.digest().is_some(), ..PullFailure::other(message) });
        };
        let catalogs = self.catalogs.clone();
        let turn = self.turn(&pulled.image.digest).await;
        let stored = blocking(move || {
            let _turn = turn;
            let folder = pulled.workspace.directory().join("content");
            private::folder(&folder).map_err(|error| source(&Error::Io { path: folder.clone(), source: error }))?;
            let inside = content.trim_matches('/').to_owned();
            let keep = if inside.is_empty() { Vec::new() } else { vec![inside.clone()] };
            let options = UnpackOptions { keep, ..UnpackOptions::default() };
            unpack(&Layer::of(&pulled.image, pulled.workspace.store()), &folder, &options).map_err(|error| source(&error))?;
            let root = folder.join(&inside);
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

    /// The folder of an unpacked bundle image.
    async fn unpacked(&self, extension: &str, reference: &Reference, own: Option<&Credentials>) -> Result<(Digest, PathBuf), Error> {
        // What a digest stands for does not change, so nobody needs to be asked.
        let digest = match reference.digest() {
            Some(digest) => digest.clone(),
            None => self.client(own)?.resolve(reference).await?.digest,
        };
        if let Some(folder) = self.bundles.get(extension, &digest)?
            && self.may_reuse(reference, &digest, own).await?
        {
            return Ok((digest, folder));
        }
        let pulled = self.pull(reference, own).await?;
        let digest = pulled.image.digest.clone();
        let (cache, name, kept) = (self.bundles.clone(), extension.to_owned(), digest.clone());
        let turn = self.turn(&digest).await;
        let folder = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let folder = cache.fill(&name, &kept, |folder| {
                unpack(&Layer::of(&pulled.image, pulled.workspace.store()), folder, &UnpackOptions::default()).map(|_| ())
            })?;
            cache.retain(&name, &[kept])?;
            Ok::<_, Error>(folder)
        })
        .await
        .map_err(|error| Error::Io { path: self.bundles.root().to_owned(), source: std::io::Error::other(error) })??;
        Ok((digest, folder))
    }

    /// Whether the image was unpacked for this extension.
    fn is_here(&self, extension: &str, reference: &Reference) -> bool {
        reference.digest().is_some_and(|digest| self.bundles.get(extension, digest).is_ok_and(|folder| folder.is_some()))
    }

    /// The turn to read or unpack a content. What is given up by those who waited for it may go on for a while on its thread: until it ends,
    /// nobody begins the same again, so that a content without end costs one thread and no more.
    async fn turn(&self, digest: &Digest) -> tokio::sync::OwnedMutexGuard<()> {
        let turns = {
            let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            reading.retain(|_, turns| turns.strong_count() > 0);
            let known = reading.get(digest).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turns = Arc::default();
                reading.insert(digest.clone(), Arc::downgrade(&turns));
                turns
            })
        };
        turns.lock_owned().await
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

struct Pulled {
    image: Image,
    workspace: Workspace,
}

#[async_trait]
impl CatalogImages for Images {
    async fn unpack(&self, _name: &str, reference: &str, secret: Option<&str>) -> Result<(String, StoredCatalog), PullFailure> {
        let reference = Reference::parse_familiar(reference).map_err(|error| source(&error))?;
        let unusable = |problem| PullFailure::other(format!("source catalog content: {problem}"));
        let own = self.credentials(secret).await.map_err(unusable)?;
        self.catalog(&reference, own.as_ref()).await
    }

    async fn forget(&self, _name: &str) -> Result<(), String> {
        // Catalogs' content is kept by digest in the store, whose garbage is collected there; pulled layers never stay.
        Ok(())
    }
}

#[async_trait]
impl BundleSource for Images {
    async fn bundle(&self, extension: &str, image: &BundleImage) -> Result<Arc<Bundle>, PullFailure> {
        let reference = Reference::parse_familiar(&image.reference).map_err(|error| failure(&error))?;
        let own = match self.credentials(image.pull_secret.as_deref()).await {
            Ok(own) => own,
            // What was pulled for this extension is used without its registry.
            Err(problem) if self.is_here(extension, &reference) => {
                tracing::debug!(extension, problem, "the catalog's pull secret cannot be used, and is not needed");
                None
            }
            Err(message) => return Err(PullFailure::other(message)),
        };
        let own = own.as_ref();
        if let Some(digest) = reference.digest()
            && let Some(bundle) = self.remembered(digest)
            && self.may_reuse(&reference, digest, own).await.map_err(|error| failure(&error))?
        {
            return Ok(bundle);
        }
        let (digest, folder) = self.unpacked(extension, &reference, own).await.map_err(|error| failure(&error))?;
        let turn = self.turn(&digest).await;
        let bundle = blocking(move || {
            let _turn = turn;
            read_bundle(&folder)
        })
        .await?;
        let bundle = Arc::new(bundle);
        self.remember(digest, &bundle);
        Ok(bundle)
    }

    async fn forget(&self, extension: &str) -> Result<(), String> {
        let (bundles, extension) = (self.bundles.clone(), extension.to_owned());
        let forget = move || bundles.retain(&extension, &[]).map_err(|error| chain(&error));
        tokio::task::spawn_blocking(forget).await.map_err(|error| error.to_string())?
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

/// What a condition says of a pull: what happened, and what would help. Only a reference that is none is beyond trying again (OLM1-GEN-12).
fn failure(error: &Error) -> PullFailure {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    let problem = pull_problem(error);
    let terminal = problem == PullProblem::Reference;
    PullFailure { problem, message: format!("{}{hint}", chain(error)), terminal }
}

/// The problem of a pull, by what helps.
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

fn source(error: &Error) -> PullFailure {
    let PullFailure { problem, message, terminal } = failure(error);
    let message = if terminal { message } else { format!("source catalog content: {message}") };
    PullFailure { problem, message, terminal }
}
