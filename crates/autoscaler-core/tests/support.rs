//! Small clusters, and a rehearsal that is slow and obvious: a pod fits where its labels are and where enough is left.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use mainstay_autoscaler_core::{Group, GroupId, Machine, Memory, Node, Plan, Pod, Rehearsal, Settings, Size, Snapshot, plan};
use serde_json::{Value, json};

pub const GIB: i128 = 1 << 30;

/// A pod's demands: its size, and the zone that it wants.
#[derive(Clone, Debug)]
pub struct Demand {
    pub size: Size,
    pub zone: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Plain {
    pub nodes: BTreeMap<String, (Size, Option<String>)>,
    pub placed: BTreeMap<String, String>,
    pub demands: BTreeMap<String, Demand>,
}

impl Plain {
    pub fn left(&self, node: &str) -> Size {
        let mut left = self.nodes[node].0;
        for (pod, _) in self.placed.iter().filter(|(_, on)| *on == node) {
            left -= self.demands[pod].size;
        }
        left
    }

    pub fn refuses(&self, pod: &str, node: &str) -> Option<String> {
        let (demand, (_, zone)) = (&self.demands[pod], &self.nodes[node]);
        let left = self.left(node);
        if demand.zone.is_some() && demand.zone != *zone {
            Some("node(s) didn't match Pod's node affinity/selector".to_owned())
        } else if demand.size.cpu > left.cpu {
            Some("Insufficient cpu".to_owned())
        } else if demand.size.memory > left.memory {
            Some("Insufficient memory".to_owned())
        } else {
            None
        }
    }
}

impl Rehearsal for Plain {
    fn fork(&self) -> Self {
        self.clone()
    }

    fn add_node(&mut self, node: &Value) {
        let read = Node::of(node, &[]);
        let zone = read.labels.get("topology.kubernetes.io/zone").cloned();
        self.nodes.insert(read.name.clone(), (read.size, zone));
    }

    fn place(&mut self, pod: &str, among: &mut dyn Iterator<Item = &str>) -> Result<String, Vec<String>> {
        let mut reasons = Vec::new();
        for node in among {
            match self.refuses(pod, node) {
                None => {
                    self.placed.insert(pod.to_owned(), node.to_owned());
                    return Ok(node.to_owned());
                }
                Some(reason) => reasons.push(reason),
            }
        }
        reasons.sort();
        reasons.dedup();
        Err(reasons)
    }

    fn remove(&mut self, pod: &str) {
        self.placed.remove(pod);
    }

