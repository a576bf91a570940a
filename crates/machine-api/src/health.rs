//! The MachineHealthCheck controller (MACH-MHC-01 to MACH-MHC-05).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_apply::WriteError;
use mainstay_machine_core::condition::{self, Condition};
use mainstay_machine_core::health_check::check::HealthCheck;
use mainstay_machine_core::health_check::external;
use mainstay_machine_core::health_check::plan::{self, HealthEvent, Plan};
use mainstay_machine_core::health_check::remediate::Remediation;
use mainstay_machine_core::health_check::target::{EXTERNAL_ANNOTATION, Target, TargetNode};
use mainstay_machine_core::machine::Machine;
use mainstay_machine_core::node::Node;
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation, Requirements};
use mainstay_runtime::{Cache, Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::Error;
use crate::kinds::{HEALTH_CHECK, MACHINE, NODE};
use crate::metrics::Measures;
use crate::shared::{Shared, Teller, settled};

const WORKERS: usize = 2;
/// The shortest wait until the next look. Upstream looks again a millisecond after a short circuit; changes of machines and nodes wake the
/// check in any case.
const PAUSE: Duration = Duration::from_secs(10);

/// Runs the controller.
pub(crate) async fn run(shared: Shared, measures: Arc<Measures>) {
    let queue: Queue<Key> = Queue::default();
    Shared::wake(&shared.checks, &queue);
    let (woken, checks) = (queue.clone(), shared.checks.clone());
    shared.machines.on_change(move |change| {
        change.before.iter().chain(&change.now).for_each(|machine| wake_checks(machine, &checks, &woken));
    });
    let (woken, checks, machines) = (queue.clone(), shared.checks.clone(), shared.machines.clone());
    shared.nodes.on_change(move |change| {
        let Some(node) = change.object().and_then(|node| node.metadata.name.clone()) else { return };
        let is_its = |machine: &&Arc<DynamicObject>| machine.data.pointer("/status/nodeRef/name").is_some_and(|name| *name == *node);
        machines.all().iter().filter(is_its).for_each(|machine| wake_checks(machine, &checks, &woken));
    });
    let (env, stop) = (shared.env.clone(), shared.stop.clone());
    let events = shared.recorder("machinehealthcheck-controller");
    let controller = Arc::new(Controller { shared, events, measures });
    mainstay_runtime::run("machinehealthcheck-controller", queue, WORKERS, env, stop, move |key| {
        let controller = controller.clone();
        async move { settled(controller.reconcile(&key).await) }
    })
    .await;
}

/// Wakes the checks that look at a machine.
fn wake_checks(machine: &DynamicObject, checks: &Cache, queue: &Queue<Key>) {
    let labels = machine.metadata.labels.clone().unwrap_or_default();
    let selects =
        |check: &DynamicObject| check.data.pointer("/spec/selector").map(Requirements::of_selector).is_none_or(|one| one.matches(&labels));
    for check in checks.matching(machine.metadata.namespace.as_deref().unwrap_or_default(), selects) {
        queue.add(Key::of(&check));
    }
}

struct Controller {
    shared: Shared,
    events: Teller,
    measures: Arc<Measures>,
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(live) = self.shared.get(HEALTH_CHECK, key).await? else {
            self.measures.forget_check(key);
            return Ok(Outcome::Done);
        };
        let check = match HealthCheck::of(&live) {
            Ok(check) => check,
            Err(error) => {
                tracing::warn!(%error, check = %key, "the check cannot be read");
                return Ok(Outcome::Blocked);
            }
        };
        if check.is_paused() {
            return Ok(Outcome::Done);
        }
        let objects = self.shared.machines_now(&key.namespace).await?;
        let machines: Vec<Machine> = objects.iter().map(Machine::of).collect();
        let nodes: HashMap<String, Node> = self.shared.known_nodes().into_iter().map(|node| (node.name.clone(), node)).collect();
        let targets = machines.iter().map(|machine| Target::of(machine, |name| nodes.get(name))).collect();
        let targets = plan::select(&check, targets)?;
        self.measures.covered(key, targets.len());
        let (events, planned) = plan::plan(&check, targets, self.shared.env.now());
        // What is told of a remediation is told when it is done.
        let is_of_remediation =
            |event: &&HealthEvent| matches!(event, HealthEvent::MachineDeleted(_) | HealthEvent::ExternalAnnotationAdded(_));
        events.iter().filter(|event| !is_of_remediation(event)).for_each(|event| self.tell(&live, event));
        let planned = planned?;
        self.measures.short_circuit(key, !planned.allowed);
        let live = self.write(&live, &planned, planned.conditions.clone()).await?;
        let outcome = self.remediate(&check, &live, &planned).await;
        self.recovered(&check, &planned).await?;
        outcome?;
        Ok(planned.requeue.map_or(Outcome::Done, |wait| Outcome::After(if planned.allowed { wait } else { wait.max(PAUSE) })))
    }

    /// Carries out every remediation; the first error is returned when all were tried.
    async fn remediate(&self, check: &HealthCheck, live: &Value, plan: &Plan<'_>) -> Result<(), Error> {
        let mut first = Ok(());
        for (target, remediation) in &plan.remediations {
            let outcome = self.remediate_one(check, live, plan, target, *remediation).await;
            if let Err(error) = outcome
                && first.is_ok()
            {
                first = Err(error);
            }
        }
        first
    }

    async fn remediate_one(
        &self,
        check: &HealthCheck,
        live: &Value,
        plan: &Plan<'_>,
        target: &Target<'_>,
        remediation: Remediation,
    ) -> Result<(), Error> {
        let machine = target.machine;
        let place = MACHINE.at(&Key::new(&machine.namespace, &machine.name));
        match remediation {
            Remediation::AnnotatedBefore | Remediation::NoController | Remediation::DeletedBefore => Ok(()),
            Remediation::Request => self.request(check, live, plan, machine).await,
            Remediation::Annotate => {
                let patch = json!({"metadata": {"uid": machine.uid, "annotations": {EXTERNAL_ANNOTATION: ""}}});
                let done = self.shared.writer.patch(&place, "", &Patch::Merge(patch)).await.map(drop);
                let named = target.named(check);
                self.told(live, done, &HealthEvent::ExternalAnnotationAdded(named.clone()), |cause| {
                    HealthEvent::ExternalAnnotationFailed(named, cause)
                })
            }
            Remediation::Delete => {
                if let TargetNode::Gone(name) = target.node
                    && self.shared.get(NODE, &Key::new("", name)).await?.is_some()
                {
                    // The copy of the nodes lags; its change wakes the check.
                    return Ok(());
                }
                let expect = Expect { uid: Some(machine.uid.clone()), ..Expect::default() };
                let done = self.shared.writer.delete(&place, &expect, Propagation::Background).await.map(drop);
                if done.is_ok() {
                    self.measures.remediated(&Key::new(&check.namespace, &check.name));
                }
                let named = target.named(check);
                self.told(live, done, &HealthEvent::MachineDeleted(named.clone()), |cause| HealthEvent::MachineDeletionFailed(named, cause))
            }
        }
    }

    /// Tells of a remediation as it ended.
    fn told(
        &self,
        live: &Value,
        done: Result<(), WriteError>,
        succeeded: &HealthEvent,
        failed: impl FnOnce(String) -> HealthEvent,
    ) -> Result<(), Error> {
        match done {
            Ok(()) => {
                self.tell(live, succeeded);
                Ok(())
            }
            Err(error) => {
                self.tell(live, &failed(error.to_string()));
                Err(error.into())
            }
        }
    }

    /// Asks another controller, by an object made from the check's template.
    async fn request(&self, check: &HealthCheck, live: &Value, plan: &Plan<'_>, machine: &Machine) -> Result<(), Error> {
        let Some(template) = &check.template else { return Ok(()) };
        let place = |kind: &str, name: &str| ObjectRef {
            api_version: template.api_version.clone(),
            kind: kind.to_owned(),
            namespace: machine.namespace.clone(),
            name: name.to_owned(),
        };
        if self.shared.writer.get(&place(template.request_kind(), &machine.name)).await?.is_some() {
            return Ok(());
        }
        let refuse = async |condition: Condition| {
            let mut conditions = plan.conditions.clone();
            condition::set(&mut conditions, condition, self.shared.env.now_seconds());
            self.write(live, plan, conditions).await.map(drop)
        };
        let source = match self.shared.writer.get(&place(&template.kind, &template.name)).await {
            Ok(Some(source)) => source,
            Ok(None) => {
                let error = Error::NoTemplate(template.name.clone());
                refuse(external::template_missing(&error.to_string())).await?;
                return Err(error);
            }
            Err(error) => {
                refuse(external::template_missing(&error.to_string())).await?;
                return Err(error.into());
            }
        };
        let request = external::request(&source, template, machine)?;
        if let Err(error) = self.shared.writer.create(&request).await {
            refuse(external::request_failed(&error.to_string())).await?;
            return Err(error.into());
        }
        self.measures.remediated(&Key::new(&check.namespace, &check.name));
        Ok(())
    }

    /// Deletes the requests about machines that are healthy again.
    async fn recovered(&self, check: &HealthCheck, plan: &Plan<'_>) -> Result<(), Error> {
        let Some(template) = &check.template else { return Ok(()) };
        for target in &plan.recovered {
            let place = ObjectRef {
                api_version: template.api_version.clone(),
                kind: template.request_kind().to_owned(),
                namespace: check.namespace.clone(),
                name: target.machine.name.clone(),
            };
            let request = self.shared.writer.get(&place).await?;
            if let Some(request) = request.filter(|request| request["metadata"].get("deletionTimestamp").is_none()) {
                self.shared.writer.delete(&place, &Expect::uid_of(&request), Propagation::Background).await?;
            }
        }
        Ok(())
    }

    async fn write(&self, live: &Value, plan: &Plan<'_>, conditions: Vec<Condition>) -> Result<Value, Error> {
        let mut status = live.get("status").cloned().unwrap_or_else(|| json!({}));
        status["expectedMachines"] = json!(plan.expected);
        status["currentHealthy"] = json!(plan.healthy);
        status["remediationsAllowed"] = json!(plan.remediations_allowed);
        status["conditions"] = conditions.iter().map(Condition::to_value).collect();
        Ok(self.shared.writer.update_status(live, &status).await?.unwrap_or_else(|| live.clone()))
    }

    fn tell(&self, live: &Value, event: &HealthEvent) {
        self.events.tell(live, event.kind(), event.reason(), "Remediate", event);
    }
}
