//! Explanations of machines: the step, what blocks it, since when, and what comes next (MACH-DEL-09, MACH-TRB-01 to MACH-TRB-03).

use std::convert::Infallible;

use jiff::Timestamp;
use mainstay_diagnostics::Failure;
use mainstay_lifecycle::explanation::{self, Action, Evidence, State};
use mainstay_machine_core::condition::Condition;
use mainstay_machine_core::deletion::Part;
use mainstay_machine_core::drain::verdict::Verdict;
use mainstay_machine_core::lifecycle::{INSTANCE_EXISTS, MACHINE_CREATION};
use mainstay_machine_core::machine::{DRAINED, phase};
use mainstay_machine_core::node::Node;
use serde_json::Value;

use super::blockers::{Blocker, BlockerKind, of_machine, of_node};
use super::{MachineFacts, NODE, read, served};
use crate::classic::objects::find;
use crate::pools;
use crate::session::Session;

/// An explanation of a machine. Its actions are commands alone.
pub type Explanation = explanation::Explanation<Infallible>;

/// Explains a machine, with the table of what blocks it.
///
/// # Errors
/// There is no such machine, or the cluster cannot be read.
pub async fn explain_machine(
    session: &Session,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Result<(Explanation, Vec<Blocker>), Failure> {
    let facts = read(session, namespace, name).await?;
    let blockers = of_machine(session, &facts, now).await?;
    Ok((explained(&facts, &blockers, now), blockers))
}

/// Explains a node: by its configuration where the cluster has pools, else by its readiness; with the table of what blocks it.
///
/// # Errors
/// There is no such node, or the cluster cannot be read.
pub async fn explain_node(session: &Session, name: &str, now: Timestamp) -> Result<(Explanation, Vec<Blocker>), Failure> {
    let object = find(session, NODE, "", name).await?;
    let object = object.ok_or_else(|| NODE.not_found("", name).hint("kubectl get nodes lists them"))?;
    let blockers = of_node(session, &object, now).await?;
    let answer = match served(pools::explain_node(session, name, now).await)? {
        Some(answer) => answer,
        None => by_readiness(&Node::of(&object)),
    };
    Ok((answer, blockers))
}

fn by_readiness(node: &Node) -> Explanation {
    let (situation, state, text) = match (node.ready(), node.unschedulable) {
        (None, _) => ("not-ready", State::Degraded, "is not ready"),
        (Some(_), true) => ("cordoned", State::Held, "is ready, and cordoned: it takes no new pods"),
        (Some(_), false) => ("healthy", State::Healthy, "is ready"),
    };
    let mut answer = Explanation::new(format!("node {}", node.name), situation, state, text);
    answer.since = node.condition("Ready").and_then(|ready| ready.since);
    answer
}

fn explained(facts: &MachineFacts, blockers: &[Blocker], now: Timestamp) -> Explanation {
    let machine = &facts.machine;
    let subject = format!("machine {}", machine.name);
    let mut answer = if machine.deleting {
        deleting(facts, subject, blockers)
    } else {
        match machine.phase.as_deref() {
            Some(phase::FAILED) => failed(facts, subject),
            Some(phase::RUNNING) => running(facts, subject, now),
            Some(phase::PROVISIONED) => provisioned(facts, subject),
            _ => provisioning(facts, subject),
        }
    };
    for condition in &machine.conditions {
        let says = format!("{} {} {}", condition.status, condition.reason, condition.message);
        let says = says.split_whitespace().collect::<Vec<_>>().join(" ");
        answer.evidence.push(Evidence { what: condition.kind.clone(), says, at: condition.changed });
    }
    answer
}

fn command(text: impl Into<String>, commands: &[String]) -> Action<Infallible> {
    Action { commands: commands.to_vec(), ..Action::new(text) }
}

fn condition<'f>(facts: &'f MachineFacts, kind: &str) -> Option<&'f Condition> {
    facts.machine.conditions.iter().find(|condition| condition.kind == kind)
}

