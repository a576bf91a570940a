//! Carries out a plan: sizes of sets, marks on machines, events (COP-CAS-03, COP-CAS-04).
//!
//! The size that a plan was made for is checked again at each write, so that one that another client has set is never overwritten.

use mainstay_apply::EventKind;
use mainstay_autoscaler_core::group::MARK;
use mainstay_autoscaler_core::plan::FailedMachine;
use mainstay_autoscaler_core::reason::{PodVerdict, Resize};
use mainstay_autoscaler_core::shrink::Removal;
use mainstay_autoscaler_core::{GroupId, Memory, Plan, Snapshot};
use mainstay_golang::duration_text;
use mainstay_machine_core::set::priority::DELETE_ANNOTATION;
use mainstay_objects::{ObjectRef, Patch};
use mainstay_runtime::Key;
use serde_json::{Value, json};

use crate::Error;
use crate::kinds::{MACHINE, MACHINE_SET, NODE};
use crate::metrics::Measures;
use crate::shared::{Shared, Teller};

/// The plan that is carried out, and the place where it is told.
pub(crate) struct Act<'a> {
    pub shared: &'a Shared,
    pub events: &'a Teller,
    pub measures: &'a Measures,
    pub snapshot: &'a Snapshot,
    pub plan: &'a Plan,
    /// ConfigMap `cluster-autoscaler-status`, which events about the whole are about.
    pub status: Value,
}

