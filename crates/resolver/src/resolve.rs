//! The decision (OLM1-SEL-06, OLM1-SEL-07).
//!
//! Everything a catalog says about the package is read once into `Offer`s. `decide` is then a function of the offers and a `Query`, cheap
//! enough to be repeated with a changed query in the search for hints.

use std::cmp::Ordering;
use std::fmt;

use mainstay_catalog::{BundleFacts, ChannelFacts, PackageFacts};
use mainstay_versions::{ExtensionRange, Version};

use crate::edges::{Edge, edge_to};
use crate::hints;
use crate::refusal::{CatalogReport, Refusal, RefusalKind};
use crate::request::{CandidateCatalog, CatalogState, Request, UpgradeConstraintPolicy};

/// The one bundle, and the reasons for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The chosen bundle.
    pub choice: Choice,
    /// Deprecations that concern the choice (OLM1-CTRL-05).
    pub deprecations: DeprecationMessages,
    /// The update edge that was taken; `None` for a new install, for staying, and without update constraints.
    pub edge: Option<Edge>,
    /// True if the choice is the installed bundle.
    pub stays: bool,
    /// The reasons, most important first.
    pub reasons: Vec<String>,
    /// The offers of each catalog, by name.
    pub catalogs: Vec<CatalogReport>,
}

/// A bundle in a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Catalog.
    pub catalog: String,
    /// Package.
    pub package: String,
    /// Name of the bundle.
    pub bundle: String,
    /// Its version as the catalog writes it.
    pub version: String,
    /// Pull spec of its image.
    pub image: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) from catalog {}", self.bundle, self.version, self.catalog)
    }
}

/// Messages of deprecations, by their subject.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeprecationMessages {
    /// The package.
    pub package: Option<String>,
    /// Requested channels, name and message; always empty when no channel was requested.
    pub channels: Vec<(String, String)>,
    /// The bundle.
    pub bundle: Option<String>,
}

impl DeprecationMessages {
    /// Returns whether nothing is deprecated.
    pub fn is_empty(&self) -> bool {
        self.package.is_none() && self.channels.is_empty() && self.bundle.is_none()
    }
}

/// Chooses exactly one bundle, or returns the reason why there is none.
pub fn resolve(request: &Request, catalogs: &[CandidateCatalog<'_>]) -> Result<Resolution, Box<Refusal>> {
    let asked = Asked::read(request, catalogs).map_err(|kind| Box::new(Refusal { kind, catalogs: Vec::new(), hints: Vec::new() }))?;
    let query = asked.query();
    let failure = match asked.pick() {
        Ok(pick) => match unreadable(&pick.bundle.facts).or_else(|| dependent(&pick.bundle.facts)) {
            None => return Ok(resolution(request, &query, &pick, asked.reports())),
            Some(kind) => kind,
        },
        Err(kind) => kind,
    };
    Err(asked.refusal(failure, catalogs))
}

/// A parsed request, and the offers of the catalogs.
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a Request,
    pub(crate) offers: Vec<Offer<'a>>,
    range: Option<ExtensionRange>,
    installed: Option<Version>,
}

