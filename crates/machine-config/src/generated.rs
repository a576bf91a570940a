//! The MachineConfigs of KubeletConfigs and ContainerRuntimeConfigs, with their finalizers and outcomes (MACH-MC-06).

use std::collections::BTreeMap;

use mainstay_ignition::data_url;
use mainstay_machine_config_core::base::{STORAGE_CONF, storage};
use mainstay_machine_config_core::container_runtime::{self, RuntimeSpec, Size};
use mainstay_machine_config_core::generated::{File, Known, SUFFIX, Source, machine_config, name as config_name, reported, suffix, takes};
use mainstay_machine_config_core::kubelet::{self, KUBELET_CONF, KubeletSpec};
use mainstay_objects::{Expect, Patch, Propagation, labels_of};
use mainstay_runtime::Outcome;
use serde_json::{Value, json};

use crate::Error;
use crate::controller::{Operator, Work};
use crate::error::{FilesRefusal, SourceRefusal};
use crate::places::{controlled_by, name, of_group};
use crate::release::VERSION;

impl Operator {
    /// Keeps the MachineConfigs of all sources.
    pub(crate) async fn generated(&self) -> Result<Outcome, Error> {
        if !self.is_known() || !self.kubelets.is_known() || !self.runtimes.is_known() {
            return Ok(Outcome::Done);
        }
        let mut again = false;
        for (source, kind) in [(Source::Kubelet, &self.kubelets), (Source::Runtime, &self.runtimes)] {
            let all = Self::all(kind, source.kind())?;
            for object in &all {
                match self.source(source, object, &all).await {
                    Ok(waits) => again |= waits,
                    Err(error) if error.is_behind() => again = true,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(if again { Outcome::After(std::time::Duration::from_secs(1)) } else { Outcome::Done })
    }

    /// Looks at one source. Returns whether it waits for a pool.
    async fn source(&self, source: Source, seen: &Value, all: &[Value]) -> Result<bool, Error> {
        let place = of_group(source.kind(), name(seen));
        let Some(live) = self.writer.get(&place).await? else { return Ok(false) };
        if !live["metadata"]["deletionTimestamp"].is_null() {
            self.release_configs(&live).await?;
            return Ok(false);
        }
        let pools: Vec<Value> = Self::all(&self.pools, "MachineConfigPool")?;
        let pools: Vec<&Value> = pools.iter().filter(|pool| takes(&live, &labels_of(pool))).collect();
        if pools.iter().any(|pool| pool["spec"]["configuration"]["name"].as_str().unwrap_or_default().is_empty()) {
            return Ok(true);
        }
        let outcome = self.make(source, &live, &pools, all).await?;
        let said = outcome.map_err(|refusal| refusal.to_string());
        let outcome = said.as_ref().copied().map_err(String::as_str);
        let Some(live) = self.writer.get(&place).await? else { return Ok(false) };
        if let Some(status) = reported(&live, outcome, &self.now()) {
            self.writer.update_status(&live, &status).await?;
            self.queue.add(Work::Render);
        }
        Ok(false)
    }

    /// Makes the MachineConfigs of a source; or says why there are none, in upstream's words.
    async fn make(&self, source: Source, live: &Value, pools: &[&Value], all: &[Value]) -> Result<Result<(), SourceRefusal>, Error> {
        if let Err(refusal) = validated(source, live) {
            return Ok(Err(refusal.into()));
        }
        if pools.is_empty() {
            let kind = match source {
                Source::Kubelet => "KubeletConfig",
                Source::Runtime => "containerRuntimeConfig",
            };
            return Ok(Err(SourceRefusal::NoPool { kind, name: name(live).to_owned() }));
        }
        for pool in pools {
            let labels = labels_of(pool);
            let in_pool: Vec<Known> = all.iter().filter(|object| takes(object, &labels)).map(Known::of).collect();
            let end = match suffix(source, name(live), &in_pool) {
                Ok(end) => end,
                Err(problem) if source == Source::Kubelet => return Ok(Err(SourceRefusal::KubeletName(problem))),
                Err(problem) => return Ok(Err(SourceRefusal::RuntimeName(problem))),
            };
            let files = match files(source, live, &self.original(name(pool))?) {
                Ok(files) => files,
                Err(refusal) => return Ok(Err(refusal.into())),
            };
            let place = of_group(source.kind(), name(live));
            if live["metadata"]["annotations"].get(SUFFIX).is_none() {
                let patch = Patch::Merge(json!({"metadata": {"annotations": {SUFFIX: end}}}));
                self.writer.patch(&place, "", &patch).await?;
            }
            let mut config = machine_config(&config_name(source, name(pool), &end), name(pool), &files, &[], VERSION);
            config["metadata"]["ownerReferences"] = controlled_by(live);
            // The finalizer is there before what it protects.
            if let Some(now) = self.writer.get(&place).await? {
                self.writer.add_finalizer(&now, name(&config)).await?;
            }
            self.keep(&config).await?;
        }
        Ok(Ok(()))
    }

    /// Deletes the MachineConfigs of a source that is being deleted, and releases it.
    async fn release_configs(&self, live: &Value) -> Result<(), Error> {
        let finalizers = live.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        for finalizer in finalizers.iter().filter_map(Value::as_str).filter(|finalizer| finalizer.contains("-generated-")) {
            self.writer.delete(&of_group("MachineConfig", finalizer), &Expect::default(), Propagation::Background).await?;
            if let Some(now) = self.writer.get(&of_group(live["kind"].as_str().unwrap_or_default(), name(live))).await? {
                self.writer.remove_finalizer(&now, finalizer).await?;
            }
        }
        Ok(())
    }

    /// The files before, as the pool's own MachineConfigs say them; a custom pool has those of workers.
    fn original(&self, pool: &str) -> Result<BTreeMap<String, String>, Error> {
        let mut found = BTreeMap::new();
        for role in [pool, mainstay_machine_config_core::pool::WORKER] {
            for config in [format!("01-{role}-kubelet"), format!("01-{role}-container-runtime")] {
                let Some(config) = self.machine_config(&config)? else { continue };
                let ignition = config.spec.ignition.as_deref().unwrap_or_default();
                let Ok(parsed) = mainstay_machine_config_core::ignition::parse_and_convert(ignition) else { continue };
                for file in parsed.files() {
                    let source = file.child("contents").and_then(|contents| contents.text("source")).unwrap_or_default();
                    let text = data_url::decode(source).ok().and_then(|content| String::from_utf8(content).ok());
                    found.entry(file.text_or_empty("path").to_owned()).or_insert_with(|| text.unwrap_or_default());
                }
            }
        }
        Ok(found)
    }
}

fn kubelet_spec(live: &Value) -> KubeletSpec {
    let spec = &live["spec"];
    KubeletSpec {
        config: spec.get("kubeletConfig").filter(|config| config.is_object()).map(Value::to_string),
        log_level: spec["logLevel"].as_i64().and_then(|level| i32::try_from(level).ok()),
        auto_sizing: spec["autoSizingReserved"].as_bool(),
    }
}

fn runtime_spec(live: &Value) -> Result<RuntimeSpec, FilesRefusal> {
    let spec = &live["spec"]["containerRuntimeConfig"];
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let size = |field: &'static str| {
        let value = match &spec[field] {
            Value::Null => return Ok(None),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Size::parse(&value).map(Some).map_err(|source| FilesRefusal::Size { field, source })
    };
    Ok(RuntimeSpec {
        pids_limit: spec["pidsLimit"].as_i64(),
        log_level: text("logLevel"),
        log_size_max: size("logSizeMax")?,
        overlay_size: size("overlaySize")?,
        default_runtime: text("defaultRuntime"),
    })
}

fn validated(source: Source, live: &Value) -> Result<(), FilesRefusal> {
    match source {
        Source::Kubelet if !live["spec"]["tlsSecurityProfile"].is_null() => Err(FilesRefusal::TlsProfile),
        Source::Kubelet => Ok(kubelet::validate(&kubelet_spec(live))?),
        Source::Runtime => Ok(container_runtime::validate(&runtime_spec(live)?)?),
    }
}

/// The files of a source over those before.
fn files(source: Source, live: &Value, before: &BTreeMap<String, String>) -> Result<Vec<File>, FilesRefusal> {
    match source {
        Source::Kubelet => {
            let original = before.get(KUBELET_CONF).map(String::as_str).unwrap_or_default();
            let original = mainstay_yaml::parse(original).map_err(FilesRefusal::Original)?;
            let made = kubelet::files(&kubelet_spec(live), &original)?;
            let all = [made.sizing, made.log_level, Some(made.config)];
            Ok(all.into_iter().flatten().map(|file| File::new(file.path, file.text)).collect())
        }
        Source::Runtime => {
            let spec = runtime_spec(live)?;
            let mut files = Vec::new();
            if spec.overlay_size.is_some() {
                let base = before.get(STORAGE_CONF).map_or(storage(), String::as_str);
                let text = container_runtime::storage_conf(base, &spec)?;
                files.push(File::new(STORAGE_CONF, text));
            }
            files.extend(container_runtime::drop_ins(&spec).into_iter().map(|(path, text)| File::new(path, text)));
            Ok(files)
        }
    }
}
