//! What the cluster operator decides, as tables; and that it does so on the real API with its own permissions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::Extensions;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::GroupVersionKind;
use mainstay_api::condition::{Condition, Status};
use mainstay_apiserver::TrustedIdentity;
use mainstay_bundle::Bundle;
use mainstay_lifecycle::revision::{InstalledBundle, Notes, Record, Revision, State};
use mainstay_objects::{ObjectRef, Patch};
use mainstay_olm_v1::cluster_operator::{ACCOUNT, Config, NAMESPACE, manifests, run};
use mainstay_olm_v1::manifests::{CATALOGD, COMBINED, OPERATOR_CONTROLLER};
use mainstay_olm_v1_core::cluster_operator::catalogs::{self, openshift};
use mainstay_olm_v1_core::cluster_operator::compat::{self, Blocked, Deployed, Platform, aggregate, blocks, judge, max_version};
use mainstay_olm_v1_core::cluster_operator::deployments::{self, COPIED};
use mainstay_olm_v1_core::cluster_operator::gates::{Component, argument, enabled};
use mainstay_olm_v1_core::extension::record::secrets;
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{self, Api, SYSTEM, condition, extension_object, place};

const AT: Platform = Platform { major: 4, minor: 19 };

fn properties(value: &str) -> String {
    format!(r#"[{{"type": "other", "value": {{"a": 1}}}}, {{"type": "olm.maxOpenShiftVersion", "value": {value}}}]"#)
}

/// OLM1-COMPAT-01, OLM1-COMPAT-03: text or number, taken literally; anything else, or several, is an error; absent is no limit.
#[test]
fn the_newest_version_that_a_bundle_supports() {
    let read = |value: &str| max_version(Some(&properties(value))).map(|max| max.map(|max| max.to_string()));
    for (value, expected) in [("\"4.19\"", "4.19"), ("4.19", "4.19"), ("4.10", "4.10"), ("\"4.0\"", "4.0"), ("10.2", "10.2")] {
        assert_eq!(read(value), Ok(Some(expected.to_owned())), "{value}");
    }
    let wrong = [
        "\"v4.19\"",
        "\"4\"",
        "4",
        "\"4.19.1\"",
        "\"4.\"",
        "\".4\"",
        "\"\"",
        "\"4.x\"",
        "-4.1",
        "4.1e1",
        "\"04.1\"",
        "null",
        "true",
        "{}",
        "\" 4.1\"",
        "\"4.99999999999999999999\"",
    ];
    for value in wrong {
        let error = read(value).unwrap_err().to_string();
        assert_eq!(error, format!("invalid \"olm.maxOpenShiftVersion\" property {value}: expected <major>.<minor>, as text or number"));
    }
    assert_eq!(max_version(None), Ok(None));
    assert_eq!(max_version(Some("[]")), Ok(None));
    assert_eq!(max_version(Some("null")), Ok(None));
    let two = r#"[{"type": "olm.maxOpenShiftVersion", "value": "4.19"}, {"type": "olm.maxOpenShiftVersion", "value": "4.19"}]"#;
    let error = max_version(Some(two)).unwrap_err().to_string();
    assert_eq!(error, "defining more than one \"olm.maxOpenShiftVersion\" property is not allowed, there are 2");
    assert!(max_version(Some("{}")).unwrap_err().to_string().starts_with("failed to read the annotation olm.properties: "));
}

/// OLM1-COMPAT-01: what a bundle declares in its CSV's annotation or in `metadata/properties.yaml` is what its record says later.
#[test]
fn a_bundle_declares_it_in_either_place() {
    let read = |annotation: &str, more: &[(&str, &str)]| {
        let csv = format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: p.v1.0.0\n  annotations: {{{annotation}}}\n\
             spec:\n  version: 1.0.0\n  install: {{strategy: deployment, spec: {{}}}}\n"
        );
        let annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: p\n";
        let files = [("manifests/csv.yaml", csv.as_str()), ("metadata/annotations.yaml", annotations)];
        let bundle = Bundle::read(files.into_iter().chain(more.iter().copied())).unwrap();
        max_version(bundle.csv.annotations.get(compat::ANNOTATION).map(String::as_str))
    };
    let annotation = r#"olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": 4.10}]'"#;
    let file = [("metadata/properties.yaml", "properties:\n- type: olm.maxOpenShiftVersion\n  value: \"4.19\"\n")];
    assert_eq!(read("", &[]), Ok(None));
    assert_eq!(read(annotation, &[]), Ok(Some(Platform { major: 4, minor: 10 })));
    assert_eq!(read("", &file), Ok(Some(AT)));
    assert_eq!(read(annotation, &file), Err(compat::CompatError::Several { count: 2 }));
}

