//! The status of Subscriptions and InstallPlans, situation by situation.

use jiff::Timestamp;
use mainstay_olm_classic_core::install_plan::{self, Failure, Plan};
use mainstay_olm_classic_core::resolve::Deprecations;
use mainstay_olm_classic_core::subscription::{Facts, Resolution, VisibleCatalog, is_pending, observed, resolved};
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn catalog(name: &str, healthy: bool) -> VisibleCatalog {
    VisibleCatalog {
        name: name.to_owned(),
        namespace: "market".to_owned(),
        uid: format!("uid-{name}"),
        resource_version: "1".to_owned(),
        healthy,
    }
}

fn subscription(status: &Value) -> Value {
    json!({
        "metadata": {"name": "s", "namespace": "n", "annotations": {"olm.generated-by": "install-a"}},
        "spec": {"name": "p", "channel": "stable", "source": "one", "sourceNamespace": "market", "startingCSV": "p.v1"}, "status": status,
    })
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == *kind)
}

const NOTHING: Facts<'_> =
    Facts { catalogs: &[], install_plan: None, generated_by: None, current_csv_exists: false, fails_forward: false, deprecations: None };

/// OLM0-API-18, OLM0-CAT-02, OLM0-CAT-20: the health of the catalogs that a namespace sees, in upstream's reasons and words.
#[test]
fn health_of_catalogs() {
    let cases = [
        (vec![], "True", "NoCatalogSourcesFound", "dependency resolution requires at least one catalogsource"),
        (vec![catalog("two", true)], "True", "UnhealthyCatalogSourceFound", "targeted catalogsource market/one missing"),
        (vec![catalog("one", false)], "True", "UnhealthyCatalogSourceFound", "targeted catalogsource market/one unhealthy"),
        (
            vec![catalog("one", true), catalog("two", false)],
            "True",
            "UnhealthyCatalogSourceFound",
            "targeted catalogsource market/two unhealthy",
        ),
        (vec![catalog("one", true), catalog("two", true)], "False", "AllCatalogSourcesHealthy", "all available catalogsources are healthy"),
    ];
    for (catalogs, holds, reason, message) in cases {
        let status = observed(&subscription(&Value::Null), &Facts { catalogs: &catalogs, ..NOTHING }, now());
        let told = condition(&status, "CatalogSourcesUnhealthy").unwrap();
        assert_eq!((&told["status"], &told["reason"], &told["message"]), (&json!(holds), &json!(reason), &json!(message)));
        assert_eq!(status["catalogHealth"].as_array().map_or(0, Vec::len), catalogs.len());
        // Looked at again, nothing changes, also if the catalogs have other versions by then.
        let later: Vec<VisibleCatalog> =
            catalogs.iter().map(|catalog| VisibleCatalog { resource_version: "9".to_owned(), ..catalog.clone() }).collect();
        let again = observed(&subscription(&status), &Facts { catalogs: &later, ..NOTHING }, "2027-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(again, status);
    }
}

/// OLM0-IP-17, OLM0-IP-18, OLM0-ADMIN-43: what an InstallPlan's state means for its Subscription.
#[test]
fn states_of_install_plans() {
    let referring = |state: &str| json!({"state": state, "currentCSV": "p.v1", "installPlanRef": {"name": "install-a"}, "installplan": {"name": "install-a"}});
    let plan = |status: Value| json!({"metadata": {"name": "install-a", "namespace": "n", "uid": "1"}, "status": status});
    let of = |status: Value, plan: Option<&Value>| observed(&subscription(&status), &Facts { install_plan: plan, ..NOTHING }, now());
    for (phase, reason) in [
        ("", "InstallPlanNotYetReconciled"),
        ("Planning", "Planning"),
        ("Installing", "Installing"),
        ("RequiresApproval", "RequiresApproval"),
    ] {
        let status = of(referring("UpgradePending"), Some(&plan(json!({"phase": phase}))));
        assert_eq!(condition(&status, "InstallPlanPending").unwrap()["reason"], reason);
        assert!(is_pending(&status));
    }
    let failed = plan(
        json!({"phase": "Failed", "conditions": [{"type": "Installed", "status": "False", "reason": "InstallComponentFailed", "message": "no"}]}),
    );
    let status = of(referring("UpgradePending"), Some(&failed));
    let told = condition(&status, "InstallPlanFailed").unwrap();
    assert_eq!((&told["reason"], &told["message"]), (&json!("InstallComponentFailed"), &json!("no")));
    let done = of(status, Some(&plan(json!({"phase": "Complete"}))));
    assert!(condition(&done, "InstallPlanFailed").is_none() && condition(&done, "InstallPlanPending").is_none());
    // A pending plan that is gone is made again; one that was carried out is only missed.
    let gone = of(referring("UpgradePending"), None);
    assert!(gone["installPlanRef"].is_null() && gone["currentCSV"].is_null() && gone["state"].is_null());
    let missed = observed(&subscription(&referring("AtLatestKnown")), &Facts { current_csv_exists: true, ..NOTHING }, now());
    assert_eq!(condition(&missed, "InstallPlanMissing").unwrap()["reason"], "ReferencedInstallPlanNotFound");
    assert_eq!((&missed["state"], &missed["installedCSV"]), (&json!("AtLatestKnown"), &json!("p.v1")));
    // Messages of bundles that are being unpacked are joined.
    let pending = |message: &str| json!({"conditions": [{"type": "BundleLookupPending", "status": "True", "message": message}]});
    let unpacking = plan(json!({"phase": "Installing", "bundleLookups": [pending("a"), pending("b")]}));
    let status = of(referring("UpgradePending"), Some(&unpacking));
    assert_eq!(condition(&status, "InstallPlanPending").unwrap()["message"], "a. b.");
}

/// OLM0-RES-22, OLM0-UPG-16: a Subscription that a dependency brought takes over the plan that brought it; fail-forward names failures.
#[test]
fn generated_subscriptions() {
    let plan = |phase: &str| json!({"metadata": {"name": "install-a", "namespace": "n", "uid": "1", "resourceVersion": "7"}, "status": {"phase": phase}});
    let (running, failed) = (plan("Installing"), plan("Failed"));
    let status = observed(&subscription(&Value::Null), &Facts { generated_by: Some(&running), ..NOTHING }, now());
    assert_eq!((&status["currentCSV"], &status["state"]), (&json!("p.v1"), &json!("UpgradePending")));
    assert_eq!(status["installPlanRef"]["uid"], "1");
    let forward = Facts { generated_by: Some(&failed), install_plan: Some(&failed), fails_forward: true, ..NOTHING };
    assert_eq!(observed(&subscription(&Value::Null), &forward, now())["state"], "UpgradeFailed");
    let stays = Facts { fails_forward: false, ..forward };
    assert_eq!(observed(&subscription(&Value::Null), &stays, now())["state"], "UpgradePending");
}

/// OLM0-API-18, OLM0-ADMIN-43: deprecations come and go with the catalog, and the channel's only where the user chose it.
#[test]
fn deprecations() {
    let said = |text: &str| Some(text.to_owned());
    let all = Deprecations { package: said("p"), channel: said("c"), bundle: said("b") };
    let status = observed(&subscription(&Value::Null), &Facts { deprecations: Some(&all), ..NOTHING }, now());
    assert_eq!(condition(&status, "Deprecated").unwrap()["message"], "p; c; b");
    let some = Deprecations { package: said("p"), ..Deprecations::default() };
    let fewer = observed(&subscription(&status), &Facts { deprecations: Some(&some), ..NOTHING }, now());
    assert_eq!(condition(&fewer, "Deprecated").unwrap()["message"], "p");
    assert!(condition(&fewer, "ChannelDeprecated").is_none() && condition(&fewer, "BundleDeprecated").is_none());
    let none = observed(&subscription(&status), &Facts { deprecations: Some(&Deprecations::default()), ..NOTHING }, now());
    assert!(condition(&none, "Deprecated").is_none());
    let unlisted = observed(&subscription(&status), &NOTHING, now());
    assert!(condition(&unlisted, "Deprecated").is_some(), "a catalog that does not list the CSV says nothing");
    let mut free = subscription(&Value::Null);
    free["spec"]["channel"] = Value::Null;
    let status = observed(&free, &Facts { deprecations: Some(&all), ..NOTHING }, now());
    assert!(condition(&status, "ChannelDeprecated").is_none());
}

/// OLM0-RES-24, OLM0-RES-25, OLM0-CAT-32: what a resolution leaves in the status.
#[test]
fn resolutions() {
    let failed = resolved(&subscription(&Value::Null), &Resolution::Failed { unsatisfiable: true, message: "no" }, now());
    assert_eq!(condition(&failed, "ResolutionFailed").unwrap()["reason"], "ConstraintsNotSatisfiable");
    let prevented = resolved(&subscription(&failed), &Resolution::Failed { unsatisfiable: false, message: "no" }, now());
    assert_eq!(condition(&prevented, "ResolutionFailed").unwrap()["reason"], "ErrorPreventedResolution");
    let unpacking = resolved(&subscription(&failed), &Resolution::Unpacking { message: "" }, now());
    assert!(condition(&unpacking, "ResolutionFailed").is_none() && condition(&unpacking, "BundleUnpacking").is_some());
    let given_up = resolved(&subscription(&unpacking), &Resolution::UnpackFailed { reason: "BundleUnpackFailed", message: "no" }, now());
    assert!(condition(&given_up, "BundleUnpacking").is_none() && condition(&given_up, "BundleUnpackFailed").is_some());
    let plan = json!({"metadata": {"name": "install-a", "namespace": "n", "uid": "1"}});
    let planned = resolved(&subscription(&given_up), &Resolution::Planned { plan: &plan, generation: 3, csv: "p.v2" }, now());
    assert_eq!((&planned["currentCSV"], &planned["installPlanGeneration"]), (&json!("p.v2"), &json!(3)));
    assert!(planned["conditions"].is_null(), "{planned}");
    assert!(is_pending(&planned));
}

/// OLM0-IP-03, OLM0-IP-08, OLM0-IP-09: what is done with a plan next.
#[test]
fn plans_of_install_plans() {
    let step = json!({"resolving": "a", "resource": {"kind": "ConfigMap", "name": "a"}, "status": "Unknown"});
    let object = |phase: &str, approved: bool| json!({"spec": {"approved": approved}, "status": {"phase": phase, "plan": [step]}});
    let group = |spec: Value, status: Value| json!({"metadata": {"name": "g", "namespace": "n"}, "spec": spec, "status": status});
    let plain = [group(json!({}), json!({"namespaces": [""]}))];
    let next = |object: &Value, groups: &[Value]| install_plan::plan(object, groups, now());
    assert_eq!(next(&json!({"status": {}}), &plain), Plan::Wait, "a plan without content waits for it");
    assert_eq!(next(&object("Complete", true), &plain), Plan::Wait);
    assert_eq!(next(&object("RequiresApproval", false), &plain), Plan::Wait);
    for (phase, approved) in [("RequiresApproval", true), ("Installing", true)] {
        let Plan::Execute(status) = next(&object(phase, approved), &plain) else { panic!("{phase} is executed") };
        assert_eq!((&status["phase"], &status["startTime"]), (&json!("Installing"), &json!("2026-01-01T00:00:00Z")));
    }
    let account = json!({"kind": "ServiceAccount", "name": "sa", "namespace": "n"});
    let cases = [
        (vec![], "no operator group found that is managing this namespace"),
        (vec![group(json!({}), json!({}))], "no operator group found that is managing this namespace"),
        (vec![plain[0].clone(), plain[0].clone()], "more than one operator group(s) are managing this namespace count=2"),
        (
            vec![group(json!({"serviceAccountName": "sa"}), json!({"namespaces": [""]}))],
            "please make sure the service account exists. sa=sa operatorgroup=n/g",
        ),
    ];
    let mut told = Value::Null;
    for (groups, message) in cases {
        let Plan::Report { status, again: true } = next(&object("Installing", true), &groups) else { panic!("{message} is reported") };
        let installed = condition(&status, "Installed").unwrap();
        assert_eq!((&installed["status"], &installed["reason"]), (&json!("False"), &json!("InstallCheckFailed")));
        assert_eq!(installed["message"], format!("attenuated service account query failed - {message}"));
        let again =
            install_plan::plan(&json!({"spec": {"approved": true}, "status": status}), &groups, now() + jiff::SignedDuration::from_mins(1));
        assert_eq!(again, Plan::Report { status: status.clone(), again: true }, "what was told is not told anew");
        told = status;
    }
    let scoped = [group(json!({"serviceAccountName": "sa"}), json!({"namespaces": [""], "serviceAccountRef": account}))];
    let mended = json!({"spec": {"approved": true}, "status": told});
    let Plan::Execute(status) = next(&mended, &scoped) else { panic!("it goes on when the account is there") };
    assert_eq!(status["attenuatedServiceAccountRef"], account);
    assert!(condition(&status, "Installed").is_none());
}

/// OLM0-IP-10, OLM0-IP-11: a failing plan is tried again for a while, then it has failed; an account's plan begins again.
#[test]
fn executions() {
    let status = json!({"phase": "Installing", "startTime": "2025-12-31T23:59:30Z", "plan": [{"status": "Created"}]});
    let minute = std::time::Duration::from_secs(60);
    let failure = |terminal| Failure { message: "error creating role a: no".to_owned(), terminal };
    let again = install_plan::executed(status.clone(), Some(&failure(false)), minute, now());
    assert_eq!(
        (&again["phase"], &again["message"]),
        (&json!("Installing"), &json!("retrying execution due to error: error creating role a: no"))
    );
    assert_eq!(condition(&again, "Installed").unwrap()["reason"], "InstallComponentFailed");
    let over = install_plan::executed(again, Some(&failure(false)), std::time::Duration::from_secs(30), now());
    assert_eq!((&over["phase"], &over["message"]), (&json!("Failed"), &json!("error creating role a: no")));
    assert_eq!(install_plan::executed(status.clone(), Some(&failure(true)), minute, now())["phase"], "Failed");
    let done = install_plan::executed(status, None, minute, now());
    assert_eq!((&done["phase"], &condition(&done, "Installed").unwrap()["status"]), (&json!("Complete"), &json!("True")));
    let waiting = json!({"phase": "Installing", "plan": [{"status": "Created"}, {"status": "WaitingForApi"}]});
    assert_eq!(install_plan::executed(waiting, None, minute, now())["phase"], "Installing");
    let mut scoped = json!({"status": over});
    assert_eq!(install_plan::retried(&scoped, now()), None);
    scoped["status"]["attenuatedServiceAccountRef"] = json!({"name": "sa"});
    assert_eq!(install_plan::retried(&scoped, now()).unwrap()["phase"], "Installing");
}

/// OLM0-IP-16: which plans are forgotten.
#[test]
fn retention() {
    let plan = |name: &str, generation: i64, created: &str| json!({"metadata": {"name": name, "creationTimestamp": created}, "spec": {"generation": generation}});
    let five: Vec<Value> = (1..=5).map(|generation| plan("a", generation, "2026")).collect();
    assert!(install_plan::collect(&five).is_empty());
    let mut plans = vec![plan("new", 1, "2026-01-02"), plan("b", 1, "2026-01-01"), plan("a", 1, "2026-01-01")];
    plans.extend((2..=5).map(|generation| plan("later", generation, "2026-01-01")));
    assert_eq!(install_plan::collect(&plans), ["a", "b"]);
    let many: Vec<Value> = (1..=30).map(|generation| plan("m", generation, "2026")).collect();
    assert_eq!(install_plan::collect(&many).len(), 5, "a sweep has a limit");
}
