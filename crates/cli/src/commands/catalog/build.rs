//! `mainstay catalog build`: a file-based catalog as an image.

use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_catalog::Source as _;
use mainstay_catalog::{Catalog, Limits, validate, visible_files};
use mainstay_catalog_store::DirectorySource;
use mainstay_oci::ImageBuilder;

use crate::errors::{Exit, Failure};
use crate::images::{self, CATALOG_LABEL, Target};
use crate::{output, runtime};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog build examples/catalog --push REGISTRY/catalog:latest
  mainstay catalog build examples/catalog --layout out/

The catalog is checked as `opm validate` checks it before anything is written.")]
pub struct Arguments {
    /// The directory of the catalog
    directory: PathBuf,
    /// Where to push the image
    #[arg(long, value_name = "REF", required_unless_present = "layout", conflicts_with = "layout")]
    push: Option<String>,
    /// An OCI layout directory to write the image into
    #[arg(long, value_name = "DIR")]
    layout: Option<PathBuf>,
}

/// Builds the image, pushes or writes it, and prints its reference by digest.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let builder = image(&arguments.directory)?;
    let target = match (&arguments.push, &arguments.layout) {
        (Some(reference), _) => Target::Push(reference.clone()),
        (None, Some(directory)) => Target::Layout(directory.clone()),
        (None, None) => return Err(Failure::new(Exit::Usage, "catalog build", "needs --push REF or --layout DIR")),
    };
    output::line(runtime::block_on(images::deliver(&builder, &target, None))?)
}

/// The image of a catalog directory that is valid.
pub fn image(directory: &Path) -> Result<ImageBuilder, Failure> {
    let subject = format!("catalog {}", directory.display());
    let source = DirectorySource::new(directory).map_err(|error| Failure::failed(&subject, &error))?;
    let catalog = Catalog::load(&source, &Limits::default()).map_err(|error| Failure::failed(&subject, &error))?;
    if catalog.packages.is_empty() {
        return Err(Failure::new(Exit::Failed, subject, "there is no package in it"));
    }
    validate(&catalog).map_err(|validation| Failure::new(Exit::Failed, &subject, validation.to_string()))?;
    let mut builder = ImageBuilder::new().label(CATALOG_LABEL, "/configs");
    for path in visible_files(&source).map_err(|error| Failure::failed(&subject, &error))? {
        let bytes = source.read(&path).map_err(|error| Failure::failed(&subject, &error))?.into_owned();
        builder = builder.file(format!("configs/{path}"), bytes);
    }
    Ok(builder)
}
