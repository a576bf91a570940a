//! OLM classic by the command line: install, approve, list, explain, upgrade, uninstall, and the verbs of `kubectl operator`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::bundles::{Toy, publish, publish_gadgets};
use mainstay_e2e::{Cluster, Options, Registry, need_embedded, need_kubectl};
use serde_json::{Value, json};

/// A CatalogSource that every namespace sees.
fn catalog(cluster: &Cluster, name: &str, reference: &str) {
    let source = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": "openshift-marketplace"},
        "spec": {"sourceType": "grpc", "image": reference, "displayName": "Team"}});
    cluster.apply(&source.to_string());
    cluster.until("the catalog is ready", &["catalogsource", name, "-n", "openshift-marketplace"], |source| {
        source["status"]["connectionState"]["lastObservedState"] == "READY"
    });
}

/// A cluster with the gadgets 1.0.0 and 1.1.0 in a catalog of OLM classic.
fn gadgets() -> (Cluster, Registry) {
    let cluster = Cluster::with(&Options::default());
    let (registry, reference) = publish_gadgets(&cluster, &["1.0.0", "1.1.0"]);
    catalog(&cluster, "team", &reference);
    (cluster, registry)
}

fn json_of(cluster: &Cluster, words: &[&str]) -> Value {
    serde_json::from_str(&cluster.mainstay(words).ok()).unwrap()
}

