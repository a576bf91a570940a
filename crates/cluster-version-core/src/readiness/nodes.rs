//! Checks of machine config pools and nodes.

use super::duration::max_unavailable;
use super::facts::{Facts, Read, condition_is, known, name, said};
use super::finding::{Check, Finding, Level};

/// The pool of the control plane.
const MASTER: &str = "master";

/// Pools that are paused, degraded or busy (MACH-PAUSE-06).
pub(super) fn pools(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let mut findings = Vec::new();
    for pool in known(&facts.pools)? {
        let name = name(pool);
        let object = format!("machineconfigpool {name}");
        let is_master = name == MASTER;
        let level = if is_master { Level::Blocks } else { Level::Risk };
        let stopped = match max_unavailable(pool, 1) {
            Ok(0) => Some("it is negative".to_owned()),
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = stopped {
            let evidence = format!("its maxUnavailable lets no node be updated: {why}");
            findings.push(Finding::new(Check::Pools, level, &*object, evidence, "set a number or a percentage"));
        }
        if pool["spec"]["paused"] == true {
            let effect =
                if is_master { "the update cannot finish" } else { "its nodes keep the operating system and kubelet that they have" };
            let action =
                format!("resume it: kubectl patch machineconfigpool {name} --type merge --patch '{{\"spec\":{{\"paused\":false}}}}'");
            findings.push(Finding::new(Check::Pools, level, &*object, format!("it is paused: {effect}"), action));
        }
        if let Some(condition) = condition_is(pool, "Degraded", "True") {
            let action = "mend its nodes first; the reason is that of the node that fails";
            findings
                .push(Finding::new(Check::Pools, level, &*object, format!("it is degraded: {}", said(condition)), action).since(condition));
        }
        if let Some(condition) = condition_is(pool, "Updating", "True") {
            let evidence = format!("it is updating: {}", said(condition));
            findings.push(Finding::new(Check::Pools, Level::Risk, &*object, evidence, "wait until it is done").since(condition));
        }
    }
    Ok(findings)
}

/// Nodes that are not ready or cordoned: they count as unavailable in their pool.
pub(super) fn nodes(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let mut findings = Vec::new();
    for node in known(&facts.nodes)? {
        let object = format!("node {}", name(node));
        let not_ready = condition_is(node, "Ready", "False").or_else(|| condition_is(node, "Ready", "Unknown"));
        if let Some(condition) = not_ready {
            let evidence = format!("Ready={} {}", condition["status"].as_str().unwrap_or_default(), said(condition));
            let action = "bring it back or remove it; it takes one of the places of its pool's maxUnavailable";
            findings.push(Finding::new(Check::Nodes, Level::Risk, object, evidence, action).since(condition));
        } else if node["spec"]["unschedulable"] == true {
            let action = format!("kubectl uncordon {}, unless it is meant to stay so", name(node));
            findings.push(Finding::new(Check::Nodes, Level::Risk, object, "it is cordoned, and its pool counts it as unavailable", action));
        }
    }
    Ok(findings)
}
