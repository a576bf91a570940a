//! Server-side apply against a slow and obvious oracle: ownership is a plain set of paths per manager, and every rule is a
//! sentence over those sets. Schemas, objects and the order of writes are random.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod plain;

use mainstay_merge::managed::Conflicts;
use mainstay_merge::{ApplyError, FieldSet, Write, apply, update};
use mainstay_schema::Schema;
use plain::ownership::{Owners, Refused, World, decoded, shown, timeless};
use plain::types::{Type, filled, kind, of_schema, unordered};
use proptest::prelude::*;
use serde_json::{Value, json};

/// How somebody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Apply,
    Force,
    Update,
}

/// One write of a manager.
#[derive(Clone, Debug)]
struct Step {
    manager: &'static str,
    how: How,
    body: Value,
}

/// A kind and what is written to one object of it.
fn story() -> impl Strategy<Value = (Type, Vec<Step>)> {
    kind().prop_flat_map(|kind| {
        let step = (
            prop::sample::select(vec!["ann", "ben", "cem"]),
            prop::sample::select(vec![How::Apply, How::Apply, How::Force, How::Update]),
            kind.value(),
        );
        let steps = prop::collection::vec(step.prop_map(|(manager, how, body)| Step { manager, how, body }), 1..8);
        (Just(kind), steps)
    })
}

/// What the crate makes of a write: the object, or the conflicts.
fn ours(live: &Value, step: &Step, schema: &Schema, now: &str) -> Result<Value, Conflicts> {
    let reset = FieldSet::new();
    let write = Write { manager: step.manager, api_version: "e/v1", subresource: "", schema, reset: &reset, now };
    match step.how {
        How::Update => {
            let mut body = step.body.clone();
            if !live.is_null() {
                body["metadata"]["uid"] = json!("u");
            }
            Ok(update(live, &body, &write))
        }
        how => match apply(live, &step.body, &write, how == How::Force) {
            Ok(applied) => Ok(applied.object),
            Err(ApplyError::Conflict(conflicts)) => Err(conflicts),
            Err(other) => panic!("{other}: {}", step.body),
        },
    }
}

/// The object as the API server keeps it.
fn kept(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("u");
    object
}

/// The same, without what says nothing.
fn stored(object: Value) -> Value {
    let mut object = kept(object);
    let entries = object["metadata"].as_object_mut().unwrap().remove("managedFields");
    let mut object = filled(&object);
    if let Some(entries) = entries {
        object["metadata"]["managedFields"] = entries;
    }
    object
}

/// The object without managedFields, and these as plain sets.
fn taken_apart(object: &Value) -> (Value, Owners) {
    let mut object = object.clone();
    let entries = object["metadata"].as_object_mut().unwrap().remove("managedFields");
    (object, decoded(entries.as_ref()))
}

fn now(index: usize) -> String {
    format!("2026-01-01T00:00:{index:02}Z")
}

/// The object after all writes that are not refused.
fn told(steps: &[Step], schema: &Schema) -> Value {
    steps.iter().enumerate().fold(Value::Null, |live, (index, step)| ours(&live, step, schema, &now(index)).map(kept).unwrap_or(live))
}

/// The same JSON, read from a text with all members of objects in reverse.
fn reversed(value: &Value) -> Value {
    fn write(value: &Value) -> String {
        match value {
            Value::Object(map) => {
                let members: Vec<String> = map.iter().rev().map(|(name, value)| format!("{}:{}", json!(name), write(value))).collect();
                format!("{{{}}}", members.join(","))
            }
            Value::Array(items) => format!("[{}]", items.iter().map(write).collect::<Vec<_>>().join(",")),
            other => other.to_string(),
        }
    }
    serde_json::from_str(&write(value)).unwrap()
}

