//! A cluster's own update, as its administrator sees it and asks for it (CVO-CLI-01, CVO-STAT-01). `cluster_update` decides and words; this reads and
//! sends.

use kube::api::GroupVersionKind;
use mainstay_apply::WriteError;
use mainstay_cluster_update::explain::{self, Explanation, OperatorFacts, VersionFacts};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{ObjectRef, Patch, Step};
use serde_json::Value;

use crate::apply::execute;
use crate::failure::not_written;
use crate::session::Session;

/// The group of the pools.
const MACHINE_CONFIGURATION: &str = "machineconfiguration.openshift.io";
/// The most objects of a kind that are read.
const MOST: usize = 20_000;
/// The name of the ClusterVersion that counts.
const NAME: &str = "version";

/// The objects that the status of an update is made of.
#[derive(Debug)]
pub struct Observed {
    /// The ClusterVersion.
    pub cluster_version: Value,
    /// The ClusterOperators.
    pub operators: Vec<Value>,
    /// The MachineConfigPools.
    pub pools: Vec<Value>,
    /// The MachineConfigs.
    pub machine_configs: Vec<Value>,
    /// The nodes.
    pub nodes: Vec<Value>,
}

fn place() -> ObjectRef {
    ObjectRef {
        api_version: "config.openshift.io/v1".to_owned(),
        kind: "ClusterVersion".to_owned(),
        namespace: String::new(),
        name: NAME.to_owned(),
    }
}

/// Returns the ClusterVersion; none if the cluster has no such object or kind.
pub async fn cluster_version(session: &Session) -> Result<Option<Value>, Failure> {
    match session.writer.get(&place()).await {
        Err(WriteError::Kind { .. }) => Ok(None),
        found => found.map_err(|error| not_written(&error)),
    }
}

/// Reads what the status is made of; kinds that the cluster does not have are empty. None if there is no ClusterVersion.
pub async fn observe(session: &Session) -> Result<Option<Observed>, Failure> {
    let Some(cluster_version) = cluster_version(session).await? else { return Ok(None) };
    Ok(Some(Observed {
        cluster_version,
        operators: list(session, "config.openshift.io", "ClusterOperator").await?,
        pools: list(session, MACHINE_CONFIGURATION, "MachineConfigPool").await?,
        machine_configs: list(session, MACHINE_CONFIGURATION, "MachineConfig").await?,
        nodes: list(session, "", "Node").await?,
    }))
}

/// The objects of a kind in version v1; none where the cluster does not have the kind.
async fn list(session: &Session, group: &str, kind: &str) -> Result<Vec<Value>, Failure> {
    match session.writer.list(&GroupVersionKind::gvk(group, "v1", kind), MOST).await {
        Err(WriteError::Kind { .. }) => Ok(Vec::new()),
        found => found.map_err(|error| not_written(&error)),
    }
}

/// Explains the ClusterVersion (CVO-TRB-01 to CVO-TRB-08).
///
/// # Errors
/// There is none, or the facts cannot be read.
pub async fn explain_version(session: &Session) -> Result<Explanation, Failure> {
    let Some(observed) = observe(session).await? else {
        let failure = Failure::new(FailureKind::NotFound, "clusterversion version", "not found");
        return Err(failure.because("this cluster runs no release").hint("mainstay up --help names --release"));
    };
    let Observed { cluster_version, operators, pools, .. } = &observed;
    Ok(explain::version(&VersionFacts { cluster_version, operators, pools }))
}

/// Explains a ClusterOperator, or why there is none of this name (COP-G-15, COP-TRB-01 to COP-TRB-03).
///
/// # Errors
/// Neither the cluster nor the reference of platform operators knows the name, or the facts cannot be read.
pub async fn explain_operator(session: &Session, name: &str) -> Result<Explanation, Failure> {
    let place = ObjectRef {
        api_version: "config.openshift.io/v1".to_owned(),
        kind: "ClusterOperator".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    };
    let object = match session.writer.get(&place).await {
        Err(WriteError::Kind { .. }) => None,
        found => found.map_err(|error| not_written(&error))?,
    };
    let cluster_version = cluster_version(session).await?;
    let pools = if name == "machine-config" { list(session, MACHINE_CONFIGURATION, "MachineConfigPool").await? } else { Vec::new() };
    let facts = OperatorFacts { name, object: object.as_ref(), cluster_version: cluster_version.as_ref(), pools: &pools };
    explain::operator(&facts).ok_or_else(|| {
        let failure = Failure::new(FailureKind::NotFound, format!("clusteroperator {name}"), "not found");
        failure.hint("kubectl get clusteroperators lists them")
    })
}

/// Sends a merge patch of the ClusterVersion.
pub async fn patch(session: &Session, patch: Value) -> Result<(), Failure> {
    execute(session, &Step::Patch { object: place(), subresource: String::new(), patch: Patch::Merge(patch) }).await
}
