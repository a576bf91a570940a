//! Explanation of an update from one bundle to another: its path, or the reasons why there is none (OLM1-QUERY-02, OLM1-UPG-05).
//!
//! The JSON shape (`mainstay catalog why -o json`); members that do not apply are left out:
//!
//! ```text
//! {"package", "from": {"bundle", "version"}, "reached": true | false,
//!  "channels": [{"channel", "to": {"bundle", "version"}, "reached": true | false,
//!                "path": [{"bundle", "version", "edge": {"kind": "replaces" | "skips" | "skipRange", "range"}}],
//!                "reasons": ["..."], "farthest": {"bundle", "version"}}],
//!  "hints": ["..."]}
//! ```
//!
//! A hint names a path that was tried and found, never one that might exist.

use std::collections::HashSet;

use serde::Serialize;

use mainstay_versions::{CatalogRange, Version};

use crate::did_you_mean::nearest;
use crate::parts::{Parts, Versions};
use crate::reach::{Edge, Edges, Installed, Updates};

/// The question.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
    /// The package.
    pub package: &'q str,
    /// The bundle or version that is installed.
    pub from: &'q str,
    /// The target bundle or version; the head of each channel if `None`.
    pub to: Option<&'q str>,
    /// Only these channels; all if empty.
    pub channels: &'q [String],
}

/// A bundle as an answer names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// Its name; empty for a version that the catalog does not have.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bundle: String,
    /// Its version, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Named {
    fn of(updates: &Updates<'_>, at: usize) -> Self {
        Self { bundle: updates.entry(at).name.to_string(), version: updates.version(at).map(ToString::to_string) }
    }

    /// The name for messages.
    pub fn shown(&self) -> &str {
        if self.bundle.is_empty() { self.version.as_deref().unwrap_or_default() } else { &self.bundle }
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The package.
    pub package: String,
    /// The installed bundle.
    pub from: Named,
    /// True if there is a path in any of the channels.
    pub reached: bool,
    /// The answer of each channel that is relevant to the question.
    pub channels: Vec<InChannel>,
    /// Alternatives, each of them tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

/// The answer of one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InChannel {
    /// The channel.
    pub channel: String,
    /// The target; `None` if the channel does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Named>,
    /// True if there is a path.
    pub reached: bool,
    /// The steps of the path; empty if there is nothing to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Step>,
    /// The reasons why there is no path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The highest version that can be reached instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub farthest: Option<Named>,
}

/// One update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The target of the update.
    #[serde(flatten)]
    pub to: Named,
    /// The edge from the bundle before.
    pub edge: Edge,
}

/// Reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhyError {
    /// The catalog does not have the package.
    #[error("package {package} is not in the catalog")]
    NoPackage {
        /// The package.
        package: String,
        /// A package with a similar name.
        near: Option<String>,
    },
    /// The package does not have the channel.
    #[error("package {package} has no channel {channel}; it has {channels}")]
    NoChannel {
        /// The package.
        package: String,
        /// The channel.
        channel: String,
        /// The channels that exist.
        channels: String,
    },
    /// The package does not have the bundle, and the text is not a version.
    #[error("package {package} has no bundle {bundle}")]
    NoBundle {
        /// The package.
        package: String,
        /// The bundle.
        bundle: String,
        /// A bundle with a similar name.
        near: Option<String>,
    },
}

/// Answers the question from the blobs of its package.
pub fn why(question: &Question<'_>, packages: &std::collections::BTreeMap<&str, Parts<'_>>) -> Result<Answer, WhyError> {
    let package = question.package;
    let Some(parts) = packages.get(package) else {
        let near = nearest(package, packages.keys().copied()).map(str::to_owned);
        return Err(WhyError::NoPackage { package: package.to_owned(), near });
    };
    let channels = || parts.channels.iter().map(|channel| channel.name.as_str());
    if let Some(channel) = question.channels.iter().find(|name| parts.channel(name).is_none()) {
        return Err(WhyError::NoChannel {
            package: package.to_owned(),
            channel: channel.clone(),
            channels: channels().collect::<Vec<_>>().join(", "),
        });
    }
    let versions = parts.versions();
    let from = End::read(package, question.from, &versions)?;
    let to = question.to.map(|to| End::read(package, to, &versions)).transpose()?;
    let all: Vec<Updates<'_>> = parts.channels.iter().map(|channel| Updates::of(channel, &versions)).collect();
    let asked =
        |updates: &&Updates<'_>| question.channels.is_empty() || question.channels.iter().any(|name| name == updates.channel.name.as_str());
    let mut answers: Vec<InChannel> = all.iter().filter(asked).map(|updates| in_channel(updates, &from, to.as_ref())).collect();
    // Channels that know neither end are left out, unless that leaves none.
    let knows =
        |answer: &InChannel| answer.to.is_some() && (answer.reached || from.in_channel(&all, &answer.channel) || answer.farthest.is_some());
    if question.channels.is_empty() && answers.iter().any(knows) {
        answers.retain(knows);
    }
    let reached = answers.iter().any(|answer| answer.reached);
    let hints = if reached { Vec::new() } else { hints(question, &all, &from, to.as_ref()) };
    Ok(Answer { package: package.to_owned(), from: from.named(), reached, channels: answers, hints })
}

