//! What must hold before a release is taken.
#![allow(clippy::unwrap_used)]

use mainstay_api::config_v1::ClusterVersion;
use mainstay_cluster_version_core::precondition::{Found, Verdict, unmet, verdict};
use serde_json::{Value, json};

use crate::support::cluster_version;

/// `!` for what blocks, then `NAME REASON: MESSAGE` without the part that all names begin with.
fn told(object: &ClusterVersion, target: &str) -> Vec<String> {
    let unmet = unmet(Found::ClusterVersion(object), target);
    let line = |one: &mainstay_cluster_version_core::precondition::Unmet| {
        let name = one.precondition.name().trim_start_matches("ClusterVersion").to_owned();
        format!("{}{name} {}: {}", if one.is_blocking() { "!" } else { "" }, one.reason(), one.problem)
    };
    unmet.iter().map(line).collect()
}

fn check(object: &ClusterVersion, target: &str, expected: &[&str]) {
    assert_eq!(told(object, target), expected, "{target}");
}

/// A cluster at 4.18.5 that came from 4.18.2 and knows every update as recommended.
fn cluster(more: Value) -> ClusterVersion {
    let known = ["4.18.1", "4.18.2", "4.18.5", "4.18.6", "4.17.9", "4.19.0", "4.20.0", "5.0.0"];
    let known: Vec<Value> = known.iter().map(|version| json!({"version": version, "image": "x"})).collect();
    let mut status = json!({
        "desired": {"version": "4.18.5", "image": "i5"},
        "history": [{"state": "Completed", "version": "4.18.5", "image": "i5"}, {"state": "Completed", "version": "4.18.2", "image": "i2"}],
        "availableUpdates": known,
    });
    for (field, value) in more.as_object().unwrap() {
        status[field] = value.clone();
    }
    cluster_version(json!({"clusterID": "", "channel": "fast"}), status)
}

/// CVO-PRE-03: back to the release before, within the minor version, and to no other.
#[test]
fn rollbacks() {
    let object = cluster(json!({}));
    check(&object, "4.18.5", &[]);
    check(&object, "4.18.6", &[]);
    check(&object, "4.18.2", &[]);
    check(
        &object,
        "4.18.1",
        &[
            "!Rollback LowDesiredVersion: 4.18.1 is less than the current target 4.18.5, and the only supported rollback is to the cluster's previous \
           version 4.18.2 (i2)",
        ],
    );
    let minor = cluster(
        json!({"history": [{"state": "Partial", "version": "4.18.5", "image": "i5"}, {"state": "Completed", "version": "4.17.9", "image": "i9"}]}),
    );
    check(
        &minor,
        "4.17.9",
        &[
            "!Rollback LowDesiredVersion: 4.17.9 is less than the current target 4.18.5 and matches the cluster's previous version, but rollbacks that \
           change major or minor versions are not recommended",
        ],
    );
    let first =
        "!Rollback LowDesiredVersion: 4.18.2 is less than the current target 4.18.5, and the cluster has no previous Semantic Version";
    check(&cluster(json!({"history": [{"state": "Completed", "version": "4.18.5", "image": "i5"}]})), "4.18.2", &[first]);
    // What came before is no version.
    check(
        &cluster(
            json!({"history": [{"state": "Completed", "version": "4.18.5", "image": "i5"}, {"state": "Completed", "version": "x", "image": "i"},
            {"state": "Completed", "version": "4.18.2", "image": "i2"}]}),
        ),
        "4.18.2",
        &[first],
    );
    // The same version from elsewhere counts as the one before.
    let moved = cluster(
        json!({"history": [{"state": "Completed", "version": "4.18.5", "image": "old"}, {"state": "Completed", "version": "4.18.2", "image": "i2"}]}),
    );
    check(
        &moved,
        "4.18.2",
        &[
            "!Rollback LowDesiredVersion: 4.18.2 is less than the current target 4.18.5, and the only supported rollback is to the cluster's previous \
           version 4.18.5 (old)",
        ],
    );
}

