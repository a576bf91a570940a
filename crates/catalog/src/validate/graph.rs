//! Checks of the model, all of them collected (CATLG-25), and of the shape of each channel's update graph (CATLG-26).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use mainstay_golang::quote;
use mainstay_versions::CatalogRange;

use super::content::{BundleModel, ChannelModel, Message, Model, PackageModel};
use super::{Finding, Rule, Scope};
use crate::model::{Entry, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};

pub(super) fn check(model: &Model<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, package) in &model.packages {
        check_package(name, package, &mut findings);
    }
    findings
}

fn check_package(name: &str, package: &PackageModel<'_>, findings: &mut Vec<Finding>) {
    let mut here = |rule: Rule, text: &str| {
        findings.push(Finding::new(rule, Scope::package(name), text.to_owned()).in_blob(package.place, SCHEMA_PACKAGE, "", name));
    };
    if package.default_channel.is_empty() {
        here(Rule::DefaultChannel, "default channel must be set");
    }
    if package.channels.is_empty() && package.default_channel.is_empty() {
        here(Rule::EmptyPackage, "package must contain at least one channel");
    }
    if let Some(text) = duplicate_versions(package) {
        here(Rule::DuplicateVersion, &text);
    }
    findings.extend(empty_message(package.deprecation, name, || Scope::package(name)));
    for (channel_name, channel) in &package.channels {
        check_channel(name, channel_name, channel, package, findings);
    }
    // A default channel without a blob counts as a channel without bundles.
    if !package.default_channel.is_empty() && !package.channels.contains_key(package.default_channel) {
        check_channel(name, package.default_channel, &ChannelModel::default(), package, findings);
    }
}

fn empty_message(message: Option<Message<'_>>, package: &str, scope: impl Fn() -> Scope) -> Option<Finding> {
    let message = message.filter(|message| message.text.is_empty())?;
    let text = "invalid deprecation: message must be set".to_owned();
    Some(Finding::new(Rule::DeprecationMessage, scope(), text).in_blob(message.place, SCHEMA_DEPRECATIONS, package, ""))
}

