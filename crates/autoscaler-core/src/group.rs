//! A set of machines that the autoscaler may resize, with its machines and what a new one would be.

use std::fmt;

use jiff::Timestamp;
use mainstay_machine_core::machine::{Machine as Facts, phase};
use mainstay_machine_core::set::members::left_out;
use mainstay_machine_core::set::priority::DELETE_ANNOTATION;
use mainstay_objects::LabelSelector;
use serde::Deserialize as _;
use serde_json::Value;

use crate::node::Node;
use crate::size::Size;
use crate::target::bounds;
use crate::template::{TemplateError, template};

/// The value of annotation `machine.openshift.io/delete-machine` by which the autoscaler knows its own marks.
pub const MARK: &str = "cluster-autoscaler";

/// Which set of machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    /// The namespace of the MachineSet.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for GroupId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "MachineSet/{}/{}", self.namespace, self.name)
    }
}

/// A machine of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Its node, if it has become one.
    pub node: Option<String>,
    /// True if its deletion was asked for.
    pub is_deleting: bool,
    /// True if it will never become a node.
    pub is_failed: bool,
    /// True if it bears the mark of a removal by the autoscaler.
    pub is_marked: bool,
}

/// A set of machines with bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Which set.
    pub id: GroupId,
    /// The UID of the MachineSet.
    pub uid: String,
    /// The least number of machines.
    pub min: usize,
    /// The greatest.
    pub max: usize,
    /// The number that is asked for.
    pub replicas: usize,
    /// Its machines, also those that are being deleted.
    pub machines: Vec<Machine>,
    /// The node that would be made.
    pub template: Result<Value, TemplateError>,
    /// The size of a new node.
    pub size: Size,
}

impl Group {
    /// Reads a MachineSet with its bounds; `None` if it has none, cannot be read, or is being deleted. `machines` and `nodes` are those of the cluster.
    pub fn of(set: &Value, machines: &[Facts], nodes: &[Value], startup_taints: &[String]) -> Option<Self> {
        let text = |pointer: &str| set.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        if set.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string) {
            return None;
        }
        let (min, max) = bounds(set)?;
        let id = GroupId { namespace: text("/metadata/namespace"), name: text("/metadata/name") };
        let uid = text("/metadata/uid");
        let selector = set.pointer("/spec/selector").and_then(|selector| LabelSelector::deserialize(selector).ok())?;
        let replicas = set.pointer("/spec/replicas").and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok())?;
        let is_own = |machine: &&Facts| {
            machine.namespace == id.namespace
                && (left_out(&uid, &selector, machine).is_none() || machine.deleting && machine.controller.as_deref() == Some(&*uid))
        };
        let named = |name: &str| nodes.iter().find(|node| node["metadata"]["name"] == name);
        let own: Vec<Machine> = machines
            .iter()
            .filter(is_own)
            .map(|machine| Machine {
                name: machine.name.clone(),
                created: machine.created,
                node: machine.node.clone().filter(|name| named(name).is_some()),
                is_deleting: machine.deleting,
                is_failed: machine.is_in(phase::FAILED),
                is_marked: machine.annotations.get(DELETE_ANNOTATION).is_some_and(|value| value == MARK),
            })
            .collect();
        let living: Vec<&Value> =
            own.iter().filter(|machine| !machine.is_deleting).filter_map(|machine| named(machine.node.as_deref()?)).collect();
        let template = template(set, &living, startup_taints);
        let size = template.as_ref().map(|node| Node::of(node, &[]).size).unwrap_or_default();
        Some(Self { id, uid, min, max, replicas, machines: own, template, size })
    }

    /// Returns the machines that stay.
    pub fn members(&self) -> impl Iterator<Item = &Machine> {
        self.machines.iter().filter(|machine| !machine.is_deleting)
    }

    /// Returns the type of GPU of a new node.
    pub fn gpu_type(&self) -> Option<&str> {
        self.template.as_ref().ok().and_then(crate::template::gpu_type).filter(|_| self.size.gpus > 0)
    }
}
