//! Caches, kinds and accounts against a small API in the same process.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_runtime::{AccountError, Accounts, Cache, Cluster, Env, Key, KindError, Kinds, ManualClock, Queue, Scope};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct State {
    calls: Vec<String>,
    lists: Vec<Value>,
    watches: Vec<mpsc::Receiver<String>>,
    account_uid: String,
}

type Shared = Arc<Mutex<State>>;

#[derive(Clone)]
struct Marked;

fn not_found() -> Response {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404});
    (StatusCode::NOT_FOUND, Json(status)).into_response()
}

fn serve(state: &Shared, request: &Request<Body>) -> Response {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let path = request.uri().path().to_owned();
    let who = match request.headers().get("authorization") {
        Some(bearer) => bearer.to_str().unwrap().to_owned(),
        None if request.extensions().get::<Marked>().is_some() => "self".into(),
        None => "nobody".into(),
    };
    let mut state = state.lock().unwrap();
    state.calls.push(format!("{who} {} {path}", request.method()));
    match path.as_str() {
        "/api/v1" => Json(json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
            {"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "singularName": "", "verbs": ["get"]}]}))
        .into_response(),
        "/api/v1/configmaps" if query.contains("watch=true") && !state.watches.is_empty() => {
            let events = state.watches.remove(0);
            let lines = futures::stream::unfold(events, |mut events| async { Some((events.recv().await?, events)) });
            Body::from_stream(lines.map(Ok::<_, std::convert::Infallible>)).into_response()
        }
        "/api/v1/configmaps" if !query.contains("watch=true") && !state.lists.is_empty() => Json(state.lists.remove(0)).into_response(),
        "/api/v1/namespaces/n/serviceaccounts/installer" if !state.account_uid.is_empty() => {
            Json(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": "n", "uid": state.account_uid}}))
                .into_response()
        }
        "/api/v1/namespaces/n/serviceaccounts/installer/token" => {
            let token = format!("t{}", state.calls.len());
            Json(json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": {"audiences": []},
                "status": {"token": token, "expirationTimestamp": "2026-01-01T01:00:00Z"}}))
            .into_response()
        }
        _ => not_found(),
    }
}

fn start() -> (Cluster, Shared) {
    let state = Shared::default();
    let copy = state.clone();
    let router = Router::new().fallback(move |request: Request<Body>| std::future::ready(serve(&copy, &request)));
    let identity = |extensions: &mut axum::http::Extensions| {
        extensions.insert(Marked);
    };
    (Cluster::Embedded { router, identity }, state)
}

fn object(name: &str, version: u32, owner: Option<&str>) -> Value {
    let owners: Vec<Value> = owner.iter().map(|uid| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid})).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n", "resourceVersion": version.to_string(),
        "ownerReferences": owners, "managedFields": [{"manager": "x"}]}})
}

fn list(version: u32, items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": version.to_string()}, "items": items})
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

#[tokio::test(start_paused = true)]
async fn a_cache_follows_its_kind_and_wakes_a_queue() {
    let (cluster, state) = start();
    let (first, watch) = mpsc::channel(8);
    let (_second, again) = mpsc::channel(8);
    {
        let mut state = state.lock().unwrap();
        state.lists = vec![list(5, &[object("a", 1, None), object("b", 2, Some("u1"))]), list(9, &[object("c", 9, None)])];
        state.watches = vec![watch, again];
    }
    let stop = CancellationToken::new();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let cache = Cache::start(&cluster.client().unwrap(), &resource, &Scope::default(), &stop);
    cache.ready().await;
    let queue: Queue<Key> = Queue::default();
    let handle = queue.clone();
    cache.on_change(move |change| {
        if let Some(object) = change.object() {
            handle.add(Key::of(object));
        }
    });
    let next = || async {
        let key = queue.next().await.unwrap();
        queue.done(&key);
        key.to_string()
    };
    assert_eq!((next().await, next().await), ("n/a".into(), "n/b".into()));
    assert_eq!(cache.owned_by("u1").len(), 1);
    assert!(cache.get(&Key::new("n", "a")).unwrap().metadata.managed_fields.is_none());

    first.send(event("MODIFIED", &object("b", 6, None))).await.unwrap();
    assert_eq!(next().await, "n/b");
    assert!(cache.owned_by("u1").is_empty());
    first.send(event("DELETED", &object("a", 7, None))).await.unwrap();
    assert_eq!(next().await, "n/a");
    assert_eq!(cache.in_namespace("n").len(), 1);

    // History was compacted: listed again, what went meanwhile is told.
    let expired =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410});
    first.send(event("ERROR", &expired)).await.unwrap();
    drop(first);
    let mut told = [next().await, next().await];
    told.sort();
    assert_eq!(told, ["n/b", "n/c"]);
    assert_eq!((cache.len(), cache.is_ready()), (1, true));
    stop.cancel();
}

