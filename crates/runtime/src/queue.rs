//! A work queue of keys: each key waits once, is never worked on twice at a time, and is delayed after failures.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The delays of a key after failures in a row.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The longest delay.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(50), most: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// Returns the delay after `failures` failures in a row: doubled each time, plus up to a tenth by `fraction`, so that keys spread.
    pub fn wait(&self, failures: u32, fraction: f64) -> Duration {
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1).min(20)));
        doubled.min(self.most).mul_f64(1.0 + fraction / 10.0)
    }
}

/// A queue of keys. Clones share it.
pub struct Queue<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<K> {
    state: Mutex<State<K>>,
    wake: Notify,
    backoff: Backoff,
    started: AtomicU64,
    retried: AtomicU64,
    waited: Histogram,
    worked: Histogram,
}

struct State<K> {
    ready: VecDeque<K>,
    waiting: HashSet<K>,
    /// The keys in progress, with their start times.
    working: HashMap<K, Instant>,
    /// The time since which each key waits for its next start.
    since: HashMap<K, Instant>,
    again: HashSet<K>,
    later: BTreeMap<(Instant, u64), K>,
    /// Each key's entry in `later`: a key waits there once, for the earliest of its times.
    due: HashMap<K, (Instant, u64)>,
    failures: HashMap<K, u32>,
    count: u64,
    added: u64,
    closed: bool,
    limit: Option<Bucket>,
}

/// A token bucket.
struct Bucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// Takes a token, or returns the time at which there is one.
    fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.burst);
        self.at = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // A margin keeps rounding from causing a useless wake-up.
        Err(now + Duration::from_secs_f64((1.0 - self.tokens) / self.per_second) + Duration::from_millis(1))
    }
}

/// The counts of a queue, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys that were added and not present before.
    pub added: u64,
    /// Keys handed to workers.
    pub started: u64,
    /// Keys that were added again after a failure.
    pub retried: u64,
    /// Keys that are ready now.
    pub ready: usize,
    /// Keys in progress.
    pub working: usize,
    /// Keys that wait for a later time.
    pub later: usize,
}

/// The counts and times of a queue, for metrics.
pub(crate) struct QueueMetrics {
    /// The counts of keys.
    pub(crate) counts: Counts,
    /// The time that keys waited before they were started.
    pub(crate) waited: Histogram,
    /// The time that keys were worked on.
    pub(crate) worked: Histogram,
    /// The total time of the keys in progress.
    pub(crate) unfinished: Duration,
    /// The longest time of a key in progress.
    pub(crate) longest: Duration,
}

/// Returns client-go's buckets of both times: from 10 ns, each ten times the one before.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(10e-9, 10.0, 12))
}

