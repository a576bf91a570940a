//! The Machine Config Operator of `mainstay up`: kinds, accounts, the operator itself, and the config server (MACH-OPER-01, MACH-MCS-01).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Extensions;
use clap::Args;
use mainstay_api::Manifest;
use mainstay_apiserver::TrustedIdentity;
use mainstay_apply::Writer;
use mainstay_cluster_operators::base;
use mainstay_machine_config::{ACCOUNT, Config, NAMESPACE, manifests};
use mainstay_machine_config_server as config_server;
use mainstay_rbac::UserInfo;
use mainstay_runtime::Env;
use mainstay_serve::{Certificates, ClientCertificates, Tls};
use mainstay_terminal::errors::Failure;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::components::apply;
use super::platform::definitions;
use super::{Apis, Options};

/// The definitions of registries' configuration.
const REGISTRIES: [&str; 4] = [
    "imagedigestmirrorsets.config.openshift.io",
    "imagetagmirrorsets.config.openshift.io",
    "imagecontentsourcepolicies.operator.openshift.io",
    "images.config.openshift.io",
];
/// Name of the component, and of its ClusterOperator.
pub const NAME: &str = "machine-config";

fn machine_config_operator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

/// Arguments.
#[derive(Clone, Debug, Args)]
#[group(skip)]
#[command(next_help_heading = "Configuration of nodes")]
pub struct Arguments {
    /// Where machines get their first configuration by HTTPS, with the certificate of the API; port 0 is a free port
    ///
    /// The files of nodes, pull secrets among them, go to everybody who reaches it.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    machine_config_server: SocketAddr,
    /// The same by plain HTTP [default: off]
    #[arg(long, value_name = "ADDR:PORT")]
    machine_config_server_plain: Option<SocketAddr>,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { machine_config_server: SocketAddr::from(([127, 0, 0, 1], 0)), machine_config_server_plain: None }
    }
}

fn machine_config_server(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, config_server::ACCOUNT))));
}

/// The kinds of registries' configuration, which a release brings otherwise.
fn registries() -> Result<Vec<Manifest>, Failure> {
    let all = base::definitions().map_err(|error| Failure::failed("manifests of registries", &error))?;
    let wanted = |object: &Value| REGISTRIES.iter().any(|name| object["metadata"]["name"] == *name);
    let manifest = |object: Value| Manifest { file: String::new(), definition: object };
    Ok(all.into_iter().map(|candidate| candidate.object).filter(wanted).map(manifest).collect())
}

/// Makes kinds and account, and starts the operator. Returns the URL of the config server. `release` is what the release that is being applied says of its operators.
#[allow(clippy::too_many_arguments, reason = "the parts of a cluster, as its neighbours get them")]
pub async fn start(
    apis: &Apis,
    options: &Options,
    env: &Env,
    writer: &Writer,
    release: Option<watch::Receiver<Arc<[Value]>>>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
    tell: &mut impl FnMut(&str, &str, Duration),
) -> Result<Option<String>, Failure> {
    let begun = Instant::now();
    let kinds = mainstay_api::machine_config_manifests().map_err(|error| Failure::failed("manifests of machine-config", &error))?;
    definitions(writer, &kinds).await?;
    if !options.release.any() {
        definitions(writer, &registries()?).await?;
    }
    for object in manifests().iter().chain(&config_server::manifests()) {
        apply(writer, object).await?;
    }
    let config = Config { reboot: options.simulation.reboot_delay(), release };
    let (of, around, until) = (apis.in_process(machine_config_operator), env.clone(), stop.clone());
    tasks.spawn(async move {
        if let Err(error) = mainstay_machine_config::run(of, around, config, until).await {
            tracing::error!(error = &error as &dyn std::error::Error, "the Machine Config Operator ended");
        }
    });
    tell(NAME, "configuration of nodes; disks and reboots are simulated", begun.elapsed());
    serve(apis, options, stop, tasks, tell).await
}

/// Starts the config server.
async fn serve(
    apis: &Apis,
    options: &Options,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
    tell: &mut impl FnMut(&str, &str, Duration),
) -> Result<Option<String>, Failure> {
    let begun = Instant::now();
    let pki = options.data_dir.join("pki");
    let certificates = Certificates::from_files(&pki.join("apiserver.crt"), &pki.join("apiserver.key"));
    let tls = certificates.and_then(|certificates| Tls::new(&certificates, ClientCertificates::Ignored));
    let tls = tls.map_err(|error| Failure::failed("--machine-config-server", &error))?;
    let config = config_server::Config {
        secure: Some((options.machine_config.machine_config_server, tls)),
        plain: options.machine_config.machine_config_server_plain,
        api_url: Some(apis.url.clone()),
    };
    let service = config_server::Service::open(config).await.map_err(|error| {
        Failure::failed("--machine-config-server", &error)
            .hint("--machine-config-server ADDR:PORT chooses another place, port 0 a free port")
    })?;
    let bound = service.bound();
    let (of, until) = (apis.in_process(machine_config_server), stop.clone());
    tasks.spawn(async move {
        if let Err(error) = service.run(&of, until).await {
            tracing::error!(error = &error as &dyn std::error::Error, "the config server ended");
        }
    });
    let urls = bound.secure.map(|address| format!("https://{address}/config/POOL"));
    let plain = bound.plain.map(|address| format!("http://{address}/config/POOL"));
    let shown: Vec<String> = urls.into_iter().chain(plain).collect();
    tell("config-server", &shown.join(", "), begun.elapsed());
    Ok(bound.secure.map(|address| format!("https://{}", reachable(address))))
}

/// The address at which this host reaches a listener: one of all interfaces is reached at the loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let host = address.ip();
    let host = if host.is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { host };
    SocketAddr::new(host, address.port())
}
