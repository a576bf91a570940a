//! Quorum protection with the member model (MACH-ETCD-01 to MACH-ETCD-07): the part of the etcd operator that guards machines of the control plane.
//! Members are objects `SimEtcdMember`; hooks, machines and guard pods are real.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_apply::{Reason, WriteError};
use mainstay_machine_core::control_plane::generate::is_control_plane;
use mainstay_machine_core::control_plane::object::NAME;
use mainstay_machine_core::etcd::model::{facts, member, status};
use mainstay_machine_core::etcd::{Action, GUARD, HOOK, NAMESPACE as HOME, OWNER, has_hook, plan};
use mainstay_machine_core::event::EventKind;
use mainstay_machine_core::machine::Machine;
use mainstay_machine_core::node::Node;
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation};
use mainstay_runtime::{Cache, Change, Key, Outcome, Queue, Scope};
use serde_json::{Value, json};

use crate::Error;
use crate::kinds::{CONTROL_PLANE, ETCD_MEMBER, MACHINE, NAMESPACE, NODE};
use crate::shared::{Shared, Teller, named, settled};

/// The interval at which everything is looked at again, as upstream does.
const RESYNC: Duration = Duration::from_secs(60);
/// Most members that are read.
const MOST: usize = 100;
/// Most guard pods of a node.
const GUARDS: u32 = 20;

/// Runs the controller.
pub(crate) async fn run(shared: Shared) {
    let queue: Queue<Key> = Queue::default();
    let own = Key::new(HOME, "etcd");
    let members =
        Cache::start(shared.writer.client(), &ETCD_MEMBER.resource(), &Scope::default(), &shared.stop).shown(shared.env.metrics());
    let wake = |cache: &Cache, concerns: fn(&Change) -> bool| {
        let (woken, key) = (queue.clone(), own.clone());
        cache.on_change(move |change| {
            if concerns(change) {
                woken.add(key.clone());
            }
        });
    };
    wake(&members, |_| true);
    wake(&shared.control_planes, |_| true);
    wake(&shared.machines, |change| {
        change.object().and_then(|machine| serde_json::to_value(&**machine).ok()).is_some_and(|machine| is_control_plane(&machine))
    });
    wake(&shared.nodes, concerns);
    queue.add(own);
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let events = shared.recorder("cluster-machine-deletion-hooks-controller");
    let controller = Arc::new(Controller { shared, events });
    mainstay_runtime::run("etcd-quorum", queue, 1, env, stop, move |_| {
        let controller = controller.clone();
        async move { settled(controller.reconcile().await) }
    })
    .await;
}

/// Returns whether a node of the control plane came, went, or changed what is looked at.
fn concerns(change: &Change) -> bool {
    let state = |node: &DynamicObject| {
        let value = serde_json::to_value(node).unwrap_or(Value::Null);
        let node = Node::of(&value);
        node.is_control_plane().then(|| (node.ready().is_some(), node.unschedulable, value.pointer("/status/addresses").cloned()))
    };
    change.before.as_deref().map(state) != change.now.as_deref().map(state)
}

struct Controller {
    shared: Shared,
    events: Teller,
}

impl Controller {
    async fn reconcile(&self) -> Result<Outcome, Error> {
        let machines: Vec<Value> = self.shared.machines_now(NAMESPACE).await?.into_iter().filter(is_control_plane).collect();
        let nodes = self.nodes()?;
        let gvk = GroupVersionKind::gvk("sim.mainstay.dev", "v1alpha1", ETCD_MEMBER.kind);
        let mut members = self.shared.writer.list(&gvk, MOST).await?;
        members.retain(|member| member["metadata"]["namespace"] == HOME);
        let mut again = RESYNC;
        for member in &mut members {
            let (status, wait) = status(member, &nodes, self.shared.env.now());
            again = again.min(wait.unwrap_or(RESYNC));
            if let Some(written) = self.shared.writer.update_status(member, &status).await? {
                *member = written;
            }
        }
        let control_plane = self.shared.get(CONTROL_PLANE, &Key::new(NAMESPACE, NAME)).await?;
        let facts = facts(&machines, &nodes, &members, control_plane.as_ref());
        let planned = plan(&facts);
        for (machine, held) in &planned.held {
            tracing::debug!(machine, %held, "the etcd member of a machine that is being deleted stays");
        }
        let is_first = members.iter().all(|member| member["spec"]["learner"] == true);
        for action in &planned.actions {
            self.act(action, &machines, &members, is_first).await?;
        }
        self.remove_guards(&facts.machines).await?;
        Ok(Outcome::After(again))
    }

    fn nodes(&self) -> Result<Vec<Value>, Error> {
        self.shared.nodes.all().iter().map(|node| named(node, NODE)).collect()
    }

