//! `mainstay up`: an embedded cluster in the foreground or in the background (MS-CLI-03).

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use mainstay_apiserver::admission::Plugins;
use mainstay_apiserver::remote::LocalService;
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::registration;
use mainstay_terminal::{output, private, runtime};
use serde_json::Value;

use crate::up::{self, Cluster, Components, Options, kubeconfig};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay up                                         on 127.0.0.1:6443, data in ~/.local/share/mainstay
  mainstay up --data-dir /tmp/c --listen 127.0.0.1:0  anywhere, on a free port
  mainstay up --detach                                in the background; mainstay down ends it
  mainstay up --components controllers --nodes 0      an API with controllers, without nodes
  mainstay up --platform aws-sts                      operators get credentials of AWS by their tokens, which open no cloud
  mainstay up --release payload/4.18.54 --release payload/4.19.44 --accelerate 10
                                                      a cluster at the first release, which can be updated to the second
  mainstay up --components all --reboot-delay 30s     nodes with configurations (MachineConfigs, pools), which take half a minute to reboot
  mainstay up --fault '*/app:2=crash-loop' --fault 'db:*=slow-start=30s,never-ready'
                                                      what goes wrong with pods of these images
  mainstay up --config up.yaml                        options from a file, such as `listen: 127.0.0.1:0` and `nodes: 5`
  mainstay up --run-image '*/my-operator:*=python3 operator.py'
                                                      pods of this image are real processes of this machine, not isolated
  mainstay up --serve-local ops/webhook=127.0.0.1:9443
                                                      calls of Service webhook in namespace ops (webhooks, conversion
                                                      webhooks, aggregated APIs) go to the process on port 9443 of this machine
  mainstay up --storage etcd://127.0.0.1:2379 --pki-dir /srv/pki --data-dir /srv/one
                                                      one of several servers on an etcd: each has a data directory of its own,
                                                      all have the files of --pki-dir (on other machines: a copy), and the one
                                                      that holds Lease kube-system/mainstay-components runs the components

Components: controllers, scheduler, nodes, olm-v1, olm-classic, service-ca (part of olm-v1, too), cloud-credential, network-extras,
cluster-version, storage-migrator, machine-api, machine-config, autoscaler (part of machine-api, too). All of them run unless a list is
given; cloud-credential runs by itself only with --platform, cluster-version and storage-migrator with --release alone, machine-api (simulated
machines), machine-config and autoscaler only when they are named (or with --components all).

Admission plugins, in the order in which they run:
  NamespaceLifecycle, LimitRanger, ServiceAccount, TaintNodesByCondition, AlwaysPullImages (off), PodSecurity, ProjectNodeEnv,
  Priority, DefaultTolerationSeconds, DefaultStorageClass, StorageObjectInUseProtection, OwnerReferencesPermissionEnforcement (off),
  PersistentVolumeClaimResize, RuntimeClass, CertificateApproval, CertificateSigning, CertificateSubjectRestriction,
  DefaultIngressClass, DenyServiceExternalIPs (off), MutatingAdmissionWebhook, ValidatingAdmissionPolicy,
  ValidatingAdmissionWebhook, ResourceQuota.

