//! Bundles as the cluster would install them: chosen, pulled, rendered, with the permissions that this needs.

use mainstay_bundle::{Bundle, CertificateProvider, RenderOptions, render};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_olm_v1_core::extension::supported;
use mainstay_resolver::{Request, Resolution};
use serde_json::Value;

use crate::catalogs::CatalogSnapshot;
use crate::images;
use crate::progress::Progress;
use crate::session::Session;

/// A bundle that was chosen and read.
pub struct Chosen {
    /// The chosen bundle, and the reason for the choice.
    pub resolution: Resolution,
    /// Its content.
    pub bundle: Bundle,
}

/// Chooses a bundle from the cluster's catalogs and pulls it, in this process.
pub async fn choose(session: &Session, request: &Request, progress: &mut dyn Progress) -> Result<Chosen, Failure> {
    progress.doing(&format!("{}: resolve", request.package));
    let catalogs = CatalogSnapshot::open(session, None).await?;
    let resolution = catalogs.resolve(request)?;
    let image = resolution.choice.image.clone();
    progress.doing(&format!("{}: pull {image}", resolution.choice.bundle));
    let mut client = session.registries.client()?;
    if let Some(observer) = progress.transfer(&format!("{}: pull", resolution.choice.bundle)) {
        client = client.with_progress(observer);
    }
    let files = images::pull_bundle(&client, &image).await?;
    let bundle = images::read_bundle(&image, &files)?;
    Ok(Chosen { resolution, bundle })
}

/// Renders the objects that a bundle installs, as a controller with this certificate provider does. [`Settings::read`] tells the provider
/// of a cluster.
///
/// [`Settings::read`]: crate::settings::Settings::read
pub fn rendered(
    bundle: &Bundle,
    namespace: &str,
    watch_namespace: Option<&str>,
    certificates: CertificateProvider,
) -> Result<Vec<Value>, Failure> {
    let subject = || format!("bundle {}", bundle.csv.name);
    let impossible = |error: &dyn std::error::Error| Failure::new(FailureKind::Impossible, subject(), error.to_string());
    let target_namespaces = supported::target_namespaces(watch_namespace).map_err(|error| impossible(&error))?;
    let options = RenderOptions { install_namespace: namespace.to_owned(), target_namespaces, certificates, deployment: None };
    render(bundle, &options).map_err(|error| impossible(&error))
}
