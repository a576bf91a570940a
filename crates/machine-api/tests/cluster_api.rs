//! Machines whose instances Cluster API makes: its own definitions, and an infrastructure of ours that does what its controllers do.
//!
//! `data/cluster-api.jsonl` is Machine and Cluster as Cluster API 1.14.2 defines them (`core/config/crd/bases` of module
//! `sigs.k8s.io/cluster-api`), without descriptions. The test of its real controllers is `tests/e2e/tests/cluster_api.rs`.

use std::time::Duration;

use kube::api::GroupVersionKind;
use mainstay_apply::Writer;
use mainstay_machine_api::{Config, NAMESPACE};
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Api, at, condition};

const DEFINED: &str = include_str!("data/cluster-api.jsonl");
const NEWER: &str = "cluster.x-k8s.io/v1beta2";
const OLDER: &str = "cluster.x-k8s.io/v1beta1";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const FINALIZER: &str = "machine.cluster.x-k8s.io";

/// The definitions of Cluster API in one of its versions, and the kinds of our infrastructure.
fn definitions(api_version: &str) -> Vec<Value> {
    let (_, version) = api_version.split_once('/').unwrap();
    let mut all: Vec<Value> = DEFINED.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for definition in &mut all {
        let versions = definition["spec"]["versions"].as_array_mut().unwrap();
        versions.retain(|one| one["name"] == version);
        versions[0]["storage"] = json!(true);
    }
    let kind = |kind: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.infrastructure.cluster.x-k8s.io")},
            "spec": {
                "group": "infrastructure.cluster.x-k8s.io", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
    };
    all.extend([kind("RackMachine"), kind("RackMachineTemplate")]);
    all
}

