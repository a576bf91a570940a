//! One served version of a custom resource: how its objects are read, defaulted, checked (KAPI-CRD-02).

use std::collections::HashMap;
use std::sync::Arc;

use mainstay_kinds::{Gvk, registry};
use mainstay_schema::crd::{Column, Definition, Version};
use mainstay_schema::field::{Error as FieldError, Path};
use mainstay_schema::{Additional, Schema, SchemaRef, coerce, default, prune, validate};
use serde_json::{Value, json};

use super::convert::Converter;
use crate::error::{ApiError, Result};
use crate::versions;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// One version of a CRD.
#[allow(clippy::struct_excessive_bools, reason = "independent facts of a CRD, each one with a name")]
pub struct CustomVersion {
    /// The name of the CRD.
    pub crd: String,
    /// The kind of lists.
    pub list_kind: String,
    /// The text of the Warning header of a deprecated version.
    pub deprecation_warning: Option<String>,
    /// The schema with apiVersion, kind and metadata, for merging.
    pub schema: Option<SchemaRef>,
    /// The same of all versions of the CRD, also of those that are not served, by their names.
    pub schemas: Arc<HashMap<String, SchemaRef>>,
    /// Set if stored objects may differ from what is sent: there are defaults, or fields that a schema does not have.
    pub changes_on_read: bool,
    /// The places of the numbers that Scale shows.
    pub scale: Option<ScalePaths>,
    /// Fields that selectors may use, without the leading dot.
    pub selectable: Vec<String>,
    /// The schema as OpenAPI documents show it.
    pub openapi: Value,
    /// Columns of tables.
    pub columns: Vec<Column>,
    /// Set if `status` is a subresource.
    pub status: bool,
    /// Converts between the versions; `None` where they differ in nothing but their names.
    pub converter: Option<Arc<Converter>>,
    structural: SchemaRef,
    /// The structural schemas of all versions, by their names: stored objects are read by the one that they were stored in.
    structurals: Arc<HashMap<String, SchemaRef>>,
    prunes: bool,
    namespaced: bool,
    rules: crate::rules::Rules,
}

/// Paths of the scale subresource as JSON pointers.
pub struct ScalePaths {
    /// The wanted replicas.
    pub spec: String,
    /// The replicas there are.
    pub status: String,
    /// The selector's text.
    pub selector: Option<String>,
}

/// The warning of a deprecated version without a text of its own: it names the best newer version that is not deprecated.
fn default_warning(definition: &Definition, version: &Version, kind: &str) -> String {
    let group = &definition.group;
    let newer = definition
        .versions
        .iter()
        .filter(|other| other.served && other.deprecation.is_none() && versions::compare(&other.name, &version.name).is_gt())
        .max_by(|left, right| versions::compare(&left.name, &right.name));
    let instead = newer.map(|newer| format!("; use {group}/{} {kind}", newer.name)).unwrap_or_default();
    format!("{group}/{} {kind} is deprecated{instead}", version.name)
}

impl CustomVersion {
    /// From a parsed CRD.
    pub fn new(
        definition: &Definition,
        version: &Version,
        crd: &Value,
        schemas: Arc<HashMap<String, SchemaRef>>,
        converter: Option<Arc<Converter>>,
    ) -> Self {
        let schema = schema_json(crd, &version.name);
        let prunes = !definition.preserve_unknown_fields;
        // What was stored by the one schema that there ever was, in whichever version, has only fields that this one has.
        let unchanged = crd.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(1) <= 1;
        let alike = definition.versions.iter().all(|version| schema_json(crd, &version.name) == schema);

        let pointer = |path: &str| path.replace('.', "/");
        Self {
            crd: definition.name.clone(),
            list_kind: definition.names.list_kind.clone(),
            deprecation_warning: version.deprecation.as_ref().map(|deprecation| {
                let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default();
                deprecation.warning.clone().unwrap_or_else(|| default_warning(definition, version, kind))
            }),
            schema: schemas.get(&version.name).cloned(),
            schemas,
            changes_on_read: has_defaults(&version.schema) || prunes && !(alike && unchanged),
            scale: version.scale.as_ref().map(|scale| ScalePaths {
                spec: pointer(&scale.spec_replicas_path),
                status: pointer(&scale.status_replicas_path),
                selector: scale.label_selector_path.as_deref().map(pointer),
            }),
            selectable: version.selectable_fields.iter().map(|path| path.trim_start_matches('.').to_owned()).collect(),
            openapi: schema.clone(),
            columns: version.columns.clone(),
            status: version.status,
            converter,
            structural: version.schema.clone(),
            structurals: Arc::new(definition.versions.iter().map(|version| (version.name.clone(), version.schema.clone())).collect()),
            prunes,
            namespaced: definition.namespaced,
            rules: crate::rules::Rules::compile(&version.schema),
        }
    }

