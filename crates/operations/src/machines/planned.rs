//! A deletion before it happens: its steps in order, who holds it up, and which pods leave (MACH-DEL-02).

use jiff::Timestamp;
use mainstay_diagnostics::Failure;
use mainstay_machine_core::deletion::{Course, Part, PartState};
use mainstay_machine_core::drain::verdict::Verdict;
use mainstay_machine_core::hooks::Stage;
use serde::Serialize;
use serde_json::Value;

use super::blockers::{Blocker, of_hooks};
use super::pods::{self, Emptied, Leaving};
use super::{MachineFacts, read};
use crate::session::Session;

/// A step of a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPart {
    /// The step, as a stable word.
    pub step: &'static str,
    /// `done`, `now`, `later` or `skipped`.
    pub state: &'static str,
    /// What happens.
    pub text: String,
    /// Who holds it up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Blocker>,
    /// The pods that leave the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<Leaving>,
    /// Further information that a person should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A deletion before it happens, or while it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionPlan {
    /// The machine.
    pub machine: String,
    /// True if the deletion has begun.
    pub deleting: bool,
    /// The steps, in order.
    pub steps: Vec<PlannedPart>,
    /// What follows from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub afterwards: Option<String>,
}

/// Plans the deletion of a machine, by the decisions that the controllers act upon. Nothing is changed.
///
/// # Errors
/// There is no such machine, or the cluster cannot be read.
pub async fn plan_deletion(session: &Session, namespace: &str, name: &str, now: Timestamp) -> Result<DeletionPlan, Failure> {
    let facts = read(session, namespace, name).await?;
    let emptied = match (facts.course().drain, &facts.machine.node) {
        (Verdict::Drain { settings, grace_period }, Some(node)) => pods::of_node(session, node, settings, grace_period, now).await?,
        // The pods are the same in every order of drains.
        (Verdict::NotPermitted { .. }, Some(node)) => pods::of_node(session, node, mainstay_drain::Settings::MACHINE, None, now).await?,
        _ => Emptied::default(),
    };
    Ok(planned(&facts, emptied, now))
}

fn planned(facts: &MachineFacts, emptied: Emptied, now: Timestamp) -> DeletionPlan {
    let course = facts.course();
    let hooks = of_hooks(facts, now);
    let mut emptied = Some(emptied);
    let steps = course.parts.iter().map(|(part, state)| {
        let stage = match part {
            Part::PreDrainHooks => Some(Stage::PreDrain),
            Part::PreTerminateHooks => Some(Stage::PreTerminate),
            _ => None,
        };
        let of_stage = |blocker: &&Blocker| stage.is_some_and(|stage| blocker.name.starts_with(&format!("{}/", stage.field())));
        let mut planned = PlannedPart {
            step: part.name(),
            state: state.name(),
            text: text(facts, &course, *part, *state),
            blockers: hooks.iter().filter(of_stage).cloned().collect(),
            pods: Vec::new(),
            notes: Vec::new(),
        };
        if *part == Part::Drain
            && *state != PartState::Done
            && let Some(Emptied { leaving, warnings, refused }) = emptied.take()
        {
            planned.pods = leaving;
            planned.notes = refused;
            planned.notes.extend(Some(warnings).filter(|warnings| !warnings.is_empty()));
        }
        planned
    });
    DeletionPlan {
        machine: facts.machine.name.clone(),
        deleting: facts.machine.deleting,
        steps: steps.collect(),
        afterwards: afterwards(&facts.object),
    }
}