/// OLM1-COMPAT-02, OLM1-COMPAT-06: only the next minor version counts; what to do is said.
#[test]
fn what_blocks_the_next_version() {
    for (max, blocked) in
        [("\"4.18\"", true), ("\"4.19\"", true), ("\"4.20\"", false), ("4.2", true), ("\"5.0\"", false), ("\"3.99\"", true)]
    {
        assert_eq!(blocks(Some(&properties(max)), AT).unwrap().is_some(), blocked, "{max}");
    }
    for version in ["4.19.0", "4.19.0-rc1", "4.19.23+build"] {
        assert_eq!(Platform::parse(version).map(|platform| (platform, platform.next().to_string())), Ok((AT, "4.20".to_owned())));
    }
    let Some(found) = blocks(Some(&properties("\"4.19\"")), AT).unwrap() else { panic!("4.19 blocks 4.20") };
    assert_eq!(found, Blocked { max: AT, next: Platform { major: 4, minor: 20 } });
    assert_eq!(found.to_string(), "the bundle supports platform versions up to 4.19, so updating the platform to 4.20 is blocked");
    let remedy = "update the extension to a version that has a valid path and supports 4.20, or remove it; then retry the platform update";
    assert_eq!(found.remedy(), remedy);
    let version = |status: Value| Platform::of(&json!({"status": status}));
    let history = json!({"history": [{"state": "Partial", "version": "4.20.1"}, {"state": "Completed", "version": "4.19.3"}], "desired": {"version": "4.20.1"}});
    assert_eq!(version(history), Ok(Some(AT)), "an update that is under way is not reached");
    assert_eq!(version(json!({"desired": {"version": "4.19.0-rc1"}})), Ok(Some(AT)));
    assert_eq!(version(json!({})), Ok(None));
}

fn deployed(extension: &str, max: Option<&str>) -> Deployed {
    Deployed { extension: extension.to_owned(), bundle: Ok((format!("{extension}.v1"), max.map(properties))) }
}

/// OLM1-COMPAT-04, OLM1-COMPAT-06: the condition's exact words, sorted; unreadable data is told by itself and beside.
#[test]
fn the_condition() {
    let told = |deployed: &[Deployed]| judge(deployed, AT).map(|problem| (problem.reason, problem.message));
    assert_eq!(told(&[deployed("open", Some("\"4.20\"")), deployed("silent", None)]), None);
    let old = [deployed("zebra", Some("\"4.19\"")), deployed("ant", Some("4.18"))];
    let found = "Found ClusterExtensions that require upgrades prior to upgrading cluster to version 4.20: \
                 bundle \"ant.v1\" for ClusterExtension \"ant\",bundle \"zebra.v1\" for ClusterExtension \"zebra\"";
    assert_eq!(told(&old), Some(("IncompatibleOperatorsInstalled".to_owned(), found.to_owned())));
    let odd = deployed("odd", Some("\"four\""));
    let words = "ClusterExtension \"odd\": bundle \"odd.v1\": invalid \"olm.maxOpenShiftVersion\" property \"four\": \
                 expected <major>.<minor>, as text or number";
    assert_eq!(told(std::slice::from_ref(&odd)), Some(("FailureGettingExtensionMetadata".to_owned(), words.to_owned())));
    let [zebra, ant] = old;
    let both = format!("{found}\nAdditionally the following errors were encountered while getting extension metadata: {words}");
    assert_eq!(told(&[zebra, odd, ant]), Some(("IncompatibleOperatorsInstalled".to_owned(), both)));
    let lost = Deployed { extension: "lost".to_owned(), bundle: Err("install record x: no data".into()) };
    assert_eq!(told(&[lost]).unwrap().1, "ClusterExtension \"lost\": install record x: no data");
    let fine = compat::condition(None, Timestamp::UNIX_EPOCH);
    assert_eq!((fine.kind.as_str(), fine.status, fine.reason.as_str()), ("InstalledOLMOperatorsUpgradeable", Status::True, "AsExpected"));
}

