//! `opm alpha list` (CATLG-47): tables for people.

use std::collections::HashMap;

use clap::{Args, Subcommand};
use mainstay_catalog::{Bundle, Catalog, Channel, Entry, Package, validate};
use mainstay_catalog_refs::{Access, Error, Kind};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;

use crate::Global;
use crate::render::{failure, load_with};

/// What is listed.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// List the packages of a catalog
    Packages(Packages),
    /// List the channels of a catalog or of one of its packages
    Channels(InPackage),
    /// List the bundles of a catalog or of one of its packages, one line for each channel
    Bundles(InPackage),
}

/// Arguments of `packages`.
#[derive(Debug, Args)]
pub struct Packages {
    /// Image, directory or database
    #[arg(value_name = "indexRef")]
    reference: String,
}

/// Arguments of `channels` and `bundles`.
#[derive(Debug, Args)]
pub struct InPackage {
    /// Image, directory or database
    #[arg(value_name = "indexRef")]
    reference: String,
    /// Only this package
    #[arg(value_name = "packageName")]
    package: Option<String>,
}

/// Prints the table.
pub fn run(command: &Commands, global: Global) -> Result<(), Failure> {
    let rows = match command {
        Commands::Packages(arguments) => packages(&read(&arguments.reference, global)?),
        Commands::Channels(arguments) => channels(&read(&arguments.reference, global)?, arguments.package.as_deref())?,
        Commands::Bundles(arguments) => bundles(&read(&arguments.reference, global)?, arguments.package.as_deref())?,
    };
    output::print(&columns(&rows))
}

fn read(reference: &str, global: Global) -> Result<Catalog, Failure> {
    global.check()?;
    let client = || global.client();
    let catalog = load_with(reference, &Access::as_opm(&client, Kind::OPM_INDEX), |error| match error {
        Error::NotAllowed { .. } => Failure::new(Exit::Failed, "catalog", format!("cannot list non-index {reference:?}")),
        error => failure(reference, error),
    })?;
    validate(&catalog).map_err(|validation| Failure::new(Exit::Failed, "catalog", validation.to_string()))?;
    Ok(catalog)
}

type Row = Vec<String>;

fn packages(catalog: &Catalog) -> Vec<Row> {
    let mut sorted: Vec<&Package> = catalog.packages.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let row = |package: &Package| vec![package.name.to_string(), display_name(catalog, package), package.default_channel.to_string()];
    titled(&["NAME", "DISPLAY NAME", "DEFAULT CHANNEL"], sorted.into_iter().map(row))
}

/// The name that the CSV of the default channel's head shows, if the catalog embeds that CSV.
fn display_name(catalog: &Catalog, package: &Package) -> String {
    let channel = catalog.channels.iter().find(|channel| channel.package == package.name && channel.name == package.default_channel);
    let bundle = channel
        .and_then(head)
        .and_then(|head| catalog.bundles.iter().find(|bundle| bundle.package == package.name && bundle.name.as_str() == head));
    let Some(csv) = bundle.and_then(mainstay_catalog_refs::embedded_csv) else { return String::new() };
    csv["spec"]["displayName"].as_str().unwrap_or_default().to_owned()
}

/// The entry that no other one replaces or skips.
fn head(channel: &Channel) -> Option<&str> {
    let passed = |name: &str| {
        channel.entries.iter().any(|entry| {
            entry.replaces.as_ref().is_some_and(|replaced| replaced.as_str() == name)
                || entry.skips.iter().any(|skipped| skipped.as_str() == name)
        })
    };
    channel.entries.iter().map(|entry| entry.name.as_str()).find(|name| !passed(name))
}

fn channels(catalog: &Catalog, package: Option<&str>) -> Result<Vec<Row>, Failure> {
    let row = |channel: &Channel| vec![channel.package.to_string(), channel.name.to_string(), head(channel).unwrap_or_default().to_owned()];
    Ok(titled(&["PACKAGE", "CHANNEL", "HEAD"], chosen(catalog, package)?.into_iter().map(row)))
}

fn bundles(catalog: &Catalog, package: Option<&str>) -> Result<Vec<Row>, Failure> {
    let images: HashMap<(&str, &str), &Bundle> =
        catalog.bundles.iter().map(|bundle| ((bundle.package.as_str(), bundle.name.as_str()), bundle)).collect();
    let mut rows = Vec::new();
    for channel in chosen(catalog, package)? {
        let mut entries: Vec<&Entry> = channel.entries.iter().collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let image = images.get(&(channel.package.as_str(), entry.name.as_str())).map_or("", |bundle| bundle.image.as_str());
            let skips: Vec<&str> = entry.skips.iter().map(mainstay_catalog::BundleName::as_str).collect();
            rows.push(vec![
                channel.package.to_string(),
                channel.name.to_string(),
                entry.name.to_string(),
                entry.replaces.as_ref().map(ToString::to_string).unwrap_or_default(),
                skips.join(","),
                entry.skip_range.clone().unwrap_or_default(),
                image.to_owned(),
            ]);
        }
    }
    Ok(titled(&["PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE"], rows))
}

/// The channels of all packages or of one, sorted.
fn chosen<'c>(catalog: &'c Catalog, package: Option<&str>) -> Result<Vec<&'c Channel>, Failure> {
    let package = package.filter(|package| !package.is_empty());
    if let Some(wanted) = package.filter(|wanted| catalog.packages.iter().all(|package| package.name.as_str() != *wanted)) {
        return Err(Failure::new(Exit::Failed, "catalog", format!("package {wanted:?} not found")));
    }
    let mut channels: Vec<&Channel> =
        catalog.channels.iter().filter(|channel| package.is_none_or(|package| channel.package.as_str() == package)).collect();
    channels.sort_by(|a, b| (&a.package, &a.name).cmp(&(&b.package, &b.name)));
    Ok(channels)
}

fn titled(titles: &[&str], rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
    std::iter::once(titles.iter().map(|title| (*title).to_owned()).collect()).chain(rows).collect()
}

/// Rows as columns two blanks apart; the last one is not padded, the others are even if nothing follows.
fn columns(rows: &[Row]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..count.saturating_sub(1)).map(|column| width(column) + 2).collect();
    let mut out = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            out.push_str(cell);
            if let Some(width) = widths.get(at) {
                out.push_str(&" ".repeat(width - cell.chars().count()));
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CATLG-47: columns two blanks apart.
    #[test]
    fn blanks() {
        let rows = titled(&["NAME", "X", "LAST"], [vec!["a".to_owned(), String::new(), String::new()]]);
        assert_eq!(columns(&rows), "NAME  X  LAST\na        \n");
    }
}
