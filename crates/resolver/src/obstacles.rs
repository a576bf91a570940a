//! The obstacles to an upgrade (MS-EXPL-04): what holds back the newest bundles of a package whose extension is healthy.

use std::cmp::Ordering;

use mainstay_catalog::graph::{Start, StartState, UpdateGraph};
use mainstay_versions::{ExtensionRange, Version};

use crate::hints::Change;
use crate::request::{CandidateCatalog, CatalogState, Request, UpgradeConstraintPolicy};
use crate::resolve::{Asked, Choice, Offer, OfferedBundle, Pick, Query, Selected, choice_of, decide, in_channels, in_range, may_follow};

/// A newer bundle, and the one obstacle between the extension and it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The newer bundle; `None` for a catalog whose content is not known.
    pub newer: Option<Choice>,
    /// The kind of the obstacle.
    pub kind: ObstacleKind,
    /// The obstacle in words: object first, without a hint.
    pub text: String,
    /// Changes that lead to the newer bundle, or to the next step of the path, all of them together; they were tried. Empty if no change to
    /// the request does, and if none is needed.
    pub changes: Vec<Change>,
    /// The installed bundle, the bundles in between in the order of the steps, and the newer one; empty if the newer one could follow directly,
    /// and if there is no such path.
    pub path: Vec<String>,
}

/// The kinds of obstacles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObstacleKind {
    /// The version range of the request.
    Range,
    /// The channels of the request.
    Channels,
    /// No update edge from the installed bundle.
    Edge,
    /// It is deprecated, and another one is not.
    Deprecated,
    /// Its catalog has a lower priority.
    Priority,
    /// Its catalog is not selected.
    NotSelected,
    /// Its catalog does not serve.
    NotServing,
    /// Catalogs of one priority have it.
    Tied,
    /// It declares a dependency.
    Dependency,
    /// Several of these together.
    Several,
}

/// Returns the obstacles to the newest bundles of the package: the newest of all, the newest that is not deprecated, and the newest that the
/// selected catalogs have, if these are newer than the one that the request leads to. Empty if it leads to the newest.
pub fn why_not_newer(request: &Request, catalogs: &[CandidateCatalog<'_>]) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    let mut serving = Vec::with_capacity(catalogs.len());
    for catalog in catalogs {
        let reason = match catalog.state {
            CatalogState::Content(_) => {
                serving.push(*catalog);
                continue;
            }
            CatalogState::Unavailable => "is switched off".to_owned(),
            CatalogState::NotServing => "is not being served".to_owned(),
            CatalogState::Failed(reason) | CatalogState::Broken { reason, .. } => format!("cannot be read: {reason}"),
        };
        if request.selector.as_ref().is_none_or(|selector| selector.matches(catalog.labels)) {
            let text = format!("catalog {} {reason}, so what it has is not known", catalog.name);
            obstacles.push(Obstacle { newer: None, kind: ObstacleKind::NotServing, text, changes: Vec::new(), path: Vec::new() });
        }
    }
    // Problems of the request itself are reported by `resolve`.
    let Ok(asked) = Asked::read(request, &serving) else { return obstacles };
    let query = asked.query();
    let pick = asked.pick().ok();
    let Some(current) = pick.as_ref().and_then(|pick| pick.bundle.version.as_ref()).or(query.installed.map(|(_, version)| version)) else {
        return obstacles;
    };
    let looking = Looking { asked: &asked, query, pick: pick.as_ref(), catalogs: &serving };
    let newer = |selected: bool, deprecated: bool| {
        let offers = asked.offers.iter().filter(|offer| offer.available && (!selected || offer.selected));
        let bundles = offers.flat_map(|offer| offer.bundles.iter().map(move |bundle| (offer, bundle)));
        let fit = bundles.filter(|(_, bundle)| deprecated || bundle.facts.deprecation.is_none());
        let newer = fit.filter(|(_, bundle)| bundle.version.as_ref().is_some_and(|version| version.cmp_precedence(current).is_gt()));
        // Of equal versions, the one of the first selected catalog counts.
        newer.min_by(|a, b| {
            let versions = b.1.version.cmp(&a.1.version);
            versions.then(b.0.selected.cmp(&a.0.selected)).then(b.0.priority.cmp(&a.0.priority)).then(a.0.catalog.cmp(b.0.catalog))
        })
    };
    let mut seen: Vec<&Version> = Vec::new();
    for (offer, bundle) in [newer(true, true), newer(true, false), newer(false, true)].into_iter().flatten() {
        let Some(version) = &bundle.version else { continue };
        if !seen.iter().any(|seen| seen.cmp_precedence(version) == Ordering::Equal) {
            seen.push(version);
            obstacles.push(looking.obstacle(offer, bundle));
        }
    }
    if let Some(pick) = &pick
        && let Some(property) = pick.bundle.facts.dependency
    {
        let text = format!("{} declares a dependency via property {property}, which is not followed here", pick.bundle.facts.name);
        let newer = Some(choice_of(&request.package, pick));
        obstacles.push(Obstacle { newer, kind: ObstacleKind::Dependency, text, changes: Vec::new(), path: Vec::new() });
    }
    obstacles
}

struct Looking<'l, 'a> {
    asked: &'l Asked<'a>,
    query: Query<'l>,
    pick: Option<&'l Pick<'l>>,
    catalogs: &'l [CandidateCatalog<'a>],
}

