//! The first release of a cluster, and the kinds that its operator needs (CVO-RUN-07).

use std::time::Duration;

use mainstay_api::Manifest;
use mainstay_apply::Writer;
use mainstay_cluster_update::{Installation, install};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{ObjectRef, Until};

use crate::apply::execute;
use crate::cluster_update::cluster_version;
use crate::failure::not_written;
use crate::session::Session;

/// The time for a definition to be served.
const ESTABLISHED: Duration = Duration::from_secs(30);
/// The kinds of the platform that the operator reads.
const READ: [&str; 2] = ["Infrastructure", "Proxy"];

/// Creates the definitions of ClusterVersion, ClusterOperator, FeatureGate, Proxy and Infrastructure that the cluster lacks, and waits until all of
/// them are served. Definitions that are there stay as they are: a release may own them.
pub async fn install_kinds(writer: &Writer) -> Result<Vec<String>, Failure> {
    let unreadable = |error: &(dyn std::error::Error + 'static)| Failure::failed("definitions of releases", error);
    let is_read = |manifest: &Manifest| READ.iter().any(|kind| manifest.definition["spec"]["names"]["kind"] == *kind);
    let platform = mainstay_api::platform_manifests().map_err(|error| unreadable(&error))?;
    let releases = mainstay_api::release_manifests().map_err(|error| unreadable(&error))?;
    let (mut places, mut created) = (Vec::new(), Vec::new());
    for manifest in releases.into_iter().chain(platform.into_iter().filter(is_read)) {
        let place = ObjectRef::of(&manifest.definition).map_err(|error| unreadable(&error))?;
        if writer.get(&place).await.map_err(|error| not_written(&error))?.is_none() {
            writer.create(&manifest.definition).await.map_err(|error| not_written(&error))?;
            created.push(place.name.clone());
        }
        places.push(place);
    }
    for place in places {
        writer.wait(&place, &Until::Healthy, ESTABLISHED).await.map_err(|error| not_written(&error))?;
    }
    Ok(created)
}

/// Asks the operator to install a release on a cluster that has none.
///
/// # Errors
/// The cluster has a ClusterVersion, or refuses an object.
pub async fn install_release(session: &Session, wanted: &Installation) -> Result<(), Failure> {
    install_kinds(&session.writer).await?;
    let live = cluster_version(session).await?;
    let steps = install(live.as_ref(), wanted).map_err(|refusal| {
        Failure::new(FailureKind::Impossible, "clusterversion version", refusal.to_string())
            .hint(format!("mainstay adm upgrade --to-image {} --allow-explicit-upgrade asks for an update", wanted.image))
    })?;
    for step in &steps {
        execute(session, step).await?;
    }
    Ok(())
}
