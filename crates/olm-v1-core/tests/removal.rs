//! What removing an extension would take away.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use mainstay_lifecycle::removal::Dependent;
use mainstay_lifecycle::removal::{Counted, Facts, needed_by, preview};
use mainstay_lifecycle::revision::{InstalledBundle, Record};
use mainstay_objects::ObjectRef;
use serde_json::{Value, json};

use crate::scene::Scene;

fn other(properties: &Value, objects: Vec<Value>) -> Record {
    let bundle =
        InstalledBundle { package: "gadgets".into(), name: "gadgets.v1".into(), version: "1.0.0".into(), reference: String::new() };
    Record { bundle, annotations: BTreeMap::from([("olm.properties".to_owned(), properties.to_string())]), objects }
}

fn owned(kind: &str, namespace: &str, owner: (&str, &str)) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "namespace": namespace,
        "ownerReferences": [{"apiVersion": owner.0, "kind": owner.1, "name": "a"}]}})
}

/// MS-RB-02, OLM1-INST-15: everything goes in order, CRDs and the installer's account too; custom resources and what was made for them are
/// counted by kind and namespace; the namespace stays, and so does what is asked to.
#[test]
fn what_goes_and_what_stays() {
    let (_, plan, _) = Scene::new().decide();
    let mut objects = plan.record.unwrap().objects;
    let kept = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "work", "annotations": {"helm.sh/resource-policy": "keep"}}});
    objects.push(kept);
    let dependents = [
        owned("Deployment", "a", ("example.com/v1", "Widget")),
        owned("Deployment", "a", ("example.com/v1beta1", "Widget")),
        owned("ConfigMap", "b", ("example.com/v1", "Widget")),
        owned("ConfigMap", "b", ("example.org/v1", "Widget")),
    ];
    let account =
        ObjectRef { api_version: "v1".into(), kind: "ServiceAccount".into(), namespace: "work".into(), name: "widgets-installer".into() };
    let facts = Facts {
        objects: &objects,
        package: "widgets",
        instances: BTreeMap::from([("widgets.example.com".to_owned(), Ok(vec!["a".to_owned(), "b".to_owned(), "a".to_owned()]))]),
        operands: &dependents,
        installer: std::slice::from_ref(&account),
        namespace: "work",
        ..Facts::default()
    };
    let seen = preview(&facts);
    assert_eq!(seen.deleted.first().unwrap(), "Deployment work/widgets");
    assert_eq!(seen.deleted.last().unwrap(), "CustomResourceDefinition widgets.example.com");
    assert_eq!(seen.kept, ["Namespace work", "ConfigMap work/kept"]);
    assert_eq!(seen.installer, ["ServiceAccount work/widgets-installer"]);
    assert_eq!(seen.definitions[0].namespaces, BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]));
    assert_eq!((seen.definitions[0].instances, seen.used().count()), (Some(3), 1));
    let counted = |kind: &str, namespace: &str, count| Counted { kind: kind.into(), namespace: namespace.into(), count };
    assert_eq!(seen.operands, [counted("ConfigMap", "b", 1), counted("Deployment", "a", 2)]);

    // What is not known may be there.
    let forbidden = BTreeMap::from([("widgets.example.com".to_owned(), Err("forbidden".to_owned()))]);
    for instances in [forbidden, BTreeMap::new()] {
        let blind = preview(&Facts { instances, ..facts.clone() });
        assert_eq!((blind.definitions[0].instances, blind.used().count()), (None, 1));
        assert!(blind.definitions[0].unknown.is_some());
    }
    let keeping = preview(&Facts { keep_definitions: true, ..facts });
    assert!(!keeping.deleted.iter().any(|what| what.contains("CustomResourceDefinition")), "{keeping:?}");
    assert!(keeping.kept.contains(&"CustomResourceDefinition widgets.example.com".to_owned()), "{keeping:?}");
}

/// MS-RB-02: who else uses it: bundles that need the package or its kinds, operators that may touch them, webhooks of others.
#[test]
fn who_else_uses_it() {
    let (_, plan, _) = Scene::new().decide();
    let objects = plan.record.unwrap().objects;
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
    let facts = Facts {
        kind: "ClusterExtension",
        objects: &objects,
        package: "widgets",
        others: &others,
        webhooks: &webhooks,
        namespace: "work",
        ..Facts::default()
    };
    let told = [Dependent { name: "told".to_owned(), needs: vec!["told.v1 requires package widgets >=1.0.0".to_owned()] }];
    let needs = needed_by("ClusterExtension", &objects, "widgets", &others, &told);
    assert_eq!(
        needs,
        [
            "clusterextension told: told.v1 requires package widgets >=1.0.0",
            "clusterextension declares: gadgets.v1 requires package widgets >=1.0.0",
            "clusterextension declares: gadgets.v1 requires example.com/v1 Widget",
        ]
    );
    assert_eq!(preview(&Facts { needed_by: &needs, ..facts.clone() }).needed_by, needs);
    assert_eq!(
        preview(&facts).users,
        [
            "ClusterExtension touches (gadgets.v1): its operator may read or write widgets.example.com",
            "ValidatingWebhookConfiguration theirs: is called for widgets.example.com",
        ]
    );
}
