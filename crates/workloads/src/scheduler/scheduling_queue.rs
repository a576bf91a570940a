//! The scheduling decisions: they are sequential, and each includes what earlier ones assumed. Changes feed the cluster and wake the pods
//! that they may help. Decisions read the rest through [`Facts`], and execute nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_runtime::{Change, Key, Queue};

use super::cluster::{Cluster, Effect};
use super::plan::{Budget, Decision, Incoming, plan};
use super::waiting::{Event, Waiting};
use crate::object::{Object, Read as _};
use crate::pod;

/// The time for which changes that could help waiting pods are gathered.
const GATHER: Duration = Duration::from_millis(20);

/// The facts that decisions rest on besides nodes, and pods that have one.
pub trait Facts {
    /// Returns the current pod of a key.
    fn pod(&self, key: &Key) -> Option<Object>;
    /// Returns the pod with the constraints of its claims, and the claims that wait for a node to be chosen.
    fn incoming<'a>(&self, pod: &'a Object) -> (Incoming<'a>, Vec<Object>);
    /// Returns a namespace.
    fn namespace(&self, name: &str) -> Option<Object>;
    /// Returns all disruption budgets.
    fn budgets(&self) -> Vec<Budget>;
}

/// The next step for a pod.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// It is bound to a node.
    Bind(String),
    /// Its claims are assigned to a node first.
    Claim(String, Vec<Object>),
    /// Other pods are evicted from a node for it.
    Preempt {
        /// The node.
        node: String,
        /// The pods to evict.
        victims: Vec<Object>,
        /// The reason why it does not fit now, for people.
        why: String,
    },
    /// It fits nowhere; the reason, for people.
    Refuse(String),
}

/// Returns true if the scheduler must find a node for a pod.
pub fn unscheduled(pod: &DynamicObject) -> bool {
    let ours = matches!(pod.text("/spec/schedulerName"), "" | "default-scheduler");
    let gated = pod.at("/spec/schedulingGates").as_array().is_some_and(|gates| !gates.is_empty());
    ours && !gated && pod.text("/spec/nodeName").is_empty() && pod::active(pod)
}

#[derive(Default)]
struct State {
    cluster: Cluster,
    waiting: Waiting,
}

/// The assumed state of the cluster, and the waiting pods.
pub struct SchedulingQueue {
    state: Mutex<State>,
    queue: Queue<Key>,
}

impl SchedulingQueue {
    /// Starts with an empty cluster.
    pub fn new(queue: Queue<Key>) -> Self {
        Self { state: Mutex::default(), queue }
    }

    /// Follows the change of a node.
    pub fn node_changed(&self, change: &Change) {
        let Some(node) = change.object() else { return };
        self.state().cluster.set_node(node.name(), change.now.as_ref());
        let relevant = |node: Option<&Object>| {
            node.map(|node| (node.at("/spec").clone(), node.at("/status/allocatable").clone(), node.labels().clone()))
        };
        if relevant(change.before.as_ref()) != relevant(change.now.as_ref()) {
            self.wake(Event::Room);
        }
    }

    /// Follows the change of a pod.
    pub fn pod_changed(&self, change: &Change) {
        let effect = self.state().cluster.follow(change.before.as_ref(), change.now.as_ref());
        if let Some(pod) = change.now.as_ref().filter(|pod| unscheduled(pod)) {
            // A change of only the pod's status is no reason to look again.
            let relevant = |pod: &Object| (pod.at("/spec").clone(), pod.labels().clone());
            if change.before.as_ref().is_none_or(|before| before.uid() != pod.uid() || relevant(before) != relevant(pod)) {
                self.queue.add(Key::of(pod));
            }
        }
        match effect {
            Effect::None => {}
            Effect::Rules => self.wake(Event::Rules),
            Effect::Room => self.wake(Event::Room),
        }
    }

    /// Follows the change of a namespace.
    pub fn namespace_changed(&self, change: &Change) {
        let labels = |namespace: Option<&Object>| namespace.map(|namespace| namespace.labels().clone());
        if let Some(namespace) = change.object()
            && labels(change.before.as_ref()) != labels(change.now.as_ref())
        {
            self.wake(Event::Namespace(namespace.name()));
        }
    }

    /// Follows the change of a claim, a volume or a class.
    pub fn storage_changed(&self, change: &Change) {
        if let Some(object) = change.object() {
            self.wake(Event::Storage(object.namespace()));
        }
    }

    /// Stops waiting for a pod that needs no node any more, or has one.
    pub fn settled(&self, key: &Key) {
        self.state().waiting.remove(key);
    }

