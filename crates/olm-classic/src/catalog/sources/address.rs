//! CatalogSources that a registry server elsewhere answers for (OLM0-CAT-03).

use jiff::SignedDuration;
use mainstay_diagnostics::chain;
use mainstay_objects::meta;
use mainstay_olm_classic_core::catalog_source::{Connection, Outcome as Found, Request};
use mainstay_runtime::jobs::Asked;
use mainstay_runtime::{Key, Outcome};
use serde_json::Value;

use super::super::remote;
use super::{CHECK, SourceError, Sources};

/// The interval at which a registry server is asked for all that it lists.
const REFETCH: SignedDuration = SignedDuration::from_mins(5);

impl Sources {
    /// Keeps the content of a registry server: it is asked regularly whether it answers, and now and then for all that it lists.
    pub(super) async fn address(
        &self,
        key: &Key,
        live: &Value,
        source: &Value,
        request: &Request,
        address: &str,
    ) -> Result<Outcome, SourceError> {
        let now = self.parts.env.now();
        let held = self.states().get(key).map(|state| (state.held.clone(), state.catalog.clone()));
        let fresh = held.filter(|(held, _)| held.request == *request && meta(source, "uid").as_deref() == Some(&held.uid));
        let whole = fresh.as_ref().is_none_or(|(held, _)| now.duration_since(held.polled) >= REFETCH);
        let (store, of) = (self.parts.store.clone(), address.to_owned());
        let job = format!("{key} {address} {whole}");
        let current = fresh.as_ref().map(|(_, catalog)| catalog.clone());
        let fetch = move || async move { remote::fetch(&of, &store, current.filter(|_| !whole)).await };
        let connected = |state, problem| Found::Connected { state, problem, polled: false, config_map: None };
        match self.pulls.ask(&job, address, key, fetch).await {
            Asked::Running(_) if fresh.is_some() => Ok(Outcome::Done),
            Asked::Running(_) => {
                self.hide(key);
                self.report(live, source, Some(request), &connected(Connection::Connecting, None)).await?;
                Ok(Outcome::Done)
            }
            Asked::Ended(Ok(catalog)) => {
                let polled = fresh.filter(|_| !whole).map_or(now, |(held, _)| held.polled);
                match self.show(key, source, request, catalog, polled).await {
                    Ok(()) => self.report(live, source, Some(request), &connected(Connection::Ready, None)).await?,
                    Err(error) => {
                        self.hide(key);
                        let problem = chain(&error);
                        self.report(live, source, Some(request), &connected(Connection::TransientFailure, Some(&problem))).await?;
                    }
                }
                Ok(Outcome::After(CHECK))
            }
            Asked::Ended(Err(failure)) => {
                self.hide(key);
                let found = connected(Connection::TransientFailure, Some(&failure.message));
                self.report(live, source, Some(request), &found).await?;
                Ok(Outcome::Retry)
            }
        }
    }
}
