//! Background jobs whose duration depends on external content: pulls, unpacking, reading, fetching.
//!
//! ```text
//!   reconcile ── ask ──► a job: one for what is asked, in the lane of its origin, with a deadline
//!       ▲                 │
//!       │                 ├── ends at once ─► its result, as if it had been done here
//!       └──── woken ◄─────┘ takes longer   ─► `Running`: the worker goes on with others; the end wakes the caller
//! ```
//!
//! So a stalled registry or endless content holds no worker. It occupies a worker for a moment, then one of the few places of its own lane until it
//! counts as slow, then one of the places for slow jobs, for at most the deadline. Repositories of one registry do not wait for stalled ones of the
//! same registry. Removals and repairs of the same object continue meanwhile.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::Key;

/// The time that the caller which starts a job waits for it before it does something else. Nearby or stored content arrives within it.
const MOMENT: Duration = Duration::from_millis(300);
/// Jobs of one origin that run at a time, slow ones apart.
const LANE: usize = 8;
/// The time after which a job is slow: it leaves its place in the lane to others.
const SLOW: Duration = Duration::from_secs(2);
/// Slow jobs of one origin that run at a time; further ones keep their places in the lane. Indexing a large catalog is slow, too, and takes memory
/// and bandwidth, so the number is small.
const SLOW_LANE: usize = 24;
/// The time for which unclaimed results are kept.
const KEPT: Duration = Duration::from_secs(600);

/// The time limits of jobs of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The time after which a job is given up.
    pub deadline: Duration,
    /// The time for which a result is valid for every caller. For the callers that waited, it is always valid.
    pub fresh: Duration,
}

/// The answer to a request for a job's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked<T> {
    /// The result of the ended job.
    Ended(T),
    /// The start of the running job; its end wakes the caller.
    Running(Instant),
}

/// Jobs of one kind.
pub struct Jobs<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    state: Mutex<State<T>>,
    wake: OnceLock<Box<dyn Fn(Key) + Send + Sync>>,
    terms: Terms,
    overdue: fn(Duration) -> T,
}

struct State<T> {
    jobs: HashMap<String, Job<T>>,
    lanes: HashMap<String, Weak<Lane>>,
}

/// The places for the jobs of one origin.
struct Lane {
    places: Arc<Semaphore>,
    slow: Arc<Semaphore>,
}

struct Job<T> {
    since: Instant,
    ended: Option<Instant>,
    result: watch::Receiver<Option<T>>,
    waiting: HashSet<Key>,
    /// The callers that still wait in their first moment.
    here: usize,
    abort: Option<AbortHandle>,
}

