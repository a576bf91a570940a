//! The bundles in question, read once and only if they may be needed.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use mainstay_catalog::{BundleFacts, PackageFacts};
use mainstay_cel::Value as CelValue;
use mainstay_versions::Version;
use serde_json::{Value, json};

use super::Provided;
use super::needs::{self, Api, InvalidConstraint, Need, Subject, Targets};
use crate::request::{CandidateCatalog, CatalogState};
use crate::resolve::Choice;

/// The number of a bundle in the pool.
pub(crate) type ItemId = usize;
/// The number of a need; equal needs of different bundles are one.
pub(crate) type NeedId = usize;

/// The known bundles, with their needs.
pub(crate) struct Pool<'a> {
    catalogs: &'a [CandidateCatalog<'a>],
    items: Vec<Item<'a>>,
    /// By package: the bundles of all catalogs.
    packages: BTreeMap<String, Vec<ItemId>>,
    /// The first item of a package of a catalog.
    first: HashMap<(usize, String), ItemId>,
    everything: bool,
    needs: Vec<Need>,
    /// The needs in a property, by its type and text.
    read: HashMap<(&'a str, &'a str), Result<Vec<NeedId>, InvalidConstraint>>,
    apis: HashMap<&'a str, Option<Api>>,
    /// The bundles that meet a need, among those read so far.
    meeting: HashMap<NeedId, Vec<ItemId>>,
    /// Existing things that are not bundles.
    outside: Vec<ItemId>,
    /// Items that come from no catalog.
    strangers: Vec<ItemId>,
    /// The items that provide an API.
    providers: HashMap<Api, Vec<ItemId>>,
}

/// A bundle, or something else that provides APIs.
pub(crate) struct Item<'a> {
    /// The position of its catalog; `None` if it comes from none.
    pub(crate) catalog: Option<usize>,
    pub(crate) package: String,
    pub(crate) facts: BundleFacts<'a>,
    pub(crate) version: Option<Version>,
    pub(crate) label: String,
    pub(crate) provides: Vec<Api>,
    /// Its place in the package's channels, which orders additions.
    pub(crate) place: Place,
    properties: OnceCell<CelValue>,
}

/// The place of a bundle in its package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// In the default channel, where no other bundle updates it.
    DefaultHead,
    /// In the default channel, but not its head.
    Default,
    /// In another channel.
    Channel,
    /// In no channel.
    Nowhere,
}

impl Subject for Item<'_> {
    fn package(&self) -> &str {
        &self.package
    }

    fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    fn provides(&self, api: &Api) -> bool {
        self.provides.contains(api)
    }

    fn properties(&self) -> CelValue {
        let value = || {
            if self.catalog.is_none() {
                let apis = self.provides.iter();
                let value = |api: &Api| json!({"group": api.group, "version": api.version, "kind": api.kind});
                return needs::properties(apis.map(|api| ("olm.gvk", value(api))));
            }
            // A value that is not JSON was refused by validation; here it is null and meets nothing.
            let value = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
            needs::properties(self.facts.properties.iter().map(|property| (property.kind, value(property.value))))
        };
        self.properties.get_or_init(value).clone()
    }
}

