//! Updates, embedded objects, and rules that the transcripts do not show.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_schema::field::Path;
use mainstay_schema::{Schema, crd, default, prune, validate};
use serde_json::{Value, json};

fn schema(value: &Value) -> Schema {
    Schema::from_json(&json!({"type": "object", "properties": {"spec": value}})).unwrap()
}

fn texts(errors: &[mainstay_schema::field::Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// KAPI-CRD-02: what was wrong before and did not change is not held against an update; a changed part is.
#[test]
fn unchanged_faults_do_not_block_an_update() {
    let schema = schema(&json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 2}, "b": {"type": "integer"},
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}}},
        "l": {"type": "array", "items": {"type": "string", "maxLength": 1}}}}));
    let old = json!({"spec": {"a": "long", "b": 1, "m": [{"k": "x", "v": "long"}, {"k": "y", "v": "1"}], "l": ["long"]}});
    let check = |change: &dyn Fn(&mut Value), expected: &[&str]| {
        let mut new = old.clone();
        change(&mut new);
        assert_eq!(texts(&validate::validate_update(&schema, &new, &old, &Path::root())), expected);
    };
    check(&|new| new["spec"]["b"] = json!(2), &[]);
    check(&|new| new["spec"]["a"] = json!("longer"), &["spec.a: Too long: may not be more than 2 bytes"]);
    // A list map's items are known by their keys, wherever they stand.
    check(&|new| new["spec"]["m"] = json!([{"k": "y", "v": "2"}, {"k": "x", "v": "long"}]), &[]);
    check(&|new| new["spec"]["m"][1]["v"] = json!("long"), &["spec.m[1].v: Too long: may not be more than 1 byte"]);
    // An atomic list is one value: once it changes, all of it is new.
    check(&|new| new["spec"]["l"] = json!(["long", "1"]), &["spec.l[0]: Too long: may not be more than 1 byte"]);
    check(&|new| new["spec"]["b"] = json!("x"), &["spec.b: Invalid value: \"string\": spec.b in body must be of type integer: \"string\""]);
}

/// KAPI-CRD-02: duplicates in lists are found on creation, and on update only when they are new.
#[test]
fn duplicates_in_sets_are_refused_once() {
    let schema = schema(
        &json!({"type": "object", "properties": {"s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}, "n": {"type": "integer"}}}),
    );
    let bad = json!({"spec": {"s": ["a", "b", "a"]}});
    assert_eq!(texts(&validate::validate(&schema, &bad, &Path::root())), ["spec.s[2]: Duplicate value: \"a\""]);
    let mut changed = bad.clone();
    changed["spec"]["n"] = json!(1);
    assert!(validate::validate_update(&schema, &changed, &bad, &Path::root()).is_empty());
}

/// KAPI-CRD-02: an embedded object needs apiVersion and kind, and its metadata is checked.
#[test]
fn embedded_objects_are_objects() {
    let schema = schema(&json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}));
    let errors = validate::validate(
        &schema,
        &json!({"spec": {"kind": "bad kind", "metadata": {"name": "a/b", "labels": {"-": "x"}}}}),
        &Path::root(),
    );
    let found: Vec<(&str, String)> = errors.iter().map(|error| (error.reason(), error.field.to_string())).collect();
    assert_eq!(
        found,
        [
            ("FieldValueRequired", "spec.apiVersion".to_owned()),
            ("FieldValueInvalid", "spec.kind".to_owned()),
            ("FieldValueInvalid", "spec.metadata.name".to_owned()),
            ("FieldValueInvalid", "spec.metadata.labels".to_owned()),
        ]
    );
}

/// KAPI-CRD-02: limits of numbers, in upstream's words.
#[test]
fn numbers_keep_their_limits() {
    let schema = schema(&json!({"type": "object", "properties": {
        "i": {"type": "integer", "minimum": 2, "maximum": 8, "multipleOf": 2}, "x": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1.5, "exclusiveMaximum": true},
        "p": {"x-kubernetes-int-or-string": true}}}));
    for (value, expected) in [
        (
            json!({"i": 1}),
            vec![
                "spec.i: Invalid value: 1: spec.i in body should be a multiple of 2",
                "spec.i: Invalid value: 1: spec.i in body should be greater than or equal to 2",
            ],
        ),
        (json!({"i": 10}), vec!["spec.i: Invalid value: 10: spec.i in body should be less than or equal to 8"]),
        (json!({"x": 0}), vec!["spec.x: Invalid value: 0: spec.x in body should be greater than 0"]),
        // Limits are whole numbers where the value is one.
        (json!({"x": 1}), vec!["spec.x: Invalid value: 1: spec.x in body should be less than 1"]),
        (json!({"x": 1.5}), vec!["spec.x: Invalid value: 1.5: spec.x in body should be less than 1.5"]),
        (json!({"p": true}), vec!["spec.p: Invalid value: \"boolean\": spec.p in body must be of type integer,string: \"boolean\""]),
        (json!({"i": 4, "x": 0.5, "p": "50%"}), vec![]),
        (json!({"p": 5}), vec![]),
    ] {
        assert_eq!(texts(&validate::validate(&schema, &json!({"spec": value}), &Path::root())), expected);
    }
}

