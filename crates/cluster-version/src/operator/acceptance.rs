//! The wish: an attempt to accept its release begins, ends, is given up or repeated (CVO-API-12, CVO-RET-08).

use std::sync::Arc;
use std::time::Duration;

use mainstay_api::config_v1::ClusterVersion;
use mainstay_cluster_version_core::Mode;
use mainstay_cluster_version_core::load::{Load, Step};
use mainstay_cluster_version_core::wanted::{self, Wanted};
use mainstay_objects::{Expect, ObjectRef};
use mainstay_release::Capabilities;
use mainstay_release_source::signature::{CustomStore, StoreAuthority};
use mainstay_update_client::LIMITS;
use serde_json::{Value, json};

use super::observed::WRITTEN;
use super::state::{Attempt, Operator, Part};
use super::{API_VERSION, Config, NAME};
use crate::accept::{self, Signatures};
use crate::accepted::{Accepted, Circumstances};
use crate::{Error, NAMESPACE};

/// The name of the operator in its requests.
const AGENT: &str = concat!("ClusterVersionOperator/", env!("CARGO_PKG_VERSION"));

impl Operator {
    /// Begins to load the wished release if it is not the one in force. Returns when a failed attempt is repeated.
    pub(super) fn follow(
        self: Arc<Self>,
        cluster_version: &ClusterVersion,
        live: &Value,
        capabilities: &Capabilities,
        feature_set: String,
    ) -> Option<Duration> {
        let own = self.own();
        let mut state = self.state();
        let running = state.running.clone();
        let mut target = wanted::target(cluster_version, &own, running.is_some())?;
        if let Some(running) = &running {
            let history = &cluster_version.status.history;
            let requested = wanted::requested(cluster_version, own.architecture);
            if requested.is_none() {
                // Without a wish the cluster stays where it is (CVO-API-12).
                target = running.wanted.clone();
            } else if target.image != running.image() && wanted::mode(history, &running.wanted) == Mode::Initializing {
                tracing::warn!(
                    wished = target.name(),
                    running = running.version(),
                    "an installation goes on with the release that it began with"
                );
                target = running.wanted.clone();
            }
            if target.image == running.image() {
                if let Some(attempt) = state.attempt.take_if(|attempt| attempt.wanted.image != target.image) {
                    attempt.stop.cancel();
                }
                if state.load.wanted.image != target.image {
                    let step = Some(Step::Loaded { architecture: None });
                    let (verified, local) = (false, target.image == own.image);
                    state.load = Load { wanted: running.wanted.clone(), step, verified, local, ..Load::default() };
                }
                return None;
            }
        }
        let generation = cluster_version.metadata.generation.unwrap_or_default();
        if let Some(attempt) = &state.attempt
            && attempt.wanted == target
            && (attempt.ended.is_none() || attempt.generation == generation)
        {
            let interval = self.config.pace.interval();
            let waited = attempt.ended.map(|ended| self.env.now().duration_since(ended).unsigned_abs());
            match waited {
                None => return None,
                Some(waited) if waited < interval => return Some(interval.saturating_sub(waited)),
                Some(_) => {}
            }
        }
        if let Some(attempt) = state.attempt.take() {
            attempt.stop.cancel();
        }
        let stop = self.stop.child_token();
        state.attempt = Some(Attempt { wanted: target.clone(), generation, stop: stop.clone(), ended: None });
        drop(state);
        let (cluster_version, live, capabilities) = (cluster_version.clone(), event_subject(live), capabilities.clone());
        let operator = self.clone();
        tokio::spawn(async move {
            let accepting = operator.accept(target, &cluster_version, &live, &capabilities, running, feature_set);
            stop.run_until_cancelled(accepting).await;
        });
        None
    }

    async fn accept(
        &self,
        target: Wanted,
        cluster_version: &ClusterVersion,
        subject: &Value,
        capabilities: &Capabilities,
        running: Option<Arc<Accepted>>,
        feature_set: String,
    ) {
        let Config { profile, exclude_identifier, releases, .. } = &self.config;
        let circumstances =
            Circumstances { profile: profile.clone(), exclude_identifier: exclude_identifier.clone(), feature_set: feature_set.clone() };
        let signatures = self.signatures(cluster_version).await;
        let facts = accept::Facts {
            signatures: &signatures,
            now: self.env.now(),
            releases: releases.as_ref(),
            circumstances: &circumstances,
            running: running.as_deref(),
            cluster_version,
            capabilities,
        };
        let stepped = |load: &Load| {
            if let Some(event) = load.event() {
                self.event(subject, &event);
            }
            if load.condition().is_some() {
                self.state().load = load.clone();
                self.queue.add(Part::Sync);
            }
        };
        let (load, accepted) = accept::accept(target, &facts, stepped).await;
        if load.verified
            && let Err(error) = self.keep_signatures().await
        {
            tracing::warn!(%error, "the signatures of the release are not kept in the cluster");
        }
        {
            let mut state = self.state();
            match accepted {
                Some(accepted) => {
                    let expected: Vec<Value> = accepted.told().collect();
                    self.config.expected.send_replace(expected.into());
                    state.running = Some(accepted);
                    state.feature_set = Some(feature_set);
                    state.attempt = None;
                }
                None => {
                    if let Some(attempt) = &mut state.attempt {
                        attempt.ended = Some(self.env.now());
                    }
                }
            }
            state.load = load;
        }
        for part in [Part::Sync, Part::Upgradeable, Part::Updates] {
            self.queue.add(part);
        }
    }

    /// The places of signatures, as the cluster has them (CVO-SIG-06, CVO-SIG-07).
    async fn signatures(&self, cluster_version: &ClusterVersion) -> Signatures {
        let config_maps = self.observed.signatures();
        let mut stores = None;
        for store in cluster_version.spec.signature_stores.iter().flatten() {
            let authority = match &store.ca {
                None => StoreAuthority::Default,
                Some(ca) => self.authority(&ca.name).await,
            };
            stores.get_or_insert_with(Vec::new).push(CustomStore { url: store.url.clone(), authority });
        }
        if cluster_version.spec.signature_stores.as_ref().is_some_and(Vec::is_empty) {
            stores = Some(Vec::new());
        }
        let outbound = self.observed.proxy().of_requests().outbound(AGENT, LIMITS);
        Signatures { config_maps, stores, outbound }
    }

    async fn authority(&self, name: &str) -> StoreAuthority {
        let place = ObjectRef { api_version: "v1".into(), kind: "ConfigMap".into(), namespace: WRITTEN.into(), name: name.to_owned() };
        match self.writer.get(&place).await {
            Ok(Some(map)) if map["data"]["ca.crt"].is_string() => {
                let pem = map["data"]["ca.crt"].as_str().unwrap_or_default().as_bytes().to_vec();
                StoreAuthority::ConfigMap { name: name.to_owned(), pem }
            }
            Ok(_) => StoreAuthority::Missing(name.to_owned()),
            Err(error) => {
                tracing::warn!(%error, name, "the authority of a store of signatures cannot be read");
                StoreAuthority::Missing(name.to_owned())
            }
        }
    }

    /// Keeps the signatures of what was verified in the cluster (CVO-SIG-08).
    async fn keep_signatures(&self) -> Result<(), Error> {
        if let Some(map) = self.config.releases.verified() {
            self.writer.apply(&map, true, &Expect::default()).await?;
        }
        Ok(())
    }
}

/// The ClusterVersion as events name it: in the operator's namespace (CVO-COND-07).
fn event_subject(live: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "ClusterVersion",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": live["metadata"]["uid"]},
    })
}
