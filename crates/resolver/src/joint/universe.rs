//! The bundles to choose from: those for each root, and those that they may need.
//!
//! The universe is narrow or wide. The narrow one holds the bundles that the roots allow, and is the one that is solved. The wide one also
//! holds the bundles that they bar, each with the facts that bar it, so that the facts to blame can be found.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use mainstay_versions::Version;

use super::Problem;
use super::conflict::FactKind;
use super::needs::Api;
use super::pool::{ItemId, NeedId, Place, Pool};
use crate::refusal::Refusal;
use crate::resolve::{Asked, Offer, OfferedBundle, Query, in_channels, in_range, may_follow, newest_first, unreadable};

/// The problem with its roots read.
pub(super) struct Input<'p> {
    pub(super) problem: &'p Problem<'p>,
    /// By root: the request with its offers, or the refusal if it has no answer even alone.
    pub(super) asked: Vec<Result<Rc<Asked<'p>>, Rc<Refusal>>>,
}

/// A fact that is switched on and off to find the ones to blame.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    /// A root must have a bundle.
    Wanted(usize),
    /// A part of a root bars bundles.
    Filter(usize, FactKind),
    /// A root's installed bundle stays.
    Stays(usize),
    /// A root has no bundle, so there is no bundle of its package.
    Absent(usize),
    /// A package is not requested.
    NotAsked(String),
    /// Two roots ask for one package.
    OnePackage(String),
    /// The need of a package's bundles.
    Need(String, NeedId),
    /// The package whose bundles have needs that cannot be read, and the reason.
    Broken(String, String),
    /// A group and kind has one provider.
    OneProvider(Kind),
}

/// Group and kind of an API: one CRD, whatever its versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) kind: String,
}

impl Kind {
    pub(super) fn of(api: &Api) -> Self {
        Self { group: api.group.clone(), kind: api.kind.clone() }
    }

    pub(super) fn is_of(&self, api: &Api) -> bool {
        self.group == api.group && self.kind == api.kind
    }
}

/// A bundle in a role.
pub(super) struct Entity {
    pub(super) item: ItemId,
    pub(super) role: Role,
    /// The facts that bar it; empty in a narrow universe.
    pub(super) bars: Vec<Key>,
    pub(super) needs: Vec<NeedId>,
    /// The reasons why its needs cannot be read.
    pub(super) broken: Vec<String>,
}

/// The role of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A root may have it; offer and bundle are its position in what was asked.
    Candidate { root: usize, offer: usize, bundle: usize },
    /// A root has it and keeps it.
    Stays(usize),
    /// It may be added.
    Addable,
}

pub(super) struct Universe<'p> {
    pub(super) pool: Pool<'p>,
    pub(super) entities: Vec<Entity>,
    /// By root, its candidates, the best first.
    pub(super) candidates: BTreeMap<usize, Vec<usize>>,
    pub(super) by_item: HashMap<ItemId, Vec<usize>>,
    pub(super) by_package: BTreeMap<String, Vec<usize>>,
    /// By need that some entity has, the entities that meet it; `None` if it is met anyway.
    pub(super) meeting: BTreeMap<NeedId, Option<Vec<usize>>>,
    pub(super) wide: bool,
}

impl<'p> Input<'p> {
    /// Reads every root by itself.
    pub(super) fn read(problem: &'p Problem<'p>) -> Self {
        Self { problem, asked: problem.roots.iter().map(|root| read(problem, root)).collect() }
    }

    /// Does the same with one root changed; the others were read before.
    pub(super) fn changed(&self, problem: &'p Problem<'p>, root: usize) -> Self {
        let mut asked = self.asked.clone();
        asked[root] = read(problem, &problem.roots[root]);
        Self { problem, asked }
    }

    pub(super) fn package(&self, root: usize) -> &'p str {
        &self.problem.roots[root].request.package
    }
}

