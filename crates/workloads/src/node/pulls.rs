//! Images that are really pulled before a container starts, and the real work of containers that end by themselves (OLM0-CAT-36).
//!
//! Which ones is said by an [`ImagePuller`] from outside. A failed pull shows as a kubelet shows it: `ErrImagePull`, then `ImagePullBackOff`,
//! with a back-off that doubles up to five minutes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use mainstay_runtime::{Key, Queue};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::behaviour::{Behaviour, Conduct, End, Wait};
use super::images::PullError;
use crate::object::{Read as _, items};

/// The back-off after the first failure; doubled with each further one.
const BACKOFF: SignedDuration = SignedDuration::from_secs(10);
const MOST_BACKOFF: SignedDuration = SignedDuration::from_secs(300);
/// The time for which a failed pull shows before the back-off does.
const FAILED: Duration = Duration::from_secs(1);
/// The longest time of a pull, or of a container's work.
const LONGEST: Duration = Duration::from_secs(1_800);
/// Pulls at a time.
const PULLS: usize = 16;

/// An image that was pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Its ID, as a container's status has it.
    pub id: String,
    /// Reason why the container ends with an error as soon as it runs.
    pub problem: Option<String>,
}

/// The images that are really pulled, and the work that is really done.
#[async_trait]
pub trait ImagePuller: Send + Sync {
    /// Returns true if the image of a container is pulled before it starts.
    fn pulls(&self, pod: &DynamicObject, container: &Value) -> bool;

    /// Pulls the image of a container.
    ///
    /// # Errors
    /// It cannot be pulled; the text is that of a node's container runtime.
    async fn pull(&self, pod: &DynamicObject, container: &Value) -> Result<Pulled, PullError>;

    /// Returns true if a container has work to do before it ends.
    fn works(&self, pod: &DynamicObject, container: &Value) -> bool;

    /// Does the work of a container.
    ///
    /// # Errors
    /// It cannot be done: the container ends with an error.
    async fn work(&self, pod: &DynamicObject, container: &Value) -> Result<(), PullError>;
}

/// A container of a pod: the pod's uid, and its name.
type Place = (String, String);

/// Progress of the image or the work of a container.
#[derive(Clone, Debug)]
enum State {
    /// It is being done; the last failure, if there was one.
    Busy(Option<Failure>),
    /// It failed.
    Failed(Failure),
    /// The image is there.
    Pulled { pulled: Pulled, took: Duration },
    /// The work is done, or why it cannot be.
    Worked { problem: Option<String> },
}

#[derive(Clone, Debug)]
struct Failure {
    why: String,
    count: u32,
    until: Timestamp,
    /// The time at which it happened: it shows for a moment.
    at: Timestamp,
}

impl Failure {
    fn next(why: String, before: Option<&Self>, now: Timestamp) -> Self {
        let count = before.map_or(0, |before| before.count) + 1;
        let wait = (1..count).fold(BACKOFF, |wait, _| wait.saturating_mul(2).min(MOST_BACKOFF));
        Self { why, count, until: now.saturating_add(wait).unwrap_or(Timestamp::MAX), at: now }
    }

    fn shows(&self, image: &str, now: Timestamp) -> Wait {
        let shown = now.duration_since(self.at);
        let fresh = shown < SignedDuration::try_from(FAILED).unwrap_or_default();
        let left = |until: Timestamp| Duration::try_from(until.duration_since(now)).unwrap_or_default().max(Duration::from_millis(100));
        if fresh {
            return Wait { reason: "ErrImagePull", message: self.why.clone(), again: FAILED };
        }
        let message = format!("Back-off pulling image {image:?}: ErrImagePull: {}", self.why);
        Wait { reason: "ImagePullBackOff", message, again: left(self.until) }
    }
}

/// The pulls of simulated kubelets. Clones share them.
#[derive(Clone)]
pub struct Pulls {
    puller: Option<Arc<dyn ImagePuller>>,
    states: Arc<Mutex<HashMap<Place, State>>>,
    slots: Arc<Semaphore>,
    queue: Queue<Key>,
}

impl Pulls {
    /// Pulls with `puller`, if there is one. `queue` is given each pod whose pull or work has ended.
    pub fn new(puller: Option<Arc<dyn ImagePuller>>, queue: Queue<Key>) -> Self {
        Self { puller, states: Arc::default(), slots: Arc::new(Semaphore::new(PULLS)), queue }
    }

    /// Forgets a pod that is gone.
    pub fn forget(&self, pod: &DynamicObject) {
        if self.puller.is_some() {
            self.states().retain(|(uid, _), _| uid != pod.uid());
        }
    }

    /// Begins what a pod's containers need, and lets their behaviour show how far it is.
    pub fn look(&self, pod: &DynamicObject, behaviour: &mut Behaviour, now: Timestamp) {
        let Some(puller) = &self.puller else { return };
        let mut open = true;
        for (list, statuses) in
            [("/spec/initContainers", "/status/initContainerStatuses"), ("/spec/containers", "/status/containerStatuses")]
        {
            for container in items(pod, list) {
                let name = container["name"].as_str().unwrap_or_default();
                let status = items(pod, statuses).find(|status| status["name"] == *name).unwrap_or(&Value::Null);
                let begun = status.pointer("/state/running").is_some() || status.pointer("/state/terminated").is_some();
                let Some(conduct) = behaviour.containers.get_mut(name) else { continue };
                if !open {
                    continue;
                }
                if puller.pulls(pod, container) && !(begun && self.state(pod, name).is_none()) {
                    open &= self.pulled(puller, pod, container, conduct, now) || list == "/spec/containers";
                } else if puller.works(pod, container) && status.pointer("/state/terminated").is_none() {
                    self.worked(puller, pod, container, conduct, now);
                }
            }
        }
    }

