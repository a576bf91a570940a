//! `mainstay install`: installs an extension with a service account of its own (MS-CLI-05).

use clap::Args;
use mainstay_operations::extensions::API_VERSION;
use mainstay_operations::{Change, InstallRequest, Planned, Session, apply};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note_drawn};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;

use super::classic;
use super::classic::install::ApprovalFlag;
use super::classic::tokens::TokenArguments;
use super::flags::{Carrying, GrantFlag, goes_on};
use crate::named;
use crate::plan_text;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay install beacon
  mainstay install beacon --version 1.0.x --channel stable --yes
  mainstay install beacon --dry-run               only the plan
  mainstay install harbour --with-dependencies    and the packages that it needs
  mainstay install cellar --namespace cellar --watch-namespace cellar
  mainstay install beacon --namespace ops --service-account my-installer
  mainstay install beacon --classic -n lights --create-namespace     by a Subscription of OLM classic
  mainstay install beacon --classic -n lights --version 1.0.0        stays at it: later InstallPlans wait for mainstay approve
  mainstay install cache --classic -n caches --approval Manual --role-arn arn:aws:iam::123456789012:role/cache
                                                  an operator that authenticates to a cloud by its token
  mainstay install beacon --classic -n lights --audit                with the permissions that it asks for

Without --channel, the package's default channel is followed; without --watch-namespace, a bundle that cannot watch all namespaces
watches its own, or one other. The plan says both.

Without --service-account, the account PACKAGE-installer is made, with the least permissions that this very bundle needs (--grant minimal)
or as an administrator (--grant admin). Everything that is going to be made is shown before; mainstay plan install shows it alone.")]
pub struct Arguments {
    /// What is wanted.
    #[command(flatten)]
    pub request: RequestArguments,
    /// Only show the plan (exit code 4 if it cannot be applied)
    #[arg(long)]
    pub dry_run: bool,
    /// How it is done.
    #[command(flatten)]
    pub carrying: Carrying,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// What is wanted of an install, also of a plan for one.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct RequestArguments {
    /// The package
    pub package: String,
    /// A channel to follow; can be repeated
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Vec<String>,
    /// The acceptable versions, now and later
    #[arg(long, value_name = "RANGE")]
    pub version: Option<String>,
    /// From this catalog only; NAME/NAMESPACE with --classic
    #[arg(long, value_name = "NAME")]
    pub catalog: Option<String>,
    /// The operator's namespace; made if missing [default: what the bundle suggests, else PACKAGE-system]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace)]
    pub namespace: Option<String>,
    /// The only namespace that the operator watches [default: what the bundle is made for]; can be repeated with --classic
    #[arg(long, value_name = "NAMESPACE", value_parser = named::namespace)]
    pub watch_namespace: Vec<String>,
    /// The extension's name, or the Subscription's [default: the package]
    #[arg(long, value_name = "NAME", value_parser = named::object)]
    pub name: Option<String>,
    /// An account that exists, to install with
    #[arg(long, value_name = "NAME", value_parser = named::object, conflicts_with = "grant")]
    pub service_account: Option<String>,
    /// The permissions of the account that is created
    #[arg(long, value_enum, default_value_t)]
    pub grant: GrantFlag,
    /// Also what it needs: an extension for each package that is missing, and a LifecyclePolicy that resolves them together
    #[arg(long)]
    pub with_dependencies: bool,
    /// By OLM classic: a Subscription, and an OperatorGroup if the namespace has none
    #[arg(long, requires = "namespace", conflicts_with = "grant")]
    pub classic: bool,
    /// The CSV that is installed first, with --classic
    #[arg(long, value_name = "CSV", requires = "classic", conflicts_with = "version")]
    pub starting_csv: Option<String>,
    /// Whether InstallPlans wait for mainstay approve, with --classic [default: Automatic, or Manual for an older version]
    #[arg(long, value_enum, requires = "classic")]
    pub approval: Option<ApprovalFlag>,
    /// Watch all namespaces, with --classic
    #[arg(long, requires = "classic", conflicts_with = "watch_namespace")]
    pub all_namespaces: bool,
    /// A variable for the operator, with --classic: ROLEARN=arn:aws:iam::123456789012:role/cache; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "classic")]
    pub env: Vec<String>,
    /// Make the namespace if it is missing, with --classic
    #[arg(long, requires = "classic")]
    pub create_namespace: bool,
    /// Show the permissions that the operator asks for, with --classic: its catalog's image and its bundle's are pulled
    #[arg(long, requires = "classic")]
    pub audit: bool,
    /// Identities in a cloud that the operator's token opens, with --classic.
    #[command(flatten)]
    pub tokens: TokenArguments,
}

