//! `mainstay adm must-gather`: the support data of a cluster (OLM0-ADMIN-45).

use std::path::PathBuf;

use clap::Args;
use mainstay_operations::inspect;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::runtime;

use super::folder::Folder;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay adm must-gather                        below must-gather.local.TIME
  mainstay adm must-gather --dest-dir support

It has all ClusterOperators with what they relate to, nodes, the objects of OLM v1, and the namespaces of OLM classic: its own, and
those with catalogs, Subscriptions or OperatorGroups. Values of Secrets are left out.")]
pub struct Arguments {
    /// The folder, which must be empty or not there [default: must-gather.local.TIME]
    #[arg(long, value_name = "DIR")]
    dest_dir: Option<PathBuf>,
}

/// Collects.
pub fn run(arguments: &Arguments, cluster: &ClusterArgs) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = cluster.open().await?;
        let folder = Folder::make(arguments.dest_dir.as_deref(), "must-gather")?;
        let summary = inspect::must_gather(&session, &mut |path, content| folder.write(path, content)).await?;
        folder.done(&summary)
    })
}