/// Different bundles with one version; a bundle without a blob has version 0.0.0, as in upstream.
fn duplicate_versions(package: &PackageModel<'_>) -> Option<String> {
    let mut by_version: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for entry in package.channels.values().filter_map(|channel| channel.channel).flat_map(|channel| &channel.entries) {
        let bundle = package.bundles.get(entry.name.as_str());
        let version = bundle.map_or_else(|| "0.0.0".to_owned(), |bundle| bundle.bundle.version.text());
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
    let entries: &[Entry] = channel.channel.map_or(&[], |channel| &channel.entries);
    let wrong = if entries.is_empty() {
        Err((Rule::EmptyChannel, "channel must contain at least one bundle".to_owned()))
    } else {
        check_update_graph(entries)
    };
    if let Err((rule, text)) = wrong {
        let finding = Finding::new(rule, Scope::channel(package_name, name), text);
        findings.push(match channel.channel {
            Some(fact) => finding.in_blob(fact.place.as_ref(), SCHEMA_CHANNEL, package_name, name),
            None => finding.in_blob(package.place, SCHEMA_PACKAGE, "", package_name),
        });
    }
    findings.extend(empty_message(channel.deprecation, package_name, || Scope::channel(package_name, name)));
    for entry in entries {
        let bundle = package.bundles.get(entry.name.as_str());
        let scope = || Scope::bundle(package_name, name, entry.name.as_str());
        for (rule, text) in entry_findings(entry) {
            let place = channel.channel.and_then(|fact| fact.place.as_ref());
            findings.push(Finding::new(rule, scope(), text).in_blob(place, SCHEMA_CHANNEL, package_name, name));
        }
        for (rule, text) in bundle_findings(package_name, entry, bundle) {
            let finding = Finding::new(rule, scope(), text);
            findings.push(match bundle {
                Some(bundle) => finding.in_blob(bundle.bundle.place.as_ref(), SCHEMA_BUNDLE, package_name, entry.name.as_str()),
                None => finding.in_blob(channel.channel.and_then(|fact| fact.place.as_ref()), SCHEMA_CHANNEL, package_name, name),
            });
        }
        findings.extend(empty_message(bundle.and_then(|bundle| bundle.deprecation), package_name, scope));
    }
}

/// Problems of an entry by itself.
fn entry_findings(entry: &Entry) -> Vec<(Rule, String)> {
    let mut found = Vec::new();
    for (i, _) in entry.skips.iter().enumerate().filter(|(_, skip)| skip.is_empty()) {
        found.push((Rule::EmptySkip, format!("skip[{i}] is empty")));
    }
    if let Some(range) = &entry.skip_range
        && let Err(reason) = CatalogRange::parse(range)
    {
        found.push((Rule::SkipRange, format!("invalid skipRange {}: {reason}", quote(range))));
    }
    found
}

/// Problems of an entry's bundle, as a part of its channel.
fn bundle_findings(package: &str, entry: &Entry, bundle: Option<&BundleModel<'_>>) -> Vec<(Rule, String)> {
    let mut found = Vec::new();
    let name = entry.name.as_str();
    if name.is_empty() {
        found.push((Rule::EntryName, "name must be set".to_owned()));
    }
    let Some(BundleModel { bundle, .. }) = bundle else {
        found.push((Rule::EntryWithoutBundle, "must be exactly one property with type \"olm.package\"".to_owned()));
        found.push((Rule::EntryWithoutBundle, "bundle image must be set".to_owned()));
        return found;
    };
    if bundle.version.release.is_some() {
        let normal = format!("{package}-v{}", bundle.version.text());
        if name != normal {
            found.push((Rule::ReleaseName, format!("name {} does not match normalized name {}", quote(name), quote(&normal))));
        }
    }
    if bundle.package_properties != 1 {
        found.push((Rule::PackageProperty, "must be exactly one property with type \"olm.package\"".to_owned()));
    }
    if !bundle.has_content {
        found.push((Rule::Image, "bundle image must be set".to_owned()));
    }
    if bundle.version.has_build && bundle.version.release.is_some() {
        found.push((Rule::Release, "cannot use build metadata in version with a release version".to_owned()));
    }
    found
}

/// Checks for one head, no cycle on the path down from it, and no stranded entry.
fn check_update_graph(entries: &[Entry]) -> Result<(), (Rule, String)> {
    let by_name: HashMap<&str, &Entry> = entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let skipped: HashSet<&str> = entries.iter().flat_map(|entry| &entry.skips).map(crate::BundleName::as_str).collect();
    let replaced: HashSet<&str> = entries.iter().filter_map(|entry| entry.replaces.as_ref()).map(crate::BundleName::as_str).collect();
    let heads: BTreeSet<&str> = by_name.keys().copied().filter(|name| !skipped.contains(name) && !replaced.contains(name)).collect();
    let mut heads_iter = heads.iter();
    let head = match (heads_iter.next(), heads_iter.next()) {
        (None, _) => return Err((Rule::NoHead, "no channel head found in graph".to_owned())),
        (Some(head), None) => *head,
        _ => return Err((Rule::SeveralHeads, format!("multiple channel heads found in graph: {}", join(&heads, ", ")))),
    };
    let mut chain = vec![head];
    let mut met = HashSet::from([head]);
    let mut current = by_name.get(head);
    while let Some(entry) = current {
        let Some(next) = entry.replaces.as_ref().map(crate::BundleName::as_str) else { break };
        chain.push(next);
        if !met.insert(next) {
            let from = chain.iter().position(|name| *name == next).unwrap_or(0);
            return Err((Rule::Cycle, format!("detected cycle in replaces chain of upgrade graph: {}", chain[from..].join(" -> "))));
        }
        if skipped.contains(next) {
            break;
        }
        current = by_name.get(next);
    }
    let stranded: BTreeSet<&str> = by_name.keys().copied().filter(|name| !met.contains(name) && !skipped.contains(name)).collect();
    if stranded.is_empty() {
        return Ok(());
    }
    Err((Rule::Stranded, format!("channel contains one or more stranded bundles: {}", join(&stranded, ", "))))
}

fn join(names: &BTreeSet<&str>, separator: &str) -> String {
    names.iter().copied().collect::<Vec<_>>().join(separator)
}