fn read<'p>(problem: &Problem<'p>, root: &'p super::Root) -> Result<Rc<Asked<'p>>, Rc<Refusal>> {
    let bare = |kind| Rc::new(Refusal { kind, catalogs: Vec::new(), hints: Vec::new() });
    let asked = Asked::read(&root.request, problem.catalogs).map_err(bare)?;
    let failure = match asked.pick() {
        Ok(pick) => unreadable(&pick.bundle.facts),
        Err(kind) => Some(kind),
    };
    match failure {
        Some(kind) => Err(asked.refusal(kind, problem.catalogs).into()),
        None => Ok(Rc::new(asked)),
    }
}

/// A bundle of an offer, and the parts of the root that bar it.
struct Candidate {
    offer: usize,
    bundle: usize,
    barred: Vec<FactKind>,
}

/// The candidates of a root: not deprecated first, then by priority, then the newest (OLM1-SEL-06, OLM1-SEL-07). If catalogs of one
/// priority have bundles of one standing, none of them is taken silently (OLM1-SEL-11).
///
/// An installed bundle does not go back to an older version for the sake of others, although it may (OLM1-UPG-11): only if its own root
/// leads back.
fn candidates(asked: &Asked<'_>, wide: bool) -> Vec<Candidate> {
    let query = asked.query();
    let standing = |offer: &Offer<'_>, bundle: &OfferedBundle<'_>| (bundle.facts.deprecation.is_some(), -i64::from(offer.priority));
    let is_older = |a: &Version, b: &Version| a.cmp_precedence(b) == Ordering::Less;
    let keeps_up = |installed: &&Version| {
        asked.pick().is_ok_and(|pick| pick.bundle.version.as_ref().is_some_and(|version| !is_older(version, installed)))
    };
    let floor = query.installed.map(|(_, version)| version).filter(keeps_up);
    let mut found = Vec::new();
    let mut catalogs: HashMap<(bool, i64), HashSet<usize>> = HashMap::new();
    for (at, offer) in asked.offers.iter().enumerate().filter(|(_, offer)| offer.available) {
        let (channels, all) = (offer.channels(&query), offer.channels(&Query { channels: &[], ..query }));
        for (bundle, offered) in offer.bundles.iter().enumerate().filter(|(_, offered)| offered.version.is_some()) {
            let listed = in_channels(offered, &channels, &query);
            let (follows, may) = (may_follow(offered, &channels, &query), may_follow(offered, &all, &query));
            let mut barred = Vec::new();
            let mut bar = |bars: bool, kind| barred.extend(bars.then_some(kind));
            bar(!offer.takes_part(&query), FactKind::Catalogs);
            bar(!in_range(offered, &query), FactKind::Range);
            bar(!listed || may && !follows, FactKind::Channels);
            bar(!may, FactKind::Edges);
            bar(floor.zip(offered.version.as_ref()).is_some_and(|(floor, version)| is_older(version, floor)), FactKind::NoWayBack);
            if barred.is_empty() {
                catalogs.entry(standing(offer, offered)).or_default().insert(at);
            } else if !wide {
                continue;
            }
            found.push(Candidate { offer: at, bundle, barred });
        }
    }
    for candidate in &mut found {
        let offer = &asked.offers[candidate.offer];
        let tied = catalogs.get(&standing(offer, &offer.bundles[candidate.bundle])).is_some_and(|catalogs| catalogs.len() > 1);
        if candidate.barred.is_empty() && tied {
            candidate.barred.push(FactKind::Tied);
        }
    }
    found.retain(|candidate| wide || candidate.barred.is_empty());
    found.sort_by(|a, b| {
        let of = |candidate: &Candidate| (&asked.offers[candidate.offer], &asked.offers[candidate.offer].bundles[candidate.bundle]);
        let ((a, one), (b, other)) = (of(a), of(b));
        let standings = standing(a, one).cmp(&standing(b, other));
        standings.then_with(|| newest_first(one, other)).then_with(|| one.facts.name.cmp(other.facts.name)).then(a.catalog.cmp(b.catalog))
    });
    found
}

