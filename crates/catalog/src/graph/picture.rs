//! An update graph as a picture (MS-EXPL-03): the texts of the boxes, the merging of edges, and the text above them.

use mainstay_graph::{Edge, Kind, Line, Mark, Marks, Merge, Node, Panel, Picture, Tone};

use super::edge::EdgeKind;
use super::update::{ChannelGraph, GraphNode, Place, StartState, UpdateGraph, UpdatePaths};

/// The picture of an update graph; `catalog` names its source, if that is not clear.
pub fn picture(graph: &UpdateGraph<'_>, catalog: Option<&str>) -> Picture {
    let ways = graph.paths();
    let mut description = Vec::new();
    if let Some(message) = graph.deprecation {
        description.push(format!("The package is deprecated: {}", first_line(message)));
    }
    if let Some(start) = &graph.start {
        let reached = graph.channels.iter().flat_map(|channel| &channel.nodes);
        let count = |wanted: &dyn Fn(usize) -> bool| {
            let names: std::collections::BTreeSet<&str> =
                reached.clone().filter(|node| ways.steps(&node.name).is_some_and(wanted)).map(|node| node.name.as_str()).collect();
            names.len()
        };
        let verb = match start.state {
            StartState::Installed => "Installed",
            StartState::Asked => "From",
        };
        let version = start.version.as_ref().map(ToString::to_string).filter(|version| !start.bundle.contains(version.as_str()));
        description.push(format!(
            "{verb} {}{}: {} in one step, {} reachable in all",
            start.bundle,
            version.map(|version| format!(" ({version})")).unwrap_or_default(),
            count(&|steps| steps == 1),
            count(&|steps| steps > 0),
        ));
    }
    let title = match catalog {
        Some(catalog) => format!("Updates of {} in {catalog}", graph.package),
        None => format!("Updates of {}", graph.package),
    };
    Picture {
        title,
        description: description.join("\n"),
        kinds: kinds(),
        panels: graph.channels.iter().map(|channel| panel(graph, channel, &ways)).collect(),
    }
}

fn kinds() -> Vec<Kind> {
    let kind = |name: &str, line, tone, merge| Kind { name: name.to_owned(), line, tone, merge };
    vec![
        kind("replaces", Line::Solid, Tone::Main, Merge::Apart),
        kind("skips", Line::Dashed, Tone::Second, Merge::Fans),
        kind("skipRange", Line::Dotted, Tone::Third, Merge::Fans),
    ]
}

fn panel(graph: &UpdateGraph<'_>, channel: &ChannelGraph<'_>, ways: &UpdatePaths) -> Panel {
    let name = match graph.default_channel {
        Some(default) if default == channel.name => format!("channel {} (default)", channel.name),
        _ => format!("channel {}", channel.name),
    };
    let edges = channel.edges.iter().map(|edge| {
        let (kind, note) = match &edge.kind {
            EdgeKind::Replaces => (0, String::new()),
            EdgeKind::Skips => (1, String::new()),
            EdgeKind::SkipRange(range) => (2, range.clone()),
        };
        Edge { from: edge.from, to: edge.to, kind, note }
    });
    Panel {
        name,
        notes: notes(graph, channel, ways),
        nodes: channel.nodes.iter().map(|node| drawn(graph, node, ways)).collect(),
        edges: edges.collect(),
    }
}

fn notes(graph: &UpdateGraph<'_>, channel: &ChannelGraph<'_>, ways: &UpdatePaths) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(message) = channel.deprecation {
        notes.push(format!("deprecated: {}", first_line(message)));
    }
    let entries = channel.nodes.iter().filter(|node| node.place != Place::Outside).count();
    let heads: Vec<String> = channel.heads().map(GraphNode::short).collect();
    let newest = channel.newest().map(GraphNode::short).unwrap_or_default();
    notes.push(match heads.as_slice() {
        [] => format!("{}, newest {newest}, no head: every bundle is replaced or skipped by another", bundles(entries)),
        [head] if *head == newest => format!("{}, newest {newest}", bundles(entries)),
        [head] => format!("{}, newest {newest}, head {head}", bundles(entries)),
        several => format!("{}, newest {newest}, more than one head: {}", bundles(entries), several.join(", ")),
    });
    if !channel.skipped_unknown.is_empty() {
        let names: Vec<&str> = channel.skipped_unknown.iter().copied().take(4).collect();
        let more = channel.skipped_unknown.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        notes.push(format!("skips what the package does not have: {}{more}", names.join(", ")));
    }
    if let Some(start) = &graph.start {
        for head in channel.heads().filter(|head| head.name != start.bundle) {
            notes.push(match ways.path(&head.name) {
                Some(path) => {
                    let short = |name: &&str| {
                        let nodes = graph.channels.iter().flat_map(|channel| &channel.nodes);
                        nodes.clone().find(|node| node.name == *name).map_or_else(|| (*name).to_owned(), GraphNode::short)
                    };
                    format!("way to the head: {}", path.iter().map(short).collect::<Vec<_>>().join(" \u{2192} "))
                }
                None => format!("no way leads from {} to the head {}", start.bundle, head.short()),
            });
        }
    }
    notes
}

fn bundles(count: usize) -> String {
    if count == 1 { "1 bundle".to_owned() } else { format!("{count} bundles") }
}

fn drawn(graph: &UpdateGraph<'_>, node: &GraphNode<'_>, ways: &UpdatePaths) -> Node {
    let mut marks = Marks::none();
    if node.head {
        marks = marks.with(Mark::Head);
    }
    match ways.steps(&node.name) {
        Some(0) if graph.start.as_ref().is_some_and(|start| start.state == StartState::Installed) => marks = marks.with(Mark::Installed),
        Some(0) => marks = marks.with(Mark::Start),
        Some(1) => marks = marks.with(Mark::Next).with(Mark::Reachable),
        Some(_) => marks = marks.with(Mark::Reachable),
        None => {}
    }
    if node.deprecation.is_some() {
        marks = marks.with(Mark::Deprecated);
    }
    if node.place == Place::EntryWithoutBundle {
        marks = marks.with(Mark::Blocked);
    }
    if node.place == Place::Outside {
        marks = marks.with(Mark::Elsewhere);
    }
    let label = node.short();
    let mut details = Vec::new();
    if label != node.name {
        details.push(node.name.clone());
    }
    match node.place {
        Place::Entry => {}
        Place::EntryWithoutBundle => details.push("no bundle blob: cannot be installed".to_owned()),
        Place::Outside => details.push("not in this channel".to_owned()),
    }
    if let Some(range) = node.skip_range {
        details.push(format!("from {range}"));
    }
    if let Some(message) = node.deprecation {
        details.push(first_line(message).to_owned());
    }
    Node { id: node.name.clone(), label, details, marks }
}

/// The first line of a message: messages are written for pages, and a box has room for one line.
fn first_line(message: &str) -> &str {
    message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}
