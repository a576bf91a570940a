//! Approvals by the command line: a change that waits is listed, shown, approved, and followed at once.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::bundles::{publish_gadgets, until_installed, until_said, until_serving};
use mainstay_e2e::{Cluster, need_kubectl};
use serde_json::{Value, json};

/// MS-POL-01, MS-CLI-06: a change that waits for an approval is listed; `approve` shows its plan, asks, and approves this very change once;
/// `wait` right after it waits for the approved change, not for the approval that was given.
#[test]
fn listed_approved_followed() {
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&[]);
    let (_registry, reference) = publish_gadgets(&cluster, &["1.0.0", "1.1.0"]);
    cluster.mainstay(&["catalog", "add", "team", "--ref", &reference]).ok();
    until_serving(&cluster, "team");
    cluster.mainstay(&["install", "gadget", "--version", "1.0.0", "--yes"]).ok();
    let policy = json!({"apiVersion": "lifecycle.mainstay.dev/v1alpha1", "kind": "LifecyclePolicy", "metadata": {"name": "ask"},
        "spec": {"packages": ["*"], "approval": "Always"}});
    cluster.apply(&policy.to_string());
    cluster.mainstay(&["upgrade", "gadget", "--yes", "--no-wait"]).ok();
    until_said(&cluster, "clusterextension", "gadget", "Progressing", "waits for approval of change plan");

    let listed: Value = serde_json::from_str(&cluster.mainstay(&["approve", "-o", "json"]).ok()).unwrap();
    let [plan] = listed["items"].as_array().unwrap().as_slice() else { panic!("{listed:#}") };
    let name = plan["metadata"]["name"].as_str().unwrap();
    assert_eq!((&plan["spec"]["subject"]["name"], &plan["spec"]["to"]["version"]), (&json!("gadget"), &json!("1.1.0")), "{plan:#}");
    // Without a terminal, nothing is approved unless the command says so; and a wait says what it waits for.
    cluster.mainstay(&["approve", name]).exits(2);
    let waits = cluster.mainstay(&["wait", "gadget", "--for", "version=1.1.0", "--timeout", "60s"]).exits(4);
    assert!(waits.contains("waits for approval of change plan"), "{waits}");

    cluster.mainstay(&["approve", name, "--yes"]).ok();
    cluster.mainstay(&["wait", "gadget", "--for", "version=1.1.0", "--timeout", "120s"]).ok();
    until_installed(&cluster, "gadget", "1.1.0");
    let again = cluster.mainstay(&["approve", name, "--yes"]).exits(4);
    assert!(again.contains(name), "{again}");
    let none: Value = serde_json::from_str(&cluster.mainstay(&["approve", "-o", "json"]).ok()).unwrap();
    assert_eq!(none["items"], json!([]), "{none:#}");
}
