//! LifecyclePolicies and ChangePlans of the cluster: read for the plan, kept for people, and who is woken when they change.
//!
//! A cluster need not have the kinds. Then there are no policies, and nothing waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, Resource, ResourceExt};
use mainstay_api::lifecycle::{ChangePlan, LifecyclePolicy, ResolveDependencies};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_apply::{Reason, WriteError, Writer};
use mainstay_runtime::{Cache, Key, Optional, Queue};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch as signal;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::approval::{Gate, Mark};
use super::dependencies::joins;
use super::facts::Lifecycle;
use super::policies::{PolicyFact, applies};

/// How long the first plans wait for the policies, which may ask for an approval. Later it is told that they cannot be read.
const FIRST: Duration = Duration::from_secs(10);

/// The copies of both kinds.
#[derive(Clone)]
pub struct LifecycleObjects {
    policies: Optional,
    plans: Optional,
    extensions: Cache,
    known: signal::Sender<()>,
    until: Instant,
}

/// What extensions were woken for last.
#[derive(Default)]
struct Seen {
    policies: Vec<PolicyFact>,
    /// The revision of each plan, and whose it is.
    plans: HashMap<String, (Option<String>, String)>,
}

impl LifecycleObjects {
    /// Starts the copies; the extensions of `extensions` that a change concerns are woken through the queue.
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
        let objects = Self { policies, plans, extensions: extensions.clone(), known, until: Instant::now() + FIRST };
        let (copies, queue, stop) = (objects.clone(), queue.clone(), stop.clone());
        tokio::spawn(async move {
            let mut changes = copies.known.subscribe();
            let mut seen = Seen::default();
            loop {
                wake_for_policies(&copies.policies, &mut seen, &copies.extensions, &queue);
                wake_for_plans(&copies.plans, &mut seen, &copies.extensions, &queue);
                if stop.run_until_cancelled(changes.changed()).await.is_none_or(|changed| changed.is_err()) {
                    return;
                }
            }
        });
        objects
    }

    /// What a plan is to know.
    pub async fn facts(&self) -> Lifecycle {
        let mut known = self.known.subscribe();
        let both = || self.policies.is_known() && self.plans.is_known();
        if !both() {
            tracing::debug!("waiting for lifecyclepolicies and changeplans to be known");
        }
        while !both() && tokio::time::timeout_at(self.until, known.changed()).await.is_ok() {}
        if !both() {
            tracing::debug!("lifecyclepolicies or changeplans are not known");
            return Lifecycle { problem: Some("lifecyclepolicies or changeplans cannot be read".to_owned()), ..Lifecycle::default() };
        }
        let (mut lifecycle, unreadable) = self.read();
        lifecycle.problem = unreadable.into_iter().next();
        if plans_dependencies(&lifecycle) {
            let peers = self.extensions.all();
            lifecycle.peers = peers.iter().filter_map(|object| parse::<ClusterExtension>(object).ok()).map(Arc::new).collect();
        }
        lifecycle
    }

    /// The extensions that resolve together with others, and so may wait for them.
    pub fn joint(&self) -> Vec<Key> {
        let (lifecycle, _) = self.read();
        if !plans_dependencies(&lifecycle) {
            return Vec::new();
        }
        let planned = |object: &Arc<DynamicObject>| parse::<ClusterExtension>(object).is_ok_and(|extension| joins(&extension, &lifecycle));
        self.extensions.all().iter().filter(|object| planned(object)).map(|object| Key::of(object)).collect()
    }

    fn read(&self) -> (Lifecycle, Vec<String>) {
        let (policies, unreadable) = policies(&self.policies);
        let (plans, _) = typed::<ChangePlan>(&self.plans);
        let plans = plans.into_iter().map(Arc::new).collect();
        (Lifecycle { policies, plans, ..Lifecycle::default() }, unreadable)
    }
}

/// Whether anybody may resolve together with others.
fn plans_dependencies(lifecycle: &Lifecycle) -> bool {
    let planned = |policy: &PolicyFact| policy.spec.resolve_dependencies == Some(ResolveDependencies::Plan);
    lifecycle.policies.iter().any(planned) || lifecycle.plans.iter().any(|plan| !plan.spec.summary.dependencies.is_empty())
}

/// What a plan is to know, asked of the cluster once: for whoever shows plans and follows nothing. A cluster without the kinds has none.
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

