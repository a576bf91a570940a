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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::collections::BTreeMap;
    use std::time::Duration;

    use base64::Engine as _;
    use mainstay_cluster_version::{Images, Releases as _};
    use mainstay_cluster_version_core::wanted::Wanted;
    use mainstay_objects::Expect;
    use mainstay_oci::registry::{Access, Options, Registry};
    use mainstay_oci::{Client, Credential, Credentials, ImageBuilder, Platform, Reference};
    use mainstay_testing_cluster::{EmbeddedCluster, administrator};
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::*;

    /// The number of files of a release, or why it is not retrieved.
    async fn retrieved(images: &Images, image: &str) -> Result<usize, String> {
        let wanted = Wanted { version: String::new(), image: image.to_owned(), force: false };
        let found = images.files(&wanted, Instant::now() + Duration::from_secs(60)).await;
        found.map(|files| files.ordered().count()).map_err(|error| error.to_string())
    }

    async fn until(images: &Images, image: &str, holds: impl Fn(&Result<usize, String>) -> bool) {
        let mut last = Ok(0);
        for _ in 0..600 {
            last = retrieved(images, image).await;
            if holds(&last) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{image}: {last:?}");
    }

    fn pull_secret(host: &str, password: &str) -> Value {
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let auths = json!({"auths": {host: {"auth": base64(&format!("dev:{password}"))}}});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": PULL_SECRET.1, "namespace": PULL_SECRET.0},
            "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": base64(&auths.to_string())}})
    }

    /// CVO-RET-06, CVO-RET-05: a release in a private registry is retrieved with the pull secret of the cluster, as it is at the moment, and by the name
    /// that the cluster's mirrors have for it; without it the error names the registry and what it wants.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_private_registry_behind_a_mirror() {
        let EmbeddedCluster { admin, server, folder: _folder } = EmbeddedCluster::start().await;
        let access = Access::Basic { user: "dev".to_owned(), password: "open".to_owned() };
        let registry = Registry::new(Options { access, ..Options::default() }).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let stop = CancellationToken::new();
        tokio::spawn(registry.serve(listener, stop.clone().cancelled_owned()));
        let mut credentials = Credentials::default();
        credentials.insert(&host, Credential::Basic { user: "dev".to_owned(), password: "open".to_owned() });
        let client = Client::new(ClientConfig { credentials, insecure: true, ..ClientConfig::default() }).unwrap();
        let files = [("manifests/a.yaml", "{}"), ("release-manifests/b.yaml", "{}"), ("release-manifests/release-metadata", "{}")];
        let files = files.into_iter().map(|(name, content)| (name.to_owned(), content.as_bytes().to_vec()));
        let target = Reference::parse(&format!("{host}/ocp/release:1")).unwrap();
        let platform = Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None };
        let workspace = client.workspace().unwrap();
        let image = ImageBuilder::new().files(files).platform(platform).build(workspace.store()).unwrap();
        let digest = client.push(&image, workspace.store(), &target).await.unwrap();
        let by_name = |repository: &str| format!("{repository}@{digest}");
        let (direct, mirrored) = (by_name(&format!("{host}/ocp/release")), by_name("quay.example/ocp/release"));

        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "imagedigestmirrorsets.config.openshift.io"},
            "spec": {"group": "config.openshift.io", "scope": "Cluster",
                "names": {"kind": "ImageDigestMirrorSet", "plural": "imagedigestmirrorsets", "singular": "imagedigestmirrorset"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
        });
        admin.apply(&definition, true, &Expect::default()).await.unwrap();
        let served = mainstay_objects::ObjectRef::of(&definition).unwrap();
        admin.wait(&served, &mainstay_objects::Until::Healthy, Duration::from_secs(60)).await.unwrap();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PULL_SECRET.0}});
        admin.apply(&namespace, true, &Expect::default()).await.unwrap();
        let cluster = Cluster::Embedded { router: server.router(), identity: administrator };
        let registries = Registries::open(&cluster, &Env::system()).unwrap();
        let images = Images::new(registries.clients(), BTreeMap::new());
        let watching = tokio::spawn(registries.watch(stop.clone()));

        let refused = retrieved(&images, &direct).await.unwrap_err();
        assert!(refused.contains(&host) && refused.contains("answered 401"), "{refused}");
        admin.apply(&pull_secret(&host, "open"), true, &Expect::default()).await.unwrap();
        until(&images, &direct, |found| *found == Ok(3)).await;

        let rules = json!({"apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "releases"},
            "spec": {"imageDigestMirrors": [{"source": "quay.example/ocp/release", "mirrors": [format!("{host}/ocp/release")]}]}});
        admin.apply(&rules, true, &Expect::default()).await.unwrap();
        until(&images, &mirrored, |found| *found == Ok(3)).await;

        admin.apply(&pull_secret(&host, "wrong"), true, &Expect::default()).await.unwrap();
        until(&images, &direct, |found| found.as_ref().is_err_and(|error| error.contains("answered 401"))).await;
        stop.cancel();
        watching.await.unwrap();
    }
}
