//! Bundles that this process pulled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use mainstay_bundle::Bundle;
use mainstay_catalog_refs::pull_files;
use mainstay_diagnostics::SharedError;
use mainstay_oci::Client;
use mainstay_olm_v1::extension::observe::BundleSource;
use mainstay_olm_v1::images::pull_problem;
use mainstay_olm_v1_core::extension::facts::{BundleImage, PullFailure, PullProblem};

use crate::images;

/// Bundles that this process pulled, with its user's credentials.
pub(super) struct Pulled {
    client: Client,
    held: Mutex<HashMap<String, Arc<Bundle>>>,
}

impl Pulled {
    pub(super) fn new(client: Client) -> Self {
        Self { client, held: Mutex::default() }
    }

    pub(super) fn holds(&self, reference: &str) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).contains_key(reference)
    }
}

#[async_trait]
impl BundleSource for Pulled {
    async fn bundle(&self, _extension: &str, image: &BundleImage) -> Result<Arc<Bundle>, PullFailure> {
        let reference = image.reference.as_str();
        if let Some(bundle) = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(reference) {
            return Ok(bundle.clone());
        }
        let files = pull_files(&self.client, reference).await.map_err(|error| PullFailure {
            problem: error.image().map_or(PullProblem::Other, pull_problem),
            ..PullFailure::other(images::bundle_failure(reference, &error).to_line())
        })?;
        let bundle = images::read_bundle(reference, &files).map_err(|failure| PullFailure::other(failure.to_line()))?;
        let bundle = Arc::new(bundle);
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(reference.to_owned(), bundle.clone());
        Ok(bundle)
    }

    async fn forget(&self, _extension: &str) -> Result<(), SharedError> {
        Ok(())
    }
}
