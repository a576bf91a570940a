//! kubectl against the embedded cluster.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::PermissionsExt as _;

use mainstay_e2e::{Cluster, need_embedded, need_kubectl, run};
use serde_json::{Value, json};

/// An editor that replaces one text by another in the file it is given.
fn editor(cluster: &Cluster, from: &str, to: &str) -> String {
    let path = cluster.folder().join("editor");
    std::fs::write(&path, format!("#!/bin/sh\nsed -i 's/{from}/{to}/' \"$1\"\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_string_lossy().into_owned()
}

#[track_caller]
fn edit(cluster: &Cluster, target: &[&str], from: &str, to: &str) -> String {
    let editor = editor(cluster, from, to);
    run(cluster.command(&mainstay_e2e::kubectl().unwrap()).env("KUBE_EDITOR", editor).arg("edit").args(target), "").ok()
}

/// KAPI-CLIENT-01, KAPI-SRV-01, KAPI-DISC-01, KAPI-PATCH-01, KAPI-SSA-01, KAPI-AUTHZ-03: what people do with built-in objects.
#[test]
fn built_in_objects() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&["--components", "controllers", "--nodes", "0"]);
    let kubectl = |arguments: &[&str]| cluster.kubectl(arguments);

    // Who am I, and what is there?
    assert!(kubectl(&["auth", "whoami"]).ok().contains("system:masters"));
    assert_eq!(kubectl(&["auth", "can-i", "delete", "nodes"]).ok().trim(), "yes");
    assert_eq!(kubectl(&["auth", "can-i", "delete", "nodes", "--as", "jane"]).exits(1).lines().next(), Some("no"));
    let resources = kubectl(&["api-resources"]).ok();
    for expected in ["configmaps", "deployments", "customresourcedefinitions", "clusterroles"] {
        assert!(resources.contains(expected), "{expected} is missing in {resources}");
    }
    let explained = kubectl(&["explain", "deployment.spec.replicas"]).ok();
    assert!(explained.contains("FIELD: replicas") && explained.contains("integer"), "{explained}");
    assert!(kubectl(&["explain", "pods", "--recursive"]).ok().contains("containers"));
    assert!(kubectl(&["get", "namespaces"]).ok().contains("kube-system"));
    assert!(kubectl(&["cluster-info"]).ok().contains("is running at"));

    // Create, apply again, look.
    let settings = |colour: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": colour}}).to_string()
    };
    assert_eq!(cluster.apply(&settings("red")).trim(), "configmap/settings created");
    assert_eq!(cluster.apply(&settings("red")).trim(), "configmap/settings unchanged");
    assert_eq!(cluster.apply(&settings("blue")).trim(), "configmap/settings configured");
    assert_eq!(kubectl(&["get", "configmap", "settings", "-o", "jsonpath={.data.colour}"]).ok(), "blue");
    assert!(kubectl(&["get", "configmap", "settings", "-o", "yaml"]).ok().contains("colour: blue"));
    assert!(kubectl(&["describe", "configmap", "settings"]).ok().contains("blue"));
    assert!(kubectl(&["diff", "-f", "-"]).stderr.is_empty());

    // Edit, label, annotate, the three patches.
    edit(&cluster, &["configmap", "settings"], "colour: blue", "colour: green");
    assert_eq!(kubectl(&["get", "configmap", "settings", "-o", "jsonpath={.data.colour}"]).ok(), "green");
    kubectl(&["label", "configmap", "settings", "team=a"]).ok();
    kubectl(&["annotate", "configmap", "settings", "note=b"]).ok();
    kubectl(&["patch", "configmap", "settings", "--type", "merge", "-p", r#"{"data":{"size":"1"}}"#]).ok();
    kubectl(&["patch", "configmap", "settings", "--type", "json", "-p", r#"[{"op":"replace","path":"/data/size","value":"2"}]"#]).ok();
    kubectl(&["patch", "configmap", "settings", "-p", r#"{"data":{"colour":null}}"#]).ok();
    let live = cluster.get(&["configmap", "settings"]).unwrap();
    assert_eq!(live["data"], json!({"size": "2"}));
    assert_eq!((&live["metadata"]["labels"]["team"], &live["metadata"]["annotations"]["note"]), (&json!("a"), &json!("b")));
    assert!(kubectl(&["get", "configmaps", "-l", "team=a", "-o", "name"]).ok().contains("settings"));
    assert!(kubectl(&["get", "configmaps", "-l", "team!=a", "-o", "name"]).ok().lines().all(|line| !line.contains("settings")));

    // Server-side apply: two owners, a conflict with its words, then by force.
    let shared =
        |size: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"size": size}}).to_string();
    let apply = |manager: &str, size: &str, more: &[&str]| {
        let arguments = [&["apply", "--server-side", "--field-manager", manager, "-f", "-"], more].concat();
        cluster.kubectl_with(&arguments, &shared(size))
    };
    assert_eq!(apply("one", "1", &[]).ok().trim(), "configmap/shared serverside-applied");
    let conflict = apply("two", "2", &[]).refused();
    assert!(conflict.contains("conflict with \"one\"") && conflict.contains(".data.size"), "{conflict}");
    apply("two", "2", &["--force-conflicts"]).ok();
    let live = cluster.get(&["configmap", "shared", "--show-managed-fields"]).unwrap();
    let managers = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.iter().map(|entry| entry["manager"].as_str().unwrap()).collect::<Vec<_>>(), ["two"], "one owns nothing any more");

    // Refusals have kube-apiserver's words.
    let unknown = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}, "colour": "red"}).to_string();
    let refused = cluster.kubectl_with(&["apply", "-f", "-"], &unknown).refused();
    assert!(refused.contains("unknown field \"colour\""), "{refused}");
    let refused = cluster.kubectl(&["create", "configmap", "Upper"]).refused();
    assert!(refused.contains("is invalid: metadata.name: Invalid value: \"Upper\""), "{refused}");
    assert!(kubectl(&["get", "configmap", "nothing"]).refused().contains("configmaps \"nothing\" not found"));
    assert!(kubectl(&["--as", "jane", "get", "secrets"]).refused().contains("cannot list resource \"secrets\""));

    assert_eq!(kubectl(&["delete", "configmap", "settings", "--wait"]).ok().trim(), "configmap \"settings\" deleted");
    assert!(cluster.get(&["configmap", "settings"]).is_none());
}