    /// Returns true if the image is there.
    fn pulled(&self, puller: &Arc<dyn ImagePuller>, pod: &DynamicObject, container: &Value, conduct: &mut Conduct, now: Timestamp) -> bool {
        let image = container["image"].as_str().unwrap_or_default();
        let before = match self.state(pod, container["name"].as_str().unwrap_or_default()) {
            Some(State::Pulled { pulled, took }) => {
                let took = format!("{}ms", took.as_millis());
                conduct.pulled = Some(format!("Successfully pulled image {image:?} in {took} ({took} including waiting)"));
                conduct.image_id = Some(pulled.id);
                if let Some(problem) = pulled.problem {
                    conduct.end = Some(End::ERROR);
                    conduct.told = Some(problem);
                }
                return true;
            }
            Some(State::Busy(before)) => {
                conduct.wait = Some(before.map_or_else(Wait::begins, |before| before.shows(image, now)));
                return false;
            }
            Some(State::Failed(failure)) if now < failure.until => {
                conduct.wait = Some(failure.shows(image, now));
                return false;
            }
            Some(State::Failed(failure)) => Some(failure),
            Some(State::Worked { .. }) | None => None,
        };
        conduct.wait = Some(before.clone().map_or_else(Wait::begins, |before| before.shows(image, now)));
        let (puller, pod_now, container_now) = (puller.clone(), pod.clone(), container.clone());
        self.spawn(pod, container, before, now, async move {
            let begun = Instant::now();
            let pulled = puller.pull(&pod_now, &container_now).await?;
            Ok(State::Pulled { pulled, took: begun.elapsed() })
        });
        false
    }

    fn worked(&self, puller: &Arc<dyn ImagePuller>, pod: &DynamicObject, container: &Value, conduct: &mut Conduct, now: Timestamp) {
        match self.state(pod, container["name"].as_str().unwrap_or_default()) {
            Some(State::Worked { problem: None }) => {}
            Some(State::Worked { problem: Some(why) } | State::Failed(Failure { why, .. })) => {
                conduct.end = Some(End::ERROR);
                conduct.told = Some(why);
            }
            // It runs until its work is done.
            Some(State::Busy(_) | State::Pulled { .. }) => conduct.end = None,
            None => {
                conduct.end = None;
                let (puller, pod_now, container_now) = (puller.clone(), pod.clone(), container.clone());
                self.spawn(pod, container, None, now, async move {
                    let problem = puller.work(&pod_now, &container_now).await.err().map(|error| error.to_string());
                    Ok(State::Worked { problem })
                });
            }
        }
    }

    fn spawn(
        &self,
        pod: &DynamicObject,
        container: &Value,
        before: Option<Failure>,
        now: Timestamp,
        work: impl Future<Output = Result<State, PullError>> + Send + 'static,
    ) {
        let place = (pod.uid().to_owned(), container["name"].as_str().unwrap_or_default().to_owned());
        self.states().insert(place.clone(), State::Busy(before.clone()));
        let (pulls, key) = (self.clone(), Key::of(pod));
        tokio::spawn(async move {
            let begun = Instant::now();
            let _slot = pulls.slots.acquire().await;
            let ended = match tokio::time::timeout(LONGEST, work).await {
                Ok(ended) => ended,
                Err(_) => Err(format!("rpc error: code = DeadlineExceeded desc = no end after {} s", LONGEST.as_secs()).into()),
            };
            let now = now.saturating_add(SignedDuration::try_from(begun.elapsed()).unwrap_or_default()).unwrap_or(now);
            let state = ended.unwrap_or_else(|error| State::Failed(Failure::next(error.to_string(), before.as_ref(), now)));
            // A pod that is gone meanwhile was forgotten.
            if let Some(held) = pulls.states().get_mut(&place) {
                *held = state;
            }
            pulls.queue.add(key);
        });
    }

    fn state(&self, pod: &DynamicObject, container: &str) -> Option<State> {
        self.states().get(&(pod.uid().to_owned(), container.to_owned())).cloned()
    }

    fn states(&self) -> MutexGuard<'_, HashMap<Place, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// OLM0-CAT-36: a failed pull shows as ErrImagePull for a moment, then as ImagePullBackOff; the back-off doubles up to five minutes.
    #[test]
    fn failures_show_as_a_kubelet_shows_them() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let after = |seconds| now + SignedDuration::from_secs(seconds);
        let first = Failure::next("unauthorized".into(), None, now);
        assert_eq!(first.shows("r/c:v1", now).reason, "ErrImagePull");
        let later = first.shows("r/c:v1", after(3));
        assert_eq!((later.reason, later.again), ("ImagePullBackOff", Duration::from_secs(7)));
        assert_eq!(later.message, "Back-off pulling image \"r/c:v1\": ErrImagePull: unauthorized");
        let mut failure = first;
        let mut waits = Vec::new();
        for _ in 0..7 {
            waits.push(failure.until.duration_since(failure.at).as_secs());
            failure = Failure::next("unauthorized".into(), Some(&failure), now);
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
    }
}
