//! Bundles that Jobs unpack (OLM0-CAT-30 to OLM0-CAT-32).

use std::sync::Arc;

use mainstay_diagnostics::chain;
use mainstay_objects::ObjectRef;
use mainstay_olm_classic_core::catalog_source::registry::Tools;
use mainstay_olm_classic_core::install_plan::reference::unpack_name;
use mainstay_olm_classic_core::resolve::BundleLookup;
use mainstay_olm_classic_core::unpack::content::load;
use mainstay_olm_classic_core::unpack::{self, Facts, LABEL, Progress, Request, config_map, plan};
use mainstay_runtime::Key;
use serde_json::{Value, json};

use super::super::caches::GROUP;
use super::super::objects::{ReadError, jobs, labelled, pods, present};
use super::super::parts::Parts;
use super::{Bundles, UnpackTerms, Unpacked};

/// Looks at an unpacking that begins, until it waits for its Job.
const LOOKS: usize = 6;

/// Failure of an unpacking that is tried again.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] mainstay_apply::WriteError),
    #[error("catalogsource {0} cannot be read")]
    Form(Key, #[source] serde_json::Error),
    #[error("the bundle in configmap {0} cannot be read")]
    Content(String, #[source] unpack::content::ContentError),
}

impl Bundles {
    /// Returns the content of a bundle, or how far its Job is.
    pub(super) async fn by_job(
        &self,
        parts: &Arc<Parts>,
        namespace: &str,
        lookup: &BundleLookup,
        terms: UnpackTerms,
        tools: &Tools,
    ) -> Unpacked {
        let name = unpack_name(&lookup.path);
        let place = Key::new(&*lookup.catalog.namespace, &*name);
        self.waiting().entry(place.clone()).or_default().insert(namespace.to_owned());
        let unpacked = self.job(parts, lookup, terms, tools).await.unwrap_or_else(|error| Unpacked::Failing(chain(&error)));
        if matches!(unpacked, Unpacked::Ready(_)) {
            self.waiting().remove(&place);
        }
        unpacked
    }

    async fn job(&self, parts: &Arc<Parts>, lookup: &BundleLookup, terms: UnpackTerms, tools: &Tools) -> Result<Unpacked, JobError> {
        let key = Key::new(&*lookup.catalog.namespace, &*lookup.catalog.name);
        let Some(source) = parts.caches.sources.get(&key) else {
            return Ok(Unpacked::Failing("referenced catalogsource not found".to_owned()));
        };
        let mut source = serde_json::to_value(&*source).map_err(|error| JobError::Form(key.clone(), error))?;
        source["apiVersion"] = json!(format!("{GROUP}/v1alpha1"));
        source["kind"] = json!("CatalogSource");
        let request = Request { source: &source, image: &lookup.path, timeout: terms.timeout, retry: terms.retry };
        let (name, namespace) = (request.name(), key.namespace.as_str());
        let at = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        let rbac = "rbac.authorization.k8s.io/v1";
        let wanted = [config_map(&request), at(rbac, "Role"), at("v1", "ServiceAccount"), at(rbac, "RoleBinding")];
        let selector = format!("{LABEL}={name}");
        let client = parts.writer.client();
        for _ in 0..LOOKS {
            let objects = present(&parts.writer, &wanted).await?;
            let all = labelled(client, &jobs(), namespace, &selector).await?;
            let of_jobs = labelled(client, &pods(), namespace, &selector).await?;
            let facts = Facts { objects: &objects, jobs: &all, pods: &of_jobs };
            let (steps, progress) = plan(&request, tools, &facts, parts.env.now());
            parts.writer.execute(&steps, |_| {}).await.map_err(|failed| failed.error)?;
            match progress {
                Progress::Begins => {}
                Progress::Incomplete { message, failing: true } => return Ok(Unpacked::Failing(message)),
                Progress::Incomplete { .. } => return Ok(Unpacked::Pulling),
                Progress::Failed { reason, message } => return Ok(Unpacked::Failed { reason, message, again: terms.retry }),
                Progress::Complete => return Self::filled(&objects, &name, namespace),
            }
        }
        Ok(Unpacked::Pulling)
    }

    fn filled(objects: &[Value], name: &str, namespace: &str) -> Result<Unpacked, JobError> {
        let place = format!("{namespace}/{name}");
        let map = objects.iter().find(|object| object["kind"] == "ConfigMap").cloned().unwrap_or_default();
        let loaded = load(&map).map_err(|error| JobError::Content(place.clone(), error))?;
        if loaded.objects.is_empty() {
            return Ok(Unpacked::Failing(format!("{}: configmap {place} has no manifests", unpack::INCOMPLETE)));
        }
        Ok(Unpacked::Ready(Arc::new(loaded)))
    }
}

/// Reads the content of a bundle that a Job has unpacked; none if its ConfigMap is gone.
pub async fn unpacked(parts: &Parts, namespace: &str, name: &str) -> Result<Option<mainstay_olm_classic_core::steps::Loaded>, JobError> {
    let place =
        ObjectRef { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned(), namespace: namespace.to_owned(), name: name.to_owned() };
    let map = parts.writer.get(&place).await?;
    map.map(|map| load(&map)).transpose().map_err(|error| JobError::Content(format!("{namespace}/{name}"), error))
}