/// KAPI-CRD-01, KAPI-CRD-02, KAPI-CRD-03, KAPI-CLIENT-01, KAPI-DISC-01: what people do with objects of their own kinds.
#[test]
fn custom_objects() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&["--components", "controllers", "--nodes", "0"]);
    let kubectl = |arguments: &[&str]| cluster.kubectl(arguments);
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "boats.sea.example.com"},
        "spec": {
            "group": "sea.example.com", "scope": "Namespaced",
            "names": {"kind": "Boat", "listKind": "BoatList", "plural": "boats", "singular": "boat", "shortNames": ["bt"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.sails", "statusReplicasPath": ".status.sails"}},
                "additionalPrinterColumns": [{"name": "Sails", "type": "integer", "jsonPath": ".spec.sails"}],
                "schema": {"openAPIV3Schema": {"type": "object", "description": "A boat.", "properties": {
                    "spec": {
                        "type": "object", "required": ["name"],
                        "properties": {
                            "name": {"type": "string", "maxLength": 10, "description": "What it is called."},
                            "sails": {"type": "integer", "default": 1, "minimum": 0},
                        },
                        "x-kubernetes-validations": [{"rule": "self.sails <= 9", "message": "too many sails"}],
                    },
                    "status": {"type": "object", "properties": {"sails": {"type": "integer"}}},
                }}},
            }],
        },
    });
    cluster.apply(&crd.to_string());
    kubectl(&["wait", "--for=condition=Established", "crd/boats.sea.example.com", "--timeout=20s"]).ok();
    assert!(kubectl(&["api-resources", "--api-group=sea.example.com"]).ok().contains("boats"));
    let explained = kubectl(&["explain", "boat.spec.name"]).ok();
    assert!(explained.contains("What it is called."), "{explained}");

    let boat =
        |spec: Value| json!({"apiVersion": "sea.example.com/v1", "kind": "Boat", "metadata": {"name": "ida"}, "spec": spec}).to_string();
    let refused = cluster.kubectl_with(&["apply", "-f", "-"], &boat(json!({"sails": 1}))).refused();
    assert!(refused.contains("spec.name: Required value"), "{refused}");
    let refused = cluster.kubectl_with(&["apply", "-f", "-"], &boat(json!({"name": "ida", "sails": 10}))).refused();
    assert!(refused.contains("too many sails"), "{refused}");
    let refused = cluster.kubectl_with(&["apply", "-f", "-"], &boat(json!({"name": "ida", "wheels": 4}))).refused();
    assert!(refused.contains("unknown field \"spec.wheels\""), "{refused}");
    cluster.kubectl_with(&["apply", "--validate=false", "-f", "-"], &boat(json!({"name": "ida", "wheels": 4}))).ok();
    let live = cluster.get(&["boat", "ida"]).unwrap();
    assert_eq!(live["spec"], json!({"name": "ida", "sails": 1}), "pruned and defaulted");
    let table = kubectl(&["get", "bt"]).ok();
    assert!(table.starts_with("NAME") && table.contains("SAILS") && table.contains("ida"), "{table}");

    edit(&cluster, &["boat", "ida"], "sails: 1", "sails: 3");
    kubectl(&["patch", "boat", "ida", "--subresource=status", "--type=merge", "-p", r#"{"status":{"sails":2}}"#]).ok();
    kubectl(&["patch", "boat", "ida", "--type=merge", "-p", r#"{"status":{"sails":7}}"#]).ok();
    let live = cluster.get(&["boat", "ida"]).unwrap();
    assert_eq!((&live["spec"]["sails"], &live["status"]["sails"]), (&json!(3), &json!(2)), "status has a path of its own");
    assert_eq!(live["metadata"]["generation"], 2, "status does not count");
    kubectl(&["scale", "boat", "ida", "--replicas=5"]).ok();
    assert_eq!(cluster.get(&["boat", "ida"]).unwrap()["spec"]["sails"], 5);
    kubectl(&["wait", "boat/ida", "--for=jsonpath={.spec.sails}=5", "--timeout=10s"]).ok();
    assert!(kubectl(&["describe", "boat", "ida"]).ok().contains("Sails"));
    cluster.kubectl_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &boat(json!({"name": "ida", "sails": 4}))).ok();

    kubectl(&["delete", "crd", "boats.sea.example.com", "--timeout=30s"]).ok();
    // kubectl may still have the kind in its discovery cache; then it is the server that knows nothing of it.
    let gone = kubectl(&["get", "boats"]).refused();
    assert!(gone.contains("the server could not find the requested resource") || gone.contains("doesn't have a resource type"), "{gone}");
}

/// KAPI-WL-01, KAPI-WL-02, KAPI-WL-03, KAPI-WL-04, KAPI-REST-05: a Deployment becomes Available, scales, rolls, and heals.
#[test]
fn deployments() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&["--components", "controllers,scheduler,nodes"]);
    let kubectl = |arguments: &[&str]| cluster.kubectl(arguments);
    cluster.until("three nodes register", &["nodes"], |list| list["items"].as_array().is_some_and(|items| items.len() == 3));
    kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=30s"]).ok();
    kubectl(&["create", "deployment", "web", "--image=example.com/web:1", "--replicas=2"]).ok();
    kubectl(&["wait", "--for=condition=Available", "deployment/web", "--timeout=60s"]).ok();
    let pods = cluster.get(&["pods", "-l", "app=web"]).unwrap();
    let pods = pods["items"].as_array().unwrap();
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod["status"]["phase"] == "Running" && pod["spec"]["nodeName"].is_string()), "{pods:#?}");
    assert!(kubectl(&["get", "pods"]).ok().contains("1/1"));
    assert!(kubectl(&["describe", "pod", "-l", "app=web"]).ok().contains("Successfully assigned"));

    kubectl(&["scale", "deployment", "web", "--replicas=3"]).ok();
    cluster.until("three replicas are ready", &["deployment", "web"], |deployment| deployment["status"]["readyReplicas"] == 3);
    kubectl(&["set", "image", "deployment/web", "web=example.com/web:2"]).ok();
    kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).ok();
    let history = kubectl(&["rollout", "history", "deployment/web"]).ok();
    assert!(history.contains('2'), "{history}");
    kubectl(&["delete", "pods", "-l", "app=web", "--timeout=60s"]).ok();
    cluster.until("deleted pods return", &["deployment", "web"], |deployment| deployment["status"]["readyReplicas"] == 3);

    // Its dependents go with it.
    kubectl(&["delete", "deployment", "web", "--timeout=30s"]).ok();
    cluster.until("replica sets are collected", &["replicasets,pods", "-l", "app=web"], |list| {
        list["items"].as_array().is_some_and(Vec::is_empty)
    });
}