/// An object with its controller, if it has one.
fn controlled(name: &str, version: u32, controller: Option<&str>) -> Value {
    let mut object = object(name, version, controller);
    if controller.is_some() {
        object["metadata"]["ownerReferences"][0]["controller"] = json!(true);
    }
    object
}

/// KAPI-WL-05: an owner finds what it has and what it may take among any number of objects of others, and the index follows changes.
#[tokio::test(start_paused = true)]
async fn an_owner_finds_its_own_and_what_is_free() {
    let (cluster, state) = start();
    let (events, watch) = mpsc::channel(8);
    {
        let mut state = state.lock().unwrap();
        let items = [
            controlled("a", 1, Some("u1")),
            controlled("b", 2, None),
            controlled("c", 3, Some("u2")),
            object("d", 4, Some("u2")),
            controlled("e", 5, Some("u1")),
        ];
        state.lists = vec![list(5, &items)];
        state.watches = vec![watch];
    }
    let stop = CancellationToken::new();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let cache = Cache::start(&cluster.client().unwrap(), &resource, &Scope::default(), &stop);
    cache.ready().await;
    let names = |namespace: &str, uid: &str| {
        let found = cache.claimable(namespace, uid);
        found.iter().map(|object| object.metadata.name.clone().unwrap()).collect::<Vec<_>>().join(" ")
    };
    // An owner that does not control leaves an object free.
    assert_eq!((names("n", "u1"), names("n", "u2")), ("a b d e".into(), "b c d".into()));
    assert_eq!((names("n", "nobody"), names("other", "u1")), ("b d".into(), String::new()));
    assert_eq!(cache.matching("n", |object| object.metadata.name.as_deref() > Some("c")).len(), 2);

    let queue: Queue<Key> = Queue::default();
    let handle = queue.clone();
    cache.on_change(move |change| {
        // What is there is told of first; the changes come after it.
        if let Some(before) = &change.before {
            handle.add(Key::of(before));
        }
    });
    for (kind, changed) in
        [("MODIFIED", controlled("b", 6, Some("u2"))), ("MODIFIED", controlled("a", 7, None)), ("DELETED", controlled("d", 8, None))]
    {
        events.send(event(kind, &changed)).await.unwrap();
        let key = queue.next().await.unwrap();
        queue.done(&key);
    }
    assert_eq!((names("n", "u1"), names("n", "u2")), ("a e".into(), "a b c".into()));
    stop.cancel();
}

#[tokio::test]
async fn kinds_are_asked_for_once() {
    let (cluster, state) = start();
    let kinds = Kinds::new(cluster.client().unwrap());
    let gvk = GroupVersionKind::gvk("", "v1", "ConfigMap");
    for _ in 0..3 {
        let served = kinds.served(&gvk).await.unwrap();
        assert_eq!((served.resource.plural.as_str(), served.namespaced), ("configmaps", true));
    }
    assert_eq!(state.lock().unwrap().calls, ["self GET /api/v1"]);
    let unknown = kinds.served(&GroupVersionKind::gvk("example.com", "v1", "Thing")).await.unwrap_err();
    assert!(matches!(unknown, KindError::NotServed { .. }), "{unknown}");
    let unknown = kinds.served(&GroupVersionKind::gvk("", "v1", "Thing")).await.unwrap_err();
    assert_eq!(unknown.to_string(), "the server does not serve Thing of v1");
}

