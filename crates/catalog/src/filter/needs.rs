//! Packages that the kept bundles need.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_versions::CatalogRange;

use super::picks::{KeptPackages, Picks, What};
use super::{Dependencies, Notice, NoticeKind};
use crate::parts::{Parts, version};
use crate::properties::{Api, Need, needs, provided};

/// Result of a search for further requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// More packages or bundles are wanted now.
    New,
    /// Nothing was added: the selection is complete.
    Nothing,
}

/// Adds the requirements of kept bundles that are not kept yet, or notes that they are missing.
pub(super) fn extend(
    picks: &mut Picks,
    kept: &KeptPackages<'_>,
    packages: &BTreeMap<&str, Parts<'_>>,
    dependencies: Dependencies,
) -> Found {
    let mut missing: BTreeMap<Need, BTreeSet<&str>> = BTreeMap::new();
    for (name, of) in kept {
        let Some(parts) = packages.get(name) else { continue };
        for bundle in parts.bundles.iter().filter(|bundle| of.bundles.contains(bundle.name.as_str())) {
            for need in needs(bundle) {
                missing.entry(need).or_default().insert(name);
            }
        }
    }
    // Most bundles of a package need the same: it is searched for once.
    missing.retain(|need, _| !satisfied(need, kept, packages));
    let mut notices = Vec::new();
    let mut found = Found::Nothing;
    for (need, by) in &missing {
        let by: Vec<&str> = by.iter().copied().collect();
        let offers = match dependencies {
            Dependencies::Leave => None,
            Dependencies::Include if picks.offered.contains(need) => None,
            Dependencies::Include => offers(need, kept, packages),
        };
        let Some(offers) = offers else {
            let whether = if available(need, packages) { "is not selected" } else { "is not in the catalog" };
            let message = format!("needs {need}, which {whether}");
            notices.extend(by.iter().map(|name| Notice {
                package: (*name).to_owned(),
                kind: NoticeKind::Missing,
                message: message.clone(),
            }));
            continue;
        };
        picks.offered.insert(need.clone());
        for offer in offers {
            if !picks.has(&offer.package) {
                let others = if offer.others.is_empty() { String::new() } else { format!("; {} would do too", offer.others.join(", ")) };
                let message = format!("is kept in channel {}, because {} needs {need}{others}", offer.channel, by.join(", "));
                picks.notices.push(Notice { package: offer.package.clone(), kind: NoticeKind::Dependency, message });
            }
            picks.add(&offer.package, &offer.channel, offer.what);
            found = Found::New;
        }
    }
    if found == Found::Nothing {
        picks.notices.extend(notices);
    }
    found
}

/// Returns true if the kept packages satisfy a requirement.
fn satisfied(need: &Need, kept: &KeptPackages<'_>, packages: &BTreeMap<&str, Parts<'_>>) -> bool {
    let any = |name: &str, fits: &dyn Fn(&crate::Bundle) -> bool| {
        let (Some(of), Some(parts)) = (kept.get(name), packages.get(name)) else { return false };
        parts.bundles.iter().any(|bundle| of.bundles.contains(bundle.name.as_str()) && fits(bundle))
    };
    match need {
        Need::Package { package, range } => match CatalogRange::parse(range) {
            Ok(range) => any(package, &|bundle| version(bundle).is_some_and(|version| range.matches(&version))),
            // Nothing can satisfy it; `lint` reports it.
            Err(_) => true,
        },
        Need::Api(api) => kept.keys().any(|name| any(name, &|bundle| provided(bundle).contains(api))),
        Need::All(needs) => needs.iter().all(|need| satisfied(need, kept, packages)),
        Need::Any(needs) => needs.iter().any(|need| satisfied(need, kept, packages)),
        Need::Not(_) | Need::Expression(_) => true,
    }
}

/// Returns true if the whole catalog could satisfy a requirement.
fn available(need: &Need, packages: &BTreeMap<&str, Parts<'_>>) -> bool {
    match need {
        Need::Package { package, range } => {
            packages.get(package.as_str()).is_some_and(|parts| channel_with(parts, &versions_in(range)).is_some())
        }
        Need::Api(api) => providers(api, packages).next().is_some(),
        Need::All(needs) => needs.iter().all(|need| available(need, packages)),
        Need::Any(needs) => needs.iter().any(|need| available(need, packages)),
        Need::Not(_) | Need::Expression(_) => true,
    }
}

/// An offer that would satisfy a requirement.
struct Offer {
    package: String,
    channel: String,
    what: What,
    others: Vec<String>,
}

/// The offers that satisfy a requirement; `None` if the catalog has none.
fn offers(need: &Need, kept: &KeptPackages<'_>, packages: &BTreeMap<&str, Parts<'_>>) -> Option<Vec<Offer>> {
    match need {
        Need::Package { package, range } => {
            let channel = channel_with(packages.get(package.as_str())?, &versions_in(range))?;
            let what = What::Versions(vec![CatalogRange::parse(range).ok()?]);
            Some(vec![Offer { package: package.clone(), channel, what, others: Vec::new() }])
        }
        Need::Api(api) => {
            let mut all: Vec<&str> = providers(api, packages).collect();
            // Packages that are kept anyway come first.
            all.sort_by_key(|name| (!kept.contains_key(name), *name));
            let (first, others) = all.split_first()?;
            let channel = channel_with(packages.get(first)?, &|bundle| provided(bundle).contains(api))?;
            let others = others.iter().map(|name| (*name).to_owned()).collect();
            Some(vec![Offer { package: (*first).to_owned(), channel, what: What::Providers(api.clone()), others }])
        }
        Need::All(needs) => {
            let open = needs.iter().filter(|need| !satisfied(need, kept, packages));
            let all: Option<Vec<Vec<Offer>>> = open.map(|need| offers(need, kept, packages)).collect();
            all.map(|offers| offers.into_iter().flatten().collect())
        }
        Need::Any(needs) => needs.iter().find_map(|need| offers(need, kept, packages)),
        Need::Not(_) | Need::Expression(_) => None,
    }
}

fn versions_in(range: &str) -> impl Fn(&crate::Bundle) -> bool + use<> {
    let range = CatalogRange::parse(range).ok();
    move |bundle: &crate::Bundle| range.as_ref().is_some_and(|range| version(bundle).is_some_and(|version| range.matches(&version)))
}

fn providers<'a>(api: &Api, packages: &BTreeMap<&'a str, Parts<'a>>) -> impl Iterator<Item = &'a str> {
    packages.iter().filter(|(_, parts)| channel_with(parts, &|bundle| provided(bundle).contains(api)).is_some()).map(|(name, _)| *name)
}

/// The channel to take bundles from: the default channel if it has such bundles, else the first that has.
fn channel_with(parts: &Parts<'_>, fits: &dyn Fn(&crate::Bundle) -> bool) -> Option<String> {
    let fitting: BTreeSet<&str> = parts.bundles.iter().filter(|bundle| fits(bundle)).map(|bundle| bundle.name.as_str()).collect();
    let mut channels: Vec<&str> = parts
        .channels
        .iter()
        .filter(|channel| channel.entries.iter().any(|entry| fitting.contains(entry.name.as_str())))
        .map(|channel| channel.name.as_str())
        .collect();
    channels.sort_by_key(|name| (Some(*name) != parts.default_channel(), *name));
    channels.first().map(|name| (*name).to_owned())
}