/// One end of the question.
struct End {
    name: String,
    version: Option<Version>,
}

impl End {
    fn read(package: &str, text: &str, versions: &Versions<'_>) -> Result<Self, WhyError> {
        if let Some((name, version)) = versions.get_key_value(text) {
            return Ok(Self { name: (*name).to_owned(), version: version.clone() });
        }
        let bare = text.strip_prefix('v').unwrap_or(text);
        if let Ok(version) = Version::parse(bare) {
            let mut names: Vec<&str> = versions.iter().filter(|(_, of)| of.as_ref() == Some(&version)).map(|(name, _)| *name).collect();
            names.sort_unstable();
            return Ok(Self { name: names.first().copied().unwrap_or_default().to_owned(), version: Some(version) });
        }
        let near = nearest(text, versions.keys().copied()).map(str::to_owned);
        Err(WhyError::NoBundle { package: package.to_owned(), bundle: text.to_owned(), near })
    }

    fn installed(&self) -> Installed<'_> {
        Installed { name: &self.name, version: self.version.as_ref() }
    }

    fn named(&self) -> Named {
        Named { bundle: self.name.clone(), version: self.version.as_ref().map(ToString::to_string) }
    }

    fn shown(&self) -> String {
        self.named().shown().to_owned()
    }

    fn in_channel(&self, all: &[Updates<'_>], channel: &str) -> bool {
        all.iter().any(|updates| updates.channel.name.as_str() == channel && updates.position(&self.name).is_some())
    }
}

fn target(updates: &Updates<'_>, to: Option<&End>) -> Option<usize> {
    match to {
        Some(end) => updates.position(&end.name),
        None => updates.head(),
    }
}

fn in_channel(updates: &Updates<'_>, from: &End, to: Option<&End>) -> InChannel {
    let mut answer = InChannel {
        channel: updates.channel.name.to_string(),
        to: None,
        reached: false,
        path: Vec::new(),
        reasons: Vec::new(),
        farthest: None,
    };
    let Some(at) = target(updates, to) else {
        answer.reasons.push(match to {
            Some(end) => format!("{} is not in the channel", end.shown()),
            None => format!("the channel has {} heads", updates.heads().len()),
        });
        return answer;
    };
    answer.to = Some(Named::of(updates, at));
    if let Some(path) = updates.path(from.installed(), at, Edges::Resolver) {
        answer.reached = true;
        answer.path = path.into_iter().map(|(at, edge)| Step { to: Named::of(updates, at), edge }).collect();
        return answer;
    }
    let reachable = updates.reachable(from.installed(), Edges::Resolver);
    let farthest = reachable.iter().copied().max_by(|a, b| updates.version(*a).cmp(&updates.version(*b)));
    answer.farthest = farthest.map(|at| Named::of(updates, at));
    answer.reasons = reasons(updates, from, at, &reachable);
    answer
}

