//! Real operators, installed and upgraded over several versions through a registry.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mainstay_e2e::bundles::{self, extension, publish, publish_as, read_yaml, until_installed, until_said, until_serving};
use mainstay_e2e::{Cluster, Registry, need_kubectl, unpacked};
use mainstay_testing::data;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const INSTALL: &str = "install-ns";

/// One operator and the versions it goes through.
struct Walk<'a> {
    package: &'a str,
    versions: &'a [&'a str],
    watch: Option<&'a str>,
    /// Where the update edges come from.
    edges: &'a str,
}

/// OLM1-INST-13..14, OLM1-INST-08, OLM1-UPG-01, OLM1-CTRL-03, OLM1-CTRL-10, OLM1-OWN-01, OLM1-INST-15: several CRDs, one of which changes its schema.
#[test]
fn several_crds() {
    walk(
        &Walk { package: "grafana-operator", versions: &["5.0.1", "5.0.2", "5.1.0"], watch: None, edges: "replaces" },
        Some(Registry::ours()),
    );
}

/// OLM1-INST-11, OLM1-INST-13..14: an operator that looks after its own namespace only, with the recorded render of its second version.
#[test]
fn own_namespace() {
    walk(
        &Walk { package: "koku-metrics-operator", versions: &["4.3.1", "4.4.0", "4.4.1"], watch: Some(INSTALL), edges: "semver" },
        Some(Registry::ours()),
    );
}

/// OLM1-INST-13..14, OLM1-CAT-06: pulled from Debian's registry; the last version brings a CRD more.
#[test]
fn through_docker_registry() {
    walk(
        &Walk { package: "community-trivy-operator", versions: &["2.2.0", "2.3.0", "2.4.0"], watch: None, edges: "semver" },
        Registry::debian(),
    );
}

/// OLM1-INST-13..14, OLM0-BUNDLE-07: an operator without a CRD of its own; objects come and go between versions.
#[test]
fn without_crds() {
    walk(
        &Walk { package: "skupper-operator", versions: &["1.9.3", "1.9.4", "1.9.6"], watch: None, edges: "semver" },
        Some(Registry::ours()),
    );
}

/// OLM1-INST-13..14: package and bundles have different names; the recorded render is of the last version.
#[test]
fn bundles_named_otherwise() {
    walk(
        &Walk { package: "hyperfoil-bundle", versions: &["0.21.0", "0.24.2", "0.26.0"], watch: None, edges: "semver" },
        Some(Registry::ours()),
    );
}

/// OLM1-GEN-04: rendered manifests of more than 1.5 MiB. The recorded operator with the largest bundle has one version only, and no
/// operator renders to that much; so two more versions are made of it, each with the text of its own CRDs in ConfigMaps beside.
#[test]
fn more_than_a_mebibyte() {
    let (Some(()), Some(real)) = (need_kubectl(), unpacked("bundles")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = real.join("strimzi-kafka-operator/1.2.0");
    let manifests = read_manifests(&source);
    for version in ["1.2.0", "1.2.1", "1.2.2"] {
        let target = folder.path().join("strimzi-kafka-operator").join(version);
        bundles::copy(&source, &target);
        for (path, manifest) in &manifests {
            let file = target.join("manifests").join(path);
            let text = std::fs::read_to_string(&file).unwrap();
            if manifest["kind"] == "ClusterServiceVersion" {
                let renamed = text.replace("strimzi-cluster-operator.v1.2.0", &format!("strimzi-cluster-operator.v{version}"));
                bundles::write(&file, &renamed.replace("  version: 1.2.0", &format!("  version: {version}")));
            } else if manifest["kind"] == "CustomResourceDefinition" {
                for part in 0..2 {
                    let name = format!("{}-{part}", manifest["metadata"]["name"].as_str().unwrap());
                    let copy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"crd.yaml": text, "version": version}});
                    bundles::write(&target.join("manifests").join(format!("{name}.json")), &copy.to_string());
                }
            }
        }
    }
    let rendered = render(&folder.path().join("strimzi-kafka-operator/1.2.0"), None);
    let size = Value::Array(rendered).to_string().len();
    assert!(size > 3 << 19, "{size} bytes are not more than 1.5 MiB");
    let walk = Walk { package: "strimzi-kafka-operator", versions: &["1.2.0", "1.2.1", "1.2.2"], watch: None, edges: "semver" };
    walk_in(&walk, &Registry::ours(), folder.path());
}

