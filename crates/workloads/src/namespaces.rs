//! The deletion of namespaces: their content is deleted first, and conditions show what remains (KAPI-WL-01).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::Result;
use crate::api::Api;
use crate::discovery::{Discovery, Kind};
use crate::live::Live;
use crate::object::{Read as _, condition, time};
use crate::replicaset::settle;
use crate::world::{World, wake_self};

/// The finalizer of this controller, in `spec.finalizers`.
const FINALIZER: &str = "kubernetes";

#[derive(Clone)]
struct Controller {
    world: World,
    namespaces: Live,
    discovery: Discovery,
}

/// Runs the controller.
pub async fn run(world: World, namespaces: Live, discovery: Discovery) {
    let queue = Queue::default();
    namespaces.ready().await;
    wake_self(&namespaces, &queue);
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let controller = Controller { world, namespaces, discovery };
    mainstay_runtime::run("namespace", queue, 4, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

/// The findings of one pass through a namespace.
#[derive(Debug, Default)]
pub struct Found {
    /// The reason why the server's kinds are unknown.
    pub undiscovered: Option<String>,
    /// The failed deletions, with their reasons.
    pub failed: Vec<String>,
    /// The number of remaining objects, by `RESOURCE.GROUP`.
    pub remaining: BTreeMap<String, usize>,
    /// The number of objects by finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

impl Found {
    /// Returns true if the namespace can be removed.
    pub fn is_empty(&self) -> bool {
        self.undiscovered.is_none() && self.failed.is_empty() && self.remaining.is_empty()
    }

    /// Returns the conditions, in upstream's order; unchanged ones keep their time.
    pub fn conditions(&self, before: &Value, now: Timestamp) -> Vec<Value> {
        let list = |counts: &BTreeMap<String, usize>, word: &str| {
            counts.iter().map(|(name, count)| format!("{name}{word} {count} resource instances")).collect::<Vec<_>>().join(", ")
        };
        let failed = format!("Failed to delete all resource types, {} remaining: {}", self.failed.len(), self.failed.join(", "));
        let remain = format!("Some resources are remaining: {}", list(&self.remaining, " has"));
        let finalizers = format!("Some content in the namespace has finalizers remaining: {}", list(&self.finalizers, " in"));
        let undiscovered = format!("Discovery failed for some groups: {}", self.undiscovered.as_deref().unwrap_or_default());
        let all = [
            (
                "NamespaceDeletionDiscoveryFailure",
                self.undiscovered.is_some().then_some(("DiscoveryFailed", undiscovered)),
                ("ResourcesDiscovered", "All resources successfully discovered"),
            ),
            ("NamespaceDeletionGroupVersionParsingFailure", None, ("ParsedGroupVersions", "All legacy kube types successfully parsed")),
            (
                "NamespaceDeletionContentFailure",
                (!self.failed.is_empty()).then_some(("ContentDeletionFailed", failed)),
                ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            ),
            (
                "NamespaceContentRemaining",
                (!self.remaining.is_empty()).then_some(("SomeResourcesRemain", remain)),
                ("ContentRemoved", "All content successfully removed"),
            ),
            (
                "NamespaceFinalizersRemaining",
                (!self.finalizers.is_empty()).then_some(("SomeFinalizersRemain", finalizers)),
                ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            ),
        ];
        let mut conditions: Vec<Value> = before.as_array().cloned().unwrap_or_default();
        for (kind, problem, (fine, all_well)) in all {
            let (state, reason, message) = match problem {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", fine, all_well.to_owned()),
            };
            let mut next = json!({"type": kind, "status": state, "lastTransitionTime": time(now), "reason": reason, "message": message});
            if let Some(present) = condition(before, kind).filter(|present| present["status"] == state) {
                next["lastTransitionTime"] = present["lastTransitionTime"].clone();
            }
            match conditions.iter_mut().find(|condition| condition["type"] == kind) {
                Some(present) => *present = next,
                None => conditions.push(next),
            }
        }
        conditions
    }
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(namespace) = self.namespaces.get(key).filter(|namespace| namespace.deleting()) else { return Ok(Outcome::Done) };
        let finalizers: Vec<&str> = crate::object::items(&namespace, "/spec/finalizers").filter_map(Value::as_str).collect();
        if !finalizers.contains(&FINALIZER) {
            return Ok(Outcome::Done);
        }
        let found = self.empty(namespace.name()).await;
        if found.is_empty() {
            let rest: Vec<&str> = finalizers.into_iter().filter(|finalizer| *finalizer != FINALIZER).collect();
            let mut body = self.namespaces.value(&namespace);
            body["spec"]["finalizers"] = json!(rest);
            self.world.api.replace(self.namespaces.served(), key, "finalize", &body).await?;
            return Ok(Outcome::Done);
        }
        let now = self.world.env.now();
        let mut status = namespace.at("/status").clone();
        status["phase"] = json!("Terminating");
        status["conditions"] = Value::Array(found.conditions(namespace.at("/status/conditions"), now));
        if *namespace.at("/status") != status {
            self.namespaces.write_status(&namespace, &status).await?;
        }
        let since = namespace.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
        let age: Duration = now.duration_since(since).try_into().unwrap_or_default();
        // The longer a deletion takes, the less often it is checked.
        Ok(Outcome::After((age / 4).clamp(Duration::from_millis(100), Duration::from_secs(10))))
    }

    /// Deletes the content of the namespace, and returns what remains of it. Pods go first, because the objects that they use must outlive them.
    async fn empty(&self, namespace: &str) -> Found {
        let mut found = Found::default();
        let kinds = match self.discovery.refresh().await {
            Ok(kinds) => kinds,
            Err(error) => {
                found.undiscovered = Some(error.to_string());
                self.discovery.known()
            }
        };
        let relevant = kinds.iter().filter(|kind| kind.served.namespaced && kind.can("list") && kind.can("delete"));
        let (pods, others): (Vec<&Kind>, Vec<&Kind>) =
            relevant.partition(|kind| kind.served.resource.group.is_empty() && kind.served.resource.plural == "pods");
        for kinds in [pods, others] {
            for kind in kinds {
                if let Err(error) = empty_kind(&self.world.api, kind, namespace, &mut found).await {
                    found.failed.push(error.message());
                }
            }
            if !found.remaining.is_empty() {
                break;
            }
        }
        found
    }
}

async fn empty_kind(api: &Api, kind: &Kind, namespace: &str, found: &mut Found) -> Result<()> {
    let objects = api.list_metadata(&kind.served, namespace).await?;
    if objects.is_empty() {
        return Ok(());
    }
    // Objects that are being deleted need no second request.
    if objects.iter().any(|object| object.pointer("/metadata/deletionTimestamp").is_none()) {
        if kind.can("deletecollection") {
            api.delete_all(&kind.served, namespace).await?;
        } else {
            for object in &objects {
                let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                let options = crate::api::Delete { propagation: Some("Background"), ..crate::api::Delete::default() };
                api.delete(&kind.served, &Key::new(namespace, name), &options).await?;
            }
        }
    }
    let left = api.list_metadata(&kind.served, namespace).await?;
    if left.is_empty() {
        return Ok(());
    }
    for object in &left {
        let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
        for finalizer in finalizers.filter_map(Value::as_str) {
            *found.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
    // The name of a kind of the core group ends in a dot, as upstream writes it.
    let name = format!("{}.{}", kind.served.resource.plural, kind.served.resource.group);
    found.remaining.insert(name, left.len());
    Ok(())
}
