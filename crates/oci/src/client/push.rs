//! Writing to registries: blobs by mount, in one piece or in resumable chunks; manifests and indexes; deletion.

use std::path::Path;

use futures::FutureExt as _;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::{Client, Image, MAX_MANIFEST, header};
use crate::build::ImageIndex;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind};
use crate::manifest::Descriptor;
use crate::reference::Reference;
use crate::registries::Source;
use crate::store::BlobStore;
use crate::transport::Payload;

/// One upload of one blob.
struct Upload<'a> {
    target: &'a Reference,
    source: &'a Source,
    blob: &'a Descriptor,
    file: &'a Path,
}

impl Client {
    /// Pushes an image from the store; content that the registry already has is not sent again. Returns the manifest's digest.
    pub async fn push(&self, image: &Image, store: &BlobStore, target: &Reference) -> Result<Digest, Error> {
        self.push_built(image, store, target, &[]).await
    }

    /// Pushes an image of which the store lacks blobs, such as one built on a base. The missing blobs are mounted from the repositories `origins`,
    /// or fetched from them.
    pub async fn push_built(&self, image: &Image, store: &BlobStore, target: &Reference, origins: &[Reference]) -> Result<Digest, Error> {
        let source = self.own_place(target)?;
        self.push_image(image, store, target, &source, origins).await?;
        let version = target.tag().unwrap_or_else(|| image.descriptor.digest.as_str());
        self.put_manifest(target, &source, store, &image.descriptor, version).await?;
        Ok(image.descriptor.digest.clone())
    }

    /// Pushes the images of an index by digest, and the index under the target's tag. Returns the index's digest.
    pub async fn push_index(
        &self,
        index: &ImageIndex,
        store: &BlobStore,
        target: &Reference,
        origins: &[Reference],
    ) -> Result<Digest, Error> {
        let source = self.own_place(target)?;
        for image in &index.images {
            self.push_image(image, store, target, &source, origins).await?;
            self.put_manifest(target, &source, store, &image.descriptor, image.descriptor.digest.as_str()).await?;
        }
        let version = target.tag().unwrap_or_else(|| index.descriptor.digest.as_str());
        self.put_manifest(target, &source, store, &index.descriptor, version).await?;
        Ok(index.descriptor.digest.clone())
    }

    /// Fetches the blobs of a built image that the store lacks, from `origins`.
    pub async fn gather(&self, image: &Image, store: &BlobStore, origins: &[Reference]) -> Result<(), Error> {
        for blob in image.manifest.layers.iter().chain([&image.manifest.config]) {
            self.obtain(store, blob, origins).await?;
        }
        Ok(())
    }

    /// Deletes a manifest by its digest, with the tags that name it. Not every registry allows this.
    pub async fn delete(&self, reference: &Reference) -> Result<(), Error> {
        let source = self.own_place(reference)?;
        let path = format!("/v2/{}/manifests/{}", source.reference.repository(), reference.version());
        self.config.retry.run(|| self.send(reference, &source, Method::DELETE, &path, HeaderMap::new(), Payload::None).boxed()).await?;
        Ok(())
    }

    async fn push_image(
        &self,
        image: &Image,
        store: &BlobStore,
        target: &Reference,
        source: &Source,
        origins: &[Reference],
    ) -> Result<(), Error> {
        for blob in image.manifest.layers.iter().chain([&image.manifest.config]) {
            self.push_blob(target, source, store, blob, origins).await?;
        }
        Ok(())
    }

