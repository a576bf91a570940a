//! Migrations to OLM v1: what stands in the way, what becomes of each object, and the steps.

use std::time::Duration;

use mainstay_bundle::{Bundle, CertificateProvider, RenderOptions, render};
use mainstay_objects::{Patch, Propagation, Step};
use mainstay_olm_classic_core::deployments::Strategy;
use mainstay_olm_classic_core::migration::{
    Facts, Fate, Migration, Obstacle, Offer, adopt, clear, copies, is_made_by_classic, plan, prepare, reference, stop, unannotate,
};
use mainstay_olm_classic_core::overrides::SubscriptionConfig;
use mainstay_olm_classic_core::owner::Owner;
use mainstay_olm_classic_core::permissions;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The state of a cluster with an operator that can be migrated.
#[derive(Clone)]
struct World {
    subscription: Value,
    csv: Value,
    csvs: Vec<Value>,
    plans: Vec<Value>,
    groups: Vec<Value>,
    condition: Option<Value>,
    owned: Vec<Value>,
    definitions: Vec<Value>,
    foreign: Vec<Value>,
    offer: Result<Offer, String>,
    applied: Vec<Value>,
    gates: bool,
}

fn owned(api: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api, "kind": kind, "metadata": {"namespace": "ops", "name": name, "uid": format!("{kind}-{name}"), "resourceVersion": "7",
        "labels": {"olm.owner": "beacon.v1", "olm.managed": "true", "app": "beacon", "operators.coreos.com/beacon.ops": ""},
        "ownerReferences": [{"kind": "ClusterServiceVersion", "name": "beacon.v1", "uid": "csv"}]}})
}

fn world() -> World {
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"namespace": "ops", "name": "beacon.v1", "uid": "csv"},
        "spec": {"version": "1.0.0", "customresourcedefinitions": {"owned": [{"name": "beacons.example.com"}]}},
        "status": {"phase": "Succeeded"}});
    let mut deployment = owned("apps/v1", "Deployment", "beacon");
    deployment["spec"]["template"] = json!({"spec": {"containers": [{"name": "manager", "image": "one"}]}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "beacons.example.com", "uid": "crd"}});
    let rendered = |object: &Value| json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"]}});
    let mut role = owned("rbac.authorization.k8s.io/v1", "ClusterRole", "beacon.v1-abc");
    role["metadata"].as_object_mut().unwrap().remove("namespace");
    role["rules"] = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let mut binding = owned("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "beacon.v1-abc");
    binding["metadata"].as_object_mut().unwrap().remove("namespace");
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "beacon.v1-abc"});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "beacon", "namespace": "ops"}]);
    let mut new = rendered(&role);
    new["metadata"]["name"] = "beacon-v1-xyz".into();
    let offer = Offer {
        catalog: "team".into(),
        bundle: "beacon.v1".into(),
        version: "1.0.0".into(),
        objects: vec![rendered(&deployment), rendered(&definition), new],
        needs: vec![],
    };
    World {
        subscription: json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"namespace": "ops", "name": "beacon", "uid": "sub"},
            "spec": {"name": "beacon", "channel": "stable"}}),
        csvs: vec![csv.clone()],
        csv,
        plans: vec![],
        groups: vec![json!({"metadata": {"name": "group"}, "status": {"namespaces": [""]}})],
        condition: None,
        applied: vec![deployment.clone()],
        owned: vec![deployment, role, binding],
        definitions: vec![definition],
        foreign: vec![],
        offer: Ok(offer),
        gates: true,
    }
}

impl World {
    fn plan(&self) -> Migration {
        plan(&Facts {
            subscription: (!self.subscription.is_null()).then_some(&self.subscription),
            csv: (!self.csv.is_null()).then_some(&self.csv),
            csvs: &self.csvs,
            plans: &self.plans,
            groups: &self.groups,
            condition: self.condition.as_ref(),
            owned: &self.owned,
            definitions: &self.definitions,
            foreign: &self.foreign,
            offer: self.offer.as_ref().map_err(String::as_str),
            applied: &self.applied,
            takes_config: self.gates,
            takes_watch: self.gates,
        })
    }
}

