//! `mainstay operatorgroup intersect`: which OperatorGroups share namespaces and APIs (OLM0-OG-22, OLM0-OG-23).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mainstay_olm_classic_core::cases as classic;
use mainstay_olm_classic_core::groups::{self, OperatorGroup, Reconciliation};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use super::csv::answered;
use crate::cases;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Which groups share target namespaces, and what that means for the APIs of a member
    Intersect(Intersect),
}

/// Arguments of `operatorgroup intersect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl get operatorgroups -A -o yaml > groups.yaml && mainstay operatorgroup intersect groups.yaml
  mainstay operatorgroup intersect groups.yaml --group lights/og --apis Beacon.v1.lights.example.com
  mainstay operatorgroup intersect --cases questions.jsonl

With --cases every line is {\"input\": {\"add\": [API], \"group\", \"others\": [...]}}, a group being {\"name\", \"namespace\",
\"statusNamespaces\", \"providedAPIsAnnotation\"}; an API is Kind.version.group.

-o json gives a list of {\"name\", \"namespace\", \"targets\", \"providedAPIs\", \"intersects\", \"conflicts\"}, with --group one of {\"result\",
\"groupIntersection\", \"providedAPIs\"}: RemoveAPIs, AddAPIs, APIConflict or NoAPIConflict.

Exit codes: 0 done, 4 the member conflicts with another group, 3 no such group, 1 bad input.")]
pub struct Intersect {
    /// A file with OperatorGroups
    #[arg(required_unless_present = "cases", value_name = "FILE")]
    groups: Option<PathBuf>,
    /// The group of a new member
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "apis", conflicts_with = "cases")]
    group: Option<String>,
    /// The APIs that the member provides, comma-separated
    #[arg(long, value_name = "API", value_delimiter = ',', requires = "group")]
    apis: Vec<String>,
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "groups")]
    cases: Option<PathBuf>,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    let Commands::Intersect(arguments) = command;
    if let Some(path) = &arguments.cases {
        cases::check_format(&arguments.output, &Format::Table)?;
        return cases::answer(path, |case| {
            let answer = classic::intersection(&case["input"]).map_err(|error| Failure::failed("case", &error))?;
            Ok(answered(case, answer))
        });
    }
    let groups = read(arguments.groups.as_deref().unwrap_or(Path::new("-")))?;
    match &arguments.group {
        Some(name) => verdict(&arguments, &groups, name),
        None => list(&arguments.output, &groups),
    }
}

fn read(path: &Path) -> Result<Vec<OperatorGroup>, Failure> {
    let subject = format!("operatorgroups {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| Failure::failed(&subject, &error))?;
    let mut groups = Vec::new();
    for document in mainstay_yaml::stream(&text) {
        let document = document.map_err(|error| Failure::failed(&subject, &error))?.value;
        let items = document["items"].as_array().cloned().unwrap_or_else(|| vec![document]);
        for object in items.iter().filter(|object| !object.is_null()) {
            if object["kind"] != "OperatorGroup" {
                let found = object["kind"].as_str().unwrap_or("no kind");
                return Err(Failure::new(Exit::Failed, subject, format!("expected OperatorGroups, found {found}")));
            }
            groups.push(group(object));
        }
    }
    Ok(groups)
}

fn group(object: &Value) -> OperatorGroup {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let list = |pointer: &str| {
        let items = object.pointer(pointer).and_then(Value::as_array)?;
        Some(items.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
    };
    // Without a controller there is no status; what is asked for then counts.
    let targets = list("/status/namespaces").or_else(|| list("/spec/targetNamespaces"));
    let annotation = text("/metadata/annotations/olm.providedAPIs");
    OperatorGroup::new(text("/metadata/name"), text("/metadata/namespace"), &targets.unwrap_or_else(|| vec![String::new()]), annotation)
}

fn name(group: &OperatorGroup) -> String {
    format!("{}/{}", group.namespace, group.name)
}

fn targets(group: &OperatorGroup) -> String {
    if group.is_global() { "all".to_owned() } else { group.targets.iter().cloned().collect::<Vec<_>>().join(",") }
}

fn list(format: &Format, groups: &[OperatorGroup]) -> Result<(), Failure> {
    let mut table = Table::new(&["GROUP", "TARGETS", "INTERSECTS", "CONFLICTS"]);
    let mut told = Vec::new();
    for group in groups {
        let sharing = group.intersecting(groups);
        let intersects: Vec<String> = sharing.iter().map(|other| name(other)).collect();
        let of_others: BTreeSet<&String> = sharing.iter().flat_map(|other| &other.provided).collect();
        let conflicts: Vec<&str> = group.provided.iter().filter(|api| of_others.contains(api)).map(String::as_str).collect();
        table.row([name(group), targets(group), intersects.join(","), conflicts.join(",")]);
        told.push(json!({
            "name": group.name, "namespace": group.namespace, "targets": group.targets, "providedAPIs": group.provided,
            "intersects": intersects, "conflicts": conflicts,
        }));
    }
    if format.is_table() { table.print() } else { output::value(format, &json!(told)) }
}

fn verdict(arguments: &Intersect, groups: &[OperatorGroup], wanted: &str) -> Result<(), Failure> {
    let Some(group) = groups.iter().find(|group| name(group) == wanted) else {
        let all: Vec<String> = groups.iter().map(name).collect();
        return Err(Failure::new(Exit::NotFound, format!("operatorgroup {wanted}"), "is not in the file")
            .hint(format!("the file has {}", all.join(", "))));
    };
    let member = groups::apis(&arguments.apis.join(","));
    if member.len() != arguments.apis.iter().collect::<BTreeSet<_>>().len() {
        return Err(Failure::new(Exit::Failed, "--apis", "an API is Kind.version.group, such as Beacon.v1.lights.example.com"));
    }
    let result = group.reconcile(&member, groups);
    let sharing: Vec<String> = group.intersecting(groups).into_iter().map(name).collect();
    let after = match result {
        Reconciliation::AddApis => group.provided.union(&member).cloned().collect(),
        Reconciliation::RemoveApis => group.provided.difference(&member).cloned().collect(),
        Reconciliation::Conflict | Reconciliation::NoConflict => group.provided.clone(),
    };
    if arguments.output.is_table() {
        let written = if after.is_empty() { "empty".to_owned() } else { groups::annotation(&after) };
        output::line(match result {
            Reconciliation::AddApis => format!("{wanted} takes the member: its annotation becomes {written}"),
            Reconciliation::RemoveApis => {
                format!("{wanted} no longer claims what {} provides, too: its annotation becomes {written}", sharing.join(", "))
            }
            Reconciliation::NoConflict => format!("{wanted} takes the member; nothing changes"),
            Reconciliation::Conflict => {
                format!("the member would fail with InterOperatorGroupOwnerConflict: {} provides its APIs", sharing.join(", "))
            }
        })?;
    } else {
        output::value(&arguments.output, &json!({"result": result.as_str(), "groupIntersection": sharing, "providedAPIs": after}))?;
    }
    if result == Reconciliation::Conflict { Err(Failure::silent(Exit::Impossible)) } else { Ok(()) }
}
