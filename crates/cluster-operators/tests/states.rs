//! The state machine of a played operator.

use std::time::Duration;

use jiff::Timestamp;
use mainstay_cluster_operators::player::{Reporter, Script, next_status, reporter};
use proptest::prelude::*;
use serde_json::{Value, json};

fn manifest(version: &str) -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "dns"},
        "status": {
            "versions": [{"name": "operator", "version": version}, {"name": "coredns", "version": version}],
            "relatedObjects": [{"group": "", "resource": "namespaces", "name": "openshift-dns"}],
        },
    })
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

/// Available, Progressing, Degraded and Upgradeable, as letters; and the version.
fn shown(status: &Value) -> String {
    let state = |kind: &str| {
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|each| each["type"] == kind).and_then(|each| each["status"].as_str().map(str::to_owned));
        found.map_or("-".to_owned(), |status| status[..1].to_owned())
    };
    let version = status["versions"][0]["version"].as_str().unwrap_or("none");
    format!("{}{}{}{} {version}", state("Available"), state("Progressing"), state("Degraded"), state("Upgradeable"))
}

/// Plays from `begun` until nothing more is to come, or for `steps` states.
fn play(script: &str, live: &mut Value, expected: &Value, steps: usize) -> Vec<String> {
    let (play, mut now, mut shows) = (Script::read(script).unwrap().play("dns"), 0, Vec::new());
    for _ in 0..steps {
        let next = next_status(live, expected, &play, at(0), at(now));
        shows.push(format!("{now}ms {}", shown(&next.status)));
        live["status"] = next.status;
        let Some(wait) = next.wait else { break };
        now += i64::try_from(wait.as_millis()).unwrap();
    }
    shows
}

/// COP-G-09, CVO-CO-04: the states of an installation and of an update, without and with what the script lets go wrong.
#[test]
fn states() {
    for (script, installs, updates) in [
        (
            "defaults: {duration: 2s}",
            vec!["0ms FTFT none", "2000ms TTFT 1.0.0", "2000ms TFFT 1.0.0"],
            vec!["0ms TTFT 1.0.0", "2000ms TTFT 1.1.0", "2000ms TFFT 1.1.0"],
        ),
        (
            "defaults: {duration: 0s}",
            vec!["0ms FTFT none", "0ms TTFT 1.0.0", "0ms TFFT 1.0.0"],
            vec!["0ms TTFT 1.0.0", "0ms TTFT 1.1.0", "0ms TFFT 1.1.0"],
        ),
        (
            "{acceleration: 2, defaults: {duration: 2s, degradedFor: 6s, unavailableFor: 1s, upgradeable: {reason: R, message: m}}}",
            vec!["0ms FTTF none", "500ms FTTF none", "3000ms TTFF 1.0.0", "3000ms TFFF 1.0.0"],
            vec!["0ms FTTF 1.0.0", "500ms TTTF 1.0.0", "3000ms TTFF 1.1.0", "3000ms TFFF 1.1.0"],
        ),
        (
            "operators: {dns: {neverFinishes: true, duration: 1s, degradedFor: 2s}}",
            vec!["0ms FTTT none", "2000ms FTFT none"],
            vec!["0ms FTTT none", "2000ms FTFT none"],
        ),
    ] {
        let mut live = json!({"metadata": {"name": "dns"}, "spec": {}});
        assert_eq!(play(script, &mut live, &manifest("1.0.0"), 10), installs, "{script}");
        assert_eq!(play(script, &mut live, &manifest("1.1.0"), 10), updates, "{script}");
        let text = live.to_string();
        assert!(text.contains("simulated: no operand is running"), "COP-G-10: {text}");
        assert_eq!(live["status"]["relatedObjects"], manifest("")["status"]["relatedObjects"]);
    }
}