impl<T: Clone + Send + Sync + 'static> Jobs<T> {
    /// Creates an empty set of jobs. `overdue` makes the result of a job that missed its deadline or panicked.
    pub fn new(terms: Terms, overdue: fn(Duration) -> T) -> Self {
        let state = State { jobs: HashMap::new(), lanes: HashMap::new() };
        Self { inner: Arc::new(Inner { state: Mutex::new(state), wake: OnceLock::new(), terms, overdue }) }
    }

    /// Sets the callback that wakes waiting callers. Only the first call has an effect.
    pub fn wake_by(&self, wake: impl Fn(Key) + Send + Sync + 'static) {
        let _ = self.inner.wake.set(Box::new(wake));
    }

    /// Requests the result of a job, which is started unless it is running or has just ended. Jobs of a lane share its places.
    pub async fn ask<F>(&self, name: &str, lane: &str, who: &Key, work: impl FnOnce() -> F + Send) -> Asked<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (mut result, since) = {
            let mut state = self.inner.state();
            state.sweep(self.inner.terms.fresh);
            match state.jobs.get_mut(name) {
                Some(job) => {
                    if let Some(found) = job.result.borrow().clone() {
                        job.waiting.remove(who);
                        return Asked::Ended(found);
                    }
                    if job.since.elapsed() >= MOMENT {
                        job.waiting.insert(who.clone());
                        return Asked::Running(job.since);
                    }
                    job.here += 1;
                    (job.result.clone(), job.since)
                }
                None => self.begin(&mut state, name, lane, work()),
            }
        };
        // A caller that is cancelled here no longer waits.
        let here = Here { inner: &self.inner, name };
        let ended = tokio::time::timeout(MOMENT.saturating_sub(since.elapsed()), result.wait_for(Option::is_some)).await;
        let found = ended.ok().and_then(Result::ok).and_then(|found| found.clone());
        let mut state = self.inner.state();
        let asked = match (found.or_else(|| result.borrow().clone()), state.jobs.get_mut(name)) {
            (Some(found), _) => Asked::Ended(found),
            (None, Some(job)) => {
                job.waiting.insert(who.clone());
                Asked::Running(since)
            }
            // The job was dropped, since no caller waited.
            (None, None) => Asked::Ended((self.inner.overdue)(since.elapsed())),
        };
        drop(state);
        drop(here);
        asked
    }

    fn begin<F>(&self, state: &mut State<T>, name: &str, lane: &str, work: F) -> (watch::Receiver<Option<T>>, Instant)
    where
        F: Future<Output = T> + Send + 'static,
    {
        let lane = state.lane(lane);
        let (done, result) = watch::channel(None);
        let since = Instant::now();
        let (inner, name_of) = (self.inner.clone(), name.to_owned());
        let task = tokio::spawn(async move {
            let mut place = lane.places.clone().acquire_owned().await;
            let end = Instant::now() + inner.terms.deadline;
            // A separate task turns a panic into an ordinary end.
            let mut running = AbortOnDrop(tokio::spawn(work));
            let mut ended = tokio::time::timeout(SLOW.min(inner.terms.deadline), &mut running.0).await;
            if ended.is_err() {
                if let Ok(slow) = lane.slow.clone().try_acquire_owned() {
                    place = Ok(slow);
                }
                ended = tokio::time::timeout_at(end, &mut running.0).await;
            }
            drop(place);
            let found = match ended {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => {
                    tracing::error!(job = name_of, %error, "a job ended abnormally");
                    (inner.overdue)(since.elapsed())
                }
                Err(_) => (inner.overdue)(inner.terms.deadline),
            };
            let woken: Vec<Key> = {
                let mut state = inner.state();
                done.send_replace(Some(found));
                match state.jobs.get_mut(&name_of) {
                    Some(job) => {
                        job.ended = Some(Instant::now());
                        job.waiting.iter().cloned().collect()
                    }
                    None => Vec::new(),
                }
            };
            if let Some(wake) = inner.wake.get() {
                woken.into_iter().for_each(wake);
            }
        });
        let job = Job { since, ended: None, result: result.clone(), waiting: HashSet::new(), here: 1, abort: Some(task.abort_handle()) };
        state.jobs.insert(name.to_owned(), job);
        (result, since)
    }

    /// Forgets everything for which `who` waits. Jobs for which no caller waits are aborted.
    pub fn forget(&self, who: &Key) {
        self.inner.state().jobs.retain(|_, job| {
            let waited = job.waiting.remove(who);
            let stays = !waited || !job.waiting.is_empty() || job.here > 0;
            if !stays && let Some(abort) = &job.abort {
                abort.abort();
            }
            stays
        });
    }

    /// Returns the number of running jobs.
    pub fn running(&self) -> usize {
        self.inner.state().jobs.values().filter(|job| job.ended.is_none()).count()
    }
}

impl<T> Inner<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // No code panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// Drops results that every waiting caller has fetched and that are no longer fresh, and results left unclaimed.
    fn sweep(&mut self, fresh: Duration) {
        self.jobs.retain(|_, job| {
            let Some(ended) = job.ended else { return true };
            let age = ended.elapsed();
            if job.waiting.is_empty() { age < fresh } else { age < KEPT }
        });
    }

    fn lane(&mut self, name: &str) -> Arc<Lane> {
        self.lanes.retain(|_, lane| lane.strong_count() > 0);
        if let Some(lane) = self.lanes.get(name).and_then(Weak::upgrade) {
            return lane;
        }
        let lane = Arc::new(Lane { places: Arc::new(Semaphore::new(LANE)), slow: Arc::new(Semaphore::new(SLOW_LANE)) });
        self.lanes.insert(name.to_owned(), Arc::downgrade(&lane));
        lane
    }
}

/// A caller that waits in its first moment.
struct Here<'a, T> {
    inner: &'a Inner<T>,
    name: &'a str,
}

impl<T> Drop for Here<'_, T> {
    fn drop(&mut self) {
        if let Some(job) = self.inner.state().jobs.get_mut(self.name) {
            job.here = job.here.saturating_sub(1);
        }
    }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the origin of an image: its registry.
pub fn origin(reference: &str) -> &str {
    reference.split('/').next().unwrap_or_default()
}
