//! The wanted parts of each package according to the selection, and the entries that stay because of it.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_versions::{CatalogRange, Version};

use super::channel::{self, Kept};
use super::{Choice, FilterError, Notice, NoticeKind, Selection};
use crate::did_you_mean::nearest;
use crate::parts::Parts;
use crate::properties::{Api, Need, provided};
use crate::reach::{Edges, Installed, Updates};

/// Packages by name, with all wanted bundles.
pub(super) struct Picks {
    packages: BTreeMap<String, Pick>,
    /// Notices about the reasons why packages are wanted.
    pub(super) notices: Vec<Notice>,
    /// Requirements that already led to an offer. One that is open again cannot be satisfied, as in a catalog with two bundles of one name.
    pub(super) offered: BTreeSet<Need>,
}

struct Pick {
    wants: Vec<Want>,
    default_channel: Option<String>,
    keep_path_from: Vec<String>,
}

/// Wanted bundles.
pub(super) struct Want {
    /// The channel, or all channels if `None`.
    channel: Option<String>,
    what: What,
}

/// Selection of bundles.
#[derive(Debug)]
pub(super) enum What {
    /// All.
    All,
    /// Versions in all of these ranges.
    Versions(Vec<CatalogRange>),
    /// Bundles that provide an API.
    Providers(Api),
}

/// The part of a package that stays.
pub(super) struct KeptPackage<'a> {
    /// Its channels, each with the entries that stay.
    pub(super) channels: Vec<(Updates<'a>, Kept)>,
    /// Names of the bundles that stay.
    pub(super) bundles: BTreeSet<&'a str>,
    /// Its default channel.
    pub(super) default_channel: Option<&'a str>,
    /// Notices for the curator.
    pub(super) notices: Vec<Notice>,
}

/// The packages that stay.
pub(super) type KeptPackages<'a> = BTreeMap<&'a str, KeptPackage<'a>>;

/// The picks of a selection.
pub(super) fn of(selection: &Selection, packages: &BTreeMap<&str, Parts<'_>>) -> Result<Picks, FilterError> {
    if selection.packages.is_empty() {
        return Err(FilterError::Nothing);
    }
    let mut picks = Picks { packages: BTreeMap::new(), notices: Vec::new(), offered: BTreeSet::new() };
    for choice in &selection.packages {
        let Some(parts) = packages.get(choice.package.as_str()) else {
            let near = nearest(&choice.package, packages.keys().copied()).map(str::to_owned);
            return Err(FilterError::NoPackage { package: choice.package.clone(), near });
        };
        if picks.packages.insert(choice.package.clone(), pick(choice, parts)?).is_some() {
            return Err(FilterError::Twice(choice.package.clone()));
        }
    }
    Ok(picks)
}

fn pick(choice: &Choice, parts: &Parts<'_>) -> Result<Pick, FilterError> {
    let known = |channel: &str| match parts.channel(channel) {
        Some(_) => Ok(()),
        None => {
            Err(FilterError::NoChannel { package: choice.package.clone(), channel: channel.to_owned(), channels: channel_names(parts) })
        }
    };
    let what = |own: Option<&CatalogRange>| {
        let ranges: Vec<CatalogRange> = choice.range.iter().chain(own).cloned().collect();
        if ranges.is_empty() { What::All } else { What::Versions(ranges) }
    };
    let mut wants = Vec::new();
    for channel in &choice.channels {
        known(&channel.name)?;
        wants.push(Want { channel: Some(channel.name.clone()), what: what(channel.range.as_ref()) });
    }
    if wants.is_empty() {
        wants.push(Want { channel: None, what: what(None) });
    }
    if let Some(channel) = &choice.default_channel {
        known(channel)?;
    }
    Ok(Pick { wants, default_channel: choice.default_channel.clone(), keep_path_from: choice.keep_path_from.clone() })
}

fn channel_names(parts: &Parts<'_>) -> String {
    parts.channels.iter().map(|channel| channel.name.as_str()).collect::<Vec<_>>().join(", ")
}

impl Picks {
    /// Returns true if some part of a package is wanted.
    pub(super) fn has(&self, package: &str) -> bool {
        self.packages.contains_key(package)
    }

    /// Adds wanted bundles of a package.
    pub(super) fn add(&mut self, package: &str, channel: &str, what: What) {
        let nothing = || Pick { wants: Vec::new(), default_channel: None, keep_path_from: Vec::new() };
        let pick = self.packages.entry(package.to_owned()).or_insert_with(nothing);
        pick.wants.push(Want { channel: Some(channel.to_owned()), what });
    }

    /// Returns the entries that stay.
    pub(super) fn keep<'a>(&self, packages: &'a BTreeMap<&'a str, Parts<'a>>) -> Result<KeptPackages<'a>, FilterError> {
        let mut kept = BTreeMap::new();
        for (name, pick) in &self.packages {
            if let Some((name, parts)) = packages.get_key_value(name.as_str()) {
                kept.insert(*name, pick.keep(name, parts)?);
            }
        }
        Ok(kept)
    }
}

