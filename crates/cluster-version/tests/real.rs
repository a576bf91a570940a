//! The two real releases of the recorded data.

use std::collections::BTreeMap;
use std::time::Instant;

use mainstay_release::Files;
use mainstay_testing::data;
use serde_json::{Map, Value, json};

use crate::cluster::{World, condition, place, version};

/// The files of each recorded payload by version.
fn payloads() -> Option<BTreeMap<String, Files>> {
    let mut payloads = BTreeMap::<String, Files>::new();
    for (path, content) in data::archive("payload.tar.gz")? {
        let Some((version, file)) = path.strip_prefix("payload/").and_then(|rest| rest.split_once('/')) else { continue };
        payloads.entry(version.to_owned()).or_default().add(file, content).unwrap();
    }
    Some(payloads)
}

fn image(version: &str) -> String {
    format!("registry.example/release@sha256:{:0>64}", version.replace('.', ""))
}

/// CVO-FLOW-01, CVO-FLOW-05, CVO-HIST-01, CVO-HIST-03: a real release is installed, and the next minor one follows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_release_is_installed_and_updated() {
    let Some(payloads) = payloads() else { return };
    let world = World::new(json!({"clusterID": "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11"})).await;
    for (version, files) in payloads {
        world.stock.genuine.lock().unwrap().push(image(&version));
        world.stock.files.lock().unwrap().insert(image(&version), files);
    }
    let (first, second) = ("4.18.54", "4.19.44");
    let _operators = world.operators(&[]);
    let began = Instant::now();
    let _operator = world.operator(&image(first), 20.0);
    let installed = world.until(&version(), 120, |version| version["status"]["history"][0]["state"] == "Completed").await;
    eprintln!("installed after {:?}", began.elapsed());
    assert_eq!(condition(&installed, "Progressing"), format!("False : Cluster version is {first}"));
    assert_eq!(condition(&installed, "Available"), format!("True : Done applying {first}"));
    // The minor update has an administrator's gate, until it is acknowledged (CVO-UPG-04).
    world.until(&version(), 30, |version| condition(version, "Upgradeable").starts_with("False AdminAckRequired: Kubernetes 1.32")).await;
    let acks = place("v1", "ConfigMap", "openshift-config", "admin-acks");
    let gates = world.admin.get(&place("v1", "ConfigMap", "openshift-config-managed", "admin-gates")).await.unwrap().unwrap();
    let acknowledged: Map<String, Value> = gates["data"].as_object().unwrap().keys().map(|gate| (gate.clone(), json!("true"))).collect();
    world.admin.patch(&acks, "", &mainstay_objects::Patch::Merge(json!({"data": acknowledged}))).await.unwrap();
    world.until(&version(), 30, |version| condition(version, "Upgradeable") == " : ").await;
    let patch = mainstay_objects::Patch::Merge(json!({"spec": {"desiredUpdate": {"version": second, "image": image(second)}}}));
    let began = Instant::now();
    world.admin.patch(&version(), "", &patch).await.unwrap();
    let updated = world
        .until(&version(), 240, |version| {
            let entry = &version["status"]["history"][0];
            entry["version"] == second && entry["state"] == "Completed"
        })
        .await;
    eprintln!("updated after {:?}", began.elapsed());
    assert_eq!(updated["status"]["history"].as_array().unwrap().len(), 2);
    assert_eq!(updated["status"]["history"][0]["verified"], true);
    assert_eq!(condition(&updated, "Progressing"), format!("False : Cluster version is {second}"));
}
