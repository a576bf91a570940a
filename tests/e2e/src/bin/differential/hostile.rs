//! Changes that make a good body a bad, odd or merely different one.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// Names of metadata with values of every kind of wrongness, and some that are right.
fn metadata(dice: &mut Dice) -> (&'static str, Value) {
    let long = "x".repeat(300);
    let all = [
        ("name", json!("other")),
        ("name", json!("Not_A_Name")),
        ("name", Value::Null),
        ("name", json!(7)),
        ("namespace", json!("default")),
        ("namespace", json!("")),
        ("generateName", json!("gen-")),
        ("labels", json!({"a": "b"})),
        ("labels", json!({"a/b/c": "d"})),
        ("labels", json!({"a": "not a value!"})),
        ("labels", json!({"a": 1})),
        ("labels", json!([])),
        ("labels", Value::Null),
        ("annotations", json!({"a": "b", "example.com/x": ""})),
        ("annotations", json!({"Bad Key": "b"})),
        ("annotations", json!({"a": null})),
        ("resourceVersion", json!("1")),
        ("resourceVersion", json!("nonsense")),
        ("resourceVersion", json!("")),
        ("resourceVersion", json!("0")),
        ("uid", json!("00000000-0000-0000-0000-000000000000")),
        ("uid", json!("")),
        ("generation", json!(5)),
        ("generation", json!(-1)),
        ("creationTimestamp", json!("2020-01-01T00:00:00Z")),
        ("creationTimestamp", json!("yesterday")),
        ("creationTimestamp", Value::Null),
        ("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(10)),
        ("finalizers", json!(["example.com/hold"])),
        ("finalizers", json!(["nonsense"])),
        ("finalizers", json!(["kubernetes"])),
        ("finalizers", json!([])),
        ("finalizers", json!("x")),
        ("ownerReferences", json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}])),
        (
            "ownerReferences",
            json!([
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "controller": true},
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "p", "uid": "v", "controller": true}
            ]),
        ),
        ("ownerReferences", json!([{"kind": "ConfigMap"}])),
        ("ownerReferences", json!([{"apiVersion": "v1", "kind": "Event", "name": "o", "uid": "u", "blockOwnerDeletion": true}])),
        ("managedFields", json!([])),
        ("managedFields", json!([{}])),
        ("managedFields", Value::Null),
        (
            "managedFields",
            json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:x": {}}}]),
        ),
        ("managedFields", json!([{"manager": "m", "operation": "Nonsense"}])),
        ("managedFields", json!([{"manager": "m", "operation": "Apply", "fieldsV1": {"x": {}}}])),
        ("selfLink", json!("/x")),
        ("unknown", json!(1)),
        ("annotations", json!({"a": long})),
    ];
    dice.one(&all).clone()
}

/// A value that may stand anywhere.
fn anything(dice: &mut Dice) -> Value {
    let all = [
        Value::Null,
        json!(""),
        json!("x"),
        json!("Not A Name!"),
        json!("10"),
        json!("1.5Gi"),
        json!(0),
        json!(1),
        json!(-1),
        json!(65536),
        json!(2_147_483_648_i64),
        json!(1.5),
        json!(1e30),
        json!(true),
        json!(false),
        json!([]),
        json!([null]),
        json!(["a", "a"]),
        json!({}),
        json!({"unknown": 1}),
        json!({"": ""}),
    ];
    dice.one(&all).clone()
}

/// Changes one place of an object.
pub fn change(dice: &mut Dice, object: &mut Value) {
    match dice.below(10) {
        0..=2 => {
            let (key, value) = metadata(dice);
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.insert(key.to_owned(), value);
            }
        }
        3 => {
            let (key, value) = dice
                .one(&[
                    ("apiVersion", json!("v9")),
                    ("apiVersion", json!("apps/v1")),
                    ("apiVersion", json!("")),
                    ("kind", json!("ConfigMap")),
                    ("kind", json!("Nonsense")),
                    ("kind", json!("")),
                    ("kind", json!(3)),
                    ("metadata", Value::Null),
                    ("metadata", json!([])),
                    ("spec", json!("x")),
                    ("status", json!({"phase": "Odd", "observedGeneration": 3})),
                    ("unknown", json!({"a": 1})),
                ])
                .clone();
            object[key] = value;
        }
        _ => {
            let mut places = Vec::new();
            collect(object, String::new(), &mut places);
            places.retain(|place| place.starts_with('/') && !place.starts_with("/metadata") && place != "/kind" && place != "/apiVersion");
            if places.is_empty() {
                return;
            }
            let place = dice.one(&places).clone();
            edit(dice, object, &place);
        }
    }
}

