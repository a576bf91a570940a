//! The command line (MS-CLI-01): global options and sub-commands. Each command's own arguments are declared beside the command.

use std::fmt::Write as _;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::commands::{
    adm, apply_plan, approve, backup, bundle, catalog, complete, completion, crd, csv, demo, deploy, describe, down, explain, graph,
    graph_data, history, image, install, list, log_level, machine, machine_config, migrate, node_agent, operator, operatorgroup, pin, plan,
    pool, provider, rbac, reference, registry, rehearse, release, resolve, restore, rollback, run, status, uninstall, up, update_graph,
    upgrade, version, versions, wait,
};

/// Operators on Kubernetes: catalogs, installs, updates and removal, with or without a cluster.
#[derive(Debug, Parser)]
#[command(name = "mainstay", version, after_help = EXAMPLES)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  mainstay demo                                  a cluster with an example catalog, an install and an upgrade
  mainstay up                                    an empty cluster; its kubeconfig is printed
  mainstay catalog add team --ref REGISTRY/CATALOG:TAG
  mainstay install PACKAGE
  mainstay resolve PACKAGE --catalog DIR         which bundle, and why; no cluster needed

Flags that choose the cluster (--kubeconfig, --context, --embedded, --as) may stand before the command, too.
Exit codes: 0 done, 1 failed or bad input, 2 usage, 3 not found, 4 impossible as asked, 5 timed out.";

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// When to use colour and progress bars' control sequences; NO_COLOR is honoured.
    #[arg(long, global = true, value_enum, default_value_t = ColorWhen::Auto, value_name = "WHEN", help_heading = "Global options")]
    pub color: ColorWhen,
    /// Logs on stderr: off, error, warn, info, debug, trace, and COMPONENT=LEVEL,...; mainstay log-level --help lists the components
    #[arg(long, global = true, env = "MAINSTAY_LOG", value_name = "LEVELS", help_heading = "Global options")]
    pub log_level: Option<String>,
    /// No progress on stderr, neither spinner nor lines
    #[arg(long, global = true, env = "MAINSTAY_QUIET", value_parser = clap::builder::FalseyValueParser::new(), help_heading = "Global options")]
    pub quiet: bool,
}

/// The commands as `mainstay --help` groups them.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Operators on a cluster",
        &["install", "upgrade", "uninstall", "migrate", "list", "describe", "explain", "wait", "operator", "machine", "pool", "adm"],
    ),
    ("Changes before and after they happen", &["plan", "apply-plan", "rehearse", "approve", "history", "rollback", "pin", "rbac"]),
    ("Catalogs and bundles", &["catalog", "bundle", "crd", "csv", "operatorgroup", "graph", "resolve", "versions", "registry", "opm"]),
    ("Releases and updates of clusters", &["release", "update-graph", "graph-data", "machine-config"]),
    ("A cluster of your own", &["demo", "up", "down", "status", "backup", "restore"]),
    ("Mainstay on other clusters", &["deploy", "run", "node-agent", "provider", "image", "log-level"]),
    ("This program", &["version", "completion", "help"]),
];

/// The declaration of opm.
pub fn opm() -> Option<clap::Command> {
    Cli::command().find_subcommand("opm").cloned()
}

