//! A plan of an update from one release to another (MS-PLAN-01, CVO-GRAPH-11): what is created, changed and deleted, in which order, and what is
//! waited for.
//!
//! The cluster is taken to be as the old release wants it, or as its objects were read. Every write is computed by the same rules as when the update is done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mainstay_lifecycle::preview::{FieldChange, fields};
use mainstay_release::{Capabilities, FileName, Filter, Manifest, ManifestId, Mode, TaskGraph, implied};
use serde::Serialize;
use serde_json::Value;

use crate::apply::{self, ApplyError, Change, ClusterVersionRef};
use crate::deletion::{InvalidAnnotation, is_deletion};
use crate::inject::{self, InjectError, Settings};

/// One release, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its version.
    pub version: &'a str,
    /// All its manifests in load order.
    pub manifests: &'a [Manifest],
}

/// The objects of a cluster, by the manifests that are about them; what is absent is not there.
pub type Live = BTreeMap<ManifestId, Value>;

/// A cluster as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// The objects of [`concerned`].
    pub objects: &'a Live,
    /// Its ClusterVersion, the owner of all objects.
    pub owner: ClusterVersionRef<'a>,
    /// Its settings that manifests get.
    pub settings: &'a Settings,
}

/// The plan of an update.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The version that the cluster has.
    pub from: String,
    /// The version that it gets.
    pub to: String,
    /// True if the new release names the old one among those that may update to it.
    pub is_offered: bool,
    /// Capabilities that the update switches on (CVO-CAP-05).
    pub implicit_capabilities: BTreeSet<String>,
    /// The groups of manifests in the order in which they are applied; those with the same step at once.
    pub groups: Vec<Group>,
    /// Manifests of the new release that do not belong to the cluster.
    pub excluded: Vec<Excluded>,
    /// Objects of the old release that the new one does not have: they stay as they are (CVO-DEL-05).
    pub left: Vec<Left>,
    /// Objects that several manifests of the new release are about; all of them are applied, in this order (CVO-INC-05).
    pub duplicates: Vec<Duplicate>,
    /// Numbers of manifests by what becomes of them.
    pub summary: Summary,
}

/// Manifests that are applied one after the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The step in which it begins at the earliest, counted from 1.
    pub step: usize,
    /// The runlevels of its files, in order; neighbours that stand alone are one group. None for files of other names.
    pub runlevels: Vec<String>,
    /// The components of its files.
    pub components: Vec<String>,
    /// True if nothing is applied beside it (CVO-GRAPH-04).
    pub barrier: bool,
    /// The objects.
    pub objects: Vec<Object>,
}

/// An object, and what the update does to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Object {
    /// The object.
    #[serde(flatten)]
    pub id: Id,
    /// Its manifest.
    pub file: String,
    /// The effect.
    #[serde(flatten)]
    pub effect: Effect,
    /// The state that is waited for before the group goes on (CVO-HEALTH-01, CVO-HEALTH-04).
    #[serde(rename = "waitsFor", skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
}

/// The name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[allow(missing_docs, reason = "the fields are those of the object")]
pub struct Id {
    pub group: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

/// The fate of an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "effect", rename_all = "camelCase")]
pub enum Effect {
    /// It is created.
    Create,
    /// Fields of it change.
    Update {
        /// The fields, at most 100.
        changes: Vec<FieldChange>,
        /// The number of further fields.
        #[serde(skip_serializing_if = "is_zero")]
        omitted: usize,
    },
    /// It stays as it is.
    Unchanged,
    /// It is deleted, if it is there (CVO-DEL-01).
    Delete,
    /// It was deleted by the old release already.
    Gone,
    /// The manifest cannot be applied; the update would fail here.
    Fault {
        /// The reason.
        reason: String,
    },
}

/// A manifest that does not belong to the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Excluded {
    /// The object.
    #[serde(flatten)]
    pub id: Id,
    /// Its manifest.
    pub file: String,
    /// The filter's reason.
    pub reason: String,
}

/// An object that stays although the release no longer has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Left {
    /// The object.
    #[serde(flatten)]
    pub id: Id,
    /// The manifest of the old release.
    pub file: String,
    /// The filter's reason, if the new release has a manifest that is excluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded: Option<String>,
}

/// An object of several manifests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Duplicate {
    /// The object.
    #[serde(flatten)]
    pub id: Id,
    /// The manifests, in the order in which they are applied.
    pub files: Vec<String>,
}

/// Numbers of manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "by effect")]
pub struct Summary {
    pub created: usize,
    pub updated: usize,
    pub unchanged: usize,
    pub deleted: usize,
    pub faults: usize,
    pub excluded: usize,
    pub left: usize,
}

/// A manifest that would fail when it is applied.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Annotation(#[from] InvalidAnnotation),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Inject(#[from] InjectError),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl From<&ManifestId> for Id {
    fn from(id: &ManifestId) -> Self {
        Self { group: id.group.clone(), kind: id.kind.clone(), namespace: id.namespace.clone(), name: id.name.clone() }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.to_lowercase();
        if self.namespace.is_empty() { write!(out, "{kind} {}", self.name) } else { write!(out, "{kind} {}/{}", self.namespace, self.name) }
    }
}

