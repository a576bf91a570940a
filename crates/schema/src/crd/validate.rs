//! Validation of CRDs, with the findings of Kubernetes in its order and words.

mod conversion;
mod defaults;
mod json_path;
mod openapi_schema;

use serde_json::Value;

use super::{KindNames, approval, flag, is_condition_true, list, text};
use mainstay_golang::quote;

use crate::field::{BadValue, Error, Path, go_json};
use crate::format;
use crate::metadata;
use crate::model::Schema;
use crate::names;

use openapi_schema::any;
pub use openapi_schema::shown_rule;

/// Compiles the CEL rules of a schema (KAPI-CRD-03), called once for each version's schema when it is structurally sound. The path is that
/// of the schema's root.
pub type RuleCheck<'a> = dyn Fn(&Schema, &Path) -> Vec<Error> + 'a;

/// Findings about a new CRD, filled ([`fill`](super::fill)) and with its first status ([`prepare_create`](super::prepare_create)).
pub fn validate(crd: &Value, rules: &RuleCheck<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    object_meta(crd, &mut errors);
    let options = Options { schema_required: true, valid_types: true, pruned_defaults: true, atomic_sets: true, map_keys: true };
    Spec::new(crd, options, rules).validate(&mut errors);
    status(crd, &mut errors);
    stored_versions(crd, &mut errors);
    api_approval(crd, None, &mut errors);
    preserve_unknown_fields(crd, None, &mut errors);
    errors
}

/// Findings about a changed CRD. A problem of the old one is not held against the new one if Kubernetes is as lenient.
pub fn validate_update(crd: &Value, old: &Value, rules: &RuleCheck<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    let options = Options {
        schema_required: list(&old["spec"], "versions").iter().all(|version| version["schema"]["openAPIV3Schema"].is_object()),
        valid_types: !has_schema(old, &|schema| openapi_schema::has_unknown_type(schema)),
        pruned_defaults: !versions_with_schema(old).any(defaults::has_unpruned),
        atomic_sets: !has_schema(old, &|schema| openapi_schema::non_atomic_set(schema).is_some()),
        map_keys: !has_schema(old, &|schema| openapi_schema::has_bad_keys(schema)),
    };
    Spec::new(crd, options, rules).validate(&mut errors);
    let spec = Path::new("spec");
    let mut immutable = |names: &[&str]| {
        let member = |crd: &Value| names.iter().fold(crd["spec"].clone(), |value, name| value[*name].clone());
        if member(crd) != member(old) {
            errors.push(Error::invalid(&spec.children(names), member(crd), "field is immutable"));
        }
    };
    if is_condition_true(old, "Established") {
        immutable(&["scope"]);
        immutable(&["names", "kind"]);
    }
    immutable(&["group"]);
    immutable(&["names", "plural"]);
    status(crd, &mut errors);
    stored_versions(crd, &mut errors);
    api_approval(crd, Some(old), &mut errors);
    preserve_unknown_fields(crd, Some(old), &mut errors);
    errors
}

/// Findings about a write to the status subresource.
pub fn validate_status_update(crd: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    status(crd, &mut errors);
    errors
}

/// Texts for Warning headers: formats that Kubernetes does not know, and that the old CRD did not have.
pub fn warnings(crd: &Value, old: Option<&Value>) -> Vec<String> {
    fn collect(crd: &Value) -> Vec<String> {
        let mut found = Vec::new();
        for schema in versions_with_schema(crd) {
            any(schema, &mut |schema| {
                let format = schema["format"].as_str().unwrap_or_default();
                let is_known = match schema["type"].as_str() {
                    None | Some("" | "string") => format::is_known(format),
                    Some("integer") => matches!(format, "int32" | "int64"),
                    Some("number") => matches!(format, "float" | "double"),
                    Some(_) => true,
                };
                if !format.is_empty() && !is_known {
                    let warning = format!("unrecognized format {}", quote(format));
                    if !found.contains(&warning) {
                        found.push(warning);
                    }
                }
                false
            });
        }
        found
    }
    let before = old.map(collect).unwrap_or_default();
    collect(crd).into_iter().filter(|warning| !before.contains(warning)).collect()
}

