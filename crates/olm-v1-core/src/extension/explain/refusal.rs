//! The reason why the catalogs have no bundle for an extension, per catalog, and the changes that would work (OLM1-SEL-10, OLM1-UPG-04).

use std::collections::BTreeSet;

use mainstay_api::olm_v1::{AvailabilityMode, ClusterExtension, NAME_LABEL};
use mainstay_catalog::did_you_mean::nearest;
use mainstay_resolver::{CatalogReport, CatalogState, Change, Hint, Refusal, RefusalKind};
use serde_json::{Map, Value, json};

use super::super::dependencies::satisfiable;
use super::super::request::candidates;
use super::catalog::trouble;
use super::remedy::ByRemedy as _;
use super::{Action, Destination, Explanation, Facts, Remedy, State, listed, overview, package, words};

/// Maximum number of versions or names that are listed.
const LISTED: usize = 8;

pub(super) fn explain(facts: &Facts, refusal: &Refusal) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let mut answer = match &refusal.kind {
        RefusalKind::NoSingleBundle { tied, .. } if !tied.is_empty() => tie(facts, tied),
        RefusalKind::NoSingleBundle { .. } if refusal.catalogs.iter().all(|report| !report.package_found) => unknown(facts, refusal),
        RefusalKind::NoSingleBundle { version, channels, .. } => unfit(facts, refusal, version.as_deref(), channels),
        RefusalKind::CatalogFailed { catalog, reason, .. } => catalog_failed(facts, catalog, reason),
        RefusalKind::InvalidVersionRange { range, .. } => {
            words::held(facts, "invalid-version-range", format!("{range:?} is not a version range"))
                .because("a range is written like 1.2.3, 1.2.x, ~1.2, or \">=1.2.0, <2.0.0\"")
                .then(Action::new("Remove the version range, or correct it:").by(extension, Remedy::Request(json!({"version": null}))))
        }
        RefusalKind::InvalidSelector { reason } => {
            words::held(facts, "invalid-selector", "its choice of catalogs cannot be read".to_owned()).because(reason.clone()).then(
                Action::new("Correct the catalog selector, or remove it so that all catalogs count:")
                    .by(extension, Remedy::Request(json!({"selector": null}))),
            )
        }
        RefusalKind::InvalidInstalledVersion { bundle, version, .. } => words::held(
            facts,
            "invalid-installed-version",
            format!("the installed bundle {bundle} has the version {version:?}, which is not a version"),
        )
        .because("no bundle can be said to follow it")
        .then(
            Action::new("Let any version follow:")
                .by(extension, Remedy::Request(json!({"upgradeConstraintPolicy": "SelfCertified"})))
                .warns("the catalog has not verified such a step, and data may be lost"),
        ),
        RefusalKind::InvalidBundleVersion { bundle, reason } => {
            words::held(facts, "invalid-bundle-version", format!("the catalog's bundle {bundle} has no version that can be read"))
                .because(reason.clone())
                .then(
                    Action::new("The catalog is at fault: tell its maintainers. Until then, ask for another version of the package:")
                        .command(overview(facts)),
                )
        }
        RefusalKind::UnsupportedDependency { bundle, property } => dependency(facts, bundle, property),
    };
    let lines = refusal.catalogs.iter().filter(|_| !matches!(refusal.kind, RefusalKind::UnsupportedDependency { .. }));
    answer.why.extend(lines.map(|report| counted(facts, report)));
    if is_away(facts, refusal) {
        return away(facts, refusal, answer);
    }
    with_hints(facts, &mut answer, &refusal.hints);
    answer
}

