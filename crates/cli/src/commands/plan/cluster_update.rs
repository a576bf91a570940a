//! `mainstay plan cluster-update`: what an update of this cluster to another release would do (MS-PLAN-01).

use std::path::PathBuf;

use clap::Args;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Failure, note};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::runtime;

use crate::commands::cluster_assessment::Releases;
use crate::update_text::{self, Shown};

/// Arguments.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay plan cluster-update --to 4.19.44
  mainstay plan cluster-update --to 4.19.44 --fields         each field that changes
  mainstay plan cluster-update --to 4.19.44 --out update.plan
  mainstay apply-plan update.plan                            asks for the update, if the plan still fits
  mainstay plan cluster-update --release payload/4.19.44 --current payload/4.18.54
  mainstay plan cluster-update --to 4.19.44 -o json | jq '.readiness.findings[] | select(.level == \"Blocks\")'

Each object of the release is compared with the one in the cluster, by the rules with which the Cluster Version Operator writes it. Then the
cluster is looked at for what would block the update, and for what it risks. Nothing is changed.

As JSON: {\"kind\": \"Plan\", \"operation\": \"cluster-update\", \"from\", \"to\", \"doable\", \"update\": as release plan -o json,
\"readiness\": {\"findings\": [{\"check\", \"level\": Blocks|Risk|Note, \"object\", \"evidence\", \"action\", \"since\"}], \"notRun\": [{\"check\", \"why\"}]},
\"estimate\": {\"lastUpdateSeconds\", \"pools\": [{\"name\", \"nodes\", \"maxUnavailable\", \"rounds\"}]}}

Exit codes: 0 nothing blocks, 1 bad input, or a check could not be made, 3 no such release, 4 something blocks.")]
pub struct Arguments {
    /// The version
    #[arg(long, value_name = "VERSION", required_unless_present = "release")]
    to: Option<String>,
    #[command(flatten)]
    releases: Releases,
    #[command(flatten)]
    shown: Shown,
    /// Save the plan, for mainstay apply-plan; a relative place of a release counts from the folder in which that is called
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let assessed = arguments.releases.assess(&session, arguments.to.as_deref(), None).await?;
        if arguments.output.is_table() {
            if let Some(plan) = &assessed.found.plan {
                update_text::plan(plan, arguments.shown)?;
            }
            update_text::report(&assessed.found.report)?;
            update_text::estimate(&assessed.found.estimate)?;
        } else {
            output::value(&arguments.output, &assessed.document("cluster-update")?)?;
        }
        assessed.verdict(arguments.output.is_table())?;
        if let Some(out) = &arguments.out {
            arguments.releases.saved(&assessed)?.write(out)?;
            note(format!("plan saved in {}; mainstay apply-plan {} asks for the update", out.display(), out.display()));
        }
        Ok(())
    })
}
