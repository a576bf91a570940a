//! Pulling from registries and pushing to them.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::auth::Credentials;
use crate::digest::{Digest, Hasher};
use crate::error::{Error, ErrorKind};
use crate::manifest::{Descriptor, Document, ImageConfig, Manifest, Platform, media_type, parse};
use crate::reference::Reference;
use crate::registries::{Registries, Source};
use crate::store::{BlobStore, check};
use crate::transport::{Call, Host, Payload, Transport, body, small_body};

/// Registries refuse larger manifests too.
pub(crate) const MAX_MANIFEST: usize = 4 << 20;
/// A configuration lists history and labels; upstream allows no more either.
pub(crate) const MAX_CONFIG: u64 = 8 << 20;

/// How to talk to registries.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Who we are there.
    pub credentials: Credentials,
    /// Mirrors, insecure and blocked registries.
    pub registries: Registries,
    /// Certificate authorities besides the system's, as PEM, with the name to use in errors.
    pub authorities: Vec<(String, Vec<u8>)>,
    /// Which image of an index to take.
    pub platform: Platform,
    /// The largest blob that is pulled, in bytes.
    pub max_blob: u64,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long a registry may be silent.
    pub read_timeout: Duration,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            credentials: Credentials::default(),
            registries: Registries::default(),
            authorities: Vec::new(),
            platform: Platform::default(),
            max_blob: 8 << 30,
            connect_timeout: Duration::from_secs(15),
            read_timeout: Duration::from_secs(60),
        }
    }
}

/// A reference with what it stands for right now.
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
    /// The digest that the reference stood for: of the manifest, or of the index it was chosen from.
    pub digest: Digest,
    /// The manifest's own descriptor.
    pub descriptor: Descriptor,
    /// The manifest.
    pub manifest: Manifest,
    /// The image configuration with its labels.
    pub config: ImageConfig,
}

