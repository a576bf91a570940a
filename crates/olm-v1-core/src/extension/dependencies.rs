//! Extensions that need each other (OLM1-INST-04, MS-EXPL-05).
//!
//! ```text
//!   own request, requests of others ──joint──► a bundle each ──┬── not requested by any extension: part of the plan, approved with it
//!   unmanaged APIs ────────────────┘                           └── not installed yet by other extensions: waited for
//! ```
//!
//! Every extension computes the same answer from the same facts, so they need not exchange it. A request that cannot be met fails for its own
//! extension alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_core::ResourceExt;
use mainstay_api::lifecycle::{BundleRef, ResolveDependencies};
use mainstay_api::olm_v1::{ClusterExtension, NAME_LABEL};
use mainstay_lifecycle::approval::AdditionalBundle;
use mainstay_lifecycle::removal::Dependent;
use mainstay_lifecycle::revision::History;
use mainstay_objects::LabelSelector;
use mainstay_resolver::joint::{Added, Conflict, Problem, Provided, Root, Solution, solve};
use mainstay_resolver::{CandidateCatalog, CatalogState, Choice, InstalledBundle, Request, Resolution, UpgradeConstraintPolicy};

use super::approval::made_for;
use super::facts::{Lifecycle, Snapshot};
use super::request::{candidates, request};
use super::ruling;

/// An API of the cluster, and the extension that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiFact {
    /// The API.
    pub provided: Provided,
    /// The extension that its CRD belongs to.
    pub extension: Option<String>,
}

/// The result of the joint resolution for one extension.
#[derive(Clone, Debug, Default)]
pub struct Dependencies {
    /// Bundles that it needs and that no extension requests yet, dependencies first.
    pub missing: Vec<AdditionalBundle>,
    /// Bundles that other extensions have to install first: `gadgets.v2.0.0 of clusterextension gadgets`.
    pub waits: Vec<String>,
    /// The bundle of every other extension, by package.
    pub others: BTreeMap<String, String>,
}

impl Dependencies {
    /// The bundles that no extension requests yet.
    pub fn bundles(&self) -> Vec<BundleRef> {
        self.missing.iter().map(|additional| additional.bundle.clone()).collect()
    }
}

/// Causes for which the joint resolution gives the extension no bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsolved {
    /// Facts contradict each other.
    #[error("{0}")]
    Conflict(Box<Conflict>),
    /// The resolution left the extension out.
    #[error("{0}: the joint resolution gave no answer")]
    NoAnswer(String),
    /// The answer holds no bundle for the extension.
    #[error("{0}: the joint resolution gave it no bundle")]
    NoBundle(String),
}

impl Unsolved {
    /// Changes that would work, in words.
    pub fn advice(&self) -> Vec<String> {
        match self {
            Self::Conflict(conflict) => conflict.hints.iter().map(|hint| format!("would work: {hint}")).collect(),
            Self::NoAnswer(_) | Self::NoBundle(_) => Vec::new(),
        }
    }
}

/// Returns true if an extension is resolved together with the others: a policy says so; or the extension was created along with a plan of
/// another one, and no policy refuses it.
pub fn joins(extension: &ClusterExtension, lifecycle: &Lifecycle) -> bool {
    let ruling = ruling(extension, &lifecycle.policies);
    match ruling.dependencies {
        ResolveDependencies::Plan => true,
        ResolveDependencies::Refuse => ruling.dependencies_by.is_empty() && made_for(extension, &lifecycle.plans).is_some(),
    }
}

