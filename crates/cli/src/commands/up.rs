//! `mainstay up`: an embedded cluster in the foreground or in the background (MS-CLI-03).

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use mainstay_olm_v1::gates::{FeatureGates, Profile};
use serde_json::Value;

use crate::errors::{Exit, Failure, note};
use crate::up::{self, Cluster, Components, Options, kubeconfig, registration};
use crate::{output, runtime};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay up                                         on 127.0.0.1:6443, data in ~/.local/share/mainstay
  mainstay up --data-dir /tmp/c --listen 127.0.0.1:0  anywhere, on a free port
  mainstay up --detach                                in the background; mainstay down ends it
  mainstay up --components controllers --nodes 0      an API with controllers, without nodes

Components: controllers, scheduler, nodes, olm-v1.
The line `mainstay: ready kubeconfig=PATH server=URL console=URL` on standard output is for scripts.")]
pub struct Arguments {
    /// Where everything that lasts is kept [default: $XDG_DATA_HOME/mainstay]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where the API listens; port 0 is a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Another place for the administrator's kubeconfig, besides DIR/kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Put the cluster into the user's own kubeconfig, too
    #[arg(long)]
    kubeconfig_merge: bool,
    /// Where objects are stored
    #[arg(long, value_name = "embedded|etcd://...", default_value = "embedded")]
    storage: String,
    /// How many nodes are simulated
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u32,
    /// What runs besides the API: a list of components, all or none
    #[arg(long, value_name = "LIST", default_value = "all")]
    components: Components,
    /// Gates of OLM v1: NAME=true|false,...
    #[arg(long, value_name = "LIST", default_value = "")]
    feature_gates: String,
    /// Without the web console, which this version does not have anyway
    #[arg(long)]
    no_console: bool,
    /// Directories of manifests to apply at the start
    #[arg(long, value_name = "DIR")]
    manifests: Vec<PathBuf>,
    /// Go to the background once it is ready; logs go to DIR/log
    #[arg(long)]
    detach: bool,
}

/// The default data directory.
pub fn default_data_dir() -> Result<PathBuf, Failure> {
    registration::xdg("XDG_DATA_HOME", ".local/share").map(|data| data.join("mainstay"))
}

/// Runs the cluster until a signal.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let data_dir = arguments.data_dir.clone().map_or_else(default_data_dir, Ok)?;
    if arguments.storage != "embedded" {
        return Err(Failure::new(Exit::Usage, format!("storage {}", arguments.storage), "is not part of this version of mainstay")
            .hint("leave --storage out, or say --storage embedded"));
    }
    let gates =
        FeatureGates::parse(Profile::Up, &arguments.feature_gates).map_err(|error| Failure::of(Exit::Usage, "--feature-gates", &error))?;
    let options = Options {
        manifests: manifests(&arguments.manifests)?,
        data_dir: data_dir.clone(),
        listen: arguments.listen,
        components: arguments.components.clone(),
        nodes: arguments.nodes,
        gates,
    };
    if arguments.detach {
        return detach(&data_dir);
    }
    runtime::block_on(async {
        let cluster = Cluster::start(options, |name, detail, took| {
            let took = if took < Duration::from_millis(1) { String::new() } else { format!("{} ms", took.as_millis()) };
            note(format!("  {name:<12} {took:<8} {detail}").trim_end());
        })
        .await?;
        if let Some(path) = &arguments.kubeconfig_out {
            let text = std::fs::read_to_string(&cluster.kubeconfig).map_err(|error| Failure::failed("kubeconfig", &error))?;
            kubeconfig::write(path, &text)?;
        }
        if arguments.kubeconfig_merge {
            kubeconfig::merge(&cluster.kubeconfig, &kubeconfig::of_the_user()?)?;
        }
        let shown = arguments.kubeconfig_out.clone().unwrap_or_else(|| cluster.kubeconfig.clone());
        let shown = std::path::absolute(&shown).unwrap_or(shown);
        next(&shown);
        output::line(format!("mainstay: ready kubeconfig={} server={} console=none", shown.display(), cluster.apis.url))?;
        up::signal().await?;
        note("ending; again to end at once");
        up::stop_unless_impatient(cluster).await
    })
}

fn next(kubeconfig: &Path) {
    note("");
    note("  kubeconfig   ".to_owned() + &kubeconfig.display().to_string());
    note("  console      none in this version");
    note("");
    note("next, in another terminal:");
    note(format!("  export KUBECONFIG={}", kubeconfig.display()));
    note("  kubectl get nodes,namespaces");
    note("  mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG");
    note("");
}

/// The objects of all YAML and JSON files below the directories, by path.
fn manifests(directories: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    use mainstay_catalog::Source as _;
    let mut objects = Vec::new();
    for directory in directories {
        let subject = format!("manifests {}", directory.display());
        let source = mainstay_catalog_store::DirectorySource::new(directory).map_err(|error| Failure::failed(&subject, &error))?;
        let mut paths = source.paths().map_err(|error| Failure::failed(&subject, &error))?;
        paths.sort();
        for path in paths {
            let extension = Path::new(&path).extension().and_then(|extension| extension.to_str());
            if !matches!(extension, Some("yaml" | "yml" | "json")) {
                continue;
            }
            let subject = format!("manifests {}", directory.join(&path).display());
            let bytes = source.read(&path).map_err(|error| Failure::failed(&subject, &error))?;
            let text = std::str::from_utf8(&bytes).map_err(|error| Failure::failed(&subject, &error))?;
            for document in mainstay_yaml::stream(text) {
                let value = document.map_err(|error| Failure::failed(&subject, &error))?.value;
                if !value.is_null() {
                    objects.push(value);
                }
            }
        }
    }
    Ok(objects)
}

/// Starts this program again in the background and waits until it is ready.
fn detach(data_dir: &Path) -> Result<(), Failure> {
    use std::os::unix::process::CommandExt as _;
    let log_path = data_dir.join("log");
    let failed = |error: std::io::Error| Failure::failed(format!("log {}", log_path.display()), &error);
    std::fs::create_dir_all(data_dir).map_err(failed)?;
    let log = File::options().create(true).append(true).open(&log_path).map_err(failed)?;
    let program = std::env::current_exe().map_err(|error| Failure::failed("mainstay", &error))?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1).filter(|argument| argument != "--detach"));
    // Ctrl-C in this terminal is not meant for it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().map_err(|error| Failure::failed("mainstay", &error))?;
    let mut ready = String::new();
    if let Some(stdout) = child.stdout.take() {
        // Its only line; without one it has ended.
        BufReader::new(stdout).read_line(&mut ready).map_err(|error| Failure::failed("mainstay", &error))?;
    }
    if ready.is_empty() {
        let status = child.wait().map_err(|error| Failure::failed("mainstay", &error))?;
        let text = std::fs::read_to_string(&log_path).unwrap_or_default();
        let last = text.lines().rev().find(|line| line.starts_with("error:")).unwrap_or("error: it did not say why").to_owned();
        return Err(Failure::new(Exit::Failed, "cluster", format!("did not start ({status})"))
            .because(last.trim_start_matches("error: ").to_owned())
            .hint(format!("see {}", log_path.display())));
    }
    note(format!("the cluster runs in the background as process {}; logs: {}", child.id(), log_path.display()));
    note("mainstay status shows it, mainstay down ends it");
    output::print(&ready)
}
