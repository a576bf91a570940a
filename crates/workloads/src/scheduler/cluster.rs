//! The cluster as the scheduler sees it: nodes with their resources, and the pods that are on them or about to be. Changes feed it, and
//! decisions read it; nothing is listed or parsed twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::api::DynamicObject;
use serde_json::Value;

use super::resources::{Amounts, add, amounts, requests, subtract};
use crate::object::{Object, Read as _, items};
use crate::pod;

/// A node port that a pod takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    address: String,
    protocol: String,
    port: i64,
}

impl HostPort {
    /// Returns the node ports that a pod takes.
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

    /// Returns true if the two ports exclude each other.
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
    /// Its resource requests.
    pub requests: Amounts,
    /// Its node ports.
    pub ports: Vec<HostPort>,
    /// Its priority.
    pub priority: i64,
    /// The uid of the controller that it is counted for.
    owner: Option<String>,
}

impl Placed {
    /// Places a pod on a node.
    pub fn new(pod: &Object, node: &str) -> Self {
        Self {
            pod: pod.clone(),
            node: node.to_owned(),
            requests: requests(pod),
            ports: HostPort::of(pod),
            priority: priority(pod),
            owner: owner(pod),
        }
    }
}

fn owner(pod: &DynamicObject) -> Option<String> {
    pod.controller().map(|owner| owner.uid.clone())
}

/// The effect of a pod's change on waiting pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Nothing.
    #[default]
    None,
    /// The outcome of rules between pods may change.
    Rules,
    /// Room that was taken or reserved is free.
    Room,
}

/// Returns the priority of a pod.
pub fn priority(pod: &DynamicObject) -> i64 {
    pod.int("/spec/priority").unwrap_or_default()
}

/// A node, or the place of one that is not known yet.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The node.
    pub node: Option<Object>,
    /// Its allocatable resources.
    pub allocatable: Amounts,
    /// The resources that its pods take.
    pub taken: Amounts,
    /// Its pods, by uid.
    pub pods: BTreeSet<String>,
    /// The number of its pods by controller (uid).
    pub by_controller: HashMap<String, usize>,
}

/// The whole cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    places: BTreeMap<String, Place>,
    placed: HashMap<String, Placed>,
    by_namespace: HashMap<String, BTreeSet<String>>,
    /// Pods with rules about other pods.
    with_rules: BTreeSet<String>,
    /// Pods that room is being made for, with the node.
    nominated: HashMap<String, Placed>,
}

impl Place {
    fn count(&mut self, owner: Option<&str>) {
        if let Some(owner) = owner {
            *self.by_controller.entry(owner.to_owned()).or_default() += 1;
        }
    }

    fn uncount(&mut self, owner: Option<&str>) {
        let Some(owner) = owner else { return };
        if let Some(count) = self.by_controller.get_mut(owner) {
            *count -= 1;
            if *count == 0 {
                self.by_controller.remove(owner);
            }
        }
    }
}

