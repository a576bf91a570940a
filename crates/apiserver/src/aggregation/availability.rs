//! The availability of other API servers, as the condition `Available` of their APIServices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mainstay_objects::{Condition, set_condition};
use mainstay_store::Expect;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::documents;
use super::index::{AVAILABLE, Aggregation, RemoteApi};
use super::proxy::aggregator_request;
use crate::apiservices::LOCAL;
use crate::error::Result;
use crate::object_store::ObjectStore;
use crate::remote::{Address, ClientConfig, Facts, Failure, Remotes, Target, Trust};

/// Why an aggregated API does not count as available, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct NoAnswer(String);

/// The pause before an API server that answers is asked again.
const EVERY: Duration = Duration::from_secs(30);
/// The first and the longest pause before one that does not answer is asked again.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The time that the answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most of its addresses that are tried.
const ATTEMPTS: usize = 5;

/// The content of the condition.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    status: bool,
    reason: &'static str,
    message: String,
}

/// The task that keeps conditions and documents, with the parts of the server that it works on.
pub struct Availability {
    /// APIServices, to be read and written.
    pub objects: Arc<ObjectStore>,
    /// The index and the documents.
    pub aggregation: Arc<Aggregation>,
    /// The way to the other servers.
    pub remotes: Arc<Remotes>,
    /// Cancelled when the server ends.
    pub closing: CancellationToken,
}

impl Availability {
    /// Keeps the conditions and the documents until the server ends. An API server that is slow delays its own callers alone.
    pub async fn run(self) {
        let this = Arc::new(self);
        tokio::join!(keep_local(&this), keep_remote(&this));
    }
}

/// Says of APIServices without a Service that they are available.
async fn keep_local(parts: &Availability) {
    loop {
        let failed = !settle_local(parts).await;
        tokio::select! {
            () = parts.closing.cancelled() => return,
            () = parts.aggregation.unsettled_changed.notified() => {}
            () = tokio::time::sleep(AGAIN.0), if failed => {}
        }
    }
}

/// Says it of those that do not say so yet; false where that failed for one of them, which is then tried again.
async fn settle_local(parts: &Availability) -> bool {
    let mut settled = true;
    for name in parts.aggregation.take_unsettled() {
        if parts.aggregation.index().values().any(|remote| remote.name == name) {
            continue;
        }
        let verdict = Verdict { status: true, reason: "Local", message: LOCAL.to_owned() };
        if let Err(error) = tell(parts, &name, &verdict).await {
            tracing::debug!(name, %error, "the condition of an APIService could not be written yet");
            parts.aggregation.put_back_unsettled(&name);
            settled = false;
        }
    }
    settled
}

