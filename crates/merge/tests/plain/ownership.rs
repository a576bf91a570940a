//! Who owns what, by the rules of server-side apply as sentences over sets of paths.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::types::{Path, Type};

/// Paths.
pub type Set = BTreeSet<Path>;

/// By manager and operation: since when, and what.
pub type Owners = BTreeMap<(String, String), (Option<String>, Set)>;

/// Conflicts, each as `MANAGER OPERATION PATH`.
#[derive(Debug)]
pub struct Refused(pub Vec<String>);

/// One object and its owners.
pub struct World<'a> {
    kind: &'a Type,
    /// The object without managedFields.
    pub object: Option<Value>,
    /// Its owners.
    pub owners: Owners,
}

/// What differs between two values.
struct Difference {
    removed: Set,
    modified: Set,
    added: Set,
}

impl Difference {
    fn written(&self) -> Set {
        self.modified.union(&self.added).cloned().collect()
    }

    fn all(&self) -> Set {
        self.written().union(&self.removed).cloned().collect()
    }
}

impl<'a> World<'a> {
    /// Nothing yet.
    pub fn new(kind: &'a Type) -> Self {
        Self { kind, object: None, owners: Owners::new() }
    }

    /// Somebody replaces the object: who writes it owns what changes, and nobody else does.
    pub fn update(&mut self, manager: &str, body: &Value, now: &str) {
        let body = stored(self.kind, body);
        // An object that nobody owns stays so until somebody applies.
        if self.object.is_none() || !self.owners.is_empty() {
            self.take(manager, &self.live(), &body, now);
        }
        self.object = Some(body);
    }

    fn live(&self) -> Value {
        self.object.clone().unwrap_or_else(|| Value::Object(Map::new()))
    }

    fn take(&mut self, manager: &str, old: &Value, new: &Value, now: &str) {
        let difference = self.difference(old, new);
        self.lose(&difference.all(), None);
        let taken = without_system(&difference.written());
        if !taken.is_empty() {
            let owned = self.owners.entry((manager.to_owned(), "Update".to_owned())).or_default();
            owned.0 = Some(now.to_owned());
            owned.1.extend(taken);
        }
    }

    fn lose(&mut self, lost: &Set, but: Option<&(String, String)>) {
        for (owner, (_, fields)) in &mut self.owners {
            if Some(owner) != but {
                fields.retain(|path| !lost.contains(path));
            }
        }
        self.owners.retain(|_, (_, fields)| !fields.is_empty());
    }

    /// Somebody applies: owns what is in the config, and no more what was in the last one; nobody else's fields may change
    /// unless by force.
    pub fn apply(&mut self, manager: &str, config: &Value, force: bool, now: &str) -> Result<(), Refused> {
        let live = self.live();
        let before = self.owners.clone();
        if self.owners.is_empty() {
            // Whoever made the object owns it.
            self.take("before-first-apply", &Value::Object(Map::new()), &live, now);
        }
        let owner = (manager.to_owned(), "Apply".to_owned());
        let last = self.owners.get(&owner).cloned();
        let time = last.as_ref().and_then(|(time, _)| time.clone());
        self.owners.insert(owner.clone(), (time, self.fields(config)));

        let merged = merge(self.kind, Some(&live), Some(config));
        let object = last.map_or_else(|| merged.clone(), |(_, last)| self.pruned(&merged, &last));

        let difference = self.difference(&live, &object);
        let written = difference.written();
        let mut conflicts = Vec::new();
        for ((manager, operation), (_, fields)) in self.owners.iter().filter(|(other, _)| **other != owner) {
            conflicts.extend(fields.intersection(&written).map(|path| format!("{manager} {operation} {}", displayed(path))));
        }
        if !force && !conflicts.is_empty() {
            self.owners = before;
            return Err(Refused(conflicts));
        }
        self.lose(&difference.all(), Some(&owner));
        if let Some((time, fields)) = self.owners.get_mut(&owner) {
            *fields = without_system(fields);
            if object != live {
                *time = Some(now.to_owned());
            }
        }
        self.owners.retain(|_, (_, fields)| !fields.is_empty());
        // Where all is as before but the times, these are, too.
        let object = stored(self.kind, &object);
        if self.object.as_ref() == Some(&object) && timeless(&self.owners) == timeless(&before) {
            self.owners = before;
        }
        self.object = Some(object);
        Ok(())
    }