fn fate(migration: &Migration, kind: &str) -> Vec<Fate> {
    migration.objects.iter().filter(|one| one.place.kind == kind).map(|one| one.fate).collect()
}

/// MS-RB-03: what both know by the same name stays, permissions get other names, and Pods restart only if their template changes.
#[test]
fn objects_are_adopted_or_replaced() {
    let mut world = world();
    let migration = world.plan();
    assert_eq!((migration.obstacles.as_slice(), migration.restarts.as_slice()), (&[][..], &[][..]));
    assert_eq!(fate(&migration, "Deployment"), [Fate::Adopted]);
    assert_eq!(fate(&migration, "CustomResourceDefinition"), [Fate::Adopted]);
    assert_eq!(fate(&migration, "ClusterRole"), [Fate::Created, Fate::Removed]);
    assert!(!migration.keeps_pin);
    world.applied[0]["spec"]["template"]["spec"]["containers"][0]["image"] = "two".into();
    world.subscription["spec"]["installPlanApproval"] = "Manual".into();
    let migration = world.plan();
    assert_eq!(migration.restarts, ["Deployment ops/beacon"]);
    assert!(migration.keeps_pin);
}

/// MS-RB-03: each reason against a migration is found by itself, and named.
#[test]
fn obstacles_are_named() {
    let change = |change: fn(&mut World)| {
        let mut world = world();
        change(&mut world);
        world.plan().obstacles
    };
    let message = |obstacles: Vec<Obstacle>| obstacles.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    for (found, expected) in [
        (change(|world| world.subscription = Value::Null), "no Subscription asks for it"),
        (change(|world| world.csv = Value::Null), "has no installed CSV"),
        (change(|world| world.csv["status"]["phase"] = "Failed".into()), r#"csv beacon.v1 is in phase "Failed""#),
        (change(|world| world.groups.clear()), "has 0 OperatorGroups"),
        (change(|world| world.groups[0]["status"]["namespaces"] = json!(["a", "b"])), "watches several namespaces (a, b)"),
        (change(|world| world.groups[0]["status"]["namespaces"] = json!([])), "selects no namespace"),
        (
            change(|world| {
                world.gates = false;
                world.groups[0]["status"]["namespaces"] = json!(["ops"]);
            }),
            "SingleOwnNamespaceInstallSupport",
        ),
        (
            change(|world| {
                world.gates = false;
                world.subscription["spec"]["config"] = json!({"env": []});
            }),
            "DeploymentConfig",
        ),
        (
            change(|world| {
                world.condition = Some(json!({"spec": {"overrides": [{"type": "Upgradeable", "status": "False", "message": "busy"}]}}));
            }),
            "operatorcondition beacon.v1 does not allow it: the operator is not upgradeable: busy",
        ),
        (
            change(|world| {
                world.plans.push(
                    json!({"metadata": {"name": "install-1", "ownerReferences": [{"uid": "sub"}]}, "status": {"phase": "Installing"}}),
                );
            }),
            "installplan install-1 is being carried out",
        ),
        (
            change(|world| world.csv["spec"]["customresourcedefinitions"]["required"] = json!([{"name": "lamps.example.com"}])),
            "it needs what OLM v1 does not bring: CRD lamps.example.com",
        ),
        (
            change(|world| {
                world.csvs.push(json!({"metadata": {"namespace": "b", "name": "other.v1"},
                    "spec": {"customresourcedefinitions": {"owned": [{"name": "beacons.example.com"}]}}}));
            }),
            "other operators share its APIs: CSV b/other.v1 provides",
        ),
        (change(|world| world.csv["spec"]["apiservicedefinitions"]["owned"] = json!([{"name": "v1"}])), "APIServices"),
        (change(|world| world.offer = Err("package beacon: not found".to_owned())), "OLM v1 does not offer it: package beacon: not found"),
        (
            change(|world| {
                world.foreign.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "ops", "name": "x"}}));
            }),
            "are not the operator's: Service ops/x",
        ),
    ] {
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(message(found.clone()).contains(expected), "{found:?}: {expected}");
    }
}

