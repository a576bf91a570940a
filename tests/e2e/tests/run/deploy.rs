//! `mainstay deploy` and `mainstay image build`: what they print and make, and what uninstalling leaves.

use mainstay_e2e::bundles::{extension, offline, write};
use mainstay_e2e::{Cluster, Registry, need_kubectl};

use crate::run::world::{CATALOGD, COMBINED, OLM, OPERATOR_CONTROLLER};

/// MS-CLI-04: what deploying prints without a cluster, what uninstalling leaves, and when it refuses.
#[test]
fn deployed_and_removed() {
    let Some(()) = need_kubectl() else { return };
    let printed = offline(&["deploy", "--image", "example.com/mainstay:1", "-o", "yaml"]).ok();
    for kind in ["CustomResourceDefinition", "Namespace", "Deployment", "PodDisruptionBudget", "NetworkPolicy", "Service", "Role"] {
        assert!(printed.contains(&format!("kind: {kind}\n")), "{kind} is missing");
    }
    assert!(!printed.contains("ServiceMonitor") && !printed.contains("cluster-admin"), "{printed}");
    offline(&["deploy", "-o", "yaml"]).exits(2);

    let Some(cluster) = Cluster::without_olm() else { return };
    cluster.mainstay(&["deploy", "--image", "example.com/mainstay:1", "--namespace", OLM]).ok();
    // Again: new certificates, and the authority before stays trusted.
    cluster.mainstay(&["deploy", "--image", "example.com/mainstay:2", "--namespace", OLM]).ok();
    let authorities = cluster.get(&["configmap", "-n", OLM, "olmv1-ca"]).unwrap()["data"]["ca.crt"].as_str().unwrap_or_default().to_owned();
    assert_eq!(authorities.matches("BEGIN CERTIFICATE").count(), 2);
    for (name, _) in [CATALOGD, OPERATOR_CONTROLLER] {
        cluster.until("the pods run", &["deployment", "-n", OLM, name], |object| object["status"]["readyReplicas"] == 2);
    }
    // MS-CLI-04: what there is once in a cluster does not go over to another namespace, and half of it is not left.
    for second in [&["deploy", "--image", "example.com/mainstay:2", "--namespace", "second"][..], &["deploy", "--uninstall"]] {
        let refused = cluster.mainstay(second).exits(4);
        assert!(refused.contains(&format!("is deployed in namespace {OLM}")), "{refused}");
        assert!(cluster.get(&["namespace", "second"]).is_none() && cluster.get(&["deployment", "-n", OLM, CATALOGD.0]).is_some());
    }
    // Another shape and another right: what is not wanted any more goes.
    cluster.kubectl(&["create", "namespace", "config"]).ok();
    let more = ["deploy", "--image", "example.com/mainstay:2", "--namespace", OLM, "--combined", "--use-own-service-account"];
    cluster.mainstay(&[&more[..], &["--global-pull-secret", "config/pull"]].concat()).ok();
    assert!(cluster.get(&["deployment", "-n", OLM, COMBINED]).is_some() && cluster.get(&["deployment", "-n", OLM, CATALOGD.0]).is_none());
    assert!(cluster.get(&["serviceaccount", "-n", OLM, CATALOGD.0]).is_none());
    assert!(cluster.get(&["rolebinding", "-n", "config", "mainstay-global-pull-secret"]).is_some());
    let (admin, secret) =
        (["clusterrolebinding", "operator-controller-cluster-admin"], ["role", "-n", "config", "mainstay-global-pull-secret"]);
    assert!(cluster.get(&admin).is_some() && cluster.get(&secret).is_some());
    cluster.mainstay(&["deploy", "--image", "example.com/mainstay:2", "--namespace", OLM, "--global-pull-secret", "config/pull"]).ok();
    assert!(cluster.get(&admin).is_none(), "nobody is cluster-admin any more");
    assert!(cluster.get(&secret).is_some() && cluster.get(&["deployment", "-n", OLM, COMBINED]).is_none());

    cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    let refused = cluster.mainstay(&["deploy", "--uninstall", "--delete-crds", "--namespace", OLM]).exits(4);
    assert!(refused.contains("gadget"), "{refused}");
    let left = cluster.mainstay(&["deploy", "--uninstall", "--namespace", OLM]).exits(0);
    assert!(left.contains("holds the records of 1 extension"), "{left}");
    assert!(cluster.get(&["deployment", "-n", OLM, CATALOGD.0]).is_none());
    assert!(cluster.get(&["clusterrole", "catalogd-manager-role"]).is_none());
    assert!(
        cluster.get(&secret).is_none() && cluster.get(&["rolebinding", "-n", "config", secret[3]]).is_none(),
        "rights elsewhere go, too"
    );
    assert!(cluster.get(&["crd", "clusterextensions.olm.operatorframework.io"]).is_some());
    cluster.kubectl(&["delete", "clusterextension", "gadget"]).ok();
    // What keeps the namespace keeps it from being made anew, and no longer.
    cluster.apply(&format!(
        r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "slow", "namespace": "{OLM}", "finalizers": ["example.com/slow"]}}}}"#
    ));
    cluster.mainstay(&["deploy", "--uninstall", "--delete-crds", "--namespace", OLM]).ok();
    std::thread::scope(|scope| {
        let again = scope.spawn(|| cluster.mainstay(&["deploy", "--image", "example.com/mainstay:2", "--namespace", OLM]));
        // Deploying makes the definitions first, and then comes to the namespace.
        cluster.until("it is being deployed", &["crd", "clusterextensions.olm.operatorframework.io"], |_| true);
        cluster.kubectl(&["patch", "configmap", "-n", OLM, "slow", "--type", "merge", "-p", r#"{"metadata":{"finalizers":null}}"#]).ok();
        let words = again.join().unwrap().exits(0);
        assert!(words.contains("is being deleted; it is created again when it is gone"), "{words}");
    });
    cluster.until("the pods run", &["deployment", "-n", OLM, CATALOGD.0], |object| object["status"]["readyReplicas"] == 2);
    cluster.mainstay(&["deploy", "--uninstall", "--delete-crds", "--namespace", OLM]).ok();
    cluster.until_gone(&["crd", "clusterextensions.olm.operatorframework.io"]);
    cluster.until_gone(&["namespace", OLM]);
}

/// MS-CLI-04: the image of the program itself, on a base where the program needs one.
#[test]
fn an_image_of_the_program() {
    let registry = Registry::ours();
    let folder = tempfile::tempdir().unwrap();
    let layout = folder.path().join("base");
    let reference = format!("{}/tests/base:1", registry.address());
    // Any image will do as a base here: nobody runs it.
    let catalog = folder.path().join("catalog");
    write(
        &catalog.join("c.json"),
        r#"{"schema": "olm.package", "name": "a", "defaultChannel": "b"}{"schema": "olm.channel", "package": "a", "name": "b", "entries": [{"name": "a.v1.0.0"}]}{"schema": "olm.bundle", "package": "a", "name": "a.v1.0.0", "image": "example.com/a:1", "properties": [{"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}}]}"#,
    );
    offline(&["catalog", "build", &catalog.to_string_lossy(), "--push", &reference]).ok();
    let without = offline(&["image", "build", "--layout", &layout.to_string_lossy()]);
    if without.code == Some(0) {
        // A static program needs none.
        return;
    }
    let words = without.exits(2);
    assert!(words.contains("needs a base image") && words.contains("libc"), "{words}");
    let target = format!("{}/tests/mainstay:1", registry.address());
    let built = offline(&["image", "build", "--base", &reference, "--push", &target]).ok();
    assert!(built.contains("/tests/mainstay@sha256:"), "{built}");
}
