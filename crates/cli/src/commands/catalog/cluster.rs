//! `mainstay catalog add|list|show|search|remove`: ClusterCatalogs.

use std::time::Duration;

use clap::Args;
use mainstay_api::condition;
use mainstay_api::olm_v1::AvailabilityMode;
use mainstay_olm_v1::catalog_secrets::pull_secret;
use mainstay_olm_v1_core::catalog::REMOVED_APIS;
use mainstay_olm_v1_core::cluster_operator::catalogs::description;
use mainstay_operations::catalogs::{CatalogSnapshot, Unavailable};
use mainstay_operations::cluster_catalogs::{self, API_VERSION, CatalogRequest, Difference};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note, warn};
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::printable::printable_line;
use mainstay_terminal::progress::{Progress, confirm};
use mainstay_terminal::runtime;
use serde_json::{Value, json};

use crate::commands::listed::{age, with_kind};
use crate::durations;
use crate::named;

/// Arguments of `catalog add`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog add examples --ref localhost:5000/examples/catalog:latest
  mainstay catalog add team --ref REGISTRY/CATALOG:TAG --poll 10m --priority 10
  mainstay catalog add team --ref REGISTRY/CATALOG:TAG --pull-secret team-registry
  mainstay catalog add team --ref REGISTRY/CATALOG:NEW-TAG --replace")]
pub struct Add {
    /// What the catalog is called on the cluster
    #[arg(value_parser = named::object)]
    name: String,
    /// The catalog image
    #[arg(long = "ref", value_name = "REF")]
    reference: String,
    /// How often a tag is looked at: 10m, 1h30m, or minutes
    #[arg(long, value_name = "INTERVAL", value_parser = durations::minutes)]
    poll: Option<i64>,
    /// Which catalog is preferred: the one with the highest number
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// A Secret of the controllers' namespace with credentials for its image and the images of its bundles
    #[arg(long, value_name = "NAME", value_parser = named::object)]
    pull_secret: Option<String>,
    /// Do not wait until it serves
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,
    /// How long to wait: 90s, 2m
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = durations::parse)]
    timeout: Duration,
    /// Write the catalog, and leave it, also when its registry does not have the image
    #[arg(long)]
    keep: bool,
    /// Change the catalog of that name, if there is one already
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl Add {
    fn request(&self) -> CatalogRequest {
        CatalogRequest {
            name: self.name.clone(),
            reference: self.reference.clone(),
            poll_minutes: self.poll,
            priority: self.priority,
            pull_secret: self.pull_secret.clone(),
        }
    }
}

/// Arguments of `catalog list`.
#[derive(Debug, Args)]
pub struct List {
    /// table, wide, json, yaml, name or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, wide, json, yaml, name or jsonpath=PATH"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Arguments of `catalog show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The catalog
    name: String,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Arguments of `catalog remove`.
#[derive(Debug, Args)]
pub struct Remove {
    /// The catalog
    name: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Adds a catalog, and waits until it serves.
pub fn add(arguments: &Add) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open_to_change().await?;
        let (name, request) = (&arguments.name, arguments.request());
        if !arguments.replace {
            let live = cluster_catalogs::find(&session, name).await?;
            let differences = live.map(|live| request.differences(&live)).unwrap_or_default();
            refuse_change(name, &differences)?;
        }
        if !arguments.keep {
            cluster_catalogs::check_image(&session, &request).await?;
        }
        let created = cluster_catalogs::write(&session, &request).await?;
        if arguments.no_wait {
            return output::line(format!("clustercatalog {name} {}", if created { "created" } else { "changed" }));
        }
        let mut progress = Progress::start();
        let serving = async { Ok(cluster_catalogs::serve(&session, name, arguments.timeout, &mut progress).await?) };
        let waited = runtime::until_interrupt(serving, || {
            vec![
                format!("clustercatalog {name} was written, and is still being unpacked by the cluster; mainstay catalog list shows it"),
                format!("mainstay catalog remove {name} undoes it"),
            ]
        })
        .await;
        drop(progress);
        // A catalog that can never serve is removed if this command created it.
        if let Err(failure) = &waited
            && failure.exit == Exit::Impossible
            && created
            && !arguments.keep
        {
            cluster_catalogs::delete(&session, name).await?;
            note(format!("clustercatalog {name} was removed again; --keep leaves it"));
        }
        let took = waited?;
        output::line(format!("clustercatalog {name} serves after {:.1} s", took.as_secs_f64()))
    })
}

