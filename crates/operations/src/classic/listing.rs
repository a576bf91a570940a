//! The operators of a cluster, now and as they change (MS-CLI-05, OLM0-ADMIN-20).

use std::collections::BTreeMap;

use mainstay_diagnostics::Failure;
use mainstay_olm_classic_core::overview::{Overview, is_copy, overview};
use mainstay_runtime::{Cache, Change, Key, Scope};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::objects::{CSV, INSTALL_PLAN, Kind, SUBSCRIPTION, list, list_if_served};
use crate::session::Session;

/// Operators, and the objects that they were read from.
#[derive(Debug, Default)]
pub struct Operators {
    /// The operators.
    pub operators: Vec<Overview>,
    /// Subscriptions.
    pub subscriptions: Vec<Value>,
    /// CSVs that are no copies.
    pub csvs: Vec<Value>,
}

/// Lists the operators of a namespace, or all; `None` if the cluster does not have OLM classic.
pub async fn operators(session: &Session, namespace: Option<&str>) -> Result<Option<Operators>, Failure> {
    let Some(subscriptions) = list_if_served(session, SUBSCRIPTION, namespace).await? else { return Ok(None) };
    let mut csvs = list(session, CSV, namespace).await?;
    csvs.retain(|csv| !is_copy(csv));
    let plans = list(session, INSTALL_PLAN, namespace).await?;
    Ok(Some(Operators { operators: overview(&subscriptions, &csvs, &plans), subscriptions, csvs }))
}

/// The kinds that an operator consists of.
const KINDS: [Kind; 3] = [SUBSCRIPTION, CSV, INSTALL_PLAN];

/// Operators that are watched. The watches end with it.
pub struct Watched {
    changes: mpsc::UnboundedReceiver<(usize, Change)>,
    objects: [BTreeMap<Key, Value>; 3],
    _stop: DropGuard,
}

impl Watched {
    /// Begins to watch the operators of a namespace, or all. The cluster has OLM classic.
    ///
    /// # Errors
    /// An object cannot be read.
    pub async fn start(session: &Session, namespace: Option<&str>) -> Result<Self, Failure> {
        let stop = CancellationToken::new();
        let (news, changes) = mpsc::unbounded_channel();
        let scope = Scope { namespace: namespace.map(str::to_owned), ..Scope::default() };
        let caches = KINDS.map(|kind| Cache::start(&session.client, &kind.resource(), &scope, &stop));
        for cache in &caches {
            cache.ready().await;
        }
        for (at, cache) in caches.iter().enumerate() {
            let news = news.clone();
            // Without a receiver nothing is watched any more.
            cache.on_change(move |change| drop(news.send((at, change.clone()))));
        }
        let mut watched = Self { changes, objects: Default::default(), _stop: stop.drop_guard() };
        while let Ok((at, change)) = watched.changes.try_recv() {
            watched.note(at, &change)?;
        }
        Ok(watched)
    }

    /// The operators as they are now.
    pub fn operators(&self) -> Operators {
        let [subscriptions, csvs, plans] = self.objects.each_ref().map(|all| all.values().cloned().collect::<Vec<_>>());
        Operators { operators: overview(&subscriptions, &csvs, &plans), subscriptions, csvs }
    }

    /// Waits for the next change; returns the object, and whether it is gone. An InstallPlan is no part of the answer: it shows in its Subscription.
    ///
    /// # Errors
    /// The object cannot be read.
    pub async fn change(&mut self) -> Result<Option<(Option<Value>, bool)>, Failure> {
        let Some((at, change)) = self.changes.recv().await else { return Ok(None) };
        let object = self.note(at, &change)?;
        Ok(Some((object.filter(|_| KINDS[at] != INSTALL_PLAN), change.now.is_none())))
    }

    /// Notes a change; returns its object unless it is a copy of a CSV.
    fn note(&mut self, at: usize, change: &Change) -> Result<Option<Value>, Failure> {
        let Some(object) = change.object() else { return Ok(None) };
        let (key, value) = (Key::of(object), KINDS[at].value(object)?);
        let is_shown = KINDS[at] != CSV || !is_copy(&value);
        if change.now.is_some() && is_shown {
            self.objects[at].insert(key, value.clone());
        } else {
            self.objects[at].remove(&key);
        }
        Ok(Some(value).filter(|_| is_shown))
    }
}
