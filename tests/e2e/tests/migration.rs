//! Operators of OLM classic become ClusterExtensions, and go back (MS-RB-03).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use mainstay_e2e::bundles::{self, publish, publish_gadgets, read_yaml, until_serving};
use mainstay_e2e::{Cluster, Options, Registry, mainstay, need_embedded, need_kubectl, unpacked};
use serde_json::{Value, json};

/// Offers a catalog to OLM classic and to OLM v1.
fn offer(cluster: &Cluster, reference: &str) {
    offer_classic(cluster, reference);
    cluster.apply(&bundles::catalog("team", reference, None));
    until_serving(cluster, "team");
}

/// Offers a catalog to OLM classic alone.
fn offer_classic(cluster: &Cluster, reference: &str) {
    let source = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "team", "namespace": "openshift-marketplace"}, "spec": {"sourceType": "grpc", "image": reference}});
    cluster.apply(&source.to_string());
    cluster.until("the catalog is ready", &["catalogsource", "team", "-n", "openshift-marketplace"], |source| {
        source["status"]["connectionState"]["lastObservedState"] == "READY"
    });
}

/// The uid and the generation of each of these objects.
fn identities(cluster: &Cluster, objects: &[(String, String, String)]) -> BTreeMap<String, (Value, Value)> {
    let of = |(kind, namespace, name): &(String, String, String)| {
        let live = cluster.get(&[kind, name, "-n", namespace]).unwrap_or_else(|| panic!("{kind} {namespace}/{name} is gone"));
        (format!("{kind} {name}"), (live["metadata"]["uid"].clone(), live["metadata"]["generation"].clone()))
    };
    objects.iter().map(of).collect()
}

/// A custom resource of each kind of the examples in a CSV, and the CRDs.
fn custom_resources(cluster: &Cluster, csv: &Value, namespace: &str) -> Vec<(String, String, String)> {
    let text = csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap_or("[]");
    let mut all = Vec::new();
    for mut example in serde_json::from_str::<Vec<Value>>(text).unwrap() {
        example["metadata"]["namespace"] = namespace.into();
        let made = cluster.kubectl_with(&["apply", "-f", "-"], &example.to_string());
        // An example that its own schema refuses is no custom resource.
        if made.code != Some(0) {
            continue;
        }
        let (group, _) = example["apiVersion"].as_str().unwrap().split_once('/').unwrap();
        let kind = format!("{}.{group}", example["kind"].as_str().unwrap().to_lowercase());
        all.push((kind, namespace.to_owned(), example["metadata"]["name"].as_str().unwrap().to_owned()));
    }
    for owned in csv["spec"]["customresourcedefinitions"]["owned"].as_array().into_iter().flatten() {
        all.push(("crd".to_owned(), namespace.to_owned(), owned["name"].as_str().unwrap().to_owned()));
    }
    all
}

fn uid(cluster: &Cluster, words: &[&str]) -> Value {
    cluster.get(words).unwrap()["metadata"]["uid"].clone()
}

/// The uid of an object that a preview names.
fn uid_of(cluster: &Cluster, object: &str) -> Value {
    let (kind, place) = object.split_once(' ').unwrap();
    let (namespace, name) = place.split_once('/').unwrap_or(("default", place));
    uid(cluster, &[kind, name, "-n", namespace])
}

/// The names of the Deployments of a CSV.
fn deployments(csv: &Value) -> Vec<String> {
    let all = csv["spec"]["install"]["spec"]["deployments"].as_array().unwrap();
    all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// A ClusterOperator with the name of a package, which has nothing to do with it (COP-G-04).
fn namesake(cluster: &Cluster, package: &str) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let names = json!({"kind": "ClusterOperator", "plural": "clusteroperators", "shortNames": ["co"]});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusteroperators.config.openshift.io"},
        "spec": {"group": "config.openshift.io", "scope": "Cluster", "names": names, "versions": [version]}});
    cluster.apply(&definition.to_string());
    cluster.until("the kind is served", &["crd", "clusteroperators.config.openshift.io"], |crd| {
        crd["status"]["acceptedNames"]["kind"].is_string()
    });
    let operator = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": package}, "spec": {}});
    cluster.apply(&operator.to_string());
}

