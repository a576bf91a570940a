//! The LifecyclePolicies and ChangePlans of the cluster: read for plans, kept for approval, and watched to wake extensions.
//!
//! A cluster may lack these kinds. Then there are no policies, and nothing waits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, Resource, ResourceExt};
use mainstay_api::lifecycle::{ChangePlan, LifecyclePolicy, ResolveDependencies};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_apply::{Reason, WriteError, Writer};
use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::approval::{Gate, Mark};
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_olm_v1_core::extension::KIND;
use mainstay_olm_v1_core::extension::applies;
use mainstay_olm_v1_core::extension::dependencies::joins;
use mainstay_olm_v1_core::extension::facts::Lifecycle;
use mainstay_runtime::metrics::Metrics;
use mainstay_runtime::parsed::{Parsed, Unreadable, View};
use mainstay_runtime::{Cache, Key, Optional, Queue};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch as signal;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::events::Events;

/// The time that the first plans wait for the policies, which may ask for an approval. After it the policies are reported as unreadable.
const FIRST: Duration = Duration::from_secs(10);

/// The caches of both kinds.
#[derive(Clone)]
pub struct LifecycleObjects {
    policies: Optional,
    plans: Optional,
    extensions: Cache,
    parsed: Arc<AllParsed>,
    known: signal::Sender<()>,
    until: Instant,
}

/// The objects of all three kinds, parsed.
struct AllParsed {
    policies: Parsed<PolicyFact>,
    plans: Parsed<ChangePlan>,
    extensions: Parsed<ClusterExtension>,
}

/// The objects for which extensions were woken last.
#[derive(Default)]
struct Seen {
    policies: Arc<View<PolicyFact>>,
    plans: Arc<View<ChangePlan>>,
}

impl LifecycleObjects {
    /// Starts the caches. The extensions in `extensions` that a change concerns are woken through the queue.
    pub fn start(client: &Client, extensions: &Cache, queue: &Queue<Key>, stop: &CancellationToken) -> Self {
        let known = signal::channel(()).0;
        let told = || {
            let known = known.clone();
            move || {
                known.send_replace(());
            }
        };
        let policies = Optional::start(client, ApiResource::erase::<LifecyclePolicy>(&()), stop, told());
        let plans = Optional::start(client, ApiResource::erase::<ChangePlan>(&()), stop, told());
        let parsed = AllParsed { policies: Parsed::new(policy), plans: Parsed::new(parse), extensions: Parsed::new(parse) };
        let parsed = Arc::new(parsed);
        let objects = Self { policies, plans, extensions: extensions.clone(), parsed, known, until: Instant::now() + FIRST };
        let (copies, queue, stop) = (objects.clone(), queue.clone(), stop.clone());
        tokio::spawn(async move {
            let mut changes = copies.known.subscribe();
            let mut seen = Seen::default();
            loop {
                wake_for_policies(&copies, &mut seen, &queue);
                wake_for_plans(&copies, &mut seen, &queue);
                if stop.run_until_cancelled(changes.changed()).await.is_none_or(|changed| changed.is_err()) {
                    return;
                }
            }
        });
        objects
    }

    /// Adds the number of objects to the page of metrics (MS-OPS-01).
    #[must_use]
    pub fn shown(self, metrics: &Arc<Metrics>) -> Self {
        Self { policies: self.policies.shown(metrics), plans: self.plans.shown(metrics), ..self }
    }

    /// Returns the facts for a plan.
    pub async fn facts(&self) -> Lifecycle {
        let mut known = self.known.subscribe();
        let both = || self.policies.is_known() && self.plans.is_known();
        if !both() {
            tracing::debug!("waiting for lifecyclepolicies and changeplans to be known");
        }
        while !both() && tokio::time::timeout_at(self.until, known.changed()).await.is_ok() {}
        if !both() {
            tracing::debug!("lifecyclepolicies or changeplans are not known");
            return Lifecycle { problem: Some("lifecyclepolicies or changeplans cannot be read".into()), ..Lifecycle::default() };
        }
        let (mut lifecycle, unreadable) = self.read();
        lifecycle.problem = unreadable.map(SharedError::new);
        if plans_dependencies(&lifecycle) {
            lifecycle.peers.clone_from(&self.extensions().found);
        }
        lifecycle
    }

