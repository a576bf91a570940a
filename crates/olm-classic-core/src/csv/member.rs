//! A CSV as plans see it, read once for each version of the object.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use mainstay_bundle::Csv;
use mainstay_bundle::go::Mismatch;
use mainstay_objects::Packed;
use serde_json::Value;

use super::{COPIED_FROM, FINALIZER, GROUP_NAMESPACE, Phase, Reason};
use crate::owner::Owner;

/// A CSV on the cluster.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its content; if it cannot be read, its name, labels and annotations alone.
    pub csv: Arc<Csv>,
    /// Why its content cannot be read.
    pub problem: Option<Arc<Mismatch>>,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// Its status.
    pub status: Status,
    /// True if it is being deleted.
    pub is_deleted: bool,
    /// True if it carries [`FINALIZER`].
    pub has_finalizer: bool,
    /// The APIs that it provides, as `Kind.version.group`; `None` if the name of a CRD has no group.
    pub provided: Option<Arc<BTreeSet<String>>>,
    /// The APIs that it requires.
    pub required: Arc<BTreeSet<String>>,
}

/// The status of a CSV: phase and reason, and the whole as compressed JSON. Conditions and requirements are the largest part of what is known
/// of a CSV, and are asked for when it is reconciled, not while it rests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    phase: Phase,
    reason: Option<Reason>,
    whole: Whole,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Whole {
    Packed(Packed<Value>),
    Tree(Value),
}

impl Status {
    /// Packs the status of an object.
    pub fn of(status: &Value) -> Self {
        Self {
            phase: status["phase"].as_str().and_then(Phase::parse).unwrap_or(Phase::None),
            reason: status["reason"].as_str().and_then(Reason::parse),
            whole: Packed::new(status).map_or_else(|| Whole::Tree(status.clone()), Whole::Packed),
        }
    }

    /// The status as the object has it.
    pub fn value(&self) -> Value {
        match &self.whole {
            Whole::Packed(packed) => packed.unpack(),
            Whole::Tree(status) => status.clone(),
        }
    }
}

impl Member {
    /// Reads an object.
    pub fn read(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let (csv, problem) = match Csv::parse(object) {
            Ok(csv) => (slim(csv), None),
            Err(problem) => (named(object), Some(Arc::new(problem))),
        };
        let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
        Self {
            provided: provided(&csv).map(Arc::new),
            required: Arc::new(required(&csv)),
            problem,
            namespace: text("namespace"),
            uid: text("uid"),
            status: Status::of(&object["status"]),
            is_deleted: !metadata["deletionTimestamp"].is_null(),
            has_finalizer: finalizers.into_iter().any(|each| each == FINALIZER),
            csv: Arc::new(csv),
        }
    }

    /// The same CSV with another metadata and status; its content is shared.
    ///
    /// The caller has seen that generation, labels and annotations are the same.
    #[must_use]
    pub fn renewed(&self, metadata: &Value, status: &Value) -> Self {
        let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
        Self {
            status: Status::of(status),
            is_deleted: !metadata["deletionTimestamp"].is_null(),
            has_finalizer: finalizers.into_iter().any(|each| each == FINALIZER),
            ..self.clone()
        }
    }

    /// Its phase.
    pub fn phase(&self) -> Phase {
        self.status.phase
    }

    /// Its reason, if it is one of upstream's.
    pub fn reason(&self) -> Option<Reason> {
        self.status.reason
    }

    /// The time of a field of its status.
    pub fn time(&self, field: &str) -> Option<Timestamp> {
        self.status.value()[field].as_str()?.parse().ok()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.csv.name
    }

    /// Itself as owner.
    pub fn owner(&self) -> Owner<'_> {
        Owner { api_version: self.csv.api_version(), name: &self.csv.name, namespace: &self.namespace, uid: &self.uid }
    }

    /// Returns whether it is a copy.
    pub fn is_copied(&self) -> bool {
        let annotations = self.csv.annotations.get(GROUP_NAMESPACE).map(String::as_str);
        self.reason() == Some(Reason::Copied) || is_copied(&self.namespace, self.csv.labels.contains_key(COPIED_FROM), annotations)
    }

    /// Returns whether its endpoints need certificates.
    pub fn has_endpoints(&self) -> bool {
        !self.csv.owned_api_services.is_empty() || !self.csv.webhooks.is_empty()
    }
}

/// Returns whether an object's metadata is that of a copy.
pub fn is_copied(namespace: &str, has_label: bool, group_namespace: Option<&str>) -> bool {
    has_label || group_namespace.is_some_and(|group| group != namespace)
}

/// A CSV with the parts of its object that decisions rest on: descriptions, icons and examples are most of it.
fn slim(mut csv: Csv) -> Csv {
    let spec = &mut csv.object["spec"];
    let mut kept = serde_json::json!({"install": {"strategy": spec["install"]["strategy"].take()}});
    for field in ["apiservicedefinitions", "nativeAPIs", "cleanup"] {
        if let Some(value) = spec.get_mut(field) {
            kept[field] = value.take();
        }
    }
    csv.object = serde_json::json!({"apiVersion": csv.object["apiVersion"].take(), "kind": csv.object["kind"].take(), "spec": kept});
    csv.related_images = Vec::new();
    csv
}

/// A CSV of which only the metadata can be read.
fn named(object: &Value) -> Csv {
    let metadata = &object["metadata"];
    let map = |field: &str| {
        let entries = metadata[field].as_object().into_iter().flatten();
        entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    Csv {
        name: metadata["name"].as_str().unwrap_or_default().to_owned(),
        annotations: map("annotations"),
        labels: map("labels"),
        replaces: object["spec"]["replaces"].as_str().unwrap_or_default().to_owned(),
        object: serde_json::json!({"apiVersion": object["apiVersion"]}),
        ..Csv::default()
    }
}

fn provided(csv: &Csv) -> Option<BTreeSet<String>> {
    let mut apis = BTreeSet::new();
    for crd in &csv.owned_crds {
        let (_, group) = crd.name.split_once('.')?;
        apis.insert(format!("{}.{}.{group}", crd.kind, crd.version));
    }
    if csv.required_crds.iter().any(|crd| !crd.name.contains('.')) {
        return None;
    }
    apis.extend(csv.owned_api_services.iter().map(|api| format!("{}.{}.{}", api.kind, api.version, api.group)));
    Some(apis)
}

fn required(csv: &Csv) -> BTreeSet<String> {
    let crds = csv.required_crds.iter().filter_map(|crd| Some((crd, crd.name.split_once('.')?.1)));
    let mut apis: BTreeSet<String> = crds.map(|(crd, group)| format!("{}.{}.{group}", crd.kind, crd.version)).collect();
    apis.extend(csv.required_api_services.iter().map(|api| format!("{}.{}.{}", api.kind, api.version, api.group)));
    apis
}
