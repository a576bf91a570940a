//! `mainstay run machine-config-server`: first configurations of machines (MACH-MCS-01).

use std::path::PathBuf;

use clap::Args;
use mainstay_machine_config_server::{Config, Service};
use mainstay_runtime::Env;
use mainstay_serve::{ClientCertificates, Tls};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::{output, runtime};
use tokio_util::sync::CancellationToken;

use super::flags::address;
use super::listeners;
use crate::up::Signals;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay run machine-config-server --tls-cert tls.crt --tls-key tls.key
  mainstay run machine-config-server --secure-address 0 --plain-address 127.0.0.1:22624
  mainstay run machine-config-server --tls-cert tls.crt --tls-key tls.key --apiserver-url https://api-int.example:6443

A machine asks at https://HOST:22623/config/POOL, with the version of Ignition configs that it reads in its Accept header:
  curl -H 'Accept: application/vnd.coreos.ignition+json;version=3.4.0' https://api-int.example:22623/config/worker

Machines have no credentials yet, so whoever reaches the server gets the files of nodes, pull secrets and the bootstrapper's token among them: keep the
pod network and strangers from both ports. Machines join with the token in Secret node-bootstrapper-token of namespace
openshift-machine-config-operator. Addresses are HOST:PORT or :PORT; 0 is off.

The line `mainstay: config server ready address=ADDR:PORT` on standard output is for scripts.")]
pub struct Arguments {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Where it listens with TLS
    #[arg(long, value_name = "ADDR", default_value = ":22623")]
    secure_address: String,
    /// Where it listens without, for clients that know no authority
    #[arg(long, value_name = "ADDR", default_value = "0")]
    plain_address: String,
    /// The serving certificate, with --tls-key; both are read again when they change
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The URL of the API for machines [default: apiServerInternalURI of Infrastructure cluster]
    #[arg(long, value_name = "URL")]
    apiserver_url: Option<String>,
}

/// Serves until a signal.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let failed = |error: mainstay_machine_config_server::Error| Failure::failed("config server", &error);
    let secure = address("--secure-address", &arguments.secure_address)?;
    let plain = address("--plain-address", &arguments.plain_address)?;
    let files = arguments.tls_cert.clone().zip(arguments.tls_key.clone());
    if secure.is_some() && files.is_none() {
        return Err(Failure::new(Exit::Usage, "--secure-address", "needs a certificate")
            .hint("give --tls-cert and --tls-key, or --secure-address 0 to serve by --plain-address alone"));
    }
    if secure.is_none() && plain.is_none() {
        return Err(Failure::new(Exit::Usage, "--secure-address, --plain-address", "both are off: nothing would be served"));
    }
    runtime::block_on(async {
        let mut signals = Signals::take()?;
        let session = arguments.cluster.open().await?;
        note(format!("cluster: {} ({})", session.context, session.server));
        let stop = CancellationToken::new();
        let certificates = listeners::certificates("--tls-cert, --tls-key", files.as_ref(), &Env::system(), &stop)?;
        let tls = certificates.map(|certificates| Tls::new(&certificates, ClientCertificates::Ignored)).transpose();
        let tls = tls.map_err(|error| Failure::of(Exit::Usage, "--tls-cert", &error))?;
        let config = Config { secure: secure.zip(tls), plain, api_url: arguments.apiserver_url.clone() };
        let service = Service::open(config).await.map_err(failed)?;
        let bound = service.bound();
        if let Some(address) = bound.secure.or(bound.plain) {
            output::line(format!("mainstay: config server ready address={address}"))?;
        }
        let (cluster, until) = (session.cluster.clone(), stop.clone());
        let serving = tokio::spawn(async move { service.run(&cluster, until).await });
        signals.next().await;
        stop.cancel();
        tokio::select! {
            ended = serving => match ended {
                Ok(ended) => ended.map_err(failed),
                Err(error) => Err(Failure::failed("config server", &error)),
            },
            () = signals.next() => Err(Failure::silent(Exit::Failed)),
        }
    })
}
