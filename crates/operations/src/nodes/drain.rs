//! The drain of nodes for a person: each pod is tried until it is gone, and every step is told in the words of `kubectl drain`.

use std::fmt;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use mainstay_drain::{Attempt, Drain, DrainError, EVICTION_RETRY, Found, Method, Options, PodRef};
use mainstay_golang::{duration_text, quote};
use tokio::time::Instant;

use super::{DryRun, NodeInfo, Said};
use crate::session::Session;

/// Interval at which it is looked whether a pod is gone.
const LOOK: Duration = Duration::from_millis(500);
/// Pods that are worked on at once.
const AT_ONCE: usize = 500;

/// A request to drain nodes.
#[derive(Clone, Debug)]
pub struct DrainRequest {
    /// The manner.
    pub options: Options,
    /// The time for one node; `None` for ever.
    pub timeout: Option<Duration>,
    /// Pods that have been ending for longer, in seconds, are not waited for; all are if 0.
    pub skip_deleted_after: i64,
    /// The kind of a dry run.
    pub dry_run: DryRun,
}

/// Why a pod did not leave, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum PodFailure {
    #[error("error when evicting pods/{} -n {}: global timeout reached: {}", quote(&.pod.name), quote(&.pod.namespace), duration_text(*.after))]
    NotEvicted { pod: PodRef, after: Duration },
    #[error("error when evicting pods/{} -n {}: {message}", quote(&.pod.name), quote(&.pod.namespace))]
    Refused { pod: PodRef, message: String },
    #[error("error when waiting for pod {} in namespace {} to terminate: {cause}", quote(&.pod.name), quote(&.pod.namespace))]
    NotEnded { pod: PodRef, cause: String },
}

/// The obstacles to the drain of a node.
#[derive(Debug)]
pub struct Pending(Vec<String>);

impl fmt::Display for Pending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => out.write_str(one),
            several => write!(out, "[{}]", several.join(", ")),
        }
    }
}

/// Drains nodes that are cordoned, one after the other, and goes on after one that cannot be drained. Returns what kept each of those.
pub async fn drain(session: &Session, nodes: &[NodeInfo], request: &DrainRequest, say: &dyn Fn(Said)) -> Vec<Pending> {
    let mut failed: Vec<(&NodeInfo, Pending)> = Vec::new();
    for node in nodes {
        match one(session, &node.name, request, say).await {
            Ok(()) => say(Said::Out(format!("{node} drained{}", request.dry_run.suffix()))),
            Err(pending) => {
                let name = quote(&node.name);
                say(Said::Problem(format!("error: unable to drain node {name} due to error: {pending}, continuing command...")));
                failed.push((node, pending));
            }
        }
    }
    if !failed.is_empty() {
        say(Said::Problem("There are pending nodes to be drained:".to_owned()));
        for (node, _) in &failed {
            say(Said::Problem(format!(" {}", node.name)));
        }
    }
    failed.into_iter().map(|(_, pending)| pending).collect()
}

async fn one(session: &Session, node: &str, request: &DrainRequest, say: &dyn Fn(Said)) -> Result<(), Pending> {
    let options = Options { dry_run: request.dry_run == DryRun::Server, ..request.options.clone() };
    let drain = Drain::new(session.once.clone(), node, options);
    let look = drain.look(Timestamp::now()).await.map_err(|error| Pending(vec![error.to_string()]))?;
    if !look.refused.is_empty() {
        return Err(Pending(look.refused));
    }
    if !look.warnings.is_empty() {
        say(Said::Warning(look.warnings));
    }
    if request.dry_run == DryRun::Client {
        look.leaving.iter().for_each(|found| say(Said::Out(format!("evicting pod {} (dry run)", found.pod))));
        return Ok(());
    }
    let deadline = request.timeout.map(|timeout| (Instant::now() + timeout, timeout));
    let leaving: Vec<_> = look.leaving.iter().map(|found| leave(session, &drain, found, request, deadline, say)).collect();
    let outcomes: Vec<Result<(), PodFailure>> = futures::stream::iter(leaving).buffer_unordered(AT_ONCE).collect().await;
    let failures: Vec<String> = outcomes.into_iter().filter_map(Result::err).map(|failure| failure.to_string()).collect();
    if failures.is_empty() {
        return Ok(());
    }
    let pending = Pending(failures);
    match drain.look(Timestamp::now()).await {
        Ok(look) if look.leaving.is_empty() => {}
        Ok(look) => {
            say(Said::Problem(format!("There are pending pods in node {} when an error occurred: {pending}", quote(node))));
            look.leaving.iter().for_each(|found| say(Said::Problem(format!("pod/{}", found.pod.name))));
        }
        Err(error) => say(Said::Problem(format!("Following errors occurred while getting the list of pods to delete:\n{error}"))),
    }
    Err(pending)
}

