//! What removing an extension would take away.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::preview::CrdChange;
use mainstay_lifecycle::removal::{Choices, Counted, Dependent, Facts, Owned, Removal, Stays, Tie, needed_by, plan};
use mainstay_lifecycle::revision::{InstalledBundle, Record};
use mainstay_objects::ObjectRef;
use serde_json::{Value, json};

use crate::scene::{Content, Scene};

fn other(properties: &Value, objects: Vec<Value>) -> Arc<Record> {
    let bundle =
        InstalledBundle { package: "gadgets".into(), name: "gadgets.v1".into(), version: "1.0.0".into(), reference: String::new() };
    Arc::new(Record { bundle, annotations: BTreeMap::from([("olm.properties".to_owned(), properties.to_string())]), objects })
}

fn owned(kind: &str, namespace: &str, owner: (&str, &str)) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "namespace": namespace,
        "ownerReferences": [{"apiVersion": owner.0, "kind": owner.1, "name": "a"}]}})
}

/// The facts of a removal of `widgets` that nothing is known about but its objects.
fn facts(objects: &[Owned]) -> Facts<'_> {
    Facts {
        kind: "ClusterExtension",
        name: "widgets",
        package: "widgets",
        namespace: "work",
        installed: None,
        choices: Choices::default(),
        stays: Ok(None),
        objects,
        definitions_unknown: None,
        records_unknown: None,
        instances: BTreeMap::new(),
        operands: &[],
        others: &[],
        needed_by: &[],
        webhooks: &[],
        installer: &[],
        neighbours: &[],
    }
}

/// The objects of a bundle as they are on the cluster, one of them asking to be kept.
fn installed() -> Vec<Owned> {
    let mut scene = Scene::new();
    scene.offer("1.0.0", &Content { webhook: true, ..Content::default() });
    scene.request("version", json!("1.0.0"));
    let (_, plan, _) = scene.decide();
    let mut objects: Vec<Owned> =
        plan.record.unwrap().objects.iter().cloned().map(|object| Owned { object, tie: Ok(Some(Tie::Reference)) }).collect();
    objects.push(Owned {
        object: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "work"}}),
        tie: Ok(None),
    });
    objects
}

fn known(namespaces: &[&str]) -> BTreeMap<String, Result<Vec<String>, SharedError>> {
    BTreeMap::from([("widgets.example.com".to_owned(), Ok(namespaces.iter().map(|&name| name.to_owned()).collect()))])
}

/// MS-RB-02, OLM1-INST-15: everything goes in order, CRDs and the installer's account too; custom resources and what was made for them are
/// counted by kind and namespace; the namespace stays, and so does what is not tied to the extension.
#[test]
fn what_goes_and_what_stays() {
    let objects = installed();
    let dependents = [
        owned("Deployment", "a", ("example.com/v1", "Widget")),
        owned("Deployment", "a", ("example.com/v1beta1", "Widget")),
        owned("ConfigMap", "b", ("example.com/v1", "Widget")),
        owned("ConfigMap", "b", ("example.org/v1", "Widget")),
    ];
    let account =
        ObjectRef { api_version: "v1".into(), kind: "ServiceAccount".into(), namespace: "work".into(), name: "widgets-installer".into() };
    let facts =
        Facts { instances: known(&["a", "b", "a"]), operands: &dependents, installer: std::slice::from_ref(&account), ..facts(&objects) };
    let removal = plan(&facts);
    let seen = &removal.preview;
    assert_eq!(seen.deleted.last().unwrap(), "CustomResourceDefinition widgets.example.com");
    assert!(seen.deleted.contains(&"Deployment work/widgets".to_owned()), "{seen:?}");
    assert_eq!(removal.deleted.len(), seen.deleted.len());
    assert_eq!(seen.kept, ["Namespace work", "ConfigMap work/kept"]);
    assert_eq!(seen.installer, ["ServiceAccount work/widgets-installer"]);
    assert_eq!(seen.definitions[0].namespaces, BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]));
    assert_eq!((seen.definitions[0].instances, seen.used().count()), (Some(3), 1));
    assert_eq!(seen.definitions[0].to_string(), "3 custom resources: 2 in a, 1 in b");
    let counted = |kind: &str, namespace: &str, count| Counted { kind: kind.into(), namespace: namespace.into(), count };
    assert_eq!(seen.operands, [counted("ConfigMap", "b", 1), counted("Deployment", "a", 2)]);

    // Unknown custom resources may exist.
    let forbidden = BTreeMap::from([("widgets.example.com".to_owned(), Err("forbidden".into()))]);
    for instances in [forbidden, BTreeMap::new()] {
        let blind = plan(&Facts { instances, ..facts.clone() }).preview;
        assert_eq!((blind.definitions[0].instances, blind.used().count()), (None, 1));
        assert!(blind.definitions[0].unknown.is_some());
    }
    let keeping = plan(&Facts { choices: Choices { keep_crds: Some(true), ..Choices::default() }, ..facts }).preview;
    assert!(!keeping.deleted.iter().any(|deleted| deleted.contains("CustomResourceDefinition")), "{keeping:?}");
    assert!(keeping.kept.contains(&"CustomResourceDefinition widgets.example.com".to_owned()), "{keeping:?}");
}

