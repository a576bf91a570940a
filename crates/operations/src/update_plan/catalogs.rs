//! Operators of catalogs, and the content that their catalogs will have after the update.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mainstay_catalog::{Catalog, Limits};
use mainstay_catalog_refs::{Access, BoxError, Kind, open_image};
use mainstay_cluster_version_core::readiness::{CatalogOperator, NextCatalog, Read, next_image};
use mainstay_diagnostics::SharedError;
use mainstay_objects::{Requirements, labels_of};
use mainstay_olm_classic_core::catalog_source::template::{self, KubernetesVersion};
use mainstay_olm_classic_core::hub;
use mainstay_olm_v1_core::cluster_operator::catalogs::openshift;
use mainstay_versions::Version;
use serde_json::Value;

use super::facts::{array, text};
use crate::progress::Progress;
use crate::session::Session;

/// The time for the content of one catalog: those of vendors have hundreds of megabytes.
const PATIENCE: Duration = Duration::from_secs(600);

/// The objects of OLM classic and v1 that tell which Operators come from which catalogs.
pub(super) struct Sources {
    pub subscriptions: Read<Vec<Value>>,
    pub csvs: Read<Vec<Value>>,
    pub classic_catalogs: Read<Vec<Value>>,
    pub extensions: Read<Vec<Value>>,
    pub cluster_catalogs: Read<Vec<Value>>,
}

/// The releases, as far as catalogs depend on them.
pub(super) struct Releases<'a> {
    pub from: &'a str,
    pub to: &'a str,
    pub kubernetes: Option<&'a Version>,
}

impl Sources {
    /// The Operators that come from catalogs.
    pub(super) fn operators(&self) -> Read<Vec<CatalogOperator>> {
        let versions: BTreeMap<String, Version> = known(&self.csvs)?.iter().filter_map(versioned).collect();
        let catalogs = known(&self.cluster_catalogs)?;
        let mut operators: Vec<CatalogOperator> =
            known(&self.subscriptions)?.iter().map(|subscription| of_subscription(subscription, &versions)).collect();
        operators.extend(known(&self.extensions)?.iter().map(|extension| of_extension(extension, catalogs)));
        Ok(operators)
    }

    /// The image that each catalog will have; catalogs whose image stays are not among them.
    fn next_images(&self, releases: &Releases<'_>) -> Read<BTreeMap<String, String>> {
        let mut images = BTreeMap::new();
        let versions = (Version::parse(releases.from), Version::parse(releases.to));
        let moved = |image: &str| match &versions {
            (Ok(from), Ok(to)) => next_image(image, from, to),
            _ => None,
        };
        for source in known(&self.classic_catalogs)? {
            let image = text(source, "/spec/image");
            let next = match releases.kubernetes.map(kubernetes).and_then(|version| template::image(source, Some(&version))) {
                Some(filled) => Some(filled.image).filter(|next| filled.problem.is_none() && next != image),
                None if source["metadata"]["annotations"][hub::MANAGED_BY.0] == hub::MANAGED_BY.1 => moved(image),
                None => None,
            };
            images.extend(next.map(|next| (catalog_source(text(source, "/metadata/namespace"), text(source, "/metadata/name")), next)));
        }
        let defaults: BTreeSet<String> = openshift().into_iter().map(|catalog| catalog.name).collect();
        for catalog in known(&self.cluster_catalogs)? {
            let name = text(catalog, "/metadata/name");
            let next = moved(text(catalog, "/spec/source/image/ref")).filter(|_| defaults.contains(name));
            images.extend(next.map(|next| (cluster_catalog(name), next)));
        }
        Ok(images)
    }

