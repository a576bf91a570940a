//! Server-side apply.
//!
//! ```text
//!   live + config ── merge ── minus what this applier dropped and nobody else owns ── compare with live ── conflicts?
//! ```

use serde_json::{Map, Value};

use super::prune::{keeps, prune};
use super::update::{NotTaken, reconcile, release, take};
use super::versions::{self, changes, forms};
use super::{
    Conflict, Conflicts, EntryError, Managed, Manager, NotConverted, Operation, Owned, Pending, Versions, Write, bare, managed_fields,
    set_entries, system_fields,
};
use crate::typed::{Duplicates, Node};

/// The manager of fields that were there before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager for which objects move over from client-side apply.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations together may be this large.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The reason for refusing an apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The request is wrong (400).
    #[error("{0}")]
    BadRequest(String),
    /// The config does not fit the schema (500, as Kubernetes has it).
    #[error("{0}")]
    Typed(String),
    /// The live object's managedFields cannot be read (500).
    #[error("failed to decode managed fields: {0}")]
    Managed(#[from] EntryError),
    /// Other managers own fields that would change (409).
    #[error("{0}")]
    Conflict(Conflicts),
    /// An object is unavailable in the version of an owner (500).
    #[error("{0}")]
    NotConverted(String),
    /// An object is needed in another version first: only [`apply_across`] says so.
    #[error(transparent)]
    Pending(#[from] Pending),
}

impl From<NotConverted> for ApplyError {
    fn from(problem: NotConverted) -> Self {
        match problem {
            NotConverted::Pending => Self::Pending(Pending),
            NotConverted::Failed(why) => Self::NotConverted(why),
            NotConverted::Gone => Self::NotConverted("the kind has no such version".into()),
        }
    }
}

/// The result of an apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The object with its managedFields; fields that the write cannot change ([`Write::reset`]) are not yet put back.
    pub object: Value,
    /// True if anything but managedFields differs from the live object.
    pub changed: bool,
}

/// Applies `config` to `live` (null before a create).
pub fn apply(live: &Value, config: &Value, write: &Write<'_>, force: bool) -> Result<Applied, ApplyError> {
    applied(live, config, write, force, None)
}

/// The same for a kind with several versions, in each of which managers may own fields.
pub fn apply_across(live: &Value, config: &Value, write: &Write<'_>, force: bool, versions: &dyn Versions) -> Result<Applied, ApplyError> {
    applied(live, config, write, force, Some(versions))
}

fn applied(live: &Value, config: &Value, write: &Write<'_>, force: bool, versions: Option<&dyn Versions>) -> Result<Applied, ApplyError> {
    let given = config.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if given != write.api_version {
        return Err(ApplyError::BadRequest(format!(
            "Incorrect version specified in apply patch. Specified patch version: {given}, expected: {}",
            write.api_version
        )));
    }
    if managed_fields(config).is_some_and(|entries| !entries.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".into()));
    }
    let mut managed = Managed::decode(managed_fields(live))?;
    let live = bare(live);
    let node = Node::object(write.schema);
    if managed.is_empty() {
        let empty = versions.map_or_else(|| Value::Object(Map::new()), Versions::empty);
        take(&mut managed, &empty, &live, write, BEFORE_FIRST_APPLY, versions).map_err(|problem| match problem {
            NotTaken::Typed(problem) => ApplyError::Typed(format!(
                "failed to create manager for existing fields: failed to convert new object ({}) to smd typed: {problem}",
                described(&live)
            )),
            NotTaken::Versions(problem) => problem.into(),
        })?;
    }

    let result = match merge(&live, config, managed.clone(), write, force, versions) {
        Err(ApplyError::Conflict(conflicts)) if write.manager == KUBECTL => {
            match migrate(&live, &conflicts, node, write) {
                // All conflicts are with fields that client-side apply had set: it is the same user.
                Some(rest) if rest.0.is_empty() => merge(&live, config, managed, write, true, versions)?,
                Some(rest) => return Err(ApplyError::Conflict(rest)),
                None => return Err(ApplyError::Conflict(conflicts)),
            }
        }
        other => other?,
    };
    let (merged, managed) = result;
    let changed = merged.is_some();
    let mut object = merged.unwrap_or(live);
    let mut synced = false;
    if write.manager == KUBECTL {
        synced = sync_last_applied(&mut object, config);
    }
    set_entries(&mut object, managed.encode());
    Ok(Applied { object, changed: changed || synced })
}

/// The new object, if anything is to change, and its owners.
type Merged = (Option<Value>, Managed);

