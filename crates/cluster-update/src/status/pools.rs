//! Pools of nodes (CVO-STAT-05, CVO-STAT-06).

use std::fmt::Write as _;

use mainstay_golang::sort_slice;
use serde_json::Value;

use super::control_plane::percent;
use super::health::{Impact, Insight, Level, Resource};
use super::node::{self, Node, Phase};
use super::{Facts, note};
use crate::cluster_version::text;
use crate::tabs::{Layout, aligned};

/// The nodes that are shown of a pool; more only if something is wrong with them.
const SHOWN: usize = 10;
const PAUSED: &str = "Pool is paused, which stops all changes to the nodes in the pool, including updates. The nodes will not be updated until the pool is unpaused by the administrator.";
const REBOOTS: &str = "https://docs.openshift.com/container-platform/latest/support/troubleshooting/troubleshooting-operator-issues.html#troubleshooting-disabling-autoreboot-mco_troubleshooting-operator-issues";
const LAYOUT: Layout = Layout { least: 0, gap: 3 };

/// A pool as it is shown.
pub struct Pool {
    pub name: String,
    assessment: &'static str,
    updated: usize,
    nodes: Vec<Node>,
    counts: Counts,
}

/// Numbers of nodes.
#[derive(Default)]
struct Counts {
    total: usize,
    completed: usize,
    available: usize,
    progressing: usize,
    outdated: usize,
    draining: usize,
    excluded: usize,
    degraded: usize,
}

/// Looks at a pool and its nodes.
pub fn assess(pool: &Value, nodes: &[&Value], facts: &Facts<'_>, insights: &mut Vec<Insight>) -> Pool {
    let name = text(&pool["metadata"]["name"]);
    let mut nodes: Vec<Node> = nodes.iter().map(|node| node::assess(node, pool, facts, insights)).collect();
    sort_slice(&mut nodes, |left, right| (left.assessment, left.phase, &left.name) < (right.assessment, right.phase, &right.name));
    let mut counts = Counts { total: nodes.len(), ..Counts::default() };
    let (mut updated, mut pending) = (0, 0);
    for node in &nodes {
        let phase = node.phase;
        counts.available += usize::from(!node.is_unavailable);
        counts.degraded += usize::from(node.is_degraded);
        counts.outdated += usize::from(phase != Phase::Updated);
        counts.excluded += usize::from(phase == Phase::Paused);
        counts.draining += usize::from(phase == Phase::Draining);
        counts.progressing += usize::from(matches!(phase, Phase::Draining | Phase::Updating | Phase::Rebooting) && !node.is_degraded);
        updated += usize::from(phase == Phase::Updated);
        pending += usize::from(phase == Phase::Pending);
    }
    let assessment = if updated == nodes.len() {
        "Completed"
    } else if pending == nodes.len() {
        "Pending"
    } else if counts.degraded > 0 {
        "Degraded"
    } else if counts.excluded > 0 {
        "Excluded"
    } else {
        "Progressing"
    };
    if counts.excluded > 0 && pool["spec"]["paused"] == true {
        note(
            insights,
            Insight {
                since: None,
                level: Level::Warning,
                impact: Impact::UpdateStalled,
                summary: format!("Outdated nodes in a paused pool '{name}' will not be updated"),
                description: PAUSED.to_owned(),
                reference: REBOOTS.to_owned(),
                resources: vec![Resource {
                    kind: "MachineConfigPool",
                    group: "machineconfiguration.openshift.io",
                    namespace: String::new(),
                    name: name.to_owned(),
                }],
            },
        );
    }
    Pool { name: name.to_owned(), assessment, updated, nodes, counts }
}

/// Writes the table of the worker pools.
pub fn table(pools: &[Pool]) -> String {
    let mut rows = vec![["WORKER POOL", "ASSESSMENT", "COMPLETION", "STATUS"].map(str::to_owned).to_vec()];
    for pool in pools {
        let Counts { total, available, progressing, outdated, draining, excluded, degraded, .. } = pool.counts;
        rows.push(if pool.nodes.is_empty() {
            vec![pool.name.clone(), "Empty".to_owned(), String::new(), format!("{total} Total")]
        } else {
            let status = format!(
                "{total} Total, {available} Available, {progressing} Progressing, {outdated} Outdated, {draining} Draining, {excluded} Excluded, {degraded} Degraded"
            );
            vec![pool.name.clone(), pool.assessment.to_owned(), format!("{}%", percent(pool.completion())), status]
        });
    }
    format!("\n{}", aligned(&rows, LAYOUT))
}

impl Pool {
    #[expect(clippy::cast_precision_loss, reason = "there are few nodes")]
    fn completion(&self) -> f64 {
        self.updated as f64 / self.nodes.len() as f64 * 100.0
    }

    /// Returns whether some of the nodes are not updated.
    pub fn is_outdated(&self) -> bool {
        !self.nodes.is_empty() && self.updated < self.nodes.len()
    }

    /// Writes the table of the nodes.
    pub fn nodes(&self, all: bool) -> String {
        if self.nodes.is_empty() {
            return String::new();
        }
        let title =
            if node::is_control_plane(&self.name) { "Control Plane Nodes".to_owned() } else { format!("Worker Pool Nodes: {}", self.name) };
        let mut rows = vec![["NAME", "ASSESSMENT", "PHASE", "VERSION", "EST", "MESSAGE"].map(str::to_owned).to_vec()];
        let mut omitted = Counts::default();
        for (number, node) in self.nodes.iter().enumerate() {
            // Nodes with a problem are always shown.
            if !all && number >= SHOWN && !node.is_degraded && (!node.is_unavailable || node.is_updating) {
                omitted.add(node);
                continue;
            }
            let version = if node.version.is_empty() { "?" } else { &node.version };
            rows.push(
                [&node.name, node.assessment.name(), node.phase.name(), version, node.estimate, &node.message].map(str::to_owned).to_vec(),
            );
        }
        let mut out = format!("\n{title}\n{}", aligned(&rows, LAYOUT));
        if omitted.total > 0 {
            let Counts { total, completed, available, progressing, outdated, draining, excluded, .. } = omitted;
            // Writing to a text cannot fail.
            let _written = writeln!(
                out,
                "...\nOmitted additional {total} Total, {completed} Completed, {available} Available, {progressing} Progressing, {outdated} Outdated, {draining} Draining, {excluded} Excluded, and 0 Degraded nodes.\nPass along --details=nodes to see all information."
            );
        }
        out
    }
}

impl Counts {
    fn add(&mut self, node: &Node) {
        self.total += 1;
        self.completed += usize::from(node.is_updated);
        self.outdated += usize::from(!node.is_updated);
        self.available += usize::from(!node.is_unavailable);
        self.draining += usize::from(node.phase == Phase::Draining);
        self.excluded += usize::from(node.phase == Phase::Paused);
        self.progressing += usize::from(node.assessment == node::Assessment::Progressing);
    }
}