/// OLM1-COMPAT-05: every condition of that name's end counts; the reason and each line say whose they are.
#[test]
fn conditions_count_together() {
    let made = |kind: &str, status, reason: &str, message: &str| Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..compat::condition(None, Timestamp::UNIX_EPOCH)
    };
    let fine = made("OtherUpgradeable", Status::True, "AsExpected", "");
    let degraded = made("SomeDegraded", Status::False, "Not", "does not count");
    assert_eq!(aggregate(&[fine.clone(), degraded.clone()]), None);
    let ours = made(compat::CONDITION, Status::False, "IncompatibleOperatorsInstalled", "one\ntwo");
    let told = aggregate(&[fine, degraded, ours.clone()]).unwrap();
    assert_eq!(told.reason, "InstalledOLMOperators_IncompatibleOperatorsInstalled");
    assert_eq!(told.message, "InstalledOLMOperatorsUpgradeable: one\nInstalledOLMOperatorsUpgradeable: two");
    let unknown = made("StaticUpgradeable", Status::Unknown, "Unread", "three");
    let told = aggregate(&[unknown, ours]).unwrap();
    assert_eq!(told.reason, "InstalledOLMOperators_IncompatibleOperatorsInstalled::Static_Unread");
    assert!(told.message.ends_with("\nStaticUpgradeable: three"), "{}", told.message);
}

/// OLM1-CAT-10, OLM1-CAT-12: the four rows, their tags after the platform's minor version.
#[test]
fn the_default_catalogs() {
    let rows = |platform: Platform| {
        let row = |object: Value| {
            let image = &object["spec"]["source"]["image"];
            assert_eq!(image["pollIntervalMinutes"], 10);
            format!("{} {} {}", object["metadata"]["name"], object["spec"]["priority"], image["ref"]).replace('"', "")
        };
        openshift().iter().map(|catalog| row(catalog.object(platform))).collect::<Vec<_>>()
    };
    let expected = [
        "openshift-redhat-operators -100 registry.redhat.io/redhat/redhat-operator-index:v4.19",
        "openshift-certified-operators -200 registry.redhat.io/redhat/certified-operator-index:v4.19",
        "openshift-redhat-marketplace -300 registry.redhat.io/redhat/redhat-marketplace-index:v4.19",
        "openshift-community-operators -400 registry.redhat.io/redhat/community-operator-index:v4.19",
    ];
    assert_eq!(rows(AT), expected);
    assert_eq!(rows(AT.next()), expected.map(|row| row.replace("v4.19", "v4.20")));
    assert!(catalogs::description("openshift-community-operators").unwrap().contains("no official support"));
    assert_eq!(catalogs::description("mine"), None);
}

/// OLM1-CAT-11, OLM1-CAT-12: put right are missing ones and listed fields, also when the platform has moved; everything else is the
/// user's; nothing is done where OLM is not managed.
#[test]
fn default_catalogs_are_put_right() {
    let managed = json!({"spec": {"managementState": "Managed"}});
    let live: Vec<Value> = openshift().iter().map(|catalog| catalog.object(AT)).collect();
    let names = |olm: &Value, platform, live: &[Value]| {
        let planned = catalogs::plan(&openshift(), platform, olm, live);
        planned.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&managed, AT, &live), Vec::<String>::new());
    assert_eq!(names(&managed, AT.next(), &live).len(), 4);
    assert_eq!(names(&managed, AT, &live[1..]), ["openshift-redhat-operators"]);
    let mut users = live.clone();
    users[0]["spec"]["availabilityMode"] = json!("Unavailable");
    users[1]["metadata"]["labels"] = json!({"team": "a"});
    assert_eq!(names(&managed, AT, &users), Vec::<String>::new());
    users[2]["spec"]["priority"] = json!(7);
    users[3]["spec"]["source"]["image"]["pollIntervalMinutes"] = json!(1);
    assert_eq!(names(&managed, AT, &users), ["openshift-redhat-marketplace", "openshift-community-operators"]);
    for state in ["Unmanaged", "Removed", ""] {
        assert_eq!(names(&json!({"spec": {"managementState": state}}), AT, &[]), Vec::<String>::new());
    }
    assert_eq!(names(&json!({}), AT, &[]), Vec::<String>::new());
    assert!(catalogs::plan(&[], AT, &managed, &[]).is_empty(), "a distribution may have none");
}