impl<'p> Universe<'p> {
    /// Builds the universe of all bundles that the roots may have, and those that these may need. The roots in `fixed` keep their bundles.
    pub(super) fn build(input: &Input<'p>, fixed: &BTreeSet<usize>, wide: bool) -> Self {
        let problem = input.problem;
        let mut universe = Self {
            pool: Pool::new(problem.catalogs, problem.provided),
            entities: Vec::new(),
            candidates: BTreeMap::new(),
            by_item: HashMap::new(),
            by_package: BTreeMap::new(),
            meeting: BTreeMap::new(),
            wide,
        };
        let mut installed = BTreeMap::new();
        for (at, root) in problem.roots.iter().enumerate() {
            universe.pool.package(&root.request.package);
            installed.extend(universe.installed(root).map(|item| (at, item)));
        }
        for (root, asked) in input.asked.iter().enumerate() {
            match asked {
                Ok(asked) if !fixed.contains(&root) => universe.add_candidates(root, asked),
                _ => {
                    if let Some(item) = installed.get(&root) {
                        universe.add(*item, Role::Stays(root), Vec::new());
                    }
                }
            }
        }
        universe.add_needed(input, &installed);
        universe
    }

    /// The installed bundle of a root as a catalog knows it; otherwise only its package and version.
    fn installed(&mut self, root: &super::Root) -> Option<ItemId> {
        let bundle = root.request.installed.as_ref()?;
        let known = self.pool.package(&root.request.package).to_vec();
        let named = |id: &ItemId| self.pool.item(*id).facts.name == bundle.name;
        if let Some(item) = known.into_iter().find(named) {
            return Some(item);
        }
        let label = format!("{} {}", root.request.package, bundle.version);
        Some(self.pool.stranger(root.request.package.clone(), Version::parse(&bundle.version).ok(), label, Vec::new()))
    }

    fn add(&mut self, item: ItemId, role: Role, bars: Vec<Key>) -> usize {
        let (needs, broken) = self.pool.needs_of(item);
        let entity = self.entities.len();
        self.by_item.entry(item).or_default().push(entity);
        self.by_package.entry(self.pool.item(item).package.clone()).or_default().push(entity);
        self.entities.push(Entity { item, role, bars, needs, broken });
        entity
    }

    fn add_candidates(&mut self, root: usize, asked: &Asked<'p>) {
        let mut order = Vec::new();
        for Candidate { offer, bundle, barred } in candidates(asked, self.wide) {
            let Some(item) = self.pool.at(asked.offers[offer].catalog, &asked.request.package, bundle) else { continue };
            let bars = barred.into_iter().map(|kind| Key::Filter(root, kind)).collect();
            order.push(self.add(item, Role::Candidate { root, offer, bundle }, bars));
        }
        self.candidates.insert(root, order);
    }

    /// Adds the bundles that may meet the needs of the entities, and the needs of those in turn.
    fn add_needed(&mut self, input: &Input<'p>, installed: &BTreeMap<usize, ItemId>) {
        let problem = input.problem;
        let mut at = 0;
        while at < self.entities.len() {
            if let Role::Stays(_) = self.entities[at].role {
                self.keep_met_needs(at, installed);
            }
            for need in self.entities[at].needs.clone() {
                if self.meeting.contains_key(&need) {
                    continue;
                }
                self.meeting.insert(need, None);
                self.pool.look_for(need, problem.add_missing || self.wide);
                if self.pool.need(need).forbids {
                    continue;
                }
                for item in self.pool.meeting(need) {
                    if let Some(bars) = self.addable(input, item) {
                        self.add(item, Role::Addable, bars);
                    }
                }
            }
            at += 1;
        }
        let needs: Vec<NeedId> = self.meeting.keys().copied().collect();
        for need in needs {
            let meeting = self.pool.meeting(need);
            let anyway = meeting.iter().any(|item| self.pool.outside().contains(item));
            let entities = meeting.iter().filter_map(|item| self.by_item.get(item)).flatten().copied().collect();
            let forbids = self.pool.need(need).forbids;
            // An item that exists besides all bundles meets a need for good, and breaks a ban for good.
            self.meeting.insert(need, if anyway && !forbids { None } else { Some(entities) });
        }
    }

