//! Releases that pods copy to a folder on the operator's node, as upstream retrieves them (CVO-RET-02 to CVO-RET-05).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_apply::{WriteError, Writer};
use mainstay_cluster_version_core::payload_pod::{self, LABEL, PodFailure, Request, Verdict};
use mainstay_cluster_version_core::wanted::Wanted;
use mainstay_diagnostics::chain;
use mainstay_objects::{Expect, ObjectRef, Propagation};
use mainstay_release::Files;
use mainstay_release_source::{Limits, Place, ReadError};
use mainstay_runtime::{Cache, Env, Key, Scope};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::RetrieveError;
use crate::images::Images;
use crate::source::{Genuine, Proof, Releases};

/// The most pods and the most Jobs that are looked at before a retrieval.
const MOST: u32 = 500;

/// Where pods run and what they fill.
#[derive(Clone, Debug)]
pub struct PodSettings {
    /// The operator's namespace.
    pub namespace: String,
    /// The operator's node.
    pub node: String,
    /// The folder that is shared with the node, by the same path on it.
    pub folder: PathBuf,
}

/// Releases that are retrieved by pods; they are verified before, and those that were given are read, as [`Images`] does it.
pub struct Pods {
    images: Images,
    writer: Writer,
    env: Env,
    settings: PodSettings,
}

/// The reason why a retrieval failed; the words are upstream's.
#[derive(Debug, thiserror::Error)]
enum PodsError {
    #[error("failed to prune pods: error deleting pods: {}", listed(.0))]
    Prune(Vec<PruneError>),
    #[error("checking to see if {folder:?} already holds release-image content")]
    Look { folder: PathBuf, source: std::io::Error },
    #[error("fetching update payload")]
    Fetch(#[source] FetchError),
    #[error("confirming the presence of release-image content in {folder:?}: stat {missing}: no such file or directory")]
    Absent { folder: PathBuf, missing: String },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the reading was given up")]
    Task(#[from] tokio::task::JoinError),
}

#[derive(Debug, thiserror::Error)]
enum PruneError {
    #[error("cannot list {plural}")]
    List { plural: &'static str, source: Box<kube::Error> },
    #[error("failed to delete {place}")]
    Delete { place: Box<ObjectRef>, source: Box<WriteError> },
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Pod(#[from] PodFailure),
    #[error("timed out waiting for the condition")]
    TimedOut,
}

fn listed(errors: &[PruneError]) -> String {
    let texts: Vec<String> = errors.iter().map(|error| chain(error)).collect();
    if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) }
}

fn resource(group: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural)
}

impl Pods {
    /// Retrieves releases with pods that `writer` creates.
    pub fn new(images: Images, writer: Writer, env: Env, settings: PodSettings) -> Self {
        Self { images, writer, env, settings }
    }

    async fn retrieve(&self, wanted: &Wanted, deadline: Instant) -> Result<Files, PodsError> {
        let folder = self.settings.folder.join(payload_pod::folder_name(&wanted.image));
        let late = |_| PodsError::Fetch(FetchError::TimedOut);
        timeout_at(deadline, self.prune()).await.map_err(late)??;
        if missing(&folder).await?.is_some() {
            timeout_at(deadline, self.fetch(wanted)).await.map_err(late)?.map_err(PodsError::Fetch)?;
            if let Some(missing) = missing(&folder).await? {
                return Err(PodsError::Absent { folder, missing });
            }
        }
        let client = || Err(ReadError::NoFile(folder.display().to_string()));
        Ok(mainstay_release_source::read(&Place::Folder(folder.clone()), client, &Limits::default()).await?.files)
    }

