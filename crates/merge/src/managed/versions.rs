//! Owners whose fields are named as in another version of the kind: each is compared in its own version.
//!
//! ```text
//!   live, new ── convert into each owner's version ── compare there ── conflicts, losses in that owner's words
//! ```
//!
//! Converting may need another party (a webhook), while everything here is a pure function. So a form that is not at hand is
//! [`NotConverted::Pending`]: the caller fetches what was asked for, and calls again.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_schema::SchemaRef;
use serde_json::Value;

use super::{Managed, Owned, Write};
use crate::fieldset::FieldSet;
use crate::typed::{Comparison, Node};

/// An object in one version of its kind.
#[derive(Clone, Debug)]
pub struct Versioned {
    /// The object.
    pub object: Value,
    /// The kind's schema in that version.
    pub schema: SchemaRef,
    /// Fields that the write cannot change, by their names in that version ([`Write::reset`]).
    pub reset: FieldSet,
}

/// The reason why an object is unavailable in a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotConverted {
    /// The kind no longer has such a version. Managers that own fields in it own nothing.
    Gone,
    /// It has not been converted yet.
    Pending,
    /// It cannot be converted.
    Failed(String),
}

/// The versions of a kind.
pub trait Versions {
    /// The object (without managedFields) in another version, or in its own.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Versioned, NotConverted>;

    /// An object with nothing in it, as the server writes it: what it holds anyhow has no owner at the first apply.
    fn empty(&self) -> Value {
        Value::Object(serde_json::Map::new())
    }
}

/// A conversion is not at hand. It has been asked for: with its answer the same call gets further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an object is needed in another version first")]
pub struct Pending;

/// Two objects in each version, beside that of the write, in which managers own fields.
pub(super) type Forms = BTreeMap<String, [Versioned; 2]>;

/// Converts both objects into the versions of their owners; forgets the owners whose version is gone. Without [`Versions`], all
/// versions of the kind are taken to be alike.
pub(super) fn forms(
    managed: &mut Managed,
    objects: [&Value; 2],
    write: &Write<'_>,
    versions: Option<&dyn Versions>,
) -> Result<Forms, NotConverted> {
    let mut forms = Forms::new();
    let Some(versions) = versions else { return Ok(forms) };
    let others = managed.0.values().map(|owned| &owned.api_version).filter(|version| **version != write.api_version);
    let others: BTreeSet<String> = others.cloned().collect();
    let mut pending = false;
    for api_version in others {
        // Everything is asked for before anything is waited for.
        match objects.map(|object| versions.convert(object, &api_version)) {
            [Ok(first), Ok(second)] => {
                forms.insert(api_version, [first, second]);
            }
            [Err(NotConverted::Gone), _] | [_, Err(NotConverted::Gone)] => managed.0.retain(|_, owned| owned.api_version != api_version),
            [Err(NotConverted::Failed(why)), _] | [_, Err(NotConverted::Failed(why))] => return Err(NotConverted::Failed(why)),
            [Err(NotConverted::Pending), _] | [_, Err(NotConverted::Pending)] => pending = true,
        }
    }
    if pending { Err(NotConverted::Pending) } else { Ok(forms) }
}

/// Something for the version of the write, and for each other one that differs.
pub(super) struct PerVersion<T> {
    pub own: T,
    others: BTreeMap<String, T>,
}

impl<T> PerVersion<T> {
    /// That of a version.
    pub fn of(&self, api_version: &str) -> &T {
        self.others.get(api_version).unwrap_or(&self.own)
    }

    /// The same of something else.
    pub fn map<U>(&self, make: impl Fn(&T) -> U) -> PerVersion<U> {
        PerVersion { own: make(&self.own), others: self.others.iter().map(|(version, one)| (version.clone(), make(one))).collect() }
    }
}

/// The changes of a write, in the terms of each version.
pub(super) fn changes(old: &Value, new: &Value, forms: &Forms, write: &Write<'_>) -> PerVersion<Comparison> {
    let own = Node::object(write.schema).compare(old, new).without(write.reset);
    let other = |[old, new]: &[Versioned; 2]| Node::object(&old.schema).compare(&old.object, &new.object).without(&old.reset);
    PerVersion { own, others: forms.iter().map(|(version, form)| (version.clone(), other(form))).collect() }
}