    /// Reads a body: the names must be right, metadata must have its types; unknown fields are dropped and answered.
    pub fn decode(&self, gvk: &Gvk, value: &mut Value) -> Result<Vec<String>> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if kind.is_empty() || api_version.is_empty() {
            let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
            let shown = value.to_string();
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object '{missing}' is missing in '{shown}'",
                gvk.kind
            )));
        }
        if api_version != gvk.api_version() {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({})",
                gvk.api_version()
            )));
        }
        if kind != gvk.kind {
            let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
            return Err(ApiError::bad_request(format!(
                "{kind}.{group} \"\" is invalid: kind: Invalid value: {kind:?}: must be {}/{version}, Kind={}",
                gvk.group, gvk.kind
            )));
        }
        let mut unknown = coerce::metadata(value, false).map_err(|why| {
            ApiError::bad_request(format!("{} in version {:?} cannot be handled as a {}: {why}", gvk.kind, gvk.version, gvk.kind))
        })?;
        for field in ["creationTimestamp", "deletionTimestamp"] {
            if let Some(text) = value["metadata"][field].as_str() {
                crate::gotime::check(text, false).map_err(|why| crate::decode::refused(gvk, &why.to_string()))?;
            }
        }
        if let Some(problem) = validate::malformed(&self.structural, value, &Path::root()) {
            return Err(crate::decode::refused(gvk, &problem.to_string()));
        }
        coerce::numbers(value);
        if self.prunes {
            unknown.extend(prune::prune(&self.structural, value));
        }
        Ok(unknown.iter().map(|path| path.as_str().to_owned()).collect())
    }

    /// Fills in the schema's defaults.
    pub fn default(&self, value: &mut Value) {
        default::default(&self.structural, value);
    }

    /// Brings a stored object into what the schemas say today: that of the version it is in drops fields and gives defaults, that of this
    /// version drops what it does not have.
    pub fn after_read(&self, value: &mut Value, version: &str) {
        if !self.changes_on_read {
            return;
        }
        let stored = value.get("apiVersion").and_then(Value::as_str).and_then(|stored| stored.rsplit('/').next()).unwrap_or_default();
        let other = (stored != version).then(|| self.structurals.get(stored)).flatten();
        for (index, schema) in other.into_iter().chain([&self.structural]).enumerate() {
            if self.prunes {
                prune::prune(schema, value);
            }
            if index == 0 {
                default::default(schema, value);
            }
        }
    }

    /// Sets generation and status of a new object.
    pub fn prepare_create(&self, value: &mut Value) {
        if self.status
            && let Some(map) = value.as_object_mut()
        {
            map.remove("status");
        }
        crate::object::metadata_mut(value).insert("generation".into(), json!(1));
    }

    /// Keeps the part that the request may not change, counts the generation.
    pub fn prepare_update(&self, new: &mut Value, old: &Value, sub: Option<&str>) {
        if sub == Some("status") {
            let (status, managed) = (new.get("status").cloned(), new["metadata"].get("managedFields").cloned());
            let version = new["metadata"].get("resourceVersion").cloned();
            *new = old.clone();
            put(new, "status", status);
            let metadata = crate::object::metadata_mut(new);
            for (name, value) in [("managedFields", managed), ("resourceVersion", version)] {
                match value {
                    Some(value) => metadata.insert(name.into(), value),
                    None => metadata.remove(name),
                };
            }
            return;
        }
        if self.status {
            put(new, "status", old.get("status").cloned());
        }
        let content = |object: &Value| {
            let mut map = object.as_object().cloned().unwrap_or_default();
            map.remove("metadata");
            if self.status {
                map.remove("status");
            }
            map
        };
        let before = old["metadata"]["generation"].as_i64().unwrap_or(1);
        let generation = if content(new) == content(old) { before } else { before + 1 };
        crate::object::metadata_mut(new).insert("generation".into(), generation.into());
    }

    /// Errors of a new object.
    pub fn validate_create(&self, value: &Value) -> Vec<FieldError> {
        let mut errors = mainstay_kinds::validate_metadata(value, self.namespaced);
        errors.extend(validate::validate(&self.structural, value, &Path::root()));
        self.rules.check(value, None, &mut errors);
        self.check_scale(value, &mut errors);
        errors
    }

    /// Errors of a changed object.
    pub fn validate_update(&self, new: &Value, old: &Value, sub: Option<&str>) -> Vec<FieldError> {
        // Kubernetes looks at metadata twice: before each update, and by the rules of custom resources.
        let mut errors = mainstay_kinds::validate_metadata_update(new, old);
        errors.extend(errors.clone());
        match (sub, self.structural.properties.get("status")) {
            // A status is held against its own schema, which knows no path to it.
            (Some("status"), Some(schema)) => {
                let (path, before) = (Path::new("status"), old.get("status").unwrap_or(&Value::Null));
                let found = new.get("status").map(|status| validate::validate_update(schema, status, before, &path));
                errors.extend(found.into_iter().flatten());
            }
            (Some("status"), None) => {}
            _ => errors.extend(validate::validate_update(&self.structural, new, old, &Path::root())),
        }
        self.rules.check(new, Some(old), &mut errors);
        self.check_scale(new, &mut errors);
        errors
    }

    /// The numbers of the scale subresource are no negative ones.
    fn check_scale(&self, value: &Value, errors: &mut Vec<FieldError>) {
        let Some(scale) = &self.scale else { return };
        for pointer in [&scale.spec, &scale.status] {
            if let Some(number) = value.pointer(pointer).and_then(Value::as_i64).filter(|number| *number < 0) {
                errors.push(FieldError::invalid(&Path::new(pointer.replace('/', ".")), number, "should be a non-negative integer"));
            }
        }
    }
}

