//! The validator of the ClusterServiceVersion itself.

use std::collections::BTreeSet;
use std::fmt;

use mainstay_golang::quote;
use mainstay_schema::names;
use mainstay_versions::Version;
use serde_json::Value;

use super::finding::Finding;
use super::manifests::{CsvManifest, Manifests};
use super::{go, rules};
use crate::csv::Csv;
use crate::read::InvalidDocument;

/// The text about a CSV without `spec.minKubeVersion`.
pub(super) const NO_MIN_KUBE_VERSION: &str = "csv.Spec.minKubeVersion is not informed. It is recommended you provide this information. Otherwise, it would mean that your operator project can be distributed and installed in any cluster version available, which is not necessarily the case for all projects.";

/// Annotations that OLM reads only in this case.
const CASE_SENSITIVE: [&str; 5] =
    ["olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces", "olm.providedAPIs", "olm.skipRange"];

/// Group, version and kind, printed as Kubernetes prints them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Api {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl fmt::Display for Api {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

pub(super) fn validate(manifests: &Manifests) -> Vec<Finding> {
    manifests.csv.as_ref().map(check).unwrap_or_default()
}

/// Upstream's findings about a CSV, in its order.
pub(super) fn check(manifest: &CsvManifest) -> Vec<Finding> {
    let (file, csv) = (manifest.file.as_str(), &manifest.csv);
    let mut findings = Vec::new();
    for (path, name, required) in [("metadata.name", &csv.name, true), ("spec.replaces", &csv.replaces, false)] {
        if let Some(problem) = name_problem(name).filter(|_| required || !name.is_empty()) {
            findings.push(about(csv, &rules::CSV_NAME, format!("{path} {problem}")).at(file, path));
        }
    }
    examples(manifest, &mut findings);
    install_modes(manifest, &mut findings);
    min_kube_version(manifest, &mut findings);
    required_fields(manifest, &mut findings);
    findings.extend(annotation_names(&csv.annotations, &csv.name, file));
    if manifest.raw["apiVersion"].as_str().is_none_or(|version| version.rsplit('/').next().unwrap_or_default().is_empty()) {
        findings.push(about(csv, &rules::CSV_KIND, "'apiVersion' is missing").at(file, ""));
    }
    findings
}

/// An error about the CSV in upstream's form: no value, the CSV's name in front.
pub(super) fn about(csv: &Csv, rule: &'static super::Rule, detail: impl fmt::Display) -> Finding {
    Finding::error(rule, "", format!("({}) {detail}", csv.name))
}

/// A warning about the CSV in the same form.
pub(super) fn advice(csv: &Csv, rule: &'static super::Rule, detail: impl fmt::Display) -> Finding {
    Finding::warning(rule, "", format!("({}) {detail}", csv.name))
}

fn name_problem(name: &str) -> Option<String> {
    let mut wrong = names::dns1123_subdomain(name);
    wrong.extend(names::label_value(name));
    (!wrong.is_empty()).then(|| format!("{} is invalid: {}", quote(name), wrong.join(",")))
}

fn examples(manifest: &CsvManifest, findings: &mut Vec<Finding>) {
    let (file, csv) = (manifest.file.as_str(), &manifest.csv);
    let annotations = &csv.annotations;
    if annotations.is_empty() {
        findings.push(advice(csv, &rules::CSV_EXAMPLES, "annotations not found").at(file, "metadata"));
        return;
    }
    let (key, text) = match (annotations.get("alm-examples"), annotations.get("olm.examples")) {
        (None, None) => {
            findings.push(advice(csv, &rules::CSV_EXAMPLES, "example annotations not found").at(file, "metadata.annotations"));
            return;
        }
        (Some(text), other) => {
            if other.is_some() {
                let detail = "both `alm-examples` and `olm.examples` are present. Checking only `alm-examples`";
                findings.push(advice(csv, &rules::CSV_EXAMPLES, detail).at(file, "metadata.annotations[olm.examples]"));
            }
            ("alm-examples", text)
        }
        (None, Some(text)) => ("olm.examples", text),
    };
    let place = format!("metadata.annotations[{key}]");
    if let Err(problem) = go::check_json(text) {
        findings.push(Finding::error(&rules::CSV_EXAMPLE_SYNTAX, problem.to_string(), "invalid example").at(file, &place));
        return;
    }
    let mut shown = BTreeSet::new();
    match example_objects(text) {
        Ok(objects) => shown.extend(objects),
        Err(problem) => {
            findings.push(
                Finding::error(&rules::CSV_EXAMPLE_SYNTAX, problem.to_string(), "error decoding example CustomResource").at(file, &place),
            );
            return;
        }
    }
    let mut provided = BTreeSet::new();
    for (index, owned) in csv.owned_crds.iter().enumerate() {
        if let Some((_, group)) = owned.name.split_once('.') {
            provided.insert(Api { group: group.to_owned(), version: owned.version.clone(), kind: owned.kind.clone() });
        } else {
            let detail = format!("couldn't parse plural.group from crd name: {}", owned.name);
            let path = format!("spec.customresourcedefinitions.owned[{index}].name");
            findings.push(Finding::error(&rules::CSV_OWNED_NAME, "", detail).without_value().at(file, path));
        }
    }
    for api in &csv.owned_api_services {
        provided.insert(Api { group: api.group.clone(), version: api.version.clone(), kind: api.kind.clone() });
    }
    for example in shown.difference(&provided) {
        let finding = Finding::error(&rules::CSV_EXAMPLE_API, example.to_string(), "example must have a provided API");
        findings.push(finding.at(file, &place));
    }
    for api in provided.difference(&shown) {
        let finding = Finding::warning(&rules::CSV_EXAMPLE_API, api.to_string(), "provided API should have an example annotation");
        findings.push(finding.at(file, &place));
    }
}

