//! `mainstay adm upgrade`: what `oc adm upgrade` shows and asks for (CVO-CLI, CVO-CHAN, CVO-RCMD, CVO-RLBK, CVO-STAT).

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use mainstay_cluster_update::status::{self, Details, Facts};
use mainstay_cluster_update::{Allowances, Asked, Check, Screen, Shown, Style, Target};
use mainstay_operations::Session;
use mainstay_operations::cluster_update::{self as operations, Observed};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::screen::{self, Kind};
use mainstay_terminal::{output, runtime};
use serde_json::Value;

use super::recorded::{beside, list, object};
use crate::commands::cluster_assessment::Releases;
use crate::update_text;

const NO_ALERTS: &str = "alerts are read from files only (--from-files)";

const PRECHECK: &str = "OC_ENABLE_CMD_UPGRADE_RECOMMEND_PRECHECK";
const RECOMMEND_HELP: &str = "\
Examples:
  mainstay adm upgrade recommend                               the two newest releases of each minor version
  mainstay adm upgrade recommend --show-outdated-releases      all
  mainstay adm upgrade recommend --version 4.19.44             one at length
  mainstay adm upgrade recommend --precheck --from-files DIR   with the alerts of alerts.json
  mainstay adm upgrade recommend --version 4.19.44 --readiness   and what of this cluster would block it, or risk something

Nothing is changed. Words and exit codes are those of oc.

Exit codes: 0 done, 1 refused, 4 with --readiness: something blocks.";

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay adm upgrade                              how the cluster is, and which updates there are
  mainstay adm upgrade --include-not-recommended    those with known issues, too
  mainstay adm upgrade --to 4.19.44
  mainstay adm upgrade --to-latest --allow-upgrade-with-warnings
  mainstay adm upgrade --clear
  mainstay adm upgrade channel stable-4.19
  mainstay adm upgrade recommend                    the releases that it could update to, and their known issues
  mainstay adm upgrade status --details health
  mainstay adm upgrade status --from-files DIR      of recorded objects: cv.yaml, co.yaml, mcp.yaml, mc.yaml, node.yaml, alerts.json

Flags, words and exit codes are those of oc.

Exit codes: 0 done, 1 refused.")]
pub struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    request: Request,
    /// Answer for the objects in these files instead of a cluster; nothing is sent
    #[arg(long, global = true, value_name = "DIR")]
    from_files: Option<PathBuf>,
}

/// The update that is asked for.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one per flag")]
struct Request {
    /// Update to this version, which must be among the available updates
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    /// Update to this release image
    #[arg(long, value_name = "PULLSPEC")]
    to_image: Option<String>,
    /// Update to the highest version that is offered
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, hide_default_value = true, hide_possible_values = true)]
    to_latest: bool,
    /// Move to several architectures at the current version
    #[arg(long)]
    to_multi_arch: bool,
    /// Withdraw an update that was asked for and has not begun
    #[arg(long)]
    clear: bool,
    /// Let the cluster pass over failing verification and preconditions
    #[arg(long)]
    force: bool,
    /// With --to-image, take an image that is not among the available updates
    #[arg(long)]
    allow_explicit_upgrade: bool,
    /// Ask although the cluster is updating or failing
    #[arg(long)]
    allow_upgrade_with_warnings: bool,
    /// Take an update that is not recommended
    #[arg(long)]
    allow_not_recommended: bool,
    /// Show updates that are not recommended
    #[arg(long)]
    include_not_recommended: bool,
    /// The release whose words are used
    #[arg(long, value_enum, default_value = "4.19")]
    output_style: OutputStyle,
}

/// The release whose words are used.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputStyle {
    /// Of 4.12: Supported but not recommended updates
    #[value(name = "4.12")]
    V4_12,
    /// Of 4.19: Updates with known issues
    #[value(name = "4.19")]
    V4_19,
}

