//! The plan for a Deployment: a pure function of the Deployment, its ReplicaSets and their pods.
//!
//! ```text
//!   Facts ──► new ReplicaSet? ──► paused / scaling ─────────► scale in proportion ─┐
//!                            └──► RollingUpdate / Recreate ─► scale new and old ───┴─► status ──► Plan
//! ```

use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::status;
use crate::object::{Object, Read as _, condition, controller_reference, parse_time};
use crate::{hash, pod};

/// The annotation with the revision of a ReplicaSet, and of its Deployment.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
const HASH: &str = "pod-template-hash";
/// The annotations that a ReplicaSet does not copy from its Deployment.
const NOT_COPIED: [&str; 6] =
    ["kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MAX, "deprecated.deployment.rollback.to"];

/// The facts that a decision rests on.
pub struct Facts<'a> {
    /// The Deployment.
    pub deployment: &'a DynamicObject,
    /// Its ReplicaSets.
    pub replicasets: &'a [Object],
    /// The pods of its ReplicaSets.
    pub pods: &'a [Object],
    /// The current time.
    pub now: Timestamp,
}

/// A step of the plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The Deployment gets annotations.
    Annotate(Map<String, Value>),
    /// A ReplicaSet is created.
    Create(Value),
    /// A ReplicaSet gets annotations, replicas or minReadySeconds.
    Patch {
        /// The ReplicaSet.
        replicaset: Object,
        /// The merge patch.
        patch: Value,
        /// The message about the scaling, if any.
        scaled: Option<String>,
    },
    /// An old ReplicaSet is deleted.
    Delete(Object),
    /// The status is written.
    Status(Value),
    /// The selector selects all pods, and is refused.
    SelectsEverything,
}

/// The steps, and the time until the next look even without a change.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// The steps, in order.
    pub actions: Vec<Action>,
    /// The time until the next look.
    pub again: Option<Duration>,
}

/// A ReplicaSet with the replicas that the plan gives it.
#[derive(Clone, Debug)]
pub struct Set {
    /// The object; `None` for a ReplicaSet that is yet to be created.
    pub object: Option<Object>,
    /// Its name.
    pub name: String,
    /// The desired pods.
    pub replicas: i64,
    /// The existing pods.
    pub current: i64,
    /// The ready pods.
    pub ready: i64,
    /// The available pods.
    pub available: i64,
    created: Timestamp,
    revision: i64,
    max: Option<i64>,
}

impl Set {
    fn of(object: &Object) -> Self {
        let number = |pointer: &str| object.int(pointer).unwrap_or_default();
        let annotation = |key: &str| object.annotation(key).and_then(|value| value.parse().ok());
        Self {
            name: object.name().to_owned(),
            replicas: object.int("/spec/replicas").unwrap_or(1),
            current: number("/status/replicas"),
            ready: number("/status/readyReplicas"),
            available: number("/status/availableReplicas"),
            created: object.created(),
            revision: annotation(REVISION).unwrap_or_default(),
            max: annotation(MAX),
            object: Some(object.clone()),
        }
    }
}

/// The bounds of a Deployment's strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The desired pods.
    pub replicas: i64,
    /// The pods beyond the desired ones that an update may add.
    pub surge: i64,
    /// The desired pods that may be unavailable during an update.
    pub unavailable: i64,
}

impl Bounds {
    /// Reads the bounds; percentages are resolved.
    pub fn of(deployment: &DynamicObject) -> Self {
        let replicas = deployment.int("/spec/replicas").unwrap_or(1);
        if deployment.text("/spec/strategy/type") == "Recreate" {
            return Self { replicas, surge: 0, unavailable: 0 };
        }
        let surge = pod::scaled(deployment.at("/spec/strategy/rollingUpdate/maxSurge"), replicas, true);
        let mut unavailable = pod::scaled(deployment.at("/spec/strategy/rollingUpdate/maxUnavailable"), replicas, false);
        if surge == 0 && unavailable == 0 {
            // If both round down to zero, the update would never begin.
            unavailable = 1;
        }
        Self { replicas, surge, unavailable: unavailable.min(replicas) }
    }
}

/// Decides the next steps.
pub fn plan(facts: &Facts<'_>) -> Plan {
    let mut rollout = Rollout::new(facts);
    rollout.decide();
    rollout.plan
}

