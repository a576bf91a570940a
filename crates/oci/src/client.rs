//! Pulling from registries and pushing to them.

mod copy;
mod pull;
mod push;
mod signatures;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method};

pub use copy::Tree;

use crate::auth::Credentials;
use crate::blob_cache::{BlobCache, Workspace};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind};
use crate::manifest::{Descriptor, ImageConfig, Manifest, Platform, media_type};
use crate::pace::{Pace, Slow};
use crate::reference::Reference;
use crate::registries::{Registries, Source};
use crate::retry::Retry;
use crate::signature::SignatureFiles;
use crate::store::BlobStore;
use crate::transport::{Actions, Call, Host, Payload, Transport};

/// The largest manifest, in bytes; registries refuse larger ones too.
pub(crate) const MAX_MANIFEST: usize = 4 << 20;
/// The largest configuration, in bytes. It lists history and labels; upstream has the same limit.
pub(crate) const MAX_CONFIG: u64 = 8 << 20;

/// Settings of a client.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Credentials for the registries.
    pub credentials: Credentials,
    /// Mirrors, insecure and blocked registries.
    pub registries: Registries,
    /// Allows every registry to be reached without verified TLS and by plain HTTP, even if `registries` does not.
    pub insecure: bool,
    /// Certificate authorities besides the system's, as PEM, with the name to use in errors.
    pub authorities: Vec<(String, Vec<u8>)>,
    /// Folders that may hold a folder `HOST[:PORT]` with authorities (`*.crt`) and client certificates (`*.cert` with `*.key`) of that registry.
    pub certificates: Vec<PathBuf>,
    /// Files that decide which images are let in, by their signatures; all images by default.
    pub signatures: SignatureFiles,
    /// Platform of the image to take from an index.
    pub platform: Platform,
    /// Cache of blobs for the next pull; none when absent.
    pub cache: Option<BlobCache>,
    /// Retries of requests.
    pub retry: Retry,
    /// Blobs larger than this are sent in pieces of this size, in bytes.
    pub chunk: u64,
    /// The largest blob that is pulled, in bytes.
    pub max_blob: u64,
    /// Timeout for a connection.
    pub connect_timeout: Duration,
    /// Longest silence of a registry.
    pub read_timeout: Duration,
    /// Least pace of transfers.
    pub pace: Pace,
    /// The largest image that is pulled, in bytes of all its blobs.
    pub max_image: u64,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            credentials: Credentials::default(),
            registries: Registries::default(),
            insecure: false,
            authorities: Vec::new(),
            certificates: Vec::new(),
            signatures: SignatureFiles::default(),
            platform: Platform::default(),
            cache: None,
            retry: Retry::default(),
            chunk: 64 << 20,
            max_blob: 8 << 30,
            connect_timeout: Duration::from_secs(15),
            read_timeout: Duration::from_secs(60),
            pace: Pace::default(),
            max_image: 16 << 30,
        }
    }
}

/// A reference with the digest and media type that it stands for right now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The repository at the digest of the manifest or index.
    pub reference: Reference,
    /// The digest.
    pub digest: Digest,
    /// The media type of the manifest or index.
    pub media_type: String,
}

/// An image whose blobs are in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The digest that the reference stood for: of the manifest, or of the index that it was chosen from.
    pub digest: Digest,
    /// The manifest's own descriptor.
    pub descriptor: Descriptor,
    /// The manifest.
    pub manifest: Manifest,
    /// The image configuration with its labels.
    pub config: ImageConfig,
}

/// Progress of the transfer of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The blob.
    pub digest: Digest,
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// A callback for [`Progress`].
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// A client for registries.
#[derive(Clone)]
pub struct Client {
    transport: Arc<Transport>,
    config: Arc<ClientConfig>,
    on_progress: Option<OnProgress>,
    mount_from: Option<String>,
}

impl Client {
    /// A client with these settings.
    pub fn new(config: ClientConfig) -> Result<Self, Error> {
        let transport = Transport::new(&config)?;
        Ok(Self { transport: Arc::new(transport), config: Arc::new(config), on_progress: None, mount_from: None })
    }

    /// Returns the image that a text means to this user, with or without a registry.
    pub fn reference(&self, text: &str) -> Result<Reference, Error> {
        self.config.registries.reference(text)
    }

    /// Checks that a registry accepts these credentials.
    pub async fn log_in(&self, registry: &str) -> Result<(), Error> {
        let place = Reference::parse(&format!("{registry}/any"))?;
        let source = self.own_place(&place)?;
        let call = self.call(&place, &source, Method::GET, "/v2/", HeaderMap::new(), Payload::None);
        let call = Call { repository: "", subject: format!("registry {registry}"), ..call };
        self.within(&place, 0, self.transport.send(&call)).await.map(drop)
    }

    /// Opens a store to pull into, which shares its blobs with the cache if there is one. It is removed with the value.
    pub fn workspace(&self) -> Result<Workspace, Error> {
        self.workspace_in(&std::env::temp_dir())
    }

    /// Does the same; without a cache the store is made in that folder.
    pub fn workspace_in(&self, folder: &Path) -> Result<Workspace, Error> {
        match &self.config.cache {
            Some(cache) => cache.workspace(),
            None => Workspace::private(folder),
        }
    }

