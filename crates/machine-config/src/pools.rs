//! Roll-out over the nodes of pools: which nodes are asked for the new configuration, and what a pool's status says (MACH-MCP-03 to MACH-MCP-13).

use kube::api::GroupVersionKind;
use mainstay_machine_config_core::pool::candidates::PoolEvent;
use mainstay_machine_config_core::pool::membership::{SelectingPool, membership};
use mainstay_machine_config_core::pool::node::{Node, UPDATE_TAINT, annotation};
use mainstay_machine_config_core::pool::plan::{Pass, Update, plan};
use mainstay_machine_config_core::pool::status::{PoolCondition, status};
use mainstay_machine_config_core::pool::{MASTER, Pool, WORKER};
use mainstay_objects::{LabelSelector, Patch};
use mainstay_runtime::Outcome;
use serde_json::{Value, json};

use crate::Error;
use crate::controller::{Operator, Work};
use crate::places::{CONTROLLER_CONFIG, name, node as node_place, of_group};
use crate::render::OVERRIDDEN;

/// The most nodes of a cluster that are looked at.
const MOST_NODES: usize = 20_000;

impl Operator {
    /// Looks at every pool.
    pub(crate) async fn all_pools(&self) -> Result<Outcome, Error> {
        if !self.is_known() {
            return Ok(Outcome::Done);
        }
        let pools = Self::all(&self.pools, "MachineConfigPool")?;
        if [MASTER, WORKER].iter().any(|wanted| pools.iter().all(|pool| name(pool) != *wanted)) {
            self.queue.add(Work::Base);
        }
        let selecting = self.selecting_pools()?;
        // Nodes are read from the server: a copy that is behind could make more of them unavailable than a pool allows.
        let nodes = self.writer.list(&GroupVersionKind::gvk("", "v1", "Node"), MOST_NODES).await?;
        self.measure(&pools, &selecting, &nodes);
        let mut behind = false;
        for pool in &pools {
            match self.pool(pool, &selecting, &nodes).await {
                Ok(()) => {}
                Err(error) if error.is_behind() => behind = true,
                Err(error) => return Err(error),
            }
        }
        if behind {
            self.queue.add(Work::Pools);
        }
        Ok(Outcome::Done)
    }