    /// Deletes the pods and Jobs of earlier retrievals.
    async fn prune(&self) -> Result<(), PodsError> {
        let labelled = ListParams::default().labels(&format!("{}={}", LABEL.0, LABEL.1));
        let pods = self.names(&resource("", "Pod", "pods"), &labelled).await;
        let jobs = self.names(&resource("batch", "Job", "jobs"), &ListParams::default()).await;
        let mut errors = Vec::new();
        let mut found = |names: Result<Vec<String>, PruneError>| {
            names.unwrap_or_else(|error| {
                errors.push(error);
                Vec::new()
            })
        };
        let (pods, jobs) = (found(pods), found(jobs));
        let leftovers = payload_pod::leftovers(&self.settings.namespace, pods.iter().map(String::as_str), jobs.iter().map(String::as_str));
        for place in leftovers {
            if let Err(source) = self.writer.delete(&place, &Expect::default(), Propagation::Background).await {
                errors.push(PruneError::Delete { place: Box::new(place), source: Box::new(source) });
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(PodsError::Prune(errors)) }
    }

    async fn names(&self, resource: &ApiResource, which: &ListParams) -> Result<Vec<String>, PruneError> {
        let plural = if resource.kind == "Pod" { "pods" } else { "jobs" };
        let api: Api<DynamicObject> = Api::namespaced_with(self.writer.client().clone(), &self.settings.namespace, resource);
        let found = api.list_metadata(&which.clone().limit(MOST)).await;
        let found = found.map_err(|source| PruneError::List { plural, source: Box::new(source) })?;
        Ok(found.items.into_iter().filter_map(|object| object.metadata.name).collect())
    }

    async fn fetch(&self, wanted: &Wanted) -> Result<(), FetchError> {
        let PodSettings { namespace, node, folder } = &self.settings;
        let pod = payload_pod::pod(&Request {
            version: &wanted.version,
            image: &wanted.image,
            namespace,
            node,
            folder: &folder.display().to_string(),
            random: [self.env.random(), self.env.random()],
        });
        let live = self.writer.create(&pod).await?;
        let place = ObjectRef::of(&live).map_err(WriteError::from)?;
        tracing::info!(pod = place.name, image = wanted.image, "retrieves the release");
        let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
        let verdict = self.end(&place, uid).await;
        tracing::info!(pod = place.name, ?verdict, "ended");
        verdict
    }

    /// Waits for the end of the pod.
    async fn end(&self, place: &ObjectRef, uid: &str) -> Result<(), FetchError> {
        let stop = CancellationToken::new();
        let _stopped = stop.clone().drop_guard();
        let scope =
            Scope { namespace: Some(place.namespace.clone()), fields: Some(format!("metadata.name={}", place.name)), ..Scope::default() };
        let cache = Cache::start(self.writer.client(), &resource("", "Pod", "pods"), &scope, &stop);
        let changed = Arc::new(Notify::new());
        let notified = changed.clone();
        cache.on_change(move |_| notified.notify_one());
        cache.ready().await;
        loop {
            let seen = cache.get(&Key::new(&*place.namespace, &*place.name));
            let seen = seen.and_then(|pod| serde_json::to_value(&*pod).ok());
            let live = match seen {
                Some(seen) => Some(seen),
                // A cache may know less than the server.
                None => self.writer.get(place).await?,
            };
            // Another pod of this name is not ours.
            let own = live.filter(|pod: &Value| pod["metadata"]["uid"] == uid);
            match payload_pod::verdict(&place.name, own.as_ref()) {
                Verdict::Done => return Ok(()),
                Verdict::Failed(failure) => return Err(failure.into()),
                Verdict::Waiting => changed.notified().await,
            }
        }
    }
}

/// The first required file that the folder of a release lacks; none if it is complete.
async fn missing(folder: &Path) -> Result<Option<String>, PodsError> {
    let (text, folder) = (folder.display().to_string(), folder.to_owned());
    tokio::task::spawn_blocking(move || {
        for path in payload_pod::required(&text) {
            match std::fs::metadata(&path) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Some(path)),
                Err(source) => return Err(PodsError::Look { folder, source }),
            }
        }
        Ok(None)
    })
    .await?
}

impl Releases for Pods {
    fn files<'a>(&'a self, wanted: &'a Wanted, deadline: Instant) -> BoxFuture<'a, Result<Files, RetrieveError>> {
        if self.images.is_given(&wanted.image) {
            return self.images.files(wanted, deadline);
        }
        async move { self.retrieve(wanted, deadline).await.map_err(RetrieveError::new) }.boxed()
    }

    fn verify<'a>(&'a self, question: Genuine<'a>) -> BoxFuture<'a, Result<Proof, RetrieveError>> {
        self.images.verify(question)
    }

    fn verified(&self) -> Option<Value> {
        self.images.verified()
    }
}
