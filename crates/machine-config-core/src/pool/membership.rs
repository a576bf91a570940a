//! Which pools a node belongs to (MACH-MCP-03).

use mainstay_objects::{LabelSelector, Labels, SelectorError};

use super::{MASTER, WORKER};

const OS_LABEL: &str = "kubernetes.io/os";
const WINDOWS: &str = "windows";

/// A pool and its selector of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectingPool {
    /// Name of the pool.
    pub name: String,
    /// The selector; none, like an empty one, selects nothing.
    pub node_selector: Option<LabelSelector>,
}

/// The pools that a node takes its configuration from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Names of the pools; the first one is the node's own.
    pub pools: Vec<String>,
    /// True if a custom pool selects a node of the control plane, which is worth a warning (`mcc_pool_alert`).
    pub ignores_custom_pool: bool,
}

/// The reason why a node belongs to no pool although pools select it, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// A pool's selector is invalid.
    #[error("invalid label selector: {0}")]
    Selector(#[from] SelectorError),
    /// Several custom pools select the node.
    #[error("node {node} belongs to {pools} custom roles, cannot proceed with this Node")]
    Ambiguous {
        /// Name of the node.
        node: String,
        /// The number of custom pools.
        pools: usize,
    },
}

/// Returns the pools of a node; `None` if none selects it, or it runs Windows.
///
/// # Errors
/// Several custom pools select the node, or a selector is invalid.
pub fn membership(node: &str, labels: &Labels, pools: &[SelectingPool]) -> Result<Option<Membership>, MembershipError> {
    if labels.get(OS_LABEL).is_some_and(|os| os == WINDOWS) {
        return Ok(None);
    }
    let mut selecting = Vec::new();
    for pool in pools {
        let Some(selector) = &pool.node_selector else { continue };
        selector.validate()?;
        if !selector.is_empty() && selector.matches(labels) {
            selecting.push(pool.name.as_str());
        }
    }
    let master = selecting.contains(&MASTER);
    let worker = selecting.contains(&WORKER);
    let custom: Vec<&str> = selecting.into_iter().filter(|pool| ![MASTER, WORKER].contains(pool)).collect();
    let of = |pools: &[&str], ignores_custom_pool| {
        Some(Membership { pools: pools.iter().map(|&pool| pool.to_owned()).collect(), ignores_custom_pool })
    };
    Ok(match (custom.as_slice(), master, worker) {
        ([], false, false) => None,
        ([_, _, ..], _, _) => return Err(MembershipError::Ambiguous { node: node.to_owned(), pools: custom.len() }),
        ([_], true, true) => of(&[MASTER, WORKER], true),
        ([_], true, false) => of(&[MASTER], true),
        ([own], false, true) => of(&[own, WORKER], false),
        ([own], false, false) => of(&[own], false),
        ([], true, _) => of(&[MASTER], false),
        ([], false, true) => of(&[WORKER], false),
    })
}
