//! The webhook that labels catalogs (OLM1-CAT-03), served by processes of their own and called by the API server under its Service's name.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

use mainstay_e2e::bundles::{catalog, write};
use mainstay_e2e::calls::{WEBHOOK, call_webhook_at, mount_webhook_certificate};
use mainstay_e2e::{Cluster, Output, eventually, mainstay, need_calls, need_kubectl, terminate};
use serde_json::{Value, json};

use crate::run::world::{CATALOGD, LONG, OLM, Replica, TIMES, World, free, kubeconfig};

const LABEL: &str = "olm.operatorframework.io/metadata.name";
const NAME: &str = "inject-metadata-name.olm.operatorframework.io";
const CONFIGURATION: [&str; 2] = ["mutatingwebhookconfiguration", "catalogd-mutating-webhook-configuration"];
const DEPLOY: [&str; 5] = ["deploy", "--namespace", OLM, "--image", "example.com/mainstay:1"];

/// A cluster without OLM whose API server calls the webhook's Service at a port of this machine, as soon as it is there ([`deploy`]).
fn world(port: u16) -> Option<World> {
    need_calls()?;
    let world = World { cluster: Cluster::without_olm_calling(&format!("{OLM}/{WEBHOOK}"), port)? };
    world.certificates();
    Some(world)
}

/// Deploys. `mainstay up` knows where the webhook is served; any other API server is told so each time anew.
fn deploy(world: &World, port: u16, arguments: &[&str]) {
    if world.cluster.is_own() {
        world.cluster.mainstay(arguments).ok();
    } else {
        world.cluster.mainstay(&[arguments, &["--force-conflicts"]].concat()).ok();
        call_webhook_at(&world.cluster, OLM, port);
    }
}

/// A catalog whose writer knows nothing of its label.
fn apply(world: &World, name: &str, labels: &Value) -> Output {
    apply_with(world, name, labels, &[])
}

fn apply_with(world: &World, name: &str, labels: &Value, flags: &[&str]) -> Output {
    let mut object: Value = serde_json::from_str(&catalog(name, "registry.example/catalog:1", None)).unwrap();
    object["metadata"]["labels"] = labels.clone();
    world.cluster.kubectl_with(&[&["apply", "-f", "-"], flags].concat(), &object.to_string())
}

/// An API server looks at its webhooks a moment after they are written: it is asked until it refuses.
fn until_refused(world: &World, words: &str) {
    eventually("a catalog is refused", LONG, || {
        let output = apply_with(world, "refused", &Value::Null, &["--dry-run=server"]);
        if output.code != Some(0) && output.stderr.contains(words) { Ok(()) } else { Err(output.to_string()) }
    });
}

fn labels(world: &World, name: &str) -> Value {
    world.cluster.get(&["clustercatalog", name]).unwrap()["metadata"]["labels"].clone()
}

fn until_labelled(world: &World, name: &str) {
    eventually("a catalog is labelled", LONG, || {
        let output = apply(world, name, &Value::Null);
        if output.code == Some(0) { Ok(()) } else { Err(output.stderr) }
    });
    assert_eq!(labels(world, name), json!({LABEL: name}));
}

/// The certificate of the webhook, as a pod finds it.
fn mount(world: &World) -> [String; 2] {
    mount_webhook_certificate(&world.cluster, OLM, &world.file("webhook"))
}

/// A process of catalogd that serves the webhook at a port.
fn catalogd(world: &World, number: usize, port: u16) -> Replica {
    let [certificate, key] = mount(world);
    world.replica_with("catalogd", CATALOGD.0, number, &[&format!("--webhook-server-port={port}"), &certificate, &key])
}

/// OLM1-CAT-03, MS-CLI-04, OLM1-GEN-05: whoever does not lead labels catalogs, too. Certificates that change are taken over, and trusted before
/// they are shown. While nobody serves, catalogs with their label are taken all the same; after uninstalling, all are.
#[test]
fn a_follower_labels_catalogs() {
    let Some(()) = need_kubectl() else { return };
    let port = free();
    let Some(world) = world(port) else { return };
    deploy(&world, port, &DEPLOY);

    until_refused(&world, &format!("failed calling webhook \"{NAME}\""));
    apply(&world, "labelled", &json!({LABEL: "labelled"})).ok();
    world.cluster.mainstay(&["catalog", "add", "added", "--ref", "registry.example/catalog:1", "--no-wait"]).ok();

    let leader = catalogd(&world, 0, free());
    assert_eq!(world.leader(CATALOGD.1, std::slice::from_ref(&leader)), 0);
    let mut follower = catalogd(&world, 1, port);
    until_labelled(&world, "plain");
    apply(&world, "wrong", &json!({LABEL: "other", "team": "a"})).ok();
    assert_eq!(labels(&world, "wrong"), json!({LABEL: "wrong", "team": "a"}));
    world.cluster.kubectl(&["label", "clustercatalog", "wrong", &format!("{LABEL}-"), "team=b", "--overwrite"]).ok();
    assert_eq!(labels(&world, "wrong"), json!({LABEL: "wrong", "team": "b"}));

    // The authority before stays trusted, until the certificate that it signed has gone.
    deploy(&world, port, &DEPLOY);
    until_labelled(&world, "between");
    deploy(&world, port, &DEPLOY);
    until_refused(&world, "certificate");
    mount(&world);
    until_labelled(&world, "renewed");

    assert_eq!(terminate(&mut follower.child), Some(0));
    apply(&world, "late", &Value::Null).refused();
    world.cluster.mainstay(&["deploy", "--uninstall", "--namespace", OLM]).ok();
    assert!(world.cluster.get(&CONFIGURATION).is_none());
    eventually("nobody is asked any more", LONG, || {
        let output = apply(&world, "late", &Value::Null);
        if output.code == Some(0) { Ok(()) } else { Err(output.stderr) }
    });
}

