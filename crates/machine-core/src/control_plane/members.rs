//! The machines of a control plane by index: which are ready, and which are not as the template wants them (MACH-CPMS-02, MACH-CPMS-03).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::failure_domain::FailureDomainError;
use super::mapping::{ControlPlaneMachine, Mapping, MappingError, index_of, mapping};
use super::object::ControlPlane;
use super::provider_spec::{ProviderSpec, SpecError, place_of};
use crate::machine::{Machine, phase};
use crate::node::Node;

/// The time for which a node may be not ready, as while it reboots, until its machine counts as not ready.
pub const GRACE: SignedDuration = SignedDuration::from_mins(20);

/// A machine of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The machine.
    pub machine: Machine,
    /// Its index.
    pub index: i32,
    /// True if it serves: it runs and its node is ready, or it is being deleted and its node still is.
    pub ready: bool,
    /// The differences to the template; none if it is as wanted.
    pub differences: Vec<String>,
    /// Its terminal error.
    pub error: Option<String>,
}

impl Member {
    /// Returns whether it is not as the template wants it.
    pub fn needs_update(&self) -> bool {
        !self.differences.is_empty()
    }

    /// Returns whether another machine must take its place: it is outdated, or is being deleted.
    pub fn needs_replacement(&self) -> bool {
        self.needs_update() || self.machine.deleting
    }

    /// Returns whether it is as wanted and will become ready.
    pub fn is_pending(&self) -> bool {
        !self.ready && !self.needs_update() && !self.machine.deleting
    }

    /// Returns whether it is as wanted and ready, even if it is being deleted.
    pub fn is_updated(&self) -> bool {
        self.ready && !self.needs_update()
    }

    /// Returns whether it is as wanted, ready, and stays.
    pub fn stays(&self) -> bool {
        self.is_updated() && !self.machine.deleting
    }
}

/// Machines by index; an index without machines is there, too.
pub type Indexes = BTreeMap<i32, Vec<Member>>;

/// Why the machines cannot be looked at, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// There is no mapping of indexes to failure domains.
    #[error("error constructing machine provider: error updating machine cache: error mapping machine indexes: {0}")]
    Mapping(#[from] MappingError),
    /// A machine's index is told neither by its name nor by its place.
    #[error(
        "error fetching machine info: could not generate machine info for machine {0}: could not determine machine index: could not determine \
         Machine index from name or failure domain"
    )]
    Index(String),
    /// A machine's place cannot be compared with those of the template.
    #[error(
        "error fetching machine info: could not generate machine info for machine {machine}: could not determine machine index: cannot combine \
         failure domain with template failure domain: {source}"
    )]
    Place {
        /// The machine.
        machine: String,
        /// The mistake.
        source: FailureDomainError,
    },
    /// A machine's provider spec cannot be compared.
    #[error(
        "error fetching machine info: could not generate machine info for machine {machine}: could not compare existing and desired provider \
         configs: {source}"
    )]
    Spec {
        /// The machine.
        machine: String,
        /// The mistake.
        source: SpecError,
    },
    /// The node of a machine that is not being deleted does not exist.
    #[error(
        "error fetching machine info: could not generate machine info for machine {machine}: error checking machine readiness: failed to get \
         Node {node:?}: nodes {node:?} not found"
    )]
    NoNode {
        /// The machine.
        machine: String,
        /// The node.
        node: String,
    },
}

/// The place of each index, and the provider spec that its machine is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    mapping: Mapping,
}

impl Layout {
    /// Lays out the indexes of a control plane over its failure domains. `machines` are those that it selects.
    ///
    /// # Errors
    /// There is no mapping, for example because a machine's provider spec cannot be read.
    pub fn of(set: &ControlPlane, machines: &[Value]) -> Result<Self, MappingError> {
        let known: Vec<ControlPlaneMachine> = machines.iter().map(known).collect();
        let template = set.template.provider_spec.failure_domain();
        match mapping(&known, set.replicas, &set.template.places, &template) {
            Ok(mapping) => Ok(Self { mapping }),
            Err(MappingError::NoFailureDomains) => Ok(Self { mapping: Mapping::new() }),
            Err(error) => Err(error),
        }
    }

