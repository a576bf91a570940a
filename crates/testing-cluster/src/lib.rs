//! An embedded cluster in the process of a test: the real API on a folder of its own, without a socket.
//!
//! Controllers under test reach it as the account whose permissions they are meant to have ([`Cluster::Embedded`] with an identity of their
//! own); the test itself is an administrator.
#![allow(clippy::expect_used, clippy::missing_panics_doc, reason = "a test that cannot begin has failed")]

use std::sync::Arc;

use http::Extensions;
use mainstay_apiserver::{Config, Server, TrustedIdentity};
use mainstay_apply::Writer;
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Kinds};
use tempfile::TempDir;
use tracing_subscriber::EnvFilter;

/// The identity that may do everything.
pub fn administrator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::new("admin", &["system:masters"]))));
}

/// A cluster that ends with its server; its folder goes when it is dropped.
#[allow(missing_debug_implementations, reason = "a server has nothing to show")]
pub struct EmbeddedCluster {
    /// Writes as the administrator.
    pub admin: Writer,
    /// The API.
    pub server: Server,
    /// The folder that the cluster is kept in; tests may keep more there.
    pub folder: TempDir,
}

impl EmbeddedCluster {
    /// Starts a cluster that holds only what the API makes for itself. `RUST_LOG` chooses what is logged.
    pub async fn start() -> Self {
        // Tests of one process start several: the first one decides.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let _ = tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_test_writer().try_init();
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::open(Config::local(folder.path().join("cluster"), 6443)).await.expect("an embedded API");
        let client = Cluster::Embedded { router: server.router(), identity: administrator }.client().expect("a client");
        let admin = Writer::new(client.clone(), Kinds::new(client), "test");
        Self { admin, server, folder }
    }
}
