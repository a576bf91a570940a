//! `mainstay update-graph query`: the graph that an update service would answer, and what a cluster makes of an answer (CVO-USC-07, CVO-OSUS-07).

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use mainstay_terminal::built;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format, Table};
use mainstay_update_graph::{Graph, GraphData, GraphLimits, Parameters, Release, ReleaseMetadata, answer, build, cases as recorded};
use mainstay_versions::Version;
use serde_json::json;

use super::graph_data;
use crate::cases;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// The graph of a channel, or the updates of one version
    Query(Query),
}

/// Arguments of `update-graph query`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay update-graph query ./graph-data --channel stable-4.18 --releases releases.json
  mainstay update-graph query ./graph-data --channel stable-4.18 --version 4.17.20 --releases releases/
  mainstay update-graph query ./graph-data --channel stable-4.18 -o json       the answer of an update service
  mainstay update-graph query --cases retrievals.jsonl

Graph-data says which versions are in a channel, and which updates are blocked or have risks; which updates there are stands in the releases.
--releases is a list of release-metadata documents (one, a JSON list, or one a line; {\"image\", \"arch\", \"metadata\"} names the image, too), or
a directory of them. Without releases the versions of all channels are the nodes, without an image, and only the edges of raw/metadata.json are there.

With --cases every line is a recorded retrieval, {\"type\": \"graph\", \"input\": {\"upstream\", \"clusterID\", \"arch\", \"channel\", \"version\",
\"httpStatus\", \"body\"}}; the answer has request, condition, current, updates, conditionalUpdates, evaluatedUpdates and
evaluatedConditionalUpdates besides.

Exit codes: 0 done, 1 bad input, 3 no such channel or version.")]
pub struct Query {
    /// The directory of graph-data, or a tar archive
    #[arg(required_unless_present = "cases", value_name = "DIR|ARCHIVE")]
    place: Option<PathBuf>,
    /// The channel
    #[arg(long, value_name = "CHANNEL", required_unless_present = "cases")]
    channel: Option<String>,
    /// Show the updates of this version
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// The architecture, or multi [default: that of this machine]
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,
    /// The releases
    #[arg(long, value_name = "FILE|DIR")]
    releases: Option<PathBuf>,
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["place", "channel", "version", "arch", "releases"])]
    cases: Option<PathBuf>,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

/// The architecture that was given, or that of this machine.
pub fn architecture_or_default(given: Option<&str>) -> String {
    given.unwrap_or(built::architecture()).to_owned()
}

/// Runs the command.
pub fn run(command: Commands) -> Result<(), Failure> {
    let Commands::Query(arguments) = command;
    if let Some(path) = &arguments.cases {
        cases::check_format(&arguments.output, &Format::Table)?;
        return cases::answer(path, |case| recorded::answer(case).map_err(|error| Failure::failed("case", &error)));
    }
    let (Some(place), Some(channel)) = (&arguments.place, &arguments.channel) else {
        return Err(Failure::new(Exit::Usage, "update-graph query", "needs a directory and --channel"));
    };
    let subject = format!("graph-data {}", place.display());
    let data = GraphData::read(&graph_data::read(place)?).map_err(|error| {
        Failure::failed(&subject, &error).hint(format!("mainstay graph-data lint {} shows every fault", place.display()))
    })?;
    let architecture = architecture_or_default(arguments.arch.as_deref());
    let parameters = Parameters::read(&format!("channel={channel}&arch={architecture}"))
        .map_err(|error| Failure::of(Exit::Usage, "--channel, --arch", &error))?;
    let releases = match &arguments.releases {
        Some(path) => graph_data::releases(path, &architecture)?,
        None => of_channels(&data, &architecture)?,
    };
    let built = build(releases, &data, &GraphLimits::default()).map_err(|error| Failure::failed(&subject, &error))?;
    if !built.channels().contains(channel.as_str()) {
        let mut known: Vec<&str> = built.channels().into_iter().collect();
        known.truncate(20);
        return Err(Failure::new(Exit::NotFound, format!("channel {channel}"), "no release is in a channel of this name")
            .hint(format!("there are {}", known.join(", "))));
    }
    let graph = answer(&built, &parameters);
    match &arguments.version {
        Some(version) => updates(&arguments.output, &graph, version, channel),
        None => whole(&arguments.output, &graph),
    }
}

/// Releases without images: the versions that channels have for an architecture.
fn of_channels(data: &GraphData, architecture: &str) -> Result<Vec<Release>, Failure> {
    let versions = data.channels.iter().flat_map(|channel| &channel.versions);
    let own = versions.filter(|version| version.build().is_empty() || version.build() == architecture);
    let plain: BTreeSet<String> = own.map(|version| version.to_string().split('+').next().unwrap_or_default().to_owned()).collect();
    let release = |version: &String| {
        let document = json!({"kind": "cincinnati-metadata-v0", "version": version});
        let metadata = ReleaseMetadata::read(&document).map_err(|error| Failure::failed(format!("version {version}"), &error))?;
        Ok(Release::of_image(String::new(), "", architecture, metadata))
    };
    plain.iter().filter_map(|version| release(version).transpose()).collect()
}

fn whole(format: &Format, graph: &Graph) -> Result<(), Failure> {
    if !format.is_table() {
        return output::value(format, &json!(graph));
    }
    let mut table = Table::new(&["VERSION", "UPDATES", "CONDITIONAL", "IMAGE"]);
    let mut plain = vec![0_usize; graph.nodes.len()];
    for (from, _) in &graph.edges {
        plain[*from] += 1;
    }
    for (node, plain) in graph.nodes.iter().zip(plain).rev() {
        let edges = graph.conditional_edges.iter().flat_map(|group| &group.edges);
        let conditional = edges.filter(|edge| edge.from == node.version).count();
        table.row([node.version.clone(), plain.to_string(), conditional.to_string(), node.payload.clone()]);
    }
    table.print()
}

/// The updates of a version, highest first.
fn updates(format: &Format, graph: &Graph, version: &str, channel: &str) -> Result<(), Failure> {
    let Some(at) = graph.nodes.iter().position(|node| node.version == version) else {
        return Err(Failure::new(Exit::NotFound, format!("version {version}"), format!("is not in channel {channel}")));
    };
    let mut found = Vec::new();
    for (_, to) in graph.edges.iter().filter(|(from, _)| *from == at) {
        found.push((&graph.nodes[*to], Vec::new()));
    }
    for group in &graph.conditional_edges {
        for edge in group.edges.iter().filter(|edge| edge.from == version) {
            if let Some(node) = graph.nodes.iter().find(|node| node.version == edge.to) {
                found.push((node, group.risks.iter().map(|risk| risk.name.clone()).collect()));
            }
        }
    }
    found.sort_by_cached_key(|(node, _)| std::cmp::Reverse(Version::parse(&node.version).ok()));
    if !format.is_table() {
        let update = |(node, risks): &(&mainstay_update_graph::Node, Vec<String>)| json!({"version": node.version, "payload": node.payload, "metadata": node.metadata, "risks": risks});
        let value = json!({"version": version, "channel": channel, "updates": found.iter().map(update).collect::<Vec<_>>()});
        return output::value(format, &value);
    }
    let mut table = Table::new(&["VERSION", "RISKS", "IMAGE"]);
    for (node, risks) in &found {
        table.row([node.version.clone(), if risks.is_empty() { "-".to_owned() } else { risks.join(", ") }, node.payload.clone()]);
    }
    table.print()
}
