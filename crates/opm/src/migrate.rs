//! `opm migrate` (CATLG-52): an index of any kind as a directory of file-based catalogs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_catalog::{Catalog, Format, render};
use mainstay_catalog_refs::{Access, Kind, migrate};
use mainstay_terminal::errors::{Exit, Failure};

use super::render::{failure, level_help, load_with, parse_level, parse_output};
use super::server_log::{Level, ServerLog};
use super::{Global, databases};

/// Arguments.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Turn an index image or database into a directory of file-based catalogs, one folder for each package.

JSON files hold several objects one after another, as opm and jq read them.",
    after_help = "\
Examples:
  opm migrate quay.io/team/index:v1 catalog/
  opm migrate index.db catalog/ -o yaml --migrate-level bundle-object-to-csv-metadata
  opm generate dockerfile catalog"
)]
pub struct Arguments {
    /// Image, database file, or file-based catalog
    #[arg(value_name = "indexRef")]
    index: String,
    /// Directory to write; empty or not there
    #[arg(value_name = "outputDir")]
    directory: PathBuf,
    /// Output format (json|yaml)
    #[arg(short, long, default_value = "json")]
    output: String,
    #[arg(long, default_value = "", help = level_help())]
    migrate_level: String,
}

/// Writes the directory.
pub fn run(arguments: &Arguments, global: Global) -> Result<(), Failure> {
    let format = parse_output(&arguments.output)?;
    let level = parse_level(&arguments.migrate_level)?;
    global.check()?;
    let log = ServerLog::new(Level::Info);
    log.write(Level::Info, &format!("rendering index {:?} as file-based catalog", arguments.index), &[]);
    let shown = arguments.directory.display().to_string();
    let io = |error: std::io::Error| Failure::failed(format!("directory {shown}"), &error);
    match std::fs::read_dir(&arguments.directory) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(Failure::new(Exit::Failed, format!("directory {shown}"), format!("output dir {shown:?} must be empty")));
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
    }
    let client = || global.client();
    let access = Access::as_opm(&client, Kind::OPM_INDEX);
    let mut catalog = load_with(&arguments.index, &access, |error| {
        let failure = failure(&arguments.index, error);
        let hints = Failure::new(failure.exit, "catalog", format!("render catalog image: {}", failure.message()));
        match error.image().and_then(mainstay_oci::Error::hint) {
            Some(hint) => hints.hint(hint),
            None => hints,
        }
    })?;
    migrate(&mut catalog, level).map_err(|error| Failure::new(Exit::Failed, "catalog", error.to_line()))?;
    if std::fs::metadata(&arguments.index).is_ok_and(|metadata| metadata.is_file()) {
        databases::deprecation_notice();
    }
    write(&catalog, &arguments.directory, format).map_err(io)?;
    log.write(Level::Info, &format!("wrote rendered file-based catalog to {shown:?}\n"), &[]);
    Ok(())
}

/// Writes `<package>/catalog.json` or `.yaml` for each package. Unlike opm, which leaves out everything but packages, channels and bundles, this
/// loses nothing: blobs of no package lie in the directory itself.
fn write(catalog: &Catalog, directory: &Path, format: Format) -> std::io::Result<()> {
    let extension = if format == Format::Yaml { "yaml" } else { "json" };
    std::fs::create_dir_all(directory)?;
    for (package, catalog) in by_package(catalog) {
        // Names of packages have been checked, but a database comes from outside.
        if package == ".." || package == "." || package.contains(['/', '\0']) {
            return Err(std::io::Error::other(format!("package {package:?} cannot be the name of a folder")));
        }
        let folder = directory.join(&package);
        std::fs::create_dir_all(&folder)?;
        let mut file = std::io::BufWriter::new(std::fs::File::create(folder.join(format!("catalog.{extension}")))?);
        render(&catalog, format, &mut file)?;
        std::io::Write::flush(&mut file)?;
    }
    Ok(())
}

/// The catalog split by the packages that its blobs name.
fn by_package(catalog: &Catalog) -> BTreeMap<String, Catalog> {
    let mut all: BTreeMap<String, Catalog> = BTreeMap::new();
    for package in &catalog.packages {
        all.entry(package.name.to_string()).or_default().packages.push(package.clone());
    }
    for channel in &catalog.channels {
        all.entry(channel.package.to_string()).or_default().channels.push(channel.clone());
    }
    for bundle in &catalog.bundles {
        all.entry(bundle.package.to_string()).or_default().bundles.push(bundle.clone());
    }
    for deprecations in &catalog.deprecations {
        all.entry(deprecations.package.to_string()).or_default().deprecations.push(deprecations.clone());
    }
    for other in &catalog.others {
        all.entry(other.package.clone()).or_default().others.push(other.clone());
    }
    all
}