    /// Returns the extensions that resolve together with others, and so may wait for them.
    pub fn joint(&self) -> Vec<Key> {
        let (lifecycle, _) = self.read();
        if !plans_dependencies(&lifecycle) {
            return Vec::new();
        }
        self.extensions().found.iter().filter(|extension| joins(extension, &lifecycle)).map(|extension| key(extension)).collect()
    }

    fn read(&self) -> (Lifecycle, Option<Arc<Unreadable>>) {
        let (policies, plans) = (self.policies(), self.plans());
        let lifecycle = Lifecycle {
            policies: policies.found.iter().map(|policy| PolicyFact::clone(policy)).collect(),
            plans: plans.found.clone(),
            ..Lifecycle::default()
        };
        (lifecycle, policies.unreadable.first().cloned())
    }

    fn policies(&self) -> Arc<View<PolicyFact>> {
        self.parsed.policies.read(of_kind(&self.policies))
    }

    fn plans(&self) -> Arc<View<ChangePlan>> {
        self.parsed.plans.read(of_kind(&self.plans))
    }

    fn extensions(&self) -> Arc<View<ClusterExtension>> {
        self.parsed.extensions.read(self.extensions.all())
    }
}

/// Returns the objects of a kind; none if it is not served.
fn of_kind(kind: &Optional) -> Vec<Arc<DynamicObject>> {
    kind.objects().map(|objects| objects.all()).unwrap_or_default()
}

fn key(extension: &ClusterExtension) -> Key {
    Key::new("", extension.name_any())
}

/// Returns true if any extension may resolve together with others.
fn plans_dependencies(lifecycle: &Lifecycle) -> bool {
    let planned = |policy: &PolicyFact| policy.spec.resolve_dependencies == Some(ResolveDependencies::Plan);
    lifecycle.policies.iter().any(planned) || lifecycle.plans.iter().any(|plan| !plan.spec.summary.dependencies.is_empty())
}

/// Reads the facts for a plan from the cluster once, for callers that show plans and watch nothing. A cluster without the kinds has none.
pub async fn read(client: &Client) -> Result<Lifecycle, kube::Error> {
    let (policies, plans) = tokio::try_join!(all::<LifecyclePolicy>(client), all::<ChangePlan>(client))?;
    let policies = policies.into_iter().map(|policy| PolicyFact { name: policy.name_any(), spec: policy.spec }).collect();
    let mut lifecycle = Lifecycle { policies, plans: plans.into_iter().map(Arc::new).collect(), ..Lifecycle::default() };
    if plans_dependencies(&lifecycle) {
        lifecycle.peers = all::<ClusterExtension>(client).await?.into_iter().map(Arc::new).collect();
    }
    Ok(lifecycle)
}

