//! Explanations of pools and nodes: what they wait for, what keeps them from it, whose that is, and since when (MACH-TRB-05 to MACH-TRB-07).

use std::convert::Infallible;

use jiff::Timestamp;
use mainstay_lifecycle::explanation::{self, Action, Evidence, State};
use mainstay_objects::condition;
use serde_json::Value;

use crate::pool::Pool;
use crate::pool::node::{Node, annotation, state};
use crate::pool::status::Classes;

/// An explanation of a pool or node. Its actions are commands alone.
pub type Explanation = explanation::Explanation<Infallible>;

/// A pod that keeps a drain from its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocking {
    /// Namespace and name.
    pub pod: String,
    /// The reason, with the budget.
    pub why: String,
    /// The controller of the pod: kind and name.
    pub owner: Option<String>,
    /// Since when the pod has been ending, or the budget forbids it.
    pub since: Option<Timestamp>,
}

/// A node, its progress, and the pods that keep its drain from its end.
#[derive(Clone, Debug)]
pub struct NodeFacts<'a> {
    /// The node.
    pub node: &'a Node,
    /// Name of its pool; none if no pool, or several, select it.
    pub pool: Option<&'a str>,
    /// Its MachineConfigNode.
    pub progress: Option<&'a Value>,
    /// The pods.
    pub blocking: &'a [Blocking],
    /// When its Ready condition changed.
    pub ready_since: Option<Timestamp>,
}

/// A pool and its nodes.
#[derive(Clone, Debug)]
pub struct PoolFacts<'a> {
    /// The object.
    pub object: &'a Value,
    /// The pool.
    pub pool: &'a Pool,
    /// Its nodes.
    pub nodes: &'a [Node],
    /// The pods that keep drains from their ends, by node.
    pub blocking: &'a [(String, Vec<Blocking>)],
    /// The number of nodes that may be unavailable.
    pub limit: i64,
}

/// The phase of a node on its way.
fn phase(node: &Node) -> String {
    let (current, desired) = (node.filled(annotation::CURRENT_CONFIG), node.filled(annotation::DESIRED_CONFIG));
    let applied = node.annotation(annotation::LAST_APPLIED_DRAIN);
    let asked = node.filled(annotation::DESIRED_DRAIN).filter(|asked| Some(*asked) != applied);
    if node.is_degraded() {
        let reason = node.annotation(annotation::REASON).unwrap_or_default();
        return format!("{}: {reason}", node.annotation(annotation::STATE).unwrap_or_default().to_lowercase());
    }
    if node.annotation(annotation::POST_ACTION) == Some(state::REBOOTING) {
        return "reboots".to_owned();
    }
    match asked.and_then(|asked| asked.split_once('-')) {
        Some(("drain", _)) => "is drained".to_owned(),
        Some(_) => "is uncordoned".to_owned(),
        None if current != desired => "writes its configuration".to_owned(),
        None if !node.is_ready() => "is not ready, or is cordoned by others".to_owned(),
        None => "is done".to_owned(),
    }
}

