//! A removal: the objects that it deletes, those that it leaves, and the others that depend on them (MS-RB-02). Pure: facts in, a plan out.
//!
//! ```text
//!   objects, each with its tie to the subject ──► fate: deleted, kept, unknown ──┬─► Preview   what goes and stays, and who else uses it
//!   custom resources, others, choices ───────────────────────────────────────────┴─► Step      the same as a plan shows it, with a problem
//! ```
//!
//! The command that removes and the plan that only shows are made from the same facts by the same function.

mod dependents;
mod fate;
mod preview;
mod problem;

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_diagnostics::{SharedError, counted};
use mainstay_objects::ObjectRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object;
use crate::preview::{Bundle, Change, CrdChange, Existing, Kind, NOT_ASKED, Object, Step, api_extensions, delta, named, restarts};
use crate::revision::Record;
use fate::Fate;

pub use dependents::needed_by;
pub use preview::{Counted, Definition, Preview};

/// The choices of a request to remove a subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Choices {
    /// Keeps its CRDs and custom resources, or deletes both; `None` if the request does not say.
    pub keep_crds: Option<bool>,
    /// Removes it although others need it.
    pub even_if_needed: bool,
    /// Removes its namespace, too.
    pub delete_namespace: bool,
}

/// The objects that a subject itself asks to keep at its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// Its CRDs, and so all custom resources.
    Definitions,
    /// Everything.
    Everything,
}

/// The kind of tie between an object and its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tie {
    /// By an owner reference: it is deleted with the subject.
    Reference,
    /// By an owner reference to something that the subject owns, such as a revision, whose controller deletes it.
    Through(String),
    /// By labels or an annotation alone: the object is the subject's, but nothing deletes it.
    Mark,
}

/// An object that the subject applied or owns.
#[derive(Clone, Debug)]
pub struct Owned {
    /// The object, at least its metadata; a CRD as it is on the cluster.
    pub object: Value,
    /// Its tie to the subject, none if it has none any more; or the reason why it cannot be read.
    pub tie: Result<Option<Tie>, SharedError>,
}

/// The facts that a removal rests on.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The kind of the removed subject, for messages.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its package.
    pub package: &'a str,
    /// The namespace that it is installed in.
    pub namespace: &'a str,
    /// The installed bundle.
    pub installed: Option<Bundle>,
    /// The request.
    pub choices: Choices,
    /// The objects that the subject itself asks to keep; or the reason why that is unknown.
    pub stays: Result<Option<Stays>, &'a str>,
    /// Every object that it may have applied or owns on the cluster, each once.
    pub objects: &'a [Owned],
    /// The reason why its CRDs are unknown, if they are.
    pub definitions_unknown: Option<&'a str>,
    /// The reason why its records are unknown, if they are: its objects are told by their marks alone then.
    pub records_unknown: Option<&'a str>,
    /// The custom resources of each CRD, by the CRD's name: the namespace of each, empty for cluster-wide ones; or the reason why they are
    /// unknown.
    pub instances: BTreeMap<String, Result<Vec<String>, SharedError>>,
    /// Objects of others that may have been created for custom resources: all objects that have an owner.
    pub operands: &'a [Value],
    /// The other subjects of the same kind: name, and the record of what they have installed.
    pub others: &'a [(String, Arc<Record>)],
    /// The others that need it, as returned by [`needed_by`].
    pub needed_by: &'a [String],
    /// All webhook configurations of the cluster.
    pub webhooks: &'a [Value],
    /// Objects that install created for the account.
    pub installer: &'a [ObjectRef],
    /// The other users of its namespace.
    pub neighbours: &'a [String],
}

impl Facts<'_> {
    /// Returns true if its CRDs are kept, because the request or the subject itself says so.
    pub fn keeps_definitions(&self) -> bool {
        self.choices.keep_crds == Some(true) || matches!(self.stays, Ok(Some(_)))
    }
}

/// A subject of the same kind that needs the removed one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dependent {
    /// Its name.
    #[serde(rename = "extension")]
    pub name: String,
    /// The needs, in words.
    pub needs: Vec<String>,
}

/// A planned removal.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The objects that are deleted and kept, and their other users.
    pub preview: Preview,
    /// The same as a step of a plan, with the reason why it cannot be applied.
    pub step: Step,
    /// The objects that are deleted with the subject, of those that the facts name.
    pub deleted: Vec<ObjectRef>,
}

/// Plans a removal.
pub fn plan(facts: &Facts<'_>) -> Removal {
    let fates: Vec<Fate> = facts.objects.iter().map(|own| Fate::of(facts, own)).collect();
    let preview = preview::preview(facts, &fates);
    let step = step(facts, &fates, &preview);
    let deleted = facts.objects.iter().zip(&fates).filter(|(_, fate)| fate.goes()).map(|(own, _)| object::place(&own.object)).collect();
    Removal { preview, step, deleted }
}

fn step(facts: &Facts<'_>, fates: &[Fate], preview: &Preview) -> Step {
    let mut step = Step { kind: Kind::Uninstall, from: facts.installed.clone(), ..Step::default() };
    if let Some(problem) = facts.records_unknown {
        step.warnings.push(format!("what goes is told by owner marks on the cluster alone: {problem}"));
    }
    if let Some(problem) = facts.definitions_unknown.filter(|_| facts.choices.keep_crds == Some(false)) {
        step.warnings.push(format!("which custom resource definitions it owns is not known, and they are deleted: {problem}"));
    }
    let (mut all, mut kept) = (Vec::new(), Vec::new());
    for (own, fate) in facts.objects.iter().zip(fates) {
        let target = object::place(&own.object);
        step.objects.push(Object { change: fate.change(), note: fate.note(own), ..named(&target) });
        if is_crd(&own.object) && fate.unreadable().is_none() {
            step.custom_resource_definitions.push(definition(facts, &target.name, fate.change()));
        }
        all.push(own.object.clone());
        if fate.change() != Change::Deleted {
            kept.push(own.object.clone());
        }
    }
    let lost = step.custom_resource_definitions.iter().filter(|crd| crd.change == Change::Deleted);
    let losses = lost.filter_map(|crd| match &crd.existing {
        Some(existing) if existing.count == 0 => None,
        Some(existing) => {
            Some(format!("CustomResourceDefinition {} is deleted with its {}", crd.name, counted(existing.count, "custom resource")))
        }
        None => Some(format!("CustomResourceDefinition {} is deleted with its custom resources; their number is unknown", crd.name)),
    });
    step.warnings.extend(losses.collect::<Vec<_>>());
    step.warnings.extend(preview.needed_by.iter().map(|need| format!("needed by {need}")));
    step.problem = problem::problem(facts, fates, preview);
    step.permissions_lost = delta(&all, &kept).1;
    step.restarts = restarts(&step.objects);
    step.api_extensions = api_extensions(&step.objects);
    step
}

/// A CRD that is deleted or kept, with the number of its custom resources.
fn definition(facts: &Facts<'_>, name: &str, change: Change) -> CrdChange {
    let (existing, existing_unknown) = match facts.instances.get(name) {
        Some(Ok(found)) => (Some(Existing { count: found.len(), ..Existing::default() }), None),
        Some(Err(problem)) => (None, Some(problem.to_string())),
        None => (None, Some(NOT_ASKED.to_owned())),
    };
    CrdChange { name: name.to_owned(), change, existing, existing_unknown, ..CrdChange::default() }
}

fn is_crd(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
