//! Condition Upgradeable.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Duration;

use mainstay_api::condition::Status;
use mainstay_api::config_v1::{ClusterOperator, ClusterVersion, StatusCondition};
use mainstay_cluster_version_core::upgradeable::{ConfigMap, Facts, Found, Operators, conditions_of, interval, obstacles, put};
use serde_json::{Value, json};

use crate::support::{cluster_version, condition, minutes, start};

fn cluster(progressing: &str, overrides: Value) -> ClusterVersion {
    let status = json!({
        "history": [{"state": "Partial", "version": "4.19.0"}, {"state": "Completed", "version": "4.18.5", "image": "i"}],
        "conditions": [{"type": "Progressing", "status": progressing}],
    });
    cluster_version(json!({"clusterID": "", "overrides": overrides}), status)
}

fn operator(name: &str, conditions: Value) -> ClusterOperator {
    serde_json::from_value(json!({"metadata": {"name": name}, "status": {"conditions": conditions}})).unwrap()
}

fn blocking(name: &str) -> ClusterOperator {
    operator(
        name,
        json!([{"type": "Upgradeable", "status": "False", "reason": format!("Why{name}"), "message": format!("{name} says no.")}]),
    )
}

fn config_map(data: &[(&str, &str)]) -> ConfigMap {
    ConfigMap::Data(data.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

struct Scene {
    cluster_version: Option<ClusterVersion>,
    gates: ConfigMap,
    acks: ConfigMap,
    operators: Vec<ClusterOperator>,
    deletions: Vec<String>,
}

fn quiet() -> Scene {
    let nothing = || ConfigMap::Data(BTreeMap::new());
    let cluster_version = Some(cluster("False", json!([])));
    Scene { cluster_version, gates: nothing(), acks: nothing(), operators: Vec::new(), deletions: Vec::new() }
}

/// `TYPE=STATUS REASON: MESSAGE` of each condition.
fn told(cluster: &Scene) -> Vec<String> {
    let facts = Facts {
        cluster_version: cluster.cluster_version.as_ref().map_or(Found::NotFound("gone"), Found::ClusterVersion),
        gates: &cluster.gates,
        acks: &cluster.acks,
        operators: Operators::List(&cluster.operators),
        deletions: &cluster.deletions,
    };
    let line = |one: &StatusCondition| format!("{}={:?} {}: {}", one.kind, one.status, one.reason, one.message);
    conditions_of(&obstacles(&facts), start()).iter().map(line).collect()
}

/// CVO-UPG-02, CVO-UPG-03, CVO-UPG-05, CVO-OVR-02, CVO-DEL-03: each obstacle alone.
#[test]
fn one_obstacle() {
    let check = |cluster: Scene, expected: &[&str]| assert_eq!(told(&cluster), expected);
    check(quiet(), &[]);
    let overridden =
        |unmanaged: bool| json!([{"kind": "Deployment", "group": "apps", "namespace": "n", "name": "d", "unmanaged": unmanaged}]);
    let text = "Upgradeable=False ClusterVersionOverridesSet: Disabling ownership via cluster version overrides prevents upgrades. Please remove \
                overrides before continuing.";
    check(Scene { cluster_version: Some(cluster("False", overridden(true))), ..quiet() }, &[text]);
    check(Scene { cluster_version: Some(cluster("False", overridden(false))), ..quiet() }, &[]);
    let others = ["True", "Unknown"].map(|status| operator(status, json!([{"type": "Upgradeable", "status": status}])));
    check(Scene { operators: others.to_vec(), ..quiet() }, &[]);
    check(Scene { operators: vec![operator("silent", json!([]))], ..quiet() }, &[]);
    check(
        Scene { operators: vec![blocking("olm")], ..quiet() },
        &["Upgradeable=False Whyolm: Cluster operator olm should not be upgraded between minor versions: olm says no."],
    );
    check(
        Scene { operators: vec![blocking("olm"), blocking("dns")], ..quiet() },
        &["Upgradeable=False ClusterOperatorsNotUpgradeable: Multiple cluster operators should not be upgraded between minor versions:\n\
           * Cluster operator olm should not be upgraded between minor versions: Whyolm: olm says no.\n\
           * Cluster operator dns should not be upgraded between minor versions: Whydns: dns says no."],
    );
    check(
        Scene { deletions: vec!["configmap \"a/b\"".into(), "namespace \"c\"".into()], ..quiet() },
        &[
            "Upgradeable=False ResourceDeletesInProgress: Cluster minor level upgrades are not allowed while resource deletions are in progress; \
           resources=configmap \"a/b\",namespace \"c\"",
        ],
    );
    // An update under way is the whole condition when it is all there is.
    check(
        Scene { cluster_version: Some(cluster("True", json!([]))), ..quiet() },
        &["Upgradeable=False UpdateInProgress: An update is already in progress and the details are in the Progressing condition"],
    );
}

/// CVO-UPG-04: gates of the current minor version, and what is wrong with them.
#[test]
fn admin_gates() {
    let check = |gates: &[(&str, &str)], acks: &[(&str, &str)], expected: &[&str]| {
        assert_eq!(told(&Scene { gates: config_map(gates), acks: config_map(acks), ..quiet() }), expected);
    };
    check(&[("ack-4.18-api", "Look at the APIs.")], &[("ack-4.18-api", "true")], &[]);
    check(&[("ack-4.18-api", "Look at the APIs.")], &[], &["Upgradeable=False AdminAckRequired: Look at the APIs."]);
    for no in ["True", "", "false"] {
        check(&[("ack-4.18-api", "Look.")], &[("ack-4.18-api", no)], &["Upgradeable=False AdminAckRequired: Look."]);
    }
    // Another minor version; the major one does not count.
    check(&[("ack-4.19-api", "Look."), ("ack-4.17-api", "")], &[], &[]);
    check(&[("ack-5.18-api", "Look.")], &[], &["Upgradeable=False AdminAckRequired: Look."]);
    check(&[("ack-4.18-b", "Second."), ("ack-4.18-a", "First.")], &[], &["Upgradeable=False AdminAckRequired: First. Second."]);
    let name = "admin-gates configmap gate name ack-6.18-a has invalid format; must comply with \"^ack-[4-5][.]([0-9]{1,})-[^-]\".";
    check(&[("ack-6.18-a", "x")], &[], &[&format!("Upgradeable=False AdminAckConfigMapGateNameError: {name}")]);
    check(
        &[("ack-4.18--a", "x")],
        &[],
        &[&format!("Upgradeable=False AdminAckConfigMapGateNameError: {}", name.replace("6.18-", "4.18--"))],
    );
    let value = "admin-gates configmap gate ack-4.18-a must contain a non-empty value.";
    check(&[("ack-4.18-a", "")], &[], &[&format!("Upgradeable=False AdminAckConfigMapGateValueError: {value}")]);
    check(
        &[("ack-4.18-a", ""), ("ack-6.18-a", "x"), ("ack-4.18-z", "Zz.")],
        &[],
        &[&format!("Upgradeable=False MultipleReasons: Zz. {value} {name}")],
    );
    let alone = |cluster: Scene, expected: &str| assert_eq!(told(&cluster), [expected]);
    alone(
        Scene { gates: ConfigMap::NotFound, ..quiet() },
        "Upgradeable=False UnableToAccessAdminGatesConfigMap: admin-gates configmap not found.",
    );
    alone(
        Scene { acks: ConfigMap::Unreadable("no".into()), ..quiet() },
        "Upgradeable=False UnableToAccessAdminAcksConfigMap: Unable to access configmap admin-acks, err=no.",
    );
    alone(
        Scene { cluster_version: None, ..quiet() },
        "Upgradeable=False UnableToGetClusterVersion: Unable to get ClusterVersion, err=gone.",
    );
    // Before there is a history, there is nothing to compare with.
    let new = cluster_version(json!({}), json!({}));
    assert!(told(&Scene { cluster_version: Some(new), gates: ConfigMap::NotFound, ..quiet() }).is_empty());
}

/// CVO-UPG-02, CVO-UPG-03: several obstacles, each with a condition of its own.
#[test]
fn several_obstacles() {
    let overrides = json!([{"kind": "Deployment", "group": "apps", "namespace": "n", "name": "d", "unmanaged": true}]);
    let all = Scene {
        cluster_version: Some(cluster("True", overrides)),
        gates: config_map(&[("ack-4.18-a", "Look.")]),
        operators: vec![blocking("olm")],
        deletions: vec!["namespace \"c\"".into()],
        ..quiet()
    };
    let texts = [
        "Disabling ownership via cluster version overrides prevents upgrades. Please remove overrides before continuing.",
        "Look.",
        "Cluster operator olm should not be upgraded between minor versions: olm says no.",
        "Cluster minor level upgrades are not allowed while resource deletions are in progress; resources=namespace \"c\"",
        "An update is already in progress and the details are in the Progressing condition",
    ];
    let whole = format!(
        "Upgradeable=False MultipleReasons: Cluster should not be upgraded between minor versions for multiple reasons: \
         ClusterVersionOverridesSet,AdminAckRequired,Whyolm,ResourceDeletesInProgress,UpdateInProgress\n* {}",
        texts.join("\n* ")
    );
    let expected = [
        whole,
        format!("UpgradeableAdminAckRequired=False AdminAckRequired: {}", texts[1]),
        format!("UpgradeableClusterOperators=False Whyolm: {}", texts[2]),
        format!("UpgradeableClusterVersionOverrides=False ClusterVersionOverridesSet: {}", texts[0]),
        format!("UpgradeableDeletesInProgress=False ResourceDeletesInProgress: {}", texts[3]),
        format!("UpgradeableUpgradeInProgress=True UpdateInProgress: {}", texts[4]),
    ];
    assert_eq!(told(&all), expected);
}

/// CVO-UPG-03: conditions that no longer hold go, those of others stay, times move with the status.
#[test]
fn conditions_are_put() {
    let mut all = vec![
        condition("Available", Status::True, "", ""),
        condition("Upgradeable", Status::False, "Old", "Old."),
        condition("UpgradeableDeletesInProgress", Status::False, "Old", "Old."),
    ];
    let mut wanted = condition("Upgradeable", Status::False, "New", "New.");
    wanted.last_transition_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(minutes(9)));
    put(&mut all, std::slice::from_ref(&wanted));
    let kinds: Vec<&str> = all.iter().map(|one| one.kind.as_str()).collect();
    assert_eq!(kinds, ["Available", "Upgradeable"]);
    assert_eq!((all[1].reason.as_str(), all[1].last_transition_time.as_ref().unwrap().0), ("New", start()));
    put(&mut all, &[]);
    assert_eq!(all.len(), 1);
    put(&mut all, &[wanted]);
    assert_eq!(all[1].last_transition_time.as_ref().unwrap().0, minutes(9));
}

/// CVO-UPG-01: every two minutes, and every 15 seconds shortly after preconditions failed.
#[test]
fn intervals() {
    let failed = |status, reason: &str| [condition("ReleaseAccepted", status, reason, "")];
    let check = |conditions: &[StatusCondition], at: i64, seconds: u64| {
        assert_eq!(interval(conditions, minutes(at)), Duration::from_secs(seconds));
    };
    check(&[], 0, 120);
    check(&failed(Status::False, "PreconditionChecks"), 1, 15);
    check(&failed(Status::False, "PreconditionChecks"), 2, 120);
    check(&failed(Status::False, "RetrievePayload"), 1, 120);
    check(&failed(Status::True, "PreconditionChecks"), 1, 120);
}
