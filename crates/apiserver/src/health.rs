//! /livez, /readyz, /healthz with their checks (KAPI-SRV-03).

use std::sync::atomic::{AtomicBool, Ordering};
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

/// The checks of `/livez` and `/healthz`, by their names in Kubernetes.
const LIVE: [&str; 4] = ["ping", "log", "etcd", "poststarthook/bootstrap-objects"];
/// The checks of `/readyz`.
const READY: [&str; 7] = ["ping", "log", "etcd", "etcd-readiness", "informer-sync", "poststarthook/bootstrap-objects", "shutdown"];

/// Answers a health path: `/readyz`, or `/readyz/CHECK`.
pub async fn answer(request: &ApiRequest, checked: &Parts<'_>, parts: &[&str]) -> Result<Answer> {
    let page = parts[0];
    let checks: &[&'static str] = if page == "readyz" { &READY } else { &LIVE };
    if parts.len() > 1 {
        let name = parts[1..].join("/");
        let Some(name) = checks.iter().find(|check| **check == name) else { return Err(ApiError::page_not_found()) };
        return Ok(match check(checked, name).await {
            Ok(()) => text(StatusCode::OK, "ok".to_owned()),
            Err(problem) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {problem}\n")),
        });
    }
    let mut outcomes = Vec::with_capacity(checks.len());
    let excluded: Vec<&str> = request.query.all("exclude").collect();
    for name in checks {
        outcomes.push((*name, if excluded.contains(name) { None } else { Some(check(checked, name).await) }));
    }
    Ok(page_of(page, &outcomes, &excluded, request.query.first("verbose").is_some()))
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

async fn check(parts: &Parts<'_>, name: &str) -> std::result::Result<(), Unhealthy> {
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
        "poststarthook/bootstrap-objects" => holds(parts.readiness.bootstrapped.load(Ordering::Acquire), "not finished"),
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
