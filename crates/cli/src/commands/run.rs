//! `mainstay run`: runs the controllers against an existing cluster (MS-CLI-04).
//!
//! ```text
//!   flags ──► plan ──► health, metrics, webhook of catalogs ──► Leases ──► the components, and catalogd's listener
//!                       on every replica                         one replica
//! ```

mod bootstrap;
mod classic;
mod cluster_version;
mod cluster_version_settings;
mod flags;
mod health;
mod listeners;
mod machine_config_server;
mod registries;
mod update_service;
mod work;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgAction, Args, Subcommand};
use mainstay_runtime::leader::{self, Candidate, Ended};
use mainstay_runtime::{Env, Gate, Reviews};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::runtime;
use tokio_util::sync::CancellationToken;

use crate::admin;
use crate::logging::Format;
use crate::up::Signals;
use health::{Health, State};
use listeners::Operations;

/// Arguments.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Components:
  olm-v1               catalogd and operator-controller in one process
  catalogd             ClusterCatalogs: unpacks and serves catalogs
  operator-controller  ClusterExtensions: installs and upgrades
  service-ca           serving certificates for Services
  cluster-olm-operator OpenShift's default catalogs, proxy, gates and upgrade guard; waits where its kinds are not served
  all                  all of these
  olm-classic          the next four in one process
  catalog-operator     CatalogSources, Subscriptions and InstallPlans; catalogs and bundles are read by this process, without pods
  olm-operator         ClusterServiceVersions and OperatorGroups, also without catalog-operator
  package-server       PackageManifests, with catalog-operator in the same process
  marketplace          OperatorHub and the default catalogs
  cloud-credential     Secrets for CredentialsRequests: by tokens, or passed on; nothing is minted
  network-extras       the status of Proxy cluster, and trusted CA certificates for ConfigMaps that ask for them
  storage-migrator     writes objects again whose kind is stored in another version now; its kinds come with mainstay deploy
  machine-config       MachineConfigs, pools and their roll-out, drains; nodes that are simulated have their daemons here
  machine-api          Machines, their sets, health checks, drains and certificates of nodes; not beside a machine-api-operator
  autoscaler           sets of machines grow for pods without a node and shrink when nodes are not needed, as ClusterAutoscaler default and
                       MachineAutoscalers say; not beside a cluster-autoscaler-operator
  update-service       which release a cluster can be updated to; needs no cluster, and has flags of its own
  cluster-version      the release of the cluster's platform, and updates of it; has flags of its own
  machine-config-server  first configurations of machines (Ignition configs); has flags of its own

Examples:
  mainstay run olm-v1 --cache-path /tmp/olm-v1 --catalogs-server-addr 127.0.0.1:8443 --external-address 127.0.0.1:8443
  mainstay run operator-controller --leader-elect --catalogd-cas-dir /var/certs
  mainstay run catalogd --leader-elect --tls-cert tls.crt --tls-key tls.key
  mainstay run olm-classic --leader-elect --unhealthy-catalogs isolate
  mainstay run olm-operator --watchedNamespaces team-a,team-b
  mainstay run storage-migrator --leader-elect
  mainstay run machine-api --leader-elect --provider qemu=/usr/local/bin/qemu-provider

Flags have the names and defaults of operator-controller and catalogd, and of the two operators of OLM classic. Addresses are HOST:PORT or :PORT; 0 means off. With both controllers in
one process the metrics of both are at the address of catalogd's. Who reads them needs get on /metrics (ClusterRole NAME-metrics-reader of
mainstay deploy has it), and this process the right to create tokenreviews and subjectaccessreviews; at the same address, mainstay log-level
reads and changes what is logged. With --leader-elect, Leases in the system namespace decide which replica works;
the others serve health, metrics and the webhook alone. catalogd's content is served by the leader; with POD_IP set, it makes the Service of
--external-address lead to itself. Given a certificate, catalogd serves the webhook that labels catalogs with their name; mainstay deploy tells
the API server of it.