fn error(facts: &MachineFacts) -> String {
    facts.object.pointer("/status/errorMessage").and_then(Value::as_str).unwrap_or("no error message").to_owned()
}

/// A machine that failed is never tried again.
fn failed(facts: &MachineFacts, subject: String) -> Explanation {
    let mut answer = Explanation::new(subject, "failed", State::Degraded, "failed, and is never tried again").because(error(facts));
    answer.since = facts.machine.last_updated;
    let namespace = &facts.machine.namespace;
    answer.then(command(
        "correct its provider spec where it comes from, and delete it; its set makes another one",
        &[format!("mainstay machine delete {} -n {namespace} --plan", facts.machine.name)],
    ))
}

fn provisioning(facts: &MachineFacts, subject: String) -> Explanation {
    let refused = condition(facts, MACHINE_CREATION).filter(|condition| condition.status == "False");
    let unknown = condition(facts, INSTANCE_EXISTS).filter(|condition| condition.status == "Unknown");
    let (situation, cause) = match (refused, unknown) {
        (Some(refused), _) => ("creation-failed", Some(refused)),
        (None, Some(unknown)) => ("provider-error", Some(unknown)),
        (None, None) => ("provisioning", None),
    };
    let mut answer = Explanation::new(subject, situation, State::Working, "its instance is being made");
    answer.waits_for = Some("the provider to make the instance".to_owned());
    answer.since = cause.and_then(|cause| cause.changed).or(facts.machine.created);
    if facts.machine.phase.is_none() && cause.is_none() {
        answer.summary = String::from("no controller has taken it up yet");
        answer.waits_for = Some("the machine controller".to_owned());
    }
    match cause {
        None => answer,
        Some(cause) => answer.because(cause.message.clone()).then(command(
            "correct what the provider complains about; it is tried again by itself",
            &[format!("kubectl get machines.machine.openshift.io {} -n {} -o yaml", facts.machine.name, facts.machine.namespace)],
        )),
    }
}

/// The instance is there, and no node has joined (MACH-TRB-01).
fn provisioned(facts: &MachineFacts, subject: String) -> Explanation {
    let mut answer = Explanation::new(subject, "no-node", State::Working, "its instance is there, and its node has not joined the cluster");
    answer.since = condition(facts, INSTANCE_EXISTS).and_then(|condition| condition.changed).or(facts.machine.created);
    answer.waits_for = Some("the node to register".to_owned());
    match facts.requests.as_deref() {
        Some([]) => answer
            .because("the node has not asked for a certificate: it never reached the config server, or has not booted")
            .then(command("look at the console of the instance", &[])),
        Some(requests) => {
            let (shown, first) = (requests.join(", "), requests[0].clone());
            answer.situation = "request-pending";
            answer.because(format!("certificate requests of the node wait for approval: {shown}")).then(command(
                "find out why the machine approver does not approve it; approve it by hand if it is the node's",
                &[format!("kubectl describe csr {first}"), format!("kubectl certificate approve {first}")],
            ))
        }
        None => answer.because("certificate requests cannot be read with these permissions"),
    }
}

fn running(facts: &MachineFacts, subject: String, now: Timestamp) -> Explanation {
    let Some(name) = facts.machine.node.as_deref() else { return provisioned(facts, subject) };
    let Some(node) = facts.node.as_ref().map(Node::of) else {
        let text = format!("runs, and its node {name} does not exist any more");
        let answer = Explanation::new(subject, "node-gone", State::Degraded, text);
        return answer.then(command("delete it; its set makes another one", &[delete(facts)]));
    };
    let ready = node.condition("Ready");
    if node.ready().is_some() {
        let mut answer = Explanation::new(subject, "healthy", State::Healthy, format!("runs, and its node {name} is ready"));
        answer.since = ready.and_then(|ready| ready.since);
        if node.unschedulable {
            answer.notes.push(format!("node {name} is cordoned"));
        }
        return answer;
    }
    let status = ready.map_or("not reported", |ready| ready.status.as_str());
    let text = format!("runs, and its node {name} is not ready");
    let mut answer =
        Explanation::new(subject, "node-not-ready", State::Degraded, text).because(format!("condition Ready of the node is {status}"));
    answer.since = ready.and_then(|ready| ready.since).filter(|since| *since <= now);
    answer.then(command("look at the node; a MachineHealthCheck would replace the machine", &[format!("mainstay explain node {name}")]))
}

