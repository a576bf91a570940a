//! `mainstay demo`: an embedded cluster, a registry, the example catalog, an install and two upgrades, step by step.
//!
//! The demonstration runs what a user would type: each step runs this very program against the cluster.

pub mod cluster_update;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::{Args, Subcommand};
use mainstay_apiserver::admission::Plugins;
use mainstay_diagnostics::counted;
use mainstay_oci::registry::Registry;
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use mainstay_operations::{Session, not_written, refused};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::images::{self, Target};
use mainstay_terminal::output::{self, Table};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::commands::catalog::{build, from_bundles};
use crate::up::{self, Cluster, Components, Options};

include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// Arguments.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    of: Option<Demonstration>,
    /// End after the last step instead of leaving the cluster running
    #[arg(long)]
    exit: bool,
    /// Show every table and description on the way
    #[arg(long)]
    verbose: bool,
    /// How many nodes are simulated
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u32,
}

/// Other demonstrations.
#[derive(Debug, Subcommand)]
enum Demonstration {
    /// Set up releases, a registry, an update service and a metrics endpoint for the updates of a cluster
    ClusterUpdate(cluster_update::Arguments),
}

/// Runs the demonstration.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(Demonstration::ClusterUpdate(arguments)) = &arguments.of {
        return cluster_update::run(arguments);
    }
    runtime::block_on(async {
        let folder =
            tempfile::Builder::new().prefix("mainstay-demo-").tempdir().map_err(|error| Failure::failed("temporary directory", &error))?;
        let stop = CancellationToken::new();
        heading("An embedded cluster")?;
        let options = options(&folder.path().join("cluster"), arguments.nodes);
        let mut signals = up::Signals::take()?;
        let cluster =
            Cluster::start(options, |name, detail, took| note(format!("  {name:<12} {:>5} ms  {detail}", took.as_millis()).trim_end()))
                .await?;
        let outcome = tokio::select! {
            outcome = walk(&cluster, folder.path(), arguments.verbose, &stop) => outcome,
            () = signals.next() => Err(Failure::new(Exit::Failed, "demo", "interrupted; the cluster and its data are removed")),
        };
        let outcome = match outcome {
            Ok(()) if !arguments.exit => {
                next(&cluster.kubeconfig)?;
                signals.next().await;
                note("ending; again to end at once");
                Ok(())
            }
            other => other,
        };
        stop.cancel();
        up::stop_unless_impatient(cluster, &mut signals).await?;
        outcome
    })
}

/// The options of a cluster that is there for a demonstration.
fn options(data_dir: &Path, nodes: u32) -> Options {
    Options {
        data_dir: data_dir.to_owned(),
        listen: std::net::SocketAddr::from(([127, 0, 0, 1], 0)),
        catalogs_listen: None,
        components: Components::usual(false, false),
        platform: crate::up::platform::Arguments::default(),
        release: up::release::Arguments::default(),
        machine_config: up::machine_config::Arguments::default(),
        simulation: up::simulation::Arguments::default(),
        processes: up::processes::Arguments::default(),
        sharing: up::storage::Sharing::default(),
        plugins: Plugins::default(),
        local_services: Vec::new(),
        skip_simulated_webhooks: false,
        reported: mainstay_apiserver::ReportedVersion::default(),
        gates: FeatureGates::defaults(Profile::Up),
        classic: up::classic::Arguments::default(),
        manifests: Vec::new(),
        nodes,
    }
}

async fn walk(cluster: &Cluster, folder: &Path, verbose: bool, stop: &CancellationToken) -> Result<(), Failure> {
    let steps = Steps::new(&cluster.kubeconfig, folder).await?;
    if verbose {
        steps.table("/api/v1/nodes").await?;
    }

    heading("A registry with the example catalog")?;
    let registry = serve_registry(stop).await?;
    let reference = publish(folder, &registry).await?;
    steps.run(&["catalog", "add", "examples", "--ref", &reference]).await?;
    if verbose {
        steps.run(&["catalog", "search"]).await?;
    }

    heading("Version 1.0.0 of a package, with an account that has the least permissions")?;
    steps.run(&["install", "beacon", "--version", "1.0.0", "--yes"]).await?;
    steps.run(&["list"]).await?;
    if verbose {
        steps.table("/apis/olm.operatorframework.io/v1/clusterextensions").await?;
        steps.table("/apis/apps/v1/namespaces/beacon-system/deployments").await?;
        steps.table("/api/v1/namespaces/beacon-system/pods").await?;
        steps.run(&["describe", "beacon"]).await?;
    }

    heading("A custom resource of the operator's")?;
    steps.custom_resource().await?;
    steps.table("/apis/signals.example.mainstay.dev/v1/beacons").await?;

    heading("Along the channel: to 1.1.0")?;
    steps.run(&["upgrade", "beacon", "--version", "1.1.0", "--yes"]).await?;
    if verbose {
        steps.run(&["describe", "beacon"]).await?;
    }

    heading("To the head of channel stable")?;
    steps.run(&["upgrade", "beacon", "--channel", "stable", "--yes"]).await?;
    steps.run(&[if verbose { "describe" } else { "explain" }, "beacon"]).await?;
    steps.table("/apis/signals.example.mainstay.dev/v1/beacons").await?;

    heading("What is refused: a version that no update edge leads to")?;
    steps.refused(&["upgrade", "beacon", "--version", "1.0.1", "--yes"]).await
}

fn heading(text: &str) -> Result<(), Failure> {
    output::drawn(&format!("\n{}\n", format!("== {text} ==").bold()))
}

/// The runner of the steps.
struct Steps {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
    session: Session,
}