impl<'a> Asked<'a> {
    /// Reads the request and asks the catalogs; the error is about either.
    pub(crate) fn read(request: &'a Request, catalogs: &[CandidateCatalog<'a>]) -> Result<Self, RefusalKind> {
        let range = request.version.as_deref().filter(|version| !version.is_empty()).map(|text| {
            ExtensionRange::parse(text)
                .map_err(|reason| RefusalKind::InvalidVersionRange { range: text.to_owned(), reason: reason.to_string() })
        });
        let range = range.transpose()?;
        if let Some(selector) = &request.selector {
            selector.validate().map_err(|reason| RefusalKind::InvalidSelector { reason: reason.to_string() })?;
        }
        let (offers, silent) = read_offers(request, catalogs);
        let installed = match &request.installed {
            None => None,
            Some(bundle) => {
                let parsed = Version::parse(&bundle.version);
                // Without update edges the installed version is ignored.
                if let (Err(reason), UpgradeConstraintPolicy::CatalogProvided) = (&parsed, request.policy) {
                    return Err(RefusalKind::InvalidInstalledVersion {
                        bundle: bundle.name.clone(),
                        version: bundle.version.clone(),
                        reason: reason.to_string(),
                    });
                }
                parsed.ok()
            }
        };
        let mut asked = Self { request, offers, range, installed };
        asked.without(&silent)?;
        Ok(asked)
    }

    /// Goes on without the catalogs that cannot be asked if they cannot change the choice; fails if they could (OLM1-SEL-02, MS-EXPL-05).
    fn without(&mut self, silent: &[Silent<'a>]) -> Result<(), RefusalKind> {
        if silent.is_empty() {
            return Ok(());
        }
        let standing = match decide(&self.offers, &self.query()) {
            Ok(pick) => Standing::Chosen { priority: pick.offer.priority, deprecated: pick.bundle.facts.deprecation.is_some() },
            Err(tied) if tied.is_empty() => Standing::Nothing,
            Err(_) => Standing::Tied,
        };
        let mut concerned: Vec<&Silent<'_>> = silent.iter().filter(|silent| silent.stops(&standing)).collect();
        concerned.sort_unstable_by_key(|silent| silent.catalog);
        if let Some(Silent { catalog, reason, .. }) = concerned.first() {
            return Err(RefusalKind::CatalogFailed {
                package: self.request.package.clone(),
                catalog: (*catalog).to_owned(),
                reason: reason.clone(),
            });
        }
        for Silent { catalog, reason, may_have, .. } in silent {
            let why = match may_have {
                MayHave::No => format!("it did not have package {} when it last served", self.request.package),
                MayHave::Unknown => "another catalog goes before it".to_owned(),
                MayHave::NeverServed => "it is not known to have served anything, and does not go before the others".to_owned(),
            };
            if let Some(offer) = self.offers.iter_mut().find(|offer| offer.catalog == *catalog) {
                offer.left_out = Some(format!("{reason}; {why}"));
            }
        }
        Ok(())
    }

    /// The parsed request as a query.
    pub(crate) fn query(&self) -> Query<'_> {
        Query {
            channels: &self.request.channels,
            range: self.range.as_ref(),
            policy: self.request.policy,
            installed: self.request.installed.as_ref().map(|bundle| bundle.name.as_str()).zip(self.installed.as_ref()),
            selected: Selected::BySelector,
        }
    }

    /// Picks the one bundle by the rules of one extension, regardless of what it needs besides.
    pub(crate) fn pick(&self) -> Result<Pick<'_>, RefusalKind> {
        let request = self.request;
        decide(&self.offers, &self.query()).map_err(|tied| RefusalKind::NoSingleBundle {
            installed: request.installed.as_ref().map(|bundle| bundle.version.clone()),
            package: request.package.clone(),
            version: request.version.clone().filter(|version| !version.is_empty()),
            channels: request.channels.clone(),
            tied,
        })
    }

    /// The offers of each catalog.
    pub(crate) fn reports(&self) -> Vec<CatalogReport> {
        let query = self.query();
        self.offers.iter().map(|offer| offer.report(&query)).collect()
    }

    /// A refusal with its reports and hints.
    pub(crate) fn refusal(&self, kind: RefusalKind, catalogs: &[CandidateCatalog<'_>]) -> Box<Refusal> {
        let hints = hints::find(self.request, &self.offers, &self.query(), &kind, catalogs);
        Box::new(Refusal { kind, catalogs: self.reports(), hints })
    }
}

/// The refusal if the version of the chosen bundle cannot be read; no other one is taken instead (OLM1-SEL-01).
pub(crate) fn unreadable(facts: &BundleFacts<'_>) -> Option<RefusalKind> {
    let readable = match facts.version {
        None => Err("it needs exactly one olm.package property with a version".to_owned()),
        Some(version) => Version::parse(version).map_err(|reason| format!("version \"{version}\": {reason}")),
    };
    readable.err().map(|reason| RefusalKind::InvalidBundleVersion { bundle: facts.name.to_owned(), reason })
}

/// The refusal of a bundle that needs others, if it is chosen alone (OLM1-INST-04).
fn dependent(facts: &BundleFacts<'_>) -> Option<RefusalKind> {
    let bundle = facts.name.to_owned();
    facts.dependency.map(|property| RefusalKind::UnsupportedDependency { bundle, property: property.to_owned() })
}

/// The parts of a parsed request that decide the choice.
#[derive(Clone, Copy)]
pub(crate) struct Query<'q> {
    pub(crate) channels: &'q [String],
    pub(crate) range: Option<&'q ExtensionRange>,
    pub(crate) policy: UpgradeConstraintPolicy,
    pub(crate) installed: Option<(&'q str, &'q Version)>,
    pub(crate) selected: Selected<'q>,
}

/// The catalogs that take part.
#[derive(Clone, Copy)]
pub(crate) enum Selected<'q> {
    /// Those that the request's selector chose.
    BySelector,
    /// All that are available.
    All,
    /// One, by name.
    Only(&'q str),
}

