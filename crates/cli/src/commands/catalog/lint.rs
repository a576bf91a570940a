//! `mainstay catalog lint`: findings about a catalog that validation does not make.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_catalog::lint::{Finding, Placed, Rule, compare_bundle, lint};
use mainstay_catalog::{Bundle, Level};
use mainstay_diagnostics::counted;
use mainstay_terminal::bundles;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use super::content::{self, LevelArgument};
use mainstay_terminal::errors::InvalidArgument;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog lint ./catalog
  mainstay catalog lint REGISTRY/catalog:v1 --level warning      exit 4 for warnings too
  mainstay catalog lint ./catalog --skip image-by-tag --skip api-providers
  mainstay catalog lint ./catalog --bundles ./bundles            compare with the directories the bundles were made of
  mainstay catalog lint --explain stranded

Findings are errors, warnings and infos. Infos are counted, and shown with --show info.
Exit codes: 0 no finding of --level, 1 the catalog cannot be read, 4 there are such findings.")]
pub struct Arguments {
    /// The catalog: a directory, a file or an image
    #[arg(required_unless_present_any = ["list_rules", "explain"])]
    catalog: Option<String>,
    /// Only this rule; may be given again
    #[arg(long = "rule", value_name = "RULE", value_parser = rule)]
    only: Vec<Rule>,
    /// Not this rule; may be given again
    #[arg(long, value_name = "RULE", value_parser = rule)]
    skip: Vec<Rule>,
    /// Only this package; may be given again
    #[arg(long = "package", short = 'p', value_name = "PACKAGE")]
    packages: Vec<String>,
    /// The least level that makes the exit code 4
    #[arg(long, value_enum, default_value_t = LevelArgument::Error, value_name = "LEVEL")]
    level: LevelArgument,
    /// The least level that is shown; machine output shows all
    #[arg(long, value_enum, default_value_t = LevelArgument::Warning, value_name = "LEVEL")]
    show: LevelArgument,
    /// A directory of bundle directories to compare the catalog's bundles with
    #[arg(long, value_name = "DIR")]
    bundles: Option<PathBuf>,
    /// Pull each bundle's image, and compare
    #[arg(long, conflicts_with = "bundles")]
    check_images: bool,
    /// List the rules
    #[arg(long, exclusive = true)]
    list_rules: bool,
    /// Explain a rule
    #[arg(long, value_name = "RULE", value_parser = rule, exclusive = true)]
    explain: Option<Rule>,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

fn rule(text: &str) -> Result<Rule, InvalidArgument> {
    Rule::named(text).ok_or_else(|| InvalidArgument("no such rule; mainstay catalog lint --list-rules shows them".to_owned()))
}

/// Checks the catalog, prints the findings and fails if they are severe enough.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.list_rules {
        return list_rules();
    }
    if let Some(rule) = arguments.explain {
        return output::line(explain(rule));
    }
    let Some(place) = &arguments.catalog else {
        return Err(Failure::new(Exit::Usage, "catalog lint", "names no catalog"));
    };
    let placed = content::open_placed(place)?;
    content::known_packages(&[place], &[&placed.catalog], &arguments.packages)?;
    let mut findings = lint(&placed);
    if let Some(directory) = &arguments.bundles {
        findings.extend(compare_directories(&placed, directory)?);
    }
    if arguments.check_images {
        findings.extend(compare_images(&placed));
    }
    findings.retain(|finding| {
        (arguments.only.is_empty() || arguments.only.contains(&finding.rule))
            && !arguments.skip.contains(&finding.rule)
            && (arguments.packages.is_empty() || arguments.packages.contains(&finding.package))
    });
    findings.sort_by_key(|finding| finding.level);
    if arguments.output.is_table() {
        output::print(&text(findings.clone(), arguments.show.into(), &root(place)))?;
    } else {
        output::value(&arguments.output, &value(&findings)?)?;
    }
    let worst: Level = arguments.level.into();
    if findings.iter().any(|finding| finding.level <= worst) { Err(Failure::no()) } else { Ok(()) }
}

fn list_rules() -> Result<(), Failure> {
    let mut table = Table::new(&["RULE", "LEVEL", "FINDS"]);
    for rule in Rule::ALL {
        table.row([rule.id(), rule.level().name(), rule.title()]);
    }
    table.print()
}

fn explain(rule: Rule) -> String {
    format!("{} ({})\n\n{}.\n{}\nhint: {}", rule.id(), rule.level().name(), rule.title(), rule.why(), rule.fix())
}

