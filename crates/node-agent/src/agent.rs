//! The agent before a cluster: the daemon of one node, step by step (MACH-NODE-09, MACH-NODE-12, MACH-NODE-13).

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_apply::{Recorder, Writer};
use mainstay_machine_config_core::daemon::disk::digest;
use mainstay_machine_config_core::daemon::{
    Disk, Facts, Next, NodeEvent, OperatingSystem, Plan, Reboot, action_failed, plan, write_failed,
};
use mainstay_machine_config_core::policy::Action;
use mainstay_machine_config_core::pool::node::{Node, annotation, state};
use mainstay_objects::Patch;
use mainstay_runtime::{Cache, Cluster, Env, Kinds, Scope};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::gather::{Gathered, gather};
use crate::report::{node_place, tell};
use crate::root::Found;
use crate::services::{Done, Services};
use crate::{Error, Tree};

/// Name of what reports, as events have it.
const COMPONENT: &str = "machineconfigdaemon";
/// The interval of looks at the files of the configuration.
const LOOK: Duration = Duration::from_secs(2);
/// The longest time without a step.
const RESYNC: Duration = Duration::from_secs(30);
/// The time between two looks at what is not known yet.
const AGAIN: Duration = Duration::from_secs(1);
/// The pause after an error of the cluster.
const PAUSE: Duration = Duration::from_secs(5);

/// The settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node.
    pub node: String,
    /// Its commands.
    pub services: Services,
    /// True if the agent stops when nothing is to be done at once.
    pub once: bool,
}

/// The end of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to stop, or has done what there was to do.
    Stopped,
    /// The node reboots, and the agent is to be started again with it.
    Reboot,
}

/// The agent of a node.
pub struct Agent {
    tree: Tree,
    client: Client,
    writer: Writer,
    recorder: Recorder,
    env: Env,
    config: Config,
    has_begun_reboot: bool,
}

/// The outcome of a step.
enum Outcome {
    Next(Next),
    Reboot,
}

impl Agent {
    /// An agent for a tree.
    ///
    /// # Errors
    /// No client can be made.
    pub fn new(tree: Tree, cluster: &Cluster, env: Env, config: Config) -> Result<Self, Error> {
        let client = cluster.client()?;
        let writer = Writer::new(client.clone(), Kinds::new(client.clone()), COMPONENT);
        let recorder = Recorder::new(writer.clone(), env.clone(), COMPONENT, &config.node);
        Ok(Self { tree, client, writer, recorder, env, config, has_begun_reboot: false })
    }

    /// Works until it is stopped, or the node reboots.
    ///
    /// # Errors
    /// The node is not there, or the tree cannot be used.
    pub async fn run(mut self, stop: CancellationToken) -> Result<Ended, Error> {
        let ended = self.work(&stop).await;
        // What was told last is written before the process ends.
        self.recorder.flush().await;
        ended
    }