impl Plan {
    /// Plans the update of a cluster that `filter` describes; its capabilities are those given. `previous` are the versions that the new release
    /// names as those that may update to it. The cluster is as the old release wants it.
    pub fn new(from: Side<'_>, to: Side<'_>, previous: &[String], filter: &Filter<'_>, capabilities: &Capabilities) -> Self {
        Self::of(from, to, previous, filter, capabilities, None)
    }

    /// Plans the update of a cluster that was read.
    pub fn against(
        cluster: Cluster<'_>,
        from: Side<'_>,
        to: Side<'_>,
        previous: &[String],
        filter: &Filter<'_>,
        capabilities: &Capabilities,
    ) -> Self {
        Self::of(from, to, previous, filter, capabilities, Some(cluster))
    }

    fn of(
        from: Side<'_>,
        to: Side<'_>,
        previous: &[String],
        filter: &Filter<'_>,
        capabilities: &Capabilities,
        cluster: Option<Cluster<'_>>,
    ) -> Self {
        let implicit = implied(&loaded(to.manifests, filter), &loaded(from.manifests, filter), capabilities);
        let mut then = capabilities.clone();
        then.imply(implicit.iter().cloned());
        let (now, then) = (Filter { capabilities: Some(capabilities), ..*filter }, Filter { capabilities: Some(&then), ..*filter });
        // Several manifests of one object: the last one is what the cluster has.
        let before: BTreeMap<&ManifestId, &Manifest> =
            from.manifests.iter().filter(|one| now.exclusion(one).is_none()).map(|one| (one.id(), one)).collect();
        let (mut included, mut excluded) = (Vec::new(), Vec::new());
        for manifest in to.manifests {
            match then.exclusion(manifest) {
                None => included.push(manifest),
                Some(reason) => {
                    excluded.push(Excluded { id: manifest.id().into(), file: manifest.file().to_owned(), reason: reason.to_string() });
                }
            }
        }
        let left = left(&before, &included, &excluded);
        let mut planning = Planning { before, cluster, current: BTreeMap::new() };
        let effects: Vec<Effect> = included.iter().map(|manifest| planning.effect(manifest)).collect();
        let graph = TaskGraph::new(&included, Mode::Updating);
        let groups: Vec<Group> = graph.groups().into_iter().map(|(step, members)| group(step, &members, &included, &effects)).collect();
        let count = |wanted: fn(&Effect) -> bool| effects.iter().filter(|effect| wanted(effect)).count();
        let summary = Summary {
            created: count(|effect| matches!(effect, Effect::Create)),
            updated: count(|effect| matches!(effect, Effect::Update { .. })),
            unchanged: count(|effect| matches!(effect, Effect::Unchanged | Effect::Gone)),
            deleted: count(|effect| matches!(effect, Effect::Delete)),
            faults: count(|effect| matches!(effect, Effect::Fault { .. })),
            excluded: excluded.len(),
            left: left.len(),
        };
        Self {
            from: from.version.to_owned(),
            to: to.version.to_owned(),
            is_offered: previous.iter().any(|version| version == from.version),
            implicit_capabilities: implicit.difference(&capabilities.implicitly_enabled).cloned().collect(),
            duplicates: duplicates(&included),
            groups,
            excluded,
            left,
            summary,
        }
    }
}

/// The manifests of a release whose objects an update to it may write: all that the cluster's filter lets through, with any capabilities.
pub fn concerned<'m>(manifests: &'m [Manifest], filter: &Filter<'_>) -> Vec<&'m Manifest> {
    loaded(manifests, filter)
}

/// The manifests that survive loading: all filters but that of disabled capabilities.
fn loaded<'m>(manifests: &'m [Manifest], filter: &Filter<'_>) -> Vec<&'m Manifest> {
    let filter = Filter { capabilities: None, ..*filter };
    manifests.iter().filter(|manifest| filter.exclusion(manifest).is_none()).collect()
}

fn left(before: &BTreeMap<&ManifestId, &Manifest>, included: &[&Manifest], excluded: &[Excluded]) -> Vec<Left> {
    let wanted: BTreeSet<&ManifestId> = included.iter().map(|manifest| manifest.id()).collect();
    let reasons: BTreeMap<&Id, &str> = excluded.iter().map(|one| (&one.id, &*one.reason)).collect();
    let gone = before.iter().filter(|(id, manifest)| !wanted.contains(**id) && !is_deletion(manifest.annotations()).unwrap_or_default());
    let mut left: Vec<Left> = gone
        .map(|(id, manifest)| {
            let id = Id::from(*id);
            Left { excluded: reasons.get(&id).map(|reason| (*reason).to_owned()), id, file: manifest.file().to_owned() }
        })
        .collect();
    left.sort_by(|one, other| (&one.file, &one.id).cmp(&(&other.file, &other.id)));
    left
}

