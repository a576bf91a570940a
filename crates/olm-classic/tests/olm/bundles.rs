//! Bundles of real operators, installed by hand.

use mainstay_testing::bundles::bundles;
use serde_json::{Value, json};

use crate::support::{Api, CSV};

/// The manifests of a bundle, read as kubectl reads them.
fn manifests(files: &mainstay_testing::bundles::Files) -> Vec<Value> {
    let own = files.iter().filter(|(path, _)| path.starts_with("manifests/"));
    own.map(|(_, bytes)| mainstay_yaml::parse(std::str::from_utf8(bytes).unwrap()).unwrap()).collect()
}

/// OLM0-CSV-05, OLM0-CSV-09, OLM0-CSV-11, OLM0-CSV-15, OLM0-CSV-16: operators of every install mode reach `Succeeded`.
#[tokio::test(flavor = "multi_thread")]
async fn real_operators() {
    let Some(all) = bundles() else { return };
    let api = Api::start().await;
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let mut done: Vec<(String, &str, bool)> = Vec::new();
    let mut packages = std::collections::BTreeSet::new();
    for (id, files) in all {
        let package = id.split('/').next().unwrap();
        let objects = manifests(files);
        let Some(csv) = objects.iter().find(|object| object["kind"] == CSV) else { continue };
        let spec = &csv["spec"];
        let is_empty = |path: &str| spec.pointer(path).and_then(Value::as_array).is_none_or(Vec::is_empty);
        let plain =
            ["/apiservicedefinitions/owned", "/apiservicedefinitions/required", "/nativeAPIs", "/customresourcedefinitions/required"];
        if !plain.iter().all(|path| is_empty(path)) || is_empty("/install/spec/deployments") || csv.to_string().len() > 150_000 {
            continue;
        }
        let has_crd = |name: &Value| {
            objects.iter().any(|object| object["apiVersion"] == "apiextensions.k8s.io/v1" && object["metadata"]["name"] == *name)
        };
        let owned = spec.pointer("/customresourcedefinitions/owned").and_then(Value::as_array);
        if !owned.into_iter().flatten().all(|crd| has_crd(&crd["name"])) {
            // Its CRDs are of a version that no server takes any more.
            continue;
        }
        let supported = |mode: &str| {
            spec["installModes"].as_array().is_some_and(|all| all.iter().any(|each| each["type"] == mode && each["supported"] == true))
        };
        let mode = modes[done.len() % modes.len()];
        if done.len() >= 16 || !supported(mode) || !packages.insert(package.to_owned()) {
            continue;
        }
        let home = format!("bundle-{}", done.len());
        for namespace in [home.clone(), format!("{home}-a"), format!("{home}-b")] {
            api.namespace(&namespace, json!({})).await;
        }
        let group = match mode {
            "OwnNamespace" => json!({"targetNamespaces": [home]}),
            "SingleNamespace" => json!({"targetNamespaces": [format!("{home}-a")]}),
            "MultiNamespace" => json!({"targetNamespaces": [format!("{home}-a"), format!("{home}-b")]}),
            _ => json!({}),
        };
        api.group(&home, "g", group).await;
        for object in objects
            .iter()
            .filter(|object| object["kind"] == "CustomResourceDefinition" && object["apiVersion"] == "apiextensions.k8s.io/v1")
        {
            let mut crd = object.clone();
            crd.as_object_mut().unwrap().remove("status");
            api.apply(crd).await;
        }
        let mut object = csv.clone();
        object["metadata"]["namespace"] = json!(home);
        object.as_object_mut().unwrap().remove("status");
        // Authors write fields that there are none; a creation drops them as upstream's clients do.
        let object = match api.admin.create(&object).await {
            Ok(object) => object,
            Err(error) if matches!(error.reason(), Some(mainstay_apply::Reason::Invalid(_))) => continue,
            Err(error) => panic!("{error}"),
        };
        api.permissions(&object).await;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        api.phase(&home, &name, "Succeeded", "InstallSucceeded").await;
        done.push((name, mode, !is_empty("/webhookdefinitions")));
    }
    assert!(done.len() >= 10 && modes.iter().all(|mode| done.iter().any(|each| each.1 == *mode)), "{done:?}");
    assert!(done.iter().any(|each| each.2), "none has webhooks: {done:?}");
    api.close().await;
}