    /// Returns whether a ban is broken by something that exists besides all bundles.
    pub(super) fn broken_ban(&mut self, need: NeedId) -> bool {
        let outside = self.pool.outside().to_vec();
        self.pool.need(need).forbids && self.pool.meeting(need).iter().any(|item| outside.contains(item))
    }

    /// The facts that bar a bundle from being added; `None` if it cannot be added at all.
    fn addable(&self, input: &Input<'_>, id: ItemId) -> Option<Vec<Key>> {
        let item = self.pool.item(id);
        if self.by_item.contains_key(&id) || item.catalog.is_none() || item.version.is_none() || item.place == Place::Nowhere {
            return None;
        }
        let roots: Vec<usize> = (0..input.asked.len()).filter(|root| input.package(*root) == item.package).collect();
        match roots.as_slice() {
            [] if input.problem.add_missing => Some(Vec::new()),
            [] if self.wide => Some(vec![Key::NotAsked(item.package.clone())]),
            // It could be there, if the root that has the package were met or did not exist.
            roots if self.wide && roots.iter().all(|root| !self.candidates.contains_key(root)) => {
                let keeps = |root: &usize| input.problem.roots[*root].request.installed.is_some();
                Some(roots.iter().map(|root| if keeps(root) { Key::Stays(*root) } else { Key::Absent(*root) }).collect())
            }
            _ => None,
        }
    }

    /// Keeps only the needs of a staying bundle that are met now: a need that is broken already blames no root.
    fn keep_met_needs(&mut self, at: usize, installed: &BTreeMap<usize, ItemId>) {
        let own = self.entities[at].item;
        let needs = std::mem::take(&mut self.entities[at].needs);
        let met = |need: &NeedId| {
            let meeting = self.pool.meeting(*need);
            let there = |item: &ItemId| installed.values().any(|other| other == item) || self.pool.outside().contains(item);
            if self.pool.need(*need).forbids { !meeting.iter().any(|item| *item != own && there(item)) } else { meeting.iter().any(there) }
        };
        self.entities[at].needs = needs.into_iter().filter(met).collect();
        self.entities[at].broken.clear();
    }

    /// Roots whose answers depend on each other, each group in order, and the groups by their first root.
    pub(super) fn components(&self, input: &Input<'_>) -> Vec<Group> {
        let names: Vec<&String> = self.by_package.keys().collect();
        let number: HashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let mut parents: Vec<usize> = (0..names.len()).collect();
        let package = |entity: usize| number[self.pool.item(self.entities[entity].item).package.as_str()];
        let mut join = |a: usize, b: usize| {
            let (a, b) = (find(&mut parents, a), find(&mut parents, b));
            parents[a.max(b)] = a.min(b);
        };
        let mut providers: HashMap<(&str, &str), usize> = HashMap::new();
        let mut joined: HashSet<(usize, NeedId)> = HashSet::new();
        for (at, entity) in self.entities.iter().enumerate() {
            let own = package(at);
            for need in entity.needs.iter().filter(|need| joined.insert((own, **need))) {
                let meeting = self.meeting.get(need).and_then(Option::as_ref);
                meeting.into_iter().flatten().for_each(|other| join(own, package(*other)));
            }
            for api in &self.pool.item(entity.item).provides {
                join(own, *providers.entry((&api.group, &api.kind)).or_insert(own));
            }
        }
        let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
        for root in self.candidates.keys() {
            let of = number.get(input.package(*root)).map_or(names.len() + root, |at| find(&mut parents, *at));
            groups.entry(of).or_default().roots.push(*root);
        }
        for (at, name) in names.iter().enumerate() {
            if let Some(group) = groups.get_mut(&find(&mut parents, at)) {
                group.packages.insert((*name).clone());
            }
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        groups.sort_by(|a, b| a.roots.cmp(&b.roots));
        groups
    }
}

/// Roots whose answers depend on each other, and the packages among which they choose.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) roots: Vec<usize>,
    pub(super) packages: BTreeSet<String>,
}

/// The first of the packages that were joined with one.
fn find(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}
