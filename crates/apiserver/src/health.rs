//! /livez, /readyz, /healthz with their checks (KAPI-SRV-03).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use tokio_util::sync::CancellationToken;

use crate::error::{ApiError, Result};
use crate::object_store::ObjectStore;
use crate::request::ApiRequest;
use crate::respond::Answer;

/// Why a check fails. The log says it, clients are not told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Unhealthy(String);

/// The steps of the start that the server is ready after.
#[derive(Default)]
pub struct Readiness {
    /// The built-in objects exist.
    pub bootstrapped: AtomicBool,
    /// The checks that were made, by name, page and outcome.
    pub outcomes: Mutex<BTreeMap<(&'static str, &'static str, &'static str), u64>>,
}

/// The parts of the server whose health is told.
pub struct Parts<'a> {
    /// The store and its cache.
    pub objects: &'a ObjectStore,
    /// The steps of the start.
    pub readiness: &'a Readiness,
    /// Cancelled when the server ends.
    pub closing: &'a CancellationToken,
}

/// The time that the store may take to answer a check.
const PATIENCE: Duration = Duration::from_secs(2);

/// The steps of a start, by their names in Kubernetes: those who watch a cluster ask for them. Here they are one step each of
/// [`Readiness::bootstrapped`], but for those that follow the store.
const STEPS: [&str; 28] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// The checks of a page, in Kubernetes' order.
fn checks(page: &str) -> Vec<&'static str> {
    let ready = page == "readyz";
    let first = ["ping", "log", "etcd"].into_iter().chain(["etcd-readiness", "informer-sync"].into_iter().filter(|_| ready));
    first.chain(STEPS).chain(["shutdown"].into_iter().filter(|_| ready)).collect()
}

/// Answers a health path: `/readyz`, or `/readyz/CHECK`.
pub async fn answer(request: &ApiRequest, checked: &Parts<'_>, parts: &[&str]) -> Result<Answer> {
    let page = parts[0];
    let checks = checks(page);
    if parts.len() > 1 {
        let name = parts[1..].join("/");
        let Some(name) = checks.into_iter().find(|check| *check == name) else { return Err(ApiError::page_not_found()) };
        return Ok(match check(checked, page, name).await {
            Ok(()) => Answer::text(StatusCode::OK, "ok".to_owned()),
            Err(problem) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {problem}\n")),
        });
    }
    let mut outcomes = Vec::with_capacity(checks.len());
    let excluded: Vec<&str> = request.query.all("exclude").collect();
    for name in checks {
        outcomes.push((name, if excluded.contains(&name) { None } else { Some(check(checked, page, name).await) }));
    }
    Ok(page_of(page, &outcomes, &excluded, request.query.first("verbose").is_some()))
}

/// The page `/metrics/slis`: the outcome of every check, and how often each outcome there was.
pub async fn indicators(checked: &Parts<'_>) -> String {
    let mut lines = Vec::new();
    for page in ["healthz", "livez", "readyz"] {
        for name in checks(page) {
            let healthy = u8::from(check(checked, page, name).await.is_ok());
            lines.push(format!("kubernetes_healthcheck{{name=\"{name}\",type=\"{page}\"}} {healthy}\n"));
        }
    }
    lines.sort();
    let counts = checked.readiness.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
    let counted = counts.iter().map(|((name, page, status), count)| {
        format!("kubernetes_healthchecks_total{{name=\"{name}\",status=\"{status}\",type=\"{page}\"}} {count}\n")
    });
    [
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n".to_owned(),
        "# TYPE kubernetes_healthcheck gauge\n".to_owned(),
    ]
    .into_iter()
    .chain(lines)
    .chain([
        "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.\n".to_owned(),
        "# TYPE kubernetes_healthchecks_total counter\n".to_owned(),
    ])
    .chain(counted)
    .collect()
}

/// Makes a check, and counts its outcome.
async fn check(parts: &Parts<'_>, page: &str, name: &'static str) -> std::result::Result<(), Unhealthy> {
    let outcome = outcome_of(parts, name).await;
    let page = match page {
        "readyz" => "readyz",
        "livez" => "livez",
        _ => "healthz",
    };
    let status = if outcome.is_ok() { "success" } else { "error" };
    let mut counts = parts.readiness.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
    *counts.entry((name, page, status)).or_default() += 1;
    outcome
}

/// The outcome of a check; `None` where it was excluded.
type Outcome = Option<std::result::Result<(), Unhealthy>>;

