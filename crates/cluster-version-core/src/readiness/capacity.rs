//! The check whether the pods of nodes that are away fit elsewhere.

use std::collections::BTreeMap;

use mainstay_objects::{LabelSelector, labels_of};
use mainstay_schema::quantity::Quantity;
use serde_json::Value;

use super::duration::max_unavailable;
use super::facts::{Facts, Read, known, name, text};
use super::finding::{Check, Finding, Level};

/// Processor time in thousandths of a core, and memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    cpu: i128,
    memory: i128,
}

/// Compares, for each pool, what the pods of its fullest nodes ask for with what is free on its other nodes, as many nodes as may be away at once.
/// Selectors and tolerations of single pods are not looked at.
pub(super) fn capacity(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let mut used = BTreeMap::<&str, Amount>::new();
    let mut moving = BTreeMap::<&str, Amount>::new();
    for pod in known(&facts.pods)?.iter().filter(|pod| !pod.is_finished) {
        let add = |amount: &mut Amount| {
            amount.cpu += pod.cpu;
            amount.memory += pod.memory;
        };
        add(used.entry(&pod.node).or_default());
        if pod.is_drained() {
            add(moving.entry(&pod.node).or_default());
        }
    }
    let nodes = known(&facts.nodes)?;
    let mut findings = Vec::new();
    for pool in known(&facts.pools)? {
        let selector: LabelSelector = serde_json::from_value(pool["spec"]["nodeSelector"].clone()).unwrap_or_default();
        let members: Vec<&Value> = nodes.iter().filter(|node| selector.matches(&labels_of(node))).collect();
        // A pool that is stopped moves nothing.
        let away = max_unavailable(pool, members.len()).unwrap_or(0);
        if members.len() < 2 || away == 0 || away >= members.len() {
            continue;
        }
        let of = |map: &BTreeMap<&str, Amount>, node: &Value| map.get(text(node, "/metadata/name")).copied().unwrap_or_default();
        for (what, amount) in [("cpu", (|amount| amount.cpu) as fn(Amount) -> i128), ("memory", |amount| amount.memory)] {
            let mut sorted = members.clone();
            sorted.sort_by_key(|node| std::cmp::Reverse(amount(of(&moving, node))));
            let needed: i128 = sorted[..away].iter().map(|node| amount(of(&moving, node))).sum();
            let free: i128 = sorted[away..].iter().map(|node| (amount(allocatable(node)) - amount(of(&used, node))).max(0)).sum();
            if needed > free {
                let evidence = format!(
                    "{away} of its {} nodes may be away at once; the pods of the fullest ask for {} {what}, and {} is free on the others",
                    members.len(),
                    shown(what, needed),
                    shown(what, free)
                );
                let action = "add a node, lower maxUnavailable, or expect pods that wait";
                findings.push(Finding::new(Check::Capacity, Level::Risk, format!("machineconfigpool {}", name(pool)), evidence, action));
            }
        }
    }
    Ok(findings)
}

fn allocatable(node: &Value) -> Amount {
    let quantity = |field: &str| Quantity::parse(text(node, &format!("/status/allocatable/{field}"))).ok();
    Amount {
        cpu: quantity("cpu").map(Quantity::to_milli).unwrap_or_default(),
        memory: quantity("memory").map(|quantity| i128::from(quantity.to_int())).unwrap_or_default(),
    }
}

fn shown(what: &str, amount: i128) -> String {
    if what == "cpu" { format!("{amount}m") } else { format!("{}Mi", amount >> 20) }
}
