//! `mainstay run cluster-version`: the Cluster Version Operator on an existing cluster (CVO-RUN-01 to CVO-RUN-07).
//!
//! ```text
//!   flags, environment ──► rival? ──► Lease `version` ──► kinds, metrics, the operator
//! ```

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use mainstay_apply::{WriteError, Writer};
use mainstay_cluster_version::{NAMESPACE, Services};
use mainstay_cluster_version_core::rival::{DEPLOYMENT, rival};
use mainstay_objects::{ObjectRef, Step};
use mainstay_operations::{Session, cluster_install};
use mainstay_runtime::leader::{self, Candidate, Ended, Times};
use mainstay_runtime::{Env, Gate, Kinds, Reviews};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::{output, runtime};
use mainstay_update_client::{Metrics, MetricsConfig};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::bootstrap;
use super::cluster_version_settings::{self as settings, Environment, LEASE, Start};
use super::flags::{address, duration};
use super::health::{Health, State};
use super::listeners::{self, Operations};
use super::registries::Registries;
use crate::admin;
use crate::logging::Format;
use crate::up::Signals;

/// The time of a stop before the process ends anyway (CVO-RUN-04).
const GRACE: Duration = Duration::from_secs(120);
/// The field manager of what is made before the operator works.
const MANAGER: &str = "mainstay-run";

/// Arguments.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  mainstay run cluster-version --kubeconfig admin.kubeconfig
  mainstay run cluster-version --listen 0.0.0.0:9099 --serving-cert-file tls.crt --serving-key-file tls.key
  mainstay run cluster-version --update-service https://updates.example/graph --enable-auto-update
  mainstay run cluster-version --retriever pod --node-name master-0
  mainstay run cluster-version image etcd --release-image registry.example/release:1.0.0
  mainstay run cluster-version render --output-dir out --release-image registry.example/release:1.0.0

The operator needs the permissions of a cluster administrator, as it creates every object of a release. mainstay adm release install makes the
ClusterVersion; until there is one, the operator waits. Releases are verified by the keys of the release in force, and pulled by this process, through the
mirrors and with the pull secret of the cluster beside those of its user. With --retriever pod, pods on the node of this process run the release image
and copy its content to --payloads-dir; they are privileged, and need an OpenShift cluster: the node's label node-role.kubernetes.io/master and
PriorityClass openshift-user-critical. One process works, the holder of Lease version in openshift-cluster-version; others wait for it.
Where another Cluster Version Operator is deployed, as on OpenShift, this one does not start unless told to by --take-over cluster-version.

Metrics need a certificate, and are served by the process that works, to those who may get /metrics; the files are read again when they change.

Environment: CVO_NAMESPACE (the namespace of the Lease), NODE_NAME, PAYLOAD_OVERRIDE (a folder with the content of --release-image),
EXCLUDE_MANIFESTS (an identifier whose exclusions count), CLUSTER_PROFILE [default: self-managed-high-availability]."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    start: Start,
}

impl Arguments {
    /// The layout of log lines.
    pub fn log_format(&self) -> Format {
        match &self.command {
            Some(Command::Start(start)) => start.log_format,
            _ => self.start.log_format,
        }
    }
}

/// Subcommands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator, as without a subcommand
    Start(Box<Start>),
    /// Print the pullspec of an image of a release
    Image {
        /// The name of the image, such as etcd
        name: String,
        /// The release: an image, a folder, an OCI layout or an archive [default: PAYLOAD_OVERRIDE]
        #[arg(long, value_name = "DIR|IMAGE")]
        release_image: Option<String>,
    },
    /// Write the manifests with which a cluster begins
    Render(bootstrap::Arguments),
    /// Print the version of the operator
    Version,
}

/// Runs a subcommand, or the operator until a signal.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Some(Command::Version) => output::line(format!("ClusterVersionOperator mainstay-{}", env!("CARGO_PKG_VERSION"))),
        Some(Command::Image { name, release_image }) => settings::image(name, release_image.as_deref()),
        Some(Command::Render(arguments)) => bootstrap::run(arguments),
        Some(Command::Start(flags)) => start(flags),
        None => start(&arguments.start),
    }
}

