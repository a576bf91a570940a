//! `mainstay catalog diff`: the changes between two catalogs, and the users whom they strand.

use std::fmt::Write as _;

use clap::Args;
use mainstay_catalog::Level;
use mainstay_catalog::diff::{BundleDiff, Change, ChannelDiff, Diff, EntryDiff, Finding, PackageDiff, Pair, Rule, SetDiff, diff};
use mainstay_diagnostics::counted;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format};

use super::content;
use mainstay_terminal::errors::InvalidArgument;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog diff REGISTRY/catalog:v1 ./catalog
  mainstay catalog diff old.json new.json --package beacon
  mainstay catalog diff old/ new/ --fail-on stranded,bundle-changed   exit 4 when somebody is left behind
  mainstay catalog diff old/ new/ -o json | jq '.findings[] | select(.rule == \"stranded\")'

Rules of findings: package-removed, channel-removed, stranded (a bundle lost its way to the head of its channel), bundle-changed (a
published bundle is not what it was), bundle-removed, head-back, default-channel-changed, deprecated.
Exit codes: 0 done, 1 a catalog cannot be read, 4 a finding of --fail-on.")]
pub struct Arguments {
    /// The catalog as it was: a directory, a file or an image
    old: String,
    /// The catalog as it is
    new: String,
    /// Only this package; may be given again
    #[arg(long = "package", short = 'p', value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Findings that make the exit code 4: rules, `error`, `warning`, or `any` for any difference; comma-separated
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = criterion)]
    fail_on: Vec<Criterion>,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

/// The criterion that makes a difference a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Criterion {
    Any,
    Level(Level),
    Rule(Rule),
}

fn criterion(text: &str) -> Result<Criterion, InvalidArgument> {
    let rule = |name: &str| Rule::ALL.into_iter().find(|rule| rule.name() == name).map(Criterion::Rule);
    match text {
        "any" => Ok(Criterion::Any),
        "error" => Ok(Criterion::Level(Level::Error)),
        "warning" => Ok(Criterion::Level(Level::Warning)),
        "info" => Ok(Criterion::Level(Level::Info)),
        name => rule(name).ok_or_else(|| {
            let names: Vec<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
            InvalidArgument(format!("expected any, error, warning, info or one of {}", names.join(", ")))
        }),
    }
}

impl Criterion {
    fn meets(self, difference: &Diff) -> bool {
        match self {
            Self::Any => !difference.is_empty(),
            Self::Level(level) => difference.findings.iter().any(|finding| finding.level <= level),
            Self::Rule(rule) => difference.findings.iter().any(|finding| finding.rule == rule),
        }
    }
}

/// Compares the catalogs, prints the difference, and applies the criterion.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (old, new) = (content::open(&arguments.old)?, content::open(&arguments.new)?);
    content::known_packages(&[&arguments.old, &arguments.new], &[&old, &new], &arguments.packages)?;
    let mut difference = diff(&old, &new);
    if !arguments.packages.is_empty() {
        let wanted = |package: &String| arguments.packages.contains(package);
        difference.packages.retain(|package| wanted(&package.package));
        difference.findings.retain(|finding| wanted(&finding.package));
        difference.others.clear();
    }
    if arguments.output.is_table() {
        output::print(&text(&difference))?;
    } else {
        let value = serde_json::to_value(&difference).map_err(|error| Failure::failed("difference", &error))?;
        output::value(&arguments.output, &value)?;
    }
    if arguments.fail_on.iter().any(|criterion| criterion.meets(&difference)) { Err(Failure::no()) } else { Ok(()) }
}

/// The difference as text.
fn text(difference: &Diff) -> String {
    if difference.is_empty() {
        return "The catalogs say the same.\n".to_owned();
    }
    let mut out = String::new();
    for package in &difference.packages {
        package_text(&mut out, package);
    }
    for other in &difference.others {
        put(&mut out, 0, &format!("{} blob {} {}", sign(other.change), other.schema, other.name));
    }
    out.push_str(&findings(&difference.findings));
    out
}

/// Findings, one per line with its hint below; used by `catalog ci`, too.
pub fn findings(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let mut subject = format!("package {}", finding.package);
        for (word, name) in [("channel", &finding.channel), ("bundle", &finding.bundle)] {
            if let Some(name) = name {
                subject = format!("{subject}, {word} {name}");
            }
        }
        put(&mut out, 0, &format!("{}: {}: {subject}: {}", finding.level.name(), finding.rule.name(), finding.message));
        if let Some(hint) = &finding.hint {
            put(&mut out, 0, &format!("hint: {hint}"));
        }
    }
    out
}

