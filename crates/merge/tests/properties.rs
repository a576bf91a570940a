//! Properties of merging, against slow and obvious oracles.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use mainstay_merge::typed::Node;
use mainstay_merge::{FieldSet, Managed, PathElement, Write, apply, diff, json_patch, merge_patch, update};
use mainstay_schema::Schema;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn schema() -> Schema {
    Schema::from_json(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "n": {"type": "integer"},
        "seed": {"type": "integer"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object",
            "properties": {"k": {"type": "string"}, "v": {"type": "string"},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    }}}}))
    .unwrap()
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned)
}

/// Not empty: an empty associative list belongs to nobody, and upstream's rules for it have corners of their own.
fn words() -> impl Strategy<Value = Value> {
    prop::collection::btree_set(word(), 1..4).prop_map(|set| json!(set))
}

fn strings() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(word(), word(), 0..4).prop_map(|map| json!(map))
}

fn items() -> impl Strategy<Value = Value> {
    let item = (prop::option::of(word()), prop::option::of(words()));
    prop::collection::btree_map(word(), item, 1..4).prop_map(|map| {
        let items: Vec<Value> = map
            .into_iter()
            .map(|(key, (v, set))| {
                let mut item = Map::from_iter([("k".to_owned(), json!(key))]);
                item.extend(v.map(|v| ("v".to_owned(), json!(v))));
                item.extend(set.map(|set| ("set".to_owned(), set)));
                Value::Object(item)
            })
            .collect();
        Value::Array(items)
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (0..4_i64).prop_map(Value::from), word().prop_map(Value::from)];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map(word(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Without nulls: what they mean in a field of no declared type is upstream's own corner.
fn untyped() -> impl Strategy<Value = Value> {
    fn without_nulls(value: Value) -> Value {
        match value {
            Value::Null => json!("null"),
            Value::Array(items) => items.into_iter().map(without_nulls).collect(),
            Value::Object(map) => map.into_iter().map(|(key, value)| (key, without_nulls(value))).collect(),
            other => other,
        }
    }
    any_json().prop_map(without_nulls)
}

/// A config whose fields are all there or not.
fn config() -> impl Strategy<Value = Value> {
    let free = prop::collection::btree_map(word(), untyped(), 0..3).prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>()));
    (
        prop::option::of(0..3_i64),
        prop::option::of(strings()),
        prop::option::of(strings()),
        prop::option::of(words()),
        prop::option::of(words()),
        prop::option::of(items()),
        prop::option::of(free),
    )
        .prop_map(|(n, m, atomic, set, plain, items, free)| {
            let mut spec = Map::new();
            spec.extend(n.map(|n| ("n".to_owned(), json!(n))));
            for (name, value) in [("m", m), ("atomic", atomic), ("set", set), ("plain", plain), ("items", items), ("free", free)] {
                spec.extend(value.map(|value| (name.to_owned(), value)));
            }
            json!({"apiVersion": "e/v1", "kind": "T", "metadata": {"name": "x"}, "spec": spec})
        })
}

fn write<'a>(manager: &'a str, schema: &'a Schema, reset: &'a FieldSet, now: &'a str) -> Write<'a> {
    Write { manager, api_version: "e/v1", subresource: "", schema, reset, now }
}

/// RFC 7396 word by word.
fn rfc(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = if let Value::Object(map) = target { map } else { Map::new() };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            let old = target.remove(name).unwrap_or(Value::Null);
            target.insert(name.clone(), rfc(old, value));
        }
    }
    Value::Object(target)
}

/// With null for all that is empty: that is what applying leaves of a map when the last of its parts goes.
fn emptied(value: &Value) -> Value {
    match value {
        Value::Object(map) if map.is_empty() => Value::Null,
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), emptied(value))).collect::<Map<_, _>>().into(),
        Value::Array(items) => items.iter().map(emptied).collect(),
        other => other.clone(),
    }
}

