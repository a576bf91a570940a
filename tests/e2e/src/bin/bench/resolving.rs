//! Resolution by itself, in this process: one package of a large catalog, and many that need each other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use mainstay_catalog::{Index, Limits, MemorySource};
use mainstay_catalog_store::{CatalogDigest, CatalogStore, DirectorySource, StoredCatalog};
use mainstay_olm_classic::catalog::resolver_content;
use mainstay_olm_classic_core::resolve::{Catalog, OperatorGroup, Snapshot, Subscription, resolve_components};
use mainstay_olm_classic_core::source::SourceKey;
use mainstay_resolver::joint::{Problem, Root, solve};
use mainstay_resolver::{CandidateCatalog, CatalogState, InstalledBundle, Request, resolve};
use serde_json::json;

use super::{Bench, ROUNDS, catalogs, median, time};

/// Packages that need each other.
const PACKAGES: usize = 50;
/// Versions of each of them.
const VERSIONS: usize = 8;

impl Bench {
    /// OLM1-SEL-06, MS-EXPL-01.
    pub fn resolving(&mut self) -> anyhow::Result<()> {
        self.one_of_many()?;
        self.together()?;
        self.namespace()
    }

    fn one_of_many(&mut self) -> anyhow::Result<()> {
        let Some(recorded) = mainstay_testing::data::path("catalog-60.json.gz") else { return Ok(()) };
        let folder = tempfile::tempdir()?;
        let bundles = catalogs::make(&recorded, folder.path())?;
        let digest: CatalogDigest = format!("sha256:{}", "0".repeat(64)).parse()?;
        let store = CatalogStore::open(&folder.path().join("store"))?;
        let stored: StoredCatalog = store.put(&digest, &DirectorySource::of_user(&folder.path().join("one"))?, &Limits::default())?;
        let packages: Vec<String> = stored.index().packages().map(|package| package.name().to_owned()).collect();
        let labels = BTreeMap::new();
        let catalog = [CandidateCatalog { name: "all", labels: &labels, priority: 0, state: CatalogState::Content(stored.index()) }];
        let mut slowest = std::time::Duration::ZERO;
        let mut whole = median(ROUNDS, || {
            let begun = Instant::now();
            for package in &packages {
                let one = Instant::now();
                let request = Request { package: package.clone(), ..Request::default() };
                // A package whose newest bundle has dependencies is refused, which is an answer too.
                std::hint::black_box(resolve(&request, &catalog)).ok();
                slowest = slowest.max(one.elapsed());
            }
            Ok(begun.elapsed())
        })?;
        whole /= u32::try_from(packages.len())?;
        self.add(time(&format!("resolve one package of a catalog of {bundles} bundles: mean of all packages"), whole, "2 ms", 2));
        self.add(time("the slowest of them", slowest, "20 ms", 20));
        Ok(())
    }

    /// OLM0-RES-01, OLM0-RES-32: the Subscriptions of one namespace, each to a package of a large catalog.
    fn namespace(&mut self) -> anyhow::Result<()> {
        let Some(recorded) = mainstay_testing::data::path("catalog-60.json.gz") else { return Ok(()) };
        let folder = tempfile::tempdir()?;
        catalogs::make(&recorded, folder.path())?;
        let digest: CatalogDigest = format!("sha256:{}", "0".repeat(64)).parse()?;
        let store = CatalogStore::open(&folder.path().join("store"))?;
        let stored: StoredCatalog = store.put(&digest, &DirectorySource::of_user(&folder.path().join("one"))?, &Limits::default())?;
        let content = resolver_content(&stored)?;
        let key = SourceKey { name: "all".to_owned(), namespace: "catalogs".to_owned() };
        let mut snapshot = Snapshot {
            namespace: "team".to_owned(),
            global_namespace: key.namespace.clone(),
            operator_groups: vec![OperatorGroup::default()],
            catalogs: vec![Catalog { key: key.clone(), priority: 0, content: Ok(Arc::new(content)) }],
            csvs: Vec::new(),
            subscriptions: Vec::new(),
        };
        let subscription = |name: String| Subscription { package: name.clone(), name, catalog: key.clone(), ..Subscription::default() };
        let mut refused = Vec::new();
        // Packages that need what this catalog does not have, or own what another one owns, are no load: they fail at once.
        for package in stored.index().packages() {
            if snapshot.subscriptions.len() == PACKAGES {
                break;
            }
            snapshot.subscriptions.push(subscription(package.name().to_owned()));
            if let Some(error) = resolve_components(&snapshot).into_iter().find_map(|component| component.outcome.err()) {
                refused.push(format!("{}: {error}", package.name()));
                snapshot.subscriptions.pop();
            }
        }
        let count = snapshot.subscriptions.len();
        anyhow::ensure!(
            count == PACKAGES,
            "{count} packages of {} resolve: {:#?}",
            count + refused.len(),
            &refused[..refused.len().min(3)]
        );
        let took = median(ROUNDS, || {
            let begun = Instant::now();
            std::hint::black_box(resolve_components(&snapshot));
            Ok(begun.elapsed())
        })?;
        self.add(time(&format!("resolve {count} Subscriptions of one namespace, as OLM classic does"), took, "50 ms", 50));
        Ok(())
    }

