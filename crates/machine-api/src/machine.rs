//! The machine controller: an instance for each machine, and its end (MACH-RUN-01, MACH-RUN-02, MACH-DEL-02, MACH-DEL-06).

use std::sync::Arc;

use mainstay_apply::WriteError;
use mainstay_machine_core::condition::{Condition, Severity};
use mainstay_machine_core::event::EventKind;
use mainstay_machine_core::lifecycle::{
    self, Begin, Deletion, FINALIZER, Failure, INSTANCE_EXISTS, INSTANCE_STATE, INSTANCE_TYPE_LABEL, Instance, LOST, MACHINE_CREATION,
    Next, REGION_LABEL, REQUEUE, StatusChange, UNKNOWN_STATE, ZONE_LABEL,
};
use mainstay_machine_core::machine::{CLUSTER_LABEL, Machine, phase};
use mainstay_objects::{Expect, Patch, Propagation, meta};
use mainstay_runtime::{Key, Outcome, Queue};
use mainstay_schema::field;
use serde_json::{Map, Value, json};

use crate::kinds::{INFRASTRUCTURE, MACHINE, NODE};
use crate::metrics::Measures;
use crate::provider::{MAKER, NotServed, Provider, ProviderError, Providers, maker_of};
use crate::shared::{Shared, Teller, settled};
use crate::{Error, SIMULATED};

/// Machines that are reconciled concurrently.
const WORKERS: usize = 10;
const INVALID: &str = "InvalidConfiguration";
/// The cluster's name where no Infrastructure tells one.
const CLUSTER: &str = "mainstay";

/// Runs the controller. `queue` is also woken by providers.
pub(crate) async fn run(shared: Shared, providers: Providers, queue: Queue<Key>, measures: Arc<Measures>) {
    Shared::wake(&shared.machines, &queue);
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let events = shared.recorder("machine-controller");
    let controller = Arc::new(Controller { shared, providers, events, measures });
    mainstay_runtime::run("machine-controller", queue, WORKERS, env, stop, move |key| {
        let controller = controller.clone();
        async move { settled(controller.reconcile(&key).await) }
    })
    .await;
}

