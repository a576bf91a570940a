//! Objects that a command itself writes before the cluster acts.

use mainstay_objects::ObjectRef;
use serde_json::Value;

use super::{Change, Object, fields, named};

/// Compares an object that a command applies or patches with the live one.
pub fn written(target: &ObjectRef, wanted: &Value, live: Option<&Value>) -> Object {
    let Some(live) = live else { return Object { change: Change::Created, ..named(target) } };
    let (fields, fields_omitted) = fields::changes(live, wanted, None);
    let change = if fields.is_empty() { Change::Unchanged } else { Change::Changed };
    Object { change, fields, fields_omitted, ..named(target) }
}