async fn all<K>(client: &Client) -> Result<Vec<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    match Api::<K>::all(client.clone()).list(&ListParams::default()).await {
        Ok(found) => Ok(found.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn parse<T: DeserializeOwned>(object: &DynamicObject) -> Result<T, serde_json::Error> {
    serde_json::to_value(object).and_then(serde_json::from_value)
}

fn policy(object: &DynamicObject) -> Result<PolicyFact, serde_json::Error> {
    let policy: LifecyclePolicy = parse(object)?;
    Ok(PolicyFact { name: policy.name_any(), spec: policy.spec })
}

/// Returns the versions of objects that are in only one of two views.
fn differences<'a, T>(before: &'a View<T>, now: &'a View<T>) -> impl Iterator<Item = &'a Arc<T>> {
    let alone = |of: &'a View<T>, other: &View<T>| {
        let others: HashSet<*const T> = other.found.iter().map(Arc::as_ptr).collect();
        of.found.iter().filter(move |object| !others.contains(&Arc::as_ptr(object)))
    };
    alone(before, now).chain(alone(now, before))
}

/// Wakes the extensions that an added, changed or removed policy concerns.
fn wake_for_policies(copies: &LifecycleObjects, seen: &mut Seen, queue: &Queue<Key>) {
    let now = copies.policies();
    let before = std::mem::replace(&mut seen.policies, now.clone());
    // A new version with the same content concerns no extension.
    let says = |view: &View<PolicyFact>, policy: &PolicyFact| view.found.iter().any(|other| **other == *policy);
    let changed: Vec<&PolicyFact> =
        differences(&before, &now).map(|policy| &**policy).filter(|policy| !says(&before, policy) || !says(&now, policy)).collect();
    if changed.is_empty() {
        return;
    }
    // An extension that is planned together with others depends on which those are.
    let joint = changed.iter().any(|policy| policy.spec.resolve_dependencies.is_some());
    for extension in &copies.extensions().found {
        if joint || changed.iter().any(|policy| applies(&policy.spec, extension)) {
            queue.add(key(extension));
        }
    }
}

/// Wakes the extensions whose plans were added, approved or removed, and those that were planned along with them.
fn wake_for_plans(copies: &LifecycleObjects, seen: &mut Seen, queue: &Queue<Key>) {
    let now = copies.plans();
    let before = std::mem::replace(&mut seen.plans, now.clone());
    let changed: HashMap<&str, &str> = differences(&before, &now)
        .filter(|plan| plan.spec.subject.kind == KIND)
        .map(|plan| (plan.metadata.name.as_deref().unwrap_or_default(), plan.spec.subject.name.as_str()))
        .collect();
    if changed.is_empty() {
        return;
    }
    for extension in changed.values() {
        queue.add(Key::new("", (*extension).to_owned()));
    }
    for object in copies.extensions.all() {
        let along = object.annotations().get(mainstay_api::lifecycle::CHANGE_PLAN);
        if along.is_some_and(|plan| changed.contains_key(plan.as_str())) {
            queue.add(Key::of(&object));
        }
    }
}

/// Stores a change for approval, with the extension as its owner. An existing plan stays unchanged.
pub async fn keep(writer: &Writer, events: &Events, extension: &ClusterExtension, gate: &Gate) -> Result<(), WriteError> {
    let object = json!({
        "apiVersion": ChangePlan::api_version(&()), "kind": ChangePlan::kind(&()),
        "metadata": {
            "name": gate.name,
            "ownerReferences": [{"apiVersion": ClusterExtension::api_version(&()), "kind": ClusterExtension::kind(&()),
                "name": extension.name_any(), "uid": extension.metadata.uid, "controller": true}],
        },
        "spec": gate.spec,
    });
    match writer.create(&object).await {
        Err(error) if error.reason() == Some(&Reason::AlreadyExists) => Ok(()),
        Err(error) => Err(error),
        Ok(kept) => {
            events.normal(&kept, "Kept", "the change waits for an approval");
            Ok(())
        }
    }
}

/// Updates the phase of a kept plan. A deleted plan is ignored.
pub async fn mark(writer: &Writer, events: &Events, lifecycle: &Lifecycle, mark: &Mark) -> Result<(), WriteError> {
    let Some(plan) = lifecycle.plans.iter().find(|plan| plan.metadata.name.as_ref() == Some(&mark.name)) else { return Ok(()) };
    let live: Value = json!({
        "apiVersion": ChangePlan::api_version(&()), "kind": ChangePlan::kind(&()),
        "metadata": plan.metadata, "spec": plan.spec, "status": plan.status,
    });
    match writer.update_status(&live, &json!({"phase": mark.phase, "message": mark.message})).await {
        Err(error) if error.is_not_found() => Ok(()),
        // The plan has changed since, perhaps by the preceding mark. That change wakes the extension, which marks the plan then.
        Err(error) if error.reason() == Some(&Reason::Conflict) => Ok(()),
        Err(error) => Err(error),
        Ok(None) => Ok(()),
        Ok(Some(_)) => {
            events.normal(&live, &format!("{:?}", mark.phase), &mark.message);
            Ok(())
        }
    }
}
