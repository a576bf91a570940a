//! CustomResourceDefinitions: their content, their validation, and the ownership of names (KAPI-CRD-01, KAPI-CRD-02, KAPI-CRD-04).
//!
//! ```text
//!   object as it came ── fill (names, conversion) ── prepare_create / prepare_update (status.storedVersions)
//!        │                                                │
//!        │                                     validate / validate_update ── structural rules, defaults, CEL (handed in)
//!        └── Definition::parse: what the server needs to serve it            names_accepted, approval: conditions
//! ```

mod approval;
mod columns;
mod naming;
mod structural;
mod validate;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::model::{ReadError, Schema, SchemaRef};

pub use approval::approval;
pub use naming::{Condition, Names, names_accepted};
pub use validate::{RuleCheck, shown_rule, validate, validate_status_update, validate_update, warnings};

/// The definition in a CRD.
#[derive(Clone, Debug)]
pub struct Definition {
    /// `metadata.name`.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The names that are served: those accepted if there are any, else those asked for.
    pub names: KindNames,
    /// True if its objects live in namespaces.
    pub namespaced: bool,
    /// Its versions, in the order of the CRD.
    pub versions: Vec<Version>,
    /// The conversion between versions.
    pub conversion: Conversion,
    /// `spec.preserveUnknownFields`, which only old CRDs have: nothing is pruned.
    pub preserve_unknown_fields: bool,
}

/// The names of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the Kubernetes API")]
pub struct KindNames {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
}

/// One version of a CRD.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its name, `v1alpha1`.
    pub name: String,
    /// True if the API serves it.
    pub served: bool,
    /// True if objects are stored in it.
    pub storage: bool,
    /// Set if the version is deprecated.
    pub deprecation: Option<Deprecation>,
    /// The schema of its objects.
    pub schema: SchemaRef,
    /// True if `/status` exists.
    pub status: bool,
    /// `/scale`, if it exists.
    pub scale: Option<Scale>,
    /// The columns of its tables; a CRD without any has the age.
    pub columns: Vec<Column>,
    /// The JSON paths that field selectors may use: `.spec.color`.
    pub selectable_fields: Vec<String>,
}

/// A deprecated version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// The author's text of the Warning header; there is a usual one.
    pub warning: Option<String>,
}

/// The paths of the scale subresource, in dot notation: `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the Kubernetes API")]
pub struct Scale {
    pub spec_replicas_path: String,
    pub status_replicas_path: String,
    pub label_selector_path: Option<String>,
}

/// A printer column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the Kubernetes API")]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub json_path: String,
}

/// The method of conversion between versions.
#[derive(Clone, Debug, PartialEq)]
pub enum Conversion {
    /// Only `apiVersion` changes.
    None,
    /// A webhook converts: `spec.conversion.webhook` as it stands (clientConfig, conversionReviewVersions).
    Webhook(Value),
}

impl Definition {
    /// Reads a CRD (apiextensions.k8s.io/v1). A schema that cannot be read is an error; everything else that is missing is empty, since a CRD
    /// that was stored passed [`validate`].
    pub fn parse(crd: &Value) -> Result<Self, ReadError> {
        let spec = &crd["spec"];
        let accepted = &crd["status"]["acceptedNames"];
        let names = if text(accepted, "plural").is_empty() { &spec["names"] } else { accepted };
        let group = text(spec, "group");
        let mut versions = Vec::new();
        for (index, version) in list(spec, "versions").iter().enumerate() {
            let schema = match &version["schema"]["openAPIV3Schema"] {
                Value::Null => Schema { preserve_unknown_fields: true, ..Schema::default() },
                schema => Schema::from_json(schema).map_err(|error| ReadError {
                    path: format!("spec.versions[{index}].schema.openAPIV3Schema.{}", error.path),
                    problem: error.problem,
                })?,
            };
            let name = text(version, "name");
            let scale = &version["subresources"]["scale"];
            versions.push(Version {
                served: flag(version, "served"),
                storage: flag(version, "storage"),
                deprecation: flag(version, "deprecated")
                    .then(|| Deprecation { warning: version["deprecationWarning"].as_str().map(str::to_owned) }),
                schema: SchemaRef::new(schema),
                status: version["subresources"]["status"].is_object(),
                scale: scale.is_object().then(|| Scale {
                    spec_replicas_path: text(scale, "specReplicasPath"),
                    status_replicas_path: text(scale, "statusReplicasPath"),
                    label_selector_path: Some(text(scale, "labelSelectorPath")).filter(|path| !path.is_empty()),
                }),
                columns: columns::columns(version),
                selectable_fields: list(version, "selectableFields").iter().map(|field| text(field, "jsonPath")).collect(),
                name,
            });
        }
        Ok(Self {
            name: text(&crd["metadata"], "name"),
            group,
            names: KindNames::read(names),
            namespaced: spec["scope"] == "Namespaced",
            versions,
            conversion: if spec["conversion"]["strategy"] == "Webhook" {
                Conversion::Webhook(spec["conversion"]["webhook"].clone())
            } else {
                Conversion::None
            },
            preserve_unknown_fields: flag(spec, "preserveUnknownFields"),
        })
    }