/// Migrates a real operator, and restores it.
fn there_and_back(package: &str, version: &str, watch: bool) {
    let (Some(()), Some(()), Some(real)) = (need_kubectl(), need_embedded(), unpacked("bundles")) else { return };
    let cluster = Cluster::with(&Options::default());
    let registry = Registry::ours();
    let folder = cluster.folder().join("bundles");
    let source = real.join(package).join(version);
    bundles::copy(&source, &folder.join(package).join(version));
    let csv = manifests(&source).into_iter().find(|object| object["kind"] == "ClusterServiceVersion").unwrap();
    let name = csv["metadata"]["name"].as_str().unwrap().to_owned();
    offer(&cluster, &publish(&registry, &folder, cluster.folder(), "latest"));
    namesake(&cluster, package);
    let operator = || cluster.get(&["clusteroperator", package]).unwrap();
    let untouched = operator();
    let hooks = csv["spec"]["webhookdefinitions"].as_array().cloned().unwrap_or_default();
    let mut objects = Vec::new();
    if !hooks.is_empty() {
        // The webhooks of simulated pods do not answer: custom resources are made before they are asked.
        cluster.kubectl(&["create", "namespace", "ops"]).ok();
        let definitions = manifests(&source).into_iter().filter(|object| object["kind"] == "CustomResourceDefinition");
        for definition in definitions {
            cluster.apply(&definition.to_string());
            cluster.until("the CRD is established", &["crd", definition["metadata"]["name"].as_str().unwrap()], |crd| {
                crd["status"]["acceptedNames"]["kind"].is_string()
            });
        }
        objects = custom_resources(&cluster, &csv, "ops");
    }
    let mut install = vec!["install", package, "--classic", "-n", "ops", "--create-namespace", "--yes"];
    if watch {
        install.extend(["--watch-namespace", "ops"]);
    }
    cluster.mainstay(&install).ok();
    if hooks.is_empty() {
        objects = custom_resources(&cluster, &csv, "ops");
    }
    assert!(objects.len() > 1, "{objects:?}");
    objects.extend(deployments(&csv).into_iter().map(|one| ("deployment".to_owned(), "ops".to_owned(), one)));
    let before = identities(&cluster, &objects);
    let converts = hooks.iter().any(|hook| hook["type"] == "ConversionWebhook");
    // A Deployment may be rendered otherwise, and a CRD that is converted gets another certificate.
    let may_change = |what: &str| what.starts_with("deployment ") || (converts && what.starts_with("crd "));
    let pods = || {
        let all: Value = serde_json::from_str(&cluster.kubectl(&["get", "pods", "-n", "ops", "-o", "json"]).ok()).unwrap();
        let mut uids: Vec<String> = all["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["uid"].to_string()).collect();
        uids.sort();
        uids
    };
    let (running, file) = (pods(), cluster.folder().join("backup.json"));
    let backup = file.to_str().unwrap();

    let migrate = ["migrate", package, "-n", "ops", "--backup", backup];
    let preview: Value = serde_json::from_str(&cluster.mainstay(&[&migrate[..], &["--dry-run", "-o", "json"]].concat()).ok()).unwrap();
    assert_eq!(preview["obstacles"], json!([]), "{preview:#}");
    assert!(!file.exists(), "a plan writes nothing");
    let adopted = preview["objects"].as_array().unwrap().iter().filter(|one| one["fate"] == "adopted");
    let adopted: Vec<(String, Value)> =
        adopted.map(|one| one["object"].as_str().unwrap().to_owned()).map(|one| (one.clone(), uid_of(&cluster, &one))).collect();
    assert!(adopted.len() > 2, "{preview:#}");
    cluster.mainstay(&[&migrate[..], &["--yes"]].concat()).ok();
    let after = identities(&cluster, &objects);
    for (what, identity) in &before {
        assert_eq!(after[what].0, identity.0, "{what} has another uid");
        assert!(may_change(what) || after[what].1 == identity.1, "{what} was changed");
    }
    for (object, before) in &adopted {
        assert_eq!(uid_of(&cluster, object), *before, "{object} has another uid");
    }
    if preview["restarts"] == json!([]) {
        assert_eq!(pods(), running, "no Pod was to be restarted");
    }
    for gone in [["subscription.operators.coreos.com", package], ["csv", name.as_str()]] {
        assert!(cluster.get(&[&gone[..], &["-n", "ops"]].concat()).is_none(), "{gone:?} is still there");
    }
    let listed: Value = serde_json::from_str(&cluster.mainstay(&["list", "-o", "json"]).ok()).unwrap();
    assert!(!listed.to_string().contains("ClusterOperator"), "{listed:#}");
    let extension = cluster.get(&["clusterextension", package]).unwrap();
    assert_eq!(extension["status"]["install"]["bundle"]["name"], name.as_str(), "{extension:#}");
    let copies = cluster
        .kubectl(&[
            "get",
            "clusterroles,clusterrolebindings,roles,rolebindings",
            "-A",
            "-l",
            "lifecycle.mainstay.dev/migration",
            "-o",
            "name",
        ])
        .ok();
    assert_eq!(copies, "", "copies of permissions are left over");

    cluster.mainstay(&["migrate", "--back", backup, "--yes"]).ok();
    assert!(cluster.get(&["clusterextension", package]).is_none());
    let restored = cluster.get(&["csv", &name, "-n", "ops"]).unwrap();
    assert_eq!(restored["status"]["phase"], "Succeeded");
    let back = identities(&cluster, &objects);
    for (what, identity) in &before {
        assert_eq!(back[what].0, identity.0, "{what} has another uid");
        assert!(may_change(what) || back[what].1 == identity.1, "{what} was changed");
    }
    cluster.mainstay(&["uninstall", package, "--classic", "-n", "ops", "--yes"]).ok();
    assert_eq!(operator(), untouched, "the ClusterOperator of the same name belongs to the platform");
}

fn manifests(bundle: &Path) -> Vec<Value> {
    let all = std::fs::read_dir(bundle.join("manifests")).unwrap();
    all.map(|file| read_yaml(&file.unwrap().path())).collect()
}

/// MS-RB-03, MS-RB-04, COP-G-04: several CRDs, in all namespaces; there and back, custom resources keep uid and generation, and the
/// ClusterOperator of the same name is never touched.
#[test]
fn grafana() {
    there_and_back("grafana-operator", "5.1.0", false);
}

/// MS-RB-03, MS-RB-04: an operator that watches its own namespace alone.
#[test]
fn koku_metrics() {
    there_and_back("koku-metrics-operator", "4.4.1", true);
}

/// MS-RB-03, MS-RB-04: an operator with many CRDs and objects beside them.
#[test]
fn trivy() {
    there_and_back("community-trivy-operator", "2.4.0", false);
}

/// MS-RB-04: an operator with one CRD and no webhook.
#[test]
fn hyperfoil() {
    there_and_back("hyperfoil-bundle", "0.24.2", false);
}

/// MS-RB-04: an operator with admission webhooks whose certificates change hands both ways.
#[test]
fn open_telemetry() {
    there_and_back("opentelemetry-operator", "0.58.0", false);
}

/// MS-RB-04: an operator with a conversion webhook and admission webhooks; custom resources keep uid and generation both ways.
#[test]
fn cert_manager_converts() {
    there_and_back("cert-manager", "1.6.1", false);
}

/// MS-RB-04: a saved plan is carried out unless the cluster changed since, and not when it was edited.
#[test]
fn saved_plans() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::with(&Options::default());
    let (_registry, reference) = publish_gadgets(&cluster, &["1.0.0"]);
    offer(&cluster, &reference);
    cluster.mainstay(&["install", "gadget", "--classic", "-n", "lights", "--create-namespace", "--yes"]).ok();
    let place = |name: &str| cluster.folder().join(name);
    let (plan, backup) = (place("gadget.plan"), place("lights.json"));
    let save = ["migrate", "gadget", "-n", "lights", "--backup", backup.to_str().unwrap(), "--out", plan.to_str().unwrap()];
    cluster.mainstay(&save).ok();
    assert!(!backup.exists() && cluster.get(&["csv", "gadget.v1.0.0", "-n", "lights"]).is_some(), "a plan changes nothing");
    let apply = ["apply-plan", plan.to_str().unwrap(), "--yes"];
    let text = std::fs::read_to_string(&plan).unwrap();
    std::fs::write(&plan, text.replace("lights", "nights")).unwrap();
    assert!(cluster.mainstay(&apply).exits(4).contains("its digest does not fit"));
    std::fs::write(&plan, text).unwrap();
    let patch = |value: &str| {
        let patch = json!({"metadata": {"annotations": {"team": value}}}).to_string();
        cluster.kubectl(&["patch", "serviceaccount", "gadget", "-n", "lights", "--type", "merge", "-p", &patch]).ok();
    };
    patch("blue");
    let refused = cluster.mainstay(&apply).exits(4);
    assert!(
        refused.contains("the cluster changed since the plan was saved") && refused.contains("ServiceAccount lights/gadget"),
        "{refused}"
    );
    assert!(!backup.exists());
    cluster.mainstay(&save).ok();
    cluster.mainstay(&apply).ok();
    let extension = cluster.get(&["clusterextension", "gadget"]).unwrap();
    assert_eq!(extension["status"]["install"]["bundle"]["name"], "gadget.v1.0.0", "{extension:#}");
    let again = cluster.mainstay(&apply).exits(4);
    assert!(again.contains("mainstay migrate --back"), "{again}");
}