    /// Returns the provider spec of an index: the template's, in the place of the index.
    pub fn provider_spec(&self, set: &ControlPlane, index: i32) -> ProviderSpec {
        let template = &set.template.provider_spec;
        self.mapping.get(&index).map_or_else(|| template.clone(), |place| template.with(place))
    }

    /// Returns the index of a machine: the number at the end of its name, else the lowest index in its place.
    ///
    /// # Errors
    /// Neither tells it.
    pub fn index(&self, set: &ControlPlane, machine: &Value) -> Result<i32, MemberError> {
        let known = known(machine);
        if let Some(index) = index_of(&known.name) {
            return Ok(index);
        }
        let name = || known.name.clone();
        let place = place_of(known.provider_spec.as_deref()).map_err(|source| MemberError::Spec { machine: name(), source })?;
        let template = set.template.provider_spec.failure_domain();
        let place = place.complete(&template).map_err(|source| MemberError::Place { machine: name(), source })?;
        let found = self.mapping.iter().find(|(_, mapped)| **mapped == place);
        found.map(|(index, _)| *index).ok_or_else(|| MemberError::Index(name()))
    }
}

fn known(machine: &Value) -> ControlPlaneMachine {
    let text = |path: &str| machine.pointer(path).and_then(Value::as_str).unwrap_or_default();
    ControlPlaneMachine {
        name: text("/metadata/name").to_owned(),
        created: text("/metadata/creationTimestamp").parse().ok(),
        deleting: machine.pointer("/metadata/deletionTimestamp").is_some_and(|value| !value.is_null()),
        provider_spec: provider_spec_of(machine),
    }
}

fn provider_spec_of(machine: &Value) -> Option<String> {
    machine.pointer("/spec/providerSpec/value").filter(|value| !value.is_null()).map(Value::to_string)
}

/// Sorts machines into indexes. `wanted` is the provider spec that an index is to have; `nodes` are all nodes.
///
/// # Errors
/// A machine has no index, cannot be compared with the template, or has lost its node.
pub fn indexes(
    set: &ControlPlane,
    layout: &Layout,
    machines: &[Value],
    wanted: impl Fn(i32) -> ProviderSpec,
    nodes: &[Node],
    now: Timestamp,
) -> Result<Indexes, MemberError> {
    let mut indexes = Indexes::new();
    for object in machines {
        let machine = Machine::of(object);
        let index = layout.index(set, object)?;
        let differences = ProviderSpec::read(provider_spec_of(object).as_deref()).and_then(|found| wanted(index).differences(&found));
        let differences = differences.map_err(|source| MemberError::Spec { machine: machine.name.clone(), source })?;
        let ready = is_ready(&machine, nodes, now)?;
        let error = object.pointer("/status/errorMessage").and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        indexes.entry(index).or_default().push(Member { machine, index, ready, differences, error });
    }
    let replicas = usize::try_from(set.replicas).unwrap_or_default();
    for index in 0.. {
        if indexes.len() >= replicas {
            break;
        }
        indexes.entry(index).or_default();
    }
    Ok(indexes)
}

/// Returns whether a machine serves.
fn is_ready(machine: &Machine, nodes: &[Node], now: Timestamp) -> Result<bool, MemberError> {
    let Some(name) = &machine.node else { return Ok(false) };
    let Some(node) = nodes.iter().find(|node| node.name == *name) else {
        // The node of a machine that is being deleted goes before it.
        return if machine.deleting { Ok(false) } else { Err(MemberError::NoNode { machine: machine.name.clone(), node: name.clone() }) };
    };
    let Some(condition) = node.condition("Ready") else { return Ok(false) };
    let is_true = condition.status == "True";
    let is_blip = || condition.since.is_some_and(|since| now.duration_since(since) < GRACE);
    Ok(match machine.phase.as_deref() {
        Some(phase::RUNNING) => is_true || is_blip(),
        Some(phase::DELETING) => is_true,
        _ => false,
    })
}
