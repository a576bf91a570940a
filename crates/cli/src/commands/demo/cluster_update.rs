//! `mainstay demo cluster-update`: all that the update of a cluster needs on this machine, with content of our own (CVO-SIM-06).
//!
//! ```text
//!   registry ◄── sample releases, signed with a new key        update service ◄── the registry, graph-data, signatures
//!   metrics endpoint, whose value decides a risk               the commands to type, with their values
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use mainstay_oci::{Client, Reference};
use mainstay_release_samples::metrics::Endpoint;
use mainstay_release_samples::{Published, SigningKey, Target, graph_data, payload, publish, write_files};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::{images, output, runtime};
use mainstay_update_service::{Addresses, Config, GraphDataPlace, Place, Service};
use tokio_util::sync::CancellationToken;

use super::{heading, serve_registry};
use crate::up::{self, Cluster, Signals};

/// The prefix of the update service's paths.
const PREFIX: &str = "/api/upgrades_info";
/// The time between two builds of the graph: changes of graph-data show soon.
const INTERVAL: Duration = Duration::from_secs(2);

/// The components of the cluster, and its simulated nodes.
const COMPONENTS: &str = "controllers,scheduler,nodes,network-extras,cluster-version";
const NODES: u32 = 3;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay demo cluster-update                    in one terminal; the commands that it prints in another
  mainstay demo cluster-update --without-cluster  releases and services for a cluster of yours
  mainstay demo cluster-update --folder ./sample  keep payloads, graph-data and signatures
  curl -X PUT -d 1 http://ADDR/value              the risk that metrics decide applies from now on; 0: it does not

There are four releases: 4.18.1, 4.18.2, 4.18.3 and 4.19.0. The folder has the payloads as releases/VERSION, the files of graph-data, and
the signatures. Changes in graph-data count after two seconds.

The line `mainstay: cluster-update ready graph=URL metrics=URL first=IMAGE folder=DIR` on standard output is for scripts.")]
pub struct Arguments {
    /// Where payloads, graph-data and signatures are kept [default: a temporary folder, removed at the end]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// End when everything is set up: for the files of --folder
    #[arg(long, requires = "folder")]
    exit: bool,
    /// Set up releases and services alone, for a cluster of yours
    #[arg(long)]
    without_cluster: bool,
    /// Let waits and intervals of an update pass faster by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 10.0)]
    accelerate: f64,
}

/// Sets everything up, says what to type, and serves until a signal.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let temporary = if arguments.folder.is_some() {
            None
        } else {
            let made = tempfile::Builder::new().prefix("mainstay-cluster-update-").tempdir();
            Some(made.map_err(|error| Failure::failed("temporary directory", &error))?)
        };
        let folder = arguments.folder.as_deref().or(temporary.as_ref().map(tempfile::TempDir::path)).unwrap_or(Path::new("."));
        let mut signals = Signals::take()?;
        let stop = CancellationToken::new();
        let site = tokio::select! {
            site = Site::set_up(folder, &stop) => site?,
            () = signals.next() => return Ok(()),
        };
        if arguments.exit || arguments.without_cluster {
            site.show(None)?;
            if !arguments.exit {
                signals.next().await;
            }
            stop.cancel();
            return site.end().await;
        }
        heading("A cluster at the first release")?;
        let mut options = super::options(&site.folder.join("cluster"), NODES);
        options.components = COMPONENTS.parse().map_err(|error| Failure::of(Exit::Failed, "components", &error))?;
        options.release = site.release(arguments.accelerate);
        let tell = |name: &str, detail: &str, took: Duration| note(format!("  {name:<15} {:>5} ms  {detail}", took.as_millis()).trim_end());
        let cluster = tokio::select! {
            started = Cluster::start(options, tell) => started?,
            () = signals.next() => return Ok(()),
        };
        site.show(Some(&cluster.kubeconfig))?;
        signals.next().await;
        note("ending; again to end at once");
        stop.cancel();
        up::stop_unless_impatient(cluster, &mut signals).await?;
        site.end().await
    })
}

