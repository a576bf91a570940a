//! One table for one question: which hook, budget or pool blocks this node or machine (MS-READY-02)?

use jiff::Timestamp;
use mainstay_diagnostics::Failure;
use mainstay_drain::{Options, Settings};
use mainstay_lifecycle::explanation::ago;
use mainstay_machine_config_core::pool::node::{Node as PoolNode, annotation};
use mainstay_machine_core::condition::Condition;
use mainstay_machine_core::deletion::{Part, PartState, hooks};
use mainstay_machine_core::drain::verdict::Verdict;
use mainstay_machine_core::hooks::Stage;
use mainstay_machine_core::machine::DRAINED;
use mainstay_machine_core::node_link::MACHINE_ANNOTATION;
use serde::Serialize;
use serde_json::Value;

use super::{MACHINE, MachineFacts, facts, pods, served};
use crate::classic::objects::find;
use crate::pools;
use crate::session::Session;

/// A sort of blocker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockerKind {
    /// A lifecycle hook of a machine.
    Hook,
    /// A pod that cannot be evicted, or is ending.
    Pod,
    /// Another node.
    Node,
    /// A pool of nodes.
    Pool,
    /// The instance at the provider.
    Instance,
}

impl BlockerKind {
    /// Returns the word for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Pod => "pod",
            Self::Node => "node",
            Self::Pool => "pool",
            Self::Instance => "instance",
        }
    }
}

/// Something that blocks a machine or node, or will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// The sort.
    pub kind: BlockerKind,
    /// Its name.
    pub name: String,
    /// The controller or person that can end it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Since when it blocks, or is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// True if it blocks now; false if it will once its step comes.
    pub now: bool,
    /// What it blocks, and by what.
    pub why: String,
}

/// Returns the hooks of a machine as blockers.
pub(super) fn of_hooks(facts: &MachineFacts, now: Timestamp) -> Vec<Blocker> {
    let course = facts.course();
    let of = |stage: Stage| if stage == Stage::PreDrain { Part::PreDrainHooks } else { Part::PreTerminateHooks };
    let held = hooks(&facts.machine, &facts.object).into_iter();
    held.map(|held| {
        let what = if held.stage == Stage::PreDrain { "the drain" } else { "the removal of the instance" };
        let state = course.state(of(held.stage));
        let mut why = match state {
            PartState::Now => format!("holds up {what}"),
            PartState::Skipped => "does not hold up: the drain is left out".to_owned(),
            _ => format!("will hold up {what}"),
        };
        if let (PartState::Now, Some(silent)) = (state, held.silence(now)) {
            let since = now.checked_sub(silent).unwrap_or(now);
            why = format!("{why}; no controller has acted on it for {}", ago(now, since));
        }
        if let Some((manager, _)) = &held.written {
            why = format!("{why}; written by {manager}");
        }
        Blocker {
            kind: BlockerKind::Hook,
            name: format!("{}/{}", held.stage.field(), held.hook.name),
            owner: Some(held.hook.owner).filter(|owner| !owner.is_empty()),
            since: held.since,
            now: state == PartState::Now,
            why,
        }
    })
    .collect()
}

/// Returns everything that blocks a machine, or will: what blocks now first.
pub(super) async fn of_machine(session: &Session, facts: &MachineFacts, now: Timestamp) -> Result<Vec<Blocker>, Failure> {
    let mut all = of_hooks(facts, now);
    let course = facts.course();
    if course.current() == Some(Part::Drain) {
        match &course.drain {
            Verdict::NotPermitted { other } => all.push(Blocker {
                kind: BlockerKind::Node,
                name: other.name.clone(),
                owner: None,
                since: None,
                now: true,
                why: "another node of the control plane is cordoned: one is drained at a time".to_owned(),
            }),
            Verdict::Drain { settings, grace_period } => {
                let node = facts.machine.node.as_deref().unwrap_or_default();
                all.extend(of_pods(session, node, *settings, *grace_period, now).await?);
            }
            _ => {}
        }
    }
    if course.current() == Some(Part::Terminate) {
        let drained = Condition::all_of(&facts.object).into_iter().find(|condition| condition.kind == DRAINED);
        let state = facts.machine.annotations.get("machine.openshift.io/instance-state");
        all.push(Blocker {
            kind: BlockerKind::Instance,
            name: facts.machine.provider_id.clone().unwrap_or_else(|| facts.machine.name.clone()),
            owner: facts.object.pointer("/spec/providerSpec/value/kind").and_then(Value::as_str).map(|kind| format!("provider of {kind}")),
            since: drained.and_then(|condition| condition.changed),
            now: true,
            why: format!("the provider removes it; it is {}", state.map_or("in an unknown state", String::as_str)),
        });
    }
    all.sort_by_key(|blocker| !blocker.now);
    Ok(all)
}

async fn of_pods(session: &Session, node: &str, settings: Settings, grace: Option<i64>, now: Timestamp) -> Result<Vec<Blocker>, Failure> {
    let emptied = pods::of_node(session, node, settings, grace, now).await?;
    let refused = emptied.refused.into_iter().map(|why| Blocker {
        kind: BlockerKind::Node,
        name: node.to_owned(),
        owner: None,
        since: None,
        now: true,
        why,
    });
    let pods = emptied.leaving.into_iter().filter_map(|leaving| {
        let why = leaving.blocked.or_else(|| leaving.since.map(|_| "it is ending".to_owned()))?;
        Some(Blocker { kind: BlockerKind::Pod, name: leaving.pod, owner: leaving.owner, since: leaving.since, now: true, why })
    });
    Ok(refused.chain(pods).collect())
}

/// Returns everything that blocks a node: its machine's blockers while that is being deleted, the pods of a drain for its configuration, and its
/// pool. What the cluster does not serve blocks nothing.
pub(super) async fn of_node(session: &Session, node: &Value, now: Timestamp) -> Result<Vec<Blocker>, Failure> {
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let mut all = Vec::new();
    let machine = node.pointer("/metadata/annotations").and_then(|all| all.get(MACHINE_ANNOTATION)).and_then(Value::as_str);
    if let Some((namespace, machine)) = machine.and_then(|place| place.split_once('/'))
        && let Some(object) = served(find(session, MACHINE, namespace, machine).await)?.flatten()
    {
        let facts = facts(session, object).await?;
        all.extend(of_machine(session, &facts, now).await?);
    }
    let own = PoolNode::of(node);
    let asked = own.filled(annotation::DESIRED_DRAIN).filter(|asked| asked.starts_with("drain-"));
    if asked.is_some_and(|asked| own.annotation(annotation::LAST_APPLIED_DRAIN) != Some(asked)) {
        all.extend(of_pods(session, name, Options::default().settings, None, now).await?);
    }
    if let Some(pools) = served(pools::read(session).await)? {
        all.extend(pools.holding(&own).map(|held| Blocker {
            kind: BlockerKind::Pool,
            name: held.pool,
            owner: Some("administrator".to_owned()),
            since: held.since,
            now: true,
            why: held.why,
        }));
    }
    all.sort_by_key(|blocker| !blocker.now);
    Ok(all)
}
