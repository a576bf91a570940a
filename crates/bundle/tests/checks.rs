//! Findings and certificates, over small bundles made up for the purpose.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_bundle::{Bundle, CertificateProvider, Limits, RenderOptions, labels, render};
use serde_json::{Value, json};

const ANNOTATIONS: &str = "annotations:\n  operators.operatorframework.io.bundle.package.v1: widget\n  operators.operatorframework.io.bundle.channels.v1: beta, alpha\n";

fn csv(change: impl FnOnce(&mut Value)) -> Value {
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "widget.v1.0.0", "namespace": "placeholder"},
        "spec": {
            "version": "1.0.0",
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": [deployment("widget")]}},
        },
        "status": {"phase": "Ready"},
    });
    change(&mut csv);
    csv
}

fn deployment(name: &str) -> Value {
    let container = json!({"name": "manager", "image": "example.com/widget:1", "volumeMounts": [
        {"name": "old", "mountPath": "/tmp/k8s-webhook-server/serving-certs"}, {"name": "data", "mountPath": "/data"}]});
    json!({"name": name, "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {}, "spec": {
        "containers": [container], "volumes": [{"name": "old", "emptyDir": {}}, {"name": "data", "emptyDir": {}}]}}}})
}

fn webhook(kind: &str, name: &str) -> Value {
    json!({"generateName": name, "type": kind, "deploymentName": "widget", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "targetPort": 9443, "webhookPath": "/hook"})
}

fn files(manifests: &[Value]) -> Vec<(String, Vec<u8>)> {
    let manifest = |(index, value): (usize, &Value)| (format!("manifests/{index}.yaml"), value.to_string().into_bytes());
    let mut files: Vec<_> = manifests.iter().enumerate().map(manifest).collect();
    files.push(("metadata/annotations.yaml".to_owned(), ANNOTATIONS.as_bytes().to_vec()));
    files
}

fn bundle(manifests: &[Value]) -> Bundle {
    Bundle::read(files(manifests)).unwrap()
}

fn crd(name: &str) -> Value {
    let (plural, group) = name.split_once('.').unwrap();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"group": group, "names": {"kind": "Widget", "plural": plural}, "scope": "Namespaced",
                 "versions": [{"name": "v1", "served": true, "storage": true}]}})
}

fn everywhere() -> RenderOptions {
    RenderOptions { install_namespace: "ops".to_owned(), ..RenderOptions::default() }
}

/// OLM1-INST-07, OLM1-INST-16, OLM1-INST-10: every check at once, in order.
#[test]
fn findings_come_in_order() {
    let bad = csv(|csv| {
        csv["spec"]["install"]["spec"]["deployments"] = json!([deployment("widget"), deployment("widget"), deployment("Bad_Name")]);
        csv["spec"]["installModes"] = json!([{"type": "OwnNamespace", "supported": true}, {"type": "AllNamespaces", "supported": true}]);
        csv["spec"]["customresourcedefinitions"] = json!({"owned": [{"name": "lost.example.com", "version": "v1", "kind": "Lost"}]});
        let mut conversion = webhook("ConversionWebhook", "convert.example.com");
        conversion["conversionCRDs"] = json!(["widgets.example.com"]);
        let mut second = conversion.clone();
        second["generateName"] = "again.example.com".into();
        let mut lost = webhook("ValidatingAdmissionWebhook", "validate.example.com");
        lost["deploymentName"] = "nobody".into();
        lost["rules"] = json!([{"apiGroups": ["*"], "resources": ["pods"]},
            {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["ValidatingWebhookConfigurations"]}]);
        let twice = webhook("MutatingAdmissionWebhook", "mutate-");
        csv["spec"]["webhookdefinitions"] = json!([conversion, second, lost, twice.clone(), twice]);
    });
    let unknown = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}});
    let mut bundle = bundle(&[bad, crd("widgets.example.com"), crd("widgets.example.com"), unknown]);
    bundle.package = String::new();
    insta::assert_snapshot!(bundle.check().join("\n"));
    assert_eq!(render(&bundle, &everywhere()).unwrap_err().to_string(), bundle.check().join("\n"));
}

