//! Rendered MachineConfigs: what the MachineConfigs of a pool become together, and what a pool says when they become nothing
//! (MACH-MC-02 to MACH-MC-04, MACH-MC-08).

use std::fmt::Write as _;

use mainstay_machine_config_core::content;
use mainstay_machine_config_core::generated::{CONTROLLER_VERSION, RELEASE_VERSION, Source, takes, waits_for};
use mainstay_machine_config_core::ignition::parse_and_convert;
use mainstay_machine_config_core::machine_config::{ControllerConfig, MachineConfig};
use mainstay_machine_config_core::merge::{Rendered, render};
use mainstay_machine_config_core::pool::{MASTER, WORKER};
use mainstay_machine_config_core::reconcilable::{self, Unreconcilable};
use mainstay_objects::{LabelSelector, labels_of};
use mainstay_runtime::Outcome;
use serde_json::{Value, json};

use crate::Error;
use crate::controller::{Operator, Work};
use crate::error::RenderRefusal;
use crate::places::{CONTROLLER_CONFIG, V1, controlled_by, name, of_group, value};
use crate::release::VERSION;

/// Annotation of a rendered MachineConfig whose operating system is not the release's.
pub(crate) const OVERRIDDEN: &str = "machineconfiguration.openshift.io/os-image-url-overridden";
const RENDER_DEGRADED: &str = "RenderDegraded";

/// The MachineConfigs that a pool selects, and what they are merged with.
struct Inputs {
    configs: Vec<Value>,
    controller: Value,
    release: String,
}

impl Operator {
    /// Renders every pool. A pool that fails says so, and holds up no other.
    pub(crate) async fn render(&self) -> Result<Outcome, Error> {
        if !self.is_known() || !self.controller_configs.is_known() || !self.kubelets.is_known() || !self.runtimes.is_known() {
            return Ok(Outcome::Done);
        }
        let mut behind = false;
        for pool in Self::all(&self.pools, "MachineConfigPool")? {
            if [MASTER, WORKER].contains(&name(&pool)) && self.configs.named(&format!("00-{}", name(&pool))).is_none() {
                self.queue.add(Work::Base);
                continue;
            }
            match self.render_pool(&pool).await {
                Ok(()) => {}
                Err(error) if error.is_behind() => behind = true,
                Err(error) => return Err(error),
            }
        }
        if behind {
            self.queue.add(Work::Render);
        }
        Ok(Outcome::Done)
    }

