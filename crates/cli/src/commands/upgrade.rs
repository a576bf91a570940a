//! `mainstay upgrade`: another version or channel of an extension, with the rights that it needs (MS-CLI-05).

use clap::Args;

use super::install::perform;
use crate::cluster::{ClusterArgs, Session};
use crate::errors::Failure;
use crate::extensions;
use crate::output::Format;
use crate::plans::{self, Change};
use crate::progress::Progress;
use crate::runtime;

pub use crate::plans::Granted;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay upgrade beacon                      to the newest version that its channels and update edges allow
  mainstay upgrade beacon --version 1.1.x      to a version in this range; later ones in it follow by themselves
  mainstay upgrade beacon --channel candidate

Without --version a version that is pinned is let go. Rights that the new version needs beyond the present ones are shown and granted to
the account that mainstay install made; an account of yours is left alone. mainstay plan upgrade shows it alone.")]
pub struct Arguments {
    /// The extension
    pub name: String,
    /// The versions that will do, now and later
    #[arg(long, value_name = "RANGE")]
    pub version: Option<String>,
    /// A channel that will do; can be repeated
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Do not wait until it is installed
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
    /// table, json, yaml, name or jsonpath=PATH: how the extension is shown at the end
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub output: Format,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Upgrades.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open_to_change().await?;
        let name = &arguments.name;
        let before = extensions::get(&session, name).await?;
        let pinned = before.spec.source.catalog.as_ref().and_then(|catalog| catalog.version.clone());
        let back = extensions::installed(&before).map_or_else(String::new, |bundle| bundle.version);
        let hints = || {
            vec![
                format!("what was written stays, and the cluster goes on; mainstay describe {name} shows how it stands"),
                format!("before, {back} was installed with version {}", pinned.as_deref().unwrap_or("not pinned")),
            ]
        };
        runtime::until_interrupt(Box::pin(upgrade(&session, arguments)), hints).await
    })
}

async fn upgrade(session: &Session, arguments: &Arguments) -> Result<(), Failure> {
    let name = &arguments.name;
    let change = Change::Upgrade { name: name.clone(), version: arguments.version.clone(), channels: arguments.channel.clone() };
    let mut progress = Progress::start();
    let planned = plans::plan(session, &change, false, &mut progress).await?;
    drop(progress);
    let question = format!("upgrade {name} to {}?", planned.bundle().unwrap_or_default());
    let timeout = (!arguments.no_wait).then_some(arguments.timeout);
    perform(session, &planned, &question, arguments.yes, timeout, &arguments.output).await
}