/// The objects of a kind, and what is wrong with those that cannot be read.
fn typed<T: DeserializeOwned>(kind: &Optional) -> (Vec<T>, Vec<String>) {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for object in kind.objects().iter().flat_map(Cache::all) {
        match parse(&object) {
            Ok(object) => found.push(object),
            Err(error) => {
                let kind = object.types.as_ref().map_or_else(String::new, |types| types.kind.to_lowercase());
                unreadable.push(format!("{kind} {}: {error}", object.name_any()));
            }
        }
    }
    (found, unreadable)
}

fn policies(kind: &Optional) -> (Vec<PolicyFact>, Vec<String>) {
    let (found, unreadable) = typed::<LifecyclePolicy>(kind);
    (found.into_iter().map(|policy| PolicyFact { name: policy.name_any(), spec: policy.spec }).collect(), unreadable)
}

/// Wakes the extensions that a policy concerns which came, changed or went.
fn wake_for_policies(kind: &Optional, seen: &mut Seen, extensions: &Cache, queue: &Queue<Key>) {
    let (now, _) = policies(kind);
    let before = std::mem::replace(&mut seen.policies, now.clone());
    let changed: Vec<&PolicyFact> =
        before.iter().filter(|policy| !now.contains(policy)).chain(now.iter().filter(|policy| !before.contains(policy))).collect();
    // Whoever plans together is concerned by whom the others are.
    let joint = changed.iter().any(|policy| policy.spec.resolve_dependencies.is_some());
    for object in extensions.all() {
        let concerned = |extension: &ClusterExtension| changed.iter().any(|policy| applies(&policy.spec, extension));
        if joint || parse::<ClusterExtension>(&object).is_ok_and(|extension| concerned(&extension)) {
            queue.add(Key::of(&object));
        }
    }
}

/// Wakes the extensions whose plans came, were approved or went, and those that were made along with them.
fn wake_for_plans(kind: &Optional, seen: &mut Seen, extensions: &Cache, queue: &Queue<Key>) {
    let (plans, _) = typed::<ChangePlan>(kind);
    let now: HashMap<String, (Option<String>, String)> = plans
        .into_iter()
        .map(|plan| (plan.name_any(), (plan.metadata.resource_version.clone(), plan.spec.extension.name.clone())))
        .collect();
    let before = std::mem::replace(&mut seen.plans, now.clone());
    let changed = before
        .iter()
        .filter(|(name, plan)| now.get(*name) != Some(plan))
        .chain(now.iter().filter(|(name, plan)| before.get(*name) != Some(plan)));
    let changed: HashMap<&str, &str> = changed.map(|(name, (_, extension))| (name.as_str(), extension.as_str())).collect();
    for extension in changed.values() {
        queue.add(Key::new("", (*extension).to_owned()));
    }
    for object in extensions.all() {
        let along = object.annotations().get(mainstay_api::lifecycle::CHANGE_PLAN);
        if along.is_some_and(|plan| changed.contains_key(plan.as_str())) {
            queue.add(Key::of(&object));
        }
    }
}

/// Keeps a change for people to approve, with the extension as its owner. One that is there already stays as it is.
pub async fn keep(writer: &Writer, extension: &ClusterExtension, gate: &Gate) -> Result<(), WriteError> {
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
        outcome => outcome.map(drop),
    }
}

/// Shows the phase of a kept plan. A plan that is gone by now needs none.
pub async fn mark(writer: &Writer, lifecycle: &Lifecycle, mark: &Mark) -> Result<(), WriteError> {
    let Some(plan) = lifecycle.plans.iter().find(|plan| plan.metadata.name.as_ref() == Some(&mark.name)) else { return Ok(()) };
    let live: Value = json!({
        "apiVersion": ChangePlan::api_version(&()), "kind": ChangePlan::kind(&()),
        "metadata": plan.metadata, "spec": plan.spec, "status": plan.status,
    });
    match writer.update_status(&live, &json!({"phase": mark.phase, "message": mark.message})).await {
        Err(error) if error.is_not_found() => Ok(()),
        // It was changed since, perhaps by the mark before: that change wakes the extension, which marks it then.
        Err(error) if error.reason() == Some(&Reason::Conflict) => Ok(()),
        outcome => outcome.map(drop),
    }
}