struct Rollout<'a> {
    facts: &'a Facts<'a>,
    bounds: Bounds,
    old: Vec<Set>,
    new: Option<Set>,
    conditions: Vec<Value>,
    plan: Plan,
}

impl<'a> Rollout<'a> {
    fn new(facts: &'a Facts<'a>) -> Self {
        let mut sets: Vec<&Object> = facts.replicasets.iter().collect();
        sets.sort_by_key(|set| (set.created(), set.name().to_owned()));
        let template = bare(facts.deployment.at("/spec/template"));
        let new = sets.iter().position(|set| bare(set.at("/spec/template")) == template).map(|index| sets.remove(index));
        Self {
            facts,
            bounds: Bounds::of(facts.deployment),
            old: sets.into_iter().map(Set::of).collect(),
            new: new.map(Set::of),
            conditions: facts.deployment.at("/status/conditions").as_array().cloned().unwrap_or_default(),
            plan: Plan::default(),
        }
    }

    fn decide(&mut self) {
        let deployment = self.facts.deployment;
        if deployment.at("/spec/selector").as_object().is_none_or(|selector| {
            selector.values().all(|part| part.as_object().is_some_and(Map::is_empty) || part.as_array().is_some_and(Vec::is_empty))
        }) {
            self.plan.actions.push(Action::SelectsEverything);
            return;
        }
        if deployment.deleting() {
            return self.write_status(false);
        }
        let paused = deployment.at("/spec/paused") == &json!(true);
        self.note_paused(paused);
        if paused || self.is_scaling() {
            self.adopt_new(false);
            if !self.scale() && paused {
                self.clean_up();
            }
            return self.write_status(false);
        }
        if deployment.text("/spec/strategy/type") == "Recreate" {
            self.recreate();
        } else {
            self.roll();
        }
        self.write_status(true);
    }

    fn watches_progress(&self) -> bool {
        status::deadline(self.facts.deployment).is_some()
    }

    fn note_paused(&mut self, paused: bool) {
        if !self.watches_progress() {
            return;
        }
        let progressing = self.conditions.iter().find(|condition| condition["type"] == "Progressing");
        let reason = progressing.map_or("", |condition| condition["reason"].as_str().unwrap_or_default());
        if reason == "ProgressDeadlineExceeded" {
            return;
        }
        let now = self.facts.now;
        if paused && reason != "DeploymentPaused" {
            status::set(&mut self.conditions, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now);
        } else if !paused && reason == "DeploymentPaused" {
            status::set(&mut self.conditions, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now);
        }
    }

    fn is_scaling(&self) -> bool {
        self.facts.replicasets.iter().any(|set| {
            let desired: Option<i64> = set.annotation(DESIRED).and_then(|desired| desired.parse().ok());
            set.int("/spec/replicas").unwrap_or(1) > 0 && desired.is_some_and(|desired| desired != self.bounds.replicas)
        })
    }

    /// Updates the annotations of the ReplicaSet of the current template, or creates it.
    fn adopt_new(&mut self, make: bool) {
        let deployment = self.facts.deployment;
        let revision = self.old.iter().map(|set| set.revision).max().unwrap_or_default() + 1;
        if let Some(object) = self.new.as_ref().and_then(|new| new.object.clone()) {
            let known: i64 = object.annotation(REVISION).and_then(|known| known.parse().ok()).unwrap_or_default();
            let mut annotations = copied(deployment);
            annotations.retain(|key, value| object.annotation(key) != value.as_str());
            if known < revision {
                annotations.insert(REVISION.into(), json!(revision.to_string()));
                if known > 0 {
                    let history = object.annotation(HISTORY).map_or_else(|| known.to_string(), |past| format!("{past},{known}"));
                    annotations.insert(HISTORY.into(), json!(history));
                }
            }
            let mut patch = json!({});
            if !annotations.is_empty() {
                patch["metadata"]["annotations"] = Value::Object(annotations);
            }
            let min_ready = deployment.int("/spec/minReadySeconds").unwrap_or_default();
            if object.int("/spec/minReadySeconds").unwrap_or_default() != min_ready {
                patch["spec"]["minReadySeconds"] = json!(min_ready);
            }
            let name = object.name().to_owned();
            if patch != json!({}) {
                self.plan.actions.push(Action::Patch { replicaset: object, patch, scaled: None });
            }
            self.annotate(known.max(revision));
            if self.watches_progress() && condition(&json!(self.conditions), "Progressing").is_none() {
                let message = format!("Found new replica set \"{name}\"");
                status::set(&mut self.conditions, "Progressing", "True", "FoundNewReplicaSet", &message, self.facts.now);
            }
            return;
        }
        if !make {
            return;
        }
        let template = bare(deployment.at("/spec/template"));
        let hash = hash::of_template(&template, deployment.int("/status/collisionCount"));
        let name = format!("{}-{hash}", deployment.name());
        let replicas = self.replicas_of_new(0);
        self.plan.actions.push(Action::Create(self.new_set(&name, &hash, &template, replicas, revision)));
        self.annotate(revision);
        if self.watches_progress() {
            let message = format!("Created new replica set \"{name}\"");
            status::set(&mut self.conditions, "Progressing", "True", "NewReplicaSetCreated", &message, self.facts.now);
        }
        let created = self.facts.now;
        self.new = Some(Set { object: None, name, replicas, current: 0, ready: 0, available: 0, created, revision, max: None });
    }