fn example_objects(text: &str) -> Result<Vec<Api>, InvalidDocument> {
    let objects = match serde_json::from_str::<Value>(text) {
        // An empty text is not an example.
        Err(_) => return Ok(Vec::new()),
        Ok(Value::Array(objects)) => objects,
        Ok(Value::Null) => Vec::new(),
        Ok(other) => {
            // An object is read as JSON directly, anything else as YAML first.
            let by_way = if other.is_object() { "" } else { "error unmarshaling JSON: while decoding JSON: " };
            let found = mainstay_golang::value::json_type(&other);
            return Err(InvalidDocument(format!(
                "{by_way}json: cannot unmarshal {found} into Go value of type []unstructured.Unstructured"
            )));
        }
    };
    let api = |object: Value| {
        let object = super::manifests::with_kind(object)?;
        Ok(api_of(&object))
    };
    objects.into_iter().map(api).collect()
}

/// Group, version and kind of an object.
fn api_of(object: &Value) -> Api {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = object["kind"].as_str().unwrap_or_default();
    Api { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
}

fn install_modes(manifest: &CsvManifest, findings: &mut Vec<Finding>) {
    let (file, csv) = (manifest.file.as_str(), &manifest.csv);
    let path = "spec.installModes";
    let mut refuse = |detail: &str| findings.push(about(csv, &rules::CSV_INSTALL_MODES, detail).at(file, path));
    if csv.install_modes.is_empty() {
        refuse("install modes not found");
        return;
    }
    let only_all = csv.install_modes.iter().all(|mode| mode.supported == (mode.mode == "AllNamespaces"));
    for webhook in &csv.webhooks {
        if !webhook.conversion_crds.is_empty() && !only_all {
            refuse("only AllNamespaces InstallModeType is supported when conversionCRDs is present");
        }
    }
    if !csv.install_modes.iter().any(|mode| mode.supported) {
        refuse("none of InstallModeTypes are supported");
    }
}

fn min_kube_version(manifest: &CsvManifest, findings: &mut Vec<Finding>) {
    let (csv, text) = (&manifest.csv, manifest.csv.min_kube_version.as_str());
    let finding = if text.trim().is_empty() {
        advice(csv, &rules::CSV_MIN_KUBE_VERSION, NO_MIN_KUBE_VERSION)
    } else if Version::parse(text).is_err() {
        about(csv, &rules::CSV_MIN_KUBE_VERSION, format!("csv.Spec.MinKubeVersion has an invalid value: {text}"))
    } else {
        return;
    };
    findings.push(finding.at(&manifest.file, "spec.minKubeVersion"));
}

/// Finds the fields that Go's struct always writes and that are empty.
fn required_fields(manifest: &CsvManifest, findings: &mut Vec<Finding>) {
    let object = &manifest.raw;
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.values().all(Value::is_null),
        _ => false,
    };
    let mut missing = |field: &str, kind: &str, path: &str| {
        findings.push(Finding::error(&rules::CSV_FIELD, kind, "required field missing").field(field).at(&manifest.file, path));
    };
    if empty(&object["metadata"]) {
        missing("ObjectMeta", "struct", "metadata");
    }
    let spec = &object["spec"];
    if empty(spec) {
        missing("Spec", "struct", "spec");
        return;
    }
    let install = &spec["install"];
    if empty(install) {
        missing("Spec.InstallStrategy", "struct", "spec");
    } else {
        if empty(&install["strategy"]) {
            missing("Spec.InstallStrategy.StrategyName", "field", "spec.install");
        }
        if !empty(&install["spec"]) && install["spec"]["deployments"].is_null() {
            missing("Spec.InstallStrategy.StrategySpec.DeploymentSpecs", "field", "spec.install.spec");
        }
    }
    if empty(&spec["displayName"]) {
        missing("Spec.DisplayName", "field", "spec");
    }
}

/// Annotations in the wrong case, and the one whose content belongs elsewhere.
pub(super) fn annotation_names(annotations: &std::collections::BTreeMap<String, String>, value: &str, file: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for key in annotations.keys() {
        let place = format!("metadata.annotations[{key}]");
        if let Some(known) = CASE_SENSITIVE.iter().find(|known| known.eq_ignore_ascii_case(key) && *known != key) {
            let detail = format!("provided annotation {key} uses wrong case and should be {known} instead");
            findings.push(Finding::error(&rules::CSV_ANNOTATION_CASE, value, detail).at(file, &place));
        }
        if key == "olm.properties" {
            let detail = "found olm.properties annotation, please define these properties in metadata/properties.yaml instead";
            findings.push(Finding::warning(&rules::CSV_PROPERTIES, "", detail).at(file, &place));
        }
    }
    findings
}
