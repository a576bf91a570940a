//! The platform's release as other parts follow it: what a cluster update sets in motion beside its own manifests (CVO-FLOW-07, OLM0-HUB-11).

use std::sync::Arc;

use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_runtime::Optional;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Waits until the release is known; false if it is to stop before.
pub async fn known(mut release: watch::Receiver<String>, stop: &CancellationToken) -> bool {
    let known = stop.run_until_cancelled(release.wait_for(|release| !release.is_empty())).await;
    known.is_some_and(|known| known.is_ok())
}

/// The release that the ClusterVersion says is being reconciled; `given` until there is one, empty without either.
pub fn follow(client: &Client, given: Option<String>, stop: &CancellationToken, tasks: &mut JoinSet<()>) -> watch::Receiver<String> {
    let (sender, receiver) = watch::channel(given.unwrap_or_default());
    let changed = Arc::new(Notify::new());
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
    let resource = ApiResource::from_gvk_with_plural(&kind, "clusterversions");
    let notified = changed.clone();
    let versions = Optional::start(client, resource, stop, move || notified.notify_one());
    let stop = stop.clone();
    tasks.spawn(async move {
        while stop.run_until_cancelled(changed.notified()).await.is_some() {
            let found = versions.named("version");
            let desired = found.as_ref().and_then(|found| found.data["status"]["desired"]["version"].as_str());
            if let Some(desired) = desired.filter(|desired| !desired.is_empty()) {
                let is_other = sender.send_if_modified(|known| {
                    let is_other = known != desired;
                    if is_other {
                        desired.clone_into(known);
                    }
                    is_other
                });
                if is_other {
                    tracing::info!(release = desired, "the platform's release");
                }
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::time::Duration;

    use mainstay_apply::Writer;
    use mainstay_objects::{Expect, ObjectRef, Until};
    use mainstay_olm_classic::report;
    use mainstay_olm_classic_core::cluster_operators::Part;
    use mainstay_runtime::{Cluster, Env};
    use mainstay_testing_cluster::{EmbeddedCluster, administrator};
    use serde_json::{Value, json};

    use super::*;

    fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
        ObjectRef { api_version: api_version.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    async fn until(admin: &Writer, place: &ObjectRef, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..1200 {
            last = admin.get(place).await.ok().flatten().unwrap_or_default();
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{place}: {last:#}");
    }

    /// The ClusterVersion says that this release is being reconciled.
    async fn at(admin: &Writer, release: &str) {
        let live = admin.get(&place("config.openshift.io/v1", "ClusterVersion", "", "version")).await.unwrap().unwrap();
        let desired = json!({"version": release, "image": format!("registry.example/release:{release}")});
        let status = json!({"desired": desired, "observedGeneration": 1, "versionHash": "", "availableUpdates": null, "history": []});
        admin.update_status(&live, &status).await.unwrap();
    }

    /// CVO-FLOW-07, OLM0-HUB-11, OLM0-MET-06, CVO-UPG-05: an update to the next minor version moves the default catalogs to it and leaves others alone,
    /// and an operator that supports no newer platform blocks the minor version after it at once. What else an update moves is tested elsewhere: the
    /// administrator's gates in `releases.rs` of the end-to-end tests, image templates with the catalogs that have them.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_follows_an_update() {
        let EmbeddedCluster { admin, server, folder: _folder } = EmbeddedCluster::start().await;
        let release = mainstay_api::release_manifests().unwrap().into_iter().map(|manifest| manifest.definition);
        let classic = mainstay_api::classic_manifests().unwrap().into_iter().map(|manifest| manifest.definition);
        for definition in release.chain(classic) {
            admin.apply(&definition, true, &Expect::default()).await.unwrap();
            admin.wait(&ObjectRef::of(&definition).unwrap(), &Until::Healthy, Duration::from_secs(60)).await.unwrap();
        }
        for step in mainstay_olm_classic_core::fresh::steps(false) {
            admin.execute(&[step], |_| {}).await.unwrap();
        }
        let version = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
            "spec": {"clusterID": "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11"}});
        admin.create(&version).await.unwrap();
        let cluster = || Cluster::Embedded { router: server.router(), identity: administrator };
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let followed = follow(&cluster().client().unwrap(), None, &stop, &mut tasks);
        assert_eq!(*followed.borrow(), "", "nothing is known of a release yet");
        at(&admin, "4.18.54").await;
        assert!(known(followed.clone(), &stop).await);
        let config = mainstay_marketplace::Config { catalogs: mainstay_marketplace::default_catalogs(), release: followed.clone() };
        let (of, until_stop) = (cluster(), stop.clone());
        tasks.spawn(async move { mainstay_marketplace::run(of, Env::system(), config, until_stop).await.unwrap() });
        let setup = report::Setup {
            cluster: cluster(),
            env: Env::system(),
            namespace: mainstay_olm_classic::olm::NAMESPACE.to_owned(),
            parts: [(Part::Olm, Part::Olm.name().to_owned())].into(),
            release: followed.clone(),
        };
        let until_stop = stop.clone();
        tasks.spawn(async move { report::run(setup, until_stop).await.unwrap() });

        let source = |name: &str| place("operators.coreos.com/v1alpha1", "CatalogSource", "openshift-marketplace", name);
        let has = |ending: &'static str| move |live: &Value| live["spec"]["image"].as_str().is_some_and(|image| image.ends_with(ending));
        until(&admin, &source("redhat-operators"), has("redhat-operator-index:v4.18")).await;
        let own = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "mine", "namespace": "openshift-marketplace"}, "spec": {"sourceType": "grpc", "image": "example.com/mine:v4.18"}});
        admin.create(&own).await.unwrap();
        let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": "4.19"}]}).to_string();
        let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "widgets.v1.0.0", "namespace": "default", "annotations": {"operatorframework.io/properties": properties}},
            "spec": {"displayName": "Widgets", "version": "1.0.0", "install": {"strategy": "deployment", "spec": {"deployments": []}},
                "installModes": [{"type": "OwnNamespace", "supported": true}]}});
        admin.create(&csv).await.unwrap();
        let operator = place("config.openshift.io/v1", "ClusterOperator", "", "operator-lifecycle-manager");
        let upgradeable = |live: &Value| {
            let all = live["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.into_iter().find(|each| each["type"] == "Upgradeable").unwrap_or_default()
        };
        until(&admin, &operator, |live| upgradeable(live)["status"] == "True").await;

        at(&admin, "4.19.44").await;
        for name in ["redhat-operators", "certified-operators", "community-operators"] {
            until(&admin, &source(name), has(":v4.19")).await;
        }
        let blocked = until(&admin, &operator, |live| upgradeable(live)["status"] == "False").await;
        let message = upgradeable(&blocked)["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.starts_with("ClusterServiceVersions blocking minor version upgrades to 4.20.0 or higher:"), "{message}");
        assert!(has("example.com/mine:v4.18")(&admin.get(&source("mine")).await.unwrap().unwrap()));
        assert_eq!(*followed.borrow(), "4.19.44");
        stop.cancel();
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    }
}