    fn put(&mut self, pod: &str, node: &str) {
        self.placed.insert(pod.to_owned(), node.to_owned());
    }
}

/// A cluster that is built step by step.
pub struct Scene {
    pub snapshot: Snapshot,
    pub memory: Memory,
    pub plain: Plain,
}

pub fn start() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

pub fn id(name: &str) -> GroupId {
    GroupId { namespace: "machines".to_owned(), name: name.to_owned() }
}

pub fn size(cpu: i128, gib: i128) -> Size {
    Size { cpu: cpu * 1000, memory: gib * GIB, gpus: 0 }
}

fn template(size: Size, zone: &str) -> Value {
    let resources = json!({"cpu": format!("{}m", size.cpu), "memory": size.memory.to_string(), "pods": "110"});
    json!({
        "metadata": {"name": "", "labels": {"topology.kubernetes.io/zone": zone}}, "spec": {},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

impl Scene {
    pub fn new(settings: Settings) -> Self {
        let snapshot = Snapshot {
            now: start(),
            settings,
            groups: Vec::new(),
            nodes: Vec::new(),
            pods: Vec::new(),
            budgets: Vec::new(),
            priorities: None,
        };
        Self { snapshot, memory: Memory::default(), plain: Plain::default() }
    }

    /// A set in zone `a`, each of whose machines is a node `NAME-0`, `NAME-1` and so on.
    pub fn group(&mut self, name: &str, min: usize, max: usize, replicas: usize, of: Size) -> &mut Self {
        self.group_in(name, min, max, replicas, of, "a")
    }

    pub fn group_in(&mut self, name: &str, min: usize, max: usize, replicas: usize, of: Size, zone: &str) -> &mut Self {
        let group = Group {
            id: id(name),
            uid: name.to_owned(),
            min,
            max,
            replicas: 0,
            machines: Vec::new(),
            template: Ok(template(of, zone)),
            size: of,
        };
        self.snapshot.groups.push(group);
        for _ in 0..replicas {
            self.machine(name, true);
        }
        self
    }

    /// Another machine of a set, made an hour ago if it is a node.
    pub fn machine(&mut self, name: &str, is_node: bool) -> &mut Self {
        let now = self.snapshot.now;
        let index = self.snapshot.groups.iter().position(|group| group.id == id(name)).unwrap();
        let group = &mut self.snapshot.groups[index];
        let machine = format!("{name}-{}", group.machines.len());
        let age = if is_node { SignedDuration::from_hours(1) } else { SignedDuration::from_mins(1) };
        group.replicas += 1;
        group.machines.push(Machine {
            name: machine.clone(),
            created: Some(now - age),
            node: is_node.then(|| machine.clone()),
            ..Machine::default()
        });
        if is_node {
            let (size, template) = (group.size, group.template.clone().unwrap());
            let zone = template["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().map(str::to_owned);
            self.snapshot.nodes.push(Node { name: machine.clone(), size, is_ready: true, ..Node::default() });
            self.plain.nodes.insert(machine, (size, zone));
        }
        self
    }

    /// A pod with a controller of its own, on a node or waiting for one.
    pub fn pod(&mut self, name: &str, node: Option<&str>, of: Size) -> &mut Pod {
        self.plain.demands.insert(name.to_owned(), Demand { size: of, zone: None });
        if let Some(node) = node {
            self.plain.placed.insert(name.to_owned(), node.to_owned());
        }
        self.snapshot.pods.push(Pod {
            uid: name.to_owned(),
            namespace: "n".to_owned(),
            name: name.to_owned(),
            node: node.map(str::to_owned),
            is_unschedulable: node.is_none(),
            created: Some(self.snapshot.now - SignedDuration::from_mins(1)),
            controller: Some(name.to_owned()),
            alike: Some(name.to_owned()),
            size: of,
            ..Pod::default()
        });
        self.snapshot.pods.last_mut().unwrap()
    }

    pub fn waiting(&mut self, count: usize, of: Size) -> &mut Self {
        for number in 0..count {
            self.pod(&format!("waiting-{number}"), None, of);
        }
        self
    }

    pub fn in_zone(&mut self, pod: &str, zone: &str) -> &mut Self {
        self.plain.demands.get_mut(pod).unwrap().zone = Some(zone.to_owned());
        self
    }

    /// A pass; what it found is remembered. Of equals the first is taken.
    pub fn pass(&mut self) -> Plan {
        let plan = plan(&self.snapshot, &self.memory, self.plain.clone(), &mut |_| 0);
        self.memory.learn(&plan);
        plan
    }

    pub fn later(&mut self, minutes: i64) -> &mut Self {
        self.snapshot.now += SignedDuration::from_mins(minutes);
        self
    }
}

/// The new sizes of a plan, as `name from->to`.
pub fn sizes(plan: &Plan) -> Vec<String> {
    plan.growth.resizes.iter().map(|resize| format!("{} {}->{}", resize.group.name, resize.from, resize.to)).collect()
}

pub fn removed(plan: &Plan) -> Vec<&str> {
    plan.shrinkage.removals.iter().map(|removal| removal.node.as_str()).collect()
}

pub fn kept(plan: &Plan, node: &str) -> String {
    plan.shrinkage.kept.get(node).map_or_else(|| "not kept".to_owned(), ToString::to_string)
}

pub fn verdict(plan: &Plan, group: &str) -> String {
    plan.growth.groups.get(&id(group)).map_or_else(|| "none".to_owned(), ToString::to_string)
}