    /// Decides, and records the assumption before the next decision. `None` if the pod is gone or settled.
    pub fn decide(&self, key: &Key, pod: &Object, facts: &dyn Facts) -> Option<Next> {
        // From here on, a change to what is read below wakes the pod again, even before it is known that it must wait.
        self.state().waiting.insert(key, pod);
        let (incoming, delayed) = facts.incoming(pod);
        let mut state = self.state();
        let state = &mut *state;
        // The end of this pod may have been seen already, and then its assumption would stay for ever.
        let there = facts.pod(key).is_some_and(|now| now.uid() == pod.uid() && unscheduled(&now));
        if !there || state.cluster.knows(pod.uid()) {
            state.waiting.remove(key);
            return None;
        }
        let decision = plan(&incoming, &state.cluster, &|name| facts.namespace(name), &|| facts.budgets());
        let (next, freed) = match decision {
            Decision::Bind(node) if delayed.is_empty() => {
                state.waiting.remove(key);
                let freed = state.cluster.assign(pod, &node);
                (Next::Bind(node), freed)
            }
            Decision::Bind(node) => (Next::Claim(node, delayed), false),
            Decision::Preempt { node, victims, why } => {
                let freed = state.cluster.nominate(pod, &node);
                (Next::Preempt { node, victims, why }, freed)
            }
            Decision::Unschedulable(why) => (Next::Refuse(why), false),
        };
        if freed {
            self.wake_of(&state.waiting, Event::Room);
        }
        Some(next)
    }