impl<'a> Pool<'a> {
    pub(crate) fn new(catalogs: &'a [CandidateCatalog<'a>], provided: &[Provided]) -> Self {
        let mut pool = Self {
            catalogs,
            items: Vec::new(),
            packages: BTreeMap::new(),
            first: HashMap::new(),
            everything: false,
            needs: Vec::new(),
            read: HashMap::new(),
            apis: HashMap::new(),
            meeting: HashMap::new(),
            outside: Vec::new(),
            strangers: Vec::new(),
            providers: HashMap::new(),
        };
        let mut by: BTreeMap<&str, Vec<Api>> = BTreeMap::new();
        for api in provided {
            let of = Api { group: api.group.clone(), version: api.version.clone(), kind: api.kind.clone() };
            by.entry(&api.by).or_default().push(of);
        }
        for (by, provides) in by {
            let item = pool.stranger(String::new(), None, by.to_owned(), provides);
            pool.outside.push(item);
        }
        pool
    }

    /// Adds an item that comes from no catalog.
    pub(crate) fn stranger(&mut self, package: String, version: Option<Version>, label: String, provides: Vec<Api>) -> ItemId {
        let facts = BundleFacts::default();
        let place = Place::Nowhere;
        self.meeting.clear();
        let id = self.items.len();
        self.strangers.push(id);
        for api in &provides {
            self.providers.entry(api.clone()).or_default().push(id);
        }
        self.items.push(Item { catalog: None, package, facts, version, label, provides, place, properties: OnceCell::new() });
        id
    }

    pub(crate) fn item(&self, id: ItemId) -> &Item<'a> {
        &self.items[id]
    }

    pub(crate) fn need(&self, id: NeedId) -> &Need {
        &self.needs[id]
    }

    /// The items that exist besides all bundles.
    pub(crate) fn outside(&self) -> &[ItemId] {
        &self.outside
    }

    /// Returns whether a catalog has a package.
    pub(crate) fn has(&self, package: &str) -> bool {
        self.packages.get(package).is_some_and(|items| !items.is_empty())
    }

    /// The versions of a package that are in a channel, in order, each once.
    pub(crate) fn versions(&self, package: &str) -> Vec<&'a str> {
        let items = self.packages.get(package).into_iter().flatten().map(|id| &self.items[*id]);
        let items = items.filter(|item| item.place != Place::Nowhere);
        let mut found: Vec<(&Version, &'a str)> = items.filter_map(|item| Some((item.version.as_ref()?, item.facts.version?))).collect();
        found.sort();
        found.dedup();
        found.into_iter().map(|(_, text)| text).collect()
    }

    pub(crate) fn priority(&self, id: ItemId) -> i32 {
        self.items[id].catalog.map_or(0, |catalog| self.catalogs[catalog].priority)
    }

    pub(crate) fn catalog_name(&self, id: ItemId) -> &'a str {
        self.items[id].catalog.map_or("", |catalog| self.catalogs[catalog].name)
    }

    pub(crate) fn choice(&self, id: ItemId) -> Choice {
        let item = &self.items[id];
        Choice {
            catalog: self.catalog_name(id).to_owned(),
            package: item.package.clone(),
            bundle: item.facts.name.to_owned(),
            version: item.facts.version.unwrap_or_default().to_owned(),
            image: item.facts.image.to_owned(),
        }
    }

    /// The bundles of a package in all catalogs.
    pub(crate) fn package(&mut self, name: &str) -> &[ItemId] {
        if !self.packages.contains_key(name) {
            let mut all = Vec::new();
            for (catalog, candidate) in self.catalogs.iter().enumerate() {
                let CatalogState::Content(source) = candidate.state else { continue };
                let Some(facts) = source.package(name) else { continue };
                self.first.insert((catalog, name.to_owned()), self.items.len());
                all.extend(self.take(catalog, name, facts));
            }
            self.packages.insert(name.to_owned(), all);
            // Earlier results cover fewer bundles.
            self.meeting.clear();
        }
        &self.packages[name]
    }

    /// The bundle at `position` in a package of a catalog, by the catalog's name.
    pub(crate) fn at(&mut self, catalog: &str, package: &str, position: usize) -> Option<ItemId> {
        self.package(package);
        let catalog = self.catalogs.iter().position(|candidate| candidate.name == catalog)?;
        Some(self.first.get(&(catalog, package.to_owned()))? + position)
    }

    fn take(&mut self, catalog: usize, package: &str, facts: PackageFacts<'a>) -> std::ops::Range<ItemId> {
        let begin = self.items.len();
        let PackageFacts { default_channel, channels, bundles, .. } = facts;
        let mut listed: BTreeSet<&str> = BTreeSet::new();
        let (mut default, mut below): (BTreeSet<&str>, BTreeSet<&str>) = Default::default();
        for channel in &channels {
            listed.extend(channel.entries.iter().map(|entry| entry.name));
            if Some(channel.name) == default_channel {
                default.extend(channel.entries.iter().map(|entry| entry.name));
                below.extend(channel.entries.iter().flat_map(|entry| entry.skips.iter().copied().chain(entry.replaces)));
            }
        }
        for facts in bundles {
            let provided = facts.properties.iter().filter(|property| property.kind == "olm.gvk");
            let mut provides: Vec<Api> = Vec::new();
            for property in provided {
                // A value of another shape names no API; validation refuses it.
                let api = self.apis.entry(property.value).or_insert_with(|| serde_json::from_str(property.value).ok());
                provides.extend(api.clone());
            }
            provides.sort_unstable();
            provides.dedup();
            let place = match facts.name {
                name if default.contains(name) && !below.contains(name) => Place::DefaultHead,
                name if default.contains(name) => Place::Default,
                name if listed.contains(name) => Place::Channel,
                _ => Place::Nowhere,
            };
            let version = facts.version.and_then(|version| Version::parse(version).ok());
            let label = format!("{package} {}", facts.version.unwrap_or(facts.name));
            let package = package.to_owned();
            let properties = OnceCell::new();
            for api in &provides {
                self.providers.entry(api.clone()).or_default().push(self.items.len());
            }
            self.items.push(Item { catalog: Some(catalog), package, facts, version, label, provides, place, properties });
        }
        begin..self.items.len()
    }

    /// The needs of a bundle, and the reasons why some properties cannot be read.
    pub(crate) fn needs_of(&mut self, id: ItemId) -> (Vec<NeedId>, Vec<String>) {
        let (mut found, mut wrong) = (Vec::new(), Vec::new());
        for at in 0..self.items[id].facts.properties.len() {
            let property = self.items[id].facts.properties[at];
            if !matches!(property.kind, "olm.package.required" | "olm.gvk.required" | "olm.constraint") {
                continue;
            }
            let needs = &mut self.needs;
            let read = self.read.entry((property.kind, property.value)).or_insert_with(|| {
                let read = needs::read(property)?;
                let first = needs.len();
                needs.extend(read);
                Ok((first..needs.len()).collect())
            });
            match read {
                Ok(ids) => found.extend(ids.iter().copied()),
                Err(reason) => wrong.push(reason.to_string()),
            }
        }
        found.sort_unstable();
        found.dedup();
        wrong.dedup();
        (found, wrong)
    }

    /// Reads every package in which something may meet a need, if `anywhere` allows packages to be read for that.
    pub(crate) fn look_for(&mut self, need: NeedId, anywhere: bool) {
        if !anywhere {
            return;
        }
        let mut targets = Targets::default();
        self.needs[need].rule.targets(&mut targets);
        let mut names: BTreeSet<String> = targets.packages.iter().map(|name| (*name).to_owned()).collect();
        let sources = || {
            self.catalogs.iter().filter_map(|catalog| match catalog.state {
                CatalogState::Content(source) => Some(source),
                _ => None,
            })
        };
        for source in sources() {
            for api in &targets.apis {
                names.extend(source.providers(&api.group, &api.version, &api.kind).into_iter().map(str::to_owned));
            }
            if targets.anything && !self.everything {
                names.extend(source.package_names().into_iter().map(str::to_owned));
            }
        }
        self.everything |= targets.anything;
        for name in names {
            self.package(&name);
        }
    }

    /// The items read so far that meet a need: bundles, and others besides; in the order of the packages.
    pub(crate) fn meeting(&mut self, need: NeedId) -> Vec<ItemId> {
        if let Some(found) = self.meeting.get(&need) {
            return found.clone();
        }
        let rule = &self.needs[need].rule;
        let mut targets = Targets::default();
        rule.targets(&mut targets);
        let mut candidates: Vec<ItemId> = if targets.anything {
            (0..self.items.len()).collect()
        } else {
            targets.packages.sort_unstable();
            targets.packages.dedup();
            let listed = targets.packages.iter().filter_map(|name| self.packages.get(*name)).flatten();
            let providers = targets.apis.iter().filter_map(|api| self.providers.get(*api)).flatten();
            let strangers = self.strangers.iter().filter(|_| !targets.packages.is_empty());
            listed.chain(strangers).chain(providers).copied().collect()
        };
        if !targets.apis.is_empty() {
            candidates.sort_unstable();
            candidates.dedup();
        }
        let found: Vec<ItemId> = candidates.into_iter().filter(|id| rule.holds(&self.items[*id])).collect();
        self.meeting.insert(need, found.clone());
        found
    }
}