/// OLM1-GEN-08: OpenShift's gates come to one argument a controller, in order; cert-manager is always off there. The controllers
/// understand it, and so does the process that is both.
#[test]
fn gates_come_to_one_argument() {
    let gate = json!({"status": {"featureGates": [
        {"version": "4.20.0", "enabled": [{"name": "NewOLMCatalogdAPIV1Metas"}]},
        {"version": "4.19.0", "enabled": [{"name": "NewOLMOwnSingleNamespace"}, {"name": "NewOLMPreflightPermissionChecks"},
            {"name": "NewOLMWebhookProviderOpenshiftServiceCA"}, {"name": "NewOLM"}], "disabled": [{"name": "NewOLMCatalogdAPIV1Metas"}]},
    ]}});
    let all = enabled(&gate, Some("4.19.0"));
    let expected = "--feature-gates=PreflightPermissions=true,SingleOwnNamespaceInstallSupport=true,WebhookProviderCertManager=false,\
                    WebhookProviderOpenshiftServiceCA=true";
    assert_eq!(argument(Component::OperatorController, &all).as_deref(), Some(expected));
    assert_eq!(argument(Component::Catalogd, &all), None);
    let next = enabled(&gate, Some("4.20.0"));
    assert_eq!(argument(Component::Catalogd, &next).as_deref(), Some("--feature-gates=APIV1MetasHandler=true"));
    let none = "--feature-gates=WebhookProviderCertManager=false,WebhookProviderOpenshiftServiceCA=false";
    assert_eq!(argument(Component::OperatorController, &next).as_deref(), Some(none));
    let both = "--feature-gates=APIV1MetasHandler=true,WebhookProviderCertManager=false,WebhookProviderOpenshiftServiceCA=false";
    assert_eq!(argument(Component::Both, &next).as_deref(), Some(both));
    for (component, enabled) in [(Component::OperatorController, all), (Component::Catalogd, next.clone()), (Component::Both, next)] {
        let argument = argument(component, &enabled).unwrap();
        FeatureGates::parse(Profile::Run, argument.strip_prefix("--feature-gates=").unwrap()).unwrap();
    }
}

