//! `mainstay graph`: the update graph of a package (MS-EXPL-03, OLM1-QUERY-02).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_catalog::did_you_mean::nearest;
use mainstay_catalog::graph::{Start, StartState, UpdateGraph, picture};
use mainstay_catalog::{Index, PackageFacts, PackageView};
use mainstay_graph::{Charset, Colour, Mark, Picture, TextStyle};
use mainstay_operations::catalogs::{CatalogSnapshot, Unavailable};
use mainstay_operations::{Session, extensions};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, warn};
use mainstay_terminal::{catalogs, output, printable, runtime, screen};
use mainstay_versions::{ExtensionRange, Version};

/// Width of text if there is no terminal, in columns.
const WIDE: usize = 1000;
/// Names that are listed when a name is not known.
const NAMES: usize = 12;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay graph cert-manager                               the cluster's catalogs; what is installed, and what its extension holds back, is marked
  mainstay graph cert-manager --catalog catalog/            a directory, a file or an image; no cluster needed
  mainstay graph cert-manager --channel stable --from 1.12.2
  mainstay graph cert-manager --catalog catalog/ --out cert-manager.svg
  mainstay graph cert-manager -o dot | dot -Tpdf > cert-manager.pdf
  mainstay graph cert-manager -o json | jq -r '.panels[0].nodes[-1].id'

In the terminal the newest is above. A row that follows without a gap replaces the one below it; other edges are lines
beside the rows that lead up: a bundle with a line at its right can be updated to those above that the line enters (◄).

Exit codes: 0 drawn, 1 failed or bad input, 3 no such package, channel or bundle.")]
pub struct Arguments {
    /// The package
    package: String,
    /// A directory, a file or an image with a catalog, in place of those of the cluster; can be repeated
    #[arg(long, value_name = "PATH|REF")]
    catalog: Vec<String>,
    /// A channel to draw; can be repeated
    #[arg(long, value_name = "CHANNEL")]
    channel: Vec<String>,
    /// Where ways begin; without it, what is installed on the cluster
    #[arg(long, value_name = "VERSION|BUNDLE")]
    from: Option<String>,
    /// What to write; without it, what the ending of --out says, else text
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Form>,
    /// Write to a file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Draw text with ASCII alone
    #[arg(long)]
    ascii: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Rows and lines for a terminal
    Text,
    /// A picture
    Svg,
    /// Graphviz's language
    Dot,
    /// Mermaid's language
    Mermaid,
    /// Nodes and edges for programs
    Json,
}

impl Form {
    /// The form that a file's extension stands for; an extension of another form is refused.
    fn of(path: &Path) -> Result<Self, Failure> {
        Ok(match path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).as_deref() {
            None | Some("txt" | "text") => Self::Text,
            Some("svg") => Self::Svg,
            Some("dot" | "gv") => Self::Dot,
            Some("mmd" | "mermaid") => Self::Mermaid,
            Some("json") => Self::Json,
            Some(other) => {
                let message = format!("a graph cannot be written as .{other}; it can as .svg, .dot, .mmd, .json and .txt");
                return Err(Failure::new(Exit::Failed, format!("--out {}", path.display()), message)
                    .hint("mainstay graph PACKAGE --out FILE.svg draws one that browsers show"));
            }
        })
    }
}

/// Draws the graph.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let form = match (arguments.output, arguments.out.as_deref()) {
        (Some(form), _) => form,
        (None, Some(path)) => Form::of(path)?,
        (None, None) => Form::Text,
    };
    if arguments.ascii && form != Form::Text {
        return Err(Failure::new(Exit::Usage, "--ascii", "is for text, and another form is asked for").hint("leave --ascii out"));
    }
    if !arguments.catalog.is_empty() {
        let catalogs = catalogs::open_all(&arguments.catalog)?;
        let catalogs: Vec<NamedIndex<'_>> =
            catalogs.iter().map(|catalog| NamedIndex { name: &catalog.name, index: &catalog.index }).collect();
        return draw(arguments, form, &catalogs, None, None);
    }
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let snapshot = CatalogSnapshot::open(&session, None).await?;
        let mut catalogs = Vec::new();
        for catalog in snapshot.catalogs() {
            let subject = format!("catalog {}", catalog.name);
            match &catalog.content {
                Ok(content) => catalogs.push(NamedIndex { name: &catalog.name, index: &content.index }),
                Err(Unavailable::Off) => {}
                Err(Unavailable::NotServing(said) | Unavailable::Broken(said)) => warn(&subject, &format!("does not serve: {said}")),
                Err(Unavailable::Failed(problem)) => warn(&subject, &problem.to_string()),
            }
        }
        if catalogs.is_empty() {
            return Err(Failure::new(Exit::NotFound, format!("package {}", arguments.package), "the cluster has no catalog that serves")
                .hint("mainstay catalog add NAME --ref REGISTRY/CATALOG:TAG adds one, --catalog PATH reads one that is not on a cluster"));
        }
        let extension = extension(&session, &arguments.package).await?;
        draw(arguments, form, &catalogs, extension.as_ref().and_then(installed), extension.as_ref().map(Constraints::of).as_ref())
    })
}