/// Evicts a pod until that is accepted, and waits until it is gone.
async fn leave(
    session: &Session,
    drain: &Drain,
    found: &Found,
    request: &DrainRequest,
    deadline: Option<(Instant, Duration)>,
    say: &dyn Fn(Said),
) -> Result<(), PodFailure> {
    let pod = &found.pod;
    let is_over = || deadline.filter(|(at, _)| Instant::now() >= *at).map(|(_, after)| after);
    let evicts = request.options.method == Method::Evict;
    loop {
        if evicts {
            say(Said::Out(format!("evicting pod {pod}{}", request.dry_run.suffix())));
        }
        if let Some(after) = is_over() {
            return Err(PodFailure::NotEvicted { pod: pod.clone(), after });
        }
        let again = |problem: &str, message: &str| {
            let retry = duration_text(EVICTION_RETRY);
            say(Said::Problem(format!("{problem} (will retry after {retry}): {message}")));
        };
        let (name, namespace) = (quote(&pod.name), quote(&pod.namespace));
        match drain.evict(found).await {
            Ok(Attempt::Accepted) => break,
            Ok(Attempt::Gone) => return Ok(()),
            Ok(Attempt::Forbidden(message)) => again(&format!("error when evicting pods/{name} -n {namespace}"), &message),
            Ok(Attempt::TerminatingNamespace(message)) => {
                again(&format!("error when evicting pod {name} from terminating namespace {namespace}"), &message);
            }
            Ok(Attempt::Refused(message)) => return Err(PodFailure::Refused { pod: pod.clone(), message }),
            Err(error) => return Err(PodFailure::Refused { pod: pod.clone(), message: told(&error) }),
        }
        // A wait that would go beyond the time of the drain ends with it.
        let wait = deadline.map_or(EVICTION_RETRY, |(at, _)| EVICTION_RETRY.min(at.saturating_duration_since(Instant::now())));
        tokio::time::sleep(wait).await;
    }
    if request.dry_run == DryRun::Server {
        return Ok(());
    }
    let (done, failed) = if evicts { ("evicted", "eviction failed") } else { ("deleted", "deletion failed") };
    let ended = ended(session, pod, request, is_over, say).await;
    say(Said::Out(format!("pod/{} {}", pod.name, if ended.is_ok() { done } else { failed })));
    ended
}

fn told(error: &DrainError) -> String {
    match error {
        DrainError::Request { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

/// Waits until a pod is gone, or another one has its name.
async fn ended(
    session: &Session,
    pod: &PodRef,
    request: &DrainRequest,
    is_over: impl Fn() -> Option<Duration>,
    say: &dyn Fn(Said),
) -> Result<(), PodFailure> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Pod"), "pods");
    let api: Api<DynamicObject> = Api::namespaced_with(session.client.clone(), &pod.namespace, &resource);
    loop {
        let live = api.get_opt(&pod.name).await;
        let live = live.map_err(|error| PodFailure::NotEnded { pod: pod.clone(), cause: error.to_string() })?;
        let Some(live) = live.filter(|live| live.metadata.uid.as_ref() == Some(&pod.uid)) else { return Ok(()) };
        let deleted = live.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let waited = deleted.map(|deleted| Timestamp::now().duration_since(deleted).as_secs());
        if request.skip_deleted_after > 0 && waited.is_some_and(|seconds| seconds > request.skip_deleted_after) {
            let after = request.skip_deleted_after;
            say(Said::Out(format!("pod {} has DeletionTimestamp older than {after} seconds, skipping", quote(&pod.name))));
            return Ok(());
        }
        if let Some(after) = is_over() {
            let cause = format!("global timeout reached: {}", duration_text(after));
            return Err(PodFailure::NotEnded { pod: pod.clone(), cause });
        }
        tokio::time::sleep(LOOK).await;
    }
}
