//! `mainstay list`: what is installed (MS-CLI-05).

use clap::Args;
use mainstay_api::condition::Status;

use crate::cluster::ClusterArgs;
use crate::commands::{age, with_kind};
use crate::errors::Failure;
use crate::extensions::{self, API_VERSION};
use crate::output::{self, Format, Table};
use crate::runtime;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  mainstay list\n  mainstay list -o 'jsonpath={.items[*].status.install.bundle.name}'")]
pub struct Arguments {
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
        let all = extensions::all(&session).await?;
        if !arguments.output.is_table() {
            return output::value(&arguments.output, &with_kind(&all, API_VERSION, "ClusterExtension")?);
        }
        let wide = arguments.output == Format::Wide;
        let mut titles = vec!["NAME", "PACKAGE", "VERSION", "INSTALLED", "PROGRESSING", "NAMESPACE", "AGE"];
        if wide {
            titles.extend(["PINNED TO", "CHANNELS", "ACCOUNT"]);
        }
        let mut table = Table::new(&titles);
        for extension in &all {
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
            if wide {
                let catalog = extension.spec.source.catalog.as_ref();
                row.push(catalog.and_then(|catalog| catalog.version.clone()).unwrap_or_default());
                row.push(
                    catalog
                        .map(|catalog| catalog.channels.iter().map(|channel| channel.0.as_str()).collect::<Vec<_>>().join(","))
                        .unwrap_or_default(),
                );
                row.push(extension.spec.service_account.as_ref().and_then(|account| account.name.clone()).unwrap_or_default());
            }
            table.row(row);
        }
        if table.is_empty() { output::line("nothing is installed; mainstay install PACKAGE installs something") } else { table.print() }
    })
}
