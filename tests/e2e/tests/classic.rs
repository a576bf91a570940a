//! OLM classic as its documents describe it: kubectl and manifests, and nothing else.

use std::time::Duration;

use mainstay_e2e::bundles::{self, Toy, condition, publish};
use mainstay_e2e::{Cluster, Registry, eventually, need_embedded, need_kubectl, unpacked};
use serde_json::{Value, json};

const MARKET: &str = "openshift-marketplace";

/// The versions of `gadget` that are in the catalog.
fn catalog_of(cluster: &Cluster, registry: &Registry, versions: &[&'static str], tag: &str) -> String {
    let bundles = cluster.folder().join(format!("bundles-{tag}"));
    for version in versions {
        Toy::new("gadget", version).write(&bundles);
    }
    publish(registry, &bundles, cluster.folder(), tag)
}

fn catalog_source(name: &str, image: &str) -> String {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": name, "namespace": MARKET},
        "spec": {"sourceType": "grpc", "image": image, "displayName": "Team Catalog", "publisher": "Team",
            "updateStrategy": {"registryPoll": {"interval": "10s"}}},
    })
    .to_string()
}

fn until_ready(cluster: &Cluster, name: &str) -> Value {
    cluster.until("the catalog is ready", &["catalogsource", name, "-n", MARKET], |source| {
        source["status"]["connectionState"]["lastObservedState"] == "READY"
    })
}

fn subscription(namespace: &str, name: &str, change: &Value) -> String {
    let mut spec = json!({"name": name, "channel": "stable", "source": "team-catalog", "sourceNamespace": MARKET});
    for (field, value) in change.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": name, "namespace": namespace}, "spec": spec})
        .to_string()
}

fn until_succeeded(cluster: &Cluster, namespace: &str, csv: &str) -> Value {
    cluster.until(&format!("{csv} succeeds"), &["csv", csv, "-n", namespace], |csv| csv["status"]["phase"] == "Succeeded")
}

/// The words of a line of a table.
fn columns(table: &str, starts: &str) -> Vec<String> {
    let line = table.lines().find(|line| line.starts_with(starts));
    line.unwrap_or_else(|| panic!("no line {starts} in:\n{table}")).split_whitespace().map(str::to_owned).collect()
}

/// Asserts that a description has these lines, however kubectl aligns them.
fn contains(description: &str, lines: &[&str]) {
    let words: Vec<String> = description.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in lines {
        assert!(words.iter().any(|found| found.starts_with(line)), "{line} is not in:\n{description}");
    }
}

