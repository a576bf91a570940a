//! Placement of operators and operands by the annotations of their namespace (KAPI-ADM-05, OLM0-ADMIN-44).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use mainstay_e2e::{Cluster, eventually, need_embedded, need_kubectl};
use serde_json::{Value, json};

use crate::processes::{gadget, operator_mapping, subscribe};

const NODE: &str = "worker-1";

/// A namespace whose pods belong on the node.
fn project(name: &str) -> String {
    let tolerations = json!([{"key": "myoperator", "operator": "Exists", "effect": "NoSchedule"}]).to_string();
    let annotations =
        json!({"openshift.io/node-selector": "kind=operators", "scheduler.alpha.kubernetes.io/defaultTolerations": tolerations});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}).to_string()
}

fn reserve(cluster: &Cluster) {
    cluster.kubectl(&["label", "node", NODE, "kind=operators"]).ok();
    cluster.kubectl(&["taint", "nodes", NODE, "myoperator:NoSchedule"]).ok();
}

/// The nodes of the running pods with a label.
fn nodes(cluster: &Cluster, namespace: &str, label: &str) -> Vec<String> {
    eventually(&format!("pods {label} in {namespace} run"), Duration::from_secs(60), || {
        let list: Value =
            serde_json::from_str(&cluster.kubectl(&["get", "pods", "-n", namespace, "-l", label, "-o", "json"]).ok()).unwrap();
        let pods = list["items"].as_array().unwrap();
        let names: Vec<String> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned)).collect();
        if names.is_empty() || names.len() < pods.len() { Err(list.to_string()) } else { Ok(names) }
    })
}

fn plain(name: &str, namespace: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}).to_string()
}

/// OLM0-ADMIN-44, OLM0-ADMIN-04, KAPI-ADM-05: the operator of a Subscription in an annotated project lands on its node, as does the operand of a
/// custom resource there; an unrelated pod and an operand elsewhere do not, and pods that were there stay.
#[test]
fn operators_follow_their_project() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let Some(mapping) = operator_mapping() else { return };
    let cluster = Cluster::up(&["--run-image", &mapping]);
    cluster.kubectl(&["create", "namespace", "project"]).ok();
    cluster.apply(&plain("before", "project"));
    let before = nodes(&cluster, "project", "app=before");
    reserve(&cluster);
    cluster.apply(&project("project"));
    let _registry = subscribe(&cluster, "project");
    assert_eq!(nodes(&cluster, "project", "app=gadget"), [NODE]);
    let deployment = cluster.get(&["deployment", "gadget", "-n", "project"]).unwrap();
    let template = &deployment["spec"]["template"]["spec"];
    assert!(template["nodeSelector"].is_null() && template["tolerations"].is_null(), "OLM sets neither: {template:#}");
    assert_eq!(nodes(&cluster, "project", "app=before"), before, "it stays where it was");
    cluster.apply(&plain("unrelated", "default"));
    assert_ne!(nodes(&cluster, "default", "app=unrelated"), [NODE]);
    cluster.apply(&gadget("inside", "project"));
    cluster.apply(&gadget("outside", "default"));
    assert_eq!(nodes(&cluster, "project", "gadget=inside"), [NODE]);
    assert_ne!(nodes(&cluster, "default", "gadget=outside"), [NODE]);
    let explained = cluster.mainstay(&["explain", "subscription", "gadget", "-n", "project"]).ok();
    assert!(!explained.contains("has no effect"), "{explained}");

    let contradicts = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "no", "namespace": "project"},
        "spec": {"nodeSelector": {"kind": "other"}, "containers": [{"name": "a", "image": "a:1"}]}});
    let refused = cluster.kubectl_with(&["create", "-f", "-"], &contradicts.to_string()).refused();
    assert!(
        refused.contains("pods \"no\" is forbidden: pod node label selector conflicts with its project node label selector"),
        "{refused}"
    );
    let elsewhere = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "no", "namespace": "project"},
        "spec": {"nodeName": "worker-2", "containers": [{"name": "a", "image": "a:1"}]}});
    let refused = cluster.kubectl_with(&["create", "-f", "-"], &elsewhere.to_string()).refused();
    assert!(refused.contains("pod node name conflicts with project node label selector"), "{refused}");
    cluster.kubectl(&["annotate", "namespace", "project", "--overwrite", "openshift.io/node-selector=kind"]).ok();
    let refused = cluster.kubectl_with(&["create", "-f", "-"], &plain("no", "project")).refused();
    assert!(
        refused.contains(
            "annotation openshift.io/node-selector of namespace \"project\" cannot be read: \"kind\" is not of the form KEY=VALUE"
        ),
        "{refused}"
    );
}

/// OLM0-ADMIN-44, KAPI-ADM-05: without the admission step the annotation changes nothing, and the explanation of the Subscription says so.
#[test]
fn an_annotation_without_effect_is_told() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::up(&["--disable-admission", "ProjectNodeEnv"]);
    reserve(&cluster);
    cluster.apply(&project("project"));
    let _registry = subscribe(&cluster, "project");
    assert_ne!(nodes(&cluster, "project", "app=gadget"), [NODE]);
    let explained = cluster.mainstay(&["explain", "subscription", "gadget", "-n", "project"]).ok();
    assert!(explained.contains("annotation openshift.io/node-selector of namespace project has no effect"), "{explained}");
}