/// The demands on a schema; an update is not held against what the old CRD did already.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "independent demands")]
struct Options {
    schema_required: bool,
    valid_types: bool,
    pruned_defaults: bool,
    atomic_sets: bool,
    map_keys: bool,
}

fn versions_with_schema(crd: &Value) -> impl Iterator<Item = &Value> {
    list(&crd["spec"], "versions").iter().map(|version| &version["schema"]["openAPIV3Schema"]).filter(|schema| schema.is_object())
}

fn has_schema(crd: &Value, question: &dyn Fn(&Value) -> bool) -> bool {
    versions_with_schema(crd).any(|schema| any(schema, &mut |schema| question(schema)))
}

fn object_meta(crd: &Value, errors: &mut Vec<Error>) {
    let path = Path::new("metadata");
    let meta = &crd["metadata"];
    let name = text(meta, "name");
    let name_path = path.child("name");
    if name.is_empty() {
        errors.push(Error::required(&name_path, "name or generateName is required"));
    } else {
        let mut wrong = names::dns1123_subdomain(&name);
        if name != format!("{}.{}", text(&crd["spec"]["names"], "plural"), text(&crd["spec"], "group")) {
            wrong.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        errors.extend(wrong.into_iter().map(|wrong| Error::invalid(&name_path, &name, wrong)));
    }
    if !text(meta, "namespace").is_empty() {
        errors.push(Error::forbidden(&path.child("namespace"), "not allowed on this type"));
    }
    metadata::labels(meta.get("labels"), &path.child("labels"), errors);
    metadata::annotations(meta.get("annotations"), &path.child("annotations"), errors);
}

/// The spec, and the parts that its versions share: Kubernetes checks a schema (subresources, columns, selectable fields) that all versions
/// have alike once, under `spec.validation` and so on.
struct Spec<'a> {
    value: &'a Value,
    versions: &'a [Value],
    options: Options,
    rules: &'a RuleCheck<'a>,
    path: Path,
}

/// The parts of a version that move up to the spec when they are the same everywhere.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

impl<'a> Spec<'a> {
    fn new(crd: &'a Value, options: Options, rules: &'a RuleCheck<'a>) -> Self {
        Self { value: &crd["spec"], versions: list(&crd["spec"], "versions"), options, rules, path: Path::new("spec") }
    }

