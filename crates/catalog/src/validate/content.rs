//! Content checks that upstream stops at the first finding (CATLG-23, CATLG-24), and the model for the later checks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use mainstay_golang::quote;

use super::facts::{BundleFact, ChannelFact, Facts, Place};
use super::{Finding, Rule, Scope};
use crate::model::{Reference, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};

/// Continuation after a finding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Stop,
    GoOn,
}

/// Packages by name, as the model checks see them.
#[derive(Default)]
pub(super) struct Model<'a> {
    pub(super) packages: BTreeMap<&'a str, PackageModel<'a>>,
}

#[derive(Default)]
pub(super) struct PackageModel<'a> {
    pub(super) place: Option<&'a Place>,
    pub(super) default_channel: &'a str,
    pub(super) channels: BTreeMap<&'a str, ChannelModel<'a>>,
    pub(super) bundles: HashMap<&'a str, BundleModel<'a>>,
    pub(super) deprecation: Option<Message<'a>>,
}

#[derive(Default)]
pub(super) struct ChannelModel<'a> {
    pub(super) channel: Option<&'a ChannelFact>,
    pub(super) deprecation: Option<Message<'a>>,
}

pub(super) struct BundleModel<'a> {
    pub(super) bundle: &'a BundleFact,
    pub(super) deprecation: Option<Message<'a>>,
}

/// Message of a deprecation, with its place.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) text: &'a str,
    pub(super) place: Option<&'a Place>,
}

type Report<'r> = dyn FnMut(Finding) -> Next + 'r;

/// Runs the checks in upstream's order. The returned model is complete unless `report` stopped the checks.
pub(super) fn check<'a>(facts: &'a Facts, report: &mut Report<'_>) -> Model<'a> {
    let mut checker = Checker { facts, report, model: Model::default() };
    // The error is only the signal to stop; the findings went to `report`.
    let _stopped = checker.all();
    checker.model
}

struct Stop;

struct Checker<'a, 'r, 's> {
    facts: &'a Facts,
    report: &'r mut Report<'s>,
    model: Model<'a>,
}

/// Entry names by package, with the channel.
type Entries<'a> = BTreeMap<&'a str, (BTreeSet<&'a str>, &'a ChannelFact)>;

/// The blob that a finding points to.
#[derive(Clone, Copy)]
struct At<'a> {
    place: Option<&'a Place>,
    schema: &'static str,
    package: &'a str,
    name: &'a str,
}

impl<'a> Checker<'a, '_, '_> {
    fn hit(&mut self, at: At<'_>, rule: Rule, scope: Scope, text: String) -> Result<(), Stop> {
        let finding = Finding::new(rule, scope, text).in_blob(at.place, at.schema, at.package, at.name);
        match (self.report)(finding) {
            Next::Stop => Err(Stop),
            Next::GoOn => Ok(()),
        }
    }

    fn all(&mut self) -> Result<(), Stop> {
        self.packages()?;
        let mut wanted = self.channels()?;
        self.bundles(&mut wanted)?;
        for (package, (entries, channel)) in wanted.into_iter().filter(|(_, (entries, _))| !entries.is_empty()) {
            let entries: Vec<&str> = entries.into_iter().collect();
            let text = format!("no olm.bundle blobs found in package {} for olm.channel entries [{}]", quote(package), entries.join(" "));
            self.hit(channel.at(), Rule::EntryWithoutBundle, Scope::package(package), text)?;
        }
        self.deprecations()
    }

    fn packages(&mut self) -> Result<(), Stop> {
        for package in &self.facts.packages {
            let name = package.name.as_str();
            let at = At { place: package.place.as_ref(), schema: SCHEMA_PACKAGE, package: "", name };
            if name.is_empty() {
                self.hit(at, Rule::PackageName, Scope::catalog(), "config contains package with no name".to_owned())?;
                continue;
            }
            if self.model.packages.contains_key(name) {
                self.hit(at, Rule::DuplicatePackage, Scope::package(name), format!("duplicate package {}", quote(name)))?;
                continue;
            }
            let reasons = dns1123_label(name);
            if !reasons.is_empty() {
                let text = format!("invalid package name {}: [{}]", quote(name), reasons.join(" "));
                self.hit(at, Rule::PackageName, Scope::package(name), text)?;
            }
            let model = PackageModel {
                place: package.place.as_ref(),
                default_channel: package.default_channel.as_str(),
                ..PackageModel::default()
            };
            self.model.packages.insert(name, model);
        }
        Ok(())
    }

