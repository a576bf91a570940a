//! Several processes of which one works: it is killed, it is asked to end, and the API goes.

use std::net::TcpStream;

use mainstay_e2e::bundles::{Toy, catalog, extension, publish, until_installed, until_said, until_serving};
use mainstay_e2e::client::get;
use mainstay_e2e::{Registry, eventually, need_kubectl, terminate};
use serde_json::json;

use crate::run::world::{CATALOGD, COMBINED, LONG, OLM, OPERATOR_CONTROLLER, Replica, World, get_secure};

/// A policy that lets nobody write the settings of a version.
fn held(version: &str) -> String {
    let expression = format!("!has(object.data) || !('version' in object.data) || object.data['version'] != '{version}'");
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "held"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression, "message": "held by the test"}]},
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "held"},
        "spec": {"policyName": "held", "validationActions": ["Deny"]},
    });
    format!("{policy}\n{binding}")
}

/// Holds a version back, and waits until that counts: an API server looks at a policy a moment after it is written.
fn hold(world: &World, version: &str) {
    world.cluster.apply(&held(version));
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "asks", "namespace": "default"}, "data": {"version": version}});
    eventually("the policy holds", LONG, || {
        let said = world.cluster.kubectl_with(&["create", "--dry-run=server", "-f", "-"], &settings.to_string());
        if said.stderr.contains("held by the test") { Ok(()) } else { Err(said.to_string()) }
    });
}

/// An upgrade that cannot come to its end, the leader killed in the middle of it, the hindrance gone. Who has been killed?
fn killed_in_the_middle(world: &World, lease: &str, replicas: &mut [Replica]) -> usize {
    let working = world.leader(lease, replicas);
    hold(world, "1.1.0");
    let upgrade = r#"{"spec": {"source": {"catalog": {"version": "1.1.0"}}}}"#;
    world.cluster.kubectl(&["patch", "clusterextension", "gadget", "--type=merge", "-p", upgrade]).ok();
    until_said(&world.cluster, "clusterextension", "gadget", "Progressing", "held by the test");
    replicas[working].child.kill().unwrap();
    replicas[working].child.wait().unwrap();
    world.cluster.kubectl_with(&["delete", "-f", "-"], &held("1.1.0")).ok();
    working
}

/// What was made is what is made where nothing goes wrong.
fn as_undisturbed(world: &World) {
    let disturbed = world.made("gadget");
    assert!(disturbed.len() >= 5, "{disturbed:#?}");
    world.cluster.kubectl(&["delete", "clusterextension", "gadget", "--wait"]).ok();
    world.cluster.until_gone(&["deployment", "-n", "gadgets", "gadget"]);
    world.cluster.apply(&mainstay_e2e::bundles::extension("gadget", "gadgets", "gadget", "1.1.0", None));
    until_installed(&world.cluster, "gadget", "1.1.0");
    assert_eq!(disturbed, world.made("gadget"));
}