fn put(object: &mut Value, name: &str, value: Option<Value>) {
    if let Some(map) = object.as_object_mut() {
        match value {
            Some(value) => map.insert(name.into(), value),
            None => map.remove(name),
        };
    }
}

/// The schema of a version as the CRD has it.
fn schema_json<'a>(crd: &'a Value, version: &str) -> &'a Value {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    let found = versions.into_iter().flatten().find(|one| one["name"] == version);
    found.and_then(|one| one.pointer("/schema/openAPIV3Schema")).unwrap_or(&Value::Null)
}

/// The schemas of all versions of a CRD, for merging.
pub fn schemas(definition: &Definition) -> Arc<HashMap<String, SchemaRef>> {
    Arc::new(definition.versions.iter().map(|version| (version.name.clone(), whole(&version.schema))).collect())
}

/// The schema with what every object has besides.
fn whole(schema: &Schema) -> SchemaRef {
    let mut schema = schema.clone();
    let text = || SchemaRef::new(Schema { kind: Some(mainstay_schema::Type::String), ..Schema::default() });
    schema.properties.insert("apiVersion".into(), text());
    schema.properties.insert("kind".into(), text());
    if let Some(meta) = registry().definition(OBJECT_META) {
        schema.properties.insert("metadata".into(), meta);
    }
    schema.kind = Some(mainstay_schema::Type::Object);
    SchemaRef::new(schema)
}

fn has_defaults(schema: &Schema) -> bool {
    schema.default.is_some()
        || schema.properties.values().any(|node| has_defaults(node))
        || schema.items.as_ref().is_some_and(|node| has_defaults(node))
        || matches!(&schema.additional, Additional::Schema(node) if has_defaults(node))
}
