//! Reading from registries: manifests, blobs, tags; whole images of one platform.

use futures::FutureExt as _;
use futures::stream::{StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_RANGE, CONTENT_TYPE, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::{Attempts, Client, Image, MAX_MANIFEST, Resolved, accepted, check_config, header, read_config};
use crate::digest::{Digest, Hasher};
use crate::error::{Error, ErrorKind};
use crate::manifest::{Descriptor, Document, Manifest, media_type, parse};
use crate::pace::Meter;
use crate::reference::Reference;
use crate::registries::Source;
use crate::store::{BlobStore, BlobWriter, check};
use crate::transport::{MAX_SMALL_BODY, Payload, same_origin};

/// Blobs of one image that are fetched at the same time.
const PARALLEL: usize = 3;

/// A manifest or index as a registry gave it.
#[derive(Debug)]
pub(super) struct Fetched {
    pub digest: Digest,
    pub media_type: String,
    pub bytes: Vec<u8>,
}

impl Fetched {
    /// Returns the descriptor of the bytes. Their own media type takes precedence over the registry's.
    pub fn descriptor(&self, own: Option<&str>) -> Descriptor {
        Descriptor { digest: self.digest.clone(), ..Descriptor::of(own.unwrap_or(&self.media_type), &self.bytes) }
    }
}

impl Client {
    /// Returns the digest that the reference stands for now, without pulling it.
    pub async fn resolve(&self, reference: &Reference) -> Result<Resolved, Error> {
        self.within(reference, 0, self.resolve_anywhere(reference)).await
    }

    async fn resolve_anywhere(&self, reference: &Reference) -> Result<Resolved, Error> {
        let mut attempts = Attempts::default();
        for source in self.config.registries.sources(reference)? {
            match self.head(reference, &source).await {
                Ok((digest, media_type)) => return Ok(Resolved { reference: reference.at(digest.clone()), digest, media_type }),
                Err(error) => attempts.failed(&source, error)?,
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
                Err(error) => attempts.failed(&source, error)?,
            }
        }
        Err(attempts.into_error(reference))
    }

    /// Reads the image's manifest and configuration, without its layers: enough to read labels, and to build on it.
    pub async fn inspect(&self, reference: &Reference, store: &BlobStore) -> Result<Image, Error> {
        self.within(reference, 0, self.inspect_anywhere(reference, store)).await
    }

    async fn inspect_anywhere(&self, reference: &Reference, store: &BlobStore) -> Result<Image, Error> {
        let mut attempts = Attempts::default();
        for source in self.config.registries.sources(reference)? {
            match self.inspect_from(reference, &source, store).await {
                Ok(image) => return Ok(image),
                Err(error) => attempts.failed(&source, error)?,
            }
        }
        Err(attempts.into_error(reference))
    }

    /// The repository's tags.
    pub async fn tags(&self, repository: &Reference) -> Result<Vec<String>, Error> {
        self.within(repository, 0, self.all_tags(repository)).await
    }

    async fn all_tags(&self, repository: &Reference) -> Result<Vec<String>, Error> {
        #[derive(serde::Deserialize)]
        struct Tags {
            #[serde(default)]
            tags: Option<Vec<String>>,
        }
        const MAX_PAGES: usize = 1000;
        const MAX_TAGS: usize = 200_000;
        let source = self.own_place(repository)?;
        let mut tags = Vec::new();
        let subject = repository.name();
        let registry = source.reference.registry();
        let refuse = |problem: String| Error::content(&subject, format!("registry {registry}: {problem}"));
        let mut path = format!("/v2/{}/tags/list", source.reference.repository());
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..MAX_PAGES {
            let page = || {
                async {
                    let response = self.send(repository, &source, Method::GET, &path, HeaderMap::new(), Payload::None).await?;
                    let (next, own) = (next_link(&response), response.url().clone());
                    let bytes = self.transport.body(&subject, registry, response, MAX_SMALL_BODY).await?;
                    Ok((next, own, bytes))
                }
                .boxed()
            };
            let (next, own, bytes) = self.config.retry.run(page).await?;
            let page: Tags = serde_json::from_slice(&bytes).map_err(|error| refuse(format!("list of tags cannot be read: {error}")))?;
            tags.extend(page.tags.unwrap_or_default());
            if tags.len() > MAX_TAGS {
                return Err(Error::Limit { subject, what: "number of tags", limit: MAX_TAGS as u64 });
            }
            let Some(next) = next else { return Ok(tags) };
            if !same_origin(&next, &own) {
                return Err(refuse("its list of tags goes on at another host".to_owned()));
            }
            if !seen.insert(next.clone()) {
                return Err(refuse("its list of tags leads back to a page that was read already".to_owned()));
            }
            path = next;
        }
        Err(Error::Limit { subject, what: "number of pages of tags", limit: MAX_PAGES as u64 })
    }

    /// The image's own layers and configuration, of one platform.
    async fn pull_from(&self, reference: &Reference, source: &Source, store: &BlobStore) -> Result<Image, Error> {
        let subject = reference.to_string();
        let known = async {
            let (digest, descriptor, manifest) = self.chosen(reference, source, store).await?;
            manifest.check_layers(&subject)?;
            check_config(&subject, &manifest)?;
            self.pull_blob(reference, source, store, &manifest.config).await?;
            // An invalid configuration is refused before gigabytes are fetched.
            let config = read_config(&subject, store, &manifest)?;
            Ok((digest, descriptor, manifest, config))
        };
        let (digest, descriptor, manifest, config) = self.within(reference, 0, known).await?;
        self.pull_blobs(reference, source, store, &manifest.layers).await?;
        Ok(Image { digest, descriptor, manifest: *manifest, config })
    }

    async fn inspect_from(&self, reference: &Reference, source: &Source, store: &BlobStore) -> Result<Image, Error> {
        let (digest, descriptor, manifest) = self.chosen(reference, source, store).await?;
        check_config(&reference.to_string(), &manifest)?;
        self.pull_blob(reference, source, store, &manifest.config).await?;
        let config = read_config(&reference.to_string(), store, &manifest)?;
        Ok(Image { digest, descriptor, manifest: *manifest, config })
    }

    /// Returns the manifest for our platform, in the store, and the digest that the reference stands for.
    async fn chosen(
        &self,
        reference: &Reference,
        source: &Source,
        store: &BlobStore,
    ) -> Result<(Digest, Descriptor, Box<Manifest>), Error> {
        let subject = reference.to_string();
        let fetched = match reference.digest() {
            Some(digest) => self.manifest_by_digest(reference, source, store, digest).await?,
            None => self.manifest(reference, source, reference.version(), None).await?,
        };
        match parse(&subject, &fetched.bytes)? {
            Document::Image(manifest) => {
                self.permit(reference, source, &fetched.bytes).await?;
                store.write(&fetched.bytes)?;
                Ok((fetched.digest.clone(), fetched.descriptor(manifest.media_type.as_deref()), manifest))
            }
            Document::Index(index) => {
                store.write(&fetched.bytes)?;
                let chosen = index.select(&subject, &self.config.platform)?;
                let inner = self.manifest_by_digest(reference, source, store, &chosen.digest).await?;
                match parse(&subject, &inner.bytes)? {
                    Document::Image(manifest) => {
                        // In an index, the chosen image is the one that must be signed, as with container tools.
                        self.permit(reference, source, &inner.bytes).await?;
                        store.write(&inner.bytes)?;
                        Ok((fetched.digest, inner.descriptor(manifest.media_type.as_deref()), manifest))
                    }
                    Document::Index(_) => Err(Error::content(subject, "an index inside an index is not supported")),
                }
            }
        }
    }

    /// Reads a manifest or index by its digest: from the store if it is there, since content with a digest does not change.
    async fn manifest_by_digest(
        &self,
        reference: &Reference,
        source: &Source,
        store: &BlobStore,
        digest: &Digest,
    ) -> Result<Fetched, Error> {
        if !store.find(digest)? {
            return self.manifest(reference, source, digest.as_str(), Some(digest)).await;
        }
        let bytes = store.read(digest, MAX_MANIFEST as u64)?;
        // Only OCI documents may leave out their media type.
        let media_type = match parse(&reference.to_string(), &bytes)? {
            Document::Image(_) => media_type::OCI_MANIFEST,
            Document::Index(_) => media_type::OCI_INDEX,
        };
        Ok(Fetched { digest: digest.clone(), media_type: media_type.to_owned(), bytes })
    }

    pub(super) async fn head(&self, reference: &Reference, source: &Source) -> Result<(Digest, String), Error> {
        let path = format!("/v2/{}/manifests/{}", source.reference.repository(), reference.version());
        let headers = accepted()?;
        let ask = || self.send(reference, source, Method::HEAD, &path, headers.clone(), Payload::None).boxed();
        match self.config.retry.run(ask).await {
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
        let fetched = self.manifest(reference, source, reference.version(), reference.digest()).await?;
        Ok((fetched.digest, fetched.media_type))
    }

    /// Reads a manifest or index, and checks it against the digest if one is known.
    pub(super) async fn manifest(
        &self,
        reference: &Reference,
        source: &Source,
        version: &str,
        expected: Option<&Digest>,
    ) -> Result<Fetched, Error> {
        let path = format!("/v2/{}/manifests/{version}", source.reference.repository());
        let headers = accepted()?;
        let ask = || {
            async {
                let response = self.send(reference, source, Method::GET, &path, headers.clone(), Payload::None).await?;
                let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
                let bytes = self.transport.body(&reference.to_string(), source.reference.registry(), response, MAX_MANIFEST).await?;
                Ok((media_type, bytes))
            }
            .boxed()
        };
        let (media_type, bytes) = self.config.retry.run(ask).await?;
        if media_type.starts_with("text/html") {
            let registry = source.reference.registry();
            return Err(Error::content(
                reference.to_string(),
                format!("{registry} answered with a web page instead of a manifest; it is no registry, or a proxy stands before it"),
            ));
        }
        let mut hasher = Hasher::like(expected);
        hasher.update(&bytes);
        let digest = hasher.finish();
        if let Some(expected) = expected {
            check(&format!("{} from {}", reference, source.reference.registry()), expected, digest.clone())?;
        }
        Ok(Fetched { digest, media_type, bytes })
    }

    /// Fetches blobs, some at a time.
    pub(super) async fn pull_blobs(
        &self,
        reference: &Reference,
        source: &Source,
        store: &BlobStore,
        blobs: &[Descriptor],
    ) -> Result<(), Error> {
        let size = self.size_of(reference, blobs)?;
        let fetches: Vec<_> = blobs.iter().map(|blob| self.pull_blob(reference, source, store, blob).boxed()).collect();
        self.within(reference, size, futures::stream::iter(fetches).buffer_unordered(PARALLEL).try_collect()).await
    }

    /// Fetches a blob. Bytes from an earlier attempt are not fetched again.
    pub(super) async fn pull_blob(
        &self,
        reference: &Reference,
        source: &Source,
        store: &BlobStore,
        blob: &Descriptor,
    ) -> Result<(), Error> {
        if store.find(&blob.digest)? {
            self.report(blob, blob.size);
            return Ok(());
        }
        if blob.size > self.config.max_blob {
            let subject = format!("{reference} blob {}", blob.digest);
            return Err(Error::Limit { subject, what: "size of a blob in bytes", limit: self.config.max_blob });
        }
        let resumed = store.resume(&blob.digest.to_string(), &blob.digest)?.size() > 0;
        let fetch = || self.pull_blob_once(reference, source, store, blob).boxed();
        match self.config.retry.run(fetch).await {
            // The rest of an earlier attempt, perhaps from a mirror, belonged to other content; it has been removed by now.
            Err(Error::DigestMismatch { .. }) if resumed => self.config.retry.run(fetch).await,
            outcome => outcome,
        }
    }

    async fn pull_blob_once(&self, reference: &Reference, source: &Source, store: &BlobStore, blob: &Descriptor) -> Result<(), Error> {
        let subject = format!("{reference} blob {}", blob.digest);
        let registry = source.reference.registry();
        let mut writer = store.resume(&format!("{subject} from {registry}"), &blob.digest)?;
        if writer.size() > blob.size {
            writer.restart()?;
        }
        let mut ended = Ended::Whole;
        if writer.size() < blob.size || blob.size == 0 {
            ended = self.transfer(reference, source, &mut writer, blob).await?;
        }
        if writer.size() < blob.size && ended == Ended::Early {
            return Err(Error::Connection {
                subject,
                registry: registry.to_owned(),
                kind: ErrorKind::Interrupted,
                problem: format!("the transfer ended after {} of {} bytes", writer.size(), blob.size),
            });
        }
        writer.commit().map(drop)
    }

    async fn transfer(&self, reference: &Reference, source: &Source, writer: &mut BlobWriter, blob: &Descriptor) -> Result<Ended, Error> {
        let subject = format!("{reference} blob {}", blob.digest);
        let path = format!("/v2/{}/blobs/{}", source.reference.repository(), blob.digest);
        let mut headers = HeaderMap::new();
        let offset = writer.size();
        if offset > 0 {
            headers.insert(RANGE, header(&format!("bytes={offset}-"))?);
        }
        let mut response = match self.send(reference, source, Method::GET, &path, headers, Payload::None).await {
            // The registry assumes another length of the blob, or does not support ranges.
            Err(Error::Status { status: 416, .. }) if offset > 0 => {
                self.send(reference, source, Method::GET, &path, HeaderMap::new(), Payload::None).await?
            }
            other => other?,
        };
        let continued = response.status() == StatusCode::PARTIAL_CONTENT && starts_at(response.headers().get(CONTENT_RANGE), offset);
        if !continued {
            if response.status() == StatusCode::PARTIAL_CONTENT {
                return Err(Error::content(subject, "the registry sends another part of the blob than it was asked for"));
            }
            writer.restart()?;
        }
        let announced = if continued { None } else { response.content_length() };
        let mut meter = Meter::new(self.config.pace, blob.size - writer.size().min(blob.size));
        let broke = |kind, done: u64, why: String| {
            let problem = format!("the transfer broke off after {done} of {} bytes: {why}", blob.size);
            Error::connection(&subject, source.reference.registry(), kind, &problem)
        };
        loop {
            let chunk = meter.wait(response.chunk()).await.map_err(|slow| broke(ErrorKind::Timeout, writer.size(), slow.to_string()))?;
            let chunk = chunk.map_err(|error| {
                let kind = if error.is_timeout() { ErrorKind::Timeout } else { ErrorKind::Interrupted };
                broke(kind, writer.size(), error.to_string())
            })?;
            let Some(chunk) = chunk else {
                return Ok(if announced == Some(writer.size()) { Ended::Whole } else { Ended::Early });
            };
            if writer.size() + chunk.len() as u64 > blob.size {
                writer.restart()?;
                return Err(Error::content(
                    subject,
                    format!("the registry sends more than the {} bytes that the manifest gives", blob.size),
                ));
            }
            writer.write(&chunk)?;
            self.report(blob, writer.size());
            meter.came(chunk.len() as u64).map_err(|slow| broke(ErrorKind::Timeout, writer.size(), slow.to_string()))?;
        }
    }
}

/// The end of a transfer that did not break off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// At the length that the registry announced: missing bytes will never come, so the content is another one.
    Whole,
    /// Possibly before its end; the rest can be requested.
    Early,
}

/// Returns true if `Content-Range: bytes 6-10/11` begins at the offset.
fn starts_at(value: Option<&HeaderValue>, offset: u64) -> bool {
    let text = value.and_then(|value| value.to_str().ok()).and_then(|text| text.strip_prefix("bytes "));
    text.and_then(|text| text.split_once('-')).is_some_and(|(start, _)| start.parse() == Ok(offset))
}

/// Returns the address of the next page of a list.
fn next_link(response: &reqwest::Response) -> Option<String> {
    let link = response.headers().get(http::header::LINK)?.to_str().ok()?;
    let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
    parameters.contains("next").then(|| response.url().join(target).ok())?.map(String::from)
}
