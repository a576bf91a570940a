//! Laws that hold for any schema and any value.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_schema::field::{Error, Path};
use mainstay_schema::{Schema, default, prune, validate};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const NAMES: [&str; 4] = ["a", "b", "c", "k"];

fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "maxLength": 2, "default": "d"})),
        Just(json!({"type": "integer", "minimum": 1})),
        Just(json!({"type": "boolean", "nullable": true})),
        Just(json!({"type": "string", "nullable": true, "default": "n"})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (proptest::collection::btree_map(prop::sample::select(&NAMES[..]), inner.clone(), 0..4), any::<bool>()).prop_map(
                |(properties, strict)| {
                    let required: Vec<&str> = properties.keys().copied().filter(|_| strict).take(1).collect();
                    json!({"type": "object", "properties": properties, "required": required})
                }
            ),
            inner.clone().prop_map(|value| json!({"type": "object", "additionalProperties": value})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "maxItems": 2})),
            Just(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}})),
            inner.prop_map(|value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": value}}})),
        ]
    })
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..4).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "long"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(prop::sample::select(&["a", "b", "c", "k", "v", "z"][..]), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())),
        ]
    })
}

fn root(schema: &Value) -> Schema {
    Schema::from_json(&json!({"type": "object", "properties": {"spec": schema}})).unwrap()
}

fn texts(errors: &[Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The slow and obvious way to find the duplicates of sets and list maps, wherever a schema has one.
fn duplicates(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(items) = value.as_array() {
        let key = |item: &Value| match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Some(item.clone()),
            // An absent key is another one than null; null instead of an item has no key.
            Some("map") => Some(item.get("k").map_or(json!([]), |key| json!([key]))),
            _ => None,
        };
        let all_objects = items.iter().all(|item| item.is_object() || item.is_null());
        for (index, item) in items.iter().enumerate() {
            let earlier = items[..index].iter().filter(|other| key(other).is_some() && key(other) == key(item)).count();
            if earlier == 1 && (schema["x-kubernetes-list-type"] == "set" || all_objects) {
                found.push(format!("{path}[{index}]"));
            }
            duplicates(&schema["items"], item, &format!("{path}[{index}]"), found);
        }
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        if let Some(property) = schema["properties"].get(name) {
            duplicates(property, member, &format!("{path}.{name}"), found);
        } else if schema["additionalProperties"].is_object() {
            duplicates(&schema["additionalProperties"], member, &format!("{path}[{name}]"), found);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// KAPI-CRD-02: what is pruned once holds nothing unknown; what is defaulted once is complete.
    #[test]
    fn pruning_and_defaulting_settle(schema in schemas(), value in values()) {
        let schema = root(&schema);
        let mut object = json!({"spec": value});
        prune::prune(&schema, &mut object);
        prop_assert!(prune::prune(&schema, &mut object.clone()).is_empty());
        default::default(&schema, &mut object);
        let once = object.clone();
        default::default(&schema, &mut object);
        prop_assert_eq!(object, once);
    }

    /// KAPI-CRD-02: an update never finds more than a creation would, and an unchanged object is never refused.
    #[test]
    fn updates_are_no_stricter_than_creations(schema in schemas(), old in values(), new in values()) {
        let schema = root(&schema);
        let (old, new) = (json!({"spec": old}), json!({"spec": new}));
        let created = texts(&validate::validate(&schema, &new, &Path::root()));
        for text in texts(&validate::validate_update(&schema, &new, &old, &Path::root())) {
            prop_assert!(created.contains(&text), "{text}\n{created:?}");
        }
        prop_assert_eq!(validate::validate_update(&schema, &new, &new, &Path::root()), vec![]);
    }

    /// KAPI-CRD-02: duplicates in sets and list maps are those that the obvious search finds.
    #[test]
    fn duplicates_are_all_found(schema in schemas(), value in values()) {
        let mut expected = Vec::new();
        duplicates(&schema, &value, "spec", &mut expected);
        let mut found: Vec<String> = validate::validate(&root(&schema), &json!({"spec": value}), &Path::root())
            .iter().filter(|error| error.reason() == "FieldValueDuplicate").map(|error| error.field.to_string()).collect();
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
    }
}