/// The command line, with its commands grouped in the help.
pub fn command() -> clap::Command {
    let mut built = Cli::command();
    built.build();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(groups, "\n{title}:");
        for name in names {
            let about = built.find_subcommand(name).and_then(clap::Command::get_about).map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(groups, "  {name:<15}{about}");
        }
    }
    let template = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\n{{all-args}}{{after-help}}");
    // They are listed above already.
    Cli::command().help_template(template).override_usage("mainstay [OPTIONS] <COMMAND>").mut_subcommands(|sub| sub.hide(true))
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start an embedded cluster
    Up(Box<up::Arguments>),
    /// End an embedded cluster
    Down(down::Arguments),
    /// The embedded clusters that are running
    Status(status::Arguments),
    /// What a running program logs, read or changed while it runs
    LogLevel(log_level::Arguments),
    /// Everything that an embedded cluster stores, in one file
    Backup(backup::Arguments),
    /// A data directory from a backup
    Restore(restore::Arguments),
    /// An embedded cluster with an example catalog, an install and upgrades, step by step
    Demo(demo::Arguments),
    /// Install a package from the cluster's catalogs
    Install(install::Arguments),
    /// Upgrade what is installed
    Upgrade(upgrade::Arguments),
    /// Remove what is installed
    Uninstall(uninstall::Arguments),
    /// Move an operator from OLM classic to OLM v1, and back
    Migrate(migrate::Arguments),
    /// What is installed
    List(list::Arguments),
    /// How an installed extension stands, and what it waits for
    Describe(describe::Arguments),
    /// What a change would do, before it happens
    Plan(plan::Arguments),
    /// Apply a saved plan, unless the cluster changed since
    ApplyPlan(apply_plan::Arguments),
    /// An update of the cluster looked at beforehand: what would block it or take long
    Rehearse(rehearse::Arguments),
    /// Approve a change that waits for it
    Approve(approve::Arguments),
    /// Why something is as it is, and what to do about it
    Explain(explain::Arguments),
    /// The revisions of an extension
    History(history::Arguments),
    /// Go back to an earlier revision, with a verdict first
    Rollback(rollback::Arguments),
    /// Keep an extension at the version that is installed
    Pin(pin::Arguments),
    /// Wait until an extension or a catalog is as wanted
    Wait(wait::Arguments),
    /// Run the controllers against an existing cluster
    Run(Box<run::Arguments>),
    /// Install mainstay into a cluster
    Deploy(deploy::Arguments),
    /// An image of this program
    Image(image::Arguments),
    /// The least permissions that install a package, as objects
    Rbac(rbac::Arguments),
    /// Which bundle of a package would be installed, and why; needs no cluster
    Resolve(resolve::Arguments),
    /// Render and build bundles; needs no cluster
    #[command(subcommand)]
    Bundle(bundle::Commands),
    /// Compare CRDs; needs no cluster
    #[command(subcommand)]
    Crd(crd::Commands),
    /// What OLM classic makes of a ClusterServiceVersion; needs no cluster
    #[command(subcommand)]
    Csv(csv::Commands),
    /// What OLM classic makes of OperatorGroups that share namespaces and APIs; needs no cluster
    #[command(subcommand)]
    Operatorgroup(operatorgroup::Commands),
    /// Look into release payloads: their manifests, and the order in which these are applied; needs no cluster
    #[command(subcommand)]
    Release(release::Commands),
    /// MachineConfigs: what they become together, and what a change of them does to a node; needs no cluster
    #[command(subcommand)]
    MachineConfig(machine_config::Commands),
    /// Programs that are providers of machines
    #[command(subcommand)]
    Provider(provider::Commands),
    /// Machines: what blocks them, and what their deletion does
    #[command(subcommand)]
    Machine(machine::Commands),
    /// Bring a host or a directory tree to the configuration of its node, as the daemon on nodes does
    NodeAgent(Box<node_agent::Arguments>),
    /// Pools of nodes that share a configuration: list, pause, resume, describe
    #[command(subcommand)]
    Pool(pool::Commands),
    /// Which build this is, and which Kubernetes the cluster is
    Version(version::Arguments),
    /// Versions and ranges; needs no cluster
    #[command(subcommand)]
    Versions(versions::Commands),
    /// Catalogs: on the cluster (add, list, show, search, remove) and as files (lint, diff, filter, why, build, mirror ...)
    #[command(subcommand)]
    Catalog(catalog::Commands),
    /// An image registry for this machine, to push bundles and catalogs to
    #[command(subcommand)]
    Registry(registry::Commands),
    /// Draw the update graph of a package
    Graph(graph::Arguments),
    /// Update graphs of clusters: who can update to what; needs no cluster
    #[command(subcommand)]
    UpdateGraph(update_graph::Commands),
    /// Graph-data of an update service: which updates are blocked, or have risks
    #[command(subcommand)]
    GraphData(graph_data::Commands),
    /// What opm does
    Opm(mainstay_opm::Arguments),
    /// Shell completion for bash, zsh, fish or PowerShell
    Completion(completion::Arguments),
    /// Print every command and its options as one Markdown page
    #[command(hide = true)]
    Reference(reference::Arguments),
    /// What fits at the end of a command line
    #[command(name = "__complete", hide = true)]
    Complete(complete::Arguments),
    /// What operator-sdk does; not there yet
    #[command(name = "operator-sdk", hide = true, disable_help_flag = true)]
    OperatorSdk(OtherTool),
    /// The verbs of the plugin kubectl operator, for OLM classic
    Operator(operator::Arguments),
    /// Do what administrators do by oc: roles, Secrets, namespaces, support data
    Adm(adm::Arguments),
}

/// Whatever is said to a tool that is not there yet.
#[derive(Debug, Args)]
pub struct OtherTool {
    /// The words.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-CLI-01: every command that is shown stands in one group, and only there.
    #[test]
    fn every_command_has_its_group() {
        let mut built = Cli::command();
        built.build();
        let mut shown: Vec<&str> = built.get_subcommands().filter(|sub| !sub.is_hide_set()).map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(shown, grouped);
        let help = command().render_help().to_string();
        assert!(help.contains("\nOperators on a cluster:\n  install        Install a package"), "{help}");
        assert!(help.contains("--log-level") && !help.contains("\nCommands:"), "{help}");
    }

    /// MS-CLI-06: each command takes the formats that its help names, and refuses the others.
    #[test]
    fn formats_are_those_of_the_help() {
        fn walk(command: &clap::Command, seen: &mut usize) {
            for arg in command.get_arguments().filter(|arg| arg.get_long() == Some("output") && arg.get_possible_values().is_empty()) {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                if !help.contains("json") || help.contains('|') || command.get_name() == "deploy" {
                    continue;
                }
                *seen += 1;
                for format in ["table", "wide", "json", "yaml", "name", "jsonpath={.a}"] {
                    let probe = clap::Command::new("probe").arg(arg.clone());
                    let taken = probe.try_get_matches_from(["probe", "--output", format]).is_ok();
                    let name = format.split('=').next().unwrap_or_default();
                    let named = help.split([' ', ',', '=']).any(|word| word == name);
                    assert_eq!(taken, named, "{} -o {format}: {help}", command.get_name());
                }
            }
            command.get_subcommands().for_each(|sub| walk(sub, seen));
        }
        let mut built = Cli::command();
        built.build();
        let mut seen = 0;
        walk(&built, &mut seen);
        assert!(seen > 25, "{seen}");
    }
}
