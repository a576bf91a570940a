//! The package server, put together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_catalog_store::SourceContents;
use mainstay_objects::Labels;
use mainstay_runtime::{Cache, Cluster, Env, Key, Scope};
use mainstay_serve::Gzip;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::api::{PackageApi, router};
use crate::follow::follow;
use crate::front::{self, Front};
use crate::listener::Listener;
use crate::permissions::Permissions;
use crate::register::{self, Registration};
use crate::view::View;

/// Answers of at least this many bytes are compressed for clients that take it.
const COMPRESS: u64 = 128 << 10;

/// The parts of a package server.
#[derive(Debug)]
pub struct Setup {
    /// The contents of the sources, kept by the catalog operator.
    pub contents: SourceContents,
    /// The namespace whose catalogs every namespace sees.
    pub global_namespace: String,
    /// Where it listens.
    pub listener: Listener,
    /// Selects the pods behind its Service on a cluster that reaches this process as a pod; empty otherwise.
    pub selector: Labels,
    /// The address to which the Service leads, on a cluster where it selects no pods and one process of several serves.
    pub endpoint: Option<SocketAddr>,
}

/// Runs the package server until `stop` is cancelled: serves, follows the catalogs, and keeps its registration.
///
/// # Errors
/// No client of the cluster can be made.
pub async fn run(cluster: Cluster, env: Env, setup: Setup, stop: CancellationToken) -> Result<(), Error> {
    run_as(cluster.client()?, env, setup, stop).await;
    Ok(())
}

/// Runs the package server with a client of its own account until `stop` is cancelled.
pub async fn run_as(client: Client, env: Env, setup: Setup, stop: CancellationToken) {
    let api = Arc::new(PackageApi {
        view: View::default(),
        global: setup.global_namespace,
        front: Front::default(),
        permissions: Permissions::new(client.clone()),
        ready: AtomicBool::new(false),
        env: env.clone(),
    });
    let _config = follow_front(&client, &api, &stop);
    let sources =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("operators.coreos.com", "v1alpha1", "CatalogSource"), "catalogsources");
    let sources = Cache::start(&client, &sources, &Scope::default(), &stop).shown(env.metrics());
    let (server, ca) = setup.listener.into_parts();
    let routes = router(api.clone()).layer(Gzip::above(COMPRESS));
    let (ended, (), ()) = tokio::join!(
        server.run(routes, stop.clone()),
        follow(api, setup.contents, sources, stop.clone()),
        register::keep(client, env, Registration { ca, selector: setup.selector, endpoint: setup.endpoint }, stop.clone()),
    );
    tracing::debug!(?ended, "the package server ended");
}

/// Follows the ConfigMap that says who the front proxy is.
fn follow_front(client: &Client, api: &Arc<PackageApi>, stop: &CancellationToken) -> Cache {
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "ConfigMap"), "configmaps");
    let scope = Scope {
        namespace: Some(front::NAMESPACE.to_owned()),
        fields: Some(format!("metadata.name={}", front::CONFIG_MAP)),
        ..Scope::default()
    };
    let cache = Cache::start(client, &kind, &scope, stop);
    let api = api.clone();
    cache.on_change(move |change| {
        let object = change.now.as_deref().filter(|object| Key::of(object).name == front::CONFIG_MAP);
        api.front.read(object);
    });
    cache
}