/// COP-G-09: a steady operator stays as it is; a condition's time moves with its status; what others report beside stays.
#[test]
fn steady() {
    let play = Script::read("defaults: {duration: 1s}").unwrap().play("dns");
    let mut live = json!({"metadata": {"name": "dns"}, "status": {
        "conditions": [{"type": "Other", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}], "extension": {"a": 1},
    }});
    for now in [0, 1_000, 1_000, 5_000] {
        live["status"] = next_status(&live, &manifest("1.0.0"), &play, at(0), at(now)).status;
    }
    let steady = next_status(&live, &manifest("1.0.0"), &play, at(0), at(90_000));
    assert_eq!((&steady.status, steady.wait), (&live["status"], None));
    assert_eq!(live["status"]["extension"], json!({"a": 1}));
    let of = |kind: &str| live["status"]["conditions"].as_array().unwrap().iter().find(|each| each["type"] == kind).unwrap().clone();
    assert_eq!(of("Available")["lastTransitionTime"], "1970-01-01T00:00:01Z");
    assert_eq!(of("Degraded")["lastTransitionTime"], "1970-01-01T00:00:00Z");
    assert_eq!(of("Other")["lastTransitionTime"], "2020-01-01T00:00:00Z");
}

/// COP-G-10: what another part or program reports is not played.
#[test]
fn whose() {
    let reported = json!({"status": {"conditions": [{"type": "Available", "status": "True"}]}});
    assert_eq!(reporter(&reported), Reporter::Other);
    assert_eq!(reporter(&json!({})), Reporter::Player);
    assert_eq!(reporter(&json!({"status": {"relatedObjects": []}})), Reporter::Player);
    let mut marked = reported;
    marked["metadata"] = json!({"annotations": {"mainstay.dev/simulated": "true"}});
    assert_eq!(reporter(&marked), Reporter::Player);
    let fields = |manager: &str, field: &str| json!({"manager": manager, "subresource": "status", "fieldsV1": {"f:status": {field: {}}}});
    marked["metadata"]["managedFields"] =
        json!([fields("status-player", "f:conditions"), fields("cluster-version-operator", "f:relatedObjects")]);
    assert_eq!(reporter(&marked), Reporter::Player);
    marked["metadata"]["managedFields"] = json!([fields("status-player", "f:conditions"), fields("dns-operator", "f:conditions")]);
    assert_eq!(reporter(&marked), Reporter::Other);
}

proptest! {
    /// COP-G-08, COP-G-09: whenever it is looked at, the three conditions are never all false or absent; the version comes only while
    /// Progressing is true and with Available; and a play that finishes does so at the end of its longest duration.
    #[test]
    fn any_time(
        duration in 0_u64..5_000, degraded in 0_u64..5_000, unavailable in 0_u64..5_000, never: bool, install: bool,
        looks in prop::collection::vec(0_i64..2_000, 1..40),
    ) {
        let script = format!(
            "defaults: {{duration: {duration}ms, degradedFor: {degraded}ms, unavailableFor: {unavailable}ms, neverFinishes: {never}}}"
        );
        let play = Script::read(&script).unwrap().play("dns");
        let mut live = json!({});
        if !install {
            live["status"] = json!({"versions": manifest("1.0.0")["status"]["versions"]});
        }
        let (expected, mut now) = (manifest("1.1.0"), 0);
        let lasts = i64::try_from(duration.max(degraded).max(unavailable)).unwrap();
        for look in looks {
            let next = next_status(&live, &expected, &play, at(0), at(now));
            let (before, after) = (shown(&live["status"]), shown(&next.status));
            prop_assert!(!after.starts_with("FFF"), "{after}");
            if after.ends_with("1.1.0") && !before.ends_with("1.1.0") {
                prop_assert!(now >= lasts && !never && after.starts_with("TTF"), "{now}: {after}");
            }
            prop_assert_eq!(next.wait.is_none(), after.starts_with("TFF") || (never && now >= i64::try_from(degraded.max(unavailable)).unwrap()));
            live["status"] = next.status;
            now += look;
        }
        let mut shows = live;
        for _ in 0..4 {
            shows["status"] = next_status(&shows, &expected, &play, at(0), at(now + 10_000)).status;
        }
        prop_assert_eq!(shown(&shows["status"]).starts_with("TFF"), !never);
        prop_assert!(play.duration <= Duration::from_millis(duration));
    }
}
