//! Model checks, all of them collected (CATLG-25), and the shape of each channel's update graph (CATLG-26).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use mainstay_versions::CatalogRange;

use super::content::{BundleModel, ChannelModel, Model, PackageModel};
use super::{Finding, Scope, quoted};
use crate::model::Entry;

pub(super) fn check(model: &Model<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, package) in &model.packages {
        check_package(name, package, &mut findings);
    }
    findings
}

fn check_package(name: &str, package: &PackageModel<'_>, findings: &mut Vec<Finding>) {
    let mut here = |text: String| findings.push(Finding { scope: Scope::package(name), text });
    if package.default_channel.is_empty() {
        here("default channel must be set".to_owned());
    }
    if package.channels.is_empty() && package.default_channel.is_empty() {
        here("package must contain at least one channel".to_owned());
    }
    if let Some(text) = duplicate_versions(package) {
        here(text);
    }
    if package.deprecation.is_some_and(str::is_empty) {
        here("invalid deprecation: message must be set".to_owned());
    }
    for (channel_name, channel) in &package.channels {
        check_channel(name, channel_name, channel, package, findings);
    }
    // A default channel that no blob describes counts as a channel without bundles.
    if !package.default_channel.is_empty() && !package.channels.contains_key(package.default_channel) {
        check_channel(name, package.default_channel, &ChannelModel::default(), package, findings);
    }
}

/// Different bundles with one version; a bundle without a blob has version 0.0.0, as upstream has it.
fn duplicate_versions(package: &PackageModel<'_>) -> Option<String> {
    let mut by_version: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in package.channels.values().filter_map(|channel| channel.channel).flat_map(|channel| &channel.entries) {
        let version = package.bundles.get(entry.name.as_str()).map_or("0.0.0", |bundle| bundle.version.as_str());
        by_version.entry(version).or_default().insert(entry.name.as_str());
    }
    let duplicates: Vec<String> = by_version
        .iter()
        .filter(|(_, names)| names.len() > 1)
        .map(|(version, names)| format!("{{{version}: [{}]}}", join(names, ", ")))
        .collect();
    (!duplicates.is_empty()).then(|| format!("duplicate versions found in bundles: [{}]", duplicates.join(" ")))
}

fn check_channel(package_name: &str, name: &str, channel: &ChannelModel<'_>, package: &PackageModel<'_>, findings: &mut Vec<Finding>) {
    let mut here = |text: String| findings.push(Finding { scope: Scope::channel(package_name, name), text });
    let entries: &[Entry] = channel.channel.map_or(&[], |channel| &channel.entries);
    if entries.is_empty() {
        here("channel must contain at least one bundle".to_owned());
    } else if let Err(text) = check_update_graph(entries) {
        here(text);
    }
    if channel.deprecation.is_some_and(str::is_empty) {
        here("invalid deprecation: message must be set".to_owned());
    }
    for entry in entries {
        for text in check_entry(entry, package.bundles.get(entry.name.as_str())) {
            findings.push(Finding { scope: Scope::bundle(package_name, name, entry.name.as_str()), text });
        }
    }
}

fn check_entry(entry: &Entry, bundle: Option<&BundleModel<'_>>) -> Vec<String> {
    let mut texts = Vec::new();
    for (i, skip) in entry.skips.iter().enumerate() {
        if skip.is_empty() {
            texts.push(format!("skip[{i}] is empty"));
        }
    }
    if let Some(range) = &entry.skip_range
        && let Err(reason) = CatalogRange::parse(range)
    {
        texts.push(format!("invalid skipRange {}: {reason}", quoted(range)));
    }
    if bundle.is_none_or(|bundle| bundle.package_properties != 1) {
        texts.push("must be exactly one property with type \"olm.package\"".to_owned());
    }
    if bundle.is_none_or(|bundle| bundle.image.is_empty() && !bundle.has_objects) {
        texts.push("bundle image must be set".to_owned());
    }
    if bundle.is_some_and(|bundle| bundle.release_with_build) {
        texts.push("cannot use build metadata in version with a release version".to_owned());
    }
    if bundle.is_some_and(|bundle| bundle.deprecation.is_some_and(str::is_empty)) {
        texts.push("invalid deprecation: message must be set".to_owned());
    }
    texts
}

/// One head, no cycle on the way down from it, nobody stranded.
fn check_update_graph(entries: &[Entry]) -> Result<(), String> {
    let by_name: HashMap<&str, &Entry> = entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let skipped: HashSet<&str> = entries.iter().flat_map(|entry| &entry.skips).map(crate::BundleName::as_str).collect();
    let replaced: HashSet<&str> = entries.iter().filter_map(|entry| entry.replaces.as_ref()).map(crate::BundleName::as_str).collect();
    let heads: BTreeSet<&str> = by_name.keys().copied().filter(|name| !skipped.contains(name) && !replaced.contains(name)).collect();
    let mut heads_iter = heads.iter();
    let head = match (heads_iter.next(), heads_iter.next()) {
        (None, _) => return Err("no channel head found in graph".to_owned()),
        (Some(head), None) => *head,
        _ => return Err(format!("multiple channel heads found in graph: {}", join(&heads, ", "))),
    };
    let mut chain = vec![head];
    let mut met = HashSet::from([head]);
    let mut current = by_name.get(head);
    while let Some(entry) = current {
        let Some(next) = entry.replaces.as_ref().map(crate::BundleName::as_str) else { break };
        chain.push(next);
        if !met.insert(next) {
            let from = chain.iter().position(|name| *name == next).unwrap_or(0);
            return Err(format!("detected cycle in replaces chain of upgrade graph: {}", chain[from..].join(" -> ")));
        }
        if skipped.contains(next) {
            break;
        }
        current = by_name.get(next);
    }
    let stranded: BTreeSet<&str> = by_name.keys().copied().filter(|name| !met.contains(name) && !skipped.contains(name)).collect();
    if stranded.is_empty() { Ok(()) } else { Err(format!("channel contains one or more stranded bundles: {}", join(&stranded, ", "))) }
}

fn join(names: &BTreeSet<&str>, separator: &str) -> String {
    names.iter().copied().collect::<Vec<_>>().join(separator)
}