    /// Pulls what the catalogs of these Operators become, and keeps the packages of the Operators.
    pub(super) async fn next(
        &self,
        session: &Session,
        operators: &Read<Vec<CatalogOperator>>,
        releases: &Releases<'_>,
        progress: &mut dyn Progress,
    ) -> Read<Vec<NextCatalog>> {
        let operators = known(operators)?;
        let mut next = Vec::new();
        for (catalog, image) in self.next_images(releases)? {
            let packages: BTreeSet<String> =
                operators.iter().filter(|operator| operator.catalogs.contains(&catalog)).map(|operator| operator.package.clone()).collect();
            if packages.is_empty() {
                continue;
            }
            progress.doing(&format!("read the next content of {catalog}: {image}"));
            let content = tokio::time::timeout(PATIENCE, content(session, &image, packages)).await;
            let content = content.unwrap_or_else(|_| Err(SharedError::from(format!("not read within {} s", PATIENCE.as_secs()))));
            next.push(NextCatalog { catalog, image, content });
        }
        Ok(next)
    }
}

async fn content(session: &Session, image: &str, packages: BTreeSet<String>) -> Read<Catalog> {
    let client = session.registries.client()?;
    let make = move || -> Result<mainstay_oci::Client, BoxError> { Ok(client.clone()) };
    let opened = open_image(image, &Access::new(&make, &[Kind::CATALOG_IMAGE, Kind::DATABASE_IMAGE])).await.map_err(SharedError::new)?;
    let read = tokio::task::spawn_blocking(move || -> Read<Catalog> {
        let source = opened.source().map_err(SharedError::new)?;
        let mut catalog = Catalog::default();
        mainstay_catalog::load(source.as_ref(), &Limits::default(), &mut |blob| {
            let package = if blob.package.is_empty() { blob.name } else { blob.package };
            if packages.contains(package) { catalog.add(&blob) } else { Ok(()) }
        })
        .map_err(SharedError::new)?;
        Ok(catalog)
    });
    read.await.map_err(SharedError::new)?
}

fn known<T>(fact: &Read<Vec<T>>) -> Read<&[T]> {
    fact.as_deref().map_err(Clone::clone)
}

fn kubernetes(version: &Version) -> KubernetesVersion {
    KubernetesVersion { numbers: [version.major(), version.minor(), version.patch()] }
}

fn catalog_source(namespace: &str, name: &str) -> String {
    format!("catalogsource {namespace}/{name}")
}

fn cluster_catalog(name: &str) -> String {
    format!("clustercatalog {name}")
}

/// A CSV's namespace and name, with its version.
fn versioned(csv: &Value) -> Option<(String, Version)> {
    let version = Version::parse(text(csv, "/spec/version")).ok()?;
    Some((format!("{}/{}", text(csv, "/metadata/namespace"), text(csv, "/metadata/name")), version))
}

fn of_subscription(subscription: &Value, versions: &BTreeMap<String, Version>) -> CatalogOperator {
    let (namespace, name) = (text(subscription, "/metadata/namespace"), text(subscription, "/metadata/name"));
    let bundle = text(subscription, "/status/installedCSV").to_owned();
    let channel = text(subscription, "/spec/channel");
    CatalogOperator {
        object: format!("subscription {namespace}/{name}"),
        catalogs: vec![catalog_source(text(subscription, "/spec/sourceNamespace"), text(subscription, "/spec/source"))],
        package: text(subscription, "/spec/name").to_owned(),
        channels: (!channel.is_empty()).then(|| channel.to_owned()).into_iter().collect(),
        version: versions.get(&format!("{namespace}/{bundle}")).cloned(),
        bundle,
    }
}

