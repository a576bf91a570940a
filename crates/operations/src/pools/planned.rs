//! The effect of a MachineConfig on pools and nodes before it is applied (MACH-DISR-09).

use jiff::Timestamp;
use mainstay_diagnostics::Failure;
use mainstay_drain::{Attempt, Drain, Options};
use mainstay_machine_config_core::disruption::{self, RegistryDrain};
use mainstay_machine_config_core::machine_config::{ControllerConfig, MachineConfig};
use mainstay_machine_config_core::policy::{Policies, merged};
use mainstay_machine_config_core::rollout::{Cluster, PoolRollout, RolloutError, Target, rollout};
use serde_json::Value;

use super::{GROUP, of_object, read};
use crate::classic::objects::{Kind, find, list};
use crate::session::Session;

const CONFIG: Kind = Kind { group: GROUP, version: "v1", kind: "MachineConfig", plural: "machineconfigs", word: "machineconfig" };
const CONTROLLER: Kind =
    Kind { group: GROUP, version: "v1", kind: "ControllerConfig", plural: "controllerconfigs", word: "controllerconfig" };
const SETTINGS: Kind = Kind {
    group: "operator.openshift.io",
    version: "v1",
    kind: "MachineConfiguration",
    plural: "machineconfigurations",
    word: "machineconfiguration",
};
const CONFIG_MAP: Kind = Kind { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", word: "configmap" };
/// The most nodes whose pods are looked at.
const MOST_NODES: usize = 200;

/// A pod that a drain would have to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Namespace and name of the pod.
    pub pod: String,
    /// The reason.
    pub why: String,
}

/// The drain of a node, as it would go now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained {
    /// The node.
    pub node: String,
    /// Number of pods that would leave.
    pub leaving: usize,
    /// Those that may not leave now.
    pub obstacles: Vec<Obstacle>,
}

/// The roll-out that a pool would make.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing changes for its nodes.
    Unchanged,
    /// It would keep its configuration, and be RenderDegraded.
    Refused(Box<RolloutError>),
    /// It would roll out.
    RollsOut {
        /// The roll-out.
        rollout: Box<PoolRollout>,
        /// The drains, if it drains.
        drains: Vec<Drained>,
    },
}

/// The roll-out of each pool, by name.
#[derive(Debug)]
pub struct Plan {
    /// The pools.
    pub pools: Vec<(String, Outcome)>,
}

/// Plans what a MachineConfig would do. Evictions are asked for, and the server keeps nothing.
///
/// # Errors
/// The cluster cannot be read.
pub async fn plan(session: &Session, new: &MachineConfig, now: Timestamp) -> Result<Plan, Failure> {
    let pools = read(session).await?;
    let objects = list(session, CONFIG, None).await?;
    let is_rendered = |object: &&Value| object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("rendered-"));
    let of = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        MachineConfig::from_object(object).map_err(|error| Failure::failed(format!("machineconfig {name}"), &error))
    };
    let configs = objects.iter().filter(|object| !is_rendered(object)).map(of).collect::<Result<Vec<_>, _>>()?;
    let controller = find(session, CONTROLLER, "", "machine-config-controller").await?;
    let controller: ControllerConfig = match controller {
        Some(object) => serde_json::from_value(object["spec"].clone()).map_err(|error| Failure::failed("controllerconfig", &error))?,
        None => ControllerConfig::default(),
    };
    let settings = find(session, SETTINGS, "", "cluster").await?;
    let user = settings.map_or(Value::Null, |settings| settings["spec"]["nodeDisruptionPolicy"].clone());
    let user: Option<Policies> = serde_json::from_value(user).map_err(|error| Failure::failed("machineconfiguration cluster", &error))?;
    let policies = merged(&user.unwrap_or_default());
    let overridden = find(session, CONFIG_MAP, "openshift-machine-config-operator", "image-registry-override-drain").await?;
    let registries = if overridden.is_some() { RegistryDrain::Overridden } else { RegistryDrain::AsNeeded };
    let cluster = Cluster { configs: &configs, controller: &controller, policies: &policies, registries };
    let mut outcomes = Vec::new();
    for object in &pools.objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let nodes = pools.nodes(&name);
        let (pool, _) = of_object(object, nodes.len())?;
        let selector = serde_json::from_value(object["spec"]["machineConfigSelector"].clone()).unwrap_or_default();
        let current = objects.iter().find(|object| object["metadata"]["name"] == pool.target.as_str()).map(of).transpose()?;
        let Some(current) = current else {
            outcomes.push((name, Outcome::Unchanged));
            continue;
        };
        let outcome = match rollout(&Target { pool, selector, nodes }, &cluster, new, &current) {
            Ok(None) => Outcome::Unchanged,
            Err(error) => Outcome::Refused(Box::new(error)),
            Ok(Some(rollout)) => {
                let drains = if rollout.change.drain.as_ref().is_ok_and(disruption::Drain::is_needed) {
                    drains(session, &rollout, now).await?
                } else {
                    Vec::new()
                };
                Outcome::RollsOut { rollout: Box::new(rollout), drains }
            }
        };
        outcomes.push((name, outcome));
    }
    Ok(Plan { pools: outcomes })
}

async fn drains(session: &Session, rollout: &PoolRollout, now: Timestamp) -> Result<Vec<Drained>, Failure> {
    let mut all = Vec::new();
    for node in rollout.rounds.iter().flatten().take(MOST_NODES) {
        let failed = |error: mainstay_drain::DrainError| Failure::failed(format!("node {node}"), &error);
        let drain = Drain::new(session.once.clone(), node, Options { dry_run: true, ..Options::default() });
        let look = drain.look(now).await.map_err(failed)?;
        let mut obstacles: Vec<Obstacle> =
            look.refused.iter().map(|text| Obstacle { pod: "several".to_owned(), why: text.clone() }).collect();
        for found in &look.leaving {
            let attempt = drain.evict(found).await.map_err(failed)?;
            if let Attempt::Forbidden(words) | Attempt::Refused(words) | Attempt::TerminatingNamespace(words) = attempt {
                let budgets = drain.budgets(found).await;
                let names: Vec<String> = budgets.iter().map(|budget| format!("{}/{budget}", found.pod.namespace)).collect();
                let why = if names.is_empty() { words } else { format!("PodDisruptionBudget {}", names.join(", ")) };
                obstacles.push(Obstacle { pod: found.pod.to_string(), why });
            }
        }
        all.push(Drained { node: node.clone(), leaving: look.leaving.len(), obstacles });
    }
    Ok(all)
}
