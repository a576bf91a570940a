//! ClusterCatalog: the decision to pull it, and its conditions.

pub mod plan;
pub mod status;

/// The caution shown beside every catalog (OLM1-CAT-15).
pub const REMOVED_APIS: &str =
    "Kubernetes removes deprecated APIs; an operator that uses a removed API stops working on a platform version without it";