    /// The version of that name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version that objects are stored in.
    pub fn storage_version(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }
}

impl KindNames {
    /// Reads `spec.names` or `status.acceptedNames`.
    pub fn read(names: &Value) -> Self {
        let texts = |key: &str| list(names, key).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Self {
            plural: text(names, "plural"),
            singular: text(names, "singular"),
            kind: text(names, "kind"),
            list_kind: text(names, "listKind"),
            short_names: texts("shortNames"),
            categories: texts("categories"),
        }
    }

    /// Returns the names as the API writes them.
    pub fn to_json(&self) -> Value {
        let mut map = BTreeMap::from([("plural", json!(self.plural)), ("kind", json!(self.kind))]);
        for (key, name) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !name.is_empty() {
                map.insert(key, json!(name));
            }
        }
        for (key, names) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !names.is_empty() {
                map.insert(key, json!(names));
            }
        }
        json!(map)
    }
}

/// Fills in the fields that a CRD leaves out: singular and list names, the conversion strategy, the webhook service's port.
pub fn fill(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !kind.is_empty() {
            fill_text(names, "singular", &kind.to_lowercase());
            fill_text(names, "listKind", &format!("{kind}List"));
        }
    }
    // Go leaves a false flag out.
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
        spec.remove("preserveUnknownFields");
    }
    let conversion = spec.entry("conversion").or_insert(Value::Null);
    if conversion.is_null() {
        *conversion = json!({"strategy": "None"});
    }
    if let Some(service) = conversion.pointer_mut("/webhook/clientConfig/service").and_then(Value::as_object_mut) {
        service.entry("port").or_insert(json!(443));
    }
    for version in spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        for column in version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(column) = column.as_object_mut() {
                // The zero priority is not written.
                if column.get("priority") == Some(&json!(0)) {
                    column.remove("priority");
                }
            }
        }
    }
    // A status without stored versions has that of the spec.
    let stored = storage_versions(crd).next();
    if let (Some(stored), Some(status)) = (stored, crd.get_mut("status").and_then(Value::as_object_mut))
        && list_is_empty(status.get("storedVersions"))
    {
        status.insert("storedVersions".to_owned(), json!([stored]));
    }
}

/// Gives a new CRD the status it begins with.
pub fn prepare_create(crd: &mut Value) {
    let stored: Vec<Value> = storage_versions(crd).take(1).map(Value::from).collect();
    let stored = if stored.is_empty() { Value::Null } else { Value::from(stored) };
    if let Some(object) = crd.as_object_mut() {
        object.insert(
            "status".to_owned(),
            json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}),
        );
    }
}

/// Carries the status over from the old CRD, and notes a new storage version there.
pub fn prepare_update(crd: &mut Value, old: &Value) {
    let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
    let storage: Vec<String> = storage_versions(crd).collect();
    if let Some(map) = status.as_object_mut() {
        let stored = map.entry("storedVersions").or_insert(Value::Null);
        if !stored.is_array() {
            *stored = json!([]);
        }
        if let Some(stored) = stored.as_array_mut() {
            for version in storage {
                if !stored.iter().any(|known| *known == version) {
                    stored.push(Value::from(version));
                }
            }
        }
    }
    if let Some(object) = crd.as_object_mut() {
        object.insert("status".to_owned(), status);
    }
}

/// Returns true if a condition of the CRD's status is True.
pub fn is_condition_true(crd: &Value, kind: &str) -> bool {
    list(&crd["status"], "conditions").iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn list_is_empty(value: Option<&Value>) -> bool {
    value.and_then(Value::as_array).is_none_or(Vec::is_empty)
}

fn storage_versions(crd: &Value) -> impl Iterator<Item = String> + '_ {
    list(&crd["spec"], "versions").iter().filter(|version| flag(version, "storage")).map(|version| text(version, "name"))
}

fn fill_text(map: &mut Map<String, Value>, key: &str, text: &str) {
    let member = map.entry(key).or_insert(Value::Null);
    if member.is_null() || member == "" {
        *member = Value::from(text);
    }
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
