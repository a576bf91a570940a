//! The controller of CatalogSources: it loads their content, polls their images and writes their status.

mod address;
mod pods;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use mainstay_apply::{EventKind, Recorder, WriteError};
use mainstay_catalog_serve::ServeError;
use mainstay_catalog_store::StoredCatalog;
use mainstay_diagnostics::chain;
use mainstay_objects::{Expect, ObjectRef, Patch, meta};
use mainstay_olm_classic_core::catalog_source::pod_config;
use mainstay_olm_classic_core::catalog_source::template::{self, Filled, KubernetesVersion};
use mainstay_olm_classic_core::catalog_source::{self, Connection, Held, Outcome as Found, Plan, Polling, Request, plan};
use mainstay_olm_classic_core::resolve::UnhealthyCatalogs;
use mainstay_runtime::jobs::{Asked, Jobs, Terms, origin};
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::configmap;
use super::images::ImageFailure;
use super::namespaces::Controller as Namespaces;
use super::objects::ReadError;
use super::parts::Parts;
use super::serving::CatalogServing;
use pods::{Looked, wake_by_pods};

/// CatalogSources that are reconciled at a time.
const WORKERS: usize = 4;
/// The longest time of a pull, including unpacking and indexing.
const PULL: Duration = Duration::from_secs(1_800);
/// The interval at which a registry server is asked whether it answers.
const CHECK: Duration = Duration::from_secs(15);
/// Interval at which content that no source has is removed.
const COLLECT: Duration = Duration::from_secs(600);

