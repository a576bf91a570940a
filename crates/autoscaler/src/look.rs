//! One look at the cluster: live copies while there is a ClusterAutoscaler, and what the plan needs of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use kube::api::DynamicObject;
use mainstay_autoscaler_core::{Budget, Group, Node, Pod, Rehearsal as _, Settings, Snapshot};
use mainstay_machine_core::machine::Machine;
use mainstay_runtime::{Cache, Env, Key, Scope};
use mainstay_workloads::object::{Object, Read as _};
use mainstay_workloads::scheduler::cluster::Cluster;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::kinds::{BUDGET, CLAIM, CLASS, DAEMON_SET, KnownKind, MACHINE, MACHINE_SET, NODE, POD, PROJECT, VOLUME};
use crate::rehearsal::{Rehearsed, Scene};

/// Values made of objects, kept while these do not change.
struct Memo<T>(Mutex<HashMap<String, (String, T)>>);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Memo<T> {
    /// Returns the values of all objects; those of objects that are gone are forgotten.
    fn of(&self, objects: &[Object], make: impl Fn(&DynamicObject) -> Option<T>) -> Vec<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = HashMap::with_capacity(objects.len());
        let mut all = Vec::with_capacity(objects.len());
        for object in objects {
            let (uid, version) = (object.uid().to_owned(), object.metadata.resource_version.clone().unwrap_or_default());
            let made = match known.remove(&uid) {
                Some((same, value)) if same == version => Some(value),
                _ => make(object),
            };
            if let Some(value) = made {
                all.push(value.clone());
                now.insert(uid, (version, value));
            }
        }
        *known = now;
        all
    }
}

/// Live copies of everything that a plan looks at.
pub(crate) struct Eyes {
    sets: Cache,
    machines: Cache,
    nodes: Cache,
    pods: Cache,
    budgets: Cache,
    daemons: Cache,
    namespaces: Cache,
    claims: Cache,
    volumes: Cache,
    classes: Cache,
    cluster: Arc<Mutex<Cluster>>,
    node_values: Memo<Value>,
    read_pods: Memo<Option<Pod>>,
    _stop: DropGuard,
}

impl Eyes {
    /// Starts to follow.
    pub fn open(client: &Client, env: &Env, stop: &CancellationToken) -> Self {
        let stop = stop.child_token();
        let cache = |kind: KnownKind| Cache::start(client, &kind.resource(), &Scope::default(), &stop).shown(env.metrics());
        let (nodes, pods) = (cache(NODE), cache(POD));
        // Kept up to date instead of made anew, since requests of pods are read then.
        let cluster: Arc<Mutex<Cluster>> = Arc::default();
        let followed = cluster.clone();
        nodes.on_change(move |change| {
            if let Some(node) = change.object() {
                followed.lock().unwrap_or_else(PoisonError::into_inner).set_node(node.name(), change.now.as_ref());
            }
        });
        let followed = cluster.clone();
        pods.on_change(move |change| {
            followed.lock().unwrap_or_else(PoisonError::into_inner).follow(change.before.as_ref(), change.now.as_ref());
        });
        Self {
            sets: cache(MACHINE_SET),
            machines: cache(MACHINE),
            nodes,
            pods,
            budgets: cache(BUDGET),
            daemons: cache(DAEMON_SET),
            namespaces: cache(PROJECT),
            claims: cache(CLAIM),
            volumes: cache(VOLUME),
            classes: cache(CLASS),
            cluster,
            node_values: Memo::default(),
            read_pods: Memo::default(),
            _stop: stop.drop_guard(),
        }
    }

    /// Returns whether every copy is complete: a decision about what is not read yet would be wrong.
    pub fn are_ready(&self) -> bool {
        [
            &self.sets,
            &self.machines,
            &self.nodes,
            &self.pods,
            &self.budgets,
            &self.daemons,
            &self.namespaces,
            &self.claims,
            &self.volumes,
            &self.classes,
        ]
        .iter()
        .all(|cache| cache.is_ready())
    }

    /// Looks at the cluster; sets of one namespace count.
    pub fn look(&self, env: &Env, settings: Settings, namespace: &str) -> (Snapshot, Rehearsed) {
        let value = |kind: KnownKind| move |object: &DynamicObject| kind.value(object).ok();
        let nodes: Vec<Value> = self.node_values.of(&self.nodes.all(), value(NODE));
        let pods = self.pods.all();
        let read = self.read_pods.of(&pods, |object| POD.value(object).ok().map(|value| Pod::of(&value)));
        let machines = self.machines.in_namespace(namespace);
        let machines: Vec<Machine> = machines.iter().filter_map(|one| MACHINE.value(one).ok()).map(|value| Machine::of(&value)).collect();
        let sets = self.sets.in_namespace(namespace);
        let mut groups: Vec<Group> = sets
            .iter()
            .filter_map(|set| MACHINE_SET.value(set).ok())
            .filter_map(|set| Group::of(&set, &machines, &nodes, &settings.startup_taints))
            .collect();
        groups.sort_by(|one, other| one.id.cmp(&other.id));
        let snapshot = Snapshot {
            now: env.now(),
            groups,
            nodes: nodes.iter().map(|node| Node::of(node, &settings.startup_taints)).collect(),
            pods: read.into_iter().flatten().collect(),
            budgets: self.budgets.all().iter().filter_map(|one| BUDGET.value(one).ok()).map(|value| Budget::of(&value)).collect(),
            priorities: None,
            settings,
        };
        let named = |all: Vec<Object>| all.into_iter().map(|one| (one.name().to_owned(), one)).collect();
        let scene = Scene {
            pods: pods.into_iter().map(|pod| (pod.uid().to_owned(), pod)).collect(),
            namespaces: named(self.namespaces.all()),
            daemons: self.daemons.all(),
            claims: self.claims.all().into_iter().map(|claim| (Key::of(&claim), claim)).collect(),
            volumes: named(self.volumes.all()),
            classes: named(self.classes.all()),
        };
        let cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut rehearsed = Rehearsed::new(cluster, scene);
        // The scheduler takes their room for others: nothing counts on it.
        let passing = |pod: &&Pod| pod.priority < snapshot.settings.priority_threshold || pod.is_overdue(snapshot.now);
        for pod in snapshot.pods.iter().filter(passing) {
            rehearsed.remove(&pod.uid);
        }
        (snapshot, rehearsed)
    }
}