/// Reasons why an entry cannot be reached: the bundles that it updates, and the ends of the paths from the other end.
fn reasons(updates: &Updates<'_>, from: &End, to: usize, reachable: &[usize]) -> Vec<String> {
    let entry = updates.entry(to);
    let name = entry.name.as_str();
    let mut reasons = Vec::new();
    if let (Some(old), Some(new)) = (from.version.as_ref(), updates.version(to))
        && old.cmp_precedence(new).is_ge()
    {
        reasons.push(format!("{name} is not newer than {}; updates go upwards", from.shown()));
    }
    if !updates.exists(to) {
        reasons.push(format!("{name} has no olm.bundle blob"));
    }
    reasons.push(match &entry.replaces {
        Some(replaces) => format!("{name} replaces {replaces}{}", fate(updates, replaces.as_str(), reachable)),
        None => format!("{name} replaces nothing"),
    });
    if !entry.skips.is_empty() {
        let listed: Vec<&str> = entry.skips.iter().take(5).map(crate::BundleName::as_str).collect();
        let more = if entry.skips.len() > listed.len() { format!(" and {} more", entry.skips.len() - listed.len()) } else { String::new() };
        reasons.push(format!("{name} skips {}{more}, none of which is {} or can be reached from it", listed.join(", "), from.shown()));
    }
    reasons.push(match (&entry.skip_range, &from.version) {
        (None, _) => format!("{name} has no skipRange"),
        (Some(range), version) => match (CatalogRange::parse(range), version) {
            (Err(error), _) => format!("skipRange {range:?} of {name} cannot be read: {error}"),
            (Ok(_), None) => format!("skipRange {range:?} of {name} is about versions, and that of {} is not known", from.shown()),
            (Ok(_), Some(version)) => format!("skipRange {range:?} of {name} does not contain {version}"),
        },
    });
    let next = updates.next(from.installed(), Edges::Resolver);
    if next.is_empty() {
        let place = if updates.position(&from.name).is_some() { "" } else { ", which is not in the channel" };
        reasons.push(format!("no entry of the channel updates {}{place}", from.shown()));
    } else if let Some(last) = reachable.iter().copied().max_by(|a, b| updates.version(*a).cmp(&updates.version(*b))) {
        reasons.push(format!("updates from {} lead to {} and no further", from.shown(), updates.entry(last).name));
    }
    reasons
}

fn fate(updates: &Updates<'_>, name: &str, reachable: &[usize]) -> &'static str {
    match updates.position(name) {
        None => ", which is not in the channel",
        Some(at) if reachable.contains(&at) => "",
        Some(_) => ", which cannot be reached either",
    }
}

/// Alternatives: other channels, a change of channels on the path, or other ends.
fn hints(question: &Question<'_>, all: &[Updates<'_>], from: &End, to: Option<&End>) -> Vec<String> {
    let mut hints = Vec::new();
    let asked =
        |updates: &Updates<'_>| question.channels.is_empty() || question.channels.iter().any(|name| name == updates.channel.name.as_str());
    for updates in all.iter().filter(|updates| !asked(updates)) {
        if let Some(at) = target(updates, to)
            && updates.path(from.installed(), at, Edges::Resolver).is_some()
        {
            hints.push(format!("channel {} leads from {} to {}", updates.channel.name, from.shown(), updates.entry(at).name));
        }
    }
    if hints.is_empty() {
        hints.extend(change_of_channels(all, from, to));
    }
    if hints.is_empty() {
        let nearest = all.iter().filter_map(|updates| {
            let at = target(updates, to)?;
            let mask = updates.reaching(at, Edges::Resolver);
            let newest = (0..updates.len()).filter(|other| mask[*other] && *other != at);
            let newest = newest.filter(|other| from.version.as_ref().is_none_or(|version| updates.version(*other) > Some(version)));
            let lowest = newest.min_by(|a, b| updates.version(*a).cmp(&updates.version(*b)))?;
            Some(format!("from {} channel {} leads to {}", updates.entry(lowest).name, updates.channel.name, updates.entry(at).name))
        });
        hints.extend(nearest.take(1));
    }
    hints
}

/// A path that begins in one channel and ends in another: through a bundle of the first that both have or that the other updates by a range.
fn change_of_channels(all: &[Updates<'_>], from: &End, to: Option<&End>) -> Option<String> {
    let ends: Vec<(&Updates<'_>, usize, Vec<bool>)> = all
        .iter()
        .filter_map(|updates| {
            let end = target(updates, to)?;
            Some((updates, end, updates.reaching(end, Edges::Resolver)))
        })
        .collect();
    // Channels have most bundles in common: those that lead nowhere are tried once.
    let mut dead_ends: HashSet<(&str, &str)> = HashSet::new();
    for first in all {
        for at in first.reachable(from.installed(), Edges::Resolver) {
            let middle = first.installed(at);
            let name = first.entry(at).name.as_str();
            for (second, end, reaching) in ends.iter().filter(|(second, ..)| second.channel.name != first.channel.name) {
                if !dead_ends.insert((second.channel.name.as_str(), name)) {
                    continue;
                }
                if second.joins(middle, reaching) {
                    return Some(format!(
                        "channel {} leads from {} to {name}, and channel {} from there to {}",
                        first.channel.name,
                        from.shown(),
                        second.channel.name,
                        second.entry(*end).name
                    ));
                }
            }
        }
    }
    None
}
