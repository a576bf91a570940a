//! The preview of a removal: the objects that are deleted and kept, and their other users.

use std::collections::BTreeMap;
use std::fmt;

use mainstay_diagnostics::counted;
use mainstay_objects::{ObjectRef, delete_order};
use serde::Serialize;
use serde_json::Value;

use super::dependents::users;
use super::fate::Fate;
use super::{Facts, is_crd, text};
use crate::object;
use crate::preview::NOT_ASKED;

/// The preview of a removal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Objects that are deleted, in order, including CRDs unless they are kept.
    pub deleted: Vec<String>,
    /// Objects that stay.
    pub kept: Vec<String>,
    /// The CRDs and their custom resources.
    pub definitions: Vec<Definition>,
    /// Objects that were created for custom resources and are deleted or stay with them.
    pub operands: Vec<Counted>,
    /// Others that need it: its package or its APIs.
    pub needed_by: Vec<String>,
    /// Others that use its APIs.
    pub users: Vec<String>,
    /// The account and permissions that install created, deleted last.
    pub installer: Vec<String>,
}

/// A CRD and its custom resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// The kind.
    pub kind: String,
    /// Number of custom resources; none if it is unknown.
    pub instances: Option<usize>,
    /// The reason why the number is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Number of custom resources by namespace; cluster-wide ones under the empty name.
    pub namespaces: BTreeMap<String, usize>,
}

/// Objects of a kind in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "named by what they are")]
pub struct Counted {
    pub kind: String,
    pub namespace: String,
    pub count: usize,
}

impl Preview {
    /// Returns the CRDs that have custom resources, or may have some.
    pub fn used(&self) -> impl Iterator<Item = &Definition> {
        self.definitions.iter().filter(|definition| definition.instances != Some(0))
    }
}

/// Builds the preview from the facts and the fate of each object.
pub(super) fn preview(facts: &Facts<'_>, fates: &[Fate]) -> Preview {
    let with =
        |wanted: fn(&Fate) -> bool| facts.objects.iter().zip(fates).filter(move |(_, fate)| wanted(fate)).map(|(own, _)| &own.object);
    let crds: Vec<&Value> =
        with(|fate| fate.goes() || *fate == Fate::KeptByChoice || fate.unreadable().is_some()).filter(|object| is_crd(object)).collect();
    let mut goes: Vec<ObjectRef> = with(Fate::goes).map(object::place).collect();
    delete_order(&mut goes);
    let mut deleted: Vec<String> = goes.iter().map(ToString::to_string).collect();
    let unreadable = |(own, fate): (_, &Fate)| Some(format!("{} (cannot be read: {})", object::place(own), fate.unreadable()?));
    deleted.extend(facts.objects.iter().map(|own| &own.object).zip(fates).filter_map(unreadable));
    let namespace = format!("Namespace {}", facts.namespace);
    let mut kept: Vec<String> =
        with(|fate| matches!(fate, Fate::KeptByChoice | Fate::Untied)).map(|own| object::place(own).to_string()).collect();
    if facts.choices.delete_namespace {
        deleted.push(format!("{namespace}, with everything else in it"));
    } else {
        kept.insert(0, namespace);
    }
    Preview {
        deleted,
        kept,
        definitions: crds.iter().map(|crd| definition(facts, crd)).collect(),
        operands: operands(&crds, facts.operands),
        needed_by: facts.needed_by.to_vec(),
        users: users(&crds, facts),
        installer: facts.installer.iter().map(ToString::to_string).collect(),
    }
}

fn definition(facts: &Facts<'_>, crd: &Value) -> Definition {
    let name = text(&crd["metadata"]["name"]);
    let (found, unknown) = match facts.instances.get(name) {
        Some(Ok(found)) => (Some(found), None),
        Some(Err(problem)) => (None, Some(problem.to_string())),
        None => (None, Some(NOT_ASKED.to_owned())),
    };
    let mut namespaces = BTreeMap::new();
    for namespace in found.into_iter().flatten() {
        *namespaces.entry(namespace.clone()).or_insert(0) += 1;
    }
    Definition {
        name: name.to_owned(),
        kind: text(&crd["spec"]["names"]["kind"]).to_owned(),
        instances: found.map(Vec::len),
        unknown,
        namespaces,
    }
}

/// Counts the objects that are owned by custom resources of these CRDs.
fn operands(crds: &[&Value], dependents: &[Value]) -> Vec<Counted> {
    let owned_by = |reference: &Value| {
        let group = text(&reference["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
        crds.iter().any(|crd| crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == reference["kind"])
    };
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for object in dependents {
        if object["metadata"]["ownerReferences"].as_array().is_some_and(|all| all.iter().any(owned_by)) {
            let target = object::place(object);
            *counts.entry((target.kind, target.namespace)).or_default() += 1;
        }
    }
    counts.into_iter().map(|((kind, namespace), count)| Counted { kind, namespace, count }).collect()
}

/// Describes the custom resources of a definition: `3 custom resources: 2 in a, 1 in b`.
impl fmt::Display for Definition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.instances, &self.unknown) {
            (Some(count), _) => out.write_str(&counted(count, "custom resource"))?,
            (None, Some(problem)) => write!(out, "custom resources unknown: {problem}")?,
            (None, None) => out.write_str("custom resources unknown")?,
        }
        let place = |(namespace, count): (&String, &usize)| format!("{count} in {namespace}");
        let places: Vec<String> = self.namespaces.iter().filter(|(namespace, _)| !namespace.is_empty()).map(place).collect();
        if places.is_empty() { Ok(()) } else { write!(out, ": {}", places.join(", ")) }
    }
}