/// Refuses to change a catalog that exists with other settings.
fn refuse_change(name: &str, differences: &[Difference]) -> Result<(), Failure> {
    if differences.is_empty() {
        return Ok(());
    }
    let failure = Failure::new(Exit::Impossible, format!("clustercatalog {name}"), "exists already, with other settings");
    let line = |Difference { setting, live, wanted }: &Difference| format!("{setting}: {}, not {wanted}", printable_line(live));
    let failure = differences.iter().map(line).fold(failure, Failure::because);
    Err(failure.hint("--replace changes it; another name adds a second catalog"))
}

/// Lists catalogs.
pub fn list(arguments: &List) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let catalogs = cluster_catalogs::all(&session).await?;
        if !arguments.output.is_table() {
            return output::value(&arguments.output, &with_kind(&catalogs, API_VERSION, "ClusterCatalog")?);
        }
        let wide = arguments.output == Format::Wide;
        let mut titles = vec!["NAME", "SERVING", "PROGRESSING", "PRIORITY", "AGE", "REF"];
        if wide {
            titles.push("RESOLVED");
        }
        let mut table = Table::new(&titles);
        for catalog in &catalogs {
            let status = catalog.status.clone().unwrap_or_default();
            let of = |kind: &str| condition::get(&status.conditions, kind);
            let reference = catalog.spec.source.image.as_ref().map(|image| image.reference.clone()).unwrap_or_default();
            let serving = match (catalog.spec.availability_mode, of("Serving")) {
                (AvailabilityMode::Unavailable, _) => "off".to_owned(),
                (_, serving) => serving.map(|serving| format!("{:?}", serving.status)).unwrap_or_default(),
            };
            let mut row = vec![
                catalog.metadata.name.clone().unwrap_or_default(),
                serving,
                of("Progressing").map(|progressing| progressing.reason.clone()).unwrap_or_default(),
                catalog.spec.priority.to_string(),
                age(catalog.metadata.creation_timestamp.as_ref()),
                reference,
            ];
            if wide {
                row.push(status.resolved_source.map(|source| source.image.reference).unwrap_or_default());
            }
            table.row(row);
        }
        if table.is_empty() {
            output::line("no catalogs; mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG adds one")
        } else {
            table.print()
        }
    })
}

/// Shows a catalog and its packages.
pub fn show(arguments: &Show) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let snapshot = CatalogSnapshot::open(&session, Some(&arguments.name)).await?;
        let catalog = cluster_catalogs::get(&session, &arguments.name).await?;
        let packages = packages(&snapshot, "");
        if !arguments.output.is_table() {
            let mut object = serde_json::to_value(&catalog).map_err(|error| Failure::failed("clustercatalog", &error))?;
            object["packages"] = Value::Array(packages);
            return output::value(&arguments.output, &object);
        }
        let reference = catalog.spec.source.image.as_ref().map(|image| image.reference.clone()).unwrap_or_default();
        let secret = pull_secret(&catalog);
        let status = catalog.status.unwrap_or_default();
        output::line(format!("Name:       {}", arguments.name))?;
        if let Some(description) = description(&arguments.name) {
            output::line(format!("Holds:      {description}"))?;
        }
        output::line(format!("Reference:  {}", printable_line(&reference)))?;
        let resolved = status.resolved_source.map(|source| source.image.reference).unwrap_or_default();
        output::line(format!("Resolved:   {}", printable_line(&resolved)))?;
        output::line(format!("Priority:   {}", catalog.spec.priority))?;
        if let Some(secret) = secret {
            output::line(format!("Secret:     {}", printable_line(&secret)))?;
        }
        output::line("Conditions:")?;
        let mut table = Table::new(&["TYPE", "STATUS", "REASON", "MESSAGE"]);
        for condition in &status.conditions {
            table.row([condition.kind.clone(), format!("{:?}", condition.status), condition.reason.clone(), condition.message.clone()]);
        }
        output::print(&table.render(2))?;
        output::line("Packages:")?;
        output::print(&package_table(&packages).render(2))?;
        output::line(format!("note: {REMOVED_APIS}"))
    })
}