/// OLM1-PERM-01: work is done with the ServiceAccount's own token, renewed before its end and when the account is another.
#[tokio::test]
async fn accounts_act_by_tokens() {
    let (cluster, state) = start();
    let clock = ManualClock::new("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let accounts = Accounts::new(cluster.clone(), cluster.client().unwrap(), Env::new(clock.clone(), 1));
    let key = Key::new("n", "installer");
    let missing = accounts.client(&key).await.err().unwrap();
    assert!(matches!(missing, AccountError::NotFound { .. }));
    assert_eq!(
        missing.to_string(),
        "service account \"installer\" not found in namespace \"n\": unable to authenticate with the Kubernetes cluster."
    );
    let tokens = |state: &Shared| state.lock().unwrap().calls.iter().filter(|call| call.ends_with("/token")).count();
    state.lock().unwrap().account_uid = "u1".into();
    let client = accounts.client(&key).await.unwrap();
    accounts.client(&key).await.unwrap();
    assert_eq!(tokens(&state), 1);
    let _ = client.list_core_api_resources("v1").await.unwrap();
    assert!(state.lock().unwrap().calls.last().unwrap().starts_with("Bearer t"), "nobody but the account");
    state.lock().unwrap().account_uid = "u2".into();
    accounts.client(&key).await.unwrap();
    assert_eq!(tokens(&state), 2);
    clock.advance(Duration::from_secs(3_300));
    accounts.client(&key).await.unwrap();
    assert_eq!(tokens(&state), 3);
}

/// MS-OPS-03, OLM1-PERM-01: a clock that is set back does not keep a token beyond its life.
#[tokio::test(start_paused = true)]
async fn tokens_end_when_the_clock_is_set_back() {
    let (cluster, state) = start();
    state.lock().unwrap().account_uid = "u1".into();
    let clock = Jumping::default();
    let accounts = Accounts::new(cluster.clone(), cluster.client().unwrap(), Env::new(clock.clone(), 1));
    let key = Key::new("n", "installer");
    let tokens = |state: &Shared| state.lock().unwrap().calls.iter().filter(|call| call.ends_with("/token")).count();
    accounts.client(&key).await.unwrap();
    clock.0.store(-86_400, std::sync::atomic::Ordering::Relaxed);
    accounts.client(&key).await.unwrap();
    assert_eq!(tokens(&state), 1);
    tokio::time::advance(Duration::from_secs(3_300)).await;
    accounts.client(&key).await.unwrap();
    assert_eq!(tokens(&state), 2);
}

/// A clock that stands at the beginning of 2026 until it is set, by so many seconds.
#[derive(Clone, Default)]
struct Jumping(Arc<std::sync::atomic::AtomicI64>);

impl mainstay_runtime::Clock for Jumping {
    fn now(&self) -> Timestamp {
        let set = jiff::SignedDuration::from_secs(self.0.load(std::sync::atomic::Ordering::Relaxed));
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + set
    }
}

/// MS-OPS-03: an answer that begins and does not go on ends in an error, too.
#[tokio::test(start_paused = true)]
async fn an_answer_without_an_end_ends() {
    let router = Router::new().fallback(|| async {
        let begins = futures::stream::iter([Ok::<_, std::convert::Infallible>("{\"kind\":")]);
        Body::from_stream(begins.chain(futures::stream::pending())).into_response()
    });
    let client = Cluster::Embedded { router, identity: |_| {} }.answering_within(Duration::from_secs(5)).client().unwrap();
    let begun = tokio::time::Instant::now();
    let error = client.request::<Value>(Request::get("/api/v1/nodes").body(Vec::new()).unwrap()).await.unwrap_err();
    assert!(format!("{error:?}").contains("NoEnd"), "{error:?}");
    assert_eq!(begun.elapsed().as_secs(), 5, "by the paused clock");
}

/// MS-OPS-03: a watch that goes silent, since its connection died without a word, is opened again, and what happened meanwhile is told.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_opened_again() {
    let (cluster, state) = start();
    let (_silent, first) = mpsc::channel(8);
    let (second, again) = mpsc::channel(8);
    {
        let mut state = state.lock().unwrap();
        state.lists = vec![list(5, &[object("a", 1, None)])];
        state.watches = vec![first, again];
    }
    second.send(event("MODIFIED", &object("a", 6, None))).await.unwrap();
    let stop = CancellationToken::new();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let cache = Cache::start(&cluster.client().unwrap(), &resource, &Scope::default(), &stop);
    cache.ready().await;
    let queue: Queue<Key> = Queue::default();
    let handle = queue.clone();
    cache.on_change(move |change| {
        if let (Some(_), Some(now)) = (&change.before, &change.now) {
            handle.add(Key::of(now));
        }
    });
    assert_eq!(queue.next().await.unwrap().to_string(), "n/a");
    assert_eq!(cache.get(&Key::new("n", "a")).unwrap().metadata.resource_version.as_deref(), Some("6"));
    stop.cancel();
}

/// MS-OPS-03: a request that nobody answers ends in an error, so that whoever waits can try again.
#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_ends() {
    let router = Router::new().fallback(std::future::pending::<Response>);
    for client in [
        Cluster::Embedded { router: router.clone(), identity: |_| {} }.client().unwrap(),
        Cluster::Embedded { router, identity: |_| {} }.client_with_token("t").unwrap(),
    ] {
        let request = Request::get("/api/v1/nodes").body(Vec::new()).unwrap();
        let error = client.request::<Value>(request).await.unwrap_err();
        assert!(format!("{error:?}").contains("NoAnswer"), "{error:?}");
    }
}