/// One catalog, and its facts about the package.
pub(crate) struct Offer<'a> {
    pub(crate) catalog: &'a str,
    pub(crate) priority: i32,
    pub(crate) selected: bool,
    pub(crate) available: bool,
    pub(crate) left_out: Option<String>,
    pub(crate) package: Option<PackageFacts<'a>>,
    pub(crate) bundles: Vec<OfferedBundle<'a>>,
}

/// A bundle with its version read.
pub(crate) struct OfferedBundle<'a> {
    pub(crate) facts: BundleFacts<'a>,
    pub(crate) version: Option<Version>,
}

/// The bundle that was picked.
pub(crate) struct Pick<'o> {
    pub(crate) offer: &'o Offer<'o>,
    pub(crate) bundle: &'o OfferedBundle<'o>,
    /// Catalogs whose pick lost, and the reason.
    pub(crate) beaten: Vec<(&'o str, &'static str)>,
}

/// A selected catalog that cannot be asked.
struct Silent<'a> {
    catalog: &'a str,
    priority: i32,
    reason: String,
    may_have: MayHave,
}

/// Knowledge of whether a catalog that cannot be asked has the package.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MayHave {
    /// It did not have it when it last served.
    No,
    /// It never served, and says that it cannot.
    NeverServed,
    /// It had the package, or its content is not known.
    Unknown,
}

/// The result of the catalogs that can be asked.
enum Standing {
    Chosen { priority: i32, deprecated: bool },
    Tied,
    Nothing,
}

impl Silent<'_> {
    /// Returns whether the choice could differ with it. If no other catalog has a bundle, this one may have the package.
    fn stops(&self, standing: &Standing) -> bool {
        match (self.may_have, standing) {
            (MayHave::No, _) | (MayHave::NeverServed, Standing::Tied) => false,
            (_, Standing::Nothing) | (MayHave::Unknown, Standing::Tied) => true,
            (MayHave::NeverServed, Standing::Chosen { priority, .. }) => self.priority > *priority,
            // A bundle that is not deprecated goes before a deprecated one, regardless of priority (OLM1-SEL-07).
            (MayHave::Unknown, Standing::Chosen { priority, deprecated }) => self.priority >= *priority || *deprecated,
        }
    }
}

/// Asks every catalog; the offers are in the order of their names.
fn read_offers<'a>(request: &Request, catalogs: &[CandidateCatalog<'a>]) -> (Vec<Offer<'a>>, Vec<Silent<'a>>) {
    let mut offers = Vec::with_capacity(catalogs.len());
    let mut silent = Vec::new();
    for candidate in catalogs {
        let selected = request.selector.as_ref().is_none_or(|selector| selector.matches(candidate.labels));
        let CandidateCatalog { name: catalog, priority, .. } = *candidate;
        let mut offer = Offer { catalog, priority, selected, available: false, left_out: None, package: None, bundles: Vec::new() };
        let mut fails = |reason: String, may_have| {
            if selected {
                silent.push(Silent { catalog, priority, reason, may_have });
            }
        };
        match candidate.state {
            CatalogState::Unavailable => {}
            CatalogState::NotServing => fails(format!("catalog \"{catalog}\" is not being served"), MayHave::Unknown),
            CatalogState::Failed(reason) => fails(reason.to_owned(), MayHave::Unknown),
            CatalogState::Broken { reason, last } => fails(
                reason.to_owned(),
                match last.map(|last| last.package(&request.package).is_some()) {
                    None => MayHave::NeverServed,
                    Some(true) => MayHave::Unknown,
                    Some(false) => MayHave::No,
                },
            ),
            CatalogState::Content(source) => {
                offer.available = true;
                offer.package = source.package(&request.package);
                let bundles = offer.package.as_mut().map(|package| std::mem::take(&mut package.bundles)).unwrap_or_default();
                let read = |facts: BundleFacts<'a>| OfferedBundle {
                    version: facts.version.and_then(|version| Version::parse(version).ok()),
                    facts,
                };
                offer.bundles = bundles.into_iter().map(read).collect();
            }
        }
        offers.push(offer);
    }
    offers.sort_by_key(|offer| offer.catalog);
    (offers, silent)
}

