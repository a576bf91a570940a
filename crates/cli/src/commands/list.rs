//! `mainstay list`: what is installed (MS-CLI-05).

use clap::Args;
use futures::TryStreamExt as _;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use mainstay_api::condition::Status;
use mainstay_api::olm_v1::ClusterExtension;

use crate::cluster::{ClusterArgs, Session, refused};
use crate::commands::{age, with_kind};
use crate::errors::{Exit, Failure};
use crate::extensions::{self, API_VERSION};
use crate::output::{self, Format, Table};
use crate::runtime;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay list
  mainstay list beacon harbour
  mainstay list -l team=sea
  mainstay list -w                                 and every change from now on
  mainstay list -o 'jsonpath={.items[*].status.install.bundle.name}'")]
pub struct Arguments {
    /// The extensions [default: all]
    names: Vec<String>,
    /// Only those with these labels: key=value, key!=value, key, several with commas
    #[arg(long, short = 'l', value_name = "SELECTOR", conflicts_with = "names")]
    selector: Option<String>,
    /// Go on with every change, until interrupted
    #[arg(long, short)]
    watch: bool,
    /// table, wide, json, yaml, name or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Lists extensions.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let (all, version) = listed(&session, arguments).await?;
        show(arguments, &all)?;
        if arguments.watch { watch(&session, arguments, version).await } else { Ok(()) }
    })
}

/// Those that are asked for, and the revision that they are of.
async fn listed(session: &Session, arguments: &Arguments) -> Result<(Vec<ClusterExtension>, String), Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    let which = arguments.selector.as_deref().map_or_else(ListParams::default, |labels| ListParams::default().labels(labels));
    let list = api.list(&which).await.map_err(|error| refused("clusterextensions", &error))?;
    let version = list.metadata.resource_version.clone().unwrap_or_default();
    if arguments.names.is_empty() {
        return Ok((list.items, version));
    }
    let mut found = Vec::new();
    for name in &arguments.names {
        let one = list.items.iter().find(|extension| extension.metadata.name.as_ref() == Some(name));
        found.push(one.cloned().ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("clusterextension {name}"), "not found").hint("mainstay list shows what is installed")
        })?);
    }
    Ok((found, version))
}

fn show(arguments: &Arguments, all: &[ClusterExtension]) -> Result<(), Failure> {
    if !arguments.output.is_table() {
        return output::value(&arguments.output, &with_kind(all, API_VERSION, "ClusterExtension")?);
    }
    let mut table = titled(arguments);
    for extension in all {
        table.row(row(arguments, extension));
    }
    if table.is_empty() && !arguments.watch {
        let none = if arguments.selector.is_some() {
            "no extension has these labels"
        } else {
            "nothing is installed; mainstay install PACKAGE installs something"
        };
        return output::line(none);
    }
    table.print()
}

fn titled(arguments: &Arguments) -> Table {
    let mut titles = vec!["NAME", "PACKAGE", "VERSION", "INSTALLED", "PROGRESSING", "NAMESPACE", "AGE"];
    if arguments.output == Format::Wide {
        titles.extend(["PINNED TO", "CHANNELS", "ACCOUNT"]);
    }
    Table::new(&titles)
}

fn row(arguments: &Arguments, extension: &ClusterExtension) -> Vec<String> {
    let text = |status: Status| format!("{status:?}");
    let mut row = vec![
        extension.metadata.name.clone().unwrap_or_default(),
        extensions::package(extension).to_owned(),
        extensions::installed(extension).map(|bundle| bundle.version).unwrap_or_default(),
        extensions::condition(extension, "Installed").map(|condition| text(condition.status)).unwrap_or_default(),
        extensions::condition(extension, "Progressing").map(|condition| condition.reason.clone()).unwrap_or_default(),
        extension.spec.namespace.clone(),
        age(extension.metadata.creation_timestamp.as_ref()),
    ];
    if arguments.output == Format::Wide {
        let catalog = extension.spec.source.catalog.as_ref();
        let channels = catalog.iter().flat_map(|catalog| &catalog.channels).map(|channel| channel.0.as_str());
        row.push(catalog.and_then(|catalog| catalog.version.clone()).unwrap_or_default());
        row.push(channels.collect::<Vec<_>>().join(","));
        row.push(extension.spec.service_account.as_ref().and_then(|account| account.name.clone()).unwrap_or_default());
    }
    row
}

/// Shows each change, a row or a document at a time. A watch that ends, as they all do, is begun anew from a list.
async fn watch(session: &Session, arguments: &Arguments, mut version: String) -> Result<(), Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    let which = arguments.selector.as_deref().map_or_else(WatchParams::default, |labels| WatchParams::default().labels(labels));
    let failed = |error: &kube::Error| refused("clusterextensions", error);
    loop {
        let mut events = Box::pin(api.watch(&which, &version).await.map_err(|error| failed(&error))?);
        loop {
            match events.try_next().await.map_err(|error| failed(&error))? {
                Some(WatchEvent::Added(extension) | WatchEvent::Modified(extension)) => changed(arguments, &extension, false)?,
                Some(WatchEvent::Deleted(extension)) => changed(arguments, &extension, true)?,
                Some(WatchEvent::Bookmark(_)) => {}
                // Too old: what was missed is shown with the rest.
                Some(WatchEvent::Error(_)) | None => break,
            }
        }
        let (all, now) = listed(session, arguments).await?;
        if now != version {
            show(arguments, &all)?;
        }
        version = now;
    }
}

fn changed(arguments: &Arguments, extension: &ClusterExtension, gone: bool) -> Result<(), Failure> {
    let name = extension.metadata.name.clone().unwrap_or_default();
    if !arguments.names.is_empty() && !arguments.names.contains(&name) {
        return Ok(());
    }
    if !arguments.output.is_table() {
        let mut list = with_kind(std::slice::from_ref(extension), API_VERSION, "ClusterExtension")?;
        return output::value(&arguments.output, &list["items"][0].take());
    }
    let mut table = titled(arguments);
    let mut row = row(arguments, extension);
    if gone {
        "removed".clone_into(&mut row[4]);
    }
    table.row(row);
    output::print(table.render(0).split_once('\n').map_or("", |(_, rows)| rows))
}
