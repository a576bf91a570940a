//! CatalogSources that pods serve (OLM0-CAT-34, OLM0-CAT-36).

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use mainstay_apply::Failed;
use mainstay_diagnostics::chain;
use mainstay_objects::meta;
use mainstay_oci::{Digest, Reference};
use mainstay_olm_classic_core::catalog_source::registry::{self, Facts, Plan, SOURCE, Serving, Tools, UPDATE};
use mainstay_olm_classic_core::catalog_source::{self, Connection, Outcome as Found, Request};
use mainstay_runtime::jobs::{Asked, origin};
use mainstay_runtime::{Cache, Key, Outcome, Queue, Scope};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::images::ImageFailure;
use super::super::objects::{self, ReadError, labelled, present};
use super::super::parts::Parts;
use super::super::remote;
use super::super::serving::PodContent;
use super::{CHECK, SourceError, Sources};

/// A source while it is looked at.
#[derive(Clone, Copy)]
pub(super) struct Looked<'a> {
    pub key: &'a Key,
    /// The source as it is on the cluster.
    pub live: &'a Value,
    /// The source with what was found out so far.
    pub source: &'a Value,
    pub request: &'a Request,
}

/// Why the objects of a source cannot be made.
enum Trouble {
    /// Another look helps.
    Again(SourceError),
    /// Somebody has to do something: the sentence for the status.
    Told(String),
}

impl Sources {
    /// Makes the objects of a source, and shows its content once its pod is ready. `read` is the content of a ConfigMap, which is read here.
    pub(super) async fn by_pods(
        &self,
        looked: Looked<'_>,
        (tools, content): (&Tools, PodContent),
        config_map: Option<&Value>,
    ) -> Result<Outcome, SourceError> {
        let Looked { key, live, source, request } = looked;
        let found = |state, problem: Option<&str>, polled| {
            let config_map = config_map.cloned();
            catalog_source::status(
                source,
                Some(request),
                &Found::Connected { state, problem, polled, config_map },
                self.parts.env.now_seconds(),
            )
        };
        let plan = match self.ensure(source, tools).await {
            Ok(plan) => plan,
            Err(Trouble::Again(error)) => return Err(error),
            Err(Trouble::Told(problem)) => {
                self.write(live, found(Connection::TransientFailure, Some(&problem), false)).await?;
                return Ok(Outcome::Retry);
            }
        };
        let rest = plan.again.map_or(Outcome::Done, Outcome::After);
        let held = self.states().get(key).map(|state| state.held.clone());
        let serves = held.is_some_and(|held| held.request == *request && meta(source, "uid").as_deref() == Some(&held.uid));
        match &plan.serving {
            Serving::Ready { image_id, .. } => {
                if config_map.is_some() {
                    self.write(live, found(Connection::Ready, None, false)).await?;
                    return Ok(rest);
                }
                self.read(looked, image_id, content, &plan).await
            }
            Serving::Starting | Serving::Failing(_) if !serves && catalog_source::is_ready(source) && !self.shown().contains_key(key) => {
                // It was ready when this process began: its packages are shown while its pod starts.
                self.bridge(looked, rest).await
            }
            Serving::Starting | Serving::Failing(_) => {
                if !serves {
                    self.hide(key);
                }
                let (state, problem) = match &plan.serving {
                    Serving::Failing(problem) => (Connection::TransientFailure, Some(problem.as_str())),
                    // Content that is shown stays in use while another pod takes the place of one that is gone.
                    _ if serves && catalog_source::is_ready(source) => (Connection::Ready, None),
                    _ => (Connection::Connecting, None),
                };
                self.write(live, found(state, problem, plan.polled)).await?;
                Ok(rest)
            }
        }
    }

    /// Makes what a source lacks.
    async fn ensure(&self, source: &Value, tools: &Tools) -> Result<Plan, Trouble> {
        let (objects, pods) = self.objects_of(source).await.map_err(|error| Trouble::Again(error.into()))?;
        let namespace = meta(source, "namespace").unwrap_or_default();
        let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let namespaces = present(&self.parts.writer, [&place]).await.map_err(|error| Trouble::Again(error.into()))?;
        let restricted = namespaces.first().is_some_and(registry::enforces_restricted);
        let facts = Facts { objects: &objects, pods: &pods, restricted };
        let plan = registry::plan(source, tools, &facts, self.parts.env.now()).map_err(|error| Trouble::Told(chain(&error)))?;
        match self.parts.writer.execute(&plan.steps, |_| {}).await {
            Ok(_) => Ok(plan),
            Err(failed) if failed.error.is_forbidden() => {
                let Failed { error, .. } = *failed;
                Err(Trouble::Told(format!("error ensuring registry server: {}", chain(&error))))
            }
            Err(failed) => Err(Trouble::Again(failed.error.into())),
        }
    }

