//! ResourceQuotas: what objects use of them, whether a write fits, and the usage recomputed from all objects (KAPI-ADM-03,
//! KAPI-WL-01).
//!
//! ```text
//!   a write ──► Evaluator (usage, scopes) ──► charge ──► used of each quota that it concerns, or a refusal
//!   all objects ──► total ──► used
//! ```
//! Admission charges before an object is stored; the quota controller recomputes, so that what was deleted is given back.

mod evaluator;

use jiff::Timestamp;
use serde_json::Value;

pub use evaluator::Evaluator;

use crate::quantity::Quantity;
use crate::resource_list::ResourceList;

/// The operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of admission")]
pub enum Operation {
    Create,
    Update,
}

/// A write as quotas see it.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The operation on the object.
    pub operation: Operation,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The object as it would be stored.
    pub object: &'a Value,
    /// The object before, for updates.
    pub old: Option<&'a Value>,
    /// The time of the write.
    pub now: Timestamp,
}

/// One condition on the objects that a quota is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// `BestEffort`, `PriorityClass`, ...
    pub scope: String,
    operator: String,
    values: Vec<String>,
}

impl Requirement {
    /// Returns true if an object that has these values of the scope fits.
    fn accepts(&self, found: &[&str]) -> bool {
        let among = |name: &&str| self.values.iter().any(|value| value == name);
        match self.operator.as_str() {
            "Exists" => !found.is_empty(),
            "DoesNotExist" => found.is_empty(),
            "In" => found.iter().any(among),
            "NotIn" => found.is_empty() || !found.iter().all(among),
            _ => false,
        }
    }
}

/// A ResourceQuota.
#[derive(Clone, Debug)]
pub struct Quota {
    /// Its name.
    pub name: String,
    /// Amounts that are allowed.
    pub hard: ResourceList,
    /// Amounts that are used.
    pub used: ResourceList,
    scopes: Vec<Requirement>,
}

impl Quota {
    /// The quota as admission enforces it: by what its status says.
    pub fn enforced(object: &Value) -> Self {
        Self::read(object, "/status/hard")
    }

    /// The quota as it is wanted.
    pub fn wanted(object: &Value) -> Self {
        Self::read(object, "/spec/hard")
    }

    fn read(object: &Value, hard: &str) -> Self {
        let items = |pointer: &str| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let words = |value: &Value| value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let plain = items("/spec/scopes").map(|scope| Requirement { scope: word(scope), operator: "Exists".into(), values: Vec::new() });
        let selected = items("/spec/scopeSelector/matchExpressions").map(|one| Requirement {
            scope: word(&one["scopeName"]),
            operator: word(&one["operator"]),
            values: words(&one["values"]),
        });
        Self {
            name: object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            hard: ResourceList::read(object.pointer(hard)),
            used: ResourceList::read(object.pointer("/status/used")),
            scopes: plain.chain(selected).collect(),
        }
    }

    /// Returns true if the quota measures such objects, and an object is in its scopes.
    pub fn concerns(&self, evaluator: &Evaluator, object: &Value) -> bool {
        self.hard.names().any(|name| evaluator.measures(name)) && self.holds(evaluator, object)
    }

    fn holds(&self, evaluator: &Evaluator, object: &Value) -> bool {
        self.scopes.iter().all(|scope| evaluator.in_scope(scope, object))
    }
}

/// The amounts that a write adds to one quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The quota's name.
    pub quota: String,
    /// The increase of what is used.
    pub amounts: ResourceList,
}

/// Why a quota does not let a write through, in the words that Kubernetes puts after `is forbidden: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The object does not say what it uses of a resource that the quota limits.
    #[error("failed quota: {quota}: {missing}")]
    Unspecified {
        /// The quota's name.
        quota: String,
        /// The fields that are missing.
        missing: String,
    },
    /// The usage of these resources is not counted yet.
    #[error("status unknown for quota: {quota}, resources: {}", resources.join(","))]
    Uncounted {
        /// The quota's name.
        quota: String,
        /// The resources that the write is measured by.
        resources: Vec<String>,
    },
    /// The object would use less than nothing.
    #[error("quota usage is negative for resource(s): {}", .0.join(","))]
    Negative(Vec<String>),
    /// More would be used than the quota allows.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    Exceeded {
        /// The quota's name.
        quota: String,
        /// The use that the write adds.
        requested: ResourceList,
        /// The use before the write.
        used: ResourceList,
        /// The limit.
        limited: ResourceList,
    },
}