fn paths() -> impl Strategy<Value = BTreeSet<Vec<String>>> {
    prop::collection::btree_set(prop::collection::vec(word(), 1..4), 0..8)
}

fn set_of(paths: &BTreeSet<Vec<String>>) -> FieldSet {
    paths.iter().map(|path| mainstay_merge::Path(path.iter().map(PathElement::field).collect())).collect()
}

fn paths_of(set: &FieldSet) -> BTreeSet<Vec<String>> {
    let name = |element: &PathElement| match element {
        PathElement::Field(name) => name.clone(),
        other => other.to_string(),
    };
    set.paths().iter().map(|path| path.0.iter().map(name).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// KAPI-PATCH-01: merge patch is RFC 7396.
    #[test]
    fn merge_patch_is_the_rfc(doc in any_json(), patch in any_json()) {
        let mut out = doc.clone();
        merge_patch(&mut out, &patch);
        prop_assert_eq!(out, rfc(doc, &patch));
    }

    /// KAPI-PATCH-01: nothing that a JSON patch says makes it panic, and a refused one changes nothing.
    #[test]
    fn json_patch_is_all_or_nothing(doc in any_json(), ops in prop::collection::vec(
        (prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "x"]), word(), 0..3_usize, any_json()), 0..5)) {
        let ops: Vec<Value> = ops.into_iter()
            .map(|(op, name, index, value)| json!({"op": op, "path": format!("/{name}/{index}"), "from": format!("/{name}"), "value": value}))
            .collect();
        let mut out = doc.clone();
        if json_patch(&mut out, &ops).is_err() {
            prop_assert_eq!(out, doc);
        }
    }

    /// KAPI-SSA-01: set algebra is that of plain sets of paths, and FieldsV1 keeps it all.
    #[test]
    fn field_sets_are_sets(a in paths(), b in paths()) {
        let (x, y) = (set_of(&a), set_of(&b));
        prop_assert_eq!(paths_of(&x.union(&y)), a.union(&b).cloned().collect::<BTreeSet<_>>());
        prop_assert_eq!(paths_of(&x.intersection(&y)), a.intersection(&b).cloned().collect::<BTreeSet<_>>());
        prop_assert_eq!(paths_of(&x.difference(&y)), a.difference(&b).cloned().collect::<BTreeSet<_>>());
        let below = |path: &&Vec<String>| !b.iter().any(|other| path.starts_with(other));
        prop_assert_eq!(paths_of(&x.recursive_difference(&y)), a.iter().filter(below).cloned().collect::<BTreeSet<_>>());
        prop_assert_eq!(FieldSet::decode(&x.encode()).unwrap(), x);
    }

    /// KAPI-SSA-01: applying the same again changes nothing, not even a time.
    #[test]
    fn apply_twice_is_a_no_op(first in config(), second in config()) {
        let (schema, reset) = (schema(), FieldSet::new());
        let base = apply(&Value::Null, &first, &write("ann", &schema, &reset, "2026-01-01T00:00:00Z"), false).unwrap().object;
        let once = apply(&base, &second, &write("ben", &schema, &reset, "2026-01-01T00:00:01Z"), true).unwrap().object;
        let twice = apply(&once, &second, &write("ben", &schema, &reset, "2026-01-01T00:00:02Z"), false).unwrap();
        prop_assert!(!twice.changed, "{} {}", once, twice.object);
        prop_assert_eq!(twice.object, once);
    }

    /// KAPI-SSA-01: an applier that drops everything leaves what it was before it came.
    #[test]
    fn apply_then_drop_is_the_start(theirs in config(), mine in config()) {
        let (schema, reset) = (schema(), FieldSet::new());
        let nothing = json!({"apiVersion": "e/v1", "kind": "T", "metadata": {"name": "x"}});
        let base = apply(&Value::Null, &theirs, &write("ann", &schema, &reset, "2026-01-01T00:00:00Z"), false).unwrap().object;
        let Ok(with) = apply(&base, &mine, &write("ben", &schema, &reset, "2026-01-01T00:00:01Z"), false) else { return Ok(()) };
        let after = apply(&with.object, &nothing, &write("ben", &schema, &reset, "2026-01-01T00:00:02Z"), false).unwrap().object;
        // Every field that ann applied is still there as she applied it.
        let node = Node::object(&schema);
        let left = node.compare(&emptied(&base), &emptied(&after));
        let hers = node.field_set(&theirs);
        prop_assert!(left.removed.intersection(&hers).is_empty() && left.modified.intersection(&hers).is_empty(), "{} {}", base, after);
        let managed = Managed::decode(after["metadata"].get("managedFields")).unwrap();
        prop_assert!(managed.iter().all(|(manager, _)| manager.manager == "ann"));
    }

    /// KAPI-SSA-01: two appliers of different fields commute (but for times and the order of list items).
    #[test]
    fn disjoint_appliers_commute(mine in config(), theirs in config()) {
        let (schema, reset) = (schema(), FieldSet::new());
        let mut theirs = theirs;
        // Disjoint: what both have, only one keeps.
        if let (Some(mine), Some(theirs)) = (mine["spec"].as_object(), theirs["spec"].as_object_mut()) {
            theirs.retain(|key, _| !mine.contains_key(key));
        }
        let run = |first: (&str, &Value), second: (&str, &Value)| {
            // Somebody owns something from the start, so that nobody's fields count as older than all applying.
            let seed = json!({"apiVersion": "e/v1", "kind": "T", "metadata": {"name": "x"}, "spec": {"seed": 1}});
            let base = apply(&Value::Null, &seed, &write("zoe", &schema, &reset, "2026-01-01T00:00:00Z"), false).unwrap().object;
            let one = apply(&base, first.1, &write(first.0, &schema, &reset, "2026-01-01T00:00:00Z"), false).unwrap().object;
            apply(&one, second.1, &write(second.0, &schema, &reset, "2026-01-01T00:00:00Z"), false).unwrap().object
        };
        let ab = run(("ann", &mine), ("ben", &theirs));
        let ba = run(("ben", &theirs), ("ann", &mine));
        prop_assert_eq!(&ab["spec"], &ba["spec"]);
        let owners = |object: &Value| Managed::decode(object["metadata"].get("managedFields")).unwrap().iter()
            .map(|(manager, owned)| (manager.clone(), owned.fields.clone())).collect::<Vec<_>>();
        prop_assert_eq!(owners(&ab), owners(&ba));
    }

    /// KAPI-SSA-01: after an update every owned field exists, and the updater owns all that changed.
    #[test]
    fn updates_own_what_they_change(first in config(), second in config()) {
        let (schema, reset) = (schema(), FieldSet::new());
        let mut live = apply(&Value::Null, &first, &write("ann", &schema, &reset, "2026-01-01T00:00:00Z"), false).unwrap().object;
        live["metadata"]["uid"] = json!("u");
        let mut wanted = second.clone();
        wanted["metadata"]["uid"] = json!("u");
        let after = update(&live, &wanted, &write("ed", &schema, &reset, "2026-01-01T00:00:01Z"));
        let node = Node::object(&schema);
        let managed = Managed::decode(after["metadata"].get("managedFields")).unwrap();
        let comparison = node.compare(&first, &second);
        for (manager, owned) in managed.iter() {
            prop_assert!(owned.fields.intersection(&comparison.removed).is_empty());
            if manager.manager == "ed" {
                prop_assert_eq!(&owned.fields, &comparison.added.union(&comparison.modified));
            } else {
                prop_assert!(owned.fields.intersection(&comparison.modified).is_empty());
            }
        }
    }

    /// A diff is empty exactly when nothing differs but the order of associative lists.
    #[test]
    fn diff_finds_every_difference(first in config(), second in config()) {
        let schema = schema();
        prop_assert!(diff(&first, &first, &schema).is_empty());
        let same = Node::object(&schema).compare(&first, &second).is_same();
        prop_assert_eq!(diff(&first, &second, &schema).is_empty(), same);
    }
}
