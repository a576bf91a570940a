//! Registries as the cluster has them: its mirrors, its pull secret, and the files of this machine (CVO-RET-06).

use std::sync::Arc;

use mainstay_cluster_version::Clients;
use mainstay_image_source::global_pull_secret::GlobalPullSecret;
use mainstay_image_source::mirrors::watch::MirrorController;
use mainstay_image_source::registries::RegistrySettings;
use mainstay_image_source::{ImageError, ImageSource};
use mainstay_oci::ClientConfig;
use mainstay_release_source::ReadError;
use mainstay_runtime::{Cluster, Env, Key};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::images;
use tokio_util::sync::CancellationToken;

/// The pull secret of an OpenShift cluster.
const PULL_SECRET: (&str, &str) = ("openshift-config", "pull-secret");

/// The registries of a cluster.
pub(super) struct Registries {
    images: Arc<ImageSource>,
    mirrors: Arc<MirrorController>,
    pull_secret: Arc<GlobalPullSecret>,
    /// The folder that the source works in.
    _folder: tempfile::TempDir,
}

impl Registries {
    /// Opens them; a release is not kept on disk.
    pub(super) fn open(cluster: &Cluster, env: &Env) -> Result<Self, Failure> {
        let failed = |error: &(dyn std::error::Error + 'static)| Failure::failed("registries", error);
        let client = cluster.client().map_err(|error| failed(&error))?;
        let pull_secret = GlobalPullSecret::new(client.clone(), Key::new(PULL_SECRET.0, PULL_SECRET.1), env.clone());
        let pull_secret = Arc::new(pull_secret.map_err(|error| failed(&error))?);
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let settings = RegistrySettings {
            base: ClientConfig::default(),
            files: Some(images::settings()),
            authorities: None,
            auth_file: Some(pull_secret.auth_file()),
        };
        let removed = |removed: &_| tracing::info!(?removed, "removed from the cache");
        let images = Arc::new(ImageSource::open(folder.path(), settings, removed).map_err(|error| failed(&error))?);
        let refused = Box::new(|refused: &mainstay_image_source::mirrors::RefusedRules| tracing::warn!("{}", refused.note()));
        let mirrors = Arc::new(MirrorController::new(client, images.clone(), refused, env.clone()));
        Ok(Self { images, mirrors, pull_secret, _folder: folder })
    }

    /// Clients with the settings of the moment.
    pub(super) fn clients(&self) -> Clients {
        let images = self.images.clone();
        Arc::new(move || {
            images.client(None).map_err(|error| match error {
                ImageError::Settings(cause) | ImageError::Pull(cause) | ImageError::Unpack(cause) | ImageError::Cache(cause) => {
                    ReadError::Settings(cause)
                }
            })
        })
    }

    /// Follows mirrors and the pull secret until it is told to stop.
    pub(super) async fn watch(self, stop: CancellationToken) {
        let watch = self.pull_secret.clone().watch(stop.clone());
        tokio::join!(self.mirrors.clone().run(stop), watch.run());
    }
}
