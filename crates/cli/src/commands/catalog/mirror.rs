//! `mainstay catalog mirror`: copies a catalog and all that it names to another registry, directly or through a directory (CATLG-71..74,
//! OLM1-DISC-02, OLM1-DISC-03).
//!
//! ```text
//!   open ── catalog (filtered) and the images it names ── plan ── act: copy, record, prune ── manifests for the cluster
//! ```

mod act;
mod manifests;
mod open;
mod place;

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use mainstay_catalog::filter::Choice;
use mainstay_catalog::filter::FilterError;
use mainstay_diagnostics::counted;
use mainstay_oci::mirror::{self, Destination};
use mainstay_terminal::errors::{Exit, Failure, note, warn};
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::{images, runtime};
use serde_json::{Value, json};

use self::act::{Done, Outcome};
use self::open::Opened;
use self::place::Place;

/// The prefix of the path of a directory.
const FILE: &str = "file://";

/// Arguments.
#[allow(clippy::struct_excessive_bools, reason = "flags of a command line, independent of each other")]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog mirror quay.io/operatorhubio/catalog:latest mirror.corp:5000/olm
  mainstay catalog mirror REGISTRY/catalog:v4.18 mirror.corp:5000 --package beacon --package 'lantern@>=1.2.0' --prune
  mainstay catalog mirror REGISTRY/catalog:v4.18 file://./to-carry
  mainstay catalog mirror file://./to-carry mirror.corp:5000/olm
  mainstay catalog mirror REGISTRY/catalog:v4.18 mirror.corp:5000 --dry-run

Copied are the catalog's image, the images of its bundles, and all that bundles name as related images: whole, for every platform, so that
digests stay what they are. What is there already is not copied again, so an interrupted run is simply repeated. With --package the
catalog's image is built anew with a selection of its packages (PACKAGE[:CHANNEL[,CHANNEL...]][@RANGE]).

For clusters a directory manifests-NAME-NUMBER is written: catalogSource.yaml, clusterCatalog.yaml, imageContentSourcePolicy.yaml,
imageDigestMirrorSet.yaml, imageTagMirrorSet.yaml, registries.conf (for container tools and for mainstay itself) and mapping.txt. After a
repeated run replace the policy instead of creating it: kubectl replace -f manifests-NAME-NUMBER/imageContentSourcePolicy.yaml

--prune deletes in the destination what an earlier run put there for this catalog, and neither this run nor another catalog needs.

Exit codes: 0 done, 1 something could not be copied, 3 the catalog or a package does not exist, 4 the selection cannot be made.")]
pub struct Arguments {
    /// The catalog's image, or file://DIR that an earlier run wrote
    source: String,
    /// HOST[:PORT][/PATH] of a registry, or file://DIR
    destination: String,
    /// A package to keep, with channels and versions; can be repeated; all when not given
    #[arg(long = "package", short = 'p', value_name = "SELECTION", value_parser = selection)]
    packages: Vec<Choice>,
    /// Keep packages that the kept ones need, too
    #[arg(long, requires = "packages")]
    with_dependencies: bool,
    /// Show what would be copied, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the manifests, and copy nothing
    #[arg(long, conflicts_with_all = ["dry_run", "prune"])]
    manifests_only: bool,
    /// Where the directory of manifests is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    manifests: PathBuf,
    /// Delete what vanished since the last run
    #[arg(long)]
    prune: bool,
    /// Write the manifests even when some images cannot be copied
    #[arg(long)]
    continue_on_error: bool,
    /// Images that are copied at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

/// The destination of all images.
enum Target {
    Registry(Destination),
    Directory(PathBuf),
}

fn selection(text: &str) -> Result<Choice, FilterError> {
    text.parse()
}

/// Mirrors the catalog.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(runtime::until_interrupt(mirror(arguments), || {
        vec!["the same command goes on where this one stopped; what was copied is not copied again".to_owned()]
    }))
}

