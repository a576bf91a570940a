//! The listeners of `mainstay run`: health, metrics, catalogs and their webhook (OLM1-GEN-05, OLM1-GEN-09, OLM0-MET-03).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use mainstay_runtime::Env;
use mainstay_serve::{Authorities, Certificates, ClientCertificates, Limits, Server, Tls};
use mainstay_terminal::errors::Failure;
use tokio_util::sync::CancellationToken;

use super::flags::Webhook;
use super::health::{self, Health};

/// Interval at which certificate files are checked.
const LOOK: Duration = Duration::from_secs(5);
/// Limit for the head of a request for a catalog, or to the webhook, to arrive (OLM1-CAT-18).
const READ: Duration = Duration::from_secs(5);
/// Limit for the reader of an answer to a probe or to Prometheus to accept it.
const WRITE: Duration = Duration::from_secs(10);
/// Connections to the webhook at once: API servers, and any other client that finds it.
const CALLERS: usize = 128;

/// A serving certificate, read again when its files change.
pub fn certificates(
    flags: &'static str,
    files: Option<&(PathBuf, PathBuf)>,
    env: &Env,
    stop: &CancellationToken,
) -> Result<Option<Certificates>, Failure> {
    let Some((chain, key)) = files else { return Ok(None) };
    let certificates =
        Certificates::from_files(chain, key).map_err(|error| Failure::of(mainstay_terminal::errors::Exit::Usage, flags, &error))?;
    env.metrics().certificate_read(true);
    let env = env.clone();
    let on_read = move |succeeded| env.metrics().certificate_read(succeeded);
    tokio::spawn(certificates.clone().follow_files(chain.clone(), key.clone(), LOOK, stop.clone(), on_read));
    Ok(Some(certificates))
}

/// Serves `/healthz` and `/readyz`.
pub async fn health(address: Option<&SocketAddr>, health: Arc<Health>, stop: &CancellationToken) -> Result<(), Failure> {
    let Some(address) = address else { return Ok(()) };
    let server = bind("--health-probe-bind-address", *address).await?;
    tracing::info!(address = %server.address(), "health is served");
    tokio::spawn(server.limits(few()).without_http2().run(health::router(health), stop.clone()));
    Ok(())
}

/// The listener of the pages for administrators.
#[derive(Debug)]
pub struct Operations<'a> {
    /// The flag that names the address.
    pub flag: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    /// True if no flag names the address: the process goes on without it, as OLM's own do.
    pub is_default: bool,
    /// The serving certificate.
    pub certificates: Option<&'a Certificates>,
    /// The authorities of client certificates.
    pub client_ca: Option<&'a PathBuf>,
}

/// Serves the pages for administrators of this process: metrics, and log levels.
pub async fn operations(wanted: Option<Operations<'_>>, router: Router, stop: &CancellationToken) -> Result<(), Failure> {
    let Some(Operations { flag, address, is_default, certificates, client_ca }) = wanted else { return Ok(()) };
    let clients = match client_ca {
        None => ClientCertificates::Ignored,
        Some(file) => {
            let authorities = Authorities::from_file(file)
                .map_err(|error| Failure::of(mainstay_terminal::errors::Exit::Usage, format!("--client-ca, {}", file.display()), &error))?;
            tokio::spawn(authorities.clone().follow_file(file.clone(), LOOK, stop.clone()));
            ClientCertificates::Verified(authorities)
        }
    };
    let server = match bind(flag, address).await {
        Err(failure) if is_default => {
            tracing::error!("metrics are not served: {}", failure.to_line());
            return Ok(());
        }
        bound => secured_for(bound?, certificates, clients)?,
    };
    tracing::info!(address = %server.address(), "metrics are served");
    tokio::spawn(server.limits(few()).without_http2().run(router, stop.clone()));
    Ok(())
}

/// Serves the webhook of catalogs (OLM1-CAT-03); `usual` is the certificate of everything else.
pub async fn webhook(wanted: Option<&Webhook>, usual: Option<&Certificates>, env: &Env, stop: &CancellationToken) -> Result<(), Failure> {
    let Some(Webhook { address, tls }) = wanted else { return Ok(()) };
    let own = certificates("--webhook-tls-cert, --webhook-tls-key", tls.as_ref(), env, stop)?;
    let server = secured(bind("--webhook-server-port", *address).await?, own.as_ref().or(usual))?;
    tracing::info!(address = %server.address(), "the webhook of catalogs is served");
    let limits = Limits { connections: CALLERS, write_stall: WRITE, ..reading() };
    let router = mainstay_olm_v1::catalog::webhook::router(env.metrics());
    tokio::spawn(server.without_http2().limits(limits).run(router, stop.clone()));
    Ok(())
}

/// The listener of catalogs, bound; only a leader opens it.
pub async fn catalogs(address: SocketAddr, certificates: Option<&Certificates>) -> Result<Server, Failure> {
    let server = bind("--catalogs-server-addr", address).await?;
    Ok(secured(server, certificates)?.limits(reading()))
}

/// Limits for a few small requests of probes and of Prometheus: slow, large or many requests cost little.
fn few() -> Limits {
    Limits { connections: 64, handshake: READ, header_read: READ, write_stall: WRITE, buffer_bytes: 16 * 1024, ..Limits::default() }
}

fn reading() -> Limits {
    Limits { header_read: READ, ..Limits::default() }
}

fn secured(server: Server, certificates: Option<&Certificates>) -> Result<Server, Failure> {
    secured_for(server, certificates, ClientCertificates::Ignored)
}

fn secured_for(server: Server, certificates: Option<&Certificates>, clients: ClientCertificates) -> Result<Server, Failure> {
    let Some(certificates) = certificates else { return Ok(server) };
    let tls = Tls::new(certificates, clients).map_err(|error| Failure::failed("--tls-cert, --tls-key", &error))?;
    Ok(server.tls(tls))
}

/// Binds the address; if a machine has no IPv6, all interfaces are those of IPv4.
async fn bind(flag: &str, address: SocketAddr) -> Result<Server, Failure> {
    let server = match Server::bind(address).await {
        Err(mainstay_serve::Error::Bind { source, .. })
            if address.ip().is_unspecified() && address.is_ipv6() && source.kind() != std::io::ErrorKind::AddrInUse =>
        {
            Server::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port())).await
        }
        bound => bound,
    };
    server.map_err(|error| Failure::failed(flag, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM1-CAT-18: a request for a catalog has five seconds to arrive; that the listener keeps to its limit is shown in mainstay-serve.
    #[test]
    fn catalogs_are_asked_for_within_five_seconds() {
        assert_eq!(reading().header_read, Duration::from_secs(5));
        assert_ne!(reading().header_read, Limits::default().header_read, "the limit is catalogd's own");
    }
}
