//! The rules of real releases.

use mainstay_alerts::{AlertState, Rules, Target, rules_of};
use serde_json::Value;

use crate::{BEGIN, Played, operator};

/// The PrometheusRules of the recorded releases, by path.
fn recorded() -> Option<Vec<(String, Value)>> {
    let mut found = Vec::new();
    for (path, content) in mainstay_testing::data::archive("payload.tar.gz")? {
        let text = String::from_utf8_lossy(&content);
        if text.contains("kind: PrometheusRule") {
            let documents = mainstay_yaml::stream(&text).map(|document| document.expect(&path).value);
            found.extend(documents.filter(|document| document["kind"] == "PrometheusRule").map(|document| (path.clone(), document)));
        }
    }
    assert!(found.len() > 20, "{}", found.len());
    Some(found)
}

/// COP-11: every expression of real releases is parsed, and none is left out for what it uses.
#[test]
fn expressions_of_releases() {
    let Some(recorded) = recorded() else { return };
    let mut foreign = 0;
    for (path, object) in &recorded {
        let Rules { skipped, .. } = rules_of(object, &[operator()]);
        for rule in skipped {
            let known = rule.reason.ends_with("is not measured here") || rule.reason == "it looks back more than an hour";
            assert!(known, "{path}: {}: {}", rule.alert, rule.reason);
            foreign += 1;
        }
    }
    assert!(foreign > 50, "{foreign}");
}

const HOUR: i64 = 3600;

/// A page of metrics by the seconds since the begin.
type Page = Box<dyn Fn(i64) -> String>;

/// The pages on which each alert of the Cluster Version Operator fires, with the seconds after which it does.
fn pages() -> Vec<(&'static str, i64, Page)> {
    let condition = |name: &'static str, condition: &'static str, value: i64| -> Page {
        Box::new(move |_| format!("cluster_operator_conditions{{name=\"{name}\",condition=\"{condition}\",reason=\"Why\"}} {value}\n"))
    };
    let retrieved = "cluster_version_operator_update_retrieval_timestamp_seconds{name=\"\"}";
    let unknown = "cluster_version_conditional_update_condition_seconds{version=\"4.19.1\",condition=\"Recommended\",status=\"Unknown\",reason=\"R\"}";
    vec![
        (
            "CannotRetrieveUpdates",
            HOUR,
            Box::new(move |_| {
                let failing = "cluster_operator_conditions{name=\"version\",condition=\"RetrievedUpdates\",reason=\"RemoteFailed\"} 0";
                format!("{retrieved} {}\n{failing}\n", BEGIN / 1000)
            }),
        ),
        ("UpdateAvailable", 0, Box::new(|_| "cluster_version_available_updates{upstream=\"u\",channel=\"c\"} 2\n".to_owned())),
        ("ClusterReleaseNotAccepted", HOUR, condition("version", "ReleaseAccepted", 0)),
        ("ClusterNotUpgradeable", HOUR, condition("version", "Upgradeable", 0)),
        ("ClusterOperatorDown", 600, Box::new(|_| "cluster_operator_up{name=\"dns\",version=\"1\",reason=\"R\"} 0\n".to_owned())),
        ("ClusterOperatorDegraded", 1800, condition("dns", "Degraded", 1)),
        ("ClusterOperatorDegraded", 1800, condition("version", "Failing", 1)),
        // An operator without the condition counts as degraded.
        ("ClusterOperatorDegraded", 1800, Box::new(|_| "cluster_operator_up{name=\"dns\",version=\"1\",reason=\"R\"} 1\n".to_owned())),
        (
            "ClusterOperatorFlapping",
            690,
            Box::new(|seconds| format!("cluster_operator_up{{name=\"dns\",version=\"1\",reason=\"R\"}} {}\n", seconds / 30 % 2)),
        ),
        ("CannotEvaluateConditionalUpdates", HOUR, Box::new(move |_| format!("{unknown} {}\n", BEGIN / 1000))),
    ]
}

