//! `xtask facts`: turns the recorded OpenAPI and discovery documents of Kubernetes into the compact facts that `mainstay-kinds` embeds.
//!
//! ```text
//! kubernetes-openapi/discovery/*.json.gz ──> facts/resources.json    groups in order, one resource a line
//! kubernetes-openapi/v3/*.json.gz ─────────> facts/definitions.json  one definition a line, references by bare name
//! ```
//! Kinds that are newer than the emulated version are left out ([`newer`]). Columns of tables (`facts/columns.json`) are in no document:
//! `scripts/table-columns` asks a real server for them.
//! Paths, operations and the aggregated discovery documents follow from the resources, so they are not kept;
//! that the aggregated form does follow is checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value, json};

// The path is named because the test of `mainstay-kinds` that compares the facts includes this file by its own path.
#[path = "newer.rs"]
pub mod newer;

/// The prefix of references between definitions of OpenAPI v3; bare names are kept instead.
const REFERENCE: &str = "#/components/schemas/";

/// Reads `kubernetes-openapi` in `shared_data_dir` and writes the facts' files into `out`.
pub fn run(shared_data_dir: &Path, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("{}: cannot be made", out.display()))?;
    for (name, text) in generate(shared_data_dir)? {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    Ok(())
}

/// The facts' files: name and content.
pub fn generate(shared_data_dir: &Path) -> Result<Vec<(&'static str, String)>> {
    let root = shared_data_dir.join("kubernetes-openapi");
    Ok(vec![("resources.json", resources(&root)?), ("definitions.json", definitions(&root)?)])
}

fn read(path: &Path) -> Result<Value> {
    let file = fs::File::open(path).with_context(|| format!("{}: cannot be opened", path.display()))?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).with_context(|| format!("{}: cannot be unpacked", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}: not JSON", path.display()))
}

fn resources(root: &Path) -> Result<String> {
    let folder = root.join("discovery");
    let mut groups = vec![json!({"name": "", "versions": ["v1"]})];
    let listed = read(&folder.join("apis.json.gz"))?;
    for group in list(&listed, "groups") {
        let name = text(group, "name");
        let versions: Vec<&str> = list(group, "versions").iter().map(|version| text(version, "version")).collect();
        ensure!(
            Some(versions[0]) == group.pointer("/preferredVersion/version").and_then(Value::as_str),
            "group {name} prefers a later version"
        );
        groups.push(json!({"name": name, "versions": versions}));
    }

    let mut lines = Vec::new();
    for group in &groups {
        for version in list(group, "versions") {
            let (name, version) = (text(group, "name"), version.as_str().unwrap_or_default());
            let file = if name.is_empty() { format!("resources_{version}.json.gz") } else { format!("resources_{name}_{version}.json.gz") };
            let found = of_group_version(name, version, &read(&folder.join(file))?)?;
            check_aggregated(&folder, name, version, &found)?;
            lines.extend(found);
        }
    }
    let mut out = String::from("{\"groups\": [\n");
    join_lines(&mut out, &groups);
    out.push_str("],\n\"resources\": [\n");
    join_lines(&mut out, &lines);
    out.push_str("]}\n");
    Ok(out)
}

/// The resources of one APIResourceList, each with its subresources.
fn of_group_version(group: &str, version: &str, listed: &Value) -> Result<Vec<Value>> {
    let mut found: Vec<Value> = Vec::new();
    for entry in list(listed, "resources") {
        let full = text(entry, "name");
        let (plural, sub) = full.split_once('/').map_or((full, None), |(plural, sub)| (plural, Some(sub)));
        let mut out = Map::new();
        let mut keep = |from: &str, to: &str| {
            if let Some(value) = entry.get(from).filter(|value| !matches!(value, Value::String(text) if text.is_empty())) {
                out.insert(to.into(), value.clone());
            }
        };
        keep("kind", "kind");
        keep("verbs", "verbs");
        if let Some(name) = sub {
            keep("group", "group");
            keep("version", "version");
            out.insert("name".into(), json!(name));
            let Some(parent) = found.iter_mut().find(|resource| resource["plural"] == plural) else {
                bail!("{full} stands before {plural}");
            };
            parent["subresources"].as_array_mut().context("subresources is a list")?.push(Value::Object(out));
        } else {
            keep("singularName", "singular");
            keep("shortNames", "shortNames");
            keep("categories", "categories");
            keep("storageVersionHash", "storageVersionHash");
            keep("namespaced", "namespaced");
            for (key, value) in
                [("group", json!(group)), ("version", json!(version)), ("plural", json!(plural)), ("subresources", json!([]))]
            {
                out.insert(key.into(), value);
            }
            found.push(Value::Object(out));
        }
    }
    Ok(found)
}