/// The bundles of a catalog, counted in a line (OLM1-SEL-10).
fn counted(facts: &Facts, report: &CatalogReport) -> String {
    let CatalogReport { catalog, bundles, in_channels, in_range, matching, .. } = report;
    let requested = facts.snapshot.extension.spec.source.catalog.as_ref();
    let ranged = requested.is_some_and(|requested| requested.version.is_some());
    let channeled = requested.is_some_and(|requested| !requested.channels.is_empty());
    if !report.selected {
        return format!("catalog {catalog}: left out by the extension's choice of catalogs");
    }
    if let Some(why) = &report.left_out {
        return format!("catalog {catalog}: left out, {why}");
    }
    if !report.available {
        return format!("catalog {catalog}: switched off");
    }
    if !report.package_found {
        return format!("catalog {catalog}: does not have the package");
    }
    let mut line = format!("catalog {catalog}: has the package; of its {}", mainstay_diagnostics::counted(*bundles, "version"));
    if channeled {
        line = format!("{line} {in_channels} are in the channels asked for,");
    }
    if ranged {
        line = format!("{line} {in_range} match the range,");
    }
    format!("{line} {matching} can be installed now")
}

/// Returns true if the only problem is that the source of the installed bundle is unavailable: no catalog that can be used has the bundle, or
/// one of them cannot be read.
fn is_away(facts: &Facts, refusal: &Refusal) -> bool {
    let Some((bundle, _)) = super::installed(facts) else { return false };
    match &refusal.kind {
        RefusalKind::CatalogFailed { .. } => true,
        RefusalKind::NoSingleBundle { tied, .. } if tied.is_empty() => {
            let package = package(&facts.snapshot.extension);
            let asked = |name: &str| refusal.catalogs.iter().any(|report| report.catalog == name && report.selected && report.available);
            !candidates(&facts.snapshot.catalogs).iter().filter(|catalog| asked(catalog.name)).any(|catalog| match catalog.state {
                CatalogState::Content(source) => {
                    source.package(package).is_some_and(|found| found.bundles.iter().any(|each| each.name == bundle))
                }
                _ => false,
            })
        }
        _ => false,
    }
}

/// The explanation for an unavailable source. The installed version works and is kept. The absence is no reason to remove or replace it: the
/// one action is to bring the source back.
fn away(facts: &Facts, refusal: &Refusal, answer: Explanation) -> Explanation {
    let bundle = super::installed(facts).map(|(bundle, _)| bundle).unwrap_or_default();
    let package = package(&facts.snapshot.extension);
    let off: Vec<&str> = facts
        .catalogs
        .iter()
        .filter(|catalog| catalog.spec.availability_mode == AvailabilityMode::Unavailable)
        .filter_map(|catalog| catalog.metadata.name.as_deref())
        .filter(|name| refusal.catalogs.iter().any(|report| report.catalog == *name && report.selected))
        .collect();
    let next = match &refusal.kind {
        RefusalKind::CatalogFailed { catalog, .. } => {
            Action::new("See what the catalog waits for:").command(format!("mainstay explain clustercatalog {catalog}"))
        }
        _ if facts.snapshot.catalogs.is_empty() => Action::new(format!("Add the catalog again that {bundle} came from:"))
            .command("mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG"),
        _ if !off.is_empty() => {
            let on = |name: &&str| Remedy::Switch { catalog: (*name).to_owned(), on: true };
            Action::new("Switch on the catalog that it came from:")
                .by(&facts.snapshot.extension, Remedy::All(off.iter().map(on).collect()))
        }
        _ => Action::new(format!(
            "Nothing has to be done for what runs. For updates, ask the catalog's maintainers to bring {bundle} back, or add one that has it:"
        ))
        .command(format!("mainstay catalog search {package}"))
        .command("mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG"),
    };
    let mut answer = Explanation { next: None, alternatives: Vec::new(), ..answer }.then(next);
    answer.notes.insert(0, format!("{bundle} stays installed: it is kept as it is, and restored if it is changed"));
    answer
}