/// OLM1-GEN-06: the proxy's values go into every container, follow the proxy, and never over a variable that somebody else set.
#[test]
fn the_proxy_is_copied() {
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {
        "initContainers": [{"name": "init"}], "containers": [{"name": "manager", "env": [{"name": "OTHER", "value": "x"}], "args": ["--leader-elect"]}],
    }}}});
    let plan = |live: &Value, proxy: Value| deployments::plan(live, Component::Catalogd, Some(&proxy), None);
    let copied = plan(&deployment, json!({"httpProxy": "http://p:1", "noProxy": ".svc", "trustedCA": {"name": ""}})).unwrap().unwrap();
    let pod = &copied["spec"]["template"]["spec"];
    let expected = json!([{"name": "HTTP_PROXY", "value": "http://p:1"}, {"name": "NO_PROXY", "value": ".svc"}]);
    assert_eq!(pod["initContainers"][0]["env"], expected);
    assert_eq!(pod["containers"][0]["env"][0], json!({"name": "OTHER", "value": "x"}));
    assert_eq!(copied["metadata"]["annotations"][COPIED], "HTTP_PROXY,NO_PROXY");
    assert_eq!(deployments::told(&deployment, &copied), "the cluster's proxy was copied into HTTP_PROXY,NO_PROXY");
    assert_eq!(plan(&copied, json!({"httpProxy": "http://p:1", "noProxy": ".svc"})), Ok(None));
    let moved = plan(&copied, json!({"httpsProxy": "http://p:2"})).unwrap().unwrap();
    assert_eq!(moved["spec"]["template"]["spec"]["initContainers"][0]["env"], json!([{"name": "HTTPS_PROXY", "value": "http://p:2"}]));
    let ended = plan(&copied, json!({})).unwrap().unwrap();
    assert_eq!(ended["spec"]["template"]["spec"]["containers"][0]["env"], json!([{"name": "OTHER", "value": "x"}]));
    assert_eq!(deployments::told(&copied, &ended), "the cluster's proxy is no longer copied");
    let gates = deployments::plan(&deployment, Component::OperatorController, None, Some(&[].into())).unwrap().unwrap();
    let words = "the feature gates are WebhookProviderCertManager=false,WebhookProviderOpenshiftServiceCA=false";
    assert_eq!(deployments::told(&deployment, &gates), words);
    assert_eq!(plan(&deployment, json!({})), Ok(None), "without a proxy nothing is touched");

    let mut taken = deployment;
    taken["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "NO_PROXY", "value": "own"}]);
    let refused = plan(&taken, json!({"noProxy": ".svc"})).unwrap_err().to_string();
    assert_eq!(refused, "deployment d: container manager has the variable NO_PROXY already; the cluster's proxy is not copied over it");
    assert_eq!(plan(&taken, json!({"httpProxy": "http://p:1"})).map(|plan| plan.is_some()), Ok(true), "another variable is no conflict");
}

fn cluster_operator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

async fn define(api: &Api, group: &str, kind: &str, plural: &str) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let name = format!("{plural}.{group}");
    api.apply(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Cluster", "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}],
        },
    }))
    .await;
    api.established(&name).await;
}

async fn with_status(api: &Api, group: &str, kind: &str, name: &str, spec: Value, status: Value) {
    let object = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name}, "spec": spec});
    api.apply(object.clone()).await;
    // What the operator has said meanwhile stays.
    let merged = |live: &Value| {
        let mut merged = live["status"].as_object().cloned().unwrap_or_default();
        merged.extend(status.as_object().unwrap().clone());
        Value::Object(merged)
    };
    api.write_status(&ObjectRef::of(&object).unwrap(), merged).await;
}

/// An extension with an install record in this state, whose bundle supports the platform up to `max`.
async fn installed(api: &Api, name: &str, max: &str, state: State) {
    let live = api.apply(extension_object(name, name, "default")).await;
    let owner = OwnerReference {
        api_version: "olm.operatorframework.io/v1".to_owned(),
        kind: "ClusterExtension".to_owned(),
        name: name.to_owned(),
        uid: live["metadata"]["uid"].as_str().unwrap().to_owned(),
        ..OwnerReference::default()
    };
    let bundle = InstalledBundle {
        package: name.to_owned(),
        name: format!("{name}.v1"),
        version: "1.0.0".to_owned(),
        reference: "r.test/p@sha256:1".to_owned(),
    };
    let annotations = BTreeMap::from([("olm.properties".to_owned(), properties(max))]);
    let record = Record { bundle, annotations, objects: Vec::new() };
    for secret in secrets(&Revision { number: 1, state, record: record.into(), notes: Notes::default() }, name, &owner, SYSTEM).unwrap() {
        let mut secret = serde_json::to_value(secret).unwrap();
        secret["apiVersion"] = json!("v1");
        secret["kind"] = json!("Secret");
        api.apply(secret).await;
    }
    let status = json!({"install": {"bundle": {"name": format!("{name}.v1"), "version": "1.0.0"}}});
    api.write_status(&support::extension(name), |_| status.clone()).await;
}

