//! Packages of the catalogs that a namespace sees, as PackageManifests (OLM0-API-27 to OLM0-API-30, OLM0-USER-04).

use kube::api::ListParams;
use mainstay_diagnostics::Failure;
use mainstay_olm_classic_core::package::Package;
use serde_json::Value;

use super::objects::{PACKAGE_MANIFEST, list, list_by, text};
use crate::session::Session;

/// Lists the PackageManifests of a package, one for each catalog that has it.
pub async fn manifests(session: &Session, namespace: &str, package: &str) -> Result<Vec<Value>, Failure> {
    let which = ListParams::default().fields(&format!("metadata.name={package}"));
    let mut all = list_by(session, PACKAGE_MANIFEST, Some(namespace), &which).await?;
    all.retain(|manifest| text(manifest, "/metadata/name") == package);
    Ok(all)
}

/// Reads a package of every catalog that has it.
pub async fn named(session: &Session, namespace: &str, package: &str) -> Result<Vec<Package>, Failure> {
    Ok(manifests(session, namespace, package).await?.iter().map(Package::read).collect())
}

/// Lists all PackageManifests that a namespace sees, or those of one catalog.
pub async fn all(session: &Session, namespace: &str, catalog: Option<&str>) -> Result<Vec<Value>, Failure> {
    let mut all = list(session, PACKAGE_MANIFEST, Some(namespace)).await?;
    all.retain(|manifest| catalog.is_none_or(|catalog| text(manifest, "/status/catalogSource") == catalog));
    Ok(all)
}

/// Reads a package of one catalog; `None` if the catalog does not have it, or packages cannot be read.
pub async fn of_catalog(session: &Session, namespace: &str, package: &str, catalog: (&str, &str)) -> Option<Package> {
    let all = named(session, namespace, package).await.ok()?;
    all.into_iter().find(|each| (each.catalog.as_str(), each.catalog_namespace.as_str()) == catalog)
}
