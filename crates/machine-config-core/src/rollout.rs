//! The roll-out of a MachineConfig before it happens: what each pool would render, and which nodes would be touched in which order (MACH-DISR-09).

use mainstay_objects::{LabelSelector, Labels};

use crate::content::{self, ContentError};
use crate::difference::DifferenceError;
use crate::disruption::{Disruption, RegistryDrain, disruption};
use crate::ignition::{ConvertError, parse_and_convert};
use crate::machine_config::{ControllerConfig, MachineConfig};
use crate::merge::{RenderError, render};
use crate::policy::Policies;
use crate::pool::Pool;
use crate::pool::candidates::in_zones;
use crate::pool::limit::{LimitError, max_unavailable};
use crate::pool::node::Node;
use crate::reconcilable::{self, Unreconcilable};

/// A pool, its selector of MachineConfigs, and its nodes.
#[derive(Clone, Debug)]
pub struct Target {
    /// The pool.
    pub pool: Pool,
    /// The selector.
    pub selector: LabelSelector,
    /// The nodes.
    pub nodes: Vec<Node>,
}

/// The roll-out that a pool would make.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolRollout {
    /// The pool.
    pub pool: String,
    /// True if nothing happens before it is resumed.
    pub paused: bool,
    /// The configuration that it has, and the one that it would get.
    pub configs: (String, String),
    /// The difference for a node.
    pub change: Disruption,
    /// Nodes in the order in which they would be asked; those of a round at once.
    pub rounds: Vec<Vec<String>>,
    /// The number of nodes that may be unavailable.
    pub limit: usize,
}

/// Why a pool would keep its configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RolloutError {
    /// The MachineConfigs cannot be rendered.
    #[error("could not generate rendered MachineConfig: {0}")]
    Render(#[from] RenderError),
    /// The result cannot be read.
    #[error("could not generate rendered MachineConfig: {0}")]
    Ignition(#[from] ConvertError),
    /// The result cannot be written to nodes.
    #[error("could not generate rendered MachineConfig: {0}")]
    Content(#[from] ContentError),
    /// Nodes cannot take the change in place.
    #[error("{0}")]
    InPlace(#[from] Unreconcilable),
    /// The difference cannot be told.
    #[error(transparent)]
    Difference(#[from] DifferenceError),
    /// The limit of the pool cannot be read.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// The facts that the pools have in common.
#[derive(Clone, Debug)]
pub struct Cluster<'a> {
    /// The MachineConfigs that there are, rendered ones not among them.
    pub configs: &'a [MachineConfig],
    /// The images of the ControllerConfig.
    pub controller: &'a ControllerConfig,
    /// The policies that count.
    pub policies: &'a Policies,
    /// The ConfigMap about registries.
    pub registries: RegistryDrain,
}

/// Plans what a pool would do if `new` were applied: over one of the same name, or beside the others. None if it would change nothing. `current`
/// is the rendered MachineConfig that the pool has.
///
/// # Errors
/// The pool would keep its configuration; see [`RolloutError`].
pub fn rollout(
    target: &Target,
    cluster: &Cluster<'_>,
    new: &MachineConfig,
    current: &MachineConfig,
) -> Result<Option<PoolRollout>, RolloutError> {
    let labels = |config: &MachineConfig| -> Labels { config.labels.clone().unwrap_or_default() };
    let selects = |config: &&MachineConfig| !target.selector.is_empty() && target.selector.matches(&labels(config));
    let others = cluster.configs.iter().filter(|config| config.name != new.name);
    let configs: Vec<MachineConfig> = others.chain([new]).filter(selects).cloned().collect();
    let Some(made) = render(&target.pool.name, &configs, cluster.controller)? else { return Ok(None) };
    content::check(&parse_and_convert(made.spec.ignition.as_deref().unwrap_or_default())?)?;
    if made.name == current.name {
        return Ok(None);
    }
    let next = MachineConfig { name: made.name, labels: None, spec: made.spec };
    reconcilable::check(current, &next)?;
    let change = disruption(current, &next, cluster.policies, cluster.registries)?;
    let limit = max_unavailable(target.pool.max_unavailable.as_ref(), target.nodes.len())?;
    let limit = usize::try_from(limit).unwrap_or_default();
    let mut nodes: Vec<&Node> = target.nodes.iter().collect();
    in_zones(&mut nodes);
    let rounds = if limit == 0 {
        Vec::new()
    } else {
        nodes.chunks(limit).map(|round| round.iter().map(|node| node.name.clone()).collect()).collect()
    };
    Ok(Some(PoolRollout {
        pool: target.pool.name.clone(),
        paused: target.pool.paused,
        configs: (current.name.clone(), next.name),
        change,
        rounds,
        limit,
    }))
}
