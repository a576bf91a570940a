//! The cluster as the scheduler sees it: nodes with what they have, and the pods that are on them or about to be. Fed with changes,
//! read by decisions; nothing is listed or parsed twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::api::DynamicObject;
use serde_json::Value;

use super::resources::{Amounts, add, amounts, requests, subtract};
use crate::object::{Object, Read as _, items};
use crate::pod;

/// A port of a node that a pod takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    address: String,
    protocol: String,
    port: i64,
}

impl HostPort {
    /// The ports that a pod takes of its node.
    pub fn of(pod: &DynamicObject) -> Vec<Self> {
        let sidecars = items(pod, "/spec/initContainers").filter(|container| container["restartPolicy"] == "Always");
        let containers = items(pod, "/spec/containers").chain(sidecars);
        let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
        let text = |value: &Value, default: &str| value.as_str().filter(|text| !text.is_empty()).unwrap_or(default).to_owned();
        ports
            .filter_map(|port| {
                let number = port["hostPort"].as_i64().filter(|number| *number > 0)?;
                Some(Self { address: text(&port["hostIP"], "0.0.0.0"), protocol: text(&port["protocol"], "TCP"), port: number })
            })
            .collect()
    }

    /// Whether both cannot be had.
    pub fn conflicts(&self, other: &Self) -> bool {
        let any = self.address == "0.0.0.0" || other.address == "0.0.0.0";
        self.port == other.port && self.protocol == other.protocol && (any || self.address == other.address)
    }
}

/// A pod that has a node.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The pod.
    pub pod: Object,
    /// Its node.
    pub node: String,
    /// What it asks for.
    pub requests: Amounts,
    /// Its ports of the node.
    pub ports: Vec<HostPort>,
    /// Its priority.
    pub priority: i64,
}

impl Placed {
    /// A pod on a node.
    pub fn new(pod: &Object, node: &str) -> Self {
        Self { pod: pod.clone(), node: node.to_owned(), requests: requests(pod), ports: HostPort::of(pod), priority: priority(pod) }
    }
}

/// The priority of a pod.
pub fn priority(pod: &DynamicObject) -> i64 {
    pod.int("/spec/priority").unwrap_or_default()
}

/// A node, or the place of one that is not known yet.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The node.
    pub node: Option<Object>,
    /// What it has.
    pub allocatable: Amounts,
    /// What its pods take.
    pub taken: Amounts,
    /// Its pods, by uid.
    pub pods: BTreeSet<String>,
    /// How many pods each controller (uid) has here.
    pub by_controller: HashMap<String, usize>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    places: BTreeMap<String, Place>,
    placed: HashMap<String, Placed>,
    by_namespace: HashMap<String, BTreeSet<String>>,
    /// Pods that do not want certain others beside them, or do want them.
    with_rules: BTreeSet<String>,
    /// Pods for which room is being made, and where.
    nominated: HashMap<String, Placed>,
}

