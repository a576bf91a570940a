//! Effects of a package's changes on installed bundles.
//!
//! A bundle is *stranded* if updates in a channel led from it to the channel's head before, and no longer do. A bundle may leave a channel
//! without harm, as long as the rest still updates it by `replaces`, `skips` or `skipRange`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use mainstay_versions::Version;
use serde::Serialize;

use super::{BundleDiff, Change, PackageDiff};
use crate::Level;
use crate::model::{SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE};
use crate::parts::{Parts, Versions};
use crate::reach::{Edges, Installed, Updates};

/// Rule of a finding; the names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// A package is gone.
    PackageRemoved,
    /// A channel is gone.
    ChannelRemoved,
    /// A bundle has lost its path to the head of its channel.
    Stranded,
    /// A published bundle has changed (CATLG-67).
    BundleChanged,
    /// A bundle is gone; its installations still get updates.
    BundleRemoved,
    /// The head of a channel is an older version than before.
    HeadBack,
    /// New installations follow another channel.
    DefaultChannelChanged,
    /// An object in use became deprecated.
    Deprecated,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 8] = [
        Self::PackageRemoved,
        Self::ChannelRemoved,
        Self::Stranded,
        Self::BundleChanged,
        Self::BundleRemoved,
        Self::HeadBack,
        Self::DefaultChannelChanged,
        Self::Deprecated,
    ];

    /// Its name in findings.
    pub fn name(self) -> &'static str {
        match self {
            Self::PackageRemoved => "package-removed",
            Self::ChannelRemoved => "channel-removed",
            Self::Stranded => "stranded",
            Self::BundleChanged => "bundle-changed",
            Self::BundleRemoved => "bundle-removed",
            Self::HeadBack => "head-back",
            Self::DefaultChannelChanged => "default-channel-changed",
            Self::Deprecated => "deprecated",
        }
    }

    /// The severity of its findings.
    pub fn level(self) -> Level {
        match self {
            Self::PackageRemoved | Self::ChannelRemoved | Self::Stranded | Self::BundleChanged => Level::Error,
            Self::HeadBack | Self::DefaultChannelChanged => Level::Warning,
            Self::BundleRemoved | Self::Deprecated => Level::Info,
        }
    }
}

/// An effect of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Its severity.
    pub level: Level,
    /// The package.
    pub package: String,
    /// The channel, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The bundle, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// The bundle's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The effect.
    pub message: String,
    /// A better alternative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Finding {
    pub(super) fn key(&self) -> impl Ord + '_ {
        (
            self.level,
            &self.package,
            self.rule,
            &self.channel,
            self.version.as_deref().and_then(|version| Version::parse(version).ok()),
            &self.bundle,
        )
    }
}

struct Report<'a, 'f> {
    package: &'a str,
    findings: &'f mut Vec<Finding>,
}

impl Report<'_, '_> {
    fn add(&mut self, rule: Rule, message: String) -> &mut Finding {
        self.findings.push(Finding {
            rule,
            level: rule.level(),
            package: self.package.to_owned(),
            channel: None,
            bundle: None,
            version: None,
            message,
            hint: None,
        });
        let last = self.findings.len() - 1;
        &mut self.findings[last]
    }
}

pub(super) fn findings(package: &PackageDiff, old: &Parts<'_>, new: &Parts<'_>, findings: &mut Vec<Finding>) {
    let mut report = Report { package: &package.package, findings };
    match package.change {
        Change::Added => return,
        Change::Removed => {
            let finding = report.add(Rule::PackageRemoved, format!("the package is gone, with {} bundles", old.bundles.len()));
            finding.hint = Some("keep the package and deprecate it with olm.deprecations, until nobody has it installed".to_owned());
            return;
        }
        Change::Changed => {}
    }
    if let Some(field) = package.fields.iter().find(|field| field.field == "defaultChannel") {
        let shown = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
        let message = format!("the default channel is {}, it was {}", shown(&field.values.new), shown(&field.values.old));
        report.add(Rule::DefaultChannelChanged, message);
    }
    deprecated(&mut report, package);
    bundles(&mut report, package, new);
    channels(&mut report, old, new);
}

fn deprecated(report: &mut Report<'_, '_>, package: &PackageDiff) {
    for deprecation in package.deprecations.iter().filter(|deprecation| deprecation.change == Change::Added) {
        let what = match deprecation.schema.as_str() {
            SCHEMA_PACKAGE => "the package".to_owned(),
            _ => deprecation.name.clone(),
        };
        let message = format!("{what} is now deprecated: {}", deprecation.message.new.as_deref().unwrap_or_default());
        let finding = report.add(Rule::Deprecated, message);
        match deprecation.schema.as_str() {
            SCHEMA_CHANNEL => finding.channel = Some(deprecation.name.clone()),
            SCHEMA_BUNDLE => finding.bundle = Some(deprecation.name.clone()),
            _ => {}
        }
    }
}

fn bundles(report: &mut Report<'_, '_>, package: &PackageDiff, new: &Parts<'_>) {
    for bundle in &package.bundles {
        let (rule, message, hint) = match bundle.change {
            Change::Added => continue,
            Change::Removed => (Rule::BundleRemoved, "is gone from the catalog".to_owned(), None),
            Change::Changed => {
                let hint = "publish a new bundle with an update edge from this one, and leave this one as it was";
                (Rule::BundleChanged, format!("was published already, and has changed: {}", what_changed(bundle)), Some(hint))
            }
        };
        let finding = report.add(rule, message);
        finding.bundle = Some(bundle.bundle.clone());
        finding.version.clone_from(&bundle.version);
        finding.hint = hint.map(str::to_owned);
        let migrated = new.bundle(&bundle.bundle).is_some() && is_migration(bundle);
        if migrated {
            finding.level = Level::Info;
            "has its olm.bundle.object properties migrated to olm.csv.metadata".clone_into(&mut finding.message);
            finding.hint = None;
        }
    }
}