    /// The part of that name, if all versions have the same.
    fn shared(&self, part: &str) -> Option<&'a Value> {
        let first = present(self.versions.first()?, part);
        self.versions.iter().all(|version| present(version, part) == first).then_some(first).flatten()
    }

    /// The part of a version, unless it is shared.
    fn own(&self, version: &'a Value, part: &str) -> Option<&'a Value> {
        if self.shared(part).is_some() { None } else { present(version, part) }
    }

    fn validate(&self, errors: &mut Vec<Error>) {
        self.group_and_scope(errors);
        if self.options.schema_required {
            for (index, _) in self.versions.iter().enumerate().filter(|(_, version)| !version["schema"]["openAPIV3Schema"].is_object()) {
                errors.push(Error::required(&self.path.child("versions").index(index).children(&["schema", "openAPIV3Schema"]), ""));
            }
        }
        let preserve = flag(self.value, "preserveUnknownFields");
        let has_defaults = self.versions.iter().any(|version| {
            any(&version["schema"]["openAPIV3Schema"], &mut |schema| schema.get("default").is_some_and(|default| !default.is_null()))
        });
        if preserve && has_defaults {
            errors.push(Error::invalid(
                &self.path.child("preserveUnknownFields"),
                true,
                "must be false in order to use defaults in the schema",
            ));
        }
        self.versions(errors);
        self.names(errors);
        let any_status = self.versions.iter().any(|version| version["subresources"]["status"].is_object());
        if let Some(schema) = self.shared("schema") {
            self.schema(schema, any_status, &self.path.child("validation"), errors);
        }
        if let Some(subresources) = self.shared("subresources") {
            json_path::subresources(subresources, &self.path.child("subresources"), errors);
        }
        columns(self.shared("additionalPrinterColumns"), &self.path.child("additionalPrinterColumns"), errors);
        if let Some(fields) = self.shared("selectableFields") {
            let path = self.path.child("selectableFields");
            match self.shared("schema") {
                Some(schema) => json_path::selectable_fields(fields, &schema["openAPIV3Schema"], &path, errors),
                // Kubernetes looks for the schema beside them, and there it is only where all versions have the same.
                None if is_empty(fields) => {}
                None => errors.push(Error::invalid(&path, "", "may only be set when validations.schema is included")),
            }
        }
        let conversion = &self.value["conversion"];
        if preserve && conversion["strategy"] == "Webhook" {
            errors.push(Error::invalid(
                &self.path.children(&["conversion", "strategy"]),
                "Webhook",
                "must be None if spec.preserveUnknownFields is true",
            ));
        }
        conversion::validate(conversion, &self.path.child("conversion"), errors);
    }

    fn group_and_scope(&self, errors: &mut Vec<Error>) {
        let group = text(self.value, "group");
        let field = self.path.child("group");
        if group.is_empty() {
            errors.push(Error::required(&field, ""));
        } else {
            let wrong = names::dns1123_subdomain(&group);
            if !wrong.is_empty() {
                errors.push(Error::invalid(&field, group, wrong.join(",")));
            } else if !group.contains('.') {
                errors.push(Error::invalid(&field, group, "should be a domain with at least one dot"));
            }
        }
        one_of(&self.value["scope"], &["Cluster", "Namespaced"], &self.path.child("scope"), errors);
    }

    fn versions(&self, errors: &mut Vec<Error>) {
        let path = self.path.child("versions");
        let mut seen: Vec<String> = Vec::new();
        let mut unique = true;
        for (index, version) in self.versions.iter().enumerate() {
            let path = path.index(index);
            let name = text(version, "name");
            unique &= !seen.contains(&name);
            let wrong = names::dns1035_label(&name);
            if !wrong.is_empty() {
                errors.push(Error::invalid(&path.child("name"), &name, wrong.join(",")));
            }
            seen.push(name);
            for wrong in deprecation(version) {
                errors.push(Error::invalid(&path.child("deprecationWarning"), &version["deprecationWarning"], wrong));
            }
            if let Some(schema) = self.own(version, "schema") {
                self.schema(schema, version["subresources"]["status"].is_object(), &path.child("schema"), errors);
            }
            if let Some(subresources) = self.own(version, "subresources") {
                json_path::subresources(subresources, &path.child("subresources"), errors);
            }
            columns(self.own(version, "additionalPrinterColumns"), &path.child("additionalPrinterColumns"), errors);
            if let Some(fields) = self.own(version, "selectableFields") {
                let path = path.child("selectableFields");
                match self.own(version, "schema") {
                    Some(schema) => json_path::selectable_fields(fields, &schema["openAPIV3Schema"], &path, errors),
                    None if is_empty(fields) => {}
                    None => {
                        errors.push(Error::invalid(&path, "", "may only be set when `version.schema.openAPIV3Schema` is not included"));
                    }
                }
            }
        }
        if !unique {
            errors.push(Error::invalid(&path, self.shown_versions(), "must contain unique version names"));
        }
        if self.versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
            errors.push(Error::invalid(&path, self.shown_versions(), "must have exactly one version marked as storage version"));
        }
        if let Some(first) = seen.first() {
            let wrong = names::dns1035_label(first);
            if !wrong.is_empty() && !first.is_empty() {
                errors.push(Error::invalid(&self.path.child("version"), first, wrong.join(",")));
            }
        }
    }

    /// The versions as upstream prints its own structs.
    fn shown_versions(&self) -> BadValue {
        if !self.value["versions"].is_array() {
            return Value::Null.into();
        }
        let mut shown = Vec::new();
        for version in self.versions {
            let warning = version.get("deprecationWarning").map_or_else(|| "null".to_owned(), go_json);
            let mut text = format!(
                "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{warning}",
                go_json(&Value::from(self::text(version, "name"))),
                flag(version, "served"),
                flag(version, "storage"),
                flag(version, "deprecated"),
            );
            for (part, member) in
                SHARED.map(|(part, _)| part).into_iter().zip(["Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields"])
            {
                let value = self.own(version, part).map_or_else(|| "null".to_owned(), go_json);
                text.push_str(",\"");
                text.push_str(member);
                text.push_str("\":");
                text.push_str(&value);
            }
            text.push('}');
            shown.push(text);
        }
        BadValue::Json(format!("[{}]", shown.join(",")))
    }

    fn names(&self, errors: &mut Vec<Error>) {
        let path = self.path.child("names");
        let names = KindNames::read(&self.value["names"]);
        for (key, name) in [("plural", &names.plural), ("singular", &names.singular), ("kind", &names.kind), ("listKind", &names.list_kind)]
        {
            if name.is_empty() {
                errors.push(Error::required(&path.child(key), ""));
            }
        }
        kind_names(&names, &path, errors);
    }

    /// One schema; `path` is that of the member around `openAPIV3Schema`.
    fn schema(&self, around: &Value, status: bool, path: &Path, errors: &mut Vec<Error>) {
        let schema = &around["openAPIV3Schema"];
        if !schema.is_object() {
            return;
        }
        let path = path.child("openAPIV3Schema");
        let before = errors.len();
        if status {
            openapi_schema::root_with_status(schema, &path, errors);
        }
        if flag(schema, "nullable") {
            errors.push(Error::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
        }
        let mut sound = None;
        // What Kubernetes' own structural type cannot hold is told by the checks below alone.
        if openapi_schema::is_convertible(schema) {
            let structural = super::structural::validate(schema, &path);
            if structural.is_empty() {
                let wrong = defaults::validate(schema, &path, self.options.pruned_defaults);
                if wrong.is_empty() {
                    sound = Some(schema);
                }
                errors.extend(wrong);
            } else {
                errors.extend(structural);
            }
        }
        openapi_schema::validate(schema, &path, self.options, errors);
        if errors.len() > before {
            return;
        }
        match sound.map(Schema::from_json) {
            None => {}
            Some(Ok(schema)) => errors.extend((self.rules)(&schema, &path)),
            Some(Err(error)) => errors.push(Error::invalid(&path, "", error.to_string())),
        }
    }
}