/// OLM1-OWN-01..04: a CRD that belongs to nobody, and one that belongs to another extension, block with their words, and nothing is written.
#[test]
fn objects_of_others_block() {
    let (Some(()), Some(real)) = (need_kubectl(), unpacked("bundles")) else { return };
    let cluster = Cluster::up(&[]);
    let registry = Registry::ours();
    let reference = publish(&registry, &real.join("hyperfoil-bundle"), cluster.folder(), "latest");
    cluster.apply(&bundles::catalog("real", &reference, None));
    until_serving(&cluster, "real");
    let crd =
        read_manifests(&real.join("hyperfoil-bundle/0.26.0")).into_values().find(|one| one["kind"] == "CustomResourceDefinition").unwrap();
    let name = crd["metadata"]["name"].as_str().unwrap();
    cluster.kubectl_with(&["create", "-f", "-"], &crd.to_string()).ok();
    let uid = cluster.get(&["crd", name]).unwrap()["metadata"]["uid"].clone();
    cluster.apply(&extension("first", INSTALL, "hyperfoil-bundle", "0.26.0", None));
    let words = format!("CustomResourceDefinition '{name}' already exists in namespace '' and cannot be managed by operator-controller");
    let blocked = until_said(&cluster, "clusterextension", "first", "Progressing", &words);
    assert_eq!(bundles::condition(&blocked, "Progressing")["reason"], "Retrying");
    assert_eq!(bundles::condition(&blocked, "Installed")["status"], "False");
    assert_eq!(cluster.get(&["crd", name]).unwrap()["metadata"]["uid"], uid);
    let nothing = cluster.get(&["deployments", "-n", INSTALL]).unwrap();
    assert_eq!(nothing["items"], json!([]), "nothing is written before every check has passed");

    // It goes on by itself when the way is free, and then a second extension is the one that is blocked.
    // It is there again at once: kubectl, which looks for the uid first and then for the name, may wait for that one to go.
    cluster.kubectl(&["delete", "crd", name, "--wait=false"]).ok();
    until_installed(&cluster, "first", "0.26.0");
    cluster.apply(&extension("second", INSTALL, "hyperfoil-bundle", "0.26.0", None));
    let blocked = until_said(&cluster, "clusterextension", "second", "Progressing", "already exists in namespace '");
    assert_eq!(bundles::condition(&blocked, "Progressing")["reason"], "Retrying");
}

fn walk(walk: &Walk<'_>, registry: Option<Registry>) {
    let (Some(()), Some(real), Some(registry)) = (need_kubectl(), unpacked("bundles"), registry) else { return };
    // Only the versions of the walk, so that each replaces the one before.
    let folder = tempfile::tempdir().unwrap();
    for version in walk.versions {
        bundles::copy(&real.join(walk.package).join(version), &folder.path().join(walk.package).join(version));
    }
    walk_in(walk, &registry, folder.path());
}

fn walk_in(walk: &Walk<'_>, registry: &Registry, folder: &Path) {
    let cluster = Cluster::up(&[]);
    let reference = publish_as(registry, &folder.join(walk.package), cluster.folder(), "latest", walk.edges);
    cluster.apply(&bundles::catalog("real", &reference, None));
    until_serving(&cluster, "real");

    let mut before: BTreeSet<Identity> = BTreeSet::new();
    let mut instance: Option<(Vec<String>, Value)> = None;
    for version in walk.versions {
        cluster.apply(&extension("operator", INSTALL, walk.package, version, walk.watch));
        let extension = until_installed(&cluster, "operator", version);
        let rendered = render(&folder.join(walk.package).join(version), walk.watch);
        compare_with_recorded(walk, version, &rendered);
        let now: BTreeSet<Identity> = rendered.iter().map(Identity::of).collect();
        for object in &rendered {
            check_live(&cluster, object, &extension);
        }
        for gone in before.difference(&now) {
            cluster.until_gone(&gone.arguments());
        }
        if let Some((arguments, uid)) = &instance {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            assert_eq!(
                cluster.get(&arguments).map(|object| object["metadata"]["uid"].clone()).as_ref(),
                Some(uid),
                "{arguments:?} did not survive {version}"
            );
        } else {
            instance = make_instance(&cluster, &folder.join(walk.package).join(version), &rendered);
        }
        before = now;
    }

    // Drift: what is deleted by hand returns.
    let deployment = before.iter().find(|one| one.kind == "Deployment").expect("every operator has a Deployment");
    let arguments = deployment.arguments();
    let uid = cluster.get(&arguments).unwrap()["metadata"]["uid"].clone();
    cluster.kubectl(&[&["delete", "--wait=false"], arguments.as_slice()].concat()).ok();
    cluster.until("the Deployment returns", &arguments, |object| object["metadata"]["uid"] != uid);

    // Uninstall: everything that belonged to it goes, the namespace and the installer stay.
    cluster.kubectl(&["delete", "clusterextension", "operator", "--timeout=60s"]).ok();
    for object in &before {
        cluster.until_gone(&object.arguments());
    }
    assert!(cluster.get(&["serviceaccount", "operator-installer", "-n", INSTALL]).is_some());
}