/// [`super::apply`]'s pruning if owners have several versions: the applier's last fields go in the version it applied them in, and what
/// others own comes back in theirs.
pub(super) fn prune(
    merged: &Value,
    managed: &Managed,
    last: &Owned,
    write: &Write<'_>,
    versions: &dyn Versions,
) -> Result<Value, NotConverted> {
    let whole = match versions.convert(merged, &last.api_version) {
        Err(NotConverted::Gone) => return Ok(merged.clone()),
        other => other?,
    };
    let node = Node::object(&whole.schema);
    let fields = node.with_named_parents(&last.fields);
    let mut pruned = node.remove(&whole.object, &fields);
    let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for (_, one) in managed.iter() {
        let all = owned.entry(&one.api_version).or_default();
        *all = all.union(&one.fields);
    }
    // The version at hand comes first: another conversion might need what it brings back.
    let first = owned.remove_entry(last.api_version.as_str());
    for (api_version, everyone) in first.into_iter().chain(owned) {
        let (whole, left) = match (versions.convert(merged, api_version), versions.convert(&pruned, api_version)) {
            (Err(NotConverted::Gone), _) | (_, Err(NotConverted::Gone)) => continue,
            (whole, left) => (whole?, left?),
        };
        let node = Node::object(&whole.schema);
        let all = node.with_named_parents(&node.field_set(&whole.object));
        let kept = node.with_named_parents(&node.field_set(&left.object)).union(&node.with_named_parents(&everyone));
        pruned = node.remove(&whole.object, &all.difference(&kept));
    }
    let left = versions.convert(&pruned, &last.api_version)?;
    let all = node.with_named_parents(&node.field_set(&whole.object));
    let left = node.with_named_parents(&node.field_set(&left.object));
    let object = node.remove(&whole.object, &all.difference(&left).intersection(&fields));
    Ok(versions.convert(&object, write.api_version)?.object)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
    use std::cell::RefCell;

    use mainstay_schema::Schema;
    use serde_json::json;

    use super::super::{ApplyError, apply_across, update_across};
    use super::*;

    /// `spec.a` and `spec.gone` of e/v1 are `spec.b` and `spec.gone` of e/v2; e/v0 is no more, e/v9 is slow, e/v8 broken.
    struct Renaming(RefCell<Vec<String>>);

    fn renaming() -> Renaming {
        Renaming(RefCell::default())
    }

    fn schema(field: &str) -> SchemaRef {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {field: {"type": "integer"}, "gone": {"type": "string"}}},
        }});
        SchemaRef::new(Schema::read(&schema, &mut |_: &str| None).unwrap())
    }

    impl Versions for Renaming {
        fn convert(&self, object: &Value, api_version: &str) -> Result<Versioned, NotConverted> {
            self.0.borrow_mut().push(api_version.to_owned());
            let (from, to) = match api_version {
                "e/v1" => ("b", "a"),
                "e/v2" => ("a", "b"),
                "e/v9" => return Err(NotConverted::Pending),
                "e/v8" => return Err(NotConverted::Failed("broken".into())),
                _ => return Err(NotConverted::Gone),
            };
            let mut object = object.clone();
            object["apiVersion"] = api_version.into();
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
                && let Some(value) = spec.remove(from)
            {
                spec.insert(to.into(), value);
            }
            Ok(Versioned { object, schema: schema(to), reset: FieldSet::new() })
        }
    }

    fn object(api_version: &str, spec: Value) -> Value {
        json!({"apiVersion": api_version, "kind": "T", "metadata": {"name": "x", "uid": "u"}, "spec": spec})
    }

    fn with_write<T>(manager: &str, api_version: &str, act: impl FnOnce(&Write<'_>) -> T) -> T {
        let schema = schema(if api_version == "e/v1" { "a" } else { "b" });
        let reset = FieldSet::new();
        act(&Write { manager, api_version, subresource: "", schema: &schema, reset: &reset, now: "2026-01-01T00:00:00Z" })
    }

    fn applied(live: &Value, manager: &str, version: &str, spec: Value, force: bool) -> Result<Value, ApplyError> {
        let mut config = json!({"apiVersion": version, "kind": "T", "metadata": {"name": "x"}, "spec": spec});
        config.as_object_mut().unwrap().retain(|_, member| !member.is_null());
        with_write(manager, version, |write| apply_across(live, &config, write, force, &renaming())).map(|applied| applied.object)
    }

    fn updated(live: &Value, manager: &str, version: &str, spec: Value) -> Value {
        let new = json!({"apiVersion": version, "kind": "T", "metadata": {"name": "x", "uid": "u"}, "spec": spec});
        with_write(manager, version, |write| update_across(live, &new, write, &renaming())).unwrap()
    }

    /// The object as the other version has it, as a server would hand it over.
    fn seen_as(object: &Value, api_version: &str) -> Value {
        renaming().convert(object, api_version).unwrap().object
    }

    fn owners(object: &Value) -> Vec<String> {
        let entries = object["metadata"]["managedFields"].as_array();
        let mut shown: Vec<String> = entries
            .into_iter()
            .flatten()
            .map(|entry| {
                let fields: Vec<&String> = entry["fieldsV1"]["f:spec"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
                format!("{} {} {fields:?}", entry["manager"].as_str().unwrap(), entry["apiVersion"].as_str().unwrap())
            })
            .collect();
        shown.sort();
        shown
    }

    /// KAPI-SSA-01: owners of another version are asked in their own words, whether they applied or updated.
    #[test]
    fn conflicts_across_versions() {
        let live = updated(&Value::Null, "up", "e/v1", json!({"a": 1}));
        let live = applied(&live, "ap", "e/v1", json!({"a": 1}), false).unwrap();
        let seen = seen_as(&live, "e/v2");
        let refused = applied(&seen, "other", "e/v2", json!({"b": 2}), false).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Apply failed with 2 conflicts: conflicts with \"ap\":\n- .spec.a\nconflicts with \"up\" using e/v1:\n- .spec.a"
        );
        assert_eq!(owners(&applied(&seen, "other", "e/v2", json!({"b": 1}), false).unwrap()).len(), 3);
        let taken = applied(&seen, "other", "e/v2", json!({"b": 2}), true).unwrap();
        assert_eq!((owners(&taken), &taken["spec"]), (vec!["other e/v2 [\"f:b\"]".to_owned(), "up e/v1 []".to_owned()], &json!({"b": 2})));
        let updated = updated(&seen, "other", "e/v2", json!({"b": 3}));
        assert_eq!(owners(&updated), ["other e/v2 [\"f:b\"]", "up e/v1 []"]);
    }

    /// KAPI-SSA-01: what an applier drops goes unless somebody owns it, in whatever version either of them speaks.
    #[test]
    fn dropping_across_versions() {
        let alone = applied(&Value::Null, "one", "e/v1", json!({"a": 1, "gone": "x"}), false).unwrap();
        let dropped = applied(&seen_as(&alone, "e/v2"), "one", "e/v2", Value::Null, false).unwrap();
        assert_eq!((dropped.get("spec"), owners(&dropped)), (None, vec![]));
        let shared = applied(&seen_as(&alone, "e/v2"), "two", "e/v2", json!({"b": 1}), false).unwrap();
        let kept = applied(&seen_as(&shared, "e/v1"), "one", "e/v1", Value::Null, false).unwrap();
        assert_eq!((&kept["spec"], owners(&kept)), (&json!({"a": 1}), vec!["two e/v2 [\"f:b\"]".to_owned()]));
    }

    /// KAPI-SSA-01: a version that is gone takes its owners along; one that is not at hand is asked for; one that fails refuses the apply.
    #[test]
    fn versions_that_can_not_be_had() {
        let owned_in = |api_version: &str| {
            let mut live = object("e/v1", json!({"a": 1}));
            live["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update", "apiVersion": api_version,
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:a": {}}}}]);
            live
        };
        let gone = applied(&owned_in("e/v0"), "other", "e/v1", json!({"a": 2}), false).unwrap();
        assert_eq!(owners(&gone), ["other e/v1 [\"f:a\"]"]);
        assert_eq!(owners(&updated(&owned_in("e/v0"), "other", "e/v1", json!({"a": 1}))), Vec::<String>::new());
        assert_eq!(applied(&owned_in("e/v9"), "other", "e/v1", json!({"a": 2}), false), Err(ApplyError::Pending(Pending)));
        assert_eq!(applied(&owned_in("e/v8"), "other", "e/v1", json!({"a": 2}), true), Err(ApplyError::NotConverted("broken".into())));
        let asked = renaming();
        let live = owned_in("e/v9");
        let outcome = with_write("other", "e/v1", |write| update_across(&live, &object("e/v1", json!({"a": 3})), write, &asked));
        assert_eq!((outcome, asked.0.take()), (Err(Pending), vec!["e/v9".to_owned(), "e/v9".to_owned()]));
        // Nobody can be asked: nobody owns anything.
        assert_eq!(owners(&updated(&owned_in("e/v8"), "other", "e/v1", json!({"a": 3}))), Vec::<String>::new());
    }
}