/// MS-RB-03: what OLM v1 cannot take over is refused before anything is written, and the file of the backup is its owner's alone.
#[test]
fn refused_and_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::with(&Options::default());
    let (_registry, reference) = publish_gadgets(&cluster, &["1.0.0"]);
    offer(&cluster, &reference);
    cluster.mainstay(&["install", "gadget", "--classic", "-n", "lights", "--create-namespace", "--yes"]).ok();
    let file = cluster.folder().join("lights.json");
    let migrate = ["migrate", "gadget", "-n", "lights", "--yes", "--backup", file.to_str().unwrap()];
    let overrides =
        json!({"spec": {"overrides": [{"type": "Upgradeable", "status": "False", "reason": "Busy", "message": "a backup runs"}]}});
    let patch = |patch: &Value| {
        cluster.kubectl(&["patch", "operatorcondition", "gadget.v1.0.0", "-n", "lights", "--type", "merge", "-p", &patch.to_string()]).ok()
    };
    patch(&overrides);
    let refused = cluster.mainstay(&migrate).exits(4);
    assert!(refused.contains("the operator is not upgradeable: a backup runs"), "{refused}");
    patch(&json!({"spec": {"overrides": null}}));
    let other = cluster.mainstay(&[&migrate[..], &["--catalog", "none"]].concat()).exits(4);
    assert!(other.contains("OLM v1 does not offer it"), "{other}");
    assert!(!file.exists() && cluster.get(&["csv", "gadget.v1.0.0", "-n", "lights"]).is_some());
    cluster.mainstay(&migrate).ok();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = cluster.mainstay(&migrate).exits(4);
    assert!(again.contains("mainstay migrate --back"), "{again}");
}

