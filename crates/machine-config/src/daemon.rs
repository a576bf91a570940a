//! The daemons of simulated nodes: each does the next step that `mainstay_machine_config_core::daemon` plans (MACH-NODE-07, MACH-NODE-08).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use mainstay_apply::Recorder;
use mainstay_machine_config_core::daemon::{Disk, Facts, Next, NodeEvent, OperatingSystem, Plan, Reboot, disk::digest, plan};
use mainstay_machine_config_core::disruption::RegistryDrain;
use mainstay_machine_config_core::machine_config::MachineConfig;
use mainstay_machine_config_core::pool::node::{Node, annotation};
use mainstay_node_agent::report::tell;
use mainstay_objects::Patch;
use mainstay_runtime::{Key, Outcome};
use serde_json::{Value, json};

use crate::Error;
use crate::controller::Operator;
use crate::disk::{disk_name, object, read_disk};
use crate::places::{CONTROLLER_CONFIG, config_map, node as node_place, of_group, value};

/// The time between two looks at what is not known yet.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);
/// The mark of simulated objects.
const SIMULATED: &str = "mainstay.dev/simulated";
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
const ROLES: [&str; 2] = ["node-role.kubernetes.io/master", "node-role.kubernetes.io/worker"];

impl Operator {
    /// Does the next step of a simulated node.
    pub(crate) async fn daemon(&self, node: &str) -> Result<Outcome, Error> {
        if !self.is_known() || !self.settings.is_known() || !self.controller_configs.is_known() {
            return Ok(Outcome::After(AGAIN));
        }
        let is_simulated = |node: &Value| node["metadata"]["labels"].get(SIMULATED).is_some_and(|mark| mark == "true");
        let seen = self.nodes.get(&Key::new("", node)).map(|node| value(&node, "v1", "Node")).transpose()?;
        if !seen.is_some_and(|seen| is_simulated(&seen)) {
            return Ok(Outcome::Done);
        }
        let Some(live) = self.writer.get(&node_place(node)).await? else { return Ok(Outcome::Done) };
        let facts = Node::of(&live);
        if facts.filled(annotation::CURRENT_CONFIG).is_none() && self.label(&facts).await? {
            // The new labels wake this item.
            return Ok(Outcome::Done);
        }
        self.measures.daemon(&facts, self.env.now());
        let pool = self.pool_of(&facts)?;
        let map = self.writer.get(&config_map(&disk_name(node))).await?;
        let disk = match map.as_ref().map(|map| read_disk(node, map)).transpose() {
            Ok(disk) => disk,
            Err(error) => {
                // An edit that makes it unreadable is a broken disk.
                self.broken(&live, &error.to_string()).await?;
                return Ok(Outcome::Blocked);
            }
        };
        let found = self.step(&facts, pool.as_deref(), disk.as_ref()).await?;
        self.carry_out_step(&live, pool.as_deref().unwrap_or_default(), map.as_ref(), &found).await?;
        Ok(match found.next {
            // The pool of a new node has no configuration yet.
            Next::OnChange if disk.is_none() => Outcome::After(AGAIN),
            Next::OnChange => Outcome::Done,
            Next::AtOnce => Outcome::After(std::time::Duration::ZERO),
            Next::After(wait) => Outcome::After(wait.unsigned_abs()),
        })
    }

    async fn step(&self, node: &Node, pool: Option<&str>, disk: Option<&Disk>) -> Result<Plan, Error> {
        let (current, desired) = (node.filled(annotation::CURRENT_CONFIG), node.filled(annotation::DESIRED_CONFIG));
        let first = match (disk, pool) {
            (None, Some(pool)) if current.is_none() => self.first_config(pool).await?,
            _ => None,
        };
        let current = if disk.is_none() { self.fetched(current).await? } else { None };
        let asked = desired;
        let desired = self.fetched(asked).await?;
        if let Some(missing) = asked.filter(|_| desired.is_none()) {
            self.measures.missing(missing);
        }
        let policies = self.current_policies()?;
        let controller = self.controller_configs.named(CONTROLLER_CONFIG);
        let authority = controller.as_ref().and_then(|controller| {
            let text = controller.data.pointer("/spec/kubeAPIServerServingCAData")?.as_str()?;
            Some((digest(&STANDARD.decode(text).ok()?), controller.metadata.resource_version.clone()?))
        });
        let boot_id = uuid(self.env.random(), self.env.random());
        Ok(plan(&Facts {
            node,
            disk,
            first: first.as_ref(),
            current: current.as_ref(),
            desired: desired.as_ref(),
            policies: policies.as_ref(),
            registries: if self.overrides_registries() { RegistryDrain::Overridden } else { RegistryDrain::AsNeeded },
            authority: authority.as_ref().map(|(digest, version)| (digest.as_str(), version.as_str())),
            now: self.env.now(),
            reboot: Reboot::Simulated(SignedDuration::try_from(self.config.reboot).unwrap_or(SignedDuration::MAX)),
            system: OperatingSystem::Recorded,
            next_boot_id: &boot_id,
        }))
    }

