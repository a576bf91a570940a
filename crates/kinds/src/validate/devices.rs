//! Devices (dynamic resource allocation): their classes, and the rules that classes, claims and slices share.

mod admin;
mod claim;
mod slice;
mod status;

use std::sync::LazyLock;

use mainstay_cel::{Env, Program, Type, device_env};
use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::Value;

pub use admin::{admin_access, refuse_admin_access};
pub(super) use claim::{claim, claim_update, template, template_update};
pub(super) use slice::{slice, slice_again};
pub(super) use status::status as claim_status;

use super::{Errors, all_invalid, csi, list, names, text};

/// The most requests, constraints, configurations and selectors, and the most devices of a claim.
const MOST: usize = 32;
/// The longest JSON that goes to a driver, in bytes.
const MOST_PARAMETERS: usize = 10 * 1024;
/// The longest selector, in bytes.
const MOST_EXPRESSION: usize = 10 * 1024;
/// The most that a selector may cost.
const MOST_COST: u64 = 1_000_000;
/// The longest name within a domain, in bytes.
const MOST_IDENTIFIER: usize = 32;

const IDENTIFIER_TEXT: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// The words about an expression that is not there: no line is shown.
const NOTHING_TEXT: &str = "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

static SELECTORS: LazyLock<Env> = LazyLock::new(device_env);

/// A new class.
pub(super) fn class(object: &Value) -> Errors {
    class_spec(object, false)
}

/// A changed class: its configurations may stay as long as they were.
pub(super) fn class_again(new: &Value, old: &Value) -> Errors {
    let configurations = |object: &Value| object.pointer("/spec/config").cloned();
    class_spec(new, configurations(new) == configurations(old))
}

fn class_spec(object: &Value, stored: bool) -> Errors {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = selectors(spec, &path);
    errors.extend(each(list(spec, "config"), MOST, &path.child("config"), |given, path| configuration(given, stored, path)));
    errors
}

/// Looks at every item of a list that is not too long.
fn each(items: &[Value], most: usize, path: &Path, look: impl Fn(&Value, &Path) -> Errors) -> Errors {
    if items.len() > most {
        return vec![Error::too_many(path, items.len() as u64, most as u64)];
    }
    items.iter().enumerate().flat_map(|(index, item)| look(item, &path.index(index))).collect()
}

/// The same for a list without duplicates; they are named after everything else.
fn each_once(
    items: &[Value],
    most: usize,
    path: &Path,
    look: impl Fn(&Value, &Path) -> Errors,
    key: impl Fn(&Value) -> BadValue,
) -> Errors {
    let mut errors = each(items, most, path, look);
    if items.len() > most {
        return errors;
    }
    let mut seen: Vec<BadValue> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let key = key(item);
        if seen.contains(&key) {
            errors.push(Error::duplicate(&path.index(index), key));
        } else {
            seen.push(key);
        }
    }
    errors
}

/// An item that is its own key.
fn whole(item: &Value) -> BadValue {
    item.into()
}

/// An item whose name is its key.
fn named(item: &Value) -> BadValue {
    text(item, "name").into()
}

/// The name of a driver, which is required.
fn driver(name: &str, path: &Path) -> Errors {
    if name.is_empty() { vec![Error::required(path, "")] } else { csi::driver_name(name, path) }
}

/// The name of a request, an alternative or a device.
fn label(name: &str, path: &Path) -> Errors {
    all_invalid(path, name, names::label(name))
}

/// The name of a pool: parts that are subdomains.
fn pool_name(name: &str, path: &Path) -> Errors {
    if name.is_empty() {
        return vec![Error::required(path, "")];
    }
    let mut errors = Vec::new();
    if name.len() > 253 {
        errors.push(Error::too_long(path, "", 253));
    }
    errors.extend(name.split('/').flat_map(|part| all_invalid(path, part, names::subdomain(part))));
    errors
}

fn identifier(name: &str, path: &Path) -> Errors {
    let mut errors = Vec::new();
    if name.len() > MOST_IDENTIFIER {
        errors.push(Error::too_long(path, "", MOST_IDENTIFIER as u64));
    }
    if !names::is_identifier(name) {
        errors.push(Error::invalid(path, name, IDENTIFIER_TEXT));
    }
    errors
}

/// The name of an attribute or a capacity, with or without a domain. As upstream, more than one slash is not looked into.
fn qualified(name: &str, path: &Path) -> Errors {
    let parts: Vec<&str> = name.split('/').collect();
    let (domain, name) = match parts[..] {
        [name] => return identifier(name, path),
        [domain, name] => (domain, name),
        _ => return Vec::new(),
    };
    let mut errors = match domain {
        "" => vec![Error::invalid(path, "", "the domain must not be empty")],
        domain => driver(domain, path),
    };
    match name {
        "" => errors.push(Error::invalid(path, "", "the name must not be empty")),
        name => errors.extend(identifier(name, path)),
    }
    errors
}

/// Expressions that select devices.
fn selectors(holder: &Value, path: &Path) -> Errors {
    each(list(holder, "selectors"), MOST, &path.child("selectors"), |selector, path| {
        let path = path.child("cel");
        match selector.get("cel").filter(|cel| !cel.is_null()) {
            None => vec![Error::required(&path, "")],
            Some(cel) => expression(text(cel, "expression"), &path.child("expression")).into_iter().collect(),
        }
    })
}