/// MS-OPS-01: what became of conditions, catalogs and Deployments was told once each, and the sizes of the copies are on the page.
async fn is_observable(api: &Api, page: &str) {
    for line in [
        "mainstay_cache_objects{cache=\"watch\",kind=\"olms.operator.openshift.io\"} 1\n",
        "mainstay_cache_objects{cache=\"watch\",kind=\"clusterextensions.olm.operatorframework.io\"} ",
        "mainstay_cache_objects{cache=\"watch\",kind=\"deployments.apps\"} 3\n",
    ] {
        assert!(page.contains(line), "{line:?} is missing: {page}");
    }
    let all = api.admin.list(&GroupVersionKind::gvk("events.k8s.io", "v1", "Event"), 500).await.unwrap();
    let told = |kind: &str, reason: &str| -> Vec<String> {
        let of = |event: &&Value| event["regarding"]["kind"] == kind && event["reason"] == reason;
        all.iter().filter(of).map(|event| format!("{}: {}", event["type"].as_str().unwrap(), event["note"].as_str().unwrap())).collect()
    };
    let blocked = told("OLM", "IncompatibleOperatorsInstalled");
    assert!(blocked.len() == 1 && blocked[0].starts_with("Warning: Found ClusterExtensions that require upgrades"), "{all:#?}");
    assert_eq!(told("OLM", "Upgradeable"), ["Normal: nothing that is installed keeps the platform from its next version"]);
    let reported = told("ClusterOperator", "OperatorStatusChanged");
    assert!(reported.iter().any(|note| note.contains("to False (\"InstalledOLMOperatorsUpgradeable: Found")), "{all:#?}");
    let created = told("ClusterCatalog", "DefaultCatalogCreated");
    assert_eq!(created.len(), 5, "four, and one that was deleted: {created:?}");
    let restored = told("ClusterCatalog", "DefaultCatalogRestored");
    let image = "registry.redhat.io/redhat/redhat-operator-index";
    for (platform, tag) in [("4.19", "v4.19"), ("4.20", "v4.20")] {
        let note = format!("Normal: the default catalog of platform {platform} was restored: {image}:{tag}, priority -100");
        assert!(restored.contains(&note), "{restored:?}");
    }
    let handed = told("Deployment", "SettingsHandedOn");
    let note = "Normal: the cluster's proxy was copied into HTTPS_PROXY; the feature gates are APIV1MetasHandler=true";
    assert!(handed.len() == 3 && handed.contains(&note.to_owned()), "{handed:?}");
}

