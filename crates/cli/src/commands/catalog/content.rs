//! Catalogs as models, for the curators' commands.

use std::collections::BTreeSet;

use clap::ValueEnum;
use mainstay_catalog::did_you_mean::nearest;
use mainstay_catalog::lint::Placed;
use mainstay_catalog::{Bundle, Catalog, Level, Limits};
use mainstay_catalog_refs::{Kind, Opened};
use mainstay_terminal::catalogs;
use mainstay_terminal::errors::{Exit, Failure};

/// The catalog at a place: a directory, a file, a database or an image.
pub fn open(place: &str) -> Result<Catalog, Failure> {
    model(catalogs::open(place, Kind::CATALOGS)?, place)
}

/// The catalog at a place, with file and line of its blobs.
pub fn open_placed(place: &str) -> Result<Placed, Failure> {
    let subject = || format!("catalog {place}");
    let opened = catalogs::open(place, Kind::CATALOGS)?;
    let source = opened.source().map_err(|error| catalogs::failure(&subject(), &error))?;
    Placed::load(source.as_ref(), &Limits::default()).map_err(|error| Failure::failed(subject(), &error))
}

/// The bundle that a bundle directory or image renders to.
pub fn bundle(place: &str) -> Result<Bundle, Failure> {
    let mut bundles = model(catalogs::open(place, Kind::BUNDLES)?, place)?.bundles.into_iter();
    match (bundles.next(), bundles.next()) {
        (Some(bundle), None) => Ok(bundle),
        _ => Err(Failure::new(Exit::Failed, format!("bundle {place}"), "does not render to one bundle")),
    }
}

fn model(opened: Opened, place: &str) -> Result<Catalog, Failure> {
    opened.into_catalog(&Limits::default()).map_err(|error| catalogs::failure(&format!("catalog {place}"), &error))
}

/// Refuses packages that none of the catalogs has: no finding about them would look like no problem.
pub fn known_packages(places: &[&str], catalogs: &[&Catalog], wanted: &[String]) -> Result<(), Failure> {
    let names: BTreeSet<&str> = catalogs.iter().flat_map(|catalog| &catalog.packages).map(|package| package.name.as_str()).collect();
    match wanted.iter().find(|wanted| !names.contains(wanted.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let failure = Failure::new(Exit::NotFound, format!("package {unknown}"), format!("not found in {}", places.join(" or in ")));
            Err(match nearest(unknown, names.iter().copied()) {
                Some(near) => failure.hint(format!("did you mean {near}?")),
                None => failure,
            })
        }
    }
}

/// A level as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LevelArgument {
    /// Somebody will be hurt by it.
    Error,
    /// It is probably not what was meant.
    Warning,
    /// Good to know.
    Info,
}

impl From<LevelArgument> for Level {
    fn from(level: LevelArgument) -> Self {
        match level {
            LevelArgument::Error => Self::Error,
            LevelArgument::Warning => Self::Warning,
            LevelArgument::Info => Self::Info,
        }
    }
}
