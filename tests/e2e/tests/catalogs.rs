//! Catalogs and extensions of our own examples, by the command line and by kubectl.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use mainstay_e2e::bundles::{
    self, Toy, catalog, condition, extension, offline, publish, publish_gadgets, push_catalog, until_installed, until_said, until_serving,
    write,
};
use mainstay_e2e::{Cluster, Options, Registry, eventually, need_embedded, need_kubectl};
use serde_json::{Value, json};

/// OLM1-CAT-20, MS-CLI-05: a catalog with a pull secret of its own waits for that Secret, says what is wrong with it, and serves once it is there.
#[test]
fn a_pull_secret_of_its_own() {
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&[]);
    let (_registry, reference) = publish_gadgets(&cluster, &["1.0.0"]);
    cluster.mainstay(&["catalog", "add", "team", "--ref", &reference, "--pull-secret", "team-registry", "--no-wait"]).ok();
    eventually("the Secret is missed", Duration::from_secs(120), || {
        let live = cluster.get(&["clustercatalog", "team"]).unwrap();
        let message = condition(&live, "Progressing")["message"].as_str().unwrap_or_default().to_owned();
        let told = message.contains("secret olmv1-system/team-registry, which annotation") && message.contains("does not exist");
        if told { Ok(()) } else { Err(message) }
    });
    let server = format!("--docker-server={}", reference.split('/').next().unwrap());
    let create =
        ["create", "secret", "docker-registry", "team-registry", "-n", "olmv1-system", "--docker-username=u", "--docker-password=p"];
    cluster.kubectl(&[&create[..], &[&server]].concat()).ok();
    until_serving(&cluster, "team");
    let shown = cluster.mainstay(&["catalog", "show", "team"]).ok();
    assert!(shown.contains("Secret:     team-registry"), "{shown}");
}

/// CATLG-68, OLM1-BUILD-10, OLM1-CAT-01..05, OLM1-CAT-08..09, OLM1-CAT-13..15, MS-CLI-02, MS-CLI-05, MS-CLI-06: a catalog is added, shown, searched, moved by its tag, disabled, removed.
#[test]
fn a_catalog_from_beginning_to_end() {
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&[]);
    let registry = Registry::ours();
    let bundles = cluster.folder().join("bundles");
    Toy::new("gadget", "1.0.0").write(&bundles);
    let reference = publish(&registry, &bundles, cluster.folder(), "latest");

    let added = cluster.mainstay(&["catalog", "add", "team", "--ref", &reference]);
    assert!(added.stderr.contains("cluster:"), "what changes something names the cluster: {added}");
    added.ok();
    let live = until_serving(&cluster, "team");
    assert_eq!(live["metadata"]["labels"]["olm.operatorframework.io/metadata.name"], "team");
    assert!(live["metadata"]["finalizers"].to_string().contains("olm.operatorframework.io/delete-server-cache"));
    assert_eq!(condition(&live, "Progressing")["reason"], "Succeeded");
    assert_eq!(condition(&live, "Serving")["reason"], "Available");
    let resolved = live["status"]["resolvedSource"]["image"]["ref"].as_str().unwrap().to_owned();
    assert!(resolved.contains("@sha256:"), "{resolved}");
    assert!(live["status"]["lastUnpacked"].is_string());
    assert!(live["status"]["urls"]["base"].as_str().unwrap().ends_with("/catalogs/team"));
    let table = cluster.kubectl(&["get", "clustercatalogs"]).ok();
    assert!(table.starts_with("NAME") && table.contains("LASTUNPACKED") && table.contains("True"), "{table}");

    assert!(cluster.mainstay(&["catalog", "list"]).ok().contains("team"));
    assert!(cluster.mainstay(&["catalog", "search", "gadget"]).ok().contains("gadget"));
    let shown = cluster.mainstay(&["catalog", "show", "team"]).ok();
    assert!(shown.contains("gadget"), "{shown}");
    assert!(shown.contains("an operator that uses a removed API stops working on a platform version without it"), "{shown}");

    // An existing catalog is changed only on request.
    cluster.mainstay(&["catalog", "add", "team", "--ref", &reference]).ok();
    let other = cluster.mainstay(&["catalog", "add", "team", "--ref", &reference, "--priority", "7", "--poll", "10m"]);
    assert!(other.stderr.contains("exists already") && other.stderr.contains("priority: 0, not 7"), "{other}");
    other.exits(4);
    cluster.mainstay(&["catalog", "add", "team", "--ref", &reference, "--priority", "7", "--replace"]).ok();
    assert_eq!(cluster.get(&["clustercatalog", "team"]).unwrap()["spec"]["priority"], 7);
    cluster.mainstay(&["catalog", "add", "Team", "--ref", &reference]).exits(2);

    // The tag moves; the next poll sees it. Switching off and on asks at once.
    Toy::new("gadget", "1.1.0").write(&bundles);
    publish(&registry, &bundles, cluster.folder(), "latest");
    let availability = |mode: &str| {
        let patch = json!({"spec": {"availabilityMode": mode}}).to_string();
        cluster.kubectl(&["patch", "clustercatalog", "team", "--type=merge", "-p", &patch]).ok();
    };
    availability("Unavailable");
    cluster.until("the catalog does not serve", &["clustercatalog", "team"], |object| {
        condition(object, "Serving")["reason"] == "UserSpecifiedUnavailable" && object["status"]["urls"].is_null()
    });
    availability("Available");
    let moved = until_serving(&cluster, "team");
    assert_ne!(moved["status"]["resolvedSource"]["image"]["ref"], json!(resolved));

    cluster.mainstay(&["catalog", "remove", "team", "--yes"]).ok();
    cluster.until_gone(&["clustercatalog", "team"]);
    cluster.mainstay(&["catalog", "show", "team"]).exits(3);
}

