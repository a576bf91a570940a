//! The ClusterOperators that the Machine API tells of, and the kinds that it serves.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_machine_api::{Config, NAMESPACE};
use mainstay_objects::{Expect, ObjectRef};
use serde_json::{Value, json};

use crate::support::{Api, at};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn operator(name: &str) -> ObjectRef {
    ObjectRef { namespace: String::new(), ..at("config.openshift.io/v1", "ClusterOperator", name) }
}

/// Conditions as `type=status reason message`.
fn told(operator: &Value) -> Vec<String> {
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let all = operator["status"]["conditions"].as_array().unwrap().iter();
    let mut all: Vec<String> = all.map(|one| format!("{}={} {}", text(one, "type"), text(one, "status"), text(one, "message"))).collect();
    all.sort();
    all
}

fn related(operator: &Value) -> Vec<(String, String)> {
    let all = operator["status"]["relatedObjects"].as_array().unwrap().iter();
    all.map(|one| (one["resource"].as_str().unwrap().to_owned(), one["name"].as_str().unwrap_or_default().to_owned())).collect()
}

/// COP-10, COP-17, COP-26: each operator says in its own words that it is available, with its version and its objects; a certificate request that is not
/// approved degrades none. The kinds are namespaced and checked.
#[tokio::test(flavor = "multi_thread")]
async fn operators_tell_of_themselves() {
    let mut api = Api::start().await;
    let definitions: Vec<Value> = mainstay_api::release_manifests().unwrap().into_iter().map(|manifest| manifest.definition).collect();
    api.define(&definitions).await;
    api.run(Config::default());

    let is_told = |operator: &Value| operator["status"]["versions"][0]["version"] == VERSION;
    let machine_api = api.until(&operator("machine-api"), is_told).await;
    assert_eq!(
        told(&machine_api),
        [
            format!("Available=True Cluster Machine API Operator is available at operator: {VERSION}"),
            "Degraded=False ".to_owned(),
            "Progressing=False ".to_owned(),
            "Upgradeable=True ".to_owned(),
        ]
    );
    let has = |operator: &Value, resource: &str, name: &str| related(operator).contains(&(resource.to_owned(), name.to_owned()));
    assert!(has(&machine_api, "machines", "") && has(&machine_api, "namespaces", NAMESPACE), "{machine_api:#}");

    // A request that no machine stands for.
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(rcgen::DnType::CommonName, "system:node:stranger");
    let asked = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "stranger"},
        "spec": {
            "request": STANDARD.encode(asked), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    });
    api.admin.create(&request).await.unwrap();
    let approver = api.until(&operator("machine-approver"), is_told).await;
    assert_eq!(
        told(&approver)[..2],
        [format!("Available=True Cluster Machine Approver is available at {VERSION}"), "Degraded=False ".to_owned()]
    );
    assert_eq!(
        related(&approver),
        [
            ("namespaces".to_owned(), "openshift-cluster-machine-approver".to_owned()),
            ("certificatesigningrequests".to_owned(), String::new()),
        ]
    );

    let control_plane = api.until(&operator("control-plane-machine-set"), is_told).await;
    assert_eq!(told(&control_plane)[0], "Available=True cluster operator is available");
    for plural in ["machines", "machinesets", "machinehealthchecks", "controlplanemachinesets"] {
        let name = format!("{plural}.machine.openshift.io");
        let place = ObjectRef { namespace: String::new(), ..at("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name) };
        assert_eq!(api.get(&place).await.unwrap()["spec"]["scope"], "Namespaced", "{name}");
    }
    let mut wrong = json!({
        "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet", "metadata": {"name": "other", "namespace": NAMESPACE},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {"machineType": "machines_v1beta1_machine_openshift_io"}},
    });
    let refused = async |object: &Value| mainstay_diagnostics::chain(&api.admin.apply(object, true, &Expect::default()).await.unwrap_err());
    let said = refused(&wrong).await;
    assert!(said.contains("other"), "{said}");
    wrong["metadata"]["name"] = json!("cluster");
    wrong["spec"]["replicas"] = json!(4);
    let said = refused(&wrong).await;
    assert!(said.contains("spec.replicas"), "{said}");
    let place = ObjectRef { namespace: String::new(), ..at("certificates.k8s.io/v1", "CertificateSigningRequest", "stranger") };
    assert_eq!(api.get(&place).await.unwrap()["status"]["conditions"], Value::Null, "neither approved nor denied");
    let approver = api.get(&operator("machine-approver")).await.unwrap();
    assert_eq!(told(&approver)[1], "Degraded=False ");
}