/// MS-PLAN-01, MS-RB-02, OLM1-INST-15: the same as a step of a plan: its effects, and why it cannot be applied. Custom resources, and what
/// others need, are lost only if the request says so.
#[test]
fn as_a_step() {
    let objects = installed();
    let keep = |keep: Option<bool>| Choices { keep_crds: keep, ..Choices::default() };
    let away = Choices { keep_crds: Some(true), delete_namespace: true, ..Choices::default() };
    let marked: Vec<Owned> = objects.iter().cloned().map(|own| Owned { tie: own.tie.map(|tie| tie.map(|_| Tie::Mark)), ..own }).collect();
    let through: Vec<Owned> = objects
        .iter()
        .cloned()
        .map(|own| Owned { tie: own.tie.map(|tie| tie.map(|_| Tie::Through("ClusterExtensionRevision widgets-1".to_owned()))), ..own })
        .collect();
    let unreadable: Vec<Owned> = objects.iter().cloned().map(|own| Owned { tie: Err("forbidden".into()), ..own }).collect();
    let needs = ["clusterextension harbor: harbor.v1.0.0 requires package widgets >=1.0.0".to_owned()];
    let neighbours = ["clusterextension gadgets is in it, or watches it".to_owned()];
    let base = facts(&objects);
    let two = || known(&["a", "b"]);
    let cases = [
        ("custom resources exist, and the request does not say", Facts { instances: two(), ..base.clone() }),
        ("they go", Facts { instances: two(), choices: keep(Some(false)), ..base.clone() }),
        ("they stay", Facts { instances: two(), choices: keep(Some(true)), ..base.clone() }),
        ("there are none", Facts { instances: known(&[]), ..base.clone() }),
        ("the extension asks that they stay", Facts { instances: two(), stays: Ok(Some(Stays::Definitions)), ..base.clone() }),
        ("everything stays", Facts { instances: two(), stays: Ok(Some(Stays::Everything)), ..base.clone() }),
        (
            "the request deletes what is to stay",
            Facts { instances: two(), stays: Ok(Some(Stays::Definitions)), choices: keep(Some(false)), ..base.clone() },
        ),
        (
            "the annotation is invalid",
            Facts { stays: Err("annotation x: expected Orphan or OrphanCRDs, found \"orphan\""), ..base.clone() },
        ),
        ("only marks, unused", Facts { objects: &marked, instances: known(&[]), ..base.clone() }),
        ("only marks, used", Facts { objects: &marked, instances: two(), ..base.clone() }),
        ("only marks, deleted", Facts { objects: &marked, instances: two(), choices: keep(Some(false)), ..base.clone() }),
        ("a revision owns them", Facts { objects: &through, instances: two(), choices: keep(Some(true)), ..base.clone() }),
        ("unreadable", Facts { objects: &unreadable, records_unknown: Some("a secret is damaged"), ..base.clone() }),
        ("CRDs are unknown", Facts { objects: &[], definitions_unknown: Some("forbidden"), ..base.clone() }),
        (
            "CRDs are unknown and deleted",
            Facts { objects: &[], definitions_unknown: Some("forbidden"), choices: keep(Some(false)), ..base.clone() },
        ),
        ("others need it, too", Facts { instances: two(), needed_by: &needs, ..base.clone() }),
        (
            "all the same",
            Facts {
                instances: known(&[]),
                needed_by: &needs,
                choices: Choices { even_if_needed: true, ..Choices::default() },
                ..base.clone()
            },
        ),
        ("with its namespace, that holds custom resources", Facts { instances: known(&["work"]), choices: away, ..base.clone() }),
        ("with its namespace, that others use", Facts { instances: two(), choices: away, neighbours: &neighbours, ..base.clone() }),
        ("with its namespace", Facts { instances: two(), choices: away, ..base.clone() }),
    ];
    let table: Vec<String> = cases.iter().map(|(case, facts)| format!("== {case}\n{}", told(&plan(facts)))).collect();
    insta::assert_snapshot!(table.join("\n"));
}