fn merge(
    live: &Value,
    config: &Value,
    mut managed: Managed,
    write: &Write<'_>,
    force: bool,
    versions: Option<&dyn Versions>,
) -> Result<Merged, ApplyError> {
    let node = Node::object(write.schema);
    node.validate(config, Duplicates::Refused)
        .map_err(|problem| ApplyError::Typed(format!("failed to create typed patch object ({}): {problem}", described(config))))?;
    node.validate(live, Duplicates::Allowed)
        .map_err(|problem| ApplyError::Typed(format!("failed to create typed live object ({}): {problem}", described(live))))?;

    let merged = node.overlay(live, config);
    let laid = merged.as_ref().unwrap_or(live);
    let mut other_forms = forms(&mut managed, [live, laid], write, versions)?;
    reconcile(&mut managed, &other_forms, write);
    let manager = Manager::new(write.manager, Operation::Apply, write.api_version, write.subresource);
    let last = managed.0.get(&manager).cloned();
    let fields = node.field_set(config).recursive_difference(write.reset);
    let kept = last.as_ref().is_none_or(|last| keeps(&fields, &last.fields));
    let owned = Owned { api_version: write.api_version.to_owned(), time: last.as_ref().and_then(|last| last.time.clone()), fields };
    managed.0.insert(manager.clone(), owned);

    let pruned = match (&last, versions) {
        (Some(last), Some(versions)) if !last.fields.is_empty() && !other_forms.is_empty() => {
            let object = versions::prune(laid, &managed, last, write, versions)?;
            if object == *laid {
                None
            } else {
                other_forms = forms(&mut managed, [live, &object], write, Some(versions))?;
                Some(object)
            }
        }
        (Some(last), _) if !kept => prune(laid, &managed, &last.fields, node),
        _ => None,
    };
    let object = pruned.or(merged);

    if let Some(object) = &object {
        let changes = changes(live, object, &other_forms, write);
        let touched = changes.map(|comparison| comparison.modified.union(&comparison.added));
        let mut conflicts = Vec::new();
        for (other, owned) in managed.iter().filter(|(other, _)| **other != manager) {
            let paths = owned.fields.intersection(touched.of(&owned.api_version)).paths();
            conflicts.extend(paths.into_iter().map(|path| Conflict { manager: other.clone(), path }));
        }
        if !force && !conflicts.is_empty() {
            return Err(ApplyError::Conflict(Conflicts(conflicts)));
        }
        release(&mut managed, &changes, Some(&manager));
    }
    // Values that differ in form alone, as 1 and 1.0 do, count as equal.
    let object = object.filter(|object| !crate::fieldset::equal(live, object));
    if let Some(owned) = managed.0.get_mut(&manager) {
        owned.fields = owned.fields.difference(system_fields());
        if object.is_some() {
            owned.time = Some(write.now.to_owned());
        }
    }
    managed.drop_empty();
    Ok((object, managed))
}

/// The conflicts that remain when fields set by client-side apply count as the applier's own; `None` if it was never used.
fn migrate(live: &Value, conflicts: &Conflicts, node: Node<'_>, write: &Write<'_>) -> Option<Conflicts> {
    let text = live.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(write.api_version) {
        return None;
    }
    node.validate(&last, Duplicates::Refused).ok()?;
    let comparison = node.compare(&last, live);
    let own = node.field_set(&last).difference(&comparison.modified).difference(&comparison.added).difference(&comparison.removed);
    let rest = conflicts.0.iter().filter(|conflict| !own.contains(&conflict.path.0)).cloned().collect();
    Some(Conflicts(rest))
}

/// Keeps the annotation of client-side apply up to date, if there is one; returns true if it changed.
fn sync_last_applied(object: &mut Value, config: &Value) -> bool {
    let Some(Value::Object(annotations)) = object.get_mut("metadata").and_then(|meta| meta.get_mut("annotations")) else {
        return false;
    };
    if annotations.get(LAST_APPLIED).and_then(Value::as_str).is_none_or(str::is_empty) {
        return false;
    }
    let mut config = config.clone();
    if let Some(Value::Object(own)) = config.get_mut("metadata").and_then(|meta| meta.get_mut("annotations")) {
        own.remove(LAST_APPLIED);
    }
    let text = format!("{config}\n");
    let others: usize =
        annotations.iter().filter(|(key, _)| *key != LAST_APPLIED).map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if others + LAST_APPLIED.len() + text.len() > ANNOTATIONS_LIMIT {
        annotations.remove(LAST_APPLIED);
        return true;
    }
    let text = Value::String(text);
    if annotations.get(LAST_APPLIED) == Some(&text) {
        return false;
    }
    annotations.insert(LAST_APPLIED.into(), text);
    true
}

/// `namespace/name; group/version, Kind=K`.
fn described(object: &Value) -> String {
    let meta = |key: &str| object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default();
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let version = text("apiVersion");
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{}/{}; {slash}{version}, Kind={}", meta("namespace"), meta("name"), text("kind"))
}
