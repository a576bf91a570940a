//! Ownership by writes other than apply: a writer owns what it changed, and takes it from all other owners.

use std::collections::BTreeMap;

use serde_json::Value;

use super::versions::{Forms, PerVersion, changes, forms};
use super::{
    MAX_UPDATE_MANAGERS, Managed, Manager, NotConverted, Operation, Owned, Pending, Versions, Write, bare, managed_fields, set_entries,
    system_fields,
};
use crate::typed::{Comparison, Duplicates, Node, Violations};

/// The manager that old updates beyond [`MAX_UPDATE_MANAGERS`] are joined into.
const ANCIENT: &str = "ancient-changes";

/// `new` with the managedFields that follow from writing it over `live` (null before a create).
///
/// Objects are compared by their schema, so both should be in the form in which they are stored: defaulted, and without
/// nulls and empty fields that the kind does not keep.
#[must_use]
pub fn update(live: &Value, new: &Value, write: &Write<'_>) -> Value {
    // Nothing is pending if nothing is converted.
    updated(live, new, write, None).unwrap_or_else(|Pending| bare(new))
}

/// The same for a kind with several versions, in each of which managers may own fields.
pub fn update_across(live: &Value, new: &Value, write: &Write<'_>, versions: &dyn Versions) -> Result<Value, Pending> {
    updated(live, new, write, Some(versions))
}

fn updated(live: &Value, new: &Value, write: &Write<'_>, versions: Option<&dyn Versions>) -> Result<Value, Pending> {
    let mut out = bare(new);
    let mut managed = starting_point(live, new, write);
    let creates = live.pointer("/metadata/uid").and_then(Value::as_str).is_none_or(str::is_empty);
    // An existing object without owners stays without them until the first apply.
    if !managed.is_empty() || creates {
        match take(&mut managed, &bare(live), &out, write, write.manager, versions) {
            Ok(()) => {}
            Err(NotTaken::Versions(NotConverted::Pending)) => return Err(Pending),
            // The owners of an object that does not fit its schema cannot be determined; as upstream, nothing is owned then.
            Err(_) => return Ok(out),
        }
    }
    set_entries(&mut out, managed.encode());
    Ok(out)
}

/// The request may set managedFields itself; an empty list resets them, and nothing (or nonsense) keeps those of the live object.
fn starting_point(live: &Value, new: &Value, write: &Write<'_>) -> Managed {
    // Nonsense counts as nothing, as upstream has it: ownership must not make an object unwritable.
    let live = || Managed::decode(managed_fields(live)).unwrap_or_default();
    if !write.subresource.is_empty() {
        return live();
    }
    match managed_fields(new) {
        Some(Value::Array(entries)) if is_reset(entries) => Managed::default(),
        given => match Managed::decode(given) {
            Ok(managed) if !managed.is_empty() => managed,
            _ => live(),
        },
    }
}

fn is_reset(entries: &[Value]) -> bool {
    match entries {
        [] => true,
        [Value::Object(entry)] => entry.is_empty(),
        _ => false,
    }
}

/// The reason why owners cannot be determined.
pub(super) enum NotTaken {
    /// An object does not fit its schema.
    Typed(Violations),
    /// An object is unavailable in the version of an owner.
    Versions(NotConverted),
}

impl From<Violations> for NotTaken {
    fn from(problem: Violations) -> Self {
        Self::Typed(problem)
    }
}

impl From<NotConverted> for NotTaken {
    fn from(problem: NotConverted) -> Self {
        Self::Versions(problem)
    }
}

/// Gives `manager` what differs between `live` and `new`.
pub(super) fn take(
    managed: &mut Managed,
    live: &Value,
    new: &Value,
    write: &Write<'_>,
    manager: &str,
    versions: Option<&dyn Versions>,
) -> Result<(), NotTaken> {
    let node = Node::object(write.schema);
    node.validate(new, Duplicates::Allowed)?;
    node.validate(live, Duplicates::Allowed)?;
    let forms = forms(managed, [live, new], write, versions)?;
    reconcile(managed, &forms, write);
    let changes = changes(live, new, &forms, write);
    release(managed, &changes, None);
    let taken = changes.own.modified.union(&changes.own.added).difference(system_fields());
    if !taken.is_empty() {
        let manager = Manager::new(manager, Operation::Update, write.api_version, write.subresource);
        let fields = match managed.0.get(&manager) {
            Some(before) => before.fields.union(&taken),
            None => taken,
        };
        managed.0.insert(manager, Owned { api_version: write.api_version.to_owned(), time: Some(write.now.to_owned()), fields });
    }
    cap(managed);
    Ok(())
}