/// While the Leases cannot be given back, the process is on its way out, and a second signal ends it.
fn ends_at_once_while_the_api_is_silent(world: &World, replica: &mut Replica) {
    let pid = replica.child.id();
    mainstay_e2e::signal(world.cluster.pid(), "STOP");
    mainstay_e2e::signal(pid, "TERM");
    eventually("it says that it ends", LONG, || match get(replica.health, "/readyz") {
        Ok(text) if text.contains("503") && text.contains("ending") => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    mainstay_e2e::signal(pid, "TERM");
    let status = replica.child.wait().unwrap();
    mainstay_e2e::signal(world.cluster.pid(), "CONT");
    assert_eq!(status.code(), Some(1), "the second signal ends at once");
}

/// MS-CLI-04, OLM1-GEN-01, OLM1-GEN-09, OLM1-GEN-11, MS-OPS-01: two processes of `mainstay run olm-v1` that know nothing but the token of the one
/// account of `mainstay deploy --combined`. The leader is killed in the middle of an upgrade, the other one finishes it, serves the catalogs, and
/// in the end everything is as it is where nothing went wrong. A signal ends politely: both Leases are given back, and whoever looks is told.
/// A second one ends at once.
#[test]
fn two_processes_with_one_account() {
    let Some(()) = need_kubectl() else { return };
    let Some(world) = World::start(COMBINED, &["--combined"]) else { return };
    let registry = Registry::ours();
    let source = world.file("bundles");
    for version in ["1.0.0", "1.1.0"] {
        Toy::new("gadget", version).write(&source);
    }
    let reference = publish(&registry, &source, world.cluster.folder(), "latest");
    let mut both: Vec<Replica> = (0..2).map(|number| world.replica("olm-v1", COMBINED, number)).collect();
    world.cluster.apply(&catalog("real", &reference, None));
    until_serving(&world.cluster, "real");
    assert_eq!(world.leader(CATALOGD.1, &both), world.leader(OPERATOR_CONTROLLER.1, &both), "one process has both Leases");
    world.cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    // OLM1-PERM-01: the account was made by hand, and nobody has lent it to the controller.
    until_said(&world.cluster, "clusterextension", "gadget", "Progressing", "lacks the permission to create serviceaccounts/token");
    world.lend(COMBINED, "gadget", "gadgets");
    until_installed(&world.cluster, "gadget", "1.0.0");

    let killed = killed_in_the_middle(&world, OPERATOR_CONTROLLER.1, &mut both);
    let other = 1 - killed;
    until_installed(&world.cluster, "gadget", "1.1.0");
    assert_eq!((world.leader(CATALOGD.1, &both), world.leader(OPERATOR_CONTROLLER.1, &both)), (other, other));
    let base = format!("https://{}/catalogs/real", both[other].external);
    world.cluster.until("the other one serves", &["clustercatalog", "real"], |object| object["status"]["urls"]["base"] == base);
    assert_eq!(get_secure(&world, &both[other].external, "/catalogs/real/api/v1/all").unwrap().0, 200);
    as_undisturbed(&world);

    // Nobody may do what the rows do not list: neither foreign Secrets nor foreign Leases.
    let own = world.kubeconfig(COMBINED).to_string_lossy().into_owned();
    for asked in [
        &["get", "secrets", "-n", "default"][..],
        &["update", "leases", "-n", OLM],
        &["create", "deployments", "-n", OLM],
        &["patch", "changeplans", "-n", "default"],
        // Of the accounts only that of the extension.
        &["create", "serviceaccounts", "--subresource=token", "-n", "kube-system"],
        &["create", "serviceaccounts", "--subresource=token", "-n", "gadgets"],
    ] {
        let answer = world.cluster.kubectl(&[&["--kubeconfig", &own, "auth", "can-i"], asked].concat()).exits(1);
        assert!(answer.contains("no"), "{asked:?}: {answer}");
    }

    if world.cluster.is_own() {
        ends_at_once_while_the_api_is_silent(&world, &mut both[other]);
    } else {
        eprintln!("left out: the API of a given cluster is not the test's to stop");
        assert_eq!(terminate(&mut both[other].child), Some(0));
    }

    let mut third = world.replica("olm-v1", COMBINED, 2);
    world.leader(OPERATOR_CONTROLLER.1, std::slice::from_ref(&third));
    assert_eq!(terminate(&mut third.child), Some(0));
    for name in [CATALOGD.1, OPERATOR_CONTROLLER.1] {
        let lease = world.cluster.get(&["lease", "-n", OLM, name]).unwrap();
        assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "", "{lease:#}");
    }
}

/// MS-CLI-04, OLM1-GEN-01, OLM1-GEN-05, OLM1-GEN-06, OLM1-GEN-09, OLM1-GEN-11, OLM1-CAT-18, MS-OPS-01: four processes that know nothing but the
/// tokens of the deployed accounts install and upgrade. Leaders that are killed in the middle are followed by the others, the API goes and
/// comes back, and in the end everything is as it is where nothing went wrong.
#[test]
fn leaders_change_in_the_middle() {
    let Some(()) = need_kubectl() else { return };
    let Some(mut world) = World::start(CATALOGD.0, &[]) else { return };
    let registry = Registry::ours();
    let source = world.file("bundles");
    for version in ["1.0.0", "1.1.0"] {
        Toy::new("gadget", version).write(&source);
    }
    let reference = publish(&registry, &source, world.cluster.folder(), "latest");
    let mut catalogd: Vec<Replica> = (0..2).map(|number| world.replica("catalogd", CATALOGD.0, number)).collect();
    let mut controllers: Vec<Replica> = (0..2).map(|number| world.replica("operator-controller", OPERATOR_CONTROLLER.0, number)).collect();
    world.cluster.apply(&catalog("real", &reference, None));
    until_serving(&world.cluster, "real");

    // The leader alone serves catalogs; both are ready and show their figures.
    let serving = world.leader(CATALOGD.1, &catalogd);
    let path = "/catalogs/real/api/v1/all";
    assert_eq!(get_secure(&world, &catalogd[serving].external, path).unwrap().0, 200);
    assert!(TcpStream::connect(&catalogd[1 - serving].external).is_err(), "a follower serves no catalogs");
    assert!(get(catalogd[1 - serving].health, "/readyz").unwrap().contains("another process may lead"));
    let (_, page) = get_secure(&world, &format!("127.0.0.1:{}", catalogd[serving].metrics), "/metrics").unwrap();
    for figure in [
        "controller_runtime_reconcile_total{controller=\"clustercatalog\",result=",
        "workqueue_depth{name=\"clustercatalog\",controller=\"clustercatalog\"}",
        "catalogd_http_request_duration_seconds_count{code=\"200\"}",
        "process_resident_memory_bytes",
        "leader_election_master_status{name=\"catalogd-operator-lock\"} 1",
        "rest_client_requests_total{code=\"200\",method=\"GET\",host=\"127.0.0.1:",
        "controller_runtime_max_concurrent_reconciles{controller=\"clustercatalog\"} 4",
    ] {
        assert!(page.contains(figure), "{figure} is missing: {page}");
    }

    world.cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    world.lend(OPERATOR_CONTROLLER.0, "gadget", "gadgets");
    until_installed(&world.cluster, "gadget", "1.0.0");

    let working = killed_in_the_middle(&world, OPERATOR_CONTROLLER.1, &mut controllers);
    let extension = until_installed(&world.cluster, "gadget", "1.1.0");
    assert_eq!(extension["status"]["install"]["bundle"]["name"], "gadget.v1.1.0");
    assert_eq!(world.leader(OPERATOR_CONTROLLER.1, &controllers), 1 - working, "the other one has finished it");

    // The same with catalogd: the other one unpacks, and serves at its own address.
    catalogd[serving].child.kill().unwrap();
    catalogd[serving].child.wait().unwrap();
    let base = format!("https://{}/catalogs/real", catalogd[1 - serving].external);
    world.cluster.until("the other one serves", &["clustercatalog", "real"], |object| object["status"]["urls"]["base"] == base);
    assert_eq!(get_secure(&world, &catalogd[1 - serving].external, path).unwrap().0, 200);

    // The API goes, as in a crash, and comes back; watches and Leases go on.
    if world.cluster.is_own() {
        world.cluster.kill();
        world.cluster.come_back();
    } else {
        eprintln!("left out: the API of a given cluster is not the test's to kill");
    }
    world.cluster.kubectl(&["delete", "configmap", "-n", "gadgets", "gadget-settings", "--wait=false"]).ok();
    world.cluster.until("the ConfigMap is made again", &["configmap", "-n", "gadgets", "gadget-settings"], |object| {
        object["data"]["version"] == "1.1.0"
    });
    assert_eq!(world.leader(OPERATOR_CONTROLLER.1, &controllers), 1 - working);

    as_undisturbed(&world);

    // A polite end gives the Lease back at once.
    assert_eq!(terminate(&mut controllers[1 - working].child), Some(0));
    let lease = world.cluster.get(&["lease", "-n", OLM, OPERATOR_CONTROLLER.1]).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "", "{lease:#}");
}