fn start(flags: &Start) -> Result<(), Failure> {
    let environment = Environment::of_process(flags.release_image.as_deref())?;
    let pods = settings::pods(flags, &environment)?;
    let metrics = address("--listen", &flags.listen)?;
    let probes = address("--health-probe-bind-address", &flags.health_probe_bind_address)?;
    runtime::block_on(async {
        let mut signals = Signals::take()?;
        let session = flags.cluster.open().await?;
        note(format!("cluster: {} ({})", session.context, session.server));
        let (env, stop, gate) = (Env::system(), CancellationToken::new(), Gate::default());
        let health = Arc::new(Health::default());
        // The supervisor of this process can see that it is stopping until it has stopped.
        let listening = CancellationToken::new();
        let _ended_last = listening.clone().drop_guard();
        listeners::health(probes.as_ref(), health.clone(), &listening).await?;
        alone(&session, flags).await?;
        let times = times(&session, flags).await?;
        let files = flags.serving_cert_file.clone().zip(flags.serving_key_file.clone());
        let certificates = listeners::certificates("--serving-cert-file, --serving-key-file", files.as_ref(), &env, &stop)?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": environment.namespace}});
        let steps = [Step::CreateOnce(namespace)];
        session.writer.execute(&steps, |_| {}).await.map_err(|error| Failure::failed("namespace of the operator", &*error))?;
        let identity = leader::identity(&super::host());
        let candidate = Candidate::new(session.client.clone(), &environment.namespace, LEASE, &identity, times).guarding(&gate);
        tracing::info!(namespace = environment.namespace, lease = LEASE, identity, "started");
        health.set(State::Following);
        let failed = Arc::new(std::sync::OnceLock::new());
        let leading = leader::lead(vec![candidate], &stop, |working| {
            let (failed, health) = (failed.clone(), health.clone());
            let (session, environment, env, gate, certificates) = (&session, &environment, env.clone(), &gate, certificates.as_ref());
            let pods = pods.as_ref();
            async move {
                health.set(State::TakingOver);
                let cluster = session.cluster.clone().guarded(gate);
                let work = async {
                    if let (Some(address), Some(certificates)) = (metrics, certificates) {
                        serve(session, &env, address, certificates, flags.hypershift, &working).await?;
                    }
                    let client = cluster.client().map_err(|error| Failure::failed("cluster", &error))?;
                    let writer = Writer::new(client.clone(), Kinds::new(client), MANAGER);
                    for name in cluster_install::install_kinds(&writer).await? {
                        tracing::info!(name, "definition created");
                    }
                    let metrics = Metrics::new(risks(session, flags).await?);
                    let agent = mainstay_update_client::user_agent(env!("CARGO_PKG_VERSION"));
                    let updates = Services::new(Vec::new(), metrics, agent);
                    let registries = Registries::open(&cluster, &env)?;
                    let releases = settings::releases(environment, &env, registries.clients(), pods, &writer);
                    let config = settings::config(flags, environment, &env, updates, releases);
                    health.set(State::Leading);
                    let watched = tokio::spawn(registries.watch(working.clone()));
                    let ended = mainstay_cluster_version::run(cluster, env.clone(), config, working.clone()).await;
                    watched.abort();
                    ended.map_err(|error| Failure::failed("cluster-version", &error))
                };
                if let Err(failure) = work.await {
                    // Set once: the work is done once.
                    let _ = failed.set(failure);
                }
                health.set(State::Ending);
            }
        });
        let ended = tokio::select! {
            ended = leading => ended,
            () = impatience(async || signals.next().await, || { health.set(State::Ending); stop.cancel(); }) => {
                return Err(Failure::silent(Exit::Failed));
            }
        };
        stop.cancel();
        match ended {
            Ended::Stopped => Ok(()),
            Ended::Finished => Err(Arc::into_inner(failed)
                .and_then(std::sync::OnceLock::into_inner)
                .unwrap_or_else(|| Failure::new(Exit::Failed, "cluster-version", "ended by itself"))),
            Ended::Lost { .. } => Err(Failure::new(Exit::Failed, "leader election", "lost; nothing more is done by this process")
                .hint("it is meant to be started again, as a Deployment does")),
        }
    })
}

/// Stops at the first signal, and returns when a second one comes or the stop takes too long (CVO-RUN-04).
async fn impatience(mut signal: impl AsyncFnMut(), stop: impl FnOnce()) {
    signal().await;
    stop();
    tokio::select! {
        () = signal() => {}
        () = tokio::time::sleep(GRACE) => tracing::error!("the stop took too long"),
    }
}