fn unknown(facts: &Facts, refusal: &Refusal) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let package = package(extension);
    let answer = words::held(facts, "unknown-package", format!("no catalog has a package {package}"));
    if facts.snapshot.catalogs.is_empty() {
        let add = Action::new("The cluster has no catalog. Add one that has the package:");
        return Explanation { situation: "no-catalog", ..answer }
            .because("the cluster has no catalog at all")
            .then(add.command("mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG"));
    }
    let off: Vec<&str> = refusal.catalogs.iter().filter(|report| !report.available).map(|report| report.catalog.as_str()).collect();
    if let [only] = off.as_slice()
        && off.len() == refusal.catalogs.len()
    {
        return Explanation { situation: "catalog-not-serving", ..answer }.then(
            Action::new("The only catalog is switched off. Switch it on:")
                .by(extension, Remedy::Switch { catalog: (*only).to_owned(), on: true }),
        );
    }
    let near = refusal.hints.iter().flat_map(|hint| &hint.changes).find_map(|change| match change {
        Change::Package(near) => Some(near),
        _ => None,
    });
    answer.then(match near {
        Some(near) => Action::new(format!("Did you mean {near}? The package of an extension cannot be changed, so make a new one:"))
            .by(extension, Remedy::Package(near.clone())),
        None => Action::new("Look for the right name, or add a catalog that has the package:")
            .command("mainstay catalog search")
            .command("mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG"),
    })
}

fn tie(facts: &Facts, tied: &[String]) -> Explanation {
    let names = listed(tied.iter().map(String::as_str), LISTED);
    let answer =
        words::held(facts, "equal-catalogs", format!("the catalogs {names} all have a fitting bundle, and none goes before the others"))
            .because("mainstay does not pick silently among catalogs of the same priority");
    match tied.last() {
        Some(last) => Explanation {
            alternatives: vec![
                Action::new(format!("For all extensions: let one catalog go before the others, for example {last}"))
                    .by(&facts.snapshot.extension, Remedy::Prefer(last.clone())),
            ],
            ..answer
        },
        None => answer,
    }
}

/// The explanation if no bundle of the package fits: an unknown channel, an unknown version, no update edge, or several of these.
fn unfit(facts: &Facts, refusal: &Refusal, version: Option<&str>, channels: &[String]) -> Explanation {
    let package = package(&facts.snapshot.extension);
    let offered = Offered::of(facts);
    let selected = || refusal.catalogs.iter().filter(|report| report.selected && report.available);
    let sum = |count: fn(&CatalogReport) -> usize| selected().map(count).sum::<usize>();
    let asked = || listed(channels.iter().map(String::as_str), LISTED);
    if sum(|report| report.bundles) == 0 {
        return words::held(facts, "catalog-not-selected", format!("no catalog that it may use has the package {package}"));
    }
    if !channels.is_empty() && sum(|report| report.in_channels) == 0 {
        let answer = words::held(facts, "unknown-channel", format!("package {package} has no channel {}", asked()));
        return answer.because(format!("its channels are {}", listed(offered.channels.iter().map(String::as_str), LISTED)));
    }
    if let Some(version) = version.filter(|_| sum(|report| report.in_range) == 0) {
        let place = if channels.is_empty() { String::new() } else { format!(" in channel {}", asked()) };
        let answer = words::held(facts, "unknown-version", format!("no version of {package}{place} matches \"{version}\""));
        return answer.because(format!("its versions are {}", listed(offered.versions.iter().map(String::as_str), LISTED)));
    }
    let installed = super::installed(facts).map(|(_, version)| version).unwrap_or_default();
    let wanted = match (version, channels) {
        (Some(version), _) => format!("a version that matches \"{version}\""),
        (None, []) => "any version that is in a catalog".to_owned(),
        (None, _) => format!("any version in channel {}", asked()),
    };
    words::held(facts, "no-update-edge", format!("the catalogs have no update from {installed} to {wanted}"))
        .because(format!("an update is offered where a newer version replaces or skips {installed}; none does"))
}

