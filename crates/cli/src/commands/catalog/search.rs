//! `mainstay catalog search`: packages by their names, descriptions and provided APIs; in the cluster's catalogs or, with `--catalog`, in catalogs as
//! files and images.

use clap::Args;
use mainstay_catalog::parts::Parts;
use mainstay_catalog::search::{Found, search};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::Value;

use super::{cluster, content};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog search                             everything in the cluster's catalogs
  mainstay catalog search kafka                       in the cluster's catalogs
  mainstay catalog search kafka --catalog team        in one of them
  mainstay catalog search kafka --catalog ./catalog   in a directory, a file or an image; no cluster needed
  mainstay catalog search 'backup volume' --catalog ./a --catalog REGISTRY/b:v1 -o json

What --catalog names is a file or an image when it exists as a path or has a slash or a colon, and else a catalog of the cluster.
In files and images, every word must be found in the name, the display name, the provided kinds, keywords, categories, the provider or the
descriptions; the best fit comes first, and MATCHED says what fits.")]
pub struct Arguments {
    /// What to look for; all packages when left out
    #[arg(default_value = "")]
    pub text: String,
    /// A catalog as a directory, a file or an image, or the name of one on the cluster; may be given again for the former
    #[arg(long = "catalog", short = 'c', value_name = "CATALOG")]
    pub catalogs: Vec<String>,
    /// table, wide, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, wide, json, yaml or jsonpath=PATH"))]
    pub output: Format,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Searches the catalogs.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (places, names): (Vec<&String>, Vec<&String>) = arguments.catalogs.iter().partition(|text| is_place(text));
    match (places.as_slice(), names.as_slice()) {
        ([], []) => return cluster::search(arguments, None),
        ([], [name]) => {
            let taken = || format!("there is no file or directory {name} either, so it was taken for a catalog of the cluster");
            return cluster::search(arguments, Some(name.as_str())).map_err(|failure| failure.because(taken()));
        }
        (_, []) => {}
        (_, [name, ..]) => {
            let failure = Failure::new(Exit::Usage, format!("--catalog {name}"), "is neither a path that exists nor an image");
            return Err(failure.hint("one catalog of the cluster can be named, or any number of files and images"));
        }
    }
    let mut found: Vec<(String, Found)> = Vec::new();
    for place in places {
        let catalog = content::open(place)?;
        found.extend(search(&Parts::by_package(&catalog), &arguments.text).into_iter().map(|found| (place.clone(), found)));
    }
    found.sort_by(|(_, a), (_, b)| b.score.cmp(&a.score).then_with(|| a.package.cmp(&b.package)));
    if !arguments.output.is_table() {
        let values: Result<Vec<Value>, _> = found
            .iter()
            .map(|(place, found)| {
                let mut value = serde_json::to_value(found)?;
                value["catalog"] = Value::from(place.as_str());
                Ok(value)
            })
            .collect();
        return output::value(
            &arguments.output,
            &Value::Array(values.map_err(|error: serde_json::Error| Failure::failed("packages", &error))?),
        );
    }
    if found.is_empty() {
        return Err(Failure::new(Exit::NotFound, format!("packages like {:?}", arguments.text), "not found")
            .hint("mainstay catalog search --catalog CATALOG without a text shows all"));
    }
    table(&found, arguments.text.is_empty()).print()
}

/// Checks if a text names a file or an image. The names of a cluster's catalogs contain neither slash nor colon, nor do they end as files do.
fn is_place(text: &str) -> bool {
    let ends = [".json", ".yaml", ".yml", ".gz", ".zst", ".db", ".tar"].iter().any(|ending| text.ends_with(ending));
    ends || text.starts_with(['.', '~']) || text.contains(['/', ':']) || std::path::Path::new(text).exists()
}

fn table(found: &[(String, Found)], all: bool) -> Table {
    let last = if all { "SUMMARY" } else { "MATCHED" };
    let mut table = Table::new(&["PACKAGE", "VERSION", "DEFAULT CHANNEL", "CATALOG", "DISPLAY NAME", last]);
    for (place, found) in found {
        let mut matched: Vec<String> = Vec::new();
        for part in found.matches.iter().filter(|part| part.field.name() != "name").take(3) {
            let value: String = part.value.chars().take(60).collect();
            matched.push(format!("{} {value}", part.field.name()));
        }
        let mut text = if all { found.summary.chars().take(60).collect() } else { matched.join("; ") };
        if found.deprecated.is_some() {
            text = format!("(deprecated) {text}");
        }
        let version = found.version.clone().unwrap_or_default();
        table.row([found.package.clone(), version, found.default_channel.clone(), place.clone(), found.display_name.clone(), text]);
    }
    table
}