/// CVO-PRE-04: one minor version at a time, and no major one.
#[test]
fn giant_hops() {
    let object = cluster(json!({}));
    check(&object, "4.19.0", &[]);
    check(
        &object,
        "4.20.0",
        &[
            "!GiantHop MultipleMinorVersionsUpdate: 4.20.0 is more than one minor version beyond the current target 4.18.5 (4.20 > 4.(18+1)), and only \
           updates within the current minor version or to the next minor version are supported.",
        ],
    );
    check(
        &object,
        "5.0.0",
        &[
            "!GiantHop MajorVersionUpdate: 5.0.0 has a larger major version than the current target 4.18.5 (5 > 4), and only updates within the current \
           major version are supported.",
        ],
    );
}

fn not_upgradeable(more: Value) -> ClusterVersion {
    let mut conditions = vec![json!({"type": "Upgradeable", "status": "False", "reason": "Why", "message": "Because."})];
    conditions.extend(more["conditions"].as_array().into_iter().flatten().cloned());
    let mut more = more;
    more["conditions"] = conditions.into();
    cluster(more)
}

/// CVO-PRE-05, CVO-OVR-02: what Upgradeable=False keeps from being taken.
#[test]
fn upgradeable() {
    let object = not_upgradeable(json!({}));
    check(&object, "4.18.6", &[]);
    check(&object, "4.18.2", &[]);
    check(&object, "4.19.0", &["!Upgradeable Why: Because."]);
    for status in ["True", "Unknown"] {
        let conditions = json!([{"type": "Upgradeable", "status": status, "reason": "Why", "message": "Because."}]);
        check(&cluster(json!({"conditions": conditions})), "4.19.0", &[]);
    }
    let mut overridden = object.clone();
    overridden.spec.overrides =
        serde_json::from_value(json!([{"kind": "Deployment", "group": "apps", "namespace": "n", "name": "d", "unmanaged": true}])).unwrap();
    let overrides = "!Upgradeable ClusterVersionOverridesSet: Disabling ownership via cluster version overrides prevents upgrades. Please remove \
                     overrides before continuing.";
    check(&overridden, "4.18.6", &[overrides]);
    check(&overridden, "4.18.2", &[overrides]);
    check(&overridden, "4.19.0", &["!Upgradeable Why: Because."]);
    overridden.spec.overrides[0].unmanaged = false;
    check(&overridden, "4.18.6", &[]);
    // A patch of a minor version that the cluster is still on its way to.
    let on_its_way = not_upgradeable(json!({
        "conditions": [{"type": "Progressing", "status": "True"}],
        "history": [{"state": "Partial", "version": "4.18.5", "image": "i5"}, {"state": "Completed", "version": "4.17.9", "image": "i9"}],
    }));
    check(
        &on_its_way,
        "4.18.6",
        &[
            "Upgradeable MinorVersionClusterUpdateInProgress: Retarget to 4.18.6 while a minor level update from 4.17.9 to 4.18.5 is in progress",
        ],
    );
    check(&on_its_way, "4.19.0", &["!Upgradeable Why: Because."]);
}