fn expression(given: &str, path: &Path) -> Option<Error> {
    if given.len() > MOST_EXPRESSION {
        return Some(Error::too_long(path, "", MOST_EXPRESSION as u64));
    }
    if given.is_empty() {
        return Some(Error::invalid(path, given, NOTHING_TEXT));
    }
    let program = match Program::compile(given, &SELECTORS) {
        Ok(program) => program,
        Err(error) => return Some(Error::invalid(path, given, error.to_string())),
    };
    if !matches!(program.kind(), Type::Bool | Type::Dyn) {
        // The type of an attribute has a name of its own.
        let kind = match program.kind() {
            Type::Null => "null_type".to_owned(),
            kind => kind.to_string().replace("dyn", "google.protobuf.Any"),
        };
        return Some(Error::invalid(path, given, format!("must evaluate to bool or the unknown type, not {kind}")));
    }
    let costly = program.estimate().is_none_or(|cost| cost.max > MOST_COST);
    costly.then(|| Error::forbidden(path, "too complex, exceeds cost limit"))
}

/// What a driver is told about devices. What is stored already may be longer.
fn configuration(given: &Value, stored: bool, path: &Path) -> Errors {
    let path = path.child("opaque");
    let Some(opaque) = given.get("opaque").filter(|opaque| !opaque.is_null()) else { return vec![Error::required(&path, "")] };
    let mut errors = driver(text(opaque, "driver"), &path.child("driver"));
    errors.extend(raw(opaque.get("parameters"), stored, &path.child("parameters")));
    errors
}

/// JSON for a driver.
fn raw(given: Option<&Value>, stored: bool, path: &Path) -> Option<Error> {
    match given {
        None | Some(Value::Null) => Some(Error::required(path, "")),
        Some(value) if !stored && value.to_string().len() > MOST_PARAMETERS => Some(Error::too_long(path, "", MOST_PARAMETERS as u64)),
        Some(Value::Object(_)) => None,
        Some(_) => Some(Error::invalid(path, "<value omitted>", "must be a valid JSON object")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "cases are written where they are handed over")]
    use super::*;
    use crate::validate::{validate_create, validate_update};
    use crate::{Gvk, default};
    use serde_json::json;

    /// Findings about a new object of the group, as `FIELD: WORDS`.
    pub(super) fn findings(kind: &str, spec: Value) -> Vec<String> {
        let gvk = Gvk::new("resource.k8s.io", "v1", kind);
        let mut object = json!({"metadata": {"name": "a"}, "spec": spec});
        if kind.starts_with("ResourceClaim") {
            object["metadata"]["namespace"] = json!("n");
        }
        default(&gvk, &mut object);
        shown(&validate_create(&gvk, &object))
    }

    pub(super) fn shown(errors: &[Error]) -> Vec<String> {
        errors.iter().map(|error| format!("{}: {}", error.field, error.body())).collect()
    }

    /// KAPI-REST-07: selectors must be there, compile, decide, and cost little.
    #[test]
    fn selectors_decide() {
        let of = |expression: &str| findings("DeviceClass", json!({"selectors": [{"cel": {"expression": expression}}]}));
        assert_eq!(of("device.attributes['d.example.com'].flag"), [""; 0]);
        assert_eq!(
            of("device.attributes"),
            ["spec.selectors[0].cel.expression: Invalid value: \"device.attributes\": must evaluate to bool or the unknown type, not \
              map(string, map(string, google.protobuf.Any))"]
        );
        assert_eq!(
            of("device.none"),
            [
                "spec.selectors[0].cel.expression: Invalid value: \"device.none\": compilation failed: ERROR: <input>:1:7: undefined field 'none'\n \
              | device.none\n | ......^"
            ]
        );
        let nested =
            "device.attributes.all(d, device.attributes.all(e, device.attributes.all(f, device.attributes.all(g, d == e && f == g))))";
        assert_eq!(of(nested), ["spec.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit"]);
        assert_eq!(of(&"x".repeat(10241)), ["spec.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"]);
        assert_eq!(findings("DeviceClass", json!({"selectors": [{}]})), ["spec.selectors[0].cel: Required value"]);
    }

    /// KAPI-REST-07: what is stored may be longer than what is new.
    #[test]
    fn stored_configurations_stay() {
        let long = json!({"config": [{"opaque": {"driver": "d", "parameters": {"a": "x".repeat(MOST_PARAMETERS)}}}]});
        assert_eq!(findings("DeviceClass", long.clone()), ["spec.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"]);
        let class = json!({"metadata": {"name": "a"}, "spec": long});
        assert_eq!(shown(&validate_update(&Gvk::new("resource.k8s.io", "v1", "DeviceClass"), &class, &class, None)), [""; 0]);
        let odd = json!({"config": [{}, {"opaque": {"parameters": [1]}}]});
        assert_eq!(
            findings("DeviceClass", odd),
            [
                "spec.config[0].opaque: Required value",
                "spec.config[1].opaque.driver: Required value",
                "spec.config[1].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object"
            ]
        );
    }
}