impl RequestArguments {
    /// The request.
    pub fn read(&self) -> Result<InstallRequest, Failure> {
        if self.watch_namespace.len() > 1 {
            return Err(Failure::new(Exit::Usage, "--watch-namespace", "an extension watches one namespace, or all"));
        }
        Ok(InstallRequest {
            package: self.package.clone(),
            name: self.name.clone().unwrap_or_else(|| self.package.clone()),
            channels: self.channel.clone(),
            version: self.version.clone(),
            catalog: self.catalog.clone(),
            namespace: self.namespace.clone(),
            watch_namespace: self.watch_namespace.first().cloned(),
            service_account: self.service_account.clone(),
            grant: self.grant.into(),
            with_dependencies: self.with_dependencies,
        })
    }
}

/// Installs the extension.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.request.classic {
        return classic::install::run(&arguments.request, arguments.dry_run, &arguments.carrying, &arguments.cluster);
    }
    let request = arguments.request.read()?;
    runtime::block_on(async {
        let session = if arguments.dry_run { arguments.cluster.open().await? } else { arguments.cluster.open_to_change().await? };
        if arguments.dry_run {
            return dry_run(&session, &Change::Install(request), &arguments.carrying.shown.format).await;
        }
        let name = request.name.clone();
        let hints = || vec![goes_on(&name), format!("mainstay uninstall {name} undoes it")];
        let question = |_: &Planned| "install?".to_owned();
        runtime::until_interrupt(Box::pin(perform(&session, &Change::Install(request), question, &arguments.carrying)), hints).await
    })
}

/// Plans a change and prints the plan, as `mainstay plan` does.
pub async fn dry_run(session: &Session, change: &Change, format: &Format) -> Result<(), Failure> {
    let mut progress = Progress::start();
    let planned = Box::pin(mainstay_operations::plan(session, change, false, &mut progress)).await?;
    drop(progress);
    super::plan::dry_run(format, std::slice::from_ref(&planned))
}

/// Plans a change, shows the plan, asks, and applies it.
pub async fn perform(
    session: &Session,
    change: &Change,
    question: impl FnOnce(&Planned) -> String,
    carrying: &Carrying,
) -> Result<(), Failure> {
    let mut progress = Progress::start();
    let planned = mainstay_operations::plan(session, change, false, &mut progress).await?;
    drop(progress);
    if let Some(refusal) = planned.refusal() {
        return Err(refusal.into());
    }
    note_drawn(plan_text::painted(plan_text::show(&planned, false).trim_end()));
    carrying.consent.ask(&question(&planned))?;
    let outcome = apply::carry_out(session, &planned, carrying.waiting.limit(), &mut Progress::start()).await?;
    match outcome.extension {
        Some(extension) => finish(&carrying.shown.format, &extension, || outcome.line),
        None => output::line(outcome.line),
    }
}

/// Prints the extension, or one line.
pub fn finish(format: &Format, extension: &mainstay_api::olm_v1::ClusterExtension, line: impl FnOnce() -> String) -> Result<(), Failure> {
    if format.is_table() {
        return output::line(line());
    }
    let mut object = serde_json::to_value(extension).map_err(|error| Failure::failed("clusterextension", &error))?;
    object["apiVersion"] = API_VERSION.into();
    object["kind"] = "ClusterExtension".into();
    output::value(format, &object)
}
