//! `mainstay release plan`: what an update from one release to another does (MS-PLAN-01, CVO-GRAPH-11).

use clap::Args;
use mainstay_cluster_version_core::plan::{Plan, Side};
use mainstay_release::{Files, Filter, Manifest, Metadata};
use mainstay_terminal::errors::{Exit, Failure, warn};
use mainstay_terminal::output::{self, Format};

use super::{Cluster, of_files, source};
use crate::update_text;

/// Arguments of `release plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay release plan payload/4.18.54 payload/4.19.44
  mainstay release plan quay.example/release:4.18.54 release-4.19.44.tar --fields
  mainstay release plan OLD NEW --capabilities None,Console -o json

The cluster is taken to be as OLD wants it; nothing is asked of a cluster. Each write is computed by the rules of its kind, as the Cluster
Version Operator does it. Groups of the same step are applied at once.

Exit codes: 0 done, 1 bad input, 4 the update would fail at a manifest.")]
pub struct Arguments {
    /// The release that the cluster has: an image, an OCI layout or archive, a tar file, or a folder
    #[arg(value_name = "OLD")]
    from: String,
    /// The release that it is to get
    #[arg(value_name = "NEW")]
    to: String,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    shown: update_text::Shown,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

/// A release's version, its manifests and the versions that may update to it.
struct Read {
    metadata: Metadata,
    manifests: Vec<Manifest>,
}

impl Read {
    fn of(place: &str, profile: &str) -> Result<Self, Failure> {
        let files: Files = source::read(place)?.files;
        let subject = format!("release {place}");
        let Some(metadata) = files.release("release-metadata") else {
            return Err(Failure::new(Exit::Failed, subject, "has no release-metadata"));
        };
        let metadata = Metadata::parse(metadata).map_err(|error| Failure::failed(&subject, &error))?;
        for warning in &metadata.warnings {
            warn(&subject, warning);
        }
        Ok(Self { manifests: of_files(&files, place, profile)?, metadata })
    }

    fn side(&self) -> Side<'_> {
        Side { version: &self.metadata.version_text, manifests: &self.manifests }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let capabilities = arguments.cluster.capabilities()?;
    let filter: Filter<'_> = arguments.cluster.filter(&capabilities);
    let (from, to) =
        (Read::of(&arguments.from, filter.profile.unwrap_or_default())?, Read::of(&arguments.to, filter.profile.unwrap_or_default())?);
    let plan = Plan::new(from.side(), to.side(), &to.metadata.previous, &filter, &capabilities);
    if arguments.output.is_table() {
        update_text::plan(&plan, arguments.shown)?;
    } else {
        let told = serde_json::to_value(&plan).map_err(|error| Failure::failed("plan", &error))?;
        output::value(&arguments.output, &told)?;
    }
    if plan.summary.faults == 0 {
        return Ok(());
    }
    Err(Failure::new(Exit::Impossible, format!("update {} to {}", plan.from, plan.to), "would fail at a manifest"))
}
