//! Small universes as text: catalogs, what is there, what is wanted.
//!
//! ```text
//! catalog main priority=10 tier=gold            labels are key=value; `unavailable`, `not-serving` and `failed="why"` are states
//!   default app stable                          the default channel of a package; else the first channel that is named
//!   deprecated app / deprecated app @stable     a package, a channel
//!   app 1.2.0 @stable @fast replaces=1.1.0 skips=1.0.0,1.0.1 range=">=1.0.0 <1.2.0" deprecated
//!       provides=Foo.g/v1 package=b:">=2.0.0" api=Foo.g/v1 constraint={"cel":{"rule":"true"}} property=certified:true
//! provided Foo.g/v1 by="crd foos.g"
//! add-missing
//! root a app version=">=1" channels=stable,fast installed=1.1.0 self-certified tier=gold not:tier=silver why
//! ```
//!
//! Versions stand for bundles `app.v<version>`.

use std::collections::BTreeMap;

use mainstay_catalog::{
    Bundle, BundleName, Catalog, Channel, ChannelName, Deprecation, Deprecations, Entry, Package, PackageName, Property, Reference,
};
use mainstay_objects::{LabelSelector, SelectorRequirement};
use mainstay_resolver::joint::{Problem, Provided, Root};
use mainstay_resolver::{CandidateCatalog, CatalogState, InstalledBundle, ModelSource, Request, UpgradeConstraintPolicy};
use serde_json::{Value, json};

pub const NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";

/// A universe that was read.
#[derive(Default)]
pub struct World {
    pub catalogs: Vec<GivenCatalog>,
    pub provided: Vec<Provided>,
    pub roots: Vec<Root>,
    /// Positions of the roots of which it is asked why nothing newer is there.
    pub why: Vec<usize>,
    pub add_missing: bool,
}

pub struct GivenCatalog {
    name: String,
    labels: BTreeMap<String, String>,
    priority: i32,
    state: State,
    source: ModelSource,
}

#[derive(Clone, PartialEq)]
enum State {
    Serving,
    Unavailable,
    NotServing,
    Failed(String),
}

impl World {
    pub fn read(text: &str) -> Self {
        let mut world = Self::default();
        let mut open: Option<(Vec<String>, Vec<Vec<String>>)> = None;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words = words(line);
            match words[0].as_str() {
                "catalog" => {
                    world.close(open.take());
                    open = Some((words, Vec::new()));
                }
                "provided" => world.provided.push(provided(&words)),
                "add-missing" => world.add_missing = true,
                "root" => world.root(&words),
                _ => open.as_mut().unwrap_or_else(|| panic!("{line:?} is in no catalog")).1.push(words),
            }
        }
        world.close(open);
        world
    }

    fn close(&mut self, open: Option<(Vec<String>, Vec<Vec<String>>)>) {
        let Some((head, lines)) = open else { return };
        let mut catalog = GivenCatalog {
            name: head[1].clone(),
            labels: BTreeMap::from([(NAME_LABEL.to_owned(), head[1].clone())]),
            priority: 0,
            state: State::Serving,
            source: ModelSource::new(catalog(&lines)),
        };
        for word in &head[2..] {
            match word.split_once('=') {
                Some(("priority", number)) => catalog.priority = number.parse().unwrap(),
                Some(("failed", why)) => catalog.state = State::Failed(why.to_owned()),
                Some((key, value)) => {
                    catalog.labels.insert(key.to_owned(), value.to_owned());
                }
                None if word == "unavailable" => catalog.state = State::Unavailable,
                None if word == "not-serving" => catalog.state = State::NotServing,
                None => panic!("{word:?} says nothing about a catalog"),
            }
        }
        self.catalogs.push(catalog);
    }

    fn root(&mut self, words: &[String]) {
        let mut request = Request { package: words[2].clone(), ..Request::default() };
        let mut selector = LabelSelector::default();
        for word in &words[3..] {
            match word.split_once('=') {
                Some(("version", range)) => request.version = Some(range.to_owned()),
                Some(("channels", list)) => request.channels = list.split(',').map(str::to_owned).collect(),
                Some(("installed", version)) => {
                    request.installed = Some(InstalledBundle { name: format!("{}.v{version}", words[2]), version: version.to_owned() });
                }
                Some((key, value)) if key.starts_with("not:") => selector.match_expressions.push(SelectorRequirement {
                    key: key["not:".len()..].to_owned(),
                    operator: "NotIn".to_owned(),
                    values: value.split(',').map(str::to_owned).collect(),
                }),
                Some((key, value)) if key.starts_with("in:") => selector.match_expressions.push(SelectorRequirement {
                    key: key["in:".len()..].to_owned(),
                    operator: "In".to_owned(),
                    values: value.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect(),
                }),
                Some(("catalog", name)) => {
                    selector.match_labels.insert(NAME_LABEL.to_owned(), name.to_owned());
                }
                Some((key, value)) => {
                    selector.match_labels.insert(key.to_owned(), value.to_owned());
                }
                None if word == "self-certified" => request.policy = UpgradeConstraintPolicy::SelfCertified,
                None if word == "why" => self.why.push(self.roots.len()),
                None if word.starts_with("has:") || word.starts_with("without:") => {
                    let (operator, key) = word.split_once(':').unwrap();
                    let operator = if operator == "has" { "Exists" } else { "DoesNotExist" };
                    let requirement = SelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values: Vec::new() };
                    selector.match_expressions.push(requirement);
                }
                None => panic!("{word:?} says nothing about a root"),
            }
        }
        request.selector = (!selector.is_empty()).then_some(selector);
        self.roots.push(Root { subject: format!("clusterextension {}", words[1]), request });
    }

    pub fn candidates(&self) -> Vec<CandidateCatalog<'_>> {
        let mut all = Vec::new();
        for catalog in &self.catalogs {
            let state = match &catalog.state {
                State::Serving => CatalogState::Content(&catalog.source),
                State::Unavailable => CatalogState::Unavailable,
                State::NotServing => CatalogState::NotServing,
                State::Failed(why) => CatalogState::Failed(why),
            };
            all.push(CandidateCatalog { name: &catalog.name, labels: &catalog.labels, priority: catalog.priority, state });
        }
        all
    }

    pub fn problem<'w>(&'w self, catalogs: &'w [CandidateCatalog<'w>]) -> Problem<'w> {
        Problem { roots: &self.roots, catalogs, provided: &self.provided, add_missing: self.add_missing, about: None }
    }
}

