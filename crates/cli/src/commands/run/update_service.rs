//! `mainstay run update-service`: the update service of clusters; it needs no cluster itself (CVO-OSUS-01).

use std::path::PathBuf;

use clap::Args;
use mainstay_oci::{Credentials, Reference};
use mainstay_runtime::Env;
use mainstay_serve::{ClientCertificates, Tls};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{images, output, runtime};
use mainstay_update_service::{Addresses, Config, GraphDataPlace, Place, Service};
use tokio_util::sync::CancellationToken;

use super::flags::{address, duration};
use super::listeners;
use crate::up::Signals;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay run update-service --graph-data ./graph-data --releases registry.example/ocp/release
  mainstay run update-service --graph-data graph-data.tar.gz --releases list:releases.json --cache-path /var/cache/update-service
  mainstay run update-service --graph-data registry.example/graph-data:v1 --releases oci:./mirror=registry.example/release --releases dir:./payloads

Releases are a repository of a registry, of which every tag is looked at; dir:PATH, a directory of NAME/release-manifests/release-metadata with the
pullspec in NAME/image, and of lists; oci:PATH=REPOSITORY, an OCI layout and the repository that clusters find its images in; or list:FILE.
Clusters ask at http://HOST:8081/api/upgrades_info/v1/graph. Addresses are HOST:PORT or :PORT; 0 is off.

The line `mainstay: update service ready address=ADDR:PORT` on standard output is for scripts. The page update-service.md describes the rest.")]
pub struct Arguments {
    /// A directory, a tar archive or an image with graph-data
    #[arg(long, value_name = "DIR|ARCHIVE|REF")]
    graph_data: String,
    /// Where releases are; may be given again
    #[arg(long, value_name = "PLACE", required = true)]
    releases: Vec<Place>,
    /// The prefix of paths
    #[arg(long, value_name = "PATH", default_value = "/api/upgrades_info")]
    path_prefix: String,
    /// Where clusters ask
    #[arg(long, value_name = "ADDR", default_value = ":8081")]
    address: String,
    /// Where /livez, /readyz and /metrics of that are
    #[arg(long, value_name = "ADDR", default_value = ":9081")]
    status_address: String,
    /// Where the whole graph is, for other policy engines
    #[arg(long, value_name = "ADDR", default_value = ":8080")]
    builder_address: String,
    /// Where the graph-data in use is, as tar.gz
    #[arg(long, value_name = "ADDR", default_value = ":8090")]
    public_address: String,
    /// Where /liveness, /readiness and /metrics of the builder are
    #[arg(long, value_name = "ADDR", default_value = ":9080")]
    builder_status_address: String,
    /// The time between two builds of the graph
    #[arg(long, value_name = "DURATION", default_value = "300s")]
    interval: String,
    /// The folder of what is kept between starts: without it every start looks at every image
    #[arg(long, value_name = "DIR")]
    cache_path: Option<PathBuf>,
    /// A folder of signatures, served at /signatures
    #[arg(long, value_name = "DIR")]
    signatures: Option<PathBuf>,
    /// The architecture of releases that name none [default: that of this machine]
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,
    /// A file of credentials for registries, in place of the user's
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// A folder of authorities to trust for registries
    #[arg(long, value_name = "DIR")]
    pull_cas_dir: Option<PathBuf>,
    /// Allow registries without verified TLS, and by plain HTTP
    #[arg(long)]
    insecure: bool,
    /// The serving certificate for clusters, with --tls-key; plain HTTP without
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// Runs the service until a signal.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let failed = |error: mainstay_update_service::Error| Failure::failed("update service", &error);
    runtime::block_on(async {
        let mut signals = Signals::take()?;
        let stop = CancellationToken::new();
        let files = arguments.tls_cert.clone().zip(arguments.tls_key.clone());
        let certificates = listeners::certificates("--tls-cert, --tls-key", files.as_ref(), &Env::system(), &stop)?;
        let tls = certificates.map(|certificates| Tls::new(&certificates, ClientCertificates::Ignored)).transpose();
        let config = Config {
            releases: arguments.releases.clone(),
            graph_data: graph_data(&arguments.graph_data)?,
            prefix: arguments.path_prefix.clone(),
            addresses: Addresses {
                policy: address("--address", &arguments.address)?,
                policy_status: address("--status-address", &arguments.status_address)?,
                builder: address("--builder-address", &arguments.builder_address)?,
                public: address("--public-address", &arguments.public_address)?,
                builder_status: address("--builder-status-address", &arguments.builder_status_address)?,
            },
            tls: tls.map_err(|error| Failure::of(Exit::Usage, "--tls-cert", &error))?,
            interval: duration("--interval", &arguments.interval)?,
            cache: arguments.cache_path.clone(),
            signatures: arguments.signatures.clone(),
            architecture: crate::commands::update_graph::architecture_or_default(arguments.arch.as_deref()),
            commit: mainstay_terminal::built::COMMIT.to_owned(),
            registries: registries(arguments)?,
        };
        let service = Service::open(config).await.map_err(failed)?;
        if let Some(address) = service.bound().policy {
            output::line(format!("mainstay: update service ready address={address}"))?;
        }
        let serving = tokio::spawn(service.run(stop.clone()));
        signals.next().await;
        stop.cancel();
        tokio::select! {
            ended = serving => ended.map_err(|error| Failure::failed("update service", &error)),
            () = signals.next() => Err(Failure::silent(Exit::Failed)),
        }
    })
}

fn graph_data(place: &str) -> Result<GraphDataPlace, Failure> {
    let path = PathBuf::from(place);
    if path.is_dir() {
        return Ok(GraphDataPlace::Directory(path));
    }
    if path.is_file() {
        return Ok(GraphDataPlace::Archive(path));
    }
    Reference::parse(place).map(GraphDataPlace::Image).map_err(|error| {
        Failure::of(Exit::Usage, "--graph-data", &error).hint("it is a directory, a tar archive, or an image with its registry")
    })
}

fn registries(arguments: &Arguments) -> Result<mainstay_oci::ClientConfig, Failure> {
    let mut config = images::config()?;
    config.insecure |= arguments.insecure;
    if let Some(file) = &arguments.credentials {
        let subject = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|error| Failure::of(Exit::Usage, &subject, &error))?;
        config.credentials = Credentials::parse(&subject, &text).map_err(|error| Failure::of(Exit::Usage, &subject, &error))?;
    }
    if let Some(folder) = &arguments.pull_cas_dir {
        let found =
            mainstay_image_source::registries::authorities(folder).map_err(|error| Failure::of(Exit::Usage, "--pull-cas-dir", &error))?;
        config.authorities.extend(found);
    }
    Ok(config)
}