fn edit(dice: &mut Dice, object: &mut Value, place: &str) {
    let (parent, key) = place.rsplit_once('/').unwrap_or_default();
    let Some(parent) = object.pointer_mut(parent) else { return };
    match (dice.below(4), parent) {
        (0, Value::Object(members)) => {
            members.remove(key);
        }
        (0, Value::Array(items)) => {
            if let Some(item) = key.parse::<usize>().ok().and_then(|index| items.get(index)).cloned() {
                items.push(item);
            }
        }
        (1, Value::Object(members)) => {
            members.insert("unknown".to_owned(), anything(dice));
        }
        (_, Value::Object(members)) => {
            members.insert(key.replace("~1", "/").replace("~0", "~"), anything(dice));
        }
        (_, Value::Array(items)) => {
            if let Some(item) = key.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                *item = anything(dice);
            }
        }
        _ => {}
    }
}

fn collect(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                collect(value, format!("{place}/{}", key.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, format!("{place}/{index}"), places);
            }
        }
        _ => {}
    }
    places.push(place);
}

/// A text that is hardly a JSON object, made of one that is.
pub fn text(dice: &mut Dice, object: &Value) -> String {
    let good = object.to_string();
    let kind = object["kind"].as_str().unwrap_or_default();
    match dice.below(14) {
        0 => String::new(),
        1 => "null".to_owned(),
        2 => "[]".to_owned(),
        3 => "\"x\"".to_owned(),
        4 => good[..good.len() / 2].to_owned(),
        5 => format!("{good} x"),
        6 => good.replacen('{', &format!("{{\"kind\":{kind:?},"), 1),
        7 => good.replacen("\"metadata\":{", "\"metadata\":{\"name\":\"first\",\"labels\":{\"a\":\"1\",\"a\":\"2\"},", 1),
        8 => good.replacen('{', "{\"unknown\":1,\"unknown\":2,", 1),
        9 => format!("# yaml\n{good}"),
        10 => format!("{good}{good}"),
        11 => good.replacen("\"metadata\"", "\"Metadata\"", 1),
        12 => good.replacen("\"kind\"", "\"KIND\"", 1),
        _ => format!("\u{feff}{good}"),
    }
}

/// The smallest object of a kind: what is applied to own nothing more.
pub fn bare(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": object["metadata"]["name"]}})
}

/// A part of an object: some of its leaves, as a manager applies or a merge patch sets.
pub fn part(dice: &mut Dice, object: &Value) -> Value {
    let mut part = bare(object);
    for (key, value) in
        object.as_object().into_iter().flatten().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"))
    {
        if dice.percent(70) {
            part[key] = value.clone();
        }
    }
    for (kind, key) in [("labels", "number"), ("labels", "x"), ("annotations", "y")] {
        if dice.percent(40) {
            part["metadata"][kind][key] = (*dice.one(&["1", "2", "three"])).into();
        }
    }
    part
}

