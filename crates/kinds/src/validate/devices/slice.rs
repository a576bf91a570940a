//! Slices: the devices that a driver has, on a node or for several.

use std::sync::LazyLock;

use mainstay_schema::field::{Error, Path};
use regex::Regex;
use serde_json::Value;

use super::super::{Errors, all_invalid, flag, has, int, internal, list, map, names, scheduling, text};
use super::{driver, each_once, label, named, pool_name, qualified};

/// The most devices of a slice.
const MOST_DEVICES: usize = 128;
/// The most attributes and capacities of a device.
const MOST_FACTS: usize = 32;
/// The most values of attributes of a device.
const MOST_VALUES: usize = 48;
/// The longest text or version of an attribute, in bytes.
const MOST_VALUE: usize = 64;
/// The longest key that findings show whole: a domain, a slash and a name.
const MOST_KEY: usize = 63 + 1 + 32;

const ONE_OF: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    const NUMBER: &str = "(0|[1-9][0-9]*)";
    const PART: &str = "(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)";
    const BUILD: &str = "[0-9a-zA-Z-]+";
    let text = format!(r"^{NUMBER}\.{NUMBER}\.{NUMBER}(-{PART}(\.{PART})*)?(\+{BUILD}(\.{BUILD})*)?$");
    #[allow(clippy::expect_used, reason = "a constant pattern, exercised by the tests")]
    Regex::new(&text).expect("a valid pattern")
});

/// A new slice.
pub(in super::super) fn slice(object: &Value) -> Errors {
    slice_spec(object, None)
}

/// A changed slice, whose driver, pool and node stay.
pub(in super::super) fn slice_again(new: &Value, old: &Value) -> Errors {
    slice_spec(new, Some(old))
}

fn slice_spec(object: &Value, old: Option<&Value>) -> Errors {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = driver(text(spec, "driver"), &path.child("driver"));
    errors.extend(pool(spec.get("pool").unwrap_or(&Value::Null), &path.child("pool")));
    if let Some(old) = old {
        for field in [&["pool", "name"] as &[&str], &["driver"], &["nodeName"]] {
            let of = |object: &Value| object.pointer(&format!("/spec/{}", field.join("/"))).cloned();
            if of(object) != of(old) {
                errors.push(Error::invalid(&path.children(field), of(object).unwrap_or(Value::Null), "field is immutable"));
            }
        }
    }
    errors.extend(nodes(spec, &path));
    errors.extend(each_once(list(spec, "devices"), MOST_DEVICES, &path.child("devices"), device, named));
    errors
}

fn pool(given: &Value, path: &Path) -> Errors {
    let mut errors = pool_name(text(given, "name"), &path.child("name"));
    let number = |field: &str| int(given, field).unwrap_or(0);
    if number("resourceSliceCount") <= 0 {
        errors.push(Error::invalid(&path.child("resourceSliceCount"), number("resourceSliceCount"), "must be greater than zero"));
    }
    if number("generation") < 0 {
        errors.push(Error::invalid(&path.child("generation"), number("generation"), "must be greater than or equal to zero"));
    }
    errors
}

/// The nodes that can use the devices.
fn nodes(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut given: Vec<&str> = Vec::new();
    if has(spec, "nodeName") {
        let (path, name) = (path.child("nodeName"), text(spec, "nodeName"));
        if name.is_empty() {
            errors.push(Error::invalid(&path, name, "must be either unset or set to a non-empty string"));
        } else {
            given.push("`nodeName`");
            errors.extend(all_invalid(&path, name, names::subdomain(name)));
        }
    }
    if let Some(selector) = spec.get("nodeSelector").filter(|selector| !selector.is_null()) {
        given.push("`nodeSelector`");
        let path = path.child("nodeSelector");
        errors.extend(scheduling::node_selector(selector, &path));
        if list(selector, "nodeSelectorTerms").len() != 1 {
            let shown = internal::shown("[]NodeSelectorTerm", selector.get("nodeSelectorTerms").unwrap_or(&Value::Null));
            errors.push(Error::invalid(&path.child("nodeSelectorTerms"), shown, "must have exactly one node selector term"));
        }
    }
    if has(spec, "allNodes") {
        if flag(spec, "allNodes") {
            given.push("`allNodes`");
        } else {
            errors.push(Error::invalid(&path.child("allNodes"), false, "must be either unset or set to true"));
        }
    }
    match given.len() {
        0 => errors.push(Error::required(path, ONE_OF)),
        1 => {}
        _ => errors.push(Error::invalid(path, format!("{{{}}}", given.join(", ")), format!("{ONE_OF}, but multiple fields are set"))),
    }
    errors
}

fn device(given: &Value, path: &Path) -> Errors {
    let mut errors = label(text(given, "name"), &path.child("name"));
    let (attributes, capacity) = (map(given, "attributes"), map(given, "capacity"));
    let values = attributes.map_or(0, serde_json::Map::len);
    let facts = values + capacity.map_or(0, serde_json::Map::len);
    for (number, most, what) in [(facts, MOST_FACTS, "attributes and capacities"), (values, MOST_VALUES, "attribute values")] {
        if number > most {
            let words = format!("the total number of {what} must not exceed {most}");
            errors.push(Error::invalid(path, Value::from(number), words));
        }
    }
    let place = path.child("attributes");
    for (name, value) in attributes.into_iter().flatten() {
        errors.extend(qualified(name, &place));
        errors.extend(attribute(value, &place.key(shortened(name))));
    }
    for name in capacity.into_iter().flat_map(serde_json::Map::keys) {
        errors.extend(qualified(name, &path.child("capacity")));
    }
    errors
}