fn text(facts: &MachineFacts, course: &Course<'_>, part: Part, state: PartState) -> String {
    let node = facts.machine.node.as_deref().unwrap_or("none");
    let skipped = state == PartState::Skipped;
    match part {
        Part::Mark => "phase Deleting; the machine is still served".to_owned(),
        Part::PreDrainHooks if facts.machine.hooks.pre_drain.is_empty() => "no preDrain hook holds up the drain".to_owned(),
        Part::PreDrainHooks if skipped => "preDrain hooks do not hold up a drain that is left out".to_owned(),
        Part::PreDrainHooks => "owners remove their preDrain hooks".to_owned(),
        Part::Drain => match &course.drain {
            Verdict::Skipped if facts.machine.node.is_none() => "there is no node to drain".to_owned(),
            Verdict::Skipped => "the drain is left out, as the annotation on the machine says".to_owned(),
            Verdict::NodeGone => format!("node {node} is gone already"),
            Verdict::NotPermitted { other } => {
                format!("node {node} is cordoned and emptied, once node {} of the control plane is not cordoned any more", other.name)
            }
            _ => format!("node {node} is cordoned and emptied"),
        },
        Part::PreTerminateHooks if skipped => "no preTerminate hook holds up the removal of the instance".to_owned(),
        Part::PreTerminateHooks => "owners remove their preTerminate hooks".to_owned(),
        Part::Terminate => match &facts.machine.provider_id {
            Some(id) => format!("the provider removes instance {id}"),
            None => "the provider removes the instance, if there is one".to_owned(),
        },
        Part::RemoveNode if skipped => "there is no node to delete".to_owned(),
        Part::RemoveNode => format!("node {node} is deleted"),
        Part::Release => "the machine is gone".to_owned(),
    }
}

/// What the owner of the machine does then.
fn afterwards(object: &Value) -> Option<String> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true)?;
    let (kind, name) = (owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default());
    Some(match kind {
        "MachineSet" => {
            format!("MachineSet {name} makes another machine as soon as this one is being deleted, unless it is scaled down first")
        }
        "ControlPlaneMachineSet" => {
            "the ControlPlaneMachineSet makes a replacement as soon as this one is being deleted, if it is active".to_owned()
        }
        _ => format!("{kind} {name} controls this machine"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mainstay_machine_core::machine::Machine;
    use mainstay_machine_core::node::Node;
    use serde_json::json;

    use super::*;

    /// MACH-DEL-02, MACH-DEL-04, MS-READY-02: the plan names hooks with their owners, the pods that leave, and what the set does.
    #[test]
    fn plans_of_deletions() {
        let owner = json!({"kind": "MachineSet", "name": "workers", "controller": true});
        let mut object = json!({
            "metadata": {"name": "a", "finalizers": ["machine.machine.openshift.io"], "ownerReferences": [owner],
                         "labels": {"machine.openshift.io/cluster-api-cluster": "demo"}},
            "spec": {"providerID": "sim:///z/a", "providerSpec": {"value": {}}, "lifecycleHooks": {"preDrain": [{"name": "Move", "owner": "ledger"}]}},
            "status": {"phase": "Running", "nodeRef": {"name": "n"}},
        });
        let node = json!({"metadata": {"name": "n"}});
        let of = |object: &Value| {
            let facts = MachineFacts {
                machine: Machine::of(object),
                object: object.clone(),
                nodes: vec![Node::of(&node)],
                node: Some(node.clone()),
                requests: None,
                quorum: None,
            };
            let leaving = Leaving {
                pod: "d/web".to_owned(),
                owner: Some("replicaset web".to_owned()),
                since: None,
                blocked: Some("budget".to_owned()),
            };
            planned(
                &facts,
                Emptied { leaving: vec![leaving], warnings: "ignoring x".to_owned(), refused: Vec::new() },
                Timestamp::UNIX_EPOCH,
            )
        };
        let plan = of(&object);
        let texts: Vec<&str> = plan.steps.iter().map(|step| &*step.text).collect();
        assert_eq!(
            texts,
            [
                "phase Deleting; the machine is still served",
                "owners remove their preDrain hooks",
                "node n is cordoned and emptied",
                "no preTerminate hook holds up the removal of the instance",
                "the provider removes instance sim:///z/a",
                "node n is deleted",
                "the machine is gone"
            ]
        );
        assert_eq!((&*plan.steps[1].blockers[0].name, plan.steps[1].blockers[0].owner.as_deref()), ("preDrain/Move", Some("ledger")));
        assert_eq!((&*plan.steps[2].pods[0].pod, plan.steps[2].notes.len(), plan.deleting), ("d/web", 1, false));
        assert!(plan.afterwards.unwrap().starts_with("MachineSet workers makes another machine"));
        object["metadata"]["annotations"] = json!({"machine.openshift.io/exclude-node-draining": "yes"});
        let plan = of(&object);
        assert_eq!(plan.steps[1].text, "preDrain hooks do not hold up a drain that is left out");
        assert_eq!((plan.steps[2].state, &*plan.steps[1].blockers[0].why), ("skipped", "does not hold up: the drain is left out"));
    }
}
