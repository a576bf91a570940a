//! `mainstay log-level`: reads or changes the log levels of a running program without a restart (MS-OPS-01).

use std::path::{Path, PathBuf};

use clap::Args;
use http::Uri;
use kube::Client;
use kube::config::AuthInfo;
use mainstay_operations::{Session, refused};
use mainstay_runtime::Cluster;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::{output, runtime};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::admin::LOG_LEVEL;
use crate::logging::Levels;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay log-level                                  what the running embedded cluster logs
  mainstay log-level info,olm-v1=debug,oci=trace      more of two components, from the next line on
  mainstay log-level info                             back again
  mainstay log-level warn --at https://127.0.0.1:8443 --certificate-authority ca.crt --token-file token
                                                      a process of mainstay run, at its --metrics-bind-address
  kubectl -n olmv1-system port-forward deployment/catalogd-controller-manager 7443 &
  mainstay log-level --at https://127.0.0.1:7443 --certificate-authority ca.crt --token-file token \\
    --tls-server-name catalogd-metrics.olmv1-system.svc
                                                      the same in a pod

Levels: off, error, warn, info, debug, trace.
Components: api, apply, autoscaler, catalogd, catalogs, clients, cloud-credential, cluster-operator, machine-api, machine-config,
mainstay, network-extras, oci, olm-v1, operator-controller, runtime, service-ca, store, workloads.

Who asks needs get, or put, on the path /mainstay/log-level; ClusterRole mainstay-log-level has both. With mainstay run the path is
authorised by the cluster that it works for. A restart goes back to --log-level.")]
pub struct Arguments {
    /// The levels from now on: LEVEL or LEVEL,COMPONENT=LEVEL,...; without them, what they are is printed
    #[arg(value_name = "LEVELS")]
    levels: Option<Levels>,
    /// A process of mainstay run, instead of an embedded cluster
    #[arg(long, value_name = "URL")]
    at: Option<Uri>,
    /// The authority of its certificate
    #[arg(long, value_name = "FILE", requires = "at")]
    certificate_authority: Option<PathBuf>,
    /// The name that its certificate has, where that of the URL is another
    #[arg(long, value_name = "NAME", requires = "at")]
    tls_server_name: Option<String>,
    /// The token to ask with, instead of the credentials of the kubeconfig
    #[arg(long, value_name = "FILE", requires = "at", conflicts_with_all = ["kubeconfig", "context", "embedded"])]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Reads or changes the levels.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let (client, place) = match &arguments.at {
            None => (session.client, session.server),
            Some(at) => (elsewhere(&session, at, arguments)?, at.to_string()),
        };
        let request = match &arguments.levels {
            None => http::Request::get(LOG_LEVEL).body(Vec::new()),
            Some(levels) => http::Request::put(LOG_LEVEL).body(levels.to_string().into_bytes()),
        };
        let request = request.map_err(|error| Failure::failed("log-level", &error))?;
        let subject = format!("log levels of {place}");
        let now = client.request_text(request).await.map_err(|error| match &error {
            kube::Error::Api(status) if status.code == 404 => {
                refused(subject, &error).hint("this is no embedded cluster of mainstay; --at URL names a process of mainstay run")
            }
            kube::Error::Api(_) => refused(subject, &error),
            _ if arguments.at.is_some() => mainstay_diagnostics::Failure::failed(subject, &error).hint(
                "--at is the --metrics-bind-address of the process; --certificate-authority and --tls-server-name are those of its \
                 certificate, which mainstay deploy signs with ca.crt of ConfigMap olmv1-ca",
            ),
            _ => refused(subject, &error),
        })?;
        if arguments.levels.is_some() {
            note(format!("log levels of {place} changed until it is started again"));
        }
        output::line(now.trim_end())
    })
}

/// A client of another process, one of `mainstay run`.
fn elsewhere(session: &Session, at: &Uri, arguments: &Arguments) -> Result<Client, Failure> {
    if at.scheme_str() != Some("https") {
        return Err(Failure::new(Exit::Usage, "--at", format!("expected https://HOST:PORT, found {at}")));
    }
    let Cluster::Remote(config) = &session.cluster else { return Err(Failure::new(Exit::Usage, "--at", "there is no kubeconfig")) };
    let mut config = kube::Config::clone(config);
    config.cluster_url = at.clone();
    config.tls_server_name.clone_from(&arguments.tls_server_name);
    config.root_cert = arguments.certificate_authority.as_deref().map(authorities).transpose()?;
    if let Some(file) = &arguments.token_file {
        let text = std::fs::read_to_string(file).map_err(|error| Failure::failed(format!("--token-file {}", file.display()), &error))?;
        config.auth_info = AuthInfo { token: Some(text.trim().to_owned().into()), ..AuthInfo::default() };
    }
    Client::try_from(config).map_err(|error| Failure::failed("--at", &error))
}

fn authorities(file: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let subject = format!("--certificate-authority {}", file.display());
    let read = CertificateDer::pem_file_iter(file).map_err(|error| Failure::failed(&subject, &error))?;
    read.map(|one| one.map(|one| one.to_vec())).collect::<Result<_, _>>().map_err(|error| Failure::failed(subject, &error))
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;
    use crate::logging::levels;

    /// MS-OPS-01: the help names every component and level.
    #[test]
    fn the_help_names_the_components() {
        let help = Arguments::augment_args(clap::Command::new("log-level")).get_after_help().map(ToString::to_string).unwrap_or_default();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let hint = levels::hint();
        let listed = hint.split("components are ").nth(1).unwrap_or_default();
        assert!(!listed.is_empty() && words.contains(&format!("{listed}.")), "{listed}");
    }
}
