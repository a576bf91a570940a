//! `mainstay catalog add|list|show|search|remove`: ClusterCatalogs.

use std::time::{Duration, Instant};

use clap::Args;
use kube::api::{Api, DeleteParams, ListParams};
use mainstay_api::condition;
use mainstay_api::lifecycle::PULL_SECRET;
use mainstay_api::olm_v1::{AvailabilityMode, ClusterCatalog, NAME_LABEL};
use mainstay_objects::{Expect, ObjectRef, Until};
use mainstay_oci::{ErrorKind, Reference};
use mainstay_olm_v1::catalog_secrets::pull_secret;
use mainstay_olm_v1_core::catalog::REMOVED_APIS;
use mainstay_olm_v1_core::cluster_operator::catalogs::description;
use serde_json::{Value, json};

use crate::cluster::{ClusterArgs, Session, not_written, refused};
use crate::commands::{age, with_kind};
use crate::durations;
use crate::errors::{Exit, Failure, note};
use crate::images;
use crate::market::{Market, Unavailable};
use crate::named;
use crate::output::{self, Format, Table};
use crate::printable::printable_line;
use crate::progress::{Progress, confirm};
use crate::runtime;

const API_VERSION: &str = "olm.operatorframework.io/v1";
/// How often the state is looked at while waiting.
const LOOK: Duration = Duration::from_millis(150);

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
    /// Settings of the live catalog that differ from those asked for, one line each.
    fn differences(&self, live: &ClusterCatalog) -> Vec<String> {
        let image = live.spec.source.image.as_ref();
        let poll = |minutes: Option<i64>| minutes.map_or_else(|| "never".to_owned(), |minutes| format!("every {minutes} min"));
        let secret = |secret: Option<&str>| secret.map_or_else(|| "none".to_owned(), str::to_owned);
        let has = live.metadata.annotations.as_ref().and_then(|annotations| annotations.get(PULL_SECRET));
        let parts = [
            ("image", image.map(|image| image.reference.clone()).unwrap_or_default(), self.reference.clone()),
            ("priority", live.spec.priority.to_string(), self.priority.to_string()),
            ("polled", poll(image.and_then(|image| image.poll_interval_minutes)), poll(self.poll)),
            ("pull secret", secret(has.map(String::as_str)), secret(self.pull_secret.as_deref())),
        ];
        let differ = parts.into_iter().filter(|(_, has, wanted)| has != wanted);
        differ.map(|(part, has, wanted)| format!("{part}: {}, not {wanted}", printable_line(&has))).collect()
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
        let api: Api<ClusterCatalog> = Api::all(session.client.clone());
        if !arguments.replace {
            let live = api.get_opt(&arguments.name).await.map_err(|error| refused(format!("clustercatalog {}", arguments.name), &error))?;
            refuse_change(arguments, live.as_ref())?;
        }
        if !arguments.keep {
            exists(&arguments.name, &arguments.reference).await?;
        }
        let image = match arguments.poll {
            Some(minutes) => json!({"ref": arguments.reference, "pollIntervalMinutes": minutes}),
            None => json!({"ref": arguments.reference}),
        };
        let mut object = json!({
            "apiVersion": API_VERSION, "kind": "ClusterCatalog",
            // With it nobody asks the webhook that sets it (OLM1-CAT-03), which may not be served yet.
            "metadata": {"name": arguments.name, "labels": {NAME_LABEL: arguments.name}},
            "spec": {"priority": arguments.priority, "source": {"type": "Image", "image": image}},
        });
        if let Some(secret) = &arguments.pull_secret {
            object["metadata"]["annotations"] = json!({PULL_SECRET: secret});
        }
        let (_, effect) = session.writer.apply(&object, true, &Expect::default()).await.map_err(|error| not_written(&error))?;
        if arguments.no_wait {
            return output::line(format!(
                "clustercatalog {} {}",
                arguments.name,
                if effect == mainstay_apply::Effect::Created { "created" } else { "changed" }
            ));
        }
        let name = arguments.name.clone();
        let waiting = serve(&session, &arguments.name, arguments.timeout);
        let waited = runtime::until_interrupt(waiting, || {
            vec![
                format!("clustercatalog {name} was written, and is still being unpacked by the cluster; mainstay catalog list shows it"),
                format!("mainstay catalog remove {name} undoes it"),
            ]
        })
        .await;
        // What can never serve is not left behind, where this command made it.
        if let Err(failure) = &waited
            && failure.exit == Exit::Impossible
            && effect == mainstay_apply::Effect::Created
            && !arguments.keep
        {
            api.delete(&arguments.name, &DeleteParams::default())
                .await
                .map_err(|error| refused(format!("clustercatalog {}", arguments.name), &error))?;
            note(format!("clustercatalog {} was removed again; --keep leaves it", arguments.name));
        }
        let took = waited?;
        output::line(format!("clustercatalog {} serves after {:.1} s", arguments.name, took.as_secs_f64()))
    })
}

/// Refuses to change a catalog that exists with other settings.
fn refuse_change(arguments: &Add, live: Option<&ClusterCatalog>) -> Result<(), Failure> {
    let differences = live.map(|live| arguments.differences(live)).unwrap_or_default();
    if differences.is_empty() {
        return Ok(());
    }
    let failure = Failure::new(Exit::Impossible, format!("clustercatalog {}", arguments.name), "exists already, with other settings");
    let failure = differences.into_iter().fold(failure, Failure::because);
    Err(failure.hint("--replace changes it; another name adds a second catalog"))
}

