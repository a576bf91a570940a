//! Every object of a change, with the effect on it.

use std::borrow::Cow;
use std::collections::HashMap;

use mainstay_objects::{ObjectRef, Owner};
use serde_json::Value;

use super::{Change, Object, Restart, UNMANAGED, fields};
use crate::change::{Operation, PlannedStep};
use crate::live::Live;
use crate::object;
use crate::revision::History;

/// The wanted objects, compared one by one with the applied and the live ones.
pub struct Comparison<'a> {
    /// The wanted objects, also of a change that was refused after they were known.
    pub wanted: Cow<'a, [Value]>,
    /// The revisions; none if they cannot be read.
    pub history: Option<&'a History>,
    /// The live objects that are known.
    pub live: &'a HashMap<ObjectRef, Live>,
    /// The steps of the change.
    pub steps: &'a [PlannedStep],
    /// The owner of everything that is applied.
    pub owner: Owner,
}

impl<'a> Comparison<'a> {
    /// Returns the wanted objects.
    pub fn wanted(&self) -> &[Value] {
        &self.wanted
    }

    /// Returns the objects that the installed revision applied.
    pub fn before(&self) -> &'a [Value] {
        let installed = self.history.and_then(History::installed);
        installed.map(|revision| revision.record.objects.as_slice()).unwrap_or_default()
    }

    /// Returns the object as applied by an earlier revision that may still be live.
    pub(super) fn applied(&self, target: &ObjectRef) -> Option<&'a Value> {
        let mut all = self.history?.may_be_live().flat_map(|revision| &revision.record.objects);
        all.find(|object| object::place(object).same(target))
    }

    /// Returns a live object, if it was looked up.
    pub fn live(&self, target: &ObjectRef) -> Option<&'a Live> {
        self.live.get(target)
    }

    pub(super) fn present(&self, target: &ObjectRef) -> Option<&'a Value> {
        match self.live(target) {
            Some(Live::Present(found)) => Some(found),
            _ => None,
        }
    }

    /// Returns every object: the wanted ones in their order, then those that are deleted or left.
    pub fn objects(&self) -> Vec<Object> {
        let mut all: Vec<Object> = self.wanted().iter().map(|wanted| self.object(wanted)).collect();
        for target in self.gone() {
            let deleted = self.deletes(&target);
            let Some(found) = self.present(&target) else { continue };
            let change = if deleted { Change::Deleted } else { Change::Kept };
            let note = if deleted { "no longer part of the bundle" } else { why_kept(found) };
            all.push(Object { change, note: note.to_owned(), ..named(&target) });
        }
        all
    }

    /// Returns true if a step deletes the object.
    pub(super) fn deletes(&self, target: &ObjectRef) -> bool {
        self.steps.iter().any(|planned| planned.operation == Operation::Delete && planned.target.same(target))
    }

    /// Returns the objects that earlier revisions applied and that are no longer wanted.
    pub fn gone(&self) -> Vec<ObjectRef> {
        if self.wanted().is_empty() {
            return Vec::new();
        }
        let wanted: Vec<ObjectRef> = self.wanted().iter().map(object::place).collect();
        let history = self.history.into_iter().flat_map(History::may_be_live);
        let earlier = history.flat_map(|revision| revision.record.objects.iter().map(object::place));
        mainstay_objects::stale(&earlier.collect::<Vec<_>>(), &wanted)
    }

    fn object(&self, wanted: &Value) -> Object {
        let target = object::place(wanted);
        let found = match self.live(&target) {
            None => return Object { change: Change::Unknown, note: "the plan ended before it was looked at".to_owned(), ..named(&target) },
            Some(Live::Unreadable(problem)) => return Object { change: Change::Unknown, note: problem.to_string(), ..named(&target) },
            Some(Live::NotServed) => {
                let note = "its kind is not served yet".to_owned();
                return Object { change: Change::Created, note, ..named(&target) };
            }
            Some(Live::Absent) => return Object { change: Change::Created, ..named(&target) },
            Some(Live::Present(found)) => found,
        };
        let before = self.applied(&target);
        let ours = self.owner.check(found);
        if let Err(refusal) = ours
            && (before.is_none() || !object::lost_its_marks(found, &self.owner.manager))
        {
            let owner = refusal.owner.map_or_else(|| UNMANAGED.to_owned(), |(kind, name)| format!("{kind} {name}"));
            return Object { change: Change::Conflicting, owner: Some(owner), ..named(&target) };
        }
        let (fields, fields_omitted) = fields::changes(found, wanted, before);
        let change = match (before, fields.is_empty()) {
            (None, _) => Change::Adopted,
            (Some(_), true) => Change::Unchanged,
            (Some(_), false) => Change::Changed,
        };
        let note = if change == Change::Adopted { "it is there already and carries the extension's labels" } else { "" };
        Object { change, fields, fields_omitted, note: note.to_owned(), ..named(&target) }
    }
}