The OLM operator is as powerful as a cluster administrator. Beside it, package-server and marketplace act as the accounts that mainstay deploy
makes for them. Packages are served by the leader; with POD_IP set, it makes the Service of the package server lead to itself."
)]
pub struct Arguments {
    #[command(subcommand)]
    alone: Option<Alone>,
    /// What to run: names, separated by commas, or all
    #[arg(value_name = "COMPONENT", value_delimiter = ',', required = true)]
    components: Vec<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Where metrics are served, by HTTPS, to those who may get /metrics [default: off; :8443, with catalogd :7443, when --tls-cert is given;
    /// for OLM classic alone :8080 without it, by HTTP and to anybody; its /healthz is there, too]
    #[arg(long, value_name = "ADDR")]
    metrics_bind_address: Option<String>,
    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "ADDR", default_value = ":8081")]
    health_probe_bind_address: String,
    /// Accepted for compatibility: this program has no profiles to serve
    #[arg(long, value_name = "ADDR", default_value = "0")]
    pprof_bind_address: String,
    /// Work only while a Lease is held
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    leader_elect: bool,
    /// How long a Lease counts that is not renewed
    #[arg(long, value_name = "DURATION", default_value = "137s")]
    leader_elect_lease_duration: String,
    /// How long a leader may fail to renew before it stops
    #[arg(long, value_name = "DURATION", default_value = "107s")]
    leader_elect_renew_deadline: String,
    /// Between two looks at a Lease
    #[arg(long, value_name = "DURATION", default_value = "26s")]
    leader_elect_retry_period: String,
    /// The namespace of records and Leases [default: the namespace of the pod; outside of pods olmv1-system, openshift-service-ca for
    /// service-ca alone (likewise for cloud-credential, network-extras, storage-migrator, machine-config, machine-api and autoscaler), or openshift-operator-lifecycle-manager for components of OLM classic alone]
    #[arg(long, value_name = "NAMESPACE")]
    system_namespace: Option<String>,
    /// The folder of caches; only unpack and catalogs below it are touched
    #[arg(long, alias = "cache-dir", value_name = "DIR", default_value = "/var/cache")]
    cache_path: PathBuf,
    /// A folder of authorities to trust for catalogd
    #[arg(long, value_name = "DIR")]
    catalogd_cas_dir: Option<PathBuf>,
    /// A folder of authorities to trust for image registries
    #[arg(long, value_name = "DIR")]
    pull_cas_dir: Option<PathBuf>,
    /// The serving certificate, with --tls-key; both are read again when they change
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// A Secret with credentials for every pull
    #[arg(long, value_name = "NAMESPACE/NAME")]
    global_pull_secret: Option<String>,
    /// Where catalogs are served; HTTPS when --tls-cert is given [default: :8443]
    #[arg(long, value_name = "ADDR", help_heading = "catalogd")]
    catalogs_server_addr: Option<String>,
    /// The address of that for others, HOST or HOST:PORT [default: catalogd-service.olmv1-system.svc]
    #[arg(long, value_name = "ADDR", help_heading = "catalogd")]
    external_address: Option<String>,
    /// How often content that no catalog refers to is removed [default: 12h]
    #[arg(long, value_name = "DURATION", help_heading = "catalogd")]
    gc_interval: Option<String>,
    /// The port of the webhook that labels catalogs, by HTTPS; 0 means off [default: 9443 when a certificate is given]
    #[arg(long, value_name = "PORT", help_heading = "catalogd")]
    webhook_server_port: Option<u16>,
    /// Its serving certificate, with --webhook-tls-key; both are read again when they change [default: that of --tls-cert]
    #[arg(long, value_name = "FILE", help_heading = "catalogd")]
    webhook_tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", help_heading = "catalogd")]
    webhook_tls_key: Option<PathBuf>,
    /// Gates: NAME=true|false,...
    #[arg(long, value_name = "LIST", default_value = "")]
    feature_gates: String,
    /// Ignore spec.serviceAccount of extensions: install with the identity of this process, which needs the permissions for that
    #[arg(long, help_heading = "operator-controller")]
    use_own_service_account: bool,
    /// Objects that are written in a second when the storage version of their kind changes
    #[arg(long, value_name = "NUMBER", default_value_t = flags::MIGRATION_WRITES, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "storage-migrator")]
    migration_writes_per_second: u32,
    /// A program that makes instances for machines whose provider has this name; can be repeated
    #[arg(long, value_name = "NAME=PROGRAM", help_heading = "machine-api")]
    provider: Vec<String>,
    #[command(flatten)]
    classic: classic::ClassicArguments,
    /// The layout of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    log_format: Format,
}

impl Arguments {
    /// The layout of log lines.
    pub fn log_format(&self) -> Format {
        match &self.alone {
            Some(Alone::ClusterVersion(arguments)) => arguments.log_format(),
            _ => self.log_format,
        }
    }
}

