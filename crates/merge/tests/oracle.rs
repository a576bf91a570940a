//! Server-side apply against a slow and obvious oracle: ownership is a plain set of paths per manager, and every rule is a
//! sentence over those sets. Schemas, objects and the order of writes are random.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::plain::ownership::{Owners, Refused, World, decoded, shown, stored, timeless};
use crate::plain::types::{Keys, Type, filled, kind, kind_of, of_schema, unordered};
use mainstay_merge::managed::{Conflicts, keep_times};
use mainstay_merge::{ApplyError, FieldSet, Write, apply, update};
use mainstay_schema::Schema;
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
            prop::bool::weighted(0.3),
        );
        let steps = prop::collection::vec(step, 1..8).prop_map(|steps| {
            let mut told: Vec<Step> = Vec::new();
            for (manager, how, body, again) in steps {
                // Most of what is applied was applied before.
                let before = told.iter().rfind(|step| again && step.manager == manager).map(|step| step.body.clone());
                told.push(Step { manager, how, body: before.unwrap_or(body) });
            }
            told
        });
        (Just(kind), steps)
    })
}

/// An API server of one kind, with the crate in it.
struct Server<'a> {
    kind: &'a Type,
    schema: Schema,
}

impl<'a> Server<'a> {
    fn of(kind: &'a Type) -> Self {
        Self { kind, schema: of_schema(kind) }
    }

    /// What it stores after a write, or the conflicts.
    fn write(&self, live: &Value, step: &Step, now: &str) -> Result<Value, Conflicts> {
        let reset = FieldSet::new();
        let write = Write { manager: step.manager, api_version: "e/v1", subresource: "", schema: &self.schema, reset: &reset, now };
        match step.how {
            How::Update => Ok(update(live, &stored(self.kind, &step.body), &write)),
            how => match apply(live, &step.body, &write, how == How::Force) {
                Ok(applied) => {
                    let mut object = stored(self.kind, &applied.object);
                    keep_times(live, &mut object);
                    Ok(object)
                }
                Err(ApplyError::Conflict(conflicts)) => Err(conflicts),
                Err(other) => panic!("{other}: {}", step.body),
            },
        }
    }

    /// The object after all writes that are not refused.
    fn told(&self, steps: &[Step]) -> Value {
        steps.iter().enumerate().fold(Value::Null, |live, (index, step)| self.write(&live, step, &now(index)).unwrap_or(live))
    }