    /// Returns the entries of the last channel of each package: upstream looks for those among the bundles.
    fn channels(&mut self) -> Result<Entries<'a>, Stop> {
        let mut wanted = Entries::new();
        for channel in &self.facts.channels {
            let (package, name) = (channel.package.as_str(), channel.name.as_str());
            let Some(model) = self.model.packages.get(package) else {
                let text = format!("unknown package {} for channel {}", quote(package), quote(name));
                self.hit(channel.at(), Rule::UnknownPackage, Scope::catalog(), text)?;
                continue;
            };
            let duplicate = model.channels.contains_key(name);
            if name.is_empty() {
                let text = format!("package {} contains channel with no name", quote(package));
                self.hit(channel.at(), Rule::ChannelName, Scope::package(package), text)?;
                continue;
            }
            if duplicate {
                let text = format!("package {} has duplicate channel {}", quote(package), quote(name));
                self.hit(channel.at(), Rule::DuplicateChannel, Scope::channel(package, name), text)?;
                continue;
            }
            let mut entries = BTreeSet::new();
            for entry in &channel.entries {
                let entry = entry.name.as_str();
                if !entries.insert(entry) {
                    let subject = format!("invalid package {}, channel {}", quote(package), quote(name));
                    let text = format!("{subject}: duplicate entry {}", quote(entry));
                    self.hit(channel.at(), Rule::DuplicateEntry, Scope::channel(package, name), text)?;
                }
            }
            wanted.insert(package, (entries, channel));
            if let Some(model) = self.model.packages.get_mut(package) {
                model.channels.insert(name, ChannelModel { channel: Some(channel), deprecation: None });
            }
        }
        Ok(wanted)
    }

    fn bundles(&mut self, wanted: &mut Entries<'a>) -> Result<(), Stop> {
        let mut in_channels: HashMap<&str, HashSet<&str>> = HashMap::new();
        for channel in &self.facts.channels {
            in_channels.entry(channel.package.as_str()).or_default().extend(channel.entries.iter().map(|entry| entry.name.as_str()));
        }
        for bundle in &self.facts.bundles {
            let (package, name) = (bundle.package.as_str(), bundle.name.as_str());
            let at = At { place: bundle.place.as_ref(), schema: SCHEMA_BUNDLE, package, name };
            if package.is_empty() {
                let text = format!("package name must be set for bundle {}", quote(name));
                self.hit(at, Rule::UnknownPackage, Scope::catalog(), text)?;
                continue;
            }
            let Some(model) = self.model.packages.get(package) else {
                let text = format!("unknown package {} for bundle {}", quote(package), quote(name));
                self.hit(at, Rule::UnknownPackage, Scope::catalog(), text)?;
                continue;
            };
            if model.bundles.contains_key(name) {
                let text = format!("package {} has duplicate bundle {}", quote(package), quote(name));
                self.hit(at, Rule::DuplicateBundle, Scope::package(package), text)?;
                continue;
            }
            for (rule, text) in &bundle.wrong {
                self.hit(at, *rule, Scope::package(package), text.clone())?;
            }
            if let Some((entries, _)) = wanted.get_mut(package) {
                entries.remove(name);
            }
            if !in_channels.get(package).is_some_and(|names| names.contains(name)) {
                let text = format!("package {}, bundle {} not found in any channel entries", quote(package), quote(name));
                self.hit(at, Rule::BundleInNoChannel, Scope::package(package), text)?;
            }
            if let Some(model) = self.model.packages.get_mut(package) {
                model.bundles.insert(name, BundleModel { bundle, deprecation: None });
            }
        }
        Ok(())
    }

    fn deprecations(&mut self) -> Result<(), Stop> {
        let mut seen = HashSet::new();
        for (i, deprecations) in self.facts.deprecations.iter().enumerate() {
            let package = deprecations.package.as_str();
            let place = deprecations.place.as_ref();
            let at = At { place, schema: SCHEMA_DEPRECATIONS, package, name: "" };
            if package.is_empty() {
                let text = format!("package name must be set for deprecation item {i}");
                self.hit(at, Rule::UnknownPackage, Scope::catalog(), text)?;
                continue;
            }
            if !self.model.packages.contains_key(package) {
                let text = format!("cannot apply deprecations to an unknown package {}", quote(package));
                self.hit(at, Rule::UnknownPackage, Scope::catalog(), text)?;
                continue;
            }
            if !seen.insert(package) {
                let text = format!("expected a maximum of one deprecation per package: {}", quote(package));
                self.hit(at, Rule::DuplicateDeprecations, Scope::package(package), text)?;
                continue;
            }
            let mut references = HashSet::new();
            for (j, entry) in deprecations.entries.iter().enumerate() {
                let reference = &entry.reference;
                if reference.schema.is_empty() {
                    let text = format!("schema must be set for deprecation entry [{j}] for package {}", quote(package));
                    self.hit(at, Rule::DeprecationReference, Scope::package(package), text)?;
                    continue;
                }
                if !references.insert(reference) {
                    let text = format!("duplicate deprecation entry {} for package {}", go_reference(reference), quote(package));
                    self.hit(at, Rule::DuplicateDeprecations, Scope::package(package), text)?;
                    continue;
                }
                if let Some(text) = self.deprecate(package, j, reference, Message { text: &entry.message, place }) {
                    self.hit(at, Rule::DeprecationReference, Scope::package(package), text)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a deprecation to its object; the text is the reason if there is no such object.
    fn deprecate(&mut self, package: &str, j: usize, reference: &'a Reference, message: Message<'a>) -> Option<String> {
        let model = self.model.packages.get_mut(package)?;
        let name = reference.name.as_str();
        match reference.schema.as_str() {
            SCHEMA_BUNDLE => match model.bundles.get_mut(name) {
                Some(bundle) => bundle.deprecation = Some(message),
                None => return Some(format!("cannot deprecate bundle {} for package {}: bundle not found", quote(name), quote(package))),
            },
            SCHEMA_CHANNEL => {
                // A default channel without a blob is part of the model, empty.
                let default = model.default_channel == name && !name.is_empty();
                let channel = if default { Some(model.channels.entry(&reference.name).or_default()) } else { model.channels.get_mut(name) };
                match channel {
                    Some(channel) => channel.deprecation = Some(message),
                    None => {
                        return Some(format!("cannot deprecate channel {} for package {}: channel not found", quote(name), quote(package)));
                    }
                }
            }
            SCHEMA_PACKAGE if name.is_empty() => model.deprecation = Some(message),
            SCHEMA_PACKAGE => {
                return Some(format!("package name must be empty for deprecated package {} (specified {})", quote(package), quote(name)));
            }
            _ => {
                let object = go_reference(reference);
                return Some(format!(
                    "cannot deprecate object {object} referenced by entry {j} for package {}: object schema unknown",
                    quote(package)
                ));
            }
        }
        None
    }
}

impl ChannelFact {
    fn at(&self) -> At<'_> {
        At { place: self.place.as_ref(), schema: SCHEMA_CHANNEL, package: &self.package, name: &self.name }
    }
}

fn go_reference(reference: &Reference) -> String {
    format!("declcfg.PackageScopedReference{{Schema:{}, Name:{}}}", quote(&reference.schema), quote(&reference.name))
}

/// Reasons why a text is not a DNS-1123 label, in Kubernetes' words; empty if it is one.
fn dns1123_label(name: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    if name.len() > 63 {
        reasons.push("must be no more than 63 characters".to_owned());
    }
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edge = |b: Option<&u8>| b.is_some_and(|b| *b != b'-');
    let is_label = |part: &str| part.bytes().all(inner) && edge(part.as_bytes().first()) && edge(part.as_bytes().last());
    if is_label(name) {
        return reasons;
    }
    if name.split('.').all(is_label) {
        reasons.push("must not contain dots".to_owned());
    } else {
        reasons.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
             alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    reasons
}
