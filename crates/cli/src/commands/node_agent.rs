//! `mainstay node-agent`: the daemon of a node's configuration, on a host or a directory tree (MACH-NODE-09).

use std::path::PathBuf;

use clap::Args;
use mainstay_node_agent::agent::{Agent, Config, Ended};
use mainstay_node_agent::{Error, Root, Services, Tree};
use mainstay_runtime::Env;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::{output, runtime};
use tokio_util::sync::CancellationToken;

use crate::logging::Format;
use crate::up::Signals;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay node-agent --root /                                     this host, as the node of its name
  mainstay node-agent --root /srv/tree --node worker-7             a directory tree as the disk of a node
  mainstay node-agent --root /srv/tree --node worker-7 --once      what there is to do now, then stop
  mainstay node-agent --root /srv/tree --node worker-7 --service-command './services' --reboot-command './restart'

The agent brings the tree to the MachineConfig that the node's annotation machineconfiguration.openshift.io/desiredConfig names, and reports by
annotations, events and a MachineConfigNode. It follows no link out of its root. A killed agent goes on from what is on disk. Changes by hand are
reported (Degraded); the file /run/machine-config-daemon-force of the tree forces a write and a reboot.

--service-command is called with a verb (reload, restart, daemon-reload) and a unit. Below another root than / and without it, services are left
alone, and events say so; without --reboot-command the agent ends with exit code 6 where the node reboots, and is to be started again. Changes of
the operating system (image, kernel arguments, extensions) are recorded in /etc/machine-config-daemon/recorded.json of the tree; on a host they are
refused.

Exit codes: 0 stopped, 1 failed, 3 the cluster has no such node, 6 the node reboots.")]
pub struct Arguments {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The directory tree of the node; / is this host, and needs its administrator
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// The node [default: the name of this host]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Do what there is to do now, then stop
    #[arg(long)]
    once: bool,
    /// The command that reloads and restarts services, words separated by blanks [default: systemctl for --root /]
    #[arg(long, value_name = "CMD")]
    service_command: Option<String>,
    /// The command that reboots [default: systemctl reboot for --root /]
    #[arg(long, value_name = "CMD")]
    reboot_command: Option<String>,
    /// The layout of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    pub log_format: Format,
}

/// Runs the agent until a signal, or until the node reboots.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let subject = format!("root {}", arguments.root.display());
    let failed = |error: &Error| match error {
        Error::NoNode(_) => Failure::of(Exit::NotFound, &subject, error),
        error => Failure::failed(&subject, error),
    };
    let root = Root::open(&arguments.root).map_err(|error| failed(&error.into()))?;
    let mut services = if root.is_host() { Services::of_host() } else { Services::default() };
    let words = |text: &String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for (flag, given, command) in [
        ("--service-command", &arguments.service_command, &mut services.service),
        ("--reboot-command", &arguments.reboot_command, &mut services.reboot),
    ] {
        if let Some(words) = given.as_ref().map(words) {
            if words.is_empty() {
                return Err(Failure::new(Exit::Usage, flag, "is empty"));
            }
            *command = Some(words);
        }
    }
    let host = mainstay_apiserver::access::pki::host_name();
    let node = arguments.node.clone().or(host);
    let node = node.ok_or_else(|| Failure::new(Exit::Usage, "--node", "is missing, and this host has no name"))?;
    let (tree, recovered) = Tree::take(root).map_err(|error| failed(&error))?;
    if recovered {
        note("an earlier run was cut off; what it had begun is taken back");
    }
    runtime::block_on(async {
        let mut signals = Signals::take()?;
        let session = arguments.cluster.open().await?;
        note(format!("cluster: {} ({})", session.context, session.server));
        let config = Config { node: node.clone(), services, once: arguments.once };
        let agent = Agent::new(tree, &session.cluster, Env::system(), config).map_err(|error| failed(&error))?;
        let stop = CancellationToken::new();
        output::line(format!("mainstay: node agent ready node={node} root={}", arguments.root.display()))?;
        let mut running = tokio::spawn(agent.run(stop.clone()));
        let ended = tokio::select! {
            ended = &mut running => ended,
            // A step is finished first; a second signal ends the process, which the next start makes good.
            () = signals.next() => {
                stop.cancel();
                tokio::select! {
                    ended = running => ended,
                    () = signals.next() => return Err(Failure::silent(Exit::Failed)),
                }
            }
        };
        match ended {
            Ok(Ok(Ended::Stopped)) => Ok(()),
            Ok(Ok(Ended::Reboot)) => Err(Failure::silent(Exit::Reboot)),
            Ok(Err(error)) => Err(failed(&error)),
            Err(error) => Err(Failure::failed(&subject, &error)),
        }
    })
}