/// The pick across catalogs, or the names of catalogs that tie (none when nothing fits).
pub(crate) fn decide<'o>(offers: &'o [Offer<'o>], query: &Query<'_>) -> Result<Pick<'o>, Vec<String>> {
    let mut picks: Vec<(&Offer<'o>, &OfferedBundle<'o>)> = Vec::new();
    for offer in offers.iter().filter(|offer| offer.takes_part(query)) {
        picks.extend(offer.best(query).map(|bundle| (offer, bundle)));
    }
    let mut beaten = Vec::new();
    let mut drop_losers =
        |picks: &mut Vec<(&'o Offer<'o>, &'o OfferedBundle<'o>)>, why, keep: &dyn Fn(&Offer<'_>, &OfferedBundle<'_>) -> bool| {
            picks.retain(|(offer, bundle)| {
                let keeps = keep(offer, bundle);
                if !keeps {
                    beaten.push((offer.catalog, why));
                }
                keeps
            });
        };
    // Deprecation is weighed before priority (OLM1-SEL-07).
    if picks.iter().any(|(_, bundle)| bundle.facts.deprecation.is_none()) {
        drop_losers(&mut picks, "its bundle is deprecated", &|_, bundle| bundle.facts.deprecation.is_none());
    }
    if let Some(top) = picks.iter().map(|(offer, _)| offer.priority).max() {
        drop_losers(&mut picks, "its priority is lower", &|offer, _| offer.priority == top);
    }
    match picks.as_slice() {
        [(offer, bundle)] => Ok(Pick { offer, bundle, beaten }),
        tied => Err(tied.iter().map(|(offer, _)| offer.catalog.to_owned()).collect()),
    }
}

impl<'a> Offer<'a> {
    pub(crate) fn takes_part(&self, query: &Query<'_>) -> bool {
        self.available
            && match query.selected {
                Selected::BySelector => self.selected,
                Selected::All => true,
                Selected::Only(name) => self.catalog == name,
            }
    }

