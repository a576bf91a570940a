//! Sources of releases, and the proof that they are genuine.

use futures::future::BoxFuture;
use jiff::Timestamp;
use mainstay_cluster_version_core::wanted::Wanted;
use mainstay_oci::OutboundConfig;
use mainstay_release::signature::SignatureConfigMap;
use mainstay_release::{Files, Manifest};
use mainstay_release_source::signature::CustomStore;
use serde_json::Value;
use tokio::time::Instant;

use crate::RetrieveError;

/// The places of releases. They may be slow and hostile: the operator limits the time, the implementation the bytes.
pub trait Releases: Send + Sync {
    /// Reads the two folders of a release image. A source that has words of its own for a lack of time gives up at the deadline; the operator
    /// waits a moment longer.
    fn files<'a>(&'a self, wanted: &'a Wanted, deadline: Instant) -> BoxFuture<'a, Result<Files, RetrieveError>>;

    /// Checks that the image is genuine, by the keys that the running release holds (CVO-SIG-01).
    fn verify<'a>(&'a self, question: Genuine<'a>) -> BoxFuture<'a, Result<Proof, RetrieveError>>;

    /// The ConfigMap with the signatures of what was verified, for later starts without a network (CVO-SIG-08).
    fn verified(&self) -> Option<Value>;
}

/// The proof that a release is genuine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Signatures satisfy every keyring.
    Signed,
    /// The release was named when this program was started, and has no signature.
    Given,
}

/// The question whether an image is genuine.
#[derive(Clone, Copy, Debug)]
pub struct Genuine<'a> {
    /// The pullspec.
    pub image: &'a str,
    /// The pullspec of the running release.
    pub by: &'a str,
    /// The manifests of the running release.
    pub running: &'a [Manifest],
    /// The signatures in ConfigMaps of the cluster.
    pub config_maps: &'a [SignatureConfigMap],
    /// `spec.signatureStores` of the ClusterVersion, if it is set.
    pub stores: Option<&'a [CustomStore]>,
    /// Proxies and authorities of requests.
    pub outbound: &'a OutboundConfig,
    /// The time.
    pub now: Timestamp,
}
