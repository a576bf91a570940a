//! The checks before a CRD is replaced by that of a bundle (OLM0-RES-28, OLM0-RES-29), and the CSVs that it was installed with (OLM0-IP-15).

use std::collections::BTreeSet;

use mainstay_schema::crd::Definition;
use mainstay_schema::field::{Path, aggregate};
use mainstay_schema::{ReadError, validate};
use serde_json::{Value, json};

use crate::hash::fnv64a;

/// The prefix of annotations with the CSVs that a CRD was installed with.
const ALONGSIDE: &str = "operatorframework.io/installed-alongside-";

/// Why a CRD is not replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CrdRefusal {
    /// The new definition cannot be read.
    #[error("error validating existing CRs against new CRD's schema for {crd:?}: {problem}")]
    Unreadable {
        /// The CRD.
        crd: String,
        /// The problem.
        problem: String,
    },
    /// A version that is served now would be no more.
    #[error("not allowing CRD ({crd}) update with unincluded version {version}")]
    Unincluded {
        /// The CRD.
        crd: String,
        /// The version.
        version: String,
    },
    /// An object does not fit the new schema.
    #[error(
        "error validating existing CRs against new CRD's schema for {crd:?}: error validating {kind} {object:?}: updated validation is too \
         restrictive: {problem}"
    )]
    Restrictive {
        /// The CRD.
        crd: String,
        /// Group, version and kind of the object.
        kind: String,
        /// The object.
        object: String,
        /// The field or value that does not fit.
        problem: String,
    },
    /// A version in which objects are stored would be removed.
    #[error("risk of data loss updating {crd:?}: new CRD removes version {version} that is listed as a stored version on the existing CRD")]
    StoredVersion {
        /// The CRD.
        crd: String,
        /// The version.
        version: String,
    },
}

impl CrdRefusal {
    /// Returns whether a conversion webhook of the new definition may make up for it.
    pub fn is_about_schema(&self) -> bool {
        matches!(self, Self::Restrictive { .. })
    }
}

/// The versions whose objects must be read before a CRD is replaced: those that both definitions serve.
pub fn versions_to_check(live: &Value, new: &Value) -> Vec<String> {
    let served = |crd: &Value| -> BTreeSet<String> {
        let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
        let served = versions.filter(|version| version["served"] == true);
        served.filter_map(|version| version["name"].as_str().map(str::to_owned)).collect()
    };
    served(live).intersection(&served(new)).cloned().collect()
}

/// Checks that the new definition keeps what is served now; counts only for a CRD that several operators own.
pub fn check_versions(live: &Value, new: &Value) -> Result<(), CrdRefusal> {
    let kept = versions_to_check(live, new);
    let versions = live["spec"]["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    for version in versions.filter_map(|version| version["name"].as_str()) {
        if !kept.iter().any(|kept| kept == version) {
            return Err(CrdRefusal::Unincluded { crd: name(new), version: version.to_owned() });
        }
    }
    Ok(())
}

/// Checks that objects of a version fit the new definition.
pub fn check_objects<'o>(new: &Value, version: &str, objects: impl IntoIterator<Item = &'o Value>) -> Result<(), CrdRefusal> {
    let unreadable = |error: ReadError| CrdRefusal::Unreadable { crd: name(new), problem: error.to_string() };
    let definition = Definition::parse(new).map_err(unreadable)?;
    let Some(schema) = definition.version(version).map(|version| &version.schema) else { return Ok(()) };
    for object in objects {
        let errors = validate::validate(schema, object, &Path::root());
        if !errors.is_empty() {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let named =
                if text("namespace").is_empty() { text("name").to_owned() } else { format!("{}/{}", text("namespace"), text("name")) };
            return Err(CrdRefusal::Restrictive {
                crd: name(new),
                kind: format!("{}/{version}, Kind={}", definition.group, definition.names.kind),
                object: named,
                problem: aggregate(&errors),
            });
        }
    }
    Ok(())
}

/// Checks that no version is removed in which objects are stored; counts for every CRD.
pub fn check_stored(live: &Value, new: &Value) -> Result<(), CrdRefusal> {
    let versions = new["spec"]["versions"].as_array().into_iter().flatten().filter_map(|version| version["name"].as_str());
    let versions: BTreeSet<&str> = versions.collect();
    let stored = live["status"]["storedVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    match stored.into_iter().find(|version| !versions.contains(version)) {
        Some(version) => Err(CrdRefusal::StoredVersion { crd: name(new), version: version.to_owned() }),
        None => Ok(()),
    }
}

/// Returns whether the CRD's new definition converts by a webhook, which may make objects fit.
pub fn converts_by_webhook(crd: &Value) -> bool {
    crd["spec"]["conversion"]["strategy"] == "Webhook"
}

/// Notes the CSV that a CRD is installed with, beside those on the live object that still exist.
pub fn note_csv(crd: &mut Value, live: Option<&Value>, namespace: &str, csv: &str, exists: impl Fn(&str, &str) -> bool) {
    let kept = noted(crd, live).filter(|(of, name)| exists(of, name)).map(|(of, name)| format!("{of}/{name}"));
    let mut all: BTreeSet<String> = kept.collect();
    all.insert(format!("{namespace}/{csv}"));
    let own = crd["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let mut annotations: serde_json::Map<String, Value> = own.into_iter().filter(|(key, _)| !key.starts_with(ALONGSIDE)).collect();
    annotations.extend(all.into_iter().map(|noted| (format!("{ALONGSIDE}{:x}", fnv64a(noted.as_bytes())), json!(noted))));
    crd["metadata"]["annotations"] = Value::Object(annotations);
}

/// Namespace and name of the CSVs that a CRD and its live object name as installed with it.
pub fn noted<'a>(crd: &'a Value, live: Option<&'a Value>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let annotations = |object: &'a Value| object["metadata"]["annotations"].as_object().into_iter().flatten();
    let all = std::iter::once(crd).chain(live).flat_map(annotations);
    let values = all.filter(|(key, _)| key.starts_with(ALONGSIDE)).filter_map(|(_, value)| value.as_str());
    values.filter_map(|noted| noted.split_once('/')).filter(|(_, name)| !name.contains('/'))
}

/// Returns whether a CRD on the cluster can be used.
pub fn is_established(crd: &Value) -> bool {
    ["Established", "NamesAccepted"].into_iter().all(|kind| mainstay_schema::crd::is_condition_true(crd, kind))
}

fn name(crd: &Value) -> String {
    crd["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
