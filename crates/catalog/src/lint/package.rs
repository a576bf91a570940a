//! Rules about a package as a whole: its default channel, its presentation in consoles, its deprecations.

use mainstay_versions::{KubernetesVersion, Version};

use super::{Report, Rule, Subject, Subjects, icon};
use crate::model::{Bundle, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE};
use crate::properties::Facts;
use crate::reach::Updates;

/// The capability levels that consoles support.
const CAPABILITIES: [&str; 5] = ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];

pub(super) fn check(package: &Subjects<'_>, report: &mut Report<'_>) {
    // Validation reports blobs without a package blob.
    let Some(blob) = package.parts.package else { return };
    let here = Subject::package(package.name);
    match &blob.icon {
        None => report.add(Rule::IconMissing, here, "has no icon"),
        Some(icon) => {
            if let Some((rule, problem)) = icon::problem(icon) {
                report.add(rule, here, problem);
            }
        }
    }
    let default = package.parts.default_channel().and_then(|name| package.parts.channel(name));
    if default.is_none() {
        let said = package.parts.default_channel().unwrap_or("none");
        report.add(Rule::DefaultChannelMissing, here, format!("the default channel is {said}, the channels are {}", names(package)));
    }
    default_channel(package, report);
    deprecations(package, report);
    let head = default.and_then(|channel| {
        let updates = Updates::of(channel, &package.versions);
        updates.head().and_then(|head| package.parts.bundle(updates.entry(head).name.as_str()))
    });
    let Some(head) = head else { return };
    if console(package, head, report) == Described::No && blob.description.trim().is_empty() {
        report.add(Rule::DescriptionMissing, here, "neither the package nor the head of its default channel has a description");
    }
}

fn names(package: &Subjects<'_>) -> String {
    let names: Vec<&str> = package.parts.channels.iter().map(|channel| channel.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The stability of a channel according to its name, the most stable first; `None` if the name does not tell.
fn stability(name: &str) -> Option<u8> {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    let rank = |word: &str| match word {
        "stable" | "production" | "prod" | "release" | "ga" => Some(0),
        "fast" => Some(1),
        "candidate" | "rc" | "preview" | "beta" | "testing" | "staging" => Some(2),
        "alpha" | "dev" | "devel" | "development" | "nightly" | "edge" | "experimental" | "unstable" => Some(3),
        _ => None,
    };
    words.filter_map(rank).max()
}

fn default_channel(package: &Subjects<'_>, report: &mut Report<'_>) {
    let Some(default) = package.parts.default_channel() else { return };
    let deprecated = package.parts.deprecated();
    let alive = |name: &str| !deprecated.keys().any(|reference| reference.schema == SCHEMA_CHANNEL && reference.name == name);
    let Some(own) = stability(default) else { return };
    let here = Subject::package(package.name);
    let others = package.parts.channels.iter().filter(|channel| channel.name.as_str() != default && alive(channel.name.as_str()));
    let ranked: Vec<_> = others.filter_map(|channel| Some((stability(channel.name.as_str())?, *channel))).collect();
    if let Some((_, better)) = ranked.iter().filter(|(rank, _)| *rank < own).min_by_key(|(rank, channel)| (*rank, channel.name.as_str())) {
        report.add(Rule::DefaultChannelUnstable, here, format!("the default channel is {default}, and there is {}", better.name));
        return;
    }
    let head = |name: &str| {
        let updates = Updates::of(package.parts.channel(name)?, &package.versions);
        updates.head().and_then(|head| updates.version(head).cloned())
    };
    let Some(here_version) = head(default) else { return };
    let ahead = ranked.iter().filter(|(rank, _)| *rank == own).filter_map(|(_, channel)| Some((head(channel.name.as_str())?, channel)));
    if let Some((version, channel)) =
        ahead.filter(|(version, _)| *version > here_version && !version.is_prerelease()).max_by(|a, b| a.0.cmp(&b.0))
    {
        let message = format!("the head of the default channel {default} is {here_version}, that of {} is {version}", channel.name);
        report.add(Rule::DefaultChannelBehind, here, message);
    }
}

/// Presence of a bundle's description of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Described {
    Yes,
    No,
    /// Its metadata are missing or cannot be read, and a finding reports that.
    Unknown,
}

/// Checks the parts of the head that consoles show.
fn console(package: &Subjects<'_>, bundle: &Bundle, report: &mut Report<'_>) -> Described {
    let here = Subject::bundle(package.name, bundle.name.as_str());
    let facts = match Facts::of(bundle) {
        Ok(Some(facts)) => facts,
        Ok(None) => {
            report.add(
                Rule::MetadataMissing,
                here,
                "the head of the default channel has neither olm.csv.metadata nor a CSV in olm.bundle.object",
            );
            return Described::Unknown;
        }
        Err(problem) => {
            report.add(Rule::MetadataBroken, here, problem.to_string());
            return Described::Unknown;
        }
    };
    if facts.display_name.trim().is_empty() {
        report.add(Rule::DisplayNameMissing, here, "has no displayName");
    }
    if facts.provider.name.trim().is_empty() {
        report.add(Rule::ProviderMissing, here, "has no provider.name");
    }
    if !facts.install_modes.iter().any(|mode| mode.supported) {
        report.add(Rule::InstallModesMissing, here, "supports no install mode");
    }
    if facts.annotation("categories").is_none_or(|text| text.trim().is_empty()) {
        report.add(Rule::CategoryMissing, here, "has no annotation categories");
    }
    if let Some(level) = facts.annotation("capabilities").filter(|level| !CAPABILITIES.contains(level)) {
        report.add(Rule::Capability, here, format!("annotation capabilities is {level:?}"));
    }
    if !facts.min_kube_version.is_empty() && Version::parse(&facts.min_kube_version).is_err() {
        let almost = KubernetesVersion::parse(&facts.min_kube_version).map(|version| format!("; {version} is meant")).unwrap_or_default();
        report.add(Rule::MinKubeVersion, here, format!("minKubeVersion is {:?}{almost}", facts.min_kube_version));
    }
    if facts.description.trim().is_empty() { Described::No } else { Described::Yes }
}

fn deprecations(package: &Subjects<'_>, report: &mut Report<'_>) {
    let deprecated = package.parts.deprecated();
    let has = |schema: &str, name: &str| deprecated.keys().any(|reference| reference.schema == schema && reference.name == name);
    if deprecated.is_empty() || has(SCHEMA_PACKAGE, "") {
        return;
    }
    let here = Subject::package(package.name);
    if !package.parts.channels.is_empty() && package.parts.channels.iter().all(|channel| has(SCHEMA_CHANNEL, channel.name.as_str())) {
        report.add_deprecation(Rule::DeprecatedAll, here, "every channel is deprecated, the package is not");
        return;
    }
    if let Some(default) = package.parts.default_channel().filter(|name| has(SCHEMA_CHANNEL, name)) {
        report.add_deprecation(Rule::DeprecatedDefault, here, format!("the default channel {default} is deprecated"));
    }
    for channel in package.parts.channels.iter().filter(|channel| !has(SCHEMA_CHANNEL, channel.name.as_str())) {
        let updates = Updates::of(channel, &package.versions);
        let Some(head) = updates.head().map(|head| updates.entry(head).name.as_str()) else { continue };
        if has(SCHEMA_BUNDLE, head) {
            let subject = Subject::entry(package.name, channel.name.as_str(), head);
            report.add_deprecation(Rule::DeprecatedHead, subject, format!("{head} is deprecated and the head of channel {}", channel.name));
        }
    }
}
