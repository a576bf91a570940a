//! kube-rs against the embedded cluster: what controllers in Rust are built from.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, AttachParams, DeleteParams, EvictParams, ListParams, LogParams, PartialObjectMeta, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube::{Client, Config, CustomResource, CustomResourceExt as _, Discovery, Resource as _, ResourceExt as _};
use mainstay_e2e::{Cluster, need_embedded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What a boat should be.
#[derive(CustomResource, Deserialize, Serialize, Clone, Debug, JsonSchema)]
#[kube(group = "sea.example.com", version = "v1", kind = "Boat", namespaced, status = "BoatStatus", derive = "PartialEq")]
#[derive(PartialEq)]
struct BoatSpec {
    name: String,
    sails: Option<u32>,
}

/// What it is.
#[derive(Deserialize, Serialize, Clone, Debug, Default, PartialEq, JsonSchema)]
struct BoatStatus {
    rigged: bool,
}

const CONTROLLERS: &[&str] = &["--components", "controllers", "--nodes", "0"];

async fn client(cluster: &Cluster) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    // The client would ask again for minutes after a 429, which is an answer here.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn check<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(240), test).await.expect("it ends in time") });
}

fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let mut map = ConfigMap { data: Some(data.iter().map(|&(key, value)| (key.into(), value.into())).collect()), ..ConfigMap::default() };
    map.metadata.name = Some(name.into());
    map
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("no answer of the API: {other}"),
    }
}

struct Context {
    client: Client,
}

/// Rigs a boat: a ConfigMap by server-side apply, then the status; before it goes, a line in a ConfigMap of its own.
async fn reconcile(boat: Arc<Boat>, context: Arc<Context>) -> Result<Action, Box<kube::runtime::finalizer::Error<kube::Error>>> {
    let boats: Api<Boat> = Api::namespaced(context.client.clone(), "default");
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), "default");
    let work = |event: Event<Boat>| async {
        let apply = PatchParams::apply("boats").force();
        match event {
            Event::Apply(boat) => {
                let mut map = config_map(&boat.name_any(), &[("sails", &boat.spec.sails.unwrap_or(1).to_string())]);
                map.metadata.owner_references = Some(vec![boat.controller_owner_ref(&()).unwrap()]);
                maps.patch(&boat.name_any(), &apply, &Patch::Apply(&map)).await?;
                if boat.status.is_none() {
                    let status = json!({"status": BoatStatus { rigged: true }});
                    boats.patch_status(&boat.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await?;
                }
            }
            Event::Cleanup(boat) => {
                let map = config_map(&format!("{}-sank", boat.name_any()), &[("name", &boat.spec.name)]);
                maps.patch(&map.name_any(), &apply, &Patch::Apply(&map)).await?;
            }
        }
        Ok(Action::await_change())
    };
    finalizer(&boats, "sea.example.com/harbour", boat, work).await.map_err(Box::new)
}