fn page_of(page: &str, outcomes: &[(&str, Outcome)], excluded: &[&str], verbose: bool) -> Answer {
    let mut lines = String::new();
    let mut failed = Vec::new();
    for (name, outcome) in outcomes {
        match outcome {
            None => lines.extend(["[+]", name, " excluded: ok\n"]),
            Some(Ok(())) => lines.extend(["[+]", name, " ok\n"]),
            Some(Err(problem)) => {
                failed.push(format!("{name}: {problem}"));
                lines.extend(["[-]", name, " failed: reason withheld\n"]);
            }
        }
    }
    let mut unknown: Vec<String> =
        excluded.iter().filter(|name| outcomes.iter().all(|(known, _)| known != *name)).map(|name| format!("{name:?}")).collect();
    unknown.sort();
    unknown.dedup();
    if !unknown.is_empty() {
        lines.extend(["warn: some health checks cannot be excluded: no matches for ", &unknown.join(", "), "\n"]);
    }
    if !failed.is_empty() {
        tracing::warn!(page, checks = failed.join("; "), "health check failed");
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{page} check failed\n"));
    }
    text(StatusCode::OK, if verbose { format!("{lines}{page} check passed\n") } else { "ok".to_owned() })
}

fn text(status: StatusCode, text: String) -> Answer {
    let mut answer = Answer::text(status, text);
    answer.headers.push((header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")));
    answer
}

async fn outcome_of(parts: &Parts<'_>, name: &'static str) -> std::result::Result<(), Unhealthy> {
    let holds = |held: bool, problem: &str| if held { Ok(()) } else { Err(Unhealthy(problem.to_owned())) };
    match name {
        "etcd" if parts.objects.cache.ended() => Err(Unhealthy("the watch cache no longer follows the store".to_owned())),
        "etcd-readiness" => match tokio::time::timeout(PATIENCE, parts.objects.store.writable()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Unhealthy(format!("the store takes no writes: {error}"))),
            Err(_) => Err(Unhealthy("the store does not say in time whether it takes writes".to_owned())),
        },
        "etcd" => match tokio::time::timeout(PATIENCE, stored(parts.objects)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Unhealthy(error.to_string())),
            Err(_) => Err(Unhealthy("etcd failed: the store does not answer in time".to_owned())),
        },
        "informer-sync" => {
            let shown = tokio::time::timeout(PATIENCE, parts.objects.cache.catch_up()).await;
            holds(matches!(shown, Ok(Some(_))), "the watch cache does not follow the store")
        }
        step if STEPS.contains(&step) => holds(parts.readiness.bootstrapped.load(Ordering::Acquire), "not finished"),
        "shutdown" => holds(!parts.closing.is_cancelled(), "process is shutting down"),
        // The server answers, and its log does not block.
        _ => Ok(()),
    }
}

/// Reads something of the store.
async fn stored(objects: &ObjectStore) -> std::result::Result<(), mainstay_store::Error> {
    if objects.store.shared() { objects.store.latest().await.map(|_| ()) } else { objects.store.get(crate::entry::ROOT).await.map(|_| ()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Then, World};

    /// KAPI-SRV-03: a server whose store takes no writes lives and is not ready, until it takes them again.
    #[tokio::test]
    async fn who_cannot_write_is_not_ready() {
        let world = World::new(false).await;
        for _ in 0..2 {
            world.store.arrange("whether it takes writes", 0, Then::Refuse);
        }
        for (path, status) in [("/livez", 200), ("/readyz", 500), ("/readyz/etcd-readiness", 500), ("/readyz", 200), ("/livez", 200)] {
            assert_eq!(world.send("GET", path, serde_json::Value::Null).await.0, status, "{path}");
        }
    }

    /// KAPI-SRV-03: what a health page says, in Kubernetes' words.
    #[test]
    fn pages() {
        let check = |outcomes: &[(&str, Outcome)], excluded: &[&str], verbose, status: u16, body: &str| {
            let answer = page_of("readyz", outcomes, excluded, verbose);
            let crate::respond::AnswerBody::Whole(bytes) = answer.body else { panic!("a whole body") };
            assert_eq!((answer.status.as_u16(), std::str::from_utf8(&bytes)), (status, Ok(body)));
        };
        let good: [(&str, Outcome); 2] = [("ping", Some(Ok(()))), ("etcd", Some(Ok(())))];
        check(&good, &[], false, 200, "ok");
        check(&good, &[], true, 200, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n");
        let bad: [(&str, Outcome); 2] = [("ping", Some(Ok(()))), ("etcd", Some(Err(Unhealthy("secret".into()))))];
        check(&bad, &[], false, 500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n");
        let without: [(&str, Outcome); 2] = [("ping", Some(Ok(()))), ("etcd", None)];
        let warned = "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"a\", \"b\"\n\
                      readyz check passed\n";
        check(&without, &["etcd", "b", "a", "b"], true, 200, warned);
        check(&without, &["etcd"], false, 200, "ok");
    }
}