/// Members of metadata as a JSON Patch reaches them.
pub fn operations(dice: &mut Dice, object: &Value) -> Value {
    let mut places = Vec::new();
    collect(object, String::new(), &mut places);
    let mut operations = Vec::new();
    for _ in 0..=dice.below(3) {
        let (path, other) = (dice.one(&places).clone(), dice.one(&places).clone());
        operations.push(match dice.below(12) {
            0 => json!({"op": "add", "path": "/metadata/labels/new", "value": "v"}),
            1 => json!({"op": "add", "path": "/metadata/annotations/new", "value": "v"}),
            2 => json!({"op": "remove", "path": path}),
            3 => json!({"op": "replace", "path": path, "value": anything(dice)}),
            4 => json!({"op": "add", "path": path, "value": anything(dice)}),
            5 => json!({"op": "test", "path": path, "value": object.pointer(&path).cloned().unwrap_or_default()}),
            6 => json!({"op": "move", "from": path, "path": "/metadata/annotations"}),
            7 => json!({"op": "copy", "from": path, "path": other}),
            8 => json!({"op": "remove", "path": "/nowhere/at/all"}),
            9 => json!({"op": "nonsense", "path": path}),
            10 => json!({"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/x"}),
            _ => json!({"path": path}),
        });
    }
    Value::Array(operations)
}

/// A strategic merge patch, with directives.
pub fn strategic(dice: &mut Dice, object: &Value) -> Value {
    let mut patch = part(dice, object);
    match dice.below(8) {
        0 => patch["metadata"]["labels"] = json!({"$patch": "replace", "only": "this"}),
        1 => patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!(["example.com/hold"]),
        2 => patch["spec"] = json!({"$retainKeys": ["replicas"], "replicas": 2}),
        3 => patch["spec"] = json!({"template": {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}}}),
        4 => {
            patch["spec"] = json!({"template": {"spec": {"$setElementOrder/containers": [{"name": "n"}, {"name": "c"}], "containers": [{"name": "n", "image": "j"}]}}});
        }
        5 => patch["$patch"] = json!("delete"),
        6 => patch["metadata"]["labels"] = json!({"$patch": "nonsense"}),
        _ => {}
    }
    patch
}

/// `DeleteOptions` of every kind.
pub fn delete_options(dice: &mut Dice) -> Value {
    let members = [
        ("gracePeriodSeconds", json!(0)),
        ("gracePeriodSeconds", json!(-5)),
        ("gracePeriodSeconds", json!(3)),
        ("gracePeriodSeconds", json!("soon")),
        ("propagationPolicy", json!("Foreground")),
        ("propagationPolicy", json!("Orphan")),
        ("propagationPolicy", json!("Background")),
        ("propagationPolicy", json!("Nonsense")),
        ("propagationPolicy", json!("")),
        ("orphanDependents", json!(true)),
        ("orphanDependents", json!(false)),
        ("preconditions", json!({"uid": "00000000-0000-0000-0000-000000000000"})),
        ("preconditions", json!({"resourceVersion": "1"})),
        ("preconditions", json!({"uid": ""})),
        ("preconditions", json!({})),
        ("preconditions", json!("x")),
        ("dryRun", json!(["All"])),
        ("dryRun", json!(["Some"])),
        ("dryRun", json!("All")),
        ("dryRun", json!(["All", "All"])),
        ("unknown", json!(1)),
        ("metadata", json!({"name": "x"})),
        ("ignoreStoreReadErrorWithClusterBreakingPotential", json!(true)),
        ("ignoreStoreReadErrorWithClusterBreakingPotential", json!(false)),
    ];
    let mut options = Map::new();
    match dice.below(6) {
        0 => {}
        1 => {
            options.insert("kind".to_owned(), json!("DeleteOptions"));
        }
        2 => {
            options.extend([("kind".to_owned(), json!("DeleteOptions")), ("apiVersion".to_owned(), json!("apps/v1"))]);
        }
        3 => {
            options.extend([("kind".to_owned(), json!("ConfigMap")), ("apiVersion".to_owned(), json!("v1"))]);
        }
        4 => {
            options.extend([("kind".to_owned(), json!("DeleteOptions")), ("apiVersion".to_owned(), json!("v9"))]);
        }
        _ => {
            options.extend([("kind".to_owned(), json!("DeleteOptions")), ("apiVersion".to_owned(), json!("v1"))]);
        }
    }
    for _ in 0..dice.below(3) {
        let (key, value) = dice.one(&members).clone();
        options.insert(key.to_owned(), value);
    }
    Value::Object(options)
}