    async fn act(&self, action: &Action, machines: &[Value], members: &[Value], is_first: bool) -> Result<(), Error> {
        let machine = |name: &str| machines.iter().find(|machine| machine["metadata"]["name"] == name);
        match action {
            Action::AddHook(name) => match machine(name) {
                Some(machine) => self.set_hook(machine, true).await,
                None => Ok(()),
            },
            Action::RemoveHook(name) => {
                let Some(machine) = machine(name) else { return Ok(()) };
                self.set_hook(machine, false).await?;
                let note = format!("successfully removed the deletion hook from machine {name} as it doesn't have a member");
                self.events.tell(machine, EventKind::Normal, "MachineDeletionHook", "Guard", note);
                Ok(())
            }
            Action::AddLearner { node, address } => {
                // The first member has no other to receive a database from.
                let made = self.shared.writer.create(&member(node, address, !is_first)).await;
                match made {
                    Err(WriteError::Refused { reason: Reason::AlreadyExists, .. }) | Ok(_) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            Action::Promote(name) => {
                let patch = json!({"spec": {"learner": false}});
                self.shared.writer.patch(&ETCD_MEMBER.at(&Key::new(HOME, name)), "", &Patch::Merge(patch)).await?;
                tracing::info!(member = name, "a simulated member of etcd becomes a voter");
                Ok(())
            }
            Action::Remove { member: name, machine: of } => {
                let Some(live) = members.iter().find(|member| member["metadata"]["name"] == name.as_str()) else { return Ok(()) };
                let place = ETCD_MEMBER.at(&Key::new(HOME, name));
                self.shared.writer.delete(&place, &Expect::uid_of(live), Propagation::Background).await?;
                tracing::info!(member = name, "a simulated member of etcd is removed");
                if let Some(machine) = of.as_deref().and_then(machine) {
                    let address = live["spec"]["address"].as_str().unwrap_or_default();
                    let note = format!("simulated: successfully removed member: [ url: {address}, name: {name} ] from the cluster");
                    self.events.tell(machine, EventKind::Normal, "ScaleDown", "Guard", note);
                }
                Ok(())
            }
        }
    }

    /// Adds the hook with the right owner, or removes it. Hooks of others stay as they are.
    async fn set_hook(&self, machine: &Value, wanted: bool) -> Result<(), Error> {
        let hooks = machine.pointer("/spec/lifecycleHooks/preDrain").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut hooks: Vec<Value> = hooks.into_iter().filter(|hook| hook["name"] != HOOK).collect();
        if wanted {
            hooks.push(json!({"name": HOOK, "owner": OWNER}));
        }
        let version = machine["metadata"]["resourceVersion"].clone();
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"lifecycleHooks": {"preDrain": hooks}}});
        self.shared.writer.patch(&ObjectRef::of(machine)?, "", &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Deletes the guard pods of nodes that are cordoned for the deletion of their machines, so that the drain can finish (MACH-ETCD-06).
    async fn remove_guards(&self, machines: &[Machine]) -> Result<(), Error> {
        let leaving = machines.iter().filter(|machine| machine.deleting && !has_hook(machine));
        let leaving: BTreeSet<&str> = leaving.filter_map(|machine| machine.node.as_deref()).collect();
        for name in leaving {
            let node = self.shared.get(NODE, &Key::new("", name)).await?;
            // A guard pod of a node that is not cordoned would be made again.
            if !node.is_some_and(|node| Node::of(&node).unschedulable) {
                continue;
            }
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Pod"), "pods");
            let api: Api<DynamicObject> = Api::namespaced_with(self.shared.writer.client().clone(), HOME, &resource);
            let (key, value) = GUARD;
            let params = ListParams::default().labels(&format!("{key}={value}")).fields(&format!("spec.nodeName={name}")).limit(GUARDS);
            let pods = api.list(&params).await.map_err(|source| Error::List { what: "guard pods", source: Box::new(source) })?;
            for pod in pods.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
                let pod_name = pod.metadata.name.clone().unwrap_or_default();
                let expect = Expect { uid: pod.metadata.uid.clone(), ..Expect::default() };
                let place = ObjectRef { api_version: "v1".into(), kind: "Pod".into(), namespace: HOME.into(), name: pod_name };
                self.shared.writer.delete(&place, &expect, Propagation::Background).await?;
                if let Some(machine) = machines.iter().find(|machine| machine.node.as_deref() == Some(name))
                    && let Some(live) = self.shared.get(MACHINE, &Key::new(NAMESPACE, &machine.name)).await?
                {
                    let note =
                        format!("successfully removed the guard pod from machine {} as it is being removed from the cluster", machine.name);
                    self.events.tell(&live, EventKind::Normal, "QuorumGuardRemoved", "Guard", note);
                }
            }
        }
        Ok(())
    }
}
