//! Removing what was installed by controllers that were deployed elsewhere, or by others: custom resources are lost to nobody's ignorance.

use mainstay_e2e::bundles::{Toy, catalog, extension, publish, until_installed, until_serving};
use mainstay_e2e::{Cluster, Registry, need_kubectl};
use serde_json::{Value, json};

use crate::run::world::{COMBINED, OLM, World};

const CE: &str = "olm.operatorframework.io/v1";

fn custom_resource() -> String {
    json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "mine", "namespace": "default"}, "spec": {"size": 3}})
        .to_string()
}

fn has_custom_resource(cluster: &Cluster) -> bool {
    cluster.get(&["gadgets.gadgets.example.com", "-n", "default", "mine"]).is_some()
}

/// MS-RB-02, MS-RB-01: with the controllers in a namespace of their own, custom resources are counted and the history is there; with the
/// records gone, nothing looks like "none".
#[test]
fn controllers_in_a_namespace_of_their_own() {
    let Some(()) = need_kubectl() else { return };
    let Some(world) = World::start(COMBINED, &["--combined"]) else { return };
    let cluster = &world.cluster;
    let replica = world.replica("olm-v1", COMBINED, 1);
    let registry = Registry::ours();
    let source = world.file("bundles");
    Toy::new("gadget", "1.0.0").write(&source);
    let reference = publish(&registry, &source, cluster.folder(), "latest");
    cluster.apply(&catalog("team", &reference, None));
    until_serving(cluster, "team");
    cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    world.lend(COMBINED, "gadget", "gadgets");
    until_installed(cluster, "gadget", "1.0.0");
    cluster.apply(&custom_resource());

    let refused = cluster.mainstay(&["uninstall", "gadget", "--yes"]).exits(4);
    assert!(refused.contains("gadgets.gadgets.example.com: 1 custom resource: 1 in default"), "{refused}");
    let planned = cluster.mainstay(&["plan", "uninstall", "gadget"]).exits(4);
    assert!(planned.contains("deleted with its 1 custom resource"), "{planned}");
    let history = cluster.mainstay(&["history", "gadget"]).ok();
    assert!(history.contains("deployed") && history.contains("gadget.v1.0.0"), "{history}");
    let nowhere = cluster.mainstay(&["rollback", "gadget", "--dry-run"]).exits(4);
    assert!(nowhere.contains("there is no earlier bundle to go back to"), "{nowhere}");

    // Nobody writes the records again.
    drop(replica);
    let uid = cluster.get(&["clusterextension", "gadget"]).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    cluster.kubectl(&["delete", "secrets", "-n", OLM, "-l", &format!("lifecycle.mainstay.dev/extension-uid={uid}")]).ok();
    for arguments in [&["uninstall", "gadget", "--yes"][..], &["plan", "uninstall", "gadget"]] {
        let refused = cluster.mainstay(arguments).exits(4);
        assert!(refused.contains("1 custom resource"), "{arguments:?}: {refused}");
    }
    for arguments in [&["history", "gadget"][..], &["rollback", "gadget", "--dry-run"], &["wait", "gadget", "--timeout", "1"]] {
        let refused = cluster.mainstay(arguments).exits(4);
        assert!(refused.contains("gadget.v1.0.0 is installed, and no install record was found"), "{arguments:?}: {refused}");
    }
    let upgrade = cluster.mainstay(&["plan", "upgrade", "gadget"]).exits(4);
    assert!(upgrade.contains("no install record was found"), "{upgrade}");
    let described = cluster.mainstay(&["describe", "gadget"]).ok();
    assert!(described.contains("no install record was found"), "{described}");
    assert!(has_custom_resource(cluster));

    let _replica = world.replica("olm-v1", COMBINED, 2);
    let kept = cluster.mainstay(&["uninstall", "gadget", "--keep-crds", "--yes"]).ok();
    assert!(kept.contains("its CRDs and custom resources were kept"), "{kept}");
    cluster.until_gone(&["clusterextension", "gadget"]);
    assert!(has_custom_resource(cluster));
}

/// A ClusterExtension as another controller left it, with no record of ours: what is installed stands in its status.
fn installed_by_others(cluster: &Cluster) -> Value {
    cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    let status = json!({"status": {"install": {"bundle": {"name": "gadget.v1.0.0", "version": "1.0.0"}}, "conditions": []}}).to_string();
    cluster.kubectl(&["patch", "clusterextension", "gadget", "--subresource=status", "--type=merge", "-p", &status]).ok();
    cluster.get(&["clusterextension", "gadget"]).unwrap()
}

/// Its CRD with these marks, and a custom resource.
fn owns(cluster: &Cluster, marks: &Value) {
    let mut definition = Toy::new("gadget", "1.0.0").crd();
    definition["metadata"].as_object_mut().unwrap().extend(marks.as_object().unwrap().clone());
    cluster.apply(&definition.to_string());
    cluster.kubectl(&["wait", "--for=condition=Established", "crd/gadgets.gadgets.example.com", "--timeout=60s"]).ok();
    cluster.apply(&custom_resource());
}

