//! The checks of `opm alpha bundle validate`: the layout of a bundle and its annotations ([`format`]), then its manifests ([`content`]), in
//! opm's order and words (CATLG-48). opm goes through annotations in no fixed order; here it is the order of the table.

use std::collections::BTreeSet;

use mainstay_golang::quote;
use mainstay_schema::field::{self};
use mainstay_schema::metadata;
use mainstay_versions::CatalogRange;
use serde_json::Value;

use super::finding::{Finding, Level};
use super::manifests::{CsvManifest, Manifest, Manifests, texts, with_kind};
use super::{Options, crd, csv, hub, rules};
use crate::bundle::{CHANNELS, DEFAULT_CHANNEL, PACKAGE};
use crate::csv::Csv;
use crate::go::{self, member};
use crate::kinds;
use crate::labels::{MANIFESTS, MEDIA_TYPE, METADATA};
use crate::read::{InvalidDocument, Tree};

/// The type of a bundle, by its manifests: `helm`, `registry+v1` or `plain`.
pub fn media_type(manifests: &Manifests) -> Result<&'static str, InvalidDocument> {
    kind_of_bundle(&manifests.tree, "manifests")
}

/// The type of the files below `manifests`; `shown` is the name of that folder in messages.
pub(crate) fn kind_of_bundle(tree: &Tree, shown: &str) -> Result<&'static str, InvalidDocument> {
    let mut any = false;
    let mut csv = false;
    for (_, name, bytes) in tree.below("manifests").filter(|(_, name, _)| !name.contains('/')) {
        any = true;
        if name == "Chart.yaml" && tree.first_document(bytes).is_ok_and(|chart| chart["name"].as_str().is_some_and(|name| !name.is_empty()))
        {
            return Ok("helm");
        }
        csv |= tree.first_document(bytes).is_ok_and(|object| object["kind"] == "ClusterServiceVersion");
    }
    match (any, csv) {
        (false, _) => Err(InvalidDocument(format!("The directory {shown} contains no yaml files"))),
        (true, true) => Ok("registry+v1"),
        (true, false) => Ok("plain"),
    }
}

fn plain(rule: &'static super::Rule, detail: impl Into<String>) -> Finding {
    Finding::error(rule, "", detail).without_value()
}

/// Folders, annotations and dependencies.
pub fn format(manifests: &Manifests) -> Vec<Finding> {
    let tree = &manifests.tree;
    let mut findings = Vec::new();
    for folder in ["manifests", "metadata"] {
        if tree.below(folder).next().is_none() {
            findings.push(plain(&rules::FORMAT_FOLDER, format!("Unable to locate {folder} directory")));
        }
    }
    if !findings.is_empty() {
        return findings;
    }
    let media_type = media_type(manifests).unwrap_or_else(|problem| {
        findings.push(plain(&rules::FORMAT_MEDIA_TYPE, problem.to_string()));
        ""
    });
    let mut annotations = None;
    for (path, _, bytes) in tree.below("metadata").filter(|(_, name, _)| !name.contains('/')) {
        let Ok(document) = tree.first_document(bytes) else { continue };
        if annotations.is_none()
            && document["annotations"].is_object()
            && let Ok(found) = texts(&document["annotations"])
        {
            annotations = Some((path, found));
        }
    }
    match annotations {
        None => findings.push(plain(&rules::FORMAT_NO_ANNOTATIONS, "Could not find annotations file")),
        Some((path, found)) => {
            for (key, detail) in annotation_problems(&found, media_type) {
                findings.push(plain(&rules::FORMAT_ANNOTATION, detail).at(path, format!("annotations[{key}]")));
            }
        }
    }
    if let Some((path, document)) = dependencies(manifests) {
        for (index, entry) in document["dependencies"].as_array().into_iter().flatten().enumerate() {
            for detail in dependency_problems(entry) {
                findings.push(plain(&rules::FORMAT_DEPENDENCY, detail).at(path, format!("dependencies[{index}]")));
            }
        }
    }
    super::place(manifests, &mut findings);
    findings
}

