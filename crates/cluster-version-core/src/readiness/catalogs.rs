//! Operators in the catalogs that the cluster will use after the update.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_catalog::Catalog;
use mainstay_catalog::Reference;
use mainstay_catalog::parts::{Parts, Versions};
use mainstay_catalog::reach::{Edges, Installed, Updates};
use mainstay_diagnostics::SharedError;
use mainstay_versions::Version;

use super::facts::{Facts, Read, known};
use super::finding::{Check, Finding, Level, few};

/// The most channels that a finding names.
const MOST: usize = 6;

/// An Operator of the cluster that comes from a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogOperator {
    /// The object that asks for it: `subscription shop/etcd`, `clusterextension argocd`.
    pub object: String,
    /// The catalogs that it may come from: `catalogsource openshift-marketplace/redhat-operators`, `clustercatalog team`.
    pub catalogs: Vec<String>,
    /// The package.
    pub package: String,
    /// The channels that it takes updates from; all of the package's if there are none.
    pub channels: Vec<String>,
    /// The name of the installed bundle; empty if it is not known.
    pub bundle: String,
    /// The installed version, if it is known.
    pub version: Option<Version>,
}

/// A catalog whose image changes with the release.
#[derive(Clone, Debug)]
pub struct NextCatalog {
    /// The catalog, named as [`CatalogOperator::catalogs`] does.
    pub catalog: String,
    /// The image that it will have.
    pub image: String,
    /// Its packages, as far as Operators of the cluster come from them.
    pub content: Read<Catalog>,
}

/// Operators whose package, channel or way to a head is not in the catalog that the update brings, and those that are deprecated there.
/// Catalogs that cannot be read are errors beside the findings about the others.
pub(super) fn next(facts: &Facts<'_>) -> (Vec<Finding>, Option<SharedError>) {
    let (operators, catalogs) = match (known(&facts.catalog_operators), known(&facts.next_catalogs)) {
        (Ok(operators), Ok(catalogs)) => (operators, catalogs),
        (Err(error), _) | (_, Err(error)) => return (Vec::new(), Some(error)),
    };
    let next: BTreeMap<&str, &NextCatalog> = catalogs.iter().map(|next| (next.catalog.as_str(), next)).collect();
    let packages: BTreeMap<&str, BTreeMap<&str, Parts<'_>>> =
        catalogs.iter().filter_map(|next| Some((next.catalog.as_str(), Parts::by_package(next.content.as_ref().ok()?)))).collect();
    let of_operator = |operator: &CatalogOperator| {
        // A catalog whose content stays may serve it as before.
        let candidates: Option<Vec<_>> =
            operator.catalogs.iter().map(|name| Some((*next.get(name.as_str())?, packages.get(name.as_str())?))).collect();
        let found = candidates.unwrap_or_default().into_iter();
        let found = found.map(|(next, packages)| operator_in(operator, next, packages.get(operator.package.as_str())));
        found.min_by_key(|findings| findings.iter().filter(|finding| finding.level == Level::Risk).count()).unwrap_or_default()
    };
    let findings = operators.iter().flat_map(of_operator).collect();
    let unread = catalogs.iter().filter_map(|next| Some(format!("{}: {}", next.image, next.content.as_ref().err()?)));
    let unread: Vec<String> = unread.collect();
    let unread = (!unread.is_empty()).then(|| SharedError::from(few(&unread, MOST)));
    (findings, unread)
}