/// OLM0-USER-05, OLM0-USER-06, OLM0-USER-07, OLM0-ADMIN-09, OLM0-ADMIN-10, OLM0-ADMIN-11, OLM0-ADMIN-20, MS-EXPL-02: an older version is
/// installed by a Subscription and stays; the update waits, is explained, shown and approved; the removal keeps the CRD with its custom resources.
#[test]
fn installed_approved_removed() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (cluster, _registry) = gadgets();
    let near = cluster.mainstay(&["install", "gadge", "--classic", "-n", "lights", "--create-namespace", "--yes"]).exits(3);
    assert!(near.contains("did you mean gadget?"), "{near}");
    let missing = cluster.mainstay(&["install", "gadget", "--classic", "-n", "lights", "--yes"]).exits(3);
    assert!(missing.contains("--create-namespace"), "{missing}");
    let channel = cluster.mainstay(&["install", "gadget", "--classic", "-n", "lights", "--create-namespace", "--channel", "none"]).exits(3);
    assert!(channel.contains("has no channel none"), "{channel}");

    let wanted = ["install", "gadget", "--classic", "-n", "lights", "--create-namespace", "--version", "1.0.0"];
    let plan = json_of(&cluster, &[&wanted[..], &["--dry-run", "-o", "json"]].concat());
    let kinds: Vec<&str> = plan["writes"].as_array().unwrap().iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds, &plan["csv"]), (vec!["Namespace", "OperatorGroup", "Subscription"], &json!("gadget.v1.0.0")), "{plan:#}");
    assert!(cluster.get(&["namespace", "lights"]).is_none(), "a plan writes nothing");
    let said = cluster.mainstay(&[&wanted[..], &["--yes"]].concat()).ok();
    assert!(said.contains("csv lights/gadget.v1.0.0 installed"), "{said}");
    cluster.mainstay(&[&wanted[..], &["--yes"]].concat()).exits(4);

    // The update waits, also if other Subscriptions are Automatic.
    cluster.until("an InstallPlan waits", &["subscription.operators.coreos.com", "gadget", "-n", "lights"], |subscription| {
        subscription["status"]["state"] == "UpgradePending"
    });
    let listed = cluster.mainstay(&["list", "--classic", "-n", "lights"]).ok();
    assert!(listed.contains("gadget.v1.0.0") && listed.contains("approval of install-"), "{listed}");
    let list = json_of(&cluster, &["list", "-o", "json"]);
    let kinds: Vec<&str> = list["items"].as_array().unwrap().iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Subscription", "ClusterServiceVersion"], "copies are left out");
    let why = json_of(&cluster, &["explain", "subscription", "gadget", "-n", "lights", "-o", "json"]);
    assert_eq!((&why["situation"], &why["state"]), (&json!("waits-for-approval"), &json!("held")), "{why:#}");
    let next = why["next"]["commands"][0].as_str().unwrap().to_owned();
    assert!(next.starts_with("mainstay approve installplan/install-"), "{next}");

    let waiting = json_of(&cluster, &["approve", "-o", "json"]);
    assert_eq!(waiting["items"][0]["kind"], "InstallPlan", "{waiting:#}");
    let shown = json_of(&cluster, &["plan", "upgrade", "gadget", "--classic", "-n", "lights", "-o", "json"]);
    assert_eq!(shown["installPlan"]["installs"], json!(["gadget.v1.1.0"]), "{shown:#}");
    let steps = shown["installPlan"]["steps"].as_array().unwrap();
    let change = |kind: &str| steps.iter().find(|step| step["kind"] == kind).map(|step| step["change"].clone());
    assert_eq!((change("ClusterServiceVersion"), change("ServiceAccount")), (Some(json!("create")), Some(json!("change"))), "{shown:#}");
    let account = steps.iter().find(|step| step["kind"] == "ServiceAccount").unwrap();
    assert_eq!(account["fields"].as_array().unwrap().len(), 1, "the former CSV stays an owner: {account:#}");
    cluster.mainstay(&["approve", "subscription/gadget", "-n", "lights"]).exits(2);
    let words: Vec<&str> = next.split(' ').skip(1).chain(["--yes"]).collect();
    cluster.mainstay(&words).ok();
    cluster.until("the update is installed", &["csv", "gadget.v1.1.0", "-n", "lights"], |csv| csv["status"]["phase"] == "Succeeded");
    cluster.until_gone(&["csv", "gadget.v1.0.0", "-n", "lights"]);

    let gadget = json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "one", "namespace": "default"}, "spec": {"size": 1}});
    cluster.apply(&gadget.to_string());
    let removal = json_of(&cluster, &["uninstall", "gadget", "--classic", "-n", "lights", "--dry-run", "-o", "json"]);
    assert_eq!(removal["definitions"][0]["customResources"], 1, "{removal:#}");
    let follows = removal["follows"].as_array().unwrap();
    assert!(
        follows.contains(&json!("Deployment lights/gadget")) && follows.contains(&json!("ServiceAccount lights/gadget")),
        "{removal:#}"
    );
    assert!(removal["copies"].as_array().unwrap().contains(&json!("default")), "{removal:#}");
    cluster.mainstay(&["uninstall", "gadget", "--classic", "-n", "lights", "--yes"]).ok();
    assert!(cluster.get(&["gadgets.gadgets.example.com", "one", "-n", "default"]).is_some(), "custom resources stay");
    cluster.until_gone(&["deployment", "gadget", "-n", "lights"]);
    cluster.until_gone(&["csv", "gadget.v1.1.0", "-n", "default"]);

    // Once more, and with the CRD this time.
    cluster.mainstay(&["install", "gadget", "--classic", "-n", "lights", "--yes"]).ok();
    cluster.mainstay(&["uninstall", "gadget", "--classic", "-n", "lights", "--delete-crds", "--yes"]).ok();
    assert!(cluster.get(&["crd", "gadgets.gadgets.example.com"]).is_none());
}

