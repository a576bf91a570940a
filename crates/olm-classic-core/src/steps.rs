//! The steps of an InstallPlan (OLM0-API-21, OLM0-IP-05).

use mainstay_bundle::Csv;
use mainstay_bundle::go::{self, Mismatch, fold};
use mainstay_golang::json_reader::{self, SyntaxError};
use mainstay_versions::Version;
use serde_json::{Value, json};

use crate::owner::Owner;
use crate::permissions::{self, UnrecognizedStrategy};
use crate::properties::{self, AnnotationError, Property};
use crate::source::SourceKey;

/// One object of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The CSV for which it is there.
    pub resolving: String,
    /// The object's kind; a Secret of a bundle is a `BundleSecret`, a `Secret` without manifest is one for pulling images.
    pub kind: String,
    /// Its group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its name.
    pub name: String,
    /// The catalog that it comes from.
    pub catalog: SourceKey,
    /// The object as JSON, with a newline.
    pub manifest: String,
}

/// The status of a step that was not looked at.
pub const UNKNOWN: &str = "Unknown";

/// Why the content of a bundle is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The CSV is no JSON.
    #[error(transparent)]
    Json(#[from] SyntaxError),
    /// The CSV has a field of the wrong type.
    #[error("bundle CSV: {0}")]
    Csv(#[from] Mismatch),
    /// The CSV's version is null, which Go reads as a text that is no version.
    #[error("bundle CSV: spec.version: null is no version; leave the field out")]
    NullVersion,
    /// The CSV has another install strategy.
    #[error(transparent)]
    Strategy(#[from] UnrecognizedStrategy),
    /// The CSV lacks its apiVersion or kind.
    #[error("bundle CSV {name} missing {field}")]
    Untyped {
        /// The CSV.
        name: String,
        /// The field.
        field: &'static str,
    },
    /// An object cannot be read.
    #[error("object {place} of the bundle: {problem}")]
    Object {
        /// Its place in the bundle.
        place: usize,
        /// The problem.
        problem: ObjectProblem,
    },
    /// The properties cannot be written.
    #[error("failed to construct properties annotation for {}: {error}", mainstay_golang::quote(.csv))]
    Properties {
        /// The CSV.
        csv: String,
        /// The problem.
        error: AnnotationError,
    },
}

/// Why a text is no object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectProblem {
    /// It is no JSON.
    #[error(transparent)]
    Json(#[from] SyntaxError),
    /// It is no YAML.
    #[error("{0}")]
    Yaml(String),
    /// It has no kind.
    #[error("Object 'Kind' is missing")]
    NoKind,
    /// There is no text.
    #[error("it is empty")]
    NoText,
    /// Its first document is empty.
    #[error("its first YAML document is empty, and no other counts; remove the `---` behind its comments")]
    Empty,
}

/// A bundle whose content is here.
#[derive(Debug, Clone, Copy)]
pub struct BundleContent<'a> {
    /// The name of the CSV as the catalog lists it.
    pub name: &'a str,
    /// The CSV, JSON.
    pub csv_json: &'a str,
    /// The objects, JSON or YAML, the CSV among them or not.
    pub objects: &'a [String],
    /// The properties that become the CSV's annotation.
    pub properties: &'a [Property],
}

/// The steps of a bundle in the order of execution: CSVs, CRDs, the rest.
pub fn of_bundle(bundle: BundleContent<'_>, namespace: &str, replaces: &str, catalog: &SourceKey) -> Result<Vec<Step>, StepError> {
    let object = json_reader::parse(bundle.csv_json.as_bytes())?;
    let object = fold("operators.ClusterServiceVersion", &object);
    if object["spec"].get("version").is_some_and(Value::is_null) {
        return Err(StepError::NullVersion);
    }
    let mut csv = go::conform("operators.ClusterServiceVersion", &object)?;
    let name = text(&csv["metadata"]["name"]).to_owned();
    for field in ["apiVersion", "kind"] {
        if text(&csv[field]).is_empty() {
            let field = if field == "kind" { "Kind" } else { "APIVersion" };
            return Err(StepError::Untyped { name, field });
        }
    }
    let annotation = properties::annotation(bundle.properties).map_err(|error| StepError::Properties { csv: name.clone(), error })?;
    set(&mut csv["metadata"], "namespace", namespace);
    set(&mut csv["spec"], "replaces", replaces);
    // Go reads a version leniently and writes it strictly.
    if let Ok(version) = Version::parse_tolerant(text(&csv["spec"]["version"])) {
        csv["spec"]["version"] = json!(version.to_string());
    }
    csv["metadata"]["annotations"][properties::ANNOTATION] = Value::String(annotation);
    let parsed = Csv::parse(&csv)?;
    let step = |kind: &str, group: &str, version: &str, object: &Value, manifest: String| {
        let metadata = &object["metadata"];
        let name = Some(text(&metadata["name"])).filter(|name| !name.is_empty()).unwrap_or_else(|| text(&metadata["generateName"]));
        Step {
            resolving: bundle.name.to_owned(),
            kind: if kind == "Secret" { "BundleSecret".to_owned() } else { kind.to_owned() },
            group: group.to_owned(),
            version: version.to_owned(),
            name: name.to_owned(),
            catalog: catalog.clone(),
            manifest,
        }
    };
    let manifest = go::to_string_as("operators.ClusterServiceVersion", &csv) + "\n";
    let (group, version) = group_version(text(&csv["apiVersion"]));
    let mut steps = vec![step(text(&csv["kind"]), group, version, &csv, manifest)];
    for (place, written) in bundle.objects.iter().enumerate() {
        let object = first_object(written).map_err(|problem| StepError::Object { place, problem })?;
        if object.is_null() {
            return Err(StepError::Object { place, problem: ObjectProblem::Empty });
        }
        let kind = text(&object["kind"]);
        if kind == "ClusterServiceVersion" {
            continue;
        }
        let (group, version) = group_version(text(&object["apiVersion"]));
        steps.push(step(kind, group, version, &object, go::to_string(&object) + "\n"));
    }
    let owner = Owner { api_version: parsed.api_version(), name: &parsed.name, namespace, uid: text(&csv["metadata"]["uid"]) };
    for (account, granted) in permissions::of(&parsed, &owner)? {
        if account != "default" {
            steps.push(step("ServiceAccount", "", "v1", &granted.service_account, written("ServiceAccount", &granted.service_account)));
        }
        let lists = [
            ("Role", granted.roles),
            ("RoleBinding", granted.role_bindings),
            ("ClusterRole", granted.cluster_roles),
            ("ClusterRoleBinding", granted.cluster_role_bindings),
        ];
        for (kind, objects) in lists {
            let table = format!("rbac.{kind}");
            steps.extend(objects.iter().map(|object| step(kind, "rbac.authorization.k8s.io", "v1", object, written(&table, object))));
        }
    }
    Ok(ordered(steps))
}

/// The step that subscribes to a bundle which a dependency brought (OLM0-RES-22).
pub fn subscription(namespace: &str, package: &str, channel: &str, catalog: &SourceKey, csv: &str) -> Step {
    let name = [package, channel, &catalog.name, &catalog.namespace].join("-");
    let mut spec = json!({"source": catalog.name, "sourceNamespace": catalog.namespace, "name": package});
    for (field, value) in [("channel", channel), ("startingCSV", csv), ("installPlanApproval", "Automatic")] {
        set(&mut spec, field, value);
    }
    let object = json!({
        "metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": {"lastUpdated": null},
    });
    Step {
        resolving: csv.to_owned(),
        kind: "Subscription".to_owned(),
        group: "operators.coreos.com".to_owned(),
        version: "v1alpha1".to_owned(),
        name,
        catalog: catalog.clone(),
        manifest: go::to_string(&object) + "\n",
    }
}

/// Steps in the order of execution.
pub fn ordered(mut steps: Vec<Step>) -> Vec<Step> {
    let rank = |step: &Step| match step.kind.as_str() {
        "ClusterServiceVersion" => 0,
        "CustomResourceDefinition" => 1,
        _ => 2,
    };
    steps.sort_by_key(rank);
    steps
}

/// The first object of a text, as upstream's decoder reads it; null if there is nothing in its first document.
pub fn first_object(text: &str) -> Result<Value, ObjectProblem> {
    if text.is_empty() {
        return Err(ObjectProblem::NoText);
    }
    let object = if text.trim_start().starts_with('{') {
        with_kubernetes_numbers(json_reader::parse_first(text.as_bytes())?)
    } else {
        mainstay_yaml::parse(first_document(text)).map_err(|error| ObjectProblem::Yaml(error.to_string()))?
    };
    // A first document of nothing but comments is no error yet, but it is no object either.
    if !object.is_null() && object["kind"].as_str().is_none_or(str::is_empty) {
        return Err(ObjectProblem::NoKind);
    }
    Ok(object)
}

/// Numbers as Kubernetes reads them: integers of 64 bits with a sign, all others floating.
fn with_kubernetes_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_u64() && !number.is_i64() => number.as_f64().map_or(Value::Number(number), Value::from),
        Value::Array(items) => items.into_iter().map(with_kubernetes_numbers).collect(),
        Value::Object(fields) => Value::Object(fields.into_iter().map(|(key, value)| (key, with_kubernetes_numbers(value))).collect()),
        other => other,
    }
}