/// MS-RB-03, MS-RB-04: a migration that is killed again and again, each time a step later, is finished by the same command; its first steps make
/// the ClusterCatalog that no one made before.
#[test]
fn killed_at_any_step() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::with(&Options::default());
    let (_registry, reference) = publish_gadgets(&cluster, &["1.0.0"]);
    offer_classic(&cluster, &reference);
    cluster.mainstay(&["install", "gadget", "--classic", "-n", "lights", "--create-namespace", "--yes"]).ok();
    let gadget = json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "one", "namespace": "lights"}, "spec": {"size": 1}});
    cluster.apply(&gadget.to_string());
    let objects = [
        ["gadgets.gadgets.example.com", "one"],
        ["crd", "gadgets.gadgets.example.com"],
        ["deployment", "gadget"],
        ["serviceaccount", "gadget"],
    ];
    let uids = || objects.map(|[kind, name]| uid(&cluster, &[kind, name, "-n", "lights"]));
    let (before, file) = (uids(), cluster.folder().join("lights.json"));
    let advised = cluster.mainstay(&["migrate", "gadget", "-n", "lights", "--dry-run"]).exits(4);
    assert!(advised.contains(&format!("mainstay catalog add team --ref {reference}")), "{advised}");
    assert!(cluster.get(&["clustercatalog", "team"]).is_none(), "a dry run makes none");
    let mut killed = 0;
    // Each line is a step that begins; the child is killed when it has said so many of them.
    for lines in 1.. {
        let mut command = cluster.command(mainstay());
        command.args(["migrate", "gadget", "-n", "lights", "--yes", "--backup", file.to_str().unwrap()]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        if said.by_ref().take(lines).count() < lines {
            assert!(child.wait().unwrap().success());
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        killed += 1;
        assert_eq!(uids(), before, "after {killed} kills");
    }
    assert!(killed > 5, "{killed} kills");
    assert_eq!(uids(), before);
    let extension = cluster.get(&["clusterextension", "gadget"]).unwrap();
    assert_eq!(extension["status"]["install"]["bundle"]["name"], "gadget.v1.0.0", "{extension:#}");
    let left = cluster
        .kubectl(&[
            "get",
            "clusterroles,clusterrolebindings,roles,rolebindings",
            "-A",
            "-l",
            "lifecycle.mainstay.dev/migration",
            "-o",
            "name",
        ])
        .ok();
    assert_eq!(left, "");
}
