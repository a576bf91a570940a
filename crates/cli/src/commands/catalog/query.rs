//! `mainstay catalog query`: the content of a catalog, blob by blob or package by package.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use mainstay_catalog::query::{Hit, Webhooks, blobs, supports};
use mainstay_catalog::{Limits, MetaQuery};
use mainstay_catalog_refs::Kind;
use mainstay_terminal::catalogs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use super::content;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog query ./catalog --schema olm.package                         the packages
  mainstay catalog query ./catalog --schema olm.channel --package beacon        its channels
  mainstay catalog query ./catalog --schema olm.bundle --package beacon --fields name,image -o json
  mainstay catalog query ./catalog --package beacon -o json                     all its blobs but the package's own
  mainstay catalog query ./catalog --install-mode AllNamespaces --without-webhooks

-o json writes one object a line. Webhooks are known only where the catalog has the CSV (olm.bundle.object): --without-webhooks leaves
out bundles that have some, and WEBHOOKS says of the others whether that is known.")]
pub struct Arguments {
    /// The catalog: a directory, a file or an image
    catalog: String,
    /// Schema of the blobs
    #[arg(long, value_name = "SCHEMA")]
    schema: Option<String>,
    /// Package of the blobs
    #[arg(long, short, value_name = "PACKAGE")]
    package: Option<String>,
    /// Name of the blobs
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only these members of each blob, in this order; comma-separated
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    fields: Vec<String>,
    /// Packages with a bundle that supports this install mode, instead of blobs
    #[arg(long, value_enum, value_name = "MODE", conflicts_with_all = ["schema", "name", "fields"])]
    install_mode: Option<InstallMode>,
    /// Without bundles that are known to bring webhooks
    #[arg(long, requires = "install_mode")]
    without_webhooks: bool,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

/// The install modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum InstallMode {
    /// The operator's own namespace.
    OwnNamespace,
    /// One namespace.
    SingleNamespace,
    /// Several namespaces.
    MultiNamespace,
    /// All namespaces.
    AllNamespaces,
}

impl InstallMode {
    fn name(self) -> &'static str {
        match self {
            Self::OwnNamespace => "OwnNamespace",
            Self::SingleNamespace => "SingleNamespace",
            Self::MultiNamespace => "MultiNamespace",
            Self::AllNamespaces => "AllNamespaces",
        }
    }
}

/// Answers the query and prints the result.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.install_mode {
        Some(mode) => by_install_mode(arguments, mode),
        None => by_blob(arguments),
    }
}

fn by_blob(arguments: &Arguments) -> Result<(), Failure> {
    let subject = || format!("catalog {}", arguments.catalog);
    let query = MetaQuery { schema: arguments.schema.clone(), package: arguments.package.clone(), name: arguments.name.clone() };
    let opened = catalogs::open(&arguments.catalog, Kind::CATALOGS)?;
    let source = opened.source().map_err(|error| catalogs::failure(&subject(), &error))?;
    let hits = blobs(source.as_ref(), &Limits::default(), &query, &arguments.fields).map_err(|error| Failure::failed(subject(), &error))?;
    match &arguments.output {
        Format::Json => output::json(&hits.iter().flat_map(|hit| [hit.json.as_str(), "\n"]).collect::<String>()),
        Format::Table | Format::Wide if arguments.fields.is_empty() => {
            let mut table = Table::new(&["SCHEMA", "PACKAGE", "NAME"]);
            for hit in &hits {
                table.row([hit.schema.as_str(), &hit.package, &hit.name]);
            }
            table.print()
        }
        Format::Table | Format::Wide => fields_table(&hits, &arguments.fields)?.print(),
        other => output::value(other, &Value::Array(hits.iter().map(parsed).collect::<Result<_, _>>()?)),
    }
}

fn parsed(hit: &Hit) -> Result<Value, Failure> {
    serde_json::from_str(&hit.json).map_err(|error| Failure::failed(format!("{} {}", hit.schema, hit.name), &error))
}

fn fields_table(hits: &[Hit], fields: &[String]) -> Result<Table, Failure> {
    let titles: Vec<String> = fields.iter().map(|field| field.to_uppercase()).collect();
    let mut table = Table::new(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    for hit in hits {
        let value = parsed(hit)?;
        table.row(fields.iter().map(|field| match &value[field] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }));
    }
    Ok(table)
}

/// Prints packages by name, each with its matching bundles and the facts about their webhooks.
fn by_install_mode(arguments: &Arguments, mode: InstallMode) -> Result<(), Failure> {
    let catalog = content::open(&arguments.catalog)?;
    let mut packages: BTreeMap<&str, Vec<(&str, Webhooks)>> = BTreeMap::new();
    for bundle in &catalog.bundles {
        let package = bundle.package.as_str();
        if arguments.package.as_deref().is_some_and(|wanted| wanted != package) || supports(bundle, mode.name()) != Some(true) {
            continue;
        }
        let webhooks = Webhooks::of(bundle);
        if !(arguments.without_webhooks && webhooks == Webhooks::Yes) {
            packages.entry(package).or_default().push((bundle.name.as_str(), webhooks));
        }
    }
    match &arguments.output {
        Format::Table | Format::Wide => {
            let mut table = Table::new(&["PACKAGE", "BUNDLES", "WEBHOOKS"]);
            for (package, bundles) in packages {
                table.row([package.to_owned(), bundles.len().to_string(), known(&bundles).to_owned()]);
            }
            table.print()
        }
        format => {
            let values = packages.into_iter().map(|(package, bundles)| {
                let webhooks = known(&bundles);
                let bundles: Vec<Value> =
                    bundles.iter().map(|(name, webhooks)| json!({"name": name, "webhooks": webhooks.name()})).collect();
                json!({"package": package, "webhooks": webhooks, "bundles": bundles})
            });
            match format {
                Format::Json => values.map(|value| value.to_string()).try_for_each(output::line),
                other => output::value(other, &Value::Array(values.collect())),
            }
        }
    }
}

/// The facts about the webhooks of several bundles: those that all share, or that they differ.
fn known(bundles: &[(&str, Webhooks)]) -> &'static str {
    match bundles.split_first() {
        Some(((_, first), rest)) if rest.iter().all(|(_, webhooks)| webhooks == first) => first.name(),
        _ => "differs",
    }
}