/// CVO-MET-03: each alert of the release fires when its expression has held for its time, and not before.
#[test]
fn alerts_of_the_operator() {
    let Some(recorded) = recorded() else { return };
    let of_operator: Vec<&Value> =
        recorded.iter().map(|(_, object)| object).filter(|object| object["metadata"]["name"] == "cluster-version-operator").collect();
    assert_eq!(of_operator.len(), 2, "one in each release");
    for object in of_operator {
        let rules = rules_of(object, &[operator()]);
        assert_eq!(rules.skipped, [], "every metric of it is ours");
        assert_eq!(rules.evaluated.len(), 9);
        for (alert, after, page) in pages() {
            let mut played = Played::new(std::slice::from_ref(object), vec![operator()], &page);
            let is_firing = |states: Vec<(String, AlertState)>| states.contains(&(alert.to_owned(), AlertState::Firing));
            assert!(after == 0 || !is_firing(played.states(after - crate::STEP)), "{alert} fires too early");
            assert!(is_firing(played.states(after)), "{alert} does not fire after {after} s: {:?}", played.report);
            let reported = played.report.alerts.iter().find(|one| one.labels["alertname"] == alert).unwrap();
            assert!(["critical", "warning", "info"].contains(&reported.labels["severity"].as_str()), "{reported:?}");
            assert!(!reported.annotations["summary"].is_empty());
        }
        // A healthy operator gives no alert at all; one that is not there gives one.
        let healthy = |_| {
            [
                "cluster_operator_up{name=\"dns\",version=\"1\",reason=\"R\"} 1",
                "cluster_operator_conditions{name=\"dns\",condition=\"Degraded\",reason=\"R\"} 0",
            ]
            .join("\n")
        };
        assert_eq!(Played::new(std::slice::from_ref(object), vec![operator()], &healthy).states(2 * HOUR), []);
        let mut stopped = Played::new(std::slice::from_ref(object), vec![operator()], &healthy);
        stopped.alerts = mainstay_alerts::Alerts::new(Vec::new());
        stopped.alerts.set_rules(rules_of(object, &[operator()]).evaluated, Vec::new());
        assert_eq!(stopped.states(570), [("ClusterVersionOperatorDown".to_owned(), AlertState::Pending)]);
        assert_eq!(stopped.states(600), [("ClusterVersionOperatorDown".to_owned(), AlertState::Firing)]);
    }
}

/// The parts of a platform that measure nodes and machines.
fn machines() -> Vec<Target> {
    let of = |job, namespace, metrics: &[&str]| Target {
        job,
        namespace,
        endpoint: "metrics",
        metrics: metrics.iter().map(|name| (*name).to_owned()).collect(),
    };
    let operator = "openshift-machine-config-operator";
    vec![
        of("machine-config-operator", operator, &["mco_image_registry_drain_override_exists"]),
        of("machine-config-controller", operator, &["mcc_drain_err", "mcc_pool_alert", "os_image_url_override"]),
        of(
            "machine-config-daemon",
            operator,
            &["mcd_reboots_failed_total", "mcd_pivot_errors_total", "mcd_kubelet_state", "mcd_missing_mc", "mcd_state", "mcd_update_state"],
        ),
        of(
            "machine-api-operator",
            "openshift-machine-api",
            &["mapi_machine_created_timestamp_seconds", "mapi_mao_collector_up", "mapi_machinehealthcheck_short_circuit"],
        ),
        of("kube-state-metrics", "openshift-monitoring", &["kube_node_info"]),
    ]
}

/// A machine in a phase, without a node that it is the machine of.
fn machine(phase: &str) -> String {
    format!(
        "mapi_machine_created_timestamp_seconds{{name=\"m\",namespace=\"openshift-machine-api\",spec_provider_id=\"\",node=\"n\",\
         api_version=\"v1beta1\",phase=\"{phase}\"}} 1\nkube_node_info{{node=\"other\"}} 1\n"
    )
}