/// Words of a line; blanks inside of quotes or braces belong to the word, quotes outside of braces fall away.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut depth) = (Vec::new(), String::new(), false, 0);
    for letter in line.chars() {
        match letter {
            '"' if depth == 0 => quoted = !quoted,
            '{' => depth += 1,
            '}' => depth -= 1,
            ' ' if !quoted && depth == 0 => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            _ => {}
        }
        if letter != '"' || depth > 0 {
            word.push(letter);
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// `Kind.group/version`.
fn api(text: &str) -> (String, String, String) {
    let (kind, rest) = text.split_once('.').unwrap();
    let (group, version) = rest.split_once('/').unwrap();
    (group.to_owned(), version.to_owned(), kind.to_owned())
}

fn api_value(text: &str) -> Value {
    let (group, version, kind) = api(text);
    json!({"group": group, "version": version, "kind": kind})
}

fn provided(words: &[String]) -> Provided {
    let (group, version, kind) = api(&words[1]);
    Provided { group, version, kind, by: words[2].strip_prefix("by=").unwrap().to_owned() }
}

fn catalog(lines: &[Vec<String>]) -> Catalog {
    let mut catalog = Catalog::default();
    let mut deprecations: BTreeMap<String, Vec<Deprecation>> = BTreeMap::new();
    let mut deprecate = |package: &str, schema: &str, name: &str| {
        let reference = Reference { schema: schema.into(), name: name.into() };
        deprecations.entry(package.to_owned()).or_default().push(Deprecation { reference, message: format!("{name} is old") });
    };
    let mut defaults: BTreeMap<&str, &str> = BTreeMap::new();
    for words in lines {
        match words[0].as_str() {
            "default" => {
                defaults.insert(&words[1], &words[2]);
            }
            "deprecated" => match words.get(2) {
                Some(channel) => deprecate(&words[1], "olm.channel", channel.trim_start_matches('@')),
                None => deprecate(&words[1], "olm.package", ""),
            },
            package => add_bundle(&mut catalog, package, &words[1..], &mut deprecate),
        }
    }
    let mut packages: Vec<PackageName> = catalog.bundles.iter().map(|bundle| bundle.package.clone()).collect();
    packages.sort();
    packages.dedup();
    for name in packages {
        let first = catalog.channels.iter().find(|channel| channel.package == name).map_or("", |channel| channel.name.as_str());
        let default = ChannelName::new(defaults.get(name.as_str()).copied().unwrap_or(first));
        catalog.packages.push(Package { name, default_channel: default, ..Package::default() });
    }
    for (package, entries) in deprecations {
        catalog.deprecations.push(Deprecations { package: PackageName::new(package), entries });
    }
    catalog
}

fn add_bundle(catalog: &mut Catalog, package: &str, words: &[String], deprecate: &mut dyn FnMut(&str, &str, &str)) {
    let name = |version: &str| BundleName::new(format!("{package}.v{version}"));
    let version = words[0].as_str();
    let mut bundle =
        Bundle { package: PackageName::new(package), name: name(version), image: format!("q.io/{package}:{version}"), ..Bundle::default() };
    let mut property = |kind: &str, value: &Value| bundle.properties.push(Property::new(kind, value).unwrap());
    property("olm.package", &json!({"packageName": package, "version": version}));
    let mut entry = Entry { name: name(version), ..Entry::default() };
    let mut channels = Vec::new();
    for word in &words[1..] {
        match word.split_once('=') {
            Some(("replaces", replaced)) => entry.replaces = Some(name(replaced)),
            Some(("skips", skipped)) => entry.skips = skipped.split(',').map(name).collect(),
            Some(("range", range)) => entry.skip_range = Some(range.to_owned()),
            Some(("provides", text)) => property("olm.gvk", &api_value(text)),
            Some(("api", text)) => property("olm.gvk.required", &api_value(text)),
            Some(("package", text)) => {
                let (name, range) = text.split_once(':').unwrap();
                property("olm.package.required", &json!({"packageName": name, "versionRange": range}));
            }
            Some(("constraint", text)) => property("olm.constraint", &serde_json::from_str(text).unwrap()),
            Some(("property", text)) => {
                let (kind, value) = text.split_once(':').unwrap();
                property(kind, &json!(value));
            }
            None if word == "deprecated" => deprecate(package, "olm.bundle", name(version).as_str()),
            None if word.starts_with('@') => channels.push(word[1..].to_owned()),
            _ => panic!("{word:?} says nothing about a bundle"),
        }
    }
    for channel in channels {
        let same = |c: &&mut Channel| c.package.as_str() == package && c.name.as_str() == channel;
        match catalog.channels.iter_mut().find(same) {
            Some(found) => found.entries.push(entry.clone()),
            None => catalog.channels.push(Channel {
                package: PackageName::new(package),
                name: ChannelName::new(channel),
                entries: vec![entry.clone()],
                properties: Vec::new(),
            }),
        }
    }
    catalog.bundles.push(bundle);
}