/// OLM0-BUNDLE-08: a CredentialsRequest is no part of a bundle.
#[test]
fn credentials_requests_are_refused() {
    let request = json!({"apiVersion": "cloudcredential.openshift.io/v1", "kind": "CredentialsRequest", "metadata": {"name": "widget"}});
    let refused = bundle(&[csv(|_| {}), request]).check();
    assert_eq!(refused, [r#"unsupported resource "widget" with kind "CredentialsRequest""#]);
}

/// OLM1-INST-02: several namespaces one of which is "", and the install namespace without OwnNamespace.
#[test]
fn target_namespaces_that_no_recording_covers() {
    let multi = bundle(&[csv(|csv| csv["spec"]["installModes"] = json!([{"type": "MultiNamespace", "supported": true}]))]);
    let says = |targets: &[&str]| {
        let targets = Some(targets.iter().map(|name| (*name).to_owned()).collect());
        render(&multi, &RenderOptions { target_namespaces: targets, ..everywhere() })
            .map_or_else(|error| error.to_string(), |_| "fine".to_owned())
    };
    assert_eq!(says(&["a", "b"]), "fine");
    assert_eq!(
        says(&["a", ""]),
        "invalid option(s): invalid target namespaces [a ]: supported install modes [MultiNamespace] do not support target namespaces [a ]"
    );
    assert_eq!(
        says(&["a", "ops"]),
        "invalid option(s): invalid target namespaces [a ops]: supported install modes [MultiNamespace] do not support targeting own namespace"
    );
    assert_eq!(says(&[]), "invalid option(s): invalid target namespaces []: at least one target namespace must be specified");
}

/// OLM1-INST-17: webhooks and conversion under each provider of certificates.
#[test]
fn certificates_of_webhooks() {
    let hooks = csv(|csv| {
        let mut conversion = webhook("ConversionWebhook", "convert.example.com");
        conversion["conversionCRDs"] = json!(["widgets.example.com"]);
        conversion["webhookPath"] = Value::Null;
        csv["spec"]["webhookdefinitions"] = json!([webhook("ValidatingAdmissionWebhook", "validate.example.com"), conversion]);
        csv["spec"]["customresourcedefinitions"] = json!({"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"}]});
    });
    let bundle = bundle(&[hooks, crd("widgets.example.com")]);
    for (name, certificates) in
        [("cert-manager", CertificateProvider::CertManager), ("service-ca", CertificateProvider::OpenshiftServiceCa)]
    {
        let objects = render(&bundle, &RenderOptions { certificates, ..everywhere() }).unwrap();
        insta::assert_snapshot!(name, mainstay_yaml::to_multi_string(&objects));
    }
}

/// OLM1-INST-06: what is no bundle, and how that is said.
#[test]
fn unreadable_bundles() {
    let says = |files: Vec<(&str, &str)>| Bundle::read(files).map_or_else(|error| error.to_string(), |bundle| bundle.csv.name);
    let good = csv(|_| ()).to_string();
    let annotations = ("metadata/annotations.yaml", ANNOTATIONS);
    assert_eq!(says(vec![annotations, ("manifests/any name", &good)]), "widget.v1.0.0");
    assert_eq!(says(vec![("manifests/csv.yaml", &good)]), "open metadata/annotations.yaml: no such file or directory");
    assert_eq!(says(vec![annotations]), "stat manifests: no such file or directory");
    assert_eq!(says(vec![annotations, ("manifests/a.yaml", "kind: ConfigMap\n")]), "no ClusterServiceVersion found in \"manifests\"");
    assert_eq!(
        says(vec![annotations, ("manifests/deep/csv.yaml", &good)]),
        "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found \"manifests/deep\""
    );
    assert_eq!(
        says(vec![annotations, ("manifests/csv.yaml", &good), ("manifests/x.yaml", "a: 1\n")]),
        "error parsing objects in \"manifests/x.yaml\": document 1: Object 'Kind' is missing"
    );
    let mistyped = csv(|csv| csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["replicas"] = "two".into()).to_string();
    assert_eq!(
        says(vec![annotations, ("manifests/csv.yaml", &mistyped)]),
        "error parsing objects in \"manifests/csv.yaml\": ClusterServiceVersion \"widget.v1.0.0\": spec.install.spec.deployments[0].spec.replicas: expected a whole number, found \"two\""
    );
    assert_eq!(
        says(vec![annotations, ("manifests/a.yaml", &good), ("manifests/b.yaml", &good)]),
        "found 2 ClusterServiceVersions in \"manifests\" (widget.v1.0.0, widget.v1.0.0): a bundle holds exactly one"
    );
    assert_eq!(says(vec![("../etc/passwd", "")]), "\"../etc/passwd\": a bundle's paths are relative and stay inside it");
    let long = Bundle::read_limited([("a", "123456")], Limits { file_bytes: 5, ..Limits::default() }).unwrap_err().to_string();
    assert_eq!(long, "size of \"a\" in bytes: 6, and a bundle may have at most 5");
}