    /// A MachineConfig by name; the server is asked if the copy does not have it yet.
    async fn fetched(&self, name: Option<&str>) -> Result<Option<MachineConfig>, Error> {
        let Some(name) = name else { return Ok(None) };
        if let Some(known) = self.machine_config(name)? {
            return Ok(Some(known));
        }
        let Some(found) = self.writer.get(&of_group("MachineConfig", name)).await? else { return Ok(None) };
        match MachineConfig::from_object(&found) {
            Ok(config) => Ok(Some(config)),
            Err(error) => {
                tracing::warn!(%error, name, "a MachineConfig cannot be read");
                Ok(None)
            }
        }
    }

    /// The configuration that a new node of a pool gets: that of the nodes that are done, else the wanted one.
    async fn first_config(&self, pool: &str) -> Result<Option<MachineConfig>, Error> {
        let Some(live) = self.writer.get(&of_group("MachineConfigPool", pool)).await? else { return Ok(None) };
        let of = |part: &str| live[part]["configuration"]["name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        self.fetched(of("status").or_else(|| of("spec")).as_deref()).await
    }

    /// Gives a new node the label of its role, as kubelets of these clusters do when they register. Returns whether it was written.
    async fn label(&self, node: &Node) -> Result<bool, Error> {
        if ROLES.iter().any(|role| node.labels.contains_key(*role)) {
            return Ok(false);
        }
        let role = if node.labels.contains_key(CONTROL_PLANE) { ROLES[0] } else { ROLES[1] };
        let patch = Patch::Merge(json!({"metadata": {"labels": {role: ""}}}));
        self.writer.patch(&node_place(&node.name), "", &patch).await?;
        Ok(true)
    }

    /// Writes a step: the disk first, which is the truth about the node.
    async fn carry_out_step(&self, live: &Value, pool: &str, map: Option<&Value>, found: &Plan) -> Result<(), Error> {
        if let Some(disk) = &found.disk {
            let mut wanted = object(live, disk)?;
            match map {
                None => _ = self.writer.create(&wanted).await?,
                Some(map) => {
                    wanted["metadata"]["resourceVersion"] = map["metadata"]["resourceVersion"].clone();
                    self.writer.replace(&wanted).await?;
                }
            }
        }
        let name = live["metadata"]["name"].as_str().unwrap_or_default();
        let recorder = Recorder::new(self.writer.clone(), self.env.clone(), "machineconfigdaemon", name);
        // What a simulated node only records is marked (MACH-REAL-02).
        let note = |event: &NodeEvent| if event.is_effect() { format!("{event} (simulated)") } else { event.to_string() };
        Ok(tell(&self.writer, &recorder, live, pool, found, &self.now(), note).await?)
    }

    async fn broken(&self, live: &Value, text: &str) -> Result<(), Error> {
        let node = Node::of(live);
        if node.annotation(annotation::REASON) != Some(text) {
            let patch = json!({"metadata": {"annotations": {(annotation::STATE): "Degraded", (annotation::REASON): text}}});
            self.writer.patch(&node_place(&node.name), "", &Patch::Merge(patch)).await?;
        }
        Ok(())
    }
}

/// A random UUID of version 4.
fn uuid(high: u64, low: u64) -> String {
    let random = u128::from(high) << 64 | u128::from(low);
    // The version and the variant have places of their own.
    let id = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{id:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
