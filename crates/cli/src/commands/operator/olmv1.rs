//! `operator olmv1`: ClusterCatalogs and ClusterExtensions with the words of the plugin (MS-CLI-12).

mod catalog;
mod extension;
mod objects;
mod selector;

use clap::{Args, Subcommand};
use kube::api::ListParams;
use mainstay_objects::Step;
use mainstay_operations::apply::execute;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format};
use serde_json::Value;

use super::shared::{Context, SELF};

/// Verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Create a resource
    #[command(subcommand)]
    Create(Create),
    /// Delete a resource
    #[command(subcommand)]
    Delete(Delete),
    /// Display one or many resources
    #[command(subcommand)]
    Get(Get),
    /// Install a resource
    #[command(subcommand)]
    Install(Install),
    /// Update a resource
    #[command(subcommand)]
    Update(Update),
    /// Search for packages
    #[command(subcommand)]
    Search(Search),
}

/// Kinds that are created.
#[derive(Debug, Subcommand)]
pub enum Create {
    /// Create a new catalog
    #[command(alias = "catalogs")]
    Catalog(catalog::Create),
}

/// Kinds that are deleted.
#[derive(Debug, Subcommand)]
pub enum Delete {
    /// Delete either a single or all of the existing catalogs
    #[command(alias = "catalogs")]
    Catalog(Doomed),
    /// Delete an extension; its CRDs go, and so all operands
    #[command(alias = "extensions")]
    Extension(Doomed),
}

/// Kinds that are shown.
#[derive(Debug, Subcommand)]
pub enum Get {
    /// Display one or many installed catalogs
    #[command(alias = "catalogs")]
    Catalog(Shown),
    /// Display one or many installed extensions
    #[command(alias = "extensions")]
    Extension(Shown),
}

/// Kinds that are installed.
#[derive(Debug, Subcommand)]
pub enum Install {
    /// Install an extension
    Extension(extension::Install),
}

/// Kinds that are updated.
#[derive(Debug, Subcommand)]
pub enum Update {
    /// Update a catalog
    Catalog(catalog::Update),
    /// Update an extension
    Extension(extension::Update),
}

/// Where packages are searched.
#[derive(Debug, Subcommand)]
pub enum Search {
    /// Search catalogs for installable operators
    #[command(alias = "catalogs")]
    Catalog(catalog::Search),
}

/// Arguments of `delete`.
#[derive(Debug, Args)]
pub struct Doomed {
    /// Its name
    name: Option<String>,
    /// Delete all
    #[arg(long, short, conflicts_with = "name")]
    all: bool,
    /// The dry run.
    #[command(flatten)]
    dry: Dry,
}

/// Arguments of `get`.
#[derive(Debug, Args)]
pub struct Shown {
    /// Its name; all if none is given
    name: Option<String>,
    /// json or yaml instead of a table
    #[arg(long, short, value_parser = ["json", "yaml"])]
    output: Option<String>,
    /// Only those with these labels
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
}

/// Flags of a dry run.
#[derive(Debug, Args)]
pub struct Dry {
    /// Show what would be sent without applying it: All
    #[arg(long, value_name = "All", value_parser = ["All"])]
    dry_run: Option<String>,
    /// The format of a dry run's object: json or yaml
    #[arg(long, short, value_parser = ["json", "yaml"])]
    output: Option<String>,
}

impl Dry {
    fn is_on(&self) -> bool {
        self.dry_run.is_some()
    }

    /// Says what was done, or what would be.
    fn say(&self, done: &str, object: &Value) -> Result<(), Failure> {
        match &self.output {
            Some(format) if self.is_on() => show_object(format, object),
            _ if self.is_on() => output::line(format!("{done} (dry run)")),
            _ => output::line(done),
        }
    }

    /// Carries out a step, or tries it alone.
    async fn carry_out(&self, context: &Context, step: &Step) -> Result<(), Failure> {
        let session = &context.session;
        if !self.is_on() {
            return Ok(execute(session, step).await?);
        }
        let tried = session.writer.dry().execute(std::slice::from_ref(step), |_| {}).await;
        tried.map(drop).map_err(|failed| mainstay_operations::not_written(&failed.error).into())
    }
}

/// Runs a verb.
pub async fn run(context: &Context, verb: &Verb) -> Result<(), Failure> {
    match verb {
        Verb::Create(Create::Catalog(arguments)) => catalog::create(context, arguments).await,
        Verb::Delete(Delete::Catalog(arguments)) => catalog::delete(context, arguments).await,
        Verb::Delete(Delete::Extension(arguments)) => extension::delete(context, arguments).await,
        Verb::Get(Get::Catalog(arguments)) => catalog::get(context, arguments).await,
        Verb::Get(Get::Extension(arguments)) => extension::get(context, arguments).await,
        Verb::Install(Install::Extension(arguments)) => extension::install(context, arguments).await,
        Verb::Update(Update::Catalog(arguments)) => catalog::update(context, arguments).await,
        Verb::Update(Update::Extension(arguments)) => extension::update(context, arguments).await,
        Verb::Search(Search::Catalog(arguments)) => catalog::search(context, arguments).await,
    }
}

/// Prints an object in a format that `-o` takes.
fn show_object(format: &str, object: &Value) -> Result<(), Failure> {
    output::value(if format == "yaml" { &Format::Yaml } else { &Format::Json }, object)
}

/// The labels of `--labels KEY=VALUE`; an empty value removes the label.
fn labels(given: &[String]) -> Result<serde_json::Map<String, Value>, Failure> {
    let read = |one: &String| match one.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), if value.is_empty() { Value::Null } else { value.into() })),
        None => Err(Failure::new(Exit::Usage, SELF, format!("failed to parse flags: {one} must be formatted as key=value"))),
    };
    given.iter().map(read).collect()
}

/// The list parameters of a selector.
fn selected(selector: Option<&String>) -> ListParams {
    selector.map_or_else(ListParams::default, |selector| ListParams::default().labels(selector))
}

/// The status of a condition, as the tables show it.
fn status(object: &Value, kind: &str) -> String {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|one| one["type"] == kind).and_then(|one| one["status"].as_str()).unwrap_or("Unknown").to_owned()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
