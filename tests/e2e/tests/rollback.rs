//! Ways back and out, by the command line: verdict, rollback, history, a rollback by itself, and the preview of a removal.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::bundles::{Toy, condition, publish, until_installed, until_said, until_serving};
use mainstay_e2e::{Cluster, Registry, need_kubectl};
use serde_json::{Value, json};

/// A cluster with three versions of a package: 1.1.0 knows a field more than 1.0.0, and the pods of 1.2.0 crash.
fn offered() -> (Cluster, Registry) {
    let cluster = Cluster::up(&[]);
    let registry = Registry::ours();
    let bundles = cluster.folder().join("bundles");
    let mut first = Toy::new("gadget", "1.0.0");
    first.spec_schema = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    first.write(&bundles);
    Toy::new("gadget", "1.1.0").write(&bundles);
    let mut broken = Toy::new("gadget", "1.2.0");
    let mut csv = broken.csv();
    csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["metadata"]["annotations"] =
        json!({"mainstay.dev/fault": "crash-loop"});
    broken.more.push(("manifests/csv.yaml".to_owned(), csv));
    broken.write(&bundles);
    let reference = publish(&registry, &bundles, cluster.folder(), "latest");
    cluster.mainstay(&["catalog", "add", "team", "--ref", &reference]).ok();
    until_serving(&cluster, "team");
    (cluster, registry)
}

fn gadget(spec: &Value) -> String {
    json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "mine", "namespace": "default"}, "spec": spec})
        .to_string()
}

