//! The provider: it makes, reads and deletes instances that are objects.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mainstay_apply::{Reason, WriteError, Writer};
use mainstay_machine_core::lifecycle::Instance;
use mainstay_machine_core::machine::{Address, ROLE_LABEL};
use mainstay_objects::{Expect, Propagation, labels_of, meta};
use mainstay_runtime::Key;
use serde_json::{Value, json};

use super::{FINALIZER, Operation, Settings};
use crate::SIMULATED;
use crate::kinds::SIM_INSTANCE;
use crate::provider::{Provider, ProviderError};

/// The numbers of instances: below are those of nodes that are there from the start, above there is no network left.
const NUMBERS: std::ops::Range<i64> = 1024..3072;
/// Most instances that are read.
const MOST: usize = 10_000;
/// The longest part of a machine's name in the name of its instance.
const NAME: usize = 240;
/// Machines whose played failures are remembered.
const REMEMBERED: usize = 10_000;

/// The simulated provider.
pub struct SimulatedProvider {
    writer: Writer,
    /// One instance is numbered after the other.
    numbering: tokio::sync::Mutex<()>,
    /// The failures of each machine that were played, by its UID and the place in the list.
    played: Mutex<HashMap<(String, usize), u32>>,
}

impl SimulatedProvider {
    /// Creates the provider.
    pub fn new(writer: Writer) -> Self {
        Self { writer, numbering: tokio::sync::Mutex::default(), played: Mutex::default() }
    }

    /// Reads the settings, and plays the failure that is due.
    fn settings(&self, machine: &Value, operation: Operation) -> Result<Settings, ProviderError> {
        let settings = Settings::of(machine).map_err(|error| ProviderError::InvalidConfiguration(error.to_string()))?;
        let uid = meta(machine, "uid").unwrap_or_default();
        let mut played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
        if played.len() > REMEMBERED {
            played.clear();
        }
        for (index, failure) in settings.failures.iter().enumerate().filter(|(_, failure)| failure.operation == operation) {
            let count = played.entry((uid.clone(), index)).or_default();
            if *count < failure.times {
                *count += 1;
                let said = format!("simulated: {}", if failure.reason.is_empty() { "Failure" } else { &failure.reason });
                return Err(match &*failure.reason {
                    "InvalidConfiguration" => ProviderError::InvalidConfiguration(said),
                    _ => ProviderError::Retryable(said),
                });
            }
        }
        Ok(settings)
    }

    async fn live(&self, machine: &Value) -> Result<Option<Value>, ProviderError> {
        self.writer.get(&SIM_INSTANCE.at(&place(machine))).await.map_err(|error| failed(&error))
    }