/// The versions of everything that the controllers write of an extension: its status, its records, and what it installed.
fn written(world: &World) -> Vec<String> {
    let kinds: [&[&str]; 3] = [&["clusterextension"], &["secret", "-n", OLM], &["configmap", "-n", "gadgets"]];
    let mut all = Vec::new();
    for kind in kinds {
        let list = world.cluster.get(kind).unwrap_or_default();
        for item in list["items"].as_array().unwrap() {
            let metadata = &item["metadata"];
            all.push(format!("{} {} {} {}", kind[0], metadata["name"], metadata["uid"], metadata["resourceVersion"]));
        }
    }
    all
}

/// OLM1-GEN-09, MS-CLI-04: a leader that is stopped in the middle of an upgrade, and goes on when the next leader has finished this one and a
/// further one, writes nothing: neither objects of its old target nor records, nor a status. The next leader takes both Leases together.
#[test]
fn a_leader_that_wakes_up_writes_nothing() {
    let Some(()) = need_kubectl() else { return };
    let Some(world) = World::start(COMBINED, &["--combined"]) else { return };
    let registry = Registry::ours();
    let source = world.file("bundles");
    for version in ["1.0.0", "1.1.0", "1.2.0"] {
        Toy::new("gadget", version).write(&source);
    }
    let reference = publish(&registry, &source, world.cluster.folder(), "latest");
    let mut both: Vec<Replica> = (0..2).map(|number| world.replica("olm-v1", COMBINED, number)).collect();
    world.cluster.apply(&catalog("real", &reference, None));
    until_serving(&world.cluster, "real");
    world.cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    world.lend(COMBINED, "gadget", "gadgets");
    until_installed(&world.cluster, "gadget", "1.0.0");

    let working = world.leader(OPERATOR_CONTROLLER.1, &both);
    hold(&world, "1.1.0");
    let request = |version: &str| {
        let patch = json!({"spec": {"source": {"catalog": {"version": version}}}}).to_string();
        world.cluster.kubectl(&["patch", "clusterextension", "gadget", "--type=merge", "-p", &patch]).ok();
    };
    request("1.1.0");
    until_said(&world.cluster, "clusterextension", "gadget", "Progressing", "held by the test");
    mainstay_e2e::signal(both[working].child.id(), "STOP");
    world.cluster.kubectl_with(&["delete", "-f", "-"], &held("1.1.0")).ok();
    until_installed(&world.cluster, "gadget", "1.1.0");
    request("1.2.0");
    until_installed(&world.cluster, "gadget", "1.2.0");
    assert_eq!(world.leader(CATALOGD.1, &both), 1 - working);
    let before = written(&world);
    assert!(before.len() > 4, "{before:?}");
    mainstay_e2e::signal(both[working].child.id(), "CONT");
    assert_eq!(both[working].child.wait().unwrap().code(), Some(1), "it ends when it learns that it does not lead any more");
    assert_eq!(written(&world), before);
}
