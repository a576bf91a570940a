//! Changes that would work. Each hint was resolved before it is given; nothing untested is claimed.

use std::collections::BTreeSet;
use std::fmt;

use mainstay_catalog::did_you_mean::distance;
use mainstay_versions::ExtensionRange;

use crate::refusal::RefusalKind;
use crate::request::{CandidateCatalog, CatalogState, Request, UpgradeConstraintPolicy};
use crate::resolve::{Choice, Offer, Query, Selected, choice_of, decide};

/// A change to the request that leads to a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The changes, which are needed together.
    pub changes: Vec<Change>,
    /// The bundle this leads to; `None` for a suggestion of another package name.
    pub leads_to: Option<Choice>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Leave out the version range.
    AnyVersion,
    /// Ask for this version.
    Version(String),
    /// Ask for these channels.
    Channels(Vec<String>),
    /// Leave out the channels.
    AnyChannel,
    /// Ignore update edges.
    SelfCertified,
    /// Leave out the catalog selector.
    AnyCatalog,
    /// Select this catalog by its name label.
    Catalog(String),
    /// Ask for the package of this name, which exists.
    Package(String),
    /// Allow missing requirements to be added.
    AddMissing,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnyVersion => f.write_str("without a version range"),
            Self::Version(version) => write!(f, "with version \"{version}\""),
            Self::Channels(channels) => write!(f, "with channels [{}]", channels.join(" ")),
            Self::AnyChannel => f.write_str("without channels"),
            Self::SelfCertified => {
                f.write_str("with upgradeConstraintPolicy SelfCertified (not verified by the catalog, data may be lost)")
            }
            Self::AnyCatalog => f.write_str("without a catalog selector"),
            Self::Catalog(name) => write!(f, "with selector olm.operatorframework.io/metadata.name={name}"),
            Self::Package(name) => write!(f, "with package name {name}"),
            Self::AddMissing => f.write_str("with missing dependencies added"),
        }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes: Vec<String> = self.changes.iter().map(ToString::to_string).collect();
        match &self.leads_to {
            Some(choice) => write!(f, "{} it would be {choice}", changes.join(" and ")),
            None => write!(f, "{} there would be something to choose from", changes.join(" and ")),
        }
    }
}

/// The most channels that are tried one by one.
const MOST_CHANNELS: usize = 64;
/// The most hints that are given.
const MOST_HINTS: usize = 8;

pub(crate) fn find(
    request: &Request,
    offers: &[Offer<'_>],
    query: &Query<'_>,
    failure: &RefusalKind,
    catalogs: &[CandidateCatalog<'_>],
) -> Vec<Hint> {
    let search = Search { request, offers, query };
    let mut hints = match failure {
        RefusalKind::NoSingleBundle { tied, .. } if !tied.is_empty() => search.one_of(tied),
        RefusalKind::NoSingleBundle { .. } if offers.iter().all(|offer| offer.package.is_none()) => similar_names(request, catalogs),
        RefusalKind::NoSingleBundle { .. } => search.relaxed(),
        RefusalKind::UnsupportedDependency { .. } => search.without_dependency(),
        _ => Vec::new(),
    };
    hints.truncate(MOST_HINTS);
    hints
}

struct Search<'s> {
    request: &'s Request,
    offers: &'s [Offer<'s>],
    query: &'s Query<'s>,
}

impl<'s> Search<'s> {
    /// Resolves with a changed query; a bundle with dependencies would be refused later, so it does not count.
    fn attempt(&self, query: &Query<'_>, changes: &[Change]) -> Option<Hint> {
        let pick =
            decide(self.offers, query).ok().filter(|pick| pick.bundle.facts.dependency.is_none() && pick.bundle.version.is_some())?;
        Some(Hint { changes: changes.to_vec(), leads_to: Some(choice_of(&self.request.package, &pick)) })
    }

    fn one_of(&self, tied: &[String]) -> Vec<Hint> {
        let only = |name: &String| self.attempt(&Query { selected: Selected::Only(name), ..*self.query }, &[Change::Catalog(name.clone())]);
        tied.iter().filter_map(only).collect()
    }