/// What names an object on the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    group: String,
    kind: String,
    namespace: Option<String>,
    name: String,
}

impl Identity {
    fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let group = object["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group).to_owned();
        Self {
            group,
            kind: text(&object["kind"]),
            namespace: object["metadata"]["namespace"].as_str().map(str::to_owned),
            name: text(&object["metadata"]["name"]),
        }
    }

    fn arguments(&self) -> Vec<&str> {
        // kubectl knows these kinds without their group.
        let mut arguments = vec![self.kind.as_str(), self.name.as_str()];
        if let Some(namespace) = &self.namespace {
            arguments.extend(["-n", namespace]);
        }
        arguments
    }
}

/// The objects of a bundle, as `mainstay bundle render` gives them.
fn render(bundle: &Path, watch: Option<&str>) -> Vec<Value> {
    let bundle = bundle.to_string_lossy();
    let mut arguments = vec!["bundle", "render", &bundle, "--install-namespace", INSTALL, "-o", "json"];
    if let Some(watch) = watch {
        arguments.extend(["--watch-namespace", watch]);
    }
    serde_json::from_str(&bundles::offline(&arguments).ok()).unwrap()
}

/// Upstream's renderer made the same of it, where that was recorded.
fn compare_with_recorded(walk: &Walk<'_>, version: &str, rendered: &[Value]) {
    let Some(recorded) = data::json_lines("bundle-oracle/olmv1-render.jsonl") else { return };
    let targets = walk.watch.map_or(Value::Null, |watch| json!([watch]));
    let name = format!("{}/{version}", walk.package);
    let Some(found) = recorded.into_iter().find(|one| one["bundle"] == *name && one["targetNamespaces"] == targets) else { return };
    let set = |objects: &[Value]| objects.iter().map(hashed).collect::<BTreeSet<_>>();
    assert_eq!(set(rendered), found["objects"].as_array().unwrap().iter().map(Value::to_string).collect(), "{name}");
    eprintln!("{name}: equal to the recorded render");
}

/// A CRD's spec is recorded as the SHA-256 of its canonical JSON, its conversion beside it.
fn hashed(object: &Value) -> String {
    if object["kind"] != "CustomResourceDefinition" {
        return object.to_string();
    }
    let mut object = object.clone();
    let spec = object.as_object_mut().unwrap().remove("spec").unwrap();
    object["specConversion"] = spec["conversion"].clone();
    object["specSha256"] = format!("{:x}", Sha256::digest(spec.to_string())).into();
    object.to_string()
}

/// The live object is what was rendered, and what the server adds; it carries the extension's labels and belongs to it.
#[track_caller]
fn check_live(cluster: &Cluster, wanted: &Value, extension: &Value) {
    let identity = Identity::of(wanted);
    let live = cluster.get(&identity.arguments()).unwrap_or_else(|| panic!("{identity:?} is not on the cluster"));
    let mut differences = Vec::new();
    contained(wanted, &live, "", &mut differences);
    assert!(differences.is_empty(), "{identity:?} differs from what was rendered: {differences:#?}");
    let labels = &live["metadata"]["labels"];
    assert_eq!(labels["olm.operatorframework.io/owner-kind"], "ClusterExtension", "{identity:?}");
    assert_eq!(labels["olm.operatorframework.io/owner-name"], extension["metadata"]["name"], "{identity:?}");
    let owner = live["metadata"]["ownerReferences"].as_array().into_iter().flatten().find(|owner| owner["controller"] == true);
    let owner = owner.unwrap_or_else(|| panic!("{identity:?} has no controller"));
    assert_eq!((&owner["uid"], &owner["blockOwnerDeletion"]), (&extension["metadata"]["uid"], &json!(true)), "{identity:?}");
}

