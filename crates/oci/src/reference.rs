//! Image references, as Docker and the Kubernetes world write them.

use std::fmt;

use crate::digest::{Digest, InvalidDigest};
use crate::error::Error;

/// Why a text is no image reference, in the usual words of the grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct InvalidReference(String);

const DEFAULT_REGISTRY: &str = "docker.io";
/// Repositories of the default registry without a slash belong to this user.
const OFFICIAL: &str = "library";
const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;

/// `registry/repository[:tag][@digest]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Parses a full reference, as catalogs, extensions and bundles carry it: with its registry. The error reads as
    /// OLM1-GEN-12 wants it.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refuse = |problem: &str| Error::InvalidReference { reference: text.to_owned(), problem: problem.to_owned() };
        let reference = parse(text).map_err(|problem| refuse(&problem.0))?;
        if reference.to_string() == text { Ok(reference) } else { Err(refuse("repository name must be canonical")) }
    }

    /// Parses a reference as people type it: without a registry it means Docker Hub.
    pub fn parse_familiar(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|problem| Error::InvalidReference { reference: text.to_owned(), problem: problem.0 })
    }

    /// Host and port of the registry.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository inside the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if the reference has one.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if the reference has one.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// `registry/repository`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The same repository at that digest.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), tag: None, ..self.clone() }
    }

    /// The same repository at that tag.
    pub fn tagged(&self, tag: &str) -> Result<Self, Error> {
        Self::parse(&format!("{}:{tag}", self.name()))
    }

    /// The same tag and digest in another repository.
    #[must_use]
    pub fn moved(&self, registry: &str, repository: &str) -> Self {
        Self { registry: registry.to_owned(), repository: repository.to_owned(), ..self.clone() }
    }

    /// The version to request from the registry: the digest, or else the tag, or else `latest`.
    pub fn version(&self) -> &str {
        self.digest.as_ref().map_or_else(|| self.tag.as_deref().unwrap_or("latest"), Digest::as_str)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(out, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(out, "@{digest}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

fn parse(text: &str) -> Result<Reference, InvalidReference> {
    if text.len() == 64 && text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c)) {
        return Err(InvalidReference(format!("invalid repository name ({text}), cannot specify 64-byte hexadecimal strings")));
    }
    let (registry, rest) = split_registry(text);
    let (name, digest) = match rest.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (rest, None),
    };
    // A colon after the last slash starts the tag.
    let (repository, tag) = match name.rfind(':').filter(|colon| name.rfind('/').is_none_or(|slash| slash < *colon)) {
        Some(colon) => (&name[..colon], Some(&name[colon + 1..])),
        None => (name, None),
    };
    if repository.chars().any(char::is_uppercase) {
        return Err(InvalidReference(format!("invalid reference format: repository name ({repository}) must be lowercase")));
    }
    let repository = if registry == DEFAULT_REGISTRY && !repository.contains('/') && !repository.is_empty() {
        format!("{OFFICIAL}/{repository}")
    } else {
        repository.to_owned()
    };
    let invalid = || InvalidReference("invalid reference format".to_owned());
    if !valid_registry(registry) || !repository.split('/').all(valid_component) || !tag.is_none_or(valid_tag) {
        return Err(invalid());
    }
    if registry.len() + 1 + repository.len() > MAX_NAME {
        return Err(InvalidReference(format!("repository name must not be more than {MAX_NAME} characters")));
    }
    let digest = match digest {
        None => None,
        // A digest with too few digits does not even have the shape of a digest.
        Some(text) if text.split_once(':').is_none_or(|(_, hex)| hex.len() < 32) => return Err(invalid()),
        Some(text) => Some(text.parse().map_err(|error: InvalidDigest| InvalidReference(error.to_string()))?),
    };
    Ok(Reference { registry: registry.to_owned(), repository, tag: tag.map(str::to_owned), digest })
}

/// Splits off the registry: the part before the first slash, if it looks like a host.
fn split_registry(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" || host.chars().any(char::is_uppercase) => {
            (if host == "index.docker.io" { DEFAULT_REGISTRY } else { host }, rest)
        }
        _ => (DEFAULT_REGISTRY, text),
    }
}

fn valid_registry(registry: &str) -> bool {
    let (host, port) = match registry.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if !address.is_empty() && address.bytes().all(|c| c.is_ascii_hexdigit() || c == b':') => {
                return port.is_empty() || port.strip_prefix(':').is_some_and(valid_port);
            }
            _ => return false,
        },
        None => match registry.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (registry, None),
        },
    };
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'-')
    };
    host.split('.').all(label) && port.is_none_or(valid_port)
}

fn valid_port(port: &str) -> bool {
    !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit())
}

/// Lower-case letters and digits, joined by `.`, `_`, `__` or any number of `-`.
fn valid_component(component: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let ends = component.starts_with(plain) && component.ends_with(plain);
    let separators = component.split(plain).filter(|part| !part.is_empty());
    ends && separators.into_iter().all(|part| matches!(part, "." | "_" | "__") || part.bytes().all(|c| c == b'-'))
}

fn valid_tag(tag: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.len() <= MAX_TAG && tag.starts_with(word) && tag.chars().all(|c| word(c) || c == '.' || c == '-')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// OLM1-GEN-12: references of catalogs and bundles, and the error of those that are none.
    #[test]
    fn references_are_parsed_and_refused() {
        let digest = format!("quay.io/org/catalog@sha256:{HEX}");
        let both = format!("quay.io/org/catalog:v1@sha256:{HEX}");
        for good in ["quay.io/org/catalog:v1", "localhost:5000/a/b", "[::1]:5000/a", "registry.k8s.io/x__y/z--1:T_1.0-a", &digest, &both] {
            assert_eq!(Reference::parse(good).unwrap().to_string(), good);
        }
        let reference = Reference::parse(&both).unwrap();
        assert_eq!((reference.registry(), reference.repository(), reference.tag()), ("quay.io", "org/catalog", Some("v1")));
        assert_eq!(reference.version(), format!("sha256:{HEX}"));

        let long = format!("quay.io/{}", "a".repeat(260));
        for (bad, problem) in [
            ("", "invalid reference format"),
            ("busybox", "repository name must be canonical"),
            ("quay.io/Org/a", "invalid reference format: repository name (Org/a) must be lowercase"),
            ("quay.io/a:", "invalid reference format"),
            ("quay.io/a b", "invalid reference format"),
            ("oci://quay.io/a", "invalid reference format"),
            ("quay.io/sosivio/draingo@", "invalid reference format"),
            ("quay.io/a@sha256:abc", "invalid reference format"),
            ("quay.io/a@md5:e3b0c44298fc1c149afbf4c8996fb924", "unsupported digest algorithm"),
            ("quay.io/a@sha256:e3b0c44298fc1c149afbf4c8996fb924", "invalid checksum digest length"),
            ("quay.io/../a", "invalid reference format"),
            (&long, "repository name must not be more than 255 characters"),
            (
                HEX,
                "invalid repository name (e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855), cannot specify 64-byte hexadecimal strings",
            ),
        ] {
            assert_eq!(Reference::parse(bad).unwrap_err().to_string(), format!("error parsing image reference \"{bad}\": {problem}"));
        }
    }

    #[test]
    fn familiar_names_mean_docker_hub() {
        assert_eq!(Reference::parse_familiar("busybox").unwrap().to_string(), "docker.io/library/busybox");
        assert_eq!(Reference::parse_familiar("org/a:1").unwrap().to_string(), "docker.io/org/a:1");
        assert_eq!(Reference::parse_familiar("index.docker.io/org/a").unwrap().registry(), "docker.io");
    }
}