    fn relaxed(&self) -> Vec<Hint> {
        let singles = self.singles();
        let mut hints: Vec<Hint> = singles.iter().filter_map(|(query, change)| self.attempt(query, std::slice::from_ref(change))).collect();
        hints.extend(self.other_channels());
        if !hints.is_empty() {
            return hints;
        }
        for (i, (first, first_change)) in singles.iter().enumerate() {
            for (second, second_change) in &singles[i + 1..] {
                let both = Query {
                    channels: if first.channels.len() < self.query.channels.len() { first.channels } else { second.channels },
                    range: first.range.and(second.range),
                    policy: if first.policy == self.query.policy { second.policy } else { first.policy },
                    selected: if matches!(first.selected, Selected::All) { first.selected } else { second.selected },
                    ..*self.query
                };
                hints.extend(self.attempt(&both, &[first_change.clone(), second_change.clone()]));
            }
        }
        hints
    }

    /// The query with one part left out, for each part it has.
    fn singles(&self) -> Vec<(Query<'s>, Change)> {
        let query = *self.query;
        let mut singles = Vec::new();
        if query.range.is_some() {
            singles.push((Query { range: None, ..query }, Change::AnyVersion));
        }
        if !query.channels.is_empty() {
            singles.push((Query { channels: &[], ..query }, Change::AnyChannel));
        }
        if query.installed.is_some() && query.policy == UpgradeConstraintPolicy::CatalogProvided {
            singles.push((Query { policy: UpgradeConstraintPolicy::SelfCertified, ..query }, Change::SelfCertified));
        }
        if self.offers.iter().any(|offer| !offer.selected && offer.available) {
            singles.push((Query { selected: Selected::All, ..query }, Change::AnyCatalog));
        }
        singles
    }

    fn other_channels(&self) -> Vec<Hint> {
        if self.query.channels.is_empty() {
            return Vec::new();
        }
        let all = self.offers.iter().filter_map(|offer| offer.package.as_ref()).flat_map(|package| &package.channels);
        let names: BTreeSet<&str> = all.map(|channel| channel.name).filter(|name| !self.query.channels.iter().any(|c| c == name)).collect();
        let one = |name: &str| {
            let channels = [name.to_owned()];
            self.attempt(&Query { channels: &channels, ..*self.query }, &[Change::Channels(channels.to_vec())])
        };
        names.into_iter().take(MOST_CHANNELS).filter_map(one).collect()
    }

    /// The newest version that fits and declares no dependency.
    fn without_dependency(&self) -> Vec<Hint> {
        let fitting = self.offers.iter().filter(|offer| offer.selected).flat_map(|offer| offer.matching(self.query));
        let free = fitting.filter(|bundle| bundle.facts.dependency.is_none());
        let Some(newest) = free.filter_map(|bundle| bundle.version.as_ref().zip(bundle.facts.version)).max_by(|a, b| a.0.cmp(b.0)) else {
            return Vec::new();
        };
        let Ok(range) = ExtensionRange::parse(newest.1) else { return Vec::new() };
        let query = Query { range: Some(&range), ..*self.query };
        self.attempt(&query, &[Change::Version(newest.1.to_owned())]).into_iter().collect()
    }
}

/// Packages whose names are close to the one asked for.
fn similar_names(request: &Request, catalogs: &[CandidateCatalog<'_>]) -> Vec<Hint> {
    let wanted = request.package.as_str();
    let mut close: BTreeSet<(usize, String)> = BTreeSet::new();
    for candidate in catalogs {
        let CatalogState::Content(source) = candidate.state else { continue };
        for name in source.package_names() {
            let distance = distance(wanted, name);
            let contains = wanted.len() > 2 && (name.contains(wanted) || wanted.contains(name) && name.len() > 2);
            if distance <= 2.max(wanted.len() / 5) || contains {
                close.insert((if contains { 1 } else { distance }, name.to_owned()));
            }
        }
    }
    close.into_iter().take(3).map(|(_, name)| Hint { changes: vec![Change::Package(name)], leads_to: None }).collect()
}
