//! `opm alpha render-template` (CATLG-50, CATLG-64, CATLG-65).

use std::fs::File;
use std::io::Read as _;

use clap::Args;
use mainstay_catalog::graph::{Mermaid, mermaid};
use mainstay_catalog::template::{Kind as Type, Rendered, Template};
use mainstay_catalog::{Catalog, Format, Icon, render};
use mainstay_catalog_refs::{Access, Kind, Level, embedded_csv, migrate};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;

use super::render_graph;
use crate::Global;
use crate::init::words;
use crate::render::{level_help, load, parse_level};

/// The largest template that is read.
const MAX_TEMPLATE: u64 = 256 << 20;

/// Arguments.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Compile a catalog template to a catalog.

TYPE is basic, semver or substitutes; without it the schema of the file decides. FILE is read from standard input when it is '-' or not
given. A single argument that is the name of a type is the type.",
    after_help = "\
Examples:
  opm alpha render-template semver template.yaml -o yaml > catalog/catalog.yaml
  opm alpha render-template template.yaml -o mermaid
  opm alpha render-template < template.yaml"
)]
pub struct Arguments {
    #[arg(value_name = "TYPE")]
    first: Option<String>,
    #[arg(value_name = "FILE")]
    second: Option<String>,
    /// Output format (json|yaml|mermaid)
    #[arg(short, long, default_value = "json")]
    output: String,
    #[arg(long, default_value = "", help = level_help())]
    migrate_level: String,
}

/// Prints the catalog.
pub fn run(arguments: &Arguments, global: Global) -> Result<(), Failure> {
    let (kind, file) = match (arguments.first.as_deref(), arguments.second.as_deref()) {
        (None, _) => (None, None),
        (Some(only), None) => match Type::named(only) {
            Some(kind) => (Some(kind), None),
            None => (None, Some(only)),
        },
        (Some(kind), Some(file)) => {
            let types: Vec<&str> = Type::ALL.iter().map(|kind| kind.name()).collect();
            let unknown = || fail(format!("invalid template type {kind:?}, must be one of: [{}]", types.join(" ")));
            (Some(Type::named(kind).ok_or_else(unknown)?), Some(file))
        }
    };
    let input = Input::of(file);
    let opened = read(&input).map_err(|error| match &input {
        Input::File(name) => fail(format!("unable to open {name:?}: open {name}: {}", words(&error))),
        Input::Stdin => fail(format!("unable to open \"stdin\": {}", words(&error))),
    });
    let bytes = opened?;
    let output = Output::parse(&arguments.output)?;
    global.check().map_err(|failure| fail(format!("creating containerd registry: {}", failure.message())))?;
    let level = parse_level(&arguments.migrate_level)?;

    let (doing, text) = (if kind.is_some() { "rendering template" } else { "auto-detecting template type" }, String::from_utf8(bytes));
    let text = text.map_err(|_| fail(format!("{doing}: the template is not UTF-8 text")))?;
    let parsed = kind.map_or_else(|| Template::parse(&text), |kind| Template::parse_as(kind, &text));
    let template = parsed.map_err(|error| fail(format!("{doing}: {error}")))?;
    let kind = match kind {
        Some(kind) => kind,
        None => template.kind().map_err(|error| fail(format!("{doing}: {error}")))?,
    };
    let client = || global.client();
    let access = Access::as_opm(&client, Kind::OPM_TEMPLATE);
    let mut hints = Vec::new();
    let compiled = template.compile(kind, &mut |reference| {
        bundle(reference, &access, level).map_err(|failure| {
            hints.extend(failure.hints().iter().cloned());
            failure.to_line().into()
        })
    });
    let catalog = compiled.map_err(|error| {
        let failure = fail(format!("rendering template: {error}"));
        hints.into_iter().fold(failure, Failure::hint)
    })?;
    match output {
        Output::Blobs(format) => output::stream(format, |out| render(&catalog, format, out)),
        Output::Mermaid => draw(&catalog),
    }
}

fn draw(catalog: &Catalog) -> Result<(), Failure> {
    let drawing = mermaid(catalog, &Mermaid::default()).map_err(|error| fail(format!("writing output: {error}")))?;
    render_graph::print(&drawing)
}

/// A bundle's entry, and the facts about the package in its CSV.
fn bundle(reference: &str, access: &Access<'_>, level: Level) -> Result<Rendered, Failure> {
    let mut catalog = load(reference, access)?;
    let csv = catalog.bundles.first().and_then(embedded_csv).unwrap_or_default();
    migrate(&mut catalog, level).map_err(|error| fail(error.to_line()))?;
    let icon = &csv["spec"]["icon"][0];
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let icon = icon.is_object().then(|| Icon { base64data: text(&icon["base64data"]), mediatype: text(&icon["mediatype"]) });
    Ok(Rendered { bundles: catalog.bundles, description: text(&csv["spec"]["description"]), icon })
}

/// The form of the written catalog.
enum Output {
    Blobs(Format),
    Mermaid,
}

impl Output {
    fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "json" => Ok(Self::Blobs(Format::Json)),
            "yaml" => Ok(Self::Blobs(Format::Yaml)),
            "mermaid" => Ok(Self::Mermaid),
            other => Err(fail(format!("invalid --output value {other:?}, expected (json|yaml|mermaid)"))),
        }
    }
}

/// The source of a template or catalog.
pub(super) enum Input {
    Stdin,
    File(String),
}

impl Input {
    /// Standard input for `-` and for nothing, else the file.
    pub(super) fn of(file: Option<&str>) -> Self {
        match file {
            None | Some("-") => Self::Stdin,
            Some(file) => Self::File(file.to_owned()),
        }
    }

    /// The name of the input.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Stdin => "stdin",
            Self::File(name) => name,
        }
    }
}

/// Reads all of the input.
pub(super) fn read(input: &Input) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match input {
        Input::Stdin => std::io::stdin().lock().take(MAX_TEMPLATE + 1).read_to_end(&mut bytes)?,
        Input::File(path) => File::open(path)?.take(MAX_TEMPLATE + 1).read_to_end(&mut bytes)?,
    };
    if bytes.len() as u64 > MAX_TEMPLATE {
        return Err(std::io::Error::other(format!("larger than {MAX_TEMPLATE} bytes")));
    }
    Ok(bytes)
}

fn fail(message: String) -> Failure {
    Failure::new(Exit::Failed, "template", message)
}
