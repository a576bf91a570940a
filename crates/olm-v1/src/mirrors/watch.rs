//! Observing the objects that hold mirror rules, and acting on the plan that they lead to.
//!
//! The kinds need not be there: only OpenShift has them by itself. So their definitions are watched, and the objects of those that are
//! served. An end of a definition is an end of its rules.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use mainstay_oci::Registries;
use mainstay_runtime::{Cache, Env, Key, Optional, Outcome, Queue};
use serde_json::Value;
use tokio::sync::watch as signal;
use tokio_util::sync::CancellationToken;

use super::{KINDS, MirrorKind, Plan, Refused, plan};
use crate::events::Events;
use crate::images::Images;

/// How long pulls wait at the start for the rules. A cluster that does not let them be read must not keep everything from being pulled.
const FIRST: Duration = Duration::from_secs(5);

/// Keeps the mirror rules of the images as the cluster's objects say.
pub struct Mirrors {
    client: Client,
    images: Arc<Images>,
    events: Events,
    env: Env,
    known: signal::Sender<bool>,
    told: Mutex<Told>,
}

/// Why the rules could not be looked at or used; tried again.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The settings that the rules are added to cannot be read.
    #[error("the mirror rules of the cluster cannot be used")]
    Images(#[from] mainstay_oci::Error),
    /// An object cannot be read.
    #[error("an object with mirror rules cannot be read")]
    Form(#[from] serde_json::Error),
}

/// What was done last.
struct Told {
    registries: Option<Registries>,
    refused: BTreeSet<String>,
}

impl Mirrors {
    /// Reads with `client`.
    pub fn new(client: Client, images: Arc<Images>, events: Events, env: Env) -> Self {
        let told = Mutex::new(Told { registries: None, refused: BTreeSet::new() });
        Self { client, images, events, env, known: signal::channel(false).0, told }
    }

    /// Waits until the rules that are there at the start are in force, but not for long.
    pub async fn known(&self) {
        let mut known = self.known.subscribe();
        if tokio::time::timeout(FIRST, known.wait_for(|known| *known)).await.is_err() {
            tracing::warn!("mirror rules of the cluster cannot be read yet; images are pulled without them");
        }
    }

    /// Runs until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let queue: Queue<Key> = Queue::default();
        let follow = |kind: MirrorKind| {
            let woken = queue.clone();
            Optional::start(&self.client, kind.resource(), &stop, move || woken.add(key()))
        };
        let watched = Arc::new(KINDS.map(follow));
        let (env, mirrors) = (self.env.clone(), self);
        let reconcile = move |_: Key| {
            let (mirrors, watched) = (mirrors.clone(), watched.clone());
            async move { mirrors.reconcile(&*watched) }
        };
        mainstay_runtime::run("mirrors", queue, 1, env, stop, reconcile).await;
    }

    fn reconcile(&self, watched: &[Optional]) -> Result<Outcome, MirrorError> {
        let observed = observe(watched)?;
        let files = self.images.registries()?;
        let plan = plan(&files, &observed.objects);
        self.images.mirror(observed.objects);
        self.act(&files, plan);
        if observed.complete {
            self.known.send_replace(true);
        }
        Ok(Outcome::Done)
    }

    /// Says what has changed, and which objects are passed over.
    fn act(&self, files: &Registries, Plan { registries, refused }: Plan) {
        let news: Vec<Refused> = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.registries.as_ref().unwrap_or(files) != &registries {
                tracing::info!("mirror rules of the cluster changed; they count from the next pull on");
            }
            told.registries = Some(registries);
            let before = std::mem::replace(&mut told.refused, refused.iter().map(identity).collect());
            refused.into_iter().filter(|each| !before.contains(&identity(each))).collect()
        };
        for Refused { object, problem } in news {
            tracing::warn!(problem, "mirror rules of an object cannot be used; the object is passed over");
            self.events.warning(&object, "MirrorRulesRefused", &format!("{problem}; none of the object's rules is used"));
        }
    }
}

/// What makes a refusal the same as one that was told: the object as it was, and the reason.
fn identity(refused: &Refused) -> String {
    let metadata = &refused.object["metadata"];
    format!("{} {} {}", metadata["uid"], metadata["resourceVersion"], refused.problem)
}

/// What is known of the cluster's rules.
struct Observed {
    /// The objects by kind and name.
    objects: Vec<Value>,
    /// Whether everything that is served has been read.
    complete: bool,
}

/// What can be read counts, even where something else cannot. Whatever becomes known later wakes the queue.
fn observe(watched: &[Optional]) -> Result<Observed, MirrorError> {
    let caches: Vec<Cache> = watched.iter().filter_map(Optional::objects).collect();
    let complete = watched.iter().all(Optional::is_known);
    let objects = caches.iter().flat_map(Cache::all).map(|object| serde_json::to_value(&*object)).collect::<Result<_, _>>()?;
    Ok(Observed { objects, complete })
}

/// Everything is looked at together, so there is one key.
fn key() -> Key {
    Key::new("", "mirrors")
}