impl Looking<'_, '_> {
    fn obstacle(&self, offer: &Offer<'_>, bundle: &OfferedBundle<'_>) -> Obstacle {
        let (request, query, name) = (self.asked.request, &self.query, bundle.facts.name);
        let (channels, all) = (offer.channels(query), offer.channels(&Query { channels: &[], ..*query }));
        let mut bars: Vec<(ObstacleKind, String, Change)> = Vec::new();
        if !offer.selected {
            let text = format!("catalog {} is not selected", offer.catalog);
            bars.push((ObstacleKind::NotSelected, text, Change::Catalog(offer.catalog.to_owned())));
        }
        if !in_range(bundle, query) {
            let text = format!("{name} is outside of the version range {}", request.version.as_deref().unwrap_or_default());
            bars.push((ObstacleKind::Range, text, Change::AnyVersion));
        }
        let follows = may_follow(bundle, &all, query);
        if !in_channels(bundle, &channels, query) {
            let text = format!("{name} is not in channel {}", request.channels.join(", "));
            bars.push((ObstacleKind::Channels, text, Change::AnyChannel));
        } else if follows && !may_follow(bundle, &channels, query) {
            let text = format!("{name} can be reached only by a channel other than {}", request.channels.join(", "));
            bars.push((ObstacleKind::Channels, text, Change::AnyChannel));
        }
        let mut path = Vec::new();
        if !follows {
            let (text, way) = self.no_edge(offer, bundle);
            path = way;
            bars.push((ObstacleKind::Edge, text, Change::SelfCertified));
        }
        if let [_, next, _, ..] = path.as_slice() {
            let moves = self.pick.is_some_and(|pick| pick.bundle.facts.name == next);
            let newer = Some(self.choice(offer, bundle));
            // There is a path: the obstacle is what keeps the extension from its steps, not their number.
            if bars.len() > 1 {
                bars.retain(|(kind, ..)| *kind != ObstacleKind::Edge);
                let (kind, text) = joined(&bars);
                let changes = self.leading_on(&path, bars.into_iter().map(|(.., change)| change).collect());
                return Obstacle { newer, kind, text: format!("{text}; the next step would be {next}"), changes, path };
            }
            if moves {
                let (kind, text) = joined(&bars);
                return Obstacle { newer, kind, text: format!("{text}; {next} comes next"), changes: Vec::new(), path };
            }
        }
        let (kind, text, changes) = match bars.as_slice() {
            [] => self.outranked(offer, bundle),
            bars => {
                let (kind, text) = joined(bars);
                (kind, text, bars.iter().map(|(.., change)| change.clone()).collect())
            }
        };
        Obstacle { newer: Some(self.choice(offer, bundle)), kind, text, changes: self.verified(offer, bundle, changes), path }
    }

    fn choice(&self, offer: &Offer<'_>, bundle: &OfferedBundle<'_>) -> Choice {
        choice_of(&self.asked.request.package, &Pick { offer, bundle, beaten: Vec::new() })
    }

    /// The obstacle of a bundle that nothing bars, but that another one precedes.
    fn outranked(&self, offer: &Offer<'_>, bundle: &OfferedBundle<'_>) -> (ObstacleKind, String, Vec<Change>) {
        let name = bundle.facts.name;
        let only = vec![Change::Catalog(offer.catalog.to_owned())];
        let Some(pick) = self.pick else {
            return (ObstacleKind::Tied, format!("{name} is in several catalogs of one priority"), only);
        };
        let other = pick.bundle.facts.name;
        if bundle.facts.deprecation.is_some() && pick.bundle.facts.deprecation.is_none() {
            let pin = bundle.facts.version.map(|version| Change::Version(version.to_owned())).into_iter().collect();
            return (ObstacleKind::Deprecated, format!("{name} is deprecated, and {other} is not"), pin);
        }
        let text = format!(
            "{name} is in catalog {} of priority {}, and catalog {} of priority {} goes before it with {other}",
            offer.catalog, offer.priority, pick.offer.catalog, pick.offer.priority
        );
        (ObstacleKind::Priority, text, only)
    }