/// A catalog with its content.
struct NamedIndex<'a> {
    name: &'a str,
    index: &'a Index<Vec<u8>>,
}

/// The cluster's extension of the package; if there are several, the one that has it installed.
async fn extension(session: &Session, package: &str) -> Result<Option<ClusterExtension>, Failure> {
    let mut all = extensions::all(session).await?;
    all.retain(|extension| extensions::package(extension) == package);
    all.sort_by_key(|extension| extensions::installed(extension).is_none());
    Ok(all.into_iter().next())
}

/// The installed bundle of the extension.
fn installed(extension: &ClusterExtension) -> Option<Start> {
    let bundle = extensions::installed(extension)?;
    Some(Start { version: Version::parse(&bundle.version).ok(), bundle: bundle.name, state: StartState::Installed })
}

/// Constraints of an extension.
struct Constraints {
    name: String,
    channels: Vec<String>,
    version: Option<(String, ExtensionRange)>,
}

impl Constraints {
    fn of(extension: &ClusterExtension) -> Self {
        let catalog = extension.spec.source.catalog.as_ref();
        let version = catalog.and_then(|catalog| catalog.version.clone());
        Self {
            name: extension.metadata.name.clone().unwrap_or_default(),
            channels: catalog.map(|catalog| catalog.channels.iter().map(|channel| channel.0.clone()).collect()).unwrap_or_default(),
            // An invalid range excludes nothing here; the extension's condition reports it.
            version: version.and_then(|text| ExtensionRange::parse(&text).ok().map(|range| (text, range))),
        }
    }

    /// Marks the bundles of the catalog that the extension would not take.
    fn mark(&self, graph: &UpdateGraph<'_>, drawn: &mut Picture) {
        for (channel, panel) in graph.channels.iter().zip(&mut drawn.panels) {
            let elsewhere = !self.channels.is_empty() && !self.channels.iter().any(|wanted| wanted == channel.name);
            if elsewhere {
                panel.notes.push(format!("extension {} does not follow this channel, but {}", self.name, self.channels.join(", ")));
            }
            for (node, shown) in channel.nodes.iter().zip(&mut panel.nodes) {
                let outside =
                    self.version.as_ref().filter(|(_, range)| node.version.as_ref().is_some_and(|version| !range.matches(version)));
                if let Some((text, _)) = outside {
                    shown.details.push(format!("held back: extension {} asks for {text}", self.name));
                } else if elsewhere {
                    shown.details.push("held back: another channel is asked for".to_owned());
                } else {
                    continue;
                }
                shown.marks = shown.marks.with(Mark::Blocked);
            }
        }
    }
}

