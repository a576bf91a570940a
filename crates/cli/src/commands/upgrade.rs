//! `mainstay upgrade`: another version or channel of an extension, with the permissions that it needs (MS-CLI-05).

use clap::Args;
use mainstay_operations::{Change, Planned, extensions};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::runtime;

use super::classic;
use super::flags::{Carrying, GrantFlag, SafetyFlag, goes_on};
use super::install::{dry_run, perform};
use super::list;
use crate::named;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay upgrade beacon                      to the newest version that its channels and update edges allow
  mainstay upgrade beacon --version 1.1.x      to a version in this range; later ones in it follow by themselves
  mainstay upgrade beacon --channel candidate
  mainstay upgrade beacon --dry-run            only the plan
  mainstay upgrade beacon --crd-safety warn    although a CRD changes unsafely; the plan names what loses data
  mainstay upgrade beacon --classic -n lights  approves the InstallPlan that waits; --channel changes the Subscription's channel
  mainstay upgrade beacon -w                   and then every change of it, as mainstay list -w shows them

Without --version a pinned version is released. Permissions that the new version needs beyond the present ones are shown and granted to
the account that mainstay install made; an account of yours is left alone unless --grant is given. mainstay plan upgrade shows it alone.")]
pub struct Arguments {
    /// The extension
    pub name: String,
    /// The acceptable versions, now and later
    #[arg(long, value_name = "RANGE")]
    pub version: Option<String>,
    /// A channel to follow; can be repeated
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Vec<String>,
    /// The permissions of the account, also of one that install did not create
    #[arg(long, value_enum)]
    pub grant: Option<GrantFlag>,
    /// Whether CRDs may change although existing objects may lose data
    #[arg(long, value_enum)]
    pub crd_safety: Option<SafetyFlag>,
    /// The Subscription's namespace, with --classic
    #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace, requires = "classic")]
    pub namespace: Option<String>,
    /// Of OLM classic: the Subscription, package or CSV of this name
    #[arg(long, requires = "namespace", conflicts_with_all = ["version", "grant", "crd_safety", "watch"])]
    pub classic: bool,
    /// Only show the plan (exit code 4 if it cannot be applied)
    #[arg(long)]
    pub dry_run: bool,
    /// Then show every change of it, until interrupted
    #[arg(long, short, conflicts_with_all = ["dry_run", "no_wait"])]
    pub watch: bool,
    /// How it is done.
    #[command(flatten)]
    pub carrying: Carrying,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Upgrades the extension.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = if arguments.dry_run { arguments.cluster.open().await? } else { arguments.cluster.open_to_change().await? };
        let name = &arguments.name;
        if arguments.classic {
            let namespace = classic::namespace("upgrade", arguments.namespace.as_deref())?;
            let channel = arguments.channel.first().map(String::as_str);
            let carrying = &arguments.carrying;
            if arguments.dry_run {
                let wanted = classic::upgrade::Wanted { namespace, name, channel, to: None };
                return Box::pin(classic::upgrade::dry_run(&session, &wanted, &carrying.shown.format)).await;
            }
            return Box::pin(classic::upgrade::perform(&session, namespace, name, channel, carrying)).await;
        }
        let before = extensions::get(&session, name).await?;
        let pinned = before.spec.source.catalog.as_ref().and_then(|catalog| catalog.version.clone());
        let back = extensions::installed(&before).map_or_else(String::new, |bundle| bundle.version);
        let hints =
            || vec![goes_on(name), format!("before, {back} was installed with version {}", pinned.as_deref().unwrap_or("not pinned"))];
        let change = Change::Upgrade {
            name: name.clone(),
            version: arguments.version.clone(),
            channels: arguments.channel.clone(),
            grant: arguments.grant.map(Into::into),
            crd_safety: arguments.crd_safety.map(Into::into),
        };
        if arguments.dry_run {
            return dry_run(&session, &change, &arguments.carrying.shown.format).await;
        }
        let question = |planned: &Planned| format!("upgrade {name} to {}?", planned.bundle().unwrap_or_default());
        runtime::until_interrupt(Box::pin(perform(&session, &change, question, &arguments.carrying)), hints).await?;
        if arguments.watch { list::follow(&session, name, arguments.carrying.shown.format.clone()).await } else { Ok(()) }
    })
}