fn put(out: &mut String, indent: usize, line: &str) {
    // Writing to a string does not fail.
    let _written = writeln!(out, "{:indent$}{}", "", line.trim_end());
}

fn sign(change: Change) -> &'static str {
    match change {
        Change::Added => "+",
        Change::Removed => "-",
        Change::Changed => "~",
    }
}

fn pair(values: &Pair) -> String {
    let shown = |value: &Option<String>| {
        let text = value.as_deref().unwrap_or("none");
        let first: String = text.lines().next().unwrap_or_default().chars().take(80).collect();
        if first.len() < text.len() { format!("{first}…") } else { first }
    };
    format!("{} -> {}", shown(&values.old), shown(&values.new))
}

fn package_text(out: &mut String, package: &PackageDiff) {
    let size = match package.change {
        Change::Changed => String::new(),
        Change::Added | Change::Removed => {
            format!(" ({}, {})", counted(package.channels.len(), "channel"), counted(package.bundles.len(), "bundle"))
        }
    };
    put(out, 0, &format!("{} package {}{size}", sign(package.change), package.package));
    if package.change != Change::Changed {
        return;
    }
    for field in &package.fields {
        put(out, 2, &format!("~ {}: {}", field.field, pair(&field.values)));
    }
    for channel in &package.channels {
        channel_text(out, channel);
    }
    for bundle in &package.bundles {
        bundle_text(out, bundle);
    }
    for deprecation in &package.deprecations {
        let what =
            if deprecation.name.is_empty() { deprecation.schema.clone() } else { format!("{} {}", deprecation.schema, deprecation.name) };
        put(out, 2, &format!("{} deprecation of {what}: {}", sign(deprecation.change), pair(&deprecation.message)));
    }
    for other in &package.others {
        put(out, 2, &format!("{} blob {} {}", sign(other.change), other.schema, other.name));
    }
}

fn channel_text(out: &mut String, channel: &ChannelDiff) {
    let head = channel.head.as_ref().map(|head| format!(", head {}", pair(head))).unwrap_or_default();
    put(out, 2, &format!("{} channel {}{head}", sign(channel.change), channel.channel));
    for entry in channel.entries.iter().filter(|_| channel.change == Change::Changed) {
        put(out, 4, &format!("{} {}{}", sign(entry.change), entry.bundle, edges(entry)));
    }
}

fn edges(entry: &EntryDiff) -> String {
    let mut parts = Vec::new();
    let one = |values: &Pair| match (entry.change, &values.new, &values.old) {
        (Change::Added, Some(value), _) | (Change::Removed, _, Some(value)) => value.clone(),
        _ => pair(values),
    };
    if let Some(replaces) = &entry.replaces {
        parts.push(format!("replaces {}", one(replaces)));
    }
    if !entry.skips.is_empty() {
        parts.push(format!("skips {}", set(&entry.skips, entry.change)));
    }
    if let Some(range) = &entry.skip_range {
        parts.push(format!("skipRange {}", one(range)));
    }
    if parts.is_empty() { String::new() } else { format!("  ({})", parts.join("; ")) }
}

fn set(values: &SetDiff, change: Change) -> String {
    if change != Change::Changed {
        return values.added.iter().chain(&values.removed).cloned().collect::<Vec<_>>().join(", ");
    }
    let signed = |sign: &str, list: &[String]| list.iter().map(|value| format!("{sign}{value}")).collect::<Vec<_>>();
    [signed("+", &values.added), signed("-", &values.removed)].concat().join(", ")
}

fn bundle_text(out: &mut String, bundle: &BundleDiff) {
    put(out, 2, &format!("{} bundle {}", sign(bundle.change), bundle.bundle));
    if bundle.change != Change::Changed {
        return;
    }
    if let Some(image) = &bundle.image {
        put(out, 4, &format!("~ image {}", pair(image)));
    }
    for (name, values) in [
        ("provides", &bundle.provides),
        ("needs", &bundle.needs),
        ("property", &bundle.properties),
        ("related image", &bundle.related_images),
    ] {
        for value in &values.removed {
            put(out, 4, &format!("- {name} {value}"));
        }
        for value in &values.added {
            put(out, 4, &format!("+ {name} {value}"));
        }
    }
}