/// MS-CLI-03, MS-CLI-05, MS-CLI-06, MS-RBAC-01, OLM1-PERM-05, OLM1-UPG-01, OLM1-INST-15: a package of ours is installed with least permissions, upgraded along its channel, described, uninstalled.
#[test]
fn an_extension_by_the_command_line() {
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&[]);
    let (_registry, reference) = publish_gadgets(&cluster, &["1.0.0", "1.1.0", "2.0.0"]);
    cluster.mainstay(&["catalog", "add", "team", "--ref", &reference]).ok();
    until_serving(&cluster, "team");

    cluster.mainstay(&["install", "nothing-like-it", "--yes"]).exits(3);
    let said = cluster.mainstay(&["install", "gadget", "--version", "1.0.0", "--yes"]).ok();
    assert!(said.contains("gadget") && said.contains("1.0.0"), "{said}");
    let live = until_installed(&cluster, "gadget", "1.0.0");
    assert_eq!(condition(&live, "Installed")["status"], "True");
    // Least permissions: the installer's account is no administrator.
    let (namespace, account) = (live["spec"]["namespace"].as_str().unwrap(), live["spec"]["serviceAccount"]["name"].as_str().unwrap());
    let user = format!("system:serviceaccount:{namespace}:{account}");
    assert_eq!(cluster.kubectl(&["auth", "can-i", "*", "*", "--as", &user]).exits(1).lines().next(), Some("no"));
    cluster.kubectl(&["wait", "--for=condition=Available", "deployment/gadget", "-n", namespace, "--timeout=60s"]).ok();
    assert!(cluster.mainstay(&["list"]).ok().contains("1.0.0"));
    assert!(cluster.mainstay(&["describe", "gadget"]).ok().contains("Installed"));
    let listed: Value = serde_json::from_str(&cluster.mainstay(&["list", "-o", "json"]).ok()).unwrap();
    assert!(listed.to_string().contains("gadget.v1.0.0"), "{listed}");

    // A custom resource of the user's, which upgrades must not touch.
    let toy = Toy::new("gadget", "1.0.0");
    let instance = json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "mine"}, "spec": {"size": 3}});
    cluster.apply(&instance.to_string());
    cluster.mainstay(&["upgrade", "gadget", "--version", "1.1.0", "--yes"]).ok();
    until_installed(&cluster, "gadget", "1.1.0");
    cluster.mainstay(&["upgrade", "gadget", "--version", ">=1.0.0", "--yes"]).ok();
    until_installed(&cluster, "gadget", "2.0.0");
    assert_eq!(cluster.get(&["gadget", "mine"]).unwrap()["spec"]["size"], 3);

    // What goes is said before, and custom resources go only when that is asked for (MS-RB-02).
    let asked = cluster.mainstay(&["uninstall", "gadget", "--yes"]).exits(4);
    assert!(asked.contains("--delete-crds") && asked.contains("--keep-crds"), "{asked}");
    cluster.mainstay(&["uninstall", "gadget", "--keep-crds", "--yes"]).ok();
    cluster.until_gone(&["clusterextension", "gadget"]);
    cluster.until_gone(&["deployment", "gadget", "-n", namespace]);
    assert!(cluster.get(&["crd", &toy.crd_name()]).is_some());
    assert_eq!(cluster.get(&["gadget", "mine"]).unwrap()["spec"]["size"], 3);
}