/// MS-RB-03: the CSV's clean-up, which deletes custom resources, is off before the CSV goes, and the CSV goes without its dependents. Copies of
/// the permissions name each other.
#[test]
fn nothing_is_lost_on_the_way() {
    let mut world = world();
    world.csv["spec"]["cleanup"]["enabled"] = true.into();
    let steps = prepare(&world.csv, &world.owned, "beacon");
    let Step::Patch { object, patch: Patch::Merge(patch), .. } = &steps[0] else { panic!("{steps:?}") };
    assert_eq!((object.kind.as_str(), &patch["spec"]["cleanup"]["enabled"]), ("ClusterServiceVersion", &json!(false)));
    let [Step::CreateOnce(role), Step::CreateOnce(binding)] = &steps[1..] else { panic!("{steps:?}") };
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    assert!(role["metadata"]["labels"]["olm.owner"].is_null(), "OLM classic would delete it with the CSV");
    let stops = stop(&world.subscription, &world.csv, Duration::from_secs(1));
    let deletes: Vec<(&str, Propagation)> = stops
        .iter()
        .filter_map(|step| match step {
            Step::Delete { object, propagation, expect } => {
                assert!(expect.uid.is_some(), "an object of the same name is not deleted");
                Some((object.kind.as_str(), *propagation))
            }
            _ => None,
        })
        .collect();
    assert_eq!(deletes, [("Subscription", Propagation::Background), ("ClusterServiceVersion", Propagation::Orphan)]);
}

