//! Troubleshooting as the documents describe it: logs, containers of nodes, support data (OLM0-ADMIN-23, OLM0-ADMIN-45, COP-G-13).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use mainstay_e2e::{Cluster, eventually, need_embedded, need_kubectl};
use serde_json::json;

/// The kind of ClusterOperators, with the columns of OpenShift's.
fn operator_kind() -> String {
    let condition = |name: &str, kind: &str| json!({"name": name, "type": "string", "jsonPath": format!(".status.conditions[?(@.type==\"{kind}\")].status")});
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
        "additionalPrinterColumns": [
            {"name": "Version", "type": "string", "jsonPath": ".status.versions[?(@.name==\"operator\")].version"},
            condition("Available", "Available"), condition("Progressing", "Progressing"), condition("Degraded", "Degraded"),
            {"name": "Since", "type": "date", "jsonPath": ".status.conditions[?(@.type==\"Available\")].lastTransitionTime"},
        ],
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "clusteroperators.config.openshift.io"},
        "spec": {"group": "config.openshift.io", "scope": "Cluster", "versions": [version],
            "names": {"kind": "ClusterOperator", "plural": "clusteroperators", "singular": "clusteroperator", "listKind": "ClusterOperatorList", "shortNames": ["co"]}},
    })
    .to_string()
}

/// OLM0-ADMIN-45, OLM0-ADMIN-23, COP-G-13: containers of a node are listed, a log of several containers needs a name, `exec` is refused with
/// its reason, and support data of ClusterOperators and of OLM's namespaces lies in a folder, without secrets.
#[test]
fn a_cluster_is_looked_into() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::up(&["--run-image", "*/shell:*=sh"]);
    let script = "echo from the process; while true; do sleep 0.2; done";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "two", "namespace": "openshift-operators"}, "spec": {"nodeName": "worker-1", "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "real", "image": "a/shell:1", "command": ["sh", "-c", script]}, {"name": "fake", "image": "fake:1"}]}});
    cluster.apply(&pod.to_string());
    cluster.until("it runs", &["pod", "two", "-n", "openshift-operators"], |pod| pod["status"]["phase"] == "Running");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hidden", "namespace": "openshift-operators"}, "stringData": {"password": "verysecret"}});
    cluster.apply(&secret.to_string());

    // kubectl itself would take the first container; the API names all of them.
    let raw = cluster.kubectl(&["get", "--raw", "/api/v1/namespaces/openshift-operators/pods/two/log"]).refused();
    assert!(raw.contains("a container name must be specified for pod two, choose one of: [real fake]"), "{raw}");
    let logs = |container: &str| cluster.kubectl(&["logs", "pod/two", "-n", "openshift-operators", "-c", container]);
    assert_eq!(logs("real").ok(), "from the process\n");
    assert!(logs("fake").ok().contains("this cluster simulates its nodes"));
    assert!(logs("none").refused().contains("container none is not valid for pod two"));
    assert!(
        cluster
            .kubectl(&["exec", "two", "-n", "openshift-operators", "-c", "fake", "--", "true"])
            .refused()
            .contains("exec is not available")
    );
    assert!(cluster.kubectl(&["describe", "pod", "two", "-n", "openshift-operators"]).ok().contains("mainstay.dev/process"));

    let listed = cluster.mainstay(&["adm", "inspect", "node/worker-1"]).ok();
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("node worker-1 is simulated"), "{listed}");
    let titles: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(titles, ["CONTAINER", "IMAGE", "CREATED", "STATE", "NAME", "ATTEMPT", "POD", "NAMESPACE"]);
    let row = |name: &str| lines.iter().find(|line| line.contains(&format!(" {name} "))).copied().unwrap_or_default();
    assert!(row("real").starts_with("process ") && row("real").contains("Running") && row("fake").contains("fake:1"), "{listed}");
    let named = cluster.mainstay(&["adm", "inspect", "node/worker-1", "--name", "rea"]).ok();
    assert!(named.contains(" real ") && !named.contains(" fake "), "{named}");
    assert!(cluster.mainstay(&["adm", "inspect", "node/none"]).exits(3).contains("node none: not found"));

    cluster.apply(&operator_kind());
    eventually("the operator reports", Duration::from_secs(60), || {
        let operators = cluster.kubectl(&["get", "clusteroperators"]).stdout;
        let words = |at: usize| operators.lines().nth(at).unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let titled = words(0) == ["NAME", "VERSION", "AVAILABLE", "PROGRESSING", "DEGRADED", "SINCE"];
        let row = words(1);
        // A version, and a word for each condition.
        if titled && row.len() == 6 && row[0] == "marketplace" && row[2] == "True" { Ok(()) } else { Err(operators) }
    });
    let folder = cluster.folder().join("support");
    let said = cluster.mainstay(&["adm", "must-gather", "--dest-dir", &folder.to_string_lossy()]).ok();
    assert!(said.contains("objects in "), "{said}");
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert!(read("cluster-scoped-resources/config.openshift.io/clusteroperators/marketplace.yaml").contains("relatedObjects"));
    assert!(read("namespaces/openshift-operators/openshift-operators.yaml").contains("kind: Namespace"));
    assert!(read("namespaces/openshift-operators/operators.coreos.com/operatorgroups.yaml").contains("global-operators"));
    assert!(
        read("namespaces/openshift-operators/core/events.yaml").contains("Scheduled")
            || read("namespaces/openshift-operators/core/events.yaml").contains("Started")
    );
    assert!(read("namespaces/openshift-operators/pods/two/two.yaml").contains("mainstay.dev/process"));
    assert!(read("namespaces/openshift-operators/pods/two/real/real/logs/current.log").contains("from the process"));
    assert!(read("cluster-scoped-resources/core/nodes/worker-1.yaml").contains("kind: Node"));
    let secrets = read("namespaces/openshift-operators/core/secrets.yaml");
    assert!(secrets.contains("hidden") && !secrets.contains("dmVyeXNlY3JldA") && !secrets.contains("verysecret"), "{secrets}");
    let again = cluster.mainstay(&["adm", "must-gather", "--dest-dir", &folder.to_string_lossy()]).exits(1);
    assert!(again.contains("is not empty"), "{again}");

    let one = cluster.folder().join("one");
    cluster.mainstay(&["adm", "inspect", "clusteroperator/marketplace", "--dest-dir", &one.to_string_lossy()]).ok();
    assert!(one.join("cluster-scoped-resources/config.openshift.io/clusteroperators/marketplace.yaml").exists());
    assert!(std::fs::read_dir(one.join("namespaces")).unwrap().count() > 0, "what it relates to comes along");
    assert!(cluster.mainstay(&["adm", "inspect", "clusteroperator/none"]).exits(3).contains("not found"));
    assert!(cluster.mainstay(&["adm", "inspect", "pods/../x"]).exits(2).contains("is not RESOURCE"));
}

