//! The configuration of a bundle's Deployments, by upstream's rules (OLM1-API-06).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_bundle::{Bundle, Config, RenderOptions, render};
use serde_json::{Value, json};

/// A bundle whose operator says something in each field that a configuration may change.
fn bundle(modes: &[&str]) -> Bundle {
    let modes: Vec<Value> = modes.iter().map(|mode| json!({"type": mode, "supported": true})).collect();
    let pod = json!({
        "volumes": [{"name": "data", "emptyDir": {}}], "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "arch", "operator": "Exists"}]}]}},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
        "containers": [
            {"name": "manager", "image": "m", "env": [{"name": "LEVEL", "value": "info"}], "volumeMounts": [{"name": "data", "mountPath": "/a"}],
             "envFrom": [{"configMapRef": {"name": "base"}}], "resources": {"limits": {"cpu": "1"}}},
            {"name": "proxy", "image": "p"}
        ],
    });
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "widgets.v1.0.0"},
        "spec": {"displayName": "Widgets", "version": "1.0.0", "installModes": modes, "install": {"strategy": "deployment", "spec": {
            "deployments": [{"name": "widgets", "spec": {"selector": {"matchLabels": {"app": "w"}},
                "template": {"metadata": {"labels": {"app": "w"}, "annotations": {"kept": "bundle"}}, "spec": pod}}}]}}},
    });
    let annotations = json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": "widgets"}});
    Bundle::read([
        ("manifests/csv.yaml", csv.to_string().into_bytes()),
        ("metadata/annotations.yaml", annotations.to_string().into_bytes()),
    ])
    .unwrap()
}

const ALL: [&str; 1] = ["AllNamespaces"];

fn deployment(config: &Value) -> Value {
    let bundle = bundle(&ALL);
    let config = Config::read(&json!({"deploymentConfig": config}), &bundle.csv, true).unwrap();
    let options = RenderOptions { install_namespace: "ops".to_owned(), deployment: config.deployment, ..RenderOptions::default() };
    render(&bundle, &options).unwrap().into_iter().find(|object| object["kind"] == "Deployment").unwrap()
}

fn pod(config: &Value) -> Value {
    deployment(config)["spec"]["template"]["spec"].clone()
}

/// OLM1-API-06: what has a name is replaced by name, in every container; what has none is added once.
#[test]
fn lists_are_merged_by_name_and_the_nameless_added_once() {
    let changed = pod(&json!({
        "env": [{"name": "LEVEL", "value": "debug"}, {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "envFrom": [{"configMapRef": {"name": "base"}}, {"secretRef": {"name": "more"}}],
        "volumes": [{"name": "data", "configMap": {"name": "c"}}, {"name": "ca", "secret": {"secretName": "ca"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/b"}, {"name": "ca", "mountPath": "/ca"}],
        "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b"}],
    }));
    let [manager, proxy] = [&changed["containers"][0], &changed["containers"][1]];
    let env = json!([{"name": "LEVEL", "value": "debug"}, {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]);
    assert_eq!((&manager["env"], &proxy["env"]), (&env, &env));
    let base = json!({"configMapRef": {"name": "base"}});
    assert_eq!(manager["envFrom"], json!([base, {"secretRef": {"name": "more"}}]));
    assert_eq!(proxy["envFrom"], json!([base, {"secretRef": {"name": "more"}}]));
    assert_eq!(manager["volumeMounts"], json!([{"name": "data", "mountPath": "/b"}, {"name": "ca", "mountPath": "/ca"}]));
    assert_eq!(changed["volumes"], json!([{"name": "data", "configMap": {"name": "c"}}, {"name": "ca", "secret": {"secretName": "ca"}}]));
    assert_eq!(changed["tolerations"], json!([{"key": "a", "operator": "Exists"}, {"key": "b"}]));
}

/// OLM1-API-06: resources and node selectors are replaced as a whole, annotations never.
#[test]
fn wholes_are_replaced_and_annotations_added() {
    let changed = deployment(&json!({
        "resources": {"requests": {"memory": "1024Mi"}}, "nodeSelector": {"zone": "a"}, "annotations": {"kept": "config", "team": "x"},
    }));
    let template = &changed["spec"]["template"];
    for container in template["spec"]["containers"].as_array().unwrap() {
        assert_eq!(container["resources"], json!({"requests": {"memory": "1Gi"}}));
    }
    assert_eq!(template["spec"]["nodeSelector"], json!({"zone": "a"}));
    assert_eq!(changed["metadata"]["annotations"], json!({"kept": "config", "team": "x"}));
    assert_eq!([&template["metadata"]["annotations"]["kept"], &template["metadata"]["annotations"]["team"]], ["bundle", "x"]);
}

/// OLM1-API-06: an absent part of an affinity is left alone, an empty one erases.
#[test]
fn affinity_is_replaced_part_by_part() {
    let before = pod(&json!({"env": []}))["affinity"].clone();
    let other = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]}});
    let both = pod(&json!({"affinity": other}))["affinity"].clone();
    assert_eq!([&both["nodeAffinity"], &both["podAffinity"]], [&before["nodeAffinity"], &before["podAffinity"]]);
    assert_eq!(both["podAntiAffinity"], other["podAntiAffinity"]);
    let without = pod(&json!({"affinity": {"nodeAffinity": {}}}))["affinity"].clone();
    assert_eq!(without, json!({"podAffinity": before["podAffinity"]}));
    assert!(pod(&json!({"affinity": {}})).get("affinity").is_none());
    assert!(pod(&json!({"affinity": {"nodeAffinity": {}, "podAffinity": {}}})).get("affinity").is_none());
}

