//! Bundles and worlds of our own, with what upstream was seen to answer.

use mainstay_olm_classic_core::cases;
use mainstay_olm_classic_core::steps::{self, Loaded};
use serde_json::{Value, json};

/// A bundle of a CSV and further files.
fn bundle(spec: &Value, files: &[&str]) -> Loaded {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "lamp.v1"}, "spec": spec,
    });
    let mut texts = vec![("csv.yaml".to_owned(), csv.to_string())];
    texts.extend(files.iter().enumerate().map(|(at, text)| (format!("file-{at}.yaml"), (*text).to_owned())));
    steps::load(texts.iter().map(|(name, text)| (name.as_str(), text.as_bytes())))
}

fn deployment(name: &str) -> Value {
    json!({"name": name, "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {}, "spec": {"containers": []}}}})
}

fn install(deployments: &[&str]) -> Value {
    let deployments: Vec<Value> = deployments.iter().map(|name| deployment(name)).collect();
    json!({"strategy": "deployment", "spec": {"deployments": deployments}})
}

/// The writes of a kind that the strategy of a CSV makes.
fn written(spec: &Value, resource: &str) -> Vec<Value> {
    let answer = cases::deployments(&bundle(spec, &[])).unwrap();
    let objects = answer["withCertificates"]["objects"].as_array().cloned().unwrap();
    objects.into_iter().filter(|object| object["resource"] == resource).collect()
}

/// OLM0-CSV-12: several owned APIs of one group and version are one APIService, that of the last; the services are in the order of names.
#[test]
fn api_services() {
    let api = |group: &str, deployment: &str, port: i64| json!({"name": "lamps", "kind": "Lamp", "group": group, "version": "v1", "deploymentName": deployment, "containerPort": port});
    let owned = [api("z.example.com", "one", 1), api("a.example.com", "one", 2), api("z.example.com", "two", 3)];
    let spec = json!({"install": install(&["one", "two"]), "apiservicedefinitions": {"owned": owned}});
    let services = written(&spec, "apiservices");
    let told: Vec<(&Value, &Value)> =
        services.iter().map(|write| (&write["object"]["metadata"]["name"], &write["object"]["spec"]["service"]["port"])).collect();
    assert_eq!(told, [(&json!("v1.a.example.com"), &json!(2)), (&json!("v1.z.example.com"), &json!(3))]);
    let ports: Vec<Value> = written(&spec, "services").iter().map(|write| write["patch"]["spec"]["ports"].clone()).collect();
    let port = |port: i64| json!([{"name": port.to_string(), "port": port, "targetPort": port}]);
    assert_eq!(ports, [port(2), port(3)]);
}

/// OLM0-CSV-12: an endpoint of a Deployment that the CSV does not have gets no authority.
#[test]
fn endpoints_of_missing_deployments() {
    let webhook = |deployment: &str| {
        json!({
            "type": "ValidatingAdmissionWebhook", "generateName": format!("{deployment}.example.com"), "deploymentName": deployment,
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        })
    };
    let api = json!({"name": "lamps", "kind": "Lamp", "group": "example.com", "version": "v1", "deploymentName": "missing"});
    let spec = json!({
        "install": install(&["one"]), "webhookdefinitions": [webhook("one"), webhook("missing")], "apiservicedefinitions": {"owned": [api]},
    });
    let hooks = written(&spec, "validatingwebhookconfigurations");
    let bundles: Vec<&Value> = hooks.iter().map(|write| &write["object"]["webhooks"][0]["clientConfig"]["caBundle"]).collect();
    assert_eq!(bundles, [&json!("CAPEM"), &Value::Null]);
    assert_eq!(written(&spec, "apiservices")[0]["object"]["spec"].get("caBundle"), None);
}

/// OLM0-CSV-11: there is one strategy.
#[test]
fn another_strategy() {
    let spec = json!({"install": {"strategy": "helm", "spec": {"deployments": [deployment("one")]}}});
    assert_eq!(cases::deployments(&bundle(&spec, &[])).unwrap_err().to_string(), "unrecognized install strategy");
}

/// OLM0-API-21: an empty file is no object, and one of comments makes the plan fail.
#[test]
fn files_without_objects() {
    let spec = json!({"install": install(&[])});
    let kinds = |files: &[&str]| {
        cases::plan(&bundle(&spec, files), &json!({})).map(|steps| steps.as_array().map_or(0, Vec::len)).map_err(|error| error.to_string())
    };
    assert_eq!(kinds(&["", "[]\n", "kind: Lamp\nmetadata: {name: a}\n"]), Ok(2));
    assert!(kinds(&["# nothing yet\n"]).is_err());
}

/// OLM0-API-21: integers of more than 64 bits with a sign become floating, in JSON as in YAML.
#[test]
fn large_numbers() {
    let spec = json!({"install": install(&[])});
    let number = |text: &str| {
        let file = format!("{{\"kind\": \"Lamp\", \"metadata\": {{\"name\": \"a\"}}, \"n\": {text}}}");
        let loaded = bundle(&spec, &[&file]);
        let content = steps::BundleContent { name: "lamp.v1", csv_json: &loaded.csv_json, objects: &loaded.objects, properties: &[] };
        let plan = steps::of_bundle(content, "ns", "", &mainstay_olm_classic_core::source::SourceKey::default()).unwrap();
        let manifest = plan.into_iter().find(|step| step.kind == "Lamp").unwrap().manifest;
        manifest.split("\"n\":").nth(1).unwrap().trim_end_matches("}\n").to_owned()
    };
    assert_eq!(number("9223372036854775807"), "9223372036854775807");
    assert_eq!(number("12345678901234567890"), "12345678901234567000");
    assert_eq!(number("-9223372036854775808"), "-9223372036854775808");
}

/// OLM0-RES-20: an installed CSV that cannot be read is the error, whatever else is wrong with Subscriptions and catalogs.
#[test]
fn unreadable_csv_first() {
    let bundle = |name: &str, package: &str| {
        json!({
            "name": name, "package": package, "version": "1.0.0", "channel": "stable", "defaultChannel": true, "bundlePath": name,
            "properties": [{"type": "olm.package", "value": format!("{{\"packageName\":\"{package}\",\"version\":\"1.0.0\"}}")}],
        })
    };
    let world = json!({
        "namespace": "ns", "globalNamespace": "olm", "operatorGroups": [{"name": "og"}],
        "catalogs": [{"name": "cat", "namespace": "olm", "bundles": [bundle("a.v1", "a"), bundle("a.v2", "a")]}],
        "csvs": [
            {"name": "b.v1", "namespace": "ns", "version": "1.0.0", "phase": "Succeeded", "propertiesAnnotation": "[]"},
            {"name": "c.v1", "namespace": "ns", "version": "1.0.0", "phase": "Succeeded", "propertiesAnnotation":
                "{\"properties\":[{\"type\":\"olm.package.required\",\"value\":{\"packageName\":\"a\",\"versionRange\":\"x\"}}]}"},
        ],
        "subscriptions": [{"name": "s", "package": "a", "channel": "stable", "catalogSource": "cat", "catalogSourceNamespace": "olm"}],
    });
    let wanted = "error using catalogsource ns/@existing: failed to retrieve properties of csv \"b.v1\": failed to unmarshal properties \
                  annotation: json: cannot unmarshal array into Go value of type projection.propertiesAnnotation";
    assert_eq!(cases::resolution(&world).unwrap()["resolve"]["error"], wanted);
}