/// Returns an object of the document without any details.
pub fn named(target: &ObjectRef) -> Object {
    let ObjectRef { api_version, kind, namespace, name } = target.clone();
    Object { api_version, kind, namespace, name, ..Object::default() }
}

fn why_kept(found: &Value) -> &'static str {
    if found.pointer("/metadata/annotations/helm.sh~1resource-policy").is_some_and(|policy| policy == "keep") {
        "it asks to be kept"
    } else if !found["metadata"]["deletionTimestamp"].is_null() {
        "it is being deleted already"
    } else {
        "it is no longer managed by the extension, or the plan ended before"
    }
}

impl Object {
    /// Returns kind and name: `Deployment work/widgets`.
    pub fn title(&self) -> String {
        if self.namespace.is_empty() {
            format!("{} {}", self.kind, self.name)
        } else {
            format!("{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// Returns the workloads whose pods restart because their template changes, or stop.
pub fn restarts(objects: &[Object]) -> Vec<Restart> {
    let workload = |object: &&Object| matches!(object.kind.as_str(), "Deployment" | "StatefulSet" | "DaemonSet");
    let why = |object: &Object| match object.change {
        Change::Deleted => Some("it is deleted".to_owned()),
        Change::Changed | Change::Adopted => {
            let template: Vec<&str> =
                object.fields.iter().filter(|field| field.path.starts_with(".spec.template")).map(|field| field.path.as_str()).collect();
            (!template.is_empty()).then(|| format!("{} changes", shortened(&template)))
        }
        _ => None,
    };
    objects.iter().filter(workload).filter_map(|object| Some(Restart { workload: object.title(), because: why(object)? })).collect()
}

fn shortened(paths: &[&str]) -> String {
    match paths {
        [first, second, third, more @ ..] if !more.is_empty() => format!("{first}, {second}, {third} and {} more", more.len()),
        few => few.join(", "),
    }
}

/// Returns the webhooks and APIServices that are added, changed or removed.
pub fn api_extensions(objects: &[Object]) -> Vec<String> {
    let kinds = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService"];
    let word = |change| match change {
        Change::Created => Some("added"),
        Change::Adopted => Some("adopted"),
        Change::Changed => Some("changed"),
        Change::Deleted => Some("removed"),
        _ => None,
    };
    objects
        .iter()
        .filter(|object| kinds.contains(&object.kind.as_str()))
        .filter_map(|object| Some(format!("{} {}", object.title(), word(object.change)?)))
        .collect()
}

/// Returns the images that the workloads of these objects run, each with the place that names it.
pub fn running(objects: &[Value]) -> Vec<(String, String)> {
    let mut images = Vec::new();
    for object in objects {
        let pod = &object["spec"]["template"]["spec"];
        for list in ["initContainers", "containers"] {
            for container in pod[list].as_array().into_iter().flatten() {
                if let (Some(image), Some(name)) = (container["image"].as_str(), container["name"].as_str()) {
                    images.push((image.to_owned(), format!("{}, container {name}", object::place(object))));
                }
            }
        }
    }
    images
}
