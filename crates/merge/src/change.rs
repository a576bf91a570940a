//! The write that brings a live object to its wanted state: the decision that controllers make for every object they own.

use serde_json::{Map, Value};

use crate::fieldset::{FieldSet, PathElement};
use crate::managed::{Managed, Manager, Operation};

/// The method by which an object is kept in its wanted state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy<'a> {
    /// By server-side apply as this field manager; what others change in its fields is repaired.
    Apply {
        /// The field manager.
        manager: &'a str,
    },
    /// It is made once and never touched again.
    CreateOnly,
}

/// The write that an object needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Create it; it does not exist.
    Create,
    /// Apply it; the reason names the first field that is not as wanted.
    Apply {
        /// E.g. `.spec.replicas differs`.
        reason: String,
    },
    /// None; it is as wanted.
    None,
}

/// A live object without managedFields (caches drop them) is compared by the wanted fields alone; one with them must also own no
/// field that is no longer wanted.
///
/// Compares without a schema: lists of objects are matched by place, since a server keeps their order, and fields that only
/// the live object has count as the server's defaults or another manager's.
pub fn change(live: Option<&Value>, wanted: &Value, policy: Policy<'_>) -> Change {
    let Some(live) = live else {
        return Change::Create;
    };
    let Policy::Apply { manager } = policy else {
        return Change::None;
    };
    let mut path = String::new();
    if !covers(live, wanted, &mut path) {
        return Change::Apply { reason: format!("{path} differs") };
    }
    let Some(entries) = live.get("metadata").and_then(|meta| meta.get("managedFields")) else {
        return Change::None;
    };
    let Ok(managed) = Managed::decode(Some(entries)) else {
        return Change::Apply { reason: ".metadata.managedFields cannot be read".into() };
    };
    match managed.get(&Manager::new(manager, Operation::Apply, "", "")) {
        None => Change::Apply { reason: format!("{manager} owns nothing of it") },
        Some(owned) => match first_dropped(&owned.fields, wanted, "") {
            Some(path) => Change::Apply { reason: format!("{path} is no longer wanted") },
            None => Change::None,
        },
    }
}

/// Returns true if everything wanted is in the live value; otherwise `path` is the place where it is not.
fn covers(live: &Value, wanted: &Value, path: &mut String) -> bool {
    let length = path.len();
    let fine = match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, value)| {
            path.truncate(length);
            path.push('.');
            path.push_str(key);
            match live.get(key) {
                Some(own) => covers(own, value, path),
                // Servers leave out what is empty.
                None => is_empty(value),
            }
        }),
        (Value::Array(live), Value::Array(wanted)) if wanted.iter().any(Value::is_object) => {
            live.len() >= wanted.len()
                && wanted.iter().enumerate().all(|(index, item)| {
                    path.truncate(length);
                    path.push_str(&PathElement::Index(index as i64).to_string());
                    live.get(index).is_some_and(|own| covers(own, item, path))
                })
        }
        (live, wanted) => crate::fieldset::equal(live, wanted),
    };
    if fine {
        path.truncate(length);
    }
    fine
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The first field that is owned and no longer wanted.
fn first_dropped(owned: &FieldSet, wanted: &Value, at: &str) -> Option<String> {
    for member in owned.members() {
        if find(wanted, member).is_none() {
            return Some(format!("{at}{member}"));
        }
    }
    owned.children().find_map(|(element, below)| {
        let path = format!("{at}{element}");
        match find(wanted, element) {
            None => Some(path),
            Some(value) => first_dropped(below, value, &path),
        }
    })
}

fn find<'v>(value: &'v Value, element: &PathElement) -> Option<&'v Value> {
    match (element, value) {
        (PathElement::Field(name), Value::Object(map)) => map.get(name),
        (PathElement::Value(wanted), Value::Array(items)) => items.iter().find(|item| crate::fieldset::equal(item, &wanted.0)),
        (PathElement::Index(index), Value::Array(items)) => items.get(usize::try_from(*index).ok()?),
        // A key that the item leaves out has its default there.
        (PathElement::Key(keys), Value::Array(items)) => items.iter().find(|item| {
            let map: Option<&Map<String, Value>> = item.as_object();
            map.is_some_and(|map| keys.iter().all(|(name, value)| map.get(name).is_none_or(|own| crate::fieldset::equal(own, &value.0))))
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(live: &Value, wanted: &Value, reason: Option<&str>) {
        let expected = reason.map_or(Change::None, |reason| Change::Apply { reason: reason.to_owned() });
        assert_eq!(change(Some(live), wanted, Policy::Apply { manager: "us" }), expected, "{live}");
    }

    /// OLM1-INST-14: what drifted is applied again, and what is as wanted is left alone.
    #[test]
    fn drift() {
        let wanted = json!({"spec": {"replicas": 1, "empty": {}, "containers": [{"name": "a", "image": "i:1"}], "args": ["x"]}});
        let live = json!({"spec": {"replicas": 1, "paused": false, "containers": [{"name": "a", "image": "i:1", "pull": "Always"}, {"name": "side"}],
            "args": ["x"]}});
        assert_eq!(change(None, &wanted, Policy::CreateOnly), Change::Create);
        assert_eq!(change(Some(&json!({})), &wanted, Policy::CreateOnly), Change::None);
        check(&live, &wanted, None);
        let with = |pointer: &str, value: Value| {
            let mut live = live.clone();
            if let Some(place) = live.pointer_mut(pointer) {
                *place = value;
            }
            live
        };
        check(&with("/spec/containers/0/image", json!("i:2")), &wanted, Some(".spec.containers[0].image differs"));
        check(&with("/spec/args", json!(["x", "y"])), &wanted, Some(".spec.args differs"));
        check(&with("/spec/containers", json!([])), &wanted, Some(".spec.containers differs"));

        let owned = |fields: Value| {
            let mut live = live.clone();
            live["metadata"] =
                json!({"managedFields": [{"manager": "us", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}]});
            live
        };
        check(
            &owned(json!({"f:spec": {"f:replicas": {}, "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}}}})),
            &wanted,
            None,
        );
        check(&owned(json!({"f:spec": {"f:paused": {}}})), &wanted, Some(".spec.paused is no longer wanted"));
        let dropped = owned(json!({"f:spec": {"f:containers": {"k:{\"name\":\"b\"}": {".": {}, "f:name": {}}}}}));
        check(&dropped, &wanted, Some(".spec.containers[name=\"b\"] is no longer wanted"));
        let foreign = json!({"metadata": {"managedFields": []}, "spec": live["spec"]});
        check(&foreign, &wanted, Some("us owns nothing of it"));
    }
}