/// How far the transfer of a blob is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Which blob.
    pub digest: Digest,
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// A callback for [`Progress`].
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// Talks to registries.
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
        let transport = Transport::new(config.credentials.clone(), &config.authorities, config.connect_timeout, config.read_timeout)?;
        Ok(Self { transport: Arc::new(transport), config: Arc::new(config), on_progress: None, mount_from: None })
    }

    /// The same client that tells how far transfers are.
    #[must_use]
    pub fn with_progress(&self, on_progress: OnProgress) -> Self {
        Self { on_progress: Some(on_progress), ..self.clone() }
    }

    /// The same client that, when it pushes, asks the registry to take blobs over from another of its repositories.
    #[must_use]
    pub fn mounting_from(&self, repository: impl Into<String>) -> Self {
        Self { mount_from: Some(repository.into()), ..self.clone() }
    }

    /// What the reference stands for now, without pulling it.
    pub async fn resolve(&self, reference: &Reference) -> Result<Resolved, Error> {
        let mut attempts = Attempts::default();
        for source in self.config.registries.sources(reference)? {
            match self.head(reference, &source).await {
                Ok((digest, media_type)) => return Ok(Resolved { reference: reference.at(digest.clone()), digest, media_type }),
                Err(error) => attempts.failed(&source, error),
            }
        }
        Err(attempts.into_error(reference))
    }

    /// Pulls the image into the store. Blobs that are there already are not pulled again.
    pub async fn pull(&self, reference: &Reference, store: &BlobStore) -> Result<Image, Error> {
        let mut attempts = Attempts::default();
        for source in self.config.registries.sources(reference)? {
            match self.pull_from(reference, &source, store).await {
                Ok(image) => return Ok(image),
                Err(error) => attempts.failed(&source, error),
            }
        }
        Err(attempts.into_error(reference))
    }

    /// Pushes an image from the store; what the registry has already is not sent again. Gives the manifest's digest.
    pub async fn push(&self, image: &Image, store: &BlobStore, target: &Reference) -> Result<Digest, Error> {
        let source = self.own_place(target)?;
        for blob in image.manifest.layers.iter().chain([&image.manifest.config]) {
            self.push_blob(target, &source, store, blob).await?;
        }
        let bytes = store.read(&image.descriptor.digest, MAX_MANIFEST as u64)?;
        let name = target.tag().unwrap_or_else(|| image.descriptor.digest.as_str());
        let target_path = format!("/v2/{}/manifests/{name}", source.reference.repository());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, header(&image.descriptor.media_type)?);
        self.send(target, &source, Method::PUT, &target_path, headers, Payload::Bytes(&bytes), true).await?;
        Ok(image.descriptor.digest.clone())
    }

    /// The repository's tags.
    pub async fn tags(&self, repository: &Reference) -> Result<Vec<String>, Error> {
        #[derive(serde::Deserialize)]
        struct Tags {
            #[serde(default)]
            tags: Option<Vec<String>>,
        }
        const MAX_PAGES: usize = 1000;
        let source = self.own_place(repository)?;
        let mut tags = Vec::new();
        let mut path = format!("/v2/{}/tags/list", source.reference.repository());
        for _ in 0..MAX_PAGES {
            let response = self.send(repository, &source, Method::GET, &path, HeaderMap::new(), Payload::None, false).await?;
            let next = next_link(response.headers());
            let bytes = small_body(response).await.map_err(|problem| Error::content(repository.name(), problem))?;
            let page: Tags = serde_json::from_slice(&bytes)
                .map_err(|error| Error::content(repository.name(), format!("list of tags cannot be read: {error}")))?;
            tags.extend(page.tags.unwrap_or_default());
            match next {
                Some(next) => path = next,
                None => break,
            }
        }
        Ok(tags)
    }

    /// The repository's own registry, which is what is written to.
    fn own_place(&self, reference: &Reference) -> Result<Source, Error> {
        let sources = self.config.registries.sources(reference)?;
        sources.into_iter().next_back().ok_or_else(|| Error::content(reference.to_string(), "no place to push to"))
    }

    async fn head(&self, reference: &Reference, source: &Source) -> Result<(Digest, String), Error> {
        let path = format!("/v2/{}/manifests/{}", source.reference.repository(), reference.version());
        let answer = self.send(reference, source, Method::HEAD, &path, accepted()?, Payload::None, false).await;
        match answer {
            Ok(response) => {
                let text = |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
                let digest = text(HeaderName::from_static("docker-content-digest")).and_then(|text| text.parse::<Digest>().ok());
                let wanted = reference.digest();
                if let (Some(digest), Some(media_type)) = (digest, text(CONTENT_TYPE))
                    && wanted.is_none_or(|wanted| *wanted == digest)
                {
                    return Ok((digest, media_type));
                }
            }
            // Some registries do not answer HEAD.
            Err(Error::Status { status: 405 | 501, .. }) => {}
            Err(error) => return Err(error),
        }
        let (digest, media_type, _) = self.manifest(reference, source, reference.version(), reference.digest()).await?;
        Ok((digest, media_type))
    }

    /// A manifest's digest, media type and bytes, checked against the digest if one is known.
    async fn manifest(
        &self,
        reference: &Reference,
        source: &Source,
        version: &str,
        expected: Option<&Digest>,
    ) -> Result<(Digest, String, Vec<u8>), Error> {
        let path = format!("/v2/{}/manifests/{version}", source.reference.repository());
        let response = self.send(reference, source, Method::GET, &path, accepted()?, Payload::None, false).await?;
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let bytes =
            body(response, MAX_MANIFEST).await.map_err(|problem| Error::content(reference.to_string(), format!("manifest: {problem}")))?;
        let mut hasher = Hasher::like(expected);
        hasher.update(&bytes);
        let digest = hasher.finish();
        if let Some(expected) = expected {
            check(&format!("{} from {}", reference, source.reference.registry()), expected, digest.clone())?;
        }
        Ok((digest, media_type, bytes))
    }

    async fn pull_from(&self, reference: &Reference, source: &Source, store: &BlobStore) -> Result<Image, Error> {
        let subject = reference.to_string();
        let (digest, media_type, bytes) = self.manifest(reference, source, reference.version(), reference.digest()).await?;
        store.write(&bytes)?;
        let (descriptor, manifest) = match parse(&subject, &bytes)? {
            Document::Image(manifest) => (self.described(&media_type, &manifest, &bytes, &digest), manifest),
            Document::Index(index) => {
                let chosen = index.select(&subject, &self.config.platform)?;
                let (chosen_digest, media_type, bytes) =
                    self.manifest(reference, source, chosen.digest.as_str(), Some(&chosen.digest)).await?;
                store.write(&bytes)?;
                match parse(&subject, &bytes)? {
                    Document::Image(manifest) => (self.described(&media_type, &manifest, &bytes, &chosen_digest), manifest),
                    Document::Index(_) => return Err(Error::content(subject, "an index inside an index is not supported")),
                }
            }
        };
        for blob in std::iter::once(&manifest.config).chain(&manifest.layers) {
            self.pull_blob(reference, source, store, blob).await?;
        }
        let config = read_config(&subject, store, &manifest)?;
        Ok(Image { digest, descriptor, manifest: *manifest, config })
    }

    #[allow(clippy::unused_self)]
    fn described(&self, media_type: &str, manifest: &Manifest, bytes: &[u8], digest: &Digest) -> Descriptor {
        let own = manifest.media_type.as_deref().unwrap_or(media_type);
        Descriptor { digest: digest.clone(), ..Descriptor::of(own, bytes) }
    }

    async fn pull_blob(&self, reference: &Reference, source: &Source, store: &BlobStore, blob: &Descriptor) -> Result<(), Error> {
        let subject = format!("{reference} blob {}", blob.digest);
        if store.has(&blob.digest) {
            self.report(blob, blob.size);
            return Ok(());
        }
        if blob.size > self.config.max_blob {
            return Err(Error::Limit { subject, what: "size of a blob in bytes", limit: self.config.max_blob });
        }
        let path = format!("/v2/{}/blobs/{}", source.reference.repository(), blob.digest);
        let mut response = self.send(reference, source, Method::GET, &path, HeaderMap::new(), Payload::None, false).await?;
        let mut writer = store.writer(&format!("{subject} from {}", source.reference.registry()), Some(&blob.digest))?;
        loop {
            let chunk = response.chunk().await.map_err(|error| Error::Connection {
                subject: subject.clone(),
                registry: source.reference.registry().to_owned(),
                kind: if error.is_timeout() { ErrorKind::Timeout } else { ErrorKind::Unreachable },
                problem: format!("the transfer broke off after {} of {} bytes: {error}", writer.size(), blob.size),
            })?;
            let Some(chunk) = chunk else { break };
            if writer.size() + chunk.len() as u64 > blob.size {
                return Err(Error::content(
                    subject,
                    format!("the registry sends more than the {} bytes that the manifest gives", blob.size),
                ));
            }
            writer.write(&chunk)?;
            self.report(blob, writer.size());
        }
        writer.commit().map(drop)
    }

    async fn push_blob(&self, target: &Reference, source: &Source, store: &BlobStore, blob: &Descriptor) -> Result<(), Error> {
        let repository = source.reference.repository();
        let path = format!("/v2/{repository}/blobs/{}", blob.digest);
        match self.send(target, source, Method::HEAD, &path, HeaderMap::new(), Payload::None, true).await {
            Ok(_) => {
                self.report(blob, blob.size);
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mount = self.mount_from.as_ref().map(|from| format!("?mount={}&from={from}", encoded(&blob.digest))).unwrap_or_default();
        let start = format!("/v2/{repository}/blobs/uploads/{mount}");
        let response = self.send(target, source, Method::POST, &start, HeaderMap::new(), Payload::None, true).await?;
        if response.status() == http::StatusCode::CREATED {
            self.report(blob, blob.size);
            return Ok(());
        }
        let location = response
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok())
            .ok_or_else(|| Error::content(target.to_string(), "the registry gave no place to upload to"))?;
        let location = with_digest(location, &blob.digest);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(blob.size));
        let file = store.path(&blob.digest);
        self.send(target, source, Method::PUT, &location, headers, Payload::File(&file), true).await?;
        self.report(blob, blob.size);
        Ok(())
    }

    fn report(&self, blob: &Descriptor, done: u64) {
        if let Some(on_progress) = &self.on_progress {
            on_progress(Progress { digest: blob.digest.clone(), done, total: blob.size });
        }
    }

    #[allow(clippy::too_many_arguments)]
    async fn send(
        &self,
        reference: &Reference,
        source: &Source,
        method: Method,
        target: &str,
        headers: HeaderMap,
        body: Payload<'_>,
        writes: bool,
    ) -> Result<reqwest::Response, Error> {
        let call = Call {
            host: Host { registry: source.reference.registry(), insecure: source.insecure },
            method,
            target,
            headers,
            body,
            repository: source.reference.repository(),
            writes,
            subject: &reference.to_string(),
        };
        self.transport.send(&call).await
    }
}

/// What the places that may hold an image said, mirrors first.
#[derive(Default)]
struct Attempts(Vec<Error>);

impl Attempts {
    fn failed(&mut self, source: &Source, error: Error) {
        tracing::debug!(%error, source = %source.reference, "image not taken from this place");
        self.0.push(error);
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

/// The configuration of an image whose blobs are in the store.
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

/// The upload's place with the digest that completes it.
fn with_digest(location: &str, digest: &Digest) -> String {
    let separator = if location.contains('?') { '&' } else { '?' };
    format!("{location}{separator}digest={}", encoded(digest))
}

fn encoded(digest: &Digest) -> String {
    digest.as_str().replace(':', "%3A")
}

/// The next page of a list.
fn next_link(headers: &HeaderMap) -> Option<String> {
    let link = headers.get(http::header::LINK)?.to_str().ok()?;
    let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
    parameters.contains("next").then(|| target.to_owned())
}