/// Searches packages in all catalogs that serve.
pub fn search(arguments: &super::search::Arguments, only: Option<&str>) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let snapshot = CatalogSnapshot::open(&session, only).await?;
        for catalog in snapshot.catalogs() {
            let left_out = match &catalog.content {
                Err(Unavailable::NotServing(problem) | Unavailable::Broken(problem)) => problem.clone(),
                Err(Unavailable::Failed(problem)) => problem.to_string(),
                Ok(_) | Err(Unavailable::Off) => continue,
            };
            let why = if left_out.is_empty() { "it does not serve" } else { &left_out };
            warn(&format!("clustercatalog {}", catalog.name), &format!("is left out: {why}"));
        }
        let found = packages(&snapshot, &arguments.text);
        if !arguments.output.is_table() {
            return output::value(&arguments.output, &Value::Array(found));
        }
        if found.is_empty() {
            return Err(Failure::new(Exit::NotFound, format!("packages like {:?}", arguments.text), "not found")
                .hint("mainstay catalog search without a text shows all"));
        }
        package_table(&found).print()
    })
}

/// Removes a catalog.
pub fn remove(arguments: &Remove) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open_to_change().await?;
        let name = &arguments.name;
        cluster_catalogs::get(&session, name).await?;
        confirm(&format!("remove catalog {name}? What was installed from it stays, but is no longer upgraded."), arguments.yes)?;
        cluster_catalogs::remove(&session, name).await?;
        output::line(format!("clustercatalog {name} removed"))
    })
}

/// The packages of a catalog that match, one value each.
fn packages(snapshot: &CatalogSnapshot, text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for catalog in snapshot.catalogs() {
        let Ok(content) = &catalog.content else { continue };
        let views = if text.is_empty() { content.index.packages().collect() } else { content.index.search(text) };
        for package in views {
            let channels: Vec<&str> = package.channels().map(mainstay_catalog::ChannelView::name).collect();
            let head = package.default_channel().and_then(|name| package.channel(name)).and_then(mainstay_catalog::ChannelView::head);
            found.push(json!({
                "package": package.name(),
                "catalog": catalog.name,
                "displayName": package.display_name(),
                "provider": package.provider(),
                "defaultChannel": package.default_channel(),
                "channels": channels,
                "version": head.and_then(mainstay_catalog::EntryView::bundle).and_then(mainstay_catalog::BundleView::version),
                "deprecated": package.deprecation(),
                "summary": package.summary(),
            }));
        }
    }
    found
}

fn package_table(packages: &[Value]) -> Table {
    let mut table = Table::new(&["PACKAGE", "VERSION", "DEFAULT CHANNEL", "CHANNELS", "CATALOG", "SUMMARY"]);
    for package in packages {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let channels = package["channels"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        let mut summary = text("summary").lines().next().unwrap_or_default().chars().take(60).collect::<String>();
        if package["deprecated"].is_string() {
            summary = format!("(deprecated) {summary}");
        }
        table.row([text("package"), text("version"), text("defaultChannel"), channels, text("catalog"), summary]);
    }
    table
}
