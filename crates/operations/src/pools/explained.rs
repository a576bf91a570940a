//! Explanations of pools and nodes, with the facts that they rest on.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mainstay_diagnostics::Failure;
use mainstay_drain::{Attempt, Drain, Found, Options};
use mainstay_machine_config_core::NAMESPACE;
use mainstay_machine_config_core::explain::{self, Blocking, Explanation, NodeFacts, PoolFacts};
use mainstay_machine_config_core::pool::node::{Node, annotation};
use mainstay_objects::LabelSelector;
use serde_json::Value;

use super::{GROUP, NODE, Pools, of_object, read};
use crate::classic::objects::{Kind, find, list};
use crate::session::Session;

const PROGRESS: Kind =
    Kind { group: GROUP, version: "v1", kind: "MachineConfigNode", plural: "machineconfignodes", word: "machineconfignode" };
const POD: Kind = Kind { group: "", version: "v1", kind: "Pod", plural: "pods", word: "pod" };
const NETWORK_POLICY: Kind =
    Kind { group: "networking.k8s.io", version: "v1", kind: "NetworkPolicy", plural: "networkpolicies", word: "networkpolicy" };
/// The most nodes of a pool whose drains are looked at.
const MOST_DRAINS: usize = 20;

/// Explains a pool.
///
/// # Errors
/// There is no such pool, or the facts cannot be read.
pub async fn explain_pool(session: &Session, name: &str, now: Timestamp) -> Result<Explanation, Failure> {
    let pools = read(session).await?;
    let object = pools.named(name)?;
    let nodes = pools.nodes(name);
    let (pool, limit) = of_object(object, nodes.len())?;
    let mut blocking_pods = Vec::new();
    for node in nodes.iter().filter(|node| is_draining(node)).take(MOST_DRAINS) {
        blocking_pods.push((node.name.clone(), blocking(session, &node.name, now).await?));
    }
    let mut answer = explain::pool(&PoolFacts { object, pool: &pool, nodes: &nodes, blocking: &blocking_pods, limit });
    answer.notes.extend(reachable_server(session).await);
    Ok(answer)
}

/// A warning if nothing on the cluster keeps pods from the config server, whose answers hold the files of nodes (MACH-MCS-02). Rules of firewalls
/// are not seen from here.
async fn reachable_server(session: &Session) -> Option<String> {
    let policies = match list(session, NETWORK_POLICY, Some(NAMESPACE)).await {
        Ok(policies) => policies,
        // The pool is explained all the same.
        Err(failure) => return Some(format!("whether pods reach the config server is not known: {}", failure.message())),
    };
    let of_server = BTreeMap::from([("k8s-app".to_owned(), "machine-config-server".to_owned())]);
    let guards = |policy: &Value| {
        let selector = serde_json::from_value::<LabelSelector>(policy["spec"]["podSelector"].clone());
        let types = policy["spec"]["policyTypes"].as_array();
        let is_ingress = types.is_none_or(|types| types.iter().any(|kind| kind == "Ingress"));
        is_ingress && selector.is_ok_and(|selector| selector.matches(&of_server))
    };
    let text = "no NetworkPolicy keeps pods from the config server (ports 22623 and 22624), whose answers hold the files of nodes and the token \
                that they join with; a firewall is not seen from here";
    (!policies.iter().any(guards)).then(|| text.to_owned())
}

/// Explains a node.
///
/// # Errors
/// There is no such node, or the facts cannot be read.
pub async fn explain_node(session: &Session, name: &str, now: Timestamp) -> Result<Explanation, Failure> {
    let Some(object) = find(session, NODE, "", name).await? else {
        return Err(NODE.not_found("", name).hint("kubectl get nodes lists them"));
    };
    let node = Node::of(&object);
    let pools: Pools = read(session).await?;
    let pool = pools.pool_of(&node);
    let progress = find(session, PROGRESS, "", name).await?;
    let pods = if is_draining(&node) { blocking(session, name, now).await? } else { Vec::new() };
    let ready = mainstay_objects::condition(&object, "Ready").and_then(|ready| ready["lastTransitionTime"].as_str()?.parse().ok());
    let facts = NodeFacts { node: &node, pool: pool.as_deref(), progress: progress.as_ref(), blocking: &pods, ready_since: ready };
    Ok(explain::node(&facts))
}

/// Returns whether a drain was asked for and is not done.
fn is_draining(node: &Node) -> bool {
    let asked = node.filled(annotation::DESIRED_DRAIN).filter(|asked| asked.starts_with("drain-"));
    asked.is_some_and(|asked| node.annotation(annotation::LAST_APPLIED_DRAIN) != Some(asked))
}

/// The pods that keep a drain from its end. The server is asked for each eviction, and keeps nothing.
async fn blocking(session: &Session, node: &str, now: Timestamp) -> Result<Vec<Blocking>, Failure> {
    let failed = |error: mainstay_drain::DrainError| Failure::failed(format!("node {node}"), &error);
    let drain = Drain::new(session.once.clone(), node, Options { dry_run: true, ..Options::default() });
    let look = drain.look(now).await.map_err(failed)?;
    let mut all: Vec<Blocking> =
        look.refused.iter().map(|text| Blocking { pod: "several".to_owned(), why: text.clone(), owner: None, since: None }).collect();
    for found in &look.leaving {
        let (why, since) = match found.deleted {
            Some(since) => ("it is ending".to_owned(), Some(since)),
            None => match drain.evict(found).await.map_err(failed)? {
                Attempt::Accepted | Attempt::Gone => continue,
                Attempt::Forbidden(words) => (forbidden(&drain, found, &words).await, None),
                Attempt::TerminatingNamespace(words) | Attempt::Refused(words) => (words, None),
            },
        };
        let owner = owner(session, found).await?;
        all.push(Blocking { pod: found.pod.to_string(), why, owner, since });
    }
    Ok(all)
}

/// The budgets that forbid an eviction, else the server's words.
pub(crate) async fn forbidden(drain: &Drain, found: &Found, words: &str) -> String {
    let budgets = drain.budgets(found).await;
    if budgets.is_empty() {
        return words.to_owned();
    }
    let names: Vec<String> = budgets.iter().map(|budget| format!("{}/{budget}", found.pod.namespace)).collect();
    format!("blocked by PodDisruptionBudget {}", names.join(", "))
}

/// The controller of a pod: kind and name.
pub(crate) async fn owner(session: &Session, found: &Found) -> Result<Option<String>, Failure> {
    let Some(pod) = find(session, POD, &found.pod.namespace, &found.pod.name).await? else { return Ok(None) };
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
    Ok(controller.map(|owner| {
        let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("kind").to_lowercase(), text("name"))
    }))
}
