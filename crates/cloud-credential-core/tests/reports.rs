//! The report and the metrics.

use mainstay_cloud_credential_core::report::{Facts, GRACE, measure, report};
use mainstay_cloud_credential_core::{Settings, alerts};
use serde_json::{Value, json};

use crate::plans::settings;

const NOW: &str = "2026-03-01T12:00:00Z";

fn request(namespace: &str, kind: &str, status: Value) -> Value {
    json!({"metadata": {"name": "r", "namespace": namespace, "generation": 1}, "spec": {"providerSpec": {"kind": kind}}, "status": status})
}

fn failing(condition: &str, since: &str) -> Value {
    json!({"provisioned": false, "lastSyncGeneration": 1, "conditions": [
        {"type": condition, "status": "True", "lastTransitionTime": since},
    ]})
}

fn facts<'a>(settings: &'a Settings, requests: &'a [Value], version: Option<&'a Value>) -> Facts<'a> {
    Facts { settings: Ok(settings), requests, has_root: true, version, release: "1", now: NOW.parse().unwrap() }
}

/// COP-CRED-05: requests of the operator's namespace and of the platform count; a failure counts after its time of grace.
#[test]
fn requests_are_counted() {
    let own = "openshift-cloud-credential-operator";
    let done = json!({"provisioned": true, "lastSyncGeneration": 1});
    let requests = [
        request(own, "AWSProviderSpec", done.clone()),
        request(own, "AWSProviderSpec", failing("CredentialsProvisionFailure", "2026-03-01T11:54:00Z")),
        request(own, "AWSProviderSpec", failing("MissingTargetNamespace", "2026-03-01T11:59:00Z")),
        request(own, "GCPProviderSpec", json!({})),
        request("other", "AWSProviderSpec", failing("InsufficientCloudCreds", "2026-03-01T10:00:00Z")),
    ];
    let aws = settings("Mint", "", "AWS");
    let (told, again) = report(&facts(&aws, &requests, None));
    let degraded = told.degraded.unwrap();
    assert_eq!(
        (degraded.reason.as_str(), degraded.message.as_str()),
        ("CredentialsFailing", "1 of 3 credentials requests are failing to sync.")
    );
    let progressing = told.progressing.unwrap();
    assert_eq!(progressing.reason, "Reconciling");
    assert_eq!(progressing.message, "1 of 3 credentials requests provisioned, 1 reporting errors.");
    assert!(again.is_some_and(|again| again >= GRACE), "the second failure counts later");
    let (told, again) = report(&facts(&aws, &requests[..1], None));
    assert_eq!((told.degraded, told.progressing, told.unavailable, again), (None, None, None, None));
    let (told, _) = report(&facts(&settings("Manual", "i", "AWS"), &requests, None));
    assert_eq!((told.degraded, told.progressing), (None, None), "in Manual only Upgradeable is computed");
}

/// COP-CRED-05: updates to a minor version are held back where somebody has to prepare them.
#[test]
fn upgrades() {
    let version = json!({"status": {"history": [{"state": "Partial", "version": "4.20.0"}, {"state": "Completed", "version": "4.19.3"}]}});
    let mut manual = settings("Manual", "i", "AWS");
    let reason = |settings: &Settings, has_root: bool, version: Option<&Value>| {
        let facts = Facts { has_root, ..facts(settings, &[], version) };
        report(&facts).0.not_upgradeable.map(|problem| (problem.reason, problem.message))
    };
    let (found, message) = reason(&manual, true, Some(&version)).unwrap();
    assert_eq!(found, "MissingUpgradeableAnnotation");
    assert!(message.starts_with(
        "Upgradeable annotation cloudcredential.openshift.io/upgradeable-to on cloudcredential.operator.openshift.io/cluster object needs"
    ));
    for (annotation, holds) in [("4.19", true), ("v4.20", false), ("4.20.1", false), ("5.0", false), ("nonsense", true), ("4.9", true)] {
        manual.upgradeable_to = Some(annotation.into());
        assert_eq!(reason(&manual, true, Some(&version)).is_some(), holds, "{annotation}");
    }
    assert_eq!(reason(&manual, true, None), None, "without ClusterVersion there are no such updates");
    let mint = settings("Mint", "", "AWS");
    assert_eq!(reason(&mint, true, Some(&version)), None);
    let missing = (
        "MissingRootCredential".to_owned(),
        "Parent credentials secret must be restored prior to upgrade: kube-system/aws-creds".to_owned(),
    );
    assert_eq!(reason(&mint, false, Some(&version)), Some(missing));
}

/// COP-CRED-07: metrics by cloud, condition and mode, and an alert for each failure.
#[test]
fn metrics_and_alerts() {
    let requests = [
        request("a", "AWSProviderSpec", failing("CredentialsProvisionFailure", NOW)),
        request("b", "AWSProviderSpec", failing("StaleCredentials", NOW)),
        request("c", "Odd", json!({})),
    ];
    let mint = settings("Mint", "", "AWS");
    let measured = measure(&facts(&mint, &requests, None), None);
    assert_eq!((measured.clouds["aws"], measured.clouds["unknown"], measured.mode), (2, 1, "mint"));
    assert_eq!((measured.conditions["CredentialsProvisionFailure"], measured.conditions["StaleCredentials"]), (1, 0));
    let measured = measure(&facts(&settings("Manual", "i", "AWS"), &requests, None), None);
    assert_eq!(
        (measured.conditions["CredentialsProvisionFailure"], measured.conditions["StaleCredentials"], measured.mode),
        (0, 1, "manualpodidentity")
    );
    let rule = alerts::rule();
    let rules = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
    let Some(payload) = mainstay_testing::data::archive("payload.tar.gz") else { return };
    let (_, theirs) = payload.iter().find(|(path, _)| path.ends_with("_cloud-credential-operator_03_alertrules.yaml")).unwrap();
    let theirs = mainstay_yaml::parse(std::str::from_utf8(theirs).unwrap()).unwrap();
    let part = |rules: &[Value]| -> Vec<(String, String, Value, Value)> {
        let word = |rule: &Value, field: &str| rule[field].as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        rules.iter().map(|rule| (word(rule, "alert"), word(rule, "expr"), rule["for"].clone(), rule["labels"].clone())).collect()
    };
    assert_eq!(part(rules), part(theirs["spec"]["groups"][0]["rules"].as_array().unwrap()));
}
