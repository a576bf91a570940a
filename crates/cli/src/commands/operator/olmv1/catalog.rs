//! ClusterCatalogs: create, delete, get, update, search.

use std::cmp::Reverse;
use std::time::Duration;

use clap::Args;
use mainstay_api::olm_v1::ClusterCatalog;
use mainstay_objects::{ObjectRef, Patch, Step};
use mainstay_operations::Silent;
use mainstay_operations::catalogs::CatalogSnapshot;
use mainstay_operations::cluster_catalogs::{self, API_VERSION};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;
use mainstay_versions::Version;
use serde_json::{Map, Value, json};

use super::super::shared::{Context, SELF, age, failed, nothing, table, titles};
use super::objects::{self, all, value};
use super::{Doomed, Dry, Shown, labels, show_object, status, text};

/// Flags that can be changed later.
#[derive(Debug, Args)]
struct Mutable {
    /// The priority among all catalogs; a higher number is preferred
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Serve its content: true or false
    #[arg(long, value_parser = ["true", "false"])]
    available: Option<String>,
    /// Minutes between two looks at the image's tag; 0 or -1 switches them off
    #[arg(long, allow_negative_numbers = true)]
    source_poll_interval_minutes: Option<i64>,
    /// KEY=VALUE; an empty value removes the label
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    labels: Vec<String>,
}

/// Arguments of `create catalog`.
#[derive(Debug, Args)]
pub struct Create {
    /// Its name
    name: String,
    /// Its image
    image: String,
    #[command(flatten)]
    mutable: Mutable,
    /// The time to remove a catalog that does not serve
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = crate::durations::parse)]
    pub cleanup_timeout: Duration,
    #[command(flatten)]
    dry: Dry,
}

/// Arguments of `update catalog`.
#[derive(Debug, Args)]
pub struct Update {
    /// Its name
    name: String,
    /// The image; the present one if none is given
    #[arg(long)]
    image: Option<String>,
    #[command(flatten)]
    mutable: Mutable,
    /// Leaves what is not given as it is; false sets it back to the default
    #[arg(long, default_value = "true", action = clap::ArgAction::Set)]
    ignore_unset: bool,
    #[command(flatten)]
    dry: Dry,
}

/// Arguments of `search catalog`.
#[derive(Debug, Args)]
pub struct Search {
    /// The catalog; all that serve if none is given
    #[arg(long)]
    catalog: Option<String>,
    /// Only catalogs with these labels
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// json or yaml instead of a table
    #[arg(long, short, value_parser = ["json", "yaml", "table"])]
    output: Option<String>,
    /// List all versions of each package
    #[arg(long)]
    list_versions: bool,
    /// Only this package
    #[arg(long)]
    package: Option<String>,
}

fn place(name: &str) -> ObjectRef {
    ObjectRef { api_version: API_VERSION.to_owned(), kind: "ClusterCatalog".to_owned(), namespace: String::new(), name: name.to_owned() }
}

/// The fields that the flags set; with `defaults`, the others are set back.
fn spec(mutable: &Mutable, image: Option<&str>, defaults: bool) -> Result<Value, Failure> {
    let mut spec = Map::new();
    match (&mutable.priority, defaults) {
        (Some(priority), _) => drop(spec.insert("priority".to_owned(), (*priority).into())),
        (None, true) => drop(spec.insert("priority".to_owned(), Value::Null)),
        (None, false) => {}
    }
    let mode = mutable.available.as_deref().map(|one| if one == "true" { "Available" } else { "Unavailable" });
    match (mode, defaults) {
        (Some(mode), _) => drop(spec.insert("availabilityMode".to_owned(), mode.into())),
        (None, true) => drop(spec.insert("availabilityMode".to_owned(), Value::Null)),
        (None, false) => {}
    }
    let mut source = Map::new();
    if let Some(image) = image {
        source.insert("ref".to_owned(), image.into());
    }
    match mutable.source_poll_interval_minutes {
        Some(minutes) if minutes > 0 => {
            if image.is_some_and(|image| image.contains('@')) {
                let problem = "cannot specify a non-zero --source-poll-interval-minutes for a digest based catalog image";
                return Err(Failure::new(Exit::Usage, SELF, format!("failed to parse flags: {problem} {}", image.unwrap_or_default())));
            }
            source.insert("pollIntervalMinutes".to_owned(), minutes.into());
        }
        None if !defaults => {}
        _ => drop(source.insert("pollIntervalMinutes".to_owned(), Value::Null)),
    }
    if !source.is_empty() {
        spec.insert("source".to_owned(), json!({"type": "Image", "image": source}));
    }
    Ok(Value::Object(spec))
}

/// Creates a catalog, and waits until it serves; one that does not is removed.
pub async fn create(context: &Context, arguments: &Create) -> Result<(), Failure> {
    let Create { name, image, mutable, dry, .. } = arguments;
    let mut object = json!({"apiVersion": API_VERSION, "kind": "ClusterCatalog", "metadata": {"name": name}, "spec": spec(mutable, Some(image), false)?});
    let mut labels = labels(&mutable.labels)?;
    labels.retain(|_, value| !value.is_null());
    if !labels.is_empty() {
        object["metadata"]["labels"] = Value::Object(labels);
    }
    if let Some(source) = object["spec"]["source"]["image"].as_object_mut() {
        source.retain(|_, value| !value.is_null());
    }
    let wanted = |outcome| failed(&format!("failed to create catalog {name:?}"), outcome);
    wanted(dry.carry_out(context, &Step::Create(object.clone())).await)?;
    let serves = mutable.available.as_deref() != Some("false") && !dry.is_on();
    if serves && let Err(failure) = cluster_catalogs::serve(&context.session, name, context.timeout, &mut Silent).await {
        let removal = cluster_catalogs::remove(&context.session, name).await;
        let failure = Failure::from(failure);
        return wanted(Err(match removal {
            Ok(()) => failure,
            Err(left) => failure.because(format!("it could not be removed: {}", left.to_line())),
        }));
    }
    dry.say(&format!("catalog {name:?} created"), &object)
}

