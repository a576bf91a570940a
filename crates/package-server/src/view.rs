//! The packages that a user sees: those of a namespace's own sources and of the global catalog namespace (OLM0-API-27, OLM0-TENANT-08).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use mainstay_apiserver::selector::FieldSelector;
use mainstay_catalog_store::StoredCatalog;
use mainstay_objects::Requirements;

use crate::manifest::{Manifest, SourceFacts};
use crate::packages::{Package, Packages};

/// A source with its packages.
#[derive(Clone, Debug)]
pub struct Source {
    /// The facts about it.
    pub facts: SourceFacts,
    /// Its packages.
    pub packages: Arc<Packages>,
    /// Its content, for pictures.
    pub catalog: StoredCatalog,
}

/// All sources that have content, at one time.
#[derive(Debug, Default)]
pub struct Snapshot {
    sources: Vec<Source>,
}

/// A package in a snapshot, by position.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    source: usize,
    package: usize,
}

impl Snapshot {
    /// Makes a snapshot of sources.
    pub fn new(sources: Vec<Source>) -> Self {
        Self { sources }
    }

    /// Returns the sources.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Returns the sources that a namespace sees; all of them without a namespace.
    fn visible<'a>(&'a self, namespace: Option<&'a str>, global: &'a str) -> impl Iterator<Item = (usize, &'a Source)> {
        let seen = move |source: &Source| namespace.is_none_or(|namespace| [namespace, global].contains(&source.facts.namespace.as_str()));
        self.sources.iter().enumerate().filter(move |(_, source)| seen(source))
    }

    /// Finds the packages that a namespace sees and that the selectors select: by name, then by preference.
    pub fn list(&self, namespace: Option<&str>, global: &str, labels: &Requirements, fields: &FieldSelector) -> Vec<Place> {
        let mut found = Vec::new();
        for (source, held) in self.visible(namespace, global) {
            let seen_in = namespace.unwrap_or(&held.facts.namespace);
            for (package, one) in held.packages.all().iter().enumerate() {
                let read = |field: &str| match field {
                    "metadata.name" => one.name.clone(),
                    "metadata.namespace" => seen_in.to_owned(),
                    _ => String::new(),
                };
                let manifest = Manifest { source: &held.facts, package: one, namespace: seen_in };
                if fields.matches(read) && (labels.is_empty() || labels.matches(&manifest.labels())) {
                    found.push(Place { source, package });
                }
            }
        }
        found.sort_by_key(|place| self.order(*place));
        found
    }

    /// Finds a package by name: that of the source with the highest priority, then the first by name (OLM0-API-30).
    pub fn get<'a>(&'a self, namespace: &'a str, global: &'a str, name: &str) -> Option<(&'a Source, &'a Package)> {
        let carrying = self.visible(Some(namespace), global).filter_map(|(_, source)| Some((source, source.packages.get(name)?)));
        carrying.min_by_key(|(source, _)| preference(&source.facts))
    }

    /// Returns the manifest at a place, as it is seen in a namespace, or in its own without one.
    pub fn manifest<'a>(&'a self, place: Place, namespace: Option<&'a str>) -> Option<Manifest<'a>> {
        let source = self.sources.get(place.source)?;
        let package = source.packages.all().get(place.package)?;
        Some(Manifest { source: &source.facts, package, namespace: namespace.unwrap_or(&source.facts.namespace) })
    }

    fn order(&self, place: Place) -> Option<(&str, Preference<'_>)> {
        let source = self.sources.get(place.source)?;
        Some((source.packages.all().get(place.package)?.name.as_str(), preference(&source.facts)))
    }
}

type Preference<'a> = (Reverse<i64>, &'a str, &'a str);

fn preference(facts: &SourceFacts) -> Preference<'_> {
    (Reverse(facts.priority), &facts.name, &facts.namespace)
}

/// The snapshot that is served now. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct View(Arc<RwLock<Arc<Snapshot>>>);

impl View {
    /// Returns the snapshot.
    pub fn now(&self) -> Arc<Snapshot> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves another snapshot from now on.
    pub fn set(&self, snapshot: Snapshot) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
    }
}

/// Packages by the digest of their content, so that each content is read once.
#[derive(Debug, Default)]
pub struct Read(HashMap<String, Arc<Packages>>);

impl Read {
    /// Returns the packages of a catalog, if it was read.
    pub fn get(&self, catalog: &StoredCatalog) -> Option<Arc<Packages>> {
        self.0.get(&catalog.digest().to_string()).cloned()
    }

    /// Keeps the packages of a catalog.
    pub fn keep(&mut self, catalog: &StoredCatalog, packages: Arc<Packages>) {
        self.0.insert(catalog.digest().to_string(), packages);
    }

    /// Forgets what none of these catalogs is.
    pub fn retain<'a>(&mut self, catalogs: impl Iterator<Item = &'a StoredCatalog>) {
        let digests: std::collections::HashSet<String> = catalogs.map(|catalog| catalog.digest().to_string()).collect();
        self.0.retain(|digest, _| digests.contains(digest));
    }
}