/// What was set up.
pub struct Site {
    /// The releases, the oldest first.
    pub releases: Vec<Published>,
    /// The graph of the update service, for `spec.upstream`.
    pub graph: String,
    /// The metrics endpoint.
    pub metrics: String,
    /// The folder of payloads, graph-data and signatures.
    pub folder: PathBuf,
    serving: tokio::task::JoinHandle<()>,
}

impl Site {
    /// Opens registry, update service and metrics endpoint on free ports, and publishes the releases; they serve until `stop`.
    pub async fn set_up(folder: &Path, stop: &CancellationToken) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(|error| Failure::failed(folder.display().to_string(), &error))?;
        let folder = folder.canonicalize().map_err(|error| Failure::failed(folder.display().to_string(), &error))?;
        let failed = |error: mainstay_release_samples::Error| Failure::failed("sample releases", &error);
        heading("A registry, an update service, and a metrics endpoint")?;
        let registry = serve_registry(stop).await?;
        let at = |repository: &str| Reference::parse(&format!("{registry}/sample/{repository}"));
        let (releases, components) = (at("release"), at("components"));
        let reference = |error: mainstay_oci::Error| images::failure("registry", &error);
        let (releases, components) = (releases.map_err(reference)?, components.map_err(reference)?);
        let config = images::config()?;
        let client = Client::new(config.clone()).map_err(reference)?;
        write_files(&folder.join("graph-data"), &graph_data::files()).map_err(failed)?;
        let signatures = folder.join("signatures");

        let local: Option<SocketAddr> = Some(([127, 0, 0, 1], 0).into());
        let config = Config {
            releases: vec![Place::Repository(releases.clone())],
            graph_data: GraphDataPlace::Directory(folder.join("graph-data")),
            prefix: PREFIX.to_owned(),
            addresses: Addresses { policy: local, ..Addresses::default() },
            tls: None,
            interval: INTERVAL,
            cache: None,
            signatures: Some(signatures.clone()),
            architecture: "amd64".to_owned(),
            commit: mainstay_terminal::built::COMMIT.to_owned(),
            registries: config,
        };
        let service = Service::open(config).await.map_err(|error| Failure::failed("update service", &error))?;
        let Some(address) = service.bound().policy else {
            return Err(Failure::new(Exit::Failed, "update service", "it has no address"));
        };
        note(format!("  registry {registry}, update service {address}"));

