//! A drain, one pass at a time.

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::Client;
use mainstay_machine_core::drain::filter::{Fates, Pod};

use crate::budgets::{self, Budget};
use crate::evict::{self, Attempt};
use crate::pods::{self, Found, PodRef};
use crate::{DrainError, Options, Why};

/// Evictions that are under way at once.
const AT_ONCE: usize = 50;

/// The drain of a node.
#[derive(Clone)]
pub struct Drain {
    client: Client,
    node: String,
    options: Options,
}

/// The state of a drain after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No pod that must leave is left.
    Done,
    /// Pods remain, each with its reason, by namespace and name.
    Waiting {
        /// The pods.
        remaining: Vec<(PodRef, Why)>,
    },
}

/// The findings of a look at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The pods that leave, by namespace and name.
    pub leaving: Vec<Found>,
    /// Warnings about pods that stay or are lost, as `kubectl drain` prints them; empty if there are none.
    pub warnings: String,
    /// The reasons that forbid the drain, one text each.
    pub refused: Vec<String>,
}

impl Drain {
    /// Creates a drain of a node.
    pub fn new(client: Client, node: impl Into<String>, options: Options) -> Self {
        Self { client, node: node.into(), options }
    }

    /// Returns the name of the node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Reads the pods of the node and decides about each.
    ///
    /// # Errors
    /// The server refuses a request.
    pub async fn look(&self, now: Timestamp) -> Result<Look, DrainError> {
        let found = pods::of_node(&self.client, &self.node, self.options.pod_selector.as_deref()).await?;
        let sets = pods::daemon_sets(&self.client, &found).await?;
        let facts: Vec<Pod> = found.iter().map(|found| found.facts.clone()).collect();
        let exists = |namespace: &str, name: &str| sets.contains(&(namespace.to_owned(), name.to_owned()));
        let fates = Fates::of(&facts, self.options.settings, now, exists);
        let leaves = |found: &Found| fates.evicted().any(|pod| (&pod.namespace, &pod.name) == (&found.pod.namespace, &found.pod.name));
        let (warnings, refused) = (fates.warnings(), fates.errors());
        Ok(Look { leaving: found.iter().filter(|found| leaves(found)).cloned().collect(), warnings, refused })
    }

    /// Asks the server to let a pod go, once.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn evict(&self, pod: &Found) -> Result<Attempt, DrainError> {
        evict::evict(&self.client, pod, &self.options).await
    }

    /// Returns the budgets that cover a pod; empty if they cannot be read.
    pub async fn budgets(&self, pod: &Found) -> Vec<Budget> {
        budgets::covering(&self.client, &pod.pod.namespace, &pod.labels).await
    }

    /// Evicts every pod that may be evicted now, and says which ones remain and why. It does not wait for any of them.
    ///
    /// # Errors
    /// Pods forbid the drain, or the pods of the node cannot be read. A single eviction that fails is a reason ([`Why`]), not an error.
    pub async fn pass(&self, now: Timestamp) -> Result<Progress, DrainError> {
        let look = self.look(now).await?;
        if !look.refused.is_empty() {
            return Err(DrainError::Refused(look.refused));
        }
        // Futures that are made before they are polled can be sent between threads: one that a stream makes of a reference cannot.
        let attempts: Vec<_> = look.leaving.iter().map(|found| self.remains(found)).collect();
        let remaining: Vec<(PodRef, Why)> =
            futures::stream::iter(attempts).buffered(AT_ONCE).filter_map(std::future::ready).collect().await;
        Ok(if remaining.is_empty() { Progress::Done } else { Progress::Waiting { remaining } })
    }

    /// Evicts one pod unless it is ending already; it with the reason why it remains, `None` if it is gone.
    async fn remains(&self, found: &Found) -> Option<(PodRef, Why)> {
        Some((found.pod.clone(), self.attempt(found).await?))
    }

    /// Evicts one pod unless it is ending already; `None` if it is gone.
    async fn attempt(&self, found: &Found) -> Option<Why> {
        if found.deleted.is_some() && !self.shortens(found) {
            return Some(Why::Ending { since: found.deleted });
        }
        match self.evict(found).await {
            Ok(Attempt::Accepted) => Some(Why::Ending { since: found.deleted }),
            Ok(Attempt::Gone) => None,
            Ok(Attempt::Forbidden(message)) => Some(Why::Budget { budgets: self.budgets(found).await, message }),
            Ok(Attempt::TerminatingNamespace(message)) => Some(Why::TerminatingNamespace { message }),
            Ok(Attempt::Refused(message)) => Some(Why::Refused { message }),
            Err(error) => Some(Why::NoAnswer { message: error.to_string() }),
        }
    }

    /// Returns whether another eviction would make a pod end sooner than it was asked to.
    fn shortens(&self, found: &Found) -> bool {
        self.options.grace_period.is_some_and(|seconds| found.grace.is_some_and(|grace| seconds < grace))
    }
}