/// Verbs.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Set the channel of updates; clear it if none is given
    Channel {
        /// The channel
        channel: Option<String>,
        /// Take a channel that is not known for the current version
        #[arg(long)]
        allow_explicit_channel: bool,
    },
    /// Show the releases that the cluster could update to, and their known issues
    #[command(after_help = RECOMMEND_HELP)]
    Recommend {
        /// Show all releases, the older ones too
        #[arg(long)]
        show_outdated_releases: bool,
        /// Show one release at length
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        /// Check firing alerts before; OC_ENABLE_CMD_UPGRADE_RECOMMEND_PRECHECK=true says the same
        #[arg(long)]
        precheck: bool,
        /// Check, too, what of this cluster would block the update to --version, or risk something
        #[arg(long, requires = "version", conflicts_with = "from_files")]
        readiness: bool,
    },
    /// Go back to the release before, of the same minor version
    Rollback,
    /// Show how far an update is, and what stands in its way
    Status {
        /// The parts that are shown at length
        #[arg(long, value_enum, default_value = "none")]
        details: DetailsArg,
    },
    /// Nothing that is known
    #[command(external_subcommand)]
    Other(Vec<String>),
}

/// The parts that are shown at length.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum DetailsArg {
    /// None
    None,
    /// All
    All,
    /// Every node
    Nodes,
    /// Descriptions and links
    Health,
}

/// Runs it.
pub fn run(arguments: &Arguments, cluster: &ClusterArgs) -> Result<(), Failure> {
    if let Some(Verb::Other(words)) = &arguments.verb {
        return Err(refuse(&UnknownCommand(words.first().cloned().unwrap_or_default())));
    }
    // What can be refused without a cluster is.
    let asked = arguments.request.asked();
    let target =
        if arguments.verb.is_none() { asked.target().map(|(target, _)| target).map_err(|error| refuse(&error))? } else { Target::None };
    if let Some(Verb::Status { details }) = arguments.verb {
        return show_status(arguments, cluster, details.into());
    }
    let shown = match &arguments.verb {
        Some(Verb::Recommend { show_outdated_releases, version, .. }) => {
            Some(Shown::new(*show_outdated_releases, version.as_deref()).map_err(|error| refuse(&error))?)
        }
        _ => None,
    };
    let decide = |cluster_version: Option<Value>| -> Result<Screen, Failure> {
        let Some(cluster_version) = cluster_version else { return Err(no_cluster(arguments.verb.is_some())) };
        match &arguments.verb {
            Some(Verb::Channel { channel, allow_explicit_channel }) => {
                let wanted = channel.as_deref().unwrap_or_default();
                mainstay_cluster_update::channel(wanted, *allow_explicit_channel, &cluster_version).map_err(|error| refuse(&error))
            }
            Some(Verb::Recommend { precheck, .. }) => {
                let checks = if *precheck || std::env::var_os(PRECHECK).is_some_and(|set| set == "true") {
                    Some(checks(arguments.from_files.as_deref())?)
                } else {
                    None
                };
                let shown = shown.clone().unwrap_or_default();
                mainstay_cluster_update::recommend(&cluster_version, &shown, checks.as_deref()).or_else(|error| {
                    if let Some(before) = error.screen() {
                        screen::err(&before.warnings, Kind::Text);
                        output::print(&before.text)?;
                    }
                    Err(refuse(&error))
                })
            }
            Some(Verb::Rollback) => mainstay_cluster_update::rollback(&cluster_version).map_err(|error| refuse(&error)),
            _ if target == Target::None => Ok(mainstay_cluster_update::summary(
                &cluster_version,
                arguments.request.include_not_recommended,
                arguments.request.output_style.into(),
            )),
            _ => mainstay_cluster_update::request(&asked, &cluster_version).map_err(|error| refuse(&error)),
        }
    };
    if let Some(folder) = &arguments.from_files {
        let screen = decide(object(folder, &["cv", "clusterversion"])?)?;
        screen::err(&screen.warnings, Kind::Text);
        return output::print(&screen.text);
    }
    runtime::block_on(async {
        let session = cluster.open().await?;
        let screen = decide(operations::cluster_version(&session).await?)?;
        screen::err(&screen.warnings, Kind::Text);
        if let Some(patch) = screen.patch {
            operations::patch(&session, patch).await?;
        }
        output::print(&screen.text)?;
        match &arguments.verb {
            Some(Verb::Recommend { readiness: true, version: Some(version), .. }) => readiness(&session, version).await,
            _ => Ok(()),
        }
    })
}

/// Prints what of this cluster would block an update, or risk something (MS-READY-01).
async fn readiness(session: &Session, version: &str) -> Result<(), Failure> {
    let assessed = Releases::default().assess_what_can_be_read(session, version).await?;
    update_text::report(&assessed.found.report)?;
    update_text::estimate(&assessed.found.estimate)?;
    assessed.verdict(true)
}