impl Pick {
    fn keep<'a>(&self, package: &str, parts: &'a Parts<'a>) -> Result<KeptPackage<'a>, FilterError> {
        let versions = parts.versions();
        let mut kept = KeptPackage { channels: Vec::new(), bundles: BTreeSet::new(), default_channel: None, notices: Vec::new() };
        let mut leads = vec![false; self.keep_path_from.len()];
        for channel in &parts.channels {
            let updates = Updates::of(channel, &versions);
            let name = channel.name.as_str();
            let wants: Vec<&Want> =
                self.wants.iter().filter(|want| want.channel.as_deref().is_none_or(|channel| channel == name)).collect();
            let mut wanted: Vec<bool> =
                (0..updates.len()).map(|at| wants.iter().any(|want| want.what.includes(&updates, at, parts))).collect();
            if !wanted.contains(&true) {
                if wants.iter().any(|want| want.channel.is_some()) {
                    return Err(no_bundle(package, Some(name), parts));
                }
                continue;
            }
            let selected = wanted.clone();
            let paths: Vec<bool> = self.keep_path_from.iter().map(|from| want_path(&updates, from, &mut wanted)).collect();
            leads.iter_mut().zip(paths).for_each(|(leads, leads_here)| *leads |= leads_here);
            let Some(stays) = channel::keep(&updates, &wanted) else {
                let bundles =
                    (0..updates.len()).filter(|at| wanted[*at]).map(|at| updates.entry(at).name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(FilterError::Apart { package: package.to_owned(), channel: name.to_owned(), bundles });
            };
            kept.note_between(package, &updates, &selected, &stays);
            kept.bundles.extend((0..updates.len()).filter(|at| stays.entries[*at]).map(|at| updates.entry(at).name.as_str()));
            kept.channels.push((updates, stays));
        }
        if kept.channels.is_empty() {
            return Err(no_bundle(package, None, parts));
        }
        if let Some((from, _)) = self.keep_path_from.iter().zip(leads).find(|(_, leads)| !leads) {
            return Err(FilterError::NoPath { package: package.to_owned(), from: from.clone() });
        }
        self.default_channel(package, parts, &mut kept)?;
        Ok(kept)
    }

    fn default_channel<'a>(&self, package: &str, parts: &Parts<'a>, kept: &mut KeptPackage<'a>) -> Result<(), FilterError> {
        let find = |name: &str| kept.channels.iter().map(|(updates, _)| updates.channel.name.as_str()).find(|channel| *channel == name);
        if let Some(wanted) = &self.default_channel {
            let Some(found) = find(wanted) else { return Err(no_bundle(package, Some(wanted), parts)) };
            kept.default_channel = Some(found);
            return Ok(());
        }
        kept.default_channel = parts.default_channel().and_then(find);
        if kept.default_channel.is_none() {
            let best = kept.channels.iter().max_by(|(a, kept_a), (b, kept_b)| {
                let order = a.version(kept_a.head).cmp(&b.version(kept_b.head));
                order.then_with(|| b.channel.name.cmp(&a.channel.name))
            });
            kept.default_channel = best.map(|(updates, _)| updates.channel.name.as_str());
            let message = format!(
                "the default channel {} is not kept; it is {} now, the one with the highest version",
                parts.default_channel().unwrap_or("(none)"),
                kept.default_channel.unwrap_or("(none)")
            );
            kept.notices.push(Notice { package: package.to_owned(), kind: NoticeKind::DefaultChannel, message });
        }
        Ok(())
    }
}

impl What {
    fn includes(&self, updates: &Updates<'_>, at: usize, parts: &Parts<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Versions(ranges) => updates.version(at).is_some_and(|version| ranges.iter().all(|range| range.matches(version))),
            Self::Providers(api) => parts.bundle(updates.entry(at).name.as_str()).is_some_and(|bundle| provided(bundle).contains(api)),
        }
    }
}

impl KeptPackage<'_> {
    fn note_between(&mut self, package: &str, updates: &Updates<'_>, selected: &[bool], kept: &Kept) {
        let added: Vec<&str> =
            (0..updates.len()).filter(|at| kept.entries[*at] && !selected[*at]).map(|at| updates.entry(at).name.as_str()).collect();
        if !added.is_empty() {
            let message = format!("channel {} keeps {} too, because updates lead over them", updates.channel.name, added.join(", "));
            self.notices.push(Notice { package: package.to_owned(), kind: NoticeKind::KeptBetween, message });
        }
    }
}

fn no_bundle(package: &str, channel: Option<&str>, parts: &Parts<'_>) -> FilterError {
    let versions = parts.versions();
    let of: Vec<&str> = match channel.and_then(|name| parts.channel(name)) {
        Some(channel) => channel.entries.iter().map(|entry| entry.name.as_str()).collect(),
        None => versions.keys().copied().collect(),
    };
    let mut all: Vec<&Version> = of.iter().filter_map(|name| versions.get(name)?.as_ref()).collect();
    all.sort();
    let versions = match all.as_slice() {
        [] => "none".to_owned(),
        [one] => one.to_string(),
        [first, .., last] => format!("{first} to {last}"),
    };
    FilterError::NoBundle { package: package.to_owned(), channel: channel.map(str::to_owned), versions }
}

/// Marks the path from an installed version to the head as wanted; returns true if there is such a path.
fn want_path(updates: &Updates<'_>, from: &str, wanted: &mut [bool]) -> bool {
    let version = Version::parse(from).ok();
    let at = updates.position(from).or_else(|| (0..updates.len()).find(|at| version.is_some() && updates.version(*at) == version.as_ref()));
    if let Some(at) = at {
        // Every entry of the channel can reach its head, once it is wanted.
        wanted[at] = true;
        return true;
    }
    // An older version that is no longer in the catalog: its first step must stay.
    let installed = Installed { name: if version.is_some() { "" } else { from }, version: version.as_ref() };
    let next: Vec<usize> = updates.next(installed, Edges::Resolver).into_iter().map(|(at, _)| at).collect();
    let step = next
        .iter()
        .copied()
        .find(|at| wanted[*at])
        .or_else(|| next.into_iter().max_by(|a, b| updates.version(*a).cmp(&updates.version(*b))));
    if let Some(step) = step {
        wanted[step] = true;
    }
    step.is_some()
}
