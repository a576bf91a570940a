//! Where releases come from, and what speaks for them.

use futures::future::BoxFuture;
use mainstay_release::{Files, Manifest};

use crate::RetrieveError;

/// The places of releases. They may be slow and hostile: the operator limits the time, the implementation the bytes.
pub trait Releases: Send + Sync {
    /// Reads the two folders of a release image.
    fn files<'a>(&'a self, image: &'a str) -> BoxFuture<'a, Result<Files, RetrieveError>>;

    /// Checks that the image is genuine, by the keys that the running release holds (CVO-SIG-01).
    fn verify<'a>(&'a self, question: Genuine<'a>) -> BoxFuture<'a, Result<(), RetrieveError>>;
}

/// The question whether an image is genuine.
#[derive(Clone, Copy, Debug)]
pub struct Genuine<'a> {
    /// The pullspec.
    pub image: &'a str,
    /// The manifests of the running release.
    pub running: &'a [Manifest],
    /// `spec.signatureStores` of the ClusterVersion, if it is set.
    pub stores: Option<&'a [mainstay_api::config_v1::SignatureStore]>,
}
