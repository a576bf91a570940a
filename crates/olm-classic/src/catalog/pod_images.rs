//! The images of simulated pods that serve catalogs and unpack bundles: pulled and read by the catalog operator, for the kubelet (OLM0-CAT-36).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mainstay_apply::WriteError;
use mainstay_diagnostics::chain;
use mainstay_olm_classic_core::catalog_source::registry;
use mainstay_olm_classic_core::unpack::{self, content};
use mainstay_runtime::{AccountError, Key};
use serde_json::Value;
use tokio::sync::watch;

use super::images::ImageFailure;
use super::parts::Parts;

/// The longest wait for the operator to begin.
const BEGINS: Duration = Duration::from_secs(60);
/// Tries to fill a ConfigMap that others write meanwhile.
const TRIES: usize = 5;

/// The access of simulated kubelets to the images of catalogs and bundles. Clones share it.
#[derive(Clone)]
pub struct PodImages {
    parts: watch::Sender<Option<Arc<Parts>>>,
}

/// The reason why the image of a container is not there, or its work is not done, as a node's runtime tells it.
#[derive(Debug, thiserror::Error)]
pub enum PodImageError {
    /// No catalog operator answers.
    #[error("the catalog operator does not run")]
    NotRunning,
    /// The image cannot be pulled, in the registry's words.
    #[error("{0}")]
    Image(String),
    /// The pod's account cannot be used.
    #[error("{}", chain(.0))]
    Account(#[from] AccountError),
    /// The API refused.
    #[error("{}", chain(.0))]
    Write(#[from] WriteError),
    /// The files do not fit.
    #[error("{}", chain(.0))]
    Content(#[from] content::ContentError),
    /// The ConfigMap is gone.
    #[error("configmaps {0:?} not found")]
    NotFound(String),
    /// Others write to the ConfigMap all the time.
    #[error("configmap {0} changes faster than it can be filled")]
    Busy(String),
}

/// An image that was pulled for a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledImage {
    /// Its digest.
    pub digest: String,
    /// Reason why the container cannot work with its content.
    pub problem: Option<String>,
}

impl Default for PodImages {
    fn default() -> Self {
        Self { parts: watch::Sender::new(None) }
    }
}

impl PodImages {
    pub(super) fn begin(&self, parts: Arc<Parts>) {
        self.parts.send_replace(Some(parts));
    }

    pub(super) fn end(&self) {
        self.parts.send_replace(None);
    }

    async fn parts(&self) -> Result<Arc<Parts>, PodImageError> {
        let mut parts = self.parts.subscribe();
        let begun = tokio::time::timeout(BEGINS, parts.wait_for(Option::is_some)).await;
        let begun = begun.ok().and_then(Result::ok).and_then(|parts| parts.clone());
        begun.ok_or(PodImageError::NotRunning)
    }

    /// Returns true if the image of a pod's container is one of a catalog or bundle, which is pulled before the container starts.
    pub fn concerns(pod: &Value, container: &str) -> bool {
        registry::has_catalog(pod, container) || (Self::unpacks(pod) && container == unpack::PULL)
    }

    fn unpacks(pod: &Value) -> bool {
        pod["metadata"]["labels"][registry::MANAGED] == "true" && pod["metadata"]["labels"][unpack::LABEL].is_string()
    }

    /// Returns true if a container has work to do before it ends: it fills the ConfigMap of a bundle.
    pub fn works(pod: &Value, container: &str) -> bool {
        Self::unpacks(pod) && container == unpack::EXTRACT
    }

    /// Pulls an image with the Secrets of a pod; the error is what a node's runtime says.
    pub async fn pull(&self, pod: &Value, container: &str, image: &str) -> Result<PulledImage, PodImageError> {
        let parts = self.parts().await?;
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let secrets: Vec<String> = secrets(pod);
        let asked = if container == unpack::PULL {
            parts.images.bundle_content(namespace, image, &secrets).await.map(|(digest, _)| digest)
        } else {
            parts.images.catalog(namespace, image, &secrets).await.map(|catalog| catalog.digest().to_string())
        };
        match asked {
            Ok(digest) => Ok(PulledImage { digest, problem: None }),
            Err(ImageFailure { message, digest: Some(digest), .. }) => Ok(PulledImage { digest, problem: Some(message) }),
            Err(failure) => Err(PodImageError::Image(failure.words())),
        }
    }

    /// Fills the ConfigMap of a bundle, with the permission of the pod's account.
    pub async fn work(&self, pod: &Value, container: &str) -> Result<(), PodImageError> {
        if !Self::works(pod, container) {
            return Ok(());
        }
        let parts = self.parts().await?;
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let init = pod["spec"]["initContainers"].as_array().into_iter().flatten().find(|init| init["name"] == unpack::PULL);
        let image = init.and_then(|init| init["image"].as_str()).unwrap_or_default();
        let loaded =
            parts.images.bundle_content(namespace, image, &secrets(pod)).await.map_err(|failure| PodImageError::Image(failure.words()))?;
        let files: BTreeMap<String, Vec<u8>> = loaded.1.into_iter().collect();
        let spec = &pod["spec"]["containers"][0];
        let argument = |flag: &str| {
            let words: Vec<&str> = spec["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            words.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1].to_owned()).unwrap_or_default()
        };
        let place = mainstay_objects::ObjectRef {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: argument("-n"),
            name: argument("-c"),
        };
        let source = spec["env"].as_array().into_iter().flatten().find(|one| one["name"] == "CONTAINER_IMAGE");
        let source = source.and_then(|one| one["value"].as_str()).unwrap_or_default();
        let account = Key::new(namespace, pod["spec"]["serviceAccountName"].as_str().unwrap_or("default"));
        let client = parts.accounts.client(&account).await?;
        let writer = mainstay_apply::Writer::new(client, parts.kinds.clone(), "opm");
        for _ in 0..TRIES {
            let live = writer.get(&place).await?.ok_or_else(|| PodImageError::NotFound(place.name.clone()))?;
            let filled = content::fill(&live, source, &files)?;
            match writer.replace(&filled).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(PodImageError::Busy(place.name))
    }
}

fn secrets(pod: &Value) -> Vec<String> {
    let secrets = pod["spec"]["imagePullSecrets"].as_array().into_iter().flatten();
    secrets.filter_map(|secret| secret["name"].as_str()).map(str::to_owned).collect()
}