    /// The object without what the applier had applied and now nobody owns.
    fn pruned(&self, merged: &Value, last: &Set) -> Value {
        let last = self.with_parents(last);
        let all = self.with_parents(&self.fields(merged));
        // All that the applier had goes, with all that hangs on it.
        let rest = self.without(merged, &last);
        // What somebody owns comes back.
        let everyone: Set = self.owners.values().flat_map(|(_, fields)| fields.iter().cloned()).collect();
        let mut kept = self.with_parents(&self.fields(&rest));
        kept.extend(self.with_parents(&everyone));
        let rest = self.without(merged, &all.difference(&kept).cloned().collect());
        // What the applier never had comes back.
        let left = self.with_parents(&self.fields(&rest));
        self.without(merged, &all.difference(&left).filter(|path| last.contains(*path)).cloned().collect())
    }

    /// What an applier of this owns: units, empty maps, nulls, parts that the schema does not name, and items of lists.
    fn fields(&self, value: &Value) -> Set {
        fn walk(kind: &Type, value: &Value, path: &mut Path, out: &mut Set) {
            for (step, part) in kind.parts(value) {
                let (below, named) = kind.child(&step).unwrap();
                path.push(step);
                if below.is_unit() || part.is_null() || part == json!({}) || !named {
                    out.insert(path.clone());
                }
                walk(&below, &part, path, out);
                path.pop();
            }
        }
        let mut out = Set::new();
        walk(self.kind, value, &mut Vec::new(), &mut out);
        out
    }

    /// Together with the named fields on the way to each path.
    fn with_parents(&self, set: &Set) -> Set {
        let mut out = set.clone();
        for path in set {
            let mut kind = self.kind.clone();
            for (index, step) in path.iter().enumerate() {
                let (below, named) = kind.child(step).unwrap();
                if named && index + 1 < path.len() {
                    out.insert(path[..=index].to_vec());
                }
                kind = below;
            }
        }
        out
    }

    /// The value without these places and what is below them; what has lost all its parts is null.
    fn without(&self, value: &Value, gone: &Set) -> Value {
        fn walk(kind: &Type, value: &Value, path: &mut Path, gone: &Set) -> Value {
            if !gone.iter().any(|other| other.len() > path.len() && other.starts_with(path)) {
                return value.clone();
            }
            let mut left = Vec::new();
            for (step, part) in kind.parts(value) {
                let below = kind.child(&step).unwrap().0;
                path.push(step.clone());
                if !gone.contains(path) {
                    left.push((step, walk(&below, &part, path, gone)));
                }
                path.pop();
            }
            if left.is_empty() { Value::Null } else { kind.assembled(left) }
        }
        walk(self.kind, value, &mut Vec::new(), gone)
    }

    fn difference(&self, old: &Value, new: &Value) -> Difference {
        let (old, new) = (places(self.kind, old), places(self.kind, new));
        let only = |one: &BTreeMap<Path, Option<Value>>, other: &BTreeMap<Path, Option<Value>>| -> Set {
            one.keys().filter(|path| !other.contains_key(*path)).cloned().collect()
        };
        let differs = |path: &&Path| matches!((&old[*path], new.get(*path)), (Some(left), Some(Some(right))) if left != right);
        Difference { removed: only(&old, &new), modified: old.keys().filter(differs).cloned().collect(), added: only(&new, &old) }
    }
}

/// The object as the API server stores it.
pub fn stored(kind: &Type, object: &Value) -> Value {
    let mut object = kind.defaulted(object);
    object["metadata"]["uid"] = json!("u");
    object
}

/// Every place of a value; with its content where that is compared as one: units, and what has no parts.
fn places(kind: &Type, value: &Value) -> BTreeMap<Path, Option<Value>> {
    fn walk(kind: &Type, value: &Value, path: &mut Path, out: &mut BTreeMap<Path, Option<Value>>) {
        for (step, part) in kind.parts(value) {
            let below = kind.child(&step).unwrap().0;
            let whole = below.is_unit() || below.parts(&part).is_empty();
            path.push(step);
            out.insert(path.clone(), whole.then(|| part.clone()));
            walk(&below, &part, path, out);
            path.pop();
        }
    }
    let mut out = BTreeMap::new();
    walk(kind, value, &mut Vec::new(), &mut out);
    out
}

