//! Bundles with webhooks on `mainstay up`: the service CA issues their certificates, and the API calls them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::peer;
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_e2e::bundles::{self, Toy, extension, publish, until_installed, until_serving};
use mainstay_e2e::{Cluster, Registry, need_embedded, need_kubectl};
use mainstay_serve::{Certificates, ClientCertificates, Server, Tls};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "hooks";
const SECRET: &str = "gadget-service-cert";

/// An operator with a validating webhook and a conversion webhook: `spec.n` of `v1` is `spec.count` of `v2`.
fn gadget(folder: &std::path::Path) {
    let toy = Toy::new("gadget", "1.0.0");
    let written = toy.write(folder);
    let mut csv = toy.csv();
    let hook = |kind: &str, name: &str, path: &str, more: &Value| {
        let mut hook = json!({
            "type": kind, "generateName": name, "webhookPath": path, "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "deploymentName": "gadget", "containerPort": 443, "targetPort": 9443,
        });
        for (key, value) in more.as_object().unwrap() {
            hook[key] = value.clone();
        }
        hook
    };
    let rules = json!([{"apiGroups": ["gadgets.example.com"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["gadgets"]}]);
    csv["spec"]["webhookdefinitions"] = json!([
        hook("ValidatingAdmissionWebhook", "vgadget.example.com", "/validate", &json!({"failurePolicy": "Fail", "rules": rules})),
        hook("ConversionWebhook", "cgadget.example.com", "/convert", &json!({"conversionCRDs": [toy.crd_name()]})),
    ]);
    // A conversion webhook is asked for every namespace.
    csv["spec"]["installModes"] = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
        .map(|mode| json!({"type": mode, "supported": mode == "AllNamespaces"}))
        .into();
    let mut crd = toy.crd();
    let version = |name: &str, field: &str| {
        json!({"name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {field: {"type": "integer"}}}}}}})
    };
    crd["spec"]["versions"] = json!([version("v1", "n"), version("v2", "count")]);
    bundles::write(&written.join("manifests/csv.yaml"), &mainstay_yaml::to_string(&csv));
    bundles::write(&written.join("manifests/crd.yaml"), &mainstay_yaml::to_string(&crd));
}

async fn validate(Json(review): Json<Value>) -> Json<Value> {
    let count = review["request"]["object"]["spec"]["n"].as_i64().unwrap_or_default();
    let response = json!({
        "uid": review["request"]["uid"], "allowed": count <= 10,
        "status": {"message": format!("{count} gadgets are too many; ten will do")},
    });
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

async fn convert(Json(review): Json<Value>) -> Json<Value> {
    Json(peer::renamed(&review, |_, _| {}))
}

/// OLM1-INST-17, OLM1-GEN-08, COP-SCA-01, COP-SCA-03, COP-SCA-05, KAPI-WL-06: a bundle with webhooks installs on `mainstay up`. The service
/// CA, without being asked for, issues the certificate of its Service and gives configuration and CRD the bundle; a server with that
/// certificate is called, refuses what it is to refuse in its own words, and converts between versions. The certificate survives its
/// Secret, and the configuration stays the extension's.
#[test]
fn a_bundle_with_webhooks() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(Server::bind("127.0.0.1:0".parse().unwrap())).unwrap();
    let local = format!("{NAMESPACE}/gadget-service={}", listener.address());
    let cluster = Cluster::up(&["--serve-local", &local]);
    let registry = Registry::ours();
    let folder = tempfile::tempdir().unwrap();
    gadget(folder.path());
    let reference = publish(&registry, &folder.path().join("gadget"), cluster.folder(), "latest");
    cluster.apply(&bundles::catalog("gadgets", &reference, None));
    until_serving(&cluster, "gadgets");
    cluster.apply(&extension("gadget", NAMESPACE, "gadget", "1.0.0", None));
    until_installed(&cluster, "gadget", "1.0.0");

    let secret =
        cluster.until("the certificate is there", &["secret", SECRET, "-n", NAMESPACE], |secret| secret["data"]["tls.crt"].is_string());
    assert_eq!(secret["metadata"]["ownerReferences"][0]["kind"], "Service");
    let decoded = |object: &Value, key: &str| STANDARD.decode(object["data"][key].as_str().unwrap()).unwrap();
    let certificates = Certificates::from_pem(&decoded(&secret, "tls.crt"), &decoded(&secret, "tls.key")).unwrap();
    let listener = listener.tls(Tls::new(&certificates, ClientCertificates::Requested).unwrap());
    let (stop, routes) = (CancellationToken::new(), Router::new().route("/validate", post(validate)).route("/convert", post(convert)));
    let serving = runtime.spawn(listener.run(routes, stop.clone()));
    let trusts = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).is_some_and(|bundle| !bundle.is_empty());
    let configuration = cluster.until("the webhook trusts", &["validatingwebhookconfiguration", "vgadget.example.com"], |object| {
        trusts(object, "/webhooks/0/clientConfig/caBundle")
    });
    let definition = cluster.until("the conversion trusts", &["crd", "gadgets.gadgets.example.com"], |object| {
        trusts(object, "/spec/conversion/webhook/clientConfig/caBundle")
    });
    assert_eq!(configuration["metadata"]["labels"]["olm.operatorframework.io/owner-name"], "gadget");
    assert_eq!(
        configuration["webhooks"][0]["clientConfig"]["caBundle"],
        definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
    );

    let gadgets = |n: u32| json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "mine", "namespace": "default"}, "spec": {"n": n}});
    let refused = cluster.kubectl_with(&["create", "-f", "-"], &gadgets(11).to_string()).refused();
    let words = "admission webhook \"vgadget.example.com\" denied the request: 11 gadgets are too many; ten will do";
    assert!(refused.contains(words), "{refused}");
    cluster.apply(&gadgets(7).to_string());
    let converted = cluster.get(&["gadgets.v2.gadgets.example.com", "mine", "-n", "default"]).unwrap();
    assert_eq!((&converted["apiVersion"], &converted["spec"]), (&json!("gadgets.example.com/v2"), &json!({"count": 7})));

    cluster.kubectl(&["delete", "secret", SECRET, "-n", NAMESPACE, "--wait=false"]).ok();
    let uid = secret["metadata"]["uid"].clone();
    let again = cluster.until("the certificate returns", &["secret", SECRET, "-n", NAMESPACE], |secret| {
        secret["data"]["tls.crt"].is_string() && secret["metadata"]["uid"] != uid
    });
    assert_ne!(decoded(&again, "tls.key"), decoded(&secret, "tls.key"), "another key");
    // The extension is settled, and the two do not fight over the configuration.
    until_installed(&cluster, "gadget", "1.0.0");
    let later = cluster.get(&["validatingwebhookconfiguration", "vgadget.example.com"]).unwrap();
    assert_eq!(later["metadata"]["resourceVersion"], configuration["metadata"]["resourceVersion"]);
    stop.cancel();
    runtime.block_on(serving).unwrap();
}

