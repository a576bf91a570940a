//! The content of bundles that a resolution found, pulled beside the workers (OLM0-CAT-30 to OLM0-CAT-32).
//!
//! A failed pull is tried again until the time for unpacking is up. After that the bundle stays failed until its Subscriptions change, or for the
//! retry interval that the OperatorGroup sets.

mod jobs;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mainstay_olm_classic_core::resolve::BundleLookup;
use mainstay_olm_classic_core::steps::Loaded;
use mainstay_runtime::Key;
use mainstay_runtime::jobs::{Asked, Jobs, Terms, origin};

use super::images::ImageFailure;
use super::parts::Parts;
use super::serving::CatalogServing;

pub use jobs::unpacked;

/// The longest time of one pull of a bundle.
const PULL: Duration = Duration::from_secs(300);
/// The text of a bundle that is not there yet, as upstream's unpack Job has it.
const INCOMPLETE: &str = "unpack job not completed";

/// The limits of a namespace for unpacking.
#[derive(Debug, Clone, Copy)]
pub struct UnpackTerms {
    /// The time in which a bundle must be unpacked; none for no limit.
    pub timeout: Option<Duration>,
    /// The interval after which a failed bundle is tried again; none for never.
    pub retry: Option<Duration>,
}

/// The state of a bundle's content.
#[derive(Debug, Clone)]
pub enum Unpacked {
    /// The content.
    Ready(Arc<Loaded>),
    /// It is being pulled for the first time.
    Pulling,
    /// It could not be pulled so far; another try follows.
    Failing(String),
    /// It is given up.
    Failed {
        /// The reason, as a Job has it.
        reason: String,
        /// The sentence.
        message: String,
        /// The time until it is tried again; none for never.
        again: Option<Duration>,
    },
}

/// The pulls of bundles.
pub struct Bundles {
    jobs: Jobs<Result<Arc<Loaded>, ImageFailure>>,
    tries: Mutex<HashMap<(String, String), Tries>>,
    /// The namespaces that wait for an unpack Job, by its place.
    waiting: Mutex<HashMap<Key, BTreeSet<String>>>,
}

/// The tries to unpack a bundle for a namespace.
struct Tries {
    since: Timestamp,
    failed: Option<(Timestamp, &'static str, String)>,
}

impl Bundles {
    /// Makes an empty set of pulls. `wake` is called with the namespace for which one ended.
    pub fn new(wake: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let overdue = |after: Duration| Err(ImageFailure::because(format!("the pull was given up after {} s", after.as_secs())));
        let jobs = Jobs::new(Terms { deadline: PULL, fresh: Duration::ZERO }, overdue);
        jobs.wake_by(move |key| wake(&key.name));
        Self { jobs, tries: Mutex::default(), waiting: Mutex::default() }
    }

    /// Returns the content of a bundle for a namespace, or how far its pull is.
    pub async fn unpack(&self, parts: &Arc<Parts>, namespace: &str, lookup: &BundleLookup, terms: UnpackTerms) -> Unpacked {
        if let CatalogServing::Pods { tools, .. } = &parts.serving {
            return self.by_job(parts, namespace, lookup, terms, tools).await;
        }
        let now = parts.env.now();
        let key = (namespace.to_owned(), lookup.path.clone());
        if let Some(given_up) = self.given_up(&key, terms, now) {
            return given_up;
        }
        let secrets = parts.caches.sources.get(&Key::new(&*lookup.catalog.namespace, &*lookup.catalog.name));
        let secrets: Vec<String> = secrets
            .iter()
            .flat_map(|source| source.data["spec"]["secrets"].as_array().into_iter().flatten())
            .filter_map(|secret| secret.as_str().map(str::to_owned))
            .collect();
        let (source, image) = (lookup.catalog.namespace.clone(), lookup.path.clone());
        let job = format!("{source} {} {image}", secrets.join(","));
        let (own, reference) = (parts.clone(), image.clone());
        let pull = move || async move { own.images.bundle(&source, &reference, &secrets).await };
        let found = self.jobs.ask(&job, origin(&image), &Key::new("", namespace), pull).await;
        match found {
            Asked::Ended(Ok(loaded)) => {
                self.tries().remove(&key);
                Unpacked::Ready(loaded)
            }
            Asked::Running(_) => Unpacked::Pulling,
            Asked::Ended(Err(failure)) => self.failed(key, terms, &failure, &lookup.path, now),
        }
    }

    /// Begins again for a namespace: its Subscriptions changed.
    pub fn forget(&self, namespace: &str) {
        self.tries().retain(|(of, _), _| of != namespace);
    }

    /// Returns the namespaces that wait for an unpack Job.
    pub fn waiting_for(&self, job: &Key) -> BTreeSet<String> {
        self.waiting().get(job).cloned().unwrap_or_default()
    }

    fn given_up(&self, key: &(String, String), terms: UnpackTerms, now: Timestamp) -> Option<Unpacked> {
        let mut tries = self.tries();
        let tried = tries.get_mut(key)?;
        let (at, reason, message) = tried.failed.clone()?;
        let passed = Duration::try_from(now.duration_since(at)).unwrap_or_default();
        let again = terms.retry.map(|retry| retry.saturating_sub(passed));
        if again == Some(Duration::ZERO) {
            tries.remove(key);
            return None;
        }
        Some(Unpacked::Failed { reason: reason.to_owned(), message, again })
    }

    fn failed(&self, key: (String, String), terms: UnpackTerms, failure: &ImageFailure, image: &str, now: Timestamp) -> Unpacked {
        let mut tries = self.tries();
        let tried = tries.entry(key).or_insert(Tries { since: now, failed: None });
        let over = terms
            .timeout
            .is_some_and(|timeout| SignedDuration::try_from(timeout).is_ok_and(|most| now.duration_since(tried.since) >= most));
        // Content that cannot be used makes a Job fail until its limit of tries.
        let given_up = match (failure.is_content, over) {
            (true, _) => Some("BackoffLimitExceeded"),
            (false, true) => Some("DeadlineExceeded"),
            (false, false) => None,
        };
        let Some(reason) = given_up else {
            return Unpacked::Failing(format!(
                "{INCOMPLETE}: bundle {image} is pending. Reason: ErrImagePull, Message: {}",
                failure.message
            ));
        };
        let message = format!("bundle {image}: {}", failure.message);
        tried.failed = Some((now, reason, message.clone()));
        Unpacked::Failed { reason: reason.to_owned(), message, again: terms.retry }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Key, BTreeSet<String>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tries(&self) -> MutexGuard<'_, HashMap<(String, String), Tries>> {
        self.tries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