/// Takes what changed from all managers but one.
pub(super) fn release(managed: &mut Managed, changes: &PerVersion<Comparison>, but: Option<&Manager>) {
    let changed = changes.map(|comparison| comparison.modified.union(&comparison.added).union(&comparison.removed));
    for (manager, owned) in &mut managed.0 {
        if Some(manager) != but {
            owned.fields = owned.fields.difference(changed.of(&owned.api_version));
        }
    }
    managed.drop_empty();
}

/// Fields below what has become atomic since are owned as the whole, by the schema of each owner's version.
pub(super) fn reconcile(managed: &mut Managed, forms: &Forms, write: &Write<'_>) {
    for owned in managed.0.values_mut() {
        if owned.api_version == write.api_version {
            owned.fields = Node::object(write.schema).collapse(&owned.fields);
        } else if let Some([form, _]) = forms.get(&owned.api_version) {
            owned.fields = Node::object(&form.schema).collapse(&owned.fields);
        }
    }
}

/// Joins the oldest updates of a version until there are few enough.
fn cap(managed: &mut Managed) {
    let mut updaters: Vec<(Option<String>, Manager)> = managed
        .0
        .iter()
        .filter(|(manager, _)| manager.operation == Operation::Update)
        .map(|(manager, owned)| (owned.time.clone(), manager.clone()))
        .collect();
    let mut count = updaters.len();
    if count <= MAX_UPDATE_MANAGERS {
        return;
    }
    updaters.sort();
    let mut first_of: BTreeMap<String, Manager> = BTreeMap::new();
    for (_, manager) in updaters {
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        let version = manager.api_version.clone();
        let Some(first) = first_of.get(&version) else {
            first_of.insert(version, manager);
            continue;
        };
        let bucket = Manager::new(ANCIENT, Operation::Update, &version, "");
        if !managed.0.contains_key(&bucket)
            && let Some(owned) = managed.0.remove(first)
        {
            managed.0.insert(bucket.clone(), owned);
        }
        if let Some(owned) = managed.0.remove(&manager)
            && let Some(joined) = managed.0.get_mut(&bucket)
        {
            joined.fields = joined.fields.union(&owned.fields);
            // The later of the two.
            joined.time = owned.time;
        }
        count -= 1;
    }
}

/// Puts the old managedFields back if nothing but their times changed, so that such a write changes nothing.
pub fn keep_times(old: &Value, new: &mut Value) {
    let entries = |object| managed_fields(object).and_then(Value::as_array);
    if let (Some(before), Some(after)) = (entries(old), entries(new))
        && same_owners(before, after)
        && same_but(old, new, &["metadata"])
        && same_meta(old, new)
    {
        set_entries(new, before.clone());
    }
}

fn same_meta(old: &Value, new: &Value) -> bool {
    match (old.get("metadata"), new.get("metadata")) {
        (Some(old), Some(new)) => same_but(old, new, &["managedFields", "resourceVersion"]),
        (old, new) => old == new,
    }
}

/// Times decide the order, too; the owners tell the entries apart.
fn same_owners(old: &[Value], new: &[Value]) -> bool {
    let (old, new) = (by_owner(old), by_owner(new));
    old.len() == new.len() && old.iter().zip(new).all(|(left, right)| same_but(left, right, &["time"]))
}

fn by_owner(entries: &[Value]) -> Vec<&Value> {
    let mut entries: Vec<&Value> = entries.iter().collect();
    entries.sort_by_key(|entry| ["manager", "operation", "apiVersion", "subresource"].map(|name| entry.get(name).and_then(Value::as_str)));
    entries
}

/// Returns true if two objects are the same in all members but the ignored ones.
fn same_but(left: &Value, right: &Value, ignored: &[&str]) -> bool {
    let (Value::Object(left), Value::Object(right)) = (left, right) else {
        return left == right;
    };
    let counts = |(name, _): &(&String, &Value)| !ignored.contains(&name.as_str());
    left.iter().filter(counts).eq(right.iter().filter(counts))
}