impl<K: Clone + Eq + Hash + Send + 'static> Default for Queue<K> {
    fn default() -> Self {
        Self::new(Backoff::default())
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Queue<K> {
    /// Creates an empty queue.
    pub fn new(backoff: Backoff) -> Self {
        let state = State {
            ready: VecDeque::new(),
            waiting: HashSet::new(),
            working: HashMap::new(),
            since: HashMap::new(),
            again: HashSet::new(),
            later: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            count: 0,
            added: 0,
            closed: false,
            limit: None,
        };
        let (started, retried) = Default::default();
        let (waited, worked) = (seconds(), seconds());
        Self { inner: Arc::new(Inner { state: Mutex::new(state), wake: Notify::new(), backoff, started, retried, waited, worked }) }
    }

    /// Limits the queue to `per_second` keys a second over time, and `burst` at once.
    #[must_use]
    pub fn limited(self, per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        self.state().limit = Some(Bucket { per_second: per_second.max(0.001), burst, tokens: burst, at: Instant::now() });
        self
    }

    /// Adds a key. A waiting key is not added twice; a key in progress is worked on again afterwards.
    pub fn add(&self, key: K) {
        self.state().add(key);
        self.inner.wake.notify_one();
    }

    /// Adds a key after a delay. A delayed key waits until the earlier of the two times.
    pub fn add_after(&self, key: K, wait: Duration) {
        if wait.is_zero() {
            return self.add(key);
        }
        let mut state = self.state();
        state.count += 1;
        let at = (Instant::now() + wait, state.count);
        if let Some(earlier) = state.due.get(&key).copied() {
            if earlier <= at {
                return;
            }
            state.later.remove(&earlier);
        }
        state.due.insert(key.clone(), at);
        state.later.insert(at, key);
        drop(state);
        self.inner.wake.notify_one();
    }

    /// Adds a key after the delay for its failures in a row, and returns the delay.
    pub fn retry(&self, key: K, fraction: f64) -> Duration {
        let wait = {
            let mut state = self.state();
            let failures = state.failures.entry(key.clone()).or_default();
            *failures = failures.saturating_add(1);
            self.inner.backoff.wait(*failures, fraction)
        };
        self.inner.retried.fetch_add(1, Ordering::Relaxed);
        self.add_after(key, wait);
        wait
    }

    /// Forgets a key's failures.
    pub fn succeeded(&self, key: &K) {
        self.state().failures.remove(key);
    }

    /// Returns the next key to work on, or `None` if the queue is closed. The caller must call [`Queue::done`] afterwards.
    pub async fn next(&self) -> Option<K> {
        loop {
            let wait = {
                let mut state = self.state();
                if state.closed {
                    // One wake-up wakes one waiter: each passes it on until all know.
                    self.inner.wake.notify_one();
                    return None;
                }
                let now = Instant::now();
                while let Some(entry) = state.later.first_entry()
                    && entry.key().0 <= now
                {
                    let key = entry.remove();
                    state.due.remove(&key);
                    state.add(key);
                }
                let allowed = if state.ready.is_empty() { Ok(()) } else { state.limit.as_mut().map_or(Ok(()), |limit| limit.take(now)) };
                match allowed {
                    Ok(()) => {
                        if let Some(key) = state.ready.pop_front() {
                            state.waiting.remove(&key);
                            if let Some(since) = state.since.remove(&key) {
                                self.inner.waited.observe(now.saturating_duration_since(since).as_secs_f64());
                            }
                            state.working.insert(key.clone(), now);
                            if !state.ready.is_empty() {
                                self.inner.wake.notify_one();
                            }
                            self.inner.started.fetch_add(1, Ordering::Relaxed);
                            return Some(key);
                        }
                        state.later.keys().next().map(|(at, _)| *at)
                    }
                    Err(at) => Some(at),
                }
            };
            match wait {
                Some(at) => {
                    tokio::select! {
                        () = self.inner.wake.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => self.inner.wake.notified().await,
            }
        }
    }

    /// Marks a key as no longer in progress.
    pub fn done(&self, key: &K) {
        let mut state = self.state();
        if let Some(since) = state.working.remove(key) {
            self.inner.worked.observe(since.elapsed().as_secs_f64());
        }
        if state.again.remove(key) {
            state.add(key.clone());
            drop(state);
            self.inner.wake.notify_one();
        }
    }

    /// Closes the queue: [`Queue::next`] returns `None` to every caller.
    pub fn close(&self) {
        self.state().closed = true;
        self.inner.wake.notify_waiters();
        self.inner.wake.notify_one();
    }

    /// Returns the number of keys that are ready or in progress (delayed keys do not count).
    pub fn depth(&self) -> usize {
        let state = self.state();
        state.ready.len() + state.working.len()
    }

    /// Returns the counts of the queue.
    pub fn counts(&self) -> Counts {
        let state = self.state();
        Counts {
            added: state.added,
            started: self.inner.started.load(Ordering::Relaxed),
            retried: self.inner.retried.load(Ordering::Relaxed),
            ready: state.ready.len(),
            working: state.working.len(),
            later: state.later.len(),
        }
    }

    /// Returns the counts with times.
    pub(crate) fn measured(&self) -> QueueMetrics {
        let counts = self.counts();
        let now = Instant::now();
        let running: Vec<Duration> = self.state().working.values().map(|since| now.saturating_duration_since(*since)).collect();
        let (unfinished, longest) = (running.iter().sum(), running.iter().max().copied().unwrap_or_default());
        QueueMetrics { counts, waited: self.inner.waited.clone(), worked: self.inner.worked.clone(), unfinished, longest }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        // No code panics while the lock is held; a poisoned state is still consistent.
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn add(&mut self, key: K) {
        self.since.entry(key.clone()).or_insert_with(Instant::now);
        let new = if self.working.contains_key(&key) {
            self.again.insert(key)
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
            true
        } else {
            false
        };
        self.added += u64::from(new);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_is_worked_on_once_at_a_time() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().await, Some("a"));
        queue.add("a");
        assert_eq!(queue.next().await, Some("b"));
        queue.done(&"b");
        queue.done(&"a");
        assert_eq!(queue.next().await, Some("a"));
        queue.close();
        assert_eq!(queue.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_until_success() {
        let queue = Queue::new(Backoff { first: Duration::from_secs(1), most: Duration::from_secs(5) });
        let waits: Vec<_> = (0..4).map(|_| queue.retry("a", 0.0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5]);
        queue.succeeded(&"a");
        assert_eq!(queue.retry("a", 0.0).as_secs(), 1);
        let start = Instant::now();
        assert_eq!(queue.next().await, Some("a"));
        assert_eq!(start.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_for_the_earliest_of_its_times() {
        let queue = Queue::default();
        for seconds in [600, 5, 60] {
            queue.add_after("a", Duration::from_secs(seconds));
        }
        assert_eq!(queue.counts().later, 1);
        let start = Instant::now();
        assert_eq!(queue.next().await, Some("a"));
        assert_eq!(start.elapsed().as_secs(), 5);
        assert_eq!(queue.counts(), Counts { added: 1, started: 1, working: 1, ..Counts::default() });
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_spreads_the_work() {
        let queue = Queue::default().limited(1.0, 2);
        (0..4).for_each(|key| queue.add(key));
        let start = Instant::now();
        let mut seconds = Vec::new();
        for _ in 0..4 {
            let key = queue.next().await.unwrap();
            queue.done(&key);
            seconds.push(start.elapsed().as_secs());
        }
        assert_eq!(seconds, [0, 0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_ends_all_workers() {
        let queue: Queue<u8> = Queue::default();
        let workers: Vec<_> = (0..8)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.next().await })
            })
            .collect();
        tokio::task::yield_now().await;
        queue.close();
        for worker in workers {
            assert_eq!(worker.await.unwrap(), None);
        }
    }
}