/// The text up to the first line of three dashes that has something before it, even if that is a comment only.
fn first_document(text: &str) -> &str {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if at > 0 && line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty()) {
            return &text[..at];
        }
        at += line.len();
    }
    text
}

/// An object of a Go type, which is written without apiVersion and kind.
fn written(kind: &str, object: &Value) -> String {
    go::to_string_as(kind, object) + "\n"
}

/// Sets a text, which Go leaves out if it is empty.
fn set(object: &mut Value, field: &str, value: &str) {
    if let Some(fields) = object.as_object_mut() {
        if value.is_empty() {
            fields.remove(field);
        } else {
            fields.insert(field.to_owned(), Value::String(value.to_owned()));
        }
    }
}

fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The content of a bundle's files, as the unpacked bundle's ConfigMap holds them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The CSV's name.
    pub name: String,
    /// The CSV, JSON; of several the last counts.
    pub csv_json: String,
    /// The text of every file that holds an object, the CSV's with them.
    pub objects: Vec<String>,
}

/// Loads a bundle from its files in the order of their names. A file that holds no object is passed over, as upstream does.
pub fn load<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> Loaded {
    let files: std::collections::BTreeMap<&str, &[u8]> = files.into_iter().collect();
    let mut loaded = Loaded::default();
    for bytes in files.into_values() {
        let written = String::from_utf8_lossy(bytes);
        let Ok(object) = first_object(&written) else { continue };
        if object["kind"] == "ClusterServiceVersion" {
            loaded.csv_json = go::to_string(&object);
            text(&object["metadata"]["name"]).clone_into(&mut loaded.name);
        }
        loaded.objects.push(written.into_owned());
    }
    loaded
}
