//! The simulated nodes there are: those of the start, and one for each instance of the simulated provider that has joined.
//!
//! An instance (`SimInstance`, MACH-PROV-05) is made by the provider. Its kubelet works while the instance says `joined` and is not being
//! deleted; with the instance the heartbeats end, so that its Node becomes NotReady. The Node itself is deleted by the machine's owner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use mainstay_runtime::Optional;

use super::object::{Instance, NODE_ANNOTATIONS, Role, Simulated};
use crate::object::Read as _;
use crate::world::World;

const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// The nodes. Clones share them.
#[derive(Clone)]
pub(super) struct Fleet {
    inner: Arc<Inner>,
}

type Handler = Box<dyn Fn(&str) + Send + Sync>;

struct Inner {
    fixed: Vec<Simulated>,
    state: Mutex<State>,
    handlers: Mutex<Vec<Handler>>,
}

#[derive(Default)]
struct State {
    /// Nodes of instances, by name.
    joined: BTreeMap<String, Simulated>,
    /// UIDs of the instances whose kubelets have registered their Nodes.
    registered: BTreeSet<String>,
}

impl Fleet {
    /// Starts to follow instances, if the cluster serves the kind.
    pub fn start(world: &World, fixed: Vec<Simulated>) -> Self {
        let fleet = Self { inner: Arc::new(Inner { fixed, state: Mutex::default(), handlers: Mutex::default() }) };
        let gvk = GroupVersionKind::gvk("sim.mainstay.dev", "v1alpha1", "SimInstance");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "siminstances");
        let wake = Arc::new(tokio::sync::Notify::new());
        let woken = wake.clone();
        let instances = Optional::start(world.api.client(), resource, &world.stop, move || woken.notify_one());
        let (followed, stop) = (fleet.clone(), world.stop.clone());
        tokio::spawn(async move {
            loop {
                if let Some(cache) = instances.objects() {
                    followed.show(cache.all().iter().filter_map(|object| node_of(object)));
                } else if instances.is_known() {
                    followed.show(std::iter::empty());
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = wake.notified() => {}
                }
            }
        });
        fleet
    }

    /// Calls `handler` with the name of each node whose kubelet starts from now on.
    pub fn on_new(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.handlers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(handler));
    }

    /// Returns a node by its name.
    pub fn get(&self, name: &str) -> Option<Simulated> {
        self.inner.fixed.iter().find(|node| node.name == name).cloned().or_else(|| self.state().joined.get(name).cloned())
    }

    /// Returns true if there is a node of this name.
    pub fn has(&self, name: &str) -> bool {
        self.inner.fixed.iter().any(|node| node.name == name) || self.state().joined.contains_key(name)
    }

    /// Returns all nodes.
    pub fn all(&self) -> Vec<Simulated> {
        self.inner.fixed.iter().cloned().chain(self.state().joined.values().cloned()).collect()
    }

    /// Returns true if there is one node only, which runs everything.
    pub fn is_single(&self) -> bool {
        self.inner.fixed.len() == 1 && self.state().joined.is_empty()
    }

    /// Returns true if the kubelet of a node is to register it.
    pub fn registers(&self, node: &Simulated) -> bool {
        node.instance.as_ref().is_none_or(|instance| !self.state().registered.contains(&instance.uid))
    }

    /// Notes that the kubelet of a node has registered it.
    pub fn registered(&self, node: &Simulated) {
        if let Some(instance) = &node.instance {
            self.state().registered.insert(instance.uid.clone());
        }
    }

    /// Takes the nodes of all instances that work now.
    fn show(&self, nodes: impl Iterator<Item = Simulated>) {
        let mut joined = BTreeMap::new();
        for node in nodes.filter(|node| self.inner.fixed.iter().all(|fixed| fixed.name != node.name)) {
            joined.insert(node.name.clone(), node);
        }
        let new: Vec<String> = {
            let mut state = self.state();
            let uids: BTreeSet<&str> = joined.values().filter_map(|node| node.instance.as_ref()).map(|instance| &*instance.uid).collect();
            state.registered.retain(|uid| uids.contains(&**uid));
            let new = joined.iter().filter(|(name, node)| state.joined.get(*name) != Some(node)).map(|(name, _)| name.clone()).collect();
            state.joined = joined;
            new
        };
        let handlers = self.inner.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        for name in &new {
            handlers.iter().for_each(|handler| handler(name));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The annotations that the kubelet of an instance registers its node with. What a person has written wrongly there is none.
fn annotations(object: &DynamicObject) -> BTreeMap<String, String> {
    let text = object.metadata.annotations.as_ref().and_then(|annotations| annotations.get(NODE_ANNOTATIONS));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Returns the node of an instance; `None` if its kubelet does not work.
fn node_of(object: &DynamicObject) -> Option<Simulated> {
    let joined = object.at("/status/joined").as_bool().unwrap_or_default();
    let name = object.text("/spec/nodeName");
    let number = object.int("/spec/number").and_then(|number| u32::try_from(number).ok());
    let (true, false, Some(number)) = (joined && !name.is_empty(), object.deleting(), number) else { return None };
    let labels = object.at("/spec/labels").as_object().into_iter().flatten();
    let labels: BTreeMap<String, String> = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    let text = |path: &str| Some(object.text(path)).filter(|text| !text.is_empty()).map(str::to_owned);
    let role = if CONTROL_PLANE.iter().any(|label| labels.contains_key(*label)) { Role::ControlPlane } else { Role::Worker };
    let instance = Instance {
        name: object.name().to_owned(),
        uid: object.uid().to_owned(),
        provider_id: object.text("/spec/providerID").to_owned(),
        labels,
        annotations: annotations(object),
        cpu: text("/spec/cpu"),
        memory: text("/spec/memory"),
    };
    Some(Simulated { name: name.to_owned(), role, number, instance: Some(instance) })
}
