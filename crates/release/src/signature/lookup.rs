//! Places of signatures, and how messages name them (CVO-SIG-05 to CVO-SIG-07).

use std::fmt;
use std::path::PathBuf;

use mainstay_golang::{quote, url};

use super::digest::ReleaseDigest;
use super::store::{LABEL, NAMESPACE};

/// The most signatures of one release in one store; they are numbered from 1.
pub const MAX_SIGNATURES: usize = 9;
/// The largest signature, in bytes.
pub const MAX_SIGNATURE: usize = 50 << 10;

/// Where a store lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    /// Below a URL.
    Web(url::Url),
    /// Below a folder.
    Folder(PathBuf),
}

impl StoreAddress {
    /// Reads a URL of scheme `http`, `https` or `file`.
    pub fn parse(text: &str) -> Option<Self> {
        let url = url::parse(text).ok()?;
        match url.scheme.as_str() {
            "http" | "https" => Some(Self::Web(url)),
            "file" => Some(Self::Folder(url.path.into())),
            _ => None,
        }
    }

    /// The place of a signature below a URL.
    pub fn signature_url(base: &url::Url, digest: &ReleaseDigest, number: usize) -> url::Url {
        let path = format!("{}/{}/signature-{number}", base.path, digest.divided_by('='));
        url::Url { path: clean(&path), ..base.clone() }
    }

    /// The place of a signature below a folder.
    pub fn signature_file(base: &std::path::Path, digest: &ReleaseDigest, number: usize) -> PathBuf {
        base.join(digest.divided_by('=')).join(format!("signature-{number}"))
    }
}

/// Removes empty parts and dots of a path that begins with `/`, as Go's `path.Join` does.
fn clean(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web(url) => write!(out, "containers/image signature store under {url}"),
            Self::Folder(path) => write!(out, "file://{}", path.display()),
        }
    }
}

/// A place, or several, in which signatures are looked for, by the name that messages have for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureStore {
    /// The cluster's ConfigMaps.
    ConfigMaps,
    /// `spec.signatureStores` of the ClusterVersion; `None` if it is not set.
    Custom(Option<Vec<String>>),
    /// One store of the release.
    One(StoreAddress),
    /// Several that are asked at the same time.
    Parallel(Vec<SignatureStore>),
    /// Several that are asked one after the other.
    Serial(Vec<SignatureStore>),
}

impl fmt::Display for SignatureStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |out: &mut fmt::Formatter<'_>, how: &str, stores: &[Self]| {
            let names: Vec<String> = stores.iter().map(ToString::to_string).collect();
            let names = if names.is_empty() { "no stores".to_owned() } else { names.join(", ") };
            write!(out, "{how} signature store wrapping {names}")
        };
        match self {
            Self::ConfigMaps => write!(out, "config maps in {NAMESPACE} with label {}", quote(LABEL)),
            Self::Custom(None) => out.write_str("ClusterVersion signatureStores unset, falling back to default stores"),
            Self::Custom(Some(urls)) if urls.is_empty() => out.write_str("0 ClusterVersion signatureStores"),
            Self::Custom(Some(urls)) => write!(out, "ClusterVersion signatureStores: {}", urls.join(", ")),
            Self::One(store) => store.fmt(out),
            Self::Parallel(stores) => list(out, "parallel", stores),
            Self::Serial(stores) => list(out, "serial", stores),
        }
    }
}

/// A place that holds no more signatures of a release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// A store as a whole.
    #[error("{0}: no more signatures to check")]
    Store(SignatureStore),
    /// A ConfigMap.
    #[error("prefix {prefix} in config map {name}: no more signatures to check")]
    ConfigMap {
        /// The beginning of the keys.
        prefix: String,
        /// The ConfigMap.
        name: String,
    },
    /// A URL.
    #[error("unable to retrieve signature from {0}: no more signatures to check")]
    Url(String),
    /// `spec.signatureStores` has no entry.
    #[error(
        "ClusterVersion spec.signatureStores is an empty array.  Unset signatureStores entirely if you want to to enable the default signature stores."
    )]
    NoCustom,
    /// No store of `spec.signatureStores` has a valid signature.
    #[error("ClusterVersion spec.signatureStores exhausted without finding a valid signature.")]
    Custom,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-SIG-05: where the signatures of a digest lie in a store.
    #[test]
    fn places() {
        let digest = ReleaseDigest::parse("sha256:ab").unwrap();
        for (store, expected) in [
            ("https://a.example", "https://a.example/sha256=ab/signature-1"),
            ("https://a.example/x/", "https://a.example/x/sha256=ab/signature-1"),
            ("http://a.example:80/x/../y?token=1", "http://a.example:80/y/sha256=ab/signature-1?token=1"),
        ] {
            let StoreAddress::Web(base) = StoreAddress::parse(store).unwrap() else { panic!("{store}") };
            assert_eq!(StoreAddress::signature_url(&base, &digest, 1).to_string(), expected);
        }
        let StoreAddress::Folder(base) = StoreAddress::parse("file:///var/a").unwrap() else { panic!("a folder") };
        assert_eq!(StoreAddress::signature_file(&base, &digest, 9), PathBuf::from("/var/a/sha256=ab/signature-9"));
        assert_eq!(StoreAddress::parse("s3://a"), None);
        assert_eq!(StoreAddress::parse("a"), None);
    }

    /// CVO-SIG-09: how messages name the stores.
    #[test]
    fn names() {
        let one = SignatureStore::One(StoreAddress::parse("https://a.example").unwrap());
        let inner = SignatureStore::Serial(vec![SignatureStore::Custom(None), SignatureStore::Parallel(vec![one])]);
        assert_eq!(
            Exhausted::Store(SignatureStore::Serial(vec![SignatureStore::ConfigMaps, inner])).to_string(),
            "serial signature store wrapping config maps in openshift-config-managed with label \"release.openshift.io/verification-signatures\", \
             serial signature store wrapping ClusterVersion signatureStores unset, falling back to default stores, \
             parallel signature store wrapping containers/image signature store under https://a.example: no more signatures to check"
        );
        assert_eq!(SignatureStore::Custom(Some(Vec::new())).to_string(), "0 ClusterVersion signatureStores");
        assert_eq!(SignatureStore::Parallel(Vec::new()).to_string(), "parallel signature store wrapping no stores");
    }
}