/// An API server that a task looks after; the task ends with it.
struct Followed {
    remote: Arc<RemoteApi>,
    look: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

/// Has a task for each API server of others.
async fn keep_remote(parts: &Arc<Availability>) {
    let mut followed: BTreeMap<String, Followed> = BTreeMap::new();
    loop {
        let index = parts.aggregation.index();
        // Whoever moved is asked at its new place at once, whatever the old one still has to say.
        followed.retain(|name, one| index.values().any(|remote| remote.name == *name && remote.same_place(&one.remote)));
        for remote in index.values() {
            if let Some(known) = followed.get(&remote.name) {
                known.look.notify_one();
                continue;
            }
            let look = Arc::new(Notify::new());
            let task = AbortOnDropHandle::new(tokio::spawn(follow(parts.clone(), remote.clone(), look.clone())));
            followed.insert(remote.name.clone(), Followed { remote: remote.clone(), look, _task: task });
        }
        tokio::select! {
            () = parts.closing.cancelled() => return,
            () = parts.aggregation.changed.notified() => {}
        }
    }
}

/// Looks after one until it is gone: now and then, soon where it does not answer, at once when asked to look.
async fn follow(parts: Arc<Availability>, remote: Arc<RemoteApi>, look: Arc<Notify>) {
    let mut pause = AGAIN.0;
    loop {
        let wait = if look_after(&parts, &remote).await {
            pause = AGAIN.0;
            EVERY
        } else {
            pause = (pause * 2).min(AGAIN.1);
            pause / 2
        };
        tokio::select! {
            () = look.notified() => pause = AGAIN.0,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Checks one, writes its condition, fetches its documents; says whether it answers and its condition says so.
async fn look_after(parts: &Availability, remote: &RemoteApi) -> bool {
    let verdict = check(parts, remote).await;
    let told = tell(parts, &remote.name, &verdict).await;
    if let Err(error) = &told {
        tracing::debug!(name = remote.name, %error, "the condition of an APIService could not be written yet");
    }
    if verdict.status
        && let Some(fetched) = documents::fetch(&parts.remotes, remote).await
    {
        parts.aggregation.keep(&remote.name, fetched);
    }
    verdict.status && told.is_ok()
}

async fn check(parts: &Availability, remote: &RemoteApi) -> Verdict {
    let failed = |message: String| Verdict { status: false, reason: "FailedDiscoveryCheck", message };
    let config = match &remote.config {
        Ok(config) => config,
        Err(error) => return failed(error.to_string()),
    };
    let Target::Service { namespace, name, port, .. } = &config.target else { return failed("it names no Service".to_owned()) };
    // A process of this machine needs no Service.
    if parts.remotes.local(namespace, name).is_none()
        && let Some(verdict) = service(&parts.remotes.service(namespace, name), namespace, name, *port)
    {
        return verdict;
    }
    let addresses = match parts.remotes.addresses(&config.target) {
        Ok(addresses) => addresses,
        Err(error) => return failed(error.to_string()),
    };
    let path = format!("/apis/{}/{}", remote.group, remote.version);
    let mut last = String::new();
    for address in addresses.iter().take(ATTEMPTS) {
        match probe(parts, address, &path).await {
            Ok(()) => return Verdict { status: true, reason: "Passed", message: "all checks passed".to_owned() },
            Err(failure) => last = failure.to_string(),
        }
    }
    failed(last)
}

/// Asks for what every aggregated API server must serve. Who answers is not verified here, as upstream: this only says that
/// somebody does.
async fn probe(parts: &Availability, address: &Address, path: &str) -> Result<(), NoAnswer> {
    let url = format!("https://{address}{path}");
    let config = ClientConfig { target: Target::Url(format!("https://{address}")), trust: Trust::Any };
    let request = aggregator_request(&url, "application/json").map_err(|error| NoAnswer(error.to_string()))?;
    match parts.remotes.fetch(&config, request, PATIENCE).await {
        Ok((parts, _)) if (200..300).contains(&parts.status.as_u16()) => Ok(()),
        Ok((parts, _)) => {
            let bad = format!("bad status from {url}: {}", parts.status.as_u16());
            Err(NoAnswer(format!("failing or missing response from {url}: {bad}")))
        }
        Err(Failure::Timeout) => Err(NoAnswer(format!(
            "failing or missing response from {url}: Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        ))),
        Err(failure) => Err(NoAnswer(format!("failing or missing response from {url}: Get \"{url}\": {failure}"))),
    }
}

/// The verdict that follows from the Service alone; `None` if something may answer.
fn service(facts: &Facts, namespace: &str, name: &str, port: u16) -> Option<Verdict> {
    let verdict = |reason, message| Some(Verdict { status: false, reason, message });
    let Some(object) = &facts.service else {
        return verdict("ServiceNotFound", format!("service/{name} in {namespace:?} is not present"));
    };
    if object.pointer("/spec/type").and_then(Value::as_str).is_some_and(|kind| kind != "ClusterIP") {
        return None;
    }
    let Ok(port_name) = facts.port_name(name, port) else {
        return verdict("ServicePortError", format!("service/{name} in {namespace:?} is not listening on port {port}"));
    };
    if facts.slices.is_empty() && facts.endpoints.is_none() {
        return verdict("EndpointsNotFound", format!("cannot find endpointslices for service/{name} in {namespace:?}"));
    }
    if facts.ready(&port_name).is_empty() {
        let why = format!("endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}");
        return verdict("MissingEndpoints", why);
    }
    None
}

/// Writes the condition; again where somebody else wrote at the same time.
async fn tell(parts: &Availability, name: &str, verdict: &Verdict) -> Result<()> {
    crate::object_store::retry_on_conflict(|| try_to_tell(parts, name, verdict)).await
}

async fn try_to_tell(parts: &Availability, name: &str, verdict: &Verdict) -> Result<()> {
    let services = parts.objects.built_in("apiregistration.k8s.io", "apiservices")?;
    let Some(live) = parts.objects.load(&services, "", name).await? else { return Ok(()) };
    let mut next = live.value.clone();
    let condition = Condition { kind: AVAILABLE, status: verdict.status, reason: verdict.reason, message: &verdict.message };
    if !set_condition(&mut next, &condition, &crate::clock::now()) {
        return Ok(());
    }
    crate::fields::by_server(&services, &live.value, &mut next, Some("status"));
    parts.objects.save(&services, &mut next, Expect::Revision(live.revision)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use mainstay_objects::condition;
    use serde_json::json;

    use super::*;
    use crate::testing::{Then, World};

    /// KAPI-AGG-01: what a Service tells of an API server behind it, in the recorded words.
    #[test]
    fn services() {
        let object = |port: u16| Some(json!({"spec": {"type": "ClusterIP", "ports": [{"port": port}]}}));
        let ready = |ready: bool| {
            vec![json!({"ports": [{"name": "", "port": 1}], "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]})]
        };
        for (facts, wanted) in [
            (Facts::default(), Some(("ServiceNotFound", "service/s in \"n\" is not present"))),
            (
                Facts { service: object(80), ..Facts::default() },
                Some(("ServicePortError", "service/s in \"n\" is not listening on port 443")),
            ),
            (
                Facts { service: object(443), ..Facts::default() },
                Some(("EndpointsNotFound", "cannot find endpointslices for service/s in \"n\"")),
            ),
            (
                Facts { service: object(443), slices: ready(false), endpoints: None },
                Some(("MissingEndpoints", "endpointslices for service/s in \"n\" have no addresses with port name \"\"")),
            ),
            (Facts { service: object(443), slices: ready(true), endpoints: None }, None),
            (Facts { service: Some(json!({"spec": {"type": "ExternalName"}})), ..Facts::default() }, None),
        ] {
            let found = service(&facts, "n", "s", 443);
            assert_eq!(found.as_ref().map(|verdict| (verdict.reason, verdict.message.as_str())), wanted);
        }
    }

    /// KAPI-AGG-01: an APIService gets its condition though the store fails in that moment.
    #[tokio::test(flavor = "multi_thread")]
    async fn failures_are_not_the_end() {
        const KEY: &str = "/registry/apiregistration.k8s.io/apiservices/v7.example.com";
        let world = World::new(false).await;
        // The first write is the client's.
        world.store.arrange(KEY, 1, Then::Refuse);
        world.store.arrange(KEY, 0, Then::Refuse);
        let spec = json!({"group": "example.com", "version": "v7", "groupPriorityMinimum": 1, "versionPriority": 1});
        let service =
            json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v7.example.com"}, "spec": spec});
        let (status, answer) = world.send("POST", "/apis/apiregistration.k8s.io/v1/apiservices", service).await;
        assert_eq!(status, http::StatusCode::CREATED, "{answer}");
        let local = |service: Option<&Value>| {
            service.and_then(|service| condition(service, AVAILABLE)).is_some_and(|condition| condition["reason"] == "Local")
        };
        world.until("apiregistration.k8s.io/apiservices", "v7.example.com", local).await;
    }
}
