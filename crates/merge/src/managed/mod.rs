//! `metadata.managedFields`: the owners of fields, and the effect of writes on them (KAPI-SSA-01).

#![allow(clippy::similar_names, reason = "manager and managed are the words of the Kubernetes API")]

mod apply;
mod conflict;
mod prune;
mod scale;
mod update;
mod versions;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use mainstay_schema::Schema;
use serde_json::{Map, Value};

pub use apply::{Applied, ApplyError, apply, apply_across};
pub use conflict::{Conflict, Conflicts};
pub use scale::{from_scale, to_scale};
pub use update::{keep_times, update, update_across};
pub use versions::{NotConverted, Pending, Versioned, Versions};

use crate::fieldset::{DecodeError, FieldSet, Path};

/// Most managers that may own fields by updates; older ones are joined beyond that.
pub const MAX_UPDATE_MANAGERS: usize = 10;

/// The kind of write that ownership came from: server-side apply, or any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Create, update and the other patches.
    Update,
}

impl Operation {
    /// Returns the operation as managedFields spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// An owner of fields. Appliers are the same in every version, so theirs is not part of their identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// The field manager's name.
    pub manager: String,
    /// The operation by which it came to own.
    pub operation: Operation,
    /// The version it wrote in; empty for appliers.
    pub api_version: String,
    /// The subresource it wrote through; empty for the object itself.
    pub subresource: String,
}

/// The fields that a manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The version in which the fields are to be read.
    pub api_version: String,
    /// The time when it last took fields, in RFC 3339 with seconds.
    pub time: Option<String>,
    /// Its fields.
    pub fields: FieldSet,
}

/// All owners of an object's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed(BTreeMap<Manager, Owned>);

/// managedFields that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It is no list of objects.
    #[error("metadata.managedFields: expected a list of objects")]
    Shape,
    /// An operation other than Apply and Update.
    #[error("metadata.managedFields: invalid operation {0:?}")]
    Operation(String),
    /// Fields of another type than FieldsV1.
    #[error("metadata.managedFields: unsupported fieldsType {0:?}")]
    FieldsType(String),
    /// Fields that are no FieldsV1.
    #[error("metadata.managedFields: {0}")]
    Fields(#[from] DecodeError),
}

impl Managed {
    /// Reads `metadata.managedFields` (absent is empty).
    pub fn decode(entries: Option<&Value>) -> Result<Self, EntryError> {
        let mut managed = Self::default();
        let entries = match entries {
            None | Some(Value::Null) => return Ok(managed),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(EntryError::Shape),
        };
        for entry in entries {
            let Value::Object(entry) = entry else {
                return Err(EntryError::Shape);
            };
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let operation = match text("operation").as_str() {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                other => return Err(EntryError::Operation(other.to_owned())),
            };
            match text("fieldsType").as_str() {
                "FieldsV1" | "" => {}
                other => return Err(EntryError::FieldsType(other.to_owned())),
            }
            let api_version = text("apiVersion");
            let fields = entry.get("fieldsV1").map(FieldSet::decode).transpose()?.unwrap_or_default();
            let manager = Manager::new(&text("manager"), operation, &api_version, &text("subresource"));
            let time = Some(text("time")).filter(|time| !time.is_empty());
            managed.0.insert(manager, Owned { api_version, time, fields });
        }
        Ok(managed)
    }

    /// The entries in upstream's order: appliers first, then by time, manager, version and subresource.
    pub fn encode(&self) -> Vec<Value> {
        let mut entries: Vec<(&Manager, &Owned)> = self.0.iter().collect();
        entries.sort_by_key(|(manager, owned)| {
            (manager.operation, owned.time.as_deref(), manager.manager.as_str(), owned.api_version.as_str(), manager.subresource.as_str())
        });
        entries
            .into_iter()
            .map(|(manager, owned)| {
                let mut entry = Map::new();
                let mut put = |key: &str, value: &str| {
                    if !value.is_empty() {
                        entry.insert(key.to_owned(), Value::String(value.to_owned()));
                    }
                };
                put("manager", &manager.manager);
                put("operation", manager.operation.as_str());
                put("apiVersion", &owned.api_version);
                put("time", owned.time.as_deref().unwrap_or_default());
                put("fieldsType", "FieldsV1");
                put("subresource", &manager.subresource);
                entry.insert("fieldsV1".into(), owned.fields.encode());
                Value::Object(entry)
            })
            .collect()
    }

    /// The owners, by their identity.
    pub fn iter(&self) -> impl Iterator<Item = (&Manager, &Owned)> {
        self.0.iter()
    }

    /// Returns the fields that a manager owns.
    pub fn get(&self, manager: &Manager) -> Option<&Owned> {
        self.0.get(manager)
    }

    /// Returns true if no manager owns anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn drop_empty(&mut self) {
        self.0.retain(|_, owned| !owned.fields.is_empty());
    }
}

impl Manager {
    /// The identity of a writer; a nameless one is `unknown`.
    pub fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        Self {
            manager: if name.is_empty() { "unknown".into() } else { name.into() },
            operation,
            api_version: if operation == Operation::Apply { String::new() } else { api_version.into() },
            subresource: subresource.into(),
        }
    }
}

/// One write: its manager, version, kind and time.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// The field manager's name.
    pub manager: &'a str,
    /// The version of the request, e.g. `apps/v1`.
    pub api_version: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The kind's schema in that version.
    pub schema: &'a Schema,
    /// Fields that this write cannot change (`status` of the object itself, all but `status` of the subresource).
    pub reset: &'a FieldSet,
    /// The time in RFC 3339, UTC, whole seconds.
    pub now: &'a str,
}

/// Fields that the system sets and that have no owner.
fn system_fields() -> &'static FieldSet {
    static FIELDS: OnceLock<FieldSet> = OnceLock::new();
    FIELDS.get_or_init(|| {
        let top = ["apiVersion", "kind", "metadata"].into_iter().map(|name| Path::fields([name]));
        let meta =
            ["name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion"];
        top.chain(meta.into_iter().map(|name| Path::fields(["metadata", name]))).collect()
    })
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// The object without its managedFields; nothing at all (before a create) is an empty object.
fn bare(object: &Value) -> Value {
    let Value::Object(members) = object else {
        return Value::Object(Map::new());
    };
    let member = |(name, value): (&String, &Value)| match value {
        // managedFields may be the larger part of an object, so they are not copied along.
        Value::Object(meta) if name == "metadata" => {
            let kept = meta.iter().filter(|(name, _)| *name != "managedFields").map(|(name, value)| (name.clone(), value.clone()));
            (name.clone(), kept.collect())
        }
        _ => (name.clone(), value.clone()),
    };
    Value::Object(members.iter().map(member).collect())
}

fn set_entries(object: &mut Value, entries: Vec<Value>) {
    let Value::Object(map) = object else { return };
    if entries.is_empty() {
        if let Some(Value::Object(meta)) = map.get_mut("metadata") {
            meta.remove("managedFields");
        }
        return;
    }
    if let Value::Object(meta) = map.entry("metadata").or_insert_with(|| Value::Object(Map::new())) {
        meta.insert("managedFields".into(), Value::Array(entries));
    }
}