fn operator_in(operator: &CatalogOperator, next: &NextCatalog, package: Option<&Parts<'_>>) -> Vec<Finding> {
    let finding = |level, evidence: String, action: &str| Finding::new(Check::CatalogNext, level, &*operator.object, evidence, action);
    let image = &next.image;
    let Some(package) = package.filter(|package| package.package.is_some()) else {
        let evidence = format!("package {} is not in {image}: it gets no further updates", operator.package);
        return vec![finding(Level::Risk, evidence, "look for what succeeds it, or keep it with a catalog of your own")];
    };
    let names: BTreeSet<&str> = package.channels.iter().map(|channel| channel.name.as_str()).collect();
    let wanted: Vec<&str> = operator.channels.iter().map(String::as_str).collect();
    let followed: Vec<&str> = if wanted.is_empty() { names.iter().copied().collect() } else { wanted };
    let followed: Vec<&str> = followed.into_iter().filter(|name| names.contains(name)).collect();
    if followed.is_empty() {
        let names: Vec<&str> = names.into_iter().collect();
        let default = package.default_channel().map(|name| format!("; its default is {name}")).unwrap_or_default();
        let evidence = format!(
            "channel {} of package {} is not in {image}, which has {}{default}",
            operator.channels.join(", "),
            operator.package,
            few(&names, MOST)
        );
        return vec![finding(Level::Risk, evidence, "choose one of the channels, before the update if an installed version needs it")];
    }
    let mut findings: Vec<Finding> = no_way(operator, image, package, &followed).into_iter().collect();
    let deprecated = package.deprecated();
    for (subject, reference) in deprecations(operator, &followed) {
        if let Some(message) = deprecated.get(&reference) {
            findings.push(finding(Level::Note, format!("{subject} is deprecated in {image}: {message}"), "follow the message"));
        }
    }
    findings
}

/// The finding about an installed version from which no followed channel leads to its head.
fn no_way(operator: &CatalogOperator, image: &str, package: &Parts<'_>, followed: &[&str]) -> Option<Finding> {
    if operator.bundle.is_empty() && operator.version.is_none() {
        return None;
    }
    let versions: Versions<'_> = package.versions();
    let installed = Installed { name: &operator.bundle, version: operator.version.as_ref() };
    let leads_to_head = |name: &&str| {
        package.channel(name).is_some_and(|channel| {
            let updates = Updates::of(channel, &versions);
            updates.head().is_some_and(|head| updates.path(installed, head, Edges::Resolver).is_some())
        })
    };
    if followed.iter().any(leads_to_head) {
        return None;
    }
    let version = operator.version.as_ref().map_or_else(|| operator.bundle.clone(), ToString::to_string);
    let others: BTreeSet<&str> = package.channels.iter().map(|channel| channel.name.as_str()).filter(leads_to_head).collect();
    let action = if others.is_empty() {
        "update it before the cluster, as long as its catalog has the versions in between".to_owned()
    } else {
        let others: Vec<&str> = others.into_iter().collect();
        format!("update it before the cluster, or take a channel that leads on from here: {}", few(&others, MOST))
    };
    let evidence = format!("in {image} no update leads from {version} to the head of channel {}", few(followed, MOST));
    Some(Finding::new(Check::CatalogNext, Level::Risk, &*operator.object, evidence, action))
}

fn deprecations(operator: &CatalogOperator, followed: &[&str]) -> Vec<(String, Reference)> {
    let reference = |schema: &str, name: &str| Reference { schema: schema.to_owned(), name: name.to_owned() };
    let package = (format!("package {}", operator.package), reference("olm.package", ""));
    let channels = followed.iter().map(|name| (format!("channel {name}"), reference("olm.channel", name)));
    let bundle = (format!("bundle {}", operator.bundle), reference("olm.bundle", &operator.bundle));
    std::iter::once(package).chain(channels).chain(std::iter::once(bundle)).collect()
}

/// The image that a default catalog has after an update: its tag is `v<major>.<minor>` of the release. None if the image does not change.
pub fn next_image(image: &str, from: &Version, to: &Version) -> Option<String> {
    let tag = |version: &Version| format!(":v{}.{}", version.major(), version.minor());
    let (old, new) = (tag(from), tag(to));
    (old != new).then(|| image.strip_suffix(&old).map(|repository| format!("{repository}{new}")))?
}
