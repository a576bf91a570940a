//! `mainstay install`: an extension with an account of its own (MS-CLI-05).

use clap::Args;
use mainstay_objects::{Expect, Step};
use serde_json::Value;

use super::flags::{Carrying, goes_on};
use crate::cluster::{ClusterArgs, Session, not_written};
use crate::errors::{Exit, Failure, note_drawn};
use crate::extensions::API_VERSION;
use crate::named;
use crate::output::{self, Format};
use crate::plans::{self, Change, InstallWish, Planned, Rights};
use crate::progress::Progress;
use crate::runtime;

pub use crate::plans::INSTALLER_LABEL;

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

Without --channel, the package's default channel is followed; without --watch-namespace, a bundle that cannot watch all namespaces
watches its own, or one other. The plan says both.

Without --service-account, the account PACKAGE-installer is made, with the least rights that this very bundle needs (--grant minimal)
or as an administrator (--grant admin). Everything that is going to be made is shown before; mainstay plan install shows it alone.")]
pub struct Arguments {
    /// What is wanted.
    #[command(flatten)]
    pub wish: WishArguments,
    /// Only show the plan (exit code 4 where it is not doable)
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
pub struct WishArguments {
    /// The package
    pub package: String,
    /// A channel that will do; can be repeated
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Vec<String>,
    /// The versions that will do, now and later
    #[arg(long, value_name = "RANGE")]
    pub version: Option<String>,
    /// From this catalog only
    #[arg(long, value_name = "NAME")]
    pub catalog: Option<String>,
    /// The operator's namespace; made if missing [default: what the bundle suggests, else PACKAGE-system]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace)]
    pub namespace: Option<String>,
    /// The only namespace that the operator watches [default: what the bundle is made for]
    #[arg(long, value_name = "NAMESPACE", value_parser = named::namespace)]
    pub watch_namespace: Option<String>,
    /// The extension's name [default: the package]
    #[arg(long, value_name = "NAME", value_parser = named::object)]
    pub name: Option<String>,
    /// An account that exists, to install with
    #[arg(long, value_name = "NAME", value_parser = named::object, conflicts_with = "grant")]
    pub service_account: Option<String>,
    /// The rights of the account that is made
    #[arg(long, value_enum, default_value_t = Rights::Minimal)]
    pub grant: Rights,
    /// Also what it needs: an extension for each package that is missing, and a LifecyclePolicy that resolves them together
    #[arg(long)]
    pub with_dependencies: bool,
}

impl WishArguments {
    /// The wish.
    pub fn read(&self) -> InstallWish {
        InstallWish {
            package: self.package.clone(),
            name: self.name.clone().unwrap_or_else(|| self.package.clone()),
            channels: self.channel.clone(),
            version: self.version.clone(),
            catalog: self.catalog.clone(),
            namespace: self.namespace.clone(),
            watch_namespace: self.watch_namespace.clone(),
            service_account: self.service_account.clone(),
            grant: self.grant,
            with_dependencies: self.with_dependencies,
        }
    }
}

/// Installs.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = if arguments.dry_run { arguments.cluster.open().await? } else { arguments.cluster.open_to_change().await? };
        let wish = arguments.wish.read();
        if arguments.dry_run {
            return dry_run(&session, &Change::Install(wish), &arguments.carrying.shown.format).await;
        }
        let name = wish.name.clone();
        let hints = || vec![goes_on(&name), format!("mainstay uninstall {name} undoes it")];
        let question = |_: &Planned| "install?".to_owned();
        runtime::until_interrupt(Box::pin(perform(&session, &Change::Install(wish), question, &arguments.carrying)), hints).await
    })
}

/// Plans a change and shows it, as `mainstay plan` does.
pub async fn dry_run(session: &Session, change: &Change, format: &Format) -> Result<(), Failure> {
    let mut progress = Progress::start();
    let planned = Box::pin(plans::plan(session, change, false, &mut progress)).await?;
    drop(progress);
    super::plan::dry_run(format, std::slice::from_ref(&planned))
}

/// Plans a change, shows it, asks, and does it.
pub async fn perform(
    session: &Session,
    change: &Change,
    question: impl FnOnce(&Planned) -> String,
    carrying: &Carrying,
) -> Result<(), Failure> {
    let mut progress = Progress::start();
    let planned = plans::plan(session, change, false, &mut progress).await?;
    drop(progress);
    if let Some(refusal) = planned.refusal() {
        return Err(refusal);
    }
    note_drawn(plans::painted(plans::show(&planned, false).trim_end()));
    carrying.consent.ask(&question(&planned))?;
    let outcome = plans::carry_out(session, &planned, carrying.waiting.limit()).await?;
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

/// Carries out one step.
pub async fn apply(session: &Session, step: &Step) -> Result<(), Failure> {
    let outcome = match step {
        Step::CreateOnce(object) => match session.writer.create(object).await {
            Err(mainstay_apply::WriteError::Refused { reason: mainstay_apply::Reason::AlreadyExists, .. }) => Ok(()),
            outcome => outcome.map(drop),
        },
        Step::Create(object) => session.writer.create(object).await.map(drop),
        Step::Apply { object, force, expect } => session.writer.apply(object, *force, expect).await.map(drop),
        other => return Err(Failure::new(Exit::Failed, "install", format!("unexpected step {other:?}"))),
    };
    outcome.map_err(|error| not_written(&error))
}

/// An account's object as install writes it.
pub fn labelled(object: Value, extension: &str) -> Step {
    Step::Apply { object: plans::labelled(object, extension), force: true, expect: Expect::default() }
}

/// `deployment.apps ns/name`.
pub fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]);
    let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}