    async fn make(&self, machine: &Value, settings: &Settings) -> Result<Value, ProviderError> {
        let _alone = self.numbering.lock().await;
        if let Some(live) = self.live(machine).await? {
            return Ok(live);
        }
        let gvk = kube::api::GroupVersionKind::gvk("sim.mainstay.dev", "v1alpha1", "SimInstance");
        let all = self.writer.list(&gvk, MOST).await.map_err(|error| failed(&error))?;
        let used: BTreeSet<i64> = all.iter().filter_map(|instance| instance.pointer("/spec/number").and_then(Value::as_i64)).collect();
        let number = { NUMBERS }.find(|number| !used.contains(number)).ok_or_else(|| ProviderError::RequeueAfter {
            wait: Duration::from_secs(60),
            message: "simulated: all addresses of instances are in use".to_owned(),
        })?;
        match self.writer.create(&object(machine, settings, number)).await {
            Ok(made) => Ok(made),
            Err(WriteError::Refused { reason: Reason::AlreadyExists, .. }) => {
                self.live(machine).await?.ok_or_else(|| ProviderError::Retryable("simulated: the instance went at once".to_owned()))
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

impl Provider for SimulatedProvider {
    fn create<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        async move {
            let settings = self.settings(machine, Operation::Create)?;
            Ok(told(&self.make(machine, &settings).await?, &settings))
        }
        .boxed()
    }

    fn update<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        async move {
            let settings = self.settings(machine, Operation::Update)?;
            let live = self.live(machine).await?;
            live.map(|live| told(&live, &settings)).ok_or_else(|| ProviderError::Retryable("simulated: the instance is gone".to_owned()))
        }
        .boxed()
    }

    fn delete<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<(), ProviderError>> {
        async move {
            self.settings(machine, Operation::Delete)?;
            let Some(live) = self.live(machine).await? else { return Ok(()) };
            if live["metadata"].get("deletionTimestamp").is_some() {
                return Ok(());
            }
            let place = SIM_INSTANCE.at(&place(machine));
            self.writer.delete(&place, &Expect::uid_of(&live), Propagation::Background).await.map(drop).map_err(|error| failed(&error))
        }
        .boxed()
    }

    fn exists<'a>(&'a self, machine: &'a Value) -> BoxFuture<'a, Result<bool, ProviderError>> {
        async move {
            // Settings that cannot be read are told by the call that would use them.
            if let Err(ProviderError::Retryable(said)) = self.settings(machine, Operation::Exists) {
                return Err(ProviderError::Retryable(said));
            }
            Ok(self.live(machine).await?.is_some())
        }
        .boxed()
    }
}

fn failed(error: &WriteError) -> ProviderError {
    ProviderError::Retryable(mainstay_diagnostics::chain(error))
}

/// The place of a machine's instance. Another machine of the same name has another instance.
fn place(machine: &Value) -> Key {
    let (name, uid) = (meta(machine, "name").unwrap_or_default(), meta(machine, "uid").unwrap_or_default());
    let (name, uid) = (name.get(..NAME).unwrap_or(&name), uid.get(..8).unwrap_or(&uid));
    Key::new(meta(machine, "namespace").unwrap_or_default(), format!("{name}-{uid}"))
}

fn object(machine: &Value, settings: &Settings, number: i64) -> Value {
    let Key { namespace, name } = place(machine);
    let machine_name = meta(machine, "name").unwrap_or_default();
    let mut labels = settings.labels.clone();
    for (label, value) in [
        ("node.kubernetes.io/instance-type", &settings.instance_type),
        ("topology.kubernetes.io/region", &settings.region),
        ("topology.kubernetes.io/zone", &settings.zone),
    ] {
        // A place that the spec of a cloud does not say is none.
        if !value.is_empty() {
            labels.entry(label.to_owned()).or_insert_with(|| value.clone());
        }
    }
    if let Some(role) = labels_of(machine).get(ROLE_LABEL).filter(|role| !role.is_empty()) {
        labels.insert(format!("node-role.kubernetes.io/{role}"), String::new());
        if role == "master" {
            labels.insert("node-role.kubernetes.io/control-plane".to_owned(), String::new());
        }
    }
    let seconds = |time: Duration| mainstay_golang::duration_text(time);
    let mut spec = json!({
        "providerID": settings.provider_id.clone().unwrap_or_else(|| format!("sim:///{}/{name}", settings.zone)),
        "nodeName": machine_name,
        "number": number,
        "instanceType": settings.instance_type,
        "region": settings.region,
        "zone": settings.zone,
        "labels": labels,
        "bootDelay": seconds(settings.boot_delay),
        "joinDelay": seconds(settings.join_delay),
        "deleteDelay": seconds(settings.delete_delay),
        "neverJoin": settings.never_join,
    });
    for (field, value) in [("cpu", &settings.cpu), ("memory", &settings.memory), ("vanishAfter", &settings.vanish_after.map(seconds))] {
        if let Some(value) = value {
            spec[field] = json!(value);
        }
    }
    json!({
        "apiVersion": SIM_INSTANCE.api_version,
        "kind": SIM_INSTANCE.kind,
        "metadata": {
            "name": name, "namespace": namespace, "finalizers": [FINALIZER],
            "labels": {SIMULATED: "true"}, "annotations": {SIMULATED: "true", "sim.mainstay.dev/machine": machine_name},
        },
        "spec": spec,
    })
}

/// The provider's account of an instance.
fn told(instance: &Value, settings: &Settings) -> Instance {
    let text = |pointer: &str| instance.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let number = instance.pointer("/spec/number").and_then(Value::as_i64).unwrap_or_default();
    let node = text("/spec/nodeName").unwrap_or_default();
    let state = text("/status/state").unwrap_or_else(|| "pending".to_owned());
    Instance {
        provider_id: text("/spec/providerID"),
        addresses: vec![
            Address::new("InternalIP", address(number)),
            Address::new("InternalDNS", node.clone()),
            Address::new("Hostname", node),
        ],
        provider_status: Some(json!({
            "apiVersion": "sim.mainstay.dev/v1alpha1", "kind": "SimProviderStatus",
            "instanceId": instance["metadata"]["name"], "instanceState": state,
        })),
        state: Some(state),
        instance_type: Some(settings.instance_type.clone()),
        region: Some(settings.region.clone()),
        zone: Some(settings.zone.clone()),
        simulated: true,
    }
}

/// The address of an instance, as its kubelet reports it (`mainstay_workloads::node::object::Simulated::address`).
fn address(number: i64) -> String {
    let host = number + 2;
    format!("172.31.{}.{}", host / 256, host % 256)
}
