//! `mainstay operator`: the verbs of the kubectl plugin `kubectl operator` (MS-CLI-12). Everything that it says is on stdout.

mod catalog;
mod describe;
mod install;
mod listing;
mod olmv1;
mod shared;
mod uninstall;

use std::time::Duration;

use clap::{Args, Subcommand};
use kube::config::Kubeconfig;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{output, progress, runtime};

use crate::durations;
use shared::{Context, SELF, age, failed, nothing, said, table, titles};

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    common: Common,
}

/// Flags of every verb.
#[derive(Debug, Args)]
struct Common {
    /// The namespace [default: that of the kubeconfig's context]
    #[arg(long, short, global = true, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// How long the command may take
    #[arg(long, global = true, value_name = "TIME", default_value = "1m", value_parser = durations::parse)]
    timeout: Duration,
    /// The kubeconfig of the cluster
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// Act as this user
    #[arg(long = "as", global = true, value_name = "USER")]
    act_as: Option<String>,
}

/// Verbs.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Manage operator catalogs
    #[command(subcommand)]
    Catalog(catalog::Verb),
    /// Describe an operator
    Describe(describe::Arguments),
    /// Install an operator
    Install(install::Arguments),
    /// List installed operators
    List(listing::List),
    /// List operators available to be installed
    ListAvailable(listing::Available),
    /// List operands of an installed operator
    ListOperands(listing::Operands),
    /// Manage catalogs and extensions of OLM v1
    #[command(subcommand)]
    Olmv1(olmv1::Verb),
    /// Uninstall an operator and operands
    Uninstall(uninstall::Arguments),
    /// Upgrade an operator
    Upgrade(install::Upgrade),
    /// Print version information
    Version,
}

impl Verb {
    /// The time that may be needed in addition, to remove what a failed command made.
    fn clean_up(&self) -> Duration {
        match self {
            Self::Catalog(verb) => verb.clean_up(),
            Self::Install(arguments) => arguments.cleanup_timeout,
            Self::Olmv1(olmv1::Verb::Create(olmv1::Create::Catalog(arguments))) => arguments.cleanup_timeout,
            Self::Olmv1(olmv1::Verb::Install(olmv1::Install::Extension(arguments))) => arguments.cleanup_timeout,
            _ => Duration::ZERO,
        }
    }
}

/// Runs a verb. What it says, errors included, is on stdout; an error ends with exit code 1.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    progress::be_quiet();
    match run_verb(arguments) {
        Ok(()) => Ok(()),
        Err(failure) => {
            let hints: Vec<String> = failure.hints().iter().map(|hint| hint.as_str().to_owned()).collect();
            output::line(said(failure))?;
            // Flags of other commands are no advice here.
            let others = ["--create-namespace", "--catalog", "--watch-namespace", "--starting-csv"];
            for hint in hints.iter().filter(|hint| !others.iter().any(|flag| hint.contains(flag))) {
                output::line(format!("hint: {hint}"))?;
            }
            Err(Failure::silent(Exit::Failed))
        }
    }
}

fn run_verb(arguments: &Arguments) -> Result<(), Failure> {
    if matches!(arguments.verb, Verb::Version) {
        return output::line(format!("kubectl operator of mainstay {}", env!("CARGO_PKG_VERSION")));
    }
    let Common { namespace, timeout, kubeconfig, context, act_as } = &arguments.common;
    let cluster =
        ClusterArgs { kubeconfig: kubeconfig.clone(), context: context.clone(), act_as: act_as.clone(), ..ClusterArgs::default() };
    runtime::block_on(async {
        let session = cluster.open().await?;
        let given = namespace.clone();
        let namespace = match namespace {
            Some(namespace) => namespace.clone(),
            None => context_namespace(kubeconfig.as_deref(), &session.context).unwrap_or_else(|| "default".to_owned()),
        };
        let context = Context { session, namespace, given, timeout: *timeout };
        let work = Box::pin(verb(&context, &arguments.verb));
        match tokio::time::timeout(*timeout + arguments.verb.clean_up(), work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::new(Exit::TimedOut, SELF, "context deadline exceeded")),
        }
    })
}

async fn verb(context: &Context, verb: &Verb) -> Result<(), Failure> {
    match verb {
        Verb::Catalog(verb) => catalog::run(context, verb).await,
        Verb::Describe(arguments) => describe::run(context, arguments).await,
        Verb::Install(arguments) => failed("failed to install operator", install::run(context, arguments).await),
        Verb::List(arguments) => failed("list operators", listing::list(context, arguments).await),
        Verb::ListAvailable(arguments) => listing::available(context, arguments).await,
        Verb::ListOperands(arguments) => failed("list operands", listing::operands(context, arguments).await),
        Verb::Olmv1(verb) => olmv1::run(context, verb).await,
        Verb::Uninstall(arguments) => failed("uninstall operator", uninstall::run(context, arguments).await),
        Verb::Upgrade(arguments) => failed("failed to upgrade operator", install::upgrade(context, arguments).await),
        Verb::Version => Ok(()),
    }
}

/// The namespace of a context.
pub(super) fn context_namespace(file: Option<&std::path::Path>, context: &str) -> Option<String> {
    let kubeconfig = file.map_or_else(Kubeconfig::read, Kubeconfig::read_from).ok()?;
    let context = kubeconfig.contexts.into_iter().find(|each| each.name == context)?;
    context.context?.namespace.filter(|namespace| !namespace.is_empty())
}