/// OLM1-COMPAT-04, OLM1-COMPAT-05, OLM1-COMPAT-06, OLM1-CAT-10, OLM1-CAT-11, OLM1-CAT-12, OLM1-GEN-06, OLM1-GEN-08, MS-OPS-01: on the API,
/// with the permissions of its manifests: nothing without the kinds; with them conditions, ClusterOperator, catalogs and Deployments follow, and
/// are told. Only what is deployed counts.
#[tokio::test(flavor = "multi_thread")]
async fn the_operator_on_the_api() {
    let api = Api::start().await;
    for object in manifests(SYSTEM) {
        api.apply(object).await;
    }
    let stop = CancellationToken::new();
    let cluster = Cluster::Embedded { router: api.server.router(), identity: cluster_operator };
    let config = Config { system_namespace: SYSTEM.to_owned(), catalogs: openshift() };
    let env = Env::system();
    let running = tokio::spawn(run(cluster, config, env.clone(), stop.clone()));
    installed(&api, "old", "\"4.19\"", State::Deployed).await;
    installed(&api, "trying", "\"4.18\"", State::Pending).await;
    for name in [CATALOGD, OPERATOR_CONTROLLER, COMBINED] {
        api.apply(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": SYSTEM}, "spec": {
            "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}, "spec": {
                "containers": [{"name": "manager", "image": "r.test/mainstay", "args": ["run"]}]}}}}))
            .await;
    }
    let openshift_config = "config.openshift.io";
    for (kind, plural) in [
        ("ClusterOperator", "clusteroperators"),
        ("ClusterVersion", "clusterversions"),
        ("Proxy", "proxies"),
        ("FeatureGate", "featuregates"),
    ] {
        define(&api, openshift_config, kind, plural).await;
    }
    with_status(
        &api,
        openshift_config,
        "ClusterVersion",
        "version",
        json!({}),
        json!({"history": [{"state": "Completed", "version": "4.19.7"}]}),
    )
    .await;
    with_status(&api, openshift_config, "Proxy", "cluster", json!({}), json!({"httpsProxy": "http://proxy:3128"})).await;
    let gates = json!({"featureGates": [{"version": "4.19.7", "enabled": [{"name": "NewOLMCatalogdAPIV1Metas"}]}]});
    with_status(&api, openshift_config, "FeatureGate", "cluster", json!({}), gates).await;
    define(&api, "operator.openshift.io", "OLM", "olms").await;
    assert_eq!(api.get(&support::catalog("openshift-redhat-operators")).await, None, "nothing is done before it is asked for");
    with_status(&api, "operator.openshift.io", "OLM", "cluster", json!({"managementState": "Managed"}), json!({"version": "kept"})).await;

    let words = "Found ClusterExtensions that require upgrades prior to upgrading cluster to version 4.20: bundle \"old.v1\" for ClusterExtension \"old\"";
    let olm = place("operator.openshift.io/v1", "OLM", "", "cluster");
    let told = api.until(&olm, |olm| condition(olm, "InstalledOLMOperatorsUpgradeable")["message"] == words).await;
    assert_eq!(told["status"]["version"], "kept");
    let operator = place("config.openshift.io/v1", "ClusterOperator", "", "olm");
    let reported = api.until(&operator, |operator| condition(operator, "Upgradeable")["status"] == "False").await;
    assert_eq!(condition(&reported, "Upgradeable")["reason"], "InstalledOLMOperators_IncompatibleOperatorsInstalled");
    assert_eq!(condition(&reported, "Upgradeable")["message"], format!("InstalledOLMOperatorsUpgradeable: {words}"));

    let catalog = support::catalog("openshift-redhat-operators");
    let reference = |catalog: &Value| catalog["spec"]["source"]["image"]["ref"].as_str().unwrap_or_default().to_owned();
    api.until(&catalog, |catalog| reference(catalog).ends_with(":v4.19")).await;
    let change = json!({"metadata": {"labels": {"team": "a"}}, "spec": {"priority": 5, "availabilityMode": "Unavailable"}});
    api.admin.patch(&catalog, "", &Patch::Merge(change)).await.unwrap();
    let kept = api.until(&catalog, |catalog| catalog["spec"]["priority"] == -100).await;
    assert_eq!((&kept["metadata"]["labels"]["team"], &kept["spec"]["availabilityMode"]), (&json!("a"), &json!("Unavailable")));
    api.delete(&catalog).await;
    api.until(&catalog, |catalog| catalog["metadata"]["uid"].is_string() && catalog["metadata"]["uid"] != kept["metadata"]["uid"]).await;

    let deployment = |name: &str| place("apps/v1", "Deployment", SYSTEM, name);
    let handed = |argument: &'static str| {
        move |deployment: &Value| {
            let container = &deployment["spec"]["template"]["spec"]["containers"][0];
            container["env"] == json!([{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}])
                && container["args"] == json!(["run", argument])
        }
    };
    api.until(&deployment(CATALOGD), handed("--feature-gates=APIV1MetasHandler=true")).await;
    let off = "--feature-gates=WebhookProviderCertManager=false,WebhookProviderOpenshiftServiceCA=false";
    api.until(&deployment(OPERATOR_CONTROLLER), handed(off)).await;
    let both = "--feature-gates=APIV1MetasHandler=true,WebhookProviderCertManager=false,WebhookProviderOpenshiftServiceCA=false";
    api.until(&deployment(COMBINED), handed(both)).await;

    // The platform moves on although it should not have: its catalogs follow. The extension goes, and nothing blocks.
    let moved = json!({"history": [{"state": "Completed", "version": "4.20.0"}]});
    with_status(&api, openshift_config, "ClusterVersion", "version", json!({}), moved).await;
    api.until(&catalog, |catalog| reference(catalog).ends_with(":v4.20")).await;
    api.delete(&support::extension("old")).await;
    api.until(&operator, |operator| condition(operator, "Upgradeable")["status"] == "True").await;
    let fine = api.get(&olm).await.unwrap();
    assert_eq!(condition(&fine, "InstalledOLMOperatorsUpgradeable")["reason"], "AsExpected");
    let page = env.metrics().page().unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    is_observable(&api, &page).await;
    api.close().await;
}
