//! What a changed CRD does to the custom resources that exist: what the API server would say of them, and what they would lose.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use mainstay_bundle::Bundle;
use mainstay_lifecycle::preview::{CustomResources, Existing, Step};
use mainstay_lifecycle::revision::State;
use mainstay_olm_v1_core::extension::preview::{self, Extra};
use serde_json::{Value, json};

use crate::scene::{Content, Scene, files, image};

/// The bundle of a version with its CRD changed.
fn bundle(version: &str, change: impl FnOnce(&mut Value)) -> Arc<Bundle> {
    let mut all = files(version, &Content::default());
    let crd = all.iter_mut().find(|(name, _)| name == "manifests/crd.yaml").unwrap();
    let mut object: Value = serde_json::from_str(&crd.1).unwrap();
    change(&mut object);
    crd.1 = object.to_string();
    Arc::new(Bundle::read(all.into_iter().map(|(path, text)| (path, text.into_bytes()))).unwrap())
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "work"}, "spec": spec})
}

/// The upgrade from 1.0.0 to 1.1.0, where these custom resources exist.
fn upgrade(old: impl FnOnce(&mut Value), new: impl FnOnce(&mut Value), objects: &[Value]) -> Step {
    let mut scene = Scene::new();
    scene.bundles.insert(image("1.0.0"), Ok(bundle("1.0.0", old)));
    scene.bundles.insert(image("1.1.0"), Ok(bundle("1.1.0", new)));
    scene.have("1.0.0", State::Deployed);
    scene.request("version", json!("1.1.0"));
    scene.request("upgradeConstraintPolicy", json!("SelfCertified"));
    scene.extension["spec"]["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
    let (_, plan, snapshot) = scene.decide();
    let mut extra = Extra::default();
    let found = CustomResources { count: objects.len(), objects: objects.to_vec() };
    extra.instances.insert("widgets.example.com".to_owned(), Ok(found));
    preview::step(&snapshot, &plan, &extra)
}

fn existing(old: impl FnOnce(&mut Value), new: impl FnOnce(&mut Value), objects: &[Value]) -> Existing {
    upgrade(old, new, objects).custom_resource_definitions[0].existing.clone().unwrap()
}

fn spec(crd: &mut Value) -> &mut Value {
    &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
}

fn rules(all: &Value) -> impl FnOnce(&mut Value) {
    let all = all.clone();
    move |crd| spec(crd)["x-kubernetes-validations"] = all
}

fn same(_: &mut Value) {}

/// MS-PLAN-01: the rules of the new schema are run over the custom resources that exist, by the function that the API server uses; rule,
/// message and instance are named. Rules about changes do not judge what lies there, unless they say that they do.
#[test]
fn rules_of_the_new_schema() {
    let objects = [widget("small", &json!({"size": 1})), widget("large", &json!({"size": 11}))];
    let small = json!([{"rule": "self.size < 10", "message": "too large"}]);
    let found = existing(same, rules(&small), &objects);
    assert_eq!(found.invalid, ["work/large: spec: Invalid value: too large (rule: self.size < 10)"]);
    assert_eq!((found.count, found.checked, found.invalid_count, found.losing_count), (2, 2, 1, 0));
    // What the installed schema says, too, is nothing new.
    let both = json!([{"rule": "self.size < 10", "message": "too large"}, {"rule": "true"}]);
    assert_eq!(existing(rules(&small), rules(&both), &objects).invalid_count, 0);
    let transition = json!([{"rule": "self.size < oldSelf.size", "message": "only smaller"}]);
    assert_eq!(existing(same, rules(&transition), &objects), Existing { count: 2, checked: 2, ..Existing::default() });
    let optional = json!([{"rule": "oldSelf.hasValue() || self.size < 10", "optionalOldSelf": true, "message": "too large at first"}]);
    let found = existing(same, rules(&optional), &objects);
    assert_eq!(found.invalid, ["work/large: spec: Invalid value: too large at first (rule: oldSelf.hasValue() || self.size < 10)"]);
    let step = upgrade(same, rules(&small), &objects);
    assert!(
        step.warnings.contains(&"CustomResourceDefinition widgets.example.com: 1 custom resource would no longer validate".to_owned()),
        "{:?}",
        step.warnings
    );
}

/// MS-PLAN-01: rules see what the API server would show them: defaults of the new schema are there, values of the wrong type are told
/// instead, and rules that cost too much end.
#[test]
fn rules_see_what_the_server_shows() {
    let with_colour = |crd: &mut Value| {
        let spec = spec(crd);
        spec["properties"]["colour"] = json!({"type": "string", "default": "red"});
        spec["required"] = json!(["colour"]);
        spec["x-kubernetes-validations"] = json!([{"rule": "self.colour == 'red'", "message": "only red"}]);
    };
    let found = existing(same, with_colour, &[widget("plain", &json!({"size": 1}))]);
    assert_eq!(found.invalid_count, 0, "{found:?}");
    let without_default = |crd: &mut Value| {
        with_colour(crd);
        spec(crd)["properties"]["colour"] = json!({"type": "string"});
    };
    let found = existing(same, without_default, &[widget("plain", &json!({"size": 1}))]);
    assert_eq!(found.invalid, ["work/plain: spec.colour: Required value"]);
    let costly = |crd: &mut Value| {
        spec(crd)["properties"]["list"] = json!({"type": "array", "items": {"type": "integer"}});
        spec(crd)["x-kubernetes-validations"] =
            json!([{"rule": "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))", "message": "no"}]);
    };
    let list = |crd: &mut Value| spec(crd)["properties"]["list"] = json!({"type": "array", "items": {"type": "integer"}});
    let long: Vec<u32> = (0..300).collect();
    let many: Vec<Value> = (0..40).map(|index| widget(&format!("w{index}"), &json!({"list": long}))).collect();
    let found = existing(list, costly, &many);
    assert!(found.invalid[0].contains("cost"), "{found:?}");
    assert!(found.notes.is_empty() || found.notes[0].contains("too costly"), "{found:?}");
    // One that cannot be compiled is told.
    let found = existing(same, rules(&json!([{"rule": "self.nothing > 1"}])), &[widget("plain", &json!({"size": 1}))]);
    assert!(found.notes[0].starts_with("the rules of v1 cannot be compiled, and the API server will refuse them"), "{found:?}");
}

/// MS-PLAN-01: which custom resources would lose data, because fields are gone or renamed.
#[test]
fn fields_that_are_lost() {
    let colour = |crd: &mut Value| spec(crd)["properties"]["colour"] = json!({"type": "string"});
    let renamed = |crd: &mut Value| spec(crd)["properties"]["color"] = json!({"type": "string"});
    let objects = [widget("red", &json!({"size": 1, "colour": "red"})), widget("plain", &json!({"size": 1}))];
    let step = upgrade(colour, renamed, &objects);
    let found = step.custom_resource_definitions[0].existing.clone().unwrap();
    assert_eq!((found.losing, found.losing_count, found.invalid_count), (vec!["work/red: spec.colour".to_owned()], 1, 0));
    assert!(step.warnings.iter().any(|line| line.ends_with("1 custom resource would lose data")), "{:?}", step.warnings);
    // A field that is only taken away, as a rollback does: nothing that is wanted differs from what is there.
    let found = existing(colour, same, &objects);
    assert_eq!((found.losing, found.losing_count), (vec!["work/red: spec.colour".to_owned()], 1));
    let keeps = |crd: &mut Value| spec(crd)["x-kubernetes-preserve-unknown-fields"] = json!(true);
    assert_eq!(existing(colour, keeps, &objects).losing_count, 0);
}

/// MS-PLAN-01: a version that is gone, one that is only no longer served, and one that is stored instead: custom resources are held
/// against the version in which they will be read.
#[test]
fn versions_that_go() {
    let second = |crd: &mut Value, served: bool, size: &Value| {
        let mut version = crd["spec"]["versions"][0].clone();
        version["name"] = json!("v2");
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] = size.clone();
        crd["spec"]["versions"][0]["served"] = json!(served);
        crd["spec"]["versions"][0]["storage"] = json!(false);
        crd["spec"]["versions"].as_array_mut().unwrap().push(version);
    };
    let (small, large) = (widget("small", &json!({"size": 1})), widget("large", &json!({"size": 11})));
    let objects = [small, large];
    let limit = json!({"type": "integer", "maximum": 10});
    let said = ["work/large: as v2: spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"];
    assert_eq!(existing(same, |crd| second(crd, false, &limit), &objects).invalid, said);
    assert_eq!(existing(same, |crd| second(crd, true, &limit), &objects).invalid, said);
    let gone = |crd: &mut Value| {
        second(crd, true, &json!({"type": "integer"}));
        crd["spec"]["versions"].as_array_mut().unwrap().remove(0);
    };
    assert_eq!(existing(same, gone, &objects).invalid, ["work/small: version v1 is gone", "work/large: version v1 is gone"]);
    // A webhook may turn one into the other; nobody knows what into.
    let converts = |crd: &mut Value| {
        second(crd, true, &limit);
        let service = json!({"namespace": "work", "name": "widgets", "path": "/convert"});
        crd["spec"]["conversion"] =
            json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}}});
    };
    let found = existing(same, converts, &objects);
    assert_eq!((found.invalid_count, found.notes), (0, vec!["what the conversion webhook makes of them as v2 is not known".to_owned()]));
}

/// MS-PLAN-01: with very many custom resources the first are named, and all are counted.
#[test]
fn all_are_counted() {
    let objects: Vec<Value> = (0..50).map(|index| widget(&format!("w{index}"), &json!({"size": 11}))).collect();
    let found = existing(same, rules(&json!([{"rule": "self.size < 10"}])), &objects);
    assert_eq!((found.invalid_count, found.invalid.len()), (50, 21));
    assert_eq!(found.invalid[20], "... and 30 more");
    assert_eq!(found.invalid[0], "work/w0: spec: Invalid value: failed rule: self.size < 10");
}
