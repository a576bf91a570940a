//! The three patches, and server-side apply.

use mainstay_kinds::{Gvk, registry};
use mainstay_merge::patch::{decode_json_patch, decode_object_patch};
use mainstay_merge::{FieldSet, Write, apply, json_patch, merge_patch, strategic_merge_patch};
use serde_json::{Value, json};

use crate::bodies::deployment;
use crate::halves;

/// An object that a body may hold: as deep as bodies may be.
fn object(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(text).ok().filter(Value::is_object)
}

/// A merge patch changes nothing the second time; no patch panics, whatever it is given.
pub fn patches(data: &[u8]) {
    let Some((original, patch)) = halves(data) else { return };
    let Some(original) = object(original) else { return };
    if let Ok(operations) = decode_json_patch(patch) {
        let mut patched = original.clone();
        if let Err(error) = json_patch(&mut patched, &operations) {
            assert!((400..500).contains(&error.code()), "{error}");
        }
    }
    let Ok(patch) = decode_object_patch(patch) else { return };
    let mut once = original.clone();
    merge_patch(&mut once, &patch);
    let mut twice = once.clone();
    merge_patch(&mut twice, &patch);
    assert_eq!(once, twice);
    if let Some(schema) = registry().schema(&Gvk::of("apps/v1", "Deployment"))
        && let Err(error) = strategic_merge_patch(&original, &patch, &schema)
    {
        assert!(!error.to_string().is_empty());
    }
}

pub fn patch_seeds() -> Vec<Vec<u8>> {
    let original = deployment().to_string();
    [
        r#"[{"op":"test","path":"/kind","value":"Deployment"},{"op":"add","path":"/metadata/labels/x~1y","value":"1"},{"op":"remove","path":"/spec/replicas"},{"op":"move","from":"/spec/template","path":"/spec/other"},{"op":"copy","from":"/metadata","path":"/spec/selector/matchExpressions/-"},{"op":"replace","path":"","value":{}}]"#,
        r#"{"metadata":{"labels":null,"annotations":{"a":"b"}},"spec":{"template":{"spec":{"containers":[{"name":"more","image":"x"}]}}}}"#,
        r#"{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"side"},{"name":"web"}],"containers":[{"name":"side","image":"x"},{"$patch":"delete","name":"web"}],"volumes":[{"$patch":"replace"},{"name":"n"}]}},"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}"#,
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"finalizers":["b"]}}"#,
    ]
    .iter()
    .map(|patch| format!("{original}\n--\n{patch}").into_bytes())
    .collect()
}

/// What was applied and is applied again changes nothing, and managed fields can be read back.
pub fn applies(data: &[u8]) {
    let Some((live, config)) = halves(data) else { return };
    let (Some(live), Some(config)) = (object(live), object(config)) else { return };
    let Some(schema) = registry().schema(&Gvk::of("apps/v1", "Deployment")) else { return };
    let reset = FieldSet::default();
    let write =
        |manager| Write { manager, api_version: "apps/v1", subresource: "", schema: &schema, reset: &reset, now: "2026-01-01T00:00:00Z" };
    let Ok(first) = apply(&live, &config, &write("one"), true) else { return };
    match apply(&first.object, &config, &write("one"), false) {
        Ok(second) => assert!(!second.changed, "{}\n{}", first.object, second.object),
        Err(error) => panic!("what was applied by force is refused: {error}"),
    }
    if let Err(error) = apply(&first.object, &config, &write("two"), false) {
        panic!("the same values by another manager are no conflict: {error}");
    }
}

pub fn apply_seeds() -> Vec<Vec<u8>> {
    let live = deployment();
    let small = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    let mut more = small.clone();
    more["spec"] = json!({"replicas": 1, "template": {"spec": {"containers": [{"name": "side", "ports": [{"containerPort": 1, "protocol": "UDP"}]}], "tolerations": [{"key": "a"}]}}});
    [(&small, &live), (&live, &more), (&more, &small), (&json!({}), &more)]
        .map(|(live, config)| format!("{live}\n--\n{config}").into_bytes())
        .to_vec()
}