impl Steps {
    async fn new(kubeconfig: &Path, folder: &Path) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| Failure::failed("mainstay", &error))?;
        let arguments = ClusterArgs { kubeconfig: Some(kubeconfig.to_owned()), ..ClusterArgs::default() };
        let session = arguments.open().await?;
        Ok(Self { program, kubeconfig: kubeconfig.to_owned(), home: folder.to_owned(), session })
    }

    /// Runs a command of this program, which must succeed.
    async fn run(&self, arguments: &[&str]) -> Result<(), Failure> {
        match self.code(arguments).await? {
            0 => Ok(()),
            code => Err(Failure::new(Exit::Failed, format!("mainstay {}", arguments.join(" ")), format!("ended with exit code {code}"))),
        }
    }

    /// Runs a command that is refused as impossible.
    async fn refused(&self, arguments: &[&str]) -> Result<(), Failure> {
        match self.code(arguments).await? {
            4 => output::line("(exit code 4: impossible as asked)"),
            code => Err(Failure::new(
                Exit::Failed,
                format!("mainstay {}", arguments.join(" ")),
                format!("ended with exit code {code}, expected 4"),
            )),
        }
    }

    async fn code(&self, arguments: &[&str]) -> Result<i32, Failure> {
        output::drawn(&format!("\n{}\n", format!("$ mainstay {}", arguments.join(" ")).cyan()))?;
        let failed = |error: std::io::Error| Failure::failed(self.program.display().to_string(), &error);
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env_remove("MAINSTAY_CLUSTER")
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        // Changes are reported on stderr; in a demonstration both belong together.
        Ok(command.status().await.map_err(failed)?.code().unwrap_or(-1))
    }

    /// Shows objects as kubectl does: the server makes the table.
    async fn table(&self, path: &str) -> Result<(), Failure> {
        let resource = path.rsplit('/').next().unwrap_or(path);
        let namespace = path.split_once("/namespaces/").and_then(|(_, rest)| rest.split('/').next());
        let scope = namespace.map_or_else(String::new, |namespace| format!(" -n {namespace}"));
        output::drawn(&format!("\n{}\n", format!("$ kubectl get {resource}{scope}").cyan()))?;
        let request = http::Request::get(path)
            .header(http::header::ACCEPT, "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())
            .map_err(|error| Failure::failed(resource, &error))?;
        let answer: Value = self.session.client.request(request).await.map_err(|error| refused(resource, &error))?;
        let columns: Vec<(usize, &str)> = answer["columnDefinitions"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
            .filter(|(_, column)| column["priority"] == 0)
            .filter_map(|(at, column)| Some((at, column["name"].as_str()?)))
            .collect();
        let titles: Vec<String> = columns.iter().map(|(_, name)| name.to_uppercase()).collect();
        let mut table = Table::new(&titles.iter().map(String::as_str).collect::<Vec<_>>());
        for row in answer["rows"].as_array().into_iter().flatten() {
            let cell = |at: &usize| row["cells"][at].as_str().map_or_else(|| row["cells"][at].to_string(), str::to_owned);
            table.row(columns.iter().map(|(at, _)| cell(at)));
        }
        table.print()
    }

    async fn custom_resource(&self) -> Result<(), Failure> {
        let object = json!({
            "apiVersion": "signals.example.mainstay.dev/v1", "kind": "Beacon", "metadata": {"name": "harbour", "namespace": "default"},
            "spec": {"message": "all is well", "intervalSeconds": 30},
        });
        self.session.writer.create(&object).await.map(drop).map_err(|error| not_written(&error).into())
    }
}

async fn serve_registry(stop: &CancellationToken) -> Result<String, Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| Failure::failed("registry", &error))?;
    let address = listener.local_addr().map_err(|error| Failure::failed("registry", &error))?.to_string();
    let until = stop.clone();
    tokio::spawn(async move {
        if let Err(error) = Registry::in_memory().serve(listener, async move { until.cancelled().await }).await {
            tracing::error!(%error, "the registry ended");
        }
    });
    Ok(address)
}

/// Pushes bundles and catalog; returns the catalog's reference.
async fn publish(folder: &Path, registry: &str) -> Result<String, Failure> {
    let (bundles, catalog) = (folder.join("bundles"), folder.join("catalog"));
    for (name, bytes) in FILES {
        let path = bundles.join(name);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, bytes));
        written.map_err(|error| Failure::failed(path.display().to_string(), &error))?;
    }
    let request = from_bundles::Request {
        directory: &bundles,
        registry: &format!("{registry}/examples"),
        mode: None,
        fallback_channel: None,
        push: true,
        invalid: from_bundles::Invalid::Refused,
    };
    let made = from_bundles::make(&request, &mut Progress::start()).await?;
    from_bundles::write(&made.catalog, &catalog)?;
    let reference = format!("{registry}/examples/catalog:latest");
    images::deliver(&build::image(&catalog)?, &Target::Push(reference.clone()), None).await?;
    note(format!("  {} of {} pushed to {registry}", counted(made.images.len(), "bundle"), counted(made.catalog.packages.len(), "package")));
    Ok(reference)
}

fn next(kubeconfig: &Path) -> Result<(), Failure> {
    heading("The cluster keeps running; Ctrl-C ends it and removes its data")?;
    output::line("try in another terminal:")?;
    for command in [
        &format!("export KUBECONFIG={}", kubeconfig.display()),
        "kubectl get clusterextensions,clustercatalogs",
        "kubectl get deployments,pods -A",
        "mainstay install cellar --namespace cellar --watch-namespace cellar",
        "mainstay install lantern --version 1.0.0",
        "mainstay upgrade lantern",
        "mainstay uninstall beacon --keep-crds",
    ] {
        output::line(format!("  {command}"))?;
    }
    Ok(())
}
