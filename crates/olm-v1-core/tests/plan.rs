//! The plan of a first install, situation by situation: what is asked for, what is done, and what the conditions say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use insta::assert_snapshot;
use mainstay_api::lifecycle::{CRD_UPGRADE_SAFETY, MISSING_NAMESPACE};
use mainstay_lifecycle::Live;
use mainstay_lifecycle::change::Action;
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_lifecycle::revision::State;
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::extension::facts::{CatalogContent, PullFailure, PullProblem};
use mainstay_olm_v1_core::extension::plan::Verdict;
use serde_json::{Value, json};

use crate::scene::{self, Content, STABLE, Scene, catalog, files, image, permissions, table, unreadable};

pub(crate) fn case(change: impl FnOnce(&mut Scene)) -> String {
    let mut scene = Scene::new();
    change(&mut scene);
    scene.tell()
}

pub(crate) fn short(change: impl FnOnce(&mut Scene)) -> String {
    let mut scene = Scene::new();
    change(&mut scene);
    scene.short()
}

/// OLM1-CTRL-01, OLM1-CTRL-07: finalizers are put on before anything else and in order; the last reconcile needs nothing but them.
#[test]
fn finalizers_come_first() {
    let with = |finalizers: Value, deleted: bool| {
        case(|scene| {
            scene.account = Ok(false);
            scene.history = Err(unreadable("not even looked at"));
            scene.extension["metadata"]["finalizers"] = finalizers;
            if deleted {
                scene.extension["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
        })
    };
    let both = json!(["olm.operatorframework.io/cleanup-unpack-cache", "olm.operatorframework.io/cleanup-contentmanager-cache"]);
    assert_snapshot!(table(&[
        ("none yet", with(json!([]), false)),
        ("one yet", with(json!(["example.com/other", "olm.operatorframework.io/cleanup-unpack-cache"]), false)),
        ("deleted", with(both, true)),
        ("deleted, all but a stranger's gone", with(json!(["example.com/other"]), true)),
    ]));
}

/// OLM1-CTRL-03, OLM1-CTRL-11, OLM1-API-07, OLM1-PERM-01: without an account, or with records that cannot be read, nothing is done.
#[test]
fn accounts_and_records_must_be_there() {
    assert_snapshot!(table(&[
        ("the account is missing", case(|scene| scene.account = Ok(false))),
        (
            "the account is missing, something is installed",
            case(|scene| {
                scene.have("1.0.0", State::Deployed);
                scene.account = Ok(false);
            })
        ),
        ("no account is named", case(|scene| scene.extension["spec"]["serviceAccount"] = Value::Null)),
        ("nobody can tell", case(|scene| scene.account = Err("the server has asked for the client to provide credentials".into()))),
        (
            "the records cannot be read",
            case(|scene| scene.history =
                Err(unreadable("install record olm.v1.widgets.v2 cannot be read: corrupt gzip stream does not have a matching checksum")))
        ),
    ]));
    let ignored = short(|scene| {
        scene.ignore_service_account = true;
        scene.account = Ok(false);
        scene.extension["spec"]["serviceAccount"] = Value::Null;
        scene.policy = permissions(&json!([]));
    });
    assert_eq!(ignored, "Install 2.0.0 of main");
}

/// OLM1-API-02: a namespace that is missing is made only where the extension asks for it, as the chosen bundle wants it, and with no account but
/// the controller's.
#[test]
fn namespaces_are_made_where_that_is_asked_for() {
    let template = json!({"metadata": {"name": "elsewhere", "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}).to_string();
    let asking = |value: &str, template: &str, change: &dyn Fn(&mut Scene)| {
        case(|scene| {
            scene.extension["metadata"]["annotations"] = json!({MISSING_NAMESPACE: value});
            scene.account = Ok(false);
            let mut bundle = (*scene::bundle("2.0.0", &Content::default())).clone();
            if !template.is_empty() {
                bundle.csv.annotations.insert("operatorframework.io/suggested-namespace-template".to_owned(), template.to_owned());
            }
            scene.bundles.insert(image("2.0.0"), Ok(Arc::new(bundle)));
            change(scene);
        })
    };
    let present = |metadata: Value| Live::Present(Arc::new(json!({"metadata": metadata})));
    let own = |scene: &mut Scene| scene.ignore_service_account = true;
    let policy = PolicyFact { name: "ask".to_owned(), spec: serde_json::from_value(json!({"approval": "Always"})).unwrap() };
    assert_snapshot!(table(&[
        ("nothing suggested", asking("Create", "", &|_| {})),
        ("a template", asking("Create", &template, &|_| {})),
        ("a template that is none", asking("Create", "[1]", &|_| {})),
        ("it is there", asking("Create", &template, &|scene| scene.namespace = present(json!({"name": "work"})))),
        (
            "it is being deleted",
            asking("Create", "", &|scene| scene.namespace = present(json!({"name": "work", "deletionTimestamp": "2026-01-01T00:00:00Z"})))
        ),
        ("nobody may look", asking("Create", "", &|scene| scene.namespace = Live::Unreadable("namespaces \"work\" is forbidden".into()))),
        ("no bundle", asking("Create", "", &|scene| scene.request("version", json!("9.x")))),
        ("another value", asking("Yes", "", &|_| {})),
        ("an approval comes first", asking("Create", "", &|scene| scene.lifecycle.policies = vec![policy.clone()])),
        ("the controller's own account", asking("Create", &template, &own)),
        (
            "the controller's own account, an approval comes first",
            asking("Create", "", &|scene| {
                own(scene);
                scene.lifecycle.policies = vec![policy.clone()];
            })
        ),
        (
            "the controller's own account, it is there",
            asking("Create", "", &|scene| {
                own(scene);
                scene.namespace = present(json!({"name": "work"}));
            })
        ),
    ]));
}

/// OLM1-CTRL-01, OLM1-CTRL-02, OLM1-CTRL-03, OLM1-CTRL-05, OLM1-INST-01, OLM1-INST-13, OLM1-CRD-01: facts are asked for in the order of
/// the pipeline; a first install creates everything in order and ends with six conditions of the generation at hand.
#[test]
fn a_first_install() {
    assert_snapshot!(case(|_| {}));
}

/// OLM1-CTRL-10, OLM1-INST-10: every object carries the extension's labels and, unless it is to be kept, its controller reference.
#[test]
fn objects_carry_labels_and_owner() {
    let mut scene = Scene::new();
    let kept =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "annotations": {"helm.sh/resource-policy": "keep"}}});
    scene.offer("2.0.0", &Content { more: vec![kept], ..Content::default() });
    let (_, plan, _) = scene.decide();
    let objects = plan.record.unwrap().objects.clone();
    assert_eq!(objects.len(), 6);
    for object in objects {
        let meta = &object["metadata"];
        assert_eq!(meta["labels"]["olm.operatorframework.io/owner-kind"], "ClusterExtension", "{object}");
        assert_eq!(meta["labels"]["olm.operatorframework.io/owner-name"], "widgets", "{object}");
        let owner = json!([{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "widgets", "uid": "uid-1",
            "controller": true, "blockOwnerDeletion": true}]);
        let expected = if meta["name"] == "kept" { Value::Null } else { owner };
        assert_eq!(meta["ownerReferences"], expected, "{object}");
    }
}

/// OLM1-SEL-01, OLM1-SEL-02, OLM1-SEL-09, OLM1-UPG-03, OLM1-UPG-04, OLM1-UPG-05, OLM1-CTRL-03, OLM1-CTRL-06: a request that cannot be met
/// changes nothing; what is installed is still shown, and deprecations keep what they said.
#[test]
fn refused_resolutions() {
    let known = json!([{"type": "BundleDeprecated", "status": "True", "reason": "Deprecated", "message": "\nold", "observedGeneration": 2,
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    assert_snapshot!(table(&[
        ("nothing installed", case(|scene| scene.request("version", json!("9.x")))),
        (
            "an older one installed, deprecations known",
            case(|scene| {
                scene.have("1.0.0", State::Deployed);
                scene.request("version", json!("9.x"));
                scene.extension["status"] = json!({"conditions": known});
            })
        ),
        (
            "installed is outside the range, no successor inside",
            case(|scene| {
                scene.have("1.0.0", State::Deployed);
                scene.request("version", json!(">=2.0.0"));
                scene.request("channels", json!(["stable", "fast"]));
            })
        ),
        (
            "not in any catalog any more",
            case(|scene| {
                scene.have("1.0.0", State::Deployed);
                scene.catalogs.clear();
            })
        ),
        ("a catalog that is not served", case(|scene| scene.catalogs[0].content = CatalogContent::NotServing)),
        (
            "a catalog that could not be fetched",
            case(|scene| scene.catalogs[0].content =
                CatalogContent::Failed("error: received unexpected response status code 503".to_owned()))
        ),
        ("no range", case(|scene| scene.request("version", json!("one or two")))),
        (
            "no selector",
            case(|scene| scene.request("selector", json!({"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]})))
        ),
    ]));
}

/// OLM1-SEL-02, OLM1-SEL-03, OLM1-SEL-04, OLM1-SEL-05, OLM1-SEL-06, OLM1-SEL-07, OLM1-SEL-08, OLM1-SEL-09, OLM1-SEL-11, OLM1-CAT-09:
/// which of several catalogs gives the bundle.
#[test]
fn selecting_catalogs() {
    let two = |change: &dyn Fn(&mut Scene)| {
        short(|scene| {
            let mut other = catalog("other", "channel stable: 1.0.0 1.5.0<1.0.0");
            other.labels.insert("example.com/support".to_owned(), "production".to_owned());
            scene.catalogs.push(other);
            scene.offer("1.5.0", &Content::default());
            change(scene);
        })
    };
    let label = "olm.operatorframework.io/metadata.name";
    let expression =
        |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    assert_snapshot!(table(&[
        ("equal priorities", two(&|_| {})),
        ("equal priorities, a range", two(&|scene| scene.request("version", json!("1.x")))),
        ("equal priorities, a range that one has", two(&|scene| scene.request("version", json!("1.5.0")))),
        ("a higher priority", two(&|scene| scene.catalogs[1].priority = 10)),
        ("a lower priority", two(&|scene| scene.catalogs[1].priority = -100)),
        ("one is switched off", two(&|scene| scene.catalogs[0].content = CatalogContent::Unavailable)),
        ("one is not served", two(&|scene| scene.catalogs[0].content = CatalogContent::NotServing)),
        (
            "one is not served and not selected",
            two(&|scene| {
                scene.catalogs[0].content = CatalogContent::NotServing;
                scene.request("selector", json!({"matchLabels": {label: "other"}}));
            })
        ),
        ("by name", two(&|scene| scene.request("selector", json!({"matchLabels": {label: "main"}})))),
        ("by label", two(&|scene| scene.request("selector", json!({"matchLabels": {"example.com/support": "production"}})))),
        (
            "by several values",
            two(&|scene| scene.request("selector", expression("example.com/support", "In", &["production", "supported"])))
        ),
        ("by exclusion of a name", two(&|scene| scene.request("selector", expression(label, "NotIn", &["main"])))),
        ("by exclusion of a label", two(&|scene| scene.request("selector", expression("example.com/support", "DoesNotExist", &[])))),
        (
            "both forms must hold",
            two(&|scene| {
                let mut both = expression("example.com/support", "Exists", &[]);
                both["matchLabels"] = json!({label: "main"});
                scene.request("selector", both);
            })
        ),
        (
            "the empty selector takes all",
            two(&|scene| {
                scene.request("selector", json!({}));
                scene.catalogs[0].priority = 1;
            })
        ),
        (
            "deprecated before priority",
            two(&|scene| {
                scene.catalogs[0] = catalog("main", "channel stable: 2.0.0\ndeprecated bundle widgets.v2.0.0: gone");
                scene.catalogs[0].priority = 1000;
            })
        ),
    ]));
}

/// OLM1-INST-04, OLM1-SEL-01, OLM1-CTRL-06: a bundle that needs others is refused before it is pulled.
#[test]
fn dependencies_are_refused() {
    let needs = |kind: &str| case(|scene| scene.catalogs = vec![catalog("main", &format!("{STABLE}\nneeds 2.0.0 {kind}"))]);
    assert_snapshot!(table(&[
        ("another package", needs("olm.package.required")),
        ("another kind", needs("olm.gvk.required")),
        ("a constraint", needs("olm.constraint")),
    ]));
}

/// OLM1-CTRL-03, OLM1-CTRL-04, OLM1-CTRL-09, OLM1-GEN-12: an image that cannot be had is tried again, one that cannot be named is not.
#[test]
fn images_that_cannot_be_had() {
    let failing = |terminal: bool| {
        case(|scene| {
            scene.have("1.1.0", State::Deployed);
            let failure =
                PullFailure { problem: PullProblem::Reference, message: "error parsing image reference \"x\": no".to_owned(), terminal };
            scene.bundles.insert(image("2.0.0"), Err(failure));
        })
    };
    assert_snapshot!(table(&[("tried again", failing(false)), ("beyond trying", failing(true))]));
}

/// OLM1-INST-01, OLM1-INST-03, OLM1-GEN-08, OLM1-INST-16, OLM1-INST-17: what the controller refuses, in order, by its gates.
#[test]
fn gates_refuse_bundles() {
    let bundle = |gates: &str, content: Content| {
        short(|scene| {
            scene.gate(gates);
            scene.offer("2.0.0", &content);
        })
    };
    let (webhook, api_service) =
        (Content { webhook: true, ..Content::default() }, Content { webhook: true, api_service: true, ..Content::default() });
    let no_webhooks = "WebhookProviderOpenshiftServiceCA=false";
    let modes = |modes: &[&'static str]| Content { modes: modes.to_vec(), ..Content::default() };
    assert_snapshot!(table(&[
        ("API services, always", bundle("", api_service)),
        ("webhooks", bundle("", webhook.clone())),
        ("webhooks without a provider", bundle(no_webhooks, webhook)),
        ("OwnNamespace without the gate", bundle("SingleOwnNamespaceInstallSupport=false", modes(&["OwnNamespace", "SingleNamespace"]))),
        ("MultiNamespace alone", bundle("", modes(&["MultiNamespace"]))),
        (
            "an unsupported kind",
            bundle("", Content { more: vec![json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})], ..Content::default() })
        ),
    ]));
}

/// OLM1-INST-02, OLM1-INST-11, OLM1-INST-12: the watch namespace and the bundle's modes.
#[test]
fn watch_namespaces() {
    let watch = |modes: &[&'static str], namespace: Option<&str>, gates: &str| {
        let mut scene = Scene::new();
        scene.gate(gates);
        scene.offer("2.0.0", &Content { modes: modes.to_vec(), ..Content::default() });
        if let Some(namespace) = namespace {
            scene.extension["metadata"]["annotations"] = json!({"olm.operatorframework.io/watch-namespace": namespace});
        }
        let (_, plan, _) = scene.decide();
        let Some(record) = plan.record else { return scene.short() };
        let deployment = record.objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        let targets = &deployment["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"];
        format!("{} targeting {targets}", scene.short())
    };
    let off = "SingleOwnNamespaceInstallSupport=false";
    let (all, own, single) = ("AllNamespaces", "OwnNamespace", "SingleNamespace");
    assert_snapshot!(table(&[
        ("all: nothing said", watch(&[all], None, "")),
        ("all: empty", watch(&[all], Some(""), "")),
        ("all: own", watch(&[all], Some("work"), "")),
        ("all: another", watch(&[all], Some("elsewhere"), "")),
        ("own: nothing said", watch(&[own], None, "")),
        ("own: own", watch(&[own], Some("work"), "")),
        ("own: another", watch(&[own], Some("elsewhere"), "")),
        ("single: nothing said", watch(&[single], None, "")),
        ("single: own", watch(&[single], Some("work"), "")),
        ("single: another", watch(&[single], Some("elsewhere"), "")),
        ("every mode: another", watch(&[all, own, single, "MultiNamespace"], Some("elsewhere"), "")),
        ("no name", watch(&[single], Some("Else_Where"), "")),
        ("all, gate off: ignored", watch(&[all, single], Some("elsewhere"), off)),
        ("single, gate off: refused", watch(&[single], Some("elsewhere"), off)),
    ]));
}

/// OLM1-API-06: the configuration reaches the Deployment, changes it where it is installed already, and blocks where the bundle does not take it.
#[test]
fn configurations_reach_the_deployment() {
    let configured = |gates: &str, inline: Value, change: fn(&mut Scene)| {
        let mut scene = Scene::new();
        scene.gate(gates);
        scene.offer("2.0.0", &Content { modes: vec!["AllNamespaces", "SingleNamespace"], ..Content::default() });
        change(&mut scene);
        scene.extension["spec"]["config"] = json!({"configType": "Inline", "inline": inline});
        let (_, plan, _) = scene.decide();
        let deployment = plan.record.map(|record| record.objects.iter().find(|object| object["kind"] == "Deployment").unwrap().clone());
        (plan.verdict, plan.action, deployment.unwrap_or_default()["spec"]["template"].clone())
    };
    let level = json!({"deploymentConfig": {"env": [{"name": "LEVEL", "value": "debug"}]}});
    let (verdict, _, template) = configured("", level.clone(), |_| ());
    assert_eq!(verdict, Verdict::Reached);
    assert_eq!(template["spec"]["containers"][0]["env"], level["deploymentConfig"]["env"]);
    let (_, action, _) = configured("", level.clone(), |scene| scene.have("2.0.0", State::Deployed));
    assert!(!matches!(action, Action::Reassert | Action::Report), "the same bundle, configured otherwise, is a change: {action:?}");
    let (_, _, template) = configured("", json!({"watchNamespace": "elsewhere"}), |scene| {
        scene.extension["metadata"]["annotations"] = json!({"olm.operatorframework.io/watch-namespace": "annotated"});
    });
    assert_eq!(template["metadata"]["annotations"]["olm.targetNamespaces"], "elsewhere", "the field is asked before the annotation");
    let Verdict::Blocked(why) = configured("DeploymentConfig=false", level, |_| ()).0 else { panic!("a gate that is off blocks") };
    let why = why.to_string();
    assert!(
        why.starts_with(
            "invalid ClusterExtension configuration: invalid configuration: unknown field \"deploymentConfig\" for resolved bundle"
        ),
        "{why}"
    );
}

/// OLM1-PERM-02, OLM1-PERM-09, OLM1-PERM-10, OLM1-PERM-11, OLM1-PERM-12, OLM1-PERM-13, OLM1-PERM-14, OLM1-CTRL-09: missing permissions are
/// listed, nothing is written, and what is installed stays.
#[test]
fn missing_permissions_stop_everything() {
    let nothing = permissions(&json!([]));
    let almost = permissions(&json!([
        {"apiGroups": ["apps", "", "apiextensions.k8s.io", "rbac.authorization.k8s.io"], "resources": ["*"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
        {"apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions/finalizers"], "verbs": ["update"]},
    ]));
    let unknown = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "extra"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nowhere"},
        "subjects": [{"kind": "ServiceAccount", "name": "widgets", "namespace": "work"}]});
    assert_snapshot!(table(&[
        ("no permissions at all", case(|scene| scene.policy = nothing.clone())),
        (
            "only the bundle's own rules are lacking, an older one is installed",
            case(|scene| {
                scene.have("1.1.0", State::Deployed);
                scene.policy = almost.clone();
            })
        ),
        (
            "a binding to a role that is nowhere",
            case(|scene| {
                scene.offer("2.0.0", &Content { more: vec![unknown], ..Content::default() });
                scene.policy = almost;
            })
        ),
        (
            "the gate is off",
            case(|scene| {
                scene.policy = nothing;
                scene.gate("PreflightPermissions=false");
            })
        ),
    ]));
}

/// OLM1-OWN-01, OLM1-OWN-02, OLM1-OWN-03, OLM1-OWN-04: objects of somebody else, or of nobody, are not taken over; its own are.
#[test]
fn objects_of_others_are_left_alone() {
    let mine = || {
        let (_, plan, _) = Scene::new().decide();
        plan.record.unwrap().objects.clone()
    };
    let of = |kind: &str, change: &dyn Fn(&mut Value)| {
        short(|scene| {
            let mut object = mine().into_iter().find(|object| object["kind"] == kind).unwrap();
            change(&mut object["metadata"]);
            scene.see(object);
        })
    };
    let nobody = |meta: &mut Value| {
        meta["labels"] = json!({});
        meta["ownerReferences"] = json!([]);
    };
    let other = |meta: &mut Value| {
        meta["labels"]["olm.operatorframework.io/owner-name"] = json!("other");
        meta["ownerReferences"][0]["name"] = json!("other");
        meta["ownerReferences"][0]["uid"] = json!("uid-2");
    };
    assert_snapshot!(table(&[
        ("a CRD of another extension", of("CustomResourceDefinition", &other)),
        ("a CRD of nobody", of("CustomResourceDefinition", &nobody)),
        ("a Deployment of another extension", of("Deployment", &other)),
        ("a ServiceAccount of nobody", of("ServiceAccount", &nobody)),
        ("its own", of("Deployment", &|_| {})),
        ("its own, the reference taken off", of("Deployment", &|meta| meta["ownerReferences"] = json!([]))),
        (
            "applied before, labels and reference taken off",
            short(|scene| {
                scene.have("2.0.0", State::Deployed);
                scene.touch("Deployment", "widgets", |object| nobody(&mut object["metadata"]));
            })
        ),
        (
            "applied before, taken over by another since",
            short(|scene| {
                scene.have("2.0.0", State::Deployed);
                scene.touch("Deployment", "widgets", |object| other(&mut object["metadata"]));
            })
        ),
    ]));
}

/// OLM1-CTRL-03, OLM1-PERM-01: kinds that are not served, and objects that cannot be read, are named before anything is written.
#[test]
fn kinds_and_objects_must_be_readable() {
    let monitor = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "metrics"}});
    let place = ObjectRef {
        api_version: "monitoring.coreos.com/v1".to_owned(),
        kind: "ServiceMonitor".to_owned(),
        namespace: "work".to_owned(),
        name: "metrics".to_owned(),
    };
    let with = |live: Live| {
        case(|scene| {
            scene.offer("2.0.0", &Content { more: vec![monitor.clone()], ..Content::default() });
            scene.live.insert(place.clone(), live);
        })
    };
    assert_snapshot!(table(&[
        ("not served", with(Live::NotServed)),
        (
            "not readable",
            with(Live::Unreadable(
                "get ServiceMonitor work/metrics: servicemonitors.monitoring.coreos.com \"metrics\" is forbidden".into()
            ))
        ),
    ]));
}

/// OLM1-CRD-01, OLM1-CRD-02, OLM1-CRD-03, OLM1-CRD-07, OLM1-UPG-11: a CRD that would lose data stops the whole change; `None` allows it, and
/// so does the annotation, which tells what it allows.
#[test]
fn crds_change_safely() {
    let upgrade = |content: Content, change: &dyn Fn(&mut Scene)| {
        case(|scene| {
            scene.offer("1.1.0", &Content { fields: vec![("colour", json!({"type": "string"}))], ..Content::default() });
            scene.have("1.1.0", State::Deployed);
            scene.offer("2.0.0", &content);
            change(scene);
        })
    };
    let fields = |fields: &[(&'static str, Value)]| Content { fields: fields.to_vec(), ..Content::default() };
    let enforcement = |value: &str| {
        let value = value.to_owned();
        move |scene: &mut Scene| scene.extension["spec"]["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": value}}})
    };
    let annotated = |value: &str| {
        let value = value.to_owned();
        move |scene: &mut Scene| scene.extension["metadata"]["annotations"] = json!({CRD_UPGRADE_SAFETY: value})
    };
    let colour = json!({"type": "string"});
    assert_snapshot!(table(&[
        ("a field is dropped", upgrade(fields(&[]), &|_| {})),
        ("Strict", upgrade(fields(&[]), &enforcement("Strict"))),
        ("None", upgrade(fields(&[]), &enforcement("None"))),
        ("Warn", upgrade(fields(&[]), &annotated("Warn"))),
        ("Warn for this bundle and others", upgrade(fields(&[]), &annotated("Warn:widgets.v1.9.0, widgets.v2.0.0"))),
        ("Warn for other bundles", upgrade(fields(&[]), &annotated("Warn:widgets.v1.9.0"))),
        ("Warn, misspelled", upgrade(fields(&[]), &annotated("warn"))),
        (
            "Warn, and the server itself refuses it",
            upgrade(fields(&[]), &|scene| {
                annotated("Warn")(scene);
                scene.touch("CustomResourceDefinition", "widgets", |crd| crd["spec"]["scope"] = json!("Cluster"));
            })
        ),
        (
            "a field is dropped, SelfCertified",
            upgrade(fields(&[]), &|scene| scene.request("upgradeConstraintPolicy", json!("SelfCertified")))
        ),
        (
            "a type changes and a field is required",
            upgrade(
                Content { fields: vec![("colour", json!({"type": "integer"}))], required: vec!["size"], ..Content::default() },
                &|_| {}
            )
        ),
        ("a field is added", upgrade(fields(&[("colour", colour.clone()), ("weight", json!({"type": "integer"}))]), &|_| {})),
    ]));
    // What is installed is put back although the live CRD was changed in between in a way that an upgrade would not make.
    let reassert = short(|scene| {
        scene.have("2.0.0", State::Deployed);
        scene.touch("CustomResourceDefinition", "widgets", |crd| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["more"] = colour;
        });
    });
    assert_eq!(reassert, "Reassert 2.0.0 of main");
}

/// OLM1-CTRL-05, OLM1-CTRL-06, OLM1-FBC-14, OLM1-UPG-04: deprecations of package, requested channels and bundle, and their roll-up.
#[test]
fn deprecations_are_shown() {
    let with = |lines: &str, channels: &[&str]| {
        case(|scene| {
            scene.catalogs = vec![catalog("main", &format!("channel stable: 2.0.0\nchannel fast: 2.0.0\n{lines}"))];
            if !channels.is_empty() {
                scene.request("channels", json!(channels));
            }
        })
    };
    let all = "deprecated package: the package ends\ndeprecated channel stable: use fast\ndeprecated channel fast: use none\ndeprecated bundle widgets.v2.0.0: broken";
    assert_snapshot!(table(&[
        ("the package", with("deprecated package: the package ends", &[])),
        ("a channel that was not asked for", with("deprecated channel stable: use fast", &[])),
        ("a channel that was asked for", with("deprecated channel stable: use fast", &["stable"])),
        ("everything, two channels asked for", with(all, &["stable", "fast"])),
    ]));
}

/// OLM1-GEN-03: equal input gives equal plans.
#[test]
fn plans_are_deterministic() {
    let told = |scene: &Scene| format!("{:?}", scene.decide().1);
    let scene = Scene::new();
    assert_eq!(told(&scene), told(&Scene::new()));
    let again = files("2.0.0", &Content::default());
    assert_eq!(again, files("2.0.0", &Content::default()));
    assert!(Arc::ptr_eq(scene.bundles[&image("2.0.0")].as_ref().unwrap(), scene.bundles[&image("2.0.0")].as_ref().unwrap()));
}