    /// The objects and pods of a source.
    async fn objects_of(&self, source: &Value) -> Result<(Vec<Value>, Vec<Value>), ReadError> {
        let wanted = registry::fixed(source).into_iter().chain([registry::service(source)]).collect::<Vec<_>>();
        let objects = present(&self.parts.writer, &wanted).await?;
        let (name, namespace) = (meta(source, "name").unwrap_or_default(), meta(source, "namespace").unwrap_or_default());
        let mut pods = Vec::new();
        for label in [SOURCE, UPDATE] {
            let selector = format!("{label}={name}");
            pods.extend(labelled(self.parts.writer.client(), &objects::pods(), &namespace, &selector).await?);
        }
        Ok((objects, pods))
    }

    /// Reads the content that a ready pod serves, unless it is held already.
    async fn read(&self, looked: Looked<'_>, image_id: &str, content: PodContent, plan: &Plan) -> Result<Outcome, SourceError> {
        let Looked { key, live, source, request } = looked;
        let Request::Image { reference, secrets } = request else { return Ok(Outcome::Done) };
        let connected = |state, problem, polled| Found::Connected { state, problem, polled, config_map: None };
        let held = self.states().get(key).map(|state| (state.held.clone(), state.catalog.clone()));
        let same = held.filter(|(held, _)| held.request == *request && meta(source, "uid").as_deref() == Some(&held.uid));
        let digest = image_id.rsplit_once('@').map(|(_, digest)| digest.to_owned());
        let known = self.served_by().get(key).cloned();
        let again = match (content, plan.again) {
            (PodContent::Server, Some(again)) => Outcome::After(again.min(CHECK)),
            (PodContent::Server, None) => Outcome::After(CHECK),
            (PodContent::Image, Some(again)) => Outcome::After(again),
            (PodContent::Image, None) => Outcome::Done,
        };
        let unchanged = same.is_some() && known.as_deref() == Some(image_id);
        if unchanged && content == PodContent::Image {
            self.report(live, source, Some(request), &connected(Connection::Ready, None, plan.polled)).await?;
            return Ok(again);
        }
        let (parts, namespace) = (self.parts.clone(), key.namespace.clone());
        let job = format!("{key} {} {image_id} {content:?} {unchanged}", meta(source, "uid").unwrap_or_default());
        let asked = match content {
            PodContent::Image => {
                let (image, names) = (pinned(reference, digest.as_deref()), secrets.clone());
                let pull = move || async move { parts.images.held_catalog(&namespace, &image, digest.as_deref(), &names).await };
                self.pulls.ask(&job, origin(reference), key, pull).await
            }
            PodContent::Server => {
                let (store, address) = (parts.store.clone(), request.address(&key.namespace, &key.name));
                let current = same.clone().filter(|_| unchanged).map(|(_, catalog)| catalog);
                self.pulls.ask(&job, &key.to_string(), key, move || async move { remote::fetch(&address, &store, current).await }).await
            }
        };
        let unread = |problem: String| self.unread(looked, same.is_some(), problem, plan.polled);
        match asked {
            Asked::Running(_) => {
                let state = if catalog_source::is_ready(source) { Connection::Ready } else { Connection::Connecting };
                self.report(live, source, Some(request), &connected(state, None, plan.polled)).await?;
                Ok(Outcome::Done)
            }
            Asked::Ended(Ok(catalog)) => match self.show(key, source, request, catalog, self.parts.env.now()).await {
                Ok(()) => {
                    self.served_by().insert(key.clone(), image_id.to_owned());
                    self.report(live, source, Some(request), &connected(Connection::Ready, None, plan.polled)).await?;
                    Ok(again)
                }
                Err(error) => unread(chain(&error)).await,
            },
            Asked::Ended(Err(failure)) => unread(failure.message).await,
        }
    }

    /// Tells why the content that a pod serves cannot be read; content of the same source stays in sight.
    async fn unread(&self, looked: Looked<'_>, is_shown: bool, problem: String, polled: bool) -> Result<Outcome, SourceError> {
        if !is_shown {
            self.hide(looked.key);
        }
        let found = Found::Connected { state: Connection::TransientFailure, problem: Some(&problem), polled, config_map: None };
        self.report(looked.live, looked.source, Some(looked.request), &found).await?;
        Ok(Outcome::Retry)
    }