fn catalog_failed(facts: &Facts, catalog: &str, reason: &str) -> Explanation {
    let known = facts.catalogs.iter().find(|found| found.metadata.name.as_deref() == Some(catalog));
    let mut answer = words::held(facts, "catalog-not-serving", format!("catalog {catalog} cannot be asked"))
        .because("nothing is chosen while a catalog that may be used is not there: the choice could be wrong");
    if let Some(trouble) = known.and_then(trouble) {
        answer.why.splice(0..0, std::iter::once(format!("catalog {catalog}: {}", trouble.summary)).chain(trouble.why));
        answer.next = trouble.next;
    } else {
        answer.why.insert(0, format!("catalog {catalog}: {}", words::first_line(reason)));
        answer.next = Some(Action::new("See what the catalog waits for:").command(format!("mainstay explain clustercatalog {catalog}")));
    }
    // A catalog that never served has nothing to lose. One that did is only disabled, so that it can come back.
    let never_served = known.and_then(trouble).is_some_and(|trouble| trouble.state == State::NotInstalled);
    let without = if never_served {
        Action::new("Go on without this catalog: remove it").by(&facts.snapshot.extension, Remedy::RemoveCatalog(catalog.to_owned()))
    } else {
        Action::new("Go on without this catalog: switch it off")
            .by(&facts.snapshot.extension, Remedy::Switch { catalog: catalog.to_owned(), on: false })
    };
    answer.alternatives.push(without.warns("extensions that need this catalog then have no updates"));
    answer
}

fn dependency(facts: &Facts, bundle: &str, property: &str) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let kind = match property {
        "olm.package.required" => "other packages",
        "olm.gvk.required" => "APIs of other operators",
        _ => "other bundles",
    };
    let answer = words::held(facts, "dependency", format!("{bundle} needs {kind}, which are not installed with it"));
    let mut answer = answer.because(format!("the bundle says so with the property {property}"));
    let missing: Vec<String> = facts.plan.as_ref().map(|plan| plan.warnings.clone()).unwrap_or_default();
    answer.why.extend(if missing.is_empty() { needs(facts, bundle) } else { missing });
    if let Err(problem) = satisfiable(&facts.snapshot) {
        // A policy would only replace this refusal with another one.
        answer.why.extend(problem.to_string().lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
        return answer.then(
            Action::new("No catalog of this cluster has all that it needs. See which catalogs there are; one that has it must be added:")
                .command("mainstay catalog list"),
        );
    }
    let allow = Action::new("Let what it needs be installed in addition, by a policy for this package:");
    answer.then(allow.by(extension, Remedy::FollowDependencies))
}

/// The dependencies that a bundle declares, each in words.
fn needs(facts: &Facts, bundle: &str) -> Vec<String> {
    let wanted = package(&facts.snapshot.extension);
    let mut needs = BTreeSet::new();
    for candidate in candidates(&facts.snapshot.catalogs) {
        let CatalogState::Content(source) = candidate.state else { continue };
        let Some(found) = source.package(wanted) else { continue };
        for property in found.bundles.iter().filter(|found| found.name == bundle).flat_map(|found| &found.properties) {
            let Ok(value) = serde_json::from_str::<Value>(property.value) else { continue };
            let text = |key: &str| value[key].as_str().unwrap_or_default();
            match property.kind {
                "olm.package.required" => needs.insert(format!("it needs package {} {}", text("packageName"), text("versionRange"))),
                "olm.gvk.required" => needs.insert(format!("it needs the API {} of {}/{}", text("kind"), text("group"), text("version"))),
                "olm.constraint" => needs.insert(format!("it needs: {}", text("failureMessage"))),
                _ => false,
            };
        }
    }
    needs.into_iter().collect()
}

/// Adds the hints, all of which were tried and work: the smallest change first.
fn with_hints(facts: &Facts, answer: &mut Explanation, hints: &[Hint]) {
    let extension = &*facts.snapshot.extension;
    let mut actions: Vec<(u8, Action)> =
        hints.iter().filter_map(|hint| action(extension, hint).map(|(forced, action)| (cost(hint, forced), action))).collect();
    actions.sort_by_key(|(cost, _)| *cost);
    let mut actions = actions.into_iter().map(|(_, action)| action);
    if answer.next.is_none() {
        answer.next = actions.next();
    }
    answer.alternatives.splice(0..0, actions);
    if answer.next.is_none() {
        answer.next = Some(
            Action::new("Nothing that was tried leads to a version. Look at what there is, and how one version follows another:")
                .command(overview(facts)),
        );
    }
}