fn duplicates(included: &[&Manifest]) -> Vec<Duplicate> {
    let mut files = BTreeMap::<&ManifestId, Vec<String>>::new();
    for manifest in included {
        files.entry(manifest.id()).or_default().push(manifest.file().to_owned());
    }
    files.into_iter().filter(|(_, files)| files.len() > 1).map(|(id, files)| Duplicate { id: id.into(), files }).collect()
}

struct Planning<'a> {
    /// The objects of the old release.
    before: BTreeMap<&'a ManifestId, &'a Manifest>,
    /// The cluster, if it was read.
    cluster: Option<Cluster<'a>>,
    /// Objects that an earlier manifest of the new release wrote; none if it deleted them.
    current: BTreeMap<ManifestId, Option<Value>>,
}

impl Planning<'_> {
    fn effect(&mut self, manifest: &Manifest) -> Effect {
        self.decided(manifest).unwrap_or_else(|fault| Effect::Fault { reason: fault.to_string() })
    }

    fn decided(&mut self, manifest: &Manifest) -> Result<Effect, Fault> {
        let id = manifest.id();
        let before = self.before.get(id).copied();
        let was_deleted = before.is_some_and(|before| is_deletion(before.annotations()).unwrap_or_default());
        if is_deletion(manifest.annotations())? {
            self.current.insert(id.clone(), None);
            let is_gone = self.cluster.map_or(was_deleted, |cluster| !cluster.objects.contains_key(id));
            return Ok(if is_gone { Effect::Gone } else { Effect::Delete });
        }
        let before = before.filter(|_| !was_deleted).map(Manifest::object);
        let wanted = match &self.cluster {
            Some(cluster) => inject::wanted(&manifest.object(), &cluster.owner, cluster.settings)?,
            None => manifest.object().into_owned(),
        };
        let live = match (self.current.get(id), self.cluster) {
            (Some(written), _) => written.clone(),
            (None, Some(cluster)) => cluster.objects.get(id).cloned(),
            (None, None) if before.as_ref() == Some(&manifest.object()) => return Ok(Effect::Unchanged),
            (None, None) => before.map(|before| settled(&before)).transpose()?,
        };
        let (effect, written) = match apply::change(live.as_ref(), &wanted)? {
            Change::None => (Effect::Unchanged, live),
            Change::Create(object) => (Effect::Create, Some(object)),
            Change::Update(object) => {
                let live = live.unwrap_or_default();
                let (changes, omitted) = fields::changes(&live, &object, Some(&live));
                // Neither the form of a client nor what the server fills in again is a change.
                let is_change = !changes.is_empty() && apply::is_change(&live, &object);
                (if is_change { Effect::Update { changes, omitted } } else { Effect::Unchanged }, Some(object))
            }
        };
        self.current.insert(id.clone(), written);
        Ok(effect)
    }
}

/// Returns a group of tasks with the effect of each.
fn group(step: usize, members: &[usize], included: &[&Manifest], effects: &[Effect]) -> Group {
    let names = || members.iter().filter_map(|&member| FileName::parse(included[member].file()));
    let object = |&member: &usize| {
        let (manifest, effect) = (&included[member], &effects[member]);
        let wait = if matches!(effect, Effect::Delete | Effect::Gone) { None } else { wait(manifest) };
        Object { id: manifest.id().into(), file: manifest.file().to_owned(), effect: effect.clone(), wait }
    };
    Group {
        step,
        runlevels: distinct(names().map(|name| name.level.to_string())),
        components: distinct(names().map(|name| name.component.to_owned())),
        barrier: members.iter().any(|&member| included[member].is_barrier()),
        objects: members.iter().map(object).collect(),
    }
}

/// Returns the object that a cluster has after a manifest was applied: with the defaults that each write of it sets.
fn settled(manifest: &Value) -> Result<Value, ApplyError> {
    Ok(match apply::change(Some(manifest), manifest)? {
        Change::Update(object) => object,
        Change::None | Change::Create(_) => manifest.clone(),
    })
}

/// Texts without those that are like the one before.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut distinct: Vec<String> = texts.collect();
    distinct.dedup();
    distinct
}

/// The state of an applied object that an update waits for.
fn wait(manifest: &Manifest) -> Option<String> {
    let id = manifest.id();
    Some(match (&*id.group, &*id.kind) {
        ("config.openshift.io", "ClusterOperator") => {
            let object = manifest.object();
            let versions = object["status"]["versions"].as_array();
            let named: Vec<String> = versions
                .into_iter()
                .flatten()
                .filter_map(|version| Some(format!("{} {}", version["name"].as_str()?, version["version"].as_str()?)))
                .collect();
            format!("Available, not Degraded, at {}", named.join(", "))
        }
        ("apps", "Deployment") => "not failing to roll out".to_owned(),
        ("apps", "DaemonSet") => "not being deleted".to_owned(),
        ("batch", "Job") => "not failed".to_owned(),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => "Established".to_owned(),
        _ => return None,
    })
}
