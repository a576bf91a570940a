//! Checks of images against the policy about signatures (OLM1-GEN-12), and the places their signatures come from.
//!
//! The policy applies to the requested name; the signatures are looked up at the place that the image was pulled from, which may be a mirror.

use futures::FutureExt as _;
use http::{HeaderMap, Method};

use super::Client;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind};
use crate::manifest::{Descriptor, Document, media_type, parse};
use crate::reference::Reference;
use crate::registries::Source;
use crate::signature::{self, Candidate, MAX_SIGNATURE, MAX_SIGNATURES, SIGSTORE_SIGNATURE, Signature, SignaturePlace, signature_place};
use crate::store::check;
use crate::transport::Payload;

impl Client {
    /// Returns a digest of the policy's current conditions for images with this name, including keys and certificates; `None` if it lets in any
    /// image. A caller that keeps content can tell by it if an image that was let in once still is.
    pub fn conditions(&self, reference: &Reference) -> Result<Option<Digest>, Error> {
        let subject = reference.to_string();
        let unverifiable = |source: Error| Error::Unverifiable { subject: subject.clone(), source: Box::new(source) };
        let Some(policy) = self.config.signatures.policy().map_err(unverifiable)? else { return Ok(None) };
        let name = named(reference).map_err(unverifiable)?;
        Ok(signature::conditions(&name, policy.requirements(&name)))
    }

    /// Refuses an image that the policy does not let in. The policy and all that it names are read again each time.
    pub(super) async fn permit(&self, reference: &Reference, source: &Source, manifest: &[u8]) -> Result<(), Error> {
        let subject = reference.to_string();
        let unverifiable = |source: Error| Error::Unverifiable { subject: subject.clone(), source: Box::new(source) };
        let Some(policy) = self.config.signatures.policy().map_err(unverifiable)? else { return Ok(()) };
        let image = Candidate { intended: named(reference).map_err(unverifiable)?, manifest };
        let mut signatures = None;
        for requirement in policy.requirements(&image.intended) {
            if requirement.needs_signatures() && signatures.is_none() {
                signatures = Some(self.signatures(&subject, source, &Digest::of(manifest)).await.map_err(unverifiable)?);
            }
            let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default();
            signature::check(requirement, &image, signatures.as_deref().unwrap_or_default(), now).map_err(|problem| Error::Rejected {
                subject: subject.clone(),
                policy: policy.subject().to_owned(),
                problem,
            })?;
        }
        Ok(())
    }

    /// Returns all signatures of a manifest, still unverified: those in the separate store, and those beside the image.
    async fn signatures(&self, subject: &str, source: &Source, manifest: &Digest) -> Result<Vec<Signature>, Error> {
        let files = &self.config.signatures;
        let places = files.places()?;
        let place = named(&source.reference)?;
        let lookaside = match (places.lookaside(&place), &files.lookaside) {
            (Some(base), _) => Some(base.to_owned()),
            (None, Some(folder)) => Some(format!("file://{}", folder.display())),
            (None, None) => None,
        };
        let mut found = Vec::new();
        if let Some(base) = lookaside {
            self.read_lookaside(subject, &base, &place, manifest, &mut found).await?;
        }
        if places.attachments(&place) {
            self.read_attachments(source, manifest, &mut found).await?;
        }
        Ok(found)
    }

    /// Reads the signatures in a separate store, which are numbered without a gap.
    async fn read_lookaside(
        &self,
        subject: &str,
        base: &str,
        place: &Reference,
        manifest: &Digest,
        found: &mut Vec<Signature>,
    ) -> Result<(), Error> {
        for number in 1..=MAX_SIGNATURES + 1 {
            let at =
                signature_place(base, place, manifest, number).map_err(|problem| Error::content("registries.d", problem.to_string()))?;
            let (name, bytes) = match at {
                SignaturePlace::File(path) => (path.display().to_string(), signature::read_if_there(&path)?),
                SignaturePlace::Url(url) => (url.to_string(), self.read_url(subject, &url).await?),
            };
            let Some(bytes) = bytes else { return Ok(()) };
            if number > MAX_SIGNATURES {
                break;
            }
            found.push(
                Signature::parse(&bytes).map_err(|problem| Error::content(format!("parsing signature {name}"), problem.to_string()))?,
            );
        }
        Err(too_many(base))
    }

    async fn read_url(&self, subject: &str, url: &reqwest::Url) -> Result<Option<Vec<u8>>, Error> {
        let ask = || {
            async {
                let Some(response) = self.transport.get(url, subject).await? else { return Ok(None) };
                let registry = url.host_str().unwrap_or_default();
                self.transport.body(&format!("signature {url}"), registry, response, MAX_SIGNATURE).await.map(Some)
            }
            .boxed()
        };
        self.config.retry.run(ask).await
    }

    /// Reads the signatures beside the image, under a tag made of its digest.
    async fn read_attachments(&self, source: &Source, manifest: &Digest, found: &mut Vec<Signature>) -> Result<(), Error> {
        let tag = format!("{}-{}.sig", manifest.algorithm(), manifest.hex());
        let place = source.reference.tagged(&tag)?;
        let fetched = match self.manifest(&place, source, &tag, None).await {
            Ok(fetched) => fetched,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let subject = place.to_string();
        let Document::Image(attached) = parse(&subject, &fetched.bytes)? else {
            let problem = format!("unexpected MIME type for sigstore attachment manifest: \"{}\"", media_type::OCI_INDEX);
            return Err(Error::content(subject, problem));
        };
        if attached.layers.len() > MAX_SIGNATURES {
            return Err(too_many(&subject));
        }
        for layer in &attached.layers {
            // Attestations and the like lie there too; only their presence matters.
            let payload = if layer.media_type == SIGSTORE_SIGNATURE { self.small_blob(&place, source, layer).await? } else { Vec::new() };
            found.push(Signature::attached(&layer.media_type, payload, layer.annotations.clone()));
        }
        Ok(())
    }

    /// Reads a blob that fits into memory, checked against its digest.
    async fn small_blob(&self, place: &Reference, source: &Source, blob: &Descriptor) -> Result<Vec<u8>, Error> {
        let subject = format!("{place} blob {}", blob.digest);
        if blob.size > MAX_SIGNATURE as u64 {
            return Err(Error::Limit { subject, what: "size of a signature in bytes", limit: MAX_SIGNATURE as u64 });
        }
        let path = format!("/v2/{}/blobs/{}", source.reference.repository(), blob.digest);
        let ask = || {
            async {
                let response = self.send(place, source, Method::GET, &path, HeaderMap::new(), Payload::None).await?;
                self.transport.body(&subject, source.reference.registry(), response, MAX_SIGNATURE).await
            }
            .boxed()
        };
        let bytes = self.config.retry.run(ask).await?;
        check(&subject, &blob.digest, blob.digest.of_same_kind(&bytes))?;
        Ok(bytes)
    }
}

/// Returns the name that policies use: with a digest the tag is ignored, and without both the tag is `latest`.
fn named(reference: &Reference) -> Result<Reference, Error> {
    match (reference.digest(), reference.tag()) {
        (Some(digest), _) => Ok(reference.at(digest.clone())),
        (None, Some(_)) => Ok(reference.clone()),
        (None, None) => reference.tagged(reference.version()),
    }
}

fn too_many(subject: &str) -> Error {
    Error::Limit { subject: subject.to_owned(), what: "number of signatures", limit: MAX_SIGNATURES as u64 }
}
