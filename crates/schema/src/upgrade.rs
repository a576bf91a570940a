//! Checks that a CRD may be replaced by another without harm to the objects that exist (OLM1-CRD-02..06).
//!
//! ```text
//!   old CRD ─┬─ whole CRD: scope, stored versions, removed fields
//!            ├─ each version, old against new  ─┐
//!   new CRD ─┴─ served versions in pairs       ─┴─ flatten to path -> node, compare node by node (keywords.rs), the rest must be equal (rest.rs)
//! ```
//!
//! This answers as upstream's preflight does, with its texts; the order of findings, which upstream leaves open, is fixed here.

mod keywords;
mod rest;

use std::collections::BTreeMap;
use std::fmt;

use mainstay_versions::compare_api_versions;
use serde_json::Value;

use crate::field::Path;

/// One refused change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeFinding {
    /// `v1` if a version changed, `v1beta1 -> v1` if two served versions differ; none if the CRD as a whole changed.
    pub version: Option<String>,
    /// The node of the schema: `^.spec.replicas`. Empty if the CRD as a whole changed.
    pub path: String,
    /// The check that found it: `type`, `required`, `unhandled` ...
    pub rule: &'static str,
    /// The change in words.
    pub message: String,
}

impl fmt::Display for UpgradeFinding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(version) = &self.version {
            write!(out, "{version}: {}: ", self.path)?;
        }
        write!(out, "{}: {}", self.rule, self.message)
    }
}

/// Compares the CRD on the cluster with the one that is to replace it.
pub fn check(old: &Value, new: &Value) -> Result<(), Vec<UpgradeFinding>> {
    let mut findings = whole(old, new);
    for (name, old_schema) in schemas(old) {
        if let Some((_, new_schema)) = schemas(new).find(|(new_name, _)| *new_name == name) {
            compare(old_schema, new_schema, name, &mut findings);
        }
    }
    if new["spec"]["conversion"]["strategy"] != "Webhook" {
        let known = pairs(old);
        findings.extend(pairs(new).into_iter().filter(|finding| !known.contains(finding)));
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// The findings of one CRD as one text, as conditions and logs show it.
pub fn message(crd: &str, findings: &[UpgradeFinding]) -> String {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    format!("validating upgrade for CRD {crd:?}: {}", lines.join("\n"))
}

/// The parts of a schema node that make nodes of their own when flattened; what lies under the others stays in its parent, too.
type Flat<'a> = BTreeMap<String, &'a Value>;

fn versions(crd: &Value) -> &[Value] {
    crd["spec"]["versions"].as_array().map_or(&[], Vec::as_slice)
}

fn schemas(crd: &Value) -> impl Iterator<Item = (&str, &Value)> {
    versions(crd).iter().filter_map(|version| {
        let schema = &version["schema"]["openAPIV3Schema"];
        schema.is_object().then_some((version["name"].as_str()?, schema))
    })
}

fn whole(old: &Value, new: &Value) -> Vec<UpgradeFinding> {
    let mut findings = Vec::new();
    let mut add = |rule, message| findings.push(UpgradeFinding { version: None, path: String::new(), rule, message });
    let scope = |crd: &Value| crd["spec"]["scope"].as_str().unwrap_or_default().to_owned();
    if scope(old) != scope(new) {
        add("scope", format!("scope changed : {:?} -> {:?}", scope(old), scope(new)));
    }
    let removed: Vec<&str> = old["status"]["storedVersions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|stored| !versions(new).iter().any(|version| version["name"] == **stored))
        .collect();
    if !removed.is_empty() {
        add("storedVersionRemoval", format!("stored versions removed : [{}]", removed.join(" ")));
    }
    for (name, old_schema) in schemas(old) {
        if let Some((_, new_schema)) = schemas(new).find(|(new_name, _)| *new_name == name) {
            let kept = flatten(new_schema);
            for path in flatten(old_schema).into_keys().filter(|path| !kept.contains_key(path)) {
                add("existingFieldRemoval", format!("removed field : {name}.{path}"));
            }
        }
    }
    findings
}

/// Findings between the served versions of one CRD, each lower against each higher.
fn pairs(crd: &Value) -> Vec<UpgradeFinding> {
    let mut served: Vec<(&str, &Value)> = schemas(crd)
        .filter(|(name, _)| versions(crd).iter().any(|version| version["name"] == *name && version["served"] == true))
        .collect();
    // The preferred version comes first in that order; here it is the last.
    served.sort_by(|one, other| compare_api_versions(other.0, one.0));
    let mut findings = Vec::new();
    for (index, (low, low_schema)) in served.iter().enumerate() {
        for (high, high_schema) in &served[index + 1..] {
            compare(low_schema, high_schema, &format!("{low} -> {high}"), &mut findings);
        }
    }
    findings
}

fn compare(old: &Value, new: &Value, version: &str, findings: &mut Vec<UpgradeFinding>) {
    let empty = Value::Object(serde_json::Map::new());
    let new = flatten(new);
    for (path, old_node) in flatten(old) {
        let new_node = new.get(&path).copied().unwrap_or(&empty);
        if old_node == new_node {
            continue;
        }
        let mut found = keywords::compare(old_node, new_node);
        found.sort_by_key(|(rule, _)| *rule);
        found.extend(rest::compare(old_node, new_node).map(|message| ("unhandled", message)));
        findings.extend(found.into_iter().map(|(rule, message)| UpgradeFinding {
            version: Some(version.to_owned()),
            path: path.clone(),
            rule,
            message,
        }));
    }
}

fn flatten(schema: &Value) -> Flat<'_> {
    let mut flat = Flat::new();
    walk(schema, &Path::new("^"), &mut flat);
    flat
}

fn walk<'a>(schema: &'a Value, path: &Path, flat: &mut Flat<'a>) {
    if !schema.is_object() {
        return;
    }
    flat.insert(path.to_string(), schema);
    for key in ["items", "not", "additionalProperties", "additionalItems"] {
        walk(&schema[key], &path.child(key), flat);
    }
    for key in ["items", "allOf", "anyOf", "oneOf"] {
        for (index, part) in schema[key].as_array().into_iter().flatten().enumerate() {
            walk(part, &path.child(key).index(index), flat);
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &path.child(name), flat);
    }
    for key in ["patternProperties", "definitions", "dependencies"] {
        for (name, part) in schema[key].as_object().into_iter().flatten() {
            walk(part, &path.child(key).key(name), flat);
        }
    }
}