impl Cluster {
    /// Returns the existing nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (&Object, &Place)> {
        self.places.values().filter_map(|place| place.node.as_ref().filter(|node| !node.deleting()).map(|node| (node, place)))
    }

    /// Returns the node of a name.
    pub fn node(&self, name: &str) -> Option<&Object> {
        self.places.get(name)?.node.as_ref()
    }

    /// Returns the node of a name, unless it is being deleted, with its place.
    pub fn find(&self, name: &str) -> Option<(&Object, &Place)> {
        let place = self.places.get(name)?;
        place.node.as_ref().filter(|node| !node.deleting()).map(|node| (node, place))
    }

    /// Returns the value of a node's label, which names its domain.
    pub fn domain(&self, node: &str, key: &str) -> Option<&str> {
        self.node(node)?.labels().get(key).map(String::as_str)
    }

    /// Returns the pods of a node.
    pub fn pods_on<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = &'a Placed> {
        place.pods.iter().filter_map(|uid| self.placed.get(uid))
    }

    /// Returns the pods of a namespace that have a node.
    pub fn pods_in(&self, namespace: &str) -> impl Iterator<Item = &Placed> {
        self.by_namespace.get(namespace).into_iter().flatten().filter_map(|uid| self.placed.get(uid))
    }

    /// Returns all pods that have a node.
    pub fn pods(&self) -> impl Iterator<Item = &Placed> {
        self.placed.values()
    }

    /// Returns the pods that have rules about others.
    pub fn with_rules(&self) -> impl Iterator<Item = &Placed> {
        self.with_rules.iter().filter_map(|uid| self.placed.get(uid))
    }

    /// Returns the pods that room is being made for on a node, except one.
    pub fn nominated<'a>(&'a self, node: &'a str, except: &'a str) -> impl Iterator<Item = &'a Placed> {
        self.nominated.iter().filter(move |(uid, placed)| placed.node == node && uid.as_str() != except).map(|(_, placed)| placed)
    }

    /// Returns true if the pod with this uid has a node.
    pub fn knows(&self, uid: &str) -> bool {
        self.placed.contains_key(uid)
    }

    /// Adds or changes a node; `None` removes it.
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

    /// Places a pod on a node, now or soon. Returns true if that frees room that it had taken, or that was reserved for it elsewhere.
    pub fn assign(&mut self, pod: &Object, node: &str) -> bool {
        let kept_elsewhere = self.nominated.get(pod.uid()).is_some_and(|nominated| nominated.node != node);
        let left = kept_elsewhere || self.knows(pod.uid());
        self.remove(pod.uid());
        let placed = Placed::new(pod, node);
        let uid = pod.uid().to_owned();
        let place = self.places.entry(node.to_owned()).or_default();
        add(&mut place.taken, &placed.requests);
        place.pods.insert(uid.clone());
        place.count(placed.owner.as_deref());
        self.by_namespace.entry(pod.namespace().to_owned()).or_default().insert(uid.clone());
        if pod.at("/spec/affinity/podAntiAffinity").is_object() || pod.at("/spec/affinity/podAffinity").is_object() {
            self.with_rules.insert(uid.clone());
        }
        self.placed.insert(uid, placed);
        left
    }

    /// Removes a pod and the room that is reserved for it. Returns true if it had any.
    pub fn remove(&mut self, uid: &str) -> bool {
        let kept = self.nominated.remove(uid).is_some();
        let Some(placed) = self.placed.remove(uid) else { return kept };
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
            place.uncount(placed.owner.as_deref());
            if place.pods.is_empty() && place.node.is_none() {
                self.places.remove(&placed.node);
            }
        }
        true
    }

    /// Reserves room for a pod on a node. Returns true if that frees room that was reserved for it elsewhere.
    pub fn nominate(&mut self, pod: &Object, node: &str) -> bool {
        let before = self.nominated.insert(pod.uid().to_owned(), Placed::new(pod, node));
        before.is_some_and(|before| before.node != node)
    }

    /// Follows the change of a pod.
    pub fn follow(&mut self, before: Option<&Object>, now: Option<&Object>) -> Effect {
        let replaced = before.filter(|before| now.is_none_or(|now| now.uid() != before.uid()));
        let room = |freed: bool| if freed { Effect::Room } else { Effect::None };
        let effect = room(replaced.is_some_and(|before| self.remove(before.uid())));
        let Some(pod) = now else { return effect };
        effect.max(if pod::finished(pod) {
            room(self.remove(pod.uid()))
        } else if !pod.text("/spec/nodeName").is_empty() {
            // A new pod may be the one that others have affinity to.
            let arrived = before.is_none_or(|before| before.text("/spec/nodeName").is_empty());
            self.place(pod).max(if arrived { Effect::Rules } else { Effect::None })
        } else if pod.deleting() {
            room(self.nominated.remove(pod.uid()).is_some())
        } else {
            Effect::None
        })
    }

    /// Places a pod on its node.
    fn place(&mut self, pod: &Object) -> Effect {
        let node = pod.text("/spec/nodeName");
        let same = |known: &&mut Placed| known.node == node && known.pod.at("/spec") == pod.at("/spec");
        let Some(known) = self.placed.get_mut(pod.uid()).filter(same) else {
            return if self.assign(pod, node) { Effect::Room } else { Effect::None };
        };
        // The taken resources stay. Labels and deletion matter to rules between pods, and a pod can be adopted or released.
        let changed = known.pod.labels() != pod.labels() || known.pod.deleting() != pod.deleting();
        known.pod = pod.clone();
        let owner = owner(pod);
        if known.owner != owner {
            let former = std::mem::replace(&mut known.owner, owner);
            if let Some(place) = self.places.get_mut(node) {
                place.uncount(former.as_deref());
                place.count(known.owner.as_deref());
            }
        }
        if changed { Effect::Rules } else { Effect::None }
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
        assert_eq!(cluster.follow(None, Some(&one)), Effect::Rules);
        cluster.assign(&one, "a");
        assert_eq!((cluster.places["a"].pods.len(), cluster.places["a"].taken["cpu"]), (1, 1_000));
        assert_eq!(cluster.follow(Some(&one), None), Effect::Room);
        assert!(cluster.places.is_empty() && cluster.by_namespace.is_empty());
        assert_eq!(cluster.follow(Some(&one), None), Effect::None);
    }

    fn with(pod: &Object, pointer: &str, value: Value) -> Object {
        let mut changed = serde_json::to_value(&**pod).unwrap();
        changed["metadata"][pointer] = value;
        Arc::new(serde_json::from_value(changed).unwrap())
    }

    /// KAPI-WL-02: room that was kept for a pod is free when the pod goes, or goes elsewhere.
    #[test]
    fn room_that_was_kept_is_free_again() {
        let mut cluster = Cluster::default();
        let one = pod("one", &json!({}));
        assert!(!cluster.nominate(&one, "a"));
        assert!(!cluster.nominate(&one, "a"));
        assert!(cluster.nominate(&one, "b"));
        assert_eq!(cluster.follow(Some(&one), None), Effect::Room);
        cluster.nominate(&one, "a");
        let going = with(&one, "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        assert_eq!(cluster.follow(Some(&one), Some(&going)), Effect::Room);
        cluster.nominate(&one, "a");
        assert!(cluster.assign(&one, "b"), "what was kept on a");
        cluster.nominate(&pod("two", &json!({})), "a");
        assert!(!cluster.assign(&pod("two", &json!({})), "a"));
    }

    /// KAPI-WL-02: what rules between pods look at can change while the pods stay where they are.
    #[test]
    fn labels_and_deletion_of_placed_pods_matter_to_rules() {
        let mut cluster = Cluster::default();
        let one = pod("one", &json!({"nodeName": "a"}));
        cluster.follow(None, Some(&one));
        assert_eq!(cluster.follow(Some(&one), Some(&one)), Effect::None);
        let labelled = with(&one, "labels", json!({"app": "x"}));
        assert_eq!(cluster.follow(Some(&one), Some(&labelled)), Effect::Rules);
        let going = with(&labelled, "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        assert_eq!(cluster.follow(Some(&labelled), Some(&going)), Effect::Rules);
    }

    #[test]
    fn adopted_and_released_pods_count_for_whom_they_are() {
        let mut cluster = Cluster::default();
        let owned = |pod: &Object, uid: &str| {
            with(pod, "ownerReferences", json!([{"apiVersion": "v1", "kind": "K", "name": uid, "uid": uid, "controller": true}]))
        };
        let free = pod("one", &json!({"nodeName": "a"}));
        let stays = owned(&pod("two", &json!({"nodeName": "a"})), "y");
        let (of_x, of_y) = (owned(&free, "x"), owned(&free, "y"));
        let steps =
            [(&of_x, vec![("x", 1), ("y", 1)]), (&of_y, vec![("y", 2)]), (&free, vec![("y", 1)]), (&of_x, vec![("x", 1), ("y", 1)])];
        cluster.follow(None, Some(&stays));
        for (now, expected) in steps {
            cluster.follow(Some(&free), Some(now));
            let mut counts: Vec<(&str, usize)> =
                cluster.places["a"].by_controller.iter().map(|(uid, count)| (uid.as_str(), *count)).collect();
            counts.sort_unstable();
            assert_eq!(counts, expected);
        }
        cluster.follow(Some(&of_x), None);
        assert_eq!(cluster.places["a"].by_controller, HashMap::from([("y".to_owned(), 1)]));
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