fn delete(facts: &MachineFacts) -> String {
    format!("mainstay machine delete {} -n {} --plan", facts.machine.name, facts.machine.namespace)
}

fn deleting(facts: &MachineFacts, subject: String, blockers: &[Blocker]) -> Explanation {
    let course = facts.course();
    let now: Vec<&Blocker> = blockers.iter().filter(|blocker| blocker.now).collect();
    let (situation, step, waits) = match course.current() {
        Some(Part::PreDrainHooks) => ("hook-present", "waits for preDrain hooks", "the owners of the hooks to remove them"),
        Some(Part::PreTerminateHooks) => ("hook-present", "waits for preTerminate hooks", "the owners of the hooks to remove them"),
        Some(Part::Drain) => match course.drain {
            Verdict::NotPermitted { .. } => {
                ("drain-not-permitted", "waits for another node of the control plane", "that node to be uncordoned or gone")
            }
            _ if now.iter().any(|blocker| blocker.why != "it is ending") => {
                ("drain-blocked", "its node is drained, and pods remain", "the remaining pods to leave")
            }
            _ => ("draining", "its node is drained", "the remaining pods to end"),
        },
        Some(Part::Terminate) => ("terminating", "its instance is being removed", "the provider to remove the instance"),
        _ => ("released", "is about to be gone", "its last finalizer to be removed"),
    };
    let after = course.next().map(|part| format!("; then {}", words(part))).unwrap_or_default();
    let mut answer = Explanation::new(subject, situation, State::Removing, format!("is being deleted: {step}"));
    answer.waits_for = Some(format!("{waits}{after}"));
    answer.since = now.iter().filter_map(|blocker| blocker.since).min().or_else(|| deleted_at(&facts.object));
    for blocker in &now {
        let owner = blocker.owner.as_deref().map(|owner| format!(" of {owner}")).unwrap_or_default();
        answer = answer.because(format!("{} {}{owner} {}", blocker.kind.name(), blocker.name, blocker.why));
    }
    if let Some(quorum) = &facts.quorum {
        answer = quorum.held.iter().fold(answer, |answer, held| answer.because(format!("etcd: {held}")));
        for member in &quorum.members {
            let role = if member.learner { "learner" } else { "voter" };
            let health = if member.healthy { "healthy" } else { "unhealthy" };
            let synced = if member.learner && !member.in_sync { ", receives the database" } else { "" };
            let says = format!("{role}, {health}{synced}, {}", member.address);
            answer.evidence.push(Evidence { what: format!("etcd member {}", member.name), says, at: None });
        }
    }
    if situation == "drain-blocked"
        && let Some(told) = condition(facts, DRAINED).filter(|drained| drained.status == "False")
    {
        answer.notes.push(told.message.clone());
    }
    let first = now.first();
    match (situation, first) {
        ("hook-present", Some(hook)) => {
            let owner = hook.owner.as_deref().unwrap_or("its owner");
            let mut action = command(format!("find out why {owner} does not remove its hook; only it knows when that is safe"), &[]);
            action.warning =
                Some("a hook that is removed by hand protects nothing any more: do it only if its owner is gone for good".to_owned());
            answer.then(action)
        }
        ("drain-blocked", Some(blocker)) if blocker.kind == BlockerKind::Pod => answer.then(command(
            "let the budget allow an eviction: run more replicas, or change the budget",
            &["kubectl get poddisruptionbudgets -A".to_owned()],
        )),
        ("drain-not-permitted", Some(node)) => {
            answer.then(command("finish what that node was cordoned for", &[format!("mainstay explain node {}", node.name)]))
        }
        _ => answer,
    }
}

fn deleted_at(object: &Value) -> Option<Timestamp> {
    object.pointer("/metadata/deletionTimestamp")?.as_str()?.parse().ok()
}