/// Components with flags of their own; each runs alone.
#[derive(Debug, Subcommand)]
enum Alone {
    /// Build and serve update graphs for clusters
    UpdateService(Box<update_service::Arguments>),
    /// Bring a cluster to a release of its platform, and keep it there
    ClusterVersion(Box<cluster_version::Arguments>),
    /// Serve machines their first configuration
    MachineConfigServer(Box<machine_config_server::Arguments>),
}

/// Runs the components until a signal.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.alone {
        Some(Alone::UpdateService(arguments)) => return update_service::run(arguments),
        Some(Alone::ClusterVersion(arguments)) => return cluster_version::run(arguments),
        Some(Alone::MachineConfigServer(arguments)) => return machine_config_server::run(arguments),
        None => {}
    }
    let plan = flags::plan(arguments)?;
    for said in &plan.notes {
        tracing::warn!("{said}");
    }
    runtime::block_on(async {
        let mut signals = Signals::take()?;
        let session = arguments.cluster.open().await?;
        note(format!("cluster: {} ({})", session.context, session.server));
        let (env, health, stop) = (Env::system(), Arc::new(Health::default()), CancellationToken::new());
        let certificates = listeners::certificates("--tls-cert, --tls-key", plan.tls.as_ref(), &env, &stop)?;
        // A component that has lost a Lease may go on for a while before it is told to stop; it writes nothing.
        let gate = Gate::default();
        let work = work::open(&plan, &session.cluster.clone().guarded(&gate), &env)?;
        // The supervisor of this process can see that it is stopping until it has stopped.
        let listening = CancellationToken::new();
        let _ended_last = listening.clone().drop_guard();
        listeners::health(plan.health.as_ref(), health.clone(), &listening).await?;
        let routes = match &certificates {
            Some(_) => admin::of_run(env.metrics().clone(), Arc::new(Reviews::new(session.client.clone()))),
            None => admin::of_plain_run(env.metrics().clone()),
        };
        // OLM's own operators answer for their health beside their metrics.
        let routes = if plan.has_classic() { routes.merge(health::router(health.clone())) } else { routes };
        let operations = plan.metrics.map(|address| Operations {
            flag: "--metrics-bind-address",
            address,
            is_default: plan.metrics_by_default,
            certificates: certificates.as_ref(),
            client_ca: plan.classic.client_ca.as_ref(),
        });
        listeners::operations(operations, routes, &listening).await?;
        listeners::webhook(plan.webhook.as_ref(), certificates.as_ref(), &env, &listening).await?;
        let identity = leader::identity(&host());
        let candidates: Vec<Candidate> = plan
            .leases
            .iter()
            .map(|name| Candidate::new(session.client.clone(), &plan.system_namespace, name, &identity, plan.times).guarding(&gate))
            .collect();
        let names: Vec<&str> = plan.components.iter().map(|component| component.name()).collect();
        tracing::info!(components = names.join(","), namespace = plan.system_namespace, leases = plan.leases.join(","), "started");
        health.set(State::Following);
        let failed = Arc::new(std::sync::OnceLock::new());
        let leading = leader::lead(candidates, &stop, |working| {
            let (health, failed) = (health.clone(), failed.clone());
            async move {
                if let Err(failure) = work.run(&plan, certificates, &health, working).await {
                    // Set once: the work is done once.
                    let _ = failed.set(failure);
                }
                health.set(State::Ending);
            }
        });
        let ended = tokio::select! {
            ended = leading => ended,
            // The first signal stops gracefully, the second at once.
            () = async { signals.next().await; health.set(State::Ending); stop.cancel(); signals.next().await; } => {
                return Err(Failure::silent(Exit::Failed));
            }
        };
        stop.cancel();
        match ended {
            Ended::Stopped => Ok(()),
            Ended::Finished => Err(Arc::into_inner(failed)
                .and_then(std::sync::OnceLock::into_inner)
                .unwrap_or_else(|| Failure::new(Exit::Failed, names.join(","), "ended by itself"))),
            Ended::Lost { .. } => Err(Failure::new(Exit::Failed, "leader election", "lost; nothing more is done by this process")
                .hint("it is meant to be started again, as a Deployment does")),
        }
    })
}

/// The name of this machine or pod.
fn host() -> String {
    mainstay_apiserver::access::pki::host_name().unwrap_or_else(|| "mainstay".to_owned())
}