fn command(text: impl Into<String>, commands: Vec<String>) -> Action<Infallible> {
    Action {
        text: text.into(),
        commands,
        warning: None,
        refused: None,
        after: None,
        not_checked: None,
        remedy: None,
        leads_to: None,
        guess: false,
    }
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn blocked_lines(blocking: &[Blocking]) -> impl Iterator<Item = String> {
    blocking.iter().map(|one| {
        let owner = one.owner.as_deref().map(|owner| format!(" of {owner}")).unwrap_or_default();
        let since = one.since.map(|since| format!(", since {since:.0}")).unwrap_or_default();
        format!("pod {}{owner}: {}{since}", one.pod, one.why)
    })
}

/// Explains a pool.
pub fn pool(facts: &PoolFacts<'_>) -> Explanation {
    let (name, target) = (&facts.pool.name, &facts.pool.target);
    let subject = format!("machineconfigpool {name}");
    let of = |kind: &str| condition(facts.object, kind);
    let message = |kind: &str| of(kind).and_then(|one| one["message"].as_str()).unwrap_or_default().to_owned();
    let since = |kind: &str| of(kind).and_then(|one| time(&one["lastTransitionTime"]));
    let is = |kind: &str| of(kind).is_some_and(|one| one["status"] == "True");
    let classes = Classes::of(facts.nodes, target);
    let done = format!("{} of {} nodes have {target}", classes.updated.len(), facts.nodes.len());
    let mut answer = if is("RenderDegraded") {
        let text = "its MachineConfigs cannot be rendered; nodes keep what they have";
        let mut answer = Explanation::new(subject, "render-degraded", State::Degraded, text).because(message("RenderDegraded"));
        answer.since = since("RenderDegraded");
        answer.then(command("correct or delete the MachineConfig that is named", vec!["kubectl get machineconfigs".to_owned()]))
    } else if !classes.degraded.is_empty() {
        let text = format!("nodes report failures: {done}");
        let mut answer = Explanation::new(subject, "node-degraded", State::Degraded, text);
        answer.since = since("NodeDegraded");
        for node in &classes.degraded {
            answer = answer.because(format!("node {} is {}", node.name, phase(node)));
        }
        let first = classes.degraded.first().map(|node| node.name.clone()).unwrap_or_default();
        answer.then(command("look at the node", vec![format!("mainstay explain node {first}")]))
    } else if facts.pool.paused && !classes.all_updated(facts.nodes.len()) {
        let text = format!("is paused, and changes wait: {done}");
        let mut answer = Explanation::new(subject, "paused", State::Held, text);
        answer.since = since("Updating");
        answer.waits_for = Some("spec.paused to be false".to_owned());
        answer.then(command("resume it; all changes that wait are applied in one step", vec![format!("mainstay pool resume {name}")]))
    } else if classes.all_updated(facts.nodes.len()) {
        let text = if facts.pool.paused { "is up to date, and paused" } else { "is up to date" };
        let mut answer = Explanation::new(subject, "healthy", State::Healthy, text);
        answer.since = since("Updated");
        answer
    } else {
        working(facts, subject, &done, since("Updating"))
    };
    if facts.pool.paused && answer.situation != "paused" {
        answer.notes.push("it is paused: changes, also of certificates, wait until mainstay pool resume".to_owned());
    }
    for kind in ["Updated", "Updating", "Degraded"] {
        let status = of(kind).and_then(|one| one["status"].as_str()).unwrap_or("Unknown");
        answer.evidence.push(Evidence {
            what: kind.to_owned(),
            says: format!("{status} {}", message(kind)).trim().to_owned(),
            at: since(kind),
        });
    }
    answer
}

/// A pool whose nodes are on their way: what each does, and what uses up its limit.
fn working(facts: &PoolFacts<'_>, subject: String, done: &str, since: Option<Timestamp>) -> Explanation {
    let target = &facts.pool.target;
    let moving: Vec<&Node> = facts.nodes.iter().filter(|node| node.is_targeted_at(target) && !node.is_done_at(target)).collect();
    let foreign: Vec<&Node> =
        facts.nodes.iter().filter(|node| !node.is_ready() && !moving.iter().any(|other| std::ptr::eq(*other, *node))).collect();
    let blocked = facts.blocking.iter().any(|(_, pods)| !pods.is_empty());
    let situation = if blocked {
        "drain-blocked"
    } else if moving.is_empty() && !foreign.is_empty() {
        "no-capacity"
    } else {
        "updating"
    };
    let mut answer = Explanation::new(subject, situation, State::Working, format!("is updating: {done}"));
    answer.since = since;
    for node in &moving {
        answer = answer.because(format!("node {} {}", node.name, phase(node)));
        let pods = facts.blocking.iter().find(|(name, _)| *name == node.name).map(|(_, pods)| pods.as_slice()).unwrap_or_default();
        for line in blocked_lines(pods) {
            answer = answer.because(line);
        }
    }
    for node in &foreign {
        answer = answer
            .because(format!("node {} is unavailable, and not by this roll-out: it uses up maxUnavailable ({})", node.name, facts.limit));
    }
    let waiting = facts.nodes.iter().filter(|node| !node.is_targeted_at(target)).count();
    if waiting > 0 {
        answer.notes.push(format!("{waiting} nodes wait; at most {} are unavailable at once", facts.limit));
    }
    let first_blocked = facts.blocking.iter().find(|(_, pods)| !pods.is_empty());
    match (first_blocked, foreign.first()) {
        (Some((node, _)), _) => answer.then(command(
            "let the budget allow an eviction: run more replicas, or change the budget",
            vec![format!("mainstay explain node {node}"), "kubectl get poddisruptionbudgets -A".to_owned()],
        )),
        (None, Some(node)) if moving.is_empty() => {
            answer.then(command("make the node ready, or uncordon it", vec![format!("kubectl describe node {}", node.name)]))
        }
        _ => answer,
    }
}

/// Explains a node.
pub fn node(facts: &NodeFacts<'_>) -> Explanation {
    let node = facts.node;
    let subject = format!("node {}", node.name);
    let Some(pool) = facts.pool else {
        let text = "belongs to no machineconfigpool, or to several custom ones: its configuration is not managed";
        let answer = Explanation::new(subject, "no-pool", State::Held, text);
        return answer.then(command("give it the label of one pool's nodeSelector", vec!["mainstay pool list".to_owned()]));
    };
    let (current, desired) = (node.filled(annotation::CURRENT_CONFIG), node.filled(annotation::DESIRED_CONFIG));
    let goal = format!("pool {pool}, has {}, is asked for {}", current.unwrap_or("nothing"), desired.unwrap_or("nothing"));
    let mut answer = if node.is_degraded() {
        let is_out_of_reach = node.is_in(state::UNRECONCILABLE);
        let (situation, text) = if is_out_of_reach {
            ("unreconcilable", format!("cannot take its configuration in place: {goal}"))
        } else {
            ("degraded", format!("reports a failure: {goal}"))
        };
        let reason = node.annotation(annotation::REASON).unwrap_or_default().to_owned();
        let answer = Explanation::new(subject, situation, State::Degraded, text).because(reason.clone());
        if reason.contains("unexpected on-disk state") {
            answer.then(command(
                "put the file back, or force a write and a reboot with the file /run/machine-config-daemon-force",
                Vec::new(),
            ))
        } else {
            answer
        }
    } else if !facts.blocking.is_empty() {
        let mut answer = Explanation::new(subject, "drain-blocked", State::Working, format!("is drained, and pods remain: {goal}"));
        answer.waits_for = Some("the remaining pods to leave".to_owned());
        answer.then(command(
            "let the budget allow an eviction: run more replicas, or change the budget",
            vec!["kubectl get poddisruptionbudgets -A".to_owned()],
        ))
    } else if current != desired || !node.is_in(state::DONE) {
        Explanation::new(subject, "updating", State::Working, format!("{}: {goal}", phase(node)))
    } else if !node.is_ready() {
        let text = "has its configuration, and is not available: not ready, or cordoned by others";
        Explanation::new(subject, "unavailable", State::Held, text)
    } else {
        Explanation::new(subject, "healthy", State::Healthy, format!("has its configuration: {goal}"))
    };
    for line in blocked_lines(facts.blocking) {
        answer = answer.because(line);
    }
    answer.since = facts.ready_since.filter(|_| answer.situation == "unavailable");
    let steps = facts.progress.and_then(|progress| progress.pointer("/status/conditions")).and_then(Value::as_array);
    for step in steps.into_iter().flatten().filter(|step| step["status"] != "False") {
        let text = |field: &str| step[field].as_str().unwrap_or_default().to_owned();
        let says = format!("{} {}", text("status"), text("message"));
        answer.evidence.push(Evidence { what: text("type"), says, at: time(&step["lastTransitionTime"]) });
    }
    answer
}
