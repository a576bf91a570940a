//! `mainstay adm cordon`, `uncordon` and `drain`: kubectl's verbs, flags and words (MACH-DRAIN-08).

use std::time::Duration;

use clap::{Args, ValueEnum};
use mainstay_operations::Session;
use mainstay_operations::nodes::{self, Chosen, DrainRequest, DryRun, Method, NodeInfo, Options, Said, Settings};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::{output, runtime};

use crate::durations;

/// Arguments of `cordon` and `uncordon`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay adm cordon worker-1                              it takes no new pods
  mainstay adm uncordon worker-1                            it takes pods again
  mainstay adm cordon --selector topology.kubernetes.io/zone=zone-a")]
pub struct CordonArguments {
    #[command(flatten)]
    nodes: NodeArguments,
}

/// Arguments of `drain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay adm drain worker-1 --ignore-daemonsets --delete-emptydir-data
  mainstay adm drain worker-1 --force --grace-period 900    also pods that nothing will make again
  mainstay adm drain worker-1 --ignore-daemonsets --dry-run=client
                                                            which pods would be evicted

The words are kubectl's, and so is the exit code: 1 when a node was not drained. A drain that fails leaves its node cordoned.")]
#[expect(clippy::struct_excessive_bools, reason = "one per flag")]
pub struct DrainArguments {
    #[command(flatten)]
    nodes: NodeArguments,
    /// Continue even if there are pods that do not declare a controller
    #[arg(long)]
    force: bool,
    /// Ignore DaemonSet-managed pods
    #[arg(long)]
    ignore_daemonsets: bool,
    /// Continue even if there are pods using emptyDir, whose data is lost
    #[arg(long)]
    delete_emptydir_data: bool,
    /// Seconds that each pod has to end; its own time if negative
    #[arg(long, value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true)]
    grace_period: i64,
    /// The time to wait before giving up; 0 means for ever
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = durations::parse)]
    timeout: Duration,
    /// Label selector of the pods that are evicted
    #[arg(long, value_name = "SELECTOR")]
    pod_selector: Option<String>,
    /// Delete pods instead of evicting them, past every disruption budget
    #[arg(long)]
    disable_eviction: bool,
    /// Pods that have been ending for longer are not waited for; all are if 0
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    skip_wait_for_delete_timeout: i64,
}

/// Arguments about nodes.
#[derive(Debug, Args)]
struct NodeArguments {
    /// The nodes
    #[arg(value_name = "NODE", required_unless_present = "selector", conflicts_with = "selector")]
    nodes: Vec<String>,
    /// Label selector of the nodes
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// Only print what would be done, or let the server try it and keep nothing
    #[arg(long, value_enum, value_name = "HOW", default_value = "none", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    dry_run: How,
}

/// Values of `--dry-run`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    None,
    Client,
    Server,
}

impl NodeArguments {
    fn dry_run(&self) -> DryRun {
        match self.dry_run {
            How::None => DryRun::None,
            How::Client => DryRun::Client,
            How::Server => DryRun::Server,
        }
    }

    /// Reads the nodes; a refusal is told in kubectl's words.
    async fn find(&self, session: &Session) -> Result<Vec<NodeInfo>, Failure> {
        let chosen = match &self.selector {
            Some(selector) => Chosen::Selected(selector.clone()),
            None => Chosen::Named(self.nodes.clone()),
        };
        nodes::find(session, &chosen).await.map_err(|error| {
            note(error.to_string());
            Failure::silent(Exit::Failed)
        })
    }
}

/// Marks nodes.
pub fn cordon(arguments: &CordonArguments, unschedulable: bool, cluster: &ClusterArgs) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = cluster.open().await?;
        let found = arguments.nodes.find(&session).await?;
        // kubectl tells of a node that could not be changed, and its exit code stays 0.
        nodes::cordon(&session, &found, unschedulable, arguments.nodes.dry_run(), &tell).await;
        Ok(())
    })
}

/// Cordons nodes and evicts their pods.
pub fn drain(arguments: &DrainArguments, cluster: &ClusterArgs) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = cluster.open().await?;
        let dry_run = arguments.nodes.dry_run();
        let found = arguments.nodes.find(&session).await?;
        nodes::cordon(&session, &found, true, dry_run, &tell).await;
        let settings = Settings {
            force: arguments.force,
            ignore_daemon_sets: arguments.ignore_daemonsets,
            delete_local_data: arguments.delete_emptydir_data,
            skip_deleted_after: arguments.skip_wait_for_delete_timeout,
        };
        let options = Options {
            settings,
            grace_period: (arguments.grace_period >= 0).then_some(arguments.grace_period),
            pod_selector: arguments.pod_selector.clone(),
            method: if arguments.disable_eviction { Method::Delete } else { Method::Evict },
            dry_run: false,
        };
        let request = DrainRequest {
            options,
            timeout: Some(arguments.timeout).filter(|timeout| !timeout.is_zero()),
            skip_deleted_after: arguments.skip_wait_for_delete_timeout,
            dry_run,
        };
        let pending = nodes::drain(&session, &found, &request, &tell).await;
        for one in &pending {
            note(one.to_string());
        }
        if pending.is_empty() { Ok(()) } else { Err(Failure::silent(Exit::Failed)) }
    })
}

/// Prints a step; a closed output is no reason to leave a drain half done.
fn tell(said: Said) {
    match said {
        Said::Out(line) => {
            if let Err(failure) = output::line(line) {
                failure.report();
            }
        }
        Said::Problem(line) => note(line),
        Said::Warning(line) => note(format!("Warning: {line}")),
    }
}