/// CVO-SIM-05, MS-CLI-11: the version that is reported is the user's, and what is none is refused before anything starts.
#[test]
fn a_version_is_reported() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::up(&["--components", "none", "--report-kubernetes-version", "1.29.3"]);
    let shown: serde_json::Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", "/version"]).ok()).unwrap();
    assert_eq!((&shown["major"], &shown["minor"]), (&"1".into(), &"29".into()));
    assert!(shown["gitVersion"].as_str().unwrap().starts_with("v1.29.3+mainstay-"), "{shown}");
    let refused = cluster.mainstay(&["up", "--report-kubernetes-version", "newest"]).exits(2);
    assert!(refused.contains("\"newest\" is no version of Kubernetes; one is written as 1.33 or 1.33.4"), "{refused}");
}

/// MS-CLI-11: options of `mainstay up` stand in a file; the command line wins, and what is no option is refused with its name.
#[test]
fn options_stand_in_a_file() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("up.yaml");
    std::fs::write(&file, "nodes: 2\ncomponents: [controllers, scheduler, nodes]\nrun-image:\n- '*/shell:*=sh'\nlisten: 0.0.0.0:1\n")
        .unwrap();
    let path = file.to_string_lossy().into_owned();
    let cluster = Cluster::up(&["--config", &path]);
    cluster.until("the second node is there", &["node", "worker-1"], |node| node["status"]["allocatable"].is_object());
    assert!(cluster.get(&["node", "worker-2"]).is_none());
    assert!(cluster.log().contains("*/shell:* = sh"));
    std::fs::write(&file, "nodez: 2\n").unwrap();
    let refused = cluster.mainstay(&["up", "--config", &path]).exits(2);
    assert!(refused.contains("nodez: mainstay up has no option --nodez; did you mean nodes?"), "{refused}");
    assert!(cluster.mainstay(&["up", "--config", "/no/such/file"]).exits(2).contains("--config /no/such/file"));
}