impl Cluster {
    /// The nodes that are there, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&Object, &Place)> {
        self.places.values().filter_map(|place| place.node.as_ref().filter(|node| !node.deleting()).map(|node| (node, place)))
    }

    /// The node of a name.
    pub fn node(&self, name: &str) -> Option<&Object> {
        self.places.get(name)?.node.as_ref()
    }

    /// The pods of a node.
    pub fn pods_on<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = &'a Placed> {
        place.pods.iter().filter_map(|uid| self.placed.get(uid))
    }

    /// The pods of a namespace that have a node.
    pub fn pods_in(&self, namespace: &str) -> impl Iterator<Item = &Placed> {
        self.by_namespace.get(namespace).into_iter().flatten().filter_map(|uid| self.placed.get(uid))
    }

    /// All pods that have a node.
    pub fn pods(&self) -> impl Iterator<Item = &Placed> {
        self.placed.values()
    }

    /// The pods that have rules about others.
    pub fn with_rules(&self) -> impl Iterator<Item = &Placed> {
        self.with_rules.iter().filter_map(|uid| self.placed.get(uid))
    }

    /// The pods that room is being made for on a node, except one.
    pub fn nominated<'a>(&'a self, node: &'a str, except: &'a str) -> impl Iterator<Item = &'a Placed> {
        self.nominated.iter().filter(move |(uid, placed)| placed.node == node && uid.as_str() != except).map(|(_, placed)| placed)
    }

    /// Whether the pod with this uid has a node.
    pub fn knows(&self, uid: &str) -> bool {
        self.placed.contains_key(uid)
    }

    /// A node is there, changed, or (`None`) gone.
    pub fn set_node(&mut self, name: &str, node: Option<&Object>) {
        match node {
            Some(node) => {
                let place = self.places.entry(name.to_owned()).or_default();
                if place.node.as_ref().is_none_or(|known| known.at("/status/allocatable") != node.at("/status/allocatable")) {
                    place.allocatable = amounts(node.at("/status/allocatable"));
                }
                place.node = Some(node.clone());
            }
            None => {
                if let Some(place) = self.places.get_mut(name) {
                    place.node = None;
                    if place.pods.is_empty() {
                        self.places.remove(name);
                    }
                }
            }
        }
    }

    /// A pod is, or is about to be, on a node.
    pub fn assign(&mut self, pod: &Object, node: &str) {
        self.remove(pod.uid());
        let placed = Placed::new(pod, node);
        let uid = pod.uid().to_owned();
        let place = self.places.entry(node.to_owned()).or_default();
        add(&mut place.taken, &placed.requests);
        place.pods.insert(uid.clone());
        if let Some(owner) = pod.controller() {
            *place.by_controller.entry(owner.uid.clone()).or_default() += 1;
        }
        self.by_namespace.entry(pod.namespace().to_owned()).or_default().insert(uid.clone());
        if pod.at("/spec/affinity/podAntiAffinity").is_object() || pod.at("/spec/affinity/podAffinity").is_object() {
            self.with_rules.insert(uid.clone());
        }
        self.nominated.remove(&uid);
        self.placed.insert(uid, placed);
    }

    /// A pod takes nothing any more; whether it did.
    pub fn remove(&mut self, uid: &str) -> bool {
        self.nominated.remove(uid);
        let Some(placed) = self.placed.remove(uid) else { return false };
        self.with_rules.remove(uid);
        let namespace = placed.pod.namespace();
        if let Some(pods) = self.by_namespace.get_mut(namespace) {
            pods.remove(uid);
            if pods.is_empty() {
                self.by_namespace.remove(namespace);
            }
        }
        if let Some(place) = self.places.get_mut(&placed.node) {
            subtract(&mut place.taken, &placed.requests);
            place.pods.remove(uid);
            if let Some(owner) = placed.pod.controller()
                && let Some(count) = place.by_controller.get_mut(&owner.uid)
            {
                *count -= 1;
                if *count == 0 {
                    place.by_controller.remove(&owner.uid);
                }
            }
            if place.pods.is_empty() && place.node.is_none() {
                self.places.remove(&placed.node);
            }
        }
        true
    }

    /// Room is being made for a pod on a node.
    pub fn nominate(&mut self, pod: &Object, node: &str) {
        self.nominated.insert(pod.uid().to_owned(), Placed::new(pod, node));
    }

    /// Follows a pod; whether something became free.
    pub fn follow(&mut self, before: Option<&Object>, now: Option<&Object>) -> bool {
        let replaced = before.filter(|before| now.is_none_or(|now| now.uid() != before.uid()));
        let mut freed = replaced.is_some_and(|before| self.remove(before.uid()));
        let Some(pod) = now else { return freed };
        if pod::finished(pod) {
            freed |= self.remove(pod.uid());
        } else if !pod.text("/spec/nodeName").is_empty() {
            let same = |known: &Placed| known.node == pod.text("/spec/nodeName") && known.pod.at("/spec") == pod.at("/spec");
            match self.placed.get_mut(pod.uid()).filter(|known| same(known)) {
                // Labels and deletion matter to rules between pods; what is taken stays.
                Some(known) => known.pod = pod.clone(),
                None => self.assign(pod, pod.text("/spec/nodeName")),
            }
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn pod(uid: &str, spec: &Value) -> Object {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": uid, "namespace": "n", "uid": uid}, "spec": spec})).unwrap())
    }

    #[test]
    fn what_is_taken_follows_pods() {
        let mut cluster = Cluster::default();
        let spec = json!({"nodeName": "a", "containers": [{"resources": {"requests": {"cpu": "1"}}}]});
        let one = pod("one", &spec);
        assert!(!cluster.follow(None, Some(&one)));
        cluster.assign(&one, "a");
        assert_eq!((cluster.places["a"].pods.len(), cluster.places["a"].taken["cpu"]), (1, 1_000));
        assert!(cluster.follow(Some(&one), None));
        assert!(cluster.places.is_empty() && cluster.by_namespace.is_empty());
        assert!(!cluster.follow(Some(&one), None));
    }

    #[test]
    fn ports_of_hosts_conflict() {
        let port = |address: &str, protocol: &str, port| HostPort { address: address.into(), protocol: protocol.into(), port };
        let any = port("0.0.0.0", "TCP", 80);
        assert!(any.conflicts(&port("10.0.0.1", "TCP", 80)) && port("10.0.0.1", "TCP", 80).conflicts(&any));
        assert!(!any.conflicts(&port("0.0.0.0", "UDP", 80)) && !any.conflicts(&port("0.0.0.0", "TCP", 81)));
        assert!(!port("10.0.0.1", "TCP", 80).conflicts(&port("10.0.0.2", "TCP", 80)));
    }
}
