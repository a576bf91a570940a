//! The shared state of the controllers: one live copy of each kind, events, clock and randomness.

use kube::api::DynamicObject;
use mainstay_runtime::{Change, Env, Key, Queue, Scope};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, builtin};
use crate::events::Events;
use crate::live::Live;
use crate::object::{Read as _, selects};

/// The field manager of the controllers.
pub const CONTROLLERS: &str = "kube-controller-manager";
/// The field manager of the scheduler.
pub const SCHEDULER: &str = "kube-scheduler";
/// The field manager of the simulated kubelets.
pub const KUBELET: &str = "kubelet";

/// The live copies that several components share, and access to everything else.
#[derive(Clone)]
pub struct World {
    /// Clock and randomness.
    pub env: Env,
    /// Stops all components.
    pub stop: CancellationToken,
    /// The requests of the controllers.
    pub api: Api,
    /// The recorder of events.
    pub events: Events,
    /// Pods.
    pub pods: Live,
    /// Nodes.
    pub nodes: Live,
    client: kube::Client,
}

impl World {
    /// Starts the parts that every component needs.
    pub fn start(client: kube::Client, env: Env, stop: CancellationToken) -> Self {
        let api = Api::new(client.clone(), CONTROLLERS);
        let events = Events::start(api.clone(), env.clone(), stop.clone());
        let pods = Live::start(&api, builtin("v1", "Pod", "pods", true), &Scope::default(), &stop);
        let nodes = Live::start(&api, builtin("v1", "Node", "nodes", false), &Scope::default(), &stop);
        Self { env, stop, api, events, pods, nodes, client }
    }

    /// Returns the requests of another component.
    pub fn api_as(&self, manager: &'static str) -> Api {
        Api::new(self.client.clone(), manager)
    }

    /// Starts to follow a kind, as the controllers.
    pub fn follow(&self, api_version: &str, kind: &str, plural: &str, namespaced: bool) -> Live {
        self.follow_some(api_version, kind, plural, namespaced, &Scope::default())
    }

    /// Starts to follow some objects of a kind, as the controllers.
    pub fn follow_some(&self, api_version: &str, kind: &str, plural: &str, namespaced: bool, scope: &Scope) -> Live {
        Live::start(&self.api, builtin(api_version, kind, plural, namespaced), scope, &self.stop)
    }
}

/// Wakes every object that changes, by its key.
pub fn wake_self(live: &Live, queue: &Queue<Key>) {
    let queue = queue.clone();
    live.on_change(move |change| {
        if let Some(object) = change.object() {
            queue.add(Key::of(object));
        }
    });
}

/// Wakes the controller of this kind of every object that changes, and its previous controller.
pub fn wake_controller(live: &Live, kind: &'static str, queue: &Queue<Key>) {
    let queue = queue.clone();
    live.on_change(move |change: &Change| {
        for object in change.before.iter().chain(&change.now) {
            let owners = object.metadata.owner_references.iter().flatten();
            for owner in owners.filter(|owner| owner.controller == Some(true) && owner.kind == kind) {
                queue.add(Key::new(object.metadata.namespace.clone().unwrap_or_default(), &owner.name));
            }
        }
    });
}

/// Wakes the objects of `live` whose selector matches an object without a controller.
pub fn wake_selecting(live: &Live, orphans: &Live, queue: &Queue<Key>, selector: impl Fn(&DynamicObject) -> Value + Send + Sync + 'static) {
    let (queue, live) = (queue.clone(), live.clone());
    orphans.on_change(move |change| {
        for object in change.before.iter().chain(&change.now).filter(|object| object.controller().is_none()) {
            for possible in live.in_namespace(object.namespace()) {
                if selects(&selector(&possible), object.labels()) {
                    queue.add(Key::of(&possible));
                }
            }
        }
    });
}

/// Returns the selector of most kinds.
pub fn label_selector(object: &DynamicObject) -> Value {
    object.at("/spec/selector").clone()
}