    async fn render_pool(&self, pool: &Value) -> Result<(), Error> {
        if !pool["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        let selector = serde_json::from_value::<Option<LabelSelector>>(pool["spec"]["machineConfigSelector"].clone())?;
        if selector.as_ref().is_some_and(LabelSelector::is_empty) {
            let note = "This machineconfigpool is selecting all machineconfigs. A non-empty selector is required.";
            self.tell(pool, true, "SelectingAll", note);
            return Ok(());
        }
        let Some(controller) = self.controller_configs.named(CONTROLLER_CONFIG) else { return Ok(()) };
        let controller = value(&controller, V1, "ControllerConfig")?;
        // Its MachineConfigs are not all made yet.
        if controller["status"]["observedGeneration"] != controller["metadata"]["generation"] {
            return Ok(());
        }
        let current = pool["spec"]["configuration"]["name"].as_str().filter(|name| !name.is_empty());
        if current.is_some() && self.waits(pool)? {
            return Ok(());
        }
        let selects = |config: &Value| selector.as_ref().is_some_and(|selector| selector.matches(&labels_of(config)));
        let mut configs = Self::all(&self.configs, "MachineConfig")?;
        configs.retain(selects);
        configs.sort_by(|one, other| name(one).cmp(name(other)));
        let release = controller["metadata"]["annotations"][RELEASE_VERSION].as_str().unwrap_or_default().to_owned();
        let fingerprint = fingerprint(pool, &controller, &configs);
        if self.with(|state| state.rendered.get(name(pool)) == Some(&fingerprint)) {
            return Ok(());
        }
        let outcome = match rendered(pool, &Inputs { configs, controller, release }, self.current(current)?.as_ref()) {
            Ok((object, sources)) => {
                self.publish(pool, &object, &sources).await?;
                Ok(())
            }
            Err(text) => Err(format!("Failed to render configuration for pool {}: {text}", name(pool))),
        };
        self.say(pool, outcome.as_ref().err().map(String::as_str)).await?;
        self.with(|state| state.rendered.insert(name(pool).to_owned(), fingerprint));
        Ok(())
    }

    /// Returns whether the MachineConfig of a KubeletConfig or ContainerRuntimeConfig of the pool is not made yet.
    fn waits(&self, pool: &Value) -> Result<bool, Error> {
        let labels = labels_of(pool);
        for (source, kind) in [(Source::Runtime, &self.runtimes), (Source::Kubelet, &self.kubelets)] {
            for object in Self::all(kind, source.kind())?.iter().filter(|object| takes(object, &labels)) {
                if let Some(why) = waits_for(source, object) {
                    tracing::debug!(pool = name(pool), why, "rendering waits");
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn current(&self, name: Option<&str>) -> Result<Option<MachineConfig>, Error> {
        name.map_or(Ok(None), |name| self.machine_config(name))
    }

    /// Creates the rendered MachineConfig, and points the pool to it.
    async fn publish(&self, pool: &Value, object: &Value, sources: &Value) -> Result<(), Error> {
        let rendered = name(object);
        let place = of_group("MachineConfig", rendered);
        match self.writer.get(&place).await? {
            None => {
                self.writer.create(object).await?;
                let note = format!(
                    "{rendered} successfully generated (release version: {}, controller version: {VERSION})",
                    object["metadata"]["annotations"][RELEASE_VERSION].as_str().unwrap_or_default()
                );
                self.tell(pool, false, "RenderedConfigGenerated", &note);
            }
            // The same content of another release or controller.
            Some(_) => _ = self.keep(object).await?,
        }
        let place = of_group("MachineConfigPool", name(pool));
        let Some(mut live) = self.writer.get(&place).await? else { return Ok(()) };
        let wanted = json!({"name": rendered, "source": sources});
        if live["spec"]["configuration"] != wanted {
            live["spec"]["configuration"] = wanted;
            self.writer.replace(&live).await?;
        }
        Ok(())
    }

    /// Writes the condition RenderDegraded.
    async fn say(&self, pool: &Value, failure: Option<&str>) -> Result<(), Error> {
        let Some(live) = self.writer.get(&of_group("MachineConfigPool", name(pool))).await? else { return Ok(()) };
        let (status, message) = failure.map_or(("False", ""), |text| ("True", text));
        let mut conditions = live.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let before = conditions.iter().find(|one| one["type"] == RENDER_DEGRADED);
        if before.is_some_and(|one| one["status"] == status && one["message"] == message) {
            return Ok(());
        }
        let since = before.filter(|one| one["status"] == status).map_or_else(|| json!(self.now()), |one| one["lastTransitionTime"].clone());
        conditions.retain(|one| one["type"] != RENDER_DEGRADED);
        conditions.push(json!({"type": RENDER_DEGRADED, "status": status, "reason": "", "message": message, "lastTransitionTime": since}));
        let mut next = live.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
        next["conditions"] = json!(conditions);
        self.writer.update_status(&live, &next).await?;
        self.queue.add(Work::Pools);
        Ok(())
    }
}

/// The inputs of a rendering, by versions.
fn fingerprint(pool: &Value, controller: &Value, configs: &[Value]) -> String {
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let mut text = format!("{} {} {}", pool["metadata"]["uid"], pool["metadata"]["generation"], controller["metadata"]["generation"]);
    for config in configs {
        // Writing to a text cannot fail.
        let _ = write!(text, " {}@{}", name(config), version(config));
    }
    text
}

/// The rendered MachineConfig of a pool, and the references to those that it is made from; or why there is none, in upstream's words.
fn rendered(pool: &Value, inputs: &Inputs, current: Option<&MachineConfig>) -> Result<(Value, Value), RenderRefusal> {
    if inputs.configs.is_empty() {
        let selector = &pool["spec"]["machineConfigSelector"];
        return Err(RenderRefusal::NoneSelected(selector.clone()));
    }
    let read = |config: &Value| {
        MachineConfig::from_object(config).map_err(|source| RenderRefusal::Unreadable { name: name(config).to_owned(), source })
    };
    let configs = inputs.configs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let controller: ControllerConfig = serde_json::from_value(inputs.controller["spec"].clone()).map_err(RenderRefusal::Controller)?;
    let made = render(name(pool), &configs, &controller)?;
    let made = made.ok_or(RenderRefusal::None)?;
    let ignition = parse_and_convert(made.spec.ignition.as_deref().unwrap_or_default())?;
    content::check(&ignition)?;
    let new = MachineConfig { name: made.name.clone(), labels: None, spec: made.spec.clone() };
    if let Some(current) = current.filter(|current| current.name != new.name)
        && let Err(error) = reconcilable::check(current, &new)
    {
        return Err(RenderRefusal::Unreconcilable(blamed(current, &configs, &error)));
    }
    let sources = inputs.configs.iter().map(|config| json!({"apiVersion": V1, "kind": "MachineConfig", "name": name(config)})).collect();
    Ok((object(pool, &made, &inputs.release), sources))
}

/// The MachineConfig that makes a rendered one unreachable, in upstream's words.
fn blamed(current: &MachineConfig, configs: &[MachineConfig], error: &Unreconcilable) -> String {
    let whole = error.to_string();
    let reason_of = |config: &MachineConfig| {
        let single = reconcilable::check(current, config).err()?.to_string();
        let (_, reason) = single.split_once(": ")?;
        whole.contains(reason).then(|| reason.to_owned())
    };
    if let Some((config, reason)) = configs.iter().find_map(|config| Some((config, reason_of(config)?))) {
        return format!("reconciliation failed between current config {:?} and base config {:?}: {reason}", current.name, config.name);
    }
    let single = configs.iter().find_map(|config| reconcilable::check(current, config).err());
    let single = single.map_or_else(|| "<nil>".to_owned(), |error| error.to_string());
    format!("render reconciliation error: {whole}; component errors: {single}")
}

fn object(pool: &Value, made: &Rendered, release: &str) -> Value {
    let mut annotations = json!({CONTROLLER_VERSION: VERSION, RELEASE_VERSION: release});
    if made.os_image_overridden {
        annotations[OVERRIDDEN] = json!("true");
    }
    json!({
        "apiVersion": V1, "kind": "MachineConfig",
        "metadata": {"name": made.name, "annotations": annotations, "ownerReferences": controlled_by(pool)},
        "spec": made.spec.to_object(),
    })
}