/// OLM1-API-06: a configuration that changes nothing gives what the bundle gives.
#[test]
fn nothing_configured_changes_nothing() {
    let bundle = bundle(&ALL);
    let plain = render(&bundle, &RenderOptions { install_namespace: "ops".to_owned(), ..RenderOptions::default() }).unwrap();
    let plain = plain.into_iter().find(|object| object["kind"] == "Deployment").unwrap();
    assert_eq!(deployment(&json!({})), plain);
    assert_eq!(deployment(&json!({"env": [], "envFrom": [], "volumes": [], "volumeMounts": [], "tolerations": []})), plain);
}

/// OLM1-API-06: what the bundle does not take is named, in upstream's words.
#[test]
fn configurations_are_checked() {
    let check = |modes: &[&str], deployment: bool, inline: Value, expected: &str| {
        let outcome = Config::read(&inline, &bundle(modes).csv, deployment);
        let said = outcome.map_or_else(|error| error.to_string(), |config| format!("{:?}", config.watch_namespace));
        assert_eq!(said.replace("invalid ClusterExtension configuration: invalid configuration: ", "!"), expected, "{inline}");
    };
    let (own, both) = (["OwnNamespace"], ["AllNamespaces", "SingleNamespace"]);
    check(&ALL, true, json!({"deploymentConfig": {"selector": {}}}), "!unknown field \"selector\"");
    check(&ALL, false, json!({"deploymentConfig": {"env": []}}), "!unknown field \"deploymentConfig\"");
    check(&ALL, true, json!({"watchNamespace": "a"}), "!unknown field \"watchNamespace\"");
    check(&own, true, json!({"watchNamespace": "ops"}), "Some(\"ops\")");
    check(&both, true, json!({"watchNamespace": null}), "None");
    check(&both, true, json!({"watchNamespace": 5}), "!invalid value for field \"watchNamespace\"");
    check(
        &ALL,
        true,
        json!({"deploymentConfig": {"env": "a"}}),
        "!invalid type for field \"deploymentConfig.env\": got string, want array",
    );
    check(&ALL, true, json!({"deploymentConfig": {"env": null}}), "!required field \"deploymentConfig.env\" is missing");
    check(&ALL, true, json!({"deploymentConfig": {"volumes": [{"emptyDir": {}}]}}), "!required field \"name\" is missing");
    check(
        &ALL,
        true,
        json!({"deploymentConfig": {"env": [{"name": "A", "value": 5}]}}),
        "!invalid type for field \"deploymentConfig.env[0].value\": expected text, found 5",
    );
    check(
        &ALL,
        true,
        json!({"a": 1, "deploymentConfig": {"b": 1}}),
        "!multiple errors found:\n  - unknown field \"a\"\n  - unknown field \"b\"",
    );
}