The line `mainstay: ready kubeconfig=PATH server=URL console=URL` on standard output is for scripts.")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Arguments {
    /// A YAML file with options under their names (`nodes: 5`, `fault: [...]`); those of the command line win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything that lasts is kept [default: $XDG_DATA_HOME/mainstay]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where the API listens; port 0 is a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// A listener of its own for catalogs, instead of serving them beside the API
    #[arg(long, value_name = "ADDR:PORT")]
    catalogs_server_addr: Option<SocketAddr>,
    /// Another place for the administrator's kubeconfig, besides DIR/kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Put the cluster into the user's own kubeconfig, too
    #[arg(long)]
    kubeconfig_merge: bool,
    #[command(flatten)]
    storage: up::storage::Arguments,
    /// How many nodes are simulated
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u32,
    #[command(flatten)]
    simulation: up::simulation::Arguments,
    #[command(flatten)]
    processes: up::processes::Arguments,
    /// Serve a Service by a process of this machine; may be repeated
    #[arg(long, value_name = "NAMESPACE/SERVICE=HOST:PORT")]
    serve_local: Vec<LocalService>,
    /// Pass over admission webhooks whose pods are simulated, with a warning in each answer, instead of failing
    #[arg(long)]
    skip_simulated_webhooks: bool,
    /// The components that run besides the API: a list of them, all or none [default: all, but cloud-credential only with --platform]
    #[arg(long, value_name = "LIST")]
    components: Option<Components>,
    /// Admission plugins to switch on besides those that are on by themselves: NAME,...
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins to switch off: NAME,...
    #[arg(long, visible_alias = "disable-admission", value_name = "LIST", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// Gates of OLM v1: NAME=true|false,...
    #[arg(long, value_name = "LIST", default_value = "")]
    feature_gates: String,
    /// The version of Kubernetes that the API reports, such as 1.33; catalog templates and minKubeVersion follow it, nothing else changes
    #[arg(long, value_name = "VERSION")]
    report_kubernetes_version: Option<mainstay_apiserver::ReportedVersion>,
    #[command(flatten)]
    classic: up::classic::Arguments,
    #[command(flatten)]
    platform: up::platform::Arguments,
    #[command(flatten)]
    release: up::release::Arguments,
    #[command(flatten)]
    machine_config: up::machine_config::Arguments,
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
    let gates =
        FeatureGates::parse(Profile::Up, &arguments.feature_gates).map_err(|error| Failure::of(Exit::Usage, "--feature-gates", &error))?;
    let components =
        arguments.components.clone().unwrap_or_else(|| Components::usual(arguments.platform.platform.is_some(), arguments.release.any()));
    let has_platform =
        [up::components::Component::CloudCredential, up::components::Component::NetworkExtras].iter().any(|one| components.has(*one));
    if arguments.platform.platform.is_some() && !has_platform {
        return Err(Failure::new(
            Exit::Usage,
            "--platform, --components",
            "neither cloud-credential nor network-extras is among the components",
        )
        .hint("add cloud-credential to --components"));
    }
    if arguments.release.any() && !components.has(up::components::Component::ClusterVersion) {
        return Err(Failure::new(Exit::Usage, "--release, --components", "cluster-version is not among the components"));
    }
    if arguments.simulation.clouds() && !components.has(up::components::Component::MachineApi) {
        return Err(Failure::new(Exit::Usage, "--simulate-cloud, --components", "machine-api is not among the components")
            .hint("add machine-api to --components"));
    }
    // Before anything is started.
    arguments.release.script()?;
    arguments.release.graph_data()?;
    let options = Options {
        manifests: manifests(&arguments.manifests)?,
        data_dir: data_dir.clone(),
        listen: arguments.listen,
        catalogs_listen: arguments.catalogs_server_addr,
        components,
        nodes: arguments.nodes,
        simulation: arguments.simulation.clone(),
        processes: arguments.processes.clone(),
        sharing: arguments.storage.read()?,
        plugins: plugins(arguments)?,
        local_services: local_services(&arguments.serve_local)?,
        skip_simulated_webhooks: arguments.skip_simulated_webhooks,
        reported: arguments.report_kubernetes_version.unwrap_or_default(),
        gates,
        classic: arguments.classic.clone(),
        platform: arguments.platform.clone(),
        release: arguments.release.clone(),
        machine_config: arguments.machine_config.clone(),
    };
    // Unpacked content can need many open files.
    mainstay_serve::raise_file_limit();
    private::own_data(&data_dir)?;
    if arguments.detach && std::env::var_os(DETACHED).is_none() {
        return detach(&data_dir);
    }
    runtime::block_on(async {
        let mut signals = up::Signals::take()?;
        let start = Cluster::start(options, |name, detail, took| {
            let took = if took < Duration::from_millis(1) { String::new() } else { format!("{} ms", took.as_millis()) };
            note(format!("  {name:<12} {took:<8} {detail}").trim_end());
        });
        let cluster = tokio::select! {
            started = start => started?,
            // The data on disk is complete at any instant.
            () = signals.next() => return Err(Failure::new(Exit::Failed, "up", "stopped before it was ready")),
        };
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
        signals.next().await;
        note("ending; again to end at once");
        up::stop_unless_impatient(cluster, &mut signals).await
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

/// The admission plugins, selected as by kube-apiserver's options of these names.
fn plugins(arguments: &Arguments) -> Result<Plugins, Failure> {
    let chosen = Plugins::choose(&arguments.enable_admission_plugins, &arguments.disable_admission_plugins);
    chosen.map_err(|error| Failure::of(Exit::Usage, "admission plugins", &error).hint("mainstay up --help lists the plugins"))
}

/// The Services that are served locally; one cannot be two processes.
fn local_services(given: &[LocalService]) -> Result<Vec<LocalService>, Failure> {
    for (at, one) in given.iter().enumerate() {
        if let Some(other) = given[..at].iter().find(|other| (&other.namespace, &other.name) == (&one.namespace, &one.name)) {
            let subject = format!("--serve-local {}/{}", one.namespace, one.name);
            return Err(Failure::new(Exit::Usage, subject, format!("is given twice: {} and {}", other.address, one.address)));
        }
    }
    Ok(given.to_vec())
}

/// The objects of all YAML and JSON files below the directories, by path.
fn manifests(directories: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    use mainstay_catalog::Source as _;
    let mut objects = Vec::new();
    for directory in directories {
        let subject = format!("manifests {}", directory.display());
        let source = mainstay_catalog_store::DirectorySource::of_user(directory).map_err(|error| Failure::failed(&subject, &error))?;
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

/// Set for the program in the background.
const DETACHED: &str = "MAINSTAY_DETACHED";

/// Starts this program again in the background and waits until it is ready.
fn detach(data_dir: &Path) -> Result<(), Failure> {
    use std::os::unix::process::CommandExt as _;
    let log_path = data_dir.join("log");
    let failed = |error: std::io::Error| Failure::failed(format!("log {}", log_path.display()), &error);
    let log = private::append(&log_path).map_err(failed)?;
    let program = std::env::current_exe().map_err(|error| Failure::failed("mainstay", &error))?;
    let mut command = Command::new(program);
    // A file of options may say --detach, too.
    command.env(DETACHED, "1");
    command.args(std::env::args_os().skip(1).filter(|argument| argument != "--detach"));
    // Ctrl-C in this terminal is not meant for it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().map_err(|error| Failure::failed("mainstay", &error))?;
    let mut ready = String::new();
    if let Some(stdout) = child.stdout.take() {
        // Its only line; if there is none, the process has stopped.
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

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    /// KAPI-ADM-03: the help names every plugin that can be enabled or disabled, in order, and says which are off.
    #[test]
    fn the_help_names_the_admission_plugins() {
        let help = Arguments::augment_args(clap::Command::new("up")).get_after_help().map(ToString::to_string).unwrap_or_default();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let listed = Plugins::known().map(|(name, on)| if on { name.to_owned() } else { format!("{name} (off)") });
        let listed = listed.collect::<Vec<_>>().join(", ");
        assert!(words.contains(&format!("{listed}.")), "{listed}");
    }
}