    fn together(&mut self) -> anyhow::Result<()> {
        let index = interdependent()?;
        let labels = BTreeMap::new();
        let catalogs = [CandidateCatalog { name: "all", labels: &labels, priority: 0, state: CatalogState::Content(&index) }];
        let roots: Vec<Root> = (0..PACKAGES)
            .map(|number| Root {
                subject: format!("clusterextension {}", name(number)),
                request: Request {
                    package: name(number),
                    installed: Some(InstalledBundle { name: format!("{}.v1.0.0", name(number)), version: "1.0.0".to_owned() }),
                    ..Request::default()
                },
            })
            .collect();
        let problem = Problem { roots: &roots, catalogs: &catalogs, provided: &[], add_missing: false, about: None };
        let took = median(ROUNDS, || {
            let begun = Instant::now();
            let components = solve(&problem);
            let took = begun.elapsed();
            let [component] = components.as_slice() else { bail!("{} components", components.len()) };
            let solution = component.outcome.as_ref().map_err(|conflict| anyhow::anyhow!("{conflict}"))?;
            let newest = solution.chosen.values().filter(|resolution| resolution.choice.version == "2.0.0").count();
            anyhow::ensure!(newest == PACKAGES, "{newest} of {PACKAGES} go to the version that all have");
            Ok(took)
        })?;
        self.add(time(&format!("resolve {PACKAGES} extensions that need each other, {VERSIONS} versions each"), took, "50 ms", 50));
        Ok(())
    }
}

fn name(number: usize) -> String {
    format!("part-{number:02}")
}

/// A ring: each version of a package needs at least the same version of the next one. The last package has the newest versions no more,
/// so that all have to make do with an older one.
fn interdependent() -> anyhow::Result<Index<Vec<u8>>> {
    let mut text = String::new();
    for number in 0..PACKAGES {
        let package = name(number);
        let count = if number + 1 == PACKAGES { 2 } else { VERSIONS };
        let bundle = |version: usize| format!("{package}.v{version}.0.0");
        let skips = |version: usize| (1..version).map(bundle).collect::<Vec<_>>();
        let entries: Vec<_> = (1..=count).map(|version| json!({"name": bundle(version), "skips": skips(version)})).collect();
        let blobs = [
            json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
            json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}),
        ];
        let bundles = (1..=count).map(|version| {
            let next = name((number + 1) % PACKAGES);
            json!({"schema": "olm.bundle", "package": package, "name": bundle(version), "image": format!("example.com/{package}:{version}"),
            "properties": [
                {"type": "olm.package", "value": {"packageName": package, "version": format!("{version}.0.0")}},
                {"type": "olm.package.required", "value": {"packageName": next, "versionRange": format!(">={version}.0.0")}},
            ]})
        });
        for blob in blobs.into_iter().chain(bundles) {
            writeln!(text, "{blob}")?;
        }
    }
    let mut content = Vec::new();
    let index = mainstay_catalog::store(&MemorySource::of("all.json", text.into_bytes()), &Limits::default(), &mut content)?;
    Index::open(index, content.len() as u64).context("the index cannot be read")
}