struct Controller {
    shared: Shared,
    providers: Providers,
    events: Teller,
    measures: Arc<Measures>,
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(live) = self.shared.get(MACHINE, key).await? else { return Ok(Outcome::Done) };
        let provider = self.providers.of(&live);
        if let Err(NotServed::Unknown { .. }) = &provider
            && is_anothers(&live)
        {
            return Ok(Outcome::Done);
        }
        let live = self.labelled(live, provider.is_ok()).await?;
        let machine = Machine::of(&live);
        match lifecycle::begin(&machine, &live) {
            Begin::Invalid(errors) => {
                let said = format!("{}: machine validation failed: {}", machine.name, aggregate(&errors));
                self.events.tell(&live, EventKind::Warning, "FailedValidate", "Validate", said);
                Ok(Outcome::Blocked)
            }
            // Nothing will be made, so that nothing is to be removed.
            Begin::AddFinalizer if provider.is_err() => self.advance(live, &machine).await,
            // The change wakes the machine again.
            Begin::AddFinalizer => self.shared.writer.add_finalizer(&live, FINALIZER).await.map(|_| Outcome::Done).map_err(Error::from),
            Begin::Delete(step) => self.delete(live, &machine, step).await,
            Begin::Failed => Ok(Outcome::Done),
            Begin::Ask => self.advance(live, &machine).await,
        }
    }

    /// Gives a machine the name of its cluster, as upstream's webhook does (MACH-API-08), and that of its provider, before anything is made
    /// (MACH-PROV-12).
    async fn labelled(&self, live: Value, is_served: bool) -> Result<Value, Error> {
        let has = |map: &str, key: &str| live.pointer(map).is_some_and(|map| map.get(key).is_some());
        let (mut labels, mut annotations) = (Map::new(), Map::new());
        if !has("/metadata/labels", CLUSTER_LABEL) {
            labels.insert(CLUSTER_LABEL.to_owned(), json!(self.cluster_name().await?));
        }
        if is_served && !has("/metadata/annotations", MAKER) && live["metadata"].get("deletionTimestamp").is_none() {
            annotations.insert(MAKER.to_owned(), json!(maker_of(&live)));
        }
        if labels.is_empty() && annotations.is_empty() {
            return Ok(live);
        }
        self.patch(&live, json!({"metadata": {"labels": labels, "annotations": annotations}})).await
    }

    async fn cluster_name(&self) -> Result<String, Error> {
        let cluster = match self.shared.get(INFRASTRUCTURE, &Key::new("", "cluster")).await {
            Ok(found) => found,
            Err(WriteError::Kind { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let name = cluster.as_ref().and_then(|cluster| cluster.pointer("/status/infrastructureName")).and_then(Value::as_str);
        Ok(name.filter(|name| !name.is_empty()).unwrap_or(CLUSTER).to_owned())
    }

    async fn advance(&self, live: Value, machine: &Machine) -> Result<Outcome, Error> {
        let provider = match self.providers.of(&live) {
            Ok(provider) => provider,
            Err(error @ NotServed::MadeByAnother { .. }) => {
                self.events.tell(&live, EventKind::Warning, "FailedUpdate", "Update", &error);
                let condition = Condition::unknown(INSTANCE_EXISTS, "ErrorCheckingProvider", error.to_string());
                self.write(&live, &StatusChange { conditions: vec![condition], ..StatusChange::default() }).await?;
                return Ok(Outcome::Blocked);
            }
            Err(error) => return self.fail(live, Vec::new(), Some(INVALID), &error.to_string()).await,
        };
        let exists = match provider.exists(&live).await {
            Ok(exists) => exists,
            Err(error) => {
                let unknown = format!("Failed to check if machine exists: {error}");
                let condition = Condition::unknown(INSTANCE_EXISTS, "ErrorCheckingProvider", unknown);
                self.write(&live, &StatusChange { conditions: vec![condition], ..StatusChange::default() }).await?;
                return again(machine, error);
            }
        };
        match lifecycle::next(machine, exists) {
            Next::Update => self.update(live, machine, &*provider).await,
            Next::Lost => {
                let message = "Instance not found on provider";
                let condition = Condition::is_false(INSTANCE_EXISTS, "InstanceMissing", Severity::Warning, message);
                self.fail(live, vec![condition], None, LOST).await
            }
            Next::Announce => {
                let change = StatusChange { phase: Some(phase::PROVISIONING), conditions: vec![not_created()], ..StatusChange::default() };
                self.write(&live, &change).await?;
                Ok(Outcome::Done)
            }
            Next::Create => self.create(live, machine, &*provider).await,
        }
    }

    async fn create(&self, live: Value, machine: &Machine, provider: &dyn Provider) -> Result<Outcome, Error> {
        match provider.create(&live).await {
            Ok(instance) => {
                let live = self.show(live, &instance).await?;
                let made = Condition { reason: "MachineCreationSucceeded".to_owned(), ..Condition::is_true(MACHINE_CREATION, "") };
                let change = StatusChange { conditions: vec![made, not_created()], instance: Some(&instance), ..StatusChange::default() };
                self.write(&live, &change).await?;
                Ok(Outcome::After(REQUEUE))
            }
            Err(error) => {
                self.measures.failed("create", machine, &error);
                let condition = Condition::is_false(MACHINE_CREATION, "MachineCreationFailed", Severity::Error, error.to_string());
                if let ProviderError::InvalidConfiguration(message) = &error {
                    return self.fail(live, vec![condition, not_created()], Some(INVALID), message).await;
                }
                self.write(&live, &StatusChange { conditions: vec![condition, not_created()], ..StatusChange::default() }).await?;
                again(machine, error)
            }
        }
    }

    async fn update(&self, live: Value, machine: &Machine, provider: &dyn Provider) -> Result<Outcome, Error> {
        let instance = match provider.update(&live).await {
            Ok(instance) => instance,
            Err(error) => {
                self.measures.failed("update", machine, &error);
                tracing::warn!(machine = machine.name, %error, "the instance could not be brought up to date");
                self.write(&live, &StatusChange::default()).await?;
                return Ok(Outcome::After(REQUEUE));
            }
        };
        let live = self.show(live, &instance).await?;
        let mut known = Machine::of(&live);
        if !instance.addresses.is_empty() {
            known.addresses.clone_from(&instance.addresses);
        }
        let (phase, wait) = lifecycle::after(&known);
        let exists = Condition::is_true(INSTANCE_EXISTS, "");
        self.write(&live, &StatusChange { phase, conditions: vec![exists], failure: None, instance: Some(&instance) }).await?;
        Ok(wait.map_or(Outcome::Done, Outcome::After))
    }

    async fn delete(&self, live: Value, machine: &Machine, step: Deletion) -> Result<Outcome, Error> {
        let live = self.write(&live, &StatusChange { phase: Some(phase::DELETING), ..StatusChange::default() }).await?;
        match step {
            // The drain controller, or the owner of a hook, changes the machine and so wakes it.
            Deletion::Released | Deletion::WaitForDrain | Deletion::WaitForHooks => return Ok(Outcome::Done),
            Deletion::Remove => {}
        }
        let provider = self.providers.of(&live);
        let removed = match &provider {
            Ok(provider) => provider.delete(&live).await,
            Err(error @ NotServed::MadeByAnother { .. }) => Err(ProviderError::Retryable(error.to_string())),
            Err(error) => Err(ProviderError::InvalidConfiguration(error.to_string())),
        };
        if let Err(error) = removed {
            self.measures.failed("delete", machine, &error);
            // What never had an address was never made, if it never could be.
            if !machine.addresses.is_empty() || !matches!(error, ProviderError::InvalidConfiguration(_)) {
                return again(machine, error);
            }
        }
        if let Ok(provider) = &provider {
            match provider.exists(&live).await {
                Ok(false) => {}
                Ok(true) => return Ok(Outcome::After(REQUEUE)),
                Err(error) => return again(machine, error),
            }
        }
        if let Some(node) = &machine.node {
            let place = NODE.at(&Key::new("", node));
            let uid = live.pointer("/status/nodeRef/uid").and_then(Value::as_str).map(str::to_owned);
            match self.shared.writer.delete(&place, &Expect { uid, ..Expect::default() }, Propagation::Background).await {
                // A node of this name that came later is not this machine's.
                Ok(_) => {}
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.shared.writer.remove_finalizer(&live, FINALIZER).await?;
        tracing::info!(machine = machine.name, "the machine is gone");
        Ok(Outcome::Done)
    }

    /// Lets a machine fail for good.
    async fn fail(&self, live: Value, conditions: Vec<Condition>, reason: Option<&'static str>, message: &str) -> Result<Outcome, Error> {
        let live = self.patch_if_new(live, json!({"metadata": {"annotations": {INSTANCE_STATE: UNKNOWN_STATE}}})).await?;
        let failure = Failure { reason, message: message.to_owned() };
        let change = StatusChange { phase: Some(phase::FAILED), conditions, failure: Some(&failure), instance: None };
        self.write(&live, &change).await?;
        Ok(Outcome::Done)
    }

    /// Shows in metadata and spec what the provider told.
    async fn show(&self, live: Value, instance: &Instance) -> Result<Value, Error> {
        let (mut labels, mut annotations, mut spec) = (Map::new(), Map::new(), Map::new());
        for (label, value) in
            [(INSTANCE_TYPE_LABEL, &instance.instance_type), (REGION_LABEL, &instance.region), (ZONE_LABEL, &instance.zone)]
        {
            if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
                labels.insert(label.to_owned(), json!(value));
            }
        }
        if let Some(state) = &instance.state {
            annotations.insert(INSTANCE_STATE.to_owned(), json!(state));
        }
        if instance.simulated {
            labels.insert(SIMULATED.to_owned(), json!("true"));
            annotations.insert(SIMULATED.to_owned(), json!("true"));
        }
        if let Some(id) = &instance.provider_id {
            spec.insert("providerID".to_owned(), json!(id));
        }
        self.patch_if_new(live, json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec})).await
    }

    async fn patch_if_new(&self, live: Value, patch: Value) -> Result<Value, Error> {
        if covers(&live, &patch) { Ok(live) } else { self.patch(&live, patch).await }
    }

    async fn patch(&self, live: &Value, mut patch: Value) -> Result<Value, Error> {
        patch["metadata"]["uid"] = live["metadata"]["uid"].clone();
        let key = Key::new(meta(live, "namespace").unwrap_or_default(), meta(live, "name").unwrap_or_default());
        Ok(self.shared.writer.patch(&MACHINE.at(&key), "", &Patch::Merge(patch)).await?)
    }

    /// Writes the status if it changes; returns the machine as it is then.
    async fn write(&self, live: &Value, change: &StatusChange<'_>) -> Result<Value, Error> {
        let now = self.shared.env.now_seconds();
        let status = lifecycle::status(live, change, now);
        let written = self.shared.writer.update_status(live, &status).await?;
        let before = live.pointer("/status/phase").and_then(Value::as_str);
        if let (Some(_), Some(phase)) = (&written, change.phase.filter(|phase| Some(*phase) != before)) {
            self.measures.entered(phase, &Machine::of(live), now);
        }
        Ok(written.unwrap_or_else(|| live.clone()))
    }
}

fn not_created() -> Condition {
    Condition::is_false(INSTANCE_EXISTS, "InstanceNotCreated", Severity::Warning, "Instance has not been created")
}

/// Returns whether another controller looks after a machine whose provider is not known here: it has a finalizer, and nothing was made here
/// (MACH-PROV-10). The two finalizers of the garbage collector say nothing.
fn is_anothers(live: &Value) -> bool {
    let is_made_here = live.pointer("/metadata/annotations").is_some_and(|annotations| annotations.get(MAKER).is_some());
    let finalizers = live.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    !is_made_here && finalizers.filter_map(Value::as_str).any(|finalizer| !["foregroundDeletion", "orphan"].contains(&finalizer))
}

/// When a machine is tried again after its provider failed.
fn again(machine: &Machine, error: ProviderError) -> Result<Outcome, Error> {
    match error {
        ProviderError::RequeueAfter { wait, .. } => Ok(Outcome::After(wait)),
        source => Err(Error::Provider { machine: machine.name.clone(), source }),
    }
}

/// Returns whether an object has everything of a patch already.
fn covers(object: &Value, patch: &Value) -> bool {
    match patch {
        Value::Object(fields) => fields.iter().all(|(key, wanted)| match object.get(key) {
            Some(present) => covers(present, wanted),
            None => wanted.as_object().is_some_and(Map::is_empty),
        }),
        other => object == other,
    }
}

/// Several errors as Go's aggregate prints them.
fn aggregate(errors: &[field::Error]) -> String {
    let texts: Vec<String> = errors.iter().map(field::Error::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MACH-PROV-10: a finalizer of another controller says whose a machine is.
    #[test]
    fn machines_of_other_controllers() {
        let is_anothers = |finalizers: &[&str], annotations: Value| {
            super::is_anothers(&json!({"metadata": {"finalizers": finalizers, "annotations": annotations}}))
        };
        assert!(is_anothers(&[FINALIZER], json!({})) && is_anothers(&["orphan", "other.example/machine"], Value::Null));
        assert!(!is_anothers(&[], json!({})) && !is_anothers(&["foregroundDeletion"], json!({})));
        assert!(!is_anothers(&[FINALIZER], json!({MAKER: "SimProviderConfig.sim.mainstay.dev"})));
    }

    #[test]
    fn an_object_covers_a_patch() {
        let object = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"providerID": "x"}});
        assert!(covers(&object, &json!({"metadata": {"labels": {"a": "1"}, "annotations": {}}, "spec": {}})));
        assert!(!covers(&object, &json!({"metadata": {"annotations": {"b": "1"}}})));
        assert!(!covers(&object, &json!({"spec": {"providerID": "y"}})));
    }
}