/// The findings for programs; `catalog ci` has the same form.
pub fn value(findings: &[Finding]) -> Result<Value, Failure> {
    let list = serde_json::to_value(findings).map_err(|error| Failure::failed("findings", &error))?;
    let number = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    Ok(json!({
        "findings": list,
        "errors": number(Level::Error), "warnings": number(Level::Warning), "infos": number(Level::Info),
    }))
}

/// The folder that the paths of findings begin in, as it was named.
fn root(place: &str) -> PathBuf {
    let path = Path::new(place);
    if path.is_dir() { path.to_owned() } else { path.parent().filter(|_| path.is_file()).map(Path::to_owned).unwrap_or_default() }
}

/// The findings as text: `FILE:LINE: level: rule: subject: message` by rule, each rule's fix once.
fn text(mut findings: Vec<Finding>, least: Level, root: &Path) -> String {
    let mut out = String::new();
    let number = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let summary = format!(
        "{}, {}, {}",
        counted(number(Level::Error), "error"),
        counted(number(Level::Warning), "warning"),
        counted(number(Level::Info), "info")
    );
    let all = findings.len();
    findings.retain(|finding| finding.level <= least);
    // By rule, so that each fix is printed once; by place inside.
    findings.sort_by_key(|finding| (finding.level, finding.rule, finding.fix));
    for (i, finding) in findings.iter().enumerate() {
        let place =
            if finding.path.is_empty() { String::new() } else { format!("{}:{}: ", root.join(&finding.path).display(), finding.line) };
        // Writing to a string does not fail.
        let _written = writeln!(
            out,
            "{place}{}: {}: {}{}{}",
            finding.level.name(),
            finding.rule.id(),
            subject(finding),
            field(finding),
            finding.message
        );
        if findings.get(i + 1).is_none_or(|next| next.fix != finding.fix) {
            let _written = writeln!(out, "hint: {}", finding.fix);
        }
    }
    let _written = writeln!(out, "{summary}{}", if all == findings.len() { "" } else { " (more with --show info)" });
    out
}

fn subject(finding: &Finding) -> String {
    let parts = [("package", &finding.package), ("channel", &finding.channel), ("bundle", &finding.bundle)];
    let named: Vec<String> = parts.iter().filter(|(_, name)| !name.is_empty()).map(|(word, name)| format!("{word} {name}")).collect();
    if named.is_empty() { String::new() } else { format!("{}: ", named.join(", ")) }
}

fn field(finding: &Finding) -> String {
    if finding.field.is_empty() { String::new() } else { format!("{}: ", finding.field) }
}

/// Compares the bundles of the catalog with the bundle directories below one directory.
fn compare_directories(placed: &Placed, directory: &Path) -> Result<Vec<Finding>, Failure> {
    let mut rendered: BTreeMap<(String, String), Bundle> = BTreeMap::new();
    let places = bundles::find(directory)?.bundles;
    if places.is_empty() {
        let subject = format!("bundles {}", directory.display());
        return Err(Failure::new(Exit::Failed, subject, "there is no directory with manifests and metadata below it"));
    }
    for place in places {
        match content::bundle(&place.display().to_string()) {
            Ok(bundle) => {
                rendered.insert((bundle.package.to_string(), bundle.name.to_string()), bundle);
            }
            Err(failure) => note(format!("bundle directory {} is left out: {}", place.display(), failure.message())),
        }
    }
    let both = placed.catalog.bundles.iter().filter_map(|said| {
        let key = (said.package.to_string(), said.name.to_string());
        rendered.get(&key).map(|rendered| (said, rendered))
    });
    let mut compared = 0;
    let findings = both
        .filter_map(|(said, rendered)| {
            compared += 1;
            compare_bundle(placed, said, Ok(rendered))
        })
        .collect();
    note(format!("{compared} of {} were compared with their directories", counted(placed.catalog.bundles.len(), "bundle")));
    Ok(findings)
}

fn compare_images(placed: &Placed) -> Vec<Finding> {
    let compare = |said: &Bundle| match content::bundle(&said.image) {
        Ok(rendered) => compare_bundle(placed, said, Ok(&rendered)),
        Err(failure) => compare_bundle(placed, said, Err(failure.message())),
    };
    placed.catalog.bundles.iter().filter(|bundle| !bundle.image.is_empty()).filter_map(compare).collect()
}