/// How long it is asked for an image before the cluster is left to find out.
const ASK: Duration = Duration::from_secs(15);

/// Refuses a reference that its registry says it does not have. What cannot be asked from here (another network, no credentials) is for the
/// cluster to find out.
async fn exists(name: &str, reference: &str) -> Result<(), Failure> {
    let subject = format!("clustercatalog {name}");
    let client = images::client()?;
    // What is no reference is for the API to refuse.
    let Ok(parsed) = Reference::parse_familiar(reference) else { return Ok(()) };
    match tokio::time::timeout(ASK, client.resolve(&parsed)).await {
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => Err(Failure::of(Exit::NotFound, subject, &error)
            .because("nothing was written to the cluster")
            .hint("check the repository's name and the tag; --keep writes the catalog all the same, where the cluster has credentials or mirrors that are not known here")),
        Ok(Err(error)) => {
            tracing::info!(%error, "the image cannot be looked at from here");
            Ok(())
        }
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}

/// Waits until the catalog serves what its spec says.
pub async fn serve(session: &Session, name: &str, timeout: Duration) -> Result<Duration, Failure> {
    let api: Api<ClusterCatalog> = Api::all(session.client.clone());
    let begun = Instant::now();
    let mut progress = Progress::start();
    progress.doing(&format!("clustercatalog {name}: pull, verify and unpack"));
    loop {
        let catalog = api.get(name).await.map_err(|error| refused(format!("clustercatalog {name}"), &error))?;
        let conditions = catalog.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let current =
            |kind: &str| condition::get(conditions, kind).filter(|condition| condition.observed_generation == catalog.metadata.generation);
        let (serving, progressing) = (current("Serving"), current("Progressing"));
        if serving.is_some_and(|serving| serving.status == condition::Status::True)
            && progressing.is_some_and(|progressing| progressing.reason == "Succeeded")
        {
            return Ok(begun.elapsed());
        }
        let said = progressing
            .filter(|progressing| progressing.reason != "Succeeded")
            .map(|progressing| (progressing.reason.as_str(), progressing.message.clone()));
        if let Some((reason, message)) = &said {
            if *reason == "Blocked" {
                return Err(Failure::new(Exit::Impossible, format!("clustercatalog {name}"), message.clone())
                    .hint("mend the image or the reference; the cluster does not try again by itself"));
            }
            progress.doing(message);
        }
        if begun.elapsed() > timeout {
            let message = said.map_or_else(|| "the cluster said nothing about it; is olm-v1 running?".to_owned(), |(_, message)| message);
            return Err(Failure::new(
                Exit::TimedOut,
                format!("clustercatalog {name}"),
                format!("does not serve after {} s", timeout.as_secs()),
            )
            .because(message)
            .hint(format!("the cluster goes on trying; mainstay catalog remove {name} ends it")));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Lists catalogs.
pub fn list(arguments: &List) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let api: Api<ClusterCatalog> = Api::all(session.client.clone());
        let catalogs = api.list(&ListParams::default()).await.map_err(|error| refused("clustercatalogs", &error))?.items;
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
        let market = Market::open(&session, Some(&arguments.name)).await?;
        let api: Api<ClusterCatalog> = Api::all(session.client.clone());
        let catalog = api.get(&arguments.name).await.map_err(|error| refused(format!("clustercatalog {}", arguments.name), &error))?;
        let packages = packages(&market, "");
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
        let market = Market::open(&session, only).await?;
        for stall in market.catalogs() {
            match &stall.content {
                Err(Unavailable::NotServing(problem) | Unavailable::Broken(problem) | Unavailable::Failed(problem)) => {
                    crate::errors::warn(
                        &format!("clustercatalog {}", stall.name),
                        &format!("is left out: {}", if problem.is_empty() { "it does not serve" } else { problem }),
                    );
                }
                Ok(_) | Err(Unavailable::Off) => {}
            }
        }
        let found = packages(&market, &arguments.text);
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
        let api: Api<ClusterCatalog> = Api::all(session.client.clone());
        let subject = || format!("clustercatalog {name}");
        api.get(name).await.map_err(|error| refused(subject(), &error))?;
        confirm(&format!("remove catalog {name}? What was installed from it stays, but is not upgraded any more."), arguments.yes)?;
        api.delete(name, &DeleteParams::default()).await.map_err(|error| refused(subject(), &error))?;
        let place = ObjectRef {
            api_version: API_VERSION.to_owned(),
            kind: "ClusterCatalog".to_owned(),
            namespace: String::new(),
            name: name.clone(),
        };
        session.writer.wait(&place, &Until::Gone, Duration::from_secs(60)).await.map_err(|error| not_written(&error))?;
        output::line(format!("clustercatalog {name} removed"))
    })
}

/// What there is, a value a package.
fn packages(market: &Market, text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for stall in market.catalogs() {
        let Ok(content) = &stall.content else { continue };
        let views = if text.is_empty() { content.index.packages().collect() } else { content.index.search(text) };
        for package in views {
            let channels: Vec<&str> = package.channels().map(mainstay_catalog::ChannelView::name).collect();
            let head = package.default_channel().and_then(|name| package.channel(name)).and_then(mainstay_catalog::ChannelView::head);
            found.push(json!({
                "package": package.name(),
                "catalog": stall.name,
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
