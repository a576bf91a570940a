//! The rules of real releases.

use mainstay_alerts::{AlertState, Rules, rules_of};
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