fn of_extension(extension: &Value, catalogs: &[Value]) -> CatalogOperator {
    let wanted = Requirements::of_selector(&extension["spec"]["source"]["catalog"]["selector"]);
    let serves = |catalog: &&Value| text(catalog, "/spec/availabilityMode") != "Unavailable" && wanted.matches(&labels_of(catalog));
    CatalogOperator {
        object: format!("clusterextension {}", text(extension, "/metadata/name")),
        catalogs: catalogs.iter().filter(serves).map(|catalog| cluster_catalog(text(catalog, "/metadata/name"))).collect(),
        package: text(extension, "/spec/source/catalog/packageName").to_owned(),
        channels: array(extension, "/spec/source/catalog/channels").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        bundle: text(extension, "/status/install/bundle/name").to_owned(),
        version: Version::parse(text(extension, "/status/install/bundle/version")).ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn sources() -> Sources {
        let source = |name: &str, image: &str, annotations: Value| json!({"metadata": {"namespace": "market", "name": name, "annotations": annotations}, "spec": {"image": image}});
        let managed = json!({hub::MANAGED_BY.0: hub::MANAGED_BY.1});
        let catalog = |name: &str, image: &str, mode: &str| json!({"metadata": {"name": name, "labels": {"tier": name}}, "spec": {"availabilityMode": mode, "source": {"image": {"ref": image}}}});
        Sources {
            subscriptions: Ok(vec![json!({
                "metadata": {"namespace": "shop", "name": "till"}, "status": {"installedCSV": "till.v1"},
                "spec": {"name": "till", "channel": "stable", "source": "vendor", "sourceNamespace": "market"}})]),
            csvs: Ok(vec![json!({"metadata": {"namespace": "shop", "name": "till.v1"}, "spec": {"version": "1.2.3"}})]),
            classic_catalogs: Ok(vec![
                source("vendor", "r.test/vendor:v4.18", managed),
                source("own", "r.test/own:v4.18", json!({})),
                source(
                    "templated",
                    "r.test/kube:v1.31",
                    json!({template::ANNOTATION: "r.test/kube:v{kube_major_version}.{kube_minor_version}"}),
                ),
            ]),
            extensions: Ok(vec![json!({
                "metadata": {"name": "cd"}, "spec": {"source": {"catalog": {"packageName": "cd", "selector": {"matchLabels": {"tier": "openshift-community-operators"}}}}},
                "status": {"install": {"bundle": {"name": "cd.v2", "version": "2.0.0"}}}})]),
            cluster_catalogs: Ok(vec![
                catalog("openshift-community-operators", "r.test/community:v4.18", "Available"),
                catalog("openshift-redhat-operators", "r.test/vendor:v4.18", "Unavailable"),
                catalog("team", "r.test/team:v4.18", "Available"),
            ]),
        }
    }

    /// MS-READY-03: which Operators come from which catalogs, and which images those catalogs will have.
    #[test]
    fn operators_and_images() {
        let sources = sources();
        let operators = sources.operators().unwrap();
        let version = Version::parse("1.2.3").unwrap();
        assert_eq!(operators[0].catalogs, ["catalogsource market/vendor"]);
        assert_eq!((operators[0].version.as_ref(), operators[0].bundle.as_str()), (Some(&version), "till.v1"));
        assert_eq!(operators[1].catalogs, ["clustercatalog openshift-community-operators"]);
        assert_eq!((operators[1].object.as_str(), operators[1].channels.len()), ("clusterextension cd", 0));
        let kubernetes = Version::parse("1.32.4").unwrap();
        let images = sources.next_images(&Releases { from: "4.18.1", to: "4.19.0", kubernetes: Some(&kubernetes) }).unwrap();
        let images: Vec<_> = images.iter().map(|(catalog, image)| format!("{catalog} {image}")).collect();
        assert_eq!(
            images,
            [
                "catalogsource market/templated r.test/kube:v1.32",
                "catalogsource market/vendor r.test/vendor:v4.19",
                "clustercatalog openshift-community-operators r.test/community:v4.19",
                "clustercatalog openshift-redhat-operators r.test/vendor:v4.19",
            ]
        );
        let same = sources.next_images(&Releases { from: "4.18.1", to: "4.18.9", kubernetes: None }).unwrap();
        assert!(same.is_empty(), "{same:?}");
    }
}