    fn annotate(&mut self, revision: i64) {
        let revision = revision.to_string();
        if self.facts.deployment.annotation(REVISION) != Some(revision.as_str()) {
            self.plan.actions.push(Action::Annotate(Map::from_iter([(REVISION.to_owned(), json!(revision))])));
        }
    }

    fn new_set(&self, name: &str, hash: &str, template: &Value, replicas: i64, revision: i64) -> Value {
        let deployment = self.facts.deployment;
        let mut template = template.clone();
        template["metadata"]["labels"][HASH] = json!(hash);
        let mut selector = deployment.at("/spec/selector").clone();
        selector["matchLabels"][HASH] = json!(hash);
        let mut annotations = copied(deployment);
        annotations.insert(REVISION.into(), json!(revision.to_string()));
        annotations.insert(DESIRED.into(), json!(self.bounds.replicas.to_string()));
        annotations.insert(MAX.into(), json!((self.bounds.replicas + self.bounds.surge).to_string()));
        let mut spec = json!({"replicas": replicas, "selector": selector, "template": template});
        if let Some(seconds) = deployment.int("/spec/minReadySeconds").filter(|seconds| *seconds != 0) {
            spec["minReadySeconds"] = json!(seconds);
        }
        json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": deployment.namespace(),
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [controller_reference("apps/v1", "Deployment", deployment)],
            },
            "spec": spec,
        })
    }

    /// Returns the replicas that the new ReplicaSet may have now.
    fn replicas_of_new(&self, present: i64) -> i64 {
        if self.facts.deployment.text("/spec/strategy/type") == "Recreate" {
            return self.bounds.replicas;
        }
        let total: i64 = self.all().map(|set| set.replicas).sum();
        let most = self.bounds.replicas + self.bounds.surge;
        if total >= most { present } else { present + (most - total).min(self.bounds.replicas - present) }
    }

    fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    fn roll(&mut self) {
        self.adopt_new(true);
        if self.scale_new() || self.scale_old() {
            return;
        }
        if self.complete() {
            self.clean_up();
        }
    }

    fn recreate(&mut self) {
        self.adopt_new(false);
        let mut scaled = false;
        for index in 0..self.old.len() {
            scaled |= self.old[index].replicas > 0 && self.scale_set(index, 0);
        }
        if scaled || self.old_pods_run() {
            return;
        }
        if self.new.is_none() {
            self.adopt_new(true);
        }
        if self.complete() {
            self.clean_up();
        }
        self.scale_new();
    }

    fn old_pods_run(&self) -> bool {
        let new = self.new.as_ref().and_then(|new| new.object.as_ref()).map_or("", |object| object.uid());
        self.facts.pods.iter().any(|pod| !pod::finished(pod) && pod.controller().is_some_and(|owner| owner.uid != new))
    }

    fn scale_new(&mut self) -> bool {
        let Some(present) = self.new.as_ref().filter(|new| new.object.is_some()).map(|new| new.replicas) else { return false };
        let wanted = if present > self.bounds.replicas { self.bounds.replicas } else { self.replicas_of_new(present) };
        self.scale_set(self.old.len(), wanted)
    }

    fn scale_old(&mut self) -> bool {
        let old: i64 = self.old.iter().map(|set| set.replicas).sum();
        let Some(new) = self.new.as_ref().filter(|_| old > 0) else { return false };
        let least = self.bounds.replicas - self.bounds.unavailable;
        let not_ready = new.replicas - new.available;
        let spare = old + new.replicas - least - not_ready;
        if spare <= 0 {
            return false;
        }
        let mut scaled = false;
        // First the pods that are unavailable anyway.
        let mut left = spare;
        for index in 0..self.old.len() {
            let set = &self.old[index];
            let useless = (set.replicas - set.available).min(left);
            if set.replicas == 0 || useless <= 0 {
                continue;
            }
            let wanted = set.replicas - useless;
            left -= useless;
            scaled |= self.scale_set(index, wanted);
        }
        // Then as many as are available beyond the minimum.
        let available: i64 = self.all().map(|set| set.available).sum();
        let mut left = (available - least).max(0);
        for index in 0..self.old.len() {
            let set = &self.old[index];
            let fewer = set.replicas.min(left);
            if fewer <= 0 {
                continue;
            }
            let wanted = set.replicas - fewer;
            left -= fewer;
            scaled |= self.scale_set(index, wanted);
        }
        scaled
    }

    /// Scales the ReplicaSets when the number of replicas changed or the Deployment is paused. Returns true if any was scaled.
    fn scale(&mut self) -> bool {
        let active: Vec<usize> = (0..=self.old.len()).filter(|index| self.set(*index).is_some_and(|set| set.replicas > 0)).collect();
        let single = match active.as_slice() {
            [] if self.new.is_some() => Some(self.old.len()),
            [] => self.old.len().checked_sub(1),
            [one] => Some(*one),
            _ => None,
        };
        if let Some(index) = single {
            return self.scale_set(index, self.bounds.replicas);
        }
        if active.is_empty() {
            return false;
        }
        if self.saturated() {
            let mut scaled = false;
            let last = self.old.len();
            for index in active.into_iter().filter(|index| *index < last) {
                scaled |= self.scale_set(index, 0);
            }
            return scaled;
        }
        if self.facts.deployment.text("/spec/strategy/type") == "Recreate" {
            return false;
        }
        self.scale_in_proportion(active)
    }

    fn scale_in_proportion(&mut self, mut active: Vec<usize>) -> bool {
        let total: i64 = active.iter().filter_map(|index| self.set(*index)).map(|set| set.replicas).sum();
        let allowed = if self.bounds.replicas > 0 { self.bounds.replicas + self.bounds.surge } else { 0 };
        let to_add = allowed - total;
        // When scaling up, the large and new ones come first; when scaling down, the large and old ones.
        let key = |index: &usize| self.set(*index).map_or((0, Timestamp::UNIX_EPOCH), |set| (set.replicas, set.created));
        active.sort_by(|left, right| {
            let ((size, age), (other_size, other_age)) = (key(left), key(right));
            other_size.cmp(&size).then(if to_add > 0 { other_age.cmp(&age) } else { age.cmp(&other_age) })
        });
        let mut added = 0;
        let mut wanted = Vec::new();
        for index in &active {
            let Some(set) = self.set(*index) else { continue };
            let share = if to_add == 0 || to_add == added { 0 } else { self.share(set, to_add, to_add - added) };
            wanted.push((*index, set.replicas + share));
            added += share;
        }
        let mut scaled = false;
        for (position, (index, replicas)) in wanted.into_iter().enumerate() {
            let rest = if position == 0 { to_add - added } else { 0 };
            scaled |= self.scale_set(index, (replicas + rest).max(0));
        }
        scaled
    }

    fn share(&self, set: &Set, to_add: i64, allowed: i64) -> i64 {
        if set.replicas == 0 {
            return 0;
        }
        let fraction = if self.bounds.replicas == 0 {
            -set.replicas
        } else {
            let most = self.bounds.replicas + self.bounds.surge;
            let before = set.max.or_else(|| self.facts.deployment.int("/status/replicas")).unwrap_or_default();
            if before == 0 { 0 } else { (set.replicas as f64 * most as f64 / before as f64).round() as i64 - set.replicas }
        };
        if to_add > 0 { fraction.min(allowed) } else { fraction.max(allowed) }
    }

    fn saturated(&self) -> bool {
        self.new.as_ref().is_some_and(|new| {
            let desired = new.object.as_ref().and_then(|object| object.annotation(DESIRED)).and_then(|desired| desired.parse().ok());
            new.replicas == self.bounds.replicas && desired == Some(self.bounds.replicas) && new.available == self.bounds.replicas
        })
    }

    fn set(&self, index: usize) -> Option<&Set> {
        if index == self.old.len() { self.new.as_ref() } else { self.old.get(index) }
    }

    /// Gives a ReplicaSet (the new one is the last) its replicas and the annotations that record them.
    fn scale_set(&mut self, index: usize, replicas: i64) -> bool {
        let bounds = self.bounds;
        let last = self.old.len();
        let Some(set) = (if index == last { self.new.as_mut() } else { self.old.get_mut(index) }) else { return false };
        let Some(object) = set.object.clone() else { return false };
        let desired = bounds.replicas.to_string();
        let max = (bounds.replicas + bounds.surge).to_string();
        let told = object.annotation(DESIRED) == Some(desired.as_str()) && object.annotation(MAX) == Some(max.as_str());
        if replicas == set.replicas && told {
            return false;
        }
        let mut patch = json!({"metadata": {"annotations": {DESIRED: desired, MAX: max}}});
        let mut scaled = None;
        if replicas != set.replicas {
            patch["spec"] = json!({"replicas": replicas});
            let direction = if replicas > set.replicas { "up" } else { "down" };
            scaled = Some(format!("Scaled {direction} replica set {} from {} to {replicas}", set.name, set.replicas));
        }
        let changed = scaled.is_some();
        set.replicas = replicas;
        self.plan.actions.push(Action::Patch { replicaset: object, patch, scaled });
        changed
    }

    fn complete(&self) -> bool {
        let updated = self.new.as_ref().map_or((0, 0), |new| (new.current, new.available));
        let total: i64 = self.all().map(|set| set.current).sum();
        updated == (self.bounds.replicas, self.bounds.replicas) && total == self.bounds.replicas
    }

    fn clean_up(&mut self) {
        let Some(limit) = self.facts.deployment.int("/spec/revisionHistoryLimit").and_then(|limit| usize::try_from(limit).ok()) else {
            return;
        };
        let mut removable: Vec<&Set> = self.old.iter().filter(|set| set.object.as_ref().is_some_and(|object| !object.deleting())).collect();
        let surplus = removable.len().saturating_sub(limit);
        removable.sort_by_key(|set| set.revision);
        let gone: Vec<Object> = removable
            .into_iter()
            .take(surplus)
            .filter_map(|set| set.object.clone())
            .filter(|object| {
                let idle = object.int("/status/replicas").unwrap_or_default() == 0 && object.int("/spec/replicas").unwrap_or(1) == 0;
                idle && object.metadata.generation <= object.int("/status/observedGeneration")
            })
            .collect();
        self.plan.actions.extend(gone.into_iter().map(Action::Delete));
    }

    fn write_status(&mut self, rollout: bool) {
        let sets: Vec<Set> = self.all().cloned().collect();
        let outcome = status::decide(self.facts, &self.bounds, &sets, self.new.as_ref(), std::mem::take(&mut self.conditions), rollout);
        if *self.facts.deployment.at("/status") != outcome.status {
            self.plan.actions.push(Action::Status(outcome.status));
        }
        self.plan.again = outcome.again;
    }
}

/// Returns a pod template without the label that a ReplicaSet adds.
fn bare(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(HASH);
        }
    }
    template
}

fn copied(deployment: &DynamicObject) -> Map<String, Value> {
    let all = deployment.metadata.annotations.iter().flatten();
    all.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str())).map(|(key, value)| (key.clone(), json!(value))).collect()
}

/// Returns true if the existing ReplicaSet of the name is the one that was to be created.
pub fn is_ours(deployment: &DynamicObject, there: &DynamicObject) -> bool {
    crate::object::controlled_by(there, deployment.uid()) && bare(there.at("/spec/template")) == bare(deployment.at("/spec/template"))
}

/// Returns the time left until the deadline that began at `since`.
pub fn remaining(since: &Value, deadline: i64, now: Timestamp) -> Option<Duration> {
    let end = parse_time(since)?.saturating_add(jiff::SignedDuration::from_secs(deadline)).ok()?;
    Some(end.duration_since(now).try_into().unwrap_or_default())
}