impl Request {
    fn asked(&self) -> Asked {
        Asked {
            to: self.to.clone(),
            to_image: self.to_image.clone(),
            to_latest: self.to_latest,
            to_multi_arch: self.to_multi_arch,
            clear: self.clear,
            allow: Allowances {
                force: self.force,
                explicit_upgrade: self.allow_explicit_upgrade,
                upgrade_with_warnings: self.allow_upgrade_with_warnings,
                not_recommended: self.allow_not_recommended,
            },
        }
    }
}

impl From<OutputStyle> for Style {
    fn from(style: OutputStyle) -> Self {
        match style {
            OutputStyle::V4_12 => Self::V4_12,
            OutputStyle::V4_19 => Self::V4_19,
        }
    }
}

impl From<DetailsArg> for Details {
    fn from(details: DetailsArg) -> Self {
        match details {
            DetailsArg::None => Self::None,
            DetailsArg::All => Self::All,
            DetailsArg::Nodes => Self::Nodes,
            DetailsArg::Health => Self::Health,
        }
    }
}

/// A word that is no verb.
#[derive(Debug, thiserror::Error)]
#[error("unknown command {0:?}\nSee 'oc adm upgrade -h' for help and examples")]
struct UnknownCommand(String);

/// Says a refusal in `oc`'s words.
fn refuse(error: &dyn std::error::Error) -> Failure {
    let text = error.to_string();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    screen::err(&format!("error: {text}{end}"), Kind::Text);
    Failure::silent(Exit::Failed)
}

/// There is no ClusterVersion.
fn no_cluster(of_verb: bool) -> Failure {
    #[derive(Debug, thiserror::Error)]
    #[error(
        "{0}o cluster version information available - you must be connected to an OpenShift version 4 server to fetch the current version"
    )]
    struct Missing(char);
    refuse(&Missing(if of_verb { 'n' } else { 'N' }))
}

/// The objections of alerts to an update; that they cannot be read is printed first.
fn checks(folder: Option<&Path>) -> Result<Vec<Check>, Failure> {
    let Some(folder) = folder else {
        output::line(format!("Failed to check for at least some preconditions: {NO_ALERTS}"))?;
        return Ok(Vec::new());
    };
    let Some(alerts) = object(folder, &["alerts"])? else { return Ok(vec![Check::without_file(&beside(folder, "alerts.json"))]) };
    match mainstay_cluster_update::checks(&alerts) {
        Ok(checks) => Ok(checks),
        Err(error) => {
            output::line(format!("Failed to check for at least some preconditions: {error}"))?;
            Ok(Vec::new())
        }
    }
}

fn show_status(arguments: &Arguments, cluster: &ClusterArgs, details: Details) -> Result<(), Failure> {
    let (observed, alerts, now) = if let Some(folder) = &arguments.from_files {
        let Some(cluster_version) = object(folder, &["cv", "clusterversion"])? else { return Err(no_cluster(true)) };
        let items = |names: &[&str]| Ok::<_, Failure>(object(folder, names)?.map(list).unwrap_or_default());
        let observed = Observed {
            cluster_version,
            operators: items(&["co", "clusteroperators"])?,
            pools: items(&["mcp", "machineconfigpools"])?,
            machine_configs: items(&["mc", "machineconfigs"])?,
            nodes: items(&["node", "nodes"])?,
        };
        let now = status::recorded_now(&observed.cluster_version, &observed.operators);
        let alerts =
            object(folder, &["alerts"])?.ok_or_else(|| format!("open {}: no such file or directory", beside(folder, "alerts.json")));
        (observed, alerts, now)
    } else {
        let observed = runtime::block_on(async { Ok(operations::observe(&cluster.open().await?).await?) })?;
        let Some(observed) = observed else { return Err(no_cluster(true)) };
        (observed, Err(NO_ALERTS.to_owned()), jiff::Timestamp::now())
    };
    let facts = Facts {
        cluster_version: &observed.cluster_version,
        operators: &observed.operators,
        pools: &observed.pools,
        machine_configs: &observed.machine_configs,
        nodes: &observed.nodes,
        alerts: alerts.as_ref().map_err(String::as_str),
        now,
    };
    output::print(&status::status(&facts, details).map_err(|error| refuse(&error))?)
}