    /// The same client, which takes the images of another platform out of indexes.
    #[must_use]
    pub fn for_platform(&self, platform: Platform) -> Self {
        Self { config: Arc::new(ClientConfig { platform, ..(*self.config).clone() }), ..self.clone() }
    }

    /// The same client, which reports the progress of transfers.
    #[must_use]
    pub fn with_progress(&self, on_progress: OnProgress) -> Self {
        Self { on_progress: Some(on_progress), ..self.clone() }
    }

    /// The same client, which asks the registry to take blobs over from another of its repositories when it pushes.
    #[must_use]
    pub fn mounting_from(&self, repository: impl Into<String>) -> Self {
        Self { mount_from: Some(repository.into()), ..self.clone() }
    }

    /// Runs an operation that may transfer so many bytes, with the time limit for that. The limit includes mirrors, retries and redirects.
    async fn within<T>(&self, reference: &Reference, bytes: u64, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let allowed = self.config.pace.operation(bytes);
        if let Ok(done) = tokio::time::timeout(allowed, work).await {
            done
        } else {
            let problem = Slow::Deadline(allowed).to_string();
            Err(Error::connection(&reference.to_string(), reference.registry(), ErrorKind::Timeout, &problem))
        }
    }

    /// Returns the bytes of the blobs together; an error if an image may not have so many.
    fn size_of(&self, reference: &Reference, blobs: &[Descriptor]) -> Result<u64, Error> {
        let size = blobs.iter().fold(0_u64, |sum, blob| sum.saturating_add(blob.size));
        let limit = self.config.max_image;
        if size <= limit {
            return Ok(size);
        }
        Err(Error::Limit { subject: reference.to_string(), what: "size of all blobs in bytes", limit })
    }

    /// Returns the repository's own registry, which is the one to write to.
    fn own_place(&self, reference: &Reference) -> Result<Source, Error> {
        self.config.registries.own(reference)
    }

    fn report(&self, blob: &Descriptor, done: u64) {
        if let Some(on_progress) = &self.on_progress {
            on_progress(Progress { digest: blob.digest.clone(), done, total: blob.size });
        }
    }

    fn call<'a>(
        &self,
        subject: &Reference,
        source: &'a Source,
        method: Method,
        target: &'a str,
        headers: HeaderMap,
        body: Payload<'a>,
    ) -> Call<'a> {
        Call {
            host: Host { registry: source.reference.registry(), insecure: source.insecure || self.config.insecure },
            actions: match method {
                Method::GET | Method::HEAD => Actions::Pull,
                Method::DELETE => Actions::Delete,
                _ => Actions::Push,
            },
            method,
            target,
            headers,
            body,
            repository: source.reference.repository(),
            mounts: None,
            subject: subject.to_string(),
        }
    }

    /// One request about a repository; a failure names the subject.
    async fn send(
        &self,
        subject: &Reference,
        source: &Source,
        method: Method,
        target: &str,
        headers: HeaderMap,
        body: Payload<'_>,
    ) -> Result<reqwest::Response, Error> {
        self.transport.send(&self.call(subject, source, method, target, headers, body)).await
    }

    /// Does the same as part of an upload, so that one token serves all of it.
    async fn send_writing(
        &self,
        subject: &Reference,
        source: &Source,
        method: Method,
        target: &str,
        headers: HeaderMap,
        body: Payload<'_>,
    ) -> Result<reqwest::Response, Error> {
        let call = self.call(subject, source, method, target, headers, body);
        self.transport.send(&Call { actions: Actions::Push, ..call }).await
    }
}

/// Errors of the places that may hold an image, mirrors first.
#[derive(Default)]
struct Attempts(Vec<Error>);

impl Attempts {
    /// Records the failure; a refusal by the policy is final, even if other places hold the image.
    fn failed(&mut self, source: &Source, error: Error) -> Result<(), Error> {
        if matches!(error, Error::Rejected { .. } | Error::Unverifiable { .. }) {
            return Err(error);
        }
        tracing::debug!(%error, source = %source.reference, "image not taken from this place");
        self.0.push(error);
        Ok(())
    }

    fn into_error(mut self, reference: &Reference) -> Error {
        let subject = reference.to_string();
        match self.0.pop() {
            None => Error::content(subject, "no place to pull from"),
            Some(only) if self.0.is_empty() => only,
            Some(last) => {
                self.0.push(last);
                Error::Sources { subject, attempts: self.0 }
            }
        }
    }
}

/// Refuses a configuration that is too large before it is fetched.
pub(crate) fn check_config(subject: &str, manifest: &Manifest) -> Result<(), Error> {
    if manifest.config.size <= MAX_CONFIG {
        return Ok(());
    }
    Err(Error::Limit { subject: subject.to_owned(), what: "size of the image configuration in bytes", limit: MAX_CONFIG })
}

/// Reads the configuration of an image whose blobs are in the store.
pub(crate) fn read_config(subject: &str, store: &BlobStore, manifest: &Manifest) -> Result<ImageConfig, Error> {
    let bytes = store.read(&manifest.config.digest, MAX_CONFIG)?;
    serde_json::from_slice(&bytes).map_err(|error| Error::content(subject, format!("image configuration cannot be read: {error}")))
}

fn accepted() -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, header(&media_type::ACCEPTED.join(", "))?);
    Ok(headers)
}

fn header(text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text).map_err(|_| Error::content(text, "no value for an HTTP header"))
}