/// KAPI-CLIENT-02, KAPI-CRD-01, KAPI-SSA-01, KAPI-REST-06: a Controller with a finalizer, for a kind derived from Rust types.
#[test]
fn a_controller() {
    let Some(()) = need_embedded() else { return };
    let cluster = Cluster::up(CONTROLLERS);
    check(async {
        let client = client(&cluster).await;
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        crds.patch("boats.sea.example.com", &PatchParams::apply("boats"), &Patch::Apply(Boat::crd())).await.unwrap();
        await_condition(crds, "boats.sea.example.com", conditions::is_crd_established()).await.unwrap();
        let boats: Api<Boat> = Api::namespaced(client.clone(), "default");
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let controller = Controller::new(boats.clone(), watcher::Config::default())
            .owns(maps.clone(), watcher::Config::default())
            .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(Context { client }))
            .for_each(|_| std::future::ready(()));
        let controller = tokio::spawn(controller);

        let ida = Boat::new("ida", BoatSpec { name: "Ida".into(), sails: Some(2) });
        boats.create(&PostParams::default(), &ida).await.unwrap();
        let rigged = |boat: Option<&Boat>| boat.and_then(|boat| boat.status.as_ref()).is_some_and(|status| status.rigged);
        let live = await_condition(boats.clone(), "ida", rigged).await.unwrap().unwrap();
        assert_eq!(live.finalizers(), ["sea.example.com/harbour"]);
        assert_eq!(live.metadata.generation, Some(1), "neither finalizer nor status counts");
        let map = maps.get("ida").await.unwrap();
        assert_eq!(map.data, Some(BTreeMap::from([("sails".into(), "2".into())])));
        assert_eq!(map.metadata.owner_references.as_ref().unwrap()[0].uid, live.uid().unwrap());

        // What somebody deletes is made again, what somebody changes is changed back, what somebody adds stays.
        maps.delete("ida", &DeleteParams::default()).await.unwrap();
        let made = |map: Option<&ConfigMap>| map.is_some_and(|map| map.data.as_ref().is_some_and(|data| data.contains_key("sails")));
        await_condition(maps.clone(), "ida", made).await.unwrap();
        let change = json!({"data": {"sails": "9", "flag": "red"}});
        maps.patch("ida", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
        let back = |map: Option<&ConfigMap>| {
            map.is_some_and(|map| map.data.as_ref().is_some_and(|data| data["sails"] == "2" && data["flag"] == "red"))
        };
        await_condition(maps.clone(), "ida", back).await.unwrap();

        boats.delete("ida", &DeleteParams::default()).await.unwrap();
        await_condition(boats.clone(), "ida", conditions::is_deleted(&live.uid().unwrap())).await.unwrap();
        assert_eq!(maps.get("ida-sank").await.unwrap().data.unwrap()["name"], "Ida");
        await_condition(maps, "ida", |map: Option<&ConfigMap>| map.is_none()).await.unwrap();
        controller.abort();
    });
}