/// The config over the live value: units are the config's, parts are of both.
fn merge(kind: &Type, live: Option<&Value>, config: Option<&Value>) -> Value {
    let parts = |value: Option<&Value>| value.map(|value| kind.parts(value)).unwrap_or_default();
    let (old, new) = (parts(live), parts(config));
    if old.is_empty() && new.is_empty() {
        return config.or(live).cloned().unwrap();
    }
    let find = |parts: &[(String, Value)], step: &String| parts.iter().find(|(other, _)| other == step).map(|(_, value)| value.clone());
    let steps = |parts: &[(String, Value)]| parts.iter().map(|(step, _)| step.clone()).collect::<Vec<_>>();
    let merged = in_order(&steps(&old), &steps(&new)).into_iter().map(|step| {
        let below = kind.child(&step).unwrap().0;
        let value = merge(&below, find(&old, &step).as_ref(), find(&new, &step).as_ref());
        (step, value)
    });
    kind.assembled(merged.collect())
}

/// The order of parts: that of the config. What only the live value has stays behind the part that it followed there, as far
/// as the two orders agree, and else behind the one before.
fn in_order(live: &[String], config: &[String]) -> Vec<String> {
    let mut shared = config.iter().filter(|step| live.contains(step)).peekable();
    let mut followers: BTreeMap<Option<&String>, Vec<&String>> = BTreeMap::new();
    let mut last = None;
    for step in live {
        if shared.next_if(|next| *next == step).is_some() {
            last = Some(step);
        } else if !config.contains(step) {
            followers.entry(last).or_default().push(step);
        }
    }
    let places = std::iter::once(None).chain(config.iter().map(Some));
    places.flat_map(|place| place.into_iter().chain(followers.remove(&place).unwrap_or_default())).cloned().collect()
}

/// Without what the system sets and nobody owns.
fn without_system(set: &Set) -> Set {
    let system = [vec!["f:apiVersion"], vec!["f:kind"], vec!["f:metadata"], vec!["f:metadata", "f:name"], vec!["f:metadata", "f:uid"]];
    set.iter().filter(|path| !system.iter().any(|other| other == *path)).cloned().collect()
}

/// managedFields, read as it stands.
pub fn decoded(entries: Option<&Value>) -> Owners {
    fn walk(fields: &Map<String, Value>, path: &mut Path, out: &mut Set) {
        for (step, below) in fields {
            if step == "." {
                out.insert(path.clone());
                continue;
            }
            let below = below.as_object().unwrap();
            path.push(step.clone());
            if below.is_empty() {
                out.insert(path.clone());
            }
            walk(below, path, out);
            path.pop();
        }
    }
    let mut owners = Owners::new();
    for entry in entries.and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| entry[name].as_str().unwrap().to_owned();
        let mut fields = Set::new();
        walk(entry["fieldsV1"].as_object().unwrap(), &mut Vec::new(), &mut fields);
        let time = entry.get("time").map(|time| time.as_str().unwrap().to_owned());
        let before = owners.insert((text("manager"), text("operation")), (time, fields));
        assert!(before.is_none(), "{entry} stands there twice");
    }
    owners
}

/// Owners as lines of text.
pub fn shown(owners: &Owners) -> Vec<String> {
    let each = owners.iter().flat_map(|((manager, operation), (time, fields))| {
        fields.iter().map(move |path| format!("{manager} {operation} {} {}", time.as_deref().unwrap_or("never"), path.join(" ")))
    });
    each.collect()
}

/// Owners without times.
pub fn timeless(owners: &Owners) -> Vec<(&(String, String), &Set)> {
    owners.iter().map(|(owner, (_, fields))| (owner, fields)).collect()
}

/// A path as conflicts show it.
fn displayed(path: &Path) -> String {
    let step = |step: &String| {
        let (form, rest) = step.split_once(':').unwrap();
        match form {
            "f" => format!(".{rest}"),
            "v" => format!("[={rest}]"),
            _ => {
                let keys: Map<String, Value> = serde_json::from_str(rest).unwrap();
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("[{}]", keys.join(","))
            }
        }
    };
    path.iter().map(step).collect()
}