/// KAPI-CRD-03: rules are not evaluated on an object whose shape is wrong, and the answer says so.
#[test]
fn a_wrong_shape_keeps_rules_from_running() {
    let schema = schema(&json!({"type": "integer"}));
    let errors = validate::validate(&schema, &json!({"spec": "x"}), &Path::root());
    let further = validate::blocks_rules(&errors).unwrap();
    assert_eq!(
        further.to_string(),
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
    );
    assert_eq!(validate::blocks_rules(&[]), None);
}

fn definition(schema: &Value) -> Value {
    let mut crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    crd::fill(&mut crd);
    crd::prepare_create(&mut crd);
    crd
}

/// KAPI-CRD-02: logic may only narrow what is stated outside of it.
#[test]
fn logic_must_be_structural() {
    for (spec, expected) in [
        (json!({"type": "object", "anyOf": [{"type": "object"}]}), vec!["anyOf[0].type: Forbidden: must be empty to be structural"]),
        (
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"items": {"title": "x"}}]}),
            vec!["oneOf[1].items.title: Forbidden: must be empty to be structural"],
        ),
        (json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}), vec![]),
        (
            json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "x"}]}),
            vec![],
        ),
        (json!({}), vec!["type: Required value: must not be empty for specified object fields"]),
        (json!({"type": "array"}), vec!["items: Required value: must be specified"]),
        (json!({"type": "array", "items": {}}), vec!["items.type: Required value: must not be empty for specified array items"]),
        (
            json!({"type": "object", "not": {"nullable": true, "description": "x"}}),
            vec!["not.description: Forbidden: must be empty to be structural", "not.nullable: Forbidden: must be false to be structural"],
        ),
    ] {
        let crd = definition(&json!({"type": "object", "properties": {"spec": spec}}));
        let expected: Vec<String> =
            expected.iter().map(|text| format!("spec.validation.openAPIV3Schema.properties[spec].{text}")).collect();
        assert_eq!(texts(&crd::validate(&crd, &|_, _| Vec::new())), expected, "{spec}");
    }
}

/// KAPI-CRD-02: what the root's logic speaks of must be declared outside of it.
#[test]
fn logic_speaks_of_declared_fields() {
    let crd = definition(
        &json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"properties": {"b": {"minLength": 1}}}]}),
    );
    let root = "spec.validation.openAPIV3Schema";
    assert_eq!(
        texts(&crd::validate(&crd, &|_, _| Vec::new())),
        [format!("{root}.properties[b]: Required value: because it is defined in {root}.oneOf[1].properties[b]")]
    );
}

/// KAPI-CRD-02: metadata is Kubernetes' own; only names may be narrowed.
#[test]
fn metadata_is_not_the_authors() {
    let root = "spec.validation.openAPIV3Schema";
    for (metadata, expected) in [
        (json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}), vec![]),
        (
            json!({"type": "object", "properties": {"labels": {"type": "object"}}}),
            vec![format!(
                "{root}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"
            )],
        ),
        (json!({"type": "string"}), vec![format!("{root}.properties[metadata].type: Invalid value: \"string\": must be object")]),
        (
            json!({"type": "object", "default": {}}),
            vec![format!("{root}.properties[metadata].default: Forbidden: must not be set in top-level metadata")],
        ),
    ] {
        let crd = definition(&json!({"type": "object", "properties": {"metadata": metadata}}));
        assert_eq!(texts(&crd::validate(&crd, &|_, _| Vec::new())), expected, "{metadata}");
    }
}