/// Refuses to work beside another operator (CVO-RUN-07), and says for whom this process waits.
async fn alone(session: &Session, flags: &Start) -> Result<(), Failure> {
    let deployment = read(session, "apps/v1", "Deployment", NAMESPACE, DEPLOYMENT).await?;
    let cluster_version = read(session, "config.openshift.io/v1", "ClusterVersion", "", "version").await?;
    if let Some(rival) = rival(deployment.as_ref(), cluster_version.as_ref())
        && flags.take_over.is_none()
    {
        return Err(Failure::of(Exit::Failed, format!("deployment {NAMESPACE}/{DEPLOYMENT}"), &rival)
            .hint("mainstay run cluster-version --take-over cluster-version works beside it, when it does not hold Lease version"));
    }
    let lease = read(session, "coordination.k8s.io/v1", "Lease", NAMESPACE, LEASE).await?;
    let holder = lease.as_ref().and_then(|lease| lease["spec"]["holderIdentity"].as_str()).unwrap_or_default();
    if !holder.is_empty() {
        tracing::info!(holder, "waits until Lease {LEASE} is released or expires");
    }
    Ok(())
}

/// The object; none if the cluster does not have it or its kind.
async fn read(session: &Session, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
    let place = ObjectRef { api_version: api_version.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() };
    match session.writer.get(&place).await {
        Err(WriteError::Kind { .. }) => Ok(None),
        found => found.map_err(|error| Failure::failed(format!("{} {name}", kind.to_lowercase()), &error)),
    }
}

/// The times of the Lease: longer where the only API server is down for every update of its node (CVO-RUN-03).
async fn times(session: &Session, flags: &Start) -> Result<Times, Failure> {
    let infrastructure = read(session, "config.openshift.io/v1", "Infrastructure", "", "cluster").await?;
    let usual = settings::usual_times(infrastructure.as_ref());
    let given = |flag: &str, text: Option<&String>, usual| text.map_or(Ok(usual), |text| duration(flag, text));
    let times = Times {
        lease: given("--leader-elect-lease-duration", flags.leader_elect_lease_duration.as_ref(), usual.lease)?,
        renew: given("--leader-elect-renew-deadline", flags.leader_elect_renew_deadline.as_ref(), usual.renew)?,
        retry: given("--leader-elect-retry-period", flags.leader_elect_retry_period.as_ref(), usual.retry)?,
    };
    times.check().map_err(|problem| super::flags::usage("--leader-elect-lease-duration", problem))?;
    Ok(times)
}

/// Serves metrics (CVO-MET-01).
async fn serve(
    session: &Session,
    env: &Env,
    address: std::net::SocketAddr,
    certificates: &mainstay_serve::Certificates,
    is_open: bool,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let routes = if is_open {
        admin::of_plain_run(env.metrics().clone())
    } else {
        admin::of_run(env.metrics().clone(), Arc::new(Reviews::new(session.client.clone())))
    };
    let operations = Operations { flag: "--listen", address, is_default: false, certificates: Some(certificates), client_ca: None };
    listeners::operations(Some(operations), routes, stop).await
}

/// Where risks of updates are asked for (CVO-RISK-04).
async fn risks(session: &Session, flags: &Start) -> Result<MetricsConfig, Failure> {
    let (namespace, name) = (flags.metrics_namespace.as_str(), flags.metrics_service.as_str());
    let has_service =
        flags.metrics_url.is_none() && (flags.use_dns_for_services || read(session, "v1", "Service", namespace, name).await?.is_some());
    Ok(settings::metrics(flags, has_service))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    /// CVO-RUN-04: the first signal begins a stop that may take two minutes; the second one ends it at once.
    #[tokio::test(start_paused = true)]
    async fn two_minutes_or_a_second_signal() {
        // Signals after these seconds, the stop, and the end.
        for (signals, stopped, ended) in [(vec![5, 1], 5, 6), (vec![5, 119], 5, 124), (vec![5, 300], 5, 125), (vec![0], 0, 120)] {
            let (began, stops) = (Instant::now(), Cell::new(None));
            let mut waits = signals.clone().into_iter();
            let signal = async || match waits.next() {
                Some(wait) => tokio::time::sleep(Duration::from_secs(wait)).await,
                None => std::future::pending().await,
            };
            impatience(signal, || stops.set(Some(began.elapsed().as_secs()))).await;
            assert_eq!((stops.get(), began.elapsed().as_secs()), (Some(stopped), ended), "{signals:?}");
        }
    }
}
