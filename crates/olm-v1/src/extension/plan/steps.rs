//! The changes, in order.

use std::time::Duration;

use mainstay_apply::{Expect, ObjectRef, Owner, Propagation, Step, Until, stale};
use serde_json::Value;

use super::super::facts::Live;
use super::super::object;
use super::super::record::{self, History, Record, State};
use super::checks::LiveObjects;
use super::{Action, Change, Planned};

/// Compares what is wanted with the records (OLM1-CTRL-01 step 8, OLM1-INST-14).
pub(super) fn action(history: &History, record: &Record) -> Action {
    match (history.installed(), history.latest()) {
        (None, _) => Action::Install,
        (Some(installed), Some(latest))
            if latest.state == State::Deployed
                && installed.record.bundle == record.bundle
                && installed.record.digest() == record::digest(&record.objects) =>
        {
            Action::Reassert
        }
        _ => Action::Upgrade,
    }
}

/// What the installed revision, or an attempt after it, applied and the new one does not hold, in the order of removal.
pub(super) fn vanished(history: &History, record: &Record) -> Vec<ObjectRef> {
    let wanted: Vec<ObjectRef> = record.objects.iter().map(object::place).collect();
    let earlier: Vec<ObjectRef> = history.may_be_live().flat_map(|revision| revision.record.objects.iter().map(object::place)).collect();
    stale(&earlier, &wanted)
}

/// How long a CRD may take until it is served.
const ESTABLISHED: Duration = Duration::from_secs(30);

pub(super) fn steps(action: &Action, record: &Record, gone: &[ObjectRef], live: &LiveObjects<'_>, owner: &Owner) -> Vec<Planned> {
    let mut steps = Vec::new();
    for object in &record.objects {
        let target = object::place(object);
        let (change, expect) = match live.get(&target) {
            Live::Present(found) if object::holds(object, found) => (Change::Same, Expect::uid_of(found)),
            Live::Present(found) => (Change::Update, Expect::uid_of(found)),
            _ => (Change::Create, Expect::default()),
        };
        // An upgrade applies everything once: fields that the new content dropped are only let go of by applying.
        if change == Change::Same && *action == Action::Reassert {
            continue;
        }
        steps.push(Planned { target: target.clone(), step: Step::Apply { object: object.clone(), force: true, expect }, change });
        if target.kind == "CustomResourceDefinition" {
            let until = Until::Condition { name: "Established".to_owned(), status: "True".to_owned() };
            steps.push(Planned { step: Step::Wait { object: target.clone(), until, timeout: ESTABLISHED }, target, change: Change::Wait });
        }
    }
    for target in gone {
        if let Live::Present(found) = live.get(target) {
            let kept = found.pointer("/metadata/annotations/helm.sh~1resource-policy").and_then(Value::as_str) == Some("keep");
            if owner.owns(found) && !kept && found["metadata"]["deletionTimestamp"].is_null() {
                let step = Step::Delete { object: target.clone(), expect: Expect::uid_of(found), propagation: Propagation::Background };
                steps.push(Planned { target: target.clone(), step, change: Change::Delete });
            }
        }
    }
    steps
}
