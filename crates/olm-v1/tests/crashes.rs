//! Crashes and failing writes at any moment of an install and an upgrade: it always ends whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod scene;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use mainstay_apply::ObjectRef;
use mainstay_oci::{ClientConfig, ImageBuilder};
use mainstay_olm_v1::extension::record::EXTENSION_LABEL;
use scene::{Content, files};
use serde_json::{Value, json};
use support::{
    Api, SYSTEM, catalog, catalog_image, catalog_object, catalog_text, condition, extension, extension_object, namespace, place, registry,
    setup,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What happens to the writes of operator-controller and of the accounts it acts as.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// The process ends before this write is sent.
    KilledBefore(usize),
    /// The process ends after this write was done, before its answer is read.
    KilledAfter(usize),
    /// Three writes from this one on are answered with 500; of the odd ones nobody knows that they were done.
    Failing(usize),
}

#[derive(Clone)]
struct Wire {
    fault: Fault,
    writes: Arc<AtomicUsize>,
    dead: Arc<Notify>,
}

async fn wire(State(wire): State<Wire>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    let number = wire.writes.fetch_add(1, Ordering::SeqCst);
    match wire.fault {
        Fault::KilledBefore(at) if number >= at => {
            wire.dead.notify_one();
            std::future::pending().await
        }
        Fault::KilledAfter(at) if number >= at => {
            if number == at {
                next.run(request).await;
            }
            wire.dead.notify_one();
            std::future::pending().await
        }
        Fault::Failing(at) if (at..at + 3).contains(&number) => {
            if number % 2 == 1 {
                next.run(request).await;
            }
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "reason": "InternalError", "message": "an injected failure"});
            (StatusCode::INTERNAL_SERVER_ERROR, axum::Json(status)).into_response()
        }
        _ => next.run(request).await,
    }
}

/// Runs the controllers with a fault until the version is installed, starting them again when they are killed.
async fn install(api: &Api, fault: Fault, version: &str) -> Value {
    let faulty = Wire { fault, writes: Arc::default(), dead: Arc::default() };
    let router: Router = api.server.router().layer(from_fn_with_state(faulty.clone(), wire));
    let stop = CancellationToken::new();
    let running = tokio::spawn(setup(api, router).open().unwrap().run(stop.clone()));
    let reached = |object: &Value| {
        object["status"]["install"]["bundle"]["version"] == version && condition(object, "Progressing")["reason"] == "Succeeded"
    };
    let target = extension("widgets");
    let killed = tokio::select! {
        () = faulty.dead.notified() => true,
        _ = api.until(&target, reached) => false,
    };
    if !killed {
        stop.cancel();
        running.await.unwrap();
        return api.until(&target, reached).await;
    }
    running.abort();
    let _ = running.await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(setup(api, api.server.router()).open().unwrap().run(stop.clone()));
    let found = api.until(&target, reached).await;
    stop.cancel();
    running.await.unwrap();
    found
}

async fn list(api: &Api, path: &str, selector: &str) -> Vec<Value> {
    let request = axum::http::Request::get(format!("{path}?labelSelector={selector}")).body(Vec::new()).unwrap();
    let list: Value = api.admin.client().request(request).await.unwrap();
    list["items"].as_array().unwrap().clone()
}

const OWNED: [(&str, &str, &str); 6] = [
    ("/apis/apps/v1/deployments", "apps/v1", "Deployment"),
    ("/api/v1/configmaps", "v1", "ConfigMap"),
    ("/api/v1/serviceaccounts", "v1", "ServiceAccount"),
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

async fn owned(api: &Api) -> Vec<ObjectRef> {
    let mut found = Vec::new();
    for (path, api_version, kind) in OWNED {
        for object in list(api, path, "olm.operatorframework.io%2Fowner-name%3Dwidgets").await {
            let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
            found.push(place(api_version, kind, &text("namespace"), &text("name")));
        }
    }
    found
}

/// One record counts, it is of this version, no attempt is left open, and the objects are those of the version and no others.
async fn whole(api: &Api, extension: &Value, version: &str, kinds: &[&str], what: &str) {
    let uid = extension["metadata"]["uid"].as_str().unwrap();
    let records =
        list(api, &format!("/api/v1/namespaces/{SYSTEM}/secrets"), &format!("{}%3D{uid}", EXTENSION_LABEL.replace('/', "%2F"))).await;
    let of = |state: &str| records.iter().filter(|record| record["metadata"]["labels"]["status"] == state).count();
    assert_eq!((of("deployed"), of("pending"), of("failed")), (1, 0, 0), "{what}: {records:#?}");
    let deployed = records.iter().find(|record| record["metadata"]["labels"]["status"] == "deployed").unwrap();
    assert_eq!(deployed["metadata"]["annotations"]["olm.operatorframework.io/bundle-version"], version, "{what}");
    let found = owned(api).await;
    let mut found_kinds: Vec<&str> = found.iter().map(|object| object.kind.as_str()).collect();
    found_kinds.sort_unstable();
    assert_eq!(found_kinds, kinds, "{what}: {found:?}");
    let deployment = api.get(&place("apps/v1", "Deployment", "work", "widgets")).await.unwrap();
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, format!("example.com/widgets:{version}"), "{what}");
}