/// OLM0-ADMIN-34, OLM0-ADMIN-21, OLM0-USER-04..08, OLM0-ADMIN-20, OLM0-ADMIN-09, OLM0-ADMIN-10, OLM0-API-03, OLM0-USER-01,
/// OLM0-CSV-20, OLM0-UPG-13, COP-OLM0-05: a catalog is added, a package is looked at, installed in an own namespace with manual approval, updated, and removed.
#[test]
fn the_documented_walk() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::up(&[]);
    let registry = Registry::ours();
    let image = catalog_of(&cluster, &registry, &["1.0.0"], "latest");
    cluster.apply(&catalog_source("team-catalog", &image));
    until_ready(&cluster, "team-catalog");
    let table = cluster.kubectl(&["get", "catalogsources", "-n", MARKET]).ok();
    assert_eq!(columns(&table, "NAME"), ["NAME", "DISPLAY", "TYPE", "PUBLISHER", "AGE"]);
    assert_eq!(columns(&table, "team-catalog")[..5], ["team-catalog", "Team", "Catalog", "grpc", "Team"]);
    let described = cluster.kubectl(&["describe", "catalogsource", "team-catalog", "-n", MARKET]).ok();
    contains(&described, &["Connection State:", "Last Observed State: READY", "Registry Service:", "Service Name: team-catalog"]);
    let packages = eventually("the package is listed", Duration::from_secs(30), || {
        let table = cluster.kubectl(&["get", "packagemanifests", "-n", MARKET]).ok();
        if table.contains("gadget") { Ok(table) } else { Err(table) }
    });
    assert_eq!(columns(&packages, "NAME"), ["NAME", "CATALOG", "AGE"]);
    let package = cluster.kubectl(&["describe", "packagemanifests", "gadget", "-n", MARKET]).ok();
    contains(&package, &["Install Modes:", "Default Channel: stable", "Entries:", "Current CSV: gadget.v1.0.0"]);
    cluster.kubectl(&["create", "namespace", "gadgets"]).ok();
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "group", "namespace": "gadgets"},
        "spec": {"targetNamespaces": ["gadgets"]}});
    cluster.apply(&group.to_string());
    cluster.apply(&subscription("gadgets", "gadget", &json!({"installPlanApproval": "Manual"})));
    let waiting = cluster.until("the plan waits", &["sub", "gadget", "-n", "gadgets"], |sub| {
        condition(sub, "InstallPlanPending")["reason"] == "RequiresApproval"
    });
    let plan = waiting["status"]["installPlanRef"]["name"].as_str().unwrap_or_default().to_owned();
    let table = cluster.kubectl(&["get", "installplans", "-n", "gadgets"]).ok();
    assert_eq!(columns(&table, "install-"), [plan.as_str(), "gadget.v1.0.0", "Manual", "false"]);
    let approve = ["patch", "installplan", &plan, "-n", "gadgets", "--type", "merge", "--patch", r#"{"spec":{"approved":true}}"#];
    cluster.kubectl(&approve).ok();
    let csv = until_succeeded(&cluster, "gadgets", "gadget.v1.0.0");
    let phases: Vec<&str> =
        csv["status"]["conditions"].as_array().into_iter().flatten().filter_map(|condition| condition["phase"].as_str()).collect();
    assert_eq!((phases.first(), phases.last()), (Some(&"Pending"), Some(&"Succeeded")), "{phases:?}");
    let table = cluster.kubectl(&["get", "csv", "-n", "gadgets"]).ok();
    assert_eq!(columns(&table, "gadget.v1.0.0").last().map(String::as_str), Some("Succeeded"), "{table}");
    let table = cluster.kubectl(&["get", "subs", "-n", "gadgets"]).ok();
    assert_eq!(columns(&table, "NAME"), ["NAME", "PACKAGE", "SOURCE", "CHANNEL"]);
    assert_eq!(columns(&table, "gadget"), ["gadget", "gadget", "team-catalog", "stable"]);
    let deployment = cluster.get(&["deployment", "gadget", "-n", "gadgets"]).unwrap_or_default();
    assert_eq!(deployment["metadata"]["labels"]["olm.owner"], "gadget.v1.0.0");
    cluster.until("the Subscription has its label", &["sub", "gadget", "-n", "gadgets"], |sub| {
        sub["metadata"]["labels"]["operators.coreos.com/gadget.gadgets"] == ""
    });
    let described = cluster.kubectl(&["describe", "sub", "gadget", "-n", "gadgets"]).ok();
    let lines = ["Last Transition Time:", "Message: all available catalogsources are healthy", "Reason: AllCatalogSourcesHealthy"];
    contains(&described, &lines);
    contains(&described, &["Status: False", "Type: CatalogSourcesUnhealthy", "Labels: operators.coreos.com/gadget.gadgets="]);

    // A newer version appears in the catalog, and waits.
    catalog_of(&cluster, &registry, &["1.0.0", "1.1.0"], "latest");
    let waiting = cluster.until("the update waits", &["sub", "gadget", "-n", "gadgets"], |sub| {
        sub["status"]["currentCSV"] == "gadget.v1.1.0" && condition(sub, "InstallPlanPending")["reason"] == "RequiresApproval"
    });
    assert_eq!(waiting["status"]["installedCSV"], "gadget.v1.0.0");
    let plan = waiting["status"]["installPlanRef"]["name"].as_str().unwrap_or_default().to_owned();
    cluster.kubectl(&["patch", "installplan", &plan, "-n", "gadgets", "--type", "merge", "--patch", r#"{"spec":{"approved":true}}"#]).ok();
    until_succeeded(&cluster, "gadgets", "gadget.v1.1.0");
    cluster.until_gone(&["csv", "gadget.v1.0.0", "-n", "gadgets"]);
    cluster.until("it is up to date", &["sub", "gadget", "-n", "gadgets"], |sub| {
        sub["status"]["state"] == "AtLatestKnown" && sub["status"]["installedCSV"] == "gadget.v1.1.0"
    });

    // Removal: the CRD and its objects stay.
    let widget =
        json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "mine", "namespace": "gadgets"}, "spec": {}});
    cluster.apply(&widget.to_string());
    let deleted = cluster.kubectl(&["delete", "subscription.operators.coreos.com", "gadget", "-n", "gadgets"]).ok();
    assert!(deleted.starts_with("subscription.operators.coreos.com \"gadget\" deleted"), "{deleted}");
    let running = cluster.get(&["csv", "gadget.v1.1.0", "-n", "gadgets"]).unwrap_or_default();
    assert_eq!(running["status"]["phase"], "Succeeded", "without its Subscription the operator goes on");
    cluster.kubectl(&["delete", "clusterserviceversion", "gadget.v1.1.0", "-n", "gadgets"]).ok();
    cluster.until_gone(&["deployment", "gadget", "-n", "gadgets"]);
    cluster.until_gone(&["serviceaccount", "gadget", "-n", "gadgets"]);
    let left = cluster.get(&["clusterroles", "-l", "olm.owner=gadget.v1.1.0"]).unwrap_or_default();
    assert_eq!(left["items"], json!([]));
    assert!(cluster.get(&["gadgets.gadgets.example.com", "mine", "-n", "gadgets"]).is_some());
}