/// An operator whose webhook is asked about every new pod.
fn guard(folder: &std::path::Path) {
    let toy = Toy::new("guard", "1.0.0");
    let written = toy.write(folder);
    let mut csv = toy.csv();
    csv["spec"]["webhookdefinitions"] = json!([{
        "type": "ValidatingAdmissionWebhook", "generateName": "vpod.guard.example.com", "webhookPath": "/validate",
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "deploymentName": "guard", "containerPort": 443, "targetPort": 9443,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }]);
    csv["spec"]["installModes"] = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
        .map(|mode| json!({"type": mode, "supported": mode == "AllNamespaces"}))
        .into();
    bundles::write(&written.join("manifests/csv.yaml"), &mainstay_yaml::to_string(&csv));
}

/// KAPI-WL-06, MS-PLAN-01, MS-EXPL-02, MS-CLI-05: an operator with a pod webhook on simulated nodes. The plan of its install warns; the plan of the
/// next operator names it; that install ends at once with the webhook, its owner and the way out; describe and explain say the same, and so does the
/// event of the ReplicaSet. What is advised helps.
#[test]
fn a_pod_webhook_with_simulated_pods() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&[]);
    let registry = Registry::ours();
    let folder = cluster.folder().join("bundles");
    guard(&folder);
    Toy::new("gadget", "1.0.0").write(&folder);
    let reference = publish(&registry, &folder, cluster.folder(), "latest");
    cluster.apply(&bundles::catalog("team", &reference, None));
    until_serving(&cluster, "team");

    let service = "--serve-local guard-system/guard-service=HOST:PORT";
    let plan = cluster.mainstay(&["install", "guard", "--dry-run"]).ok();
    assert!(plan.contains("simulated and answer nothing: no new pod can be created"), "{plan}");
    assert!(plan.contains(service) && plan.contains("--skip-simulated-webhooks"), "{plan}");
    cluster.mainstay(&["install", "guard", "--yes"]).ok();

    let plan = cluster.mainstay(&["plan", "install", "gadget", "--no-sizes"]).ok();
    assert!(plan.contains("pods of Deployment gadget-system/gadget will be refused: webhook vpod.guard.example.com"), "{plan}");
    let refused = cluster.mainstay(&["install", "gadget", "--yes"]).exits(4);
    assert!(refused.contains("webhook vpod.guard.example.com of clusterextension guard cannot be asked"), "{refused}");
    assert!(refused.contains("hint: mainstay uninstall guard removes the webhook"), "{refused}");
    let told = cluster.mainstay(&["describe", "gadget"]).ok();
    assert!(told.contains("belongs to clusterextension guard: mainstay uninstall guard removes it"), "{told}");
    let told = cluster.mainstay(&["describe", "guard"]).ok();
    assert!(told.contains("Warnings:   webhook vpod.guard.example.com") && told.contains(service), "{told}");
    let told = cluster.mainstay(&["explain", "guard"]).ok();
    assert!(told.contains("no new pod can be created") && told.contains("mainstay uninstall guard removes it"), "{told}");
    let told: Value = serde_json::from_str(&cluster.mainstay(&["explain", "gadget", "-o", "json"]).ok()).unwrap();
    assert_eq!(
        (&told["situation"], &told["next"]["commands"]),
        (&json!("webhook-simulated"), &json!(["mainstay uninstall guard"])),
        "{told:#}"
    );
    cluster.until("the event names the webhook", &["events", "-n", "gadget-system"], |events| {
        let text = events.to_string();
        text.contains("FailedCreate") && text.contains("guard-system/guard-service has only simulated pods")
    });

    cluster.mainstay(&["uninstall", "guard", "--yes", "--delete-crds"]).ok();
    cluster.mainstay(&["wait", "gadget", "--timeout", "2m"]).ok();
}
