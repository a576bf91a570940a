//! Images pulled with the registries' settings, mirror rules, credentials and policy of the moment, and unpacked into a cache.
//!
//! ```text
//!   <root>/unpack/<owner>/<digest>   unpacked images, checked when the source is opened (OLM1-GEN-09)
//!   <root>/unpack/.pull/             layers in transfer, if no cache of blobs is set; empty between pulls
//!   <root>/admitted                  what the signature policy admitted, and under which conditions
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mainstay_oci::{
    Cache, Client, Credentials, Digest, Error, Image, Layer, Reference, Registries, Removed, Resolved, UnpackOptions, Workspace, private,
    unpack,
};
use serde_json::Value;

use crate::admitted::AdmittedImages;
use crate::error::ImageError;
use crate::registries::{RegistryClient, RegistrySettings};

/// Source of images, with a cache of what was unpacked for each owner.
pub struct ImageSource {
    settings: RegistrySettings,
    current: Mutex<Current>,
    cache: Cache,
    pulls: PathBuf,
    admitted: AdmittedImages,
    locks: Mutex<HashMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
}

/// State that decides the next pull, besides the settings.
struct Current {
    /// Objects of the cluster with mirror rules.
    mirror_objects: Vec<Value>,
    client: RegistryClient,
}

/// Image whose layers are in a workspace, which is removed with the value.
pub struct PulledImage {
    /// The image.
    pub image: Image,
    workspace: Workspace,
}

/// Image that is unpacked in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackedImage {
    /// Digest that the reference stands for.
    pub digest: Digest,
    /// Folder of the content.
    pub folder: PathBuf,
}