/// KAPI-CRD-03: the CEL compiler is asked once for each sound schema, and its findings are part of the answer.
#[test]
fn the_rule_compiler_is_asked_for_sound_schemas() {
    let asked = std::cell::RefCell::new(Vec::new());
    let rules = |_: &Schema, path: &Path| {
        asked.borrow_mut().push(path.to_string());
        vec![mainstay_schema::field::Error::required(&path.child("x"), "from the compiler")]
    };
    let mut crd = definition(&json!({"type": "object"}));
    assert_eq!(texts(&crd::validate(&crd, &rules)), ["spec.validation.openAPIV3Schema.x: Required value: from the compiler"]);
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["schema"]["openAPIV3Schema"] = json!({"type": "object", "description": "another", "properties": {"a": {}}});
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    assert_eq!(
        texts(&crd::validate(&crd, &rules)),
        [
            "spec.versions[0].schema.openAPIV3Schema.x: Required value: from the compiler",
            "spec.versions[1].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields",
        ]
    );
    assert_eq!(asked.into_inner(), ["spec.validation.openAPIV3Schema", "spec.versions[0].schema.openAPIV3Schema"]);
}

/// KAPI-CRD-01: a stored version can not be dropped.
#[test]
fn stored_versions_must_stay() {
    let mut old = definition(&json!({"type": "object"}));
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    let mut new = old.clone();
    new["spec"]["versions"][0]["name"] = json!("v2");
    new["spec"]["names"]["kind"] = json!("Gadget");
    crd::prepare_update(&mut new, &old);
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    let errors = crd::validate_update(&new, &old, &|_, _| Vec::new());
    let found: Vec<String> = errors.iter().map(|error| error.field.to_string()).collect();
    assert_eq!(found, ["spec.names.kind", "status.storedVersions[0]"]);
    assert!(errors[1].detail.starts_with("missing from spec.versions; v1 was previously a storage version"));
}

/// KAPI-CRD-04: what the server needs of a CRD.
#[test]
fn a_definition_is_read() {
    let mut crd = definition(&json!({"type": "object"}));
    crd["spec"]["versions"][0]["subresources"] =
        json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    crd["spec"]["versions"][0]["deprecated"] = json!(true);
    let definition = crd::Definition::parse(&crd).unwrap();
    let version = definition.storage_version().unwrap();
    assert_eq!(
        (definition.names.singular.as_str(), definition.names.list_kind.as_str(), definition.namespaced),
        ("widget", "WidgetList", true)
    );
    assert!(version.status && version.served);
    assert_eq!(version.scale.as_ref().unwrap().spec_replicas_path, ".spec.replicas");
    assert_eq!(version.deprecation.as_ref().map(|deprecation| deprecation.warning.as_deref()), Some(None));
    assert_eq!(version.columns[0].name, "Age");
    assert_eq!(definition.conversion, crd::Conversion::None);
}

/// KAPI-CRD-02: pruning and defaulting change nothing the second time.
#[test]
fn pruning_and_defaulting_are_stable() {
    let schema = schema(&json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "A"}, "n": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 7}}},
        "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"v": {"type": "boolean", "default": true}}}}}}));
    let mut value = json!({"spec": {"a": null, "zz": 1, "m": {"one": {}, "two": {"odd": 1}}}});
    assert_eq!(prune::prune(&schema, &mut value).len(), 2);
    default::default(&schema, &mut value);
    assert_eq!(value, json!({"spec": {"a": "A", "n": {"x": 7}, "m": {"one": {"v": true}, "two": {"v": true}}}}));
    let once = value.clone();
    assert!(prune::prune(&schema, &mut value).is_empty());
    default::default(&schema, &mut value);
    assert_eq!(value, once);
}