/// OLM0-USER-05, OLM0-TENANT-01, OLM0-TENANT-04, OLM0-ADMIN-12, MS-EXPL-02, MS-EXPL-05: what does not fit is refused before it is written, and
/// what does not go on is explained by the one object at fault.
#[test]
fn refused_and_explained() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (cluster, registry) = gadgets();
    let new = |namespace: &'static str, more: &[&'static str]| {
        cluster.mainstay(&[&["install", "gadget", "--classic", "-n", namespace, "--create-namespace", "--yes"], more].concat())
    };
    let several = new("both", &["--watch-namespace", "a", "--watch-namespace", "b"]).exits(4);
    assert!(several.contains("MultiNamespace InstallModeType not supported"), "{several}");
    assert!(cluster.get(&["namespace", "both"]).is_none());
    new("tenant-operator", &["--watch-namespace", "tenant-operator"]).ok();
    let group = cluster.get(&["operatorgroup", "tenant-operator", "-n", "tenant-operator"]).unwrap();
    assert_eq!(group["spec"]["targetNamespaces"], json!(["tenant-operator"]));

    let second = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "second", "namespace": "tenant-operator"}});
    cluster.apply(&second.to_string());
    cluster.until("the CSV fails", &["csv", "gadget.v1.1.0", "-n", "tenant-operator"], |csv| {
        csv["status"]["reason"] == "TooManyOperatorGroups"
    });
    for subject in [["csv", "gadget.v1.1.0"], ["subscription", "gadget"], ["operatorgroup", "second"]] {
        let why = json_of(&cluster, &[&["explain"], &subject[..], &["-n", "tenant-operator", "-o", "json"]].concat());
        assert_eq!(why["situation"], "several-operator-groups", "{why:#}");
    }
    cluster.kubectl(&["delete", "operatorgroup", "second", "-n", "tenant-operator"]).ok();

    // A catalog without its image: the Subscription waits for it, and says so.
    let broken = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "broken", "namespace": "alone"},
        "spec": {"sourceType": "grpc", "image": format!("{}/tests/nothing:v1", registry.address())}});
    let subscription = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": "lost", "namespace": "alone"},
        "spec": {"name": "lost", "channel": "stable", "source": "broken", "sourceNamespace": "alone"}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "alone"}});
    let group =
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "alone", "namespace": "alone"}});
    cluster.apply(&[namespace, group, broken, subscription].map(|object| object.to_string()).join("\n"));
    cluster.until("the catalog fails", &["catalogsource", "broken", "-n", "alone"], |source| {
        source["status"]["reason"] == "RegistryServerError"
    });
    let why = json_of(&cluster, &["explain", "subscription", "lost", "-n", "alone", "-o", "json"]);
    assert_eq!(why["situation"], "catalog-unhealthy", "{why:#}");
    assert_eq!(why["waitsFor"], "catalogsource alone/broken", "{why:#}");
    let missing = cluster.mainstay(&["explain", "csv", "none.v1", "-n", "alone"]).exits(3);
    assert!(missing.contains("not found"), "{missing}");

    // A package that needs another's API keeps it from being removed.
    let mut needs = Toy::new("widget", "1.0.0");
    needs.more.clear();
    let bundles = cluster.folder().join("more");
    needs.write(&bundles);
    let reference = publish(&registry, &bundles, cluster.folder(), "more");
    catalog(&cluster, "more", &reference);
    new("tenant-operator", &["--name", "again"]).exits(4);
    cluster.mainstay(&["install", "widget", "--classic", "-n", "tenant-operator", "--yes"]).ok();
    let note = json_of(&cluster, &["explain", "subscription", "widget", "-n", "tenant-operator", "-o", "json"]);
    assert!(note["notes"][0].as_str().unwrap().contains("subscription gadget"), "{note:#}");
}