/// The file of dependencies, and its document: the first one below `metadata` that has some and is not the file of annotations.
pub(super) fn dependencies(manifests: &Manifests) -> Option<(&str, Value)> {
    let mut annotated = false;
    for (path, _, bytes) in manifests.tree.below("metadata").filter(|(_, name, _)| !name.contains('/')) {
        let Ok(document) = manifests.tree.first_document(bytes) else { continue };
        if !annotated && document["annotations"].is_object() && texts(&document["annotations"]).is_ok() {
            annotated = true;
        } else if document["dependencies"].as_array().is_some_and(|list| !list.is_empty()) {
            return Some((path, document));
        }
    }
    None
}

fn annotation_problems(annotations: &std::collections::BTreeMap<String, String>, media_type: &str) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    for key in [MEDIA_TYPE, MANIFESTS, METADATA, PACKAGE, CHANNELS, DEFAULT_CHANNEL] {
        let value = annotations.get(key);
        if value.is_none() && key != DEFAULT_CHANNEL {
            problems.push((key, format!("Missing annotation {}", quote(key))));
        }
        let text = value.map_or("", String::as_str);
        if key == MEDIA_TYPE && text != media_type {
            let detail = format!("Expecting annotation {} to have value {} instead of {}", quote(key), quote(media_type), quote(text));
            problems.push((key, detail));
        }
        if (key == CHANNELS && text.is_empty()) || (key == DEFAULT_CHANNEL && value.is_some_and(String::is_empty)) {
            problems.push((key, format!("Expecting annotation {} to have non-empty value", quote(key))));
        }
    }
    problems
}

fn dependency_problems(entry: &Value) -> Vec<String> {
    let kind = member(entry, "type").as_str().unwrap_or_default();
    let value = member(entry, "value");
    let unreadable = || vec![format!("couldn't parse dependency of type {kind}")];
    let known = ["olm.gvk", "olm.package", "olm.label", "olm.constraint"].contains(&kind);
    if !known || !(value.is_object() || value.is_null()) || (value.is_null() && entry.get("value").is_none()) {
        return unreadable();
    }
    let text = |name: &str| match member(value, name) {
        Value::Null => Some(""),
        Value::String(text) => Some(text.as_str()),
        _ => None,
    };
    let mut problems = Vec::new();
    match kind {
        "olm.gvk" => {
            for (name, word) in [("group", "Group"), ("version", "Version"), ("kind", "Kind")] {
                match text(name) {
                    None => return unreadable(),
                    Some("") => problems.push(format!("API {word} is empty")),
                    Some(_) => {}
                }
            }
        }
        "olm.package" => {
            let (Some(package), Some(version)) = (text("packageName"), text("version")) else { return unreadable() };
            if package.is_empty() {
                problems.push("Package name is empty".to_owned());
            }
            if version.is_empty() {
                problems.push("Package version is empty".to_owned());
            } else if CatalogRange::parse(version).is_err() {
                problems.push("Invalid semver format version".to_owned());
            }
        }
        "olm.label" => match text("label") {
            None => return unreadable(),
            Some("") => problems.push("Label information is missing".to_owned()),
            Some(_) => {}
        },
        _ => match member(value, "cel") {
            Value::Null => problems.push("The CEL field is missing".to_owned()),
            Value::Object(_) => match member(member(value, "cel"), "rule") {
                Value::Null => problems.push("The CEL expression is missing".to_owned()),
                Value::String(rule) if rule.is_empty() => problems.push("The CEL expression is missing".to_owned()),
                Value::String(_) => {}
                _ => return unreadable(),
            },
            _ => return unreadable(),
        },
    }
    problems
}

/// The checks of manifests that only opm makes: kinds and metadata.
pub(super) fn kinds(manifests: &Manifests) -> Vec<Finding> {
    if media_type(manifests) != Ok("registry+v1") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for manifest in &manifests.objects {
        if let Some(finding) = kind_problem(manifest, "") {
            findings.push(finding);
        } else if !matches!(manifest.kind(), "ClusterServiceVersion" | "CustomResourceDefinition") {
            findings.extend(meta_problem(manifest));
        }
    }
    findings
}

fn kind_problem(manifest: &Manifest, root: &str) -> Option<Finding> {
    // The validator does not know the seeds' spelling of this console kind.
    if kinds::supported(manifest.kind()).is_some_and(|kind| kind.name != "ConsoleYamlSample") {
        return None;
    }
    let detail = format!("{} is not supported type for registryV1 bundle: {root}{}", manifest.kind(), manifest.file);
    Some(plain(&rules::CONTENT_KIND, detail).at(&manifest.file, "kind"))
}