/// Deletes one catalog, or all.
pub async fn delete(context: &Context, arguments: &Doomed) -> Result<(), Failure> {
    let get = async |name: &str| cluster_catalogs::get(&context.session, name).await.map_err(Failure::from);
    objects::delete::<ClusterCatalog>(context, arguments, ("catalog", "failed to delete catalog(s)"), get).await
}

/// Shows one catalog, or all: those that serve first, the preferred first.
pub async fn get(context: &Context, arguments: &Shown) -> Result<(), Failure> {
    let mut found = match &arguments.name {
        Some(name) => match cluster_catalogs::get(&context.session, name).await {
            Ok(found) => vec![value(&found)?],
            Err(failure) => return failed("failed getting installed catalog(s)", Err(failure.into())),
        },
        None => all::<ClusterCatalog>(context, arguments.selector.as_ref()).await?,
    };
    let key = |one: &Value| {
        (
            text(&one["spec"]["availabilityMode"]),
            Reverse(one["spec"]["priority"].as_i64().unwrap_or_default()),
            text(&one["metadata"]["name"]),
        )
    };
    found.sort_by_key(key);
    if let Some(format) = &arguments.output {
        return match found.as_slice() {
            [one] => show_object(format, one),
            _ => show_object(format, &objects::listed::<ClusterCatalog>(&found)),
        };
    }
    if found.is_empty() {
        return nothing(None);
    }
    let mut rows = vec![titles(&["NAME", "AVAILABILITY", "PRIORITY", "LASTUNPACKED", "SERVING", "AGE"])];
    rows.extend(found.iter().map(|one| {
        let unpacked = json!({"metadata": {"creationTimestamp": one["status"]["lastUnpacked"]}});
        let unpacked = if one["status"]["lastUnpacked"].is_null() { String::new() } else { age(&unpacked) };
        let priority = one["spec"]["priority"].as_i64().unwrap_or_default().to_string();
        vec![text(&one["metadata"]["name"]), text(&one["spec"]["availabilityMode"]), priority, unpacked, status(one, "Serving"), age(one)]
    }));
    table(&rows)
}

/// Changes a catalog.
pub async fn update(context: &Context, arguments: &Update) -> Result<(), Failure> {
    let Update { name, image, mutable, ignore_unset, dry } = arguments;
    let wanted = |outcome| failed("failed to update catalog", outcome);
    let live = match cluster_catalogs::get(&context.session, name).await {
        Ok(live) => value(&live)?,
        Err(failure) => return wanted(Err(failure.into())),
    };
    let mut patch = json!({"metadata": {"uid": live["metadata"]["uid"]}, "spec": spec(mutable, image.as_deref(), !ignore_unset)?});
    let labels = labels(&mutable.labels)?;
    if !labels.is_empty() {
        patch["metadata"]["labels"] = Value::Object(labels);
    }
    let step = Step::Patch { object: place(name), subresource: String::new(), patch: Patch::Merge(patch.clone()) };
    wanted(dry.carry_out(context, &step).await)?;
    let mut object = live;
    mainstay_merge::merge_patch(&mut object, &patch);
    dry.say(&format!("catalog {name:?} updated"), &object)
}

/// Lists the packages of catalogs.
pub async fn search(context: &Context, arguments: &Search) -> Result<(), Failure> {
    let snapshot = CatalogSnapshot::open(&context.session, arguments.catalog.as_deref()).await?;
    let chosen: Vec<String> =
        all::<ClusterCatalog>(context, arguments.selector.as_ref()).await?.iter().map(|one| text(&one["metadata"]["name"])).collect();
    let last = if arguments.list_versions { "VERSION" } else { "CHANNELS" };
    let (mut rows, mut objects) = (vec![titles(&["PACKAGE", "CATALOG", "PROVIDER", last])], Vec::new());
    for catalog in snapshot.catalogs().iter().filter(|catalog| chosen.contains(&catalog.name)) {
        let Ok(content) = &catalog.content else { continue };
        for package in content.index.packages().filter(|package| arguments.package.as_deref().is_none_or(|name| package.name() == name)) {
            let mut channels: Vec<&str> = package.channels().map(mainstay_catalog::ChannelView::name).collect();
            channels.sort_unstable();
            let mut versions: Vec<Version> = package.bundles().filter_map(|bundle| Version::parse(bundle.version()?).ok()).collect();
            versions.sort_by(|one, other| other.cmp(one));
            let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
            let row = |value: &str| vec![package.name().to_owned(), catalog.name.clone(), package.provider().to_owned(), value.to_owned()];
            if arguments.list_versions {
                rows.extend(versions.iter().map(|version| row(version)));
            } else {
                rows.push(row(&channels.join(",")));
            }
            objects.push(json!({"package": package.name(), "catalog": catalog.name, "provider": package.provider(), "channels": channels, "versions": versions}));
        }
    }
    match arguments.output.as_deref() {
        Some(format @ ("json" | "yaml")) => show_object(format, &Value::Array(objects)),
        _ if rows.len() == 1 => output::line("No resources found."),
        _ => table(&rows),
    }
}