/// KAPI-CLIENT-02, KAPI-WATCH-01, KAPI-WATCH-02: a reflector fills itself by pages and by a streamed list, follows, and after a kill of the server
/// goes on where it was; metadata alone can be watched.
#[test]
fn reflectors() {
    let Some(()) = need_embedded() else { return };
    let mut cluster = Cluster::up(CONTROLLERS);
    check(async {
        let client = client(&cluster).await;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        for number in 0..12 {
            let mut map = config_map(&format!("map-{number:02}"), &[]);
            map.metadata.labels = Some(BTreeMap::from([("suite".into(), "rust".into())]));
            maps.create(&PostParams::default(), &map).await.unwrap();
        }
        let labelled = watcher::Config::default().labels("suite=rust");
        let mut stores = Vec::new();
        for config in [labelled.clone().page_size(5), labelled.clone().streaming_lists()] {
            let (store, writer) = reflector::store();
            let stream = reflector(writer, watcher(maps.clone(), config).default_backoff()).for_each(|_| std::future::ready(()));
            tokio::spawn(stream);
            store.wait_until_ready().await.unwrap();
            assert_eq!(store.len(), 12);
            stores.push(store);
        }

        let begin = maps.list_metadata(&ListParams::default().labels("suite=rust")).await.unwrap().metadata.resource_version.unwrap();
        let params = WatchParams::default().labels("suite=rust").timeout(60);
        let mut seen = maps.watch_metadata(&params, &begin).await.unwrap().boxed();
        maps.patch("map-00", &PatchParams::default(), &Patch::Merge(&json!({"data": {"a": "b"}}))).await.unwrap();
        maps.patch("map-00", &PatchParams::default(), &Patch::Merge(&json!({"metadata": {"labels": {"suite": "other"}}}))).await.unwrap();
        let mut events = Vec::new();
        while events.len() < 2 {
            match seen.try_next().await.unwrap().expect("the watch goes on") {
                WatchEvent::Modified(object) => events.push(format!("modified {}", object.name_any())),
                WatchEvent::Deleted(object) => events.push(format!("deleted {}", object.name_any())),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(events, ["modified map-00", "deleted map-00"], "what no longer matches is gone for a watcher");
        let partial: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(client, "default");
        let first = watcher(partial, labelled).applied_objects().boxed().try_next().await.unwrap().unwrap();
        assert_eq!(first.name_any(), "map-01");

        cluster.kill();
        cluster.come_back();
        maps.delete("map-01", &DeleteParams::default()).await.unwrap();
        maps.patch("map-02", &PatchParams::default(), &Patch::Merge(&json!({"data": {"after": "restart"}}))).await.unwrap();
        for store in stores {
            let current = || {
                let state = store.state();
                let after =
                    state.iter().any(|map| map.name_any() == "map-02" && map.data.as_ref().is_some_and(|data| data.contains_key("after")));
                after && state.len() == 10
            };
            while !current() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
}

/// KAPI-CLIENT-02, KAPI-DISC-01, KAPI-REST-02, KAPI-REST-05, KAPI-SSA-01, KAPI-AUTH-01: discovery, Leases, scale, eviction, conflicts of apply, tokens, logs, exec.
#[test]
fn verbs() {
    let Some(()) = need_embedded() else { return };
    let cluster = Cluster::up(&["--components", "controllers,scheduler,nodes"]);
    check(async {
        let client = client(&cluster).await;
        let discovery = Discovery::new(client.clone()).run().await.unwrap();
        let apps = discovery.groups().find(|group| group.name() == "apps").expect("apps is there");
        let (deployment, capabilities) = apps.recommended_kind("Deployment").unwrap();
        assert_eq!(deployment.plural, "deployments");
        assert!(capabilities.supports_operation("watch") && capabilities.subresources.iter().any(|(one, _)| one.plural.ends_with("scale")));
        assert_eq!(client.apiserver_version().await.unwrap().minor, "34");

        // A Lease is taken by whoever knows its revision.
        let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
        let lease = json!({"metadata": {"name": "helm"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.678901Z"}});
        let mut held = leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
        let stale = held.clone();
        held.spec.as_mut().unwrap().holder_identity = Some("b".into());
        let held = leases.replace("helm", &PostParams::default(), &held).await.unwrap();
        assert_eq!(held.spec.unwrap().holder_identity.as_deref(), Some("b"));
        assert_eq!(code(&leases.replace("helm", &PostParams::default(), &stale).await.unwrap_err()), 409);

        let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
        let web = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]},
            }},
        });
        deployments.patch("web", &PatchParams::apply("one"), &Patch::Apply(&web)).await.unwrap();
        await_condition(deployments.clone(), "web", conditions::is_deployment_completed()).await.unwrap();
        let scale =
            deployments.patch_scale("web", &PatchParams::default(), &Patch::Merge(&json!({"spec": {"replicas": 3}}))).await.unwrap();
        assert_eq!(scale.spec.unwrap().replicas, Some(3));
        assert_eq!(deployments.get_scale("web").await.unwrap().status.unwrap().selector.as_deref(), Some("app=web"));
        let again = deployments.patch("web", &PatchParams::apply("two"), &Patch::Apply(&web)).await.unwrap_err();
        assert!(code(&again) == 409 && again.to_string().contains("spec.replicas"), "{again}");

        // A budget refuses an eviction that it has no room for.
        await_condition(deployments.clone(), "web", |web: Option<&Deployment>| {
            web.and_then(|web| web.status.as_ref()).is_some_and(|status| status.ready_replicas == Some(3))
        })
        .await
        .unwrap();
        let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
        let names: Vec<String> =
            pods.list(&ListParams::default().labels("app=web")).await.unwrap().iter().map(kube::ResourceExt::name_any).collect();
        pods.evict(&names[0], &EvictParams::default()).await.unwrap();
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), "default");
        let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 9, "selector": {"matchLabels": {"app": "web"}}}});
        budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
        await_condition(budgets, "web", |budget: Option<&PodDisruptionBudget>| {
            budget.and_then(|budget| budget.status.as_ref()).is_some_and(|status| status.observed_generation == Some(1))
        })
        .await
        .unwrap();
        let refused = pods.evict(&names[1], &EvictParams::default()).await.unwrap_err();
        assert_eq!(code(&refused), 429, "{refused}");

        assert!(pods.logs(&names[1], &LogParams::default()).await.unwrap().contains("simulates its nodes"));
        assert!(pods.exec(&names[1], ["ls"], &AttachParams::default().stderr(false)).await.is_err());
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        let request = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
        let token = accounts.create_token_request("default", &PostParams::default(), &request).await.unwrap();
        assert_eq!(token.status.unwrap().token.split('.').count(), 3);
    });
}