/// MS-RB-03: adopting an object twice changes nothing the second time.
#[test]
fn adoption_can_be_repeated() {
    let labels = [
        ("olm.operatorframework.io/owner-kind".to_owned(), "ClusterExtension".to_owned()),
        ("olm.operatorframework.io/owner-name".to_owned(), "beacon".to_owned()),
    ];
    let mut object = owned("apps/v1", "Deployment", "beacon");
    let steps = adopt(std::slice::from_ref(&object), &labels);
    let [Step::Patch { patch: Patch::Merge(patch), .. }] = steps.as_slice() else { panic!("{steps:?}") };
    merge(&mut object, patch);
    assert_eq!(
        object["metadata"]["labels"],
        json!({"app": "beacon", "olm.managed": "true",
        "olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "beacon"})
    );
    assert!(object["metadata"].get("ownerReferences").is_none());
    assert!(adopt(&[object], &labels).is_empty());
}

/// MS-RB-04: on the way back an object loses the annotations that the extension brought, and those alone.
#[test]
fn annotations_of_the_extension_go() {
    let service = |annotations: Value| {
        let mut object = owned("v1", "Service", "hooks");
        object["metadata"]["annotations"] = annotations;
        object
    };
    let before = service(json!({"team": "blue"}));
    let rendered = service(json!({"team": "blue", "serving-cert": "hooks-cert"}));
    let mut live = service(json!({"team": "green", "serving-cert": "hooks-cert", "signed-by": "somebody"}));
    let made = owned("v1", "ConfigMap", "made");
    let both = [rendered, made.clone()];
    let steps = unannotate(&[live.clone(), made], &both, std::slice::from_ref(&before));
    let [Step::Patch { patch: Patch::Merge(patch), .. }] = steps.as_slice() else { panic!("{steps:?}") };
    merge(&mut live, patch);
    assert_eq!(live["metadata"]["annotations"], json!({"team": "green", "signed-by": "somebody"}));
    assert!(unannotate(&[live], &both, &[before]).is_empty(), "it can be repeated");
}

/// A JSON merge patch.
fn merge(object: &mut Value, patch: &Value) {
    let (Some(object), Some(patch)) = (object.as_object_mut(), patch.as_object()) else { return };
    for (key, value) in patch {
        match value {
            Value::Null => drop(object.remove(key)),
            Value::Object(_) => merge(object.entry(key.clone()).or_insert_with(|| json!({})), value),
            value => drop(object.insert(key.clone(), value.clone())),
        }
    }
}

proptest! {
    /// MS-RB-03: for random objects, no step removes a CRD, or an object that OLM classic did not make, or one that the bundle holds.
    #[test]
    fn no_definition_is_removed(kinds in proptest::collection::vec((0..4usize, any::<bool>(), any::<bool>()), 0..12)) {
        let mut world = world();
        let names = ["CustomResourceDefinition", "ConfigMap", "Role", "Secret"];
        for (at, (kind, made, rendered)) in kinds.into_iter().enumerate() {
            let mut object = owned("v1", names[kind], &format!("o{at}"));
            if !made {
                object["metadata"].as_object_mut().unwrap().remove("labels");
            }
            if rendered && let Ok(offer) = &mut world.offer {
                offer.objects.push(object.clone());
            }
            world.owned.push(object);
        }
        let migration = world.plan();
        for future in migration.objects.iter().filter(|future| future.fate == Fate::Removed) {
            let object = world.owned.iter().find(|object| reference(object).same(&future.place)).unwrap();
            prop_assert!(future.place.kind != "CustomResourceDefinition" && is_made_by_classic(object));
        }
        let left: Vec<&Value> = world.owned.iter().filter(|object| is_made_by_classic(object)).collect();
        for step in clear(&left, &copies(&world.owned, "beacon")) {
            let Step::Delete { object, .. } = step else { panic!("{step:?}") };
            prop_assert!(object.kind != "CustomResourceDefinition");
        }
    }
}

/// MS-RB-03: over the real bundles, every Deployment that OLM classic installs is one that OLM v1 renders, so that it is adopted; what OLM v1
/// does not render are permissions, and they are removed.
#[test]
fn real_deployments_are_adopted() {
    let Some(bundles) = mainstay_testing::bundles::bundles() else { return };
    let mut seen = 0;
    for (name, files) in bundles {
        let Ok(bundle) = Bundle::read(files) else { continue };
        let csv = &bundle.csv;
        let options = RenderOptions {
            install_namespace: "ops".to_owned(),
            target_namespaces: (!csv.supports("AllNamespaces")).then(|| vec!["ops".to_owned()]),
            certificates: CertificateProvider::CertManager,
            deployment: None,
        };
        let Ok(rendered) = render(&bundle, &options) else { continue };
        let owner = Owner { api_version: csv.api_version(), name: &csv.name, namespace: "ops", uid: "csv" };
        let config = SubscriptionConfig::default();
        let mut live: Vec<Value> = Strategy { csv, owner, config: &config, proxy: &[] }
            .deployments()
            .into_iter()
            .map(|object| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object["metadata"], "spec": object["spec"]}))
            .collect();
        for (account, granted) in permissions::of(csv, &owner).unwrap() {
            if account != "default" {
                live.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": granted.service_account["metadata"]}));
            }
            for (kind, list) in [("Role", granted.roles), ("ClusterRole", granted.cluster_roles)] {
                live.extend(
                    list.into_iter()
                        .map(|role| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": role["metadata"]})),
                );
            }
        }
        let mut world = world();
        world.offer =
            Ok(Offer { catalog: "team".into(), bundle: csv.name.clone(), version: csv.version.clone(), objects: rendered, needs: vec![] });
        for object in &mut live {
            object["metadata"]["namespace"] = if object["kind"] == "ClusterRole" { Value::Null } else { "ops".into() };
        }
        world.owned = live;
        world.definitions = bundle.crds.clone();
        let migration = world.plan();
        for kind in ["Deployment", "ServiceAccount", "CustomResourceDefinition"] {
            let fates = fate(&migration, kind);
            let stays = fates.iter().all(|fate| matches!(fate, Fate::Adopted | Fate::Created));
            assert!(stays && (kind != "Deployment" || !fates.contains(&Fate::Created)), "{name}: {kind} {fates:?}");
        }
        for future in migration.objects.iter().filter(|future| future.fate == Fate::Removed) {
            assert!(matches!(future.place.kind.as_str(), "Role" | "ClusterRole"), "{name}: {}", future.object);
        }
        seen += 1;
    }
    assert!(seen > 50, "{seen} bundles");
}