    /// Channels that are considered: the requested ones, else all.
    pub(crate) fn channels(&self, query: &Query<'_>) -> Vec<&ChannelFacts<'a>> {
        let all = self.package.iter().flat_map(|package| &package.channels);
        all.filter(|channel| query.channels.is_empty() || query.channels.iter().any(|wanted| wanted == channel.name)).collect()
    }

    /// Bundles that meet all constraints.
    pub(crate) fn matching(&self, query: &Query<'_>) -> Vec<&OfferedBundle<'a>> {
        let channels = self.channels(query);
        let fits = |bundle: &&OfferedBundle<'a>| {
            in_channels(bundle, &channels, query) && in_range(bundle, query) && may_follow(bundle, &channels, query)
        };
        self.bundles.iter().filter(fits).collect()
    }

    /// The best bundle: not deprecated first, then the highest version (OLM1-SEL-06); versions that differ only in build metadata by that, then
    /// by name (OLM1-SEL-12).
    fn best(&self, query: &Query<'_>) -> Option<&OfferedBundle<'a>> {
        self.matching(query).into_iter().min_by(|a, b| {
            let deprecated = |bundle: &OfferedBundle<'_>| bundle.facts.deprecation.is_some();
            deprecated(a).cmp(&deprecated(b)).then_with(|| newest_first(a, b)).then_with(|| a.facts.name.cmp(b.facts.name))
        })
    }

    fn report(&self, query: &Query<'_>) -> CatalogReport {
        let channels = self.channels(query);
        let in_channels: Vec<_> = self.bundles.iter().filter(|bundle| in_channels(bundle, &channels, query)).collect();
        CatalogReport {
            catalog: self.catalog.to_owned(),
            priority: self.priority,
            selected: self.selected,
            available: self.available,
            package_found: self.package.is_some(),
            bundles: self.bundles.len(),
            in_channels: in_channels.len(),
            in_range: in_channels.iter().filter(|bundle| in_range(bundle, query)).count(),
            matching: self.matching(query).len(),
            left_out: self.left_out.clone(),
        }
    }
}

/// Orders the newest first; a version that cannot be read is the lowest.
pub(crate) fn newest_first(a: &OfferedBundle<'_>, b: &OfferedBundle<'_>) -> Ordering {
    match (&a.version, &b.version) {
        (Some(a), Some(b)) => b.cmp(a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

pub(crate) fn in_channels(bundle: &OfferedBundle<'_>, channels: &[&ChannelFacts<'_>], query: &Query<'_>) -> bool {
    query.channels.is_empty() || channels.iter().any(|channel| channel.entries.iter().any(|entry| entry.name == bundle.facts.name))
}

pub(crate) fn in_range(bundle: &OfferedBundle<'_>, query: &Query<'_>) -> bool {
    query.range.is_none_or(|range| bundle.version.as_ref().is_some_and(|version| range.matches(version)))
}

/// Returns whether the bundle may follow the installed one: it is a direct successor, or of the same version.
pub(crate) fn may_follow(bundle: &OfferedBundle<'_>, channels: &[&ChannelFacts<'_>], query: &Query<'_>) -> bool {
    let (UpgradeConstraintPolicy::CatalogProvided, Some(installed)) = (query.policy, query.installed) else { return true };
    same_version(bundle, installed.1) || edge_to(bundle.facts.name, installed, channels).is_some()
}

pub(crate) fn same_version(bundle: &OfferedBundle<'_>, installed: &Version) -> bool {
    bundle.version.as_ref().is_some_and(|version| version.cmp_precedence(installed).is_eq())
}

pub(crate) fn choice_of(package: &str, pick: &Pick<'_>) -> Choice {
    let facts = &pick.bundle.facts;
    Choice {
        catalog: pick.offer.catalog.to_owned(),
        package: package.to_owned(),
        bundle: facts.name.to_owned(),
        version: facts.version.unwrap_or_default().to_owned(),
        image: facts.image.to_owned(),
    }
}

pub(crate) fn resolution(request: &Request, query: &Query<'_>, pick: &Pick<'_>, catalogs: Vec<CatalogReport>) -> Resolution {
    let facts = &pick.bundle.facts;
    let package = pick.offer.package.as_ref();
    let channels = pick.offer.channels(query);
    let deprecated_channels = channels.iter().filter(|_| !query.channels.is_empty());
    let deprecations = DeprecationMessages {
        package: package.and_then(|package| package.deprecation).map(str::to_owned),
        channels: deprecated_channels.filter_map(|c| c.deprecation.map(|message| (c.name.to_owned(), message.to_owned()))).collect(),
        bundle: facts.deprecation.map(str::to_owned),
    };
    let stays = query.installed.is_some_and(|(name, version)| name == facts.name && same_version(pick.bundle, version));
    let bound = query.policy == UpgradeConstraintPolicy::CatalogProvided;
    let edge = query.installed.filter(|_| bound && !stays).and_then(|installed| edge_to(facts.name, installed, &channels));
    let reasons = reasons(request, query, pick, stays, edge.as_ref());
    Resolution { choice: choice_of(&request.package, pick), deprecations, edge, stays, reasons, catalogs }
}

fn reasons(request: &Request, query: &Query<'_>, pick: &Pick<'_>, stays: bool, edge: Option<&Edge>) -> Vec<String> {
    let matching = pick.offer.matching(query);
    let name = pick.bundle.facts.name;
    let mut reasons = Vec::new();
    let newer_deprecated = matching.iter().filter(|other| newest_first(other, pick.bundle).is_lt()).count();
    reasons.push(match (matching.len(), newer_deprecated) {
        (1, _) if pick.offer.bundles.len() == 1 => format!("{name} is the only bundle of the package"),
        (1, _) => format!("{name} is the only one of {} bundles that fits", pick.offer.bundles.len()),
        (fit, 0) => format!("{name} is the newest of {fit} bundles that fit"),
        (fit, newer) => format!("{name} is the newest of {fit} bundles that fit and are not deprecated (newer but deprecated: {newer})"),
    });
    match (&request.installed, edge) {
        (Some(installed), _) if stays => reasons.push(format!("{} is installed and nothing newer may follow it", installed.name)),
        (Some(installed), Some(edge)) => reasons.push(format!("{} is installed; {name} {edge}", installed.name)),
        (Some(installed), None) if query.policy == UpgradeConstraintPolicy::SelfCertified => {
            reasons.push(format!("{} is installed; update edges are not asked for, because the policy is SelfCertified", installed.name));
        }
        (Some(installed), None) => reasons.push(format!("{} is installed with the same version", installed.name)),
        (None, _) => {}
    }
    if let Some(version) = request.version.as_deref().filter(|version| !version.is_empty()) {
        reasons.push(format!("its version matches \"{version}\""));
    }
    if !query.channels.is_empty() {
        let channels = pick.offer.channels(query);
        let holds: Vec<&str> = channels.iter().filter(|c| c.entries.iter().any(|entry| entry.name == name)).map(|c| c.name).collect();
        reasons.push(format!("it is in channel {}", holds.join(", ")));
    }
    for (catalog, why) in &pick.beaten {
        reasons.push(format!("catalog {} goes before catalog {catalog}, {why}", pick.offer.catalog));
    }
    reasons
}