/// A process of `mainstay run service-ca` that knows nothing but the token of the account that it is deployed with.
fn service_ca(world: &World) -> Replica {
    let home = "openshift-service-ca";
    let token = world.cluster.kubectl(&["create", "token", "-n", home, "service-ca"]).ok();
    let own: Value = mainstay_yaml::parse(&std::fs::read_to_string(world.cluster.kubeconfig()).unwrap()).unwrap();
    let config: PathBuf = world.file("service-ca.kubeconfig");
    write(&config, &kubeconfig(&own["clusters"][0]["cluster"], &json!({"token": token.trim()})));
    let log = world.file("service-ca.log");
    let mut command = world.cluster.command(mainstay());
    command.args(["run", "service-ca", "--leader-elect", "--health-probe-bind-address=0", "--system-namespace", home]).args(TIMES);
    command.arg("--kubeconfig").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    Replica { child: command.spawn().unwrap(), log, health: 0, metrics: 0, external: String::new() }
}

/// OLM1-CAT-03, MS-CLI-04, COP-SCA-01, COP-SCA-03, COP-SCA-05: the service CA is deployed beside both controllers and has, with the permissions of its
/// account, their certificates made and the webhook trusted. Uninstalling keeps what it signed with.
#[test]
fn the_service_ca_makes_the_certificates() {
    let Some(()) = need_kubectl() else { return };
    let port = free();
    let Some(world) = world(port) else { return };
    let wanted = [&DEPLOY[..], &["--components", "olm-v1,service-ca", "--certificates", "service-ca"]].concat();
    deploy(&world, port, &wanted);
    until_refused(&world, &format!("failed calling webhook \"{NAME}\""));
    world.cluster.until("its pods run", &["deployment", "-n", "openshift-service-ca", "service-ca"], |object| {
        object["status"]["readyReplicas"] == 2
    });
    let mut ca = service_ca(&world);
    let _catalogd = catalogd(&world, 0, port);
    until_labelled(&world, "plain");
    assert!(world.cluster.get(&CONFIGURATION).unwrap()["webhooks"][0]["clientConfig"]["caBundle"].is_string());
    // Another run changes nothing of that.
    deploy(&world, port, &wanted);
    until_labelled(&world, "again");

    assert_eq!(terminate(&mut ca.child), Some(0));
    let left = world.cluster.mainstay(&["deploy", "--uninstall", "--namespace", OLM]).exits(0);
    assert!(left.contains("namespace openshift-service-ca stays: it holds the key"), "{left}");
    assert!(world.cluster.get(&["deployment", "-n", "openshift-service-ca", "service-ca"]).is_none());
    assert!(world.cluster.get(&["clusterrole", "mainstay-service-ca"]).is_none());
}

/// MS-CLI-04: what OpenShift adds is deployed only where the cluster has what it works on.
#[test]
fn the_cluster_operator_where_its_kinds_are() {
    let Some(()) = need_kubectl() else { return };
    let Some(cluster) = Cluster::without_olm() else { return };
    let world = World { cluster };
    let named = world.cluster.mainstay(&[&DEPLOY[..], &["--components", "cluster-olm-operator"]].concat()).exits(4);
    assert!(named.contains("this cluster has no olms.operator.openshift.io"), "{named}");
    let all = [&DEPLOY[..], &["--components", "all"]].concat();
    let left_out = world.cluster.mainstay(&[&all[..], &["--dry-run"]].concat()).exits(0);
    assert!(left_out.contains("cluster-olm-operator is left out"), "{left_out}");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "olms.operator.openshift.io"},
        "spec": {"group": "operator.openshift.io", "scope": "Cluster", "names": {"plural": "olms", "singular": "olm", "kind": "OLM", "listKind": "OLMList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    world.cluster.apply(&definition.to_string());
    eventually("the kind is served", LONG, || {
        let served = world.cluster.kubectl(&["get", "--raw", "/apis/operator.openshift.io/v1/olms"]);
        if served.code == Some(0) { Ok(()) } else { Err(served.to_string()) }
    });
    world.cluster.mainstay(&all).ok();
    let place = ["deployment", "-n", "openshift-cluster-olm-operator", "cluster-olm-operator"];
    world.cluster.until("its pods run", &place, |object| object["status"]["readyReplicas"] == 2);
    world.cluster.mainstay(&["deploy", "--uninstall", "--namespace", OLM, "--components", "cluster-olm-operator"]).ok();
    world.cluster.until_gone(&["namespace", "openshift-cluster-olm-operator"]);
    assert!(world.cluster.get(&["deployment", "-n", OLM, CATALOGD.0]).is_some(), "what is not named stays");
}
