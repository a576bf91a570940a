//! Releases in registries and on this machine (CVO-REL-08, CVO-RET-06, CVO-SIM-01).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mainstay_cluster_version_core::wanted::Wanted;
use mainstay_oci::Client;
use mainstay_release::Files;
use mainstay_release::signature::managed_config_map;
use mainstay_release_source::signature::{Stores, Verifier};
use mainstay_release_source::{Limits, Place, ReadError};
use serde_json::Value;
use tokio::time::Instant;

use crate::RetrieveError;
use crate::source::{Genuine, Proof, Releases};

/// The time of one search for signatures (CVO-RET-05).
const SEARCH: Duration = Duration::from_secs(120);

/// Makes a client of registries with the settings of the moment.
pub type Clients = Arc<dyn Fn() -> Result<Client, ReadError> + Send + Sync>;

/// Releases that are pulled from registries, and those that were named when the program was started.
pub struct Images {
    clients: Clients,
    given: BTreeMap<String, Place>,
    limits: Limits,
    verifier: Mutex<Option<(String, Arc<Verifier>)>>,
}

impl Images {
    /// Reads images of registries with such clients, and the `given` pullspecs from their places on this machine.
    pub fn new(clients: Clients, given: BTreeMap<String, Place>) -> Self {
        Self { clients, given, limits: Limits::default(), verifier: Mutex::default() }
    }

    /// True if the pullspec was named when the program was started, with its place.
    pub(crate) fn is_given(&self, image: &str) -> bool {
        self.given.contains_key(image)
    }

    /// The verifier of the running release; it remembers what it has verified.
    fn verifier(&self, question: &Genuine<'_>) -> Result<Arc<Verifier>, RetrieveError> {
        let mut held = self.verifier.lock().unwrap_or_else(PoisonError::into_inner);
        match &*held {
            Some((by, verifier)) if by == question.by => Ok(verifier.clone()),
            _ => {
                let verifier = Arc::new(Verifier::of(question.running).map_err(RetrieveError::new)?);
                *held = Some((question.by.to_owned(), verifier.clone()));
                Ok(verifier)
            }
        }
    }
}

impl Releases for Images {
    fn files<'a>(&'a self, wanted: &'a Wanted, _: Instant) -> BoxFuture<'a, Result<Files, RetrieveError>> {
        let image = &wanted.image;
        async move {
            let place = self.given.get(image).cloned().unwrap_or_else(|| Place::Image(image.clone()));
            let read = mainstay_release_source::read(&place, || (self.clients)(), &self.limits).await;
            read.map(|release| release.files).map_err(RetrieveError::new)
        }
        .boxed()
    }

    fn verify<'a>(&'a self, question: Genuine<'a>) -> BoxFuture<'a, Result<Proof, RetrieveError>> {
        async move {
            if self.is_given(question.image) {
                return Ok(Proof::Given);
            }
            let Genuine { config_maps, stores: custom, outbound, .. } = question;
            let stores = Stores { config_maps, custom, outbound, deadline: SEARCH };
            let verifier = self.verifier(&question)?;
            verifier.verify(question.image, stores, question.now).await.map_err(RetrieveError::new)?;
            Ok(Proof::Signed)
        }
        .boxed()
    }

    fn verified(&self) -> Option<Value> {
        let held = self.verifier.lock().unwrap_or_else(PoisonError::into_inner);
        let verified = held.as_ref().map(|(_, verifier)| verifier.verified())?;
        (!verified.is_empty()).then(|| managed_config_map(&verified))
    }
}