    /// The object without what says nothing, which many kinds do not store.
    fn tidied(&self, mut object: Value) -> Value {
        let entries = object["metadata"].as_object_mut().unwrap().remove("managedFields");
        let mut object = stored(self.kind, &filled(&object));
        if let Some(entries) = entries {
            object["metadata"]["managedFields"] = entries;
        }
        object
    }
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

/// Holds every write against the oracle.
fn follow(kind: &Type, steps: &[Step]) -> Result<(), TestCaseError> {
    let server = Server::of(kind);
    let mut live = Value::Null;
    let mut world = World::new(kind);
    for (index, step) in steps.iter().enumerate() {
        let now = now(index);
        let wanted = match step.how {
            How::Update => {
                world.update(step.manager, &step.body, &now);
                Ok(())
            }
            how => world.apply(step.manager, &step.body, how == How::Force, &now),
        };
        match (server.write(&live, step, &now), wanted) {
            (Ok(object), Ok(())) => {
                live = object;
                let (object, owners) = taken_apart(&live);
                let theirs = world.object.as_ref().unwrap();
                prop_assert_eq!(&object, theirs, "step {}", index);
                prop_assert_eq!(shown(&owners), shown(&world.owners), "step {}: {}", index, live);
            }
            (Err(conflicts), Err(Refused(paths))) => {
                let ours: Vec<String> = conflicts
                    .0
                    .iter()
                    .map(|conflict| format!("{} {:?} {}", conflict.manager.manager, conflict.manager.operation, conflict.path))
                    .collect();
                let sorted = |mut all: Vec<String>| {
                    all.sort();
                    all
                };
                prop_assert_eq!(sorted(ours), sorted(paths), "step {}", index);
            }
            (ours, theirs) => prop_assert!(false, "step {index}: {ours:?}, not {theirs:?}"),
        }
    }
    Ok(())
}

/// KAPI-SSA-01: an item of which the applier says nothing, since its key goes without saying, does not outlive the next apply,
/// here as by the rules: all that it holds belongs to nobody.
#[test]
fn an_item_that_says_nothing() {
    let kind = kind_of(Type::Keyed { keys: Keys::Default, members: vec![("m0".into(), Type::Scalar)] });
    let step = |body: Value| Step {
        manager: "ann",
        how: How::Apply,
        body: json!({"apiVersion": "e/v1", "kind": "T", "metadata": {"name": "x"}, "spec": body}),
    };
    follow(&kind, &[step(json!([{}])), step(json!([{}]))]).unwrap();
    follow(&kind, &[step(json!([{}, {"k": "b"}])), step(json!([{}, {"k": "b"}]))]).unwrap();
    follow(&kind, &[step(json!([{"m0": "a"}])), step(json!([{"m0": "a"}]))]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    /// KAPI-SSA-01: whoever applies, forces and updates in whatever order: object, owners, times and conflicts are those that
    /// follow from the rules by plain sets of paths.
    #[test]
    fn apply_follows_the_rules((kind, steps) in story()) {
        follow(&kind, &steps)?;
    }

    /// KAPI-SSA-01: to apply the same again changes nothing, not even a time. That is so for objects as they are stored, without
    /// nulls and empty fields: applying leaves null of what loses its last part, and the next apply lays itself over that.
    #[test]
    fn apply_is_idempotent((kind, steps) in story()) {
        let server = Server::of(&kind);
        let steps: Vec<Step> = steps.into_iter().map(|step| Step { body: filled(&step.body), ..step }).collect();
        let mut live = Value::Null;
        for (index, step) in steps.iter().enumerate() {
            let Ok(once) = server.write(&live, step, &now(index)).map(|object| server.tidied(object)) else { continue };
            live = once;
            // What nobody owns is given to whoever came before the next apply.
            let owned = live.pointer("/metadata/managedFields").is_some();
            if owned && step.how != How::Update {
                let twice = server.write(&live, step, &now(20)).map(|object| server.tidied(object));
                prop_assert_eq!(twice.as_ref(), Ok(&live));
            }
        }
    }

    /// KAPI-SSA-01: neither the order of members in the text, nor that of managedFields, says anything; the order of parts of
    /// a list decides about their order alone.
    #[test]
    fn order_says_nothing((kind, steps) in story()) {
        let server = Server::of(&kind);
        let live = server.told(&steps);
        let texts: Vec<Step> = steps.iter().map(|step| Step { body: reversed(&step.body), ..step.clone() }).collect();
        prop_assert_eq!(&server.told(&texts), &live);

        let lists: Vec<Step> = steps.iter().map(|step| Step { body: turned(&kind, &step.body), ..step.clone() }).collect();
        let turned = server.told(&lists);
        prop_assert_eq!(turned.is_null(), live.is_null());
        if !live.is_null() {
            let ((object, owners), (theirs, their_owners)) = (taken_apart(&turned), taken_apart(&live));
            prop_assert_eq!(unordered(&kind, &object), unordered(&kind, &theirs));
            // Orders that disagree make a change of what otherwise is none, so that times may differ.
            prop_assert_eq!(timeless(&owners), timeless(&their_owners));
        }

        let mut entries = live.clone();
        if let Some(Value::Array(entries)) = entries.pointer_mut("/metadata/managedFields") {
            entries.reverse();
        }
        for step in &steps {
            let written = |live: &Value| server.write(live, step, &now(20)).map(|object| taken_apart(&object));
            prop_assert_eq!(written(&entries), written(&live));
        }
    }
}