/// Resolves the extension together with all others.
pub fn together(snapshot: &Snapshot, own: &Request, catalogs: &[CandidateCatalog<'_>]) -> Result<(Resolution, Dependencies), Unsolved> {
    let extension = &*snapshot.extension;
    let peers = Peers::of(snapshot, own);
    let provided = provided(snapshot, catalogs);
    let subject = subject(&extension.name_any());
    let solved = solve(&Problem { roots: &peers.roots, catalogs, provided: &provided, add_missing: true, about: Some(&subject) });
    let mut others = BTreeMap::new();
    for (other, resolution) in solved.iter().filter_map(|component| component.outcome.as_ref().ok()).flat_map(|solution| &solution.chosen) {
        if *other != subject {
            others.insert(resolution.choice.package.clone(), resolution.choice.bundle.clone());
        }
    }
    let Some(component) = solved.into_iter().find(|component| component.subjects.contains(&subject)) else {
        return Err(Unsolved::NoAnswer(subject));
    };
    let solution = component.outcome.map_err(Unsolved::Conflict)?;
    let Some(resolution) = solution.chosen.get(&subject).cloned() else {
        return Err(Unsolved::NoBundle(subject));
    };
    let closure = |choice: &Choice| needed(choice, catalogs, &provided);
    let needs = closure(&resolution.choice);
    let mine = |added: &&Added| needs.as_ref().is_none_or(|needs| needs.contains(&added.choice.package));
    let added: Vec<&Added> = solution.added.iter().filter(mine).collect();
    let dependencies = Dependencies {
        missing: added.iter().map(|added| AdditionalBundle { bundle: bundle_ref(&added.choice), because: added.because.clone() }).collect(),
        waits: waits(&solution, &subject, &resolution.choice, &peers, needs.as_ref(), &closure),
        others,
    };
    Ok((resolution, dependencies))
}

/// The reason why an extension could not be installed even if dependencies were followed.
#[derive(Debug, thiserror::Error)]
pub enum Unsatisfiable {
    /// Nothing is asked for.
    #[error("the extension names no package")]
    NoPackage,
    /// The catalogs have no set of bundles.
    #[error(transparent)]
    Unsolved(Unsolved),
}

/// Checks that the catalogs have a set of bundles with which the extension could be installed if dependencies were followed.
///
/// # Errors
/// There is no such set.
pub fn satisfiable(snapshot: &Snapshot) -> Result<(), Unsatisfiable> {
    let installed = snapshot.history.as_ref().ok().and_then(History::installed);
    let Some(own) = request(&snapshot.extension, installed) else { return Err(Unsatisfiable::NoPackage) };
    together(snapshot, &own, &candidates(&snapshot.catalogs)).map(drop).map_err(Unsatisfiable::Unsolved)
}

/// The needs of a bundle that is refused for its dependencies, and which of them are met, in words (OLM1-INST-04).
pub fn wanting(snapshot: &Snapshot, own: Request, catalogs: &[CandidateCatalog<'_>]) -> Vec<String> {
    let roots = [Root { subject: own.package.clone(), request: own }];
    let solved = solve(&Problem { roots: &roots, catalogs, provided: &[], add_missing: true, about: None });
    let mut lines = Vec::new();
    for component in solved {
        match component.outcome {
            Ok(solution) => {
                for added in &solution.added {
                    let there = there(snapshot, &added.choice);
                    lines.extend(added.because.iter().map(|need| format!("{need}: {there}")));
                }
            }
            Err(conflict) => lines.push(conflict.to_string()),
        }
    }
    lines
}

/// The extension that has installed a package, or the bundle that would do, in words.
fn there(snapshot: &Snapshot, choice: &Choice) -> String {
    let of_package =
        |peer: &&Arc<ClusterExtension>| peer.spec.source.catalog.as_ref().is_some_and(|catalog| catalog.package_name == choice.package);
    let installed = snapshot.known.lifecycle.peers.iter().filter(of_package).find_map(|peer| {
        let bundle = &peer.status.as_ref()?.install.as_ref()?.bundle;
        Some(format!("clusterextension {} has installed {}", peer.name_any(), bundle.version))
    });
    installed.unwrap_or_else(|| format!("not installed; {choice} satisfies it"))
}

/// The command that creates a policy with which a package's dependencies are installed in addition.
pub fn following(package: &str) -> String {
    let policy = serde_json::json!({"apiVersion": "lifecycle.mainstay.dev/v1alpha1", "kind": "LifecyclePolicy", "metadata": {"name": package},
        "spec": {"packages": [package], "resolveDependencies": "Plan"}});
    format!("echo '{policy}' | kubectl apply --server-side -f -")
}

/// The other extensions that depend on an extension: their installed bundles, by their status, need its package or an API that only it
/// provides.
pub fn needed_by(snapshot: &Snapshot) -> Vec<Dependent> {
    let Some(catalog) = &snapshot.extension.spec.source.catalog else { return Vec::new() };
    let own = snapshot.extension.name_any();
    let installed = |peer: &Arc<ClusterExtension>| {
        let bundle = &peer.status.as_ref()?.install.as_ref()?.bundle;
        let package = peer.spec.source.catalog.as_ref()?.package_name.clone();
        let (bundle, version) = (bundle.name.clone(), bundle.version.clone());
        let choice = Choice { catalog: String::new(), package, bundle, version, image: String::new() };
        Some((peer.name_any(), choice))
    };
    let others: Vec<(String, Choice)> =
        snapshot.known.lifecycle.peers.iter().filter(|peer| peer.name_any() != own).filter_map(installed).collect();
    let catalogs = candidates(&snapshot.catalogs);
    dependents(&catalog.package_name, &others, &catalogs, &provided(snapshot, &catalogs))
}

/// The dependents of a package: of the extensions with their installed bundles, those whose bundles need it, directly or through others.
pub fn dependents(
    package: &str,
    installed: &[(String, Choice)],
    catalogs: &[CandidateCatalog<'_>],
    provided: &[Provided],
) -> Vec<Dependent> {
    let left: Vec<&(String, Choice)> = installed.iter().filter(|(_, choice)| choice.package != package).collect();
    let root = |(name, choice): &&(String, Choice)| Root { subject: subject(name), request: pinned(choice) };
    let roots: Vec<Root> = left.iter().map(root).collect();
    let solved = solve(&Problem { roots: &roots, catalogs, provided, add_missing: true, about: None });
    let mut found = Vec::new();
    for (name, _) in left {
        let subject = subject(name);
        let Some(component) = solved.iter().find(|component| component.subjects.contains(&subject)) else { continue };
        let Ok(Solution { chosen, added }) = &component.outcome else { continue };
        let Some(own) = chosen.get(&subject) else { continue };
        let needs = needed(&own.choice, catalogs, provided);
        let missed = added.iter().filter(|added| added.choice.package == package);
        let words: Vec<String> =
            missed.filter(|_| needs.as_ref().is_none_or(|needs| needs.contains(package))).flat_map(|added| added.because.clone()).collect();
        if !words.is_empty() {
            found.push(Dependent { name: name.clone(), needs: words });
        }
    }
    found
}

/// The bundles that other extensions of the same answer have to install first. Extensions that need this one in turn are installed along
/// with it.
fn waits(
    solution: &Solution,
    own: &str,
    choice: &Choice,
    peers: &Peers,
    needs: Option<&BTreeSet<String>>,
    closure: &dyn Fn(&Choice) -> Option<BTreeSet<String>>,
) -> Vec<String> {
    let mut waits = Vec::new();
    for (subject, resolution) in &solution.chosen {
        let other = &resolution.choice;
        let needed = needs.is_some_and(|needs| needs.contains(&other.package));
        if subject == own || !needed || peers.installed.get(subject) == Some(&other.bundle) {
            continue;
        }
        let mutual = closure(other).is_some_and(|needs| needs.contains(&choice.package));
        if !mutual {
            waits.push(format!("{} of {subject}", other.bundle));
        }
    }
    waits
}

/// The packages that a bundle needs, directly or through others; none if that is unknown.
fn needed(choice: &Choice, catalogs: &[CandidateCatalog<'_>], provided: &[Provided]) -> Option<BTreeSet<String>> {
    let roots = [Root { subject: choice.bundle.clone(), request: pinned(choice) }];
    let mut solved = solve(&Problem { roots: &roots, catalogs, provided, add_missing: true, about: None });
    let solution = solved.pop()?.outcome.ok()?;
    Some(solution.added.into_iter().map(|added| added.choice.package).collect())
}

/// A request for exactly this bundle.
fn pinned(choice: &Choice) -> Request {
    let labels = BTreeMap::from([(NAME_LABEL.to_owned(), choice.catalog.clone())]);
    Request {
        package: choice.package.clone(),
        version: Some(choice.version.clone()),
        selector: (!choice.catalog.is_empty()).then(|| LabelSelector { match_labels: labels, match_expressions: Vec::new() }),
        policy: UpgradeConstraintPolicy::SelfCertified,
        ..Request::default()
    }
}

/// The requests of all extensions, in an order that is the same for each of them.
struct Peers {
    roots: Vec<Root>,
    /// The bundle that is installed, by subject.
    installed: BTreeMap<String, String>,
}

impl Peers {
    fn of(snapshot: &Snapshot, own: &Request) -> Self {
        let (me, lifecycle) = (snapshot.extension.name_any(), &snapshot.known.lifecycle);
        let mut peers = Self { roots: Vec::new(), installed: BTreeMap::new() };
        let stays = |extension: &&ClusterExtension| extension.metadata.deletion_timestamp.is_none() && extension.name_any() != me;
        let mut all: Vec<&ClusterExtension> = lifecycle.peers.iter().map(|peer| &**peer).filter(stays).collect();
        all.push(&snapshot.extension);
        all.sort_by_cached_key(|extension| (extension.metadata.creation_timestamp.clone(), extension.name_any()));
        for extension in all {
            let subject = subject(&extension.name_any());
            if extension.name_any() == me {
                peers.roots.push(Root { subject, request: own.clone() });
                continue;
            }
            let Some(mut request) = request(extension, None) else { continue };
            request.installed = extension
                .status
                .as_ref()
                .and_then(|status| status.install.as_ref())
                .map(|install| InstalledBundle { name: install.bundle.name.clone(), version: install.bundle.version.clone() });
            if let Some(installed) = &request.installed {
                peers.installed.insert(subject.clone(), installed.name.clone());
                // An extension that is not resolved together with the others decides alone: for the others, its installed bundle is fixed.
                if !joins(extension, lifecycle) {
                    request.version = Some(installed.version.clone());
                    request.channels.clear();
                    request.policy = UpgradeConstraintPolicy::SelfCertified;
                }
            }
            peers.roots.push(Root { subject, request });
        }
        peers
    }
}

/// APIs that exist and that no catalog knows: those of unmanaged CRDs, and those of extensions whose bundle is no longer part of any
/// catalog.
fn provided(snapshot: &Snapshot, catalogs: &[CandidateCatalog<'_>]) -> Vec<Provided> {
    let told_by_catalogs = |name: &String| {
        let peer = snapshot.known.lifecycle.peers.iter().find(|peer| peer.metadata.name.as_ref() == Some(name));
        peer.is_some_and(|peer| {
            let package = peer.spec.source.catalog.as_ref().map_or("", |catalog| &catalog.package_name);
            let bundle = peer.status.as_ref().and_then(|status| status.install.as_ref()).map(|install| install.bundle.name.as_str());
            bundle.is_some_and(|bundle| catalogs.iter().any(|catalog| holds(catalog, package, bundle)))
        })
    };
    let apis = snapshot.known.apis.as_ref().and_then(|apis| apis.as_ref().ok()).map(Vec::as_slice).unwrap_or_default();
    let nobodys =
        |api: &&ApiFact| api.extension.as_ref().is_none_or(|owner| *owner != snapshot.extension.name_any() && !told_by_catalogs(owner));
    apis.iter().filter(nobodys).map(|api| api.provided.clone()).collect()
}

fn holds(catalog: &CandidateCatalog<'_>, package: &str, bundle: &str) -> bool {
    match catalog.state {
        CatalogState::Content(source) => source.package(package).is_some_and(|facts| facts.bundles.iter().any(|each| each.name == bundle)),
        _ => false,
    }
}

fn subject(extension: &str) -> String {
    format!("clusterextension {extension}")
}

fn bundle_ref(choice: &Choice) -> BundleRef {
    BundleRef {
        package: choice.package.clone(),
        name: choice.bundle.clone(),
        version: choice.version.clone(),
        image: choice.image.clone(),
        catalog: choice.catalog.clone(),
    }
}
