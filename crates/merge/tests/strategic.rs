//! Strategic merge patch, case by case.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_merge::strategic_merge_patch;
use mainstay_schema::Schema;
use serde_json::{Value, json};

fn schema() -> Schema {
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "string"}, "m": {"type": "object", "additionalProperties": {"type": "string"}}}});
    Schema::from_json(&json!({"type": "object", "properties": {
        "merged": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name", "items": item},
        "keyless": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": item},
        "replaced": {"type": "array", "items": item},
        "scalars": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace", "additionalProperties": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}}
    }}))
    .unwrap()
}

fn check(original: &Value, patch: &Value, wanted: &Value) {
    let outcome = strategic_merge_patch(original, patch, &schema());
    assert_eq!(outcome.as_ref().ok(), Some(wanted), "{patch}: {outcome:?}");
}

fn refused(original: &Value, patch: &Value, code: u16, message: &str) {
    let error = strategic_merge_patch(original, patch, &schema()).unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), (code, message), "{patch}");
}

/// KAPI-PATCH-01: which lists merge and which are replaced; what a directive deletes is not added, and what else is new comes as it
/// is: decoding into the kind drops nulls and other directives.
#[test]
fn merging() {
    let item = |name: &str, v: &str| json!({"name": name, "v": v});
    let two = json!({"merged": [item("a", "1"), item("b", "2")]});
    check(&two, &json!({"merged": [{"name": "b", "v": "3"}]}), &json!({"merged": [item("a", "1"), item("b", "3")]}));
    check(&two, &json!({"merged": [{"name": "a", "v": null}]}), &json!({"merged": [{"name": "a"}, item("b", "2")]}));
    check(&two, &json!({"merged": null}), &json!({}));
    check(&two, &json!({"merged": []}), &two);
    check(&json!({"replaced": [item("a", "1")]}), &json!({"replaced": [item("b", "2")]}), &json!({"replaced": [item("b", "2")]}));
    check(&json!({"whole": {"a": "1"}}), &json!({"whole": {"b": "2"}}), &json!({"whole": {"b": "2"}}));
    check(&json!({"map": {"a": "1"}}), &json!({"map": {"b": "2", "a": null}}), &json!({"map": {"b": "2"}}));
    check(&json!({"map": {"a": "1"}}), &json!({"map": "text"}), &json!({"map": "text"}));
    check(&json!({"scalars": ["a", "b"]}), &json!({"scalars": ["c", "a"]}), &json!({"scalars": ["c", "a", "b"]}));
    check(
        &json!({}),
        &json!({"merged": [{"name": "a", "x": null, "$retainKeys": ["name"]}, {"name": "b", "$patch": "delete"}], "$setElementOrder/merged": [{"name": "a"}]}),
        &json!({"merged": [{"name": "a", "x": null, "$retainKeys": ["name"]}]}),
    );
}