/// CVO-PRE-06: what is said of updates that are not recommended; it never blocks.
#[test]
fn recommendations() {
    let update = |conditions: Value| json!({"availableUpdates": null, "conditionalUpdates": [{"release": {"version": "4.18.6", "image": "x"}, "risks": [], "conditions": conditions}]});
    let recommended = |status: &str| json!([{"type": "Recommended", "status": status, "reason": "Risk", "message": "It may stall.", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let check = |object: &ClusterVersion, expected: &[&str]| check(object, "4.18.6", expected);
    check(&cluster(update(recommended("True"))), &[]);
    check(
        &cluster(update(recommended("False"))),
        &["RecommendedUpdate Risk: Update from 4.18.5 to 4.18.6 is not recommended:\n\nIt may stall."],
    );
    check(
        &cluster(update(recommended("Unknown"))),
        &["RecommendedUpdate Risk: Update from 4.18.5 to 4.18.6 is Recommended=Unknown: Risk: It may stall."],
    );
    check(
        &cluster(update(json!([]))),
        &[
            "RecommendedUpdate UnknownConditionType: Update from 4.18.5 to 4.18.6 has a status.conditionalUpdates entry, but no Recommended condition.",
        ],
    );
    let none = |conditions: Value| cluster(json!({"availableUpdates": null, "conditions": conditions}));
    check(
        &none(json!([])),
        &["RecommendedUpdate UnknownUpdate: No RetrievedUpdates, so the recommended status of updating from 4.18.5 to 4.18.6 is unknown."],
    );
    check(
        &none(json!([{"type": "RetrievedUpdates", "status": "True", "reason": ""}])),
        &[
            "RecommendedUpdate UnknownUpdate: RetrievedUpdates=True (), so the update from 4.18.5 to 4.18.6 is probably neither recommended nor supported.",
        ],
    );
    check(
        &none(json!([{"type": "RetrievedUpdates", "status": "False", "reason": "RemoteFailed"}])),
        &[
            "RecommendedUpdate UnknownUpdate: RetrievedUpdates=False (RemoteFailed), so the recommended status of updating from 4.18.5 to 4.18.6 is unknown.",
        ],
    );
    let mut quiet = none(json!([]));
    quiet.spec.channel.clear();
    check(
        &quiet,
        &[
            "RecommendedUpdate NoChannel: Configured channel is unset, so the recommended status of updating from 4.18.5 to 4.18.6 is unknown.",
        ],
    );
}

/// CVO-PRE-01, CVO-PRE-07: all are looked at in their order; what only an update can mend does not block.
#[test]
fn shared_reasons() {
    let broken = cluster(json!({"desired": {"version": "broken", "image": "i5"}}));
    let no_version = "InvalidCurrentVersion: No Major.Minor.Patch elements found";
    check(&broken, "4.18.6", &[&format!("Rollback {no_version}"), &format!("GiantHop {no_version}")]);
    let object = not_upgradeable(json!({"availableUpdates": [{"version": "x", "image": "x"}]}));
    let no_version = "InvalidDesiredVersion: No Major.Minor.Patch elements found";
    let all = ["Rollback", "GiantHop", "Upgradeable"].map(|name| format!("!{name} {no_version}"));
    check(&object, "x", &all.each_ref().map(String::as_str));
    assert_eq!(unmet(Found::Nothing, "4.18.6"), []);
    let unreadable = unmet(Found::Unreadable("no"), "4.18.6");
    let told: Vec<(&str, bool)> = unreadable.iter().map(|one| (one.reason(), one.is_blocking())).collect();
    assert_eq!(told, [("UnknownError", true), ("UnknownError", true), ("UnknownError", true), ("UnknownError", false)]);
}

/// CVO-PRE-02: what unmet preconditions come to, with and without force.
#[test]
fn verdicts() {
    let check = |object: &ClusterVersion, target: &str, force: bool, expected: Option<(bool, &str)>| {
        let found = verdict(&unmet(Found::ClusterVersion(object), target), force);
        assert_eq!(found, expected.map(|(blocks, summary)| Verdict { blocks, summary: summary.to_owned() }));
    };
    let one = "Precondition \"ClusterVersionUpgradeable\" failed because of \"Why\": Because.";
    check(&cluster(json!({})), "4.18.6", true, None);
    check(&not_upgradeable(json!({})), "4.19.0", false, Some((true, one)));
    check(&not_upgradeable(json!({})), "4.19.0", true, Some((false, &format!("Forced through blocking failures: {one}"))));
    let several = "Multiple precondition checks failed:\n* Precondition \"ClusterVersionUpgradeable\" failed because of \"Why\": Because.\n\
                   * Precondition \"ClusterVersionRecommendedUpdate\" failed because of \"UnknownUpdate\": No RetrievedUpdates, so the recommended \
                   status of updating from 4.18.5 to 4.19.0 is unknown.";
    let object = not_upgradeable(json!({"availableUpdates": null}));
    check(&object, "4.19.0", false, Some((true, several)));
    check(&object, "4.19.0", true, Some((false, &format!("Forced through blocking failures: {several}"))));
    // A warning is one with and without force.
    let warning = "Precondition \"ClusterVersionRecommendedUpdate\" failed because of \"UnknownUpdate\": No RetrievedUpdates, so the recommended status of \
                   updating from 4.18.5 to 4.18.6 is unknown.";
    let object = cluster(json!({"availableUpdates": null}));
    check(&object, "4.18.6", false, Some((false, warning)));
    check(&object, "4.18.6", true, Some((false, warning)));
}