        let key = SigningKey::generate().map_err(failed)?;
        let target = Target::Registry { client: &client, releases, components };
        let store = format!("http://{address}/signatures");
        let published = publish(&target, &key, &store, &folder.join("releases"), &signatures, Timestamp::now()).await.map_err(failed)?;
        for release in &published {
            note(format!("  {:<8} {}", release.version, release.image));
        }
        // The first graph is built when the releases are there, so that the first question has its answer.
        let mut service = service;
        service.build_once().await.map_err(|error| Failure::failed("update service", &error))?;
        let metrics = serve_metrics(stop).await?;
        let serving = tokio::spawn(service.run(stop.clone()));
        Ok(Self {
            releases: published,
            graph: format!("http://{address}{PREFIX}/v1/graph"),
            metrics: format!("http://{metrics}"),
            folder,
            serving,
        })
    }

    /// The release that a cluster begins with, and where it finds the others.
    fn release(&self, accelerate: f64) -> up::release::Arguments {
        up::release::Arguments {
            release: self.releases.first().map(|release| release.image.clone()).into_iter().collect(),
            channel: Some(graph_data::CHANNELS[0].to_owned()),
            update_service: Some(self.graph.clone()),
            metrics_url: Some(self.metrics.clone()),
            accelerate,
            graph_data: None,
            script: None,
        }
    }

    /// Waits until the update service has ended.
    pub async fn end(self) -> Result<(), Failure> {
        self.serving.await.map_err(|error| Failure::failed("update service", &error))
    }

    /// Returns the commands to type, each with what it shows.
    pub fn commands(&self) -> Vec<(&'static str, String)> {
        let image = |version: &str| self.releases.iter().find(|release| release.version == version).map_or("", |release| &release.image);
        let set = serde_json::json!({"spec": {"upstream": self.graph, "channel": graph_data::CHANNELS[0]}});
        let ack = serde_json::json!({"data": {payload::GATE: "true"}});
        vec![
            ("what a release holds", format!("oc adm release info {}", image("4.18.2"))),
            ("where the cluster asks for updates: set here already", format!("oc patch clusterversion version --type merge -p '{set}'")),
            ("the updates that the update service has", format!("curl -s '{}?channel=fast-4.18&arch=amd64' | jq", self.graph)),
            ("the recommended updates", "oc get clusterversion version -o json | jq '.status.availableUpdates'".to_owned()),
            ("those with a risk", "oc get clusterversion version -o json | jq '.status.conditionalUpdates'".to_owned()),
            ("the same in words", "oc adm upgrade --include-not-recommended".to_owned()),
            ("a recommended update", "oc adm upgrade --to 4.18.2".to_owned()),
            ("what it waits for", "oc adm upgrade; oc get clusteroperators".to_owned()),
            ("an update that always has a risk", "oc adm upgrade --to 4.18.3 --allow-not-recommended".to_owned()),
            ("the risk of 4.19.0 applies", format!("curl -X PUT -d 1 {}/value", self.metrics)),
            ("and does not apply any more", format!("curl -X PUT -d 0 {}/value", self.metrics)),
            (
                "the question of 4.18.3 before the next minor version",
                format!("oc -n openshift-config patch configmap admin-acks --type merge -p '{ack}'"),
            ),
            ("another channel", format!("oc adm upgrade channel {}", graph_data::CHANNELS[1])),
            ("the next minor version", "oc adm upgrade --to 4.19.0".to_owned()),
        ]
    }

    fn show(&self, kubeconfig: Option<&Path>) -> Result<(), Failure> {
        let first = self.releases.first().map_or("", |release| &release.image);
        let (graph, metrics, folder) = (&self.graph, &self.metrics, self.folder.display());
        output::line(format!("mainstay: cluster-update ready graph={graph} metrics={metrics} first={first} folder={folder}"))?;
        heading("Try in another terminal (Ctrl-C here ends everything)")?;
        if let Some(kubeconfig) = kubeconfig {
            let bin = self.folder.join("bin");
            links(&bin)?;
            output::line(format!("  export KUBECONFIG={} PATH={}:$PATH\n", kubeconfig.display(), bin.display()))?;
        }
        for (what, command) in self.commands() {
            output::line(format!("  # {what}\n  {command}"))?;
        }
        Ok(())
    }
}

/// Makes a folder in which this program is called `oc` and `mainstay`.
fn links(bin: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(bin.display().to_string(), &error);
    let program = std::env::current_exe().map_err(failed)?;
    std::fs::create_dir_all(bin).map_err(failed)?;
    for name in ["oc", "mainstay"] {
        match std::os::unix::fs::symlink(&program, bin.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
    }
    Ok(())
}

async fn serve_metrics(stop: &CancellationToken) -> Result<SocketAddr, Failure> {
    let failed = |error: std::io::Error| Failure::failed("metrics endpoint", &error);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let until = stop.clone();
    let endpoint = Endpoint::new([graph_data::QUERY], false, Timestamp::now);
    tokio::spawn(async move {
        if let Err(error) = endpoint.serve(listener, async move { until.cancelled().await }).await {
            tracing::error!(%error, "the metrics endpoint ended");
        }
    });
    Ok(address)
}