/// The aggregated document must say nothing that the lists do not say.
fn check_aggregated(folder: &Path, group: &str, version: &str, found: &[Value]) -> Result<()> {
    let document = read(&folder.join(if group.is_empty() { "aggregated-api.json.gz" } else { "aggregated-apis.json.gz" }))?;
    let item = list(&document, "items")
        .iter()
        .find(|item| item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default() == group)
        .with_context(|| format!("group {group:?} is not in the aggregated document"))?;
    let of_version = list(item, "versions")
        .iter()
        .find(|entry| text(entry, "version") == version)
        .with_context(|| format!("{group}/{version} is not in the aggregated document"))?;
    let recorded = list(of_version, "resources");
    ensure!(recorded.len() == found.len(), "{group}/{version}: {} aggregated resources, {} listed", recorded.len(), found.len());
    for (theirs, ours) in recorded.iter().zip(found) {
        ensure!(theirs["resource"] == ours["plural"] && theirs["verbs"] == ours["verbs"], "{group}/{version}: {theirs} is not {ours}");
        let subresources: Vec<&str> = list(theirs, "subresources").iter().map(|sub| text(sub, "subresource")).collect();
        let listed: Vec<&str> = list(ours, "subresources").iter().map(|sub| text(sub, "name")).collect();
        ensure!(subresources == listed, "{group}/{version}: subresources {subresources:?} are not {listed:?}");
    }
    Ok(())
}

fn definitions(root: &Path) -> Result<String> {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    let index = read(&root.join("v3-index.json.gz"))?;
    let Value::Object(index) = index else { bail!("v3-index.json.gz is not an object") };
    for entry in index.values() {
        let document = read(&root.join(text(entry, "file")))?;
        let Some(Value::Object(schemas)) = document.pointer("/components/schemas") else { continue };
        for (name, schema) in schemas {
            let mut schema = schema.clone();
            bare_references(&mut schema);
            match all.get(name) {
                None => {
                    all.insert(name.clone(), schema);
                }
                // DeleteOptions and WatchEvent belong to every group version: each document names others of these versions.
                Some(known) => ensure!(
                    without_kinds(known) == without_kinds(&schema),
                    "{name} differs between documents beyond its x-kubernetes-group-version-kind"
                ),
            }
        }
    }
    newer::remove(&mut all)?;
    let known: BTreeSet<&String> = all.keys().collect();
    for (name, schema) in &all {
        let mut wanted = Vec::new();
        references(schema, &mut wanted);
        for reference in wanted {
            ensure!(known.contains(&reference), "{name} mentions {reference}, which is not kept");
        }
    }
    let mut out = String::from("{\n");
    let count = all.len();
    for (at, (name, schema)) in all.iter().enumerate() {
        let comma = if at + 1 < count { "," } else { "" };
        writeln!(out, "{}: {schema}{comma}", json!(name))?;
    }
    out.push_str("}\n");
    Ok(out)
}

fn without_kinds(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(map) = &mut schema {
        map.remove("x-kubernetes-group-version-kind");
    }
    schema
}

fn bare_references(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                match child {
                    Value::String(target) if key == "$ref" => {
                        if let Some(name) = target.strip_prefix(REFERENCE) {
                            *target = name.to_owned();
                        }
                    }
                    _ => bare_references(child),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(bare_references),
        _ => {}
    }
}

fn references(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                match child {
                    Value::String(target) if key == "$ref" => out.push(target.clone()),
                    _ => references(child, out),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, out)),
        _ => {}
    }
}

fn join_lines(out: &mut String, values: &[Value]) {
    for (at, value) in values.iter().enumerate() {
        out.push_str(&value.to_string());
        out.push_str(if at + 1 < values.len() { ",\n" } else { "\n" });
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