/// The part of a version if it is neither absent nor empty; a schema counts as soon as it is there.
fn present<'a>(version: &'a Value, part: &str) -> Option<&'a Value> {
    version.get(part).filter(|value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    })
}

fn columns(columns: Option<&Value>, path: &Path, errors: &mut Vec<Error>) {
    const TYPES: &str = "must be one of boolean,date,integer,number,string";
    const FORMATS: &str = "must be one of byte,date,date-time,double,float,int32,int64,password";
    for (index, column) in columns.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let path = path.index(index);
        if text(column, "name").is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        }
        let kind = text(column, "type");
        if kind.is_empty() {
            errors.push(Error::required(&path.child("type"), TYPES));
        } else if !["integer", "number", "string", "boolean", "date"].contains(&kind.as_str()) {
            errors.push(Error::invalid(&path.child("type"), kind, TYPES));
        }
        let format = text(column, "format");
        if !format.is_empty() && !["int32", "int64", "float", "double", "byte", "date", "date-time", "password"].contains(&format.as_str())
        {
            errors.push(Error::invalid(&path.child("format"), format, FORMATS));
        }
        let json_path = text(column, "jsonPath");
        if json_path.is_empty() {
            errors.push(Error::required(&path.child("JSONPath"), ""));
        } else {
            json_path::simple(&json_path, &path.child("JSONPath"), errors);
        }
    }
}