/// MACH-OPER-05, MACH-OPER-06: each alert of the releases about nodes and machines that our metrics are read by fires after its time, and not
/// before.
#[test]
fn alerts_of_nodes_and_machines() {
    let Some(recorded) = recorded() else { return };
    let of_parts =
        ["machine-config-operator", "machine-config-controller", "machine-config-daemon", "machine-api-operator-prometheus-rules"];
    let constant = |page: String| -> Page { Box::new(move |_| page.clone()) };
    let pages: Vec<(&str, i64, &str, Page)> = vec![
        ("MCODrainOverrideConfigMapAlert", 0, "warning", constant("mco_image_registry_drain_override_exists 1\n".to_owned())),
        ("MCCDrainError", 0, "warning", constant("mcc_drain_err{exported_node=\"worker-1\"} 1\n".to_owned())),
        ("MCCPoolAlert", 0, "warning", constant("mcc_pool_alert{exported_node=\"worker-1\"} 1\n".to_owned())),
        ("MCDRebootError", 300, "critical", constant("mcd_reboots_failed_total{node=\"worker-1\"} 1\n".to_owned())),
        ("MCDPivotError", 120, "warning", constant("mcd_pivot_errors_total{node=\"worker-1\"} 1\n".to_owned())),
        ("KubeletHealthState", 0, "warning", constant("mcd_kubelet_state{node=\"worker-1\"} 3\n".to_owned())),
        ("MissingMachineConfig", 0, "warning", constant("mcd_missing_mc{mc=\"rendered-x\"} 1\n".to_owned())),
        ("MachineWithoutValidNode", HOUR, "warning", constant(machine("Running"))),
        ("MachineWithNoRunningPhase", HOUR, "warning", constant(machine("Provisioning"))),
        ("MachineNotYetDeleted", 6 * HOUR, "warning", constant(machine("Deleting"))),
        ("MachineAPIOperatorMetricsCollectionFailing", 300, "warning", constant("mapi_mao_collector_up{kind=\"mapi\"} 0\n".to_owned())),
        (
            "MachineHealthCheckUnterminatedShortCircuit",
            1800,
            "warning",
            constant("mapi_machinehealthcheck_short_circuit{name=\"c\",namespace=\"openshift-machine-api\"} 1\n".to_owned()),
        ),
    ];
    // One release at a time: both have rules of the same names.
    let releases: std::collections::BTreeSet<&str> = recorded.iter().filter_map(|(path, _)| path.split('/').nth(1)).collect();
    let mut fired = 0;
    for release in releases {
        let is_of = |path: &str, object: &Value| {
            path.split('/').nth(1) == Some(release) && of_parts.iter().any(|name| object["metadata"]["name"] == *name)
        };
        let objects: Vec<Value> = recorded.iter().filter(|(path, object)| is_of(path, object)).map(|(_, object)| object.clone()).collect();
        let known: Vec<String> =
            objects.iter().flat_map(|object| rules_of(object, &machines()).evaluated).map(|rule| rule.alert.clone()).collect();
        for (alert, after, severity, page) in &pages {
            if !known.iter().any(|name| name == alert) {
                continue;
            }
            fired += 1;
            let mut played = Played::new(&objects, machines(), page);
            let is_firing = |states: &[(String, AlertState)]| states.contains(&((*alert).to_owned(), AlertState::Firing));
            assert!(*after == 0 || !is_firing(&played.states(after - crate::STEP)), "{release}: {alert} fires too early");
            let states = played.states(*after);
            assert!(is_firing(&states), "{release}: {alert} does not fire after {after} s: {states:?}");
            let reported = played.report.alerts.iter().find(|one| one.labels["alertname"] == *alert).unwrap();
            assert_eq!(reported.labels["severity"], *severity, "{alert}");
            if alert.starts_with("MCC") {
                assert!(reported.annotations["description"].contains("worker-1"), "{reported:?}");
            }
        }
        let calm = |_| "mcc_drain_err 0\nmcc_pool_alert 0\nmapi_mao_collector_up{kind=\"mapi\"} 1\nmcd_kubelet_state 2\n".to_owned();
        assert_eq!(Played::new(&objects, machines(), &calm).states(2 * HOUR), [], "{release}");
    }
    assert!(fired >= 20, "{fired} alerts of both releases");
}