    /// Notes what alerts are about: nodes that several pools claim, and pools with an operating system of their own.
    fn measure(&self, pools: &[Value], selecting: &[SelectingPool], nodes: &[Value]) {
        let disputed = nodes.iter().map(Node::of).filter_map(|node| {
            let ignores = membership(&node.name, &node.labels, selecting).ok()??.ignores_custom_pool;
            Some((node.name, ignores))
        });
        self.measures.disputed(disputed.collect());
        let overridden = pools.iter().filter_map(|pool| {
            let rendered = self.configs.named(pool["spec"]["configuration"]["name"].as_str()?)?;
            let is = rendered.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(OVERRIDDEN));
            Some((name(pool).to_owned(), is))
        });
        self.measures.overridden(overridden.collect());
    }

    async fn pool(&self, seen: &Value, selecting: &[SelectingPool], nodes: &[Value]) -> Result<(), Error> {
        // What the plan reads must be as new as the nodes are.
        let Some(live) = self.writer.get(&of_group("MachineConfigPool", name(seen))).await? else { return Ok(()) };
        let is_member = |node: &Node| match membership(&node.name, &node.labels, selecting) {
            Ok(found) => found.is_some_and(|found| found.pools.first().is_some_and(|pool| pool == name(&live))),
            Err(error) => {
                tracing::warn!(%error, node = node.name, "can't get pool for node");
                false
            }
        };
        let members: Vec<Node> = nodes.iter().map(Node::of).filter(is_member).collect();
        let selector = serde_json::from_value::<Option<LabelSelector>>(live["spec"]["nodeSelector"].clone())?;
        let pool = of_object(&live)?;
        let is_deleted = !live["metadata"]["deletionTimestamp"].is_null();
        match plan(&pool, selector.as_ref(), is_deleted, &members, None) {
            Ok(Pass::Unconfigured) => return Ok(()),
            Ok(Pass::SelectingAll) => {
                let event = PoolEvent::SelectingAll;
                self.tell(&live, true, event.reason(), &event.to_string());
                return Ok(());
            }
            Ok(Pass::StatusOnly) => {}
            Ok(Pass::Update(update)) => self.carry_out(&live, &pool, &members, &update).await?,
            Err(error) => tracing::error!(%error, pool = pool.name, "the nodes of a pool cannot be targeted"),
        }
        // What was written here is read again: the status of a node that was just asked is not that of one that is done.
        self.write_status(&live, &pool, &members).await
    }

    async fn carry_out(&self, live: &Value, pool: &Pool, members: &[Node], update: &Update<'_>) -> Result<(), Error> {
        let topology = self.topology();
        for node in members {
            if let Some(topology) = topology.as_deref().filter(|topology| node.annotation(annotation::TOPOLOGY) != Some(topology)) {
                self.annotate(&node.name, annotation::TOPOLOGY, topology).await?;
            }
        }
        for node in &update.taint {
            self.taint(&node.name, true).await?;
        }
        for node in &update.untaint {
            self.taint(&node.name, false).await?;
        }
        for node in &update.target {
            self.annotate(&node.name, annotation::DESIRED_CONFIG, &pool.target).await?;
        }
        for event in &update.events {
            self.tell(live, event.kind() == "Warning", event.reason(), &event.to_string());
        }
        Ok(())
    }

    /// The topology of the control plane, as the ControllerConfig says it.
    fn topology(&self) -> Option<String> {
        let controller = self.controller_configs.named(CONTROLLER_CONFIG)?;
        controller.data.pointer("/spec/infra/status/controlPlaneTopology")?.as_str().map(str::to_owned)
    }

    pub(crate) async fn annotate(&self, node: &str, key: &str, text: &str) -> Result<(), Error> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: text}}}));
        match self.writer.patch(&node_place(node), "", &patch).await {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome.map(drop).map_err(Error::from),
        }
    }

    /// Sets or removes the taint of nodes that wait for an update.
    async fn taint(&self, node: &str, wanted: bool) -> Result<(), Error> {
        let Some(live) = self.writer.get(&node_place(node)).await? else { return Ok(()) };
        let before = live.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut taints = before.clone();
        taints.retain(|taint| !(taint["key"] == UPDATE_TAINT && taint["effect"] == "PreferNoSchedule"));
        if wanted {
            taints.push(json!({"key": UPDATE_TAINT, "effect": "PreferNoSchedule"}));
        }
        if taints == before {
            return Ok(());
        }
        // A list is replaced as a whole: the version protects taints of others.
        let version = &live["metadata"]["resourceVersion"];
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}));
        self.writer.patch(&node_place(node), "", &patch).await?;
        Ok(())
    }

    async fn write_status(&self, live: &Value, pool: &Pool, members: &[Node]) -> Result<(), Error> {
        let now = json!(self.now());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let before: Vec<PoolCondition<Value>> = live
            .pointer("/status/conditions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|one| PoolCondition {
                kind: text(&one["type"]),
                status: text(&one["status"]),
                reason: text(&one["reason"]),
                message: text(&one["message"]),
                changed: one["lastTransitionTime"].clone(),
            })
            .collect();
        let found = status(pool, members, &before, &now);
        let conditions: Vec<Value> = found
            .conditions
            .iter()
            .map(|one| {
                let (kind, status, reason, message) = (&one.kind, &one.status, &one.reason, &one.message);
                json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": one.changed})
            })
            .collect();
        let mut next = live.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
        let classes = &found.classes;
        for (field, count) in [
            ("machineCount", members.len()),
            ("updatedMachineCount", classes.updated.len()),
            ("readyMachineCount", classes.ready.len()),
            ("unavailableMachineCount", classes.unavailable.len()),
            ("degradedMachineCount", classes.degraded.len()),
        ] {
            next[field] = json!(count);
        }
        next["observedGeneration"] = live["metadata"]["generation"].clone();
        next["conditions"] = json!(conditions);
        if found.has_target {
            next["configuration"] = live["spec"]["configuration"].clone();
        }
        self.writer.update_status(live, &next).await?;
        Ok(())
    }
}

/// A pool, as far as targeting needs it.
pub(crate) fn of_object(live: &Value) -> Result<Pool, serde_json::Error> {
    let spec = &live["spec"];
    Ok(Pool {
        name: name(live).to_owned(),
        target: spec["configuration"]["name"].as_str().unwrap_or_default().to_owned(),
        max_unavailable: serde_json::from_value(spec["maxUnavailable"].clone())?,
        paused: spec["paused"].as_bool().unwrap_or_default(),
    })
}