/// The cost of a hint: 0 for another value in the request, 1 for giving up a part of it, 2 for bypassing the catalog's update edges.
fn cost(hint: &Hint, forced: bool) -> u8 {
    let whole = |change: &Change| matches!(change, Change::AnyVersion | Change::AnyChannel | Change::AnyCatalog);
    if forced { 2 } else { u8::from(hint.changes.iter().any(whole)) }
}

/// A hint as a command, and true if it bypasses the catalog's update edges.
fn action(extension: &ClusterExtension, hint: &Hint) -> Option<(bool, Action)> {
    let leads = hint.leads_to.as_ref()?;
    changes(extension, &hint.changes, &leads.version)
}

/// Changes of the request as one command, and true if it bypasses the catalog's update edges.
pub(super) fn changes(extension: &ClusterExtension, changes: &[Change], version: &str) -> Option<(bool, Action)> {
    let (mut patch, mut words, mut forced) = (Map::new(), Vec::new(), false);
    for change in changes {
        let (key, value, text) = match change {
            Change::AnyVersion => ("version", Value::Null, "Take the version range out".to_owned()),
            Change::Version(version) => ("version", json!(version), format!("Ask for version {version}")),
            Change::Channels(channels) => ("channels", json!(channels), format!("Ask for channel {}", channels.join(", "))),
            Change::AnyChannel => ("channels", Value::Null, "Take the channels out".to_owned()),
            Change::AnyCatalog => ("selector", Value::Null, "Let all catalogs count".to_owned()),
            Change::Catalog(catalog) => {
                ("selector", json!({"matchLabels": {NAME_LABEL: catalog}}), format!("Take it from catalog {catalog}"))
            }
            Change::SelfCertified => {
                forced = true;
                ("upgradeConstraintPolicy", json!("SelfCertified"), "Go round the catalog's update edges".to_owned())
            }
            Change::Package(_) | Change::AddMissing => return None,
        };
        patch.insert(key.to_owned(), value);
        words.push(if words.is_empty() { text } else { text.to_lowercase() });
    }
    if patch.is_empty() {
        return None;
    }
    let leads_to = Destination { package: package(extension).to_owned(), version: version.to_owned() };
    let action =
        Action::new(format!("{}; that leads to {leads_to}:", words.join(" and "))).by(extension, Remedy::Request(Value::Object(patch)));
    let action = Action { leads_to: Some(leads_to), ..action };
    Some((forced, if forced { action.warns("the catalog has not verified this step, and data may be lost") } else { action }))
}

/// The channels and versions of the package in the catalogs.
struct Offered {
    channels: BTreeSet<String>,
    versions: Vec<String>,
}

impl Offered {
    fn of(facts: &Facts) -> Self {
        let wanted = package(&facts.snapshot.extension);
        let (mut channels, mut versions) = (BTreeSet::new(), Vec::new());
        let candidates = candidates(&facts.snapshot.catalogs);
        for candidate in &candidates {
            let CatalogState::Content(source) = candidate.state else { continue };
            let Some(found) = source.package(wanted) else { continue };
            channels.extend(found.channels.iter().map(|channel| channel.name.to_owned()));
            versions.extend(found.bundles.iter().filter_map(|bundle| bundle.version).map(str::to_owned));
        }
        let version = |text: &String| mainstay_versions::Version::parse(text).ok();
        versions.sort_by(|one, other| version(other).cmp(&version(one)).then_with(|| one.cmp(other)));
        versions.dedup();
        let requested = facts.snapshot.extension.spec.source.catalog.as_ref().and_then(|catalog| catalog.version.as_deref());
        // The version that was probably meant is first.
        if let Some(near) = requested.and_then(|requested| nearest(requested, versions.iter().map(String::as_str))).map(str::to_owned)
            && versions.len() > LISTED
        {
            versions.retain(|version| *version != near);
            versions.insert(0, near);
        }
        Self { channels, versions }
    }
}
