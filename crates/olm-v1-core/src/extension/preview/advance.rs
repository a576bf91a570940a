//! The state after a plan: the snapshot as it will be when the plan is done, for the next step of the path (OLM1-UPG-07).

use std::sync::Arc;

use mainstay_api::olm_v1::ClusterExtension;
use mainstay_lifecycle::Live;
use mainstay_lifecycle::change::{Action, Operation};
use mainstay_lifecycle::object;
use mainstay_lifecycle::revision::{Notes, Revision, State};
use serde_json::{Map, Value};

use super::super::facts::Snapshot;
use super::super::plan::{FINALIZERS, Plan};

/// The uid of an extension that does not exist yet.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// An extension as the server would store it after its creation: with a uid and its finalizers.
pub fn hypothetical(mut extension: ClusterExtension) -> ClusterExtension {
    extension.metadata.uid.get_or_insert_with(|| NO_UID.to_owned());
    extension.metadata.generation.get_or_insert(1);
    prepared(extension)
}

/// An extension with its finalizers, which every plan adds before anything else (OLM1-CTRL-07).
pub fn prepared(mut extension: ClusterExtension) -> ClusterExtension {
    let present = extension.metadata.finalizers.get_or_insert_with(Vec::new);
    for finalizer in FINALIZERS {
        if !present.iter().any(|one| one == finalizer) {
            present.push(finalizer.to_owned());
        }
    }
    extension
}

/// The snapshot after the plan; none if the plan changes nothing.
pub fn advance(mut snapshot: Snapshot, plan: &Plan) -> Option<Snapshot> {
    if !matches!(plan.action, Action::Install | Action::Upgrade) {
        return None;
    }
    let record = plan.record.clone()?;
    let history = snapshot.history.as_mut().ok()?;
    if let Some(namespace) = &plan.namespace {
        snapshot.known.namespace = Some(Live::Present(Arc::new(namespace.clone())));
    }
    for target in plan.steps.iter().filter(|planned| planned.operation == Operation::Delete).map(|planned| &planned.target) {
        snapshot.known.live.insert(target.clone(), Live::Absent);
    }
    let before: Vec<Value> = history.may_be_live().flat_map(|revision| revision.record.objects.iter().cloned()).collect();
    for wanted in &record.objects {
        let target = object::place(wanted);
        let earlier = before.iter().rev().find(|object| object::place(object).same(&target));
        let after = match snapshot.known.live.get(&target) {
            Some(Live::Present(found)) => applied(found, wanted, earlier),
            _ => wanted.clone(),
        };
        snapshot.known.live.insert(target, Live::Present(Arc::new(after)));
    }
    for revision in &mut history.revisions {
        if revision.state == State::Deployed {
            revision.state = State::Superseded;
        }
    }
    let number = history.latest().map_or(1, |latest| latest.number.saturating_add(1));
    history.revisions.push(Revision { number, state: State::Deployed, record, notes: Notes::default() });
    Some(snapshot)
}

/// The live object after an apply: the desired fields on top, without fields that only the earlier apply set.
fn applied(live: &Value, wanted: &Value, earlier: Option<&Value>) -> Value {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let earlier = earlier.and_then(Value::as_object);
            let let_go = |key: &String| earlier.is_some_and(|earlier| earlier.contains_key(key)) && !wanted.contains_key(key);
            let mut after: Map<String, Value> =
                live.iter().filter(|(key, _)| !let_go(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
            for (key, value) in wanted {
                let found = live.get(key).unwrap_or(&Value::Null);
                after.insert(key.clone(), applied(found, value, earlier.and_then(|earlier| earlier.get(key))));
            }
            Value::Object(after)
        }
        _ => wanted.clone(),
    }
}
