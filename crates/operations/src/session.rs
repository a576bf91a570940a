//! A connection to a cluster as one identity.

use std::path::Path;
use std::sync::Arc;

use kube::Client;
use kube::config::Kubeconfig;
use mainstay_apply::Writer;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_runtime::{Cluster, Kinds};

/// Field manager of the writes of operations.
pub const MANAGER: &str = "mainstay";

/// Access to image registries with the user's settings. Only operations that pull ask for it, because unreadable settings are no reason to
/// refuse the others.
pub trait Registries: Send + Sync {
    /// Returns a client with the user's credentials, mirrors and cache.
    fn client(&self) -> Result<mainstay_oci::Client, Failure>;

    /// Returns a client that pulls as the nodes of a cluster do, as far as this user may know it.
    fn client_of(&self, cluster: &ClusterRegistries) -> Result<mainstay_oci::Client, Failure>;
}

/// The settings of a cluster that decide where its nodes pull from, and as whom.
#[derive(Debug, Default)]
pub struct ClusterRegistries {
    /// ImageDigestMirrorSets and ImageTagMirrorSets.
    pub mirrors: Vec<serde_json::Value>,
    /// The global pull secret: an auth file.
    pub pull_secret: Option<String>,
}

/// A cluster, as one identity sees and changes it.
pub struct Session {
    /// Its address and credentials.
    pub cluster: Cluster,
    /// A client of its API.
    pub client: Client,
    /// A client that takes every answer as it comes: an eviction that a budget forbids is an answer, and no reason to ask again.
    pub once: Client,
    /// The writer that acts as this identity.
    pub writer: Writer,
    /// The context's name.
    pub context: String,
    /// The server's address.
    pub server: String,
    /// The user's registries.
    pub registries: Arc<dyn Registries>,
}

impl Session {
    /// Connects to the cluster of a kubeconfig; `None` means the files of `$KUBECONFIG`. No request is sent yet.
    pub async fn of_kubeconfig(
        file: Option<&Path>,
        context: Option<&str>,
        act_as: Option<&str>,
        registries: Arc<dyn Registries>,
    ) -> Result<Self, Failure> {
        let subject = file.map_or_else(|| "kubeconfig".to_owned(), |file| format!("kubeconfig {}", file.display()));
        if file.is_some_and(|file| !file.exists()) {
            return Err(Failure::new(FailureKind::Failed, subject, "no such file or directory"));
        }
        let cluster = Cluster::from_kubeconfig(file, context, act_as).await.map_err(|error| Failure::failed(&subject, &error))?;
        let context = context.map_or_else(|| current_context(file), |context| Ok(context.to_owned()))?;
        Self::of(cluster, context, registries)
    }

    /// Connects to the cluster that this process runs in.
    pub fn in_cluster(registries: Arc<dyn Registries>) -> Result<Self, Failure> {
        let cluster = Cluster::in_cluster().map_err(|error| Failure::failed("cluster", &error))?;
        Self::of(cluster, "in-cluster".to_owned(), registries)
    }

    fn of(cluster: Cluster, context: String, registries: Arc<dyn Registries>) -> Result<Self, Failure> {
        let client = cluster.client().map_err(|error| Failure::failed("cluster", &error))?;
        let writer = Writer::new(client.clone(), Kinds::new(client.clone()), MANAGER);
        let once = cluster.asking_once().client().map_err(|error| Failure::failed("cluster", &error))?;
        let server = cluster.server().trim_end_matches('/').to_owned();
        Ok(Self { cluster, client, once, writer, context, server, registries })
    }
}

fn current_context(file: Option<&Path>) -> Result<String, Failure> {
    let read = file.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let kubeconfig = read.map_err(|error| Failure::failed("kubeconfig", &error))?;
    Ok(kubeconfig.current_context.unwrap_or_default())
}