/// What a removal says: the problem, the objects, the warnings, and the objects that are waited for.
fn told(removal: &Removal) -> String {
    let Removal { preview, step, deleted } = removal;
    let mut lines = Vec::new();
    if let Some(problem) = &step.problem {
        lines.push(format!("problem: {}", problem.message));
        lines.extend(problem.causes.iter().map(|cause| format!("  cause: {cause}")));
        lines.extend(problem.hints.iter().map(|hint| format!("  hint: {hint}")));
    }
    let note = |note: &str| if note.is_empty() { String::new() } else { format!(" ({note})") };
    lines.extend(step.objects.iter().map(|object| format!("{:?} {}{}", object.change, object.title(), note(&object.note))));
    let crd = |crd: &CrdChange| match &crd.existing {
        Some(existing) => format!("crd {:?} {}: {}", crd.change, crd.name, existing.count),
        None => format!("crd {:?} {}: {}", crd.change, crd.name, crd.existing_unknown.clone().unwrap_or_default()),
    };
    lines.extend(step.custom_resource_definitions.iter().map(crd));
    lines.extend(step.permissions_lost.iter().map(|lost| format!("lost {lost}")));
    lines.extend(step.restarts.iter().map(|restart| format!("restart {}: {}", restart.workload, restart.because)));
    lines.extend(step.warnings.iter().map(|warning| format!("warning {warning}")));
    lines.push(format!("kept: {}", preview.kept.join(", ")));
    lines.push(format!("waits for {} objects", deleted.len()));
    lines.join("\n") + "\n"
}

/// MS-RB-02: who else uses it: bundles that need the package or its kinds, operators that may touch them, webhooks of others.
#[test]
fn who_else_uses_it() {
    let (_, decided, _) = Scene::new().decide();
    let objects = &decided.record.unwrap().objects;
    let all: Vec<Owned> = objects.iter().cloned().map(|object| Owned { object, tie: Ok(Some(Tie::Reference)) }).collect();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]});
    let everything =
        json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let needs = json!([
        {"type": "olm.package.required", "value": {"packageName": "widgets", "versionRange": ">=1.0.0"}},
        {"type": "olm.gvk.required", "value": {"group": "example.com", "version": "v1", "kind": "Widget"}},
        {"type": "olm.package.required", "value": {"packageName": "sprockets", "versionRange": ">=1.0.0"}},
    ]);
    let others = [
        ("declares".to_owned(), other(&needs, vec![role.clone()])),
        ("touches".to_owned(), other(&json!([]), vec![role])),
        ("rules".to_owned(), other(&json!([]), vec![everything])),
    ];
    let hook = |name: &str, group: &str| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name}, "webhooks": [{"rules": [{"apiGroups": [group]}]}]})
    };
    let webhooks = [hook("theirs", "example.com"), hook("elsewhere", "example.org")];
    let facts = Facts { others: &others, webhooks: &webhooks, ..facts(&all) };
    let told = [Dependent { name: "told".to_owned(), needs: vec!["told.v1 requires package widgets >=1.0.0".to_owned()] }];
    let needs = needed_by("ClusterExtension", objects, "widgets", &others, &told);
    assert_eq!(
        needs,
        [
            "clusterextension told: told.v1 requires package widgets >=1.0.0",
            "clusterextension declares: gadgets.v1 requires package widgets >=1.0.0",
            "clusterextension declares: gadgets.v1 requires example.com/v1 Widget",
        ]
    );
    assert_eq!(plan(&Facts { needed_by: &needs, ..facts.clone() }).preview.needed_by, needs);
    assert_eq!(
        plan(&facts).preview.users,
        [
            "ClusterExtension touches (gadgets.v1): its operator may read or write widgets.example.com",
            "ValidatingWebhookConfiguration theirs: is called for widgets.example.com",
        ]
    );
}