fn owner(kind: &str, object: &Value) -> Value {
    json!([{"apiVersion": CE, "kind": kind, "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}])
}

fn labels() -> Value {
    json!({"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "gadget"})
}

/// MS-RB-02: what OLM's own operator-controller installed is recognized by its marks, in each of the shapes that it had, and by whoever may
/// look; who may not is told so.
#[test]
fn installed_by_the_controller_of_others() {
    let Some(()) = need_kubectl() else { return };
    let Some(world) = World::start(COMBINED, &["--combined"]) else { return };
    let cluster = &world.cluster;
    let refused = |arguments: &[&str], words: &str| {
        let said = cluster.mainstay(arguments).exits(4);
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert!(has_custom_resource(cluster) && cluster.get(&["clusterextension", "gadget"]).is_some(), "{arguments:?}");
    };

    // As Helm's post-renderer marks it.
    let live = installed_by_others(cluster);
    owns(cluster, &json!({"labels": labels(), "ownerReferences": owner("ClusterExtension", &live)}));
    refused(&["uninstall", "gadget", "--yes"], "gadgets.gadgets.example.com: 1 custom resource: 1 in default");
    refused(&["plan", "uninstall", "gadget"], "custom resources exist");
    who_may_not_look(cluster);
    cluster.mainstay(&["uninstall", "gadget", "--keep-crds", "--yes"]).ok();
    cluster.until_gone(&["clusterextension", "gadget"]);
    assert!(has_custom_resource(cluster));
    let kept = cluster.get(&["crd", "gadgets.gadgets.example.com"]).unwrap();
    assert_eq!((&kept["metadata"]["ownerReferences"], &kept["metadata"]["labels"]), (&Value::Null, &Value::Null), "it belongs to nobody");

    // Labels alone: nothing would delete it by itself, and it is the extension's all the same.
    installed_by_others(cluster);
    owns(cluster, &json!({"labels": labels()}));
    refused(&["uninstall", "gadget", "--yes"], "1 custom resource");
    cluster.mainstay(&["uninstall", "gadget", "--delete-crds", "--yes"]).ok();
    cluster.until_gone(&["crd", "gadgets.gadgets.example.com"]);

    // Through a revision, whose controller takes it away.
    let live = installed_by_others(cluster);
    let mut kind = Toy::new("gadget", "1.0.0").crd();
    kind["metadata"]["name"] = "clusterextensionrevisions.olm.operatorframework.io".into();
    kind["spec"]["group"] = "olm.operatorframework.io".into();
    kind["spec"]["scope"] = "Cluster".into();
    kind["spec"]["names"] = json!({"kind": "ClusterExtensionRevision", "plural": "clusterextensionrevisions", "singular": "clusterextensionrevision",
        "listKind": "ClusterExtensionRevisionList"});
    cluster.apply(&kind.to_string());
    cluster
        .kubectl(&["wait", "--for=condition=Established", "crd/clusterextensionrevisions.olm.operatorframework.io", "--timeout=60s"])
        .ok();
    let revision = json!({"apiVersion": CE, "kind": "ClusterExtensionRevision", "metadata": {"name": "gadget-1", "ownerReferences": owner("ClusterExtension", &live)}});
    cluster.apply(&revision.to_string());
    let revision = cluster.get(&["clusterextensionrevision", "gadget-1"]).unwrap();
    owns(cluster, &json!({"ownerReferences": owner("ClusterExtensionRevision", &revision)}));
    refused(&["uninstall", "gadget", "--yes"], "1 custom resource");
    refused(&["uninstall", "gadget", "--keep-crds", "--yes"], "ClusterExtensionRevision gadget-1 controls it");
    cluster.mainstay(&["uninstall", "gadget", "--delete-crds", "--yes"]).ok();
    cluster.until_gone(&["crd", "gadgets.gadgets.example.com"]);
}

/// A user who may remove extensions, and may not look at what goes with them.
fn who_may_not_look(cluster: &Cluster) {
    let may = |name: &str, rules: &Value| {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}]});
        cluster.apply(&format!("{role}\n{binding}"));
    };
    let uninstall = ["uninstall", "gadget", "--yes", "--as", "limited"];
    may("removes", &json!([{"apiGroups": ["olm.operatorframework.io"], "resources": ["*"], "verbs": ["*"]}]));
    let blind = cluster.mainstay(&uninstall).exits(4);
    assert!(blind.contains("which custom resource definitions it owns cannot be known"), "{blind}");
    assert!(blind.contains("kubectl auth can-i list customresourcedefinitions"), "{blind}");
    let blind = cluster.mainstay(&[&uninstall[..], &["--keep-crds"]].concat()).exits(4);
    assert!(blind.contains("cannot be known"), "{blind}");
    let history = cluster.mainstay(&["history", "gadget", "--as", "limited"]).exits(4);
    assert!(history.contains("install records of gadget"), "{history}");
    // The definitions, but not what they define.
    may(
        "looks",
        &json!([
            {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["namespaces", "secrets"], "verbs": ["get", "list"]},
            {"apiGroups": ["rbac.authorization.k8s.io", "admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get", "list"]},
            {"apiGroups": ["lifecycle.mainstay.dev"], "resources": ["*"], "verbs": ["get", "list"]},
        ]),
    );
    let blind = cluster.mainstay(&uninstall).exits(4);
    assert!(blind.contains("custom resources may exist") && blind.contains("custom resources unknown"), "{blind}");
    assert!(has_custom_resource(cluster));
    cluster.kubectl(&["delete", "clusterrolebinding", "removes", "looks"]).ok();
}
