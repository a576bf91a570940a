//! What a person is told on a real cluster, and that what is proposed helps.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::bundles::{self, Toy, publish, until_installed, until_said, until_serving};
use mainstay_e2e::{Cluster, Registry, need_kubectl};
use serde_json::{Value, json};

/// A cluster with a catalog of two small operators, `gadget` in three versions and `widget` in one; `rival` brings gadget's CRD, too.
fn world() -> Option<(Cluster, Registry)> {
    need_kubectl()?;
    let cluster = Cluster::up(&[]);
    let registry = Registry::ours();
    let folder = cluster.folder().join("bundles");
    for version in ["1.0.0", "1.1.0", "1.2.0"] {
        Toy::new("gadget", version).write(&folder);
    }
    let mut rival = Toy::new("widget", "1.0.0");
    rival.more.push(("manifests/settings-of-gadget.yaml".to_owned(), Toy::new("gadget", "1.0.0").crd()));
    rival.write(&folder);
    let reference = publish(&registry, &folder, cluster.folder(), "latest");
    cluster.apply(&bundles::catalog("team", &reference, None));
    until_serving(&cluster, "team");
    Some((cluster, registry))
}

/// An extension without its account.
fn extension(name: &str, namespace: &str, package: &str, version: &str) -> String {
    let catalog = json!({"packageName": package, "version": version});
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {"namespace": namespace, "serviceAccount": {"name": format!("{name}-installer")}, "source": {"sourceType": "Catalog", "catalog": catalog}}})
    .to_string()
}

fn answer(cluster: &Cluster, name: &str) -> Value {
    serde_json::from_str(&cluster.mainstay(&["explain", name, "-o", "json"]).ok()).unwrap()
}

/// Does what the answer proposes, as a person would: in a shell, with mainstay and kubectl.
fn obey(cluster: &Cluster, answer: &Value) {
    let commands = answer["next"]["commands"].as_array().expect("a command");
    for command in commands {
        run_in_shell(cluster, command.as_str().unwrap());
    }
}

fn run_in_shell(cluster: &Cluster, command: &str) {
    let folder = cluster.folder().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, program) in [("mainstay", mainstay_e2e::mainstay().to_owned()), ("kubectl", mainstay_e2e::kubectl().unwrap())] {
        let link = folder.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(program, link).unwrap();
        }
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = cluster.command(std::path::Path::new("/bin/sh"));
    mainstay_e2e::run(shell.args(["-c", &format!("set -e; {command}")]).env("PATH", path), "").ok();
}

/// MS-EXPL-02, OLM1-SEL-10: a package that no catalog has, by the extension's name and by the package's.
#[test]
fn an_unknown_package() {
    let Some((cluster, _registry)) = world() else { return };
    cluster.apply(&bundles::extension("gadgets", "tools", "gadgt", ">=1.0.0", None));
    until_said(&cluster, "clusterextension", "gadgets", "Progressing", "no bundles found for package");
    let told = answer(&cluster, "gadgets");
    assert_eq!((&told["situation"], &told["state"]), (&json!("unknown-package"), &json!("not-installed")), "{told:#}");
    assert!(told["next"]["text"].as_str().unwrap().contains("Did you mean gadget?"), "{told:#}");
    let text = cluster.mainstay(&["explain", "gadgets"]).ok();
    assert!(text.starts_with("clusterextension gadgets: no catalog has a package gadgt\n"), "{text}");
    assert!(cluster.mainstay(&["explain", "package", "gadgt"]).exits(3).contains("did you mean gadget?"));
    assert!(cluster.mainstay(&["explain", "nothing"]).exits(3).contains("no extension and no package"));
    assert!(
        cluster.mainstay(&["explain", "subscription", "gadget"]).exits(3).contains("subscription"),
        "there is none, or OLM classic is not there"
    );
    let package: Value = serde_json::from_str(&cluster.mainstay(&["explain", "package", "gadget", "-o", "json"]).ok()).unwrap();
    assert_eq!(package["situation"], "available", "{package:#}");
    let catalog: Value = serde_json::from_str(&cluster.mainstay(&["explain", "clustercatalog/team", "-o", "json"]).ok()).unwrap();
    assert_eq!(catalog["situation"], "healthy", "{catalog:#}");
}

/// MS-EXPL-02, OLM1-CTRL-03, OLM1-PERM-14, MS-RBAC-01, MS-POL-02: no account, then an account with few permissions; what is proposed leads to an
/// install, and leaves no excess.
#[test]
fn a_missing_account_and_missing_permissions() {
    let Some((cluster, _registry)) = world() else { return };
    cluster.apply(&extension("gadget", "tools", "gadget", "1.1.0"));
    until_said(&cluster, "clusterextension", "gadget", "Installed", "not found in namespace");
    let told = answer(&cluster, "gadget");
    assert_eq!(told["situation"], "account-missing", "{told:#}");

    // Half of it, by hand: the account alone.
    cluster.kubectl(&["create", "namespace", "tools"]).ok();
    cluster.kubectl(&["create", "serviceaccount", "gadget-installer", "--namespace", "tools"]).ok();
    until_said(&cluster, "clusterextension", "gadget", "Progressing", "pre-authorization failed");
    let told = answer(&cluster, "gadget");
    assert_eq!(told["situation"], "rights-missing", "{told:#}");
    assert!(told["why"].to_string().contains("create on deployments.apps in namespace tools"), "{told:#}");
    obey(&cluster, &told);
    until_installed(&cluster, "gadget", "1.1.0");
    cluster.mainstay(&["wait", "gadget", "--for", "version=1.1.0", "--timeout", "2m"]).ok();

    let excess = cluster.mainstay(&["rbac", "gadget", "--excess"]).ok();
    assert!(excess.contains("and nothing else"), "{excess}");
    cluster.kubectl(&["create", "clusterrolebinding", "generous", "--clusterrole=view", "--serviceaccount=tools:gadget-installer"]).ok();
    let excess = cluster.mainstay(&["rbac", "gadget", "--excess"]).ok();
    assert!(excess.contains("clusterrole view"), "{excess}");
}