/// With the items of all lists of parts in reverse.
fn turned(kind: &Type, value: &Value) -> Value {
    kind.rewritten(value, &|items| items.reverse())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    /// KAPI-SSA-01: whoever applies, forces and updates in whatever order: object, owners, times and conflicts are those that
    /// follow from the rules by plain sets of paths.
    #[test]
    fn apply_follows_the_rules((kind, steps) in story()) {
        let schema = of_schema(&kind);
        let mut live = Value::Null;
        let mut world = World::new(&kind);
        for (index, step) in steps.iter().enumerate() {
            let now = now(index);
            let wanted = match step.how {
                How::Update => {
                    world.update(step.manager, &step.body, &now);
                    Ok(())
                }
                how => world.apply(step.manager, &step.body, how == How::Force, &now),
            };
            match (ours(&live, step, &schema, &now), wanted) {
                (Ok(object), Ok(())) => {
                    live = kept(object);
                    let (object, owners) = taken_apart(&live);
                    let theirs = world.object.as_ref().unwrap();
                    prop_assert_eq!(&object, theirs, "step {}", index);
                    prop_assert_eq!(shown(&owners), shown(&world.owners), "step {}: {}", index, live);
                }
                (Err(conflicts), Err(Refused(paths))) => {
                    let ours: Vec<String> = conflicts.0.iter()
                        .map(|conflict| format!("{} {:?} {}", conflict.manager.manager, conflict.manager.operation, conflict.path)).collect();
                    let sorted = |mut all: Vec<String>| { all.sort(); all };
                    prop_assert_eq!(sorted(ours), sorted(paths), "step {}", index);
                }
                (ours, theirs) => prop_assert!(false, "step {index}: {ours:?}, not {theirs:?}"),
            }
        }
    }

    /// KAPI-SSA-01: to apply the same again changes nothing, not even a time. That is so for objects as they are stored, without
    /// nulls and empty fields: applying leaves null of what loses its last part, and the next apply lays itself over that.
    #[test]
    fn apply_is_idempotent((kind, steps) in story()) {
        let schema = of_schema(&kind);
        let steps: Vec<Step> = steps.into_iter().map(|step| Step { body: filled(&step.body), ..step }).collect();
        let mut live = Value::Null;
        for (index, step) in steps.iter().enumerate() {
            let Ok(once) = ours(&live, step, &schema, &now(index)).map(stored) else { continue };
            live = once;
            if step.how != How::Update {
                let twice = ours(&live, step, &schema, &now(20)).map(stored);
                prop_assert_eq!(twice.as_ref(), Ok(&live));
            }
        }
    }

    /// KAPI-SSA-01: neither the order of members in the text, nor that of managedFields, says anything; the order of parts of
    /// a list decides about their order alone.
    #[test]
    fn order_says_nothing((kind, steps) in story()) {
        let schema = of_schema(&kind);
        let live = told(&steps, &schema);
        let texts: Vec<Step> = steps.iter().map(|step| Step { body: reversed(&step.body), ..step.clone() }).collect();
        prop_assert_eq!(&told(&texts, &schema), &live);

        let lists: Vec<Step> = steps.iter().map(|step| Step { body: turned(&kind, &step.body), ..step.clone() }).collect();
        let turned = told(&lists, &schema);
        prop_assert_eq!(turned.is_null(), live.is_null());
        if !live.is_null() {
            let ((object, owners), (theirs, their_owners)) = (taken_apart(&turned), taken_apart(&live));
            prop_assert_eq!(unordered(&kind, &object), unordered(&kind, &theirs));
            // Orders that disagree make a change of what otherwise is none, so that times may differ.
            prop_assert_eq!(timeless(owners), timeless(their_owners));
        }

        let mut entries = live.clone();
        if let Some(Value::Array(entries)) = entries.pointer_mut("/metadata/managedFields") {
            entries.reverse();
        }
        for step in &steps {
            prop_assert_eq!(ours(&entries, step, &schema, &now(20)), ours(&live, step, &schema, &now(20)));
        }
    }
}