/// OLM1-INST-06, OLM0-BUNDLE-10: properties of the file join those of the CSV, in either spelling, and reach the pods.
#[test]
fn properties_join_the_annotation() {
    let own =
        csv(|csv| csv["metadata"]["annotations"] = json!({"olm.properties": "[{\"type\": \"b\", \"value\": {\"z\": 1, \"a\": \"<\"}}]"}));
    let mut files = files(&[own]);
    let more = "properties:\n- type: c\n  value: '1'\n- property:\n    type: olm.kubeversion\n    value: {version: \"1.16.0\"}\n";
    files.push(("metadata/properties.yaml".to_owned(), more.as_bytes().to_vec()));
    let bundle = Bundle::read(files).unwrap();
    let expected =
        r#"[{"type":"b","value":{"z":1,"a":"\u003c"}},{"type":"c","value":"1"},{"type":"olm.kubeversion","value":{"version":"1.16.0"}}]"#;
    assert_eq!(bundle.csv.annotations["olm.properties"], expected);
    let objects = render(&bundle, &everywhere()).unwrap();
    assert_eq!(objects[0]["spec"]["template"]["metadata"]["annotations"]["olm.properties"], expected);
}

/// OLM0-BUNDLE-04, OLM0-BUNDLE-05: labels of the image, and the default channel where none is named.
#[test]
fn labels_and_channels() {
    let bundle = bundle(&[csv(|_| ())]);
    let facts = bundle.facts();
    assert_eq!(facts.channels, ["beta", "alpha"]);
    assert_eq!(facts.default_channel.as_deref(), Some("alpha"));
    let labels = bundle.image_labels();
    assert_eq!(labels[labels::MEDIA_TYPE], "registry+v1");
    assert_eq!(labels["operators.operatorframework.io.bundle.package.v1"], "widget");
    let annotations = labels::annotations("widget", &["stable"], Some("stable"));
    let text = labels::annotations_yaml(&annotations);
    assert_eq!(mainstay_yaml::parse(&text).unwrap()["annotations"][labels::METADATA], "metadata/");
}

/// Every place of `value`, in order.
fn places(value: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    visit(value);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| places(item, visit)),
        Value::Object(entries) => entries.values_mut().for_each(|item| places(item, visit)),
        _ => {}
    }
}

/// Whatever stands in whichever place of the manifests, reading, checking and rendering end in an answer.
#[test]
fn odd_values_anywhere_do_no_harm() {
    let whole = csv(|csv| {
        let mut conversion = webhook("ConversionWebhook", "convert.example.com");
        conversion["conversionCRDs"] = json!(["widgets.example.com"]);
        csv["spec"]["webhookdefinitions"] = json!([webhook("MutatingAdmissionWebhook", "m.example.com"), conversion]);
        csv["spec"]["install"]["spec"]["clusterPermissions"] =
            json!([{"serviceAccountName": "w", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}]);
        csv["spec"]["customresourcedefinitions"] = json!({"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"}]});
    });
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let manifests = json!([whole, crd("widgets.example.com"), config]);
    let mut count = 0;
    places(&mut manifests.clone(), &mut |_| count += 1);
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("\u{1F600}/.."),
        json!([]),
        json!([null]),
        json!({}),
        json!({"": [{}]}),
    ];
    let (mut read, mut refused) = (0, 0);
    for place in 1..count {
        for value in &odd {
            let mut changed = manifests.clone();
            let mut number = 0;
            places(&mut changed, &mut |here| {
                if number == place {
                    *here = value.clone();
                }
                number += 1;
            });
            let files = files(changed.as_array().unwrap());
            let options = RenderOptions { certificates: CertificateProvider::CertManager, ..everywhere() };
            match Bundle::read(files.iter().map(|(path, bytes)| (path, bytes))) {
                Ok(bundle) => {
                    read += 1;
                    if let Ok(objects) = render(&bundle, &options) {
                        mainstay_bundle::permissions::derive(&objects, []);
                    }
                    let _ = bundle.catalog_blob("example.com/w@sha256:0", mainstay_bundle::Content::CsvMetadata);
                }
                Err(_) => refused += 1,
            }
            let _ = Bundle::read_for_catalog(files);
        }
    }
    assert!(read > 300 && refused > 300, "{read} read, {refused} refused");
}