/// KAPI-PATCH-01: the directives.
#[test]
fn directives() {
    let scalars = json!({"scalars": ["a", "b", "c", "b"]});
    check(&scalars, &json!({"$deleteFromPrimitiveList/scalars": ["b", "z"]}), &json!({"scalars": ["a", "c"]}));
    check(&json!({}), &json!({"$deleteFromPrimitiveList/scalars": ["b"]}), &json!({}));
    check(
        &json!({"scalars": ["a", "b"]}),
        &json!({"scalars": ["c"], "$setElementOrder/scalars": ["c", "b", "a"]}),
        &json!({"scalars": ["c", "b", "a"]}),
    );
    let names = |names: &[&str]| json!({"merged": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
    let order = |names: &[&str]| Value::Array(names.iter().map(|name| json!({"name": name})).collect());
    let live = names(&["a", "server", "b"]);
    check(&live, &json!({"$setElementOrder/merged": order(&["b", "a"])}), &names(&["server", "b", "a"]));
    check(
        &live,
        &json!({"$setElementOrder/merged": order(&["b", "new"]), "merged": [{"name": "new"}, {"name": "a", "$patch": "delete"}]}),
        &names(&["server", "b", "new"]),
    );
    check(
        &json!({"map": {"a": "1", "b": "2"}}),
        &json!({"map": {"$retainKeys": ["a", "c"], "c": "3"}}),
        &json!({"map": {"a": "1", "c": "3"}}),
    );
    check(&json!({"map": {"a": "1"}}), &json!({"map": {"$patch": "replace", "c": "3"}}), &json!({"map": {"c": "3"}}));
    check(&json!({"map": {"a": "1"}}), &json!({"map": {"$patch": "delete"}}), &json!({"map": {}}));
}

/// KAPI-PATCH-01: what a strategic merge patch may not say.
#[test]
fn refusals() {
    let live = json!({"merged": [{"name": "a"}], "keyless": [{"name": "a"}], "map": {"a": "1"}, "scalars": ["a"]});
    refused(&live, &json!({"merged": [{"v": "1"}]}), 500, "map: map[v:1] does not contain declared merge key: name");
    refused(
        &live,
        &json!({"merged": [{"v": "1", "$patch": "delete"}]}),
        500,
        "map: map[$patch:delete v:1] does not contain declared merge key: name",
    );
    refused(&live, &json!({"merged": [{"name": "a", "$patch": "merge"}]}), 500, "merging lists cannot yet be specified in the patch");
    refused(&live, &json!({"map": {"$patch": "x"}}), 500, "unknown patch type: x in map: map[$patch:x]");
    refused(&live, &json!({"keyless": [{"name": "b"}]}), 500, "cannot merge lists without merge key for map");
    refused(&live, &json!({"map": {"$retainKeys": "a"}}), 400, "invalid patch format of retainKeys");
    refused(&live, &json!({"map": {"$retainKeys": ["a"], "b": "1"}}), 400, "invalid patch format of retainKeys");
    refused(&live, &json!({"$setElementOrder/scalars": "a"}), 500, "expected a []interface {}, but received a string");
    refused(&live, &json!({"$setElementOrder": ["a"]}), 400, "invalid patch format of setElementOrder list");
    refused(&live, &json!({"scalars": [["a"]]}), 422, "the server rejected our request due to an error in our request");
}

/// KAPI-PATCH-01: lists have no bounds but those of requests. Comparing every two elements would take minutes here.
#[test]
fn long_lists() {
    const LENGTH: usize = 100_000;
    let texts = |from: usize| (from..from + LENGTH).map(|at| json!(format!("text-{at}"))).collect::<Vec<_>>();
    let both = (0..LENGTH + LENGTH / 2).map(|at| json!(format!("text-{at}"))).collect::<Vec<_>>();
    let merged = strategic_merge_patch(&json!({"scalars": texts(0)}), &json!({"scalars": texts(LENGTH / 2)}), &schema()).unwrap();
    assert_eq!(merged["scalars"].as_array().unwrap().len(), both.len());
    let left = json!({"$deleteFromPrimitiveList/scalars": texts(1)});
    check(&json!({"scalars": texts(0)}), &left, &json!({"scalars": ["text-0"]}));

    let items = |from: usize, v: &str| (from..from + LENGTH).map(|at| json!({"name": format!("n{at}"), "v": v})).collect::<Vec<_>>();
    let merged = strategic_merge_patch(&json!({"merged": items(0, "1")}), &json!({"merged": items(LENGTH / 2, "2")}), &schema()).unwrap();
    let merged = merged["merged"].as_array().unwrap();
    let changed = merged.iter().filter(|item| item["v"] == "2").count();
    assert_eq!((merged.len(), changed), (LENGTH + LENGTH / 2, LENGTH));
    let deleted = (1..LENGTH).map(|at| json!({"name": format!("n{at}"), "$patch": "delete"})).collect::<Vec<_>>();
    let order = json!({"merged": deleted, "$setElementOrder/merged": [{"name": "n0"}]});
    check(&json!({"merged": items(0, "1")}), &order, &json!({"merged": [{"name": "n0", "v": "1"}]}));
}
