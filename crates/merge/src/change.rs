//! What has to be written so that a live object is as wanted: the decision that loops make for every object they own.

use serde_json::{Map, Value};

use crate::fieldset::{FieldSet, PathElement};
use crate::managed::{Managed, Manager, Operation};

/// How an object is kept.
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

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It does not exist.
    Create,
    /// Apply it; the reason names the first field that is not as wanted.
    Apply {
        /// E.g. `.spec.replicas differs`.
        reason: String,
    },
    /// It is as wanted.
    None,
}

/// Compares without a schema: lists of objects are matched by place, since a server keeps their order, and fields that only
/// the live object has count as the server's defaults or somebody else's.
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
    let entries = live.get("metadata").and_then(|meta| meta.get("managedFields"));
    let Ok(managed) = Managed::decode(entries) else {
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

/// Whether everything wanted is in the live value; else `path` is where not.
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

/// The first field that is owned and not wanted any more.
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
