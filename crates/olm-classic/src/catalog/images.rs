//! Images of catalogs and bundles, pulled with the Secrets of the CatalogSource (OLM0-CAT-10).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::Api;
use mainstay_catalog::Limits;
use mainstay_catalog_refs::{Access, Kind, open_image};
use mainstay_catalog_store::{CatalogStore, FolderError, Links, StoreError, StoredCatalog, bundle_files};
use mainstay_diagnostics::chain;
use mainstay_image_source::pull_secrets::{PullSecretError, PullSecrets};
use mainstay_image_source::{ImageError, ImageSource};
use mainstay_oci::{Credentials, Reference};
use mainstay_olm_classic_core::install_plan::reference::unpack_name;
use mainstay_olm_classic_core::steps::{self, Loaded};

use super::registry_words;

/// Bundles that stay in memory after they were read.
const KEPT: usize = 8;
/// The kinds of images that serve a catalog.
const CATALOGS: &[Kind] = &[Kind::CATALOG_IMAGE, Kind::DATABASE_IMAGE];

/// Why an image gives no content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFailure {
    /// The sentence, with all causes.
    pub message: String,
    /// True if the content itself cannot be used, which another try does not change.
    pub is_content: bool,
    /// The digest of the image, if it was pulled and its content cannot be used.
    pub digest: Option<String>,
    /// The words of a node's runtime about it, if it could not be pulled.
    runtime: Option<String>,
}

impl ImageFailure {
    pub(super) fn of(error: &dyn std::error::Error) -> Self {
        Self::because(chain(error))
    }

    /// A failure that another try may change.
    pub(super) fn because(message: String) -> Self {
        Self { message, is_content: false, digest: None, runtime: None }
    }

    /// A failure of the registry, or on the way to it.
    fn pull(error: &mainstay_oci::Error, reference: &Reference) -> Self {
        Self { runtime: Some(registry_words::of(error, reference)), ..Self::of(error) }
    }

    /// The words of a node's runtime (OLM0-ADMIN-22).
    pub fn words(self) -> String {
        self.runtime.unwrap_or_else(|| format!("rpc error: code = Unknown desc = {}", self.message))
    }

    /// The sentence of the events about it (OLM0-CAT-34).
    pub fn sentence(&self) -> String {
        self.clone().words()
    }

    pub(super) fn content(error: &dyn std::error::Error) -> Self {
        Self { is_content: true, ..Self::of(error) }
    }
}

/// The source of catalogs and bundles.
pub struct Images {
    source: Arc<ImageSource>,
    store: Arc<CatalogStore>,
    client: Client,
    secrets: Mutex<HashMap<String, Arc<PullSecrets>>>,
    bundles: Mutex<VecDeque<(String, Arc<Loaded>)>>,
}

impl Images {
    /// Makes a source that reads Secrets with `client`.
    pub fn new(source: Arc<ImageSource>, store: Arc<CatalogStore>, client: Client) -> Self {
        Self { source, store, client, secrets: Mutex::default(), bundles: Mutex::default() }
    }

    /// Pulls and stores a catalog, unless its image is stored already.
    pub async fn catalog(&self, namespace: &str, reference: &str, secrets: &[String]) -> Result<StoredCatalog, ImageFailure> {
        let parsed = Reference::parse_familiar(reference).map_err(|error| ImageFailure::content(&error))?;
        let credentials = self.credentials(namespace, secrets).await?;
        let own = credentials.as_ref();
        let resolved = self.source.resolve(&parsed, own).await.map_err(|error| ImageFailure::pull(error.cause(), &parsed))?;
        let stored = |error: StoreError| ImageFailure::of(&error);
        if let Ok(digest) = resolved.digest.as_str().parse()
            && let Some(catalog) = self.store.get(&digest).map_err(stored)?
            && self.source.may_reuse(&parsed, &resolved.digest, own).await.map_err(|error| ImageFailure::of(error.cause()))?
        {
            return Ok(catalog);
        }
        let client = self.source.client(own).map_err(|error| ImageFailure::of(&error))?;
        let make = move || Ok(client.clone());
        let opened = open_image(reference, &Access::new(&make, CATALOGS)).await.map_err(|error| ImageFailure::of(&error))?;
        // The tag may have moved since it was resolved.
        let digest = opened.digest.as_ref().unwrap_or(&resolved.digest).clone();
        let lock = self.source.lock_content(&digest).await;
        let store = self.store.clone();
        let pulled = digest.to_string();
        let work = move || {
            let _lock = lock;
            let content = |error: &dyn std::error::Error| ImageFailure { digest: Some(pulled.clone()), ..ImageFailure::content(error) };
            let digest = digest.as_str().parse().map_err(|error| content(&error))?;
            let source = opened.source().map_err(|error| content(&error))?;
            store.put(&digest, &*source, &Limits::default()).map_err(|error| content(&error))
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| ImageFailure::of(&error))?
    }

    /// Returns the stored catalog with this digest, or pulls it.
    pub async fn held_catalog(
        &self,
        namespace: &str,
        reference: &str,
        digest: Option<&str>,
        secrets: &[String],
    ) -> Result<StoredCatalog, ImageFailure> {
        if let Some(digest) = digest.and_then(|digest| digest.parse().ok())
            && let Some(catalog) = self.store.get(&digest).map_err(|error| ImageFailure::of(&error))?
        {
            return Ok(catalog);
        }
        self.catalog(namespace, reference, secrets).await
    }