/// MS-EXPL-02, OLM1-OWN-04: an object that another extension has; what is proposed ends it.
#[test]
fn an_object_of_another_extension() {
    let Some((cluster, _registry)) = world() else { return };
    cluster.apply(&bundles::extension("gadget", "tools", "gadget", "1.0.0", None));
    until_installed(&cluster, "gadget", "1.0.0");
    cluster.apply(&bundles::extension("widget", "toys", "widget", "1.0.0", None));
    until_said(&cluster, "clusterextension", "widget", "Progressing", "already exists in namespace");
    let told = answer(&cluster, "widget");
    assert_eq!(told["situation"], "object-owned", "{told:#}");
    assert!(told["summary"].as_str().unwrap().ends_with("is managed by clusterextension gadget"), "{told:#}");
    assert_eq!(told["next"]["commands"], json!(["mainstay uninstall widget"]), "{told:#}");
}

/// MS-EXPL-04, MS-EXPL-03, MS-RBAC-01, MS-CLI-06: healthy but pinned; what is proposed leads to the newest version. The graph marks what is
/// held back, the comparison of permissions works between versions, and waiting ends with its codes.
#[test]
fn healthy_but_pinned() {
    let Some((cluster, _registry)) = world() else { return };
    cluster.apply(&bundles::extension("gadget", "tools", "gadget", "1.0.0", None));
    until_installed(&cluster, "gadget", "1.0.0");
    assert!(cluster.mainstay(&["wait", "gadget"]).ok().contains("gadget.v1.0.0 is installed and healthy"));
    assert!(cluster.mainstay(&["wait", "gadget", "--for", "version=1.2.0", "--timeout", "0"]).exits(5).contains("mainstay explain gadget"));
    assert!(cluster.mainstay(&["wait", "nobody"]).exits(3).contains("not found"));
    cluster.mainstay(&["wait", "nobody", "--for", "deleted"]).ok();
    assert!(cluster.mainstay(&["wait", "clustercatalog", "team"]).ok().contains("it serves"));

    let told = answer(&cluster, "gadget");
    assert_eq!((&told["situation"], &told["newer"]["version"]), (&json!("healthy"), &json!("1.2.0")), "{told:#}");
    assert_eq!(told["newer"]["heldBackBy"], "version-range", "{told:#}");
    let graph: Value = serde_json::from_str(&cluster.mainstay(&["graph", "gadget", "-o", "json"]).ok()).unwrap();
    let held: Vec<&str> = graph["panels"][0]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|node| node["marks"].to_string().contains("blocked"))
        .filter_map(|node| node["id"].as_str())
        .collect();
    assert_eq!(held.len(), 2, "{graph:#}");
    let compared: Value =
        serde_json::from_str(&cluster.mainstay(&["rbac", "gadget", "--diff", "1.0.0", "1.1.0", "-o", "json"]).ok()).unwrap();
    assert_eq!((&compared["from"], &compared["to"]), (&json!("gadget.v1.0.0"), &json!("gadget.v1.1.0")), "{compared:#}");
    assert!(cluster.mainstay(&["rbac", "gadget", "--diff", "installed", "1.1.0"]).ok().starts_with("from gadget.v1.0.0 to gadget.v1.1.0"));

    for command in told["newer"]["action"]["commands"].as_array().unwrap() {
        run_in_shell(&cluster, command.as_str().unwrap());
    }
    until_installed(&cluster, "gadget", "1.2.0");
    assert!(answer(&cluster, "gadget")["why"].to_string().contains("newest"));
}

/// MS-EXPL-01, MS-EXPL-05, OLM1-CRD-01: a newer version whose CRD would break objects is not proposed without saying so; a second extension of a
/// package that is resolved together with the first is told about it.
#[test]
fn what_would_be_refused() {
    let Some(()) = need_kubectl() else { return };
    let (cluster, registry) = (Cluster::up(&[]), Registry::ours());
    let folder = cluster.folder().join("bundles");
    Toy::new("gadget", "1.0.0").write(&folder);
    let mut narrower = Toy::new("gadget", "1.1.0");
    narrower.spec_schema = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    narrower.write(&folder);
    let reference = publish(&registry, &folder, cluster.folder(), "latest");
    cluster.apply(&bundles::catalog("team", &reference, None));
    until_serving(&cluster, "team");
    cluster.mainstay(&["install", "gadget", "--version", "1.0.0", "--yes"]).ok();
    let told = answer(&cluster, "gadget");
    let refused = told["newer"]["action"]["refused"].as_str().unwrap_or_else(|| panic!("{told:#}"));
    assert!(refused.starts_with("by the check of CRDs: ") && refused.contains("existingFieldRemoval"), "{told:#}");

    let policy = json!({"apiVersion": "lifecycle.mainstay.dev/v1alpha1", "kind": "LifecyclePolicy", "metadata": {"name": "gadget"},
        "spec": {"packages": ["gadget"], "resolveDependencies": "Plan"}});
    cluster.apply(&policy.to_string());
    cluster.apply(&bundles::extension("second", "tools", "gadget", "1.0.0", None));
    until_said(&cluster, "clusterextension", "second", "Progressing", "package gadget can be installed once");
    let told = answer(&cluster, "second");
    assert_eq!(
        (&told["situation"], &told["next"]["commands"]),
        (&json!("package-wanted-twice"), &json!(["mainstay uninstall second"])),
        "{told:#}"
    );
}
