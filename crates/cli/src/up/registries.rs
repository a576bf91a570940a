//! The registry servers of OLM classic's catalogs in the embedded cluster: the process answers for the simulated pods (OLM0-CAT-36).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mainstay_apply::Writer;
use mainstay_catalog_serve::grpc::{self, Listener};
use mainstay_catalog_store::{CatalogDigest, SourceContents, StoredCatalog};
use mainstay_diagnostics::chain;
use mainstay_objects::Expect;
use mainstay_operations::registry_addresses::published;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The most catalogs that are answered for; each has a port.
const MOST: usize = 256;
/// The time that answers in flight have when a catalog's content changes.
const DRAIN: Duration = Duration::from_secs(2);

/// A listener for the content of one catalog.
struct Served {
    digest: CatalogDigest,
    address: SocketAddr,
    _stopped_at_drop: DropGuard,
}

/// Answers for every catalog that has content, and publishes where, until `stop`.
pub async fn run(contents: SourceContents, writer: Writer, stop: CancellationToken) {
    let mut changes = contents.changes();
    let mut served: BTreeMap<(String, String), Served> = BTreeMap::new();
    loop {
        let all = contents.all();
        served.retain(|source, held| all.get(source).is_some_and(|catalog| *catalog.digest() == held.digest));
        for (source, catalog) in all.into_iter().take(MOST) {
            if served.contains_key(&source) {
                continue;
            }
            match serve(catalog, &stop).await {
                Ok(listener) => {
                    served.insert(source, listener);
                }
                Err(error) => {
                    tracing::warn!(namespace = source.0, name = source.1, error = chain(&error), "a catalog is not served by gRPC");
                }
            }
        }
        let addresses = served.iter().map(|(source, held)| (source.clone(), held.address.to_string())).collect();
        if let Err(error) = writer.apply(&published(&addresses), true, &Expect::default()).await {
            tracing::warn!(error = chain(&error), "the addresses of catalogs are not published");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

async fn serve(catalog: StoredCatalog, stop: &CancellationToken) -> Result<Served, mainstay_catalog_serve::ServeError> {
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let (address, digest, own) = (listener.address(), catalog.digest().clone(), stop.child_token());
    let (until, options) = (own.clone(), grpc::Options { drain: DRAIN });
    tokio::spawn(async move {
        if let Err(error) = grpc::serve_registry(catalog, listener, options, until).await {
            tracing::warn!(error = chain(&error), "the server of a catalog ended");
        }
    });
    Ok(Served { digest, address, _stopped_at_drop: own.drop_guard() })
}