    /// Takes back the assumption about a pod that could not be bound, so that others may have the room. `facts` show if it has a node after
    /// all, as when only the answer was lost.
    pub fn bind_failed(&self, pod: &Object, facts: &dyn Facts) {
        let mut state = self.state();
        let now = facts.pod(&Key::of(pod)).filter(|now| now.uid() == pod.uid());
        let bound = now.is_some_and(|now| !now.text("/spec/nodeName").is_empty() && !pod::finished(&now));
        if !bound && state.cluster.remove(pod.uid()) {
            self.wake_of(&state.waiting, Event::Room);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, event: Event<'_>) {
        self.wake_of(&self.state().waiting, event);
    }

    fn wake_of(&self, waiting: &Waiting, event: Event<'_>) {
        for key in waiting.helped_by(event) {
            self.queue.add_after(key.clone(), GATHER);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "tables of cases")]
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn object(value: Value) -> Object {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn pod(name: &str, cpu: u32, more: Value) -> Object {
        let mut spec = json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu.to_string()}}}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object(json!({"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": spec}))
    }

    fn told(before: Option<&Object>, now: Option<&Object>) -> Change {
        Change { before: before.cloned(), now: now.cloned() }
    }

    type Meanwhile = Box<dyn Fn()>;

    /// What is there, and what happens while claims are read.
    #[derive(Default)]
    struct World {
        pods: RefCell<BTreeMap<String, Object>>,
        problem: Cell<bool>,
        meanwhile: Option<Meanwhile>,
    }

    impl World {
        fn with(pods: &[&Object]) -> Self {
            let pods = pods.iter().map(|pod| (pod.name().to_owned(), (*pod).clone())).collect();
            Self { pods: RefCell::new(pods), ..Self::default() }
        }
    }

    impl Facts for World {
        fn pod(&self, key: &Key) -> Option<Object> {
            self.pods.borrow().get(&key.name).cloned()
        }

        fn incoming<'a>(&self, pod: &'a Object) -> (Incoming<'a>, Vec<Object>) {
            let problem = self.problem.get().then(|| "unbound".to_owned());
            if let Some(meanwhile) = &self.meanwhile {
                meanwhile();
            }
            (Incoming { pod, problem, volumes: Vec::new() }, Vec::new())
        }

        fn namespace(&self, _name: &str) -> Option<Object> {
            None
        }

        fn budgets(&self) -> Vec<Budget> {
            Vec::new()
        }
    }

    /// A scheduling queue with nodes of four processors, and its queue.
    fn waiting(nodes: &[&str]) -> (Arc<SchedulingQueue>, Queue<Key>) {
        let queue = Queue::default();
        let waiting = Arc::new(SchedulingQueue::new(queue.clone()));
        for name in nodes {
            let node = json!({"metadata": {"name": name, "uid": name}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}});
            waiting.node_changed(&told(None, Some(&object(node))));
        }
        (waiting, queue)
    }

    fn refused(next: Option<Next>) -> bool {
        matches!(next, Some(Next::Refuse(_)))
    }

    /// KAPI-WL-02: a claim that binds while a decision is on its way wakes the pod that is about to wait for it.
    #[test]
    fn a_claim_that_binds_during_a_decision_wakes() {
        let (waiting, queue) = waiting(&["a"]);
        let claims = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
        let waits = pod("waits", 1, claims);
        let claim = object(json!({"metadata": {"name": "c", "namespace": "n", "uid": "c"}}));
        let binds = waiting.clone();
        let meanwhile: Meanwhile = Box::new(move || binds.storage_changed(&told(Some(&claim), Some(&claim))));
        let facts = World { meanwhile: Some(meanwhile), problem: Cell::new(true), ..World::with(&[&waits]) };
        assert!(refused(waiting.decide(&Key::of(&waits), &waits, &facts)));
        assert_eq!(queue.counts().later, 1);
    }

    /// KAPI-WL-02: who waits for room that is kept for a pod is woken when that pod goes without ever having had a node.
    #[test]
    fn the_end_of_a_nominated_pod_wakes() {
        let (waiting, queue) = waiting(&["a"]);
        let filler = pod("filler", 4, json!({"nodeName": "a"}));
        let important = pod("important", 4, json!({"priority": 9}));
        let late = pod("late", 4, json!({"priority": 5}));
        waiting.pod_changed(&told(None, Some(&filler)));
        let facts = World::with(&[&important, &late]);
        assert!(matches!(waiting.decide(&Key::of(&important), &important, &facts), Some(Next::Preempt { .. })));
        waiting.pod_changed(&told(Some(&filler), None));
        assert!(refused(waiting.decide(&Key::of(&late), &late, &facts)));
        waiting.settled(&Key::of(&important));
        let before = queue.counts().later;
        assert_eq!(before, 1, "the important one, when the filler left");
        waiting.pod_changed(&told(Some(&important), None));
        assert_eq!(queue.counts().later, 2);
        assert_eq!(waiting.decide(&Key::of(&late), &late, &facts), Some(Next::Bind("a".into())));
    }

    /// KAPI-WL-02: what a pod would have taken is free for others when it cannot be bound, and stays taken where it was bound after
    /// all.
    #[test]
    fn a_failed_binding_wakes() {
        let (waiting, queue) = waiting(&["a"]);
        let (first, second) = (pod("first", 4, json!({})), pod("second", 4, json!({})));
        let facts = World::with(&[&first, &second]);
        assert_eq!(waiting.decide(&Key::of(&first), &first, &facts), Some(Next::Bind("a".into())));
        assert!(refused(waiting.decide(&Key::of(&second), &second, &facts)));
        let bound = pod("first", 4, json!({"nodeName": "a"}));
        facts.pods.borrow_mut().insert("first".into(), bound);
        waiting.bind_failed(&first, &facts);
        assert!(refused(waiting.decide(&Key::of(&second), &second, &facts)));
        assert_eq!(queue.counts().later, 0);
        facts.pods.borrow_mut().insert("first".into(), first.clone());
        waiting.bind_failed(&first, &facts);
        assert_eq!(queue.counts().later, 1);
        assert_eq!(waiting.decide(&Key::of(&second), &second, &facts), Some(Next::Bind("a".into())));
    }

    /// KAPI-WL-02: labels of namespaces and of placed pods are what rules ask for, so they wake pods that have rules.
    #[test]
    fn changed_labels_wake() {
        let term = json!({"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"});
        let rule = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
        let labelled = |mut pod: DynamicObject| {
            pod.metadata.labels = Some(BTreeMap::from([("app".to_owned(), "x".to_owned())]));
            Arc::new(pod)
        };
        let beside = pod("beside", 1, rule);
        for of_namespace in [true, false] {
            let (waiting, queue) = waiting(&["a"]);
            let (placed, plain) = (pod("placed", 1, json!({"nodeName": "a"})), pod("plain", 9, json!({})));
            waiting.pod_changed(&told(None, Some(&placed)));
            let facts = World::with(&[&beside, &plain]);
            assert!(refused(waiting.decide(&Key::of(&beside), &beside, &facts)));
            assert!(refused(waiting.decide(&Key::of(&plain), &plain, &facts)));
            let namespace = object(json!({"metadata": {"name": "other", "uid": "other"}}));
            if of_namespace {
                waiting.namespace_changed(&told(Some(&namespace), Some(&namespace)));
                assert_eq!(queue.counts().later, 0, "nothing changed");
                waiting.namespace_changed(&told(Some(&namespace), Some(&labelled((*namespace).clone()))));
            } else {
                waiting.pod_changed(&told(Some(&placed), Some(&labelled((*placed).clone()))));
            }
            assert_eq!(queue.counts().later, 1, "only the one with rules");
        }
    }

    /// Nothing is assumed for a pod that has gone, since nobody would take it back.
    #[test]
    fn nothing_is_kept_for_pods_that_are_gone() {
        let (waiting, _) = waiting(&["a"]);
        let (gone, next) = (pod("gone", 4, json!({})), pod("next", 4, json!({})));
        let facts = World::with(&[&next]);
        assert_eq!(waiting.decide(&Key::of(&gone), &gone, &facts), None);
        assert_eq!(waiting.decide(&Key::of(&next), &next, &facts), Some(Next::Bind("a".into())));
    }
}