fn words(part: Part) -> &'static str {
    match part {
        Part::Mark => "it is marked",
        Part::PreDrainHooks => "preDrain hooks are removed",
        Part::Drain => "its node is drained",
        Part::PreTerminateHooks => "preTerminate hooks are removed",
        Part::Terminate => "its instance is removed",
        Part::RemoveNode => "its node is deleted",
        Part::Release => "it is gone",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mainstay_machine_core::machine::Machine;
    use serde_json::json;

    use super::super::blockers::of_hooks;
    use super::*;

    fn explain(object: &Value, node: Option<Value>, requests: Option<Vec<String>>) -> Explanation {
        let nodes = node.iter().map(Node::of).collect();
        let facts = MachineFacts { machine: Machine::of(object), object: object.clone(), node, nodes, requests, quorum: None };
        let now = "2026-03-10T12:20:00Z".parse().unwrap();
        explained(&facts, &of_hooks(&facts, now), now)
    }

    fn machine(phase: &str) -> Value {
        json!({
            "metadata": {"name": "a", "namespace": "n", "labels": {"machine.openshift.io/cluster-api-cluster": "demo"}, "finalizers": ["machine.machine.openshift.io"]},
            "spec": {"providerID": "sim:///a", "providerSpec": {"value": {}}}, "status": {"phase": phase},
        })
    }

    /// MACH-TRB-01: why a machine gets no instance, or no node.
    #[test]
    fn machines_that_do_not_come() {
        let mut object = machine("Provisioning");
        object["status"]["conditions"] = json!([{"type": "MachineCreation", "status": "False", "message": "no capacity"}]);
        let answer = explain(&object, None, None);
        assert_eq!((answer.situation, answer.why), ("creation-failed", vec!["no capacity".to_owned()]));
        let waiting = explain(&machine("Provisioned"), None, Some(vec!["csr-1".to_owned()]));
        assert_eq!(waiting.situation, "request-pending");
        assert!(waiting.why[0].ends_with("csr-1"), "{:?}", waiting.why);
        let silent = explain(&machine("Provisioned"), None, Some(Vec::new()));
        assert!(silent.situation == "no-node" && silent.why[0].contains("never reached the config server"));
        let mut object = machine("Failed");
        object["status"]["errorMessage"] = json!("can't find created instance");
        assert_eq!(explain(&object, None, None).why, ["can't find created instance"]);
    }

    /// MACH-TRB-02, MACH-DEL-09: the hook and its owner, the silence of its controller, and the next step.
    #[test]
    fn hooks_that_nobody_removes() {
        let mut object = machine("Deleting");
        object["metadata"]["deletionTimestamp"] = json!("2026-03-10T12:00:00Z");
        object["spec"]["lifecycleHooks"] = json!({"preDrain": [{"name": "Move", "owner": "ledger"}]});
        object["status"]["nodeRef"] = json!({"name": "n"});
        let answer = explain(&object, Some(json!({"metadata": {"name": "n"}})), None);
        assert_eq!((answer.situation, answer.state), ("hook-present", State::Removing));
        assert_eq!(answer.why, ["hook preDrain/Move of ledger holds up the drain; no controller has acted on it for 20m"]);
        assert_eq!(answer.waits_for.as_deref(), Some("the owners of the hooks to remove them; then its node is drained"));
        object["spec"]["lifecycleHooks"] = json!({});
        object["status"]["conditions"] = json!([{"type": "Drained", "status": "True"}]);
        assert_eq!(explain(&object, None, None).situation, "terminating");
    }

    /// MACH-DEL-09: a machine that runs is as healthy as its node.
    #[test]
    fn machines_that_run() {
        let mut object = machine("Running");
        object["status"]["nodeRef"] = json!({"name": "n"});
        let node = |status: &str| Some(json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": status}]}}));
        let situations = [node("True"), node("Unknown"), None].map(|node| explain(&object, node, None).situation);
        assert_eq!(situations, ["healthy", "node-not-ready", "node-gone"]);
    }
}