    /// Stores a manifest whose bytes are in the store under a tag or its digest.
    pub(super) async fn put_manifest(
        &self,
        target: &Reference,
        source: &Source,
        store: &BlobStore,
        descriptor: &Descriptor,
        version: &str,
    ) -> Result<(), Error> {
        let bytes = store.read(&descriptor.digest, MAX_MANIFEST as u64)?;
        let path = format!("/v2/{}/manifests/{version}", source.reference.repository());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, header(&descriptor.media_type)?);
        let put = || self.send(target, source, Method::PUT, &path, headers.clone(), Payload::Bytes(&bytes)).boxed();
        self.config.retry.run(put).await?;
        Ok(())
    }

    /// Returns true if the repository already has the manifest.
    pub(super) async fn has_manifest(&self, target: &Reference, source: &Source, digest: &Digest) -> Result<bool, Error> {
        let path = format!("/v2/{}/manifests/{digest}", source.reference.repository());
        let headers = super::accepted()?;
        let ask = || self.send(target, source, Method::HEAD, &path, headers.clone(), Payload::None).boxed();
        match self.config.retry.run(ask).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that the repository has the blob.
    pub(super) async fn push_blob(
        &self,
        target: &Reference,
        source: &Source,
        store: &BlobStore,
        blob: &Descriptor,
        origins: &[Reference],
    ) -> Result<(), Error> {
        self.config.retry.run(|| self.push_blob_once(target, source, store, blob, origins).boxed()).await?;
        self.report(blob, blob.size);
        Ok(())
    }

    async fn push_blob_once(
        &self,
        target: &Reference,
        source: &Source,
        store: &BlobStore,
        blob: &Descriptor,
        origins: &[Reference],
    ) -> Result<(), Error> {
        let repository = source.reference.repository();
        let path = format!("/v2/{repository}/blobs/{}", blob.digest);
        match self.send_writing(target, source, Method::HEAD, &path, HeaderMap::new(), Payload::None).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut place = None;
        for origin in self.mountable(source, origins)? {
            match self.mount(target, source, blob, &origin).await? {
                Mount::Done => return Ok(()),
                Mount::Upload(location) => place = Some(location),
                Mount::Refused => {}
            }
        }
        self.obtain(store, blob, origins).await?;
        let location = if let Some(location) = place {
            location
        } else {
            let start = format!("/v2/{repository}/blobs/uploads/");
            location_of(target, &self.send_writing(target, source, Method::POST, &start, HeaderMap::new(), Payload::None).await?)?
        };
        let file = store.path(&blob.digest);
        let upload = Upload { target, source, blob, file: &file };
        if blob.size <= self.config.chunk {
            self.upload_whole(&upload, &location).await
        } else {
            self.upload_chunks(&upload, location).await
        }
    }

    /// Returns the repositories of the target's registry that may have a blob.
    fn mountable(&self, target: &Source, origins: &[Reference]) -> Result<Vec<String>, Error> {
        let mut repositories: Vec<String> = self.mount_from.iter().cloned().collect();
        for origin in origins {
            for place in self.config.registries.sources(origin)? {
                if place.reference.registry() == target.reference.registry() {
                    repositories.push(place.reference.repository().to_owned());
                }
            }
        }
        repositories.retain(|repository| repository != target.reference.repository());
        Ok(repositories)
    }

    async fn mount(&self, target: &Reference, source: &Source, blob: &Descriptor, from: &str) -> Result<Mount, Error> {
        let path = format!("/v2/{}/blobs/uploads/?mount={}&from={from}", source.reference.repository(), encoded(&blob.digest));
        let call = self.call(target, source, Method::POST, &path, HeaderMap::new(), Payload::None).mounting(from);
        match self.transport.send(&call).await {
            Ok(response) if response.status() == StatusCode::CREATED => Ok(Mount::Done),
            Ok(response) => location_of(target, &response).map(Mount::Upload),
            // Without access to the other repository, or in a registry that does not mount, the blob is uploaded.
            Err(Error::Status { status: 400..=405, .. }) => Ok(Mount::Refused),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that the blob is in the store, and fetches it from the base's repositories if needed.
    async fn obtain(&self, store: &BlobStore, blob: &Descriptor, origins: &[Reference]) -> Result<(), Error> {
        if store.find(&blob.digest)? {
            return Ok(());
        }
        let mut last = Error::content(format!("blob {}", blob.digest), "is neither here nor is it known where to get it");
        for origin in origins {
            for place in self.config.registries.sources(origin)? {
                match self.pull_blob(origin, &place, store, blob).await {
                    Ok(()) => return Ok(()),
                    Err(error) => last = error,
                }
            }
        }
        Err(last)
    }

    async fn upload_whole(&self, upload: &Upload<'_>, location: &str) -> Result<(), Error> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(upload.blob.size));
        let payload = Payload::File { path: upload.file, offset: 0, length: upload.blob.size };
        self.send_writing(upload.target, upload.source, Method::PUT, &with_digest(location, &upload.blob.digest), headers, payload).await?;
        Ok(())
    }

    /// Sends one chunk after another. After a failure it asks the registry for the received size, and sends the rest.
    async fn upload_chunks(&self, upload: &Upload<'_>, mut location: String) -> Result<(), Error> {
        let (mut offset, mut failures) = (0, 0);
        while offset < upload.blob.size {
            let length = self.config.chunk.min(upload.blob.size - offset);
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
            headers.insert(CONTENT_RANGE, header(&format!("{offset}-{}", offset + length - 1))?);
            let payload = Payload::File { path: upload.file, offset, length };
            match self.send_writing(upload.target, upload.source, Method::PATCH, &location, headers, payload).await {
                Ok(response) => {
                    location = location_of(upload.target, &response)?;
                    offset += length;
                    failures = 0;
                    self.report(upload.blob, offset);
                }
                Err(error) => {
                    failures += 1;
                    let Some(wait) = self.config.retry.wait(failures, &error) else { return Err(error) };
                    tokio::time::sleep(wait).await;
                    let asked =
                        self.send_writing(upload.target, upload.source, Method::GET, &location, HeaderMap::new(), Payload::None).await;
                    // If the registry no longer knows the upload, the caller restarts it.
                    let Ok(response) = asked else { return Err(error) };
                    offset = received(response.headers());
                    if let Ok(next) = location_of(upload.target, &response) {
                        location = next;
                    }
                }
            }
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
        let target = with_digest(&location, &upload.blob.digest);
        self.send_writing(upload.target, upload.source, Method::PUT, &target, headers, Payload::None).await?;
        Ok(())
    }
}

/// Result of a request to mount a blob.
enum Mount {
    Done,
    /// It wants the content.
    Upload(String),
    Refused,
}

fn location_of(target: &Reference, response: &reqwest::Response) -> Result<String, Error> {
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let whole = location.and_then(|location| response.url().join(location).ok());
    whole.map(String::from).ok_or_else(|| Error::content(target.to_string(), "the registry gave no place to upload to"))
}

/// Bytes of an upload that the registry has: `Range: 0-99` means 100. The empty upload is `0-0` as well, so a single byte counts as none.
fn received(headers: &HeaderMap) -> u64 {
    let range = headers.get(RANGE).and_then(|value| value.to_str().ok());
    let last: Option<u64> = range.and_then(|text| text.trim_start_matches("bytes=").split_once('-')?.1.parse().ok());
    match last {
        None | Some(0) => 0,
        Some(last) => last.saturating_add(1),
    }
}

/// Returns the address of the upload with the digest that completes it.
fn with_digest(location: &str, digest: &Digest) -> String {
    let separator = if location.contains('?') { '&' } else { '?' };
    format!("{location}{separator}digest={}", encoded(digest))
}

fn encoded(digest: &Digest) -> String {
    digest.as_str().replace(':', "%3A")
}
