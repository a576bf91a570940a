//! `mainstay adm inspect`: objects with everything that belongs to them, or the containers of a node (COP-G-13, OLM0-ADMIN-45).

use std::path::PathBuf;

use clap::Args;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_operations::inspect::node::{Container, containers};
use mainstay_operations::inspect::{self, Target};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Table};
use mainstay_terminal::runtime;

use super::folder::Folder;
use crate::commands::listed::age;

/// The letters of an ID that are shown, as crictl shows them.
const SHORT: usize = 13;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay adm inspect clusteroperator/olm            its related objects, events and logs of pods, below inspect.local.*
  mainstay adm inspect ns/lights --dest-dir support   a namespace
  mainstay adm inspect deployment/beacon -n lights
  mainstay adm inspect node/worker-1                  the containers of a simulated node, as crictl ps lists those of a real one
  mainstay adm inspect node/worker-1 --all --name manager

Values of Secrets are left out.")]
pub struct Arguments {
    /// The objects: RESOURCE/NAME, or RESOURCE for all; one node/NAME alone is listed
    #[arg(required = true, value_name = "RESOURCE[/NAME]")]
    targets: Vec<String>,
    /// The folder, which must be empty or not there [default: inspect.local.TIME]
    #[arg(long, value_name = "DIR")]
    dest_dir: Option<PathBuf>,
    /// Of a node's containers, those that do not run, too
    #[arg(long, short)]
    all: bool,
    /// Of a node's containers, those whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    name: String,
}

/// Collects, or lists.
pub fn run(arguments: &Arguments, cluster: &ClusterArgs, namespace: &str) -> Result<(), Failure> {
    if let [target] = arguments.targets.as_slice()
        && let Some(name) = ["node/", "nodes/", "no/"].iter().find_map(|prefix| target.strip_prefix(prefix))
        && arguments.dest_dir.is_none()
    {
        return node(arguments, cluster, name);
    }
    let read = |text: &String| {
        Target::parse(text, namespace).ok_or_else(|| Failure::new(Exit::Usage, format!("{text:?}"), "is not RESOURCE[.GROUP][/NAME]"))
    };
    let targets = arguments.targets.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    runtime::block_on(async {
        let session = cluster.open().await?;
        let folder = Folder::make(arguments.dest_dir.as_deref(), "inspect")?;
        let summary = inspect::inspect(&session, &targets, &mut |path, content| folder.write(path, content)).await?;
        folder.done(&summary)
    })
}

fn node(arguments: &Arguments, cluster: &ClusterArgs, name: &str) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = cluster.open().await?;
        let found = containers(&session, name).await?;
        if found.simulated {
            output::line(format!(
                "node {name} is simulated: no container runs on it but those with a process ID, which are processes of this machine"
            ))?;
        } else {
            output::line(format!("node {name} is real: this is what its kubelet reports; crictl on the node shows more"))?;
        }
        let mut table = Table::new(&["CONTAINER", "IMAGE", "CREATED", "STATE", "NAME", "ATTEMPT", "POD", "NAMESPACE"]);
        let wanted = |one: &&Container| (arguments.all || one.state == "Running") && one.name.contains(&arguments.name);
        for one in found.containers.iter().filter(wanted) {
            let id: String = if one.process {
                format!("process {}", one.id.split('-').next().unwrap_or_default())
            } else {
                one.id.chars().take(SHORT).collect()
            };
            let created = one.created.map_or_else(|| "-".to_owned(), |at| format!("{} ago", age(Some(&Time(at)))));
            table.row([
                id,
                one.image.clone(),
                created,
                one.state.to_owned(),
                one.name.clone(),
                one.attempt.to_string(),
                one.pod.clone(),
                one.namespace.clone(),
            ]);
        }
        table.print()
    })
}