/// A key as findings show it: without its middle if it is too long.
fn shortened(key: &str) -> String {
    if key.len() <= MOST_KEY {
        return key.to_owned();
    }
    let rest = MOST_KEY - 3;
    let (start, end) = (&key.as_bytes()[..rest.div_ceil(2)], &key.as_bytes()[key.len() - rest / 2..]);
    format!("{}...{}", String::from_utf8_lossy(start), String::from_utf8_lossy(end))
}

fn attribute(given: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let too_long =
        |field: &str| (text(given, field).len() > MOST_VALUE).then(|| Error::too_long(&path.child(field), "", MOST_VALUE as u64));
    errors.extend(too_long("string"));
    if has(given, "version") {
        let version = text(given, "version");
        if !VERSION.is_match(version) {
            errors.push(Error::invalid(&path.child("version"), version, "must be a string compatible with semver.org spec 2.0.0"));
        }
        errors.extend(too_long("version"));
    }
    let words = "exactly one value must be specified";
    match ["int", "bool", "string", "version"].iter().filter(|field| has(given, field)).count() {
        0 => errors.push(Error::invalid(path, "", words)),
        1 => {}
        _ => errors.push(Error::invalid(path, internal::shown("DeviceAttribute", given), words)),
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::super::tests::{findings, shown};
    use super::shortened;
    use crate::validate::validate_update;
    use crate::{Gvk, default};
    use serde_json::{Value, json};

    fn spec() -> Value {
        json!({"driver": "d.example.com", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n"})
    }

    /// KAPI-REST-07: a slice is one node's, or some nodes', or every node's.
    #[test]
    fn slices_have_nodes() {
        assert_eq!(findings("ResourceSlice", spec()), [""; 0]);
        assert_eq!(
            findings("ResourceSlice", json!({})),
            [
                "spec.driver: Required value".to_owned(),
                "spec.pool.name: Required value".to_owned(),
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero".to_owned(),
                format!("spec: Required value: {}", super::ONE_OF)
            ]
        );
        let mut many = spec();
        many["nodeSelector"] = json!({"nodeSelectorTerms": [{}, {}]});
        many["allNodes"] = json!(false);
        assert_eq!(
            findings("ResourceSlice", many),
            [
                "spec.nodeSelector.nodeSelectorTerms: Invalid value: [{\"MatchExpressions\":null,\"MatchFields\":null},{\"MatchExpressions\":null,\
                 \"MatchFields\":null}]: must have exactly one node selector term"
                    .to_owned(),
                "spec.allNodes: Invalid value: false: must be either unset or set to true".to_owned(),
                format!("spec: Invalid value: \"{{`nodeName`, `nodeSelector`}}\": {}, but multiple fields are set", super::ONE_OF)
            ]
        );
    }

    /// KAPI-REST-07: devices have names, and attributes one value.
    #[test]
    fn devices_have_attributes() {
        let of = |devices: Value| {
            let mut spec = spec();
            spec["devices"] = devices;
            findings("ResourceSlice", spec)
        };
        let values = json!({"a": {"string": ""}, "b.example.com/c": {"int": 0}, "d": {"bool": false}, "e": {"version": "1.2.3-rc.1+b"}, "a/b/c": {"int": 1}});
        assert_eq!(of(json!([{"name": "a", "attributes": values, "capacity": {"m": {"value": "1Gi"}}}])), [""; 0]);
        assert_eq!(
            of(
                json!([{"name": "a", "attributes": {"a": {}, "b": {"string": "x", "version": "bad", "int": 0}}}, {"name": "a", "capacity": {"/b": {"value": "1"}}}])
            ),
            [
                "spec.devices[0].attributes[a]: Invalid value: \"\": exactly one value must be specified",
                "spec.devices[0].attributes[b].version: Invalid value: \"bad\": must be a string compatible with semver.org spec 2.0.0",
                "spec.devices[0].attributes[b]: Invalid value: {\"IntValue\":0,\"BoolValue\":null,\"StringValue\":\"x\",\"VersionValue\":\"bad\",\
                 \"IntValues\":null,\"BoolValues\":null,\"StringValues\":null,\"VersionValues\":null}: exactly one value must be specified",
                "spec.devices[1].capacity: Invalid value: \"\": the domain must not be empty",
                "spec.devices[1]: Duplicate value: \"a\""
            ]
        );
        let many: Value = (0..33).map(|number| (format!("a{number}"), json!({"int": 1}))).collect::<serde_json::Map<_, _>>().into();
        assert_eq!(
            of(json!([{"name": "a", "attributes": many}])),
            ["spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32"]
        );
        assert_eq!(shortened(&"x".repeat(100)), format!("{}...{}", "x".repeat(47), "x".repeat(46)));
    }

    /// KAPI-REST-07: a slice stays with its pool, its driver and its node.
    #[test]
    fn slices_stay() {
        let gvk = Gvk::new("resource.k8s.io", "v1", "ResourceSlice");
        let object = |spec: Value| {
            let mut object = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": spec});
            default(&gvk, &mut object);
            object
        };
        let new = json!({"driver": "e", "pool": {"name": "p", "resourceSliceCount": 2}, "allNodes": true});
        assert_eq!(
            shown(&validate_update(&gvk, &object(new), &object(spec()), None)),
            ["spec.driver: Invalid value: \"e\": field is immutable", "spec.nodeName: Invalid value: null: field is immutable"]
        );
    }
}