/// KAPI-WL-01, KAPI-REST-06, KAPI-ADM-03: a namespace gets its account, empties itself before it goes, and waits for finalizers.
#[test]
fn namespaces() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&["--components", "controllers", "--nodes", "0"]);
    let kubectl = |arguments: &[&str]| cluster.kubectl(arguments);
    kubectl(&["create", "namespace", "short"]).ok();
    cluster.until("the account is made", &["serviceaccount", "default", "-n", "short"], |_| true);
    cluster.until("the CA is published", &["configmap", "kube-root-ca.crt", "-n", "short"], |_| true);
    kubectl(&["create", "configmap", "one", "-n", "short"]).ok();
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "namespace": "short", "finalizers": ["example.com/hold"]}});
    cluster.apply(&held.to_string());
    kubectl(&["delete", "namespace", "short", "--wait=false"]).ok();
    let refused = kubectl(&["create", "configmap", "late", "-n", "short"]).refused();
    assert!(refused.contains("because it is being terminated"), "{refused}");
    cluster
        .until("the namespace says what remains", &["namespace", "short"], |namespace| namespace.to_string().contains("example.com/hold"));
    assert!(cluster.get(&["configmap", "one", "-n", "short"]).is_none());
    kubectl(&["patch", "configmap", "held", "-n", "short", "--type=json", "-p", r#"[{"op":"remove","path":"/metadata/finalizers"}]"#]).ok();
    cluster.until_gone(&["namespace", "short"]);
}

/// KAPI-WL-01, KAPI-REST-06: owners and dependents, in the three ways of deleting.
#[test]
fn garbage_collection() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&["--components", "controllers", "--nodes", "0"]);
    for (policy, remains) in [("background", false), ("foreground", false), ("orphan", true)] {
        let (owner, dependent) = (format!("owner-{policy}"), format!("dependent-{policy}"));
        cluster.kubectl(&["create", "configmap", &owner]).ok();
        let uid = cluster.get(&["configmap", &owner]).unwrap()["metadata"]["uid"].clone();
        let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": true}]);
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": dependent, "ownerReferences": reference}});
        cluster.apply(&manifest.to_string());
        cluster.kubectl(&["delete", "configmap", &owner, &format!("--cascade={policy}"), "--timeout=30s"]).ok();
        if remains {
            let left = cluster
                .until("the orphan has no owner", &["configmap", &dependent], |object| object["metadata"]["ownerReferences"].is_null());
            assert_eq!(left["metadata"]["name"], dependent);
        } else {
            cluster.until_gone(&["configmap", &dependent]);
        }
    }
}