    /// Pulls and reads a bundle. Content that was unpacked before is used again.
    pub async fn bundle(&self, namespace: &str, reference: &str, secrets: &[String]) -> Result<Arc<Loaded>, ImageFailure> {
        if let Some(loaded) = self.remembered(reference) {
            return Ok(loaded);
        }
        let (_, files) = self.bundle_content(namespace, reference, secrets).await?;
        let read = move || {
            let manifests = files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix("manifests/")?, bytes.as_slice())));
            steps::load(manifests.filter(|(path, _)| !path.contains('/')))
        };
        let loaded = Arc::new(tokio::task::spawn_blocking(read).await.map_err(|error| ImageFailure::of(&error))?);
        if loaded.objects.is_empty() {
            let message = format!("image {reference} has no manifests");
            return Err(ImageFailure { is_content: true, ..ImageFailure::because(message) });
        }
        self.remember(reference, &loaded);
        Ok(loaded)
    }

    /// Pulls a bundle, and returns its digest and its files by path. Content that was unpacked before is used again.
    pub async fn bundle_content(
        &self,
        namespace: &str,
        reference: &str,
        secrets: &[String],
    ) -> Result<(String, Vec<(String, Vec<u8>)>), ImageFailure> {
        let parsed = Reference::parse_familiar(reference).map_err(|error| ImageFailure::content(&error))?;
        let owner = unpack_name(reference);
        let credentials = match self.credentials(namespace, secrets).await {
            Ok(credentials) => credentials,
            // What was unpacked earlier is used without its registry.
            Err(_) if self.source.has_unpacked(&owner, &parsed) => None,
            Err(failure) => return Err(failure),
        };
        let unpacked = self.source.unpacked(&owner, &parsed, credentials.as_ref()).await;
        let unpacked = unpacked.map_err(|error: ImageError| ImageFailure::pull(error.cause(), &parsed))?;
        let lock = self.source.lock_content(&unpacked.digest).await;
        let digest = unpacked.digest.to_string();
        let work = move || {
            let _lock = lock;
            bundle_files(&unpacked.folder, Links::Inside)
        };
        let files = tokio::task::spawn_blocking(work).await.map_err(|error| ImageFailure::of(&error))?;
        let content = |error: FolderError| ImageFailure { digest: Some(digest.clone()), ..ImageFailure::content(&error) };
        Ok((digest.clone(), files.map_err(content)?))
    }

    /// The credentials of the catalog's Secrets, then those of the namespace's default account; none if there are none.
    async fn credentials(&self, namespace: &str, secrets: &[String]) -> Result<Option<Credentials>, ImageFailure> {
        let mut all: Option<Credentials> = None;
        let of_namespace = self.secrets_of(namespace);
        let mut add = |found: Credentials| match &mut all {
            None => all = Some(found),
            Some(all) => all.prefer(found),
        };
        // Those that are preferred come last.
        for name in self.default_account_secrets(namespace).await {
            match of_namespace.credentials(&name).await {
                Ok(found) => add(found),
                Err(error) => tracing::debug!(error = chain(&error), "a pull secret of the default account is passed over"),
            }
        }
        for name in secrets.iter().rev() {
            add(of_namespace.credentials(name).await.map_err(|error: PullSecretError| ImageFailure::of(&error))?);
        }
        Ok(all)
    }

    async fn default_account_secrets(&self, namespace: &str) -> Vec<String> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        match api.get_opt("default").await {
            Ok(Some(account)) => account.image_pull_secrets.into_iter().flatten().map(|secret| secret.name).collect(),
            Ok(None) => Vec::new(),
            Err(error) => {
                tracing::debug!(namespace, %error, "the default account cannot be read; its pull secrets are not used");
                Vec::new()
            }
        }
    }

    fn secrets_of(&self, namespace: &str) -> Arc<PullSecrets> {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(PullSecrets::new(self.client.clone(), namespace.to_owned()));
        secrets.entry(namespace.to_owned()).or_insert_with(make).clone()
    }

    fn remembered(&self, reference: &str) -> Option<Arc<Loaded>> {
        let bundles = self.bundles.lock().unwrap_or_else(PoisonError::into_inner);
        bundles.iter().find(|(known, _)| known == reference).map(|(_, loaded)| loaded.clone())
    }

    /// Remembers a bundle whose reference always stands for the same content.
    fn remember(&self, reference: &str, loaded: &Arc<Loaded>) {
        if !reference.contains('@') {
            return;
        }
        let mut bundles = self.bundles.lock().unwrap_or_else(PoisonError::into_inner);
        bundles.push_back((reference.to_owned(), loaded.clone()));
        while bundles.len() > KEPT {
            bundles.pop_front();
        }
    }

    /// Forgets the unpacked content of a bundle that no InstallPlan needs any more.
    pub async fn forget_bundle(&self, reference: &str) {
        let (source, owner) = (self.source.clone(), unpack_name(reference));
        let removed = tokio::task::spawn_blocking(move || source.remove_unpacked(&owner)).await;
        match removed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(reference, error = chain(&error), "the unpacked bundle could not be removed"),
            Err(error) => tracing::warn!(reference, %error, "the unpacked bundle could not be removed"),
        }
    }
}