/// The violation of Kubernetes' metadata rules by an object that is taken for one without a namespace.
fn meta_problem(manifest: &Manifest) -> Option<Finding> {
    let meta = &manifest.object["metadata"];
    let path = field::Path::new("metadata");
    let mut errors = Vec::new();
    for key in ["name", "generateName", "namespace"] {
        if !(meta[key].is_string() || meta[key].is_null()) {
            let found = mainstay_golang::value::json_type(&meta[key]);
            let detail = format!("json: cannot unmarshal {found} into Go struct field ObjectMeta.metadata.{key} of type string");
            return Some(plain(&rules::CONTENT_META, detail).at(&manifest.file, format!("metadata.{key}")));
        }
    }
    let named = |key: &str| meta[key].as_str().is_some_and(|name| !name.is_empty());
    if !named("name") && !named("generateName") {
        errors.push(field::Error::required(&path.child("name"), "name or generateName is required"));
    }
    if named("namespace") {
        errors.push(field::Error::forbidden(&path.child("namespace"), "not allowed on this type"));
    }
    metadata::labels(meta.get("labels"), &path.child("labels"), &mut errors);
    metadata::annotations(meta.get("annotations"), &path.child("annotations"), &mut errors);
    if errors.is_empty() {
        return None;
    }
    let detail = format!("error validating object metadata: {}. {}", field::aggregate(&errors), shown_meta(manifest));
    let place = errors[0].field.as_str().to_owned();
    Some(plain(&rules::CONTENT_META, detail).at(&manifest.file, place))
}

/// Type and metadata as Go prints the struct.
fn shown_meta(manifest: &Manifest) -> String {
    let meta = &manifest.object["metadata"];
    let text = |key: &str| meta[key].as_str().unwrap_or_default().to_owned();
    let map = |key: &str| {
        let entries = meta[key].as_object().into_iter().flatten();
        let entries: Vec<String> = entries.map(|(key, value)| format!("{key}:{}", value.as_str().unwrap_or_default())).collect();
        format!("map[{}]", entries.join(" "))
    };
    format!(
        "&{{{{{} {}}} {{{} {} {} {} {} {} {} 0001-01-01 00:00:00 +0000 UTC <nil> <nil> {} {} [] [] []}}}}",
        manifest.kind(),
        manifest.api_version(),
        text("name"),
        text("generateName"),
        text("namespace"),
        text("selfLink"),
        text("uid"),
        text("resourceVersion"),
        meta["generation"].as_i64().unwrap_or_default(),
        map("labels"),
        map("annotations")
    )
}