/// A failure that no status can show.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object cannot be read.
    #[error("catalogsource {0} cannot be read")]
    Form(Key, #[source] serde_json::Error),
    /// The objects that serve a source cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a content cannot be shown.
#[derive(Debug, thiserror::Error)]
enum ShowError {
    /// The resolver cannot read it.
    #[error(transparent)]
    Content(#[from] ServeError),
    /// Reading ended abnormally.
    #[error("reading the catalog ended abnormally")]
    Abnormal(#[source] tokio::task::JoinError),
}

type Pulls = Jobs<Result<StoredCatalog, ImageFailure>>;

/// The state of a source between reconciles.
struct State {
    held: Held,
    catalog: StoredCatalog,
}

struct Sources {
    parts: Arc<Parts>,
    namespaces: Arc<Namespaces>,
    pulls: Pulls,
    states: Mutex<HashMap<Key, State>>,
    /// The request of each source, with its uid, when content of it was last shown.
    shown: Mutex<HashMap<Key, (Request, String)>>,
    /// By pods: the ID of the image whose content is shown. In this process: the uid of the source that was found to have no pod.
    served: Mutex<HashMap<Key, String>>,
}

/// Runs the controller until `stop`.
pub async fn run(parts: Arc<Parts>, namespaces: Arc<Namespaces>, stop: CancellationToken) {
    let overdue = |after: Duration| Err(ImageFailure::because(format!("the pull was given up after {} s", after.as_secs())));
    let pulls = Jobs::new(Terms { deadline: PULL, fresh: Duration::ZERO }, overdue);
    let queue: Queue<Key> = Queue::default();
    let woken = queue.clone();
    pulls.wake_by(move |key| woken.add(key));
    let woken = queue.clone();
    parts.caches.sources.on_change(move |change| {
        if let Some(object) = change.object() {
            woken.add(Key::of(object));
        }
    });
    if matches!(parts.serving, CatalogServing::Pods { .. }) {
        wake_by_pods(&parts, &queue, &stop);
    }
    let config_maps = configmap::follow(&parts, &queue, &stop);
    let env = parts.env.clone();
    let sources =
        Arc::new(Sources { parts, namespaces, pulls, states: Mutex::default(), shown: Mutex::default(), served: Mutex::default() });
    let worker = sources.clone();
    let reconcile = move |key: Key| {
        let (sources, config_maps) = (worker.clone(), config_maps.clone());
        async move { sources.reconcile(&key, &config_maps).await }
    };
    tokio::select! {
        () = mainstay_runtime::run("catalogsource", queue, WORKERS, env, stop.clone(), reconcile) => {}
        () = sources.collect() => {}
    }
}

impl Sources {
    async fn reconcile(&self, key: &Key, config_maps: &configmap::ConfigMaps) -> Result<Outcome, SourceError> {
        let Some(object) = self.parts.caches.sources.get(key) else {
            self.pulls.forget(key);
            self.states().remove(key);
            self.parts.contents.hide(&key.namespace, &key.name);
            self.parts.contents.forget(&key.namespace, &key.name);
            self.shown().remove(key);
            self.served.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            self.parts.metrics.source_gone(&key.namespace, &key.name);
            self.namespaces.wake_for(&key.namespace);
            return Ok(Outcome::Done);
        };
        let mut source = serde_json::to_value(&*object).map_err(|error| SourceError::Form(key.clone(), error))?;
        if source["metadata"]["deletionTimestamp"].is_string() {
            return Ok(Outcome::Done);
        }
        let filled = template::image(&source, self.version(&source).await.as_ref());
        if let Some(filled) = &filled
            && !self.fill(&mut source, filled).await?
        {
            return Ok(Outcome::Done);
        }
        source["status"] = template::status(&source, filled.as_ref(), self.parts.env.now_seconds());
        let by_pods = matches!(self.parts.serving, CatalogServing::Pods { .. });
        source["status"] = pod_config::status(&source, by_pods, self.parts.env.now_seconds());
        if filled.as_ref().is_some_and(|filled| filled.problem.is_some()) && source["spec"]["image"].as_str().is_none_or(str::is_empty) {
            // A template that cannot be used, and nothing beside it (OLM0-CAT-26).
            self.hide(key);
            self.write(&object_of(&object, key)?, source["status"].clone()).await?;
            return Ok(Outcome::Done);
        }
        let request = match Request::of(&source) {
            Ok(request) => request,
            Err(problem) => {
                self.hide(key);
                self.report(&object_of(&object, key)?, &source, None, &Found::Invalid(&problem)).await?;
                return Ok(Outcome::Blocked);
            }
        };
        let identity = (request.clone(), meta(&source, "uid").unwrap_or_default());
        let named_another = self.shown().get(key).is_some_and(|shown| *shown != identity);
        if named_another && self.parts.unhealthy_catalogs == UnhealthyCatalogs::Isolate {
            // What was read says nothing about what the source names now.
            self.shown().remove(key);
            self.hide(key);
            self.parts.contents.forget(&key.namespace, &key.name);
        }
        let live = object_of(&object, key)?;
        match &request {
            Request::ConfigMap(name) => self.config_map(key, &live, &source, &request, config_maps, name).await,
            Request::Address(address) => self.address(key, &live, &source, &request, address).await,
            Request::Image { reference, secrets } => match &self.parts.serving {
                CatalogServing::InProcess => self.image(key, &live, &source, &request, (reference, secrets)).await,
                CatalogServing::Pods { tools, content } => {
                    let looked = Looked { key, live: &live, source: &source, request: &request };
                    self.by_pods(looked, (tools, *content), None).await
                }
            },
        }
    }

    async fn image(
        &self,
        key: &Key,
        live: &Value,
        source: &Value,
        request: &Request,
        (reference, secrets): (&str, &[String]),
    ) -> Result<Outcome, SourceError> {
        let now = self.parts.env.now();
        let held = self.states().get(key).map(|state| state.held.clone());
        let connected = |state, problem, polled| Found::Connected { state, problem, polled, config_map: None };
        let reason = match plan(source, request, held.as_ref(), now) {
            Plan::Keep(again) => {
                self.report(live, source, Some(request), &connected(Connection::Ready, None, false)).await?;
                self.without_pods(key, source).await?;
                return Ok(again.map_or(Outcome::Done, Outcome::After));
            }
            Plan::Load(reason) => reason,
        };
        // Content of another image is no content of this source; that of an older poll is.
        let serves = held.as_ref().is_some_and(|held| held.request == *request && meta(source, "uid").as_deref() == Some(&held.uid));
        tracing::debug!(source = %key, reference, reason, "pulling");
        let job = format!("{key} {} {reference} {}", meta(source, "uid").unwrap_or_default(), secrets.join(","));
        let (parts, namespace) = (self.parts.clone(), key.namespace.clone());
        let (image, names) = (reference.to_owned(), secrets.to_vec());
        // Looks at an image whose content is shown are no news.
        let pulling = (!serves).then(|| (self.parts.recorder.clone(), source.clone(), format!("Pulling image {reference:?}")));
        let pull = move || async move {
            if let Some((recorder, source, note)) = pulling {
                tell(&recorder, &source, EventKind::Normal, "Pulling", &note);
            }
            parts.images.catalog(&namespace, &image, &names).await
        };
        match self.pulls.ask(&job, origin(reference), key, pull).await {
            Asked::Running(_) => {
                if !serves {
                    self.hide(key);
                    self.report(live, source, Some(request), &connected(Connection::Connecting, None, false)).await?;
                }
                Ok(Outcome::Done)
            }
            Asked::Ended(Ok(catalog)) => match self.show(key, source, request, catalog, now).await {
                Ok(()) => {
                    self.report(live, source, Some(request), &connected(Connection::Ready, None, true)).await?;
                    Ok(Polling::of(source).every.map_or(Outcome::Done, Outcome::After))
                }
                Err(error) => {
                    self.hide(key);
                    let problem = chain(&error);
                    let found = connected(Connection::TransientFailure, Some(&problem), true);
                    self.report(live, source, Some(request), &found).await?;
                    Ok(Outcome::Retry)
                }
            },
            Asked::Ended(Err(failure)) => {
                // The events that a pod would have (OLM0-CAT-34).
                self.tell(source, EventKind::Warning, "Failed", &format!("Failed to pull image {reference:?}: {}", failure.sentence()));
                self.tell(source, EventKind::Warning, "Failed", "Error: ErrImagePull");
                self.tell(source, EventKind::Normal, "BackOff", &format!("Back-off pulling image {reference:?}"));
                if serves {
                    // The content stays; the next poll may succeed.
                    tracing::warn!(source = %key, error = failure.message, "the image cannot be polled; its content stays");
                    self.report(live, source, Some(request), &connected(Connection::Ready, Some(&failure.message), false)).await?;
                } else {
                    self.hide(key);
                    let found = connected(Connection::TransientFailure, Some(&failure.message), false);
                    self.report(live, source, Some(request), &found).await?;
                }
                Ok(Outcome::Retry)
            }
        }
    }

    async fn config_map(
        &self,
        key: &Key,
        live: &Value,
        source: &Value,
        request: &Request,
        config_maps: &configmap::ConfigMaps,
        name: &str,
    ) -> Result<Outcome, SourceError> {
        match config_maps.load(&self.parts.store, &key.namespace, name).await {
            Ok((reference, catalog)) => {
                let shown = self.show(key, source, request, catalog, self.parts.env.now()).await;
                let problem = shown.err().map(|error| chain(&error));
                let state = if problem.is_none() { Connection::Ready } else { Connection::TransientFailure };
                let found = Found::Connected { state, problem: problem.as_deref(), polled: false, config_map: Some(reference.clone()) };
                if let CatalogServing::Pods { tools, content } = &self.parts.serving
                    && problem.is_none()
                {
                    let now = self.parts.env.now_seconds();
                    let mut source = source.clone();
                    source["status"] = catalog_source::status(&source, Some(request), &found, now);
                    let looked = Looked { key, live, source: &source, request };
                    return self.by_pods(looked, (tools, *content), Some(&reference)).await;
                }
                self.report(live, source, Some(request), &found).await?;
                self.without_pods(key, source).await?;
                Ok(Outcome::Done)
            }
            Err(error) => {
                self.hide(key);
                let problem = format!("failed to get catalog config map {name}: {}", chain(&error));
                self.report(live, source, Some(request), &Found::ConfigMap(&problem)).await?;
                // The ConfigMap's next change wakes the source.
                Ok(Outcome::Blocked)
            }
        }
    }

    /// Shows a content for a source, and wakes who waits for it (OLM0-CAT-19).
    async fn show(&self, key: &Key, source: &Value, request: &Request, catalog: StoredCatalog, now: Timestamp) -> Result<(), ShowError> {
        let held = Held { request: request.clone(), uid: meta(source, "uid").unwrap_or_default(), polled: now };
        self.shown().insert(key.clone(), (request.clone(), held.uid.clone()));
        let changed = self.states().get(key).is_none_or(|state| state.catalog.digest() != catalog.digest());
        if changed {
            let (parts, shown, at) = (self.parts.clone(), catalog.clone(), key.clone());
            let reading = tokio::task::spawn_blocking(move || parts.contents.show(&at.namespace, &at.name, shown));
            reading.await.map_err(ShowError::Abnormal)??;
            self.parts.metrics.snapshot(&key.namespace, &key.name);
        }
        self.states().insert(key.clone(), State { held, catalog });
        if changed {
            self.namespaces.wake_for(&key.namespace);
        }
        Ok(())
    }

    fn hide(&self, key: &Key) {
        if self.states().remove(key).is_some() {
            self.parts.contents.hide(&key.namespace, &key.name);
            self.namespaces.wake_for(&key.namespace);
        }
    }

    /// Writes the image that the template gives, if it can be used and differs; true if the source can be reconciled further.
    async fn fill(&self, source: &mut Value, filled: &Filled) -> Result<bool, SourceError> {
        if filled.problem.is_some() || source["spec"]["image"] == *filled.image {
            return Ok(true);
        }
        let place = ObjectRef::of(source).map_err(WriteError::from)?;
        let mut patch = json!({"spec": {"image": filled.image}, "metadata": {}});
        for (name, value) in Expect::exactly(source).members() {
            patch["metadata"][name] = json!(value);
        }
        self.parts.writer.patch(&place, "", &Patch::Merge(patch)).await?;
        // The change wakes the source again.
        Ok(false)
    }

    /// The version of the API server, asked for sources with a template only.
    async fn version(&self, source: &Value) -> Option<KubernetesVersion> {
        source["metadata"]["annotations"][template::ANNOTATION].as_str()?;
        match self.parts.writer.client().apiserver_version().await {
            Ok(version) => KubernetesVersion::parse(&version.git_version),
            Err(error) => {
                tracing::warn!(%error, "the version of the API server is not known");
                None
            }
        }
    }

    async fn report(&self, live: &Value, source: &Value, request: Option<&Request>, found: &Found<'_>) -> Result<(), SourceError> {
        let status = catalog_source::status(source, request, found, self.parts.env.now_seconds());
        self.write(live, status).await
    }

    async fn write(&self, live: &Value, status: Value) -> Result<(), SourceError> {
        let ready = catalog_source::is_ready(&json!({"status": status}));
        let name = |field: &str| live["metadata"][field].as_str().unwrap_or_default();
        self.parts.metrics.source_ready(name("namespace"), name("name"), ready);
        match self.parts.writer.update_status(live, &status).await {
            // The newer object wakes the source again.
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
            written => Ok(written.map(|_| ())?),
        }
    }

    fn tell(&self, source: &Value, kind: EventKind, reason: &str, note: &str) {
        tell(&self.parts.recorder, source, kind, reason, note);
    }

    fn states(&self) -> std::sync::MutexGuard<'_, HashMap<Key, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> std::sync::MutexGuard<'_, HashMap<Key, (Request, String)>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes stored content that no source has.
    async fn collect(&self) {
        loop {
            tokio::time::sleep(COLLECT).await;
            match self.parts.store.retain(&self.parts.contents.digests()) {
                Ok(removed) => removed.iter().for_each(|digest| tracing::info!(%digest, "removed a catalog that no source has")),
                Err(error) => tracing::warn!(%error, "catalogs that no source has could not be removed"),
            }
        }
    }
}

fn tell(recorder: &Recorder, source: &Value, kind: EventKind, reason: &str, note: &str) {
    if let Err(error) = recorder.record(source, kind, reason, "Pulling", note) {
        tracing::warn!(%error, "an event could not be recorded");
    }
}

fn object_of(object: &kube::api::DynamicObject, key: &Key) -> Result<Value, SourceError> {
    serde_json::to_value(object).map_err(|error| SourceError::Form(key.clone(), error))
}
