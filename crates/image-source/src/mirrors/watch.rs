//! Controller that watches the objects with mirror rules and hands the rules to an [`ImageSource`].
//!
//! The kinds need not exist: only OpenShift has them by default. So their definitions are watched, and the objects of those that are served.
//! The rules of a kind end with its definition.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use mainstay_oci::Registries;
use mainstay_runtime::{Cache, Env, Key, Optional, Outcome, Queue};
use serde_json::Value;
use tokio::sync::watch as signal;
use tokio_util::sync::CancellationToken;

use super::{KINDS, MergedRules, MirrorKind, RefusedRules, merge_rules};
use crate::error::ImageError;
use crate::source::ImageSource;

/// Longest time that pulls wait for the rules after a start. Rules that may not be read must not block every pull.
const START_WAIT: Duration = Duration::from_secs(5);

/// Reports an object whose rules are not used, once for each of its versions; usually as an event.
pub type ReportRefused = Box<dyn Fn(&RefusedRules) + Send + Sync>;

/// Controller of the mirror rules of an [`ImageSource`].
pub struct MirrorController {
    client: Client,
    images: Arc<ImageSource>,
    report: ReportRefused,
    env: Env,
    known: signal::Sender<bool>,
    reported: Mutex<Reported>,
}

/// Reason why the rules cannot be read or used; the controller tries again.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The registries' configuration, to which the rules are added, cannot be read.
    #[error("the mirror rules of the cluster cannot be used")]
    Registries(#[from] ImageError),
    /// An object cannot be read.
    #[error("an object with mirror rules cannot be read")]
    Object(#[from] serde_json::Error),
}

/// Rules and refused objects as they were reported last.
struct Reported {
    registries: Option<Registries>,
    refused: BTreeSet<String>,
}

impl MirrorController {
    /// Makes a controller that reads with `client` and sets the rules of `images`.
    pub fn new(client: Client, images: Arc<ImageSource>, report: ReportRefused, env: Env) -> Self {
        let reported = Mutex::new(Reported { registries: None, refused: BTreeSet::new() });
        Self { client, images, report, env, known: signal::channel(false).0, reported }
    }

    /// Waits until the rules that exist at the start are in force, at most five seconds.
    pub async fn known(&self) {
        let mut known = self.known.subscribe();
        if tokio::time::timeout(START_WAIT, known.wait_for(|known| *known)).await.is_err() {
            tracing::warn!("mirror rules of the cluster cannot be read yet; images are pulled without them");
        }
    }

    /// Runs the controller until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let queue: Queue<Key> = Queue::default();
        let follow = |kind: MirrorKind| {
            let woken = queue.clone();
            Optional::start(&self.client, kind.resource(), &stop, move || woken.add(key()))
        };
        let watched = Arc::new(KINDS.map(follow));
        let (env, controller) = (self.env.clone(), self);
        let reconcile = move |_: Key| {
            let (controller, watched) = (controller.clone(), watched.clone());
            async move { controller.reconcile(&*watched) }
        };
        mainstay_runtime::run("mirrors", queue, 1, env, stop, reconcile).await;
    }

    fn reconcile(&self, watched: &[Optional]) -> Result<Outcome, MirrorError> {
        let observed = observe(watched)?;
        let files = self.images.registries()?;
        let merged = merge_rules(&files, &observed.objects);
        self.images.set_mirror_objects(observed.objects);
        self.report(&files, merged);
        if observed.complete {
            self.known.send_replace(true);
        }
        Ok(Outcome::Done)
    }

    /// Reports changed rules, and refused objects that were not reported before.
    fn report(&self, files: &Registries, MergedRules { registries, refused }: MergedRules) {
        let new: Vec<RefusedRules> = {
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            if reported.registries.as_ref().unwrap_or(files) != &registries {
                tracing::info!("mirror rules of the cluster changed; they count from the next pull on");
            }
            reported.registries = Some(registries);
            let before = std::mem::replace(&mut reported.refused, refused.iter().map(identity).collect());
            refused.into_iter().filter(|each| !before.contains(&identity(each))).collect()
        };
        for refused in new {
            tracing::warn!(problem = refused.problem, "mirror rules of an object cannot be used; the object is passed over");
            (self.report)(&refused);
        }
    }
}

/// Text that identifies a refusal: the version of the object, and the problem.
fn identity(refused: &RefusedRules) -> String {
    let metadata = &refused.object["metadata"];
    format!("{} {} {}", metadata["uid"], metadata["resourceVersion"], refused.problem)
}

/// Objects with mirror rules as far as they are known.
struct Observed {
    /// The objects, sorted by kind and name.
    objects: Vec<Value>,
    /// True if every served kind has been read.
    complete: bool,
}

/// Collects the objects of all kinds that can be read. What becomes known later wakes the queue.
fn observe(watched: &[Optional]) -> Result<Observed, MirrorError> {
    let caches: Vec<Cache> = watched.iter().filter_map(Optional::objects).collect();
    let complete = watched.iter().all(Optional::is_known);
    let objects = caches.iter().flat_map(Cache::all).map(|object| serde_json::to_value(&*object)).collect::<Result<_, _>>()?;
    Ok(Observed { objects, complete })
}

/// The only key of the queue: all rules are reconciled together.
fn key() -> Key {
    Key::new("", "mirrors")
}