/// MS-CLI-12: the verbs of the plugin say everything on stdout, and an error ends with exit code 1.
#[test]
fn verbs_of_the_plugin() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let (cluster, _registry) = gadgets();
    cluster.kubectl(&["create", "namespace", "plug"]).ok();
    let run = |words: &[&str]| cluster.mainstay(&[&["operator", "-n", "plug"], words].concat());
    assert_eq!(run(&["list"]).ok(), "No resources found in plug namespace.\n");
    let refused = run(&["install", "gadget"]);
    assert_eq!((refused.code, refused.stderr.as_str()), (Some(1), ""), "{}", refused.stdout);
    assert!(
        refused
            .stdout
            .starts_with("failed to install operator: namespace \"plug\" has no existing operator group; use --create-operator-group"),
        "{}",
        refused.stdout
    );
    let unknown = run(&["nonsense"]);
    assert_eq!((unknown.code, unknown.stderr.as_str()), (Some(1), ""), "{}", unknown.stdout);

    let available = run(&["list-available", "gadget"]).ok();
    let lines: Vec<Vec<&str>> = available.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        (&lines[0][..4], &lines[1][..4]),
        (&["NAME", "CATALOG", "CHANNEL", "LATEST"][..], &["gadget", "Team", "stable", "gadget.v1.1.0"][..])
    );
    let page = run(&["describe", "gadget"]).ok();
    assert!(page.starts_with("== Package ==\nGadget 1.1.0 (by Mainstay)\n") && page.contains("\nstable (default) (shown)\n"), "{page}");

    let installed = run(&["install", "gadget", "-C", "-v", "1.0.0"]).ok();
    assert!(installed.ends_with("operator \"gadget\" installed; installed csv is \"gadget.v1.0.0\"\n"), "{installed}");
    let upgraded = run(&["upgrade", "gadget"]).ok();
    assert_eq!(upgraded, "operator \"gadget\" upgraded; installed csv is \"gadget.v1.1.0\"\n");
    assert!(run(&["list"]).ok().lines().nth(1).unwrap().starts_with("gadget   gadget"));
    let gadget = json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "one", "namespace": "plug"}, "spec": {"size": 1}});
    cluster.apply(&gadget.to_string());
    assert!(run(&["list-operands", "gadget"]).ok().contains("gadgets.example.com/v1  Gadget"));
    let aborted = run(&["uninstall", "gadget"]);
    let reason = "operand deletion aborted: one or more operands exist and operand strategy is \"abort\"";
    let expected =
        format!("uninstall operator: could not proceed with deletion of \"gadget\": {reason}\n\nSee kubectl operator uninstall --help");
    assert!(aborted.code == Some(1) && aborted.stdout.starts_with(&expected), "{}", aborted.stdout);
    let current = run(&["upgrade", "gadget"]);
    let expected = "failed to upgrade operator: operator is already at latest version\n";
    assert_eq!((current.code, current.stdout.as_str()), (Some(1), expected));
    let gone = run(&["uninstall", "gadget", "-X"]).ok();
    let kinds: Vec<&str> = gone.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(kinds[..3], ["subscription", "gadget", "clusterserviceversion"], "{gone}");
    assert!(kinds.contains(&"customresourcedefinition") && kinds.ends_with(&["operatorgroup"]), "{gone}");
    assert!(gone.lines().all(|line| line.ends_with(" deleted")), "{gone}");
    assert!(cluster.get(&["operatorgroup", "plug", "-n", "plug"]).is_none());
    for (words, expected) in [
        (&["uninstall", "gadget"][..], "uninstall operator: package \"gadget\" not found\n"),
        (&["upgrade", "gadget"], "failed to upgrade operator: subscription for package \"gadget\" not found\n"),
        (&["list-operands", "gadget"], "list operands: package \"gadget\" not found in namespace \"plug\"\n"),
        (&["describe", "none"], "packagemanifests.packages.operators.coreos.com \"none\" not found\n"),
        (&["describe", "gadget", "-C", "fast"], "channel \"fast\" does not exist for package \"gadget\"\n"),
    ] {
        let said = run(words);
        assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(1), expected, ""), "{words:?}");
    }
    let removed = run(&["catalog", "remove", "none"]);
    assert!(removed.code == Some(1) && removed.stdout.starts_with("failed to remove catalog \"none\": "), "{}", removed.stdout);
    assert_eq!(run(&["list-available", "gadget", "-c", "openshift-marketplace/team"]).ok().lines().count(), 2);
    assert!(cluster.mainstay(&["operator", "catalog", "list", "-A"]).ok().contains("team  openshift-marketplace  Team"));
}