/// All findings of `opm` in the manifests. `root` is the prefix of the files it names; `optional` are its optional validators.
pub fn content(manifests: &Manifests, root: &str, optional: &[&str], options: &Options<'_>) -> Vec<Finding> {
    let tree = &manifests.tree;
    let mut findings = Vec::new();
    let media_type = match kind_of_bundle(tree, &format!("{root}manifests")) {
        Ok("helm") => return findings,
        Ok(media_type) => media_type,
        Err(problem) => {
            findings.push(plain(&rules::FORMAT_MEDIA_TYPE, problem.to_string()));
            ""
        }
    };
    let mut all: Vec<Manifest> = Vec::new();
    let mut csv: Option<CsvManifest> = None;
    let errors = |found: Vec<Finding>| found.into_iter().filter(|finding| finding.level == Level::Error);
    let mut folders: BTreeSet<&str> = BTreeSet::new();
    for (path, name, bytes) in tree.below("manifests") {
        if let Some((folder, _)) = name.split_once('/') {
            if folders.insert(folder) {
                let detail = format!("Unable to read file {root}manifests/{folder} in supported types");
                findings.push(plain(&rules::FOLDER, detail).at(path, ""));
            }
            continue;
        }
        let object = match tree.first_document(bytes).and_then(with_kind) {
            Ok(object) => object,
            Err(problem) => {
                findings.push(plain(&rules::CONTENT_OBJECT, problem.to_string()).at(path, ""));
                continue;
            }
        };
        let manifest = Manifest { file: path.to_owned(), object };
        all.push(manifest.clone());
        if media_type == "registry+v1"
            && let Some(finding) = kind_problem(&manifest, root)
        {
            findings.push(finding);
            continue;
        }
        match (manifest.kind(), manifest.api_version()) {
            ("ClusterServiceVersion", _) => match Csv::parse(&manifest.object) {
                Ok(parsed) => {
                    let found = CsvManifest { file: manifest.file.clone(), raw: manifest.object.clone(), csv: parsed };
                    findings.extend(errors(csv::check(&found)));
                    csv = Some(found);
                }
                Err(mismatch) => findings.push(plain(&rules::CSV_TYPES, mismatch.to_string()).at(path, mismatch.path)),
            },
            ("CustomResourceDefinition", "apiextensions.k8s.io/v1") => {
                let object = go::lenient("apiextensions.CustomResourceDefinition", &manifest.object);
                match go::conform("apiextensions.CustomResourceDefinition", &object) {
                    Ok(object) => findings.extend(errors(crd::check(&Manifest { file: manifest.file.clone(), object }))),
                    Err(mismatch) => findings.push(plain(&rules::CRD_TYPES, mismatch.to_string()).at(path, mismatch.path)),
                }
            }
            ("CustomResourceDefinition", "apiextensions.k8s.io/v1beta1") => findings.extend(errors(crd::check_old(&manifest))),
            ("CustomResourceDefinition", other) => {
                findings
                    .push(plain(&rules::CONTENT_CRD_VERSION, format!("Unsupported api version of CRD: {other}")).at(path, "apiVersion"));
            }
            _ => findings.extend(meta_problem(&manifest)),
        }
    }
    findings.extend(bundle(&all));
    if let Some(csv) = csv.filter(|_| optional.contains(&"operatorhub")) {
        findings.extend(errors(hub::validate_deprecated(&Manifests::csv_alone(csv), options)));
    }
    super::place(manifests, &mut findings);
    findings
}

/// Checks that the owned CRDs exist, by the name, version and kind that the CSV writes; a group that the CSV writes never fits.
fn bundle(objects: &[Manifest]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(csv) = objects.iter().find(|object| object.kind() == "ClusterServiceVersion") else { return findings };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut shipped = BTreeSet::new();
    let is_read = |version: &str| matches!(version.rsplit('/').next(), Some("v1" | "v1beta1"));
    for crd in objects.iter().filter(|object| object.kind() == "CustomResourceDefinition" && is_read(object.api_version())) {
        let spec = &crd.object["spec"];
        let old = crd.api_version().ends_with("/v1beta1");
        let mut versions: Vec<String> = spec["versions"].as_array().into_iter().flatten().map(|version| text(&version["name"])).collect();
        if old && spec["version"].as_str().is_some_and(|version| !version.is_empty()) {
            versions = vec![text(&spec["version"])];
        }
        shipped.extend(versions.into_iter().map(|version| (String::new(), text(&spec["names"]["kind"]), crd.name().to_owned(), version)));
    }
    let name = csv.name();
    for (index, owned) in csv.object["spec"]["customresourcedefinitions"]["owned"].as_array().into_iter().flatten().enumerate() {
        let part = |key| text(member(owned, key));
        let key = (part("group"), part("kind"), part("name"), part("version"));
        if !shipped.remove(&key) {
            let (group, kind, crd, version) = key;
            let shown = if crd.is_empty() { format!("{group}/{version} {kind}") } else { format!("{crd}/{version}") };
            let detail = format!("owned CRD {shown} not found in bundle {}", quote(name));
            let finding = Finding::error(&rules::CONTENT_OWNED_CRD, format!("{{{group} {kind} {crd} {version}}}"), detail);
            findings.push(finding.at(&csv.file, format!("spec.customresourcedefinitions.owned[{index}]")));
        }
    }
    let release = match &csv.object["spec"]["release"] {
        Value::Number(number) => number.to_string(),
        other => text(other),
    };
    let substitutes = text(&csv.object["metadata"]["annotations"]["olm.substitutesFor"]);
    if !release.is_empty() && !substitutes.is_empty() {
        let detail = format!(
            "bundle {} cannot have both a release version ({}) and olm.substitutesFor annotation ({})",
            quote(name),
            quote(&release),
            quote(&substitutes)
        );
        findings.push(Finding::error(&rules::CONTENT_RELEASE, "{   }", detail).at(&csv.file, "spec.release"));
    }
    findings
}