/// MS-RB-01, OLM1-UPG-11, OLM1-CRD-07, MS-CLI-06: the verdict comes first and names what would be lost; what is unsafe needs to be wanted; the way
/// back is gone by the cluster, stays where it is, and is in the history.
#[test]
fn back_to_the_version_before() {
    let Some(()) = need_kubectl() else { return };
    let (cluster, _registry) = offered();
    cluster.mainstay(&["install", "gadget", "--version", "1.0.0", "--yes"]).ok();
    let nowhere = cluster.mainstay(&["rollback", "gadget", "--yes"]).exits(4);
    assert!(nowhere.contains("there is no earlier bundle to go back to"), "{nowhere}");
    cluster.mainstay(&["upgrade", "gadget", "--version", "1.1.0", "--yes"]).ok();

    let safe = cluster.mainstay(&["rollback", "gadget", "--dry-run"]).exits(0);
    assert!(safe.contains("from gadget.v1.1.0 to gadget.v1.0.0: safe"), "{safe}");
    let why = "CustomResourceDefinition gadgets.gadgets.example.com: the older one knows or allows less; it has no custom resources";
    assert!(safe.contains(why), "{safe}");
    let planned = cluster.mainstay(&["plan", "rollback", "gadget"]).exits(0);
    assert!(planned.contains("rollback from gadget.v1.1.0 to gadget.v1.0.0: safe\n") && planned.contains(why), "{planned}");
    cluster.apply(&gadget(&json!({"size": 3, "colour": "red"})));
    let verdict = cluster.mainstay(&["rollback", "gadget", "--dry-run", "-o", "json"]);
    let document: Value = serde_json::from_str(&verdict.stdout).unwrap();
    verdict.exits(4);
    assert_eq!(document["verdict"], "unsafe");
    assert_eq!((&document["risks"][0]["about"], &document["risks"][0]["names"]), (&json!("removedField"), &json!(["default/mine"])));
    let refused = cluster.mainstay(&["rollback", "gadget", "--yes"]).exits(4);
    assert!(refused.contains("spec.colour is not in the older definition") && refused.contains("--force"), "{refused}");
    until_installed(&cluster, "gadget", "1.1.0");

    for (arguments, code, words) in [
        (["--to-version", "9.9.9"], 4, "gadget 9.9.9: impossible"),
        (["--to-revision", "2"], 4, "gadget.v1.1.0 is what is installed"),
        (["--to-revision", "77"], 3, "there is no revision 77"),
    ] {
        let said = cluster.mainstay(&[&["rollback", "gadget", "--dry-run"][..], &arguments[..]].concat()).exits(code);
        assert!(said.contains(words), "{said}");
    }

    cluster.kubectl(&["patch", "gadget", "mine", "--type=merge", "-p", r#"{"spec":{"colour":null}}"#]).ok();
    let done = cluster.mainstay(&["rollback", "gadget", "--yes"]).exits(0);
    assert!(done.contains("gadget.v1.1.0 rolled back to gadget.v1.0.0") && done.contains("to follow the catalog again"), "{done}");
    let live = until_installed(&cluster, "gadget", "1.0.0");
    let source = &live["spec"]["source"]["catalog"];
    assert_eq!((&source["version"], &source["upgradeConstraintPolicy"]), (&json!("1.0.0"), &json!("SelfCertified")));
    assert_eq!(live["spec"]["install"], Value::Null, "the preflight is on again");
    assert_eq!(cluster.get(&["gadget", "mine"]).unwrap()["spec"], json!({"size": 3}));

    let table = cluster.mainstay(&["history", "gadget"]).ok();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(
        rows,
        [
            ["1", "superseded", "gadget.v1.0.0", "1.0.0"],
            ["2", "superseded", "gadget.v1.1.0", "1.1.0"],
            ["3", "deployed", "gadget.v1.0.0", "1.0.0"]
        ],
        "{table}"
    );
    let document: Value = serde_json::from_str(&cluster.mainstay(&["history", "gadget", "-o", "json"]).ok()).unwrap();
    let (first, last) = (&document["items"][0], &document["items"][2]);
    assert_eq!(first["digest"], last["digest"], "the same manifests");
    assert_eq!(last["phases"][0], json!({"name": "crds", "objects": 1}));
    assert!(
        last["changes"]["changed"].as_array().unwrap().contains(&json!("CustomResourceDefinition gadgets.gadgets.example.com")),
        "{last}"
    );
    assert!(last["applied"].is_string());

    // With force, and the way forward again.
    cluster.mainstay(&["upgrade", "gadget", "--version", "1.1.0", "--yes"]).ok();
    cluster.apply(&gadget(&json!({"size": 3, "colour": "red"})));
    cluster.mainstay(&["rollback", "gadget", "--to-version", "1.0.0", "--force", "--yes"]).ok();
    until_installed(&cluster, "gadget", "1.0.0");
}

/// MS-RB-01, OLM1-CTRL-11: an upgrade whose pods crash is rolled back by the cluster where the extension asks for it, with an event; the history
/// says why.
#[test]
fn an_upgrade_that_crashes_goes_back_by_itself() {
    let Some(()) = need_kubectl() else { return };
    let (cluster, _registry) = offered();
    cluster.mainstay(&["install", "gadget", "--version", "1.1.0", "--yes"]).ok();
    let asked = ["lifecycle.mainstay.dev/on-unhealthy=RollBack", "lifecycle.mainstay.dev/healthy-within=2s"];
    cluster.kubectl(&["annotate", "clusterextension", "gadget", asked[0], asked[1]]).ok();
    cluster.mainstay(&["upgrade", "gadget", "--version", "1.2.0", "--no-wait", "--yes"]).ok();
    let live = until_said(&cluster, "clusterextension", "gadget", "Progressing", "rolled back to gadget.v1.1.0");
    assert_eq!(condition(&live, "Progressing")["reason"], "Blocked");
    assert_eq!(live["status"]["install"]["bundle"]["version"], "1.1.0");
    let namespace = live["spec"]["namespace"].as_str().unwrap().to_owned();
    cluster.kubectl(&["rollout", "status", "deployment/gadget", "-n", &namespace, "--timeout=60s"]).ok();
    let image =
        cluster.get(&["deployment", "gadget", "-n", &namespace]).unwrap()["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    assert_eq!(image, "example.com/gadget:1.1.0");
    cluster.until("the event is there", &["events", "-n", "default"], |events| {
        events["items"].as_array().unwrap().iter().any(|event| event["reason"] == "RolledBack")
    });
    let wide = cluster.mainstay(&["history", "gadget", "-o", "wide"]).ok();
    assert!(wide.contains("failed") && wide.contains("gadget.v1.2.0 did not become healthy within 2s"), "{wide}");
}

/// MS-RB-02, OLM1-INST-15: what goes, what stays with counts, and who else uses it, is shown first; where there are custom resources one has to
/// say what becomes of them.
#[test]
fn a_removal_is_shown_before() {
    let Some(()) = need_kubectl() else { return };
    let (cluster, _registry) = offered();
    cluster.mainstay(&["install", "gadget", "--version", "1.1.0", "--yes"]).ok();
    cluster.apply(&gadget(&json!({"size": 3})));
    let uid = cluster.get(&["gadget", "mine"]).unwrap()["metadata"]["uid"].clone();
    let operand = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "namespace": "default",
        "ownerReferences": [{"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "name": "mine", "uid": uid}]}});
    cluster.apply(&operand.to_string());
    let hook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "theirs"},
        "webhooks": [{"name": "x.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": ["gadgets.example.com"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["gadgets"]}]}]});
    cluster.apply(&hook.to_string());

    let preview = cluster.mainstay(&["uninstall", "gadget", "--dry-run"]).ok();
    for words in [
        "  CustomResourceDefinition gadgets.gadgets.example.com (1 custom resource: 1 in default)",
        "  ServiceAccount gadget-system/gadget-installer (made by mainstay install)",
        "  Namespace gadget-system",
        "  1 ConfigMap in namespace default",
        "  ValidatingWebhookConfiguration theirs: is called for gadgets.gadgets.example.com",
    ] {
        assert!(preview.contains(words), "{words:?} is missing: {preview}");
    }
    let document: Value = serde_json::from_str(&cluster.mainstay(&["uninstall", "gadget", "--dry-run", "-o", "json"]).ok()).unwrap();
    assert_eq!(document["definitions"][0]["namespaces"], json!({"default": 1}));
    let asked = cluster.mainstay(&["uninstall", "gadget", "--yes"]).exits(4);
    assert!(asked.contains("--delete-crds") && asked.contains("--keep-crds"), "{asked}");
    assert!(cluster.get(&["clusterextension", "gadget"]).is_some());

    cluster.mainstay(&["uninstall", "gadget", "--delete-crds", "--yes"]).ok();
    cluster.until_gone(&["crd", "gadgets.gadgets.example.com"]);
    cluster.until_gone(&["configmap", "made"]);
    assert!(cluster.get(&["namespace", "gadget-system"]).is_some());
}