async fn mirror(arguments: &Arguments) -> Result<(), Failure> {
    let target = match arguments.destination.strip_prefix(FILE) {
        Some("") => {
            return Err(Failure::new(Exit::Usage, "destination", "file:// names no directory"));
        }
        Some(directory) => Target::Directory(directory.into()),
        None => {
            let subject = format!("destination {}", arguments.destination);
            Target::Registry(arguments.destination.parse().map_err(|error| images::failure(&subject, &error).exits(Exit::Usage))?)
        }
    };
    let client = images::client()?;
    let opened = Opened::open(&client, arguments).await?;
    for skipped in &opened.skipped {
        warn(&format!("catalog {}", arguments.source), skipped);
    }
    // In a directory images keep their names; the destination only decides their names in a registry.
    let destination = match &target {
        Target::Registry(destination) => Some(destination),
        Target::Directory(_) => None,
    };
    let copies = match destination {
        Some(destination) => mirror::plan(&opened.images, destination).map_err(|error| images::failure("plan", &error))?,
        None => mirror::in_place(&opened.images),
    };
    if arguments.dry_run {
        return show(arguments, &opened, &copies.iter().map(|copy| (copy, None)).collect::<Vec<_>>(), &[], None);
    }
    if arguments.manifests_only {
        if destination.is_none() {
            return Err(Failure::new(
                Exit::Usage,
                "catalog mirror",
                "a directory has no manifests; they are made when it goes to a registry",
            ));
        }
        let folder = manifests::write(&arguments.manifests, &opened, &copies, SystemTime::now())?;
        return output::line(folder.display().to_string());
    }
    let place = Place::open(&client, &target, opened.catalog()).await?;
    let done = act::copy_all(&client, &opened, &copies, &place, usize::from(arguments.parallel)).await?;
    let failed = done.iter().filter(|done| matches!(done.outcome, Outcome::Failed(_))).count();
    for (copy, done) in copies.iter().zip(&done) {
        if let Outcome::Failed(failure) = &done.outcome {
            warn(&format!("image {}", copy.source), &failure.to_line());
        }
    }
    let pruned = if failed == 0 { act::keep_record(&opened, &done, &place, arguments.prune).await? } else { Vec::new() };
    let folder = match destination {
        Some(_) if failed == 0 || arguments.continue_on_error => {
            Some(manifests::write(&arguments.manifests, &opened, &copies, SystemTime::now())?)
        }
        _ => None,
    };
    show(arguments, &opened, &copies.iter().zip(done.iter().map(Some)).collect::<Vec<_>>(), &pruned, folder.as_deref())?;
    if failed == 0 {
        return Ok(());
    }
    let failure =
        Failure::new(Exit::Failed, "catalog mirror", format!("{failed} of {} could not be copied", counted(copies.len(), "image")));
    Err(if arguments.continue_on_error {
        failure.hint("the same command tries those again, and leaves the others alone")
    } else {
        failure
            .hint("the same command tries those again, and leaves the others alone")
            .hint("--continue-on-error writes the manifests although images are missing; nothing is pruned then")
    })
}

/// Prints what was done, or would be.
fn show(
    arguments: &Arguments,
    opened: &Opened,
    copies: &[(&mirror::Copy, Option<&Done>)],
    pruned: &[String],
    folder: Option<&std::path::Path>,
) -> Result<(), Failure> {
    if arguments.output.is_table() {
        let mut table = Table::new(&["SOURCE", "TARGET", "OUTCOME"]);
        for (copy, done) in copies {
            let target = if copy.source == copy.target { arguments.destination.clone() } else { copy.target.to_string() };
            table.row([copy.source.to_string(), target, done.map_or("planned", |done| done.outcome.word()).to_owned()]);
        }
        for gone in pruned {
            table.row([String::new(), gone.clone(), "deleted".to_owned()]);
        }
        table.print()?;
        if let Some(folder) = folder {
            note(format!("manifests: {}", folder.display()));
        }
        return Ok(());
    }
    let item = |(copy, done): &(&mirror::Copy, Option<&Done>)| {
        let digest = done.and_then(|done| done.mirrored.as_ref()).map(|mirrored| mirrored.digest.to_string());
        let error = done.and_then(|done| match &done.outcome {
            Outcome::Failed(failure) => Some(failure.to_line()),
            Outcome::Copied | Outcome::There => None,
        });
        json!({"source": copy.source.to_string(), "target": copy.target.to_string(), "digest": digest,
            "outcome": done.map_or("planned", |done| done.outcome.word()), "error": error})
    };
    let items: Vec<Value> = copies.iter().map(item).collect();
    let folder = folder.map(|folder| folder.display().to_string());
    output::value(
        &arguments.output,
        &json!({"catalog": opened.catalog().to_string(), "destination": arguments.destination, "images": items, "deleted": pruned, "manifests": folder}),
    )
}
