//! Pending, firing and gone.

use mainstay_alerts::{AlertState, Target, rules_of};
use serde_json::{Value, json};

use crate::{Played, operator};

fn rule(rules: &Value) -> Value {
    json!({"metadata": {"namespace": "demo", "name": "rules"}, "spec": {"groups": [{"name": "demo", "rules": rules}]}})
}

/// COP-11: an alert is pending until its expression has held for its time, fires, and is gone with the expression; a new one begins again.
#[test]
fn pending_firing_gone() {
    let rule = rule(&json!([{
        "alert": "Down", "expr": "cluster_operator_up == 0", "for": "5m", "labels": {"severity": "critical", "of": "{{ $labels.name }}"},
        "annotations": {"summary": "{{ $labels.name }} is down: {{ $value }}"},
    }]));
    let page = |seconds: i64| {
        let etcd = i64::from(!(60..720).contains(&seconds) && seconds < 1200);
        format!("cluster_operator_up{{name=\"etcd\"}} {etcd}\ncluster_operator_up{{name=\"dns\"}} 1\n")
    };
    let mut played = Played::new(&[rule], vec![operator()], &page);
    assert_eq!(played.states(30), []);
    assert_eq!(played.states(330), [("Down".to_owned(), AlertState::Pending)]);
    assert_eq!(played.states(360), [("Down".to_owned(), AlertState::Firing)]);
    let alert = played.report.alerts[0].clone();
    assert_eq!(alert.annotations["summary"], "etcd is down: 0");
    assert_eq!(alert.active_at.as_millisecond(), crate::BEGIN + 60_000);
    let labels: Vec<_> = alert.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
    assert_eq!(
        labels,
        [
            "alertname=Down",
            "endpoint=metrics",
            "job=cluster-version-operator",
            "name=etcd",
            "namespace=openshift-cluster-version",
            "of=etcd",
            "service=cluster-version-operator",
            "severity=critical"
        ]
    );
    assert_eq!(played.states(720), []);
    assert_eq!(played.states(1200), [("Down".to_owned(), AlertState::Pending)]);
    assert_eq!(played.states(1500), [("Down".to_owned(), AlertState::Firing)]);
}

/// COP-11: a series that is no longer there is no alert either; one that stays firing for a while does.
#[test]
fn series_that_end() {
    let rules = rule(&json!([
        {"alert": "Gone", "expr": "cluster_operator_up == 0"},
        {"alert": "Kept", "expr": "cluster_operator_up == 0", "keep_firing_for": "2m"},
        {"alert": "Absent", "expr": "absent(cluster_operator_up{name=\"dns\"})"},
    ]));
    let page = |seconds: i64| if seconds < 60 { "cluster_operator_up{name=\"dns\"} 0\n".to_owned() } else { String::new() };
    let mut played = Played::new(&[rules], vec![operator()], &page);
    let names = |states: Vec<(String, AlertState)>| states.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(played.states(30)), ["Gone", "Kept"]);
    assert_eq!(names(played.states(60)), ["Absent", "Kept"]);
    assert_eq!(names(played.states(120)), ["Absent", "Kept"]);
    assert_eq!(names(played.states(150)), ["Absent"]);
}

/// COP-11: a label that the scrape adds, too, is kept as exported.
#[test]
fn labels_that_collide() {
    let rules = rule(&json!([{"alert": "Source", "expr": "catalogsource_ready{exported_namespace=\"openshift-marketplace\"} == 0"}]));
    let target = Target {
        job: "catalog-operator-metrics",
        namespace: "openshift-operator-lifecycle-manager",
        endpoint: "https-metrics",
        metrics: ["catalogsource_ready".to_owned()].into(),
    };
    let page = |_| {
        let line = |namespace: &str, name: &str| format!("catalogsource_ready{{namespace=\"{namespace}\",name=\"{name}\"}} 0\n");
        line("openshift-marketplace", "broken") + &line("elsewhere", "other") + "catalogsource_ready_not{a=\"b\"} 0\n"
    };
    let mut played = Played::new(&[rules], vec![target], &page);
    let report = played.until(0);
    assert_eq!(report.alerts.len(), 1);
    let labels = &report.alerts[0].labels;
    assert_eq!((labels["name"].as_str(), labels["namespace"].as_str()), ("broken", "openshift-operator-lifecycle-manager"));
}

