//! Simulated kubelets pull the images of catalogs and bundles as the catalog operator does (OLM0-CAT-36).

use std::sync::Arc;

use async_trait::async_trait;
use kube::api::DynamicObject;
use mainstay_olm_classic::catalog::PodImages;
use mainstay_workloads::{ImagePuller, PullError, Pulled};
use serde_json::{Value, json};

/// The pulls of simulated kubelets, done by the catalog operator.
pub struct Puller(pub PodImages);

impl Puller {
    /// Makes the pulls.
    pub fn shared(images: &PodImages) -> Arc<dyn ImagePuller> {
        Arc::new(Self(images.clone()))
    }
}

fn name(container: &Value) -> &str {
    container["name"].as_str().unwrap_or_default()
}

#[async_trait]
impl ImagePuller for Puller {
    fn pulls(&self, pod: &DynamicObject, container: &Value) -> bool {
        // Most pods are none of these, and have nothing to be converted for.
        let labels = pod.metadata.labels.as_ref();
        labels.is_some_and(|labels| labels.contains_key("olm.managed")) && PodImages::concerns(&json!(pod), name(container))
    }

    async fn pull(&self, pod: &DynamicObject, container: &Value) -> Result<Pulled, PullError> {
        let image = container["image"].as_str().unwrap_or_default();
        let pulled = self.0.pull(&json!(pod), name(container), image).await?;
        Ok(Pulled { id: format!("{}@{}", repository(image), pulled.digest), problem: pulled.problem })
    }

    fn works(&self, pod: &DynamicObject, container: &Value) -> bool {
        let labels = pod.metadata.labels.as_ref();
        labels.is_some_and(|labels| labels.contains_key("olm.managed")) && PodImages::works(&json!(pod), name(container))
    }

    async fn work(&self, pod: &DynamicObject, container: &Value) -> Result<(), PullError> {
        Ok(self.0.work(&json!(pod), name(container)).await?)
    }
}

/// An image reference without tag and digest; what is pulled can be read.
fn repository(image: &str) -> String {
    mainstay_oci::Reference::parse_familiar(image).map_or_else(|_| image.to_owned(), |parsed| parsed.name())
}