impl Act<'_> {
    /// Carries out the plan. What fails is told and remembered, and looked at again in the next pass.
    pub async fn run(&self, memory: &mut Memory) {
        for (group, machine) in &self.plan.unmark {
            if let Err(error) = self.mark(group, machine, false).await {
                tracing::warn!(error = &error as &dyn std::error::Error, machine, "a mark could not be taken away");
            }
        }
        for failed in &self.plan.failed {
            self.fail(failed).await;
        }
        for resize in &self.plan.growth.resizes {
            self.grow(resize, memory).await;
        }
        self.tell_pods();
        for removal in &self.plan.shrinkage.removals {
            self.remove(removal, memory).await;
        }
    }

    fn set(&self, group: &GroupId) -> Value {
        let uid = self.snapshot.groups.iter().find(|known| known.id == *group).map(|known| known.uid.clone());
        json!({
            "apiVersion": MACHINE_SET.api_version, "kind": MACHINE_SET.kind,
            "metadata": {"namespace": group.namespace, "name": group.name, "uid": uid},
        })
    }

    /// Tells an event of the whole and of a set.
    fn tell(&self, group: &GroupId, kind: EventKind, reason: &str, note: &str) {
        for about in [&self.status, &self.set(group)] {
            self.events.tell(about, kind, reason, "Scale", note);
        }
    }

    async fn fail(&self, failed: &FailedMachine) {
        let group = &failed.group;
        if failed.is_new {
            self.measures.growth_failed(if failed.is_late { "timeout" } else { "machineFailed" });
            let note = if failed.is_late {
                let wanted = duration_text(self.snapshot.settings.provision_time);
                format!("Nodes added to group {group} failed to register within {wanted}: machine {}", failed.machine)
            } else {
                format!("Scale-up failed for group {group}: machine {} is in phase Failed", failed.machine)
            };
            self.tell(group, EventKind::Warning, if failed.is_late { "ScaleUpTimedOut" } else { "FailedToScaleUpGroup" }, &note);
        }
        if !failed.is_removed {
            return;
        }
        match self.shrink(group, &failed.machine).await {
            Ok(()) => self.tell(group, EventKind::Normal, "DeleteUnregistered", &format!("Removed unregistered node {}", failed.machine)),
            Err(error) => self.not_removed(group, &failed.machine, &error),
        }
    }

    async fn grow(&self, resize: &Resize, memory: &mut Memory) {
        let Resize { group, from, to, max } = resize;
        match self.resize(group, *from, *to).await {
            Ok(()) => {
                memory.grew(self.snapshot.now);
                self.measures.grew(to - from);
                tracing::info!(%group, from, to, "the set grows");
                let note = format!("Scale-up: group {group} size set to {to} instead of {from} (max: {max})");
                self.tell(group, EventKind::Normal, "ScaledUpGroup", &note);
            }
            // Another has changed the set: the next pass plans again.
            Err(error) if error.is_conflict() || matches!(error, Error::Resized { .. }) => {
                tracing::info!(%error, %group, "the set does not grow in this pass");
            }
            Err(error) => {
                memory.growth_failed(group, self.snapshot.now);
                self.measures.growth_failed("apiError");
                let note = format!("Scale-up failed for group {group}: {}", mainstay_diagnostics::chain(&error));
                self.tell(group, EventKind::Warning, "FailedToScaleUpGroup", &note);
            }
        }
    }

    fn tell_pods(&self) {
        let shown: Vec<String> = self.plan.growth.resizes.iter().map(ToString::to_string).collect();
        for pod in &self.snapshot.pods {
            let Some(verdict) = self.plan.growth.pods.get(&pod.uid) else { continue };
            let about =
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}});
            if *verdict == PodVerdict::Triggered {
                let note = format!("pod triggered scale-up: [{}]", shown.join(" "));
                self.events.tell(&about, EventKind::Normal, "TriggeredScaleUp", "ScaleUp", note);
            } else if let Some(note) = verdict.not_triggered()
                && self.measures.is_news(&pod.uid, &note)
            {
                self.events.tell(&about, EventKind::Normal, "NotTriggerScaleUp", "ScaleUp", note);
            }
        }
        self.measures.forget_pods(|uid| matches!(self.plan.growth.pods.get(uid), Some(PodVerdict::Refused(_))));
    }

    async fn remove(&self, removal: &Removal, memory: &mut Memory) {
        let Removal { node, group, machine, share, pods } = removal;
        let done = async {
            if self.snapshot.settings.scale_down.cordons {
                let patch = json!({"spec": {"unschedulable": true}});
                self.shared.writer.patch(&NODE.at(&Key::new("", node)), "", &Patch::Merge(patch)).await?;
            }
            self.shrink(group, machine).await
        };
        if let Err(error) = done.await {
            if !error.is_conflict() && !matches!(error, Error::Resized { .. }) {
                memory.removal_failed(self.snapshot.now);
            }
            self.not_removed(group, machine, &error);
            return;
        }
        memory.removed(node, self.snapshot.now);
        self.measures.shrank(pods.is_empty());
        tracing::info!(%group, node, machine, "the node is not needed: its machine is removed");
        let (reason, note) = if pods.is_empty() {
            ("ScaleDownEmpty", format!("Scale-down: removing empty node {node:?}"))
        } else {
            let shown = pods.join(", ");
            ("ScaleDown", format!("Scale-down: removing node {node}, utilization: {share:.2}, pods to reschedule: {shown}"))
        };
        self.tell(group, EventKind::Normal, reason, &note);
        let uid = self.snapshot.nodes.iter().find(|known| known.name == *node).map(|known| known.uid.clone());
        let about = json!({"apiVersion": "v1", "kind": NODE.kind, "metadata": {"name": node, "uid": uid}});
        self.events.tell(&about, EventKind::Normal, "ScaleDown", "Scale", "marked the node as toBeDeleted/unschedulable");
    }

    fn not_removed(&self, group: &GroupId, machine: &str, error: &Error) {
        tracing::warn!(error = error as &dyn std::error::Error, %group, machine, "the machine could not be removed");
        let note = format!("failed to delete node: machine {machine}: {}", mainstay_diagnostics::chain(error));
        self.tell(group, EventKind::Warning, "ScaleDownFailed", &note);
    }

    /// Makes a set smaller by this machine: it is marked first, so that the set takes no other.
    async fn shrink(&self, group: &GroupId, machine: &str) -> Result<(), Error> {
        self.mark(group, machine, true).await?;
        let size = self.size(group).await?;
        let known = self.snapshot.groups.iter().find(|known| known.id == *group);
        let least = known.map(|known| known.min).unwrap_or_default();
        let outcome = match usize::try_from(size.replicas) {
            Ok(now) if now > least => self.write(group, &size, now - 1).await,
            _ => Err(Error::Resized { group: group.to_string(), now: size.replicas, planned: least + 1 }),
        };
        if outcome.is_err() {
            self.mark(group, machine, false).await?;
        }
        outcome
    }

    async fn mark(&self, group: &GroupId, machine: &str, is_marked: bool) -> Result<(), Error> {
        let mark = if is_marked { json!(MARK) } else { Value::Null };
        let patch = json!({"metadata": {"annotations": {DELETE_ANNOTATION: mark}}});
        self.shared.writer.patch(&MACHINE.at(&Key::new(&group.namespace, machine)), "", &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn resize(&self, group: &GroupId, from: usize, to: usize) -> Result<(), Error> {
        let size = self.size(group).await?;
        if usize::try_from(size.replicas) != Ok(from) {
            return Err(Error::Resized { group: group.to_string(), now: size.replicas, planned: from });
        }
        self.write(group, &size, to).await
    }

    async fn size(&self, group: &GroupId) -> Result<SetSize, Error> {
        let place = MACHINE_SET.at(&Key::new(&group.namespace, &group.name));
        let live = self.shared.writer.get(&place).await?.ok_or_else(|| Error::Gone(group.to_string()))?;
        let replicas = live.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or_default();
        Ok(SetSize { place, version: live["metadata"]["resourceVersion"].clone(), replicas })
    }

    async fn write(&self, group: &GroupId, size: &SetSize, replicas: usize) -> Result<(), Error> {
        tracing::debug!(%group, replicas, "the size of the set is written");
        let patch = json!({"metadata": {"resourceVersion": size.version}, "spec": {"replicas": replicas}});
        self.shared.writer.patch(&size.place, "", &Patch::Merge(patch)).await?;
        Ok(())
    }
}

/// The size of a set at a version of it.
struct SetSize {
    place: ObjectRef,
    version: Value,
    replicas: u64,
}
