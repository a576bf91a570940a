//! `mainstay adm release install`: the first release of a cluster that has none (CVO-RUN-07).

use clap::Args;
use jiff::Timestamp;
use mainstay_cluster_update::Installation;
use mainstay_cluster_version_core::rival;
use mainstay_oci::Digest;
use mainstay_operations::cluster_install;
use mainstay_release::signature::ReleaseDigest;
use mainstay_release_samples::SigningKey;
use mainstay_release_source::{Limits, Place, ReadError};
use mainstay_runtime::Env;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{images, output, runtime};
use mainstay_update_graph::ReleaseMetadata;

use super::signing::Signing;
use crate::up::release::{repository, uuid};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay adm release install --image registry.example/release:1.0.0
  mainstay adm release install --image registry.example/release@sha256:... --channel stable-1.0 --update-service https://updates.example/graph
  mainstay adm release install --image registry.example/release:1.0.0 --signing-key secret.asc

The key makes a signature of the release, which is kept in the cluster. The release is read first, and named by its digest in the cluster. The kinds of releases are created if they are absent, then the namespace
openshift-cluster-version and the ClusterVersion; mainstay run cluster-version does the rest. A cluster that has a ClusterVersion is left as it is.")]
pub struct Arguments {
    /// The release image
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// The channel of updates
    #[arg(long, value_name = "CHANNEL", default_value = "")]
    channel: String,
    /// The update service [default: that of OpenShift, which knows OpenShift's releases alone]
    #[arg(long, value_name = "URL")]
    update_service: Option<String>,
    #[command(flatten)]
    signing: Signing,
}

/// Installs a release.
pub fn run(arguments: &Arguments, cluster: &ClusterArgs) -> Result<(), Failure> {
    runtime::block_on(async {
        let env = Env::system();
        let wanted = wanted(arguments, &env).await?;
        let session = cluster.open_to_change().await?;
        cluster_install::install_release(&session, &wanted).await?;
        output::line(format!("clusterversion.config.openshift.io/version created: release {}, {}", wanted.version, wanted.image))
    })
}

/// Reads the release: a mistake is found before the cluster is touched.
async fn wanted(arguments: &Arguments, env: &Env) -> Result<Installation, Failure> {
    let subject = format!("--image {}", arguments.image);
    let place = Place::Image(arguments.image.clone());
    let client = || images::plain_client().map_err(|error| ReadError::Settings(Box::new(error)));
    let release = mainstay_release_source::read(&place, client, &Limits::default()).await;
    let release = release.map_err(|error| Failure::failed(&subject, &error))?;
    let content = release.files.release("release-metadata").unwrap_or_default();
    let metadata = ReleaseMetadata::parse(content).map_err(|error| Failure::failed(&subject, &error))?;
    let Some(digest) = release.image.map(|image| image.listed) else {
        return Err(Failure::new(Exit::Failed, subject, "has no digest"));
    };
    let repository = repository(&arguments.image);
    let key = arguments.signing.key()?;
    let signature = key.map(|key| signature(&key, &digest, repository, env.now())).transpose()?;
    Ok(Installation {
        image: format!("{repository}@{digest}"),
        version: metadata.version.to_string(),
        channel: arguments.channel.clone(),
        update_service: arguments.update_service.clone(),
        signature,
        cluster_id: uuid(env),
        managed: rival::MANAGED,
    })
}

/// Signs the release; the signature is kept in the cluster.
fn signature(key: &SigningKey, digest: &str, repository: &str, now: Timestamp) -> Result<(ReleaseDigest, Vec<u8>), Failure> {
    let subject = "--signing-key";
    let read: Digest = digest.parse().map_err(|error| Failure::failed(subject, &error))?;
    let signed = key.sign(&read, repository, now).map_err(|error| Failure::failed(subject, &error))?;
    let named = ReleaseDigest::parse(digest).ok_or_else(|| Failure::new(Exit::Failed, subject, format!("cannot sign {digest}")))?;
    Ok((named, signed))
}