    /// The reason why no edge leads from the installed bundle to a newer one in one step, and the path in several.
    fn no_edge(&self, offer: &Offer<'_>, bundle: &OfferedBundle<'_>) -> (String, Vec<String>) {
        let Some((installed, version)) = self.query.installed else { return (String::new(), Vec::new()) };
        let name = bundle.facts.name;
        let way = self.way(offer, name);
        let entries = offer.package.iter().flat_map(|package| &package.channels).flat_map(|channel| &channel.entries);
        let ranges: Vec<&str> = entries.filter(|entry| entry.name == name).filter_map(|entry| entry.skip_range).collect();
        let missing = match ranges.first() {
            Some(range) => format!("its skipRange {range} does not contain {version}"),
            None => "it has no skipRange".to_owned(),
        };
        let text = match way.as_slice() {
            [_, between @ .., _] if !between.is_empty() => {
                format!("no update edge leads from {installed} to {name} directly, only by way of {}", between.join(", "))
            }
            _ => format!("no update edge leads from {installed} to {name}: it does not replace or skip it, and {missing}"),
        };
        (text, way)
    }

    fn way(&self, offer: &Offer<'_>, name: &str) -> Vec<String> {
        let Some((installed, version)) = self.query.installed else { return Vec::new() };
        let catalog = self.catalogs.iter().find(|catalog| catalog.name == offer.catalog);
        let Some(CatalogState::Content(source)) = catalog.map(|catalog| catalog.state) else { return Vec::new() };
        let Some(facts) = source.package(&self.asked.request.package) else { return Vec::new() };
        let start = Start { bundle: installed.to_owned(), version: Some(version.clone()), state: StartState::Installed };
        // A graph that is too large to draw is too large to walk; then no path is shown.
        let Ok(graph) = UpdateGraph::new(&facts, &self.asked.request.channels, Some(start)) else { return Vec::new() };
        graph.paths().path(name).unwrap_or_default().into_iter().map(str::to_owned).collect()
    }

    /// The changes, if they lead to a step of a path.
    fn leading_on(&self, path: &[String], changes: Vec<Change>) -> Vec<Change> {
        let picked = decide(&self.asked.offers, &self.changed(&changes, None)).ok();
        let leads = picked.is_some_and(|pick| path[1..].iter().any(|step| step == pick.bundle.facts.name));
        if leads { changes } else { Vec::new() }
    }

    /// The query with changes; `exact` is the version range for [`Change::Version`].
    fn changed<'q>(&'q self, changes: &[Change], exact: Option<&'q ExtensionRange>) -> Query<'q> {
        let mut query = self.query;
        for change in changes {
            match change {
                Change::AnyVersion => query.range = None,
                Change::Version(_) => query.range = exact,
                Change::AnyChannel => query.channels = &[],
                Change::SelfCertified => query.policy = UpgradeConstraintPolicy::SelfCertified,
                Change::Catalog(name) => {
                    let offer = self.asked.offers.iter().find(|offer| offer.catalog == name);
                    query.selected = offer.map_or(query.selected, |offer| Selected::Only(offer.catalog));
                }
                _ => {}
            }
        }
        query
    }

    /// The changes, if they lead to the bundle: by themselves, or together with a request for its version.
    fn verified(&self, offer: &Offer<'_>, bundle: &OfferedBundle<'_>, changes: Vec<Change>) -> Vec<Change> {
        let Some(version) = bundle.facts.version else { return Vec::new() };
        let exact = ExtensionRange::parse(version).ok();
        let leads = |changes: &[Change]| {
            let picked = decide(&self.asked.offers, &self.changed(changes, exact.as_ref())).ok();
            picked.is_some_and(|pick| pick.offer.catalog == offer.catalog && pick.bundle.facts.name == bundle.facts.name)
        };
        if leads(&changes) {
            return changes;
        }
        let mut pinned: Vec<Change> = changes.into_iter().filter(|change| !matches!(change, Change::AnyVersion)).collect();
        if !pinned.iter().any(|change| matches!(change, Change::Version(_))) {
            pinned.push(Change::Version(version.to_owned()));
        }
        let only = Change::Catalog(offer.catalog.to_owned());
        if leads(&pinned) {
            return pinned;
        }
        if !pinned.contains(&only) {
            pinned.push(only);
        }
        if leads(&pinned) { pinned } else { Vec::new() }
    }
}

/// Several bars as one: the kind of the only one, or `Several`.
fn joined(bars: &[(ObstacleKind, String, Change)]) -> (ObstacleKind, String) {
    let texts: Vec<&str> = bars.iter().map(|(_, text, _)| text.as_str()).collect();
    let kind = match bars {
        [(kind, ..)] => *kind,
        _ => ObstacleKind::Several,
    };
    (kind, texts.join("; "))
}