/// MS-OPS-03, OLM1-CTRL-09, OLM1-CTRL-11, OLM1-INST-14: however an install or upgrade is interrupted, the next controller finishes it:
/// one deployed record, all objects, no leftovers. `SCHEDULES=N` runs N schedules instead of a few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_changes_are_finished() {
    let api = Api::start().await;
    let stop = CancellationToken::new();
    let (_, address) = registry(mainstay_oci::registry::Options::default(), &stop).await;
    let old = Content {
        more: vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old"}, "data": {"a": "b"}})],
        ..Content::default()
    };
    let mut bundles = Vec::new();
    for (version, content) in [("1.0.0", old), ("1.1.0", Content::default())] {
        let files = files(version, &content).into_iter().map(|(path, text)| (path, text.into_bytes()));
        let image =
            api.push(ClientConfig::default(), &format!("{address}/test/widgets:v{version}"), ImageBuilder::new().files(files)).await;
        bundles.push((version, format!("{address}/test/widgets@{}", image.digest.as_str())));
    }
    let bundles: Vec<(&str, &str)> = bundles.iter().map(|(version, image)| (*version, image.as_str())).collect();
    api.push(ClientConfig::default(), &format!("{address}/test/catalog:latest"), catalog_image(&catalog_text("widgets", &bundles))).await;
    api.apply(catalog_object("test", &format!("{address}/test/catalog:latest"))).await;
    api.apply(namespace("work")).await;
    api.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": "work"}})).await;
    api.apply(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "installer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "work"}]}))
        .await;
    let schedules: usize = std::env::var("SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut chance = move |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % limit
    };
    let mut fault = || {
        let at = chance(18);
        match chance(7) {
            0..=2 => Fault::KilledBefore(at),
            3..=4 => Fault::KilledAfter(at),
            5 => Fault::Failing(at),
            _ => Fault::None,
        }
    };
    let with = |version: &str| {
        let mut object = extension_object("widgets", "widgets", "work");
        object["spec"]["source"]["catalog"]["version"] = json!(version);
        object
    };
    for schedule in 0..schedules {
        let (first, second) = (fault(), fault());
        let what = format!("schedule {schedule}: {first:?}, {second:?}");
        api.apply(with("1.0.0")).await;
        let installed = install(&api, first, "1.0.0").await;
        let kinds = ["ClusterRole", "ClusterRoleBinding", "ConfigMap", "CustomResourceDefinition", "Deployment", "ServiceAccount"];
        whole(&api, &installed, "1.0.0", &kinds, &what).await;
        api.apply(with("1.1.0")).await;
        let upgraded = install(&api, second, "1.1.0").await;
        let kinds: Vec<&str> = kinds.into_iter().filter(|kind| *kind != "ConfigMap").collect();
        whole(&api, &upgraded, "1.1.0", &kinds, &what).await;
        // The controllers are down, so that nobody takes the finalizers off; what the garbage collector would do is done here.
        let take = mainstay_apply::Patch::Merge(json!({"metadata": {"finalizers": null}}));
        api.admin.patch(&extension("widgets"), "", &take).await.unwrap();
        api.delete(&extension("widgets")).await;
        api.gone(&extension("widgets")).await;
        for object in owned(&api).await {
            api.delete(&object).await;
            api.gone(&object).await;
        }
        for record in list(&api, &format!("/api/v1/namespaces/{SYSTEM}/secrets"), "owner%3Doperator-controller").await {
            api.delete(&place("v1", "Secret", SYSTEM, record["metadata"]["name"].as_str().unwrap())).await;
        }
    }
    eprintln!("{schedules} schedules");
    assert!(api.get(&catalog("test")).await.is_some());
    stop.cancel();
    api.close().await;
}