fn deprecation(version: &Value) -> Vec<String> {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return Vec::new();
    };
    if !flag(version, "deprecated") {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut wrong = Vec::new();
    if warning.len() > 256 {
        wrong.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        wrong.push("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, letter)| letter.is_control()) {
        wrong.push(format!("must only contain printable UTF-8 characters; non-printable character found at index {index}"));
    }
    wrong
}

fn kind_names(names: &KindNames, path: &Path, errors: &mut Vec<Error>) {
    let mut label = |field: Path, name: &str, mixed: bool| {
        let lower = name.to_lowercase();
        let wrong = names::dns1035_label(if mixed { &lower } else { name });
        if wrong.is_empty() {
            return;
        }
        let before = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
        errors.push(Error::invalid(&field, name, format!("{before}{}", wrong.join(","))));
    };
    for (key, name, mixed) in [
        ("plural", &names.plural, false),
        ("singular", &names.singular, false),
        ("kind", &names.kind, true),
        ("listKind", &names.list_kind, true),
    ] {
        if !name.is_empty() {
            label(path.child(key), name, mixed);
        }
    }
    for (index, name) in names.short_names.iter().enumerate() {
        label(path.child("shortNames").index(index), name, false);
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        errors.push(Error::invalid(&path.child("listKind"), &names.list_kind, "kind and listKind may not be the same"));
    }
    for (index, name) in names.categories.iter().enumerate() {
        let wrong = names::dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(Error::invalid(&path.child("categories").index(index), name, wrong.join(",")));
        }
    }
}

fn one_of(value: &Value, accepted: &[&str], path: &Path, errors: &mut Vec<Error>) {
    let value = value.as_str().unwrap_or_default();
    if value.is_empty() {
        errors.push(Error::required(path, ""));
    } else if !accepted.contains(&value) {
        errors.push(Error::not_supported(path, value, accepted));
    }
}

fn status(crd: &Value, errors: &mut Vec<Error>) {
    kind_names(&KindNames::read(&crd["status"]["acceptedNames"]), &Path::new("status").child("acceptedNames"), errors);
}

fn stored_versions(crd: &Value, errors: &mut Vec<Error>) {
    let path = Path::new("status").child("storedVersions");
    let stored = list(&crd["status"], "storedVersions");
    if stored.is_empty() {
        errors.push(Error::invalid(&path, crd["status"].get("storedVersions"), "must have at least one stored version"));
        return;
    }
    let versions = list(&crd["spec"], "versions");
    for (index, version) in versions.iter().enumerate().filter(|(_, version)| flag(version, "storage")) {
        let name = text(version, "name");
        // Of versions with the same name the first alone counts.
        let is_first = versions.iter().position(|one| text(one, "name") == name) == Some(index);
        if !is_first || !stored.iter().any(|stored| *stored == name) {
            errors.push(Error::invalid(&path, Value::from(stored), format!("must have the storage version {name}")));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !versions.iter().any(|version| text(version, "name") == name) {
            let words = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(Error::invalid(&path.index(index), name, words));
        }
    }
}

fn api_approval(crd: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
    if !approval::is_protected(&text(&crd["spec"], "group")) {
        return;
    }
    let (state, message) = approval::state(crd);
    if old.is_some_and(|old| approval::state(old).0 == state) {
        return;
    }
    let path = Path::new("metadata").child("annotations").key(approval::ANNOTATION);
    match state {
        approval::State::Missing => errors.push(Error::required(&path, message)),
        approval::State::Invalid => errors.push(Error::invalid(&path, &crd["metadata"]["annotations"][approval::ANNOTATION], message)),
        approval::State::Approved | approval::State::Bypassed => {}
    }
}

fn preserve_unknown_fields(crd: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
    if flag(&crd["spec"], "preserveUnknownFields") && !old.is_some_and(|old| flag(&old["spec"], "preserveUnknownFields")) {
        errors.push(Error::invalid(
            &Path::new("spec").child("preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
}
