//! The listener of a registry: plain text, until it is told to stop.

use std::net::SocketAddr;
use std::time::Duration;

use mainstay_catalog_store::StoredCatalog;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::api::experimental_registry_server::ExperimentalRegistryServer;
use super::api::registry_server::RegistryServer;
use super::health::Healthy;
use super::{DESCRIPTORS, Registry};
use crate::ServeError;

/// Streams open at once on one connection.
const STREAMS: u32 = 250;
/// Largest request, in bytes; the longest has three names.
const REQUEST_BYTES: usize = 64 * 1024;

/// Options of the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Time for answers in flight to end after the stop was requested.
    pub drain: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { drain: Duration::from_secs(10) }
    }
}

/// A bound port that is not yet served.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds an address; port 0 picks a free one.
    pub async fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen { address, source };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        Ok(Self { tcp, address })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves a catalog until `stop`, then lets answers in flight end.
pub async fn serve_registry(
    catalog: StoredCatalog,
    listener: Listener,
    options: Options,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let registry = Registry::new(catalog);
    let answers = Server::builder()
        .max_concurrent_streams(STREAMS)
        .http2_max_pending_accept_reset_streams(Some(64))
        .http2_keepalive_interval(Some(Duration::from_secs(60)))
        .http2_keepalive_timeout(Some(Duration::from_secs(20)))
        .add_service(RegistryServer::new(registry.clone()).max_decoding_message_size(REQUEST_BYTES))
        .add_service(ExperimentalRegistryServer::new(registry).max_decoding_message_size(REQUEST_BYTES))
        .add_service(tonic_health::pb::health_server::HealthServer::new(Healthy))
        .add_service(reflection().build_v1().map_err(Box::new)?)
        .add_service(reflection().build_v1alpha().map_err(Box::new)?)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener.tcp).with_nodelay(Some(true)), stop.clone().cancelled_owned());
    tokio::select! {
        ended = answers => Ok(ended?),
        () = async {
            stop.cancelled().await;
            tokio::time::sleep(options.drain).await;
        } => {
            tracing::warn!("registry: answers in flight were cut off");
            Ok(())
        }
    }
}

fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
        .include_reflection_service(false)
}