fn draw(
    arguments: &Arguments,
    form: Form,
    catalogs: &[NamedIndex<'_>],
    installed: Option<Start>,
    constraints: Option<&Constraints>,
) -> Result<(), Failure> {
    let found: Vec<(&str, PackageFacts<'_>)> =
        catalogs.iter().filter_map(|catalog| Some((catalog.name, catalog.index.package_facts(&arguments.package)?))).collect();
    if found.is_empty() {
        let names: BTreeSet<&str> = catalogs.iter().flat_map(|catalog| catalog.index.packages().map(PackageView::name)).collect();
        return Err(unknown(format!("package {}", arguments.package), "no catalog has it", &arguments.package, &names));
    }
    let channels: BTreeSet<&str> = found.iter().flat_map(|(_, facts)| &facts.channels).map(|channel| channel.name).collect();
    if let Some(missing) = arguments.channel.iter().find(|channel| !channels.contains(channel.as_str())) {
        let subject = format!("channel {missing}");
        return Err(unknown(subject, &format!("package {} does not have it", arguments.package), missing, &channels));
    }
    let start = match &arguments.from {
        Some(text) => Some(start(text, &found)?),
        None => installed,
    };
    let picture = whole(arguments, &found, start.as_ref(), constraints)?;
    let text = write(&picture, form, arguments)?;
    match &arguments.out {
        None if form == Form::Json => output::json(&text),
        None => output::drawn(&text),
        Some(path) => std::fs::write(path, text).map_err(|error| Failure::failed(format!("file {}", path.display()), &error)),
    }
}

/// One picture of all catalogs that have the package.
fn whole(
    arguments: &Arguments,
    found: &[(&str, PackageFacts<'_>)],
    start: Option<&Start>,
    constraints: Option<&Constraints>,
) -> Result<Picture, Failure> {
    let several = found.len() > 1;
    let mut whole: Option<Picture> = None;
    for (catalog, facts) in found {
        let graph = UpdateGraph::new(facts, &arguments.channel, start.cloned())
            .map_err(|error| Failure::failed(format!("catalog {catalog}"), &error))?;
        let mut drawn = picture(&graph, None);
        if let Some(constraints) = constraints {
            constraints.mark(&graph, &mut drawn);
        }
        if several {
            for panel in &mut drawn.panels {
                panel.name = format!("{} in catalog {catalog}", panel.name);
            }
            let lines: Vec<String> = drawn.description.lines().map(|line| format!("In catalog {catalog}: {line}")).collect();
            drawn.description = lines.join("\n");
        }
        match &mut whole {
            None => whole = Some(drawn),
            Some(whole) => {
                whole.panels.extend(drawn.panels);
                if !whole.description.is_empty() && !drawn.description.is_empty() {
                    whole.description.push('\n');
                }
                whole.description.push_str(&drawn.description);
            }
        }
    }
    Ok(whole.unwrap_or_default())
}

/// The start of the paths: a bundle by its name or version, or a version that no catalog has.
fn start(text: &str, found: &[(&str, PackageFacts<'_>)]) -> Result<Start, Failure> {
    let bundles = || found.iter().flat_map(|(_, facts)| &facts.bundles);
    let version = Version::parse(text.strip_prefix('v').unwrap_or(text));
    let same = |of: Option<&str>| matches!((&version, of.map(Version::parse)), (Ok(asked), Some(Ok(of))) if *asked == of);
    if let Some(bundle) = bundles().find(|bundle| bundle.name == text).or_else(|| bundles().find(|bundle| same(bundle.version))) {
        let version = bundle.version.and_then(|version| Version::parse(version).ok());
        return Ok(Start { bundle: bundle.name.to_owned(), version, state: StartState::Asked });
    }
    let entries = || found.iter().flat_map(|(_, facts)| &facts.channels).flat_map(|channel| &channel.entries);
    let named = entries().any(|entry| entry.name == text || entry.replaces == Some(text) || entry.skips.contains(&text));
    match version {
        _ if named => Ok(Start { bundle: text.to_owned(), version: None, state: StartState::Asked }),
        // A version that was never in a catalog may still be one that a range updates.
        Ok(version) => Ok(Start { bundle: text.to_owned(), version: Some(version), state: StartState::Asked }),
        Err(_) => {
            let names: BTreeSet<&str> = bundles().map(|bundle| bundle.name).collect();
            Err(unknown(format!("bundle {text}"), "no catalog has it, and it is no version", text, &names))
        }
    }
}

/// A failure for a name that is not found, with names that exist.
fn unknown(subject: String, message: &str, text: &str, names: &BTreeSet<&str>) -> Failure {
    let failure = Failure::new(Exit::NotFound, subject, message);
    match nearest(text, names.iter().copied()) {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None if names.is_empty() => failure,
        None => {
            let listed: Vec<&str> = names.iter().copied().take(NAMES).collect();
            let more = if names.len() > listed.len() { format!(" and {} more", names.len() - listed.len()) } else { String::new() };
            failure.hint(format!("there are {}{more}", listed.join(", ")))
        }
    }
}

fn write(picture: &Picture, form: Form, arguments: &Arguments) -> Result<String, Failure> {
    let shown;
    let picture = if form == Form::Json {
        picture
    } else {
        // The viewer of the drawing, a terminal or a browser, must not obey anything that a catalog says.
        shown = printable::picture(picture.clone());
        &shown
    };
    let drawn = match form {
        Form::Text => mainstay_graph::text(picture, &style(arguments)),
        Form::Svg => mainstay_graph::svg(picture),
        Form::Dot => mainstay_graph::dot(picture),
        Form::Mermaid => mainstay_graph::mermaid(picture),
        Form::Json => mainstay_graph::json(picture).map(|value| format!("{value:#}\n")),
    };
    drawn.map_err(|error| Failure::failed(format!("package {}", arguments.package), &error).hint("--channel draws one channel alone"))
}

/// The style that suits the terminal; colours are removed again if the output does not show them.
fn style(arguments: &Arguments) -> TextStyle {
    let charset = if arguments.ascii { Charset::Ascii } else { Charset::Unicode };
    if arguments.out.is_some() {
        return TextStyle { width: WIDE, charset, colour: Colour::Without };
    }
    TextStyle { width: screen::columns().unwrap_or(WIDE), charset, colour: Colour::Ansi }
}