/// Everything wanted is there; what is more is the server's (defaults, status, metadata).
fn contained(wanted: &Value, live: &Value, path: &str, differences: &mut Vec<String>) {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            for (key, value) in wanted.iter().filter(|(key, _)| !path.is_empty() || *key != "status") {
                contained(value, live.get(key).unwrap_or(&Value::Null), &format!("{path}/{key}"), differences);
            }
        }
        (Value::Array(wanted), Value::Array(live)) if wanted.len() == live.len() => {
            for (index, (wanted, live)) in wanted.iter().zip(live).enumerate() {
                contained(wanted, live, &format!("{path}/{index}"), differences);
            }
        }
        // What is empty need not be stored.
        (Value::Object(map), Value::Null) if map.is_empty() => {}
        (Value::Array(list), Value::Null) if list.is_empty() => {}
        (Value::Null, _) => {}
        (Value::String(wanted), Value::String(live)) if quantity(wanted).is_some() && quantity(wanted) == quantity(live) => {}
        _ if wanted == live || empty_is_absent(wanted, live) => {}
        _ => differences.push(format!("{path}: wanted {wanted}, live {live}")),
    }
}

/// Go leaves zero values of optional fields out.
fn empty_is_absent(wanted: &Value, live: &Value) -> bool {
    live.is_null() && (wanted == false || wanted == 0 || wanted == "")
}

/// The amount in thousandths that a resource quantity stands for; the server writes them in its own form.
fn quantity(text: &str) -> Option<i128> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(at);
    let factor: i128 = match suffix {
        "m" => 1,
        "" => 1_000,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "Ki" => 1_000 << 10,
        "Mi" => 1_000 << 20,
        "Gi" => 1_000 << 30,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let scale = 10_i128.checked_pow(part.len().try_into().ok()?)?;
    let digits: i128 = format!("{whole}{part}").parse().ok()?;
    Some(digits.checked_mul(factor)? / scale)
}

/// Makes one of the custom resources that the bundle gives as examples: how to get it, and its uid.
fn make_instance(cluster: &Cluster, bundle: &Path, rendered: &[Value]) -> Option<(Vec<String>, Value)> {
    let manifests = read_manifests(bundle);
    let csv = manifests.values().find(|one| one["kind"] == "ClusterServiceVersion")?;
    let examples: Vec<Value> =
        serde_json::from_str(csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap_or("[]")).unwrap_or_default();
    let kinds: BTreeMap<&str, &Value> = rendered
        .iter()
        .filter(|one| one["kind"] == "CustomResourceDefinition")
        .map(|crd| (crd["spec"]["names"]["kind"].as_str().unwrap_or_default(), crd))
        .collect();
    for mut example in examples {
        let Some(crd) = kinds.get(example["kind"].as_str().unwrap_or_default()) else { continue };
        let namespaced = crd["spec"]["scope"] == "Namespaced";
        let metadata = example["metadata"].as_object_mut()?;
        metadata.remove("namespace");
        if namespaced {
            metadata.insert("namespace".to_owned(), "default".into());
        }
        let made = cluster.kubectl_with(&["create", "-o", "json", "-f", "-"], &example.to_string());
        if made.code == Some(0) {
            let object: Value = serde_json::from_str(&made.stdout).unwrap();
            let resource = format!("{}.{}", crd["spec"]["names"]["plural"].as_str()?, crd["spec"]["group"].as_str()?);
            let mut arguments = vec![resource, object["metadata"]["name"].as_str()?.to_owned()];
            if namespaced {
                arguments.extend(["-n".to_owned(), "default".to_owned()]);
            }
            return Some((arguments, object["metadata"]["uid"].clone()));
        }
        eprintln!("an example of the bundle is refused: {made}");
    }
    assert!(kinds.is_empty(), "none of the bundle's examples is accepted");
    None
}

fn read_manifests(bundle: &Path) -> BTreeMap<String, Value> {
    let entries = std::fs::read_dir(bundle.join("manifests")).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), read_yaml(&entry.path()))).collect()
}