/// MS-CLI-12: the verbs below olmv1 create, show, change, search and delete catalogs and extensions of OLM v1.
#[test]
fn verbs_of_olmv1() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::with(&Options::default());
    let (_registry, reference) = publish_gadgets(&cluster, &["1.0.0", "1.1.0"]);
    let run = |words: &[&str]| cluster.mainstay(&[&["operator", "olmv1"], words].concat());
    let dry = run(&["create", "catalog", "team", &reference, "--dry-run", "All", "-o", "json"]).ok();
    let dry: Value = serde_json::from_str(&dry).unwrap();
    assert_eq!(dry["spec"]["source"]["image"]["ref"], reference.as_str(), "{dry:#}");
    assert!(cluster.get(&["clustercatalog", "team"]).is_none(), "a dry run writes nothing");
    assert_eq!(run(&["create", "catalog", "team", &reference, "--priority", "5"]).ok(), "catalog \"team\" created\n");
    assert!(run(&["get", "catalogs"]).ok().lines().nth(1).unwrap().starts_with("team"));
    assert_eq!(run(&["update", "catalog", "team", "--priority", "7", "--labels", "a=b"]).ok(), "catalog \"team\" updated\n");
    let live = cluster.get(&["clustercatalog", "team"]).unwrap();
    assert_eq!((&live["spec"]["priority"], &live["metadata"]["labels"]["a"]), (&json!(7), &json!("b")));
    let found = run(&["search", "catalog", "-l", "a=b", "--list-versions"]).ok();
    let rows: Vec<Vec<&str>> = found.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows[0][0], rows[1][0], *rows[1].last().unwrap(), *rows[2].last().unwrap()), ("PACKAGE", "gadget", "1.1.0", "1.0.0"));
    assert_eq!(run(&["search", "catalog", "-l", "a=c"]).ok(), "No resources found.\n");

    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": "plug"}});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "installer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "plug"}]});
    cluster.kubectl(&["create", "namespace", "plug"]).ok();
    cluster.apply(&[account, binding].map(|object| object.to_string()).join("\n"));
    let install = ["install", "extension", "gadget", "-p", "gadget", "-n", "plug", "-s", "installer", "-v", "1.0.0", "-l", "a in (b, c)"];
    assert_eq!(run(&install).ok(), "extension \"gadget\" created\n");
    let line = run(&["get", "extension", "gadget"]).ok();
    let cells: Vec<&str> = line.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells[..5], ["gadget", "gadget.v1.0.0", "1.0.0", "Catalog", "True"]);
    assert_eq!(
        run(&["update", "extension", "gadget", "-v", "1.1.0", "--upgrade-constraint-policy", "SelfCertified"]).ok(),
        "extension \"gadget\" updated\n"
    );
    let spec = cluster.get(&["clusterextension", "gadget"]).unwrap()["spec"]["source"]["catalog"].clone();
    assert_eq!((&spec["version"], &spec["upgradeConstraintPolicy"]), (&json!("1.1.0"), &json!("SelfCertified")));
    assert_eq!(spec["selector"]["matchExpressions"][0]["values"], json!(["b", "c"]), "what is not given stays");
    let missing = run(&["delete", "extension", "none"]);
    assert_eq!((missing.code, missing.stderr.as_str()), (Some(1), ""), "{}", missing.stdout);
    assert!(missing.stdout.starts_with("failed to delete extension: "), "{}", missing.stdout);
    assert_eq!(run(&["delete", "extension", "gadget"]).ok(), "extension \"gadget\" deleted\n");
    assert_eq!(run(&["delete", "catalogs", "--all"]).ok().lines().filter(|line| *line == "catalog \"team\" deleted").count(), 1);
}
