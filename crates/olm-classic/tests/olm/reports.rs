//! The ClusterOperators of OLM classic.

use mainstay_olm_classic::{olm, report};
use mainstay_olm_classic_core::cluster_operators::Part;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::support::{Api, csv, csv_at, place};

/// A CRD whose objects may be anything.
fn open(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"kind": kind, "plural": plural}, "versions": [{"name": version, "served": true,
            "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}]}})
}

fn condition(object: &Value, kind: &str) -> Value {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|each| each["type"] == kind).unwrap_or_default()
}

/// OLM0-MET-05, OLM0-MET-06, COP-32, COP-OLM0-06: the three ClusterOperators appear when the cluster has the kind, with four conditions and the release; an
/// operator that supports no newer platform blocks the next minor version, and one that is removed does not.
#[tokio::test(flavor = "multi_thread")]
async fn the_parts_report() {
    let api = Api::start().await;
    let (release, follow) = watch::channel("4.19.0".to_owned());
    let setup = report::Setup {
        cluster: api.cluster(),
        env: api.env.clone(),
        namespace: olm::NAMESPACE.to_owned(),
        parts: [Part::Olm, Part::Catalog, Part::Packages].map(|part| (part, part.name().to_owned())).into(),
        release: follow,
    };
    let stop = CancellationToken::new();
    let running = tokio::spawn(report::run(setup, stop.clone()));
    let kind = open("config.openshift.io", "v1", "ClusterOperator", "clusteroperators");
    api.apply(kind).await;
    api.established("clusteroperators.config.openshift.io").await;
    let operator = |name: &str| place("config.openshift.io/v1", "ClusterOperator", "", name);
    let is = |kind: &'static str, status: &'static str| move |object: &Value| condition(object, kind)["status"] == status;
    for name in ["operator-lifecycle-manager", "operator-lifecycle-manager-catalog"] {
        let well = api.until(&operator(name), is("Available", "True")).await;
        for (kind, status) in [("Progressing", "False"), ("Degraded", "False"), ("Upgradeable", "True")] {
            assert_eq!(condition(&well, kind)["status"], status, "{name} {kind}");
        }
        assert_eq!(well["status"]["versions"], json!([{"name": "operator", "version": "4.19.0"}]));
        let related = well["status"]["relatedObjects"].as_array().unwrap();
        assert!(related.iter().any(|object| object["resource"] == "namespaces" && object["name"] == olm::NAMESPACE), "{well:#}");
    }
    let packages = operator("operator-lifecycle-manager-packageserver");
    let down = api.until(&packages, is("Available", "False")).await;
    assert_eq!(condition(&down, "Available")["message"], "APIService v1.packages.operators.coreos.com does not exist");
    assert_eq!(condition(&down, "Upgradeable")["status"], "False");

    // An operator for 4.19 at most.
    let mut old = csv("home", "widgets", "1.0.0", &["OwnNamespace"]);
    let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": "4.19"}]}).to_string();
    old["metadata"]["annotations"] = json!({"operatorframework.io/properties": properties});
    api.namespace("home", json!({})).await;
    api.apply(old).await;
    let main = operator("operator-lifecycle-manager");
    let blocked = api.until(&main, is("Upgradeable", "False")).await;
    let told = condition(&blocked, "Upgradeable");
    assert_eq!(told["reason"], "IncompatibleOperatorsInstalled");
    assert_eq!(
        told["message"],
        "ClusterServiceVersions blocking minor version upgrades to 4.20.0 or higher:\n- maximum supported OCP version for home/widgets.v1.0.0 is 4.19"
    );
    assert_eq!(condition(&blocked, "Available")["status"], "True");
    let changed = "Status for clusteroperator/operator-lifecycle-manager changed: Upgradeable changed from True to False";
    let mut told = false;
    for _ in 0..500 {
        let events = api.admin.list(&kube::api::GroupVersionKind::gvk("", "v1", "Event"), 1000).await.unwrap();
        told = events.iter().any(|event| event["message"].as_str().is_some_and(|text| text.starts_with(changed)));
        if told {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(told, "{changed}");
    api.delete(&csv_at("home", "widgets.v1.0.0")).await;
    api.until(&main, is("Upgradeable", "True")).await;

    // The release moves on.
    release.send("4.20.1".to_owned()).unwrap();
    api.until(&main, |object| object["status"]["versions"] == json!([{"name": "operator", "version": "4.20.1"}])).await;
    // Who deletes one gets it again.
    api.delete(&main).await;
    api.until(&main, is("Available", "True")).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    api.close().await;
}