/// A real operator, how it is installed, and the versions that it goes through.
struct Walk {
    package: &'static str,
    mode: &'static str,
    csvs: &'static [&'static str],
}

const WALKS: [Walk; 12] = [
    Walk { package: "hyperfoil-bundle", mode: "AllNamespaces", csvs: &["hyperfoil-operator.v0.24.2", "hyperfoil-operator.v0.26.0"] },
    Walk { package: "skupper-operator", mode: "OwnNamespace", csvs: &["skupper-operator.v1.9.4", "skupper-operator.v1.9.6"] },
    Walk {
        package: "koku-metrics-operator",
        mode: "SingleNamespace",
        csvs: &["koku-metrics-operator.v4.4.0", "koku-metrics-operator.v4.4.1"],
    },
    Walk {
        package: "rabbitmq-cluster-operator",
        mode: "MultiNamespace",
        csvs: &["rabbitmq-cluster-operator.v2.4.0", "rabbitmq-cluster-operator.v2.5.0"],
    },
    Walk {
        package: "mongodb-atlas-kubernetes",
        mode: "OwnNamespace",
        csvs: &["mongodb-atlas-kubernetes.v1.4.1", "mongodb-atlas-kubernetes.v1.5.0"],
    },
    Walk {
        package: "node-maintenance-operator",
        mode: "AllNamespaces",
        csvs: &["node-maintenance-operator.v0.20.1", "node-maintenance-operator.v0.21.0"],
    },
    Walk {
        package: "self-node-remediation",
        mode: "AllNamespaces",
        csvs: &["self-node-remediation.v0.12.1", "self-node-remediation.v0.13.0"],
    },
    Walk {
        package: "opentelemetry-operator",
        mode: "AllNamespaces",
        csvs: &["opentelemetry-operator.v0.56.0", "opentelemetry-operator.v0.58.0"],
    },
    Walk { package: "cert-manager", mode: "AllNamespaces", csvs: &["cert-manager.v1.6.2-rc1"] },
    Walk { package: "mongodb-operator", mode: "SingleNamespace", csvs: &["mongodb-operator.v0.3.0"] },
    Walk { package: "tempo-operator", mode: "AllNamespaces", csvs: &["tempo-operator.v0.5.0", "tempo-operator.v0.6.0"] },
    Walk {
        package: "machine-deletion-remediation",
        mode: "AllNamespaces",
        csvs: &["machine-deletion-remediation.v0.6.0", "machine-deletion-remediation.v0.7.0"],
    },
];