/// COP-11: rules that are not evaluated say why, and never keep the others from it.
#[test]
fn rules_that_are_not_evaluated() {
    let rules = rule(&json!([
        {"alert": "Foreign", "expr": "kube_node_info == 0 or cluster_operator_up == 0"},
        {"alert": "OtherJob", "expr": "absent(up{job=\"machine-api-operator\"})"},
        {"alert": "AnyJob", "expr": "up == 0"},
        {"alert": "Nameless", "expr": "{name=\"etcd\"} == 0"},
        {"alert": "Wrong", "expr": "cluster_operator_up =="},
        {"alert": "Matrix", "expr": "cluster_operator_up[5m]"},
        {"alert": "Far", "expr": "changes(cluster_operator_up[2h]) > 1"},
        {"alert": "Fixed", "expr": "cluster_operator_up @ 1700000000"},
        {"alert": "Native", "expr": "histogram_count(cluster_operator_up)"},
        {"alert": "For", "expr": "cluster_operator_up == 0", "for": "soon"},
        {"alert": "None"},
        {"record": "a:b", "expr": "sum(kube_node_info)"},
        {"alert": "Good", "expr": "cluster_operator_up == 0", "for": "1h30m"},
        {"alert": "Always", "expr": 1},
        {"alert": "Watchdog", "expr": "vector(1)"},
    ]));
    let found = rules_of(&rules, &[operator()]);
    let skipped: Vec<String> = found.skipped.iter().map(|rule| format!("{}: {}", rule.alert, rule.reason)).collect();
    assert_eq!(
        skipped,
        [
            "Foreign: metric kube_node_info is not measured here",
            "OtherJob: metric up of machine-api-operator is not measured here",
            "AnyJob: metric up is not measured here",
            "Nameless: it selects metrics without their name",
            "Wrong: its expression cannot be parsed: line 1, column 23: expected an expression, found the end",
            "Matrix: its expression cannot be parsed: line 1, column 1: the result has to be an instant vector, found a range vector",
            "Far: it looks back more than an hour",
            "Fixed: it looks back more than an hour",
            "Native: histogram_count is not evaluated here",
            "For: for \"soon\" is no duration",
            "None: it has no expression",
        ]
    );
    let evaluated: Vec<&str> = found.evaluated.iter().map(|rule| rule.alert.as_str()).collect();
    assert_eq!(evaluated, ["Good", "Always", "Watchdog"]);
    let page = |_| String::new();
    let mut played = Played::new(&[rules], vec![operator()], &page);
    assert_eq!(played.states(0), [("Always".to_owned(), AlertState::Firing), ("Watchdog".to_owned(), AlertState::Firing)]);
    assert_eq!((played.report.evaluated, played.report.not_evaluated.len()), (3, 11));
}

/// COP-11: a rule whose evaluation fails is named, the others go on.
#[test]
fn evaluations_that_fail() {
    let rules = rule(&json!([
        {"alert": "Ambiguous", "expr": "cluster_operator_up * on (job) cluster_operator_up"},
        {"alert": "Same", "expr": "cluster_operator_up", "labels": {"name": "one"}},
        {"alert": "Good", "expr": "cluster_operator_up{name=\"dns\"}"},
    ]));
    let page = |_| "cluster_operator_up{name=\"dns\"} 1\ncluster_operator_up{name=\"etcd\"} 1\n".to_owned();
    let mut played = Played::new(&[rules], vec![operator()], &page);
    assert_eq!(played.states(0), [("Good".to_owned(), AlertState::Firing)]);
    assert_eq!(
        played.report.problems,
        [
            "Ambiguous: found duplicate series for the match group {job=\"cluster-version-operator\"} on the right hand-side of the operation; many-to-many matching not allowed: matching labels must be unique on one side",
            "Same: several series have the same labels once they are those of an alert",
        ]
    );
}