/// Charges a write to every quota that it concerns: their `used` grows by the charges that are returned. Nothing is charged when a quota refuses.
pub fn charge(quotas: &mut [Quota], evaluator: &Evaluator, write: &Write<'_>) -> Result<Vec<Charge>, Refusal> {
    let mut concerned = Vec::new();
    for (index, quota) in quotas.iter().enumerate().filter(|(_, quota)| quota.concerns(evaluator, write.object)) {
        let measured: Vec<&str> = quota.hard.names().filter(|name| evaluator.measures(name)).collect();
        if let Some(missing) = evaluator.missing(&measured, write.object) {
            return Err(Refusal::Unspecified { quota: quota.name.clone(), missing });
        }
        if measured.iter().any(|name| quota.used.get(name).is_none()) {
            return Err(Refusal::Uncounted { quota: quota.name.clone(), resources: measured.into_iter().map(str::to_owned).collect() });
        }
        concerned.push(index);
    }
    if concerned.is_empty() {
        return Ok(Vec::new());
    }
    let usage = evaluator.usage(write.object, write.now);
    let negative: Vec<String> = usage.iter().filter(|(_, amount)| amount.sign().is_lt()).map(|(name, _)| name.to_owned()).collect();
    if !negative.is_empty() {
        return Err(Refusal::Negative(negative));
    }
    let mut charges = Vec::new();
    for index in concerned {
        let quota = &quotas[index];
        let mut more = usage.clone();
        if let Some(old) = write.old.filter(|old| quota.concerns(evaluator, old)) {
            more.subtract(&evaluator.usage(old, write.now));
        }
        let more = more.without_zeros().only(|name| quota.hard.get(name).is_some());
        if more.is_empty() {
            continue;
        }
        let mut used = quota.used.clone();
        used.add(&more);
        // A node has reported it, so it counts whether it fits or not.
        if write.subresource != "status" {
            let exceeded = |name: &str| more.get(name).is_some() && used.get(name) > quota.hard.get(name);
            if quota.hard.names().any(exceeded) {
                return Err(Refusal::Exceeded {
                    quota: quota.name.clone(),
                    requested: more.only(exceeded),
                    used: quota.used.only(exceeded),
                    limited: quota.hard.only(exceeded),
                });
            }
        }
        charges.push((index, used, Charge { quota: quota.name.clone(), amounts: more }));
    }
    let charge = |(index, used, charge): (usize, ResourceList, Charge)| {
        quotas[index].used = used;
        charge
    };
    Ok(charges.into_iter().map(charge).collect())
}

/// A resource whose objects a quota measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its group.
    pub group: String,
    /// Its plural name.
    pub plural: String,
    /// The measure of its objects.
    pub evaluator: Evaluator,
}

/// The resources that have names of their own besides `count/...`.
const MEASURED: [&str; 7] =
    ["pods", "services", "persistentvolumeclaims", "configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// The resources whose objects the names of a quota measure, each once.
pub fn sources(hard: &ResourceList) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    for name in hard.names() {
        let (group, plural) = if let Some(counted) = name.strip_prefix("count/") {
            let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
            (group, plural)
        } else {
            let measures = |plural: &&str| Evaluator::of("", plural).is_some_and(|evaluator| evaluator.measures(name));
            let Some(plural) = MEASURED.into_iter().find(measures) else { continue };
            ("", plural)
        };
        if sources.iter().any(|source| source.group == group && source.plural == plural) {
            continue;
        }
        if let Some(evaluator) = Evaluator::of(group, plural) {
            sources.push(Source { group: group.to_owned(), plural: plural.to_owned(), evaluator });
        }
    }
    sources
}

/// Returns what the objects of one resource use of a quota: every name that measures them is there, if only with zero.
pub fn total<'a>(quota: &Quota, evaluator: &Evaluator, objects: impl Iterator<Item = &'a Value>, now: Timestamp) -> ResourceList {
    let mut used = ResourceList::default();
    for name in quota.hard.names().filter(|name| evaluator.measures(name)) {
        used.set(name, Quantity::ZERO);
    }
    for object in objects.filter(|object| quota.holds(evaluator, object)) {
        used.add(&evaluator.usage(object, now).only(|name| quota.hard.get(name).is_some()));
    }
    used
}

#[cfg(test)]
mod tests;