/// OLM0-CSV-05, OLM0-UPG-04, OLM0-WEBHOOK-01, OLM0-WEBHOOK-05, OLM0-OG-03, OLM0-OG-19, OLM0-CSV-23: twelve real operators of every install mode, three
/// with webhooks, each installed at a version, updated to the head of its channel, and removed.
#[test]
fn real_operators() {
    let (Some(()), Some(()), Some(real)) = (need_kubectl(), need_embedded(), unpacked("bundles")) else { return };
    let cluster = Cluster::up(&["--skip-simulated-webhooks"]);
    let registry = Registry::ours();
    let folder = cluster.folder().join("real");
    for walk in &WALKS {
        bundles::copy(&real.join(walk.package), &folder.join(walk.package));
    }
    let image = publish(&registry, &folder, cluster.folder(), "real");
    cluster.apply(&catalog_source("team-catalog", &image));
    until_ready(&cluster, "team-catalog");
    let channel = |package: &str| {
        eventually("the package is listed", Duration::from_secs(30), || {
            let manifest = cluster.get(&["packagemanifest", package, "-n", MARKET]);
            let channel = manifest.as_ref().and_then(|manifest| manifest["status"]["defaultChannel"].as_str()).map(str::to_owned);
            channel.ok_or_else(|| format!("{package} is not listed"))
        })
    };
    for walk in &WALKS {
        let namespace = format!("op-{}", walk.package);
        let targets = match walk.mode {
            "OwnNamespace" => vec![namespace.clone()],
            "SingleNamespace" => vec![format!("{namespace}-a")],
            "MultiNamespace" => vec![format!("{namespace}-a"), format!("{namespace}-b")],
            _ => Vec::new(),
        };
        let mut objects: Vec<Value> = targets
            .iter()
            .chain([&namespace])
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .collect();
        let spec = if targets.is_empty() { json!({}) } else { json!({"targetNamespaces": targets}) };
        objects.push(json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "group", "namespace": namespace}, "spec": spec}));
        cluster.apply(&objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"));
        let wanted = json!({"channel": channel(walk.package), "startingCSV": walk.csvs[0], "installPlanApproval": "Manual"});
        cluster.apply(&subscription(&namespace, walk.package, &wanted));
    }
    let approve = |namespace: &str, package: &str, csv: &str| {
        let waiting = cluster.until(&format!("the plan for {csv} waits"), &["sub", package, "-n", namespace], |sub| {
            sub["status"]["currentCSV"] == csv && condition(sub, "InstallPlanPending")["reason"] == "RequiresApproval"
        });
        let plan = waiting["status"]["installPlanRef"]["name"].as_str().unwrap_or_default().to_owned();
        cluster
            .kubectl(&["patch", "installplan", &plan, "-n", namespace, "--type", "merge", "--patch", r#"{"spec":{"approved":true}}"#])
            .ok();
    };
    for step in 0..2 {
        let moving = || WALKS.iter().filter_map(move |walk| Some((walk, format!("op-{}", walk.package), *walk.csvs.get(step)?)));
        for (walk, namespace, csv) in moving() {
            approve(&namespace, walk.package, csv);
        }
        for (_, namespace, csv) in moving() {
            until_succeeded(&cluster, &namespace, csv);
        }
    }
    for walk in WALKS.iter().filter(|walk| walk.csvs.len() > 1) {
        cluster.until_gone(&["csv", walk.csvs[0], "-n", &format!("op-{}", walk.package)]);
    }
    // Members of global groups are seen everywhere, those of one namespace where they look after it.
    let copy = cluster.until("a copy", &["csv", "hyperfoil-operator.v0.26.0", "-n", "default"], |csv| csv["status"]["reason"] == "Copied");
    assert_eq!(copy["metadata"]["labels"]["olm.copiedFrom"], "op-hyperfoil-bundle");
    cluster
        .until("a copy", &["csv", "mongodb-operator.v0.3.0", "-n", "op-mongodb-operator-a"], |csv| csv["status"]["phase"] == "Succeeded");
    for walk in &WALKS {
        let (namespace, csv) = (format!("op-{}", walk.package), walk.csvs.last().copied().unwrap_or_default());
        cluster.kubectl(&["delete", "sub", walk.package, "-n", &namespace]).ok();
        cluster.kubectl(&["delete", "csv", csv, "-n", &namespace]).ok();
        cluster.until_gone(&["csv", csv, "-n", &namespace]);
        let selector = format!("olm.owner={csv}");
        for kind in ["clusterroles", "clusterrolebindings", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
            let left = cluster.get(&[kind, "-l", &selector]).unwrap_or_default();
            assert_eq!(left["items"], json!([]), "{kind} of {csv}");
        }
    }
    cluster.until_gone(&["csv", "hyperfoil-operator.v0.26.0", "-n", "default"]);
}

/// OLM0-API-17, OLM0-UPG-13: many namespaces at once, each with several Subscriptions, all come to the head of their channels.
#[test]
fn many_namespaces_at_once() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::up(&["--nodes", "0"]);
    let registry = Registry::ours();
    let bundles = cluster.folder().join("bundles-many");
    let packages = ["gadget", "gizmo", "widget", "doodad"];
    for package in packages {
        Toy::new(package, "1.0.0").write(&bundles);
    }
    let image = publish(&registry, &bundles, cluster.folder(), "many");
    cluster.apply(&catalog_source("team-catalog", &image));
    until_ready(&cluster, "team-catalog");
    let mut objects = Vec::new();
    for namespace in (0..40).map(|at| format!("many-{at}")) {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}).to_string());
        objects.push(
            json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "group", "namespace": namespace},
                "spec": {"targetNamespaces": [namespace]}})
            .to_string(),
        );
        objects.extend(packages.map(|package| subscription(&namespace, package, &json!({"name": package}))));
    }
    cluster.apply(&objects.join("\n"));
    eventually("every Subscription is up to date", Duration::from_secs(240), || {
        let all = cluster.get(&["subs", "-A"]).unwrap_or_default();
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let late: Vec<&Value> = items.iter().filter(|sub| sub["status"]["state"] != "AtLatestKnown").collect();
        if items.len() == 160 && late.is_empty() { Ok(()) } else { Err(format!("{} of {}: {:#?}", late.len(), items.len(), late.first())) }
    });
}
