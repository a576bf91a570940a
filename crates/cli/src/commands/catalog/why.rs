//! `mainstay catalog why`: the update path from one bundle to another, or the reason why there is none.

use std::fmt::Write as _;

use clap::Args;
use mainstay_catalog::parts::Parts;
use mainstay_catalog::reach::Edge;
use mainstay_catalog::why::{Answer, InChannel, Question, WhyError, why};
use mainstay_diagnostics::counted;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format};

use super::content;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog why beacon 1.0.0 1.2.0 --catalog ./catalog
  mainstay catalog why beacon beacon.v1.0.0 --catalog ./catalog --channel stable     to the head of the channel
  mainstay catalog why beacon 1.0.0 -c REGISTRY/catalog:v1 -o json

FROM and TO are bundles or versions; FROM may be a version that the catalog no longer has.
Exit codes: 0 there is a way, 1 the catalog cannot be read, 3 no such package, channel or bundle, 4 there is no way.")]
pub struct Arguments {
    /// The package
    package: String,
    /// What is installed
    from: String,
    /// What to get to; the heads of the channels when left out
    to: Option<String>,
    /// The catalog: a directory, a file or an image
    #[arg(long, short, value_name = "CATALOG")]
    catalog: String,
    /// Only this channel; may be given again
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<String>,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

/// Prints the answer.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let catalog = content::open(&arguments.catalog)?;
    let question =
        Question { package: &arguments.package, from: &arguments.from, to: arguments.to.as_deref(), channels: &arguments.channels };
    let answer = why(&question, &Parts::by_package(&catalog)).map_err(|error| failure(&arguments.catalog, &error))?;
    if arguments.output.is_table() {
        output::print(&text(&answer))?;
    } else {
        let value = serde_json::to_value(&answer).map_err(|error| Failure::failed("answer", &error))?;
        output::value(&arguments.output, &value)?;
    }
    if answer.reached { Ok(()) } else { Err(Failure::no()) }
}

fn failure(place: &str, error: &WhyError) -> Failure {
    let failure = Failure::of(Exit::NotFound, format!("catalog {place}"), error);
    match error {
        WhyError::NoPackage { near: Some(near), .. } => failure.hint(format!("there is a package {near}")),
        WhyError::NoBundle { near: Some(near), .. } => failure.hint(format!("there is a bundle {near}")),
        _ => failure,
    }
}

fn text(answer: &Answer) -> String {
    let mut out = String::new();
    for channel in &answer.channels {
        channel_text(&mut out, answer, channel);
    }
    for hint in &answer.hints {
        put(&mut out, &format!("hint: {hint}"));
    }
    out
}

fn channel_text(out: &mut String, answer: &Answer, channel: &InChannel) {
    let from = answer.from.shown();
    let to = channel.to.as_ref().map_or("", |to| to.shown());
    if !channel.reached {
        let way = if to.is_empty() { "no".to_owned() } else { format!("no way from {from} to {to}") };
        put(out, &format!("channel {}: {way}", channel.channel));
        channel.reasons.iter().for_each(|reason| put(out, &format!("  because {reason}")));
        return;
    }
    if channel.path.is_empty() {
        put(out, &format!("channel {}: {from} is what was asked for", channel.channel));
        return;
    }
    put(out, &format!("channel {}: {from} to {to} in {}", channel.channel, counted(channel.path.len(), "update")));
    let mut before = from;
    for step in &channel.path {
        let reason = match &step.edge {
            Edge::Replaces => format!("replaces {before}"),
            Edge::Skips => format!("skips {before}"),
            Edge::SkipRange { range } => format!("updates versions \"{range}\""),
        };
        let width = channel.path.iter().map(|step| step.to.shown().chars().count()).max().unwrap_or_default();
        put(out, &format!("  {:width$}   {reason}", step.to.shown()));
        before = step.to.shown();
    }
}

fn put(out: &mut String, line: &str) {
    // Writing to a string does not fail.
    let _written = writeln!(out, "{line}");
}