/// OLM1-UPG-01, OLM1-UPG-05, OLM1-SEL-01, OLM1-CTRL-05, OLM1-INST-14: pins hold, ranges follow, downgrades are refused, deprecations are said, drift is repaired.
#[test]
fn pins_ranges_deprecations_and_drift() {
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&[]);
    let registry = Registry::ours();
    let bundles = cluster.folder().join("bundles");
    for version in ["1.0.0", "1.1.0"] {
        Toy::new("gadget", version).write(&bundles);
    }
    let deprecations = json!({"schema": "olm.deprecations", "package": "gadget", "entries": [
        {"reference": {"schema": "olm.bundle", "name": "gadget.v1.0.0"}, "message": "gadget 1.0.0 is too old\n"},
    ]});
    write(&bundles.join("gadget/deprecations.yaml"), &mainstay_yaml::to_string(&deprecations));
    let reference = publish(&registry, &bundles, cluster.folder(), "latest");
    cluster.apply(&catalog("team", &reference, Some(1)));
    until_serving(&cluster, "team");

    cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    let pinned = until_installed(&cluster, "gadget", "1.0.0");
    assert_eq!(condition(&pinned, "BundleDeprecated")["status"], "True");
    assert!(condition(&pinned, "Deprecated")["message"].as_str().unwrap().contains("gadget 1.0.0 is too old"));
    assert_eq!(condition(&pinned, "ChannelDeprecated")["status"], "False");

    let version = |range: &str| {
        let patch = json!({"spec": {"source": {"catalog": {"version": range}}}}).to_string();
        cluster.kubectl(&["patch", "clusterextension", "gadget", "--type=merge", "-p", &patch]).ok();
    };
    version("1.x");
    let upgraded = until_installed(&cluster, "gadget", "1.1.0");
    assert_eq!(condition(&upgraded, "Deprecated")["status"], "False");
    version("1.0.0");
    let refused =
        until_said(&cluster, "clusterextension", "gadget", "Progressing", "error upgrading from currently installed version \"1.1.0\"");
    assert_eq!(refused["status"]["install"]["bundle"]["version"], "1.1.0", "what runs is not touched");
    version("1.x");
    until_installed(&cluster, "gadget", "1.1.0");

    // Drift in what the bundle says is repaired; what others add stays.
    cluster
        .kubectl(&[
            "patch",
            "configmap",
            "gadget-settings",
            "-n",
            "gadgets",
            "--type=merge",
            "-p",
            r#"{"data":{"version":"x","mine":"y"}}"#,
        ])
        .ok();
    cluster.until("drift is repaired", &["configmap", "gadget-settings", "-n", "gadgets"], |object| {
        object["data"] == json!({"version": "1.1.0", "mine": "y"})
    });
    cluster.kubectl(&["delete", "configmap", "gadget-settings", "-n", "gadgets", "--wait=false"]).ok();
    cluster.until("deleted objects return", &["configmap", "gadget-settings", "-n", "gadgets"], |_| true);
}

/// OLM1-CTRL-11, KAPI-SRV-04: killed in the middle of an install, it finishes by itself after the next start.
#[test]
fn a_kill_in_the_middle_of_an_install() {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let mut cluster = Cluster::with(&Options::default());
    let (_registry, reference) = publish_gadgets(&cluster, &["1.0.0"]);
    cluster.apply(&catalog("team", &reference, None));
    until_serving(&cluster, "team");
    cluster.apply(&extension("gadget", "gadgets", "gadget", "1.0.0", None));
    // As soon as something of it is there.
    cluster.until("the install has begun", &["clusterextension", "gadget"], |object| !object["metadata"]["finalizers"].is_null());
    cluster.kill();
    cluster.start_again();
    until_installed(&cluster, "gadget", "1.0.0");
    cluster.kubectl(&["wait", "--for=condition=Available", "deployment/gadget", "-n", "gadgets", "--timeout=60s"]).ok();
    until_serving(&cluster, "team");
}

/// MS-CLI-05, OLM1-FBC-04: the examples of this project are a valid catalog, and what it takes to make it is in the command line.
#[test]
fn the_examples_are_in_order() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::ours();
    let (bundles, catalog) = (examples.join("bundles"), folder.path().join("catalog"));
    let at = format!("{}/examples", registry.address());
    let made =
        offline(&["catalog", "from-bundles", &bundles.to_string_lossy(), "--registry", &at, "--out", &catalog.to_string_lossy()]).ok();
    assert!(made.lines().count() > 6, "{made}");
    offline(&["opm", "validate", &catalog.to_string_lossy()]).ok();
    push_catalog(&registry, &catalog, "latest");
    assert!(!registry.inner().unwrap().repositories().is_empty());
    let versions = bundles::read_yaml(&std::fs::read_dir(&catalog).unwrap().next().unwrap().unwrap().path().join("catalog.yaml"));
    assert!(versions["schema"].is_string());
}
