//! Reasons why an operator cannot be migrated, each with what would help.

use serde::{Serialize, Serializer};

/// A reason why an operator cannot be migrated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// No Subscription asks for the CSV.
    #[error("no Subscription asks for it, so its package, channel and catalog are not known")]
    NoSubscription,
    /// The Subscription has installed nothing.
    #[error("the Subscription has no installed CSV")]
    NotInstalled,
    /// The CSV does not work.
    #[error("csv {csv} is in phase {phase:?}, and only one that has succeeded is migrated")]
    Phase {
        /// The CSV.
        csv: String,
        /// Its phase.
        phase: String,
    },
    /// The OperatorCondition forbids changes.
    #[error("operatorcondition {csv} does not allow it: {reason}")]
    Condition {
        /// The CSV, whose name the condition has.
        csv: String,
        /// The reason.
        reason: String,
    },
    /// An InstallPlan is at work.
    #[error("installplan {0} is being carried out")]
    Plan(String),
    /// The operator needs others.
    #[error("it needs what OLM v1 does not bring: {}", .0.join(", "))]
    Needs(Vec<String>),
    /// Others need its APIs, or provide them, too.
    #[error("other operators share its APIs: {}", .0.join(", "))]
    Rivals(Vec<String>),
    /// The CSV owns aggregated APIs.
    #[error("it provides APIServices, which OLM v1 does not support")]
    ApiServices,
    /// The Subscription configures the Deployments.
    #[error("spec.config of the Subscription has no counterpart: feature gate DeploymentConfig of operator-controller is off")]
    Config,
    /// The namespace has no OperatorGroup, or several.
    #[error("the namespace has {0} OperatorGroups instead of one")]
    Groups(usize),
    /// The group has no target.
    #[error("the OperatorGroup selects no namespace")]
    NoTargets,
    /// The operator watches one namespace.
    #[error("it watches namespace {0} alone, and feature gate SingleOwnNamespaceInstallSupport of operator-controller is off")]
    Watch(String),
    /// The operator watches several namespaces.
    #[error("it watches several namespaces ({}), which OLM v1 does not support", .0.join(", "))]
    SeveralTargets(Vec<String>),
    /// No ClusterCatalog has the installed version, or its bundle cannot be installed.
    #[error("OLM v1 does not offer it: {0}")]
    NotOffered(String),
    /// Objects of the bundle exist, and OLM classic did not make them for this operator.
    #[error("objects of the bundle exist and are not the operator's: {}", .0.join(", "))]
    Foreign(Vec<String>),
    /// The catalog has another bundle of this version.
    #[error("csv {installed} is installed, and the ClusterCatalog has {offered} of this version")]
    OtherBundle {
        /// The installed CSV.
        installed: String,
        /// The bundle.
        offered: String,
    },
}

impl Serialize for Obstacle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