/// Exclusive use of one content, until it is dropped.
#[derive(Debug)]
pub struct ContentLock(#[allow(dead_code, reason = "unlocks when it is dropped")] tokio::sync::OwnedMutexGuard<()>);

impl ImageSource {
    /// Opens the cache below `root` and checks it: entries that are whole are used again without a pull, others are removed and handed to
    /// `on_removed`.
    ///
    /// It is an error if the cache cannot be opened, or if the settings are malformed: that is told at once, not at the first pull.
    pub fn open(root: &Path, settings: RegistrySettings, on_removed: impl Fn(&Removed)) -> Result<Self, ImageError> {
        let cache = Cache::open(root.join("unpack")).map_err(ImageError::cache)?;
        cache.verify().map_err(ImageError::cache)?.iter().for_each(on_removed);
        // The check removed what an interrupted pull left here. No owner has such a name.
        let pulls = cache.root().join(".pull");
        if !settings.has_policy() {
            tracing::info!("no policy about signatures was found; images are taken without one");
        }
        let client = settings.read(&[]).and_then(RegistryClient::new).map_err(ImageError::settings)?;
        let current = Mutex::new(Current { mirror_objects: Vec::new(), client });
        let admitted = AdmittedImages::open(root.join("admitted"));
        Ok(Self { settings, current, cache, pulls, admitted, locks: Mutex::default() })
    }

    /// Reads `registries.conf` as it is now, without the mirror rules of objects.
    pub fn registries(&self) -> Result<Registries, ImageError> {
        self.settings.registries().map_err(ImageError::settings)
    }

    /// Uses the mirror rules of these objects from the next pull on, instead of those set before (OLM1-DISC-02).
    pub fn set_mirror_objects(&self, objects: Vec<Value>) {
        self.current().mirror_objects = objects;
    }

    /// Asks the registry for the digest that the reference stands for.
    pub async fn resolve(&self, reference: &Reference, credentials: Option<&Credentials>) -> Result<Resolved, ImageError> {
        self.client(credentials)?.resolve(reference).await.map_err(ImageError::pull)
    }

    /// Pulls the image with its layers, if the policy admits it.
    ///
    /// `credentials` are preferred to those of the settings, for this call only.
    pub async fn pull(&self, reference: &Reference, credentials: Option<&Credentials>) -> Result<PulledImage, ImageError> {
        let client = self.client(credentials)?;
        let conditions = client.conditions(reference).map_err(ImageError::pull)?;
        let workspace = self.workspace(&client)?;
        let image = client.pull(reference, workspace.store()).await.map_err(ImageError::pull)?;
        self.record_admission(&client, reference, conditions, &image.digest)?;
        Ok(PulledImage { image, workspace })
    }

    /// Returns true if kept content may be used under this name: it was admitted under the policy's present conditions, or is admitted now.
    ///
    /// It is false if the tag stands for other content by now; an image that the policy does not admit is an error.
    pub async fn may_reuse(&self, reference: &Reference, content: &Digest, credentials: Option<&Credentials>) -> Result<bool, ImageError> {
        let client = self.client(credentials)?;
        let Some(conditions) = client.conditions(reference).map_err(ImageError::pull)? else { return Ok(true) };
        if self.admitted.contains(&conditions, content) {
            return Ok(true);
        }
        let workspace = self.workspace(&client)?;
        let image = client.inspect(reference, workspace.store()).await.map_err(ImageError::pull)?;
        self.record_admission(&client, reference, Some(conditions), &image.digest)?;
        Ok(image.digest == *content)
    }

    /// Unpacks the image for its owner, unless it is in the cache and may be used again. What the cache had for this owner before is removed.
    pub async fn unpacked(
        &self,
        owner: &str,
        reference: &Reference,
        credentials: Option<&Credentials>,
    ) -> Result<UnpackedImage, ImageError> {
        // A digest always stands for the same content, so the registry is not asked.
        let digest = match reference.digest() {
            Some(digest) => digest.clone(),
            None => self.resolve(reference, credentials).await?.digest,
        };
        if let Some(folder) = self.cache.get(owner, &digest).map_err(ImageError::cache)?
            && self.may_reuse(reference, &digest, credentials).await?
        {
            return Ok(UnpackedImage { digest, folder });
        }
        let pulled = self.pull(reference, credentials).await?;
        let digest = pulled.image.digest.clone();
        let (cache, name, kept) = (self.cache.clone(), owner.to_owned(), digest.clone());
        let lock = self.lock_content(&digest).await;
        let folder = tokio::task::spawn_blocking(move || {
            let _lock = lock;
            let unpacked = |folder: &Path| pulled.unpack_into(folder, &UnpackOptions::default());
            let folder = cache.fill(&name, &kept, unpacked).map_err(ImageError::unpack)?;
            cache.retain(&name, &[kept]).map_err(ImageError::cache)?;
            Ok::<_, ImageError>(folder)
        })
        .await
        .map_err(|error| ImageError::cache(Error::Io { path: self.cache.root().to_owned(), source: std::io::Error::other(error) }))??;
        Ok(UnpackedImage { digest, folder })
    }

    /// Returns true if the cache has the image for this owner, which is known of references by digest only.
    pub fn has_unpacked(&self, owner: &str, reference: &Reference) -> bool {
        reference.digest().is_some_and(|digest| self.cache.get(owner, digest).is_ok_and(|folder| folder.is_some()))
    }

    /// Removes all that the cache has for this owner. Blocks.
    pub fn remove_unpacked(&self, owner: &str) -> Result<(), ImageError> {
        self.cache.retain(owner, &[]).map_err(ImageError::cache)
    }

    /// Waits for exclusive use of a content, to unpack or read it.
    ///
    /// A task that was given up may go on for a while on its thread. No other begins the same work until it ends, so that content without end
    /// costs one thread and no more.
    pub async fn lock_content(&self, digest: &Digest) -> ContentLock {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.get(digest).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let lock = Arc::default();
                locks.insert(digest.clone(), Arc::downgrade(&lock));
                lock
            })
        };
        ContentLock(lock.lock_owned().await)
    }

    /// A client with the settings as they are now (OLM1-GEN-12). A new one is made only if they changed, or for credentials of one owner,
    /// which no other pull may use.
    pub fn client(&self, credentials: Option<&Credentials>) -> Result<Client, ImageError> {
        let mut current = self.current();
        let mut config = self.settings.read(&current.mirror_objects).map_err(ImageError::settings)?;
        if let Some(credentials) = credentials {
            config.credentials.prefer(credentials.clone());
            return Client::new(config).map_err(ImageError::settings);
        }
        if let Some(client) = current.client.for_config(&config) {
            return Ok(client);
        }
        current.client = RegistryClient::new(config).map_err(ImageError::settings)?;
        Ok(current.client.client())
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // Every change of it is a single assignment.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn workspace(&self, client: &Client) -> Result<Workspace, ImageError> {
        private::folder(&self.pulls).map_err(|source| ImageError::cache(Error::Io { path: self.pulls.clone(), source }))?;
        client.workspace_in(&self.pulls).map_err(ImageError::cache)
    }

    /// Records the conditions that an image was just admitted under, unless they changed meanwhile.
    fn record_admission(&self, client: &Client, reference: &Reference, before: Option<Digest>, content: &Digest) -> Result<(), ImageError> {
        let Some(before) = before else { return Ok(()) };
        if client.conditions(reference).map_err(ImageError::pull)?.as_ref() == Some(&before) {
            self.admitted.record(&before, content).map_err(ImageError::cache)?;
        }
        Ok(())
    }
}

impl PulledImage {
    /// Unpacks the layers into a new folder that is removed with the value, and returns the folder. Blocks.
    pub fn unpack(&self, options: &UnpackOptions) -> Result<PathBuf, ImageError> {
        let folder = self.workspace.directory().join("content");
        private::folder(&folder).map_err(|source| ImageError::cache(Error::Io { path: folder.clone(), source }))?;
        self.unpack_into(&folder, options).map_err(ImageError::unpack)?;
        Ok(folder)
    }

    fn unpack_into(&self, folder: &Path, options: &UnpackOptions) -> Result<(), Error> {
        unpack(&Layer::of(&self.image, self.workspace.store()), folder, options).map(|_| ())
    }
}