    /// Shows the content of a source's image while its pod starts: the source was served by another process, or in another way.
    async fn bridge(&self, looked: Looked<'_>, rest: Outcome) -> Result<Outcome, SourceError> {
        let Looked { key, source, request, .. } = looked;
        let Request::Image { reference, secrets } = request else { return Ok(rest) };
        let (parts, namespace, image, names) = (self.parts.clone(), key.namespace.clone(), reference.clone(), secrets.clone());
        let job = format!("{key} {} {reference} bridge", meta(source, "uid").unwrap_or_default());
        let pull = move || async move { parts.images.catalog(&namespace, &image, &names).await };
        match self.pulls.ask(&job, origin(reference), key, pull).await {
            Asked::Running(_) => Ok(Outcome::Done),
            Asked::Ended(Ok(catalog)) => {
                if let Err(error) = self.show(key, source, request, catalog, self.parts.env.now()).await {
                    tracing::warn!(source = %key, error = chain(&error), "the content cannot be shown before its pod is ready");
                    self.shown().insert(key.clone(), (request.clone(), meta(source, "uid").unwrap_or_default()));
                }
                Ok(Outcome::After(Duration::from_millis(100)))
            }
            Asked::Ended(Err(failure)) => {
                let ImageFailure { message, .. } = failure;
                tracing::warn!(source = %key, error = message, "the content cannot be read before its pod is ready");
                // Not tried twice; the pod tells what is wrong.
                self.shown().insert(key.clone(), (request.clone(), meta(source, "uid").unwrap_or_default()));
                Ok(Outcome::After(Duration::from_millis(100)))
            }
        }
    }

    fn served_by(&self) -> MutexGuard<'_, HashMap<Key, String>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the pod of a source, and what belongs to it, once the content is served in this process; looked for once.
    pub(super) async fn without_pods(&self, key: &Key, source: &Value) -> Result<(), SourceError> {
        let uid = meta(source, "uid").unwrap_or_default();
        if self.served_by().get(key) == Some(&uid) {
            return Ok(());
        }
        let (objects, pods) = self.objects_of(source).await?;
        let steps = registry::leftovers(source, &objects, &pods);
        self.parts.writer.execute(&steps, |_| {}).await.map_err(|failed| failed.error)?;
        self.served_by().insert(key.clone(), uid);
        Ok(())
    }
}

/// Wakes the sources whose pods, Services and ServiceAccounts change.
pub(super) fn wake_by_pods(parts: &Parts, queue: &Queue<Key>, stop: &CancellationToken) {
    let managed = "olm.managed=true";
    let kinds = [(objects::pods(), "olm.managed=true,olm.catalogSource"), (objects::services(), managed), (objects::accounts(), managed)];
    for (kind, labels) in kinds {
        let scope = Scope { labels: Some(labels.to_owned()), ..Scope::default() };
        let woken = queue.clone();
        Cache::start(parts.writer.client(), &kind, &scope, stop).on_change(move |change| {
            let Some(object) = change.object() else { return };
            for owner in object.metadata.owner_references.iter().flatten().filter(|owner| owner.kind == "CatalogSource") {
                woken.add(Key::new(object.metadata.namespace.clone().unwrap_or_default(), owner.name.clone()));
            }
        });
    }
}

/// The reference to the image that a pod has; one that cannot be read is for the pull to refuse.
fn pinned(reference: &str, digest: Option<&str>) -> String {
    let digest = digest.and_then(|digest| digest.parse::<Digest>().ok());
    let parsed = Reference::parse_familiar(reference);
    parsed.ok().zip(digest).map_or_else(|| reference.to_owned(), |(parsed, digest)| parsed.at(digest).to_string())
}

#[cfg(test)]
mod tests {
    use super::pinned;

    /// OLM0-CAT-36: the content that is shown is that of the pod's image.
    #[test]
    fn references_to_what_a_pod_has() {
        let digest = format!("sha256:{}", "1".repeat(64));
        let other = format!("sha256:{}", "2".repeat(64));
        for (reference, name) in [
            ("r.test:5000/a/c:v1", "r.test:5000/a/c"),
            ("r.test:5000/a/c", "r.test:5000/a/c"),
            ("c:v1", "docker.io/library/c"),
            (&format!("r.test/c:v1@{other}"), "r.test/c"),
        ] {
            assert_eq!(pinned(reference, Some(&digest)), format!("{name}@{digest}"));
        }
        assert_eq!((pinned("c:v1", None), pinned("a b", Some(&digest))), ("c:v1".to_owned(), "a b".to_owned()));
    }
}