fn what_changed(bundle: &BundleDiff) -> String {
    let mut parts = Vec::new();
    if let Some(image) = &bundle.image {
        let shown = |image: &Option<String>| image.clone().unwrap_or_else(|| "none".to_owned());
        parts.push(format!("image {} was {}", shown(&image.new), shown(&image.old)));
    }
    let kind = |text: &String| text.split(": ").next().unwrap_or_default().to_owned();
    let kinds: BTreeSet<String> = bundle.properties.added.iter().chain(&bundle.properties.removed).map(kind).collect();
    if !kinds.is_empty() {
        parts.push(format!("properties {}", kinds.into_iter().collect::<Vec<_>>().join(", ")));
    }
    if !bundle.related_images.is_empty() {
        let (added, removed) = (bundle.related_images.added.len(), bundle.related_images.removed.len());
        parts.push(format!("related images ({added} new, {removed} gone)"));
    }
    parts.join("; ")
}

/// Returns true if the only change is that manifests became metadata, as `opm render --migrate` does it.
fn is_migration(bundle: &BundleDiff) -> bool {
    let all = |list: &[String], kind: &str| !list.is_empty() && list.iter().all(|text| text.starts_with(kind));
    bundle.image.is_none()
        && bundle.related_images.is_empty()
        && all(&bundle.properties.added, "olm.csv.metadata: ")
        && all(&bundle.properties.removed, "olm.bundle.object: ")
}

fn channels(report: &mut Report<'_, '_>, old: &Parts<'_>, new: &Parts<'_>) {
    let (then, now) = (old.versions(), new.versions());
    let others: PathsByChannel<'_> =
        new.channels.iter().map(|channel| (channel.name.as_str(), PathsToHead::of(Updates::of(channel, &now)))).collect();
    for channel in &old.channels {
        let name = channel.name.as_str();
        let before = Updates::of(channel, &then);
        let Some(after) = others.get(name) else {
            let finding = report.add(Rule::ChannelRemoved, format!("the channel is gone, with {} entries", before.len()));
            finding.channel = Some(name.to_owned());
            let left = new.default_channel().map(|default| format!(" (for example to {default})")).unwrap_or_default();
            finding.hint = Some(format!(
                "whoever follows it gets no updates until they change the channel{left}; keep it, and deprecate it with olm.deprecations"
            ));
            continue;
        };
        head_back(report, name, &before, &after.updates);
        stranded(report, name, &before, after, &then, &others);
    }
}

/// A channel, and the paths to its head.
struct PathsToHead<'a> {
    updates: Updates<'a>,
    /// The head, with a flag for each entry, true if it reaches the head; `None` without exactly one head.
    head: Option<(usize, Vec<bool>)>,
}

type PathsByChannel<'a> = BTreeMap<&'a str, PathsToHead<'a>>;

impl<'a> PathsToHead<'a> {
    fn of(updates: Updates<'a>) -> Self {
        let head = updates.head().map(|head| (head, updates.reaching(head, Edges::Resolver)));
        Self { updates, head }
    }

    fn leads(&self, installed: Installed<'_>) -> bool {
        self.head.as_ref().is_some_and(|(_, reaching)| self.updates.joins(installed, reaching))
    }
}

fn head_back(report: &mut Report<'_, '_>, channel: &str, before: &Updates<'_>, after: &Updates<'_>) {
    let (Some(old), Some(new)) = (before.head(), after.head()) else { return };
    if let (Some(then), Some(now)) = (before.version(old), after.version(new))
        && now.cmp_precedence(then) == Ordering::Less
    {
        let finding = report.add(Rule::HeadBack, format!("the head is {now}, it was {then}"));
        finding.channel = Some(channel.to_owned());
        finding.bundle = Some(after.entry(new).name.to_string());
        finding.version = Some(now.to_string());
    }
}

fn stranded(
    report: &mut Report<'_, '_>,
    channel: &str,
    before: &Updates<'_>,
    after: &PathsToHead<'_>,
    versions: &Versions<'_>,
    others: &PathsByChannel<'_>,
) {
    // A channel without exactly one head has no target for paths; validation reports it.
    let (Some(old_head), Some((new_head, _))) = (before.head(), &after.head) else { return };
    let could = before.reaching(old_head, Edges::Resolver);
    let head = after.updates.entry(*new_head).name.to_string();
    for at in (0..before.len()).filter(|at| could[*at]) {
        let installed = before.installed(at);
        if after.leads(installed) {
            continue;
        }
        let message = match after.updates.position(installed.name) {
            Some(_) => format!("no longer leads to the head {head}"),
            None => format!("is no longer in the channel, and no entry on the way to the head {head} updates it"),
        };
        let elsewhere: Vec<&str> =
            others.iter().filter(|(name, way)| **name != channel && way.leads(installed)).map(|(name, _)| *name).collect();
        let finding = report.add(Rule::Stranded, message);
        finding.channel = Some(channel.to_owned());
        finding.bundle = Some(installed.name.to_owned());
        finding.version = versions.get(installed.name).and_then(Option::as_ref).map(ToString::to_string);
        let edge = format!("let an entry on the way to the head replace or skip {}", installed.name);
        finding.hint = Some(match elsewhere.as_slice() {
            [] => edge,
            channels => format!("{edge}; whoever has it installed can change to channel {}", channels.join(" or ")),
        });
    }
}