    async fn work(&mut self, stop: &CancellationToken) -> Result<Ended, Error> {
        let changed = Arc::new(Notify::new());
        let nodes = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Node"), "nodes");
        let scope = Scope { fields: Some(format!("metadata.name={}", self.config.node)), ..Scope::default() };
        let node = Cache::start(&self.client, &nodes, &scope, stop);
        let wake = changed.clone();
        node.on_change(move |_| wake.notify_one());
        loop {
            let wait = match self.step().await {
                Ok(Outcome::Reboot) => return Ok(Ended::Reboot),
                Ok(Outcome::Next(Next::AtOnce)) if stop.is_cancelled() => return Ok(Ended::Stopped),
                Ok(Outcome::Next(Next::AtOnce)) => continue,
                Ok(Outcome::Next(_)) if self.config.once => return Ok(Ended::Stopped),
                Ok(Outcome::Next(Next::OnChange)) => RESYNC,
                Ok(Outcome::Next(Next::After(wait))) => wait.unsigned_abs().min(RESYNC),
                Err(error @ (Error::NoNode(_) | Error::Locked(_))) => return Err(error),
                Err(error) if self.config.once => return Err(error),
                Err(error) => {
                    tracing::warn!(error = mainstay_diagnostics::chain(&error), "the step is done again");
                    PAUSE
                }
            };
            tokio::select! {
                () = stop.cancelled() => return Ok(Ended::Stopped),
                () = changed.notified() => {}
                () = self.tree_changes() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Waits until a file of the configuration is another one than now.
    async fn tree_changes(&self) {
        let before = self.tree.fingerprint().ok();
        loop {
            tokio::time::sleep(LOOK).await;
            if self.tree.fingerprint().ok() != before {
                return;
            }
        }
    }

    /// Does the next step.
    async fn step(&mut self) -> Result<Outcome, Error> {
        let name = &self.config.node;
        let live = self.writer.get(&node_place(name)).await?.ok_or_else(|| Error::NoNode(name.clone()))?;
        let node = Node::of(&live);
        let disk = match self.tree.disk() {
            Ok(disk) => disk,
            Err(error @ (Error::Kept { .. } | Error::Layout { .. } | Error::Disk(_))) => {
                // What the agent keeps was changed by hand.
                self.broken(&node, &error).await?;
                return Ok(Outcome::Next(Next::OnChange));
            }
            Err(error) => return Err(error),
        };
        let boot_id = self.tree.boot_id()?;
        let facts = gather(&self.client, &self.writer, &node, disk.is_none()).await?;
        let authority = facts.authority.as_ref().map(|(content, version)| (digest(content), version.clone()));
        let facts_of_step = Facts {
            node: &node,
            disk: disk.as_ref(),
            first: facts.first.as_ref(),
            current: facts.current.as_ref(),
            desired: facts.desired.as_ref(),
            policies: facts.policies.as_ref(),
            registries: facts.registries,
            authority: authority.as_ref().map(|(digest, version)| (digest.as_str(), version.as_str())),
            now: self.env.now(),
            reboot: Reboot::Real { is_over: disk.as_ref().is_some_and(|disk| disk.boot_id != boot_id) },
            system: self.system()?,
            next_boot_id: &boot_id,
        };
        let mut found = plan(&facts_of_step);
        let mut not_run = false;
        if let Some(next) = found.disk.clone() {
            match self.carry_out(&facts_of_step, &facts, &next, &mut found).await {
                Ok(done) => not_run = done == Done::NotRun,
                Err(failed) => found = *failed,
            }
        }
        self.tell(&live, &facts.pool, &found, not_run).await?;
        if let Some(outcome) = self.reboot(disk.as_ref(), &found, &boot_id).await? {
            return Ok(outcome);
        }
        Ok(Outcome::Next(match found.next {
            // The pool of a new node has no configuration yet.
            Next::OnChange if disk.is_none() => Next::After(AGAIN.try_into().unwrap_or_default()),
            next => next,
        }))
    }

    /// Brings the tree to the disk of a step, and does its actions. The error is the step that says what failed.
    async fn carry_out(&self, step: &Facts<'_>, facts: &Gathered, next: &Disk, found: &mut Plan) -> Result<Done, Box<Plan>> {
        let failed = |error: &dyn std::error::Error| Box::new(write_failed(step, &mainstay_diagnostics::chain(error)));
        let before = step.disk;
        let writes = before.is_none_or(|before| before.config != next.config || (before.force && !next.force));
        if writes {
            let change = self.tree.plan(&next.config).map_err(|error| failed(&error))?;
            let written = self.tree.write(&change, Some(next)).map_err(|error| failed(&error))?;
            if !written.unowned.is_empty() {
                found.events.push(NodeEvent::OwnershipNotApplied(written.unowned));
            }
            if self.tree.root().is_host()
                && let Err(error) = self.config.services.reload_units().await
            {
                tracing::warn!(%error, "systemd did not read its units again");
            }
            if before.is_some() || facts.authority.is_none() {
                return Ok(Done::Run);
            }
        }
        let mut done = Done::Run;
        let pending = before.map(|before| before.pending.as_slice()).unwrap_or_default();
        if next.pending.is_empty() && !writes {
            for action in pending.iter().filter(|action| **action != Action::Reboot) {
                match self.config.services.run(action).await {
                    Ok(Done::Run) => {}
                    Ok(Done::NotRun) => done = Done::NotRun,
                    Err(error) => return Err(Box::new(action_failed(step, action, &error.to_string()))),
                }
            }
        }
        let is_new = before.and_then(|before| before.kubelet_ca.as_ref()) != next.kubelet_ca.as_ref();
        let authority = facts.authority.as_ref().filter(|_| is_new).map(|(content, _)| content.as_slice());
        self.tree.remember(next, authority).map_err(|error| failed(&error))?;
        Ok(done)
    }

    /// Reboots, if that is what the step is about.
    async fn reboot(&mut self, before: Option<&Disk>, found: &Plan, boot_id: &str) -> Result<Option<Outcome>, Error> {
        let now = found.disk.as_ref().or(before);
        let is_due = now.is_some_and(|disk| disk.rebooting_since.is_some() && disk.boot_id == boot_id);
        if !is_due {
            self.has_begun_reboot = false;
            return Ok(None);
        }
        // A killed agent may have stopped just before.
        if self.has_begun_reboot {
            return Ok(None);
        }
        tracing::info!(node = self.config.node, "rebooting");
        self.recorder.flush().await;
        let has_command = self.config.services.begin_reboot().await?;
        self.has_begun_reboot = true;
        if !self.tree.root().is_host() {
            self.tree.end_boot()?;
        }
        Ok(Some(if has_command { Outcome::Next(Next::AtOnce) } else { Outcome::Reboot }))
    }

    async fn tell(&self, live: &serde_json::Value, pool: &str, found: &Plan, not_run: bool) -> Result<(), Error> {
        let is_tree = !self.tree.root().is_host();
        let note = |event: &NodeEvent| match event {
            NodeEvent::Reloaded(_) | NodeEvent::Restarted(_) if not_run => {
                format!("{event} (not run: no service manager below this root)")
            }
            NodeEvent::Upgrade(_) | NodeEvent::OsUpdateStarted(_) | NodeEvent::OsUpdateStaged if is_tree => {
                format!("{event} (recorded only)")
            }
            event => event.to_string(),
        };
        let now = self.env.now_seconds().to_string();
        tell(&self.writer, &self.recorder, live, pool, found, &now, note).await
    }

    /// The fate of changes of the operating system.
    fn system(&self) -> Result<OperatingSystem, Error> {
        let root = self.tree.root();
        if !root.is_host() {
            return Ok(OperatingSystem::Recorded);
        }
        for program in ["/usr/bin/rpm-ostree", "/usr/bin/bootc"] {
            if root.found(program)? != Found::Absent {
                return Ok(OperatingSystem::NotDriven);
            }
        }
        Ok(OperatingSystem::Packages)
    }

    async fn broken(&self, node: &Node, error: &Error) -> Result<(), Error> {
        let text = error.to_string();
        if node.annotation(annotation::REASON) != Some(&text) {
            let patch = json!({"metadata": {"annotations": {(annotation::STATE): state::DEGRADED, (annotation::REASON): text}}});
            self.writer.patch(&node_place(&node.name), "", &Patch::Merge(patch)).await?;
        }
        Ok(())
    }
}