/// The controllers of Cluster API and of an infrastructure, as far as machines see them, pass after pass.
fn infrastructure(admin: Writer, api_version: &'static str) -> JoinHandle<()> {
    let (group, version) = api_version.split_once('/').unwrap();
    let kind = GroupVersionKind::gvk(group, version, "Machine");
    tokio::spawn(async move {
        loop {
            for made in admin.list(&kind, 100).await.unwrap() {
                if let Err(error) = pass(&admin, &made).await {
                    assert!(error.is_conflict() || error.is_not_found(), "{error}");
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
}

async fn pass(admin: &Writer, made: &Value) -> Result<(), mainstay_apply::WriteError> {
    let place = ObjectRef::of(made)?;
    let rack = at(INFRASTRUCTURE, "RackMachine", made["spec"]["infrastructureRef"]["name"].as_str().unwrap());
    let found = admin.get(&rack).await?;
    if made["metadata"].get("deletionTimestamp").is_some() {
        if made["metadata"]["annotations"].get("rack.example/slow").is_some() {
            return Ok(());
        }
        admin.delete(&rack, &Expect::default(), Propagation::Background).await?;
        admin.remove_finalizer(made, FINALIZER).await?;
        return Ok(());
    }
    if admin.add_finalizer(made, FINALIZER).await?.is_some() {
        return Ok(());
    }
    let Some(rack) = found else { return Ok(()) };
    let id = format!("rack:///{}", rack["metadata"]["uid"].as_str().unwrap());
    if made["spec"]["providerID"] != id {
        admin.patch(&place, "", &Patch::Merge(json!({"spec": {"providerID": id}}))).await?;
        return Ok(());
    }
    let mut status = json!({"phase": "Provisioned", "addresses": [{"type": "InternalIP", "address": "10.1.2.3"}]});
    if place.api_version == NEWER {
        status["initialization"] = json!({"infrastructureProvisioned": true});
    } else {
        status["infrastructureReady"] = json!(true);
    }
    admin.update_status(made, &status).await?;
    Ok(())
}

fn spec(template: &str) -> Value {
    json!({
        "apiVersion": "capi.mainstay.dev/v1alpha1", "kind": "ClusterAPIProviderConfig", "clusterName": "demo", "version": "v1.34.1",
        "failureDomain": "row-2", "infrastructureRef": {"apiVersion": INFRASTRUCTURE, "kind": "RackMachineTemplate", "name": template},
        "userDataSecret": {"name": "worker-user-data"},
    })
}

/// The Cluster, the template and the user data that machines name.
async fn surroundings(api: &Api, api_version: &str) {
    let spec = json!({"controlPlaneEndpoint": {"host": "api.demo", "port": 6443}, "clusterNetwork": {"serviceDomain": "cluster.local"}});
    let metadata = |name: &str| json!({"name": name, "namespace": NAMESPACE});
    let content = json!({"metadata": {"labels": {"team": "racks"}}, "spec": {"instanceType": "2u", "row": 2}});
    for object in [
        json!({"apiVersion": api_version, "kind": "Cluster", "metadata": metadata("demo"), "spec": spec}),
        json!({"apiVersion": INFRASTRUCTURE, "kind": "RackMachineTemplate", "metadata": metadata("small"), "spec": {"template": content}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("worker-user-data"), "stringData": {"userData": r#"{"ignition":{"version":"3.2.0"}}"#}}),
    ] {
        api.admin.create(&object).await.unwrap();
    }
}

async fn lives_and_goes(api_version: &'static str) {
    let mut api = Api::start().await;
    api.run(Config::default());
    let place = api.machine("workers-a", &spec("small")).await;
    let waits = |text: &'static str| {
        move |live: &Value| condition(live, "MachineCreation")["message"].as_str().is_some_and(|told| told.contains(text))
    };
    let said = api.until(&place, waits("Cluster API is not installed")).await;
    assert_eq!(said["status"]["phase"], "Provisioning", "what may come is no failure");
    assert_eq!(said["metadata"]["annotations"]["mainstay.dev/provider"], "ClusterAPIProviderConfig.capi.mainstay.dev");
    api.define(&definitions(api_version)).await;
    surroundings(&api, api_version).await;
    let infrastructure = infrastructure(api.admin.clone(), api_version);

    let (made, rack) = (at(api_version, "Machine", "workers-a"), at(INFRASTRUCTURE, "RackMachine", "workers-a"));
    let secret = at("v1", "Secret", "workers-a-bootstrap-data");
    // The name of the instance comes before its addresses, and each change of Cluster API's Machine wakes ours.
    let is_told =
        |live: &Value| live["status"]["addresses"].is_array() && live["status"]["providerStatus"]["instanceState"] == "Provisioned";
    let live = api.until(&place, |live| live["status"]["phase"] == "Provisioned" && is_told(live)).await;
    let clone = api.get(&rack).await.unwrap();
    assert_eq!((&clone["spec"], &clone["metadata"]["labels"]["team"]), (&json!({"instanceType": "2u", "row": 2}), &json!("racks")));
    assert_eq!(clone["metadata"]["annotations"]["cluster.x-k8s.io/cloned-from-name"], "small");
    assert_eq!(live["spec"]["providerID"], format!("rack:///{}", clone["metadata"]["uid"].as_str().unwrap()));
    assert_eq!(live["status"]["addresses"], json!([{"type": "InternalIP", "address": "10.1.2.3"}]));
    let labels = &live["metadata"]["labels"];
    assert_eq!((&labels["machine.openshift.io/instance-type"], &labels["machine.openshift.io/zone"]), (&json!("2u"), &json!("row-2")));
    assert!(labels.get("mainstay.dev/simulated").is_none());
    let bootstrap = api.get(&secret).await.unwrap();
    assert_eq!(bootstrap["data"]["format"], "aWduaXRpb24=", "ignition");
    assert_eq!(bootstrap["data"]["value"], "eyJpZ25pdGlvbiI6eyJ2ZXJzaW9uIjoiMy4yLjAifX0=");
    let machine = api.get(&made).await.unwrap();
    assert_eq!((&machine["spec"]["version"], &machine["spec"]["bootstrap"]["dataSecretName"]), (&json!("v1.34.1"), &json!(secret.name)));
    assert!(machine["metadata"]["annotations"].get("machine.cluster.x-k8s.io/exclude-node-draining").is_some());

    // A node joins; the mark that leaves drains to the Machine API comes back.
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "rack-7"}, "spec": {"providerID": live["spec"]["providerID"]}});
    api.admin.create(&node).await.unwrap();
    api.until(&place, |live| live["status"]["phase"] == "Running").await;
    api.admin
        .patch(&made, "", &Patch::Merge(json!({"metadata": {"annotations": {"machine.cluster.x-k8s.io/exclude-node-draining": null}}})))
        .await
        .unwrap();
    api.until(&made, |made| made["metadata"]["annotations"].get("machine.cluster.x-k8s.io/exclude-node-draining").is_some()).await;

    // Another provider never takes it, whatever is written; put back, it goes on.
    let kept = live["spec"]["providerSpec"]["value"].clone();
    let other = json!({"apiVersion": "exec.mainstay.dev/v1alpha1", "kind": "ExecProviderConfig", "provider": "x"});
    let to = |value: &Value| Patch::Json(json!([{"op": "replace", "path": "/spec/providerSpec/value", "value": value}]));
    api.admin.patch(&place, "", &to(&other)).await.unwrap();
    let held = api.until(&place, |live| condition(live, "InstanceExists")["reason"] == "ErrorCheckingProvider").await;
    assert!(
        condition(&held, "InstanceExists")["message"]
            .as_str()
            .unwrap()
            .contains("cannot take over the instance of ClusterAPIProviderConfig")
    );
    assert_eq!(held["status"]["phase"], "Running", "an edit loses no instance");
    api.admin.patch(&place, "", &to(&kept)).await.unwrap();
    api.until(&place, |live| condition(live, "InstanceExists")["status"] == "True").await;

    // The deletion ends when Cluster API has ended it, and nothing is left.
    api.admin.patch(&made, "", &Patch::Merge(json!({"metadata": {"annotations": {"rack.example/slow": ""}}}))).await.unwrap();
    api.delete(&place).await;
    api.until(&made, |made| made["metadata"].get("deletionTimestamp").is_some()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let waiting = api.get(&place).await.unwrap();
    assert_eq!((&waiting["status"]["phase"], api.get(&at("v1", "Node", "rack-7")).await.is_some()), (&json!("Deleting"), true));
    api.admin.patch(&made, "", &Patch::Merge(json!({"metadata": {"annotations": {"rack.example/slow": null}}}))).await.unwrap();
    for gone in [&place, &made, &rack, &secret, &at("v1", "Node", "rack-7")] {
        api.until_gone(gone).await;
    }
    infrastructure.abort();
}

/// MACH-PROV-11, MACH-PROV-12: with the kinds of Cluster API 1.11 and later, an instance is made, followed, never handed over, and removed.
#[tokio::test(flavor = "multi_thread")]
async fn lives_and_goes_in_v1beta2() {
    lives_and_goes(NEWER).await;
}

/// MACH-PROV-11: the same with the kinds of older versions of Cluster API.
#[tokio::test(flavor = "multi_thread")]
async fn lives_and_goes_in_v1beta1() {
    lives_and_goes(OLDER).await;
}

/// MACH-PROV-11, MACH-RUN-01, MACH-PROV-02: what is missing is told and waited for; an object of another owner is not touched; an instance
/// that is lost is not made again; what was begun is removed; a spec that cannot be used fails the machine.
#[tokio::test(flavor = "multi_thread")]
async fn refused_lost_and_begun() {
    let mut api = Api::start().await;
    api.define(&definitions(NEWER)).await;
    surroundings(&api, NEWER).await;
    let infrastructure = infrastructure(api.admin.clone(), NEWER);
    let foreign = json!({"apiVersion": INFRASTRUCTURE, "kind": "RackMachine", "metadata": {"name": "taken", "namespace": NAMESPACE}, "spec": {"row": 9}});
    api.admin.create(&foreign).await.unwrap();
    api.run(Config::default());
    let waits = |text: &'static str| {
        move |live: &Value| condition(live, "MachineCreation")["message"].as_str().is_some_and(|told| told.contains(text))
    };

    let unknown = api.machine("unknown", &spec("large")).await;
    api.until(&unknown, waits("RackMachineTemplate large is not found in namespace openshift-machine-api")).await;
    let taken = api.machine("taken", &spec("small")).await;
    api.until(&taken, waits("RackMachine taken was not made for this machine, and is left alone")).await;
    assert!(api.get(&at("v1", "Secret", "taken-bootstrap-data")).await.is_some(), "begun");
    for place in [&unknown, &taken] {
        api.delete(place).await;
        api.until_gone(place).await;
    }
    assert_eq!(api.get(&at("v1", "Secret", "taken-bootstrap-data")).await, None);
    assert_eq!(api.get(&at(INFRASTRUCTURE, "RackMachine", "taken")).await.unwrap()["spec"]["row"], 9);
    let mut elsewhere = spec("small");
    elsewhere["infrastructureRef"]["apiVersion"] = json!("v1");
    let wrong = api.machine("wrong", &elsewhere).await;
    let failed = api.until(&wrong, |live| live["status"]["phase"] == "Failed").await;
    assert_eq!(failed["status"]["errorReason"], "InvalidConfiguration");
    assert!(
        failed["status"]["errorMessage"].as_str().unwrap().starts_with("spec.providerSpec.value.infrastructureRef.apiVersion: expected")
    );

    let place = api.machine("lost", &spec("small")).await;
    api.until(&place, |live| live["status"]["phase"] == "Provisioned").await;
    api.delete(&at(NEWER, "Machine", "lost")).await;
    let lost = api.until(&place, |live| live["status"]["phase"] == "Failed").await;
    assert_eq!(lost["status"]["errorMessage"], "can't find created instance");
    assert_eq!(api.get(&at(NEWER, "Machine", "lost")).await, None);
    api.delete(&place).await;
    for gone in [&place, &at("v1", "Secret", "lost-bootstrap-data")] {
        api.until_gone(gone).await;
    }
    infrastructure.abort();
}

/// MACH-PROV-11: the example that is shipped can be read.
#[test]
fn the_example() {
    let set = mainstay_yaml::parse(include_str!("../../../examples/providers/cluster-api.yaml")).unwrap();
    let config = mainstay_machine_core::cluster_api::Config::of(&set["spec"]["template"]).unwrap();
    assert_eq!((config.template.cloned_kind(), config.user_data.as_str()), ("AWSMachine", "worker-user-data"));
}
